package faults

import (
	"context"
	"sync"
)

// restart is one restart of the API server, which all its runs share: each of them waits at its
// write until the last one has come to its own.
type restart struct {
	lab *Lab

	mu      sync.Mutex
	missing int // runs that have not come to their write
	here    int // runs that wait
	down    chan struct{}
	up      chan struct{}
	err     error // once up is closed
}

func (l *Lab) newRestart(runs int) *restart {
	return &restart{lab: l, missing: runs, down: make(chan struct{}), up: make(chan struct{})}
}

// arrive returns when the API server is gone.
func (r *restart) arrive(ctx context.Context) {
	r.mu.Lock()
	r.here++
	r.mu.Unlock()
	r.leave(ctx)
	<-r.down
}

// leave tells that a run waits, or that it never will. Its end must not keep the API server from
// coming back for the others.
func (r *restart) leave(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	r.mu.Lock()
	r.missing--
	all := r.missing == 0 && r.here > 0
	r.mu.Unlock()
	if !all {
		return
	}
	// The outsides wait, and the recorder knows all there is: nothing is stored that nobody
	// has seen.
	r.lab.gate.Lock()
	r.err = r.lab.recorder.settle(ctx)
	if r.err == nil {
		r.err = r.lab.KillAPIServer()
	}
	close(r.down)
	go func() {
		defer close(r.up)
		defer r.lab.gate.Unlock()
		if r.err == nil {
			r.err = r.lab.ResumeAPIServer(ctx)
		}
		if r.err == nil {
			// Its garbage collector may have asked a server that did not serve all kinds yet, and would do
			// without the others for half a minute.
			r.err = r.lab.RestartControllerManager(ctx)
		}
	}()
}
