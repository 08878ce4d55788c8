package experiment

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/argoworkflows"
	"github.com/labkeeper/labkeeper/internal/external/capi"
	"github.com/labkeeper/labkeeper/internal/external/crossplane"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// spec.terminate takes everything down in every phase, and keeps the record.
func TestTerminate(t *testing.T) {
	for phase, want := range map[v1alpha1.Phase]struct {
		phase  v1alpha1.Phase
		reason string
	}{
		v1alpha1.PhasePending:      {v1alpha1.PhaseFailed, v1alpha1.ReasonTerminated},
		v1alpha1.PhaseProvisioning: {v1alpha1.PhaseFailed, v1alpha1.ReasonTerminated},
		v1alpha1.PhaseReady:        {v1alpha1.PhaseFailed, v1alpha1.ReasonTerminated},
		v1alpha1.PhaseRunning:      {v1alpha1.PhaseFailed, v1alpha1.ReasonTerminated},
		v1alpha1.PhaseComplete:     {v1alpha1.PhaseComplete, v1alpha1.ReasonComplete},
	} {
		t.Run(string(phase), func(t *testing.T) {
			l := tutorial(t)
			if phase == v1alpha1.PhasePending {
				l.get() // nothing has looked at it
			} else {
				l.until(phase)
			}
			l.drain()
			l.edit(func(e *v1alpha1.Experiment) { e.Spec.Terminate, e.Spec.Suspend = true, true })
			l.settle(l.without(crossplane.GKEClusterGVK))
			if len(l.list(crossplane.GKEClusterGVK)) > 0 {
				l.expect(v1alpha1.ConditionCleanedUp, metav1.ConditionFalse, v1alpha1.ReasonDeleting)
			}
			l.later(2 * time.Hour) // no deadline releases what stays
			l.settle(l.play)
			l.expect(v1alpha1.ConditionCleanedUp, metav1.ConditionTrue, v1alpha1.ReasonCleanedUp)
			for _, gvk := range []schema.GroupVersionKind{crossplane.GKEClusterGVK, argocd.ApplicationGVK, argocd.SecretGVK, argoworkflows.WorkflowGVK} {
				if left := l.list(gvk); len(left) > 0 {
					t.Errorf("%d %s left", len(left), gvk.Kind)
				}
			}
			e := l.get()
			if e == nil || e.Status.Phase != want.phase || e.Status.CompletedAt == nil {
				t.Fatalf("its record is %+v", e)
			}
			status := metav1.ConditionFalse
			if want.phase == v1alpha1.PhaseComplete {
				status = metav1.ConditionTrue
			}
			l.expect(v1alpha1.ConditionReady, status, want.reason)
			writes := len(l.writes)
			l.tick()
			if len(l.writes) != writes {
				t.Errorf("it goes on: %v", l.writes[writes:])
			}
			if wait := l.pass(); wait != 21*time.Hour {
				t.Errorf("it is looked at after %s, an hour before its end", wait)
			}
			l.remove()
			l.settle(l.play)
			if l.get() != nil {
				t.Errorf("it cannot be deleted: %s", l.message(v1alpha1.ConditionReady))
			}
		})
	}
}

// What takes too long fails, with the reason, and without anything being submitted.
func TestNote28And51ProgressDeadlines(t *testing.T) {
	duration := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	for name, test := range map[string]struct {
		deadline *v1alpha1.ProgressDeadline
		phase    v1alpha1.Phase
		wait     time.Duration
		says     string
	}{
		"clusters":              {&v1alpha1.ProgressDeadline{Clusters: duration(20 * time.Minute)}, v1alpha1.PhaseProvisioning, 20 * time.Minute, "spec.progressDeadline.clusters"},
		"clusters, by default":  {nil, v1alpha1.PhaseProvisioning, time.Hour, "its cluster has taken longer than 1h0m0s"},
		"applications":          {&v1alpha1.ProgressDeadline{Applications: duration(5 * time.Minute)}, v1alpha1.PhaseReady, 5 * time.Minute, "spec.progressDeadline.applications"},
		"applications, not set": {&v1alpha1.ProgressDeadline{Clusters: duration(5 * time.Minute)}, v1alpha1.PhaseReady, 23 * time.Hour, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := experimentOf(targetOf("app", v1alpha1.ClusterGKE))
			e.Spec.ProgressDeadline = test.deadline
			l := newLab(t, e, nginx(), template())
			l.until(test.phase)
			if wait := l.pass(); wait != test.wait {
				t.Errorf("it is looked at after %s", wait)
			}
			l.clock.SetTime(epoch.Add(test.wait - time.Second))
			if wait := l.pass(); wait != time.Second {
				t.Errorf("a second before, it is looked at after %s", wait)
			}
			l.clock.SetTime(epoch.Add(test.wait))
			l.edit(func(e *v1alpha1.Experiment) { e.Spec.Suspend = true })
			l.tick()
			if l.get().Status.Phase != test.phase {
				t.Error("it fails while it is suspended")
			}
			l.edit(func(e *v1alpha1.Experiment) { e.Spec.Suspend = false })
			l.tick()
			if l.get().Status.Phase != test.phase {
				t.Error("it fails when it goes on, before it could have done anything")
			}
			if test.says == "" {
				return
			}
			l.clock.SetTime(epoch.Add(2 * test.wait))
			l.tick()
			l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonProgressDeadlineExceeded)
			if m := l.message(v1alpha1.ConditionReady); l.get().Status.Phase != v1alpha1.PhaseFailed || !strings.Contains(m, test.says) {
				t.Errorf("it is %s and says %q", l.get().Status.Phase, m)
			}
			if len(l.list(argoworkflows.WorkflowGVK)) > 0 || len(l.list(crossplane.GKEClusterGVK)) != 1 {
				t.Error("what is there has changed")
			}
		})
	}
}

