//go:build !faults

package main

import "k8s.io/utils/clock"

// systemClock is the time that reconcilers go by.
func systemClock() (clock.PassiveClock, error) { return clock.RealClock{}, nil }
