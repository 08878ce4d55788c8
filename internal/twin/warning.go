package twin

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/labkeeper/labkeeper/internal/merge"
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
	// WarnNotCopied: something is put into the source's pods, or given to them, by an annotation that the twin's do not have (p2).
	WarnNotCopied = "AnnotationNotCopied"
	// WarnManaged: something made the source, and may take the twin's pods for its own (o9).
	WarnManaged = "SourceIsManaged"
	// WarnNotSmaller: the twin has as many pods as the source.
	WarnNotSmaller = "NotSmaller"
	// WarnSourceData: the twin's volumes begin as copies of data (s3).
	WarnSourceData = "SourceData"
	// WarnOrdinals: pods of both have the same numbers (s6).
	WarnOrdinals = "SameOrdinals"
	// WarnReferred: a Rollout runs the source's template (r13).
	WarnReferred = "SourceOfRollout"
	// WarnAddedContainer: the override has a container that the source does not have, perhaps by a typo in its name.
	WarnAddedContainer = "AddedContainer"
	// WarnUnprobed: a container of the twin is ready at once, and its source's asks first.
	WarnUnprobed = "NoReadinessProbe"
	// WarnServedUnready: a Service does not ask whether pods are ready.
	WarnServedUnready = "ServedUnready"
	// WarnUneven: a Service does not send all pods the same share.
	WarnUneven = "UnevenTraffic"
	// WarnSubsets: a mesh sends traffic to the source's pods alone.
	WarnSubsets = "SubsetsOfMesh"
	// WarnOtherService: a Service that is not the source's sends the twin traffic.
	WarnOtherService = "ServiceOfOthers"
	// WarnAlone: the source has no pods, so that the twin gets all the traffic.
	WarnAlone = "SourceWithoutPods"
	// WarnNotServing: the source does not run the template that the twin has.
	WarnNotServing = "SourceNotServing"
	// WarnRepeated: an element of the override becomes one with another of its key than may be meant, by mergeStrategy
	// Strategic.
	WarnRepeated = "RepeatedKey"
	// WarnLabels: what goes by labels may not take the twin's pods for the source's.
	WarnLabels = "OtherLabels"
	// WarnLabelKept: the override does not have the twin leave a Service, as it may mean to, because its label is put back (p4).
	WarnLabelKept = "LabelKept"
	// WarnPort: a Service sends traffic to a port of the source that the twin does not have.
	WarnPort = "PortWithoutTwin"
)

// byDanger are the reasons from what may harm the source's data or its users to what is only odd: a message that is too long is cut at
// its end.
var byDanger = []string{
	WarnSharedVolume, WarnRunsOnce, WarnStaticAddress, WarnManaged, WarnPeerDiscovery, WarnOrdinals, WarnAlone, WarnNotServing, WarnOtherService, WarnLabelKept, WarnServedUnready,
	WarnUnprobed, WarnLabels, WarnPort, WarnUneven, WarnPlacement, WarnNotSmaller, WarnSourceData, WarnNotCopied, WarnAddedContainer, WarnRepeated, WarnSubsets, WarnReferred,
}

// serviceWarnings are what Services make of the twin that do not know it for one.
func (w Wanted) serviceWarnings(from, spec map[string]any) (all []Warning) {
	theirs, mine := labelsOf(templateOf(from)), labelsOf(templateOf(spec))
	alone, ports, own := w.alone(w.now(from), spec), portsOf(templateOf(from)), portsOf(templateOf(spec))
	for _, s := range w.Services {
		if len(s.Selector) == 0 || !selects(s.Selector, theirs) || !selects(s.Selector, mine) {
			continue
		}
		if s.Headless {
			all = append(all, Warning{WarnPeerDiscovery, fmt.Sprintf("The headless Service %s selects both: pods that look for their peers by it find the twin's among the source's", s.Name)})
		}
		if s.Unready {
			all = append(all, Warning{WarnServedUnready, fmt.Sprintf("Service %s has publishNotReadyAddresses: the twin is behind it also while its pods are not ready", s.Name)})
		}
		if s.Near != "" {
			all = append(all, Warning{WarnUneven, fmt.Sprintf("Service %s sends requests to pods that are near alone, or first (spec.%s): the twin's get more than their share where few of the source's are", s.Name, s.Near)})
		}
		if alone {
			all = append(all, Warning{WarnAlone, fmt.Sprintf("The source has no pods: what Service %s sends to both goes to the twin alone; set replicas to 0 if nothing is to be served", s.Name)})
		}
		all = append(all, s.portWarnings(ports, own)...)
	}
	for _, s := range w.foreign(theirs, mine) {
		all = append(all, Warning{WarnOtherService, fmt.Sprintf("Service %s, which does not select the source's pods, selects the twin's", s.Name)})
	}
	return all
}

