package experiment

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// Observability says where the metrics of targets go, and by which Components.
type Observability struct {
	// URL is where targets send metrics by Prometheus remote write; empty where they cannot.
	URL string
	// HubURL is the same endpoint as the hub itself reaches it.
	HubURL string
	// Tailnet is the domain of the tailnet that the hub is in, for instance tail1234.ts.net.
	Tailnet string
	// Host is the name of the hub's endpoint in the tailnet.
	Host string
	// Service is the name of the Service by which targets reach it.
	Service string
	// Agent, Egress, Operator and Monitors are the names of the Components that collect metrics, bring the
	// hub's endpoint to a cluster, connect a cluster to the tailnet, and make monitors of Components.
	Agent, Egress, Operator, Monitors string
}

// operator, egress and agent are those that are deployed on targets; each needs the one before it.
func (o Observability) operator() v1alpha1.ComponentRef {
	return v1alpha1.ComponentRef{App: o.Operator}
}
func (o Observability) egress() v1alpha1.ComponentRef { return v1alpha1.ComponentRef{Config: o.Egress} }
func (o Observability) agent() v1alpha1.ComponentRef  { return v1alpha1.ComponentRef{App: o.Agent} }

// role is a Component that observability needs on a target.
type role struct {
	ref v1alpha1.ComponentRef
	// does says what for.
	does string
	// takes are what it must have parameters from, where there is something to take.
	takes []v1alpha1.ParameterSource
}

// observed says whether the metrics of a target are shipped.
func observed(t v1alpha1.Target) bool { return t.Observability != nil && t.Observability.Enabled }

// byTailnet says whether that is through a tailnet.
func byTailnet(t v1alpha1.Target) bool {
	return observed(t) && t.Observability.Transport == v1alpha1.TransportTailscale
}

// roles are the Components that a target's observability needs, in the order in which they need each other.
// A cluster that is there for others, too, has an operator already, or none: a second one would take its place.
func (o Observability) roles(t v1alpha1.Target) []role {
	agent := role{o.agent(), "collects metrics", []v1alpha1.ParameterSource{v1alpha1.FromMetricsURL, v1alpha1.FromMetricsTenant}}
	switch {
	case !observed(t):
		return nil
	case !byTailnet(t):
		agent.takes = append(agent.takes, v1alpha1.FromMetricsSecret)
		return []role{agent}
	}
	egress := role{o.egress(), "brings the hub's endpoint to the cluster", []v1alpha1.ParameterSource{v1alpha1.FromMetricsService, v1alpha1.FromMetricsHost}}
	if shared(t) {
		return []role{egress, agent}
	}
	operator := role{o.operator(), "connects the cluster to the tailnet", []v1alpha1.ParameterSource{v1alpha1.FromTailnetSecret}}
	return []role{operator, egress, agent}
}

// monitors is the Component that makes the monitors of others.
func (o Observability) monitors() role {
	return role{v1alpha1.ComponentRef{Config: o.Monitors}, "makes the monitors of components", []v1alpha1.ParameterSource{
		v1alpha1.FromMonitorName, v1alpha1.FromMonitorService, v1alpha1.FromMonitorPods,
		v1alpha1.FromMonitorPodLabels, v1alpha1.FromMonitorPath, v1alpha1.FromMonitorPort,
	}}
}

// components are the references that a target has in effect: its own, and after them those of its
// observability that are not among them. What they need may be among the target's own, so they come last.
func (o Observability) components(t v1alpha1.Target) []v1alpha1.ComponentRef {
	refs := slices.Clone(t.Components)
	for _, r := range o.roles(t) {
		if position(t, r.ref.String()) < 0 {
			refs = append(refs, r.ref)
		}
	}
	return refs
}

// named are the names of all Components that a target may deploy.
func (o Observability) named(t v1alpha1.Target) (all []string) {
	for _, ref := range o.components(t) {
		all = append(all, ref.Name())
	}
	if observed(t) {
		all = append(all, o.Monitors)
	}
	return all
}

// hasEgress says whether an Application of a target, that of a component or of all that the target names,
// has what brings the hub's endpoint to it.
func (o Observability) hasEgress(t v1alpha1.Target, component string) bool {
	egress := o.egress().String()
	if component == "" && position(t, egress) >= 0 {
		component = egress
	}
	return byTailnet(t) && component == egress
}

