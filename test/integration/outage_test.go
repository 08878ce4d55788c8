package integration_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
)

var _ = Describe("An API server that is away for longer than a leader may be silent", early, long, func() {
	It("is followed by the standby, and that by the one that has ended, started again", func(ctx SpecContext) {
		l := startLab(ctx, ourCRDs)
		s := l.newStage()
		l.apply(ctx, "config/samples/components.yaml")
		lead := []string{"--leader-elect", "--leader-election-namespace=" + managerNamespace}
		acts := func(name string) {
			s.says(s.create(experiment(name, onHub("web", "nginx"))), v1alpha1.ConditionReady, v1alpha1.ReasonCRDMissing)
		}
		leader := l.launchManager("first", lead...)
		Eventually(l.holder).ShouldNot(BeEmpty())
		first := l.holder()
		standby := l.launchManager("second", lead...)
		acts("before")
		Expect(l.holder()).To(Equal(first))

		Expect(l.KillAPIServer()).To(Succeed())
		Eventually(leader.Exited()).WithTimeout(10*time.Second).Should(BeClosed(), "it leads, and cannot say so")
		Expect(leader.log()).To(ContainSubstring("leader election lost"))
		Consistently(standby.Exited()).WithTimeout(2*time.Second).ShouldNot(BeClosed(), "nobody is left")
		Expect(l.ResumeAPIServer(ctx)).To(Succeed())
		Eventually(l.holder).Should(And(Not(BeEmpty()), Not(Equal(first))))
		acts("after")

		again := l.launchManager("first", lead...)
		standby.kill()
		Eventually(standby.Exited()).Should(BeClosed())
		acts("again")
		Expect(again.Exited()).NotTo(BeClosed())
	})
})
