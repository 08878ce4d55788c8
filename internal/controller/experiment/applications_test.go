package experiment

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/argoworkflows"
	"github.com/labkeeper/labkeeper/internal/external/crossplane"
)

// layers are three components of which each needs those before it.
var layers = []v1alpha1.ComponentRef{{App: "operator"}, {Config: "operator"}, {App: "search"}}

// layered is an Experiment with a target in layers and one that depends on it.
func layered(t *testing.T, cluster v1alpha1.ClusterType) *lab {
	target := targetOf("app", cluster)
	target.ApplicationPolicy, target.Components = v1alpha1.ApplicationPerComponent, layers
	l := newLab(t, experimentOf(target, targetOf("load", v1alpha1.ClusterHub, "app")), nginx(), template())
	l.reconciler.Options.Fallback = Fallback{RepoURL: "https://git.example.com/components.git", Revision: "v1"}
	return l
}

// appOf is the Application of a component; nil if there is none.
func (l *lab) appOf(component string) *unstructured.Unstructured {
	for _, app := range l.list(argocd.ApplicationGVK) {
		if componentOf(&app) == component {
			return &app
		}
	}
	return nil
}

// componentStates are the components of the first target as status shows them.
func (l *lab) componentStates() []string {
	var states []string
	for _, c := range l.get().Status.Targets[0].Components {
		states = append(states, strings.TrimSpace(c.Name+": "+string(c.State)+" "+c.Reason))
	}
	return states
}

func (l *lab) expectStates(want ...string) {
	l.t.Helper()
	if diff := cmp.Diff(want, l.componentStates()); diff != "" {
		l.t.Errorf("components (-want +got):\n%s", diff)
	}
}

func (l *lab) mustReconcile() {
	l.t.Helper()
	if err := l.reconcile(); err != nil {
		l.t.Fatal(err)
	}
}

// Field note 21: what needs what another component brings is deployed when that works, and taken down
// before it.
func TestPerComponentOrder(t *testing.T) { // field notes 21, 37
	l := layered(t, v1alpha1.ClusterHub)
	for i, ref := range layers {
		l.mustReconcile()
		if n := len(l.list(argocd.ApplicationGVK)); n != i+1 {
			t.Fatalf("there are %d Applications, want %d", n, i+1)
		}
		app := l.appOf(ref.String())
		if app == nil {
			t.Fatalf("component %s has no Application", ref)
		}
		if sources, _, _ := unstructured.NestedSlice(app.Object, "spec", "sources"); len(sources) != 1 {
			t.Errorf("its sources are %v", sources)
		}
		l.mustReconcile()
		if i == 1 {
			l.expectStates("app operator: Healthy", "config operator: Deploying ApplicationProgressing", "app search: Blocked DependencyNotHealthy")
			if got := l.get().Status.Targets; got[0].Application != "" || got[0].State != v1alpha1.TargetDeploying || got[1].State != v1alpha1.TargetBlocked {
				t.Errorf("targets are %+v", got)
			}
			want := "Target app: component config operator: Application " + app.GetNamespace() + "/" + app.GetName() + " is progressing; target load: Waits for target app"
			if got := recordedStep(l.get().Status.Conditions, v1alpha1.ConditionApplicationsHealthy).Message; got != want {
				t.Errorf("message is %q, want %q", got, want)
			}
		}
		l.appIs(app, "Healthy")
	}
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
	l.expectStates("app operator: Healthy", "config operator: Healthy", "app search: Healthy")

	l.remove()
	var gone []string
	l.settle(func() bool {
		if moved := l.letGo(func(o *unstructured.Unstructured) bool { return o.GroupVersionKind() == argoworkflows.WorkflowGVK }); moved {
			return true
		}
		for _, app := range l.list(argocd.ApplicationGVK) {
			if going(&app) {
				gone = append(gone, strings.TrimSpace(app.GetLabels()[v1alpha1.LabelTarget]+" "+componentOf(&app)))
				return l.finalize(&app)
			}
		}
		return false
	})
	if diff := cmp.Diff([]string{"load", "app app search", "app config operator", "app app operator"}, gone); diff != "" {
		t.Errorf("the order of the teardown (-want +got):\n%s", diff)
	}
	if l.get() != nil {
		t.Error("the Experiment is still there")
	}
}

