// Package controller sets every reconciler of the manager up.
package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	twins "github.com/labkeeper/labkeeper/api/experimentcontroller/v1alpha1"
	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	hibernator "github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/controller/cloudprovider"
	"github.com/labkeeper/labkeeper/internal/controller/experiment"
	"github.com/labkeeper/labkeeper/internal/controller/experimentdeployment"
	"github.com/labkeeper/labkeeper/internal/controller/hibernateplan"
	"github.com/labkeeper/labkeeper/internal/controller/k8scluster"
	"github.com/labkeeper/labkeeper/internal/executor/executors"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/internal/kube/lean"
)

// Options are those of the reconcilers.
type Options struct {
	// Controllers are the names of those that run, of Controllers; none is all of them.
	Controllers []string
	// Experiment are those of the Experiment reconciler.
	Experiment experiment.Options
	// Twins are those of the ExperimentDeployment reconciler.
	Twins experimentdeployment.Options
	// Hibernation are those of the HibernatePlan reconciler.
	Hibernation hibernateplan.Options
}

// Scheme knows the kinds that are read and written as Go types.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, twins.AddToScheme, hibernator.AddToScheme, kube.AddCRDs} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("building the scheme: %w", err)
		}
	}
	return scheme, nil
}

// CacheOptions are those of the manager's cache, which has our own kinds and those that every
// cluster has, without what is never read.
func CacheOptions(o Options) cache.Options {
	byObject := experimentdeployment.CacheByObject()
	maps.Copy(byObject, hibernateplan.CacheByObject(o.Hibernation))
	byObject[kube.CRD()] = cache.ByObject{Transform: kube.StripCRD}
	return cache.Options{
		// A read through the cache must never begin to watch a kind by accident.
		ReaderFailOnMissingInformer: true,
		DefaultNamespaces:           namespaces(o.Experiment.WatchNamespaces),
		DefaultTransform:            StripManagedFields,
		ByObject:                    byObject,
	}
}

// ForeignCacheOptions are those of the cache of foreign kinds. It is one of its own because
// whoever waits for a cache waits for everything in it, and one of these kinds may never come: the mapper is one of
// kube.Foreign.
func ForeignCacheOptions(o Options, scheme *runtime.Scheme, mapper meta.RESTMapper) cache.Options {
	byObject := experiment.CacheByObject(o.Experiment)
	maps.Copy(byObject, experimentdeployment.ForeignCacheByObject())
	return cache.Options{
		Scheme:                      scheme,
		Mapper:                      mapper,
		ReaderFailOnMissingInformer: true,
		DefaultNamespaces:           namespaces(o.Experiment.WatchNamespaces),
		DefaultTransform:            StripManagedFields,
		ByObject:                    byObject,
	}
}

// beside is a cache that is filled while the manager's own is, and that nobody waits for as a whole.
type beside struct{ cache.Cache }

// GetCache has the manager start it with its own.
func (b beside) GetCache() cache.Cache { return b }

// WaitForCacheSync does not wait: controllers wait for the kinds that they need.
func (beside) WaitForCacheSync(context.Context) bool { return true }

func namespaces(names []string) map[string]cache.Config {
	if len(names) == 0 {
		return nil
	}
	all := make(map[string]cache.Config, len(names))
	for _, name := range names {
		all[name] = cache.Config{}
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

// The names of --controllers: those of the kinds that somebody has a reason to want or not to want.
const (
	// Experiments are acted on with their Components.
	Experiments = "experiments"
	// Twins are ExperimentDeployments.
	Twins = "experimentdeployments"
	// HibernatePlans are acted on with ScheduleExceptions, K8SClusters and CloudProviders.
	HibernatePlans = "hibernateplans"
)

// Controllers are all of them.
var Controllers = []string{Experiments, Twins, HibernatePlans}

// Runs says whether a controller does.
func (o Options) Runs(name string) bool {
	return len(o.Controllers) == 0 || slices.Contains(o.Controllers, name)
}

// Setup registers every reconciler that is to run.
func Setup(ctx context.Context, mgr ctrl.Manager, live client.Client, o Options) error {
	kinds := experiment.ForeignKinds()
	maps.Copy(kinds, experimentdeployment.ForeignKinds())
	mapper := kube.Foreign(mgr.GetRESTMapper(), kinds)
	foreign, err := lean.NewCache(mgr.GetConfig(), ForeignCacheOptions(o, mgr.GetScheme(), mapper))
	if err != nil {
		return fmt.Errorf("building the cache of foreign kinds: %w", err)
	}
	mapper.Configured()
	if err := mgr.Add(beside{foreign}); err != nil {
		return fmt.Errorf("adding the cache of foreign kinds: %w", err)
	}
	if err := metrics.Registry.Register(kube.EventsTold); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	if o.Runs(Experiments) {
		if err := experiment.SetupWithManager(ctx, mgr, foreign, live, o.Experiment); err != nil {
			return fmt.Errorf("setting up the Experiment reconciler: %w", err)
		}
	}
	if o.Runs(Twins) {
		if err := experimentdeployment.SetupWithManager(ctx, mgr, foreign, live, o.Twins); err != nil {
			return fmt.Errorf("setting up the ExperimentDeployment reconciler: %w", err)
		}
	}
	if o.Runs(HibernatePlans) {
		return setupHibernation(ctx, mgr, live, o)
	}
	return nil
}

// setupHibernation registers the reconcilers of HibernatePlans and of what they name.
func setupHibernation(ctx context.Context, mgr ctrl.Manager, live client.Client, o Options) error {
	o.Hibernation.Executors = executors.All()
	if err := hibernateplan.SetupWithManager(ctx, mgr, live, o.Hibernation); err != nil {
		return fmt.Errorf("setting up the HibernatePlan reconciler: %w", err)
	}
	if err := k8scluster.SetupWithManager(mgr, live, k8scluster.Options{Events: o.Hibernation.Events, Clock: o.Hibernation.Clock}); err != nil {
		return fmt.Errorf("setting up the K8SCluster reconciler: %w", err)
	}
	if err := cloudprovider.SetupWithManager(mgr, cloudprovider.Options{Events: o.Hibernation.Events, Clock: o.Hibernation.Clock}); err != nil {
		return fmt.Errorf("setting up the CloudProvider reconciler: %w", err)
	}
	return nil
}
