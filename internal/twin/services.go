package twin

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/labkeeper/labkeeper/internal/merge"
)

// Service is what is known of a Service beside the source.
type Service struct {
	Name     string
	Selector map[string]string
	// Headless has no address of its own: its clients see every pod.
	Headless bool
	// Unready pods are sent traffic, too (publishNotReadyAddresses).
	Unready bool
	// Near is by which field it sends requests to pods that are near alone, or first, as "externalTrafficPolicy: Local"; empty for none.
	Near string
	// Ports of pods that it sends traffic to, by their names or else by their numbers.
	Ports []Port
}

// Port is one of pods.
type Port struct {
	// Name of the port; empty where there is none.
	Name string
	// Number of the port; 0 where it is found by its name.
	Number int64
	// Protocol of the port; empty is TCP.
	Protocol string
}

// String is how messages name it.
func (p Port) String() string {
	name := cmp.Or(p.Name, strconv.FormatInt(p.Number, 10))
	if p.protocol() != string(corev1.ProtocolTCP) {
		name += " (" + p.protocol() + ")"
	}
	return name
}

func (p Port) protocol() string { return cmp.Or(p.Protocol, string(corev1.ProtocolTCP)) }

// in says whether it is one of some: EndpointSlices find a port by its name and its protocol. Numbers count where it
// has no name.
func (p Port) in(ports []Port) bool {
	return slices.ContainsFunc(ports, func(of Port) bool {
		return of.protocol() == p.protocol() && (p.Name != "" && of.Name == p.Name || p.Name == "" && of.Number == p.Number)
	})
}

// lost are the ports by which a Service finds those of the source by their names, and not the twin's. All says that it
// finds the twin by no other. What asks for all pods, as the clients of one that is headless do, finds the twin all
// the same.
func (s Service) lost(source, twin []Port) (ports []string, all bool) {
	if s.Headless {
		return nil, false
	}
	all = true
	for _, port := range s.Ports {
		switch {
		case port.Name == "", port.in(twin):
			all = false // by its number it gets traffic, whether it listens or not
		case port.in(source) && !slices.Contains(ports, port.String()):
			ports = append(ports, port.String())
		}
	}
	return ports, all && len(ports) > 0
}

// undeclared are the ports that a Service sends traffic to by their numbers which containers of the source declare,
// and none of the twin does, though it declares others. One that declares none may listen anywhere.
func (s Service) undeclared(source, twin []Port) (ports []string) {
	for _, port := range s.Ports {
		if port.Name == "" && len(twin) > 0 && port.in(source) && !port.in(twin) && !slices.Contains(ports, port.String()) {
			ports = append(ports, port.String())
		}
	}
	return ports
}

// Sharing is a Service that selects the source's pods.
type Sharing struct {
	// Name of the Service.
	Name string
	// Shared says that it sends the twin's traffic, too.
	Shared bool
	// Reason why not, in CamelCase; empty if it is.
	Reason string
	// Message why not, or what of it the twin does not get.
	Message string
}

// Reasons of Services that are not shared.
const (
	// ReasonPinned: it selects one version of a Rollout, by a hash that is the Rollout's to give (r8).
	ReasonPinned = "ServicePinnedByRollout"
	// ReasonSinglePod: it selects one pod of a StatefulSet (s9).
	ReasonSinglePod = "ServiceOfSinglePod"
	// ReasonRelabelled: the override has changed a label that it selects.
	ReasonRelabelled = "LabelOverridden"
	// ReasonPortLost: it sends traffic to a port by its name, which no container of the twin has.
	ReasonPortLost = "PortNameLost"
	// ReasonOfTwins: it selects a label of the source that tells twins apart, and is another on each.
	ReasonOfTwins = "LabelOfTwins"
	// ReasonSourcePinned: it selects the source as it is now, and the twin is made of what was kept of it.
	ReasonSourcePinned = "SourcePinned"
)

// podName is the label of a pod of a StatefulSet alone.
const podName = "statefulset.kubernetes.io/pod-name"

// podIndex is the label with the number of a pod of a StatefulSet, which pods of others have, too.
const podIndex = "apps.kubernetes.io/pod-index"

