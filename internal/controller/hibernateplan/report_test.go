package hibernateplan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// told are the Events that were recorded.
type told struct{ all []string }

func (r *told) Eventf(_, _ runtime.Object, eventType, reason, action, note string, args ...any) {
	r.all = append(r.all, eventType+" "+reason+" "+action+": "+fmt.Sprintf(note, args...))
}

// of are those of a reason.
func (r *told) of(reason string) (out []string) {
	for _, line := range r.all {
		if strings.Contains(line, " "+reason+" ") {
			out = append(out, line)
		}
	}
	return out
}

// tried is a reconciler in whose world a plan of 22 targets is to sleep, and is only tried out.
func tried(t *testing.T) (*Reconciler, client.Client, *v1alpha1.HibernatePlan) {
	t.Helper()
	plan := asleepNow()
	plan.Spec.Targets = nil
	for i := range 22 {
		plan.Spec.Targets = append(plan.Spec.Targets, v1alpha1.Target{Name: fmt.Sprintf("t%02d", i), Type: "noop"})
	}
	plan.Spec.DryRun = true
	r, c := newReconciler(t, plan)
	for range 4 {
		_, plan = pass(t, r, plan)
	}
	return r, c, plan
}

// A plan that is only tried out makes nothing; then it does.
func TestDryRun(t *testing.T) {
	r, c, plan := tried(t)
	for _, list := range []client.ObjectList{&batchv1.JobList{}, &appsv1.ControllerRevisionList{}, &corev1.ConfigMapList{}, &corev1.ServiceAccountList{}} {
		if err := c.List(t.Context(), list); err != nil || meta.LenList(list) > 0 {
			t.Errorf("%d in a %T, %v", meta.LenList(list), list, err)
		}
	}
	if st := plan.Status; st.Cycles != 0 || st.CurrentCycle != nil || len(st.Executions) > 0 || st.Phase != v1alpha1.PhaseActive {
		t.Errorf("%s, %d cycles, %+v, %+v", st.Phase, st.Cycles, st.CurrentCycle, st.Executions)
	}
	plan.Spec.DryRun = false
	if err := c.Update(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		_, plan = pass(t, r, plan)
	}
	if st := plan.Status; len(jobsOf(t, c)) != 2 || st.Cycles != 1 || st.Phase != v1alpha1.PhaseHibernating {
		t.Errorf("%s: %d cycles, %d Jobs", st.Phase, st.Cycles, len(jobsOf(t, c)))
	}
}

// It says what it would put to sleep, as much of that as can be read.
func TestDryRunTells(t *testing.T) {
	_, _, plan := tried(t)
	for _, conditionType := range []string{v1alpha1.ConditionScheduled, v1alpha1.ConditionHibernated, v1alpha1.ConditionReady} {
		if got := find(plan.Status.Conditions, conditionType); got.Status != metav1.ConditionFalse || got.Reason != v1alpha1.ReasonDryRun {
			t.Errorf("%+v", got)
		}
	}
	got := find(plan.Status.Conditions, v1alpha1.ConditionHibernated).Message
	if !strings.HasPrefix(got, "Would be put to sleep now: t00 (noop), t01 (noop), ") || !strings.HasSuffix(got, ", t19 (noop), and 2 more") {
		t.Errorf("it says %q", got)
	}
}

// A cycle that has begun ends in the morning, and there is no other. By day nothing would sleep.
func TestDryRunOfOneThatSleeps(t *testing.T) {
	w := newWorld(t, newPlan(v1alpha1.StrategyDAG, 3))
	w.until(noon.Add(9 * time.Hour))
	w.plan.Spec.DryRun = true
	w.settle()
	if len(w.asleep) != 3 || w.plan.Status.Phase != v1alpha1.PhaseHibernated {
		t.Fatalf("%s, asleep %v", w.plan.Status.Phase, w.asleep)
	}
	w.until(noon.Add(19 * time.Hour))
	w.awake()
	if got := w.condition(v1alpha1.ConditionHibernated); got.Reason != v1alpha1.ReasonAwake {
		t.Errorf("by day: %+v", got)
	}
	w.until(noon.Add(33 * time.Hour))
	w.awake()
	if got := w.condition(v1alpha1.ConditionHibernated); len(w.ran) != 6 || got.Message != "Would be put to sleep now: a (noop), b (noop), c (noop)" {
		t.Errorf("%d Jobs, %+v", len(w.ran), got)
	}
}

