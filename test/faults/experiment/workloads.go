package experiment

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/test/faults"
)

// target is one of an Experiment's.
func target(name, cluster, app string, depends ...any) any {
	return map[string]any{
		"name": name, "cluster": map[string]any{"type": cluster}, "components": []any{map[string]any{"app": app}}, "depends": depends,
	}
}

// inComponents is a target of which each component has an Application of its own.
func inComponents(cluster string) any {
	return map[string]any{
		"name": "app", "cluster": map[string]any{"type": cluster}, "applicationPolicy": "PerComponent",
		"components": []any{map[string]any{"app": "nginx"}, map[string]any{"app": "k6"}},
	}
}

// tolerant is one whose components may be something else than their sources say after they were synced.
func tolerant(target any) any {
	for _, c := range target.(map[string]any)["components"].([]any) {
		c.(map[string]any)["tolerations"] = []any{"OutOfSync"}
	}
	return target
}

// inTheTailnet is a target whose metrics are shipped through a tailnet, by three components beside its own.
func inTheTailnet(cluster string) any {
	return map[string]any{
		"name": "app", "cluster": map[string]any{"type": cluster}, "applicationPolicy": "PerComponent",
		"components":    []any{map[string]any{"app": "nginx"}},
		"observability": map[string]any{"enabled": true, "transport": "tailscale", "tenant": "lab"},
	}
}

// leaving is a target with a time to live of its own.
func leaving(after time.Duration, target any) any {
	target.(map[string]any)["ttlAfterFinished"] = after.String()
	return target
}

// with is an Experiment with one field more.
func with(e *unstructured.Unstructured, value string, path ...string) *unstructured.Unstructured {
	if err := unstructured.SetNestedField(e.Object, value, path...); err != nil {
		panic(err) // the path is written here
	}
	return e
}

const dockerVersion = "infrastructure.cluster.x-k8s.io/v1beta1"

func dockerTemplate(of string) any {
	return map[string]any{"apiVersion": dockerVersion, "kind": "Docker" + of + "Template", "name": "lab"}
}

func newExperiment(targets ...any) *unstructured.Unstructured {
	e := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"targets": targets, "workflow": map[string]any{"template": "gateway-validation"}},
	}}
	e.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Experiment"))
	e.SetName("road")
	return e
}

var (
	// straightRoad is a cluster with a web server, and a load generator on the hub that
	// depends on it.
	straightRoad = newExperiment(target("app", "gke", "nginx"), target("loadgen", "hub", "k6", "app"))
	// onCluster and onHub are the halves of it; each begins with its only target.
	onCluster = newExperiment(target("app", "gke", "nginx"))
	onHub     = newExperiment(target("app", "hub", "nginx"))
	// onVCluster has a virtual cluster, which two objects make.
	onVCluster = newExperiment(target("app", "vcluster", "nginx"))
	// onTalos has a Talos cluster, of templates that are the user's.
	onTalos = newExperiment(map[string]any{
		"name": "app", "components": []any{map[string]any{"app": "nginx"}},
		"cluster": map[string]any{"type": "talos", "talos": map[string]any{
			"kubernetesVersion": "v1.34.1",
			"infrastructure":    map[string]any{"cluster": dockerTemplate("Cluster"), "machines": dockerTemplate("Machine")},
		}},
	})
	clusterTemplate = &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": dockerVersion, "kind": "DockerClusterTemplate", "metadata": map[string]any{"name": "lab"},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"loadBalancer": map[string]any{"imageTag": "v1"}}}},
	}}
	machineTemplate = &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": dockerVersion, "kind": "DockerMachineTemplate", "metadata": map[string]any{"name": "lab"},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"customImage": "talos"}}},
	}}
	// onExisting has a cluster that is there already, and staging is the kubeconfig of it.
	onExisting = newExperiment(map[string]any{
		"name": "app", "components": []any{map[string]any{"app": "nginx"}},
		"cluster": map[string]any{"type": "existing", "kubeconfigSecret": map[string]any{"name": "staging"}},
	})
	staging = &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "staging"}, "stringData": map[string]any{"kubeconfig": kubeconfig},
	}}
	// ownStaging is one of a cluster whose token changes.
	ownStaging = with(staging.DeepCopy(), strings.ReplaceAll(kubeconfig, address, ownAddress), "stringData", "kubeconfig")
	// onReferred has a cluster that a Cluster stands for, k3, which others have made.
	onReferred = newExperiment(map[string]any{
		"name": "app", "components": []any{map[string]any{"app": "nginx"}},
		"cluster": map[string]any{"type": "clusterRef", "clusterRef": map[string]any{"name": "k3"}},
	})
	k3 = &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "core.arlon.io/v1", "kind": "Cluster", "metadata": map[string]any{"name": "k3", "finalizers": []any{arlonFinalizer}},
		"spec": map[string]any{"clusterTemplate": map[string]any{"url": "https://git.example.com/fleet.git", "path": "base", "revision": "main"}},
	}}
	// byHand names a WorkflowTemplate that does not exist, and waits for a person.
	byHand = func() *unstructured.Unstructured {
		e := newExperiment(target("app", "hub", "nginx"))
		workflow := map[string]any{"template": "missing", "completion": map[string]any{"mode": "manual"}}
		_ = unstructured.SetNestedMap(e.Object, workflow, "spec", "workflow")
		return e
	}()
	// inOwnNamespace has its Workflow in its own namespace, by a template of the whole cluster.
	inOwnNamespace = func() *unstructured.Unstructured {
		e := newExperiment(target("app", "hub", "nginx"))
		workflow := map[string]any{"template": "everywhere", "clusterScope": true, "namespace": faults.RunNamespace, "serviceAccountName": "builder"}
		_ = unstructured.SetNestedMap(e.Object, workflow, "spec", "workflow")
		return e
	}()
	// briefly is an Experiment that goes an hour after its verdict.
	briefly = with(newExperiment(target("app", "hub", "nginx")), "1h", "spec", "ttlAfterFinished")
	// impatient is one that waits for half an hour until what is deployed is healthy.
	impatient = with(newExperiment(target("app", "hub", "nginx")), "30m", "spec", "progressDeadline", "applications")
	// untemplated names a WorkflowTemplate that does not exist.
	untemplated = with(newExperiment(target("app", "hub", "nginx")), "missing", "spec", "workflow", "template")
	// waiting names a WorkflowTemplate that does not exist, and has a Workflow wait for a person instead.
	waiting = with(untemplated.DeepCopy(), "Suspend", "spec", "workflow", "onMissingTemplate")
	// hurried is one whose Workflow has half an hour.
	hurried = with(newExperiment(target("app", "hub", "nginx")), "30m", "spec", "progressDeadline", "workflow")
	// blockedTalos stays as long as anything of its cluster is left.
	blockedTalos = with(onTalos.DeepCopy(), "Block", "spec", "deletion", "policy")
	// fineComponent is one that nobody else names.
	fineComponent = &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "Component", "metadata": map[string]any{"name": ownPrefix + faults.RunNamespace},
		"spec": map[string]any{
			"type":    "app",
			"sources": []any{map[string]any{"repoURL": "https://git.example.com/lab/components.git", "path": "own", "targetRevision": "v0"}},
		},
	}}
	// ownComponent has a parameter that is not what it says that it is.
	ownComponent = func() *unstructured.Unstructured {
		u := fineComponent.DeepCopy()
		parameters := []any{map[string]any{"name": "replicaCount", "type": "integer", "default": "many"}}
		_ = unstructured.SetNestedSlice(u.Object, parameters, "spec", "parameters")
		return u
	}()
	// unresolved names a Component that does not exist.
	unresolved = newExperiment(target("app", "hub", "missing"))
)

