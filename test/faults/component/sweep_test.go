package component

import (
	"testing"

	"github.com/labkeeper/labkeeper/test/faults"
)

// TestSweep plays what the flags -faults.* ask for; by default a fixed sample.
func TestSweep(t *testing.T) {
	faults.Sweep(t, faults.Begin(t, installation, world), "./test/faults/component", workloads...)
}

// TestMutantsUpToDate looks whether each planted bug can still be planted.
func TestMutantsUpToDate(t *testing.T) { faults.UpToDate(t, mutants) }
