package experiment

import (
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/conditions"
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
func report(s *scope, err error, now time.Time) {
	e, p, st := s.experiment, s.plan, &s.experiment.Status
	if p.Expire && err == nil {
		return // the server has another version since
	}
	st.ObservedGeneration = e.Generation
	if p.Start && err == nil {
		st.StartedAt, st.Namespaces = timestamp(now), ptr.To(s.names.namespaces())
	}
	switch {
	case goingDown(e): // the conditions tell of what fails, and the record stays what it was
		for i, t := range st.Targets {
			if p.Done && t.State == v1alpha1.TargetDeleting {
				st.Targets[i] = gone(t, s.goneMessage(t.Name), now)
			}
		}
	case p.Targets != nil:
		st.Targets = withFailures(p.Targets, st.Targets, s.failed)
	case p.Leaving != nil:
		st.Targets = withLeaving(st.Targets, p.Leaving, now)
		err = nil // they tell of it; Ready goes on to say the verdict
	}
	if p.Workflow != nil && p.Workflow.UID != "" {
		st.Workflow = p.Workflow
	}
	reportTeardown(e, p, now)
	if p.Verdict {
		st.CompletedAt = timestamp(now)
	}
	if e.DeletionTimestamp == nil {
		life := lifetimeOf(e)
		st.ExpiresAt, st.Extension, st.ExpiresSoon = timestamp(life.end), life.extension, life.soon(now)
	}
	reportConditions(e, p, err, now)
	st.Phase = phase(e, s.known)
}

// reportTeardown writes since when what is waited for, and what is abandoned, which stays told when its Application has gone. The time of
// a deletion begins when anything was tried, even if nothing could be read.
func reportTeardown(e *v1alpha1.Experiment, p Plan, now time.Time) {
	t := ptr.To(ptr.Deref(e.Status.Teardown, v1alpha1.TeardownStatus{}))
	if p.Teardown != nil {
		t.StartedAt, t.WaitsFor = p.Teardown.StartedAt, p.Teardown.WaitsFor
		t.Abandoned = append(slices.DeleteFunc(slices.Clone(t.Abandoned), func(a v1alpha1.AbandonedApplication) bool {
			return slices.Contains(p.Saved, a.UID)
		}), p.Teardown.Abandoned...)
	}
	if e.DeletionTimestamp != nil && e.Status.StartedAt != nil {
		t.StartedAt = teardownStart(e, now)
	}
	e.Status.Teardown = t
	if t.StartedAt == nil && len(t.WaitsFor)+len(t.Abandoned) == 0 {
		e.Status.Teardown = nil
	}
}

// withFailures leaves the targets whose writes failed where they were, with the error, if they were on their way. Of another its time on
// the way begins: it had not begun, or what there is of it is not what the spec asks for any more.
func withFailures(planned, before []v1alpha1.TargetStatus, failed map[string]error) []v1alpha1.TargetStatus {
	out := slices.Clone(planned)
	for i, t := range out {
		if failed[t.Name] == nil {
			continue
		}
		switch was := recordedTarget(before, t.Name); {
		case was == nil || was.State == v1alpha1.TargetBlocked:
			out[i] = v1alpha1.TargetStatus{Name: t.Name, Namespace: t.Namespace, State: v1alpha1.TargetProvisioning, Since: t.Since}
		case was.State != v1alpha1.TargetHealthy:
			out[i] = *was
		}
		out[i].Message = conditions.Line(kube.Message(failed[t.Name]))
	}
	return out
}

// reportConditions writes what the pass has looked at; what it has not keeps the generation
// that it speaks of.
func reportConditions(e *v1alpha1.Experiment, p Plan, err error, now time.Time) {
	ended := goingDown(e)
	current := p.Steps
	for _, t := range steps {
		if current == nil && meta.FindStatusCondition(e.Status.Conditions, t) == nil {
			conditions.Set(&e.Status.Conditions, recordedStep(nil, t), e.Generation, now)
		}
	}
	lasting, passing := failures(err)
	if ended {
		lasting = nil // the steps stay as they were, and the verdict with them
	}
	for _, s := range current {
		if known := meta.FindStatusCondition(e.Status.Conditions, s.Type) != nil; !known || !passing[s.Type] {
			conditions.Set(&e.Status.Conditions, s, e.Generation, now)
		}
	}
	for _, s := range lasting {
		conditions.Set(&e.Status.Conditions, s, e.Generation, now)
	}
	if e.DeletionTimestamp == nil && (p.Down != nil || p.Done || ended && err != nil) {
		conditions.Set(&e.Status.Conditions, cleanedUp(p, err), e.Generation, now)
		err = nil // Ready goes on to say the verdict
	}
	if ready, changed := ready(e, p, err); changed {
		conditions.Set(&e.Status.Conditions, ready, e.Generation, now)
	}
	slices.SortStableFunc(e.Status.Conditions, func(a, b metav1.Condition) int {
		return slices.Index(steps, a.Type) - slices.Index(steps, b.Type) // Ready first
	})
}

// ready sums the steps up. A recorded verdict stands, whatever becomes of the rest: nothing
// is looked at any more.
func ready(e *v1alpha1.Experiment, p Plan, err error) (step conditions.Step, changed bool) {
	switch {
	case p.Verdict:
		return verdict(e), true
	case err != nil:
		return conditions.False(v1alpha1.ConditionReady, kube.Reason(err), kube.Message(err)), true
	case e.DeletionTimestamp != nil && (p.Down != nil || p.Done):
		return conditions.False(v1alpha1.ConditionReady, v1alpha1.ReasonDeleting, goingDownMessage(p)), true
	case e.Status.CompletedAt != nil:
		v := verdict(e)
		c := meta.FindStatusCondition(e.Status.Conditions, v1alpha1.ConditionReady)
		return v, c == nil || c.Reason != v.Reason // a failed deletion at the end of its time has passed
	}
	current := make([]conditions.Step, 0, len(steps))
	for _, t := range steps {
		current = append(current, recordedStep(e.Status.Conditions, t))
	}
	return conditions.Summary(v1alpha1.ConditionReady, v1alpha1.ReasonComplete, "Every step is done", v1alpha1.ReasonPending, current), true
}

// cleanedUp tells how far the teardown of an Experiment is that spec.terminate has ended.
func cleanedUp(p Plan, err error) conditions.Step {
	switch {
	case err != nil:
		return conditions.False(v1alpha1.ConditionCleanedUp, kube.Reason(err), kube.Message(err))
	case p.Done:
		return conditions.True(v1alpha1.ConditionCleanedUp, v1alpha1.ReasonCleanedUp, goingDownMessage(p))
	}
	return conditions.False(v1alpha1.ConditionCleanedUp, v1alpha1.ReasonDeleting, goingDownMessage(p))
}

// verdict is Ready when the Workflow has ended.
func verdict(e *v1alpha1.Experiment) conditions.Step {
	w := recordedStep(e.Status.Conditions, v1alpha1.ConditionWorkflowSucceeded)
	if w.Status == metav1.ConditionTrue {
		return conditions.True(v1alpha1.ConditionReady, v1alpha1.ReasonComplete, w.Message)
	}
	return conditions.False(v1alpha1.ConditionReady, w.Reason, w.Message)
}

func goingDownMessage(p Plan) string {
	switch {
	case len(p.Orphans) > 0:
		return "Everything that was brought up is gone but " + strings.Join(p.Orphans, ", ")
	case p.Done:
		return "Everything that was brought up is gone"
	}
	return "Waits for the deletion of " + strings.Join(p.Down, ", ") + p.Late
}

// recordedStep is a step as the status has it; one that it does not have is Unknown.
func recordedStep(have []metav1.Condition, conditionType string) conditions.Step {
	c := meta.FindStatusCondition(have, conditionType)
	if c == nil {
		return conditions.Step{Type: conditionType, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonPending, Message: "Not looked at yet"}
	}
	return conditions.Step{Type: conditionType, Status: c.Status, Reason: c.Reason, Message: c.Message}
}

// failures are the steps whose errors will not go away by themselves, and the types of those
// whose errors may pass. The latter stay as they were, so that they neither flap nor tell of
// a write that has not taken place; Ready alone speaks of them.
func failures(err error) (lasting []conditions.Step, passing map[string]bool) {
	passing = map[string]bool{}
	for _, err := range kube.Errors(err) {
		var step *stepError
		if !errors.As(err, &step) || step.condition == v1alpha1.ConditionReady {
			continue
		}
		if reason := kube.Reason(err); reason != v1alpha1.ReasonReconcileError {
			lasting = append(lasting, conditions.False(step.condition, reason, kube.Message(err)))
		} else {
			passing[step.condition] = true
		}
	}
	return lasting, passing
}

// phase is how far the Experiment has come. It never goes back while it lives, and there is none until it is known whether that was
// begun.
func phase(e *v1alpha1.Experiment, known bool) v1alpha1.Phase {
	st := e.Status
	switch {
	case st.Phase == "" && st.StartedAt == nil && !known:
		return ""
	case e.DeletionTimestamp != nil:
		return v1alpha1.PhaseDeleting
	case st.CompletedAt != nil && meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionWorkflowSucceeded):
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
func happened(before, after *v1alpha1.Experiment, p Plan, err error) []kube.Event {
	if p.Expire && err == nil {
		return []kube.Event{{Type: corev1.EventTypeNormal, Reason: v1alpha1.ReasonExpired,
			Message: "Its time to live is over, everything it brought up is taken down"}}
	}
	out := lifetimeEvents(before, after)
	if len(p.Orphans) > 0 && (err == nil || p.Leaving != nil) { // which is of other targets than those that have left them
		where := "Left behind is "
		if len(p.Writes) > 0 {
			where = "ConfigMap " + p.Writes[0].Object.GetNamespace() + "/" + p.Writes[0].Object.GetName() + " lists what is left behind: "
		}
		out = append(out, kube.Event{Type: corev1.EventTypeWarning, Reason: v1alpha1.ReasonOrphansLeft,
			Message: conditions.Line(where + strings.Join(p.Orphans, ", "))})
	}
	for _, t := range after.Status.Targets {
		if was := recordedTarget(before.Status.Targets, t.Name); was != nil && was.State == t.State {
			continue
		}
		out = append(out, kube.Event{
			Type: corev1.EventTypeNormal, Reason: v1alpha1.ReasonTarget + string(t.State),
			Subject: t.Name, Message: conditions.Line(targetEvent(t)),
		})
	}
	for _, c := range conditions.Changed(before.Status.Conditions, after.Status.Conditions) {
		if slices.Contains(quiet, c.Reason) || c.Type == v1alpha1.ConditionReady && c.Reason != v1alpha1.ReasonDeleting {
			continue // Ready repeats what another condition says
		}
		if told(before, c) {
			continue
		}
		out = append(out, kube.Event{Type: eventType(c), Reason: c.Reason, Message: c.Message})
	}
	return out
}

// lifetimeEvents are those of the end of an Experiment: that it is near, or that somebody moves it.
func lifetimeEvents(before, after *v1alpha1.Experiment) (out []kube.Event) {
	if after.DeletionTimestamp != nil {
		return nil
	}
	end := "It is deleted at " + after.Status.ExpiresAt.UTC().Format(time.RFC3339)
	if extension := after.Status.Extension; extension != before.Status.Extension {
		switch {
		case lifetimeOf(after).extended:
			out = append(out, kube.Event{Type: corev1.EventTypeNormal, Reason: v1alpha1.ReasonExtended, Message: end + ", " + extension + " later than without the annotation"})
		case extension == "":
			out = append(out, kube.Event{Type: corev1.EventTypeNormal, Reason: v1alpha1.ReasonExtended, Message: end + ": the annotation " + v1alpha1.AnnotationExtend + " is gone"})
		default:
			out = append(out, kube.Event{Type: corev1.EventTypeWarning, Reason: v1alpha1.ReasonExtensionInvalid, Message: end + "; " + extension})
		}
	}
	if after.Status.ExpiresSoon && !before.Status.ExpiresSoon {
		out = append(out, kube.Event{Type: corev1.EventTypeWarning, Reason: v1alpha1.ReasonExpiresSoon,
			Message: end + " with everything it brought up; annotate it with " + v1alpha1.AnnotationExtend + "=24h to keep it longer"})
	}
	return out
}

// told says whether other events tell that a step is done: those of the targets, or Accepted.
// That it is done after all, when an event has told that something was wrong, is told.
func told(before *v1alpha1.Experiment, c metav1.Condition) bool {
	if !slices.Contains(toldByOthers, c.Reason) {
		return false
	}
	was := meta.FindStatusCondition(before.Status.Conditions, c.Type)
	return was == nil || slices.Contains(quiet, was.Reason)
}

var toldByOthers = []string{v1alpha1.ReasonResolved, v1alpha1.ReasonClustersReady, v1alpha1.ReasonApplicationsHealthy}

// recordedTarget is a target as the status has it; nil if it does not.
func recordedTarget(have []v1alpha1.TargetStatus, name string) *v1alpha1.TargetStatus {
	i := slices.IndexFunc(have, func(t v1alpha1.TargetStatus) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &have[i]
}

func targetEvent(t v1alpha1.TargetStatus) string {
	says := t.Message
	switch {
	case t.State != v1alpha1.TargetHealthy || says != "": // or what of it is tolerated
	case len(t.Components) > 0:
		says = "every Application is Healthy and Synced"
	default:
		says = "Application " + t.Application + " is Healthy and Synced"
	}
	return "Target " + t.Name + ": " + says
}

func eventType(c metav1.Condition) string {
	normal := c.Status == metav1.ConditionTrue && c.Reason != v1alpha1.ReasonComponentFallback ||
		slices.Contains([]string{v1alpha1.ReasonDeleting, v1alpha1.ReasonWorkflowRunning, v1alpha1.ReasonSuspended}, c.Reason)
	if normal {
		return corev1.EventTypeNormal
	}
	return corev1.EventTypeWarning
}

// timestamp is a time as status stores it, in whole seconds; nil for the zero time.
func timestamp(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	out := metav1.NewTime(t.Truncate(time.Second))
	return &out
}
