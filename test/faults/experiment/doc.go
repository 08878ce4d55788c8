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
// The outsides insist on what the real ones do. Argo CD deploys nothing on a cluster that it does not know, and lets
// an Application there go without what it deployed, which breaks an invariant. It lets none go that it is in the
// middle of syncing, and keeps to the sources that it began with, until it is asked to end that; nor one of a cluster
// that it knows and that is gone. Crossplane lets a claim go before its cluster, unless the claim says otherwise, and
// a namespaced composite, unless it is deleted in the foreground; the Secret with its kubeconfig stands for the
// cluster. Argo Workflows ends what has had its time if it was told of one. An Application may not work at first, or
// any more, and a claim know its address before it is Ready.
// Whatever is deleted by somebody goes when the Experiment has told that it is being deleted.
//
// At a good end what there is must be what the spec says: who is only compared with himself may be wrong in every run.
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
