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

// journal keeps what has passed, so that a sweep can go on where another one ended.
type journal struct {
	programs string // a hash of them
	passed   map[string]bool

	mu      sync.Mutex
	file    *os.File // nil keeps nothing
	skipped int
}

// openJournal reads a file, which need not be there, and goes on with it. What it says is true of
// the same programs only: the manager, and the test with its workloads and oracles.
func openJournal(path string, programs ...string) (*journal, error) {
	j := &journal{passed: map[string]bool{}}
	if path == "" {
		return j, nil
	}
	hash := sha256.New()
	for _, program := range programs {
		if err := addFile(hash, program); err != nil {
			return nil, fmt.Errorf("reading program: %w", err)
		}
	}
	j.programs = fmt.Sprintf("%.8x", hash.Sum(nil))
	var err error
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

func addFile(to io.Writer, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(to, file)
	return err
}

// line is what the journal says of a plan that has passed.
func (j *journal) line(p Plan) string {
	return fmt.Sprintf("%s %s %s %d", j.programs, p.Workload.Name, p.Fault.Mode, p.Fault.K)
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
	if j.file != nil && !v.Failed() {
		_, _ = fmt.Fprintln(j.file, j.line(v.Plan))
	}
}

func (j *journal) close() {
	if j.file != nil {
		_ = j.file.Close()
	}
}
