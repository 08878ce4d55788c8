package schedule_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/robfig/cron/v3"

	"github.com/labkeeper/labkeeper/internal/schedule"
)

// contains tells whether t is in i.
func contains(i schedule.Interval, t time.Time) bool {
	return (i.Start.IsZero() || !t.Before(i.Start)) && (i.End.IsZero() || t.Before(i.End))
}

// check holds the answers of a Schedule against each other, from an instant on.
func check(t *testing.T, s *schedule.Schedule, from time.Time, length time.Duration) {
	t.Helper()
	to := from.Add(length)
	intervals := s.Intervals(from, to)
	checkIntervals(t, intervals, from, to)

	// What the intervals say of the transitions and the state.
	var want []schedule.Transition
	instants := []time.Time{from, from.Add(length / 2), from.Add(length - 1)}
	for _, i := range intervals {
		if i.Start.After(from) {
			want = append(want, schedule.Transition{Time: i.Start, Asleep: true})
			instants = append(instants, i.Start.Add(-1), i.Start)
		}
		if !i.End.IsZero() && i.End.Before(to) {
			want = append(want, schedule.Transition{Time: i.End})
			instants = append(instants, i.End.Add(-1), i.End)
		}
	}
	got := s.Transitions(from, to.Add(-1))
	if fmt.Sprint(want) != fmt.Sprint(got) {
		t.Fatalf("Transitions(%v, %v) are\n%v, intervals say\n%v", from, to.Add(-1), got, want)
	}
	for _, at := range instants {
		checkState(t, s, intervals, at, to)
	}

	// A part of the question gets a part of the answer.
	if half := s.Intervals(from.Add(length/2), to); len(half) > 0 {
		rest := intervals[len(intervals)-len(half):]
		if half[0].Start.IsZero() { // does not see as far back
			rest[0].Start = time.Time{}
		}
		if fmt.Sprint(rest) != fmt.Sprint(half) {
			t.Fatalf("Intervals(%v, %v) are\n%v, those of twice the time\n%v", from.Add(length/2), to, half, rest)
		}
	}
}

func checkIntervals(t *testing.T, intervals []schedule.Interval, from, to time.Time) {
	t.Helper()
	for n, i := range intervals {
		switch {
		case i.Start.IsZero() && n > 0, i.End.IsZero() && n < len(intervals)-1:
			t.Fatalf("an interval in the middle has no end: %v", intervals)
		case !i.Start.IsZero() && !i.End.IsZero() && !i.Start.Before(i.End):
			t.Fatalf("empty interval %v", i)
		case n > 0 && !i.Start.After(intervals[n-1].End):
			t.Fatalf("intervals overlap or touch: %v", intervals)
		case !i.Start.IsZero() && !i.Start.Before(to), !i.End.IsZero() && !i.End.After(from):
			t.Fatalf("interval %v is not in [%v, %v)", i, from, to)
		}
	}
}

// read returns what intervals say of the state at an instant.
func read(intervals []schedule.Interval, at time.Time) schedule.State {
	for _, i := range intervals {
		if contains(i, at) {
			return schedule.State{Asleep: true, Next: i.End}
		}
		if i.Start.After(at) {
			return schedule.State{Next: i.Start}
		}
	}
	return schedule.State{}
}

// checkState holds the state at an instant against the intervals until to.
func checkState(t *testing.T, s *schedule.Schedule, intervals []schedule.Interval, at, to time.Time) {
	t.Helper()
	got, want := s.At(at), read(intervals, at)
	limit := at.Add(schedule.Horizon)
	if !got.Next.IsZero() && (!got.Next.After(at) || !got.Next.Before(limit)) {
		t.Fatalf("At(%v) is %v, which is not within the horizon", at, got)
	}
	switch {
	case !want.Asleep && want.Next.IsZero() && !got.Next.Before(to):
		want.Next = got.Next // intervals do not say for how long it is awake after them
	case !want.Next.Before(limit):
		want.Next = time.Time{} // they see a little further
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("At(%v) (-intervals +got):\n%s%v", at, diff, intervals)
	}
}

// decode reads a Spec whose windows and exceptions are mostly valid, beginning around an instant.
func decode(data []byte, now time.Time) schedule.Spec {
	next := func() int {
		if len(data) == 0 {
			return 0
		}
		b := data[0]
		data = data[1:]
		return int(b)
	}
	windows := func(count int) []schedule.Window {
		var list []schedule.Window
		for range count {
			if next()%4 == 0 {
				list = append(list, schedule.Window{
					StartCron: fmt.Sprintf("%d/%d %d %s * *", next()%60, 1+next()%60, next()%24, []string{"*", "1", "29", "*/9"}[next()%4]),
					EndCron:   fmt.Sprintf("%d */%d * * %d-6", next()%60, 1+next()%24, next()%7),
				})
				continue
			}
			w := schedule.Window{Start: fmt.Sprintf("%02d:%02d", next()%24, next()%60), End: fmt.Sprintf("%02d:%02d", next()%25, next()%60)}
			for d, mask := 0, next(); d < 7; d++ {
				if mask&(1<<d) != 0 {
					w.Days = append(w.Days, dayNames[d])
				}
			}
			list = append(list, w)
		}
		return list
	}
	spec := schedule.Spec{Timezone: sampledZones[next()%len(sampledZones)], OffHours: windows(next() % 4)}
	for range next() % 6 {
		from := now.Add(time.Duration(next()-128) * 3 * time.Hour)
		e := schedule.Exception{
			Type: []schedule.ExceptionType{schedule.Replace, schedule.Extend, schedule.Suspend}[next()%3],
			From: from, Until: from.Add(time.Duration(next()) * time.Hour),
		}
		if e.Type == schedule.Suspend {
			e.LeadTime = time.Duration(next()) * 20 * time.Minute
		}
		e.Windows = windows(next() % 3)
		// One that is refused, mostly because none of its windows is in its time, would keep the others from being tried.
		if _, err := schedule.New(schedule.Spec{Timezone: spec.Timezone, Exceptions: []schedule.Exception{e}}); err == nil {
			spec.Exceptions = append(spec.Exceptions, e)
		}
	}
	return spec
}

