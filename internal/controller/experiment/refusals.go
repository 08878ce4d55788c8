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
	// begun is, by the same, when something was begun last that has not come to its end.
	begun map[types.UID]map[string]time.Time
}

// begin notes that something is begun for an Experiment; "" is nothing.
func (r *refusals) begin(e *v1alpha1.Experiment, what string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if what == "" {
		return
	}
	if r.begun == nil {
		r.begun = map[types.UID]map[string]time.Time{}
	}
	if r.begun[e.UID] == nil {
		r.begun[e.UID] = map[string]time.Time{}
	}
	r.begun[e.UID][what] = now
}

// end notes that it has come to its end.
func (r *refusals) end(e *v1alpha1.Experiment, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(r.begun[e.UID], what); len(r.begun[e.UID]) == 0 {
		delete(r.begun, e.UID)
	}
}

// longestAgo compares what has not come to its end by when it was begun last, and what was not begun comes first: what hangs, by
// somebody's webhook, may take all the time of a pass, and must not take that of the others in every pass.
func (r *refusals) longestAgo(e *v1alpha1.Experiment) func(a, b string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	begun := maps.Clone(r.begun[e.UID])
	return func(a, b string) int { return begun[a].Compare(begun[b]) }
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
	delete(r.begun, e.UID)
}
