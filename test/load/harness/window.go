package harness

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/labkeeper/labkeeper/test/load/machine"
	"github.com/labkeeper/labkeeper/test/load/measure"
)

// Window is what was used and asked for while something was measured.
type Window struct {
	lab     *Lab
	manager *Manager
	start   machine.Snapshot
	usage   machine.Usage
	pace    float64
	// before and server are the manager's and the API server's own counters at the start.
	before, server Metrics
	// profiled is closed when no profile is being taken.
	profiled chan struct{}
}

// Open begins a measurement. The manager may be nil.
func (l *Lab) Open(ctx context.Context, m *Manager) (*Window, error) {
	return l.OpenBefore(ctx, m, time.Time{})
}

// OpenBefore begins a measurement of what happens at some time, of which profiles are taken then.
func (l *Lab) OpenBefore(ctx context.Context, m *Manager, at time.Time) (*Window, error) {
	w := &Window{lab: l, manager: m, profiled: make(chan struct{})}
	l.window = w
	err := l.Settle(ctx)
	if err != nil {
		return nil, err
	}
	if w.before, w.server, err = w.counters(ctx); err != nil {
		return nil, err
	}
	if l.options.Profile != "" && m != nil {
		go func() {
			defer close(w.profiled)
			select {
			case <-time.After(time.Until(at)):
			case <-ctx.Done():
				return
			}
			if err := l.profile(ctx, m); err != nil {
				l.Fail(err)
			}
		}()
	} else {
		close(w.profiled)
	}
	w.start, err = machine.Look()
	return w, err
}

// profileTime is how long profiles are taken.
const profileTime = 15 * time.Second

// profile writes CPU profiles of the manager and, beside it, of the API server.
func (l *Lab) profile(ctx context.Context, m *Manager) error {
	return Parallel(2, func(i int) error {
		if i == 0 {
			return m.Profile(ctx, profileTime, l.options.Profile)
		}
		content, err := l.Client.Do(ctx, http.MethodGet, fmt.Sprintf("/debug/pprof/profile?seconds=%d", int(profileTime.Seconds())), "", nil)
		if err != nil {
			return fmt.Errorf("taking profile of API server: %w", err)
		}
		return os.WriteFile(strings.TrimSuffix(l.options.Profile, ".pprof")+".apiserver.pprof", content, 0o644)
	})
}

// Close ends it and puts what it cost for each of n objects into the figures.
func (w *Window) Close(ctx context.Context, n int, f measure.Figures) error {
	end, err := machine.Look()
	if err != nil {
		return err
	}
	w.usage, w.pace = end.Since(w.start), w.lab.pace.Between(w.start.Time, end.Time)
	w.lab.foreign = max(w.lab.foreign, w.usage.ForeignShare(w.lab.cores()))
	<-w.profiled
	f.Put("total_s", w.usage.Wall.Seconds())
	f.Put("utilisation_percent", 100*w.usage.Utilisation(w.lab.cores()))
	for figure, program := range map[string]string{
		"cpu_manager": w.lab.options.Manager, "cpu_apiserver": "kube-apiserver", "cpu_etcd": "etcd",
		"cpu_controllers": "kube-controller-manager", "cpu_world": w.lab.options.World[0] + " world", "cpu_loader": w.lab.options.World[0],
	} {
		f.Put(figure, measure.Milliseconds(w.usage.Programs[filepath.Base(program)])/float64(n))
	}
	all := measure.Milliseconds(w.usage.Ours) / float64(n)
	f.Put("cpu_all", all)
	if before := w.lab.Before.Pace; before > 0 { // there is a floor
		f.Put("cpu_all_paced", measure.Paced(all, w.pace, before))
	}
	if w.manager == nil {
		return nil
	}
	return w.calls(ctx, n, f)
}

