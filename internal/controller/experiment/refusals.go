package experiment

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	// of Experiments by their UIDs, those that there is any of.
	known map[types.UID]*hindered
}

// hindered is what has not come to its end for an Experiment.
type hindered struct {
	// owner is the Experiment.
	owner types.NamespacedName
	// refused is what cannot be done, by what it is.
	refused map[string]refusal
	// begun is, by the same, when something was begun last that has not come to its end.
	begun map[string]time.Time
}

// change changes what is known of an Experiment, and keeps nothing of one of which nothing is left.
func (r *refusals) change(e *v1alpha1.Experiment, change func(*hindered)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.known[e.UID]
	if h == nil {
		h = &hindered{client.ObjectKeyFromObject(e), map[string]refusal{}, map[string]time.Time{}}
	}
	change(h)
	switch {
	case len(h.refused)+len(h.begun) == 0:
		delete(r.known, e.UID)
	case r.known == nil:
		r.known = map[types.UID]*hindered{e.UID: h}
	default:
		r.known[e.UID] = h
	}
}

// begin notes that something is begun for an Experiment; "" is nothing.
func (r *refusals) begin(e *v1alpha1.Experiment, what string, now time.Time) {
	if what != "" {
		r.change(e, func(h *hindered) { h.begun[what] = now })
	}
}

// end notes that it has come to its end.
func (r *refusals) end(e *v1alpha1.Experiment, what string) {
	r.change(e, func(h *hindered) { delete(h.begun, what) })
}

// longestAgo compares what has not come to its end by when it was begun last, and what was not begun comes first: what hangs, by
// somebody's webhook, may take all the time of a pass, and must not take that of the others in every pass.
func (r *refusals) longestAgo(e *v1alpha1.Experiment) func(a, b string) int {
	begun := r.copyOf(e).begun
	return func(a, b string) int { return begun[a].Compare(begun[b]) }
}

// of are those of an Experiment.
func (r *refusals) of(e *v1alpha1.Experiment) map[string]refusal { return r.copyOf(e).refused }

// copyOf is what is known of an Experiment.
func (r *refusals) copyOf(e *v1alpha1.Experiment) (out hindered) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.known[e.UID]; h != nil {
		out = hindered{h.owner, maps.Clone(h.refused), maps.Clone(h.begun)}
	}
	return out
}

// note keeps what came of trying something: an error, or nil. One that says nothing of the thing
// itself, because the pass had no time left for it or what was seen is not what there is, changes
// nothing.
func (r *refusals) note(ctx context.Context, e *v1alpha1.Experiment, what string, err error, now time.Time) {
	if err != nil && (ctx.Err() != nil || kube.Conflict(err)) {
		return
	}
	r.change(e, func(h *hindered) {
		before, known := h.refused[what]
		switch {
		case err == nil:
			delete(h.refused, what)
		case known:
			h.refused[what] = refusal{err, before.since}
		default:
			h.refused[what] = refusal{err, now}
		}
	})
}

// forget drops those of an Experiment that has come to its end, or is gone, which may have been forced away: then nothing but its name
// is known.
func (r *refusals) forget(owner types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.known, func(_ types.UID, h *hindered) bool { return h.owner == owner })
}
