package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
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
	// fresh is how long before the manager asked what is served a CRD must have been written, or it is read at the start
	// whatever that said: discovery hears of a CRD a moment later, and the rest is for clocks that are not the same.
	fresh = 30 * time.Second
	// discoveryInterval is how often the REST mapper is asked for a kind whose CRD has just
	// been established and which discovery does not serve yet.
	discoveryInterval = 200 * time.Millisecond
)

// began is when the process did: what is served was asked after that, and may not be asked again.
var began = time.Now() //nolint:forbidigo // it is compared with the times of the API server

// AddCRDs registers CustomResourceDefinitions. They are read in protobuf: one may have megabytes of schema.
func AddCRDs(scheme *runtime.Scheme) error {
	return errors.Join(apiextensionsv1.AddToScheme(scheme), apiutil.AddToProtobufScheme(apiextensionsv1.AddToScheme))
}

// CRD is an empty CustomResourceDefinition, to configure the cache by. Clusters have hundreds, with megabytes of schema
// each: what is watched is their metadata.
func CRD() *metav1.PartialObjectMetadata {
	return Metadata(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
}

// StripCRD is the cache's transform for the metadata of CustomResourceDefinitions, of which no more is read than the name
// and when it was written last. kubectl keeps a whole CRD in an annotation of it.
func StripCRD(o any) (any, error) {
	crd, ok := o.(*metav1.PartialObjectMetadata)
	if !ok {
		return o, nil
	}
	crd.ManagedFields = []metav1.ManagedFieldsEntry{{Time: new(written(crd))}}
	crd.Annotations, crd.Labels = nil, nil
	return crd, nil
}

// written is when an object was written last, as far as its managed fields tell: otherwise now.
func written(o client.Object) metav1.Time {
	last := metav1.Time{}
	for _, entry := range o.GetManagedFields() {
		if entry.Time != nil && last.Before(entry.Time) {
			last = *entry.Time
		}
	}
	if last.IsZero() {
		return metav1.Now()
	}
	return last
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
	// Live reads a CRD: each one of the groups of Kinds that changes, and at the start those that discovery does not
	// explain.
	Live client.Reader
	// Cache that the kinds are read from: one of their own, because whoever waits for a cache
	// waits for everything in it.
	Cache cache.Cache
	// Mapper that knows the kinds once they are served.
	Mapper meta.RESTMapper
	// Kinds to watch.
	Kinds []ForeignKind
	// Wake lists the requests to look at again when the state of a kind changes.
	Wake func(context.Context) []reconcile.Request

	changed workqueue.TypedRateLimitingInterface[string] // names of CRDs to read

	mu      sync.Mutex
	states  map[schema.GroupVersionKind]KindState
	started map[schema.GroupVersionKind]bool
	synced  map[schema.GroupVersionKind]bool
	defined map[string]schema.GroupKind      // by the names of the CRDs
	unread  map[string]int                   // how often CRDs have changed since they were read
	awaited map[schema.GroupVersionKind]bool // kinds that may come, as somebody has been told
	crds    source.SyncingSource
	initial bool
}

// definition is what a CRD defines.
type definition struct {
	kind   schema.GroupKind
	served []string // versions
}

var _ source.SyncingSource = &ForeignKinds{}

// State of a kind now.
func (f *ForeignKinds) State(gvk schema.GroupVersionKind) KindState {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mayCome(gvk) {
		f.awaited[gvk] = true
		return KindSyncing
	}
	return f.states[gvk]
}

// mayCome says of a kind, under the lock, whether there is a new CRD of its group that has not been read: it is not missing
// before that.
func (f *ForeignKinds) mayCome(gvk schema.GroupVersionKind) bool {
	if f.states[gvk] != KindMissing {
		return false
	}
	for name := range f.unread {
		if _, known := f.defined[name]; !known && groupOf(name) == gvk.Group {
			return true
		}
	}
	return false
}

// groupOf is the group that a CRD is of, by its name.
func groupOf(crd string) string {
	_, group, _ := strings.Cut(crd, ".")
	return group
}

// Start watches the CRDs.
func (f *ForeignKinds) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	f.mu.Lock()
	f.states = map[schema.GroupVersionKind]KindState{}
	f.started = map[schema.GroupVersionKind]bool{}
	f.synced = map[schema.GroupVersionKind]bool{}
	f.defined = map[string]schema.GroupKind{}
	f.unread = map[string]int{}
	f.awaited = map[schema.GroupVersionKind]bool{}
	f.initial = true
	f.mu.Unlock()
	f.changed = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry))

	f.crds = source.Kind(f.CRDs, client.Object(CRD()), f.handler(ctx))
	context.AfterFunc(ctx, f.changed.ShutDown)
	go f.read(ctx, queue)
	return f.crds.Start(ctx, queue)
}