// FuzzAnswers holds the answers of schedules against each other.
func FuzzAnswers(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 64 {
		data := make([]byte, 16+r.IntN(64))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		f.Add(data, int64(1.75e9)+r.Int64N(1e8), uint16(r.Uint32()))
	}
	f.Fuzz(func(t *testing.T, data []byte, second int64, hours uint16) {
		now := time.Unix(second%(253402300800), 0) // years -6000 to 9999
		s, err := schedule.New(decode(data, now))
		if err != nil {
			var invalid schedule.InvalidErrors
			if !errors.As(err, &invalid) || len(invalid) == 0 {
				t.Fatalf("error is %v", err)
			}
			return
		}
		check(t, s, now, time.Duration(hours%2000+1)*time.Hour)
	})
}

// FuzzNew builds schedules of any text, and asks them about any instant.
func FuzzNew(f *testing.F) {
	f.Add("Europe/Berlin", "20:00", "06:00", "MON,TUE", "", "", int64(1.8e9), int64(3600), int64(0))
	f.Add("America/New_York", "", "", "", "0 20 * * 1-5", "0 6 * * *", int64(1.8e9), int64(86400), int64(3600))
	f.Add("UTC", "", "", "", "TZ=UTC", "CRON_TZ=", int64(0), int64(1), int64(-1))
	f.Add("", "24:00", "24:00", "SUN,SUN", "@every 1h", "@yearly", int64(-1), int64(-1), int64(1))
	f.Add("right/UTC", "", "", "", "0 0 30 2 *", "*/7,3-9/2 1/5 ? JAN MON", int64(1<<62), int64(1<<40), int64(1<<62))
	f.Fuzz(func(t *testing.T, zone, start, end, days, startCron, endCron string, from, length, lead int64) {
		window := schedule.Window{Start: start, End: end, Days: strings.Split(days, ","), StartCron: startCron, EndCron: endCron}
		if days == "" {
			window.Days = nil
		}
		spec := schedule.Spec{Timezone: zone, OffHours: []schedule.Window{window}}
		for _, kind := range []schedule.ExceptionType{schedule.Replace, schedule.Extend, schedule.Suspend} {
			e := schedule.Exception{Type: kind, From: time.Unix(from, 0), Until: time.Unix(from+length, 0), Windows: spec.OffHours}
			if kind == schedule.Suspend {
				e.LeadTime = time.Duration(lead)
			}
			spec.Exceptions = append(spec.Exceptions, e)
		}
		s, err := schedule.New(spec)
		if (s == nil) != (err != nil) {
			t.Fatalf("New returns %v and %v", s, err)
		}
		if err != nil {
			return
		}
		for _, at := range []int64{from, from + length, lead} {
			s.At(time.Unix(at, 0))
			s.Intervals(time.Unix(at, 0), time.Unix(at+86400, 0))
			s.Transitions(time.Unix(at, 0), time.Unix(at+86400, 0))
		}
	})
}

// FuzzCron holds cron windows against the library's own search for firings, in UTC.
func FuzzCron(f *testing.F) {
	f.Add("0 20 * * 1-5", "0 6 * * *", int64(1.8e9))
	f.Add("*/2 * * * *", "1-59/2 * * * *", int64(1.8e9))
	f.Add("0 0 29 2 *", "0 0 28 2 *", int64(1.8e9))
	f.Add("30 4 1,15 * 5", "0 0,12 1 */2 *", int64(-1))
	f.Add("15-20 4 1,15 */5 ?", "@monthly", int64(1.9e9))
	f.Add("5 4 */10 * MON", "5 4 * * WED", int64(1.9e9))
	f.Fuzz(func(t *testing.T, startCron, endCron string, second int64) {
		s, err := schedule.New(schedule.Spec{Timezone: "UTC", OffHours: []schedule.Window{{StartCron: startCron, EndCron: endCron}}})
		if err != nil {
			return
		}
		starts, err := cron.ParseStandard("TZ=UTC " + startCron)
		if err != nil {
			t.Skip(err) // the library takes spaces in front of a descriptor for fields
		}
		ends, err := cron.ParseStandard("TZ=UTC " + endCron)
		if err != nil {
			t.Skip(err)
		}
		now := time.Unix(second%(1<<33), 0).UTC()
		for range 10 {
			// At the next firing of the second there is sleep if the first fires, too, and until
			// the second fires alone; or there is none until the first fires.
			end := ends.Next(now)
			if end.IsZero() {
				return // none within five years, which is the library's horizon
			}
			limit := end.Add(schedule.Horizon)
			want := schedule.State{Next: starts.Next(end.Add(-time.Second))}
			if want.Next.Equal(end) {
				want.Asleep, want.Next = true, ends.Next(end)
				for n := 0; want.Next.Before(limit) && starts.Next(want.Next.Add(-time.Second)).Equal(want.Next); n++ {
					if want.Next = ends.Next(want.Next); n == 1000 || want.Next.IsZero() {
						return
					}
				}
			}
			if !want.Next.Before(limit) {
				want.Next = time.Time{}
			}
			if diff := cmp.Diff(want, s.At(end)); diff != "" {
				t.Fatalf("At(%v) (-want +got):\n%s", end, diff)
			}
			now = end
		}
	})
}
