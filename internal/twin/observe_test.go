package twin

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// c8, r11, r14, p12.
func TestRead(t *testing.T) {
	for name, test := range map[string]struct {
		kind, spec, status string
		health             Health
		reason             string
	}{
		"nothing yet":     {"Deployment", `{replicas: 2}`, `{}`, Progressing, ReasonNotObserved},
		"of before":       {"Deployment", `{replicas: 2}`, `{observedGeneration: 1, replicas: 2, updatedReplicas: 2, availableReplicas: 2, readyReplicas: 2}`, Progressing, ReasonNotObserved},
		"ready":           {"Deployment", `{replicas: 2}`, `{observedGeneration: 2, replicas: 2, updatedReplicas: 2, availableReplicas: 2, readyReplicas: 2}`, Ready, ReasonReady},
		"old pods":        {"Deployment", `{replicas: 2}`, `{observedGeneration: 2, replicas: 3, updatedReplicas: 2, availableReplicas: 2}`, Progressing, ReasonProgressing},
		"not available":   {"Deployment", `{replicas: 2}`, `{observedGeneration: 2, replicas: 2, updatedReplicas: 2, availableReplicas: 1}`, Progressing, ReasonProgressing},
		"none":            {"Deployment", `{replicas: 0}`, `{observedGeneration: 2}`, Ready, ReasonScaledToZero},
		"stuck":           {"Deployment", `{replicas: 1}`, `{observedGeneration: 2, replicas: 1, updatedReplicas: 1, conditions: [{type: Progressing, status: "False", reason: ProgressDeadlineExceeded}]}`, Degraded, ReasonStuck},
		"refused":         {"Deployment", `{replicas: 1}`, `{observedGeneration: 2, conditions: [{type: ReplicaFailure, status: "True", message: "exceeded quota"}]}`, Degraded, ReasonPodsRefused},
		"a set":           {"StatefulSet", `{replicas: 1}`, `{observedGeneration: 2, replicas: 1, availableReplicas: 1, readyReplicas: 1, currentRevision: a, updateRevision: a}`, Ready, ReasonReady},
		"a set rolls":     {"StatefulSet", `{replicas: 1}`, `{observedGeneration: 2, replicas: 1, availableReplicas: 1, readyReplicas: 1, currentRevision: a, updateRevision: b}`, Progressing, ReasonProgressing},
		"healthy":         {"Rollout", `{replicas: 1}`, `{observedGeneration: "2", phase: Healthy, availableReplicas: 1}`, Ready, ReasonReady},
		"healthy before":  {"Rollout", `{replicas: 1}`, `{observedGeneration: "1", phase: Healthy}`, Progressing, ReasonNotObserved},
		"an old hash":     {"Rollout", `{replicas: 1}`, `{observedGeneration: 5f79b78d7f, phase: Healthy}`, Progressing, ReasonNotObserved},
		"paused":          {"Rollout", `{replicas: 1}`, `{observedGeneration: "2", phase: Paused, message: CanaryPauseStep}`, Progressing, ReasonPaused},
		"degraded":        {"Rollout", `{replicas: 1}`, `{observedGeneration: "2", phase: Degraded, message: aborted}`, Degraded, ReasonDegraded},
		"an invalid spec": {"Rollout", `{replicas: 1}`, `{observedGeneration: "2", phase: Degraded, conditions: [{type: InvalidSpec, status: "True", message: bad}]}`, Degraded, ReasonInvalidSpec},
		"on its way":      {"Rollout", `{replicas: 1}`, `{observedGeneration: "2", phase: Progressing}`, Progressing, ReasonProgressing},
	} {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{Object: map[string]any{"spec": object(t, test.spec), "status": object(t, test.status)}}
			u.SetKind(test.kind)
			u.SetGeneration(2)
			s := Read(u)
			if s.Health != test.health || s.Reason != test.reason || s.Message == "" {
				t.Errorf("it is %+v", s)
			}
		})
	}
}

