package integration_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
)

var _ = Describe("A Component", func() {
	It("says who uses it, and goes when nobody does", func(ctx SpecContext) {
		c := &v1alpha1.Component{
			ObjectMeta: metav1.ObjectMeta{Name: "used"},
			Spec: v1alpha1.ComponentSpec{Type: v1alpha1.ComponentApp, Sources: []v1alpha1.ComponentSource{
				{RepoURL: "https://charts.example.com", Chart: "used", TargetRevision: "1.0.0"},
			}},
		}
		Expect(hub.client.Create(ctx, c)).To(Succeed())
		s := hub.newStage()
		e := s.create(experiment("user", onHub("web", "used")))
		s.reaches(e, v1alpha1.PhaseComplete)
		Eventually(func() string {
			return hub.kubectl(ctx, "get", "components.experiments.illm.io", "used", "--no-headers")
		}).
			Should(MatchRegexp(`^used +app +True +1 `))

		Expect(hub.client.Delete(ctx, c)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(hub.client.Get(ctx, client.ObjectKeyFromObject(c), c)).To(Succeed())
			ready := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReady)
			g.Expect(ready).NotTo(BeNil())
			g.Expect(ready.Reason).To(Equal(v1alpha1.ReasonInUse))
			g.Expect(ready.Message).To(ContainSubstring(s.namespace + "/user"))
		}).Should(Succeed())

		s.delete(e)
		s.gone(e)
		Eventually(func() bool {
			return apierrors.IsNotFound(hub.client.Get(ctx, client.ObjectKeyFromObject(c), c))
		}).Should(BeTrue())
	})
})