// So does one on a cluster that is there already, and that nobody gives the kubeconfig of.
func TestNote28And51ProgressDeadlineWithoutAKubeconfig(t *testing.T) {
	l := newLab(t, onExisting()...)
	l.settle(l.play)
	l.later(defaultClustersDeadline - time.Second)
	l.mustReconcile()
	l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonKubeconfigMissing)
	l.later(defaultClustersDeadline)
	l.mustReconcile()
	l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonProgressDeadlineExceeded)
	if m := l.message(v1alpha1.ConditionReady); l.get().Status.Phase != v1alpha1.PhaseFailed || !strings.Contains(m, "spec.progressDeadline.clusters") || !strings.Contains(m, "staging") {
		t.Errorf("it is %s and says %q", l.get().Status.Phase, m)
	}
}

// So does one that had not begun, or that was up, and of which what the spec asks for is refused.
func TestProgressDeadlineOfWhatIsRefused(t *testing.T) {
	other := nginx()
	other.Name, other.Spec.Sources[0].TargetRevision = "other", "2.0.0"
	otherComponent := func(l *lab) {
		l.edit(func(e *v1alpha1.Experiment) { e.Spec.Targets[1].Components[0].App = "other" })
	}
	running := func(l *lab) { l.settle(l.validating) }
	for name, test := range map[string]struct {
		begin        func(*lab)
		verb, kind   string
		edit         func(*lab)
		state        v1alpha1.TargetState
		after        time.Duration
		says, phrase string
	}{
		"a cluster that nobody may make": {
			func(*lab) {}, "create", "GKECluster", func(*lab) {}, v1alpha1.TargetProvisioning, time.Hour, "spec.progressDeadline.clusters", "Creating GKECluster",
		},
		"an Application that nobody may change": {
			running, "apply", "object", otherComponent, v1alpha1.TargetDeploying, 10 * time.Minute, "spec.progressDeadline.applications", "Applying Application",
		},
		"an Application that somebody has deleted": {
			running, "create", "Application", func(l *lab) {
				otherComponent(l)
				for _, app := range l.list(argocd.ApplicationGVK) {
					if app.GetLabels()[v1alpha1.LabelTarget] == "app" {
						l.deleteObject(&app)
					}
				}
			}, v1alpha1.TargetDeploying, 10 * time.Minute, "spec.progressDeadline.applications", "Creating Application",
		},
		"a cluster that somebody has deleted": {
			running, "create", "GKECluster", func(l *lab) {
				otherComponent(l)
				l.spoil(crossplane.GKEClusterGVK, func(claim *unstructured.Unstructured) { claim.SetFinalizers(nil) })
				l.delete(crossplane.GKEClusterGVK)
			}, v1alpha1.TargetProvisioning, time.Hour, "spec.progressDeadline.clusters", "Creating GKECluster",
		},
		"a cluster that nobody may change": {
			running, "apply", "object", func(l *lab) {
				l.edit(func(e *v1alpha1.Experiment) { e.Spec.Targets[1].Cluster.NodeCount = ptr.To[int32](3) })
			}, v1alpha1.TargetHealthy, time.Hour, "spec.progressDeadline.clusters", "Applying GKECluster",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := experimentOf(targetOf("base", v1alpha1.ClusterHub), targetOf("app", v1alpha1.ClusterGKE, "base"))
			e.Spec.ProgressDeadline = &v1alpha1.ProgressDeadline{Applications: &metav1.Duration{Duration: 10 * time.Minute}}
			l := newLab(t, e, nginx(), other, template())
			test.begin(l)
			l.forbid(test.verb, test.kind)
			l.later(2 * time.Hour)
			test.edit(l)
			l.tick(l.validating)
			at := recordedTarget(l.get().Status.Targets, "app")
			if at.State != test.state || !strings.Contains(at.Message, test.phrase) || len(at.BlockedBy) > 0 {
				t.Errorf("it is %s, blocked by %v, and says %q", at.State, at.BlockedBy, at.Message)
			}
			l.later(2*time.Hour + test.after - time.Second)
			l.tick(l.validating)
			if l.get().Status.CompletedAt != nil {
				t.Fatalf("it has ended before: %s", l.message(v1alpha1.ConditionReady))
			}
			l.later(2*time.Hour + test.after)
			l.tick(l.validating)
			l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonProgressDeadlineExceeded)
			if m := l.message(v1alpha1.ConditionReady); !strings.Contains(m, test.says) || !strings.Contains(m, test.phrase) {
				t.Errorf("it says %q", m)
			}
		})
	}
}

