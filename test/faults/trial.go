package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

const (
	// attempts is how often runs that should be alike are played before they are not.
	attempts = 3
	// together is how many plans share a restart of the API server.
	together = 16
	// alone is how many plans are played once more at most: more of them are no accident.
	alone = 100
	// between is how long nothing is said of how far everything is.
	between = 30 * time.Second
)

// Plan is one run: a workload and what happens in it.
type Plan struct {
	Workload Workload
	Fault    Fault
	// Also are later writes that the fault happens at once more, as long as the road is that of the reference; those that are
	// left are played after that. If anything is found, each is played by itself. What needs a reference, is found of all of them,
	// also when nothing else is played, and of none by itself, needs several; what needs none is found of all of them for good.
	Also []int

	restart *restart
}

// at is the plan with its fault at some of its writes.
func (p Plan) at(writes ...int) Plan {
	p.Fault.K, p.Also = writes[0], writes[1:]
	return p
}

// writes are those that the fault happens at, in their order.
func (p Plan) writes() []int { return append([]int{p.Fault.K}, p.Also...) }

// strikes are the writes at which something happens, in their order: the next manager that is killed, too, is so at a write of its
// own. What is too near to that is left.
func (p Plan) strikes() (out []int) {
	for _, k := range p.writes() {
		if len(out) > 0 && k <= out[len(out)-1] {
			continue
		}
		out = append(out, k)
		if n := p.Fault.after(); n > 0 {
			out = append(out, k+n)
		}
	}
	return out
}

// points are plans with one fault each, at the same writes.
func (p Plan) points() []Plan {
	var out []Plan
	for _, k := range p.writes() {
		out = append(out, p.at(k))
	}
	return out
}

// list is what -faults.k says of the writes.
func (p Plan) list() string {
	var out []string
	for _, k := range p.writes() {
		out = append(out, strconv.Itoa(k))
	}
	return strings.Join(out, ",")
}

// what is what happens in it.
func (p Plan) what() string {
	if len(p.Also) == 0 {
		return p.Fault.String()
	}
	return fmt.Sprintf("%s at writes %s", p.Fault.Mode, p.list())
}

// Trial says how workloads are played.
type Trial struct {
	// Quiet is how long a run that is done must stay quiet.
	Quiet time.Duration
	// Parallel is how many plans are played at the same time.
	Parallel int
	// Plans are those of the i-th workload.
	Plans func(i int, w Workload, reference *Reference) []Plan
	// Patience is how much longer a plan that takes too long goes on, which tells one that is slow from one that
	// hangs; the zero value is a minute.
	Patience time.Duration
	// Until is when no plan begins any more; the zero value is never.
	Until time.Time
	// Alone plays plans with findings once more at the end, one after the other while no other sweep of this checkout plays anything,
	// to tell bugs from what only the load of the machine brings up.
	Alone bool
	// Progress is told a line when a workload has been played in a mode, and now and then how
	// far everything is; it may be nil.
	Progress func(line string)
	// Told is told the verdict of every plan when it is there, and once more when it turns out to have been
	// slow or off its reference beside others only; it may be nil.
	Told func(Verdict)
}

// Verdict is what a plan came to.
type Verdict struct {
	Plan Plan
	// Write is the signature of the write that the fault happened at.
	Write string
	// Findings are the rules that it broke.
	Findings []Finding
	// Tally is what the fault did.
	Tally Tally
	// Refused are the writes that the API server itself refused.
	Refused int
	// Again says that it was played once more, alone, and Alone what was found then.
	Again bool
	Alone []Finding
	// Slow says that it only took too long beside others, and alone never.
	Slow bool
	// Hung says that it had not come to its end long after its fault either: whatever the machine does, nobody
	// waits that long.
	Hung bool
	// Strayed says that its fault had no place, because beside others its reference was one that the
	// workload alone does not follow, and that it passed alone with the one that it does.
	Strayed bool
	// Unplayed says that its write is not in the reference that the workload alone follows, so that nothing is known of it.
	Unplayed bool

	// off says that it parted from its reference before its fault, or came to its end without it.
	off bool
	// struck are the writes that the fault happened at.
	struck  []int
	planned planned
}

