package faults

import "sync"

// seats bound how many plans are played at the same time, which is a matter of CPU: a plan in
// which nothing happens for a while gives its seat away until something does.
type seats struct {
	mu           sync.Mutex
	free         *sync.Cond
	taken, limit int
}

func newSeats(n int) *seats {
	s := &seats{limit: max(1, n)}
	s.free = sync.NewCond(&s.mu)
	return s
}

// take waits for a seat.
func (s *seats) take() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.taken >= s.limit {
		s.free.Wait()
	}
	s.taken++
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
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	s.free.Signal()
}
