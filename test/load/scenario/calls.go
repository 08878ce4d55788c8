package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labkeeper/labkeeper/test/env"
	"github.com/labkeeper/labkeeper/test/load/harness"
	"github.com/labkeeper/labkeeper/test/load/measure"
)

// calls counts, object by object, everything that the manager asks for: on the way up, when it
// is touched without need, and on the way down. The audit log of the API server counts.
func calls(ctx context.Context, l *harness.Lab, n int) (measure.Figures, error) {
	m, err := l.Begin(ctx)
	if err != nil {
		return nil, err
	}
	f := measure.Figures{writesBeside: 0, statusesBeyond: 0, readsBesideList: 0, refusedWrites: 0, usesBeyond: 0}
	for _, shape := range l.Subject.Shapes {
		l.Tell("shape %s", shape.Name)
		c := &counter{lab: l, manager: m, shape: shape, namespace: "calls-" + shape.Name, n: n, figures: f}
		if err := c.run(ctx); err != nil {
			return nil, fmt.Errorf("shape %s: %w", shape.Name, err)
		}
	}
	return f, noopPasses(ctx, l, m, n, f)
}

// What must be nothing, over all shapes and both ways.
const (
	writesBeside    = "writes beside the formula"
	statusesBeyond  = "status patches beyond the statuses"
	readsBesideList = "reads beside the list"
	refusedWrites   = "refused writes"
	usesBeyond      = "statuses of components beyond the uses"
)

// counter counts the requests for objects of one shape.
type counter struct {
	lab       *harness.Lab
	manager   *harness.Manager
	shape     harness.Shape
	namespace string
	n         int
	figures   measure.Figures
	from      time.Time
}

// settled is how long nothing may happen before what happened is counted: events are sent some
// time after what they tell of.
const settled = 2 * time.Second

func (c *counter) run(ctx context.Context) error {
	if err := c.lab.Namespace(ctx, c.namespace); err != nil {
		return err
	}
	for _, b := range c.shape.Beside {
		if err := c.lab.Client.Create(ctx, b.Resource, c.namespace, b.Object); err != nil {
			return err
		}
	}
	c.from = time.Now()
	for i := range c.n {
		o := c.shape.New(c.namespace, c.name(i))
		if err := c.lab.Client.Create(ctx, c.lab.Subject.Resource, c.namespace, o); err != nil {
			return err
		}
	}
	if err := c.until(ctx, c.shape.Done); err != nil {
		return err
	}
	if err := c.count("up", c.shape.Up, c.shape.Reads, c.shape.May, 0); err != nil {
		return err
	}
	before := c.statuses()
	c.from = time.Now()
	for i := range c.n {
		if err := c.lab.Client.Delete(ctx, harness.Path(c.lab.Subject.Resource, c.namespace, c.name(i))); err != nil {
			return err
		}
	}
	if err := c.until(ctx, c.lab.Subject.Gone); err != nil {
		return err
	}
	return c.count("down", c.shape.Down, c.shape.DownReads, c.shape.DownMay, before)
}

func (c *counter) name(i int) string { return fmt.Sprintf("%s-%d", c.shape.Name, i) }

func (c *counter) until(ctx context.Context, mark string) error {
	if err := c.lab.Watcher.Await(ctx, c.namespace, mark, c.n, patience(c.n)); err != nil {
		return err
	}
	return c.lab.Watcher.Quiet(ctx, settled, time.Minute)
}

func (c *counter) statuses() int {
	sum := 0
	for _, s := range c.lab.Watcher.Stories(c.namespace) {
		sum += len(s.Statuses)
	}
	return sum
}

// count holds what was asked for to what may be, and tells of what may not.
func (c *counter) count(way string, writes, reads, may map[string]int, statuses int) error {
	asked, err := managerRequests(c.lab, c.from)
	if err != nil {
		return err
	}
	got := asked.got
	put := func(what string, v int) {
		c.figures.Put(strings.Join([]string{c.shape.Name, way, what}, " "), float64(v)/float64(c.n))
	}
	status := "patch " + c.lab.Subject.Resource.Resource + "/status"
	published := c.statuses() - statuses
	put("statuses", published)
	put("events", got["create events"]+got["patch events"])
	put("statuses of components", asked.components)
	c.figures[statusesBeyond] += float64(abs(got[status] - published))
	c.figures[refusedWrites] += float64(asked.refused)
	c.figures[usesBeyond] += float64(max(0, asked.components-c.n*c.shape.Uses))
	total := got[status]
	delete(got, status)
	delete(got, "create events")
	delete(got, "patch events")
	for _, what := range slices.Sorted(maps.Keys(harness.Merged(got, writes, reads))) {
		have, want := got[what], c.n*(writes[what]+reads[what]+may[what])
		beside := abs(have - want)
		if write(what) {
			total += have
			c.figures[writesBeside] += float64(beside)
		} else {
			if may[what] > 0 || slices.Contains(c.shape.Shared, what) {
				beside = max(0, have-want)
			}
			put(what, have)
			c.figures[readsBesideList] += float64(beside)
		}
		if beside > 0 {
			c.lab.Tell("%s %s: %s: %d for %d objects, want %d", c.shape.Name, way, what, have, c.n, want)
		}
	}
	put("writes", total)
	return nil
}

