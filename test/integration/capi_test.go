//go:build capi

// Clusters that Cluster API's own controllers and webhooks make, on machines in memory: make test-capi.
package integration_test

import (
	"context"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/capi"
	"github.com/labkeeper/labkeeper/test/env"
)

// clusterAPI is a running part of it: its own controllers, or the provider of the machines.
type clusterAPI struct {
	*env.Process
	name   string
	args   []string
	health string
}

// startClusterAPI starts both on the hub, with their own CRDs and webhooks, and plays the providers that are not to be had.
func startClusterAPI(ctx context.Context) (core, machines *clusterAPI) {
	GinkgoHelper()
	of := filepath.Join(hub.Dir(), "capi")
	Expect(os.Mkdir(of, 0o700)).To(Succeed())
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	Expect(err).NotTo(HaveOccurred())
	for name, content := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		Expect(os.WriteFile(filepath.Join(of, name), content, 0o600)).To(Succeed())
	}
	begin := func(name, module, folder string, args ...string) *clusterAPI {
		addresses := freeAddresses(3)
		a := &clusterAPI{name: name, health: addresses[1], args: append([]string{
			"POD_IP=127.0.0.1", "POD_NAMESPACE=kube-system", filepath.Join(env.Root(), "bin", name), "--kubeconfig=" + hub.Kubeconfig(),
			"--webhook-cert-dir=" + of, "--webhook-port=" + port(addresses[0]), "--health-addr=" + addresses[1], "--diagnostics-address=" + addresses[2], "--insecure-diagnostics",
		}, args...)}
		hub.installProvider(ctx, module, folder, "https://"+addresses[0], certificate)
		a.start()
		return a
	}
	core = begin("capi", "sigs.k8s.io/cluster-api", "config/default")
	machines = begin("capi-dev", "sigs.k8s.io/cluster-api/test", "infrastructure/docker/config/default", "--feature-gates=ClusterTopology=true") // or it takes no DevClusterTemplate
	core.ready()
	machines.ready()

	crds, err := env.DecodeObjects([]byte(talosConfigCRD))
	Expect(err).NotTo(HaveOccurred())
	Expect(hub.ApplyObjects(ctx, crds...)).To(Succeed())
	for name, version := range map[string]string{
		"talosconfigs.bootstrap": capi.TalosConfigTemplateGVK.Version, "talosconfigtemplates.bootstrap": capi.TalosConfigTemplateGVK.Version,
		"taloscontrolplanes.controlplane": capi.TalosControlPlaneGVK.Version, "vclusters.infrastructure": capi.VClusterGVK.Version,
	} { // the contract that their own CRDs say they are of
		hub.kubectl(ctx, "label", "crd", name+".cluster.x-k8s.io", "cluster.x-k8s.io/v1beta1="+version)
	}
	playing, end := context.WithCancel(background())
	DeferCleanup(end)
	go providers{hub}.run(playing)
	return core, machines
}

func (a *clusterAPI) start() {
	GinkgoHelper()
	var err error
	a.Process, err = hub.StartProcess(a.name, "/usr/bin/env", a.args...)
	Expect(err).NotTo(HaveOccurred())
}

// ready waits until the webhooks are served.
func (a *clusterAPI) ready() {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		Expect(a.Exited()).NotTo(BeClosed(), a.Tail(15))
		g.Expect(env.Answers(background(), "http://"+a.health+"/readyz")).To(BeTrue())
	}).WithTimeout(time.Minute).Should(Succeed())
}

// installProvider applies what a provider's own manifests have of CRDs and webhooks, which are served at an address.
func (l *lab) installProvider(ctx context.Context, module, folder, url string, certificate []byte) {
	GinkgoHelper()
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module)
	list.Dir, list.Env = filepath.Join(env.Root(), "hack", "capi"), append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	dir, err := list.Output()
	Expect(err).NotTo(HaveOccurred())
	objects, err := l.ReadObjects(ctx, filepath.Join(strings.TrimSpace(string(dir)), folder))
	Expect(err).NotTo(HaveOccurred())
	serve := func(webhook map[string]any, path ...string) {
		at, found, _ := unstructured.NestedString(webhook, append(path, "clientConfig", "service", "path")...)
		if !found {
			return
		}
		config := map[string]any{"url": url + at, "caBundle": base64.StdEncoding.EncodeToString(certificate)}
		Expect(unstructured.SetNestedMap(webhook, config, append(path, "clientConfig")...)).To(Succeed())
	}
	for _, o := range objects {
		switch o.GetKind() {
		case "CustomResourceDefinition":
			serve(o.Object, "spec", "conversion", "webhook")
		case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
			webhooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
			for _, w := range webhooks {
				serve(w.(map[string]any))
			}
			Expect(unstructured.SetNestedSlice(o.Object, webhooks, "webhooks")).To(Succeed())
		default:
			continue
		}
		Expect(l.ApplyObjects(ctx, o)).To(Succeed())
	}
}

