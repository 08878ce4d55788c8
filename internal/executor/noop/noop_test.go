package noop

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labkeeper/labkeeper/internal/dispatch"
	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/executor/executortest"
	"github.com/labkeeper/labkeeper/internal/restore"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for parameters, path := range map[string]string{
		`{}`:                             "-",
		`{"resources": 1000}`:            "-",
		`{"randomDelaySeconds": 30}`:     "-",
		`{"failureMode": "both"}`:        "-",
		`{"resources": 0}`:               "resources",
		`{"resources": 1001}`:            "resources",
		`{"delaySeconds": -1}`:           "delaySeconds",
		`{"randomDelaySeconds": 31}`:     "randomDelaySeconds",
		`{"failures": -1}`:               "failures",
		`{"failureMode": "sometimes"}`:   "failureMode",
		`{"failureMode": "x", "wat": 1}`: "wat",
	} {
		_, err := Executor{}.Parse(json.RawMessage(parameters))
		invalid, is := errors.AsType[*executor.InvalidError](err)
		if path == "-" && err != nil || path != "-" && (!is || invalid.Path != path) {
			t.Errorf("%s: got %v, want an error of %s", parameters, err, path)
		}
	}
}

// TestNight goes through both operations, with more attempts where they are to fail.
func TestNight(t *testing.T) {
	t.Parallel()
	for parameters, want := range map[string][2]int{ // attempts at each
		`{"resources": 3}`:                                 {1, 1},
		`{"failureMode": "none", "failures": 2}`:           {1, 1},
		`{"failureMode": "shutdown", "failures": 2}`:       {3, 1},
		`{"failureMode": "both", "failures": 1}`:           {2, 1}, // attempts are counted on by the test's runner
		`{"failureMode": "shutdown"}`:                      {-1, 0},
		`{"failureMode": "wakeup"}`:                        {1, -1},
		`{"failureMode": "wakeup", "failureMessage": "a"}`: {1, -1},
	} {
		t.Run(parameters, func(t *testing.T) {
			t.Parallel()
			r := executortest.New(t, Executor{}, parameters, nil)
			got := [2]int{attempts(t, r.Shutdown)}
			if got[0] > 0 {
				got[1] = attempts(t, r.WakeUp)
			}
			if got != want {
				t.Errorf("took %v attempts, want %v", got, want)
			}
		})
	}
}

// attempts are how many it takes, or -1 if it does not come to an end.
func attempts(t *testing.T, operation func(context.Context) error) int {
	t.Helper()
	for n := 1; n <= 5; n++ {
		if operation(t.Context()) == nil {
			return n
		}
	}
	return -1
}

func TestFailureMessage(t *testing.T) {
	t.Parallel()
	r := executortest.New(t, Executor{}, `{"failureMode": "shutdown", "failureMessage": "no luck"}`, nil)
	if err := r.Shutdown(t.Context()); err == nil || !strings.HasSuffix(err.Error(), ": no luck") {
		t.Errorf("got %v, want no luck", err)
	}
}

func TestDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		took := func(ctx context.Context, key string, attempt int) (time.Duration, error) {
			p, err := Executor{}.Parse(json.RawMessage(`{"delaySeconds": 10, "randomDelaySeconds": 20}`))
			if err != nil {
				t.Fatal(err)
			}
			target, err := p.Open(ctx, executor.Session{Operation: dispatch.WakeUp, Attempt: attempt})
			if err != nil {
				t.Fatal(err)
			}
			from := time.Now()
			_, err = target.WakeUp(ctx, restore.Resource{Key: key})
			return time.Since(from), err
		}
		seen := map[time.Duration]bool{}
		for attempt := range 20 {
			d, err := took(t.Context(), "noop/0001", attempt)
			again, _ := took(t.Context(), "noop/0001", attempt)
			if err != nil || d < 10*time.Second || d > 30*time.Second || d != again {
				t.Errorf("took %s and %s (%v), want the same from 10s to 30s", d, again, err)
			}
			seen[d] = true
		}
		if len(seen) < 10 {
			t.Errorf("20 attempts took %d different times", len(seen))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if d, err := took(ctx, "noop/0001", 1); d != 3*time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("interrupted after %s: %v, want 3s", d, err)
		}
	})
}
