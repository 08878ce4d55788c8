package stages_test

import (
	"context"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/labkeeper/labkeeper/test/env"
	"github.com/labkeeper/labkeeper/test/env/testenv"
	"github.com/labkeeper/labkeeper/test/stages"
)

const (
	claimManifest = `
apiVersion: illm.io/v1alpha1
kind: GKECluster
metadata:
  name: c1
  labels: {experiments.illm.io/experiment: gateway-tutorial, experiments.illm.io/target: app}
  finalizers: [example.com/ours]
spec: {zone: us-central1-a, nodeCount: 1, machineType: e2-medium, diskSizeGb: 50, preemptible: false}
`
	applicationManifest = `
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata:
  name: a1
  finalizers: [resources-finalizer.argocd.argoproj.io]
spec:
  project: default
  sources:
  - {repoURL: https://example.com/repo.git, targetRevision: main, path: web}
  - {repoURL: https://example.com/charts, chart: db, targetRevision: 1.2.3, helm: {parameters: [{name: a, value: b}]}}
  destination: {name: c1, namespace: lab}
`
	clusterManifest = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: v1}
spec:
  controlPlaneRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: VCluster, name: v1}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: VCluster, name: v1}
`
	vclusterManifest = `
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: VCluster
metadata: {name: v1}
spec: {helmRelease: {}}
`
	// of a target on the hub
	hubApplicationManifest = `
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: a2}
spec:
  project: default
  sources: [{repoURL: https://example.com/repo.git, path: web}]
  destination: {server: https://kubernetes.default.svc, namespace: lab}
`
	arlonManifest = `
apiVersion: core.arlon.io/v1
kind: Cluster
metadata: {name: k3}
spec: {clusterTemplate: {url: https://example.com/clusters.git, path: small, revision: main}}
`
	// of a Talos cluster
	machinesManifest = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: t1}
spec:
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: TalosControlPlane, name: t1}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DockerCluster, name: t1}
`
	controlPlaneManifest = `
apiVersion: controlplane.cluster.x-k8s.io/v1alpha3
kind: TalosControlPlane
metadata: {name: t1}
spec: {version: v1.34.1, infrastructureTemplate: {kind: DockerMachineTemplate, name: t1}, controlPlaneConfig: {controlplane: {generateType: controlplane}}}
`
	workflowManifest = `
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {name: w1}
spec:
  serviceAccountName: argo-workflow
  workflowTemplateRef: {name: validate}
  arguments: {parameters: [{name: experiment-name, value: x}]}
`
	waitingManifest = `
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {name: w0}
spec:
  entrypoint: wait
  templates: [{name: wait, suspend: {}}]
`
)

var (
	referred      = schema.GroupVersionResource{Group: "core.arlon.io", Version: "v1", Resource: "clusters"}
	clusters      = schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "clusters"}
	controlPlanes = schema.GroupVersionResource{Group: "controlplane.cluster.x-k8s.io", Version: "v1alpha3", Resource: "taloscontrolplanes"}
	vclusters     = schema.GroupVersionResource{Group: "infrastructure.cluster.x-k8s.io", Version: "v1alpha1", Resource: "vclusters"}
	claims        = schema.GroupVersionResource{Group: "illm.io", Version: "v1alpha1", Resource: "gkeclusters"}
	applications  = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}
	workflows     = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "workflows"}
)

// world is a control plane with the outside kinds and an object of each.
type world struct {
	*testing.T
	cp     *env.ControlPlane
	client dynamic.Interface
}

// newWorld plays the outsides, of which the named ones fail.
func newWorld(t *testing.T, faults ...string) world {
	t.Helper()
	files, err := stages.Files(faults...)
	if err != nil {
		t.Fatal(err)
	}
	cp := testenv.Start(t)
	crds := filepath.Join(env.Root(), "test", "crds")
	application := filepath.Join(env.Root(), "bin", "crds", "argo-cd", "application-crd.yaml")
	cluster := filepath.Join(env.Root(), "bin", "crds", "cluster-api", "cluster.x-k8s.io_clusters.yaml")
	if err := cp.InstallSchemas(t.Context(), crds, application, cluster); err != nil {
		t.Fatal(err)
	}
	w := world{T: t, cp: cp, client: dynamic.NewForConfigOrDie(cp.Config())}
	w.apply("{apiVersion: v1, kind: Namespace, metadata: {name: crossplane-system}}")
	w.apply("{apiVersion: v1, kind: Namespace, metadata: {name: argocd}}")
	if _, err := cp.StartKwok(t.Context(), files...); err != nil {
		t.Fatal(err)
	}
	w.apply(claimManifest)
	w.apply(clusterManifest)
	w.apply(vclusterManifest)
	w.apply(machinesManifest)
	w.apply(controlPlaneManifest)
	w.apply(arlonManifest)
	w.apply(applicationManifest)
	w.apply(hubApplicationManifest)
	w.apply(waitingManifest) // before the one that ends
	w.apply(workflowManifest)
	return w
}

func (w world) apply(manifest string) {
	w.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &object.Object); err != nil {
		w.Fatal(err)
	}
	if err := w.cp.ApplyObjects(w.Context(), object); err != nil {
		w.Fatal(err)
	}
}

