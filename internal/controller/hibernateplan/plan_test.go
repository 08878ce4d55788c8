package hibernateplan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// noon is a Monday.
var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// anything is an executor that takes any parameters.
type anything struct{}

func (anything) Parse(raw json.RawMessage) (executor.Parameters, error) {
	if strings.Contains(string(raw), "bad") {
		return nil, &executor.InvalidError{Path: "bad", Problem: "is not known; remove it"}
	}
	return anything{}, nil
}
func (anything) Needs() executor.Needs { return executor.Needs{} }
func (anything) Open(context.Context, executor.Session) (executor.Target, error) {
	panic("a plan opens nothing")
}

var registry = executor.Registry{"noop": anything{}}

// later is the executor of a later release, which tells of a mistake in what was taken.
type later struct{ anything }

func (later) Parse(raw json.RawMessage) (executor.Parameters, error) {
	if strings.Contains(string(raw), "odd") {
		return later{}, nil
	}
	return anything{}.Parse(raw)
}
func (later) Mistake() error {
	return &executor.InvalidError{Path: "odd", Problem: "is odd; remove it"}
}

// targetNames are a to the n-th letter.
func targetNames(n int) (out []string) {
	for i := range n {
		out = append(out, string(rune('a'+i)))
	}
	return out
}

// newPlan is one of n targets, by a strategy, on weekdays from 20:00 to 06:00.
func newPlan(strategy v1alpha1.StrategyType, n int) *v1alpha1.HibernatePlan {
	p := &v1alpha1.HibernatePlan{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "night", UID: "uid-1", Generation: 1},
		Spec: v1alpha1.HibernatePlanSpec{
			Schedule: v1alpha1.Schedule{Timezone: "UTC", OffHours: []v1alpha1.OffHours{{Start: "20:00", End: "06:00", DaysOfWeek: []v1alpha1.DayOfWeek{"MON", "TUE", "WED", "THU", "FRI"}}}},
		},
	}
	all := targetNames(n)
	for _, name := range all {
		p.Spec.Targets = append(p.Spec.Targets, v1alpha1.Target{Name: name, Type: "noop"})
	}
	s := v1alpha1.Strategy{Type: strategy}
	switch strategy {
	case v1alpha1.StrategyDAG:
		for i := range all[1:] {
			s.Dependencies = append(s.Dependencies, v1alpha1.Dependency{From: all[i/2], To: all[i+1]})
		}
	case v1alpha1.StrategyStaged:
		s.Stages = []v1alpha1.Stage{{Name: "one", Parallel: true, Targets: all[:n/2]}, {Name: "two", Targets: all[n/2:]}}
	case v1alpha1.StrategyParallel:
		s.MaxConcurrency = ptr.To[int32](2)
	}
	p.Spec.Execution.Strategy = s
	return p
}

// world is what a plan acts on: a Job ends when it is told to.
type world struct {
	t    *testing.T
	plan *v1alpha1.HibernatePlan
	now  time.Time
	// registry is the executors of the release that looks at it.
	registry executor.Registry
	// problem is what keeps anything from beginning.
	problem *problem
	// asleep are targets that are, and points what is kept of them, with the attempt that may write to it.
	asleep map[string]bool
	points map[string]string
	kept   map[string]v1alpha1.Target
	// jobs that there are: nil while they run.
	jobs map[string]*outcome
	of   map[string]execution
	// ran are all Jobs that there were.
	ran        map[string]bool
	revisions  map[int64]resolved
	exceptions []v1alpha1.ScheduleException
	done       bool
	random     *rand.Rand
	log        []string
	// fails says whether the attempt at a target fails, and refuses whether its Job cannot be made.
	fails, refuses func(e execution) bool
	// hangs says whether an attempt does not come to its end; nil is that none does.
	hangs func(e execution) bool
	// empty is a target without resources.
	empty string
	// left is what a wake-up leaves of each target.
	left []string
	more bool
	// said are what runners have said that were stopped; nil is that none says anything.
	said map[string]*outcome
}

func newWorld(t *testing.T, plan *v1alpha1.HibernatePlan) *world {
	return &world{
		t: t, plan: plan, now: noon, registry: registry, asleep: map[string]bool{}, points: map[string]string{}, kept: map[string]v1alpha1.Target{}, jobs: map[string]*outcome{}, of: map[string]execution{},
		ran: map[string]bool{}, revisions: map[int64]resolved{}, fails: func(execution) bool { return false }, refuses: func(execution) bool { return false },
	}
}

func (w *world) observed() Observed {
	w.more = false
	seen := Observed{Problem: w.problem, Exceptions: w.exceptions, Looked: map[string]bool{}, Jobs: map[string]bool{}, Outcomes: map[string]outcome{}, Held: map[string]bool{}}
	if c := w.plan.Status.CurrentCycle; c != nil {
		if r, ok := w.revisions[c.ID]; ok {
			seen.Cycle = &r
		}
	}
	for i := range w.plan.Status.Executions {
		if e := w.plan.Status.Executions[i]; running(&e) {
			w.observeAttempt(&seen, e)
		}
	}
	if w.plan.Status.Cycles == 0 {
		seen.Left = map[string]v1alpha1.Target{}
		for name := range w.points {
			seen.Left[name] = w.kept[name]
		}
	}
	return seen
}

// observeAttempt sees what came of an attempt: so many in a pass.
func (w *world) observeAttempt(seen *Observed, e execution) {
	job := name(e.JobRef)
	o, there := w.jobs[job]
	if seen.Jobs[job] = there; there && o == nil {
		return
	}
	if len(seen.Looked) >= perPass {
		w.more = true
		return
	}
	seen.Looked[job] = true
	_, kept := w.points[e.Target]
	switch {
	case there:
		seen.Outcomes[job] = *o
	case w.said[job] != nil:
		seen.Outcomes[job] = *w.said[job]
	case !kept && e.Kept:
		seen.Outcomes[job] = outcome{message: "Its restore point is gone"}
	case !kept && e.Operation == v1alpha1.OperationWakeUp:
		seen.Outcomes[job] = outcome{completed: true}
	}
}

// pass looks at the plan once, as its reconciler does. One that is killed ends after so many effects, and records nothing; -1 is none.
func (w *world) pass(kill int) Plan {
	w.t.Helper()
	seen := w.observed()
	p := facts{plan: w.plan, seen: seen, registry: w.registry, namespace: "system", now: w.now}.decide()
	if w.more {
		p.lookIn(atOnce)
	}
	left := kill
	die := func() bool { left--; return left == -1 }
	if kill < 0 {
		die = func() bool { return false }
	}
	if p.Begin != nil {
		if die() {
			return p
		}
		w.revisions[p.Status.CurrentCycle.ID] = *p.Begin
	}
	if !w.carryOut(p, die) {
		return p
	}
	if p.Forget != 0 {
		if die() {
			return p
		}
		delete(w.revisions, p.Forget)
	}
	if die() {
		return p
	}
	p.Stopped = p.Stop
	s := &scope{owner: w.plan, seen: seen, plan: p, decided: true, recordable: true, now: w.now}
	before := w.plan.DeepCopy()
	report(s, nil)
	for _, e := range happened(before, w.plan, s, nil) {
		w.log = append(w.log, w.now.Format("Mon 15:04:05")+" "+e.Reason+": "+e.Message)
	}
	if w.done = p.Done; w.done {
		clear(w.revisions)
	}
	return p
}

// carryOut does what a pass has decided, unless it is killed.
func (w *world) carryOut(p Plan, die func() bool) bool {
	for _, i := range p.Clear {
		if die() {
			return false
		}
		e := &p.Status.Executions[i]
		delete(w.jobs, name(e.JobRef))
		e.ServiceAccountRef, e.ConnectorSecretRef = "", ""
	}
	for _, i := range p.Release {
		if die() {
			return false
		}
		w.release(&p.Status.Executions[i])
	}
	for _, i := range p.Stop {
		if die() {
			return false
		}
		w.stop(p.Status.Executions[i])
	}
	for _, i := range p.Launch {
		if die() {
			return false
		}
		if e := &p.Status.Executions[i]; w.refuses(*e) {
			end(e, outcome{message: "it cannot be reached", unmade: w.points[e.Target] == ""}, p.program.retries(), w.now)
			p.lookIn(atOnce)
		} else {
			w.launch(p, *e)
		}
	}
	return true
}

func (w *world) release(e *execution) {
	if w.asleep[e.Target] {
		w.t.Errorf("the restore point of %s is released while it sleeps", e.Target)
	}
	if at := w.points[e.Target]; at != "" && at != name(e.JobRef) {
		w.t.Errorf("the restore point of %s is released by %s, and belongs to %s", e.Target, e.JobRef, at)
	}
	delete(w.points, e.Target)
	delete(w.kept, e.Target)
	e.RestoreConfigMapRef, e.RestoreRef = "", ""
}

// stop deletes the Job of an attempt, which has stopped some of its target.
func (w *world) stop(e execution) {
	job := name(e.JobRef)
	if o, there := w.jobs[job]; !there || o != nil || e.Operation != v1alpha1.OperationShutdown {
		w.t.Errorf("Job %s is stopped, %v", job, o)
	}
	w.asleep[e.Target] = true
	delete(w.jobs, job)
	if w.said != nil {
		w.said[job] = &outcome{interrupted: true, message: "it was told to stop"}
		return
	}
	delete(w.ran, job) // it is made again if it is wanted by then
}

func (w *world) launch(p Plan, e execution) {
	job := name(e.JobRef)
	if w.ran[job] {
		if _, there := w.jobs[job]; !there {
			w.t.Errorf("Job %s runs a second time", job)
		}
		return
	}
	for other, o := range w.jobs {
		if o == nil && w.of[other].Target == e.Target {
			w.t.Errorf("Jobs %s and %s run at the same time", other, job)
		}
	}
	if _, kept := w.points[e.Target]; !kept {
		w.kept[e.Target] = p.program.Targets[p.program.positions[e.Target]]
	}
	w.points[e.Target] = job
	w.jobs[job], w.of[job], w.ran[job] = nil, e, true
	w.log = append(w.log, fmt.Sprintf("%s %s %s, attempt %d", w.now.Format("Mon 15:04:05"), e.Operation, e.Target, e.Attempts))
}

// end lets the Jobs that run come to their ends.
func (w *world) end() bool {
	var all []string
	for job, o := range w.jobs {
		if o == nil && (w.hangs == nil || !w.hangs(w.of[job])) {
			all = append(all, job)
		}
	}
	slices.Sort(all)
	for _, job := range all {
		e := w.of[job]
		o := outcome{completed: !w.fails(e)}
		if !o.completed {
			o.message = "it does not want to"
		}
		switch {
		case e.Operation == v1alpha1.OperationShutdown:
			w.asleep[e.Target] = true // one that fails may have stopped some of it
		case o.completed:
			delete(w.asleep, e.Target)
			o.left, o.leftCount = w.left, len(w.left)
		}
		if e.Target != w.empty {
			o.resources = 3
		}
		w.jobs[job] = &o
	}
	return len(all) > 0
}

// settle looks at the plan until nothing is to be done now.
func (w *world) settle() Plan {
	w.t.Helper()
	for range 2000 {
		p := w.pass(-1)
		if w.done {
			return p
		}
		if ended := w.end(); !ended && (p.Wait == 0 || p.Wait > atOnce) {
			return p
		}
	}
	w.t.Fatalf("it does not settle:\n%s", strings.Join(w.log[max(0, len(w.log)-30):], "\n"))
	return Plan{}
}

