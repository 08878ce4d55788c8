package hibernateplan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/conditions"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/internal/schedule"
)

// +kubebuilder:rbac:groups=hibernator.ardikabs.com,resources=scheduleexceptions/status,verbs=patch

// Exceptions says of ScheduleExceptions how they are. Nothing goes by that: a plan reads their specs, and counts what
// is valid now.
type Exceptions struct {
	// Client reads from the cache.
	Client client.Client
	// Recorder of events.
	Recorder events.EventRecorder
	// Clock tells the time.
	Clock clock.PassiveClock

	told *kube.Told
}

// Reconcile says how a ScheduleException is.
func (r *Exceptions) Reconcile(ctx context.Context, e *v1alpha1.ScheduleException) (ctrl.Result, error) {
	if e.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	plan, err := r.planOf(ctx, e)
	if err != nil {
		return ctrl.Result{}, err
	}
	all, err := r.beside(ctx, e)
	if err != nil {
		return ctrl.Result{}, err
	}
	before := e.DeepCopy()
	wait := judge(e, plan, all, r.Clock.Now())
	if len(all) >= maxExceptions && wait > 0 && e.Status.State != before.Status.State {
		wait = atOnce // one that comes meanwhile goes by what this has said before (places)
	}
	var happened []kube.Event
	if e.Status.State == v1alpha1.ExceptionInvalid && e.Status.Message != before.Status.Message {
		happened = append(happened, kube.Event{Type: corev1.EventTypeWarning, Reason: string(e.Status.State), Message: e.Status.Message})
	}
	return kube.Finish(ctx, r.Client, r.Recorder, before, e, "", kube.Outcome{Wait: wait, Events: happened, Told: r.told})
}

// planOf reads the plan of an exception; nil if there is none.
func (r *Exceptions) planOf(ctx context.Context, e *v1alpha1.ScheduleException) (*v1alpha1.HibernatePlan, error) {
	plan := &v1alpha1.HibernatePlan{}
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: e.Namespace, Name: e.Spec.PlanRef.Name}, plan, client.DisableReadYourWritesConsistency)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("reading HibernatePlan %s: %w", e.Spec.PlanRef.Name, err)
	case err != nil:
		return nil, nil
	}
	return plan, nil
}

// beside are all exceptions of the plan of one; they are the cache's own, and not to be changed.
func (r *Exceptions) beside(ctx context.Context, e *v1alpha1.ScheduleException) ([]v1alpha1.ScheduleException, error) {
	var list v1alpha1.ScheduleExceptionList
	if err := r.Client.List(ctx, &list, client.InNamespace(e.Namespace), client.MatchingFields{indexPlan: e.Spec.PlanRef.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing ScheduleExceptions: %w", err)
	}
	return list.Items, nil
}

// places are the exceptions of a plan of which another one that came, went or changed has taken the place, or has left them one.
func (r *Exceptions) places(ctx context.Context, o client.Object) (out []reconcile.Request) {
	name := o.(*v1alpha1.ScheduleException).Spec.PlanRef.Name
	all, err := r.beside(ctx, o.(*v1alpha1.ScheduleException))
	if err != nil {
		return nil // the cache has ended, and so has the manager
	}
	now := r.Clock.Now()
	all = slices.DeleteFunc(exceptionsOf(name, all), func(e v1alpha1.ScheduleException) bool { return !e.Spec.ValidUntil.After(now) })
	slices.SortFunc(all, func(a, b v1alpha1.ScheduleException) int { return ahead(&a, &b, now) })
	for i := range all {
		said := []v1alpha1.ExceptionState{v1alpha1.ExceptionUncounted}
		if i >= maxExceptions {
			said = []v1alpha1.ExceptionState{v1alpha1.ExceptionActive, v1alpha1.ExceptionPending}
		}
		if slices.Contains(said, all[i].Status.State) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&all[i])})
		}
	}
	return out
}

// place says whether an exception that has not passed is one of those of its plan that count, and if it is not, when it may become one:
// when the first of all has passed. There may be thousands, each of which is asked.
func place(e *v1alpha1.ScheduleException, all []v1alpha1.ScheduleException, now time.Time) (wait time.Duration, counts bool) {
	before := 0
	wait = longest
	for i := range all {
		other := &all[i]
		left := other.Spec.ValidUntil.Sub(now)
		if other.DeletionTimestamp != nil || left <= 0 {
			continue
		}
		wait = min(wait, left)
		if ahead(other, e, now) < 0 {
			before++
		}
	}
	return wait, before < maxExceptions
}

// countsAllTheTime is what is said of a suspension that has mistakes, after these.
const countsAllTheTime = ". Until that is mended it counts for all of its time: nothing goes to sleep from spec.validFrom to spec.validUntil"

