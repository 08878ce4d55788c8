package kube

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// echo is the priority of a child's creation: nearly always the answer to our own write, which
// asks for nothing. It comes after new owners, which have 0, and before the initial lists.
const echo = -10

// Enqueue maps an object to requests of a priority: the higher, the sooner. Where much is under
// way, what is nearer to its end must not wait for what has just begun, or everything ends
// at the same time, late.
func Enqueue(fn handler.MapFunc, priority int) handler.EventHandler {
	return EnqueueBy(fn, func() int { return priority })
}

// EnqueueBy is Enqueue with a priority that is that of the moment.
func EnqueueBy(fn handler.MapFunc, priority func() int) handler.EventHandler {
	add := func(ctx context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request], priority int, objects ...client.Object) {
		for _, o := range objects {
			for _, request := range fn(ctx, o) {
				addWithPriority(q, request, priority)
			}
		}
	}
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			if e.IsInInitialList {
				add(ctx, q, handler.LowPriority, e.Object)
				return
			}
			add(ctx, q, echo, e.Object)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion() {
				add(ctx, q, handler.LowPriority, e.ObjectNew)
				return
			}
			// The old one may have named another owner; the queue takes each request once.
			add(ctx, q, priority(), e.ObjectOld, e.ObjectNew)
		},
		DeleteFunc:  func(ctx context.Context, e event.DeleteEvent, q queue) { add(ctx, q, priority(), e.Object) },
		GenericFunc: func(ctx context.Context, e event.GenericEvent, q queue) { add(ctx, q, priority(), e.Object) },
	}
}

// NewFirst lets those through to the queue that are not protected by a finalizer yet, and were there when the manager began:
// as soon as any that is created later. Thousands that are settled, which ask for nothing, would be looked at before one that
// was created while no manager ran, or in the moment in which it started.
func NewFirst(finalizer string) handler.EventHandler {
	unprotected := Unprotected(finalizer)
	return handler.Funcs{CreateFunc: func(_ context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		if e.IsInInitialList && unprotected.Create(e) {
			addWithPriority(q, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.Object)}, 0)
		}
	}}
}

// addWithPriority adds to the queue of a controller; one without priorities takes it as it is.
func addWithPriority(q workqueue.TypedRateLimitingInterface[reconcile.Request], request reconcile.Request, priority int) {
	if prioritized, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		prioritized.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, request)
		return
	}
	q.Add(request)
}
