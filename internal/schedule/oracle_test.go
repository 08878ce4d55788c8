package schedule_test

import (
	"archive/zip"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/robfig/cron/v3"

	"github.com/labkeeper/labkeeper/internal/schedule"
)

var everyZone = flag.Bool("schedule.all", false, "compare schedules with the oracle in every zone of IANA whose clocks change, in several decades")

// sampledZones are unlike each other: half an hour and two hours of summer time, Ramadan, gaps and
// overlaps at midnight, one before it, halves and quarters of an hour, both hemispheres, none.
var sampledZones = []string{
	"Australia/Lord_Howe", "Antarctica/Troll", "Africa/Casablanca", "Africa/Cairo", "America/Havana", "America/Nuuk",
	"America/St_Johns", "Pacific/Chatham", "America/New_York", "Europe/Berlin", "Europe/Dublin", "Asia/Kathmandu",
}

// TestOracle compares random schedules over two years with the oracle.
func TestOracle(t *testing.T) {
	if *everyZone {
		for _, year := range []int{1993, 2011, 2026, 2039} {
			for _, name := range zoneNames(t) {
				compare(t, name, year, 3)
			}
		}
		return
	}
	compare(t, "Pacific/Apia", 2011, 4)        // leaves out 30 December 2011
	compare(t, "Pacific/Kwajalein", 1993, 2)   // leaves out 21 August 1993
	compare(t, "Europe/Lisbon", 1991, 2)       // changes its zone as clocks change
	compare(t, "America/New_York", 2039, 2)    // beyond the table of the zone, with a leap year
	compare(t, "Australia/Melbourne", 2039, 2) // the same with summer at New Year
	for _, name := range sampledZones {
		compare(t, name, 2026, 2)
	}
}

// zoneNames returns the names of the zones that are not just other names of one before.
func zoneNames(t *testing.T) []string {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	file, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var names []string
	seen := map[uint32]bool{}
	for _, f := range file.File {
		if !f.FileInfo().IsDir() && !seen[f.CRC32] {
			seen[f.CRC32] = true
			names = append(names, f.Name)
		}
	}
	return names
}

// compare runs so many random schedules in a zone, if its clocks change within two years.
func compare(t *testing.T, name string, year, count int) {
	o := newOracle(t, name, year)
	if *everyZone && !o.changes {
		return
	}
	t.Run(fmt.Sprintf("%s %d", name, year), func(t *testing.T) {
		for i := range count {
			hash := fnv.New64a()
			fmt.Fprint(hash, name, year, i)
			r := rand.New(rand.NewPCG(hash.Sum64(), 1))
			o.compare(t, r, randomSpec(r, o))
		}
	})
}

// margin is how many minutes before and after the two years the oracle knows, so that windows and
// lead times that reach into them are whole. Random windows and lead times are shorter.
const margin = 20 * 24 * 60

// oracle knows what the wall clock of a zone shows in each minute of two years. It decides minute by
// minute, and shares no code with the package.
type oracle struct {
	zone    *time.Location
	start   time.Time // of minute 0
	changes bool

	walls       []int32 // by minute: what the clock shows, in minutes since start
	low         int32   // least of them
	first, last []int32 // by what the clock shows, less low: the first and the last minute in which it does; if
	// there is none, the first in which it shows more
}

func newOracle(t *testing.T, name string, year int) *oracle {
	t.Helper()
	o := &oracle{zone: zone(t, name)}
	o.start = time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).Add(-margin * time.Minute)
	o.walls = make([]int32, 2*366*24*60+2*margin)
	high := int32(-1 << 31)
	for i := range o.walls {
		_, offset := o.start.Add(time.Duration(i) * time.Minute).In(o.zone).Zone()
		if offset%60 != 0 {
			t.Fatalf("%s has an offset of %d seconds in %d", name, offset, year)
		}
		wall := int32(i + offset/60)
		if i == 0 {
			o.low, high = wall, wall-1
		}
		o.changes = o.changes || i > 0 && wall != o.walls[i-1]+1
		o.walls[i] = wall
		for high < wall {
			high++
			o.first = append(o.first, int32(i))
			o.last = append(o.last, int32(i))
		}
		if wall >= o.low {
			o.last[wall-o.low] = int32(i)
		}
	}
	return o
}

// minutes that the oracle compares.
func (o *oracle) bounds() (from, to int) { return margin, len(o.walls) - margin }