// portWarnings are of ports of a source that a Service sends traffic to, and its twin does not have, or does not
// declare.
func (s Service) portWarnings(source, twin []Port) (all []Warning) {
	if lost, whole := s.lost(source, twin); len(lost) > 0 && !whole {
		all = append(all, Warning{WarnPort, fmt.Sprintf("Service %s finds port %s by its name, which no container of the twin has, so that the twin gets none of those requests; add it to the override",
			s.Name, strings.Join(lost, ", "))})
	}
	if ports := s.undeclared(source, twin); len(ports) > 0 {
		all = append(all, Warning{WarnPort, fmt.Sprintf("Service %s sends the twin requests to port %s, which the source declares and the twin, which declares others, does not: "+
			"they fail if it does not listen there", s.Name, strings.Join(ports, ", "))})
	}
	return all
}

// now is the spec of the source as it is now, which the twin is made of unless it is made of what the source was.
func (w Wanted) now(from map[string]any) map[string]any {
	if w.Now != nil {
		from, _ = w.Now.Object["spec"].(map[string]any)
	}
	return from
}

// alone says whether the twin has pods and its source has none, and no Rollout that runs its template.
func (w Wanted) alone(now, spec map[string]any) bool {
	theirs, said, _ := unstructured.NestedInt64(now, "replicas")
	mine, _, _ := unstructured.NestedInt64(spec, "replicas")
	return said && theirs == 0 && mine > 0 && w.Rollout == ""
}

// Aborted says whether a Rollout has gone back to what it was before.
func Aborted(workload *unstructured.Unstructured) bool {
	aborted, _, _ := unstructured.NestedBool(workload.Object, "status", "abort")
	return aborted && workload.GetKind() == "Rollout"
}

// stoppedWarnings are of a source that does not bring its pods to its template, which the twin has, too.
func (w Wanted) stoppedWarnings(source *unstructured.Unstructured) []Warning {
	if w.Now != nil {
		spec, _ := source.Object["spec"].(map[string]any)
		if !reflect.DeepEqual(templateOf(spec), templateOf(w.now(nil))) {
			return nil // it is made of what the source was before
		}
		source = w.Now
	}
	paused, _, _ := unstructured.NestedBool(source.Object, "spec", "paused")
	switch {
	case Aborted(source):
		return []Warning{{WarnNotServing, "The rollout of the source was aborted: the twin has a template that the source does not run; set the source back to one that it does"}}
	case paused:
		return []Warning{{WarnNotServing, "The source is paused: what its template was changed to since, the twin has, and the source does not run"}}
	}
	return nil
}

// mergeWarnings are of what a merge by keys does not do as it is written.
func (w Wanted) mergeWarnings(from map[string]any, lists merge.Lists) (all []Warning) {
	if w.Strategy != Strategic {
		return nil
	}
	if path, what := merge.Ambiguous(from, w.Override, lists); path != "" {
		all = append(all, Warning{WarnRepeated, fmt.Sprintf("overrideSpec.%s, which mergeStrategy Strategic merges by its key, %s; use mergeStrategy Replace to have it as it is written", path, what)})
	}
	return all
}

