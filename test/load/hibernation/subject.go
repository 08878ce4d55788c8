// Package hibernation is the HibernatePlan under load: what it looks like, how the watcher reads its night, how pods run,
// and what it may cost. Its targets are of type noop; their runners are the real ones, in the process that plays the
// world. Pods have no node, and their logs are empty.
package hibernation

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/test/load/harness"
)

var (
	plans      = v1alpha1.GroupVersion.WithResource("hibernateplans")
	jobs       = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	pods       = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

const managerNamespace = "labkeeper-system"

// Subject is a plan of so many targets that all go to sleep at once, when it is created or at a time.
func Subject(name string, targets int) *harness.Subject {
	s := &harness.Subject{
		Name:             name,
		Resource:         plans,
		CRD:              "config/crd/bases/hibernator.ardikabs.com_hibernateplans.yaml",
		CRDs:             []string{"config/crd/bases", "test/crds"},
		Manifests:        []string{"config/rbac"},
		Namespaces:       []string{managerNamespace, "argocd", "argo", "crossplane-system"}, // which Roles are in
		AccountNamespace: managerNamespace,
		Account:          "labkeeper-controller-manager",
		Lease:            "labkeeper",
		Args:             []string{"--hibernation-namespace=" + managerNamespace, "--runner-image=labkeeper:load"},
		FieldManager:     "labkeeper",

		New: func(namespace, name string, variant harness.Variant) *unstructured.Unstructured {
			return newPlan(namespace, name, variant, targets)
		},
		At: func(namespace, name string, at time.Time) *unstructured.Unstructured {
			return planAt(namespace, name, at, targets)
		},
		Touch:  "annotations",
		Status: func(i int) map[string]any { return status(i, targets) },
		Edit: func(version int) []byte {
			patch, _ := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{"version": fmt.Sprint(version)}}})
			return patch
		},

		Watched: []harness.Watched{{Resource: plans}, {Resource: jobs, Namespace: managerNamespace, Labels: v1alpha1.LabelUID}},
		Story:   story,
		Needs:   []string{"Job", "Job complete", string(v1alpha1.PhaseHibernated)},
		Created: harness.Created,
		Gone:    harness.Gone,
		Acted:   harness.Acted,
		Done:    string(v1alpha1.PhaseHibernated),
		Held:    string(v1alpha1.PhaseSuspended),
		Refused: "refused",
		Waits:   string(v1alpha1.PhaseActive),
		Begun:   "Job",
		// The ControllerRevision, the restore point, ServiceAccount, RoleBinding and Job, and the ledger.
		Beginning: harness.Writes{Creates: 5, Patches: 1},
		Reactions: []harness.Reaction{
			{Name: "begin", Cause: "created", Effect: string(v1alpha1.PhaseHibernating)},
			{Name: "job", Cause: "created", Effect: "Job"},
		},
		// All writes but the ledger's count as a creation of the plan, though most are of less: the ceiling is rather too
		// low than too high.
		Minimal: harness.Writes{
			// The plan, its finalizer and its ControllerRevision. Of each target the creation of two ConfigMaps (restore
			// point, logs), ServiceAccount, RoleBinding, Job and pod; the runner's captured state and result; the pod's
			// status and finalizer; three statuses of the Job; the deletion of all but the ConfigMaps. The Role is there
			// before.
			Creates: 3 + (6+2+2+3+4)*targets,
			// What is to run, what has run, and that it sleeps.
			Patches: 3,
		},
		World: harness.World{Watched: []harness.Watched{{Resource: pods, Namespace: managerNamespace}}, Play: kubelet},
	}
	if targets == 1 {
		s.Reactions = append(s.Reactions, harness.Reaction{Name: "outcome", Cause: "Job complete", Effect: s.Done})
		s.Shapes = []harness.Shape{shape()}
	}
	return s
}