// Failed says whether the plan broke a rule.
func (v Verdict) Failed() bool { return len(v.Findings) > 0 && !v.Slow && !v.Strayed && !v.Unplayed }

// counts says whether it was a plan, and played.
func (v Verdict) counts() bool { return v.Plan.Fault.K > 0 && !v.Unplayed }

// Report is what a trial came to.
type Report struct {
	// Verdicts of all plans. Those of the undisturbed runs are there only with findings.
	Verdicts []Verdict
	// References by workload.
	References map[string]*Reference

	cost cost

	mu     sync.Mutex
	played map[string]map[Mode]*progress
	// total is how many plans are to be played, and done how many were; unplayed are those
	// that the time did not suffice for, or whose write never came, replayed is how often one was played again because
	// it parted from its reference before its fault, and unlike how often two references were, because they were not alike.
	total, done, unplayed, replayed, unlike int
}

// progress is that of a workload in a mode.
type progress struct {
	left, failed int
	begun        time.Time
}

// trial is a Trial under way.
type trial struct {
	Trial
	lab    *Lab
	report *Report
	// seats are taken by plans that are being played.
	seats *seats
	// broken are runs of several faults that have findings.
	broken []Verdict
	// begun is when the first plan was, and told when it was said how far everything is.
	begun, told time.Time
}

// planned is a plan with the reference to judge it by, and how often it was played in vain.
type planned struct {
	Plan
	reference *Reference
	vain      int
	// apart says that it was one of several in a run that broke something.
	apart bool
}

// Try plays workloads and returns what was found: first the references of all, then all plans,
// those that take the API server down last. Its error says what could not be played.
func (l *Lab) Try(ctx context.Context, o Trial, workloads ...Workload) (*Report, error) {
	t := &trial{Trial: o, lab: l, seats: newSeats(o.Parallel, l.door), report: &Report{
		References: map[string]*Reference{}, played: map[string]map[Mode]*progress{},
	}}
	errs, references := make([]error, len(workloads)+1), make([]*Reference, len(workloads))
	var all sync.WaitGroup
	for i, w := range workloads {
		all.Go(func() {
			var err error
			if references[i], err = t.reference(ctx, w); err != nil {
				errs[i] = fmt.Errorf("%s: playing reference: %w", w.Name, err)
			}
		})
	}
	all.Wait()
	t.begun, t.told = time.Now(), time.Now()
	plans, last := make([][]planned, len(workloads)), []planned(nil)
	for i, w := range workloads {
		if references[i] == nil {
			continue
		}
		t.report.References[w.Name] = references[i]
		for _, p := range t.Plans(i, w, references[i]) {
			t.expect(p)
			if p.Fault.Mode == Restart {
				last = append(last, planned{Plan: p, reference: references[i]})
			} else {
				plans[i] = append(plans[i], planned{Plan: p, reference: references[i]})
			}
		}
	}
	t.play(ctx, inTurn(plans))
	errs[len(workloads)] = t.restarts(ctx, last)
	if t.Alone && (len(t.broken) > 0 || slices.ContainsFunc(t.report.Verdicts, Verdict.doubtful)) {
		t.seats.door.lock()
		defer t.seats.door.unlock()
		t.again(ctx)
		t.couples(ctx) // what is excused by then explains nothing
	}
	return t.report, errors.Join(append(errs, ctx.Err())...)
}

// inTurn takes of every list in turn: plans that wait for the same outside are not all played at
// the same time.
func inTurn(lists [][]planned) []planned {
	var out []planned
	for n, more := 0, true; more; n++ {
		more = false
		for _, list := range lists {
			if n < len(list) {
				out, more = append(out, list[n]), true
			}
		}
	}
	return out
}

// undisturbed is a run with what it came to.
type undisturbed struct {
	*run
	state   State
	history []Entry
}

