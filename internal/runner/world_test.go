package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/restore"
)

// fault is what goes wrong at a call.
type fault string

const (
	// killBefore and killAfter end the process before, or after, the call has had its effect.
	killBefore fault = "killed before"
	killAfter  fault = "killed after"
	// refused and lost are an error before, or after, the call has had its effect.
	refused fault = "refused"
	lost    fault = "its answer lost"
	// signal tells the run to stop.
	signal fault = "signal"
	// down is an outage, of all that is called from then on.
	down fault = "down"
)

var faults = []fault{killBefore, killAfter, refused, lost, signal, down}

// killed is the end of a process.
type killed struct{}

var errFault = errors.New("the server is down")

// asleepValue is what things are made.
const asleepValue = 0

// world is resources that have a number, some of which are taken away to put them to sleep; and what a run knows of it:
// a store. It is an executor, and its target.
type world struct {
	t *testing.T
	// listed are the keys in the order of snapshots, and have their values; what is not in have is gone.
	listed []string
	have   map[string]int
	// lag is how often each resource is asked before it has settled; but one that never had, when the time is over.
	lag   int
	never string
	// look is how long it takes to ask for one.
	look time.Duration
	// heals are resources that somebody wakes when they have settled, and why.
	heals map[string]string
	// already says of resources that are as they were who has woken them.
	already map[string]string
	asked   map[string]int
	await   time.Duration
	// broken are resources that cannot be changed.
	broken map[string]error

	// cluster it is in; empty is the manager's own.
	cluster string
	// config is what it is reached by; nil is by nothing.
	config *rest.Config
	// hub is the UID of the manager's own cluster, namespace that which it runs in, and withheld the namespaces that were, with the nodes,
	// when it was opened last.
	hub, namespace, withheld string

	// stored is what the store has, and told the result in it; fence is the execution that may write.
	stored []byte
	told   *Result
	fence  string
	limit  int // of bytes; 0 is none

	// calls are what was called in this run. The fault happens at call number at, from 1.
	calls  []string
	onCall func(name string)
	at     int
	fault  fault
	cancel context.CancelFunc
	clock  *instant
	writes int
}

// instant is a clock on which waiting takes no time.
type instant struct {
	*clocktesting.FakeClock
	// stood is how long the machine stood still: its timers know nothing of that.
	stood time.Duration
}

func (c *instant) Now() time.Time { return c.FakeClock.Now().Add(c.stood) }

func (c *instant) After(d time.Duration) <-chan time.Time {
	ch := c.FakeClock.After(d)
	c.Step(d)
	return ch
}

var _ clock.WithDelayedExecution = (*instant)(nil)

// pool starts the key of what is taken away.
const pool = "pool"

func newWorld(t *testing.T) *world {
	return &world{t: t, listed: []string{"web", "api", "pool-b", "idle", "pool-a", "db"}, broken: map[string]error{},
		have:  map[string]int{"web": 3, "api": 2, "pool-b": 5, "idle": asleepValue, "pool-a": 4, "db": 1},
		clock: &instant{FakeClock: clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))}, lag: 2, await: time.Minute}
}

func (w *world) clone() *world {
	c := *w
	c.have, c.broken = maps.Clone(w.have), maps.Clone(w.broken)
	return &c
}

// called counts a call, and lets effect happen with the fault that there is.
func (w *world) called(name string, effect func() error) error {
	w.calls = append(w.calls, name)
	if w.onCall != nil {
		w.onCall(name)
	}
	w.clock.Step(300 * time.Millisecond)
	n := len(w.calls)
	if w.fault == down && w.at > 0 && n >= w.at {
		return errFault
	}
	if n != w.at {
		return effect()
	}
	switch w.fault {
	case killBefore:
		panic(killed{})
	case refused:
		return errFault
	case signal:
		w.cancel()
	}
	err := effect()
	switch w.fault {
	case killAfter:
		panic(killed{})
	case lost:
		return errFault
	}
	return err
}

