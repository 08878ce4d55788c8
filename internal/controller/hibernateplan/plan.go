package hibernateplan

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/internal/schedule"
)

const (
	// perPass is how many Jobs a pass makes, and how many it clears away: each is a handful of requests.
	perPass = 10
	// atOnce is when to look again after what is intended was recorded.
	atOnce = time.Millisecond
	// longest is how long a plan is not looked at: a wait of days is one of a clock that may be set meanwhile.
	longest = time.Hour
	// defaultDeadline is how long a deleted plan waits for its targets to wake.
	defaultDeadline = time.Hour
)

// Observed is what a pass has read.
type Observed struct {
	// Exceptions of the plan.
	Exceptions []v1alpha1.ScheduleException
	// Cycle is the plan as the current cycle began with it; nil if there is none, or it is lost.
	Cycle *resolved
	// Jobs that there are, by their names.
	Jobs map[string]bool
	// Ending are those that were told to end, and have not.
	Ending map[string]bool
	// Outcomes of attempts that have ended, by the names of their Jobs.
	Outcomes map[string]outcome
	// Held are the attempts whose Jobs are gone and whose pods are not, by the names of their Jobs.
	Held map[string]bool
	// Left are targets that a plan of this name has left asleep, by their names: only looked for between cycles.
	Left map[string]v1alpha1.Target
	// Unread are the restore points among theirs that cannot be read, as namespace/name.
	Unread []string
	// LeftIn are the namespaces of the manager's own cluster that they are asleep in, by their names.
	LeftIn map[string][]string
	// Lost is which part of the ledger is not there any more; nil if none is. Nothing is done then.
	Lost *problem
	// Problem is why the targets of the spec, and those that were left asleep, cannot be reached; nil if they can.
	Problem *problem
	// Stops is when a runner that was told to stop, or should start, has had the time for it; 0 is never.
	Stops time.Duration
	// Late are the targets whose runners should have started.
	Late []late
	// Looked are the attempts that were looked at, by the names of their Jobs: a pass looks at so many.
	Looked map[string]bool
	// Namespaces of the targets, by their names.
	Namespaces map[string][]string
	// Unreached are targets of which that is not known, as something could not be read.
	Unreached map[string]bool
	// Unwatched: one cannot be reached by a connector of which nobody tells what becomes of it.
	Unwatched bool
	// Credentials says which targets of the cycle, or before it of the spec, are reached by credentials of a connector.
	Credentials map[string]bool
	// Renewed are targets the connectors of which are better than when their last attempts have failed.
	Renewed map[string]bool
}

// leftAny says whether a plan of this name has left anything asleep, wherever that can be told of.
func (o *Observed) leftAny() bool { return len(o.Left)+len(o.Unread) > 0 }

// problem is what is in the way of starting anything.
type problem struct {
	reason, message string
	// ofTarget: of one target alone, which its attempts will tell of.
	ofTarget bool
}

func (p *problem) Error() string { return p.message }

// facts are what a plan is made of.
type facts struct {
	plan      *v1alpha1.HibernatePlan
	seen      Observed
	registry  executor.Registry
	namespace string
	now       time.Time
	// all are the exceptions, of which those of Observed count from now on.
	all []v1alpha1.ScheduleException
	// room lets some of so many attempts begin beside those that are under way; nil lets all.
	room func(runs, would int) int
}

// Plan is what a pass does.
type Plan struct {
	// Status as it is to be, but for its conditions.
	Status v1alpha1.HibernatePlanStatus
	// Desired is what is wanted, and Known whether that can be told.
	Desired desire
	Known   bool
	// Problem of the spec, or of what it needs.
	Problem *problem
	// Begin is the revision that is made before the cycle of Status is recorded.
	Begin *resolved
	// Turns: Status records that an operation begins.
	Turns bool
	// Launch are recorded attempts whose Jobs are to be made, by their positions; Clear those that have ended and whose
	// helpers are to go; Release the restore points of targets that are awake.
	Launch, Clear, Release []int
	// Stop are those whose Jobs are to go, because they put to sleep what is to be awake, and do not come to their end; Stopped
	// those of them of which they are gone.
	Stop, Stopped []int
	// Littered are the errors of what is left of attempts, because it is not let go.
	Littered []string
	// Began are the names of the Jobs of attempts that Status records first.
	Began []string
	// Forget is the cycle whose revision is to go; 0 is none.
	Forget int64
	// Acted are the annotations that were acted on, and Void those that do not count.
	Acted, Void []string
	// Waits is how many attempts would begin if there were room for them.
	Waits int
	// Failed are the attempts that have failed, for Events: the target, and the message.
	Failed []problem
	// Idle: nothing runs, and nothing is to be started.
	Idle bool
	// Leaves: the plan goes, and its targets stay as they are. GivenUp says that some sleep. Overdue: its deadline is over, and nothing
	// of it runs; it goes also where what is left of its attempts cannot be cleared away, which nobody needs any more.
	Leaves, GivenUp, Overdue bool
	// Wait is when to look again; 0 is when something changes. Done is that nothing is left to do for a deleted plan.
	Wait time.Duration
	Done bool

	program *program
}

