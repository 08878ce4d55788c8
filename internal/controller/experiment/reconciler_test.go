package experiment

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/argoworkflows"
	"github.com/labkeeper/labkeeper/internal/external/crossplane"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// tutorial is a gke target, and a hub target that waits for it.
func tutorial(t *testing.T) *lab {
	return newLab(t, experimentOf(
		targetOf("app", v1alpha1.ClusterGKE),
		targetOf("loadgen", v1alpha1.ClusterHub, "app"),
	), nginx(), template())
}

// An Experiment that went before it had a finalizer is nobody's concern, whatever the cache has.
func TestExperimentThatIsGone(t *testing.T) {
	l := tutorial(t)
	gone := l.get()
	gone.Name = "gone"
	if _, err := l.reconciler.Reconcile(t.Context(), gone); err != nil {
		t.Error(err)
	}
}

func TestStraightRoad(t *testing.T) {
	l := tutorial(t)
	var phases []v1alpha1.Phase
	for range 20 {
		if err := l.reconcile(); err != nil {
			t.Fatal(err)
		}
		if p := l.get().Status.Phase; len(phases) == 0 || phases[len(phases)-1] != p {
			phases = append(phases, p)
		}
		l.play()
	}
	want := []v1alpha1.Phase{v1alpha1.PhaseProvisioning, v1alpha1.PhaseReady, v1alpha1.PhaseRunning, v1alpha1.PhaseComplete}
	if diff := cmp.Diff(want, phases); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)

	var story []string
	for _, e := range l.drain() {
		fields := strings.Fields(e)
		story = append(story, fields[0]+" "+fields[1])
	}
	wantStory := []string{
		"Normal Accepted",
		"Normal TargetProvisioning", "Normal TargetBlocked", // app, loadgen
		"Normal TargetDeploying",
		"Normal TargetHealthy", "Normal TargetDeploying", // app, loadgen
		"Normal TargetHealthy", "Normal WorkflowRunning",
		"Normal WorkflowSucceeded",
	}
	if diff := cmp.Diff(wantStory, story); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// The formula: finalizer, claim, Secret, one Application per target, Workflow, and one
// status per visible step.
func TestWritesOfTheStraightRoad(t *testing.T) {
	l := tutorial(t)
	l.settle(l.play)
	want := []string{
		"patch Experiment", "patch Experiment/status", // Pending, before anything is created
		"create GKECluster", "patch Experiment/status",
		"create Secret", "create Application", "patch Experiment/status",
		"create Application", "patch Experiment/status",
		"create Workflow", "patch Experiment/status",
		"patch Experiment/status",
	}
	if diff := cmp.Diff(want, l.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	before := len(l.writes)
	for range 5 {
		if err := l.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(l.writes) - before; n != 0 {
		t.Errorf("a settled Experiment costs %d writes: %v", n, l.writes[before:])
	}
}

// Every write of the whole life fails once, with and without having taken place; the end is
// the same.
func TestNote34And35EveryWriteFailingOnce(t *testing.T) {
	reference := tutorial(t)
	reference.settle(reference.play)
	up, total := reference.end(), len(reference.writes)
	if up["states"].(map[string]string)["phase"] != string(v1alpha1.PhaseComplete) {
		t.Fatalf("the reference is %v", up)
	}
	gr := schema.GroupResource{Resource: "things"}
	faults := map[string]struct {
		err       error
		committed bool
	}{
		"lost request": {errors.New("connection reset"), false},
		"lost answer":  {errors.New("connection reset"), true},
		"conflict":     {apierrors.NewConflict(gr, "x", errors.New("modified")), false},
		"throttled":    {apierrors.NewTooManyRequests("slow down", 1), false},
		"forbidden":    {apierrors.NewForbidden(gr, "x", errors.New("no")), false},
		"server error": {apierrors.NewInternalError(errors.New("etcd")), false},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			for k := 1; k <= total; k++ {
				l := tutorial(t)
				l.failAt, l.failWith, l.committed = k, fault.err, fault.committed
				l.settle(l.play)
				if diff := cmp.Diff(up, l.end()); diff != "" {
					t.Errorf("write %d (%s) failing once (-want +got):\n%s", k, l.writes[k-1], diff)
				}
			}
		})
	}
}

