package faults

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// startLimit is for a manager to become ready, on a machine that has more to do.
	startLimit = 30 * time.Second
	// idle is how long a manager that is up asks for nothing when it has all its caches.
	idle = 120 * time.Millisecond
	// stillness is how long nothing happens in a run that waits; a manager that starts asks
	// for something sooner.
	stillness = 250 * time.Millisecond
	// referenceLimit is for a reference run in which something happens, however slow the machine is, and pauseLimit
	// how long nothing may happen in it.
	referenceLimit = 3 * time.Minute
	pauseLimit     = 30 * time.Second
	// spareLimit is how long nothing happens at the end of a run whose fault does not happen.
	spareLimit = 5 * time.Second
	// faultLimit is for a fault to be over.
	faultLimit = 20 * time.Second
	// grace and backoff are what recovery may take beside twice the time of the reference.
	grace   = 2 * time.Second
	backoff = 2 * time.Second
	// poll is for what does not tell when it changes.
	poll = 10 * time.Millisecond
)

// run is one play of a workload.
type run struct {
	lab      *Lab
	workload Workload
	fault    Fault
	stage    *Stage
	record   *record
	proxy    *proxy
	manager  *manager
	// words are those that are no hashes, as far as is known.
	words vocabulary

	// started is how long the manager took to be ready.
	started time.Duration
	// begun is when the first object came to be.
	begun time.Time
	// ended is when nothing more was expected of it.
	ended time.Time
	// restless says that after the end the manager never had nothing to ask for, and up whether it was there at all; idly is
	// how often it has asked from then on for each thing other than a write.
	restless, up bool
	idly         map[request]int
	// moved is when something happened last.
	moved time.Time
	// took is from the first object to the end.
	took time.Duration
	// may is how long it might take.
	may time.Duration
	// taken is how many steps of its workload were.
	taken int
	// converged: it came to its end, in time or not; hung: it did not, long after its fault was over.
	converged, hung bool
	// reached is how many writes there were when it did, all of them answered: the recorder
	// may see what a write does before the manager has its answer.
	reached int
	// advances are how far the manager's clock was moved on, in all.
	advances []time.Duration
	// early is what was written a moment before something was due.
	early []Write
	// seats are where the run has one while something happens in it; nil is nowhere.
	seats *seats
	// still is how long it had none.
	still time.Duration
	// due says that the moment of the next step has come.
	due bool
	// alone is how many writes there were when the first step was taken; more than there can be if none was.
	alone int
	// caughtUp is how many managers that were put back in time have come back to the present.
	caughtUp int
	// stuck is where it was when it took too long.
	stuck string
	// troubles are what the harness could not do.
	troubles []string
}

// prepare makes a namespace with a manager that is up and has nothing left to ask for.
func (l *Lab) prepare(ctx context.Context, p Plan, reference *Reference) (*run, error) {
	namespace, err := l.namespaceFor(ctx, p.Workload)
	if err != nil {
		return nil, err
	}
	r := &run{
		lab: l, workload: p.Workload, fault: p.Fault, alone: math.MaxInt,
		record: l.recorder.begin(namespace),
	}
	if reference != nil {
		r.words = reference.words
	}
	r.stage = &Stage{Namespace: namespace, Client: l.client, Server: l.Config().Host, workload: p.Workload, advance: r.advance, due: r.await, tick: r.tick, settle: r.settle}
	plan := disturbance{
		Fault: p.Fault, also: p.strikes()[1:], hide: r.hide, restart: p.restart, now: l.now,
		kill: func() { r.manager.kill() }, halt: func() error { return r.manager.halt(r.proxy.urlOfNext) }, resume: func() error { return r.manager.resume() }, secrets: l.world.Secrets,
		mine: func(u *unstructured.Unstructured) bool {
			return strings.TrimSuffix(u.GetNamespace(), Beside) == namespace || l.world.run(u) == namespace
		},
	}
	if l.world.Sees != nil {
		plan.sees = l.world.Sees(namespace)
	}
	if reference != nil && p.Fault.K > 0 {
		plan.road = reference.Writes
		plan.about = func(k int) (schema.GroupResource, int) {
			f := Fault{p.Fault.Mode, k}
			return reference.held(f), reference.past(f)
		}
	}
	if r.proxy, err = newProxy(l.account, plan); err != nil {
		return nil, err
	}
	if r.manager, err = l.startManager(namespace, r.proxy.url, p.Fault.Mode, r.proxy.lease.free, r.workload.Args...); err != nil {
		r.proxy.close()
		return nil, err
	}
	r.manager.unanswered = r.proxy.awaitsOutage
	r.stage.manager, r.stage.proxy = r.manager, r.proxy
	begun := time.Now()
	if !r.rested(ctx, idle) {
		tail := r.manager.tail(15)
		r.close()
		return nil, fmt.Errorf("%w; its log ends with:\n%s", errNotStarted, tail)
	}
	r.started = time.Since(begun)
	return r, nil
}

