package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

const (
	// syncGrace is how long the start of a controller waits for the foreign kinds that are
	// installed. One that takes longer (most often the manager may not list it) is left to
	// come later, and only the objects that need it wait.
	syncGrace = 10 * time.Second
	// discoveryInterval is how often the REST mapper is asked for a kind whose CRD has just
	// been established and which discovery does not serve yet.
	discoveryInterval = 200 * time.Millisecond
)

// AddCRDs registers CustomResourceDefinitions. They are read in protobuf: clusters have hundreds, with megabytes of schema.
func AddCRDs(scheme *runtime.Scheme) error {
	return errors.Join(apiextensionsv1.AddToScheme(scheme), apiutil.AddToProtobufScheme(apiextensionsv1.AddToScheme))
}

// CRD is an empty CustomResourceDefinition, to configure the cache by.
func CRD() *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{}
}

// StripCRD is the cache's transform for CustomResourceDefinitions: of their megabytes of
// schema only the names, versions and conditions are ever read.
func StripCRD(o any) (any, error) {
	crd, ok := o.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return o, nil
	}
	for i := range crd.Spec.Versions {
		version := &crd.Spec.Versions[i]
		version.Schema, version.AdditionalPrinterColumns = nil, nil
	}
	crd.Spec.Conversion, crd.ManagedFields, crd.Annotations = nil, nil, nil
	return crd, nil
}

// KindState says whether objects of a foreign kind can be read from the cache.
type KindState int

const (
	// KindMissing: there is no CRD that has the names of the kind, as far as the cache knows.
	KindMissing KindState = iota
	// KindUnserved: there is a CRD of the kind, and it does not serve the version that we
	// know. Objects may exist that we cannot see.
	KindUnserved
	// KindSyncing: the CRD is there, and the cache has not been filled yet. It stays so
	// where the manager may not list the kind.
	KindSyncing
	// KindServed: the cache can be read.
	KindServed
)

// ForeignKind is a kind of another system that a controller reads from the cache.
type ForeignKind struct {
	schema.GroupVersionKind
	// MetadataOnly caches no more than the metadata.
	MetadataOnly bool
	// Handler maps an object to requests.
	Handler handler.EventHandler
	// Indexes of the cache by their names.
	Indexes map[string]client.IndexerFunc
}

// ForeignKinds is a source that starts one watch per foreign kind when its CRD appears, so
// that a kind which is not installed neither stops the manager nor needs a restart later.
type ForeignKinds struct {
	// CRDs is the cache of CustomResourceDefinitions.
	CRDs cache.Cache
	// Cache that the kinds are read from: one of their own, because whoever waits for a cache
	// waits for everything in it.
	Cache cache.Cache
	// Mapper that knows the kinds once they are served.
	Mapper meta.RESTMapper
	// Kinds to watch.
	Kinds []ForeignKind
	// Wake lists the requests to look at again when the state of a kind changes.
	Wake func(context.Context) []reconcile.Request

	mu      sync.Mutex
	states  map[schema.GroupVersionKind]KindState
	started map[schema.GroupVersionKind]bool
	synced  map[schema.GroupVersionKind]bool
	crds    source.SyncingSource
	initial bool
}

var _ source.SyncingSource = &ForeignKinds{}

// State of a kind now.
func (f *ForeignKinds) State(gvk schema.GroupVersionKind) KindState {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.states[gvk]
}

// Start watches the CRDs.
func (f *ForeignKinds) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	f.mu.Lock()
	f.states = map[schema.GroupVersionKind]KindState{}
	f.started = map[schema.GroupVersionKind]bool{}
	f.synced = map[schema.GroupVersionKind]bool{}
	f.initial = true
	f.mu.Unlock()

	f.crds = source.Kind(f.CRDs, client.Object(CRD()), handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			f.observe(ctx, e.Object, q)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			f.observe(ctx, e.ObjectNew, q)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			f.gone(ctx, e.Object, q)
		},
	})
	return f.crds.Start(ctx, queue)
}