func (p *Plan) lookIn(d time.Duration) { p.Wait = kube.Sooner(p.Wait, max(d, atOnce)) }

// decide is the plan of a pass.
func (f facts) decide() Plan {
	plan := f.plan.DeepCopy()
	p := Plan{Problem: f.seen.Problem}
	current, err := f.current(plan)
	if err != nil {
		p.Problem = &problem{reason: v1alpha1.ReasonInvalid, message: oneLine(err)}
	}
	st := &plan.Status
	if f.seen.Lost != nil {
		f.lost(&p, plan)
		return p
	}
	p.program = f.ofCycle(plan, current)
	f.fold(&p, st)
	f.renew(st)
	var more int
	f.all = f.seen.Exceptions
	f.seen.Exceptions, more = counting(f.all, f.now)
	f.crowded(&p, plan, more)
	f.want(&p, plan)
	f.going(&p, plan)
	f.effects(&p, plan, current)
	f.advance(&p, plan, current)
	if len(f.seen.Unread) > 0 && p.Problem == nil { // which keeps nothing from beginning
		p.Problem = ofNoTarget(f.seen.Unread[0])
	}
	if plan.DeletionTimestamp != nil && st.CurrentCycle == nil && p.Forget == 0 && !p.GivenUp && !f.seen.leftAny() {
		p.Done = true
	}
	if p.Known && !p.Desired.until.IsZero() {
		p.lookIn(p.Desired.until.Sub(f.now))
	}
	if f.seen.Stops > 0 {
		p.lookIn(f.seen.Stops)
	}
	if len(f.seen.Unreached) > 0 { // nobody tells when it can be read
		p.lookIn(f.unread())
	}
	if f.seen.Unwatched {
		p.lookIn(time.Minute)
	}
	p.lookIn(longest)
	p.Status = *st
	p.Turns = turns(f.plan.Status.CurrentCycle, st.CurrentCycle)
	return p
}

// current is the program of what a plan comes to, if it can be read, and why nothing begins with it.
func (f facts) current(plan *v1alpha1.HibernatePlan) (*program, error) {
	r := current(plan, f.seen.Left)
	if plan.DeletionTimestamp != nil { // which wakes what was left asleep, whatever the spec is worth
		return recompile(r, f.registry)
	}
	p, err := compile(r, f.registry)
	if err != nil {
		p, _ = recompile(r, f.registry)
	}
	return p, errors.Join(err, startable(plan.Spec))
}

// ofNoTarget is the problem of a restore point that does not say what it is of.
func ofNoTarget(point string) *problem {
	return &problem{reason: v1alpha1.ReasonInvalid, message: fmt.Sprintf(
		"ConfigMap %s, a restore point, does not say of which target it is; put its %s back, or delete it if what it tells of is awake", point, keyTarget)}
}

// unread is when to look again at what a target cannot be reached without, and could not be read: as after an error.
func (f facts) unread() time.Duration {
	since := f.now
	if c := find(f.plan.Status.Conditions, v1alpha1.ConditionScheduled); c != nil && c.Reason == kube.ReasonReconcileError {
		since = c.LastTransitionTime.Time
	}
	return kube.Again(f.now.Sub(since), time.Second)
}

// turns says whether another operation goes on after a pass than before it.
func turns(before, after *v1alpha1.Cycle) bool {
	return after != nil && (before == nil || before.ID != after.ID || before.Turn != after.Turn)
}

// lost is the plan of a pass that does not have the whole ledger: what sleeps stays so, and the plan goes when it leaves
// that asleep anyway.
func (f facts) lost(p *Plan, plan *v1alpha1.HibernatePlan) {
	p.Problem = f.seen.Lost
	f.going(p, plan)
	p.GivenUp, p.Done = p.Leaves, p.Leaves
	p.lookIn(time.Minute) // somebody may put it back
	p.Status = plan.Status
}

// launchable takes in that the Job of a recorded attempt is to be made, if it was not and its pods have ended. One that is
// not wanted any more is taken back.
func (f facts) launchable(p *Plan, plan *v1alpha1.HibernatePlan, current *program, position int, job string) {
	_, ended := f.seen.Outcomes[job]
	switch {
	case ended || f.seen.Jobs[job] || !f.seen.Looked[job] || p.Leaves:
	case f.seen.Held[job]:
		p.lookIn(5 * time.Second)
	case f.unwanted(p, plan, current, &plan.Status.Executions[position]):
		takeBack(&plan.Status.Executions[position], f.now)
		p.lookIn(atOnce)
	case p.program != nil && len(p.Launch) < perPass:
		p.Launch = append(p.Launch, position)
	}
}

