package dispatch

import (
	"container/heap"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func mustNew(t testing.TB, spec Spec) *Order {
	t.Helper()
	o, err := New(spec)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// run is a simulated operation.
type run struct {
	order     *Order
	operation Operation
	policy    Policy
	takes     func(target int) time.Duration
	fails     map[string]bool
	// states may be given; others are Pending.
	states []State
	// done are the states that were given.
	done []State

	story    []string
	makespan time.Duration
	started  []time.Duration
	ended    []time.Duration
}

// ends are targets that run, by when they end.
type ends []struct {
	at     time.Duration
	target int
}

func (e ends) Len() int { return len(e) }
func (e ends) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].target < e[j].target
}
func (e ends) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any) {
	*e = append(*e, x.(struct {
		at     time.Duration
		target int
	}))
}
func (e *ends) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// simulate plays an operation to its end.
func (r *run) simulate(t testing.TB) *run {
	t.Helper()
	names := r.order.spec.Targets
	if r.states == nil {
		r.states = make([]State, len(names))
	}
	if r.takes == nil {
		r.takes = func(int) time.Duration { return time.Minute }
	}
	r.started, r.ended = make([]time.Duration, len(names)), make([]time.Duration, len(names))
	var now time.Duration
	running := &ends{}
	tell := func(what string, targets ...int) {
		if len(targets) == 0 {
			return
		}
		var all []string
		for _, i := range targets {
			all = append(all, names[i])
		}
		r.story = append(r.story, fmt.Sprintf("%s %s %s", now, what, strings.Join(all, " ")))
	}
	for {
		step := r.order.Next(r.operation, r.states, r.policy)
		for _, i := range step.Start {
			if r.states[i] != Pending {
				t.Fatalf("%s starts twice", names[i])
			}
			r.states[i], r.started[i] = Running, now
			heap.Push(running, struct {
				at     time.Duration
				target int
			}{now + r.takes(i), i})
		}
		tell("start", step.Start...)
		if step.Done {
			if running.Len() > 0 {
				t.Fatal("it is done while something runs")
			}
			tell("blocked", step.Blocked...)
			r.makespan = now
			return r
		}
		if running.Len() == 0 {
			t.Fatalf("nothing runs, and it is not done: %v", r.states)
		}
		for at := (*running)[0].at; running.Len() > 0 && (*running)[0].at == at; {
			i := heap.Pop(running).(struct {
				at     time.Duration
				target int
			}).target
			now, r.ended[i], r.states[i] = at, at, Completed
			if r.fails[names[i]] {
				r.states[i] = Failed
				tell("failed", i)
			}
		}
	}
}

var shop = []string{"web", "api", "jobs", "cache", "db"}

func dependent() Spec {
	return Spec{Targets: shop, Type: DAG, Dependencies: []Dependency{
		{From: "web", To: "api"}, {From: "api", To: "db"}, {From: "jobs", To: "db"}, {From: "api", To: "cache"},
	}}
}

func staged() Spec {
	return Spec{Targets: shop, Type: Staged, Stages: []Stage{
		{Name: "front", Targets: []string{"web", "api"}}, {Name: "back", Parallel: true, MaxConcurrency: 2, Targets: []string{"jobs", "cache", "db"}},
	}}
}

