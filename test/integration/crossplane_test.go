//go:build crossplane

// Experiments whose clusters Crossplane itself composes: make test-crossplane.
package integration_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/test/crossplane"
	"github.com/labkeeper/labkeeper/test/env"
)

// offer is a way in which a hub has clusters of Crossplane.
type offer struct {
	name string
	// dir is what it applies of config/crossplane, and xrd the definition in it.
	dir, xrd string
	provider crossplane.Provider
	// args are those that dir has the manager started with, and apart the namespace that clusters are in, if not in that of the Experiment.
	args  []string
	apart string
	// token: there are credentials in the kubeconfig, as a composition of one's own may have it. Those of dir have none.
	token bool
	// waits is what is said of a cluster that is being made.
	waits string
}

var offers = []offer{
	{name: "claims", dir: "claim", xrd: "xgkeclusters.illm.io", args: []string{"--keyless-gke"}, waits: "Waiting"},
	{
		name: "namespaced composites", dir: "composite", xrd: "gkeclusters.illm.io", provider: crossplane.Provider{Namespaced: true},
		args: []string{"--keyless-gke", "--claim-namespace=clusters"}, apart: "clusters", waits: "Unready resources",
	},
	{
		name: "namespaced composites beside Experiments", dir: "composite", xrd: "gkeclusters.illm.io", provider: crossplane.Provider{Namespaced: true},
		token: true, waits: "Unready resources",
	},
}

// gcp plays the provider and its cloud: it makes what Crossplane composes, and takes it away again, each part when what it is made in is
// there, or what is in it is gone. What the provider's definitions do not know the API server refuses.
type gcp struct {
	*lab
	offer offer
	mu    sync.Mutex
	// refused is what the cloud says to a kind, and held what it does not delete.
	refused map[string]string
	held    map[string]bool
	// addresses are those of clusters by their UIDs.
	addresses map[types.UID]string
	// restart stops Crossplane and starts it with other arguments.
	restart func(args ...string)
}

func (g *gcp) set(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
}

const managedFinalizer = "finalizer.managedresource.crossplane.io"

func (g *gcp) run(ctx context.Context) {
	for ctx.Err() == nil {
		g.mu.Lock()
		all := g.all(ctx)
		for i := range all {
			err := g.play(ctx, &all[i], all)
			if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && ctx.Err() == nil {
				fmt.Fprintf(GinkgoWriter, "gcp: %s %s: %v\n", all[i].GetKind(), all[i].GetName(), err)
			}
		}
		g.mu.Unlock()
		time.Sleep(300 * time.Millisecond)
	}
}

// all are the resources of the provider.
func (g *gcp) all(ctx context.Context) (all []unstructured.Unstructured) {
	if g.offer.dir == "" {
		return nil
	}
	for _, gvk := range g.offer.provider.Kinds() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk)
		if err := g.client.List(ctx, list); err != nil && ctx.Err() == nil {
			fmt.Fprintf(GinkgoWriter, "gcp: %v\n", err)
		}
		all = append(all, list.Items...)
	}
	return all
}

// play takes the next step of a resource.
func (g *gcp) play(ctx context.Context, u *unstructured.Unstructured, all []unstructured.Unstructured) error {
	switch {
	case u.GetDeletionTimestamp() != nil:
		return g.remove(ctx, u, all)
	case controllerutil.AddFinalizer(u, managedFinalizer):
		return g.client.Update(ctx, u)
	case conditionOf(u, "Ready") == "True":
		return g.publish(ctx, u)
	}
	changed, why := resolve(u, all)
	if changed {
		return g.client.Update(ctx, u)
	}
	project, err := g.project(ctx, u)
	if err = cmp.Or(why, err, g.refuses(u, all)); err != nil {
		return g.say(ctx, u, claimStatus("False", "Creating", "", "False", "ReconcileError", err.Error()))
	}
	if conditionOf(u, "Synced") != "True" {
		return g.say(ctx, u, claimStatus("False", "Creating", "", "True", "ReconcileSuccess", ""))
	}
	observed := map[string]any{"id": "projects/" + project + "/" + u.GetKind() + "/" + externalName(u)}
	if u.GetKind() == "Cluster" {
		if g.addresses[u.GetUID()] == "" {
			g.addresses[u.GetUID()] = fmt.Sprintf("203.0.113.%d", 10+len(g.addresses))
		}
		observed["endpoint"] = g.addresses[u.GetUID()]
	}
	status := claimStatus("True", "Available", "", "True", "ReconcileSuccess", "")
	status["atProvider"] = observed
	return g.say(ctx, u, status)
}