// until moves the clock on, and settles whenever something was to be looked at.
func (w *world) until(at time.Time) {
	w.t.Helper()
	for {
		p := w.settle()
		if w.done {
			return
		}
		next := w.now.Add(p.Wait)
		if p.Wait == 0 || next.After(at) {
			w.now = at
			w.settle()
			return
		}
		w.now = next
	}
}

func (w *world) condition(conditionType string) metav1.Condition {
	if c := find(w.plan.Status.Conditions, conditionType); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// awake checks that everything is as it was, and nothing is left behind.
func (w *world) awake() {
	w.t.Helper()
	delete(w.revisions, w.plan.Status.Cycles+1) // of a cycle that was never recorded; the next one has it
	if len(w.asleep)+len(w.points)+len(w.jobs)+len(w.revisions) > 0 || w.plan.Status.CurrentCycle != nil {
		w.t.Errorf("asleep %v, points %v, jobs %v, revisions %d, cycle %+v\n%s", w.asleep, w.points, w.jobs, len(w.revisions), w.plan.Status.CurrentCycle, strings.Join(w.log[max(0, len(w.log)-30):], "\n"))
	}
}

var strategies = []v1alpha1.StrategyType{v1alpha1.StrategySequential, v1alpha1.StrategyParallel, v1alpha1.StrategyDAG, v1alpha1.StrategyStaged}

func TestNight(t *testing.T) {
	for _, strategy := range strategies {
		t.Run(string(strategy), func(t *testing.T) {
			w := newWorld(t, newPlan(strategy, 6))
			w.until(noon.Add(8*time.Hour - time.Second))
			if len(w.ran) > 0 || w.plan.Status.Phase != v1alpha1.PhaseActive {
				t.Fatalf("early: %v, %s", w.ran, w.plan.Status.Phase)
			}
			if to := w.plan.Status.NextTransition; to == nil || !to.Time.Equal(ptr.To(metav1.NewTime(noon.Add(8*time.Hour)))) || to.To != v1alpha1.OverrideHibernated {
				t.Errorf("next is %v", to)
			}
			w.until(noon.Add(8 * time.Hour))
			if len(w.asleep) != 6 || w.plan.Status.Phase != v1alpha1.PhaseHibernated || w.condition(v1alpha1.ConditionRestorePointSaved).Status != metav1.ConditionTrue || w.condition(v1alpha1.ConditionHibernated).Status != metav1.ConditionTrue {
				t.Fatalf("asleep %v, %s, %+v", w.asleep, w.plan.Status.Phase, w.plan.Status.Conditions)
			}
			w.until(noon.Add(18 * time.Hour))
			w.awake()
			if w.plan.Status.Phase != v1alpha1.PhaseActive || len(w.plan.Status.History) != 1 || w.condition(v1alpha1.ConditionReady).Status != metav1.ConditionTrue {
				t.Errorf("%s, %+v", w.plan.Status.Phase, w.plan.Status.Conditions)
			}
			if len(w.ran) != 12 {
				t.Errorf("%d Jobs", len(w.ran))
			}
		})
	}
}

func TestFailure(t *testing.T) {
	for _, c := range []struct {
		name     string
		strategy v1alpha1.StrategyType
		behavior v1alpha1.Behavior
		phase    v1alpha1.Phase
		asleep   int
		attempts int32
	}{
		{"strict", v1alpha1.StrategySequential, v1alpha1.Behavior{}, v1alpha1.PhaseError, 2, 4},
		{"strict, once", v1alpha1.StrategyDAG, v1alpha1.Behavior{Retries: ptr.To[int32](0)}, v1alpha1.PhaseError, 3, 1},
		{"best effort", v1alpha1.StrategySequential, v1alpha1.Behavior{Mode: v1alpha1.BehaviorBestEffort, Retries: ptr.To[int32](1)}, v1alpha1.PhaseHibernated, 6, 2},
		{"best effort, dependencies", v1alpha1.StrategyDAG, v1alpha1.Behavior{Mode: v1alpha1.BehaviorBestEffort, Retries: ptr.To[int32](1)}, v1alpha1.PhaseHibernated, 4, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan := newPlan(c.strategy, 6)
			plan.Spec.Behavior = c.behavior
			w := newWorld(t, plan)
			w.fails = func(e execution) bool { return e.Target == "b" && e.Operation == v1alpha1.OperationShutdown }
			w.until(noon.Add(10 * time.Hour))
			st := w.plan.Status
			if st.Phase != c.phase || len(w.asleep) != c.asleep || st.Executions[1].Attempts != c.attempts || st.Executions[1].State != v1alpha1.ExecutionFailed || st.Failed != 1 {
				t.Fatalf("%s, asleep %v: %+v\n%s", st.Phase, w.asleep, st.Executions[1], strings.Join(w.log, "\n"))
			}
			if d := w.condition(v1alpha1.ConditionDegraded); d.Status != metav1.ConditionTrue || !strings.Contains(d.Message, "b") {
				t.Errorf("%+v", d)
			}
			if r := w.condition(v1alpha1.ConditionReady); r.Status != metav1.ConditionFalse || !strings.Contains(r.Message, "it does not want to") || !strings.Contains(r.Message, v1alpha1.AnnotationRetryNow) {
				t.Errorf("%+v", r)
			}
			w.until(noon.Add(18 * time.Hour)) // whatever failed in the evening
			w.awake()
			w.remembers(1, "Failed to be put to sleep: b")
			w.fails = func(execution) bool { return false }
			w.until(noon.Add(42 * time.Hour))
			w.remembers(2, "")
		})
	}
}

// What has failed is tried again after waits that double, up to ten minutes, as often as retries says: not sooner, nor
// later. What is to be put to sleep is not tried any more by then; what is to wake is, every ten minutes.
func TestWaitsBetweenAttempts(t *testing.T) {
	type seconds []int
	for retries, want := range map[int32]struct{ asleep, awake seconds }{
		0:  {seconds{0}, seconds{0, 600, 1200, 1800, 2400, 3000, 3600}},
		2:  {seconds{0, 10, 30}, seconds{0, 10, 30, 630, 1230, 1830, 2430, 3030, 3630}},
		10: {seconds{0, 10, 30, 70, 150, 310, 630, 1230, 1830, 2430, 3030}, seconds{0, 10, 30, 70, 150, 310, 630, 1230, 1830, 2430, 3030, 3630}},
	} {
		w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 1))
		w.plan.Spec.Behavior.Retries = ptr.To(retries)
		var begun []time.Time
		w.fails = func(e execution) bool {
			begun = append(begun, e.StartedAt.Time)
			return true
		}
		for _, test := range []struct {
			what string
			from time.Time
			want seconds
		}{{"to sleep", noon.Add(8 * time.Hour), want.asleep}, {"to wake", noon.Add(18 * time.Hour), want.awake}} {
			w.until(test.from.Add(-time.Second))
			begun = nil
			w.until(test.from.Add(3700 * time.Second))
			var got seconds
			for _, at := range begun {
				got = append(got, int(at.Sub(test.from)/time.Second))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("with %d retries it is begun %s after so many seconds (-want +got):\n%s", retries, test.what, diff)
			}
		}
	}
}

// With failFast, which is the default, nothing more begins once a target has failed as often as it may, and what runs
// comes to its end; without, and with BestEffort in any case, the others go on. One that is tried again has not failed yet.
func TestFailFast(t *testing.T) {
	for name, test := range map[string]struct {
		behavior v1alpha1.Behavior
		atOnce   int32
		asleep   []string
		phase    v1alpha1.Phase
	}{
		"by default":        {v1alpha1.Behavior{}, 1, []string{"a"}, v1alpha1.PhaseError},
		"asked for":         {v1alpha1.Behavior{FailFast: ptr.To(true)}, 1, []string{"a"}, v1alpha1.PhaseError},
		"beside what runs":  {v1alpha1.Behavior{FailFast: ptr.To(true)}, 2, []string{"a", "b"}, v1alpha1.PhaseError},
		"not asked for":     {v1alpha1.Behavior{FailFast: ptr.To(false)}, 1, []string{"a", "b", "c", "d"}, v1alpha1.PhaseError},
		"with best effort":  {v1alpha1.Behavior{FailFast: ptr.To(true), Mode: v1alpha1.BehaviorBestEffort}, 1, []string{"a", "b", "c", "d"}, v1alpha1.PhaseHibernated},
		"while tried again": {v1alpha1.Behavior{FailFast: ptr.To(true), Retries: ptr.To[int32](1)}, 1, []string{"a", "b", "c", "d"}, v1alpha1.PhaseError},
	} {
		t.Run(name, func(t *testing.T) {
			plan := newPlan(v1alpha1.StrategyParallel, 4)
			plan.Spec.Behavior, plan.Spec.Execution.Strategy.MaxConcurrency = test.behavior, ptr.To(test.atOnce)
			if test.behavior.Retries == nil {
				plan.Spec.Behavior.Retries = ptr.To[int32](0)
			}
			w := newWorld(t, plan)
			w.fails = func(e execution) bool { return e.Target == "a" && e.Operation == v1alpha1.OperationShutdown }
			w.until(noon.Add(9 * time.Hour))
			if diff := cmp.Diff(test.asleep, slices.Sorted(maps.Keys(w.asleep))); diff != "" || w.plan.Status.Phase != test.phase || w.plan.Status.Failed != 1 {
				t.Errorf("%s, %d failed, asleep (-want +got):\n%s", w.plan.Status.Phase, w.plan.Status.Failed, diff)
			}
			for _, e := range w.plan.Status.Executions {
				if begun := slices.Contains(test.asleep, e.Target); !begun && (e.State != v1alpha1.ExecutionAborted || e.Attempts > 0) {
					t.Errorf("%s, which does not begin, is %s after %d attempts", e.Target, e.State, e.Attempts)
				}
			}
			w.until(noon.Add(19 * time.Hour))
			w.awake()
		})
	}
}

// remembers checks how many cycles there were, and what is said of the last one.
func (w *world) remembers(n int, says string) {
	w.t.Helper()
	if h := w.plan.Status.History; len(h) != n || !strings.HasPrefix(h[0].Message, says) || says == "" && h[0].Message != "" {
		w.t.Errorf("what is remembered is %+v", h)
	}
}

func TestWakeUpFails(t *testing.T) {
	w := newWorld(t, newPlan(v1alpha1.StrategyDAG, 6))
	fails := true
	w.fails = func(e execution) bool {
		return fails && e.Target == "b" && e.Operation == v1alpha1.OperationWakeUp
	}
	w.until(noon.Add(19 * time.Hour))
	if st := w.plan.Status; st.Phase != v1alpha1.PhaseError || !w.asleep["b"] || !w.asleep["a"] || w.asleep["c"] || w.points["b"] == "" || w.condition(v1alpha1.ConditionReady).Reason != v1alpha1.ReasonWakeUpFailed {
		t.Fatalf("%s, asleep %v", st.Phase, w.asleep) // a uses b, which is not there
	}
	fails = false
	w.plan.Annotations = map[string]string{v1alpha1.AnnotationRetryNow: "1"}
	w.settle()
	w.awake()
	if a := w.plan.Status.Acknowledged; len(a) != 1 || a[0].Value != "1" || a[0].Annotation != "retry-now" {
		t.Errorf("%+v", a)
	}
	w.plan.Annotations = nil
	w.settle()
	if len(w.plan.Status.Acknowledged) > 0 {
		t.Error("it is acknowledged for ever")
	}
}