// noopPasses touches objects that have nothing to be done for, and counts the writes.
func noopPasses(ctx context.Context, l *harness.Lab, m *harness.Manager, n int, f measure.Figures) error {
	l.Tell("touching objects")
	touched, err := resting(ctx, l, n)
	if err != nil {
		return err
	}
	before, err := m.Metrics(ctx)
	if err != nil {
		return err
	}
	from := time.Now()
	for _, path := range touched {
		touch := map[string]any{"metadata": map[string]any{cmp.Or(l.Subject.Touch, "labels"): map[string]any{"touched": strconv.FormatInt(from.UnixNano(), 10)}}}
		if err := l.Client.Patch(ctx, path, touch); err != nil {
			return err
		}
	}
	if err := l.Watcher.Quiet(ctx, settled, time.Minute); err != nil {
		return err
	}
	after, err := m.Metrics(ctx)
	if err != nil {
		return err
	}
	const passes = "controller_runtime_reconcile_total"
	if after.Sum(passes) == before.Sum(passes) {
		l.Fail(errors.New("no pass was made over what was touched: that nothing is written says nothing"))
	}
	asked, err := managerRequests(l, from)
	if err != nil {
		return err
	}
	writes, reads := asked.refused+asked.components, 0
	for what, have := range asked.got {
		if write(what) {
			writes += have
		} else {
			reads += have
		}
	}
	f.Put("noop touched", float64(len(touched)))
	f.Put("noop writes", float64(writes))
	f.Put("noop reads", float64(reads))
	return nil
}

// requests are those of the manager.
type requests struct {
	// got are those that succeeded, by verb and resource. Watches are not among them, nor is
	// the Lease, nor what tells of Components how many use them.
	got map[string]int
	// refused are the writes that did not succeed, leases are those about the Lease, and components those that tell
	// of Components how many use them, which belong to no Experiment.
	refused, leases, components int
}

func managerRequests(l *harness.Lab, from time.Time) (requests, error) {
	all, err := l.Requests()
	if err != nil {
		return requests{}, err
	}
	r := requests{got: map[string]int{}}
	user := fmt.Sprintf("system:serviceaccount:%s:%s", l.Subject.AccountNamespace, l.Subject.Account)
	for _, request := range all {
		switch {
		case request.User != user || request.Time.Before(from) || request.Verb == "watch":
		case request.Resource == "leases":
			r.leases++
		case request.Resource == "components" && request.Subresource == "status":
			r.components++
		case request.Write() && request.Code >= 300:
			r.refused++
			l.Tell("refused: %s %s %s/%s: %d", request.Verb, request.Resource, request.Namespace, request.Name, request.Code)
		default:
			r.got[what(request)]++
		}
	}
	return r, nil
}

func what(r env.Request) string {
	if r.Subresource != "" {
		return r.Verb + " " + r.Resource + "/" + r.Subresource
	}
	return r.Verb + " " + r.Resource
}

func write(what string) bool {
	verb, _, _ := strings.Cut(what, " ")
	return env.Request{Verb: verb}.Write()
}

func abs(v int) int { return max(v, -v) }

// resting are the paths of objects that have nothing to be done for, and of their children.
func resting(ctx context.Context, l *harness.Lab, n int) ([]string, error) {
	rests := []struct {
		namespace string
		variant   harness.Variant
		mark      string
	}{{"noop-done", harness.Plain, l.Subject.Done}, {"noop-held", harness.Held, l.Subject.Held}, {"noop-refused", harness.Refused, l.Subject.Refused}}
	for _, rest := range rests {
		if err := l.Namespace(ctx, rest.namespace); err != nil {
			return nil, err
		}
		if err := l.CreateAll(ctx, rest.namespace, "noop", n, rest.variant); err != nil {
			return nil, err
		}
		if err := l.Watcher.Await(ctx, rest.namespace, rest.mark, n, patience(n)); err != nil {
			return nil, err
		}
	}
	if err := l.Watcher.Quiet(ctx, settled, time.Minute); err != nil {
		return nil, err
	}
	var touched []string
	for _, rest := range rests {
		touched = append(touched, l.Watcher.Paths(rest.namespace)...)
	}
	return touched, nil
}
