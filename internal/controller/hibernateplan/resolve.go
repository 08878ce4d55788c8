package hibernateplan

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/dispatch"
	"github.com/labkeeper/labkeeper/internal/executor"
)

// resolved is the part of a plan that a cycle keeps as it was when it began: the content of its ControllerRevision. How
// pods are made is not: that can be put right while targets sleep.
type resolved struct {
	Targets   []v1alpha1.Target  `json:"targets"`
	Execution v1alpha1.Execution `json:"execution"`
	Behavior  v1alpha1.Behavior  `json:"behavior"`
	// Schedule counts where that of the spec cannot be read.
	Schedule v1alpha1.Schedule `json:"schedule"`
}

// resolve is what a cycle of a spec begins with.
func resolve(spec v1alpha1.HibernatePlanSpec) resolved {
	return resolved{Targets: spec.Targets, Execution: spec.Execution, Behavior: spec.Behavior, Schedule: spec.Schedule}
}

// current is what a plan comes to: its spec, and once it is being deleted what a plan of its name has left asleep, whatever
// the spec is worth, and what else it has, which never slept.
func current(plan *v1alpha1.HibernatePlan, left map[string]v1alpha1.Target) resolved {
	if plan.DeletionTimestamp == nil || plan.Status.CurrentCycle != nil || len(left) == 0 {
		return resolve(plan.Spec)
	}
	r := resolved{Schedule: plan.Spec.Schedule}
	r.Execution.Strategy.Type = v1alpha1.StrategyParallel
	return adopt(r, left)
}

// fits says whether there is room for what a cycle keeps. The error is a *dispatch.InvalidError.
func (r resolved) fits() error {
	content, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("writing the plan: %w", err)
	}
	if len(content) > maxPlan {
		return &dispatch.InvalidError{Path: "spec", Problem: fmt.Sprintf("targets, execution, behavior and schedule have %d bytes together, and at most %d fit; make several plans", len(content), maxPlan)}
	}
	return nil
}

// program is a plan that can be carried out. It never changes.
type program struct {
	resolved
	order      *dispatch.Order
	parameters []executor.Parameters
	positions  map[string]int
}

// compile reads a plan. The error joins a *dispatch.InvalidError for each mistake, in the order of the spec.
func compile(r resolved, registry executor.Registry) (*program, error) {
	return r.program(registry, registry.Accept)
}

// recompile reads a plan by which something may sleep already: a mistake that nobody has told of when it began keeps nothing from waking.
func recompile(r resolved, registry executor.Registry) (*program, error) {
	return r.program(registry, registry.Parse)
}

func (r resolved) program(registry executor.Registry, read func(string, json.RawMessage) (executor.Parameters, error)) (*program, error) {
	var problems []error
	p := &program{resolved: r, positions: make(map[string]int, len(r.Targets)), parameters: make([]executor.Parameters, len(r.Targets))}
	for i, t := range r.Targets {
		p.positions[t.Name] = i
		parameters, err := read(t.Type, raw(t))
		if err != nil {
			problems = append(problems, mistake(i, t, registry[t.Type] != nil, err))
		}
		p.parameters[i] = parameters
	}
	order, err := dispatch.New(r.order())
	p.order = order
	if problems = append(problems, err); errors.Join(problems...) != nil {
		return nil, errors.Join(problems...)
	}
	return p, nil
}

// mistake is what is wrong with the type of a target, where that is not known, or with its parameters.
func mistake(position int, t v1alpha1.Target, known bool, err error) error {
	field := "parameters"
	if !known {
		field = "type"
	}
	path := fmt.Sprintf("spec.targets[%d](%s).%s", position, t.Name, field)
	var invalid *executor.InvalidError
	if !errors.As(err, &invalid) {
		return &dispatch.InvalidError{Path: path, Problem: err.Error()}
	}
	if invalid.Path != "" {
		path += "." + invalid.Path
	}
	return &dispatch.InvalidError{Path: path, Problem: invalid.Problem}
}

// raw are the parameters of a target; none is an empty object.
func raw(t v1alpha1.Target) json.RawMessage {
	if t.Parameters == nil || len(t.Parameters.Raw) == 0 {
		return json.RawMessage("{}")
	}
	return t.Parameters.Raw
}

func (r resolved) order() dispatch.Spec {
	s := r.Execution.Strategy
	out := dispatch.Spec{Type: dispatch.Type(s.Type), MaxConcurrency: number(s.MaxConcurrency)}
	for _, t := range r.Targets {
		out.Targets = append(out.Targets, t.Name)
	}
	for _, d := range s.Dependencies {
		out.Dependencies = append(out.Dependencies, dispatch.Dependency{From: d.From, To: d.To})
	}
	for _, stage := range s.Stages {
		out.Stages = append(out.Stages, dispatch.Stage{
			Name: stage.Name, Parallel: stage.Parallel, MaxConcurrency: number(stage.MaxConcurrency), Targets: stage.Targets,
		})
	}
	return out
}

// atOnce is how many targets may be acted on at the same time; 0 is any number.
func (r resolved) atOnce() int {
	if r.Execution.Strategy.Type == v1alpha1.StrategySequential {
		return 1
	}
	return number(r.Execution.Strategy.MaxConcurrency)
}

func number(n *int32) int {
	if n == nil {
		return 0
	}
	return int(*n)
}

// defaultRetries is how often a target is tried again where a plan does not say it.
const defaultRetries = 3

func (r resolved) retries() int32 {
	if r.Behavior.Retries == nil {
		return defaultRetries
	}
	return *r.Behavior.Retries
}

func (r resolved) policy() dispatch.Policy {
	return dispatch.Policy{
		FailFast:   r.Behavior.FailFast == nil || *r.Behavior.FailFast,
		BestEffort: r.Behavior.Mode == v1alpha1.BehaviorBestEffort,
	}
}
