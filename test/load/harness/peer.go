package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/labkeeper/labkeeper/test/env"
	"github.com/labkeeper/labkeeper/test/load/measure"
)

// Peer is another system that does what the subject does, measured beside it on the same control plane.
type Peer struct {
	// Program is its binary, from the root of the repository, and Build the command that makes it.
	Program, Build string
	// Args are its flags.
	Args func(kubeconfig, probes, metrics string) []string
	// Probe is the path that answers when it is ready.
	Probe string
	// Calls are the requests that it has made, by its own count.
	Calls func(Metrics) float64
	// Subject is its kind. Of it are needed: Name, Resource, CRDs, FieldManager, New, Watched, Story, Needs, Done and
	// Reactions.
	Subject *Subject
}

// RunningPeer is a peer at work.
type RunningPeer struct {
	*Peer
	lab     *Lab
	watcher *Watcher
	metrics string
	// from are its calls at the beginning of the measurement.
	from float64
}

// Peer is the one to measure beside; nil for none.
func (l *Lab) Peer() *Peer { return l.options.Peer }

// StartPeer starts it, and has it bring some objects to their end.
func (l *Lab) StartPeer(ctx context.Context, namespaces ...string) (*RunningPeer, error) {
	p := &RunningPeer{Peer: l.options.Peer, lab: l}
	program := filepath.Join(env.Root(), p.Program)
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("there is no %s; build it with %s", p.Program, p.Build)
	}
	probes, err := env.FreeAddress()
	if err != nil {
		return nil, err
	}
	if p.metrics, err = env.FreeAddress(); err != nil {
		return nil, err
	}
	own, err := NewClient(l.Config(), answerTimeout)
	if err != nil {
		return nil, err
	}
	if p.watcher, err = startWatcher(ctx, own, p.Subject, l.Fail); err != nil {
		return nil, err
	}
	process, err := l.StartProcess(p.Subject.Name, program, p.Args(l.Kubeconfig(), probes, p.metrics)...)
	if err != nil {
		return nil, err
	}
	err = wait(ctx, time.Minute, func() bool {
		_, err := get(ctx, "http://"+probes+p.Probe)
		return err == nil
	}, func() string { return "waiting for the peer to be ready; its log ends with: " + process.Tail(5) })
	if err != nil {
		return nil, err
	}
	const warm = "warm-up-peer"
	for _, namespace := range append(namespaces, warm) {
		if err := l.Namespace(ctx, namespace); err != nil {
			return nil, err
		}
	}
	for i := range warmUp {
		if err := p.Create(ctx, warm, fmt.Sprintf("warm-%d", i)); err != nil {
			return nil, err
		}
	}
	if err := p.Await(ctx, warm, warmUp, time.Minute); err != nil {
		return nil, fmt.Errorf("%w; the peer's log ends with: %s", err, process.Tail(5))
	}
	return p, p.watcher.Quiet(ctx, time.Second, time.Minute)
}

// Create creates an object of the peer's.
func (p *RunningPeer) Create(ctx context.Context, namespace, name string) error {
	return p.lab.Client.Create(ctx, p.Subject.Resource, namespace, p.Subject.New(namespace, name, Plain))
}

// Await waits until n objects of a namespace are done.
func (p *RunningPeer) Await(ctx context.Context, namespace string, n int, timeout time.Duration) error {
	return p.watcher.Await(ctx, namespace, p.Subject.Done, n, timeout)
}

// Open begins a measurement.
func (p *RunningPeer) Open(ctx context.Context) (err error) {
	p.from, err = p.calls(ctx)
	return err
}

// Close puts into the figures what the peer took for each of n objects of a namespace.
func (p *RunningPeer) Close(ctx context.Context, namespace string, n int, f measure.Figures) error {
	calls, err := p.calls(ctx)
	if err != nil {
		return err
	}
	f.Put("peer_calls", (calls-p.from)/float64(n))
	used := p.lab.window.usage.Programs[filepath.Base(p.Program)]
	f.Put("peer_cpu_manager", measure.Milliseconds(used)/float64(n))
	PutReactions("peer_", p.Subject.Reactions, p.lab.counted(p.watcher, p.Subject, namespace, n), f)
	return nil
}

func (p *RunningPeer) calls(ctx context.Context) (float64, error) {
	content, err := get(ctx, "http://"+p.metrics+"/metrics")
	if err != nil {
		return 0, fmt.Errorf("reading metrics of the peer: %w", err)
	}
	return p.Calls(ParseMetrics(string(content))), nil
}