// machineTemplates are those of a cluster in memory, whose machines take a while to start.
const machineTemplates = `
apiVersion: infrastructure.cluster.x-k8s.io/VERSION
kind: DevClusterTemplate
metadata: {name: lab, namespace: NAMESPACE}
spec: {template: {metadata: {annotations: {ANNOTATIONS}}, spec: {backend: {inMemory: {}}}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/VERSION
kind: DevMachineTemplate
metadata: {name: lab, namespace: NAMESPACE}
spec: {template: {spec: {backend: {inMemory: {vm: {provisioning: {startupDuration: 1s}}}}}}}
`

// onTalos is a stage with templates of a version, where clusters of type talos are made, and an Experiment with one.
func onTalos(ctx context.Context, version, annotations string, holds ...hold) (*stage, *v1alpha1.Experiment) {
	GinkgoHelper()
	s := hub.newStage(holds...)
	s.real = []string{"Cluster"}
	(&yard{lab: hub, namespace: s.namespace}).grant(ctx)
	templates, err := env.DecodeObjects([]byte(strings.NewReplacer("VERSION", version, "NAMESPACE", s.namespace, "ANNOTATIONS", annotations).Replace(machineTemplates)))
	Expect(err).NotTo(HaveOccurred())
	Expect(hub.ApplyObjects(ctx, templates...)).To(Succeed())
	ref := func(kind string) v1alpha1.TemplateRef {
		return v1alpha1.TemplateRef{APIVersion: "infrastructure.cluster.x-k8s.io/" + version, Kind: kind, Name: "lab"}
	}
	e := experiment("metal", target("app", v1alpha1.ClusterTalos, "nginx", nil))
	e.Spec.Targets[0].Cluster.Talos = &v1alpha1.Talos{
		KubernetesVersion: "v1.34.1", Infrastructure: v1alpha1.Infrastructure{Cluster: ref("DevClusterTemplate"), Machines: ref("DevMachineTemplate")},
	}
	return s, e
}

// madeOf are the resources that clusters are made of.
var madeOf = []schema.GroupVersionResource{
	clusters, clusters.GroupVersion().WithResource("machinedeployments"), clusters.GroupVersion().WithResource("machinesets"), clusters.GroupVersion().WithResource("machines"),
	capi.TalosControlPlaneGVK.GroupVersion().WithResource("taloscontrolplanes"), talosConfigGVK.GroupVersion().WithResource("talosconfigs"),
	talosConfigGVK.GroupVersion().WithResource("talosconfigtemplates"), dev.WithResource("devclusters"), dev.WithResource("devmachines"), dev.WithResource("devmachinetemplates"),
	secrets,
}

var dev = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2"}