// lines are those of a log that tell of a reason, without their times.
func (w *world) lines(reason string) (out []string) {
	for _, line := range w.log {
		if _, event, _ := strings.Cut(line[4:], " "); strings.HasPrefix(event, reason+": ") {
			out = append(out, strings.TrimPrefix(event, reason+": "))
		}
	}
	return out
}

// Each attempt that fails is told of once, with why, whatever comes of the next.
func TestEventsOfFailures(t *testing.T) {
	w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 2))
	w.plan.Spec.Behavior.Retries = ptr.To[int32](2)
	w.fails = func(e execution) bool {
		return e.Target == "b" && (e.Operation == v1alpha1.OperationShutdown || e.Attempts == 1)
	}
	w.until(noon.Add(19 * time.Hour))
	w.awake()
	want := []string{
		"Attempt 1 at Shutdown of target b has failed: it does not want to", "Attempt 2 at Shutdown of target b has failed: it does not want to",
		"Attempt 3 at Shutdown of target b has failed: it does not want to", "Attempt 1 at WakeUp of target b has failed: it does not want to",
	}
	if diff := cmp.Diff(want, w.lines(v1alpha1.ReasonTargetFailed)); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// failing1 is a reconciler in whose world a plan has a Job that has failed, or one that is refused, and what it tells.
func failing1(t *testing.T, refused bool) (*Reconciler, *v1alpha1.HibernatePlan, *told) {
	t.Helper()
	plan, recorder := asleepNow(), &told{}
	r, c := newReconciler(t, plan)
	r.Recorder = recorder
	if refused {
		r.Live = interceptor.NewClient(c, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if o.GetObjectKind().GroupVersionKind() == jobGVK {
				return apierrors.NewInvalid(schema.GroupKind{Group: "batch", Kind: "Job"}, o.GetName(), nil)
			}
			return c.Create(ctx, o, opts...)
		}})
		_, plan = pass(t, r, plan)
		return r, plan, recorder
	}
	job := theJob(t, r, c, plan)
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "DeadlineExceeded"}}
	if err := c.Status().Update(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	return r, plan, recorder
}

// What was not recorded is not told of; when it is, it is once, and of which target.
func TestEventsAreOfWhatIsRecorded(t *testing.T) {
	for name, test := range map[string]struct {
		refused bool
		want    string
	}{
		"a Job fails":      {false, "Its runner has ended without a result: Job DeadlineExceeded"},
		"a Job is refused": {true, `is invalid`},
	} {
		t.Run(name, func(t *testing.T) {
			r, plan, recorder := failing1(t, test.refused)
			served, lost := r.Client, errors.New("the API server is gone")
			r.Client = interceptor.NewClient(served.(client.WithWatch), interceptor.Funcs{
				SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
					return lost
				},
			})
			now := &v1alpha1.HibernatePlan{}
			if err := served.Get(t.Context(), client.ObjectKeyFromObject(plan), now); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Reconcile(t.Context(), now); !errors.Is(err, lost) || len(recorder.of(v1alpha1.ReasonTargetFailed)) > 0 {
				t.Fatalf("%v: %q", err, recorder.all)
			}
			r.Client = served
			for range 4 {
				pass(t, r, plan)
			}
			got := recorder.of(v1alpha1.ReasonTargetFailed)
			if len(got) != 1 || !strings.HasPrefix(got[0], "Warning TargetFailed Reconcile/a: Attempt 1 at Shutdown of target a has failed: ") || !strings.Contains(got[0], test.want) {
				t.Errorf("%q", got)
			}
		})
	}
}

