package workloadscaler

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/labkeeper/labkeeper/internal/executor/executortest"
)

// object is one of generation 2 with a spec and a status.
func object(t *testing.T, kind, status string) *unstructured.Unstructured {
	t.Helper()
	return executortest.Objects(t, "{"+kind+", metadata: {name: a, generation: 2}, status: "+status+"}")[0]
}

// TestStatus reads what is left, and what is missing of 3 pods, in a status.
func TestStatus(t *testing.T) {
	t.Parallel()
	const (
		web    = "apiVersion: apps/v1, kind: Deployment"
		canary = "apiVersion: argoproj.io/v1alpha1, kind: Rollout"
		bakery = "apiVersion: example.com/v1, kind: Oven"
		unseen = "its controller has not seen it yet"
	)
	for name, test := range map[string]struct {
		kind, status string
		// spec is what is wanted now.
		spec        any
		gone, ready string
	}{
		"no status":          {web, `{}`, int64(3), unseen, unseen},
		"an old one":         {web, `{observedGeneration: 1, readyReplicas: 3}`, int64(3), unseen, unseen},
		"empty":              {web, `{observedGeneration: 2}`, int64(3), "", "0 of 3 pods are ready"},
		"ready":              {web, `{observedGeneration: 2, replicas: 3, readyReplicas: 3}`, int64(3), "3 pods are left", ""},
		"some":               {web, `{observedGeneration: 2, replicas: 3, readyReplicas: 2}`, int64(3), "3 pods are left", "2 of 3 pods are ready"},
		"terminating":        {web, `{observedGeneration: 2, replicas: 0, terminatingReplicas: 2}`, int64(3), "2 pods are left", "0 of 3 pods are ready"},
		"scaled down since":  {web, `{observedGeneration: 2, replicas: 1, readyReplicas: 1}`, int64(1), "1 pods are left", ""},
		"scaled up since":    {web, `{observedGeneration: 2, replicas: 5, readyReplicas: 3}`, int64(5), "5 pods are left", ""},
		"taken since":        {web, `{}`, int64(0), unseen, ""},
		"Rollout":            {canary, `{observedGeneration: "2", replicas: 3, readyReplicas: 1}`, nil, "3 pods are left", "1 of 3 pods are ready"},
		"Rollout of old":     {canary, `{observedGeneration: "1", readyReplicas: 3}`, nil, unseen, unseen},
		"Rollout of a hash":  {canary, `{observedGeneration: 7d9f, readyReplicas: 3}`, nil, unseen, unseen},
		"kind without":       {bakery, `{readyReplicas: 2}`, int64(3), "", "2 of 3 pods are ready"},
		"kind with":          {bakery, `{observedGeneration: 1, readyReplicas: 3}`, int64(3), unseen, unseen},
		"kind, and it is so": {bakery, `{observedGeneration: 2, readyReplicas: 3}`, int64(3), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := object(t, test.kind, test.status)
			now := live{object: o, at: o, value: test.spec}
			if got := gone(now); got != test.gone {
				t.Errorf("gone: %q, want %q", got, test.gone)
			}
			if got := ready(now, 3); got != test.ready {
				t.Errorf("ready: %q, want %q", got, test.ready)
			}
			if got := ready(now, 0); got != "" {
				t.Errorf("ready of none: %q", got)
			}
		})
	}
}

// TestStepped is that a Rollout whose steps keep pods says so, in the middle of them.
func TestStepped(t *testing.T) {
	t.Parallel()
	const routed = "trafficRouting: {nginx: {stableIngress: web}}, "
	for name, test := range map[string]struct {
		strategy, status string
		want             bool
	}{
		"keeps pods":          {"canary: {" + routed + "steps: [{setCanaryScale: {replicas: 1}}, {pause: {}}]}", "{currentStepIndex: 1}", true},
		"without traffic":     {"canary: {steps: [{setCanaryScale: {replicas: 1}}, {pause: {}}]}", "{currentStepIndex: 1}", false},
		"will keep pods":      {"canary: {" + routed + "steps: [{pause: {}}, {setCanaryScale: {replicas: 1}}]}", "{currentStepIndex: 0}", false},
		"aborted":             {"canary: {" + routed + "steps: [{setCanaryScale: {replicas: 1}}, {pause: {}}]}", "{currentStepIndex: 1, abort: true}", false},
		"matches the traffic": {"canary: {" + routed + "steps: [{setCanaryScale: {replicas: 1}}, {setCanaryScale: {matchTrafficWeight: true}}]}", "{currentStepIndex: 1}", false},
		"keeps a share":       {"canary: {" + routed + "steps: [{setCanaryScale: {weight: 50}}]}", "{currentStepIndex: 0}", false},
		"is done":             {"canary: {" + routed + "steps: [{setCanaryScale: {replicas: 1}}]}", "{currentStepIndex: 1}", false},
		"before all steps":    {"canary: {" + routed + "steps: [{setCanaryScale: {replicas: 1}}]}", "{currentStepIndex: -2}", false},
		"without steps":       {"canary: {}", "{}", false},
		"between two colours": {"blueGreen: {}", "{}", false},
	} {
		rollout := executortest.Objects(t, "{apiVersion: argoproj.io/v1alpha1, kind: Rollout, spec: {strategy: {"+test.strategy+"}}, status: "+test.status+"}")[0]
		if got := stepped(rollout); (got != "") != test.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestPasses is that a Rollout whose steps would pass without pods does not sleep.
func TestPasses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec, status string
		want         bool
	}{
		"a weight":          {"", "currentStepIndex: 0, ", true},
		"a pause for hours": {"", "currentStepIndex: 1, ", true},
		"a pause":           {"", "currentStepIndex: 2, ", false},
		"it is paused":      {"paused: true, ", "currentStepIndex: 0, ", false},
		"it is aborted":     {"", "abort: true, currentStepIndex: 0, ", false},
		"it is through":     {"", "currentStepIndex: 3, ", false},
		"it does not say":   {"", "", false},
		"before all steps":  {"", "currentStepIndex: -1, ", false},
	} {
		rollout := executortest.Objects(t, "{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: a}, spec: {"+test.spec+"replicas: 4, strategy: {canary: {steps: [{setWeight: 25}, {pause: {duration: 2h}}, {pause: {}}]}}}, "+
			"status: {"+test.status+"replicas: 4, updatedReplicas: 1}}")[0]
		if err := mustStay(rollouts, rollout, int64(4)); (err != nil) != test.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEqual is that values are compared as JSON is, not as it is written.
func TestEqual(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{`0`, `0`, true}, {`0`, ` 0 `, true}, {`0`, `"0"`, false}, {`null`, `0`, false}, {`null`, `false`, false}, {`null`, `null`, true},
		{`{"a": 1, "b": [2]}`, `{"b":[2],"a":1}`, true}, {`{"a":1}`, `{"a":1,"b":null}`, false}, {`"<"`, `"\u003c"`, true},
	} {
		if got := equal(json.RawMessage(test.a), json.RawMessage(test.b)); got != test.want {
			t.Errorf("%s and %s: %t", test.a, test.b, got)
		}
	}
}
