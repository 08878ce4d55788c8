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

// clock turns wall times around a span of time into instants. It holds the periods in which the zone
// has one offset, in order and without holes; the first begins before all time.
type clock []period

type period struct {
	start  int64 // Unix seconds
	offset int64 // seconds east of UTC, less than a day
}

// newClock returns a clock for what may overlap [from, to).
func newClock(zone *time.Location, from, to time.Time) clock {
	first, last := days(from, to)
	var c clock
	for at, end := (first-1)*day, (last+3)*day; at < end; {
		t := time.Unix(at, 0).In(zone)
		_, seconds := t.Zone()
		if n := len(c); n == 0 {
			c = append(c, period{start: math.MinInt64, offset: int64(seconds)})
		} else if c[n-1].offset != int64(seconds) {
			c = append(c, period{start: at, offset: int64(seconds)})
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
func (c clock) instant(wall int64, last bool) time.Time {
	// Instants and wall times are less than a day apart: begin with the period a day before.
	begin, _ := slices.BinarySearchFunc(c, wall-day, func(p period, t int64) int { return cmp.Compare(p.start, t) })
	var at int64
	shown, passed := false, false
	for i := max(begin-1, 0); i < len(c) && c[i].start <= wall+day; i++ {
		switch t := wall - c[i].offset; {
		case i+1 < len(c) && t >= c[i+1].start:
			// It shows less all the time.
		case t >= c[i].start:
			at, shown = t, true
			if !last {
				return time.Unix(at, 0)
			}
		case !shown && !passed:
			at, passed = c[i].start, true
		}
	}
	return time.Unix(at, 0)
}

// expand appends what windows have within bounds, cut to them, to list.
func (c clock) expand(list []Interval, windows []window, bounds Interval) []Interval {
	if bounds.empty() {
		return list
	}
	first, last := days(bounds.Start, bounds.End)
	for _, w := range windows {
		w.walls(first, last, func(start, end int64) {
			i := cut(Interval{c.instant(start, false), c.instant(end, true)}, bounds)
			if !i.empty() {
				list = append(list, i)
			}
		})
	}
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
