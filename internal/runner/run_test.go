package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/restore"
)

const (
	shutdown = v1alpha1.OperationShutdown
	wakeUp   = v1alpha1.OperationWakeUp
)

func (w *world) mustComplete(operation v1alpha1.Operation) Result {
	w.t.Helper()
	r := w.run(operation, "", 0)
	if r == nil || !r.Completed {
		w.t.Fatalf("%s is not completed: %+v", operation, r)
	}
	return *r
}

// The order of things: all is written before the first change; those first put to sleep wake last.
func TestOrderOfWrites(t *testing.T) {
	w := newWorld(t)
	before := maps.Clone(w.have)
	r := w.mustComplete(shutdown)
	if r.Resources != 6 || r.Done != 6 || len(r.Left) > 0 {
		t.Errorf("the result is %+v", r)
	}
	if diff := cmp.Diff([]string{"Load", "Snapshot", "Save", "Shutdown web"}, w.calls[:4]); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(w.listed, w.keys("Shutdown")); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	r = w.mustComplete(wakeUp)
	if r.Resources != 6 || r.Done != 6 || len(r.Left) > 0 {
		t.Errorf("the result is %+v", r)
	}
	want := slices.Clone(w.listed)
	slices.Reverse(want)
	if diff := cmp.Diff(want, w.keys("WakeUp")); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, w.have); diff != "" {
		t.Errorf("world (-want +got):\n%s", diff)
	}
}

// The log tells of each resource in a line, with how far the run is.
func TestProgress(t *testing.T) {
	w := newWorld(t)
	var lines []string
	logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
	w.fence = "e1"
	w.runTask(log.IntoContext(context.Background(), logger), Task{
		Operation: shutdown, Plan: "shop/nights", Target: "all", Type: "world", Cycle: "c1", Execution: "e1", Attempt: 1, Deadline: time.Hour,
	})
	tells := func(did, operation, key string, n int, why string) {
		t.Helper()
		want := fmt.Sprintf(`"msg"=%q "plan"="shop/nights" "target"="all" "operation"=%q "execution"="e1" "key"=%q "n"=%d "of"=%d%s`, did, operation, key, n, len(w.listed), why)
		told := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return !strings.HasSuffix(line, want) })
		if len(told) != 1 {
			t.Errorf("%d lines have %s:\n%s", len(told), want, strings.Join(lines, "\n"))
		}
	}
	for i, key := range w.listed {
		did, why := "Put to sleep", ""
		if w.number(w.point().Resource(key).Before) == asleepValue {
			did, why = "Left as it was found", ` "why"="it was asleep"`
		}
		tells(did, "Shutdown", key, i+1, why)
	}

	// What was left as somebody else has made it is told of with the reason.
	w.have["api"] = 7
	delete(w.have, "db")
	w.runTask(log.IntoContext(context.Background(), logger), Task{
		Operation: wakeUp, Plan: "shop/nights", Target: "all", Type: "world", Cycle: "c1", Execution: "e1", Attempt: 1, Deadline: time.Hour,
	})
	for i, key := range w.listed {
		did, why := "Woken", ""
		switch key {
		case "api":
			did, why = "Left as it was found", ` "why"="somebody has made it 7"`
		case "db":
			did, why = "Left as it was found", ` "why"="it is gone"`
		}
		tells(did, "WakeUp", key, len(w.listed)-i, why)
	}
}

// What an attempt has found asleep, and somebody wakes before the next one puts it to sleep, wakes as he has made it.
func TestFoundAsleep(t *testing.T) {
	w := newWorld(t)
	w.broken["db"] = errors.New("it is broken")
	if r := w.run(shutdown, "", 0); r.Completed {
		t.Fatalf("it is completed: %+v", r)
	}
	w.have["idle"] = 7
	delete(w.broken, "db")
	before := maps.Clone(w.have)
	before["web"], before["api"], before["pool-a"], before["pool-b"] = 3, 2, 4, 5
	everyFault(w, shutdown, []fault{killBefore, killAfter, refused, lost, signal}, func(what string, w *world) {
		w.mustComplete(shutdown)
		r := w.mustComplete(wakeUp)
		if diff := cmp.Diff(before, w.have); diff != "" || len(r.Left) > 0 {
			t.Errorf("%s: left are %v; world (-want +got):\n%s", what, r.Left, diff)
		}
	})
}

// everyFault runs an operation from a state with each of the faults at each call, until a run is too short for it, and
// hands on what there is then.
func everyFault(w *world, operation v1alpha1.Operation, faults []fault, then func(what string, w *world)) {
	for _, f := range faults {
		for at := 1; ; at++ {
			c := w.clone()
			r := c.run(operation, f, at)
			if len(c.calls) < at {
				break
			}
			if f == down && r.Completed {
				c.t.Errorf("%s at call %d of %s: it is completed", f, at, operation)
			}
			then(fmt.Sprintf("%s at call %d (%s) of %s", f, at, c.calls[at-1], operation), c)
		}
	}
}

