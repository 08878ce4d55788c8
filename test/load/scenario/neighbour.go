package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/labkeeper/labkeeper/test/load/harness"
	"github.com/labkeeper/labkeeper/test/load/measure"
)

// alone is how many lives are measured without neighbours.
const alone = 20

// noisyNeighbour measures the lives of single objects, one after the other, alone and while a
// burst in another namespace is under way.
func noisyNeighbour(ctx context.Context, l *harness.Lab, n int) (measure.Figures, error) {
	const quiet, noisy = "quiet", "noisy"
	m, err := l.Begin(ctx, quiet, noisy)
	if err != nil {
		return nil, err
	}
	window, err := l.Open(ctx, m)
	if err != nil {
		return nil, err
	}
	before := make([]time.Duration, alone)
	for i := range before {
		if before[i], err = life(ctx, l, l.Subject, quiet, fmt.Sprintf("alone-%d", i), time.Minute); err != nil {
			return nil, err
		}
	}
	created := make(chan error, 1)
	go func() { created <- l.CreateAll(ctx, noisy, "noisy", n, harness.Plain) }()
	var beside []time.Duration
	for i := 0; l.Watcher.Count(noisy, l.Subject.Done) < n; i++ {
		d, err := life(ctx, l, l.Subject, quiet, fmt.Sprintf("beside-%d", i), patience(n))
		if err != nil {
			return nil, err
		}
		beside = append(beside, d)
	}
	if err := <-created; err != nil {
		return nil, err
	}
	f := measure.Figures{}
	if err := window.Close(ctx, n+alone+len(beside), f); err != nil {
		return nil, err
	}
	l.Counted(noisy, n)
	l.Counted(quiet, alone+len(beside))
	f.Put("alone_p50_ms", measure.Quantile(before, 0.5))
	f.Put("beside_count", float64(len(beside)))
	f.Put("beside_p50_ms", measure.Quantile(beside, 0.5))
	f.Put("beside_max_ms", measure.Quantile(beside, 1))
	f.Put("slower", measure.Quantile(beside, 0.5)/measure.Quantile(before, 0.5))
	return f, nil
}

// life is how long an object of a kind takes from its creation to its end.
func life(ctx context.Context, l *harness.Lab, of *harness.Subject, namespace, name string, timeout time.Duration) (time.Duration, error) {
	done := l.Watcher.Count(namespace, of.Done)
	start := time.Now()
	if err := l.Client.Create(ctx, of.Resource, namespace, of.New(namespace, name, harness.Plain)); err != nil {
		return 0, err
	}
	if err := l.Watcher.Await(ctx, namespace, of.Done, done+1, timeout); err != nil {
		return 0, err
	}
	return l.Watcher.Story(namespace, name).Marks[of.Done].Sub(start), nil
}
