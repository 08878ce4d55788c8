package kube

import (
	"context"
	"fmt"
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

// Slots let so many do something at the same time. Who takes longer than its patience is not counted any more, but for that
// no more than twice as many are at it.
type Slots struct {
	patience time.Duration
	// free has an element for each that may begin, and all one for each beside those that are at it.
	free, all chan struct{}
}

// NewSlots are so many.
func NewSlots(count int, patience time.Duration) *Slots {
	s := &Slots{patience: patience, free: make(chan struct{}, count), all: make(chan struct{}, 2*count)}
	for range count {
		s.release()
		s.all <- struct{}{}
		s.all <- struct{}{}
	}
	return s
}

func (s *Slots) release() { s.free <- struct{}{} }

// take waits for an element.
func take(ctx context.Context, of chan struct{}) error {
	select {
	case <-of:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for what is done at the same time: %w", context.Cause(ctx))
	}
}

// hold begins the time of whoever has taken one, until it is let go.
func (s *Slots) hold() (letGo func()) {
	timer := time.AfterFunc(s.patience, s.release)
	return func() {
		if timer.Stop() {
			s.release()
		}
	}
}

// Do waits until one is free, and does something with it. No slots at all bound nothing.
func (s *Slots) Do(ctx context.Context, do func() error) error {
	if s == nil {
		return do()
	}
	if err := take(ctx, s.all); err != nil {
		return err
	}
	defer func() { s.all <- struct{}{} }()
	if err := take(ctx, s.free); err != nil {
		return err
	}
	defer s.hold()()
	return do()
}

// patientQueue is a queue that gives an object away only where a pass may begin: until then, which one is the most urgent can change.
type patientQueue struct {
	priorityqueue.PriorityQueue[reconcile.Request]

	slots *Slots

	mu sync.Mutex
	// held has for each object that is acted on what ends the time of its pass.
	held map[reconcile.Request]func()
}

func newPatientQueue(queue priorityqueue.PriorityQueue[reconcile.Request], count int, patience time.Duration) *patientQueue {
	return &patientQueue{PriorityQueue: queue, slots: NewSlots(count, patience), held: map[reconcile.Request]func(){}}
}

// GetWithPriority waits until a pass may begin, and for an object.
func (q *patientQueue) GetWithPriority() (reconcile.Request, int, bool) {
	<-q.slots.free
	request, priority, down := q.PriorityQueue.GetWithPriority()
	if down { // one after the other all who wait are let go
		q.slots.release()
		return request, priority, down
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held[request] = q.slots.hold()
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
	letGo := q.held[request]
	delete(q.held, request)
	q.mu.Unlock()
	q.PriorityQueue.Done(request)
	if letGo != nil {
		letGo()
	}
}