// A shutdown with a fault, perhaps another try at it, then a wake-up with a fault, perhaps another try: the world is as
// it was, or nothing says that it is.
func TestEveryFault(t *testing.T) {
	start := newWorld(t)
	before := maps.Clone(start.have)
	runs := 0
	check := func(what string, w *world) {
		runs++
		if diff := cmp.Diff(before, w.have); diff != "" {
			t.Errorf("%s: world (-want +got):\n%s", what, diff)
		}
	}
	wake := func(what string, w *world) {
		everyFault(w, wakeUp, faults, func(then string, w *world) {
			if w.told != nil && w.told.Execution == w.fence && w.told.Completed {
				check(what+", "+then, w.clone())
			}
			r := w.mustComplete(wakeUp)
			if len(r.Left) > 0 {
				t.Errorf("%s, %s: left are %v", what, then, r.Left)
			}
			check(what+", "+then, w)
		})
	}
	everyFault(start, shutdown, faults, func(what string, w *world) {
		again := w.clone()
		again.mustComplete(shutdown)
		wake(what+", again", again)
		wake(what, w)
		if t.Failed() {
			t.FailNow()
		}
	})
	t.Logf("%d ways", runs)
	if runs < 1000 {
		t.Errorf("these were only %d ways", runs)
	}
}

// A wake-up that was cut short, and then the next night before it was tried again: what is awake is captured as it is
// then, and what still sleeps as it was.
func TestSleepAgainAfterHalfAWakeUp(t *testing.T) {
	start := newWorld(t)
	before := maps.Clone(start.have)
	start.mustComplete(shutdown)
	everyFault(start, wakeUp, []fault{killAfter, refused, signal}, func(first string, w *world) {
		everyFault(w, shutdown, []fault{killBefore, lost, signal, down}, func(then string, w *world) {
			w.mustComplete(shutdown)
			w.mustComplete(wakeUp)
			if diff := cmp.Diff(before, w.have); diff != "" {
				t.Fatalf("%s, %s: world (-want +got):\n%s", first, then, diff)
			}
		})
	})
}

func TestRetryDoesNotCaptureAgain(t *testing.T) {
	w := newWorld(t)
	w.broken["api"] = apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "api", errors.New("no"))
	w.broken["db"] = errors.New("the database is locked")
	r := w.run(shutdown, "", 0)
	if r.Completed || r.Reason != ReasonForbidden || r.Resources != 6 || r.Done != 4 ||
		!strings.Contains(r.Message, "api: ") || !strings.Contains(r.Message, "db: the database is locked") {
		t.Errorf("the result is %+v", r)
	}
	if diff := cmp.Diff(w.listed, w.keys("Shutdown")); diff != "" {
		t.Errorf("a failure has kept others from being tried (-want +got):\n%s", diff)
	}
	w.broken = map[string]error{}
	w.mustComplete(shutdown)
	there := slices.DeleteFunc(slices.Clone(w.listed), func(key string) bool { return strings.HasPrefix(key, pool) })
	if diff := cmp.Diff(there, w.keys("Shutdown")); diff != "" { // but for what was taken away
		t.Errorf("again (-want +got):\n%s", diff)
	}
	for key, before := range newWorld(t).have {
		if got := w.point().Resource(key); got == nil || string(got.Before) != fmt.Sprint(before) {
			t.Errorf("%s was %d, and is captured as %+v", key, before, got)
		}
	}
}

// What somebody changes after the capture is captured, and that is written, before it is put to sleep; also what he has put to sleep
// himself, unless an attempt before may have done it.
func TestChangedAfterCapture(t *testing.T) {
	for name, test := range map[string]struct {
		killed int // the call of a run before, 0 is none
		api    int
	}{"first attempt": {0, asleepValue}, "second attempt": {4, 2}} { // killed at "Shutdown web"
		w := newWorld(t)
		want := maps.Clone(w.have)
		want["web"], want["api"], want["pool-b"] = 7, test.api, 6
		if test.killed > 0 {
			w.run(shutdown, killBefore, test.killed)
		}
		changes := map[string]int{"web": 7, "api": asleepValue, "pool-b": 6}
		w.changes(changes)
		w.mustComplete(shutdown)
		if diff := cmp.Diff([]string{"Load", "Snapshot", "Save", "Shutdown web", "Save", "Shutdown web"}, w.calls[:6]); diff != "" || len(changes) > 0 {
			t.Errorf("%s: calls (-want +got):\n%s, not changed: %v", name, diff, changes)
		}
		w.onCall = nil
		if r := w.mustComplete(wakeUp); len(r.Left) > 0 {
			t.Errorf("%s: left %v", name, r.Left)
		}
		if diff := cmp.Diff(want, w.have); diff != "" {
			t.Errorf("%s: world (-want +got):\n%s", name, diff)
		}
	}
}

