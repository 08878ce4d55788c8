package hibernateplan

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/conditions"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/internal/schedule"
	"github.com/labkeeper/labkeeper/test/fakes"
)

// suspended is an exception that lets nothing sleep for a while.
func suspended(from, until time.Duration) v1alpha1.ScheduleException {
	return v1alpha1.ScheduleException{ObjectMeta: metav1.ObjectMeta{Name: "release"}, Spec: v1alpha1.ScheduleExceptionSpec{
		PlanRef: v1alpha1.PlanRef{Name: "night"}, Type: v1alpha1.ExceptionSuspend,
		ValidFrom: metav1.NewTime(noon.Add(from)), ValidUntil: metav1.NewTime(noon.Add(until)),
	}}
}

// line is a transition as a week is read.
func line(t v1alpha1.Transition) string { return t.Time.UTC().Format("Mon 2 15:04 ") + string(t.To) }

// What is told of a week is what will be wanted in it, exceptions, override and all.
func TestUpcoming(t *testing.T) {
	week := []string{
		"Mon 2 20:00 Hibernated", "Tue 3 06:00 Awake", "Tue 3 20:00 Hibernated", "Wed 4 06:00 Awake", "Wed 4 20:00 Hibernated",
		"Thu 5 06:00 Awake", "Thu 5 20:00 Hibernated", "Fri 6 06:00 Awake", "Fri 6 20:00 Hibernated", "Sat 7 06:00 Awake",
	}
	override := func(state v1alpha1.OverrideState, until time.Duration) func(*v1alpha1.HibernatePlan) {
		return func(p *v1alpha1.HibernatePlan) {
			p.Spec.Override = &v1alpha1.Override{State: state}
			if until > 0 {
				p.Spec.Override.Until = ptr.To(metav1.NewTime(noon.Add(until)))
			}
		}
	}
	release := []v1alpha1.ScheduleException{suspended(48*time.Hour, 72*time.Hour)} // of Wednesday
	for name, test := range map[string]struct {
		change     func(*v1alpha1.HibernatePlan)
		exceptions []v1alpha1.ScheduleException
		want       []string
		// next where that is not the first of the week.
		next string
	}{
		"weekdays": {want: week},
		"every day": {
			change: func(p *v1alpha1.HibernatePlan) {
				p.Spec.Schedule.OffHours[0].DaysOfWeek = []v1alpha1.DayOfWeek{"MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"}
			},
			want: slices.Concat(week, []string{"Sat 7 20:00 Hibernated", "Sun 8 06:00 Awake", "Sun 8 20:00 Hibernated", "Mon 9 06:00 Awake"}),
		},
		"an exception":               {exceptions: release, want: slices.Concat(week[:4], week[6:])},
		"a part of a night":          {exceptions: []v1alpha1.ScheduleException{suspended(0, 10*time.Hour)}, want: slices.Concat([]string{"Mon 2 22:00 Hibernated"}, week[1:])},
		"awake until in the night":   {change: override(v1alpha1.OverrideAwake, 34*time.Hour), want: slices.Concat([]string{"Tue 3 22:00 Hibernated"}, week[3:])},
		"asleep until in the night":  {change: override(v1alpha1.OverrideHibernated, 34*time.Hour), want: week[3:]},
		"asleep until in the day":    {change: override(v1alpha1.OverrideHibernated, 26*time.Hour), want: slices.Concat([]string{"Tue 3 14:00 Awake"}, week[2:])},
		"awake until a night":        {change: override(v1alpha1.OverrideAwake, 32*time.Hour), want: week[2:]},
		"asleep until a morning":     {change: override(v1alpha1.OverrideHibernated, 18*time.Hour), want: week[1:]},
		"awake until in the day":     {change: override(v1alpha1.OverrideAwake, 26*time.Hour), want: week[2:]},
		"an exception and until":     {change: override(v1alpha1.OverrideAwake, 34*time.Hour), exceptions: release, want: slices.Concat([]string{"Tue 3 22:00 Hibernated"}, week[3:4], week[6:])},
		"awake until after the week": {change: override(v1alpha1.OverrideAwake, 10*24*time.Hour), next: "Thu 12 20:00 Hibernated"},
		"an override that has ended": {change: override(v1alpha1.OverrideAwake, time.Nanosecond), want: week},
		"awake for ever":             {change: override(v1alpha1.OverrideAwake, 0)},
		"suspended":                  {change: func(p *v1alpha1.HibernatePlan) { p.Spec.Suspend = true }},
		"deleted":                    {change: func(p *v1alpha1.HibernatePlan) { p.DeletionTimestamp = ptr.To(metav1.NewTime(noon)) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 1))
			w.exceptions = test.exceptions
			if test.change != nil {
				test.change(w.plan)
			}
			if name == "an override that has ended" {
				w.now = noon.Add(time.Second)
			}
			w.settle()
			var got []string
			for _, at := range w.plan.Status.Upcoming {
				got = append(got, line(at))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("upcoming (-want +got):\n%s", diff)
			}
			next, want := "", test.next
			if at := w.plan.Status.NextTransition; at != nil {
				next = line(*at)
			}
			if len(test.want) > 0 {
				want = test.want[0]
			}
			if next != want {
				t.Errorf("next is %q, not %q", next, want)
			}
		})
	}
}

