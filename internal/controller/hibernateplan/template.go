package hibernateplan

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/dispatch"
	"github.com/labkeeper/labkeeper/internal/runner"
)

// startable says whether a cycle of a plan could begin, and its runners start, for which everything else may be right. The error
// joins a *dispatch.InvalidError for each mistake.
func startable(spec v1alpha1.HibernatePlanSpec) error {
	return errors.Join(reachRunners(spec.Targets), podsOfRunners(spec.Runner), resolve(spec).fits())
}

// reachRunners says whether parameters are short enough for those who are told them.
func reachRunners(targets []v1alpha1.Target) error {
	var problems []error
	for i, t := range targets {
		if n := len(raw(t)); n > runner.MaxParameters {
			problems = append(problems, mistake(i, t, true, fmt.Errorf(
				"they have %d bytes of JSON, and a runner can be told %d; make several targets", n, runner.MaxParameters)))
		}
	}
	return errors.Join(problems...)
}

// podsOfRunners are made by template: what of it the API server takes of no pod would else be found out in the evening,
// by each attempt, or be what keeps everything from waking.
func podsOfRunners(template *v1alpha1.RunnerTemplate) error {
	if template == nil {
		return nil
	}
	at := field.NewPath("spec", "runner")
	all := metav1validation.ValidateLabels(template.NodeSelector, at.Child("nodeSelector"))
	for i, t := range template.Tolerations {
		all = append(all, tolerable(t, at.Child("tolerations").Index(i))...)
	}
	if name := template.PriorityClassName; name != "" {
		all = append(all, refused(at.Child("priorityClassName"), name, validation.IsDNS1123Subdomain(name))...)
	}
	if template.Resources != nil {
		all = append(all, affordable(*template.Resources, at.Child("resources"))...)
	}
	var problems []error
	for _, e := range all {
		problems = append(problems, &dispatch.InvalidError{Path: e.Field, Problem: e.ErrorBody()})
	}
	return errors.Join(problems...)
}

// podsOf is the template that pods are made by: one that is refused, which somebody may have written while targets sleep, must not keep
// them from waking.
func podsOf(template *v1alpha1.RunnerTemplate) *v1alpha1.RunnerTemplate {
	if podsOfRunners(template) == nil {
		return template
	}
	return &v1alpha1.RunnerTemplate{ActiveDeadline: template.ActiveDeadline}
}

func refused(at *field.Path, value any, why []string) (all field.ErrorList) {
	for _, w := range why {
		all = append(all, field.Invalid(at, value, w))
	}
	return all
}

// tolerable says what no pod can tolerate. An operator or effect that is not known may be one of a newer Kubernetes.
func tolerable(t corev1.Toleration, at *field.Path) (all field.ErrorList) {
	if t.Key != "" {
		all = append(all, metav1validation.ValidateLabelName(t.Key, at.Child("key"))...)
	} else if t.Operator != corev1.TolerationOpExists {
		all = append(all, field.Invalid(at.Child("operator"), t.Operator, "without a key it must be Exists"))
	}
	switch {
	case t.Operator == corev1.TolerationOpExists && t.Value != "":
		all = append(all, field.Invalid(at.Child("value"), t.Value, "operator Exists has none; take it out, or write operator: Equal"))
	case t.Operator == corev1.TolerationOpEqual || t.Operator == "":
		all = append(all, refused(at.Child("value"), t.Value, validation.IsValidLabelValue(t.Value))...)
	}
	if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
		all = append(all, field.Invalid(at.Child("effect"), t.Effect, "with tolerationSeconds it must be NoExecute"))
	}
	return all
}

// affordable says what no container can have.
func affordable(of v1alpha1.RunnerResources, at *field.Path) (all field.ErrorList) {
	for _, part := range []struct {
		field string
		has   v1alpha1.Quantities
	}{{"limits", of.Limits}, {"requests", of.Requests}} {
		for _, name := range slices.Sorted(maps.Keys(part.has)) {
			here, quantity := at.Child(part.field).Key(string(name)), part.has[name]
			all = append(all, countable(here, name, quantity)...)
			if quantity.Sign() < 0 {
				all = append(all, field.Invalid(here, quantity.String(), "it must not be less than 0"))
			}
			limit, limited := of.Limits[name]
			switch {
			case part.field == "limits":
			case limited && quantity.Cmp(limit) > 0:
				all = append(all, field.Invalid(here, quantity.String(), "it is more than the limit of "+limit.String()))
			case !shared(name) && (!limited || quantity.Cmp(limit) != 0):
				all = append(all, field.Invalid(here, quantity.String(), "of this resource nobody has less than the limit; write limits alone"))
			}
		}
	}
	return all
}

// countable says what no resource is called, and of which there are no parts.
func countable(at *field.Path, name corev1.ResourceName, quantity resource.Quantity) (all field.ErrorList) {
	if !strings.Contains(string(name), "/") {
		if !standard(name) {
			all = append(all, field.Invalid(at, quantity.String(), "there is no such resource; write cpu or memory"))
		}
		return all
	}
	all = refused(at, string(name), validation.IsQualifiedName(string(name)))
	if !shared(name) && quantity.MilliValue()%1000 != 0 {
		all = append(all, field.Invalid(at, quantity.String(), "it must be a whole number"))
	}
	return all
}

// shared says whether containers may use more of a resource than is kept for them.
func shared(name corev1.ResourceName) bool {
	others := strings.Contains(string(name), "/") && !strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
	return !others && !strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// standard says whether Kubernetes itself has a resource of a container.
func standard(name corev1.ResourceName) bool {
	return slices.Contains([]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}, name) ||
		strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}
