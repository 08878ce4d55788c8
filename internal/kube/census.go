package kube

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// censusTimeout is how long a census waits for a cache: the metrics of everything else, and of a manager that stands by, come with it.
const censusTimeout = 100 * time.Millisecond

// The types of the conditions that a census counts by. All kinds of ours that have such conditions call them so.
const (
	conditionReady    = "Ready"
	conditionDegraded = "Degraded"
)

// State is what is counted of an object.
type State struct {
	// Phase in a word; empty for kinds that have none.
	Phase string
	// Conditions of the object, of which Ready and Degraded count.
	Conditions []metav1.Condition
	// Unjudged says that the kind has no condition Ready: nothing can be said of how long an object is not.
	Unjudged bool
	// Overdue says that the object is being deleted, and that the time is over that its spec gives that.
	Overdue bool
}

// Overdue says whether an object has been deleted for longer than a deadline: since a manager has acted on that, or, where none has, since
// it was asked for. Nil is not yet.
func Overdue(asked, acted *metav1.Time, deadline time.Duration, now time.Time) bool {
	if asked == nil {
		return false
	}
	return now.Sub(cmp.Or(acted, asked).Time) > deadline
}

// census counts the objects of a kind by their states, whenever it is asked, as a cache has them: several managers say the same.
type census[T client.Object] struct {
	reader client.Reader
	clock  clock.PassiveClock
	empty  client.ObjectList
	state  func(T, time.Time) State

	objects, unready, degraded, overdue *prometheus.Desc
}

// Count has a manager tell the metrics of a kind that NewCensus makes, by its own cache.
func Count[T client.Object](mgr ctrl.Manager, kind string, c clock.PassiveClock, empty client.ObjectList, state func(T, time.Time) State) error {
	if err := metrics.Registry.Register(NewCensus(kind, mgr.GetCache(), c, empty, state)); err != nil {
		return fmt.Errorf("registering the metrics of %s objects: %w", kind, err)
	}
	return nil
}

// NewCensus makes the metrics labkeeper_objects, labkeeper_longest_not_ready_seconds, labkeeper_degraded_objects and
// labkeeper_overdue_teardowns of a kind, for instance Experiment. What they count is listed, into lists like empty, from a cache, which
// should know the kind and not wait for its own writes. While it is not filled there are no metrics of the kind. The state of an object
// is that at a moment; state must not change the object, nor keep it.
func NewCensus[T client.Object](kind string, cache client.Reader, c clock.PassiveClock, empty client.ObjectList, state func(T, time.Time) State) prometheus.Collector {
	of := prometheus.Labels{"kind": kind}
	return &census[T]{
		reader: cache, clock: c, empty: empty, state: state,
		objects: prometheus.NewDesc("labkeeper_objects",
			"Objects of a kind by their phase, which is empty for kinds without one, and by their condition Ready: True, False or Unknown.",
			[]string{"phase", "ready"}, of),
		unready: prometheus.NewDesc("labkeeper_longest_not_ready_seconds",
			"For how long the object has not been Ready, of a kind and phase, and for a reason, that has not been for the longest; one that was never looked at since it was created, without a reason.",
			[]string{"phase", "reason"}, of),
		degraded: prometheus.NewDesc("labkeeper_degraded_objects",
			"Objects of a kind with condition Degraded, by its reason.",
			[]string{"reason"}, of),
		overdue: prometheus.NewDesc("labkeeper_overdue_teardowns",
			"Objects of a kind that are being deleted for longer than spec.deletion.deadline; 0 for kinds that have none.",
			nil, of),
	}
}

// Describe is that of prometheus.Collector.
func (c *census[T]) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.objects, c.unready, c.degraded, c.overdue} {
		to <- d
	}
}

// Collect is that of prometheus.Collector.
func (c *census[T]) Collect(to chan<- prometheus.Metric) {
	counts, known := c.count()
	if !known {
		return
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for k, n := range counts.objects {
		gauge(c.objects, float64(n), k.phase, string(k.ready))
	}
	for k, longest := range counts.unready {
		gauge(c.unready, longest.Seconds(), k.phase, k.reason)
	}
	for reason, n := range counts.degraded {
		gauge(c.degraded, float64(n), reason)
	}
	gauge(c.overdue, float64(counts.overdue))
}

// count counts what a cache has, and says whether it is known: a list of a cache that is not filled waits, and of one that was not started
// or has not heard of the kind fails.
func (c *census[T]) count() (counts counts, known bool) {
	ctx, cancel := context.WithTimeout(context.Background(), censusTimeout) //nolint:forbidigo // a Collector is given none
	defer cancel()
	list := c.empty.DeepCopyObject().(client.ObjectList)
	if err := c.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return counts, false
	}
	counts, now := newCounts(), c.clock.Now()
	err := meta.EachListItem(list, func(item runtime.Object) error {
		o := item.(T)
		counts.add(c.state(o, now), o.GetCreationTimestamp().Time, now)
		return nil
	})
	return counts, err == nil
}

// counts are the objects of a kind by their states.
type counts struct {
	objects map[phaseReady]int
	// unready is for how long an object has not been Ready, at most.
	unready  map[phaseReason]time.Duration
	degraded map[string]int
	overdue  int
}

type phaseReady struct {
	phase string
	ready metav1.ConditionStatus
}

type phaseReason struct{ phase, reason string }

func newCounts() counts {
	return counts{objects: map[phaseReady]int{}, unready: map[phaseReason]time.Duration{}, degraded: map[string]int{}}
}

// add counts an object that was created at a moment.
func (c *counts) add(s State, created, now time.Time) {
	status, reason, since := readiness(s.Conditions, created)
	c.objects[phaseReady{s.Phase, status}]++
	if status != metav1.ConditionTrue && !s.Unjudged {
		k := phaseReason{s.Phase, reason}
		c.unready[k] = max(c.unready[k], now.Sub(since)) // 0 for one of a clock that is ahead
	}
	if d := meta.FindStatusCondition(s.Conditions, conditionDegraded); d != nil && d.Status == metav1.ConditionTrue {
		c.degraded[d.Reason]++
	}
	if s.Overdue {
		c.overdue++
	}
}

// readiness is what condition Ready says, and since when; one that is not there is Unknown since the object was created.
func readiness(all []metav1.Condition, created time.Time) (status metav1.ConditionStatus, reason string, since time.Time) {
	r := meta.FindStatusCondition(all, conditionReady)
	if r == nil {
		return metav1.ConditionUnknown, "", created
	}
	return r.Status, r.Reason, r.LastTransitionTime.Time
}
