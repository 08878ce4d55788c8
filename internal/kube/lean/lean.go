// Package lean makes caches that take apart once what they are told, and never hold managed fields.
//
// An informer of client-go takes an event of a watch in JSON apart up to eight times: to see where it ends, what it holds,
// whether that is JSON, of which kind, whether it is a list, and what is in it; the first list comes as such events, too. That was
// nine tenths of what a manager did until it had its caches. Managed fields are half of what is sent, each a map of its own, for a
// transform to drop. So these informers read their watches themselves, in one pass that skips managed fields. The requests stay
// those of client-go, with its answers to errors; lists that it falls back to are its own, and lose managed fields afterwards.
//
// What is told in protobuf, and metadata alone, is as client-go has it. Whoever reads live has managed fields.
package lean

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// NewCache is a cache.NewCacheFunc of such caches.
func NewCache(config *rest.Config, o cache.Options) (cache.Cache, error) {
	lean := rest.CopyConfig(config)
	lean.Wrap(func(next http.RoundTripper) http.RoundTripper { return handing{next} })
	client, err := rest.HTTPClientFor(lean)
	if err != nil {
		return nil, fmt.Errorf("building the client of a cache: %w", err)
	}
	o.HTTPClient = client
	inform := o.NewInformer
	if inform == nil {
		inform = toolscache.NewSharedIndexInformer
	}
	o.NewInformer = func(lists toolscache.ListerWatcher, of runtime.Object, resync time.Duration, by toolscache.Indexers) toolscache.SharedIndexInformer {
		if _, ok := of.(*metav1.PartialObjectMetadata); !ok {
			lists = reading{toolscache.ToListerWatcherWithContext(lists), lists, of}
		}
		return inform(lists, of, resync, by)
	}
	return cache.New(config, o)
}

// reading lists and watches objects like of.
type reading struct {
	toolscache.ListerWatcherWithContext
	// without a context, as who made it does.
	toolscache.ListerWatcher
	of runtime.Object
}

// ListWithContext is that of toolscache.ListerWithContext.
func (r reading) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	list, err := r.ListerWatcherWithContext.ListWithContext(ctx, o)
	if err != nil {
		return nil, err
	}
	return list, meta.EachListItem(list, func(item runtime.Object) error {
		object, err := meta.Accessor(item)
		if err == nil {
			object.SetManagedFields(nil)
		}
		return err
	})
}

// WatchWithContext is that of toolscache.WatcherWithContext.
func (r reading) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	var answer handed
	theirs, err := r.ListerWatcherWithContext.WatchWithContext(context.WithValue(ctx, handedKey{}, &answer), o)
	switch {
	case answer.body == nil:
		return theirs, err
	case err != nil:
		_ = answer.body.Close()
		return nil, err
	}
	theirs.Stop()
	report := apierrors.NewClientErrorReporter(http.StatusInternalServerError, http.MethodGet, "ClientWatchDecoding")
	return watch.NewStreamWatcherWithLogger(klog.FromContext(ctx), newEvents(answer.body, r.of), report), nil
}

// handed is where the answer to a request is put by which a watch begins, if it is in JSON.
type handed struct{ body io.ReadCloser }

type handedKey struct{}

// handing hands answers to those who want to read them themselves. For client-go they end at once then.
type handing struct{ next http.RoundTripper }

// RoundTrip is that of http.RoundTripper.
func (h handing) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := h.next.RoundTrip(r)
	to, wanted := r.Context().Value(handedKey{}).(*handed)
	if err != nil || !wanted || response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != runtime.ContentTypeJSON {
		return response, err
	}
	to.body, response.Body = response.Body, http.NoBody
	return response, nil
}

// WrappedRoundTripper is that of net.RoundTripperWrapper.
func (h handing) WrappedRoundTripper() http.RoundTripper { return h.next }
