package main

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/labkeeper/labkeeper/internal/kube/lean"
)

const (
	// cacheGrace is how long a start waits for all caches together, once before the controllers begin and once with them.
	// Every controller waits for its own, as long as it takes.
	cacheGrace = 10 * time.Second
	// everSync is as long as that: a manager that ended for it would not act on the other kinds, either.
	everSync = time.Duration(math.MaxInt64)
)

// impatient is a cache that nobody waits for as a whole for long: of one kind an object may not be readable, or the right
// to list it be missing, which must hold up those alone that need it.
type impatient struct{ cache.Cache }

// newCache is a cache.NewCacheFunc.
func newCache(config *rest.Config, o cache.Options) (cache.Cache, error) {
	c, err := lean.NewCache(config, o)
	return impatient{c}, err
}

// WaitForCacheSync waits, and goes on also without what has not come.
func (c impatient) WaitForCacheSync(ctx context.Context) bool {
	limited, cancel := context.WithTimeout(ctx, cacheGrace)
	defer cancel()
	c.Cache.WaitForCacheSync(limited)
	return ctx.Err() == nil
}

// warming is a manager that knows when its controllers have all that they need to act: a rollout that went on before would
// end the manager that can take over at once, and leave one that cannot.
type warming struct {
	ctrl.Manager
	// cold is how many controllers do not.
	cold atomic.Int32
}

// warmable is a controller: its caches are filled before it may act.
type warmable interface {
	manager.Runnable
	manager.LeaderElectionRunnable
	Warmup(ctx context.Context) error
}

// Add adds what is to run.
func (w *warming) Add(r manager.Runnable) error {
	c, ok := r.(warmable)
	if !ok {
		return w.Manager.Add(r)
	}
	w.cold.Add(1)
	return w.Manager.Add(&warmed{c, w})
}

// ready is an error while a controller could not act. Kinds of others may be kept from the manager for ever, and are waited for as
// long as controllers wait for them (kube.ForeignKinds).
func (w *warming) ready(*http.Request) error {
	if n := w.cold.Load(); n > 0 {
		return fmt.Errorf("the caches of %d controllers are not filled yet", n)
	}
	return nil
}

// warmed is a controller that tells when it has all that it needs.
type warmed struct {
	warmable
	of *warming
}

// Warmup returns when the caches are filled.
func (c *warmed) Warmup(ctx context.Context) error {
	err := c.warmable.Warmup(ctx)
	if err == nil && ctx.Err() == nil { // one that is stopped does not say so
		c.of.cold.Add(-1)
	}
	return err
}