// staticAddresses are prefixes of annotations that give a pod an address.
var staticAddresses = []string{"cni.projectcalico.org/ipAddrs", "cni.projectcalico.org/hwAddr", "ovn.kubernetes.io/ip_address", "ovn.kubernetes.io/mac_address", "k8s.v1.cni.cncf.io/networks"}

// warnings are what is dangerous about a twin and goes on all the same, and those that are known.
func (w Wanted) warnings(source *unstructured.Unstructured, from, spec map[string]any, lists merge.Lists, known ...Warning) (all []Warning) {
	all = slices.Clone(known)
	warn := func(reason, format string, args ...any) {
		all = append(all, Warning{Reason: reason, Message: fmt.Sprintf(format, args...)})
	}
	now := w.now(from)
	if strategy, _, _ := unstructured.NestedString(now, "strategy", "type"); strategy == "Recreate" { // d8
		warn(WarnRunsOnce, "The source has the strategy Recreate: it may not be made to run twice")
	}
	for _, owner := range source.GetOwnerReferences() {
		if owner.Controller != nil && *owner.Controller {
			warn(WarnManaged, "The source is made by %s %s, which may take pods of the same labels for its own", owner.Kind, owner.Name)
		}
	}
	all = append(all, w.mergeWarnings(from, lists)...)
	all = append(all, w.serviceWarnings(from, spec)...)
	if w.Rollout != "" {
		warn(WarnReferred, "Rollout %s runs the template of the source as well; name the Rollout in spec.sourceRef if its pods are what serves", w.Rollout)
	}
	if source.GetKind() == "StatefulSet" {
		all = append(all, setWarnings(now, spec)...)
	}
	replicas, said, _ := unstructured.NestedInt64(now, "replicas")
	if mine, _, _ := unstructured.NestedInt64(spec, "replicas"); said && replicas > 0 && mine >= replicas {
		warn(WarnNotSmaller, "The twin has no fewer replicas than its source")
	}
	annotations, _, _ := unstructured.NestedMap(spec, "template", "metadata", "annotations")
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		if slices.ContainsFunc(staticAddresses, func(p string) bool { return strings.HasPrefix(name, p) }) {
			warn(WarnStaticAddress, "The annotation %s of the pods gives them an address that the source's may have", name)
		}
	}
	if rule, _, _ := unstructured.NestedString(now, "strategy", "canary", "trafficRouting", "istio", "destinationRule", "name"); rule != "" {
		warn(WarnSubsets, "The subsets of DestinationRule %s are of the source's ReplicaSets: by a mesh that goes by them no traffic comes to the twin", rule)
	}
	all = append(all, labelWarnings(labelsOf(templateOf(from)), labelsOf(templateOf(spec)))...)
	all = append(all, w.annotationWarnings(templateOf(from), templateOf(spec))...)
	pod, theirs := podOf(templateOf(spec)), podOf(templateOf(from))
	has := byName(containers(theirs))
	for _, c := range containers(pod) {
		if has[nameOf(c)] == nil {
			warn(WarnAddedContainer, "The source has no container %s", nameOf(c))
		}
	}
	all = append(all, w.probeWarnings(theirs, pod, labelsOf(templateOf(spec)))...)
	all = append(all, w.volumeWarnings(podOf(templateOf(now)), pod)...)
	all = append(all, placeWarnings(podOf(templateOf(now)), pod)...)
	slices.SortFunc(all, func(a, b Warning) int {
		return cmp.Or(cmp.Compare(slices.Index(byDanger, a.Reason), slices.Index(byDanger, b.Reason)), strings.Compare(a.Message, b.Message))
	})
	return slices.Compact(all)
}

// labelWarnings are of labels by which the twin's pods are others than the source's, but for those that say which version they are of.
func labelWarnings(theirs, mine map[string]string) []Warning {
	all := maps.Clone(theirs)
	maps.Copy(all, mine)
	var other []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		was, had := theirs[name]
		is, has := mine[name]
		if strings.HasPrefix(name, Group+"/") || slices.Contains(slices.Concat(ofPods, ofGroups, ofVersions), name) {
			continue
		}
		if was != is || had != has {
			other = append(other, name)
		}
	}
	if len(other) == 0 {
		return nil
	}
	return []Warning{{WarnLabels, "The twin's pods have other labels (" + strings.Join(other, ", ") + "): NetworkPolicies that hold for the source's may not hold for the twin's, or others may"}}
}

