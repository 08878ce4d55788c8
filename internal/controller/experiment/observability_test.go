package experiment

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
)

// observability is what a manager knows that is told everything.
var observability = Observability{
	URL: "https://metrics.example.com/api/v1/push", HubURL: "http://mimir-gateway.mimir.svc:8080/api/v1/push",
	Tailnet: "tail1234.ts.net", Host: "labkeeper-metrics", Service: "metrics-hub",
	Agent: "metrics-agent", Egress: "metrics-egress", Operator: "tailscale-operator", Monitors: "metrics-monitors",
}

// taking is a Component with one chart and a parameter, of the same name, for each source.
func taking(name string, t v1alpha1.ComponentType, sources ...v1alpha1.ParameterSource) *v1alpha1.Component {
	c := &v1alpha1.Component{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ComponentSpec{Type: t, Sources: []v1alpha1.ComponentSource{
		{RepoURL: "https://charts.example.com", Chart: name, TargetRevision: "1"},
	}}}
	for _, source := range sources {
		c.Spec.Parameters = append(c.Spec.Parameters, v1alpha1.ComponentParameter{Name: string(source), Type: v1alpha1.ParameterString, From: source})
	}
	return c
}

// observing are the Components of observability, which take all that there is.
func observing() map[string]*v1alpha1.Component {
	o := observability
	return map[string]*v1alpha1.Component{
		o.Agent: taking(o.Agent, v1alpha1.ComponentApp, v1alpha1.FromMetricsURL, v1alpha1.FromMetricsTenant, v1alpha1.FromMetricsSecret,
			v1alpha1.FromExperiment, v1alpha1.FromExperimentNamespace, v1alpha1.FromTarget, v1alpha1.FromNamespace, v1alpha1.FromSharedCluster),
		o.Egress:   taking(o.Egress, v1alpha1.ComponentConfig, v1alpha1.FromMetricsService, v1alpha1.FromMetricsHost, v1alpha1.FromMetricsPort),
		o.Operator: taking(o.Operator, v1alpha1.ComponentApp, v1alpha1.FromTailnetSecret),
		o.Monitors: taking(o.Monitors, v1alpha1.ComponentConfig, o.monitors().takes...),
		"nginx":    nginx(),
	}
}

// observedTarget is a target whose metrics are shipped.
func observedTarget(cluster v1alpha1.ClusterType, with v1alpha1.TargetObservability) v1alpha1.Target {
	t := targetOf("app", cluster)
	with.Enabled = true
	with.Transport = v1alpha1.Transport(orDefault(string(with.Transport), string(v1alpha1.TransportDirect)))
	t.Observability = &with
	return t
}

// observingCatalogue has these, for an Experiment of one target.
func observingCatalogue(t v1alpha1.Target, components map[string]*v1alpha1.Component) catalogue {
	e := experimentOf(t)
	e.UID = "1234"
	return catalogue{names{e, Options{Observability: observability}}, components, Fallback{RepoURL: "https://git.example.com/fallback.git"}}
}

// charts are the sources of deployments, each as its chart and what it is given.
func charts(deployments ...deployment) (out []string) {
	for _, s := range flat(deployments) {
		out = append(out, strings.TrimSpace(s.Chart+" "+strings.Join(parametersIn([]argocd.Source{s})[0], " ")))
	}
	return out
}