// Parse, Needs and Open are an executor that takes everything.
func (w *world) Parse(parameters json.RawMessage) (executor.Parameters, error) {
	if string(parameters) == `"wrong"` {
		return nil, &executor.InvalidError{Path: "all", Problem: "it is wrong"}
	}
	return w, nil
}
func (w *world) Needs() executor.Needs { return executor.Needs{} }
func (w *world) Open(_ context.Context, session executor.Session) (executor.Target, error) {
	w.withheld = strings.Join(strings.Fields(strings.Join(session.Withheld, " ")+" "+session.ManagerNode+" "+session.RunnerNode), " ")
	return w, nil
}
func (w *world) Await() time.Duration               { return w.await }
func (w *world) number(raw json.RawMessage) (n int) { _ = json.Unmarshal(raw, &n); return n }
func (w *world) raw(n int) json.RawMessage          { return json.RawMessage(fmt.Sprint(n)) }
func (w *world) asleep(key string) bool {
	value, there := w.have[key]
	return !there || !strings.HasPrefix(key, pool) && value == asleepValue
}

var takenAway = json.RawMessage(`"taken away"`)

func (w *world) Snapshot(context.Context) (found []executor.Resource, err error) {
	err = w.called("Snapshot", func() error {
		for _, key := range w.listed {
			if value, there := w.have[key]; there {
				found = append(found, executor.Resource{Key: key, State: w.raw(value)})
			}
		}
		return nil
	})
	return found, err
}

func (w *world) Shutdown(ctx context.Context, captured executor.Captured) (slept json.RawMessage, err error) {
	key := captured.Key
	err = w.called("Shutdown "+key, func() error {
		if err := errors.Join(ctx.Err(), w.broken[key]); err != nil {
			return err
		}
		w.mustBeCaptured(key)
		w.asked = nil
		value, there := w.have[key]
		switch {
		case there && captured.Changed(value == w.number(captured.Before), w.number(captured.Before) == asleepValue, value == asleepValue):
			return &executor.ChangedError{State: w.raw(value)}
		case strings.HasPrefix(key, pool):
			delete(w.have, key)
			slept = takenAway
		case !there:
			slept = executor.Gone
		default:
			w.have[key] = asleepValue
			slept = w.raw(asleepValue)
		}
		return nil
	})
	return slept, err
}

// mustBeCaptured: what is changed is in the store, durably.
func (w *world) mustBeCaptured(key string) {
	point := w.point()
	if point == nil || point.Resource(key) == nil || point.Resource(key).Over() {
		w.t.Errorf("%s is changed and was not captured", key)
	}
}

func (w *world) WakeUp(ctx context.Context, r restore.Resource) (ending executor.Ending, err error) {
	err = w.called("WakeUp "+r.Key, func() error {
		if err := errors.Join(ctx.Err(), w.broken[r.Key]); err != nil {
			return err
		}
		w.asked = nil
		value, there := w.have[r.Key]
		before, taken := w.number(r.Before), strings.HasPrefix(r.Key, pool)
		switch {
		case there && value == before:
			ending.Note = w.already[r.Key]
		case !there && taken, there && !taken && value == asleepValue:
			w.have[r.Key] = before
		case !there:
			ending = executor.Ending{State: restore.Left, Note: "it is gone"}
			return nil
		default:
			ending = executor.Ending{State: restore.Left, Note: fmt.Sprintf("somebody has made it %d", value)}
			return nil
		}
		ending.State = restore.Restored
		return nil
	})
	return ending, err
}

func (w *world) Settled(_ context.Context, r restore.Resource, late bool) (missing string, err error) {
	err = w.called("Settled "+r.Key, func() error {
		w.clock.Step(w.look)
		if w.asked == nil {
			w.asked = map[string]int{}
		}
		if w.asked[r.Key]++; w.asked[r.Key] <= w.lag && (!late || r.Key != w.never) {
			missing = "it has not come to rest"
			return nil
		}
		if cause := w.heals[r.Key]; cause != "" {
			return &executor.WokenError{Problem: "it is awake again", Cause: cause}
		}
		return nil
	})
	return missing, err
}

// untold is a cluster whose credentials do not say which one it is.
const untold = "untold"

func (w *world) identify(context.Context, *rest.Config) (id string, err error) {
	err = w.called("Identify", func() error {
		id = strings.TrimPrefix(w.cluster, untold)
		return nil
	})
	return id, err
}