// The same for the way down, from every phase.
func TestNote33TeardownWithEveryWriteFailingOnce(t *testing.T) {
	for _, phase := range []v1alpha1.Phase{v1alpha1.PhaseProvisioning, v1alpha1.PhaseReady, v1alpha1.PhaseRunning, v1alpha1.PhaseComplete} {
		t.Run(string(phase), func(t *testing.T) {
			for k := 0; k < 20; k++ {
				for _, committed := range []bool{false, true} {
					l := tutorial(t)
					l.until(phase)
					l.writes = nil
					l.failAt, l.failWith, l.committed = k, errors.New("connection reset"), committed
					l.remove()
					l.settle(l.play)
					if l.get() != nil {
						t.Fatalf("write %d failing once: it is still there: %+v", k, l.get().Status)
					}
					for _, gvk := range []schema.GroupVersionKind{crossplane.GKEClusterGVK, argocd.ApplicationGVK, argocd.SecretGVK, argoworkflows.WorkflowGVK} {
						if left := l.list(gvk); len(left) > 0 {
							t.Errorf("write %d failing once: %d %s left", k, len(left), gvk.Kind)
						}
					}
				}
			}
		})
	}
}

func (l *lab) remove() {
	l.t.Helper()
	if err := l.client.Delete(l.t.Context(), l.get()); err != nil {
		l.t.Fatal(err)
	}
}

// Argo CD deletes what an Application deployed while the cluster and its registration are
// there; a dependent goes before what it depends on.
func TestNote31And66TeardownOrder(t *testing.T) {
	l := tutorial(t)
	l.until(v1alpha1.PhaseRunning)
	l.writes = nil
	l.remove()
	var order []string
	note := func(gvk schema.GroupVersionKind, live []unstructured.Unstructured) []string {
		var out []string
		for _, o := range live {
			state := ""
			if o.GetDeletionTimestamp() != nil {
				state = " going"
			}
			out = append(out, strings.TrimSpace(gvk.Kind+" "+o.GetLabels()[v1alpha1.LabelTarget])+state)
		}
		return out
	}
	for range 20 {
		if err := l.reconcile(); err != nil {
			t.Fatal(err)
		}
		var now []string
		for _, gvk := range []schema.GroupVersionKind{argoworkflows.WorkflowGVK, argocd.ApplicationGVK, argocd.SecretGVK, crossplane.GKEClusterGVK} {
			now = append(now, note(gvk, l.list(gvk))...)
		}
		if state := strings.Join(now, ", "); len(order) == 0 || order[len(order)-1] != state {
			order = append(order, state)
		}
		l.play()
	}
	want := []string{
		"Application app, Application loadgen, Secret app, GKECluster app",
		"Application app, Application loadgen going, Secret app, GKECluster app",
		"Application app going, Secret app, GKECluster app",
		"GKECluster app going",
		"",
	}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("what is there after each pass (-want +got):\n%s", diff)
	}
	if l.get() != nil {
		t.Error("the Experiment is still there")
	}
}

// spoil changes the only object of a kind as an outside system would.
func (l *lab) spoil(gvk schema.GroupVersionKind, change func(*unstructured.Unstructured)) {
	l.t.Helper()
	all := l.list(gvk)
	if len(all) == 0 {
		l.t.Fatalf("there is no %s", gvk.Kind)
	}
	change(&all[0])
	l.update(&all[0])
}

