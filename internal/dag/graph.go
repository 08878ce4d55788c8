package dag

import (
	"iter"
	"slices"
)

// Graph is an acyclic graph of nodes and what each of them depends on. The zero value is an
// empty graph.
type Graph[K comparable] struct {
	nodes        []K         // by position in the input
	index        map[K]int32 // node -> position
	dependencies rows        // node -> what it depends on
	dependents   rows        // node -> what depends on it
	order        []int32     // positions, dependencies first
}

// New returns the graph of nodes in which each node depends on dependencies(node).
// dependencies is called once per node, in the order of nodes; what it returns is not kept. A
// dependency named twice counts once.
//
// The error is, in this precedence, a *DuplicateError[K] for the first node that was given
// before, an *UnknownError[K] for the first dependency of the first node that is not in nodes,
// or a *CycleError[K].
func New[K comparable](nodes []K, dependencies func(K) []K) (*Graph[K], error) {
	g := &Graph[K]{nodes: slices.Clone(nodes), index: make(map[K]int32, len(nodes))}
	for i, k := range g.nodes {
		g.index[k] = int32(i)
		if len(g.index) == i {
			return nil, &DuplicateError[K]{Node: k}
		}
	}
	listed, err := g.resolve(dependencies)
	if err != nil {
		return nil, err
	}
	// Transposing sorts each row by position. Doing it twice makes everything below
	// independent of the sequence in which dependencies were listed.
	g.dependents = listed.transpose()
	g.dependencies = g.dependents.transpose()

	order, waiting := sort(g.dependencies, g.dependents)
	if len(order) < len(g.nodes) {
		return nil, &CycleError[K]{Cycle: g.keys(cycle(g.dependencies, waiting))}
	}
	g.order = order
	return g, nil
}

// resolve returns the dependencies of every node as positions, each once, as listed.
func (g *Graph[K]) resolve(dependencies func(K) []K) (rows, error) {
	n := len(g.nodes)
	r := rows{start: make([]int32, 1, n+1), to: make([]int32, 0, 2*n)}
	seenBy := make([]int32, n) // 1 + the last node that named this one
	for i, k := range g.nodes {
		for _, d := range dependencies(k) {
			j, ok := g.index[d]
			if !ok {
				return rows{}, &UnknownError[K]{Node: k, Dependency: d}
			}
			if seenBy[j] == int32(i)+1 {
				continue
			}
			seenBy[j] = int32(i) + 1
			r.to = append(r.to, j)
		}
		r.start = append(r.start, int32(len(r.to)))
	}
	return r, nil
}

// Len returns the number of nodes.
func (g *Graph[K]) Len() int { return len(g.nodes) }

// Has tells whether k is a node.
func (g *Graph[K]) Has(k K) bool {
	_, ok := g.index[k]
	return ok
}

// Order returns all nodes, each after everything it depends on: by depth, then by position in
// the input (see the package comment). The slice is the caller's.
func (g *Graph[K]) Order() []K { return g.keys(g.order) }

// All yields every node with its direct dependencies, each once and in the order of the input, in the order of
// [Graph.Order].
func (g *Graph[K]) All() iter.Seq2[K, iter.Seq[K]] {
	return func(yield func(K, iter.Seq[K]) bool) {
		for _, i := range g.order {
			if !yield(g.nodes[i], g.each(g.dependencies.row(i))) {
				return
			}
		}
	}
}

func (g *Graph[K]) each(positions []int32) iter.Seq[K] {
	return func(yield func(K) bool) {
		for _, p := range positions {
			if !yield(g.nodes[p]) {
				return
			}
		}
	}
}

// Ready returns the nodes that are not done and whose direct dependencies all are, in the order
// of [Graph.Order]. It is empty when all nodes are done, and only then.
//
// done is called once per node. A node that is done counts as such even if its dependencies
// are not.
func (g *Graph[K]) Ready(done func(K) bool) []K {
	var ready []K
	finished := make([]bool, len(g.nodes))
	for _, i := range g.order { // dependencies first, so that their answer is known
		k := g.nodes[i]
		if done(k) {
			finished[i] = true
			continue
		}
		if !slices.ContainsFunc(g.dependencies.row(i), func(d int32) bool { return !finished[d] }) {
			ready = append(ready, k)
		}
	}
	return ready
}

// Dependencies returns what k directly depends on, each once, in the order of the input; nil if
// there is nothing or k is no node. The slice is the caller's.
func (g *Graph[K]) Dependencies(k K) []K { return g.neighbours(g.dependencies, k) }

// Dependents returns what directly depends on k, each once, in the order of the input; nil if
// there is nothing or k is no node. The slice is the caller's.
func (g *Graph[K]) Dependents(k K) []K { return g.neighbours(g.dependents, k) }

// Reverse returns the graph for taking down what g brings up: each node depends on what depends
// on it in g. Its [Graph.Ready] takes a predicate that says what is gone, and its [Graph.Order]
// puts dependents before their dependencies. That is a valid teardown order, but in general not
// the order of g read backwards: depth is counted from the other end, and ties again go by the
// input.
func (g *Graph[K]) Reverse() *Graph[K] {
	order, _ := sort(g.dependents, g.dependencies)
	return &Graph[K]{
		nodes:        g.nodes,
		index:        g.index,
		dependencies: g.dependents,
		dependents:   g.dependencies,
		order:        order,
	}
}

func (g *Graph[K]) neighbours(r rows, k K) []K {
	i, ok := g.index[k]
	if !ok {
		return nil
	}
	return g.keys(r.row(i))
}

// keys returns the nodes at the given positions, nil for none.
func (g *Graph[K]) keys(positions []int32) []K {
	if len(positions) == 0 {
		return nil
	}
	ks := make([]K, len(positions))
	for i, p := range positions {
		ks[i] = g.nodes[p]
	}
	return ks
}