func newPlan(namespace, name string, variant harness.Variant, n int) *unstructured.Unstructured {
	targets := make([]any, 0, n)
	for i := range n {
		targets = append(targets, map[string]any{"name": fmt.Sprintf("target-%d", i), "type": "noop", "parameters": map[string]any{}})
	}
	spec := map[string]any{
		"schedule":  window(12, 0),
		"execution": map[string]any{"strategy": map[string]any{"type": "Parallel"}},
		"targets":   targets,
		"override":  map[string]any{"state": "Hibernated"},
	}
	switch variant {
	case harness.Held:
		spec["suspend"] = true
	case harness.Refused:
		spec["execution"] = map[string]any{"strategy": map[string]any{"type": "DAG", "dependencies": []any{
			map[string]any{"from": "target-0", "to": "nobody"},
		}}}
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetAPIVersion(v1alpha1.GroupVersion.String())
	u.SetKind("HibernatePlan")
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// planAt goes to sleep at a full minute, for an hour.
func planAt(namespace, name string, at time.Time, n int) *unstructured.Unstructured {
	u := newPlan(namespace, name, harness.Plain, n)
	spec := u.Object["spec"].(map[string]any)
	spec["schedule"] = window(at.UTC().Hour(), at.UTC().Minute())
	delete(spec, "override")
	return u
}

func window(hour, minute int) map[string]any {
	return map[string]any{"timezone": "UTC", "offHours": []any{map[string]any{
		"start": fmt.Sprintf("%02d:%02d", hour, minute), "end": fmt.Sprintf("%02d:%02d", (hour+1)%24, minute),
		"daysOfWeek": []any{"MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"},
	}}}
}

// status is that of a plan all of whose Jobs run.
func status(i, n int) map[string]any {
	const at = "2026-01-01T00:00:00Z"
	var conditions, executions, upcoming []any
	for _, t := range []string{
		v1alpha1.ConditionReady, v1alpha1.ConditionScheduled, v1alpha1.ConditionHibernated, v1alpha1.ConditionRestorePointSaved, v1alpha1.ConditionDegraded,
	} {
		conditions = append(conditions, map[string]any{
			"type": t, "status": "False", "reason": "Progressing", "observedGeneration": 1, "lastTransitionTime": at,
			"message": fmt.Sprintf("0 of %d targets sleep (%d)", n, i),
		})
	}
	for j := range n {
		job := fmt.Sprintf("%s/floor-target-%d-1-1-shutdown-1-01234567", managerNamespace, j)
		executions = append(executions, map[string]any{
			"target": fmt.Sprintf("target-%d", j), "executor": "noop", "operation": "Shutdown", "state": "Running", "attempts": 1, "startedAt": at,
			"asleep": true, "jobRef": job, "serviceAccountRef": job, "restoreConfigMapRef": job, "restoreRef": "configmap://" + job,
		})
	}
	for range 14 {
		upcoming = append(upcoming, map[string]any{"time": at, "to": "Hibernated"})
	}
	return map[string]any{
		"observedGeneration": 1, "phase": "Hibernating", "conditions": conditions, "executions": executions, "upcoming": upcoming, "cycles": 1,
		"currentCycle": map[string]any{"id": 1, "turn": 1, "operation": "Shutdown", "startedAt": at, "operationStartedAt": at, "planRevision": "floor-1-01234567"},
	}
}

// story reads the night of a plan and of its Jobs.
func story(e harness.Event) harness.Beat {
	o := &e.Object
	if o.Resource == jobs {
		beat := harness.Beat{Owner: o.Metadata.Labels[v1alpha1.LabelUID]}
		if e.Type == "ADDED" {
			beat.Marks = append(beat.Marks, "Job")
		}
		if strings.Contains(string(o.Status), `"completionTime"`) {
			beat.Marks = append(beat.Marks, "Job complete")
		}
		return beat
	}
	beat := harness.Beat{Owner: o.Metadata.UID, Marks: []string{e.Moment()}, Where: "spec", Version: o.Metadata.Annotations["version"]}
	var s struct {
		Phase      string
		Conditions []struct{ Type, Reason string }
	}
	if beat.Marks[0] == harness.Gone || len(o.Status) == 0 || json.Unmarshal(o.Status, &s) != nil {
		return beat
	}
	if s.Phase != "" {
		beat.Marks = append(beat.Marks, s.Phase)
	}
	for _, c := range s.Conditions {
		if c.Type == v1alpha1.ConditionScheduled && c.Reason == v1alpha1.ReasonInvalid {
			beat.Marks = append(beat.Marks, "refused")
		}
	}
	return beat
}

// shape is a plan of one target, which is put to sleep on the way up and woken on the way down.
func shape() harness.Shape {
	// What each of the two takes: an attempt that is made, and cleared away.
	attempt := map[string]int{
		"create serviceaccounts": 1, "create rolebindings": 1, "create jobs": 1,
		"delete serviceaccounts": 1, "delete rolebindings": 1, "delete jobs": 1,
		"patch hibernateplans": 1, // the finalizer
	}
	// The pod and its log; and beside these, whether the cache of the plan is behind before anything is done, and what the
	// runner has said.
	reads := map[string]int{"list pods": 1, "get pods/log": 1}
	return harness.Shape{
		Name: "single", Done: string(v1alpha1.PhaseHibernated),
		New: func(namespace, name string) *unstructured.Unstructured {
			return newPlan(namespace, name, harness.Plain, 1)
		},
		// The restore point and the logs, the plan as the cycle goes by it, and the Role of the target.
		Up: harness.Merged(attempt, map[string]int{"create configmaps": 2, "create controllerrevisions": 1, "create roles": 1}),
		// The exceptions before it begins; what a plan before has left asleep; the restore point before the Job is made and after it has ended, and the logs; whether there is the Role.
		Reads: harness.Merged(reads, map[string]int{"get roles": 1, "list configmaps": 1, "list scheduleexceptions": 1, "get hibernateplans": 3}),
		// Once more for each pass that comes before the cache has the Job.
		May: map[string]int{"get configmaps": 6, "get jobs": 6},
		// Plans of one namespace that begin at one moment.
		Shared: []string{"list scheduleexceptions"},
		// The restore point is fenced, set free and deleted, the log updated, and then all that there is of the plan goes.
		Down: harness.Merged(attempt, map[string]int{
			"patch configmaps": 2, "delete configmaps": 1, "update configmaps": 1, "delete controllerrevisions": 1,
			"deletecollection configmaps": 1, "deletecollection controllerrevisions": 1, "deletecollection roles": 1,
		}),
		DownReads: harness.Merged(reads, map[string]int{"get hibernateplans": 5, "list scheduleexceptions": 1, "get controllerrevisions": 1}),
		DownMay:   map[string]int{"get configmaps": 8, "get jobs": 8},
	}
}
