package main

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

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
