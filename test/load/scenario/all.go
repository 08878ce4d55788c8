package scenario

import (
	"time"

	"github.com/labkeeper/labkeeper/test/load/harness"
)

// All are the scenarios.
func All() []harness.Scenario {
	return []harness.Scenario{
		{Name: "calls", About: "counts every request of an object's life", N: 20, Least: 1, Counts: true, Run: calls},
		{Name: "reaction", About: "how soon the manager acts, at 30 % load", N: 500, Least: 20, Run: reaction},
		{Name: "idle", About: "counts the requests of a settled system (-duration)", N: 10000, Least: 1, Counts: true, Run: idle},
		{Name: "experiment-burst", About: "all objects at once", N: 1000, Least: 10, Run: burst},
		{Name: "startup", About: "a manager starts with objects in store", N: 10000, Least: 20, Run: startup},
		{Name: "failover", About: "the leader is killed, and asked to stop", N: 10, Least: 1, Run: failover},
		{Name: "spec-storm", About: "specs are edited faster than they are acted on", N: 100, Least: 2, Run: specStorm},
		{Name: "twin", About: "objects one by one, in turns with those of a peer (-peer)", Subject: "twin", Peers: true, N: 200, Least: 10, Run: twin},
		{Name: "minute", About: "all objects begin at one minute", Subject: "hibernateplan-single", N: 1000, Least: 10, Run: minute},
		{Name: "night", About: "all objects begin at one minute, and guests live beside them", Subject: "hibernateplan-night", N: 500, Least: 10, Run: night},
		{Name: "noisy-neighbour", About: "one object beside a burst in another namespace", N: 5000, Least: 10, Run: noisyNeighbour},
	}
}

// patience is how long n objects may take to get somewhere: long enough for a machine that is
// busy with other things.
func patience(n int) time.Duration { return time.Minute + time.Duration(n)*time.Second }
