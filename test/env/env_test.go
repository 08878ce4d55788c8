package env_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/labkeeper/labkeeper/test/env"
)

// childVariable makes the test binary start a control plane, print its folder and wait to be killed.
const childVariable = "LABKEEPER_ENV_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		runChild()
	}
	os.Exit(m.Run())
}

func runChild() {
	cp, err := env.Start(context.Background(), env.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(cp.Dir())
	select {}
}

// TestStart shows that the controllers are real, that a ServiceAccount's token has that account's
// rights and no others, that requests are counted, and that nothing is left after Stop.
func TestStart(t *testing.T) {
	ctx := t.Context()
	began := time.Now()
	cp, err := env.Start(ctx, env.Options{AuditLog: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cp.Stop() })
	t.Logf("started in %v", time.Since(began).Round(time.Millisecond))
	client := kubernetes.NewForConfigOrDie(cp.Config())

	createDeployment(t, client)
	replicaSet := awaitReplicaSet(t, client)
	if owner := metav1.GetControllerOf(replicaSet); owner == nil || owner.Kind != "Deployment" {
		t.Errorf("the ReplicaSet's controller is %v, want the Deployment", owner)
	}

	path, err := cp.ServiceAccountKubeconfig(ctx, "default", "default")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(ctx, cp.Kubectl(), "--kubeconfig="+path, "auth", "whoami", "-o=jsonpath={.status.userInfo.username}").CombinedOutput()
	if want := "system:serviceaccount:default:default"; err != nil || string(out) != want {
		t.Errorf("kubectl auth whoami = %q, %v; want %q", out, err, want)
	}
	if out, err := exec.CommandContext(ctx, cp.Kubectl(), "--kubeconfig="+path, "get", "secrets").CombinedOutput(); err == nil {
		t.Errorf("an account without rights reads Secrets: %s", out)
	}

	checkRequests(t, cp)

	began = time.Now()
	if err := cp.RestartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := client.AppsV1().Deployments("default").Get(ctx, "web", metav1.GetOptions{}); err != nil {
		t.Errorf("reading what was there before the restart: %v", err)
	}
	t.Logf("restarted the API server in %v", time.Since(began).Round(time.Millisecond))

	began = time.Now()
	if err := cp.Stop(); err != nil {
		t.Error(err)
	}
	t.Logf("stopped in %v", time.Since(began).Round(time.Millisecond))
	checkNothingLeft(t, cp.Dir())
}

func createDeployment(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	labels := map[string]string{"app": "web"}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "example.com/web"}}},
			},
		},
	}
	if _, err := client.AppsV1().Deployments("default").Create(t.Context(), deployment, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func awaitReplicaSet(t *testing.T, client kubernetes.Interface) *appsv1.ReplicaSet {
	t.Helper()
	var found *appsv1.ReplicaSet
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) {
		list, err := client.AppsV1().ReplicaSets("default").List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil || len(list.Items) == 0 {
			return false, err
		}
		found = &list.Items[0]
		return true, nil
	})
	if err != nil {
		t.Fatalf("waiting for the ReplicaSet: %v", err)
	}
	return found
}

func checkRequests(t *testing.T, cp *env.ControlPlane) {
	t.Helper()
	requests, err := cp.Requests()
	if err != nil {
		t.Fatal(err)
	}
	var created, refused int
	for _, r := range requests {
		if r.User == "admin" && r.Verb == "create" && r.Resource == "deployments" && r.Group == "apps" && r.Name == "web" && r.Write() {
			created++
		}
		if r.User == "system:serviceaccount:default:default" && r.Resource == "secrets" && r.Code == 403 && !r.Write() {
			refused++
		}
	}
	if created != 1 || refused == 0 {
		t.Errorf("of %d requests %d created the Deployment and %d were refused, want 1 and some", len(requests), created, refused)
	}
}

