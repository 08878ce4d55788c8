package schedule

import (
	"cmp"
	"math"
	"slices"
	"time"
)

const (
	minute = int64(60) // seconds
	day    = 24 * 60 * minute
)

// A wall time is what a wall clock shows: the seconds from midnight of 1 January 1970 to it, on a
// calendar whose days all have 24 hours. A day is one of that calendar, by its number.

// clock turns wall times around a span of time into instants, which are nanoseconds from base here: many of them are to take
// little memory. It holds the periods in which the zone has one offset, in order and without holes; the first begins before
// all time.
type clock struct {
	base    time.Time
	periods []period
}

type period struct {
	start  int64 // Unix seconds
	offset int64 // seconds east of UTC, less than a day
}

// newClock returns a clock for what may overlap [from, to), with the base from.
func newClock(zone *time.Location, from, to time.Time) clock {
	first, last := days(from, to)
	c := clock{base: from}
	for at, end := (first-1)*day, (last+3)*day; at < end; {
		t := time.Unix(at, 0).In(zone)
		_, seconds := t.Zone()
		if n := len(c.periods); n == 0 {
			c.periods = append(c.periods, period{start: math.MinInt64, offset: int64(seconds)})
		} else if c.periods[n-1].offset != int64(seconds) {
			c.periods = append(c.periods, period{start: at, offset: int64(seconds)})
		}
		// Of these bounds, the end is no later than the next change of the offset, but in years
		// beyond the table of the zone it may be before t (on 31 December of a leap year), and
		// the start may be before a change.
		_, next := t.ZoneBounds()
		switch {
		case next.IsZero():
			return c
		case next.Unix() > at:
			at = next.Unix()
		default:
			at += 15 * minute // rules change offsets on a quarter of an hour
		}
	}
	return c
}

// days returns the first and last day on which a window may start that overlaps [from, to). A window
// ends on the day after its start at the latest, and what a wall clock shows is less than a day from
// UTC.
func days(from, to time.Time) (first, last int64) {
	return floor(from.Unix(), day) - 3, floor(to.Unix(), day) + 1
}

// instant returns the instant at which the wall clock shows wall: the first, or the last. If there is
// none, it is the first instant at which the clock shows more.
func (c clock) instant(wall int64, last bool) int64 {
	// Instants and wall times are less than a day apart: begin with the period a day before.
	all := c.periods
	begin, _ := slices.BinarySearchFunc(all, wall-day, func(p period, t int64) int { return cmp.Compare(p.start, t) })
	var at int64
	shown, passed := false, false
	for i := max(begin-1, 0); i < len(all) && all[i].start <= wall+day; i++ {
		switch t := wall - all[i].offset; {
		case i+1 < len(all) && t >= all[i+1].start:
			// It shows less all the time.
		case t >= all[i].start:
			at, shown = t, true
			if !last {
				return c.seconds(at)
			}
		case !shown && !passed:
			at, passed = all[i].start, true
		}
	}
	return c.seconds(at)
}

// seconds returns the instant of some Unix seconds.
func (c clock) seconds(unix int64) int64 {
	return (unix-c.base.Unix())*int64(time.Second) - int64(c.base.Nanosecond())
}

// instants returns an Interval as one of c, which ends with what that can tell: 292 years from its base.
func (c clock) instants(i Interval) span {
	return span{int64(i.Start.Sub(c.base)), int64(i.End.Sub(c.base))}
}

// times is the other way.
func (c clock) times(list []span) []Interval {
	var all []Interval
	for _, i := range list {
		all = append(all, Interval{c.time(i.start), c.time(i.end)})
	}
	return all
}

func (c clock) time(instant int64) time.Time { return c.base.Add(time.Duration(instant)) }

// expand appends what windows have within bounds, cut to them, to list. What overlaps or touches on the wall clock is one
// before it is made instants: many windows cost memory once.
func (c clock) expand(list []span, windows []window, bounds span) []span {
	if len(windows) == 0 || bounds.empty() {
		return list
	}
	first, last := days(c.time(bounds.start), c.time(bounds.end))
	asleep := newMinutes(first, last+1) // a window ends on the day after its start at the latest
	for _, w := range windows {
		w.walls(first, last, asleep.set)
	}
	list = slices.Grow(list, asleep.count())
	asleep.runs(func(start, end int64) {
		if i := cut(span{c.instant(start, false), c.instant(end, true)}, bounds); !i.empty() {
			list = append(list, i)
		}
	})
	return list
}

// floor returns a/b rounded down.
func floor(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
