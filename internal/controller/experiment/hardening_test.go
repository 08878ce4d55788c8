package experiment

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/argoworkflows"
	"github.com/labkeeper/labkeeper/internal/external/crossplane"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// A kind of which the cluster no longer serves our version may have objects that cost money.
func TestTeardownWaitsForKindsItCannotSee(t *testing.T) {
	l := tutorial(t)
	l.settle(l.play)
	l.kinds[crossplane.GKEClusterGVK] = kube.KindUnserved
	l.remove()
	l.settle(l.play)
	if l.get() == nil {
		t.Fatal("the finalizer went while a claim may be there")
	}
	l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDeleting)
	if m := l.message(v1alpha1.ConditionReady); !strings.Contains(m, "GKECluster") {
		t.Errorf("it does not say for what it waits: %s", m)
	}
	l.kinds[crossplane.GKEClusterGVK] = kube.KindServed
	l.settle(l.play)
	if l.get() != nil || len(l.list(crossplane.GKEClusterGVK)) > 0 {
		t.Error("it is not taken down")
	}
}

func (l *lab) message(conditionType string) string {
	l.t.Helper()
	c := meta.FindStatusCondition(l.get().Status.Conditions, conditionType)
	if c == nil {
		l.t.Fatalf("there is no condition %s", conditionType)
	}
	return c.Message
}

// says expects a part of what is said of the Workflow.
func (l *lab) says(part string) {
	l.t.Helper()
	if m := l.message(v1alpha1.ConditionWorkflowSucceeded); !strings.Contains(m, part) {
		l.t.Errorf("of the Workflow it says %q, and not %q", m, part)
	}
}

// A manager that is told other namespaces would neither find nor take down what is there.
func TestChangedNamespaces(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"claims":    func(o *Options) { o.ClaimNamespace = "claims" },
		"Argo CD":   func(o *Options) { o.ArgoCDNamespace = "argocd2" },
		"Workflows": func(o *Options) { o.WorkflowNamespace = "argo2" },
	} {
		t.Run(name, func(t *testing.T) {
			l := tutorial(t)
			l.until(v1alpha1.PhaseRunning)
			before, targets := l.reconciler.Options, l.get().Status.Targets
			change(&l.reconciler.Options)
			creates := len(l.writes)
			l.settle(func() bool { return false })
			l.expect(v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonNamespacesChanged)
			l.expect(v1alpha1.ConditionApplicationsHealthy, metav1.ConditionTrue, v1alpha1.ReasonApplicationsHealthy)
			l.expect(v1alpha1.ConditionWorkflowSucceeded, metav1.ConditionFalse, v1alpha1.ReasonWorkflowRunning)
			if diff := cmp.Diff(targets, l.get().Status.Targets); diff != "" {
				t.Errorf("targets (-before +after):\n%s", diff)
			}
			for _, w := range l.writes[creates:] {
				if w != "patch Experiment/status" {
					t.Errorf("it goes on: %s", w)
				}
			}
			l.remove()
			l.settle(l.play)
			if l.get() == nil {
				t.Fatal("the finalizer went while everything is there")
			}
			l.reconciler.Options = before
			l.settle(l.play)
			if l.get() != nil || len(l.list(crossplane.GKEClusterGVK))+len(l.list(argocd.ApplicationGVK)) > 0 {
				t.Error("it is not taken down")
			}
		})
	}
}

// What is created for an Experiment that is gone stays for good.
func TestStaleExperimentCreatesNothing(t *testing.T) {
	l := tutorial(t)
	if err := l.reconcile(); err != nil {
		t.Fatal(err)
	}
	stale := l.get()
	l.remove()
	l.settle(l.play)
	if l.get() != nil {
		t.Fatal("it is still there")
	}
	l.armed, l.writes = true, nil
	_, err := l.reconciler.Reconcile(t.Context(), stale)
	if !apierrors.IsConflict(err) || len(l.writes) > 0 {
		t.Errorf("error is %v, writes are %v", err, l.writes)
	}
}

// A Workflow that is submitted for an old spec stays the only one.
func TestStaleSpecCreatesNothing(t *testing.T) {
	l := tutorial(t)
	if err := l.reconcile(); err != nil {
		t.Fatal(err)
	}
	stale := l.get()
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.TTLDays++ })
	l.play() // there is an Application to be created now
	l.armed, l.writes = true, nil
	_, err := l.reconciler.Reconcile(t.Context(), stale)
	if !apierrors.IsConflict(err) || len(l.writes) > 0 {
		t.Errorf("error is %v, writes are %v", err, l.writes)
	}
}

// behind is a cache that does not have Applications and Workflows yet.
type behind struct{ client.Reader }

func (b behind) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if kind := kindOf(o); kind == "Application" || kind == "Workflow" {
		return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, key.Name)
	}
	return b.Reader.Get(ctx, key, o, opts...)
}

// An Application does not go back to an old spec.
func TestStaleSpecChangesNothing(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("web", v1alpha1.ClusterHub)), nginx(), template())
	l.until(v1alpha1.PhaseRunning)
	stale := l.get()
	l.edit(func(e *v1alpha1.Experiment) {
		e.Spec.Targets[0].Components[0].Params = map[string]string{"replicaCount": "7"}
	})
	if err := l.reconcile(); err != nil {
		t.Fatal(err)
	}
	l.armed, l.writes = true, nil
	_, err := l.reconciler.Reconcile(t.Context(), stale)
	// It takes the Workflow for deleted by somebody, and says so, which the server refuses.
	if !apierrors.IsConflict(err) || !slices.Equal(l.writes, []string{"patch Experiment/status"}) {
		t.Errorf("error is %v, writes are %v", err, l.writes)
	}
}

// A Workflow that somebody has deleted is not submitted again by who has not seen that it was.
func TestStaleStatusSubmitsNothing(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("web", v1alpha1.ClusterHub)), nginx(), template())
	var stale *v1alpha1.Experiment
	for l.get() == nil || l.get().Status.Workflow == nil {
		stale = l.get()
		if err := l.reconcile(); err != nil {
			t.Fatal(err)
		}
		if l.get().Status.Workflow == nil {
			l.play()
		}
	}
	l.delete(argoworkflows.WorkflowGVK)
	l.armed, l.writes = true, nil
	_, err := l.reconciler.Reconcile(t.Context(), stale)
	if !apierrors.IsConflict(err) || len(l.writes) > 0 {
		t.Errorf("error is %v, writes are %v", err, l.writes)
	}
}

// formerly is a client whose cache has a Component as it was.
type formerly struct {
	client.Client
	was *v1alpha1.Component
}

func (f formerly) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if c, is := o.(*v1alpha1.Component); is && key.Name == f.was.Name {
		f.was.DeepCopyInto(c)
		return nil
	}
	return f.Client.Get(ctx, key, o, opts...)
}

// What is deployed does not go back to what a Component was, nor is the Workflow taken back that validates what it is.
func TestStaleComponentChangesNothing(t *testing.T) {
	for name, phase := range map[string]v1alpha1.Phase{"deploying": v1alpha1.PhaseReady, "running": v1alpha1.PhaseRunning} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, experimentOf(targetOf("web", v1alpha1.ClusterHub)), nginx(), template())
			was, now := &v1alpha1.Component{}, &v1alpha1.Component{}
			for _, c := range []*v1alpha1.Component{was, now} {
				if err := l.client.Get(t.Context(), client.ObjectKey{Name: "nginx"}, c); err != nil {
					t.Fatal(err)
				}
			}
			now.Spec.Sources[0].TargetRevision = "2.0.0"
			l.update(now)
			l.until(phase)
			if phase == v1alpha1.PhaseReady && len(l.list(argocd.ApplicationGVK)) == 0 {
				l.mustReconcile()
			}
			l.reconciler.Client = formerly{l.client, was}
			l.armed, l.writes = true, nil
			_, err := l.reconciler.Reconcile(t.Context(), l.get())
			if !apierrors.IsConflict(err) || len(l.writes) > 0 {
				t.Errorf("error is %v, writes are %v", err, l.writes)
			}
		})
	}
}

// before is a cache that has some objects as they were.
type before struct {
	client.Reader
	were []unstructured.Unstructured
}

