package kube

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/lru"
)

// A child is brought to the same state again at once so many times, and from then on once in ContendAgain: who changes it, or
// deletes it, by a program would have both at work for ever.
const (
	ContendAtOnce = 5
	ContendAgain  = time.Minute
	// contending is of how many children it is remembered.
	contending = 4096
)

// Fights are how often children were put right lately, by names of them. A manager that starts knows of none.
type Fights struct {
	mutex sync.Mutex
	known *lru.Cache
}

// fight is about one child.
type fight struct {
	// wanted is what was written last.
	wanted string
	again  *rate.Limiter
}

func (f *Fights) of(child string) *fight {
	if f.known == nil {
		f.known = lru.New(contending)
	}
	if known, ok := f.known.Get(child); ok {
		return known.(*fight)
	}
	known := &fight{again: rate.NewLimiter(rate.Every(ContendAgain), ContendAtOnce)}
	f.known.Add(child, known)
	return known
}

// Wait is how long the next write has to wait that makes a child what it was made by the last.
func (f *Fights) Wait(child, wanted string, now time.Time) time.Duration {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	known := f.of(child)
	if known.wanted != wanted {
		return 0
	}
	reserved := known.again.ReserveN(now, 1)
	defer reserved.CancelAt(now)
	return reserved.DelayFrom(now)
}

// Wrote counts a write that has made a child something.
func (f *Fights) Wrote(child, wanted string, now time.Time) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if known := f.of(child); known.wanted == wanted {
		known.again.AllowN(now, 1)
	} else {
		known.wanted = wanted
	}
}

// Content tells children apart by what they are to be.
func Content(wanted *unstructured.Unstructured) string {
	text, _ := json.Marshal(wanted.Object) // JSON to begin with
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// ContendedError says that a child is not put right now.
type ContendedError struct {
	// Object is the child.
	Object string
}

func (e *ContendedError) Error() string {
	return fmt.Sprintf("somebody changes or deletes %s again and again; it is put right once in %s", e.Object, ContendAgain)
}
