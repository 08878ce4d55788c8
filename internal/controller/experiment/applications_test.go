package experiment

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

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

// What needs what another component brings is deployed when that works, and taken down
// before it.
func TestNote21And37PerComponentOrder(t *testing.T) {
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
	l.expectStates("app operator: Deploying ApplicationDegraded", "config operator: Healthy", "app search: Deploying ApplicationProgressing")
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
	})
	e := l.get()
	e.Status.Targets[0].Components = nil
	if err := l.client.Status().Update(t.Context(), e); err != nil {
		t.Fatal(err)
	}
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

// A registration is not waited for where nothing is removed.
func TestRegistrationIsNotWaitedFor(t *testing.T) {
	l := layered(t, v1alpha1.ClusterGKE)
	for len(l.list(argocd.SecretGVK)) == 0 {
		l.play()
		l.writes = nil
		if looks := l.pass(); slices.Contains(l.writes, "create Secret") && looks > 0 && looks < lastLook {
			t.Errorf("it looks again in %s", looks)
		}
	}
}

// One that the spec does not name any more goes when its cluster is registered, or Argo CD would leave what it deployed.
func TestRemovedWhereNothingIsRegistered(t *testing.T) {
	for name, told := range map[string]bool{"Argo CD says so": true, "Argo CD has not looked yet": false} {
		t.Run(name, func(t *testing.T) {
			l := layered(t, v1alpha1.ClusterGKE)
			for len(l.list(argocd.ApplicationGVK)) < 4 {
				l.mustReconcile()
				l.play()
			}
			l.delete(argocd.SecretGVK)
			if told {
				app := l.appOf(layers[0].String())
				app.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "InvalidSpecError", "message": "there are no clusters with this name"}}}
				l.update(app)
			}
			l.edit(func(e *v1alpha1.Experiment) {
				e.Spec.Targets[0].Components = slices.Delete(slices.Clone(layers), 1, 2)
			})
			l.writes = nil
			for range 3 {
				l.mustReconcile()
			}
			registered, deleted := slices.Index(l.writes, "create Secret"), slices.Index(l.writes, "delete Application")
			if registered < 0 || deleted < registered || !slices.Contains(l.writes[registered:deleted], "patch Experiment/status") {
				t.Errorf("in one pass or the other order, it writes %v", l.writes)
			}
		})
	}
}

// Where it cannot be known whether Argo CD knows the cluster, nothing is removed from it.
func TestRemovedWhereSecretsCannotBeRead(t *testing.T) {
	l := layered(t, v1alpha1.ClusterGKE)
	for len(l.list(argocd.ApplicationGVK)) < 4 {
		l.mustReconcile()
		l.play()
	}
	l.edit(func(e *v1alpha1.Experiment) {
		e.Spec.Targets[0].Components = slices.Delete(slices.Clone(layers), 1, 2)
	})
	l.getErrors["Secret"], l.armed = apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "x", errors.New("no rights")), true
	l.writes = nil
	if err := l.reconcile(); err == nil || slices.Contains(l.writes, "delete Application") {
		t.Errorf("it writes %v, error %v", l.writes, err)
	}
	l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonForbidden)
}

