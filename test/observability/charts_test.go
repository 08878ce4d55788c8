package observability

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/test/env"
	"github.com/labkeeper/labkeeper/test/env/testenv"
)

const (
	serviceMonitor = "monitoring.coreos.com/v1/ServiceMonitor"
	podMonitor     = "monitoring.coreos.com/v1/PodMonitor"
)

// controlPlane is shared: each test has a namespace of its own.
var controlPlane *env.ControlPlane

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx := context.Background()
	var err error
	if controlPlane, err = env.Start(ctx, env.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, "starting control plane:", err)
		return 1
	}
	crds := filepath.Join(env.Root(), "bin/crds/prometheus-operator/monitoring.coreos.com_")
	err = controlPlane.InstallSchemas(ctx, crds+"servicemonitors.yaml", crds+"podmonitors.yaml", crds+"prometheusrules.yaml")
	code := 1
	if err == nil {
		code = m.Run()
	} else {
		fmt.Fprintln(os.Stderr, "installing CRDs:", err)
	}
	if err := controlPlane.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping control plane:", err)
		return 1
	}
	return code
}

// component is one of config/observability.
func component(t *testing.T, name string) *v1alpha1.Component {
	t.Helper()
	objects, err := controlPlane.ReadObjects(t.Context(), filepath.Join(env.Root(), "config/observability/components.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if o.GetName() != name {
			continue
		}
		c := &v1alpha1.Component{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, c, true); err != nil {
			t.Fatal(err)
		}
		return c
	}
	t.Fatalf("there is no Component %s", name)
	return nil
}

// chartOf is the folder of a Component's chart.
func chartOf(c *v1alpha1.Component) string {
	if source := c.Spec.Sources[0]; source.Chart == "" {
		return filepath.Join(env.Root(), source.Path)
	}
	return filepath.Join(env.Root(), "bin/crds-charts", c.Spec.Sources[0].Chart)
}

type values map[v1alpha1.ParameterSource]string

// render renders the chart of a Component as Argo CD does it for an Application: with what its parameters
// are taken from, over its defaults, for a cluster that has these kinds beside those of Kubernetes.
func render(t *testing.T, name, namespace string, from values, params map[string]string, kinds ...string) []*unstructured.Unstructured {
	t.Helper()
	c := component(t, name)
	args := []string{"template", c.Spec.Sources[0].Helm.ReleaseName, chartOf(c), "--namespace=" + namespace, "--include-crds"}
	for _, kind := range kinds {
		args = append(args, "--api-versions="+kind)
	}
	set := maps.Clone(params)
	if set == nil {
		set = map[string]string{}
	}
	flags := map[string]string{}
	for _, p := range c.Spec.Parameters {
		flags[p.Name] = map[bool]string{true: "--set-string", false: "--set"}[p.Type == v1alpha1.ParameterString]
		if _, given := set[p.Name]; given {
			continue
		}
		switch {
		case from[p.From] != "":
			set[p.Name] = from[p.From]
		case p.Default != nil:
			set[p.Name] = *p.Default
		case p.Required:
			t.Fatalf("%s needs %s", name, p.Name)
		}
	}
	for _, parameter := range slices.Sorted(maps.Keys(set)) {
		flag := flags[parameter]
		if flag == "" {
			flag = "--set"
		}
		args = append(args, flag, parameter+"="+strings.ReplaceAll(set[parameter], ",", `\,`)) // as Argo CD does
	}
	command := exec.CommandContext(t.Context(), filepath.Join(env.Root(), "bin/helm"), args...)
	command.Env = append(os.Environ(), "HOME="+t.TempDir())
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("rendering %s: %v\n%s", name, err, stderr.String())
	}
	objects, err := env.DecodeObjects(out)
	if err != nil {
		t.Fatalf("rendering %s: %v", name, err)
	}
	return objects
}

// deploy creates objects strictly; those without a namespace go into this one.
func deploy(t *testing.T, namespace string, objects []*unstructured.Unstructured) {
	t.Helper()
	c := testenv.Client(t, controlPlane)
	for _, o := range objects {
		mapping, err := c.RESTMapper().RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version)
		if err != nil {
			t.Fatal(err)
		}
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace && o.GetNamespace() == "" {
			o.SetNamespace(namespace)
		}
		if err := c.Create(t.Context(), o, client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
			t.Fatalf("creating %s %s: %v", o.GetKind(), o.GetName(), err)
		}
		t.Cleanup(func() { _ = c.Delete(context.Background(), o) })
	}
}