func TestStories(t *testing.T) {
	for name, test := range map[string]struct {
		spec  Spec
		run   run
		story string
		took  []time.Duration
	}{
		"one after the other": {Spec{Targets: shop[:3], Type: Sequential}, run{}, "0s start web; 1m0s start api; 2m0s start jobs", nil},
		"and woken the other way round": {Spec{Targets: shop[:3], Type: Sequential}, run{operation: WakeUp},
			"0s start jobs; 1m0s start api; 2m0s start web", nil},
		"at once":       {Spec{Targets: shop, Type: Parallel}, run{}, "0s start web api jobs cache db", nil},
		"two at a time": {Spec{Targets: shop, Type: Parallel, MaxConcurrency: 2}, run{}, "0s start web api; 1m0s start jobs cache; 2m0s start db", nil},
		"woken from the end": {Spec{Targets: shop, Type: Parallel, MaxConcurrency: 2}, run{operation: WakeUp},
			"0s start db cache; 1m0s start jobs api; 2m0s start web", nil},
		// db does not wait for all of what api's level has, but for api and jobs.
		"a DAG, not its levels": {dependent(), run{takes: slow("jobs", 90*time.Second)},
			"0s start web jobs; 1m0s start api; 2m0s start cache db", nil},
		"a DAG wakes by its edges":   {dependent(), run{operation: WakeUp}, "0s start db cache; 1m0s start api jobs; 2m0s start web", nil},
		"the longest path first":     {Spec{Targets: shop, Type: DAG, MaxConcurrency: 1, Dependencies: []Dependency{{From: "jobs", To: "db"}}}, run{}, "0s start jobs; 1m0s start web; 2m0s start api; 3m0s start cache; 4m0s start db", nil},
		"stages":                     {staged(), run{}, "0s start web; 1m0s start api; 2m0s start jobs cache; 3m0s start db", nil},
		"stages are woken backwards": {staged(), run{operation: WakeUp}, "0s start db cache; 1m0s start jobs; 2m0s start api; 3m0s start web", nil},
		"a failure holds up what is after": {dependent(), run{fails: set("api")},
			"0s start web jobs; 1m0s start api; 2m0s failed api; 2m0s blocked cache db", nil},
		"a database that does not wake": {dependent(), run{operation: WakeUp, fails: set("db")},
			"0s start db cache; 1m0s failed db; 1m0s blocked web api jobs", nil},
		"fail fast": {Spec{Targets: shop, Type: Parallel, MaxConcurrency: 1}, run{policy: Policy{FailFast: true}, fails: set("web")},
			"0s start web; 1m0s failed web; 1m0s blocked api jobs cache db", nil},
		"but what can be awake is": {Spec{Targets: shop, Type: Parallel, MaxConcurrency: 1}, run{operation: WakeUp, policy: Policy{FailFast: true}, fails: set("db")},
			"0s start db; 1m0s failed db; 1m0s start cache; 2m0s start jobs; 3m0s start api; 4m0s start web", nil},
		"strict stages": {staged(), run{fails: set("web")}, "0s start web; 1m0s failed web; 1m0s blocked api jobs cache db", nil},
		"best effort goes on with lists": {staged(), run{policy: Policy{BestEffort: true}, fails: set("web")},
			"0s start web; 1m0s failed web; 1m0s start api; 2m0s start jobs cache; 3m0s start db", nil},
		"best effort holds what depends": {dependent(), run{policy: Policy{BestEffort: true}, fails: set("web")},
			"0s start web jobs; 1m0s failed web; 1m0s blocked api cache db", nil},
		"best effort is not stopped": {Spec{Targets: shop[:2], Type: Sequential}, run{policy: Policy{FailFast: true, BestEffort: true}, fails: set("web")},
			"0s start web; 1m0s failed web; 1m0s start api", nil},
		"what is done lets nothing pass":     {Spec{Targets: shop[:3], Type: Sequential}, run{states: []State{Pending, Completed, Pending}}, "0s start web; 1m0s start jobs", nil},
		"nor a stage that is":                {staged3(), run{states: []State{Pending, Pending, Completed, Completed, Pending}}, "0s start web; 1m0s start api; 2m0s start db", nil},
		"what is done stays":                 {dependent(), run{states: []State{Completed, Completed, Pending, Pending, Pending}}, "0s start jobs cache; 1m0s start db", nil},
		"what has failed is not tried again": {dependent(), run{states: []State{Completed, Failed, Completed, Pending, Pending}}, "0s blocked cache db", nil},
		"what took long before goes first": {Spec{Targets: shop, Type: Parallel, MaxConcurrency: 2}, run{takes: slow("jobs", 5*time.Minute)},
			"0s start jobs web; 1m0s start cache; 2m0s start api; 3m0s start db",
			[]time.Duration{0, time.Minute, 5 * time.Minute, 0, time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			test.run.order = mustNew(t, test.spec)
			if test.took != nil {
				test.run.order.Weigh(Shutdown, test.took)
			}
			if diff := cmp.Diff(test.story, strings.Join(test.run.simulate(t).story, "; ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// staged3 has a stage in the middle.
func staged3() Spec {
	return Spec{Targets: shop, Type: Staged, Stages: []Stage{
		{Name: "front", Targets: []string{"web", "api"}}, {Name: "middle", Parallel: true, Targets: []string{"jobs", "cache"}}, {Name: "back", Targets: []string{"db"}},
	}}
}

// What is tried again holds up what comes after it, and takes nobody's place.
func TestWaiting(t *testing.T) {
	for name, test := range map[string]struct {
		spec   Spec
		states []State
		policy Policy
		start  []int
		done   bool
	}{
		"alone":                       {Spec{Targets: shop[:2], Type: Sequential}, []State{Waiting, Pending}, Policy{}, nil, false},
		"best effort waits":           {Spec{Targets: shop[:2], Type: Sequential}, []State{Waiting, Pending}, Policy{BestEffort: true}, nil, false},
		"fail fast does not":          {Spec{Targets: shop[:2], Type: Parallel, MaxConcurrency: 1}, []State{Waiting, Pending}, Policy{FailFast: true}, []int{1}, false},
		"too many run":                {Spec{Targets: shop, Type: Parallel, MaxConcurrency: 2}, []State{Running, Running, Running, Pending, Pending}, Policy{}, nil, false},
		"again, beside its successor": {Spec{Targets: shop[:3], Type: Sequential}, []State{Pending, Running, Pending}, Policy{BestEffort: true}, nil, false},
		"again, after the others":     {Spec{Targets: shop[:3], Type: Parallel, MaxConcurrency: 1}, []State{Again, Pending, Pending}, Policy{}, []int{1}, false},
		"again, as one of so many":    {Spec{Targets: shop[:3], Type: Parallel, MaxConcurrency: 2}, []State{Again, Running, Again}, Policy{}, []int{0}, false},
		"again, as the most urgent":   {Spec{Targets: shop[:3], Type: DAG, MaxConcurrency: 1, Dependencies: []Dependency{{From: "web", To: "api"}}}, []State{Again, Pending, Pending}, Policy{}, []int{0}, false},
		"over":                        {Spec{Targets: shop[:2], Type: Sequential}, []State{Completed, Failed}, Policy{}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			step := mustNew(t, test.spec).Next(Shutdown, test.states, test.policy)
			if diff := cmp.Diff(test.start, step.Start); diff != "" || step.Done != test.done {
				t.Errorf("it is %+v", step)
			}
		})
	}
}

func slow(target string, takes time.Duration) func(int) time.Duration {
	return func(i int) time.Duration {
		if shop[i] == target {
			return takes
		}
		return time.Minute
	}
}

func set(names ...string) map[string]bool {
	out := map[string]bool{}
	for _, n := range names {
		out[n] = true
	}
	return out
}

func TestInvalid(t *testing.T) {
	for name, test := range map[string]struct {
		spec Spec
		says []string
	}{
		"no type":             {Spec{Targets: shop}, []string{`execution.strategy.type: "" is none of`}},
		"one name twice":      {Spec{Targets: []string{"a", "b", "a"}, Type: Parallel}, []string{`targets[2].name: "a" is that of targets[0], too`}},
		"less than nothing":   {Spec{Targets: shop, Type: Parallel, MaxConcurrency: -1}, []string{"execution.strategy.maxConcurrency"}},
		"edges of no DAG":     {Spec{Targets: shop, Type: Parallel, Dependencies: []Dependency{{"web", "api"}}}, []string{"execution.strategy.dependencies: they are for type DAG, and this is Parallel"}},
		"stages of no Staged": {Spec{Targets: shop, Type: DAG, Stages: []Stage{{}}}, []string{"execution.strategy.stages: they are for type Staged, and this is DAG"}},
		"unknown targets": {Spec{Targets: shop, Type: DAG, Dependencies: []Dependency{{"web", "api"}, {"wbe", "apy"}}},
			[]string{`execution.strategy.dependencies[1].from: there is no target "wbe"`, `dependencies[1].to: there is no target "apy"`}},
		"before itself": {Spec{Targets: shop, Type: DAG, Dependencies: []Dependency{{"web", "web"}}}, []string{"execution.strategy.dependencies[0]: web cannot come before itself"}},
		"a cycle": {Spec{Targets: shop, Type: DAG, Dependencies: []Dependency{{"web", "api"}, {"api", "db"}, {"db", "web"}}},
			[]string{"execution.strategy.dependencies: each of these would stop before the next: api -> db -> web -> api"}},
		"stages": {Spec{Targets: shop, Type: Staged, Stages: []Stage{
			{Name: "a", Targets: []string{"web", "api", "none"}}, {Name: "a", Targets: []string{"api", "jobs"}, MaxConcurrency: 2}, {Name: "b", Parallel: true, MaxConcurrency: -1, Targets: []string{"db"}}, {Name: "c"},
		}}, []string{
			`execution.strategy.stages[0].targets[2]: there is no target "none"`, `stages[1].name: "a" is that of stages[0], too`, "stages[1].targets[0]: api is in stages[0] already",
			"stages[1].maxConcurrency: the targets of a stage that is not parallel", "stages[2].maxConcurrency: it must be 1 or more", "stages[3].targets: there is none", "targets[3]: cache is in no stage",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(test.spec)
			var invalid *InvalidError
			if !errors.As(err, &invalid) {
				t.Fatalf("it is %v", err)
			}
			lines := strings.Split(err.Error(), "\n")
			for _, says := range test.says {
				if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, says) }) {
					t.Errorf("it does not say %s:\n%v", says, err)
				}
			}
			if len(lines) != len(test.says) {
				t.Errorf("it says more than that:\n%v", err)
			}
		})
	}
	long := Spec{Type: DAG}
	for i := range 5000 {
		long.Targets = append(long.Targets, fmt.Sprint("target-", i))
		long.Dependencies = append(long.Dependencies, Dependency{fmt.Sprint("target-", i), fmt.Sprint("target-", (i+1)%5000)})
	}
	if _, err := New(long); err == nil || len(err.Error()) > 1000 || !strings.Contains(err.Error(), "more)") {
		t.Errorf("of a long cycle: %v", err)
	}
}

// random are specs of every type.
func random(r *rand.Rand, n int) Spec {
	s := Spec{MaxConcurrency: r.IntN(6), Type: []Type{Sequential, Parallel, DAG, Staged}[r.IntN(4)]}
	for i := range n {
		s.Targets = append(s.Targets, fmt.Sprint("t", i))
	}
	switch s.Type {
	case DAG:
		s.Dependencies = edges(r, s.Targets, 1.5)
	case Staged:
		for from := 0; from < n; {
			to := min(n, from+1+r.IntN(5))
			parallel := r.IntN(2) == 0
			stage := Stage{Name: fmt.Sprint("s", from), Parallel: parallel, Targets: s.Targets[from:to]}
			if parallel {
				stage.MaxConcurrency = r.IntN(4)
			}
			s.Stages, from = append(s.Stages, stage), to
		}
	}
	return s
}

// edges are so many for each target, from earlier to later ones of a shuffled list.
func edges(r *rand.Rand, targets []string, each float64) (all []Dependency) {
	order := r.Perm(len(targets))
	for range int(each * float64(len(targets))) {
		a, b := r.IntN(len(order)), r.IntN(len(order))
		if a != b {
			all = append(all, Dependency{targets[order[min(a, b)]], targets[order[max(a, b)]]})
		}
	}
	return all
}

// direct says whether a must have ended before b starts, by the spec alone.
func direct(s Spec, operation Operation, a, b int) bool {
	if operation == WakeUp {
		a, b = b, a
	}
	switch s.Type {
	case Sequential:
		return a < b
	case DAG:
		return slices.Contains(s.Dependencies, Dependency{s.Targets[a], s.Targets[b]})
	case Staged:
		of := func(i int) int {
			return slices.IndexFunc(s.Stages, func(stage Stage) bool { return slices.Contains(stage.Targets, s.Targets[i]) })
		}
		return of(a) < of(b) || of(a) == of(b) && !s.Stages[of(a)].Parallel && a < b
	}
	return false
}

// Whatever the order: everything runs once, in the order, and not more at a time than may.
func TestProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for round := range 400 {
		spec := random(r, 1+r.IntN(25))
		for _, operation := range []Operation{Shutdown, WakeUp} {
			takes := make([]time.Duration, len(spec.Targets))
			fails := map[string]bool{}
			for i := range takes {
				takes[i] = time.Duration(1+r.IntN(20)) * time.Second
				fails[spec.Targets[i]] = r.IntN(8) == 0
			}
			policy := Policy{FailFast: r.IntN(4) == 0, BestEffort: r.IntN(2) == 0}
			states := make([]State, len(spec.Targets))
			for i := range states { // some have nothing to be done
				if r.IntN(4) == 0 {
					states[i] = Completed
				}
			}
			done := slices.Clone(states)
			played := (&run{states: states, order: mustNew(t, spec), operation: operation, policy: policy, fails: fails, takes: func(i int) time.Duration { return takes[i] }}).simulate(t)
			played.done = done
			checkOrder(t, fmt.Sprintf("round %d, %s, operation %d, %+v", round, spec.Type, operation, policy), spec, operation, played)
			checkConcurrency(t, spec, played)
			if !slices.Contains(played.states, Failed) && slices.Contains(played.states, Pending) {
				t.Errorf("round %d: nothing has failed, and not everything has run: %v", round, played.story)
			}
		}
	}
}

func checkOrder(t *testing.T, what string, spec Spec, operation Operation, r *run) {
	t.Helper()
	hard := !r.policy.BestEffort || spec.Type == DAG
	before := closure(spec, operation)
	for a := range spec.Targets {
		for b := range spec.Targets {
			switch {
			case r.states[b] == Pending || r.done[a] == Completed || r.done[b] == Completed || !before[[2]int{a, b}]:
			case r.states[a] == Pending, r.ended[a] > r.started[b]:
				t.Errorf("%s: %s has not ended, and %s starts: %v", what, spec.Targets[a], spec.Targets[b], r.story)
			case hard && r.states[a] == Failed:
				t.Errorf("%s: %s has failed, and %s starts: %v", what, spec.Targets[a], spec.Targets[b], r.story)
			}
		}
	}
}

// closure is direct, over all that lies between.
func closure(spec Spec, operation Operation) map[[2]int]bool {
	n, is := len(spec.Targets), map[[2]int]bool{}
	for a := range n {
		for b := range n {
			is[[2]int{a, b}] = direct(spec, operation, a, b)
		}
	}
	for via := range n {
		for a := range n {
			for b := range n {
				is[[2]int{a, b}] = is[[2]int{a, b}] || is[[2]int{a, via}] && is[[2]int{via, b}]
			}
		}
	}
	return is
}

func checkConcurrency(t *testing.T, spec Spec, r *run) {
	t.Helper()
	check := func(what string, limit int, of []string) {
		for i := range spec.Targets {
			if n := r.atOnce(i, of); limit > 0 && n > limit {
				t.Errorf("%d of %s run, of at most %d: %v", n, what, limit, r.story)
			}
		}
	}
	check("all", spec.MaxConcurrency, spec.Targets)
	for _, stage := range spec.Stages {
		if stage.Parallel {
			check(stage.Name, stage.MaxConcurrency, stage.Targets)
		} else {
			check(stage.Name, 1, stage.Targets)
		}
	}
}

// ran says whether a target was started.
func (r *run) ran(i int) bool { return r.states[i] != Pending && r.done[i] == Pending }

// atOnce is how many of some targets run when one starts.
func (r *run) atOnce(at int, of []string) (n int) {
	if !r.ran(at) {
		return 0
	}
	for i, name := range r.order.spec.Targets {
		if slices.Contains(of, name) && r.ran(i) && r.started[i] <= r.started[at] && r.ended[i] > r.started[at] {
			n++
		}
	}
	return n
}

// The whole takes at most 1.15 of what the longest path, or the work by so many at a time, must take.
func TestMakespan(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 11))
	worst := 0.0
	for range 60 {
		spec := Spec{Type: DAG, MaxConcurrency: 4 + r.IntN(12)}
		for i := range 100 + r.IntN(200) {
			spec.Targets = append(spec.Targets, fmt.Sprint("t", i))
		}
		spec.Dependencies = edges(r, spec.Targets, 0.5+2*r.Float64())
		takes := make([]time.Duration, len(spec.Targets))
		var work time.Duration
		for i := range takes {
			takes[i] = time.Duration(10+r.IntN(300)) * time.Second
			work += takes[i]
		}
		for _, known := range []bool{false, true} {
			o := mustNew(t, spec)
			o.Weigh(Shutdown, takes)
			longest := slices.Max(o.ahead[Shutdown])
			if !known {
				o.Weigh(Shutdown, nil)
			}
			played := (&run{order: o, takes: func(i int) time.Duration { return takes[i] }}).simulate(t)
			bound := max(longest, work/time.Duration(spec.MaxConcurrency))
			ratio := float64(played.makespan) / float64(bound)
			if worst = max(worst, ratio); ratio > 1.15 {
				t.Errorf("%d targets, %d at a time, durations known %v: %s, %.2f of %s", len(spec.Targets), spec.MaxConcurrency, known, played.makespan, ratio, bound)
			}
		}
	}
	t.Logf("at worst %.3f of the bound", worst)
}