// One that is named again while it goes comes back when it is gone.
func TestPerComponentNamedAgain(t *testing.T) {
	l := layered(t, v1alpha1.ClusterHub)
	l.until(v1alpha1.PhaseRunning)
	before := l.appOf(layers[2].String()).GetUID()
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Targets[0].Components = layers[:2] })
	l.mustReconcile()
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Targets[0].Components = layers })
	l.settle(l.play)
	if app := l.appOf(layers[2].String()); app == nil || app.GetUID() == before || going(app) {
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
func TestNote20Tolerations(t *testing.T) {
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

// Each Application tolerates what its only component does, and one of several nothing: they cannot be told apart.
func TestWhatApplicationsTolerate(t *testing.T) {
	both := []v1alpha1.Toleration{v1alpha1.TolerateDegraded, v1alpha1.TolerateOutOfSync}
	a, b := v1alpha1.ComponentRef{App: "a", Tolerations: both}, v1alpha1.ComponentRef{App: "b", Tolerations: both[:1]}
	for name, test := range map[string]struct {
		policy     v1alpha1.ApplicationPolicy
		components []v1alpha1.ComponentRef
		want       []argocd.Tolerated
	}{
		"one for all":             {"", []v1alpha1.ComponentRef{a}, []argocd.Tolerated{{OutOfSync: true, Degraded: true}}},
		"one for all, said":       {v1alpha1.ApplicationPerTarget, []v1alpha1.ComponentRef{b}, []argocd.Tolerated{{Degraded: true}}},
		"one for all, of several": {v1alpha1.ApplicationPerTarget, []v1alpha1.ComponentRef{a, b}, []argocd.Tolerated{{}}},
		"one for each":            {v1alpha1.ApplicationPerComponent, []v1alpha1.ComponentRef{a, b, {App: "c"}}, []argocd.Tolerated{{OutOfSync: true, Degraded: true}, {Degraded: true}, {}}},
	} {
		target := targetOf("app", v1alpha1.ClusterHub)
		target.ApplicationPolicy, target.Components = test.policy, test.components
		var got []argocd.Tolerated
		for _, p := range (names{experimentOf(target), labOptions}).partsOf(target) {
			got = append(got, p.tolerated)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// replaceCluster lets somebody delete the claim, and Crossplane make the next.
func (l *lab) replaceCluster() {
	claim := l.list(crossplane.GKEClusterGVK)[0]
	l.deleteObject(&claim)
	claim = l.list(crossplane.GKEClusterGVK)[0]
	l.finalize(&claim)
	l.mustReconcile()
	for _, claim := range l.list(crossplane.GKEClusterGVK) {
		l.readyClaim(&claim)
	}
}

// The API server takes no status that has a component twice, so nothing would be told at all.
func TestComponentNamedTwiceIsToldOf(t *testing.T) {
	l := layered(t, v1alpha1.ClusterHub)
	l.until(v1alpha1.PhaseRunning)
	l.edit(func(e *v1alpha1.Experiment) {
		e.Spec.Targets[0].Components = []v1alpha1.ComponentRef{layers[0], layers[0]}
	})
	l.mustReconcile()
	l.expect(v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonInvalidSpec)
	seen := map[string]bool{}
	for _, c := range l.get().Status.Targets[0].Components {
		if seen[c.Name] {
			t.Errorf("status.targets[0].components has %q twice; it is a map by name, and the API server refuses the whole status", c.Name)
		}
		seen[c.Name] = true
	}
}

// However many layers there are, a paid cluster waits for its share of the deadline only.
func TestStuckLayersDoNotKeepTheCluster(t *testing.T) {
	target := targetOf("app", v1alpha1.ClusterGKE)
	target.ApplicationPolicy = v1alpha1.ApplicationPerComponent
	target.Components = nil
	for _, name := range strings.Fields("a b c d e f g h i j") {
		target.Components = append(target.Components, v1alpha1.ComponentRef{App: name})
	}
	l := newLab(t, experimentOf(target), nginx(), template())
	l.reconciler.Options.Fallback = Fallback{RepoURL: "https://git.example.com/components.git", Revision: "v1"}
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
	l.remove()
	for at := time.Duration(0); at < 5*time.Hour; at += time.Minute {
		l.later(at)
		for range 3 {
			_ = l.reconcile()
			l.without(argocd.ApplicationGVK)()
		}
		claims := l.list(crossplane.GKEClusterGVK)
		if len(claims) == 0 || going(&claims[0]) {
			if at > 30*time.Minute {
				t.Errorf("the cluster, which costs, is asked to go after %s; spec.deletion.deadline is 30m, and an Application may hold it up for a quarter of it", at)
			}
			return
		}
	}
	t.Error("never")
}

// Of those that are taken out of the spec together the last goes first.
func TestComponentsRemovedTogether(t *testing.T) {
	l := layered(t, v1alpha1.ClusterHub)
	for i, ref := range layers { // as an API server would
		l.mustReconcile()
		app := l.appOf(ref.String())
		app.SetCreationTimestamp(metav1.NewTime(epoch.Add(time.Duration(i) * time.Minute)))
		l.update(app)
		l.appIs(app, "Healthy")
	}
	l.mustReconcile()
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Targets[0].Components = layers[2:] })
	l.mustReconcile()
	if !going(l.appOf("config operator")) || going(l.appOf("app operator")) {
		t.Errorf("config operator goes: %v, app operator, which it needs to go, goes: %v", going(l.appOf("config operator")), going(l.appOf("app operator")))
	}
}

// That a deletion was refused before the teardown takes nothing of its time.
func TestRefusalOfBeforeIsNotOfTheTeardown(t *testing.T) {
	l := layered(t, v1alpha1.ClusterGKE)
	l.until(v1alpha1.PhaseRunning)
	l.forbid("delete", "Application")
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Targets[0].Components = layers[:2] })
	_ = l.reconcile()
	l.refuse = nil
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Targets[0].Components = layers })
	l.later(time.Hour)
	l.mustReconcile()
	l.remove()
	l.tick(func() bool {
		return l.letGo(func(o *unstructured.Unstructured) bool { return o.GroupVersionKind() == argoworkflows.WorkflowGVK })
	})
	// "load" depends on app and goes first.
	l.tick(func() bool {
		return l.letGo(func(o *unstructured.Unstructured) bool { return o.GetLabels()[v1alpha1.LabelTarget] == "load" })
	})
	if !going(l.appOf("app search")) {
		t.Fatal("app search does not go")
	}
	if going(l.appOf("config operator")) {
		t.Error("config operator goes while app search, which was asked to go now, is there")
	}
}

