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