// changes has somebody give resources other values right before they are put to sleep, once.
func (w *world) changes(to map[string]int) {
	w.onCall = func(name string) {
		key := strings.TrimPrefix(name, "Shutdown ")
		if value, is := to[key]; is && key != name {
			delete(to, key)
			w.have[key] = value
		}
	}
}

// What cannot be captured again, because it changes all the time, or as another has taken over meanwhile, is not put to sleep.
func TestNotCapturedAgain(t *testing.T) {
	w := newWorld(t)
	w.changes(map[string]int{"web": 7})
	changes, saves := w.onCall, 0
	w.onCall = func(name string) {
		if changes(name); name == "Save" {
			if saves++; saves == 2 { // what was captured again
				w.fence = "another"
			}
		}
	}
	if r := w.run(shutdown, "", 0); r.Reason != ReasonSuperseded || len(w.keys("Shutdown")) != 1 {
		t.Errorf("it goes on: %+v, %v", r, w.calls)
	}

	w = newWorld(t)
	w.onCall = func(name string) {
		if strings.HasPrefix(name, "Shutdown web") {
			w.have["web"]++
		}
	}
	if r := w.run(shutdown, "", 0); r.Completed || !strings.Contains(r.Message, "web: somebody has changed it since it was captured") || w.have["web"] == asleepValue {
		t.Errorf("what changes all the time: %+v", r)
	}
}

func TestSomebodyElse(t *testing.T) {
	w := newWorld(t)
	w.mustComplete(shutdown)
	w.have["web"] = 9
	delete(w.have, "db")
	r := w.mustComplete(wakeUp)
	if diff := cmp.Diff([]string{"db: it is gone", "web: somebody has made it 9"}, r.Left); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	want := map[string]int{"web": 9, "api": 2, "pool-b": 5, "idle": asleepValue, "pool-a": 4}
	if diff := cmp.Diff(want, w.have); diff != "" {
		t.Errorf("world (-want +got):\n%s", diff)
	}
	if r := w.mustComplete(wakeUp); len(r.Left) != 2 || w.have["web"] != 9 {
		t.Errorf("again: %+v, %v", r, w.have)
	}
	// The next night sleeps and wakes by what is there now.
	w.mustComplete(shutdown)
	if w.point().Resource("db") != nil {
		t.Error("what is gone is remembered")
	}
	if r := w.mustComplete(wakeUp); len(r.Left) > 0 || w.have["web"] != 9 {
		t.Errorf("the next night: %+v, %v", r, w.have)
	}
}

// What was left in a wake-up that has not come to its end is not told of again after the next night.
func TestLeftLastNight(t *testing.T) {
	w := newWorld(t)
	w.mustComplete(shutdown)
	delete(w.have, "db")
	w.broken["web"] = errors.New("no")
	if r := w.run(wakeUp, "", 0); r.Completed || r.Reason != ReasonFailed || r.Done != 5 || len(r.Left) != 1 {
		t.Errorf("the result is %+v", r)
	}
	w.broken = map[string]error{}
	w.mustComplete(shutdown)
	if r := w.mustComplete(wakeUp); len(r.Left) > 0 || r.Resources != 5 || w.have["web"] != 3 || w.have["api"] != 2 {
		t.Errorf("the result is %+v, and the world %v", r, w.have)
	}
}

// renewer is a world that is asked what its resources are brought back to, and whether a former cycle has put them to sleep.
type renewer struct {
	*world
	former []bool
}

func (r *renewer) Parse(json.RawMessage) (executor.Parameters, error) { return r, nil }
func (r *renewer) Open(context.Context, executor.Session) (executor.Target, error) {
	r.former = nil
	return r, nil
}

func (r *renewer) Renew(known restore.Resource, _ json.RawMessage, former bool) (json.RawMessage, bool, error) {
	r.former = append(r.former, former)
	return known.Before, false, nil
}

// reports is a Reporter.
type reports []Progress

func (r *reports) Report(p Progress) { *r = append(*r, p) }