func (b before) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	for _, was := range b.were {
		if kindOf(o) == was.GetKind() && client.ObjectKeyFromObject(&was) == key {
			was.DeepCopyInto(o.(*unstructured.Unstructured))
			return nil
		}
	}
	return b.Reader.Get(ctx, key, o, opts...)
}

// hasNoVerdictWhileTheCacheHas objects as they were; then the cache catches up.
func (l *lab) hasNoVerdictWhileTheCacheHas(were []unstructured.Unstructured) {
	l.t.Helper()
	l.reconciler.Foreign = before{l.client, were}
	if err := l.reconcile(); err != nil {
		l.t.Fatal(err)
	}
	if at := l.get().Status.CompletedAt; at != nil {
		l.t.Errorf("it is complete at %s", at)
	}
	l.reconciler.Foreign = l.client
	l.settle(l.play)
}

// An Application that the cache alone has as it was validated is put right before the verdict:
// nothing is looked at after it.
func TestStaleApplicationsHaveNoVerdict(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("web", v1alpha1.ClusterHub)), nginx(), template())
	l.until(v1alpha1.PhaseRunning)
	validated := l.list(argocd.ApplicationGVK)
	workflow := l.list(argoworkflows.WorkflowGVK)[0]
	l.succeed(&workflow)
	edited := validated[0].DeepCopy()
	sources, _, _ := unstructured.NestedSlice(edited.Object, "spec", "sources")
	if err := unstructured.SetNestedSlice(edited.Object, append(sources, sources[0]), "spec", "sources"); err != nil {
		t.Fatal(err)
	}
	l.update(edited)

	l.hasNoVerdictWhileTheCacheHas(validated)
	if l.get().Status.Phase != v1alpha1.PhaseComplete {
		t.Errorf("it is %s: %s", l.get().Status.Phase, l.message(v1alpha1.ConditionApplicationsHealthy))
	}
	if got, _, _ := unstructured.NestedSlice(l.list(argocd.ApplicationGVK)[0].Object, "spec", "sources"); len(got) != len(sources) {
		t.Errorf("what is deployed is not what was validated: %v", got)
	}
}

// A cluster that took the place of the one that was validated, unseen by the cache, is put right
// before the verdict, too.
func TestStaleClustersHaveNoVerdict(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("web", v1alpha1.ClusterGKE)), nginx(), template())
	l.until(v1alpha1.PhaseRunning)
	old := l.list(crossplane.GKEClusterGVK)
	workflow := l.list(argoworkflows.WorkflowGVK)[0]
	l.succeed(&workflow)
	other := old[0].DeepCopy()
	none := old[0].DeepCopy()
	none.SetFinalizers(nil)
	l.update(none)
	l.delete(crossplane.GKEClusterGVK)
	other.SetUID("another")
	other.SetResourceVersion("")
	l.create(other)

	l.hasNoVerdictWhileTheCacheHas(old)
	app := l.list(argocd.ApplicationGVK)[0]
	if name, _, _ := unstructured.NestedString(app.Object, "spec", "destination", "name"); l.get().Status.Phase != v1alpha1.PhaseComplete || name == "" {
		t.Errorf("it is %s, deployed to %q", l.get().Status.Phase, name)
	}
}

// goesWhenSeen has the cache catch up, and the Experiment go.
func (l *lab) goesWhenSeen() {
	l.t.Helper()
	l.reconciler.Foreign = l.client
	l.settle(l.play)
	if l.get() != nil {
		l.t.Error("it is still there")
	}
}

// A cluster goes after what is deployed on it, also when only the server knows of that.
func TestStaleTeardownKeepsTheOrder(t *testing.T) {
	l := tutorial(t)
	l.until(v1alpha1.PhaseRunning)
	l.remove()
	l.reconciler.Foreign = behind{l.client}
	if err := l.reconcile(); err != nil {
		t.Fatal(err)
	}
	for _, claim := range l.list(crossplane.GKEClusterGVK) {
		if claim.GetDeletionTimestamp() != nil {
			t.Error("the cluster goes before its Applications")
		}
	}
	if len(l.list(crossplane.GKEClusterGVK)) == 0 || len(l.list(argocd.SecretGVK)) == 0 {
		t.Error("the cluster is gone before its Applications")
	}
	l.goesWhenSeen()
}

// What a verdict leaves in the status is true: it waits for a cache that has something of a moment before.
func TestStaleStatusOfAVerdict(t *testing.T) {
	fail := func(l *lab) {
		workflow := l.list(argoworkflows.WorkflowGVK)[0]
		workflow.Object["status"] = map[string]any{"phase": argoworkflows.PhaseFailed, "message": "as told"}
		l.update(&workflow)
	}
	succeed := func(l *lab) {
		workflow := l.list(argoworkflows.WorkflowGVK)[0]
		l.succeed(&workflow)
	}
	for name, test := range map[string]struct {
		kind  schema.GroupVersionKind
		ends  func(*lab)
		phase v1alpha1.Phase
	}{
		"a bad one, of an Application":  {argocd.ApplicationGVK, fail, v1alpha1.PhaseFailed},
		"a bad one, of a cluster":       {crossplane.GKEClusterGVK, fail, v1alpha1.PhaseFailed},
		"a good one, of an Application": {argocd.ApplicationGVK, succeed, v1alpha1.PhaseComplete},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, experimentOf(targetOf("web", v1alpha1.ClusterGKE)), nginx(), template())
			l.until(v1alpha1.PhaseRunning)
			was := l.list(test.kind)
			for i := range was {
				was[i].SetResourceVersion("1")
				if test.phase == v1alpha1.PhaseComplete { // which one that degrades does not undo
					_ = unstructured.SetNestedField(was[i].Object, "Degraded", "status", "health", "status")
				} else {
					was[i].Object["status"] = map[string]any{}
				}
			}
			test.ends(l)
			for _, foreign := range []client.Reader{before{l.client, was}, lacking{l.client, func(o *unstructured.Unstructured) bool {
				return o.GroupVersionKind() == test.kind
			}}} {
				l.reconciler.Foreign = foreign
				l.mustReconcile()
				if at := l.get().Status.CompletedAt; at != nil {
					t.Errorf("%T: there is a verdict: %s", foreign, l.message(v1alpha1.ConditionApplicationsHealthy))
				}
			}
			l.reconciler.Foreign = l.client
			l.mustReconcile()
			if got := l.get().Status.Phase; got != test.phase {
				t.Errorf("it is %s, want %s", got, test.phase)
			}
			l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionTrue, v1alpha1.ReasonClustersReady)
			l.expect(v1alpha1.ConditionApplicationsHealthy, metav1.ConditionTrue, v1alpha1.ReasonApplicationsHealthy)
		})
	}
}

// lacking is a cache that does not have some objects yet.
type lacking struct {
	client.Reader
	lacks func(*unstructured.Unstructured) bool
}

func (w lacking) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := w.Reader.Get(ctx, key, o, opts...)
	if u, ok := o.(*unstructured.Unstructured); ok && err == nil && w.lacks(u) {
		return apierrors.NewNotFound(schema.GroupResource{Resource: u.GetKind()}, key.Name)
	}
	return err
}

func (w lacking) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := w.Reader.List(ctx, list, opts...)
	if all, ok := list.(*unstructured.UnstructuredList); ok {
		all.Items = slices.DeleteFunc(all.Items, func(u unstructured.Unstructured) bool { return w.lacks(&u) })
	}
	return err
}

