package scenario

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/labkeeper/labkeeper/test/load/harness"
	"github.com/labkeeper/labkeeper/test/load/machine"
	"github.com/labkeeper/labkeeper/test/load/measure"
)

const (
	// share of the machine's CPU that is used while reactions are measured.
	share = 0.30
	// trials are the objects that tell how often they may come for that.
	trials = 60
)

// reaction creates objects at random times, whether or not the ones before are done, at a rate
// that takes up the share of the machine.
func reaction(ctx context.Context, l *harness.Lab, n int) (measure.Figures, error) {
	const trial = "trial"
	m, err := l.Begin(ctx, namespace, trial)
	if err != nil {
		return nil, err
	}
	before, err := machine.Look()
	if err != nil {
		return nil, err
	}
	// They cost more than the minimal writes do, by which the ceiling is.
	if err := arrive(ctx, l, trial, trials, share/2*l.Ceiling()); err != nil {
		return nil, err
	}
	after, err := machine.Look()
	if err != nil {
		return nil, err
	}
	used := after.Since(before)
	rate := trials / used.Wall.Seconds() * share / used.Utilisation(machine.ThisHost().Cores)
	window, err := l.Open(ctx, m)
	if err != nil {
		return nil, err
	}
	if err := arrive(ctx, l, namespace, n, rate); err != nil {
		return nil, err
	}
	f := measure.Figures{}
	if err := window.Close(ctx, n, f); err != nil {
		return nil, err
	}
	stories := l.Counted(namespace, n)
	f.Put("arrivals_per_s", rate)
	l.PutReactions(stories, f)
	putLives(l.Subject, stories, f)
	f.Put("statuses", statuses(stories))
	return f, nil
}

// arrive creates n objects, so many a second on average, and waits until they are done.
func arrive(ctx context.Context, l *harness.Lab, namespace string, n int, rate float64) error {
	random := rand.New(rand.NewPCG(1, uint64(n)))
	var group sync.WaitGroup
	next := time.Now()
	for i := range n {
		next = next.Add(time.Duration(random.ExpFloat64() / rate * float64(time.Second)))
		select {
		case <-time.After(time.Until(next)):
		case <-ctx.Done():
			return ctx.Err()
		}
		group.Go(func() {
			if err := l.Create(ctx, namespace, namespace+"-"+strconv.Itoa(i), harness.Plain); err != nil {
				l.Fail(err)
			}
		})
	}
	group.Wait()
	return l.Watcher.Await(ctx, namespace, l.Subject.Done, n, patience(n))
}
