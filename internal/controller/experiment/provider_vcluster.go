package experiment

import (
	"cmp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/capi"
)

// vcluster asks Cluster API for a virtual cluster on the hub. The chart runs once in a namespace and
// refuses to run a second time (vcluster 0.25).
type vcluster struct{}

func (vcluster) system() string { return "Cluster API" }

func (vcluster) kinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{capi.ClusterGVK, capi.VClusterGVK}
}

func (vcluster) housed() bool { return true }

func (vcluster) identity() int { return 2 }

func (vcluster) objects(n names, t v1alpha1.Target) []*unstructured.Unstructured {
	name, spec := n.cluster(t), ptr.Deref(t.Cluster.VCluster, v1alpha1.VCluster{})
	return capi.VCluster{Namespace: name.Namespace, Name: name.Name, ChartVersion: spec.ChartVersion, Values: spec.Values}.Objects()
}

func (vcluster) read(objects []*unstructured.Unstructured) clusterState {
	s := readBoth(objects, capi.ReadVCluster)
	if !s.Ready && !s.Failed && len(objects) > 1 { // of what is wrong with the chart the Cluster does not tell
		_, message := capi.ReadVCluster(objects[1])
		s.Message = cmp.Or(message, s.Message)
	}
	return s
}

func (vcluster) kubeconfig(n names, t v1alpha1.Target, cluster *unstructured.Unstructured) kubeconfigRef {
	return addressed(cluster, kubeconfigRef{
		Secret: capi.KubeconfigSecret(n.cluster(t)), Key: capi.KubeconfigKey, Remedy: "the provider of virtual clusters must write it",
	})
}