// What degrades while the Workflow runs does not undo it, and keeps nothing else from coming back.
func TestPerComponentDeletedWhileAnEarlierIsDegraded(t *testing.T) {
	l := layered(t, v1alpha1.ClusterHub)
	l.until(v1alpha1.PhaseRunning)
	l.appIs(l.appOf(layers[0].String()), "Degraded")
	l.deleteObject(l.appOf(layers[2].String()))
	l.finalize(l.appOf(layers[2].String()))
	l.settle(func() bool {
		moved := false
		for _, w := range l.list(argoworkflows.WorkflowGVK) {
			moved = l.succeed(&w) || moved
		}
		if app := l.appOf(layers[2].String()); app != nil {
			moved = l.appIs(app, "Healthy") || moved
		}
		return moved
	})
	l.expect(v1alpha1.ConditionWorkflowSucceeded, metav1.ConditionTrue, v1alpha1.ReasonWorkflowSucceeded)
}

// An Application that wakes nobody is looked at all the same.
func TestRetiredApplicationWithoutItsOwnerIsLookedAt(t *testing.T) {
	l := layered(t, v1alpha1.ClusterHub)
	l.until(v1alpha1.PhaseRunning)
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Targets[0].Components = layers[:2] })
	l.mustReconcile()
	app := l.appOf(layers[2].String())
	annotations := app.GetAnnotations()
	delete(annotations, v1alpha1.AnnotationOwner)
	app.SetAnnotations(annotations)
	l.update(app)
	if wait := l.pass(); wait > time.Minute {
		t.Errorf("an Application that goes and wakes nobody is looked at after %s", wait)
	}
}

// The status knows it, too.
func TestComponentThatHasLostItsAnnotation(t *testing.T) {
	l := layered(t, v1alpha1.ClusterHub)
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
	app := l.appOf(layers[2].String())
	annotations := app.GetAnnotations()
	delete(annotations, v1alpha1.AnnotationComponent)
	app.SetAnnotations(annotations)
	l.update(app)
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Targets[0].Components = layers[:2] })
	l.remove()
	l.settle(l.play)
	if left := l.list(argocd.ApplicationGVK); l.get() == nil && len(left) > 0 {
		t.Errorf("the Experiment is gone and %s is left", left[0].GetName())
	}
}

// What Crossplane has not begun with may be a composite.
func TestCompositeThatIsNotBoundYet(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
	l.mustReconcile()
	claim := l.list(crossplane.GKEClusterGVK)[0]
	claim.SetFinalizers([]string{"composite.apiextensions.crossplane.io"})
	l.update(&claim)
	l.remove()
	l.tick()
	if !slices.Contains(l.foreground, "GKECluster") {
		t.Errorf("a GKECluster of which is not seen yet what it is, is deleted in the background")
	}
}

