package schedule

import (
	"slices"
	"time"
)

// Horizon is how far a Schedule looks for the beginning and the end of an interval.
const Horizon = 400 * 24 * time.Hour

// Most states change within days: a look for a change begins with firstStep and takes longer steps
// only if need be, none of which fills the memory if something changes in every minute.
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
		first.Start = began(from, from.Add(-Horizon), s.asleep)
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

// began returns the instant since which there is sleep right before to, by the last interval of look; to if there is none, zero if it began at limit or
// before.
func began(to, limit time.Time, look func(from, to time.Time) []Interval) time.Time {
	for step := firstStep; limit.Before(to); step = min(3*step, lastStep) {
		from := later(to.Add(-step), limit)
		list := look(from, to)
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
	c, list, stretches := s.unsuspended(from, to)
	if len(list) == 0 {
		return nil
	}
	if leads := s.leads(c, stretches, to); len(leads) > 0 {
		if list[0].start == 0 {
			list[0].start = s.start(c, leads)
		}
		list = slices.DeleteFunc(list, func(i span) bool {
			_, dropped := covering(leads, i.start)
			return dropped
		})
		if len(list) > 0 {
			list[0].start = max(list[0].start, 0)
		}
	}
	return c.times(list)
}

// unsuspended returns the intervals of [from, to) as if there were no lead times, cut to it, sorted and merged; and the
// stretches of each suspension in there, by a clock from which all of them are.
func (s *Schedule) unsuspended(from, to time.Time) (c clock, list []span, stretches [][]span) {
	if !from.Before(to) {
		return clock{}, nil, nil
	}
	c = newClock(s.zone, from, to)
	bounds := c.instants(Interval{from, to})
	list = c.expand(nil, s.offHours, bounds)
	var replaced []span
	for _, e := range s.replaces {
		replaced = append(replaced, c.instants(e.Interval))
	}
	list = subtract(merge(list), merge(replaced))
	for _, e := range slices.Concat(s.replaces, s.extends) {
		list = c.expand(list, e.windows, cut(c.instants(e.Interval), bounds))
	}
	var awake []span
	for _, e := range s.suspends {
		own := e.stretches(c, bounds)
		stretches, awake = append(stretches, own), append(awake, own...)
	}
	return c, subtract(merge(list), merge(awake)), stretches
}

// stretches returns what is awake by a suspension within bounds, cut to them.
func (e exception) stretches(c clock, bounds span) []span {
	bounds = cut(c.instants(e.Interval), bounds)
	switch {
	case bounds.empty():
		return nil
	case len(e.windows) == 0:
		return []span{bounds}
	}
	return c.expand(nil, e.windows, bounds)
}

// idle says whether an exception has windows, none of which is in its time. Nobody looks through one that lasts longer than the Horizon.
// Most have one in the first days, and of the others the steps grow, so that the look ends soon after the first that is found.
func (e exception) idle(zone *time.Location) bool {
	if len(e.windows) == 0 || e.End.Sub(e.Start) > Horizon {
		return false
	}
	for from, step := e.Start, firstStep; from.Before(e.End); step *= 3 {
		to := earlier(from.Add(step), e.End)
		c := newClock(zone, from, to)
		if len(e.stretches(c, c.instants(Interval{from, to}))) > 0 {
			return false
		}
		from = to
	}
	return true
}

// leads returns when nothing may begin that is asleep before to, merged: the time before each of the stretches of a
// suspension there, and before the next one after that. That of a stretch which is cut at its start may be there, too: it
// is in the stretch, or in the time before that.
func (s *Schedule) leads(c clock, stretches [][]span, to time.Time) []span {
	var leads []span
	for n, e := range s.suspends {
		if e.lead == 0 {
			continue
		}
		starts := stretches[n]
		if next, ok := s.nextStretch(e, to); ok {
			starts = append(starts, c.instants(Interval{Start: next}))
		}
		for _, stretch := range starts {
			before := span{stretch.start - int64(e.lead), stretch.start}
			if n := len(leads); n > 0 && leads[n-1].start <= before.start && before.start <= leads[n-1].end {
				leads[n-1].end = max(leads[n-1].end, before.end)
				continue
			}
			leads = append(leads, before)
		}
	}
	return merge(leads)
}

// nextStretch returns when the first stretch of a suspension from an instant on starts, less than its lead time away; false
// if there is none.
func (s *Schedule) nextStretch(e exception, from time.Time) (time.Time, bool) {
	limit := earlier(from.Add(e.lead), e.End)
	for from = later(from, e.Start); from.Before(limit); {
		to := earlier(from.Add(firstStep), limit)
		c := newClock(s.zone, from, to)
		if list := e.stretches(c, c.instants(Interval{from, to})); len(list) > 0 {
			return c.time(list[0].start), true
		}
		from = to
	}
	return time.Time{}, false
}

// start returns when sleep at the base of c began, as far as leads go by that: they end with a stretch, so that what began
// before the one that the base is in began in none.
func (s *Schedule) start(c clock, leads []span) int64 {
	lead, found := covering(leads, 0)
	if !found {
		return 0
	}
	before := c.time(lead.start - 1)
	start := began(c.base, before, func(from, to time.Time) []Interval {
		c, list, _ := s.unsuspended(from, to)
		return c.times(list[max(len(list)-1, 0):])
	})
	return c.instants(Interval{Start: later(start, before)}).start
}