// namespaceFor makes the namespace of a run of a workload, and the one beside it.
func (l *Lab) namespaceFor(ctx context.Context, w Workload) (string, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "run-"}}
	err := l.client.Create(ctx, namespace)
	if err == nil && w.Beside {
		err = l.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace.Name + Beside}})
	}
	if err != nil {
		return "", fmt.Errorf("creating namespace: %w", err)
	}
	return namespace.Name, nil
}

// play lets the workload happen until it is done, or takes longer than it may beside a reference by more than somebody
// has patience for. A reference itself has the time that anything may take.
func (r *run) play(ctx context.Context, reference *Reference, patience time.Duration) {
	r.begun = time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if reference == nil {
		patience = 0
	}
	may := func() time.Duration {
		return reference.limit(r.workload, r.fault, min(r.proxy.span(), faultLimit), r.started, r.times())
	}
	defer func() { r.took, r.may, r.reached = time.Since(r.begun), may(), len(r.proxy.story()) }()
	defer r.leave(ctx)
	if err := r.gated(func() error { return r.stage.Apply(ctx) }); err != nil {
		r.troubles = append(r.troubles, err.Error())
		return
	}
	rest := r.rests()
	defer rest(true)
	steps, tick := r.workload.Steps, time.NewTicker(poll)
	defer tick.Stop()
	r.moved = r.begun
	for changed, done, ticks := true, false, 0; ; {
		if changed {
			done, changed = r.look(ctx, &steps)
		}
		if done && !changed && (r.settled(ctx) || r.spared(ctx)) {
			r.converged = r.proxy.faultOver()
			return
		}
		if r.hopeless(may(), patience, reference == nil) {
			return
		}
		rest(changed)
		select {
		case <-r.record.changed:
			changed, r.moved = true, time.Now()
		case <-tick.C:
			// A step may wait for something that is not recorded.
			ticks++
			changed = changed || ticks%10 == 0
		case <-ctx.Done():
			return
		}
	}
}

// hopeless says whether nobody need wait any longer for the end of a run that may take so long: one whose fault does not even
// happen, or in which nothing does.
func (r *run) hopeless(limit, patience time.Duration, reference bool) bool {
	took, over := time.Since(r.begun), r.proxy.faultOver()
	r.hung = over // by now: what is given up because its fault has not happened may come to that before it is judged
	return took > limit+patience || took > limit && !over || reference && time.Since(r.moved) > pauseLimit
}

// spared says whether a run has come to its end without its fault. What is left of several it does without: one before may have
// taken a write away.
func (r *run) spared(ctx context.Context) bool {
	spared := !r.proxy.struck() && !r.proxy.faultOver() && r.proxy.idle(spareLimit) && r.manager.ready(ctx)
	if spared {
		r.proxy.leaveRest()
	}
	return spared
}

// times is how often the fault has happened, or will.
func (r *run) times() int { return max(1, len(r.proxy.struckAt())) }

// look lets the user and the outsides see what there is. It says whether what the workload asks
// for has come about, and whether to look again at once: what a step does may not show yet, and
// one that failed is not taken.
func (r *run) look(ctx context.Context, steps *[]Step) (done, again bool) {
	state, before := r.record.state(), len(*steps)
	err := r.gated(func() error { return r.turn(ctx, steps, state) })
	if err != nil && ctx.Err() == nil {
		r.troubles = append(r.troubles, err.Error())
	}
	return len(*steps) == 0 && r.workload.Done(state), len(*steps) < before || err != nil
}

// rests returns a function that gives the run's seat away when nothing has happened for a while,
// as while writes are refused, and takes one again when something does.
func (r *run) rests() func(happens bool) {
	var since time.Time // zero while the run has its seat
	return func(happens bool) {
		happens = happens || !r.proxy.idle(stillness)
		switch {
		case r.seats == nil, happens == since.IsZero():
		case happens:
			r.seats.retake()
			r.still, since = r.still+time.Since(since), time.Time{}
		default:
			since = time.Now()
			r.seats.rest()
		}
	}
}