// What users change in a spec.
const (
	moreNodes     = `[{"op": "add", "path": "/spec/targets/0/cluster/nodeCount", "value": 3}]`
	moreReplicas  = `[{"op": "add", "path": "/spec/targets/0/components/0/params", "value": {"replicaCount": "3"}}]`
	longer        = `[{"op": "add", "path": "/spec/workflow/params", "value": {"duration": "5m"}}]`
	completed     = `[{"op": "add", "path": "/metadata/annotations", "value": {"experiments.illm.io/complete": "Succeeded"}}]`
	extended      = `[{"op": "add", "path": "/metadata/annotations", "value": {"experiments.illm.io/extend": "96h"}}]`
	suspended     = `[{"op": "add", "path": "/spec/suspend", "value": true}]`
	resumed       = `[{"op": "remove", "path": "/spec/suspend"}]`
	resumedLarger = `[{"op": "remove", "path": "/spec/suspend"}, {"op": "add", "path": "/spec/targets/0/cluster/nodeCount", "value": 3}]`
	withoutSecond = `[{"op": "remove", "path": "/spec/targets/0/components/1"}]`
	terminated    = `[{"op": "add", "path": "/spec/terminate", "value": true}]`
	shipped       = `[{"op": "add", "path": "/spec/targets/0/observability", "value": {"enabled": true, "tenant": "lab"}}]`
	blocking      = `[{"op": "add", "path": "/spec/deletion", "value": {"policy": "Block"}}]`
	notLonger     = `[{"op": "remove", "path": "/spec/workflow/params"}]`
)

// workloads are what users do with an Experiment, and what somebody does to what it owns. A
// step is taken at a moment that lasts: whatever happens to the manager, it comes.
var workloads = slices.Concat(roads, edits, lateEdits, deletions, heldDeletions, stuckDeletions, terminations, lifetimes, meddling, absences, neighbours)

// roads lead to a verdict.
var roads = []faults.Workload{
	{
		Name:    "complete",
		Objects: objects(straightRoad),
		Done:    reached(v1alpha1.PhaseComplete),
	},
	{
		Name:    "existing",
		Objects: objects(staging, onExisting),
		Steps:   steps(step(reached(v1alpha1.PhaseComplete), remove)),
		Done:    gone,
	},
	{
		// The Cluster is made when the Experiment waits for it.
		Name:    "referred",
		Objects: objects(k3, onReferred),
		Holds:   []string{clusterReady},
		Steps: steps(
			step(telling("k3 is not Ready"), release(clusterReady)),
			step(reached(v1alpha1.PhaseComplete), remove),
		),
		Done: gone,
	},
	{
		Name:    "manual",
		Objects: objects(byHand),
		Holds:   []string{workflowEnds},
		Steps:   steps(step(running, edit(completed))),
		Done:    reached(v1alpha1.PhaseComplete),
	},
	{
		Name:    "template-missing-suspends",
		Objects: objects(waiting),
		Holds:   []string{workflowEnds},
		Steps:   steps(step(running, release(workflowEnds)), step(reached(v1alpha1.PhaseComplete), remove)),
		Done:    gone,
	},
	{
		Name:    "own-workflow-namespace",
		Objects: objects(inOwnNamespace),
		Steps:   steps(step(reached(v1alpha1.PhaseComplete), remove)),
		Done:    gone,
	},
	{
		Name:    "talos",
		Objects: objects(clusterTemplate, machineTemplate, onTalos),
		Steps:   steps(step(reached(v1alpha1.PhaseComplete), remove)),
		Done:    gone,
	},
	{
		Name:    "vcluster",
		Objects: objects(onVCluster),
		Steps:   steps(step(reached(v1alpha1.PhaseComplete), remove)),
		Done:    gone,
	},
	{
		Name:    "per-component",
		Objects: objects(newExperiment(inComponents("gke"))),
		Steps:   steps(step(reached(v1alpha1.PhaseComplete), remove)),
		Done:    gone,
	},
	{
		// Argo CD never says that they are what their sources say, and cannot take down what is on a cluster that somebody has taken away.
		Name:    "per-component-tolerated",
		Objects: objects(newExperiment(tolerant(inComponents("gke")))),
		Holds:   []string{syncLasts},
		Steps: steps(
			step(reached(v1alpha1.PhaseComplete), kill, lose("GKECluster"), remove),
			step(none("GKECluster"), start),
		),
		Done: gone,
	},
	{
		Name:    "observed",
		Objects: objects(newExperiment(inTheTailnet("gke"))),
		Steps:   steps(step(reached(v1alpha1.PhaseComplete), remove)),
		Done:    gone,
	},
	{
		Name:    "namespaced-composite",
		Objects: objects(onCluster),
		Holds:   []string{claims},
		Steps:   steps(step(reached(v1alpha1.PhaseComplete), remove)),
		Done:    gone,
	},
	{
		Name:    "workflow-fails",
		Objects: objects(onHub),
		Holds:   []string{workflowSucceeds},
		Done:    reached(v1alpha1.PhaseFailed),
	},
	{
		// A sync waits for a hook, as long as that takes. What it has deployed does not work at first; that it fails later does not undo
		// what it was when the Workflow came.
		Name:    "sync-late",
		Objects: objects(onHub),
		Holds:   []string{syncEnds, applicationWorks, applicationFails, workflowEnds},
		Steps: steps(
			step(telling(hookWaits), restart, release(syncEnds)),
			step(reason(v1alpha1.ReasonApplicationDegraded), release(applicationWorks)),
			step(running, release(applicationFails)),
			step(reason(v1alpha1.ReasonApplicationDegraded), release(workflowEnds)),
		),
		Done: reached(v1alpha1.PhaseComplete),
	},
	{
		// What stands for a kubeconfig at first is none.
		Name:    "connection-late",
		Objects: objects(onCluster),
		Holds:   []string{connectionLeft},
		Steps:   steps(step(reason(v1alpha1.ReasonKubeconfigInvalid), release(connectionLeft))),
		Done:    reached(v1alpha1.PhaseComplete),
	},
	{
		Name:    "recreate",
		Objects: objects(straightRoad),
		Steps: steps(
			step(reached(v1alpha1.PhaseComplete), remove),
			step(gone, apply),
		),
		Done: reached(v1alpha1.PhaseComplete),
	},
	{
		Name:    "recreate-provisioning",
		Objects: objects(onCluster),
		Holds:   []string{clusterReady},
		Steps: steps(
			step(provisioning, remove),
			step(gone, release(clusterReady), apply),
		),
		Done: reached(v1alpha1.PhaseComplete),
	},
}

