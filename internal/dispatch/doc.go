// Package dispatch says which targets of a plan start now: in what order they stop, how many at a time, and what
// becomes of the others when one fails. It is pure.
//
// # Order
//
// A [Spec] is one of four types. Sequential targets stop one after the other, as they are listed. Parallel ones stop
// at once. In a DAG a target stops when those that it comes after have stopped, each by itself, not in levels. Stages
// come one after the other; the targets of a stage stop at once if it is parallel, and else one after the other.
//
// Waking up is the reverse of all that, inside serial stages too.
//
// Of those that may start, the one with the longest path ahead of it starts first: by how many targets, or, where that
// is said ([Order.Weigh]), which plans do not, by how long they take. That keeps the whole near the shortest that it can
// be. Of those that are as urgent, what has failed goes last. While it is tried again it is one of those that run at the
// same time, as at first: who bounds them does so for the sake of what they act on.
//
// # Failure
//
// What comes after a target that has failed does not start: an app must not be stopped, or woken, before what it
// rests on. That goes by the edges of the operation: a database that did not wake keeps its app asleep. With
// BestEffort the order of lists and stages is one of time alone, and what comes later starts all the same;
// dependencies hold.
//
// With FailFast, unless BestEffort is wanted, nothing more stops after a failure. It does not hold up waking: what can
// be awake should be.
//
// A target that is done already, or has nothing to be done, does not let those after it start before those that come
// before it.
//
// # Cost
//
// Building an [Order] is linear in targets and dependencies, and so is each look at it, but for the sorting of what may
// start: between two stages is one node that waits for the first and that the second waits for, not an edge for every
// pair.
package dispatch
