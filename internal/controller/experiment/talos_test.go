package experiment

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/argoworkflows"
	"github.com/labkeeper/labkeeper/internal/external/capi"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// madeForTalos are the kinds of everything that a Talos cluster is made by.
var madeForTalos = []schema.GroupVersionKind{
	capi.ClusterGVK, capi.TalosControlPlaneGVK, capi.TalosConfigTemplateGVK, capi.MachineDeploymentGVK, dockerClusterGVK, dockerMachineTemplateGVK,
}

func talosTarget() v1alpha1.Target {
	target := targetOf("app", v1alpha1.ClusterTalos)
	target.Cluster.NodeCount = ptr.To[int32](2)
	ref := func(gvk schema.GroupVersionKind, name string) v1alpha1.TemplateRef {
		return v1alpha1.TemplateRef{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Name: name}
	}
	target.Cluster.Talos = &v1alpha1.Talos{
		KubernetesVersion: "v1.34.1",
		Infrastructure:    v1alpha1.Infrastructure{Cluster: ref(dockerClusterTemplateGVK, "lab"), Machines: ref(dockerMachineTemplateGVK, "small")},
	}
	return target
}

func dockerClusterTemplate() *unstructured.Unstructured {
	u := object(dockerClusterTemplateGVK, "lab", "lab")
	u.Object["spec"] = map[string]any{"template": map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"site": "north"}},
		"spec":     map[string]any{"loadBalancer": map[string]any{"imageTag": "v1"}},
	}}
	return u
}

func dockerMachineTemplate() *unstructured.Unstructured {
	u := object(dockerMachineTemplateGVK, "lab", "small")
	u.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{"customImage": "talos"}}}
	return u
}

func onTalos(t *testing.T) *lab {
	return newLab(t, experimentOf(talosTarget()), nginx(), template(), dockerClusterTemplate(), dockerMachineTemplate())
}