// a1 to a3, a6.
func TestInterference(t *testing.T) {
	from := source(t, tracked)
	twin := build(t, tracked, wanted(t, `{}`)).Object
	scaler := func(kind, target, name string) *unstructured.Unstructured {
		return source(t, `{kind: `+kind+`, metadata: {name: x}, spec: {scaleTargetRef: {`+target+`name: `+name+`}}}`)
	}
	for name, test := range map[string]struct {
		scaler *unstructured.Unstructured
		says   string
	}{
		"of the source":   {scaler("HorizontalPodAutoscaler", "kind: Deployment, ", "web"), "scales the source"},
		"of KEDA":         {scaler("ScaledObject", "", "web"), "scales the source"},
		"of the twin":     {scaler("HorizontalPodAutoscaler", "kind: Deployment, ", "web-exp-abc"), "scales the twin"},
		"of another":      {scaler("HorizontalPodAutoscaler", "kind: Deployment, ", "api"), ""},
		"of another kind": {scaler("HorizontalPodAutoscaler", "kind: StatefulSet, ", "web"), ""},
	} {
		got := Autoscalers(from, twin, []*unstructured.Unstructured{test.scaler})
		if len(got) > 1 || strings.Join(got, "") == "" != (test.says == "") || !strings.Contains(strings.Join(got, ""), test.says) {
			t.Errorf("%s: %v", name, got)
		}
	}
	green := source(t, colored)
	hpa := scaler("HorizontalPodAutoscaler", "kind: Rollout, ", "web")
	if got := Autoscalers(green, build(t, colored, wanted(t, `{}`)).Object, []*unstructured.Unstructured{hpa}); len(got) > 0 {
		t.Errorf("a blueGreen Rollout: %v", got)
	}
	budget := func(selector string) []*unstructured.Unstructured {
		return []*unstructured.Unstructured{source(t, `{kind: PodDisruptionBudget, metadata: {name: web}, spec: {`+selector+`}}`)}
	}
	for selector, want := range map[string]int{
		`selector: {matchLabels: {app: web}}`: 1, `selector: {}`: 1, `selector: {matchExpressions: [{key: tier, operator: In, values: [front]}]}`: 1,
		`selector: {matchLabels: {app: api}}`: 0, `minAvailable: 1`: 0, `selector: {matchExpressions: [{key: x, operator: Wrong}]}`: 0,
		`selector: {matchExpressions: [{key: ` + LabelRole + `, operator: DoesNotExist}]}`: 0,
	} {
		if got := Budgets(from, twin, budget(selector)); len(got) != want {
			t.Errorf("%s: %v", selector, got)
		}
	}
}

// d3.
func TestOverlaps(t *testing.T) {
	if from := source(t, tracked); !Overlaps(from, build(t, tracked, wanted(t, `{}`)).Object) {
		t.Error("labels that Services select are those of the source's selector")
	}
	w := wanted(t, `{template: {metadata: {labels: {app: another}}}}`)
	if from := source(t, tracked); Overlaps(from, build(t, tracked, w).Object) {
		t.Error("another label")
	}
}

func TestDiff(t *testing.T) {
	w := wanted(t, `{replicas: 2, template: {spec: {containers: [{name: web, image: "web:2", env: [{name: MODE, value: test}, {name: API_TOKEN, value: canary-1}, {name: URL, value: "http://u:canary-2@db"}],
  args: ["--password=canary-3"], securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}, {name: more, image: x, env: [{name: DB_PASSWORD, value: canary-4}], securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]}}}`)
	diff := Diff(source(t, tracked), build(t, tracked, w).Object)
	for _, line := range []string{
		`replicas: the source's -> 2`, `template.spec.containers[web].image: "web:1" -> "web:2"`, `template.spec.containers[web].env[MODE].value: "production" -> "test"`,
		`template.spec.containers[web].env[TOKEN]: {"name":"TOKEN","valueFrom":{"secretKeyRef":{"key":"token","name":"web"}}} -> nothing`,
		`template.spec.containers[more]: nothing -> `, `template.spec.containers[web].args: nothing -> ["(not shown)"]`,
	} {
		if !strings.Contains(diff, line) {
			t.Errorf("it does not say %s:\n%s", line, diff)
		}
	}
	if strings.Contains(diff, "canary") {
		t.Errorf("it tells secrets:\n%s", diff)
	}
	scaled := source(t, tracked)
	_ = unstructured.SetNestedField(scaled.Object, int64(30), "spec", "replicas")
	if d := Diff(scaled, source(t, tracked)); d != "replicas: the source's -> 3" {
		t.Errorf("of the same: %s", d)
	}
	long := source(t, tracked)
	for i := range 2000 {
		_ = unstructured.SetNestedField(long.Object, "ähnlich", "spec", "template", "metadata", "labels", strings.Repeat("x", i%60)+string(rune('a'+i%26)))
	}
	if d := Diff(source(t, tracked), long); len(d) > MaxDiff || !utf8.ValidString(d) || !strings.HasSuffix(d, "…") {
		t.Errorf("it is %d long: %s", len(d), d[max(0, len(d)-20):])
	}
	one, other := source(t, tracked), source(t, tracked)
	_ = unstructured.SetNestedSlice(one.Object, []any{map[string]any{"name": "KEY", "value": "canary-a"}}, "spec", "env")
	_ = unstructured.SetNestedSlice(other.Object, []any{map[string]any{"name": "KEY", "value": "canary-b"}}, "spec", "env")
	if d := cmp.Diff("env[KEY].value: (not shown) -> (not shown)\nreplicas: the source's -> 3", Diff(one, other)); d != "" {
		t.Errorf("another secret (-want +got):\n%s", d)
	}
}
