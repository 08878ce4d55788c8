package scenario

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/labkeeper/labkeeper/test/load/harness"
	"github.com/labkeeper/labkeeper/test/load/measure"
)

// minute creates objects that wait for one full minute, and looks how late each begins: the k-th may be as late as the
// writes that k beginnings need take on this machine, and late_ms is what it was beyond that at worst.
func minute(ctx context.Context, l *harness.Lab, n int) (measure.Figures, error) {
	if l.Subject.At == nil {
		return nil, fmt.Errorf("%s knows no time", l.Subject.Name)
	}
	m, err := l.Begin(ctx, namespace)
	if err != nil {
		return nil, err
	}
	at, err := waiting(ctx, l, "minute", n)
	if err != nil {
		return nil, err
	}
	window, err := openBefore(ctx, l, m, at)
	if err != nil {
		return nil, err
	}
	if err := l.Watcher.Await(ctx, namespace, l.Subject.Done, n, time.Until(at)+patience(n)); err != nil {
		return nil, err
	}
	f := measure.Figures{}
	if err := window.Close(ctx, n, f); err != nil {
		return nil, err
	}
	stories := l.Counted(namespace, n)
	var begun []time.Duration
	var last time.Duration
	for _, s := range stories {
		begun = append(begun, s.Marks[l.Subject.Begun].Sub(at))
		last = max(last, s.Marks[l.Subject.Done].Sub(at))
	}
	slices.Sort(begun)
	late := time.Duration(0)
	for k, d := range begun {
		late = max(late, d-time.Duration(k+1)*l.Takes(l.Subject.Beginning))
	}
	f.Put("first_ms", measure.Milliseconds(begun[0]))
	f.Put("begun_p50_ms", measure.Quantile(begun, 0.5))
	f.Put("begun_max_ms", measure.Quantile(begun, 1))
	f.Put("late_ms", measure.Milliseconds(late))
	f.Put("total_s", last.Seconds())
	f.Put("statuses", statuses(stories))
	return f, nil
}

// openTime is how long a measurement takes to begin at most.
const openTime = 35 * time.Second

// waiting creates objects that wait for a full minute.
func waiting(ctx context.Context, l *harness.Lab, prefix string, n int) (at time.Time, err error) {
	// Time enough to create them all, for the manager to be done with that, and for all to come to rest.
	at = time.Now().Add(time.Minute + openTime + time.Duration(n)*20*time.Millisecond).Truncate(time.Minute)
	if err := l.CreateAllAt(ctx, namespace, prefix, n, at); err != nil {
		return at, err
	}
	return at, l.Watcher.Await(ctx, namespace, l.Subject.Waits, n, time.Until(at))
}

// openBefore begins a measurement before that minute comes.
func openBefore(ctx context.Context, l *harness.Lab, m *harness.Manager, at time.Time) (*harness.Window, error) {
	window, err := l.OpenBefore(ctx, m, at)
	if left := time.Until(at); err == nil && left < time.Second {
		return nil, fmt.Errorf("the minute has come before all was ready for it: %s", left)
	}
	return window, err
}