// edits change the spec, once in every phase.
var edits = []faults.Workload{
	{
		Name:    "edit-pending",
		Objects: objects(unresolved),
		Steps: steps(
			step(reason(v1alpha1.ReasonComponentNotFound), useComponent),
			step(all(observed(2), reason(v1alpha1.ReasonComponentNotFound)), createComponent),
		),
		Done: reached(v1alpha1.PhaseComplete),
	},
	{
		Name:    "edit-provisioning",
		Objects: objects(onCluster),
		Holds:   []string{clusterReady},
		Steps: steps(
			step(provisioning, edit(moreNodes)),
			step(observed(2), edit(moreReplicas)),
			step(observed(3), release(clusterReady)),
		),
		Done: reached(v1alpha1.PhaseComplete),
	},
	{
		Name:    "edit-ready",
		Objects: objects(onHub),
		Holds:   []string{applicationHealthy},
		Steps: steps(
			step(deploying, edit(moreReplicas)),
			step(all(observed(2), edited), release(applicationHealthy)),
		),
		Done: reached(v1alpha1.PhaseComplete),
	},
	{
		// Another Application comes with it, when the first is healthy.
		Name:    "edit-ready-observed",
		Objects: objects(onHub),
		Holds:   []string{applicationHealthy},
		Steps: steps(
			step(deploying, edit(shipped)),
			step(observed(2), release(applicationHealthy)),
			step(reached(v1alpha1.PhaseComplete), remove),
		),
		Done: gone,
	},
	{
		// What is validated is not what is deployed now: it is validated again.
		Name:    "edit-running",
		Objects: objects(onHub),
		Holds:   []string{workflowEnds},
		Steps: steps(
			step(running, edit(moreReplicas)),
			step(all(observed(2), edited, healthy, running, not(superseded)), release(workflowEnds)),
		),
		Done: all(reached(v1alpha1.PhaseComplete), healthy),
	},
	{
		// What is not named any more goes, and what is validated with it is not what is deployed now.
		Name:    "edit-running-component-removed",
		Objects: objects(newExperiment(inComponents("hub"))),
		Holds:   []string{workflowEnds, applicationGone},
		Steps: steps(
			step(running, edit(withoutSecond)),
			step(all(observed(2), telling("it is not wanted any more")), restart, release(applicationGone)),
			step(all(child("Application", anything), healthy, running, not(superseded)), release(workflowEnds)),
		),
		Done: all(reached(v1alpha1.PhaseComplete), healthy),
	},
	{
		// The Workflow that was submitted for the spec of before goes, although the spec is that again.
		Name:    "edit-running-back",
		Objects: objects(onHub),
		Holds:   []string{workflowEnds, workflowGone},
		Steps: steps(
			step(running, edit(longer)),
			step(awaitsItsEnd, edit(notLonger)),
			step(observed(3), release(workflowGone)),
			step(all(running, not(superseded)), release(workflowEnds)),
		),
		Done: all(reached(v1alpha1.PhaseComplete), observed(3)),
	},
	{
		Name:    "edit-running-undone",
		Objects: objects(onHub),
		Holds:   []string{workflowEnds},
		Steps: steps(
			step(running, edit(moreReplicas)),
			// A cache that has not seen the first edit has what the spec asks for again, and nothing else holds a verdict up.
			step(all(observed(2), edited, healthy, running, not(superseded)),
				edit(`[{"op": "remove", "path": "/spec/targets/0/components/0/params"}]`), release(workflowEnds)),
		),
		Done: all(reached(v1alpha1.PhaseComplete), observed(3), healthy),
	},
	{
		Name:    "suspend-provisioning",
		Objects: objects(onCluster),
		Holds:   []string{clusterReady},
		Steps: steps(
			step(provisioning, edit(suspended)),
			step(reason(v1alpha1.ReasonSuspended), release(clusterReady)),
			step(telling("is up and is not registered"), edit(resumed)),
		),
		Done: reached(v1alpha1.PhaseComplete),
	},
	{
		// The cluster is to be registered and changed in the same pass.
		Name:    "suspend-edit-provisioning",
		Objects: objects(onCluster),
		Holds:   []string{clusterReady},
		Steps: steps(
			step(provisioning, edit(suspended)),
			step(reason(v1alpha1.ReasonSuspended), release(clusterReady)),
			step(telling("is up and is not registered"), edit(resumedLarger)),
		),
		Done: reached(v1alpha1.PhaseComplete),
	},
	{
		Name:    "edit-complete",
		Objects: objects(onHub),
		Steps:   steps(step(reached(v1alpha1.PhaseComplete), edit(moreReplicas))),
		Done:    all(reached(v1alpha1.PhaseComplete), observed(2)),
	},
}

