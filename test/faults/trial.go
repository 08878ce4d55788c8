package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"
)

const (
	// attempts is how often runs that should be alike are played before they are not.
	attempts = 3
	// together is how many plans share a restart of the API server.
	together = 8
)

// Plan is one run: a workload and what happens in it.
type Plan struct {
	Workload Workload
	Fault    Fault

	restart *restart
}

// Trial says how workloads are played.
type Trial struct {
	// Quiet is how long a run that is done must stay quiet.
	Quiet time.Duration
	// Parallel is how many plans are played at the same time.
	Parallel int
	// Plans are those of the i-th workload.
	Plans func(i int, w Workload, reference *Reference) []Plan
	// Progress is told a line when a workload has been played in a mode; it may be nil.
	Progress func(line string)
	// Failed is told every verdict with findings; it may be nil.
	Failed func(Verdict)
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
}

// Report is what a trial came to.
type Report struct {
	// Verdicts of all plans. Those of the undisturbed runs are there only with findings.
	Verdicts []Verdict
	// References by workload.
	References map[string]*Reference

	mu     sync.Mutex
	took   map[string]time.Duration
	played map[string]map[Mode]*progress
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
	seats chan struct{}

	mu sync.Mutex
	// last are the plans that take the API server down, which are played when all else is done.
	last []planned
}

// planned is a plan with the reference to judge it by.
type planned struct {
	Plan
	reference *Reference
}

// Try plays workloads and returns what was found. Its error says what could not be played.
func (l *Lab) Try(ctx context.Context, o Trial, workloads ...Workload) (*Report, error) {
	t := &trial{Trial: o, lab: l, seats: make(chan struct{}, max(1, o.Parallel)), report: &Report{
		References: map[string]*Reference{}, took: map[string]time.Duration{}, played: map[string]map[Mode]*progress{},
	}}
	errs := make([]error, len(workloads)+1)
	var all sync.WaitGroup
	slots := make(chan struct{}, max(1, o.Parallel))
	for i, w := range workloads {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if err := t.workload(ctx, w, i); err != nil {
				errs[i] = fmt.Errorf("%s: %w", w.Name, err)
			}
		})
	}
	all.Wait()
	errs[len(workloads)] = t.restarts(ctx)
	return t.report, errors.Join(errs...)
}

// workload plays the i-th workload.
func (t *trial) workload(ctx context.Context, w Workload, i int) error {
	begun := time.Now()
	reference, err := t.reference(ctx, w)
	if err != nil {
		return fmt.Errorf("playing reference: %w", err)
	}
	var todo []planned
	for _, p := range t.Plans(i, w, reference) {
		t.expect(p)
		if p.Fault.Mode == Restart {
			t.mu.Lock()
			t.last = append(t.last, planned{p, reference})
			t.mu.Unlock()
			continue
		}
		todo = append(todo, planned{p, reference})
	}
	t.report.mu.Lock()
	t.report.References[w.Name] = reference
	t.report.mu.Unlock()
	for attempt := 1; len(todo) > 0; attempt++ {
		todo = t.play(ctx, todo, attempt)
	}
	t.report.mu.Lock()
	defer t.report.mu.Unlock()
	t.report.took[w.Name] = time.Since(begun)
	return ctx.Err()
}