// What is told of the time after an override is what an annotation still wants by then, and after that the schedule.
func TestUpcomingAfterAnOverride(t *testing.T) {
	for name, test := range map[string]struct {
		until time.Duration // of the override
		want  []string      // the first two changes
		at    time.Duration // a time by which the first has come
	}{
		"which ends first":  {2 * time.Hour, []string{"Mon 2 14:00 Hibernated", "Tue 3 06:00 Awake"}, 3 * time.Hour},
		"which ends last":   {20 * time.Hour, []string{"Tue 3 20:00 Hibernated", "Wed 4 06:00 Awake"}, 33 * time.Hour},
		"beyond the week":   {10 * 24 * time.Hour, []string{"Thu 12 20:00 Hibernated"}, 0},
		"in another night":  {33 * time.Hour, []string{"Tue 3 21:00 Hibernated", "Wed 4 06:00 Awake"}, 34 * time.Hour},
		"as the other does": {18 * time.Hour, []string{"Tue 3 20:00 Hibernated", "Wed 4 06:00 Awake"}, 33 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 2))
			w.settle()
			w.plan.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideAwake, Until: ptr.To(metav1.NewTime(noon.Add(test.until)))}
			w.plan.Annotations = map[string]string{v1alpha1.AnnotationHibernateNow: "1"} // until Tuesday morning
			w.settle()
			told := w.plan.Status.Upcoming
			if len(told) == 0 {
				told = []v1alpha1.Transition{*w.plan.Status.NextTransition}
			}
			for i, want := range test.want {
				if got := line(told[i]); got != want {
					t.Errorf("it tells of %s, not %s", got, want)
				}
			}
			if got := line(*w.plan.Status.NextTransition); got != test.want[0] {
				t.Errorf("next is %s, not %s", got, test.want[0])
			}
			if test.at > 0 {
				w.until(told[0].Time.Add(-time.Second))
				w.awake()
				w.until(noon.Add(test.at))
				if len(w.asleep) != 2 {
					t.Errorf("asleep %v", w.asleep)
				}
			}
		})
	}
}

// A suspension with a mistake says so, and that it counts for all of its time until then: nothing is put to sleep against one. Whoever
// makes it hears of the mistake alone, because it is not kept. When its time is over, that is all that is said of it.
func TestSuspensionWithAMistake(t *testing.T) {
	const until = ". Until that is mended it counts for all of its time: nothing goes to sleep from spec.validFrom to spec.validUntil"
	cron := func(start string) []v1alpha1.OffHours {
		return []v1alpha1.OffHours{{Start: "22:00", End: "23:00", DaysOfWeek: []v1alpha1.DayOfWeek{"MON"}}, {StartCron: start, EndCron: "0 6 * * *"}}
	}
	for name, test := range map[string]struct {
		lead    time.Duration
		windows []v1alpha1.OffHours
		says    string
	}{
		"Sunday": {0, cron("0 18 * * 7"), `spec.windows[1].startCron: "0 18 * * 7" is not a cron expression: end of range (7) above maximum (6): 7; Sunday is 0 or SUN`},
		"days": {0, cron("0 18 * * FRI-MON"),
			`spec.windows[1].startCron: "0 18 * * FRI-MON" is not a cron expression: beginning of range (5) beyond end of range (1): FRI-MON`},
		"a stored lead time": {9600 * time.Hour, nil, "spec.leadTime: 9600h0m0s is not between 0s and 720h0m0s"},
		"both": {-time.Second, cron("@every 1h"),
			`spec.leadTime: -1s is not between 0s and 720h0m0s; spec.windows[1].startCron: "@every 1h" has no fixed times; write five fields`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 1))
			e := suspended(0, 48*time.Hour)
			e.Namespace, e.Spec.Windows, e.Spec.LeadTime = w.plan.Namespace, test.windows, &metav1.Duration{Duration: test.lead}
			_, c := newReconciler(t, w.plan.DeepCopy())
			r := &Exceptions{Client: c, Clock: clocktesting.NewFakePassiveClock(noon)}
			if warnings, err := (exceptionReviewer{r}).ValidateCreate(t.Context(), &e); err == nil || err.Error() != "Invalid: "+test.says || len(warnings) > 0 {
				t.Errorf("whoever makes it hears %v, %q", err, warnings)
			}
			if wait := judge(&e, w.plan, nil, noon); e.Status.State != v1alpha1.ExceptionInvalid || e.Status.Message != test.says+until || wait != longest {
				t.Errorf("for %s it is %s: %s", wait, e.Status.State, e.Status.Message)
			}
			w.exceptions = []v1alpha1.ScheduleException{e, suspended(72*time.Hour, 96*time.Hour)} // and Thursday's
			w.settle()
			var got []string
			for _, at := range w.plan.Status.Upcoming {
				got = append(got, line(at))
			}
			if diff := cmp.Diff([]string{"Wed 4 20:00 Hibernated", "Thu 5 06:00 Awake", "Fri 6 20:00 Hibernated", "Sat 7 06:00 Awake"}, got); diff != "" {
				t.Errorf("upcoming (-want +got):\n%s", diff)
			}
			if at := w.exceptions[0].Spec; len(at.Windows) != len(test.windows) || at.LeadTime.Duration != test.lead {
				t.Errorf("what the cache has was changed: %+v", at)
			}
			if wait := judge(&e, w.plan, nil, e.Spec.ValidUntil.Time); e.Status.State != v1alpha1.ExceptionExpired || e.Status.Message != "" || wait != 0 {
				t.Errorf("when it is over it is %s: %s", e.Status.State, e.Status.Message)
			}
		})
	}
}

// However many mistakes a suspension has, what that means is said. An exception that has others sleep does not count, and says nothing of
// the kind.
func TestMistakesOfOtherExceptions(t *testing.T) {
	plan, e := newPlan(v1alpha1.StrategyParallel, 1), suspended(0, 48*time.Hour)
	for range 64 {
		e.Spec.Windows = append(e.Spec.Windows, v1alpha1.OffHours{StartCron: "0 18 * * 7", EndCron: "0 6 * * 7"})
	}
	for kind, counts := range map[v1alpha1.ExceptionType]bool{v1alpha1.ExceptionSuspend: true, v1alpha1.ExceptionExtend: false, v1alpha1.ExceptionReplace: false} {
		e.Spec.Type = kind
		judge(&e, plan, nil, noon)
		if st := e.Status; st.State != v1alpha1.ExceptionInvalid || strings.HasSuffix(st.Message, "from spec.validFrom to spec.validUntil") != counts || len(st.Message) > conditions.MaxMessage {
			t.Errorf("one of type %s is %s: %s", kind, st.State, st.Message)
		}
		f := facts{plan: plan, now: noon, seen: Observed{Exceptions: []v1alpha1.ScheduleException{e}}}
		table, err := f.table(plan.Spec.Schedule, nil)
		if err != nil {
			t.Fatal(err)
		}
		if tonight := table.At(noon.Add(9 * time.Hour)); tonight.Asleep == counts {
			t.Errorf("with one of type %s it sleeps tonight: %t", kind, tonight.Asleep)
		}
	}
}

