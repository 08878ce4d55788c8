// Package testenv starts control planes for tests, and ends them with the test.
package testenv

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/test/env"
)

// Start starts a control plane that ends with the test.
func Start(t testing.TB) *env.ControlPlane {
	t.Helper()
	cp, err := env.Start(t.Context(), env.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(); err != nil {
			t.Error(err)
		}
	})
	return cp
}

// Client is one of an administrator, for objects that are unstructured.
func Client(t testing.TB, cp *env.ControlPlane) client.Client {
	t.Helper()
	c, err := client.New(cp.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
