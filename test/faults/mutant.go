package faults

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/labkeeper/labkeeper/test/env"
)

var (
	onlyMutants = flag.String("mutants.only", "", "comma-separated mutants to play; by default all")
	firstCatch  = flag.Bool("mutants.first", false, "end a mutant when it has been caught once")
	everywhere  = flag.Bool("mutants.all", false, "play all points of a mutant that is caught undisturbed, too")
)

// Mutant is a manager with a bug that was planted to see whether it is found.
//
// The bug is an edit of the source, which the compiler is given in the place of the file (go
// build -overlay). Behind a build tag or a switch it would have to be in the product: there
// it is read by everybody, can be turned on, and does not break when the code around it
// changes. An edit that does not fit any more fails.
type Mutant struct {
	Name string
	// RootCause is the mistake that the bug stands for.
	RootCause string
	// Edits are the bug.
	Edits []Edit
	// Workloads are the names of those that it is played with: undisturbed, and unless that
	// catches it, in all Modes at every write.
	Workloads []string
	// Modes are C1 by default.
	Modes []Mode
}

// errBadlyPlanted is of a mutant that every oracle would catch, whatever its bug.
var errBadlyPlanted = errors.New("it breaks more than what it stands for")

// Edit replaces what occurs once in a file of this repository.
type Edit struct{ File, Old, New string }

// catch is what a mutant came to.
type catch struct {
	mutant Mutant
	// undisturbed and points are how often it was caught, of how many plans.
	undisturbed, undisturbedOf, points, pointsOf int
	oracles                                      map[string]int
	first                                        string
	// absolute says that it broke a rule for which nothing is compared. Where it did not, and shows undisturbed, a sweep has the same
	// bug in its references, and itself and itselfOf are how often it was caught beside those.
	absolute         bool
	itself, itselfOf int
	// late are plans that only did not come to their end, which may be of the machine.
	late []planned
	err  error
	took time.Duration
}

func (c *catch) caught() bool { return c.undisturbed+c.points > 0 }

// beside says that the bug shows beside a manager without it only: a sweep, which compares the manager with itself, does not find it.
func (c *catch) beside() bool {
	return c.undisturbed > 0 && !c.absolute && c.points == 0 && c.itselfOf > 0 && c.itself == 0
}

// UpToDate fails the test for every mutant that edits what is not there any more, or that is not compiled.
func UpToDate(t *testing.T, mutants []Mutant) {
	c, err := newCompiler(t.Context(), mutants)
	if err != nil {
		t.Error(err)
		return
	}
	for _, m := range mutants {
		if err := c.check(m); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
}

// Mutants plays mutants and fails the test for every one that is not caught. What they come
// to is compared with what the manager without a bug does.
func Mutants(t *testing.T, lab *Lab, mutants []Mutant, workloads ...Workload) {
	if UpToDate(t, mutants); t.Failed() {
		return // before time is spent, and whichever are played
	}
	if *onlyMutants != "" {
		names := strings.Split(*onlyMutants, ",")
		for _, name := range names {
			if !slices.ContainsFunc(mutants, func(m Mutant) bool { return m.Name == name }) {
				t.Fatalf("there is no mutant %q", name)
			}
		}
		mutants = slices.DeleteFunc(slices.Clone(mutants), func(m Mutant) bool { return !slices.Contains(names, m.Name) })
	}
	h := &hunt{t: t, trial: &trial{
		Trial: Trial{Quiet: quietSample, Patience: 15 * time.Second, Parallel: *parallel, Told: func(v Verdict) {
			if len(v.Findings) > 0 {
				t.Errorf("without a bug: %s", v)
			}
		}},
		lab: lab, seats: newSeats(*parallel, lab.door), report: &Report{},
	}, workloads: workloads, references: map[string]*Reference{}}
	begun := time.Now()
	var catches []*catch
	next := h.build(t.Context(), mutants[0])
	for i, m := range mutants {
		binary := <-next
		if i+1 < len(mutants) {
			next = h.build(t.Context(), mutants[i+1])
		}
		c, err := h.play(t.Context(), m, binary)
		if err != nil {
			t.Errorf("%s: %v", m.Name, err)
			continue
		}
		fmt.Printf("%s: %s\n", m.Name, c.first)
		catches = append(catches, c)
		if c.err != nil {
			t.Errorf("%s: %v", m.Name, c.err)
		}
		if !c.caught() {
			t.Errorf("%s (%s) is not caught by %v in %v", m.Name, m.RootCause, m.modes(), m.Workloads)
		}
	}
	printCatches(catches, time.Since(begun))
}

// hunt plays mutants one after the other.
type hunt struct {
	t          *testing.T
	trial      *trial // of the manager without a bug
	workloads  []Workload
	references map[string]*Reference
}

// built is a manager with a bug.
type built struct {
	path string
	err  error
}

// build builds a mutant while another one is played.
func (h *hunt) build(ctx context.Context, m Mutant) <-chan built {
	out := make(chan built, 1)
	go func() {
		overlay, err := m.overlay(h.trial.lab.Dir())
		if err != nil {
			out <- built{err: err}
			return
		}
		path := filepath.Join(h.trial.lab.Dir(), "mutant-"+m.Name)
		out <- built{path, env.Build(ctx, "./cmd", path, "-tags=faults", "-overlay="+overlay)}
	}()
	return out
}

// edited are the files with the bug, by their paths in this repository.
func (m Mutant) edited() (map[string]string, error) {
	edited := map[string]string{}
	for _, e := range m.Edits {
		text, seen := edited[e.File]
		if !seen {
			source, err := os.ReadFile(filepath.Join(env.Root(), e.File))
			if err != nil {
				return nil, fmt.Errorf("reading what is to be edited: %w", err)
			}
			text = string(source)
		}
		if n := strings.Count(text, e.Old); n != 1 {
			return nil, fmt.Errorf("the mutant is out of date: %s has this %d times:\n%s", e.File, n, e.Old)
		}
		edited[e.File] = strings.Replace(text, e.Old, e.New, 1)
	}
	return edited, nil
}

// overlay writes the edited files into a folder, and says where the compiler finds which.
func (m Mutant) overlay(dir string) (string, error) {
	edited, err := m.edited()
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for file, text := range edited {
		path := filepath.Join(dir, m.Name+"-"+strings.ReplaceAll(file, "/", "-"))
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return "", fmt.Errorf("writing what was edited: %w", err)
		}
		replace[filepath.Join(env.Root(), file)] = path
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("encoding overlay: %w", err)
	}
	path := filepath.Join(dir, m.Name+"-overlay.json")
	return path, os.WriteFile(path, overlay, 0o644)
}

