package hibernateplan

import (
	"testing"

	"k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// The audit policy that is recommended records what runners do, and who has asked for it, but no credentials.
func TestAuditPolicy(t *testing.T) {
	p, err := policy.LoadPolicyFromFile("../../../config/audit/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	evaluator := policy.NewPolicyRuleEvaluator(p)
	runner := &user.DefaultInfo{
		Name:   "system:serviceaccount:labkeeper-system:night-front-1-1-shutdown-1-s76nfql3",
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:labkeeper-system", "system:authenticated"},
	}
	jane := &user.DefaultInfo{Name: "jane", Groups: []string{"system:authenticated"}}
	for name, test := range map[string]struct {
		who                              user.Info
		verb, group, resource, subobject string
		want                             audit.Level
	}{
		"a runner stops a workload":      {runner, "update", "apps", "deployments", "scale", audit.LevelRequest},
		"a runner looks at one":          {runner, "get", "apps", "deployments", "", audit.LevelNone},
		"a runner saves a restore point": {runner, "update", "", "configmaps", "", audit.LevelMetadata},
		"the manager makes a Secret":     {runner, "create", "", "secrets", "", audit.LevelMetadata},
		"the manager makes a Job":        {runner, "create", "batch", "jobs", "", audit.LevelRequest},
		"the manager keeps its Lease":    {runner, "update", "coordination.k8s.io", "leases", "", audit.LevelNone},
		"a token":                        {runner, "create", "", "serviceaccounts", "token", audit.LevelMetadata},
		"who reads metrics":              {runner, "create", "authentication.k8s.io", "tokenreviews", "", audit.LevelMetadata},
		"somebody writes a plan":         {jane, "create", "hibernator.ardikabs.com", "hibernateplans", "", audit.LevelRequest},
		"somebody writes a Deployment":   {jane, "update", "apps", "deployments", "", audit.LevelNone},
	} {
		got := evaluator.EvaluatePolicyRule(authorizer.AttributesRecord{
			User: test.who, Verb: test.verb, APIGroup: test.group, Resource: test.resource, Subresource: test.subobject, Namespace: "shop", ResourceRequest: true,
		})
		if got.Level != test.want {
			t.Errorf("%s: %s, not %s", name, got.Level, test.want)
		}
	}
}