// TestRestartControllerManager shows that dependents of a freshly installed kind are collected without
// the half minute that the collector takes to notice new kinds.
func TestRestartControllerManager(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	cp, err := env.Start(ctx, env.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cp.Stop() })
	if err := cp.InstallCRDs(ctx, filepath.Join(env.Root(), "test", "crds", "workflow.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := cp.RestartControllerManager(ctx); err != nil {
		t.Fatal(err)
	}

	workflows := dynamic.NewForConfigOrDie(cp.Config()).
		Resource(schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "workflows"}).Namespace("default")
	owner, err := workflows.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
		"metadata": map[string]any{"name": "owner"}, "spec": map[string]any{},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	configMaps := kubernetes.NewForConfigOrDie(cp.Config()).CoreV1().ConfigMaps("default")
	dependent := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name:            "dependent",
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())},
	}}
	if _, err := configMaps.Create(ctx, dependent, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := workflows.Delete(ctx, "owner", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) {
		_, err := configMaps.Get(ctx, "dependent", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
	if err != nil {
		t.Fatalf("waiting for the dependent to be collected: %v", err)
	}
	t.Logf("collected in %v", time.Since(began).Round(time.Millisecond))
}

// TestStartWithoutControllerManager is the case of envtest's own download.
func TestStartWithoutControllerManager(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver", "kubectl"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, set := range map[string]func(*testing.T) env.Options{
		"option":   func(*testing.T) env.Options { return env.Options{BinDir: dir} },
		"variable": func(t *testing.T) env.Options { t.Setenv("KUBEBUILDER_ASSETS", dir); return env.Options{} },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := env.Start(t.Context(), set(t))
			if err == nil {
				t.Fatal("Start succeeded")
			}
			for _, want := range []string{"kube-controller-manager", dir, "make k8s", "KUBEBUILDER_ASSETS"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q: %v", want, err)
				}
			}
		})
	}
}

// TestFailedStart shows that a component that dies explains itself, and that its siblings go too.
func TestFailedStart(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dir := t.TempDir()
	for name, script := range map[string]string{
		"etcd":                    "echo 'the disk is on fire' >&2; exit 3",
		"kube-apiserver":          "exec sleep 60",
		"kube-controller-manager": "exec sleep 60",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	_, err := env.Start(t.Context(), env.Options{BinDir: dir})
	if err == nil || !strings.Contains(err.Error(), "the disk is on fire") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("Start = %v, want the end of etcd's log and its exit status", err)
	}
	checkNothingLeft(t, os.TempDir())
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "labkeeper-env-*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestSignal shows that Ctrl-C leaves neither a process nor a folder, and ends the program as if
// there were no handler; and that after an outright kill only the folder stays, until the next Start.
func TestSignal(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Run("SIGINT", func(t *testing.T) {
		t.Parallel()
		dir := signalChild(t, syscall.SIGINT)
		checkNothingLeft(t, dir)
	})
	t.Run("SIGKILL", func(t *testing.T) {
		if runtime.GOOS != "linux" {
			t.Skip("only Linux has a parent death signal")
		}
		t.Parallel()
		dir := signalChild(t, syscall.SIGKILL)
		checkNoProcess(t, dir)
		// A start that fails after the sweep is enough to see it.
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := env.Start(ctx, env.Options{}); !errors.Is(err, context.Canceled) {
			t.Errorf("Start with a cancelled context = %v", err)
		}
		checkNothingLeft(t, dir)
	})
}

// signalChild runs a child until its control plane is up, sends the signal and returns the folder.
func signalChild(t *testing.T, s syscall.Signal) string {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childVariable+"=1")
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("reading the child's folder: %v (%v)", err, child.Wait())
	}
	dir := strings.TrimSpace(line)
	if !hasProcess(t, dir) {
		t.Fatal("found no process of the child: the check is blind")
	}
	if err := child.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := child.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != s {
		t.Errorf("the child ended with %v, want signal %v", err, s)
	}
	return dir
}

func checkNothingLeft(t *testing.T, dir string) {
	t.Helper()
	checkNoProcess(t, dir)
	if _, err := os.Stat(dir); strings.Contains(dir, "labkeeper-env-") && !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
}

// checkNoProcess allows the kernel a moment to deliver the death signal.
func checkNoProcess(t *testing.T, dir string) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Second); hasProcess(t, dir); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("a process of %s is still there", dir)
			return
		}
	}
}

// hasProcess says whether a process names the folder in its arguments; all children do.
func hasProcess(t *testing.T, dir string) bool {
	t.Helper()
	if runtime.GOOS != "linux" {
		out, err := exec.Command("ps", "-axo", "command").Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(out), dir)
	}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if content, err := os.ReadFile(file); err == nil && strings.Contains(string(content), dir) {
			return true
		}
	}
	return false
}
