// Package dag orders things that depend on each other: the targets of an Experiment, the
// workloads of a HibernatePlan.
//
// A [Graph] is built once from its nodes and never changes, so it may be shared between
// goroutines. [New] refuses what is no acyclic graph with an error that names the culprits: a
// [DuplicateError], an [UnknownError] or a [CycleError].
//
// # Order
//
// The depth of a node is the number of edges on the longest chain of dependencies below it:
// nodes without dependencies have depth 0. [Graph.Order] sorts nodes by depth and, within one
// depth, by their position in the input. The order therefore
//
//   - puts every node after all of its dependencies;
//   - is a property of the graph alone: it does not change with the sequence in which
//     dependencies are listed, nor with a dependency listed twice;
//   - falls into waves: the nodes of one depth do not depend on each other.
//
// It is not the input with as few moves as possible: a node without dependencies comes before
// all nodes with one, wherever it stood.
//
// # Cost
//
// Nodes are numbered by their position in the input, and edges are kept as compressed sparse
// rows (CSR) of these numbers, once per direction. Building, ordering and one look for ready
// nodes are linear in nodes and edges. Nothing recurses, so a chain may be as long as memory
// permits. Nodes and edges must each number fewer than 2^31.
//
// The package is pure: it holds no client and asks no clock.
package dag
