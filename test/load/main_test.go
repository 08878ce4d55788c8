package main

import (
	"cmp"
	"slices"
	"testing"

	"github.com/labkeeper/labkeeper/test/load/harness"
	"github.com/labkeeper/labkeeper/test/load/measure"
	"github.com/labkeeper/labkeeper/test/load/scenario"
)

// Limits of what nobody measures would hold nothing.
func TestLimitsAreOfScenarios(t *testing.T) {
	spec, err := measure.ParseRangeSpec(rangeSpec)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scenario.All() {
		if _, err := subjectNamed(s.Subject); s.Subject != "" && err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		if subject := cmp.Or(s.Subject, "experiment"); len(spec.For(subject, s.Name, s.N)) == 0 {
			t.Errorf("%s: nothing holds %d of %s, which is what it measures unless told otherwise", s.Name, s.N, subject)
		}
	}
	for subject, scenarios := range spec {
		if _, err := subjectNamed(subject); err != nil {
			t.Error(err)
		}
		for name := range scenarios {
			if !slices.ContainsFunc(scenario.All(), func(s harness.Scenario) bool { return s.Name == name }) {
				t.Errorf("%s: there is no scenario %q", subject, name)
			}
		}
	}
}

// Of what must never be, one repetition is enough.
func TestNeverEarly(t *testing.T) {
	spec, err := measure.ParseRangeSpec(rangeSpec)
	if err != nil {
		t.Fatal(err)
	}
	var reps []measure.Rep
	for _, first := range []float64{40, 45, 50, 55, -33000} {
		reps = append(reps, measure.Rep{Figures: measure.Figures{"first_ms": first, "late_ms": 20}})
	}
	r := measure.Report{Reps: reps}
	r.Conclude(spec.For("hibernateplan-single", "minute", 1000), 5, false)
	if r.Verdict == measure.Pass {
		t.Errorf("one of five began 33 s early, and that is a %s: %+v", r.Verdict, r.Gates)
	}
}

// The formula says nothing of how many statuses and Events there are: a limit of each shape does.
func TestCallsLimitStatusesAndEvents(t *testing.T) {
	spec, err := measure.ParseRangeSpec(rangeSpec)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"experiment", "twin", "hibernateplan-single"} {
		subject, err := subjectNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		limits := spec.For(name, "calls", 20)
		for _, shape := range subject.Shapes {
			for _, figure := range []string{" up statuses", " up events", " down statuses", " down events"} {
				if !slices.ContainsFunc(limits, func(l measure.Limit) bool { return l.Figure == shape.Name+figure && l.Max != nil }) {
					t.Errorf("%s: nothing limits %s%s", name, shape.Name, figure)
				}
			}
		}
	}
}