func TestNote10TalosRoad(t *testing.T) {
	l := onTalos(t)
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
	want := []string{
		"patch Experiment", "patch Experiment/status",
		"create DockerCluster", "create DockerMachineTemplate", "create DockerMachineTemplate",
		"create Cluster", "create TalosControlPlane", "create TalosConfigTemplate", "create MachineDeployment", "patch Experiment/status",
		"create Secret", "create Application", "patch Experiment/status",
		"create Workflow", "patch Experiment/status",
		"patch Experiment/status",
	}
	if diff := cmp.Diff(want, l.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	for _, gvk := range madeForTalos {
		for _, o := range l.list(gvk) {
			if err := valid(&o); err != nil {
				t.Error(err)
			}
		}
	}
	infrastructure := l.list(dockerClusterGVK)[0]
	if tag, _, _ := unstructured.NestedString(infrastructure.Object, "spec", "loadBalancer", "imageTag"); tag != "v1" || infrastructure.GetLabels()["site"] != "north" {
		t.Errorf("the copy of the template is %v", infrastructure)
	}

	l.writes = nil
	l.remove()
	l.settle(l.play)
	if l.get() != nil {
		t.Fatalf("it is still there: %+v", l.get().Status)
	}
	if got := l.deleted(); !slices.Equal(got, []string{
		"delete Workflow", "delete Application", "delete Secret", "delete Cluster",
		"delete TalosConfigTemplate", "delete DockerMachineTemplate", "delete DockerMachineTemplate",
	}) {
		t.Errorf("deletions are %v", got)
	}
	l.read(dockerClusterTemplateGVK, "lab", "lab") // which are the user's
	l.read(dockerMachineTemplateGVK, "lab", "small")
}

// One worker and one control plane is what a cluster has that does not say.
func TestTalosThatSaysNoNumbers(t *testing.T) {
	target := talosTarget()
	for name, test := range map[string]struct {
		workers, planes *int32
		want            [2]int64
	}{
		"none":  {nil, nil, [2]int64{1, 1}},
		"three": {ptr.To[int32](3), ptr.To[int32](3), [2]int64{3, 3}},
	} {
		target.Cluster.NodeCount, target.Cluster.Talos.ControlPlanes = test.workers, test.planes
		n := names{experimentOf(target), labOptions}
		got := map[string]int64{}
		for _, o := range (talos{}).objects(n, target) {
			got[o.GetKind()], _, _ = unstructured.NestedInt64(o.Object, "spec", "replicas")
		}
		if workers, planes := got["MachineDeployment"], got["TalosControlPlane"]; workers != test.want[0] || planes != test.want[1] {
			t.Errorf("%s: %d workers, %d control planes", name, workers, planes)
		}
	}
}

// A Cluster that says no address which can be used is not registered, and says what is wrong: Workflows would be told none.
func TestClusterWithoutAnAddress(t *testing.T) {
	for name, host := range map[string]string{"none": "", "a zone": "fe80::1%eth0", "a script": "$(id)"} {
		for kind, road := range map[string]func(*testing.T) *lab{"talos": onTalos, "vcluster": onVCluster} {
			t.Run(kind+", "+name, func(t *testing.T) {
				l := road(t)
				l.until(v1alpha1.PhaseProvisioning)
				address := func(host string) {
					for _, cluster := range l.list(capi.ClusterGVK) {
						l.readyCluster(&cluster)
						cluster = *l.reread(&cluster)
						_ = unstructured.SetNestedField(cluster.Object, host, "spec", "controlPlaneEndpoint", "host")
						l.update(&cluster)
					}
					l.mustReconcile()
				}
				address(host)
				l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonKubeconfigMissing)
				if m := l.message(v1alpha1.ConditionClustersReady); !strings.Contains(m, "says no address of its API server that can be used (spec.controlPlaneEndpoint)") {
					t.Errorf("it says %q", m)
				}
				if n := len(l.list(argocd.SecretGVK)); n > 0 {
					t.Errorf("it is registered")
				}
				address("203.0.113.10")
				l.settle(l.play)
				l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
			})
		}
	}
}

// deleted are the deletions among the writes.
func (l *lab) deleted() []string {
	return slices.DeleteFunc(slices.Clone(l.writes), func(w string) bool { return !strings.HasPrefix(w, "delete ") })
}

func TestTalosWithEveryWriteFailingOnce(t *testing.T) {
	everyWriteFailingOnce(t, onTalos, madeForTalos...)
}

// What was made before the cluster itself, and the cluster never was, goes as well.
func TestTalosThatNeverWas(t *testing.T) {
	l := onTalos(t)
	l.forbid("create", "Cluster")
	if err := l.reconcile(); err == nil {
		t.Fatal("it is not refused")
	}
	if len(l.list(dockerClusterGVK)) != 1 || len(l.list(dockerMachineTemplateGVK)) != 2 {
		t.Fatal("nothing was made before")
	}
	l.remove()
	l.settle(l.play)
	if l.get() != nil || len(l.list(dockerClusterGVK))+len(l.list(dockerMachineTemplateGVK)) > 0 {
		t.Error("it is left")
	}
}

// Nothing is made before all of the templates are there, and what is missing or cannot be read is said.
func TestTalosWithoutTemplates(t *testing.T) {
	l := newLab(t, experimentOf(talosTarget()), nginx(), template(), dockerClusterTemplate())
	l.settle(l.play)
	l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonClusterTemplateNotFound)
	step := recordedStep(l.get().Status.Conditions, v1alpha1.ConditionClustersReady)
	if !strings.Contains(step.Message, "waits for DockerMachineTemplate lab/small, create it") {
		t.Errorf("message is %q", step.Message)
	}
	if n := len(l.list(dockerClusterGVK)); n != 0 {
		t.Errorf("there are %d DockerClusters", n)
	}
	if wait := l.pass(); wait != secretDelay {
		t.Errorf("it looks again after %s", wait)
	}
	l.getErrors["DockerMachineTemplate"] = apierrors.NewForbidden(schema.GroupResource{Resource: "dockermachinetemplates"}, "small", errors.New("no rights"))
	_ = l.reconcile()
	l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonForbidden)
	delete(l.getErrors, "DockerMachineTemplate")
	l.create(dockerMachineTemplate())
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
}

