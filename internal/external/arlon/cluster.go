// Package arlon reads Clusters of core.arlon.io, by what their reconciler promises to those who name one. It is pure:
// no client, no clock.
//
// A Cluster stands for one cluster, for as long as it has its UID: one that was deleted and created again is of
// another. It has the condition Ready, with the generation that it is of. When that is True the cluster is registered
// with Argo CD, and it stays so until the Cluster is on its way down: by one cluster Secret, of whatever name, in the
// namespace of Argo CD, which is marked with the UID of the Cluster. Nobody else registers it, because Argo CD finds
// clusters by their addresses.
package arlon

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/labkeeper/labkeeper/internal/conditions"
)

// ClusterGVK is a Cluster.
var ClusterGVK = schema.GroupVersionKind{Group: "core.arlon.io", Version: "v1", Kind: "Cluster"}

// LabelUID is the UID of a Cluster, on what its reconciler has made for it: the proof of ownership, as the UID of kube.Marks.
const LabelUID = "core.arlon.io/cluster-uid"

// ClusterState is what a Cluster says of itself.
type ClusterState struct {
	// Ready: the cluster can be used.
	Ready bool
	// Message is why it is not ready, as "Reason: message"; it may be empty.
	Message string
}

// ReadCluster reads the state of a Cluster. What it says of a generation before is not what it is now; where it does not say of
// which, it is taken at its word.
func ReadCluster(cluster *unstructured.Unstructured) ClusterState {
	ready := conditions.Of(cluster, "Ready")
	status, _ := ready["status"].(string)
	observed, told, _ := unstructured.NestedInt64(ready, "observedGeneration")
	outrun := told && observed < cluster.GetGeneration()
	switch {
	case status == "True" && !outrun:
		return ClusterState{Ready: true}
	case status == "True":
		return ClusterState{Message: fmt.Sprintf("it was Ready at generation %d, and its spec is of generation %d", observed, cluster.GetGeneration())}
	}
	return ClusterState{Message: conditions.Said(ready)}
}

// StripCluster is the cache's transform for Clusters: of what they say nothing is read but the condition Ready.
func StripCluster(o any) (any, error) {
	cluster, ok := o.(*unstructured.Unstructured)
	if !ok {
		return o, nil
	}
	ready := conditions.Of(cluster, "Ready")
	cluster.SetManagedFields(nil)
	cluster.SetAnnotations(nil)
	cluster.SetLabels(nil)
	for field := range cluster.Object {
		if field != "apiVersion" && field != "kind" && field != "metadata" {
			delete(cluster.Object, field)
		}
	}
	if ready != nil {
		cluster.Object["status"] = map[string]any{"conditions": []any{ready}}
	}
	return cluster, nil
}
