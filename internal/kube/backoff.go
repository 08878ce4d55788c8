package kube

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// firstRetry is long enough for a person's fix of two objects in a row, and for a cache.
	firstRetry = 200 * time.Millisecond
	// lastRetry bounds how long an object stands still after the cause of its error is gone.
	lastRetry = time.Minute
)

// Backoff is how objects are tried again after errors: 0.2 s, doubling up to a minute.
func Backoff() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry)
}
