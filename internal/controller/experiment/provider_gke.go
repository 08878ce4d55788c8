package experiment

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/crossplane"
)

// gke asks Crossplane for a cluster by a claim.
type gke struct{}

func (gke) system() string { return "Crossplane" }

func (gke) kinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{crossplane.GKEClusterGVK}
}

func (gke) housed() bool { return false }

func (gke) objects(n names, t v1alpha1.Target) []*unstructured.Unstructured {
	c, name := t.Cluster, n.cluster(t)
	return []*unstructured.Unstructured{crossplane.GKECluster{
		Namespace:   name.Namespace,
		Name:        name.Name,
		Zone:        orDefault(c.Zone, "us-central1-a"),
		NodeCount:   int64(ptr.Deref(c.NodeCount, 1)),
		MachineType: orDefault(c.MachineType, "e2-medium"),
		DiskSizeGb:  int64(ptr.Deref(c.DiskSizeGb, 50)),
		Preemptible: ptr.Deref(c.Preemptible, false),
	}.Claim()}
}

func (gke) read(objects []*unstructured.Unstructured) clusterState {
	claim := standing(objects)
	if claim == nil {
		return clusterState{}
	}
	s := crossplane.ReadClaim(claim)
	return clusterState{Ready: s.Ready, Failed: s.Failed, Message: s.Message, Endpoint: s.Endpoint}
}

func (gke) kubeconfig(n names, _ v1alpha1.Target, claim *unstructured.Unstructured) kubeconfigRef {
	composite := crossplane.ReadClaim(claim).Composite
	if composite == "" {
		return kubeconfigRef{Missing: "names no composite resource yet (spec.resourceRef)"}
	}
	trust := argocd.Trusted
	if n.options.KeylessGKE {
		trust = argocd.KeylessGCP
	}
	return kubeconfigRef{
		Trust:  trust,
		Secret: crossplane.ConnectionSecret(n.options.CrossplaneNamespace, composite),
		Key:    crossplane.KubeconfigKey,
		Remedy: "the composition must write it",
	}
}
