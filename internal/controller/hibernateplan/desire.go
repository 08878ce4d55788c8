package hibernateplan

import (
	"cmp"
	"errors"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/schedule"
)

// desire is how the targets of a plan are to be, and until when.
type desire struct {
	asleep bool
	// until something else may be wanted; zero is never, or not within the horizon of a schedule.
	until time.Time
	// by is what wants it.
	by string
}

// The one who wants something.
const (
	bySchedule = "the schedule"
	byOverride = "spec.override"
	byManual   = "an annotation"
	byDeletion = "the deletion of the plan"
)

// maxSkips is how many off-hours can be skipped ahead. Who asks for another waits until the first of them is over.
const maxSkips = 16

// timetable is a schedule with its exceptions, and what skip-next has taken out. Errors: schedule.InvalidErrors, by the
// paths of a plan.
func timetable(of v1alpha1.Schedule, exceptions []v1alpha1.ScheduleException, skips []v1alpha1.Span) (*schedule.Schedule, error) {
	s := schedule.Spec{Timezone: of.Timezone, OffHours: windows(of.OffHours)}
	for _, e := range exceptions {
		s.Exceptions = append(s.Exceptions, exception(e))
	}
	for _, skipped := range skips {
		s.Exceptions = append(s.Exceptions, schedule.Exception{
			Name: "skip-next", Type: schedule.Suspend, From: skipped.From.Time, Until: skipped.Until.Time,
		})
	}
	table, err := schedule.New(s)
	var invalid schedule.InvalidErrors
	if errors.As(err, &invalid) {
		for _, mistake := range invalid {
			if mistake.Exception == "" {
				mistake.Path = "spec.schedule." + mistake.Path
			}
		}
	}
	return table, err
}

// maxExceptions is how many exceptions of a plan count: each costs every look at the schedule some.
const maxExceptions = 100

// ahead says which of two exceptions counts rather, as cmp.Compare does.
func ahead(a, b *v1alpha1.ScheduleException, now time.Time) int {
	rank := func(e *v1alpha1.ScheduleException) (n int) {
		if e.Spec.Type != v1alpha1.ExceptionSuspend {
			n = 1
		}
		if !e.Spec.ValidUntil.After(now) {
			n += 2
		}
		return n
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), a.Spec.ValidFrom.Compare(b.Spec.ValidFrom.Time), cmp.Compare(a.Name, b.Name))
}

// counting are the exceptions that a schedule goes by from now on, and how many more there are that have not passed. Of too many,
// suspensions go first, because nothing may be put to sleep against one, and then those that begin first; what has passed goes last.
func counting(all []v1alpha1.ScheduleException, now time.Time) (counting []v1alpha1.ScheduleException, more int) {
	// What began before is asked for as far back as a lead time goes.
	var lead time.Duration
	for _, e := range all {
		if l := e.Spec.LeadTime; l != nil && e.Spec.ValidUntil.After(now) {
			lead = min(max(lead, l.Duration), schedule.MaxLeadTime)
		}
	}
	counting = slices.DeleteFunc(slices.Clone(all), func(e v1alpha1.ScheduleException) bool { return e.Spec.ValidUntil.Time.Before(now.Add(-lead)) })
	if len(counting) <= maxExceptions {
		return counting, 0
	}
	for i := range counting {
		if counting[i].Spec.ValidUntil.After(now) {
			more++
		}
	}
	more = max(0, more-maxExceptions)
	slices.SortFunc(counting, func(a, b v1alpha1.ScheduleException) int { return ahead(&a, &b, now) })
	return counting[:maxExceptions], more
}

func exception(e v1alpha1.ScheduleException) schedule.Exception {
	out := schedule.Exception{
		Name: e.Name, Type: schedule.ExceptionType(e.Spec.Type), From: e.Spec.ValidFrom.Time, Until: e.Spec.ValidUntil.Time,
		Windows: windows(e.Spec.Windows),
	}
	if e.Spec.LeadTime != nil {
		out.LeadTime = e.Spec.LeadTime.Duration
	}
	return out
}

func windows(of []v1alpha1.OffHours) []schedule.Window {
	var out []schedule.Window
	for _, w := range of {
		window := schedule.Window{Start: w.Start, End: w.End, StartCron: w.StartCron, EndCron: w.EndCron}
		for _, day := range w.DaysOfWeek {
			window.Days = append(window.Days, string(day))
		}
		out = append(out, window)
	}
	return out
}