// What is refused of a target that is up does not end the Workflow that validates it, nor has it validated once more; a success waits for
// it, for as long as it may take from then.
func TestRefusedWhileTheWorkflowRuns(t *testing.T) {
	e := experimentOf(targetOf("app", v1alpha1.ClusterGKE))
	e.Spec.ProgressDeadline = &v1alpha1.ProgressDeadline{Applications: &metav1.Duration{Duration: 10 * time.Minute}}
	l := newLab(t, e, nginx(), template())
	l.settle(l.validating)
	first := l.get().Status.Workflow.UID
	l.forbid("apply", "object")
	l.changeApplication("elsewhere", "spec", "project")
	l.tick(l.validating)
	l.later(time.Hour)
	l.tick(l.validating)
	if st := l.get().Status; st.CompletedAt != nil || st.Workflow.UID != first || st.Targets[0].State != v1alpha1.TargetDeploying {
		t.Fatalf("it has ended at %v, the Workflow is %s after %s, and the target %s", st.CompletedAt, st.Workflow.UID, first, st.Targets[0].State)
	}
	workflow := l.list(argoworkflows.WorkflowGVK)[0]
	l.succeed(&workflow)
	l.spoil(argoworkflows.WorkflowGVK, func(w *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(w.Object, epoch.Add(time.Hour).Format(time.RFC3339), "status", "finishedAt")
	})
	l.tick(l.validating)
	l.expect(v1alpha1.ConditionWorkflowSucceeded, metav1.ConditionFalse, v1alpha1.ReasonTargetsNotSettled)
	l.later(time.Hour + 10*time.Minute - time.Second)
	l.tick(l.validating)
	if l.get().Status.CompletedAt != nil {
		t.Fatalf("it has ended before: %s", l.message(v1alpha1.ConditionReady))
	}
	l.later(time.Hour + 10*time.Minute)
	l.tick(l.validating)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonProgressDeadlineExceeded)
}

// A target that was healthy in between has all of its time again.
func TestProgressDeadlineOfATargetThatDegrades(t *testing.T) {
	e := experimentOf(targetOf("app", v1alpha1.ClusterGKE), targetOf("slow", v1alpha1.ClusterGKE))
	e.Spec.ProgressDeadline = &v1alpha1.ProgressDeadline{Applications: &metav1.Duration{Duration: 10 * time.Minute}}
	l := newLab(t, e, nginx(), template())
	l.until(v1alpha1.PhaseReady)
	app := func(name, health string) {
		for _, a := range l.list(argocd.ApplicationGVK) {
			if a.GetLabels()[v1alpha1.LabelTarget] == name {
				l.appIs(&a, health)
			}
		}
	}
	app("app", "Healthy")
	l.tick()
	l.clock.SetTime(epoch.Add(9 * time.Minute))
	app("slow", "Healthy")
	app("app", "Degraded")
	l.tick()
	l.clock.SetTime(epoch.Add(18 * time.Minute))
	l.tick()
	if phase := l.get().Status.Phase; phase != v1alpha1.PhaseReady {
		t.Errorf("it is %s: %s", phase, l.message(v1alpha1.ConditionReady))
	}
	l.clock.SetTime(epoch.Add(19 * time.Minute))
	l.tick()
	l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonProgressDeadlineExceeded)
}

// The deadline of the Workflow is for Argo Workflows to keep.
func TestNote51WorkflowDeadline(t *testing.T) {
	e := experimentOf(targetOf("app", v1alpha1.ClusterHub))
	e.Spec.ProgressDeadline = &v1alpha1.ProgressDeadline{Workflow: &metav1.Duration{Duration: 90 * time.Minute}}
	l := newLab(t, e, nginx(), template())
	l.until(v1alpha1.PhaseRunning)
	seconds, _, _ := unstructured.NestedInt64(l.list(argoworkflows.WorkflowGVK)[0].Object, "spec", "activeDeadlineSeconds")
	if seconds != 5400 {
		t.Errorf("activeDeadlineSeconds is %d", seconds)
	}
}

