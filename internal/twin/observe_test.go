package twin

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// How a twin is by its own status, of any kind.
func TestRead(t *testing.T) {
	for name, test := range map[string]struct {
		kind, spec, status string
		health             Health
		reason             string
	}{
		"c8 nothing yet":      {"Deployment", `{replicas: 2}`, `{}`, Progressing, ReasonNotObserved},
		"c8 of before":        {"Deployment", `{replicas: 2}`, `{observedGeneration: 1, replicas: 2, updatedReplicas: 2, availableReplicas: 2, readyReplicas: 2}`, Progressing, ReasonNotObserved},
		"c8 ready":            {"Deployment", `{replicas: 2}`, `{observedGeneration: 2, replicas: 2, updatedReplicas: 2, availableReplicas: 2, readyReplicas: 2}`, Ready, ReasonReady},
		"c8 old pods":         {"Deployment", `{replicas: 2}`, `{observedGeneration: 2, replicas: 3, updatedReplicas: 2, availableReplicas: 2}`, Progressing, ReasonProgressing},
		"c8 not available":    {"Deployment", `{replicas: 2}`, `{observedGeneration: 2, replicas: 2, updatedReplicas: 2, availableReplicas: 1}`, Progressing, ReasonProgressing},
		"c8 none":             {"Deployment", `{replicas: 0}`, `{observedGeneration: 2}`, Ready, ReasonScaledToZero},
		"c8 stuck":            {"Deployment", `{replicas: 1}`, `{observedGeneration: 2, replicas: 1, updatedReplicas: 1, conditions: [{type: Progressing, status: "False", reason: ProgressDeadlineExceeded}]}`, Degraded, ReasonStuck},
		"p12 refused":         {"Deployment", `{replicas: 1}`, `{observedGeneration: 2, conditions: [{type: ReplicaFailure, status: "True", message: "exceeded quota"}]}`, Degraded, ReasonPodsRefused},
		"c8 a set":            {"StatefulSet", `{replicas: 1}`, `{observedGeneration: 2, replicas: 1, availableReplicas: 1, readyReplicas: 1, currentRevision: a, updateRevision: a}`, Ready, ReasonReady},
		"c8 a set rolls":      {"StatefulSet", `{replicas: 1}`, `{observedGeneration: 2, replicas: 1, availableReplicas: 1, readyReplicas: 1, currentRevision: a, updateRevision: b}`, Progressing, ReasonProgressing},
		"c8 a set, in part":   {"StatefulSet", `{replicas: 3, updateStrategy: {rollingUpdate: {partition: 2}}}`, `{observedGeneration: 2, replicas: 3, availableReplicas: 3, updatedReplicas: 1, currentRevision: a, updateRevision: b}`, Ready, ReasonReady},
		"c8 a part rolls":     {"StatefulSet", `{replicas: 3, updateStrategy: {rollingUpdate: {partition: 1}}}`, `{observedGeneration: 2, replicas: 3, availableReplicas: 3, updatedReplicas: 1, currentRevision: a, updateRevision: b}`, Progressing, ReasonProgressing},
		"c8 a set, by hand":   {"StatefulSet", `{replicas: 1, updateStrategy: {type: OnDelete}}`, `{observedGeneration: 2, replicas: 1, availableReplicas: 1, currentRevision: a, updateRevision: b}`, Ready, ReasonReady},
		"r11 healthy":         {"Rollout", `{replicas: 1}`, `{observedGeneration: "2", phase: Healthy, availableReplicas: 1}`, Ready, ReasonReady},
		"r11 healthy before":  {"Rollout", `{replicas: 1}`, `{observedGeneration: "1", phase: Healthy}`, Progressing, ReasonNotObserved},
		"r11 an old hash":     {"Rollout", `{replicas: 1}`, `{observedGeneration: 5f79b78d7f, phase: Healthy}`, Progressing, ReasonNotObserved},
		"r11 paused":          {"Rollout", `{replicas: 1}`, `{observedGeneration: "2", phase: Paused, message: CanaryPauseStep}`, Progressing, ReasonPaused},
		"r11 degraded":        {"Rollout", `{replicas: 1}`, `{observedGeneration: "2", phase: Degraded, message: aborted}`, Degraded, ReasonDegraded},
		"r14 an invalid spec": {"Rollout", `{replicas: 1}`, `{observedGeneration: "2", phase: Degraded, conditions: [{type: InvalidSpec, status: "True", message: bad}]}`, Degraded, ReasonInvalidSpec},
		"r11 on its way":      {"Rollout", `{replicas: 1}`, `{observedGeneration: "2", phase: Progressing}`, Progressing, ReasonProgressing},
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

// That there are no pods yet is all that is said of a twin, or it is not empty.
func TestEmpty(t *testing.T) {
	for name, test := range map[string]struct {
		kind, status string
		want         bool
	}{
		"not seen":             {"Deployment", `{observedGeneration: 1}`, false},
		"none yet":             {"Deployment", `{observedGeneration: 2, unavailableReplicas: 2}`, true},
		"none of a set":        {"StatefulSet", `{observedGeneration: 2, updateRevision: a}`, true},
		"one":                  {"Deployment", `{observedGeneration: 2, replicas: 1}`, false},
		"refused":              {"Deployment", `{observedGeneration: 2, conditions: [{type: ReplicaFailure, status: "True"}]}`, false},
		"stuck":                {"Deployment", `{observedGeneration: 2, conditions: [{type: Progressing, status: "False"}]}`, false},
		"r11 in its own words": {"Rollout", `{observedGeneration: "2", phase: Progressing, message: "waits for a lock"}`, false},
	} {
		u := &unstructured.Unstructured{Object: map[string]any{"kind": test.kind, "spec": object(t, `{replicas: 2}`), "status": object(t, test.status)}}
		u.SetGeneration(2)
		if got := Read(u).Empty; got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// p12: what the status of a StatefulSet does not say is said where to look for.
func TestPodsThatDoNotCome(t *testing.T) {
	for name, test := range map[string]struct {
		kind, status string
		want         bool
	}{
		"a set":               {"StatefulSet", `{observedGeneration: 2, updateRevision: a}`, true},
		"a set, some of them": {"StatefulSet", `{observedGeneration: 2, replicas: 1, readyReplicas: 1, availableReplicas: 1, updateRevision: a}`, true},
		"a set, all of them":  {"StatefulSet", `{observedGeneration: 2, replicas: 2, updateRevision: a}`, false},
		"a Deployment":        {"Deployment", `{observedGeneration: 2}`, false},
	} {
		u := &unstructured.Unstructured{Object: map[string]any{"kind": test.kind, "spec": object(t, `{replicas: 2}`), "status": object(t, test.status)}}
		u.SetGeneration(2)
		u.SetNamespace("shop")
		u.SetName("db-exp")
		if said := Read(u).Message; strings.Contains(said, "kubectl describe statefulset -n shop db-exp") != test.want {
			t.Errorf("%s: it says %q", name, said)
		}
	}
}

// a1: pods that are all ready weaken nobody, of whatever version they are, and however long they must be so to be available.
func TestPodsReady(t *testing.T) {
	for name, test := range map[string]struct {
		status string
		want   bool
	}{
		"not seen":         {`{observedGeneration: 1, replicas: 2, readyReplicas: 2}`, false},
		"all":              {`{observedGeneration: 2, replicas: 2, readyReplicas: 2}`, true},
		"all, and refused": {`{observedGeneration: 2, replicas: 2, readyReplicas: 2, conditions: [{type: ReplicaFailure, status: "True"}]}`, true},
		"too many":         {`{observedGeneration: 2, replicas: 3, readyReplicas: 3}`, true},
		"all, for a while": {`{observedGeneration: 2, replicas: 2, readyReplicas: 2, availableReplicas: 0}`, true},
		"a new one is not": {`{observedGeneration: 2, replicas: 3, readyReplicas: 2}`, false},
		"too few":          {`{observedGeneration: 2, replicas: 1, readyReplicas: 1}`, false},
		"none":             {`{observedGeneration: 2}`, false},
	} {
		u := &unstructured.Unstructured{Object: map[string]any{"kind": "Deployment", "spec": object(t, `{replicas: 2}`), "status": object(t, test.status)}}
		u.SetGeneration(2)
		if got := Read(u).PodsReady; got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Autoscalers find pods by the selector of what they scale, whatever owns them.
func TestAutoscalers(t *testing.T) {
	scaler := func(kind, target string) *unstructured.Unstructured {
		reference := "scaleTargetRef"
		if kind == "VerticalPodAutoscaler" {
			reference = "targetRef"
		}
		return source(t, `{kind: `+kind+`, metadata: {name: x}, spec: {`+reference+`: {`+target+`}}}`)
	}
	const relabelled = `{template: {metadata: {labels: {app: another}}}}`
	others := []*unstructured.Unstructured{
		source(t, `{kind: StatefulSet, metadata: {name: wide}, spec: {selector: {matchExpressions: [{key: app, operator: Exists}]}}}`),
		source(t, `{kind: Deployment, metadata: {name: narrow}, spec: {selector: {matchLabels: {app: narrow}}}}`),
		source(t, `{kind: Rollout, metadata: {name: wide}, spec: {strategy: {blueGreen: {}}, selector: {matchExpressions: [{key: app, operator: Exists}]}}}`),
	}
	for name, test := range map[string]struct {
		source, override string
		scaler           *unstructured.Unstructured
		says             string
	}{
		"a1 of the source":                  {tracked, ``, scaler("HorizontalPodAutoscaler", "kind: Deployment, name: web"), "scales the source"},
		"a1 of other pods":                  {tracked, relabelled, scaler("HorizontalPodAutoscaler", "kind: Deployment, name: web"), ""},
		"a1 of another":                     {tracked, ``, scaler("HorizontalPodAutoscaler", "kind: Deployment, name: api"), ""},
		"a1 of another kind":                {tracked, ``, scaler("HorizontalPodAutoscaler", "kind: StatefulSet, name: web"), ""},
		"a2 of the twin":                    {tracked, ``, scaler("HorizontalPodAutoscaler", "kind: Deployment, name: web-exp-abc"), "scales the twin"},
		"a2 of the twin, by KEDA":           {tracked, ``, scaler("ScaledObject", "name: web-exp-abc"), "scales the twin"},
		"a2 of the twin, with other pods":   {tracked, relabelled, scaler("HorizontalPodAutoscaler", "kind: Deployment, name: web-exp-abc"), "scales the twin"},
		"a3 of a canary":                    {shifting, ``, scaler("HorizontalPodAutoscaler", "kind: Rollout, name: web"), "scales the source"},
		"a3 of blueGreen":                   {colored, ``, scaler("HorizontalPodAutoscaler", "kind: Rollout, name: web"), ""},
		"a3 of the twin of blueGreen":       {colored, ``, scaler("HorizontalPodAutoscaler", "kind: Rollout, name: web-exp-abc"), "scales the twin"},
		"a4 by KEDA":                        {tracked, ``, scaler("ScaledObject", "kind: Deployment, name: web"), "ScaledObject x scales the source"},
		"a4 by KEDA, which leaves it out":   {tracked, ``, scaler("ScaledObject", "name: web"), "ScaledObject x scales the source"},
		"a4 by KEDA, which means another":   {database, ``, scaler("ScaledObject", "name: db"), ""},
		"a5 of the source":                  {tracked, ``, scaler("VerticalPodAutoscaler", "kind: Deployment, name: web"), "learns from the twin's pods"},
		"a5 of the twin":                    {tracked, ``, scaler("VerticalPodAutoscaler", "kind: Deployment, name: web-exp-abc"), "learns from the source's pods"},
		"a5 of the twin, with other pods":   {tracked, relabelled, scaler("VerticalPodAutoscaler", "kind: Deployment, name: web-exp-abc"), ""},
		"a5 of another":                     {tracked, ``, scaler("VerticalPodAutoscaler", "kind: Deployment, name: api"), ""},
		"a1 of another, whose it is":        {tracked, ``, scaler("HorizontalPodAutoscaler", "kind: StatefulSet, name: wide"), "is for StatefulSet wide, whose selector selects the twin's pods"},
		"a1 of another, relabelled":         {tracked, relabelled, scaler("HorizontalPodAutoscaler", "kind: StatefulSet, name: wide"), "it counts them"},
		"a1 of another, of its own pods":    {tracked, ``, scaler("HorizontalPodAutoscaler", "kind: Deployment, name: narrow"), ""},
		"a3 of another, which is blueGreen": {tracked, ``, scaler("HorizontalPodAutoscaler", "kind: Rollout, name: wide"), ""},
		"a4 of another, by KEDA":            {tracked, ``, scaler("ScaledObject", "kind: StatefulSet, name: wide"), "ScaledObject x is for StatefulSet wide"},
		"a5 of another, whose it is":        {tracked, ``, scaler("VerticalPodAutoscaler", "kind: StatefulSet, name: wide"), "it learns from them"},
		"a4 by KEDA, which names the kind":  {database, ``, scaler("ScaledObject", "kind: StatefulSet, name: db"), "scales the source"},
	} {
		t.Run(name, func(t *testing.T) {
			twin := build(t, test.source, wanted(t, given(test.override))).Object
			got := Autoscalers(source(t, test.source), twin, []*unstructured.Unstructured{test.scaler}, others)
			if len(got) > 1 || (len(got) == 0) != (test.says == "") || !strings.Contains(strings.Join(got, ""), test.says) {
				t.Errorf("it says %v", got)
			}
		})
	}
}

// A budget counts what its selector selects.
func TestBudgets(t *testing.T) {
	from := source(t, tracked)
	twin := build(t, tracked, wanted(t, `{}`)).Object
	for spec, want := range map[string]int{
		`selector: {matchLabels: {app: web}}`: 1, `selector: {}`: 1, `selector: {matchExpressions: [{key: tier, operator: In, values: [front]}]}`: 1,
		`selector: {matchLabels: {app: api}}`: 0, `minAvailable: 1`: 0, `selector: {matchExpressions: [{key: x, operator: Wrong}]}`: 0,
		`selector: {matchExpressions: [{key: ` + LabelRole + `, operator: DoesNotExist}]}`: 0,
	} {
		t.Run("a6 "+spec, func(t *testing.T) {
			got := Budgets(from, twin, []*unstructured.Unstructured{source(t, `{kind: PodDisruptionBudget, metadata: {name: web}, spec: {`+spec+`}}`)})
			if len(got) != want || want > 0 && !strings.Contains(got[0], "PodDisruptionBudget web") {
				t.Errorf("it says %v", got)
			}
		})
	}
}

// A budget of another workload does, where an override has its labels; one that asks for twins is theirs.
func TestBudgetsOfOthers(t *testing.T) {
	from, twin := source(t, tracked), build(t, tracked, wanted(t, `{template: {metadata: {labels: {app: api}}}}`)).Object
	for spec, want := range map[string]bool{
		`selector: {matchLabels: {app: api}}`: true, `selector: {matchLabels: {app: db}}`: false, `minAvailable: 1`: false,
		`selector: {matchLabels: {app: api, ` + LabelRole + `: experiment}}`:                           false,
		`selector: {matchExpressions: [{key: ` + LabelRole + `, operator: In, values: [experiment]}]}`: false,
	} {
		got := Budgets(from, twin, []*unstructured.Unstructured{source(t, `{kind: PodDisruptionBudget, metadata: {name: api}, spec: {`+spec+`}}`)})
		if (len(got) == 1) != want || want && !strings.Contains(got[0], "PodDisruptionBudget api, which does not count the source's pods, counts the twin's") {
			t.Errorf("%s: it says %v", spec, got)
		}
	}
}

// The source's selector selects the twin's pods where they have its labels; the twin's never selects the source's.
func TestOverlaps(t *testing.T) {
	for name, test := range map[string]struct {
		source, override string
		want             bool
	}{
		"d3 a Deployment":  {tracked, `{}`, true},
		"d3 a StatefulSet": {database, `{}`, true},
		"d3 a Rollout":     {shifting, `{}`, true},
		"d3 other labels":  {tracked, `{template: {metadata: {labels: {app: another}}}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			from, twin := source(t, test.source), build(t, test.source, wanted(t, test.override)).Object
			if got := Overlaps(from, twin); got != test.want {
				t.Errorf("it is %v", got)
			}
			if Overlaps(twin, from) {
				t.Error("the twin's selector selects the source's pods")
			}
		})
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

// p6: in the place of a volume that has the name of one of its volumeClaimTemplates a StatefulSet gives each pod its own.
func TestSharedClaimsOfStatefulSets(t *testing.T) {
	workload := func(templates ...any) *unstructured.Unstructured {
		claim := map[string]any{"name": "data", "persistentVolumeClaim": map[string]any{"claimName": "data"}}
		return &unstructured.Unstructured{Object: map[string]any{"kind": "StatefulSet", "spec": map[string]any{
			"volumeClaimTemplates": templates, "template": map[string]any{"spec": map[string]any{"volumes": []any{claim}}},
		}}}
	}
	own := map[string]any{"metadata": map[string]any{"name": "data"}}
	if got := SharedClaims(workload(), workload()); len(got) != 1 {
		t.Errorf("they share %v", got)
	}
	if got := SharedClaims(workload(own), workload(own)); len(got) > 0 {
		t.Errorf("each with its own, they share %v", got)
	}
}
