package hibernateplan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/conditions"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// order is that of the conditions.
var order = []string{
	v1alpha1.ConditionReady, v1alpha1.ConditionScheduled, v1alpha1.ConditionHibernated, v1alpha1.ConditionRestorePointSaved, v1alpha1.ConditionDegraded,
}

func find(all []metav1.Condition, conditionType string) *metav1.Condition {
	return meta.FindStatusCondition(all, conditionType)
}

// report writes into the status what the pass saw, did and failed at. It is pure.
//
// What was decided is recorded unless what that rests on has failed; where an effect has, its entry still says that it
// is to be done. Conditions tell of what is recorded; where nothing is, they stay as they are, but Ready, which tells of the failure.
func report(s *scope, err error) {
	owner, st := s.owner, &s.owner.Status
	st.ObservedGeneration = owner.Generation
	if s.decided && s.recordable {
		s.take()
	}
	v := view{status: st, plan: s.plan, owner: owner, late: s.seen.Late, ended: hasEnded(owner.Spec.Override, s.now)}
	if st.CurrentCycle == nil {
		v.left = s.seen.leftAsleep()
	}
	if s.decided && (err == nil || s.recordable) {
		st.Phase = v.phase()
		for _, step := range []conditions.Step{v.scheduled(), v.hibernated(), v.saved(), v.degraded()} {
			conditions.Set(&st.Conditions, step, owner.Generation, s.now)
		}
	}
	conditions.Set(&st.Conditions, v.ready(err), owner.Generation, s.now)
	slices.SortStableFunc(st.Conditions, func(a, b metav1.Condition) int { return slices.Index(order, a.Type) - slices.Index(order, b.Type) })
}

// take takes in what was decided, and counts.
func (s *scope) take() {
	st, p := &s.owner.Status, s.plan.Status
	p.Conditions, p.ObservedGeneration, p.Phase = st.Conditions, st.ObservedGeneration, st.Phase
	*st = p
	if s.seen.Lost != nil {
		return
	}
	st.Targets, st.Asleep, st.Failed = int32(len(s.owner.Spec.Targets)), 0, 0
	for i := range st.Executions {
		if toldAsleep(&st.Executions[i]) {
			st.Asleep++
		}
		if s.plan.failed(&st.Executions[i]) && st.CurrentCycle != nil {
			st.Failed++
		}
	}
}

// view is what conditions and phase are read off.
type view struct {
	status *v1alpha1.HibernatePlanStatus
	plan   Plan
	owner  *v1alpha1.HibernatePlan
	// late are the targets whose runners should have started.
	late []late
	// left are the targets that a plan of this name has left asleep, before a cycle has taken them in.
	left []string
	// ended is what there is to say of an override that has ended.
	ended string
}

// leftAsleep are the targets that a plan of this name has left asleep; by their restore points, where those do not say which.
func (o *Observed) leftAsleep() []string {
	return append(slices.Sorted(maps.Keys(o.Left)), o.Unread...)
}

// leftText is what there is to say of them; empty where there are none.
func (v view) leftText() string {
	if len(v.left) == 0 {
		return ""
	}
	return "A plan of this name has left asleep: " + conditions.Line(strings.Join(v.left, ", "))
}

// named are the targets of which something holds, in words.
func (v view) named(is func(*execution) bool) string { return v.first(10, is) }

// first are so many of them.
func (v view) first(most int, is func(*execution) bool) string {
	var all []string
	for i := range v.status.Executions {
		if is(&v.status.Executions[i]) {
			all = append(all, v.status.Executions[i].Target)
		}
	}
	if n := len(all); n > most {
		all = append(all[:most], fmt.Sprintf("and %d more", n-most))
	}
	return strings.Join(all, ", ")
}

func (v view) any(is func(*execution) bool) bool {
	return v.status.CurrentCycle != nil && anyOf(v.status.Executions, is)
}

// operation that runs or ran last; empty before the first cycle and between two.
func (v view) operation() v1alpha1.Operation {
	if v.status.CurrentCycle == nil {
		return ""
	}
	return v.status.CurrentCycle.Operation
}

// stuck says whether the operation has come to an end that is not the one that is wanted. What is to be awake is tried
// again all the same, and so is what was taken out of the plan while the others sleep.
func (v view) stuck() bool {
	goesOn := func(e *execution) bool {
		return e.Operation == v.operation() && (failing(e) || running(e)) && !v.plan.failed(e)
	}
	return v.any(v.plan.failed) && !v.any(goesOn) && (v.plan.Idle || v.operation() == v1alpha1.OperationWakeUp)
}

