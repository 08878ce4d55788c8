package integration_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/arlon"
)

var arlonClusters = schema.GroupVersionResource{Group: "core.arlon.io", Version: "v1", Resource: "clusters"}

const arlonFinalizer = "cluster.core.arlon.io"

// k3Server is where the Cluster of a test is.
const k3Server = "https://203.0.113.33:6443"

// newCluster creates the Cluster k3, of which a test plays the reconciler.
func (s *stage) newCluster() *unstructured.Unstructured {
	GinkgoHelper()
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"clusterTemplate": map[string]any{"url": "https://git.example.com/fleet.git", "path": "base", "revision": "main"},
	}}}
	u.SetGroupVersionKind(arlon.ClusterGVK)
	u.SetNamespace(s.namespace)
	u.SetName("k3")
	u.SetFinalizers([]string{arlonFinalizer})
	Expect(s.client.Create(background(), u)).To(Succeed())
	DeferCleanup(func() { s.endCluster(u) })
	return u
}

// endCluster lets a Cluster go.
func (s *stage) endCluster(u *unstructured.Unstructured) {
	GinkgoHelper()
	Expect(client.IgnoreNotFound(s.client.Delete(background(), u.DeepCopy()))).To(Succeed())
	freed := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`))
	Expect(client.IgnoreNotFound(s.client.Patch(background(), u.DeepCopy(), freed))).To(Succeed())
}

// clusterIs has a Cluster say something of Ready.
func (s *stage) clusterIs(u *unstructured.Unstructured, status, reason, message string) {
	GinkgoHelper()
	s.say(arlonClusters, client.ObjectKeyFromObject(u), func(now *unstructured.Unstructured) map[string]any {
		return map[string]any{"conditions": []any{map[string]any{
			"type": "Ready", "status": status, "reason": reason, "message": message,
			"observedGeneration": now.GetGeneration(), "lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339),
		}}}
	}, "status")
}

// register tells Argo CD of a Cluster, marked with its UID or not.
func (s *stage) register(u *unstructured.Unstructured, name string, marked bool) *corev1.Secret {
	GinkgoHelper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: argoCDNamespace, Name: name, Labels: map[string]string{"argocd.argoproj.io/secret-type": "cluster"}},
		StringData: map[string]string{"name": "k3", "server": k3Server, "config": `{"bearerToken": "` + canary + `"}`},
	}
	if marked {
		secret.Labels[arlon.LabelUID] = string(u.GetUID())
	}
	Expect(s.client.Create(background(), secret)).To(Succeed())
	DeferCleanup(func() { Expect(client.IgnoreNotFound(s.client.Delete(background(), secret))).To(Succeed()) })
	return secret
}

// onK3 is an Experiment on the Cluster k3.
func onK3() *v1alpha1.Experiment {
	t := target("app", v1alpha1.ClusterReferred, "nginx", nil)
	t.Cluster.ClusterRef = &v1alpha1.ClusterReference{Name: "k3"}
	return experiment("referring", t)
}

// versions are those of objects, which any write would change.
func (s *stage) versions(cluster *unstructured.Unstructured, secret *corev1.Secret) []string {
	GinkgoHelper()
	return []string{
		s.object(arlonClusters, client.ObjectKeyFromObject(cluster)).GetResourceVersion(),
		s.object(secrets, client.ObjectKeyFromObject(secret)).GetResourceVersion(),
	}
}

var _ = Describe("A Cluster that an Experiment names", func() {
	It("is waited for, deployed on, and left as it was", func() {
		s := hub.newStage()
		e := s.create(onK3())
		By("not being there")
		s.says(e, v1alpha1.ConditionClustersReady, v1alpha1.ReasonClusterNotFound, "Cluster "+s.namespace+"/k3 does not exist")
		By("saying nothing, and then why it is not ready")
		cluster := s.newCluster()
		s.says(e, v1alpha1.ConditionClustersReady, v1alpha1.ReasonClusterProvisioning, "Cluster "+s.namespace+"/k3 is not Ready")
		s.clusterIs(cluster, "False", "TemplateInvalid", "multiple manifests found")
		s.says(e, v1alpha1.ConditionClustersReady, v1alpha1.ReasonClusterProvisioning, "TemplateInvalid: multiple manifests found")
		By("being Ready, and registered by a Secret that is not its own")
		foreign := s.register(cluster, "k3-"+s.namespace, false)
		s.clusterIs(cluster, "True", "Up", "")
		s.says(e, v1alpha1.ConditionClustersReady, v1alpha1.ReasonClusterNotRegistered, arlon.LabelUID+"="+string(cluster.GetUID()))
		Consistently(func() []unstructured.Unstructured { return s.children(e) }).Should(BeEmpty())
		Expect(s.client.Delete(background(), foreign)).To(Succeed())
		By("being registered")
		secret := s.register(cluster, "arlon-"+s.namespace, true)
		s.clusterIs(cluster, "True", "Up", "registered") // which wakes: nobody watches Secrets
		before := s.versions(cluster, secret)
		now := s.reaches(e, v1alpha1.PhaseComplete)
		Expect(now.Status.Targets[0].Endpoint).To(Equal(k3Server))
		Expect(now.Status.Targets[0].Cluster).To(Equal(s.namespace + "/k3"))
		server, _, _ := unstructured.NestedString(s.object(applications, s.application(e, "app")).Object, "spec", "destination", "server")
		Expect(server).To(Equal(k3Server))
		Expect(said(now)).NotTo(ContainSubstring(canary))
		Expect(shared.log()).NotTo(ContainSubstring(canary))

		s.delete(e)
		s.gone(e)
		Expect(s.children(e)).To(BeEmpty())
		Expect(s.versions(cluster, secret)).To(Equal(before))
	})

	It("takes the Applications with it when it goes, and another is another cluster", func() {
		s := hub.newStage(workflowEnds)
		cluster := s.newCluster()
		secret := s.register(cluster, "arlon-"+s.namespace, true)
		s.clusterIs(cluster, "True", "Up", "")
		e := s.create(onK3())
		s.reaches(e, v1alpha1.PhaseRunning)
		first := s.object(applications, s.application(e, "app"))

		By("going")
		Expect(s.client.Delete(background(), cluster.DeepCopy())).To(Succeed())
		s.says(e, v1alpha1.ConditionClustersReady, v1alpha1.ReasonClusterProvisioning, "is being deleted by somebody")
		Expect(s.client.Delete(background(), secret)).To(Succeed())
		s.endCluster(cluster)
		s.says(e, v1alpha1.ConditionClustersReady, v1alpha1.ReasonClusterNotFound)

		By("being created again")
		s.hold(applicationGone) // Argo CD does not know the first any more
		again := s.newCluster()
		s.register(again, "again-"+s.namespace, true)
		s.clusterIs(again, "True", "Up", "")
		Eventually(func(g Gomega) {
			app, err := s.dynamic.Resource(applications).Namespace(argoCDNamespace).Get(background(), first.GetName(), metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(app.GetUID()).NotTo(Equal(first.GetUID()))
			g.Expect(app.GetAnnotations()).To(HaveKeyWithValue(v1alpha1.AnnotationClusterUID, string(again.GetUID())))
		}).Should(Succeed())
		s.says(e, v1alpha1.ConditionClustersReady, v1alpha1.ReasonClustersReady)

		By("going for good, with an Application that waits for it")
		s.release(workflowEnds)
		s.reaches(e, v1alpha1.PhaseComplete)
		s.endCluster(again)
		s.delete(e)
		s.gone(e)
		Expect(s.children(e)).To(BeEmpty())
	})
})

var _ = Describe("A cluster without Arlon's kind", func() {
	It("says so, costs nothing, and goes on when it is installed", early, long, func(ctx SpecContext) {
		bare := startLab(ctx, ourCRDs, applicationCRD, otherCRDs+"/gkecluster.yaml", otherCRDs+"/workflow.yaml", otherCRDs+"/workflowtemplate.yaml")
		bare.apply(ctx, "config/samples/components.yaml", "config/samples/workflowtemplate.yaml")
		bare.world.watch(experiments, applications, workflows, secrets, namespaces)
		m := bare.startManager("manager")
		s := bare.newStage()
		beside := s.create(experiment("only-hub", onHub("web", "nginx")))
		e := s.create(onK3())
		s.says(e, v1alpha1.ConditionClustersReady, v1alpha1.ReasonCRDMissing, "Cluster.core.arlon.io/v1")
		s.reaches(beside, v1alpha1.PhaseComplete)
		from, version := time.Now(), s.get(e).ResourceVersion
		Consistently(func() string { return s.get(e).ResourceVersion }).Should(Equal(version))
		for _, r := range s.requests(from, time.Now()) {
			Expect(r.Resource).NotTo(BeElementOf("experiments", "secrets", "clusters"), "%s %s %s", r.Verb, r.Resource, r.Name)
		}

		bare.install(ctx, otherCRDs+"/arlon.yaml")
		s.says(e, v1alpha1.ConditionClustersReady, v1alpha1.ReasonClusterNotFound)
		cluster := s.newCluster()
		s.register(cluster, "arlon-"+s.namespace, true)
		s.clusterIs(cluster, "True", "Up", "")
		s.reaches(e, v1alpha1.PhaseComplete)
		Expect(m.Exited()).NotTo(BeClosed())
	})
})