// A plan that goes tells once of what it leaves asleep, and by what that is woken; one that leaves nothing, of nothing.
func TestEventOfWhatIsLeft(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1alpha1.HibernatePlan)
		fails  string
		after  time.Duration
		want   string
	}{
		"all wake": {change: func(*v1alpha1.HibernatePlan) {}},
		"leave":    {change: func(p *v1alpha1.HibernatePlan) { p.Spec.DeletionPolicy = v1alpha1.DeletionLeave }, want: "a, b, c"},
		"nothing sleeps": {change: func(p *v1alpha1.HibernatePlan) {
			p.Spec.DeletionPolicy = v1alpha1.DeletionLeave
			p.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideAwake, Until: ptr.To(metav1.NewTime(noon.Add(24 * time.Hour)))}
		}},
		"awake again": {change: func(p *v1alpha1.HibernatePlan) {
			p.Spec.DeletionPolicy = v1alpha1.DeletionLeave
			p.Spec.Schedule.OffHours[0].End = "20:30"
		}},
		"one does not": {change: func(*v1alpha1.HibernatePlan) {}, fails: "b", after: time.Hour, want: "b"},
		"sooner": {
			change: func(p *v1alpha1.HibernatePlan) {
				p.Spec.Deletion = &v1alpha1.Deletion{Deadline: &metav1.Duration{Duration: 5 * time.Minute}}
			}, fails: "abc", after: 5 * time.Minute, want: "a, b, c",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 3))
			test.change(w.plan)
			w.until(noon.Add(9 * time.Hour))
			w.fails = func(e execution) bool { return strings.Contains(test.fails, e.Target) }
			w.plan.DeletionTimestamp = ptr.To(metav1.NewTime(w.now))
			if test.after > 0 {
				w.until(w.now.Add(test.after - time.Second))
				if w.done || len(w.lines(v1alpha1.ReasonLeftAsleep)) > 0 {
					t.Errorf("it gives up early: %q", w.log)
				}
			}
			w.until(w.now.Add(time.Second))
			got := w.lines(v1alpha1.ReasonLeftAsleep)
			if test.want == "" {
				if len(got) > 0 || !w.done {
					t.Errorf("done: %v, %q", w.done, got)
				}
				return
			}
			if len(got) != 1 || !w.done || !strings.HasPrefix(got[0], "The plan goes, and these targets sleep: "+test.want+"; a plan of the same name wakes them") || !strings.Contains(got[0], labelRestorePoint) {
				t.Errorf("done: %v, %q", w.done, got)
			}
		})
	}
}

// Who still runs at the deadline is not waited for, and is told of once, when all of it is cleared away.
func TestEventOfWhatHangs(t *testing.T) {
	w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 3))
	w.until(noon.Add(9 * time.Hour))
	w.plan.DeletionTimestamp = ptr.To(metav1.NewTime(w.now))
	for range 4 {
		w.pass(-1)
	}
	w.now = w.now.Add(defaultDeadline)
	for range 4 {
		if !w.done {
			w.pass(-1)
		}
	}
	if got := w.lines(v1alpha1.ReasonLeftAsleep); !w.done || len(got) != 1 || !strings.Contains(got[0], "these targets sleep: a, b, c;") || len(w.jobs) > 0 {
		t.Errorf("done: %v, %q, Jobs %v", w.done, got, w.jobs)
	}
}

// Nor is what was decided when a part of the ledger could not be kept.
func TestEventsAreOfLedgersThatAreKept(t *testing.T) {
	plan, recorder, lost := large(2000), &told{}, errors.New("the API server is gone")
	plan.Annotations = map[string]string{v1alpha1.AnnotationRetryNow: "1"}
	r, c := newReconciler(t, plan)
	r.Recorder = recorder
	r.Live = interceptor.NewClient(c, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if o.GetLabels()[labelLedger] != "" {
			return lost
		}
		return c.Create(ctx, o, opts...)
	}})
	now := &v1alpha1.HibernatePlan{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(plan), now); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reconcile(t.Context(), now); !errors.Is(err, lost) || len(recorder.all) > 0 {
		t.Fatalf("%v: %q", err, recorder.all)
	}
	r.Live = c
	for range 3 {
		pass(t, r, plan)
	}
	if got := recorder.of(v1alpha1.ReasonAcknowledged); len(got) != 1 {
		t.Errorf("%q", got)
	}
}

// Each annotation that was acted on is told of, once for each value.
func TestEventsOfAnnotations(t *testing.T) {
	plan, recorder := newPlan(v1alpha1.StrategyParallel, 1), &told{}
	plan.Finalizers = []string{v1alpha1.Finalizer}
	r, c := newReconciler(t, plan)
	r.Recorder = recorder
	_, plan = pass(t, r, plan)
	var want []string
	for i, name := range []string{"hibernate-now", "wake-now", "skip-next", "retry-now", "retry-now"} {
		plan.Annotations = map[string]string{v1alpha1.GroupVersion.Group + "/" + name: fmt.Sprint(i)}
		if err := c.Update(t.Context(), plan); err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprintf("Normal Acknowledged Reconcile/%s: Annotation %s was acted on", name, name))
		for range 3 {
			_, plan = pass(t, r, plan)
		}
		r.Options.Clock.(*clocktesting.FakePassiveClock).SetTime(noon.Add(time.Duration(i) * time.Minute))
	}
	if diff := cmp.Diff(want, recorder.of(v1alpha1.ReasonAcknowledged)); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// That nothing begins because a plan has too many exceptions is a warning, as all else is that keeps a plan from beginning.
