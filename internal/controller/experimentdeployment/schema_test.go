package experimentdeployment

import (
	"testing"

	"github.com/labkeeper/labkeeper/api/experimentcontroller/v1alpha1"
	"github.com/labkeeper/labkeeper/test/crds"
)

const kind = "ExperimentDeployment"

var schemas = &crds.Rulebook{
	GroupVersion: v1alpha1.GroupVersion,
	Specs:        map[string]string{kind: `{sourceRef: {kind: Deployment, name: web}, overrideSpec: {replicas: 1}}`},
	All: []crds.Ruling{
		{
			Kind: kind, Field: "sourceRef", Says: "sourceRef cannot be changed: the twin is one of that workload; create another ExperimentDeployment",
			Takes:   []string{`{kind: Deployment, name: web}`},
			Refuses: []string{`{kind: Deployment, name: api}`, `{kind: Rollout, name: web}`, `{kind: Deployment, name: web, namespace: shop}`},
		},
		{
			Kind: kind, Field: "sourceRef", Says: "should match '^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$'",
			Takes: []string{`{kind: Deployment, name: web}`}, Refuses: []string{`{kind: Deployment, name: deployment/web}`, `{kind: Deployment, name: "100%"}`},
		},
		{
			Kind: kind, Field: "sourceRef", Says: "should match '^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$'",
			Takes: []string{`{kind: Deployment, name: web}`}, Refuses: []string{`{kind: Deployment, name: web, namespace: shop/web}`},
		},
		{Kind: kind, Field: "ttl", Says: "ttl must be longer than 0s", Takes: []string{"1ms", "1h30m", "null"}, Refuses: []string{"0s", "-1h"}},
		{
			Kind: kind, Field: "onUnready.after", Says: "after must be at least 10s",
			Takes: []string{"0s", "10s", "1h", "null"}, Refuses: []string{"9999ms", "1s", "-1m"},
		},
	},
}

// Every rule of the schema refuses what it should, and lets all else through.
func TestSchema(t *testing.T) { schemas.Try(t) }

// What has no rule is refused by its type: nothing is lost in silence.
func TestSchemaTypes(t *testing.T) {
	for at, values := range map[string][]string{
		"overrideSpec":    {"null", "[]", `"replicas: 1"`, "1"},
		"replicas":        {"-1", `"1"`, "1.5"},
		"mergeStrategy":   {"replace", `""`},
		"sourcePolicy":    {"Pin"},
		"onSourceDeleted": {"Orphan"},
		"onUnready":       {"{action: Delete}", "{action: ScaleToZero, before: 1m}"},
		"sourceRef":       {"{kind: DaemonSet, name: web}", `{kind: Deployment, name: ""}`, "{kind: Deployment}", "{name: web}"},
		"dryrun":          {"true"},
	} {
		for _, value := range values {
			if got := schemas.Wrong(t, kind, at, value); len(got) == 0 {
				t.Errorf("%s: %s is taken", at, value)
			}
		}
		if at == "dryrun" || at == "sourceRef" {
			continue
		}
		valid := map[string]string{
			"overrideSpec": "{}", "replicas": "0", "mergeStrategy": "Strategic", "sourcePolicy": "Pinned", "onSourceDeleted": "Delete", "onUnready": "{action: Keep}",
		}[at]
		if got := schemas.Wrong(t, kind, at, valid); len(got) > 0 {
			t.Errorf("%s: %s is refused: %q", at, valid, got)
		}
	}
}
