package experimentdeployment

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
)

// A twin that somebody changes is put right at once so many times, and from then on once in contendAgain: who changes
// it by a program would have both at work for ever.
const (
	contendAtOnce = 5
	contendAgain  = time.Minute
)

// fights are how often twins were put right lately, by the UIDs of their owners. A manager that starts knows of none.
type fights struct {
	mutex sync.Mutex
	known *lru.Cache
}

// wait is how long the next time has to wait; where it is 0, that time is taken.
func (f *fights) wait(owner types.UID, now time.Time) time.Duration {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.known == nil {
		f.known = lru.New(1024)
	}
	limiter, ok := f.known.Get(owner)
	if !ok {
		limiter = rate.NewLimiter(rate.Every(contendAgain), contendAtOnce)
		f.known.Add(owner, limiter)
	}
	reserved := limiter.(*rate.Limiter).ReserveN(now, 1)
	wait := reserved.DelayFrom(now)
	if wait > 0 {
		reserved.CancelAt(now)
	}
	return wait
}
