package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU times in /proc (USER_HZ), the same on every Linux.
const tick = 10 * time.Millisecond

// Process is what /proc tells of a process.
type Process struct {
	PID, Parent int
	// Program is the base name of what it runs, with its first argument for a command that is
	// one of several of a binary.
	Program string
	// CPU is what it has used, user and system.
	CPU time.Duration
	// Reaped is what its children had used that have ended.
	Reaped time.Duration
	// Resident is its resident memory in bytes.
	Resident int64
}

// parseStat reads a line of /proc/<pid>/stat.
func parseStat(line string) (Process, error) {
	open, end := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')') // the name may hold both
	if open < 0 || end < open {
		return Process{}, fmt.Errorf("parsing %q: no name in parentheses", line)
	}
	fields := strings.Fields(line[end+1:])
	if len(fields) < 22 {
		return Process{}, fmt.Errorf("parsing %q: %d fields after the name", line, len(fields))
	}
	var n [22]int64
	for i, field := range fields[:22] {
		n[i], _ = strconv.ParseInt(field, 10, 64) // the first is a letter, the rest numbers
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line[:open]))
	if err != nil {
		return Process{}, fmt.Errorf("parsing %q: %w", line, err)
	}
	return Process{
		PID: pid, Parent: int(n[1]), Program: line[open+1 : end],
		CPU:      time.Duration(n[11]+n[12]) * tick,
		Reaped:   time.Duration(n[13]+n[14]) * tick,
		Resident: n[21] * int64(os.Getpagesize()),
	}, nil
}

// Family is this process and all that it has started.
func Family() ([]Process, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	all := make([]Process, 0, len(paths))
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		p, err := parseStat(string(content))
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	family := descendants(all, os.Getpid())
	for i := range family {
		family[i].Program = program(family[i])
	}
	return family, nil
}

// descendants are a process and those that come of it.
func descendants(all []Process, pid int) []Process {
	var out []Process
	for _, p := range all {
		if p.PID == pid {
			out = append(out, p)
		}
		if p.Parent == pid && p.PID != pid {
			out = append(out, descendants(all, p.PID)...)
		}
	}
	return out
}

// program is a name that tells a process from the others of a family: the kernel cuts its own
// at 15 characters.
func program(p Process) string {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
	if err != nil || len(content) == 0 {
		return p.Program
	}
	args := strings.Split(string(content), "\x00")
	name := filepath.Base(args[0])
	if len(args) > 1 && args[1] != "" && !strings.HasPrefix(args[1], "-") {
		name += " " + args[1]
	}
	return name
}