// lateEdits change the spec when it is too late for that, or what it names all along.
var lateEdits = []faults.Workload{
	{
		// Whoever looks after a Component edits it in every phase: it is made right first, and what is validated is what it says.
		Name:    "component-edited",
		Objects: objects(ownComponent, newExperiment(target("app", "gke", ownPrefix+faults.RunNamespace))),
		Holds:   []string{clusterReady, applicationHealthy, workflowEnds, applicationGone},
		Steps: steps(
			step(reason(v1alpha1.ReasonInvalidParameters), editComponent("v1")),
			step(provisioning, kill, editComponent("v2"), start, release(clusterReady)), // of which nothing is told
			step(all(deploying, deploys("v2")), editComponent("v3")),
			step(deploys("v3"), release(applicationHealthy)),
			step(running, editComponent("v4")),
			step(all(deploys("v4"), healthy, running, not(superseded)), release(workflowEnds)),
			step(reached(v1alpha1.PhaseComplete), editComponent("v5"), remove),
			step(waitsFor("Application"), editComponent("v6"), release(applicationGone)),
		),
		Done: gone,
	},
	{
		// What hangs is of what the Component was, and Argo CD keeps to that.
		Name:    "component-edited-syncing",
		Objects: objects(fineComponent, newExperiment(target("app", "gke", ownPrefix+faults.RunNamespace))),
		Holds:   []string{syncEnds},
		Steps: steps(
			step(telling(hookWaits), editComponent("v1")),
			step(reached(v1alpha1.PhaseComplete), remove),
		),
		Done: gone,
	},
	{
		Name:    "component-edited-complete",
		Objects: objects(fineComponent, newExperiment(target("app", "hub", ownPrefix+faults.RunNamespace))),
		Steps:   steps(step(reached(v1alpha1.PhaseComplete), editComponent("v1"))),
		Done:    reached(v1alpha1.PhaseComplete),
	},
	{
		Name:    "edit-failed",
		Objects: objects(onHub),
		Holds:   []string{workflowSucceeds},
		Steps:   steps(step(reached(v1alpha1.PhaseFailed), edit(moreReplicas))),
		Done:    all(reached(v1alpha1.PhaseFailed), observed(2)),
	},
	{
		Name:    "edit-deleting",
		Objects: objects(onHub),
		Holds:   []string{applicationGone},
		Steps: steps(
			step(reached(v1alpha1.PhaseComplete), remove),
			step(waitsFor("Application"), edit(moreReplicas)),
			step(observed(3), release(applicationGone)), // the deletion is the second generation
		),
		Done: gone,
	},
}

// heldDeletions are in phases that do not wait for what is held: every outside takes its time.
var heldDeletions = []faults.Workload{
	{
		Name:    "delete-ready-cluster-held",
		Objects: objects(onCluster),
		Holds:   []string{applicationHealthy, clusterGone},
		Steps: steps(
			step(deploying, remove),
			step(clusterLeft, restart, release(clusterGone)),
		),
		Done: gone,
	},
	{
		Name:    "delete-provisioning-vcluster-held",
		Objects: objects(onVCluster),
		Holds:   []string{clusterReady, clusterGone},
		Steps: steps(
			step(endpointTold, remove),
			step(waitsFor("Cluster"), restart, release(clusterGone)),
		),
		Done: gone,
	},
	{
		Name:    "delete-provisioning-talos-held",
		Objects: objects(clusterTemplate, machineTemplate, onTalos),
		Holds:   []string{clusterReady, clusterGone},
		Steps: steps(
			step(endpointTold, remove),
			step(waitsFor("Cluster"), restart, release(clusterGone)),
		),
		Done: gone,
	},
	{
		Name:    "delete-ready-existing-held",
		Objects: objects(staging, onExisting),
		Holds:   []string{applicationHealthy, applicationGone},
		Steps: steps(
			step(deploying, remove),
			step(waitsFor("Application"), restart, release(applicationGone)),
		),
		Done: gone,
	},
	{
		Name:    "delete-running-held",
		Objects: objects(straightRoad),
		Holds:   []string{workflowEnds, applicationGone, clusterGone},
		Steps: steps(
			step(running, remove),
			step(waitsFor("Application"), restart, release(applicationGone)),
			step(clusterLeft, restart, release(clusterGone)),
		),
		Done: gone,
	},
	{
		Name:    "delete-complete-workflow-held",
		Objects: objects(straightRoad),
		Holds:   []string{workflowGone, applicationGone},
		Steps: steps(
			step(reached(v1alpha1.PhaseComplete), remove),
			step(waitsFor("Workflow"), restart, release(workflowGone)),
			step(waitsFor("Application"), release(applicationGone)),
		),
		Done: gone,
	},
	{
		Name:    "delete-failed-held",
		Objects: objects(straightRoad),
		Holds:   []string{workflowSucceeds, workflowGone, applicationGone, clusterGone},
		Steps: steps(
			step(reached(v1alpha1.PhaseFailed), remove),
			step(waitsFor("Workflow"), restart, release(workflowGone)),
			step(waitsFor("Application"), restart, release(applicationGone)),
			step(clusterLeft, restart, release(clusterGone)),
		),
		Done: gone,
	},
	{
		// Its cluster never came, and does not go either.
		Name:    "delete-failed-provisioning-held",
		Objects: objects(onCluster),
		Holds:   []string{clusterReady, clusterGone},
		Steps: steps(
			step(provisioning, lookAtClaim, due(time.Hour)),
			step(reached(v1alpha1.PhaseFailed), remove),
			step(waitsFor("GKECluster"), restart, release(clusterGone)),
		),
		Done: gone,
	},
	{
		Name:    "delete-failed",
		Objects: objects(straightRoad),
		Holds:   []string{workflowSucceeds},
		Steps:   steps(step(reached(v1alpha1.PhaseFailed), remove)),
		Done:    gone,
	},
}

