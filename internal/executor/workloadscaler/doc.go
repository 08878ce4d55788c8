// Package workloadscaler puts workloads to sleep by taking their pods: what has replicas is scaled to 0, and a
// CronJob is suspended.
//
// # Parameters
//
//	includedGroups: [Deployment, StatefulSet, Rollout, CronJob, ReplicaSet, ReplicationController, Kind.group, group/version/resource]
//	namespace: {literals: [shop]}          # or {selector: {team: shop}}, as it is when it goes to sleep
//	workloadSelector: {matchLabels: {…}}   # all, unless it is said
//	exclude: {names: [proxy, shop/db], labels: {keep: "true"}}
//	awaitCompletion: {enabled: true, timeout: 5m}
//
// Kinds are put to sleep in the order of includedGroups, and those of one kind by their names. What is excluded by name is
// so whatever its kind, and there are no patterns; what is excluded by labels has all of them. A kind that is not one of
// the five needs subresource scale; a runner in the manager's own cluster gets the rights for it by a ClusterRole labelled
// hibernator.ardikabs.com/aggregate-to-workloadscaler: "true".
//
// Not touched is what another of the target's resources, or one that is excluded, controls, a ReplicaSet that
// anything controls, and the twins of ExperimentDeployments, whose replicas would be put back at once. A Job that
// runs comes to its end: only new ones are held back, and Kubernetes makes up for the last one that was missed when
// the CronJob wakes, unless that is longer ago than its startingDeadlineSeconds.
//
// An error, before anything is stopped, is what would not come back, and also where it comes to that only later:
// volumes, where a StatefulSet, or what makes one, deletes them when it is scaled down, and a CloneSet (OpenKruise)
// that has some; and an update that is held back, by a partition or OnDelete of a StatefulSet, or as a Deployment is
// paused in the midst of it, or that has failed while pods of before serve. Kubernetes takes it for through when no
// pods are left, and all of them would wake with it. So does Argo Rollouts with an update that has failed, but for one
// that was aborted, and with the steps of a canary, but for a pause without a duration. An AnalysisRun of it that goes
// on, in the background of such a pause, too, would fail without pods, and have it aborted. An update that is only
// under way goes on when it wakes.
//
// Nothing here knows what serves an admission webhook. Leave that out of the target where the webhook is not to be
// ignored and asked about the namespace of the manager, or its own: as long as it sleeps nobody may make what wakes
// it.
//
// A workload is waited for until its pods are gone, or all ready. When the time for that is over, or that of the
// runner but for some seconds, as many ready ones will do as it had when it was put to sleep: what has been broken for
// a week keeps nothing else asleep. Pods that are about to end are told of by the status of a Deployment, and of the
// ReplicaSets of a Rollout, from Kubernetes 1.35 on; before that these count as gone when their pods have been asked
// to end.
//
// # What is changed
//
// Replicas are written by subresource scale, everything else, and those of a Rollout, by a merge patch of the one
// field, all with the resourceVersion that was read. A Rollout without replicas, which is one of 1, has none again
// afterwards. In the middle of a canary it sleeps and wakes at the same step, a pause; but pods that a step
// setCanaryScale counts by replicas stay whatever the Rollout has, so that it does not come to rest, and the result
// says so.
//
// Autoscalers are part of their workload: they sleep before it, in the same step, and wake after it. So nothing rests
// on the order in which a runner takes the resources of a target.
//
// A ScaledObject (KEDA) is paused by annotation autoscaling.keda.sh/paused-replicas: "0". To wake, the annotation is
// first set to the replicas that there were, then the workload is scaled, and then the annotation is what it was,
// which is mostly none. KEDA never sees replicas that it is not told to have: a paused one it scales to what the
// annotation says whenever it looks, and one that is not it scales from 0 by its triggers.
//
// A HorizontalPodAutoscaler does nothing while its target has 0 replicas (condition ScalingActive is False, with
// reason ScalingDisabled), and goes on when it has some: it need not be changed, and so its bounds cannot be lost.
// Workloads wake in one step to what they had, so it does not start from 1. The exception is one with minReplicas 0
// (feature gate HPAScaleToZero): before Kubernetes 1.36 it scales anything from 0, since then only what it has scaled
// to 0 itself. As minReplicas 1 would make the latter scale up at once, not that is changed but
// spec.behavior.scaleUp.selectPolicy, to Disabled. The HorizontalPodAutoscaler of a ScaledObject is KEDA's, which
// deletes and makes it.
//
// Nothing stays applied, so no field is anybody's that was not: that a Deployment or a StatefulSet is to have 0
// replicas is applied, because nobody has written a 0 by an update of subresource scale, and the update that wakes it
// takes the field again. A runner with the rights of before, which may not patch that, updates it all the same. What
// writes a field stands in managedFields, though, as after kubectl scale (but of kinds with a scale of their own):
// labkeeper-sleep while it sleeps, and labkeeper-runner from then on, so that who ignores what the former has
// written, as Argo CD can, leaves alone what sleeps, and ignores nothing by day. Who applies other replicas by
// server-side apply is told of it, once. To take that out again a runner would need to patch whole workloads, which
// is more than it should be able to do.
//
// # What others change meanwhile
//
// It stays. A field is brought back if it still has the value that it was put to sleep with, in the same object: by
// its UID. Everything else is left, and the note says what it is, and who has made it so, as far as managedFields
// tell. So does the note of what was put to sleep and has its value again by somebody else: it was awake already.
// Left is, too, what an admission webhook gives another value than it is woken with. Of a spec.behavior of which
// somebody has changed something else scaleUp.selectPolicy alone is brought back: the HorizontalPodAutoscaler would
// never scale up again.
//
// What an admission webhook does not let sleep has its value back at once, and the attempt has failed. Where a runner
// does not come to that, because it is killed or an answer is lost, managedFields tell the next attempt, or the
// wake-up, that labkeeper-sleep was the last to write what is there: that is not how it was, and is not left either. Of
// a kind of which they do not tell it the API server is asked first, by a dry run, what it would have.
//
// What somebody changes between the capture and the moment that it is put to sleep is captured again, and kept, before
// that: as that it wakes. So is what was found asleep, or was deleted and created again, and is awake when another
// attempt comes; until then the latter keeps its attempt from success. An autoscaler that a workload gets between two
// attempts is put to sleep by the next one, whether the workload sleeps by then or not. What he puts to sleep himself
// between the last look and the write is not told from what the write has done, and wakes as it was captured. Nor is
// what he scales to 0 by subresource scale, as kubectl scale does, after a runner was killed between the capture and the
// change: managedFields name nobody then, as they do where a runner with the rights of before has changed it, and what
// may have been put to sleep wakes.
//
// What Argo CD manages counts as asleep when it has been so for some seconds (cluster.Watched): what it heals is awake again
// at once, and it is of no use to wait for it then. The attempt has failed, and says what Argo CD needs, by the kind of
// what it heals, and what the runner may not do; the next one may find that it has only synced.
//
// In a namespace that takes no part any more the runner may not look: nothing more is put to sleep there, and what
// sleeps there is left. An object of a kind that is not served at all any more is gone, if the API server says that:
// what stands before it (a proxy, a load balancer) may answer 404, too, which is an error. Where only the version is
// not served that it was put to sleep with, it is not, and waking it is tried again until that is.
package workloadscaler
