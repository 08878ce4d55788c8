package kube

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// asked is a server that something was asked of.
type asked struct{ client.Reader }

var errAsked = errors.New("it was asked")

func (asked) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errAsked
}

// What no object can be called is not there: a client refuses to ask for it, each time anew, and nobody would get past that.
func TestFind(t *testing.T) {
	for key, there := range map[types.NamespacedName]bool{
		{Namespace: "shop", Name: "web"}:            true,
		{Name: "web.v1"}:                            true,
		{Namespace: "shop", Name: "system:a"}:       true,
		{Namespace: "shop", Name: "deployment/web"}: false,
		{Namespace: "shop/web", Name: "web"}:        false,
		{Namespace: "shop", Name: "100%"}:           false,
		{Namespace: "shop"}:                         false,
		{Namespace: "shop", Name: ".."}:             false,
		{Namespace: "..", Name: "web"}:              false,
	} {
		if err := Find(t.Context(), asked{}, key, &corev1.ConfigMap{}); errors.Is(err, errAsked) != there || apierrors.IsNotFound(err) == there {
			t.Errorf("%s: %v", key, err)
		}
		if got, err := Get(t.Context(), asked{}, corev1.SchemeGroupVersion.WithKind("ConfigMap"), key); got != nil || (err != nil) != there {
			t.Errorf("%s: %v, %v", key, got, err)
		}
	}
}
