package experiment

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/conditions"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// Leaving are targets whose own time is over: they are taken down, and their Experiment stays.
type Leaving struct {
	// Targets by name, in the order of the spec.
	Targets []string
	// Begun says that the status tells of all of them that they go.
	Begun bool
	// Gone says that nothing is left of them.
	Gone bool
	// Message says what is waited for.
	Message string
}

// finished is what there is to do after the verdict. That a target goes is recorded before anything of it
// is deleted, so that one who has just given it more time is heard.
func (f facts) finished() Plan {
	var p Plan
	targets, next := leaving(f.experiment, f.now)
	if len(targets) > 0 {
		p.Leaving = &Leaving{Targets: targets, Begun: !slices.ContainsFunc(targets, func(name string) bool {
			recorded := recordedTarget(f.experiment.Status.Targets, name)
			return recorded == nil || recorded.State != v1alpha1.TargetDeleting
		})}
		if !p.Leaving.Begun {
			p.Wait = kube.AtOnce
		}
	}
	if !next.IsZero() {
		p.lookIn(next.Sub(f.now))
	}
	return p
}

// takeTargets takes targets down as the teardown of an Experiment that has no others would.
func (s *scope) takeTargets(ctx context.Context, l *Leaving) error {
	e := s.experiment.DeepCopy()
	e.Spec.Terminate = true
	meta.RemoveStatusCondition(&e.Status.Conditions, v1alpha1.ConditionCleanedUp)
	stays := func(name string) bool { return !slices.Contains(l.Targets, name) }
	e.Spec.Targets = slices.DeleteFunc(e.Spec.Targets, func(t v1alpha1.Target) bool { return stays(t.Name) })
	for i := range e.Spec.Targets {
		e.Spec.Targets[i].Depends = slices.DeleteFunc(e.Spec.Targets[i].Depends, stays)
	}
	part := &scope{Reconciler: s.Reconciler, experiment: e, names: names{e, s.Options}, now: s.now, failed: s.failed, part: true}
	err := part.observe(ctx)
	if err == nil {
		part.plan = part.facts().teardown()
		err = errors.Join(part.apply(ctx), part.seen.readErrors())
	}
	s.plan.Teardown = part.plan.Teardown
	s.plan.lookIn(part.plan.Wait)
	if l.Gone = err == nil && part.plan.Done; l.Gone {
		s.refusals.forget(e)
	}
	l.Message = goingDownMessage(part.plan)
	return err
}

// statuses are the targets as the status tells of them while some go.
func (l *Leaving) statuses(recorded []v1alpha1.TargetStatus, err error, now time.Time) []v1alpha1.TargetStatus {
	out := slices.Clone(recorded)
	for _, name := range l.Targets {
		at := slices.IndexFunc(out, func(t v1alpha1.TargetStatus) bool { return t.Name == name })
		if at < 0 {
			at, out = len(out), append(out, v1alpha1.TargetStatus{Name: name})
		}
		t, state := &out[at], v1alpha1.TargetDeleting
		switch {
		case err != nil:
			t.Message = conditions.Line(message(err))
		case l.Gone:
			state, t.Message = v1alpha1.TargetDeleted, "Its own time to live is over, and everything of it is gone"
		case l.Begun:
			t.Message = conditions.Line(l.Message)
		default:
			t.Message = "Its own time to live is over"
		}
		if t.State != state {
			t.State, t.Since = state, timestamp(now)
		}
	}
	return out
}
