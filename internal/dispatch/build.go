package dispatch

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/labkeeper/labkeeper/internal/dag"
)

// InvalidError is a mistake in a spec.
type InvalidError struct {
	// Path of the field, such as spec.targets[3].name.
	Path string
	// Problem and what to do.
	Problem string
}

// Error is the path and the problem.
func (e *InvalidError) Error() string { return e.Path + ": " + e.Problem }

// builder reads a spec.
type builder struct {
	spec     Spec
	position map[string]int
	// after are the nodes that each node stops after: targets by position, then what is between stages.
	after  [][]int
	groups []int
	limits []int
	errs   []error
}

func (b *builder) refuse(path, format string, args ...any) {
	b.errs = append(b.errs, &InvalidError{Path: path, Problem: fmt.Sprintf(format, args...)})
}

func (b *builder) problems() error { return errors.Join(b.errs...) }

const strategy = "spec.execution.strategy"

func (b *builder) read() {
	for i, name := range b.spec.Targets {
		if first, again := b.position[name]; again {
			b.refuse(fmt.Sprintf("spec.targets[%d].name", i), "%q is that of targets[%d], too; rename one of the two", name, first)
			continue
		}
		b.position[name] = i
	}
	b.after = make([][]int, len(b.spec.Targets))
	b.groups, b.limits = make([]int, len(b.spec.Targets)), []int{0}
	if b.spec.MaxConcurrency < 0 {
		b.refuse(strategy+".maxConcurrency", "it must be 1 or more; leave it out for any number")
	}
	if len(b.spec.Dependencies) > 0 && b.spec.Type != DAG {
		b.refuse(strategy+".dependencies", "they are for type DAG, and this is %s; remove them, or change the type", b.spec.Type)
	}
	if len(b.spec.Stages) > 0 && b.spec.Type != Staged {
		b.refuse(strategy+".stages", "they are for type Staged, and this is %s; remove them, or change the type", b.spec.Type)
	}
	switch b.spec.Type {
	case Sequential:
		b.limits = []int{1}
		all := make([]int, len(b.spec.Targets))
		for i := range all {
			all[i] = i
		}
		b.chain(all)
	case Parallel:
	case DAG:
		b.dependencies()
	case Staged:
		b.stages()
	default:
		b.refuse(strategy+".type", "%q is none of Sequential, Parallel, DAG and Staged", b.spec.Type)
	}
}

// chain has targets stop one after the other.
func (b *builder) chain(targets []int) {
	for i := 1; i < len(targets); i++ {
		b.after[targets[i]] = append(b.after[targets[i]], targets[i-1])
	}
}

func (b *builder) dependencies() {
	path := func(i int, field string) string { return fmt.Sprintf("%s.dependencies[%d]%s", strategy, i, field) }
	edges, count := make([][2]int, 0, len(b.spec.Dependencies)), make([]int, len(b.spec.Targets))
	for i, d := range b.spec.Dependencies {
		from, hasFrom := b.position[d.From]
		to, hasTo := b.position[d.To]
		if !hasFrom {
			b.refuse(path(i, ".from"), noTarget, d.From)
		}
		if !hasTo {
			b.refuse(path(i, ".to"), noTarget, d.To)
		}
		switch {
		case !hasFrom || !hasTo:
		case from == to:
			b.refuse(path(i, ""), "%s cannot come before itself; remove it", d.From)
		default:
			edges = append(edges, [2]int{from, to})
			count[to]++
		}
	}
	all := make([]int, len(edges)) // one piece of memory instead of one for each target
	for i, n := range count {
		b.after[i], all = all[:0:n], all[n:]
	}
	for _, e := range edges {
		b.after[e[1]] = append(b.after[e[1]], e[0])
	}
}

const noTarget = "there is no target %q"

func (b *builder) stages() {
	named := map[string]int{}
	b.limits = nil
	for i := range b.groups {
		b.groups[i] = -1
	}
	between := -1 // the node that waits for the stage before
	for s, stage := range b.spec.Stages {
		path := fmt.Sprintf("%s.stages[%d]", strategy, s)
		if first, again := named[stage.Name]; again {
			b.refuse(path+".name", "%q is that of stages[%d], too; rename one of the two", stage.Name, first)
		} else {
			named[stage.Name] = s
		}
		b.limits = append(b.limits, b.limit(path, stage))
		between = b.stage(stage, b.members(s, path, stage), between)
	}
	for i, name := range b.spec.Targets {
		if b.groups[i] < 0 && b.position[name] == i {
			b.refuse(fmt.Sprintf("spec.targets[%d]", i), "%s is in no stage; add it to one of %s.stages", name, strategy)
		}
	}
}

// members are the targets of a stage by position.
func (b *builder) members(s int, path string, stage Stage) []int {
	members := make([]int, 0, len(stage.Targets))
	for t, name := range stage.Targets {
		i, ok := b.position[name]
		switch {
		case !ok:
			b.refuse(fmt.Sprintf("%s.targets[%d]", path, t), noTarget, name)
		case b.groups[i] >= 0:
			b.refuse(fmt.Sprintf("%s.targets[%d]", path, t), "%s is in stages[%d] already; a target is in one stage", name, b.groups[i])
		default:
			b.groups[i] = s
			members = append(members, i)
		}
	}
	return members
}

// limit is how many targets of a stage run at the same time; 0 is any number.
func (b *builder) limit(path string, stage Stage) int {
	switch {
	case len(stage.Targets) == 0:
		b.refuse(path+".targets", "there is none; remove the stage")
	case stage.MaxConcurrency < 0:
		b.refuse(path+".maxConcurrency", "it must be 1 or more; leave it out for any number")
	case stage.MaxConcurrency > 1 && !stage.Parallel:
		b.refuse(path+".maxConcurrency", "the targets of a stage that is not parallel run one after the other; set parallel, or remove it")
	}
	if !stage.Parallel {
		return 1
	}
	return stage.MaxConcurrency
}

// stage puts targets after the node that waits for the stage before, and returns the one that waits for them.
func (b *builder) stage(stage Stage, members []int, before int) (after int) {
	if !stage.Parallel {
		b.chain(members)
	}
	if before >= 0 {
		for _, i := range members {
			b.after[i] = append(b.after[i], before)
		}
	}
	b.after = append(b.after, members)
	return len(b.after) - 1
}

// cycle names the targets of a cycle.
func (b *builder) cycle(err error) error {
	var cycle *dag.CycleError[int]
	if !errors.As(err, &cycle) {
		return err
	}
	names := make([]string, 0, len(cycle.Cycle)+1)
	for _, i := range slices.Backward(cycle.Cycle) { // from what stops first
		names = append(names, b.spec.Targets[i])
	}
	const shown = 20
	names = append(names, names[0])
	if more := len(names) - shown; more > 0 {
		names = append(names[:shown], fmt.Sprintf("(%d more)", more))
	}
	return &InvalidError{Path: strategy + ".dependencies", Problem: "each of these would stop before the next: " + strings.Join(names, " -> ") + "; remove one of the dependencies"}
}
