// Package random makes what is random in tests: the same in every run, so that whoever changes something else is not told of
// what nobody has found before; and with -seed=0 another each time, where that is looked for (make merge-million, make
// privileges).
package random

import (
	"flag"
	"math/rand/v2"
	"testing"
)

// Cases is how many a test looks at.
var Cases = flag.Int("cases", 5_000, "how many random cases a test looks at")

var seed = flag.Uint64("seed", 1, "what random cases are made of; 0 is another each time")

// New makes random numbers, others for each stream. A test that fails says of which seed they are.
func New(t testing.TB, stream uint64) *rand.Rand {
	t.Helper()
	of := *seed
	if of == 0 {
		of = rand.Uint64()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("its cases are those of -seed=%d -cases=%d", of, *Cases)
		}
	})
	return rand.New(rand.NewPCG(of, stream))
}
