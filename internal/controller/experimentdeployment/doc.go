// Package experimentdeployment reconciles ExperimentDeployments: twins of workloads. What a twin is, and what its
// surroundings say, is internal/twin; how an override is merged is internal/merge.
//
// # The road
//
//  1. The spec is checked and the source looked up: a kind that is not served is SourceFound=False KindUnavailable
//     and waited for, as Rollouts may be installed later; a source that does not exist, or is being deleted, is
//     SourceFound=False, and the twin stays as it is, or goes where onSourceDeleted says so; the server is asked
//     first, whatever the cache says. Of a twin that cannot be seen the status says what it said last.
//  2. A source in another namespace than the ExperimentDeployment's must be granted: the Namespace of the source
//     lists that of the ExperimentDeployment in an annotation. Whoever may create an ExperimentDeployment may run
//     pods beside its source; with the webhook the API server is asked whether he may (admission.go), and what
//     cannot be asked is refused.
//  3. The twin is built (internal/twin). What is refused is Accepted=False InvalidOverride with the path, is not
//     tried again before something changes, and leaves the last good twin as it is. Most passes are because of how a
//     twin is: one that is made of just the same is not built again (draft.go).
//  4. It is created; changed by an update that carries the resourceVersion, because server-side apply refuses
//     lists that have an element twice, which sources may have (p8); or where a field differs that cannot be
//     changed, deleted in the foreground and created again (s1), which an Event tells of.
//  5. The status says how it is, which Services it is behind, and whose autoscalers and budgets count its pods: of a
//     twin that stays as it is, too, also where its source is gone.
//
// Whether a twin must be written is seen from a hash of what was wanted, which it carries, and from its UID and
// generation, which are recorded with every write: another one is drift, and is put right. Before anything of a twin is
// written the server must say that its owner is the one that was looked at, unless it just has, when it took the
// finalizer: a manager that starts may have caches of before. So it must say of the source before a twin is created
// again: the cache may still have one that is gone, and its twin with it.
//
// A twin that is not ready for as long as onUnready says is scaled to zero, because its pods count for the source's
// autoscaler and budgets: not while all that there are are ready, whatever its controller is about, nor while there are
// none, nor while its controller, which has not seen what was written last, does not tell; those that come then, or are
// ready no more, have their own time. A StatefulSet whose pods have not come by then is told of as a Deployment whose
// progressDeadlineSeconds are over, also where they would be kept: Kubernetes does not say so.
// That is recorded, with the hash of what was wanted, before it is done; another spec is tried again, and has its own
// time, once, from when it was first looked at and again when it is written: what the API server refuses does not begin
// it anew, and is not what keeps the pods. A time in which the twin was not looked at does not count.
//
// With sourcePolicy Pinned the spec of the source is kept as it is in a ControllerRevision beside the twin, made before
// it and never changed. Where the owner is forced away it goes by its owner reference, and in another namespace with
// the twin, by which alone it is found there: so it is made when the twin has been tried. What is of its name somebody
// else may have made: the status has the hash of what was kept, and what is there before that, and is not of the source
// as it is now, is deleted, and made again, unless there is a twin of it. Where it is lost, or is another than was
// recorded (PinLost), the twin stays as it is, and it is looked for again every five minutes. Services that select the
// source as it is now, and not the twin, are told of. It goes when the twin is made of it no more, also where a pass on
// the way there has failed: after one it is looked for.
//
// # Where it is, and what it owns
//
// The twin is always beside its source, with its Services, Secrets and accounts (o2). Its name is made from the
// UID of the ExperimentDeployment, and it carries that as a label, and the owner's full name as an annotation; an
// object of that name without the label is NameTaken, unless it has the UID that was recorded of the twin: somebody has
// taken the label off, or changed it, and it is put back. In the ExperimentDeployment's own namespace it has an owner
// reference as well; in another it must not have one, because the garbage collector looks for owners beside
// what they own, and would delete it (o1). The finalizer deletes it explicitly, in the foreground, and waits, in
// both, until the server says that it is gone. A twin whose owner was forced away is taken down when it is seen,
// and so at every start (wake.go), if its name is the one that its owner's UID and its source make, in the
// namespace of that source: a copy that somebody has made of a twin, or of its whole namespace, has its marks.
//
// Labels and annotations that others put on the twin stay; those that it has from its source, which it lists in an
// annotation, or that are ours, go when they are no longer wanted. Nothing else is ever written: no Service, no
// autoscaler, no budget (a2, a7), and nothing of the source.
//
// What the API server refuses as invalid is told of (Ready=False Rejected) and tried again when something
// changes. A twin that somebody changes, or deletes, is put right at once, with an Event; five times, and from then
// on once a minute, so that whoever does so by a program has not both at work for ever (kube.Fights).
// Errors are tried again after 0.2 s, doubling up to a minute, and put off neither the end of its time to live nor that
// of its time to become ready (kube.Due).
//
// # What it watches
//
// ExperimentDeployments, their statuses too where another manager has written them (kube.Told); Deployments,
// StatefulSets and, once they are installed, Rollouts, without what is never read of them, each of which wakes those
// that name it as a source or own it as a twin; Services, HorizontalPodAutoscalers, ScaledObjects,
// VerticalPodAutoscalers and PodDisruptionBudgets of namespaces that have a source, and what the autoscalers are for
// when it comes or goes, and of which it is not known where they are installed and cannot be read; the metadata of
// Namespaces. How a volume may be used that the source's pods use is asked of the server in each pass, and, where there
// is none or it is for one pod alone, every five minutes; hardly any source has one. As long as there is none that the
// twin's pods would use, too, it is not created, and one without pods gets none; one that may hold one for one pod alone
// has none (p6). With --watch-namespaces a source in another namespace is refused: nobody would see it.
//
// Of a twin its owner is not woken by what no pass would see: how its controller counts its templates, and what of its
// status says nothing of how it is. Nor by that it is there as this process has just made it, which that pass has taken
// in; whose owner is gone by then wakes all the same, as nobody else would take it down.
//
// # What a change costs
//
// A new ExperimentDeployment: its finalizer, the twin and a status, and one more for each step that its pods take: that
// there are none yet is no step; one that is pinned its ControllerRevision, too, and a live read of its source, and in
// another namespace a trial of the twin before. A change of its override, or of its source's template: the twin and a
// status, and a live read of its own metadata before. A change of its source's status or replicas, but for what is told
// of (none, or no more than the twin's), or a pass that finds nothing to do: nothing.
package experimentdeployment
