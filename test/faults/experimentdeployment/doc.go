// Package experimentdeployment is the world of the ExperimentDeployment for the harness test/faults: what users
// do to twins and their sources. Its test is the sweep.
//
// Deployments and StatefulSets are those of kube-controller-manager. They and their twins have no replicas,
// because how many pods come up between two looks is different in every run; what is told is then one status for
// each template. Rollouts are played, with pods: Argo Rollouts tells that one is Healthy, unless a workload holds
// that.
//
// With the build tag mutants the package has a list of bugs that a reconciler of twins may have; those that every
// reconciler may have are beside the Experiment's.
package experimentdeployment