func (o *oracle) instant(minute int) time.Time {
	return o.start.Add(time.Duration(minute) * time.Minute)
}

// mark marks the minutes from a wall time to another, in the oracle's minutes.
func (o *oracle) mark(asleep []bool, from, to int) {
	clamp := func(wall int) int { return min(max(wall-int(o.low), 0), len(o.first)-1) }
	for i := o.first[clamp(from)]; i < o.last[clamp(to)]; i++ {
		asleep[i] = true
	}
}

// windows returns the minutes in which windows are asleep.
func (o *oracle) windows(t *testing.T, list []schedule.Window) []bool {
	asleep := make([]bool, len(o.walls))
	clock := func(text string) int {
		at, err := strconv.Atoi(text[:2] + text[3:])
		if err != nil {
			t.Fatal(err)
		}
		return at/100*60 + at%100
	}
	for _, w := range list {
		if w.StartCron != "" {
			o.cron(t, asleep, w)
			continue
		}
		length := clock(w.End) - clock(w.Start)
		if length <= 0 {
			length += 24 * 60
		}
		// The calendar goes on even if a zone leaves out a day.
		for d := range len(o.walls)/(24*60) - 2 {
			date := o.start.AddDate(0, 0, d)
			if slices.Contains(w.Days, strings.ToUpper(date.Format("Mon"))) {
				o.mark(asleep, d*24*60+clock(w.Start), d*24*60+clock(w.Start)+length)
			}
		}
	}
	return asleep
}

// cron takes every firing of StartCron for itself, on a clock without zones.
func (o *oracle) cron(t *testing.T, asleep []bool, w schedule.Window) {
	parser := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
	starts, err := parser.Parse(w.StartCron)
	if err != nil {
		t.Fatal(err)
	}
	ends, err := parser.Parse(w.EndCron)
	if err != nil {
		t.Fatal(err)
	}
	limit := o.instant(len(o.walls))
	for start := starts.Next(o.start); start.Before(limit); start = starts.Next(start) {
		o.mark(asleep, int(start.Sub(o.start)/time.Minute), int(ends.Next(start).Sub(o.start)/time.Minute))
	}
}

// each calls do with the exceptions of one type: with the minutes in which each applies, and in which
// its windows are asleep, or all if there are none. Exceptions begin and end with minutes.
func (o *oracle) each(t *testing.T, spec schedule.Spec, kind schedule.ExceptionType, do func(e schedule.Exception, from, until int, windows []bool)) {
	for _, e := range spec.Exceptions {
		if e.Type != kind {
			continue
		}
		windows := slices.Repeat([]bool{true}, len(o.walls))
		if len(e.Windows) > 0 {
			windows = o.windows(t, e.Windows)
		}
		do(e, int(e.From.Sub(o.start)/time.Minute), min(int(e.Until.Sub(o.start)/time.Minute), len(o.walls)), windows)
	}
}

// spec returns the minutes in which a Spec is asleep.
func (o *oracle) spec(t *testing.T, spec schedule.Spec) []bool {
	asleep := o.windows(t, spec.OffHours)
	o.each(t, spec, schedule.Replace, func(_ schedule.Exception, from, until int, _ []bool) {
		clear(asleep[from:until])
	})
	for _, kind := range []schedule.ExceptionType{schedule.Replace, schedule.Extend} {
		o.each(t, spec, kind, func(_ schedule.Exception, from, until int, windows []bool) {
			for i := from; i < until; i++ {
				asleep[i] = asleep[i] || windows[i]
			}
		})
	}
	early := make([]bool, len(asleep)) // nothing may begin in these minutes
	o.each(t, spec, schedule.Suspend, func(e schedule.Exception, from, until int, windows []bool) {
		for i := from; i < until; i++ {
			asleep[i] = asleep[i] && !windows[i]
			if windows[i] && (i == from || !windows[i-1]) {
				lead := int(e.LeadTime / time.Minute)
				copy(early[i-lead:i], slices.Repeat([]bool{true}, lead))
			}
		}
	})
	dropped := false
	for i, before := range asleep[:len(asleep)-1] {
		dropped = asleep[i+1] && (dropped || !before && early[i+1])
		asleep[i+1] = asleep[i+1] && !dropped
	}
	return asleep
}