// An exception none of whose windows is in its time, by the clock of its plan, would do nothing, and says so until it has passed. One that
// suspends counts for all of that time, and one that replaces needs none: nothing sleeps then.
func TestExceptionWithoutAWindowInItsTime(t *testing.T) {
	const pacific = "America/Los_Angeles" // whose Thursday, 18:00, is past the one of UTC
	const says = "spec.windows: none of them is between validFrom and validUntil, which are Wed 2026-03-04 16:00 to Thu 2026-03-05 16:00 in " + pacific +
		"; move these, or correct the windows"
	for name, test := range map[string]struct {
		kind  v1alpha1.ExceptionType
		zone  string
		lead  time.Duration
		until time.Duration // from noon of Monday on
		says  string
		// asleep on Wednesday, 21:00 of Los Angeles, which its plan is every night.
		asleep bool
	}{
		"suspend":                       {kind: v1alpha1.ExceptionSuspend, zone: pacific, until: 84 * time.Hour, says: says + countsAllTheTime},
		"suspend, with a lead time":     {kind: v1alpha1.ExceptionSuspend, zone: pacific, lead: 720 * time.Hour, until: 84 * time.Hour, says: says + countsAllTheTime},
		"suspend, and it has one":       {kind: v1alpha1.ExceptionSuspend, zone: "UTC", until: 84 * time.Hour, asleep: true},
		"suspend, for longer":           {kind: v1alpha1.ExceptionSuspend, zone: pacific, until: 90 * time.Hour, asleep: true},
		"suspend, longer than is known": {kind: v1alpha1.ExceptionSuspend, zone: pacific, until: 403 * 24 * time.Hour, asleep: true},
		"extend":                        {kind: v1alpha1.ExceptionExtend, zone: pacific, until: 84 * time.Hour, says: says, asleep: true},
		"replace":                       {kind: v1alpha1.ExceptionReplace, zone: pacific, until: 84 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			plan, e := newPlan(v1alpha1.StrategyParallel, 1), suspended(60*time.Hour, test.until)
			plan.Spec.Schedule.Timezone, e.Namespace, e.Spec.Type = test.zone, plan.Namespace, test.kind
			e.Spec.Windows = []v1alpha1.OffHours{{Start: "18:00", End: "24:00", DaysOfWeek: []v1alpha1.DayOfWeek{"THU"}}}
			if name == "suspend, longer than is known" {
				e.Spec.Windows = []v1alpha1.OffHours{{StartCron: "0 18 29 2 *", EndCron: "0 0 1 3 *"}}
			}
			e.Spec.LeadTime = &metav1.Duration{Duration: test.lead}
			f := facts{plan: plan, now: noon, seen: Observed{Exceptions: []v1alpha1.ScheduleException{e}}}
			table, err := f.table(plan.Spec.Schedule, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := table.At(noon.Add(65 * time.Hour)).Asleep; got != test.asleep {
				t.Errorf("asleep: %t", got)
			}
			reviewedAndPassed(t, plan, &e, test.says)
		})
	}
}

// reviewedAndPassed has an exception reviewed, and looks at it before its time, in it and after it. It says what is wrong with it, if
// anything is, until it has passed.
func reviewedAndPassed(t *testing.T, plan *v1alpha1.HibernatePlan, e *v1alpha1.ScheduleException, says string) {
	t.Helper()
	_, c := newReconciler(t, plan, e)
	clock, recorder := clocktesting.NewFakePassiveClock(noon), &told{}
	r := &Exceptions{Client: c, Clock: clock, Recorder: recorder}
	refusal, states := "", []v1alpha1.ExceptionState{v1alpha1.ExceptionPending, v1alpha1.ExceptionActive}
	if says != "" {
		refusal, states = "Invalid: "+strings.TrimSuffix(says, countsAllTheTime), []v1alpha1.ExceptionState{v1alpha1.ExceptionInvalid, v1alpha1.ExceptionInvalid}
	}
	if _, err := (exceptionReviewer{r}).ValidateCreate(t.Context(), e); err != nil && err.Error() != refusal || (err == nil) != (refusal == "") {
		t.Errorf("whoever makes it hears %v", err)
	}
	for i, at := range []time.Time{noon, e.Spec.ValidFrom.Time} {
		if wait := judge(e, plan, nil, at); e.Status.State != states[i] || e.Status.Message != says || wait == 0 {
			t.Errorf("for %s it is %s: %s", wait, e.Status.State, e.Status.Message)
		}
	}
	clock.SetTime(e.Spec.ValidUntil.Time)
	for range 2 {
		if result, err := r.Reconcile(t.Context(), e); err != nil || result.RequeueAfter != 0 || e.Status.State != v1alpha1.ExceptionExpired || len(recorder.all) > 0 {
			t.Errorf("when it has passed it is %s: %q, %+v, %v", e.Status.State, recorder.all, result, err)
		}
	}
}

// An override that was stored with a time that no status can have is one for ever: a plan that cannot say what it does
// does nothing.
func TestStoredUntil(t *testing.T) {
	w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 1))
	until, err := time.Parse(time.RFC3339, "9999-12-31T23:59:59-12:00")
	if err != nil {
		t.Fatal(err)
	}
	w.plan.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideHibernated, Until: ptr.To(metav1.NewTime(until))}
	w.settle()
	if next := w.plan.Status.NextTransition; next != nil {
		t.Errorf("next is %s", next.Time.UTC().Format(time.RFC3339))
	}
}

