package integration_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/test/env"
)

// calm is how long nobody may ask anything of the API server.
const calm = time.Minute

// counted are the requests that are neither a watch nor about the Lease.
func counted(requests []env.Request) []env.Request {
	return slices.DeleteFunc(requests, func(r env.Request) bool { return r.Verb == "watch" || r.Resource == "leases" })
}

// holder of the Lease of leaders; empty if nobody holds it.
func (l *lab) holder() string {
	GinkgoHelper()
	lease := &coordinationv1.Lease{}
	Expect(client.IgnoreNotFound(l.client.Get(background(), client.ObjectKey{Namespace: managerNamespace, Name: "labkeeper"}, lease))).To(Succeed())
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

var _ = Describe("A settled system", Ordered, early, long, func() {
	var s *stage
	BeforeAll(func() {
		By("taking everything else down")
		// Those of specs that ended without a manager have waited for this one, and Kubernetes takes seconds to
		// empty each Namespace that they had on the hub.
		all := &v1alpha1.ExperimentList{}
		Expect(hub.client.List(background(), all)).To(Succeed())
		for _, e := range all.Items {
			Expect(client.IgnoreNotFound(hub.client.Delete(background(), &e))).To(Succeed())
		}
		Eventually(func(g Gomega) {
			g.Expect(hub.client.List(background(), all)).To(Succeed())
			var left []string
			for _, e := range all.Items {
				left = append(left, e.Namespace+"/"+e.Name+" since "+e.DeletionTimestamp.String()+said(&e))
			}
			g.Expect(left).To(BeEmpty())
		}).WithTimeout(2 * time.Minute).Should(Succeed())

		By("bringing Experiments to every kind of rest")
		s = hub.newStage()
		complete := s.create(tutorial())
		smoke := s.create(experiment("hub-smoke", onHub("web", "nginx")))
		s.reaches(complete, v1alpha1.PhaseComplete)
		s.reaches(smoke, v1alpha1.PhaseComplete)

		s.hold(workflowEnds)
		failed, deleted := s.create(experiment("failed", onHub("web", "nginx"))), s.create(experiment("deleted", onHub("web", "nginx")))
		running := s.create(experiment("running", onHub("web", "nginx")))
		workflowSays(map[string]any{"phase": "Failed"})(s, failed)
		s.reaches(failed, v1alpha1.PhaseFailed)
		s.reaches(deleted, v1alpha1.PhaseRunning)
		Expect(s.client.Delete(background(), s.object(workflows, s.workflow(deleted)))).To(Succeed())
		s.reaches(deleted, v1alpha1.PhaseFailed)
		s.reaches(running, v1alpha1.PhaseRunning)
		Eventually(func() string { return s.get(running).Status.Workflow.Phase }).Should(Equal("Running"))

		cycle := s.create(experiment("cycle", onHub("a", "k6", "b"), onHub("b", "k6", "a")))
		s.says(cycle, v1alpha1.ConditionAccepted, v1alpha1.ReasonDependencyCycle)
		nowhere := s.create(experiment("nowhere", onHub("a", "nowhere")))
		s.says(nowhere, v1alpha1.ConditionComponentsResolved, v1alpha1.ReasonComponentNotFound)
		untemplated := experiment("untemplated", onHub("a", "k6"))
		untemplated.Spec.Workflow.Template = "nowhere"
		s.create(untemplated)
		s.says(untemplated, v1alpha1.ConditionWorkflowSucceeded, v1alpha1.ReasonWorkflowTemplateNotFound)

		s.hold(clusterReady)
		provisioning := s.create(experiment("provisioning", onGKE("app", "nginx")))
		s.exists(claims, s.claim(provisioning, "app"))
		claimSays(claimStatus("False", "Creating", "Claim is waiting for composite", "True", "ReconcileSuccess", ""))(s, provisioning) // or it is told in a minute that it never does
		s.hold(applicationHealthy)
		degraded := s.create(experiment("degraded", onHub("app", "nginx")))
		applicationSays("Degraded", "Synced", nil)(s, degraded)
		s.says(degraded, v1alpha1.ConditionApplicationsHealthy, v1alpha1.ReasonApplicationDegraded)
		s.hold(claimGone)
		deleting := s.create(experiment("deleting", onGKE("app", "nginx")))
		s.exists(claims, s.claim(deleting, "app"))
		Eventually(func() []string { return s.object(claims, s.claim(deleting, "app")).GetFinalizers() }).ShouldNot(BeEmpty())
		s.delete(deleting)
		s.says(deleting, v1alpha1.ConditionReady, v1alpha1.ReasonDeleting, "GKECluster")
	})

	It("asks the API server for nothing in a minute", func() {
		By("waiting until it has settled")
		Eventually(func() []env.Request {
			return counted(hub.requests(time.Now().Add(-3*time.Second), time.Now()))
		}).WithTimeout(30 * time.Second).WithPolling(time.Second).Should(BeEmpty())
		By("watching")
		from := time.Now()
		Consistently(shared.Exited()).WithTimeout(calm).WithPolling(time.Second).ShouldNot(BeClosed())
		to := time.Now()
		requests := hub.requests(from, to)
		Expect(counted(slices.Clone(requests))).To(BeEmpty())
		Expect(requests).NotTo(BeEmpty(), "not even the Lease: the count counts nothing")
		Expect(slices.DeleteFunc(hub.requests(time.Time{}, to), func(r env.Request) bool {
			return strings.HasPrefix(r.UserAgent, filepath.Base(managerBinary)+"/")
		})).To(BeEmpty(), "audit logs do not name it")
	})

	It("is left without a holder of the Lease by a manager that is asked to stop", func(ctx SpecContext) {
		shared.stop()
		DeferCleanup(restartShared)
		Eventually(hub.holder).Should(BeEmpty())
		command := hub.command(ctx, "--leader-elect", "--leader-election-namespace="+managerNamespace)
		command.Stdout, command.Stderr = GinkgoWriter, GinkgoWriter
		Expect(command.Start()).To(Succeed())
		var done bool
		DeferCleanup(func() {
			if !done {
				_ = command.Process.Kill()
				_ = command.Wait()
			}
		})
		Eventually(hub.holder).ShouldNot(BeEmpty())
		asked := time.Now()
		Expect(command.Process.Signal(syscall.SIGTERM)).To(Succeed())
		ended := make(chan error, 1)
		go func() { ended <- command.Wait() }()
		var err error
		Eventually(ended).WithTimeout(5 * time.Second).Should(Receive(&err))
		done = true
		var exit *exec.ExitError
		Expect(err).NotTo(BeAssignableToTypeOf(exit), "exit code")
		Expect(err).NotTo(HaveOccurred())
		Expect(hub.holder()).To(BeEmpty())
		AddReportEntry("stopped after", time.Since(asked).String())
	})

	It("is not written to by a manager that starts", func() {
		shared.stop()
		from := time.Now()
		restartShared()
		// Workers take what is there at the start before what comes later; so when they have
		// dealt with something new, they have looked at the rest.
		for i := range 4 {
			late := s.create(experiment(fmt.Sprintf("late-%d", i), onHub("a", "k6", "b"), onHub("b", "k6", "a")))
			s.says(late, v1alpha1.ConditionAccepted, v1alpha1.ReasonDependencyCycle)
		}
		Consistently(shared.Exited()).WithTimeout(2 * time.Second).ShouldNot(BeClosed())
		requests := counted(hub.requests(from, time.Now()))
		Expect(requests).NotTo(BeEmpty())
		Expect(slices.DeleteFunc(requests, func(r env.Request) bool {
			return !r.Write() || r.Resource == "events" || r.Resource == "components" || len(r.Name) > 5 && r.Name[:5] == "late-"
		})).To(BeEmpty())
	})
})
