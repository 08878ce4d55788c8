package argoworkflows

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/labkeeper/labkeeper/test/crds"
)

func TestObject(t *testing.T) {
	keeps := map[string]any{"secondsAfterCompletion": kept, "secondsAfterSuccess": kept, "secondsAfterFailure": kept}
	tests := map[string]struct {
		workflow Workflow
		want     map[string]any
	}{
		"note 04 and 44: full": {
			Workflow{
				Namespace: "argo", Name: strings.Repeat("x", MaxWorkflowName), Template: "validation", ServiceAccount: "argo-workflow",
				Parameters: map[string]string{"b": "2", "a": "", "c": "x\ny"},
			},
			map[string]any{
				"workflowTemplateRef": map[string]any{"name": "validation"},
				"serviceAccountName":  "argo-workflow",
				"ttlStrategy":         keeps,
				"arguments": map[string]any{"parameters": []any{
					map[string]any{"name": "a", "value": ""},
					map[string]any{"name": "b", "value": "2"},
					map[string]any{"name": "c", "value": "x\ny"},
				}},
			},
		},
		"smallest": {
			Workflow{Namespace: "argo", Name: "x", Template: "t"},
			map[string]any{
				"workflowTemplateRef": map[string]any{"name": "t"},
				"ttlStrategy":         keeps,
				"arguments":           map[string]any{"parameters": []any{}},
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			workflow := test.workflow.Object()
			if err := crds.Require(t).Validate(workflow); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(test.want, workflow.Object["spec"]); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPathsThatReadReadsAndStripDrops(t *testing.T) {
	crds.ExpectFields(t, WorkflowGVK, map[string]string{
		"status.phase":                      "string",
		"status.message":                    "string",
		"status.startedAt":                  "string",
		"status.finishedAt":                 "string",
		"status.nodes.*.phase":              "string",
		"status.nodes.*.type":               "string",
		"status.nodes.*.displayName":        "string",
		"status.nodes.*.message":            "string",
		"status.nodes.*.finishedAt":         "string",
		"status.nodes.*.children":           "array",
		"status.nodes.*.boundaryID":         "string",
		"status.compressedNodes":            "string",
		"status.storedTemplates":            "object",
		"status.storedWorkflowTemplateSpec": "object",
		"spec.activeDeadlineSeconds":        "integer",
	})
	if err := crds.Require(t).HasField(WorkflowTemplateGVK, "spec"); err != nil {
		t.Error(err)
	}
}

const (
	running = `
status:
  phase: Running
  progress: 1/2
  startedAt: "2026-03-01T12:00:00Z"
  finishedAt: null
  storedTemplates: {namespaced/validation/main: {name: main}}
  nodes:
    w: {id: w, name: w, displayName: w, type: Steps, phase: Running, startedAt: "2026-03-01T12:00:00Z"}
    w-1: {id: w-1, name: "w[0].check", displayName: check, type: Pod, phase: Succeeded}
`
	failing = `
status:
  phase: Failed
  message: child 'w-2' failed
  startedAt: "2026-03-01T12:00:00Z"
  finishedAt: "2026-03-01T12:05:00Z"
  storedWorkflowTemplateSpec: {entrypoint: main}
  nodes:
    w: {id: w, name: w, displayName: w, type: Steps, phase: Failed, message: child 'w-2' failed}
    w-1: {id: w-1, name: "w[0].check", displayName: check, type: Pod, phase: Succeeded, message: fine}
    w-3: {id: w-3, name: "w[1].late", displayName: late, type: Pod, phase: Error, message: pod deleted}
    w-2: {id: w-2, name: "w[1].load", displayName: load, type: Pod, phase: Failed, message: Error (exit code 1)}
`
	invalid = `
status:
  phase: Error
  message: template not found
  startedAt: "2026-03-01T12:00:00Z"
  finishedAt: "2026-03-01T12:00:01Z"
`
	silent = `
status:
  phase: Failed
  nodes:
    w-2: {id: w-2, name: w, displayName: w, type: Pod, phase: Failed, message: OOMKilled (exit code 137)}
`
)

// What failed later, at the exit for instance, did not bring the Workflow down.
const inTurn = `
status:
  phase: Failed
  message: child 'w-9' failed
  nodes:
    w-1: {id: w-1, name: w.onExit, displayName: w.onExit, type: Pod, phase: Failed, message: nobody to tell, finishedAt: "2026-03-01T12:05:01Z"}
    w-5: {id: w-5, name: w.late, displayName: late, type: Pod, phase: Failed, message: exit code 2, finishedAt: "2026-03-01T12:05:00Z"}
    w-0: {id: w-0, name: w.unknown, displayName: unknown, type: Pod, phase: Error, message: nobody knows when}
    w-9: {id: w-9, name: w.early, displayName: early, type: Pod, phase: Failed, message: exit code 1, finishedAt: "2026-03-01T12:04:00Z"}
`

// An attempt that another one has made good is none that brought the Workflow down, with all below it, and what did is no pod.
const retried = `
status:
  phase: Failed
  nodes:
    w: {id: w, name: w, displayName: w, type: Steps, phase: Failed, children: [w-1, w-6]}
    w-1: {id: w-1, name: again, displayName: again, type: Retry, phase: Succeeded, children: [w-2, w-4]}
    w-2: {id: w-2, name: again(0), displayName: again(0), type: Steps, phase: Failed, children: [w-3], finishedAt: "2026-03-01T12:00:01Z"}
    w-3: {id: w-3, name: flaky, displayName: flaky, type: Pod, phase: Failed, message: exit code 1, finishedAt: "2026-03-01T12:00:01Z"}
    w-4: {id: w-4, name: again(1), displayName: again(1), type: Steps, phase: Succeeded, children: [w-5]}
    w-5: {id: w-5, name: flaky, displayName: flaky, type: Pod, phase: Succeeded, children: [w-6], finishedAt: "2026-03-01T12:00:02Z"}
    w-6: {id: w-6, name: asked, displayName: asked, type: HTTP, phase: Error, message: "503", finishedAt: "2026-03-01T12:00:03Z"}
`

// A step that may fail (continueOn) did not bring the Workflow down, nor did what is within it, or within a DAG that has come to its end all
// the same.
const forgiving = `
status:
  phase: Failed
  nodes:
    w: {id: w, name: w, displayName: w, type: Steps, phase: Failed, children: [w-g0]}
    w-g0: {id: w-g0, name: "[0]", displayName: "[0]", type: StepGroup, phase: Succeeded, boundaryID: w, children: [w-1, w-2, w-d, w-r]}
    w-r: {id: w-r, name: again, displayName: again, type: Retry, phase: Failed, boundaryID: w, children: [w-r0]}
    w-r0: {id: w-r0, name: again(0), displayName: again(0), type: Pod, phase: Failed, message: exit code 9, boundaryID: w, finishedAt: "2026-03-01T12:00:01Z", children: [w-g1]}
    w-1: {id: w-1, name: may, displayName: may, type: Pod, phase: Failed, message: exit code 1, boundaryID: w, finishedAt: "2026-03-01T12:00:01Z"}
    w-2: {id: w-2, name: whole, displayName: whole, type: Steps, phase: Failed, boundaryID: w, children: [w-g2]}
    w-g2: {id: w-g2, name: "[0]", displayName: "[0]", type: StepGroup, phase: Failed, boundaryID: w-2, children: [w-3]}
    w-3: {id: w-3, name: inner, displayName: inner, type: Pod, phase: Failed, message: exit code 2, boundaryID: w-2, finishedAt: "2026-03-01T12:00:02Z", children: [w-g1]}
    w-d: {id: w-d, name: graph, displayName: graph, type: DAG, phase: Succeeded, boundaryID: w, children: [w-4]}
    w-4: {id: w-4, name: task, displayName: task, type: Pod, phase: Error, message: evicted, boundaryID: w-d, finishedAt: "2026-03-01T12:00:03Z"}
    w-g1: {id: w-g1, name: "[1]", displayName: "[1]", type: StepGroup, phase: Failed, boundaryID: w, children: [w-5]}
    w-5: {id: w-5, name: must, displayName: must, type: Pod, phase: Failed, message: exit code 5, boundaryID: w, finishedAt: "2026-03-01T12:00:05Z"}
`

// compressed is the status of a Workflow whose nodes would not fit into it.
func compressed(t *testing.T, nodes string) string {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write([]byte(nodes)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return "status: {phase: Failed, compressedNodes: " + base64.StdEncoding.EncodeToString(out.Bytes()) + "}\n"
}

func sample(t *testing.T, status string) *unstructured.Unstructured {
	t.Helper()
	return crds.RequireObject(t, `
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata:
  namespace: argo
  name: w
  managedFields: [{manager: labkeeper, operation: Update, apiVersion: argoproj.io/v1alpha1, fieldsType: FieldsV1, fieldsV1: {}}]
spec: {workflowTemplateRef: {name: validation}}
`+status)
}

func TestRead(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		status string
		want   State
		over   bool
	}{
		"new":       {"", State{}, false},
		"pending":   {"status: {phase: Pending, startedAt: null}\n", State{Phase: "Pending"}, false},
		"running":   {running, State{Phase: "Running", StartedAt: start}, false},
		"succeeded": {"status: {phase: Succeeded, startedAt: \"2026-03-01T12:00:00Z\", finishedAt: \"2026-03-01T12:05:00Z\"}\n", State{Phase: PhaseSucceeded, StartedAt: start, FinishedAt: start.Add(5 * time.Minute)}, true},
		"failed": {failing, State{
			Phase: PhaseFailed, Message: "child 'w-2' failed; node load: Error (exit code 1)",
			StartedAt: start, FinishedAt: start.Add(5 * time.Minute),
		}, true},
		"error without nodes":    {invalid, State{Phase: PhaseError, Message: "template not found", StartedAt: start, FinishedAt: start.Add(time.Second)}, true},
		"the first that failed":  {inTurn, State{Phase: PhaseFailed, Message: "child 'w-9' failed; node early: exit code 1"}, true},
		"failed once, and again": {retried, State{Phase: PhaseFailed, Message: "node asked: 503"}, true},
		"what may fail":          {forgiving, State{Phase: PhaseFailed, Message: "node must: exit code 5"}, true},
		"may fail, of many": {compressed(t, `{"w-g0": {"type": "StepGroup", "phase": "Succeeded", "children": ["w-1"]}, "w-1": {"type": "Pod", "displayName": "may", "phase": "Failed", "finishedAt": "1"},
			"w-2": {"type": "Pod", "displayName": "must", "phase": "Failed", "message": "exit code 1", "finishedAt": "2"}}`), State{Phase: PhaseFailed, Message: "node must: exit code 1"}, true},
		"failed, and many nodes": {compressed(t, `{"w-1": {"type": "Pod", "displayName": "check", "phase": "Failed", "message": "exit code 1", "children": []}, "w-2": {"type": "Pod", "phase": "Succeeded"}}`), State{Phase: PhaseFailed, Message: "node check: exit code 1"}, true},
		"failed, and cut short":  {compressed(t, `{"w-1": {"type": "Pod", "displayName": "check", "phase": "Failed", "message": "exit code 1"}, "w-2": {"type": 7}}`), State{Phase: PhaseFailed, Message: "node check: exit code 1"}, true},
		"nodes that are a list":  {compressed(t, `[]`), State{Phase: PhaseFailed}, true},
		"nodes that are none":    {"status: {phase: Failed, message: child failed, compressedNodes: H4sI}\n", State{Phase: PhaseFailed, Message: "child failed"}, true},
		"failed without message": {silent, State{Phase: PhaseFailed, Message: "node w: OOMKilled (exit code 137)"}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			u := sample(t, test.status)
			got := Read(u)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
			if got.Over() != test.over {
				t.Errorf("Over is %t", got.Over())
			}
			stripped, err := Strip(u.DeepCopy())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got, Read(stripped.(*unstructured.Unstructured))); diff != "" {
				t.Errorf("state once stripped (-before +after):\n%s", diff)
			}
		})
	}
}

// That nodes are in a database stays to be seen when the rest of them is stripped.
func TestOffloaded(t *testing.T) {
	for status, want := range map[string]bool{"": false, running: false, `status: {phase: Running, offloadNodeStatusVersion: "fnv:1"}`: true} {
		u := sample(t, status)
		got := Offloaded(u)
		if _, err := Strip(u); err != nil || got != want || Offloaded(u) != want {
			t.Errorf("%s: %t, and stripped %t, %v", status, got, Offloaded(u), err)
		}
	}
}

// Only the exit handler goes on when the first node has ended, which has the name of the Workflow.
func TestExiting(t *testing.T) {
	const first = `"w": {"type": "Steps", "phase": "%s"}`
	for status, want := range map[string]bool{
		"": false, running: false, strings.Replace(running, "type: Steps, phase: Running", "type: Steps, phase: Succeeded", 1): true,
		strings.Replace(running, "type: Steps, phase: Running", "type: Steps, phase: Error", 1):                       true,
		strings.Replace(compressed(t, "{"+fmt.Sprintf(first, "Succeeded")+"}"), "phase: Failed", "phase: Running", 1): true,
		strings.Replace(compressed(t, "{"+fmt.Sprintf(first, "Running")+"}"), "phase: Failed", "phase: Running", 1):   false,
	} {
		u := sample(t, status)
		got := Exiting(u)
		if _, err := Strip(u); err != nil || got != want || Exiting(u) != want {
			t.Errorf("%s: %t, and stripped %t, %v", status, got, Exiting(u), err)
		}
	}
}

// An Argo Workflows with an instanceID looks at no other Workflows.
func TestInstanceID(t *testing.T) {
	for id, want := range map[string]string{"": "", "labs": "labs"} {
		if got := (Workflow{Name: "w", InstanceID: id}).Object().GetLabels()["workflows.argoproj.io/controller-instanceid"]; got != want {
			t.Errorf("%q: the label is %q", id, got)
		}
	}
}

func TestStrip(t *testing.T) {
	u := sample(t, failing+"  storedTemplates: {x: {name: x}}\n")
	if _, err := Strip(u); err != nil {
		t.Fatal(err)
	}
	if u.GetManagedFields() != nil {
		t.Error("managedFields are left")
	}
	status := u.Object["status"].(map[string]any)
	for _, field := range []string{"storedTemplates", "storedWorkflowTemplateSpec"} {
		if _, left := status[field]; left {
			t.Errorf("%s is left", field)
		}
	}
	var left []string
	for _, id := range []string{"w", "w-1", "w-2", "w-3"} {
		if _, ok := status["nodes"].(map[string]any)[id]; ok {
			left = append(left, id)
		}
	}
	if diff := cmp.Diff([]string{"w-2", "w-3"}, left); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if other, err := Strip("tombstone"); err != nil || other != "tombstone" {
		t.Errorf("another thing comes back as %v, %v", other, err)
	}
}