// reference reads the run as a reference, now that it is known what is no hash.
func (u undisturbed) reference(words vocabulary) *Reference {
	u.words = words
	in := incarnationsOf(u.history, u.lab.world.Role, words)
	var writes []Write
	var payloads []string
	for _, w := range stored(u.proxy.story()) {
		payloads = append(payloads, u.payload(in.uids.Replace(w.body)))
		w.body = ""
		writes = append(writes, numbered(writes, w.in(u.hide)))
	}
	others, edits := othersIn(u.history, stored(u.proxy.story()), u.proxy.kinds())
	return &Reference{
		Writes: writes, payloads: payloads, Took: u.took, alone: u.alone, events: u.proxy.happenings(), watched: u.proxy.kinds(), reads: u.proxy.looked(), words: words,
		others: others, edits: edits,
		outcome: u.outcome(u.state, u.history), effects: u.effects(u.history), most: u.most(u.history),
	}
}

// reference plays a workload twice undisturbed.
func (t *trial) reference(ctx context.Context, w Workload) (*Reference, error) {
	var apart string
	for range attempts {
		var runs [2]undisturbed
		var pair [2]*Reference
		var needless [2][]string
		var errs [2]error
		var both sync.WaitGroup
		for i := range pair {
			t.seats.take()
			both.Go(func() {
				err := t.one(ctx, planned{Plan: Plan{Workload: w}}, func(r *run, findings []Finding) {
					runs[i] = undisturbed{r, r.record.state(), r.heard()}
					needless[i] = r.needless(runs[i].history)
					if len(findings) > 0 {
						t.tell(Verdict{Plan: Plan{Workload: w}, Findings: findings})
					}
					if !r.converged {
						errs[i] = errNoEnd
					}
				})
				errs[i] = errors.Join(errs[i], err)
			})
		}
		both.Wait()
		if err := errors.Join(errs[:]...); err != nil {
			return nil, err
		}
		words := runs[0].said(runs[0].history).and(runs[1].said(runs[1].history))
		for i := range pair {
			pair[i] = runs[i].reference(words)
		}
		apart = differ(pair[0].Writes, pair[1].Writes)
		if apart == "" && !maps.Equal(pair[0].effects, pair[1].effects) {
			apart = "their creates and deletes differ"
		}
		pair[0].masked = learn(pair[0].outcome, pair[1].outcome)
		if apart = cmp.Or(apart, more(pair[0].outcome, pair[1].outcome, pair[0].masked)); apart != "" {
			t.unlike(w, apart)
			continue
		}
		t.excepted(w, needless[0], needless[1])
		pair[0].Took, pair[0].alone = min(pair[0].Took, pair[1].Took), min(pair[0].alone, pair[1].alone)
		pair[0].others, pair[0].edits = inBoth(pair[0].others, pair[1].others), inBoth(pair[0].edits, pair[1].edits)
		pair[0].reads, pair[0].events = inBoth(pair[0].reads, pair[1].reads), max(pair[0].events, pair[1].events)
		for i, payload := range pair[1].payloads {
			if payload != pair[0].payloads[i] {
				pair[0].payloads[i] = ""
			}
		}
		for _, path := range slices.Sorted(maps.Keys(pair[0].masked)) {
			t.say("%s: compared without hashes, because the references differ: %s: %s and %s", w.Name, path, pair[0].outcome[path], pair[1].outcome[path])
		}
		return pair[0], nil
	}
	return nil, fmt.Errorf("%w in %d attempts: %s", errNotAlike, attempts, apart)
}

// unlike notes that two references are not alike, so that others are played.
func (t *trial) unlike(w Workload, apart string) {
	t.report.mu.Lock()
	t.report.unlike++
	t.report.mu.Unlock()
	t.say("%s: two references are not alike: %s", w.Name, apart)
}

// excepted tells of the exceptions that neither of two references needs.
func (t *trial) excepted(w Workload, a, b []string) {
	for _, why := range a {
		if slices.Contains(b, why) {
			t.tell(Verdict{Plan: Plan{Workload: w}, Findings: []Finding{{"plan", "an exception of the workload has no use, and would hide something: " + why}}})
		}
	}
}

