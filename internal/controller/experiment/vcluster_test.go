package experiment

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/capi"
	"github.com/labkeeper/labkeeper/internal/external/crossplane"
	"github.com/labkeeper/labkeeper/internal/kube"
)

func onVCluster(t *testing.T) *lab {
	target := targetOf("app", v1alpha1.ClusterVCluster)
	target.Cluster.VCluster = &v1alpha1.VCluster{Values: "sync: {}\n"}
	return newLab(t, experimentOf(target), nginx(), template())
}

func TestVClusterRoad(t *testing.T) {
	l := onVCluster(t)
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
	want := []string{
		"patch Experiment", "patch Experiment/status",
		"create Namespace", "create RoleBinding", "create Cluster", "create VCluster", "patch Experiment/status",
		"create Secret", "create Application", "patch Experiment/status",
		"create Workflow", "patch Experiment/status",
		"patch Experiment/status",
	}
	if diff := cmp.Diff(want, l.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if got := l.get().Status.Targets[0].Endpoint; got != "https://203.0.113.10:443" {
		t.Errorf("the endpoint is %q", got)
	}

	l.writes = nil
	l.remove()
	l.settle(l.play)
	if l.get() != nil {
		t.Fatalf("it is still there: %+v", l.get().Status)
	}
	var deleted []string
	for _, w := range l.writes {
		if w[:6] == "delete" {
			deleted = append(deleted, w)
		}
	}
	if diff := cmp.Diff([]string{"delete Workflow", "delete Application", "delete Secret", "delete Cluster", "delete VCluster", "delete Namespace"}, deleted); diff != "" {
		t.Errorf("deletions (-want +got):\n%s", diff)
	}
}

func TestVClusterWithEveryWriteFailingOnce(t *testing.T) {
	everyWriteFailingOnce(t, onVCluster, capi.ClusterGVK, capi.VClusterGVK, argocd.SecretGVK, namespaceGVK)
}

// everyWriteFailingOnce lets every write fail once, up and down, with and without having taken place:
// nothing of some kinds must be left.
func everyWriteFailingOnce(t *testing.T, begin func(*testing.T) *lab, kinds ...schema.GroupVersionKind) {
	t.Helper()
	reference := begin(t)
	reference.settle(reference.play)
	up, total := reference.end(), len(reference.writes)
	for k := 1; k <= total; k++ {
		for _, committed := range []bool{false, true} {
			l := begin(t)
			l.failAt, l.failWith, l.committed = k, errors.New("connection reset"), committed
			l.settle(l.play)
			if diff := cmp.Diff(up, l.end()); diff != "" {
				t.Errorf("write %d failing once (-want +got):\n%s", k, diff)
			}
			l.writes = nil
			l.remove()
			l.settle(l.play)
			for _, gvk := range kinds {
				if left := l.list(gvk); len(left) > 0 {
					t.Errorf("write %d of the way down failing once: %v is left", k, left)
				}
			}
			if l.get() != nil {
				t.Errorf("write %d of the way down failing once: the Experiment is left", k)
			}
		}
	}
}

// Half of a cluster that somebody deletes is made again, and what its provider says is passed on.
func TestVClusterInTrouble(t *testing.T) {
	l := onVCluster(t)
	l.until(v1alpha1.PhaseProvisioning)
	vcluster := l.list(capi.VClusterGVK)[0]
	if err := l.client.Delete(t.Context(), &vcluster); err != nil {
		t.Fatal(err)
	}
	if err := l.reconcile(); err != nil {
		t.Fatal(err)
	}
	if n := len(l.list(capi.VClusterGVK)); n != 1 {
		t.Errorf("there are %d VClusters", n)
	}
	helmFails := func(u *unstructured.Unstructured) {
		_ = unstructured.SetNestedMap(u.Object, map[string]any{"reason": "HelmDeployFailed", "message": "no such chart"}, "status")
	}
	l.spoil(capi.VClusterGVK, helmFails)
	l.pass()
	if got := l.message(v1alpha1.ConditionClustersReady); !strings.HasSuffix(got, "is being provisioned: HelmDeployFailed: no such chart") {
		t.Errorf("it says %q", got)
	}
	cluster := l.list(capi.ClusterGVK)[0]
	_ = unstructured.SetNestedMap(cluster.Object, map[string]any{"failureReason": "CreateError", "failureMessage": "no chart"}, "status", "deprecated", "v1beta1")
	l.update(&cluster)
	if err := l.reconcile(); err != nil {
		t.Fatal(err)
	}
	l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonClusterFailed)
	want := fmt.Sprintf("Target app: Cluster %[1]s/%[2]s cannot be provisioned: CreateError: no chart; Cluster API goes on trying, "+
		"see kubectl -n %[1]s describe clusters.cluster.x-k8s.io %[2]s", cluster.GetNamespace(), cluster.GetName())
	if got := recordedStep(l.get().Status.Conditions, v1alpha1.ConditionClustersReady).Message; got != want {
		t.Errorf("message is %q, want %q", got, want)
	}
}