// A cluster that is up, and that Crossplane does not bring to what its claim asks for, is no failure, and told of while it is so.
func TestClaimThatIsReadyAndNotSynced(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
	l.until(v1alpha1.PhaseRunning)
	l.spoil(crossplane.GKEClusterGVK, func(claim *unstructured.Unstructured) {
		claimIs(claim, "True", "False", "ReconcileError", "cannot compose\nresources: quota")
	})
	l.pass()
	l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionTrue, v1alpha1.ReasonClustersReady)
	if m := l.message(v1alpha1.ConditionClustersReady); !strings.Contains(m, "target app: Crossplane does not bring GKECluster lab/") || !strings.Contains(m, "ReconcileError: cannot compose resources: quota") {
		t.Errorf("it says %q", m)
	}
	l.writes = nil
	if l.pass(); len(l.writes) > 0 {
		t.Errorf("it writes %v", l.writes)
	}
	l.spoil(crossplane.GKEClusterGVK, func(claim *unstructured.Unstructured) { claimIs(claim, "True", "True", "Available", "") })
	l.pass()
	if m := l.message(v1alpha1.ConditionClustersReady); m != "Every cluster is up and registered with Argo CD" {
		t.Errorf("then it says %q", m)
	}
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
}

func TestBadOutsides(t *testing.T) {
	hub := func(t *testing.T) *lab {
		return newLab(t, experimentOf(targetOf("web", v1alpha1.ClusterHub)), nginx(), template())
	}
	status := func(s map[string]any) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			sources, _, _ := unstructured.NestedSlice(u.Object, "spec", "sources")
			u.Object["status"] = s
			destination, _, _ := unstructured.NestedMap(u.Object, "spec", "destination")
			_ = unstructured.SetNestedSlice(u.Object, sources, "status", "sync", "comparedTo", "sources")
			_ = unstructured.SetNestedMap(u.Object, destination, "status", "sync", "comparedTo", "destination")
		}
	}
	health := func(health, sync string) map[string]any {
		return map[string]any{"health": map[string]any{"status": health}, "sync": map[string]any{"status": sync}}
	}
	comparison := health("Healthy", "Unknown")
	comparison["conditions"] = []any{map[string]any{"type": "ComparisonError", "message": "chart not found"}}
	app := func(s map[string]any) func(l *lab) {
		return func(l *lab) {
			l.until(v1alpha1.PhaseReady)
			l.spoil(argocd.ApplicationGVK, status(s))
		}
	}
	workflow := func(phase string) func(l *lab) {
		return func(l *lab) {
			l.until(v1alpha1.PhaseRunning)
			l.spoil(argoworkflows.WorkflowGVK, func(u *unstructured.Unstructured) {
				u.Object["status"] = map[string]any{"phase": phase, "message": "child failed", "nodes": map[string]any{
					"n": map[string]any{"type": "Pod", "displayName": "check", "phase": phase, "message": "exit code 1"}}}
			})
		}
	}
	for name, c := range map[string]struct {
		lab       func(*testing.T) *lab
		do        func(*lab)
		condition string
		reason    string
		says      []string
		phase     v1alpha1.Phase
	}{
		"degraded Application":                   {hub, app(health("Degraded", "Synced")), v1alpha1.ConditionApplicationsHealthy, v1alpha1.ReasonApplicationDegraded, []string{"argocd/tutorial-web"}, v1alpha1.PhaseReady},
		"note 42: degraded and out of sync":      {hub, app(health("Degraded", "OutOfSync")), v1alpha1.ConditionApplicationsHealthy, v1alpha1.ReasonApplicationDegraded, []string{"argocd/tutorial-web"}, v1alpha1.PhaseReady},
		"note 64: missing Application":           {hub, app(health("Missing", "OutOfSync")), v1alpha1.ConditionApplicationsHealthy, v1alpha1.ReasonApplicationMissing, []string{"argocd/tutorial-web"}, v1alpha1.PhaseReady},
		"note 20: healthy and unknown":           {hub, app(health("Healthy", "Unknown")), v1alpha1.ConditionApplicationsHealthy, v1alpha1.ReasonApplicationError, []string{"argocd/tutorial-web", "Unknown"}, v1alpha1.PhaseReady},
		"note 19: comparison error":              {hub, app(comparison), v1alpha1.ConditionApplicationsHealthy, v1alpha1.ReasonApplicationError, []string{"argocd/tutorial-web", "ComparisonError: chart not found"}, v1alpha1.PhaseReady},
		"out of sync":                            {hub, app(health("Healthy", "OutOfSync")), v1alpha1.ConditionApplicationsHealthy, v1alpha1.ReasonApplicationProgressing, []string{"OutOfSync"}, v1alpha1.PhaseReady},
		"failed Workflow":                        {hub, workflow("Failed"), v1alpha1.ConditionWorkflowSucceeded, v1alpha1.ReasonWorkflowFailed, []string{"argo/tutorial-validation", "node check: exit code 1"}, v1alpha1.PhaseFailed},
		"Workflow that could not be run":         {hub, workflow("Error"), v1alpha1.ConditionWorkflowSucceeded, v1alpha1.ReasonWorkflowError, []string{"argo/tutorial-validation"}, v1alpha1.PhaseFailed},
		"note 51: Workflow deleted from outside": {hub, func(l *lab) { l.until(v1alpha1.PhaseRunning); l.delete(argoworkflows.WorkflowGVK) }, v1alpha1.ConditionWorkflowSucceeded, v1alpha1.ReasonWorkflowDeleted, []string{"argo/tutorial-validation", "deleted"}, v1alpha1.PhaseFailed},
		"note 39: Workflow replaced by another":  {hub, func(l *lab) { l.until(v1alpha1.PhaseRunning); l.replaceWorkflow() }, v1alpha1.ConditionWorkflowSucceeded, v1alpha1.ReasonWorkflowDeleted, []string{"argo/tutorial-validation"}, v1alpha1.PhaseFailed},
		"note 46: WorkflowTemplate missing":      {hub, func(l *lab) { l.deleteObject(template()); l.until(v1alpha1.PhaseReady); l.play() }, v1alpha1.ConditionWorkflowSucceeded, v1alpha1.ReasonWorkflowTemplateNotFound, []string{"argo/validation"}, v1alpha1.PhaseReady},
		"Component missing":                      {hub, func(l *lab) { l.deleteObject(nginx()) }, v1alpha1.ConditionComponentsResolved, v1alpha1.ReasonComponentNotFound, []string{"web", "nginx"}, v1alpha1.PhasePending},
		"cluster that is never ready": {tutorial, func(l *lab) {
			l.until(v1alpha1.PhaseProvisioning)
			l.claimSays("False", "True", "Creating", "takes long")
		}, v1alpha1.ConditionClustersReady, v1alpha1.ReasonClusterProvisioning, []string{"GKECluster lab/tutorial-app", "Creating: takes long"}, v1alpha1.PhaseProvisioning},
		"note 51: cluster that cannot be had": {tutorial, func(l *lab) {
			l.until(v1alpha1.PhaseProvisioning)
			l.claimSays("False", "False", "ReconcileError", "quota")
		}, v1alpha1.ConditionClustersReady, v1alpha1.ReasonClusterFailed, []string{"GKECluster lab/tutorial-app", "ReconcileError: quota"}, v1alpha1.PhaseProvisioning},
	} {
		t.Run(name, func(t *testing.T) {
			l := c.lab(t)
			c.do(l)
			if err := l.reconcile(); err != nil {
				t.Fatal(err)
			}
			l.expect(c.condition, metav1.ConditionFalse, c.reason)
			l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, c.reason)
			e := l.get()
			if e.Status.Phase != c.phase {
				t.Errorf("phase is %s, want %s", e.Status.Phase, c.phase)
			}
			for _, condition := range e.Status.Conditions {
				if condition.Type != v1alpha1.ConditionReady {
					continue
				}
				for _, s := range c.says {
					if !strings.Contains(condition.Message, s) {
						t.Errorf("message %q does not name %q", condition.Message, s)
					}
				}
			}
			before := len(l.writes)
			for range 3 {
				if err := l.reconcile(); err != nil {
					t.Fatal(err)
				}
			}
			if len(l.writes) != before {
				t.Errorf("it goes on writing: %v", l.writes[before:])
			}
		})
	}
}