// say writes a status, unless it is that already.
func (g *gcp) say(ctx context.Context, u *unstructured.Unstructured, status map[string]any) error {
	delete(status, "endpoint") // which a claim has
	said := func(of any) (said string) {
		conditions, _ := of.([]any)
		for _, c := range conditions {
			m := c.(map[string]any)
			said += fmt.Sprintln(m["type"], m["status"], m["reason"], m["message"])
		}
		return said
	}
	before, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	if said(any(before)) == said(status["conditions"]) {
		return nil
	}
	if observed, found, _ := unstructured.NestedMap(u.Object, "status", "atProvider"); found && status["atProvider"] == nil {
		status["atProvider"] = observed
	}
	u.Object["status"] = status
	return g.client.Status().Update(ctx, u)
}

func externalName(u *unstructured.Unstructured) string {
	return u.GetAnnotations()["crossplane.io/external-name"]
}

func textAt(u *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(u.Object, path...)
	return s
}

// referred are the fields that name what a resource is made in, by its kind.
var referred = map[string]string{"network": "Network", "subnetwork": "Subnetwork", "cluster": "Cluster"}

// resolve sets the next of the fields that a selector is there for, as the provider does.
func resolve(u *unstructured.Unstructured, all []unstructured.Unstructured) (changed bool, why error) {
	for field, kind := range referred {
		selects, found, _ := unstructured.NestedBool(u.Object, "spec", "forProvider", field+"Selector", "matchControllerRef")
		if !found || textAt(u, "spec", "forProvider", field) != "" {
			continue
		}
		of, owner := slices.IndexFunc(all, func(o unstructured.Unstructured) bool {
			mine, its := metav1.GetControllerOf(u), metav1.GetControllerOf(&o)
			return selects && o.GetKind() == kind && o.GetNamespace() == u.GetNamespace() && mine != nil && its != nil && mine.UID == its.UID
		}), "cannot resolve references: mg.Spec.ForProvider."+kind+": "
		if of < 0 {
			return false, errors.New(owner + "no resources matched selector")
		}
		id := textAt(&all[of], "status", "atProvider", "id")
		if id == "" {
			return false, errors.New(owner + "referenced field was empty (referenced resource may not yet be ready)")
		}
		return true, errors.Join(
			unstructured.SetNestedField(u.Object, id, "spec", "forProvider", field),
			unstructured.SetNestedField(u.Object, all[of].GetName(), "spec", "forProvider", field+"Ref", "name"))
	}
	return false, nil
}

// project is that of what says who makes a resource, and where.
func (g *gcp) project(ctx context.Context, u *unstructured.Unstructured) (string, error) {
	config := &unstructured.Unstructured{}
	config.SetGroupVersionKind(g.offer.provider.Config())
	if kind := textAt(u, "spec", "providerConfigRef", "kind"); g.offer.provider.Namespaced && kind != config.GetKind() {
		return "", fmt.Errorf("cannot get ProviderConfig: of kind %q", kind)
	}
	name := textAt(u, "spec", "providerConfigRef", "name")
	if err := g.client.Get(ctx, client.ObjectKey{Name: name}, config); err != nil {
		return "", fmt.Errorf("cannot get ProviderConfig: %w", err)
	}
	return textAt(config, "spec", "projectID"), nil
}

