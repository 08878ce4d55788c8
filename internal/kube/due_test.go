package kube

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// What has failed for long is tried again after a minute, and is looked at before where it asks for that, once.
func TestDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		options := Workers(1, Patience, time.Minute)
		queue := options.NewQueue("test", options.RateLimiter).(priorityqueue.PriorityQueue[reconcile.Request])
		defer queue.ShutDown()
		asks, d := time.Duration(0), &Due{}
		if err := d.Start(t.Context(), queue); err != nil {
			t.Fatal(err)
		}
		failing := d.Wrap(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			return reconcile.Result{RequeueAfter: asks}, errors.New("refused")
		}))
		// pass is one as the controller runs it, and says how long it was waited for.
		pass := func() time.Duration {
			began := time.Now()
			r, _, _ := queue.GetWithPriority()
			waited := time.Since(began)
			if result, err := failing.Reconcile(t.Context(), r); err == nil || result != (reconcile.Result{}) {
				t.Errorf("the controller is told %+v, %v", result, err)
			}
			queue.AddWithOpts(priorityqueue.AddOpts{RateLimited: true, Priority: ptr.To(7)}, r)
			queue.Done(r)
			return waited
		}
		queue.Add(request("a", "b"))
		for range 12 {
			pass()
		}
		for _, wait := range []struct{ asks, waits time.Duration }{
			{10 * time.Second, 10 * time.Second}, {0, time.Minute}, {time.Hour, time.Minute}, {59 * time.Second, 59 * time.Second}, {0, time.Minute},
		} {
			asks = wait.asks
			pass()
			asks = 0
			if waited := pass(); waited != wait.waits {
				t.Errorf("one that asks for %s is looked at after %s, want %s", wait.asks, waited, wait.waits)
			}
		}
	})
}

// A pass without an error is the controller's.
func TestDueWithoutAnError(t *testing.T) {
	want := reconcile.Result{RequeueAfter: time.Second, Priority: ptr.To(3)}
	result, err := (&Due{}).Wrap(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return want, nil })).Reconcile(t.Context(), request("a", "b"))
	if err != nil || result != want {
		t.Errorf("the controller is told %+v, %v", result, err)
	}
}