func (l *lab) claimSays(ready, synced, reason, message string) {
	l.spoil(crossplane.GKEClusterGVK, func(u *unstructured.Unstructured) { claimIs(u, ready, synced, reason, message) })
}

func (l *lab) delete(gvk schema.GroupVersionKind) {
	l.t.Helper()
	for _, o := range l.list(gvk) {
		l.deleteObject(&o)
	}
}

func (l *lab) deleteObject(o client.Object) {
	l.t.Helper()
	if err := l.client.Delete(l.t.Context(), o); err != nil {
		l.t.Fatal(err)
	}
}

// replaceWorkflow deletes the Workflow and puts one of the same name and label there.
func (l *lab) replaceWorkflow() {
	old := l.list(argoworkflows.WorkflowGVK)[0]
	l.delete(argoworkflows.WorkflowGVK)
	another := object(argoworkflows.WorkflowGVK, old.GetNamespace(), old.GetName())
	another.SetLabels(old.GetLabels())
	another.SetUID("another")
	another.Object["status"] = map[string]any{"phase": "Succeeded"}
	l.create(another)
}

// A verdict is read once: Argo Workflows may delete the Workflow afterwards.
func TestNote51VerdictOutlivesTheWorkflow(t *testing.T) {
	l := tutorial(t)
	l.settle(l.play)
	l.delete(argoworkflows.WorkflowGVK)
	l.settle(func() bool { return false })
	if p := l.get().Status.Phase; p != v1alpha1.PhaseComplete {
		t.Errorf("phase is %s", p)
	}
}

