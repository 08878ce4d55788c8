package capi

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/labkeeper/labkeeper/internal/conditions"
)

// The kinds that a Talos Linux cluster is made by, beside its Cluster and what the provider of its
// infrastructure has.
var (
	TalosControlPlaneGVK   = schema.GroupVersionKind{Group: "controlplane.cluster.x-k8s.io", Version: "v1alpha3", Kind: "TalosControlPlane"}
	TalosConfigTemplateGVK = schema.GroupVersionKind{Group: "bootstrap.cluster.x-k8s.io", Version: "v1alpha3", Kind: "TalosConfigTemplate"}
	MachineDeploymentGVK   = schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "MachineDeployment"}
)

// ReadTalosControlPlane is whether a control plane has come up, which does not go back when machines come and go, and
// if not why; nil has not. A provider says so by the contract v1beta1 of Cluster API or by v1beta2.
func ReadTalosControlPlane(controlPlane *unstructured.Unstructured) (initialized bool, message string) {
	switch {
	case controlPlane == nil:
		return false, ""
	case flag(controlPlane, "status", "initialized"), flag(controlPlane, "status", "initialization", "controlPlaneInitialized"):
		return true, ""
	}
	return false, conditions.Said(conditions.Of(controlPlane, "Available"))
}

// Talos is a Talos Linux cluster.
type Talos struct {
	// Namespace and Name of the Cluster, and of what is made for it.
	Namespace, Name string
	// KubernetesVersion such as v1.34.1, and TalosVersion such as v1.11, which may be empty: what the
	// providers take.
	KubernetesVersion, TalosVersion string
	// ControlPlanes and Workers are numbers of machines.
	ControlPlanes, Workers int64
	// Infrastructure is the kind of the object that Cluster names, which has its name. ControlPlane and
	// Worker are the templates of the machines, in its namespace.
	Infrastructure       schema.GroupKind
	ControlPlane, Worker Template
}

// Template names a template of an infrastructure provider.
type Template struct {
	schema.GroupVersionKind
	Name string
}

// Objects are the Cluster, its control plane, the configuration of its workers, and these.
func (t Talos) Objects() []*unstructured.Unstructured {
	config := func(machine string) map[string]any {
		c := map[string]any{"generateType": machine}
		if t.TalosVersion != "" {
			c["talosVersion"] = t.TalosVersion
		}
		return c
	}
	ref := func(kind schema.GroupKind, name string) map[string]any {
		return map[string]any{"apiGroup": kind.Group, "kind": kind.Kind, "name": name}
	}
	apiVersion, kind := t.ControlPlane.ToAPIVersionAndKind()
	labels := map[string]any{"cluster.x-k8s.io/cluster-name": t.Name, "cluster.x-k8s.io/deployment-name": t.Name}
	return []*unstructured.Unstructured{
		Cluster{Namespace: t.Namespace, Name: t.Name, ControlPlane: TalosControlPlaneGVK.GroupKind(), Infrastructure: t.Infrastructure}.Object(),
		t.object(TalosControlPlaneGVK, map[string]any{
			"version":  t.KubernetesVersion,
			"replicas": t.ControlPlanes,
			// Not in the way of Cluster API 1.11 yet.
			"infrastructureTemplate": map[string]any{"apiVersion": apiVersion, "kind": kind, "name": t.ControlPlane.Name},
			"controlPlaneConfig":     map[string]any{"controlplane": config("controlplane")},
		}),
		t.object(TalosConfigTemplateGVK, map[string]any{"template": map[string]any{"spec": config("worker")}}),
		t.object(MachineDeploymentGVK, map[string]any{
			"clusterName": t.Name,
			"replicas":    t.Workers,
			"selector":    map[string]any{"matchLabels": labels},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec": map[string]any{
					"clusterName":       t.Name,
					"version":           t.KubernetesVersion,
					"bootstrap":         map[string]any{"configRef": ref(TalosConfigTemplateGVK.GroupKind(), t.Name)},
					"infrastructureRef": ref(t.Worker.GroupKind(), t.Worker.Name),
				},
			},
		}),
	}
}

func (t Talos) object(gvk schema.GroupVersionKind, spec map[string]any) *unstructured.Unstructured {
	return object(gvk, t.Namespace, t.Name, runtime.DeepCopyJSON(spec))
}

// templateSuffix is what the kind of a template has more than that of what is made of it.
const templateSuffix = "Template"

// Templated is the kind of what is made of a template.
func Templated(template schema.GroupVersionKind) schema.GroupVersionKind {
	template.Kind = strings.TrimSuffix(template.Kind, templateSuffix)
	return template
}

// FromTemplate is what is made of a template, as Cluster API makes it of those of a ClusterClass: with
// the labels, the annotations and the spec of spec.template.
func FromTemplate(template *unstructured.Unstructured, namespace, name string) *unstructured.Unstructured {
	spec, _, _ := unstructured.NestedMap(template.Object, "spec", "template", "spec")
	u := object(Templated(template.GroupVersionKind()), namespace, name, spec)
	labels, _, _ := unstructured.NestedStringMap(template.Object, "spec", "template", "metadata", "labels")
	annotations, _, _ := unstructured.NestedStringMap(template.Object, "spec", "template", "metadata", "annotations")
	u.SetLabels(labels)
	u.SetAnnotations(annotations)
	return u
}

// CopyOf is a template of the same spec, for a cluster alone: Cluster API makes templates the property of
// the clusters that use them, and they are deleted with the last.
func CopyOf(template *unstructured.Unstructured, namespace, name string) *unstructured.Unstructured {
	spec, _, _ := unstructured.NestedMap(template.Object, "spec")
	return object(template.GroupVersionKind(), namespace, name, spec)
}