// Each transport brings the Components that it needs, after those of the target, with what they need to
// know; and none of them is brought twice.
func TestObservabilityBringsComponents(t *testing.T) {
	about := func(t string, shared string, more ...string) string {
		all := append([]string{"Experiment=tutorial!", "ExperimentNamespace=lab!", more[0]}, more[1:]...)
		return "metrics-agent " + strings.Join(append(all, "Namespace=NAMESPACE!", "SharedCluster="+shared+"!", "Target="+t+"!"), " ")
	}
	tests := map[string]struct {
		target v1alpha1.Target
		want   []string
	}{
		"off": {targetOf("app", v1alpha1.ClusterGKE), []string{"nginx"}},
		"note 56: direct": {
			observedTarget(v1alpha1.ClusterGKE, v1alpha1.TargetObservability{Tenant: "lab", CredentialsSecret: "push"}),
			[]string{"nginx", about("app", "false", "MetricsSecret=push!", "MetricsTenant=lab!", "MetricsURL=https://metrics.example.com/api/v1/push!")},
		},
		"hub": {
			observedTarget(v1alpha1.ClusterHub, v1alpha1.TargetObservability{}),
			[]string{"nginx", about("app", "true", "MetricsURL=http://mimir-gateway.mimir.svc:8080/api/v1/push!")},
		},
		"note 56: tailscale": {
			observedTarget(v1alpha1.ClusterGKE, v1alpha1.TargetObservability{Transport: "tailscale", Tenant: "lab", CredentialsSecret: "oauth"}),
			[]string{
				"nginx", "tailscale-operator TailnetSecret=oauth!",
				"metrics-egress MetricsHost=labkeeper-metrics.tail1234.ts.net! MetricsPort=8080! MetricsService=metrics-hub!",
				about("app", "false", "MetricsTenant=lab!", "MetricsURL=http://metrics-hub:8080/api/v1/push!"), // and not the Secret of the tailnet
			},
		},
		"tailscale on a cluster of others": {
			func() v1alpha1.Target {
				t := observedTarget(v1alpha1.ClusterExisting, v1alpha1.TargetObservability{Transport: "tailscale"})
				t.Cluster.KubeconfigSecret = &v1alpha1.SecretKey{Name: "edge"}
				return t
			}(),
			[]string{
				"nginx", "metrics-egress MetricsHost=labkeeper-metrics.tail1234.ts.net! MetricsPort=8080! MetricsService=metrics-hub!",
				about("app", "true", "MetricsURL=http://metrics-hub:8080/api/v1/push!"),
			},
		},
		"named by the target": {
			func() v1alpha1.Target {
				t := observedTarget(v1alpha1.ClusterHub, v1alpha1.TargetObservability{})
				t.Components = []v1alpha1.ComponentRef{app("metrics-agent", map[string]string{"interval": "5s"}), app("nginx", nil)}
				return t
			}(),
			[]string{about("app", "true", "MetricsURL=http://mimir-gateway.mimir.svc:8080/api/v1/push!") + " interval=5s", "nginx"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := observingCatalogue(test.target, observing())
			sources, _, problems := c.resolve(test.target)
			if len(problems) > 0 {
				t.Fatal(problems[0].message)
			}
			for i := range test.want {
				test.want[i] = strings.ReplaceAll(test.want[i], "NAMESPACE", c.names.deployed(test.target))
			}
			if diff := cmp.Diff(test.want, charts(sources...)); diff != "" {
				t.Errorf("sources (-want +got):\n%s", diff)
			}
		})
	}
}

// What a Component says of its metrics makes another source beside its own, where the target is observed.
func TestObservabilityMakesMonitors(t *testing.T) {
	components := observing()
	components["nginx"].Spec.Observability = &v1alpha1.ComponentObservability{
		ServiceMonitor: true, PodLabels: map[string]string{"b/c": "d", "app.kubernetes.io/name": "nginx"}, MetricsPort: ptr.To(int32(9113)),
	}
	target := observedTarget(v1alpha1.ClusterHub, v1alpha1.TargetObservability{})
	sources, _, problems := observingCatalogue(target, components).resolve(target)
	if len(problems) > 0 {
		t.Fatal(problems[0].message)
	}
	want := "metrics-monitors MonitorName=metrics-nginx-HASH! MonitorPath=/metrics! MonitorPodLabels=app.kubernetes.io/name=nginx,b/c=d! " +
		"MonitorPods=false! MonitorPort=9113! MonitorService=true!"
	got := charts(sources[0])
	if name := strings.Fields(got[1])[1]; len(name) == len("MonitorName=metrics-nginx-12345678!") {
		got[1] = strings.Replace(got[1], name, "MonitorName=metrics-nginx-HASH!", 1)
	}
	if diff := cmp.Diff([]string{"nginx", want}, got); diff != "" {
		t.Errorf("sources of nginx (-want +got):\n%s", diff)
	}
	target.Observability.Enabled = false
	if sources, _, _ := observingCatalogue(target, components).resolve(target); len(charts(sources...)) != 1 {
		t.Error("there are monitors on a target that is not observed")
	}
	// Without a monitor, its metrics are for our agent alone.
	components["nginx"].Spec.Observability.ServiceMonitor, target.Observability.Enabled = false, true
	sources, _, _ = observingCatalogue(target, components).resolve(target)
	if got := strings.Join(charts(sources[0]), " "); !strings.Contains(got, "MonitorPods=false! MonitorPort=9113! MonitorService=false!") {
		t.Errorf("without a monitor: %s", got)
	}
}