func TestNote09TalosOnInfrastructureThatIsNotInstalled(t *testing.T) {
	target := talosTarget()
	target.Cluster.Talos.Infrastructure.Machines.Kind = "MoonMachineTemplate"
	l := newLab(t, experimentOf(target), nginx(), template(), dockerClusterTemplate())
	unknown := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: dockerClusterGVK.Group, Kind: "MoonMachineTemplate"}}
	l.getErrors["MoonMachineTemplate"], l.listErrors["MoonMachineTemplate"] = unknown, unknown
	l.settle(l.play)
	l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonClusterTemplateNotFound)
	if step := recordedStep(l.get().Status.Conditions, v1alpha1.ConditionClustersReady); !strings.Contains(step.Message, "the kind MoonMachineTemplate.infrastructure.cluster.x-k8s.io/v1beta1, which the cluster does not serve; install its") {
		t.Errorf("message is %q", step.Message)
	}
	l.remove()
	l.settle(l.play)
	if l.get() != nil {
		t.Error("it is still there")
	}
}

// A template that is changed later concerns no cluster that is there, and a copy that is there stays.
func TestTalosCopiesStay(t *testing.T) {
	l := onTalos(t)
	l.forbid("create", "Cluster")
	_ = l.reconcile()
	changed := l.read(dockerMachineTemplateGVK, "lab", "small")
	_ = unstructured.SetNestedField(changed.Object, "another", "spec", "template", "spec", "customImage")
	l.update(changed)
	l.refuse = nil
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
	for _, copied := range l.list(dockerMachineTemplateGVK) {
		if image, _, _ := unstructured.NestedString(copied.Object, "spec", "template", "spec", "customImage"); image != "talos" {
			t.Errorf("the image is %q", image)
		}
	}
}

// Somebody deletes the cluster: everything is made again, when what was made before is gone.
func TestTalosDeletedBySomebody(t *testing.T) {
	l := onTalos(t)
	l.until(v1alpha1.PhaseReady)
	infrastructure := l.list(dockerClusterGVK)[0]
	infrastructure.SetFinalizers([]string{"docker"})
	l.update(&infrastructure)
	cluster := l.list(capi.ClusterGVK)[0]
	l.deleteObject(&cluster)
	cluster = l.list(capi.ClusterGVK)[0]
	l.deleteObject(&infrastructure)
	for _, gvk := range []schema.GroupVersionKind{capi.MachineDeploymentGVK, capi.TalosControlPlaneGVK} {
		l.delete(gvk)
	}
	l.finalize(&cluster)
	_ = l.reconcile()
	if n := len(l.list(capi.ClusterGVK)); n != 0 {
		t.Errorf("there are %d Clusters, and what the first was made of is going", n)
	}
	infrastructure = l.list(dockerClusterGVK)[0]
	l.finalize(&infrastructure)
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
	if n := len(l.list(dockerClusterGVK)); n != 1 {
		t.Errorf("there are %d DockerClusters", n)
	}
}

