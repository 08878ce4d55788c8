package experiment

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/test/faults"
)

// beside is an Experiment as the neighbour of the one that a workload is about.
func beside(e *unstructured.Unstructured) *unstructured.Unstructured {
	e = e.DeepCopy()
	e.SetName(neighbour)
	return e
}

// elsewhere is a neighbour of the same name, in another namespace.
func elsewhere(e *unstructured.Unstructured) *unstructured.Unstructured {
	e = e.DeepCopy()
	e.SetNamespace(faults.RunNamespace + faults.Beside)
	return e
}

// onShared is one on a kind of cluster with the Component that others name, too.
func onShared(cluster string) *unstructured.Unstructured {
	return newExperiment(target("app", cluster, ownPrefix+faults.RunNamespace))
}

// comesAndGoes has an Experiment come, end and go while its neighbour runs, which ends and goes then.
func comesAndGoes(e, neighbour *unstructured.Unstructured) []faults.Step {
	return steps(
		step(other(running), put(e)),
		step(one(reached(v1alpha1.PhaseComplete)), remove),
		step(one(gone), release(workflowEnds+ofNeighbour)),
		step(other(reached(v1alpha1.PhaseComplete)), drop(neighbour)),
	)
}

// neighbours are two Experiments beside each other. One of the two has nothing to write while the other has, so that the writes come in
// one order; who comes after a manager that was killed looks at both.
var neighbours = []faults.Workload{
	{
		// One comes, goes, and comes again while the other runs.
		Name:    "neighbour-runs",
		Objects: objects(beside(onHub)),
		Holds:   []string{workflowEnds + ofNeighbour},
		Steps: steps(
			step(other(running), put(onCluster)),
			step(one(reached(v1alpha1.PhaseComplete)), remove),
			step(one(gone), put(onCluster)),
			step(one(reached(v1alpha1.PhaseComplete)), release(workflowEnds+ofNeighbour)),
		),
		Done: all(one(reached(v1alpha1.PhaseComplete)), other(reached(v1alpha1.PhaseComplete))),
	},
	{
		// One comes and ends while the other is in the midst of its teardown.
		Name:    "neighbour-goes",
		Objects: objects(beside(onCluster)),
		Holds:   []string{applicationGone + ofNeighbour},
		Steps: steps(
			step(other(reached(v1alpha1.PhaseComplete)), drop(beside(onCluster))),
			step(other(waitsFor("Application")), put(onHub)),
			step(one(reached(v1alpha1.PhaseComplete)), release(applicationGone+ofNeighbour)),
		),
		Done: all(one(reached(v1alpha1.PhaseComplete)), other(gone)),
	},
	{
		// What is over takes nothing of a Component that is edited, which the other, whose teardown leaves it alone, does.
		Name:    "neighbour-shares-component",
		Objects: objects(fineComponent, beside(onShared("hub"))),
		Holds:   []string{applicationHealthy, workflowEnds},
		Steps: steps(
			step(other(reached(v1alpha1.PhaseComplete)), put(onShared("gke"))),
			step(one(deploying), editComponent("v1")),
			step(one(deploys("v1")), release(applicationHealthy)),
			step(one(running), editComponent("v2")),
			step(one(all(deploys("v2"), healthy, running, not(superseded))), release(workflowEnds)),
			step(one(reached(v1alpha1.PhaseComplete)), remove),
			step(one(gone), drop(beside(onShared("hub")))),
		),
		Done: gone,
	},
	{
		// One cluster, which each registers for itself, goes on to be known when one of them goes.
		Name:    "neighbour-shares-cluster",
		Objects: objects(staging, beside(onExisting)),
		Holds:   []string{workflowEnds + ofNeighbour},
		Steps:   comesAndGoes(onExisting, beside(onExisting)),
		Done:    gone,
	},
	{
		// What one registers with the new credentials the other, which is over, is given, too: Argo CD would use the old ones for both.
		Name:    "neighbour-shares-rotated",
		Objects: objects(ownStaging, beside(onExisting)),
		Holds:   []string{tokenTaken, workflowEnds},
		Steps: steps(
			step(other(reached(v1alpha1.PhaseComplete)), put(onExisting)),
			step(one(running), rewrite(rotated), release(tokenTaken)),
			step(one(all(healthy, registeredBy("rotated"))), release(workflowEnds)),
			step(one(reached(v1alpha1.PhaseComplete)), remove),
			step(all(one(gone), other(registeredBy("rotated"))), drop(beside(onExisting))),
		),
		Done: gone,
	},
	{
		Name:    "neighbour-of-the-name",
		Objects: objects(elsewhere(onCluster)),
		Beside:  true,
		Args:    []string{"--watch-namespaces=" + faults.RunNamespace + "," + faults.RunNamespace + faults.Beside},
		Holds:   []string{workflowEnds + ofNeighbour},
		Steps:   comesAndGoes(onCluster, elsewhere(onCluster)),
		Done:    gone,
	},
}