// await waits until a field has a value and returns the object.
func (w world) await(resource schema.GroupVersionResource, name, want string, read func(map[string]any) string) map[string]any {
	w.Helper()
	var object *unstructured.Unstructured
	err := wait.PollUntilContextTimeout(w.Context(), 100*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
		var err error
		object, err = w.client.Resource(resource).Namespace("default").Get(ctx, name, metav1.GetOptions{})
		return err == nil && read(object.Object) == want, err
	})
	if err != nil {
		out, _ := yaml.Marshal(object)
		w.Fatalf("waiting for %q of %s %s: %v\n%s", want, resource.Resource, name, err, out)
	}
	return object.Object
}

// awaitGone deletes an object and waits until it is gone.
func (w world) awaitGone(resource schema.GroupVersionResource, name string) {
	w.Helper()
	objects := w.client.Resource(resource).Namespace("default")
	if err := objects.Delete(w.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.Fatal(err)
	}
	if err := w.gone(resource, name, 10*time.Second); err != nil {
		w.Errorf("waiting for %s %s to be gone: %v", resource.Resource, name, err)
	}
}

// gone is an error unless an object goes within some time.
func (w world) gone(resource schema.GroupVersionResource, name string, within time.Duration) error {
	return wait.PollUntilContextTimeout(w.Context(), 100*time.Millisecond, within, true, func(ctx context.Context) (bool, error) {
		_, err := w.client.Resource(resource).Namespace("default").Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}

// TestNormal shows each object reach its good end, an Application follow its sources, and all of them
// go away.
func TestNormal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)

	claim := w.await(claims, "c1", "True", condition("Ready", "status"))
	if name := text("spec", "resourceRef", "name")(claim); name != "c1-x7k2p" {
		t.Errorf("composite %q, want c1-x7k2p", name)
	}
	if endpoint := text("status", "endpoint")(claim); !strings.HasPrefix(endpoint, "203.0.113.") {
		t.Errorf("endpoint %q", endpoint)
	}
	w.checkConnection("crossplane-system", "c1-x7k2p-cluster-conn", "kubeconfig", "https://"+text("status", "endpoint")(claim))

	w.await(vclusters, "v1", "true", flag("status", "ready"))
	w.await(controlPlanes, "t1", "true", flag("status", "initialized"))
	cluster := w.await(clusters, "v1", "true", flag("status", "initialization", "controlPlaneInitialized"))
	w.checkConnection("default", "v1-kubeconfig", "value", "https://"+text("spec", "controlPlaneEndpoint", "host")(cluster)+":443")

	cluster = w.await(referred, "k3", "True", condition("Ready", "status"))
	registrations, err := w.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace("argocd").
		List(t.Context(), metav1.ListOptions{LabelSelector: "argocd.argoproj.io/secret-type=cluster,core.arlon.io/cluster-uid=" + text("metadata", "uid")(cluster)})
	if err != nil || len(registrations.Items) != 1 {
		t.Errorf("the Cluster is registered by %v (%v)", registrations, err)
	}

	w.await(applications, "a1", "Healthy", text("status", "health", "status"))
	w.patch(applications, "a1", `[{"op": "replace", "path": "/spec/sources/0/targetRevision", "value": "v2"}]`)
	w.await(applications, "a1", "Progressing", text("status", "health", "status"))
	w.await(applications, "a1", "Healthy", text("status", "health", "status"))
	w.patch(applications, "a1", `[{"op": "add", "path": "/metadata/annotations", "value": {"argocd.argoproj.io/refresh": "normal"}}]`)
	w.await(applications, "a1", "Progressing", text("status", "health", "status"))
	application := w.await(applications, "a1", "Healthy", text("status", "health", "status"))
	if asked := text("metadata", "annotations", "argocd.argoproj.io/refresh")(application); asked != "" {
		t.Errorf("it is still asked to look again: %s", asked)
	}
	sources, _, _ := unstructured.NestedSlice(application, "status", "sync", "comparedTo", "sources")
	if len(sources) != 2 || text("targetRevision")(sources[0].(map[string]any)) != "v2" {
		t.Errorf("compared to %v, want both sources, the first at v2", sources)
	}
	revisions, _, _ := unstructured.NestedStringSlice(application, "status", "sync", "revisions")
	if len(revisions) != 2 || len(revisions[0]) != 40 || revisions[1] != "1.2.3" {
		t.Errorf("revisions %v, want a commit and a chart version", revisions)
	}

	workflow := w.await(workflows, "w1", "Succeeded", text("status", "phase"))
	if text("status", "startedAt")(workflow) == "" || text("status", "finishedAt")(workflow) == "" {
		t.Errorf("the Workflow has no times: %v", workflow["status"])
	}
	w.await(workflows, "w0", "Running", text("status", "phase"))

	w.patch(claims, "c1", `[{"op": "test", "path": "/metadata/finalizers/0", "value": "example.com/ours"}, {"op": "remove", "path": "/metadata/finalizers/0"}]`)
	w.awaitGone(claims, "c1")
	w.awaitGone(clusters, "v1")
	w.patch(applications, "a1", `[{"op": "add", "path": "/operation", "value": {"sync": {"prune": true}}}]`)
	if err := w.client.Resource(applications).Namespace("default").Delete(t.Context(), "a1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if w.gone(applications, "a1", 2*time.Second) == nil {
		t.Fatal("an Application goes in the middle of an operation")
	}
	w.patch(applications, "a1", `[{"op": "remove", "path": "/operation"}]`)
	w.awaitGone(applications, "a1")
	w.awaitGone(workflows, "w1")
}

