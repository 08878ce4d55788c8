package faults

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// refusal is something that the manager may not do for as long as the workload says so.
type refusal struct {
	verb string
	kind schema.GroupResource
	of   labels.Selector
}

// Refuse has the manager be refused what it asks for by a verb of a kind, until Allow: of objects with some labels in what is sent, or, if
// there are none, of all. It tries again meanwhile, and goes on as the one that it is.
func (s *Stage) Refuse(verb string, kind schema.GroupResource, of labels.Set) {
	s.proxy.mu.Lock()
	defer s.proxy.mu.Unlock()
	s.proxy.barred = append(s.proxy.barred, refusal{verb, kind, labels.SelectorFromSet(of)})
}

// Allow lets the manager do what it was refused.
func (s *Stage) Allow() {
	s.proxy.mu.Lock()
	defer s.proxy.mu.Unlock()
	s.proxy.barred = nil
}

// Tick moves the clock of the manager on while that is up, and knows all that it knows: it looks there when it looks at something the next
// time, as it does soon at what has failed.
func (s *Stage) Tick(ctx context.Context, d time.Duration) error { return s.tick(ctx, d) }

// Life is another one of each manager that comes after another.
func (s *Stage) Life() any { return s.manager.process.Load() }

// tick moves the manager's clock on between two passes: one that has begun before would be of both times. What a fault does takes no time
// by that clock: it is over by then, also one that has begun while the manager came to rest.
func (r *run) tick(ctx context.Context, d time.Duration) error {
	waits := func() bool { return r.proxy.happens() || !r.proxy.idle(stillness) || !r.manager.ready(ctx) }
	for deadline := time.Now().Add(startLimit); !r.proxy.awaitsOutage() && waits(); time.Sleep(poll) {
		if time.Now().After(deadline) || ctx.Err() != nil {
			return fmt.Errorf("waiting for a moment between two passes: %w", errNotReady)
		}
	}
	return r.manager.setClock(r.later(d))
}

// bars says whether the workload has a write refused, and counts that: who insists is in a loop.
func (p *proxy) bars(w Write, request *http.Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.barred {
		if b.verb == w.Verb && b.kind == w.Resource.GroupResource() && (b.of.Empty() || b.of.Matches(labelsIn(request))) {
			p.refusals[w.request()]++
			return true
		}
	}
	return false
}

// labelsIn are those of the object that is sent.
func labelsIn(request *http.Request) labels.Set {
	if request.Body == nil {
		return nil
	}
	body, _ := bodyOf(request) // one that is cut short is refused by the server
	object := metadataIn(body)
	if object == nil {
		return nil
	}
	return object.GetLabels()
}
