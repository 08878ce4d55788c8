package machine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Pace tells how fast the machine was, and when: again and again it does the same work, the
// unit, and notes the CPU time that it took.
//
// A CPU-millisecond of a shared machine is no fixed amount of work, because neighbours take
// caches, memory bandwidth and clock speed without taking any time that the kernel could see.
// The same software then costs more CPU-milliseconds now than it did a minute ago, which looks
// like a property of what was measured in between. Figures of different times are therefore
// compared by what they cost in units of the pace at their time.
type Pace struct {
	end  chan struct{}
	over sync.WaitGroup

	mu      sync.Mutex
	samples []paceSample // by time
}

// paceSample is the CPU time that the unit took at a time.
type paceSample struct {
	at   time.Time
	took time.Duration
}

// pacePeriod is the time between two samples. A unit of some 3 ms makes that about 1 % of a core.
const pacePeriod = 250 * time.Millisecond

// StartPace begins to take samples. When it returns there is one.
func StartPace() *Pace {
	p := &Pace{end: make(chan struct{})}
	started := make(chan struct{})
	p.over.Go(func() { p.run(started) })
	<-started
	return p
}

// Stop ends it. What was sampled stays.
func (p *Pace) Stop() {
	close(p.end)
	p.over.Wait()
}

// run has a thread of its own, as the kernel counts CPU time by thread.
func (p *Pace) run(started chan<- struct{}) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	u := newUnit()
	u.do() // the first touches the memory
	ticker := time.NewTicker(pacePeriod)
	defer ticker.Stop()
	for {
		p.sample(u)
		if started != nil {
			close(started)
			started = nil
		}
		select {
		case <-ticker.C:
		case <-p.end:
			return
		}
	}
}

func (p *Pace) sample(u *unit) {
	before := threadCPU()
	u.do()
	s := paceSample{took: threadCPU() - before, at: time.Now()}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.samples = append(p.samples, s)
}

// Between is the CPU time of a unit, in milliseconds, between two moments: the mean of the
// middle half of the samples, so that one that was interrupted does not count. If there is no
// sample between them, it is the last one before.
func (p *Pace) Between(from, to time.Time) float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	after := func(s paceSample, t time.Time) int { return s.at.Compare(t) }
	first, _ := slices.BinarySearchFunc(p.samples, from, after)
	end, _ := slices.BinarySearchFunc(p.samples, to, after)
	if first == end {
		first = max(0, first-1)
		end = first + 1
	}
	var took []time.Duration
	for _, s := range p.samples[first:end] {
		took = append(took, s.took)
	}
	return float64(middle(took)) / float64(time.Millisecond)
}

// middle is the mean of the middle half.
func middle(d []time.Duration) time.Duration {
	slices.Sort(d)
	quarter := len(d) / 4
	d = d[quarter : len(d)-quarter]
	var sum time.Duration
	for _, v := range d {
		sum += v
	}
	return sum / time.Duration(len(d))
}

// unit is work like that of a control plane, which reads JSON and follows pointers through a
// heap that no cache holds; about half of the time goes to each. It allocates nothing.
type unit struct {
	text    []byte
	compact bytes.Buffer
	// next has in each cell that is used the index of another; together they are one ring.
	next []uint32
	at   uint32
}

const (
	unitTexts = 30
	unitReads = 6000
	ringBytes = 32 << 20
	cacheLine = 64
	lineCells = cacheLine / 4
)

func newUnit() *unit {
	u := &unit{text: unitText(), next: make([]uint32, ringBytes/4)}
	u.compact.Grow(len(u.text))
	order := rand.New(rand.NewPCG(1, 1)).Perm(ringBytes / cacheLine)
	for i, line := range order {
		u.next[line*lineCells] = uint32(order[(i+1)%len(order)] * lineCells)
	}
	return u
}

// unitText is a list of objects as long as a short list of a control plane.
func unitText() []byte {
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, `, {"kind": "Object", "metadata": {"name": "object-%d", "labels": {"app": "a", "part": "b"}, "generation": %d}, `+
			`"spec": {"targets": [{"name": "one", "replicas": 3, "params": {"a": "1", "b": true}}]}, "status": {"phase": "Running", "message": "\"ready\""}}`, i, i)
	}
	return []byte("[" + b.String()[1:] + "]")
}

func (u *unit) do() {
	for range unitTexts {
		u.compact.Reset()
		_ = json.Compact(&u.compact, u.text) // it is valid
	}
	for range unitReads {
		u.at = u.next[u.at]
	}
}

// threadCPU is the CPU time of this thread. Unlike what getrusage tells it is up to now, not to
// the last tick.
func threadCPU() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(fmt.Sprintf("reading CPU time of a thread: %v", err)) // every Linux has it
	}
	return time.Duration(t.Nano())
}
