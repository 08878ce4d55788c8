package kube_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/internal/kube"
)

// shelf is an API server with ConfigMaps whose watches break off without a word: only lists tell what has changed.
type shelf struct {
	mu      sync.Mutex
	version string
	items   []corev1.ConfigMap
	watch   *watch.FakeWatcher
	// hangs, where there is one, takes a word of each write, which is answered when it takes another.
	hangs chan struct{}
}

func (s *shelf) list(context.Context, metav1.ListOptions) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: s.version}, Items: append([]corev1.ConfigMap(nil), s.items...)}, nil
}

func (s *shelf) watching(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.ResourceVersion != s.version {
		return nil, apierrors.NewResourceExpired("too old")
	}
	s.watch = watch.NewFake()
	return s.watch, nil
}

// IsWatchListSemanticsUnSupported has informers list.
func (s *shelf) IsWatchListSemanticsUnSupported() bool { return true }

// set has the shelf hold something else, and breaks the watch off.
func (s *shelf) set(version string, items ...corev1.ConfigMap) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version, s.items = version, items
	if s.watch != nil {
		s.watch.Stop()
	}
}

// RoundTrip answers any write with version 7 of the object.
func (s *shelf) RoundTrip(*http.Request) (*http.Response, error) {
	if s.hangs != nil {
		s.hangs <- struct{}{}
		s.hangs <- struct{}{}
	}
	written := corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: held("7").ObjectMeta}
	body, err := json.Marshal(written)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)),
	}, nil
}

// client makes a client of the shelf, with a cache of some namespaces, that reads its own writes.
func (s *shelf) client(t *testing.T, namespaces map[string]cache.Config) client.Client {
	t.Helper()
	own := &kube.OwnWrites{}
	lists := toolscache.ToListWatcherWithWatchListSemantics(
		&toolscache.ListWatch{ListWithContextFunc: s.list, WatchFuncWithContext: s.watching}, s)
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"ConfigMap", "ConfigMapList"} { // a cache of one namespace looks for the list
		mapper.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	config := &rest.Config{Host: "http://nobody.example"}
	informers, err := cache.New(config, cache.Options{
		HTTPClient: &http.Client{Transport: s}, Scheme: clientgoscheme.Scheme, Mapper: mapper,
		NewInformer: func(_ toolscache.ListerWatcher, o runtime.Object, resync time.Duration, by toolscache.Indexers) toolscache.SharedIndexInformer {
			return own.NewInformer(lists, o, resync, by)
		},
		DefaultNamespaces: namespaces,
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := own.NewClient(config, client.Options{
		HTTPClient: &http.Client{Transport: s}, Scheme: clientgoscheme.Scheme, Mapper: mapper,
		Cache: &client.CacheOptions{Reader: informers, EnableReadYourWritesConsistency: ptr.To(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = informers.Start(t.Context()) }()
	go func() { _ = own.Start(t.Context()) }()
	if !informers.WaitForCacheSync(t.Context()) {
		t.Fatal("the cache does not start")
	}
	return c
}

func held(version string) corev1.ConfigMap {
	return corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "last", UID: "u", ResourceVersion: version}}
}

// What was written last is gone when the kind is listed again, of which no event is as late as the write.
func TestOwnWritesThatNoEventTellsOf(t *testing.T) {
	for name, of := range map[string]struct {
		before     []corev1.ConfigMap
		namespaces map[string]cache.Config
	}{
		"the cache had it":                   {before: []corev1.ConfigMap{held("5")}},
		"the cache never had it":             {},
		"the cache is that of one namespace": {[]corev1.ConfigMap{held("5")}, map[string]cache.Config{"lab": {}}},
	} {
		t.Run(name, func(t *testing.T) {
			server := &shelf{version: "5", items: of.before}
			c := server.client(t, of.namespaces)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if err := c.List(ctx, &corev1.ConfigMapList{}); err != nil {
				t.Fatal(err)
			}
			written := held("5")
			if err := c.Patch(t.Context(), &written, client.RawPatch("application/merge-patch+json", []byte(`{}`))); err != nil {
				t.Fatal(err)
			}
			early, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer stop()
			if err := c.Get(early, client.ObjectKeyFromObject(&written), &corev1.ConfigMap{}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("read before the cache was as late as the write: %v", err)
			}
			server.set("9")

			if err := c.Get(ctx, client.ObjectKeyFromObject(&written), &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
				t.Errorf("Get() = %v, want that it is not there", err)
			}
		})
	}
}

// A write that hangs, as by a webhook of others, holds up who looks for that object, and who lists the kind only where
// he is to see it.
func TestOwnWriteThatHangs(t *testing.T) {
	server := &shelf{version: "5", items: []corev1.ConfigMap{held("5")}, hangs: make(chan struct{})}
	c := server.client(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	written, answered := held("5"), make(chan error, 1)
	go func() {
		answered <- c.Patch(ctx, &written, client.RawPatch("application/merge-patch+json", []byte(`{}`)))
	}()
	<-server.hangs
	early, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if err := c.Get(early, client.ObjectKey{Namespace: "lab", Name: "last"}, &corev1.ConfigMap{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("read before it was written: %v", err)
	}
	list := &corev1.ConfigMapList{}
	if err := c.List(ctx, list); err != nil || len(list.Items) != 1 {
		t.Errorf("List() = %v, %v, want the object and no error", list.Items, err)
	}
	early, stop = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if err := c.List(early, list, kube.WithOwnWrites); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("listed before it was written, by who is to see that: %v", err)
	}
	<-server.hangs
	if err := <-answered; err != nil {
		t.Error(err)
	}
}