// stoppable takes in that a runner is to stop that keeps its target, and mostly all others, from waking, and has had a minute: it may
// hang, as long as it may run. What it has put to sleep by then is known, and woken. That it was stopped counts as no failure.
func (f facts) stoppable(p *Plan, plan *v1alpha1.HibernatePlan, current *program, position int, job string) {
	e := &plan.Status.Executions[position]
	if !running(e) || !f.seen.Jobs[job] || f.seen.Ending[job] || p.Leaves || e.Operation != v1alpha1.OperationShutdown ||
		standsStill(plan) || !f.unwanted(p, plan, current, e) {
		return
	}
	switch left := f.young(e); {
	case left > 0:
		p.lookIn(left)
	case !f.plan.Status.Executions[position].Kept: // this pass records that there is a restore point, for whoever comes after us
		p.lookIn(atOnce)
	default:
		e.Forgiven = e.Attempts
		p.Stop = append(p.Stop, position)
		p.lookIn(5 * time.Second) // when its pod may have ended
	}
}

// young is how long it takes until an attempt has had its first minute. One that has begun later than now has had it: a clock was set back.
func (f facts) young(e *execution) time.Duration {
	left := e.StartedAt.Add(keptAfter).Sub(f.now)
	if left > keptAfter {
		return 0
	}
	return max(0, left)
}

// standsStill says whether a plan is suspended, and nothing of it begins.
func standsStill(plan *v1alpha1.HibernatePlan) bool {
	return plan.Spec.Suspend && plan.DeletionTimestamp == nil
}

// unwanted says whether what an attempt was recorded for is not wanted any more: whoever has recorded it was down since, or
// its Job was deleted. What was taken out of the plan wakes whatever the others are to do.
func (f facts) unwanted(p *Plan, plan *v1alpha1.HibernatePlan, current *program, e *execution) bool {
	c := plan.Status.CurrentCycle
	out := e.Operation == v1alpha1.OperationShutdown && f.removed(e, current)
	return c != nil && (standsStill(plan) || out || p.Known && e.Operation == c.Operation && p.turns(plan))
}

// turns says whether the current cycle is to do the other thing now. Where none could begin, because the spec is refused, or only
// tried, or exceptions do not count, one of which may be a suspension, what is to wake is not put to sleep again either.
func (p *Plan) turns(plan *v1alpha1.HibernatePlan) bool {
	begins := !plan.Spec.DryRun && (p.Problem == nil || p.Problem.ofTarget)
	want := operation(p.Desired.asleep)
	return want != plan.Status.CurrentCycle.Operation && (begins || want == v1alpha1.OperationWakeUp)
}

// advance takes the plan on: what begins, goes on or ends.
func (f facts) advance(p *Plan, plan *v1alpha1.HibernatePlan, current *program) {
	st := &plan.Status
	over := !anyOf(st.Executions, f.unfinished)
	switch {
	case p.Leaves:
		f.leave(p, st)
	case st.CurrentCycle == nil && p.startable(plan, current):
		f.beginCycle(p, plan, current)
	case st.CurrentCycle != nil && f.seen.Cycle == nil && over:
		f.endCycle(p, st) // it had ended, and its revision is gone
	case st.CurrentCycle != nil && p.program != nil:
		if f.seen.Cycle == nil {
			p.Begin = &p.program.resolved // somebody has deleted it, or it is another plan's
			for i := range st.Executions {
				st.Executions[i].RestoreChecksum = "" // the status may be older than what there is
			}
			st.CurrentCycle.PlanRevision = names{namespace: f.namespace, plan: plan}.revision(st.CurrentCycle.ID).Name
		}
		f.carryOn(p, plan, current)
	case st.CurrentCycle != nil:
		p.Problem = &problem{reason: v1alpha1.ReasonCycleLost, message: "ControllerRevision " + f.namespace + "/" + st.CurrentCycle.PlanRevision +
			" is gone, and spec.targets are not those that sleep; put them back into the spec, as status.executions lists them, to have them woken"}
	}
}

// oneLine is an error as a condition says it.
func oneLine(err error) string {
	all := kube.Errors(err)
	lines := make([]string, 0, len(all))
	for _, e := range all {
		lines = append(lines, e.Error())
	}
	if n := len(lines); n > 5 {
		lines = append(lines[:5], fmt.Sprintf("and %d more", n-5))
	}
	return strings.Join(lines, "; ")
}

// table is a schedule with the exceptions that count with it: one that is no good does not stop the plan.
func (f facts) table(of v1alpha1.Schedule, skips []v1alpha1.Span) (*schedule.Schedule, error) {
	skips = f.widened(of, skips)
	table, err := timetable(of, f.seen.Exceptions, skips)
	var invalid schedule.InvalidErrors
	if errors.As(err, &invalid) && len(f.seen.Exceptions) > 0 {
		return timetable(of, f.usable(of), skips)
	}
	return table, err
}

