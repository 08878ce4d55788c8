// Package experiment is the Experiment under load: what it looks like, how the watcher reads
// its life, how Crossplane, Argo CD and Argo Workflows answer, and what it may cost.
package experiment