// A plan that changes all the time does not fill its status with that.
func TestUpcomingIsBounded(t *testing.T) {
	w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 1))
	w.plan.Spec.Schedule.OffHours = []v1alpha1.OffHours{{StartCron: "0 * * * *", EndCron: "30 * * * *"}}
	w.now = noon.Add(45 * time.Minute)
	w.settle()
	all := w.plan.Status.Upcoming
	if len(all) != 32 || line(all[0]) != "Mon 2 13:00 Hibernated" || line(all[31]) != "Tue 3 04:30 Awake" {
		t.Errorf("%d: %v", len(all), all)
	}
}

// What a target that does not wake is asked to try again is tried at once, when the plan goes and when its schedule cannot
// be read, too, and once: the next failure waits as any does.
func TestRetryNow(t *testing.T) {
	for name, happens := range map[string]func(*world){
		"awake":   func(w *world) { w.plan.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideAwake} },
		"deleted": func(w *world) { w.plan.DeletionTimestamp = ptr.To(metav1.NewTime(w.now)) },
		"without a schedule": func(w *world) {
			w.plan.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideAwake, Until: ptr.To(metav1.NewTime(w.now.Add(time.Minute)))}
			w.plan.Spec.Schedule.Timezone = "Europe/Nowhere"
			w.revisions[1] = resolved{Targets: w.revisions[1].Targets, Execution: w.revisions[1].Execution, Behavior: w.revisions[1].Behavior}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 1))
			w.plan.Spec.Behavior.Retries = ptr.To[int32](0)
			w.fails = func(e execution) bool { return e.Operation == v1alpha1.OperationWakeUp }
			w.until(noon.Add(9 * time.Hour))
			happens(w)
			w.until(w.now.Add(2 * time.Minute))
			attempts := func(want int32) {
				t.Helper()
				for range 3 {
					w.settle()
				}
				if e := w.plan.Status.Executions[0]; e.Attempts != want || e.State != v1alpha1.ExecutionFailed {
					t.Fatalf("%d attempts, not %d: %s", e.Attempts, want, e.State)
				}
			}
			attempts(1)
			for i := range int32(2) { // each value counts
				w.plan.Annotations = map[string]string{v1alpha1.AnnotationRetryNow: fmt.Sprint(i)}
				attempts(i + 2)
				got := w.plan.Status.Acknowledged
				if len(got) != 1 || got[0].Annotation != "retry-now" || got[0].Value != fmt.Sprint(i) || !got[0].At.Time.Equal(w.now) {
					t.Errorf("%+v", got)
				}
				w.now = w.now.Add(time.Second)
			}
			w.fails = func(execution) bool { return false }
			w.until(w.now.Add(lastRetry - 3*time.Second))
			if len(w.asleep) != 1 {
				t.Error("it is tried again before its time")
			}
			w.plan.Annotations = map[string]string{v1alpha1.AnnotationRetryNow: "at last"}
			w.settle()
			w.awake()
		})
	}
}

// Who asks to try again what has failed in the evening, and asks by day, has it woken: what is wanted by then is what counts.
func TestRetryNowByDay(t *testing.T) {
	w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 2))
	w.plan.Spec.Behavior.Retries = ptr.To[int32](0)
	w.fails = func(e execution) bool {
		return e.Target == "a" && e.Operation == v1alpha1.OperationShutdown || e.Operation == v1alpha1.OperationWakeUp
	}
	w.until(noon.Add(9 * time.Hour))
	if w.plan.Status.Phase != v1alpha1.PhaseError {
		t.Fatalf("%s", w.plan.Status.Phase)
	}
	w.until(noon.Add(18*time.Hour + time.Minute)) // it is 06:01, and neither wakes
	w.log = nil
	w.plan.Annotations = map[string]string{v1alpha1.AnnotationRetryNow: "1"}
	w.settle()
	for _, target := range []string{"a", "b"} {
		if e := w.entry(target); e.Operation != v1alpha1.OperationWakeUp || e.Attempts != 2 {
			t.Errorf("%+v", e)
		}
	}
	for _, line := range w.log {
		if strings.Contains(line, " Shutdown ") {
			t.Errorf("by day: %s", line)
		}
	}
	w.fails = func(execution) bool { return false }
	w.until(w.now.Add(lastRetry))
	w.awake()
}

// An exception may begin and end within a second, as Date.toISOString writes it, and a status has whole ones: the night beside it is
// skipped as a whole.
func TestSkipNextOfMilliseconds(t *testing.T) {
	w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 2))
	w.settle()
	w.exceptions = []v1alpha1.ScheduleException{
		suspended(0, 8*time.Hour+700*time.Millisecond), suspended(15*time.Hour+400*time.Millisecond, 24*time.Hour), // from Tue 03:00:00.4
	}
	w.plan.Annotations = map[string]string{v1alpha1.AnnotationSkipNext: "1"}
	w.pass(-1)
	raw, err := json.Marshal(w.plan) // as the API server gives it back
	if err != nil {
		t.Fatal(err)
	}
	w.plan = &v1alpha1.HibernatePlan{}
	if err := json.Unmarshal(raw, w.plan); err != nil {
		t.Fatal(err)
	}
	if skips := w.plan.Status.Skips; len(skips) != 1 || !skips[0].From.Time.Equal(noon.Add(8*time.Hour)) || !skips[0].Until.Time.Equal(noon.Add(15*time.Hour+time.Second)) {
		t.Errorf("skipped: %v", skips)
	}
	w.until(noon.Add(16 * time.Hour)) // Tue 04:00
	for _, line := range w.log {
		if strings.Contains(line, "Shutdown") {
			t.Errorf("the night was skipped, and: %s", line)
		}
	}
}

