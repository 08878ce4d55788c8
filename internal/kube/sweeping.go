package kube

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// sweepShare is of how many parts of its time an object spends one at most on what another of its name has left.
const sweepShare = 4

// Sweeping has each pass clear away what an owner of its name has left that was forced away, because somebody has taken the finalizer
// off. That comes last, with time of its own: who has the name now must not wait for what of another cannot be cleared away, as by a policy
// of others, nor that for passes whose time webhooks of others take. What has hung is left to a later pass for three times as long. A manager
// that is being stopped leaves it to the next. The wait is when there may be more to clear away; 0 is when an event tells of that.
func Sweeping(next reconcile.Reconciler, sweep func(ctx context.Context, name types.NamespacedName) (wait time.Duration, err error)) reconcile.Reconciler {
	var rests sync.Map // when to sweep again, by name
	now := clock.RealClock{}
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		result, err := next.Reconcile(ctx, request)
		if stopping(ctx) {
			return result, err
		}
		until, _ := rests.Load(request.NamespacedName)
		if at, hung := until.(time.Time); hung && now.Now().Before(at) {
			if err == nil {
				result.RequeueAfter = Sooner(result.RequeueAfter, at.Sub(now.Now()))
			}
			return result, err
		}
		own, cancel := afresh(ctx)
		defer cancel()
		began := now.Now()
		wait, problem := sweep(own, request.NamespacedName)
		rests.Delete(request.NamespacedName)
		if took := now.Since(began); took > Patience {
			rests.Store(request.NamespacedName, now.Now().Add((sweepShare-1)*took))
		}
		if err == nil && problem != nil && result.RequeueAfter > 0 && result.RequeueAfter <= lastRetry {
			log.FromContext(ctx).Info("What is left of an owner that is gone is tried again by the next pass", "cause", problem.Error())
			problem = nil
		}
		if err = errors.Join(err, problem); err == nil {
			result.RequeueAfter = Sooner(result.RequeueAfter, wait)
		}
		return result, err
	})
}