// settled says whether the fault is over and the manager is up and has no answer to wait for. One that was put back in
// time must have come back with all of its caches: for a moment it may say what it takes back at once (misled).
func (r *run) settled(ctx context.Context) bool {
	var still time.Duration
	if r.fault.travels() {
		still = stillness
	}
	return r.proxy.faultOver() && r.proxy.idle(still) && r.manager.ready(ctx)
}

// leave tells the runs that share a restart that this one will not come to its write any more.
func (r *run) leave(ctx context.Context) {
	if r.fault.Mode == Restart && !r.proxy.struck() {
		r.proxy.plan.restart.leave(ctx)
	}
}

// gated does something for which the API server must be there.
func (r *run) gated(do func() error) error {
	r.lab.gate.RLock()
	defer r.lab.gate.RUnlock()
	return do()
}

// turn is what the user and the outsides do when they see a state.
func (r *run) turn(ctx context.Context, steps *[]Step, state State) error {
	r.due = len(*steps) > 0 && (r.due || (*steps)[0].When(state))
	if r.due && !r.misled() {
		step := (*steps)[0]
		*steps, r.due = (*steps)[1:], false
		r.taken++
		r.alone = min(r.alone, len(stored(r.proxy.story())))
		if err := step.Do(ctx, r.stage); err != nil {
			return fmt.Errorf("taking step: %w", err)
		}
	}
	err := r.lab.world.Play(ctx, r.stage, state)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // what changed it is on its way
	}
	return err
}

// misled says whether what there is may be what a manager that was put back in time has written. Its caches
// come back one after the other, so for a moment it may say what it takes back at once; a user who acted on
// that would make it last. One who acts on what was there before need not wait.
func (r *run) misled() bool {
	struck := r.proxy.struckAt()
	if n := len(struck); r.fault.travels() && r.caughtUp < n && len(stored(r.proxy.story())) > struck[n-1] {
		if r.proxy.happens() || !r.proxy.idle(stillness) {
			return true
		}
		r.caughtUp = n
	}
	return false
}

// advance moves the manager's clock on.
func (r *run) advance(ctx context.Context, d time.Duration) error {
	now := r.later(d)
	if err := r.manager.restart(ctx, func() error { return r.manager.setClock(now) }); err != nil {
		return fmt.Errorf("restarting manager at another time: %w", err)
	}
	return nil
}

// later is a time of the manager's clock, to which it is to be moved on.
func (r *run) later(d time.Duration) time.Time {
	if n := len(r.advances); n > 0 {
		d += r.advances[n-1]
	}
	r.advances = append(r.advances, d)
	return r.lab.epoch.Add(d)
}

// await moves the clock on to when something is due, and keeps what is written a moment before, but where what is read then could not
// be refused any more, and where the manager waits for the API server to be restarted, and looks at nothing until then.
func (r *run) await(ctx context.Context, d time.Duration) error {
	const before = time.Second
	if r.fault.reads() || r.proxy.awaitsOutage() {
		return r.advance(ctx, d)
	}
	r.rested(ctx, stillness)
	written := len(stored(r.proxy.story()))
	if err := r.advance(ctx, d-before); err != nil {
		return err
	}
	r.rested(ctx, stillness)
	r.early = append(r.early, stored(r.proxy.story())[written:]...)
	return r.advance(ctx, before)
}

// settle waits until the manager has nothing left to ask for, and is not in the past.
func (r *run) settle(ctx context.Context) error {
	past := func() bool { return r.fault.travels() && r.proxy.happens() }
	for deadline := time.Now().Add(startLimit); !r.proxy.awaitsOutage() && (past() || !r.proxy.idle(stillness) || !r.manager.ready(ctx)); time.Sleep(poll) {
		if time.Now().After(deadline) || ctx.Err() != nil {
			return fmt.Errorf("waiting for the manager to settle: %w", errNotReady)
		}
	}
	return nil
}

