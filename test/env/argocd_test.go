package env

import (
	"encoding/base64"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestArgoCDDestination(t *testing.T) {
	for want, destination := range map[string]map[string]any{
		"": {"server": "https://kubernetes.default.svc"}, "c1": {"name": "c1"}, "https://203.0.113.7": {"server": "https://203.0.113.7"},
	} {
		app := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"destination": destination}}}
		if got := ArgoCDDestination(app); got != want {
			t.Errorf("of %v it is %q", destination, got)
		}
	}
}

func TestArgoCDKnows(t *testing.T) {
	whole := func() *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"kind": "Secret", "data": map[string]any{}}}
		for key, value := range map[string]string{"name": "c1", "server": "https://203.0.113.7", "config": `{"bearerToken":"x"}`} {
			_ = unstructured.SetNestedField(u.Object, base64.StdEncoding.EncodeToString([]byte(value)), "data", key)
		}
		u.SetLabels(map[string]string{"argocd.argoproj.io/secret-type": "cluster"})
		return u
	}
	if !ArgoCDKnows(whole(), "c1") || ArgoCDCluster(whole()) != "c1" {
		t.Error("it does not know c1")
	}
	if !ArgoCDKnows(whole(), "https://203.0.113.7") || ArgoCDKnows(whole(), "https://203.0.113.8") {
		t.Error("it knows a cluster by its address, and no other")
	}
	if ArgoCDKnows(whole(), "c2") || ArgoCDKnows(&unstructured.Unstructured{Object: map[string]any{}}, "") {
		t.Error("it knows c2, or a cluster without a name")
	}
	for what, spoil := range map[string]func(*unstructured.Unstructured){
		"the name":   func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "data", "name") },
		"the server": func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "data", "server") },
		"the config": func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "data", "config") },
		"the label":  func(u *unstructured.Unstructured) { u.SetLabels(nil) },
	} {
		u := whole()
		if spoil(u); ArgoCDKnows(u, "c1") {
			t.Errorf("it knows c1 without %s", what)
		}
	}
}
