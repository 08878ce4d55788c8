package kube

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Due looks at an object again at the time that its pass asks for beside an error, which the controller would forget: what is due by the
// clock is not put off to when errors are tried again. It is a source of the controller, which it wakes, and wraps its reconciler. Of the
// two times the queue takes the sooner one, and that alone.
type Due struct {
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// Start takes the queue of the controller. It is for the manager.
func (d *Due) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	d.queue = queue
	return nil
}

// Wrap is the reconciler whose passes are heard.
func (d *Due) Wrap(next reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		result, err := next.Reconcile(ctx, request)
		if err == nil {
			return result, nil
		}
		if result.RequeueAfter > 0 && result.RequeueAfter < lastRetry { // by then it is tried again anyway, and asks again
			d.queue.AddAfter(request, result.RequeueAfter)
		}
		return reconcile.Result{}, err
	})
}
