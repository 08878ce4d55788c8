package kube

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Told remembers what this process has written of objects last, mostly their statuses, so that it is not woken by them, and is by those that it
// did not know of: a manager that starts may find its objects as they were a moment ago, want just what their statuses
// said then, and so write nothing. Nothing else would tell it that they say something else by now.
type Told struct {
	mu    sync.Mutex
	known *lru.Cache // resourceVersion by UID
	// heard are the resourceVersions that came while a status was being written, by UID: the watch may be faster than the
	// answer to the write, and which of them are of others is known by that.
	heard map[types.UID][]string
	// gone are the UIDs of those whose finalizer was dropped a moment ago.
	gone *cache.Expiring
}

// NewTold remembers the statuses of some thousand objects. One that it has forgotten wakes once more than it must.
func NewTold() *Told {
	return &Told{known: lru.New(4096), heard: map[types.UID][]string{}, gone: cache.NewExpiring()}
}

// Write does a write of an object, which returns its resourceVersion, empty if it was not written, and says whether others have
// written it meanwhile, which nobody was woken by. Of one object there is one such write at a time.
func (t *Told) Write(uid types.UID, write func() (version string)) (others bool) {
	if t == nil {
		write()
		return false
	}
	version := ""
	t.writing(uid)
	defer func() { others = t.wrote(uid, version) }()
	version = write()
	return others
}

// writing is called before an object is written.
func (t *Told) writing(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heard[uid] = nil
}

// wrote is called after it was written, with its resourceVersion; empty if it was not.
func (t *Told) wrote(uid types.UID, version string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	heard := t.heard[uid]
	delete(t.heard, uid)
	if version != "" {
		t.known.Add(uid, version)
	}
	return slices.ContainsFunc(heard, func(v string) bool { return v != version })
}

// letGo is called when the finalizer of an object was dropped.
func (t *Told) letGo(uid types.UID) {
	if t != nil && uid != "" {
		t.gone.Set(uid, true, lag)
	}
}

// lag is how far a cache is behind at most. An object that is still there later came back with a backup.
const lag = time.Minute

// LetGo says whether this process has just dropped the finalizer of an object: the cache has it as it was before, there is
// nothing to do for it and nobody to tell. The wait is when to look again; 0 if it has not.
func (t *Told) LetGo(o client.Object) time.Duration {
	if t == nil || o.GetDeletionTimestamp() == nil {
		return 0
	}
	if _, gone := t.gone.Get(o.GetUID()); gone {
		return lag
	}
	return 0
}

// Wakes says whether what has come of an object is something that somebody must look at now.
func (t *Told) Wakes(uid types.UID, version string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, known := t.known.Get(uid); known && last == version {
		return false
	}
	heard, writing := t.heard[uid]
	if writing {
		t.heard[uid] = append(heard, version)
	}
	return !writing
}

// ByOthers lets the updates through that have changed what status says of an object, and were not written by this process.
func (t *Told) ByOthers(status func(client.Object) any) predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			same := equality.Semantic.DeepEqual(status(e.ObjectOld), status(e.ObjectNew))
			return !same && t.Wakes(e.ObjectNew.GetUID(), e.ObjectNew.GetResourceVersion())
		},
	}
}
