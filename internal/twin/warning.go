package twin

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Reasons of warnings.
const (
	// WarnRunsOnce: the source is made to run once.
	WarnRunsOnce = "SourceRunsOnce"
	// WarnPeerDiscovery: the twin's pods are peers of the source's (s4).
	WarnPeerDiscovery = "PeerDiscoveryRisk"
	// WarnSharedVolume: both write the same volumes (p6).
	WarnSharedVolume = "SharedVolume"
	// WarnPlacement: the twin takes room that the source needs (p5, p7).
	WarnPlacement = "PlacementRisk"
	// WarnStaticAddress: two pods would have one address (p2).
	WarnStaticAddress = "StaticAddress"
	// WarnManaged: something made the source, and may take the twin's pods for its own (o9).
	WarnManaged = "SourceIsManaged"
	// WarnNotSmaller: the twin has as many pods as the source.
	WarnNotSmaller = "NotSmaller"
)

// staticAddresses are prefixes of annotations that give a pod an address.
var staticAddresses = []string{"cni.projectcalico.org/ipAddrs", "cni.projectcalico.org/hwAddr", "ovn.kubernetes.io/ip_address", "ovn.kubernetes.io/mac_address", "k8s.v1.cni.cncf.io/networks"}

// warnings are what is dangerous about a twin and goes on all the same.
func warnings(source *unstructured.Unstructured, from, spec map[string]any, services []Service) (all []Warning) {
	warn := func(reason, format string, args ...any) {
		all = append(all, Warning{Reason: reason, Message: fmt.Sprintf(format, args...)})
	}
	if strategy, _, _ := unstructured.NestedString(from, "strategy", "type"); strategy == "Recreate" { // d8
		warn(WarnRunsOnce, "The source has the strategy Recreate: it may not be made to run twice")
	}
	for _, owner := range source.GetOwnerReferences() {
		if owner.Controller != nil && *owner.Controller {
			warn(WarnManaged, "The source is made by %s %s, which may take pods of the same labels for its own", owner.Kind, owner.Name)
		}
	}
	name, _, _ := unstructured.NestedString(spec, "serviceName")
	if slices.ContainsFunc(services, func(s Service) bool { return s.Name == name && s.Headless && name != "" }) {
		warn(WarnPeerDiscovery, "The headless Service %s governs both: pods that look for their peers by it find the twin's among the source's", name)
	}
	replicas, said, _ := unstructured.NestedInt64(from, "replicas")
	if mine, _, _ := unstructured.NestedInt64(spec, "replicas"); said && replicas > 0 && mine >= replicas {
		warn(WarnNotSmaller, "The twin has no fewer replicas than its source")
	}
	annotations, _, _ := unstructured.NestedMap(spec, "template", "metadata", "annotations")
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		if slices.ContainsFunc(staticAddresses, func(p string) bool { return strings.HasPrefix(name, p) }) {
			warn(WarnStaticAddress, "The annotation %s of the pods gives them an address that the source's may have", name)
		}
	}
	pod, _, _ := unstructured.NestedMap(spec, "template", "spec")
	all = append(all, podWarnings(pod)...)
	slices.SortFunc(all, func(a, b Warning) int {
		return cmp.Or(strings.Compare(a.Reason, b.Reason), strings.Compare(a.Message, b.Message))
	})
	return slices.Compact(all)
}

func podWarnings(pod map[string]any) (all []Warning) {
	warn := func(reason, format string, args ...any) {
		all = append(all, Warning{Reason: reason, Message: fmt.Sprintf(format, args...)})
	}
	for _, v := range objects(pod["volumes"]) {
		if claim, ok, _ := unstructured.NestedString(v, "persistentVolumeClaim", "claimName"); ok {
			warn(WarnSharedVolume, "The pods use PersistentVolumeClaim %s, as the source's do", claim)
		}
	}
	for _, field := range []string{"affinity", "topologySpreadConstraints"} {
		if _, ok := pod[field]; ok {
			warn(WarnPlacement, "The pods count for %s of the source's", field)
		}
	}
	if node, ok := pod["nodeName"].(string); ok {
		warn(WarnPlacement, "The pods are bound to node %s", node)
	}
	for _, c := range containers(pod) {
		for _, port := range objects(c["ports"]) {
			if number, ok := port["hostPort"].(int64); ok && number > 0 {
				warn(WarnPlacement, "The pods take port %d of their nodes, which the source's cannot have there then", number)
			}
		}
	}
	return all
}

// containers are all of a pod.
func containers(pod map[string]any) []map[string]any {
	return slices.Concat(objects(pod["initContainers"]), objects(pod["containers"]))
}

// objects are the elements of a list that are objects.
func objects(list any) (all []map[string]any) {
	elements, _ := list.([]any)
	for _, e := range elements {
		if o, ok := e.(map[string]any); ok {
			all = append(all, o)
		}
	}
	return all
}