// apartBy is what the pods of a twin are numbered from, where a Service selects pods by their number: no source has so many.
const apartBy = 1000

// number keeps the pods of a StatefulSet's twin away from Services that select a pod by its number, as that of the primary of a
// database: the twin's would have the same. Where the override numbers them itself, it is told who selects them.
func (w Wanted) number(shared []Sharing, spec map[string]any) []Sharing {
	byNumber, last := w.byNumber(spec)
	if _, own := spec["ordinals"]; !own {
		for len(byNumber) > 0 {
			spec["ordinals"] = map[string]any{"start": (last/apartBy + 1) * apartBy}
			byNumber, last = w.byNumber(spec)
		}
	}
	for _, name := range byNumber {
		shared = slices.DeleteFunc(shared, func(s Sharing) bool { return s.Name == name })
		shared = append(shared, Sharing{Name: name, Shared: true, Message: "It selects pods by their number, and the twin has one of that; set overrideSpec.ordinals.start"})
	}
	slices.SortFunc(shared, func(a, b Sharing) int { return strings.Compare(a.Name, b.Name) })
	return shared
}

// byNumber are the Services that select a pod of a StatefulSet by its number, and not by its name, and the highest of these numbers.
func (w Wanted) byNumber(spec map[string]any) (names []string, highest int64) {
	first, last := numbers(spec)
	for _, service := range w.Services {
		n, err := strconv.ParseInt(service.Selector[podIndex], 10, 64)
		if _, named := service.Selector[podName]; err != nil || named || n < first || n > last {
			continue
		}
		others := maps.Clone(service.Selector)
		delete(others, podIndex)
		if selects(others, labelsOf(templateOf(spec))) {
			names, highest = append(names, service.Name), max(highest, n)
		}
	}
	return names, highest
}

// pods are those of a source.
type pods struct {
	// labels that all of them have.
	labels map[string]string
	// ports are those that their containers have.
	ports []Port
	// versions are the labels that a Rollout gives those of one version beside.
	versions []map[string]string
	// workload is the name of the source, and numbered says whether its pods have numbers.
	workload string
	numbered bool
}

func podsOf(source *unstructured.Unstructured, template map[string]any) pods {
	p := pods{labels: labelsOf(template), ports: portsOf(template), workload: source.GetName(), numbered: source.GetKind() == "StatefulSet"}
	for _, path := range [][]string{{"canary", "stableMetadata"}, {"canary", "canaryMetadata"}, {"blueGreen", "activeMetadata"}, {"blueGreen", "previewMetadata"}} {
		version, _, _ := unstructured.NestedStringMap(source.Object, "spec", "strategy", path[0], path[1], "labels")
		if len(version) > 0 {
			p.versions = append(p.versions, version)
		}
	}
	return p
}

// portsOf are the ports of containers of a template that run as long as its pods do, by which Services find these.
func portsOf(template map[string]any) (all []Port) {
	for _, c := range running(podOf(template)) {
		for _, port := range objects(c["ports"]) {
			number, _ := port["containerPort"].(int64)
			protocol, _ := port["protocol"].(string)
			all = append(all, Port{Name: nameOf(port), Number: number, Protocol: protocol})
		}
	}
	return all
}

// selectedBy says whether a selector is of some of them, and which of its labels only some have: of one version, or of one
// pod. What a hash says of the version is not looked at: it changes.
func (p pods) selectedBy(selector map[string]string) (some []string, selected bool) {
	asked := maps.Clone(selector)
	maps.DeleteFunc(asked, func(label, _ string) bool { return isGiven(label) })
	one, single := selector[podName]
	if number, isOf := strings.CutPrefix(one, p.workload+"-"); single && (!isOf || strings.Trim(number, "0123456789") != "" || number == "") {
		return nil, false
	}
	if len(asked) == 0 {
		return nil, single
	}
	if selects(asked, p.labels) {
		return nil, true
	}
	for _, version := range p.versions {
		labels := maps.Clone(p.labels)
		maps.Copy(labels, version)
		if selects(asked, labels) {
			maps.DeleteFunc(asked, func(label, value string) bool { return p.labels[label] == value })
			return slices.Sorted(maps.Keys(asked)), true
		}
	}
	return nil, false
}