// A Workflow that Argo Workflows does not start, or does not end, in time fails the Experiment all the same: clusters cost while it is
// waited for.
func TestNote51WorkflowThatNobodyEnds(t *testing.T) {
	const deadline = 90 * time.Minute
	at := func(d time.Duration) string { return epoch.Add(d).Format(time.RFC3339) }
	for name, test := range map[string]struct {
		deadline time.Duration
		status   map[string]any
		after    time.Duration // 0 is never
		says     string
	}{
		"with an exit handler": {deadline, map[string]any{"phase": "Running", "startedAt": at(0), "nodes": map[string]any{"validation": map[string]any{"phase": "Succeeded"}}}, 2*deadline + time.Minute,
			"has an exit handler that has not ended within 3h0m0s"},
		"with nodes in a database, of which that is not seen": {deadline, map[string]any{"phase": "Running", "startedAt": at(0), "offloadNodeStatusVersion": "fnv:1"},
			2*deadline + time.Minute, "has not ended, nor has an exit handler that it may have, within 3h0m0s"},
		"never looked at": {deadline, nil, deadline + time.Minute, "was not started within 1h30m0s (spec.progressDeadline.workflow): it says nothing"},
		"postponed": {deadline, map[string]any{"phase": "Pending", "message": "too many workflows are already running"}, deadline + time.Minute,
			"was not started within 1h30m0s (spec.progressDeadline.workflow): too many workflows are already running"},
		"running":            {deadline, map[string]any{"phase": "Running", "startedAt": at(time.Hour)}, deadline + time.Hour + time.Minute, "has not ended within 1h30m0s"},
		"without a deadline": {0, nil, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := experimentOf(targetOf("app", v1alpha1.ClusterGKE))
			if test.deadline > 0 {
				e.Spec.ProgressDeadline = &v1alpha1.ProgressDeadline{Workflow: &metav1.Duration{Duration: test.deadline}}
			}
			l := newLab(t, e, nginx(), template())
			l.settle(l.validating)
			l.spoil(argoworkflows.WorkflowGVK, func(w *unstructured.Unstructured) {
				w.SetCreationTimestamp(metav1.NewTime(epoch)) // as an API server would
				w.Object["status"] = test.status
				if node, is, _ := unstructured.NestedMap(w.Object, "status", "nodes", "validation"); is { // the first one has the name of the Workflow
					_ = unstructured.SetNestedMap(w.Object, map[string]any{w.GetName(): node}, "status", "nodes")
				}
			})
			if test.after == 0 {
				l.later(22 * time.Hour)
				if wait := l.pass(); wait != time.Hour || l.get().Status.CompletedAt != nil {
					t.Errorf("it is looked at after %s, and has ended at %v", wait, l.get().Status.CompletedAt)
				}
				return
			}
			if wait := l.pass(); test.status != nil && wait != test.after {
				t.Errorf("it is looked at after %s", wait)
			}
			l.later(test.after - time.Second)
			if wait := l.pass(); wait != time.Second || l.get().Status.CompletedAt != nil {
				t.Errorf("a second before, it is looked at after %s, and has ended at %v", wait, l.get().Status.CompletedAt)
			}
			l.later(test.after)
			l.edit(func(e *v1alpha1.Experiment) { e.Spec.Suspend = true })
			l.mustReconcile()
			if l.get().Status.CompletedAt != nil {
				t.Error("it fails while it is suspended")
			}
			l.edit(func(e *v1alpha1.Experiment) { e.Spec.Suspend = false })
			l.mustReconcile()
			l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonProgressDeadlineExceeded)
			if m := l.message(v1alpha1.ConditionReady); l.get().Status.Phase != v1alpha1.PhaseFailed || !strings.Contains(m, test.says) {
				t.Errorf("it is %s and says %q", l.get().Status.Phase, m)
			}
		})
	}
}

// So does one that cannot be submitted; another manager tries for as long again, and so does this one when what is deployed has changed.
func TestNote51WorkflowThatNobodyMaySubmit(t *testing.T) {
	const deadline, end = 30 * time.Minute, 31 * time.Minute
	for name, test := range map[string]struct {
		edit func(*lab)
		end  time.Duration
		says string
	}{
		"refused":            {func(*lab) {}, end, "could not be submitted within 30m0s (spec.progressDeadline.workflow): Creating Workflow argo/tutorial-validation-"},
		"by another manager": {func(l *lab) { l.reconciler.refusals = refusals{} }, 20*time.Minute + end, "could not be submitted"},
		"after something has degraded": {func(l *lab) {
			app := l.list(argocd.ApplicationGVK)[0]
			l.appIs(&app, "Degraded")
			l.tick()
			l.appIs(&app, "Healthy")
		}, 20*time.Minute + end, "could not be submitted"},
		"without a deadline": {func(l *lab) { l.edit(func(e *v1alpha1.Experiment) { e.Spec.ProgressDeadline = nil }) }, 22 * time.Hour, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := experimentOf(targetOf("app", v1alpha1.ClusterGKE))
			e.Spec.ProgressDeadline = &v1alpha1.ProgressDeadline{Workflow: &metav1.Duration{Duration: deadline}}
			l := newLab(t, e, nginx(), template())
			l.forbid("create", "Workflow")
			l.tick(l.play)
			l.later(20 * time.Minute)
			l.tick()
			l.expect(v1alpha1.ConditionWorkflowSucceeded, metav1.ConditionFalse, v1alpha1.ReasonForbidden)
			test.edit(l)
			l.tick()
			l.later(test.end - time.Second)
			l.tick()
			if l.get().Status.CompletedAt != nil {
				t.Fatalf("it has ended before: %s", l.message(v1alpha1.ConditionReady))
			}
			if test.says == "" {
				return
			}
			l.later(test.end)
			l.tick()
			l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonProgressDeadlineExceeded)
			if m := l.message(v1alpha1.ConditionReady); l.get().Status.Phase != v1alpha1.PhaseFailed || !strings.Contains(m, test.says) {
				t.Errorf("it is %s and says %q", l.get().Status.Phase, m)
			}
		})
	}
}

