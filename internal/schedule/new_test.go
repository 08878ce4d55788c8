package schedule_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/labkeeper/labkeeper/internal/schedule"
)

func TestNewErrors(t *testing.T) {
	from := time.Date(2026, 12, 24, 0, 0, 0, 0, time.UTC)
	until := from.AddDate(0, 0, 3)
	window := parse("FRI 20:00-06:00")[0]
	tests := map[string]struct {
		zone       string // UTC by default
		windows    []schedule.Window
		exceptions []schedule.Exception
		want       []string
	}{
		"valid": {windows: parse("FRI 20:00-06:00; SUN 00:00-24:00; SAT 8:00-9:30; 0 20 * * * | 0 6 * * *; @daily | @hourly; 0 20 * 2 0-5 | 0 20 29 2 *; ? 0 1 1 ? | 0 0 2-30/2 JAN-MAR,12 sun")},

		"no zone":                   {zone: "-", want: []string{`timezone: is missing; write an IANA time zone like Europe/Berlin`}},
		"the machine's zone":        {zone: "Local", want: []string{`timezone: "Local" is not an IANA time zone; write one like Europe/Berlin`}},
		"another name of it":        {zone: "localtime", want: []string{`timezone: "localtime" is not an IANA time zone; write one like Europe/Berlin`}},
		"a zone with leap seconds":  {zone: "right/Europe/Berlin", want: []string{`timezone: "right/Europe/Berlin" is not an IANA time zone; write one like Europe/Berlin`}},
		"an unknown zone":           {zone: "Europe/Labville", want: []string{`timezone: "Europe/Labville" is not an IANA time zone; write one like Europe/Berlin`}},
		"a path":                    {zone: "../Europe/Berlin", want: []string{`timezone: "../Europe/Berlin" is not an IANA time zone; write one like Europe/Berlin`}},
		"an abbreviation by offset": {zone: "UTC+2", want: []string{`timezone: "UTC+2" is not an IANA time zone; write one like Europe/Berlin`}},

		"an empty window": {windows: []schedule.Window{{}}, want: []string{
			`offHours[0].start: is missing; write HH:MM`,
			`offHours[0].end: is missing; write HH:MM`,
			`offHours[0].daysOfWeek: is missing; list the days that the window starts on`,
		}},
		"times": {windows: parse("FRI 20:00-06:00; FRI 25:00-6:0; FRI 24:00-24:01; FRI 20:60- 6:00; FRI 20.00-06:00:00; FRI ٢٠:٠٠-24:00"), want: []string{
			`offHours[1].start: "25:00" is not a time of day; write HH:MM`,
			`offHours[1].end: "6:0" is not a time of day; write HH:MM`,
			`offHours[2].start: "24:00" ends a day; write 00:00`,
			`offHours[2].end: "24:01" is not a time of day; write HH:MM`,
			`offHours[3].start: "20:60" is not a time of day; write HH:MM`,
			`offHours[3].end: " 6:00" is not a time of day; write HH:MM`,
			`offHours[4].start: "20.00" is not a time of day; write HH:MM`,
			`offHours[4].end: "06:00:00" is not a time of day; write HH:MM`,
			`offHours[5].start: "٢٠:٠٠" is not a time of day; write HH:MM`,
		}},
		"start is end": {windows: parse("FRI 06:00-6:00; FRI 00:00-00:00"), want: []string{
			`offHours[0].end: is the same as start; write 00:00 and 24:00 for a whole day`,
			`offHours[1].end: is the same as start; write 00:00 and 24:00 for a whole day`,
		}},
		"days": {windows: parse("FRI,fri,MONDAY,FRI, 20:00-06:00"), want: []string{
			`offHours[0].daysOfWeek[1]: "fri" is none of MON, TUE, WED, THU, FRI, SAT and SUN`,
			`offHours[0].daysOfWeek[2]: "MONDAY" is none of MON, TUE, WED, THU, FRI, SAT and SUN`,
			`offHours[0].daysOfWeek[3]: FRI is there twice`,
			`offHours[0].daysOfWeek[4]: "" is none of MON, TUE, WED, THU, FRI, SAT and SUN`,
		}},

		"half a pair": {windows: parse("0 20 * * * | ; | 0 6 * * *"), want: []string{
			`offHours[0].endCron: is missing; a window has both startCron and endCron, or neither`,
			`offHours[1].startCron: is missing; a window has both startCron and endCron, or neither`,
		}},
		"both kinds": {windows: []schedule.Window{{Start: "20:00", End: "06:00", Days: []string{"FRI"}, StartCron: "0 20 * * *", EndCron: "0 6 * * *"}}, want: []string{
			`offHours[0].start: does not go with startCron and endCron`,
			`offHours[0].end: does not go with startCron and endCron`,
			`offHours[0].daysOfWeek: does not go with startCron and endCron`,
		}},
		"cron": {windows: parse("0 20 * * | 0 0 6 * * *; 61 * * * * | 0 6 * * 7; @every 1h | @reboot; TZ=UTC 0 20 * * * | CRON_TZ=UTC; */0 * * * * | x * * * *"), want: []string{
			`offHours[0].startCron: "0 20 * *" is not a cron expression: expected exactly 5 fields, found 4: [0 20 * *]`,
			`offHours[0].endCron: "0 0 6 * * *" is not a cron expression: expected exactly 5 fields, found 6: [0 0 6 * * *]`,
			`offHours[1].startCron: "61 * * * *" is not a cron expression: end of range (61) above maximum (59): 61`,
			`offHours[1].endCron: "0 6 * * 7" is not a cron expression: end of range (7) above maximum (6): 7; Sunday is 0 or SUN`,
			`offHours[2].startCron: "@every 1h" has no fixed times; write five fields`,
			`offHours[2].endCron: "@reboot" is not a cron expression: unrecognized descriptor: @reboot`,
			`offHours[3].startCron: "TZ=UTC 0 20 * * *" names a time zone; that of the schedule applies`,
			`offHours[3].endCron: "CRON_TZ=UTC" names a time zone; that of the schedule applies`,
			`offHours[4].startCron: "*/0 * * * *" is not a cron expression: step of range should be a positive number: */0`,
			`offHours[4].endCron: "x * * * *" is not a cron expression: failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax`,
		}},
		"cron that never fires": {windows: parse("0 0 30 2 * | 0 0 31 4,6,9,11 *; , * * * * | * , * * *; * * , * * | * * * , *; 0 0 29 2 * | 0 0 31 2 MON"), want: []string{
			`offHours[0].startCron: "0 0 30 2 *" never fires`,
			`offHours[0].endCron: "0 0 31 4,6,9,11 *" never fires`,
			`offHours[1].startCron: ", * * * *" never fires`,
			`offHours[1].endCron: "* , * * *" never fires`,
			`offHours[2].startCron: "* * , * *" never fires`,
			`offHours[2].endCron: "* * * , *" never fires`,
		}},
		"cron that does not end": {windows: parse("@daily | 0 0 * * *; 0 20 * * 0-6 | 0 20 * * *; * * 1 * * | 0 6 1 1 *; 0 20 * * 0-5 | 0 20 * * *; 0 0 29 2 * | 0 0 29 2 0-5"), want: []string{
			`offHours[0].endCron: fires only when startCron does; sleep would never end`,
			`offHours[1].endCron: fires only when startCron does; sleep would never end`,
			`offHours[2].endCron: fires only when startCron does; sleep would never end`,
		}},

		"an empty exception": {exceptions: []schedule.Exception{{}}, want: []string{
			`exceptions[0].type: is missing; write replace, extend or suspend`,
			`exceptions[0].validFrom: is missing`,
			`exceptions[0].validUntil: is missing`,
		}},
		"exceptions": {
			exceptions: []schedule.Exception{
				{Name: "easter", Type: schedule.Suspend, From: until, Until: from, LeadTime: -time.Second, Windows: parse("FRI 20:00-06:00; FRI 20:00-25:00")},
				{Type: "pause", From: from, Until: from, LeadTime: -1},
				{Type: schedule.Replace, From: from, Until: until, LeadTime: time.Hour},
				{Name: "ns/new-year", Type: schedule.Extend, From: from, Until: until, LeadTime: time.Hour, Windows: []schedule.Window{window, {StartCron: "@every 1s", EndCron: "@daily"}}},
				{Type: schedule.Suspend, From: from, Until: until, LeadTime: schedule.MaxLeadTime + 1},
				{Type: schedule.Suspend, From: from, Until: until, LeadTime: schedule.MaxLeadTime},
			},
			want: []string{
				`exception easter: exceptions[0].validUntil: is not after validFrom`,
				`exception easter: exceptions[0].leadTime: -1s is not between 0s and 720h0m0s`,
				`exception easter: exceptions[0].windows[1].end: "25:00" is not a time of day; write HH:MM`,
				`exceptions[1].type: "pause" is none of replace, extend and suspend`,
				`exceptions[1].validUntil: is not after validFrom`,
				`exceptions[2].leadTime: is for exceptions of type suspend`,
				`exceptions[2].windows: is missing; an exception of type replace needs a window`,
				`exception ns/new-year: exceptions[3].leadTime: is for exceptions of type suspend`,
				`exception ns/new-year: exceptions[3].windows[1].startCron: "@every 1s" has no fixed times; write five fields`,
				`exceptions[4].leadTime: 720h0m0.000000001s is not between 0s and 720h0m0s`,
			},
		},
		"exceptions without a window in their time": {
			zone: "America/Los_Angeles", // where they are from Wednesday, 16:00, to Saturday, 16:00
			exceptions: []schedule.Exception{
				{Name: "easter", Type: schedule.Suspend, From: from, Until: until, LeadTime: 48 * time.Hour, Windows: parse("SAT 18:00-06:00; SUN 00:00-24:00")},
				{Type: schedule.Extend, From: from, Until: until, Windows: parse("SAT 16:00-18:00; 0 16 26 12 * | 0 18 26 12 *; WED 15:00-16:00")},
				{Type: schedule.Suspend, From: from, Until: from.AddDate(0, 0, 300), Windows: parse("0 3 1 12 * | 0 4 1 12 *")},
				// That of the next is a gap, and of the last what is wrong with it is said alone.
				{Type: schedule.Suspend, From: time.Date(2027, 3, 14, 9, 0, 0, 0, time.UTC), Until: time.Date(2027, 3, 15, 7, 0, 0, 0, time.UTC), Windows: parse("SUN 02:00-03:00")},
				{Type: schedule.Suspend, From: from, Until: until, Windows: parse("0 18 * * SAT | 0 6 * * 7")},
			},
			want: []string{
				`exception easter: exceptions[0].windows: none of them is between validFrom and validUntil, which are Wed 2026-12-23 16:00 to Sat 2026-12-26 16:00 in America/Los_Angeles; move these, or correct the windows`,
				`exceptions[1].windows: none of them is between validFrom and validUntil, which are Wed 2026-12-23 16:00 to Sat 2026-12-26 16:00 in America/Los_Angeles; move these, or correct the windows`,
				`exceptions[2].windows: none of them is between validFrom and validUntil, which are Wed 2026-12-23 16:00 to Tue 2027-10-19 17:00 in America/Los_Angeles; move these, or correct the windows`,
				`exceptions[3].windows: none of them is between validFrom and validUntil, which are Sun 2027-03-14 01:00 to Mon 2027-03-15 00:00 in America/Los_Angeles; move these, or correct the windows`,
				`exceptions[4].windows[0].endCron: "0 6 * * 7" is not a cron expression: end of range (7) above maximum (6): 7; Sunday is 0 or SUN`,
			},
		},
		"exceptions with one, with all of the time, or that last longer than anybody looks": {
			zone: "America/Los_Angeles",
			exceptions: []schedule.Exception{
				{Type: schedule.Suspend, From: from, Until: until, Windows: parse("SUN 00:00-24:00; SAT 15:59-18:00")},
				{Type: schedule.Extend, From: from, Until: until, Windows: parse("WED 14:00-16:01")},
				{Type: schedule.Suspend, From: from, Until: until, LeadTime: time.Hour},
				{Type: schedule.Replace, From: from, Until: until, Windows: parse("SUN 00:00-24:00")}, // awake all the time
				{Type: schedule.Suspend, From: from, Until: from.AddDate(0, 0, 350), Windows: parse("0 3 1 12 * | 0 4 1 12 *")},
				{Type: schedule.Suspend, From: from, Until: from.Add(schedule.Horizon + 1), Windows: parse("0 3 29 2 * | 0 4 29 2 *")},
			},
		},
		"windows that change every other minute": {
			windows: parse(strings.Repeat("*/2 * * * * | 1-59/2 * * * *; ", 2) + "* 0-11 * * * | * 12-23 * * *"),
			exceptions: []schedule.Exception{{
				Name: "easter", Type: schedule.Suspend, From: from, Until: until, Windows: parse(strings.Repeat("*/2 * * * * | 1-59/2 * * * *; ", 63) + "FRI 20:00-06:00"),
			}},
			want: []string{
				`offHours: begin and end 2882 times a day, more than 2880; write fewer, or cron expressions that fire less often`,
				`exception easter: exceptions[0].windows: begin and end 90722 times a day, more than 2880; write fewer, or cron expressions that fire less often`,
			},
		},
		"everywhere": {zone: "-", windows: parse("FRI -06:00"), exceptions: []schedule.Exception{{Type: schedule.Suspend, From: from}}, want: []string{
			`timezone: is missing; write an IANA time zone like Europe/Berlin`,
			`offHours[0].start: is missing; write HH:MM`,
			`exceptions[0].validUntil: is missing`,
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			switch tc.zone {
			case "":
				tc.zone = "UTC"
			case "-":
				tc.zone = ""
			}
			s, err := schedule.New(schedule.Spec{Timezone: tc.zone, OffHours: tc.windows, Exceptions: tc.exceptions})
			if (s == nil) != (err != nil) {
				t.Errorf("Schedule is %v beside %v", s, err)
			}
			var all schedule.InvalidErrors
			errors.As(err, &all)
			var got []string
			for _, e := range all {
				got = append(got, e.Error())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Fatalf("problems (-want +got):\n%s", diff)
			}
			if err != nil && err.Error() != strings.Join(tc.want, "; ") {
				t.Errorf("message %q", err)
			}
		})
	}
}

func TestInvalidError(t *testing.T) {
	_, err := schedule.New(schedule.Spec{
		Timezone:   "UTC",
		Exceptions: []schedule.Exception{{Name: "easter", Type: schedule.Suspend, Until: time.Date(2026, 4, 6, 0, 0, 0, 0, time.UTC)}},
	})
	var got *schedule.InvalidError
	if !errors.As(fmt.Errorf("checking plan a: %w", err), &got) {
		t.Fatalf("error is %v", err)
	}
	want := &schedule.InvalidError{Path: "exceptions[0].validFrom", Exception: "easter", Problem: "is missing"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}

func TestLongMessageIsShort(t *testing.T) {
	_, err := schedule.New(schedule.Spec{Timezone: "UTC", OffHours: make([]schedule.Window, 1000)})
	if err == nil || len(err.Error()) > 2048 || !strings.HasSuffix(err.Error(), "; (2980 more)") {
		t.Errorf("message is %.3000v", err)
	}
	var all schedule.InvalidErrors
	if !errors.As(err, &all) || len(all) != 3000 {
		t.Errorf("%d problems, want 3000", len(all))
	}
}
