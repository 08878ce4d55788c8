package argoworkflows

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Parameter is one that a template declares for the Workflows that are made of it.
type Parameter struct {
	Name string
	// Required: it has no value of its own, nor anywhere to have one from, and Argo Workflows refuses a Workflow that gives none.
	Required bool
	// Enum are the values that it is meant to have, which Argo Workflows does not check; none is any.
	Enum []string
}

// Parameters are those that a template declares, in its order.
func Parameters(template *unstructured.Unstructured) (all []Parameter) {
	declared, _, _ := unstructured.NestedSlice(template.Object, "spec", "arguments", "parameters")
	for _, d := range declared {
		parameter, _ := d.(map[string]any)
		name, _ := parameter["name"].(string)
		enum, _, _ := unstructured.NestedStringSlice(parameter, "enum")
		all = append(all, Parameter{Name: name, Required: parameter["value"] == nil && parameter["valueFrom"] == nil, Enum: enum})
	}
	return all
}

// StripTemplate is the cache's transform for templates: of what they do, which can be a megabyte, nothing is ever read.
func StripTemplate(o any) (any, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return o, nil
	}
	u.SetManagedFields(nil)
	u.SetAnnotations(nil)
	u.SetLabels(nil)
	delete(u.Object, "status")
	if spec, ok := u.Object["spec"].(map[string]any); ok {
		arguments := spec["arguments"]
		u.Object["spec"] = map[string]any{"arguments": arguments}
	}
	return u, nil
}