// deletions are in every phase, with whatever the phase waits for never coming, and with
// every outside that a teardown waits for taking its time.
var deletions = []faults.Workload{
	{
		Name:    "delete-pending",
		Objects: objects(unresolved),
		Steps:   steps(step(reason(v1alpha1.ReasonComponentNotFound), remove)),
		Done:    gone,
	},
	{
		Name:    "delete-provisioning",
		Objects: objects(onCluster),
		Holds:   []string{clusterReady, clusterGone},
		Steps: steps(
			step(provisioning, remove),
			step(waitsFor("GKECluster"), restart, release(clusterGone)),
		),
		Done: gone,
	},
	{
		// The cluster is there at last: too late.
		Name:    "delete-provisioned",
		Objects: objects(onCluster),
		Holds:   []string{clusterReady},
		Steps:   steps(step(provisioning, remove, release(clusterReady))),
		Done:    gone,
	},
	{
		Name:    "delete-ready",
		Objects: objects(onHub),
		Holds:   []string{applicationHealthy, applicationGone},
		Steps: steps(
			step(deploying, remove),
			step(waitsFor("Application"), restart, release(applicationGone)),
		),
		Done: gone,
	},
	{
		// Argo CD lets nothing go that it is in the middle of syncing.
		Name:    "delete-syncing",
		Objects: objects(onCluster),
		Holds:   []string{syncEnds},
		Steps:   steps(step(telling(hookWaits), remove)),
		Done:    gone,
	},
	{
		Name:    "delete-deploying",
		Objects: objects(onCluster),
		Holds:   []string{applicationHealthy, applicationGone},
		Steps: steps(
			step(deploying, remove),
			step(waitsFor("Application"), release(applicationGone)),
		),
		Done: gone,
	},
	{
		Name:    "delete-running",
		Objects: objects(straightRoad),
		Holds:   []string{workflowEnds, workflowGone},
		Steps: steps(
			step(running, remove),
			step(waitsFor("Workflow"), restart, release(workflowGone)),
		),
		Done: gone,
	},
	{
		Name:    "complete-delete",
		Sampled: faults.FirstHalf,
		Objects: objects(straightRoad),
		Steps:   steps(step(reached(v1alpha1.PhaseComplete), remove)),
		Done:    gone,
	},
	{
		// The cluster Secret is not watched: what goes last wakes the manager.
		Name:    "delete-complete-held",
		Objects: objects(straightRoad),
		Holds:   []string{namespaceGone, clusterGone},
		Steps: steps(
			step(reached(v1alpha1.PhaseComplete), holdChild("Secret"), remove),
			step(waitsFor("Secret"), restart, freeChild("Secret"), release(namespaceGone)),
			step(clusterLeft, release(clusterGone)),
		),
		Done: gone,
	},
	{
		// The namespace controller deletes the claim too, when it comes to it.
		Name:    "delete-namespace",
		Objects: objects(onCluster),
		Holds:   []string{workflowGone},
		Steps: steps(
			step(reached(v1alpha1.PhaseComplete), removeNamespace),
			step(all(waitsFor("Workflow"), claimGoing), release(workflowGone)),
		),
		Done: gone,
		Logs: []string{"because it is being terminated"}, // events
	},
	{
		// The namespace controller takes the kinds in a random order. While it does the manager
		// is away, here and in the next two, to find the same every time.
		Name:    "delete-namespace-provisioning",
		Objects: objects(onCluster),
		Holds:   []string{clusterReady, clusterGone},
		Steps: steps(
			step(provisioning, kill, removeNamespace),
			step(all(experimentGoing, claimGoing), start),
			step(waitsFor("GKECluster"), release(clusterGone)),
		),
		Done: gone,
		Logs: []string{"because it is being terminated"},
	},
	{
		Name:    "delete-namespace-ready",
		Objects: objects(onCluster),
		Holds:   []string{applicationHealthy, applicationGone},
		Steps: steps(
			step(deploying, kill, removeNamespace),
			step(all(experimentGoing, claimGoing), start),
			step(waitsFor("Application"), release(applicationGone)),
		),
		Done: gone,
		Logs: []string{"because it is being terminated"},
	},
	{
		Name:    "delete-namespace-running",
		Objects: objects(onCluster),
		Holds:   []string{workflowEnds, workflowGone},
		Steps: steps(
			step(running, kill, removeNamespace),
			step(all(experimentGoing, claimGoing), start),
			step(waitsFor("Workflow"), release(workflowGone)),
		),
		Done: gone,
		Logs: []string{"because it is being terminated"},
	},
	{
		// The time is over, whatever the phase.
		Name:    "expire-running",
		Objects: objects(onHub),
		Holds:   []string{workflowEnds},
		// Its time counts from its creation, by the API server's clock, and that of the managers begins
		// when the sweep does, which may be hours before.
		Steps: steps(step(running, sleep(48*time.Hour))),
		Done:  gone,
	},
}

// stuckDeletions are of outsides that never let go. What is left of the deadline passes while the
// manager is away.
var stuckDeletions = []faults.Workload{
	{
		Name:    "release-cluster",
		Objects: objects(onCluster),
		Holds:   []string{clusterGone},
		Steps: steps(
			step(reached(v1alpha1.PhaseComplete), remove),
			step(clusterLeft, due(30*time.Minute)),
		),
		Done:   gone,
		Leaves: []string{"GKECluster app"},
	},
	{
		// The manager may not delete it, and has been refused for as long as what is held up may take. Each counts from when it was
		// refused first, so that one that comes when another was about to give up has that time, too.
		Name:    "release-refused",
		Objects: objects(onCluster),
		Holds:   []string{clusterReady},
		Steps: steps(
			step(provisioning, refuseClaims, remove),
			step(telling("Deleting GKECluster"), tick(time.Hour)),
			step(child("ConfigMap", anything), tickUntilGone(time.Hour)),
		),
		Done:   gone,
		Leaves: []string{"GKECluster app"},
		Logs:   []string{"is forbidden: RBAC"},
	},
	{
		// The namespace of a target on the hub, which nobody's cluster is in.
		Name:    "release-namespace",
		Objects: objects(onHub),
		Steps: steps(
			step(reached(v1alpha1.PhaseComplete), holdChild("Namespace"), remove),
			step(waitsFor("Namespace"), due(30*time.Minute)),
		),
		Done:   gone,
		Leaves: []string{"Namespace app"},
	},
	{
		Name:    "block-cluster",
		Objects: objects(onCluster),
		Holds:   []string{clusterGone},
		Steps: steps(
			step(reached(v1alpha1.PhaseComplete), edit(blocking)),
			step(observed(2), remove),
			step(clusterLeft, sleep(time.Hour)),
			step(telling("policy Block"), release(clusterGone)),
		),
		Done: gone,
	},
	{
		// Whoever pays for the cluster is told of it, and does as is said.
		Name:    "forced-away",
		Objects: objects(onCluster),
		Holds:   []string{applicationGone},
		Steps: steps(
			step(reached(v1alpha1.PhaseComplete), remove),
			step(waitsFor("Application"), force),
			step(all(gone, child("ConfigMap", anything)), release(applicationGone)),
			step(none("Application"), removeForsaken),
		),
		Done:   none("GKECluster"),
		Leaves: []string{"GKECluster app", "Application app", "Secret app"},
	},
	{
		Name:    "release-talos",
		Objects: objects(clusterTemplate, machineTemplate, onTalos),
		Holds:   []string{clusterGone},
		Steps: steps(
			step(reached(v1alpha1.PhaseComplete), remove),
			step(all(waitsFor("Cluster"), not(waitsFor("Secret"))), sleep(time.Hour)),
		),
		Done: gone,
		// Its cluster needs them until it is gone.
		Leaves: []string{
			"Cluster app", "DockerCluster app", "DockerMachineTemplate app", "DockerMachineTemplate app worker", "MachineDeployment app",
			"TalosConfigTemplate app", "TalosControlPlane app",
		},
	},
	{
		Name:    "block-talos",
		Objects: objects(clusterTemplate, machineTemplate, blockedTalos),
		Holds:   []string{clusterGone},
		Steps: steps(
			step(reached(v1alpha1.PhaseComplete), remove),
			step(all(waitsFor("Cluster"), not(waitsFor("Secret"))), sleep(time.Hour)),
			step(telling("policy Block"), release(clusterGone)),
		),
		Done: gone,
	},
	{
		Name:    "release-vcluster",
		Objects: objects(onVCluster),
		Holds:   []string{clusterGone},
		Steps: steps(
			step(reached(v1alpha1.PhaseComplete), remove),
			step(all(waitsFor("Cluster"), not(waitsFor("Secret"))), sleep(time.Hour)),
		),
		Done:   gone,
		Leaves: []string{"Cluster app"},
		Breaks: []string{housesLast}, // the cluster has had its time
	},
	{
		// The cluster goes all the same, after a quarter of the deadline, and then the Application, which Argo CD could never delete.
		Name:    "stuck-application",
		Objects: objects(onCluster),
		Holds:   []string{applicationGone},
		Steps: steps(
			step(reached(v1alpha1.PhaseComplete), remove),
			step(waitsFor("Application"), due(450*time.Second)),
		),
		Done:   gone,
		Breaks: []string{clustersLast},
	},
}

