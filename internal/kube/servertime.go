package kube

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

const (
	// mostApart is how far apart the clocks of two machines are at most that somebody keeps: those that nobody does are off by
	// hours, and a zone or daylight saving by one.
	mostApart = time.Minute
	// precision is that of a Date.
	precision = time.Second
)

// ServerTime compares the clock of this machine with that of the API server, by the Date of its answers, and keeps a client from
// changing anything where they are far apart: what is due, and whose time is over, is told by the clock, from what the API server
// has dated.
type ServerTime struct {
	clock clock.PassiveClock
	last  atomic.Pointer[reading]
}

// NewServerTime compares a clock, which must be that of the machine.
func NewServerTime(c clock.PassiveClock) *ServerTime { return &ServerTime{clock: c} }

// reading is what an answer told: at a moment the clock of this machine was ahead of the API server's, or behind.
type reading struct {
	at    time.Time
	ahead time.Duration
}

// Ahead is by how much the clock of this machine is ahead of the API server's now, as far as is known: zero where they may be alike.
// One that was set since the last answer is found by the monotonic clock.
func (t *ServerTime) Ahead() time.Duration {
	last, now := t.last.Load(), t.clock.Now()
	if last == nil {
		return 0
	}
	set := now.Round(0).Sub(last.at.Round(0)) - now.Sub(last.at)
	if set.Abs() < precision { // the two clocks are not read at one moment
		set = 0
	}
	return last.ahead + set
}

// old says whether the last answer is not of just now.
func (t *ServerTime) old() bool {
	last := t.last.Load()
	return last == nil || Elapsed(last.at, t.clock.Now()) >= precision
}

// Apart is an error while the clocks are so far apart that nothing can be done by the time.
func (t *ServerTime) Apart() error {
	ahead, is := t.Ahead(), "ahead of"
	if ahead < 0 {
		ahead, is = -ahead, "behind"
	}
	if ahead <= mostApart {
		return nil
	}
	return fmt.Errorf("the clock of this machine is %s %s that of the API server, and by the time nothing is done: set the one that is wrong",
		ahead.Round(10*time.Second), is)
}

// Check is a check of readiness, an error while the clocks are apart. It asks the API server anything before it says so: a manager that
// has nothing to do, and no Lease, would hear nothing else for long after this machine has stood still.
func (t *ServerTime) Check(ask func(context.Context) error) healthz.Checker {
	return func(r *http.Request) error {
		return t.apartNow(func() { _ = ask(r.Context()) }) // its answer is what is compared
	}
}

// apartNow is Apart by an answer of just now: after one of the clocks was set, or this machine stood still, there may be no other.
func (t *ServerTime) apartNow(ask func()) error {
	if t.Apart() != nil && t.old() {
		ask()
	}
	return t.Apart()
}

// Gauge is a metric of how far the clocks are apart.
func (t *ServerTime) Gauge() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "labkeeper_clock_ahead_seconds",
		Help: "By how much the clock of the manager is ahead of the API server's, negative if it is behind; 0 where they may be alike.",
	}, func() float64 { return t.Ahead().Seconds() })
}

// Wrap is a transport.WrapperFunc.
func (t *ServerTime) Wrap(next http.RoundTripper) http.RoundTripper {
	d := dated{t, next}
	return fence{func(r *http.Request) error { return t.apartNow(func() { d.ask(r) }) }, d}
}

// dated are requests of which the answers are compared.
type dated struct {
	time *ServerTime
	next http.RoundTripper
}

// RoundTrip is that of http.RoundTripper.
func (d dated) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := d.time.clock.Now()
	response, err := d.next.RoundTrip(r)
	if err == nil {
		d.time.note(sent, response)
	}
	return response, err
}

// WrappedRoundTripper is that of net.RoundTripperWrapper.
func (d dated) WrappedRoundTripper() http.RoundTripper { return d.next }

// ask asks for an answer, whatever it is, of the API server that a request is for.
func (d dated) ask(r *http.Request) {
	asks := r.Clone(r.Context())
	asks.Method, asks.Body, asks.GetBody, asks.ContentLength = http.MethodGet, nil, nil, 0
	asks.Header.Del("Content-Type")
	prefix, _, _ := strings.Cut(asks.URL.Path, "/api")
	asks.URL.Path, asks.URL.RawPath, asks.URL.RawQuery = prefix+"/version", "", ""
	if response, err := d.RoundTrip(asks); err == nil {
		_, _ = io.Copy(io.Discard, response.Body) // or the connection ends with it
		_ = response.Body.Close()
	}
}

// note compares the clocks by an answer to what was sent at a moment: it is of some moment since.
func (t *ServerTime) note(sent time.Time, answer *http.Response) {
	date, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		return
	}
	now := t.clock.Now()
	least, most := sent.Sub(date.Add(precision)), now.Sub(date)
	t.last.Store(&reading{now, max(least, 0) + min(most, 0)})
}