// desired is what is wanted now. It is a function of what is asked for and of the time alone: whoever was down acts on
// what should be now.
func desired(plan *v1alpha1.HibernatePlan, s *schedule.Schedule, now time.Time) desire {
	if d, ok := insisted(plan, now); ok {
		return d
	}
	state := s.At(now)
	return desire{asleep: state.Asleep, until: state.Next, by: bySchedule}
}

// insisted is what is wanted whatever the schedule says; false if nothing is.
func insisted(plan *v1alpha1.HibernatePlan, now time.Time) (desire, bool) {
	if plan.DeletionTimestamp != nil {
		return desire{by: byDeletion}, true
	}
	if o := plan.Spec.Override; o != nil {
		if d, ok := wanted(o.State, o.Until, byOverride, now); ok {
			return d, true
		}
	}
	if m := plan.Status.Manual; m != nil {
		return wanted(m.State, m.Until, byManual, now)
	}
	return desire{}, false
}

// hasEnded is what is said of an override that has ended: somebody may have meant another year. Empty where there is none.
func hasEnded(o *v1alpha1.Override, now time.Time) string {
	if o == nil || o.Until == nil || now.Before(o.Until.Time) {
		return ""
	}
	return "spec.override has ended (until " + o.Until.UTC().Format(time.RFC3339) + ") and does not count; take it out, or correct until"
}

// lastYear is the last that a status can tell of: what lasts longer lasts for ever.
const lastYear = 9999

func wanted(state v1alpha1.OverrideState, until *metav1.Time, by string, now time.Time) (desire, bool) {
	d := desire{asleep: state == v1alpha1.OverrideHibernated, by: by}
	if until != nil && until.UTC().Year() <= lastYear {
		d.until = until.Time
	}
	return d, until == nil || now.Before(until.Time)
}

// preview is how far status.upcoming looks, and maxUpcoming how many changes it lists.
const (
	preview     = 7 * 24 * time.Hour
	maxUpcoming = 32
)

// upcoming are the changes of what is wanted from now on, what is wanted now in mind: an override or an annotation
// keeps what the schedule wants meanwhile from being one.
func upcoming(plan *v1alpha1.HibernatePlan, s *schedule.Schedule, d desire, now time.Time) []v1alpha1.Transition {
	from, asleep := now, d.asleep
	var out []v1alpha1.Transition
	for d.by != bySchedule { // an override, and then maybe an annotation
		if d.until.IsZero() || d.until.After(now.Add(preview)) {
			return out
		}
		from = d.until
		if d = desired(plan, s, from); d.asleep != asleep {
			out, asleep = append(out, transition(from, d.asleep)), d.asleep
		}
	}
	for _, t := range s.Transitions(from, now.Add(preview)) {
		if t.Asleep != asleep && len(out) < maxUpcoming {
			out, asleep = append(out, transition(t.Time, t.Asleep)), t.Asleep
		}
	}
	return out
}

func transition(at time.Time, asleep bool) v1alpha1.Transition {
	t := v1alpha1.Transition{Time: metav1.NewTime(at), To: v1alpha1.OverrideAwake}
	if asleep {
		t.To = v1alpha1.OverrideHibernated
	}
	return t
}

// next is the first change of what is wanted, beyond the preview, too.
func next(plan *v1alpha1.HibernatePlan, s *schedule.Schedule, d desire, upcoming []v1alpha1.Transition) *v1alpha1.Transition {
	if len(upcoming) > 0 {
		return &upcoming[0]
	}
	at, asleep := d.until, d.asleep
	for !at.IsZero() {
		if d = desired(plan, s, at); d.asleep != asleep {
			t := transition(at, d.asleep)
			return &t
		}
		at = d.until
	}
	return nil
}

