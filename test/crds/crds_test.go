package crds

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

const widgets = `
apiVersion: v1
kind: ConfigMap
metadata:
  name: mentions CustomResourceDefinition and is none
---
# a document of nothing but a comment
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: widgets.example.com
spec:
  group: example.com
  names: {kind: Widget, listKind: WidgetList, plural: widgets, singular: widget}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          apiVersion: {type: string}
          kind: {type: string}
          metadata: {type: object}
          spec:
            type: object
            required: [size, color, mode]
            x-kubernetes-validations:
            - rule: "!has(self.limit) || self.size <= self.limit"
              message: size exceeds limit
            properties:
              size: {type: integer, minimum: 1}
              limit: {type: integer}
              mode: {type: string, default: auto}
              color: {type: string, enum: [red, green]}
              port: {x-kubernetes-int-or-string: true}
              note: {type: string, nullable: true}
              parts:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  properties:
                    name: {type: string}
                    weight: {type: number}
              tags:
                type: object
                additionalProperties: {type: string}
              groups:
                type: object
                additionalProperties:
                  type: object
                  properties:
                    members: {type: array, items: {type: string}}
              flags: {type: object, additionalProperties: true}
              free:
                type: object
                x-kubernetes-preserve-unknown-fields: true
                properties:
                  known:
                    type: object
                    properties:
                      field: {type: string}
              template:
                type: object
                x-kubernetes-embedded-resource: true
                x-kubernetes-preserve-unknown-fields: true
          status:
            type: object
            properties:
              phase: {type: string}
  - name: v1alpha1
    served: false
    storage: false
    schema:
      openAPIV3Schema: {type: object}
`

const gadgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec: {group: example.com, names: {kind: Gadget, plural: gadgets}, scope: Cluster, versions: [
  {name: v1beta1, served: true, storage: true, schema: {openAPIV3Schema: {type: object,
    properties: {spec: {type: object}}}}}]}
`

var widget = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}

// write returns a new directory with the given files.
func write(t *testing.T, contents map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range contents {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func load(t *testing.T, contents ...string) *Schemas {
	t.Helper()
	byName := map[string]string{}
	for i, content := range contents {
		byName[fmt.Sprintf("%d.yaml", i)] = content
	}
	s, err := Load(write(t, byName))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// object returns a valid Widget, parsed from YAML and then changed.
func object(t *testing.T, change func(u *unstructured.Unstructured)) *unstructured.Unstructured {
	t.Helper()
	u := fromYAML(t, `
apiVersion: example.com/v1
kind: Widget
metadata: {name: w, namespace: team, labels: {app: w}}
spec:
  size: 3
  color: red
  port: http
  note: null
  parts: [{name: a, weight: 1.5}, {name: b, weight: 2}]
  tags: {anything: goes}
  groups: {one: {members: [alice, bob]}}
  free: {any: {thing: [1, two, {three: 3}]}, known: {field: x}}
  template:
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: inner, labels: {app: w}}
    data: {key: value}
status:
  phase: Ready
