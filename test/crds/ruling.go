package crds

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// Ruling is a rule or a pattern of the schema of a kind: what it says of the values of a field that it refuses, and that
// it refuses none of those that it takes. Values are YAML, and null takes a field out; a ruling of no field is of the
// spec, whose values go over the valid one.
type Ruling struct {
	Kind, Field, Says string
	Takes, Refuses    []string
}

// Rulebook is what the schemas of the project's own kinds of a group, as they are in config/crd/bases, are to refuse.
type Rulebook struct {
	GroupVersion schema.GroupVersion
	// Specs are those of valid objects, as YAML, by their kinds.
	Specs map[string]string
	All   []Ruling

	judges map[string]*judge
}

// judge says what an API server would of a kind, without one.
type judge struct {
	schemas *Schemas
	// schema is that of the kind, and rules what its rules say of a change.
	schema *apiextensionsv1.JSONSchemaProps
	rules  func(is, was any) field.ErrorList
}

// Try fails the test for what a schema refuses or takes against a ruling, for one that says another thing, or more, or of
// another field, and for rules and patterns of the specs that there are no rulings of. What is changed is judged as a
// change of the valid object.
func (b *Rulebook) Try(t *testing.T) {
	t.Helper()
	for _, r := range b.All {
		for _, value := range r.Takes {
			if got := b.Wrong(t, r.Kind, r.Field, value); len(got) > 0 {
				t.Errorf("%s, %s %s is refused: %q", r.Kind, r.Field, value, got)
			}
		}
		for _, value := range r.Refuses {
			if got := b.Wrong(t, r.Kind, r.Field, value); len(got) != 1 || !strings.Contains(got[0], r.Says) || !strings.HasPrefix(got[0], strings.TrimSuffix("spec."+r.Field, ".")) {
				t.Errorf("%s, %s %s: %q does not say %q alone", r.Kind, r.Field, value, got, r.Says)
			}
		}
	}
	for kind := range b.Specs {
		b.whole(t, kind)
	}
}

// whole fails the test unless the rulings are of all rules and patterns that the spec of a kind has.
func (b *Rulebook) whole(t *testing.T, kind string) {
	t.Helper()
	var want, got []string
	spec := b.judge(t, kind).schema.Properties["spec"]
	ruled(spec, func(says string) { want = append(want, says) })
	for _, r := range b.All {
		if r.Kind == kind {
			got = append(got, r.Says)
		}
		if len(r.Takes) == 0 || len(r.Refuses) == 0 {
			t.Errorf("%s, %s: nothing is tried", kind, r.Says)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-rules +rulings):\n%s", kind, diff)
	}
}

// Wrong is what is wrong with the valid object of a kind when a field of its spec is changed to a value, in words, as an
// API server would say it.
func (b *Rulebook) Wrong(t *testing.T, kind, at, value string) (out []string) {
	t.Helper()
	o, j := b.over(t, kind, at, value), b.judge(t, kind)
	err := j.schemas.Validate(o)
	var invalid *InvalidError
	switch {
	case errors.As(err, &invalid):
		for _, e := range invalid.Errors {
			out = append(out, e.Error())
		}
	case err != nil:
		t.Fatal(err)
	default:
		for _, e := range j.rules(o.Object, b.over(t, kind, "", "").Object) {
			out = append(out, e.Error())
		}
	}
	return out
}

// over is the valid object of a kind with a value in a field of its spec.
func (b *Rulebook) over(t *testing.T, kind, at, value string) *unstructured.Unstructured {
	t.Helper()
	spec, with := map[string]any{}, any(nil)
	if err := errors.Join(yaml.Unmarshal([]byte(b.Specs[kind]), &spec), yaml.Unmarshal([]byte(value), &with)); err != nil {
		t.Fatal(err)
	}
	into, path := spec, strings.Split(at, ".")
	for _, key := range path[:len(path)-1] {
		if into[key] == nil {
			into[key] = map[string]any{}
		}
		into = into[key].(map[string]any)
	}
	fields, _ := with.(map[string]any)
	if at != "" {
		fields = map[string]any{path[len(path)-1]: with}
	}
	for key, value := range fields {
		into[key] = value
		if value == nil {
			delete(into, key)
		}
	}
	content, err := yaml.Marshal(map[string]any{
		"apiVersion": b.GroupVersion.String(), "kind": kind, "metadata": map[string]any{"namespace": "team", "name": "valid"}, "spec": spec,
	})
	out := &unstructured.Unstructured{}
	if err := errors.Join(err, yaml.Unmarshal(content, out)); err != nil {
		t.Fatal(err)
	}
	return out
}

func (b *Rulebook) judge(t *testing.T, kind string) *judge {
	t.Helper()
	if known := b.judges[kind]; known != nil {
		return known
	}
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "config", "crd", "bases", b.GroupVersion.Group+"_"+strings.ToLower(kind)+"s.yaml")
	schemas, err := Load(path)
	content, unread := os.ReadFile(path)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := errors.Join(err, unread, yaml.Unmarshal(content, crd)); err != nil {
		t.Fatal(err)
	}
	j, props := &judge{schemas: schemas, schema: crd.Spec.Versions[0].Schema.OpenAPIV3Schema}, &apiextensions.JSONSchemaProps{}
	err = apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(j.schema, props, nil)
	structural, invalid := structuralschema.NewStructural(props)
	if err := errors.Join(err, invalid); err != nil {
		t.Fatal(err)
	}
	validator := cel.NewValidator(structural, true, celconfig.PerCallLimit)
	j.rules = func(is, was any) field.ErrorList {
		errs, _ := validator.Validate(context.Background(), nil, structural, is, was, celconfig.RuntimeCELCostBudget)
		return errs
	}
	if b.judges == nil {
		b.judges = map[string]*judge{}
	}
	b.judges[kind] = j
	return j
}

// ruled calls a function with what each rule and pattern of a schema says.
func ruled(s apiextensionsv1.JSONSchemaProps, call func(string)) {
	for _, rule := range s.XValidations {
		call(rule.Message)
	}
	if s.Pattern != "" {
		call("should match '" + s.Pattern + "'")
	}
	for _, property := range s.Properties {
		ruled(property, call)
	}
	if s.Items != nil {
		ruled(*s.Items.Schema, call)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		ruled(*s.AdditionalProperties.Schema, call)
	}
}