// Argo CD tries for ever to heal what is tolerated.
func TestHealingDoesNotFlap(t *testing.T) {
	target := targetOf("app", v1alpha1.ClusterHub)
	target.Components[0].Tolerations = []v1alpha1.Toleration{v1alpha1.TolerateOutOfSync}
	l := newLab(t, experimentOf(target), nginx(), template())
	l.mustReconcile()
	says := func(phase string) {
		app := l.list(argocd.ApplicationGVK)[0]
		sources, _, _ := unstructured.NestedSlice(app.Object, "spec", "sources")
		dest, _, _ := unstructured.NestedMap(app.Object, "spec", "destination")
		app.Object["status"] = map[string]any{
			"health": map[string]any{"status": "Healthy"}, "reconciledAt": "2026-03-01T11:00:01Z",
			"operationState": map[string]any{"phase": phase, "finishedAt": "2026-03-01T11:00:00Z", "syncResult": map[string]any{"sources": sources},
				"operation": map[string]any{"sync": map[string]any{"autoHealAttemptsCount": int64(3), "sources": sources}}},
			"sync":      map[string]any{"status": "OutOfSync", "comparedTo": map[string]any{"sources": sources, "destination": dest}},
			"resources": []any{map[string]any{"kind": "Deployment", "name": "web", "status": "OutOfSync"}},
		}
		l.update(&app)
	}
	says("Succeeded")
	l.mustReconcile()
	l.mustReconcile() // the Workflow
	l.writes = nil
	l.drain()
	for range 10 { // Argo CD heals what a webhook changes again
		says("Running")
		l.mustReconcile()
		says("Succeeded")
		l.mustReconcile()
	}
	if len(l.writes) > 0 {
		t.Errorf("writes %v, events %v", l.writes, l.drain())
	}
}

// What a change creates comes before what it deletes.
func TestWhatTakesThePlaceIsRefused(t *testing.T) {
	l := layered(t, v1alpha1.ClusterHub)
	l.until(v1alpha1.PhaseRunning)
	l.forbid("create", "Application")
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Targets[0].Components = []v1alpha1.ComponentRef{{App: "other"}} })
	_ = l.reconcile()
	if app := l.appOf("app search"); going(app) && l.get().Status.Targets[0].State == v1alpha1.TargetHealthy {
		t.Errorf("what takes its place is refused, %s goes all the same, and the status says %v", app.GetName(), l.componentStates())
	}
}

// What is tolerated is not said to be Healthy and Synced.
func TestWhatIsToldOfWhatIsTolerated(t *testing.T) {
	l := layered(t, v1alpha1.ClusterHub)
	l.edit(func(e *v1alpha1.Experiment) {
		e.Spec.Targets[0].Components = slices.Clone(layers)
		e.Spec.Targets[0].Components[1].Tolerations = []v1alpha1.Toleration{v1alpha1.TolerateDegraded}
	})
	for _, ref := range layers {
		l.mustReconcile()
		health := "Healthy"
		if ref.Config != "" {
			health = "Degraded"
		}
		l.appIs(l.appOf(ref.String()), health)
	}
	l.mustReconcile()
	for _, app := range l.list(argocd.ApplicationGVK) {
		if app.GetLabels()[v1alpha1.LabelTarget] == "load" {
			l.appIs(&app, "Healthy")
		}
	}
	l.mustReconcile()
	for _, e := range l.drain() {
		if strings.Contains(e, "Application  is Healthy") {
			t.Errorf("event %q", e)
		}
	}
	if c := recordedStep(l.get().Status.Conditions, v1alpha1.ConditionApplicationsHealthy); c.Message == "Every Application is Healthy and Synced" {
		t.Errorf("one is Degraded and tolerated, and the condition says %q", c.Message)
	}
}

// While a cluster is not up, nothing is said of its components that nobody has looked at.
func TestComponentStatesWhileTheClusterIsNot(t *testing.T) {
	l := layered(t, v1alpha1.ClusterGKE)
	for len(l.list(argocd.ApplicationGVK)) < 1 {
		l.mustReconcile()
		for _, claim := range l.list(crossplane.GKEClusterGVK) {
			l.readyClaim(&claim)
		}
	}
	l.appIs(l.appOf("app operator"), "Degraded")
	l.mustReconcile()
	l.claimSays("False", "True", "Unavailable", "x")
	l.mustReconcile()
	for _, c := range l.get().Status.Targets[0].Components {
		if c.State == v1alpha1.ComponentDeploying && c.Reason == "" {
			t.Errorf("component %s is %s without a reason", c.Name, c.State)
		}
	}
}

