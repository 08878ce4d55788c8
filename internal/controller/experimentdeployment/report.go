package experimentdeployment

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/labkeeper/labkeeper/api/experimentcontroller/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/conditions"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/internal/twin"
)

// steps are the conditions that Ready sums up, in the order of the road.
var steps = []string{v1alpha1.ConditionAccepted, v1alpha1.ConditionSourceFound, v1alpha1.ConditionTwinReady}

// report writes into the status what the pass saw, did and failed at. It is pure.
func report(s *scope, err error) {
	owner, p, st := s.owner, s.plan, &s.owner.Status
	if p.Expire && err == nil {
		return // the server has another version since
	}
	st.ObservedGeneration, st.ExpiresAt = owner.Generation, nil
	if owner.Spec.TTL != nil {
		end := metav1.NewTime(owner.CreationTimestamp.Add(owner.Spec.TTL.Duration))
		st.ExpiresAt = &end
	}
	if !owner.Spec.DryRun {
		st.Diff = ""
	}
	if err == nil {
		reportSeen(s)
	} else if p.Built && s.seen.Twin != nil && st.ScaledToZero == nil {
		// What the server refuses has its time as well: else the pods of a twin that crashes stayed as long as it does.
		reportSince(s, p.UnreadySince)
		st.TemplateHash = p.TemplateHash
	}
	if p.Built && s.written != nil { // also where what comes after has failed: the next pass has nothing to write
		st.SourceGeneration = p.SourceGeneration
	}
	if p.Steps != nil || p.Done {
		reportTwin(s)
	}
	for _, step := range s.told(err) {
		conditions.Set(&st.Conditions, step, owner.Generation, s.now)
	}
	for _, step := range p.Others {
		conditions.Set(&st.Conditions, step, owner.Generation, s.now)
	}
	conditions.Set(&st.Conditions, ready(owner, err), owner.Generation, s.now)
	slices.SortStableFunc(st.Conditions, func(a, b metav1.Condition) int { return rank(a.Type) - rank(b.Type) })
}

// told are the steps of the plan as they have come out: what was not written, or was there already, has not changed
// the twin.
func (s *scope) told(err error) []conditions.Step {
	out := slices.Clone(s.plan.Steps)
	for i, step := range out {
		if s.contended && step.Type == v1alpha1.ConditionTwinReady {
			out[i] = conditions.False(step.Type, v1alpha1.ReasonContended, kube.Message(&kube.ContendedError{Object: kube.Describe(s.plan.Twin)}))
		} else if step.Type == v1alpha1.ConditionTwinReady && s.plan.Unchanged.Type != "" && (err != nil || s.unchanged) {
			out[i] = s.plan.Unchanged
			if s.seen.Twin == nil {
				out[i] = conditions.False(step.Type, v1alpha1.ReasonPending, "It has not been created yet")
			}
		}
	}
	return out
}

// rank puts Ready first, and what it does not sum up last.
func rank(conditionType string) int {
	if conditionType == v1alpha1.ConditionReady {
		return -1
	}
	if i := slices.Index(steps, conditionType); i >= 0 {
		return i
	}
	return len(steps)
}

// ready sums the steps up. An error says more than they do.
func ready(owner *v1alpha1.ExperimentDeployment, err error) conditions.Step {
	if err != nil {
		return conditions.False(v1alpha1.ConditionReady, kube.Reason(err), kube.Message(err))
	}
	current := make([]conditions.Step, 0, len(steps))
	message := ""
	for _, t := range steps {
		step := conditions.Step{Type: t, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonPending, Message: "Not looked at yet"}
		if c := meta.FindStatusCondition(owner.Status.Conditions, t); c != nil {
			step = conditions.Step{Type: t, Status: c.Status, Reason: c.Reason, Message: c.Message}
		}
		current, message = append(current, step), step.Message
	}
	return conditions.Summary(v1alpha1.ConditionReady, current[len(current)-1].Reason, message, v1alpha1.ReasonPending, current)
}

// reportBuilt writes what is known of the twin that was built. The generation of its source counts from when
// something of the twin has changed with it: an autoscaler's replicas are nothing to tell of.
func reportBuilt(s *scope) {
	p, st := s.plan, &s.owner.Status
	if p.Action != Nothing || st.SourceGeneration == 0 || st.TemplateHash != p.TemplateHash || st.Diff != p.Diff {
		st.SourceGeneration = p.SourceGeneration
	}
	st.TemplateHash, st.PinnedHash, st.Diff = p.TemplateHash, p.PinnedHash, p.Diff
}

// reportServices writes which Services the twin is behind, as its conditions say.
func reportServices(p *Plan, st *v1alpha1.ExperimentDeploymentStatus) {
	st.Services = nil
	for _, shared := range p.Services {
		st.Services = append(st.Services, v1alpha1.ServiceStatus{Name: shared.Name, Shared: shared.Shared, Reason: shared.Reason, Message: shared.Message})
	}
}

// reportSeen writes what a pass that has not failed knows of the twin beside how it is.
func reportSeen(s *scope) {
	p := s.plan
	switch {
	case p.Built || p.Kept:
		reportUnready(s)
	case s.owner.Status.ScaledToZero == nil: // of which it is known all the time
		s.owner.Status.UnreadySince = nil // nothing is known of the time that it was not looked at
	}
	if !p.Built {
		s.owner.Status.Diff = "" // it was of another spec, or source
	}
	switch {
	case p.Built:
		reportBuilt(s)
	case s.seen.Twin == nil && (s.seen.Served || p.Done):
		reportNothing(&s.owner.Status)
	}
	if len(p.Others) > 0 {
		reportServices(&p, &s.owner.Status)
	}
}