// ofVersions are the labels by which people tell versions apart, which the docs have them set.
var ofVersions = []string{"version", "app.kubernetes.io/version"}

// injecting are prefixes of annotations by which sidecars are put into pods, beside those by which the pods may get more.
var injecting = []string{"consul.hashicorp.com/", "kuma.io/"}

// annotationWarnings are of annotations of the source's pods that the twin's lack, and that the override does not name.
func (w Wanted) annotationWarnings(theirs, mine map[string]any) (all []Warning) {
	named, _, _ := unstructured.NestedMap(w.Override, "template", "metadata", "annotations")
	for _, name := range lacking(theirs, mine) {
		if _, said := named[name]; said || !grants(name) && !begins(name, injecting) {
			continue
		}
		all = append(all, Warning{WarnNotCopied, fmt.Sprintf("The annotation %s of the source's pods is not copied: what they have by it, as a sidecar, a secret or a network, the twin's do not; "+
			"add it to the override, or to the manager's --twin-annotations", name)})
	}
	return all
}

// probeWarnings are of containers that lose their readinessProbe, where a Service sends the pods traffic.
func (w Wanted) probeWarnings(theirs, pod map[string]any, labels map[string]string) (all []Warning) {
	if !slices.ContainsFunc(w.Services, func(s Service) bool { return len(s.Selector) > 0 && selects(s.Selector, labels) }) {
		return nil
	}
	mine := byName(containers(pod))
	for _, c := range containers(theirs) {
		same := mine[nameOf(c)]
		if c["readinessProbe"] != nil && len(same) > 0 && same[0]["readinessProbe"] == nil {
			all = append(all, Warning{WarnUnprobed, fmt.Sprintf("Container %v of the source has a readinessProbe, and that of the twin has none: Services send it traffic as soon as it runs; add it to the override", c["name"])})
		}
	}
	return all
}

// setWarnings are those of StatefulSets.
func setWarnings(now, spec map[string]any) (all []Warning) {
	first, last := numbers(spec)
	if theirFirst, theirLast := numbers(now); max(first, theirFirst) <= min(last, theirLast) {
		all = append(all, Warning{Reason: WarnOrdinals, Message: "Pods of the twin have the numbers of pods of the source, and what makes ids of them has one twice; set overrideSpec.ordinals.start"})
	}
	for _, claim := range objects(spec["volumeClaimTemplates"]) {
		name, _, _ := unstructured.NestedString(claim, "metadata", "name")
		for _, field := range []string{"dataSource", "dataSourceRef"} {
			if of, ok, _ := unstructured.NestedMap(claim, "spec", field); ok {
				all = append(all, Warning{Reason: WarnSourceData, Message: fmt.Sprintf("The volumes of volumeClaimTemplate %s begin with the data of %v %v", name, of["kind"], of["name"])})
			}
		}
	}
	return all
}

// numbers are those of the first and the last pod of a StatefulSet; of none the last is before the first.
func numbers(spec map[string]any) (first, last int64) {
	first, _, _ = unstructured.NestedInt64(spec, "ordinals", "start")
	replicas, said, _ := unstructured.NestedInt64(spec, "replicas")
	if !said {
		replicas = 1
	}
	return first, first + replicas - 1
}

// both are those of a list that another has, too.
func both(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return !slices.Contains(other, s) })
}

