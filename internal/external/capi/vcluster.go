package capi

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// VClusterGVK is the control plane and infrastructure of a virtual cluster, in one.
var VClusterGVK = schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1alpha1", Kind: "VCluster"}

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
	release := map[string]any{"values": v.Values} // the provider takes text, not an object
	if v.ChartVersion != "" {
		release["chart"] = map[string]any{"version": v.ChartVersion}
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"helmRelease": release}}}
	u.SetGroupVersionKind(VClusterGVK)
	u.SetNamespace(v.Namespace)
	u.SetName(v.Name)
	return []*unstructured.Unstructured{
		Cluster{Namespace: v.Namespace, Name: v.Name, ControlPlane: kind, Infrastructure: kind}.Object(), u,
	}
}