// Machines that never come keep what is deployed from running: the target says so, while that is not healthy, and not any longer.
func TestTalosWithoutWorkers(t *testing.T) {
	l := onTalos(t)
	l.settle(l.validating)
	workers := func(status string) {
		l.spoil(capi.ClusterGVK, func(cluster *unstructured.Unstructured) {
			all, _, _ := unstructured.NestedSlice(cluster.Object, "status", "conditions")
			all = slices.DeleteFunc(all, func(c any) bool { return c.(map[string]any)["type"] == "WorkersAvailable" })
			all = append(all, map[string]any{"type": "WorkersAvailable", "status": status, "reason": "NotAvailable", "message": "MachineDeployment app: quota exceeded"})
			_ = unstructured.SetNestedSlice(cluster.Object, all, "status", "conditions")
		})
	}
	said := func() string {
		l.mustReconcile()
		return l.get().Status.Targets[0].Message
	}
	if workers("False"); strings.Contains(said(), "quota exceeded") {
		t.Errorf("it is healthy, and says %q", said())
	}
	l.spoil(argocd.ApplicationGVK, func(app *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(app.Object, "Progressing", "status", "health", "status")
	})
	if !strings.HasSuffix(said(), "; its cluster says NotAvailable: MachineDeployment app: quota exceeded") {
		t.Errorf("it says %q", said())
	}
	if workers("True"); strings.Contains(said(), "quota exceeded") {
		t.Errorf("they are there, and it says %q", said())
	}
}

// A kubeconfig that authors may write is trusted no further than their own.
func TestTalosKubeconfig(t *testing.T) {
	for namespace, authors := range map[string]bool{"": true, "lab": true, "clusters": false} {
		n := names{experimentOf(talosTarget()), Options{ClaimNamespace: namespace}}
		if got := (talos{}).kubeconfig(n, talosTarget(), nil); got.Authors != authors || got.Trust != argocd.Untrusted || !strings.HasSuffix(got.Secret.Name, "-kubeconfig") {
			t.Errorf("in namespace %q it is %+v", namespace, got)
		}
	}
}

// Somebody deletes the cluster of a target that was begun, while one that it depends on is not healthy.
func TestTalosWhenADependencyIsNotHealthy(t *testing.T) {
	dependent := talosTarget()
	dependent.Depends = []string{"first"}
	l := newLab(t, experimentOf(targetOf("first", v1alpha1.ClusterHub), dependent), nginx(), template(), dockerClusterTemplate(), dockerMachineTemplate())
	l.until(v1alpha1.PhaseReady)
	for _, app := range l.list(argocd.ApplicationGVK) {
		if app.GetLabels()[v1alpha1.LabelTarget] == "first" {
			l.appIs(&app, "Degraded")
		}
	}
	l.gone(madeForTalos...)
	for range 3 {
		_ = l.reconcile()
	}
	if n, m := len(l.list(capi.ClusterGVK)), len(l.list(dockerClusterGVK)); n > m {
		t.Errorf("there are %d Clusters and %d DockerClusters", n, m)
	}
}

// The garbage collector is slower than the manager.
func TestTalosAndTheGarbageCollector(t *testing.T) {
	l := onTalos(t)
	l.until(v1alpha1.PhaseReady)
	cluster := l.list(capi.ClusterGVK)[0]
	old := types.UID("gone")
	for _, o := range l.list(dockerMachineTemplateGVK) {
		if o.GetLabels()[v1alpha1.LabelTarget] == "" {
			continue
		}
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Name: cluster.GetName(), UID: old}})
		l.update(&o)
	}
	// Cluster API has taken these down, and the Cluster is gone.
	l.gone(capi.MachineDeploymentGVK, capi.TalosControlPlaneGVK, dockerClusterGVK, capi.ClusterGVK)
	_ = l.reconcile() // the manager is first
	// the garbage collector comes then
	for _, o := range l.list(dockerMachineTemplateGVK) {
		if len(o.GetOwnerReferences()) > 0 && o.GetOwnerReferences()[0].UID == old {
			l.deleteObject(&o)
		}
	}
	for _, o := range l.list(dockerMachineTemplateGVK) {
		l.finalize(&o)
	}
	for range 10 {
		_ = l.reconcile()
	}
	if n, m := len(l.list(capi.ClusterGVK)), len(l.list(dockerMachineTemplateGVK)); n != 1 || m != 2 {
		t.Errorf("there are %d Clusters and %d DockerMachineTemplates", n, m)
	}
}