// What skip-next has taken out are the off-hours that they are by now: those of a schedule that is edited are not slept in before or after
// what they were, and others are. What exceptions make of one night are several all the same.
func TestSkipOfAScheduleThatIsEdited(t *testing.T) {
	all := newPlan(v1alpha1.StrategyParallel, 2).Spec.Schedule.OffHours[0].DaysOfWeek
	of := func(start, end string) v1alpha1.OffHours {
		return v1alpha1.OffHours{Start: start, End: end, DaysOfWeek: all}
	}
	late := suspended(8*time.Hour, 24*time.Hour) // of Monday, and of it the hour before eleven
	late.Spec.Windows = []v1alpha1.OffHours{of("22:00", "23:00")}
	for name, test := range map[string]struct {
		after      []v1alpha1.OffHours
		exceptions []v1alpha1.ScheduleException
		// sleeps are the hours from Monday noon on in which they sleep.
		sleeps []int
	}{
		"as it was":          {[]v1alpha1.OffHours{of("20:00", "06:00")}, nil, nil},
		"longer":             {[]v1alpha1.OffHours{of("18:00", "08:00")}, nil, nil},
		"shorter":            {[]v1alpha1.OffHours{of("22:00", "04:00")}, nil, nil},
		"later":              {[]v1alpha1.OffHours{of("23:00", "09:00")}, nil, nil},
		"two":                {[]v1alpha1.OffHours{of("19:00", "23:00"), of("02:00", "07:00")}, nil, nil},
		"others":             {[]v1alpha1.OffHours{of("07:00", "09:00")}, nil, []int{19, 20}},
		"and others":         {[]v1alpha1.OffHours{of("18:00", "05:00"), of("07:00", "09:00")}, nil, []int{19, 20}},
		"parts of one night": {[]v1alpha1.OffHours{of("20:00", "06:00")}, []v1alpha1.ScheduleException{late}, []int{11, 12, 13, 14, 15, 16, 17}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 2))
			w.exceptions = test.exceptions
			w.settle()
			w.plan.Annotations = map[string]string{v1alpha1.AnnotationSkipNext: "1"}
			w.settle()
			w.plan.Spec.Schedule.OffHours = test.after
			var sleeps []int
			for hour := range 24 {
				w.until(noon.Add(time.Duration(hour)*time.Hour + time.Minute))
				if len(w.asleep) > 0 {
					sleeps = append(sleeps, hour)
				}
			}
			if !slices.Equal(sleeps, test.sleeps) || len(w.plan.Status.Skips) > 0 {
				t.Errorf("they sleep in %v, skipped is %v", sleeps, w.plan.Status.Skips)
			}
			w.until(noon.Add(38*time.Hour + 30*time.Minute)) // Wednesday 02:30
			if name != "others" && len(w.asleep) != 2 {
				t.Errorf("the night after it %v are asleep", w.asleep)
			}
		})
	}
}

// A part of a night that an exception has ended is skipped no longer than that, also when nobody has looked until the exception was over.
func TestSkipOfAPartThatIsOver(t *testing.T) {
	plan := newPlan(v1alpha1.StrategyParallel, 1)
	plan.Spec.Schedule.OffHours = []v1alpha1.OffHours{{Start: "20:00", End: "06:00", DaysOfWeek: plan.Spec.Schedule.OffHours[0].DaysOfWeek}}
	plan.Status.Skips = []v1alpha1.Span{{From: metav1.NewTime(noon.Add(8 * time.Hour)), Until: metav1.NewTime(noon.Add(13 * time.Hour))}}
	passed := suspended(13*time.Hour, 13*time.Hour+30*time.Minute)
	passed.Spec.Windows = []v1alpha1.OffHours{{Start: "01:00", End: "01:30", DaysOfWeek: plan.Spec.Schedule.OffHours[0].DaysOfWeek}}
	for after, asleep := range map[time.Duration]bool{12 * time.Hour: false, 13*time.Hour + 15*time.Minute: false, 14 * time.Hour: true, 19 * time.Hour: false} {
		p := facts{
			plan: plan, registry: registry, namespace: "system", now: noon.Add(after), seen: Observed{Exceptions: []v1alpha1.ScheduleException{passed}},
		}.decide()
		if p.Problem != nil || p.Desired.asleep != asleep {
			t.Errorf("after %s it is to sleep: %v, %v", after, p.Desired.asleep, p.Problem)
		}
	}
}

// What is not possible when a plan goes, or has no schedule, is not acknowledged: it may be later.
func TestNotAcknowledged(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.HibernatePlan){
		"deleted":            func(p *v1alpha1.HibernatePlan) { p.DeletionTimestamp = ptr.To(metav1.NewTime(noon)) },
		"without a schedule": func(p *v1alpha1.HibernatePlan) { p.Spec.Schedule.Timezone = "Europe/Nowhere" },
	} {
		plan := newPlan(v1alpha1.StrategyParallel, 1)
		plan.Status.Targets = 1
		plan.Annotations = map[string]string{}
		for _, a := range []string{v1alpha1.AnnotationHibernateNow, v1alpha1.AnnotationWakeNow, v1alpha1.AnnotationSkipNext, v1alpha1.AnnotationRetryNow} {
			plan.Annotations[a] = "1"
		}
		change(plan)
		p := facts{plan: plan, registry: registry, namespace: "system", now: noon}.decide()
		if st := p.Status; !slices.Equal(p.Acted, []string{"retry-now"}) || len(st.Acknowledged) != 1 || st.Manual != nil || len(st.Skips) > 0 {
			t.Errorf("%s: %v, %+v, %+v, %v", name, p.Acted, st.Acknowledged, st.Manual, st.Skips)
		}
	}
}