// So does one in whose place another is to be submitted, and that nobody may delete, or that does not go.
func TestSupersededWorkflowThatNobodyMayDelete(t *testing.T) {
	const deadline, end = 30 * time.Minute, 31 * time.Minute
	for name, test := range map[string]struct {
		finalizers []string
		verb, says string
	}{
		"refused":         {nil, "delete", "any more, could not be deleted within 30m0s (spec.progressDeadline.workflow): Deleting Workflow"},
		"held":            {[]string{"example.com/kept"}, "none", "any more, is not gone within 30m0s (spec.progressDeadline.workflow): its finalizers hold up: example.com/kept"},
		"refused and let": {nil, "delete", ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := running(t, func(s *v1alpha1.ExperimentSpec) {
				s.ProgressDeadline = &v1alpha1.ProgressDeadline{Workflow: &metav1.Duration{Duration: deadline}}
			})
			l.spoil(argoworkflows.WorkflowGVK, func(w *unstructured.Unstructured) { w.SetFinalizers(test.finalizers) })
			first := l.get().Status.Workflow.UID
			l.stuck = map[bool]string{true: "Workflow"}[test.finalizers != nil]
			l.forbid(test.verb, "Workflow")
			l.edit(longer)
			l.tick(l.deploy)
			if at := l.list(argoworkflows.WorkflowGVK)[0].GetDeletionTimestamp(); at != nil { // which the client takes from the real clock
				l.clock.SetTime(at.Time)
				l.edit(func(e *v1alpha1.Experiment) { e.CreationTimestamp = *at })
			}
			begun := l.clock.Now()
			l.clock.SetTime(begun.Add(end - time.Second))
			l.tick(l.deploy)
			if l.get().Status.CompletedAt != nil {
				t.Fatalf("it has ended before: %s", l.message(v1alpha1.ConditionReady))
			}
			if test.says == "" {
				l.refuse = nil
				l.tick(l.deploy)
			}
			l.clock.SetTime(begun.Add(end))
			l.tick(l.deploy)
			if test.says == "" {
				if w := l.get().Status.Workflow; w.UID == first || l.get().Status.CompletedAt != nil {
					t.Errorf("the Workflow is %+v: %s", w, l.message(v1alpha1.ConditionReady))
				}
				return
			}
			l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonProgressDeadlineExceeded)
			if m := l.message(v1alpha1.ConditionReady); l.get().Status.Phase != v1alpha1.PhaseFailed || !strings.Contains(m, test.says) {
				t.Errorf("it is %s and says %q", l.get().Status.Phase, m)
			}
		})
	}
}

// workflowUnseen is a cache that has no Workflow yet.
type workflowUnseen struct{ client.Reader }

func (u workflowUnseen) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if kindOf(o) == "Workflow" {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "workflows"}, key.Name)
	}
	return u.Reader.Get(ctx, key, o, opts...)
}

// One that was submitted when its answer was lost, and that the cache does not have yet, is not said to be refused.
func TestWorkflowSubmittedAfterAll(t *testing.T) {
	e := experimentOf(targetOf("app", v1alpha1.ClusterGKE))
	e.Spec.ProgressDeadline = &v1alpha1.ProgressDeadline{Workflow: &metav1.Duration{Duration: 30 * time.Minute}}
	l := newLab(t, e, nginx(), template())
	l.forbid("create", "Workflow")
	l.tick(l.play)
	l.create(facts{experiment: l.get(), options: l.reconciler.Options, names: names{l.get(), l.reconciler.Options}}.desiredWorkflow(nil, ""))
	l.reconciler.Foreign = workflowUnseen{l.client}
	l.later(31 * time.Minute)
	l.tick()
	if l.get().Status.CompletedAt != nil {
		t.Errorf("it has ended: %s", l.message(v1alpha1.ConditionReady))
	}
}

// Argo Workflows that does not look at a Workflow is told of, in a minute.
func TestWorkflowThatNobodyLooksAt(t *testing.T) {
	for id, want := range map[string]string{"": "looks at no Workflow without it (--workflow-instance-id)", "labs": " with instanceID labs"} {
		l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterHub)), nginx(), template())
		l.reconciler.Options.WorkflowInstanceID = id
		l.settle(l.validating)
		l.spoil(argoworkflows.WorkflowGVK, func(w *unstructured.Unstructured) { w.SetCreationTimestamp(metav1.NewTime(epoch)) })
		if wait := l.pass(); wait != time.Minute {
			t.Errorf("it is looked at after %s", wait)
		}
		l.later(time.Minute)
		l.mustReconcile()
		said := l.message(v1alpha1.ConditionWorkflowSucceeded)
		if !strings.Contains(said, "Argo Workflows has not looked at it: see whether its controller runs, and looks at namespace argo") || !strings.HasSuffix(said, want) {
			t.Errorf("it says %q", said)
		}
		l.spoil(argoworkflows.WorkflowGVK, func(w *unstructured.Unstructured) { w.Object["status"] = map[string]any{"phase": "Pending"} })
		l.mustReconcile()
		if said := l.message(v1alpha1.ConditionWorkflowSucceeded); strings.Contains(said, "has not looked at it") {
			t.Errorf("it says %q", said)
		}
	}
}