// A cluster that takes long to go keeps what its machines are taken down with.
func TestTalosClusterThatTakesLongToGo(t *testing.T) {
	l := onTalos(t)
	l.until(v1alpha1.PhaseReady)
	c := l.list(capi.ClusterGVK)[0]
	c.SetFinalizers([]string{"cluster.cluster.x-k8s.io"})
	l.update(&c)
	for _, i := range l.list(dockerClusterGVK) {
		i.SetFinalizers([]string{"docker"})
		l.update(&i)
	}
	l.remove()
	for range 60 {
		_ = l.reconcile()
		for _, gvk := range []schema.GroupVersionKind{argocd.ApplicationGVK} {
			for _, o := range l.list(gvk) {
				l.finalize(&o)
			}
		}
		l.clock.SetTime(l.clock.Now().Add(time.Minute))
		if l.get() == nil {
			break
		}
		for _, i := range l.list(dockerClusterGVK) {
			if going(&i) && len(l.list(capi.ClusterGVK)) > 0 {
				t.Fatalf("the DockerCluster is being deleted before its Cluster is gone; writes %v", l.deleted())
			}
		}
	}
}

// A version of the infrastructure that is not served any more proves nothing.
func TestTalosInAVersionThatIsNotServed(t *testing.T) {
	l := onTalos(t)
	l.forbid("create", "Cluster")
	_ = l.reconcile()
	unserved := &meta.NoKindMatchError{GroupKind: dockerClusterGVK.GroupKind(), SearchedVersions: []string{"v1beta1"}}
	l.listErrors["DockerCluster"] = unserved
	l.remove()
	l.settle(l.play)
	if l.get() == nil {
		t.Error("the Experiment is gone, and the DockerCluster may be left")
	}
	// It is told of when the deadline is over.
	l.later(defaultDeadline / 2)
	_ = l.reconcile()
	l.later(2 * defaultDeadline)
	_ = l.reconcile()
	if l.get() != nil {
		t.Error("it is waited for for ever")
	}
}

// A control plane that takes the place of another is waited for: the Cluster stays initialized.
func TestTalosControlPlaneReplaced(t *testing.T) {
	l := onTalos(t)
	l.until(v1alpha1.PhaseReady)
	first, _, _ := unstructured.NestedString(l.list(argocd.ApplicationGVK)[0].Object, "spec", "destination", "name")
	l.gone(capi.TalosControlPlaneGVK)
	l.settle(l.deploy)
	l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonClusterProvisioning)
	controlPlanes := l.list(capi.TalosControlPlaneGVK)
	if len(controlPlanes) != 1 {
		t.Fatalf("there are %d control planes", len(controlPlanes))
	}
	_ = unstructured.SetNestedField(controlPlanes[0].Object, true, "status", "initialized")
	l.update(&controlPlanes[0])
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
	if second, _, _ := unstructured.NestedString(l.list(argocd.ApplicationGVK)[0].Object, "spec", "destination", "name"); second == first {
		t.Errorf("the new cluster is registered as the old one, %s", first)
	}
}

// A TalosConfigTemplate that somebody deletes is inert.
func TestTalosConfigTemplateDeleted(t *testing.T) {
	l := onTalos(t)
	l.until(v1alpha1.PhaseReady)
	app := l.list(argocd.ApplicationGVK)[0]
	o := l.list(capi.TalosConfigTemplateGVK)[0]
	l.deleteObject(&o)
	l.writes = nil
	l.settle(l.play)
	if now := l.list(argocd.ApplicationGVK)[0]; now.GetUID() != app.GetUID() {
		t.Errorf("the Application is another; writes %v", l.writes)
	}
}

