package scenario

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/labkeeper/labkeeper/test/load/harness"
	"github.com/labkeeper/labkeeper/test/load/measure"
)

// probeEvery is how often an object is created while the managers change: what comes meanwhile must
// not be a burst, or its last one is what waits longest.
const probeEvery = 50 * time.Millisecond

// failover ends the leader of two managers, by force and by asking, and tells how long the
// objects waited that were created meanwhile.
func failover(ctx context.Context, l *harness.Lab, n int) (measure.Figures, error) {
	leader, err := l.Begin(ctx)
	if err != nil {
		return nil, err
	}
	f := measure.Figures{}
	window, err := l.Open(ctx, nil)
	if err != nil {
		return nil, err
	}
	for _, way := range []struct {
		name string
		end  func(*harness.Manager) error
	}{{"crash", (*harness.Manager).Kill}, {"graceful", (*harness.Manager).Terminate}} {
		var waits []time.Duration
		for i := range n {
			standby, err := standBy(ctx, l)
			if err != nil {
				return nil, err
			}
			p := &probes{lab: l, namespace: fmt.Sprintf("%s-%d", way.name, i)}
			waited, err := p.around(ctx, func() error { return way.end(leader) })
			if err != nil {
				return nil, err
			}
			l.Tell("%s %d: an object waited %s", way.name, i, waited)
			waits, leader = append(waits, waited), standby
		}
		f.Put(way.name+"_p50_ms", measure.Quantile(waits, 0.5))
		f.Put(way.name+"_p99_ms", measure.Quantile(waits, 0.99))
		f.Put(way.name+"_max_ms", measure.Quantile(waits, 1))
	}
	return f, window.Close(ctx, 2*n, f)
}

// standBy starts a second manager and waits until its caches can be taken to be filled.
func standBy(ctx context.Context, l *harness.Lab) (*harness.Manager, error) {
	m, err := l.StartManager()
	if err != nil {
		return nil, err
	}
	if err := m.Ready(ctx); err != nil {
		return nil, err
	}
	return m, l.Settle(ctx)
}

// probes are objects that are created one after the other.
type probes struct {
	lab       *harness.Lab
	namespace string
	created   int
}

// around creates objects before and after something happens, until one that was created
// afterwards has been acted on and none of those before it waits. It returns the longest wait
// of those that were created since.
func (p *probes) around(ctx context.Context, happen func() error) (time.Duration, error) {
	if err := p.lab.Namespace(ctx, p.namespace); err != nil {
		return 0, err
	}
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	var group sync.WaitGroup
	defer group.Wait()
	ticks := time.NewTicker(probeEvery)
	defer ticks.Stop()
	var happened time.Time
	for {
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("waiting for a manager to act: %w", ctx.Err())
		case <-ticks.C:
		}
		name := fmt.Sprintf("probe-%d", p.created)
		p.created++
		group.Go(func() {
			if err := p.lab.Create(ctx, p.namespace, name, harness.Refused); err != nil {
				p.lab.Fail(err)
			}
		})
		if p.created == 10 {
			happened = time.Now()
			if err := happen(); err != nil {
				return 0, err
			}
		}
		// A manager that ends acts on the last of what it has: the next one has to show itself.
		if !happened.IsZero() && time.Since(happened) > 200*time.Millisecond && p.lab.Watcher.Count(p.namespace, p.lab.Subject.Acted) >= p.created-4 {
			break
		}
	}
	group.Wait()
	if err := p.lab.Watcher.Await(ctx, p.namespace, p.lab.Subject.Acted, p.created, time.Minute); err != nil {
		return 0, err
	}
	return p.longest(happened), nil
}

func (p *probes) longest(since time.Time) time.Duration {
	var longest time.Duration
	for _, s := range p.lab.Watcher.Stories(p.namespace) {
		if s.Marks[p.lab.Subject.Created].After(since) {
			longest = max(longest, s.Marks[p.lab.Subject.Acted].Sub(s.Marks[p.lab.Subject.Created]))
		}
	}
	return longest
}
