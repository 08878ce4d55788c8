// Package hibernateplan is the world of the HibernatePlan for the harness test/faults: what users do to plans, and the
// Jobs that plans make. Its test is the sweep.
//
// There is no Job controller. The World plays it, and the pods: in a Job it runs the real runner (internal/runner),
// with an executor of its own for targets of type noop. What sleeps is a ConfigMap for each target, its thing, which
// has a value that is lost while it sleeps: who captures it then brings back another. A Job ends when the plan has
// told of all before, so that every run has the same writes.
//
// The parameters of a target say which attempts fail, and failureMessage how: by default the operation is done in part
// and says so, and with "lost" nobody hears of the pod any more, which goes on acting when another has taken over.
//
// K8SClusters, CloudProviders and ScheduleExceptions, which own nothing, are in it, too (beside.go). The real API
// server is asked of the one K8SCluster, and a port that nobody listens at is the cluster that does not answer. Another is
// the API server again, by a token that must be in Secrets alone.
//
// There are no pods, but for one of a Job that somebody deletes: it is there until the workload takes it away.
//
// With the build tag mutants the package has a list of bugs that a reconciler of plans may have; those that every
// reconciler may have are beside the Experiment's.
package hibernateplan
