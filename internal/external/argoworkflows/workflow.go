// Package argoworkflows builds and reads Argo Workflows. It is pure: no client, no clock.
package argoworkflows

import (
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/labkeeper/labkeeper/internal/conditions"
)

var (
	// WorkflowGVK is an Argo Workflow.
	WorkflowGVK = schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "Workflow"}
	// WorkflowTemplateGVK is an Argo WorkflowTemplate.
	WorkflowTemplateGVK = schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "WorkflowTemplate"}
	// ClusterWorkflowTemplateGVK is an Argo ClusterWorkflowTemplate, which is in no namespace.
	ClusterWorkflowTemplateGVK = schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "ClusterWorkflowTemplate"}
)

// MaxWorkflowName is the longest name of a Workflow: Argo Workflows puts it into a label.
const MaxWorkflowName = 63

// Workflow is a run of a WorkflowTemplate, or one that only waits until somebody resumes it.
type Workflow struct {
	// Namespace and Name of the Workflow; the template is in the same namespace.
	Namespace, Name string
	// Template is the name of the WorkflowTemplate; empty for a Workflow that only waits.
	Template string
	// ClusterScope says that it is a ClusterWorkflowTemplate.
	ClusterScope bool
	// ServiceAccount that its pods run as; empty is what the template says.
	ServiceAccount string
	// Parameters are the arguments by name.
	Parameters map[string]string
	// Deadline is when Argo Workflows ends it, from its start, in whole seconds; 0 is what the
	// template says.
	Deadline time.Duration
	// InstanceID is that of the Argo Workflows that is to run it, where it has one: a label's value.
	InstanceID string
}

// labelInstance is by what an Argo Workflows with an instanceID knows its Workflows.
const labelInstance = "workflows.argoproj.io/controller-instanceid"

// kept is for how long Argo Workflows keeps a Workflow that is over, in seconds, whatever its template says: a verdict that nobody has
// read goes with it.
const kept = int64(math.MaxInt32)

