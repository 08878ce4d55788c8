//go:build crossplane

// Experiments whose clusters Crossplane itself composes: make test-crossplane.
package integration_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/test/env"
)

// gcpKinds are what the Composition makes of the provider.
var gcpKinds = map[string]schema.GroupVersionKind{
	"networks":    {Group: "compute.gcp.upbound.io", Version: "v1beta1", Kind: "Network"},
	"subnetworks": {Group: "compute.gcp.upbound.io", Version: "v1beta2", Kind: "Subnetwork"},
	"clusters":    {Group: "container.gcp.upbound.io", Version: "v1beta2", Kind: "Cluster"},
	"nodepools":   {Group: "container.gcp.upbound.io", Version: "v1beta2", Kind: "NodePool"},
}

// gcp plays the provider: it makes what Crossplane composes, and takes it away again.
type gcp struct {
	*lab
	mu sync.Mutex
	// refused is what the cloud says to a kind, and held what it does not delete.
	refused map[string]string
	held    map[string]bool
}

func (g *gcp) set(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
}

const managedFinalizer = "finalizer.managedresource.crossplane.io"

func (g *gcp) run(ctx context.Context) {
	for ctx.Err() == nil {
		for _, u := range g.all(ctx) {
			g.mu.Lock()
			err := g.play(ctx, &u)
			g.mu.Unlock()
			if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && ctx.Err() == nil {
				fmt.Fprintf(GinkgoWriter, "gcp: %s %s: %v\n", u.GetKind(), u.GetName(), err)
			}
		}
		time.Sleep(300 * time.Millisecond)
	}
}

// all are the resources of the provider.
func (g *gcp) all(ctx context.Context) (all []unstructured.Unstructured) {
	for _, gvk := range gcpKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk)
		if err := g.client.List(ctx, list); err != nil && ctx.Err() == nil {
			fmt.Fprintf(GinkgoWriter, "gcp: %v\n", err)
		}
		all = append(all, list.Items...)
	}
	return all
}

func (g *gcp) play(ctx context.Context, u *unstructured.Unstructured) error {
	switch {
	case u.GetDeletionTimestamp() != nil:
		if g.held[u.GetKind()] || !controllerutil.RemoveFinalizer(u, managedFinalizer) {
			return nil
		}
		return g.client.Update(ctx, u)
	case controllerutil.AddFinalizer(u, managedFinalizer):
		return g.client.Update(ctx, u)
	}
	ready, status := "True", claimStatus("True", "Available", "", "True", "ReconcileSuccess", "")
	if why := g.refused[u.GetKind()]; why != "" {
		ready, status = "False", claimStatus("False", "Creating", "", "False", "ReconcileError", why)
	}
	if conditionOf(u, "Ready") == ready {
		return nil
	}
	if u.GetKind() == "Cluster" && ready == "True" {
		name, _, _ := unstructured.NestedString(u.Object, "spec", "writeConnectionSecretToRef", "name")
		namespace, _, _ := unstructured.NestedString(u.Object, "spec", "writeConnectionSecretToRef", "namespace")
		err := g.client.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Type: "connection.crossplane.io/v1alpha1",
			StringData: map[string]string{"kubeconfig": kubeconfig("")},
		})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		status["atProvider"] = map[string]any{"endpoint": clusterEndpoint}
	}
	u.Object["status"] = map[string]any{"conditions": status["conditions"], "atProvider": status["atProvider"]}
	return g.client.Status().Update(ctx, u)
}

