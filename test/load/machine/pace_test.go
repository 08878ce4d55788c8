package machine

import (
	"encoding/json"
	"runtime"
	"testing"
	"time"
)

func TestPaceBetween(t *testing.T) {
	start := time.Now()
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	p := &Pace{}
	for i, ms := range []time.Duration{2, 2, 3, 3, 90, 1, 2, 3} {
		p.samples = append(p.samples, paceSample{at(float64(i)), ms * time.Millisecond})
	}
	for name, test := range map[string]struct{ from, to, want float64 }{
		"one":                               {2, 3, 3},
		"few, all of them":                  {1, 4, 8.0 / 3},
		"many, without the outliers":        {0, 8, 2.5},
		"none, then the one before":         {2.5, 2.6, 3},
		"none yet, then the first":          {-2, -1, 2},
		"the last, when it is over by then": {20, 30, 3},
	} {
		got := p.Between(at(test.from), at(test.to))
		if diff := got - test.want; diff > 1e-3 || diff < -1e-3 {
			t.Errorf("%s: the pace is %v, want %v", name, got, test.want)
		}
	}
}

// It samples by itself and costs next to nothing.
func TestPace(t *testing.T) {
	start := time.Now()
	p := StartPace()
	time.Sleep(4 * pacePeriod)
	p.Stop()
	if n := len(p.samples); n < 3 {
		t.Errorf("%d samples were taken", n)
	}
	pace := p.Between(start, time.Now())
	if pace <= 0.1 || pace > 50 {
		t.Errorf("a unit took %v ms", pace)
	}
	t.Logf("a unit took %.2f ms, %.1f %% of a core", pace, 100*pace/float64(pacePeriod.Milliseconds()))
}

func TestUnit(t *testing.T) {
	u := newUnit()
	if !json.Valid(u.text) {
		t.Fatalf("this is no JSON: %s", u.text)
	}
	// The reads come by every line of the ring before they come by one again.
	seen := 0
	for at := u.next[0]; at != 0; at = u.next[at] {
		seen++
	}
	if want := ringBytes/cacheLine - 1; seen != want {
		t.Errorf("the ring has %d lines, want %d", seen, want)
	}
	if allocations := testing.AllocsPerRun(5, u.do); allocations >= 1 {
		t.Errorf("it allocates %v times", allocations)
	}
}

func BenchmarkUnit(b *testing.B) {
	u := newUnit()
	for b.Loop() {
		u.do()
	}
}

func TestThreadCPU(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	u := newUnit()
	before := threadCPU()
	time.Sleep(50 * time.Millisecond)
	if slept := threadCPU() - before; slept > 25*time.Millisecond {
		t.Errorf("asleep it used %s", slept)
	}
	before = threadCPU()
	u.do()
	if threadCPU() <= before {
		t.Error("work takes no time")
	}
}
