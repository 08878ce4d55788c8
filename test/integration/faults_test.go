package integration_test

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/test/env"
)

// fault is something that goes wrong beside an Experiment, and what the Experiment says.
type fault struct {
	name string
	// holds are the steps that the outsides do not take by themselves.
	holds []hold
	// prepare changes the Experiment and its stage before it is created.
	prepare func(s *stage, e *v1alpha1.Experiment)
	// strike makes it go wrong.
	strike func(s *stage, e *v1alpha1.Experiment)
	// condition and reason that say so, the phase, and what the message names.
	condition, reason string
	phase             v1alpha1.Phase
	names             func(s *stage, e *v1alpha1.Experiment) []string
	// cure mends it; nil for an end that is final.
	cure func(s *stage, e *v1alpha1.Experiment)
}

// struck is a fault on its stage.
type struck struct {
	fault
	stage      *stage
	experiment *v1alpha1.Experiment
}

func (f fault) bring() *struck {
	GinkgoHelper()
	s := hub.newStage(f.holds...)
	e := tutorial()
	if f.prepare != nil {
		f.prepare(s, e)
	}
	return &struck{f, s, s.create(e)}
}

func releaseAll(s *stage, _ *v1alpha1.Experiment) { s.release() }

func words(words ...string) func(*stage, *v1alpha1.Experiment) []string {
	return func(*stage, *v1alpha1.Experiment) []string { return words }
}

func namesClaim(more ...string) func(*stage, *v1alpha1.Experiment) []string {
	return func(s *stage, e *v1alpha1.Experiment) []string {
		return append([]string{"GKECluster " + s.claim(e, "app").String()}, more...)
	}
}

func namesConnection(more ...string) func(*stage, *v1alpha1.Experiment) []string {
	return func(s *stage, e *v1alpha1.Experiment) []string {
		return append([]string{"Secret " + crossplaneNamespace + "/" + connectionSecret(s.claim(e, "app").Name)}, more...)
	}
}

func namesApplication(more ...string) func(*stage, *v1alpha1.Experiment) []string {
	return func(s *stage, e *v1alpha1.Experiment) []string {
		return append([]string{"Application " + s.application(e, "app").String()}, more...)
	}
}

func namesWorkflow(more ...string) func(*stage, *v1alpha1.Experiment) []string {
	return func(s *stage, e *v1alpha1.Experiment) []string {
		return append([]string{"Workflow " + s.workflow(e).String()}, more...)
	}
}

// claimSays has Crossplane write a status.
func claimSays(status map[string]any) func(*stage, *v1alpha1.Experiment) {
	return func(s *stage, e *v1alpha1.Experiment) {
		s.say(claims, s.claim(e, "app"), func(*unstructured.Unstructured) map[string]any { return status }, "status")
	}
}

// applicationSays has Argo CD write a status.
func applicationSays(health, sync string, more map[string]any) func(*stage, *v1alpha1.Experiment) {
	return func(s *stage, e *v1alpha1.Experiment) {
		s.say(applications, s.application(e, "app"), func(u *unstructured.Unstructured) map[string]any {
			return applicationStatus(u, health, sync, more)
		})
	}
}

// workflowSays has Argo Workflows write a status.
func workflowSays(status map[string]any) func(*stage, *v1alpha1.Experiment) {
	return func(s *stage, e *v1alpha1.Experiment) {
		s.reaches(e, v1alpha1.PhaseRunning)
		s.say(workflows, s.workflow(e), func(*unstructured.Unstructured) map[string]any { return status })
	}
}

// leaves has Crossplane leave another kubeconfig.
func leaves(kubeconfig string) func(*stage, *v1alpha1.Experiment) {
	return func(s *stage, _ *v1alpha1.Experiment) { s.kubeconfig = kubeconfig }
}

// replaceKubeconfig has Crossplane write a good one.
func replaceKubeconfig(s *stage, e *v1alpha1.Experiment) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: crossplaneNamespace, Name: connectionSecret(s.claim(e, "app").Name)}
	Expect(s.client.Get(background(), key, secret)).To(Succeed())
	secret.Data = map[string][]byte{"kubeconfig": []byte(kubeconfig(""))}
	Expect(s.client.Update(background(), secret)).To(Succeed())
}