// What is waited for before a Workflow is said: a change that the provider cannot make, and what somebody has deleted, in the words of
// that, before the first Workflow and when another is to take its place.
func TestVClusterThatCannotBeChanged(t *testing.T) {
	for name, phase := range map[string]v1alpha1.Phase{"before the first Workflow": v1alpha1.PhaseReady, "while it runs": v1alpha1.PhaseRunning} {
		l := onVCluster(t)
		l.until(phase)
		l.spoil(capi.VClusterGVK, func(u *unstructured.Unstructured) {
			u.SetGeneration(2)
			_ = unstructured.SetNestedMap(u.Object, map[string]any{"ready": true, "observedGeneration": int64(1), "reason": "HelmDeployFailed", "message": "no such chart"}, "status")
		})
		l.edit(func(e *v1alpha1.Experiment) { e.Spec.Workflow.Params = map[string]string{"x": "y"} })
		l.tick(l.deployAll)
		l.says("of target app still tells of before: HelmDeployFailed: no such chart")
		l.spoil(capi.VClusterGVK, func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"example.com/hold"}) })
		l.delete(capi.VClusterGVK)
		l.tick(l.deployAll)
		l.says("of target app is being deleted")
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

// While somebody's deletion of a Cluster takes its time, what Cluster API takes down with it is not
// made again.
func TestVClusterBeingDeletedBySomebody(t *testing.T) {
	l := onVCluster(t)
	l.until(v1alpha1.PhaseReady)
	cluster, vcluster := l.list(capi.ClusterGVK)[0], l.list(capi.VClusterGVK)[0]
	for _, o := range []*unstructured.Unstructured{&cluster, &vcluster} {
		if err := l.client.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.reconcile(); err != nil {
		t.Fatal(err)
	}
	if n := len(l.list(capi.VClusterGVK)); n != 0 {
		t.Errorf("there are %d VClusters", n)
	}
	cluster = l.list(capi.ClusterGVK)[0]
	l.finalize(&cluster)
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
}

// A hub without Cluster API is told so, and nothing is begun.
func TestNote09VClusterWithoutItsKinds(t *testing.T) {
	for _, missing := range (vcluster{}).kinds() {
		l := onVCluster(t)
		l.kinds[missing] = kube.KindMissing
		l.settle(l.play)
		l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonCRDMissing)
		if l.get().Status.StartedAt != nil {
			t.Error("it is begun")
		}
		l.kinds[missing] = kube.KindServed
		l.settle(l.play)
		l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
	}
}

// The chart runs once in a namespace, so that each virtual cluster has one of its own, of which the
// manager, and nobody else, may read the Secrets.
func TestVClustersHaveNamespacesOfTheirOwn(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterVCluster), targetOf("loadgen", v1alpha1.ClusterVCluster)), nginx(), template())
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
	namespaces := map[string]bool{}
	for _, cluster := range l.list(capi.ClusterGVK) {
		namespaces[cluster.GetNamespace()] = true
	}
	bindings := l.list(kube.RoleBindingGVK)
	if len(namespaces) != 2 || len(bindings) != 2 {
		t.Fatalf("the clusters are in %v, with %d RoleBindings", namespaces, len(bindings))
	}
	for _, binding := range bindings {
		want := map[string]any{
			"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "labkeeper-kubeconfig-reader"},
			"subjects": []any{map[string]any{"kind": "ServiceAccount", "namespace": "labkeeper-system", "name": "labkeeper-controller-manager"}},
		}
		got := map[string]any{"roleRef": binding.Object["roleRef"], "subjects": binding.Object["subjects"]}
		if diff := cmp.Diff(want, got); diff != "" || !namespaces[binding.GetNamespace()] {
			t.Errorf("RoleBinding in %s (-want +got):\n%s", binding.GetNamespace(), diff)
		}
	}
	l.remove()
	l.settle(l.play)
	if left := l.list(namespaceGVK); l.get() != nil || len(left) > 0 {
		t.Errorf("%d namespaces are left", len(left))
	}
}

