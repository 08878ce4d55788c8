package scenario

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/labkeeper/labkeeper/test/load/harness"
	"github.com/labkeeper/labkeeper/test/load/measure"
)

const (
	// stormRate is how often a second the one hot object is edited, and all others together.
	stormRate = 50
	// stormTime is how long.
	stormTime = 10 * time.Second
)

// specStorm edits the specs of objects faster than they can be acted on, one of them all the
// time, and waits until every last edit is done.
func specStorm(ctx context.Context, l *harness.Lab, n int) (measure.Figures, error) {
	m, err := l.Begin(ctx, namespace)
	if err != nil {
		return nil, err
	}
	if err := l.CreateAll(ctx, namespace, "storm", n, harness.Held); err != nil {
		return nil, err
	}
	if err := l.Watcher.Await(ctx, namespace, l.Subject.Held, n, patience(n)); err != nil {
		return nil, err
	}
	if err := l.Watcher.Quiet(ctx, time.Second, time.Minute); err != nil {
		return nil, err
	}
	before, err := l.ServerMetrics(ctx)
	if err != nil {
		return nil, err
	}
	window, err := l.Open(ctx, m)
	if err != nil {
		return nil, err
	}
	s := &storm{lab: l, n: n, last: make([]int, n)}
	if err := s.blow(ctx); err != nil {
		return nil, err
	}
	lost, err := s.converge(ctx)
	if err != nil {
		return nil, err
	}
	f := measure.Figures{}
	f.Put("lost", float64(lost))
	if err := window.Close(ctx, s.edits, f); err != nil {
		return nil, err
	}
	f.Put("edits", float64(s.edits))
	if err := l.Watcher.Quiet(ctx, 2*time.Second, time.Minute); err != nil {
		return nil, err
	}
	after, err := l.ServerMetrics(ctx)
	if err != nil {
		return nil, err
	}
	// What is applied again changes nothing, so nobody sees it.
	f.Put("applied_again", after.Applies()-before.Applies()-float64(s.put(f)))
	return f, nil
}

// storm is a run of edits. Object 0 is the hot one.
type storm struct {
	lab   *harness.Lab
	n     int
	last  []int // version of each object's last edit
	edits int
}

func (s *storm) name(i int) string { return fmt.Sprintf("%sstorm-%d", harness.HeldPrefix, i) }

func (s *storm) blow(ctx context.Context) error {
	ticks := time.NewTicker(time.Second / stormRate)
	defer ticks.Stop()
	version := 0
	for end := time.Now().Add(stormTime); time.Now().Before(end); {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		version++
		for _, i := range []int{0, 1 + version%(s.n-1)} {
			path := harness.Path(s.lab.Subject.Resource, namespace, s.name(i))
			if err := s.lab.Client.Patch(ctx, path, s.lab.Subject.Edit(version)); err != nil {
				return err
			}
			s.last[i], s.edits = version, s.edits+1
		}
	}
	return nil
}

// converge waits until what the specs say is said everywhere. lost is of how many objects it is
// not in the end.
func (s *storm) converge(ctx context.Context) (lost int, err error) {
	end := time.Now().Add(patience(s.n))
	for {
		behind := 0
		for i := range s.n {
			if !s.converged(i) {
				behind++
			}
		}
		switch {
		case behind == 0, time.Now().After(end):
			return behind, nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func (s *storm) converged(i int) bool {
	story := s.lab.Watcher.Story(namespace, s.name(i))
	if story == nil {
		return false
	}
	want := strconv.Itoa(s.last[i])
	for _, v := range story.Versions {
		if v.Value != want {
			return false
		}
	}
	return len(story.Versions) > 1 // the spec's own and a child's
}

// put puts what was seen into the figures, and says how often an edit was applied.
func (s *storm) put(f measure.Figures) (applied int) {
	var delays []time.Duration
	back := 0
	for i := range s.n {
		story := s.lab.Watcher.Story(namespace, s.name(i))
		for where, v := range story.Versions {
			if where == "spec" {
				continue
			}
			applied, back = applied+v.Changes-1, back+v.Back
			delays = append(delays, max(0, v.Time.Sub(story.Versions["spec"].Time)))
			if i == 0 {
				f.Put("hot_converged_ms", measure.Milliseconds(v.Time.Sub(story.Versions["spec"].Time)))
				f.Put("hot_edits", float64(story.Versions["spec"].Changes-1))
				f.Put("hot_applied", float64(v.Changes-1))
			}
		}
	}
	f.Put("converged_p50_ms", measure.Quantile(delays, 0.5))
	f.Put("converged_p99_ms", measure.Quantile(delays, 0.99))
	f.Put("applied_back", float64(back))
	f.Put("applied_per_edit", float64(applied)/float64(s.edits))
	f.Put("writes_per_edit", f["calls_patch"]+f["calls_create"])
	return applied
}
