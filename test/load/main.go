package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/discovery"

	"github.com/labkeeper/labkeeper/test/env"
	"github.com/labkeeper/labkeeper/test/load/experiment"
	"github.com/labkeeper/labkeeper/test/load/harness"
	"github.com/labkeeper/labkeeper/test/load/hibernation"
	"github.com/labkeeper/labkeeper/test/load/machine"
	"github.com/labkeeper/labkeeper/test/load/measure"
	"github.com/labkeeper/labkeeper/test/load/scenario"
	"github.com/labkeeper/labkeeper/test/load/twin"
)

//go:embed rangespec.json
var rangeSpec []byte

const (
	defaultSubject = "experiment"
	// leastFloor is how long a floor must be measured to say something.
	leastFloor = 3 * time.Second
)

// subjects are the kinds that can be measured, and peers what can be measured beside them.
func subjects() []*harness.Subject {
	return []*harness.Subject{
		experiment.Subject(), twin.Subject(), hibernation.Subject("hibernateplan", 10), hibernation.Subject("hibernateplan-single", 1),
		harness.With(hibernation.Subject("hibernateplan-night", 10), experiment.Subject()),
	}
}

func peers() []*harness.Peer { return []*harness.Peer{twin.Rollouts()} }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	run := measureMain
	if len(os.Args) > 1 && os.Args[1] == "world" {
		run = worldMain
	}
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		stop()
		os.Exit(1)
	}
}

// worldMain is the process that plays the world: load world <subject> <kubeconfig>.
func worldMain(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return errors.New("world takes a subject and a kubeconfig")
	}
	subject, err := subjectNamed(args[1])
	if err != nil {
		return err
	}
	return harness.RunWorld(ctx, args[2], subject.World, os.Stderr)
}

