package hibernateplan

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// sweepAll clears the Jobs away that are over and whose plans are gone without it, because somebody has taken the
// finalizer off, and with each what its runner was granted. Restore points stay. The wait is when another of them is over; 0 is when
// it says so.
func (r *Reconciler) sweepAll(ctx context.Context, plan types.NamespacedName) (wait time.Duration, err error) {
	if r.rooms.has(plan) {
		if err := r.Client.Get(ctx, plan, &v1alpha1.HibernatePlan{}, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
			r.rooms.now(plan, 0, 0)
		}
	}
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
	s := &scope{Reconciler: r, owner: &v1alpha1.HibernatePlan{}, now: r.Options.Clock.Now()}
	s.owner.Namespace, s.owner.Name, s.owner.UID = plan.Namespace, plan.Name, types.UID(job.GetLabels()[v1alpha1.LabelUID])
	at := client.ObjectKeyFromObject(job).String()
	log.FromContext(ctx).Info("Clearing away a Job whose HibernatePlan is gone", "job", at)
	if err := s.remove(ctx, roleGVK, s.names().role(job.GetLabels()[v1alpha1.LabelTarget])); err != nil {
		return err
	}
	_, err := s.clear(ctx, &execution{JobRef: at, ConnectorSecretRef: at})
	return err
}

// sweepEach is how often it is looked for what nobody tells of.
const sweepEach = time.Hour

// sweepLeft clears away, as long as the manager leads, what nobody tells of.
func (r *Reconciler) sweepLeft(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := r.sweepOnce(ctx); err != nil {
			log.FromContext(ctx).Info("What plans have left was not all cleared away", "cause", err.Error())
		}
	}, sweepEach)
	return nil
}

// sweepOnce clears away the Roles, logs and ControllerRevisions of plans that were forced away, and have no Jobs any more, and what their
// attempts needed that never had one.
func (r *Reconciler) sweepOnce(ctx context.Context) error {
	plans := map[types.UID]types.NamespacedName{}
	for _, gvk := range []schema.GroupVersionKind{roleGVK, configMapGVK, revisionGVK, bindingGVK} {
		err := r.eachOf(ctx, gvk, client.HasLabels{v1alpha1.LabelUID}, func(o metav1.PartialObjectMetadata) {
			for _, plan := range marks.Owners(r.Options.WatchNamespaces)(ctx, &o) {
				plans[types.UID(o.Labels[v1alpha1.LabelUID])] = plan.NamespacedName
			}
		})
		if err != nil {
			return err
		}
	}
	var problems []error
	for _, uid := range slices.Sorted(maps.Keys(plans)) {
		problems = append(problems, r.sweepForced(ctx, plans[uid], uid))
	}
	return errors.Join(problems...)
}

// eachOf goes through the objects of a kind that plans have made, those of one or of all, of which it reads a page at a time.
func (r *Reconciler) eachOf(ctx context.Context, gvk schema.GroupVersionKind, of client.ListOption, do func(metav1.PartialObjectMetadata)) error {
	for page := (&metav1.PartialObjectMetadataList{}); ; {
		page.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		err := r.Live.List(ctx, page, client.InNamespace(r.Options.Namespace), of, client.Limit(500), client.Continue(page.Continue))
		if err != nil {
			return fmt.Errorf("listing %s objects: %w", gvk.Kind, err)
		}
		for _, o := range page.Items {
			do(o)
		}
		if page.Continue == "" {
			return nil
		}
	}
}

// sweepForced clears away what is left of a plan, if it was forced away, which the server must say, and that none of its runners may act
// any more.
func (r *Reconciler) sweepForced(ctx context.Context, at types.NamespacedName, uid types.UID) error {
	ctx, cancel := context.WithTimeout(ctx, timeout) // one beside which a webhook hangs keeps no other waiting for longer
	defer cancel()
	cached, now := &v1alpha1.HibernatePlan{}, kube.Metadata(planGVK)
	if err := r.Client.Get(ctx, at, cached, client.UnsafeDisableDeepCopy); client.IgnoreNotFound(err) != nil || cached.UID == uid {
		return err
	}
	if err := r.Live.Get(ctx, at, now); client.IgnoreNotFound(err) != nil || now.UID == uid {
		return err
	}
	s := &scope{Reconciler: r, owner: &v1alpha1.HibernatePlan{}, now: r.Options.Clock.Now()}
	s.owner.UID = uid
	jobs, err := kube.List(ctx, r.Live, jobGVK, client.InNamespace(r.Options.Namespace), marks.Selector(s.owner), client.Limit(1))
	if err != nil || len(jobs) > 0 {
		return err // it goes with them, or an hour later
	}
	log.FromContext(ctx).Info("Clearing away what a HibernatePlan has left that is gone", "plan", at.String(), "uid", uid)
	return errors.Join(s.deleteAll(ctx, &corev1.ConfigMap{}), s.deleteAll(ctx, &appsv1.ControllerRevision{}), s.deleteAll(ctx, &rbacv1.Role{}), s.sweepAttempts(ctx))
}

