// Package twin is the ExperimentDeployment under load: what it looks like, how the watcher reads its life, how a
// kubelet answers, and what it may cost. Beside it is the peer that it is measured against: the Experiment of Argo
// Rollouts, which makes a ReplicaSet of a template.
package twin

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/labkeeper/labkeeper/api/experimentcontroller/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/twin"
	"github.com/labkeeper/labkeeper/test/load/harness"
)

var (
	experiments = v1alpha1.GroupVersion.WithResource("experimentdeployments")
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	pods        = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	services    = schema.GroupVersionResource{Version: "v1", Resource: "services"}
)

const managerNamespace = "labkeeper-system"

// Subject is an ExperimentDeployment of a Deployment with a sidecar, which changes an image and a variable.
func Subject() *harness.Subject {
	return &harness.Subject{
		Name:             "twin",
		Resource:         experiments,
		CRD:              "config/crd/bases/experimentcontroller.example.com_experimentdeployments.yaml",
		CRDs:             []string{"config/crd/bases", "test/crds"},
		Manifests:        []string{"config/rbac"},
		Namespaces:       []string{managerNamespace, "argocd", "argo", "crossplane-system"}, // which Roles are in
		Beside:           []harness.Beside{{Resource: deployments, Object: source()}, {Resource: services, Object: service()}},
		AccountNamespace: managerNamespace,
		Account:          "labkeeper-controller-manager",
		Lease:            "labkeeper",
		FieldManager:     "labkeeper",

		New:    New,
		Status: status,
		Edit: func(version int) []byte {
			patch, _ := json.Marshal(map[string]any{"spec": map[string]any{"overrideSpec": override(strconv.Itoa(version))}})
			return patch
		},

		Watched: []harness.Watched{{Resource: experiments}, {Resource: deployments, Labels: v1alpha1.LabelUID}},
		Story:   story,
		Needs:   []string{"Deployment", "Deployment ready", "Ready"},
		Created: harness.Created,
		Gone:    harness.Gone,
		Acted:   harness.Acted,
		Done:    "Ready",
		Held:    "told " + twin.ReasonProgressing,
		Refused: "refused",
		Reactions: []harness.Reaction{
			{Name: "twin", Cause: "created", Effect: "Deployment"},
			{Name: "ready", Cause: "Deployment ready", Effect: "Ready"},
		},
		Minimal: harness.Writes{
			// The ExperimentDeployment, the Deployment, its ReplicaSet and its pod.
			Creates: 4,
			// The finalizer and two statuses; of the pod one, of ReplicaSet and Deployment two each.
			Patches: 3 + 1 + 4,
		},
		Cached: 1,
		World:  harness.World{Watched: []harness.Watched{{Resource: pods}}, Play: kubelet},
		Shapes: []harness.Shape{{
			Name: "deployment", Done: "Ready",
			New:  func(namespace, name string) *unstructured.Unstructured { return New(namespace, name, harness.Plain) },
			Up:   map[string]int{"patch experimentdeployments": 1, "create deployments": 1},
			Down: map[string]int{"delete deployments": 1, "patch experimentdeployments": 1},
			// That there is nothing left the server must say.
			DownReads: map[string]int{"get controllerrevisions": 1},
			DownMay:   map[string]int{"get deployments": 2},
		}},
	}
}

// template is that of a web server with a sidecar.
func template() map[string]any {
	container := func(name, image string) map[string]any {
		return map[string]any{
			"name": name, "image": image, "env": []any{map[string]any{"name": "VERSION", "value": "0"}, map[string]any{"name": "MODE", "value": "production"}},
			"ports":          []any{map[string]any{"containerPort": 8080 + len(name)}},
			"resources":      map[string]any{"requests": map[string]any{"cpu": "100m", "memory": "128Mi"}, "limits": map[string]any{"memory": "128Mi"}},
			"readinessProbe": map[string]any{"httpGet": map[string]any{"path": "/ready", "port": 8080 + len(name)}},
		}
	}
	return map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
		"spec":     map[string]any{"containers": []any{container("web", "web:1"), container("proxy", "proxy:1")}},
	}
}

// source is paused before it has any pods: it is the twins that are measured, and one of a source without is warned of. That it is paused is
// warned of, too, by an Event of each twin.
func source() map[string]any {
	return map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "web"},
		"spec": map[string]any{"replicas": 2, "paused": true, "selector": map[string]any{"matchLabels": map[string]any{"app": "web"}}, "template": template()},
	}
}

func service() map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "web"},
		"spec": map[string]any{"selector": map[string]any{"app": "web"}, "ports": []any{map[string]any{"port": 80, "targetPort": 8083}}},
	}
}

func override(version string) map[string]any {
	return map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{
		map[string]any{"name": "web", "image": "web:2", "env": []any{map[string]any{"name": "VERSION", "value": version}}},
	}}}}
}

