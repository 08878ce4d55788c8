package faults

import (
	"path/filepath"
	"testing"
	"time"
)

// Who wants to be alone waits for those inside, and nobody comes in before him, nor until he has done.
func TestDoor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sweeps")
	doors := make([]*door, 3) // each as that of a process
	for i := range doors {
		var err error
		if doors[i], err = newDoor(path); err != nil {
			t.Fatal(err)
		}
	}
	one, other, third := doors[0], doors[1], doors[2]
	one.enter()
	one.enter()
	other.enter()
	other.leave()
	one.leave()
	alone := started(func() { other.lock() })
	notYet(t, alone, "one is alone beside another who is inside")
	in := started(third.enter)
	notYet(t, in, "somebody comes in before one who waits to be alone")
	again := started(one.enter)
	notYet(t, again, "somebody who is inside comes in again before one who waits to be alone")
	one.leave()
	<-alone
	other.enter()
	other.leave()
	notYet(t, in, "somebody comes in beside one who is alone, and was inside")
	notYet(t, again, "somebody comes in again beside one who is alone")
	other.unlock()
	<-in
	<-again
	var open *door
	open.lock()
	open.enter()
	open.leave()
	open.unlock()
}

// started is closed when something has returned.
func started(do func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	return done
}

func notYet(t *testing.T, done <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-done:
		t.Fatal(what)
	case <-time.After(50 * time.Millisecond):
	}
}