`)
	if change != nil {
		change(u)
	}
	return u
}

func fromYAML(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	content, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := u.UnmarshalJSON(content); err != nil {
		t.Fatal(err)
	}
	return u
}

// set plants a value, which SetNestedField would copy and so refuse if it is not of JSON.
func set(value any, path ...string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		at := u.Object
		for _, key := range path[:len(path)-1] {
			if at[key] == nil {
				at[key] = map[string]any{}
			}
			at = at[key].(map[string]any)
		}
		at[path[len(path)-1]] = value
	}
}

func remove(path ...string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, path...) }
}

func TestValidate(t *testing.T) {
	const unknown = field.ErrorTypeForbidden
	type finding struct {
		Path string
		Type field.ErrorType
	}
	tests := map[string]struct {
		change func(*unstructured.Unstructured)
		want   []finding
	}{
		"valid":                      {},
		"valid: default is required": {change: remove("spec", "mode")},
		"valid: integer or string":   {change: set(int64(80), "spec", "port")},
		"valid: integer for number":  {change: set([]any{map[string]any{"name": "a", "weight": int64(1)}}, "spec", "parts")},
		"valid: no status":           {change: remove("status")},

		"unknown at the root": {
			change: set("x", "extra"),
			want:   []finding{{"extra", unknown}},
		},
		"unknown in spec": {
			change: set("x", "spec", "sise"),
			want:   []finding{{"spec.sise", unknown}},
		},
		"unknown in an array": {
			change: set([]any{map[string]any{"name": "a"}, map[string]any{"name": "b", "wait": int64(1)}}, "spec", "parts"),
			want:   []finding{{"spec.parts[1].wait", unknown}},
		},
		"unknown in a map": {
			change: set([]any{}, "spec", "groups", "one", "member"),
			want:   []finding{{"spec.groups.one.member", unknown}},
		},
		"unknown in status": {
			change: set("x", "status", "fase"),
			want:   []finding{{"status.fase", unknown}},
		},
		"unknown in what a preserved subtree does describe": {
			change: set("x", "spec", "free", "known", "feild"),
			want:   []finding{{"spec.free.known.feild", unknown}},
		},
		"unknown in metadata": {
			change: set("x", "metadata", "label"),
			want:   []finding{{"metadata.label", unknown}},
		},
		"unknown in embedded metadata": {
			change: set("x", "spec", "template", "metadata", "label"),
			want:   []finding{{"spec.template.metadata.label", unknown}},
		},
		"several": {
			change: func(u *unstructured.Unstructured) {
				set("x", "spec", "zzz")(u)
				set("x", "spec", "aaa")(u)
				set("blue", "spec", "color")(u)
			},
			want: []finding{{"spec.aaa", unknown}, {"spec.color", field.ErrorTypeNotSupported}, {"spec.zzz", unknown}},
		},

		"wrong type": {
			change: set("3", "spec", "size"),
			want:   []finding{{"spec.size", field.ErrorTypeTypeInvalid}},
		},
		"wrong type in an array": {
			change: set([]any{map[string]any{"name": int64(1)}}, "spec", "parts"),
			want:   []finding{{"spec.parts[0].name", field.ErrorTypeTypeInvalid}},
		},
		"wrong type in a map": {
			change: set(true, "spec", "tags", "a"),
			want:   []finding{{"spec.tags.a", field.ErrorTypeTypeInvalid}},
		},
		"null": {
			change: set(nil, "spec", "size"),
			want:   []finding{{"spec.size", field.ErrorTypeTypeInvalid}},
		},
		"missing": {
			change: remove("spec", "size"),
			want:   []finding{{"spec.size", field.ErrorTypeRequired}},
		},
		"missing in an array": {
			change: set([]any{map[string]any{"weight": 1.5}}, "spec", "parts"),
			want:   []finding{{"spec.parts[0].name", field.ErrorTypeRequired}},
		},
		"not in the enumeration": {
			change: set("blue", "spec", "color"),
			want:   []finding{{"spec.color", field.ErrorTypeNotSupported}},
		},
		"below the minimum": {
			change: set(int64(0), "spec", "size"),
			want:   []finding{{"spec.size", field.ErrorTypeInvalid}},
		},
		"duplicate key of a list": {
			change: set([]any{map[string]any{"name": "a"}, map[string]any{"name": "a"}}, "spec", "parts"),
			want:   []finding{{"spec.parts[1]", field.ErrorTypeDuplicate}},
		},
		"broken rule": {
			change: set(int64(2), "spec", "limit"),
			want:   []finding{{"spec", field.ErrorTypeInvalid}},
		},

		"no metadata": {
			change: remove("metadata"),
			want:   []finding{{"metadata", field.ErrorTypeRequired}},
		},
		"no name": {
			change: remove("metadata", "name"),
			want:   []finding{{"metadata.name", field.ErrorTypeRequired}},
		},
		"no namespace": {
			change: remove("metadata", "namespace"),
			want:   []finding{{"metadata.namespace", field.ErrorTypeRequired}},
		},
		"label too long": {
			change: set(strings.Repeat("x", 64), "metadata", "labels", "app"),
			want:   []finding{{"metadata.labels", field.ErrorTypeInvalid}},
		},
		"label of the wrong type": {
			change: set(int64(1), "metadata", "labels", "app"),
			want:   []finding{{"metadata", field.ErrorTypeInvalid}},
		},
		"embedded label of the wrong type": {
			change: set(int64(1), "spec", "template", "metadata", "labels", "app"),
			want:   []finding{{"spec.template.metadata", field.ErrorTypeInvalid}},
		},
		"embedded object without a kind": {
			change: remove("spec", "template", "kind"),
			want:   []finding{{"spec.template.kind", field.ErrorTypeRequired}},
		},

		"plain int": {
			change: set(3, "spec", "size"),
			want:   []finding{{"spec.size", field.ErrorTypeTypeInvalid}},
		},
		"plain int in a preserved subtree": {
			change: set([]any{int32(1)}, "spec", "free", "list"),
			want:   []finding{{"spec.free.list[0]", field.ErrorTypeTypeInvalid}},
		},
		"slice of strings": {
			change: set([]string{"x"}, "spec", "groups", "one", "members"),
			want:   []finding{{"spec.groups.one.members", field.ErrorTypeTypeInvalid}},
		},
		"map of strings": {
			change: set(map[string]string{"app": "w"}, "metadata", "labels"),
			want:   []finding{{"metadata.labels", field.ErrorTypeTypeInvalid}},
		},
		"named string": {
			change: set(field.ErrorTypeInvalid, "spec", "color"),
			want:   []finding{{"spec.color", field.ErrorTypeTypeInvalid}},
		},
		"not a number": {
			change: set(math.NaN(), "spec", "free", "x"),
			want:   []finding{{"spec.free.x", field.ErrorTypeTypeInvalid}},
		},
	}
	s := load(t, widgets)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			u := object(t, tc.change)
			err := s.Validate(u)
			var got []finding
			var invalid *InvalidError
			if errors.As(err, &invalid) {
				for _, e := range invalid.Errors {
					got = append(got, finding{e.Field, e.Type})
				}
				if invalid.GVK != widget {
					t.Errorf("error is about %s", invalid.GVK)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("findings of %v (-want +got):\n%s", err, diff)
			}
			if diff := cmp.Diff(object(t, tc.change).Object, u.Object, cmp.Comparer(sameFloat)); diff != "" {
				t.Errorf("the object was changed (-want +got):\n%s", diff)
			}
		})
	}
}

func sameFloat(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

func TestValidateClusterScope(t *testing.T) {
	s := load(t, widgets, gadgets)
	gadget := fromYAML(t, "{apiVersion: example.com/v1beta1, kind: Gadget, metadata: {name: g}, spec: {}}")
	if err := s.Validate(gadget); err != nil {
		t.Error(err)
	}
	gadget.SetNamespace("team")
	var invalid *InvalidError
	if err := s.Validate(gadget); !errors.As(err, &invalid) || invalid.Errors[0].Field != "metadata.namespace" {
		t.Errorf("error for a namespace on a cluster-scoped kind is %v", err)
	}
}

func TestValidateUnknownKind(t *testing.T) {
	s := load(t, widgets)
	for name, text := range map[string]string{
		"kind":        "{apiVersion: example.com/v1, kind: Gizmo, metadata: {name: x}}",
		"group":       "{apiVersion: example.org/v1, kind: Widget, metadata: {name: x}}",
		"version":     "{apiVersion: example.com/v2, kind: Widget, metadata: {name: x}}",
		"not served":  "{apiVersion: example.com/v1alpha1, kind: Widget, metadata: {name: x}}",
		"core object": "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}",
	} {
		t.Run(name, func(t *testing.T) {
			if err := s.Validate(fromYAML(t, text)); !errors.Is(err, ErrNoSchema) {
				t.Errorf("error is %v, want ErrNoSchema", err)
			}
		})
	}
	if err := s.Validate(&unstructured.Unstructured{}); !errors.Is(err, ErrNoSchema) {
		t.Errorf("error for an empty object is %v, want ErrNoSchema", err)
	}
}

func TestFieldType(t *testing.T) {
	tests := map[string]struct {
		path string
		want string
		err  error
	}{
		"the object":             {path: "", want: "object"},
		"kind":                   {path: "kind", want: "string"},
		"metadata":               {path: "metadata", want: "object"},
		"into metadata":          {path: "metadata name", err: ErrNotProven},
		"property":               {path: "status phase", want: "string"},
		"integer":                {path: "spec size", want: "integer"},
		"integer or string":      {path: "spec port", want: "int-or-string"},
		"no property":            {path: "status fase", err: ErrNoField},
		"no property half way":   {path: "statsu phase", err: ErrNoField},
		"below a scalar":         {path: "status phase x", err: ErrNoField},
		"array":                  {path: "spec parts", want: "array"},
		"element":                {path: "spec parts []", want: "object"},
		"in an element":          {path: "spec parts [] weight", want: "number"},
		"not in an element":      {path: "spec parts [] wait", err: ErrNoField},
		"array taken for a map":  {path: "spec parts weight", err: ErrNoField},
		"map taken for an array": {path: "spec tags []", err: ErrNoField},
		"key of a map":           {path: "spec tags *", want: "string"},
		"in the value of a map":  {path: "spec groups one members []", want: "string"},
		"not in the value":       {path: "spec groups one member", err: ErrNoField},
		"map of anything":        {path: "spec flags x", err: ErrNotProven},
		"preserved subtree":      {path: "spec free", want: "object"},
		"in it":                  {path: "spec free x", err: ErrNotProven},
		"element in it":          {path: "spec free []", err: ErrNotProven},
		"what it describes":      {path: "spec free known field", want: "string"},
		"embedded kind":          {path: "spec template kind", want: "string"},
		"into embedded metadata": {path: "spec template metadata name", err: ErrNotProven},
		"in an embedded object":  {path: "spec template data", err: ErrNotProven},
	}
	s := load(t, widgets)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := s.FieldType(widget, strings.Fields(tc.path)...)
			if !errors.Is(err, tc.err) || got != tc.want {
				t.Errorf("FieldType is %q, %v; want %q, %v", got, err, tc.want, tc.err)
			}
			if err := s.HasField(widget, strings.Fields(tc.path)...); !errors.Is(err, tc.err) {
				t.Errorf("HasField is %v, want %v", err, tc.err)
			}
		})
	}
	if err := s.HasField(schema.GroupVersionKind{Group: "example.com", Version: "v2", Kind: "Widget"}, "spec"); !errors.Is(err, ErrNoSchema) {
		t.Errorf("error for a version that is not there is %v, want ErrNoSchema", err)
	}
}

func TestLoad(t *testing.T) {
	const old = "apiVersion: apiextensions.k8s.io/v1beta1\nkind: CustomResourceDefinition\nmetadata: {name: x}\n"
	tests := map[string]struct {
		files map[string]string
		want  []string // kinds; nil means an error
	}{
		"one file":                  {files: map[string]string{"a.yaml": widgets}, want: []string{"v1 Widget"}},
		"several, below":            {files: map[string]string{"a.yaml": widgets, "b/c.yml": gadgets}, want: []string{"v1 Widget", "v1beta1 Gadget"}},
		"several documents":         {files: map[string]string{"a.yaml": widgets + "---" + gadgets}, want: []string{"v1 Widget", "v1beta1 Gadget"}},
		"the same twice":            {files: map[string]string{"a.yaml": widgets, "b.yaml": "# copy\n" + widgets}, want: []string{"v1 Widget"}},
		"other files":               {files: map[string]string{"a.yaml": widgets, "b.txt": old}, want: []string{"v1 Widget"}},
		"two different definitions": {files: map[string]string{"a.yaml": widgets, "b.yaml": strings.Replace(widgets, "minimum: 1", "minimum: 2", 1)}},
		"an old definition":         {files: map[string]string{"a.yaml": widgets, "b.yaml": old}},
		"broken YAML":               {files: map[string]string{"a.yaml": widgets, "b.yaml": "kind: CustomResourceDefinition\n\tx"}},
		"no group":                  {files: map[string]string{"a.yaml": strings.Replace(gadgets, "group: example.com,", "", 1)}},
		"nothing":                   {files: map[string]string{"a.yaml": "kind: ConfigMap"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s, err := Load(write(t, tc.files))
			if tc.want == nil {
				if err == nil {
					t.Error("no error")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			gvks, err := s.Kinds()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, gvk := range gvks {
				got = append(got, gvk.Version+" "+gvk.Kind)
			}
			if diff := cmp.Diff(tc.want, got, cmp.Transformer("set", asSet)); diff != "" {
				t.Errorf("kinds (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := Load(filepath.Join(t.TempDir(), "missing.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error for a missing file is %v", err)
	}
}

func asSet(names []string) map[string]bool {
	s := map[string]bool{}
	for _, name := range names {
		s[name] = true
	}
	return s
}

// A schema that an API server refuses proves nothing.
func TestUnusableSchema(t *testing.T) {
	for name, content := range map[string]string{
		"not structural": strings.Replace(gadgets, "spec: {type: object}", "spec: {properties: {x: {type: string}}}", 1),
		"none":           strings.Replace(gadgets, "schema: {openAPIV3Schema: {type: object,\n    properties: {spec: {type: object}}}}", "schema: {}", 1),
	} {
		t.Run(name, func(t *testing.T) {
			if content == gadgets {
				t.Fatal("the definition is the usable one")
			}
			s := load(t, content)
			gadget := fromYAML(t, "{apiVersion: example.com/v1beta1, kind: Gadget, metadata: {name: g}}")
			if err := s.Validate(gadget); err == nil || errors.As(err, new(*InvalidError)) {
				t.Errorf("Validate is %v, want an error about the schema", err)
			}
			if err := s.HasField(gadget.GroupVersionKind(), "spec"); err == nil {
				t.Error("HasField is nil")
			}
		})
	}
}

func TestLoadRepository(t *testing.T) {
	t.Run("both places", func(t *testing.T) {
		s, err := loadRepository(write(t, map[string]string{"test/crds/w.yaml": widgets, "bin/crds/argo/g.yaml": gadgets}))
		if err != nil {
			t.Fatal(err)
		}
		if len(s.kinds) != 2 {
			t.Errorf("%d kinds, want 2", len(s.kinds))
		}
	})
	for name, contents := range map[string]map[string]string{
		"bin/crds missing": {"test/crds/w.yaml": widgets},
		"bin/crds empty":   {"test/crds/w.yaml": widgets, "bin/crds/readme.txt": ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := loadRepository(write(t, contents))
			if err == nil || !strings.Contains(err.Error(), "make k8s") {
				t.Errorf("error %v does not say what to do", err)
			}
		})
	}
}

// Run with -race.
func TestConcurrentUse(t *testing.T) {
	s := load(t, widgets)
	u := object(t, nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := s.Validate(u); err != nil {
				t.Error(err)
			}
			if err := s.HasField(widget, "status", "phase"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// The real definitions can all be used. They are there after `make k8s`.
func TestDefault(t *testing.T) {
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	if copied, _ := files(filepath.Join(root, "bin", "crds")); len(copied) == 0 {
		t.Skip("bin/crds is missing, run `make k8s`")
	}
	s, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	gvks, err := s.Kinds()
	if err != nil {
		t.Fatal(err)
	}
	for _, gvk := range gvks {
		if _, _, err := s.lookup(gvk); err != nil {
			t.Error(err)
		}
	}
}

func BenchmarkValidate(b *testing.B) {
	dir := b.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "w.yaml"), []byte(widgets), 0o644); err != nil {
		b.Fatal(err)
	}
	s, err := Load(dir)
	if err != nil {
		b.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1",
		"kind":       "Widget",
		"metadata":   map[string]any{"name": "w", "namespace": "team"},
		"spec":       map[string]any{"size": int64(1), "color": "red"},
	}}
	for b.Loop() {
		if err := s.Validate(u); err != nil {
			b.Fatal(err)
		}
	}
}

// The schemas of Argo Workflows here are short ones, of what they are used for, and say nothing else than its own.
func TestWorkflowsAreThoseOfArgo(t *testing.T) {
	for short, whole := range map[string]string{"workflow.yaml": "argoproj.io_workflows.yaml", "workflowtemplate.yaml": "argoproj.io_workflowtemplates.yaml"} {
		for _, version := range readCRD(t, short).Spec.Versions {
			theirs := readCRD(t, "../../bin/crds-whole/argo-workflows/"+whole).Spec.Versions
			i := slices.IndexFunc(theirs, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == version.Name })
			if i < 0 {
				t.Fatalf("%s has no version %s", whole, version.Name)
			}
			unlike(*version.Schema.OpenAPIV3Schema, *theirs[i].Schema.OpenAPIV3Schema, short, func(path, how string) { t.Errorf("%s: %s", path, how) })
		}
	}
}

// unlike tells of fields that another schema does not have, or of another type.
func unlike(s, other apiextensionsv1.JSONSchemaProps, path string, tell func(path, how string)) {
	if keeps := other.XPreserveUnknownFields; keeps != nil && *keeps {
		return
	}
	if s.Type != other.Type || s.XIntOrString != other.XIntOrString {
		tell(path, fmt.Sprintf("%q there, and %q here", other.Type, s.Type))
	}
	for name, property := range s.Properties {
		if theirs, ok := other.Properties[name]; ok {
			unlike(property, theirs, path+"."+name, tell)
		} else {
			tell(path+"."+name, "no such field there")
		}
	}
	if s.Items != nil && s.Items.Schema != nil && other.Items != nil {
		unlike(*s.Items.Schema, *other.Items.Schema, path+"[]", tell)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil && other.AdditionalProperties != nil {
		unlike(*s.AdditionalProperties.Schema, *other.AdditionalProperties.Schema, path+"{}", tell)
	}
}

// readCRD reads one from a file.
func readCRD(t *testing.T, file string) *apiextensionsv1.CustomResourceDefinition {
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(content, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

// ourSchemas are those of our kinds.
func ourSchemas(t *testing.T) map[string]apiextensionsv1.JSONSchemaProps {
	files, err := filepath.Glob("../../config/crd/bases/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v: %d files", err, len(files))
	}
	all := map[string]apiextensionsv1.JSONSchemaProps{}
	for _, file := range files {
		crd := readCRD(t, file)
		for _, version := range crd.Spec.Versions {
			all[crd.Spec.Names.Kind+" "+version.Name] = *version.Schema.OpenAPIV3Schema
		}
	}
	return all
}

// Servers before Kubernetes 1.36 do not know the format int32: what is larger is stored, and one object that cannot be read keeps
// all of its kind from the manager.
func TestIntegersHaveMaxima(t *testing.T) {
	for kind, schema := range ourSchemas(t) {
		unbounded(schema.Properties["spec"], "spec", func(path string) { t.Errorf("%s: %s has no maximum", kind, path) })
	}
}

// Nobody but the manager writes a status: who has written which of its fields, which is as long as the status, need not be worked
// out and stored with every one. That is a fifth of what a status costs the API server.
func TestStatusesHaveOneOwner(t *testing.T) {
	for kind, schema := range ourSchemas(t) {
		if how := schema.Properties["status"].XMapType; how == nil || *how != "atomic" {
			t.Errorf("%s: the API server keeps who owns each field of the status; mark the field +structType=atomic", kind)
		}
	}
}

// unbounded tells of integers of 32 bits that can be larger.
func unbounded(s apiextensionsv1.JSONSchemaProps, path string, tell func(path string)) {
	if s.Type == "integer" && s.Format != "int64" && s.Maximum == nil && len(s.Enum) == 0 {
		tell(path)
	}
	for name, property := range s.Properties {
		unbounded(property, path+"."+name, tell)
	}
	if s.Items != nil && s.Items.Schema != nil {
		unbounded(*s.Items.Schema, path+"[]", tell)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		unbounded(*s.AdditionalProperties.Schema, path+"{}", tell)
	}
}
