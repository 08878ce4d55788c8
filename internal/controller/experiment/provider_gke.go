package experiment

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
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

func (gke) identity() int { return 1 }

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
	return clusterState{Ready: s.Ready, Failed: s.Failed, Message: s.Message, Warning: s.Warning, Endpoint: s.Endpoint}
}

func (gke) kubeconfig(n names, _ v1alpha1.Target, claim *unstructured.Unstructured) kubeconfigRef {
	if claim == nil {
		return kubeconfigRef{Missing: "is not there"}
	}
	s := crossplane.ReadClaim(claim)
	ref := kubeconfigRef{
		Trust:  argocd.Trusted,
		Secret: crossplane.ConnectionSecret(n.options.CrossplaneNamespace, s.Composite),
		Key:    crossplane.KubeconfigKey,
		Remedy: "the composition must write it",
		Server: s.Endpoint,
	}
	if n.options.KeylessGKE {
		ref.Trust = argocd.KeylessGCP
	}
	if s.Namespaced {
		ref.Secret = types.NamespacedName{Namespace: claim.GetNamespace(), Name: orDefault(s.Secret, ref.Secret.Name)}
		ref.Key, ref.Authors = orDefault(s.Key, ref.Key), claim.GetNamespace() == n.experiment.Namespace
	}
	switch {
	case s.Composite == "":
		return kubeconfigRef{Missing: "names no composite resource yet (spec.resourceRef)"}
	case !s.Namespaced && !strings.HasPrefix(s.Composite, claim.GetName()+"-"): // as Crossplane names what it makes of a claim
		return kubeconfigRef{Missing: "names a composite resource that was not made of it (spec.resourceRef)"}
	case !s.Namespaced && s.Endpoint == "": // who can write the claim could name another's composite
		return kubeconfigRef{Missing: "says no status.endpoint, by which its kubeconfig is known to be its own; the composition must write it"}
	case len(validation.IsDNS1123Subdomain(ref.Secret.Name)) > 0:
		return kubeconfigRef{Missing: "names no Secret (status.kubeconfigSecret.name); the composition must write its name there, or nothing"}
	case ref.Authors && n.options.KeylessGKE:
		return kubeconfigRef{Missing: "is in the namespace of its author, who could have Argo CD log in anywhere with its own identity; " +
			"start the manager with a --claim-namespace that no Experiments are in, or without --keyless-gke"}
	case ref.Authors:
		ref.Trust = argocd.Untrusted
	}
	return ref
}
