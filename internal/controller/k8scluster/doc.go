// Package k8scluster reconciles K8SClusters: it says of each whether its cluster answers and takes the credentials, by
// asking it. Whose Secrets are read, which kubeconfigs are taken and what is asked is internal/connector.
//
// A K8SCluster owns nothing, so that there is no finalizer, no plan and nothing to apply: a pass observes, unless it
// has lately, and reports. One of type eks or gke is Ready=Unknown NoChecker and is not asked.
//
// # When it is asked
//
// At once when its spec changes. While it is Ready, again every eight to ten minutes, by its UID, so that those that
// were made at once are not asked at once for ever; a manager that starts goes on where the one before was
// (status.lastValidated). While it is not, as long after as it has not been Ready by now, from a second up to a minute,
// and without an error: the condition says it all. An error of our own API server is one, and is tried again as
// everywhere (kube.Backoff).
//
// Secrets are not watched, and no rights are asked for to: another kubeconfig in a Secret is seen when it is asked
// again, and whatever uses the K8SCluster has it at once (connector.Resolve).
//
// A pass takes five seconds at the most (connector.Ask), in which it does nothing but wait: sixteen go at the same
// time, so that those whose servers are silent hold up nobody else for long.
//
// # What it watches
//
// K8SClusters; their statuses too where another manager has written them (kube.Told).
//
// # What it costs
//
// A connector that is Ready is one status a validation, because lastValidated moves: that is a write in eight to ten
// minutes, so that of a thousand some two a second are written, and a read of its Secret and three requests of its own
// server. In between nothing is read or written. One that is not Ready is a read and an attempt a minute, and a write
// when something else is wrong. An Event says when Ready changes, or why it is not; none that it is still so.
package k8scluster
