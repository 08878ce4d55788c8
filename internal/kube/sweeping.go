package kube

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Sweeping has each pass clear away what an owner of its name has left that was forced away, because somebody has taken the finalizer
// off. That comes last, with time of its own: who has the name now must not wait for what of another cannot be cleared away, as by a policy
// of others, nor that for passes whose time webhooks of others take. A manager that is being stopped leaves it to the next.
func Sweeping(next reconcile.Reconciler, sweep func(ctx context.Context, name types.NamespacedName) error) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		result, err := next.Reconcile(ctx, request)
		if stopping(ctx) {
			return result, err
		}
		own, cancel := afresh(ctx)
		defer cancel()
		problem := sweep(own, request.NamespacedName)
		if err == nil && problem != nil && result.RequeueAfter > 0 && result.RequeueAfter <= lastRetry {
			log.FromContext(ctx).Info("What is left of an owner that is gone is tried again by the next pass", "cause", problem.Error())
			return result, nil
		}
		return result, errors.Join(err, problem)
	})
}
