//go:build faults

// What is random and decides when something happens (the backoff of informers) is the same in
// every run.
//go:debug randautoseed=0

package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"k8s.io/utils/clock"
)

// ledgerPace is how far apart the writes of a plan's ledger are: of a clock that stands still there are no quarters of a
// second, and what is written must not depend on how fast a machine is.
const ledgerPace = time.Duration(0)

// clockVariable names the file that the time is read from, in RFC 3339. Without it this manager
// has the clock of the others.
const clockVariable = "LABKEEPER_FAULTS_CLOCK"

// systemClock is the time that reconcilers go by.
func systemClock() (clock.PassiveClock, error) {
	path := os.Getenv(clockVariable)
	if path == "" {
		return clock.RealClock{}, nil
	}
	c := fileClock(path)
	if _, err := c.read(); err != nil {
		return nil, fmt.Errorf("$%s: %w", clockVariable, err)
	}
	return c, nil
}

// fileClock is a clock that stands still until somebody writes another time into its file.
type fileClock string

func (c fileClock) read() (time.Time, error) {
	content, err := os.ReadFile(string(c))
	if err != nil {
		return time.Time{}, err
	}
	return time.Parse(time.RFC3339Nano, strings.TrimSpace(string(content)))
}

// Now is the time in the file, which was there at the start.
func (c fileClock) Now() time.Time {
	now, err := c.read()
	if err != nil {
		panic(fmt.Sprintf("reading the clock: %v", err))
	}
	return now
}

// Since is the time that has passed in the file.
func (c fileClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }
