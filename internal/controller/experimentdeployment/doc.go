// Package experimentdeployment will reconcile ExperimentDeployments. This is its design; what there is of it is
// internal/twin (what a twin is, and what its surroundings say) and internal/merge (how an override is merged).
//
// # The road
//
//  1. The spec is checked and the source looked up: a kind that is not served is SourceFound=False KindUnavailable
//     and waited for, as Rollouts may be installed later; a source that does not exist, or is being deleted, is
//     SourceFound=False, and the twin stays as it is, whatever the cache says: the server is asked first.
//  2. A source in another namespace than the ExperimentDeployment's must be granted: the Namespace of the source
//     lists that of the ExperimentDeployment in an annotation. Whoever may create an ExperimentDeployment may run
//     pods beside its source; with the webhook the API server is asked whether he may.
//  3. The twin is built (internal/twin). What is refused is Accepted=False InvalidOverride with the path, is not
//     tried again before something changes, and leaves the last good twin as it is.
//  4. It is created; changed by an update that carries the resourceVersion, because server-side apply refuses
//     lists that have an element twice, which sources may have (p8); or where a field differs that cannot be
//     changed, deleted in the foreground and created again (s1), which an Event tells of.
//  5. The status says how it is, which Services it is behind, and whose autoscalers and budgets count its pods.
//
// Whether a twin must be written is seen from a hash of what was wanted, which it carries, and from its
// generation, which is recorded with every write: another one is drift, and is put right.
//
// A twin that is not ready for as long as onUnready says is scaled to zero, because its pods count for the
// source's autoscaler and budgets. That is recorded, with the hash of the template, before it is done; another
// template is tried again.
//
// With sourcePolicy Pinned the sanitised spec of the source is kept in a ControllerRevision beside the twin,
// made before it and never changed.
//
// # Where it is, and what it owns
//
// The twin is always beside its source, with its Services, Secrets and accounts (o2). Its name is made from the
// UID of the ExperimentDeployment, and it carries that as a label, and the owner's full name as an annotation; an
// object of that name without the label is NameTaken. In the ExperimentDeployment's own namespace it has an owner
// reference as well; in another it must not have one, because the garbage collector looks for owners beside
// what they own, and would delete it (o1). The finalizer deletes it explicitly, and waits, in both.
//
// Nothing else is ever written: no Service, no autoscaler, no budget (a2, a7), and nothing of the source.
//
// # What it watches
//
// ExperimentDeployments; Deployments, StatefulSets and, once they are installed, Rollouts, without what is never
// read of them, each of which wakes those that name it as a source or own it as a twin; Services,
// HorizontalPodAutoscalers, ScaledObjects and PodDisruptionBudgets of namespaces that have a source; the
// metadata of Namespaces.
//
// # What a change costs
//
// A new ExperimentDeployment: its finalizer, the twin and a status. A change of its override, or of its source's
// template: the twin and a status. A change of its source's status or replicas, or a pass that finds nothing
// to do: nothing.
package experimentdeployment
