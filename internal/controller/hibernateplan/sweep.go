package hibernateplan

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// sweeping has each pass clear away what plans of its name have left that are gone, and looks again when there may be more.
func (r *Reconciler) sweeping(next reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		var wait time.Duration
		result, err := kube.Sweeping(next, func(ctx context.Context, plan types.NamespacedName) (err error) {
			wait, err = r.sweepAll(ctx, plan)
			return err
		}).Reconcile(ctx, request)
		if err == nil {
			result.RequeueAfter = sooner(result.RequeueAfter, wait)
		}
		return result, err
	})
}

// sweepAll clears the Jobs away that are over and whose plans are gone without it, because somebody has taken the
// finalizer off, and with each what its runner was granted. Restore points stay. The wait is when another of them is over; 0 is when
// it says so.
func (r *Reconciler) sweepAll(ctx context.Context, plan types.NamespacedName) (wait time.Duration, err error) {
	orphans, wait, err := r.orphansOf(ctx, plan)
	problems := []error{err}
	for i := range orphans {
		problems = append(problems, r.sweep(ctx, plan, &orphans[i]))
	}
	return wait, errors.Join(problems...)
}

// orphansOf are the Jobs of a plan's name that are over and are not of the one that has it now, which the server must say: they have
// ended, or were stopped by somebody else for so long that their runners have given up.
func (r *Reconciler) orphansOf(ctx context.Context, at types.NamespacedName) (_ []unstructured.Unstructured, wait time.Duration, err error) {
	jobs, err := kube.List(ctx, r.Client, jobGVK, client.InNamespace(r.Options.Namespace), client.MatchingFields{indexOwner: at.String()}, client.UnsafeDisableDeepCopy)
	if err != nil || len(jobs) == 0 {
		return nil, 0, err
	}
	owner := &v1alpha1.HibernatePlan{}
	if err := r.Client.Get(ctx, at, owner, client.UnsafeDisableDeepCopy); client.IgnoreNotFound(err) != nil {
		return nil, 0, err
	}
	s := &scope{Reconciler: r, owner: &v1alpha1.HibernatePlan{}, now: r.Options.Clock.Now()}
	jobs = slices.DeleteFunc(jobs, func(job unstructured.Unstructured) bool {
		return marks.Owns(owner, &job) || !finished(&job) && !s.lost(&job)
	})
	if len(jobs) == 0 {
		return nil, s.seen.Stops, nil
	}
	now := kube.Metadata(planGVK)
	if err := r.Live.Get(ctx, at, now); client.IgnoreNotFound(err) != nil {
		return nil, 0, err
	}
	return slices.DeleteFunc(jobs, func(job unstructured.Unstructured) bool { return marks.Owns(now, &job) }), s.seen.Stops, nil
}

func (r *Reconciler) sweep(ctx context.Context, plan types.NamespacedName, job *unstructured.Unstructured) error {
	s := &scope{Reconciler: r, owner: &v1alpha1.HibernatePlan{}}
	s.owner.Namespace, s.owner.Name, s.owner.UID = plan.Namespace, plan.Name, types.UID(job.GetLabels()[v1alpha1.LabelUID])
	at := client.ObjectKeyFromObject(job).String()
	log.FromContext(ctx).Info("Clearing away a Job whose HibernatePlan is gone", "job", at)
	if err := s.remove(ctx, roleGVK, s.names().role(job.GetLabels()[v1alpha1.LabelTarget])); err != nil {
		return err
	}
	return s.clear(ctx, &execution{JobRef: at, ConnectorSecretRef: at})
}
