// Package observability proves that what config/observability deploys on targets does what it is there for:
// its charts, rendered by Helm, as Argo CD does it, with the parameters of its Components, are accepted by a
// real API server; and Prometheus, run with the configuration of the agent and the rights that the agent has,
// finds what it is to find, and writes it with labels, tenant and credentials to another Prometheus. Only
// kubelets are not there, so that pods say of themselves that they run, and are scraped through a proxy that
// answers in their place. Of config/prometheus it proves that the Prometheus operator takes it, and that its alerts
// fire when they should.
package observability
