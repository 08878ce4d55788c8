//go:build mutants

package hibernateplan

import (
	"testing"

	"github.com/labkeeper/labkeeper/test/faults"
)

// TestMutants plants bugs and looks whether the sweep finds them.
func TestMutants(t *testing.T) {
	faults.Mutants(t, faults.Begin(t, installation, world), mutants, workloads...)
}