// needs has the app target use a Component of its own.
func needs(name string) func(*stage, *v1alpha1.Experiment) {
	return func(_ *stage, e *v1alpha1.Experiment) { e.Spec.Targets[0].Components[0].App = name }
}

// createComponent creates a Component that goes with the suite.
func createComponent(c *v1alpha1.Component) {
	GinkgoHelper()
	Expect(hub.client.Create(background(), c)).To(Succeed())
}

func editComponent(name string, change func(*v1alpha1.Component)) {
	GinkgoHelper()
	c := &v1alpha1.Component{}
	Expect(hub.client.Get(background(), client.ObjectKey{Name: name}, c)).To(Succeed())
	change(c)
	Expect(hub.client.Update(background(), c)).To(Succeed())
}

var failedNodes = map[string]any{
	"a": map[string]any{"id": "a", "name": "a", "displayName": "a", "type": "Steps", "phase": "Failed", "message": "child 'b' failed"},
	"b": map[string]any{"id": "b", "name": "b", "displayName": "measure", "type": "Pod", "phase": "Failed", "message": "exit code 3"},
	"c": map[string]any{"id": "c", "name": "c", "displayName": "fine", "type": "Pod", "phase": "Succeeded"},
}

var faults = []fault{
	{
		name: "a claim that never becomes ready", holds: []hold{clusterReady},
		strike:    claimSays(claimStatus("False", "Creating", "Claim is waiting for composite", "True", "ReconcileSuccess", "")),
		condition: v1alpha1.ConditionClustersReady, reason: v1alpha1.ReasonClusterProvisioning, phase: v1alpha1.PhaseProvisioning,
		names: namesClaim("Creating", "Claim is waiting for composite"), cure: releaseAll,
	},
	{
		name: "a claim that Crossplane cannot reconcile", holds: []hold{clusterReady},
		strike:    claimSays(claimStatus("False", "Creating", "", "False", "ReconcileError", "Quota NETWORKS exceeded")),
		condition: v1alpha1.ConditionClustersReady, reason: v1alpha1.ReasonClusterFailed, phase: v1alpha1.PhaseProvisioning,
		names: namesClaim("ReconcileError", "Quota NETWORKS exceeded"), cure: releaseAll,
	},
	{
		name: "a connection Secret that is missing", holds: []hold{connection},
		condition: v1alpha1.ConditionClustersReady, reason: v1alpha1.ReasonKubeconfigMissing, phase: v1alpha1.PhaseProvisioning,
		names: namesConnection("kubeconfig"), cure: releaseAll,
	},
	{
		name: "a kubeconfig that is none", prepare: leaves("# Placeholder\nusers: *" + canary + "\n"), // the parser quotes it
		condition: v1alpha1.ConditionClustersReady, reason: v1alpha1.ReasonKubeconfigInvalid, phase: v1alpha1.PhaseProvisioning,
		names: namesConnection("kubeconfig"), cure: replaceKubeconfig,
	},
	{
		name: "a kubeconfig of another kind", prepare: leaves("apiVersion: v1\nkind: " + canary + "\n"),
		condition: v1alpha1.ConditionClustersReady, reason: v1alpha1.ReasonKubeconfigInvalid, phase: v1alpha1.PhaseProvisioning,
		names: namesConnection("kubeconfig"),
	},
	{
		name: "a kubeconfig with an exec plugin",
		prepare: leaves(kubeconfig(", exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: gke-gcloud-auth-plugin, " +
			"args: [" + canary + "], env: [{name: TOKEN, value: " + canary + "}]}")),
		condition: v1alpha1.ConditionClustersReady, reason: v1alpha1.ReasonKubeconfigInvalid, phase: v1alpha1.PhaseProvisioning,
		names: namesConnection("exec"),
	},
	{
		name: "an Application that is Degraded", holds: []hold{applicationHealthy},
		strike: applicationSays("Degraded", "Synced", map[string]any{"resources": []any{map[string]any{
			"group": "apps", "version": "v1", "kind": "Deployment", "namespace": "x", "name": "web", "status": "Synced",
			"health": map[string]any{"status": "Degraded", "message": "exceeded its progress deadline"},
		}}}),
		condition: v1alpha1.ConditionApplicationsHealthy, reason: v1alpha1.ReasonApplicationDegraded, phase: v1alpha1.PhaseReady,
		names: namesApplication("Deployment web", "exceeded its progress deadline"), cure: releaseAll,
	},
	{
		name: "an Application that is Degraded and OutOfSync", holds: []hold{applicationHealthy},
		strike:    applicationSays("Degraded", "OutOfSync", nil),
		condition: v1alpha1.ConditionApplicationsHealthy, reason: v1alpha1.ReasonApplicationDegraded, phase: v1alpha1.PhaseReady,
		names: namesApplication(),
	},
	{
		name: "an Application that is Missing", holds: []hold{applicationHealthy},
		strike:    applicationSays("Missing", "OutOfSync", nil),
		condition: v1alpha1.ConditionApplicationsHealthy, reason: v1alpha1.ReasonApplicationMissing, phase: v1alpha1.PhaseReady,
		names: namesApplication(), cure: releaseAll,
	},
	{
		name: "an Application that is Healthy with a ComparisonError", holds: []hold{applicationHealthy},
		strike: applicationSays("Healthy", "Unknown", map[string]any{"conditions": []any{
			map[string]any{"type": "ComparisonError", "message": "app path does not exist"},
		}}),
		condition: v1alpha1.ConditionApplicationsHealthy, reason: v1alpha1.ReasonApplicationError, phase: v1alpha1.PhaseReady,
		names: namesApplication("ComparisonError", "app path does not exist"), cure: releaseAll,
	},
	{
		name: "an Application that is Healthy and Unknown", holds: []hold{applicationHealthy},
		strike:    applicationSays("Healthy", "Unknown", nil),
		condition: v1alpha1.ConditionApplicationsHealthy, reason: v1alpha1.ReasonApplicationError, phase: v1alpha1.PhaseReady,
		names: namesApplication(),
	},
	{
		name: "an Application that is Healthy and OutOfSync", holds: []hold{applicationHealthy},
		strike:    applicationSays("Healthy", "OutOfSync", nil),
		condition: v1alpha1.ConditionApplicationsHealthy, reason: v1alpha1.ReasonApplicationProgressing, phase: v1alpha1.PhaseReady,
		names: namesApplication("OutOfSync"), cure: releaseAll,
	},
	{
		name: "an Application whose sync fails", holds: []hold{applicationHealthy},
		strike: applicationSays("Healthy", "OutOfSync", map[string]any{"operationState": map[string]any{
			"phase": "Failed", "message": "one or more objects failed to apply", "startedAt": "2026-01-01T00:00:00Z",
			"operation": map[string]any{"sync": map[string]any{}},
		}}),
		condition: v1alpha1.ConditionApplicationsHealthy, reason: v1alpha1.ReasonApplicationError, phase: v1alpha1.PhaseReady,
		names: namesApplication("one or more objects failed to apply"),
	},
	{
		name: "an Application that is Healthy at older sources", holds: []hold{applicationHealthy},
		strike: applicationSays("Healthy", "Synced", map[string]any{"sync": map[string]any{
			"status": "Synced", "comparedTo": map[string]any{"sources": []any{map[string]any{"repoURL": "https://old.example.com"}}, "destination": map[string]any{}},
		}}),
		condition: v1alpha1.ConditionApplicationsHealthy, reason: v1alpha1.ReasonApplicationProgressing, phase: v1alpha1.PhaseReady,
		names: namesApplication(), cure: releaseAll,
	},
	{
		name: "a Workflow that fails", holds: []hold{workflowEnds},
		strike:    workflowSays(map[string]any{"phase": "Failed", "message": "child 'b' failed", "nodes": failedNodes}),
		condition: v1alpha1.ConditionWorkflowSucceeded, reason: v1alpha1.ReasonWorkflowFailed, phase: v1alpha1.PhaseFailed,
		names: namesWorkflow("measure", "exit code 3"),
	},
	{
		name: "a Workflow that cannot be run", holds: []hold{workflowEnds},
		strike:    workflowSays(map[string]any{"phase": "Error", "message": "serviceaccount not found"}),
		condition: v1alpha1.ConditionWorkflowSucceeded, reason: v1alpha1.ReasonWorkflowError, phase: v1alpha1.PhaseFailed,
		names: namesWorkflow("serviceaccount not found"),
	},
	{
		name: "a Workflow that somebody deletes", holds: []hold{workflowEnds},
		strike: func(s *stage, e *v1alpha1.Experiment) {
			s.reaches(e, v1alpha1.PhaseRunning)
			Expect(s.client.Delete(background(), s.object(workflows, s.workflow(e)))).To(Succeed())
		},
		condition: v1alpha1.ConditionWorkflowSucceeded, reason: v1alpha1.ReasonWorkflowDeleted, phase: v1alpha1.PhaseFailed,
		names: namesWorkflow(),
	},
	{
		name:      "a WorkflowTemplate that is missing",
		prepare:   func(_ *stage, e *v1alpha1.Experiment) { e.Spec.Workflow.Template = "late-template" },
		condition: v1alpha1.ConditionWorkflowSucceeded, reason: v1alpha1.ReasonWorkflowTemplateNotFound, phase: v1alpha1.PhaseReady,
		names: words("WorkflowTemplate " + workflowNamespace + "/late-template"),
		cure: func(s *stage, _ *v1alpha1.Experiment) {
			u := &unstructured.Unstructured{}
			Expect(yaml.Unmarshal([]byte("{apiVersion: argoproj.io/v1alpha1, kind: WorkflowTemplate, metadata: {name: late-template, namespace: "+
				workflowNamespace+"}, spec: {entrypoint: x}}"), &u.Object)).To(Succeed())
			Expect(s.client.Create(background(), u)).To(Succeed())
		},
	},
	{
		name: "a Component that is missing", prepare: needs("late-component"),
		condition: v1alpha1.ConditionComponentsResolved, reason: v1alpha1.ReasonComponentNotFound, phase: v1alpha1.PhasePending,
		names: words("Component late-component"),
		cure: func(*stage, *v1alpha1.Experiment) {
			createComponent(component("late-component", v1alpha1.ComponentApp))
		},
	},
	{
		name: "a Component of another type",
		prepare: func(s *stage, e *v1alpha1.Experiment) {
			createComponent(component("other-type", v1alpha1.ComponentConfig))
			needs("other-type")(s, e)
		},
		condition: v1alpha1.ConditionComponentsResolved, reason: v1alpha1.ReasonComponentTypeMismatch, phase: v1alpha1.PhasePending,
		names: words("Component other-type", "config"),
		cure: func(*stage, *v1alpha1.Experiment) {
			editComponent("other-type", func(c *v1alpha1.Component) { c.Spec.Type = v1alpha1.ComponentApp })
		},
	},
	{
		name: "a required parameter that is not set",
		prepare: func(s *stage, e *v1alpha1.Experiment) {
			c := component("demanding", v1alpha1.ComponentApp)
			c.Spec.Sources[0] = v1alpha1.ComponentSource{RepoURL: "https://charts.example.com", Chart: "demanding", TargetRevision: "1.0.0"}
			c.Spec.Parameters = []v1alpha1.ComponentParameter{{Name: "auth.password", Required: true}}
			createComponent(c)
			needs("demanding")(s, e)
		},
		condition: v1alpha1.ConditionComponentsResolved, reason: v1alpha1.ReasonInvalidParameters, phase: v1alpha1.PhasePending,
		names: words("demanding", "auth.password"),
		cure: func(s *stage, e *v1alpha1.Experiment) {
			Expect(s.edit(e, func(e *v1alpha1.Experiment) {
				e.Spec.Targets[0].Components[0].Params = map[string]string{"auth.password": "x"}
			})).To(Succeed())
		},
	},
	{
		name: "a parameter of the wrong type",
		prepare: func(_ *stage, e *v1alpha1.Experiment) {
			e.Spec.Targets[0].Components[0].Params = map[string]string{"replicaCount": "many"}
		},
		condition: v1alpha1.ConditionComponentsResolved, reason: v1alpha1.ReasonInvalidParameters, phase: v1alpha1.PhasePending,
		names: words("nginx", "replicaCount", "integer"),
	},
	{
		name: "a workflow parameter that the manager sets",
		prepare: func(_ *stage, e *v1alpha1.Experiment) {
			e.Spec.Workflow.Params = map[string]string{"app-endpoint": "x"}
		},
		condition: v1alpha1.ConditionAccepted, reason: v1alpha1.ReasonInvalidSpec, phase: v1alpha1.PhasePending,
		names: words("spec.workflow.params", "app-endpoint"),
	},
}