// What Cluster API takes down in an order must not lose its namespace first; a cluster that does not
// go holds it for a quarter of the deadline.
func TestNamespaceOfVClusterWaitsForIt(t *testing.T) {
	l := onVCluster(t)
	l.settle(l.play)
	l.remove()
	l.settle(l.deploy)
	cluster := l.list(capi.ClusterGVK)[0]
	if !going(&cluster) {
		t.Fatal("the Cluster is not deleted")
	}
	if namespaces := l.list(namespaceGVK); len(namespaces) != 1 {
		t.Fatalf("there are %d namespaces while the Cluster is there", len(namespaces))
	}
	l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDeleting)
	want := fmt.Sprintf("Waits for the deletion of Namespace %[1]s, Cluster %[1]s/%[2]s", cluster.GetNamespace(), cluster.GetName())
	if got := recordedStep(l.get().Status.Conditions, v1alpha1.ConditionReady).Message; got != want {
		t.Errorf("message is %q, want %q", got, want)
	}
	l.clock.SetTime(epoch.Add(defaultDeadline/4 + time.Second))
	l.settle(l.deploy)
	if namespaces := l.list(namespaceGVK); len(namespaces) != 0 {
		t.Error("the namespace is kept by a Cluster that does not go")
	}
}

// A namespace that somebody deletes is made again with everything that was in it.
func TestNamespaceOfVClusterDeletedBySomebody(t *testing.T) {
	l := onVCluster(t)
	l.until(v1alpha1.PhaseProvisioning)
	namespace := l.list(namespaceGVK)[0]
	namespace.SetFinalizers([]string{"example.com/hold"})
	l.update(&namespace)
	cluster, vcluster := l.list(capi.ClusterGVK)[0], l.list(capi.VClusterGVK)[0]
	for _, o := range []*unstructured.Unstructured{&namespace, &cluster, &vcluster} {
		if err := l.client.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.reconcile(); err != nil {
		t.Fatal(err)
	}
	if clusters := l.list(capi.ClusterGVK); len(clusters) != 0 {
		t.Errorf("there are %d Clusters in a namespace that is going", len(clusters))
	}
	l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonClusterProvisioning)
	namespace = l.list(namespaceGVK)[0]
	l.finalize(&namespace)
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
}

// A namespace of the name that is somebody else's is neither used nor deleted.
func TestNote40ForeignNamespaceOfTheName(t *testing.T) {
	l := onVCluster(t)
	name := names{l.get(), l.reconciler.Options}.onHub(l.get().Spec.Targets[0])
	l.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	l.writes = nil
	for range 3 {
		_ = l.reconcile()
	}
	l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonNameTaken)
	if n := len(l.list(capi.ClusterGVK)); n != 0 {
		t.Errorf("there are %d Clusters in somebody else's namespace", n)
	}
	l.remove()
	l.settle(l.play)
	if err := l.client.Get(t.Context(), client.ObjectKey{Name: name}, &corev1.Namespace{}); err != nil || l.get() != nil {
		t.Errorf("the namespace: %v; the Experiment: %v", err, l.get())
	}
}

// What runs in a virtual cluster runs on the hub, and the chart's values could grant anything there.
func TestBoundsOfVClusters(t *testing.T) {
	l := onVCluster(t)
	l.reconciler.Options.VClusterValues = false
	l.settle(l.play)
	l.expect(v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonInvalidSpec)
	if l.get().Status.StartedAt != nil {
		t.Error("it is begun")
	}
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Targets[0].Cluster.VCluster.Values = "" })
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
	if level := l.list(namespaceGVK)[0].GetLabels()["pod-security.kubernetes.io/enforce"]; level != "baseline" {
		t.Errorf("its pods may be %q", level)
	}
}

