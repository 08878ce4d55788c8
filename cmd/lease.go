package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/leaderelection"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"github.com/labkeeper/labkeeper/internal/kube"
)

// leaseName is what the Lease is called, and who leads by it is told in metrics.
const leaseName = "labkeeper"

// The Lease: a leader that dies is followed within five seconds. It stops leading when it could not
// renew for renewEvery and renewDeadline, 3.6 s at most, before anybody can follow.
const (
	leaseDuration = 4 * time.Second
	renewDeadline = 3 * time.Second
	// Who waits to lead tries every one to 2.2 periods, because client-go adds up to 1.2 at random.
	// So it may be 0.22 s late to see the last renewal of a leader that dies and as late again to
	// see that the Lease has run out, or that it was released.
	retryPeriod = 100 * time.Millisecond
	// renewEvery is how old a renewal is before the next: client-go would renew as often as it tries.
	renewEvery = 500 * time.Millisecond
	// wields is how long after a renewal was sent the manager may write: as long as it may lead, which leaves a request the
	// rest of leaseDuration to come in.
	wields = renewEvery + renewDeadline + retryPeriod
)

// newLease is the lock of the manager that leads. Who leads, the logs say.
func newLease(config *rest.Config, namespace string) (*lease, error) {
	// It has a timeout of its own, and sets it in what it is given: every other request would have it, too, however long it may
	// take, as a write of a large object.
	lock, err := leaderelection.NewResourceLock(rest.CopyConfig(config), unrecorded{}, leaderelection.Options{
		LeaderElection: true, LeaderElectionID: leaseName, LeaderElectionNamespace: namespace, RenewDeadline: renewDeadline,
	})
	if err != nil {
		return nil, err
	}
	return &lease{Interface: lock, clock: clock.RealClock{}}, nil
}

// lease renews less often than it is asked to.
type lease struct {
	resourcelock.Interface
	clock clock.PassiveClock

	mu sync.Mutex
	// renewed is when the lease was last written as ours; zero while it is not. acquired is when it came to be ours, as it says.
	renewed, acquired time.Time
	// holder is who has the lease, as it was read or written last; empty is nobody, as far as is known.
	holder string
	// answer is what the API server said last; nil while it has said nothing.
	answer atomic.Pointer[answer]
	// held is when the last renewal that was answered was sent; nil while the lease is not ours.
	held atomic.Pointer[time.Time]
}

// errFenced is why a write is not sent of who may not lead any more: another may have taken its place, and have taken down what
// a pass is about that stood still.
var errFenced = errors.New("the Lease was not renewed in time, and another manager may lead")

// errFollowed is why who has led does not take the lease once more: another has led meanwhile, and what a pass is about that stood
// still may be of before. It ends, and begins anew.
var errFollowed = errors.New("the Lease was somebody else's meanwhile")

// wielded is an error when another manager can lead. It is the fence of everything but the Lease.
func (l *lease) wielded() error {
	if held := l.held.Load(); held == nil || kube.Elapsed(*held, l.clock.Now()) >= wields {
		return errFenced
	}
	return nil
}

// answer is nil, or why the lease can be neither read nor written.
type answer struct{ refusal error }

// ready is an error while nobody can know who leads: a manager that may not read or write the lease would wait for ever.
func (l *lease) ready(*http.Request) error {
	switch said := l.answer.Load(); {
	case said == nil:
		return fmt.Errorf("the Lease %s has not been looked at yet", l.Describe())
	case said.refusal != nil:
		return fmt.Errorf("no manager can lead: %w", said.refusal)
	}
	return nil
}

// heard keeps what the API server says. What else goes wrong passes.
func (l *lease) heard(err error) {
	switch {
	case err == nil:
		l.answer.Store(&answer{})
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err), apierrors.IsNotFound(err): // the namespace
		l.answer.Store(&answer{err})
	}
}

// Get reads the lease, which is ours no more if it is somebody else's, or nobody's, however short ago it was renewed.
func (l *lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	l.heard(client.IgnoreNotFound(err)) // then it is created
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.holder = record.HolderIdentity; l.holder != l.Identity() {
			l.renewed = time.Time{}
			l.held.Store(nil)
		}
	}
	return record, raw, err
}

// Create takes a lease that is not there.
func (l *lease) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, r, l.Interface.Create)
}

// Update takes, renews or releases the lease, unless it was renewed just now, or is another's by the time that it would be released:
// who could not renew it releases it, too, and client-go does not look whose it is that it has just read.
func (l *lease) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, r, l.Interface.Update)
}

// write is over when it is answered, or as late as ctx and the timeout of the client say, and not when ctx is cancelled: a manager
// that is asked to stop just as it takes the lease would have it, know nothing of that, and not release it.
func (l *lease) write(ctx context.Context, r resourcelock.LeaderElectionRecord,
	write func(context.Context, resourcelock.LeaderElectionRecord) error,
) error {
	deadline, limited := ctx.Deadline()
	ctx = context.WithoutCancel(ctx)
	if limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	ours, now := r.HolderIdentity == l.Identity(), l.clock.Now()
	if ours && !l.renewed.IsZero() && now.Sub(l.renewed) < renewEvery {
		return nil
	}
	acquired := r.AcquireTime.Truncate(time.Microsecond) // as it is stored
	if ours && !l.acquired.IsZero() && !acquired.Equal(l.acquired) {
		return errFollowed
	}
	l.renewed = time.Time{} // one that fails may or may not have been stored
	if !ours {
		l.held.Store(nil)
		if l.holder != l.Identity() {
			return nil
		}
	}
	err := write(ctx, r)
	if l.heard(err); err != nil {
		return err
	}
	l.holder = r.HolderIdentity
	if ours {
		l.renewed, l.acquired = now, acquired
		l.held.Store(&now)
	}
	return nil
}

// unrecorded is for what records no Events.
type unrecorded struct{}

// GetEventRecorderFor returns a recorder that forgets.
func (unrecorded) GetEventRecorderFor(string) record.EventRecorder { return &record.FakeRecorder{} }

// GetEventRecorder returns none: nobody asks for it.
func (unrecorded) GetEventRecorder(string) recorder.EventRecorder { return nil }
