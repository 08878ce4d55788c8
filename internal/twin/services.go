package twin

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// Service is what is known of a Service beside the source.
type Service struct {
	Name     string
	Selector map[string]string
	// Headless has no address of its own: its clients see every pod.
	Headless bool
}

// Sharing is a Service that selects the source's pods.
type Sharing struct {
	// Name of the Service.
	Name string
	// Shared says that it selects the twin's, too.
	Shared bool
	// Reason why not, in CamelCase; empty if it is.
	Reason string
	// Message why not.
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
)

// share finds the Services that select the pods of a template, and puts the labels that they select back where the
// override has changed them, unless that is allowed (p4). No label is forged: those that controllers give the
// pods of the source are theirs. A Service that selects the pods of the twin alone is another workload's, unless it
// asks for what only twins have: the override must not bring the twin behind it.
func (w Wanted) share(source map[string]string, spec map[string]any) ([]Sharing, error) {
	values, _, _ := unstructured.NestedFieldNoCopy(spec, "template", "metadata", "labels")
	twin, _ := values.(map[string]any)
	var all []Sharing
	for _, service := range slices.SortedFunc(slices.Values(w.Services), func(a, b Service) int { return strings.Compare(a.Name, b.Name) }) {
		asked := maps.Clone(service.Selector)
		maps.DeleteFunc(asked, func(label, _ string) bool {
			return slices.Contains(ofPods, label) || strings.HasPrefix(label, Group+"/")
		})
		if len(asked) == 0 || !selects(asked, source) {
			continue
		}
		var changed []string
		for _, label := range slices.Sorted(maps.Keys(asked)) {
			if !w.AllowLabelOverride {
				twin[label] = asked[label]
			} else if twin[label] != asked[label] {
				changed = append(changed, label)
			}
		}
		all = append(all, sharing(service, changed))
	}
	if others := w.foreign(source, labelsOf(templateOf(spec))); len(others) > 0 && !w.AllowLabelOverride {
		return nil, invalid("overrideSpec.template.metadata.labels", "with them Service %s, which does not select the source's pods, would select the twin's (%s); "+
			"remove one of them, have the Service select the twin by %s, or set allowLabelOverride", others[0].Name, labels.Set(others[0].Selector), LabelName)
	}
	return all, nil
}

// foreign are the Services that select the pods of a twin by labels that those of its source do not have.
func (w Wanted) foreign(source, twin map[string]string) []Service {
	return slices.DeleteFunc(slices.Clone(w.Services), func(s Service) bool {
		for label := range s.Selector {
			if strings.HasPrefix(label, Group+"/") {
				return true
			}
		}
		return len(s.Selector) == 0 || !selects(s.Selector, twin) || selects(s.Selector, source)
	})
}

func selects(selector, pods map[string]string) bool {
	return labels.SelectorFromSet(selector).Matches(labels.Set(pods))
}

func sharing(service Service, changed []string) Sharing {
	s := Sharing{Name: service.Name}
	pins := slices.DeleteFunc(slices.Sorted(maps.Keys(service.Selector)), func(label string) bool { return !slices.Contains(ofPods, label) })
	switch {
	case slices.Contains(pins, "statefulset.kubernetes.io/pod-name"), slices.Contains(pins, "apps.kubernetes.io/pod-index"):
		s.Reason, s.Message = ReasonSinglePod, "It selects one pod of the source"
	case len(pins) > 0:
		s.Reason, s.Message = ReasonPinned, fmt.Sprintf("It selects %s, which says which version of the source is served", strings.Join(pins, ", "))
	case len(changed) > 0:
		s.Reason, s.Message = ReasonRelabelled, fmt.Sprintf("It selects %s, which the override has changed", strings.Join(changed, ", "))
	default:
		s.Shared = true
	}
	return s
}
