// Package noop puts to sleep what there is not: for trying plans, and for testing them. Its resources take as long as
// they are told to, and fail when they are told to; nothing is read or written.
//
// # Parameters
//
//	resources: 3             # 1 to 1000, by default 1
//	delaySeconds: 2          # that each of them takes, 0 to 3600
//	randomDelaySeconds: 5    # and up to so many more, 0 to 30
//	failureMode: shutdown    # none, shutdown, wakeup or both
//	failures: 2              # attempts that fail; 0 is every one
//	failureMessage: no luck
//
// What is random is the same in each run: it comes from the resource, the operation and the attempt.
package noop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/labkeeper/labkeeper/internal/dispatch"
	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/restore"
)

// Type of targets.
const Type = "noop"

const (
	maxResources   = 1000
	maxDelay       = 3600
	maxRandomDelay = 30
)

// Executor is that of nothing.
type Executor struct{}

// parameters as they are written.
type parameters struct {
	Resources          *int   `json:"resources"`
	DelaySeconds       int    `json:"delaySeconds"`
	RandomDelaySeconds int    `json:"randomDelaySeconds"`
	FailureMode        string `json:"failureMode"`
	Failures           int    `json:"failures"`
	FailureMessage     string `json:"failureMessage"`
}

// fails are the operations that fail by failureMode.
var fails = map[string][]dispatch.Operation{
	"": nil, "none": nil, "shutdown": {dispatch.Shutdown}, "wakeup": {dispatch.WakeUp}, "both": {dispatch.Shutdown, dispatch.WakeUp},
}

// Parse reads parameters.
func (Executor) Parse(raw json.RawMessage) (executor.Parameters, error) {
	p := &parameters{}
	if err := executor.Decode(raw, p); err != nil {
		return nil, err
	}
	if p.Resources == nil {
		one := 1
		p.Resources = &one
	}
	for _, within := range []struct {
		path            string
		value, from, to int
	}{
		{"resources", *p.Resources, 1, maxResources},
		{"delaySeconds", p.DelaySeconds, 0, maxDelay},
		{"randomDelaySeconds", p.RandomDelaySeconds, 0, maxRandomDelay},
		{"failures", p.Failures, 0, 1 << 30},
	} {
		if within.value < within.from || within.value > within.to {
			return nil, &executor.InvalidError{Path: within.path, Problem: fmt.Sprintf("must be from %d to %d", within.from, within.to)}
		}
	}
	if _, ok := fails[p.FailureMode]; !ok {
		return nil, &executor.InvalidError{Path: "failureMode", Problem: "must be none, shutdown, wakeup or both"}
	}
	return p, nil
}

// Needs are none.
func (p *parameters) Needs() executor.Needs { return executor.Needs{} }

// Open readies the target.
func (p *parameters) Open(_ context.Context, session executor.Session) (executor.Target, error) {
	return &target{parameters: p, session: session}, nil
}

type target struct {
	*parameters
	session executor.Session
}

// What is kept of a resource, and what it was made.
var (
	awake  = json.RawMessage(`{"awake":true}`)
	asleep = json.RawMessage(`{"awake":false}`)
)

// Snapshot makes up the resources.
func (t *target) Snapshot(context.Context) ([]executor.Resource, error) {
	all := make([]executor.Resource, *t.Resources)
	for i := range all {
		all[i] = executor.Resource{Key: fmt.Sprintf("noop/%04d", i+1), State: awake}
	}
	return all, nil
}

// Shutdown takes its time.
func (t *target) Shutdown(ctx context.Context, captured executor.Captured) (json.RawMessage, error) {
	if err := t.act(ctx, captured.Key); err != nil {
		return nil, fmt.Errorf("putting %s to sleep: %w", captured.Key, err)
	}
	return asleep, nil
}

// WakeUp takes its time.
func (t *target) WakeUp(ctx context.Context, resource restore.Resource) (executor.Ending, error) {
	if err := t.act(ctx, resource.Key); err != nil {
		return executor.Ending{}, fmt.Errorf("waking %s: %w", resource.Key, err)
	}
	return executor.Ending{State: restore.Restored}, nil
}

// Settled is everything, at once.
func (t *target) Settled(context.Context, restore.Resource, bool) (string, error) { return "", nil }

// Await is not at all.
func (t *target) Await() time.Duration { return 0 }

// act waits, and then fails if it is to.
func (t *target) act(ctx context.Context, key string) error {
	timer := time.NewTimer(t.delay(key))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, operation := range fails[t.FailureMode] {
		if operation == t.session.Operation && (t.Failures == 0 || t.session.Attempt <= t.Failures) {
			if t.FailureMessage != "" {
				return errors.New(t.FailureMessage)
			}
			return fmt.Errorf("failing, as failureMode %s wants", t.FailureMode)
		}
	}
	return nil
}

// delay is how long a resource takes.
func (t *target) delay(key string) time.Duration {
	delay := time.Duration(t.DelaySeconds) * time.Second
	if t.RandomDelaySeconds == 0 {
		return delay
	}
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%s %d %d", key, t.session.Operation, t.session.Attempt)
	return delay + time.Duration(hash.Sum64()%uint64(time.Duration(t.RandomDelaySeconds)*time.Second+1))
}
