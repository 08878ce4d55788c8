package experiment

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/labkeeper/labkeeper/internal/external/argocd"
)

// registering is a cluster that a pass is about to register.
type registering struct {
	// secret is the cluster Secret, and owner the Experiment.
	secret types.NamespacedName
	owner  types.UID
	// source is where the kubeconfig is from.
	source      string
	credentials argocd.Credentials
	// until is when the pass has had its time.
	until time.Time
	// unsure: what came of the write of the Secret is not known, and it may be there any moment until then.
	unsure bool
}

// registrations are those that passes of this manager are about to make. Of two at one address the first has it: neither sees the
// Secret of the other before both are there, and Argo CD would use one of them for both.
type registrations struct {
	mu  sync.Mutex
	all []registering
	// seen is the newest resource version of cluster Secrets that this manager has listed or written; empty where it knows of none.
	seen string
}

// saw remembers a resource version, unless a newer one is known.
func (r *registrations) saw(version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if order, err := resourceversion.CompareResourceVersion(r.seen, version); r.seen == "" || err == nil && order < 0 {
		r.seen = version
	}
}

// version is the newest that is known.
func (r *registrations) version() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen
}

// forget lets go of a resource version that the server does not have.
func (r *registrations) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = ""
}

// begin has a registration until it is given up, or its pass has had its time, and returns the Secret of the one that it would clash
// with. It is called before it is looked for Secrets: what was there before is seen then.
func (r *registrations) begin(mine registering, now time.Time) (clash types.NamespacedName, clashes bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = slices.DeleteFunc(r.all, func(other registering) bool {
		return other.secret == mine.secret && !other.unsure || !now.Before(other.until)
	})
	for _, other := range r.all {
		if other.secret != mine.secret && other.source != mine.source && other.credentials.Differ(mine.credentials) {
			return other.secret, true
		}
	}
	r.all = append(r.all, mine)
	return clash, false
}

// giveUp lets go of a registration that is not made.
func (r *registrations) giveUp(secret types.NamespacedName) {
	r.drop(func(other registering) bool { return other.secret == secret })
}

// doubt keeps a registration until its time is over, also when its pass ends before.
func (r *registrations) doubt(secret types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.all {
		r.all[i].unsure = r.all[i].unsure || r.all[i].secret == secret
	}
}

// end lets go of those of an Experiment when a pass over it ends, whatever came of that: what they have become can be seen, but of
// those in doubt.
func (r *registrations) end(owner types.UID) {
	r.drop(func(other registering) bool { return other.owner == owner && !other.unsure })
}

func (r *registrations) drop(which func(registering) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = slices.DeleteFunc(r.all, which)
}
