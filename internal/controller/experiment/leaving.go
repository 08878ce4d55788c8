package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/conditions"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// Leaving is a target whose own time is over: it is taken down, and its Experiment stays.
type Leaving struct {
	// Target by name.
	Target string
	// Begun says that the status tells that it goes.
	Begun bool
	// Gone says that nothing is left of it to take down.
	Gone bool
	// Message says what is waited for, or what keeps it, and of one that is gone what was left behind.
	Message string
}

const ownTimeOver = "Its own time to live is over"

// finished is what there is to do after the verdict. That a target goes is recorded before anything of it
// is deleted, so that one who has just given it more time is heard.
func (f facts) finished() Plan {
	var p Plan
	targets, next := leaving(f.experiment, f.now)
	for _, name := range targets {
		l := Leaving{Target: name, Begun: targetStateOf(f.experiment, name) == v1alpha1.TargetDeleting}
		if !l.Begun {
			p.Wait, l.Message = kube.AtOnce, ownTimeOver
		}
		p.Leaving = append(p.Leaving, l)
	}
	if !next.IsZero() {
		p.dueIn(next.Sub(f.now))
	}
	return p
}

// groups divide what goes: one waits for another only if it depends on it.
func groups(e *v1alpha1.Experiment, leaving []*Leaving) (out [][]*Leaving) {
	depends := func(a, b string) bool {
		return slices.ContainsFunc(e.Spec.Targets, func(t v1alpha1.Target) bool { return t.Name == a && slices.Contains(t.Depends, b) })
	}
	for _, l := range leaving {
		group := []*Leaving{l}
		out = slices.DeleteFunc(out, func(other []*Leaving) bool {
			connected := slices.ContainsFunc(other, func(o *Leaving) bool { return depends(l.Target, o.Target) || depends(o.Target, l.Target) })
			if connected {
				group = append(group, other...)
			}
			return connected
		})
		out = append(out, group)
	}
	return out
}

// takeTargets takes targets down, each group as the teardown of an Experiment that has no others would.
func (s *scope) takeTargets(ctx context.Context) error {
	if st := &s.experiment.Status; st.StartedAt == nil { // somebody has taken the record away
		st.StartedAt, st.Namespaces = timestamp(s.now), ptr.To(s.names.namespaces())
	}
	var begun []*Leaving
	for i := range s.plan.Leaving {
		if s.plan.Leaving[i].Begun {
			begun = append(begun, &s.plan.Leaving[i])
		}
	}
	var errs []error
	blind := false
	s.plan.Teardown = &v1alpha1.TeardownStatus{}
	all, order := groups(s.experiment, begun), s.refusals.longestAgo(s.experiment)
	slices.SortStableFunc(all, func(a, b []*Leaving) int { return order(turnOf(a), turnOf(b)) })
	for _, group := range all {
		part, err := s.takeGroup(ctx, group)
		s.plan.lookIn(part.plan.Wait)
		s.plan.Saved = append(s.plan.Saved, part.plan.Saved...)
		switch {
		case part.plan.Teardown != nil:
			s.plan.Teardown.WaitsFor = append(s.plan.Teardown.WaitsFor, part.plan.Teardown.WaitsFor...)
			s.plan.Teardown.Abandoned = append(s.plan.Teardown.Abandoned, part.plan.Teardown.Abandoned...)
		case err != nil: // it was not looked at
			s.plan.Teardown.WaitsFor = append(s.plan.Teardown.WaitsFor, part.names.waitedFor(argocd.ApplicationGVK)...)
		default: // nor may it be, by this manager
			blind = true
		}
		tellGroup(group, part, err)
		if err == nil {
			s.plan.Orphans = append(s.plan.Orphans, part.plan.Orphans...)
		}
		errs = append(errs, err)
	}
	if recorded := s.experiment.Status.Teardown; blind && recorded != nil {
		for _, w := range recorded.WaitsFor {
			if !slices.ContainsFunc(s.plan.Teardown.WaitsFor, func(have v1alpha1.Waiting) bool { return have.Object == w.Object }) {
				s.plan.Teardown.WaitsFor = append(s.plan.Teardown.WaitsFor, w)
			}
		}
	}
	return errors.Join(errs...)
}

// tellGroup has each target of a group say what a pass over them has come to.
func tellGroup(group []*Leaving, part *scope, err error) {
	for _, l := range group {
		switch l.Gone = err == nil && part.plan.Done; {
		case l.Gone:
			l.Message = part.goneMessage(l.Target)
		case err == nil:
			l.Message = conditions.Line(goingDownMessage(part.plan))
		default:
			l.Message = conditions.Line(kube.Message(err))
		}
	}
}

// turnOf is by what a group takes its turn.
func turnOf(group []*Leaving) string { return refusedTarget(group[0].Target) }

