package experiment

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/capi"
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

func TestTalosRoad(t *testing.T) {
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

// deleted are the deletions among the writes.
func (l *lab) deleted() []string {
	return slices.DeleteFunc(slices.Clone(l.writes), func(w string) bool { return !strings.HasPrefix(w, "delete ") })
}

// Every write fails once, up and down, with and without having taken place.
func TestTalosWithEveryWriteFailingOnce(t *testing.T) {
	reference := onTalos(t)
	reference.settle(reference.play)
	up, total := reference.end(), len(reference.writes)
	for k := 1; k <= total; k++ {
		for _, committed := range []bool{false, true} {
			l := onTalos(t)
			l.failAt, l.failWith, l.committed = k, errors.New("connection reset"), committed
			l.settle(l.play)
			if diff := cmp.Diff(up, l.end()); diff != "" {
				t.Errorf("write %d failing once (-want +got):\n%s", k, diff)
			}
			l.writes = nil
			l.remove()
			l.settle(l.play)
			for _, gvk := range madeForTalos {
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

func TestTalosOnInfrastructureThatIsNotInstalled(t *testing.T) {
	target := talosTarget()
	target.Cluster.Talos.Infrastructure.Machines.Kind = "MoonMachineTemplate"
	l := newLab(t, experimentOf(target), nginx(), template(), dockerClusterTemplate())
	unknown := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: dockerClusterGVK.Group, Kind: "MoonMachineTemplate"}}
	l.getErrors["MoonMachineTemplate"], l.listErrors["MoonMachineTemplate"] = unknown, unknown
	l.settle(l.play)
	l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonClusterTemplateNotFound)
	if step := recordedStep(l.get().Status.Conditions, v1alpha1.ConditionClustersReady); !strings.Contains(step.Message, "the kind MoonMachineTemplate.infrastructure.cluster.x-k8s.io/v1beta1, install its") {
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

// A kubeconfig that authors may write is trusted no further than their own.
func TestTalosKubeconfig(t *testing.T) {
	for namespace, authors := range map[string]bool{"": true, "lab": true, "clusters": false} {
		n := names{experimentOf(talosTarget()), Options{ClaimNamespace: namespace}}
		if got := (talos{}).kubeconfig(n, talosTarget(), nil); got.Authors != authors || got.Trust != argocd.Untrusted || !strings.HasSuffix(got.Secret.Name, "-kubeconfig") {
			t.Errorf("in namespace %q it is %+v", namespace, got)
		}
	}
}