// unwoken says whether a target cannot be woken, be it one that was taken out of the plan.
func (v view) unwoken(e *execution) bool {
	return v.plan.failed(e) && e.Operation == v1alpha1.OperationWakeUp
}

// takenOut says whether a target is woken, or to be, while the others sleep.
func (v view) takenOut(e *execution) bool {
	return e.Asleep && e.Operation == v1alpha1.OperationWakeUp && v.operation() == v1alpha1.OperationShutdown
}

// amiss are targets that are not as they should be: they have failed, or what has kept them from beginning has.
func (v view) amiss(e *execution) bool {
	return v.plan.failed(e) || e.State == v1alpha1.ExecutionAborted && e.Operation == v.operation()
}

func (v view) bestEffort() bool {
	if v.plan.program == nil {
		return v.owner.Spec.Behavior.Mode == v1alpha1.BehaviorBestEffort
	}
	return v.plan.program.policy().BestEffort
}

func (v view) phase() v1alpha1.Phase {
	switch {
	case standsStill(v.owner) && !v.any(func(e *execution) bool { return running(e) && !v.takenOut(e) }):
		return v1alpha1.PhaseSuspended
	case v.stuck() && (v.any(v.unwoken) || !v.bestEffort()):
		return v1alpha1.PhaseError
	case v.operation() == v1alpha1.OperationWakeUp:
		return v1alpha1.PhaseWakingUp
	case v.operation() == v1alpha1.OperationShutdown && v.plan.Idle:
		return v1alpha1.PhaseHibernated
	case v.operation() == v1alpha1.OperationShutdown:
		return v1alpha1.PhaseHibernating
	case v.plan.Problem != nil || !v.plan.Known || len(v.left) > 0:
		return v1alpha1.PhasePending
	}
	return v1alpha1.PhaseActive
}

func (v view) scheduled() conditions.Step {
	hint := "" // that it has ended was mostly meant: it is no reason of its own
	if v.ended != "" {
		hint = "; " + v.ended
	}
	switch {
	case v.plan.Problem != nil:
		return conditions.False(v1alpha1.ConditionScheduled, v.plan.Problem.reason, v.plan.Problem.message)
	case v.owner.DeletionTimestamp != nil:
		return conditions.False(v1alpha1.ConditionScheduled, v1alpha1.ReasonDeleting, "What sleeps is woken, and then the plan goes")
	case !v.plan.Known:
		return conditions.Step{Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonPending, Message: "Not looked at yet"}
	case v.owner.Spec.Suspend:
		return conditions.False(v1alpha1.ConditionScheduled, v1alpha1.ReasonSuspended, "Nothing starts while spec.suspend is set")
	case v.owner.Spec.DryRun:
		return conditions.False(v1alpha1.ConditionScheduled, v1alpha1.ReasonDryRun, "No cycle begins while spec.dryRun is set"+hint)
	}
	wants := "awake"
	if v.plan.Desired.asleep {
		wants = "asleep"
	}
	return conditions.True(v1alpha1.ConditionScheduled, v1alpha1.ReasonAccepted, "By "+v.plan.Desired.by+" the targets are to be "+wants+hint)
}

func (v view) hibernated() conditions.Step {
	t := v1alpha1.ConditionHibernated
	switch v.phase() {
	case v1alpha1.PhaseHibernated:
		if v.any(v.plan.failed) {
			return conditions.False(t, v1alpha1.ReasonPartly, "Not as they should be: "+v.named(v.amiss))
		}
		text := fmt.Sprintf("%d targets are asleep", v.status.Asleep)
		if v.any(v.takenOut) {
			text += "; not in the plan any more, and to be woken: " + v.named(v.takenOut)
		}
		return conditions.True(t, v1alpha1.ReasonHibernated, text)
	case v1alpha1.PhaseHibernating:
		return conditions.False(t, v1alpha1.ReasonHibernating, v.underWay())
	case v1alpha1.PhaseWakingUp:
		return conditions.False(t, v1alpha1.ReasonWakingUp, v.underWay())
	case v1alpha1.PhaseError:
		reason := v1alpha1.ReasonShutdownFailed
		if v.any(v.unwoken) {
			reason = v1alpha1.ReasonWakeUpFailed
		}
		return conditions.False(t, reason, v.failure())
	case v1alpha1.PhaseSuspended:
		if text := v.leftText(); text != "" {
			return conditions.False(t, v1alpha1.ReasonSuspended, text+"; that stays so while spec.suspend is set")
		}
		return conditions.False(t, v1alpha1.ReasonSuspended, fmt.Sprintf("%d targets are asleep, and stay so while spec.suspend is set", v.status.Asleep))
	}
	if text := v.leftText(); text != "" {
		return conditions.False(t, v1alpha1.ReasonLeftAsleep, text)
	}
	if v.owner.Spec.DryRun && v.plan.Known && v.plan.Desired.asleep {
		return conditions.False(t, v1alpha1.ReasonDryRun, "Would be put to sleep now: "+v.wouldSleep())
	}
	return conditions.False(t, v1alpha1.ReasonAwake, "Nothing of the plan is asleep")
}

