package faults

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
)

// door is what plans come in by that are played on this machine, in whatever process: beside others, or alone. What is held is
// let go by the kernel when its process ends.
type door struct {
	// turn is held by who comes in while he does, and by who plays alone from when he wants to until he does no more: nobody comes in
	// before him then. room is held by every process that has plans inside, and by nobody else while one plays alone.
	turn, room *os.File

	// queue is taken by who comes in, because the kernel lets in all of a process. Who leaves does not wait for him, who may be waiting
	// for that.
	queue sync.Mutex
	// mu guards how many plans of this process are inside.
	mu     sync.Mutex
	inside int
	// alone says that this process plays alone: it changes only while it plays nothing.
	alone bool
}

// newDoor is the one of all processes that name the same path.
func newDoor(path string) (*door, error) {
	turn, err := os.OpenFile(path+".turn.lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening lock of sweeps: %w", err)
	}
	room, err := os.OpenFile(path+".room.lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening lock of sweeps: %w", err), turn.Close())
	}
	return &door{turn: turn, room: room}, nil
}

// enter waits while another process plays alone. Nil is a door that is always open, as in all that follows.
func (d *door) enter() {
	if d == nil {
		return
	}
	d.queue.Lock()
	defer d.queue.Unlock()
	if d.alone {
		d.count(1)
		return
	}
	flock(d.turn, syscall.LOCK_EX)
	d.count(1)
	flock(d.turn, syscall.LOCK_UN)
}

// leave lets others be alone where this process has nobody inside any more.
func (d *door) leave() {
	if d != nil {
		d.count(-1)
	}
}

// count takes room for the first that is inside, which nobody plays alone in while the turn is this process's, and leaves it with
// the last.
func (d *door) count(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inside += n
	switch {
	case d.alone:
	case d.inside == 0:
		flock(d.room, syscall.LOCK_UN)
	case d.inside == n:
		flock(d.room, syscall.LOCK_SH)
	}
}

// lock waits until what the others play has ended, and keeps them from playing. Of this process nothing may be played.
func (d *door) lock() {
	if d == nil {
		return
	}
	flock(d.turn, syscall.LOCK_EX)
	flock(d.room, syscall.LOCK_EX)
	d.alone = true
}

func (d *door) unlock() {
	if d == nil {
		return
	}
	d.alone = false
	flock(d.room, syscall.LOCK_UN)
	flock(d.turn, syscall.LOCK_UN)
}

// flock has no error to tell: where the machine has no such locks, nobody waits.
func flock(f *os.File, how int) { _ = syscall.Flock(int(f.Fd()), how) }