// acknowledge acts on the annotations that ask for something once: each new value of one counts. Where there is no
// schedule, or the plan goes, only retry-now can be acted on. A hibernate-now that a plan is created with does not count:
// it may have come with a backup, and would put to sleep what is needed. It returns the names of those that it has
// acted on, and of those that do not count.
func acknowledge(plan *v1alpha1.HibernatePlan, s *schedule.Schedule, now time.Time) (acted, void []string) {
	st := &plan.Status
	var kept []v1alpha1.Acknowledgement
	for _, name := range []string{v1alpha1.AnnotationHibernateNow, v1alpha1.AnnotationWakeNow, v1alpha1.AnnotationSkipNext, v1alpha1.AnnotationRetryNow} {
		value, asked := plan.Annotations[name]
		if !asked {
			continue
		}
		short := name[len(v1alpha1.GroupVersion.Group)+1:]
		done := known(st.Acknowledged, short)
		asks := &v1alpha1.Acknowledgement{Annotation: short, Value: value, At: metav1.NewTime(now.Truncate(time.Second))}
		switch {
		case done != nil && done.Value == value:
		case name == v1alpha1.AnnotationHibernateNow && created(st):
			done, void = asks, append(void, short)
		case possible(plan, name, s):
			done, acted = asks, append(acted, short)
			act(plan, name, s, now)
		}
		if done != nil {
			kept = append(kept, *done)
		}
	}
	st.Acknowledged = kept
	st.Manual = lasting(st.Manual, s, now)
	return acted, void
}

// lasting is what an annotation has asked for, until the schedule turns; nil once it has. When that is is asked anew each time: a
// schedule that did not end by then may by now, and one that is edited, or has another exception, may turn sooner.
func lasting(m *v1alpha1.Manual, s *schedule.Schedule, now time.Time) *v1alpha1.Manual {
	switch {
	case m == nil || m.Until != nil && !now.Before(m.Until.Time):
		return nil
	case s == nil:
		return m
	}
	if until := turn(s, m.State == v1alpha1.OverrideAwake, now); until != nil && (m.Until == nil || until.Before(m.Until)) {
		m.Until = until
	}
	return m
}

// possible says whether what an annotation asks for can be done now.
func possible(plan *v1alpha1.HibernatePlan, annotation string, s *schedule.Schedule) bool {
	if annotation == v1alpha1.AnnotationRetryNow {
		return true
	}
	full := annotation == v1alpha1.AnnotationSkipNext && len(plan.Status.Skips) >= maxSkips // until the first of them is over
	return s != nil && plan.DeletionTimestamp == nil && !full
}

// created says whether nothing was ever decided of a plan.
func created(st *v1alpha1.HibernatePlanStatus) bool { return st.Targets == 0 }

func known(all []v1alpha1.Acknowledgement, name string) *v1alpha1.Acknowledgement {
	for i := range all {
		if all[i].Annotation == name {
			return &all[i]
		}
	}
	return nil
}

// act does what an annotation asks for.
func act(plan *v1alpha1.HibernatePlan, annotation string, s *schedule.Schedule, now time.Time) {
	st := &plan.Status
	switch annotation {
	case v1alpha1.AnnotationHibernateNow:
		st.Manual = &v1alpha1.Manual{State: v1alpha1.OverrideHibernated, Until: turn(s, false, now)}
	case v1alpha1.AnnotationWakeNow:
		st.Manual = &v1alpha1.Manual{State: v1alpha1.OverrideAwake, Until: turn(s, true, now)}
	case v1alpha1.AnnotationSkipNext:
		if skipped := nextSleep(s, now); skipped != nil {
			st.Skips = append(st.Skips, *skipped) // those that are skipped already are not next
		}
	case v1alpha1.AnnotationRetryNow:
		for i := range st.Executions {
			forgive(&st.Executions[i])
		}
	}
}

// turn is when the schedule next turns to a state; nil if it never does.
func turn(s *schedule.Schedule, asleep bool, now time.Time) *metav1.Time {
	for at := s.At(now).Next; !at.IsZero(); {
		state := s.At(at)
		if state.Asleep == asleep {
			t := metav1.NewTime(at)
			return &t
		}
		at = state.Next
	}
	return nil
}

// nextSleep are the off-hours that begin next; nil where none do. A status has whole seconds: what they cut off would
// be slept in.
func nextSleep(s *schedule.Schedule, now time.Time) *v1alpha1.Span {
	from := turn(s, true, now)
	if from == nil {
		return nil
	}
	until := s.At(from.Time).Next
	if until.IsZero() {
		return nil
	}
	return &v1alpha1.Span{
		From: metav1.NewTime(from.Truncate(time.Second)), Until: metav1.NewTime(until.Add(time.Second - 1).Truncate(time.Second)),
	}
}