// What is deployed on an Application goes before it, also when only the server knows of that: another target's Application, that of
// a component after it, and the Workflow, which was submitted a moment before the manager was stopped.
func TestStaleTeardownKeepsTheOrderOfApplications(t *testing.T) {
	alone := targetOf("app", v1alpha1.ClusterHub)
	alone.ApplicationPolicy, alone.Components = v1alpha1.ApplicationPerComponent, layers
	last := func(app *unstructured.Unstructured) bool { return componentOf(app) == layers[2].String() }
	for name, test := range map[string]struct {
		lab   *lab
		lacks func(*unstructured.Unstructured) bool
		edit  func(*v1alpha1.Experiment)
		// waits says what is not to be asked yet; by default what the cache has.
		waits func(*unstructured.Unstructured) bool
	}{
		"dependents": {
			lab:   tutorial(t),
			lacks: func(o *unstructured.Unstructured) bool { return o.GetLabels()[v1alpha1.LabelTarget] == "loadgen" },
		},
		"layers": {lab: layered(t, v1alpha1.ClusterHub), lacks: func(o *unstructured.Unstructured) bool {
			return last(o) || o.GetLabels()[v1alpha1.LabelTarget] == "load"
		}},
		"the last layer": {lab: newLab(t, experimentOf(alone), nginx(), template()), lacks: last},
		// Those that a list finds before the clusters go.
		"all Applications": {
			lab:   tutorial(t),
			lacks: func(o *unstructured.Unstructured) bool { return o.GetKind() == "Application" },
			waits: func(o *unstructured.Unstructured) bool { return o.GetLabels()[v1alpha1.LabelTarget] == "app" },
		},
		"workflow not recorded": {
			lab:   newLab(t, experimentOf(targetOf("web", v1alpha1.ClusterHub)), nginx(), template()),
			lacks: func(o *unstructured.Unstructured) bool { return o.GetKind() == "Workflow" },
			edit:  func(e *v1alpha1.Experiment) { e.Status.Workflow = nil },
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := test.lab
			l.reconciler.Options.Fallback = Fallback{RepoURL: "https://git.example.com/components.git", Revision: "v1"}
			l.until(v1alpha1.PhaseRunning)
			if test.edit != nil {
				e := l.get()
				test.edit(e)
				if err := l.client.Status().Update(t.Context(), e); err != nil {
					t.Fatal(err)
				}
			}
			for _, gvk := range []schema.GroupVersionKind{argocd.ApplicationGVK, argoworkflows.WorkflowGVK} {
				for _, o := range l.list(gvk) {
					o.SetFinalizers([]string{"example.com/held"})
					l.update(&o)
				}
			}
			if test.edit == nil { // the Workflow goes first, and is seen to
				l.remove()
				l.mustReconcile()
				workflow := l.list(argoworkflows.WorkflowGVK)[0]
				l.finalize(&workflow)
			} else {
				l.remove()
			}
			l.reconciler.Foreign = lacking{l.client, test.lacks}
			l.mustReconcile()
			l.mustReconcile()
			asked := 0
			for _, gvk := range []schema.GroupVersionKind{argocd.ApplicationGVK, argoworkflows.WorkflowGVK} {
				for _, o := range l.list(gvk) {
					waits := !test.lacks(&o)
					if test.waits != nil {
						waits = test.waits(&o)
					}
					switch {
					case !going(&o):
					case waits:
						t.Errorf("%s is asked to go before what needs it", kube.Describe(&o))
					default:
						asked++
					}
				}
			}
			if asked == 0 {
				t.Error("what needs the others is not asked to go")
			}
			l.goesWhenSeen()
		})
	}
}

// What the cache alone still has is not told of as left behind.
func TestStaleRelease(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("web", v1alpha1.ClusterHub)), nginx(), template())
	l.until(v1alpha1.PhaseComplete)
	apps := l.list(argocd.ApplicationGVK)
	workflow := l.list(argoworkflows.WorkflowGVK)[0]
	workflow.SetFinalizers([]string{"workflows.argoproj.io/artifact-gc"})
	l.update(&workflow)
	l.stuck = "Workflow"
	l.remove()
	l.tick(l.without())
	l.later(10 * time.Minute)
	l.mustReconcile()
	if apps := l.list(argocd.ApplicationGVK); len(apps) > 0 {
		l.finalize(&apps[0])
	}
	l.reconciler.Foreign = before{l.client, apps}
	l.later(time.Hour)
	l.mustReconcile()
	if left := l.orphans(); len(left) != 1 || left[0].Kind != "Workflow" {
		t.Errorf("it tells of %+v", left)
	}
}

// An Application goes when Argo CD knows its cluster, also when the cache has nothing of one of the two.
func TestStaleTeardownRegistersFirst(t *testing.T) {
	for _, kind := range []string{"Application", "GKECluster"} {
		l := newLab(t, experimentOf(targetOf("web", v1alpha1.ClusterGKE)), nginx(), template())
		l.settle(l.play)
		l.delete(argocd.SecretGVK)
		l.reconciler.Foreign = lacking{l.client, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind }}
		l.remove()
		l.writes = nil
		l.tick(l.without(argocd.ApplicationGVK))
		if !l.registersFirst("create Secret") {
			t.Errorf("without %s in the cache it writes %v", kind, l.writes)
		}
		l.reconciler.Foreign = l.client
		l.settle(l.play)
		if l.get() != nil {
			t.Errorf("without %s in the cache it stays", kind)
		}
	}
}

// A cluster that cannot be read holds an Application up as what cannot be registered does.
func TestStaleTeardownThatCannotReadTheCluster(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("web", v1alpha1.ClusterGKE)), nginx(), template())
	l.settle(l.play)
	l.delete(argocd.SecretGVK)
	l.getErrors["GKECluster"] = apierrors.NewForbidden(schema.GroupResource{Resource: "gkeclusters"}, "x", errors.New("no rights"))
	l.reconciler.Foreign = lacking{unread{l.client, l}, func(o *unstructured.Unstructured) bool { return o.GetKind() == "GKECluster" }}
	l.remove()
	l.tick(l.without())
	if len(l.list(argocd.ApplicationGVK)) == 0 {
		t.Error("the Application goes although it is not known of which cluster it is")
	}
	l.later(8 * time.Minute)
	if l.tick(l.without()); len(l.list(argocd.ApplicationGVK)) > 0 {
		t.Error("what cannot be read holds it for ever")
	}
}

// unread is a cache that has what cannot be read live.
type unread struct {
	client.Reader
	lab *lab
}

func (u unread) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	armed := u.lab.armed
	u.lab.armed = false
	defer func() { u.lab.armed = armed }()
	return u.Reader.Get(ctx, key, o, opts...)
}

// A claim that takes the place of another is waited for and registered like the first.
func TestClusterThatIsReplaced(t *testing.T) {
	l := tutorial(t)
	l.until(v1alpha1.PhaseReady)
	app := l.list(argocd.ApplicationGVK)[0]
	l.appIs(&app, "Healthy")
	old := l.list(crossplane.GKEClusterGVK)[0]
	old.SetFinalizers(nil)
	l.update(&old)
	l.deleteObject(&old)
	for range 3 {
		if err := l.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonClusterProvisioning)
	if len(l.list(argocd.ApplicationGVK)) > 1 {
		t.Error("the dependent was begun without the cluster")
	}

	// The new one is up, and Argo CD has not looked at it yet.
	claim := l.list(crossplane.GKEClusterGVK)[0]
	l.readyClaim(&claim)
	l.delete(argocd.SecretGVK)
	for range 3 {
		if err := l.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionTrue, v1alpha1.ReasonClustersReady)
	l.expect(v1alpha1.ConditionApplicationsHealthy, metav1.ConditionFalse, v1alpha1.ReasonApplicationProgressing)
	if len(l.list(argocd.ApplicationGVK)) > 1 {
		t.Error("the dependent was begun on the health of the old cluster")
	}
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
	claim = l.list(crossplane.GKEClusterGVK)[0]
	if claim.GetUID() == old.GetUID() || len(l.list(argocd.SecretGVK)) != 1 {
		t.Error("the new cluster is not registered")
	}
	for _, app := range l.list(argocd.ApplicationGVK) {
		if app.GetLabels()[v1alpha1.LabelTarget] == "app" && !(names{}).registered(v1alpha1.Target{}, []*unstructured.Unstructured{&claim}, []*unstructured.Unstructured{&app}) {
			t.Error("the Application is not for the new cluster")
		}
	}
}