// quiet watches what has converged for writes and other requests that nobody needs, from when the manager has all its caches:
// one that has just been started writes nothing yet, and lists.
func (r *run) quiet(ctx context.Context, d time.Duration) []Write {
	r.restless, r.up = !r.rested(ctx, idle), r.manager.ready(ctx)
	before := r.proxy.requests()
	time.Sleep(d)
	r.idly = r.proxy.requests()
	for request, n := range before {
		r.idly[request] -= n
	}
	return r.proxy.story()[r.reached:]
}

// rested waits until the manager is up and has had nothing to ask for so long, and says whether it came to that.
func (r *run) rested(ctx context.Context, long time.Duration) bool {
	// To ask the manager costs both a connection.
	for deadline := time.Now().Add(startLimit); !r.proxy.idle(long) || !r.manager.ready(ctx); time.Sleep(poll) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// close ends what belongs to the run and takes its objects away, so that the managers of the
// next runs do not have to list them.
func (r *run) close() {
	r.manager.stop()
	r.proxy.close()
	r.lab.recorder.end(r.stage.Namespace)
	r.manager.forget()
	for _, u := range r.record.state() {
		if u.GetKind() == "Namespace" {
			r.lab.removeNamespace(r.lab.background, u.GetName())
			continue
		}
		if len(u.GetFinalizers()) > 0 {
			none := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
			_ = r.lab.client.Patch(r.lab.background, u.DeepCopy(), none)
		}
		_ = r.lab.client.Delete(r.lab.background, u)
	}
	r.lab.removeNamespace(r.lab.background, r.stage.Namespace)
	if r.workload.Beside {
		r.lab.removeNamespace(r.lab.background, r.stage.Namespace+Beside)
	}
}

// limit is how long a run may take: twice as long as the reference, the time of the fault, a
// backoff for each time, and the start of other managers where the fault kills them. The backoff has doubled with
// every attempt, so it is as long as the fault was; informers add as much again at random. An error of the
// workload's own that follows is tried again after as long as all of that took.
func (ref *Reference) limit(workload Workload, fault Fault, span, start time.Duration, times int) time.Duration {
	if ref == nil {
		return referenceLimit
	}
	after := span
	switch fault.Mode {
	case Restart, Expired:
		after *= 2
	case Crash, Again, AgainSecond, AgainThird:
		after += 2 * time.Duration(times) * start
	case Travel, Behind, Forgetful, Outdated, Edited, Blind: // what it writes is refused until the cache has caught up, or is there
		after += span + 2*start
	}
	if len(workload.Logs) > 0 {
		after += span + after
	}
	return 2*ref.Took + grace + span + after + time.Duration(times)*backoff
}

// where says how far a run has come and what its manager does, which it ends, for who reads why it failed: what tells most comes last,
// because of a long log the end is looked at.
func (r *run) where(ctx context.Context) string {
	var out strings.Builder
	why := r.manager.waits(ctx)
	line := func(format string, args ...any) {
		out.WriteString("      " + strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "\n      ") + "\n")
	}
	log := r.manager.tail(4)
	for _, does := range r.manager.trace() {
		line("%s", does)
	}
	line("the log ends with: %s", log)
	for i, w := range r.proxy.story() {
		line("write %d: %s: %d, after %s", i+1, w.Signature(), w.Code, w.At.Sub(r.begun).Round(time.Millisecond))
	}
	for _, u := range r.record.state() {
		said := r.lab.world.Role(u)
		if rank, ok := r.lab.world.Rank(u); ok {
			said += fmt.Sprintf(", rank %d", rank)
		}
		if u.GetDeletionTimestamp() != nil {
			said += fmt.Sprintf(", being deleted, finalizers %v", u.GetFinalizers())
		}
		line("%s", said)
		told, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		for _, c := range told {
			if c, ok := c.(map[string]any); ok && c["message"] != nil {
				line("  %v %v, %v: %v", c["type"], c["status"], c["reason"], c["message"])
			}
		}
	}
	if n := len(r.workload.Steps) - r.taken; n > 0 {
		line("%d of %d steps are not taken", n, len(r.workload.Steps))
	}
	for _, request := range r.proxy.unanswered() {
		line("without an answer: %s", request)
	}
	if why != nil {
		line("the manager is not ready: %v", why)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

var (
	errNotAlike = errors.New("two reference runs are not alike")
	errNotReady = errors.New("it is not ready")
	// errNotStarted is one that is not ready before anything has happened.
	errNotStarted = fmt.Errorf("starting manager: %w", errNotReady)
	errNoEnd      = errors.New("a reference run does not come to an end")
)