// A cluster that becomes ready in the moment in which it is changed is registered after the change, not
// never: its registration confirms what it is to be.
func TestChangedInTheMomentItIsReady(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
	l.until(v1alpha1.PhaseProvisioning)
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Suspend = true })
	l.settle(func() bool { return false })
	claim := l.list(crossplane.GKEClusterGVK)[0]
	l.readyClaim(&claim)
	l.edit(func(e *v1alpha1.Experiment) {
		e.Spec.Suspend, e.Spec.Targets[0].Cluster.NodeCount = false, ptr.To[int32](3)
	})
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
}

// What the spec does not say any more of a virtual cluster is taken off it before that is validated again, and nothing else is.
func TestVClusterWithoutItsValues(t *testing.T) {
	l := onVCluster(t)
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Targets[0].Cluster.VCluster.ChartVersion = "0.29.0" })
	l.until(v1alpha1.PhaseRunning)
	l.spoil(capi.VClusterGVK, func(u *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(u.Object, "https://charts.example.com", "spec", "helmRelease", "chart", "repo")
	})
	first := l.get().Status.Workflow.UID
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Targets[0].Cluster.VCluster = nil })
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
	if l.get().Status.Workflow.UID == first {
		t.Error("the verdict is that of the Workflow before")
	}
	want := map[string]any{"chart": map[string]any{"repo": "https://charts.example.com"}}
	release, _, _ := unstructured.NestedMap(l.list(capi.VClusterGVK)[0].Object, "spec", "helmRelease")
	if diff := cmp.Diff(want, release); diff != "" {
		t.Errorf("what is released (-want +got):\n%s", diff)
	}
}

// Half of a virtual cluster that is going is not registered, and what takes its place is another cluster.
func TestVClusterReplaced(t *testing.T) {
	l := onVCluster(t)
	l.until(v1alpha1.PhaseProvisioning)
	cluster, vcluster := l.list(capi.ClusterGVK)[0], l.list(capi.VClusterGVK)[0]
	vcluster.SetFinalizers([]string{"example.com/hold"})
	l.update(&vcluster)
	l.readyCluster(&cluster)
	if err := l.client.Delete(t.Context(), &vcluster); err != nil {
		t.Fatal(err)
	}
	if err := l.reconcile(); err != nil {
		t.Fatal(err)
	}
	l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonClusterProvisioning)
	if n := len(l.list(argocd.SecretGVK)); n != 0 {
		t.Errorf("there are %d registrations of half a cluster", n)
	}
	vcluster = l.list(capi.VClusterGVK)[0]
	l.finalize(&vcluster)
	l.settle(func() bool { return false })
	l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonClusterProvisioning) // the Cluster alone says it is up
	vcluster = l.list(capi.VClusterGVK)[0]
	_ = unstructured.SetNestedField(vcluster.Object, true, "status", "ready")
	l.update(&vcluster)
	l.settle(l.deploy)
	first, _, _ := unstructured.NestedString(l.list(argocd.ApplicationGVK)[0].Object, "spec", "destination", "name")

	if err := l.client.Delete(t.Context(), &vcluster); err != nil {
		t.Fatal(err)
	}
	l.settle(func() bool { return false })
	l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonClusterProvisioning)
	vcluster = l.list(capi.VClusterGVK)[0]
	_ = unstructured.SetNestedField(vcluster.Object, true, "status", "ready")
	l.update(&vcluster)
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
	if second, _, _ := unstructured.NestedString(l.list(argocd.ApplicationGVK)[0].Object, "spec", "destination", "name"); second == first {
		t.Errorf("the new cluster is registered as the old one, %s", first)
	}
}