// reportNothing takes back what was said of a twin that there is not, and cannot be.
func reportNothing(st *v1alpha1.ExperimentDeploymentStatus) {
	st.Services = nil
	st.Conditions = slices.DeleteFunc(st.Conditions, func(c metav1.Condition) bool {
		return c.Type != v1alpha1.ConditionReady && !slices.Contains(steps, c.Type)
	})
}

// reportUnready writes since when the twin has not been ready, and of which spec its pods were taken away.
func reportUnready(s *scope) {
	p, st := s.plan, &s.owner.Status
	since := p.UnreadySince
	switch {
	case s.seen.Twin == nil && s.written == nil: // another has its name, or takes it away all the time
		since = time.Time{}
	case p.Anew:
		since = s.now
	}
	reportSince(s, since)
	switch {
	case p.Record:
		st.ScaledToZero = &v1alpha1.ScaledToZero{WantedHash: p.WantedHash, At: metav1.NewTime(s.now.Truncate(time.Second))}
	case !p.ScaleToZero && !s.owner.Spec.DryRun:
		st.ScaledToZero = nil
	}
}

// reportSince writes since when the twin has not been ready, if it is to have pods.
func reportSince(s *scope, at time.Time) {
	st := &s.owner.Status
	if !s.plan.ScaleToZero || s.plan.Record {
		st.UnreadySince = nil
	}
	if !at.IsZero() {
		since := metav1.NewTime(at.Truncate(time.Second))
		st.UnreadySince = &since
	}
}

// reportTwin writes how the twin is, unless it cannot be seen.
func reportTwin(s *scope) {
	st := &s.owner.Status
	gone := s.seen.Twin == nil && s.seen.Served || s.plan.Done
	switch {
	case gone:
		st.Replicas, st.ReadyReplicas = 0, 0
	case s.seen.Twin != nil:
		state := twin.Read(s.seen.Twin)
		st.Replicas, st.ReadyReplicas = int32(state.Replicas), int32(state.ReadyReplicas)
	}
	switch {
	case s.written != nil:
		st.TwinGeneration = s.written.GetGeneration()
		st.ExperimentResourceRef = &v1alpha1.ResourceRef{
			Kind: s.owner.Spec.SourceRef.Kind, Name: s.written.GetName(), Namespace: s.written.GetNamespace(), UID: s.written.GetUID(),
		}
	case gone:
		st.TwinGeneration, st.ExperimentResourceRef = 0, nil
	}
}

// quiet are reasons that tell of nothing that anybody waits for.
var quiet = []string{
	v1alpha1.ReasonPending, v1alpha1.ReasonAccepted, v1alpha1.ReasonSourceFound, v1alpha1.ReasonNone, v1alpha1.ReasonShared, v1alpha1.ReasonNoServices, v1alpha1.ReasonSelectorOverlap,
	v1alpha1.ReasonNotListed, v1alpha1.ReasonRecreating, twin.ReasonProgressing, twin.ReasonNotObserved,
}

// good are the reasons of conditions that are False and are nothing to warn of.
var good = []string{v1alpha1.ReasonDryRun, v1alpha1.ReasonDeleting, v1alpha1.ReasonCreated, v1alpha1.ReasonSourceDeleted}

// bad are the conditions that are no good when they are True.
var bad = []string{v1alpha1.ConditionAutoscalerInterference, v1alpha1.ConditionDisruptionInterference, v1alpha1.ConditionSourceSelectorOverlap, v1alpha1.ConditionWarnings}

// happened are the events between two statuses.
func happened(before, after *v1alpha1.ExperimentDeployment, s *scope, err error) (out []kube.Event) {
	p := s.plan
	if p.Expire && err == nil {
		return []kube.Event{{Type: corev1.EventTypeNormal, Reason: v1alpha1.ReasonExpired, Message: "Its time is over, and the twin is taken down"}}
	}
	if p.Drifted && s.written != nil && !s.unchanged {
		out = append(out, kube.Event{Type: corev1.EventTypeWarning, Reason: v1alpha1.ReasonDrifted, Message: "Somebody has changed " + kube.Describe(p.Twin) + ", and it was put right"})
	}
	if p.Next != nil && err == nil {
		out = append(out, kube.Event{Type: corev1.EventTypeNormal, Reason: v1alpha1.ReasonRecreating, Message: kube.Describe(p.Twin) + " is deleted, and created again when it is gone: it differs in fields that cannot be changed"})
	}
	changed := conditions.Changed(before.Status.Conditions, after.Status.Conditions)
	if c := warnedAnew(before, after); c != nil {
		changed = append(changed, *c)
	}
	for _, c := range changed {
		if slices.Contains(quiet, c.Reason) || c.Type == v1alpha1.ConditionReady && err == nil {
			continue // Ready repeats what another condition says
		}
		kind := corev1.EventTypeWarning
		if (c.Status == metav1.ConditionTrue) != slices.Contains(bad, c.Type) || slices.Contains(good, c.Reason) {
			kind = corev1.EventTypeNormal
		}
		out = append(out, kube.Event{Type: kind, Reason: c.Reason, Message: c.Message})
	}
	return out
}

// warnedAnew are the warnings, where there is one that was not there before, and the first is the one of before.
func warnedAnew(before, after *v1alpha1.ExperimentDeployment) *metav1.Condition {
	was := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionWarnings)
	is := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionWarnings)
	if was == nil || is == nil || was.Status != metav1.ConditionTrue || is.Status != metav1.ConditionTrue || was.Reason != is.Reason {
		return nil
	}
	had := strings.Split(was.Message, warningsApart)
	for _, w := range strings.Split(is.Message, warningsApart) {
		var n int
		if _, err := fmt.Sscanf(warningsApart+w, warningsEnd, &n); err != nil && !slices.Contains(had, w) { // but for how many more there are
			return is
		}
	}
	return nil
}
