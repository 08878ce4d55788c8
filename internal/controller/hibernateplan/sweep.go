package hibernateplan

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// sweepAll clears the Jobs away that have ended and whose plans are gone without it, because somebody has taken the
// finalizer off, and with each what its runner was granted. Restore points stay.
func (r *Reconciler) sweepAll(ctx context.Context, plan types.NamespacedName) error {
	orphans, err := r.orphansOf(ctx, plan)
	problems := []error{err}
	for i := range orphans {
		problems = append(problems, r.sweep(ctx, plan, &orphans[i]))
	}
	return errors.Join(problems...)
}

// orphansOf are the Jobs of a plan's name that have ended and are not of the one that has it now, which the server must
// say.
func (r *Reconciler) orphansOf(ctx context.Context, at types.NamespacedName) ([]unstructured.Unstructured, error) {
	jobs, err := kube.List(ctx, r.Client, jobGVK, client.InNamespace(r.Options.Namespace), client.MatchingFields{indexOwner: at.String()}, client.UnsafeDisableDeepCopy)
	if err != nil || len(jobs) == 0 {
		return nil, err
	}
	owner := &v1alpha1.HibernatePlan{}
	if err := r.Client.Get(ctx, at, owner, client.UnsafeDisableDeepCopy); client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	foreign := func(job unstructured.Unstructured) bool { return !marks.Owns(owner, &job) && finished(&job) }
	if !slices.ContainsFunc(jobs, foreign) {
		return nil, nil
	}
	now := kube.Metadata(planGVK)
	if err := r.Live.Get(ctx, at, now); client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	return slices.DeleteFunc(jobs, func(job unstructured.Unstructured) bool { return marks.Owns(now, &job) || !finished(&job) }), nil
}

func (r *Reconciler) sweep(ctx context.Context, plan types.NamespacedName, job *unstructured.Unstructured) error {
	s := &scope{Reconciler: r, owner: &v1alpha1.HibernatePlan{}}
	s.owner.Namespace, s.owner.Name, s.owner.UID = plan.Namespace, plan.Name, types.UID(job.GetLabels()[v1alpha1.LabelUID])
	at := client.ObjectKeyFromObject(job).String()
	log.FromContext(ctx).Info("Clearing away a Job whose HibernatePlan is gone", "job", at)
	if err := s.clear(ctx, &execution{JobRef: at, ConnectorSecretRef: at}); err != nil {
		return err
	}
	return s.remove(ctx, roleGVK, s.names().role(job.GetLabels()[v1alpha1.LabelTarget]))
}
