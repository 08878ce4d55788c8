package dag_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/labkeeper/labkeeper/internal/dag"
)

// decode reads a graph of up to 24 nodes: the number of nodes, then pairs of a node and what it
// depends on. Nodes are named against their input order.
func decode(data []byte) (nodes []int, edges map[int][]int) {
	edges = map[int][]int{}
	if len(data) == 0 {
		return nil, edges
	}
	n := int(data[0]%24) + 1
	for i := range n {
		nodes = append(nodes, n-i)
	}
	for pair := range slices.Chunk(data[1:], 2) {
		if len(pair) == 2 {
			from, to := nodes[int(pair[0])%n], nodes[int(pair[1])%n]
			edges[from] = append(edges[from], to)
		}
	}
	return nodes, edges
}

// check holds New against definitions that share no code with it.
func check(t *testing.T, nodes []int, edges map[int][]int) {
	t.Helper()
	g, err := dag.New(nodes, func(k int) []int { return edges[k] })

	// The order in which dependencies are listed, and naming them twice, change nothing.
	again, errAgain := dag.New(nodes, func(k int) []int {
		ds := append(slices.Clone(edges[k]), edges[k]...)
		slices.Reverse(ds)
		return ds
	})
	if diff := cmp.Diff(err, errAgain); diff != "" {
		t.Fatalf("errors of the same graph differ:\n%s", diff)
	}
	if cyclic := hasCycle(nodes, edges); cyclic != (err != nil) {
		t.Fatalf("error is %v, cyclic is %v", err, cyclic)
	}
	if err != nil {
		checkCycle(t, nodes, edges, err)
		return
	}
	if diff := cmp.Diff(g.Order(), again.Order()); diff != "" {
		t.Fatalf("orders of the same graph differ:\n%s", diff)
	}
	if diff := cmp.Diff(byDepth(nodes, edges), g.Order()); diff != "" {
		t.Fatalf("Order (-want +got):\n%s", diff)
	}
	reversed := map[int][]int{}
	for _, k := range nodes {
		for _, d := range edges[k] {
			reversed[d] = append(reversed[d], k)
		}
	}
	if diff := cmp.Diff(byDepth(nodes, reversed), g.Reverse().Order()); diff != "" {
		t.Fatalf("Reverse().Order (-want +got):\n%s", diff)
	}
	checkGraph(t, g, nodes, edges, reversed)
	checkGraph(t, g.Reverse(), nodes, reversed, edges)
}

func checkGraph(t *testing.T, g *dag.Graph[int], nodes []int, edges, reversed map[int][]int) {
	t.Helper()
	order := g.Order()
	place := map[int]int{}
	for i, k := range order {
		place[k] = i
	}
	if len(order) != len(nodes) || len(place) != len(nodes) {
		t.Fatalf("order %v does not hold every node once", order)
	}
	for _, k := range nodes {
		for _, d := range edges[k] {
			if place[d] >= place[k] {
				t.Fatalf("order %v: %d depends on %d", order, k, d)
			}
		}
		if diff := cmp.Diff(inInputOrder(nodes, edges[k]), g.Dependencies(k)); diff != "" {
			t.Fatalf("Dependencies(%d) (-want +got):\n%s", k, diff)
		}
		if diff := cmp.Diff(inInputOrder(nodes, reversed[k]), g.Dependents(k)); diff != "" {
			t.Fatalf("Dependents(%d) (-want +got):\n%s", k, diff)
		}
	}
	checkWalk(t, g, nodes, edges)
}

// checkWalk finishes a part of what is ready until nothing is left.
func checkWalk(t *testing.T, g *dag.Graph[int], nodes []int, edges map[int][]int) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(len(nodes)), 1))
	done := map[int]bool{}
	isDone := func(k int) bool { return done[k] }
	for len(done) < len(nodes) {
		ready := g.Ready(isDone)
		var want []int
		for _, k := range g.Order() {
			if !done[k] && !slices.ContainsFunc(edges[k], func(d int) bool { return !done[d] }) {
				want = append(want, k)
			}
		}
		if diff := cmp.Diff(want, ready); diff != "" {
			t.Fatalf("Ready with %v done (-want +got):\n%s", done, diff)
		}
		if len(ready) == 0 {
			t.Fatalf("nothing is ready with %v done", done)
		}
		for _, i := range r.Perm(len(ready))[:1+r.IntN(len(ready))] {
			done[ready[i]] = true
		}
	}
	if ready := g.Ready(isDone); ready != nil {
		t.Fatalf("%v is ready with everything done", ready)
	}
}