// What cannot wake is told of while it is tried again, too, which takes half of the time: nobody is told that all is well by turns.
func TestWakeUpFailsAndIsTriedAgain(t *testing.T) {
	w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 2))
	w.fails = func(e execution) bool { return e.Target == "b" && e.Operation == v1alpha1.OperationWakeUp }
	w.until(noon.Add(19 * time.Hour))
	b := w.entry("b")
	if w.plan.Status.Phase != v1alpha1.PhaseError || !failed(b) {
		t.Fatalf("%s, %+v", w.plan.Status.Phase, b)
	}
	w.now, w.log = due(b), nil
	for i := 0; i < 5 && len(w.log) == 0; i++ { // until it runs
		w.pass(-1)
	}
	if b = w.entry("b"); !running(b) {
		t.Fatalf("%+v", b)
	}
	r, d := w.condition(v1alpha1.ConditionReady), w.condition(v1alpha1.ConditionDegraded)
	if r.Reason != v1alpha1.ReasonWakeUpFailed || !strings.Contains(r.Message, "WakeUp of target b has failed") || d.Reason != v1alpha1.ReasonPartly || w.plan.Status.Failed != 1 {
		t.Errorf("Ready %s %s: %s, Degraded %s %s: %s, %d failed", r.Status, r.Reason, r.Message, d.Status, d.Reason, d.Message, w.plan.Status.Failed)
	}
	if w.plan.Status.Phase != v1alpha1.PhaseError || len(w.log) != 1 {
		t.Errorf("%s\n%s", w.plan.Status.Phase, strings.Join(w.log, "\n"))
	}
	w.fails = func(execution) bool { return false }
	w.settle()
	w.awake()
	if r := w.condition(v1alpha1.ConditionReady); r.Status != metav1.ConditionTrue {
		t.Errorf("%+v", r)
	}
}

// One that goes says why it does not, and what to do, and not only that it is to: its time is short.
func TestWakeUpFailsOfOneThatGoes(t *testing.T) {
	w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 2))
	w.fails = func(e execution) bool { return e.Target == "b" && e.Operation == v1alpha1.OperationWakeUp }
	w.until(noon.Add(9 * time.Hour))
	w.plan.DeletionTimestamp = ptr.To(metav1.NewTime(w.now))
	w.settle()
	if c := w.condition(v1alpha1.ConditionReady); c.Reason != v1alpha1.ReasonDeleting {
		t.Errorf("at first %s: %s", c.Reason, c.Message)
	}
	w.until(w.now.Add(defaultDeadline / 2))
	c := w.condition(v1alpha1.ConditionReady)
	if w.done || c.Reason != v1alpha1.ReasonWakeUpFailed || !strings.Contains(c.Message, "WakeUp of target b has failed") || !strings.Contains(c.Message, v1alpha1.AnnotationRetryNow) {
		t.Errorf("%s: %s", c.Reason, c.Message)
	}
}

func TestTurnsAround(t *testing.T) {
	w := newWorld(t, newPlan(v1alpha1.StrategySequential, 6))
	w.now = noon.Add(8 * time.Hour)
	for len(w.ran) < 2 { // in the middle of it
		w.pass(-1)
		if len(w.ran) < 2 {
			w.end()
		}
	}
	w.plan.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideAwake}
	for range 5 {
		w.pass(-1)
	}
	if len(w.ran) != 2 {
		t.Fatalf("%d Jobs: something starts while one runs in the other direction", len(w.ran))
	}
	w.settle()
	w.awake()
	if len(w.ran) != 4 {
		t.Errorf("%d Jobs: what was not stopped is not woken\n%s", len(w.ran), strings.Join(w.log, "\n"))
	}
}

// A runner that hangs in the evening keeps nothing from waking for longer than a minute: it is stopped, and what it has stopped by then
// wakes with the others.
func TestHangsWhileItTurns(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*world)
		// after is how long it has run by then.
		after time.Duration
		// stopped are how many Jobs are, and asleep how many targets sleep in the end whose runners do not hang.
		stopped, asleep int
	}{
		"to wake":              {change: wakes, after: time.Hour, stopped: 2},
		"to wake, before long": {change: wakes, stopped: 2},
		"to go":                {change: func(w *world) { w.plan.DeletionTimestamp = &metav1.Time{Time: w.now} }, after: time.Hour, stopped: 2},
		"taken out":            {change: func(w *world) { w.plan.Spec.Targets = w.plan.Spec.Targets[:2] }, after: time.Hour, stopped: 2, asleep: 2},
		"the clock is set back": {change: func(w *world) {
			w.plan.Spec.Override, w.now = &v1alpha1.Override{State: v1alpha1.OverrideAwake}, noon.Add(time.Hour)
		}, after: time.Hour, stopped: 2},
		"to go, and leaves all": {change: leaves, after: time.Hour, asleep: 2},
		"to do nothing":         {change: func(w *world) { w.plan.Spec.Suspend = true }, after: time.Hour, asleep: 2},
		"to sleep on":           {change: func(*world) {}, after: time.Hour, asleep: 2},
		"suspended, and to wake": {change: func(w *world) {
			w.plan.Spec.Suspend = true
			w.plan.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideAwake}
		}, after: time.Hour, asleep: 2},
		"suspended, and it goes": {change: func(w *world) { w.plan.Spec.Suspend = true; w.plan.DeletionTimestamp = &metav1.Time{Time: w.now} }, after: time.Hour, stopped: 2},
		"the spec is refused now": {change: func(w *world) {
			w.plan.Spec.Targets[0].Type = "unknown"
			w.now = noon.Add(20 * time.Hour)
		}, stopped: 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 4))
			w.hangs = func(e execution) bool {
				return e.Operation == v1alpha1.OperationShutdown && (e.Target == "c" || e.Target == "d")
			}
			w.until(noon.Add(8 * time.Hour))
			w.until(w.now.Add(test.after))
			ran := len(w.ran)
			test.change(w)
			w.until(w.now.Add(90 * time.Second))
			if stopped := strings.Count(strings.Join(w.log, "\n"), v1alpha1.ReasonRunnerStopped); stopped != test.stopped || len(w.asleep) != test.asleep {
				t.Fatalf("%d Jobs are stopped, asleep are %v\n%s", stopped, w.asleep, strings.Join(w.log, "\n"))
			}
			if test.asleep == 0 {
				w.awake()
			}
			if test.stopped > 0 {
				return
			}
			if len(w.ran) != ran {
				t.Errorf("%d Jobs, and there were %d\n%s", len(w.ran), ran, strings.Join(w.log, "\n"))
			}
		})
	}
}

// A runner that was stopped has not failed, whether it says that it was told to stop or nothing, and whatever is wanted by then.
func TestStoppedIsNoFailure(t *testing.T) {
	for name, said := range map[string]map[string]*outcome{"it says so": {}, "it says nothing": nil} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 3))
			w.said, w.plan.Spec.Behavior.Retries = said, ptr.To[int32](0)
			w.plan.Spec.Execution.Strategy.MaxConcurrency = nil
			hangs := true
			w.hangs = func(e execution) bool { return hangs && e.Target != "a" && e.Operation == v1alpha1.OperationShutdown }
			w.until(noon.Add(8 * time.Hour))
			w.plan.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideAwake}
			w.until(w.now.Add(59 * time.Second))
			for w.now = w.now.Add(time.Second); ; {
				if p := w.pass(-1); len(p.Stop) > 0 {
					break
				}
			}
			w.plan.Spec.Override, hangs = nil, false // before it is seen that they have ended
			w.settle()
			if len(w.asleep) != 3 || w.plan.Status.Phase != v1alpha1.PhaseHibernated {
				t.Errorf("%s, asleep %v", w.plan.Status.Phase, w.asleep)
			}
			w.until(noon.Add(20 * time.Hour))
			w.awake()
			if log := strings.Join(w.log, "\n"); strings.Contains(log, v1alpha1.ReasonTargetFailed) || strings.Count(log, v1alpha1.ReasonRunnerStopped) != 2 {
				t.Error(log)
			}
		})
	}
}

func wakes(w *world) { w.plan.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideAwake} }

func leaves(w *world) {
	w.plan.Spec.DeletionPolicy, w.plan.DeletionTimestamp = v1alpha1.DeletionLeave, &metav1.Time{Time: w.now}
}

// What was recorded and not begun, because the manager was down, or whose Job was deleted, does not begin when it is not
// wanted any more.
func TestTakenBack(t *testing.T) {
	down := func(w *world) {
		w.pass(-1) // records
	}
	deleted := func(w *world) {
		w.pass(-1)
		w.pass(-1)
		w.end()
		clear(w.jobs)
	}
	for name, test := range map[string]struct {
		before func(*world)
		jobs   int
	}{"the manager was down": {down, 0}, "its Job was deleted": {deleted, 4}} {
		t.Run("by morning, "+name, func(t *testing.T) {
			w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 4))
			w.now = noon.Add(8 * time.Hour)
			test.before(w)
			if !anyOf(w.plan.Status.Executions, running) {
				t.Fatal("nothing is recorded")
			}
			w.now = noon.Add(20 * time.Hour)
			w.settle()
			w.awake()
			if len(w.ran) != test.jobs { // those that were there are undone
				t.Errorf("%d Jobs\n%s", len(w.ran), strings.Join(w.log, "\n"))
			}
		})
		t.Run("suspended, "+name, func(t *testing.T) {
			w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 4))
			w.now = noon.Add(8 * time.Hour)
			test.before(w)
			ran := len(w.ran)
			w.plan.Spec.Suspend = true
			if w.settle(); len(w.ran) != ran || w.plan.Status.Phase != v1alpha1.PhaseSuspended {
				t.Fatalf("%s, with %d Jobs", w.plan.Status.Phase, len(w.ran))
			}
			w.plan.Spec.Suspend = false
			if w.settle(); len(w.asleep) != 4 || w.plan.Status.Phase != v1alpha1.PhaseHibernated {
				t.Fatalf("%s, asleep %v", w.plan.Status.Phase, w.asleep)
			}
			w.until(noon.Add(20 * time.Hour))
			w.awake()
		})
	}
	t.Run("awake in the evening", func(t *testing.T) {
		w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 4))
		w.until(noon.Add(9 * time.Hour))
		w.now = noon.Add(18 * time.Hour)
		w.pass(-1) // turns, and records
		if !anyOf(w.plan.Status.Executions, running) {
			t.Fatal("nothing is recorded")
		}
		w.now = noon.Add(33 * time.Hour)
		w.settle()
		for _, line := range w.log {
			if strings.Contains(line, string(v1alpha1.OperationWakeUp)+" ") && strings.Contains(line, "attempt") {
				t.Errorf("in the evening it begins: %s", line)
			}
		}
		if len(w.asleep) != 4 {
			t.Errorf("asleep are %v", w.asleep)
		}
		w.until(noon.Add(42 * time.Hour))
		w.awake()
	})
}

