package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

// written is a lock that counts its writes.
type written struct {
	resourcelock.Interface
	n      int
	holder string
	err    error
}

func (w *written) Identity() string { return "me" }
func (w *written) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &resourcelock.LeaderElectionRecord{HolderIdentity: w.holder}, nil, w.err
}
func (w *written) Create(context.Context, resourcelock.LeaderElectionRecord) error {
	w.n++
	return w.err
}
func (w *written) Update(context.Context, resourcelock.LeaderElectionRecord) error {
	w.n++
	return w.err
}

// What a lease is written with.
var (
	ours     = resourcelock.LeaderElectionRecord{HolderIdentity: "me"}
	released = resourcelock.LeaderElectionRecord{}
)

// leaseStep is a moment at which something is done with a lease, or nothing, with an error of the server or none, and what then is.
type leaseStep struct {
	name  string
	after time.Duration
	do    func(context.Context, resourcelock.LeaderElectionRecord) error
	as    resourcelock.LeaderElectionRecord
	err   error
	want  bool
}

// A lease is renewed when the last renewal is half a second old, and taken, released and, when a
// renewal has failed, renewed at once.
func TestLeaseIsRenewedInTime(t *testing.T) {
	lock, now := &written{}, clocktesting.NewFakePassiveClock(time.Now())
	l := &lease{Interface: lock, clock: now}
	for _, step := range []leaseStep{
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

// Only who leads writes: who has not renewed in time may not any more, however long it has been standing still, nor who has read that
// another leads, and others never may.
func TestWielded(t *testing.T) {
	lock, now := &written{}, clocktesting.NewFakePassiveClock(time.Now())
	l := &lease{Interface: lock, clock: now}
	refused := errors.New("refused")
	read := func(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
		lock.holder = r.HolderIdentity
		_, _, err := l.Get(ctx)
		return err
	}
	another := resourcelock.LeaderElectionRecord{HolderIdentity: "another"}
	for _, step := range []leaseStep{
		{"not taken", 0, nil, ours, nil, false},
		{"read as ours, by whom it was not taken", 0, read, ours, nil, false},
		{"cannot be taken", 0, l.Create, ours, refused, false},
		{"taken", 0, l.Create, ours, nil, true},
		{"not renewed", wields - 1, nil, ours, nil, true},
		{"not renewed in time", 1, nil, ours, nil, false},
		{"renewed late", 0, l.Update, ours, nil, true},
		{"cannot be renewed", renewDeadline, l.Update, ours, refused, true},
		{"cannot be renewed in time", renewEvery + retryPeriod, l.Update, ours, refused, false},
		{"renewed later", 0, l.Update, ours, nil, true},
		{"perhaps released", 0, l.Update, released, refused, false},
		{"taken again", 0, l.Update, ours, nil, true},
		{"released", 0, l.Update, released, nil, false},
		{"taken once more", 0, l.Update, ours, nil, true},
		{"read as ours", 0, read, ours, nil, true},
		{"cannot be read", 0, read, another, refused, true},
		{"read as another's", 0, read, another, nil, false},
		{"taken back", 0, l.Update, ours, nil, true},
		{"read as nobody's", 0, read, released, nil, false},
	} {
		now.SetTime(now.Now().Add(step.after))
		if lock.err = step.err; step.do != nil {
			_ = step.do(t.Context(), step.as)
		}
		if err := l.wielded(); (err == nil) != step.want {
			t.Errorf("%s: %v", step.name, err)
		}
	}
}

// Who has led does not lead once more when another has, though nobody does by then: a pass that stood still would go on.
func TestLeadsOnce(t *testing.T) {
	lock, now := &written{}, clocktesting.NewFakePassiveClock(time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC))
	l := &lease{Interface: lock, clock: now}
	first := resourcelock.LeaderElectionRecord{HolderIdentity: "me", AcquireTime: metav1.NewTime(now.Now())}
	stored, anew := first, first
	stored.AcquireTime = metav1.NewTime(first.AcquireTime.Truncate(time.Microsecond))
	anew.AcquireTime = metav1.NewTime(first.AcquireTime.Add(time.Minute))
	for _, step := range []leaseStep{
		{"taken", 0, l.Create, first, nil, true},
		{"renewed", renewEvery, l.Update, first, nil, true},
		{"renewed as it is stored", wields, l.Update, stored, nil, true},
		{"taken anew", wields, l.Update, anew, nil, false},
		{"made anew", 0, l.Create, anew, nil, false},
	} {
		now.SetTime(now.Now().Add(step.after))
		before := lock.n
		err := step.do(t.Context(), step.as)
		if got := lock.n > before; got != step.want || (err == nil) != step.want || (l.wielded() == nil) != step.want {
			t.Errorf("%s: written is %t, %v, and it may write: %v", step.name, got, err, l.wielded())
		}
	}
}

// unreadable is a lock that cannot be read.
type unreadable struct {
	resourcelock.Interface
	err error
}

func (unreadable) Describe() string { return "labkeeper-system/labkeeper" }
func (unreadable) Identity() string { return "me" }
func (u unreadable) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &resourcelock.LeaderElectionRecord{}, nil, u.err
}
func (u unreadable) Create(context.Context, resourcelock.LeaderElectionRecord) error { return u.err }