// A success whose cluster has gone waits for another, as long as a cluster may take.
func TestNote51SuccessWithoutItsCluster(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
	l.settle(l.validating)
	claim := l.list(crossplane.GKEClusterGVK)[0]
	l.deleteObject(&claim)
	claim = l.list(crossplane.GKEClusterGVK)[0]
	l.finalize(&claim)
	l.succeed(&l.list(argoworkflows.WorkflowGVK)[0])
	l.later(time.Hour)
	l.settle(l.deploy) // and no cluster comes up
	l.expect(v1alpha1.ConditionWorkflowSucceeded, metav1.ConditionFalse, v1alpha1.ReasonWorkflowOutdated)
	if wait := l.pass(); wait != time.Hour {
		t.Errorf("it is looked at after %s", wait)
	}
	l.later(2*time.Hour - time.Second)
	l.mustReconcile()
	if at := l.get().Status.CompletedAt; at != nil {
		t.Errorf("it has ended at %s", at)
	}
	l.later(2 * time.Hour)
	l.mustReconcile()
	l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonProgressDeadlineExceeded)
	if m := l.message(v1alpha1.ConditionReady); l.get().Status.Phase != v1alpha1.PhaseFailed || !strings.Contains(m, "Target app: its cluster has taken longer than 1h0m0s") {
		t.Errorf("it is %s and says %q", l.get().Status.Phase, m)
	}
}

// That it has ended by then, and the cache does not have that yet, is no failure.
func TestWorkflowThatHasEndedInTime(t *testing.T) {
	e := experimentOf(targetOf("app", v1alpha1.ClusterHub))
	e.Spec.ProgressDeadline = &v1alpha1.ProgressDeadline{Workflow: &metav1.Duration{Duration: time.Hour}}
	l := newLab(t, e, nginx(), template())
	l.settle(l.validating)
	l.spoil(argoworkflows.WorkflowGVK, func(w *unstructured.Unstructured) { w.SetCreationTimestamp(metav1.NewTime(epoch)) })
	before := l.list(argoworkflows.WorkflowGVK)
	ended := before[0].DeepCopy()
	l.succeed(ended)
	l.later(2 * time.Hour)
	l.hasNoVerdictWhileTheCacheHas(before)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
}

// What fails in the teardown is told by the condition, and not kept in the record.
func TestTerminateKeepsTheTargets(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
	l.settle(l.play)
	before := l.get().Status.Targets
	l.forbid("delete", "Application")
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Terminate = true })
	l.tick(l.without())
	l.expect(v1alpha1.ConditionCleanedUp, metav1.ConditionFalse, v1alpha1.ReasonForbidden)
	l.refuse = nil
	l.settle(l.play)
	l.expect(v1alpha1.ConditionCleanedUp, metav1.ConditionTrue, v1alpha1.ReasonCleanedUp)
	if diff := cmp.Diff(before, l.get().Status.Targets); diff != "" {
		t.Errorf("its targets (-before +after):\n%s", diff)
	}
}

// A verdict that is recorded stands, whatever cannot be read afterwards, and one that nobody has
// recorded yet counts.
func TestTerminateKeepsTheVerdict(t *testing.T) {
	l := tutorial(t)
	l.settle(l.play)
	l.reconciler.Foreign = behind{l.client}
	for _, app := range l.list(argocd.ApplicationGVK) {
		l.reconciler.Foreign = before{l.reconciler.Foreign, []unstructured.Unstructured{app}}
	}
	l.getErrors["Workflow"] = apierrors.NewForbidden(schema.GroupResource{Resource: "workflows"}, "x", errors.New("no rights"))
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Terminate = true })
	l.tick()
	l.expect(v1alpha1.ConditionWorkflowSucceeded, metav1.ConditionTrue, v1alpha1.ReasonWorkflowSucceeded)
	if phase := l.get().Status.Phase; phase != v1alpha1.PhaseComplete {
		t.Errorf("it is %s", phase)
	}

	l = tutorial(t)
	l.until(v1alpha1.PhaseRunning)
	workflow := l.list(argoworkflows.WorkflowGVK)[0]
	l.succeed(&workflow)
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Terminate = true })
	l.settle(l.play)
	if phase := l.get().Status.Phase; phase != v1alpha1.PhaseComplete {
		t.Errorf("the success that nobody had recorded is %s", phase)
	}
}

// A success that nobody has recorded counts, whatever the cache has of the Workflow, and whatever binds the namespace.
func TestTerminateKeepsAnUnrecordedSuccess(t *testing.T) {
	for name, test := range map[string]struct {
		before func(*lab)
		spoil  func(*lab, unstructured.Unstructured)
	}{
		"of before": {spoil: func(l *lab, was unstructured.Unstructured) {
			l.reconciler.Foreign = before{l.client, []unstructured.Unstructured{was}}
		}},
		"nothing yet": {spoil: func(l *lab, _ unstructured.Unstructured) {
			for _, gvk := range []schema.GroupVersionKind{argoworkflows.WorkflowGVK, argoworkflows.WorkflowTemplateGVK} {
				l.kinds[gvk] = kube.KindSyncing
			}
		}},
		"all, of a namespace with a project": {
			before: func(l *lab) { l.annotateNamespace(v1alpha1.AnnotationProject, "tenants") },
			spoil:  func(*lab, unstructured.Unstructured) {},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
			if test.before != nil {
				test.before(l)
			}
			l.settle(l.validating)
			was := l.list(argoworkflows.WorkflowGVK)[0]
			ended := was.DeepCopy()
			l.succeed(ended)
			test.spoil(l, was)
			l.edit(func(e *v1alpha1.Experiment) { e.Spec.Terminate = true })
			l.tick()
			if phase := l.get().Status.Phase; phase != v1alpha1.PhaseComplete {
				t.Errorf("it is %s: %s", phase, l.message(v1alpha1.ConditionWorkflowSucceeded))
			}
		})
	}
}

