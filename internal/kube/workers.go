package kube

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// Patience is how long a pass keeps another from beginning, where nearly all are over in a tenth of it.
	Patience = time.Second
	// hanging is how many passes may hang beside those that may begin at the same time. An API server that has too much to do
	// answers late, too, and must not have much more to do for that.
	hanging = 28
)

// Workers are the options of a controller that acts on so many objects at the same time, for up to timeout each. A pass that
// takes longer than patience is not counted: a webhook of somebody else's that hangs, or a conversion of their kinds, takes ten
// or thirty seconds of each request, and as many objects as that would keep all others from being looked at. But one at a time
// means one at a time, whatever it waits for.
func Workers(count int, patience, timeout time.Duration) controller.Options {
	limits := controller.Options{MaxConcurrentReconciles: count, ReconciliationTimeout: timeout, RateLimiter: Backoff()}
	if count == 1 {
		return limits
	}
	limits.MaxConcurrentReconciles += hanging
	limits.NewQueue = func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		return newPatientQueue(priorityqueue.New(name, func(o *priorityqueue.Opts[reconcile.Request]) { o.RateLimiter = limiter }), count, patience)
	}
	return limits
}

// patientQueue is a queue that gives an object away only where a pass may begin: until then, which one is the most urgent can change.
type patientQueue struct {
	priorityqueue.PriorityQueue[reconcile.Request]

	patience time.Duration
	// free has an element for each pass that may begin.
	free chan struct{}

	mu sync.Mutex
	// counted has a pass begin for each object that is acted on, when that has taken too long.
	counted map[reconcile.Request]*time.Timer
}

func newPatientQueue(queue priorityqueue.PriorityQueue[reconcile.Request], count int, patience time.Duration) *patientQueue {
	q := &patientQueue{PriorityQueue: queue, patience: patience, free: make(chan struct{}, count), counted: map[reconcile.Request]*time.Timer{}}
	for range count {
		q.release()
	}
	return q
}

func (q *patientQueue) release() { q.free <- struct{}{} }

// GetWithPriority waits until a pass may begin, and for an object.
func (q *patientQueue) GetWithPriority() (reconcile.Request, int, bool) {
	<-q.free
	request, priority, down := q.PriorityQueue.GetWithPriority()
	if down { // one after the other all who wait are let go
		q.release()
		return request, priority, down
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.counted[request] = time.AfterFunc(q.patience, q.release)
	return request, priority, down
}

// Get is GetWithPriority.
func (q *patientQueue) Get() (reconcile.Request, bool) {
	request, _, down := q.GetWithPriority()
	return request, down
}

// Done ends the pass of an object.
func (q *patientQueue) Done(request reconcile.Request) {
	q.mu.Lock()
	counted := q.counted[request]
	delete(q.counted, request)
	q.mu.Unlock()
	q.PriorityQueue.Done(request)
	if counted != nil && counted.Stop() {
		q.release()
	}
}
