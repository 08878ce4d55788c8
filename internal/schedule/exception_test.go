package schedule_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/labkeeper/labkeeper/internal/schedule"
)

func TestExceptions(t *testing.T) {
	type exception struct {
		kind        schedule.ExceptionType
		from, until string
		lead        time.Duration
		windows     string
	}
	const nights = "MON-FRI 20:00-06:00"
	tests := map[string]struct {
		windows    string
		exceptions []exception
		from, to   string // Friday, 9 October 2026, noon to Monday noon by default
		want       []string
	}{
		"replace": {
			windows:    nights,
			exceptions: []exception{{kind: schedule.Replace, from: "2026-10-09 00:00", until: "2026-10-12 00:00", windows: "DAILY 22:00-04:00"}},
			want: []string{
				"Fri 2026-10-09 22:00 +02:00 to Sat 2026-10-10 04:00 +02:00",
				"Sat 2026-10-10 22:00 +02:00 to Sun 2026-10-11 04:00 +02:00",
				"Sun 2026-10-11 22:00 +02:00 to Mon 2026-10-12 00:00 +02:00",
			},
		},
		"replace cuts what it is in": {
			windows:    nights,
			exceptions: []exception{{kind: schedule.Replace, from: "2026-10-09 22:00", until: "2026-10-09 23:00", windows: "SUN 12:00-13:00"}},
			want: []string{
				"Fri 2026-10-09 20:00 +02:00 to Fri 2026-10-09 22:00 +02:00",
				"Fri 2026-10-09 23:00 +02:00 to Sat 2026-10-10 06:00 +02:00",
			},
		},
		"replace by a window that began before it": {
			windows:    nights,
			exceptions: []exception{{kind: schedule.Replace, from: "2026-10-10 00:00", until: "2026-10-11 00:00", windows: "FRI 21:00-02:00"}},
			want:       []string{"Fri 2026-10-09 20:00 +02:00 to Sat 2026-10-10 02:00 +02:00"},
		},
		"replaces that overlap are united": {
			windows: nights,
			exceptions: []exception{
				{kind: schedule.Replace, from: "2026-10-09 12:00", until: "2026-10-11 00:00", windows: "DAILY 22:00-23:00"},
				{kind: schedule.Replace, from: "2026-10-10 00:00", until: "2026-10-12 00:00", windows: "DAILY 22:30-23:30"},
			},
			want: []string{
				"Fri 2026-10-09 22:00 +02:00 to Fri 2026-10-09 23:00 +02:00",
				"Sat 2026-10-10 22:00 +02:00 to Sat 2026-10-10 23:30 +02:00",
				"Sun 2026-10-11 22:30 +02:00 to Sun 2026-10-11 23:30 +02:00",
			},
		},
		"extend": {
			windows:    nights,
			exceptions: []exception{{kind: schedule.Extend, from: "2026-10-10 00:00", until: "2026-10-11 18:00", windows: "FRI 22:00-08:00; SAT,SUN 08:00-24:00"}},
			want: []string{
				"Fri 2026-10-09 20:00 +02:00 to Sun 2026-10-11 00:00 +02:00",
				"Sun 2026-10-11 08:00 +02:00 to Sun 2026-10-11 18:00 +02:00",
			},
		},
		"extend by cron": {
			windows:    nights,
			exceptions: []exception{{kind: schedule.Extend, from: "2026-10-10 12:00", until: "2026-10-11 12:00", windows: "0 0 1 10 * | 0 0 1 11 *"}},
			want: []string{
				"Fri 2026-10-09 20:00 +02:00 to Sat 2026-10-10 06:00 +02:00",
				"Sat 2026-10-10 12:00 +02:00 to Sun 2026-10-11 12:00 +02:00",
			},
		},
		"extends that overlap are united": {
			exceptions: []exception{
				{kind: schedule.Extend, from: "2026-10-10 00:00", until: "2026-10-11 00:00", windows: "DAILY 12:00-14:00"},
				{kind: schedule.Extend, from: "2026-10-10 13:00", until: "2026-10-11 00:00", windows: "DAILY 12:00-15:00"},
			},
			want: []string{"Sat 2026-10-10 12:00 +02:00 to Sat 2026-10-10 15:00 +02:00"},
		},
		"extend adds to replace": {
			windows: nights,
			exceptions: []exception{
				{kind: schedule.Extend, from: "2026-10-09 00:00", until: "2026-10-10 00:00", windows: "FRI 23:00-24:00"},
				{kind: schedule.Replace, from: "2026-10-09 00:00", until: "2026-10-11 00:00", windows: "FRI 22:00-22:30"},
			},
			want: []string{
				"Fri 2026-10-09 22:00 +02:00 to Fri 2026-10-09 22:30 +02:00",
				"Fri 2026-10-09 23:00 +02:00 to Sat 2026-10-10 00:00 +02:00",
			},
		},
		"suspend": {
			windows:    nights,
			exceptions: []exception{{kind: schedule.Suspend, from: "2026-10-09 22:00", until: "2026-10-10 02:00"}},
			want: []string{
				"Fri 2026-10-09 20:00 +02:00 to Fri 2026-10-09 22:00 +02:00",
				"Sat 2026-10-10 02:00 +02:00 to Sat 2026-10-10 06:00 +02:00",
			},
		},
		"suspend in windows only": {
			windows:    nights,
			exceptions: []exception{{kind: schedule.Suspend, from: "2026-10-09 00:00", until: "2026-10-10 05:00", windows: "DAILY 21:00-22:00; DAILY 04:00-08:00"}},
			want: []string{
				"Fri 2026-10-09 20:00 +02:00 to Fri 2026-10-09 21:00 +02:00",
				"Fri 2026-10-09 22:00 +02:00 to Sat 2026-10-10 04:00 +02:00",
				"Sat 2026-10-10 05:00 +02:00 to Sat 2026-10-10 06:00 +02:00",
			},
		},
		"suspend takes from replace and extend, listed in any order": {
			windows: nights,
			exceptions: []exception{
				{kind: schedule.Suspend, from: "2026-10-10 00:00", until: "2026-10-10 12:00"},
				{kind: schedule.Extend, from: "2026-10-10 00:00", until: "2026-10-11 00:00", windows: "SAT 08:00-14:00"},
				{kind: schedule.Replace, from: "2026-10-09 00:00", until: "2026-10-11 00:00", windows: "FRI 22:00-06:00"},
			},
			want: []string{
				"Fri 2026-10-09 22:00 +02:00 to Sat 2026-10-10 00:00 +02:00",
				"Sat 2026-10-10 12:00 +02:00 to Sat 2026-10-10 14:00 +02:00",
			},
		},
		"nothing is left": {
			windows:    nights,
			exceptions: []exception{{kind: schedule.Suspend, from: "2026-10-09 20:00", until: "2026-10-10 06:00"}},
			want:       nil,
		},

		"lead time": {
			windows:    nights,
			exceptions: []exception{{kind: schedule.Suspend, from: "2026-10-09 22:00", until: "2026-10-10 02:00", lead: 3 * time.Hour}},
			want:       []string{"Sat 2026-10-10 02:00 +02:00 to Sat 2026-10-10 06:00 +02:00"},
		},
		"lead time to the start is enough": {
			windows:    nights,
			exceptions: []exception{{kind: schedule.Suspend, from: "2026-10-09 22:00", until: "2026-10-10 02:00", lead: 2 * time.Hour}},
			want:       []string{"Sat 2026-10-10 02:00 +02:00 to Sat 2026-10-10 06:00 +02:00"},
		},
		"lead time that begins after the start": {
			windows:    nights,
			exceptions: []exception{{kind: schedule.Suspend, from: "2026-10-09 22:00", until: "2026-10-10 02:00", lead: 2*time.Hour - 1}},
			want: []string{
				"Fri 2026-10-09 20:00 +02:00 to Fri 2026-10-09 22:00 +02:00",
				"Sat 2026-10-10 02:00 +02:00 to Sat 2026-10-10 06:00 +02:00",
			},
		},
		"lead time of windows": {
			windows:    "DAILY 20:00-06:00",
			exceptions: []exception{{kind: schedule.Suspend, from: "2026-10-09 00:00", until: "2026-10-14 00:00", lead: 3 * time.Hour, windows: "SAT 22:00-23:00; MON 02:00-03:00"}},
			want: []string{
				"Fri 2026-10-09 20:00 +02:00 to Sat 2026-10-10 06:00 +02:00",
				"Sat 2026-10-10 23:00 +02:00 to Sun 2026-10-11 06:00 +02:00",
				"Sun 2026-10-11 20:00 +02:00 to Mon 2026-10-12 02:00 +02:00",
				"Mon 2026-10-12 03:00 +02:00 to Mon 2026-10-12 06:00 +02:00",
			},
		},
		"lead time drops what ends before the stretch": {
			windows:    "SAT 12:00-12:30; SAT 08:00-09:00",
			exceptions: []exception{{kind: schedule.Suspend, from: "2026-10-10 14:00", until: "2026-10-10 15:00", lead: 3 * time.Hour}},
			want:       []string{"Sat 2026-10-10 08:00 +02:00 to Sat 2026-10-10 09:00 +02:00"},
		},
		"lead time goes by the start of merged windows": {
			windows:    "SAT 08:00-12:00; SAT 12:00-18:00",
			exceptions: []exception{{kind: schedule.Suspend, from: "2026-10-10 14:00", until: "2026-10-10 15:00", lead: 3 * time.Hour}},
			want: []string{
				"Sat 2026-10-10 08:00 +02:00 to Sat 2026-10-10 14:00 +02:00",
				"Sat 2026-10-10 15:00 +02:00 to Sat 2026-10-10 18:00 +02:00",
			},
		},
		"lead time between the windows of one suspension": {
			windows:    "SAT 08:00-20:00",
			exceptions: []exception{{kind: schedule.Suspend, from: "2026-10-10 00:00", until: "2026-10-11 00:00", lead: time.Hour, windows: "SAT 12:00-13:00; SAT 14:00-15:00"}},
			want: []string{
				"Sat 2026-10-10 08:00 +02:00 to Sat 2026-10-10 12:00 +02:00",
				"Sat 2026-10-10 15:00 +02:00 to Sat 2026-10-10 20:00 +02:00",
			},
		},
		"lead time after another suspension": {
			windows: "SAT 08:00-20:00",
			exceptions: []exception{
				{kind: schedule.Suspend, from: "2026-10-10 14:00", until: "2026-10-10 15:00", lead: time.Hour},
				{kind: schedule.Suspend, from: "2026-10-10 12:00", until: "2026-10-10 13:00"},
			},
			want: []string{
				"Sat 2026-10-10 08:00 +02:00 to Sat 2026-10-10 12:00 +02:00",
				"Sat 2026-10-10 15:00 +02:00 to Sat 2026-10-10 20:00 +02:00",
			},
		},
		"lead time begins with the first of windows that touch": {
			windows:    "SAT 10:00-20:00",
			exceptions: []exception{{kind: schedule.Suspend, from: "2026-10-10 00:00", until: "2026-10-11 00:00", lead: 3 * time.Hour, windows: "SAT 14:00-15:00; SAT 12:00-14:00"}},
			want:       []string{"Sat 2026-10-10 15:00 +02:00 to Sat 2026-10-10 20:00 +02:00"},
		},
		"lead time and a start by an extension": {
			exceptions: []exception{
				{kind: schedule.Extend, from: "2026-10-10 11:00", until: "2026-10-10 13:00", windows: "SAT 08:00-20:00"},
				{kind: schedule.Suspend, from: "2026-10-10 12:00", until: "2026-10-10 12:30", lead: time.Hour},
			},
			want: []string{"Sat 2026-10-10 12:30 +02:00 to Sat 2026-10-10 13:00 +02:00"},
		},
		"lead time of a suspension after what is asked": {
			windows:    nights,
			exceptions: []exception{{kind: schedule.Suspend, from: "2026-10-09 22:00", until: "2026-10-10 02:00", lead: 3 * time.Hour}},
			from:       "2026-10-09 20:30", to: "2026-10-09 21:00",
			want: nil,
		},
		"lead time that a long sleep began before": {
			windows:    "DAILY 00:00-24:00",
			exceptions: []exception{{kind: schedule.Suspend, from: "2026-10-09 22:00", until: "2026-10-10 02:00", lead: schedule.MaxLeadTime}},
			want: []string{
				"? to Fri 2026-10-09 22:00 +02:00",
				"Sat 2026-10-10 02:00 +02:00 to ?",
			},
		},

		// Clocks of Berlin go from 02:00 to 03:00 on 29 March 2026 and from 03:00 to 02:00 on 25 October.
		"replace across midnight and a gap": {
			windows:    nights,
			exceptions: []exception{{kind: schedule.Replace, from: "2026-03-28 22:00", until: "2026-03-29 05:00", windows: "SAT 20:00-02:30; SUN 04:00-12:00"}},
			from:       "2026-03-28 12:00", to: "2026-03-29 12:00",
			want: []string{
				"Sat 2026-03-28 22:00 +01:00 to Sun 2026-03-29 03:00 +02:00",
				"Sun 2026-03-29 04:00 +02:00 to Sun 2026-03-29 05:00 +02:00",
			},
		},
		"extend in half of an overlap": {
			exceptions: []exception{{kind: schedule.Extend, from: "2026-10-25T02:30:00+02:00", until: "2026-10-25T02:45:00+01:00", windows: "SUN 00:00-24:00"}},
			from:       "2026-10-24 12:00", to: "2026-10-25 12:00",
			want: []string{"Sun 2026-10-25 02:30 +02:00 to Sun 2026-10-25 02:45 +01:00"},
		},
		"suspend across midnight and an overlap": {
			windows:    "DAILY 20:00-06:00",
			exceptions: []exception{{kind: schedule.Suspend, from: "2026-10-24 00:00", until: "2026-10-26 00:00", windows: "SAT 23:00-02:30"}},
			from:       "2026-10-24 12:00", to: "2026-10-25 12:00",
			want: []string{
				"Sat 2026-10-24 20:00 +02:00 to Sat 2026-10-24 23:00 +02:00",
				"Sun 2026-10-25 02:30 +01:00 to Sun 2026-10-25 06:00 +01:00",
			},
		},
		"lead time is real time across an overlap": {
			windows:    "SUN 01:00-12:00",
			exceptions: []exception{{kind: schedule.Suspend, from: "2026-10-25 04:00", until: "2026-10-25 05:00", lead: 3 * time.Hour}},
			from:       "2026-10-24 12:00", to: "2026-10-25 11:00",
			want: []string{
				"Sun 2026-10-25 01:00 +02:00 to Sun 2026-10-25 04:00 +01:00",
				"Sun 2026-10-25 05:00 +01:00 to Sun 2026-10-25 12:00 +01:00",
			},
		},
		"lead time over an overlap, of which only the time before is asked": {
			windows:    "WED 20:30-22:00", // nine days and eight and a half hours before
			exceptions: []exception{{kind: schedule.Suspend, from: "2026-10-31 00:00", until: "2026-11-01 00:00", lead: (9*24 + 8) * time.Hour, windows: "SAT 04:00-05:00"}},
			from:       "2026-10-21 20:00", to: "2026-10-21 23:00",
			want: []string{"Wed 2026-10-21 20:30 +02:00 to Wed 2026-10-21 22:00 +02:00"},
		},
		"seconds": {
			windows:    nights,
			exceptions: []exception{{kind: schedule.Suspend, from: "2026-10-09T18:00:30Z", until: "2026-10-10 02:00"}},
			from:       "2026-10-09 12:00", to: "2026-10-10 02:00",
			want: []string{"Fri 2026-10-09 20:00 +02:00 to Fri 2026-10-09 20:00:30 +02:00"},
		},
		"suspended for all time": {
			windows:    "DAILY 00:00-24:00",
			exceptions: []exception{{kind: schedule.Suspend, from: "0001-01-02T00:00:00Z", until: "9999-12-31T00:00:00Z", lead: schedule.MaxLeadTime}},
			want:       nil,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			z := zone(t, "Europe/Berlin")
			spec := schedule.Spec{Timezone: "Europe/Berlin", OffHours: parse(tc.windows)}
			for _, e := range tc.exceptions {
				spec.Exceptions = append(spec.Exceptions, schedule.Exception{
					Type: e.kind, From: instant(t, z, e.from), Until: instant(t, z, e.until), LeadTime: e.lead, Windows: parse(e.windows),
				})
			}
			if tc.from == "" {
				tc.from, tc.to = "2026-10-09 12:00", "2026-10-12 12:00"
			}
			from, to := instant(t, z, tc.from), instant(t, z, tc.to)
			got := build(t, spec).Intervals(from, to)
			if diff := cmp.Diff(tc.want, show(got)); diff != "" {
				t.Errorf("Intervals (-want +got):\n%s", diff)
			}
			slices.Reverse(spec.Exceptions)
			if diff := cmp.Diff(got, build(t, spec).Intervals(from, to)); diff != "" {
				t.Errorf("Intervals with exceptions in reverse (-listed +reversed):\n%s", diff)
			}
		})
	}
}