// reference plays a workload twice undisturbed.
func (t *trial) reference(ctx context.Context, w Workload) (*Reference, error) {
	var apart string
	for range attempts {
		var pair [2]*Reference
		var errs [2]error
		var both sync.WaitGroup
		for i := range pair {
			t.seats <- struct{}{}
			both.Go(func() {
				err := t.one(ctx, planned{Plan: Plan{Workload: w}}, func(r *run, findings []Finding) {
					history := r.record.history()
					pair[i] = &Reference{
						Writes: stored(r.proxy.story()), Took: r.took, watched: r.proxy.kinds(),
						outcome: outcomeOf(r.record.state(), history, r.lab.world.Role, r.mask),
						effects: r.effects(history), most: r.most(history),
					}
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
		if apart = differ(pair[0].Writes, pair[1].Writes); apart != "" {
			continue
		}
		if !maps.Equal(pair[0].effects, pair[1].effects) {
			apart = "their creates and deletes differ"
			continue
		}
		pair[0].masked = learn(pair[0].outcome, pair[1].outcome)
		pair[0].Took = min(pair[0].Took, pair[1].Took)
		for _, path := range slices.Sorted(maps.Keys(pair[0].masked)) {
			t.say("%s: not compared, because the references differ: %s: %q and %q", w.Name, path, pair[0].outcome[path], pair[1].outcome[path])
		}
		return pair[0], nil
	}
	return nil, fmt.Errorf("%w in %d attempts: %s", errNotAlike, attempts, apart)
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

// play plays plans and returns those to play again.
func (t *trial) play(ctx context.Context, todo []planned, attempt int) []planned {
	var mu sync.Mutex
	var again []planned
	var all sync.WaitGroup
	for _, p := range todo {
		t.seats <- struct{}{}
		all.Go(func() {
			err := t.one(ctx, p, func(r *run, findings []Finding) {
				if !t.judged(p, r, findings, attempt) {
					mu.Lock()
					defer mu.Unlock()
					again = append(again, p)
				}
			})
			if err != nil {
				t.done(Verdict{Plan: p.Plan, Findings: []Finding{{"plan", err.Error()}}})
			}
		})
	}
	all.Wait()
	return again
}

// one plays one plan on a seat that was taken for it, and gives that back when there is nothing
// left to do but to wait.
func (t *trial) one(ctx context.Context, p planned, done func(*run, []Finding)) error {
	r, err := t.lab.prepare(ctx, p.Plan, p.reference)
	if err == nil {
		r.play(ctx, p.reference)
	}
	<-t.seats
	if err != nil {
		return err
	}
	t.end(p, r, done)
	return nil
}

// end waits, stops the manager and judges.
func (t *trial) end(p planned, r *run, done func(*run, []Finding)) {
	defer r.close()
	var late []Write
	if r.converged {
		late = r.quiet(t.Quiet)
	}
	r.manager.stop()
	done(r, r.judge(p.reference, late))
}

// judged takes a verdict in, unless the road of the run parted from the reference before the
// fault and it is to be played again.
func (t *trial) judged(p planned, r *run, findings []Finding, attempt int) bool {
	k := p.Fault.K
	if p.Fault.refuses() {
		k-- // that write itself may never come again
	}
	all := r.proxy.story()
	before := stored(all)
	apart := ""
	if n := min(k, len(before), len(p.reference.Writes)); n > 0 {
		apart = differ(before[:n], p.reference.Writes[:n])
	}
	if apart != "" {
		if attempt < attempts {
			return false
		}
		findings = append(findings, Finding{"plan", "it parts from the reference before its fault: " + apart})
	}
	t.done(Verdict{
		Plan: p.Plan, Write: p.reference.Writes[p.Fault.K-1].Signature(), Findings: findings, Tally: r.proxy.tally(), Refused: len(all) - len(before),
	})
	return true
}

// restarts plays the plans that take the API server down, some at a time for each restart of it,
// when nobody else needs it.
func (t *trial) restarts(ctx context.Context) error {
	for attempt := 1; len(t.last) > 0; attempt++ {
		var again []planned
		for group := range slices.Chunk(t.last, together) {
			more, err := t.group(ctx, group, attempt)
			if err != nil {
				return err
			}
			again = append(again, more...)
		}
		t.last = again
	}
	return nil
}

// group plays plans that share a restart.
func (t *trial) group(ctx context.Context, group []planned, attempt int) (again []planned, _ error) {
	shared := t.lab.newRestart(len(group))
	runs, errs := make([]*run, len(group)), make([]error, len(group))
	var all sync.WaitGroup
	for i := range group {
		group[i].restart = shared
		t.seats <- struct{}{}
		all.Go(func() {
			defer func() { <-t.seats }()
			runs[i], errs[i] = t.lab.prepare(ctx, group[i].Plan, group[i].reference)
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for i, r := range runs {
		all.Go(func() { r.play(ctx, group[i].reference) })
	}
	all.Wait()
	if shared.here > 0 {
		if <-shared.up; shared.err != nil {
			return nil, fmt.Errorf("restarting API server: %w", shared.err)
		}
	}
	for i, r := range runs {
		all.Go(func() {
			t.end(group[i], r, func(r *run, findings []Finding) {
				if !t.judged(group[i], r, findings, attempt) {
					t.mu.Lock()
					defer t.mu.Unlock()
					again = append(again, group[i])
				}
			})
		})
	}
	all.Wait()
	return again, nil
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
	modes[p.Fault.Mode].left++
}

// done takes the verdict of a plan in.
func (t *trial) done(v Verdict) {
	t.tell(v)
	t.report.mu.Lock()
	defer t.report.mu.Unlock()
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
	if len(v.Findings) > 0 && t.Failed != nil {
		t.Failed(v)
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
		if v.Plan.Fault.K > 0 {
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

// print prints what was played.
func (r *Report) print(to io.Writer, workloads []Workload, took time.Duration) {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "workload\twrites\tplans\tfailures\trefused writes\treference")
	failures := 0
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
			if v.Plan.Fault.K > 0 {
				plans++
			}
			if len(v.Findings) > 0 {
				failed++
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
	fmt.Fprintf(to, "CPU: %s of the harness, %s of managers that have ended\n", spent(syscall.RUSAGE_SELF), spent(syscall.RUSAGE_CHILDREN))
	catches := r.Catches()
	for _, oracle := range slices.Sorted(maps.Keys(catches)) {
		fmt.Fprintf(to, "%s: %d plans\n", oracle, catches[oracle])
	}
}

// spent is the CPU time of this process or of its children that have ended.
func spent(who int) time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(who, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Round(100 * time.Millisecond)
}