// What was begun stays so: an Application that is there is changed and judged whatever becomes of those
// before it.
func TestPerComponentDegradesLater(t *testing.T) {
	l := layered(t, v1alpha1.ClusterHub)
	l.until(v1alpha1.PhaseRunning)
	first := l.appOf(layers[0].String())
	l.appIs(first, "Degraded")
	l.mustReconcile()
	l.expectStates("app operator: Deploying ApplicationDegraded", "config operator: Healthy", "app search: Healthy")
	l.expect(v1alpha1.ConditionApplicationsHealthy, metav1.ConditionFalse, v1alpha1.ReasonApplicationDegraded)
	last := l.appOf(layers[2].String())
	l.deleteObject(last)
	l.finalize(l.appOf(layers[2].String()))
	l.mustReconcile()
	l.expectStates("app operator: Deploying ApplicationDegraded", "config operator: Healthy", "app search: Blocked DependencyNotHealthy")
}

// A component that the spec does not name any more goes, whatever the status says of it, and before the
// verdict; and nothing else does.
func TestPerComponentRemoved(t *testing.T) {
	l := layered(t, v1alpha1.ClusterGKE)
	for len(l.list(argocd.ApplicationGVK)) < 4 {
		l.mustReconcile()
		l.play()
	}
	copied := l.appOf(layers[1].String()).DeepCopy()
	copied.SetName("z-copy-by-somebody")
	copied.SetResourceVersion("")
	l.create(copied)
	l.edit(func(e *v1alpha1.Experiment) {
		e.Spec.Targets[0].Components = slices.Delete(slices.Clone(layers), 1, 2)
		e.Status.Targets[0].Components = nil
	})
	l.mustReconcile()
	removed := l.appOf(layers[1].String())
	if !going(removed) {
		t.Fatal("its Application stays")
	}
	l.expectStates("app operator: Healthy", "app search: Healthy", "config operator: Removing ApplicationProgressing")
	l.expect(v1alpha1.ConditionApplicationsHealthy, metav1.ConditionFalse, v1alpha1.ReasonApplicationProgressing)
	if n := len(l.list(argoworkflows.WorkflowGVK)); n != 0 {
		t.Errorf("there are %d Workflows", n)
	}
	l.settle(l.play)
	l.expectStates("app operator: Healthy", "app search: Healthy")
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
	l.remove()
	l.settle(func() bool {
		return l.letGo(func(o *unstructured.Unstructured) bool { return o.GetName() != copied.GetName() })
	})
	if left := l.list(argocd.ApplicationGVK); l.get() != nil || len(left) != 1 || going(&left[0]) {
		t.Errorf("left are %v", left)
	}
}

// One that is named again while it goes comes back when it is gone.
func TestPerComponentNamedAgain(t *testing.T) {
	l := layered(t, v1alpha1.ClusterHub)
	l.until(v1alpha1.PhaseRunning)
	before := l.appOf(layers[1].String()).GetUID()
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Targets[0].Components = layers[:1] })
	l.mustReconcile()
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Targets[0].Components = layers })
	l.settle(l.play)
	if app := l.appOf(layers[1].String()); app == nil || app.GetUID() == before || going(app) {
		t.Errorf("its Application is %v", app)
	}
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
}

// What a spec asked for that is not the spec any more, and the cache does not know it, deletes nothing.
func TestStaleSpecDeletesNoComponent(t *testing.T) {
	l := layered(t, v1alpha1.ClusterHub)
	l.until(v1alpha1.PhaseRunning)
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Targets[0].Components = layers[:1] })
	stale := l.get()
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Targets[0].Components = layers })
	l.writes = nil
	l.armed = true
	_, err := l.reconciler.Reconcile(t.Context(), stale)
	l.armed = false
	if err == nil || slices.Contains(l.writes, "delete Application") {
		t.Errorf("error %v, writes %v", err, l.writes)
	}
}

// A suspended Experiment keeps what the spec does not name any more.
func TestPerComponentSuspended(t *testing.T) {
	l := layered(t, v1alpha1.ClusterHub)
	l.until(v1alpha1.PhaseRunning)
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Suspend, e.Spec.Targets[0].Components = true, layers[:1] })
	l.mustReconcile()
	if n := len(l.list(argocd.ApplicationGVK)); n != 4 || going(l.appOf(layers[1].String())) {
		t.Errorf("there are %d Applications", n)
	}
}

