package scenario

import (
	"context"
	"strconv"
	"time"

	"github.com/labkeeper/labkeeper/test/load/harness"
	"github.com/labkeeper/labkeeper/test/load/measure"
)

// starts is how often the manager is started over the same store.
const starts = 5

// startup starts managers over a store in which half of the objects are done, with all their
// children, and half have none; what their caches take up tells the two apart.
func startup(ctx context.Context, l *harness.Lab, n int) (measure.Figures, error) {
	m, err := l.Begin(ctx, namespace, "new")
	if err != nil {
		return nil, err
	}
	f := measure.Figures{}
	empty, err := heapAfterStart(ctx, l, m, f, "empty")
	if err != nil {
		return nil, err
	}
	childless := n / 2
	if m, err = fill(ctx, l, "childless", childless, harness.Refused, l.Subject.Refused); err != nil {
		return nil, err
	}
	own, err := heapAfterStart(ctx, l, m, f, "childless")
	if err != nil {
		return nil, err
	}
	done := n - childless
	if m, err = fill(ctx, l, "done", done, harness.Plain, l.Subject.Done); err != nil {
		return nil, err
	}
	all, err := heapAfterStart(ctx, l, m, f, "full")
	if err != nil {
		return nil, err
	}
	each := (own - empty) / float64(childless)
	f.Put("heap_kb_per_object", each/1e3)
	f.Put("heap_kb_per_child", ((all-own)/float64(done)-each)/float64(l.Subject.Cached)/1e3)
	if err := l.FloorAgain(ctx); err != nil {
		return nil, err
	}
	return f, firstWrites(ctx, l, f)
}

// fill brings objects where they stay, by a manager that is ended then.
func fill(ctx context.Context, l *harness.Lab, prefix string, n int, variant harness.Variant, mark string) (*harness.Manager, error) {
	before := l.Watcher.Count(namespace, mark)
	m, err := l.StartManager()
	if err != nil {
		return nil, err
	}
	l.Tell("filling the store with %d objects", n)
	if err := l.CreateAll(ctx, namespace, prefix, n, variant); err != nil {
		return nil, err
	}
	if err := l.Watcher.Await(ctx, namespace, mark, before+n, patience(n)); err != nil {
		return nil, err
	}
	return m, l.Watcher.Quiet(ctx, 2*time.Second, time.Minute)
}

// heapAfterStart ends the manager that has filled the store and tells the heap of one that
// has found all of it.
func heapAfterStart(ctx context.Context, l *harness.Lab, filler *harness.Manager, f measure.Figures, name string) (float64, error) {
	if err := filler.End(); err != nil {
		return 0, err
	}
	m, err := l.StartManager()
	if err != nil {
		return 0, err
	}
	if err := m.Ready(ctx); err != nil {
		return 0, err
	}
	if err := l.Settle(ctx); err != nil {
		return 0, err
	}
	heap, err := m.Heap(ctx)
	if err != nil {
		return 0, err
	}
	peak, now, err := m.Memory()
	if err != nil {
		return 0, err
	}
	f.Put("heap_mb_"+name, heap/1e6)
	f.Put("rss_mb_"+name, now/1e6)
	f.Put("rss_mb", peak/1e6)
	return heap, m.End()
}

// firstWrites starts managers, and with each creates an object.
func firstWrites(ctx context.Context, l *harness.Lab, f measure.Figures) error {
	var acted, rested []time.Duration
	for i := range starts {
		if err := l.Settle(ctx); err != nil {
			return err
		}
		window, err := l.Open(ctx, nil)
		if err != nil {
			return err
		}
		m, err := l.StartManager()
		if err != nil {
			return err
		}
		name := "new-" + strconv.Itoa(i)
		if err := l.Create(ctx, "new", name, harness.Plain); err != nil {
			return err
		}
		if err := l.Watcher.Await(ctx, "new", l.Subject.Acted, i+1, time.Minute); err != nil {
			return err
		}
		acted = append(acted, l.Watcher.Story("new", name).Marks[l.Subject.Acted].Sub(m.Started))
		if err := l.Watcher.Await(ctx, "new", l.Subject.Done, i+1, time.Minute); err != nil {
			return err
		}
		rested = append(rested, l.Watcher.Story("new", name).Marks[l.Subject.Done].Sub(m.Started))
		if err := window.Close(ctx, 1, f); err != nil {
			return err
		}
		if err := m.End(); err != nil {
			return err
		}
	}
	f.Put("first_write_p50_ms", measure.Quantile(acted, 0.5))
	f.Put("first_write_max_ms", measure.Quantile(acted, 1))
	f.Put("first_done_p50_ms", measure.Quantile(rested, 0.5))
	return nil
}