// judge writes how an exception of a plan is, and returns when that changes by itself; 0 is never. All are those that the plan has.
func judge(e *v1alpha1.ScheduleException, plan *v1alpha1.HibernatePlan, all []v1alpha1.ScheduleException, now time.Time) time.Duration {
	st := &e.Status
	st.ObservedGeneration, st.Message = e.Generation, ""
	from, until := e.Spec.ValidFrom.Time, e.Spec.ValidUntil.Time
	var invalid schedule.InvalidErrors
	switch _, err := check(plan, e); {
	case plan == nil:
		st.State, st.Message = v1alpha1.ExceptionDetached, "There is no HibernatePlan "+e.Spec.PlanRef.Name+" in this namespace"
		return 0
	case !now.Before(until): // whatever is wrong with it concerns nobody any more
		st.State = v1alpha1.ExceptionExpired
		return 0
	case errors.As(err, &invalid):
		st.State, st.Message = v1alpha1.ExceptionInvalid, mistakes(invalid)
		if _, counts := allTheTime(plan.Spec.Schedule, *e); counts {
			st.Message = cutAt(st.Message, conditions.MaxMessage-len("…")-len(countsAllTheTime)) + countsAllTheTime
		}
		return min(until.Sub(now), longest)
	}
	wait, counts := place(e, all, now)
	switch {
	case !counts:
		st.State, st.Message = v1alpha1.ExceptionUncounted, fmt.Sprintf("HibernatePlan %s has more than %d ScheduleExceptions that have not passed, "+
			"and this is none of those that count: suspensions before others, and those that begin first", e.Spec.PlanRef.Name, maxExceptions)
		return wait
	case now.Before(from):
		st.State = v1alpha1.ExceptionPending
		return min(from.Sub(now), longest)
	}
	st.State = v1alpha1.ExceptionActive
	return min(until.Sub(now), longest)
}

// mistakes are those of an exception, by the paths of its own fields.
func mistakes(all schedule.InvalidErrors) string {
	lines := make([]string, 0, len(all))
	for _, e := range all {
		lines = append(lines, "spec."+strings.TrimPrefix(e.Path, "exceptions[0].")+": "+e.Problem)
	}
	return conditions.Line(strings.Join(lines, "; "))
}

// check reads an exception as its plan does; what is wrong with the plan's own schedule is not its concern.
func check(plan *v1alpha1.HibernatePlan, e *v1alpha1.ScheduleException) (*schedule.Schedule, error) {
	if plan == nil {
		return nil, nil
	}
	if _, err := timetable(plan.Spec.Schedule, nil, nil); err != nil {
		return nil, nil //nolint:nilerr // the plan says it
	}
	return timetable(plan.Spec.Schedule, []v1alpha1.ScheduleException{*e}, nil)
}

// setupExceptions registers the reconciler of ScheduleExceptions, which the index of theirs must be there for.
func setupExceptions(mgr ctrl.Manager, o Options) error {
	r := &Exceptions{Client: mgr.GetClient(), Clock: o.Clock, Recorder: kube.NewRecorder(mgr, "scheduleexception", o.Events), told: kube.NewTold()}
	if err := kube.Count(mgr, "ScheduleException", o.Clock, &v1alpha1.ScheduleExceptionList{}, func(e *v1alpha1.ScheduleException, _ time.Time) kube.State {
		return kube.State{Phase: string(e.Status.State), Unjudged: true}
	}); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("scheduleexception").
		For(&v1alpha1.ScheduleException{}, builder.WithPredicates(predicate.Or(kube.Respecified, r.told.ByOthers(exceptionStatus)))).
		Watches(&v1alpha1.ScheduleException{}, handler.EnqueueRequestsFromMapFunc(r.places), builder.WithPredicates(kube.Respecified)).
		Watches(&v1alpha1.HibernatePlan{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, plan client.Object) []reconcile.Request {
			var list v1alpha1.ScheduleExceptionList
			if err := r.Client.List(ctx, &list, client.InNamespace(plan.GetNamespace()), client.MatchingFields{indexPlan: plan.GetName()}); err != nil {
				return nil // the cache has ended, and so has the manager
			}
			out := make([]reconcile.Request, len(list.Items))
			for i := range list.Items {
				out[i].NamespacedName = client.ObjectKeyFromObject(&list.Items[i])
			}
			return out
		}), builder.WithPredicates(kube.Respecified)).
		WithOptions(kube.Workers(o.MaxConcurrentReconciles, kube.Patience, timeout)).
		Complete(kube.QuietConflicts(reconcile.AsReconciler(r.Client, r)))
}

func exceptionStatus(o client.Object) any { return o.(*v1alpha1.ScheduleException).Status }
