package hibernateplan

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/test/faults"
)

// besidePlans are the kinds that plans name and are named by: they own nothing, and say how they are.
var besidePlans = []string{"ScheduleException", "K8SCluster", "CloudProvider"}

const (
	// exception changes nothing: its window has none of the plan's.
	exception = `
apiVersion: hibernator.ardikabs.com/v1alpha1
kind: ScheduleException
metadata: {name: party}
spec: {planRef: {name: night}, type: suspend, validFrom: "2020-01-01T00:00:00Z", validUntil: "2120-01-01T00:00:00Z", windows: [{startCron: "0 0 28 2 *", endCron: "1 0 28 2 *"}]}
`
	ownCluster = `
apiVersion: hibernator.ardikabs.com/v1alpha1
kind: K8SCluster
metadata: {name: own}
spec: {k8s: {inCluster: true}}
`
	awsAccount = `
apiVersion: hibernator.ardikabs.com/v1alpha1
kind: CloudProvider
metadata: {name: aws}
spec: {type: aws, aws: {accountId: "123456789012", region: eu-central-1, auth: {static: {secretRef: {name: keys}}}}}
`
	// reads lets the manager read the Secrets of the run.
	reads = `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reads}
subjects: [{kind: ServiceAccount, name: labkeeper-controller-manager, namespace: ` + managerNamespace + `}]
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: labkeeper-kubeconfig-reader}
`
	// away is a kubeconfig of a cluster that does not answer.
	away = `
apiVersion: v1
kind: Secret
metadata: {name: away}
stringData:
  kubeconfig: |
    apiVersion: v1
    kind: Config
    current-context: away
    clusters: [{name: away, cluster: {server: "https://127.0.0.1:1"}}]
    contexts: [{name: away, context: {cluster: away, user: nobody}}]
    users: [{name: nobody, user: {token: nothing-worth}}]
`
)

// says is when the one object of a kind tells of its generation that it is in a state, which is the reason of its condition
// Ready where it has such.
func says(kind string, generation int64, state string) moment {
	return func(s faults.State) bool {
		for _, u := range s.Of(kind) {
			observed, _, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
			is, _, _ := unstructured.NestedString(u.Object, "status", "state")
			all, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
			return observed == generation && (is == state || slices.ContainsFunc(all, func(c any) bool { return c.(map[string]any)["reason"] == state }))
		}
		return false
	}
}

// except makes an exception of a type that has been valid for long, with a window from some time after the manager's now to
// another. Where that is later than the plan tells of and something else comes before, the plan has nothing to write.
func except(kind v1alpha1.ExceptionType, from, until time.Duration) action {
	return func(ctx context.Context, s *faults.Stage) error {
		now, err := clockOf(ctx, s)
		if err != nil {
			return err
		}
		u := read(exception)[0]
		spec := u.Object["spec"].(map[string]any)
		spec["type"], spec["windows"] = string(kind), []any{window(now, from, until)}
		return s.Create(ctx, u)
	}
}

// nextAfter is when a plan waits for something that is so long after its creation.
func nextAfter(d time.Duration) moment {
	return func(s faults.State) bool {
		plan := thePlan(s)
		return plan != nil && plan.Status.NextTransition != nil && plan.Status.NextTransition.Time.Sub(plan.CreationTimestamp.Time) > d
	}
}

// canary is the token of one whom the API server knows, and must never be seen outside of Secrets.
const canary = "canary-7be1c4-token"

// remote is a cluster that is reached by a kubeconfig, and kubeconfig is that, of the API server that there is.
const (
	remote = `
apiVersion: hibernator.ardikabs.com/v1alpha1
kind: K8SCluster
metadata: {name: own}
spec: {k8s: {kubeconfigRef: {name: remote}}}
`
	kubeconfig = `
apiVersion: v1
kind: Secret
metadata: {name: remote}
stringData:
  kubeconfig: |
    apiVersion: v1
    kind: Config
    current-context: remote
    clusters: [{name: remote, cluster: {server: "SERVER", insecure-skip-tls-verify: true}}]
    contexts: [{name: remote, context: {cluster: remote, user: canary}}]
    users: [{name: canary, user: {token: ` + canary + `}}]
`
)

// putKubeconfig creates its Secret.
func putKubeconfig(ctx context.Context, s *faults.Stage) error {
	return put(strings.Replace(kubeconfig, "SERVER", s.Server, 1))(ctx, s)
}