func (v view) underWay() string {
	more := ""
	if v.plan.Waits > 0 {
		more = "; others wait for those of all plans of the namespace"
	}
	if !v.any(running) {
		return "Begins" + more
	}
	return "Under way: " + v.named(running) + more
}

func (v view) wouldSleep() string {
	var all []string
	for _, t := range v.owner.Spec.Targets {
		all = append(all, t.Name+" ("+t.Type+")")
	}
	if n := len(all); n > 20 {
		all = append(all[:20], fmt.Sprintf("and %d more", n-20))
	}
	return strings.Join(all, ", ")
}

// failure is what has failed, why, and what to do: a wake-up before all else. What is to be run is whole, however much has failed.
func (v view) failure() (again string) {
	is := v.plan.failed
	if v.any(v.unwoken) {
		is = v.unwoken
	}
	const most, least = 3, 100 // targets, and bytes of why
	for i := range v.status.Executions {
		e := &v.status.Executions[i]
		switch {
		case !is(e):
		case failed(e):
			what := fmt.Sprintf("%s of target %s has failed %d times: ", e.Operation, v.first(most, is), e.Attempts-e.Forgiven)
			run := fmt.Sprintf(". To try again at once: kubectl annotate hplan %s --namespace %s --overwrite %s=$(date +%%s)",
				v.owner.Name, v.owner.Namespace, v1alpha1.AnnotationRetryNow) + v.wayOut(e)
			return what + cutAt(e.Message, max(least, conditions.MaxMessage-len(what)-len(run)-len("…"))) + run
		default:
			again = cmp.Or(again, fmt.Sprintf("%s of target %s has failed %d times, and is tried again now", e.Operation, v.first(most, is), e.Attempts-e.Forgiven-1)+v.wayOut(e))
		}
	}
	return again
}

// wayOut is what to do about a target that can never wake, as where its restore point is lost, or its cluster gone: until it does, its
// cycle goes on, by the targets that the plan had when that began. What else sleeps is woken by the plan that takes this one's place,
// and so is the target where there is a restore point, be it another than this plan wakes by.
func (v view) wayOut(e *execution) string {
	if !v.unwoken(e) {
		return ""
	}
	namespace, point, _ := strings.Cut(e.RestoreConfigMapRef, "/")
	return fmt.Sprintf(". If it never can, no other cycle begins: kubectl patch hplan %[1]s -n %[2]s --type merge -p '{\"spec\":{\"deletionPolicy\":\"Leave\"}}'; "+
		"kubectl delete hplan %[1]s -n %[2]s; where its restore point will never do, wake it by hand, and kubectl delete cm %[3]s -n %[4]s --wait=false; "+
		"kubectl patch cm %[3]s -n %[4]s --type merge -p '{\"metadata\":{\"finalizers\":null}}'; and create the plan again",
		v.owner.Name, v.owner.Namespace, point, namespace)
}

func (v view) saved() conditions.Step {
	t := v1alpha1.ConditionRestorePointSaved
	unsaved := func(e *execution) bool {
		return e.Asleep && e.Operation == v1alpha1.OperationShutdown && e.State != v1alpha1.ExecutionCompleted && !v.plan.failed(e)
	}
	switch {
	case len(v.left) > 0:
		return conditions.True(t, v1alpha1.ReasonSaved, fmt.Sprintf("Kept of %d targets that were left asleep, in ConfigMaps with label %s", len(v.left), labelRestorePoint))
	case !v.any(toldAsleep):
		return conditions.False(t, v1alpha1.ReasonNothingAsleep, "Nothing of the plan is asleep")
	case v.any(unsaved):
		return conditions.False(t, v1alpha1.ReasonHibernating, "Under way: "+v.named(unsaved))
	}
	return conditions.True(t, v1alpha1.ReasonSaved, fmt.Sprintf("Kept of %d targets, in ConfigMaps with label %s", v.status.Asleep, labelRestorePoint))
}

