package install

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/test/env"
	"github.com/labkeeper/labkeeper/test/env/testenv"
)

// TestLengthyRemoteHub runs the manager as config/remote-hub has it on one cluster, with the Secret that it has
// there, and finds its Lease on the other: the hub.
func TestLengthyRemoteHub(t *testing.T) {
	ctx := t.Context()
	hub, other := testenv.Start(t), testenv.Start(t)
	for _, name := range foreignNamespaces {
		if err := hub.ApplyObjects(ctx, object("v1", "Namespace", "", name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := hub.Apply(ctx, filepath.Join(env.Root(), "config/remote-hub/hub")); err != nil {
		t.Fatalf("applying on the hub: %v", err)
	}
	if err := other.Apply(ctx, filepath.Join(env.Root(), "config/remote-hub")); err != nil {
		t.Fatalf("applying beside it: %v", err)
	}
	there := testenv.Client(t, other)
	awaitPods(t, there)
	deployment := object("apps/v1", "Deployment", namespace, "labkeeper-controller-manager")
	if err := there.Get(ctx, client.ObjectKeyFromObject(deployment), deployment); err != nil {
		t.Fatal(err)
	}

	runRemote(t, other, deployment, mountedSecret(t, hub))
	remote := testenv.Client(t, hub)
	leases := &unstructured.UnstructuredList{}
	leases.SetAPIVersion("coordination.k8s.io/v1")
	leases.SetKind("LeaseList")
	eventually(t, "its Lease on the hub", func() (bool, error) {
		err := remote.List(ctx, leases, client.InNamespace(namespace))
		return len(leases.Items) == 1, err
	})
	experiment := object("experiments.illm.io/v1alpha1", "Experiment", "default", "far")
	experiment.Object["spec"] = map[string]any{"workflow": map[string]any{"template": "any"}, "targets": []any{map[string]any{
		"name": "app", "cluster": map[string]any{"type": "hub"}, "components": []any{map[string]any{"app": "nginx"}},
	}}}
	if err := hub.ApplyObjects(ctx, experiment); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an Experiment of the hub to be told what it lacks", func() (bool, error) {
		err := remote.Get(ctx, client.ObjectKeyFromObject(experiment), experiment)
		said, _ := experiment.Object["status"].(map[string]any)
		return strings.Contains(fmt.Sprint(said["conditions"]), "nginx"), err
	})
	if err := there.List(ctx, leases, client.InNamespace(namespace)); err != nil || len(leases.Items) > 0 {
		t.Errorf("where it runs there are %d Leases (%v)", len(leases.Items), err)
	}
	if err := there.Get(ctx, client.ObjectKey{Name: "experiments.experiments.illm.io"}, object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "")); !apierrors.IsNotFound(err) {
		t.Errorf("where it runs there are its CRDs: %v", err)
	}
}

// runRemote does what a kubelet would: it runs the manager of a Deployment, with a folder in the place of its
// Secret, until it is ready.
func runRemote(t *testing.T, other *env.ControlPlane, deployment *unstructured.Unstructured, dir string) {
	t.Helper()
	ctx, manager := t.Context(), filepath.Join(t.TempDir(), "manager")
	if err := env.BuildOnce(ctx, "./cmd", manager); err != nil {
		t.Fatal(err)
	}
	probes, err := env.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	args, _, _ := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
	here := strings.NewReplacer("/hub/", dir+"/", "health-probe-bind-address=:8081", "health-probe-bind-address="+probes, "metrics-bind-address=:8443", "metrics-bind-address=0")
	for i := range args {
		args[i] = here.Replace(args[i])
	}
	process, err := other.StartProcess("manager", manager, args...)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the manager to be ready", func() (bool, error) {
		select {
		case <-process.Exited():
			t.Fatalf("it ended:\n%s", process.Tail(15))
		default:
		}
		return env.Answers(ctx, "http://"+probes+"/readyz"), nil
	})
}

// mountedSecret is a folder with what is in the Secret labkeeper-hub: a kubeconfig, and the token that it
// names by a file.
func mountedSecret(t *testing.T, hub *env.ControlPlane) (dir string) {
	t.Helper()
	dir = t.TempDir()
	path, err := hub.ServiceAccountKubeconfig(t.Context(), namespace, "labkeeper-controller-manager")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		if err := os.WriteFile(filepath.Join(dir, "token"), []byte(user.Token), 0o600); err != nil {
			t.Fatal(err)
		}
		user.Token, user.TokenFile = "", filepath.Join(dir, "token")
	}
	if err := clientcmd.WriteToFile(*config, filepath.Join(dir, "kubeconfig")); err != nil {
		t.Fatal(err)
	}
	return dir
}