// gone deletes objects as Cluster API has them go.
func (l *lab) gone(kinds ...schema.GroupVersionKind) {
	for _, gvk := range kinds {
		for _, o := range l.list(gvk) {
			if !going(&o) {
				l.deleteObject(&o)
			}
		}
		for _, o := range l.list(gvk) {
			l.finalize(&o)
		}
		if n := len(l.list(gvk)); n > 0 {
			l.t.Fatalf("%d %s are left", n, gvk.Kind)
		}
	}
}

// A copy that somebody deletes while the cluster is on its way is made again.
func TestTalosCopyDeletedBySomebody(t *testing.T) {
	l := onTalos(t)
	l.until(v1alpha1.PhaseProvisioning)
	l.gone(dockerMachineTemplateGVK)
	if wait := l.pass(); wait > lastLook {
		t.Errorf("it looks again after %s", wait)
	}
	if n := len(l.list(dockerMachineTemplateGVK)); n != 2 {
		t.Errorf("there are %d copies", n)
	}
}

// What makes virtual clusters is no infrastructure of machines.
func TestTalosOnVirtualClusters(t *testing.T) {
	target := talosTarget()
	target.Cluster.Talos.Infrastructure.Cluster.Kind = "VClusterTemplate"
	l := newLab(t, experimentOf(target), nginx(), template())
	l.mustReconcile()
	l.expect(v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonInvalidSpec)
}

// Whoever writes the template of the infrastructure says where the API server is, and templates of Workflows put it into scripts.
func TestTalosEndpointForAScript(t *testing.T) {
	l := onTalos(t)
	l.settle(func() bool {
		for _, cluster := range l.list(capi.ClusterGVK) {
			if host, _, _ := unstructured.NestedString(cluster.Object, "spec", "controlPlaneEndpoint", "host"); host == "203.0.113.10" {
				_ = unstructured.SetNestedField(cluster.Object, "203.0.113.10/$(id)", "spec", "controlPlaneEndpoint", "host")
				l.update(&cluster)
				return true
			}
		}
		return l.play()
	})
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
	given := l.list(argoworkflows.WorkflowGVK)[0].Object["spec"].(map[string]any)["arguments"]
	if said := fmt.Sprint(given, l.get().Status.Targets); strings.Contains(said, "$(id)") {
		t.Errorf("the Workflow and the status have it: %s", said)
	}
}

// A Cluster that somebody has taken the label off stays, and what it is made by with it: that is told, and not waited for as what is about
// to go.
func TestTalosClusterThatSomebodyKeeps(t *testing.T) {
	l := onTalos(t)
	l.until(v1alpha1.PhaseReady)
	cluster := l.list(capi.ClusterGVK)[0]
	l.spoil(dockerClusterGVK, func(o *unstructured.Unstructured) { // as Cluster API does
		o.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: capi.ClusterGVK.GroupVersion().String(), Kind: capi.ClusterGVK.Kind, Name: cluster.GetName(), UID: cluster.GetUID(),
		}})
	})
	l.unlabel(capi.ClusterGVK, v1alpha1.LabelExperimentUID)
	l.reconciler.Foreign = unlabelledUnseen{l.client}
	_ = l.reconcile()
	l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNameTaken)
	if said := l.message(v1alpha1.ConditionReady); !strings.Contains(said, "Cluster "+cluster.GetNamespace()+"/"+cluster.GetName()+" exists and is not managed") {
		t.Errorf("it says %q", said)
	}
	kept, err := kube.Get(t.Context(), l.client, capi.ClusterGVK, keyOf(&cluster))
	if err != nil {
		t.Fatal(err)
	}
	kept.SetFinalizers(nil)
	l.update(kept)
	if err := l.client.Delete(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	_ = l.reconcile()
	if said := l.message(v1alpha1.ConditionClustersReady); strings.Contains(said, "is not managed") {
		t.Errorf("when it is gone it says %q", said)
	}
}
