package component

import (
	"testing"

	"github.com/labkeeper/labkeeper/test/faults"
)

// TestSweep plays what the flags -faults.* ask for; by default a fixed sample.
func TestSweep(t *testing.T) {
	faults.Sweep(t, start(t), "./test/faults/component", workloads...)
}

// start starts a lab that ends with the test.
func start(t *testing.T) *faults.Lab {
	t.Helper()
	i := installation
	i.Binary = faults.Binary()
	lab, err := faults.Start(t.Context(), i, world)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Stop(); err != nil {
			t.Error(err)
		}
	})
	return lab
}

// TestMutantsUpToDate looks whether each planted bug can still be planted.
func TestMutantsUpToDate(t *testing.T) { faults.UpToDate(t, mutants) }
