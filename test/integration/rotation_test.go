package integration_test

import (
	"encoding/base64"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
)

// onStaging is an Experiment on a cluster that is there already, by a kubeconfig in a Secret.
func onStaging(name, secret string) *v1alpha1.Experiment {
	t := target("app", v1alpha1.ClusterExisting, "nginx", nil)
	t.Cluster.KubeconfigSecret = &v1alpha1.SecretKey{Name: secret}
	return experiment(name, t)
}

// registeredFor is the cluster Secret of an Experiment on such a cluster.
func (s *stage) registeredFor(e *v1alpha1.Experiment) *unstructured.Unstructured {
	GinkgoHelper()
	list, err := s.dynamic.Resource(secrets).Namespace(argoCDNamespace).List(background(), metav1.ListOptions{LabelSelector: v1alpha1.LabelExperimentUID + "=" + string(e.UID)})
	Expect(err).NotTo(HaveOccurred())
	Expect(list.Items).To(HaveLen(1))
	return &list.Items[0]
}

// credentialsIn are what Argo CD uses by a cluster Secret.
func credentialsIn(secret *unstructured.Unstructured) string {
	GinkgoHelper()
	encoded, _, _ := unstructured.NestedString(secret.Object, "data", "config")
	config, err := base64.StdEncoding.DecodeString(encoded)
	Expect(err).NotTo(HaveOccurred())
	return string(config)
}

// refused has a cluster refuse what Argo CD was told of it.
func (s *stage) refused(e *v1alpha1.Experiment) {
	GinkgoHelper()
	s.hold(applicationHealthy)
	s.say(applications, s.application(e, "app"), func(u *unstructured.Unstructured) map[string]any {
		return applicationStatus(u, "Healthy", "Unknown", map[string]any{"conditions": []any{map[string]any{
			"type": "ComparisonError", "message": "the server has asked for the client to provide credentials", "lastTransitionTime": now(),
		}}})
	})
}

var _ = Describe("A kubeconfig that is rotated", func() {
	It("is renewed where Argo CD was told of it for others, who look at nothing any more", func(ctx SpecContext) {
		s := hub.newStage()
		y := &yard{lab: hub, namespace: s.namespace}
		y.grant(ctx)
		ours := strings.Replace(kubeconfig(""), clusterEndpoint, "203.0.113.44", 1)
		fresh := strings.Replace(ours, canary+"-token", canary+"-rotated", 1)
		y.put(ctx, "staging", ours)
		y.put(ctx, "copy", ours)
		over := s.create(onStaging("over", "staging"))
		s.reaches(over, v1alpha1.PhaseComplete)
		s.hold(workflowEnds)
		suspended := s.create(onStaging("suspended", "copy"))
		s.reaches(suspended, v1alpha1.PhaseRunning)
		Expect(s.edit(suspended, func(e *v1alpha1.Experiment) { e.Spec.Suspend = true })).To(Succeed())
		s.says(suspended, v1alpha1.ConditionAccepted, v1alpha1.ReasonSuspended)
		running := s.create(onStaging("running", "staging"))
		s.reaches(running, v1alpha1.PhaseRunning)
		before := map[*v1alpha1.Experiment]*unstructured.Unstructured{}
		for _, e := range []*v1alpha1.Experiment{over, suspended, running} {
			before[e] = s.registeredFor(e)
			Expect(credentialsIn(before[e])).To(ContainSubstring(canary + "-token"))
		}
		told := s.get(over).ResourceVersion

		By("being refused, and new in the Secret of one and the copy of another")
		y.put(ctx, "copy", fresh)
		y.put(ctx, "staging", fresh)
		s.refused(running)
		for e, was := range before {
			Eventually(func() string { return credentialsIn(s.registeredFor(e)) }).Should(And(
				ContainSubstring(canary+"-rotated"), Not(ContainSubstring(canary+"-token"))), e.Name)
			is := s.registeredFor(e)
			Expect(is.GetUID()).To(Equal(was.GetUID()), "it is the same Secret")
			for _, u := range []*unstructured.Unstructured{was, is} {
				unstructured.RemoveNestedField(u.Object, "data", "config")
				u.SetManagedFields(nil)
				u.SetResourceVersion("")
			}
			Expect(is.Object).To(Equal(was.Object), "nothing else of it has changed")
		}
		Expect(s.get(over).ResourceVersion).To(Equal(told))
		Expect(said(s.get(running))).NotTo(ContainSubstring(canary))
		Expect(shared.log()).NotTo(ContainSubstring(canary))

		By("being taken back with each, and with no other")
		s.release()
		s.delete(over)
		s.gone(over)
		Expect(credentialsIn(s.registeredFor(running))).To(ContainSubstring(canary + "-rotated"))
		Expect(s.edit(suspended, func(e *v1alpha1.Experiment) { e.Spec.Suspend = false })).To(Succeed())
		s.reaches(suspended, v1alpha1.PhaseComplete)
		s.reaches(running, v1alpha1.PhaseComplete)
	})

	It("is not renewed for who has a kubeconfig of his own that was not", func(ctx SpecContext) {
		s, theirs := hub.newStage(workflowEnds), hub.newStage(workflowEnds)
		ours := strings.Replace(kubeconfig(""), clusterEndpoint, "203.0.113.45", 1)
		for _, stage := range []*stage{s, theirs} {
			y := &yard{lab: hub, namespace: stage.namespace}
			y.grant(ctx)
			y.put(ctx, "staging", ours)
		}
		other := theirs.create(onStaging("other", "staging"))
		theirs.reaches(other, v1alpha1.PhaseRunning)
		e := s.create(onStaging("rotated", "staging"))
		s.reaches(e, v1alpha1.PhaseRunning)
		version := theirs.registeredFor(other).GetResourceVersion()

		(&yard{lab: hub, namespace: s.namespace}).put(ctx, "staging", strings.Replace(ours, canary+"-token", canary+"-rotated", 1))
		s.refused(e)
		s.says(e, v1alpha1.ConditionApplicationsHealthy, v1alpha1.ReasonApplicationError, "no other credentials can be given to Argo CD")
		Consistently(func() []string {
			return []string{theirs.registeredFor(other).GetResourceVersion(), credentialsIn(s.registeredFor(e))}
		}).Should(HaveExactElements(version, ContainSubstring(canary+"-token")))
	})
})
