// Package capi builds and reads the Cluster API objects that clusters come from. It is pure: no
// client, no clock.
package capi

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/labkeeper/labkeeper/internal/conditions"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
)

// ClusterGVK is a Cluster of Cluster API 1.11 or later.
var ClusterGVK = schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Cluster"}

const (
	// KubeconfigKey is where a kubeconfig Secret holds the kubeconfig.
	KubeconfigKey = "value"

	kubeconfigSuffix = "-kubeconfig"
)

// KubeconfigSecret is where Cluster API leaves the kubeconfig of a Cluster.
func KubeconfigSecret(cluster types.NamespacedName) types.NamespacedName {
	return types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name + kubeconfigSuffix}
}

// Cluster is a cluster that a provider makes.
type Cluster struct {
	// Namespace and Name of the Cluster and of what it names.
	Namespace, Name string
	// ControlPlane and Infrastructure are the kinds of the objects that it names, which have its name.
	ControlPlane, Infrastructure schema.GroupKind
}

// Object is the Cluster.
func (c Cluster) Object() *unstructured.Unstructured {
	ref := func(kind schema.GroupKind) map[string]any {
		return map[string]any{"apiGroup": kind.Group, "kind": kind.Kind, "name": c.Name}
	}
	return object(ClusterGVK, c.Namespace, c.Name, map[string]any{"controlPlaneRef": ref(c.ControlPlane), "infrastructureRef": ref(c.Infrastructure)})
}

// object is an object with a spec, or without one where that is nil.
func object(gvk schema.GroupVersionKind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	if spec != nil {
		u.Object["spec"] = spec
	}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// ClusterState is what a Cluster says of itself.
type ClusterState struct {
	// Ready: its API server can be used. It does not go back when machines come and go.
	Ready bool
	// Failed: its provider has given it up.
	Failed bool
	// Message is why it is not ready, or does not go, as "Reason: message"; it may be empty.
	Message string
	// Endpoint is the URL of its API server; empty while it is not known, or where what is said is none.
	Endpoint string
}

// ReadCluster reads the state of a Cluster, of v1beta2 or v1beta1.
func ReadCluster(cluster *unstructured.Unstructured) ClusterState {
	s := ClusterState{
		Ready: flag(cluster, "status", "initialization", "infrastructureProvisioned") && flag(cluster, "status", "initialization", "controlPlaneInitialized") ||
			flag(cluster, "status", "infrastructureReady") && flag(cluster, "status", "controlPlaneReady"),
		Endpoint: endpoint(cluster),
	}
	for _, holds := range []string{"Paused", "Deleting"} {
		if c := conditions.Of(cluster, holds); s.Message == "" && c["status"] == "True" {
			s.Message = conditions.Said(c)
		}
	}
	if s.Ready {
		return s
	}
	for _, at := range [][]string{{"status"}, {"status", "deprecated", "v1beta1"}} {
		reason, _, _ := unstructured.NestedString(cluster.Object, append(at, "failureReason")...)
		message, _, _ := unstructured.NestedString(cluster.Object, append(at, "failureMessage")...)
		if reason != "" || message != "" {
			return ClusterState{Failed: true, Message: conditions.Join(reason, message), Endpoint: s.Endpoint}
		}
	}
	s.Message = cmp.Or(s.Message, waitsFor(cluster))
	return s
}

// Workers is why the machines of a Cluster that are to work are not all there, as "Reason: message"; empty where they are, or it does not say.
func Workers(cluster *unstructured.Unstructured) string {
	if c := conditions.Of(cluster, "WorkersAvailable"); c["status"] == "False" {
		return conditions.Said(c)
	}
	return ""
}

// waiting are the conditions that tell what a Cluster waits for, the first cause first: those of
// v1beta2, then those of v1beta1.
var waiting = []string{"InfrastructureReady", "ControlPlaneInitialized", "ControlPlaneAvailable", "ControlPlaneReady", "Ready"}

func waitsFor(cluster *unstructured.Unstructured) string {
	for _, name := range waiting {
		if c := conditions.Of(cluster, name); c != nil && c["status"] != "True" {
			return conditions.Said(c)
		}
	}
	return ""
}

// endpoint is empty where the host is neither an address nor a name: whoever may write the template of the infrastructure says it,
// and it gets into scripts and statuses.
func endpoint(cluster *unstructured.Unstructured) string {
	host, _, _ := unstructured.NestedString(cluster.Object, "spec", "controlPlaneEndpoint", "host")
	port, _, _ := unstructured.NestedInt64(cluster.Object, "spec", "controlPlaneEndpoint", "port")
	if port == 0 || !argocd.Host(host) {
		return ""
	}
	if strings.Contains(host, ":") { // IPv6
		host = "[" + host + "]"
	}
	return fmt.Sprintf("https://%s:%d", host, port)
}

func flag(u *unstructured.Unstructured, path ...string) bool {
	b, _, _ := unstructured.NestedBool(u.Object, path...)
	return b
}
