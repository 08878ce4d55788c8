package integration_test

import (
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	twins "github.com/labkeeper/labkeeper/api/experimentcontroller/v1alpha1"
	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
)

// A Rollout of a Deployment, and its twin.
const (
	laterTwin = `
apiVersion: experimentcontroller.example.com/v1alpha1
kind: ExperimentDeployment
metadata: {name: rolled}
spec:
  sourceRef: {kind: Rollout, name: web}
  replicas: 0
  overrideSpec: {}
`
	laterRollout = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: base}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web, version: "1"}}
    spec: {containers: [{name: web, image: "example/web:1"}]}
---
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: web}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: base}
  strategy: {canary: {}}
`
)

var _ = Describe("A cluster without the kinds of the outsides", Ordered, long, func() {
	var bare *lab
	var m *manager
	var s *stage
	var onlyHub, withGKE *v1alpha1.Experiment
	BeforeAll(func(ctx SpecContext) {
		bare = startLab(ctx, ourCRDs)
		m = bare.startManager("manager")
		s = bare.newStage()
		bare.apply(ctx, "config/samples/components.yaml")
		bare.world.watch(experiments, secrets, namespaces)
		onlyHub = s.create(experiment("only-hub", onHub("web", "nginx")))
		withGKE = s.create(tutorial())
	})

	It("keeps the manager up and is named in a condition", func() {
		s.says(onlyHub, v1alpha1.ConditionApplicationsHealthy, v1alpha1.ReasonCRDMissing, "Application.argoproj.io")
		s.says(onlyHub, v1alpha1.ConditionWorkflowSucceeded, v1alpha1.ReasonCRDMissing, "Workflow.argoproj.io")
		s.says(onlyHub, v1alpha1.ConditionReady, v1alpha1.ReasonCRDMissing, "Application.argoproj.io")
		s.says(withGKE, v1alpha1.ConditionClustersReady, v1alpha1.ReasonCRDMissing, "GKECluster.illm.io")
		s.says(withGKE, v1alpha1.ConditionReady, v1alpha1.ReasonCRDMissing, "GKECluster.illm.io")
		Expect(s.get(onlyHub).Status.StartedAt).To(BeNil())
		Expect(m.Exited()).NotTo(BeClosed())
	})

	It("lets an Experiment that has begun nothing go", func() {
		e := s.create(experiment("short", onGKE("app", "nginx")))
		s.says(e, v1alpha1.ConditionReady, v1alpha1.ReasonCRDMissing)
		s.delete(e)
		s.gone(e)
	})

	It("goes on kind by kind as they are installed", func(ctx SpecContext) {
		bare.install(ctx, applicationCRD)
		bare.world.watch(applications)
		s.says(onlyHub, v1alpha1.ConditionApplicationsHealthy, v1alpha1.ReasonPending)
		s.says(onlyHub, v1alpha1.ConditionReady, v1alpha1.ReasonCRDMissing, "Workflow.argoproj.io")

		bare.install(ctx, otherCRDs+"/workflow.yaml", otherCRDs+"/workflowtemplate.yaml")
		bare.world.watch(workflows)
		s.says(onlyHub, v1alpha1.ConditionWorkflowSucceeded, v1alpha1.ReasonWorkflowTemplateNotFound, template)
		bare.apply(ctx, "config/samples/workflowtemplate.yaml")
		s.reaches(onlyHub, v1alpha1.PhaseComplete)
		s.says(withGKE, v1alpha1.ConditionReady, v1alpha1.ReasonCRDMissing, "GKECluster.illm.io")

		bare.install(ctx, otherCRDs+"/gkecluster.yaml")
		bare.world.watch(claims)
		s.reaches(withGKE, v1alpha1.PhaseComplete)
		Expect(m.Exited()).NotTo(BeClosed())
	})

	It("has twins of Rollouts when there are any, which follow what those are made of", func(ctx SpecContext) {
		shop := &shop{lab: bare, namespace: s.namespace}
		shop.create(ctx, laterTwin)
		shop.says(ctx, "rolled", twins.ConditionSourceFound, metav1.ConditionFalse, twins.ReasonKindUnavailable)
		bare.install(ctx, "bin/crds/argo-rollouts/rollout-crd.yaml")
		shop.says(ctx, "rolled", twins.ConditionSourceFound, metav1.ConditionFalse, twins.ReasonSourceNotFound)
		shop.create(ctx, laterRollout)
		label := func(g Gomega) string {
			e := shop.get(ctx, "rolled")
			g.Expect(e.Status.ExperimentResourceRef).NotTo(BeNil(), "%+v", e.Status.Conditions)
			value, _, _ := unstructured.NestedString(shop.twin(ctx, e).Object, "spec", "template", "metadata", "labels", "version")
			return value
		}
		Eventually(label).Should(Equal("1"))
		bare.kubectl(ctx, "-n", s.namespace, "patch", "deployment", "base", "--type=merge", "-p", `{"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}}`)
		Eventually(label).Should(Equal("2"))
	})

	It("says Forbidden when a right is missing, and goes on when it is back", func() {
		role := &rbacv1.Role{}
		Expect(s.client.Get(background(), client.ObjectKey{Namespace: workflowNamespace, Name: "labkeeper-manager"}, role)).To(Succeed())
		before := role.DeepCopy()
		for i, rule := range role.Rules {
			if slices.Contains(rule.Resources, "workflows") {
				role.Rules[i].Verbs = slices.DeleteFunc(rule.Verbs, func(verb string) bool { return verb == "create" })
			}
		}
		Expect(s.client.Update(background(), role)).To(Succeed())

		e := s.create(experiment("forbidden", onHub("web", "nginx")))
		s.says(e, v1alpha1.ConditionWorkflowSucceeded, v1alpha1.ReasonForbidden, "Workflow")
		s.says(e, v1alpha1.ConditionReady, v1alpha1.ReasonForbidden, "Workflow")

		before.ResourceVersion = ""
		Expect(s.client.Update(background(), before)).To(Succeed())
		s.reaches(e, v1alpha1.PhaseComplete)
		Expect(m.Exited()).NotTo(BeClosed())
	})
})