// Whoever takes the manager's right to read a kubeconfig away, or installs it as another account, has
// it granted again.
func TestNote12And54GrantIsMadeAgain(t *testing.T) {
	l := onVCluster(t)
	l.until(v1alpha1.PhaseProvisioning)
	for _, binding := range l.list(kube.RoleBindingGVK) {
		if err := l.client.Delete(t.Context(), &binding); err != nil {
			t.Fatal(err)
		}
	}
	cluster := l.list(capi.ClusterGVK)[0]
	l.readyCluster(&cluster)
	l.getErrors["Secret"] = apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "x", nil)
	_ = l.reconcile()
	l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonForbidden)
	if n := len(l.list(kube.RoleBindingGVK)); n != 1 {
		t.Errorf("there are %d RoleBindings", n)
	}
	delete(l.getErrors, "Secret")
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
}

// What holds the Cluster does not hold what it names for ever, and the namespace goes last.
func TestStuckClusterLosesWhatItNames(t *testing.T) {
	l := onVCluster(t)
	l.settle(l.play)
	vcluster := l.list(capi.VClusterGVK)[0]
	vcluster.SetFinalizers([]string{"example.com/hold"})
	l.update(&vcluster)
	l.remove()
	l.settle(l.deploy)
	for i, want := range []struct{ vcluster, namespaces int }{{0, 1}, {1, 1}, {1, 0}} {
		l.clock.SetTime(epoch.Add(time.Duration(i) * (defaultDeadline/4 + time.Second)))
		l.settle(l.deploy)
		vcluster := l.list(capi.VClusterGVK)[0]
		if asked := going(&vcluster); asked != (want.vcluster == 1) || len(l.list(namespaceGVK)) != want.namespaces {
			t.Errorf("after %d shares of the deadline the VCluster is asked to go: %v; %d namespaces", i, asked, len(l.list(namespaceGVK)))
		}
	}
	l.clock.SetTime(epoch.Add(defaultDeadline + time.Minute))
	l.settle(l.deploy)
	if l.get() != nil {
		t.Fatal("it is not released")
	}
	orphans := l.read(configMapGVK, "labkeeper-system", names{experimentNamed(l), l.reconciler.Options}.orphans().Name)
	if orphans == nil {
		t.Fatal("nobody is told")
	}
	list, _, _ := unstructured.NestedString(orphans.Object, "data", "orphans.yaml")
	for _, kind := range []string{"kind: Cluster\n", "kind: VCluster\n"} {
		if !strings.Contains(list, kind) {
			t.Errorf("%q is not in:\n%s", kind, list)
		}
	}
}

// What a Cluster says of why it does not go is told of it when it is left behind.
func TestClusterSaysWhyItStays(t *testing.T) {
	l := onVCluster(t)
	l.settle(l.play)
	l.remove()
	l.settle(l.deploy)
	cluster := l.list(capi.ClusterGVK)[0]
	_ = unstructured.SetNestedSlice(cluster.Object, []any{
		map[string]any{"type": "Deleting", "status": "True", "reason": "WaitingForWorkersDeletion", "message": "* Machine x: cannot evict pod"},
	}, "status", "conditions")
	l.update(&cluster)
	for i := range 5 {
		l.later(time.Duration(i) * (defaultDeadline/4 + time.Second))
		l.settle(l.deploy)
	}
	if left := l.orphans(); len(left) != 1 || !strings.Contains(left[0].Error, "cannot evict pod") {
		t.Errorf("left behind is %+v", left)
	}
}

// experimentNamed is an Experiment of which only the name and UID are known.
func experimentNamed(l *lab) *v1alpha1.Experiment {
	e := experimentOf()
	e.Namespace, e.Name = l.experiment.Namespace, l.experiment.Name
	return e
}

// A namespace waits for a Cluster that cannot be seen, too.
func TestNamespaceOfHiddenClusterWaits(t *testing.T) {
	l := onVCluster(t)
	l.settle(l.play)
	l.kinds[capi.ClusterGVK] = kube.KindUnserved
	l.remove()
	l.settle(l.deploy)
	if n := len(l.list(namespaceGVK)); n != 1 {
		t.Errorf("there are %d namespaces", n)
	}
}

