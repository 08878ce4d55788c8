package schedule

import (
	"slices"
	"time"

	"github.com/robfig/cron/v3"
)

// window is off-hours on the wall clock.
type window interface {
	// walls yields, in order, the wall times of every window that starts on the days first to last.
	// It may also yield parts of others, cut at the midnights before first and after last.
	walls(first, last int64, yield func(start, end int64))
	// changes is how often it turns to sleep and from it, on any day.
	changes() int
}

// weekly is a window that starts at one time of chosen days of the week.
type weekly struct {
	days       [7]bool // by time.Weekday
	start, end int64   // seconds after the midnight before the start; start < end
}

func (w weekly) walls(first, last int64, yield func(start, end int64)) {
	for d := first; d <= last; d++ {
		if w.days[weekday(d)] {
			yield(d*day+w.start, d*day+w.end)
		}
	}
}

func (weekly) changes() int { return 2 }

// weekday returns the day of the week of a day; 1 January 1970 was a Thursday.
func weekday(d int64) time.Weekday {
	d += int64(time.Thursday)
	return time.Weekday(d - 7*floor(d, 7))
}

// expression is a cron expression. Its fields are sets of bits: the library's own search for the next
// firing knows no way back, and may take a thousand times as long.
type expression struct {
	*cron.SpecSchedule
}

// star is the bit that the library adds to a field that was a star: if neither day of the month nor
// day of the week has it, a day need be in one of them only.
const star = 1 << 63

// on tells whether e fires on a date.
func (e expression) on(date time.Time) bool {
	if e.Month&(1<<date.Month()) == 0 {
		return false
	}
	month := e.Dom&(1<<date.Day()) != 0
	week := e.Dow&(1<<date.Weekday()) != 0
	if (e.Dom|e.Dow)&star != 0 {
		return month && week
	}
	return month || week
}

// at tells whether e fires in a minute of the days that it fires on.
func (e expression) at(minutes int) bool {
	return e.Hour&(1<<(minutes/60)) != 0 && e.Minute&(1<<(minutes%60)) != 0
}

// fires tells whether e ever does. A day that is not in a leap year is in none; and a field that is a
// comma and nothing else is an empty set.
func (e expression) fires() bool {
	if e.Hour == 0 || e.Minute == 0 {
		return false
	}
	for d := range int64(366) {
		if e.on(date(leapYear + d)) {
			return true
		}
	}
	return false
}

// leapYear is 1 January 2000.
const leapYear = 10957

// date returns the midnight of a day, in UTC.
func date(d int64) time.Time { return time.Unix(d*day, 0).UTC() }

// crons is a window from firings of one expression to firings of another.
type crons struct {
	start, end expression
	// What happens on days on which the first fires, the second, or both: at least one turn each.
	starts, ends, both []turn
}

// turn is the beginning or end of sleep, after which the day goes on like that.
type turn struct {
	at     int64 // seconds after midnight
	asleep bool
}

// newTurns returns what happens on a day on which the given expressions fire, each of which may be nil.
// If both fire at once, sleep goes on, and if one fires twice, the first counts.
func newTurns(start, end *expression) []turn {
	var list []turn
	for m := range 24 * 60 {
		starts, ends := start != nil && start.at(m), end != nil && end.at(m)
		if !starts && !ends || len(list) > 0 && list[len(list)-1].asleep == starts {
			continue
		}
		list = append(list, turn{at: int64(m) * minute, asleep: starts})
	}
	return list
}

func newCrons(start, end expression) crons {
	return crons{
		start: start, end: end,
		starts: newTurns(&start, nil), ends: newTurns(nil, &end), both: newTurns(&start, &end),
	}
}

// wakes tells whether sleep ever ends: whether the second expression ever fires without the first.
// What dates and days of the week have to do with each other comes again after 28 years.
func (c crons) wakes() bool {
	awake := slices.ContainsFunc(c.both, func(t turn) bool { return !t.asleep })
	for d := range int64(28 * 366) {
		if date := date(leapYear + d); c.end.on(date) && (awake || !c.start.on(date)) {
			return true
		}
	}
	return false
}

// turns returns what happens on a day.
func (c crons) turns(d int64) []turn {
	date := date(d)
	switch start, end := c.start.on(date), c.end.on(date); {
	case start && end:
		return c.both
	case start:
		return c.starts
	case end:
		return c.ends
	}
	return nil
}

// memory is how many days may pass between two firings: 29 February is left out in 1900, say, so that
// eight years may pass.
const memory = 8*366 + 1

// before tells whether there is sleep when a day begins.
func (c crons) before(d int64) bool {
	for at := d - 1; at >= d-memory; at-- {
		if date := date(at); (c.start.Month|c.end.Month)&(1<<date.Month()) == 0 {
			at -= int64(date.Day()) - 1 // the month before is next
			continue
		}
		if turns := c.turns(at); len(turns) > 0 {
			return turns[len(turns)-1].asleep
		}
	}
	return false
}

func (c crons) changes() int { return max(len(c.starts), len(c.ends), len(c.both)) }

func (c crons) walls(first, last int64, yield func(start, end int64)) {
	asleep, since := c.before(first), first*day
	for d := first; d <= last; d++ {
		for _, t := range c.turns(d) {
			if asleep && !t.asleep {
				yield(since, d*day+t.at)
			} else if !asleep && t.asleep {
				since = d*day + t.at
			}
			asleep = t.asleep
		}
	}
	if asleep {
		yield(since, (last+1)*day)
	}
}
