// Package toy is a kind that is there to show what it takes to have a reconciler judged by
// test/faults: a world, workloads and a manager, and nothing of the harness itself. It has a
// careless variant, so that it also shows that the harness finds what is wrong.
package toy
