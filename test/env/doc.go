// Package env starts a real Kubernetes control plane for tests and for the demo: etcd,
// kube-apiserver, kube-controller-manager and, on request, kube-scheduler, as child processes on
// free loopback ports, with all their data in one temporary folder.
//
// The controller manager is what sets it apart from controller-runtime's envtest: owner references
// are collected, Jobs and Deployments run, namespaces terminate. What a test sees here is what a
// cluster does.
//
// Nothing outlives the process that called Start. Stop ends the children in order and removes the
// folder; a failed Start and, unless the caller takes over with Options.KeepSignals, SIGINT and
// SIGTERM do the same. On Linux the kernel ends the children even when their parent is killed
// outright, and the next Start removes the folder that was then left.
package env