// The hub is everybody's: two Experiments of one name, or one that is called like a system,
// must not meet there.
func TestNote05And47NamespaceOnTheHub(t *testing.T) {
	e := experimentOf(targetOf("web", v1alpha1.ClusterHub))
	e.Name = "cert-manager"
	l := newLab(t, e, nginx(), template())
	l.until(v1alpha1.PhaseReady)
	app := l.list(argocd.ApplicationGVK)[0]
	name, _, _ := unstructured.NestedString(app.Object, "spec", "destination", "namespace")
	if name == "cert-manager" || !strings.HasPrefix(name, "cert-manager-") {
		t.Fatalf("it deploys into %s", name)
	}
	labels, _, _ := unstructured.NestedStringMap(app.Object, "spec", "syncPolicy", "managedNamespaceMetadata", "labels")
	created := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	l.create(created)
	others := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "others"}}
	l.create(others)
	l.settle(l.play)
	if got := l.get().Status.Targets[0].Namespace; got != name {
		t.Errorf("status says %q", got)
	}
	l.remove()
	l.settle(l.play)
	if err := l.client.Get(t.Context(), client.ObjectKeyFromObject(created), created); !apierrors.IsNotFound(err) {
		t.Errorf("its namespace is left (%v)", err)
	}
	if err := l.client.Get(t.Context(), client.ObjectKeyFromObject(others), others); err != nil {
		t.Errorf("another's namespace: %v", err)
	}
}

// A Workflow validates what was there when it was submitted.
func TestOutdatedVerdict(t *testing.T) {
	for name, change := range map[string]func(*lab){
		"components": func(l *lab) {
			l.edit(func(e *v1alpha1.Experiment) {
				e.Spec.Targets[1].Components[0].Params = map[string]string{"replicas": "3"}
			})
		},
		"template": func(l *lab) { l.edit(func(e *v1alpha1.Experiment) { e.Spec.Workflow.Template = "another" }) },
		"Component": func(l *lab) {
			c := nginx()
			if err := l.client.Get(l.t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
				l.t.Fatal(err)
			}
			c.Spec.Sources[0].TargetRevision = "9.9.9"
			l.update(c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := tutorial(t)
			l.until(v1alpha1.PhaseRunning)
			first := l.get().Status.Workflow
			change(l)
			if err := l.reconcile(); err != nil {
				t.Fatal(err)
			}
			l.expect(v1alpha1.ConditionWorkflowSucceeded, metav1.ConditionFalse, v1alpha1.ReasonWorkflowOutdated)
			if e := l.get(); e.Status.Phase != v1alpha1.PhaseRunning || e.Status.CompletedAt != nil || !e.Status.Workflow.Superseded {
				t.Errorf("it is %+v", e.Status)
			}
			template := template()
			template.SetName("another")
			l.create(template)
			l.settle(l.play)
			l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
			if second := l.get().Status.Workflow; second.UID == first.UID || second.Inputs == first.Inputs || second.Superseded {
				t.Errorf("it was validated by %+v, after %+v", second, first)
			}
		})
	}
}

// A Workflow that is taken back goes, and another comes, although the spec is changed back meanwhile.
func TestOutdatedWorkflowGoesAllTheSame(t *testing.T) {
	l := tutorial(t)
	l.until(v1alpha1.PhaseRunning)
	params := func(p map[string]string) func(*v1alpha1.Experiment) {
		return func(e *v1alpha1.Experiment) { e.Spec.Targets[1].Components[0].Params = p }
	}
	first, before := l.get().Status.Workflow, l.get().Spec.Targets[1].Components[0].Params
	l.edit(params(map[string]string{"replicas": "3"}))
	if err := l.reconcile(); err != nil {
		t.Fatal(err)
	}
	l.edit(params(before))
	l.settle(l.deploy)
	if e := l.get(); e.Status.Workflow.UID == first.UID || e.Status.Workflow.Inputs != first.Inputs || e.Status.CompletedAt != nil {
		t.Errorf("another is not submitted: %+v", e.Status.Workflow)
	}
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
	l.expect(v1alpha1.ConditionApplicationsHealthy, metav1.ConditionTrue, v1alpha1.ReasonApplicationsHealthy)
}

// Another Workflow is submitted when what it is to validate is there.
func TestNothingIsValidatedBeforeItIsDeployed(t *testing.T) {
	l := tutorial(t)
	l.until(v1alpha1.PhaseRunning)
	l.edit(func(e *v1alpha1.Experiment) {
		e.Spec.Targets[1].Components[0].Params = map[string]string{"replicas": "3"}
	})
	l.settle(l.without())
	if left := l.list(argoworkflows.WorkflowGVK); len(left) > 0 || !l.get().Status.Workflow.Superseded {
		t.Errorf("before the Application is healthy again: %v", left)
	}
	l.expect(v1alpha1.ConditionWorkflowSucceeded, metav1.ConditionFalse, v1alpha1.ReasonWorkflowOutdated)
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
}

// Nothing is taken back while the spec cannot be acted on.
func TestOutdatedWorkflowStaysWhileSuspended(t *testing.T) {
	l := tutorial(t)
	l.until(v1alpha1.PhaseRunning)
	first := l.get().Status.Workflow
	l.edit(func(e *v1alpha1.Experiment) {
		e.Spec.Suspend, e.Spec.Targets[1].Components[0].Params = true, map[string]string{"replicas": "3"}
	})
	l.settle(l.play)
	if w := l.get().Status.Workflow; w.UID != first.UID || w.Superseded {
		t.Errorf("suspended, it has %+v", w)
	}
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Suspend = false })
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
	if w := l.get().Status.Workflow; w.UID == first.UID {
		t.Error("what was validated before counts")
	}
}

// The second Workflow can be deleted by somebody as the first can.
func TestSecondWorkflowDeleted(t *testing.T) {
	l := tutorial(t)
	l.until(v1alpha1.PhaseRunning)
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Workflow.Params = map[string]string{"duration": "5m"} })
	l.settle(l.deploy)
	workflow := l.list(argoworkflows.WorkflowGVK)[0]
	l.deleteObject(&workflow)
	l.settle(l.deploy)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWorkflowDeleted)
}

// What is not validated may change.
func TestWhatIsNotValidatedMayChange(t *testing.T) {
	l := tutorial(t)
	l.until(v1alpha1.PhaseRunning)
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Description = "still the same" })
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
}

// A verdict is of its generation.
func TestVerdictOfItsGeneration(t *testing.T) {
	l := tutorial(t)
	l.settle(l.play)
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Workflow.Template = "another" })
	l.settle(l.play)
	e := l.get()
	if e.Status.ObservedGeneration != 2 {
		t.Errorf("observedGeneration is %d", e.Status.ObservedGeneration)
	}
	for _, c := range e.Status.Conditions {
		if c.ObservedGeneration != 1 {
			t.Errorf("condition %s speaks of generation %d", c.Type, c.ObservedGeneration)
		}
	}
}

// What is up stays up, and its conditions say so, when a Component disappears.
func TestComponentDeletedWhileRunning(t *testing.T) {
	l := tutorial(t)
	l.until(v1alpha1.PhaseRunning)
	l.deleteObject(nginx())
	if err := l.reconcile(); err != nil {
		t.Fatal(err)
	}
	l.expect(v1alpha1.ConditionComponentsResolved, metav1.ConditionFalse, v1alpha1.ReasonComponentNotFound)
	l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionTrue, v1alpha1.ReasonClustersReady)
	l.expect(v1alpha1.ConditionApplicationsHealthy, metav1.ConditionTrue, v1alpha1.ReasonApplicationsHealthy)
	l.settle(l.play)
	if e := l.get(); e.Status.CompletedAt != nil {
		t.Errorf("phase is %s", e.Status.Phase)
	}
	c := nginx()
	l.create(c)
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
}

// A read that fails once is told by Ready alone.
func TestErrorsThatPassDoNotFlapTheSteps(t *testing.T) {
	l := tutorial(t)
	l.until(v1alpha1.PhaseRunning)
	l.drain()
	l.getErrors["Application"] = apierrors.NewInternalError(errors.New("etcd"))
	if err := l.reconcile(); err == nil {
		t.Fatal("no error")
	}
	l.expect(v1alpha1.ConditionApplicationsHealthy, metav1.ConditionTrue, v1alpha1.ReasonApplicationsHealthy)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonReconcileError)
	delete(l.getErrors, "Application")
	if err := l.reconcile(); err != nil {
		t.Fatal(err)
	}
	l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWorkflowRunning)
	if story := l.drain(); len(story) > 0 {
		t.Errorf("events: %v", story)
	}
}

