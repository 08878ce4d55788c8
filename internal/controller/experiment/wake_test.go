package experiment

import (
	"context"
	"errors"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/labkeeper/labkeeper/test/fakes"
)

// That Experiments cannot be listed is an error, but where the manager is asked to stop while it waits for its cache.
func TestNobodyIsWokenAtTheEnd(t *testing.T) {
	unlisted := interceptor.NewClient(fakes.NewClientBuilder().Build(), interceptor.Funcs{
		List: func(ctx context.Context, _ client.WithWatch, _ client.ObjectList, _ ...client.ListOption) error {
			return errors.Join(errors.New("waiting for cache"), ctx.Err())
		},
	})
	for _, ends := range []bool{false, true} {
		lines := 0
		ctx, end := context.WithCancel(logr.NewContext(t.Context(), funcr.New(func(string, string) { lines++ }, funcr.Options{})))
		if ends {
			end()
		}
		if requests := find(ctx, unlisted); len(requests) > 0 || (lines == 0) != ends {
			t.Errorf("the end: %t: it wakes %v, and logs %d lines", ends, requests, lines)
		}
		end()
	}
}