// What is missing for it is an error by name, never silence, and the convention path takes no one's place.
func TestObservabilityThatCannotBeResolved(t *testing.T) {
	tests := map[string]struct {
		with   v1alpha1.TargetObservability
		change func(map[string]*v1alpha1.Component)
		reason string
		says   string
	}{
		"no agent": {
			v1alpha1.TargetObservability{}, func(c map[string]*v1alpha1.Component) { delete(c, "metrics-agent") },
			v1alpha1.ReasonComponentNotFound, "app metrics-agent: no Component metrics-agent exists, which collects metrics; kubectl apply -k config/observability installs one",
		},
		"no operator": {
			v1alpha1.TargetObservability{Transport: "tailscale"}, func(c map[string]*v1alpha1.Component) { delete(c, "tailscale-operator") },
			v1alpha1.ReasonComponentNotFound, "app tailscale-operator: no Component tailscale-operator exists, which connects the cluster to the tailnet",
		},
		"an agent that is given no address": {
			v1alpha1.TargetObservability{}, func(c map[string]*v1alpha1.Component) { c["metrics-agent"].Spec.Parameters = nil },
			v1alpha1.ReasonInvalidComponent, "it collects metrics and does not take the MetricsURL; give the Component metrics-agent a parameter with from: MetricsURL",
		},
		"an agent that knows no tenants": {
			v1alpha1.TargetObservability{Tenant: "lab"}, func(c map[string]*v1alpha1.Component) {
				c["metrics-agent"] = taking("metrics-agent", v1alpha1.ComponentApp, v1alpha1.FromMetricsURL)
			},
			v1alpha1.ReasonInvalidComponent, "from: MetricsTenant",
		},
		"an agent that takes no credentials": {
			v1alpha1.TargetObservability{CredentialsSecret: "push"}, func(c map[string]*v1alpha1.Component) {
				c["metrics-agent"] = taking("metrics-agent", v1alpha1.ComponentApp, v1alpha1.FromMetricsURL)
			},
			v1alpha1.ReasonInvalidComponent, "from: MetricsSecret",
		},
		"an agent of another type": {
			v1alpha1.TargetObservability{}, func(c map[string]*v1alpha1.Component) { c["metrics-agent"].Spec.Type = v1alpha1.ComponentConfig },
			v1alpha1.ReasonComponentTypeMismatch, "the Component metrics-agent is of type config",
		},
		"an egress that goes nowhere": {
			v1alpha1.TargetObservability{Transport: "tailscale"}, func(c map[string]*v1alpha1.Component) { c["metrics-egress"].Spec.Parameters = nil },
			v1alpha1.ReasonInvalidComponent, "from: MetricsService",
		},
		"no monitors": {
			v1alpha1.TargetObservability{}, func(c map[string]*v1alpha1.Component) {
				c["nginx"].Spec.Observability = &v1alpha1.ComponentObservability{PodMonitor: true, PodLabels: map[string]string{"a": "b"}, MetricsPort: ptr.To(int32(1))}
				delete(c, "metrics-monitors")
			},
			v1alpha1.ReasonComponentNotFound, "app nginx: its observability, config metrics-monitors: no Component metrics-monitors exists, which makes the monitors of components",
		},
		"metrics of nothing": {
			v1alpha1.TargetObservability{}, func(c map[string]*v1alpha1.Component) {
				c["nginx"].Spec.Observability = &v1alpha1.ComponentObservability{PodMonitor: true}
			},
			v1alpha1.ReasonInvalidComponent, "observability.podLabels and metricsPort go together",
		},
		"metrics of no port": {
			v1alpha1.TargetObservability{}, func(c map[string]*v1alpha1.Component) {
				c["nginx"].Spec.Observability = &v1alpha1.ComponentObservability{PodLabels: map[string]string{"a": "b"}}
			},
			v1alpha1.ReasonInvalidComponent, "observability.podLabels and metricsPort go together",
		},
		"metrics of no pods": {
			v1alpha1.TargetObservability{}, func(c map[string]*v1alpha1.Component) {
				c["nginx"].Spec.Observability = &v1alpha1.ComponentObservability{MetricsPort: ptr.To(int32(1))}
			},
			v1alpha1.ReasonInvalidComponent, "observability.podLabels and metricsPort go together",
		},
		"a path that is none": {
			v1alpha1.TargetObservability{}, func(c map[string]*v1alpha1.Component) {
				c["nginx"].Spec.Observability = &v1alpha1.ComponentObservability{PodLabels: map[string]string{"a": "b"}, MetricsPort: ptr.To(int32(1)), MetricsPath: "metrics,a=b"}
			},
			v1alpha1.ReasonInvalidComponent, "observability.metricsPath: it must begin with /",
		},
		"labels that are none": {
			v1alpha1.TargetObservability{}, func(c map[string]*v1alpha1.Component) {
				c["nginx"].Spec.Observability = &v1alpha1.ComponentObservability{PodMonitor: true, PodLabels: map[string]string{"a": "b,c=d"}, MetricsPort: ptr.To(int32(1))}
			},
			v1alpha1.ReasonInvalidComponent, "observability.podLabels: a is no label",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			components, target := observing(), observedTarget(v1alpha1.ClusterGKE, test.with)
			test.change(components)
			_, fallbacks, problems := observingCatalogue(target, components).resolve(target)
			if len(problems) != 1 || problems[0].reason != test.reason || !strings.Contains(problems[0].message, test.says) || len(fallbacks) > 0 {
				t.Fatalf("problems %+v and fallbacks %v, want one %s that says %q", problems, fallbacks, test.reason, test.says)
			}
		})
	}
}

