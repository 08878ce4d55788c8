package faults

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/labkeeper/labkeeper/test/env"
)

// stopLimit is how long one has that is asked to end: it lets go of its passes after twenty seconds itself, and says so.
const stopLimit = 30 * time.Second

// clockVariable names the file that a manager built with the tag faults reads the time from.
const clockVariable = "LABKEEPER_FAULTS_CLOCK"

// manager is the manager of one run. One that exits is started again, as a Deployment does.
type manager struct {
	lab         *Lab
	name        string
	environment []string
	args        []string
	// starts is told when a process is about to start that need wait for no other.
	starts func()
	// unanswered says that a write waits for the end of the API server: who is asked to end then cannot do so well.
	unanswered func() bool
	// process is nil until there is one; shot is that which a fault has killed last. Who is to be killed does not wait for who holds mu.
	process, shot atomic.Pointer[env.Process]

	mu      sync.Mutex
	probes  string
	killed  bool // the next exit is ours
	stopped bool // for good
	away    bool // until the workload wants it back
	// exits are those that nobody asked for.
	exits int
	// last is what it said before the last of them.
	last string
	// still is a process that stands still, or did.
	still *env.Process
	// end is how a process ended that was asked to, and not well.
	end error
}

// startManager starts a manager that finds the API server at an address.
func (l *Lab) startManager(namespace, server string, mode Mode, starts func(), args ...string) (*manager, error) {
	m := &manager{lab: l, name: "manager-" + namespace, starts: starts}
	if err := m.lookAt(server); err != nil {
		return nil, err
	}
	if err := m.setClock(l.epoch); err != nil {
		return nil, err
	}
	m.environment = []string{clockVariable + "=" + m.file("clock")}
	if (Fault{Mode: mode}).travels() {
		// A list can be put back in time, an initial stream of events cannot.
		m.environment = append(m.environment, "KUBE_FEATURE_WatchListClient=false")
	}
	m.args = append([]string{
		"--kubeconfig=" + m.file("kubeconfig"), fmt.Sprintf("--leader-elect=%t", mode == Halted), "--max-concurrent-reconciles=1", "--metrics-bind-address=0",
	}, append(l.world.Manager(namespace), args...)...)
	for i, arg := range m.args {
		m.args[i] = strings.ReplaceAll(arg, RunNamespace, namespace)
	}
	if mode == Halted {
		m.args = append(m.args, "--leader-election-namespace="+leaseNamespace)
	}
	return m, m.start()
}

// lookAt has the next process find the API server at an address.
func (m *manager) lookAt(server string) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["proxy"] = &clientcmdapi.Cluster{Server: server}
	config.Contexts["proxy"] = &clientcmdapi.Context{Cluster: "proxy"}
	config.CurrentContext = "proxy"
	if err := clientcmd.WriteToFile(*config, m.file("kubeconfig")); err != nil {
		return fmt.Errorf("writing kubeconfig: %w", err)
	}
	return nil
}

// file is the path of one of the manager's files.
func (m *manager) file(kind string) string { return filepath.Join(m.lab.Dir(), m.name+"."+kind) }

// setClock sets the clock of the manager, which stands still otherwise.
func (m *manager) setClock(now time.Time) error {
	// It is read at any time, so it must never be there in part.
	name := m.file("clock")
	if err := os.WriteFile(name+".new", []byte(now.Format(time.RFC3339Nano)), 0o644); err != nil {
		return fmt.Errorf("setting clock of manager: %w", err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		return fmt.Errorf("setting clock of manager: %w", err)
	}
	return nil
}

// start starts the process.
func (m *manager) start() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.launch()
}

// launch is start for who holds mu.
func (m *manager) launch() error {
	if m.stopped || m.away || m.running() {
		return nil
	}
	probes, err := env.FreeAddress()
	if err != nil {
		return fmt.Errorf("starting manager: %w", err)
	}
	m.starts()
	// env(1) becomes the manager.
	args := slices.Concat(m.environment, []string{m.lab.binary, "--health-probe-bind-address=" + probes}, m.args)
	process, err := m.lab.StartProcess(m.name, "/usr/bin/env", args...)
	if err != nil {
		return err
	}
	m.process.Store(process)
	m.probes = probes
	go m.watch(process)
	return nil
}

