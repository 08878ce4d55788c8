package observability

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/labkeeper/labkeeper/test/env"
)

// What kubectl apply -k config/prometheus applies is what the Prometheus operator takes.
func TestPrometheusIsConfigured(t *testing.T) {
	namespace := newNamespace(t, "alerts")
	out, err := exec.CommandContext(t.Context(), filepath.Join(env.Root(), "bin/kustomize"), "build", filepath.Join(env.Root(), "config/prometheus")).Output()
	if err != nil {
		t.Fatal(err)
	}
	objects, err := env.DecodeObjects(out)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"PrometheusRule", "ServiceMonitor"}, kindsOf(objects)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, o := range objects {
		o.SetNamespace(namespace)
	}
	deploy(t, namespace, objects)
}

// Prometheus takes the rules, and alerts of what it should, when it should, once.
func TestAlerts(t *testing.T) {
	objects, err := controlPlane.ReadObjects(t.Context(), filepath.Join(env.Root(), "config/prometheus/rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	rules, err := yaml.Marshal(objects[0].Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	dir, cases := t.TempDir(), ""
	write := func(name string, content []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("rules.yaml", rules)
	played := []string{"alerts.yaml", "alerts_days.yaml"}
	for _, name := range played {
		content, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		write(name, content)
		cases += string(content)
	}
	for _, args := range [][]string{{"check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"}, append([]string{"test", "rules"}, played...)} {
		command := exec.CommandContext(t.Context(), filepath.Join(env.Root(), "bin/promtool"), args...)
		command.Dir = dir
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
	for _, name := range alertsOf(t, objects[0]) {
		if !strings.Contains(cases, `alertname="`+name+`", alertstate="firing"`) {
			t.Errorf("nothing in testdata makes %s fire", name)
		}
	}
}

// alertsOf are the names of the alerts of a PrometheusRule.
func alertsOf(t *testing.T, rule *unstructured.Unstructured) (names []string) {
	t.Helper()
	groups, _, _ := unstructured.NestedSlice(rule.Object, "spec", "groups")
	for _, g := range groups {
		for _, r := range g.(map[string]any)["rules"].([]any) {
			names = append(names, r.(map[string]any)["alert"].(string))
		}
	}
	if len(names) == 0 {
		t.Fatal("there are no alerts: this test proves nothing")
	}
	return names
}
