package runner

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/restore"
)

// slow is a store each write of which takes as long as is said of it; less than nothing is for ever.
type slow struct {
	memory
	takes func(write int, result *Result) time.Duration
	write int
}

func (s *slow) Save(ctx context.Context, point *restore.Point, result *Result) error {
	s.write++
	var done <-chan time.Time
	if d := s.takes(s.write, result); d >= 0 {
		done = time.After(d)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-done:
		return s.memory.Save(ctx, point, result)
	}
}

// runSlow runs an operation with a store that is slow, and returns how long that took.
func (w *world) runSlow(ctx context.Context, operation v1alpha1.Operation, takes func(write int, result *Result) time.Duration) (Result, time.Duration) {
	w.fence, w.asked = w.fence+"'", nil
	task := Task{Operation: operation, Plan: "shop/nights", Target: "all", Type: "world", Cycle: "c1", Execution: w.fence, Attempt: 1, Deadline: time.Hour}
	began := time.Now()
	r := Run(ctx, task, Deps{Store: &slow{memory: memory{w, w.fence}, takes: takes}, Executors: executor.Registry{"world": w}, Clock: clock.RealClock{}})
	return r, time.Since(began)
}

// Webhooks of others that hang, and are to be ignored, have each write of the restore point take as long as the API server waits for them,
// and one that is lost on the way is tried again.
func TestSlowStore(t *testing.T) {
	for name, takes := range map[string]func(write int, result *Result) time.Duration{
		"two webhooks":     func(int, *Result) time.Duration { return 20 * time.Second },
		"one that is slow": func(int, *Result) time.Duration { return 30 * time.Second },
		"a write is lost":  func(write int, _ *Result) time.Duration { return time.Duration(1-2*(write%2)) * time.Second },
		"the last one is so": func(_ int, result *Result) time.Duration {
			if result != nil {
				return time.Minute
			}
			return 0
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				before := maps.Clone(w.have)
				for _, operation := range []v1alpha1.Operation{shutdown, wakeUp} {
					if r, took := w.runSlow(t.Context(), operation, takes); !r.Completed || !w.told.Completed || took > 10*time.Minute {
						t.Errorf("%s, after %s: %+v", operation, took, r)
					}
				}
				if diff := cmp.Diff(before, w.have); diff != "" {
					t.Errorf("world (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// Whoever is told to stop while a write hangs has come to his end before he is killed, 30 s later.
func TestStoppedWhileItHangs(t *testing.T) {
	for name, which := range map[string]func(result *Result) bool{
		"the first write": func(*Result) bool { return true },
		"the last write":  func(result *Result) bool { return result != nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				const stop = 15 * time.Second
				time.AfterFunc(stop, cancel)
				r, took := newWorld(t).runSlow(ctx, shutdown, func(_ int, result *Result) time.Duration {
					if which(result) {
						return -1
					}
					return 0
				})
				if r.Completed || took < stop || took > stop+25*time.Second {
					t.Errorf("after %s: %+v", took, r)
				}
			})
		})
	}
}

// Where there is no room for what was done, what is known is written once more, leaner: of whoever is told to stop both writes together
// have the time of one, and he has come to his end before he is killed.
func TestStoppedWithoutRoom(t *testing.T) {
	full := newWorld(t)
	full.mustComplete(shutdown)
	for each, written := range map[time.Duration]bool{flushTime/2 - time.Second: true, flushTime/2 + time.Second: false} {
		t.Run(each.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				const stop = 15 * time.Second
				time.AfterFunc(stop, cancel)
				w, last := newWorld(t), 0
				w.limit, w.lag = len(full.stored)-10, 0
				r, took := w.runSlow(ctx, shutdown, func(_ int, result *Result) time.Duration {
					if result == nil {
						return 0
					}
					if last++; last == 1 { // which nobody answers
						return -1
					}
					return each
				})
				if r.Completed || last != 3 || took > stop+grace+flushTime {
					t.Errorf("after %s and %d writes: %+v", took, last, r)
				}
				if told := w.told != nil && w.told.Reason == ReasonRestorePointTooLarge; told != written {
					t.Errorf("after %s it is written %v", took, w.told)
				}
			})
		})
	}
}

// silence takes requests, and answers none.
type silence struct{}

func (silence) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// What the cluster of a target does not answer has been lost on the way, and holds up nothing else for longer than the API server might
// have taken.
func TestLostRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config = &rest.Config{Host: "http://lost.example.com", Transport: silence{}}
		asked := 0
		w.onCall = func(name string) {
			if !strings.HasPrefix(name, "Shutdown") {
				return
			}
			asked++
			client, err := rest.HTTPClientFor(w.config)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if _, err := client.Get(w.config.Host); err == nil || time.Since(began) < time.Minute || time.Since(began) > 2*time.Minute {
				t.Errorf("after %s: %v", time.Since(began), err)
			}
		}
		if w.run(shutdown, "", 0); asked == 0 {
			t.Error("nothing was asked")
		}
	})
}