// shapes are orders of n targets.
func shapes(n int) map[string]Spec {
	r := rand.New(rand.NewPCG(3, 3))
	var targets []string
	for i := range n {
		targets = append(targets, fmt.Sprint("target-", i))
	}
	half := n / 2
	chain := make([]Dependency, 0, n)
	for i := 1; i < n; i++ {
		chain = append(chain, Dependency{targets[i-1], targets[i]})
	}
	return map[string]Spec{
		"sequential": {Targets: targets, Type: Sequential},
		"parallel":   {Targets: targets, Type: Parallel, MaxConcurrency: 50},
		"chain":      {Targets: targets, Type: DAG, Dependencies: chain},
		"random":     {Targets: targets, Type: DAG, MaxConcurrency: 50, Dependencies: edges(r, targets, 2)},
		"two stages": {Targets: targets, Type: Staged, Stages: []Stage{{Name: "a", Parallel: true, Targets: targets[:half]}, {Name: "b", Parallel: true, Targets: targets[half:]}}},
	}
}

// A plan of 10,000 targets costs what these and their dependencies are, of whatever shape: it is told by what it allocates, which does not
// depend on what else runs. BenchmarkPlan has the times.
func TestCost(t *testing.T) {
	for name, spec := range shapes(10_000) {
		t.Run(name, func(t *testing.T) {
			states := make([]State, len(spec.Targets))
			cost := testing.Benchmark(func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					mustNew(b, spec).Next(Shutdown, states, Policy{})
				}
			})
			if kib := cost.AllocedBytesPerOp() >> 10; kib > 4<<10 || cost.AllocsPerOp() > 12_000 {
				t.Errorf("it takes %d KiB, in %d pieces", kib, cost.AllocsPerOp())
			}
		})
	}
}

func BenchmarkPlan(b *testing.B) {
	for name, spec := range shapes(10_000) {
		b.Run(name, func(b *testing.B) {
			states := make([]State, len(spec.Targets))
			for b.Loop() {
				o, err := New(spec)
				if err != nil {
					b.Fatal(err)
				}
				o.Next(Shutdown, states, Policy{})
			}
		})
	}
}

func BenchmarkNext(b *testing.B) {
	for name, spec := range shapes(10_000) {
		b.Run(name, func(b *testing.B) {
			o, states := mustNew(b, spec), make([]State, len(spec.Targets))
			for b.Loop() {
				o.Next(WakeUp, states, Policy{})
			}
		})
	}
}