// takeGroup takes a group a step down, and returns the pass that it was.
func (s *scope) takeGroup(ctx context.Context, group []*Leaving) (*scope, error) {
	part := s.partOf(group)
	return part, s.inTurn(ctx, turnOf(group), func() error {
		if err := part.observe(ctx); err != nil {
			return err
		}
		part.plan = part.facts().teardown()
		return errors.Join(part.apply(ctx), part.seen.readErrors())
	})
}

// partOf is a pass over some targets alone: as if the Experiment had no others, no Workflow, and were
// terminated.
func (s *scope) partOf(group []*Leaving) *scope {
	e := s.experiment.DeepCopy()
	e.Spec.Terminate = true
	meta.RemoveStatusCondition(&e.Status.Conditions, v1alpha1.ConditionCleanedUp)
	// The Workflow stays wherever it is, and it does not matter whether this manager looks there.
	e.Spec.Workflow.Namespace = ""
	if n := e.Status.Namespaces; n != nil {
		n.Workflows = s.Options.WorkflowNamespace
	}
	stays := func(name string) bool {
		return !slices.ContainsFunc(group, func(l *Leaving) bool { return l.Target == name })
	}
	e.Spec.Targets = slices.DeleteFunc(e.Spec.Targets, func(t v1alpha1.Target) bool { return stays(t.Name) })
	if t := e.Status.Teardown; t != nil {
		t.Abandoned = slices.DeleteFunc(t.Abandoned, func(a v1alpha1.AbandonedApplication) bool { return stays(a.Target) })
	}
	for i := range e.Spec.Targets {
		e.Spec.Targets[i].Depends = slices.DeleteFunc(e.Spec.Targets[i].Depends, stays)
	}
	return &scope{Reconciler: s.Reconciler, experiment: e, names: names{e, s.Options}, now: s.now, failed: map[string]error{}, part: true}
}

// withLeaving are the targets as the status tells of them while some go.
func withLeaving(recorded []v1alpha1.TargetStatus, leaving []Leaving, now time.Time) []v1alpha1.TargetStatus {
	out := slices.Clone(recorded)
	for _, l := range leaving {
		at := slices.IndexFunc(out, func(t v1alpha1.TargetStatus) bool { return t.Name == l.Target })
		if at < 0 {
			at, out = len(out), append(out, v1alpha1.TargetStatus{Name: l.Target})
		}
		switch t := &out[at]; {
		case l.Gone:
			out[at] = gone(*t, l.Message, now)
		case t.State != v1alpha1.TargetDeleting:
			t.State, t.Since, t.Message = v1alpha1.TargetDeleting, timestamp(now), l.Message
		case l.Begun:
			t.Message = l.Message
		}
	}
	return out
}

// gone is the record of a target that was taken down.
func gone(t v1alpha1.TargetStatus, message string, now time.Time) v1alpha1.TargetStatus {
	t.State, t.Since, t.Message, t.BlockedBy, t.Components = v1alpha1.TargetDeleted, timestamp(now), message, nil, nil
	return t
}

// goneMessage says of a target that was taken down what was left of it: the object that stands for its cluster, where somebody keeps that,
// and what Applications deployed that went without it, which may cost.
func (s *scope) goneMessage(target string) string {
	var left []string
	if kept := s.seen.Kept[target]; kept != nil {
		left = append(left, fmt.Sprintf("%s and what belongs to that: %v", kube.Describe(kept), errKept))
	}
	for _, a := range s.facts().recordedAbandoned() {
		if a.Target == target {
			left = append(left, whatDeployed(a).String())
		}
	}
	message := ownTimeOver + ", and everything of it is gone"
	if len(left) > 0 {
		message += " but " + strings.Join(left, ", ")
	}
	return conditions.Line(message)
}

// unrecorded is what is known of the end of an Experiment and its status does not keep.
type unrecorded struct {
	teardown    *v1alpha1.TeardownStatus
	completedAt *metav1.Time
	// leaving are the targets that go, or have gone.
	leaving map[string]v1alpha1.TargetState
}

func unrecordedOf(e *v1alpha1.Experiment) *unrecorded {
	u := &unrecorded{e.Status.Teardown.DeepCopy(), e.Status.CompletedAt.DeepCopy(), map[string]v1alpha1.TargetState{}}
	for _, t := range e.Status.Targets {
		if t.State == v1alpha1.TargetDeleting || t.State == v1alpha1.TargetDeleted {
			u.leaving[t.Name] = t.State
		}
	}
	return u
}

// recall has an Experiment end that cannot tell of it.
func (u *unrecorded) recall(e *v1alpha1.Experiment) {
	st := &e.Status
	if e.Spec.Terminate && st.CompletedAt == nil {
		st.CompletedAt = u.completedAt.DeepCopy()
	}
	if st.CompletedAt != nil {
		for i, t := range st.Targets {
			st.Targets[i].State = cmp.Or(u.leaving[t.Name], t.State)
		}
	}
	if u.teardown != nil && (goingDown(e) || st.CompletedAt != nil) {
		st.Teardown = u.teardown.DeepCopy()
	}
}