// differ says where two sequences of writes part.
func differ(a, b []Write) string {
	for i := range max(len(a), len(b)) {
		var x, y string
		if i < len(a) {
			x = a[i].Signature()
		}
		if i < len(b) {
			y = b[i].Signature()
		}
		if x != y {
			return fmt.Sprintf("%d and %d writes; write %d is %q and %q", len(a), len(b), i+1, x, y)
		}
	}
	return ""
}

// late says whether no plan may begin any more, and counts this one if so.
func (t *trial) late(ctx context.Context, p Plan) bool {
	if ctx.Err() == nil && (t.Until.IsZero() || time.Now().Before(t.Until)) {
		return false
	}
	t.report.mu.Lock()
	defer t.report.mu.Unlock()
	t.report.unplayed += len(p.writes())
	return true
}

// play plays plans, and what is left of each.
func (t *trial) play(ctx context.Context, plans []planned) {
	var all sync.WaitGroup
	for _, p := range plans {
		t.seats.take()
		all.Go(func() {
			left := t.played(ctx, p)
			for len(left) > 0 {
				t.seats.take()
				left = append(t.played(ctx, left[0]), left[1:]...)
			}
		})
	}
	all.Wait()
}

// played plays a plan on a seat that was taken for it, and returns what is left to play: the plan, if it does not count, or its
// faults, if it has several, which say nothing of each but that it passed.
func (t *trial) played(ctx context.Context, p planned) (left []planned) {
	if t.late(ctx, p.Plan) {
		t.seats.leave()
		return nil
	}
	v, judged := t.verdict(ctx, p, p.vain+1)
	switch {
	case judged && len(p.Also) == 0:
		t.done(v)
		return nil
	case len(p.Also) == 0:
		p.vain++
		return []planned{p}
	case judged && len(v.Findings) == 0:
		return t.credit(v)
	case judged:
		t.say("%s: each is played by itself", v)
		t.suspect(v)
	}
	for _, point := range p.points() {
		left = append(left, planned{Plan: point, reference: p.reference, apart: judged})
	}
	return left
}

// suspect takes in what was found of several faults in a run: a rule that needs no reference is broken, whether that comes again
// or not, and the others may be explained by one of the faults.
func (t *trial) suspect(v Verdict) {
	if slices.ContainsFunc(v.Findings, Finding.absolute) {
		t.tell(v)
		return
	}
	t.report.mu.Lock()
	defer t.report.mu.Unlock()
	t.broken = append(t.broken, v)
}

// credit tells that several faults of a run have passed, and returns the plan of the others.
func (t *trial) credit(v Verdict) []planned {
	var others []int
	for _, point := range v.Plan.points() {
		if slices.Contains(v.struck, point.Fault.K) {
			t.done(v.of(point))
		} else {
			others = append(others, point.Fault.K)
		}
	}
	if len(others) == 0 {
		return nil
	}
	return []planned{{Plan: v.Plan.at(others...), reference: v.planned.reference}}
}

// of is the verdict of one of the plan's points.
func (v Verdict) of(point Plan) Verdict {
	v.Plan, v.planned.Plan = point, point
	if reference := v.planned.reference; reference != nil {
		v.Write = reference.Writes[point.Fault.K-1].Signature()
	}
	return v
}

// verdict plays one plan on a seat that was taken for it, and says whether that counts.
func (t *trial) verdict(ctx context.Context, p planned, attempt int) (v Verdict, judged bool) {
	err := t.one(ctx, p, func(r *run, findings []Finding) { v, judged = t.judged(p, r, findings, attempt) })
	if err != nil {
		return t.judged(p, nil, []Finding{{"plan", err.Error()}}, attempt)
	}
	return v, judged
}

// one plays one plan on a seat that was taken for it, and gives that back when there is nothing
// left to do but to wait.
func (t *trial) one(ctx context.Context, p planned, done func(*run, []Finding)) error {
	r, err := t.lab.prepare(ctx, p.Plan, p.reference)
	if err == nil {
		r.seats = t.seats
		r.play(ctx, p.reference, t.patience())
	}
	t.seats.leave()
	if err != nil {
		return err
	}
	t.end(ctx, p, r, done)
	return nil
}