// sweepAttempts clears away what attempts needed that have no Job.
func (s *scope) sweepAttempts(ctx context.Context) error {
	attempts := map[string]bool{}
	err := s.eachOf(ctx, bindingGVK, marks.Selector(s.owner), func(o metav1.PartialObjectMetadata) { attempts[o.Labels[labelExecution]] = true })
	if err != nil {
		return err
	}
	delete(attempts, "") // of which nothing is known
	return errors.Join(inParallel(ctx, s, slices.Sorted(maps.Keys(attempts)), func(attempt string) error { return s.sweepAttempt(ctx, attempt) })...)
}

// sweepAttempt is clear without a Job. What is known of the attempt by then is its RoleBinding in the manager's namespace, which is made
// before all but its ServiceAccount: it goes last. First goes what else is there: no webhook beside a target keeps that.
func (s *scope) sweepAttempt(ctx context.Context, attempt string) error {
	at := s.names().in(attempt)
	needed, err := s.needed(ctx, &execution{JobRef: at.String(), ConnectorSecretRef: at.String()})
	if err != nil {
		return err
	}
	last := helper{bindingGVK, at}
	var errs []error
	for _, h := range slices.Backward(needed) {
		if h != last {
			_, err := s.leaves(ctx, h)
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return s.takeAway(ctx, last)
}

// tidy clears away what there is of targets that were taken out of a plan, when a cycle is over: their Roles, and their logs, if no entry
// of the ledger tells of them any more. There is nothing to look for where the spec is the one of the last time, whichever manager has
// looked. What cannot be cleared away keeps the next cycle from beginning for a while only.
func (s *scope) tidy(ctx context.Context) error {
	if s.plan.Status.Tidied == s.owner.Generation || s.owner.DeletionTimestamp != nil { // with which all of it goes
		return nil
	}
	within, cancel := context.WithTimeout(ctx, timeout) // a webhook that hangs leaves the pass its time
	defer cancel()
	again, err := s.tidyNow(within)
	since := s.now.Sub(lastEnd(s.owner.Status.Executions))
	switch {
	case err == nil && !again:
		s.plan.Status.Tidied = s.owner.Generation
	case err != nil && ctx.Err() == nil && (since < 0 || since >= patience):
		log.FromContext(ctx).Info("What there is of targets that were taken out of the plan is left to the next cycle", "cause", err.Error())
		return nil
	}
	return err
}

// tidyNow is tidy; again says that there are logs that only the next cycle has no use for.
func (s *scope) tidyNow(ctx context.Context) (again bool, err error) {
	n, kept := s.names(), map[helper]bool{}
	for _, t := range s.owner.Spec.Targets {
		kept[helper{roleGVK, n.role(t.Name)}], kept[helper{configMapGVK, n.log(t.Name)}] = true, true
	}
	for i := range s.owner.Status.Executions {
		at := helper{configMapGVK, n.log(s.owner.Status.Executions[i].Target)}
		again = again || !kept[at]
		kept[at] = true
	}
	var spare []helper
	for _, gvk := range []schema.GroupVersionKind{roleGVK, configMapGVK} {
		if err := s.eachOf(ctx, gvk, marks.Selector(s.owner), func(o metav1.PartialObjectMetadata) {
			if h := (helper{gvk, client.ObjectKeyFromObject(&o)}); !kept[h] {
				spare = append(spare, h)
			}
		}); err != nil {
			return again, err
		}
	}
	return again, errors.Join(inParallel(ctx, s, spare, func(h helper) error {
		s.permitted.Remove(h.key)
		return s.remove(ctx, h.gvk, h.key)
	})...)
}
