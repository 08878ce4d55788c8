package scenario

import (
	"context"
	"errors"
	"time"

	"github.com/labkeeper/labkeeper/test/load/harness"
	"github.com/labkeeper/labkeeper/test/load/measure"
)

// idle brings objects to their end and counts what the manager asks for when nothing happens.
func idle(ctx context.Context, l *harness.Lab, n int) (measure.Figures, error) {
	m, err := l.Begin(ctx, namespace)
	if err != nil {
		return nil, err
	}
	if err := l.CreateAll(ctx, namespace, "idle", n, harness.Plain); err != nil {
		return nil, err
	}
	if err := l.Watcher.Await(ctx, namespace, l.Subject.Done, n, patience(n)); err != nil {
		return nil, err
	}
	if err := l.Watcher.Quiet(ctx, 5*time.Second, time.Minute); err != nil {
		return nil, err
	}
	l.Counted(namespace, n)
	window, err := l.Open(ctx, m)
	if err != nil {
		return nil, err
	}
	from := time.Now()
	l.Tell("watching for %s", l.Duration())
	select {
	case <-time.After(l.Duration()):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	f := measure.Figures{}
	if err := window.Close(ctx, 1, f); err != nil {
		return nil, err
	}
	for _, figure := range []string{"calls_create", "calls_patch", "calls_get", "calls_delete", "calls_event", "calls_conflict"} {
		delete(f, figure) // the Lease is among them
	}
	f.Put("manager_core_percent", 100*f["cpu_manager"]/measure.Milliseconds(l.Duration()))
	asked, err := managerRequests(l, from)
	if err != nil {
		return nil, err
	}
	total := asked.refused + asked.components
	if asked.components > 0 {
		l.Tell("patch components/status: %d", asked.components)
	}
	for what, have := range asked.got {
		total += have
		l.Tell("%s: %d", what, have)
	}
	f.Put("requests", float64(total))
	f.Put("lease_requests", float64(asked.leases))
	if asked.leases == 0 {
		l.Fail(errors.New("not even the Lease was asked for: the count counts nothing"))
	}
	heap, err := m.Heap(ctx)
	f.Put("heap_mb", heap/1e6)
	return f, err
}
