package kube

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// listed is how often OwnWrites looks whether informers have listed what no event told of. That is in memory.
const listed = 500 * time.Millisecond

// OwnWrites makes clients that read their own writes, and do not wait for what never comes.
//
// Such a client (client.CacheOptions.EnableReadYourWritesConsistency) reads a kind when an event of it was as late as what was
// written. When a watch has broken off, and what was written last is gone by the time that the kind is listed anew, there is
// none: whoever looks for that object would wait until his time is over, again and again, until another object of the kind
// changes. So the client is told how late the lists of its informers were, too.
//
// What it lists is as the cache has it: a list would wait for all that is being written of its kind, so that one write which hangs,
// as by a webhook of others, would hold up whoever lists, and every event for which objects of the kind are looked for.
//
// It makes the client and the informers that the client reads from, and has to be started (manager.Runnable).
type OwnWrites struct {
	mu     sync.Mutex
	caches []ownCache
}

// ownCache is that of a kind, and who waits for it.
type ownCache struct {
	store   toolscache.Store
	waiting ownWaiting
	told    string
}

// NewClient is a client.NewClientFunc.
func (w *OwnWrites) NewClient(config *rest.Config, o client.Options) (client.Client, error) {
	if o.Cache != nil {
		if informers, ok := o.Cache.Reader.(cache.Cache); ok {
			with := *o.Cache
			with.Reader = ownReader{informers}
			o.Cache = &with
		}
	}
	c, err := client.New(config, o)
	if err != nil {
		return nil, fmt.Errorf("building a client that reads its own writes: %w", err)
	}
	return ownClient{c}, nil
}

// ownClient reads its own writes of the objects that it looks for.
type ownClient struct{ client.Client }

// List reads a kind, and waits for no write, unless it is to.
func (c ownClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if !slices.Contains(opts, WithOwnWrites) {
		opts = append(opts, client.DisableReadYourWritesConsistency)
	}
	return c.Client.List(ctx, list, opts...)
}

// WithOwnWrites has a list wait for what is being written of its kind: for who would say something else a moment later.
var WithOwnWrites client.ListOption = withOwnWrites{}

type withOwnWrites struct{}

// ApplyToList is that of client.ListOption.
func (withOwnWrites) ApplyToList(*client.ListOptions) {}

// Start tells until ctx is done.
func (w *OwnWrites) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(context.Context) { w.tell() }, listed)
	return nil
}

// NeedLeaderElection is false: managers that stand by read, too.
func (w *OwnWrites) NeedLeaderElection() bool { return false }

// tell tells of caches what has not been told.
func (w *OwnWrites) tell() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.caches {
		c := &w.caches[i]
		if version := c.store.LastStoreSyncResourceVersion(); version != "" && version != c.told {
			c.told = version
			c.waiting.OnUpdate(nil, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}})
		}
	}
}

// NewInformer makes the informers of the cache that such a client reads from: cache.Options.NewInformer.
func (w *OwnWrites) NewInformer(lists toolscache.ListerWatcher, o runtime.Object, resync time.Duration, by toolscache.Indexers) toolscache.SharedIndexInformer {
	return ownInformer{toolscache.NewSharedIndexInformer(lists, o, resync, by), w}
}

// ownInformer knows who waits for it.
type ownInformer struct {
	toolscache.SharedIndexInformer
	to *OwnWrites
}

// AddEventHandler has who waits told of lists, too.
func (i ownInformer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	registration, err := i.SharedIndexInformer.AddEventHandler(handler)
	if waiting, ok := handler.(ownWaiting); ok && err == nil {
		i.to.mu.Lock()
		defer i.to.mu.Unlock()
		i.to.caches = append(i.to.caches, ownCache{store: i.GetStore(), waiting: waiting})
	}
	return registration, err
}

// ownWaiting marks the handlers by which a client waits.
type ownWaiting struct {
	toolscache.ResourceEventHandler
}

// ownReader is what such a client reads from. The client asks it for informers, and nobody else does.
type ownReader struct{ cache.Cache }

// GetInformer returns the informer of a kind.
func (r ownReader) GetInformer(ctx context.Context, o client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	informer, err := r.Cache.GetInformer(ctx, o, opts...)
	if err != nil {
		return nil, err
	}
	return waitedFor{informer}, nil
}

// waitedFor marks handlers.
type waitedFor struct{ cache.Informer }

// AddEventHandler adds a handler by which a client waits.
func (i waitedFor) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.Informer.AddEventHandler(ownWaiting{handler})
}
