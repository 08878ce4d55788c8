package kube

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// conflictDelay is how long the cache is given to catch up.
const conflictDelay = 100 * time.Millisecond

// QuietConflicts turns a conflict into another look: the cache was behind, which is
// nothing that anybody must know of.
func QuietConflicts(r reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		result, err := r.Reconcile(ctx, req)
		if apierrors.IsConflict(err) {
			log.FromContext(ctx).V(1).Info("Object changed meanwhile, looking again", "cause", err.Error())
			return reconcile.Result{RequeueAfter: conflictDelay}, nil
		}
		return result, err
	})
}
