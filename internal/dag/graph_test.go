package dag_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/labkeeper/labkeeper/internal/dag"
)

// parse reads nodes in input order with what they depend on: "a: b c; b; c: b".
func parse(t *testing.T, text string) ([]string, map[string][]string) {
	t.Helper()
	var nodes []string
	dependencies := map[string][]string{}
	for line := range strings.SplitSeq(text, ";") {
		node, list, _ := strings.Cut(line, ":")
		node = strings.TrimSpace(node)
		if node == "" {
			continue
		}
		nodes = append(nodes, node)
		dependencies[node] = strings.Fields(list)
	}
	return nodes, dependencies
}

func build(t *testing.T, text string) (*dag.Graph[string], error) {
	t.Helper()
	nodes, dependencies := parse(t, text)
	return dag.New(nodes, func(k string) []string { return dependencies[k] })
}

func mustBuild(t *testing.T, text string) *dag.Graph[string] {
	t.Helper()
	g, err := build(t, text)
	if err != nil {
		t.Fatalf("New(%q): %v", text, err)
	}
	return g
}

func TestOrder(t *testing.T) {
	tests := map[string]struct {
		graph   string
		want    string
		reverse string // order of the reversed graph
	}{
		"empty":                         {graph: "", want: "", reverse: ""},
		"one":                           {graph: "a", want: "a", reverse: "a"},
		"input order without edges":     {graph: "c; a; b", want: "c a b", reverse: "c a b"},
		"chain given backwards":         {graph: "a: b; b: c; c", want: "c b a", reverse: "a b c"},
		"chain given forwards":          {graph: "c; b: c; a: b", want: "c b a", reverse: "a b c"},
		"diamond":                       {graph: "top: l r; l: base; r: base; base", want: "base l r top", reverse: "top l r base"},
		"depth before input order":      {graph: "a; b: a; c", want: "a c b", reverse: "b c a"},
		"depth is the longest chain":    {graph: "a; b: a; d: a c; c: b", want: "a b c d", reverse: "d c b a"},
		"ties ignore time of release":   {graph: "x: q; y: p; p; q", want: "p q x y", reverse: "x y p q"},
		"order of listing is harmless":  {graph: "d: c b a; a; b; c", want: "a b c d", reverse: "d a b c"},
		"duplicate edges are harmless":  {graph: "b: a a a; a; c: a b a", want: "a b c", reverse: "c b a"},
		"reverse is not read backwards": {graph: "a; b; c: b", want: "a b c", reverse: "a c b"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			g := mustBuild(t, tc.graph)
			if diff := cmp.Diff(strings.Fields(tc.want), append([]string{}, g.Order()...)); diff != "" {
				t.Errorf("Order (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(strings.Fields(tc.reverse), append([]string{}, g.Reverse().Order()...)); diff != "" {
				t.Errorf("Reverse().Order (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(g.Order(), g.Reverse().Reverse().Order()); diff != "" {
				t.Errorf("Reverse().Reverse().Order (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNewErrors(t *testing.T) {
	tests := map[string]struct {
		graph   string
		want    error
		message string
	}{
		"self": {
			graph:   "b; a: b a",
			want:    &dag.CycleError[string]{Cycle: []string{"a"}},
			message: "dependency cycle: a -> a",
		},
		"two": {
			graph:   "b: a; a: b",
			want:    &dag.CycleError[string]{Cycle: []string{"b", "a"}},
			message: "dependency cycle: b -> a -> b",
		},
		"begins with the first in the input": {
			graph:   "z; c: a; a: b; b: c",
			want:    &dag.CycleError[string]{Cycle: []string{"c", "a", "b"}},
			message: "dependency cycle: c -> a -> b -> c",
		},
		"without the nodes that lead to it": {
			graph:   "x: y; y: c; b: c; c: b z; z",
			want:    &dag.CycleError[string]{Cycle: []string{"b", "c"}},
			message: "dependency cycle: b -> c -> b",
		},
		"one of two": {
			graph:   "c: d; d: c; a: b; b: a",
			want:    &dag.CycleError[string]{Cycle: []string{"c", "d"}},
			message: "dependency cycle: c -> d -> c",
		},
		"order of listing is harmless": {
			graph:   "a: c b; b: a; c: a",
			want:    &dag.CycleError[string]{Cycle: []string{"a", "b"}},
			message: "dependency cycle: a -> b -> a",
		},
		"unknown": {
			graph:   "a: b; b: y x; c: z",
			want:    &dag.UnknownError[string]{Node: "b", Dependency: "y"},
			message: "resolving dependencies of b: y is not in the graph",
		},
		"duplicate": {
			graph:   "a; b; c; b; a",
			want:    &dag.DuplicateError[string]{Node: "b"},
			message: "adding node b: already in the graph",
		},
		"duplicate before unknown":      {graph: "a: x; a", want: &dag.DuplicateError[string]{Node: "a"}},
		"unknown before cycle":          {graph: "a: a; b: x", want: &dag.UnknownError[string]{Node: "b", Dependency: "x"}},
		"duplicate of the first, alone": {graph: "a; a", want: &dag.DuplicateError[string]{Node: "a"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			g, err := build(t, tc.graph)
			if g != nil {
				t.Errorf("graph beside an error: %v", g)
			}
			if diff := cmp.Diff(tc.want, err); diff != "" {
				t.Fatalf("error (-want +got):\n%s", diff)
			}
			if tc.message != "" && err.Error() != tc.message {
				t.Errorf("message %q, want %q", err, tc.message)
			}
		})
	}
}

func TestLongCycleMessageIsShort(t *testing.T) {
	shape := shapes(10_000)["cycle"]
	_, err := dag.New(shape.nodes, shape.dependencies)
	var cycle *dag.CycleError[string]
	if !errors.As(err, &cycle) {
		t.Fatalf("error is %v, want a CycleError", err)
	}
	if diff := cmp.Diff(shape.nodes, cycle.Cycle); diff != "" {
		t.Errorf("cycle (-want +got):\n%s", diff)
	}
	if got := len(err.Error()); got > 1024 {
		t.Errorf("message has %d bytes: %.2000s", got, err)
	}
	if !strings.HasSuffix(err.Error(), "(9980 more) -> "+shape.nodes[0]) {
		t.Errorf("message does not say what it leaves out: %s", err)
	}
}

func TestReady(t *testing.T) {
	const graph = "top: l r; l: base; r: base; base; other"
	tests := map[string]struct {
		done    string
		want    string
		reverse string // ready in the reversed graph, done meaning gone
	}{
		"nothing done":                   {done: "", want: "base other", reverse: "top other"},
		"first done":                     {done: "base", want: "other l r", reverse: "top other"},
		"half of the dependencies":       {done: "base l", want: "other r", reverse: "top other"},
		"all dependencies":               {done: "base l r other", want: "top", reverse: "top"},
		"all done":                       {done: "base l r other top", want: "", reverse: ""},
		"done before its dependencies":   {done: "l r", want: "base other top", reverse: "top other base"},
		"taken down from the top":        {done: "top", want: "base other", reverse: "other l r"},
		"unknown nodes done are ignored": {done: "nobody", want: "base other", reverse: "top other"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			g := mustBuild(t, graph)
			asked := map[string]int{}
			done := func(k string) bool {
				asked[k]++
				return slices.Contains(strings.Fields(tc.done), k)
			}
			if diff := cmp.Diff(strings.Fields(tc.want), append([]string{}, g.Ready(done)...)); diff != "" {
				t.Errorf("Ready (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(map[string]int{"top": 1, "l": 1, "r": 1, "base": 1, "other": 1}, asked); diff != "" {
				t.Errorf("calls of done (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(strings.Fields(tc.reverse), append([]string{}, g.Reverse().Ready(done)...)); diff != "" {
				t.Errorf("Reverse().Ready (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNeighbours(t *testing.T) {
	g := mustBuild(t, "top: r l r; l: base; r: base; base")
	tests := map[string]struct {
		has                      bool
		dependencies, dependents []string
	}{
		"top":    {has: true, dependencies: []string{"l", "r"}},
		"l":      {has: true, dependencies: []string{"base"}, dependents: []string{"top"}},
		"base":   {has: true, dependents: []string{"l", "r"}},
		"nobody": {},
	}
	for node, tc := range tests {
		t.Run(node, func(t *testing.T) {
			if g.Has(node) != tc.has {
				t.Errorf("Has is %v", !tc.has)
			}
			for what, got := range map[string]*dag.Graph[string]{"graph": g, "reversed": g.Reverse()} {
				dependencies, dependents := tc.dependencies, tc.dependents
				if what == "reversed" {
					dependencies, dependents = dependents, dependencies
				}
				if diff := cmp.Diff(dependencies, got.Dependencies(node)); diff != "" {
					t.Errorf("%s: Dependencies (-want +got):\n%s", what, diff)
				}
				if diff := cmp.Diff(dependents, got.Dependents(node)); diff != "" {
					t.Errorf("%s: Dependents (-want +got):\n%s", what, diff)
				}
			}
		})
	}
	if g.Len() != 4 {
		t.Errorf("Len is %d, want 4", g.Len())
	}
}

func TestAll(t *testing.T) {
	g := mustBuild(t, "top: r l r; l: base; r: base; base")
	var order []string
	for node, dependencies := range g.All() {
		order = append(order, node)
		if diff := cmp.Diff(g.Dependencies(node), slices.Collect(dependencies)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", node, diff)
		}
	}
	if diff := cmp.Diff(g.Order(), order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	for node := range g.All() {
		if node != g.Order()[0] {
			t.Errorf("it goes on with %s", node)
		}
		break
	}
}

func TestZeroGraph(t *testing.T) {
	var g dag.Graph[string]
	if g.Len() != 0 || g.Has("a") || g.Order() != nil || g.Ready(func(string) bool { return false }) != nil ||
		g.Dependencies("a") != nil || g.Dependents("a") != nil || g.Reverse().Order() != nil {
		t.Error("the zero value is not an empty graph")
	}
}

// The graph shares nothing with its caller.
func TestSlicesAreTheCallers(t *testing.T) {
	nodes := []string{"a", "b"}
	g, err := dag.New(nodes, func(k string) []string {
		if k == "b" {
			return []string{"a"}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	nodes[0] = "x"
	g.Order()[0] = "x"
	g.Dependencies("b")[0] = "x"
	g.Dependents("a")[0] = "x"
	if diff := cmp.Diff([]string{"a", "b"}, g.Order()); diff != "" {
		t.Errorf("Order (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a"}, g.Dependencies("b")); diff != "" {
		t.Errorf("Dependencies (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"b"}, g.Dependents("a")); diff != "" {
		t.Errorf("Dependents (-want +got):\n%s", diff)
	}
}

func TestStructKeys(t *testing.T) {
	type key struct{ namespace, name string }
	a, b := key{"ns", "a"}, key{"ns", "b"}
	_, err := dag.New([]key{a, b}, func(k key) []key { return map[key][]key{a: {b}, b: {a}}[k] })
	if diff := cmp.Diff(&dag.CycleError[key]{Cycle: []key{a, b}}, err, cmp.AllowUnexported(key{})); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}

// A recursion as deep as the chain would exceed the stack and end the test.
func TestDeepChain(t *testing.T) {
	defer debug.SetMaxStack(debug.SetMaxStack(1 << 20))
	const n = 200_000
	nodes := make([]int, n)
	for i := range nodes {
		nodes[i] = i
	}
	g, err := dag.New(nodes, func(i int) []int {
		if i+1 == n {
			return nil
		}
		return []int{i + 1}
	})
	if err != nil {
		t.Fatal(err)
	}
	order := g.Order()
	for i, k := range order {
		if k != n-1-i {
			t.Fatalf("position %d holds %d", i, k)
		}
	}
}

// shape is a graph of names.
type shape struct {
	nodes []string
	edges map[string][]string
}

func (s shape) dependencies(k string) []string { return s.edges[k] }

// shapes returns graphs of n nodes. Names look like those of the cluster, and the input order
// is not an order by dependency.
func shapes(n int) map[string]shape {
	r := rand.New(rand.NewPCG(1, 2))
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("team-%03d/deployment-%05d", i%100, i)
	}
	shuffled := slices.Clone(names)
	r.Shuffle(n, func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	connect := func(nodes []string, dependencies func(i int) []int) shape {
		s := shape{nodes: nodes, edges: map[string][]string{}}
		for i, name := range names {
			for _, d := range dependencies(i) {
				s.edges[name] = append(s.edges[name], names[d])
			}
		}
		return s
	}
	few := func(below, count int) []int {
		var ds []int
		for range count {
			ds = append(ds, r.IntN(below))
		}
		return ds
	}
	layer := n / 10
	return map[string]shape{
		"chain": connect(shuffled, func(i int) []int {
			if i == 0 {
				return nil
			}
			return []int{i - 1}
		}),
		"wide": connect(shuffled, func(i int) []int {
			if i == 0 {
				return nil
			}
			return []int{0}
		}),
		// 10 layers, every node on four of the layer below.
		"layers": connect(shuffled, func(i int) []int {
			if i < layer {
				return nil
			}
			ds := few(layer, 4)
			for j := range ds {
				ds[j] += (i/layer - 1) * layer
			}
			return ds
		}),
		// 4n edges, each to any earlier node.
		"random": connect(shuffled, func(i int) []int {
			if i == 0 {
				return nil
			}
			return few(i, 4)
		}),
		"cycle": connect(names, func(i int) []int { return []int{(i + 1) % n} }),
	}
}

// BenchmarkPlan measures New and Order on 10,000 nodes, or New and its error.
func BenchmarkPlan(b *testing.B) {
	all := shapes(10_000)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s := all[name]
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				g, err := dag.New(s.nodes, s.dependencies)
				if (err != nil) != (name == "cycle") {
					b.Fatal(err)
				}
				if err == nil && len(g.Order()) != len(s.nodes) {
					b.Fatal("nodes are missing")
				}
			}
		})
	}
}

// BenchmarkReady measures one look for ready nodes among 10,000, half of them done.
func BenchmarkReady(b *testing.B) {
	all := shapes(10_000)
	for _, name := range []string{"chain", "wide", "layers", "random"} {
		g, err := dag.New(all[name].nodes, all[name].dependencies)
		if err != nil {
			b.Fatal(err)
		}
		order := g.Order()
		done := map[string]bool{}
		for _, k := range order[:len(order)/2] {
			done[k] = true
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if len(g.Ready(func(k string) bool { return done[k] })) == 0 {
					b.Fatal("nothing is ready")
				}
			}
		})
	}
}