// volumeWarnings are of what both may write.
func (w Wanted) volumeWarnings(theirs, pod map[string]any) (all []Warning) {
	for _, claim := range both(claimsOf(pod), claimsOf(theirs)) {
		modes := ""
		if of := w.Claims[claim]; len(of) > 0 {
			modes = " (" + strings.Join(of, ", ") + ")"
		}
		all = append(all, Warning{WarnSharedVolume, fmt.Sprintf("The pods use PersistentVolumeClaim %s%s, as the source's do", claim, modes)})
	}
	mounted, has := mounts(byName(objects(pod["volumes"])), containers(pod)), map[string]bool{}
	for _, v := range objects(theirs["volumes"]) {
		has[sharedKind(v)+hashOf(v[sharedKind(v)])] = true
	}
	for _, v := range objects(pod["volumes"]) {
		kind := sharedKind(v)
		if kind == "" || kind == "persistentVolumeClaim" || !slices.ContainsFunc(mounted[nameOf(v)], func(m mount) bool { return m.write }) {
			continue
		}
		if has[kind+hashOf(v[kind])] {
			all = append(all, Warning{WarnSharedVolume, fmt.Sprintf("The pods may write to volume %s (%s), as the source's do", nameOf(v), kind)})
		}
	}
	for _, name := range both(devices(pod), devices(theirs)) {
		all = append(all, Warning{WarnSharedVolume, fmt.Sprintf("The pods use ResourceClaim %s, as the source's do", name)})
	}
	return all
}

// devices are the ResourceClaims that a pod names.
func devices(pod map[string]any) (all []string) {
	for _, c := range objects(pod["resourceClaims"]) {
		if name, ok := c["resourceClaimName"].(string); ok {
			all = append(all, name)
		}
	}
	return all
}

// placeWarnings are of where the pods run, and what they are there.
func placeWarnings(theirs, pod map[string]any) (all []Warning) {
	warn := func(reason, format string, args ...any) {
		all = append(all, Warning{Reason: reason, Message: fmt.Sprintf(format, args...)})
	}
	if host, ok := pod["hostNetwork"].(bool); ok && host {
		warn(WarnPlacement, "The pods use the network of their nodes: a port that both listen on only one of them has there")
	}
	if name, ok := pod["hostname"].(string); ok && pod["subdomain"] != nil && name == theirs["hostname"] && pod["subdomain"] == theirs["subdomain"] {
		warn(WarnPeerDiscovery, "The pods have the name %s.%v, which is that of the source's", name, pod["subdomain"])
	}
	affinity, _ := pod["affinity"].(map[string]any)
	for field, in := range map[string]map[string]any{"podAffinity": affinity, "podAntiAffinity": affinity, "topologySpreadConstraints": pod} {
		if in[field] != nil { // not nodeAffinity, which asks for no other pods
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

// claimsOf are the PersistentVolumeClaims that a pod names, but for volumes in whose places it gets others.
func claimsOf(pod map[string]any, replaced ...string) (all []string) {
	for _, v := range objects(pod["volumes"]) {
		if name, _ := v["name"].(string); slices.Contains(replaced, name) {
			continue
		}
		if claim, ok, _ := unstructured.NestedString(v, "persistentVolumeClaim", "claimName"); ok && claim != "" {
			all = append(all, claim)
		}
	}
	return all
}

// Claims are the PersistentVolumeClaims that the pods of a template use, but for volumes in whose places they get others, sorted. Those
// that an override names beside them are of nobody's: whether the source's pods get on with the twin's does not depend on them.
func Claims(template map[string]any, replaced ...string) []string {
	all := claimsOf(podOf(template), replaced...)
	slices.Sort(all)
	return slices.Compact(all)
}

// SharedClaims are those PersistentVolumeClaims of a twin's pods that the source's pods use, too, sorted.
func SharedClaims(source, twin *unstructured.Unstructured) []string {
	claims := func(workload *unstructured.Unstructured) []string {
		spec, _ := workload.Object["spec"].(map[string]any)
		var own []string
		for _, template := range objects(spec["volumeClaimTemplates"]) {
			name, _, _ := unstructured.NestedString(template, "metadata", "name")
			own = append(own, name)
		}
		return Claims(templateOf(spec), own...)
	}
	return both(claims(twin), claims(source))
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
