package integration_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
)

// downward is the order in which everything of the tutorial goes.
var downward = []string{"Workflow", "Application loadgen", "Application app", "Namespace loadgen", "Secret app", "GKECluster app"}

// expectOrder checks that each child was gone before the next one's deletion was asked for.
// The namespace on the hub, the Secret and the claim are asked for in one pass, in this order.
func expectOrder(s *stage, e *v1alpha1.Experiment) {
	GinkgoHelper()
	var before string
	var beforeEnding, beforeEnded int64
	for _, child := range downward {
		created, ending, ended := s.life(isChild(e, child))
		if created == 0 {
			continue
		}
		Expect(ended).NotTo(BeZero(), "%s is not gone", child)
		if before == "Namespace loadgen" || before == "Secret app" {
			Expect(ending).To(BeNumerically(">=", beforeEnding), "%s goes before %s", child, before)
		} else {
			Expect(ending).To(BeNumerically(">", beforeEnded), "%s goes before %s is gone", child, before)
		}
		before, beforeEnding, beforeEnded = child, ending, ended
	}
	for _, child := range downward {
		_, _, ended := s.life(isChild(e, child))
		beforeEnded = max(beforeEnded, ended)
	}
	_, _, gone := s.life(isExperiment(e))
	Expect(gone).To(BeNumerically(">", beforeEnded), "the Experiment goes before %s is gone", before)
}

// expectGone waits for the end, and for the journal to have it.
func expectGone(s *stage, e *v1alpha1.Experiment) {
	GinkgoHelper()
	s.gone(e)
	Expect(s.children(e)).To(BeEmpty())
	Eventually(func(g Gomega) {
		for _, child := range downward {
			created, _, ended := s.life(isChild(e, child))
			g.Expect(ended != 0).To(Equal(created != 0), child)
		}
		_, _, ended := s.life(isExperiment(e))
		g.Expect(ended).NotTo(BeZero())
	}).Should(Succeed())
}

