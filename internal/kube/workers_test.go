package kube

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// working takes objects from a queue with as many workers as Workers asks for, and tells of each whose pass begins.
type working struct {
	queue priorityqueue.PriorityQueue[reconcile.Request]
	began chan string
}

// work has each object take as long as hang says.
func work(t *testing.T, count int, hang func(name string) time.Duration) *working {
	t.Helper()
	options := Workers(count, Patience, time.Minute)
	w := &working{began: make(chan string, 100)}
	w.queue = options.NewQueue("test", options.RateLimiter).(priorityqueue.PriorityQueue[reconcile.Request])
	for range options.MaxConcurrentReconciles {
		go func() {
			for {
				request, _, down := w.queue.GetWithPriority()
				if down {
					return
				}
				w.began <- request.Name
				time.Sleep(hang(request.Name))
				w.queue.Done(request)
			}
		}()
	}
	return w
}

func (w *working) add(priority int, names ...string) {
	for _, name := range names {
		w.queue.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(priority)}, request("a", name))
	}
}

// since are those that have begun after the time.
func (w *working) since(d time.Duration) (names []string) {
	time.Sleep(d)
	synctest.Wait()
	for {
		select {
		case name := <-w.began:
			names = append(names, name)
		default:
			return names
		}
	}
}

func hangs(name string) time.Duration {
	if name == "quick" {
		return time.Millisecond
	}
	return 10 * time.Second
}

// who is hanging-0, hanging-1, and so on.
func who(count int) (names []string) {
	for i := range count {
		names = append(names, fmt.Sprintf("hanging-%d", i))
	}
	return names
}

func TestPassesThatHangAreNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := work(t, 2, hangs)
		defer synctest.Wait()
		defer w.queue.ShutDown()
		w.add(0, who(5)...)
		if got := w.since(Patience / 2); len(got) != 2 {
			t.Errorf("2 passes may begin at the same time, but %v do", got)
		}
		w.add(10, "quick")
		if got := w.since(Patience); len(got) != 3 || got[0] != "quick" && got[1] != "quick" {
			t.Errorf("After %s two more may begin, and what is urgent is the first, but it was %v", Patience, got)
		}
		w.since(5 * Patience)
		w.add(0, "quick")
		if got := w.since(Patience / 2); len(got) != 1 {
			t.Errorf("While five hang, another begins at once, but it was %v", got)
		}
		w.since(time.Minute)
		w.add(0, "hanging-0", "hanging-1", "hanging-2")
		if got := w.since(Patience / 2); len(got) != 2 {
			t.Errorf("When all are over, still no more than 2 may begin at the same time, but %v do", got)
		}
		w.since(time.Minute)
	})
}

func TestNoMorePassesHangThanWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := work(t, 2, func(string) time.Duration { return time.Hour })
		defer func() { w.queue.ShutDown(); time.Sleep(time.Hour) }()
		w.add(0, who(100)...)
		if got := w.since(time.Minute); len(got) != 2+hanging {
			t.Errorf("%d of 100 hang, and not %d", len(got), 2+hanging)
		}
	})
}

func TestOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := work(t, 1, hangs)
		defer func() { w.queue.ShutDown(); time.Sleep(time.Minute) }()
		w.add(0, who(3)...)
		if got := w.since(hangs("") - time.Millisecond); len(got) != 1 {
			t.Errorf("One at a time, but there were %v", got)
		}
	})
}

func TestWorkersThatWaitAreLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails where a worker is left
		w := work(t, 2, hangs)
		w.add(0, "hanging-0")
		w.since(time.Millisecond)
		w.queue.ShutDown()
		w.since(hangs(""))
	})
}

func TestTheGateIsLeftByWhatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newGateLab(t, 1)
		first, second := request("a", "first"), request("a", "second")
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = l.gate.Wrap(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
				if !l.gate.Enter(object(first)) {
					t.Error("Nobody is inside, and the first may not begin")
				}
				time.Sleep(10 * time.Second)
				return reconcile.Result{RequeueAfter: AtOnce}, nil
			})).Reconcile(t.Context(), first)
		}()
		time.Sleep(gatePatience / 2)
		if l.pass(second, reconcile.Result{}, nil) {
			t.Error("The second begins beside the first")
		}
		time.Sleep(gatePatience)
		l.expectWoken("a/second")
		if !l.pass(second, reconcile.Result{}, nil) {
			t.Error("The second may not begin while the first hangs")
		}
		<-ended
		if !l.pass(first, reconcile.Result{}, nil) {
			t.Error("The first may not go on")
		}
	})
}