// terminations end an Experiment that stays.
var terminations = []faults.Workload{
	{
		Name:    "terminate-provisioning",
		Objects: objects(onCluster),
		Holds:   []string{clusterReady},
		Steps:   steps(step(all(provisioning, telling("is being provisioned")), edit(terminated))),
		Done:    all(reached(v1alpha1.PhaseFailed), cleanedUp),
	},
	{
		Name:    "terminate-running",
		Objects: objects(straightRoad),
		Holds:   []string{workflowEnds},
		Steps:   steps(step(running, edit(terminated))),
		Done:    all(reached(v1alpha1.PhaseFailed), cleanedUp),
	},
	{
		Name:    "terminate-complete-delete",
		Objects: objects(onHub),
		Steps: steps(
			step(reached(v1alpha1.PhaseComplete), edit(terminated)),
			step(cleanedUp, remove),
		),
		Done: gone,
	},
	{
		Name:    "late-provisioning",
		Objects: objects(onCluster),
		Holds:   []string{clusterReady},
		Steps:   steps(step(provisioning, lookAtClaim, due(time.Hour))),
		Done:    reached(v1alpha1.PhaseFailed),
	},
}

// lifetimes are what the time does to an Experiment or a part of it, and who holds it up.
var lifetimes = []faults.Workload{
	{
		// What has loaded the cluster goes with the verdict, and the cluster stays.
		Name:    "target-leaves",
		Objects: objects(newExperiment(target("app", "gke", "nginx"), leaving(0, target("loadgen", "hub", "k6", "app")))),
		Steps:   steps(step(state("loadgen", v1alpha1.TargetDeleted), remove)),
		Done:    gone,
	},
	{
		// One goes later than it would, because another depends on it. One thing happens at a time, or the statuses would be
		// one more or one less: what they depend on stays, and is healthy first, and the second is gone last.
		Name:    "targets-leave",
		Objects: objects(newExperiment(leaving(0, target("app", "gke", "nginx", "page")), leaving(time.Hour, target("loadgen", "hub", "k6", "app")), target("page", "hub", "nginx"))),
		Holds:   []string{namespaceGone},
		Steps: steps(
			step(reached(v1alpha1.PhaseComplete), sleep(2*time.Hour)),
			step(state("app", v1alpha1.TargetDeleted), release(namespaceGone)),
		),
		Done: all(reached(v1alpha1.PhaseComplete), state("app", v1alpha1.TargetDeleted), state("loadgen", v1alpha1.TargetDeleted),
			state("page", v1alpha1.TargetHealthy), none("GKECluster")),
	},
	{
		// The teardown of everything takes over from that of a target.
		Name:    "target-leaves-deleted",
		Objects: objects(newExperiment(leaving(0, target("app", "gke", "nginx")))),
		Holds:   []string{clusterGone},
		Steps: steps(
			step(clusterLeftOf("app"), remove),
			step(clusterLeft, release(clusterGone)),
		),
		Done: gone,
	},
	{
		// The end of the Workflow and the edit are seen together: of two watches, either would come first.
		Name:    "suspend-running",
		Objects: objects(onHub),
		Holds:   []string{workflowEnds},
		Steps: steps(
			step(running, edit(suspended)),
			step(reason(v1alpha1.ReasonSuspended), kill, edit(resumed), release(workflowEnds)),
			step(succeeded, start),
		),
		Done: reached(v1alpha1.PhaseComplete),
	},
	{
		Name:    "expire-finished",
		Objects: objects(briefly),
		Steps:   steps(step(reached(v1alpha1.PhaseComplete), due(time.Hour))),
		Done:    gone,
	},
	{
		// It would have been over in between.
		Name:    "extend-running",
		Objects: objects(onHub),
		Holds:   []string{workflowEnds},
		Steps: steps(
			step(running, edit(extended)),
			step(extensionTold, sleep(48*time.Hour), release(workflowEnds)),
			step(reached(v1alpha1.PhaseComplete), remove),
		),
		Done: gone,
	},
	{
		// Argo CD looks at it, and brings it to no end.
		Name:    "late-deploying",
		Objects: objects(impatient),
		Holds:   []string{applicationHealthy},
		Steps:   steps(step(deploying, editChild("Application", `[{"op": "add", "path": "/status", "value": {"sync": {"status": "OutOfSync"}}}]`), due(30*time.Minute))),
		Done:    reached(v1alpha1.PhaseFailed),
	},
	{
		Name:    "late-running",
		Objects: objects(hurried),
		Holds:   []string{workflowEnds, workflowLate},
		Steps:   steps(step(running, release(workflowLate))), // Argo Workflows keeps the deadline
		Done:    reached(v1alpha1.PhaseFailed),
	},
	{
		Name:    "release-workflow",
		Objects: objects(onHub),
		Holds:   []string{workflowGone},
		Steps: steps(
			step(reached(v1alpha1.PhaseComplete), remove),
			step(waitsFor("Workflow"), sleep(10*time.Minute)),
			step(all(none("Application"), waitsFor("Workflow")), sleep(time.Hour)),
		),
		Done:   gone,
		Leaves: []string{"Workflow"},
	},
}

