package hibernateplan

import (
	"sort"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// DefaultRunners is how many attempts of the plans of one namespace are under way at the same time: those that a night of 500 plans of ten
// targets has.
const DefaultRunners = 5000

// roomAgain is when to look again whether there is room for an attempt. Nobody tells of it.
const roomAgain = 2 * time.Second

// rooms are how many more targets may be put to sleep: at most so many attempts of the plans of one namespace are under way at the same
// time, because what makes their pods takes one after the other, and who comes late waits for all. What wakes waits for no room. The plans
// of a namespace share that evenly: each has as many as it asks for, or as many as any other. A manager that starts knows what is under way
// of a plan when it has looked at that: until then there may be as many again.
type rooms struct {
	// most are under way in one namespace; 0 is any number.
	most int

	mu sync.Mutex
	// plans that have attempts under way, or ask for some, by namespace and name.
	plans map[string]map[string]asked
}

// asked is how many attempts of a plan are under way, and how many more would be.
type asked struct{ runs, waits int }

func newRooms(most int) *rooms { return &rooms{most: most, plans: map[string]map[string]asked{}} }

// take lets some attempts of a plan begin, beside those that run, of those that would.
func (r *rooms) take(plan types.NamespacedName, runs, would int) int {
	if r.most == 0 {
		return would
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put(plan, asked{runs, would})
	free, all := r.most, 0
	for _, a := range r.plans[plan.Namespace] {
		free, all = free-a.runs, all+a.runs+a.waits
	}
	if all > r.most {
		would = min(would, max(0, r.share(plan)-runs), max(0, free))
		r.put(plan, asked{runs + would, r.plans[plan.Namespace][plan.Name].waits - would})
		return would
	}
	r.put(plan, asked{runs + would, 0})
	return would
}

// share is how many attempts of a plan there is room for: as many as of each other one that asks for as many, or one more, while there is
// what cannot be shared.
func (r *rooms) share(plan types.NamespacedName) int {
	of := r.plans[plan.Namespace]
	shared := func(each int) (all int) {
		for _, a := range of {
			all += min(a.runs+a.waits, each)
		}
		return all
	}
	each := sort.Search(r.most, func(n int) bool { return shared(n+1) > r.most })
	rest := r.most - shared(each)
	for name, a := range of {
		if name != plan.Name && a.runs > each {
			rest--
		}
	}
	return each + min(1, max(0, rest))
}

// now says how many attempts of a plan are under way after a pass, and how many would be.
func (r *rooms) now(plan types.NamespacedName, runs, waits int) {
	if r.most == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put(plan, asked{runs, waits})
}

// failed says that a pass of a plan has failed before it was known how many attempts there are: they may be under way as before, and none
// waits for room until a pass says so again.
func (r *rooms) failed(plan types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put(plan, asked{runs: r.plans[plan.Namespace][plan.Name].runs})
}

// has says whether anything is known of a plan.
func (r *rooms) has(plan types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.plans[plan.Namespace][plan.Name]
	return known
}

func (r *rooms) put(plan types.NamespacedName, a asked) {
	of := r.plans[plan.Namespace]
	switch {
	case a != asked{} && of == nil:
		r.plans[plan.Namespace] = map[string]asked{plan.Name: a}
	case a != asked{}:
		of[plan.Name] = a
	default:
		if delete(of, plan.Name); len(of) == 0 {
			delete(r.plans, plan.Namespace)
		}
	}
}