func TestNote11And45LookupThatIsForbiddenIsNoFallback(t *testing.T) {
	for kind, condition := range map[string]string{
		"Component":        v1alpha1.ConditionComponentsResolved,
		"Secret":           v1alpha1.ConditionClustersReady,
		"WorkflowTemplate": v1alpha1.ConditionWorkflowSucceeded,
	} {
		t.Run(kind, func(t *testing.T) {
			l := tutorial(t)
			l.reconciler.Options.Fallback = Fallback{RepoURL: "https://git.example.com/c.git", Revision: "HEAD"}
			l.getErrors[kind] = apierrors.NewForbidden(schema.GroupResource{Resource: kind}, "x", errors.New("no"))
			for range 20 {
				_ = l.reconcile()
				l.play()
			}
			l.expect(condition, metav1.ConditionFalse, v1alpha1.ReasonForbidden)
			l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonForbidden)
			delete(l.getErrors, kind)
			l.settle(l.play)
			l.expect(v1alpha1.ConditionComponentsResolved, metav1.ConditionTrue, v1alpha1.ReasonResolved)
			l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
		})
	}
}

func TestNote39And40ForeignObjectsAreNotTouched(t *testing.T) {
	for _, gvk := range []schema.GroupVersionKind{crossplane.GKEClusterGVK, argocd.ApplicationGVK, argocd.SecretGVK, argoworkflows.WorkflowGVK} {
		t.Run(gvk.Kind, func(t *testing.T) {
			l := tutorial(t)
			e := l.get()
			n := names{e, l.reconciler.Options}
			key := map[schema.GroupVersionKind]fmt.Stringer{
				crossplane.GKEClusterGVK:  n.cluster(e.Spec.Targets[0]),
				argocd.ApplicationGVK:     n.application(e.Spec.Targets[0], ""),
				argocd.SecretGVK:          n.clusterSecret(e.Spec.Targets[0]),
				argoworkflows.WorkflowGVK: n.workflow(1),
			}[gvk].String()
			namespace, name, _ := strings.Cut(key, "/")
			foreign := object(gvk, namespace, name)
			foreign.SetLabels(map[string]string{v1alpha1.LabelExperimentUID: "somebody-else"})
			l.create(foreign)
			for range 20 {
				_ = l.reconcile()
				l.play()
			}
			l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNameTaken)
			before := l.read(gvk, namespace, name)
			l.remove()
			l.settle(func() bool { return l.playOwn("somebody-else") })
			if l.get() != nil {
				t.Error("the Experiment is still there")
			}
			if diff := cmp.Diff(before, l.read(gvk, namespace, name)); diff != "" {
				t.Errorf("the foreign object (-before +after):\n%s", diff)
			}
		})
	}
}