// An Application that is being deleted and whose cluster another has taken the place of would wait for
// it for good: Argo CD knows only the new one.
func TestApplicationOfAReplacedClusterGoes(t *testing.T) {
	l := layered(t, v1alpha1.ClusterGKE)
	for len(l.list(argocd.ApplicationGVK)) < 3 {
		l.mustReconcile()
		l.play()
	}
	app := l.appOf(layers[2].String())
	app.SetFinalizers(append(app.GetFinalizers(), "example.com/keep"))
	l.update(app)
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Targets[0].Components = layers[:2] })
	l.mustReconcile()
	claim := l.list(crossplane.GKEClusterGVK)[0]
	l.deleteObject(&claim)
	claim = l.list(crossplane.GKEClusterGVK)[0]
	l.finalize(&claim)
	for range 3 {
		l.mustReconcile()
		for _, claim := range l.list(crossplane.GKEClusterGVK) {
			l.readyClaim(&claim)
		}
	}
	if app = l.appOf(layers[2].String()); app == nil || !slices.Equal(app.GetFinalizers(), []string{"example.com/keep"}) {
		t.Errorf("it is %v", app)
	}
}

// Every write fails once, up, through a change, and down.
func TestPerComponentWithEveryWriteFailingOnce(t *testing.T) {
	road := func(l *lab) {
		l.settle(l.deployAll)
		l.edit(func(e *v1alpha1.Experiment) { e.Spec.Targets[0].Components = slices.Delete(slices.Clone(layers), 1, 2) })
		l.settle(l.deployAll)
		l.settle(l.play)
	}
	reference := layered(t, v1alpha1.ClusterHub)
	road(reference)
	want, total := reference.end(), len(reference.writes)
	for k := 1; k <= total; k++ {
		l := layered(t, v1alpha1.ClusterHub)
		l.failAt, l.failWith, l.committed = k, errors.New("connection reset"), k%2 == 0
		road(l)
		if diff := cmp.Diff(want, l.end()); diff != "" {
			t.Errorf("write %d failing once (-want +got):\n%s", k, diff)
		}
		l.writes = nil
		l.remove()
		l.settle(l.play)
		if l.get() != nil || len(l.list(argocd.ApplicationGVK)) > 0 {
			t.Errorf("write %d of the way down failing once: something is left", k)
		}
	}
}

// deployAll plays Crossplane and Argo CD, and no Workflow ends.
func (l *lab) deployAll() bool {
	moved := false
	for _, claim := range l.list(crossplane.GKEClusterGVK) {
		moved = l.finalize(&claim) || l.readyClaim(&claim) || moved
	}
	return l.deploy() || moved
}

// What is tolerated counts as healthy, for what depends on it, too, and the status says that it is
// tolerated.
func TestTolerations(t *testing.T) {
	for name, policy := range map[string]v1alpha1.ApplicationPolicy{"alone": "", "among others": v1alpha1.ApplicationPerComponent} {
		t.Run(name, func(t *testing.T) {
			target := targetOf("app", v1alpha1.ClusterHub)
			target.ApplicationPolicy = policy
			l := newLab(t, experimentOf(target, targetOf("load", v1alpha1.ClusterHub, "app")), nginx(), template())
			l.mustReconcile()
			app := l.list(argocd.ApplicationGVK)[0]
			l.appIs(&app, "Degraded")
			l.mustReconcile()
			l.expect(v1alpha1.ConditionApplicationsHealthy, metav1.ConditionFalse, v1alpha1.ReasonApplicationDegraded)
			l.edit(func(e *v1alpha1.Experiment) {
				e.Spec.Targets[0].Components[0].Tolerations = []v1alpha1.Toleration{v1alpha1.TolerateDegraded}
			})
			l.mustReconcile()
			if got := l.get().Status.Targets; got[0].State != v1alpha1.TargetHealthy || !strings.Contains(got[0].Message, "health Degraded, sync Synced, which is tolerated") ||
				got[1].State == v1alpha1.TargetBlocked {
				t.Errorf("targets are %+v", got)
			}
			if n := len(l.list(argocd.ApplicationGVK)); n != 2 {
				t.Errorf("there are %d Applications", n)
			}
		})
	}
}