// calls are what the manager asked for, by its own count; events by the server's.
func (w *Window) calls(ctx context.Context, n int, f measure.Figures) error {
	after, server, err := w.counters(ctx)
	if err != nil {
		return err
	}
	count := func(labels ...string) float64 {
		const name = "rest_client_requests_total"
		return (after.Sum(name, labels...) - w.before.Sum(name, labels...)) / float64(n)
	}
	events := func(verb string) float64 {
		const name = "apiserver_request_total"
		labels := []string{`group="events.k8s.io"`, `resource="events"`, fmt.Sprintf(`verb="%s"`, verb)}
		return (server.Sum(name, labels...) - w.server.Sum(name, labels...)) / float64(n)
	}
	f.Put("calls_create", max(0, count(`method="POST"`)-events("POST")))
	f.Put("calls_patch", max(0, count(`method="PATCH"`)-events("PATCH")))
	f.Put("calls_get", count(`method="GET"`))
	f.Put("calls_delete", count(`method="DELETE"`))
	f.Put("calls_event", events("POST")+events("PATCH"))
	f.Put("calls_conflict", count(`code="409"`))
	peak, _, err := w.manager.Memory()
	if err != nil {
		return err
	}
	f.Put("rss_mb", peak/1e6)
	reconciles := func(result string) float64 {
		return (after.Sum("controller_runtime_reconcile_total", result) - w.before.Sum("controller_runtime_reconcile_total", result)) / float64(n)
	}
	f.Put("passes", reconciles(""))
	return nil
}

func (w *Window) counters(ctx context.Context) (manager, server Metrics, err error) {
	if w.manager == nil {
		return nil, nil, nil
	}
	if manager, err = w.manager.Metrics(ctx); err != nil {
		return nil, nil, err
	}
	server, err = w.lab.ServerMetrics(ctx)
	return manager, server, err
}

// ServerMetrics are those of the API server.
func (l *Lab) ServerMetrics(ctx context.Context) (Metrics, error) {
	text, err := l.Client.Do(ctx, http.MethodGet, "/metrics", "", nil)
	if err != nil {
		return nil, fmt.Errorf("reading metrics of the API server: %w", err)
	}
	return ParseMetrics(string(text)), nil
}

// PutReactions puts the quantiles of each reaction, and of all together, into the figures.
func (l *Lab) PutReactions(stories []*Story, f measure.Figures) {
	PutReactions("", l.Subject.Reactions, stories, f)
}

// PutReactions puts those of a kind into the figures, with a prefix.
func PutReactions(prefix string, reactions []Reaction, stories []*Story, f measure.Figures) {
	var all []time.Duration
	prefix += "reaction_"
	timed, early := timed(reactions, stories)
	f.Put(prefix+"early", float64(early))
	for name, samples := range timed {
		f.Put(prefix+name+"_p50_ms", measure.Quantile(samples, 0.5))
		f.Put(prefix+name+"_p99_ms", measure.Quantile(samples, 0.99))
		all = append(all, samples...)
	}
	f.Put(prefix+"p50_ms", measure.Quantile(all, 0.5))
	f.Put(prefix+"p90_ms", measure.Quantile(all, 0.9))
	f.Put(prefix+"p99_ms", measure.Quantile(all, 0.99))
	f.Put(prefix+"max_ms", measure.Quantile(all, 1))
}

func (l *Lab) cores() int { return machine.ThisHost().Cores }

// Settle waits until our processes have nothing to do: a control plane goes on for seconds
// about what has just been installed.
func (l *Lab) Settle(ctx context.Context) error {
	const calm, look, timeout = 0.05, 250 * time.Millisecond, 30 * time.Second
	last, err := machine.Look()
	if err != nil {
		return err
	}
	quiet := 0
	for end := time.Now().Add(timeout); time.Now().Before(end) && quiet < 3; {
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return ctx.Err()
		}
		now, err := machine.Look()
		if err != nil {
			return err
		}
		if now.Since(last).Utilisation(l.cores()) < calm {
			quiet++
		} else {
			quiet = 0
		}
		last = now
	}
	return nil // one that never rests is measured as it is
}
