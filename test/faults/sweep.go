package faults

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var (
	only     = flag.String("faults.workload", "", "comma-separated workloads to play; by default all")
	onlyMode = flag.String("faults.mode", "", "play only this mode ("+strings.Join(modeNames(), ", ")+")")
	onlyK    = flag.String("faults.k", "", "let the fault happen at this write only; at several in one run: 3,9")
	full     = flag.String("faults.full", "", "comma-separated modes to play at every write, all, or none: the references alone; by default a fixed sample is played")
	part     = flag.String("faults.part", "", "play a part of the workloads: 2/5 is the second of five")
	inOne    = flag.Int("faults.together", 1, "let a fault happen at so many writes of one run, far from each other, as long as the manager goes on after each as if nothing had happened; what is left has another run, and of one with a finding each has its own")
	anew     = flag.Bool("faults.anew", false, "leave out kills, two in a row too, lost answers, and writes and reads that are refused once where those are on the road of a workload before, of the same objects, flags, outsides and rules, where the user has done nothing else yet")
	recordTo = flag.String("faults.record", "", "file that keeps what has passed; what it says of the same manager and the same test is not played again")
	parallel = flag.Int("faults.parallel", 6, "how many plans are played at the same time")
	binary   = flag.String("faults.manager", "", "manager to judge; by default it is built")
)

// Full says whether everything is to be played that a sample stands for.
func Full() bool { return *full == "all" }

// Begin starts a lab that ends with the test, for the manager that -faults.manager names if the installation names none.
func Begin(t *testing.T, i Installation, world World) *Lab {
	t.Helper()
	i.Binary = cmp.Or(i.Binary, *binary)
	lab, err := Start(t.Context(), i, world)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Stop(); err != nil {
			t.Error(err)
		}
	})
	return lab
}

const (
	// between two crashes of a sample are so many plans of other modes.
	others = 4
	// quietSample and quietFull are how long a run that is done must stay quiet.
	quietSample = time.Second
	quietFull   = 3 * time.Second
	// ending is what is left of the time of a test when no plan begins any more.
	ending = 90 * time.Second
)

// budget is about how many plans a sample of modes has: one of each other mode, and before every few of them a crash.
func budget(modes []Mode) int { return len(modes) - 1 + (len(modes)-1+others-1)/others }

// Sweep plays what the flags ask for and fails the test for every plan that breaks a rule.
// pkg is the package of the test, for the command that plays a plan again.
func Sweep(t *testing.T, lab *Lab, pkg string, workloads ...Workload) {
	modes, err := wantedModes()
	if err != nil {
		t.Fatal(err)
	}
	ks, err := wantedWrites(*onlyK)
	if err != nil {
		t.Fatal(err)
	}
	asSample := *full == "" && *onlyMode == "" && len(ks) == 0
	if asSample && *only == "" {
		workloads = slices.DeleteFunc(slices.Clone(workloads), func(w Workload) bool { return w.Sampled == NoHalf })
		if len(workloads) > 0 {
			modes = workloads[0].Sampled.of(modes)
		}
	}
	chosen, err := wantedWorkloads(workloads)
	if err != nil {
		t.Fatal(err)
	}
	done, err := openJournal(*recordTo, append(lab.installed, lab.Binary(), os.Args[0])...)
	if err != nil {
		t.Fatal(err)
	}
	defer done.close()
	begun := time.Now()
	report, err := lab.Try(t.Context(), trialOf(t, modes, ks, asSample, len(chosen), done), chosen...)
	if err != nil {
		t.Error(err)
		for _, w := range chosen {
			if report.References[w.Name] == nil {
				t.Error("again: " + again(t.Name(), pkg, Plan{Workload: w}))
			}
		}
	}
	report.print(os.Stdout, chosen, time.Since(begun))
	blame(t, pkg, report)
	if done.skipped > 0 {
		fmt.Printf("%d plans have passed before, says %s\n", done.skipped, *recordTo)
	}
	if err == nil {
		missed(t, report, modes, asSample, done)
	}
}

// missed fails the test when nothing was played, or a mode never was.
func missed(t *testing.T, report *Report, modes []Mode, asSample bool, done *journal) {
	if *full != nothing && report.plans()+report.unplayed+done.skipped == 0 {
		t.Error("no plan was played: the mode is not possible at that write, or there is no such write")
	}
	if (asSample || *full == "all") && *only == "" && *part == "" && *onlyK == "" && done.skipped == 0 {
		for _, m := range modes {
			if report.plansOf(m) == 0 && report.allows(m) {
				t.Errorf("there is no plan of mode %s", m)
			}
		}
	}
}

// blame fails the test for every plan that broke a rule, and for those that were not played.
func blame(t *testing.T, pkg string, report *Report) {
	for _, v := range report.Verdicts {
		if v.Failed() {
			t.Error(v.String() + "\n    again: " + again(t.Name(), pkg, v.Plan))
		}
	}
	if n := report.unplayed; n > 0 {
		t.Errorf("%d plans were not played: the time was up, or their writes are in no reference of the workload alone; with -faults.record the rest can be played later", n)
	}
}

