package env

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// running are the control planes that a signal stops.
var running struct {
	sync.Mutex
	once sync.Once
	set  map[*ControlPlane]struct{}
}

// stopOnSignal makes SIGINT and SIGTERM stop the control plane before they end this process.
func stopOnSignal(cp *ControlPlane) {
	running.Lock()
	defer running.Unlock()
	if running.set == nil {
		running.set = map[*ControlPlane]struct{}{}
	}
	running.set[cp] = struct{}{}
	running.once.Do(func() {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
		go func() { stopAndRaise((<-signals).(syscall.Signal)) }()
	})
}

// stopAndRaise stops all control planes and then dies of the signal, so that the parent sees the
// same end as without this handler.
func stopAndRaise(s syscall.Signal) {
	running.Lock()
	all := make([]*ControlPlane, 0, len(running.set))
	for cp := range running.set {
		all = append(all, cp)
	}
	running.Unlock()
	var group sync.WaitGroup
	for _, cp := range all {
		group.Go(func() { _ = cp.Stop() })
	}
	group.Wait()
	signal.Reset(s)
	_ = syscall.Kill(os.Getpid(), s)
}

// forget removes a stopped control plane.
func forget(cp *ControlPlane) {
	running.Lock()
	defer running.Unlock()
	delete(running.set, cp)
}
