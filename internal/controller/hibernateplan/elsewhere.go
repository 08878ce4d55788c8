package hibernateplan

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/conditions"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// elsewhere is the namespace where the manager that has begun the cycle of a plan keeps restore points; empty if this one does there, too.
// By those in its own it would take what sleeps for lost, and what another manager is at for what has failed.
func (r *Reconciler) elsewhere(plan *v1alpha1.HibernatePlan) string {
	if plan.Status.CurrentCycle == nil {
		return ""
	}
	for i := range plan.Status.Executions {
		if at, _, is := strings.Cut(plan.Status.Executions[i].RestoreConfigMapRef, "/"); is && at != r.Options.Namespace {
			return at
		}
	}
	return ""
}

// strayedRest is how long nothing is said again of a plan that is another manager's: that one says otherwise, each time.
const strayedRest = time.Minute

// leaveAlone says of a plan that its restore points are elsewhere. Nothing else is done, until the deadline of its deletion.
func (r *Reconciler) leaveAlone(ctx context.Context, plan *v1alpha1.HibernatePlan, at string) (ctrl.Result, error) {
	now := r.Options.Clock.Now()
	if told, before := r.strayed.Get(plan.UID); before && now.Sub(told.(time.Time)) < strayedRest {
		return ctrl.Result{RequeueAfter: strayedRest - now.Sub(told.(time.Time))}, nil
	}
	before, p, st := plan.DeepCopy(), Plan{Wait: strayedRest}, &plan.Status
	facts{now: now}.going(&p, plan)
	message := fmt.Sprintf("Its cycle was begun with restore points and Jobs in namespace %s, and this manager keeps them in %s; give the manager its former --hibernation-namespace "+
		"until the targets are awake, or stop the one of two managers that is not to look at it", at, r.Options.Namespace)
	st.ObservedGeneration = plan.Generation
	for _, of := range []string{v1alpha1.ConditionScheduled, v1alpha1.ConditionReady} {
		conditions.Set(&st.Conditions, conditions.False(of, v1alpha1.ReasonNamespacesChanged, message), plan.Generation, now)
	}
	var events []kube.Event
	switch {
	case p.GivenUp:
		events = append(events, kube.Event{Type: corev1.EventTypeWarning, Reason: v1alpha1.ReasonLeftAsleep, Message: "The plan goes, and what it has put to sleep stays asleep: " + message})
	case len(conditions.Changed(before.Status.Conditions, st.Conditions)) > 0:
		events = append(events, kube.Event{Type: corev1.EventTypeWarning, Reason: v1alpha1.ReasonNamespacesChanged, Message: message})
	}
	return kube.Finish(ctx, r.Client, r.Recorder, before, plan, v1alpha1.Finalizer, kube.Outcome{
		Wait: p.Wait, Done: p.GivenUp, Events: events, Told: r.told, Written: func(context.Context) { r.strayed.Add(plan.UID, now) },
	})
}