// What a pass does before it begins, as to wait for the cache, costs it no place.
func TestTheGateWaitsForThoseThatItHasWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newGateLab(t, 1)
		first, second := request("a", "first"), request("a", "second")
		_, _ = l.gate.Wrap(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			l.gate.Enter(object(first))
			if l.pass(second, reconcile.Result{}, nil) {
				t.Error("The second begins beside the first")
			}
			return reconcile.Result{}, nil
		})).Reconcile(t.Context(), first)
		l.expectWoken("a/second")
		_, _ = l.gate.Wrap(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			time.Sleep(2 * gatePatience)
			if !l.gate.Enter(object(second)) {
				t.Error("The second was woken, and may not begin")
			}
			if l.pass(first, reconcile.Result{}, nil) {
				t.Error("The first begins beside the second")
			}
			return reconcile.Result{}, nil
		})).Reconcile(t.Context(), second)
		l.expectWoken("a/first")
	})
}

// What is urgent again and again, as what somebody's pods change all the time, has nobody wait for good: neither what is new, nor what is to
// be looked at later, nor what is tried again. It stays as urgent as it was.
func TestWhoWaitsLongestHasItsTurn(t *testing.T) {
	patient, busy := request("a", "patient"), request("b", "busy")
	for name, add := range map[string]func(q priorityqueue.PriorityQueue[reconcile.Request]){
		"new": func(q priorityqueue.PriorityQueue[reconcile.Request]) { q.Add(patient) },
		"of a list": func(q priorityqueue.PriorityQueue[reconcile.Request]) {
			q.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(handler.LowPriority)}, patient)
		},
		"later":       func(q priorityqueue.PriorityQueue[reconcile.Request]) { q.AddAfter(patient, time.Second) },
		"tried again": func(q priorityqueue.PriorityQueue[reconcile.Request]) { q.AddRateLimited(patient) },
	} {
		t.Run(name, func(t *testing.T) {
			for _, count := range []int{1, 2} {
				synctest.Test(t, func(t *testing.T) {
					options := Workers(count, Patience, time.Minute)
					q := options.NewQueue("test", options.RateLimiter).(priorityqueue.PriorityQueue[reconcile.Request])
					defer func() { q.ShutDown(); time.Sleep(time.Minute) }()
					add(q)
					for began := range 1000 {
						q.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(20)}, busy)
						next, priority, _ := q.GetWithPriority()
						if next == busy && priority != 20 {
							t.Fatalf("what is busy has the priority %d", priority)
						}
						time.Sleep(100 * time.Millisecond)
						q.Done(next)
						if next == patient {
							if priority > 0 {
								t.Errorf("it is added again with the priority %d", priority)
							}
							if began > 30 {
								t.Errorf("it had its turn after %d others", began)
							}
							return
						}
					}
					t.Error("it is never looked at")
				})
			}
		})
	}
}

// Who cannot be next, because his pass hangs, takes nobody's turn.
func TestWhoHangsTakesNoTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		options := Workers(2, Patience, time.Minute)
		q := options.NewQueue("test", options.RateLimiter).(priorityqueue.PriorityQueue[reconcile.Request])
		defer func() { q.ShutDown(); time.Sleep(time.Minute) }()
		for i := range 6 {
			q.Add(request("a", fmt.Sprint("hangs-", i)))
			hangs, _, _ := q.GetWithPriority()
			q.Add(hangs)
			time.Sleep(2 * Patience)
		}
		patient, busy := request("a", "patient"), request("b", "busy")
		q.Add(patient)
		for began := range 1000 {
			q.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(20)}, busy)
			next, _, _ := q.GetWithPriority()
			time.Sleep(100 * time.Millisecond)
			q.Done(next)
			if next == patient {
				if began > 2*fair {
					t.Errorf("it had its turn after %d others", began)
				}
				return
			}
		}
		t.Error("it is never looked at")
	})
}

// Nothing has a turn before it is to be looked at.
func TestNobodyHasItsTurnEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := work(t, 2, func(string) time.Duration { return 0 })
		defer func() { w.queue.ShutDown(); time.Sleep(time.Minute) }()
		w.queue.AddAfter(request("a", "later"), time.Hour)
		for range 10 * fair {
			w.add(20, "busy")
			if got := w.since(time.Millisecond); slices.Contains(got, "later") {
				t.Fatal("it is looked at before it is time")
			}
		}
	})
}

// Who waits longest of a hundred thousand, as at a start, is not looked for among all of them: each look would take milliseconds.
func BenchmarkTurnsOfMany(b *testing.B) {
	options := Workers(2, Patience, time.Minute)
	q := options.NewQueue("test", options.RateLimiter).(*patientQueue)
	defer q.ShutDown()
	for i := range 100_000 {
		q.Add(request("a", fmt.Sprint("patient-", i)))
	}
	for b.Loop() {
		q.takeTurns()
	}
	if w := q.waiting[request("a", "patient-0")]; !w.first {
		b.Error("who has waited longest has no turn")
	}
}