// Object is the Workflow as Argo Workflows takes it.
func (w Workflow) Object() *unstructured.Unstructured {
	parameters := make([]any, 0, len(w.Parameters))
	for _, name := range slices.Sorted(maps.Keys(w.Parameters)) {
		parameters = append(parameters, map[string]any{"name": name, "value": w.Parameters[name]})
	}
	spec := map[string]any{
		"arguments": map[string]any{"parameters": parameters},
		// Each, because what Argo Workflows has as a default stands beside what is not said here.
		"ttlStrategy": map[string]any{"secondsAfterCompletion": kept, "secondsAfterSuccess": kept, "secondsAfterFailure": kept},
	}
	if w.ServiceAccount != "" {
		spec["serviceAccountName"] = w.ServiceAccount
	}
	if seconds := int64(w.Deadline / time.Second); seconds > 0 {
		spec["activeDeadlineSeconds"] = seconds
	}
	if w.Template != "" {
		ref := map[string]any{"name": w.Template}
		if w.ClusterScope {
			ref["clusterScope"] = true
		}
		spec["workflowTemplateRef"] = ref
	} else {
		spec["entrypoint"] = waiting
		spec["templates"] = []any{map[string]any{"name": waiting, "suspend": map[string]any{}}}
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(WorkflowGVK)
	u.SetNamespace(w.Namespace)
	u.SetName(w.Name)
	if w.InstanceID != "" {
		u.SetLabels(map[string]string{labelInstance: w.InstanceID})
	}
	return u
}

// waiting is the template of a Workflow that waits.
const waiting = "wait"

// DeletionError is why Argo Workflows does not let a Workflow go: it cannot delete its artifacts; empty where it does not say.
func DeletionError(workflow *unstructured.Unstructured) string {
	message, _ := conditions.Of(workflow, "ArtifactGCError")["message"].(string)
	return message
}

// DeadlineOf is the deadline that a Workflow was given; 0 where it has none of its own.
func DeadlineOf(workflow *unstructured.Unstructured) time.Duration {
	seconds, _, _ := unstructured.NestedInt64(workflow.Object, "spec", "activeDeadlineSeconds")
	return time.Duration(seconds) * time.Second
}

// Phases of a Workflow.
const (
	PhaseSucceeded = "Succeeded"
	PhaseFailed    = "Failed"
	PhaseError     = "Error"
)

// State is what a Workflow says of itself.
type State struct {
	// Phase is empty until Argo Workflows has seen it, then Pending, Running, Succeeded,
	// Failed or Error.
	Phase string
	// Message is Argo Workflows' own and, where a node failed, the node's.
	Message string
	// StartedAt and FinishedAt are zero while unknown.
	StartedAt, FinishedAt time.Time
}

// Over says whether the Workflow has a verdict.
func (s State) Over() bool {
	return s.Phase == PhaseSucceeded || s.Phase == PhaseFailed || s.Phase == PhaseError
}

// Exiting says whether all that a Workflow is for has ended, and only its exit handler goes on.
func Exiting(workflow *unstructured.Unstructured) bool {
	status, _ := workflow.Object["status"].(map[string]any)
	if status["phase"] != "Running" {
		return false
	}
	var first map[string]any // which has the name of the Workflow, and so is before all others
	eachNode(status, func(id string, node map[string]any) bool {
		if id == workflow.GetName() {
			first = node
		}
		return first == nil
	})
	return first["phase"] == PhaseSucceeded || failed(first)
}

// Offloaded says whether Argo Workflows keeps the nodes of a Workflow in its database, because they do not fit into the object: then
// nothing is to be seen of what has ended.
func Offloaded(workflow *unstructured.Unstructured) bool {
	version, _, _ := unstructured.NestedString(workflow.Object, "status", "offloadNodeStatusVersion")
	return version != ""
}

// Read reads a Workflow's state.
func Read(workflow *unstructured.Unstructured) State {
	var s State
	s.Phase, _, _ = unstructured.NestedString(workflow.Object, "status", "phase")
	s.Message, _, _ = unstructured.NestedString(workflow.Object, "status", "message")
	s.StartedAt = readTime(workflow, "startedAt")
	s.FinishedAt = readTime(workflow, "finishedAt")
	if s.Phase == PhaseFailed || s.Phase == PhaseError {
		if node := failedNode(workflow); node != "" {
			s.Message = strings.TrimPrefix(s.Message+"; "+node, "; ")
		}
	}
	return s
}

// failedNode names the node that failed first, and why, of those with the same time the first by its id.
func failedNode(workflow *unstructured.Unstructured) string {
	status, _ := workflow.Object["status"].(map[string]any)
	var first map[string]any
	at := ""
	nodes := blamed(nodesOf(status))
	for _, id := range slices.Sorted(maps.Keys(nodes)) {
		node := nodes[id].(map[string]any)
		if finished, _ := node["finishedAt"].(string); first == nil || finished != "" && (at == "" || finished < at) {
			first, at = node, finished
		}
	}
	if first == nil {
		return ""
	}
	name, _ := first["displayName"].(string)
	message, _ := first["message"].(string)
	return "node " + name + ": " + message
}

// repeats are the types of nodes that only repeat that a child failed.
var repeats = []string{"Steps", "StepGroup", "DAG", "TaskGroup", "Retry"}

// forgives says whether a node has come to what it is for, whatever has become of those that it is made of: by another
// attempt, or because they may fail (continueOn).
func forgives(node map[string]any) bool {
	kind, _ := node["type"].(string)
	return node["phase"] == PhaseSucceeded && slices.Contains(repeats, kind)
}

// blamed are the nodes that failed by themselves, but for those that others have made good, or that may fail.
func blamed(nodes map[string]any) map[string]any {
	out, forgiven := map[string]any{}, map[string]bool{}
	for id, v := range nodes {
		switch node, _ := v.(map[string]any); {
		case !forgives(node):
		case node["type"] == "Retry":
			forgive(nodes, node, forgiven)
		case node["type"] == "StepGroup", node["type"] == "TaskGroup": // itself: what a step is followed by is a child of that
			for _, step := range childrenOf(node) {
				forgiven[step] = true
				if retry, _ := nodes[step].(map[string]any); retry["type"] == "Retry" { // and its attempts, which are beside it
					for _, attempt := range childrenOf(retry) {
						forgiven[attempt] = true
					}
				}
			}
		default: // all that is within it
			forgiven[id] = true
		}
	}
	for id, v := range nodes {
		node, _ := v.(map[string]any)
		if kind, _ := node["type"].(string); failed(node) && !forgiven[id] && !within(nodes, node, forgiven) && !slices.Contains(repeats, kind) {
			out[id] = node
		}
	}
	return out
}

// within says whether a node is a part of one that is forgiven.
func within(nodes, node map[string]any, forgiven map[string]bool) bool {
	for range nodes { // as deep as that at most
		boundary, _ := node["boundaryID"].(string)
		if boundary == "" || forgiven[boundary] {
			return forgiven[boundary]
		}
		node, _ = nodes[boundary].(map[string]any)
	}
	return false
}

// childrenOf are the ids of what a node is followed by.
func childrenOf(node map[string]any) (ids []string) {
	children, _ := node["children"].([]any)
	for _, c := range children {
		id, _ := c.(string)
		ids = append(ids, id)
	}
	return ids
}

// forgive adds the children of a node that failed, and theirs.
func forgive(nodes, node map[string]any, forgiven map[string]bool) {
	for _, id := range childrenOf(node) {
		if child, _ := nodes[id].(map[string]any); failed(child) && !forgiven[id] {
			forgiven[id] = true
			forgive(nodes, child, forgiven)
		}
	}
}

// maxNodes bounds the nodes that are taken out of their compression, in bytes, and maxKept those of them that are kept.
const (
	maxNodes = 32 << 20
	maxKept  = 1000
)

// nodesOf are the nodes of a status by their ids that blamed looks at; those that Argo Workflows keeps in its database instead are not
// seen.
func nodesOf(status map[string]any) map[string]any {
	nodes, kept := map[string]any{}, 0
	eachNode(status, func(id string, node map[string]any) bool {
		if failed(node) {
			kept++
		}
		if failed(node) || forgives(node) {
			nodes[id] = node
		}
		return kept < maxKept
	})
	return nodes
}

// eachNode goes through the nodes of a status, until one is the last that is asked for. Where they would not fit into an object they are
// JSON, gzip and base64, sorted by their ids.
func eachNode(status map[string]any, each func(id string, node map[string]any) bool) {
	nodes, _ := status["nodes"].(map[string]any)
	compressed, _ := status["compressedNodes"].(string)
	for _, id := range slices.Sorted(maps.Keys(nodes)) {
		if node, _ := nodes[id].(map[string]any); !each(id, node) {
			return
		}
	}
	if len(nodes) > 0 || compressed == "" {
		return
	}
	unzipped, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(compressed)))
	if err != nil {
		return
	}
	// One node at a time, because there can be tens of thousands.
	decoder := json.NewDecoder(io.LimitReader(unzipped, maxNodes))
	if begin, err := decoder.Token(); err != nil || begin != json.Delim('{') {
		return
	}
	for decoder.More() {
		id, err := decoder.Token()
		if err != nil {
			return
		}
		var node struct {
			Type        string `json:"type"`
			Phase       string `json:"phase"`
			DisplayName string `json:"displayName"`
			Message     string `json:"message"`
			FinishedAt  string `json:"finishedAt"`
			BoundaryID  string `json:"boundaryID"`
			Children    []any  `json:"children"`
		}
		if err := decoder.Decode(&node); err != nil {
			return
		}
		name, _ := id.(string)
		if !each(name, map[string]any{
			"type": node.Type, "phase": node.Phase, "displayName": node.DisplayName, "message": node.Message, "finishedAt": node.FinishedAt, "boundaryID": node.BoundaryID,
			"children": node.Children,
		}) {
			return
		}
	}
}

