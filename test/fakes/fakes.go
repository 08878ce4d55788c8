// Package fakes makes the fake clients of unit tests, of which there are thousands.
package fakes

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// converters are those that a fake client makes for itself by default, which takes longer than all else of it.
var converters = sync.OnceValue(func() []managedfields.TypeConverter {
	s := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(s); err != nil {
		panic(err)
	}
	return []managedfields.TypeConverter{applyconfigurations.NewTypeConverter(s), managedfields.NewDeducedTypeConverter()}
})

// NewClientBuilder is that of controller-runtime, with the same converters for all. Its client goes through all kinds of
// its scheme at every write, so that one with few is cheaper.
func NewClientBuilder() *fake.ClientBuilder {
	return fake.NewClientBuilder().WithTypeConverters(converters()...)
}

// BeingWritten is a client while a write of every object of a kind hangs: who looks for such an object, and is to read its own writes, is
// answered nothing in time.
func BeingWritten[T client.Object](c client.Client) client.Client { return beingWritten[T]{c} }

type beingWritten[T client.Object] struct{ client.Client }

// Get is that of client.Client.
func (c beingWritten[T]) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if _, of := o.(T); of && !(&client.GetOptions{}).ApplyOptions(opts).DisableReadYourWritesConsistency {
		return fmt.Errorf("%s is being written: %w", key, context.DeadlineExceeded)
	}
	return c.Client.Get(ctx, key, o, opts...)
}