// watch starts the manager again when it exits.
func (m *manager) watch(process *env.Process) {
	<-process.Exited()
	m.mu.Lock()
	if process == m.still { // which is to end, and another is there
		m.mu.Unlock()
		return
	}
	// Between choosing a port and listening on it, somebody else may take it.
	if tail := process.Tail(3); !m.killed && process != m.shot.Load() && !m.stopped && !m.away && !strings.Contains(tail, "address already in use") {
		m.exits++
		m.last = tail
	}
	m.killed = false
	m.mu.Unlock()
	if m.start() != nil {
		m.exited("it could not be started")
	}
}

// exited notes that there is no manager where there should be one.
func (m *manager) exited(why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.exits++
	m.last = why
}

// comeBack starts the manager that was away.
func (m *manager) comeBack() error {
	m.mu.Lock()
	m.away = false
	m.mu.Unlock()
	return m.start()
}

// kill ends the manager as the kernel does when memory is short, and returns when it is gone.
func (m *manager) kill() {
	process := m.process.Load()
	m.shot.Store(process)
	_ = process.Kill()
	<-process.Exited()
}

// halt has the manager stand still, and starts another that finds the API server at an address.
func (m *manager) halt(server string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	process := m.process.Load()
	if err := errors.Join(process.Halt(), m.lookAt(server)); err != nil {
		return err
	}
	m.still = process
	m.process.Store(nil)
	return m.launch()
}

// resume has it go on, and returns when it has ended: it must see that another has taken its place.
func (m *manager) resume() error {
	m.mu.Lock()
	process := m.still
	m.mu.Unlock()
	if err := process.Continue(); err != nil {
		return err
	}
	select {
	case <-process.Exited():
		return nil
	case <-time.After(startLimit):
	}
	m.exited("another had taken its place, and it did not end")
	return process.Kill()
}

// restart ends the manager, does something while there is none, and returns when there is
// another one that is ready.
func (m *manager) restart(ctx context.Context, between func() error) error {
	process, err := m.begun(ctx, nil)
	if err != nil {
		return err
	}
	m.killed = true
	// Until it is unlocked, nobody starts it again.
	err = errors.Join(m.ask(process), between())
	m.mu.Unlock()
	if err != nil {
		return err
	}
	if _, err = m.begun(ctx, process); err == nil {
		m.mu.Unlock()
	}
	return err
}

// begun waits for another process than one that was before to be ready, and returns it with mu locked: one that is asked to end before it
// has what it begins with ends with an error, as it may.
func (m *manager) begun(ctx context.Context, before *env.Process) (*env.Process, error) {
	for {
		if process := m.process.Load(); process != before && m.ready(ctx) {
			if m.mu.Lock(); process == m.process.Load() {
				return process, nil
			}
			m.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(poll):
		}
	}
}

// stop asks the manager to end, for good, and returns when it has.
func (m *manager) stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopped = true
	if m.still != nil {
		_ = m.still.Kill() // it has ended, or its run has not come that far
		<-m.still.Exited()
	}
	if process := m.process.Load(); process != nil {
		if err := m.ask(process); err != nil {
			m.end = err
		}
	}
}

// ask asks a process to end, returns when it has, and keeps how that was, if it was not well. Who holds mu calls it.
func (m *manager) ask(process *env.Process) error {
	select {
	case <-process.Exited():
		return nil // by itself, or killed
	default:
	}
	end, excused := func() error { return process.StopWithin(stopLimit) }, m.unanswered != nil && m.unanswered()
	if excused {
		end = process.Stop // whoever waits for the end of the API server may wait for us
	}
	if err := end(); err != nil {
		return err
	}
	<-process.Exited()
	// One that a fault kills gets no answer to what it waits for, and one that has only just been started may not listen for the
	// signal yet.
	if how := process.Err(); how != nil && m.end == nil && !excused && process != m.shot.Load() && !endedBy(how, syscall.SIGTERM) {
		m.end = how
	}
	return nil
}