// want says what is wanted now, and when else. Without a schedule that can be read nothing is, and everything stays as
// it is.
func (f facts) want(p *Plan, plan *v1alpha1.HibernatePlan) {
	st := &plan.Status
	table, of := f.timetable(p, plan)
	st.Skips = f.unpassed(of, st.Skips)
	p.Acted, p.Void = acknowledge(plan, table, f.now)
	if table == nil {
		st.NextTransition, st.Upcoming = nil, nil
		p.Desired, p.Known = insisted(plan, f.now)
		return
	}
	if slices.Contains(p.Acted, "skip-next") {
		if again, err := f.table(of, st.Skips); err == nil {
			table = again
		}
	}
	p.Desired, p.Known = desired(plan, table, f.now), true
	st.NextTransition, st.Upcoming = nil, nil
	if plan.DeletionTimestamp == nil && !plan.Spec.Suspend {
		st.Upcoming = upcoming(plan, table, p.Desired, f.now)
		st.NextTransition = next(plan, table, p.Desired, st.Upcoming)
	}
}

// widened are off-hours that skip-next has taken out, as they are by now: those of a schedule that was edited since may begin sooner, or
// end later. What exceptions make of a night stays as it was.
func (f facts) widened(of v1alpha1.Schedule, skips []v1alpha1.Span) []v1alpha1.Span {
	if len(skips) == 0 {
		return nil
	}
	table, err := timetable(of, nil, nil)
	if err != nil {
		return skips
	}
	out := slices.Clone(skips)
	for i := range out {
		from, until := &out[i].From, &out[i].Until
		for _, now := range table.Intervals(from.Time, until.Add(1-time.Second)) { // whole seconds may say what is after it
			if now.Start.IsZero() || now.End.IsZero() || f.excepted(now) {
				continue
			}
			if now.Start.Before(from.Time) {
				*from = metav1.NewTime(now.Start)
			}
			if now.End.After(until.Time) {
				*until = metav1.NewTime(now.End)
			}
		}
	}
	return out
}

// excepted says whether exceptions take something of off-hours out.
func (f facts) excepted(i schedule.Interval) bool {
	return slices.ContainsFunc(f.all, func(e v1alpha1.ScheduleException) bool {
		return e.Spec.Type != v1alpha1.ExceptionExtend && e.Spec.ValidFrom.Time.Before(i.End) && e.Spec.ValidUntil.After(i.Start)
	})
}

// unpassed are those of some skips that are not over.
func (f facts) unpassed(of v1alpha1.Schedule, skips []v1alpha1.Span) (out []v1alpha1.Span) {
	for i, now := range f.widened(of, skips) {
		if f.now.Before(now.Until.Time) {
			out = append(out, skips[i])
		}
	}
	return out
}

// crowded sees whether a plan has more exceptions than count, and how many: nothing begins then, because what does not count may be why.
func (f facts) crowded(p *Plan, plan *v1alpha1.HibernatePlan, more int) {
	if more > 0 && plan.DeletionTimestamp == nil && (p.Problem == nil || p.Problem.ofTarget) {
		p.Problem = tooMany(more)
	}
}

// tooMany is the problem of a plan that has some exceptions more than count.
func tooMany(more int) *problem {
	return &problem{reason: v1alpha1.ReasonTooManyExceptions, message: fmt.Sprintf(
		"%d ScheduleExceptions of the plan have not passed, and at most %d count: suspensions before others, and those that begin first; "+
			"delete some, or give them more windows instead. Until then nothing begins", maxExceptions+more, maxExceptions)}
}

// timetable is the schedule that counts: that of the spec, or where it cannot be read the one with which the cycle began,
// so that what sleeps wakes; nil for none.
func (f facts) timetable(p *Plan, plan *v1alpha1.HibernatePlan) (*schedule.Schedule, v1alpha1.Schedule) {
	table, err := f.table(plan.Spec.Schedule, plan.Status.Skips)
	if err == nil || plan.DeletionTimestamp != nil { // which wakes by no schedule
		return table, plan.Spec.Schedule
	}
	message := err.Error()
	if p.Problem != nil && p.Problem.reason == v1alpha1.ReasonInvalid {
		message = p.Problem.message + "; " + message
	}
	defer func() { p.Problem = &problem{reason: v1alpha1.ReasonInvalid, message: message} }()
	if plan.Status.CurrentCycle == nil {
		return nil, v1alpha1.Schedule{}
	}
	if f.seen.Cycle != nil {
		if table, err := f.table(f.seen.Cycle.Schedule, plan.Status.Skips); err == nil {
			message += ". What sleeps goes by the schedule that it was put to sleep by"
			return table, f.seen.Cycle.Schedule
		}
	}
	message += ". What sleeps stays so until that is mended, or spec.override says Awake"
	return nil, v1alpha1.Schedule{}
}

// usable are the exceptions that can be used, each for itself, and suspensions that cannot as they count all the same.
func (f facts) usable(of v1alpha1.Schedule) (out []v1alpha1.ScheduleException) {
	for _, e := range f.seen.Exceptions {
		_, err := timetable(of, []v1alpha1.ScheduleException{e}, nil)
		counts := err == nil
		if !counts {
			e, counts = allTheTime(of, e)
		}
		if counts {
			out = append(out, e)
		}
	}
	return out
}

