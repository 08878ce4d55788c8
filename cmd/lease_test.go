package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clocktesting "k8s.io/utils/clock/testing"
)

// written is a lock that counts its writes.
type written struct {
	resourcelock.Interface
	n   int
	err error
}

func (w *written) Identity() string { return "me" }
func (w *written) Create(context.Context, resourcelock.LeaderElectionRecord) error {
	w.n++
	return w.err
}
func (w *written) Update(context.Context, resourcelock.LeaderElectionRecord) error {
	w.n++
	return w.err
}

// A lease is renewed when the last renewal is half a second old, and taken, released and, when a
// renewal has failed, renewed at once.
func TestLeaseIsRenewedInTime(t *testing.T) {
	lock, now := &written{}, clocktesting.NewFakePassiveClock(time.Now())
	l := &lease{Interface: lock, clock: now}
	ours, released := resourcelock.LeaderElectionRecord{HolderIdentity: "me"}, resourcelock.LeaderElectionRecord{}
	for _, step := range []struct {
		name  string
		after time.Duration
		do    func(context.Context, resourcelock.LeaderElectionRecord) error
		as    resourcelock.LeaderElectionRecord
		err   error
		want  bool
	}{
		{"taken", 0, l.Create, ours, nil, true},
		{"young", retryPeriod, l.Update, ours, nil, false},
		{"still young", renewEvery - retryPeriod - 1, l.Update, ours, nil, false},
		{"old enough", 1, l.Update, ours, errors.New("refused"), true},
		{"after a failure", 0, l.Update, ours, nil, true},
		{"released", retryPeriod, l.Update, released, nil, true},
		{"taken again", 0, l.Update, ours, nil, true},
		{"taken from somebody", renewEvery, l.Update, ours, nil, true},
	} {
		now.SetTime(now.Now().Add(step.after))
		before := lock.n
		lock.err = step.err
		if err := step.do(t.Context(), step.as); (err != nil) != (lock.n > before && step.err != nil) {
			t.Errorf("%s: error %v", step.name, err)
		}
		if got := lock.n > before; got != step.want {
			t.Errorf("%s: written is %t", step.name, got)
		}
	}
}

// The requests that are not for the Lease may take longer than it has.
func TestLeaseKeepsItsTimeout(t *testing.T) {
	config := &rest.Config{Host: "https://192.0.2.1"}
	if _, err := newLease(config, "labkeeper-system"); err != nil {
		t.Fatal(err)
	}
	if config.Timeout != 0 || config.UserAgent != "" {
		t.Errorf("the client of the manager is the Lease's: timeout %s, user agent %q", config.Timeout, config.UserAgent)
	}
}