// share finds the Services that select the pods of a template, and puts the labels that they select back where the
// override has changed them, unless that is allowed (p4). No label is forged: those that controllers give the
// pods of the source are theirs. A Service that selects the pods of the twin alone is another workload's, unless it
// asks for what only twins have: the override must not bring the twin behind it. Kept are warnings of the labels that
// were put back.
func (w Wanted) share(source pods, spec map[string]any) (all []Sharing, kept []Warning, err error) {
	values, _, _ := unstructured.NestedFieldNoCopy(spec, "template", "metadata", "labels")
	twin, _ := values.(map[string]any)
	for _, service := range w.Services {
		some, selected := source.selectedBy(service.Selector)
		if !selected {
			if w.leftBehind(service, spec) {
				all = append(all, Sharing{Name: service.Name, Reason: ReasonSourcePinned, Message: "It selects the source as it is now, and not the twin, which is made of what the source was"})
			}
			continue
		}
		var changed []string
		for _, label := range slices.Sorted(maps.Keys(service.Selector)) {
			switch asked := service.Selector[label]; {
			case isGiven(label), slices.Contains(some, label), strings.HasPrefix(label, Group+"/"):
			case !w.AllowLabelOverride:
				kept = append(kept, service.keeps(label, twin)...)
				twin[label] = asked
			case twin[label] != asked:
				changed = append(changed, label)
			}
		}
		s := sharing(service, some, changed)
		if s.Shared {
			s = s.without(service.lost(source.ports, portsOf(templateOf(spec))))
		}
		all = append(all, s)
	}
	if others := w.foreign(source.labels, labelsOf(templateOf(spec))); len(others) > 0 && !w.AllowLabelOverride {
		return nil, nil, invalid("overrideSpec.template.metadata.labels", "with them Service %s, which does not select the source's pods, selects the twin's (%s); "+
			"remove one of them, have the Service select the twin by %s, or set allowLabelOverride", others[0].Name, labels.Set(others[0].Selector), LabelName)
	}
	if source.numbered {
		all = w.number(all, spec)
	}
	return all, kept, nil
}

// keeps warns of a label that a Service selects, where the override has another value of it, or none. Labels of groups are the source's
// alone, whatever the override says.
func (s Service) keeps(label string, twin map[string]any) []Warning {
	asked := s.Selector[label]
	value, has := twin[label]
	switch {
	case value == asked, slices.Contains(ofGroups, label):
		return nil
	case !has:
		return []Warning{{WarnLabelKept, fmt.Sprintf("The override does not take label %s away: Service %s selects %s=%s; set allowLabelOverride to have that, or leave it out", label, s.Name, label, asked)}}
	}
	return []Warning{{WarnLabelKept, fmt.Sprintf("The override's label %s is not set: Service %s selects %s=%s; set allowLabelOverride to have it, or remove it", label, s.Name, label, asked)}}
}

// leftBehind says whether a Service selects the source as it is now, and not the twin.
func (w Wanted) leftBehind(service Service, spec map[string]any) bool {
	if w.Now == nil {
		return false
	}
	_, selected := podsOf(w.Now, templateOf(w.now(nil))).selectedBy(service.Selector)
	return selected && !selects(service.Selector, labelsOf(templateOf(spec)))
}

// foreign are the Services that select the pods of a twin by labels that those of its source do not have.
func (w Wanted) foreign(source, twin map[string]string) []Service {
	return slices.DeleteFunc(w.behind(twin), func(s Service) bool { return selects(s.Selector, source) })
}

// behind are the Services that select the pods of a twin, but for those that ask for what only twins have.
func (w Wanted) behind(twin map[string]string) []Service {
	return slices.DeleteFunc(slices.Clone(w.Services), func(s Service) bool {
		for label := range s.Selector {
			if strings.HasPrefix(label, Group+"/") {
				return true
			}
		}
		return len(s.Selector) == 0 || !selects(s.Selector, twin)
	})
}

