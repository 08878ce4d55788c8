package crds

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// Require is Default for a test, which it ends where the definitions are missing.
func Require(t testing.TB) *Schemas {
	t.Helper()
	s, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// RequireObject is the object of a YAML text, which its definition must allow, or the test ends.
func RequireObject(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), u); err != nil {
		t.Fatal(err)
	}
	if err := Require(t).Validate(u); err != nil {
		t.Fatal(err)
	}
	return u
}

// ExpectFields fails the test for every path of a kind that has another type, or none. A path is
// written with dots, [] for the items of an array and * for the values of a map.
func ExpectFields(t testing.TB, gvk schema.GroupVersionKind, types map[string]string) {
	t.Helper()
	for path, want := range types {
		if got, err := Require(t).FieldType(gvk, strings.Split(path, ".")...); err != nil || got != want {
			t.Errorf("%s %s is a %q (%v), want a %s", gvk.Version, path, got, err, want)
		}
	}
}
