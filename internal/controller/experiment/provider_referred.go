package experiment

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/arlon"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// referred is a cluster that a Cluster of core.arlon.io stands for, which makes it and registers it with Argo CD. It is others', too:
// nothing of it is made, registered or deleted, so that the Cluster is none of the objects of the target, and only tells of it.
type referred struct{ nothing }

func (referred) identity() int { return 1 }

// read is what the Cluster says.
func (referred) read(objects []*unstructured.Unstructured) clusterState {
	cluster := standing(objects)
	if cluster == nil {
		return clusterState{}
	}
	s := arlon.ReadCluster(cluster)
	return clusterState{Ready: s.Ready && !going(cluster), Message: s.Message}
}

// refers says whether the cluster of a target is such a one.
func refers(t v1alpha1.Target) bool { return t.Cluster.Type == v1alpha1.ClusterReferred }

// reference is the Cluster that such a target names, with no more than its name. It is in the namespace of the Experiment, whose
// author has no say in others.
func (n names) reference(t v1alpha1.Target) *unstructured.Unstructured {
	return named(arlon.ClusterGVK, types.NamespacedName{
		Namespace: n.experiment.Namespace, Name: ptr.Deref(t.Cluster.ClusterRef, v1alpha1.ClusterReference{}).Name,
	})
}

// unnamed says which target does not tell what its cluster is.
func unnamed(spec v1alpha1.ExperimentSpec) string {
	for _, t := range spec.Targets {
		switch {
		case refers(t) && ptr.Deref(t.Cluster.ClusterRef, v1alpha1.ClusterReference{}).Name == "":
			return fmt.Sprintf("spec.targets: target %s does not name its cluster; set cluster.clusterRef", t.Name)
		case t.Cluster.Type == v1alpha1.ClusterExisting && ptr.Deref(t.Cluster.KubeconfigSecret, v1alpha1.SecretKey{}).Name == "":
			return fmt.Sprintf("spec.targets: target %s does not name the kubeconfig of its cluster; set cluster.kubeconfigSecret", t.Name)
		}
	}
	return ""
}

// missingClusters says which of the Clusters that targets name are not there; nothing where their kind is not.
func (f facts) missingClusters() (missing []string) {
	for _, t := range f.experiment.Spec.Targets {
		if refers(t) && f.seen.References[t.Name] == nil && f.seen.Kinds[arlon.ClusterGVK] == kube.KindServed {
			missing = append(missing, fmt.Sprintf("%s: %s does not exist; create it", v1alpha1.ReasonClusterNotFound, kube.Describe(f.names.reference(t))))
		}
	}
	return missing
}

// uidOf is the UID of a Cluster; empty where there is none.
func uidOf(cluster *unstructured.Unstructured) types.UID {
	if cluster == nil {
		return ""
	}
	return cluster.GetUID()
}

// deployedTo is the UID of the Cluster that an Application was created for.
func deployedTo(app *unstructured.Unstructured) types.UID {
	return types.UID(app.GetAnnotations()[v1alpha1.AnnotationClusterUID])
}

// referredBy is that of some Applications; empty where none has one.
func referredBy(apps []*unstructured.Unstructured) types.UID {
	for _, app := range apps {
		if cluster := deployedTo(app); cluster != "" {
			return cluster
		}
	}
	return ""
}

// referredEndpoint is the address of a Cluster by its UID, or of any where that is empty, as the Applications have it that were created
// for it; empty while there are none. Where one says two, somebody has changed it.
func referredEndpoint(apps []*unstructured.Unstructured, cluster types.UID) string {
	for _, app := range apps {
		endpoint := app.GetAnnotations()[v1alpha1.AnnotationEndpoint]
		server, _, _ := unstructured.NestedString(app.Object, "spec", "destination", "server")
		if endpoint != "" && endpoint == server && (cluster == "" || cluster == deployedTo(app)) {
			return endpoint
		}
	}
	return ""
}

// advanceReferred waits for the Cluster and its registration with Argo CD.
func (f facts) advanceReferred(p *Plan, t *target) {
	what := kube.Describe(f.names.reference(t.spec))
	c, looked := f.seen.Connections[t.spec.Name]
	switch {
	case t.reference == nil:
		t.clusterReason, t.message = v1alpha1.ReasonClusterNotFound, what+" does not exist; create it"
	case going(t.reference):
		t.clusterReason, t.message = v1alpha1.ReasonClusterProvisioning, what+" is being deleted by somebody; create it again when it is gone"
	case !t.clusterState.Ready:
		t.clusterReason, t.message = v1alpha1.ReasonClusterProvisioning, what+" is not Ready"
		if t.clusterState.Message != "" {
			t.message += ": " + t.clusterState.Message
		}
	case c.ReadErr != nil:
		t.clusterReason, t.message = kube.Reason(c.ReadErr), kube.Message(c.ReadErr)
	case c.Err != nil:
		t.clusterReason, t.message = v1alpha1.ReasonClusterNotRegistered, what+" is Ready, and "+c.Err.Error()
		p.lookIn(secretDelay) // nobody tells when that is another
	case f.endpoint(t) == "", looked && !c.Known:
		t.clusterReason = v1alpha1.ReasonClusterNotRegistered
		t.message = fmt.Sprintf("%s is Ready, and not registered with Argo CD: there is no cluster Secret in namespace %s with the label %s=%s; "+
			"what makes the Cluster must write it", what, f.options.ArgoCDNamespace, arlon.LabelUID, t.reference.GetUID())
		p.lookIn(secretDelay)
	default:
		t.clusterUp = true
		if f.endpoint(t) != referredEndpoint(t.apps, t.reference.GetUID()) {
			p.Confirm = append(p.Confirm, f.confirmed(t)...)
		}
		if looked {
			p.lookIn(lastLook) // Argo CD cannot use it, and nobody tells when it is registered otherwise
		}
	}
}

// awaitsRegistration says whether an Application of such a target waits, in a teardown, until Argo CD knows its cluster: what makes the
// Cluster registers it, as long as there is that.
func (d *demolition) awaitsRegistration(t *target) bool {
	if t.reference == nil || referredEndpoint(t.apps, t.reference.GetUID()) == "" {
		return false
	}
	d.lookIn(leftoverDelay)
	return true
}