func newNamespace(t *testing.T, prefix string) string {
	t.Helper()
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	namespace.SetGenerateName(prefix + "-")
	namespace.SetLabels(map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
	c := testenv.Client(t, controlPlane)
	if err := c.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(context.Background(), namespace) })
	return namespace.GetName()
}

func kindsOf(objects []*unstructured.Unstructured) (kinds []string) {
	for _, o := range objects {
		kinds = append(kinds, o.GetKind())
	}
	slices.Sort(kinds)
	return kinds
}

// about is what a manager knows of a target.
var about = values{
	v1alpha1.FromExperiment: "road", v1alpha1.FromExperimentNamespace: "team-a", v1alpha1.FromTarget: "app",
	v1alpha1.FromMetricsURL: "http://metrics-hub:8080/api/v1/push", v1alpha1.FromMetricsTenant: "lab",
	v1alpha1.FromMetricsService: "metrics-hub", v1alpha1.FromMetricsHost: "labkeeper-metrics.tail1234.ts.net", v1alpha1.FromMetricsPort: "8080",
	v1alpha1.FromMetricsProxy: "metrics-road-app-12345678",
	v1alpha1.FromMonitorName:  "metrics-nginx-12345678", v1alpha1.FromMonitorPodLabels: "app.kubernetes.io/name=nginx,tier=1",
	v1alpha1.FromMonitorPath: "/stats", v1alpha1.FromMonitorPort: "9113",
	v1alpha1.FromMonitorService: "true", v1alpha1.FromMonitorPods: "true", v1alpha1.FromSharedCluster: "false",
}

// Every parameter of a Component is a value of its chart: Helm ignores others.
func TestParametersAreValues(t *testing.T) {
	for _, name := range []string{"metrics-agent", "metrics-egress", "metrics-monitors", "tailscale-operator"} {
		c := component(t, name)
		content, err := os.ReadFile(filepath.Join(chartOf(c), "values.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var chart map[string]any
		if err := yaml.Unmarshal(content, &chart); err != nil {
			t.Fatal(err)
		}
		for _, p := range c.Spec.Parameters {
			if at, known := chart[strings.Split(p.Name, ".")[0]]; !known {
				t.Errorf("%s: the chart has no %s", name, p.Name)
			} else if nested, _, _ := unstructured.NestedFieldNoCopy(chart, strings.Split(p.Name, ".")...); nested == nil && !empty(at) {
				t.Errorf("%s: the chart has no %s, only %v", name, p.Name, at)
			}
		}
	}
}

// empty says whether a value is a map for whatever somebody sets.
func empty(value any) bool {
	m, isMap := value.(map[string]any)
	return isMap && len(m) == 0
}

// The agent is accepted where the Pod Security level is restricted, with no right that it does not need on a
// cluster of others.
func TestAgentIsAccepted(t *testing.T) {
	for shared, kinds := range map[string][]string{
		"true":  {"ConfigMap", "Deployment", "Role", "RoleBinding", "ServiceAccount"},
		"false": {"ClusterRole", "ClusterRoleBinding", "ConfigMap", "Deployment", "ServiceAccount"},
	} {
		t.Run("shared "+shared, func(t *testing.T) {
			namespace := newNamespace(t, "agent-"+shared)
			from := maps.Clone(about)
			from[v1alpha1.FromSharedCluster], from[v1alpha1.FromMetricsSecret] = shared, "push"
			objects := render(t, "metrics-agent", namespace, from, nil)
			if diff := cmp.Diff(kinds, kindsOf(objects)); diff != "" {
				t.Errorf("kinds (-want +got):\n%s", diff)
			}
			deploy(t, namespace, objects)
			i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Deployment" })
			template, _, _ := unstructured.NestedMap(objects[i].Object, "spec", "template")
			pod := &unstructured.Unstructured{Object: template}
			pod.SetAPIVersion("v1")
			pod.SetKind("Pod")
			pod.SetName("agent")
			deploy(t, namespace, []*unstructured.Unstructured{pod}) // a Deployment's are only warned of
		})
	}
}

// A monitor is made of the kind that is asked for where the cluster has it, and a Service everywhere.
func TestMonitorsAreAccepted(t *testing.T) {
	for name, test := range map[string]struct {
		service, pods string
		kinds         []string
		want          []string
	}{
		"both":                         {"true", "true", []string{serviceMonitor, podMonitor}, []string{"PodMonitor", "Service", "ServiceMonitor"}},
		"of a Service":                 {"true", "false", []string{serviceMonitor, podMonitor}, []string{"Service", "ServiceMonitor"}},
		"of pods":                      {"false", "true", []string{serviceMonitor, podMonitor}, []string{"PodMonitor", "Service"}},
		"where there is only one kind": {"true", "true", []string{podMonitor}, []string{"PodMonitor", "Service"}},
		"where there are no kinds":     {"true", "true", nil, []string{"Service"}},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := newNamespace(t, "monitors-"+strings.ReplaceAll(strings.ToLower(name), " ", "-"))
			from := maps.Clone(about)
			from[v1alpha1.FromMonitorService], from[v1alpha1.FromMonitorPods] = test.service, test.pods
			objects := render(t, "metrics-monitors", namespace, from, nil, test.kinds...)
			if diff := cmp.Diff(test.want, kindsOf(objects)); diff != "" {
				t.Errorf("kinds (-want +got):\n%s", diff)
			}
			deploy(t, namespace, objects)
			labels := map[string]any{"app.kubernetes.io/name": "nginx", "tier": "1"}
			selectors := map[string]struct {
				path []string
				want any
			}{
				"Service":        {[]string{"spec", "selector"}, labels},
				"PodMonitor":     {[]string{"spec", "selector", "matchLabels"}, labels},
				"ServiceMonitor": {[]string{"spec", "selector", "matchLabels"}, map[string]any{"experiments.illm.io/metrics": "metrics-nginx-12345678"}},
			}
			for _, o := range objects {
				selector := selectors[o.GetKind()]
				if got, _, _ := unstructured.NestedFieldNoCopy(o.Object, selector.path...); !cmp.Equal(got, selector.want) {
					t.Errorf("%s selects %v", o.GetKind(), got)
				}
			}
		})
	}
}