// On a cluster that takes the place of another everything is deployed anew, in its order: Argo CD would run
// no hooks, and take what was synced for synced.
func TestLayersOnAReplacedCluster(t *testing.T) {
	for name, policy := range map[string]v1alpha1.ApplicationPolicy{"per component": v1alpha1.ApplicationPerComponent, "per target": v1alpha1.ApplicationPerTarget} {
		t.Run(name, func(t *testing.T) {
			l := layered(t, v1alpha1.ClusterGKE)
			l.edit(func(e *v1alpha1.Experiment) { e.Spec.Targets[0].ApplicationPolicy = policy })
			l.until(v1alpha1.PhaseRunning)
			before := map[string]bool{}
			for _, app := range l.list(argocd.ApplicationGVK) {
				before[string(app.GetUID())] = app.GetLabels()[v1alpha1.LabelTarget] == "app"
			}
			old := l.list(crossplane.GKEClusterGVK)[0].GetUID()
			l.replaceCluster()
			l.mustReconcile()
			if now := l.list(crossplane.GKEClusterGVK)[0].GetUID(); now == old {
				t.Fatal("it is the same cluster")
			}
			// Argo CD cannot do anything for a cluster that it does not know any more.
			for range 4 {
				l.mustReconcile()
			}
			apps := slices.DeleteFunc(l.list(argocd.ApplicationGVK), func(app unstructured.Unstructured) bool { return app.GetLabels()[v1alpha1.LabelTarget] != "app" })
			if len(apps) != 1 || before[string(apps[0].GetUID())] || going(&apps[0]) {
				t.Errorf("there are %d Applications: %v", len(apps), apps)
			}
			l.settle(l.play)
			l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
			for _, app := range l.list(argocd.ApplicationGVK) {
				if before[string(app.GetUID())] {
					t.Errorf("%s is what it was", app.GetName())
				}
			}
		})
	}
}

// releasesOf are the names of the Helm releases of the only Application.
func (l *lab) releasesOf() (names []string) {
	l.t.Helper()
	apps := l.list(argocd.ApplicationGVK)
	if len(apps) != 1 {
		l.t.Fatalf("there are %d Applications", len(apps))
	}
	sources, _, _ := unstructured.NestedSlice(apps[0].Object, "spec", "sources")
	for _, source := range sources {
		name, _, _ := unstructured.NestedString(source.(map[string]any), "helm", "releaseName")
		names = append(names, name)
	}
	return names
}

// Charts call Services by their release, so its name begins with a letter; a folder gets none, which would make a chart of it, and
// what was deployed by another name keeps that.
func TestReleasesOfNamesWithADigit(t *testing.T) {
	web := nginx()
	web.Spec.Sources = append(web.Spec.Sources, chart(&v1alpha1.HelmSource{ReleaseName: "own"}), folder, v1alpha1.ComponentSource{
		RepoURL: folder.RepoURL, Path: "chart", Helm: &v1alpha1.HelmSource{},
	})
	e := experimentOf(targetOf("app", v1alpha1.ClusterHub))
	e.Name = "7-days-of-" + strings.Repeat("x", 40)
	l := newLab(t, e, web, template())
	l.until(v1alpha1.PhaseReady)
	want := names{l.get(), l.reconciler.Options}.release(e.Spec.Targets[0], "")
	if !strings.HasPrefix(want, "r-7-days") || len(want) > argocd.MaxApplicationName {
		t.Errorf("the name is %s", want)
	}
	expect := func(when string, names ...string) {
		t.Helper()
		l.mustReconcile()
		if diff := cmp.Diff(names, l.releasesOf()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	expect("a new one", want, "own", "", want)
	change := func(how func(app *unstructured.Unstructured, helm map[string]any)) {
		app := l.list(argocd.ApplicationGVK)[0]
		sources, _, _ := unstructured.NestedSlice(app.Object, "spec", "sources")
		for _, i := range []int{0, 3} {
			how(&app, sources[i].(map[string]any))
		}
		if err := unstructured.SetNestedSlice(app.Object, sources, "spec", "sources"); err != nil {
			t.Fatal(err)
		}
		l.update(&app)
	}
	unannotated := func(app *unstructured.Unstructured, _ map[string]any) {
		annotations := app.GetAnnotations()
		delete(annotations, v1alpha1.AnnotationRelease)
		app.SetAnnotations(annotations)
	}
	unnamed := func(_ *unstructured.Unstructured, source map[string]any) { delete(source, "helm") }
	change(unannotated)
	expect("without the annotation", want, "own", "", want)
	change(unnamed)
	expect("without the names", want, "own", "", want)
	change(func(app *unstructured.Unstructured, source map[string]any) { // as an older version has made it
		unannotated(app, source)
		unnamed(app, source)
	})
	expect("an older one", "", "own", "", "")
}
