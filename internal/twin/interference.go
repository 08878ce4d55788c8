package twin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// Autoscalers are how HorizontalPodAutoscalers, ScaledObjects of KEDA and VerticalPodAutoscalers beside a source and
// its twin get in their way, sorted (a1 to a5), those that stop first: messages may be cut. They find pods by the
// selector of what they scale, not by who owns them: others are the workloads beside those two that some of them are
// for. The source is nil where there is none any more; a twin that is to have no pods has none to be counted.
func Autoscalers(source, twin *unstructured.Unstructured, autoscalers, others []*unstructured.Unstructured) (messages []string) {
	if !HasPods(twin) {
		source, others = nil, nil
	}
	counted := source != nil && Overlaps(source, twin) && !blueGreen(source)
	for _, a := range autoscalers {
		what := a.GetKind() + " " + a.GetName()
		switch {
		case vertical(a) && scales(a, twin) && counted:
			messages = append(messages, what+" is for the twin, and learns from the source's pods, too: what it recommends is of neither")
		case vertical(a) && counted && scales(a, source):
			messages = append(messages, what+" is for the source, and learns from the twin's pods, too, what containers of the same names need")
		case scales(a, twin) && !vertical(a):
			messages = append(messages, what+" scales the twin: neither it nor one of the source's can tell their pods apart, and both may stop; do not scale a twin")
		case counted && scales(a, source):
			messages = append(messages, what+" scales the source, and counts the twin's pods: those that are not ready keep the source from growing")
		default:
			messages = append(messages, ofOthers(a, twin, others)...)
		}
	}
	slices.Sort(messages)
	return slices.Concat(stopped(source, twin, autoscalers, others), slices.Compact(messages))
}

// HasPods says whether a workload is to have pods.
func HasPods(workload *unstructured.Unstructured) bool {
	replicas, said, _ := unstructured.NestedInt64(workload.Object, "spec", "replicas")
	return !said || replicas > 0
}

// ofOthers tells of an autoscaler that is for another workload, if the selector of that selects the twin's pods.
func ofOthers(autoscaler, twin *unstructured.Unstructured, others []*unstructured.Unstructured) (messages []string) {
	for _, other := range others {
		if !scales(autoscaler, other) || !Overlaps(other, twin) || blueGreen(other) {
			continue
		}
		what := fmt.Sprintf("%s %s is for %s %s, whose selector selects the twin's pods", autoscaler.GetKind(), autoscaler.GetName(), other.GetKind(), other.GetName())
		if vertical(autoscaler) {
			messages = append(messages, what+": it learns from them what containers of the same names need")
		} else {
			messages = append(messages, what+": it counts them, and those that are not ready keep that from growing")
		}
	}
	return messages
}

// vertical says whether an autoscaler is a VerticalPodAutoscaler. It acts on the pods of its target's owner alone, and its
// recommender goes by labels.
func vertical(autoscaler *unstructured.Unstructured) bool {
	return autoscaler.GetKind() == "VerticalPodAutoscaler"
}

// scales says whether an autoscaler is for a workload.
func scales(autoscaler, workload *unstructured.Unstructured) bool {
	kind, name := Target(autoscaler)
	return kind == workload.GetKind() && name == workload.GetName()
}

// Target is what an autoscaler is for. Of a ScaledObject the kind may be left out.
func Target(autoscaler *unstructured.Unstructured) (kind, name string) {
	reference := "scaleTargetRef"
	if vertical(autoscaler) {
		reference = "targetRef"
	}
	kind, _, _ = unstructured.NestedString(autoscaler.Object, "spec", reference, "kind")
	name, _, _ = unstructured.NestedString(autoscaler.Object, "spec", reference, "name")
	return cmp.Or(kind, "Deployment"), name
}

// blueGreen says whether a Rollout tells autoscalers the selector of its active pods alone (a3).
func blueGreen(source *unstructured.Unstructured) bool {
	_, is, _ := unstructured.NestedMap(source.Object, "spec", "strategy", "blueGreen")
	return is && source.GetKind() == "Rollout"
}

// Budgets are the PodDisruptionBudgets that count both pods, or the twin's with those of others, sorted (a6). One that asks for what
// only twins have is meant for them. The source is nil where there is none any more; a twin that is to have no pods has none to be
// counted.
func Budgets(source, twin *unstructured.Unstructured, budgets []*unstructured.Unstructured) (messages []string) {
	if !HasPods(twin) {
		return nil
	}
	for _, b := range budgets {
		selector := selectorOf(b)
		ofSource := source != nil && selector.Matches(labels.Set(labelsOfPods(source)))
		if !selector.Matches(labels.Set(labelsOfPods(twin))) || !ofSource && ofTwins(selector) {
			continue
		}
		counts, whose := " counts the pods of both", "the source's"
		if !ofSource {
			counts, whose = ", which does not count the source's pods, counts the twin's", "others"
		}
		messages = append(messages, fmt.Sprintf("PodDisruptionBudget %s%s: those of the twin that are not ready keep nodes from being drained, "+
			"and those that are stand for %s that are not", b.GetName(), counts, whose))
	}
	slices.Sort(messages)
	return messages
}

// ofTwins says whether a selector asks for a label of twins.
func ofTwins(selector labels.Selector) bool {
	requirements, _ := selector.Requirements()
	return slices.ContainsFunc(requirements, func(r labels.Requirement) bool { return strings.HasPrefix(r.Key(), Group+"/") })
}

// Overlaps says whether the selector of a source selects the pods of its twin, which are told from the source's by their
// owner alone (d3). It must, where Services select what the source does.
func Overlaps(source, twin *unstructured.Unstructured) bool {
	return selectorOf(source).Matches(labels.Set(labelsOfPods(twin)))
}

// labelsOfPods are those of a workload's template.
func labelsOfPods(workload *unstructured.Unstructured) map[string]string {
	template, _, _ := unstructured.NestedFieldNoCopy(workload.Object, "spec", "template")
	of, _ := template.(map[string]any)
	return labelsOf(of)
}

// selectorOf is the label selector of an object's spec; one that is not there, or is none, selects nothing.
func selectorOf(o *unstructured.Unstructured) labels.Selector {
	content, found, err := unstructured.NestedMap(o.Object, "spec", "selector")
	if !found || err != nil {
		return labels.Nothing()
	}
	selector := &metav1.LabelSelector{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(content, selector) != nil {
		return labels.Nothing()
	}
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return labels.Nothing()
	}
	return s
}