// memory is the store of a world, for one execution.
type memory struct {
	*world
	execution string
}

func (s memory) Load(ctx context.Context) (point *restore.Point, err error) {
	err = s.called("Load", func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.fence != s.execution {
			return failure(ReasonSuperseded, "it is that of %s", s.fence)
		}
		point = s.point()
		return nil
	})
	return point, err
}

func (s memory) Save(ctx context.Context, point *restore.Point, result *Result) error {
	return s.called("Save", func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.fence != s.execution {
			return failure(ReasonSuperseded, "it is that of %s", s.fence)
		}
		if point != nil {
			content, err := json.Marshal(point)
			if err != nil {
				return err
			}
			if s.limit > 0 && len(content) > s.limit {
				return &restore.TooLargeError{Resources: len(point.Resources), Size: len(content), Limit: s.limit}
			}
			s.stored = content
		}
		if result != nil {
			told := *result
			s.told = &told
		}
		s.writes++
		return nil
	})
}

func (w *world) point() *restore.Point {
	if w.stored == nil {
		return nil
	}
	p := &restore.Point{}
	if err := json.Unmarshal(w.stored, p); err != nil {
		w.t.Fatal(err)
	}
	return p
}

// run runs an attempt with a fault at a call; the result is nil if it was killed. Nothing may say that it is completed
// unless it is.
func (w *world) run(operation v1alpha1.Operation, f fault, at int) (result *Result) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w.fence = fmt.Sprint(w.fence, "'")
	w.calls, w.fault, w.at, w.cancel, w.asked = nil, f, at, cancel, nil
	task := Task{Operation: operation, Plan: "shop/nights", Target: "all", Type: "world", Cycle: "c1", Execution: w.fence, Attempt: 1, Deadline: time.Hour,
		RestorePoint: "system/nights-all", Hub: w.hub, ManagerNamespace: w.namespace, ManagerNode: "node-1", Node: "node-2"}
	return w.runTask(ctx, task)
}

func (w *world) runTask(ctx context.Context, task Task) (result *Result) {
	w.t.Helper()
	defer func() {
		if reason := recover(); reason != nil {
			if _, ok := reason.(killed); !ok {
				panic(reason)
			}
			result = nil
		}
		for _, r := range []*Result{result, w.told} {
			if r != nil && r.Execution == task.Execution && r.Completed {
				w.mustBe(task.Operation, *r)
			}
		}
	}()
	deps := Deps{Store: memory{w, task.Execution}, Executors: executor.Registry{"world": w}, Clock: w.clock}
	if w.cluster != "" {
		deps.Identify = w.identify
	}
	if w.config != nil {
		deps.Config = func() (*rest.Config, error) { return w.config, nil }
	}
	r := Run(ctx, task, deps)
	if r.Completed == (r.Reason != "") || r.Message == "" {
		w.t.Errorf("the result does not say what it is: %+v", r)
	}
	if r.Completed && (w.told == nil || w.told.Execution != r.Execution || !w.told.Completed) {
		w.t.Errorf("it is completed, and that was not saved: %+v", r)
	}
	return &r
}

// mustBe: what a completed result says is so.
func (w *world) mustBe(operation v1alpha1.Operation, r Result) {
	w.t.Helper()
	point := w.point()
	if operation == v1alpha1.OperationWakeUp {
		if point != nil && len(point.Open()) > 0 {
			w.t.Errorf("it is completed, and %d are open", len(point.Open()))
		}
		return
	}
	for _, key := range w.listed {
		if !w.asleep(key) {
			w.t.Errorf("it is completed, and %s is awake: %+v", key, r)
		}
	}
	for _, resource := range point.Open() {
		if resource.State != restore.Asleep {
			w.t.Errorf("it is completed, and %s is %s", resource.Key, resource.State)
		}
	}
}

// called with a prefix: the keys.
func (w *world) keys(prefix string) (keys []string) {
	for _, call := range w.calls {
		if key, ok := strings.CutPrefix(call, prefix+" "); ok {
			keys = append(keys, key)
		}
	}
	return slices.Clip(keys)
}
