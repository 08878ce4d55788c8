package arlon

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/labkeeper/labkeeper/test/crds"
)

func TestPathsThatReadClusterReads(t *testing.T) {
	crds.ExpectFields(t, ClusterGVK, map[string]string{
		"status.conditions":                       "array",
		"status.conditions.[].type":               "string",
		"status.conditions.[].status":             "string",
		"status.conditions.[].reason":             "string",
		"status.conditions.[].message":            "string",
		"status.conditions.[].observedGeneration": "integer",
	})
}

// cluster is a Cluster of generation 3, with the given end of its text.
func cluster(t *testing.T, rest string) *unstructured.Unstructured {
	t.Helper()
	return crds.RequireObject(t, `
apiVersion: core.arlon.io/v1
kind: Cluster
metadata: {namespace: lab, name: k3, uid: u-1, generation: 3, labels: {a: b}, annotations: {arlon.io/profiles: "a,b"}}
spec:
  clusterTemplate: {url: https://git.example.com/fleet.git, path: base, revision: main}
`+rest)
}

const since = `lastTransitionTime: "2026-03-01T12:00:00Z"`

func TestReadCluster(t *testing.T) {
	for name, test := range map[string]struct {
		rest string
		want ClusterState
	}{
		"new":               {"", ClusterState{}},
		"created, as Arlon": {"status: {state: created, innerClusterName: x, message: all is well, overrideSuccessful: true}\n", ClusterState{}},
		"ready":             {"status: {conditions: [{type: Ready, status: 'True', reason: Up, message: '', observedGeneration: 3, " + since + "}]}\n", ClusterState{Ready: true}},
		"ready of none":     {"status: {conditions: [{type: Ready, status: 'True', reason: Up, message: '', " + since + "}]}\n", ClusterState{Ready: true}},
		"ready before": {"status: {conditions: [{type: Ready, status: 'True', reason: Up, message: all is well, observedGeneration: 2, " + since + "}]}\n",
			ClusterState{Message: "it was Ready at generation 2, and its spec is of generation 3"}},
		"not ready": {"status: {conditions: [{type: Other, status: 'True', reason: A, message: b, " + since + "}, {type: Ready, status: 'False', reason: TemplateInvalid, message: \"multiple\\nmanifests\", observedGeneration: 3, " + since + "}]}\n",
			ClusterState{Message: "TemplateInvalid: multiple\nmanifests"}},
		"not ready before":      {"status: {conditions: [{type: Ready, status: 'False', reason: A, message: no quota, observedGeneration: 2, " + since + "}]}\n", ClusterState{Message: "A: no quota"}},
		"unknown, with a word":  {"status: {conditions: [{type: Ready, status: Unknown, reason: '', message: no word yet, " + since + "}]}\n", ClusterState{Message: "no word yet"}},
		"unknown, with a cause": {"status: {conditions: [{type: Ready, status: Unknown, reason: Paused, message: '', " + since + "}]}\n", ClusterState{Message: "Paused"}},
	} {
		t.Run(name, func(t *testing.T) {
			seen := cluster(t, test.rest)
			if diff := cmp.Diff(test.want, ReadCluster(seen)); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
			stripped, err := StripCluster(seen.DeepCopy())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, ReadCluster(stripped.(*unstructured.Unstructured))); diff != "" {
				t.Errorf("state as it is cached (-want +got):\n%s", diff)
			}
		})
	}
}

// What does not look like a Cluster is read as one that says nothing.
func TestReadClusterOfOtherShapes(t *testing.T) {
	for name, status := range map[string]any{
		"status is a string":      "x",
		"conditions are a map":    map[string]any{"conditions": map[string]any{}},
		"a condition is a string": map[string]any{"conditions": []any{"Ready"}},
		"a status is a boolean":   map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": true}}},
		"status is null":          nil,
	} {
		u := &unstructured.Unstructured{Object: map[string]any{"status": status}}
		if diff := cmp.Diff(ClusterState{}, ReadCluster(u)); diff != "" {
			t.Errorf("%s: state (-want +got):\n%s", name, diff)
		}
		if _, err := StripCluster(u); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The cache has of a Cluster what tells which it is, and whether it is Ready.
func TestStripCluster(t *testing.T) {
	seen := cluster(t, "status: {state: created, message: "+"long"+", conditions: [{type: A, status: 'True', reason: A, message: '', "+since+"}, {type: Ready, status: 'True', reason: Up, message: '', "+since+"}]}\n")
	stripped, err := StripCluster(seen)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"apiVersion": "core.arlon.io/v1", "kind": "Cluster",
		"metadata": map[string]any{"namespace": "lab", "name": "k3", "uid": "u-1", "generation": int64(3)},
		"status": map[string]any{"conditions": []any{
			map[string]any{"type": "Ready", "status": "True", "reason": "Up", "message": "", "lastTransitionTime": "2026-03-01T12:00:00Z"},
		}},
	}
	if diff := cmp.Diff(want, stripped.(*unstructured.Unstructured).Object); diff != "" {
		t.Errorf("what is cached (-want +got):\n%s", diff)
	}
}
