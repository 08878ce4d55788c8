package experimentdeployment

import (
	"testing"

	"github.com/labkeeper/labkeeper/test/faults"
)

// TestSweep plays what the flags -faults.* ask for; by default a fixed sample.
func TestSweep(t *testing.T) {
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
	faults.Sweep(t, lab, "./test/faults/experimentdeployment", workloads...)
}
