package kube

import (
	"context"
	"errors"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// QuietConflicts turns conflicts into another look, after the delay of an error: the cache
// was behind, which is nothing that anybody must know of. Neither is what a manager that is being
// stopped could not finish, the wait for its cache for instance.
func QuietConflicts(r reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		result, err := r.Reconcile(ctx, req)
		if err != nil && stopping(ctx) {
			return reconcile.Result{}, nil
		}
		if err != nil && Conflict(err) {
			log.FromContext(ctx).V(1).Info("Object changed meanwhile, looking again", "cause", err.Error())
			// RequeueAfter would forget how often this has happened.
			return reconcile.Result{Requeue: true}, nil //nolint:staticcheck,forbidigo // the only requeue that backs off without an error
		}
		return result, err
	})
}

// stopping says whether the manager is being stopped: nothing else cancels a pass, whose own time
// runs out.
func stopping(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// Conflict says whether an error is nothing but conflicts. One that an admission webhook makes up,
// to protect an object for instance, has their code and a reason of its own: it lasts.
func Conflict(err error) bool {
	for _, e := range Errors(err) {
		if apierrors.ReasonForError(e) != metav1.StatusReasonConflict {
			return false
		}
	}
	return true
}

// Errors takes joined errors apart, in their order.
func Errors(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var out []error
	for _, e := range joined.Unwrap() {
		out = append(out, Errors(e)...)
	}
	return out
}

// Reasons of errors as conditions say them.
const (
	// ReasonNameTaken: an object of somebody else has the name that a child needs.
	ReasonNameTaken = "NameTaken"
	// ReasonContended: somebody changes or deletes a child again and again.
	ReasonContended = "Contended"
	// ReasonForbidden: the manager may not do it.
	ReasonForbidden = "Forbidden"
	// ReasonRejected: the API server refuses what was written.
	ReasonRejected = "Rejected"
	// ReasonStatusTooLarge: an Event's, as the status cannot be written.
	ReasonStatusTooLarge = "StatusTooLarge"
	// ReasonReconcileError: any other error, which may pass.
	ReasonReconcileError = "ReconcileError"
)

// Reason is that of an error; of several, that of the first which lasts.
func Reason(err error) string {
	for _, e := range Errors(err) {
		var taken *NameTakenError
		var contended *ContendedError
		switch {
		case errors.As(e, &taken):
			return ReasonNameTaken
		case errors.As(e, &contended):
			return ReasonContended
		case apierrors.IsForbidden(e):
			return ReasonForbidden
		case apierrors.IsInvalid(e), apierrors.IsBadRequest(e):
			return ReasonRejected
		}
	}
	return ReasonReconcileError
}

// OfError says whether a reason is one that errors have (Reason).
func OfError(reason string) bool {
	return slices.Contains([]string{ReasonNameTaken, ReasonContended, ReasonForbidden, ReasonRejected, ReasonReconcileError}, reason)
}

// Message is an error as a condition says it; of several, all, in their order.
func Message(err error) string {
	var all []string
	for _, e := range Errors(err) {
		all = append(all, e.Error())
	}
	s := strings.Join(all, "; ")
	return strings.ToUpper(s[:1]) + s[1:]
}