// New is an ExperimentDeployment of the source beside it.
func New(namespace, name string, variant harness.Variant) *unstructured.Unstructured {
	over := override("0")
	if variant == harness.Refused {
		over["selector"] = map[string]any{}
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"sourceRef": map[string]any{"kind": "Deployment", "name": "web"}, "mergeStrategy": string(v1alpha1.MergeStrategic), "overrideSpec": over,
	}}}
	u.SetAPIVersion(v1alpha1.GroupVersion.String())
	u.SetKind("ExperimentDeployment")
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// status is what the status of one with a twin looks like.
func status(i int) map[string]any {
	const at = "2026-01-01T00:00:00Z"
	var conditions []any
	for _, t := range []string{
		v1alpha1.ConditionReady, v1alpha1.ConditionAccepted, v1alpha1.ConditionSourceFound, v1alpha1.ConditionTwinReady, v1alpha1.ConditionServiceShared,
		v1alpha1.ConditionAutoscalerInterference, v1alpha1.ConditionDisruptionInterference, v1alpha1.ConditionSourceSelectorOverlap, v1alpha1.ConditionWarnings,
	} {
		conditions = append(conditions, map[string]any{
			"type": t, "status": "False", "reason": "Progressing", "observedGeneration": 1, "lastTransitionTime": at,
			"message": fmt.Sprintf("Deployment floor/web-exp-0123456789 is on its way: 0 of 1 pods are ready (%d)", i),
		})
	}
	return map[string]any{
		"observedGeneration": 1, "replicas": 1, "readyReplicas": 0, "sourceGeneration": 1, "templateHash": "0123456789abcdef", "twinGeneration": 1,
		"experimentResourceRef": map[string]any{"kind": "Deployment", "name": "web-exp-0123456789", "namespace": "floor"},
		"services":              []any{map[string]any{"name": "web", "shared": true}},
		"conditions":            conditions,
	}
}

// kubelet has pods that run at once, but for those of held twins.
func kubelet(ctx context.Context, c *harness.Client, o *harness.Object, gone bool) error {
	if gone || o.Metadata.DeletionTimestamp != "" || strings.Contains(string(o.Status), `"Running"`) || strings.HasPrefix(o.Metadata.Labels[v1alpha1.LabelName], harness.HeldPrefix) {
		return nil
	}
	now := time.Now().UTC().Format(time.RFC3339)
	return c.Patch(ctx, o.Path()+"/status", map[string]any{"status": map[string]any{
		"phase": "Running", "conditions": []any{map[string]any{"type": "Ready", "status": "True", "lastTransitionTime": now}},
	}})
}

// story reads the life of an ExperimentDeployment and of its twin.
func story(e harness.Event) harness.Beat {
	if e.Object.Resource == experiments {
		return own(e)
	}
	beat := harness.Beat{Owner: e.Object.Metadata.Labels[v1alpha1.LabelUID], Where: "Deployment", Version: versionOf(e.Object.Spec, "template", "spec", "containers")}
	switch e.Type {
	case "DELETED":
		beat.Marks = []string{"Deployment gone"}
		return beat
	case "ADDED":
		beat.Marks = []string{"Deployment"}
	}
	if strings.Contains(string(e.Object.Status), `"availableReplicas":1`) {
		beat.Marks = append(beat.Marks, "Deployment ready")
	}
	return beat
}

func own(e harness.Event) harness.Beat {
	o := &e.Object
	beat := harness.Beat{Owner: o.Metadata.UID, Where: "spec", Version: versionOf(o.Spec, "overrideSpec", "template", "spec", "containers")}
	beat.Marks = []string{e.Moment()}
	if beat.Marks[0] == harness.Gone {
		return beat
	}
	var s struct {
		Conditions []struct{ Type, Status, Reason string }
	}
	if len(o.Status) == 0 || json.Unmarshal(o.Status, &s) != nil {
		return beat
	}
	for _, c := range s.Conditions {
		switch {
		case c.Type == v1alpha1.ConditionTwinReady:
			beat.Marks = append(beat.Marks, "told "+c.Reason)
		case c.Type == v1alpha1.ConditionReady && c.Status == "True":
			beat.Marks = append(beat.Marks, "Ready")
		case c.Type == v1alpha1.ConditionAccepted && c.Reason == v1alpha1.ReasonInvalidOverride:
			beat.Marks = append(beat.Marks, "refused")
		}
	}
	return beat
}

// versionOf is the value of the first variable of the first container of a list.
func versionOf(spec json.RawMessage, path ...string) string {
	var o map[string]any
	if json.Unmarshal(spec, &o) != nil {
		return ""
	}
	containers, _, _ := unstructured.NestedSlice(o, path...)
	if len(containers) == 0 {
		return ""
	}
	container, _ := containers[0].(map[string]any)
	variables, _, _ := unstructured.NestedSlice(container, "env")
	if len(variables) == 0 {
		return ""
	}
	variable, _ := variables[0].(map[string]any)
	value, _ := variable["value"].(string)
	return value
}
