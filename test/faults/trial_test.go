package faults

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// several is a plan with a fault at two writes.
func several() Plan { return Plan{Workload: Workload{Name: "w"}, Fault: Fault{Mode: Crash}}.at(3, 9) }

func TestSuspect(t *testing.T) {
	for _, c := range []struct {
		found  Finding
		broken bool
	}{
		{Finding{"O3", "there without its owner"}, true}, {Finding{"O7", "went from rank 2 back to 1"}, true},
		{Finding{"O8", panicked}, true}, {Finding{"O9", "a cluster goes before its Application"}, true},
		{Finding{"O1", "the end is another"}, false}, {Finding{"O5", "done after 9 s, and it may take 8 s"}, false},
	} {
		told := 0
		tr := &trial{Trial: Trial{Told: func(Verdict) { told++ }}, report: &Report{}}
		v := Verdict{Plan: several(), Findings: []Finding{{"O5", "not done"}, c.found}}
		if tr.suspect(v); c.broken != (told == 1 && len(tr.report.Verdicts) == 1 && tr.report.Verdicts[0].Failed()) || c.broken == (len(tr.broken) == 1) {
			t.Errorf("%s: told %d times, and to be played again: %v", c.found, told, tr.broken)
		}
	}
}

func TestExplains(t *testing.T) {
	slow := []Finding{{"O5", "done after 9 s, and it may take 8 s"}}
	other := several()
	other.Workload.Name = "other"
	for name, c := range map[string]struct {
		v    Verdict
		want bool
	}{
		"fails":          {Verdict{Plan: several().at(9), Findings: slow}, true},
		"passes":         {Verdict{Plan: several().at(9)}, false},
		"slow":           {Verdict{Plan: several().at(9), Findings: slow, Slow: true}, false},
		"strayed":        {Verdict{Plan: several().at(9), Findings: slow, Strayed: true}, false},
		"all of them":    {Verdict{Plan: several(), Findings: slow}, false},
		"other write":    {Verdict{Plan: several().at(4), Findings: slow}, false},
		"other workload": {Verdict{Plan: other.at(9), Findings: slow}, false},
	} {
		r := &Report{Verdicts: []Verdict{c.v}}
		if got := r.explains(Verdict{Plan: several()}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A machine that has become slower gives a plan more time; one that has become faster does not take any away.
func TestPace(t *testing.T) {
	create, patch := []Write{{Verb: "create", Code: 201}}, []Write{{Verb: "patch", Code: 200}}
	for name, c := range map[string]struct {
		now  Reference
		want time.Duration
	}{
		"slower":       {Reference{Took: 9 * time.Second, Writes: create}, 9 * time.Second},
		"faster":       {Reference{Took: time.Second, Writes: create}, 4 * time.Second},
		"another road": {Reference{Took: 9 * time.Second, Writes: patch}, 4 * time.Second},
	} {
		ref := &Reference{Took: 4 * time.Second, Writes: create}
		if got := ref.atPaceOf(&c.now); got.Took != c.want || ref.Took != 4*time.Second || differ(got.Writes, create) != "" {
			t.Errorf("%s: it has %s, and had %s", name, got.Took, ref.Took)
		}
	}
}

// A mode that refuses reads for a while has not happened where nothing was read, and is played again.
func TestUnreadIsNotPlayed(t *testing.T) {
	over := make(chan struct{})
	close(over)
	for _, mode := range []Mode{Lost, Unread, Unreadable, Blind} {
		for refused := range 2 {
			f, write := Fault{mode, 1}, Write{Verb: "create", Code: 201}
			p := &proxy{plan: disturbance{Fault: f}, over: over, streams: &streams{}, writes: []Write{write}, counted: Tally{Refused: refused}}
			tr := &trial{report: &Report{}}
			v, judged := tr.judged(planned{Plan: Plan{Fault: f}, reference: &Reference{Writes: []Write{write}}}, &run{proxy: p, converged: true}, nil, 1)
			if want := mode == Lost || refused > 0; judged != want || v.off || p.happened() != want {
				t.Errorf("%s, %d reads are refused: judged: %t, happened: %t", mode, refused, judged, p.happened())
			}
		}
	}
}

// What has no place alone is not played: it neither passes nor is it kept as passed, and the sweep fails for it.
func TestUnplayed(t *testing.T) {
	path, plan := filepath.Join(t.TempDir(), "record"), several().at(3)
	tr, v := &trial{report: &Report{}}, Verdict{Plan: plan, Findings: []Finding{{"plan", "it parts from the reference"}}, off: true}
	tr.unplay(&v)
	tr.tell(v)
	for range 2 {
		j, err := openJournal(path)
		if err != nil {
			t.Fatal(err)
		}
		if j.has(plan) {
			t.Error("it counts as passed")
		}
		j.add(v)
		j.close()
	}
	if v.Failed() || tr.report.unplayed != 1 || tr.report.plans() != 0 || !strings.Contains(v.String(), "not played") {
		t.Errorf("of %d plans %d were not played: %s", tr.report.plans(), tr.report.unplayed, v)
	}
}

// A mutant that comes to no end is caught when it does so alone, too.
func TestCatchOfLateMutants(t *testing.T) {
	late, wrong, ended, unplayed := Finding{"O5", "not done"}, Finding{"O2", "created twice"}, &run{converged: true}, Finding{"plan", "the fault did not happen"}
	for name, test := range map[string]struct {
		run          *run
		findings     []Finding
		caught, late int
		alone        int
	}{
		"nothing":                  {ended, nil, 0, 0, 0},
		"wrong":                    {ended, []Finding{wrong}, 1, 0, 1},
		"slow":                     {ended, []Finding{late}, 0, 0, 0},
		"without an end":           {&run{}, []Finding{late}, 0, 1, 1},
		"wrong, without an end":    {&run{}, []Finding{late, wrong}, 1, 0, 1},
		"unplayed":                 {ended, []Finding{unplayed}, 0, 0, 0},
		"unplayed, without an end": {&run{}, []Finding{late, unplayed}, 0, 0, 0},
	} {
		c := &catch{oracles: map[string]int{}}
		if got := c.take(planned{}, test.run, slices.Clone(test.findings)); got != test.caught || len(c.late) != test.late || c.caughtBy() != (got > 0) {
			t.Errorf("%s: caught %d times, and %d to be played alone", name, got, len(c.late))
		}
		if got := c.again(planned{}, test.run, slices.Clone(test.findings)); got != test.alone {
			t.Errorf("%s, alone: caught %d times", name, got)
		}
	}
}

// A mutant that panics finds out nothing about the oracles.
func TestMutantsThatPanic(t *testing.T) {
	c := &catch{oracles: map[string]int{}}
	if n := c.note(planned{}, []Finding{{"O2", "created twice"}, {"O8", panicked + "nil map"}}); n != 0 || c.err == nil || c.caughtBy() {
		t.Errorf("caught %d times: %v", n, c.err)
	}
}

// A bug that shows by comparison alone, and undisturbed, is in the references of a sweep, too.
func TestBesideTheManagerWithoutTheBug(t *testing.T) {
	compared, absolute := []Finding{{"O1", "the end is another"}}, []Finding{{"O1", "the end is another"}, {"O7", "went back"}}
	for name, test := range map[string]struct {
		findings []Finding
		catch    catch
		beside   bool
	}{
		"never caught":            {nil, catch{itselfOf: 9}, false},
		"by comparison":           {compared, catch{undisturbed: 1, itselfOf: 9}, true},
		"by itself, too":          {compared, catch{undisturbed: 1, itselfOf: 9, itself: 1}, false},
		"not played by itself":    {compared, catch{undisturbed: 1}, false},
		"disturbed":               {compared, catch{points: 1, pointsOf: 9}, false},
		"by what is always wrong": {absolute, catch{undisturbed: 1, itselfOf: 9}, false},
	} {
		c := test.catch
		c.oracles = map[string]int{}
		if c.note(planned{}, test.findings); c.beside() != test.beside {
			t.Errorf("%s: %t", name, c.beside())
		}
	}
}