func checkCycle(t *testing.T, nodes []int, edges map[int][]int, err error) {
	t.Helper()
	var e *dag.CycleError[int]
	if !errors.As(err, &e) {
		t.Fatalf("error is %v, want a CycleError", err)
	}
	if len(e.Cycle) == 0 {
		t.Fatal("cycle is empty")
	}
	for i, k := range e.Cycle {
		if next := e.Cycle[(i+1)%len(e.Cycle)]; !slices.Contains(edges[k], next) {
			t.Fatalf("cycle %v: %d does not depend on %d", e.Cycle, k, next)
		}
		if slices.Index(nodes, k) < slices.Index(nodes, e.Cycle[0]) {
			t.Fatalf("cycle %v: %d comes before %d in the input", e.Cycle, k, e.Cycle[0])
		}
	}
	if len(inInputOrder(nodes, e.Cycle)) != len(e.Cycle) {
		t.Fatalf("cycle %v holds a node twice", e.Cycle)
	}
}

// hasCycle computes the transitive closure and looks at its diagonal (Warshall).
func hasCycle(nodes []int, edges map[int][]int) bool {
	reaches := map[[2]int]bool{}
	for _, k := range nodes {
		for _, d := range edges[k] {
			reaches[[2]int{k, d}] = true
		}
	}
	for _, via := range nodes {
		for _, from := range nodes {
			for _, to := range nodes {
				if reaches[[2]int{from, via}] && reaches[[2]int{via, to}] {
					reaches[[2]int{from, to}] = true
				}
			}
		}
	}
	return slices.ContainsFunc(nodes, func(k int) bool { return reaches[[2]int{k, k}] })
}

// byDepth sorts nodes as the package comment says.
func byDepth(nodes []int, edges map[int][]int) []int {
	known := map[int]int{}
	var depth func(k int) int
	depth = func(k int) int {
		if d, ok := known[k]; ok {
			return d
		}
		deepest := 0
		for _, d := range edges[k] {
			deepest = max(deepest, depth(d)+1)
		}
		known[k] = deepest
		return deepest
	}
	sorted := slices.Clone(nodes)
	slices.SortStableFunc(sorted, func(a, b int) int { return depth(a) - depth(b) })
	return sorted
}

func inInputOrder(nodes, some []int) []int {
	var sorted []int
	for _, k := range nodes {
		if slices.Contains(some, k) {
			sorted = append(sorted, k)
		}
	}
	return sorted
}

func FuzzGraph(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	f.Add([]byte{0, 0, 0})                         // itself
	f.Add([]byte{2, 0, 1, 1, 2})                   // chain
	f.Add([]byte{2, 0, 1, 1, 2, 2, 0})             // cycle of three
	f.Add([]byte{3, 0, 1, 0, 2, 1, 3, 2, 3})       // diamond
	f.Add([]byte{3, 0, 1, 1, 2, 2, 1, 3, 0})       // cycle behind other nodes
	f.Add([]byte{4, 0, 1, 0, 1, 2, 3, 3, 2, 4, 0}) // duplicate edge, cycle elsewhere
	f.Fuzz(func(t *testing.T, data []byte) {
		nodes, edges := decode(data)
		check(t, nodes, edges)
	})
}

// Random graphs of every density, so that a plain test run sees many, cyclic and not.
func TestRandomGraphs(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	cyclic := 0
	for i := range 1_000 {
		n := 1 + r.IntN(20)
		nodes := r.Perm(n)
		edges := map[int][]int{}
		for range r.IntN(3 * n) {
			from, to := r.IntN(n), r.IntN(n)
			if i%4 > 0 && from <= to { // three of four acyclic
				continue
			}
			edges[from] = append(edges[from], to)
		}
		if hasCycle(nodes, edges) {
			cyclic++
		}
		t.Run(fmt.Sprint(i), func(t *testing.T) { check(t, nodes, edges) })
	}
	if cyclic < 50 || cyclic > 500 {
		t.Errorf("%d of 1,000 graphs are cyclic: the test has lost its balance", cyclic)
	}
}
