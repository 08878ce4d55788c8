package experiment

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// refusal is what cannot be done for an Experiment.
type refusal struct {
	// err is the last error.
	err error
	// since is when it failed for the first time.
	since time.Time
}

// refusals are what cannot be done for Experiments, and for how long. Only this manager knows: another
// one tries for as long again.
type refusals struct {
	mu sync.Mutex
	// byOwner has them by the UID of the Experiment and by what it is.
	byOwner map[types.UID]map[string]refusal
}

// of are those of an Experiment.
func (r *refusals) of(e *v1alpha1.Experiment) map[string]refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.byOwner[e.UID])
}

// note keeps what came of trying something: an error, or nil. One that says nothing of the thing
// itself, because the pass had no time left for it or what was seen is not what there is, changes
// nothing.
func (r *refusals) note(ctx context.Context, e *v1alpha1.Experiment, what string, err error, now time.Time) {
	if err != nil && (ctx.Err() != nil || kube.Conflict(err)) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.byOwner[e.UID]
	if err == nil {
		if delete(all, what); len(all) == 0 {
			delete(r.byOwner, e.UID)
		}
		return
	}
	if r.byOwner == nil {
		r.byOwner = map[types.UID]map[string]refusal{}
	}
	if all == nil {
		all = map[string]refusal{}
		r.byOwner[e.UID] = all
	}
	since := now
	if before, ok := all[what]; ok {
		since = before.since
	}
	all[what] = refusal{err, since}
}

// forget drops those of an Experiment that is gone.
func (r *refusals) forget(e *v1alpha1.Experiment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byOwner, e.UID)
}