// meddling is what somebody does to the objects of others.
var meddling = []faults.Workload{
	{
		Name:    "claim-deleted",
		Objects: objects(onCluster),
		Holds:   []string{clusterReady},
		Steps: steps(
			step(provisioning, removeChild("GKECluster")),
			step(losing, release(clusterReady)),
		),
		Done: reached(v1alpha1.PhaseComplete),
	},
	{
		// What Cluster API takes down with a cluster is made again when that is gone, not before.
		Name:    "vcluster-deleted",
		Objects: objects(onVCluster),
		Holds:   []string{clusterReady},
		Steps: steps(
			step(endpointTold, removeChild("Cluster")),
			step(losing, release(clusterReady)),
		),
		Done: reached(v1alpha1.PhaseComplete),
	},
	{
		Name:    "claim-edited",
		Objects: objects(onCluster),
		Holds:   []string{clusterReady},
		Steps: steps(
			step(provisioning, editChild("GKECluster", `[{"op": "replace", "path": "/spec/nodeCount", "value": 9}]`)),
			step(claimChangedBack, release(clusterReady)),
		),
		Done: reached(v1alpha1.PhaseComplete),
	},
	{
		// The cluster that takes the place of another is registered again, and validated.
		Name:    "claim-deleted-running",
		Objects: objects(straightRoad),
		Holds:   []string{clusterReady, workflowEnds},
		Steps: steps(
			step(provisioning, release(clusterReady)),
			step(running, hold(clusterReady), removeChild("GKECluster")),
			step(awaitsItsEnd, release(clusterReady)),
			step(all(running, not(superseded)), release(workflowEnds)),
		),
		Done: reached(v1alpha1.PhaseComplete),
	},
	{
		// A cache that has the first cluster has nothing that would hold the verdict up.
		Name:    "away-claim-lost",
		Objects: objects(straightRoad),
		Holds:   []string{clusterReady, workflowEnds},
		Steps: steps(
			step(provisioning, release(clusterReady)),
			step(running, kill, hold(clusterReady), release(workflowEnds)),
			step(succeeded, lose("GKECluster"), start),
			step(awaitsItsEnd, release(clusterReady)),
		),
		Done: reached(v1alpha1.PhaseComplete),
	},
	{
		// Argo CD does not know the cluster any more and says so: that makes the manager register it
		// again.
		Name:    "secret-deleted",
		Objects: objects(onCluster),
		Holds:   []string{applicationHealthy},
		Steps: steps(
			step(deploying, removeChild("Secret")),
			step(unregistered, release(applicationHealthy)),
		),
		Done: reached(v1alpha1.PhaseComplete),
	},
	{
		// What is not wanted any more is on a cluster that Argo CD does not know.
		Name:    "secret-deleted-component-removed",
		Objects: objects(newExperiment(inComponents("gke"))),
		Holds:   []string{workflowEnds},
		Steps: steps(
			step(running, removeChild("Secret"), edit(withoutSecond)),
			step(all(observed(2), running, not(superseded)), release(workflowEnds)),
		),
		Done: reached(v1alpha1.PhaseComplete),
	},
	{
		// Nobody looks at it any more, so that it is not known to Argo CD when the Experiment is deleted.
		Name:    "secret-deleted-complete",
		Objects: objects(onCluster),
		Steps:   steps(step(reached(v1alpha1.PhaseComplete), removeChild("Secret"), remove)),
		Done:    gone,
	},
	{
		Name:    "secret-deleted-complete-existing",
		Objects: objects(staging, onExisting),
		Steps:   steps(step(reached(v1alpha1.PhaseComplete), removeChild("Secret"), remove)),
		Done:    gone,
	},
	{
		// It is known again before the Applications go, and they take their time.
		Name:    "secret-deleted-running-existing-held",
		Objects: objects(staging, onExisting),
		Holds:   []string{workflowEnds, applicationGone},
		Steps: steps(
			step(running, removeChild("Secret"), remove),
			step(waitsFor("Application"), restart, release(applicationGone)),
		),
		Done: gone,
	},
	{
		// The user spoils the kubeconfig first, and its cluster takes what he puts right alone.
		Name:    "rotated-running-existing",
		Objects: objects(ownStaging, onExisting),
		Holds:   []string{tokenTaken, workflowEnds},
		Steps: steps(
			step(running, rewrite("{"), release(tokenTaken)),
			step(telling("it is not a kubeconfig"), rewrite(rotated), sleep(time.Minute)),
			step(all(healthy, registeredBy("rotated")), release(workflowEnds)),
			step(reached(v1alpha1.PhaseComplete), remove),
		),
		Done: gone,
	},
	{
		// Crossplane has another kubeconfig before anything is deployed by the first, and that before there are nodes.
		Name:    "rotated-deploying",
		Objects: objects(onCluster),
		Holds:   []string{clusterRight, tokenTaken, applicationHealthy},
		Steps: steps(
			step(telling(noNodes), release(clusterRight)),
			step(deploying, rewrite(rotated), release(tokenTaken, applicationHealthy)),
			step(reached(v1alpha1.PhaseComplete), remove),
		),
		Done: gone,
	},
	{
		// Nobody looks at it any more until what is deployed is to go.
		Name:    "rotated-complete-existing",
		Objects: objects(ownStaging, onExisting),
		Holds:   []string{tokenTaken},
		Steps:   steps(step(reached(v1alpha1.PhaseComplete), rewrite(rotated), release(tokenTaken), remove)),
		Done:    gone,
	},
	{
		// Nobody makes another, and what was deployed there lets the Experiment go.
		Name:    "referred-deleted-running",
		Objects: objects(k3, onReferred),
		Holds:   []string{workflowEnds, applicationGone},
		Steps: steps(
			step(running, removeReferred),
			step(telling("k3 does not exist"), remove),
		),
		Done: gone,
	},
	{
		// What takes its place is another cluster: what was deployed is deployed there anew, before there is a verdict.
		Name:    "referred-again-running",
		Objects: objects(k3, onReferred),
		Holds:   []string{workflowEnds},
		Steps: steps(
			step(running, removeReferred),
			step(telling("k3 does not exist"), createReferred),
			step(inState(v1alpha1.TargetHealthy), release(workflowEnds)),
		),
		Done: reached(v1alpha1.PhaseComplete),
	},
	{
		Name:    "application-deleted",
		Objects: objects(onHub),
		Holds:   []string{applicationHealthy},
		Steps: steps(
			step(deploying, removeChild("Application")),
			step(losing, release(applicationHealthy)),
		),
		Done: reached(v1alpha1.PhaseComplete),
	},
	{
		Name:    "application-edited",
		Objects: objects(onHub),
		Holds:   []string{applicationHealthy, workflowEnds},
		Steps: steps(
			step(deploying, editChild("Application", `[{"op": "replace", "path": "/spec/sources/0/targetRevision", "value": "0.0.1"}]`)),
			step(changedBack, release(applicationHealthy)),
			// Its Workflow has succeeded on something else when it is looked at again.
			step(running, kill, editChild("Application", `[{"op": "replace", "path": "/spec/sources/0/targetRevision", "value": "0.0.2"}]`), release(workflowEnds)),
			step(succeeded, start),
		),
		Done: reached(v1alpha1.PhaseComplete),
	},
	{
		// Server-side apply takes nothing away that others have added.
		Name:    "application-extended",
		Objects: objects(onHub),
		Holds:   []string{applicationHealthy},
		Steps: steps(
			step(deploying, editChild("Application", `[{"op": "add", "path": "/spec/syncPolicy/automated/enabled", "value": false}]`)),
			step(changedBack, release(applicationHealthy)),
		),
		Done: reached(v1alpha1.PhaseComplete),
	},
	{
		Name:    "workflow-deleted",
		Objects: objects(onHub),
		Holds:   []string{workflowEnds},
		Steps:   steps(step(running, removeChild("Workflow"))),
		Done:    reached(v1alpha1.PhaseFailed),
	},
	{
		// What Argo Workflows deletes after its end changes nothing.
		Name:    "workflow-collected",
		Objects: objects(onHub),
		Steps:   steps(step(reached(v1alpha1.PhaseComplete), removeChild("Workflow"))),
		Done:    all(reached(v1alpha1.PhaseComplete), none("Workflow")),
	},
	{
		// An Application of somebody else has the name: it is neither changed nor deleted.
		Name:    "name-taken",
		Objects: objects(onCluster),
		Holds:   []string{clusterReady},
		Steps: steps(
			step(provisioning, take(anothersApplication), release(clusterReady)),
			step(reason(v1alpha1.ReasonNameTaken), remove),
		),
		Done: gone,
		Logs: []string{"exists and is not managed by this object"},
	},
	{
		// Whoever has the name gives it up, of which nobody tells the manager.
		Name:    "name-freed",
		Objects: objects(onCluster),
		Holds:   []string{clusterReady},
		Steps: steps(
			step(provisioning, take(anothersApplication), release(clusterReady)),
			step(reason(v1alpha1.ReasonNameTaken), free(anothersApplication)),
		),
		Done: reached(v1alpha1.PhaseComplete),
		Logs: []string{"exists and is not managed by this object"},
	},
	{
		// A namespace on the hub of somebody else has the name: Argo CD would label it, and the teardown delete it.
		Name:    "namespace-taken",
		Objects: objects(straightRoad),
		Holds:   []string{clusterReady},
		Steps: steps(
			step(provisioning, take(anothersNamespace), release(clusterReady)),
			step(reason(v1alpha1.ReasonNameTaken), remove),
		),
		Done: gone,
		Logs: []string{"exists and is not managed by this object"},
	},
	{
		// A Workflow of somebody else has the name, and has succeeded.
		Name:    "workflow-taken",
		Objects: objects(onHub),
		Holds:   []string{applicationHealthy},
		Steps: steps(
			step(deploying, take(anothersWorkflow), release(applicationHealthy)),
			step(reason(v1alpha1.ReasonNameTaken), free(anothersWorkflow)),
		),
		Done: reached(v1alpha1.PhaseComplete),
		Logs: []string{"exists and is not managed by this object"},
	},
}