// startCrossplane starts it on the hub with its Functions, and what config/crossplane has for clusters by claim.
func startCrossplane(ctx context.Context) *gcp {
	GinkgoHelper()
	hub.install(ctx, "bin/crds/crossplane")
	for plural, gvk := range gcpKinds {
		service, _, _ := strings.Cut(gvk.Group, ".")
		crds, err := hub.ReadObjects(ctx, filepath.Join(env.Root(), "bin/crds-whole/provider-gcp-"+service, gvk.Group+"_"+plural+".yaml"))
		Expect(err).NotTo(HaveOccurred())
		// The provider serves the conversion of one version to the other.
		unstructured.RemoveNestedField(crds[0].Object, "spec", "conversion")
		versions, _, _ := unstructured.NestedSlice(crds[0].Object, "spec", "versions")
		versions = slices.DeleteFunc(versions, func(v any) bool { return v.(map[string]any)["name"] != gvk.Version })
		versions[0].(map[string]any)["storage"] = true
		Expect(unstructured.SetNestedSlice(crds[0].Object, versions, "spec", "versions")).To(Succeed())
		Expect(hub.ApplyObjects(ctx, crds...)).To(Succeed())
	}
	of := filepath.Join(hub.Dir(), "crossplane")
	Expect(os.Mkdir(of, 0o700)).To(Succeed())
	authority := newAuthority("localhost")
	for name, content := range map[string][]byte{"ca.crt": authority.certificate, "tls.crt": authority.certificate, "tls.key": authority.key} {
		Expect(os.WriteFile(filepath.Join(of, name), content, 0o600)).To(Succeed())
	}
	start := func(name string, args ...string) {
		process, err := hub.StartProcess(name, "/usr/bin/env", append([]string{
			"KUBECONFIG=" + hub.Kubeconfig(), "POD_NAMESPACE=" + crossplaneNamespace, "XPKG_CACHE_DIR=" + of, "TLS_CLIENT_CERTS_DIR=" + of, "TLS_SERVER_CERTS_DIR=" + of,
			filepath.Join(env.Root(), "bin", name)}, args...)...)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(process.Exited()).NotTo(BeClosed(), process.Tail(15)) })
	}
	for _, name := range []string{"function-patch-and-transform", "function-auto-ready"} {
		address := freeAddresses(1)[0]
		start(name, "--address="+address)
		// Nobody takes a package here: the package manager leaves it alone.
		revision := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "pkg.crossplane.io/v1", "kind": "FunctionRevision",
			"metadata": map[string]any{"name": name + "-1", "labels": map[string]any{"pkg.crossplane.io/package": name}, "annotations": map[string]any{"crossplane.io/paused": "true"}},
			"spec":     map[string]any{"desiredState": "Active", "image": "example.com/" + name + ":v1", "revision": int64(1)},
		}}
		Expect(hub.client.Create(ctx, revision)).To(Succeed())
		revision.Object["status"] = map[string]any{"endpoint": "dns:///localhost:" + port(address), "capabilities": []any{"composition"}}
		Expect(hub.client.Status().Update(ctx, revision)).To(Succeed())
	}
	addresses := freeAddresses(2)
	start("crossplane", "core", "start", "--enable-webhooks=false", "--metrics-port="+port(addresses[0]), "--health-probe-port="+port(addresses[1]))
	hub.apply(ctx, "config/crossplane/claim")
	Eventually(func(g Gomega) {
		said := hub.kubectl(ctx, "get", "xrd", "xgkeclusters.illm.io", "-o", "jsonpath={.status.conditions}")
		g.Expect(said).To(And(ContainSubstring(`"Established"`), ContainSubstring(`"Offered"`), Not(ContainSubstring(`"False"`))))
	}).WithTimeout(time.Minute).Should(Succeed())
	playing, end := context.WithCancel(background())
	DeferCleanup(end)
	g := &gcp{lab: hub, refused: map[string]string{}, held: map[string]bool{}}
	go g.run(playing)
	return g
}

