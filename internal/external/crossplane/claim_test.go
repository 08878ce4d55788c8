package crossplane

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/labkeeper/labkeeper/test/crds"
)

func TestClaim(t *testing.T) {
	tests := map[string]struct {
		cluster GKECluster
		want    map[string]any
	}{
		"full": {
			GKECluster{
				Namespace: "lab", Name: strings.Repeat("x", MaxClaimName), Zone: "europe-west4-b",
				NodeCount: 3, MachineType: "n2-standard-4", DiskSizeGb: 100, Preemptible: true,
			},
			map[string]any{"zone": "europe-west4-b", "nodeCount": int64(3), "machineType": "n2-standard-4", "diskSizeGb": int64(100), "preemptible": true, "compositeDeletePolicy": "Foreground"},
		},
		"smallest": {
			GKECluster{Namespace: "lab", Name: "x", Zone: "us-east1-b", NodeCount: 1, DiskSizeGb: 10},
			map[string]any{"zone": "us-east1-b", "nodeCount": int64(1), "machineType": "", "diskSizeGb": int64(10), "preemptible": false, "compositeDeletePolicy": "Foreground"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			claim := test.cluster.Claim()
			if err := crds.Require(t).Validate(claim); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(test.want, claim.Object["spec"]); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			if claim.GetNamespace() != test.cluster.Namespace || claim.GetName() != test.cluster.Name {
				t.Errorf("it is %s/%s", claim.GetNamespace(), claim.GetName())
			}
		})
	}
}

func TestPathsThatReadClaimReads(t *testing.T) {
	crds.ExpectFields(t, GKEClusterGVK, map[string]string{
		"status.conditions":            "array",
		"status.conditions.[].type":    "string",
		"status.conditions.[].status":  "string",
		"status.conditions.[].reason":  "string",
		"status.conditions.[].message": "string",
		"status.endpoint":              "string",
		"status.kubeconfigSecret.name": "string",
		"status.kubeconfigSecret.key":  "string",
		"spec.resourceRef.name":        "string",
	})
}

// claim is a claim as the API server returns it, with the given end of its text.
func claim(t *testing.T, rest string) *unstructured.Unstructured {
	t.Helper()
	return crds.RequireObject(t, `
apiVersion: illm.io/v1alpha1
kind: GKECluster
metadata: {namespace: lab, name: tutorial-app-abcdefgh}
spec:
  zone: us-central1-a
  nodeCount: 1
  compositeDeletePolicy: Background
`+rest)
}

