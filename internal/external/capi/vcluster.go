package capi

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/labkeeper/labkeeper/internal/conditions"
)

// VClusterGVK is the control plane and infrastructure of a virtual cluster, in one.
var VClusterGVK = schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1alpha1", Kind: "VCluster"}

// skipPatch tells the provider not to look for another object of the infrastructure. It would look for
// it by a field that Cluster API 1.11 does not have any more, and never be ready.
const skipPatch = "vcluster.loft.sh/skip-infrastructure-cluster-patch"

// ReadVCluster is whether the control plane is up, and what is wrong with what it is asked for, which the provider says of one that is
// up, too; nil is not up.
func ReadVCluster(vcluster *unstructured.Unstructured) (ready bool, message string) {
	if vcluster == nil {
		return false, ""
	}
	reason, _, _ := unstructured.NestedString(vcluster.Object, "status", "reason")
	text, _, _ := unstructured.NestedString(vcluster.Object, "status", "message")
	return flag(vcluster, "status", "ready"), conditions.Join(reason, text)
}

// VCluster is a virtual cluster.
type VCluster struct {
	// Namespace and Name are those of its Cluster.
	Namespace, Name string
	// ChartVersion is the version of the chart vcluster; empty is what the provider takes.
	ChartVersion string
	// Values of the chart, as YAML text; may be empty.
	Values string
}

// Objects are the Cluster and what it names.
func (v VCluster) Objects() []*unstructured.Unstructured {
	kind := VClusterGVK.GroupKind()
	release := map[string]any{}
	if v.Values != "" { // the provider, which takes text, not an object, drops an empty one
		release["values"] = v.Values
	}
	if v.ChartVersion != "" {
		release["chart"] = map[string]any{"version": v.ChartVersion}
	}
	u := object(VClusterGVK, v.Namespace, v.Name, map[string]any{"helmRelease": release})
	u.SetAnnotations(map[string]string{skipPatch: "true"})
	return []*unstructured.Unstructured{
		Cluster{Namespace: v.Namespace, Name: v.Name, ControlPlane: kind, Infrastructure: kind}.Object(), u,
	}
}

// Strange are the paths of what a VCluster has of what it can be given, and is not given any more, as argocd.Strange has them. Objects of
// other kinds have nothing strange.
func Strange(live, desired *unstructured.Unstructured) (paths [][]string) {
	if desired.GroupVersionKind() != VClusterGVK {
		return nil
	}
	for _, path := range [][]string{{"spec", "helmRelease", "chart", "version"}, {"spec", "helmRelease", "values"}} {
		has, _, _ := unstructured.NestedString(live.Object, path...)
		if _, wanted, _ := unstructured.NestedString(desired.Object, path...); has != "" && !wanted {
			paths = append(paths, path)
		}
	}
	return paths
}
