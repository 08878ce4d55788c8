package machine

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseStat(t *testing.T) {
	// The name of a program may hold anything.
	got, err := parseStat("42 (a (b) c) S 7 42 42 0 -1 4194304 97 0 1 0 150 50 3 4 20 0 1 0 52671 3133440 358 1844 0")
	if err != nil {
		t.Fatal(err)
	}
	want := Process{PID: 42, Parent: 7, Program: "a (b) c", CPU: 2 * time.Second, Reaped: 70 * time.Millisecond, Resident: 358 * int64(os.Getpagesize())}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("process (-want +got):\n%s", diff)
	}
	for _, line := range []string{"", "42 name S 7", "42 (name) S 7", "x (name) S 7 42 42 0 -1 4194304 97 0 1 0 150 50 3 4 20 0 1 0 52671 3133440 358"} {
		if _, err := parseStat(line); err == nil {
			t.Errorf("%q is accepted", line)
		}
	}
}

func TestParseBusy(t *testing.T) {
	got, err := parseBusy("cpu  100 10 20 5000 300 4 6 181 0 0\ncpu0 1 2\n")
	if err != nil {
		t.Fatal(err)
	}
	if want := (Busy{Work: 1400 * time.Millisecond, Steal: 1810 * time.Millisecond}); got != want {
		t.Errorf("busy is %+v, want %+v", got, want)
	}
	for _, content := range []string{"", "cpu 1 2", "cpu a b c d e f g h i"} {
		if _, err := parseBusy(content); err == nil {
			t.Errorf("%q is accepted", content)
		}
	}
}

func TestUsage(t *testing.T) {
	start := time.Now()
	before := Snapshot{Time: start, Busy: Busy{Work: 10 * time.Second}, Family: []Process{
		{PID: 1, Program: "load", CPU: time.Second}, {PID: 2, Program: "manager", CPU: 2 * time.Second},
	}}
	// The manager ended at 2.5 s, and another came.
	after := Snapshot{Time: start.Add(10 * time.Second), Busy: Busy{Work: 16 * time.Second, Steal: time.Second}, Family: []Process{
		{PID: 1, Program: "load", CPU: 3 * time.Second, Reaped: 2500 * time.Millisecond}, {PID: 3, Program: "manager", CPU: time.Second},
	}}
	got := after.Since(before)
	want := Usage{
		Wall: 10 * time.Second, Ours: 3500 * time.Millisecond, Foreign: 2500 * time.Millisecond, Steal: time.Second,
		Programs: map[string]time.Duration{"load": 2 * time.Second, "manager": time.Second},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	if share := got.ForeignShare(2); share != 0.125 {
		t.Errorf("the foreign share is %v", share)
	}
}

func TestFamily(t *testing.T) {
	family, err := Family()
	if err != nil {
		t.Fatal(err)
	}
	if len(family) == 0 || family[0].PID != os.Getpid() || family[0].Resident == 0 {
		t.Errorf("this process is not in its family: %+v", family)
	}
}