// A change that is seen together with the health of what was before is not healthy, and is
// not what a Workflow submitted now would validate.
func TestChangeInTheMomentOfHealth(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("web", v1alpha1.ClusterHub)), nginx(), template())
	l.until(v1alpha1.PhaseReady)
	l.play()
	c := nginx()
	if err := l.client.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
		t.Fatal(err)
	}
	c.Spec.Sources[0].TargetRevision = "9.9.9"
	l.update(c)
	if err := l.reconcile(); err != nil {
		t.Fatal(err)
	}
	l.expect(v1alpha1.ConditionApplicationsHealthy, metav1.ConditionFalse, v1alpha1.ReasonApplicationProgressing)
	if l.get().Status.Workflow != nil {
		t.Error("the Workflow was submitted")
	}
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
}

// A Workflow that could not be submitted is not said to be.
func TestSubmissionThatFails(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("web", v1alpha1.ClusterHub)), nginx(), template())
	l.until(v1alpha1.PhaseReady)
	l.play()
	l.drain()
	l.failAt, l.failWith = len(l.writes)+1, apierrors.NewInternalError(errors.New("etcd"))
	if err := l.reconcile(); err == nil {
		t.Fatal("no error")
	}
	l.expect(v1alpha1.ConditionWorkflowSucceeded, metav1.ConditionFalse, v1alpha1.ReasonPending)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonReconcileError)
	if story := strings.Join(l.drain(), "\n"); strings.Contains(story, v1alpha1.ReasonWorkflowRunning) {
		t.Errorf("events: %s", story)
	}
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
}

// A conflict is nobody's concern: nothing is written and nothing is said.
func TestConflictsAreQuiet(t *testing.T) {
	l := tutorial(t)
	if err := l.reconcile(); err != nil {
		t.Fatal(err)
	}
	l.play()
	l.drain()
	l.failAt, l.failWith = len(l.writes)+1, apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "x", errors.New("modified"))
	l.armed = true
	_, err := l.reconciler.Reconcile(t.Context(), l.get())
	if !apierrors.IsConflict(err) || l.writes[len(l.writes)-1] == "patch Experiment/status" {
		t.Errorf("error is %v, writes are %v", err, l.writes)
	}
	if story := l.drain(); len(story) > 0 {
		t.Errorf("events: %v", story)
	}
}

// What goes wrong with one target does not hold the others up, and the status says what is
// there, not what was to be.
func TestNote52FailureOfOneTarget(t *testing.T) {
	l := newLab(t, experimentOf(
		targetOf("a", v1alpha1.ClusterGKE), targetOf("b", v1alpha1.ClusterGKE), targetOf("c", v1alpha1.ClusterHub),
	), nginx(), template())
	e := l.get()
	key := names{e, l.reconciler.Options}.cluster(e.Spec.Targets[0])
	l.create(object(crossplane.GKEClusterGVK, key.Namespace, key.Name))
	for range 8 {
		_ = l.reconcile()
		l.play()
	}
	l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNameTaken)
	l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonNameTaken)
	got := map[string]v1alpha1.TargetState{}
	for _, s := range l.get().Status.Targets {
		got[s.Name] = s.State
	}
	want := map[string]v1alpha1.TargetState{"a": v1alpha1.TargetProvisioning, "b": v1alpha1.TargetHealthy, "c": v1alpha1.TargetHealthy}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
	if len(l.list(argoworkflows.WorkflowGVK)) > 0 {
		t.Error("the Workflow was submitted")
	}
}

// Events of one reason in one pass are told apart by the target, or the API server's client
// would make one of them.
func TestEventsOfSeveralTargets(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("a", v1alpha1.ClusterGKE), targetOf("b", v1alpha1.ClusterGKE)), nginx(), template())
	before := l.get()
	if err := l.reconcile(); err != nil {
		t.Fatal(err)
	}
	subjects := map[string]bool{}
	for _, e := range happened(before, l.get(), Plan{}, nil) {
		key := e.Reason + "/" + e.Subject
		if subjects[key] {
			t.Errorf("%s twice", key)
		}
		subjects[key] = true
	}
	if !subjects["TargetProvisioning/a"] || !subjects["TargetProvisioning/b"] {
		t.Errorf("events are of %v", subjects)
	}
}

func TestComponentNamedTwice(t *testing.T) {
	target := targetOf("web", v1alpha1.ClusterHub)
	target.Components = append(target.Components, target.Components[0])
	l := newLab(t, experimentOf(target), nginx(), template())
	l.settle(l.play)
	l.expect(v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonInvalidSpec)
}

// The end of the time does not wait for what cannot be read.
func TestTimeToLiveWithErrors(t *testing.T) {
	l := tutorial(t)
	l.until(v1alpha1.PhaseReady)
	l.getErrors["Component"] = apierrors.NewForbidden(schema.GroupResource{Resource: "components"}, "nginx", errors.New("no"))
	l.clock.SetTime(epoch.Add(day))
	l.settle(l.play)
	if l.get() != nil {
		t.Error("it is still there")
	}
}

// While it cannot be seen whether a Workflow or an Application is there, nothing that they
// need goes.
func TestTeardownOrderWithKindsItCannotSee(t *testing.T) {
	for hidden, stays := range map[schema.GroupVersionKind]schema.GroupVersionKind{
		argoworkflows.WorkflowGVK: argocd.ApplicationGVK,
		argocd.ApplicationGVK:     crossplane.GKEClusterGVK,
	} {
		t.Run(hidden.Kind, func(t *testing.T) {
			l := tutorial(t)
			l.until(v1alpha1.PhaseRunning)
			l.kinds[hidden] = kube.KindUnserved
			l.remove()
			l.settle(l.play)
			for _, o := range l.list(stays) {
				if o.GetDeletionTimestamp() != nil {
					t.Errorf("%s goes before %s", stays.Kind, hidden.Kind)
				}
			}
			if len(l.list(stays)) == 0 {
				t.Errorf("%s went before %s", stays.Kind, hidden.Kind)
			}
			l.kinds[hidden] = kube.KindSyncing // the cache has nothing, and live reads tell
			l.settle(l.play)
			if l.get() != nil {
				t.Errorf("it is still there: %s", l.message(v1alpha1.ConditionReady))
			}
		})
	}
}

// What there is goes by its labels, whatever the record says, also when somebody has taken that away.
func TestNote34TeardownWithoutRecord(t *testing.T) {
	for _, phase := range []v1alpha1.Phase{v1alpha1.PhaseProvisioning, v1alpha1.PhaseRunning} {
		t.Run(string(phase), func(t *testing.T) {
			l := tutorial(t)
			l.until(phase)
			e := l.get()
			e.Status = v1alpha1.ExperimentStatus{}
			if err := l.client.Status().Update(t.Context(), e); err != nil {
				t.Fatal(err)
			}
			if l.get().Status.StartedAt != nil || len(l.list(crossplane.GKEClusterGVK)) == 0 {
				t.Fatal("there is a record, or nothing to take down")
			}
			l.remove()
			l.settle(l.play)
			if l.get() != nil {
				t.Fatalf("it is still there: %s", l.message(v1alpha1.ConditionReady))
			}
			for _, gvk := range []schema.GroupVersionKind{crossplane.GKEClusterGVK, argocd.ApplicationGVK, argoworkflows.WorkflowGVK, argocd.SecretGVK} {
				for _, o := range l.list(gvk) {
					if o.GetLabels()[v1alpha1.LabelExperimentUID] != "" {
						t.Errorf("%s %s is left", o.GetKind(), o.GetName())
					}
				}
			}
		})
	}
}

// Before anything was created there is nothing to wait for.
func TestDeletionBeforeTheStart(t *testing.T) {
	l := tutorial(t)
	l.kinds[crossplane.GKEClusterGVK] = kube.KindUnserved
	l.settle(l.play)
	l.remove()
	l.settle(l.play)
	if l.get() != nil {
		t.Errorf("it is still there: %s", l.message(v1alpha1.ConditionReady))
	}
}

