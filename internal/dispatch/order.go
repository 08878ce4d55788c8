package dispatch

import (
	"cmp"
	"slices"
	"time"

	"github.com/labkeeper/labkeeper/internal/dag"
)

// Type of an order.
type Type string

// Types.
const (
	Sequential Type = "Sequential"
	Parallel   Type = "Parallel"
	DAG        Type = "DAG"
	Staged     Type = "Staged"
)

// Spec is an order as it is written.
type Spec struct {
	// Targets by their names.
	Targets []string
	Type    Type
	// MaxConcurrency is how many run at the same time, of all; 0 is any number. It is nothing for Sequential.
	MaxConcurrency int
	// Dependencies of a DAG.
	Dependencies []Dependency
	// Stages of Staged.
	Stages []Stage
}

// Dependency is an edge of a DAG: From stops first, and wakes last.
type Dependency struct{ From, To string }

// Stage is a part of the targets. Each target is in one.
type Stage struct {
	Name string
	// Parallel lets them run at the same time, at most MaxConcurrency of them; 0 is any number.
	Parallel       bool
	MaxConcurrency int
	Targets        []string
}

// Operation is a direction.
type Operation int

// Operations.
const (
	Shutdown Operation = iota
	WakeUp
)

// State of a target in an operation.
type State uint8

// States.
const (
	// Pending has not started.
	Pending State = iota
	// Running has started and not ended.
	Running
	// Completed is done, or has nothing to be done.
	Completed
	// Failed has ended, and is not what it should be.
	Failed
	// Waiting has failed and is tried again, not yet: what comes after it waits, and others may have its place.
	Waiting
	// Again has failed and may start again. What is as urgent and has not been tried goes first: another try may take as long.
	Again
)

// Policy says what a failure does.
type Policy struct {
	// FailFast stops nothing more after a failure.
	FailFast bool
	// BestEffort goes on with what the order alone puts later, and FailFast says nothing then.
	BestEffort bool
}

// Step is what to do now. Targets are their positions in the spec.
type Step struct {
	// Start are those to start now, the most urgent first.
	Start []int
	// Blocked are those that do not start unless what has failed is tried again, by position.
	Blocked []int
	// Done says that nothing runs, nothing waits to be tried again, and nothing is to start.
	Done bool
}

// Order is what a [Spec] says. It never changes, but by [Order.Weigh].
type Order struct {
	spec Spec
	// graphs are of the targets by position, then what is between stages, by operation.
	graphs [2]*dag.Graph[int]
	// ahead is the length of the longest path from each node to an end, itself included.
	ahead [2][]time.Duration
	// groups of targets by position: their stage; limits of each, 0 for none.
	groups []int
	limits []int
}

// New reads a spec. The error joins an *InvalidError for each mistake.
func New(spec Spec) (*Order, error) {
	b := &builder{spec: spec, position: make(map[string]int, len(spec.Targets))}
	b.read()
	if err := b.problems(); err != nil {
		return nil, err
	}
	nodes := make([]int, len(b.after))
	for i := range nodes {
		nodes[i] = i
	}
	graph, err := dag.New(nodes, func(i int) []int { return b.after[i] })
	if err != nil {
		return nil, b.cycle(err)
	}
	o := &Order{spec: spec, graphs: [2]*dag.Graph[int]{graph, graph.Reverse()}, groups: b.groups, limits: b.limits}
	for _, operation := range []Operation{Shutdown, WakeUp} {
		o.Weigh(operation, nil)
	}
	return o, nil
}

// Weigh says how long each target takes in an operation, by position, as far as it is known: 0 stands for the mean of
// the others.
func (o *Order) Weigh(operation Operation, took []time.Duration) {
	var sum, known time.Duration
	for _, d := range took {
		if d > 0 {
			sum, known = sum+d, known+1
		}
	}
	mean := time.Duration(1)
	if known > 0 {
		mean = max(1, sum/known)
	}
	ahead := make([]time.Duration, o.graphs[operation].Len())
	for i, later := range o.graphs[1-operation].All() { // from the end: what comes later is known
		var longest time.Duration
		for l := range later {
			longest = max(longest, ahead[l])
		}
		switch {
		case i >= len(o.spec.Targets):
		case i < len(took) && took[i] > 0:
			longest += took[i]
		default:
			longest += mean
		}
		ahead[i] = longest
	}
	o.ahead[operation] = ahead
}

// Next says what to do about targets in some states, by position.
func (o *Order) Next(operation Operation, states []State, policy Policy) Step {
	ready, blocked := o.look(operation, states, policy)
	var step Step
	running, busy := 0, make([]int, len(o.limits))
	for i, s := range states {
		if s == Running {
			running++
			busy[o.groups[i]]++
		}
	}
	slices.SortFunc(ready, func(a, b int) int {
		tie := cmp.Compare(a, b)
		if operation == WakeUp {
			tie = -tie
		}
		return cmp.Or(cmp.Compare(o.ahead[operation][b], o.ahead[operation][a]), cmp.Compare(states[a], states[b]), tie)
	})
	for _, i := range ready {
		if o.spec.MaxConcurrency > 0 && running >= o.spec.MaxConcurrency {
			break
		}
		if group := o.groups[i]; o.limits[group] == 0 || busy[group] < o.limits[group] {
			step.Start = append(step.Start, i)
			busy[group]++
			running++
		}
	}
	slices.Sort(blocked)
	step.Blocked, step.Done = blocked, running == 0 && !slices.Contains(states, Waiting)
	return step
}

// look finds what may start, as far as the order goes, and what may not any more.
func (o *Order) look(operation Operation, states []State, policy Policy) (ready, blocked []int) {
	lenient := policy.BestEffort && o.spec.Type != DAG
	stopped := policy.FailFast && !policy.BestEffort && operation == Shutdown && slices.Contains(states, Failed)
	is := make([]standing, o.graphs[operation].Len())
	for i, before := range o.graphs[operation].All() {
		is[i] = free
		for b := range before {
			is[i] = max(is[i], is[b].holds())
		}
		if i >= len(states) { // between two stages
			continue
		}
		is[i] = is[i].of(states[i], lenient, stopped)
		switch {
		case is[i] == startable:
			ready = append(ready, i)
		case is[i] == barred && (states[i] == Pending || states[i] == Again):
			blocked = append(blocked, i)
		}
	}
	return ready, blocked
}

// standing is how far a node is, and what it means for those after it, from the best to the worst.
type standing int

const (
	// free is done, and so is all that comes before it.
	free standing = iota
	// startable and waiting are not done.
	startable
	waiting
	// broken has failed, and barred cannot start because another has.
	broken
	barred
)

// holds is what a node that comes after one can be at best.
func (s standing) holds() standing {
	switch s {
	case free:
		return free
	case broken, barred:
		return barred
	}
	return waiting
}

// of is the standing of a target in a state, of which those before it make what s says. One that is done does not let
// those after it pass what comes before it.
func (s standing) of(state State, lenient, stopped bool) standing {
	switch {
	case state == Completed, state == Failed && lenient:
		return s
	case state == Failed:
		return broken
	case state == Running, state == Waiting:
		return max(s, waiting)
	case stopped:
		return barred
	case s == free:
		return startable
	}
	return s
}