// endedBy says whether a process was ended by a signal.
func endedBy(how error, signal syscall.Signal) bool {
	var exit *exec.ExitError
	if !errors.As(how, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == signal
}

var (
	callArguments = regexp.MustCompile(`\([^()]*\)$`)
	inGoroutine   = regexp.MustCompile(` in goroutine \d+$`)
	waiting       = regexp.MustCompile(`\.(Start|RunWithContext)$`)
)

// trace ends the manager, for good, and says what those of its goroutines did that are the project's, and how many did so.
func (m *manager) trace() (out []string) {
	m.mu.Lock()
	m.stopped = true
	m.mu.Unlock()
	process := m.process.Load()
	if process == nil || process.Abort() != nil {
		return nil
	}
	<-process.Exited()
	log, _ := m.log()
	times := map[string]int{}
	for _, goroutine := range strings.Split(log, "\n\n") {
		header, frames, ok := strings.Cut(goroutine, "\n")
		if !ok || !strings.HasPrefix(header, "goroutine ") {
			continue
		}
		var calls []string
		ours := false
		for line := range strings.Lines(frames) {
			if strings.HasPrefix(line, "\t") {
				continue // where in its file
			}
			call := callArguments.ReplaceAllString(strings.TrimSpace(line), "")
			calls = append(calls, path.Base(call))
			// Many wait all the time, as informers.
			ours = ours || strings.Contains(call, "labkeeper/internal/") && !waiting.MatchString(call)
		}
		if ours {
			_, state, _ := strings.Cut(header, "[")
			times["["+state+" "+inGoroutine.ReplaceAllString(strings.Join(calls, " < "), "")]++
		}
	}
	for _, does := range slices.Sorted(maps.Keys(times)) {
		out = append(out, fmt.Sprintf("%d goroutines %s", times[does], does))
	}
	return out
}

// forget removes what the manager needed.
func (m *manager) forget() {
	for _, kind := range []string{"kubeconfig", "clock", "log"} {
		_ = os.Remove(m.file(kind))
	}
}

// ready says whether the manager answers.
func (m *manager) ready(ctx context.Context) bool { return m.asked(ctx, "/readyz") == nil }

// errAway is why a manager is not ready that is not there.
var errAway = errors.New("there is none")

// waits is why the manager is not ready: one check at a time says it.
func (m *manager) waits(ctx context.Context) error {
	return errors.Join(m.asked(ctx, "/readyz/controllers"), m.asked(ctx, "/readyz/clock"))
}

// asked is nil, or how the manager answers a probe.
func (m *manager) asked(ctx context.Context, probe string) error {
	m.mu.Lock()
	process, probes := m.process.Load(), m.probes
	m.mu.Unlock()
	if process == nil {
		return errAway
	}
	select {
	case <-process.Exited():
		return errAway
	default:
	}
	return env.Asked(ctx, "http://"+probes+probe)
}

// tail is what the last process has said last.
func (m *manager) tail(lines int) string {
	process := m.process.Load()
	if process == nil {
		return ""
	}
	return process.Tail(lines)
}

// log is everything that the manager has said, in all its lives.
func (m *manager) log() (string, error) {
	log, err := os.ReadFile(m.file("log"))
	if err != nil {
		return "", fmt.Errorf("reading log of manager: %w", err)
	}
	return string(log), nil
}

// running says whether there is a process; the lock is held.
func (m *manager) running() bool {
	process := m.process.Load()
	if process == nil {
		return false
	}
	select {
	case <-process.Exited():
		return false
	default:
		return true
	}
}

// StopManager ends the manager, by SIGKILL or, when it has what it begins with, as a Deployment does, and returns when it is
// gone. It stays so until StartManager.
func (s *Stage) StopManager(ctx context.Context, kill bool) error {
	m, end := s.manager, (*env.Process).Kill
	if kill {
		s.proxy.rest()
		m.mu.Lock()
	} else if _, err := m.begun(ctx, nil); err != nil {
		return fmt.Errorf("stopping manager: %w", err)
	} else {
		end = m.ask
		s.proxy.rest()
	}
	defer m.mu.Unlock()
	m.away = true
	m.killed = m.killed || m.running()
	process := m.process.Load()
	if err := end(process); err != nil {
		return fmt.Errorf("stopping manager: %w", err)
	}
	<-process.Exited()
	return nil
}

// StartManager starts the manager that StopManager has ended, and returns when it has
// nothing left to ask for. When the API server is about to end, the manager is started after
// that: without one it would exit.
func (s *Stage) StartManager(ctx context.Context) error {
	m := s.manager
	if s.proxy.awaitsOutage() {
		go func() {
			<-s.proxy.plan.restart.up
			if m.comeBack() != nil {
				m.exited("it could not be started")
			}
		}()
		return nil
	}
	if err := m.comeBack(); err != nil {
		return err
	}
	// One that has come to the write at which the API server ends waits for that, and the end of
	// the API server for those who hold the gate: for us.
	for !s.proxy.awaitsOutage() && (!s.proxy.idle(idle) || !m.ready(ctx)) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("starting manager: %w", ctx.Err())
		case <-time.After(poll):
		}
	}
	return nil
}
