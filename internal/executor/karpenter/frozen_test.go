package karpenter

import (
	"testing"

	"github.com/labkeeper/labkeeper/internal/executor/executortest"
)

// A NodePool that can make no nodes as it is found keeps those that it has, by whatever limit: none could come back.
func TestFrozenByAnyLimit(t *testing.T) {
	w := newWorld(t)
	w.apply(pool("memory", "limits: {memory: '0'},") + claim("memory-1", "memory") + pool("nodes", "limits: {cpu: '100', nodes: 0},") + claim("nodes-1", "nodes") + pool("milli", "limits: {cpu: 0m},") + claim("milli-1", "milli"))
	before := w.bytes()
	r := executortest.New(t, Executor{}, `{}`, w.runner)
	w.must(r.Shutdown(t.Context()))
	w.must(r.WakeUp(t.Context()))
	if left := r.Left(); left != "" {
		t.Errorf("left: %s", left)
	}
	for name, was := range before {
		if is := w.bytes()[name]; is != was {
			t.Errorf("%s is %s", name, is)
		}
	}
	if left := w.names(nodeClaims); left != "memory-1 milli-1 nodes-1" {
		t.Errorf("everything is called as it was, and of NodeClaims memory-1 milli-1 nodes-1 there are %q, and no new ones can be made", left)
	}
}
