package machine

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Busy is what the CPUs of the machine have done, all together.
type Busy struct {
	// Work is user, nice, system and interrupt time, whoever's.
	Work time.Duration
	// Steal is what the hypervisor gave to others.
	Steal time.Duration
}

// parseBusy reads /proc/stat.
func parseBusy(content string) (Busy, error) {
	line, _, _ := strings.Cut(content, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return Busy{}, fmt.Errorf("parsing /proc/stat: %q", line)
	}
	var n [8]time.Duration // user nice system idle iowait irq softirq steal
	for i := range n {
		v, err := strconv.ParseInt(fields[i+1], 10, 64)
		if err != nil {
			return Busy{}, fmt.Errorf("parsing /proc/stat: %w", err)
		}
		n[i] = time.Duration(v) * tick
	}
	return Busy{Work: n[0] + n[1] + n[2] + n[5] + n[6], Steal: n[7]}, nil
}

// Snapshot is what has been used up to a moment.
type Snapshot struct {
	Time   time.Time
	Busy   Busy
	Family []Process
}

// Look takes a snapshot.
func Look() (Snapshot, error) {
	content, err := os.ReadFile("/proc/stat")
	if err != nil {
		return Snapshot{}, err
	}
	s := Snapshot{Time: time.Now()}
	if s.Busy, err = parseBusy(string(content)); err != nil {
		return s, err
	}
	s.Family, err = Family()
	return s, err
}

// Usage is what was used between two snapshots.
type Usage struct {
	Wall time.Duration
	// Ours is the CPU of this process and all that it started, those that ended included.
	Ours time.Duration
	// Foreign is everybody else's.
	Foreign time.Duration
	Steal   time.Duration
	// Programs is Ours by program. What ended in between is not in it.
	Programs map[string]time.Duration
}

// Since is the usage since an earlier snapshot.
func (s Snapshot) Since(before Snapshot) Usage {
	u := Usage{Wall: s.Time.Sub(before.Time), Steal: s.Busy.Steal - before.Busy.Steal, Programs: map[string]time.Duration{}}
	had := map[int]Process{}
	for _, p := range before.Family {
		had[p.PID] = p
		u.Ours -= p.CPU + p.Reaped
	}
	for _, p := range s.Family {
		u.Ours += p.CPU + p.Reaped
		u.Programs[p.Program] += p.CPU - had[p.PID].CPU
	}
	u.Foreign = max(0, s.Busy.Work-before.Busy.Work-u.Ours)
	return u
}

// ForeignShare is the foreign part of all CPU time that there was.
func (u Usage) ForeignShare(cores int) float64 {
	if u.Wall <= 0 {
		return 0
	}
	return float64(u.Foreign) / float64(u.Wall) / float64(cores)
}

// Utilisation is our part of it.
func (u Usage) Utilisation(cores int) float64 {
	if u.Wall <= 0 {
		return 0
	}
	return float64(u.Ours) / float64(u.Wall) / float64(cores)
}