func TestReadClaim(t *testing.T) {
	const ref = "  resourceRef: {apiVersion: illm.io/v1alpha1, kind: XGKECluster, name: tutorial-app-abcdefgh-x7k2p}\n"
	tests := map[string]struct {
		rest string
		want ClaimState
	}{
		"new":                {"", ClaimState{}},
		"without conditions": {"status: {clusterName: x}\n", ClaimState{}},
		"waiting": {ref + `
status:
  conditions:
  - {type: Synced, status: "True", reason: ReconcileSuccess, lastTransitionTime: "2026-03-01T12:00:00Z"}
  - {type: Ready, status: "False", reason: Waiting, message: Composite resource claim is waiting for composite resource to become Ready, lastTransitionTime: "2026-03-01T12:00:00Z"}
`, ClaimState{
			Composite: "tutorial-app-abcdefgh-x7k2p",
			Message:   "Waiting: Composite resource claim is waiting for composite resource to become Ready; see crossplane beta trace gkecluster tutorial-app-abcdefgh -n lab -o wide",
		}},
		"note 08: ready": {ref + `
status:
  endpoint: 203.0.113.10
  conditions:
  - {type: Synced, status: "True", reason: ReconcileSuccess, lastTransitionTime: "2026-03-01T12:00:00Z"}
  - {type: Ready, status: "True", reason: Available, lastTransitionTime: "2026-03-01T12:09:00Z"}
  connectionDetails: {lastPublishedTime: "2026-03-01T12:09:00Z"}
`, ClaimState{Ready: true, Endpoint: "https://203.0.113.10", Composite: "tutorial-app-abcdefgh-x7k2p"}},
		"an endpoint of IPv6":       {"status: {endpoint: \"2001:db8::1\"}\n", ClaimState{Endpoint: "https://[2001:db8::1]"}},
		"an endpoint with a port":   {"status: {endpoint: \"203.0.113.10:6443\"}\n", ClaimState{Endpoint: "https://203.0.113.10:6443"}},
		"an endpoint that is a URL": {"status: {endpoint: \"https://gke.example.com:8443\"}\n", ClaimState{Endpoint: "https://gke.example.com:8443"}},
		"an endpoint for a script":  {"status: {endpoint: \"203.0.113.10/$(id)\"}\n", ClaimState{}},
		"an endpoint without end":   {"status: {endpoint: " + strings.Repeat("x", 1<<20) + "}\n", ClaimState{}},
		"failed, without Ready": {`
status:
  conditions:
  - {type: Synced, status: "False", reason: ReconcileError, message: "cannot compose resources: quota", lastTransitionTime: "2026-03-01T12:00:00Z"}
`, ClaimState{Failed: true, Message: "ReconcileError: cannot compose resources: quota"}},
		"failed, which is said before what it waits for": {`
status:
  conditions:
  - {type: Ready, status: "False", reason: Creating, message: "", lastTransitionTime: "2026-03-01T12:00:00Z"}
  - {type: Synced, status: "False", reason: ReconcileError, message: "", lastTransitionTime: "2026-03-01T12:00:00Z"}
`, ClaimState{Failed: true, Message: "ReconcileError"}},
		"ready and not synced is not failed": {`
status:
  conditions:
  - {type: Synced, status: "False", reason: ReconcileError, message: timeout, lastTransitionTime: "2026-03-01T12:00:00Z"}
  - {type: Ready, status: "True", reason: Available, lastTransitionTime: "2026-03-01T12:00:00Z"}
`, ClaimState{Ready: true, Warning: "ReconcileError: timeout"}},
		"a composite that says where its kubeconfig is": {"  crossplane: {}\nstatus: {kubeconfigSecret: {name: lab-admin, key: value}}\n",
			ClaimState{Composite: "tutorial-app-abcdefgh", Namespaced: true, Secret: "lab-admin", Key: "value"}},
		"a composite that Crossplane looks at from time to time": {"  crossplane: {}\n" + `
status:
  conditions:
  - {type: Synced, status: "True", reason: ReconcileSuccess, lastTransitionTime: "2026-03-01T12:00:00Z"}
  - {type: Ready, status: "False", reason: Creating, message: "Unready resources: cluster", lastTransitionTime: "2026-03-01T12:00:00Z"}
  - {type: Responsive, status: "False", reason: WatchCircuitOpen, message: Too many watch events from Cluster/a (default). Allowing events periodically., lastTransitionTime: "2026-03-01T12:00:00Z"}
`, ClaimState{Composite: "tutorial-app-abcdefgh", Namespaced: true,
			Message: "Creating: Unready resources: cluster; WatchCircuitOpen: Too many watch events from Cluster/a (default). Allowing events periodically; see crossplane beta trace gkecluster tutorial-app-abcdefgh -n lab -o wide"}},
		"a composite that says that alone": {"  crossplane: {}\nstatus: {conditions: [{type: Responsive, status: \"False\", reason: WatchCircuitOpen, lastTransitionTime: \"2026-03-01T12:00:00Z\"}]}\n",
			ClaimState{Composite: "tutorial-app-abcdefgh", Namespaced: true, Message: "WatchCircuitOpen; see crossplane beta trace gkecluster tutorial-app-abcdefgh -n lab -o wide"}},
		"a composite that is looked at as ever": {"  crossplane: {}\nstatus: {conditions: [{type: Responsive, status: \"True\", reason: WatchCircuitClosed, lastTransitionTime: \"2026-03-01T12:00:00Z\"}]}\n",
			ClaimState{Composite: "tutorial-app-abcdefgh", Namespaced: true}},
		"a claim has no say in that": {ref + "status: {kubeconfigSecret: {name: another-cluster-conn}}\n",
			ClaimState{Composite: "tutorial-app-abcdefgh-x7k2p"}},
		"unknown": {`
status:
  conditions:
  - {type: Synced, status: Unknown, reason: Paused, lastTransitionTime: "2026-03-01T12:00:00Z"}
  - {type: Ready, status: Unknown, reason: "", message: no word yet, lastTransitionTime: "2026-03-01T12:00:00Z"}
`, ClaimState{Message: "no word yet; see crossplane beta trace gkecluster tutorial-app-abcdefgh -n lab -o wide"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, ReadClaim(claim(t, test.rest))); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
		})
	}
}

// One that is paused stays Ready, and does not go: what Crossplane says of it is told.
func TestReadClaimThatGoes(t *testing.T) {
	conditions := func(synced string) string {
		return "status:\n  conditions:\n  - {type: Synced, " + synced + ", lastTransitionTime: \"2026-03-01T12:00:00Z\"}\n  - {type: Ready, status: \"True\", reason: Available, lastTransitionTime: \"2026-03-01T12:00:00Z\"}\n"
	}
	now := metav1.Now()
	for name, test := range map[string]struct{ synced, want string }{
		"paused": {`status: "False", reason: ReconcilePaused, message: Reconciliation is paused via the pause annotation`, "ReconcilePaused: Reconciliation is paused via the pause annotation"},
		"not":    {`status: "True", reason: ReconcileSuccess`, ""},
	} {
		u := claim(t, conditions(test.synced))
		if got := ReadClaim(u).Message; got != "" {
			t.Errorf("%s: while it stays it says %q", name, got)
		}
		u.SetDeletionTimestamp(&now)
		if got := ReadClaim(u).Message; got != test.want {
			t.Errorf("%s: it says %q", name, got)
		}
	}
}

// What does not look like a claim is read as one that says nothing.
func TestReadClaimOfOtherShapes(t *testing.T) {
	for name, status := range map[string]any{
		"status is a string":      "x",
		"conditions are a map":    map[string]any{"conditions": map[string]any{}},
		"a condition is a string": map[string]any{"conditions": []any{"Ready"}},
		"a status is a boolean":   map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": true}}},
		"an endpoint is a number": map[string]any{"endpoint": int64(1)},
		"status is null":          nil,
	} {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{Object: map[string]any{"spec": "x", "status": status}}
			if diff := cmp.Diff(ClaimState{}, ReadClaim(u)); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConnectionSecret(t *testing.T) {
	want := types.NamespacedName{Namespace: "crossplane-system", Name: "tutorial-x7k2p-cluster-conn"}
	if got := ConnectionSecret("crossplane-system", "tutorial-x7k2p"); got != want {
		t.Errorf("it is %s, want %s", got, want)
	}
}
