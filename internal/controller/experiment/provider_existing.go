package experiment

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
)

// existing is a cluster that is there already: it is registered with Argo CD by the kubeconfig that
// the user names, and neither made nor deleted. Whether it can be reached, Argo CD tells.
type existing struct{ nothing }

func (existing) kubeconfig(n names, t v1alpha1.Target, _ *unstructured.Unstructured) kubeconfigRef {
	ref := ptr.Deref(t.Cluster.KubeconfigSecret, v1alpha1.SecretKey{}) // the plan refuses one without
	return kubeconfigRef{
		Secret: types.NamespacedName{Namespace: n.experiment.Namespace, Name: ref.Name}, Key: orDefault(ref.Key, "kubeconfig"),
		Remedy: "create it, with the kubeconfig of the cluster", Authors: true,
	}
}
