package kube

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Sweeping has each pass clear away what an owner of its name has left that was forced away, because somebody has taken the finalizer
// off. That comes last: who has the name now must not wait for what of another cannot be cleared away, as by a policy of others.
func Sweeping(next reconcile.Reconciler, sweep func(ctx context.Context, name types.NamespacedName) error) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		result, err := next.Reconcile(ctx, request)
		problem := sweep(ctx, request.NamespacedName)
		if err == nil && problem != nil && result.RequeueAfter > 0 && result.RequeueAfter <= lastRetry {
			log.FromContext(ctx).Info("What is left of an owner that is gone is tried again by the next pass", "cause", problem.Error())
			return result, nil
		}
		return result, errors.Join(err, problem)
	})
}
