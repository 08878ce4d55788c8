package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/labkeeper/labkeeper/test/env"
)

const (
	managerNamespace = "labkeeper-system"
	managerAccount   = "labkeeper-controller-manager"

	// readyTimeout is ample for a manager that has only caches to fill.
	readyTimeout = 30 * time.Second
	// tailLines is how much of the operator's log explains its end.
	tailLines = 25
)

// namespaces are the operator's own and those of the outsides.
var namespaces = []string{managerNamespace, "argocd", "argo", "crossplane-system"}

// demo is a running demo.
type demo struct {
	options
	cp      *env.ControlPlane
	manager manager
}

// manager is the operator's process.
type manager struct{ *env.Process }

// running says whether the operator has not ended.
func (m manager) running() bool {
	select {
	case <-m.Exited():
		return false
	default:
		return true
	}
}

// death is the error of an operator that ended.
func (m manager) death() error {
	return fmt.Errorf("running the operator: it ended; its log ends with:\n%s", m.Tail(tailLines))
}

// bringUp makes the cluster what an installation of the operator expects, and installs it.
func (d *demo) bringUp(ctx context.Context, stageFiles []string) error {
	if err := d.installCRDs(ctx); err != nil {
		return err
	}
	if err := d.createNamespaces(ctx); err != nil {
		return err
	}
	config := filepath.Join(env.Root(), "config")
	if err := d.cp.Apply(ctx, filepath.Join(config, "rbac"), filepath.Join(config, "grants", "vcluster.yaml"), filepath.Join(config, "grants", "talos.yaml")); err != nil {
		return err
	}
	if _, err := d.cp.StartKwok(ctx, append(stageFiles, filepath.Join(env.Root(), "test", "stages", "pods.yaml"))...); err != nil {
		return err
	}
	say("Crossplane, Cluster API, Argo CD, Argo Workflows and a node are simulated%s", d.faultNote())
	if err := d.startManager(ctx); err != nil {
		return err
	}
	say("the operator is running, with the rights of ServiceAccount %s/%s", managerNamespace, managerAccount)
	for _, samples := range filepath.SplitList(d.samples) {
		if err := d.cp.Apply(ctx, samples); err != nil {
			return err
		}
	}
	say("the samples are applied")
	return nil
}

func (d *demo) faultNote() string {
	if d.fault == "" {
		return ""
	}
	return fmt.Sprintf("; fault: %s", d.fault)
}

// installCRDs installs our kinds and the outsides'.
func (d *demo) installCRDs(ctx context.Context) error {
	root := env.Root()
	err := d.cp.InstallCRDs(ctx,
		filepath.Join(root, "config", "crd", "bases"),
		filepath.Join(root, "bin", "crds", "argo-cd", "application-crd.yaml"),
		filepath.Join(root, "bin", "crds", "cluster-api", "cluster.x-k8s.io_clusters.yaml"),
		filepath.Join(root, "bin", "crds", "cluster-api", "cluster.x-k8s.io_machinedeployments.yaml"),
		filepath.Join(root, "test", "crds"),
	)
	if err != nil {
		return err
	}
	say("the CRDs are installed")
	return nil
}

// createNamespaces creates the namespaces that config/rbac expects, and a node that kwok plays.
func (d *demo) createNamespaces(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(d.cp.Config())
	if err != nil {
		return fmt.Errorf("creating client: %w", err)
	}
	for _, name := range namespaces {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating Namespace %s: %w", name, err)
		}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: map[string]string{"labkeeper.dev/kwok": "true"}}}
	if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating Node: %w", err)
	}
	return nil
}

// startManager starts the operator as its ServiceAccount, so that a right missing in config/rbac shows
// here as it would in a cluster, and waits until it is ready.
func (d *demo) startManager(ctx context.Context) error {
	kubeconfig, err := d.cp.ServiceAccountKubeconfig(ctx, managerNamespace, managerAccount)
	if err != nil {
		return err
	}
	probes, err := env.FreeAddress()
	if err != nil {
		return err
	}
	process, err := d.cp.StartProcess("manager", d.options.manager,
		"--leader-elect=true",
		"--leader-election-namespace="+managerNamespace,
		"--hibernation-namespace="+managerNamespace,
		"--runner-image=example/labkeeper:dev",
		"--kubeconfig="+kubeconfig,
		"--metrics-bind-address=0",
		"--health-probe-bind-address="+probes,
		// Nothing listens there: the outsides that would ship metrics are played.
		"--observability-hub-url=http://mimir-gateway.mimir.svc:8080/api/v1/push",
		"--observability-tailnet=tail1234.ts.net",
	)
	if err != nil {
		return err
	}
	d.manager = manager{process}
	return d.awaitReady(ctx, "http://"+probes+"/readyz")
}

// awaitReady polls the operator's readiness.
func (d *demo) awaitReady(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for !env.Answers(ctx, url) {
		select {
		case <-d.manager.Exited():
			return d.manager.death()
		case <-ctx.Done():
			return fmt.Errorf("waiting for the operator to be ready: %w; its log ends with:\n%s", ctx.Err(), d.manager.Tail(tailLines))
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}