// Ahead begins to fill the caches of the kinds that are served, which nobody waits for: beside the manager's own, and not when
// those are full and the CRDs have told of the kinds. A kind that is not served yet is left to its CRD.
func (f *ForeignKinds) Ahead(ctx context.Context) error {
	for _, kind := range f.Kinds {
		if _, err := f.Mapper.RESTMapping(kind.GroupKind(), kind.Version); err != nil {
			continue
		}
		if _, err := f.Cache.GetInformer(ctx, Empty(kind.GroupVersionKind), cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watching %s: %w", kind, err)
		}
	}
	return nil
}

// handler of CRDs, whose watches end with the source's.
func (f *ForeignKinds) handler(ctx context.Context) handler.Funcs {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if e.IsInInitialList && began.Sub(written(e.Object).Time) > fresh {
				if d, known := f.discovered(e.Object.GetName()); known {
					f.define(ctx, e.Object.GetName(), d, 0, q)
					return
				}
			}
			f.change(e.Object.GetName())
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			f.change(e.ObjectNew.GetName())
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			f.change(e.Object.GetName())
		},
	}
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
		return !slices.ContainsFunc(f.Kinds, func(k ForeignKind) bool {
			return f.states[k.GroupVersionKind] == KindSyncing || f.mayCome(k.GroupVersionKind)
		}), nil
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.initial = false
	return nil
}

// discovered is what a CRD defines by what the manager knows from its start, when it asked for everything that is served.
func (f *ForeignKinds) discovered(crd string) (definition, bool) {
	if !f.concerns(crd) {
		return definition{}, false
	}
	plural, group, _ := strings.Cut(crd, ".")
	kinds, err := f.Mapper.KindsFor(schema.GroupVersionResource{Group: group, Resource: plural})
	if err != nil || len(kinds) == 0 {
		return definition{}, false // it may serve nothing, or not be served yet
	}
	d := definition{kind: kinds[0].GroupKind()}
	for _, kind := range kinds {
		d.served = append(d.served, kind.Version)
	}
	return d, true
}

// concerns says whether a CRD may define one of the kinds.
func (f *ForeignKinds) concerns(crd string) bool {
	return slices.ContainsFunc(f.Kinds, func(k ForeignKind) bool { return k.Group == groupOf(crd) })
}

// change has a CRD read.
func (f *ForeignKinds) change(crd string) {
	if !f.concerns(crd) {
		return
	}
	f.mu.Lock()
	f.unread[crd]++
	f.mu.Unlock()
	f.changed.Add(crd)
}

// read reads the CRDs that change, until the manager stops.
func (f *ForeignKinds) read(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	for {
		name, stopped := f.changed.Get()
		if stopped {
			return
		}
		if err := f.look(ctx, name, queue); err != nil {
			log.FromContext(ctx).Error(err, "Reading a CustomResourceDefinition, which is tried again", "crd", name)
			f.changed.AddRateLimited(name)
		} else {
			f.changed.Forget(name)
		}
		f.changed.Done(name)
	}
}

// look reads a CRD.
func (f *ForeignKinds) look(ctx context.Context, name string, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	f.mu.Lock()
	changes := f.unread[name]
	f.mu.Unlock()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := f.Live.Get(ctx, types.NamespacedName{Name: name}, crd); client.IgnoreNotFound(err) != nil {
		return err
	}
	f.define(ctx, name, defines(crd), changes, queue)
	return nil
}

