package experiment

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/argoworkflows"
	"github.com/labkeeper/labkeeper/internal/external/arlon"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// ForeignKinds are the kinds of other systems that may not be installed.
func ForeignKinds() map[schema.GroupVersionKind]meta.RESTScope {
	kinds := map[schema.GroupVersionKind]meta.RESTScope{argoworkflows.ClusterWorkflowTemplateGVK: meta.RESTScopeRoot}
	for _, gvk := range append(clusterKinds(), arlon.ClusterGVK, argocd.ApplicationGVK, argoworkflows.WorkflowGVK, argoworkflows.WorkflowTemplateGVK) {
		kinds[gvk] = meta.RESTScopeNamespace
	}
	return kinds
}

// Ours selects what carries our label.
func Ours() labels.Selector {
	ours, err := labels.NewRequirement(v1alpha1.LabelExperimentUID, selection.Exists, nil)
	if err != nil {
		panic(err) // the label's key is a constant
	}
	return labels.NewSelector().Add(*ours)
}

// CacheByObject is how the foreign kinds are cached: what carries our label, where it can be in one
// namespace alone, there; and of what others have made no more than is read.
func CacheByObject(o Options) map[client.Object]cache.ByObject {
	selector := Ours()
	in := func(namespace string) map[string]cache.Config { return map[string]cache.Config{namespace: {}} }
	child := func(gvk schema.GroupVersionKind, namespaces map[string]cache.Config, strip toolscache.TransformFunc) (client.Object, cache.ByObject) {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(gvk)
		return u, cache.ByObject{Label: selector, Namespaces: namespaces, Transform: strip}
	}
	workflows := in(o.WorkflowNamespace)
	if o.WorkflowsAnywhere {
		workflows = in(cache.AllNamespaces)
	}
	all := map[client.Object]cache.ByObject{
		kube.Empty(argoworkflows.WorkflowTemplateGVK):        {Namespaces: workflows, Transform: argoworkflows.StripTemplate},
		kube.Empty(argoworkflows.ClusterWorkflowTemplateGVK): {Transform: argoworkflows.StripTemplate},
		kube.Empty(arlon.ClusterGVK):                         {Transform: arlon.StripCluster}, // where the Experiments are
	}
	for _, gvk := range clusterKinds() {
		var namespaces map[string]cache.Config // nil is where the Experiments are
		switch {
		case slices.Contains(housedKinds(), gvk):
			namespaces = in(cache.AllNamespaces)
		case o.ClaimNamespace != "":
			namespaces = in(o.ClaimNamespace)
		}
		object, by := child(gvk, namespaces, nil)
		all[object] = by
	}
	for _, c := range []struct {
		gvk        schema.GroupVersionKind
		namespaces map[string]cache.Config
		strip      toolscache.TransformFunc
	}{
		{argocd.ApplicationGVK, in(o.ArgoCDNamespace), argocd.StripApplication},
		{argoworkflows.WorkflowGVK, workflows, argoworkflows.Strip},
	} {
		object, by := child(c.gvk, c.namespaces, c.strip)
		all[object] = by
	}
	return all
}