// Where what a cycle began with is gone, the spec takes its place if it has the same targets; by another one nothing wakes.
func TestCycleLost(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*v1alpha1.HibernatePlan)
		lost bool
	}{
		"the same":         {func(*v1alpha1.HibernatePlan) {}, false},
		"another schedule": {func(p *v1alpha1.HibernatePlan) { p.Spec.Schedule.Timezone = "Europe/Berlin" }, false},
		"another target":   {func(p *v1alpha1.HibernatePlan) { p.Spec.Targets[1].Name = "z" }, true},
		"another type":     {func(p *v1alpha1.HibernatePlan) { p.Spec.Targets[1].Type = "other" }, true},
		"another order":    {func(p *v1alpha1.HibernatePlan) { slices.Reverse(p.Spec.Targets) }, true},
	} {
		plan, n := attempting(v1alpha1.OperationShutdown, "a", "b")
		for i := range plan.Status.Executions {
			end(&plan.Status.Executions[i], outcome{completed: true, resources: 1}, 0, noon)
			plan.Status.Executions[i].ServiceAccountRef = ""
		}
		plan.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideAwake}
		test.edit(plan)
		p := facts{plan: plan, registry: executor.Registry{"noop": anything{}, "other": anything{}}, namespace: n.namespace, now: noon}.decide()
		if lost := p.Problem != nil && p.Problem.reason == v1alpha1.ReasonCycleLost; lost != test.lost || (p.Begin != nil) == lost {
			t.Errorf("%s: %v, revision made again: %v", name, p.Problem, p.Begin != nil)
		}
		if wakes := anyOf(p.Status.Executions, running); wakes == test.lost {
			t.Errorf("%s: it wakes: %v", name, wakes)
		}
	}
}

func TestEditWhileAsleep(t *testing.T) {
	w := newWorld(t, newPlan(v1alpha1.StrategyDAG, 6))
	w.until(noon.Add(9 * time.Hour))
	w.plan.Spec.Targets = append(w.plan.Spec.Targets[:3:3], v1alpha1.Target{Name: "new", Type: "noop"}) // d, e, f go
	w.plan.Spec.Execution.Strategy = v1alpha1.Strategy{Type: v1alpha1.StrategyParallel}
	w.plan.Generation++
	w.settle()
	if len(w.asleep) != 3 || w.asleep["d"] || w.asleep["new"] || w.plan.Status.Phase != v1alpha1.PhaseHibernated {
		t.Fatalf("%s, asleep %v\n%s", w.plan.Status.Phase, w.asleep, strings.Join(w.log, "\n"))
	}
	w.until(noon.Add(19 * time.Hour))
	w.awake()
	w.until(noon.Add(34 * time.Hour))
	if len(w.asleep) != 4 || !w.asleep["new"] {
		t.Errorf("asleep %v", w.asleep)
	}
}

// One that was taken out, and is put back before it is awake, is woken as it was begun to be: it sleeps from the next night on.
func TestPutBackWhileItWakes(t *testing.T) {
	w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 2))
	w.fails = func(e execution) bool { return e.Operation == v1alpha1.OperationWakeUp && e.Attempts == 1 }
	w.until(noon.Add(9 * time.Hour))
	both := w.plan.Spec.Targets
	w.plan.Spec.Targets = both[:1]
	w.settle()
	if b := w.entry("b"); !failing(b) || !b.Asleep {
		t.Fatalf("%+v", b)
	}
	w.plan.Spec.Targets = both
	w.until(noon.Add(10 * time.Hour))
	if len(w.asleep) != 1 || !w.asleep["a"] {
		d := w.condition(v1alpha1.ConditionDegraded)
		t.Errorf("asleep %v, Degraded %s %s: %s", w.asleep, d.Status, d.Reason, d.Message)
	}
	w.until(noon.Add(19 * time.Hour))
	w.awake()
	w.until(noon.Add(33 * time.Hour))
	if len(w.asleep) != 2 {
		t.Errorf("in the next night %v are asleep", w.asleep)
	}
}

func TestSpecThatIsNoGood(t *testing.T) {
	w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 3))
	w.until(noon.Add(9 * time.Hour))
	w.plan.Spec.Targets[0].Parameters = &apiextensionsv1.JSON{Raw: []byte(`{"bad": 1}`)}
	w.settle()
	if r := w.condition(v1alpha1.ConditionReady); r.Reason != v1alpha1.ReasonInvalid || !strings.Contains(r.Message, "spec.targets[0](a).parameters.bad") || len(w.asleep) != 3 {
		t.Errorf("%+v", r)
	}
	w.until(noon.Add(19 * time.Hour)) // it wakes as it was put to sleep
	w.awake()
	w.until(noon.Add(34 * time.Hour))
	if len(w.asleep) != 0 || w.plan.Status.Phase != v1alpha1.PhasePending {
		t.Errorf("%s, asleep %v", w.plan.Status.Phase, w.asleep)
	}
	w.plan.Spec.Targets[0].Parameters = nil
	w.settle()
	w.plan.Spec.Schedule.Timezone = "Europe/Nowhere"
	w.until(noon.Add(41 * time.Hour)) // before it is to wake
	if r := w.condition(v1alpha1.ConditionReady); r.Reason != v1alpha1.ReasonInvalid || !strings.Contains(r.Message, "Nowhere") || len(w.asleep) != 3 || w.plan.Status.Phase != v1alpha1.PhaseHibernated {
		t.Errorf("%s, %+v, asleep %v", w.plan.Status.Phase, r, w.asleep)
	}
	w.until(noon.Add(60 * time.Hour)) // it wakes by the schedule that it was put to sleep by, and no other cycle begins
	w.awake()
	if w.plan.Status.Phase != v1alpha1.PhasePending || w.plan.Status.CurrentCycle != nil {
		t.Errorf("%s, %+v", w.plan.Status.Phase, w.plan.Status.CurrentCycle)
	}
}

// odd are parameters that a later release tells of.
var odd = &apiextensionsv1.JSON{Raw: []byte(`{"odd": 1}`)}

// oddNight is one in which three targets sleep, one of them by what the release that came meanwhile tells of.
func oddNight(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 3))
	w.plan.Spec.Targets[0].Parameters = odd
	w.until(noon.Add(9 * time.Hour))
	if len(w.asleep) != 3 {
		t.Fatalf("asleep %v", w.asleep)
	}
	w.registry = executor.Registry{"noop": later{}}
	return w
}

// toldAs fails the test unless the plan is told of as odd, and so many targets sleep.
func (w *world) toldAs(phase v1alpha1.Phase, asleep int) {
	w.t.Helper()
	if r := w.condition(v1alpha1.ConditionReady); r.Reason != v1alpha1.ReasonInvalid || r.Message != "spec.targets[0](a).parameters.odd: is odd; remove it" {
		w.t.Errorf("%+v", r)
	}
	if len(w.asleep) != asleep || w.plan.Status.Phase != phase {
		w.t.Errorf("%s, asleep %v", w.plan.Status.Phase, w.asleep)
	}
}

// What a later release tells of as a mistake keeps nothing asleep that sleeps by it, and nothing begins with it.
func TestMistakeThatIsToldOfLater(t *testing.T) {
	for name, change := range map[string]func(*world){
		"as it was":         func(*world) {},
		"its cycle is lost": func(w *world) { delete(w.revisions, w.plan.Status.CurrentCycle.ID) },
	} {
		t.Run(name, func(t *testing.T) {
			w := oddNight(t)
			change(w)
			w.settle()
			w.toldAs(v1alpha1.PhaseHibernated, 3)
			w.until(noon.Add(19 * time.Hour))
			w.awake()
			w.until(noon.Add(33 * time.Hour)) // in the next night
			w.toldAs(v1alpha1.PhasePending, 0)
			w.plan.Spec.Targets[0].Parameters = nil
			if w.settle(); len(w.asleep) != 3 {
				t.Errorf("it was mended: asleep %v", w.asleep)
			}
		})
	}
}

// So what was taken out of such a plan wakes, and all of it where that goes.
func TestPlanWithAMistakeThatGoes(t *testing.T) {
	w := oddNight(t)
	w.plan.Spec.Targets = w.plan.Spec.Targets[:2]
	if w.settle(); len(w.asleep) != 2 || w.asleep["c"] {
		t.Errorf("asleep %v", w.asleep)
	}
	w.plan.DeletionTimestamp = ptr.To(metav1.NewTime(w.now))
	w.until(w.now.Add(time.Minute))
	if w.awake(); !w.done {
		t.Error("the plan does not go")
	}
}

// What such a plan has left asleep wakes by one of its name without the mistake, and when one goes that has it.
func TestLeftAsleepByAMistake(t *testing.T) {
	for name, deleted := range map[string]bool{"mended": false, "deleted": true} {
		t.Run(name, func(t *testing.T) {
			w := oddNight(t)
			w.plan.Spec.DeletionPolicy = v1alpha1.DeletionLeave
			w.plan.DeletionTimestamp = ptr.To(metav1.NewTime(w.now))
			w.until(w.now)
			w.now = noon.Add(19 * time.Hour) // in the morning
			again := newPlan(v1alpha1.StrategyParallel, 3)
			again.UID = types.UID("uid-2")
			if w.plan, w.done = again, false; deleted {
				again.Spec.Targets[0].Parameters = odd
				w.settle()
				w.toldAs(v1alpha1.PhasePending, 3)
				again.DeletionTimestamp = ptr.To(metav1.NewTime(w.now))
			}
			w.until(w.now.Add(time.Minute))
			w.awake()
		})
	}
}

// What cannot be told to wake by its schedule is woken by hand, and when the plan goes.
func TestLostSchedule(t *testing.T) {
	for name, act := range map[string]func(*v1alpha1.HibernatePlan, time.Time){
		"override": func(p *v1alpha1.HibernatePlan, _ time.Time) {
			p.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideAwake}
		},
		"deletion": func(p *v1alpha1.HibernatePlan, now time.Time) { p.DeletionTimestamp = ptr.To(metav1.NewTime(now)) },
		"wake-now": func(p *v1alpha1.HibernatePlan, _ time.Time) {
			p.Annotations = map[string]string{v1alpha1.AnnotationWakeNow: "1"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 3))
			w.until(noon.Add(9 * time.Hour))
			w.plan.Spec.Schedule.Timezone = "Europe/Nowhere"
			kept := w.revisions[1]
			kept.Schedule = v1alpha1.Schedule{} // as managers before this one have kept it
			if name != "wake-now" {
				w.revisions[1] = kept
			}
			w.until(noon.Add(10 * time.Hour))
			if len(w.asleep) != 3 || w.plan.Status.Phase != v1alpha1.PhaseHibernated {
				t.Fatalf("%s, asleep %v", w.plan.Status.Phase, w.asleep)
			}
			act(w.plan, w.now)
			w.settle()
			w.awake()
		})
	}
}

// Nothing of it goes on without a schedule, and it does not say that all is asleep of which some is not.
func TestLostScheduleInTheMiddle(t *testing.T) {
	w := newWorld(t, newPlan(v1alpha1.StrategySequential, 3))
	w.now = noon.Add(8 * time.Hour)
	for len(w.ran) == 0 {
		w.pass(-1)
	}
	w.plan.Spec.Schedule.Timezone = "Europe/Nowhere"
	clear(w.revisions)
	w.until(noon.Add(9 * time.Hour))
	if c := w.condition(v1alpha1.ConditionHibernated); len(w.asleep) != 1 || c.Status != metav1.ConditionFalse || w.plan.Status.Phase != v1alpha1.PhaseHibernating {
		t.Errorf("%s, asleep %v, Hibernated %s: %s", w.plan.Status.Phase, w.asleep, c.Status, c.Message)
	}
	w.plan.Spec.Schedule.Timezone = "UTC"
	w.settle()
	if c := w.condition(v1alpha1.ConditionHibernated); len(w.asleep) != 3 || c.Status != metav1.ConditionTrue {
		t.Errorf("%s, asleep %v, Hibernated %s: %s", w.plan.Status.Phase, w.asleep, c.Status, c.Message)
	}
}