// allTheTime is a suspension that has a mistake as it counts until that is mended: for all of its time, because nothing may be put to sleep
// against one, and nobody knows when that is; false for others, which have something sleep.
func allTheTime(of v1alpha1.Schedule, e v1alpha1.ScheduleException) (v1alpha1.ScheduleException, bool) {
	e.Spec.Windows, e.Spec.LeadTime = nil, nil
	_, err := timetable(of, []v1alpha1.ScheduleException{e}, nil)
	return e, err == nil && e.Spec.Type == v1alpha1.ExceptionSuspend
}

// ofCycle is the program that the current cycle goes by: as it began. Where that is lost it is that of the spec, if all
// that sleeps is in there.
func (f facts) ofCycle(plan *v1alpha1.HibernatePlan, current *program) *program {
	if plan.Status.CurrentCycle == nil {
		return nil
	}
	if f.seen.Cycle != nil {
		if p, err := recompile(*f.seen.Cycle, f.registry); err == nil && p.covers(plan.Status.Executions) {
			return p
		}
	}
	if current != nil && current.covers(plan.Status.Executions) {
		return current
	}
	return nil
}

// covers says whether the entries of a ledger are the targets, in their order, and of their types.
func (p *program) covers(entries []execution) bool {
	return slices.EqualFunc(p.Targets, entries, func(t v1alpha1.Target, e execution) bool { return t.Name == e.Target && t.Type == e.Executor })
}

// retries is how often a target is tried again.
func (p *Plan) retries() int32 {
	if p.program == nil {
		return defaultRetries
	}
	return p.program.retries()
}

// failed says whether a target has failed, while it is tried again all the same, too: else all would be well by turns.
func (p *Plan) failed(e *execution) bool {
	return failed(e) || running(e) && e.Attempts-e.Forgiven > p.retries()+1
}

// fold takes in what came of the attempts that were recorded.
func (f facts) fold(p *Plan, st *v1alpha1.HibernatePlanStatus) {
	retries := p.retries()
	for i := range st.Executions {
		e := &st.Executions[i]
		o, ended := f.seen.Outcomes[name(e.JobRef)]
		if !running(e) || !ended {
			f.keep(p, e)
			continue
		}
		end(e, o, retries, f.now)
		p.lookIn(atOnce) // to clear away what it needed
		if stopped := o.interrupted && e.Forgiven == e.Attempts; e.State != v1alpha1.ExecutionCompleted && !stopped {
			p.Failed = append(p.Failed, failure(e))
		}
	}
}

// renew lets what has failed behind a connector be tried again at once, as often as at first, where that is better now.
func (f facts) renew(st *v1alpha1.HibernatePlanStatus) {
	for i := range st.Executions {
		if e := &st.Executions[i]; f.seen.Renewed[e.Target] && failed(e) {
			e.State, e.Forgiven = v1alpha1.ExecutionPending, e.Attempts
		}
	}
}

// keptAfter is how long a Job runs before it is recorded that there is a restore point. Sooner it is not worth a write.
const keptAfter = time.Minute

// keep records that the Job of a first attempt runs, which has a restore point: from then on one that is not there was lost, and
// what sleeps is never taken for what is to be brought back.
func (f facts) keep(p *Plan, e *execution) {
	if !running(e) || e.Kept || !f.seen.Jobs[name(e.JobRef)] {
		return
	}
	if left := f.young(e); left > 0 {
		p.lookIn(left)
		return
	}
	e.Kept = true
}

// failure is an attempt that has failed, as an Event tells of it.
func failure(e *execution) problem {
	return problem{reason: e.Target, message: fmt.Sprintf("Attempt %d at %s of target %s has failed: %s", e.Attempts, e.Operation, e.Target, e.Message)}
}

// name is that of a namespace/name.
func name(ref string) string {
	_, name, _ := strings.Cut(ref, "/")
	return name
}

// effects are what was recorded before this pass and is not done yet. Nothing is done that is only intended: what a
// manager does after it has ended must be known to the one that comes after it.
func (f facts) effects(p *Plan, plan *v1alpha1.HibernatePlan, current *program) {
	for i := range f.plan.Status.Executions {
		e := &f.plan.Status.Executions[i]
		job := name(e.JobRef)
		switch {
		case running(e):
			f.launchable(p, plan, current, i, job)
			f.stoppable(p, plan, current, i, job)
		case helped(e):
			p.Clear = append(p.Clear, i)
		case spent(e):
			p.Release = append(p.Release, i)
		}
	}
	p.Clear, p.Release, p.Stop = some(f.now, p.Clear), some(f.now, p.Release), some(f.now, p.Stop)
	if len(p.Launch)+len(p.Clear)+len(p.Release) > 0 {
		p.lookIn(atOnce)
	}
}

// some are those of some things that a pass is about, now these and now those: where there are many with which it fails, as what others
// do to their namespaces lasts, the rest has its turn all the same.
func some[T any](now time.Time, all []T) []T {
	if len(all) <= perPass {
		return all
	}
	from := rand.New(rand.NewPCG(uint64(now.UnixMilli()), 0)).IntN(len(all)) // passes may be a minute apart, or their number of seconds
	return slices.Concat(all[from:], all[:from])[:perPass]
}

