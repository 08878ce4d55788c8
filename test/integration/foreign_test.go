package integration_test

import (
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/test/env"
)

var _ = Describe("An object that is not ours under the name of a child", func() {
	DescribeTable("is neither adopted, changed nor deleted",
		func(resource schema.GroupVersionResource, kind string, name func(*stage, *v1alpha1.Experiment) types.NamespacedName,
			condition string, labels map[string]string, content map[string]any) {
			s := hub.newStage()
			By("learning the names of an Experiment that begins nothing")
			e := tutorial()
			e.Spec.Targets[0].Depends = []string{"loadgen"}
			e = s.create(e)
			s.says(e, v1alpha1.ConditionAccepted, v1alpha1.ReasonDependencyCycle)

			foreign := &unstructured.Unstructured{Object: content}
			foreign.SetGroupVersionKind(resource.GroupVersion().WithKind(kind))
			key := name(s, e)
			foreign.SetNamespace(key.Namespace)
			foreign.SetName(key.Name)
			foreign.SetLabels(labels)
			Expect(s.client.Create(background(), foreign)).To(Succeed())
			DeferCleanup(func() { Expect(client.IgnoreNotFound(s.client.Delete(background(), foreign))).To(Succeed()) })
			before := s.object(resource, key)

			By("letting it begin")
			Expect(s.edit(e, func(e *v1alpha1.Experiment) { e.Spec.Targets[0].Depends = nil })).To(Succeed())
			is := kind + " " + strings.TrimPrefix(key.String(), "/")
			s.says(e, condition, v1alpha1.ReasonNameTaken, is)
			s.says(e, v1alpha1.ConditionReady, v1alpha1.ReasonNameTaken, is)
			Expect(s.phases(e)).NotTo(ContainElement(v1alpha1.PhaseComplete))

			By("trying again, ever more rarely")
			from, asked := time.Now(), "create"
			if resource == namespaces { // which the manager has others create
				asked = "get"
			}
			Consistently(func() any { return s.object(resource, key) }).Should(Equal(before))
			tries := slices.DeleteFunc(hub.requests(from, from.Add(time.Second)), func(r env.Request) bool {
				return r.Verb != asked || r.Resource != resource.Resource || r.Name != key.Name
			})
			Expect(len(tries)).To(BeNumerically("<=", 3), "a second of waits that double from 0.2 s")

			By("deleting the Experiment")
			s.delete(e)
			s.gone(e)
			Expect(s.object(resource, key)).To(Equal(before))
			Expect(s.children(e)).To(BeEmpty())
		},
		Entry("a claim", claims, "GKECluster", ofTarget((*stage).claim), v1alpha1.ConditionClustersReady, nil,
			map[string]any{"spec": map[string]any{"zone": "asia-east1-a"}}),
		Entry("a Secret", secrets, "Secret", ofTarget((*stage).clusterSecret), v1alpha1.ConditionClustersReady, nil,
			map[string]any{"data": map[string]any{"name": "eA=="}}),
		Entry("an Application", applications, "Application", ofTarget((*stage).application), v1alpha1.ConditionApplicationsHealthy, nil, anApplication()),
		Entry("an Application of another Experiment", applications, "Application", ofTarget((*stage).application), v1alpha1.ConditionApplicationsHealthy,
			map[string]string{v1alpha1.LabelExperimentUID: "11111111-2222-3333-4444-555555555555"}, anApplication()),
		Entry("a Workflow", workflows, "Workflow", (*stage).workflow, v1alpha1.ConditionWorkflowSucceeded, nil,
			map[string]any{"spec": map[string]any{}, "status": map[string]any{"phase": "Succeeded"}}),
		Entry("the namespace of a target on the hub", namespaces, "Namespace", (*stage).loadgenNamespace, v1alpha1.ConditionApplicationsHealthy,
			map[string]string{"team": "shop"}, map[string]any{}),
	)
})

// ofTarget names the child of the app target.
func ofTarget(name func(*stage, *v1alpha1.Experiment, string) types.NamespacedName) func(*stage, *v1alpha1.Experiment) types.NamespacedName {
	return func(s *stage, e *v1alpha1.Experiment) types.NamespacedName { return name(s, e, "app") }
}

// loadgenNamespace names that of the target on the hub.
func (s *stage) loadgenNamespace(e *v1alpha1.Experiment) types.NamespacedName {
	return types.NamespacedName{Name: s.hubNamespace(e, "loadgen")}
}

func anApplication() map[string]any {
	return map[string]any{"spec": map[string]any{
		"project": "theirs", "destination": map[string]any{"name": "theirs"},
		"source": map[string]any{"repoURL": "https://git.example.com/theirs.git", "path": "x"},
	}}
}