func TestSuspend(t *testing.T) {
	w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 4))
	w.now = noon.Add(8 * time.Hour)
	w.pass(-1)
	w.pass(-1)
	w.plan.Spec.Suspend = true
	w.until(noon.Add(24 * time.Hour))
	if len(w.asleep) != 2 || w.plan.Status.Phase != v1alpha1.PhaseSuspended {
		t.Fatalf("%s, asleep %v", w.plan.Status.Phase, w.asleep)
	}
	w.plan.Spec.Suspend = false
	w.settle()
	w.awake()
}

// One that is suspended while its targets sleep stays as it is, also in the morning, and when some of it was taken out;
// when it goes on, in that night or by day, nothing is put to sleep again that sleeps, and what is to be awake wakes.
// What is deleted meanwhile wakes, too.
func TestSuspendedAsleep(t *testing.T) {
	for name, test := range map[string]struct {
		goesOn, deleted time.Duration
		asleep          int
	}{"in the night": {goesOn: 10 * time.Hour, asleep: 3}, "by day": {goesOn: 24 * time.Hour}, "in the next night": {goesOn: 33 * time.Hour, asleep: 3}, "deleted": {deleted: 10 * time.Hour}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newPlan(v1alpha1.StrategySequential, 4))
			w.until(noon.Add(9 * time.Hour))
			w.plan.Spec.Suspend = true
			w.plan.Spec.Targets = w.plan.Spec.Targets[:3]
			w.until(noon.Add(max(test.goesOn, test.deleted)))
			if len(w.asleep) != 4 || len(w.ran) != 4 || w.plan.Status.Phase != v1alpha1.PhaseSuspended {
				t.Fatalf("%s, asleep %v, after %d Jobs", w.plan.Status.Phase, w.asleep, len(w.ran))
			}
			w.log = nil
			if test.deleted > 0 {
				w.plan.DeletionTimestamp = ptr.To(metav1.NewTime(w.now))
				if w.settle(); !w.done {
					t.Error("it does not go")
				}
				w.awake()
				return
			}
			w.plan.Spec.Suspend = false
			if w.settle(); len(w.asleep) != test.asleep || w.asleep["d"] || len(w.ran) != 8-test.asleep {
				t.Errorf("%s, asleep %v, after %d Jobs\n%s", w.plan.Status.Phase, w.asleep, len(w.ran), strings.Join(w.log, "\n"))
			}
			w.until(noon.Add(43 * time.Hour))
			w.awake()
		})
	}
}

func TestManual(t *testing.T) {
	w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 2))
	w.settle()
	w.plan.Annotations = map[string]string{v1alpha1.AnnotationHibernateNow: "x"}
	w.settle()
	if len(w.asleep) != 2 || w.plan.Status.NextTransition == nil || !w.plan.Status.NextTransition.Time.Equal(ptr.To(metav1.NewTime(noon.Add(18*time.Hour)))) {
		t.Fatalf("asleep %v, next %v", w.asleep, w.plan.Status.NextTransition)
	}
	w.until(noon.Add(18 * time.Hour))
	w.awake()
	w.plan.Annotations = map[string]string{v1alpha1.AnnotationSkipNext: "tuesday"}
	w.until(noon.Add(40 * time.Hour))
	w.awake()
	w.until(noon.Add(58 * time.Hour))
	if len(w.asleep) != 2 { // Wednesday
		t.Errorf("asleep %v", w.asleep)
	}
	w.plan.Annotations = map[string]string{v1alpha1.AnnotationWakeNow: ""}
	w.settle()
	w.awake()
	w.until(noon.Add(65 * time.Hour))
	w.awake()
}

// Each value of skip-next takes out one night more, and none of those that are taken out already.
func TestSkipAgain(t *testing.T) {
	w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 2))
	w.settle()
	for i, at := range []time.Duration{0, 7, 9} { // at noon, an hour before the night, and in it
		w.until(noon.Add(at * time.Hour))
		w.plan.Annotations = map[string]string{v1alpha1.AnnotationSkipNext: fmt.Sprint(i)}
		w.settle()
		w.awake()
		if len(w.plan.Status.Skips) != i+1 {
			t.Fatalf("%d nights are taken out: %v", len(w.plan.Status.Skips), w.plan.Status.Skips)
		}
	}
	for _, night := range []time.Duration{9, 33, 57} { // Monday to Wednesday
		w.until(noon.Add(night * time.Hour))
		w.awake()
	}
	w.until(noon.Add(81 * time.Hour))
	if len(w.asleep) != 2 || len(w.plan.Status.Skips) > 0 { // Thursday
		t.Errorf("asleep %v, to be skipped %v", w.asleep, w.plan.Status.Skips)
	}
}

// Who asks for more nights than can be skipped ahead gets them one by one.
func TestSkipTooMany(t *testing.T) {
	w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 1))
	for i := range maxSkips + 1 {
		w.plan.Annotations = map[string]string{v1alpha1.AnnotationSkipNext: fmt.Sprint(i)}
		w.settle()
	}
	acted := func() string { return known(w.plan.Status.Acknowledged, "skip-next").Value }
	if len(w.plan.Status.Skips) != maxSkips || acted() != fmt.Sprint(maxSkips-1) {
		t.Fatalf("%d nights are taken out, of %s", len(w.plan.Status.Skips), acted())
	}
	last := w.plan.Status.Skips[maxSkips-1]
	w.until(w.plan.Status.Skips[0].Until.Time)
	if len(w.plan.Status.Skips) != maxSkips || acted() != fmt.Sprint(maxSkips) {
		t.Fatalf("%d nights are taken out, of %s", len(w.plan.Status.Skips), acted())
	}
	w.until(last.Until.Add(18 * time.Hour))
	w.awake() // the night that was taken out last is among them
	w.until(last.Until.Add(42 * time.Hour))
	if len(w.asleep) != 1 {
		t.Errorf("asleep %v, to be skipped %v", w.asleep, w.plan.Status.Skips)
	}
}

func TestDelete(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy v1alpha1.DeletionPolicy
		fails  bool
		after  time.Duration
		asleep int
	}{
		{"wake up", v1alpha1.DeletionWakeUp, false, 0, 0},
		{"leave", v1alpha1.DeletionLeave, false, 0, 3},
		{"deadline", v1alpha1.DeletionWakeUp, true, defaultDeadline, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 3))
			w.plan.Spec.DeletionPolicy = c.policy
			w.fails = func(e execution) bool { return c.fails && e.Operation == v1alpha1.OperationWakeUp }
			w.until(noon.Add(9 * time.Hour))
			w.plan.DeletionTimestamp = ptr.To(metav1.NewTime(w.now))
			w.until(w.now.Add(c.after))
			if !w.done || len(w.asleep) != c.asleep || len(w.points) != c.asleep || len(w.jobs)+len(w.revisions) > 0 {
				t.Fatalf("done %v, asleep %v, points %v, jobs %v, revisions %v", w.done, w.asleep, w.points, w.jobs, w.revisions)
			}
			if c.asleep == 0 {
				return
			}
			// One of its name finds what it has left, though it has one target less, and wakes it.
			again := newPlan(v1alpha1.StrategyStaged, 2)
			again.UID = types.UID("uid-2")
			w.plan, w.done, w.fails = again, false, func(execution) bool { return false }
			w.until(noon.Add(33 * time.Hour))
			if w.plan.Status.Phase == v1alpha1.PhasePending {
				t.Errorf("%+v", w.plan.Status.Conditions)
			}
			w.until(noon.Add(43 * time.Hour))
			w.awake()
		})
	}
}

// More have ended than a pass looks at.
func TestManyAtOnce(t *testing.T) {
	plan := newPlan(v1alpha1.StrategyParallel, 26)
	plan.Spec.Execution.Strategy.MaxConcurrency = nil
	w := newWorld(t, plan)
	for _, at := range []time.Duration{9 * time.Hour, 19 * time.Hour} {
		w.now = noon.Add(at)
		for range 4 {
			w.pass(-1)
		}
		w.end()
		for len(w.ran) < 26*int(at/(9*time.Hour)) {
			before := len(w.ran)
			w.pass(-1)
			w.pass(-1)
			w.end()
			if len(w.ran) == before && len(w.asleep) != 26 {
				break
			}
		}
		w.settle()
	}
	w.awake()
	if len(w.ran) != 52 {
		t.Errorf("%d Jobs", len(w.ran))
	}
}

// What cannot be reached keeps nothing else from waking, and is tried until it can be.
func TestUnreachable(t *testing.T) {
	w := newWorld(t, newPlan(v1alpha1.StrategySequential, 4))
	w.until(noon.Add(9 * time.Hour))
	away := true
	w.refuses = func(e execution) bool { return away && e.Target == "c" }
	w.plan.Spec.Behavior = v1alpha1.Behavior{Mode: v1alpha1.BehaviorBestEffort}
	w.until(noon.Add(20 * time.Hour))
	if st := w.plan.Status; st.Phase != v1alpha1.PhaseError || !w.asleep["c"] || w.asleep["d"] || !strings.Contains(w.condition(v1alpha1.ConditionReady).Message, "cannot be reached") {
		t.Fatalf("%s, asleep %v, %+v", st.Phase, w.asleep, w.condition(v1alpha1.ConditionReady))
	}
	away = false
	w.until(noon.Add(20*time.Hour + lastRetry))
	w.awake()

	// In the evening it is the same, and the morning comes.
	w = newWorld(t, newPlan(v1alpha1.StrategySequential, 4))
	w.refuses = func(e execution) bool { return e.Target == "c" && e.Operation == v1alpha1.OperationShutdown }
	w.until(noon.Add(10 * time.Hour))
	if w.plan.Status.Phase != v1alpha1.PhaseError || len(w.asleep) != 2 {
		t.Fatalf("%s, asleep %v", w.plan.Status.Phase, w.asleep)
	}
}

// What could not be read is looked for again, as after an error: nobody tells when it can be.
func TestUnread(t *testing.T) {
	for since, want := range map[time.Duration]time.Duration{0: time.Second, 10 * time.Second: 10 * time.Second, time.Hour: time.Minute} {
		plan := newPlan(v1alpha1.StrategySequential, 1)
		plan.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionScheduled, Reason: kube.ReasonReconcileError, LastTransitionTime: metav1.NewTime(noon.Add(-since))}}
		f := facts{plan: plan, registry: registry, namespace: "system", now: noon}
		if p := f.decide(); p.Wait <= time.Minute {
			t.Fatalf("with nothing to read it is looked at in %s", p.Wait)
		}
		f.seen.Unreached = map[string]bool{"a": true}
		if p := f.decide(); p.Wait != want {
			t.Errorf("after %s it is looked at in %s, want %s", since, p.Wait, want)
		}
	}
	plan := newPlan(v1alpha1.StrategySequential, 1)
	if p := (facts{plan: plan, registry: registry, namespace: "system", now: noon, seen: Observed{Unreached: map[string]bool{"a": true}}}).decide(); p.Wait != time.Second {
		t.Errorf("for the first time it is looked at in %s", p.Wait)
	}
}

// Whoever writes a plan may call a stage as the one is called that what was left asleep is woken in.
func TestLeftAsleepBesideAStageOfThatName(t *testing.T) {
	plan := newPlan(v1alpha1.StrategyStaged, 2)
	plan.Spec.Execution.Strategy.Stages[1].Name = "left-asleep"
	w := newWorld(t, plan)
	w.asleep["x"], w.points["x"], w.kept["x"] = true, "former", v1alpha1.Target{Name: "x", Type: "noop"}
	w.settle()
	w.until(noon.Add(time.Hour))
	if w.asleep["x"] {
		c := find(w.plan.Status.Conditions, v1alpha1.ConditionScheduled)
		t.Errorf("x, which was left asleep, sleeps: %s: %s", c.Reason, c.Message)
	}
	stage := func(name string) v1alpha1.Stage { return v1alpha1.Stage{Name: name} }
	if got := freeName([]v1alpha1.Stage{stage("left-asleep-2"), stage("left-asleep"), stage("db")}); got != "left-asleep-3" {
		t.Errorf("the free name is %s", got)
	}
}

