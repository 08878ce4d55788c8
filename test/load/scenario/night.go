package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/labkeeper/labkeeper/test/load/harness"
	"github.com/labkeeper/labkeeper/test/load/measure"
)

// night lets objects all begin at one minute, and measures guests meanwhile, one after the other, in another namespace:
// how soon the manager acts for those.
func night(ctx context.Context, l *harness.Lab, n int) (measure.Figures, error) {
	guest := l.Subject.Guest
	if guest == nil || l.Subject.At == nil {
		return nil, fmt.Errorf("%s has no guest, or knows no time", l.Subject.Name)
	}
	const guests = "guests"
	m, err := l.Begin(ctx, namespace, guests)
	if err != nil {
		return nil, err
	}
	const warm = 5
	for i := range warm {
		if _, err := life(ctx, l, guest, guests, fmt.Sprintf("warm-%d", i), time.Minute); err != nil {
			return nil, err
		}
	}
	at, err := waiting(ctx, l, "night", n)
	if err != nil {
		return nil, err
	}
	window, err := openBefore(ctx, l, m, at)
	if err != nil {
		return nil, err
	}
	if err := until(ctx, at); err != nil {
		return nil, err
	}
	beside, err := besides(ctx, l, guest, guests, namespace, n, at)
	if err != nil {
		return nil, err
	}
	f := measure.Figures{}
	if err := window.Close(ctx, n, f); err != nil {
		return nil, err
	}
	total, _ := completion(l.Counted(namespace, n), l.Subject.Done, at)
	f.Put("total_s", total.Seconds())
	f.Put("rate", float64(n)/total.Seconds())
	stories := slices.DeleteFunc(l.CountedOf(guest, guests, warm+len(beside)), func(s *harness.Story) bool { return !strings.HasPrefix(s.Name, "beside-") })
	f.Put("guests", float64(len(beside)))
	harness.PutReactions("guest_", guest.Reactions, stories, f)
	heap, err := m.Heap(ctx)
	f.Put("heap_mb", heap/1e6)
	return f, err
}

func until(ctx context.Context, at time.Time) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(at)):
		return nil
	}
}