// A manager that may never lead is not ready, in place of one that looks well and does nothing; one that could not ask is as before.
func TestReadyToLead(t *testing.T) {
	leases := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	forbidden := apierrors.NewForbidden(leases, "labkeeper", errors.New("no Role"))
	absent := apierrors.NewNotFound(leases, "labkeeper")
	get := func(l *lease) { _, _, _ = l.Get(t.Context()) }
	create := func(l *lease) { _ = l.Create(t.Context(), ours) }
	l := &lease{clock: clock.RealClock{}}
	for _, step := range []struct {
		name string
		err  error
		do   func(*lease)
		want bool
	}{
		{"asked in vain", errors.New("connection refused"), get, false},
		{"may not read", forbidden, get, false},
		{"asked in vain again", errors.New("connection refused"), get, false},
		{"there is none yet", absent, get, true},
		{"may not create", forbidden, create, false},
		{"there is one", nil, get, true},
		{"its token has expired", apierrors.NewUnauthorized("the token has expired"), get, false},
		{"it has another", nil, get, true},
		{"asked in vain once", errors.New("connection refused"), get, true},
		{"no namespace", absent, create, false},
		{"created", nil, create, true},
	} {
		l.Interface = unreadable{err: step.err}
		step.do(l)
		if err := l.ready(nil); (err == nil) != step.want {
			t.Errorf("%s: %v", step.name, err)
		}
	}
}

// stored is a lock in memory: who takes it is told, and has to wait for the answer.
type stored struct {
	mu     sync.Mutex
	record *resourcelock.LeaderElectionRecord
	taken  func()
}

func (*stored) Identity() string   { return "me" }
func (*stored) Describe() string   { return "the lock" }
func (*stored) RecordEvent(string) {}
func (s *stored) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.record == nil {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, "labkeeper")
	}
	r := *s.record
	raw, err := json.Marshal(r)
	return &r, raw, cmp.Or(err, ctx.Err())
}
func (s *stored) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return s.Update(ctx, r)
}
func (s *stored) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record = &r
	if r.HolderIdentity != "" {
		s.taken()
	}
	return ctx.Err()
}

// A manager that is asked to stop while it takes the Lease releases it.
func TestLeaseThatIsJustTakenIsReleased(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	lock := &stored{taken: stop}
	elect(ctx, t, lock)
	if lock.record == nil {
		t.Fatal("the lock was never taken")
	}
	if holder := lock.record.HolderIdentity; holder != "" {
		t.Errorf("the lock is left to %q", holder)
	}
}

// elect takes part in an election until ctx is done.
func elect(ctx context.Context, t *testing.T, lock resourcelock.Interface) {
	t.Helper()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &lease{Interface: lock, clock: clock.RealClock{}}, ReleaseOnCancel: true,
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
	})
	if err != nil {
		t.Fatal(err)
	}
	elector.Run(ctx)
}

// Who has lost the Lease, and does not know it yet, leaves it to whoever has it: it is read anew to be released, so that no conflict
// keeps it from that.
func TestLeaseOfAnotherIsNotReleased(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	lock := &stored{}
	lock.taken = func() {
		lock.record = &resourcelock.LeaderElectionRecord{HolderIdentity: "another"}
		stop()
	}
	elect(ctx, t, lock)
	if holder := lock.record.HolderIdentity; holder != "another" {
		t.Errorf("the lock is left to %q", holder)
	}
}

// A write ends as late as it is told to.
func TestLeaseWriteHasItsDeadline(t *testing.T) {
	ctx, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	lock := &stored{taken: func() {}}
	l := &lease{Interface: lock, clock: clock.RealClock{}}
	if err := l.Update(ctx, resourcelock.LeaderElectionRecord{HolderIdentity: "me"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the write ends with %v", err)
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