// TestFaults shows each fault as the system it comes from would, and that no type of cluster is spared.
func TestFaults(t *testing.T) {
	t.Parallel()
	w := newWorld(t, stages.Faults()...)

	claim := w.await(claims, "c1", "False", condition("Synced", "status"))
	if message := condition("Synced", "message")(claim); !strings.Contains(message, "Quota 'NETWORKS' exceeded") {
		t.Errorf("the claim says %q", message)
	}
	if message := text("status", "message")(w.await(vclusters, "v1", "Failed", text("status", "phase"))); message == "" {
		t.Error("the virtual cluster does not say why")
	}
	for name, infrastructure := range map[string]string{"v1": "VCluster", "t1": "DockerCluster"} {
		cluster := w.await(clusters, name, "False", condition("InfrastructureReady", "status"))
		if message := condition("InfrastructureReady", "message")(cluster); message != infrastructure+" status.ready is false" {
			t.Errorf("Cluster %s says %q", name, message)
		}
	}
	if message := condition("Ready", "message")(w.await(referred, "k3", "False", condition("Ready", "status"))); message == "" {
		t.Error("the Cluster of core.arlon.io does not say why")
	}
	// That of a cluster that is there already, under the name by which it is registered, and that of the hub.
	unreachable := w.await(applications, "a1", "Unknown", text("status", "sync", "status"))
	if message := condition("ComparisonError", "message")(unreachable); !strings.Contains(message, "c1: dial tcp: i/o timeout") {
		t.Errorf("the Application says %q", message)
	}
	w.await(applications, "a2", "Degraded", text("status", "health", "status"))
	workflow := w.await(workflows, "w1", "Failed", text("status", "phase"))
	if message := text("status", "nodes", "w1-run", "message")(workflow); message == "" {
		t.Errorf("no node says why: %v", workflow["status"])
	}
	w.await(workflows, "w0", "Running", text("status", "phase"))
}

// TestFiles shows that a misspelt fault is not taken for none.
func TestFiles(t *testing.T) {
	if _, err := stages.Files("network"); err == nil || !strings.Contains(err.Error(), "cluster, app, workflow") {
		t.Errorf("Files with an unknown fault = %v, want the valid ones named", err)
	}
}

func (w world) patch(resource schema.GroupVersionResource, name, patch string) {
	w.Helper()
	_, err := w.client.Resource(resource).Namespace("default").
		Patch(w.Context(), name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		w.Fatal(err)
	}
}

// checkConnection reads the connection Secret as a client of the cluster would.
func (w world) checkConnection(namespace, name, key, server string) {
	w.Helper()
	secret, err := kubernetes.NewForConfigOrDie(w.cp.Config()).CoreV1().Secrets(namespace).
		Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	config, err := clientcmd.Load(secret.Data[key])
	if err != nil {
		w.Fatal(err)
	}
	current := config.Contexts[config.CurrentContext]
	if current == nil || config.Clusters[current.Cluster].Server != server || len(config.AuthInfos[current.AuthInfo].ClientKeyData) == 0 {
		w.Errorf("the kubeconfig is not for %s:\n%s", server, secret.Data[key])
	}
}

func text(path ...string) func(map[string]any) string {
	return func(object map[string]any) string {
		value, _, _ := unstructured.NestedString(object, path...)
		return value
	}
}

// flag reads a boolean; empty while it is not there.
func flag(path ...string) func(map[string]any) string {
	return func(object map[string]any) string {
		value, found, _ := unstructured.NestedBool(object, path...)
		if !found {
			return ""
		}
		return strconv.FormatBool(value)
	}
}

func condition(conditionType, field string) func(map[string]any) string {
	return func(object map[string]any) string {
		conditions, _, _ := unstructured.NestedSlice(object, "status", "conditions")
		for _, c := range conditions {
			if m := c.(map[string]any); m["type"] == conditionType {
				return text(field)(m)
			}
		}
		return ""
	}
}
