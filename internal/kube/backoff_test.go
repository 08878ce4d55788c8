package kube

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestBackoff(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	b := Backoff().(*backoff)
	b.clock = clock
	one, two := reconcile.Request{NamespacedName: types.NamespacedName{Name: "one"}}, reconcile.Request{NamespacedName: types.NamespacedName{Name: "two"}}

	// Alone it doubles.
	var waits []time.Duration
	for range 11 {
		wait := b.When(one)
		waits = append(waits, wait)
		clock.SetTime(clock.Now().Add(wait))
	}
	ms := func(all ...int) (out []time.Duration) {
		for _, n := range all {
			out = append(out, time.Duration(n)*time.Millisecond)
		}
		return out
	}
	if want := ms(200, 400, 800, 1600, 3200, 6400, 12800, 25600, 51200, 60000, 60000); !slices.Equal(waits, want) {
		t.Errorf("it waits %v, want %v", waits, want)
	}
	if n := b.NumRequeues(one); n != 11 {
		t.Errorf("it has failed %d times", n)
	}
	b.Forget(one)
	if wait := b.When(one); wait != firstRetry || b.NumRequeues(one) != 1 {
		t.Errorf("it waits %v after it was forgotten", wait)
	}

	// What wakes an object while it fails makes it wait no longer than it has failed.
	for range 100 {
		clock.SetTime(clock.Now().Add(10 * time.Millisecond))
		b.When(two)
	}
	if wait := b.When(two); wait > time.Second+firstRetry {
		t.Errorf("it waits %v after a second", wait)
	}
}

// What is no error is looked at as late as what is one, and not too soon.
func TestAgain(t *testing.T) {
	for since, want := range map[time.Duration]time.Duration{
		-time.Hour: 15 * time.Second, 0: 15 * time.Second, 20 * time.Second: 20 * time.Second, time.Hour: time.Minute,
	} {
		if got := Again(since, 15*time.Second); got != want {
			t.Errorf("after %s: got %s, want %s", since, got, want)
		}
	}
}