// A target that cannot be reached keeps no others awake with BestEffort, nor asleep that another plan has left so.
func TestUnreachableFromTheBeginning(t *testing.T) {
	away := &problem{reason: v1alpha1.ReasonConnectorNotReady, message: "Target c: nobody answers", ofTarget: true}
	refuses := func(e execution) bool { return e.Target == "c" }
	for mode, asleep := range map[v1alpha1.BehaviorMode]int{v1alpha1.BehaviorBestEffort: 3, v1alpha1.BehaviorStrict: 0} {
		w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 4))
		w.plan.Spec.Behavior = v1alpha1.Behavior{Mode: mode}
		w.problem, w.refuses = away, refuses
		w.until(noon.Add(9 * time.Hour))
		if len(w.asleep) != asleep {
			t.Fatalf("%s: %s, asleep %v", mode, w.plan.Status.Phase, w.asleep)
		}
		if c := w.condition(v1alpha1.ConditionReady); c.Status != metav1.ConditionFalse {
			t.Errorf("%s: %+v", mode, c)
		}
		if c := w.condition(v1alpha1.ConditionDegraded); asleep > 0 && (c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "c")) {
			t.Errorf("%s: %+v", mode, c)
		}
		if c := w.condition(v1alpha1.ConditionRestorePointSaved); int(w.plan.Status.Asleep) != asleep || asleep > 0 && (c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "3 targets")) {
			t.Errorf("%s: %d are asleep, %+v", mode, w.plan.Status.Asleep, c)
		}
		w.problem, w.refuses = nil, func(execution) bool { return false }
		w.until(noon.Add(20 * time.Hour))
		w.awake()
	}
	w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 4))
	w.plan.Spec.DeletionPolicy = v1alpha1.DeletionLeave
	w.until(noon.Add(9 * time.Hour))
	w.plan.DeletionTimestamp = ptr.To(metav1.NewTime(w.now))
	w.until(w.now)
	w.plan, w.done = newPlan(v1alpha1.StrategyParallel, 4), false
	w.plan.UID = "uid-2"
	w.plan.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideAwake}
	w.problem, w.refuses = away, refuses
	w.until(w.now.Add(time.Hour))
	if len(w.asleep) != 1 || !w.asleep["c"] {
		t.Errorf("asleep are %v", w.asleep)
	}
}

// A target in which there was nothing, because its parameters name what is not there, is no success.
func TestNothingFound(t *testing.T) {
	w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 2))
	w.empty = "b"
	w.until(noon.Add(9 * time.Hour))
	if c := w.condition(v1alpha1.ConditionDegraded); c.Status != metav1.ConditionTrue || c.Reason != v1alpha1.ReasonNothingFound || !strings.Contains(c.Message, "in b;") {
		t.Errorf("%+v", c)
	}
	w.until(noon.Add(19 * time.Hour))
	w.awake()
	if c := w.condition(v1alpha1.ConditionDegraded); c.Status != metav1.ConditionFalse {
		t.Errorf("%+v", c)
	}
}

// One that can never wake keeps no others asleep: it is taken out of the plan, or the plan becomes one of BestEffort.
func TestNeverWakes(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.HibernatePlanSpec){
		"taken out":   func(s *v1alpha1.HibernatePlanSpec) { s.Targets = s.Targets[:3] },
		"best effort": func(s *v1alpha1.HibernatePlanSpec) { s.Behavior.Mode = v1alpha1.BehaviorBestEffort },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newPlan(v1alpha1.StrategySequential, 4))
			w.until(noon.Add(9 * time.Hour))
			w.fails = func(e execution) bool { return e.Target == "d" && e.Operation == v1alpha1.OperationWakeUp }
			w.until(noon.Add(20 * time.Hour))
			if len(w.asleep) != 4 || w.plan.Status.Phase != v1alpha1.PhaseError {
				t.Fatalf("%s, asleep %v", w.plan.Status.Phase, w.asleep)
			}
			change(&w.plan.Spec)
			w.until(noon.Add(22 * time.Hour))
			if len(w.asleep) != 1 || w.plan.Status.Phase != v1alpha1.PhaseError {
				t.Fatalf("%s, asleep %v", w.plan.Status.Phase, w.asleep)
			}
			w.fails = func(execution) bool { return false }
			w.until(noon.Add(22*time.Hour + lastRetry))
			w.awake()
			if w.plan.Status.CurrentCycle != nil {
				t.Errorf("%+v", w.plan.Status.CurrentCycle)
			}
		})
	}
}

// A target that cannot wake keeps no others asleep when its plan is deleted, whichever it is and however they are ordered: that does not
// wait for ever, and whoever goes by the order would leave them asleep as well.
func TestNeverWakesOfOneThatGoes(t *testing.T) {
	for _, strategy := range strategies {
		for _, never := range targetNames(4) {
			w := newWorld(t, newPlan(strategy, 4))
			w.until(noon.Add(9 * time.Hour))
			w.fails = func(e execution) bool { return e.Target == never && e.Operation == v1alpha1.OperationWakeUp }
			w.plan.DeletionTimestamp = ptr.To(metav1.NewTime(w.now))
			w.until(w.now.Add(defaultDeadline / 2))
			if len(w.asleep) != 1 || !w.asleep[never] || w.done {
				t.Errorf("%s, and %s cannot wake: asleep %v", strategy, never, w.asleep)
			}
			w.fails = func(execution) bool { return false }
			if w.until(w.now.Add(lastRetry)); len(w.asleep) > 0 || !w.done {
				t.Errorf("%s, and %s wakes late: asleep %v", strategy, never, w.asleep)
			}
		}
	}
}

// One that was created again over what another has left asleep wakes it when it goes, suspended or not; where it cannot
// it waits for the deadline, and says so.
func TestDeleteWhatWasLeft(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.HibernatePlanSpec){
		"suspended": func(s *v1alpha1.HibernatePlanSpec) { s.Suspend = true },
		"dry run":   func(s *v1alpha1.HibernatePlanSpec) { s.DryRun = true },
		"nowhere":   func(s *v1alpha1.HibernatePlanSpec) { s.Schedule.Timezone = "Europe/Nowhere" },
		"invalid":   func(s *v1alpha1.HibernatePlanSpec) { s.Targets = append(s.Targets, s.Targets[0]) },
		"another": func(s *v1alpha1.HibernatePlanSpec) {
			s.Targets, s.Execution.Strategy.Type = []v1alpha1.Target{{Name: "x", Type: "unknown"}}, v1alpha1.StrategyDAG
		},
		"unreached": nil,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 2))
			w.plan.Spec.DeletionPolicy = v1alpha1.DeletionLeave
			w.until(noon.Add(9 * time.Hour))
			w.plan.DeletionTimestamp = ptr.To(metav1.NewTime(w.now))
			w.until(w.now)
			again := newPlan(v1alpha1.StrategyParallel, 2)
			again.UID = types.UID("uid-2")
			if change != nil {
				change(&again.Spec)
			} else {
				w.problem = &problem{reason: v1alpha1.ReasonConnectorNotReady, message: "Target a: nobody answers"}
			}
			w.plan, w.done, w.log = again, false, nil
			w.settle()
			w.plan.DeletionTimestamp = ptr.To(metav1.NewTime(w.now))
			w.until(w.now.Add(time.Minute))
			if name != "unreached" {
				w.awake()
			} else if w.done || len(w.asleep) != 2 {
				t.Errorf("done %v, asleep %v", w.done, w.asleep)
			}
			w.until(w.now.Add(defaultDeadline))
			told := slices.ContainsFunc(w.log, func(line string) bool {
				return strings.Contains(line, v1alpha1.ReasonLeftAsleep+": The plan goes, and these targets sleep: a, b;")
			})
			if !w.done || told != (name == "unreached") {
				t.Errorf("done %v, and it tells of what sleeps: %v", w.done, told)
			}
		})
	}
}

// The time that no manager was there does not count.
func TestDeletedMeanwhile(t *testing.T) {
	w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 3))
	w.until(noon.Add(9 * time.Hour))
	w.plan.DeletionTimestamp = ptr.To(metav1.NewTime(w.now))
	w.now = w.now.Add(3 * time.Hour)
	w.settle()
	if !w.done {
		t.Fatal("it does not go")
	}
	w.awake()
}

// What was only about to begin does not keep one that leaves.
func TestLeavesInTheMiddle(t *testing.T) {
	w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 4))
	w.plan.Spec.DeletionPolicy = v1alpha1.DeletionLeave
	w.now = noon.Add(9 * time.Hour)
	w.pass(-1) // recorded, and not launched
	if !anyOf(w.plan.Status.Executions, running) || len(w.jobs) > 0 {
		t.Fatalf("%+v, Jobs %v", w.plan.Status.Executions, w.jobs)
	}
	w.plan.DeletionTimestamp = ptr.To(metav1.NewTime(w.now))
	for range 5 {
		w.pass(-1)
	}
	if !w.done || len(w.ran) > 0 {
		t.Errorf("done %v, ran %v", w.done, w.ran)
	}
}

// What was not brought back is told of, until the next time.
func TestLeftAsFound(t *testing.T) {
	w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 2))
	w.left = []string{"Deployment.apps/shop/web: somebody has changed it"}
	w.until(noon.Add(19 * time.Hour))
	w.awake()
	d := w.condition(v1alpha1.ConditionDegraded)
	if d.Status != metav1.ConditionTrue || d.Reason != v1alpha1.ReasonLeftAsFound || !strings.Contains(d.Message, "a (1 of 3), b (1 of 3)") || !strings.Contains(d.Message, "shop/web") {
		t.Errorf("%+v", d)
	}
	if h := w.plan.Status.History; len(h) != 1 || !strings.Contains(h[0].Message, "a (1 of 3)") {
		t.Errorf("%+v", h)
	}
	w.left = nil
	w.until(noon.Add(43 * time.Hour))
	if d := w.condition(v1alpha1.ConditionDegraded); d.Status != metav1.ConditionFalse {
		t.Errorf("%+v", d)
	}
}

// A restore point that somebody has put in the place of the one that there was, and that has less in it, is no success.
func TestEmptyRestorePoint(t *testing.T) {
	for found, wakes := range map[int]bool{0: false, 2: false, 3: true, 4: true} { // what came and went between two attempts is in there, too
		e := execution{Target: "a", Operation: v1alpha1.OperationWakeUp, Asleep: true, Resources: 3, Attempts: 1, Executor: "noop"}
		end(&e, outcome{completed: true, resources: found}, 3, noon)
		if e.Asleep == wakes || (e.State == v1alpha1.ExecutionCompleted) != wakes || strings.Contains(e.Message, fmt.Sprintf("has %d of the 3", found)) == wakes {
			t.Errorf("%d of 3: %+v", found, e)
		}
	}
}

func TestOverrideWithoutSchedule(t *testing.T) {
	w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 2))
	w.until(noon.Add(9 * time.Hour))
	w.plan.Spec.Schedule.Timezone = "Europe/Nowhere"
	w.plan.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideAwake}
	w.settle()
	w.awake()
}