// wantedWorkloads are those of the flags.
func wantedWorkloads(all []Workload) ([]Workload, error) {
	if *only == "" {
		return partOf(slices.Clone(all), *part)
	}
	var out []Workload
	for _, name := range strings.Split(*only, ",") {
		i := slices.IndexFunc(all, func(w Workload) bool { return w.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no workload %q", name)
		}
		out = append(out, all[i])
	}
	return partOf(out, *part)
}

// partOf is one of several parts of the workloads, each of which has some of all sorts.
func partOf(workloads []Workload, part string) ([]Workload, error) {
	if part == "" {
		return workloads, nil
	}
	var i, n int
	if _, err := fmt.Sscanf(part, "%d/%d", &i, &n); err != nil || i < 1 || i > n {
		return nil, fmt.Errorf("%q is not a part like 2/5", part)
	}
	var out []Workload
	for j, w := range workloads {
		if j%n == i-1 {
			out = append(out, w)
		}
	}
	return out, nil
}

// wantedWrites are those of -faults.k, in their order.
func wantedWrites(list string) (ks []int, err error) {
	if list == "" {
		return nil, nil
	}
	for _, s := range strings.Split(list, ",") {
		k, err := strconv.Atoi(s)
		if err != nil || k < 1 || len(ks) > 0 && k <= ks[len(ks)-1] {
			return nil, fmt.Errorf("-faults.k: %q are not the ordinals of writes, from 1, in their order", list)
		}
		ks = append(ks, k)
	}
	return ks, nil
}

// trialOf is what the flags ask for of so many workloads.
func trialOf(t *testing.T, modes []Mode, ks []int, asSample bool, workloads int, done *journal) Trial {
	known := roads{}
	trial := Trial{
		Quiet: quietFull, Parallel: *parallel,
		Progress: func(line string) {
			if testing.Verbose() {
				fmt.Fprintln(os.Stdout, line)
			}
		},
		Alone: true,
		Told: func(v Verdict) {
			if v.Failed() {
				fmt.Fprintln(os.Stdout, "FAILED:", v)
			}
			if !asSample { // which watches for a shorter time
				done.add(v)
			}
		},
		Plans: func(_ int, w Workload, r *Reference) []Plan {
			all := slices.DeleteFunc(Every(modes, w, r), func(p Plan) bool {
				return len(ks) > 0 && !slices.Contains(ks, p.Fault.K) || len(ks) == 0 && Full() && !p.Fault.inTurn() || *anew && known.has(p.Fault, w, r)
			})
			runs := Coupled(all, *inOne)
			if len(ks) > 1 {
				runs = inRuns(all, func(Fault, int) int { return 1 })
			}
			return slices.DeleteFunc(runs, done.has) // the others are coupled as they were
		},
	}
	if deadline, limited := t.Deadline(); limited {
		trial.Until = deadline.Add(-ending)
	}
	if asSample {
		trial.Quiet = quietSample
		each := (budget(modes) + workloads - 1) / workloads
		trial.Plans = func(i int, w Workload, r *Reference) []Plan { return sample(modes, w, r, i*each, each) }
	}
	return trial
}

// nothing is what -faults.full says for no fault at all.
const nothing = "none"

// again is the command that plays a plan again, or a reference.
func again(test, pkg string, p Plan) string {
	command := fmt.Sprintf("go test %s -run '^%s$' -faults.workload=%s", pkg, test, p.Workload.Name)
	if p.Fault.K == 0 {
		return command + " -faults.full=" + nothing
	}
	return command + fmt.Sprintf(" -faults.mode=%s -faults.k=%s", p.Fault.Mode, p.list())
}

// wantedModes are those of the flags.
func wantedModes() ([]Mode, error) {
	names := strings.Split(*full, ",")
	switch {
	case *onlyMode != "":
		names = []string{*onlyMode}
	case *full == nothing:
		return nil, nil
	case *full == "all", *full == "" && *onlyK == "":
		return Modes, nil
	case *full == "":
		return []Mode{Crash}, nil
	}
	var out []Mode
	for _, name := range names {
		m, err := parseMode(name)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

func modeNames() []string {
	var out []string
	for _, m := range Modes {
		out = append(out, string(m))
	}
	return out
}

// Every is every fault of the modes at every write where it can happen.
func Every(modes []Mode, w Workload, reference *Reference) []Plan {
	var out []Plan
	for _, m := range modes {
		for k := range reference.Writes {
			if f := (Fault{m, k + 1}); f.possible(reference) {
				out = append(out, Plan{Workload: w, Fault: f})
			}
		}
	}
	return out
}

// roads are those that workloads have in common: what they begin with, what the outsides hold, what they are judged by, and the
// writes since, with what they write, as far as the user has done nothing else by the next of them.
type roads map[string]bool

// has says whether another workload has a write on the same road, and remembers the road.
func (known roads) has(f Fault, w Workload, reference *Reference) bool {
	after, ends := f.ends()
	if !ends || f.K+after >= min(reference.alone, len(reference.Writes)) {
		return false // it may last until what comes then
	}
	var road strings.Builder
	for _, o := range w.Objects {
		text, err := o.MarshalJSON()
		if err != nil {
			return false
		}
		road.Write(text)
	}
	// What the outsides do on it, and what it is judged by.
	fmt.Fprintf(&road, "%q %q %q %q %q %s %s", w.Args, w.Holds, w.Breaks, w.Leaves, w.Logs, f, reference.held(f))
	for i, write := range reference.Writes[:f.K+after+1] {
		road.WriteString("\n" + write.Signature())
		if i < len(reference.payloads) {
			road.WriteString(" " + reference.payloads[i])
		}
	}
	had := known[road.String()]
	known[road.String()] = true
	return had
}

// apart is how many writes are between two faults of a run at least.
const apart = 3

// Coupled puts the faults of a workload that can happen several times into runs of up to n of a mode.
func Coupled(plans []Plan, n int) []Plan {
	return inRuns(plans, func(f Fault, points int) int { return max(apart+f.after(), (points+n-1)/n) })
}

// inRuns puts the faults of a workload that can happen several times into so many runs for the points of a mode.
func inRuns(plans []Plan, runsFor func(f Fault, points int) int) (out []Plan) {
	repeat := map[Mode][]Plan{}
	for _, p := range plans {
		if p.Fault.repeats() {
			repeat[p.Fault.Mode] = append(repeat[p.Fault.Mode], p)
		} else {
			out = append(out, p)
		}
	}
	for _, mode := range Modes {
		all := repeat[mode]
		runs := min(len(all), runsFor(Fault{Mode: mode}, len(all)))
		for i, p := range all[:runs] {
			for j := i + runs; j < len(all); j += runs {
				p.Also = append(p.Also, all[j].Fault.K)
			}
			out = append(out, p)
		}
	}
	return out
}

// sample takes points over the whole road, now and then a crash, several of which share a run, and goes through the
// other modes in turn: first those that need a create, which the first workload makes.
func sample(modes []Mode, w Workload, reference *Reference, turn, n int) []Plan {
	var out []Plan
	rest := slices.Clone(modes[1:])
	slices.SortStableFunc(rest, func(a, b Mode) int { return cmp.Compare(order(a), order(b)) })
	for ; n > 0; n-- {
		f := Fault{modes[0], point(turn/(others+1), reference)}
		if turn%(others+1) != 0 {
			other := turn - turn/(others+1) - 1
			f = nearest(Fault{rest[other%len(rest)], point(other, reference)}, reference)
		}
		out = append(out, Plan{Workload: w, Fault: f})
		turn++
	}
	slices.SortFunc(out, func(a, b Plan) int {
		return cmp.Or(cmp.Compare(a.Fault.K, b.Fault.K), cmp.Compare(a.Fault.Mode, b.Fault.Mode))
	})
	out = slices.CompactFunc(out, func(a, b Plan) bool { return a.Fault == b.Fault })
	return inRuns(out, func(f Fault, points int) int {
		if f.brief() {
			points = (points + 2) / 3
		}
		return points
	})
}

// point is the write that the i-th of any number of faults happens at: the golden ratio spreads them evenly, but only one by one.
func point(i int, reference *Reference) int {
	_, part := math.Modf(float64(i+1) * 0.6180339887)
	return 1 + int(part*float64(len(reference.Writes)))
}

func order(m Mode) int {
	if m == Terminating || m == Quota {
		return 0
	}
	return 1
}

// nearest is the fault at the next write where it is possible, or a crash when there is none.
func nearest(f Fault, reference *Reference) Fault {
	for range reference.Writes {
		if f.possible(reference) {
			return f
		}
		f.K = f.K%len(reference.Writes) + 1
	}
	return Fault{Crash, f.K}
}

func (v Verdict) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s, %s", v.Plan.Workload.Name, v.Plan.what())
	if v.Write != "" {
		fmt.Fprintf(&out, " (%s)", v.Write)
	}
	for _, f := range v.Findings {
		fmt.Fprintf(&out, "\n    %s", f)
	}
	switch {
	case v.Slow:
		fmt.Fprintf(&out, "\n    passed alone, %d times", attempts)
	case v.Strayed:
		out.WriteString("\n    passed alone, where the reference is another")
	case v.Unplayed:
		out.WriteString("\n    was not played: alone, the reference is another, without that write")
	case v.Again && len(v.Alone) == 0:
		out.WriteString("\n    passed alone")
	case v.Again:
		out.WriteString("\n    failed alone, too")
		for _, f := range v.Alone {
			line, _, _ := strings.Cut(f.String(), "\n")
			fmt.Fprintf(&out, "\n        %s", line)
		}
	}
	return out.String()
}
