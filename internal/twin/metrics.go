package twin

import (
	"fmt"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// mostNamed is how many containers a message names.
const mostNamed = 5

// metric is one that a HorizontalPodAutoscaler computes from the resources of all the pods that it counts, and not at
// all if one of them lacks what it takes.
type metric struct {
	// resource is what it is of, and container whose it is; empty for those of the whole pods.
	resource, container string
	// requested: it is a share of what is requested, and takes the requests of all containers that it is of.
	requested bool
}

// metricsOf are those of a HorizontalPodAutoscaler.
func metricsOf(autoscaler *unstructured.Unstructured) (all []metric) {
	list, _, _ := unstructured.NestedFieldNoCopy(autoscaler.Object, "spec", "metrics")
	for _, m := range objects(list) {
		for _, field := range []string{"resource", "containerResource"} {
			name, is, _ := unstructured.NestedString(m, field, "name")
			container, _, _ := unstructured.NestedString(m, field, "container")
			target, _, _ := unstructured.NestedString(m, field, "target", "type")
			if is {
				all = append(all, metric{name, container, target == string(autoscalingv2.UtilizationMetricType)})
			}
		}
	}
	return all
}

// lacks is what a pod does not have that the metric takes, and what to do about it; empty if it has all.
func (m metric) lacks(pod map[string]any) (what, remedy string) {
	var counted, without []string
	for _, c := range running(pod) {
		if m.container != "" && m.container != nameOf(c) {
			continue
		}
		counted = append(counted, nameOf(c))
		if !requests(c, m.resource) {
			without = append(without, nameOf(c))
		}
	}
	switch {
	case len(counted) == 0:
		return "no container " + m.container, "have the override keep one of that name"
	case !m.requested || len(without) == 0 || m.container == "" && requests(pod, m.resource):
		return "", ""
	}
	if more := len(without) - mostNamed; more > 0 {
		without = append(without[:mostNamed], fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("no request for %s in container %s", m.resource, strings.Join(without, ", ")),
		fmt.Sprintf("give it resources.requests.%s in the override, unless a LimitRange does", m.resource)
}

// running are the containers of a pod that run as long as it does.
func running(pod map[string]any) []map[string]any {
	init := slices.DeleteFunc(objects(pod["initContainers"]), func(c map[string]any) bool {
		return c["restartPolicy"] != string(corev1.ContainerRestartPolicyAlways)
	})
	return slices.Concat(init, objects(pod["containers"]))
}

// requests says whether a container, or a pod as a whole, requests some of a resource: what has a limit alone is given
// a request of as much.
func requests(of map[string]any, resource string) bool {
	for _, field := range []string{"requests", "limits"} {
		if all, _, _ := unstructured.NestedMap(of, "resources", field); all[resource] != nil {
			return true
		}
	}
	return false
}

// stopped are how HorizontalPodAutoscalers of the source, if there is one, and of other workloads lose a metric by the
// twin's pods that those of the workload give them, sorted (a1): by it they scale no more, however well the twin is.
func stopped(source, twin *unstructured.Unstructured, autoscalers, others []*unstructured.Unstructured) (messages []string) {
	mine, workloads := podSpecOf(twin), others
	if source != nil {
		workloads = append([]*unstructured.Unstructured{source}, others...)
	}
	for _, a := range autoscalers {
		for _, w := range workloads {
			if vertical(a) || !scales(a, w) || !Overlaps(w, twin) || blueGreen(w) {
				continue
			}
			whose := "the source"
			if w != source {
				whose = w.GetKind() + " " + w.GetName()
			}
			for _, m := range metricsOf(a) {
				before, _ := m.lacks(podSpecOf(w))
				if now, remedy := m.lacks(mine); before == "" && now != "" {
					messages = append(messages, fmt.Sprintf("%s %s cannot scale %s by %s while the twin has pods, which it counts: they have %s; %s",
						a.GetKind(), a.GetName(), whose, m.resource, now, remedy))
				}
			}
		}
	}
	slices.Sort(messages)
	return slices.Compact(messages)
}

// podSpecOf is the spec of a workload's pods.
func podSpecOf(workload *unstructured.Unstructured) map[string]any {
	spec, _ := workload.Object["spec"].(map[string]any)
	return podOf(templateOf(spec))
}