// gkeName is what GKE takes for a name, which is the strictest of all.
var gkeName = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$`)

// refuses says why the cloud makes no such thing.
func (g *gcp) refuses(u *unstructured.Unstructured, all []unstructured.Unstructured) error {
	name := externalName(u)
	if !gkeName.MatchString(name) {
		return fmt.Errorf("googleapi: Error 400: Invalid value for field 'resource.name': %q", name)
	}
	for _, other := range all { // what the provider would take for this one, and delete with it
		if other.GetKind() == u.GetKind() && externalName(&other) == name && other.GetUID() != u.GetUID() {
			return fmt.Errorf("googleapi: Error 409: Already exists: %s", name)
		}
	}
	if why := g.refused[u.GetKind()]; why != "" {
		return errors.New(why)
	}
	return nil
}

// remove deletes what nothing is in any more.
func (g *gcp) remove(ctx context.Context, u *unstructured.Unstructured, all []unstructured.Unstructured) error {
	why := ""
	if protected, _, _ := unstructured.NestedBool(u.Object, "spec", "forProvider", "deletionProtection"); protected {
		why = "cannot destroy cluster without setting deletion_protection=false"
	}
	for _, other := range all {
		if id := textAt(u, "status", "atProvider", "id"); id != "" && u.GetKind() != "Cluster" && // whose nodes go with it
			(textAt(&other, "spec", "forProvider", "network") == id || textAt(&other, "spec", "forProvider", "subnetwork") == id) {
			why = "googleapi: Error 400: The resource is already being used by " + externalName(&other)
		}
	}
	switch {
	case why != "":
		return g.say(ctx, u, claimStatus("False", "Deleting", "", "False", "ReconcileError", why))
	case g.held[u.GetKind()]:
		return g.say(ctx, u, claimStatus("False", "Deleting", "", "True", "ReconcileSuccess", ""))
	case controllerutil.RemoveFinalizer(u, managedFinalizer):
		return g.client.Update(ctx, u)
	}
	return nil
}

// publish writes the kubeconfig of a cluster to the Secret that it names, which is that cluster's alone, and goes with it. One of
// which that Secret is not is Ready nevertheless.
func (g *gcp) publish(ctx context.Context, u *unstructured.Unstructured) error {
	name := textAt(u, "spec", "writeConnectionSecretToRef", "name")
	if u.GetKind() != "Cluster" || name == "" {
		return nil
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cmp.Or(u.GetNamespace(), textAt(u, "spec", "writeConnectionSecretToRef", "namespace")), Name: name,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(u, u.GroupVersionKind())},
		},
		Type:       "connection.crossplane.io/v1alpha1",
		StringData: map[string]string{"kubeconfig": g.kubeconfigOf(u)},
	}
	err := g.client.Create(ctx, secret)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := g.client.Get(ctx, client.ObjectKeyFromObject(secret), secret); err != nil {
		return err
	}
	status := claimStatus("True", "Available", "", "True", "ReconcileSuccess", "")
	if !metav1.IsControlledBy(secret, u) {
		status = claimStatus("True", "Available", "", "False", "ReconcileError", "cannot publish connection details: existing secret is not controlled by UID "+string(u.GetUID()))
	}
	return g.say(ctx, u, status)
}

// kubeconfigOf is that of a cluster that has no client certificate, in which the user has nothing to show, or one with a token.
func (g *gcp) kubeconfigOf(u *unstructured.Unstructured) string {
	content := strings.ReplaceAll(kubeconfig(""), clusterEndpoint, g.addresses[u.GetUID()])
	if g.offer.token {
		return content
	}
	return regexp.MustCompile(`user: \{token: [^}]*\}`).ReplaceAllString(content, `user: {client-certificate-data: "", client-key-data: ""}`)
}

// trace runs the command that a condition names.
func (g *gcp) trace(said string) string {
	GinkgoHelper()
	_, args, found := strings.Cut(said, "see crossplane ")
	Expect(found).To(BeTrue(), said)
	command := exec.Command(filepath.Join(env.Root(), "bin/crossplane-trace"), strings.Fields(args)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+g.Kubeconfig())
	output, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))
	return string(output)
}

// startCrossplane starts it on the hub with the Functions.
func startCrossplane(ctx context.Context) *gcp {
	GinkgoHelper()
	hub.install(ctx, "bin/crds/crossplane")
	of := filepath.Join(hub.Dir(), "crossplane")
	Expect(os.Mkdir(of, 0o700)).To(Succeed())
	authority := newAuthority("localhost")
	for name, content := range map[string][]byte{"ca.crt": authority.certificate, "tls.crt": authority.certificate, "tls.key": authority.key} {
		Expect(os.WriteFile(filepath.Join(of, name), content, 0o600)).To(Succeed())
	}
	start := func(name string, args ...string) *env.Process {
		process, err := hub.StartProcess(name, "/usr/bin/env", append([]string{
			"KUBECONFIG=" + hub.Kubeconfig(), "POD_NAMESPACE=" + crossplaneNamespace, "XPKG_CACHE_DIR=" + of, "TLS_CLIENT_CERTS_DIR=" + of, "TLS_SERVER_CERTS_DIR=" + of,
			filepath.Join(env.Root(), "bin", name)}, args...)...)
		Expect(err).NotTo(HaveOccurred())
		return process
	}
	runs := func(process *env.Process) {
		GinkgoHelper()
		Expect(process.Exited()).NotTo(BeClosed(), process.Tail(15))
	}
	for _, name := range []string{"function-patch-and-transform", "function-auto-ready"} {
		address := freeAddresses(1)[0]
		function := start(name, "--address="+address)
		DeferCleanup(func() { runs(function) })
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
	g := &gcp{lab: hub, refused: map[string]string{}, held: map[string]bool{}, addresses: map[types.UID]string{}}
	addresses := freeAddresses(2)
	var core *env.Process
	g.restart = func(args ...string) {
		if core != nil {
			runs(core)
			_ = core.Stop() // an error is how it ended
		}
		core = start("crossplane", append([]string{"core", "start", "--enable-webhooks=false", "--metrics-port=" + port(addresses[0]), "--health-probe-port=" + port(addresses[1])}, args...)...)
	}
	g.restart(patient)
	DeferCleanup(func() { runs(core) })
	return g
}

// patient is Crossplane where what takes a cloud minutes takes seconds: it counts how often in a minute a cluster changes.
const patient = "--circuit-breaker-burst=10000"

// take has the hub offer clusters in another way than before: it applies what config/crossplane has for it, with the provider that it
// needs, and starts the manager as that says.
func (g *gcp) take(ctx context.Context, next offer) {
	GinkgoHelper()
	shared.stop()
	if before := g.offer.dir; before != "" && before != next.dir {
		hub.kubectl(ctx, "delete", "--timeout=1m", "-k", filepath.Join(env.Root(), "config/crossplane", before))
		Eventually(func() string { return hub.kubectl(ctx, "get", "crd", "gkeclusters.illm.io", "--ignore-not-found") }).Should(BeEmpty())
	}
	crds, err := next.provider.Definitions(env.Root())
	Expect(err).NotTo(HaveOccurred())
	Expect(hub.ApplyObjects(ctx, crds...)).To(Succeed())
	for _, crd := range crds {
		hub.kubectl(ctx, "wait", "--for=condition=Established", "--timeout=30s", "crd", crd.GetName())
	}
	g.set(func() { g.offer = next })
	config, err := hub.ReadObjects(ctx, filepath.Join(env.Root(), "config/crossplane", next.dir, "providerconfig.yaml"))
	Expect(err).NotTo(HaveOccurred())
	Expect(unstructured.SetNestedField(config[0].Object, "lab-project", "spec", "projectID")).To(Succeed())
	Expect(hub.ApplyObjects(ctx, config...)).To(Succeed())
	hub.apply(ctx, "config/crossplane/"+next.dir)
	Eventually(func(e Gomega) {
		said := hub.kubectl(ctx, "get", "xrd", next.xrd, "-o", "jsonpath={.status.conditions}")
		e.Expect(said).To(And(ContainSubstring(`"Established"`), Not(ContainSubstring(`"False"`))))
		if !next.provider.Namespaced {
			e.Expect(said).To(ContainSubstring(`"Offered"`))
		}
	}).Should(Succeed())
	if next.apart != "" {
		hub.kubectl(ctx, "create", "namespace", next.apart)
		g.letRead(ctx, next.apart)
	}
	g.collected(ctx)
	shared = hub.launchManager("manager", append(sharedArgs(), next.args...)...)
}

// collected waits until the garbage collector, which looks for new kinds every half a minute, knows those of the provider: before that it
// lets an owner that is deleted in the foreground go at once.
func (g *gcp) collected(ctx context.Context) {
	GinkgoHelper()
	orphan := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"forProvider": map[string]any{}}}}
	orphan.SetGroupVersionKind(g.offer.provider.Kinds()[0])
	orphan.SetName("orphan")
	if g.offer.provider.Namespaced {
		orphan.SetNamespace(metav1.NamespaceDefault)
	}
	orphan.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: "nobody", UID: "00000000-0000-0000-0000-000000000000"}})
	Expect(g.client.Create(ctx, orphan)).To(Succeed())
	Eventually(func() bool {
		return apierrors.IsNotFound(g.client.Get(ctx, client.ObjectKeyFromObject(orphan), orphan))
	}).Should(BeTrue())
}

// letRead lets the manager read the kubeconfigs in a namespace, as config/crossplane/composite says.
func (g *gcp) letRead(ctx context.Context, namespace string) {
	GinkgoHelper()
	g.kubectl(ctx, "-n", namespace, "create", "rolebinding", "labkeeper-kubeconfigs", "--clusterrole=labkeeper-kubeconfig-reader",
		"--serviceaccount="+managerNamespace+":"+managerAccount)
}

// newStage is one whose clusters the provider makes.
func (g *gcp) newStage(holds ...hold) *stage {
	GinkgoHelper()
	s := hub.newStage(holds...)
	s.real = []string{"GKECluster"}
	if g.offer.provider.Namespaced && g.offer.apart == "" {
		g.letRead(background(), s.namespace)
	}
	return s
}

// cluster is the claim or composite of a target.
func (g *gcp) cluster(s *stage, e *v1alpha1.Experiment) types.NamespacedName {
	key := s.claim(e, "app")
	key.Namespace = cmp.Or(g.offer.apart, key.Namespace)
	return key
}

// made are the kinds of what there is of clusters.
func (g *gcp) made() (names []string) {
	for _, u := range g.all(background()) {
		names = append(names, u.GetKind())
	}
	slices.Sort(names)
	return names
}

// one is the only resource of a kind that nobody has asked to go.
func (g *gcp) one(kind string) *unstructured.Unstructured {
	GinkgoHelper()
	all := slices.DeleteFunc(g.all(background()), func(u unstructured.Unstructured) bool { return u.GetKind() != kind || u.GetDeletionTimestamp() != nil })
	Expect(all).To(HaveLen(1), kind)
	return &all[0]
}

// refuse has the cloud refuse a kind, and hold not delete it, until the spec ends or lets it.
func (g *gcp) refuse(kind, why string) {
	g.set(func() { g.refused[kind] = why })
	DeferCleanup(g.let)
}

func (g *gcp) hold(kind string) {
	g.set(func() { g.held[kind] = true })
	DeferCleanup(g.let)
}

func (g *gcp) let() {
	g.set(func() {
		clear(g.refused)
		clear(g.held)
	})
}

var _ = Describe("Crossplane itself", Label("crossplane"), Ordered, ContinueOnFailure, func() {
	var cloud *gcp
	BeforeAll(func(ctx SpecContext) {
		SetDefaultEventuallyTimeout(time.Minute)
		DeferCleanup(SetDefaultEventuallyTimeout, 20*time.Second)
		DeferCleanup(func() {
			shared.stop()
			restartShared()
		})
		cloud = startCrossplane(ctx)
		playing, end := context.WithCancel(background())
		DeferCleanup(end)
		go cloud.run(playing)
	})
	for _, way := range offers {
		Describe(way.name, func() { composes(way, &cloud) })
	}
})

// composes are the specs of each way.
func composes(way offer, of **gcp) {
	var cloud *gcp
	BeforeAll(func(ctx SpecContext) {
		cloud = *of
		cloud.take(ctx, way)
	})
	gone := func(s *stage, e *v1alpha1.Experiment) {
		GinkgoHelper()
		s.gone(e)
		Expect(s.children(e)).To(BeEmpty())
		Expect(cloud.made()).To(BeEmpty())
	}

	It("composes a cluster of the machines that were asked for, and all of it is gone before its claim is", func() {
		s := cloud.newStage()
		e := experiment("road", onGKE("app", "k6"))
		e.Spec.Targets[0].Cluster = v1alpha1.ClusterSpec{Type: v1alpha1.ClusterGKE, Zone: "europe-west4-b", NodeCount: new(int32(3)), MachineType: "n2-standard-4", Preemptible: new(true)}
		s.create(e)
		s.reaches(e, v1alpha1.PhaseComplete)
		Expect(s.get(e).Status.Targets[0].Endpoint).To(Equal("https://" + textAt(cloud.one("Cluster"), "status", "atProvider", "endpoint")))
		Expect(cloud.made()).To(Equal([]string{"Cluster", "Network", "NodePool", "Subnetwork"}))
		field := func(kind string, path ...string) any {
			v, _, _ := unstructured.NestedFieldNoCopy(cloud.one(kind).Object, append([]string{"spec", "forProvider"}, path...)...)
			return v
		}
		Expect(field("Subnetwork", "region")).To(Equal("europe-west4"))
		Expect(field("Cluster", "location")).To(Equal("europe-west4-b"))
		Expect(field("NodePool", "nodeCount")).To(BeEquivalentTo(3))
		Expect(field("NodePool", "nodeConfig", "machineType")).To(Equal("n2-standard-4"))
		Expect(field("NodePool", "nodeConfig", "spot")).To(BeTrue())

		cloud.hold("NodePool")
		s.delete(e)
		s.says(e, v1alpha1.ConditionReady, v1alpha1.ReasonDeleting, "GKECluster")
		Eventually(cloud.made).Should(Equal([]string{"NodePool"}))
		Consistently(func() error { return s.client.Get(background(), client.ObjectKeyFromObject(e), &v1alpha1.Experiment{}) }).WithTimeout(3 * time.Second).Should(Succeed())
		cloud.let()
		gone(s, e)
	})

	It("says how to see what the cloud refuses, and goes on when it does not any more", func() {
		const why = "googleapi: Error 403: Insufficient regional quota to satisfy request: resource \"SSD_TOTAL_GB\": request requires '300.0' and is short '50.0'. " +
			"View and manage quotas at https://console.cloud.google.com/iam-admin/quotas?usage=USED"
		cloud.refuse("Cluster", why)
		s := cloud.newStage()
		e := s.create(experiment("refused", onGKE("app", "k6")))
		// A claim or composite says no more, nor what is refused.
		key := cloud.cluster(s, e)
		s.says(e, v1alpha1.ConditionClustersReady, v1alpha1.ReasonClusterProvisioning, way.waits, "crossplane beta trace gkecluster "+key.Name+" -n "+key.Namespace)
		Eventually(cloud.made).Should(HaveLen(4))
		Eventually(func() string {
			return cloud.trace(meta.FindStatusCondition(s.get(e).Status.Conditions, v1alpha1.ConditionClustersReady).Message)
		}).WithPolling(time.Second).Should(ContainSubstring(why))
		cloud.let()
		s.reaches(e, v1alpha1.PhaseComplete)
		s.delete(e)
		gone(s, e)
	})

	It("takes a cluster down that is deleted while it is made", func() {
		cloud.refuse("NodePool", "not yet")
		s := cloud.newStage()
		e := s.create(experiment("early", onGKE("app", "k6")))
		Eventually(cloud.made).Should(HaveLen(4))
		s.delete(e)
		gone(s, e)
	})

	It("makes a cluster again whose claim somebody has deleted", func() {
		s := cloud.newStage(workflowEnds)
		e := s.create(experiment("again", onGKE("app", "k6")))
		s.reaches(e, v1alpha1.PhaseRunning)
		key := cloud.cluster(s, e)
		first, old := s.object(claims, key).GetUID(), cloud.one("Cluster")
		hub.kubectl(background(), "-n", key.Namespace, "delete", "gkecluster", key.Name, "--wait=false")
		Eventually(func(g Gomega) {
			uid := hub.kubectl(background(), "-n", key.Namespace, "get", "gkecluster", "-o", "jsonpath={.items[*].metadata.uid}")
			g.Expect(uid).NotTo(Or(BeEmpty(), ContainSubstring(string(first))), said(s.get(e)))
		}).Should(Succeed())
		s.release()
		s.reaches(e, v1alpha1.PhaseComplete)
		Expect(s.get(e).Status.Targets[0].Endpoint).To(And(HavePrefix("https://"), Not(ContainSubstring(textAt(old, "status", "atProvider", "endpoint")))))
		s.delete(e)
		gone(s, e)
	})

	if way.provider.Namespaced {
		// The old cluster takes its time, and the Secret is its own until then. (A claim stays as long as its cluster.)
		It("does not take the kubeconfig of the cluster that was for that of the one in its place", func() {
			s := cloud.newStage(workflowEnds)
			e := s.create(experiment("place", onGKE("app", "k6")))
			s.reaches(e, v1alpha1.PhaseRunning)
			key, old := cloud.cluster(s, e), cloud.one("Cluster")
			cloud.hold("Cluster")
			hub.kubectl(background(), "-n", key.Namespace, "delete", "gkecluster", key.Name, "--wait=false")
			s.release()
			s.says(e, v1alpha1.ConditionClustersReady, v1alpha1.ReasonKubeconfigInvalid, textAt(old, "status", "atProvider", "endpoint"))
			cloud.let()
			s.reaches(e, v1alpha1.PhaseComplete)
			Expect(s.get(e).Status.Targets[0].Endpoint).To(Equal("https://" + textAt(cloud.one("Cluster"), "status", "atProvider", "endpoint")))
			s.delete(e)
			gone(s, e)
		})

		It("says that Crossplane looks at a cluster from time to time only, as too much happens to what it is made of", func() {
			cloud.restart("--circuit-breaker-burst=40", "--circuit-breaker-refill-rate=2", "--circuit-breaker-cooldown=5s")
			DeferCleanup(cloud.restart, patient)
			cloud.refuse("Cluster", "not yet")
			s := cloud.newStage()
			e := s.create(experiment("noisy", onGKE("app", "k6")))
			Eventually(cloud.made).Should(HaveLen(4))
			Eventually(func(g Gomega) {
				for range 5 {
					hub.kubectl(background(), "annotate", "--overwrite", "-n", cloud.cluster(s, e).Namespace, "cluster.container.gcp.m.upbound.io", "--all", "changed="+time.Now().Format(time.RFC3339Nano))
				}
				c := meta.FindStatusCondition(s.get(e).Status.Conditions, v1alpha1.ConditionClustersReady)
				g.Expect(c.Message).To(And(ContainSubstring("WatchCircuitOpen"), ContainSubstring("Cluster/")))
			}).Should(Succeed())
			cloud.let()
			s.reaches(e, v1alpha1.PhaseComplete)
			s.delete(e)
			gone(s, e)
		})
	}
}
