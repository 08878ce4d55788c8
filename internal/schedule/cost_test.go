package schedule_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labkeeper/labkeeper/internal/schedule"
)

const (
	even = "*/2 * * * * | 1-59/2 * * * *"
	odd  = "1-59/2 * * * * | */2 * * * *"
)

// costly are specs that change every minute, and of which all must be looked at until the Horizon.
func costly(now time.Time) map[string]schedule.Spec {
	exception := func(kind schedule.ExceptionType, lead time.Duration, windows string) schedule.Exception {
		return schedule.Exception{Type: kind, From: now.Add(-schedule.Horizon), Until: now.Add(10 * schedule.Horizon), LeadTime: lead, Windows: parse(windows)}
	}
	var rare []string
	for i := range 60 {
		rare = append(rare, fmt.Sprintf("%d 0 31 */1 */7 | %d 1 31 */1 */7", i, i)) // Sundays that are the 31st
	}
	seldom := strings.Join(rare, ";")
	return map[string]schedule.Spec{
		"asleep by windows in turns": {OffHours: parse(even + ";" + odd)},
		"a lead time before stretches in every minute": {
			OffHours: parse("MON-FRI 20:00-06:00"), Exceptions: []schedule.Exception{exception(schedule.Suspend, schedule.MaxLeadTime, even+";"+even)},
		},
		"awake by a suspension of every minute that is asleep": {
			OffHours: parse(even), Exceptions: []schedule.Exception{exception(schedule.Suspend, schedule.MaxLeadTime, even)},
		},
		"all is dropped": {OffHours: parse(even), Exceptions: []schedule.Exception{
			exception(schedule.Extend, 0, odd), exception(schedule.Suspend, schedule.MaxLeadTime, "0 0 1,15 * * | 1 0 1,15 * *"),
		}},
		"all is dropped, and there are leads of what hardly ever comes": {OffHours: parse("DAILY 20:00-06:00"), Exceptions: append(
			slices.Repeat([]schedule.Exception{exception(schedule.Suspend, schedule.MaxLeadTime, seldom)}, 99),
			exception(schedule.Suspend, schedule.MaxLeadTime, "0 0 1,15 * * | 1 0 1,15 * *"),
		)},
		"firings that are years apart": {OffHours: parse(seldom), Exceptions: []schedule.Exception{
			exception(schedule.Extend, 0, seldom), exception(schedule.Suspend, schedule.MaxLeadTime, seldom),
		}},
	}
}

// Whatever a Spec says that New takes, a look costs little: it is had at each pass of a plan. It is told by what a look allocates,
// which does not depend on what else runs, and is far from what it would take to list all windows one by one. BenchmarkCost has the
// times.
func TestCost(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	for name, spec := range costly(now) {
		t.Run(name, func(t *testing.T) {
			spec.Timezone = "Europe/Berlin"
			s := build(t, spec)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			s.At(now)
			runtime.ReadMemStats(&after)
			if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 64 {
				t.Errorf("one look takes %d MiB", mib)
			}
		})
	}
}

func BenchmarkCost(b *testing.B) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	for name, spec := range costly(now) {
		spec.Timezone = "Europe/Berlin"
		s := build(b, spec)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.At(now)
			}
		})
	}
}
