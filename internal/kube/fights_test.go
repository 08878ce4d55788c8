package kube

import (
	"testing"
	"time"
)

// A child is brought to one state at once a few times, and then once a minute; to another at once; and each has its own.
func TestFights(t *testing.T) {
	var f Fights
	now := time.Now()
	writes := func(child, wanted string, times int) (n int) {
		for range times {
			if f.Wait(child, wanted, now) == 0 {
				f.Wrote(child, wanted, now)
				n++
			}
		}
		return n
	}
	if n := writes("a", "x", 50); n != 1+ContendAtOnce {
		t.Errorf("it is written %d times", n)
	}
	if wait := f.Wait("a", "x", now); wait <= 0 || wait > ContendAgain {
		t.Errorf("it waits %s", wait)
	}
	if n := writes("b", "x", 50); n != 1+ContendAtOnce {
		t.Errorf("another one is written %d times", n)
	}
	now = now.Add(ContendAgain)
	if n := writes("a", "x", 50); n != 1 {
		t.Errorf("a minute later it is written %d times", n)
	}
	if n := writes("a", "y", 1); n != 1 {
		t.Error("another state waits")
	}
	now = now.Add(time.Hour)
	if n := writes("a", "y", 50); n != ContendAtOnce {
		t.Errorf("after a rest it is written %d times", n)
	}
}