// A pass that has failed tells of that, and else of what is recorded of it.
func TestReportOfAFailure(t *testing.T) {
	w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 2))
	w.until(noon.Add(8*time.Hour - time.Second))
	before := w.plan.DeepCopy()
	p := facts{plan: w.plan, seen: w.observed(), registry: registry, namespace: "system", now: noon.Add(8 * time.Hour)}.decide()
	for recordable, want := range map[bool]v1alpha1.Phase{false: before.Status.Phase, true: v1alpha1.PhaseHibernating} {
		w.plan = before.DeepCopy()
		report(&scope{owner: w.plan, plan: p, decided: true, recordable: recordable, now: w.now}, errors.New("no"))
		if got := w.condition(v1alpha1.ConditionReady); got.Status != metav1.ConditionFalse || got.Message != "No" {
			t.Errorf("%+v", got)
		}
		got, was := w.condition(v1alpha1.ConditionHibernated), find(before.Status.Conditions, v1alpha1.ConditionHibernated)
		if stays := got == *was; stays == recordable || w.plan.Status.Phase != want || (w.plan.Status.CurrentCycle != nil) != recordable {
			t.Errorf("recordable: %t: %+v, %s", recordable, got, w.plan.Status.Phase)
		}
	}
}

// A plan that leaves its targets as they are keeps the restore points of those that sleep, and no others.
func TestLeaveWhileWaking(t *testing.T) {
	for passes := range 12 {
		w := newWorld(t, newPlan(v1alpha1.StrategySequential, 3))
		w.plan.Spec.DeletionPolicy = v1alpha1.DeletionLeave
		w.until(noon.Add(9 * time.Hour))
		w.now = noon.Add(18 * time.Hour)
		for range passes { // in the middle of it
			w.pass(-1)
			w.end()
		}
		w.plan.DeletionTimestamp = ptr.To(metav1.NewTime(w.now))
		w.settle()
		if !w.done || len(w.points) != len(w.asleep) || len(w.jobs)+len(w.revisions) > 0 {
			t.Errorf("after %d passes: done %v, asleep %v, points %v, jobs %v, revisions %v", passes, w.done, w.asleep, w.points, w.jobs, w.revisions)
		}
	}
}

// Managers end anywhere, targets fail, and people change their minds; in the end everything is awake, and as it was.
func TestAnythingGoes(t *testing.T) {
	seeds := 300
	if testing.Short() {
		seeds = 30
	}
	for seed := range seeds {
		random := rand.New(rand.NewPCG(1, uint64(seed)))
		plan := newPlan(strategies[seed%4], 2+random.IntN(6))
		plan.Spec.Behavior.Retries = ptr.To(int32(random.IntN(3)))
		if random.IntN(2) == 0 {
			plan.Spec.Behavior.Mode = v1alpha1.BehaviorBestEffort
		}
		w := newWorld(t, plan)
		w.random = random
		w.fails = func(execution) bool { return random.IntN(5) == 0 }
		w.refuses = func(execution) bool { return random.IntN(12) == 0 }
		for range 150 {
			if random.IntN(3) == 0 {
				w.pass(random.IntN(4)) // killed
			} else {
				w.pass(-1)
			}
			if random.IntN(2) == 0 {
				w.end()
			}
			w.somethingHappens()
			w.createAgain()
			if random.IntN(10) == 0 {
				w.now = w.now.Add(time.Duration(random.IntN(120)) * time.Minute)
			} else {
				w.now = w.now.Add(time.Duration(random.IntN(5)) * time.Second)
			}
		}
		w.fails, w.refuses = func(execution) bool { return false }, func(execution) bool { return false }
		if w.plan.DeletionTimestamp != nil {
			w.until(w.now.Add(2 * time.Hour))
			w.createAgain()
		}
		w.plan.Spec.Suspend, w.plan.Spec.Override = false, &v1alpha1.Override{State: v1alpha1.OverrideAwake}
		w.plan.Annotations = map[string]string{v1alpha1.AnnotationRetryNow: "at last"}
		w.until(w.now.Add(time.Hour))
		if w.awake(); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// somethingHappens is now and then what people do.
func (w *world) somethingHappens() {
	switch n := w.random.IntN(60); n {
	case 0:
		w.plan.Spec.Suspend = !w.plan.Spec.Suspend
	case 1:
		w.plan.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideHibernated}
	case 2:
		w.plan.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideAwake}
	case 3:
		w.plan.Spec.Override = nil
	case 4, 5:
		strategy := strategies[w.random.IntN(4)]
		edited := newPlan(strategy, 2+w.random.IntN(6))
		w.plan.Spec.Targets, w.plan.Spec.Execution = edited.Spec.Targets, edited.Spec.Execution
	case 6, 7, 8:
		which := []string{v1alpha1.AnnotationHibernateNow, v1alpha1.AnnotationWakeNow, v1alpha1.AnnotationSkipNext, v1alpha1.AnnotationRetryNow}[w.random.IntN(4)]
		w.plan.Annotations = map[string]string{which: fmt.Sprint(w.random.IntN(1000))}
	case 9:
		if w.plan.DeletionTimestamp == nil {
			w.plan.Spec.DeletionPolicy = []v1alpha1.DeletionPolicy{v1alpha1.DeletionWakeUp, v1alpha1.DeletionLeave}[w.random.IntN(2)]
			w.plan.DeletionTimestamp = ptr.To(metav1.NewTime(w.now))
		}
	case 11: // all are renamed
		w.plan.Spec.Targets, w.plan.Spec.Execution = slices.Clone(w.plan.Spec.Targets), v1alpha1.Execution{Strategy: v1alpha1.Strategy{Type: v1alpha1.StrategyParallel}}
		for i := range w.plan.Spec.Targets {
			w.plan.Spec.Targets[i].Name += "x"
		}
	case 10: // somebody deletes a Job
		for _, job := range slices.Sorted(maps.Keys(w.jobs)) {
			if w.jobs[job] == nil {
				delete(w.jobs, job)
				delete(w.ran, job)
				break
			}
		}
	}
}

// entry is that of a target in the ledger; nil if there is none.
func (w *world) entry(target string) *execution {
	for i := range w.plan.Status.Executions {
		if e := &w.plan.Status.Executions[i]; e.Target == target {
			return e
		}
	}
	return nil
}

// createAgain makes a plan of the same name in the place of one that has gone, which has left nothing but what its
// successor needs.
func (w *world) createAgain() {
	if !w.done {
		return
	}
	for target := range w.points {
		if e := w.entry(target); !w.asleep[target] && (e == nil || !e.Asleep) {
			w.t.Errorf("the plan has gone, and left the restore point of %s, which is awake", target)
		}
	}
	if len(w.jobs) > 0 {
		w.t.Errorf("the plan has gone, and left the Jobs %v", w.jobs)
	}
	uid := w.plan.UID
	w.plan, w.done = newPlan(strategies[w.random.IntN(4)], 2+w.random.IntN(6)), false
	w.plan.UID = uid + "1"
}

// What was taken out of the plan and is woken says nothing of the others, which sleep: the phase stays. What cannot be woken is an
// error in any case, while it is tried again, too.
func TestTakenOutKeepsThePhase(t *testing.T) {
	for _, mode := range []v1alpha1.BehaviorMode{v1alpha1.BehaviorStrict, v1alpha1.BehaviorBestEffort} {
		for name, fails := range map[string]bool{"it wakes": false, "it does not": true} {
			t.Run(string(mode)+", "+name, func(t *testing.T) {
				w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 3))
				w.plan.Spec.Behavior.Mode = mode
				w.fails = func(e execution) bool { return fails && e.Operation == v1alpha1.OperationWakeUp }
				w.until(noon.Add(9 * time.Hour))
				w.plan.Spec.Targets = w.plan.Spec.Targets[:2]
				var phases []v1alpha1.Phase
				told := false
				for range 200 {
					p := w.pass(-1)
					if phase := w.plan.Status.Phase; len(phases) == 0 || phases[len(phases)-1] != phase {
						phases = append(phases, phase)
					}
					hibernated := w.condition(v1alpha1.ConditionHibernated)
					if e := w.entry("c"); running(e) && !failed(e) {
						told = told || strings.Contains(hibernated.Message, "c")
					}
					if !w.end() {
						w.now = w.now.Add(min(p.Wait, time.Minute))
					}
				}
				want := []v1alpha1.Phase{v1alpha1.PhaseHibernated}
				if fails {
					want = append(want, v1alpha1.PhaseError)
				}
				if !slices.Equal(phases, want) || !told || w.asleep["c"] != fails {
					t.Errorf("%v, told: %v, asleep %v", phases, told, w.asleep)
				}
				w.fails = func(execution) bool { return false }
				w.until(noon.Add(20 * time.Hour))
				w.awake()
			})
		}
	}
}

// What was taken out is woken at once, also where the others are still falling asleep, and the runner of one hangs, or is to be tried again.
func TestTakenOutBesideWhatFallsAsleep(t *testing.T) {
	for name, amiss := range map[string]func(*world, func(execution) bool){
		"its runner hangs": func(w *world, of func(execution) bool) { w.hangs = of },
		"it fails":         func(w *world, of func(execution) bool) { w.fails = of },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 3))
			w.plan.Spec.Execution.Strategy.MaxConcurrency, w.plan.Spec.Behavior.Retries = nil, ptr.To(int32(100))
			amiss(w, func(e execution) bool { return e.Target == "a" && e.Operation == v1alpha1.OperationShutdown })
			w.until(noon.Add(8*time.Hour + 5*time.Second))
			if w.plan.Status.Phase != v1alpha1.PhaseHibernating || !w.asleep["c"] {
				t.Fatalf("%s, asleep %v", w.plan.Status.Phase, w.asleep)
			}
			w.plan.Spec.Targets = w.plan.Spec.Targets[:2]
			w.settle()
			if w.asleep["c"] || !w.asleep["b"] || w.plan.Status.Phase != v1alpha1.PhaseHibernating {
				t.Errorf("%s, asleep %v", w.plan.Status.Phase, w.asleep)
			}
			w.fails, w.hangs = func(execution) bool { return false }, nil
			w.until(noon.Add(20 * time.Hour))
			w.awake()
		})
	}
}

// No more are acted on at the same time than the strategy says, what was taken out included.
func TestTakenOutWaitsForRoom(t *testing.T) {
	for name, strategy := range map[string]v1alpha1.Strategy{
		"one after the other": {Type: v1alpha1.StrategySequential},
		"two at a time":       {Type: v1alpha1.StrategyParallel, MaxConcurrency: ptr.To(int32(2))},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newPlan(strategy.Type, 6))
			w.plan.Spec.Execution.Strategy.MaxConcurrency = strategy.MaxConcurrency
			most, slow := max(1, number(strategy.MaxConcurrency)), map[string]bool{"c": true, "d": true}
			w.hangs = func(e execution) bool { return slow[e.Target] && e.Operation == v1alpha1.OperationShutdown }
			w.until(noon.Add(8*time.Hour + 5*time.Second))
			if !w.asleep["a"] || w.asleep["c"] {
				t.Fatalf("asleep %v", w.asleep)
			}
			w.plan.Spec.Targets = w.plan.Spec.Targets[1:]
			if w.settle(); !w.asleep["a"] || most != under(w.plan.Status.Executions) {
				t.Errorf("a was woken without room: %v", w.asleep)
			}
			for _, target := range []string{"c", "d"} {
				delete(slow, target)
				for range 20 {
					w.pass(-1)
					if n := under(w.plan.Status.Executions); n > most {
						t.Fatalf("%d at a time", n)
					}
				}
				w.settle()
			}
			if w.asleep["a"] || !w.asleep["f"] {
				t.Errorf("asleep %v", w.asleep)
			}
		})
	}
}