// startable says whether a cycle may begin. A target that cannot be reached keeps no others awake with BestEffort, and never
// asleep.
func (p *Plan) startable(plan *v1alpha1.HibernatePlan, current *program) bool {
	goesOn := p.Problem == nil || p.Problem.ofTarget && (!p.Desired.asleep || plan.Spec.Behavior.Mode == v1alpha1.BehaviorBestEffort)
	return p.Known && current != nil && goesOn && (plan.DeletionTimestamp != nil || !plan.Spec.Suspend && !plan.Spec.DryRun)
}

// going sees whether a plan that is being deleted leaves its targets as they are: it was told to, or has waited for so
// long, from when a manager has first seen it. What is a manager's own outage is no reason to leave anything asleep.
func (f facts) going(p *Plan, plan *v1alpha1.HibernatePlan) {
	if plan.DeletionTimestamp == nil {
		return
	}
	if plan.Status.DeletingSince == nil {
		since := seconds(f.now)
		plan.Status.DeletingSince = &since
	}
	left := plan.Status.DeletingSince.Add(deadlineOf(plan)).Sub(f.now)
	if left > 0 {
		p.lookIn(left)
	}
	p.Leaves = left <= 0 || plan.Spec.DeletionPolicy == v1alpha1.DeletionLeave
	p.GivenUp, p.Overdue = left <= 0, left <= 0 && !anyOf(plan.Status.Executions, running)
}

// deadlineOf is how long a plan that is being deleted waits for its targets to wake.
func deadlineOf(plan *v1alpha1.HibernatePlan) time.Duration {
	if d := plan.Spec.Deletion; d != nil && d.Deadline != nil {
		return d.Deadline.Duration
	}
	return defaultDeadline
}

// leave lets what runs come to its end, clears away what is left of it, and lets the plan go. What was only to begin
// does not; and at the deadline nothing is waited for.
func (f facts) leave(p *Plan, st *v1alpha1.HibernatePlanStatus) {
	for i := range st.Executions {
		e := &st.Executions[i]
		job := name(e.JobRef)
		if running(e) && (p.GivenUp || f.seen.Looked[job] && !f.seen.Jobs[job] && !f.seen.Held[job]) {
			e.State = v1alpha1.ExecutionAborted
			p.lookIn(atOnce)
		}
	}
	if anyOf(st.Executions, func(e *execution) bool { return busy(e) || spent(e) }) {
		p.GivenUp = false
		return
	}
	p.GivenUp, p.Done = anyOf(st.Executions, asleep) || st.CurrentCycle == nil && f.seen.leftAny(), true
	if st.CurrentCycle != nil {
		p.Forget = st.CurrentCycle.ID
	}
}

// beginCycle begins a cycle if the targets are to sleep, or some were left asleep by a plan of this name.
func (f facts) beginCycle(p *Plan, plan *v1alpha1.HibernatePlan, current *program) {
	if !p.Desired.asleep && len(f.seen.Left) == 0 {
		p.Idle = true
		return
	}
	r, program := current.resolved, current
	if len(f.seen.Left) > 0 {
		r = adopt(r, f.seen.Left)
		compiled, err := recompile(r, f.registry) // what is not left asleep was read
		if err != nil {
			p.Problem = &problem{reason: v1alpha1.ReasonInvalid, message: "with the targets that were left asleep: " + oneLine(err)}
			return
		}
		program = compiled
	}
	if err := r.fits(); err != nil {
		p.Problem = &problem{reason: v1alpha1.ReasonInvalid, message: oneLine(err)}
		return
	}
	st := &plan.Status
	st.Cycles++
	st.CurrentCycle = &v1alpha1.Cycle{ID: st.Cycles, StartedAt: seconds(f.now)}
	st.CurrentCycle.PlanRevision = names{namespace: f.namespace, plan: plan}.revision(st.Cycles).Name
	st.Executions = make([]execution, len(r.Targets))
	for i, t := range r.Targets {
		_, left := f.seen.Left[t.Name]
		st.Executions[i] = execution{Target: t.Name, Executor: t.Type, State: v1alpha1.ExecutionPending, Asleep: left, Kept: left}
		if left {
			at := names{namespace: f.namespace, plan: plan}.point(t.Name).String()
			st.Executions[i].RestoreConfigMapRef, st.Executions[i].RestoreRef = at, configMapScheme+at
			st.Executions[i].Namespaces = slices.Clone(f.seen.LeftIn[t.Name])
		}
	}
	p.Begin, p.program = &r, program
	f.turn(st, operation(p.Desired.asleep))
	f.intend(p, plan, current, st.CurrentCycle.Operation, every)
}

func operation(asleep bool) v1alpha1.Operation {
	if asleep {
		return v1alpha1.OperationShutdown
	}
	return v1alpha1.OperationWakeUp
}

