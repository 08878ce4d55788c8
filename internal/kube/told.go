package kube

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Told remembers which statuses this process has written last, so that it is not woken by them, and is by those that it
// did not know of: a manager that starts may find its objects as they were a moment ago, want just what their statuses
// said then, and so write nothing. Nothing else would tell it that they say something else by now.
type Told struct {
	known *lru.Cache // resourceVersion by UID
}

// NewTold remembers the statuses of some thousand objects. One that it has forgotten wakes once more than it must.
func NewTold() *Told { return &Told{known: lru.New(4096)} }

// Wrote takes an object in as the server has it after a status of it was written.
func (t *Told) Wrote(o client.Object) {
	t.known.Add(o.GetUID(), o.GetResourceVersion())
}

func (t *Told) wrote(uid types.UID, version string) bool {
	last, known := t.known.Get(uid)
	return known && last == version
}

// ByOthers lets the updates through that have changed a status and were not written by this process. same compares two
// statuses.
func (t *Told) ByOthers(same func(before, after client.Object) bool) predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return !t.wrote(e.ObjectNew.GetUID(), e.ObjectNew.GetResourceVersion()) && !same(e.ObjectOld, e.ObjectNew)
		},
	}
}