// accepted returns the exceptions of a Spec but those that extend or suspend, and have windows, of which none is in their time: New is to
// refuse these, and no others.
func (o *oracle) accepted(t *testing.T, spec schedule.Spec) (accepted []schedule.Exception) {
	t.Helper()
	for _, e := range spec.Exceptions {
		_, err := schedule.New(schedule.Spec{Timezone: spec.Timezone, Exceptions: []schedule.Exception{e}})
		from, until := int(e.From.Sub(o.start)/time.Minute), int(e.Until.Sub(o.start)/time.Minute)
		idle := until <= len(o.walls) && e.Type != schedule.Replace && len(e.Windows) > 0 && !slices.Contains(o.windows(t, e.Windows)[from:until], true)
		switch {
		case idle != (err != nil) && until <= len(o.walls): // else only New sees all of it
			t.Errorf("New of %+v returns %v", e, err)
		case err == nil:
			accepted = append(accepted, e)
		}
	}
	return accepted
}

func (o *oracle) compare(t *testing.T, r *rand.Rand, spec schedule.Spec) {
	t.Helper()
	spec.Timezone = o.zone.String()
	spec.Exceptions = o.accepted(t, spec)
	s := build(t, spec)
	asleep := o.spec(t, spec)
	from, to := o.bounds()

	var want []schedule.Transition
	for i := from + 1; i <= to; i++ {
		if asleep[i] != asleep[i-1] {
			want = append(want, schedule.Transition{Time: o.instant(i), Asleep: asleep[i]})
		}
	}
	got := s.Transitions(o.instant(from), o.instant(to))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%+v\nTransitions (-want +got):\n%s", spec, diff)
	}
	for range 50 {
		i := from + r.IntN(to-from)
		if len(want) > 0 && r.IntN(2) == 0 { // about a change
			i = int(want[r.IntN(len(want))].Time.Sub(o.start)/time.Minute) - r.IntN(2)
		}
		state := schedule.State{Asleep: asleep[i]}
		horizon := i + int(schedule.Horizon/time.Minute)
		next := i
		for next < min(horizon, to) && asleep[next] == asleep[i] {
			next++
		}
		switch next {
		case horizon:
		case to: // who knows
			continue
		default:
			state.Next = o.instant(next)
		}
		if diff := cmp.Diff(state, s.At(o.instant(i))); diff != "" {
			t.Fatalf("%+v\nAt(%v) (-want +got):\n%s", spec, o.instant(i).In(o.zone), diff)
		}
	}
}

func randomSpec(r *rand.Rand, o *oracle) schedule.Spec {
	spec := schedule.Spec{OffHours: randomWindows(r, 1+r.IntN(3))}
	from, to := o.bounds()
	for range r.IntN(12) {
		at := from + r.IntN(to-from)
		e := schedule.Exception{
			Type:  []schedule.ExceptionType{schedule.Replace, schedule.Extend, schedule.Suspend}[r.IntN(3)],
			From:  o.instant(at),
			Until: o.instant(at + 1 + r.IntN(60*24*60)),
		}
		if e.Type != schedule.Suspend {
			e.Windows = randomWindows(r, 1+r.IntN(2))
		} else {
			e.Windows = randomWindows(r, r.IntN(2))
			e.LeadTime = time.Duration(max(r.IntN(48*60)-24*60, 0)) * time.Minute
		}
		spec.Exceptions = append(spec.Exceptions, e)
	}
	return spec
}

// randomWindows prefers the hours in which clocks change.
func randomWindows(r *rand.Rand, count int) []schedule.Window {
	var list []schedule.Window
	minuteOf := func() int { return r.IntN(4) * 15 * r.IntN(2) }
	hourOf := func() int { return []int{r.IntN(24), r.IntN(4), 23}[r.IntN(3)] }
	for range count {
		if r.IntN(4) == 0 {
			days := []string{"*", "1-5", "6", "0,3", "*"}
			list = append(list, schedule.Window{
				StartCron: fmt.Sprintf("%d %d * * %s", minuteOf(), hourOf(), days[r.IntN(5)]),
				EndCron:   fmt.Sprintf("59 %d * * %s", hourOf(), days[r.IntN(5)]),
			})
			continue
		}
		w := schedule.Window{Start: fmt.Sprintf("%02d:%02d", hourOf(), minuteOf()), End: fmt.Sprintf("%02d:%02d", hourOf(), minuteOf())}
		if w.Start == w.End || r.IntN(6) == 0 {
			w.End = "24:00"
		}
		for _, i := range r.Perm(7)[:1+r.IntN(7)] {
			w.Days = append(w.Days, dayNames[i])
		}
		list = append(list, w)
	}
	return list
}