// adopt takes targets into a plan that a plan of its name has left asleep, as they were put to sleep.
func adopt(r resolved, left map[string]v1alpha1.Target) resolved {
	r.Targets = slices.Clone(r.Targets)
	known := map[string]bool{}
	for i, t := range r.Targets {
		known[t.Name] = true
		if was, ok := left[t.Name]; ok {
			r.Targets[i] = was
		}
	}
	var more []string
	for name := range left {
		if !known[name] {
			more = append(more, name)
		}
	}
	slices.Sort(more)
	for _, name := range more {
		r.Targets = append(r.Targets, left[name])
	}
	if r.Execution.Strategy.Type == v1alpha1.StrategyStaged && len(more) > 0 {
		stages := r.Execution.Strategy.Stages
		r.Execution.Strategy.Stages = append(slices.Clone(stages), v1alpha1.Stage{Name: freeName(stages), Parallel: true, Targets: more})
	}
	return r
}

// freeName is one for a stage that none of some has: whoever writes a plan may call his as he likes.
func freeName(stages []v1alpha1.Stage) string {
	const usual = "left-asleep"
	name := usual
	for n := 2; slices.ContainsFunc(stages, func(s v1alpha1.Stage) bool { return s.Name == name }); n++ {
		name = fmt.Sprintf("%s-%d", usual, n)
	}
	return name
}

// turn begins an operation of the current cycle.
func (f facts) turn(st *v1alpha1.HibernatePlanStatus, operation v1alpha1.Operation) {
	c := st.CurrentCycle
	c.Operation, c.Turn, c.OperationStartedAt = operation, c.Turn+1, seconds(f.now)
	start(st.Executions, operation)
}

// carryOn takes the current cycle on.
func (f facts) carryOn(p *Plan, plan *v1alpha1.HibernatePlan, current *program) {
	st := &plan.Status
	c := st.CurrentCycle
	held := standsStill(plan)
	if p.Known && !held && p.turns(plan) {
		against := func(e *execution) bool { return running(e) && e.Operation == c.Operation }
		if anyOf(st.Executions, against) {
			return // it turns when that has ended, or was stopped; what was taken out of the plan wakes by then, or with the rest
		}
		f.turn(st, operation(p.Desired.asleep))
	}
	if held || !p.Known && c.Operation == v1alpha1.OperationShutdown {
		p.Idle = !anyOf(st.Executions, func(e *execution) bool { return running(e) || f.yetTo(e, c.Operation, current) })
		return
	}
	if c.Operation == v1alpha1.OperationShutdown { // before what falls asleep, which would take its room
		f.wakeRemoved(p, plan, current)
	}
	f.intend(p, plan, current, c.Operation, func(e *execution) bool {
		return c.Operation == v1alpha1.OperationWakeUp || !f.removed(e, current) && e.Operation != v1alpha1.OperationWakeUp
	})
	if f.over(p, st, current) {
		f.endCycle(p, st)
	}
}

// over says whether everything of a cycle is awake that was stopped, and nothing else of it is to be: it wakes, or nothing of it is in
// the plan any more, and what has taken its place sleeps by another.
func (f facts) over(p *Plan, st *v1alpha1.HibernatePlanStatus, current *program) bool {
	stays := func(e *execution) bool { return !f.removed(e, current) }
	wakes := st.CurrentCycle.Operation == v1alpha1.OperationWakeUp
	return !anyOf(st.Executions, f.unfinished) && (wakes || p.Idle && !anyOf(st.Executions, stays))
}

// unfinished says whether a target is still to wake, or something of it to be cleared away.
func (f facts) unfinished(e *execution) bool {
	return asleep(e) || busy(e) || e.RestoreConfigMapRef != ""
}

// yetTo says whether a target is still to begin an operation, or to be tried again.
func (f facts) yetTo(e *execution, operation v1alpha1.Operation, current *program) bool {
	return e.State == v1alpha1.ExecutionPending && e.Operation == operation && !f.removed(e, current)
}

// removed says whether a target is not in the plan any more.
func (f facts) removed(e *execution, current *program) bool {
	if current == nil {
		return false
	}
	_, there := current.positions[e.Target]
	return !there
}

// wakeRemoved wakes what sleeps and is not in the plan any more, also where that was put back before it was awake: by then
// some of it may be.
func (f facts) wakeRemoved(p *Plan, plan *v1alpha1.HibernatePlan, current *program) {
	st := &plan.Status
	gone := func(e *execution) bool {
		return e.Asleep && (f.removed(e, current) || e.Operation == v1alpha1.OperationWakeUp)
	}
	if !anyOf(st.Executions, gone) || p.room(st.Executions) == 0 { // one that waits for room may still be put back, and sleeps on
		return
	}
	for i := range st.Executions {
		if e := &st.Executions[i]; gone(e) && e.Operation == v1alpha1.OperationShutdown && !running(e) {
			again(e, v1alpha1.OperationWakeUp)
		}
	}
	f.intend(p, plan, current, v1alpha1.OperationWakeUp, gone)
}

// held says whether an attempt at a target cannot begin: what is left of the one before goes first, and what is recorded is what is made.
func (f facts) held(e *execution) bool { return helped(e) || spent(e) || f.seen.Unreached[e.Target] }

