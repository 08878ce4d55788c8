package schedule_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/labkeeper/labkeeper/internal/schedule"
)

var dayNames = []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}

// parse reads windows like "MON-FRI 20:00-06:00; SAT,SUN 00:00-24:00; 0 20 * * * | 0 6 * * *".
func parse(text string) []schedule.Window {
	var list []schedule.Window
	for part := range strings.SplitSeq(text, ";") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		if start, end, ok := strings.Cut(part, "|"); ok {
			list = append(list, schedule.Window{StartCron: strings.TrimSpace(start), EndCron: strings.TrimSpace(end)})
			continue
		}
		days, times, _ := strings.Cut(part, " ")
		var w schedule.Window
		w.Start, w.End, _ = strings.Cut(times, "-")
		switch days {
		case "DAILY":
			w.Days = dayNames
		case "MON-FRI":
			w.Days = dayNames[1:6]
		default:
			w.Days = strings.Split(days, ",")
		}
		list = append(list, w)
	}
	return list
}

func build(t testing.TB, spec schedule.Spec) *schedule.Schedule {
	t.Helper()
	s, err := schedule.New(spec)
	if err != nil {
		t.Fatalf("New(%+v): %v", spec, err)
	}
	return s
}

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// instant reads "2026-03-08T03:00:00-04:00", or "2026-03-08 03:00" in a zone that leaves no choice.
func instant(t testing.TB, z *time.Location, text string) time.Time {
	t.Helper()
	if text == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		at, err = time.ParseInLocation("2006-01-02 15:04", text, z)
	}
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// show writes intervals with the offsets of their zone.
func show(list []schedule.Interval) []string {
	text := func(t time.Time) string {
		switch {
		case t.IsZero():
			return "?"
		case t.Second() != 0:
			return t.Format("Mon 2006-01-02 15:04:05 -07:00")
		}
		return t.Format("Mon 2006-01-02 15:04 -07:00")
	}
	var shown []string
	for _, i := range list {
		shown = append(shown, text(i.Start)+" to "+text(i.End))
	}
	return shown
}

