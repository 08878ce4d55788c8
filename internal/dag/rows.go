package dag

import "slices"

// rows holds the edges of one direction as compressed sparse rows: row i lists the neighbours
// of node i.
type rows struct {
	start []int32 // row i is to[start[i]:start[i+1]]; one longer than there are nodes
	to    []int32
}

func (r rows) row(i int32) []int32 { return r.to[r.start[i]:r.start[i+1]] }

// transpose returns the edges of the opposite direction. Its rows are sorted.
func (r rows) transpose() rows {
	n := len(r.start) - 1
	t := rows{start: make([]int32, n+1), to: make([]int32, len(r.to))}
	for _, j := range r.to {
		t.start[j+1]++
	}
	for i := range n {
		t.start[i+1] += t.start[i]
	}
	next := slices.Clone(t.start[:n])
	for i := range int32(n) {
		for _, j := range r.row(i) {
			t.to[next[j]] = i
			next[j]++
		}
	}
	return t
}

// sort returns the nodes by depth, then by position: Kahn's algorithm and a counting sort. If
// there are cycles, the nodes on them and all that depend on those are left out of the order.
// waiting counts the dependencies of each node that are left out: it is 0 for all nodes of the
// order and positive for the others.
func sort(dependencies, dependents rows) (order, waiting []int32) {
	n := max(len(dependencies.start)-1, 0)
	waiting = make([]int32, n)
	depth := make([]int32, n)
	queue := make([]int32, 0, n)
	for i := range int32(n) {
		waiting[i] = int32(len(dependencies.row(i)))
		if waiting[i] == 0 {
			queue = append(queue, i)
		}
	}
	// The queue is by depth: a node joins it when the deepest of its dependencies leaves it,
	// and so that one, the last to write its depth, is the one that counts.
	for head := 0; head < len(queue); head++ {
		i := queue[head]
		for _, j := range dependents.row(i) {
			depth[j] = depth[i] + 1
			if waiting[j]--; waiting[j] == 0 {
				queue = append(queue, j)
			}
		}
	}
	if len(queue) == 0 {
		return nil, waiting
	}

	// Within one depth the queue is by time of joining; sort it by position.
	next := make([]int32, depth[queue[len(queue)-1]]+2) // depth -> place of its next node
	for _, i := range queue {
		next[depth[i]+1]++
	}
	for d := 1; d < len(next); d++ {
		next[d] += next[d-1]
	}
	order = make([]int32, len(queue))
	for i := range int32(n) {
		if waiting[i] == 0 {
			order[next[depth[i]]] = i
			next[depth[i]]++
		}
	}
	return order, waiting
}

// cycle returns the nodes of one cycle, beginning with its first by position, given what sort
// says is waiting. At least one node must be.
//
// A node that waits has a dependency that waits. From the first such node, it follows the first
// such dependency until it meets a node again: from there on the way is a cycle.
func cycle(dependencies rows, waiting []int32) []int32 {
	isWaiting := func(i int32) bool { return waiting[i] > 0 }
	seen := make([]bool, len(waiting))
	var way []int32
	i := int32(slices.IndexFunc(waiting, func(count int32) bool { return count > 0 }))
	for !seen[i] {
		seen[i] = true
		way = append(way, i)
		row := dependencies.row(i)
		i = row[slices.IndexFunc(row, isWaiting)]
	}
	c := way[slices.Index(way, i):]
	first := slices.Index(c, slices.Min(c))
	return slices.Concat(c[first:], c[:first])
}