var _ = Describe("Crossplane itself", Label("crossplane"), Ordered, ContinueOnFailure, func() {
	var cloud *gcp
	BeforeAll(func(ctx SpecContext) {
		cloud = startCrossplane(ctx)
		SetDefaultEventuallyTimeout(time.Minute)
		DeferCleanup(SetDefaultEventuallyTimeout, 20*time.Second)
	})
	newStage := func(holds ...hold) *stage {
		s := hub.newStage(holds...)
		s.real = []string{"GKECluster"}
		return s
	}
	made := func() (names []string) {
		for _, u := range cloud.all(background()) {
			names = append(names, u.GetKind())
		}
		slices.Sort(names)
		return names
	}

	It("composes a cluster of the machines that were asked for, and all of it is gone before its claim is", func() {
		s := newStage()
		e := experiment("road", onGKE("app", "k6"))
		e.Spec.Targets[0].Cluster = v1alpha1.ClusterSpec{Type: v1alpha1.ClusterGKE, Zone: "europe-west4-b", NodeCount: new(int32(3)), MachineType: "n2-standard-4", Preemptible: new(true)}
		s.create(e)
		s.reaches(e, v1alpha1.PhaseComplete)
		Expect(s.get(e).Status.Targets[0].Endpoint).To(ContainSubstring(clusterEndpoint))
		Expect(made()).To(Equal([]string{"Cluster", "Network", "NodePool", "Subnetwork"}))
		for _, u := range cloud.all(background()) {
			field := func(path ...string) any {
				v, _, _ := unstructured.NestedFieldNoCopy(u.Object, append([]string{"spec", "forProvider"}, path...)...)
				return v
			}
			Expect(len(u.GetAnnotations()["crossplane.io/external-name"])).To(And(BeNumerically(">", 5), BeNumerically("<=", 40)))
			switch u.GetKind() {
			case "Subnetwork":
				Expect(field("region")).To(Equal("europe-west4"))
			case "Cluster":
				Expect(field("location")).To(Equal("europe-west4-b"))
				Expect(field("deletionProtection")).To(BeFalse())
			case "NodePool":
				Expect(field("nodeCount")).To(BeEquivalentTo(3))
				Expect(field("nodeConfig", "machineType")).To(Equal("n2-standard-4"))
				Expect(field("nodeConfig", "spot")).To(BeTrue())
			}
		}
		cloud.set(func() { cloud.held["NodePool"] = true })
		DeferCleanup(func() { cloud.set(func() { clear(cloud.held) }) })
		s.delete(e)
		s.says(e, v1alpha1.ConditionReady, v1alpha1.ReasonDeleting, "GKECluster")
		Eventually(made).Should(Equal([]string{"NodePool"}))
		Consistently(func() error { return s.client.Get(background(), client.ObjectKeyFromObject(e), &v1alpha1.Experiment{}) }).WithTimeout(3 * time.Second).Should(Succeed())
		cloud.set(func() { clear(cloud.held) })
		s.gone(e)
		Expect(s.children(e)).To(BeEmpty())
		Expect(made()).To(BeEmpty())
	})

	It("says what the cloud refuses, and goes on when it does not any more", func() {
		cloud.set(func() { cloud.refused["Cluster"] = "googleapi: Error 403: Insufficient regional quota" })
		DeferCleanup(func() { cloud.set(func() { clear(cloud.refused) }) })
		s := newStage()
		e := s.create(experiment("refused", onGKE("app", "k6")))
		// A claim says no more, nor what is refused.
		s.says(e, v1alpha1.ConditionClustersReady, v1alpha1.ReasonClusterProvisioning, "Waiting", "crossplane beta trace gkecluster "+s.claim(e, "app").Name)
		Eventually(made).Should(HaveLen(4))
		cloud.set(func() { clear(cloud.refused) })
		s.reaches(e, v1alpha1.PhaseComplete)
		s.delete(e)
		s.gone(e)
		Expect(made()).To(BeEmpty())
	})

	It("takes a cluster down that is deleted while it is made", func() {
		cloud.set(func() { cloud.refused["NodePool"] = "not yet" })
		DeferCleanup(func() { cloud.set(func() { clear(cloud.refused) }) })
		s := newStage()
		e := s.create(experiment("early", onGKE("app", "k6")))
		Eventually(made).Should(HaveLen(4))
		s.delete(e)
		s.gone(e)
		Expect(made()).To(BeEmpty())
		Expect(s.children(e)).To(BeEmpty())
	})

	It("makes a cluster again whose claim somebody has deleted", func() {
		s := newStage(workflowEnds)
		e := s.create(experiment("again", onGKE("app", "k6")))
		s.reaches(e, v1alpha1.PhaseRunning)
		first := s.object(claims, s.claim(e, "app")).GetUID()
		hub.kubectl(background(), "-n", s.namespace, "delete", "gkecluster", s.claim(e, "app").Name, "--wait=false")
		Eventually(func(g Gomega) {
			now := s.get(e)
			g.Expect(hub.kubectl(background(), "-n", s.namespace, "get", "gkecluster", "-o", "jsonpath={.items[*].metadata.uid}")).NotTo(Or(BeEmpty(), ContainSubstring(string(first))), said(now))
		}).Should(Succeed())
		s.release()
		s.reaches(e, v1alpha1.PhaseComplete)
		s.delete(e)
		s.gone(e)
		Expect(made()).To(BeEmpty())
	})
})