// A Workflow that was submitted runs with what it was given: one whose record was lost to a
// conflicting edit is found again and not rewritten.
func TestSubmittedWorkflowIsNotRewritten(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("web", v1alpha1.ClusterHub)), nginx(), template())
	l.until(v1alpha1.PhaseRunning)
	submitted := l.list(argoworkflows.WorkflowGVK)[0]
	e := l.get()
	s := &scope{Reconciler: l.reconciler, experiment: e, names: names{e, l.reconciler.Options}, failed: map[string]error{}}
	f := facts{experiment: e, options: s.Options, names: s.names, now: epoch}
	e.Status.Workflow = nil
	s.plan = Plan{Workflow: &v1alpha1.WorkflowStatus{}, Writes: []Write{{Object: f.desiredWorkflow(nil, "v1-other")}}}
	if err := s.apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := l.list(argoworkflows.WorkflowGVK)[0]
	if diff := cmp.Diff(submitted.Object["spec"], after.Object["spec"]); diff != "" {
		t.Errorf("the Workflow (-before +after):\n%s", diff)
	}
	if s.plan.Workflow.Inputs != submitted.GetAnnotations()[v1alpha1.AnnotationInputs] || s.plan.Workflow.UID != string(submitted.GetUID()) {
		t.Errorf("it is taken for %+v", s.plan.Workflow)
	}
}

// withClaim is a cache that has a claim as it was.
type withClaim struct {
	client.Reader
	claim *unstructured.Unstructured
}

func (w withClaim) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if u, ok := o.(*unstructured.Unstructured); ok && u.GetKind() == w.claim.GetKind() {
		w.claim.DeepCopyInto(u)
		return nil
	}
	return w.Reader.Get(ctx, key, o, opts...)
}

// A claim that the cache still has, and that another has taken the place of, is not registered again:
// its Application would go back to a cluster that is gone.
func TestStaleClaimIsNotRegisteredAgain(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
	l.until(v1alpha1.PhaseReady)
	before := l.list(crossplane.GKEClusterGVK)[0]
	claim := before.DeepCopy()
	claim.SetFinalizers(nil)
	l.update(claim)
	if err := l.client.Delete(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	l.settle(l.play)
	app := l.list(argocd.ApplicationGVK)[0]
	e := l.get()
	e.Status.CompletedAt = nil // as long as it is looked at
	l.armed, l.writes = true, nil
	l.reconciler.Foreign = withClaim{l.client, &before}
	stale := e.DeepCopy()
	_, err := l.reconciler.Reconcile(t.Context(), stale)
	l.armed = false
	if !apierrors.IsConflict(err) || len(l.writes) > 0 {
		t.Errorf("error is %v, writes are %v", err, l.writes)
	}
	if got := l.list(argocd.ApplicationGVK)[0]; got.GetResourceVersion() != app.GetResourceVersion() {
		t.Error("the Application has changed")
	}
}

// running is an Experiment on the hub whose Workflow runs, with whatever its spec says.
func running(t *testing.T, change func(*v1alpha1.ExperimentSpec)) *lab {
	t.Helper()
	e := experimentOf(targetOf("app", v1alpha1.ClusterHub))
	if change != nil {
		change(&e.Spec)
	}
	l := newLab(t, e, nginx(), template())
	if l.settle(l.deploy); l.get().Status.Phase != v1alpha1.PhaseRunning {
		t.Fatalf("it is %s", l.get().Status.Phase)
	}
	return l
}

// longer changes what is validated, and no target.
func longer(e *v1alpha1.Experiment) { e.Spec.Workflow.Params = map[string]string{"duration": "5m"} }

// Argo Workflows takes pods for those of a Workflow by its name, and those of one that was deleted are there
// for longer than it is: what takes its place has another name.
func TestEachWorkflowHasItsName(t *testing.T) {
	l := running(t, nil)
	seen := map[string]bool{}
	for run := int32(1); run <= 4; run++ {
		w := l.get().Status.Workflow
		if objects := l.list(argoworkflows.WorkflowGVK); len(objects) != 1 || objects[0].GetName() != w.Name || string(objects[0].GetUID()) != w.UID {
			t.Fatalf("run %d is %v, and %+v", run, kindsLeft(objects), w)
		}
		if want := run; seen[w.Name] || max(1, w.Run) != want || strings.Contains(w.Name, "validation-1-") {
			t.Errorf("Workflow %d is %+v, after %v", run, w, seen)
		}
		seen[w.Name] = true
		l.edit(func(e *v1alpha1.Experiment) {
			e.Spec.Workflow.Params = map[string]string{"run": strconv.Itoa(int(run))}
		})
		l.settle(l.deploy)
	}
	l.remove()
	l.settle(l.play)
	if left := l.ours(); l.get() != nil || len(left) > 0 {
		t.Errorf("%v are left", kindsLeft(left))
	}
}

// One that nobody has recorded, because the manager died or somebody took the record away, is found.
func TestUnrecordedSecondWorkflow(t *testing.T) {
	for name, forget := range map[string]func(*v1alpha1.Experiment){
		"not recorded": func(e *v1alpha1.Experiment) {},
		"taken away":   func(e *v1alpha1.Experiment) { e.Status.Workflow = nil },
	} {
		t.Run(name, func(t *testing.T) {
			l := running(t, nil)
			l.edit(longer)
			l.settle(func() bool { // it is killed when the second is there
				for _, w := range l.list(argoworkflows.WorkflowGVK) {
					if w.GetAnnotations()[v1alpha1.AnnotationRun] == "2" {
						l.refuse = func(verb, kind string) error { return errors.New("killed") }
					}
				}
				return l.deploy()
			})
			l.refuse = nil
			e := l.get()
			if forget(e); len(l.list(argoworkflows.WorkflowGVK)) != 1 {
				t.Fatalf("there are %v", l.list(argoworkflows.WorkflowGVK))
			}
			if err := l.client.Status().Update(t.Context(), e); err != nil {
				t.Fatal(err)
			}
			l.settle(l.deploy)
			if w := l.get().Status.Workflow; w.Run != 2 || len(l.list(argoworkflows.WorkflowGVK)) != 1 {
				t.Errorf("it has %+v", w)
			}
			l.remove()
			l.settle(l.play)
			if left := l.ours(); l.get() != nil || len(left) > 0 {
				t.Errorf("%v are left", kindsLeft(left))
			}
		})
	}
}

// The verdict that a person gave for the Workflow before is not that on the next.
func TestVerdictByHandIsOfItsWorkflow(t *testing.T) {
	l := running(t, func(s *v1alpha1.ExperimentSpec) { s.Workflow.Completion.Mode = v1alpha1.CompletionManual })
	l.edit(func(e *v1alpha1.Experiment) {
		longer(e)
		e.Annotations = map[string]string{v1alpha1.AnnotationComplete: argoworkflows.PhaseSucceeded}
	})
	l.settle(l.deploy)
	l.expect(v1alpha1.ConditionWorkflowSucceeded, metav1.ConditionFalse, v1alpha1.ReasonWorkflowOutdated)
	if m := l.message(v1alpha1.ConditionWorkflowSucceeded); l.get().Status.CompletedAt != nil || !strings.Contains(m, v1alpha1.AnnotationComplete) {
		t.Errorf("it says %q", m)
	}
	annotate := func(annotations map[string]string) {
		e := l.get()
		e.Annotations = annotations
		l.update(e)
	}
	annotate(nil)
	l.settle(l.deploy)
	l.expect(v1alpha1.ConditionWorkflowSucceeded, metav1.ConditionFalse, v1alpha1.ReasonWorkflowRunning)
	annotate(map[string]string{v1alpha1.AnnotationComplete: argoworkflows.PhaseSucceeded})
	l.settle(l.deploy)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
}

// What an edit is to mend has its time, from the edit on.
func TestDeadlinesAfterAnEdit(t *testing.T) {
	l := running(t, func(s *v1alpha1.ExperimentSpec) {
		s.ProgressDeadline = &v1alpha1.ProgressDeadline{Applications: &metav1.Duration{Duration: 30 * time.Minute}}
	})
	degrade := func() {
		l.spoil(argocd.ApplicationGVK, func(app *unstructured.Unstructured) { l.appIs(app, "Degraded") })
	}
	degrade()
	l.mustReconcile()
	l.later(time.Hour)
	l.edit(longer)
	l.mustReconcile()
	if e := l.get(); e.Status.CompletedAt != nil || e.Status.Workflow == nil {
		t.Fatalf("the edit is given no time: %s", l.message(v1alpha1.ConditionReady))
	}
	l.later(89 * time.Minute)
	l.mustReconcile()
	if l.get().Status.CompletedAt != nil {
		t.Fatalf("too early: %s", l.message(v1alpha1.ConditionReady))
	}
	l.later(91 * time.Minute)
	l.mustReconcile()
	l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonProgressDeadlineExceeded)
}

