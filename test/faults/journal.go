package faults

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// journal keeps what has passed, so that a sweep can go on where another one ended. What it says
// is true of one manager only.
type journal struct {
	manager string // the hash of its binary
	passed  map[string]bool

	mu      sync.Mutex
	file    *os.File // nil keeps nothing
	skipped int
}

// openJournal reads a file, which need not be there, and goes on with it.
func openJournal(path, binary string) (*journal, error) {
	j := &journal{passed: map[string]bool{}}
	if path == "" {
		return j, nil
	}
	program, err := os.Open(binary)
	if err != nil {
		return nil, fmt.Errorf("reading manager: %w", err)
	}
	defer program.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, program); err != nil {
		return nil, fmt.Errorf("reading manager: %w", err)
	}
	j.manager = fmt.Sprintf("%.8x", hash.Sum(nil))
	if j.file, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644); err != nil {
		return nil, fmt.Errorf("opening record of plans: %w", err)
	}
	lines := bufio.NewScanner(j.file)
	for lines.Scan() {
		j.passed[lines.Text()] = true
	}
	if err := lines.Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("reading record of plans: %w", err), j.file.Close())
	}
	return j, nil
}

// line is what the journal says of a plan that has passed.
func (j *journal) line(p Plan) string {
	return fmt.Sprintf("%s %s %s %d", j.manager, p.Workload.Name, p.Fault.Mode, p.Fault.K)
}

// has says whether a plan has passed before, and counts it if so.
func (j *journal) has(p Plan) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	passed := j.passed[j.line(p)]
	if passed {
		j.skipped++
	}
	return passed
}

// add keeps the verdict of a plan that has passed.
func (j *journal) add(v Verdict) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file != nil && len(v.Findings) == 0 {
		_, _ = fmt.Fprintln(j.file, j.line(v.Plan))
	}
}

func (j *journal) close() {
	if j.file != nil {
		_ = j.file.Close()
	}
}
