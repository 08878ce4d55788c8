// Package crossplane builds and reads the Crossplane claims that clusters come from, and the namespaced
// composites of Crossplane v2, which a hub can have in their place, under the same name. It is pure: no
// client, no clock.
package crossplane

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/labkeeper/labkeeper/internal/conditions"
)

// GKEClusterGVK is the claim of a GKE cluster (the XRD xgkeclusters.illm.io).
var GKEClusterGVK = schema.GroupVersionKind{Group: "illm.io", Version: "v1alpha1", Kind: "GKECluster"}

const (
	// MaxClaimName is the longest name of a GKECluster claim: GKE takes 40 characters, of
	// which the composition's "illm-" and the composite's random suffix take 11.
	MaxClaimName = 29

	connectionSuffix = "-cluster-conn"
	// KubeconfigKey is where the connection Secret holds the kubeconfig.
	KubeconfigKey = "kubeconfig"
)

// GKECluster is what a claim asks for.
type GKECluster struct {
	// Namespace and Name of the claim; the name has at most MaxClaimName characters.
	Namespace, Name string
	// Zone such as us-central1-a.
	Zone string
	// NodeCount is the number of nodes.
	NodeCount int64
	// MachineType such as e2-medium.
	MachineType string
	// DiskSizeGb is the size of each node's boot disk in GB.
	DiskSizeGb int64
	// Preemptible nodes.
	Preemptible bool
}

// Claim is the claim of the cluster.
func (c GKECluster) Claim() *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{
			"zone":        c.Zone,
			"nodeCount":   c.NodeCount,
			"machineType": c.MachineType,
			"diskSizeGb":  c.DiskSizeGb,
			"preemptible": c.Preemptible,
			// The claim stays until the composite, and with it the cluster, is really gone;
			// by default it goes when their deletion has been asked for. In a namespaced composite
			// the field is without effect, see Namespaced.
			"compositeDeletePolicy": "Foreground",
		},
	}}
	u.SetGroupVersionKind(GKEClusterGVK)
	u.SetNamespace(c.Namespace)
	u.SetName(c.Name)
	return u
}

// ClaimState is what a claim says of its cluster.
type ClaimState struct {
	// Ready: the cluster can be used.
	Ready bool
	// Failed: Crossplane cannot reconcile the claim; it goes on trying.
	Failed bool
	// Message is what Crossplane says of the reason, as "Reason: message", and how the rest is seen; it may be empty.
	Message string
	// Warning is why Crossplane does not bring a cluster that is ready to what the claim asks for, as "Reason: message"; empty where it does.
	Warning string
	// Endpoint is the URL of the cluster's API server; empty while it is not known, or where what is said is none.
	Endpoint string
	// Composite is the name of the composite resource; empty while there is none.
	Composite string
	// Namespaced: it is the composite itself.
	Namespaced bool
	// Secret is the name of the Secret beside a namespaced composite that its kubeconfig is in, and Key that of its data, where
	// its composition says so.
	Secret, Key string
}

// Namespaced says whether what was to be a claim is a namespaced composite of Crossplane v2. It has no
// compositeDeletePolicy: it stays until the cluster is gone when it is deleted in the foreground.
func Namespaced(claim *unstructured.Unstructured) bool {
	_, found, _ := unstructured.NestedFieldNoCopy(claim.Object, "spec", "crossplane")
	return found && claim.GroupVersionKind() == GKEClusterGVK
}

// Foreground says whether it is to be deleted in the foreground: a namespaced composite, and what may be
// one, because Crossplane has not begun with it. For a claim that makes no difference.
func Foreground(claim *unstructured.Unstructured) bool {
	_, bound, _ := unstructured.NestedFieldNoCopy(claim.Object, "spec", "resourceRef")
	return claim.GroupVersionKind() == GKEClusterGVK && !bound
}

// address is what the address of an API server may be: others than the composition may write it, and it gets into scripts and
// statuses.
var address = regexp.MustCompile(`^[-A-Za-z0-9.:_~%/\[\]]+$`)

// longestAddress in bytes. As a repetition of the expression it would take milliseconds of every start to compile.
const longestAddress = 512

// ReadClaim reads a claim's state.
func ReadClaim(claim *unstructured.Unstructured) ClaimState {
	var s ClaimState
	s.Ready = conditions.Of(claim, "Ready")["status"] == "True"
	s.Failed = !s.Ready && conditions.Of(claim, "Synced")["status"] == "False"
	s.Message = s.why(claim)
	if synced := conditions.Of(claim, "Synced"); s.Ready && synced["status"] == "False" {
		s.Warning = conditions.Said(synced)
	}
	if endpoint, _, _ := unstructured.NestedString(claim.Object, "status", "endpoint"); len(endpoint) <= longestAddress && address.MatchString(endpoint) {
		s.Endpoint = endpoint
		if !strings.Contains(endpoint, "://") {
			if strings.Count(endpoint, ":") > 1 && !strings.HasPrefix(endpoint, "[") { // IPv6
				endpoint = "[" + endpoint + "]"
			}
			s.Endpoint = "https://" + endpoint
		}
	}
	s.Composite, _, _ = unstructured.NestedString(claim.Object, "spec", "resourceRef", "name")
	if s.Namespaced = Namespaced(claim); s.Namespaced {
		s.Composite = claim.GetName()
		// A claim has no say in that: its Secret is beside those of others.
		s.Secret, _, _ = unstructured.NestedString(claim.Object, "status", "kubeconfigSecret", "name")
		s.Key, _, _ = unstructured.NestedString(claim.Object, "status", "kubeconfigSecret", "key")
	}
	return s
}

// why is what Crossplane says of why a cluster is not ready, or does not go, and how the rest is seen.
func (s ClaimState) why(claim *unstructured.Unstructured) string {
	goes := claim.GetDeletionTimestamp() != nil
	if s.Ready && !goes {
		return ""
	}
	var said []string
	if synced := conditions.Of(claim, "Synced"); synced["status"] == "False" { // one that is paused stays Ready, and does not go
		said = append(said, conditions.Said(synced))
	} else if !s.Ready {
		said = append(said, conditions.Said(conditions.Of(claim, "Ready")))
	}
	// So much has happened to what a composite of Crossplane v2 is made of that it is looked at twice a minute only, for five minutes.
	if responsive := conditions.Of(claim, "Responsive"); responsive["status"] == "False" {
		said = append(said, strings.TrimSuffix(conditions.Said(responsive), "."))
	}
	said = slices.DeleteFunc(said, func(s string) bool { return s == "" })
	if len(said) > 0 && !s.Failed && !goes { // it waits for its composite, and that for what it is made of, which alone says why
		// (It cuts what the cloud says unless it may be wide.)
		said = append(said, fmt.Sprintf("see crossplane beta trace gkecluster %s -n %s -o wide", claim.GetName(), claim.GetNamespace()))
	}
	return strings.Join(said, "; ")
}

// ConnectionSecret is where the composition leaves the kubeconfig of a composite's cluster, if it does not say: in
// the namespace of Crossplane, or in that of a namespaced composite.
func ConnectionSecret(namespace, composite string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: composite + connectionSuffix}
}