func (m Mutant) modes() []Mode {
	if len(m.Modes) == 0 {
		return []Mode{Crash}
	}
	return m.Modes
}

// play plays a mutant: what shows at once is not looked for at every write.
func (h *hunt) play(ctx context.Context, m Mutant, b built) (*catch, error) {
	if b.err != nil {
		return nil, b.err
	}
	defer os.Remove(b.path)
	begun, c := time.Now(), &catch{mutant: m, oracles: map[string]int{}, first: "not caught"}
	var undisturbed, disturbed []planned
	for _, name := range m.Workloads {
		w, reference, err := h.reference(ctx, name)
		if err != nil {
			return nil, err
		}
		undisturbed = append(undisturbed, planned{Plan: Plan{Workload: w}, reference: reference})
		for _, p := range Every(m.modes(), w, reference) {
			disturbed = append(disturbed, planned{Plan: p, reference: reference})
		}
	}
	lab := *h.trial.lab
	lab.binary = b.path
	bugged := &trial{Trial: h.trial.Trial, lab: &lab, seats: h.trial.seats, report: &Report{}}
	watched := *bugged
	watched.Quiet = quietFull
	c.undisturbed, c.undisturbedOf = c.count(ctx, &watched, undisturbed)
	if c.undisturbed == 0 || *everywhere {
		c.points, c.pointsOf = c.count(ctx, bugged, disturbed)
	}
	if c.undisturbed > 0 && !c.absolute && !*firstCatch {
		c.byItself(ctx, bugged, undisturbed)
	}
	c.took = time.Since(begun)
	return c, ctx.Err()
}

// byItself plays a bug that shows undisturbed as a sweep does, whose references have it, too.
func (c *catch) byItself(ctx context.Context, bugged *trial, plans []planned) {
	alone := *bugged
	alone.Told, alone.Quiet = nil, quietFull
	for _, p := range plans {
		found := len(alone.report.Verdicts)
		reference, err := alone.reference(ctx, p.Workload)
		if c.itselfOf++; err != nil || len(alone.report.Verdicts) > found { // either fails a sweep
			c.itself++
			continue
		}
		var disturbed []planned
		for _, plan := range Every(c.mutant.modes(), p.Workload, reference) {
			disturbed = append(disturbed, planned{Plan: plan, reference: reference})
		}
		other := &catch{mutant: c.mutant, oracles: map[string]int{}}
		caught, of := other.count(ctx, &alone, disturbed)
		c.itself, c.itselfOf = c.itself+caught, c.itselfOf+of
	}
}

// reference is that of a workload, which is played when it is needed for the first time.
func (h *hunt) reference(ctx context.Context, name string) (Workload, *Reference, error) {
	i := slices.IndexFunc(h.workloads, func(w Workload) bool { return w.Name == name })
	if i < 0 {
		return Workload{}, nil, fmt.Errorf("there is no workload %q", name)
	}
	w := h.workloads[i]
	if h.references[name] == nil {
		reference, err := h.trial.reference(ctx, w)
		if err != nil {
			return w, nil, fmt.Errorf("playing reference of %s: %w", name, err)
		}
		h.references[name] = reference
	}
	return w, h.references[name], nil
}

