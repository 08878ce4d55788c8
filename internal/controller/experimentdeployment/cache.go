package experimentdeployment

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experimentcontroller/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/internal/twin"
)

// builtIn are the kinds that every cluster has.
var builtIn = []schema.GroupVersionKind{twin.Kinds["Deployment"], twin.Kinds["StatefulSet"], serviceGVK, autoscalerGVK, budgetGVK}

// isWorkload says whether a kind is one of twins.
func isWorkload(gvk schema.GroupVersionKind) bool { return twin.Kinds[gvk.Kind] == gvk }

// ForeignKinds are the kinds of other systems that may not be installed.
func ForeignKinds() map[schema.GroupVersionKind]meta.RESTScope {
	return map[schema.GroupVersionKind]meta.RESTScope{
		twin.RolloutGVK: meta.RESTScopeNamespace, scaledObjectGVK: meta.RESTScopeNamespace, verticalGVK: meta.RESTScopeNamespace,
	}
}

// CacheByObject is how the kinds that every cluster has are cached, and ForeignCacheByObject those of other
// systems: whole clusters of them, without what is never read.
func CacheByObject() map[client.Object]cache.ByObject { return stripped(builtIn) }

// ForeignCacheByObject is CacheByObject for the kinds of other systems.
func ForeignCacheByObject() map[client.Object]cache.ByObject {
	return stripped([]schema.GroupVersionKind{twin.RolloutGVK, scaledObjectGVK, verticalGVK})
}

func stripped(kinds []schema.GroupVersionKind) map[client.Object]cache.ByObject {
	all := map[client.Object]cache.ByObject{}
	for _, gvk := range kinds {
		all[kube.Empty(gvk)] = cache.ByObject{Transform: strip}
	}
	return all
}

// strip takes off what is never read: who has written what and, unless it is a twin, the status, but for that of a rollout which was aborted.
func strip(o any) (any, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return o, nil
	}
	u.SetManagedFields(nil)
	if u.GetLabels()[v1alpha1.LabelUID] == "" {
		aborted := twin.Aborted(u)
		if delete(u.Object, "status"); aborted {
			u.Object["status"] = map[string]any{"abort": true}
		}
	}
	return u, nil
}

// ownerOf is the value of indexOwner.
func ownerOf(o client.Object) []string {
	if owner := o.GetAnnotations()[v1alpha1.AnnotationOwner]; owner != "" {
		return []string{owner}
	}
	return nil
}

// workloadOf is the value of indexWorkload.
func workloadOf(o client.Object) []string {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	if ref := referred(u); ref.kind == "Deployment" {
		return []string{ref.name}
	}
	return nil
}

// reference is a workload that a Rollout is made of; the zero value is none.
type reference struct{ kind, name string }

func referred(rollout *unstructured.Unstructured) reference {
	kind, _, _ := unstructured.NestedString(rollout.Object, "spec", "workloadRef", "kind")
	name, _, _ := unstructured.NestedString(rollout.Object, "spec", "workloadRef", "name")
	return reference{kind, name}
}

// served are the kinds of twins that can be read, by kinds of other systems that can be.
func (r *Reconciler) served() []schema.GroupVersionKind {
	all := slices.DeleteFunc(slices.Clone(builtIn), func(gvk schema.GroupVersionKind) bool { return !isWorkload(gvk) })
	if r.Kinds.State(twin.RolloutGVK) == kube.KindServed {
		all = append(all, twin.RolloutGVK)
	}
	return all
}

// reader is where objects of a kind are read from.
func (r *Reconciler) reader(gvk schema.GroupVersionKind) client.Reader {
	if slices.Contains(builtIn, gvk) {
		return r.Client
	}
	return r.Foreign
}
