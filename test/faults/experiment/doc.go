// Package experiment is the world of the Experiment for the harness test/faults: what users
// do, and how Crossplane, Argo CD and Argo Workflows answer. Its test is the sweep.
//
// # World
//
// An outside takes one step at a time, and only when the manager has told of the one before:
// what it could see in one pass or in two would make two references differ. The same rule
// bounds the workloads: a step is taken at a moment that lasts, because a workload holds what
// would end it.
//
// The outsides insist on what the real ones do. Argo CD deploys nothing on a cluster that it
// does not know, and lets an Application there go without what it deployed, which breaks an invariant. It lets none go that it is in the
// middle of syncing, and keeps to the sources that it began with, until it is asked to end that.
// Whatever is deleted by somebody goes when the Experiment has told that it is being deleted.
//
// # Bugs
//
// With the build tag mutants the package has a list of bugs that reconcilers of this kind
// have been found with, and a test that plants each of them and looks whether the sweep finds
// it:
//
//	go test -tags mutants ./test/faults/experiment -run TestMutants -v -timeout 90m
//
// The bugs are edits that the compiler is given in the place of the files (go build
// -overlay), so that the product has no switch for any of them. An edit that does not fit the
// source any more fails, and says so; then it is to be written anew. -mutants.only=a,b plays
// some, -mutants.first ends each at its first catch, and -mutants.all plays every write of
// those that show undisturbed as well. Those that show so by comparison alone are played "by itself", too: as a sweep
// would, beside references that have the bug.
package experiment
