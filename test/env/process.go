package env

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// stopGrace is how long a child has to end by itself after SIGTERM: the manager hands over its
	// lease in that time.
	stopGrace = 5 * time.Second
	// tailLines is how much of a log goes into an error.
	tailLines = 15
	// tailBytes bounds what of a log is read for that.
	tailBytes = 64 << 10
)

// Process is a child of the control plane: a component, kwok, or what StartProcess was given.
type Process struct {
	name   string
	log    string
	grace  time.Duration // 0 ends it at once
	cmd    *exec.Cmd
	exited chan struct{}
	// err is of Wait, and groupErr of the end of what it started; valid once exited is closed.
	err, groupErr error

	stopOnce sync.Once
	stopErr  error
}

// StartProcess starts a further program, such as the operator's manager, that ends with the control
// plane: Stop ends it before the API server. Its output goes to a log of that name.
func (cp *ControlPlane) StartProcess(name, path string, args ...string) (*Process, error) {
	return cp.startProcess(name, path, stopGrace, args)
}

func (cp *ControlPlane) startProcess(name, path string, grace time.Duration, args []string) (*Process, error) {
	logDir := cp.dir
	if cp.options.LogDir != "" {
		logDir = cp.options.LogDir
	}
	p := &Process{name: name, log: filepath.Join(logDir, name+".log"), grace: grace, exited: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("creating log of %s: %w", name, err)
	}
	defer log.Close()

	p.cmd = exec.Command(path, args...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Dir = cp.dir
	// No child reads or writes the settings of whoever runs the tests.
	p.cmd.Env = append(os.Environ(), "HOME="+cp.dir)
	p.cmd.SysProcAttr = processAttributes()

	cp.mutex.Lock()
	defer cp.mutex.Unlock()
	if cp.stopped {
		return nil, fmt.Errorf("starting %s: the control plane is stopped", name)
	}
	if err := forkFromLastingThread(p.cmd.Start); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	cp.processes = append(cp.processes, p)
	go func() {
		p.err = p.cmd.Wait()
		p.groupErr = p.endGroup()
		close(p.exited)
	}()
	return p, nil
}

// Exited is closed when the process has ended, for whatever reason.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Err says how the process has ended: nil is exit status 0. It is of no use before Exited is closed.
func (p *Process) Err() error { return p.err }

// Kill ends the process at once. It is not an error if it has ended already.
func (p *Process) Kill() error { return p.signal(syscall.SIGKILL) }

// Abort ends the process as one that is stuck: a Go program writes what its goroutines do to its log.
func (p *Process) Abort() error { return p.signal(syscall.SIGQUIT) }

// Halt has the process stand still.
func (p *Process) Halt() error { return p.signal(syscall.SIGSTOP) }

// Continue has a process go on that stands still.
func (p *Process) Continue() error { return p.signal(syscall.SIGCONT) }

// Log returns the path of the file with the output of the process.
func (p *Process) Log() string { return p.log }

// Tail returns the last lines of the log.
func (p *Process) Tail(lines int) string {
	file, err := os.Open(p.log)
	if err != nil {
		return ""
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return ""
	}
	content := make([]byte, min(info.Size(), tailBytes))
	n, _ := file.ReadAt(content, info.Size()-int64(len(content)))
	all := strings.Split(strings.TrimRight(string(content[:n]), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Stop asks the process to end, and ends it if it does not within a few seconds. It is not an error
// if it has ended already.
func (p *Process) Stop() error { return p.StopWithin(p.grace) }

// StopWithin is Stop of a process that has so long; the first of several counts.
func (p *Process) StopWithin(grace time.Duration) error {
	p.stopOnce.Do(func() { p.stopErr = p.stop(grace) })
	return p.stopErr
}

func (p *Process) stop(grace time.Duration) error {
	if grace > 0 {
		if err := p.signal(syscall.SIGTERM); err != nil {
			return err
		}
	}
	select {
	case <-p.exited:
	case <-time.After(grace):
		if err := p.signal(syscall.SIGKILL); err != nil {
			return err
		}
		<-p.exited
	}
	return p.groupErr
}

// endGroup ends what the process itself started, which must not outlive it, as soon as it has
// ended: later another process may have its number.
func (p *Process) endGroup() error {
	err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	if err != nil && !errors.Is(err, syscall.ESRCH) && !errors.Is(err, syscall.EPERM) { // EPERM: darwin's answer for a group of zombies
		return fmt.Errorf("stopping the group of %s: %w", p.name, err)
	}
	return nil
}

// signal sends a signal unless the process has ended.
func (p *Process) signal(s syscall.Signal) error {
	err := p.cmd.Process.Signal(s)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping %s: %w", p.name, err)
	}
	return nil
}

// deathError says how a process ended that should not have.
func (p *Process) deathError() error {
	cause := "exit status 0"
	if p.err != nil {
		cause = p.err.Error()
	}
	return fmt.Errorf("starting %s: %s; its log ends with:\n%s", p.name, cause, p.Tail(tailLines))
}
