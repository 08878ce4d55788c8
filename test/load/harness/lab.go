package harness

import (
	"context"
	"errors"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/labkeeper/labkeeper/test/env"
	"github.com/labkeeper/labkeeper/test/load/machine"
	"github.com/labkeeper/labkeeper/test/load/measure"
)

// Options of a lab.
type Options struct {
	// Manager is the path of the manager's binary.
	Manager string
	// ManagerArgs are flags beside those that every manager gets.
	ManagerArgs []string
	// Pprof says that the manager serves profiles (--pprof-bind-address).
	Pprof bool
	// World is the command that plays the world; the path of a kubeconfig follows.
	World []string
	// Audit records every request, for scenarios that count.
	Audit bool
	// Floor is how long the floor is measured, on either side.
	Floor time.Duration
	// LogDir keeps the logs; by default they go with the lab.
	LogDir string
	// Duration is how long a scenario watches that has nothing to wait for.
	Duration time.Duration
	// Profile is where a CPU profile of the manager is written; empty for none.
	Profile string
	// Peer is measured beside; nil for none.
	Peer *Peer
	// Version is told of the control plane.
	Version func(*env.ControlPlane)
	// Tell is told how it goes.
	Tell func(format string, args ...any)
}

// Lab is a control plane with everything that a subject needs beside its manager.
type Lab struct {
	*env.ControlPlane
	Subject *Subject
	// Client is the loader's.
	Client  *Client
	Watcher *Watcher
	// Before is the floor before the measurement; none in a scenario that counts.
	Before measure.Floor

	options  Options
	account  string // kubeconfig of the manager
	managers []*Manager
	world    *env.Process
	end      context.CancelFunc
	window   *Window
	pace     *machine.Pace
	stopPace sync.Once
	// filled says that the floor before is that of a store which a scenario had filled.
	filled bool
	// foreign is the largest share of the machine that others used of any measurement.
	foreign float64

	mu     sync.Mutex
	errors []error
}

// Start starts a lab. The manager is not started: that is part of some measurements.
func Start(ctx context.Context, subject *Subject, o Options) (*Lab, error) {
	cp, err := env.Start(ctx, env.Options{Durable: true, AuditLog: o.Audit, LogDir: o.LogDir})
	if err != nil {
		return nil, err
	}
	background, end := context.WithCancel(context.WithoutCancel(ctx))
	l := &Lab{ControlPlane: cp, Subject: subject, options: o, end: end, pace: machine.StartPace()}
	if o.Version != nil {
		o.Version(cp)
	}
	if err := l.install(ctx, background); err != nil {
		return nil, errors.Join(err, l.Stop())
	}
	return l, nil
}

func (l *Lab) install(ctx, background context.Context) error {
	s := l.Subject
	var err error
	if l.Client, err = NewClient(l.Config(), 0); err != nil {
		return err
	}
	if err := l.installCRDs(ctx); err != nil {
		return err
	}
	for _, name := range s.Namespaces {
		if err := l.namespace(ctx, name); err != nil {
			return err
		}
	}
	if err := l.Apply(ctx, fromRoot(s.Manifests)...); err != nil {
		return err
	}
	if l.account, err = l.ServiceAccountKubeconfig(ctx, s.AccountNamespace, s.Account); err != nil {
		return err
	}
	// The garbage collector knows the new kinds from its start, or it would begin to watch
	// them in the middle of a measurement.
	if err := l.RestartControllerManager(ctx); err != nil {
		return err
	}
	own, err := NewClient(l.Config(), answerTimeout)
	if err != nil {
		return err
	}
	l.Watcher, err = startWatcher(background, own, s, l.Fail)
	return err
}

// Namespace creates a namespace, and in it what the objects need.
func (l *Lab) Namespace(ctx context.Context, name string) error {
	if err := l.namespace(ctx, name); err != nil {
		return err
	}
	for _, b := range l.Subject.Beside {
		if err := Ignore(l.Client.Create(ctx, b.Resource, name, b.Object), http.StatusConflict); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lab) namespace(ctx context.Context, name string) error {
	namespace := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}
	err := l.Client.Create(ctx, schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "", namespace)
	return Ignore(err, http.StatusConflict)
}

// StartWorld begins to play the outside systems.
func (l *Lab) StartWorld() error {
	command := append(slices.Clone(l.options.World), l.Kubeconfig())
	var err error
	l.world, err = l.StartProcess("world", command[0], command[1:]...)
	return err
}

// Fail notes an error, which fails the run.
func (l *Lab) Fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errors = append(l.errors, err)
}

// Errors are all that went wrong up to now, in the manager and the world too.
func (l *Lab) Errors() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, err := range l.errors {
		out = append(out, err.Error())
	}
	for _, m := range l.managers {
		lines, err := m.Errors()
		if err != nil {
			lines = append(lines, err.Error())
		}
		if m.over() && !m.ended {
			lines = append(lines, "it ended by itself: "+m.Tail(5))
		}
		for _, line := range lines {
			out = append(out, "manager: "+line)
		}
	}
	if l.world != nil {
		if said := l.world.Tail(3); said != "" {
			out = append(out, "world: "+said)
		}
	}
	return out
}

// Rest ends managers and world: what is left is the control plane.
func (l *Lab) Rest() error {
	var errs []error
	for _, m := range l.managers {
		errs = append(errs, m.End())
	}
	if l.world != nil {
		errs = append(errs, l.world.Stop())
	}
	return errors.Join(errs...)
}

// Stop ends everything; it may be called again.
func (l *Lab) Stop() error {
	l.end()
	l.stopPace.Do(l.pace.Stop)
	return l.ControlPlane.Stop()
}

// Duration is how long a scenario watches that has nothing to wait for.
func (l *Lab) Duration() time.Duration { return l.options.Duration }

// Tell tells how it goes.
func (l *Lab) Tell(format string, args ...any) { l.options.Tell(format, args...) }

func fromRoot(paths []string) []string {
	out := make([]string, 0, len(paths))
	for _, path := range paths {
		out = append(out, filepath.Join(env.Root(), path))
	}
	return out
}

func command(ctx context.Context, dir string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}
