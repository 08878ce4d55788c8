//go:build !faults

package main

import (
	"time"

	"k8s.io/utils/clock"
)

// ledgerPace is how far apart the writes of a plan's ledger are.
const ledgerPace = 250 * time.Millisecond

// systemClock is the time that reconcilers go by.
func systemClock() (clock.PassiveClock, error) { return clock.RealClock{}, nil }