// Somebody else than the log can be told how it goes on, which the log is not then.
func TestReporter(t *testing.T) {
	w, told := newWorld(t), &reports{}
	w.fence = "e1"
	task := Task{Operation: shutdown, Plan: "shop/nights", Target: "all", Type: "world", Cycle: "c1", Execution: "e1", Attempt: 1, Deadline: time.Hour}
	logger := funcr.New(func(_, line string) {
		if strings.Contains(line, `"key"`) {
			t.Errorf("the log has %s", line)
		}
	}, funcr.Options{})
	Run(log.IntoContext(t.Context(), logger), task, Deps{Store: memory{w, "e1"}, Executors: executor.Registry{"world": w}, Reporter: told, Clock: w.clock})
	if len(*told) != len(w.listed) {
		t.Fatalf("%+v", *told)
	}
	for i, p := range *told {
		left := w.number(w.point().Resource(p.Key).Before) == asleepValue
		if p.Key != w.listed[i] || p.N != i+1 || p.Of != len(w.listed) || p.Did != "Put to sleep" || p.Err != nil || left != (p.Left != "") {
			t.Errorf("%+v", p)
		}
	}
}

// What a former cycle has left asleep is told from what an attempt before has put to sleep.
func TestFormerCycle(t *testing.T) {
	w := newWorld(t)
	r := &renewer{world: w}
	for i, cycle := range []string{"7", "c1", "c1", "c2", "c2", "c2.1", "c2.1", "c2.2"} { // of which a number, and one without a turn, are of before
		w.fence, w.calls = fmt.Sprint("e", i), nil
		task := Task{Operation: shutdown, Plan: "shop/nights", Target: "all", Type: "world", Cycle: cycle, Execution: w.fence, Attempt: 1, Deadline: time.Hour}
		result := Run(t.Context(), task, Deps{Store: memory{w, task.Execution}, Executors: executor.Registry{"world": r}, Clock: w.clock})
		if is := i == 3 || i == 7; !result.Completed || len(r.former) > 0 && r.former[0] != is || (len(r.former) == 0) != (i == 0) {
			t.Errorf("attempt %d, %s: asked about a former cycle %v, and the result is %+v", i, cycle, r.former, result)
		}
		if got := w.point().Cycle; got != cycle {
			t.Errorf("attempt %d: the restore point is of cycle %s", i, got)
		}
	}
}

// What a former cycle has put to sleep, and somebody has woken and taken out of the target since, stays awake.
func TestFormerCycleOfWhatIsTakenOut(t *testing.T) {
	w := newWorld(t)
	for i, cycle := range []string{"c1", "c2", "c2"} { // of which the second is tried again
		w.fence = fmt.Sprint("e", i)
		task := Task{Operation: shutdown, Plan: "shop/nights", Target: "all", Type: "world", Cycle: cycle, Execution: w.fence, Attempt: 1, Deadline: time.Hour}
		if result := Run(t.Context(), task, Deps{Store: memory{w, w.fence}, Executors: executor.Registry{"world": w}, Clock: w.clock}); !result.Completed {
			t.Fatalf("the result is %+v", result)
		}
		if i == 0 {
			w.have["db"], w.listed = 6, slices.DeleteFunc(w.listed, func(name string) bool { return name == "db" })
		} else if w.have["db"] != 6 || !w.asleep("web") {
			t.Errorf("attempt %d: it is %v", i, w.have)
		}
	}
	if r := w.mustComplete(wakeUp); w.have["db"] != 6 || w.asleep("web") || len(r.Left) != 1 {
		t.Errorf("it is %v, and the result %+v", w.have, r)
	}
}

// What an attempt has put to sleep, and somebody has woken and taken out of the target, stays as it is in the attempts after it.
func TestTakenOutBetweenAttempts(t *testing.T) {
	w := newWorld(t)
	w.broken["db"] = errors.New("no")
	w.run(shutdown, "", 0)
	delete(w.broken, "db")
	w.have["web"], w.listed = 9, slices.DeleteFunc(w.listed, func(key string) bool { return key == "web" })
	for range 2 {
		w.mustComplete(shutdown)
		if w.have["web"] != 9 || !w.asleep("db") {
			t.Errorf("it is %v", w.have)
		}
	}
	w.listed = append(w.listed, "web") // and back
	w.mustComplete(shutdown)
	if !w.asleep("web") {
		t.Error("what is in the target again is awake")
	}
}

// The type of a target that is awake may change.
func TestAnotherTypeAwake(t *testing.T) {
	w := newWorld(t)
	w.mustComplete(shutdown)
	w.mustComplete(wakeUp)
	w.fence = "e"
	task := Task{Operation: wakeUp, Plan: "shop/nights", Target: "all", Type: "none", Execution: "e", Attempt: 1, Deadline: time.Hour}
	if r := w.runTask(t.Context(), task); !r.Completed || r.Done != 6 {
		t.Errorf("the result is %+v", r)
	}
}