// A namespace that does not go is left behind with what its conditions say, in the Event, too.
func TestNamespaceThatDoesNotGoSaysWhy(t *testing.T) {
	l := onVCluster(t)
	l.settle(l.play)
	l.stick(namespaceGVK)
	l.remove()
	l.settle(l.play)
	namespace := l.list(namespaceGVK)[0]
	namespace.Object["status"] = map[string]any{"phase": "Terminating", "conditions": []any{
		map[string]any{"type": "NamespaceDeletionDiscoveryFailure", "status": "False", "reason": "ResourcesDiscovered", "message": "All resources successfully discovered"},
		map[string]any{"type": "NamespaceFinalizersRemaining", "status": "True", "reason": "SomeFinalizersRemain", "message": "example.com/stuck in 1 resource instances"},
	}}
	if err := l.client.Status().Update(t.Context(), &namespace); err != nil {
		t.Fatal(err)
	}
	l.later(2 * defaultDeadline)
	l.drain()
	l.tick()
	const why = "SomeFinalizersRemain: example.com/stuck in 1 resource instances"
	if left := l.orphans(); len(left) != 1 || left[0].Kind != "Namespace" || left[0].Error != why {
		t.Errorf("left behind is %+v", left)
	}
	if story := strings.Join(l.drain(), "\n"); !strings.Contains(story, why) {
		t.Errorf("the events are:\n%s", story)
	}
}

// What is left in a Namespace comes before why that is not known, and its own finalizers count where it has no others.
func TestNamespaceAsAnOrphan(t *testing.T) {
	of := func(conditionType, status string) any {
		return map[string]any{"type": conditionType, "status": status, "reason": conditionType + "Reason", "message": "as told"}
	}
	for name, test := range map[string]struct {
		conditions []any
		finalizers []string
		says       string
		held       []string
	}{
		"what is left":    {[]any{of("NamespaceDeletionContentFailure", "True"), of("NamespaceContentRemaining", "True")}, nil, "NamespaceContentRemainingReason: as told", []string{"kubernetes"}},
		"what is unknown": {[]any{of("NamespaceContentRemaining", "False"), of("NamespaceDeletionDiscoveryFailure", "True")}, nil, "NamespaceDeletionDiscoveryFailureReason: as told", []string{"kubernetes"}},
		"a group version": {[]any{of("NamespaceDeletionGroupVersionParsingFailure", "True")}, nil, "NamespaceDeletionGroupVersionParsingFailureReason: as told", []string{"kubernetes"}},
		"nothing":         {nil, []string{"example.com/held"}, "it is held by its finalizers and says nothing", []string{"example.com/held"}},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := object(namespaceGVK, "", "tutorial-app")
			namespace.Object["spec"] = map[string]any{"finalizers": []any{"kubernetes"}}
			namespace.Object["status"] = map[string]any{"conditions": test.conditions}
			namespace.SetFinalizers(test.finalizers)
			namespace.SetDeletionTimestamp(&metav1.Time{Time: epoch})
			d := &demolition{facts: facts{experiment: experimentOf()}}
			if o := d.orphan(remnant{gvk: namespaceGVK, object: namespace}); o.Error != test.says || !slices.Equal(o.Finalizers, test.held) {
				t.Errorf("it is told of as %+v", o)
			}
		})
	}
}

// A version that does not know the type of a cluster does not let the Experiment go without it.
func TestClusterOfALaterVersion(t *testing.T) {
	e := experimentOf(targetOf("app", "later"))
	e.Status.StartedAt = &metav1.Time{Time: epoch}
	e.Finalizers = []string{v1alpha1.Finalizer}
	l := newLab(t, e, nginx(), template())
	l.remove()
	l.settle(l.play)
	if l.get() == nil {
		t.Fatal("it is let go")
	}
	if got := recordedStep(l.get().Status.Conditions, v1alpha1.ConditionReady).Message; !strings.Contains(got, "type later, which this version does not know") {
		t.Errorf("message is %q", got)
	}
}

// A name that begins with a digit does for an Experiment, not for a Service.
func TestVClusterOfAnExperimentThatBeginsWithADigit(t *testing.T) {
	e := experimentOf(targetOf("app", v1alpha1.ClusterVCluster))
	e.Name = "2024-bench"
	l := newLab(t, e, nginx(), template())
	l.settle(l.play)
	if name := l.list(capi.VClusterGVK)[0].GetName(); len(validation.IsDNS1035Label(name)) > 0 || len(name) > crossplane.MaxClaimName {
		t.Errorf("the VCluster is called %q", name)
	}
}