func TestWindows(t *testing.T) {
	tests := map[string]struct {
		zone     string // Europe/Berlin by default
		windows  string
		from, to string
		want     []string
	}{
		"weeknights end on Saturday morning": {
			windows: "MON-FRI 20:00-06:00", from: "2026-10-05 12:00", to: "2026-10-12 12:00",
			want: []string{
				"Mon 2026-10-05 20:00 +02:00 to Tue 2026-10-06 06:00 +02:00",
				"Tue 2026-10-06 20:00 +02:00 to Wed 2026-10-07 06:00 +02:00",
				"Wed 2026-10-07 20:00 +02:00 to Thu 2026-10-08 06:00 +02:00",
				"Thu 2026-10-08 20:00 +02:00 to Fri 2026-10-09 06:00 +02:00",
				"Fri 2026-10-09 20:00 +02:00 to Sat 2026-10-10 06:00 +02:00",
			},
		},
		"an hour around midnight is not a week": {
			windows: "MON 23:30-00:30", from: "2026-10-05 12:00", to: "2026-10-13 12:00",
			want: []string{
				"Mon 2026-10-05 23:30 +02:00 to Tue 2026-10-06 00:30 +02:00",
				"Mon 2026-10-12 23:30 +02:00 to Tue 2026-10-13 00:30 +02:00",
			},
		},
		"a whole day": {
			windows: "SUN 00:00-24:00", from: "2026-10-05 12:00", to: "2026-10-12 12:00",
			want: []string{"Sun 2026-10-11 00:00 +02:00 to Mon 2026-10-12 00:00 +02:00"},
		},
		"an end at 00:00 is that of the next day": {
			windows: "SUN 12:00-00:00", from: "2026-10-05 12:00", to: "2026-10-12 12:00",
			want: []string{"Sun 2026-10-11 12:00 +02:00 to Mon 2026-10-12 00:00 +02:00"},
		},
		"weeknights and weekends leave no hole": {
			windows: "MON-FRI 20:00-06:00; SAT,SUN 00:00-24:00", from: "2026-10-09 12:00", to: "2026-10-12 12:00",
			want: []string{"Fri 2026-10-09 20:00 +02:00 to Mon 2026-10-12 00:00 +02:00"},
		},
		"overlapping windows are one": {
			windows: "DAILY 20:00-06:00; DAILY 05:00-09:00", from: "2026-10-06 04:00", to: "2026-10-06 04:01",
			want: []string{"Mon 2026-10-05 20:00 +02:00 to Tue 2026-10-06 09:00 +02:00"},
		},
		"a window in another": {
			windows: "DAILY 20:00-06:00; DAILY 22:00-23:00", from: "2026-10-06 04:00", to: "2026-10-06 04:01",
			want: []string{"Mon 2026-10-05 20:00 +02:00 to Tue 2026-10-06 06:00 +02:00"},
		},
		"whole on both sides": {
			windows: "SAT,SUN 00:00-24:00", from: "2026-10-10 12:00", to: "2026-10-11 12:00",
			want: []string{"Sat 2026-10-10 00:00 +02:00 to Mon 2026-10-12 00:00 +02:00"},
		},
		"half open on both sides": {
			windows: "DAILY 20:00-06:00", from: "2026-10-06 06:00", to: "2026-10-06 20:00",
			want: nil,
		},
		"one minute": {
			windows: "DAILY 20:00-06:00", from: "2026-10-06 05:59", to: "2026-10-06 20:01",
			want: []string{
				"Mon 2026-10-05 20:00 +02:00 to Tue 2026-10-06 06:00 +02:00",
				"Tue 2026-10-06 20:00 +02:00 to Wed 2026-10-07 06:00 +02:00",
			},
		},
		"nothing is asked": {
			windows: "DAILY 00:00-24:00", from: "2026-10-06 12:00", to: "2026-10-06 12:00",
			want: nil,
		},
		"asked backwards": {
			windows: "DAILY 00:00-24:00", from: "2026-10-06 12:00", to: "2026-10-05 12:00",
			want: nil,
		},
		"without windows": {
			from: "2026-01-01 00:00", to: "2027-01-01 00:00",
			want: nil,
		},
		"for ever": {
			windows: "DAILY 00:00-24:00", from: "2026-10-06 12:00", to: "2026-10-06 13:00",
			want: []string{"? to ?"},
		},

		// Clocks of New York go from 02:00 to 03:00 on 8 March 2026.
		"end in a gap": {
			zone: "America/New_York", windows: "DAILY 20:00-02:30", from: "2026-03-07 12:00", to: "2026-03-09 12:00",
			want: []string{
				"Sat 2026-03-07 20:00 -05:00 to Sun 2026-03-08 03:00 -04:00",
				"Sun 2026-03-08 20:00 -04:00 to Mon 2026-03-09 02:30 -04:00",
			},
		},
		"start in a gap": {
			zone: "America/New_York", windows: "DAILY 02:15-05:00", from: "2026-03-08 00:00", to: "2026-03-09 00:00",
			want: []string{"Sun 2026-03-08 03:00 -04:00 to Sun 2026-03-08 05:00 -04:00"},
		},
		"a window in a gap": {
			zone: "America/New_York", windows: "DAILY 02:15-02:45", from: "2026-03-07 00:00", to: "2026-03-10 00:00",
			want: []string{
				"Sat 2026-03-07 02:15 -05:00 to Sat 2026-03-07 02:45 -05:00",
				"Mon 2026-03-09 02:15 -04:00 to Mon 2026-03-09 02:45 -04:00",
			},
		},
		"windows that touch in a gap": {
			zone: "America/New_York", windows: "SUN 01:00-02:30; SUN 02:30-04:00", from: "2026-03-08 00:00", to: "2026-03-09 00:00",
			want: []string{"Sun 2026-03-08 01:00 -05:00 to Sun 2026-03-08 04:00 -04:00"},
		},
		"start at the end of a gap": {
			zone: "America/New_York", windows: "SUN 03:00-04:00", from: "2026-03-08 00:00", to: "2026-03-09 00:00",
			want: []string{"Sun 2026-03-08 03:00 -04:00 to Sun 2026-03-08 04:00 -04:00"},
		},
		"a gap at midnight": {
			zone: "Africa/Cairo", windows: "THU 20:00-24:00; FRI 00:00-06:00", from: "2026-04-23 12:00", to: "2026-04-24 12:00",
			want: []string{"Thu 2026-04-23 20:00 +02:00 to Fri 2026-04-24 06:00 +03:00"},
		},

		// They go from 02:00 to 01:00 on 1 November 2026.
		"start in an overlap": {
			zone: "America/New_York", windows: "DAILY 01:30-05:00", from: "2026-11-01 00:00", to: "2026-11-02 00:00",
			want: []string{"Sun 2026-11-01 01:30 -04:00 to Sun 2026-11-01 05:00 -05:00"},
		},
		"end in an overlap": {
			zone: "America/New_York", windows: "DAILY 20:00-01:30", from: "2026-10-31 12:00", to: "2026-11-01 12:00",
			want: []string{"Sat 2026-10-31 20:00 -04:00 to Sun 2026-11-01 01:30 -05:00"},
		},
		"end at the beginning of an overlap": {
			zone: "America/New_York", windows: "DAILY 20:00-01:00", from: "2026-10-31 12:00", to: "2026-11-01 12:00",
			want: []string{"Sat 2026-10-31 20:00 -04:00 to Sun 2026-11-01 01:00 -05:00"},
		},
		"end at the end of an overlap": {
			zone: "America/New_York", windows: "DAILY 20:00-02:00", from: "2026-10-31 12:00", to: "2026-11-01 12:00",
			want: []string{"Sat 2026-10-31 20:00 -04:00 to Sun 2026-11-01 02:00 -05:00"},
		},
		"a window in an overlap": {
			zone: "America/New_York", windows: "DAILY 01:15-01:45", from: "2026-11-01 00:00", to: "2026-11-02 00:00",
			want: []string{"Sun 2026-11-01 01:15 -04:00 to Sun 2026-11-01 01:45 -05:00"},
		},
		"two windows in an overlap": {
			zone: "America/New_York", windows: "DAILY 01:00-01:15; DAILY 01:30-01:45", from: "2026-11-01 00:00", to: "2026-11-02 00:00",
			want: []string{"Sun 2026-11-01 01:00 -04:00 to Sun 2026-11-01 01:45 -05:00"},
		},
		"an overlap at midnight": {
			zone: "America/Havana", windows: "SAT 20:00-24:00", from: "2026-10-31 12:00", to: "2026-11-01 12:00",
			want: []string{"Sat 2026-10-31 20:00 -04:00 to Sun 2026-11-01 00:00 -05:00"},
		},

		// Zones that are unlike others.
		"half an hour forward": {
			zone: "Australia/Lord_Howe", windows: "SUN 02:15-05:00", from: "2026-10-04 00:00", to: "2026-10-05 00:00",
			want: []string{"Sun 2026-10-04 02:30 +11:00 to Sun 2026-10-04 05:00 +11:00"},
		},
		"half an hour back": {
			zone: "Australia/Lord_Howe", windows: "SUN 01:45-01:50", from: "2026-04-05 00:00", to: "2026-04-06 00:00",
			want: []string{"Sun 2026-04-05 01:45 +11:00 to Sun 2026-04-05 01:50 +10:30"},
		},
		"two hours forward": {
			zone: "Antarctica/Troll", windows: "SUN 00:30-02:59", from: "2026-03-29 00:00", to: "2026-03-30 00:00",
			want: []string{"Sun 2026-03-29 00:30 +00:00 to Sun 2026-03-29 03:00 +02:00"},
		},
		"two hours back": {
			zone: "Antarctica/Troll", windows: "SUN 01:00-01:01", from: "2026-10-25 00:00", to: "2026-10-26 00:00",
			want: []string{"Sun 2026-10-25 01:00 +02:00 to Sun 2026-10-25 01:01 +00:00"},
		},
		"clocks go back for Ramadan": {
			zone: "Africa/Casablanca", windows: "SUN 02:30-02:40", from: "2026-02-15 00:00", to: "2026-02-16 00:00",
			want: []string{"Sun 2026-02-15 02:30 +01:00 to Sun 2026-02-15 02:40 +00:00"},
		},
		"three quarters of an hour": {
			zone: "Asia/Kathmandu", windows: "SUN 20:00-06:00", from: "2026-02-15 00:00", to: "2026-02-16 00:00",
			want: []string{"Sun 2026-02-15 20:00 +05:45 to Mon 2026-02-16 06:00 +05:45"},
		},
		"a day that is left out": { // Friday, 30 December 2011
			zone: "Pacific/Apia", windows: "FRI 09:00-17:00", from: "2011-12-23 00:00", to: "2012-01-07 00:00",
			want: []string{
				"Fri 2011-12-23 09:00 -10:00 to Fri 2011-12-23 17:00 -10:00",
				"Fri 2012-01-06 09:00 +14:00 to Fri 2012-01-06 17:00 +14:00",
			},
		},
		"the night after a day that is left out": {
			zone: "Pacific/Apia", windows: "FRI 20:00-06:00", from: "2011-12-29 00:00", to: "2012-01-02 00:00",
			want: []string{"Sat 2011-12-31 00:00 +14:00 to Sat 2011-12-31 06:00 +14:00"},
		},
		"the night before a day that is left out": {
			zone: "Pacific/Apia", windows: "THU 20:00-06:00", from: "2011-12-29 00:00", to: "2012-01-02 00:00",
			want: []string{"Thu 2011-12-29 20:00 -10:00 to Sat 2011-12-31 00:00 +14:00"},
		},
		"a day that came twice": { // from 15:33 on 19 October 1867 back to 15:33 on the 18th
			zone: "America/Juneau", windows: "DAILY 12:00-13:00", from: "1867-10-17T12:00:00Z", to: "1867-10-20T12:00:00Z",
			want: []string{
				"Fri 1867-10-18 12:00 +15:02 to Fri 1867-10-18 13:00 +15:02",
				"Sat 1867-10-19 12:00 +15:02 to Sat 1867-10-19 13:00 -08:57",
			},
		},
		"beyond the tables, on the last day of a leap year": {
			zone: "America/New_York", windows: "DAILY 20:00-06:00", from: "2080-12-31 12:00", to: "2081-01-01 12:00",
			want: []string{"Tue 2080-12-31 20:00 -05:00 to Wed 2081-01-01 06:00 -05:00"},
		},
		"beyond the tables, in summer": {
			zone: "Europe/Berlin", windows: "SUN 02:30-06:00", from: "2080-03-31 00:00", to: "2080-04-01 00:00",
			want: []string{"Sun 2080-03-31 03:00 +02:00 to Sun 2080-03-31 06:00 +02:00"},
		},
		"long ago": {
			zone: "UTC", windows: "MON 20:00-06:00", from: "0001-01-01 12:00", to: "0001-01-02 12:00",
			want: []string{"Mon 0001-01-01 20:00 +00:00 to Tue 0001-01-02 06:00 +00:00"},
		},
		"far away": {
			zone: "UTC", windows: "FRI 20:00-06:00", from: "9999-12-31 12:00", to: "9999-12-31 23:00",
			want: []string{"Fri 9999-12-31 20:00 +00:00 to Sat 10000-01-01 06:00 +00:00"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.zone == "" {
				tc.zone = "Europe/Berlin"
			}
			z := zone(t, tc.zone)
			s := build(t, schedule.Spec{Timezone: tc.zone, OffHours: parse(tc.windows)})
			got := s.Intervals(instant(t, z, tc.from), instant(t, z, tc.to))
			if diff := cmp.Diff(tc.want, show(got)); diff != "" {
				t.Errorf("Intervals (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCron(t *testing.T) {
	tests := map[string]struct {
		zone     string // America/New_York by default
		windows  string
		from, to string
		want     []string
	}{
		"weeknights": {
			windows: "0 20 * * 1-5 | 0 6 * * *", from: "2026-10-09 12:00", to: "2026-10-12 12:00",
			want: []string{"Fri 2026-10-09 20:00 -04:00 to Sat 2026-10-10 06:00 -04:00"},
		},
		"the next end may be days away": {
			windows: "0 20 * * 1-5 | 0 6 * * 1-5", from: "2026-10-09 12:00", to: "2026-10-12 12:00",
			want: []string{"Fri 2026-10-09 20:00 -04:00 to Mon 2026-10-12 06:00 -04:00"},
		},
		"names and descriptors": {
			windows: "0 20 * OCT FRI | @daily", from: "2026-10-09 12:00", to: "2026-10-12 12:00",
			want: []string{"Fri 2026-10-09 20:00 -04:00 to Sat 2026-10-10 00:00 -04:00"},
		},
		"end in a gap": {
			windows: "0 20 * * * | 30 2 * * *", from: "2026-03-07 12:00", to: "2026-03-08 12:00",
			want: []string{"Sat 2026-03-07 20:00 -05:00 to Sun 2026-03-08 03:00 -04:00"},
		},
		"start in a gap": {
			windows: "15 2 * * * | 0 5 * * *", from: "2026-03-08 00:00", to: "2026-03-09 00:00",
			want: []string{"Sun 2026-03-08 03:00 -04:00 to Sun 2026-03-08 05:00 -04:00"},
		},
		"end in an overlap": {
			windows: "0 20 * * * | 30 1 * * *", from: "2026-10-31 12:00", to: "2026-11-01 12:00",
			want: []string{"Sat 2026-10-31 20:00 -04:00 to Sun 2026-11-01 01:30 -05:00"},
		},
		"start in an overlap": {
			windows: "30 1 * * * | 0 6 * * *", from: "2026-11-01 00:00", to: "2026-11-02 00:00",
			want: []string{"Sun 2026-11-01 01:30 -04:00 to Sun 2026-11-01 06:00 -05:00"},
		},
		"a firing of both is a start": {
			windows: "0 20 * * * | 0 * * * *", from: "2026-10-06 12:00", to: "2026-10-07 12:00",
			want: []string{"Tue 2026-10-06 20:00 -04:00 to Tue 2026-10-06 21:00 -04:00"},
		},
		"sleep goes on where both fire": {
			windows: "0 20,21 * * * | 0 * * * *", from: "2026-10-06 12:00", to: "2026-10-07 12:00",
			want: []string{"Tue 2026-10-06 20:00 -04:00 to Tue 2026-10-06 22:00 -04:00"},
		},
		"a start in every minute": {
			windows: "* 20-23,0-5 * * * | 0 6 * * *", from: "2026-10-06 12:00", to: "2026-10-07 12:00",
			want: []string{"Tue 2026-10-06 20:00 -04:00 to Wed 2026-10-07 06:00 -04:00"},
		},
		"two that take turns": {
			windows: "*/2 * * * * | 1-59/2 * * * *; 1-59/2 * * * * | */2 * * * *", from: "2026-10-06 12:00", to: "2026-10-07 12:00",
			want: []string{"? to ?"},
		},
		"day of month or of week": {
			windows: "0 0 13 * 5 | 0 12 * * *", from: "2026-10-08 00:00", to: "2026-10-15 00:00",
			want: []string{
				"Fri 2026-10-09 00:00 -04:00 to Fri 2026-10-09 12:00 -04:00",
				"Tue 2026-10-13 00:00 -04:00 to Tue 2026-10-13 12:00 -04:00",
			},
		},
		"the winter": {
			windows: "0 0 1 12 * | 0 0 1 3 *", from: "2026-12-24 00:00", to: "2026-12-25 00:00",
			want: []string{"Tue 2026-12-01 00:00 -05:00 to Mon 2027-03-01 00:00 -05:00"},
		},
		"four years, of which 400 days are seen": {
			windows: "0 0 1 3 * | 0 0 29 2 *", from: "2027-06-01 00:00", to: "2027-06-02 00:00",
			want: []string{"? to Tue 2028-02-29 00:00 -05:00"},
		},
		"beyond the tables, over the last day of a leap year": {
			windows: "0 12 1 1,7 * | 0 13 * * *", from: "2080-12-01 00:00", to: "2081-08-01 00:00",
			want: []string{
				"Wed 2081-01-01 12:00 -05:00 to Wed 2081-01-01 13:00 -05:00",
				"Tue 2081-07-01 12:00 -04:00 to Tue 2081-07-01 13:00 -04:00",
			},
		},
		"every fourth year": {
			windows: "0 0 29 2 * | 0 0 28 2 *", from: "2026-02-27 12:00", to: "2028-03-01 00:00",
			want: []string{"Tue 2028-02-29 00:00 -05:00 to Wed 2029-02-28 00:00 -05:00"},
		},
		"eight years, of which 400 days are seen": {
			zone:    "UTC",
			windows: "0 0 29 2 * | 1 0 29 2 *; 0 12 29 2 * | 0 11 29 2 *", from: "1903-01-01 00:00", to: "1903-01-02 00:00",
			want: []string{"? to ?"},
		},
		"far away, after eight years without a firing": {
			zone: "UTC", windows: "0 12 29 2 * | 0 11 29 2 *", from: "1904-02-29 10:00", to: "1904-03-01 00:00",
			want: []string{"? to Mon 1904-02-29 11:00 +00:00", "Mon 1904-02-29 12:00 +00:00 to ?"},
		},
		"a day that is left out": {
			zone: "Pacific/Apia", windows: "0 9 30 12 * | 0 17 1 1 *", from: "2011-12-29 00:00", to: "2012-01-02 00:00",
			want: []string{"Sat 2011-12-31 00:00 +14:00 to Sun 2012-01-01 17:00 +14:00"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.zone == "" {
				tc.zone = "America/New_York"
			}
			z := zone(t, tc.zone)
			s := build(t, schedule.Spec{Timezone: tc.zone, OffHours: parse(tc.windows)})
			got := s.Intervals(instant(t, z, tc.from), instant(t, z, tc.to))
			if diff := cmp.Diff(tc.want, show(got)); diff != "" {
				t.Errorf("Intervals (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAt(t *testing.T) {
	tests := map[string]struct {
		windows string
		now     string
		asleep  bool
		next    string // none by default
	}{
		"before the start":          {windows: "MON-FRI 20:00-06:00", now: "2026-10-09T19:59:59-04:00", next: "2026-10-09 20:00"},
		"at the start":              {windows: "MON-FRI 20:00-06:00", now: "2026-10-09 20:00", asleep: true, next: "2026-10-10 06:00"},
		"before the end":            {windows: "MON-FRI 20:00-06:00", now: "2026-10-10T05:59:59.999999999-04:00", asleep: true, next: "2026-10-10 06:00"},
		"at the end":                {windows: "MON-FRI 20:00-06:00", now: "2026-10-10 06:00", next: "2026-10-12 20:00"},
		"awake on Saturday":         {windows: "MON-FRI 20:00-06:00", now: "2026-10-10 10:00", next: "2026-10-12 20:00"},
		"awake after an hour":       {windows: "MON 23:30-00:30", now: "2026-10-06 12:00", next: "2026-10-12 23:30"},
		"the true end of two":       {windows: "DAILY 20:00-06:00; DAILY 05:00-09:00", now: "2026-10-06 04:00", asleep: true, next: "2026-10-06 09:00"},
		"the true end of three":     {windows: "FRI 20:00-06:00; SAT,SUN 00:00-24:00; MON 00:00-06:00", now: "2026-10-09 22:00", asleep: true, next: "2026-10-12 06:00"},
		"asked in another zone":     {windows: "DAILY 20:00-06:00", now: "2026-10-07T00:00:00Z", asleep: true, next: "2026-10-07 06:00"},
		"for ever":                  {windows: "DAILY 00:00-24:00", now: "2026-10-06 12:00", asleep: true},
		"for ever, by noon":         {windows: "DAILY 00:00-12:00; DAILY 12:00-00:00", now: "2026-10-06 12:00", asleep: true},
		"never":                     {windows: "", now: "2026-10-06 12:00"},
		"in a year":                 {windows: "0 0 1 10 * | 0 1 1 10 *", now: "2026-10-06 12:00", next: "2027-10-01 00:00"},
		"in more than 400 days":     {windows: "0 0 29 2 * | 0 0 1 3 *", now: "2026-10-06 12:00"},
		"on the last day in sight":  {windows: "0 0 29 2 * | 0 0 1 3 *", now: "2027-01-25T00:00:01-05:00", next: "2028-02-29 00:00"},
		"on the first out of sight": {windows: "0 0 29 2 * | 0 0 1 3 *", now: "2027-01-25 00:00"},
		"end of a long window":      {windows: "MON 22:00-21:30", now: "2026-10-06 21:15", asleep: true, next: "2026-10-06 21:30"},
		"end in a gap":              {windows: "DAILY 20:00-02:30", now: "2026-03-08 01:00", asleep: true, next: "2026-03-08 03:00"},
		"after an end in a gap":     {windows: "DAILY 20:00-02:30", now: "2026-03-08 03:00", next: "2026-03-08 20:00"},
		"between two ends":          {windows: "DAILY 20:00-01:30", now: "2026-11-01T01:45:00-04:00", asleep: true, next: "2026-11-01T01:30:00-05:00"},
	}
	z := zone(t, "America/New_York")
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := build(t, schedule.Spec{Timezone: "America/New_York", OffHours: parse(tc.windows)})
			want := schedule.State{Asleep: tc.asleep, Next: instant(t, z, tc.next)}
			got := s.At(instant(t, z, tc.now))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("At (-want +got):\n%s", diff)
			}
			if got.Next.IsZero() != (tc.next == "") || !got.Next.IsZero() && got.Next.Location().String() != "America/New_York" {
				t.Errorf("Next is %v", got.Next)
			}
		})
	}
}

func TestTransitions(t *testing.T) {
	z := zone(t, "America/New_York")
	s := build(t, schedule.Spec{Timezone: "America/New_York", OffHours: parse("DAILY 20:00-02:30")})
	transition := func(text string, asleep bool) schedule.Transition {
		return schedule.Transition{Time: instant(t, z, text), Asleep: asleep}
	}
	tests := map[string]struct {
		from, to string
		want     []schedule.Transition
	}{
		"over a gap": {
			from: "2026-03-07 12:00", to: "2026-03-08 12:00",
			want: []schedule.Transition{transition("2026-03-07 20:00", true), transition("2026-03-08 03:00", false)},
		},
		"without the first instant": {
			from: "2026-03-07 20:00", to: "2026-03-08 12:00",
			want: []schedule.Transition{transition("2026-03-08 03:00", false)},
		},
		"with the last instant": {
			from: "2026-03-07 12:00", to: "2026-03-08 03:00",
			want: []schedule.Transition{transition("2026-03-07 20:00", true), transition("2026-03-08 03:00", false)},
		},
		"with a start at the last instant": {
			from: "2026-03-07 12:00", to: "2026-03-07 20:00",
			want: []schedule.Transition{transition("2026-03-07 20:00", true)},
		},
		"none":      {from: "2026-03-07 12:00", to: "2026-03-07 13:00", want: nil},
		"no time":   {from: "2026-03-07 20:00", to: "2026-03-07 20:00", want: nil},
		"backwards": {from: "2026-03-08 20:00", to: "2026-03-07 20:00", want: nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := s.Transitions(instant(t, z, tc.from), instant(t, z, tc.to))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Transitions (-want +got):\n%s", diff)
			}
		})
	}
}

// The Schedule shares nothing with the Spec, and a monotonic clock changes nothing.
func TestSpecIsTheCallers(t *testing.T) {
	now := time.Now()
	spec := schedule.Spec{
		Timezone:   "UTC",
		OffHours:   []schedule.Window{{Start: "00:00", End: "24:00", Days: []string{now.UTC().Format("Mon")}}},
		Exceptions: []schedule.Exception{{Type: schedule.Suspend, From: now.Add(-time.Hour), Until: now.Add(time.Hour)}},
	}
	spec.OffHours[0].Days[0] = strings.ToUpper(spec.OffHours[0].Days[0])
	s := build(t, spec)
	want := s.At(now)
	if want.Asleep || want.Next.Location() != time.UTC {
		t.Errorf("At returns %+v", want)
	}
	spec.OffHours[0].Days[0] = "never"
	spec.Exceptions[0].Until = now
	if diff := cmp.Diff(want, s.At(now.Round(0))); diff != "" {
		t.Errorf("At (-want +got):\n%s", diff)
	}
}

// weekdays is the plan that most people have.
var weekdays = schedule.Spec{
	Timezone: "Europe/Berlin",
	OffHours: parse("MON-FRI 20:00-06:00; SAT,SUN 00:00-24:00"),
}

func BenchmarkNew(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := schedule.New(weekdays); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAt(b *testing.B) {
	holidays := weekdays
	for i := range 10 {
		from := time.Date(2026, time.Month(i+1), 1, 0, 0, 0, 0, time.UTC)
		holidays.Exceptions = append(holidays.Exceptions, schedule.Exception{
			Type: []schedule.ExceptionType{schedule.Extend, schedule.Suspend}[i%2],
			From: from, Until: from.AddDate(0, 0, 20), Windows: parse("DAILY 12:00-13:00"), LeadTime: time.Duration(i%2) * time.Hour,
		})
	}
	specs := []struct {
		name string
		spec schedule.Spec
	}{
		{"weekdays", weekdays},
		{"exceptions", holidays},
		{"cron", schedule.Spec{Timezone: "Europe/Berlin", OffHours: parse("0 20 * * 1-5 | 0 6 * * 1-5")}},
		{"cron in every minute", schedule.Spec{Timezone: "Europe/Berlin", OffHours: parse("* 20-23,0-5 * * * | 0 6 * * *")}},
		{"for ever", schedule.Spec{Timezone: "Europe/Berlin", OffHours: parse("DAILY 00:00-24:00")}},
		{"for ever by cron", schedule.Spec{Timezone: "Europe/Berlin", OffHours: parse("*/2 * * * * | 1-59/2 * * * *; 1-59/2 * * * * | */2 * * * *")}},
	}
	for _, bc := range specs {
		b.Run(bc.name, func(b *testing.B) {
			s := build(b, bc.spec)
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.At(now.Add(time.Duration(i%365) * 25 * time.Hour))
			}
		})
	}
}

// BenchmarkPreview measures the intervals of a week.
func BenchmarkPreview(b *testing.B) {
	s := build(b, weekdays)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		from := now.Add(time.Duration(i%365) * 25 * time.Hour)
		if len(s.Intervals(from, from.AddDate(0, 0, 7))) == 0 {
			b.Fatal("a week without off-hours")
		}
	}
}
