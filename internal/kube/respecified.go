package kube

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// SameSpec says whether an update of an object has left its spec as it was. One that was deleted and created again while a watch was
// broken off comes as an update, too, and may have the generation of the one before.
func SameSpec(before, after client.Object) bool {
	return before.GetGeneration() == after.GetGeneration() && before.GetUID() == after.GetUID()
}

// Respecified lets the updates through by which an object has another spec, and all that comes and goes.
var Respecified predicate.Predicate = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool { return !SameSpec(e.ObjectOld, e.ObjectNew) },
}