// What is known of a resource that was put to sleep stays known if it is gone when that is tried again.
func TestGoneMeanwhile(t *testing.T) {
	w := newWorld(t)
	w.lag = 1000
	w.run(shutdown, "", 0)
	delete(w.have, "db")
	w.lag = 0
	w.mustComplete(shutdown)
	if got := string(w.point().Resource("db").Slept); got != "0" {
		t.Errorf("it was made %s", got)
	}
	w = newWorld(t)
	w.listed, w.have["ghost"] = append(w.listed, "ghost"), 1
	w.onCall = func(name string) {
		if name == "Save" {
			delete(w.have, "ghost")
		}
	}
	w.mustComplete(shutdown)
	if keys := w.keys("Settled"); slices.Contains(keys, "ghost") || !gone(w.point().Resource("ghost").Slept) {
		t.Errorf("what is gone is waited for: %v", keys)
	}
	if r := w.mustComplete(wakeUp); len(r.Left) != 1 {
		t.Errorf("the result is %+v", r)
	}
}

// What a run has captured and not touched is awake, and belongs to others.
func TestUntouchedIsForgotten(t *testing.T) {
	w := newWorld(t)
	r := w.run(shutdown, signal, 5) // the second resource
	if r.Reason != ReasonInterrupted || r.Done != 2 || w.asleep("db") {
		t.Errorf("the result is %+v", r)
	}
	if p := w.point(); len(p.Resources) != 2 || p.Resource("web").State != restore.Asleep || p.Resource("api").State != restore.Asleep {
		t.Errorf("the point is %+v", p)
	}
	w.have["db"] = 7
	w.mustComplete(shutdown)
	w.mustComplete(wakeUp)
	if w.have["db"] != 7 || w.have["web"] != 3 {
		t.Errorf("the world is %v", w.have)
	}
}

func TestSuperseded(t *testing.T) {
	for _, operation := range []v1alpha1.Operation{shutdown, wakeUp} {
		w := newWorld(t)
		if operation == wakeUp {
			w.mustComplete(shutdown)
		}
		task := Task{Operation: operation, Plan: "shop/nights", Target: "all", Type: "world", Cycle: "c1", Execution: "old", Attempt: 1, Deadline: time.Hour}
		w.fence, w.writes, w.calls = "new", 0, nil
		if r := w.runTask(t.Context(), task); r.Reason != ReasonSuperseded || w.writes > 0 || len(w.calls) != 1 {
			t.Errorf("%s: before: %+v after %v", operation, r, w.calls)
		}
		// Another takes over while it is at work: it stops by the next write.
		w.fence, w.broken, w.calls = "old", nil, nil
		took := &takeover{world: w}
		ctx := t.Context()
		r := Run(ctx, task, Deps{Store: memory{w, "old"}, Executors: executor.Registry{"world": took}, Clock: w.clock})
		if r.Completed || r.Reason != ReasonSuperseded {
			t.Errorf("%s: meanwhile: %+v", operation, r)
		}
		if w.writes != took.writes {
			t.Errorf("%s: it was written to %d times after that", operation, w.writes-took.writes)
		}
		if n := len(w.keys("Shutdown")) + len(w.keys("WakeUp")); n > 5 {
			t.Errorf("%s: it went on: %v", operation, w.calls)
		}
	}
}

// takeover is a world in which another execution takes over at the first change.
type takeover struct {
	*world
	writes int
}

func (w *takeover) Parse(json.RawMessage) (executor.Parameters, error)              { return w, nil }
func (w *takeover) Open(context.Context, executor.Session) (executor.Target, error) { return w, nil }
func (w *takeover) Shutdown(ctx context.Context, captured executor.Captured) (json.RawMessage, error) {
	w.over()
	return w.world.Shutdown(ctx, captured)
}

func (w *takeover) WakeUp(ctx context.Context, r restore.Resource) (executor.Ending, error) {
	w.over()
	return w.world.WakeUp(ctx, r)
}

func (w *takeover) over() {
	if w.fence != "new" {
		w.fence, w.writes = "new", w.world.writes
	}
}

// mistaken is a world whose parameters were no mistake in the evening.
type mistaken struct{ *world }

func (w mistaken) Parse(json.RawMessage) (executor.Parameters, error) { return w, nil }
func (w mistaken) Mistake() error                                     { return &executor.InvalidError{Problem: "it is odd"} }

// Who is to put something to sleep is asked before: what sleeps by a mistake that is told of since wakes.
func TestMistakeThatIsToldOfLater(t *testing.T) {
	w := newWorld(t)
	w.mustComplete(shutdown)
	w.fence = "e2"
	task := Task{Operation: wakeUp, Plan: "shop/nights", Target: "all", Type: "world", Cycle: "c1", Execution: w.fence, Attempt: 1, Deadline: time.Hour}
	r := Run(t.Context(), task, Deps{Store: memory{w, w.fence}, Executors: executor.Registry{"world": mistaken{w}}, Clock: w.clock})
	if !r.Completed || w.asleep("web") {
		t.Errorf("it is %v, and the result %+v", w.have, r)
	}
}

