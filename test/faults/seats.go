package faults

import "sync"

// crowd is how many times as many plans may be under way as have a seat. Outsides that many plans
// wait for, as the namespace controller, would come too late for all of them.
const crowd = 2

// seats bound how many plans are played at the same time, which is a matter of CPU: a plan in
// which nothing happens for a while gives its seat away until something does.
type seats struct {
	mu   sync.Mutex
	free *sync.Cond
	// limit is how many there are; taken are those that are, and inside are the plans that have
	// one or have given it away.
	limit, taken, inside int
	// door is passed with a seat.
	door *door
}

func newSeats(n int, door *door) *seats {
	s := &seats{limit: max(1, n), door: door}
	s.free = sync.NewCond(&s.mu)
	return s
}

// take waits for a seat, and while another process plays alone.
func (s *seats) take() {
	s.sit()
	s.door.enter()
}

func (s *seats) sit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.taken >= s.limit || s.inside >= crowd*s.limit {
		s.free.Wait()
	}
	s.taken++
	s.inside++
}

// rest gives a seat away for a while.
func (s *seats) rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	s.free.Signal()
}

// retake takes one for a plan that goes on, which cannot wait: its manager does not either. If
// there is none, the next plan begins later instead.
func (s *seats) retake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken++
}

// leave gives a seat back.
func (s *seats) leave() {
	s.door.leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	s.inside--
	s.free.Signal()
}