// What cannot work is refused with the reason, and what only the manager's flags are missing for is not
// called the author's mistake.
func TestObservabilityThatIsNotAccepted(t *testing.T) {
	direct, tailscale := v1alpha1.TargetObservability{}, v1alpha1.TargetObservability{Transport: "tailscale"}
	existing := func(o v1alpha1.TargetObservability) v1alpha1.Target {
		t := observedTarget(v1alpha1.ClusterExisting, o)
		t.Cluster.KubeconfigSecret = &v1alpha1.SecretKey{Name: "edge"}
		return t
	}
	with := func(t v1alpha1.Target, change func(*v1alpha1.Target)) v1alpha1.Target { change(&t); return t }
	naming := func(policy v1alpha1.ApplicationPolicy, refs ...v1alpha1.ComponentRef) v1alpha1.Target {
		return with(observedTarget(v1alpha1.ClusterGKE, tailscale), func(t *v1alpha1.Target) { t.Components, t.ApplicationPolicy = refs, policy })
	}
	operator, egress, agent := v1alpha1.ComponentRef{App: "tailscale-operator"}, v1alpha1.ComponentRef{Config: "metrics-egress"}, v1alpha1.ComponentRef{App: "metrics-agent"}
	leveled := func(cluster v1alpha1.ClusterType, level v1alpha1.PodSecurity) v1alpha1.Target {
		return with(observedTarget(cluster, tailscale), func(t *v1alpha1.Target) { t.PodSecurity = level })
	}
	tests := map[string]struct {
		target  v1alpha1.Target
		options func(*Observability)
		tenants *string
		reason  string
		says    string
	}{
		"direct":                 {target: observedTarget(v1alpha1.ClusterGKE, direct), reason: v1alpha1.ReasonAccepted},
		"tailscale":              {target: observedTarget(v1alpha1.ClusterGKE, tailscale), reason: v1alpha1.ReasonAccepted},
		"hub":                    {target: observedTarget(v1alpha1.ClusterHub, direct), reason: v1alpha1.ReasonAccepted},
		"existing, by tailscale": {target: existing(tailscale), reason: v1alpha1.ReasonAccepted},
		"a Cluster, by tailscale": {target: with(observedTarget(v1alpha1.ClusterReferred, tailscale), func(t *v1alpha1.Target) { t.Cluster = referring("app").Cluster }),
			reason: v1alpha1.ReasonAccepted},
		"a Cluster, by tailscale with other credentials": {
			target: with(observedTarget(v1alpha1.ClusterReferred, v1alpha1.TargetObservability{Transport: "tailscale", CredentialsSecret: "oauth"}),
				func(t *v1alpha1.Target) { t.Cluster = referring("app").Cluster }),
			reason: v1alpha1.ReasonInvalidSpec, says: "a cluster that others share has an operator",
		},
		"direct without an address":             {target: observedTarget(v1alpha1.ClusterGKE, direct), options: func(o *Observability) { o.URL = "" }, reason: v1alpha1.ReasonNotConfigured, says: "--observability-url"},
		"hub without an address":                {target: observedTarget(v1alpha1.ClusterHub, direct), options: func(o *Observability) { o.HubURL = "" }, reason: v1alpha1.ReasonNotConfigured, says: "--observability-hub-url"},
		"tailscale without a tailnet":           {target: observedTarget(v1alpha1.ClusterGKE, tailscale), options: func(o *Observability) { o.Tailnet = "" }, reason: v1alpha1.ReasonNotConfigured, says: "--observability-tailnet"},
		"tailscale without an endpoint":         {target: observedTarget(v1alpha1.ClusterGKE, tailscale), options: func(o *Observability) { o.HubURL = "" }, reason: v1alpha1.ReasonNotConfigured, says: "--observability-hub-url"},
		"hub by tailscale":                      {target: observedTarget(v1alpha1.ClusterHub, tailscale), reason: v1alpha1.ReasonInvalidSpec, says: "remove transport tailscale"},
		"tailscale where nothing is privileged": {target: leveled(v1alpha1.ClusterGKE, "baseline"), reason: v1alpha1.ReasonInvalidSpec, says: "set podSecurity to privileged, or remove observability"},
		"tailscale where all is":                {target: leveled(v1alpha1.ClusterGKE, "privileged"), reason: v1alpha1.ReasonAccepted},
		"tailscale on Talos":                    {target: leveled(v1alpha1.ClusterTalos, ""), reason: v1alpha1.ReasonInvalidSpec, says: "set podSecurity to privileged"},
		"tailscale on Talos, privileged":        {target: leveled(v1alpha1.ClusterTalos, "privileged"), reason: v1alpha1.ReasonAccepted},
		"tailscale on a virtual cluster":        {target: observedTarget(v1alpha1.ClusterVCluster, tailscale), reason: v1alpha1.ReasonInvalidSpec, says: "virtual cluster"},
		"existing, restricted":                  {target: with(existing(tailscale), func(t *v1alpha1.Target) { t.PodSecurity = "restricted" }), reason: v1alpha1.ReasonAccepted},
		"an operator of others": {
			target: existing(v1alpha1.TargetObservability{Transport: "tailscale", CredentialsSecret: "oauth"}), reason: v1alpha1.ReasonInvalidSpec, says: "remove credentialsSecret",
		},
		"an egress before its operator":                 {target: naming("PerComponent", egress), reason: v1alpha1.ReasonInvalidSpec, says: "component config metrics-egress needs app tailscale-operator; name that before it, or neither"},
		"an egress and then its operator":               {target: naming("PerComponent", egress, operator), reason: v1alpha1.ReasonInvalidSpec, says: "name that before it"},
		"an operator and then its egress":               {target: naming("PerComponent", operator, egress), reason: v1alpha1.ReasonAccepted},
		"an agent of one's own":                         {target: naming("", agent), reason: v1alpha1.ReasonAccepted},
		"an operator and its egress in one Application": {target: naming("", operator, egress), reason: v1alpha1.ReasonInvalidSpec, says: "set applicationPolicy to PerComponent, or name neither"},
		"a tenant that is no header":                    {target: observedTarget(v1alpha1.ClusterGKE, v1alpha1.TargetObservability{Tenant: "a\nb"}), reason: v1alpha1.ReasonInvalidSpec, says: "tenant: it may have letters"},
		"a tenant that is a folder":                     {target: observedTarget(v1alpha1.ClusterGKE, v1alpha1.TargetObservability{Tenant: ".."}), reason: v1alpha1.ReasonInvalidSpec, says: "tenant: it may have letters"},
		"a tenant that is granted":                      {target: observedTarget(v1alpha1.ClusterGKE, v1alpha1.TargetObservability{Tenant: "lab"}), tenants: ptr.To("other, lab"), reason: v1alpha1.ReasonAccepted},
		"a tenant of others":                            {target: observedTarget(v1alpha1.ClusterGKE, v1alpha1.TargetObservability{Tenant: "lab"}), tenants: ptr.To("other"), reason: v1alpha1.ReasonInvalidSpec, says: v1alpha1.AnnotationTenants},
		"no tenant where some are granted":              {target: observedTarget(v1alpha1.ClusterGKE, direct), tenants: ptr.To("other"), reason: v1alpha1.ReasonInvalidSpec, says: v1alpha1.AnnotationTenants},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			options := Options{Observability: observability}
			if test.options != nil {
				test.options(&options.Observability)
			}
			if test.target.Cluster.Type == v1alpha1.ClusterTalos {
				test.target.Cluster.Talos = talosTarget().Cluster.Talos
			}
			e := experimentOf(test.target)
			_, accepted := facts{experiment: e, options: options, names: names{e, options}, seen: Observed{Tenants: test.tenants}}.accept()
			if accepted.Reason != test.reason || !strings.Contains(accepted.Message, test.says) {
				t.Errorf("it is %s: %s, want %s that says %q", accepted.Reason, accepted.Message, test.reason, test.says)
			}
		})
	}
}

