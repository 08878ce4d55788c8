package dag

import (
	"fmt"
	"strings"
)

// CycleError says that nodes depend on each other in a circle.
type CycleError[K comparable] struct {
	// Cycle holds the nodes of one cycle, each once: every node depends on the next one and
	// the last one on the first. It begins with the node that comes first in the input. A node
	// that depends on itself is a cycle of one.
	//
	// The same graph always yields the same cycle; further cycles may exist.
	Cycle []K
}

// cycleShown is how many nodes of a long cycle a message names: it ends up in a condition,
// whose message is limited to 32 KiB.
const cycleShown = 20

// Error returns "dependency cycle: a -> b -> a", where "a -> b" means that a depends on b.
// Of a cycle of more than 20 nodes it names the first 20 and the number of the others.
func (e *CycleError[K]) Error() string {
	var b strings.Builder
	b.WriteString("dependency cycle: ")
	for i, k := range e.Cycle {
		if i == cycleShown {
			fmt.Fprintf(&b, "(%d more) -> ", len(e.Cycle)-i)
			break
		}
		fmt.Fprintf(&b, "%v -> ", k)
	}
	if len(e.Cycle) > 0 {
		fmt.Fprint(&b, e.Cycle[0])
	}
	return b.String()
}

// UnknownError says that a node depends on something that is not a node.
type UnknownError[K comparable] struct {
	Node       K // the node that has the dependency
	Dependency K // what it names
}

// Error returns "resolving dependencies of a: b is not in the graph".
func (e *UnknownError[K]) Error() string {
	return fmt.Sprintf("resolving dependencies of %v: %v is not in the graph", e.Node, e.Dependency)
}

// DuplicateError says that a node was given twice.
type DuplicateError[K comparable] struct {
	Node K
}

// Error returns "adding node a: already in the graph".
func (e *DuplicateError[K]) Error() string {
	return fmt.Sprintf("adding node %v: already in the graph", e.Node)
}