func (l *lab) read(gvk schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	l.t.Helper()
	u := object(gvk, namespace, name)
	if err := l.client.Get(l.t.Context(), client.ObjectKeyFromObject(u), u); err != nil {
		l.t.Fatal(err)
	}
	return u
}

// playOwn ends the deletions of everything that is not somebody else's.
func (l *lab) playOwn(not string) bool {
	return l.letGo(func(o *unstructured.Unstructured) bool { return o.GetLabels()[v1alpha1.LabelExperimentUID] != not })
}

func TestSpecsThatAreNotBegun(t *testing.T) {
	withObservability := targetOf("app", v1alpha1.ClusterGKE)
	withObservability.Observability = &v1alpha1.TargetObservability{Enabled: true, Transport: "tailscale"}
	for name, c := range map[string]struct {
		experiment *v1alpha1.Experiment
		condition  string
		reason     string
		says       string
		mend       func(*v1alpha1.Experiment)
	}{
		"note 38: cycle": {
			experimentOf(targetOf("a", v1alpha1.ClusterHub, "b"), targetOf("b", v1alpha1.ClusterHub, "a")),
			v1alpha1.ConditionAccepted, v1alpha1.ReasonDependencyCycle, "a -> b -> a",
			func(e *v1alpha1.Experiment) { e.Spec.Targets[0].Depends = nil },
		},
		"observability": {
			experimentOf(withObservability),
			v1alpha1.ConditionAccepted, v1alpha1.ReasonNotConfigured, "target app: observability: transport tailscale needs the hub's endpoint and its tailnet; start the manager with --observability-hub-url and --observability-tailnet",
			func(e *v1alpha1.Experiment) { e.Spec.Targets[0].Observability = nil },
		},
		"talos": {
			experimentOf(targetOf("app", v1alpha1.ClusterTalos)),
			v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalidSpec, "target app does not say what its cluster is made of; set cluster.talos",
			func(e *v1alpha1.Experiment) { e.Spec.Targets[0].Cluster.Type = v1alpha1.ClusterHub },
		},
		"misnamed parameter": {
			func() *v1alpha1.Experiment {
				e := experimentOf(targetOf("app", v1alpha1.ClusterGKE))
				e.Spec.Workflow.Params = map[string]string{"faults.rate": "0.05"}
				return e
			}(),
			v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalidSpec, `"faults.rate" is no name for Argo Workflows`,
			func(e *v1alpha1.Experiment) { e.Spec.Workflow.Params = nil },
		},
		"reserved parameter": {
			func() *v1alpha1.Experiment {
				e := experimentOf(targetOf("app", v1alpha1.ClusterHub))
				e.Spec.Workflow.Params = map[string]string{"app-endpoint": "x"}
				return e
			}(),
			v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalidSpec, "app-endpoint",
			func(e *v1alpha1.Experiment) { e.Spec.Workflow.Params = nil },
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, c.experiment, nginx(), template())
			l.settle(l.play)
			l.expect(c.condition, metav1.ConditionFalse, c.reason)
			l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, c.reason)
			e := l.get()
			if e.Status.StartedAt != nil || len(l.list(crossplane.GKEClusterGVK))+len(l.list(argocd.ApplicationGVK)) > 0 {
				t.Error("it was begun")
			}
			for _, condition := range e.Status.Conditions {
				if condition.Type == c.condition && !strings.Contains(condition.Message, c.says) {
					t.Errorf("message %q does not say %q", condition.Message, c.says)
				}
			}
			if len(e.Status.Conditions) != 6 {
				t.Errorf("%d conditions from the first pass on, want 6", len(e.Status.Conditions))
			}
			l.edit(c.mend)
			l.settle(l.play)
			l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
		})
	}
}