const day = 24 * time.Hour

// connected is a target that is reached by a connector.
var connected = strings.Replace(granted("a"), "type:", "connectorRef: {kind: K8SCluster, name: own}, type:", 1)

// ofOthers are what users do with those.
//
// Two reconcilers that write at the same moment do so in any order, so that no moment concerns both.
var ofOthers = []faults.Workload{
	{
		// What sleeps by an exception wakes without it.
		Name:    "extended",
		Objects: waiting(objects(sequential, two[:1])),
		Steps: []faults.Step{
			faults.At(over(1), schedule(time.Hour, 2*time.Hour)),
			faults.At(over(2), except(v1alpha1.ExceptionExtend, 10*day, 12*day)),
			faults.At(says("ScheduleException", 1, string(v1alpha1.ExceptionActive)), sleep(11*day)),
			faults.At(asleepNow(2), drop(exception)),
		},
		Done: all(over(2), without("ScheduleException")),
	},
	{
		// What was kept awake by an exception sleeps when that is over.
		Name:    "kept-awake",
		Objects: waiting(objects(sequential, two[:1])),
		Steps: []faults.Step{
			faults.At(over(1), schedules([2]time.Duration{time.Hour, 2 * time.Hour}, [2]time.Duration{10 * day, 13 * day})),
			faults.At(over(2), except(v1alpha1.ExceptionSuspend, 9*day, 12*day)),
			faults.At(says("ScheduleException", 1, string(v1alpha1.ExceptionActive)), sleep(11*day)),
			faults.At(all(over(2), nextAfter(11*day)), sleep(36*time.Hour)),
		},
		Done: all(asleepNow(2), says("ScheduleException", 1, string(v1alpha1.ExceptionActive))),
	},
	{
		Name:    "detached",
		Objects: read(exception),
		Steps: []faults.Step{
			faults.At(says("ScheduleException", 1, string(v1alpha1.ExceptionDetached)), drop(exception), create(waiting(objects(sequential, two[:1])))),
			faults.At(over(1), put(exception)),
			faults.At(says("ScheduleException", 1, string(v1alpha1.ExceptionActive)), remove),
		},
		Done: all(gone, says("ScheduleException", 1, string(v1alpha1.ExceptionDetached))),
	},
	{
		Name:    "connectors",
		Objects: read(reads, away, ownCluster),
		Steps: []faults.Step{
			faults.At(says("K8SCluster", 1, v1alpha1.ReasonValidated), put(awsAccount)),
			faults.At(says("CloudProvider", 1, v1alpha1.ReasonNoChecker), change(awsAccount, `{"spec":{"aws":{"region":"eu-west-1"}}}`)),
			faults.At(says("CloudProvider", 2, v1alpha1.ReasonNoChecker), change(ownCluster, `{"spec":{"k8s":{"inCluster":null,"kubeconfigRef":{"name":"lost"}}}}`)),
			faults.At(says("K8SCluster", 2, v1alpha1.ReasonKubeconfigMissing), change(ownCluster, `{"spec":{"k8s":{"kubeconfigRef":{"name":"away"}}}}`)),
			faults.At(says("K8SCluster", 3, v1alpha1.ReasonUnreachable), change(ownCluster, `{"spec":{"k8s":{"inCluster":true,"kubeconfigRef":null}}}`)),
			faults.At(says("K8SCluster", 4, v1alpha1.ReasonValidated), drop(ownCluster), put(ownCluster)),
		},
		Done: says("K8SCluster", 1, v1alpha1.ReasonValidated),
	},
	{
		Name:    "by-connector",
		Objects: read(ownCluster, strings.ReplaceAll(thingText, "NAME", "a")),
		Steps: []faults.Step{
			faults.At(says("K8SCluster", 1, v1alpha1.ReasonValidated), create(objects(sequential, []string{connected}))),
			faults.At(asleepNow(1), wake),
		},
		Done: over(2),
	},
	{
		// What reaches its cluster is kept as long as it sleeps, in Secrets alone.
		Name:    "by-kubeconfig",
		Objects: read(reads, strings.ReplaceAll(thingText, "NAME", "a")),
		Steps: []faults.Step{
			faults.At(sleeps(), putKubeconfig, put(remote)),
			faults.At(says("K8SCluster", 1, v1alpha1.ReasonValidated), create(objects(sequential, []string{connected}))),
			faults.At(asleepNow(1), remove),
		},
		Done: all(gone, awake),
	},
}
