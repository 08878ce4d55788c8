package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/labkeeper/labkeeper/test/env"
)

// clockVariable names the file that a manager built with the tag faults reads the time from.
const clockVariable = "LABKEEPER_FAULTS_CLOCK"

// manager is the manager of one run. One that exits is started again, as a Deployment does.
type manager struct {
	lab         *Lab
	name        string
	environment []string
	args        []string

	mu      sync.Mutex
	process *env.Process
	probes  string
	killed  bool // the next exit is ours
	stopped bool // for good
	away    bool // until the workload wants it back
	// exits are those that nobody asked for.
	exits int
	// last is what it said before the last of them.
	last string
	// end is how the last process ended when it was asked to.
	end error
}

// startManager starts a manager that finds the API server at an address.
func (l *Lab) startManager(namespace, server string, mode Mode, args ...string) (*manager, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters["proxy"] = &clientcmdapi.Cluster{Server: server}
	config.Contexts["proxy"] = &clientcmdapi.Context{Cluster: "proxy"}
	config.CurrentContext = "proxy"
	m := &manager{lab: l, name: "manager-" + namespace}
	if err := clientcmd.WriteToFile(*config, m.file("kubeconfig")); err != nil {
		return nil, fmt.Errorf("writing kubeconfig: %w", err)
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
		"--kubeconfig=" + m.file("kubeconfig"), "--leader-elect=false", "--max-concurrent-reconciles=1", "--metrics-bind-address=0",
	}, append(l.world.Manager(namespace), args...)...)
	return m, m.start()
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
	if m.stopped || m.away || m.running() {
		return nil
	}
	probes, err := env.FreeAddress()
	if err != nil {
		return fmt.Errorf("starting manager: %w", err)
	}
	// env(1) becomes the manager.
	args := slices.Concat(m.environment, []string{m.lab.binary, "--health-probe-bind-address=" + probes}, m.args)
	process, err := m.lab.StartProcess(m.name, "/usr/bin/env", args...)
	if err != nil {
		return err
	}
	m.process, m.probes = process, probes
	go m.watch(process)
	return nil
}

// watch starts the manager again when it exits.
func (m *manager) watch(process *env.Process) {
	<-process.Exited()
	m.mu.Lock()
	// Between choosing a port and listening on it, somebody else may take it.
	if tail := process.Tail(3); !m.killed && !m.stopped && !m.away && !strings.Contains(tail, "address already in use") {
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
	m.mu.Lock()
	m.killed = true
	process := m.process
	m.mu.Unlock()
	_ = process.Kill()
	<-process.Exited()
}

// restart ends the manager, does something while there is none, and returns when there is
// another one that is ready.
func (m *manager) restart(ctx context.Context, between func() error) error {
	m.mu.Lock()
	process := m.process
	m.killed = true
	// Until it is unlocked, nobody starts it again.
	err := errors.Join(process.Stop(), between())
	m.mu.Unlock()
	if err != nil {
		return err
	}
	for {
		m.mu.Lock()
		other := m.process != process
		m.mu.Unlock()
		if other && m.ready(ctx) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(poll):
		}
	}
}

// stop asks the manager to end, for good, and returns when it has.
func (m *manager) stop() {
	m.mu.Lock()
	m.stopped = true
	process := m.process
	m.mu.Unlock()
	if process == nil {
		return
	}
	select {
	case <-process.Exited():
		return // killed, and not started again
	default:
	}
	if err := process.Stop(); err != nil {
		m.end = err
		return
	}
	<-process.Exited()
	m.end = process.Err()
}

var (
	callArguments = regexp.MustCompile(`\([^()]*\)$`)
	waiting       = regexp.MustCompile(`\.(Start|RunWithContext)$`)
)

// trace ends the manager, for good, and says what those of its goroutines did that are the project's.
func (m *manager) trace() (out []string) {
	m.mu.Lock()
	m.stopped = true
	process := m.process
	m.mu.Unlock()
	if process == nil || process.Abort() != nil {
		return nil
	}
	<-process.Exited()
	log, _ := m.log()
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
			out = append(out, header+" "+strings.Join(calls, " < "))
		}
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
func (m *manager) ready(ctx context.Context) bool {
	m.mu.Lock()
	process, probes := m.process, m.probes
	m.mu.Unlock()
	select {
	case <-process.Exited():
		return false
	default:
	}
	return env.Answers(ctx, "http://"+probes+"/readyz")
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
	if m.process == nil {
		return false
	}
	select {
	case <-m.process.Exited():
		return false
	default:
		return true
	}
}

// StopManager ends the manager, by SIGKILL or as a Deployment does, and returns when it is
// gone. It stays so until StartManager.
func (s *Stage) StopManager(kill bool) error {
	s.proxy.rest()
	m := s.manager
	m.mu.Lock()
	m.away = true
	m.killed = m.killed || m.running()
	process := m.process
	m.mu.Unlock()
	end := process.Stop
	if kill {
		end = process.Kill
	}
	if err := end(); err != nil {
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