// patience is how much longer a plan goes on that takes too long.
func (t *trial) patience() time.Duration { return cmp.Or(t.Patience, time.Minute) }

// end waits, stops the manager and judges.
func (t *trial) end(ctx context.Context, p planned, r *run, done func(*run, []Finding)) {
	begun := time.Now()
	defer func() { t.report.cost.add(r.started, r.took, r.still, time.Since(begun)) }()
	defer r.close()
	var late []Write
	if r.converged {
		late = r.quiet(ctx, t.Quiet)
	} else {
		time.Sleep(stillness) // until the recorder has seen all
		r.stuck = r.where(ctx)
	}
	r.manager.stop()
	r.ended = time.Now()
	done(r, r.judge(p.reference, late))
}

// judged is the verdict of a run, unless its road parted from the reference before the fault, the
// fault did not happen or the harness was in trouble, and it is to be played again. Without a run it
// could not be played.
func (t *trial) judged(p planned, r *run, findings []Finding, attempt int) (Verdict, bool) {
	if r == nil {
		return Verdict{Plan: p.Plan, Findings: findings, planned: p}, true
	}
	// Where the next manager is killed, too, it may be on another road by then.
	struck := slices.DeleteFunc(r.proxy.struckAt(), func(k int) bool { return !slices.Contains(p.writes(), k) })
	k := slices.Max(append([]int{p.Fault.K}, struck...))
	if p.Fault.refuses() {
		k-- // that write itself may never come again
	}
	all := r.proxy.story()
	before := stored(all)
	apart := ""
	if n := min(k, len(before), len(p.reference.Writes)); n > 0 {
		apart = differ(before[:n], p.reference.Writes[:n])
	}
	off := apart != "" || !r.proxy.happened()
	if attempt < attempts && (off || len(r.troubles) > 0) && !slices.ContainsFunc(findings, Finding.absolute) {
		for _, f := range findings {
			line, _, _ := strings.Cut(f.String(), "\n")
			t.say("%s, %s: not judged by its reference, and played again: %s; found: %s", p.Workload.Name, p.Fault, cmp.Or(apart, "its fault did not happen"), line)
		}
		t.report.mu.Lock()
		defer t.report.mu.Unlock()
		t.report.replayed++
		return Verdict{}, false
	}
	if apart != "" {
		findings = append(findings, Finding{"plan", "it parts from the reference before its fault: " + apart})
	}
	return Verdict{
		Plan: p.Plan, Write: p.reference.Writes[p.Fault.K-1].Signature(), Findings: findings, Tally: r.proxy.tally(),
		Refused: len(all) - len(before), Hung: !r.converged && r.hung, planned: p, off: off, struck: struck,
	}, true
}

