package experiment

import (
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/conditions"
	"github.com/labkeeper/labkeeper/internal/external/argoworkflows"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// steps are the conditions that Ready sums up, in the order of the road.
var steps = []string{
	v1alpha1.ConditionAccepted,
	v1alpha1.ConditionComponentsResolved,
	v1alpha1.ConditionClustersReady,
	v1alpha1.ConditionApplicationsHealthy,
	v1alpha1.ConditionWorkflowSucceeded,
}

// report writes into the status what the pass saw, did and failed at. It is pure.
func report(e *v1alpha1.Experiment, p Plan, err error, now time.Time) {
	st := &e.Status
	st.ObservedGeneration = e.Generation
	if p.Start && err == nil {
		st.StartedAt = timestamp(now)
	}
	if p.Targets != nil {
		st.Targets = p.Targets
	}
	if p.Workflow != nil && p.Workflow.UID != "" {
		st.Workflow = p.Workflow
	}
	if p.Verdict && err == nil {
		st.CompletedAt = timestamp(now)
	}
	if e.DeletionTimestamp == nil {
		st.ExpiresAt = timestamp(expiry(e))
	}
	reportConditions(e, p, err, now)
	st.Phase = phase(e)
}

func reportConditions(e *v1alpha1.Experiment, p Plan, err error, now time.Time) {
	current := p.Steps
	if current == nil {
		current = recorded(e.Status.Conditions)
	}
	if err != nil {
		current = failing(slices.Clone(current), err)
	}
	all := append(slices.Clone(current), ready(e, p, current, err))
	for _, s := range all {
		conditions.Set(&e.Status.Conditions, s, e.Generation, now)
	}
	slices.SortStableFunc(e.Status.Conditions, func(a, b metav1.Condition) int {
		return rank(a.Type) - rank(b.Type)
	})
}

// ready sums the steps up. A recorded verdict stands, whatever becomes of the rest.
func ready(e *v1alpha1.Experiment, p Plan, current []conditions.Step, err error) conditions.Step {
	workflow := e.Status.Workflow
	switch {
	case err != nil:
		return conditions.False(v1alpha1.ConditionReady, reasonOf(err), message(err))
	case p.Down != nil || p.Done:
		return conditions.False(v1alpha1.ConditionReady, v1alpha1.ReasonDeleting, goingDown(p))
	case e.Status.CompletedAt != nil && workflow != nil && workflow.Phase == argoworkflows.PhaseSucceeded:
		return conditions.True(v1alpha1.ConditionReady, v1alpha1.ReasonComplete, "Workflow "+workflow.Namespace+"/"+workflow.Name+" succeeded")
	case e.Status.CompletedAt != nil:
		i := slices.IndexFunc(current, func(s conditions.Step) bool { return s.Type == v1alpha1.ConditionWorkflowSucceeded })
		return conditions.False(v1alpha1.ConditionReady, current[i].Reason, current[i].Message)
	}
	return conditions.Summary(v1alpha1.ConditionReady, v1alpha1.ReasonComplete, "Every step is done", v1alpha1.ReasonPending, current)
}

func goingDown(p Plan) string {
	if p.Done {
		return "Everything that was brought up is gone"
	}
	return "Waits for the deletion of " + strings.Join(p.Down, ", ")
}

// recorded are the steps as the status has them; one that it does not have is Unknown.
func recorded(have []metav1.Condition) []conditions.Step {
	out := make([]conditions.Step, 0, len(steps))
	for _, t := range steps {
		s := conditions.Step{Type: t, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonPending, Message: "Not looked at yet"}
		if c := meta.FindStatusCondition(have, t); c != nil {
			s = conditions.Step{Type: t, Status: c.Status, Reason: c.Reason, Message: c.Message}
		}
		out = append(out, s)
	}
	return out
}

// failing puts the error into the condition it belongs to.
func failing(current []conditions.Step, err error) []conditions.Step {
	var step *stepError
	if !errors.As(err, &step) {
		return current
	}
	for i, s := range current {
		if s.Type == step.condition {
			current[i] = conditions.False(s.Type, reasonOf(err), message(err))
		}
	}
	return current
}

func reasonOf(err error) string {
	var taken *kube.NameTakenError
	switch {
	case errors.As(err, &taken):
		return v1alpha1.ReasonNameTaken
	case apierrors.IsForbidden(err):
		return v1alpha1.ReasonForbidden
	}
	return v1alpha1.ReasonReconcileError
}

func message(err error) string {
	s := err.Error()
	return strings.ToUpper(s[:1]) + s[1:]
}

// phase is how far the Experiment has come. It never goes back while it lives.
func phase(e *v1alpha1.Experiment) v1alpha1.Phase {
	if e.DeletionTimestamp != nil {
		return v1alpha1.PhaseDeleting
	}
	st := e.Status
	switch {
	case st.CompletedAt != nil && st.Workflow != nil && st.Workflow.Phase == argoworkflows.PhaseSucceeded:
		return v1alpha1.PhaseComplete
	case st.CompletedAt != nil:
		return v1alpha1.PhaseFailed
	case st.Workflow != nil:
		return v1alpha1.PhaseRunning
	case st.Phase == v1alpha1.PhaseReady || meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionClustersReady):
		return v1alpha1.PhaseReady
	case len(st.Targets) > 0:
		return v1alpha1.PhaseProvisioning
	}
	return v1alpha1.PhasePending
}