// Whoever reaches the hub through a tailnet does it by a Service that Tailscale's operator takes for one of
// its own, whose name it writes is the only thing that Argo CD is told to ignore.
func TestEgressIsAccepted(t *testing.T) {
	namespace := newNamespace(t, "egress")
	objects := render(t, "metrics-egress", namespace, about, nil)
	deploy(t, namespace, objects)
	service := objects[0]
	kind, _, _ := unstructured.NestedString(service.Object, "spec", "type")
	if len(objects) != 1 || service.GetName() != "metrics-hub" || kind != "ExternalName" ||
		!cmp.Equal(service.GetAnnotations(), map[string]string{"tailscale.com/tailnet-fqdn": "labkeeper-metrics.tail1234.ts.net", "tailscale.com/hostname": "metrics-road-app-12345678"}) {
		t.Errorf("it is %v", service.Object)
	}
}

// The operator takes its credentials from the Secret that it is told of, and none is in what is rendered.
func TestOperatorTakesSecret(t *testing.T) {
	for secret, want := range map[string]string{"": "operator-oauth", "tailnet": "tailnet"} {
		from := maps.Clone(about)
		from[v1alpha1.FromTailnetSecret] = secret
		objects := render(t, "tailscale-operator", "lab", from, nil)
		var mounted []string
		for _, o := range objects {
			if o.GetKind() == "Secret" {
				t.Errorf("there is a Secret %s", o.GetName())
			}
			volumes, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "volumes")
			for _, v := range volumes {
				name, _, _ := unstructured.NestedString(v.(map[string]any), "secret", "secretName")
				mounted = append(mounted, name)
			}
		}
		if !slices.Equal(mounted, []string{want}) {
			t.Errorf("with %q it mounts %v, want %s", secret, mounted, want)
		}
	}
}

// The hub's side is accepted, and agrees with the defaults of the manager.
func TestHubIsAccepted(t *testing.T) {
	objects, err := controlPlane.ReadObjects(t.Context(), filepath.Join(env.Root(), "config/observability/hub"))
	if err != nil {
		t.Fatal(err)
	}
	namespace := newNamespace(t, "hub")
	for _, o := range objects {
		o.SetNamespace(namespace)
	}
	deploy(t, namespace, objects)
	service := objects[0]
	want := map[string]string{"tailscale.com/expose": "true", "tailscale.com/hostname": "labkeeper-metrics"}
	if len(objects) != 1 || !cmp.Equal(service.GetAnnotations(), want) {
		t.Errorf("it is %v", runtime.DeepCopyJSON(service.Object))
	}
}
