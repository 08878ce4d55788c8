package experiment

import (
	"maps"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/argoworkflows"
	"github.com/labkeeper/labkeeper/internal/external/arlon"
)

// Of kinds that others have thousands of objects of, the cache has ours alone.
func TestCacheByObject(t *testing.T) {
	for name, test := range map[string]struct {
		options               Options
		claims, flows, argoCD []string
	}{
		"by default":            {Options{ArgoCDNamespace: "argocd", WorkflowNamespace: "argo"}, nil, []string{"argo"}, []string{"argocd"}},
		"claims in a namespace": {Options{ArgoCDNamespace: "argocd", WorkflowNamespace: "argo", ClaimNamespace: "claims"}, []string{"claims"}, []string{"argo"}, []string{"argocd"}},
		"Workflows anywhere":    {Options{ArgoCDNamespace: "argocd", WorkflowNamespace: "argo", WorkflowsAnywhere: true}, nil, []string{cache.AllNamespaces}, []string{"argocd"}},
	} {
		seen := map[string]bool{}
		for object, by := range CacheByObject(test.options) {
			gvk := object.GetObjectKind().GroupVersionKind()
			seen[gvk.Kind] = true
			want, known := map[schema.GroupVersionKind][]string{
				argocd.ApplicationGVK: test.argoCD, argoworkflows.WorkflowGVK: test.flows, argoworkflows.WorkflowTemplateGVK: test.flows,
			}[gvk]
			if !known {
				want = test.claims
			}
			if gvk == arlon.ClusterGVK || gvk == argoworkflows.ClusterWorkflowTemplateGVK {
				want = nil // where the Experiments are, or nowhere
			}
			if slices.Contains(housedKinds(), gvk) {
				want = []string{cache.AllNamespaces}
			}
			if namespaces := slices.Sorted(maps.Keys(by.Namespaces)); !slices.Equal(namespaces, want) {
				t.Errorf("%s: %s are looked for in %q, want %q", name, gvk.Kind, namespaces, want)
			}
			others := []schema.GroupVersionKind{argoworkflows.WorkflowTemplateGVK, argoworkflows.ClusterWorkflowTemplateGVK, arlon.ClusterGVK}
			if !slices.Contains(others, gvk) && !choosesOurs(by.Label) {
				t.Errorf("%s: %s are chosen by %v", name, gvk.Kind, by.Label)
			}
			if stripped := slices.Contains(append(others, argocd.ApplicationGVK, argoworkflows.WorkflowGVK), gvk); stripped != (by.Transform != nil) {
				t.Errorf("%s: %s are stripped: %v", name, gvk.Kind, by.Transform != nil)
			}
		}
		if len(seen) < 5 {
			t.Errorf("%s: kinds are %v", name, seen)
		}
	}
}

// choosesOurs says whether a selector is of what carries our label, and of nothing else.
func choosesOurs(s labels.Selector) bool {
	return s != nil && s.Matches(labels.Set{v1alpha1.LabelExperimentUID: "1-2-3"}) && !s.Matches(labels.Set{"app": "web"})
}