// What sleeps in one cluster is not looked for in another, where it would be gone and its restore point let go.
func TestOtherCluster(t *testing.T) {
	w := newWorld(t)
	w.cluster = "here"
	if r := w.run(shutdown, "", 0); !r.Completed || w.point().Cluster != "here" {
		t.Fatalf("the result is %+v, and the point is of cluster %q", r, w.point().Cluster)
	}
	asleep, stored := maps.Clone(w.have), string(w.stored)
	for _, cluster := range []string{"there", untold, own} {
		w.cluster = cluster
		for _, operation := range []v1alpha1.Operation{wakeUp, shutdown} {
			r := w.run(operation, "", 0)
			if r.Completed || r.Reason != ReasonOtherCluster || !strings.Contains(r.Message, "UID here") {
				t.Errorf("%s in cluster %s: %+v", operation, cluster, r)
			}
			if !maps.Equal(asleep, w.have) || stored != string(w.stored) {
				t.Errorf("%s in cluster %s has changed something", operation, cluster)
			}
		}
	}
	w.cluster = "here"
	if r := w.run(wakeUp, "", 0); !r.Completed {
		t.Errorf("back in its cluster: %+v", r)
	}
	w.cluster = "there" // awake, it may move
	if r := w.run(shutdown, "", 0); !r.Completed || w.point().Cluster != "there" {
		t.Errorf("in its new cluster: %+v", r)
	}
}

// What to do about it has room in a ledger, which keeps 256 bytes.
func TestOtherClusterInShort(t *testing.T) {
	w := newWorld(t)
	w.cluster = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
	w.run(shutdown, "", 0)
	for _, cluster := range []string{"6fa459ea-ee8a-3ca4-894e-db77e160355e", untold} {
		w.cluster = cluster
		if r := w.run(wakeUp, "", 0); r.Reason != ReasonOtherCluster || len(r.Message) > 256 {
			t.Errorf("in cluster %s: %d bytes: %s", cluster, len(r.Message), r.Message)
		}
	}
}

// What sleeps in a cluster that could not be told is not in the manager's own, which can.
func TestUntoldCluster(t *testing.T) {
	w := newWorld(t)
	w.cluster = untold
	if r := w.run(shutdown, "", 0); !r.Completed || w.point().Cluster != "" {
		t.Errorf("in one that is not told: %+v", r)
	}
	stored := string(w.stored)
	w.cluster = own
	if r := w.run(wakeUp, "", 0); r.Reason != ReasonOtherCluster || stored != string(w.stored) {
		t.Errorf("in the manager's own, from one that is not told: %+v", r)
	}
	w.cluster = "there" // when its credentials may tell
	if r := w.run(wakeUp, "", 0); !r.Completed {
		t.Errorf("in one that was not told before: %+v", r)
	}
}

// The manager's own cluster is one cluster, whatever it is reached by, and what is withheld there are its own namespace and that of
// its runners, with the nodes that both are on; so it is in one that may be. An older manager does not say which is its own.
func TestHub(t *testing.T) {
	w := newWorld(t)
	w.hub = "hub"
	for i, test := range []struct{ sleeps, wakes, namespace, withheld string }{
		{own, "hub", "", "system node-1 node-2"},
		{"hub", own, "system", "system node-1 node-2"},
		{"hub", "hub", "labs", "system labs node-1 node-2"},
		{own, own, "labs", "system labs node-1 node-2"},
	} {
		w.stored, w.cluster, w.namespace = nil, test.sleeps, test.namespace
		if r := w.run(shutdown, "", 0); !r.Completed || w.withheld != test.withheld {
			t.Errorf("%d: it sleeps: %+v, and %q is withheld", i, r, w.withheld)
		}
		w.cluster = "there"
		if r := w.run(wakeUp, "", 0); r.Reason != ReasonOtherCluster {
			t.Errorf("%d: it wakes elsewhere: %+v", i, r)
		}
		w.cluster = test.wakes
		if r := w.run(wakeUp, "", 0); !r.Completed {
			t.Errorf("%d: it wakes: %+v", i, r)
		}
	}
	for cluster, withheld := range map[string]string{"there": "", untold: "system labs node-1 node-2"} {
		w.stored, w.cluster = nil, cluster
		if r := w.run(shutdown, "", 0); !r.Completed || w.withheld != withheld {
			t.Errorf("in cluster %q %q is withheld: %+v", cluster, w.withheld, r)
		}
		if r := w.run(wakeUp, "", 0); !r.Completed {
			t.Errorf("in cluster %q: %+v", cluster, r)
		}
	}
}