// A target that the next step is refused is as late as one that waits.
func TestProgressDeadlineOfARefusedTarget(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
	l.forbid("create", "Application")
	l.tick(l.play)
	l.clock.SetTime(epoch.Add(59 * time.Minute))
	l.tick(l.play)
	if phase := l.get().Status.Phase; phase != v1alpha1.PhaseReady {
		t.Fatalf("it is %s", phase)
	}
	l.clock.SetTime(epoch.Add(61 * time.Minute))
	l.tick(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonProgressDeadlineExceeded)
	if m := l.message(v1alpha1.ConditionReady); !strings.Contains(m, "no rights") {
		t.Errorf("it does not say why: %s", m)
	}
}

// flaky is a reader that cannot read a kind, so many times.
type flaky struct {
	client.Client
	kind  string
	times *int
}

func (f flaky) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if kindOf(o) == f.kind && *f.times > 0 {
		*f.times--
		return apierrors.NewInternalError(errors.New("down"))
	}
	return f.Client.Get(ctx, key, o, opts...)
}

// A read that fails in the moment of the verdict is tried once more, and no longer: nothing is waited for.
func TestTerminateWhereAReadFails(t *testing.T) {
	for name, test := range map[string]struct {
		spoil  func(*lab, flaky)
		kind   string
		times  int
		reason string
	}{
		"what is seen, once":     {func(l *lab, f flaky) { l.reconciler.Foreign = f }, "Workflow", 1, v1alpha1.ReasonWorkflowSucceeded},
		"the cache, for good":    {func(l *lab, f flaky) { l.reconciler.Foreign = f }, "Workflow", 99, v1alpha1.ReasonWorkflowSucceeded},
		"what is seen, for good": {func(l *lab, f flaky) { l.reconciler.Foreign, l.reconciler.Live = f, f }, "Workflow", 99, v1alpha1.ReasonTerminated},
		"a Component, once":      {func(l *lab, f flaky) { l.reconciler.Client = f }, "Component", 1, v1alpha1.ReasonWorkflowSucceeded},
		"the proof, once":        {func(l *lab, f flaky) { l.reconciler.Live = f }, "GKECluster", 1, v1alpha1.ReasonWorkflowSucceeded},
		"the proof, for good":    {func(l *lab, f flaky) { l.reconciler.Live = f }, "GKECluster", 99, v1alpha1.ReasonTerminated},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
			l.settle(l.validating)
			l.succeed(&l.list(argoworkflows.WorkflowGVK)[0])
			l.edit(func(e *v1alpha1.Experiment) { e.Spec.Terminate = true })
			test.spoil(l, flaky{l.client, test.kind, &test.times})
			if _, err := l.reconciler.Reconcile(t.Context(), l.get()); err == nil || l.get().Status.CompletedAt != nil {
				t.Fatalf("it has ended at %v, with the error %v", l.get().Status.CompletedAt, err)
			}
			if _, err := l.reconciler.Reconcile(t.Context(), l.get()); err != nil {
				t.Error(err)
			}
			if c := recordedStep(l.get().Status.Conditions, v1alpha1.ConditionWorkflowSucceeded); l.get().Status.CompletedAt == nil || c.Reason != test.reason {
				t.Errorf("it has ended at %v, and %s: %s", l.get().Status.CompletedAt, c.Reason, c.Message)
			}
		})
	}
}

// A manager that is stopped in that moment gives no verdict: the next one reads.
func TestTerminateWhileTheManagerIsStopped(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
	l.settle(l.validating)
	l.succeed(&l.list(argoworkflows.WorkflowGVK)[0])
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Terminate = true })
	always := 99
	l.reconciler.Foreign = flaky{l.client, "Workflow", &always}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for range 3 {
		if _, err := l.reconciler.Reconcile(stopped, l.get()); err == nil || l.get().Status.CompletedAt != nil {
			t.Fatalf("it has ended at %v, with the error %v", l.get().Status.CompletedAt, err)
		}
	}
	l.reconciler.Foreign = l.client
	l.mustReconcile()
	l.expect(v1alpha1.ConditionWorkflowSucceeded, metav1.ConditionTrue, v1alpha1.ReasonWorkflowSucceeded)
}

