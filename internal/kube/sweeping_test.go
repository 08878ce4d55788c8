package kube

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// What is left of an owner that is gone is cleared away also where each pass over the one that has its name takes all of its time, but not
// by a manager that is being stopped.
func TestSweepingTakesItsTime(t *testing.T) {
	over, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for name, test := range map[string]struct {
		pass  context.Context
		sweep bool
	}{"in time": {t.Context(), true}, "its time is over": {over, true}, "the manager is being stopped": {stopped, false}} {
		swept := false
		all := Sweeping(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
			return reconcile.Result{}, ctx.Err()
		}), func(ctx context.Context, _ types.NamespacedName) (time.Duration, error) {
			swept = ctx.Err() == nil
			return 0, ctx.Err()
		})
		if _, err := all.Reconcile(test.pass, reconcile.Request{}); swept != test.sweep || !errors.Is(err, test.pass.Err()) {
			t.Errorf("%s: it sweeps: %v, and says %v", name, swept, err)
		}
	}
}

// What hangs while it is cleared away takes a quarter of the time of who has the name now, and is tried again all the same.
func TestSweepThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		passes, sweeps := 0, 0
		all := Sweeping(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			passes++
			return reconcile.Result{}, nil
		}), func(ctx context.Context, _ types.NamespacedName) (time.Duration, error) {
			sweeps++
			<-ctx.Done()
			return 0, ctx.Err()
		})
		began := time.Now()
		var result reconcile.Result
		for range 20 {
			result, _ = all.Reconcile(t.Context(), reconcile.Request{})
		}
		if took := time.Since(began); took > finishTimeout || result.RequeueAfter != 3*finishTimeout {
			t.Errorf("%d passes take %s, and the next one is in %s", passes, took, result.RequeueAfter)
		}
		time.Sleep(result.RequeueAfter)
		if _, err := all.Reconcile(t.Context(), reconcile.Request{}); err == nil || sweeps != 2 {
			t.Errorf("it was tried %d times, and says %v", sweeps, err)
		}
	})
}