// restarts plays the plans that take the API server down, some at a time for each restart of it,
// when nobody else needs it. While some end, the next get ready.
func (t *trial) restarts(ctx context.Context, todo []planned) error {
	for attempt := 1; len(todo) > 0; attempt++ {
		var mu sync.Mutex
		var again []planned
		var ending sync.WaitGroup
		for group := range slices.Chunk(todo, together) {
			err := t.group(ctx, group, &ending, func(p planned, r *run, findings []Finding) {
				if v, judged := t.judged(p, r, findings, attempt); judged {
					t.done(v)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				again = append(again, p)
			})
			if err != nil {
				ending.Wait()
				return err
			}
		}
		ending.Wait()
		todo = again
	}
	return nil
}

// group plays plans that share a restart, which waits until those before have ended.
func (t *trial) group(ctx context.Context, group []planned, ending *sync.WaitGroup, done func(planned, *run, []Finding)) error {
	shared := t.lab.newRestart(len(group))
	runs := make([]*run, len(group))
	var all sync.WaitGroup
	for i := range group {
		group[i].restart = shared
		t.seats.take()
		all.Go(func() {
			defer t.seats.leave()
			if t.late(ctx, group[i].Plan) {
				shared.leave(ctx)
				return
			}
			var err error
			if runs[i], err = t.lab.prepare(ctx, group[i].Plan, group[i].reference); err != nil {
				shared.leave(ctx)
				done(group[i], nil, []Finding{{"plan", err.Error()}})
			}
		})
	}
	all.Wait()
	ending.Wait()
	for i, r := range runs {
		if r != nil {
			all.Go(func() { r.play(ctx, group[i].reference, t.patience()) })
		}
	}
	all.Wait()
	if shared.here > 0 {
		if <-shared.up; shared.err != nil {
			return fmt.Errorf("restarting API server: %w", shared.err)
		}
	}
	for i, r := range runs {
		if r != nil {
			ending.Go(func() { t.end(ctx, group[i], r, func(r *run, findings []Finding) { done(group[i], r, findings) }) })
		}
	}
	return nil
}

// again plays the plans that have findings once more, each alone. One that only took too long says
// something of how busy the machine was, unless it takes too long alone in any of some attempts, and so
// does one whose reference is another now that nothing else is played.
func (t *trial) again(ctx context.Context) {
	n := 0
	for i := range t.report.Verdicts {
		v := &t.report.Verdicts[i]
		if !v.doubtful() {
			continue
		}
		if n++; n > alone || ctx.Err() != nil || !t.Until.IsZero() && time.Now().After(t.Until) {
			return
		}
		t.pace(ctx, v)
		v.Again, v.Alone = true, t.alone(ctx, v.planned)
		t.excuse(ctx, v)
		t.say("alone: %s", v)
		if (v.Slow || v.Strayed) && t.Told != nil {
			t.Told(*v)
		}
	}
}

// couples plays the runs of several faults that had findings once more, each alone, where no fault fails by itself. They need
// more than one, if there are any still.
func (t *trial) couples(ctx context.Context) {
	for _, v := range t.broken {
		if t.report.explains(v) || t.late(ctx, v.Plan) {
			continue
		}
		v.Again, v.Alone = true, t.alone(ctx, v.planned)
		t.say("alone: %s", v)
		if len(v.Alone) > 0 {
			v.Findings = v.Alone
			t.tell(v)
		}
	}
}

// explains says whether one of the faults of a run fails by itself.
func (r *Report) explains(run Verdict) bool {
	return slices.ContainsFunc(r.Verdicts, func(v Verdict) bool {
		return v.Plan.Workload.Name == run.Plan.Workload.Name && v.Plan.Fault.Mode == run.Plan.Fault.Mode && len(v.Plan.Also) == 0 &&
			slices.Contains(run.Plan.writes(), v.Plan.Fault.K) && v.Failed()
	})
}

// doubtful says whether something was found of a plan, which may be of what else was played.
func (v Verdict) doubtful() bool { return len(v.Findings) > 0 && v.Plan.Fault.K > 0 }

// pace gives a plan that took too long the time that its reference takes now, where that is more: a machine that other things are
// done on, too, is not always as fast as it was.
func (t *trial) pace(ctx context.Context, v *Verdict) {
	if !v.late() {
		return
	}
	if now, err := t.reference(ctx, v.Plan.Workload); err == nil {
		v.planned.reference = v.planned.reference.atPaceOf(now)
	}
}

// atPaceOf is the reference at the pace of another that is like it, where that is the slower one.
func (ref *Reference) atPaceOf(other *Reference) *Reference {
	if other.Took <= ref.Took || differ(other.Writes, ref.Writes) != "" {
		return ref
	}
	slower := *ref
	slower.Took = other.Took
	return &slower
}

// excuse finds out whether the machine is the reason for what a plan broke.
func (t *trial) excuse(ctx context.Context, v *Verdict) {
	if v.mayBeSlow() {
		v.Alone = t.often(ctx, v.planned, attempts-1)
		v.Slow = len(v.Alone) == 0
	}
	if v.mayHaveStrayed() {
		t.strayed(ctx, v)
	}
}

// late says whether the plan only took too long, so that its fault may not have had its time either.
func (v *Verdict) late() bool { return !v.Hung && !v.broke("O5") }

// mayBeSlow says whether the plan was only late, and passed alone.
func (v *Verdict) mayBeSlow() bool { return v.late() && len(v.Alone) == 0 }

// mayHaveStrayed says whether all that is known of the plan is that its fault had no place in it.
func (v *Verdict) mayHaveStrayed() bool { return !v.Hung && !v.Slow && v.off && !v.broke("plan", "O5") }

// broke says whether the plan broke any rule but some.
func (v *Verdict) broke(but ...string) bool {
	return slices.ContainsFunc(v.Findings, func(f Finding) bool { return !slices.Contains(but, f.Oracle) })
}

// strayed finds out whether a plan that was off its reference follows another one alone, and passes at its write, or has no such
// write in it and was not played.
func (t *trial) strayed(ctx context.Context, v *Verdict) {
	reference, err := t.reference(ctx, v.Plan.Workload)
	if err != nil {
		return
	}
	p := v.planned
	apart := differ(reference.Writes, p.reference.Writes) != ""
	if p.reference = reference; apart && p.Fault.possible(reference) {
		v.Strayed = len(t.often(ctx, p, attempts)) == 0
	} else if apart {
		t.unplay(v)
	}
}

// unplay counts a plan as one that was not played.
func (t *trial) unplay(v *Verdict) {
	v.Unplayed = true
	t.report.mu.Lock()
	defer t.report.mu.Unlock()
	t.report.unplayed++
}

// often is what is found when a plan is played alone a number of times, or until something is.
func (t *trial) often(ctx context.Context, p planned, times int) []Finding {
	for range times {
		if found := t.alone(ctx, p); len(found) > 0 {
			return found
		}
	}
	return nil
}

// alone is what is found when nothing else is played.
func (t *trial) alone(ctx context.Context, p planned) []Finding {
	var v Verdict
	for attempt, judged := 1, false; !judged && attempt <= attempts; attempt++ {
		if p.Fault.Mode != Restart {
			t.seats.take()
			v, judged = t.verdict(ctx, p, attempt)
			continue
		}
		var ending sync.WaitGroup
		err := t.group(ctx, []planned{p}, &ending, func(p planned, r *run, findings []Finding) {
			v, judged = t.judged(p, r, findings, attempt)
		})
		if ending.Wait(); err != nil {
			return []Finding{{"plan", err.Error()}}
		}
	}
	return v.Findings
}

// expect notes that a plan will be played.
func (t *trial) expect(p Plan) {
	t.report.mu.Lock()
	defer t.report.mu.Unlock()
	modes := t.report.played[p.Workload.Name]
	if modes == nil {
		modes = map[Mode]*progress{}
		t.report.played[p.Workload.Name] = modes
	}
	if modes[p.Fault.Mode] == nil {
		modes[p.Fault.Mode] = &progress{begun: time.Now()}
	}
	modes[p.Fault.Mode].left += len(p.writes())
	t.report.total += len(p.writes())
}

// done takes the verdict of a plan in.
func (t *trial) done(v Verdict) {
	t.tell(v)
	t.report.mu.Lock()
	defer t.report.mu.Unlock()
	t.report.done++
	if now := time.Now(); now.Sub(t.told) >= between {
		t.told = now
		took, left := now.Sub(t.begun), t.report.total-t.report.done
		t.say("%d of %d plans after %s, about %s to go", t.report.done, t.report.total, took.Round(time.Second),
			(took / time.Duration(t.report.done) * time.Duration(left)).Round(time.Second))
	}
	name, mode := v.Plan.Workload.Name, v.Plan.Fault.Mode
	p := t.report.played[name][mode]
	p.left--
	if len(v.Findings) > 0 {
		p.failed++
	}
	if p.left > 0 {
		return
	}
	n, tally := 0, Tally{}
	for _, other := range t.report.Verdicts {
		if other.Plan.Workload.Name == name && other.Plan.Fault.Mode == mode {
			n++
			tally = tally.plus(other.Tally)
		}
	}
	t.say("%-28s %-14s %3d plans, %d failed, done after %s%s", name, mode, n, p.failed, time.Since(p.begun).Round(100*time.Millisecond), tally)
}

// tell keeps a verdict.
func (t *trial) tell(v Verdict) {
	t.report.mu.Lock()
	t.report.Verdicts = append(t.report.Verdicts, v)
	t.report.mu.Unlock()
	if t.Told != nil {
		t.Told(v)
	}
}

func (t *trial) say(format string, args ...any) {
	if t.Progress != nil {
		t.Progress(fmt.Sprintf(format, args...))
	}
}

// Catches counts the plans by the oracle that found something in them.
func (r *Report) Catches() map[string]int {
	out := map[string]int{}
	for _, v := range r.Verdicts {
		oracles := map[string]bool{}
		for _, f := range v.Findings {
			oracles[f.Oracle] = true
		}
		for oracle := range oracles {
			out[oracle]++
		}
	}
	return out
}

// Tally is what all faults did.
func (r *Report) Tally() Tally {
	var out Tally
	for _, v := range r.Verdicts {
		out = out.plus(v.Tally)
	}
	return out
}

// plans is how many were played, without the undisturbed ones.
func (r *Report) plans() int {
	n := 0
	for _, v := range r.Verdicts {
		if v.counts() {
			n++
		}
	}
	return n
}

// plansOf is how many were played of a mode.
func (r *Report) plansOf(m Mode) int {
	n := 0
	for _, v := range r.Verdicts {
		if v.Plan.Fault.Mode == m {
			n++
		}
	}
	return n
}

// allows says whether a mode is possible at any write of any workload: what creates nothing is never refused a create.
func (r *Report) allows(m Mode) bool {
	for _, reference := range r.References {
		if len(Every([]Mode{m}, Workload{}, reference)) > 0 {
			return true
		}
	}
	return false
}

// print prints what was played.
func (r *Report) print(to io.Writer, workloads []Workload, took time.Duration) {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "workload\twrites\tplans\tfailures\trefused writes\treference")
	failures, slow, strayed := 0, 0, 0
	for _, w := range workloads {
		reference := r.References[w.Name]
		if reference == nil {
			continue
		}
		plans, failed, refused := 0, 0, 0
		for _, v := range r.Verdicts {
			if v.Plan.Workload.Name != w.Name {
				continue
			}
			if v.counts() {
				plans++
			}
			if v.Failed() {
				failed++
			}
			if v.Slow {
				slow++
			}
			if v.Strayed {
				strayed++
			}
			refused += v.Refused
		}
		failures += failed
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%s\n", w.Name, len(reference.Writes), plans, failed, refused, reference.Took.Round(time.Millisecond))
	}
	_ = table.Flush()
	for _, m := range Modes {
		if n := r.plansOf(m); n > 0 {
			fmt.Fprintf(to, "%s: %d  ", m, n)
		}
	}
	n := r.plans()
	fmt.Fprintf(to, "\n%d plans, %d failed, in %s, %s for each\n", n, failures, took.Round(100*time.Millisecond),
		(took / time.Duration(max(1, n))).Round(time.Millisecond))
	for _, aside := range []struct {
		n    int
		what string
	}{
		{r.replayed, "times a plan was played again: it parted from its reference before its fault, the fault did not happen, or the harness was in trouble"},
		{r.unlike, "times two references were not alike, and others were played"},
		{slow, fmt.Sprintf("plans took too long beside others, and alone not once in %d times", attempts)},
		{strayed, "plans had a reference that their workloads alone do not follow, and passed with the one that they do"},
	} {
		if aside.n > 0 {
			fmt.Fprintf(to, "%d %s\n", aside.n, aside.what)
		}
	}
	r.cost.print(to)
	printCPU(to)
	catches := r.Catches()
	for _, oracle := range slices.Sorted(maps.Keys(catches)) {
		fmt.Fprintf(to, "%s: %d plans\n", oracle, catches[oracle])
	}
}
