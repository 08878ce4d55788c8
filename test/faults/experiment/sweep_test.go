package experiment

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/labkeeper/labkeeper/test/faults"
)

// lab is what all tests share.
var lab *faults.Lab

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	i := installation
	i.Binary = faults.Binary()
	var err error
	if lab, err = faults.Start(context.Background(), i, world); err != nil {
		fmt.Fprintln(os.Stderr, "starting lab:", err)
		return 1
	}
	code := m.Run()
	if err := lab.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping lab:", err)
		return 1
	}
	return code
}

// TestSweep plays what the flags -faults.* ask for; by default a fixed sample.
func TestSweep(t *testing.T) {
	faults.Sweep(t, lab, "./test/faults/experiment", workloads...)
}

// TestMutantsUpToDate looks whether each planted bug can still be planted.
func TestMutantsUpToDate(t *testing.T) { faults.UpToDate(t, mutants) }