// What the manager knows is not the author's to set: it bounds what a component can do.
func TestTakenParametersCannotBeSet(t *testing.T) {
	target := observedTarget(v1alpha1.ClusterHub, v1alpha1.TargetObservability{})
	target.Components = []v1alpha1.ComponentRef{app("metrics-agent", map[string]string{"SharedCluster": "false"})}
	_, _, problems := observingCatalogue(target, observing()).resolve(target)
	expectProblem(t, problems, v1alpha1.ReasonInvalidParameters, "params: SharedCluster is set by the manager (from: SharedCluster); remove it")
	// Where there is nothing to take, it is nobody's either: the tenant could be any.
	target.Observability, target.Components[0].Params = nil, map[string]string{"MetricsTenant": "other"}
	_, _, problems = observingCatalogue(target, observing()).resolve(target)
	expectProblem(t, problems, v1alpha1.ReasonInvalidParameters, "params: MetricsTenant is set by the manager (from: MetricsTenant); remove it")
}

// What a target has nothing to take for cannot be set by its author, who is not told to.
func TestRequiredAndNothingToTake(t *testing.T) {
	components := observing()
	for i := range components["metrics-agent"].Spec.Parameters {
		components["metrics-agent"].Spec.Parameters[i].Required = true
	}
	target := targetOf("app", v1alpha1.ClusterHub)
	target.Components = []v1alpha1.ComponentRef{app("metrics-agent", nil)}
	_, _, problems := observingCatalogue(target, components).resolve(target)
	expectProblem(t, problems, v1alpha1.ReasonInvalidParameters, "MetricsURL (from: MetricsURL)", "enable the target's observability")
	if strings.Contains(problems[0].message, "not set") {
		t.Errorf("it says, too: %s", problems[0].message)
	}
}

