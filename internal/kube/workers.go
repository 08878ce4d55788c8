package kube

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"k8s.io/utils/third_party/forked/golang/btree"
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
	// fair is of how many passes one goes to whoever has waited longest, however much is more urgent: what is changed all the time,
	// as the Applications of somebody whose pods come and go, would have what is new, or over, wait for good.
	fair = 8
	// nextUp is the priority of that one.
	nextUp = 1000
)

// Workers are the options of a controller that acts on so many objects at the same time, for up to timeout each. A pass that
// takes longer than patience is not counted: a webhook of somebody else's that hangs, or a conversion of their kinds, takes ten
// or thirty seconds of each request, and as many objects as that would keep all others from being looked at. But one at a time
// means one at a time, whatever it waits for.
func Workers(count int, patience, timeout time.Duration) controller.Options {
	limits := controller.Options{MaxConcurrentReconciles: count, ReconciliationTimeout: timeout, RateLimiter: Backoff()}
	if count > 1 {
		limits.MaxConcurrentReconciles += hanging
	}
	limits.NewQueue = func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		return newPatientQueue(priorityqueue.New(name, func(o *priorityqueue.Opts[reconcile.Request]) { o.RateLimiter = limiter }), limiter, count, patience)
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

	limiter workqueue.TypedRateLimiter[reconcile.Request]
	slots   *Slots
	clock   clock.PassiveClock

	mu sync.Mutex
	// held has for each object that is acted on what ends the time of its pass.
	held map[reconcile.Request]func()
	// waiting has those that are in the queue, and order the same, who waits longest first, so that how long they wait changes by
	// wait alone; given is how many passes have begun.
	waiting map[reconcile.Request]*waits
	order   *btree.BTree[*waits]
	given   int
}

// waits is how an object waits in the queue.
type waits struct {
	request reconcile.Request
	// priority is the highest that it was added with.
	priority int
	// since is when it is to be looked at.
	since time.Time
	// last is when it was added last.
	last time.Time
	// first says that it is next.
	first bool
}

// longer says whether one has waited longer than another.
func longer(a, b *waits) bool {
	return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.request.Namespace, b.request.Namespace), cmp.Compare(a.request.Name, b.request.Name)) < 0
}

func newPatientQueue(
	queue priorityqueue.PriorityQueue[reconcile.Request], limiter workqueue.TypedRateLimiter[reconcile.Request], count int, patience time.Duration,
) *patientQueue {
	return &patientQueue{
		PriorityQueue: queue, limiter: limiter, slots: NewSlots(count, patience), clock: clock.RealClock{},
		held: map[reconcile.Request]func(){}, waiting: map[reconcile.Request]*waits{}, order: btree.New(32, longer),
	}
}

// AddWithOpts adds objects, and notes how they wait.
func (q *patientQueue) AddWithOpts(o priorityqueue.AddOpts, requests ...reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, request := range requests {
		after, priority := o.After, ptr.Deref(o.Priority, 0)
		if o.RateLimited { // the limiter counts how often it is asked
			if wait := q.limiter.When(request); after == 0 || wait < after {
				after = wait
			}
		}
		at := q.clock.Now()
		now := waits{request: request, priority: priority, since: at.Add(after), last: at}
		if w, known := q.waiting[request]; known {
			now.priority, now.first = max(w.priority, priority), w.first
			if w.since.Before(now.since) {
				now.since = w.since
			}
		}
		q.wait(now)
		q.PriorityQueue.AddWithOpts(priorityqueue.AddOpts{After: after, Priority: &priority}, request)
	}
}

// wait notes how an object waits by now.
func (q *patientQueue) wait(now waits) {
	q.leave(now.request)
	q.order.ReplaceOrInsert(&now)
	q.waiting[now.request] = &now
}

// leave takes an object out of those that wait.
func (q *patientQueue) leave(request reconcile.Request) {
	if w := q.waiting[request]; w != nil {
		q.order.Delete(w)
		delete(q.waiting, request)
	}
}

// Add is AddWithOpts.
func (q *patientQueue) Add(request reconcile.Request) {
	q.AddWithOpts(priorityqueue.AddOpts{}, request)
}

// AddAfter is AddWithOpts.
func (q *patientQueue) AddAfter(request reconcile.Request, after time.Duration) {
	q.AddWithOpts(priorityqueue.AddOpts{After: after}, request)
}

// AddRateLimited is AddWithOpts.
func (q *patientQueue) AddRateLimited(request reconcile.Request) {
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, request)
}

// takeTurns has every so many times whoever waits longest be the first.
func (q *patientQueue) takeTurns() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.given++; q.given%fair != 0 {
		return
	}
	var longest *waits
	q.order.AscendLessThan(&waits{since: q.clock.Now()}, func(w *waits) bool {
		if _, now := q.held[w.request]; !now && !w.first { // one that is held cannot be next before its pass is over
			longest = w
		}
		return longest == nil
	})
	if longest != nil {
		longest.first = true
		q.PriorityQueue.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(nextUp)}, longest.request)
	}
}

// GetWithPriority waits until a pass may begin, and for an object.
func (q *patientQueue) GetWithPriority() (reconcile.Request, int, bool) {
	<-q.slots.free
	q.takeTurns()
	request, priority, down := q.PriorityQueue.GetWithPriority()
	taken := q.clock.Now()
	if down { // one after the other all who wait are let go
		q.slots.release()
		return request, 0, down
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held[request] = q.slots.hold()
	w := ptr.Deref(q.waiting[request], waits{}) // whose clock stands still may have taken it out
	if priority == nextUp {                     // it is added again with its own
		priority = w.priority
	}
	if w.last.After(taken) { // it was added again since
		w.since, w.first = w.last, false
		q.wait(w)
	} else {
		q.leave(request)
	}
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