// What a plan is created with may have come with a backup, or from a repository: whatever else it asks for, its targets are not
// put to sleep at any time of the day. Another value is acted on.
func TestHibernateNowOfBefore(t *testing.T) {
	for name, mend := range map[string]func(*world){
		"at once": func(*world) {},
		"when the schedule can be read": func(w *world) {
			of := w.plan.Spec.Schedule.Timezone
			w.plan.Spec.Schedule.Timezone = "Europe/Nowhere"
			w.settle()
			w.plan.Spec.Schedule.Timezone = of
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 2))
			w.plan.Annotations = map[string]string{v1alpha1.AnnotationHibernateNow: "1", v1alpha1.AnnotationSkipNext: "1"}
			mend(w)
			w.settle()
			w.awake()
			if st := w.plan.Status; known(st.Acknowledged, "hibernate-now") == nil || st.Manual != nil || len(st.Skips) != 1 {
				t.Errorf("%+v, %+v, %v", st.Acknowledged, st.Manual, st.Skips)
			}
			if told := strings.Join(w.log, "\n"); strings.Count(told, v1alpha1.ReasonNotActedOn) != 1 {
				t.Errorf("it tells:\n%s", told)
			}
			w.plan.Annotations[v1alpha1.AnnotationHibernateNow] = "2"
			w.settle()
			if len(w.asleep) != 2 {
				t.Errorf("asleep: %v", w.asleep)
			}
		})
	}
}

// However many exceptions a plan has, a look goes by a hundred of those that have not passed, suspensions before others; with more it
// says so, puts nothing to sleep, and wakes what sleeps.
func TestTooManyExceptions(t *testing.T) {
	several := func(n int, kind v1alpha1.ExceptionType, from, until time.Duration) (all []v1alpha1.ScheduleException) {
		for i := range n {
			e := suspended(from, until)
			e.Name, e.Spec.Type = fmt.Sprintf("%s-%03d", kind, i), kind
			if kind != v1alpha1.ExceptionSuspend {
				e.Spec.Windows = []v1alpha1.OffHours{{Start: "21:00", End: "22:00", DaysOfWeek: []v1alpha1.DayOfWeek{"MON"}}}
			}
			all = append(all, e)
		}
		return all
	}
	extend, suspend := v1alpha1.ExceptionExtend, v1alpha1.ExceptionSuspend
	tonight, night, passed := 9*time.Hour, 20*time.Hour, -5*24*time.Hour
	for name, test := range map[string]struct {
		all    []v1alpha1.ScheduleException
		says   string
		asleep int
	}{
		"as many as count":          {several(100, extend, 0, night), "", 2},
		"many that have passed":     {slices.Concat(several(5000, suspend, passed-time.Hour, passed), several(100, extend, 0, night)), "", 2},
		"one more":                  {several(101, extend, 0, night), "101 ScheduleExceptions of the plan have not passed, and at most 100 count", 0},
		"one more, which suspends":  {slices.Concat(several(100, extend, 0, night), several(1, suspend, tonight, night)), "101 ", 0},
		"many, and some may matter": {slices.Concat(several(5000, suspend, passed-time.Hour, passed), several(500, extend, 0, night)), "500 ", 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 2))
			w.exceptions = test.all
			w.until(noon.Add(8*time.Hour + 30*time.Minute))
			if len(w.asleep) != test.asleep {
				t.Errorf("%d are asleep", len(w.asleep))
			}
			c := w.condition(v1alpha1.ConditionReady)
			if crowded := c.Reason == v1alpha1.ReasonTooManyExceptions; crowded != (test.says != "") || !strings.HasPrefix(c.Message, test.says) {
				t.Errorf("it says %s: %s", c.Reason, c.Message)
			}
			if counted, _ := counting(w.exceptions, w.now); len(counted) > maxExceptions {
				t.Errorf("%d count", len(counted))
			}
		})
		t.Run(name+", while they sleep", func(t *testing.T) {
			w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 2))
			w.until(noon.Add(8*time.Hour + 30*time.Minute))
			w.exceptions = test.all
			w.until(noon.Add(9*time.Hour + 30*time.Minute))
			if want := 2 - 2*strings.Count(name, "which suspends"); len(w.asleep) != want {
				t.Errorf("%d are asleep, not %d", len(w.asleep), want)
			}
			w.until(noon.Add(19 * time.Hour))
			w.awake()
		})
	}
}

