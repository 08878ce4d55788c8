package twin

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/labkeeper/labkeeper/api/experimentcontroller/v1alpha1"
	"github.com/labkeeper/labkeeper/test/load/harness"
)

func event(t *testing.T, verb, content string) harness.Event {
	t.Helper()
	e := harness.Event{Type: verb}
	if err := json.Unmarshal([]byte(content), &e.Object); err != nil {
		t.Fatal(err)
	}
	switch e.Object.Kind {
	case "ExperimentDeployment":
		e.Object.Resource = experiments
	case "Deployment":
		e.Object.Resource = deployments
	case "Experiment":
		e.Object.Resource = theirs
	case "ReplicaSet":
		e.Object.Resource = replicaSets
	}
	return e
}

func TestStory(t *testing.T) {
	const ours = `"metadata": {"uid": "other", "labels": {"` + v1alpha1.LabelUID + `": "uid"}}`
	for name, test := range map[string]struct {
		verb, object string
		want         harness.Beat
	}{
		"created": {"ADDED", `{"kind": "ExperimentDeployment", "metadata": {"uid": "uid"}, "spec": {"overrideSpec": {"template": {"spec": {"containers": [{"env": [{"name": "VERSION", "value": "3"}]}]}}}}}`,
			harness.Beat{Owner: "uid", Marks: []string{"created"}, Where: "spec", Version: "3"}},
		"on its way": {"MODIFIED", `{"kind": "ExperimentDeployment", "metadata": {"uid": "uid"}, "status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "TwinReady", "status": "False", "reason": "Progressing"}]}}`,
			harness.Beat{Owner: "uid", Marks: []string{"acted", "told Progressing"}, Where: "spec"}},
		"ready": {"MODIFIED", `{"kind": "ExperimentDeployment", "metadata": {"uid": "uid"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}`,
			harness.Beat{Owner: "uid", Marks: []string{"acted", "Ready"}, Where: "spec"}},
		"refused": {"MODIFIED", `{"kind": "ExperimentDeployment", "metadata": {"uid": "uid"}, "status": {"conditions": [{"type": "Accepted", "status": "False", "reason": "InvalidOverride"}]}}`,
			harness.Beat{Owner: "uid", Marks: []string{"acted", "refused"}, Where: "spec"}},
		"a twin": {"ADDED", `{"kind": "Deployment", ` + ours + `, "spec": {"template": {"spec": {"containers": [{"env": [{"name": "VERSION", "value": "3"}]}]}}}}`,
			harness.Beat{Owner: "uid", Marks: []string{"Deployment"}, Where: "Deployment", Version: "3"}},
		"a twin that is ready": {"MODIFIED", `{"kind": "Deployment", ` + ours + `, "status": {"availableReplicas":1}}`,
			harness.Beat{Owner: "uid", Marks: []string{"Deployment ready"}, Where: "Deployment"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, story(event(t, test.verb, test.object))); diff != "" {
				t.Errorf("beat (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStoryOfTheirs(t *testing.T) {
	for name, test := range map[string]struct {
		verb, object string
		want         harness.Beat
	}{
		"created": {"ADDED", `{"kind": "Experiment", "metadata": {"uid": "uid"}}`, harness.Beat{Owner: "uid", Marks: []string{"created"}}},
		"running": {"MODIFIED", `{"kind": "Experiment", "metadata": {"uid": "uid"}, "status": {"phase": "Running"}}`, harness.Beat{Owner: "uid", Marks: []string{"Running"}}},
		"a set":   {"ADDED", `{"kind": "ReplicaSet", "metadata": {"ownerReferences": [{"uid": "uid"}]}, "status": {"availableReplicas": 0}}`, harness.Beat{Owner: "uid", Marks: []string{"ReplicaSet"}}},
		"a ready set": {"MODIFIED", `{"kind": "ReplicaSet", "metadata": {"ownerReferences": [{"uid": "uid"}]}, "status": {"availableReplicas": 1}}`,
			harness.Beat{Owner: "uid", Marks: []string{"ReplicaSet ready"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, storyOfTheirs(event(t, test.verb, test.object))); diff != "" {
				t.Errorf("beat (-want +got):\n%s", diff)
			}
		})
	}
}