// WaitForSync returns when every kind that was installed at the start can be read, so that
// a restart of the manager does not tell anybody that their kinds are missing.
func (f *ForeignKinds) WaitForSync(ctx context.Context) error {
	if err := f.crds.WaitForSync(ctx); err != nil {
		return fmt.Errorf("watching CustomResourceDefinitions: %w", err)
	}
	_ = wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, syncGrace, true, func(context.Context) (bool, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, state := range f.states {
			if state == KindSyncing {
				return false, nil
			}
		}
		return true, nil
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.initial = false
	return nil
}

// observe starts the watches of the kinds that the CRD serves.
func (f *ForeignKinds) observe(ctx context.Context, crd client.Object, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	for _, kind := range f.Kinds {
		if !defines(crd, kind.GroupKind()) {
			continue
		}
		if !serves(crd, kind.Version) {
			f.change(ctx, kind.GroupVersionKind, queue, func(KindState) KindState { return KindUnserved })
			continue
		}
		f.change(ctx, kind.GroupVersionKind, queue, func(state KindState) KindState {
			switch {
			case state >= KindSyncing:
				return state
			case f.synced[kind.GroupVersionKind]: // the watch of before has gone on trying
				return KindServed
			}
			return KindSyncing
		})
		f.mu.Lock()
		start := !f.started[kind.GroupVersionKind]
		f.started[kind.GroupVersionKind] = true
		f.mu.Unlock()
		if start {
			go f.watch(ctx, kind, queue)
		}
	}
}

func (f *ForeignKinds) gone(ctx context.Context, crd client.Object, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	for _, kind := range f.Kinds {
		if defines(crd, kind.GroupKind()) {
			f.change(ctx, kind.GroupVersionKind, queue, func(KindState) KindState { return KindMissing })
		}
	}
}

// watch starts the kind's watch and waits, as long as it takes, for its cache to fill. It
// waits for this kind alone: one that the manager may not list must not hold the others up.
func (f *ForeignKinds) watch(ctx context.Context, kind ForeignKind, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	var informer cache.Informer
	err := wait.PollUntilContextCancel(ctx, discoveryInterval, true, func(context.Context) (bool, error) {
		if _, err := f.Mapper.RESTMapping(kind.GroupKind(), kind.Version); err != nil {
			return false, nil // not served yet
		}
		var err error
		informer, err = f.Cache.GetInformer(ctx, kind.Object(), cache.BlockUntilSynced(false))
		return err == nil, nil
	})
	if err != nil {
		return // the manager stops
	}
	for name, extract := range kind.Indexes {
		if err := f.Cache.IndexField(ctx, kind.Object(), name, extract); err != nil {
			log.FromContext(ctx).Error(err, "Indexing a foreign kind", "kind", kind.String())
			return
		}
	}
	objects := &source.Informer{Informer: informer, Handler: kind.Handler}
	if err := objects.Start(ctx, queue); err != nil {
		log.FromContext(ctx).Error(err, "Watching a foreign kind", "kind", kind.String())
		return
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return // the manager stops
	}
	f.change(ctx, kind.GroupVersionKind, queue, func(state KindState) KindState {
		f.synced[kind.GroupVersionKind] = true
		if state == KindSyncing {
			return KindServed
		}
		return state // the CRD is gone again
	})
}

// change sets a kind's state to what next makes of it, under the lock, and wakes those that
// a change concerns.
func (f *ForeignKinds) change(ctx context.Context, gvk schema.GroupVersionKind, queue workqueue.TypedRateLimitingInterface[reconcile.Request], next func(KindState) KindState) {
	f.mu.Lock()
	before := f.states[gvk]
	f.states[gvk] = next(before)
	wake := f.states[gvk] != before && !f.initial // before that no worker has looked at anything
	f.mu.Unlock()
	if !wake {
		return
	}
	for _, request := range f.Wake(ctx) {
		queue.Add(request)
	}
}

// Object is an empty object of the kind, as it is cached.
func (k ForeignKind) Object() client.Object {
	if k.MetadataOnly {
		return Metadata(k.GroupVersionKind)
	}
	return Empty(k.GroupVersionKind)
}

// Foreign is a mapper for the cache that knows the foreign kinds before they are installed:
// a cache is configured by kind, and must not fail where one of them is missing. What the
// real mapper says comes first.
func Foreign(served meta.RESTMapper, kinds map[schema.GroupVersionKind]meta.RESTScope) meta.RESTMapper {
	guessed := meta.NewDefaultRESTMapper(nil)
	for gvk, scope := range kinds {
		guessed.Add(gvk, scope)
	}
	return meta.FirstHitRESTMapper{MultiRESTMapper: meta.MultiRESTMapper{served, guessed}}
}

func defines(crd client.Object, gk schema.GroupKind) bool {
	c, ok := crd.(*apiextensionsv1.CustomResourceDefinition)
	// Names that another CRD has taken are not accepted.
	return ok && c.Spec.Group == gk.Group && c.Status.AcceptedNames.Kind == gk.Kind
}

func serves(crd client.Object, version string) bool {
	c, ok := crd.(*apiextensionsv1.CustomResourceDefinition)
	return ok && established(c) && slices.ContainsFunc(c.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == version && v.Served
	})
}

func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}

// Empty is an empty object of a kind.
func Empty(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u
}
