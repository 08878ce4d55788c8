// Demo runs the operator on a real control plane against simulated outsides, applies the samples and
// shows what `kubectl get experiments` shows while they run.
//
// It needs `make k8s` and `make build` and nothing else: no cluster, no container runtime, no network.
// DEMO_FAULT=cluster, app or workflow makes that outside fail, to see how the operator tells.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/labkeeper/labkeeper/test/env"
	"github.com/labkeeper/labkeeper/test/stages"
)

// faultVariable chooses the outside that fails.
const faultVariable = "DEMO_FAULT"

// options are the flags and what else chooses the course of the demo.
type options struct {
	check   bool
	timeout time.Duration
	manager string
	samples string
	fault   string
}

func main() {
	o := options{fault: os.Getenv(faultVariable)}
	flag.BoolVar(&o.check, "check", false, "end by itself: with success only if every Experiment reached phase Complete, every twin is ready, and what slept is as it was")
	flag.DurationVar(&o.timeout, "timeout", 90*time.Second, "how long the samples may take")
	flag.StringVar(&o.manager, "manager", filepath.Join(env.Root(), "bin", "manager"), "the operator's binary")
	samples := filepath.Join(env.Root(), "config", "samples")
	flag.StringVar(&o.samples, "samples", strings.Join([]string{samples, filepath.Join(samples, "twins"), filepath.Join(samples, "hibernation", "night.yaml")}, string(filepath.ListSeparator)), "files or folders with the samples, separated by colons")
	flag.Parse()

	// A closed terminal must leave as little behind as Ctrl-C does.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, o)
	interrupted := ctx.Err() != nil
	stop()
	switch {
	case err == nil, interrupted && !o.check:
	case interrupted:
		os.Exit(130)
	default:
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run is the whole demo. Whatever happens, it leaves neither a process nor a folder.
func run(ctx context.Context, o options) (err error) {
	files, err := stages.Files(o.fault)
	if err != nil {
		return fmt.Errorf("reading %s: %w", faultVariable, err)
	}
	if _, err := os.Stat(o.manager); err != nil {
		return fmt.Errorf("finding the operator: %w; run `make build`", err)
	}
	cp, err := env.Start(ctx, env.Options{KeepSignals: true, Scheduler: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cp.Stop()) }()
	say("the control plane is up")

	d := &demo{options: o, cp: cp}
	if err := d.bringUp(ctx, files); err != nil {
		return err
	}
	stop, err := d.startRunners(ctx)
	if err != nil {
		return err
	}
	defer stop()
	if err = d.watch(ctx); err == nil {
		err = d.night(ctx)
	}
	if err != nil && ctx.Err() == nil && !o.check && d.manager.running() {
		fmt.Fprintln(os.Stderr, "demo:", err)
		err = nil
	}
	if err != nil || o.check {
		return err
	}
	return d.stay(ctx)
}

// stay keeps everything up for who wants to look around.
func (d *demo) stay(ctx context.Context) error {
	kubectl := d.cp.Kubectl()
	fmt.Printf(`
Everything stays up until Ctrl-C. To look around, in another terminal:

  export KUBECONFIG=%s PATH=%s:$PATH
  kubectl get experiments -o wide
  kubectl describe experiments
  kubectl get gkeclusters,applications,workflows --all-namespaces
  kubectl get expdep,hplan,deployments,pods

The operator's log is %s
`, d.cp.Kubeconfig(), filepath.Dir(kubectl), d.manager.Log())
	select {
	case <-ctx.Done():
		fmt.Println()
		return nil
	case <-d.manager.Exited():
		return d.manager.death()
	}
}

var began = time.Now()

// say prints a line of progress.
func say(format string, args ...any) {
	fmt.Printf("%5.1fs  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
}