// quiet are reasons of being on the way: the events of the targets tell more.
var quiet = []string{
	v1alpha1.ReasonPending, v1alpha1.ReasonClusterProvisioning, v1alpha1.ReasonApplicationProgressing,
	v1alpha1.ReasonApplicationMissing, v1alpha1.ReasonDependencyNotHealthy,
}

// happened are the events between two statuses: one for every target whose state and every
// condition whose status or reason has changed.
func happened(before, after *v1alpha1.Experiment, p Plan) []kube.Event {
	if p.Expire {
		return []kube.Event{{Type: corev1.EventTypeNormal, Reason: v1alpha1.ReasonExpired,
			Message: "Its time to live is over, everything it brought up is taken down"}}
	}
	var out []kube.Event
	for _, t := range after.Status.Targets {
		if stateOf(before, t.Name) == t.State {
			continue
		}
		out = append(out, kube.Event{Type: corev1.EventTypeNormal, Reason: v1alpha1.ReasonTarget + string(t.State), Message: conditions.Line(targetEvent(t))})
	}
	for _, c := range conditions.Changed(before.Status.Conditions, after.Status.Conditions) {
		if slices.Contains(quiet, c.Reason) || c.Type == v1alpha1.ConditionReady && c.Reason != v1alpha1.ReasonDeleting {
			continue // Ready repeats what another condition says
		}
		out = append(out, kube.Event{Type: eventType(c), Reason: c.Reason, Message: c.Message})
	}
	return out
}

func stateOf(e *v1alpha1.Experiment, target string) v1alpha1.TargetState {
	for _, t := range e.Status.Targets {
		if t.Name == target {
			return t.State
		}
	}
	return ""
}

func targetEvent(t v1alpha1.TargetStatus) string {
	if t.State == v1alpha1.TargetHealthy {
		return "Target " + t.Name + ": Application " + t.Application + " is Healthy and Synced"
	}
	return "Target " + t.Name + ": " + t.Message
}

func eventType(c metav1.Condition) string {
	normal := c.Status == metav1.ConditionTrue && c.Reason != v1alpha1.ReasonComponentFallback ||
		c.Reason == v1alpha1.ReasonDeleting || c.Reason == v1alpha1.ReasonWorkflowRunning
	if normal {
		return corev1.EventTypeNormal
	}
	return corev1.EventTypeWarning
}

// rank puts Ready first, then the steps in their order.
func rank(conditionType string) int { return slices.Index(steps, conditionType) }

// timestamp is a time as status stores it, in whole seconds; nil for the zero time.
func timestamp(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	out := metav1.NewTime(t.Truncate(time.Second))
	return &out
}