// position is where among its components a target names one itself; -1 if it does not.
func position(t v1alpha1.Target, component string) int {
	return slices.IndexFunc(t.Components, func(ref v1alpha1.ComponentRef) bool { return ref.String() == component })
}

// values are what parameters can be taken from. What is empty is not there.
type values map[v1alpha1.ParameterSource]string

// with are values and more of them.
func (v values) with(more values) values {
	out := maps.Clone(v)
	maps.Copy(out, more)
	return out
}

// values are those of a target.
func (n names) values(t v1alpha1.Target) values {
	v := values{
		v1alpha1.FromExperiment: n.experiment.Name, v1alpha1.FromExperimentNamespace: n.experiment.Namespace,
		v1alpha1.FromTarget: t.Name, v1alpha1.FromNamespace: n.deployed(t), v1alpha1.FromSharedCluster: strconv.FormatBool(shared(t)),
	}
	if !observed(t) {
		return v
	}
	o := n.options.Observability
	v[v1alpha1.FromMetricsTenant] = t.Observability.Tenant
	if !byTailnet(t) {
		v[v1alpha1.FromMetricsSecret], v[v1alpha1.FromMetricsURL] = t.Observability.CredentialsSecret, o.URL
		if t.Cluster.Type == v1alpha1.ClusterHub {
			v[v1alpha1.FromMetricsURL] = o.HubURL
		}
		return v
	}
	hub, err := url.Parse(o.HubURL)
	if err != nil {
		return v // which the flag does not let through
	}
	port := orDefault(hub.Port(), "80")
	return v.with(values{
		v1alpha1.FromMetricsURL:     (&url.URL{Scheme: "http", Host: o.Service + ":" + port, Path: hub.Path}).String(),
		v1alpha1.FromMetricsService: o.Service, v1alpha1.FromMetricsHost: o.Host + "." + o.Tailnet, v1alpha1.FromMetricsPort: port,
		v1alpha1.FromMetricsProxy:  kube.ChildName(maxNamespace, n.experiment.UID, "metrics", n.experiment.Name, t.Name),
		v1alpha1.FromTailnetSecret: t.Observability.CredentialsSecret,
	})
}

// tenant is what a tenant may be called.
var tenant = regexp.MustCompile(`^[-a-zA-Z0-9!_.*'()]*$`)

// unobservable says why a target's observability cannot be had, and the reason of the condition: whether that
// is for lack of a flag of the manager's. Both are empty if it can.
func (f facts) unobservable(t v1alpha1.Target) (problem, reason string) {
	o, hub := f.options.Observability, t.Cluster.Type == v1alpha1.ClusterHub
	switch {
	case !observed(t):
		return "", ""
	case hub && o.HubURL == "" && !byTailnet(t):
		return "on the hub it needs to know where the metrics go; start the manager with --observability-hub-url, or remove observability", v1alpha1.ReasonNotConfigured
	case !hub && o.URL == "" && !byTailnet(t):
		return "transport direct needs to know where the metrics go; start the manager with --observability-url, or remove observability", v1alpha1.ReasonNotConfigured
	case !hub && (o.HubURL == "" || o.Tailnet == "") && byTailnet(t):
		return "transport tailscale needs the hub's endpoint and its tailnet; start the manager with --observability-hub-url and --observability-tailnet, or remove observability", v1alpha1.ReasonNotConfigured
	}
	if problem = f.notObserved(t); problem == "" && byTailnet(t) {
		problem = o.withoutTailnet(t)
	}
	if problem != "" {
		reason = v1alpha1.ReasonInvalidSpec
	}
	return problem, reason
}

// notObserved says what of a target's observability its author may not ask for.
func (f facts) notObserved(t v1alpha1.Target) string {
	switch name := t.Observability.Tenant; {
	case !tenant.MatchString(name) || name == "." || name == "..":
		return "tenant: it may have letters, digits and !-_.*'()"
	case f.seen.Tenants != nil && !lists(*f.seen.Tenants, name):
		return fmt.Sprintf("tenant: Experiments of Namespace %s may not write metrics as %q; use one that its annotation %s lists, or add it there", f.experiment.Namespace, name, v1alpha1.AnnotationTenants)
	}
	return ""
}