// What a spec asks for in addition while the Workflow runs is not what the Workflow has
// validated.
func TestNeverCompleteWithWhatIsNotConfigured(t *testing.T) {
	l := tutorial(t)
	l.until(v1alpha1.PhaseRunning)
	l.edit(func(e *v1alpha1.Experiment) {
		e.Spec.Targets[0].Observability = &v1alpha1.TargetObservability{Enabled: true}
	})
	l.settle(l.play)
	if e := l.get(); e.Status.Phase != v1alpha1.PhaseRunning || e.Status.CompletedAt != nil {
		t.Errorf("phase is %s", e.Status.Phase)
	}
	l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNotConfigured)
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Targets[0].Observability = nil })
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
}

func TestNote09MissingKinds(t *testing.T) {
	for gvk, condition := range map[schema.GroupVersionKind]string{
		crossplane.GKEClusterGVK:          v1alpha1.ConditionClustersReady,
		argocd.ApplicationGVK:             v1alpha1.ConditionApplicationsHealthy,
		argoworkflows.WorkflowGVK:         v1alpha1.ConditionWorkflowSucceeded,
		argoworkflows.WorkflowTemplateGVK: v1alpha1.ConditionWorkflowSucceeded,
	} {
		for state, reason := range map[kube.KindState]string{
			kube.KindMissing: v1alpha1.ReasonCRDMissing,
			kube.KindSyncing: v1alpha1.ReasonWatchNotSynced,
		} {
			t.Run(gvk.Kind+" "+reason, func(t *testing.T) {
				l := tutorial(t)
				l.kinds[gvk] = state
				l.settle(l.play)
				l.expect(condition, metav1.ConditionFalse, reason)
				l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, reason)
				if l.get().Status.StartedAt != nil {
					t.Error("it was begun")
				}
				l.kinds[gvk] = kube.KindServed
				l.settle(l.play)
				l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
			})
		}
	}
}

func TestNote55Kubeconfigs(t *testing.T) {
	exec := strings.Replace(kubeconfig, "token: canary-token", "exec: {apiVersion: client.authentication.k8s.io/v1, command: own-login}", 1)
	for name, c := range map[string]struct {
		data   map[string]string
		reason string
		says   string
	}{
		"no Secret":   {nil, v1alpha1.ReasonKubeconfigMissing, "-cluster-conn"},
		"no key":      {map[string]string{"config": kubeconfig}, v1alpha1.ReasonKubeconfigMissing, "key kubeconfig"},
		"garbage":     {map[string]string{"kubeconfig": "canary-token: ]["}, v1alpha1.ReasonKubeconfigInvalid, "not a kubeconfig"},
		"exec plugin": {map[string]string{"kubeconfig": exec}, v1alpha1.ReasonKubeconfigInvalid, "own-login"},
	} {
		t.Run(name, func(t *testing.T) {
			l := tutorial(t)
			l.until(v1alpha1.PhaseProvisioning)
			l.play()
			l.replaceConnection("crossplane-system", c.data)
			if err := l.reconcile(); err != nil {
				t.Fatal(err)
			}
			l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, c.reason)
			text := fmt.Sprintf("%+v %v", l.get().Status, l.drain())
			if !strings.Contains(text, c.says) || strings.Contains(text, "canary") {
				t.Errorf("status and events: %s", text)
			}
			if len(l.list(argocd.SecretGVK))+len(l.list(argocd.ApplicationGVK)) > 0 {
				t.Error("the cluster was registered")
			}
		})
	}
}

// replaceConnection replaces the data of the connection Secret; nil deletes it.
func (l *lab) replaceConnection(namespace string, data map[string]string) {
	l.t.Helper()
	claim := l.list(crossplane.GKEClusterGVK)[0]
	secret := l.read(argocd.SecretGVK, namespace, claim.GetName()+"-x-cluster-conn")
	if data == nil {
		l.deleteObject(secret)
		return
	}
	values := map[string]any{}
	for k, v := range data {
		values[k] = encode(v)
	}
	secret.Object["data"] = values
	l.update(secret)
}

