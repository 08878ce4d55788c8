package component

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/test/faults"
)

const managerNamespace = "labkeeper-system"

// labelRun is that of a Component with the namespace of its run.
const labelRun = "run"

// installation is what the manager expects of its cluster.
var installation = faults.Installation{
	CRDs:             []string{"config/crd/bases"},
	Namespaces:       []string{"argocd", "argo", "crossplane-system", managerNamespace},
	Manifests:        []string{"config/rbac"},
	AccountNamespace: managerNamespace,
	Account:          "labkeeper-controller-manager",
}

// world is everything around a Component.
var world = faults.World{
	Kinds: []schema.GroupVersionResource{
		v1alpha1.GroupVersion.WithResource("components"),
		v1alpha1.GroupVersion.WithResource("experiments"),
	},
	Run: func(u *unstructured.Unstructured) string {
		if u.GetKind() == "Component" {
			return u.GetLabels()[labelRun]
		}
		return u.GetNamespace()
	},
	Role: func(u *unstructured.Unstructured) string {
		return u.GetKind() + " " + strings.TrimSuffix(u.GetName(), "-"+u.GetLabels()[labelRun])
	},
	Owner:         func(*unstructured.Unstructured) types.UID { return "" },
	Rank:          func(*unstructured.Unstructured) (int, bool) { return 0, true }, // what they say of themselves says of which spec
	Invariants:    map[string]func([]faults.Entry) string{"kept while it is named": kept},
	Play:          func(context.Context, *faults.Stage, faults.State) error { return nil },
	QuietWhenLate: true,
	Sees: func(namespace string) map[schema.GroupResource]url.Values {
		return map[schema.GroupResource]url.Values{
			{Group: v1alpha1.GroupVersion.Group, Resource: "components"}:  {"labelSelector": {labelRun + "=" + namespace}},
			{Group: v1alpha1.GroupVersion.Group, Resource: "experiments"}: {"fieldSelector": {"metadata.namespace=" + namespace}},
		}
	},
	Manager: func(string) []string {
		return []string{"--controllers=experiments", "--orphans-namespace=" + managerNamespace}
	},
}

// kept says which Experiment named a Component that has gone.
func kept(history []faults.Entry) string {
	last := history[len(history)-1]
	if last.Verb != watch.Deleted || last.Object.GetKind() != "Component" {
		return ""
	}
	for _, e := range faults.StateOf(history).Of("Experiment") {
		if slices.Contains(named(e), last.Object.GetName()) {
			return fmt.Sprintf("Component %s has gone, which Experiment %s names", last.Object.GetName(), e.GetName())
		}
	}
	return ""
}

// named are the Components of type app that an Experiment names.
func named(e *unstructured.Unstructured) (out []string) {
	targets, _, _ := unstructured.NestedSlice(e.Object, "spec", "targets")
	for _, t := range targets {
		components, _, _ := unstructured.NestedSlice(t.(map[string]any), "components")
		for _, c := range components {
			app, _, _ := unstructured.NestedString(c.(map[string]any), "app")
			out = append(out, app)
		}
	}
	return out
}
