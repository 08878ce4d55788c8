package scenario

import (
	"context"
	"time"

	"github.com/labkeeper/labkeeper/test/load/harness"
	"github.com/labkeeper/labkeeper/test/load/measure"
)

const namespace = "load"

// burst creates all objects at once and waits until all are done.
func burst(ctx context.Context, l *harness.Lab, n int) (measure.Figures, error) {
	m, err := l.Begin(ctx, namespace)
	if err != nil {
		return nil, err
	}
	f := measure.Figures{}
	window, err := l.Open(ctx, m)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if err := l.CreateAll(ctx, namespace, "burst", n, harness.Plain); err != nil {
		return nil, err
	}
	f.Put("created_s", time.Since(start).Seconds())
	if err := l.Watcher.Await(ctx, namespace, l.Subject.Done, n, patience(n)); err != nil {
		return nil, err
	}
	if err := window.Close(ctx, n, f); err != nil {
		return nil, err
	}
	stories := l.Counted(namespace, n)
	total, done := completion(stories, l.Subject.Done, start)
	f.Put("total_s", total.Seconds())
	f.Put("rate", float64(n)/total.Seconds())
	f.Put("median_completion_share", measure.Quantile(done, 0.5)/measure.Milliseconds(total))
	l.PutReactions(stories, f)
	f.Put("statuses", statuses(stories))
	putLives(l.Subject, stories, f)
	heap, err := m.Heap(ctx)
	f.Put("heap_mb", heap/1e6)
	return f, err
}

// completion is when the last object was done, and when each was, since the start.
func completion(stories []*harness.Story, done string, start time.Time) (total time.Duration, each []time.Duration) {
	for _, s := range stories {
		d := s.Marks[done].Sub(start)
		total, each = max(total, d), append(each, d)
	}
	return total, each
}

// statuses is how many distinct ones an object published, on average.
func statuses(stories []*harness.Story) float64 {
	sum := 0
	for _, s := range stories {
		sum += len(s.Statuses)
	}
	return float64(sum) / float64(len(stories))
}

// putLives puts how long objects waited for the manager's first write, and lived until they
// were done.
func putLives(subject *harness.Subject, stories []*harness.Story, f measure.Figures) {
	for figure, mark := range map[string]string{"first_write": subject.Acted, "life": subject.Done} {
		var lives []time.Duration
		for _, s := range stories {
			lives = append(lives, s.Marks[mark].Sub(s.Marks[subject.Created]))
		}
		f.Put(figure+"_p50_ms", measure.Quantile(lives, 0.5))
		f.Put(figure+"_p99_ms", measure.Quantile(lives, 0.99))
	}
}
