// Package experiment reconciles Experiments: clusters, then applications in the order of
// their dependencies, then the validation Workflow, then its verdict; and on deletion
// everything down again in the opposite order.
//
// # The road
//
// A pass observes, decides (plan.go, pure) and writes; what it decides depends only on what
// it sees, so a manager that is killed anywhere goes on from there.
//
//  1. The spec is checked, Components are resolved and the kinds of the outside systems
//     are there. Until all of that holds, nothing is created.
//  2. status.startedAt is recorded. From here on targets cannot be added or removed, so
//     that every child can be found again by its name.
//  3. A target whose dependencies are healthy is begun: a gke target gets its claim. Once
//     the claim is Ready its kubeconfig is read and registered with Argo CD as a cluster
//     Secret, and the target's Application is created. A hub target gets only the
//     Application. A target that was begun stays so, whatever becomes of its dependencies.
//  4. When every Application is Healthy and Synced the Workflow is submitted, once: its UID
//     is recorded, and one that disappears without a verdict was deleted by somebody.
//  5. The verdict is recorded with status.completedAt. From here on the only thing that
//     still happens is the end of spec.ttlDays, which deletes the Experiment.
//
// A hub target's "cluster" is the one the manager runs on: nothing of it is created,
// registered or deleted.
//
// # What it watches
//
// Experiments, Components, and as foreign kinds (internal/kube.ForeignKinds) GKEClusters,
// Applications and Workflows that carry our label, and the metadata of WorkflowTemplates.
// An object wakes the Experiment that its annotation names; a Component or template wakes
// the Experiments that name it. There is no polling, but for one thing that cannot be
// watched without reading every Secret of a namespace: a connection Secret that is late
// is looked for again every ten seconds.
//
// # What it reads live
//
// Everything comes from the cache, except: the connection Secret of a claim that is Ready
// while its target has no Application yet; the WorkflowTemplate, once, before the Workflow
// is submitted; a Workflow whose UID is recorded and which the cache does not have; a child
// whose create says AlreadyExists, and one that is changed; and the last lists before
// the finalizer goes.
//
// # What it owns
//
// One claim and one cluster Secret per gke target, one Application per target and one
// Workflow, all with deterministic names that hold a hash of the Experiment's UID, and all
// with its UID as a label. An object under such a name without that label is not touched,
// read or deleted: the Experiment says NameTaken and waits.
//
// # Teardown
//
// The Workflow; then the Applications while their clusters still work, so that Argo CD can
// delete what they deployed, those of dependents first; then the cluster Secret; then the
// claim, whose deletion must be finished before the finalizer goes. A live list of every
// kind proves that nothing is left.
//
// # House style
//
// Phase is a high-water mark: report keeps the highest phase of the run, so it never goes
// back while the Experiment lives. Nothing else reads it.
package experiment
