// Package experimentdeployment is the world of the ExperimentDeployment for the harness test/faults: what users
// do to twins and their sources. Its test is the sweep.
//
// Deployments and StatefulSets are those of kube-controller-manager. They and their twins have no replicas,
// because how many pods come up between two looks is different in every run; what is told is then one status for
// each template. Rollouts are played, with pods: Argo Rollouts tells that one is Healthy, unless a workload holds
// that.
package experimentdeployment