// judged looks at exceptions, and returns how many have which state, and when one that does not count is looked at again.
func judged(t *testing.T, r *Exceptions, all []reconcile.Request) (states string, wait time.Duration) {
	t.Helper()
	n := map[v1alpha1.ExceptionState]int{}
	for _, request := range all {
		e := &v1alpha1.ScheduleException{}
		if err := r.Client.Get(t.Context(), request.NamespacedName, e); err != nil {
			t.Fatal(err)
		}
		result, err := r.Reconcile(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		if n[e.Status.State]++; e.Status.State == v1alpha1.ExceptionUncounted {
			wait = result.RequeueAfter
		}
	}
	return fmt.Sprint(n), wait
}

// judgeChanged looks at those whom a change of one concerns, until it concerns none, and returns how they are then.
func judgeChanged(t *testing.T, r *Exceptions, changed client.Object) (all string) {
	t.Helper()
	for range 3 {
		which := r.places(t.Context(), changed)
		if len(which) == 0 {
			return all
		}
		states, _ := judged(t, r, which)
		all += states
	}
	t.Error("it does not come to rest")
	return all
}

// Whoever adds the exception that is one too many hears that nothing begins with it, also where it takes the place of another.
func TestReviewOfTooManyExceptions(t *testing.T) {
	plan := newPlan(v1alpha1.StrategyParallel, 2)
	objects := []client.Object{plan}
	for i := range maxExceptions {
		e := suspended(time.Hour, 2*time.Hour)
		e.Namespace, e.Name, e.Spec.PlanRef.Name = plan.Namespace, fmt.Sprintf("e-%03d", i), plan.Name
		objects = append(objects, &e)
	}
	_, c := newReconciler(t, objects...)
	r := exceptionReviewer{&Exceptions{Client: c, Clock: clocktesting.NewFakePassiveClock(noon)}}
	changed := objects[1].(*v1alpha1.ScheduleException).DeepCopy()
	changed.Spec.ValidUntil = metav1.NewTime(noon.Add(3 * time.Hour))
	if warnings, err := r.ValidateUpdate(t.Context(), objects[1].(*v1alpha1.ScheduleException), changed); err != nil || len(warnings) > 0 {
		t.Errorf("of a changed one: %v, %v", warnings, err)
	}
	for name, from := range map[string]time.Duration{"first": time.Minute, "last": time.Hour} {
		more := changed.DeepCopy()
		more.Name, more.Spec.ValidFrom = name, metav1.NewTime(noon.Add(from))
		warnings, err := r.ValidateCreate(t.Context(), more)
		if err != nil || len(warnings) != 1 || !strings.HasPrefix(warnings[0], "TooManyExceptions: 101 ScheduleExceptions ") {
			t.Errorf("of the %s: %v, %v", name, warnings, err)
		}
	}
}

// What an exception is worth is said while the status of its plan is being written, for as long as that may hang.
func TestExceptionOfPlanThatIsBeingWritten(t *testing.T) {
	plan, e := newPlan(v1alpha1.StrategyParallel, 2), suspended(-time.Hour, time.Hour)
	e.Namespace, e.Name, e.Spec.PlanRef.Name = plan.Namespace, "tonight", plan.Name
	_, c := newReconciler(t, plan, &e)
	r := &Exceptions{Client: fakes.BeingWritten[*v1alpha1.HibernatePlan](c), Recorder: kube.Silence, Clock: clocktesting.NewFakePassiveClock(noon)}
	if _, err := r.Reconcile(t.Context(), &e); err != nil || e.Status.State != v1alpha1.ExceptionActive {
		t.Errorf("it is %q, %v", e.Status.State, err)
	}
}

// An exception that is one too many says so itself, whether it would be in force by now or not, until there is a place for it: one of the
// others was deleted, or has passed. Only those are looked at that a change concerns.
func TestExceptionsThatDoNotCount(t *testing.T) {
	plan := newPlan(v1alpha1.StrategyParallel, 2)
	of := func(name string, from, until time.Duration) *v1alpha1.ScheduleException {
		e := suspended(from, until)
		e.Namespace, e.Name, e.Spec.PlanRef.Name = plan.Namespace, name, plan.Name
		return &e
	}
	request := func(o client.Object) reconcile.Request {
		return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)}
	}
	last := of("last", 30*time.Minute, 2*time.Hour) // not in force yet
	objects, every := []client.Object{last}, []reconcile.Request{request(last)}
	for i := range maxExceptions + 1 {
		e := of(fmt.Sprintf("e-%03d", i), -time.Hour, time.Hour)
		objects, every = append(objects, e), append(every, request(e))
	}
	_, c := newReconciler(t, append(objects, plan)...)
	clock := clocktesting.NewFakePassiveClock(noon)
	r := &Exceptions{Client: c, Recorder: kube.Silence, Clock: clock}
	for _, again := range []time.Duration{atOnce, time.Hour} { // another may have come while the first was written
		if got, wait := judged(t, r, every); got != "map[Active:100 Uncounted:2]" || wait != again {
			t.Errorf("%s, looked at again in %s", got, wait)
		}
	}
	if got := judgeChanged(t, r, last); got != "" {
		t.Errorf("nothing has changed, and %s is looked at", got)
	}
	for i, want := range []string{"map[Active:1]", "map[Pending:1]", ""} {
		gone := objects[1+i]
		if err := c.Delete(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
		if got := judgeChanged(t, r, gone); got != want {
			t.Errorf("without %s: %s, want %s", gone.GetName(), got, want)
		}
	}
	for i, want := range []string{"", "map[Uncounted:1]", "map[Uncounted:1]"} { // the one that begins last makes room first
		again := of(fmt.Sprint("again-", i), -time.Hour, time.Hour)
		if err := c.Create(t.Context(), again); err != nil {
			t.Fatal(err)
		}
		if got, _ := judged(t, r, []reconcile.Request{request(again)}); got != "map[Active:1]" {
			t.Errorf("a new one is %s", got)
		}
		if got := judgeChanged(t, r, again); got != want {
			t.Errorf("one more: %s, want %s", got, want)
		}
	}
	clock.SetTime(noon.Add(time.Hour))
	if got := judgeChanged(t, r, last); got != "map[Active:1]" {
		t.Errorf("when the others have passed: %s", got)
	}
}

// One that comes while it is written that another counts takes its place all the same.
func TestExceptionThatComesMeanwhile(t *testing.T) {
	plan := newPlan(v1alpha1.StrategyParallel, 2)
	of := func(name string) *v1alpha1.ScheduleException {
		e := suspended(-time.Hour, time.Hour)
		e.Namespace, e.Name, e.Spec.PlanRef.Name = plan.Namespace, name, plan.Name
		return &e
	}
	last, more := of("last"), of("e-more")
	objects := []client.Object{plan, last}
	for i := range maxExceptions - 1 {
		objects = append(objects, of(fmt.Sprintf("e-%03d", i)))
	}
	_, c := newReconciler(t, objects...)
	r := &Exceptions{Recorder: kube.Silence, Clock: clocktesting.NewFakePassiveClock(noon)}
	var looked []reconcile.Request
	r.Client = interceptor.NewClient(c, interceptor.Funcs{SubResourcePatch: func(ctx context.Context, _ client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
		if o.GetName() == last.Name && more.ResourceVersion == "" {
			if err := c.Create(ctx, more); err != nil {
				return err
			}
			looked = r.places(ctx, more)
		}
		return c.SubResource(sub).Patch(ctx, o, patch, opts...)
	}})
	result, err := r.Reconcile(t.Context(), last)
	if err != nil || last.Status.State != v1alpha1.ExceptionActive || len(looked) > 0 {
		t.Fatalf("it is %s, and of the other one %v are looked at: %v", last.Status.State, looked, err)
	}
	if result.RequeueAfter > time.Second {
		t.Fatalf("it says that it counts, and is looked at again in %s", result.RequeueAfter)
	}
	if got, wait := judged(t, r, []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(last)}}); got != "map[Uncounted:1]" || wait != atOnce {
		t.Errorf("it is %s, and looked at again in %s", got, wait)
	}
}

