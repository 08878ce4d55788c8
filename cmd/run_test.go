package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	"github.com/labkeeper/labkeeper/internal/controller"
)

// filling is a cache that waits for as long as it may, as that of a manager does.
type filling struct{ cache.Cache }

func (filling) WaitForCacheSync(ctx context.Context) bool {
	<-ctx.Done()
	return false
}

func TestReadyWhenCachesAreFilled(t *testing.T) {
	scheme, err := controller.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	kinds := controller.Options{}.Kinds()
	// unfilled is a cache in which some kinds are not there yet.
	unfilled := func(kinds ...client.Object) *informertest.FakeInformers {
		f := &informertest.FakeInformers{Scheme: scheme, Synced: ptr.To(true), InformersByGVK: map[schema.GroupVersionKind]toolscache.SharedIndexInformer{}}
		for _, kind := range kinds {
			gvk, err := apiutil.GVKForObject(kind, scheme)
			if err != nil {
				t.Fatal(err)
			}
			f.InformersByGVK[gvk] = controllertest.NewFakeInformer()
		}
		return f
	}
	for name, c := range map[string]struct {
		cache cache.Cache
		ready bool
	}{
		"filled":               {unfilled(), true},
		"one is not":           {unfilled(kinds[0]), false},
		"one of others is not": {filling{unfilled()}, false},
	} {
		err := filled(c.cache, kinds)(httptest.NewRequest(http.MethodGet, "/readyz", nil))
		if ready := err == nil; ready != c.ready {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