// parts are what clusters of a stage are made of, but for the templates of the user, as "resource name".
func (s *stage) parts() (parts []string) {
	GinkgoHelper()
	for _, resource := range madeOf {
		list, err := s.dynamic.Resource(resource).Namespace(s.namespace).List(background(), metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		for _, o := range list.Items {
			if o.GetName() != "lab" {
				parts = append(parts, resource.Resource+" "+o.GetName())
			}
		}
	}
	return parts
}

// nothingLeft waits until nothing is of an Experiment, nor of any cluster in its namespace.
func (s *stage) nothingLeft(e *v1alpha1.Experiment) {
	GinkgoHelper()
	s.gone(e)
	Eventually(s.parts).Should(BeEmpty())
	Expect(s.children(e)).To(BeEmpty())
	Expect(s.leftBehind(e)).To(BeEmpty())
}

// leftBehind are the records of what an Experiment has left.
func (s *stage) leftBehind(e *v1alpha1.Experiment) []corev1.ConfigMap {
	GinkgoHelper()
	var left corev1.ConfigMapList
	Expect(hub.client.List(background(), &left, client.InNamespace(managerNamespace), client.MatchingLabels{v1alpha1.LabelExperimentUID: string(e.UID)})).To(Succeed())
	return left.Items
}

// change merges into an object of a cluster of the Experiment, by its name.
func (s *stage) change(resource schema.GroupVersionResource, name, patch string) {
	GinkgoHelper()
	_, err := s.dynamic.Resource(resource).Namespace(s.namespace).Patch(background(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldValidation: "Strict"})
	Expect(err).NotTo(HaveOccurred())
}

// workers are the machines of a cluster that are none of its control plane's, with a version, which have a node.
func (s *stage) workers(version string) (up []unstructured.Unstructured) {
	GinkgoHelper()
	list, err := s.dynamic.Resource(clusters.GroupVersion().WithResource("machines")).Namespace(s.namespace).List(background(), metav1.ListOptions{LabelSelector: "!" + controlPlaneLabel})
	Expect(err).NotTo(HaveOccurred())
	for _, m := range list.Items {
		of, _, _ := unstructured.NestedString(m.Object, "spec", "version")
		if node, _, _ := unstructured.NestedString(m.Object, "status", "nodeRef", "name"); node != "" && of == version {
			up = append(up, m)
		}
	}
	return up
}

var _ = Describe("Cluster API itself", Label("capi"), Ordered, ContinueOnFailure, func() {
	var core *clusterAPI
	BeforeAll(func(ctx SpecContext) {
		SetDefaultEventuallyTimeout(time.Minute)
		DeferCleanup(SetDefaultEventuallyTimeout, 20*time.Second)
		hub.apply(ctx, "config/grants/talos.yaml", "config/grants/vcluster.yaml")
		core, _ = startClusterAPI(ctx)
		hub.world.watch(madeOf[1], madeOf[4], madeOf[6], dev.WithResource("devclusters"), dev.WithResource("devmachinetemplates"))
	})
	deployments, machines := clusters.GroupVersion().WithResource("machinedeployments"), clusters.GroupVersion().WithResource("machines")

	DescribeTable("makes a cluster, and takes it down in its order", func(ctx SpecContext, version string) {
		s, e := onTalos(ctx, version, "")
		s.create(e)
		now := s.reaches(e, v1alpha1.PhaseComplete)
		endpoint := capi.ReadCluster(s.object(clusters, s.claim(e, "app"))).Endpoint
		Expect(endpoint).To(HavePrefix("https://127.0.0.1:"))
		Expect(now.Status.Targets[0].Endpoint).To(Equal(endpoint))
		registered := &corev1.Secret{}
		Expect(hub.client.Get(ctx, s.clusterSecret(e, "app"), registered)).To(Succeed())
		Expect(string(registered.Data["server"])).To(Equal(endpoint))

		s.delete(e)
		s.nothingLeft(e)
		life := func(kind string) (ending, ended int64) {
			_, ending, ended = s.life(func(u *unstructured.Unstructured) bool { return u.GetKind() == kind })
			return ending, ended
		}
		asked, gone := life("Cluster")
		before := asked
		for _, kind := range []string{"MachineDeployment", "TalosControlPlane", "DevCluster"} {
			ending, ended := life(kind)
			Expect(ending).To(BeNumerically(">", before), "%s is asked to go when what comes before it is gone", kind)
			before = ended
		}
		Expect(gone).To(BeNumerically(">", before))
		for _, kind := range []string{"DevMachineTemplate", "TalosConfigTemplate"} {
			ending, _ := life(kind)
			Expect(ending).To(BeNumerically(">", gone), "machines are made of %s", kind)
		}
	}, Entry("of the contract v1beta1", "v1beta1"), Entry("of the contract v1beta2", "v1beta2"))

	It("takes the edits that a spec allows", func(ctx SpecContext) {
		s, e := onTalos(ctx, "v1beta2", "", workflowEnds)
		s.create(e)
		s.reaches(e, v1alpha1.PhaseRunning)
		Eventually(func() int { return len(s.workers("v1.34.1")) }).Should(Equal(1))

		By("more workers")
		Expect(s.edit(e, func(e *v1alpha1.Experiment) { e.Spec.Targets[0].Cluster.NodeCount = new(int32(2)) })).To(Succeed())
		Eventually(func() int { return len(s.workers("v1.34.1")) }).Should(Equal(2))
		By("another version, and fewer")
		Expect(s.edit(e, func(e *v1alpha1.Experiment) {
			e.Spec.Targets[0].Cluster.NodeCount, e.Spec.Targets[0].Cluster.Talos.KubernetesVersion = nil, "v1.35.0"
		})).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(s.workers("v1.35.0")).To(HaveLen(1))
			g.Expect(s.workers("v1.34.1")).To(BeEmpty())
		}).WithTimeout(2 * time.Minute).Should(Succeed())
		s.release()
		s.reaches(e, v1alpha1.PhaseComplete)
		s.delete(e)
		s.nothingLeft(e)
	})

	DescribeTable("is taken down", func(ctx SpecContext, annotations, when string, holds ...hold) {
		s, e := onTalos(ctx, "v1beta2", annotations, holds...)
		s.create(e)
		s.says(e, v1alpha1.ConditionClustersReady, v1alpha1.ReasonClusterProvisioning, when)
		s.delete(e)
		s.nothingLeft(e)
	},
		Entry("before there is an infrastructure", `cluster.x-k8s.io/managed-by: somebody`, "DevCluster status.initialization.provisioned is false"),
		Entry("while its control plane comes", "", "Control plane not yet initialized", clusterReady),
	)

	It("is taken down while its machines are replaced, and waits for one that is held", func(ctx SpecContext) {
		s, e := onTalos(ctx, "v1beta2", "", workflowEnds)
		s.create(e)
		s.reaches(e, v1alpha1.PhaseRunning)
		Eventually(func() int { return len(s.workers("v1.34.1")) }).Should(Equal(1))
		held := s.workers("v1.34.1")[0].GetName()
		s.change(machines, held, `{"metadata": {"annotations": {"pre-drain.delete.hook.machine.cluster.x-k8s.io/lab": "", "pre-terminate.delete.hook.machine.cluster.x-k8s.io/lab": ""}}}`)
		Expect(s.edit(e, func(e *v1alpha1.Experiment) { e.Spec.Targets[0].Cluster.Talos.KubernetesVersion = "v1.34.2" })).To(Succeed())
		Eventually(func() *metav1.Time {
			return s.object(machines, types.NamespacedName{Namespace: s.namespace, Name: held}).GetDeletionTimestamp()
		}).
			WithTimeout(2 * time.Minute).ShouldNot(BeNil())

		s.delete(e)
		s.says(e, v1alpha1.ConditionReady, v1alpha1.ReasonDeleting, "Cluster "+s.claim(e, "app").String(), held)
		s.change(machines, held, `{"metadata": {"annotations": {"pre-drain.delete.hook.machine.cluster.x-k8s.io/lab": null, "pre-terminate.delete.hook.machine.cluster.x-k8s.io/lab": null}}}`)
		s.nothingLeft(e)
	})

	It("is listed when its infrastructure does not go in time", func(ctx SpecContext) {
		SetDefaultEventuallyTimeout(2 * time.Minute)
		DeferCleanup(SetDefaultEventuallyTimeout, time.Minute)
		s, e := onTalos(ctx, "v1beta2", "")
		e.Spec.Deletion = &v1alpha1.Deletion{Deadline: &metav1.Duration{Duration: time.Minute}}
		s.create(e)
		s.reaches(e, v1alpha1.PhaseComplete)
		cluster := s.claim(e, "app")
		s.change(dev.WithResource("devclusters"), cluster.Name, `{"metadata": {"finalizers": ["lab.example.com/hangs"]}}`)
		s.delete(e)
		s.says(e, v1alpha1.ConditionReady, v1alpha1.ReasonDeleting, "Waiting for DevCluster to be deleted")
		s.gone(e)
		left := s.leftBehind(e)
		Expect(left).To(HaveLen(1))
		Expect(left[0].Data["orphans.yaml"]).To(And(ContainSubstring("kind: Cluster\n"), ContainSubstring("kind: DevCluster\n"), ContainSubstring("Waiting for DevCluster to be deleted")))
		Expect(client.IgnoreNotFound(hub.client.Delete(ctx, &left[0]))).To(Succeed())
		s.change(dev.WithResource("devclusters"), cluster.Name, `{"metadata": {"finalizers": null}}`)
		Eventually(s.parts).Should(BeEmpty(), "what it was made of goes with the Cluster")
	})

	It("says what is paused, while it comes and while it goes", func(ctx SpecContext) {
		s, e := onTalos(ctx, "v1beta2", "", clusterReady)
		s.create(e)
		s.exists(clusters, s.claim(e, "app"))
		s.change(clusters, s.claim(e, "app").Name, `{"spec": {"paused": true}}`)
		s.says(e, v1alpha1.ConditionClustersReady, v1alpha1.ReasonClusterProvisioning, "Paused: Cluster spec.paused is set to true")
		s.change(clusters, s.claim(e, "app").Name, `{"spec": {"paused": null}}`)
		s.release()
		s.reaches(e, v1alpha1.PhaseComplete)
		s.change(clusters, s.claim(e, "app").Name, `{"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}}`)
		s.delete(e)
		s.says(e, v1alpha1.ConditionReady, v1alpha1.ReasonDeleting, "Paused: Cluster has the cluster.x-k8s.io/paused annotation")
		s.change(clusters, s.claim(e, "app").Name, `{"metadata": {"annotations": {"cluster.x-k8s.io/paused": null}}}`)
		s.nothingLeft(e)
	})

	It("is waited for where it does not run", func(ctx SpecContext) {
		stop := func() { Expect(core.Stop()).To(Succeed()) }
		start := func() { core.start(); core.ready() }
		By("creating one")
		s, e := onTalos(ctx, "v1beta2", "", workflowEnds)
		stop()
		s.create(e)
		s.says(e, v1alpha1.ConditionReady, v1alpha1.ReasonReconcileError, "failed calling webhook")
		start()
		s.reaches(e, v1alpha1.PhaseRunning)
		By("editing it")
		stop()
		Expect(s.edit(e, func(e *v1alpha1.Experiment) { e.Spec.Targets[0].Cluster.NodeCount = new(int32(2)) })).To(Succeed())
		s.says(e, v1alpha1.ConditionReady, v1alpha1.ReasonReconcileError, "failed calling webhook")
		start()
		Eventually(func() int64 {
			n, _, _ := unstructured.NestedInt64(s.object(deployments, s.claim(e, "app")).Object, "spec", "replicas")
			return n
		}).Should(BeEquivalentTo(2))
		s.release()
		s.reaches(e, v1alpha1.PhaseComplete)
		By("deleting it")
		stop()
		s.delete(e)
		s.says(e, v1alpha1.ConditionReady, v1alpha1.ReasonReconcileError, "failed calling webhook")
		start()
		s.nothingLeft(e)
	})

	It("makes a cluster again that somebody has deleted", func(ctx SpecContext) {
		s, e := onTalos(ctx, "v1beta2", "", workflowEnds)
		s.create(e)
		s.reaches(e, v1alpha1.PhaseRunning)
		before := s.object(clusters, s.claim(e, "app")).GetUID()
		hub.kubectl(ctx, "-n", s.namespace, "delete", "clusters.cluster.x-k8s.io", s.claim(e, "app").Name)
		Eventually(func(g Gomega) {
			uid := hub.kubectl(ctx, "-n", s.namespace, "get", "clusters.cluster.x-k8s.io", s.claim(e, "app").Name, "--ignore-not-found", "-o", "jsonpath={.metadata.uid}")
			g.Expect(uid).NotTo(Or(BeEmpty(), Equal(string(before))))
		}).Should(Succeed())
		Eventually(func() int { return len(s.workers("v1.34.1")) }).WithTimeout(2 * time.Minute).Should(Equal(1))
		s.release()
		s.reaches(e, v1alpha1.PhaseComplete)
		s.delete(e)
		s.nothingLeft(e)
	})

	It("waits for a control plane that takes the place of another", func(ctx SpecContext) {
		s, e := onTalos(ctx, "v1beta2", "", workflowEnds)
		s.create(e)
		s.reaches(e, v1alpha1.PhaseRunning)
		planes, key := madeOf[4], s.claim(e, "app")
		before := s.object(planes, key).GetUID()
		s.hold(clusterReady)
		hub.kubectl(ctx, "-n", s.namespace, "delete", "taloscontrolplanes", key.Name)
		Eventually(func(g Gomega) {
			uid := hub.kubectl(ctx, "-n", s.namespace, "get", "taloscontrolplanes", key.Name, "--ignore-not-found", "-o", "jsonpath={.metadata.uid}")
			g.Expect(uid).NotTo(Or(BeEmpty(), Equal(string(before))))
		}).Should(Succeed())
		s.says(e, v1alpha1.ConditionClustersReady, v1alpha1.ReasonClusterProvisioning, "no machine has booted")
		Consistently(func() v1alpha1.TargetState { return s.get(e).Status.Targets[0].State }).WithTimeout(3 * time.Second).Should(Equal(v1alpha1.TargetProvisioning))
		s.release()
		s.reaches(e, v1alpha1.PhaseComplete)
		s.delete(e)
		s.nothingLeft(e)
	})

	It("makes a virtual cluster, and takes it down", func(ctx SpecContext) {
		s := hub.newStage()
		s.real = []string{"Cluster"}
		e := s.create(experiment("virtual", target("app", v1alpha1.ClusterVCluster, "nginx", nil)))
		now := s.reaches(e, v1alpha1.PhaseComplete)
		Expect(now.Status.Targets[0].Endpoint).To(Equal("https://" + clusterEndpoint + ":443"))
		s.delete(e)
		s.nothingLeft(e)
	})
})