// absences are what the manager does not see happen.
var absences = []faults.Workload{
	{
		// It waits, and asks for nothing.
		Name:    "template-missing",
		Objects: objects(untemplated),
		Done:    all(healthy, reason(v1alpha1.ReasonWorkflowTemplateNotFound)),
	},
	{
		Name:    "away-edited",
		Objects: objects(onCluster),
		Holds:   []string{clusterReady},
		Steps: steps(
			step(provisioning, terminate, edit(moreReplicas), release(clusterReady)),
			step(clusterUp, start),
		),
		Done: reached(v1alpha1.PhaseComplete),
		Logs: []string{"Unable to write event"}, // it was about to when it was asked to stop
	},
	{
		Name:    "away-deleted",
		Objects: objects(straightRoad),
		Holds:   []string{workflowEnds},
		Steps: steps(
			step(running, kill, remove, release(workflowEnds)),
			step(succeeded, start),
		),
		Done: gone,
	},
	{
		// The cluster goes with all that was on it.
		Name:    "away-lost",
		Objects: objects(onCluster),
		Holds:   []string{applicationHealthy},
		Steps: steps(
			step(deploying, kill, lose("Application"), lose("GKECluster"), release(applicationHealthy)),
			step(all(none("Application"), none("GKECluster")), start),
		),
		Done: reached(v1alpha1.PhaseComplete),
	},
	{
		// A Workflow that takes the place of the submitted one is not asked for its verdict.
		Name:    "away-workflow-replaced",
		Objects: objects(onHub),
		Holds:   []string{workflowEnds},
		Steps: steps(
			step(running, kill, replaceWorkflow),
			step(succeeded, start),
		),
		Done: reached(v1alpha1.PhaseFailed),
	},
}