func (v view) degraded() conditions.Step {
	t := v1alpha1.ConditionDegraded
	switch {
	case len(v.late) > 0 && !v.any(failed): // which may be why
		return conditions.True(t, v1alpha1.ReasonRunnerNotStarted, v.unstarted())
	case v.any(v.plan.failed):
		return conditions.True(t, v1alpha1.ReasonPartly, "Not as they should be: "+v.named(v.amiss))
	case len(v.left) > 0:
		return conditions.True(t, v1alpha1.ReasonLeftAsleep, v.leftText())
	case v.leftover() != "":
		return conditions.True(t, v1alpha1.ReasonLeftAsFound, v.leftover())
	case v.any(empty):
		return conditions.True(t, v1alpha1.ReasonNothingFound, "Nothing was found to be put to sleep in "+v.named(empty)+
			"; see whether its parameters name what they should (labels are those of workloads, and not of their pods; a selector of namespaces chooses "+
			"none but those that let plans of this one act in them, by the annotation "+v1alpha1.AnnotationAllowedNamespaces+")")
	case v.any(failing):
		return conditions.False(t, v1alpha1.ReasonRetrying, "Tried again: "+v.named(failing))
	}
	return conditions.False(t, v1alpha1.ReasonAsExpected, "No target has failed")
}

// unstarted are the runners that should have started, and what keeps them.
func (v view) unstarted() string {
	var all []string
	for _, l := range v.late {
		if l.why != "" {
			all = append(all, l.target+": "+l.why)
		}
	}
	if more := len(v.late) - len(all); more > 0 {
		all = append(all, fmt.Sprintf("and %d more", more))
	}
	return "Runners have not started: " + conditions.Line(strings.Join(all, "; "))
}

// leftover is what the last cycle has not brought back, because somebody else has changed it; empty if there is nothing.
// It stays until the next one.
func (v view) leftover() string {
	if v.operation() == v1alpha1.OperationShutdown {
		return ""
	}
	for i := range v.status.Executions {
		if e := &v.status.Executions[i]; e.Left > 0 && !e.Asleep {
			return account(v.status.Executions) + ". " + e.Target + ": " + e.Message
		}
	}
	return ""
}

// ready sums up. An error says more than the conditions do.
func (v view) ready(err error) conditions.Step {
	t := v1alpha1.ConditionReady
	if err != nil {
		return conditions.False(t, kube.Reason(err), kube.Message(err))
	}
	scheduled, hibernated := v.scheduled(), v.hibernated()
	switch {
	case scheduled.Status != metav1.ConditionTrue && (scheduled.Reason != v1alpha1.ReasonDeleting || !v.any(v.plan.failed)):
		return conditions.Step{Type: t, Status: metav1.ConditionFalse, Reason: scheduled.Reason, Message: scheduled.Message}
	case v.any(v.plan.failed):
		reason := v1alpha1.ReasonPartly
		if v.phase() == v1alpha1.PhaseError {
			reason = hibernated.Reason
		}
		return conditions.False(t, reason, v.failure())
	}
	return conditions.True(t, hibernated.Reason, hibernated.Message)
}

// quiet are reasons that another condition tells of.
var quiet = []string{v1alpha1.ReasonPending, v1alpha1.ReasonAccepted, v1alpha1.ReasonNothingAsleep, v1alpha1.ReasonAsExpected}

// bad are the reasons that are a Warning.
var bad = []string{
	v1alpha1.ReasonInvalid, v1alpha1.ReasonTooManyExceptions, v1alpha1.ReasonTooManyNamespaces, v1alpha1.ReasonRunnerNotStarted, v1alpha1.ReasonLeftAsleep, v1alpha1.ReasonLeftAsFound, v1alpha1.ReasonNothingFound, v1alpha1.ReasonNotGranted, v1alpha1.ReasonConnectorNotReady, v1alpha1.ReasonConnectorMissing, v1alpha1.ReasonNoRunnerImage, v1alpha1.ReasonPartly,
	v1alpha1.ReasonShutdownFailed, v1alpha1.ReasonWakeUpFailed, v1alpha1.ReasonCycleLost, v1alpha1.ReasonLedgerLost, v1alpha1.ReasonNamespacesChanged, kube.ReasonForbidden, kube.ReasonNameTaken,
	kube.ReasonRejected, kube.ReasonReconcileError,
}

