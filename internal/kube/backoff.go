package kube

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// firstRetry is long enough for a person's fix of two objects in a row, and for a cache.
	firstRetry = 200 * time.Millisecond
	// lastRetry bounds how long an object stands still after the cause of its error is gone.
	lastRetry = time.Minute
)

// Backoff is how objects are tried again after errors: after 0.2 s, and as long as they have failed by now,
// up to a minute. Alone that doubles with every attempt, as those of client-go do. It does not with attempts
// that something else has woken: those of a busy object would be minutes apart after an error of seconds.
func Backoff() workqueue.TypedRateLimiter[reconcile.Request] {
	return &backoff{clock: clock.RealClock{}, failing: map[reconcile.Request]failure{}}
}

// Again is when to look again at what is no error and has been as it is for so long, of which nobody tells when it ends:
// as late as after an error, and not before first is over.
func Again(since time.Duration, first time.Duration) time.Duration {
	return min(max(since, first), lastRetry)
}

type backoff struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	failing map[reconcile.Request]failure
}

// failure is since when an object fails, and how often it has.
type failure struct {
	since time.Time
	times int
}

// When is how long an object waits that has just failed.
func (b *backoff) When(r reconcile.Request) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now()
	f, known := b.failing[r]
	if !known {
		f.since = now
	}
	f.times++
	b.failing[r] = f
	return min(firstRetry+now.Sub(f.since), lastRetry)
}

// Forget says that it does not fail any more.
func (b *backoff) Forget(r reconcile.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.failing, r)
}

// NumRequeues is how often it has failed.
func (b *backoff) NumRequeues(r reconcile.Request) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failing[r].times
}
