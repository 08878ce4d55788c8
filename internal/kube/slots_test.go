package kube

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := NewSlots(2, Patience)
		var began atomic.Int32
		take := func(ctx context.Context, d time.Duration) {
			go func() {
				_ = slots.Do(ctx, func() error {
					began.Add(1)
					time.Sleep(d)
					return nil
				})
			}()
		}
		expect := func(after time.Duration, want int32) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if got := began.Load(); got != want {
				t.Errorf("%d have begun, and not %d", got, want)
			}
		}
		for range 5 {
			take(t.Context(), Patience/2)
		}
		expect(Patience/4, 2)
		expect(Patience/2, 4)
		expect(Patience/2, 5)
		for range 5 { // no more than four hang
			take(t.Context(), time.Hour)
		}
		expect(Patience/2, 7)
		expect(Patience, 9)
		expect(Patience, 9)
		time.Sleep(2 * time.Hour)
		for range 3 { // all that are over have let go once
			take(t.Context(), Patience/2)
		}
		expect(Patience/4, 12)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := slots.Do(ended, func() error { t.Error("One whose time is over must not begin"); return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("It says %v", err)
		}
		time.Sleep(time.Minute)
	})
}