// count plays plans and counts those that break a rule.
func (c *catch) count(ctx context.Context, bugged *trial, plans []planned) (caught, of int) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, p := range plans {
		bugged.seats.take()
		mu.Lock()
		enough := *firstCatch && caught > 0
		mu.Unlock()
		if enough || ctx.Err() != nil {
			bugged.seats.leave()
			break
		}
		of++
		all.Go(func() {
			play := func() error {
				return bugged.one(ctx, p, func(r *run, findings []Finding) {
					mu.Lock()
					defer mu.Unlock()
					caught += c.take(p, r, findings)
				})
			}
			err := play()
			if errors.Is(err, errNotReady) { // it never is by its bug, and late now and then by the machine
				bugged.seats.take()
				err = play()
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, errNotReady):
				c.late = append(c.late, p)
			case err != nil:
				c.err = err
			}
		})
	}
	all.Wait()
	if caught == 0 {
		caught = c.confirm(ctx, bugged)
	}
	c.late = nil
	return caught, of
}

// confirm plays those that were late once more, with nothing beside them and more patiently, until one has no end then either:
// that is its bug, and so it was in the others.
func (c *catch) confirm(ctx context.Context, bugged *trial) (caught int) {
	alone := *bugged
	alone.Patience *= 2
	for _, p := range c.late {
		if ctx.Err() != nil {
			break
		}
		alone.seats.take()
		err := alone.one(ctx, p, func(r *run, findings []Finding) { caught = c.again(p, r, findings) })
		switch {
		case errors.Is(err, errNotStarted):
			c.err = fmt.Errorf("%w: %w", errBadlyPlanted, err)
		case errors.Is(err, errNotReady):
			caught = c.note(p, []Finding{{"O8", err.Error()}})
		case err != nil:
			c.err = err
		}
		if caught > 0 {
			return len(c.late)
		}
	}
	return 0
}

// again notes what a plan that was late breaks alone, and returns 1 if that is something.
func (c *catch) again(p planned, r *run, findings []Finding) int {
	if r.converged {
		return c.take(p, r, findings)
	}
	return c.note(p, findings)
}

// take notes the findings of a plan, and returns 1 if there is one. That it was slow says nothing of its bug.
func (c *catch) take(p planned, r *run, findings []Finding) int {
	all := len(findings)
	findings = slices.DeleteFunc(findings, func(f Finding) bool { return f.Oracle == "O5" })
	if len(findings) == 0 && all > 0 && !r.converged {
		c.late = append(c.late, p)
	}
	return c.note(p, findings)
}

// note notes findings, and returns 1 if there are any. A plan that the harness could not play, or whose fault did not happen,
// says nothing. A manager that panics would be caught whatever its bug stands for: that is no catch, but a bug that is badly planted.
func (c *catch) note(p planned, findings []Finding) int {
	if slices.ContainsFunc(findings, func(f Finding) bool { return f.Oracle == "plan" }) {
		return 0
	}
	if i := slices.IndexFunc(findings, Finding.panics); i >= 0 {
		c.err = fmt.Errorf("%w: %s", errBadlyPlanted, findings[i])
		return 0
	}
	oracles := map[string]bool{}
	for _, f := range findings {
		if !c.caughtBy() {
			line, _, _ := strings.Cut(f.String(), "\n")
			c.first = fmt.Sprintf("%s, %s: %s", p.Workload.Name, p.Fault, line[:min(len(line), 300)])
		}
		c.absolute = c.absolute || f.absolute()
		oracles[f.Oracle] = true
		c.oracles[f.Oracle] += 0
	}
	for oracle := range oracles {
		c.oracles[oracle]++
	}
	return min(1, len(oracles))
}

func (c *catch) caughtBy() bool { return len(c.oracles) > 0 }

// printCatches prints the table of mutants.
func printCatches(catches []*catch, took time.Duration) {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "mutant\troot cause\tundisturbed\tby itself\tpoints\toracles\ttime")
	survivors, beside := 0, 0
	for _, c := range catches {
		var oracles []string
		for _, oracle := range slices.Sorted(maps.Keys(c.oracles)) {
			oracles = append(oracles, fmt.Sprintf("%s %d", oracle, c.oracles[oracle]))
		}
		if !c.caught() {
			survivors++
		}
		if c.beside() {
			beside++
		}
		fmt.Fprintf(table, "%s\t%s\t%d of %d\t%s\t%s\t%s\t%s\n", c.mutant.Name, c.mutant.RootCause, c.undisturbed, c.undisturbedOf,
			counted(c.itself, c.itselfOf), counted(c.points, c.pointsOf), strings.Join(oracles, ", "), c.took.Round(time.Second))
	}
	_ = table.Flush()
	fmt.Printf("%d mutants, %d not caught, %d only beside the manager without the bug, in %s\n", len(catches), survivors, beside, took.Round(time.Second))
}

func counted(n, of int) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%d of %d", n, of)
}
