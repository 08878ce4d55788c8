package kube

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Get reads an object of a kind that is not in the scheme. An object that is not there is
// nil, without an error.
func Get(ctx context.Context, c client.Reader, gvk schema.GroupVersionKind, key types.NamespacedName, opts ...client.GetOption) (*unstructured.Unstructured, error) {
	u := Empty(gvk)
	if err := Find(ctx, c, key, u, opts...); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil, nil
		}
		return nil, fmt.Errorf("reading %s %s: %w", gvk.Kind, key, err)
	}
	return u, nil
}

// Find reads an object. A name that no object can have, such as none or one with a slash in it, is NotFound: a client does not
// even ask for it, and says so with an error that would never pass.
func Find(ctx context.Context, c client.Reader, key types.NamespacedName, o client.Object, opts ...client.GetOption) error {
	if key.Name == "" || len(content.IsPathSegmentName(key.Name))+len(content.IsPathSegmentName(key.Namespace)) > 0 {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	return c.Get(ctx, key, o, opts...)
}

// List reads the objects of a kind that is not in the scheme.
func List(ctx context.Context, c client.Reader, gvk schema.GroupVersionKind, opts ...client.ListOption) ([]unstructured.Unstructured, error) {
	items, _, err := ListAt(ctx, c, gvk, opts...)
	return items, err
}

// ListAt is List with the resource version that the list is of.
func ListAt(
	ctx context.Context, c client.Reader, gvk schema.GroupVersionKind, opts ...client.ListOption,
) (items []unstructured.Unstructured, version string, err error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err := c.List(ctx, list, opts...); err != nil {
		return nil, "", fmt.Errorf("listing %s objects: %w", gvk.Kind, err)
	}
	return list.Items, list.GetResourceVersion(), nil
}

// Metadata is an empty object of a kind of which only the metadata is read.
func Metadata(gvk schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(gvk)
	return m
}

// Current is a conflict unless the server has an object as it was looked at. A cache may be behind, above all that of a
// manager that has just started: an object that it still has may be gone, edited, or on its way down.
func Current(ctx context.Context, live client.Reader, gvk schema.GroupVersionKind, o client.Object) error {
	now := Metadata(gvk)
	err := live.Get(ctx, client.ObjectKeyFromObject(o), now)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading %s: %w", gvk.Kind, err)
	}
	if err == nil && now.UID == o.GetUID() && now.ResourceVersion == o.GetResourceVersion() {
		return nil
	}
	was := Metadata(gvk)
	was.SetName(o.GetName())
	return Stale(was, "it was deleted or changed, which the cache has not seen yet")
}

// Still is a conflict unless the server has an object that was seen, of the same UID, and nobody has asked it to go: for what is
// another's, and rested on.
func Still(ctx context.Context, live client.Reader, seen *unstructured.Unstructured) error {
	now := Metadata(seen.GroupVersionKind())
	err := live.Get(ctx, client.ObjectKeyFromObject(seen), now)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading %s: %w", Describe(seen), err)
	}
	if err == nil && now.UID == seen.GetUID() && now.DeletionTimestamp == nil {
		return nil
	}
	return fmt.Errorf("confirming %s: %w", Describe(seen), Stale(seen, "it is not what the cache has"))
}
