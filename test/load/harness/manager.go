package harness

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/labkeeper/labkeeper/test/env"
	"github.com/labkeeper/labkeeper/test/load/machine"
)

// Manager is a manager process.
type Manager struct {
	*env.Process
	PID int
	// Started is when it was told to start.
	Started time.Time
	probes  string
	metrics string
	pprof   string
	// ended says that it was told to end, when its log had the length of logged, and killed by what it was.
	ended, killed bool
	logged        int64
}

// StartManager starts a manager as its ServiceAccount, with leader election and otherwise its
// default flags and those that the subject needs, and returns at once.
func (l *Lab) StartManager() (*Manager, error) {
	addresses := make([]string, 3)
	for i := range addresses {
		var err error
		if addresses[i], err = env.FreeAddress(); err != nil {
			return nil, err
		}
	}
	name := fmt.Sprintf("%s-%d", filepath.Base(l.options.Manager), len(l.managers))
	args := []string{
		"--kubeconfig=" + l.account,
		"--leader-elect", "--leader-election-namespace=" + l.Subject.AccountNamespace,
		"--health-probe-bind-address=" + addresses[0],
		"--metrics-bind-address=" + addresses[1], "--metrics-secure=false",
	}
	args = append(append(args, l.Subject.Args...), l.options.ManagerArgs...)
	m := &Manager{probes: addresses[0], metrics: addresses[1]}
	if l.options.Pprof {
		args = append(args, "--pprof-bind-address="+addresses[2])
		m.pprof = addresses[2]
	}
	m.Started = time.Now()
	var err error
	if m.Process, err = l.StartProcess(name, l.options.Manager, args...); err != nil {
		return nil, err
	}
	l.managers = append(l.managers, m)
	m.PID, err = l.pid(l.options.Manager)
	return m, err
}

// pid is the process id of the newest process of a program.
func (l *Lab) pid(program string) (int, error) {
	family, err := machine.Family()
	if err != nil {
		return 0, err
	}
	newest := 0
	for _, p := range family {
		target, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.PID))
		if p.PID > newest && target == program {
			newest = p.PID
		}
	}
	if newest == 0 {
		return 0, fmt.Errorf("finding the process of %s: it has ended", program)
	}
	return newest, nil
}

// Ready waits until the manager answers.
func (m *Manager) Ready(ctx context.Context) error {
	return wait(ctx, 30*time.Second, func() bool {
		_, err := get(ctx, "http://"+m.probes+"/readyz")
		return err == nil || m.over()
	}, func() string { return "waiting for the manager to be ready" })
}

func (m *Manager) over() bool {
	select {
	case <-m.Exited():
		return true
	default:
		return false
	}
}

// Kill ends the manager as the kernel does when memory is short.
func (m *Manager) Kill() error {
	m.ends()
	m.killed = true
	return syscall.Kill(m.PID, syscall.SIGKILL)
}

// Terminate asks the manager to end.
func (m *Manager) Terminate() error {
	m.ends()
	return syscall.Kill(m.PID, syscall.SIGTERM)
}

// End asks the manager to end, and waits. One that does not end well, however it was asked to, is an error.
func (m *Manager) End() error {
	m.ends()
	if err := m.Stop(); err != nil {
		return err
	}
	<-m.Exited()
	if err := m.Err(); err != nil && !m.killed {
		return fmt.Errorf("asked to end, the manager did not do so well: %w", err)
	}
	return nil
}

func (m *Manager) ends() {
	if info, err := os.Stat(m.Log()); err == nil && !m.ended {
		m.ended, m.logged = true, info.Size()
	}
}

// Memory is the peak of the manager's resident memory, in bytes.
func (m *Manager) Memory() (peak, now float64, err error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.PID))
	if err != nil {
		return 0, 0, fmt.Errorf("reading memory of manager: %w", err)
	}
	read := func(name string) float64 {
		_, rest, _ := strings.Cut(string(content), name+":")
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			return 0
		}
		kb, _ := strconv.ParseFloat(fields[0], 64)
		return kb * 1024
	}
	peak, now = read("VmHWM"), read("VmRSS")
	if peak <= 0 || now <= 0 { // which any limit would let pass
		return 0, 0, errors.New("reading memory of manager: it has none")
	}
	return peak, now, nil
}

// Metrics are what the manager tells of itself.
func (m *Manager) Metrics(ctx context.Context) (Metrics, error) {
	content, err := get(ctx, "http://"+m.metrics+"/metrics")
	if err != nil {
		return nil, fmt.Errorf("reading metrics of manager: %w", err)
	}
	return ParseMetrics(string(content)), nil
}

// Heap is the manager's live heap in bytes: after a collection that it is asked for, or, of a
// manager that has no pprof endpoint, after its last one.
func (m *Manager) Heap(ctx context.Context) (float64, error) {
	if m.pprof != "" {
		if _, err := get(ctx, "http://"+m.pprof+"/debug/pprof/heap?gc=1"); err != nil {
			return 0, fmt.Errorf("asking manager for a collection: %w", err)
		}
		return m.some(ctx, "go_memstats_heap_alloc_bytes")
	}
	next, err := m.some(ctx, "go_memstats_next_gc_bytes")
	return next / 2, err // GOGC is 100
}

// some is a metric that cannot be 0: one that is missing would be, and pass every limit.
func (m *Manager) some(ctx context.Context, name string) (float64, error) {
	metrics, err := m.Metrics(ctx)
	if err != nil {
		return 0, err
	}
	value := metrics.Sum(name)
	if value <= 0 {
		return 0, fmt.Errorf("reading metrics of manager: there is no %s", name)
	}
	return value, nil
}

// Profile takes a CPU profile and writes it to a file.
func (m *Manager) Profile(ctx context.Context, duration time.Duration, path string) error {
	content, err := get(ctx, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", m.pprof, int(duration.Seconds())))
	if err != nil {
		return fmt.Errorf("taking profile of manager: %w", err)
	}
	return os.WriteFile(path, content, 0o644)
}

// errorLine is a line of the log at level error, of the manager's own logger or klog.
var errorLine = regexp.MustCompile(`"level":"(error|dpanic|panic|fatal)"|^[EF]\d{4} |^panic: |^fatal error: `)

// Errors are the errors in the manager's log, up to when it was told to end: calls that are
// cut short then are logged as errors of the Lease.
func (m *Manager) Errors() ([]string, error) {
	file, err := os.Open(m.Log())
	if err != nil {
		return nil, fmt.Errorf("reading log of manager: %w", err)
	}
	defer file.Close()
	if m.ended {
		return errorLines(io.LimitReader(file, m.logged))
	}
	return errorLines(file)
}

func errorLines(r io.Reader) ([]string, error) {
	var found []string
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if errorLine.MatchString(line) {
			found = append(found, strings.TrimSpace(line))
		}
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return found, err
		}
	}
}

// HasFlag says whether a manager has a flag.
func HasFlag(ctx context.Context, binary, flag string) bool {
	usage, _ := command(ctx, "", binary, "--help")
	return slices.Contains(strings.Fields(usage), "-"+flag)
}

func get(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, response.Status)
	}
	return content, err
}
