package crds

import "testing"

// Require is Default for a test, which it ends where the definitions are missing.
func Require(t testing.TB) *Schemas {
	t.Helper()
	s, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	return s
}