func TestTimeToLive(t *testing.T) {
	for name, phase := range map[string]v1alpha1.Phase{"on its way": v1alpha1.PhaseReady, "complete": v1alpha1.PhaseComplete} {
		t.Run(name, func(t *testing.T) {
			l := tutorial(t)
			l.until(phase)
			l.clock.SetTime(epoch.Add(day - time.Second))
			if err := l.reconcile(); err != nil || l.get().DeletionTimestamp != nil {
				t.Fatalf("deleted too early (%v)", err)
			}
			l.clock.SetTime(epoch.Add(day))
			l.settle(l.play)
			if l.get() != nil {
				t.Error("it is still there")
			}
			if story := strings.Join(l.drain(), "\n"); !strings.Contains(story, v1alpha1.ReasonExpired) {
				t.Errorf("no event says so:\n%s", story)
			}
		})
	}
}

// That its time is over is told when it is taken down, not each time that this is refused.
func TestTimeToLiveThatIsRefused(t *testing.T) {
	l := tutorial(t)
	l.until(v1alpha1.PhaseComplete)
	l.clock.SetTime(epoch.Add(day))
	l.forbid("delete", "Experiment")
	l.tick()
	if story := strings.Join(l.drain(), "\n"); strings.Contains(story, v1alpha1.ReasonExpired) {
		t.Errorf("nothing is taken down, and the events are:\n%s", story)
	}
	l.refuse = nil
	l.settle(l.play)
	if story := strings.Join(l.drain(), "\n"); strings.Count(story, v1alpha1.ReasonExpired) != 1 {
		t.Errorf("the events are:\n%s", story)
	}
}

// A component's edit reaches its Application; nobody's edit of the Application stays.
func TestNote53DriftAndEdits(t *testing.T) {
	l := tutorial(t)
	l.until(v1alpha1.PhaseReady)
	component := nginx()
	if err := l.client.Get(t.Context(), client.ObjectKeyFromObject(component), component); err != nil {
		t.Fatal(err)
	}
	component.Spec.Sources[0].TargetRevision = "2.0.0"
	l.update(component)
	l.spoil(argocd.ApplicationGVK, func(u *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(u.Object, "elsewhere", "spec", "destination", "namespace")
	})
	if err := l.reconcile(); err != nil {
		t.Fatal(err)
	}
	app := l.list(argocd.ApplicationGVK)[0]
	sources, _, _ := unstructured.NestedSlice(app.Object, "spec", "sources")
	if got := sources[0].(map[string]any)["targetRevision"]; got != "2.0.0" {
		t.Errorf("targetRevision is %v", got)
	}
	if got, _, _ := unstructured.NestedString(app.Object, "spec", "destination", "namespace"); got != "tutorial" {
		t.Errorf("destination namespace is %q", got)
	}
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
}

func TestFallback(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("web", v1alpha1.ClusterHub)), template())
	l.reconciler.Options.Fallback = Fallback{RepoURL: "https://git.example.com/c.git", Revision: "v1"}
	l.reconciler.Options.StrictComponents = true
	l.settle(l.play)
	l.expect(v1alpha1.ConditionComponentsResolved, metav1.ConditionFalse, v1alpha1.ReasonComponentNotFound)

	l.reconciler.Options.StrictComponents = false
	l.settle(l.play)
	l.expect(v1alpha1.ConditionComponentsResolved, metav1.ConditionTrue, v1alpha1.ReasonComponentFallback)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
	sources, _, _ := unstructured.NestedSlice(l.list(argocd.ApplicationGVK)[0].Object, "spec", "sources")
	want := []any{map[string]any{"repoURL": "https://git.example.com/c.git", "targetRevision": "v1", "path": "components/app/nginx"}}
	if diff := cmp.Diff(want, sources); diff != "" {
		t.Errorf("sources (-want +got):\n%s", diff)
	}
	if story := strings.Join(l.drain(), "\n"); !strings.Contains(story, "Warning "+v1alpha1.ReasonComponentFallback) {
		t.Errorf("no warning says so:\n%s", story)
	}
}