// A success waits for what is settling, and does not fail by what was allowed: an Application that has been degraded for long before it, or
// a target that nobody waits for. What takes its time from then on does.
func TestNote51SuccessBesideADegradedApplication(t *testing.T) {
	for name, test := range map[string]struct {
		settles time.Duration
		phase   v1alpha1.Phase
	}{"it settles": {4 * time.Minute, v1alpha1.PhaseComplete}, "it does not": {10 * time.Minute, v1alpha1.PhaseFailed}} {
		t.Run(name, func(t *testing.T) {
			e := experimentOf(targetOf("app", v1alpha1.ClusterHub))
			e.Spec.ProgressDeadline = &v1alpha1.ProgressDeadline{Applications: &metav1.Duration{Duration: 10 * time.Minute}}
			l := newLab(t, e, nginx(), template())
			l.settle(l.validating)
			l.spoil(argocd.ApplicationGVK, func(app *unstructured.Unstructured) {
				_ = unstructured.SetNestedField(app.Object, "Degraded", "status", "health", "status")
			})
			l.later(time.Minute)
			l.mustReconcile()
			l.later(time.Hour)
			l.spoil(argocd.ApplicationGVK, func(app *unstructured.Unstructured) { // as a webhook of Git does
				app.SetAnnotations(map[string]string{"argocd.argoproj.io/refresh": "normal", v1alpha1.AnnotationInputs: app.GetAnnotations()[v1alpha1.AnnotationInputs]})
			})
			l.spoil(argoworkflows.WorkflowGVK, func(w *unstructured.Unstructured) {
				w.Object["status"] = map[string]any{"phase": "Succeeded", "startedAt": epoch.Format(time.RFC3339), "finishedAt": epoch.Add(time.Hour).Format(time.RFC3339)}
			})
			l.mustReconcile()
			l.expect(v1alpha1.ConditionWorkflowSucceeded, metav1.ConditionFalse, v1alpha1.ReasonTargetsNotSettled)
			l.later(time.Hour + test.settles)
			if test.phase == v1alpha1.PhaseComplete {
				l.spoil(argocd.ApplicationGVK, func(app *unstructured.Unstructured) {
					unstructured.RemoveNestedField(app.Object, "metadata", "annotations", "argocd.argoproj.io/refresh")
				})
			}
			l.mustReconcile()
			if got := l.get().Status; got.Phase != test.phase {
				t.Errorf("it is %s: %+v", got.Phase, got.Conditions)
			}
		})
	}
}

// Crossplane, or Cluster API, that does not look at what stands for a cluster is told of, in a minute.
func TestClusterThatNobodyLooksAt(t *testing.T) {
	for name, test := range map[string]struct {
		lab  func(*testing.T) *lab
		gvk  schema.GroupVersionKind
		want string
	}{
		"gke": {func(t *testing.T) *lab {
			return newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
		}, crossplane.GKEClusterGVK, "Crossplane"},
		"talos":    {onTalos, capi.ClusterGVK, "Cluster API"},
		"vcluster": {onVCluster, capi.ClusterGVK, "Cluster API"},
	} {
		t.Run(name, func(t *testing.T) {
			l := test.lab(t)
			l.mustReconcile()
			l.spoil(test.gvk, func(o *unstructured.Unstructured) { o.SetCreationTimestamp(metav1.NewTime(epoch)) })
			if wait := l.pass(); wait != time.Minute {
				t.Errorf("it is looked at after %s", wait)
			}
			said := func() string { return l.get().Status.Targets[0].Message }
			if strings.Contains(said(), "has not looked at it") {
				t.Errorf("it is said at once: %s", said())
			}
			l.later(time.Minute)
			l.mustReconcile()
			want := "; " + test.want + " has not looked at it: see whether it runs, and looks at namespace " + l.list(test.gvk)[0].GetNamespace()
			if !strings.HasSuffix(said(), want) {
				t.Errorf("it says %q, and not %q", said(), want)
			}
			l.spoil(test.gvk, func(o *unstructured.Unstructured) { o.Object["status"] = map[string]any{"phase": "Pending"} })
			l.mustReconcile()
			if strings.Contains(said(), "has not looked at it") {
				t.Errorf("it says %q", said())
			}
			l.settle(l.play)
			l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
		})
	}
}

// Argo CD that does not look at an Application is told of, in a minute.
func TestApplicationThatNobodyLooksAt(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterHub)), nginx(), template())
	l.mustReconcile()
	l.spoil(argocd.ApplicationGVK, func(app *unstructured.Unstructured) { app.SetCreationTimestamp(metav1.NewTime(epoch)) })
	if wait := l.pass(); wait != time.Minute {
		t.Errorf("it is looked at after %s", wait)
	}
	l.later(time.Minute)
	l.mustReconcile()
	const want = "Argo CD has not looked at it: see whether its application controller runs, and looks at namespace argocd"
	if said := l.get().Status.Targets[0].Message; !strings.Contains(said, want) {
		t.Errorf("it says %q", said)
	}
	l.spoil(argocd.ApplicationGVK, func(app *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(app.Object, "OutOfSync", "status", "sync", "status")
	})
	l.mustReconcile()
	if said := l.get().Status.Targets[0].Message; strings.Contains(said, "has not looked at it") {
		t.Errorf("it says %q", said)
	}
}
