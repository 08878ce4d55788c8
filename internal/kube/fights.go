package experimentdeployment

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
)

// The same twin is written again at once so many times, and from then on once in contendAgain: who changes it, or
// deletes it, by a program would have both at work for ever.
const (
	contendAtOnce = 5
	contendAgain  = time.Minute
)

// fights are how often twins were put right lately, by the UIDs of their owners. A manager that starts knows of none.
type fights struct {
	mutex sync.Mutex
	known *lru.Cache
}

// fight is about one twin.
type fight struct {
	// wanted is a hash of what was written last.
	wanted string
	again  *rate.Limiter
}

func (f *fights) of(owner types.UID) *fight {
	if f.known == nil {
		f.known = lru.New(1024)
	}
	if known, ok := f.known.Get(owner); ok {
		return known.(*fight)
	}
	known := &fight{again: rate.NewLimiter(rate.Every(contendAgain), contendAtOnce)}
	f.known.Add(owner, known)
	return known
}

// wait is how long the next write has to wait that makes the twin what it was made by the last.
func (f *fights) wait(owner types.UID, wanted string, now time.Time) time.Duration {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	known := f.of(owner)
	if known.wanted != wanted {
		return 0
	}
	reserved := known.again.ReserveN(now, 1)
	defer reserved.CancelAt(now)
	return reserved.DelayFrom(now)
}

// wrote counts a write that has changed something.
func (f *fights) wrote(owner types.UID, wanted string, now time.Time) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if known := f.of(owner); known.wanted == wanted {
		known.again.AllowN(now, 1)
	} else {
		known.wanted = wanted
	}
}
