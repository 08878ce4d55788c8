package integration_test

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	hibernator "github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/twin"
)

var _ = Describe("CRDs that are deleted while there are objects of them", early, long, func() {
	It("go when everything is taken down, and come back to the same manager", func(ctx SpecContext) {
		l := startLab(ctx, ourCRDs, applicationCRD, otherCRDs)
		m := l.startManager("manager")
		s := l.newStage()
		l.world.watch(experiments, claims, applications, workflows, secrets, namespaces)
		there := &shop{lab: l, namespace: s.namespace}
		for _, round := range []string{"first", "second"} {
			l.apply(ctx, "config/samples/components.yaml", "config/samples/workflowtemplate.yaml")
			e := s.create(experiment(round, onGKE("app", "nginx")))
			there.create(ctx, strings.ReplaceAll(severalKinds, "Hibernated", "Awake"))
			s.reaches(e, v1alpha1.PhaseComplete)
			there.says(ctx, "beside", "Ready", metav1.ConditionTrue, twin.ReasonScaledToZero)
			plan := &hibernator.HibernatePlan{}
			Eventually(func(g Gomega) {
				g.Expect(l.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "asleep"}, plan)).To(Succeed())
				g.Expect(plan.Status.Phase).NotTo(BeEmpty(), "%+v", plan.Status.Conditions)
			}).Should(Succeed())

			l.kubectl(ctx, "delete", "--wait=false", "-f", fromRoot([]string{ourCRDs})[0])
			Eventually(func() string {
				return l.kubectl(ctx, "get", "crds", "-o", "name")
			}).WithTimeout(60 * time.Second).Should(And(Not(ContainSubstring("experiments.illm.io")), Not(ContainSubstring("experimentcontroller")), Not(ContainSubstring("hibernator"))))
			Expect(s.children(e)).To(BeEmpty())
			l.kubectl(ctx, "-n", s.namespace, "delete", "deployment", "base")

			l.install(ctx, ourCRDs)
		}
		Expect(m.Exited()).NotTo(BeClosed())
	})
})