// withoutTailnet says why a target cannot be in a tailnet. The proxies of Tailscale's operator are
// privileged, and run where that does.
func (o Observability) withoutTailnet(t v1alpha1.Target) string {
	operator, egress := o.operator().String(), o.egress().String()
	switch level := t.PodSecurity; {
	case t.Cluster.Type == v1alpha1.ClusterHub:
		return "the hub needs no transport; remove transport tailscale"
	case t.Cluster.Type == v1alpha1.ClusterVCluster:
		return "the proxies of transport tailscale are privileged, which nothing of a virtual cluster may be on the hub; use transport direct, or remove observability"
	case shared(t) && t.Observability.CredentialsSecret != "":
		return "a cluster that others share has an operator of Tailscale already, with credentials of its own; remove credentialsSecret"
	case shared(t):
		return ""
	case level != "" && level != "privileged", level == "" && t.Cluster.Type == v1alpha1.ClusterTalos:
		return "the proxies of transport tailscale are privileged; set podSecurity to privileged, or remove observability"
	case position(t, egress) >= 0 && !perComponent(t):
		return fmt.Sprintf("component %s must go before %s, which one Application for both cannot tell; set applicationPolicy to PerComponent, or name neither", egress, operator)
	case position(t, egress) >= 0 && (position(t, operator) < 0 || position(t, operator) > position(t, egress)):
		// The operator takes its finalizer off the Service, so it must go last.
		return fmt.Sprintf("component %s needs %s; name that before it, or neither", egress, operator)
	}
	return ""
}

// misses says which of what there is to take a Component of a role has no parameter for.
func (r role) misses(c *v1alpha1.Component, v values) *resolveError {
	for _, source := range r.takes {
		if v[source] != "" && !slices.ContainsFunc(c.Spec.Parameters, func(p v1alpha1.ComponentParameter) bool { return p.From == source }) {
			return &resolveError{v1alpha1.ReasonInvalidComponent, fmt.Sprintf("it %s and does not take the %s; give the Component %s a parameter with from: %s", r.does, source, c.Name, source)}
		}
	}
	return nil
}

// monitoring is what makes the monitors of a component; nil if it does not say where its metrics are.
func monitoring(e *v1alpha1.Experiment, name string, o *v1alpha1.ComponentObservability) values {
	if o == nil || len(o.PodLabels) == 0 || o.MetricsPort == nil {
		return nil
	}
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(o.PodLabels)) {
		labels = append(labels, key+"="+o.PodLabels[key])
	}
	return values{
		v1alpha1.FromMonitorName:    kube.ChildName(maxNamespace, e.UID, "metrics", name),
		v1alpha1.FromMonitorService: strconv.FormatBool(o.ServiceMonitor), v1alpha1.FromMonitorPods: strconv.FormatBool(o.PodMonitor),
		v1alpha1.FromMonitorPodLabels: strings.Join(labels, ","),
		v1alpha1.FromMonitorPath:      orDefault(o.MetricsPath, "/metrics"), v1alpha1.FromMonitorPort: strconv.Itoa(int(*o.MetricsPort)),
	}
}

// metricsPath is what the path of metrics may be.
var metricsPath = regexp.MustCompile(`^(/[-A-Za-z0-9._~%/]*)?$`)

// unmonitored says why what a Component says of its metrics cannot be used.
func unmonitored(o *v1alpha1.ComponentObservability) *resolveError {
	if o == nil {
		return nil
	}
	problem, labeled, port := "", len(o.PodLabels) > 0, o.MetricsPort != nil
	wanted, where := o.ServiceMonitor || o.PodMonitor || labeled || port, labeled && port
	switch {
	case wanted && !where:
		problem = "podLabels and metricsPort go together, and serviceMonitor and podMonitor need them: they say where the metrics are"
	case !metricsPath.MatchString(o.MetricsPath):
		problem = "metricsPath: it must begin with / and have nothing else than letters, digits and -._~%/"
	default:
		for _, key := range slices.Sorted(maps.Keys(o.PodLabels)) {
			if problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(o.PodLabels[key])...); len(problems) > 0 {
				problem = fmt.Sprintf("podLabels: %s is no label: %s", key, problems[0])
				break
			}
		}
	}
	if problem == "" {
		return nil
	}
	return &resolveError{v1alpha1.ReasonInvalidComponent, "observability." + problem}
}

// externalName is what Tailscale's operator writes into the Service by which a target reaches the hub.
func (o Observability) externalName() argocd.Ignored {
	return argocd.Ignored{Kind: "Service", Name: o.Service, JSONPointers: []string{"/spec/externalName"}}
}
