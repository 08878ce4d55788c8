// Package hibernateplan puts the targets of HibernatePlans to sleep in off-hours, and wakes them exactly as they were.
//
// # What rules all
//
// After a shutdown and a wake-up, whatever fails and whoever is restarted in between, the targets are as they were
// before. Where that cannot be had, the plan says so, and does not call it success.
//
// # What it watches
//
// HibernatePlans and ScheduleExceptions, their statuses too where another manager has written them (kube.Told);
// K8SClusters, Namespaces (their labels and annotations), and its own Jobs. Restore points, ControllerRevisions and
// pods are read from the server, when an attempt has ended, and the Job and the pods that a former plan of the name has
// left, before one begins. So is a Job that the cache does not have yet; what its runner has said is read after it. So
// are a Job that is to be stopped, its pods, and the exceptions of the plan. Which namespaces a target may wake in is
// asked once for each attempt, however many passes that takes to be made. The Role of a target is looked at once by each
// manager, and after an attempt that has failed. A connector in a namespace that is not watched, of which nobody
// tells, is looked at every minute while it cannot be used.
//
// # What it owns
//
// All of it in the manager's namespace, so that a namespace that is deleted takes nothing along that is needed to wake
// what was in it, and so that who may run pods in the namespace of a plan is not who a runner is:
//
//   - a Job for each attempt at an operation on a target, whose pod is tried once, and a ServiceAccount and
//     RoleBindings for it alone, a Secret where a connector has credentials. They go when the outcome is recorded.
//   - a Role for each target, which lets who is bound to it get and update the restore point of that target. It is
//     there from before the first night on, bound to nobody in between, and goes when the plan does: the API server
//     checks each Role that is made, and each binding to it, against the manager's own, by many reads of its store, one
//     after the other. That of a target that was taken out of the plan goes when a cycle is over, the one in which it
//     was woken or the next (tidy). The Roles, logs and ControllerRevisions of a plan that somebody has taken the
//     finalizer off go within the hour, when none of its Jobs is there, and so does what an attempt needed that never
//     had one (sweepOnce).
//   - a ConfigMap for each target that sleeps, its restore point. The runner writes it, and may write no other. It
//     carries a finalizer, and the name of the attempt that may write to it: another's runner is fenced out. It goes
//     when the target is awake and that is recorded. It belongs to a target of a plan by their names, not by a UID: a
//     plan that was deleted and created again finds it, wakes by it, and never captures over it.
//   - a Secret beside the restore point of a target in another cluster, with the credentials that it was put to sleep
//     with, where they and the connector are in the namespace of the plan. What wakes it are those of the connector,
//     but where that has gone with its namespace, or alone, while the plan is deleted. It goes with the restore point,
//     and when the plan does; where somebody has taken the finalizer off the plan, it stays as that does.
//   - a ControllerRevision for each cycle: the plan as the cycle began with it, which its wake-up goes by.
//   - ControllerRevisions with the ledger, where that is too long for the status.
//   - a ConfigMap with the last logs of each target, those of a plan in some 32 MiB, so that one of many targets has
//     their ends only. That of a target that was taken out goes with the first cycle that it has no part in.
//
// RoleBindings in the namespaces of targets and ClusterRoleBindings are bound to the one ClusterRole of an executor.
//
// # How a cycle goes
//
// What is wanted is a function of spec, exceptions, annotations and the time alone: deletion, then override, then an
// annotation, then the schedule. Whoever was down acts on what should be now. A hibernate-now that a plan is created
// with may have come with a backup, and does not count.
//
// A cycle begins when the targets are to sleep, and ends when all are awake. In between it may turn around any time:
// what runs comes to its end, what was not stopped is skipped. What was stopped, wholly or in part, is woken. A runner
// that puts to sleep what is to be awake by then, also because it was taken out of the plan, is itself stopped when its
// attempt is a minute old: its log is kept, its Job deleted, and what it says of what it has done, or is found of it,
// counts. That is no failure.
//
// The ledger in the status is the only memory. An attempt is recorded before anything of it is made, and what it needed
// is cleared away after its outcome was recorded; restore points are released in a third step. Names are derived from
// plan, cycle, turn, target, operation and attempt, so whoever comes after a manager that has ended does the same again
// and not another one. Before anything is made or taken away the server must say that the plan is the one that was
// looked at (kube.Current): by a record of before, a Job that has ended would be made again. Before an operation begins
// it must say so of the plan's exceptions, too. The ledger is written four times a second at most (Options.LedgerPace):
// what ends in between is recorded together, and only the Jobs that the ledger speaks of already are made meanwhile.
//
// # What happens when
//
//   - A Job is deleted: it is made again when its pods have ended; what its runner has said counts in any case. One that
//     was left (--cascade=orphan) and has not started in the time of its Job never may: the attempt has failed, which takes
//     its rights, and the restore point names another from then on. Where something else is wanted by then, or the
//     manager was down between the record of an attempt and its Job for as long, the attempt is taken back, and what it
//     may have put to sleep is woken. The cache never hears of one that comes and goes while a watch is late: until it
//     has a Job that the server says is there, the plan is looked at every second.
//   - A node does not answer: its pods stay, and a Job does not end while they do. An attempt whose Job was told to end
//     (FailureTarget, or deleted) has failed when its runner must have given up by its own deadline, and a minute more:
//     by default after 31 min. Sooner, it might still act.
//   - Somebody else suspends a Job, as what manages queues of Jobs does, or puts everything to sleep that it finds:
//     Degraded says so in a minute. Its own deadline does not run any more: the attempt has failed when the Job was
//     suspended for so long, and a minute more. By then it is cleared away, too, where its plan was forced away.
//   - A runner does not start (its image cannot be pulled, no node has room, a quota lets no pod be made): Degraded
//     says so a minute after its Job was made (RunnerNotStarted), with what its pod says, and is looked at again every
//     minute. It is waited for until the deadline of the Job, because most of that passes. Meshes are asked to put
//     nothing beside a runner, which would not end with it; what others put there is said, and keeps the Job until that
//     deadline.
//   - A pod is deleted or evicted, or the node that is lost is taken away: the attempt has failed, and the target is
//     tried again after 10 s, 20 s, and so on to 10 min, as often as behavior.retries says. Then Strict ends in phase
//     Error, and BestEffort goes on and says Degraded. A wake-up that fails is an Error in any case, and is tried again
//     every 10 min all the same.
//   - What is tried again after an error, 0.2 s to a minute later, puts off neither what the schedule brings nor an
//     attempt that is recorded (kube.Due).
//   - A Job cannot be made (a connector is not ready, a grant was taken back, the API server refuses it as invalid):
//     the same. What may pass (a quota, rights that come late, an API server that is busy) is that only after two
//     minutes, of each attempt: of many that were recorded together the last are tried late. They have
//     their turn in a round, so that ten for which a webhook sleeps that one behind them wakes keep nothing asleep.
//   - Credentials of a connector have expired, or its cluster has not answered: the same, and all that may be tried may
//     have failed before anybody has put that right. When the connector is ready again, or has other credentials than
//     the last attempt had, what has failed behind it is tried again at once, and as often as at first, also what was
//     to be put to sleep, but no more than once in ten minutes, because somebody may write the Secret all the time.
//     That is looked at every minute while there is such a target: nobody tells of a Secret. What the attempt had its
//     restore point says.
//   - A webhook of others hangs, and is to be ignored: each write takes as long as it is waited for, and what an
//     attempt needs is made in as many passes as there must be. The Job comes last, so nothing acts before it has all.
//   - A namespace is gone, or going: what was in it is told of as left, and everything else wakes; and nothing is put
//     to sleep in it. Nor is anything in one whose owner lets nothing sleep there any more, or that has lost the
//     labels by which it was chosen, between two attempts either; it keeps nothing from waking there. That plans of a
//     namespace may act on the whole cluster no more keeps nothing from waking either, but what a plan has only found
//     asleep. The ledger has namespaces of the manager's own cluster alone: what a kubeconfig reached wakes nowhere
//     else, if its connector turns to that cluster. In which one a target was left asleep its restore point says, and
//     not what its connector reaches by now, or does not.
//   - A namespace takes no RoleBinding in the morning, as by a policy that came over night: what sleeps in the others
//     of its target wakes, and the attempt says what the namespace has said, and fails where something of it sleeps
//     there.
//   - Nothing of a target was captured in the evening, as where its namespaces took no RoleBinding, or there is nothing
//     in it: it has nothing to wake, and no runner is made, nor a connector asked, to say so. What has refused one in
//     the evening may refuse it in the morning.
//   - A namespace refuses a target: one that the target names is told of as one that does not let it, or does not
//     exist, and one that has the labels by which it chooses is not chosen, of which nothing is told: a name is a
//     label, too. Who writes a plan may not be one who sees which namespaces there are.
//   - A target is in more namespaces than its entry of the ledger has room for, some 3,700 with the longest names,
//     those that it may sleep in among them: it is not put to sleep (TooManyNamespaces), as one that cannot be reached.
//   - A target cannot be reached when a cycle is to begin: Strict waits, BestEffort has the others sleep, and says
//     Degraded. What another plan has left asleep wakes without it in any case.
//   - Somebody has changed what sleeps: it stays as it is, and Degraded says so (LeftAsFound) until the next cycle.
//   - The plan is edited: the cycle goes on as it began. A target that was taken out is woken at once, while the phase
//     is that of the others, unless it cannot be; a new one sleeps from the next cycle on, which begins when all that
//     the cycle has was taken out and is awake. With a spec that is refused nothing begins, nor again what has begun to
//     wake, and what sleeps wakes by the schedule; where that cannot be read, by the one that the cycle began with. A
//     spec.runner that is refused makes no pods, and the usual ones are made.
//   - Parameters are a mistake that the releases before have not told of (executor.Mistaken), as a plan that sleeps by them is
//     looked at by a new one: it is refused as one that is edited so, and what sleeps wakes by them.
//   - A plan has more than 100 exceptions that have not passed: so many count, suspensions before others, because each
//     costs every look at the schedule some. What sleeps wakes by those, and nothing begins (TooManyExceptions); the
//     others say that they are Uncounted.
//   - An exception has a mistake, as where its cron expression has the day 7, or none of its windows is in its time by the
//     clock of the plan: it says so (Invalid), and does not count. A suspension counts for all of its time until that is
//     mended, because nothing may be put to sleep against one.
//   - A target cannot wake, and others wait for it: it is taken out of the plan and its dependencies, or, but in a DAG,
//     behavior.mode becomes BestEffort, which counts at once for what is to wake. It is tried again all the same, when
//     nothing else is to be started, and its cycle goes on until it is awake. Where it never will be, the condition
//     says how to let go of it: the plan is left and created again, and what is kept of the target deleted in between.
//   - It is suspended: what runs comes to its end, nothing starts.
//   - It is deleted: with WakeUp everything is woken first, suspended or not, and what another of its name has left,
//     too, whatever its own spec is worth by then, until deletion.deadline, which counts from when a manager has seen
//     it; with Leave, and after that, restore points stay. The order holds until a target has failed as often as it
//     may: it keeps no others asleep, because nobody wakes those after the deadline.
//   - A restore point is gone, or has less than was put to sleep: its wake-up fails, and says so, until it was put
//     back. (That there is one is recorded when the Job of a cycle's first attempt has run for a minute. Until then the
//     manager that has made that Job knows it; another one looks what its runner was granted, some of which is in the
//     namespaces of the target. Nothing is where that of a target in another cluster would be found, if the manager's
//     namespace was emptied: it is recorded before its runner begins, which is a write more for such targets, and would
//     be for each of each night.)
//   - A restore point of a former cycle, or another than the last attempt has left, is put in the place of the one that
//     there is, as by a backup: the next attempt fails, and says so, because what it was by then is not what it was
//     before it was put to sleep. Where that attempt has not said how it ended, what it has left is not known, but for
//     its cycle. Of the same cycle retry-now has it taken as it is; and a plan of the name that is created in the place
//     of this one, which leaves it (deletionPolicy Leave), wakes by it all the same. One that is put in the place of
//     that of a target which is awake, before it was released, goes when somebody has deleted it, which Ready asks for,
//     or stays when the plan leaves it.
//   - The ControllerRevision of a cycle is gone, or is that of a former plan, as where a status came with a backup: the
//     spec takes its place, if it has the same targets in the same order, and of the same types.
//   - Others make a plan so large that the server keeps no larger one, as by annotations: its status is refused. An
//     Event says so (StatusTooLarge), and nothing is done that it would have to record first. For an hour then the ledger
//     leaves the status, however short it is, and it has no preview, and no entries of a cycle that is over, which makes
//     room for what is to wake.
//   - A part of a ledger that has left the status is gone: nothing is done any more (LedgerLost), but for a look each
//     minute whether somebody has put it back. The plan can be deleted with Leave, and what sleeps wakes by the next
//     one.
//   - A cycle was begun by a manager that keeps restore points in another namespace, because it was started with another
//     --hibernation-namespace, or because there are two: nothing is done, and nothing cleared away (NamespacesChanged;
//     where the ledger has left the status, LedgerLost), until the deadline of a deletion.
//   - A workload comes back from a backup as it was put to sleep, with another UID: managedFields tell (cluster.CameBack),
//     and it wakes by the restore point. Where there is none of it, it is not taken for one that is asleep by day: the
//     target fails, and says so. A copy that was written anew is another one, and left as it is.
//   - ScheduleExceptions cannot be listed, as when the CRDs were deleted: what is to wake goes by the cache, a plan that
//     goes by none.
//   - A plan of the name of one that was left asleep is created: it wakes what the restore points tell of, where they
//     say that it was, if it may act there now, and when no runner of the former plan may act any more, by the deadline
//     that it was given; until then it begins nothing, and Degraded says what sleeps (LeftAsleep), as it does while the
//     plan is suspended, only tried, or refused. One that does not say of which target it is is told of by its name,
//     between cycles from then on, and keeps nothing else from beginning, and is waited for when the plan is deleted,
//     as others are; what it tells of wakes when it says so again. Where it is to sleep by then, it goes on by those
//     restore points; but what somebody has woken since is as he has made it. So is what a backup has brought the
//     restore point back of that was released.
//   - The connector of a plan that is deleted has gone with its namespace, or as one of what is deleted together: what
//     sleeps in the manager's own cluster wakes by the rights of its runner alone, and what sleeps in another by the
//     credentials that are kept. Nobody revokes an account by deleting a connector.
//   - Another namespace than the manager's does not let go what a runner was granted there, as by a webhook that sleeps:
//     after two minutes it is left (RightsLeft), because that would keep its target asleep. The ServiceAccount is gone.
//   - What is left of a plan that goes cannot be cleared away: when its deadline is over, and that was tried for two
//     minutes, it goes all the same. What has a Job is cleared away later, and Roles and logs by the hour.
//   - A connector is changed between the record of an attempt and its Job: that attempt has failed. One that reaches
//     another cluster while targets sleep wakes nothing: restore points know theirs, and the attempt fails
//     (OtherCluster).
//
// A pass looks at ten attempts, makes ten and clears ten away, --max-concurrent-reconciles at a time. Sixteen times as
// many plans are looked at at the same time, and no more attempts of all of them together, twice where they hang: what
// they wait for is the API server. Where many begin at one minute, those that have ended come after them, until there
// are some 500 attempts: the more RoleBindings there are in the namespace of the Jobs, the more every request there
// costs the API server.
//
// Of the plans of one namespace so many attempts are under way at the same time (Options.Runners), whatever they are
// of, so that neither the manager's namespace nor what makes pods has more to do for one of them: that takes one after
// the other, and others would wait for all that came before. The plans of the namespace share that evenly (rooms). What
// wakes waits for no room.
//
// # What it costs
//
// A target that sleeps takes 8 writes beside those of its plan, and its Role once: restore point, ServiceAccount,
// RoleBinding and Job are created, and all but the first taken away, and its log is kept (and two for each namespace
// that it is in, and four for one in another cluster, of the two Secrets with its credentials); a plan takes its
// finalizer, its revision, and three statuses or more, and one with targets in other clusters another. Nothing is asked
// for between transitions, but for a look each hour, and what all plans have left is listed as often. What a plan has
// for targets that are not in it any more is listed at the end of its first cycle after an edit.
// `make load SCENARIO=calls LOADFLAGS=-subject=hibernateplan-single` holds it to that.
//
// A ledger of more than 128 KiB (Options.LedgerInStatus), which is that of some 150 targets, leaves the status for
// ControllerRevisions, 100 entries each, of which only those are written anew that have changed (shards.go). Before a
// manager writes the first of a plan it reads the plan's version from the server, once: its cache may be behind. A
// pass over 10,000 targets takes 10 ms, and a status of such a plan 0.3 s of the API server, as it writes the whole
// plan.
package hibernateplan
