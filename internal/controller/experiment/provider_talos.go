package experiment

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/capi"
)

// talos asks Cluster API for a Talos Linux cluster, on machines of whatever infrastructure the user names
// templates of.
type talos struct{}

func (talos) system() string { return "Cluster API" }

func (talos) kinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{capi.ClusterGVK, capi.TalosControlPlaneGVK, capi.TalosConfigTemplateGVK, capi.MachineDeploymentGVK}
}

func (talos) housed() bool { return false }

// identity: workers may come and go.
func (talos) identity() int { return 2 }

func (talos) objects(n names, t v1alpha1.Target) []*unstructured.Unstructured {
	name, spec := n.cluster(t), ptr.Deref(t.Cluster.Talos, v1alpha1.Talos{})
	template := func(c templateCopy) capi.Template { return capi.Template{GroupVersionKind: c.gvk, Name: c.key.Name} }
	copies := copiesOf(n, t)
	return capi.Talos{
		Namespace: name.Namespace, Name: name.Name,
		KubernetesVersion: spec.KubernetesVersion, TalosVersion: spec.TalosVersion,
		ControlPlanes: int64(ptr.Deref(spec.ControlPlanes, 1)), Workers: int64(ptr.Deref(t.Cluster.NodeCount, 1)),
		Infrastructure: copies[0].gvk.GroupKind(), Worker: template(copies[1]), ControlPlane: template(copies[2]),
	}.Objects()
}

func (talos) read(objects []*unstructured.Unstructured) clusterState {
	s := readBoth(objects, capi.ReadTalosControlPlane)
	if s.Ready && s.Message == "" { // its API server can be used, and nothing may run on it
		s.Message = capi.Workers(standing(objects))
	}
	return s
}

// readBoth asks a Cluster and what it is made by, which comes after it: a Cluster stays initialized when that has been replaced.
func readBoth(objects []*unstructured.Unstructured, second func(*unstructured.Unstructured) (ready bool, message string)) clusterState {
	cluster := standing(objects)
	if cluster == nil {
		return clusterState{}
	}
	read := capi.ReadCluster(cluster)
	s := clusterState{Ready: read.Ready, Failed: read.Failed, Message: read.Message, Endpoint: read.Endpoint}
	if s.Ready && len(objects) > 1 {
		s.Ready, s.Message = second(objects[1])
	}
	return s
}

func (talos) kubeconfig(n names, t v1alpha1.Target, cluster *unstructured.Unstructured) kubeconfigRef {
	return addressed(cluster, kubeconfigRef{
		Secret: capi.KubeconfigSecret(n.cluster(t)), Key: capi.KubeconfigKey, Remedy: "Cluster API must write it",
		Authors: n.cluster(t).Namespace == n.experiment.Namespace,
	})
}

// addressed is where the kubeconfig of a Cluster is, once that says where its API server is, which Workflows are told.
func addressed(cluster *unstructured.Unstructured, ref kubeconfigRef) kubeconfigRef {
	if cluster != nil && capi.ReadCluster(cluster).Endpoint == "" {
		return kubeconfigRef{Missing: "says no address of its API server that can be used (spec.controlPlaneEndpoint); what its infrastructure is made of " +
			"must have a host there that is a name, or an IP address without a zone, and a port"}
	}
	return ref
}

// templateCopy is what a cluster gets of a template that the user names. Its kind is only known from the
// spec, so nothing of it is in the cache: it is made before the cluster, and looked for when that is gone.
type templateCopy struct {
	// template that it is made of.
	template v1alpha1.TemplateRef
	// gvk and key of what is made.
	gvk schema.GroupVersionKind
	key types.NamespacedName
}

// from is the kind and the name of the template, which is where the copy will be.
func (c templateCopy) from() (schema.GroupVersionKind, types.NamespacedName) {
	return schema.FromAPIVersionAndKind(c.template.APIVersion, c.template.Kind), types.NamespacedName{Namespace: c.key.Namespace, Name: c.template.Name}
}

// of is the copy of a template as it was read.
func (c templateCopy) of(template *unstructured.Unstructured) *unstructured.Unstructured {
	if c.gvk == template.GroupVersionKind() {
		return capi.CopyOf(template, c.key.Namespace, c.key.Name)
	}
	return capi.FromTemplate(template, c.key.Namespace, c.key.Name)
}

// copiesOf are those of a target's cluster: the object of its infrastructure, and the templates of its
// workers and its control plane. There are none but for talos.
func copiesOf(n names, t v1alpha1.Target) []templateCopy {
	if t.Cluster.Type != v1alpha1.ClusterTalos {
		return nil
	}
	name, infrastructure := n.cluster(t), ptr.Deref(t.Cluster.Talos, v1alpha1.Talos{}).Infrastructure
	copied := func(template v1alpha1.TemplateRef, suffix string) templateCopy {
		return templateCopy{
			template: template,
			gvk:      schema.FromAPIVersionAndKind(template.APIVersion, template.Kind),
			key:      types.NamespacedName{Namespace: name.Namespace, Name: name.Name + suffix},
		}
	}
	cluster := copied(infrastructure.Cluster, "")
	cluster.gvk = capi.Templated(cluster.gvk)
	return []templateCopy{
		cluster,
		copied(infrastructure.Machines, "-worker"),
		copied(ptr.Deref(infrastructure.ControlPlane, infrastructure.Machines), "-control-plane"),
	}
}