// Kept are the Services of the source, and what is dangerous about a twin that is there and stays as it is, whatever is asked for. Without
// a source, which is nil then, they are those that the twin is behind alone.
func (w Wanted) Kept(source, twin *unstructured.Unstructured) ([]Sharing, []Warning) {
	spec, _ := twin.DeepCopy().Object["spec"].(map[string]any)
	if source == nil {
		return w.left(spec)
	}
	w.AllowLabelOverride, w.Strategy = true, Replace // nothing is put back, or merged
	if _, own := spec["ordinals"]; !own {
		spec["ordinals"] = map[string]any{} // nor is it numbered anew
	}
	from, _ := source.Object["spec"].(map[string]any)
	services, _, _ := w.share(podsOf(source, templateOf(from)), spec)
	return services, w.warnings(source, from, spec, merge.Lists{})
}

// left are the Services that a twin without a source is behind, and what is dangerous about that.
func (w Wanted) left(spec map[string]any) (all []Sharing, warnings []Warning) {
	replicas, _, _ := unstructured.NestedInt64(spec, "replicas")
	for _, s := range w.behind(labelsOf(templateOf(spec))) {
		all = append(all, Sharing{Name: s.Name, Shared: true, Message: "It selects the twin's pods, and there is no source"})
		if replicas > 0 {
			warnings = append(warnings, Warning{WarnAlone, fmt.Sprintf("There is no source: what Service %s gets goes to the twin; set onSourceDeleted to Delete if nothing is to be served", s.Name)})
		}
	}
	return all, warnings
}

// ofNodes are the labels that pods get when they are bound to a node, whoever's they are.
var ofNodes = []string{"topology.kubernetes.io/zone", "topology.kubernetes.io/region"}

// isGiven says whether pods are given a label when they are made or bound, which no template says.
func isGiven(label string) bool {
	return slices.Contains(ofPods, label) || slices.Contains(ofNodes, label)
}

func selects(selector, pods map[string]string) bool {
	selector = maps.Clone(selector)
	maps.DeleteFunc(selector, func(label, _ string) bool { return slices.Contains(ofNodes, label) })
	return labels.SelectorFromSet(selector).Matches(labels.Set(pods))
}

// without is what is shared of a Service that finds the source by ports by which it does not find the twin.
func (s Sharing) without(lost []string, all bool) Sharing {
	ports := strings.Join(lost, ", ")
	switch {
	case all:
		s.Shared, s.Reason = false, ReasonPortLost
		s.Message = fmt.Sprintf("It sends traffic to port %s, and no container of the twin has one of that name; add it to the override", ports)
	case len(lost) > 0:
		s.Message = fmt.Sprintf("The twin gets none of what it sends to port %s, as no container of the twin has one of that name; add it to the override", ports)
	}
	return s
}

func sharing(service Service, some, changed []string) Sharing {
	s := Sharing{Name: service.Name}
	var pins, ours []string
	for _, label := range slices.Sorted(maps.Keys(service.Selector)) {
		switch {
		case slices.Contains(ofPods, label), slices.Contains(some, label):
			pins = append(pins, label)
		case strings.HasPrefix(label, Group+"/"):
			ours = append(ours, label)
		}
	}
	switch {
	case slices.Contains(pins, podName), slices.Contains(pins, podIndex):
		s.Reason, s.Message = ReasonSinglePod, "It selects one pod of the source"
	case len(pins) > 0:
		s.Reason, s.Message = ReasonPinned, fmt.Sprintf("It selects %s, which says which version of the source is served", strings.Join(pins, ", "))
	case len(ours) > 0:
		s.Reason, s.Message = ReasonOfTwins, fmt.Sprintf("It selects %s, which tells a twin from its source", strings.Join(ours, ", "))
	case len(changed) > 0:
		s.Reason, s.Message = ReasonRelabelled, fmt.Sprintf("It selects %s, of which the twin's pods have another value, or none", strings.Join(changed, ", "))
	default:
		s.Shared = true
	}
	return s
}