// What has passed is not among what is too much, and takes the place of nothing that has not.
func TestPassedExceptionsGoLast(t *testing.T) {
	current, release := suspended(-time.Hour, time.Hour), suspended(24*time.Hour, 48*time.Hour)
	current.Name, release.Name = "current", "release"
	release.Spec.LeadTime = &metav1.Duration{Duration: schedule.MaxLeadTime}
	var all []v1alpha1.ScheduleException
	for i := range 2 * maxExceptions {
		all = append(all, suspended(-time.Duration(i+2)*time.Hour, -time.Duration(i+1)*time.Hour))
	}
	got, more := counting(append(all, current, release), noon)
	if len(got) != maxExceptions || more != 0 || got[0].Name != "current" || got[1].Name != "release" {
		t.Errorf("%d count, %d more, and the first are %s and %s", len(got), more, got[0].Name, got[1].Name)
	}
}

// A cycle that has not ended is not turned while there are too many: what does not count may be a suspension.
func TestTooManyExceptionsWhileOneCannotWake(t *testing.T) {
	w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 2))
	stuck := w.plan.Spec.Targets[0].Name
	w.fails = func(e execution) bool { return e.Operation == v1alpha1.OperationWakeUp && e.Target == stuck }
	w.until(noon.Add(20 * time.Hour))
	for i := range maxExceptions + 1 {
		e := suspended(0, 100*time.Hour)
		e.Name, e.Spec.Type = fmt.Sprint(i), v1alpha1.ExceptionExtend
		e.Spec.Windows = []v1alpha1.OffHours{{Start: "21:00", End: "22:00", DaysOfWeek: []v1alpha1.DayOfWeek{"MON"}}}
		w.exceptions = append(w.exceptions, e)
	}
	w.until(noon.Add(33 * time.Hour))
	if len(w.asleep) != 1 || !w.asleep[stuck] {
		t.Errorf("in the next night %v are asleep", w.asleep)
	}
}

// An exception that has passed still counts for what began by it, as far back as a lead time goes.
func TestPassedExceptionsThatCount(t *testing.T) {
	extended, release := suspended(-3*time.Hour, -time.Hour), suspended(2*time.Hour, 3*time.Hour)
	release.Spec.LeadTime = &metav1.Duration{Duration: time.Hour}
	for name, test := range map[string]struct {
		now   time.Duration
		count int
	}{"within the lead time": {-30 * time.Minute, 2}, "to the last of it": {0, 2}, "beyond it": {time.Nanosecond, 1}, "and when all have passed": {4 * time.Hour, 0}} {
		if got, more := counting([]v1alpha1.ScheduleException{extended, release}, noon.Add(test.now)); len(got) != test.count || more != 0 {
			t.Errorf("%s: %d count, and %d more", name, len(got), more)
		}
	}
}

// What an annotation asks for lasts until the schedule turns, and that is the schedule of then: one that did not end has been edited,
// or off-hours begin sooner than they did.
func TestManualOfAScheduleThatIsEdited(t *testing.T) {
	always := v1alpha1.OffHours{Start: "00:00", End: "24:00", DaysOfWeek: []v1alpha1.DayOfWeek{"MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"}}
	nights := newPlan(v1alpha1.StrategyParallel, 2).Spec.Schedule.OffHours[0]
	lunch := suspended(time.Hour, 2*time.Hour)
	lunch.Spec.Type = v1alpha1.ExceptionExtend
	lunch.Spec.Windows = []v1alpha1.OffHours{always}
	for name, test := range map[string]struct {
		before, after v1alpha1.OffHours
		exceptions    []v1alpha1.ScheduleException
		asks          string
		// at is when, and asleep what is to be by then.
		at     time.Duration
		asleep bool
	}{
		"asleep, and it had no end":  {before: always, after: nights, asks: v1alpha1.AnnotationHibernateNow, at: 19 * time.Hour},
		"awake, and it had no end":   {before: always, after: nights, asks: v1alpha1.AnnotationWakeNow, at: 9 * time.Hour, asleep: true},
		"awake, and it still has":    {before: always, after: nights, asks: v1alpha1.AnnotationWakeNow, at: 7 * time.Hour},
		"awake, and another sleep":   {before: nights, after: nights, exceptions: []v1alpha1.ScheduleException{lunch}, asks: v1alpha1.AnnotationWakeNow, at: 90 * time.Minute, asleep: true},
		"awake, and nothing changes": {before: nights, after: nights, asks: v1alpha1.AnnotationWakeNow, at: 9 * time.Hour, asleep: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 2))
			w.now = noon.Add(-10 * time.Hour)
			w.plan.Spec.Schedule.OffHours = []v1alpha1.OffHours{test.before}
			w.settle()
			w.plan.Annotations = map[string]string{test.asks: "1"}
			w.until(noon)
			w.plan.Spec.Schedule.OffHours, w.exceptions = []v1alpha1.OffHours{test.after}, test.exceptions
			w.until(noon.Add(test.at))
			if asleep := len(w.asleep) > 0; asleep != test.asleep {
				t.Errorf("asleep: %t, manual %+v", asleep, w.plan.Status.Manual)
			}
		})
	}
}
