// Package controller sets every reconciler of the manager up.
package controller

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/controller/experiment"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// Options are those of the reconcilers.
type Options struct {
	// Experiment are those of the Experiment reconciler.
	Experiment experiment.Options
}

// Scheme knows the kinds that are read and written as Go types.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("building the scheme: %w", err)
		}
	}
	return scheme, nil
}

// ForeignKinds are the kinds of other systems that may not be installed.
func ForeignKinds() []schema.GroupVersionKind { return experiment.ForeignKinds() }

// CacheByObject is how the kinds that the reconcilers watch are cached: only what carries
// our labels, in the namespaces where it can be, without what is never read.
func CacheByObject(o Options) map[client.Object]cache.ByObject {
	all := map[client.Object]cache.ByObject{
		kube.CRD(): {Transform: kube.StripCRD},
	}
	for object, by := range experiment.CacheByObject(o.Experiment) {
		all[object] = by
	}
	return all
}

// StripManagedFields is the cache's transform for kinds without one of their own.
func StripManagedFields(o any) (any, error) {
	if u, ok := o.(*unstructured.Unstructured); ok {
		unstructured.RemoveNestedField(u.Object, "metadata", "managedFields")
		return u, nil
	}
	return cache.TransformStripManagedFields()(o)
}

// Setup registers every reconciler.
func Setup(ctx context.Context, mgr ctrl.Manager, live client.Client, o Options) error {
	if err := experiment.SetupWithManager(ctx, mgr, live, o.Experiment); err != nil {
		return fmt.Errorf("setting up the Experiment reconciler: %w", err)
	}
	return nil
}
