package integration_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
)

var _ = Describe("A virtual cluster", func() {
	It("is in a namespace of its own, where the manager may read Secrets, and nowhere else", func(ctx SpecContext) {
		s := hub.newStage()
		e := s.create(experiment("virtual", target("app", v1alpha1.ClusterVCluster, "nginx", nil)))
		By("waiting for the right to make one")
		s.says(e, v1alpha1.ConditionClustersReady, v1alpha1.ReasonForbidden, "namespaces")
		hub.apply(ctx, "config/grants/vcluster.yaml")
		By("making it")
		now := s.reaches(e, v1alpha1.PhaseComplete)
		Expect(now.Status.Targets[0].Endpoint).To(Equal("https://" + clusterEndpoint + ":443"))

		home := &corev1.NamespaceList{}
		Expect(hub.client.List(ctx, home, client.MatchingLabels{v1alpha1.LabelExperimentUID: string(e.UID)})).To(Succeed())
		Expect(home.Items).To(HaveLen(1))
		Expect(home.Items[0].Labels).To(HaveKeyWithValue("pod-security.kubernetes.io/enforce", "baseline"))
		bindings := &rbacv1.RoleBindingList{}
		Expect(hub.client.List(ctx, bindings, client.InNamespace(home.Items[0].Name))).To(Succeed())
		Expect(bindings.Items).To(HaveLen(1))
		Expect(bindings.Items[0].Subjects).To(ConsistOf(rbacv1.Subject{Kind: "ServiceAccount", Namespace: managerNamespace, Name: managerAccount}))
		Expect(hub.mayReadSecrets(ctx, home.Items[0].Name)).To(BeTrue())
		Expect(hub.mayReadSecrets(ctx, s.namespace)).To(BeFalse())

		s.delete(e)
		s.gone(e)
		Eventually(func(g Gomega) {
			left := &corev1.NamespaceList{}
			g.Expect(hub.client.List(ctx, left, client.MatchingLabels{v1alpha1.LabelExperimentUID: string(e.UID)})).To(Succeed())
			g.Expect(left.Items).To(BeEmpty())
		}).Should(Succeed())
	})
})

// mayReadSecrets asks the API server whether the manager may read the Secrets of a namespace.
func (l *lab) mayReadSecrets(ctx context.Context, namespace string) bool {
	GinkgoHelper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               managerUser,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "get", Resource: "secrets"},
	}}
	Expect(l.client.Create(ctx, review)).To(Succeed())
	return review.Status.Allowed
}
