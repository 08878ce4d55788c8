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
	meanwhile, end := context.WithCancelCause(ctx)
	defer end(nil)
	go func() {
		if err := l.CreateAll(meanwhile, noisy, "noisy", n, harness.Plain); err != nil {
			end(err)
		}
	}()
	beside, err := besides(meanwhile, l, l.Subject, quiet, noisy, n, time.Now())
	if err != nil {
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

// besides are the lives of objects of a kind, one after the other, until n of the subject's in another namespace are done, who began
// at some time, and for whom nobody waits for ever.
func besides(ctx context.Context, l *harness.Lab, of *harness.Subject, namespace, other string, n int, began time.Time) (lives []time.Duration, err error) {
	for l.Watcher.Count(other, l.Subject.Done) < n {
		if time.Since(began) > patience(n) {
			return nil, fmt.Errorf("%d of %d objects are %q after %s", l.Watcher.Count(other, l.Subject.Done), n, l.Subject.Done, patience(n))
		}
		d, err := life(ctx, l, of, namespace, fmt.Sprintf("beside-%d", len(lives)), patience(n))
		if err != nil {
			return nil, err
		}
		lives = append(lives, d)
	}
	return lives, nil
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
