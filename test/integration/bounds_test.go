package integration_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
)

// bound annotates the Namespace of a stage, as whoever bounds its Experiments does.
func (s *stage) bound(annotation, value string) {
	GinkgoHelper()
	namespace := &corev1.Namespace{}
	Expect(s.client.Get(background(), client.ObjectKey{Name: s.namespace}, namespace)).To(Succeed())
	before := namespace.DeepCopy()
	metav1.SetMetaDataAnnotation(&namespace.ObjectMeta, annotation, value)
	Expect(s.client.Patch(background(), namespace, client.MergeFrom(before))).To(Succeed())
}

var _ = Describe("The Namespace of Experiments", func() {
	It("bounds those that are there already, too, as soon as it is changed", func() {
		s := hub.newStage(workflowEnds)
		e := experiment("bounded", onHub("web", "nginx"))
		e.Spec.Workflow.ServiceAccountName = "tests"
		s.create(e)
		s.says(e, v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalidSpec, v1alpha1.AnnotationServiceAccounts)

		By("granting the account that it waits for")
		s.bound(v1alpha1.AnnotationServiceAccounts, "load, tests")
		s.reaches(e, v1alpha1.PhaseRunning)

		By("moving what it has deployed to another project")
		s.bound(v1alpha1.AnnotationProject, "tenants")
		Eventually(func() string {
			project, _, _ := unstructured.NestedString(s.object(applications, s.application(e, "web")).Object, "spec", "project")
			return project
		}).Should(Equal("tenants"))

		By("taking the account away before the verdict")
		s.bound(v1alpha1.AnnotationServiceAccounts, "load")
		s.says(e, v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalidSpec, v1alpha1.AnnotationServiceAccounts)
		s.bound(v1alpha1.AnnotationServiceAccounts, "tests")
		s.release(workflowEnds)
		s.reaches(e, v1alpha1.PhaseComplete)
	})
})
