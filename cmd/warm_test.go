package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// added is a manager that keeps what it is to run.
type added struct {
	ctrl.Manager
	all []manager.Runnable
}

func (a *added) Add(r manager.Runnable) error {
	a.all = append(a.all, r)
	return nil
}

// cold is a controller whose caches are filled, or cannot be.
type cold struct{ err error }

func (cold) Start(context.Context) error     { return nil }
func (cold) NeedLeaderElection() bool        { return true }
func (c *cold) Warmup(context.Context) error { return c.err }

// unfilled is a cache with a kind that never comes.
type unfilled struct{ cache.Cache }

func (unfilled) WaitForCacheSync(ctx context.Context) bool {
	<-ctx.Done()
	return false
}

func TestStartGoesOnWithoutAKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !(impatient{unfilled{}}).WaitForCacheSync(t.Context()) || time.Since(began) != cacheGrace {
			t.Errorf("it does not go on, after %s", time.Since(began))
		}
		stopped, stop := context.WithCancel(t.Context())
		stop()
		if (impatient{unfilled{}}).WaitForCacheSync(stopped) {
			t.Error("it goes on when it is to stop")
		}
	})
}

func TestReadyWhenCachesAreFilled(t *testing.T) {
	inner := &added{}
	w := &warming{Manager: inner}
	first, second := &cold{}, &cold{errors.New("it may not list them")}
	for _, r := range []manager.Runnable{manager.RunnableFunc(func(context.Context) error { return nil }), first, second} {
		if err := w.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	warm := func(i int) { _ = inner.all[i].(interface{ Warmup(context.Context) error }).Warmup(t.Context()) }
	expect := func(when string, ready bool) {
		t.Helper()
		if err := w.ready(nil); (err == nil) != ready {
			t.Errorf("%s: got %v", when, err)
		}
	}
	expect("nobody has asked for any", false)
	warm(1)
	expect("one is", false)
	warm(2)
	expect("the other cannot be", false)
	second.err = nil
	warm(2)
	expect("filled", true)
	if elected, ok := inner.all[1].(manager.LeaderElectionRunnable); !ok || !elected.NeedLeaderElection() {
		t.Error("a controller acts without being elected")
	}
}