// Without a restore point, or with one that cannot be kept, nothing is changed.
func TestNothingIsChanged(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(w *world, task *Task)
		reason  string
	}{
		"too large for the store": {func(w *world, _ *Task) { w.limit = 300 }, ReasonRestorePointTooLarge},
		"another target's": {func(w *world, _ *Task) {
			w.stored = []byte(`{"plan":"shop/nights","target":"other","executor":"world","resources":[]}`)
		}, ReasonRestorePointLost},
		"another executor's": {func(w *world, _ *Task) {
			w.stored = []byte(`{"plan":"shop/nights","target":"all","executor":"other","resources":[{"key":"web","state":"Asleep","before":3}]}`)
		}, ReasonInvalidParameters},
		"parameters":  {func(_ *world, task *Task) { task.Parameters = json.RawMessage(`"wrong"`) }, ReasonInvalidParameters},
		"no executor": {func(_ *world, task *Task) { task.Type = "none" }, ReasonInvalidParameters},
		"a deadline":  {func(_ *world, task *Task) { task.Deadline = 500 * time.Millisecond }, ReasonDeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fence = "e"
			task := Task{Operation: shutdown, Plan: "shop/nights", Target: "all", Type: "world", Cycle: "c1", Execution: "e", Attempt: 1, Deadline: time.Hour}
			test.prepare(w, &task)
			before := maps.Clone(w.have)
			r := w.runTask(t.Context(), task)
			if r.Completed || r.Reason != test.reason {
				t.Errorf("the result is %+v", r)
			}
			if !maps.Equal(before, w.have) {
				t.Error("something was changed")
			}
			if saved := test.reason != ReasonRestorePointLost; saved && (w.told == nil || w.told.Reason != test.reason) {
				t.Errorf("what was saved is %+v", w.told)
			}
			if p := w.point(); p != nil && name != "another executor's" && len(p.Resources) > 0 {
				t.Errorf("the point has %d resources", len(p.Resources))
			}
		})
	}
}

// A point that fits, and would not once it says what was made of the resources, is refused before anything is changed.
func TestRoom(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	p := &restore.Point{}
	for i := range 51_500 {
		p.Capture(fmt.Sprintf("%05d-%x", i, random.Uint32()), json.RawMessage(fmt.Sprint(random.Uint32())))
	}
	if _, err := p.Encode(); err != nil {
		t.Fatal(err)
	}
	if err := (&run{point: p}).room(); reasonOf(err) != ReasonRestorePointTooLarge {
		t.Errorf("it is %v", err)
	}
	if p.Resources[0].Slept != nil {
		t.Error("it says what was made of a resource that nobody has touched")
	}
}

// Where what was made of resources does not fit any more, what they were is kept.
func TestTooLargeMeanwhile(t *testing.T) {
	w := newWorld(t)
	before := maps.Clone(w.have)
	w.mustComplete(shutdown)
	full := len(w.stored)
	w = newWorld(t)
	w.limit = full - 10
	if r := w.run(shutdown, "", 0); r.Completed || r.Reason != ReasonRestorePointTooLarge || w.told.Reason != r.Reason {
		t.Errorf("the result is %+v", r)
	}
	w.mustComplete(wakeUp)
	if diff := cmp.Diff(before, w.have); diff != "" {
		t.Errorf("world (-want +got):\n%s", diff)
	}
}

func TestNotSettled(t *testing.T) {
	w := newWorld(t)
	before := maps.Clone(w.have)
	for _, operation := range []v1alpha1.Operation{shutdown, wakeUp} {
		w.lag = 1000
		r := w.run(operation, "", 0)
		if r.Completed || r.Reason != ReasonNotSettled || r.Done != 6 || !strings.Contains(r.Message, "db: it has not come to rest") {
			t.Errorf("%s: the result is %+v", operation, r)
		}
		if n := len(w.keys("Settled")); n > 6*20 {
			t.Errorf("%s: it was asked %d times in a minute", operation, n)
		}
		w.lag = 2
		w.mustComplete(operation)
		if len(w.keys("Settled")) == 0 {
			t.Errorf("%s: the second attempt has not waited", operation)
		}
	}
	if diff := cmp.Diff(before, w.have); diff != "" {
		t.Errorf("world (-want +got):\n%s", diff)
	}
	w.lag = 0
	w.mustComplete(shutdown)
	w.asked, w.lag, w.never = nil, 30, "db"
	if r := w.run(wakeUp, "", 0); r.Completed || strings.Contains(r.Message, "db") {
		t.Errorf("what was not at rest before holds it up: %+v", r)
	}
	w.lag = 0
	w.mustComplete(wakeUp)
	w.await, w.lag = 0, 1000
	w.mustComplete(shutdown)
	if len(w.keys("Settled")) > 0 {
		t.Error("it was asked, and nothing may be awaited")
	}
}

