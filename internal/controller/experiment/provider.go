package experiment

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
)

// provider is where the clusters of a type come from. It is pure: what it asks for depends on the
// spec alone, and what it says of a cluster on the object that stands for it.
type provider interface {
	// system is the name of the outside system that makes the clusters.
	system() string
	// kinds are those of the objects that a cluster is made by. None: it is there already.
	kinds() []schema.GroupVersionKind
	// housed says whether each cluster needs a namespace on the hub for itself: it is made before the
	// objects, which are in it, and goes when they are gone.
	housed() bool
	// objects are those that a target's cluster is made by. The first stands for the cluster: it is
	// deleted first, and the others when it is gone. Their kinds and names depend on nothing that
	// can change once the Experiment has started.
	objects(n names, t v1alpha1.Target) []*unstructured.Unstructured
	// identity is how many of them, from the first on, are the cluster, or of what it refers to: with another in
	// the place of one it is another cluster.
	identity() int
	// read is what the objects say of a cluster: those of objects that are there, in their order, with
	// nil for one that is not, or the one that the target refers to; none at all where nothing was looked for.
	read(objects []*unstructured.Unstructured) clusterState
	// kubeconfig is where that of a cluster is which is ready.
	kubeconfig(n names, t v1alpha1.Target, o *unstructured.Unstructured) kubeconfigRef
}

// clusterState is what is known of a cluster.
type clusterState struct {
	// Ready: the cluster can be used.
	Ready bool
	// Failed: the outside system cannot make it; it goes on trying.
	Failed bool
	// Message is why it is not ready, in the words of the outside system; it may be empty.
	Message string
	// Warning is why one that is ready is not brought to what the spec says, in the same words; it may be empty.
	Warning string
	// Endpoint is the URL of its API server; empty while it is not known.
	Endpoint string
}

// kubeconfigRef is where a kubeconfig is.
type kubeconfigRef struct {
	// Secret and Key of it. The Secret has no name while it is not known, and Missing says why.
	Secret types.NamespacedName
	Key    string
	// Missing is what the object that stands for the cluster does not say yet.
	Missing string
	// Remedy is what to do when there is no such Secret.
	Remedy string
	// Trust says how far what is there is trusted.
	Trust argocd.Trust
	// Authors may write the Secret: it may be of any cluster, with whatever credentials.
	Authors bool
	// Server is the URL that it must be for, as what makes the cluster says; empty is any. An author who may change
	// which Secret is meant gets no other cluster by that.
	Server string
}

// providers by the type of cluster. One of a type that is not in here is refused.
var providers = map[v1alpha1.ClusterType]provider{
	v1alpha1.ClusterGKE:      gke{},
	v1alpha1.ClusterHub:      hub{},
	v1alpha1.ClusterExisting: existing{},
	v1alpha1.ClusterReferred: referred{},
	v1alpha1.ClusterTalos:    talos{},
	v1alpha1.ClusterVCluster: vcluster{},
}

// providerOf is the provider of a target's cluster.
func providerOf(t v1alpha1.Target) provider {
	if p := providers[t.Cluster.Type]; p != nil {
		return p
	}
	return unsupported{}
}

// clusterKinds are the kinds that clusters of all types are made by, in a fixed order.
func clusterKinds() []schema.GroupVersionKind {
	return kindsOf(func(provider) bool { return true })
}

// housedKinds are those of which objects can be in a namespace of a cluster's own.
func housedKinds() []schema.GroupVersionKind { return kindsOf(provider.housed) }

func kindsOf(wanted func(provider) bool) (kinds []schema.GroupVersionKind) {
	for _, clusterType := range slices.Sorted(maps.Keys(providers)) {
		if p := providers[clusterType]; wanted(p) {
			kinds = union(kinds, p.kinds())
		}
	}
	return kinds
}

// standing is the object that stands for a cluster; nil if it is not there.
func standing(objects []*unstructured.Unstructured) *unstructured.Unstructured {
	if len(objects) == 0 {
		return nil
	}
	return objects[0]
}

// union is a with what only b has.
func union(a, b []schema.GroupVersionKind) []schema.GroupVersionKind {
	for _, gvk := range b {
		if !slices.Contains(a, gvk) {
			a = append(a, gvk)
		}
	}
	return a
}

// nothing is what providers are that make nothing.
type nothing struct{}

func (nothing) system() string                                              { return "" }
func (nothing) kinds() []schema.GroupVersionKind                            { return nil }
func (nothing) housed() bool                                                { return false }
func (nothing) identity() int                                               { return 0 }
func (nothing) objects(names, v1alpha1.Target) []*unstructured.Unstructured { return nil }
func (nothing) read([]*unstructured.Unstructured) clusterState              { return clusterState{Ready: true} }
func (nothing) kubeconfig(names, v1alpha1.Target, *unstructured.Unstructured) kubeconfigRef {
	return kubeconfigRef{}
}

// hub is the cluster that the manager runs on: nothing is made, registered or deleted.
type hub struct{ nothing }

// unsupported is what makes clusters of the types that this version refuses.
type unsupported struct{ nothing }

func (unsupported) read([]*unstructured.Unstructured) clusterState { return clusterState{} }