var _ = Describe("Deletion", func() {
	DescribeTable("takes everything down in order, from every phase",
		func(phase v1alpha1.Phase, children int, holds ...hold) {
			s := hub.newStage(holds...)
			e := tutorial()
			if phase == v1alpha1.PhasePending {
				e.Spec.Targets[1].Components[0].App = "nowhere"
			}
			e = s.create(e)
			if phase == v1alpha1.PhaseFailed {
				workflowSays(map[string]any{"phase": "Failed"})(s, e)
			}
			s.reaches(e, phase)
			Eventually(func() int { return len(s.children(e)) }).Should(Equal(children))
			s.delete(e)
			expectGone(s, e)
			expectOrder(s, e)
		},
		Entry("Pending", v1alpha1.PhasePending, 0),
		Entry("Provisioning", v1alpha1.PhaseProvisioning, 1, clusterReady),
		Entry("Ready", v1alpha1.PhaseReady, 3, applicationHealthy),
		Entry("Running", v1alpha1.PhaseRunning, 6, workflowEnds),
		Entry("Complete", v1alpha1.PhaseComplete, 6),
		Entry("Failed", v1alpha1.PhaseFailed, 6, workflowEnds),
	)

	It("waits for each step and says for what", func() {
		s := hub.newStage(workflowGone, applicationGone, claimGone)
		e := s.create(tutorial())
		s.reaches(e, v1alpha1.PhaseComplete)
		s.delete(e)
		waits := func(present []string, words ...string) {
			GinkgoHelper()
			s.says(e, v1alpha1.ConditionReady, v1alpha1.ReasonDeleting, words...)
			Expect(s.get(e).Status.Phase).To(Equal(v1alpha1.PhaseDeleting))
			Eventually(func() []string { // a Namespace takes the namespace controller a moment
				var have []string
				for _, child := range s.children(e) {
					have = append(have, role(&child))
				}
				return have
			}).Should(ConsistOf(present))
		}
		waits(downward, "Workflow "+s.workflow(e).String())
		s.release(workflowGone)
		waits(downward[1:], "Application "+s.application(e, "loadgen").String())
		Expect(s.object(applications, s.application(e, "app")).GetDeletionTimestamp()).To(BeNil(), "what others depend on stays")
		Expect(s.object(claims, s.claim(e, "app")).GetDeletionTimestamp()).To(BeNil(), "Argo CD needs the cluster")
		s.release(applicationGone)
		waits(downward[5:], "GKECluster "+s.claim(e, "app").String())
		Expect(s.get(e).Finalizers).To(ContainElement(v1alpha1.Finalizer))
		s.release(claimGone)
		expectGone(s, e)
		expectOrder(s, e)
	})

	It("has Argo CD end the sync of an Application that goes, which it would let go no sooner", func() {
		s := hub.newStage(applicationGone)
		e := s.create(experiment("syncing", onHub("web", "nginx")))
		s.reaches(e, v1alpha1.PhaseComplete)
		key := s.application(e, "web")
		const hook = "waiting for completion of hook batch/Job/check"
		Eventually(func() error {
			return s.patch(applications, s.object(applications, key), map[string]any{
				"operation": map[string]any{"sync": map[string]any{"prune": true}},
				"status": map[string]any{"operationState": map[string]any{
					"phase": "Running", "message": hook, "startedAt": metav1.Now().UTC().Format(time.RFC3339), "operation": map[string]any{},
				}},
			})
		}).Should(Succeed())
		s.delete(e)
		Eventually(func(g Gomega) {
			phase, _, _ := unstructured.NestedString(s.object(applications, key).Object, "status", "operationState", "phase")
			g.Expect(phase).To(Equal("Terminating"))
		}).Should(Succeed())
		s.says(e, v1alpha1.ConditionReady, v1alpha1.ReasonDeleting, "Argo CD ends its sync first: "+hook)
		Expect(s.patch(applications, s.object(applications, key), map[string]any{"operation": nil})).To(Succeed())
		s.release(applicationGone)
		s.gone(e)
	})

	It("tells of what stays on clusters of others of one that was forced away", func() {
		s := hub.newStage(workflowGone)
		e := s.create(experiment("forced-on-hub", onHub("web", "nginx")))
		s.reaches(e, v1alpha1.PhaseComplete)
		app := s.object(applications, s.application(e, "web"))
		s.delete(e)
		s.says(e, v1alpha1.ConditionReady, v1alpha1.ReasonDeleting, "Workflow "+s.workflow(e).String())
		Expect(s.client.Patch(background(), e, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`)))).To(Succeed())
		s.gone(e)
		Eventually(func(g Gomega) {
			records := &corev1.ConfigMapList{}
			g.Expect(s.client.List(background(), records, client.InNamespace(managerNamespace), client.MatchingLabels{v1alpha1.LabelExperimentUID: string(e.UID)})).To(Succeed())
			g.Expect(records.Items).To(HaveLen(1))
			g.Expect(records.Items[0].Data).To(HaveKeyWithValue("orphans.yaml", ContainSubstring(string(app.GetUID()))))
		}).Should(Succeed())
		Expect(s.object(applications, s.application(e, "web"))).To(HaveField("GetDeletionTimestamp()", BeNil()))
		Expect(s.client.Delete(background(), app)).To(Succeed()) // as the ConfigMap says
		s.release(workflowGone)
	})

	It("tells of the clusters of one that was forced away, and does nothing with them", func() {
		s := hub.newStage(applicationGone)
		e := s.create(experiment("forced", onGKE("app", "nginx")))
		s.reaches(e, v1alpha1.PhaseComplete)
		s.delete(e)
		s.says(e, v1alpha1.ConditionReady, v1alpha1.ReasonDeleting, "Application "+s.application(e, "app").String())
		claim := s.object(claims, s.claim(e, "app"))
		Expect(s.client.Patch(background(), e, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`)))).To(Succeed())
		s.gone(e)
		Eventually(func(g Gomega) {
			records := &corev1.ConfigMapList{}
			g.Expect(s.client.List(background(), records, client.InNamespace(managerNamespace), client.MatchingLabels{v1alpha1.LabelExperimentUID: string(e.UID)})).To(Succeed())
			g.Expect(records.Items).To(HaveLen(1))
			g.Expect(records.Items[0].Data).To(HaveKeyWithValue("orphans.yaml", And(ContainSubstring("name: "+claim.GetName()+"\n"), ContainSubstring(string(claim.GetUID())))))
			events := &eventsv1.EventList{}
			g.Expect(s.client.List(background(), events, client.InNamespace(claim.GetNamespace()))).To(Succeed())
			g.Expect(events.Items).To(ContainElement(And(
				HaveField("Regarding.UID", claim.GetUID()), HaveField("Reason", v1alpha1.ReasonOrphansLeft), HaveField("Note", ContainSubstring("Experiment "+s.namespace+"/forced")),
			)))
		}).Should(Succeed())
		Expect(s.object(claims, s.claim(e, "app"))).To(HaveField("GetDeletionTimestamp()", BeNil()))
		Expect(s.client.Delete(background(), claim)).To(Succeed()) // as the ConfigMap says
		s.release(applicationGone)
	})

	It("leaves nothing in the way of another one of the same name", func() {
		s := hub.newStage()
		first := s.create(tutorial())
		s.reaches(first, v1alpha1.PhaseComplete)
		s.delete(first)
		s.gone(first)
		second := s.create(tutorial())
		s.reaches(second, v1alpha1.PhaseComplete)
		Expect(second.UID).NotTo(Equal(first.UID))
		Expect(s.claim(second, "app")).NotTo(Equal(s.claim(first, "app")))
		Expect(s.workflow(second)).NotTo(Equal(s.workflow(first)))
		Expect(s.children(second)).To(HaveLen(6))
		Expect(s.children(first)).To(BeEmpty())
	})

	It("ends when the whole namespace is deleted, claims and all", func() {
		s := hub.newStage()
		complete := s.create(tutorial())
		waiting := s.create(experiment("waiting", onGKE("app", "nginx"), onHub("nowhere", "nowhere")))
		s.reaches(complete, v1alpha1.PhaseComplete)
		s.says(waiting, v1alpha1.ConditionComponentsResolved, v1alpha1.ReasonComponentNotFound)
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
		Expect(s.client.Delete(background(), namespace)).To(Succeed())
		// The namespace controller looks at what has finalizers every eight seconds.
		Eventually(func(g Gomega) {
			err := s.client.Get(background(), client.ObjectKeyFromObject(namespace), namespace)
			g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v %v", err, namespace.Status.Conditions)
		}).WithTimeout(40 * time.Second).Should(Succeed())
		Expect(s.children(complete)).To(BeEmpty())
	})
})