// Who may wait for longer than the run has looks for the last time right before its deadline: what was not at rest before is not waited
// for, and what else is missing is told.
func TestNotSettledByTheDeadline(t *testing.T) {
	for _, await := range []time.Duration{59 * time.Minute, time.Hour, 2 * time.Hour} {
		for _, look := range []time.Duration{0, 5 * time.Second} {
			w := newWorld(t)
			w.mustComplete(shutdown)
			w.await, w.lag, w.never, w.look = await, 10_000, "db", look
			r := w.run(wakeUp, "", 0)
			if r.Completed || r.Reason != ReasonNotSettled || !strings.Contains(r.Message, "web: it has not come to rest") || strings.Contains(r.Message, "db") {
				t.Errorf("await %s, looks of %s: the result is %+v", await, look, r)
			}
			w.listed, w.have = []string{"db"}, map[string]int{"db": 1}
			w.stored = nil
			w.lag = 0
			w.mustComplete(shutdown)
			w.lag = 10_000
			w.mustComplete(wakeUp)
		}
	}
}

// What somebody else has woken, to where it was, is told of, and waited for as what is woken.
func TestAwakeAlready(t *testing.T) {
	w := newWorld(t)
	w.mustComplete(shutdown)
	w.have["db"], w.already = 1, map[string]string{"db": "it was awake already"}
	r := w.mustComplete(wakeUp)
	if diff := cmp.Diff([]string{"db: it was awake already"}, r.Left); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	if keys := w.keys("Settled"); !slices.Contains(keys, "db") {
		t.Errorf("it waits for %v", keys)
	}
}

// What somebody wakes as soon as it sleeps is told of when nothing else is waited for, and what to do about that before what it is about.
func TestDoesNotStayAsleep(t *testing.T) {
	w := newWorld(t)
	w.await, w.lag, w.heals = time.Hour, 2, map[string]string{"db": "because of its keeper", "web": "because of its keeper"}
	r := w.run(shutdown, "", 0)
	if want := "2 resources do not stay asleep, because of its keeper: db: it is awake again; web: it is awake again"; r.Completed || r.Reason != ReasonNotSettled || r.Message != want {
		t.Errorf("the result is %+v, want message %s", r, want)
	}
	if n := len(w.keys("Settled")); n > 6*4 {
		t.Errorf("it was asked %d times", n)
	}
	w.heals = nil
	w.mustComplete(wakeUp)
}

func TestDeadline(t *testing.T) {
	w := newWorld(t)
	w.fence = "e"
	task := Task{Operation: shutdown, Plan: "shop/nights", Target: "all", Type: "world", Cycle: "c1", Execution: "e", Attempt: 1, Deadline: 1500 * time.Millisecond}
	if r := w.runTask(t.Context(), task); r.Completed || r.Reason != ReasonDeadlineExceeded || r.Done == 0 || r.Done == 6 {
		t.Errorf("the result is %+v", r)
	}
	w.mustComplete(shutdown)
}

// A run whose machine stood still changes nothing more when its time is over, which its timers have not told it: the manager
// does not wait for it any longer.
func TestStoodStill(t *testing.T) {
	changed := 0
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			changed++
		}
	}))
	defer server.Close()
	w := newWorld(t)
	w.fence, w.config = "e", &rest.Config{Host: server.URL}
	task := Task{Operation: shutdown, Plan: "shop/nights", Target: "all", Type: "world", Cycle: "c1", Execution: "e", Attempt: 1, Deadline: time.Hour}
	w.onCall = func(name string) {
		if !strings.HasPrefix(name, "Shutdown") || changed > 0 {
			return
		}
		target, err := rest.HTTPClientFor(w.config)
		if err != nil {
			t.Fatal(err)
		}
		for stood, want := range map[time.Duration]error{task.Deadline: nil, task.Deadline + grace: errDeadline} {
			w.clock.stood = stood
			before := changed
			_, err := target.Post(server.URL, "application/json", nil)
			if !errors.Is(err, want) || changed > before != (want == nil) {
				t.Errorf("after %s a change is answered %v", stood, err)
			}
			if _, err := target.Get(server.URL); err != nil {
				t.Errorf("after %s nothing can be read: %v", stood, err)
			}
		}
		w.clock.stood = 0
	}
	w.runTask(t.Context(), task)
	if changed == 0 {
		t.Error("nothing was put to sleep")
	}
}

// Nothing was ever changed: no parameters, and no cluster, are needed to say so.
func TestNothingToWake(t *testing.T) {
	w := newWorld(t)
	w.fence = "e"
	task := Task{Operation: wakeUp, Plan: "shop/nights", Target: "all", Type: "none", Execution: "e", Attempt: 1, Deadline: time.Hour}
	if r := w.runTask(t.Context(), task); !r.Completed || r.Resources != 0 || w.stored != nil {
		t.Errorf("the result is %+v", r)
	}
	w.listed = nil
	w.mustComplete(shutdown) // of nothing
	if w.stored == nil {
		t.Error("there is no point of a target without resources")
	}
	w.mustComplete(wakeUp)
}
