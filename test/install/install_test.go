// Package install proves that what the install targets of the Makefile write is accepted by a
// real API server, and that they do what they say.
package install

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	experiments "github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	hibernation "github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/test/env"
	"github.com/labkeeper/labkeeper/test/env/testenv"
)

const (
	image     = "example/labkeeper:v0"
	namespace = "labkeeper-system"
	crds      = "../../config/crd/bases"
)

// foreignNamespaces are those of the systems beside us, which our manifests do not create.
var foreignNamespaces = []string{"argo", "argocd", "crossplane-system"}

// controlPlane is shared: each test leaves it without anything of ours.
var controlPlane *env.ControlPlane

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if controlPlane, err = env.Start(context.Background(), env.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, "starting control plane:", err)
		return 1
	}
	code := m.Run()
	if err := controlPlane.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping control plane:", err)
		return 1
	}
	return code
}

// TestLengthyInstaller follows dist/install.yaml from its first application to make undeploy.
func TestLengthyInstaller(t *testing.T) {
	ctx := t.Context()
	c := testenv.Client(t, controlPlane)
	objects := installer(t)

	if err := controlPlane.ApplyObjects(ctx, copies(objects)...); !apierrors.IsNotFound(err) {
		t.Fatalf("applying without the namespaces of Argo CD, Argo Workflows and Crossplane: got %v, want not found", err)
	}
	for _, name := range foreignNamespaces {
		if err := controlPlane.ApplyObjects(ctx, object("v1", "Namespace", "", name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := controlPlane.ApplyObjects(ctx, copies(objects)...); err != nil {
		t.Fatalf("applying: %v", err)
	}
	before := generations(t, c, objects)
	if err := controlPlane.ApplyObjects(ctx, copies(objects)...); err != nil {
		t.Fatalf("applying again: %v", err)
	}
	mustMake(t, "deploy", "IMG="+image)
	if after := generations(t, c, objects); !slices.Equal(before, after) {
		t.Errorf("applying again changed something:\nbefore %v\nafter  %v", before, after)
	}

	pods := awaitPods(t, c)
	findsAll(t, c, pods)
	drains(t, c, pods)
	refusesObjects(t, c)
	refusesRecords(t, c)

	added := overlay(t)
	for range 2 { // what is already gone is no error
		mustMake(t, "undeploy", "OVERLAY="+added.dir)
	}
	objects = append(objects, added.objects...)
	for _, o := range objects {
		if err := c.Get(ctx, client.ObjectKeyFromObject(o), o.DeepCopy()); !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
			t.Errorf("getting %s after make undeploy: got %v, want not found", describe(o), err)
		}
	}
	for _, name := range foreignNamespaces {
		if err := c.Get(ctx, client.ObjectKey{Name: name}, object("v1", "Namespace", "", name)); err != nil {
			t.Errorf("getting Namespace %s after make undeploy: %v", name, err)
		}
	}
}

// added is what somebody's overlay has beside the rest, and where that overlay is.
type added struct {
	dir     string
	objects []*unstructured.Unstructured
}

// overlay applies what may be added to an installation: what config/grants has, the webhook, and Roles that an overlay has moved.
func overlay(t *testing.T) added {
	t.Helper()
	a := added{dir: t.TempDir()}
	base, err := filepath.Rel(a.dir, filepath.Join(env.Root(), "config/default"))
	if err != nil {
		t.Fatal(err)
	}
	moved := `[{"op": "replace", "path": "/metadata/namespace", "value": "default"}]`
	patch := fmt.Sprintf("{target: {kind: Role|RoleBinding, namespace: argocd}, patch: '%s'}", moved)
	content := fmt.Sprintf("resources: [%q]\npatches: [%s]\n", base, patch)
	if err := os.WriteFile(filepath.Join(a.dir, "kustomization.yaml"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{a.dir, "../../config/grants", "../../config/webhook/webhook.yaml"} {
		objects, err := controlPlane.ReadObjects(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		a.objects = append(a.objects, objects...)
	}
	if err := controlPlane.ApplyObjects(t.Context(), copies(a.objects)...); err != nil {
		t.Fatal(err)
	}
	return a
}

// forOthers are the Roles that people bind, and those of runners, which the manager binds.
var forOthers = regexp.MustCompile(`-(editor|viewer|reader|runner)$|labkeeper-runner-`)

// TestInstallerRBAC checks what the API server does not: a Role without a binding, a binding
// without a Role, and Secrets that may be read everywhere. (That a namespace's may be read is for
// whoever runs it to say, by a binding to labkeeper-kubeconfig-reader.)
func TestInstallerRBAC(t *testing.T) {
	roles, bound, everywhere, secrets := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, o := range installer(t) {
		switch o.GetKind() {
		case "Role", "ClusterRole":
			roles[describe(o)] = true
			secrets[describe(o)] = mentions(o, "secrets")
		case "RoleBinding", "ClusterRoleBinding":
			kind, _, _ := unstructured.NestedString(o.Object, "roleRef", "kind")
			name, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
			role := describe(object("", kind, o.GetNamespace(), name))
			bound[role] = true
			if o.GetKind() == "ClusterRoleBinding" {
				everywhere[role] = true
			}
		}
	}
	for role := range everywhere {
		if secrets[role] {
			t.Errorf("%s gives access to Secrets in every namespace", role)
		}
	}
	for role := range bound {
		if !roles[role] {
			t.Errorf("a binding names %s, which does not exist", role)
		}
	}
	for role := range roles {
		if !bound[role] && !forOthers.MatchString(role) {
			t.Errorf("%s is bound to nobody: add its binding to config/rbac/role_binding.yaml", role)
		}
	}
}

// TestInstallerImage checks that IMG replaces the image, whatever form it has.
func TestInstallerImage(t *testing.T) {
	for _, img := range []string{
		image,
		"example.test:5000/lab/labkeeper:v1",
		"example/labkeeper@sha256:" + strings.Repeat("0a", 32),
	} {
		deployments := slices.DeleteFunc(installer(t, "IMG="+img), func(o *unstructured.Unstructured) bool { return o.GetKind() != "Deployment" })
		if len(deployments) != 1 || !mentions(deployments[0], img) {
			t.Errorf("IMG=%s is not the image of the one Deployment", img)
		}
	}
}

// TestDeploymentArgs gives the Deployment's arguments to the manager, which refuses what it does
// not know.
func TestDeploymentArgs(t *testing.T) {
	manager := filepath.Join(t.TempDir(), "manager")
	if err := env.BuildOnce(t.Context(), "./cmd", manager); err != nil {
		t.Fatal(err)
	}
	for _, o := range installer(t) {
		containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
		for _, c := range containers {
			args, _, err := unstructured.NestedStringSlice(c.(map[string]any), "args")
			if err != nil || len(args) == 0 {
				t.Fatalf("%s has no arguments: %v", describe(o), err)
			}
			if out, err := exec.CommandContext(t.Context(), manager, append(args, "--help")...).CombinedOutput(); err != nil {
				t.Errorf("manager %s: %v\n%s", strings.Join(args, " "), err, out)
			}
		}
	}
}

// TestInstall checks make install and make uninstall, and that the installer has every CRD.
func TestInstall(t *testing.T) {
	ctx := t.Context()
	c := testenv.Client(t, controlPlane)
	for range 2 {
		mustMake(t, "install")
	}
	if err := controlPlane.InstallCRDs(ctx, crds); err != nil { // waits until they are served
		t.Fatal(err)
	}
	objects, err := controlPlane.ReadObjects(ctx, crds)
	if err != nil {
		t.Fatal(err)
	}
	all := installer(t)
	for _, crd := range objects {
		if !slices.ContainsFunc(all, func(o *unstructured.Unstructured) bool { return describe(o) == describe(crd) }) {
			t.Errorf("%s is not in the installer: add it to config/crd/kustomization.yaml", describe(crd))
		}
	}
	for range 2 {
		mustMake(t, "uninstall")
	}
	for _, crd := range objects {
		if err := c.Get(ctx, client.ObjectKeyFromObject(crd), crd.DeepCopy()); !apierrors.IsNotFound(err) {
			t.Errorf("getting %s after make uninstall: got %v, want not found", describe(crd), err)
		}
	}
}

// TestDockerBuild runs make docker-build with no docker, and with one that only says what it was
// asked for.
func TestDockerBuild(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir()
	if err := os.Symlink(bash, filepath.Join(path, "bash")); err != nil {
		t.Fatal(err)
	}
	environ := []string{"PATH=" + path}

	out, err := runMake(t, environ, "docker-build", "IMG="+image)
	if err == nil || !strings.Contains(out, "no docker on PATH") {
		t.Errorf("make docker-build without docker: %v, want a failure that says so:\n%s", err, out)
	}
	if out, err := runMake(t, environ, "docker-build"); err == nil || !strings.Contains(out, "set IMG") {
		t.Errorf("make docker-build without IMG: %v, want a failure that says so:\n%s", err, out)
	}

	docker := "#!" + bash + "\necho \"docker $*\"\nexit $DOCKER_EXIT\n"
	if err := os.WriteFile(filepath.Join(path, "docker"), []byte(docker), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err = runMake(t, append(environ, "DOCKER_EXIT=0"), "docker-build", "IMG="+image)
	if want := "docker build --tag " + image + " ."; err != nil || strings.TrimSpace(out) != want {
		t.Errorf("make docker-build: %v, want %q:\n%s", err, want, out)
	}
	if out, err := runMake(t, append(environ, "DOCKER_EXIT=1"), "docker-build", "IMG="+image); err == nil {
		t.Errorf("make docker-build hides that docker failed:\n%s", out)
	}
}

// awaitPods waits for the Pods of the manager. The namespace enforces the restricted Pod Security
// Standard: what that refuses, the ReplicaSet never creates.
func awaitPods(t *testing.T, c client.Client) []corev1.Pod {
	t.Helper()
	pods := &corev1.PodList{}
	eventually(t, "both Pods of the manager", func() (bool, error) {
		err := c.List(t.Context(), pods, client.InNamespace(namespace))
		return len(pods.Items) == 2, err
	})
	return pods.Items
}

// findsAll checks that who reads metrics finds managers that are not ready, too.
func findsAll(t *testing.T, c client.Client, pods []corev1.Pod) {
	t.Helper()
	for i := range pods {
		plays(t, c, &pods[i], fmt.Sprintf("10.0.0.%d", i+1), corev1.ConditionFalse)
	}
	eventually(t, "endpoints of managers that are not ready", func() (bool, error) {
		slicesOf := &discoveryv1.EndpointSliceList{}
		err := c.List(t.Context(), slicesOf, client.InNamespace(namespace), client.MatchingLabels{discoveryv1.LabelServiceName: "labkeeper-controller-manager-metrics"})
		found := 0
		for _, slice := range slicesOf.Items {
			for _, endpoint := range slice.Endpoints {
				if ptr.Deref(endpoint.Conditions.Ready, false) {
					found += len(endpoint.Addresses)
				}
			}
		}
		return found == len(pods), err
	})
}

// drains checks that managers are evicted one by one, and at once where they are not ready.
func drains(t *testing.T, c client.Client, pods []corev1.Pod) {
	t.Helper()
	for i := range pods {
		plays(t, c, &pods[i], pods[i].Status.PodIP, corev1.ConditionTrue)
	}
	evict := func(pod *corev1.Pod) error {
		return c.SubResource("eviction").Create(t.Context(), pod, &policyv1.Eviction{})
	}
	eventually(t, "the eviction of one manager", func() (bool, error) {
		err := evict(&pods[0])
		return err == nil, err
	})
	if err := evict(&pods[1]); !apierrors.IsTooManyRequests(err) {
		t.Errorf("evicting the other manager: got %v, want too many requests", err)
	}
	plays(t, c, &pods[1], pods[1].Status.PodIP, corev1.ConditionFalse)
	eventually(t, "the eviction of one that is not ready", func() (bool, error) {
		err := evict(&pods[1])
		return err == nil, err
	})
}

// plays is the kubelet of a Pod: it runs, and is ready or not.
func plays(t *testing.T, c client.Client, pod *corev1.Pod, ip string, ready corev1.ConditionStatus) {
	t.Helper()
	before := pod.DeepCopy()
	pod.Status.Phase = corev1.PodRunning
	pod.Status.PodIP, pod.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	if err := c.Status().Patch(t.Context(), pod, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// refusesObjects checks that nothing is removed while there are objects of our kinds.
func refusesObjects(t *testing.T, c client.Client) {
	t.Helper()
	experiment := object("experiments.illm.io/v1alpha1", "Experiment", "default", "in-the-way")
	experiment.Object["spec"] = map[string]any{"workflow": map[string]any{"template": "any"}, "targets": []any{map[string]any{
		"name":       "app",
		"cluster":    map[string]any{"type": "hub"},
		"components": []any{map[string]any{"app": "nginx"}},
	}}}
	component := object("experiments.illm.io/v1alpha1", "Component", "", "in-the-way")
	component.Object["spec"] = map[string]any{"type": "app", "sources": []any{map[string]any{
		"repoURL": "https://example.test/components.git",
		"path":    "nginx",
	}}}
	for _, o := range []*unstructured.Unstructured{experiment, component} {
		if err := controlPlane.ApplyObjects(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		for _, target := range []string{"undeploy", "uninstall"} {
			if out, err := runMake(t, nil, target); err == nil || !strings.Contains(out, "delete them first") {
				t.Fatalf("make %s while there is %s: %v, want a refusal:\n%s", target, describe(o), err, out)
			}
		}
		if err := c.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// refusesRecords checks that the namespace stays while it tells how to wake what sleeps, or what could not be taken down: also
// while its finalizer keeps a restore point that somebody has asked to go.
func refusesRecords(t *testing.T, c client.Client) {
	t.Helper()
	for label, finalizers := range map[string][]string{
		"hibernator.ardikabs.com/restore-point": {hibernation.FinalizerRestorePoint},
		experiments.LabelExperiment:             nil,
	} {
		record := object("v1", "ConfigMap", namespace, "record")
		record.SetLabels(map[string]string{label: "somebody"})
		record.SetFinalizers(finalizers)
		if err := c.Create(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		refusesRecord(t, c, record)
		if err := c.Delete(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		if len(finalizers) == 0 {
			continue
		}
		refusesRecord(t, c, record)
		if err := c.Patch(t.Context(), record, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
			t.Fatal(err)
		}
	}
}

// refusesRecord checks that make undeploy says how to see to a record, and leaves everything.
func refusesRecord(t *testing.T, c client.Client, record *unstructured.Unstructured) {
	t.Helper()
	out, err := runMake(t, nil, "undeploy")
	for _, word := range []string{"there are records", "take their finalizers off", "delete them first"} {
		if err == nil || !strings.Contains(out, word) {
			t.Fatalf("make undeploy while there is a ConfigMap with %v and finalizers %v: %v, want a refusal:\n%s", record.GetLabels(), record.GetFinalizers(), err, out)
		}
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(record), record); err != nil {
		t.Fatalf("make undeploy has refused, and the record is gone: %v", err)
	}
	home := object("v1", "Namespace", "", namespace)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(home), home); err != nil || home.GetDeletionTimestamp() != nil {
		t.Fatalf("make undeploy has refused, and the namespace goes: %v", err)
	}
}

// installer returns the objects of dist/install.yaml, in order.
func installer(t *testing.T, args ...string) []*unstructured.Unstructured {
	t.Helper()
	dist := t.TempDir()
	mustMake(t, append([]string{"build-installer", "IMG=" + image, "DIST=" + dist}, args...)...)
	objects, err := controlPlane.ReadObjects(t.Context(), filepath.Join(dist, "install.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func mustMake(t *testing.T, args ...string) {
	t.Helper()
	if out, err := runMake(t, nil, args...); err != nil {
		t.Fatalf("make %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// runMake runs make at the root of the repository against the control plane and returns all that
// it prints.
func runMake(t *testing.T, environ []string, args ...string) (string, error) {
	t.Helper()
	path, err := exec.LookPath("make")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, path, append([]string{"--no-print-directory"}, args...)...)
	command.Dir = env.Root()
	// This test may itself run under a make, whose settings are not ours.
	command.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains([]string{"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEFILES", "MAKEOVERRIDES", "IMG", "CONTAINER_TOOL"}, name)
	})
	command.Env = append(command.Env, "KUBECONFIG="+controlPlane.Kubeconfig(), "KUBECTL="+controlPlane.Kubectl())
	command.Env = append(command.Env, environ...)
	command.WaitDelay = time.Second
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	err = command.Run()
	return out.String(), err
}

// generations returns the UID and, where there is one, the generation of each object.
func generations(t *testing.T, c client.Client, objects []*unstructured.Unstructured) []string {
	t.Helper()
	var found []string
	for _, o := range copies(objects) {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Fatalf("getting %s: %v", describe(o), err)
		}
		found = append(found, fmt.Sprintf("%s %s %d", describe(o), o.GetUID(), o.GetGeneration()))
	}
	return found
}

func eventually(t *testing.T, what string, check func() (bool, error)) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		ok, err := check()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waiting for %s: %v", what, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func object(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

func copies(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, o := range objects {
		all = append(all, o.DeepCopy())
	}
	return all
}

// describe names an object: Role argocd/labkeeper-manager.
func describe(o *unstructured.Unstructured) string {
	return o.GetKind() + " " + strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
}

// mentions says whether a string is a value anywhere in an object.
func mentions(o *unstructured.Unstructured, value string) bool {
	var found bool
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for key := range v {
				walk(v[key])
			}
		case []any:
			for i := range v {
				walk(v[i])
			}
		default:
			found = found || v == value
		}
	}
	walk(o.Object)
	return found
}