// held is an Experiment whose superseded Workflow does not go.
func held(t *testing.T, change func(*v1alpha1.ExperimentSpec)) *lab {
	t.Helper()
	l := running(t, change)
	l.spoil(argoworkflows.WorkflowGVK, func(w *unstructured.Unstructured) { w.SetFinalizers([]string{"workflows.argoproj.io/artifact-gc"}) })
	l.edit(func(e *v1alpha1.Experiment) {
		e.Spec.Targets[0].Components[0].Params = map[string]string{"replicas": "3"}
	})
	l.mustReconcile()
	return l
}

// Who holds a superseded Workflow is said when it has been held for a while.
func TestSupersededWorkflowThatIsHeld(t *testing.T) {
	l := held(t, nil)
	if wait := l.pass(); wait <= 0 || wait > lastLook {
		t.Errorf("it is looked at after %s", wait)
	}
	if m := l.message(v1alpha1.ConditionWorkflowSucceeded); strings.Contains(m, "artifact-gc") {
		t.Errorf("it says at once %q", m)
	}
	deleted := l.list(argoworkflows.WorkflowGVK)[0].GetDeletionTimestamp() // which the client takes from the real clock
	l.edit(func(e *v1alpha1.Experiment) { e.CreationTimestamp = *deleted })
	l.clock.SetTime(deleted.Add(lastLook))
	l.mustReconcile()
	if m := l.message(v1alpha1.ConditionWorkflowSucceeded); !strings.Contains(m, "workflows.argoproj.io/artifact-gc") {
		t.Errorf("it says %q", m)
	}
}

// Deadlines count, too, while the Workflow before does not go.
func TestSupersededWorkflowThatDoesNotGo(t *testing.T) {
	l := held(t, func(s *v1alpha1.ExperimentSpec) {
		s.ProgressDeadline = &v1alpha1.ProgressDeadline{Applications: &metav1.Duration{Duration: 30 * time.Minute}}
	})
	l.later(29 * time.Minute)
	l.mustReconcile()
	if l.get().Status.CompletedAt != nil {
		t.Error("it fails too early")
	}
	l.later(31 * time.Minute)
	l.mustReconcile()
	l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonProgressDeadlineExceeded)
}

// Nothing is changed before it is recorded that the Workflow validates something else: what comes after a
// manager that died must not take its verdict for that on what the spec says again.
func TestNothingChangesUnderAWorkflow(t *testing.T) {
	l := running(t, nil)
	l.writes = nil
	l.edit(func(e *v1alpha1.Experiment) {
		e.Spec.Targets[0].Components[0].Params = map[string]string{"replicas": "3"}
	})
	l.pass()
	if diff := cmp.Diff([]string{"patch Experiment/status"}, l.writes); diff != "" {
		t.Errorf("the first pass (-want +got):\n%s", diff)
	}
	l.pass()
	if diff := cmp.Diff([]string{"patch Experiment/status", "delete Workflow", "apply object"}, l.writes[:min(3, len(l.writes))]); diff != "" {
		t.Errorf("and the second (-want +got):\n%s", diff)
	}
}

// A failure is as little as a success a verdict on what was never deployed, and waits, as that does, until it is
// known what the spec asks for.
func TestFailureOfBefore(t *testing.T) {
	for name, test := range map[string]struct {
		do, undo func(*v1alpha1.Experiment)
		reason   string
	}{
		"suspended": {
			func(e *v1alpha1.Experiment) { e.Spec.Suspend = true },
			func(e *v1alpha1.Experiment) { e.Spec.Suspend = false }, v1alpha1.ReasonWorkflowOutdated,
		},
		"not resolved": {
			func(e *v1alpha1.Experiment) { e.Spec.Targets[0].Components[0].App = "ngnix" },
			func(e *v1alpha1.Experiment) { e.Spec.Targets[0].Components[0].App = "nginx" }, v1alpha1.ReasonTargetsNotSettled,
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := running(t, nil)
			l.edit(func(e *v1alpha1.Experiment) {
				longer(e)
				test.do(e)
			})
			l.spoil(argoworkflows.WorkflowGVK, func(w *unstructured.Unstructured) {
				w.Object["status"] = map[string]any{"phase": argoworkflows.PhaseFailed}
			})
			l.settle(l.deploy)
			l.expect(v1alpha1.ConditionWorkflowSucceeded, metav1.ConditionFalse, test.reason)
			if l.get().Status.CompletedAt != nil {
				t.Fatal("it has failed")
			}
			l.edit(test.undo)
			l.settle(l.play)
			l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
		})
	}
}

// A write that is refused does not keep a Workflow running that validates nothing any more.
func TestSupersededWorkflowGoesFirst(t *testing.T) {
	l := running(t, nil)
	l.refuse = func(verb, _ string) error {
		if verb == "apply" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "applications"}, "x", errors.New("no rights"))
		}
		return nil
	}
	l.edit(func(e *v1alpha1.Experiment) {
		e.Spec.Targets[0].Components[0].Params = map[string]string{"replicas": "3"}
	})
	for range 4 {
		_ = l.reconcile()
	}
	if left := l.list(argoworkflows.WorkflowGVK); len(left) > 0 {
		t.Errorf("it is still there: %s", l.message(v1alpha1.ConditionWorkflowSucceeded))
	}
}

// What a Workflow validates is known although somebody has taken the annotation off it.
func TestInputsAreRemembered(t *testing.T) {
	l := running(t, nil)
	first := l.get().Status.Workflow
	l.spoil(argoworkflows.WorkflowGVK, func(w *unstructured.Unstructured) {
		annotations := w.GetAnnotations()
		delete(annotations, v1alpha1.AnnotationInputs)
		w.SetAnnotations(annotations)
	})
	l.mustReconcile()
	l.edit(longer)
	l.settle(l.deploy)
	if w := l.get().Status.Workflow; w.UID == first.UID || w.Inputs == "" {
		t.Errorf("it has %+v", w)
	}
}

// A new version of the manager may not be able to compare what a Workflow validates. It takes none back for that, and has edits from then on
// validated, also one that comes at the same time, in a pass that can read nothing.
func TestInputsOfAnotherVersion(t *testing.T) {
	for name, test := range map[string]struct {
		inputs  string
		between func(*lab)
		stays   bool
	}{
		"no edit":    {inputs: "v1-0000", between: (*lab).mustReconcile, stays: true},
		"not known":  {between: (*lab).mustReconcile, stays: true},
		"edit after": {inputs: "v1-0000", between: func(l *lab) { l.mustReconcile(); l.edit(longer) }},
		"edit with":  {inputs: "v1-0000", between: func(l *lab) { l.edit(longer) }},
		"edit with, nothing can be read": {inputs: "v1-0000", between: func(l *lab) {
			l.edit(longer)
			l.getErrors["Component"] = errors.New("not now")
			if err := l.reconcile(); err == nil {
				l.t.Error("it can be read")
			}
			delete(l.getErrors, "Component")
		}},
		"edit with, suspended": {inputs: "v1-0000", between: func(l *lab) {
			l.edit(func(e *v1alpha1.Experiment) { longer(e); e.Spec.Suspend = true })
			l.mustReconcile()
			l.edit(func(e *v1alpha1.Experiment) { e.Spec.Suspend = false })
		}},
		"a Component after": {inputs: "v1-0000", between: func(l *lab) {
			l.mustReconcile()
			c := &v1alpha1.Component{}
			if err := l.client.Get(l.t.Context(), types.NamespacedName{Name: "nginx"}, c); err != nil {
				l.t.Fatal(err)
			}
			c.Spec.Sources[0].TargetRevision = "9.9.9"
			l.update(c)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l := running(t, nil)
			e := l.get()
			first := e.Status.Workflow.UID
			e.Status.Workflow.Inputs = test.inputs
			if err := l.client.Status().Update(t.Context(), e); err != nil {
				t.Fatal(err)
			}
			if test.inputs == "" {
				l.spoil(argoworkflows.WorkflowGVK, func(w *unstructured.Unstructured) {
					w.SetAnnotations(map[string]string{marks.Owner: w.GetAnnotations()[marks.Owner]})
				})
			}
			test.between(l)
			l.settle(l.deploy)
			w := l.get().Status.Workflow
			if stays := w.UID == first; stays != test.stays || w.Superseded || incomparable(w) {
				t.Errorf("the Workflow was %s and is %+v", first, w)
			}
			version := l.get().ResourceVersion
			if l.mustReconcile(); l.get().ResourceVersion != version {
				t.Error("what is recorded is recorded again")
			}
		})
	}
}

