// Package connector says how what K8SClusters name is reached: whose Secrets are read for whom, which kubeconfigs are
// taken, and whether a server takes the credentials. The reconciler of K8SClusters and whatever uses one go by the same
// rules, which are here.
//
// # Who may use what
//
// A connector is for the namespace that it is in, and its Secret for the one that that is in. Another namespace must be
// named by what is used ([Allows]): a Secret names the namespaces of connectors, a connector those of plans. What is
// not granted and what does not exist are told in the same words, so that nobody learns by a reference what there is in
// a namespace that he cannot look into. Whoever is granted a connector has the use of its Secret, too.
//
// Secrets are read live and never kept. The manager may read those of the namespaces alone that it was let into by a
// RoleBinding ([kube.SecretsCommand]).
//
// # Which kubeconfigs
//
// Only what the current context says counts, and only fields that are known: what is used, and handed on, is a
// kubeconfig of one context that is written anew ([Parse]). What would run a program or read a file of the manager's is
// refused, and a server without TLS. No error holds anything that stands in a kubeconfig, names included.
//
// # What is asked
//
// Whoever may create connectors has the manager connect to addresses of his choice, with credentials of his: it follows
// no redirect, reads a bounded answer, says of it only whether it was as it should be and what version it claimed, if
// that looks like one, and is done within five seconds, with its connection closed ([Ask]).
package connector