// One parameter is one to Helm, too, or it could be another that is the manager's.
func TestParametersThatAreSeveral(t *testing.T) {
	for name, test := range map[string]struct {
		params map[string]string
		ok     bool
	}{
		"a name with another in it":  {map[string]string{"a=1,SharedCluster": "false"}, false},
		"a name that goes on":        {map[string]string{`a\`: "false"}, false},
		"a name in braces":           {map[string]string{"{a}": "false"}, false},
		"a list with another behind": {map[string]string{"a": "{b},SharedCluster=false,c={d}"}, false},
		"a name by another":          {map[string]string{`S\haredCluster`: "false"}, false},
		"a list":                     {map[string]string{"a": "{b,c}"}, true},
		"a list with escapes":        {map[string]string{"a": `{b\,c,\\}`}, true},
		"a comma":                    {map[string]string{"a": "b,SharedCluster=false"}, true},
		"a list with more behind it": {map[string]string{"a": "{b}SharedCluster=false"}, false},
		"a list that ends twice":     {map[string]string{"a": "{b}SharedCluster={c}"}, false},
		"a list without an end":      {map[string]string{"a": "{b"}, false},
		"a list with no true end":    {map[string]string{"a": `{b\}`}, false},
		"a position by another name": {map[string]string{"a[00]": "b"}, false},
		"a position with a sign":     {map[string]string{"a[+0].c": "b"}, false},
		"half a position":            {map[string]string{"a[0": "b"}, false},
		"a name without an end":      {map[string]string{"a.": "b"}, false},
		"a name with a dot in it":    {map[string]string{`a.b\.c/d[0][10].e`: "b}"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			target := observedTarget(v1alpha1.ClusterHub, v1alpha1.TargetObservability{})
			target.Components = []v1alpha1.ComponentRef{app("metrics-agent", test.params)}
			if _, _, problems := observingCatalogue(target, observing()).resolve(target); test.ok != (len(problems) == 0) {
				t.Errorf("problems are %v", problems)
			} else if !test.ok {
				expectProblem(t, problems, v1alpha1.ReasonInvalidParameters, "would be several to Helm")
			}
		})
	}
}

// Helm would take one for the other, or lose it, whichever comes last.
func TestParametersInOthersOfTheManager(t *testing.T) {
	declared := []v1alpha1.ComponentParameter{
		{Name: `auth.labels.illm\.io/tenant`, From: "MetricsTenant"}, {Name: "tenants[0][1].name", From: "MetricsTenant"}, {Name: "auth.password"},
	}
	for name, ok := range map[string]bool{
		"auth": false, "auth.labels": false, `auth.labels.illm\.io/tenant.x`: false, "auth[0]": false, "auth.labels[1].x": false,
		"author": true, "auth.label": true, "auth.labels.illm": true, `auth.labels.illm\.io/tenants`: true, "auth.password": true, "other.auth": true,
		"tenants": false, "tenants[0]": false, "tenants[0][1]": false, "tenants[0][1].name.x": false, "tenants[0][1].name[0]": false, "tenants.x": false,
		"tenants[1]": true, "tenants[0][0].name": true, "tenants[0][1].names": true,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parametersOf(v1alpha1.ComponentRef{Params: map[string]string{name: "a"}}, declared, values{})
			if ok != (err == nil) {
				t.Errorf("it says %v", err)
			} else if !ok && !strings.Contains(err.message, "which the manager sets (from: MetricsTenant); remove it") {
				t.Errorf("it says %v", err)
			}
		})
	}
}

// What the flag of the manager is missing for is said once, and not again of the Components.
func TestNotConfiguredIsSaidOnce(t *testing.T) {
	e := experimentOf(observedTarget(v1alpha1.ClusterGKE, v1alpha1.TargetObservability{}))
	options := Options{Observability: observability}
	options.Observability.URL = ""
	_, resolved := facts{experiment: e, options: options, names: names{e, options}, seen: Observed{Components: observing()}}.resolve()
	if !holds(resolved) {
		t.Errorf("it says, too: %s", resolved.Message)
	}
}

// What looks on is not what is validated: its address and version are the manager's.
func TestObservabilityIsNotValidated(t *testing.T) {
	target := observedTarget(v1alpha1.ClusterGKE, v1alpha1.TargetObservability{})
	e, options := experimentOf(target), Options{Observability: observability}
	inputs := func(components map[string]*v1alpha1.Component) string {
		f := facts{experiment: e, options: options, names: names{e, options}, seen: Observed{Components: components}}
		deployments, resolved := f.resolve()
		if !holds(resolved) {
			t.Fatal(resolved.Message)
		}
		return f.inputs(deployments)
	}
	components := observing()
	components["nginx"].Spec.Observability = &v1alpha1.ComponentObservability{PodLabels: map[string]string{"a": "b"}, MetricsPort: ptr.To(int32(1))}
	before := inputs(components)
	components["metrics-agent"].Spec.Sources[0].TargetRevision = "2"
	components["metrics-monitors"].Spec.Sources[0].TargetRevision = "2"
	options.Observability.URL = "https://elsewhere.example.com"
	if inputs(components) != before {
		t.Error("it changes what is validated")
	}
	e.Spec.Targets[0].Components = append(e.Spec.Targets[0].Components, v1alpha1.ComponentRef{App: "metrics-agent"})
	if inputs(components) != before {
		t.Error("it changes what is validated when the target names it")
	}
	components["nginx"].Spec.Sources[0].TargetRevision = "2"
	if inputs(components) == before {
		t.Error("nothing does")
	}
}

// An observed target goes the whole road: what ships its metrics has an Application for each Component,
// after those of the target, whatever the policy; Argo CD leaves alone what Tailscale's operator writes; and a
// Component that comes later is waited for.
func TestObservedRoad(t *testing.T) {
	roles := []string{"app tailscale-operator", "config metrics-egress", "app metrics-agent"}
	for policy, want := range map[v1alpha1.ApplicationPolicy][]string{
		v1alpha1.ApplicationPerTarget: roles, v1alpha1.ApplicationPerComponent: append([]string{"app nginx"}, roles...),
	} {
		t.Run(string(policy), func(t *testing.T) {
			target := observedTarget(v1alpha1.ClusterGKE, v1alpha1.TargetObservability{Transport: "tailscale", Tenant: "lab"})
			target.ApplicationPolicy = policy
			l := newLab(t, experimentOf(target), nginx(), template())
			l.reconciler.Options.Observability = observability
			l.settle(l.play)
			l.expect(v1alpha1.ConditionComponentsResolved, metav1.ConditionFalse, v1alpha1.ReasonComponentNotFound)
			if len(l.list(argocd.ApplicationGVK)) > 0 || l.get().Status.StartedAt != nil {
				t.Fatal("it was begun without what its observability needs")
			}
			components := observing()
			for _, name := range []string{"metrics-agent", "metrics-egress", "tailscale-operator"} {
				l.create(components[name])
			}
			l.settle(l.play)
			l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
			status := l.get().Status.Targets[0]
			var order []string
			for _, c := range status.Components {
				order = append(order, c.Name)
			}
			if !slices.Equal(order, want) || (status.Application == "") != (policy == v1alpha1.ApplicationPerComponent) {
				t.Errorf("components are %v beside %q, want %v", order, status.Application, want)
			}
			apps := l.list(argocd.ApplicationGVK)
			if len(apps) != 4 {
				t.Errorf("there are %d Applications", len(apps))
			}
			for _, app := range apps {
				ignored, _, _ := unstructured.NestedSlice(app.Object, "spec", "ignoreDifferences")
				options, _, _ := unstructured.NestedStringSlice(app.Object, "spec", "syncPolicy", "syncOptions")
				egress := componentOf(&app) == "config metrics-egress"
				if (len(ignored) == 1) != egress || slices.Contains(options, "RespectIgnoreDifferences=true") != egress {
					t.Errorf("%s ignores %v with %v", componentOf(&app), ignored, options)
				}
				if err := valid(&app); err != nil {
					t.Error(err)
				}
				if egress {
					want := []any{map[string]any{"kind": "Service", "name": "metrics-hub", "jsonPointers": []any{"/spec/externalName"}}}
					if diff := cmp.Diff(want, ignored); diff != "" {
						t.Errorf("ignored (-want +got):\n%s", diff)
					}
				}
			}
		})
	}
}

// What ships metrics waits for the target's own Application, holds the Workflow up, not the target's own
// Application, and goes when it is turned off.
func TestObservabilityComesAndGoes(t *testing.T) {
	target := targetOf("app", v1alpha1.ClusterHub)
	l := newLab(t, experimentOf(target), nginx(), template(), observing()["metrics-agent"])
	l.reconciler.Options.Observability = observability
	apps := func() (names []string) {
		for _, app := range l.list(argocd.ApplicationGVK) {
			if app.GetDeletionTimestamp() == nil {
				names = append(names, componentOf(&app))
			}
		}
		slices.Sort(names)
		return names
	}
	enable := func(enabled bool) {
		l.edit(func(e *v1alpha1.Experiment) {
			e.Spec.Targets[0].Observability = &v1alpha1.TargetObservability{Enabled: enabled, Transport: "direct"}
		})
	}
	enable(true)
	l.pass()
	l.pass()
	if got := apps(); !slices.Equal(got, []string{""}) {
		t.Fatalf("at first there are the Applications %q", got)
	}
	components := l.get().Status.Targets[0].Components
	if len(components) != 1 || components[0].State != v1alpha1.ComponentBlocked {
		t.Errorf("components are %+v", components)
	}
	l.until(v1alpha1.PhaseRunning)
	if got := apps(); !slices.Equal(got, []string{"", "app metrics-agent"}) {
		t.Fatalf("then there are the Applications %q", got)
	}
	enable(false)
	l.settle(l.play)
	if got := apps(); !slices.Equal(got, []string{""}) {
		t.Errorf("turned off, there are the Applications %q", got)
	}
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
}

// A target that depends on another waits for what ships the metrics of that, too.
func TestNote37DependentsWaitForObservability(t *testing.T) {
	app := observedTarget(v1alpha1.ClusterHub, v1alpha1.TargetObservability{})
	l := newLab(t, experimentOf(app, targetOf("loadgen", v1alpha1.ClusterHub, "app")), nginx(), template(), observing()["metrics-agent"])
	l.reconciler.Options.Observability = observability
	l.settle(func() (moved bool) {
		for _, app := range l.list(argocd.ApplicationGVK) {
			moved = componentOf(&app) == "" && l.appIs(&app, "Healthy") || moved
		}
		return moved
	})
	targets := l.get().Status.Targets
	if targets[0].State != v1alpha1.TargetDeploying || targets[1].State != v1alpha1.TargetBlocked || !slices.Equal(targets[1].BlockedBy, []string{"app"}) {
		t.Errorf("while the agent is on its way, targets are %+v", targets)
	}
	if apps := l.list(argocd.ApplicationGVK); len(apps) != 2 {
		t.Errorf("there are %d Applications", len(apps))
	}
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
}

// What ships metrics goes before what it ships them of, and each before what it needs, whichever was created
// when; also when the spec does not ask for it any more.
func TestObservabilityGoesFirst(t *testing.T) {
	made := func(component string, second int) *unstructured.Unstructured {
		app := object(argocd.ApplicationGVK, "argocd", fmt.Sprintf("app-%d", second))
		app.SetCreationTimestamp(metav1.NewTime(epoch.Add(time.Duration(second) * time.Second)))
		if component != "" {
			app.SetAnnotations(map[string]string{v1alpha1.AnnotationComponent: component})
		}
		return app
	}
	apps := []*unstructured.Unstructured{
		made("", 9), made("app tailscale-operator", 8), made("app metrics-agent", 3), made("config metrics-egress", 4), made("app k6", 6), made("app nginx", 5),
	}
	var order []string
	for _, app := range (facts{options: Options{Observability: observability}}).lastFirst(apps) {
		order = append(order, componentOf(app))
	}
	if want := []string{"app metrics-agent", "config metrics-egress", "app tailscale-operator", "app k6", "app nginx", ""}; !slices.Equal(order, want) {
		t.Errorf("they go as %q, want %q", order, want)
	}
}

// Whoever needs a Component is woken by it, and counted as its user.
func TestObservabilityNamesComponents(t *testing.T) {
	for transport, want := range map[v1alpha1.Transport][]string{
		"direct":    {"nginx", "metrics-agent", "metrics-monitors"},
		"tailscale": {"nginx", "tailscale-operator", "metrics-egress", "metrics-agent", "metrics-monitors"},
	} {
		target := observedTarget(v1alpha1.ClusterGKE, v1alpha1.TargetObservability{Transport: transport})
		if got := observability.componentNames(experimentOf(target)); !slices.Equal(got, want) {
			t.Errorf("%s names %v, want %v", transport, got, want)
		}
	}
}
