package integration_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
)

var docker = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1"}

// dockerTemplate is a template of an infrastructure that the manager has never heard of.
func dockerTemplate(of, namespace string) (*unstructured.Unstructured, v1alpha1.TemplateRef) {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{}}}}}
	u.SetGroupVersionKind(docker.WithKind("Docker" + of + "Template"))
	u.SetNamespace(namespace)
	u.SetName("lab")
	return u, v1alpha1.TemplateRef{APIVersion: docker.String(), Kind: u.GetKind(), Name: u.GetName()}
}

var _ = Describe("A Talos cluster", func() {
	It("is made of copies of the user's templates, which go with it", func(ctx SpecContext) {
		s := hub.newStage()
		clusterTemplate, clusterRef := dockerTemplate("Cluster", s.namespace)
		machineTemplate, machineRef := dockerTemplate("Machine", s.namespace)
		metal := func() *v1alpha1.Experiment {
			e := experiment("metal", target("app", v1alpha1.ClusterTalos, "nginx", nil))
			e.Spec.Targets[0].Cluster.Talos = &v1alpha1.Talos{
				KubernetesVersion: "v1.34.1", Infrastructure: v1alpha1.Infrastructure{Cluster: clusterRef, Machines: machineRef},
			}
			return s.create(e)
		}
		e := metal()

		By("waiting for the templates")
		s.says(e, v1alpha1.ConditionClustersReady, v1alpha1.ReasonClusterTemplateNotFound, "DockerClusterTemplate "+s.namespace+"/lab, create it")
		Expect(hub.client.Create(ctx, clusterTemplate)).To(Succeed())
		Expect(hub.client.Create(ctx, machineTemplate)).To(Succeed())
		By("waiting for the right to make one, without which one goes that has made nothing")
		s.says(e, v1alpha1.ConditionClustersReady, v1alpha1.ReasonForbidden, "dockerclusters")
		s.delete(e)
		s.gone(e)
		e = metal()
		s.says(e, v1alpha1.ConditionClustersReady, v1alpha1.ReasonForbidden, "dockerclusters")
		hub.apply(ctx, "config/grants/talos.yaml")
		Expect(hub.client.Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "labkeeper-kubeconfigs"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "labkeeper-kubeconfig-reader"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: managerNamespace, Name: managerAccount}},
		})).To(Succeed())
		By("making it")
		s.reaches(e, v1alpha1.PhaseComplete)
		Expect(s.made(e, "DockerCluster")).To(Equal(1))
		Expect(s.made(e, "DockerMachineTemplate")).To(Equal(2))

		s.delete(e)
		s.gone(e)
		Expect(s.made(e, "DockerCluster") + s.made(e, "DockerMachineTemplate")).To(BeZero())
		Expect(hub.client.Get(ctx, client.ObjectKeyFromObject(machineTemplate), machineTemplate)).To(Succeed())
		Expect(hub.client.Get(ctx, client.ObjectKeyFromObject(clusterTemplate), clusterTemplate)).To(Succeed())
	})
})

// made counts what an Experiment has of a kind of the infrastructure.
func (s *stage) made(e *v1alpha1.Experiment, kind string) int {
	GinkgoHelper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(docker.WithKind(kind + "List"))
	Expect(hub.client.List(background(), list, client.InNamespace(s.namespace), client.MatchingLabels{v1alpha1.LabelExperimentUID: string(e.UID)})).To(Succeed())
	return len(list.Items)
}