// define starts the watches of the kinds that a CRD serves, as it has been read after some changes. One that is gone
// defines nothing.
func (f *ForeignKinds) define(ctx context.Context, name string, d definition, changes int, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	var begin []ForeignKind
	f.set(ctx, queue, func() {
		if f.unread[name] == changes { // otherwise it is read once more
			delete(f.unread, name)
		}
		before := f.defined[name]
		if f.defined[name] = d.kind; d.kind.Empty() {
			delete(f.defined, name)
		}
		defined := slices.Collect(maps.Values(f.defined)) // before may be another's by now
		for _, kind := range f.Kinds {
			switch gvk := kind.GroupVersionKind; {
			case gvk.GroupKind() == d.kind:
				f.states[gvk] = f.next(gvk, d.served)
				if f.states[gvk] != KindUnserved && !f.started[gvk] {
					f.started[gvk] = true
					begin = append(begin, kind)
				}
			case gvk.GroupKind() == before && !slices.Contains(defined, before):
				f.states[gvk] = KindMissing
			}
		}
	})
	for _, kind := range begin {
		go f.watch(ctx, kind, queue)
	}
}

// next is the state of a kind whose CRD serves some versions, under the lock.
func (f *ForeignKinds) next(gvk schema.GroupVersionKind, served []string) KindState {
	switch state := f.states[gvk]; {
	case !slices.Contains(served, gvk.Version):
		return KindUnserved
	case state >= KindSyncing:
		return state
	case f.synced[gvk]: // the watch of before has gone on trying
		return KindServed
	}
	return KindSyncing
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
		informer, err = f.Cache.GetInformer(ctx, Empty(kind.GroupVersionKind), cache.BlockUntilSynced(false))
		return err == nil, nil
	})
	if err != nil {
		return // the manager stops
	}
	for name, extract := range kind.Indexes {
		if err := f.Cache.IndexField(ctx, Empty(kind.GroupVersionKind), name, extract); err != nil {
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
	f.set(ctx, queue, func() {
		f.synced[kind.GroupVersionKind] = true
		if f.states[kind.GroupVersionKind] == KindSyncing { // otherwise the CRD is gone again
			f.states[kind.GroupVersionKind] = KindServed
		}
	})
}

// set makes a change under the lock, and wakes those whom it concerns if the state of a kind is another then than they have
// been told.
func (f *ForeignKinds) set(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request], change func()) {
	f.mu.Lock()
	before := maps.Clone(f.states)
	change()
	changed := !maps.Equal(before, f.states)
	for gvk := range f.awaited {
		if !f.mayCome(gvk) {
			delete(f.awaited, gvk)
			changed = true
		}
	}
	wake := changed && !f.initial // before that no worker has looked at anything
	f.mu.Unlock()
	if !wake {
		return
	}
	for _, request := range f.Wake(ctx) {
		queue.Add(request)
	}
}

// ForeignMapper is a mapper for the cache that knows the foreign kinds before they are installed: a cache is configured by
// kind, and must not fail where one of them is missing.
type ForeignMapper struct {
	meta.FirstHitRESTMapper
	guessed    meta.RESTMapper
	configured atomic.Bool
}

// Foreign knows of the kinds what the real mapper says, or else their scopes.
func Foreign(served meta.RESTMapper, kinds map[schema.GroupVersionKind]meta.RESTScope) *ForeignMapper {
	guessed := meta.NewDefaultRESTMapper(nil)
	for gvk, scope := range kinds {
		guessed.Add(gvk, scope)
	}
	return &ForeignMapper{
		FirstHitRESTMapper: meta.FirstHitRESTMapper{MultiRESTMapper: meta.MultiRESTMapper{served, guessed}}, guessed: guessed,
	}
}

// Configured says that the cache has been made, which needs the scopes alone. Before, nothing is asked that is known: for
// each kind that is missing the real mapper asks the API server, and is built anew.
func (m *ForeignMapper) Configured() { m.configured.Store(true) }

// RESTMapping of a kind.
func (m *ForeignMapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if !m.configured.Load() {
		if mapping, err := m.guessed.RESTMapping(gk, versions...); err == nil {
			return mapping, nil
		}
	}
	return m.FirstHitRESTMapper.RESTMapping(gk, versions...)
}

// defines is what a CRD defines. Names that another CRD has taken are not accepted, and one that is not established serves
// nothing.
func defines(crd *apiextensionsv1.CustomResourceDefinition) definition {
	if crd.Status.AcceptedNames.Kind == "" {
		return definition{}
	}
	d := definition{kind: schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Status.AcceptedNames.Kind}}
	for _, version := range crd.Spec.Versions {
		if version.Served && established(crd) {
			d.served = append(d.served, version.Name)
		}
	}
	return d
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