func TestEventOfTooManyExceptions(t *testing.T) {
	plan := asleepNow()
	all := []client.Object{plan}
	for i := range maxExceptions + 1 {
		e := suspended(0, time.Hour)
		e.Namespace, e.Name, e.Spec.PlanRef.Name = plan.Namespace, fmt.Sprintf("e%03d", i), plan.Name
		all = append(all, &e)
	}
	r, _ := newReconciler(t, all...)
	events := &told{}
	r.Recorder = events
	pass(t, r, plan)
	if got := events.of(v1alpha1.ReasonTooManyExceptions); len(got) != 1 || !strings.HasPrefix(got[0], corev1.EventTypeWarning) {
		t.Errorf("it says %q", got)
	}
}

// That the phase changes is told of, also where what the plan is Ready for stays the same: some has failed before the rest sleeps.
func TestEventsOfPhases(t *testing.T) {
	w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 5))
	w.plan.Spec.Behavior = v1alpha1.Behavior{Mode: v1alpha1.BehaviorBestEffort, Retries: ptr.To[int32](0)}
	w.fails = func(e execution) bool { return e.Target == "b" && e.Operation == v1alpha1.OperationShutdown }
	w.now = noon.Add(9 * time.Hour)
	suspended := false
	phases := []v1alpha1.Phase{""}
	for range 60 {
		before := len(w.log)
		w.pass(-1)
		if phase := w.plan.Status.Phase; phase != phases[len(phases)-1] {
			phases = append(phases, phase)
			if !slices.ContainsFunc(w.log[before:], func(line string) bool { return strings.Contains(line, ": ") }) {
				t.Errorf("nothing tells that it is %s by now, after %v:\n%s", phase, phases, strings.Join(w.log, "\n"))
			}
		}
		if w.plan.Status.Phase == v1alpha1.PhaseHibernated && !suspended {
			suspended, w.plan.Spec.Override = true, &v1alpha1.Override{State: v1alpha1.OverrideAwake}
		} else if suspended && w.plan.Status.Phase == v1alpha1.PhaseWakingUp && len(w.asleep) < 4 {
			w.plan.Spec.Suspend = true // what runs comes to its end
		}
		w.end()
	}
	want := []v1alpha1.Phase{"", v1alpha1.PhaseHibernating, v1alpha1.PhaseHibernated, v1alpha1.PhaseWakingUp, v1alpha1.PhaseSuspended}
	if !slices.Equal(phases, want) {
		t.Errorf("%v", phases)
	}
}

