package kube

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	labelManagedBy = "app.kubernetes.io/managed-by"
	// FieldOwner is the field manager of everything the manager writes.
	FieldOwner = "labkeeper"
)

// Marks are the keys by which the children of one kind of owner are known. Owner references
// are not used: most children live in other namespaces, and foreground deletion would take
// the rest down in no order.
type Marks struct {
	// UID is the label that carries the owner's UID: the proof of ownership.
	UID string
	// Name is the label that carries the owner's name (LabelValue).
	Name string
	// Owner is the annotation that carries the owner as namespace/name.
	Owner string
}

// Set marks the child as the owner's.
func (m Marks) Set(owner, child client.Object) {
	labels := child.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[labelManagedBy] = FieldOwner
	labels[m.UID] = string(owner.GetUID())
	labels[m.Name] = LabelValue(owner.GetName())
	child.SetLabels(labels)

	annotations := child.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[m.Owner] = client.ObjectKeyFromObject(owner).String()
	child.SetAnnotations(annotations)
}

// Owns says whether the child carries the owner's UID.
func (m Marks) Owns(owner, child client.Object) bool {
	uid := child.GetLabels()[m.UID]
	return uid != "" && types.UID(uid) == owner.GetUID()
}

// Selector selects all children of the owner.
func (m Marks) Selector(owner client.Object) client.MatchingLabels {
	return client.MatchingLabels{m.UID: string(owner.GetUID())}
}

// Request is the request of the child's owner; none for an object without the annotation.
func (m Marks) Request(child client.Object) []reconcile.Request {
	namespace, name, ok := strings.Cut(child.GetAnnotations()[m.Owner], "/")
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}}
}

// Owners maps children to their owners in some namespaces; without any, in all. Another manager may look after the
// others, which the cache of this one does not have.
func (m Marks) Owners(namespaces []string) handler.MapFunc {
	return func(_ context.Context, child client.Object) []reconcile.Request {
		return slices.DeleteFunc(m.Request(child), func(r reconcile.Request) bool {
			return len(namespaces) > 0 && !slices.Contains(namespaces, r.Namespace)
		})
	}
}