// It is the first that there is room for, and one that is put back before that sleeps on.
func TestTakenOutIsNext(t *testing.T) {
	for name, putBack := range map[string]bool{"taken out": false, "and put back": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newPlan(v1alpha1.StrategySequential, 6))
			slow := true
			w.hangs = func(e execution) bool { return slow && e.Target == "c" && e.Operation == v1alpha1.OperationShutdown }
			w.until(noon.Add(8*time.Hour + 5*time.Second))
			targets := w.plan.Spec.Targets
			w.plan.Spec.Targets = targets[1:]
			w.settle()
			if putBack {
				w.plan.Spec.Targets = targets
				w.settle()
			}
			slow = false
			for w.asleep["a"] != putBack || !w.asleep["f"] {
				w.pass(-1)
				w.end()
				if w.asleep["d"] && w.asleep["a"] != putBack || w.now.After(noon.Add(9*time.Hour)) {
					t.Fatalf("asleep %v", w.asleep)
				}
				w.now = w.now.Add(time.Second)
			}
		})
	}
}

// One that is suspended while a target wakes that was taken out begins nothing: what runs is not what the phase is about.
func TestTakenOutOfASuspendedPlan(t *testing.T) {
	w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 3))
	w.until(noon.Add(9 * time.Hour))
	w.plan.Spec.Targets = w.plan.Spec.Targets[:2]
	for range 5 {
		w.pass(-1)
	}
	if e := w.entry("c"); !running(e) {
		t.Fatalf("c is %s", e.State)
	}
	w.plan.Spec.Suspend = true
	w.pass(-1)
	if running := running(w.entry("c")); !running || w.plan.Status.Phase != v1alpha1.PhaseSuspended {
		t.Errorf("c is running: %t, and the phase %s", running, w.plan.Status.Phase)
	}
	w.settle()
	if w.asleep["c"] || len(w.asleep) == 0 || w.plan.Status.Phase != v1alpha1.PhaseSuspended {
		t.Errorf("%s, asleep %v", w.plan.Status.Phase, w.asleep)
	}
}

// A target that was taken out, and whose runner hangs, keeps nothing else from waking in the morning: it is waking already.
func TestTakenOutHangsInTheMorning(t *testing.T) {
	w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 3))
	w.plan.Spec.Execution.Strategy.MaxConcurrency = nil
	w.until(noon.Add(9 * time.Hour))
	w.hangs = func(e execution) bool { return e.Target == "c" && e.Operation == v1alpha1.OperationWakeUp }
	w.plan.Spec.Targets = w.plan.Spec.Targets[:2]
	w.until(noon.Add(10 * time.Hour))
	c := w.entry("c")
	job := c.JobRef
	if !running(c) || w.asleep["c"] != true {
		t.Fatalf("%+v", c)
	}
	w.until(noon.Add(18 * time.Hour))
	if len(w.asleep) != 1 || w.plan.Status.Phase != v1alpha1.PhaseWakingUp {
		t.Errorf("in the morning it is %s, asleep %v", w.plan.Status.Phase, w.asleep)
	}
	if c = w.entry("c"); !running(c) || c.JobRef != job || c.Attempts != 1 {
		t.Errorf("%+v", c)
	}
	w.hangs = nil
	w.settle()
	w.awake()
}

// One that was taken out since it cannot wake keeps no others waiting while it is tried again either, which may take until its deadline.
func TestNeverWakesAndHangs(t *testing.T) {
	w := newWorld(t, newPlan(v1alpha1.StrategySequential, 4))
	w.until(noon.Add(9 * time.Hour))
	ofD := func(e execution) bool { return e.Target == "d" && e.Operation == v1alpha1.OperationWakeUp }
	w.fails, w.hangs = ofD, func(e execution) bool { return ofD(e) && e.Attempts > defaultRetries+1 }
	w.until(noon.Add(20 * time.Hour))
	if d := w.entry("d"); !running(d) || len(w.asleep) != 4 {
		t.Fatalf("%+v, asleep %v", d, w.asleep)
	}
	w.plan.Spec.Targets = w.plan.Spec.Targets[:3]
	w.settle()
	if len(w.asleep) != 1 || w.plan.Status.Phase != v1alpha1.PhaseError {
		t.Errorf("%s, asleep %v", w.plan.Status.Phase, w.asleep)
	}
	w.fails, w.hangs = func(execution) bool { return false }, nil
	w.until(noon.Add(21 * time.Hour))
	w.awake()
}

// Where all targets have others in their places, as when they were renamed, nothing of the cycle is asleep, and it is over: what is in
// the plan by then sleeps by another, and nobody is told that it does while everything is awake.
func TestAllAreReplaced(t *testing.T) {
	for _, strategy := range strategies {
		for name, at := range map[string]time.Duration{"while they sleep": 9 * time.Hour, "before they do": 8 * time.Hour} {
			t.Run(string(strategy)+", "+name, func(t *testing.T) {
				w := newWorld(t, newPlan(strategy, 3))
				if w.now = noon.Add(at); at == 8*time.Hour {
					w.pass(-1)
				} else {
					w.settle()
				}
				edited := newPlan(v1alpha1.StrategyParallel, 3)
				for i := range edited.Spec.Targets {
					edited.Spec.Targets[i].Name += "-renamed"
				}
				w.plan.Spec.Targets, w.plan.Spec.Execution = edited.Spec.Targets, edited.Spec.Execution
				w.settle()
				if len(w.asleep) != 3 || !w.asleep["a-renamed"] || w.plan.Status.Phase != v1alpha1.PhaseHibernated {
					c := w.condition(v1alpha1.ConditionHibernated)
					t.Errorf("%s, asleep %v, Hibernated %s: %s", w.plan.Status.Phase, w.asleep, c.Status, c.Message)
				}
				w.until(noon.Add(18 * time.Hour))
				w.awake()
			})
		}
	}
}

// A clock that is set back, as of a node that had another one, keeps nothing from being tried again.
func TestClockSetBack(t *testing.T) {
	for _, operation := range []v1alpha1.Operation{v1alpha1.OperationShutdown, v1alpha1.OperationWakeUp} {
		w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 2))
		w.plan.Spec.Behavior.Retries = ptr.To[int32](10)
		w.plan.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideHibernated}
		if operation == v1alpha1.OperationWakeUp {
			w.settle()
			w.plan.Spec.Override.State = v1alpha1.OverrideAwake
		}
		w.fails = func(e execution) bool { return e.Target == "b" && e.Operation == operation }
		w.until(noon.Add(5 * time.Second))
		if b := w.entry("b"); !failing(b) {
			t.Fatalf("%s: %+v", operation, b)
		}
		w.fails = func(execution) bool { return false }
		w.now = w.now.Add(-30 * 24 * time.Hour)
		w.until(w.now.Add(lastRetry))
		if b := w.entry("b"); failing(b) || b.State != v1alpha1.ExecutionCompleted {
			t.Errorf("%s: %+v", operation, b)
		}
	}
}

// While nothing begins, what is to wake is not put to sleep again either, because one of its cycle cannot wake until the evening.
func TestNothingBeginsAgain(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.HibernatePlanSpec){
		"only tried": func(s *v1alpha1.HibernatePlanSpec) { s.DryRun = true },
		"refused": func(s *v1alpha1.HibernatePlanSpec) {
			s.Targets[0].Parameters = &apiextensionsv1.JSON{Raw: []byte(`{"bad": 1}`)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 3))
			w.until(noon.Add(9 * time.Hour))
			w.fails = func(e execution) bool { return e.Target == "b" && e.Operation == v1alpha1.OperationWakeUp }
			w.until(noon.Add(19 * time.Hour))
			w.plan.Spec.Targets = slices.Clone(w.plan.Spec.Targets)
			change(&w.plan.Spec)
			w.until(noon.Add(33 * time.Hour))
			if len(w.asleep) != 1 || !w.asleep["b"] {
				t.Errorf("in the next night %v are asleep", w.asleep)
			}
			w.fails = func(execution) bool { return false }
			w.until(noon.Add(34 * time.Hour))
			w.awake()
		})
	}
}

// One that takes until its deadline to find out that it does not wake is tried again after those that have not been tried: they are as
// urgent, and wake as soon as it has failed once.
func TestFailsSlowly(t *testing.T) {
	plan := newPlan(v1alpha1.StrategyParallel, 4)
	plan.Spec.Execution.Strategy.MaxConcurrency = ptr.To[int32](1)
	w := newWorld(t, plan)
	w.until(noon.Add(9 * time.Hour))
	w.plan.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideAwake}
	ofD := func(e execution) bool { return e.Target == "d" && e.Operation == v1alpha1.OperationWakeUp }
	w.fails = ofD
	w.hangs = func(e execution) bool {
		long := time.Minute
		if ofD(e) {
			long = 30 * time.Minute
		}
		return w.now.Sub(e.StartedAt.Time) < long
	}
	for range 34 { // of the first try at d, and of the others
		w.settle()
		w.now = w.now.Add(time.Minute)
	}
	if w.settle(); len(w.asleep) != 1 {
		t.Errorf("asleep %v\n%s", w.asleep, strings.Join(w.log, "\n"))
	}
	w.fails, w.hangs = func(execution) bool { return false }, nil
	w.until(w.now.Add(lastRetry))
	w.awake()
}

// Targets that cannot wake, and take until their deadlines to find that out, are due again by turns: what has not been tried goes first,
// or would sleep for ever.
func TestSomeNeverWake(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.HibernatePlanSpec){
		"best effort, one by one": func(s *v1alpha1.HibernatePlanSpec) { s.Behavior.Mode = v1alpha1.BehaviorBestEffort },
		"strict, so many at a time": func(s *v1alpha1.HibernatePlanSpec) {
			s.Execution.Strategy = v1alpha1.Strategy{Type: v1alpha1.StrategyParallel, MaxConcurrency: ptr.To[int32](1)}
		},
		"without dependencies": func(s *v1alpha1.HibernatePlanSpec) {
			s.Execution.Strategy = v1alpha1.Strategy{Type: v1alpha1.StrategyDAG, MaxConcurrency: ptr.To[int32](1)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newPlan(v1alpha1.StrategySequential, 5))
			w.plan.Spec.Behavior.Retries = ptr.To[int32](0)
			change(&w.plan.Spec)
			w.until(noon.Add(9 * time.Hour))
			w.plan.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideAwake}
			ofCDE := func(e execution) bool { return e.Target > "b" && e.Operation == v1alpha1.OperationWakeUp }
			w.fails = ofCDE
			w.hangs = func(e execution) bool { return ofCDE(e) && w.now.Sub(e.StartedAt.Time) < 30*time.Minute }
			for range 72 {
				w.settle()
				w.now = w.now.Add(5 * time.Minute)
			}
			if len(w.asleep) != 3 || !w.asleep["c"] || !w.asleep["d"] || !w.asleep["e"] {
				t.Errorf("after six hours %v are asleep", w.asleep)
			}
			for _, target := range []string{"c", "d", "e"} {
				if e := w.entry(target); e.Attempts < 3 {
					t.Errorf("%s is tried %d times", target, e.Attempts)
				}
			}
			w.fails, w.hangs = func(execution) bool { return false }, nil
			w.until(w.now.Add(lastRetry))
			w.awake()
		})
	}
}