// answers are the events of annotations that ask for something.
func answers(p Plan) (out []kube.Event) {
	for _, a := range p.Acted {
		out = append(out, kube.Event{Type: corev1.EventTypeNormal, Reason: v1alpha1.ReasonAcknowledged, Subject: a, Message: "Annotation " + a + " was acted on"})
	}
	for _, a := range p.Void {
		out = append(out, kube.Event{Type: corev1.EventTypeWarning, Reason: v1alpha1.ReasonNotActedOn, Subject: a, Message: "Annotation " + a +
			" was there when the plan was created, and does not count: it may have come with a backup; give it another value"})
	}
	return out
}

// stopped are the events of runners that were stopped.
func stopped(p Plan) (out []kube.Event) {
	for _, i := range p.Stopped {
		e := &p.Status.Executions[i]
		out = append(out, kube.Event{Type: corev1.EventTypeNormal, Reason: v1alpha1.ReasonRunnerStopped, Subject: e.Target, Message: fmt.Sprintf(
			"Attempt %d at %s of target %s is stopped: the target is to be awake", e.Attempts, e.Operation, e.Target)})
	}
	return out
}

// saidBefore says whether Ready, which has told of an error, says now what another condition has said meanwhile.
func saidBefore(before []metav1.Condition, ready metav1.Condition) bool {
	was := find(before, ready.Type)
	return was != nil && kube.OfError(was.Reason) && slices.ContainsFunc(before, func(c metav1.Condition) bool {
		return c.Type != ready.Type && c.Reason == ready.Reason && c.Message == ready.Message
	})
}

// happened are the events between two statuses.
func happened(before, after *v1alpha1.HibernatePlan, s *scope, err error) (out []kube.Event) {
	if err == nil || s.recordable {
		out = append(out, answers(s.plan)...)
		for _, f := range s.plan.Failed {
			out = append(out, kube.Event{Type: corev1.EventTypeWarning, Reason: v1alpha1.ReasonTargetFailed, Subject: f.reason, Message: f.message})
		}
	}
	out = append(out, stopped(s.plan)...)
	if len(s.plan.Littered) > 0 {
		out = append(out, kube.Event{Type: corev1.EventTypeWarning, Reason: v1alpha1.ReasonRightsLeft, Message: conditions.Line(
			"What runners were granted is left, which nobody can use any more; delete it: " + strings.Join(s.plan.Littered, "; "))})
	}
	if s.plan.GivenUp && err == nil {
		v, left := view{status: &after.Status}, strings.Join(s.seen.leftAsleep(), ", ")
		out = append(out, kube.Event{Type: corev1.EventTypeWarning, Reason: v1alpha1.ReasonLeftAsleep, Message: "The plan goes, and these targets sleep: " + cmp.Or(v.named(asleep), conditions.Line(left), "not known, as the ledger is lost") +
			"; a plan of the same name wakes them by their restore points, ConfigMaps in the manager's namespace with label " + labelRestorePoint})
	}
	return append(out, becauseOf(before.Status.Conditions, after.Status.Conditions)...)
}

// becauseOf are the events of the conditions that have changed.
func becauseOf(before, after []metav1.Condition) (out []kube.Event) {
	changed := conditions.Changed(before, after)
	ready := find(changed, v1alpha1.ConditionReady) // which says it of others that change with it
	for _, c := range changed {
		switch {
		case slices.Contains(quiet, c.Reason),
			c.Type == v1alpha1.ConditionReady && saidBefore(before, c),
			c.Type != v1alpha1.ConditionReady && ready != nil && ready.Reason == c.Reason,
			c.Type == v1alpha1.ConditionRestorePointSaved && c.Reason == v1alpha1.ReasonHibernating:
			continue
		}
		kind := corev1.EventTypeNormal
		if slices.Contains(bad, c.Reason) {
			kind = corev1.EventTypeWarning
		}
		out = append(out, kube.Event{Type: kind, Reason: c.Reason, Message: c.Message})
	}
	return out
}