// intend records the attempts that are to begin. A target that cannot wake keeps no others asleep once it is taken out of
// the plan, or the plan has become one of BestEffort, or is deleted, which does not wait for ever: that strands nothing.
func (f facts) intend(p *Plan, plan *v1alpha1.HibernatePlan, current *program, operation v1alpha1.Operation, counts func(*execution) bool) {
	st := &plan.Status
	policy, spared := p.program.policy(), func(*execution) bool { return false }
	if operation == v1alpha1.OperationWakeUp {
		policy, spared = resolve(plan.Spec).policy(), func(e *execution) bool { return plan.DeletionTimestamp != nil || f.removed(e, current) }
	}
	step, wait := look(p.program.order, st.Executions, ask{operation: operation, policy: policy, counts: counts, spared: spared, failed: p.failed, held: f.held}, f.now)
	if wait > 0 {
		p.lookIn(wait)
	}
	n := names{namespace: f.namespace, plan: plan, cycle: st.CurrentCycle, secret: f.seen.Credentials, namespaces: f.seen.Namespaces}
	var begins []*execution
	for _, i := range step.Start {
		e := &st.Executions[i]
		if helped(e) || spent(e) {
			p.lookIn(atOnce)
			continue // what is left of the attempt before goes first
		}
		if f.seen.Unreached[e.Target] {
			p.lookIn(5 * time.Second)
			continue // what is recorded is what is made
		}
		begins = append(begins, e)
	}
	if st.CurrentCycle.Operation == v1alpha1.OperationShutdown { // and what was taken out wakes beside it
		begins = begins[:min(len(begins), p.room(st.Executions))]
	}
	if operation == v1alpha1.OperationShutdown { // what wakes waits for no room
		begins = f.roomFor(p, st, begins)
	}
	for _, e := range begins {
		e.Operation = operation
		begin(e, n, f.now)
		p.Began = append(p.Began, name(e.JobRef))
		p.lookIn(atOnce)
	}
	if step.Done {
		for _, i := range step.Blocked {
			if e := &st.Executions[i]; e.State == v1alpha1.ExecutionPending {
				e.State = v1alpha1.ExecutionAborted
			}
		}
	}
	p.Idle = step.Done
}

// room is how many attempts may begin by the strategy beside those under way, whichever operation they are of. One at what has failed as
// often as it may takes none: that could go on for ever.
func (p *Plan) room(entries []execution) int {
	most := p.program.atOnce()
	if most == 0 {
		return len(entries)
	}
	for i := range entries {
		if running(&entries[i]) && !p.failed(&entries[i]) {
			most--
		}
	}
	return max(0, most)
}

// roomFor are those of some attempts that there is room for, the first of them.
func (f facts) roomFor(p *Plan, st *v1alpha1.HibernatePlanStatus, begins []*execution) []*execution {
	if f.room == nil || len(begins) == 0 {
		return begins
	}
	n := f.room(under(st.Executions), len(begins))
	if n < len(begins) {
		p.Waits += len(begins) - n
		p.lookIn(roomAgain)
	}
	return begins[:n]
}

// endCycle ends a cycle of which everything is awake.
func (f facts) endCycle(p *Plan, st *v1alpha1.HibernatePlanStatus) {
	c := st.CurrentCycle
	summary := v1alpha1.CycleSummary{ID: c.ID, StartedAt: c.StartedAt, FinishedAt: seconds(f.now), Targets: int32(len(st.Executions))}
	summary.Message = cut(account(st.Executions))
	st.History = append([]v1alpha1.CycleSummary{summary}, st.History...)
	st.History = st.History[:min(len(st.History), history)]
	if st.Ledger != nil { // what is told of until the next cycle
		st.Executions = slices.DeleteFunc(st.Executions, func(e execution) bool { return e.Left == 0 })
		st.Executions = st.Executions[:min(len(st.Executions), perShard)]
	}
	p.Forget, st.CurrentCycle = c.ID, nil
	p.lookIn(atOnce) // there may be another
}

// account is what was not as it should be in a cycle that is over; empty if everything was.
func account(entries []execution) string {
	var skipped, unfinished, left []string
	for i := range entries {
		e := &entries[i]
		if e.Left > 0 {
			left = append(left, fmt.Sprintf("%s (%d of %d)", e.Target, e.Left, e.Resources))
		}
		switch {
		case e.ShutdownFailed:
			unfinished = append(unfinished, e.Target)
		case e.State == v1alpha1.ExecutionAborted && e.Operation == v1alpha1.OperationShutdown:
			skipped = append(skipped, e.Target)
		}
	}
	var out []string
	if len(left) > 0 {
		out = append(out, "Left as they were found: "+strings.Join(left, ", "))
	}
	if len(unfinished) > 0 {
		out = append(out, "Failed to be put to sleep: "+strings.Join(unfinished, ", "))
	}
	if len(skipped) > 0 {
		out = append(out, "Not put to sleep: "+strings.Join(skipped, ", "))
	}
	return strings.Join(out, ". ")
}
