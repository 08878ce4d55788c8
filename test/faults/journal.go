package faults

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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
// the same programs only, which are files and folders: the manager, what it is installed with, and the test with its
// workloads and oracles.
func openJournal(path string, programs ...string) (*journal, error) {
	j := &journal{passed: map[string]bool{}}
	if path == "" {
		return j, nil
	}
	hash := sha256.New()
	for _, program := range programs {
		if err := addFiles(hash, program); err != nil {
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

// addFiles adds a file, or those of a folder.
func addFiles(to io.Writer, path string) error {
	return filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		fmt.Fprintf(to, "%d %s", len(content), content)
		return err
	})
}

// line is what the journal says of a plan that has passed.
func (j *journal) line(p Plan) string {
	return fmt.Sprintf("%s %s %s %d", j.programs, p.Workload.Name, p.Fault.Mode, p.Fault.K)
}

// has says whether a plan has passed before, with all of its points, and counts them if so.
func (j *journal) has(p Plan) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	points := p.points()
	if slices.ContainsFunc(points, func(point Plan) bool { return !j.passed[j.line(point)] }) {
		return false
	}
	j.skipped += len(points)
	return true
}

// add keeps the verdict of a plan that has passed. One that has done so by itself only is to be played with the others again.
func (j *journal) add(v Verdict) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file != nil && !v.Failed() && !v.Unplayed && !v.planned.apart {
		_, _ = fmt.Fprintln(j.file, j.line(v.Plan))
	}
}

func (j *journal) close() {
	if j.file != nil {
		_ = j.file.Close()
	}
}