var _ = Describe("What goes wrong outside", Ordered, ContinueOnFailure, func() {
	all := make([]*struck, len(faults))
	var cured bool
	BeforeAll(func() { // all at once: most of it is waiting
		for i, f := range faults {
			all[i] = f.bring()
		}
		for _, f := range all {
			if f.strike != nil {
				f.strike(f.stage, f.experiment)
			}
		}
	})

	for i, f := range faults {
		It("says of "+f.name+" what failed", func() {
			s, e := all[i].stage, all[i].experiment
			s.says(e, f.condition, f.reason, f.names(s, e)...)
			s.says(e, v1alpha1.ConditionReady, f.reason)
			now := s.reaches(e, f.phase)
			Expect(now.Status.CompletedAt != nil).To(Equal(f.phase == v1alpha1.PhaseFailed))
			for _, c := range now.Status.Conditions {
				Expect(c.Message).NotTo(ContainSubstring("\n"))
			}
		})
	}

	It("tries nothing hot", func() {
		const window = 2 * time.Second
		Eventually(func(g Gomega) {
			requests := hub.requests(time.Now().Add(-window), time.Now())
			for _, f := range all {
				allowed := 0 // what would mend it is watched
				if f.reason == v1alpha1.ReasonKubeconfigMissing || f.reason == v1alpha1.ReasonKubeconfigInvalid {
					allowed = 2 // Secrets are not: they are looked for again, now and then
				}
				g.Expect(len(concerning(requests, f.stage, f.experiment))).To(BeNumerically("<=", allowed), f.name)
			}
		}).WithPolling(window / 2).Should(Succeed())
	})

	It("never shows what is in a kubeconfig", func() {
		Expect(shared.log()).NotTo(ContainSubstring(canary))
		for _, f := range all {
			status, err := json.Marshal(f.stage.get(f.experiment))
			Expect(err).NotTo(HaveOccurred())
			Expect(string(status)).NotTo(ContainSubstring(canary), f.name)
			events, err := json.Marshal(f.stage.eventsOf(f.experiment))
			Expect(err).NotTo(HaveOccurred())
			Expect(string(events)).NotTo(ContainSubstring(canary), f.name)
			if f.reason == v1alpha1.ReasonKubeconfigInvalid {
				Expect(f.stage.children(f.experiment)).To(HaveLen(1), "only the claim of "+f.name)
			}
		}
	})

	It("can be cured", func() {
		for _, f := range all {
			Expect(f.stage.phases(f.experiment)).NotTo(ContainElement(v1alpha1.PhaseComplete), f.name)
			if f.cure != nil {
				f.cure(f.stage, f.experiment)
			}
		}
		cured = true
	})

	for i, f := range faults {
		if f.cure == nil {
			continue
		}
		It("goes on after "+f.name, func() {
			Expect(cured).To(BeTrue())
			s, e := all[i].stage, all[i].experiment
			s.reaches(e, v1alpha1.PhaseComplete)
			Expect(slices.IsSortedFunc(s.phases(e), func(a, b v1alpha1.Phase) int { return far(a) - far(b) })).To(BeTrue(), "%v", s.phases(e))
		})
	}

	It("never completes what is not cured", func() {
		for _, f := range all {
			if f.cure == nil {
				Expect(f.stage.phases(f.experiment)).NotTo(ContainElement(v1alpha1.PhaseComplete), f.name)
				f.stage.reaches(f.experiment, f.phase)
			}
		}
	})
})

// far is how far a phase is down the road.
func far(phase v1alpha1.Phase) int {
	return slices.Index([]v1alpha1.Phase{
		v1alpha1.PhasePending, v1alpha1.PhaseProvisioning, v1alpha1.PhaseReady, v1alpha1.PhaseRunning, v1alpha1.PhaseComplete,
	}, phase)
}

// concerning are the requests for an Experiment and what belongs to it. Lists, which name
// nothing, are not attributed to anybody.
func concerning(requests []env.Request, s *stage, e *v1alpha1.Experiment) []env.Request {
	names := []string{s.workflow(e).Name}
	for _, t := range e.Spec.Targets {
		names = append(names, s.application(e, t.Name).Name, s.claim(e, t.Name).Name)
	}
	return slices.DeleteFunc(slices.Clone(requests), func(r env.Request) bool {
		return r.Verb == "watch" || r.Namespace != s.namespace && (r.Name == template || r.Name != e.Spec.Workflow.Template) &&
			!slices.ContainsFunc(names, func(name string) bool { return strings.Contains(r.Name, name) })
	})
}
