package faults

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/labkeeper/labkeeper/test/load/machine"
)

// cost is what plans have cost, added up.
type cost struct {
	mu    sync.Mutex
	plans int
	// prepare is until the manager has nothing left to ask for, play until the end of the
	// workload, of which still is without a seat, and rest the quiet and the end of the manager.
	prepare, play, still, rest time.Duration
}

func (c *cost) add(prepare, play, still, rest time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plans++
	c.prepare, c.play, c.still, c.rest = c.prepare+prepare, c.play+play, c.still+still, c.rest+rest
}

// print prints what a plan cost on average.
func (c *cost) print(to io.Writer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := time.Duration(max(1, c.plans))
	fmt.Fprintf(to, "%d runs, each with %s to prepare, %s to play, %s of it still, %s quiet and end\n", c.plans, (c.prepare / n).Round(time.Millisecond),
		(c.play / n).Round(time.Millisecond), (c.still / n).Round(time.Millisecond), (c.rest / n).Round(time.Millisecond))
}

// spent is the CPU time of this process or of its children that have ended.
func spent(who int) time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(who, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Round(100 * time.Millisecond)
}

// printCPU prints the CPU time of the harness and of its children, and the memory of those that
// live.
func printCPU(to io.Writer) {
	fmt.Fprintf(to, "CPU: %s of the harness, %s of children that have ended", spent(syscall.RUSAGE_SELF), spent(syscall.RUSAGE_CHILDREN))
	living := children()
	for _, name := range slices.Sorted(maps.Keys(living)) {
		fmt.Fprintf(to, ", %s", living[name])
	}
	fmt.Fprintln(to)
}

// children are the living children by name, with what they have used; none where there is no /proc.
func children() map[string]string {
	out := map[string]string{}
	family, err := machine.Family()
	if err != nil {
		return out
	}
	for _, p := range family {
		if p.Parent == os.Getpid() {
			out[p.Program] = fmt.Sprintf("%s of %s (%d MiB)", p.CPU, p.Program, p.Resident>>20)
		}
	}
	return out
}
