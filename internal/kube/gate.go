package kube

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// AtOnce is the Wait of an object that goes on in another pass: what it has just written wakes
// nobody.
const AtOnce = time.Millisecond

// gatePatience is how long one that begins keeps the next from it: those behind it are many, and it has few requests to make.
const gatePatience = Patience / 4

// Gate lets few objects begin at the same time, and takes turns between namespaces: a thousand
// that are created at once must neither keep what is under way from its end nor one in another
// namespace from its beginning. It is a source of the controller, which it wakes, and wraps its
// reconciler; who waits costs nothing.
type Gate struct {
	width int // how many may begin at the same time

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	// inside are those that may begin: true where they do, false where they have been woken to.
	inside map[reconcile.Request]bool
	// passes are those under way, each with what has its object leave when it has begun and takes too long; nil before.
	passes map[reconcile.Request]*time.Timer
	// outside are the others, by the UIDs that they had, and waiting the same by namespace, the oldest
	// first; turns are their namespaces, the next one first.
	outside map[reconcile.Request]types.UID
	waiting map[string][]waiter
	turns   []string
}

// waiter is who waits, and how old it is.
type waiter struct {
	request reconcile.Request
	created time.Time
	version string
}

// older compares the ages of two. Times of creation are whole seconds; among those of one second the server's order counts, which is
// that of creation for what has not begun.
func older(a, b waiter) int {
	if order := a.created.Compare(b.created); order != 0 {
		return order
	}
	order, err := resourceversion.CompareResourceVersion(a.version, b.version)
	if err != nil { // of a server that numbers them otherwise
		return 0
	}
	return order
}

// NewGate returns a gate that so many may be in at the same time.
func NewGate(width int) *Gate {
	return &Gate{
		width:  width,
		inside: map[reconcile.Request]bool{}, passes: map[reconcile.Request]*time.Timer{}, outside: map[reconcile.Request]types.UID{}, waiting: map[string][]waiter{},
	}
}

// Start takes the queue of the controller. It is for the manager.
func (g *Gate) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queue = queue
	return nil
}

// Enter says whether an object may begin. One that may not is woken when it may, and its pass
// must end without having written anything. One that may stays inside for as long as its passes
// ask for another AtOnce, and none takes too long. The oldest is next, whichever asked first:
// which of many passes asks a moment later is chance, and it would wait for all others.
func (g *Gate) Enter(o client.Object) bool {
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)}
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, woken := g.inside[request]; woken || len(g.inside) < g.width {
		g.inside[request] = true
		if _, passes := g.passes[request]; passes {
			g.passes[request] = time.AfterFunc(gatePatience, func() { g.leave(request) })
		}
		return true
	}
	uid, waits := g.outside[request]
	if waits && uid == o.GetUID() {
		return false
	}
	g.outside[request] = o.GetUID()
	waiting := g.waiting[request.Namespace]
	if waits { // it was created again, and is younger than the one that has the place
		waiting = slices.DeleteFunc(waiting, func(w waiter) bool { return w.request == request })
	} else if len(waiting) == 0 {
		g.turns = append(g.turns, request.Namespace)
	}
	w := waiter{request: request, created: o.GetCreationTimestamp().Time, version: o.GetResourceVersion()}
	i, _ := slices.BinarySearchFunc(waiting, w, func(of, w waiter) int { return cmp.Or(older(of, w), -1) }) // behind those of its age
	g.waiting[request.Namespace] = slices.Insert(waiting, i, w)
	return false
}

// Gauge is the metric labkeeper_waiting_to_begin: how many objects of a controller wait at the
// gate.
func (g *Gate) Gauge(controller string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "labkeeper_waiting_to_begin",
		Help:        "Objects that have not begun because as many as may do so at the same time are beginning.",
		ConstLabels: prometheus.Labels{"controller": controller},
	}, func() float64 {
		g.mu.Lock()
		defer g.mu.Unlock()
		return float64(len(g.outside))
	})
}

// Wrap is the reconciler with the gate behind it: every pass leaves it, of whatever came to its
// object, and when it has to wait for too long.
func (g *Gate) Wrap(next reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (result reconcile.Result, err error) {
		g.arrive(request)
		defer func() {
			g.ended(request)
			if err != nil || result.RequeueAfter != AtOnce {
				g.leave(request)
			}
		}()
		return next.Reconcile(ctx, request)
	})
}

// arrive is where the pass begins that an object was woken for.
func (g *Gate) arrive(request reconcile.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.passes[request] = nil
	if _, woken := g.inside[request]; woken {
		g.inside[request] = true
	}
}

// ended is where that pass ends.
func (g *Gate) ended(request reconcile.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if hangs := g.passes[request]; hangs != nil {
		hangs.Stop()
	}
	delete(g.passes, request)
}

// leave lets the next ones in. An object that was woken while a pass of it ended that it had to wait in stays: it would wait behind
// all others again.
func (g *Gate) leave(request reconcile.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if begins, inside := g.inside[request]; inside && !begins {
		return
	}
	delete(g.inside, request)
	for len(g.inside) < g.width && len(g.turns) > 0 {
		namespace := g.turns[0]
		next, rest := g.waiting[namespace][0].request, g.waiting[namespace][1:]
		g.turns = g.turns[1:]
		if len(rest) > 0 {
			g.waiting[namespace] = rest
			g.turns = append(g.turns, namespace)
		} else {
			delete(g.waiting, namespace)
		}
		delete(g.outside, next)
		g.inside[next] = false
		g.queue.Add(next)
	}
}