// When a pass fails no more, Ready says again what another condition has said while it failed: that is no news.
func TestSaidOnce(t *testing.T) {
	is := func(conditionType string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: message}
	}
	slept := is(v1alpha1.ConditionHibernated, metav1.ConditionTrue, v1alpha1.ReasonHibernated, "2 targets are asleep")
	failed := is(v1alpha1.ConditionReady, metav1.ConditionFalse, kube.ReasonReconcileError, "No")
	ready := is(v1alpha1.ConditionReady, metav1.ConditionTrue, slept.Reason, slept.Message)
	for name, test := range map[string]struct {
		before []metav1.Condition
		told   int
	}{"while it failed": {[]metav1.Condition{failed, slept}, 0}, "never before": {[]metav1.Condition{failed}, 1}} {
		if got := becauseOf(test.before, []metav1.Condition{ready, slept}); len(got) != test.told {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// That an override has ended, and does not count, is said beside what does: it may have been meant to, and is no news, no error, and no
// reason to write the status again or to look at the plan once more.
func TestOverrideThatHasEnded(t *testing.T) {
	const says = "; spec.override has ended (until 2026-03-02T12:30:00Z) and does not count; take it out, or correct until"
	const schedule, override = "By the schedule the targets are to be awake", "By spec.override the targets are to be awake"
	const dryRun, suspended = "No cycle begins while spec.dryRun is set", "Nothing starts while spec.suspend is set"
	for name, test := range map[string]struct {
		change        func(*v1alpha1.HibernatePlanSpec)
		before, after string
		// wait is when it is looked at again, from noon on.
		wait time.Duration
	}{
		"awake":     {func(*v1alpha1.HibernatePlanSpec) {}, override, schedule + says, 30 * time.Minute},
		"for ever":  {func(spec *v1alpha1.HibernatePlanSpec) { spec.Override.Until = nil }, override, override, 24 * time.Hour},
		"taken out": {func(spec *v1alpha1.HibernatePlanSpec) { spec.Override = nil }, schedule, schedule, 24 * time.Hour},
		"dry run":   {func(spec *v1alpha1.HibernatePlanSpec) { spec.DryRun = true }, dryRun, dryRun + says, 30 * time.Minute},
		"suspended": {func(spec *v1alpha1.HibernatePlanSpec) { spec.Suspend = true }, suspended, suspended, 30 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			plan, recorder := newPlan(v1alpha1.StrategyParallel, 1), &told{}
			plan.Finalizers = []string{v1alpha1.Finalizer}
			plan.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideAwake, Until: &metav1.Time{Time: noon.Add(30 * time.Minute)}}
			test.change(&plan.Spec)
			r, _ := newReconciler(t, plan)
			r.Recorder = recorder
			for range 3 {
				pass(t, r, plan) // until it has what its targets need
			}
			told := len(recorder.all)
			for _, at := range []int{0, 29, 30, 31, 90} {
				r.Options.Clock.(*clocktesting.FakePassiveClock).SetTime(noon.Add(time.Duration(at) * time.Minute))
				_, first := pass(t, r, plan)
				result, second := pass(t, r, plan)
				want, wait := test.after, longest
				if at < 30 {
					want, wait = test.before, min(longest, test.wait-time.Duration(at)*time.Minute)
				}
				if got := find(second.Status.Conditions, v1alpha1.ConditionScheduled).Message; got != want || result.RequeueAfter != wait {
					t.Errorf("after %d minutes, and for %s, it says %q", at, result.RequeueAfter, got)
				}
				if first.ResourceVersion != second.ResourceVersion || len(recorder.all) > told {
					t.Errorf("after %d minutes it is written again, or told: %q", at, recorder.all[told:])
				}
			}
		})
	}
}

// Whoever writes an override that has ended, or leaves it where until was to be another one, is warned; who changes something else is not.
func TestReviewOfAnOverrideThatHasEnded(t *testing.T) {
	plan := newPlan(v1alpha1.StrategyParallel, 1)
	r, _ := newReconciler(t, plan)
	of := func(change func(*v1alpha1.HibernatePlanSpec)) *v1alpha1.HibernatePlan {
		plan := plan.DeepCopy()
		plan.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideHibernated, Until: &metav1.Time{Time: noon.Add(-time.Hour)}}
		change(&plan.Spec)
		return plan
	}
	ended := of(func(*v1alpha1.HibernatePlanSpec) {})
	const says = "spec.override has ended (until 2026-03-02T11:00:00Z) and does not count; take it out, or correct until"
	for name, test := range map[string]struct {
		before *v1alpha1.HibernatePlan // nil where it is new
		change func(*v1alpha1.HibernatePlanSpec)
		want   string
	}{
		"new":            {nil, func(*v1alpha1.HibernatePlanSpec) {}, says},
		"new in it":      {plan, func(*v1alpha1.HibernatePlanSpec) {}, says},
		"another state":  {ended, func(spec *v1alpha1.HibernatePlanSpec) { spec.Override.State = v1alpha1.OverrideAwake }, says},
		"something else": {ended, func(spec *v1alpha1.HibernatePlanSpec) { spec.Suspend = true }, ""},
		"taken out":      {ended, func(spec *v1alpha1.HibernatePlanSpec) { spec.Override = nil }, ""},
		"for ever":       {ended, func(spec *v1alpha1.HibernatePlanSpec) { spec.Override.Until = nil }, ""},
		"corrected":      {ended, func(spec *v1alpha1.HibernatePlanSpec) { spec.Override.Until.Time = noon.Add(1) }, ""},
		"refused":        {nil, func(spec *v1alpha1.HibernatePlanSpec) { spec.Schedule.Timezone = "Europe/Nowhere" }, ""},
	} {
		after := of(test.change)
		warnings, err := reviewer{r}.ValidateCreate(t.Context(), after)
		if test.before != nil {
			warnings, err = reviewer{r}.ValidateUpdate(t.Context(), test.before, after)
		}
		if got := strings.Join(warnings, "\n"); got != test.want || (err != nil) != (name == "refused") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