// OnlyWaits says whether a Workflow, if there is one, was made without a template: it does nothing until somebody resumes it.
func OnlyWaits(workflow *unstructured.Unstructured) bool {
	if workflow == nil {
		return false
	}
	entrypoint, _, _ := unstructured.NestedString(workflow.Object, "spec", "entrypoint")
	_, templated, _ := unstructured.NestedMap(workflow.Object, "spec", "workflowTemplateRef")
	return entrypoint == waiting && !templated
}

// Strip is the cache's transform for Workflows: of their nodes, which can be a megabyte,
// only those that failed are ever read, and only when the Workflow has, and before that whether all but an exit handler has ended.
func Strip(o any) (any, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return o, nil
	}
	u.SetManagedFields(nil)
	if status, ok := u.Object["status"].(map[string]any); ok {
		delete(status, "storedTemplates")
		delete(status, "storedWorkflowTemplateSpec")
		var nodes map[string]any
		if failed(status) {
			nodes = blamed(nodesOf(status))
		} else if Exiting(u) {
			nodes = map[string]any{u.GetName(): map[string]any{"phase": PhaseSucceeded}} // or failed: nobody asks before the exit handler has ended
		}
		delete(status, "compressedNodes")
		delete(status, "nodes")
		if len(nodes) > 0 {
			status["nodes"] = nodes
		}
	}
	return u, nil
}

// failed says whether a node or a Workflow did not come to what it is for.
func failed(node map[string]any) bool {
	return node["phase"] == PhaseFailed || node["phase"] == PhaseError
}

func readTime(workflow *unstructured.Unstructured, field string) time.Time {
	s, _, _ := unstructured.NestedString(workflow.Object, "status", field)
	t, _ := time.Parse(time.RFC3339, s) // absent and null are zero
	return t
}
