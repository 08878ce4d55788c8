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
//     are there. Until all of that holds, nothing is created. One that is so large that etcd would
//     not keep how far its targets have come is refused here (size.go).
//  2. status.startedAt is recorded, with the namespaces that children live in. From here on
//     targets cannot be added or removed, so that every child can be found again by its
//     name; and a manager that is told other namespaces refuses to act on the Experiment
//     instead of building it twice.
//  3. A target whose dependencies are healthy is begun: a gke target gets its claim. Once the claim is Ready its
//     kubeconfig is read and registered with Argo CD as a cluster Secret, and the target's Application is created. The
//     Application carries the UID of the claim that it was registered with, so that a claim which takes the place of
//     another is registered again, and its Applications deleted and created anew. A hub target gets only the
//     Application. A target that was begun stays so, whatever becomes of its dependencies.
//  4. When every Application is Healthy and Synced, and nothing is being changed, the Workflow is submitted, once:
//     its UID is recorded, and one that disappears without a verdict was deleted by somebody. (One that somebody
//     deletes in the moment between its creation and the record of it is submitted again.) With it goes a hash of
//     what it validates (targets, resolved Components, workflow), and one of the clusters, by the UIDs of what they
//     are known by: when they are changed before the verdict, or another takes the place of a cluster, that it is
//     superseded is recorded, before anything else is changed; then it is deleted, what is deployed is brought to the
//     spec, and when the Workflow is gone and every target as the spec asks for, by what the server says, another is
//     submitted. It has a name of its own, because Argo Workflows takes the pods of a Workflow for its own by its
//     name, and those of the first are deleted by the garbage collector, after it; they may still run for their grace
//     period when the second begins. While the spec cannot be acted on, an outdated Workflow has no verdict, and
//     stays; nor has one of which that is not known. One that a version submitted which made that hash another way is
//     no reason to submit another: what it validates is taken to be what the spec says when that is deployed, unless
//     that has been edited since the other version looked. A cluster that was changed counts when it says that it has
//     seen that (observedGeneration); one that says nothing of it is taken at its word, and how far machines are
//     replaced is not looked at.
//  5. The verdict is recorded with status.completedAt. It is the Workflow's, or with completion mode manual a
//     person's, who resumes the Workflow or annotates the Experiment when there is one (an annotation from before
//     holds the Workflow up, because whoever exports a manifest exports it, too; with another mode it is said to be
//     ignored): an Application that degrades in the meantime shows in its condition and does not undo it. A success
//     whose cluster or Application has gone, or is being brought back to the spec, waits for that, no longer than it
//     may take. What the status says for good is what the server has: a verdict, a bad one too, waits for a cache that
//     has something of before. From here on the only things that still happen are spec.terminate, and the end of its
//     time to live (lifetime.go), which deletes the Experiment, as it does in every phase, and that of a target's own.
//
// A hub target's "cluster" is the one the manager runs on: nothing of it is provisioned,
// registered or deleted but the namespace that Argo CD makes there for the Experiment. That
// one has a name of the Experiment's own, because the hub is shared, and goes in the teardown.
// An author can search for the names by which it is that of another, and Argo CD labels
// whatever namespace an Application names: so where there is one of the name that is not the
// Experiment's, the target gets no Application. On clusters of its own the namespace is what
// the target says, or the Experiment's name.
//
// A gke target's claim may be a namespaced composite of Crossplane v2, which has no claim: then its kubeconfig is
// beside it, and it is deleted in the foreground, because it would be gone before the cluster otherwise. In the
// namespace of the Experiment that kubeconfig is trusted no further than that of an existing cluster, because its
// authors may be able to write it. A claim that says no endpoint is not registered: who may write it could name the
// composite of another.
//
// A vcluster target's cluster is made by two objects, the Cluster of Cluster API and what it names. The Cluster is
// deleted first, and what it has left when it is gone. Both are in a namespace on the hub of the cluster's own, which
// the manager makes, because the chart runs once in a namespace; by a RoleBinding there it lets itself read the Secrets
// of that namespace alone, and makes it again when it may not. The namespace goes when the cluster is gone, and with it
// whatever is in it. Its pods run on the hub, so the namespace allows the baseline of the Pod Security Standards and no
// more, and values of the chart, which could grant any right on the hub, are refused unless the manager is told to take
// them.
//
// A talos target's cluster is made by a Cluster of Cluster API, a TalosControlPlane, a TalosConfigTemplate and a
// MachineDeployment, on an infrastructure that only the user knows: the spec names templates of it, in the namespace of
// those objects. Of each the cluster gets a copy of its own before it is made, because Cluster API makes templates the
// property of the clusters that use them, and they go with the last. The copies are of kinds that cannot be watched:
// they are looked for in every pass, and every minute, until the cluster is up, written once and never changed, and
// listed when the cluster is gone. Before that nothing of it but the Cluster is deleted, however long it takes, because
// machines cannot go without what they are made on. A control plane that takes the place of another is waited for: what
// the Cluster says of it once it says for good. A template that is changed later concerns the clusters that come later.
// Who writes one says what the address of the cluster is, which Workflows get: a host that is neither an IP address nor
// a name is none, and such a cluster is not registered.
//
// An existing target's cluster is there already: the kubeconfig that the user names is registered, and nothing is made
// or deleted. Its server is one of https, and what Argo CD says of a cluster that it cannot read is not repeated
// (argocd.discreet): its author could have Argo CD ask what he does not reach himself. It may be others' too, so the
// namespace has such a name there, and stays, because the manager talks to no cluster but the hub. What the kubeconfig
// says of its address, which must be a plain URL because it is its author's text and Workflows get it, is kept as an
// annotation of the Application, which saves reading the Secret again. One that somebody must mend (its Secret is
// there, and what it has cannot be used) is told of before anything is begun, and nothing is until then, also where
// its target waits for others: those would be paid for in the meantime. One that is not there may be made by what
// comes before it.
//
// A clusterRef target's cluster is one that a Cluster of core.arlon.io stands for, in the namespace of the Experiment:
// who may create Experiments there may deploy to it. What makes the Cluster registers it with Argo CD, too, under what
// name it likes (internal/external/arlon says what it promises); the Experiment never does, because Argo CD would use
// one of two registrations for both. It finds that one by the UID of the Cluster, and nothing else, when the Cluster is
// Ready at the generation that it has, and reads no more of the Secret than the server, which is the destination of the
// Applications. They carry it as an annotation, too, so that it need not be read again, and where the two are not the
// same it is; and the UID of the Cluster: one that takes the place of another is another cluster, also at the same
// address. A Cluster that is not Ready any more, or gone, is as a claim that is: the target is Provisioning, with its
// deadline, no verdict is good, and what is deployed stays until there is another. Neither the Cluster nor its Secret
// is ever written: the cluster is others', too, as an existing one. The Cluster is none of the objects of the target
// (Observed.References), so that what is made, marked, deleted or listed as left is never it.
//
// Of two that would register one address with different credentials the first does, and the other says so and waits
// (registrations.go). This manager knows what it is about to register. Another that shares the Experiments with it does
// not: each looks again when it has registered a cluster, and takes that back where it sees the other's, before
// anything is deployed there. One that was stopped between the two does so when it looks again, and finds its own
// Secret beside the other's and no Application of the target. (Where the kubeconfig is one of another address by then,
// and that is taken, too, its Secret stays as long as its Experiment.) Which server an older version has registered
// does no label tell until it is written again: while there are any of those, all that Experiments have registered are
// looked at.
//
// A target has one Application with the sources of all its components, or with applicationPolicy PerComponent one for
// each, in the order of the list: one is created when those before it are healthy, and deleted before them. (One that
// degrades once the Workflow is there holds nothing up.) They are found by the UID of the Experiment, an index of the
// cache, and are its own if they have the name that the component in their annotation gives them; so one whose
// component the spec does not name any more is found, and deleted, of several the youngest first. Nothing is validated
// before it is gone.
//
// Healthy is what Argo CD says of the sources that the spec has now, when nobody asks it to look again: every change of
// an Application carries the annotation that does (argocd.argoproj.io/refresh), because the status does not tell with
// which project or labels of the namespace it was compared. Argo CD takes it off when it has looked; it is never put
// back, and somebody who sets it has the Application outdated for that moment. Nor is one healthy on the hub whose
// namespace does not enforce what it is to: Argo CD prefers the labels of a namespace that a source brings. What a
// component tolerates counts as that, too: OutOfSync only after a sync with these sources and revisions, and a
// comparison after it, because before it is what was there until then that is healthy; Degraded only where nothing is
// known to be on its way.
//
// A target with observability has more components than its own: one that collects metrics and sends them to
// the hub, and with transport tailscale those that bring the cluster into the tailnet and the hub's endpoint
// to the cluster (observability.go). They are Components as all others, whose names are the manager's flags;
// each has an Application of its own, whatever the policy, so that one which waits for its credentials fails
// no sync of what is validated; they come last, because they may need what the target's own bring, and are the
// target's own where it names them. They are resolved strictly: nothing takes their place, and one that cannot
// be given what it is there for is an error. They are no part of what the Workflow validates: an administrator
// changes them. What the manager knows reaches them, as any Component, by parameters that say where they
// are from, which nobody else sets; so no chart is known to the manager, and no credential can get there: it
// knows the name of a Secret, which somebody brings to the cluster, because a copy of the hub's on every
// cluster that is thrown away would be everybody's. What a Component says of its own metrics becomes a source
// of its Application, by yet another Component, whose chart sees which kinds of monitors the cluster has, and
// the manager does not. On an existing cluster no operator is installed, because it would take the place of
// another.
//
// A target whose cluster or Application takes longer than spec.progressDeadline fails the Experiment; how long it has
// been in its state stands in its status. One that is not begun, or is up, and of which a write is refused that the
// spec asks for is on its way from then on, but where only its cluster is to be changed: then it is up, and this
// manager alone knows since when it cannot be. The Workflow's deadline is for Argo Workflows to keep; one that it has
// not started in that time, or not ended a minute after it, fails the Experiment, too, because nobody may be looking at
// it, and clusters cost; so does one that this manager could not submit for as long, where the server has none after
// all. An exit handler, of which Argo Workflows keeps no deadline, may go on as long again, or five minutes, and so may
// a Workflow whose nodes are in a database, of which it is not seen whether that is all that goes on. What a success
// waits for has its time from the end of the Workflow on: what was so before, and was no matter, is nothing to fail by.
// Of a Workflow, an Application, or what stands for a cluster, that nobody has looked at in a minute it is said.
//
// Where somebody has taken the record of the start away it is made anew, in the next pass, of whatever is there; where
// the whole status is empty, and the Experiment has been looked at before, the server is asked, and until it has said
// so the status stays empty.
//
// A target with a time to live of its own is taken down so long after the verdict, and after those that
// depend on it, by the same teardown, as if the Experiment had no other targets and no Workflow (leaving.go);
// targets of which none depends on another do not wait for each other. That it goes is recorded before
// anything of it is deleted, so the deletion rests on the Experiment that the server has; from then on it goes
// to its end, whatever the spec says. What keeps it is told of the target, and so is a cluster that somebody has
// taken the label off, which stays, and costs: the verdict stands.
//
// spec.terminate ends the Experiment, with the verdict that it has or as failed, and takes everything down as a
// deletion does; the Experiment stays, and says in its condition CleanedUp how far that is. A read that fails when a
// verdict is looked for is tried once more.
//
// A suspended Experiment is one whose spec cannot be acted on for now: nothing is begun, changed,
// submitted or judged to have succeeded, what is there stays, and its time goes on.
//
// Where clusters come from is in one file for each type (provider_*.go); the road knows only what
// the interface provider says.
//
// A Workflow can do what its ServiceAccount may, so an author chooses neither that nor its namespace
// freely: in the namespace of Argo Workflows it is the manager's or one that the Experiment's Namespace
// lists, and elsewhere only the Experiment's own namespace will do, where creating Experiments is then
// worth creating pods.
//
// # What it watches
//
// Experiments, their statuses too where another manager has written them (kube.Told); Components, the metadata of
// Namespaces, because one may bind its Experiments to an Argo CD project, and those on the hub say what they enforce,
// and as foreign kinds (internal/kube.ForeignKinds) GKEClusters, Clusters of Cluster API, VClusters,
// TalosControlPlanes, TalosConfigTemplates, MachineDeployments, Applications and Workflows, these only where they carry
// our label, of WorkflowTemplates and ClusterWorkflowTemplates the arguments, and of the Clusters of core.arlon.io, of
// all that there are where the Experiments are, the condition Ready. Of CustomResourceDefinitions the metadata is
// watched; one of those groups is read when it changes, and at a start when it is new. An object wakes the Experiment
// that its annotation names; a Component, template or Cluster of core.arlon.io wakes the Experiments that name it.
// There is no polling, but for what cannot be watched without reading every Secret of a namespace: a connection Secret
// that is late, a registration of such a Cluster that is missing or cannot be used, and a template of a cluster that
// does not exist, are looked for every ten seconds; the kubeconfig of an existing cluster that is missing or cannot be
// used, when as much time has passed again, after ten seconds to a minute; a cluster Secret that was deleted in a
// teardown after 0.1 s, or that was created again before Applications go, and every two seconds if it does not stay, or
// the spec does not name their component any more, one whose deletion somebody's finalizer holds every two seconds, and
// so is a leftover or the Workflow when the server has it and the cache does not. An object that somebody has taken the
// annotation off is looked at every minute, and so are the kubeconfig of a cluster that Argo CD cannot use, or does not
// know, one that Argo CD has other credentials of, a namespace on the hub that enforces less than it must, and a kind
// that a teardown cannot list. What is nearer to its end is looked at first (kube.Enqueue), and a quarter of the
// workers, at least one, begins new ones, namespaces in turn and of each the oldest first (kube.Gate), so that neither
// what is under way nor another namespace waits for a thousand that come at once. What hangs, by somebody's webhook, is
// let go of by the gate after a quarter of a second, and is not counted among the workers after one (kube.Workers).
// A WorkflowTemplate that was created less than three seconds ago is waited for: Argo Workflows may not know it yet.
// What has not come to its end is tried last of its Experiment's in the next pass, which it may take all the time of,
// too. An Application whose sync Argo CD has tried and does not try any more is synced again, once, after one minute to
// ten: as long as it has been tried until then. One that it is in the middle of syncing with other sources than the
// spec has by now is asked to end that, unless somebody has asked for it: Argo CD keeps to those that it began with.
// Errors, a name that another's object has taken among them, are tried again after 0.2 s, doubling up to a minute; none
// puts off the end of a time to live, nor one of what cannot be written that of a deadline for progress (kube.Due).
//
// # What it reads live
//
// Everything comes from the cache, except: a Namespace that it does not have yet; the metadata of the Experiment,
// before a pass that creates or changes anything, and which ends when it is not what was planned for, because what is
// created for one that is gone would stay for good, a Workflow that is submitted for an old spec stays the only one,
// one that the status records must not follow another, and an Application must not go back; the copies of templates,
// and the templates of those that are not there, of a cluster that is not up, and where it is not there, and they are
// those of one, whether it is and somebody has taken the label off it; the kubeconfig Secret of a cluster that is
// Ready and not registered, of one that is there already and waits for others before anything is begun, and of one
// that Argo CD cannot use, once a minute, with its cluster Secret; with each kubeconfig the cluster Secrets that
// Experiments have made at its address (that there are none by a list that the API server answers at once, of what
// this manager has written and seen; any by one of this moment), and of one that authors may write those of all,
// because Argo CD finds clusters by their addresses and one with other credentials must not be registered twice (where
// one was in the way before, only that and the target's own, until it is not as it was), of those that have the same
// ones as the target's own until now the kubeconfigs, which may have been rotated with it, and where several managers
// share the Experiments (--watch-namespaces) once more when it is registered, because another may have done so at the
// same moment; the metadata of the Components that it names, before an Application is changed, a Workflow superseded
// or another submitted, because what is deployed must not go back to what they were; what clusters are known by,
// before a Workflow is superseded for others; the cluster Secrets with the UID of a Cluster of core.arlon.io that is
// Ready, by a list with that label, when no Application says where it is or Argo CD cannot use it, and the metadata of
// that Cluster before Applications are created there; every Application, before a registration is taken back that was
// found beside another's; a Component that the cache does not have, where --component-repo-url takes its place, once
// for each generation and in every review; a Workflow whose UID is recorded and which the cache does not have, or has
// another of; a template that the cache does not have, where a Workflow that only waits takes its place; a child whose
// create says AlreadyExists, and one that is changed; the metadata of the namespace of a target on the hub, before the
// first of its Applications is created; who the manager is, before it lets itself read Secrets; a claim, before its
// cluster is registered, and before Applications go that were for the one whose place it has taken; every claim,
// Cluster and Application once, also one that is not there, before a verdict, after which nothing is looked at any
// more, good or bad, and what one that is terminated rests on, its Workflow too where that has not ended by what is
// known, and before another Workflow is submitted; the Workflow, or that there is none, before something is said to
// have taken longer than it may; the cluster Secret of a target, before Applications of it are asked to go that
// nothing takes the place of, and where that does not make its cluster known, the cluster Secrets of all, its
// kubeconfig, and in a teardown whether the server has the Applications still (the cluster Secret also where the
// status tells of one that it goes without what it deployed); in a teardown the cluster Secret of every target that
// has one, while anything of a cluster is left, the Cluster of one that is made by several objects when that has gone
// and others are to, a claim when nothing else is left and the status says of others, or of none, that they are waited
// for, a list of Applications before one is asked to go that by the spec another target, or a component after its own,
// needs, none of which the cache has, with it, where no Workflow is recorded that counts, a list of Workflows, one of
// both before anything of the clusters goes, one of every kind when the cache has nothing left, cannot see one of
// them, somebody keeps a cluster, the deadline is over, or nothing at all is recorded, and the claim, or Cluster, of
// an Application that is asked to go or is being deleted, where the cache has none, or another than it is on; and of
// an Experiment that the cache does not have, and that has left clusters, or Applications on those of others, which
// nobody has asked to go, the metadata, and where the server has none, either, those of what it has left, and of the
// ConfigMaps that tell of such for its namespace.
//
// # What it owns
//
// One claim per gke target; a namespace, a RoleBinding, a Cluster and a VCluster per vcluster target; a Cluster, what
// it is made by and three copies of templates per talos target; one cluster Secret for each that is not on the hub, one
// Application per target or component, one Workflow, one namespace on the hub for each target there, and the ConfigMap
// with what is left behind, which nothing deletes; all with deterministic names that hold a hash of the Experiment's
// UID, and all with its UID as a label. An object under such a name without that label is not touched, read or deleted:
// the Experiment says NameTaken and waits. One with the label under another name is not the Experiment's either:
// somebody has copied it. Taking the label off a child takes it out of the Experiment's hands, a cluster from the next
// moment on, with what it is made by and the namespace that it is in, which are told of as left behind. Claims and
// Applications that are edited or deleted by somebody are brought back at once, an Application also where a field was
// added to its spec that decides what is deployed, or how that is judged (argocd.Strange), a VCluster also where it has
// values or a version of the chart that the spec does not give it, or not any more (capi.Strange), and when that was
// done five times to one, once a minute (kube.Fights): a program that does so, an admission policy too, would have Argo
// CD compare, or a cluster paid for, anew each time. The condition says Contended then; what the spec asks for later is
// written at once, and a teardown waits for nobody. A cluster Secret is brought back when its Application fails,
// because Secrets are not watched, and so a kubeconfig that was rotated is registered again when Argo CD is refused
// with the old one; where others were registered by copies of it, when those have been rotated, too. What other
// Experiments have registered by it gets the new credentials at the same time, as it does when another is registered
// by it: one that is over, or suspended, looks at nothing, and Argo CD would go on to use the old ones for all at that
// address. One that somebody has turned to another cluster, with credentials which that takes, fails nothing, and is
// not seen: who may write there has every cluster of Argo CD's anyway, and a read of each before every verdict would be
// paid for by all.
//
// # Teardown
//
// The Workflow; then the Applications while their clusters still work, so that Argo CD can delete what they deployed,
// those of dependents first, by what the server has, because a cache that has none of those may be behind; then the
// namespace on the hub, the cluster Secret and the claim, which Crossplane keeps until the composite and the cluster
// are gone (compositeDeletePolicy Foreground); last the namespaces that clusters were in. The finalizer goes when live
// lists prove that nothing is left, or that the cluster does not serve the kind at all; one of which it no longer
// serves our version proves nothing, and is waited for.
//
// What does not go is waited for by the deadline of spec.deletion, 30 minutes by default. It counts for each object
// from when that was asked to go, which stands in the status, also if it is created again each time, and by the clock
// of the manager alone, so that neither a manager that was away nor one whose clock is wrong gives less, or more. A
// Workflow or Application holds up what comes next for a quarter of it, and is left behind after half of it, as a
// cluster is. What may not be deleted, or listed, counts from when this manager was first refused. An Application whose
// cluster is gone, which the server must say, is freed of Argo CD's finalizers. Argo CD lets none go that it is in the
// middle of syncing, and a hook may never end: it is asked to end that, whoever has deleted the Application. Of a
// cluster that it does not know, Argo CD lets an Application go and leaves what that deployed; so one that was
// unregistered is registered again before its Applications are deleted, where there is a kubeconfig for that, which is
// tried for a quarter of the deadline (an Application that the spec does not name any more waits as long as it takes;
// what makes a Cluster of core.arlon.io is waited for as long to register that, while it is there), and the
// registration stays as long as Applications go, also while the cluster does. An Application that goes all the same
// without Argo CD having deleted what it deployed, because its cluster was gone before or is not known, stands in the
// status before it goes, and is told of at the end as what is left behind is: load balancers may cost for ever. It is
// told of no more where Argo CD knows its cluster again before it has gone; after that nobody looks. When
// the deadline of the whole teardown is over, too, a ConfigMap in the manager's namespace tells of everything that is
// left, and the finalizer goes; with policy Block it does not. So it tells of clusters that were made for another
// Experiment of the same name and that nobody has asked to go, because that one was forced away, or this one restored
// from a backup; an Event does at the start. What does not fit into the status of how it ends is remembered. A manager
// that looks in other namespaces than the Experiment was begun with never lets it go, because it knows nothing of what
// is there. An Experiment that spec.terminate has ended stays anyway, and has no deadline. A finalizer that somebody
// takes off an Experiment that is not being deleted is put back at once; where that is refused Ready says so, and its
// end waits, too: a deletion would take nothing down. One that loses it in a teardown is gone, with its spec: who still
// pays for its clusters is told of those that nobody has asked to go, and of Applications on clusters that stay, where
// they would be deployed for ever (forced.go), by an Event of each and a ConfigMap, once; and nothing is done with
// them, because a manager cannot tell a teardown that somebody has given up from a backup of which the Experiments are
// yet to come. What an object says of its owner finds them, when the Experiment goes and whenever a manager starts.
// That proves nothing, a field manager neither, to whoever may create such objects: so there are no more than a hundred
// of these ConfigMaps for a namespace, and of what comes then the Events alone tell.
//
// # Components
//
// A Component has a reconciler of its own (component.go), in a manager of all namespaces: its condition Ready says what
// no reference to it could mend, status.usedBy how many Experiments name it, and its finalizer keeps it while any does,
// because they would be left without it, or deploy what the fallback has in its place: before that is dropped
// Experiments are listed from the server, because a cache may not have seen one yet. A manager of some namespaces keeps
// none, and lets one go that another has kept, by the same list. It is counted a second late, so that a burst of
// Experiments is one write a second. The road of an Experiment reads none of this, but tells of a Component that is
// being deleted.
//
// The text of a parameter reaches the chart as it is (resolve.go): what Argo CD and Helm would read as something else
// is escaped, and only that, because another text of what runs would be validated anew. A fraction stands among the
// values, because Helm reads a parameter's as text. Two parameters of which one sets a part of another, and two
// components that would be one Helm release, are refused: which of them counts is chance, or the order of the sources.
// A release that would be called by a name which begins with a digit has another, which the Application says; one that
// was deployed without that keeps its name.
//
// # House style
//
// Phase is a high-water mark: it never goes back while the Experiment lives, and nothing
// reads it but the phase itself. Ready alone speaks of errors that pass, so that the steps do
// not flap. Children are written through the live client: a single write through the cached
// one begins to watch a kind.
package experiment
