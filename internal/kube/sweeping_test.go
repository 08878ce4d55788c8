package kube

import (
	"context"
	"errors"
	"testing"

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
		}), func(ctx context.Context, _ types.NamespacedName) error {
			swept = ctx.Err() == nil
			return ctx.Err()
		})
		if _, err := all.Reconcile(test.pass, reconcile.Request{}); swept != test.sweep || !errors.Is(err, test.pass.Err()) {
			t.Errorf("%s: it sweeps: %v, and says %v", name, swept, err)
		}
	}
}
