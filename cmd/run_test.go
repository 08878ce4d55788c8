package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
)

// filling is a cache that waits for as long as it may, as that of a manager does.
type filling struct{ cache.Cache }

func (filling) WaitForCacheSync(ctx context.Context) bool {
	<-ctx.Done()
	return false
}

func TestReadyWhenCachesAreFilled(t *testing.T) {
	for name, c := range map[string]struct {
		cache cache.Cache
		ready bool
	}{
		"filled":  {&informertest.FakeInformers{Synced: ptr.To(true)}, true},
		"filling": {filling{}, false},
	} {
		err := filled(c.cache)(httptest.NewRequest(http.MethodGet, "/readyz", nil))
		if ready := err == nil; ready != c.ready {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