func peerNamed(name string) (*harness.Peer, error) {
	for _, p := range peers() {
		if p.Subject.Name == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("-peer: there is no %q", name)
}

func subjectNamed(name string) (*harness.Subject, error) {
	for _, s := range subjects() {
		if s.Name == name {
			return s, nil
		}
	}
	return nil, fmt.Errorf("there is no subject %q", name)
}

// options are the flags.
type options struct {
	scenario harness.Scenario
	subject  *harness.Subject
	peer     *harness.Peer
	n, reps  int
	floor    time.Duration
	duration time.Duration
	manager  string
	args     string
	out      string
	logs     string
	profile  bool
}

func parse(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("load", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	name := fs.String("scenario", "", "What to measure.")
	subject := fs.String("subject", "", "The kind to measure. Default: the scenario's own, mostly "+defaultSubject+".")
	peer := fs.String("peer", "", "What to measure beside it, in scenarios that do so: rollouts.")
	fs.IntVar(&o.n, "n", 0, "How many objects. Default: the scenario's own.")
	fs.IntVar(&o.reps, "reps", 1, "How many repetitions count.")
	fs.DurationVar(&o.floor, "floor", 10*time.Second, "How long the floor is measured, before and after.")
	fs.DurationVar(&o.duration, "duration", 10*time.Minute, "How long idle watches.")
	fs.StringVar(&o.manager, "manager", "", "Path of a manager's binary. Default: it is built from ./cmd.")
	fs.StringVar(&o.args, "manager-args", "", "Flags for the manager, separated by spaces; without them it has its defaults, which the gates are for.")
	fs.StringVar(&o.out, "out", "", "The file to write. Default: bin/load/<scenario>.json, with another subject bin/load/<subject>-<scenario>.json.")
	fs.StringVar(&o.logs, "logs", "", "Folder to keep the logs in.")
	fs.BoolVar(&o.profile, "profile", false, "Write CPU profiles of the manager and the API server to bin/load/<scenario>.pprof and <scenario>.apiserver.pprof.")
	if err := fs.Parse(args); err != nil {
		fs.SetOutput(os.Stderr)
		fs.Usage()
		return o, err
	}
	var err error
	if o.scenario, err = scenarioNamed(*name); err != nil {
		return o, err
	}
	usual := cmp.Or(o.scenario.Subject, defaultSubject)
	if o.subject, err = subjectNamed(cmp.Or(*subject, usual)); err != nil {
		return o, err
	}
	if *peer != "" {
		if o.peer, err = peerNamed(*peer); err != nil {
			return o, err
		}
	}
	if o.n == 0 {
		o.n = o.scenario.N
	}
	switch {
	case fs.NArg() > 0:
		return o, fmt.Errorf("unknown argument %q", fs.Arg(0))
	case o.peer != nil && !o.scenario.Peers:
		return o, fmt.Errorf("-peer: %s measures nothing beside", o.scenario.Name)
	case o.n < o.scenario.Least:
		return o, fmt.Errorf("-n: %s takes at least %d", o.scenario.Name, o.scenario.Least)
	case o.reps < 1:
		return o, errors.New("-reps: at least 1")
	case o.floor < leastFloor:
		return o, fmt.Errorf("-floor: at least %s", leastFloor)
	}
	if o.out == "" {
		file := o.scenario.Name + ".json"
		if o.subject.Name != usual {
			file = o.subject.Name + "-" + file
		}
		o.out = filepath.Join(env.Root(), "bin", "load", file)
	}
	return o, nil
}

func scenarioNamed(name string) (harness.Scenario, error) {
	all := scenario.All()
	if i := slices.IndexFunc(all, func(s harness.Scenario) bool { return s.Name == name }); i >= 0 {
		return all[i], nil
	}
	lines := []string{fmt.Sprintf("-scenario: there is no %q, but", name)}
	for _, s := range all {
		lines = append(lines, fmt.Sprintf("  %-16s %s (n: %d)", s.Name, s.About, s.N))
	}
	return harness.Scenario{}, errors.New(strings.Join(lines, "\n"))
}

// maxDiscarded is how many repetitions may be discarded before the run fails.
const maxDiscarded = 3

// measureMain measures and reports; its error is the verdict.
func measureMain(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	spec, err := measure.ParseRangeSpec(rangeSpec)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "labkeeper-load-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	lab, err := labOptions(ctx, o, dir)
	if err != nil {
		return err
	}
	report := &measure.Report{
		Subject: o.subject.Name, Scenario: o.scenario.Name, N: o.n, Machine: machine.ThisHost(), Flags: args,
		Versions: machine.Versions{Commit: machine.Commit(env.Root()), Go: runtime.Version()},
	}
	if err := os.Remove(o.out); err != nil && !errors.Is(err, os.ErrNotExist) { // what it says is of another run
		return fmt.Errorf("removing what was measured before: %w", err)
	}
	if err := repeat(ctx, o, lab, report); err != nil {
		return err
	}
	report.Conclude(spec.For(o.subject.Name, o.scenario.Name, o.n), o.reps, o.scenario.Counts)
	if err := errors.Join(report.WriteTable(os.Stdout), report.WriteFile(o.out)); err != nil {
		return err
	}
	if report.Verdict != measure.Pass {
		return fmt.Errorf("%s: %s", o.scenario.Name, report.Verdict)
	}
	return nil
}

func repeat(ctx context.Context, o options, lab harness.Options, report *measure.Report) error {
	discarded := 0
	for counted := 0; counted < o.reps; {
		lab.Tell("repetition %d of %d", counted+1, o.reps)
		if o.logs != "" {
			lab.LogDir = filepath.Join(o.logs, time.Now().Format("20060102-150405-")+o.scenario.Name)
		}
		lab.Version = func(cp *env.ControlPlane) {
			if report.Versions.Kubernetes == "" {
				report.Versions.Kubernetes = kubernetesVersion(cp)
			}
		}
		rep, err := harness.Repeat(ctx, o.subject, o.scenario, o.n, lab)
		if err != nil {
			return err
		}
		report.Reps = append(report.Reps, rep)
		switch {
		case len(rep.Errors) > 0:
			return nil // no number of repetitions makes up for it
		case rep.Discarded == "":
			counted++
		default:
			lab.Tell("discarded: %s", rep.Discarded)
			if discarded++; discarded == maxDiscarded {
				return nil
			}
		}
	}
	return nil
}

// labOptions builds what the labs need.
func labOptions(ctx context.Context, o options, dir string) (harness.Options, error) {
	self, err := os.Executable()
	if err != nil {
		return harness.Options{}, err
	}
	start := time.Now()
	lab := harness.Options{
		Manager: o.manager, ManagerArgs: strings.Fields(o.args), World: []string{self, "world", o.subject.Name}, Floor: o.floor, Duration: o.duration, Peer: o.peer,
		Tell: func(format string, args ...any) {
			fmt.Fprintf(os.Stderr, "%6.1f s  "+format+"\n", append([]any{time.Since(start).Seconds()}, args...)...)
		},
	}
	if lab.Manager == "" {
		lab.Tell("building the manager")
		lab.Manager = filepath.Join(dir, "labkeeper-manager")
		if err := env.BuildOnce(ctx, "./cmd", lab.Manager); err != nil {
			return lab, err
		}
	}
	lab.Pprof = harness.HasFlag(ctx, lab.Manager, "pprof-bind-address")
	if o.profile {
		if !lab.Pprof {
			return lab, errors.New("-profile: the manager has no flag --pprof-bind-address")
		}
		lab.Profile = strings.TrimSuffix(o.out, ".json") + ".pprof"
	}
	return lab, nil
}

func kubernetesVersion(cp *env.ControlPlane) string {
	client, err := discovery.NewDiscoveryClientForConfig(cp.Config())
	if err != nil {
		return ""
	}
	version, err := client.ServerVersion()
	if err != nil {
		return ""
	}
	return version.GitVersion
}
