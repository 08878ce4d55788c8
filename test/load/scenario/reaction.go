package scenario

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/labkeeper/labkeeper/test/load/harness"
	"github.com/labkeeper/labkeeper/test/load/measure"
)

// share of the machine's ceiling at which reactions are measured.
const share = 0.30

// reaction creates objects at random times, whether or not the ones before are done, at a rate
// that takes up the share of what the machine can do at most.
func reaction(ctx context.Context, l *harness.Lab, n int) (measure.Figures, error) {
	m, err := l.Begin(ctx, namespace)
	if err != nil {
		return nil, err
	}
	rate := share * l.Ceiling()
	window, err := l.Open(ctx, m)
	if err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(1, uint64(n)))
	var group sync.WaitGroup
	next := time.Now()
	for i := range n {
		next = next.Add(time.Duration(random.ExpFloat64() / rate * float64(time.Second)))
		select {
		case <-time.After(time.Until(next)):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		group.Go(func() {
			if err := l.Create(ctx, namespace, "reaction-"+strconv.Itoa(i), harness.Plain); err != nil {
				l.Fail(err)
			}
		})
	}
	group.Wait()
	if err := l.Watcher.Await(ctx, namespace, l.Subject.Done, n, patience(n)); err != nil {
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