// Layers are created in their order also when the Workflow that they were validated by is taken back.
func TestLayersAfterASupersededWorkflow(t *testing.T) {
	l := layered(t, v1alpha1.ClusterHub)
	if l.settle(l.deploy); l.get().Status.Phase != v1alpha1.PhaseRunning {
		t.Fatalf("it is %s", l.get().Status.Phase)
	}
	first := l.appOf("app operator")
	l.appIs(first, "Degraded")
	l.mustReconcile()
	l.edit(func(e *v1alpha1.Experiment) {
		e.Spec.Targets[0].Components = append(slices.Clone(layers), v1alpha1.ComponentRef{App: "late"})
	})
	l.mustReconcile()
	if l.appOf("app late") != nil {
		t.Error("what comes later is deployed on what is degraded")
	}
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
}

// Another Workflow is submitted on what the server has, not on what the cache has of before.
func TestStaleApplicationsAreNotValidatedAgain(t *testing.T) {
	l := running(t, nil)
	params := func(p map[string]string) func(*v1alpha1.Experiment) {
		return func(e *v1alpha1.Experiment) { e.Spec.Targets[0].Components[0].Params = p }
	}
	were := l.list(argocd.ApplicationGVK)
	l.edit(params(map[string]string{"replicas": "3"}))
	l.mustReconcile()
	l.edit(params(nil))
	l.reconciler.Foreign = before{l.client, were}
	l.mustReconcile()
	if submitted := l.list(argoworkflows.WorkflowGVK); len(submitted) > 0 {
		t.Error("another is submitted on what the cache has")
	}
	l.reconciler.Foreign = l.client
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
}

// On a cluster that others share no Experiment has a namespace of those that clusters keep for themselves, of which policies make
// exceptions, whatever its own name.
func TestNamedLikeASystem(t *testing.T) {
	for name, own := range map[string]v1alpha1.ClusterType{
		"kube-system": v1alpha1.ClusterHub, "kube-x": v1alpha1.ClusterVCluster, "kube": v1alpha1.ClusterHub, "kube.x": v1alpha1.ClusterExisting,
	} {
		target := targetOf("web", own)
		if own == v1alpha1.ClusterExisting {
			target = existingTarget("web", "staging")
		}
		e := experimentOf(target)
		e.Name = name
		l := newLab(t, e, nginx(), template(), staging(kubeconfig))
		l.settle(l.play)
		l.expect(v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonInvalidSpec)
		if m := l.message(v1alpha1.ConditionAccepted); !strings.Contains(m, "another name") {
			t.Errorf("of %s it says %q", name, m)
		}
	}
}

// What was begun by a manager that allowed more goes on.
func TestBegunInASystemNamespace(t *testing.T) {
	e := experimentOf(targetOf("app", v1alpha1.ClusterGKE))
	e.Name = "kube-prometheus"
	l := newLab(t, e, nginx(), template())
	l.mustReconcile()
	l.expect(v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonInvalidSpec)
	e = l.get()
	n := names{e, l.reconciler.Options}.namespaces()
	e.Status.StartedAt, e.Status.Namespaces = timestamp(epoch), &n
	if err := l.client.Status().Update(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
}

// Which Workflow is its own the record says by name, also where a version that did not know the numbers has
// written it.
func TestRecordsOfOtherVersions(t *testing.T) {
	t.Run("no number", func(t *testing.T) {
		l := running(t, nil)
		l.edit(longer)
		l.settle(l.deploy)
		e := l.get()
		e.Status.Workflow.Run = 0
		if err := l.client.Status().Update(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		l.settle(l.deploy)
		l.expect(v1alpha1.ConditionWorkflowSucceeded, metav1.ConditionFalse, v1alpha1.ReasonWorkflowRunning)
	})
	t.Run("that of another", func(t *testing.T) {
		l := running(t, nil)
		e := l.get()
		e.Status.Workflow.Run = 2
		if err := l.client.Status().Update(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		l.settle(l.deploy)
		l.expect(v1alpha1.ConditionWorkflowSucceeded, metav1.ConditionFalse, v1alpha1.ReasonWorkflowRunning)
		l.remove()
		l.settle(l.play)
		if left := l.ours(); l.get() != nil || len(left) > 0 {
			t.Errorf("%v are left", kindsLeft(left))
		}
	})
}

// claimHasSeen makes the claim say that it has seen a generation of its spec, of another.
func (l *lab) claimHasSeen(generation, observed int64) {
	l.t.Helper()
	l.spoil(crossplane.GKEClusterGVK, func(claim *unstructured.Unstructured) {
		claim.SetGeneration(generation)
		conditions, _, _ := unstructured.NestedSlice(claim.Object, "status", "conditions")
		for _, c := range conditions {
			c.(map[string]any)["observedGeneration"] = observed
		}
		_ = unstructured.SetNestedSlice(claim.Object, conditions, "status", "conditions")
	})
}

// What a cluster said before it was changed says nothing of what it is to be.
func TestChangedClusterIsNotValidatedAsItWas(t *testing.T) {
	for name, test := range map[string]struct {
		phase v1alpha1.Phase
		says  string
	}{
		"before the first": {v1alpha1.PhaseReady, "of target app still tells of before"},
		"before another":   {v1alpha1.PhaseRunning, "another is submitted when every target is as the spec asks for"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
			l.until(test.phase)
			l.edit(func(e *v1alpha1.Experiment) { e.Spec.Targets[0].Cluster.NodeCount = ptr.To[int32](3) })
			l.mustReconcile()
			l.claimHasSeen(2, 1)
			l.settle(l.deploy)
			if submitted := l.list(argoworkflows.WorkflowGVK); len(submitted) > 0 {
				t.Fatal("the cluster is validated as it was")
			}
			if m := l.message(v1alpha1.ConditionReady); !strings.Contains(m, test.says) {
				t.Errorf("it says %q", m)
			}
			l.claimHasSeen(2, 2)
			l.settle(l.play)
			l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
		})
	}
}

// Who ends an Experiment whose success waits has no success.
func TestTerminateWhileASuccessWaits(t *testing.T) {
	l := running(t, nil)
	workflow := l.list(argoworkflows.WorkflowGVK)[0]
	l.spoil(argocd.ApplicationGVK, func(app *unstructured.Unstructured) { delete(app.Object, "status") })
	app := l.list(argocd.ApplicationGVK)[0]
	app.SetFinalizers([]string{"example.com/held"})
	l.update(&app)
	l.deleteObject(&app)
	l.succeed(&workflow)
	l.mustReconcile()
	l.expect(v1alpha1.ConditionWorkflowSucceeded, metav1.ConditionFalse, v1alpha1.ReasonTargetsNotSettled)
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Terminate = true })
	l.mustReconcile()
	l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonTerminated)
}

// Of Workflows that cannot be seen, what is told of as left is what there may be: the one that is recorded, and
// another only where that may have been submitted.
func TestWorkflowsThatMayBeLeft(t *testing.T) {
	e := experimentOf(targetOf("app", v1alpha1.ClusterHub))
	for name, test := range map[string]struct {
		recorded *v1alpha1.WorkflowStatus
		runs     []int32
	}{
		"none": {nil, []int32{1}}, "one": {&v1alpha1.WorkflowStatus{UID: "a"}, []int32{1}},
		"a superseded one": {&v1alpha1.WorkflowStatus{UID: "a", Superseded: true}, []int32{1, 2}},
		"the third":        {&v1alpha1.WorkflowStatus{UID: "c", Run: 3}, []int32{3}},
	} {
		e.Status.Workflow = test.recorded
		n := names{e, Options{WorkflowNamespace: "argo"}}
		var want []types.NamespacedName
		for _, run := range test.runs {
			want = append(want, n.workflow(run))
		}
		if diff := cmp.Diff(want, n.children(argoworkflows.WorkflowGVK)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
