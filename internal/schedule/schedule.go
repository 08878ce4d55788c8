package schedule

import (
	"slices"
	"time"
)

// Horizon is how far a Schedule looks for the beginning and the end of an interval.
const Horizon = 400 * 24 * time.Hour

// Most states change within days: a look for a change begins with firstStep and takes longer steps
// only if need be, none of which fills the memory if there are windows in every minute.
const (
	firstStep = 3 * 24 * time.Hour
	lastStep  = 27 * 24 * time.Hour
)

// Schedule says when something sleeps. It is made by [New].
type Schedule struct {
	zone     *time.Location
	offHours []window
	replaces []exception
	extends  []exception
	suspends []exception
}

// exception is an Exception that is valid.
type exception struct {
	Interval // it applies in
	lead     time.Duration
	windows  []window
}

// State is what a Schedule says about an instant.
type State struct {
	Asleep bool
	// Next is the first instant after it at which Asleep changes, in the zone of the Schedule; zero if
	// there is none within the Horizon.
	Next time.Time
}

// Transition is a change of the state.
type Transition struct {
	Time   time.Time // the first instant of the new state, in the zone of the Schedule
	Asleep bool      // the new state
}

// At returns the state at an instant.
func (s *Schedule) At(now time.Time) State {
	var state State
	now = now.In(s.zone) // and without a monotonic clock's reading
	limit := now.Add(Horizon)
	step := firstStep
	for from := now; from.Before(limit); step = min(3*step, lastStep) {
		to := earlier(from.Add(step), limit)
		list := s.asleep(from, to)
		begins := len(list) > 0 && list[0].Start.Equal(from)
		if from.Equal(now) {
			state.Asleep = begins
		}
		switch {
		case begins != state.Asleep:
			state.Next = from
		case begins && list[0].End.Before(to):
			state.Next = list[0].End
		case !begins && len(list) > 0:
			state.Next = list[0].Start
		default:
			from = to
			continue
		}
		state.Next = state.Next.In(s.zone)
		return state
	}
	return state
}

// Intervals returns every interval that overlaps [from, to), in order, in the zone of the Schedule.
// They are whole, even where they begin before from or end after to, and there is time awake between
// any two. A Start more than [Horizon] before from, and an End more than Horizon after to, is zero.
func (s *Schedule) Intervals(from, to time.Time) []Interval {
	from, to = from.In(s.zone), to.In(s.zone)
	list := s.asleep(from, to)
	if len(list) == 0 {
		return nil
	}
	if first := &list[0]; first.Start.Equal(from) {
		first.Start = s.began(from)
	}
	if last := &list[len(list)-1]; last.End.Equal(to) {
		if after := s.At(to); after.Asleep {
			last.End = after.Next
		}
	}
	for i := range list {
		list[i] = Interval{Start: s.local(list[i].Start), End: s.local(list[i].End)}
	}
	return list
}

// began returns the instant since which there is sleep right before to; to if there is none, zero if
// it began more than Horizon ago.
func (s *Schedule) began(to time.Time) time.Time {
	limit := to.Add(-Horizon)
	for step := firstStep; limit.Before(to); step = min(3*step, lastStep) {
		from := later(to.Add(-step), limit)
		list := s.asleep(from, to)
		if len(list) == 0 || list[len(list)-1].End.Before(to) {
			return to
		}
		if start := list[len(list)-1].Start; start.After(from) {
			return start
		}
		to = from
	}
	return time.Time{}
}

// Transitions returns every change of the state after from and not after to, in order. They
// alternate.
func (s *Schedule) Transitions(from, to time.Time) []Transition {
	from, to = from.In(s.zone), to.In(s.zone)
	var list []Transition
	for _, i := range s.asleep(from, to.Add(1)) { // to itself counts
		if i.Start.After(from) {
			list = append(list, Transition{Time: s.local(i.Start), Asleep: true})
		}
		if !i.End.After(to) {
			list = append(list, Transition{Time: s.local(i.End)})
		}
	}
	return list
}

// local returns t in the zone of the Schedule, and the zero time as it is.
func (s *Schedule) local(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.In(s.zone)
}

// asleep returns the intervals of [from, to), cut to it, sorted and merged. Everything else rests on
// it. It depends on [from, to) in nothing but the cut: asking about a part gives a part of the answer.
func (s *Schedule) asleep(from, to time.Time) []Interval {
	if !from.Before(to) {
		return nil
	}
	// Whether an interval is dropped depends on its true start. If that is before begin, it is longer
	// than any lead time before the suspensions that begin after from; others do not drop anything
	// that lasts until from.
	begin, end := from, to
	for _, e := range s.suspends {
		if e.End.After(from) && e.Start.Add(-e.lead).Before(to) {
			begin = earlier(begin, from.Add(-e.lead))
			end = later(end, to.Add(e.lead))
		}
	}
	c := newClock(s.zone, begin, end)

	list := merge(c.expand(nil, s.offHours, Interval{begin, to}))
	var replaced []Interval
	for _, e := range s.replaces {
		replaced = append(replaced, e.Interval)
	}
	list = subtract(list, merge(replaced))
	for _, e := range slices.Concat(s.replaces, s.extends) {
		list = c.expand(list, e.windows, cut(e.Interval, Interval{begin, to}))
	}
	list = s.suspend(c, merge(list), Interval{begin, to})
	return cutAll(list, Interval{from, to})
}

// suspend returns what the suspensions leave of list, all of which lies within bounds.
func (s *Schedule) suspend(c clock, list []Interval, bounds Interval) []Interval {
	if len(s.suspends) == 0 {
		return list
	}
	var stretches, leads []Interval
	for _, e := range s.suspends {
		within := cut(e.Interval, Interval{bounds.Start, bounds.End.Add(e.lead)})
		own := []Interval{within}
		if len(e.windows) > 0 {
			own = c.expand(nil, e.windows, within)
		}
		for _, stretch := range merge(own) {
			stretches = append(stretches, stretch)
			leads = append(leads, Interval{stretch.Start.Add(-e.lead), stretch.Start})
		}
	}
	list = subtract(list, merge(stretches))
	leads = merge(leads)
	return slices.DeleteFunc(list, func(i Interval) bool { return contains(leads, i.Start) })
}
