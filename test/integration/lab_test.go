package integration_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/internal/controller"
	"github.com/labkeeper/labkeeper/test/env"
)

// The CRDs, from the root of the repository.
const (
	ourCRDs        = "config/crd/bases"
	applicationCRD = "bin/crds/argo-cd/application-crd.yaml"
	clusterCRD     = "bin/crds/cluster-api/cluster.x-k8s.io_clusters.yaml"
	machineCRD     = "bin/crds/cluster-api/cluster.x-k8s.io_machinedeployments.yaml"
	otherCRDs      = "test/crds"
)

// lab is a control plane with the namespaces and the RBAC that an installation expects.
type lab struct {
	*env.ControlPlane
	client     client.Client
	dynamic    dynamic.Interface
	world      *world
	kubeconfig string // of the manager's ServiceAccount
}

// startLab starts a control plane that ends with the node it is called in.
func startLab(ctx context.Context, crds ...string) *lab {
	GinkgoHelper()
	cp, err := env.Start(ctx, env.Options{AuditLog: true, KeepSignals: true})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(cp.Stop)
	scheme, err := controller.Scheme()
	Expect(err).NotTo(HaveOccurred())
	config := cp.Config()
	config.WarningHandler = rest.NoWarnings{}
	c, err := client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())

	l := &lab{ControlPlane: cp, client: c, dynamic: dynamic.NewForConfigOrDie(config)}
	l.world = newWorld(l)
	DeferCleanup(l.world.end)
	l.install(ctx, crds...)
	for _, name := range []string{argoCDNamespace, workflowNamespace, crossplaneNamespace, managerNamespace} {
		Expect(c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	}
	l.apply(ctx, "config/rbac")
	l.kubeconfig, err = cp.ServiceAccountKubeconfig(ctx, managerNamespace, managerAccount)
	Expect(err).NotTo(HaveOccurred())
	return l
}

func (l *lab) install(ctx context.Context, paths ...string) {
	GinkgoHelper()
	Expect(l.InstallSchemas(ctx, fromRoot(paths)...)).To(Succeed())
}

func (l *lab) apply(ctx context.Context, paths ...string) {
	GinkgoHelper()
	Expect(l.Apply(ctx, fromRoot(paths)...)).To(Succeed())
}

func fromRoot(paths []string) []string {
	out := make([]string, 0, len(paths))
	for _, path := range paths {
		out = append(out, filepath.Join(env.Root(), path))
	}
	return out
}

// requests are those of the manager between two times.
func (l *lab) requests(from, to time.Time) []env.Request {
	GinkgoHelper()
	all, err := l.Requests()
	Expect(err).NotTo(HaveOccurred())
	var out []env.Request
	for _, r := range all {
		if r.User == managerUser && r.Time.After(from) && r.Time.Before(to) {
			out = append(out, r)
		}
	}
	return out
}

// manager is a running manager.
type manager struct {
	*env.Process
	pid int
}

// startManager starts a manager that ends with the spec, however that ends: one that is left behind would do the work
// of the specs that follow.
func (l *lab) startManager(name string, args ...string) *manager {
	GinkgoHelper()
	m := l.launchManager(name, args...)
	DeferCleanup(m.stop)
	return m
}

// launchManager starts a manager that ends with the control plane, and waits until it is
// ready. The shell only tells its process id, which killing needs, and becomes the manager.
func (l *lab) launchManager(name string, args ...string) *manager {
	GinkgoHelper()
	pidFile := filepath.Join(l.Dir(), name+".pid")
	Expect(os.RemoveAll(pidFile)).To(Succeed())
	probes, err := env.FreeAddress()
	Expect(err).NotTo(HaveOccurred())
	args = append([]string{"-c", `echo $$ >"$0" && exec "$@"`, pidFile, managerBinary}, append(l.managerArgs(probes), args...)...)
	process, err := l.StartProcess(name, "/bin/sh", args...)
	Expect(err).NotTo(HaveOccurred())
	m := &manager{Process: process}
	Eventually(func(g Gomega) {
		Expect(process.Exited()).NotTo(BeClosed(), process.Tail(15))
		g.Expect(env.Answers(context.Background(), "http://"+probes+"/readyz")).To(BeTrue())
	}).Should(Succeed())
	written, err := os.ReadFile(pidFile)
	Expect(err).NotTo(HaveOccurred())
	m.pid, err = strconv.Atoi(strings.TrimSpace(string(written)))
	Expect(err).NotTo(HaveOccurred())
	return m
}

func (l *lab) managerArgs(probes string) []string {
	return []string{
		"--kubeconfig=" + l.kubeconfig, "--metrics-bind-address=0", "--health-probe-bind-address=" + probes,
		"--hibernation-namespace=" + managerNamespace, "--runner-image=labkeeper:test",
	}
}

// freeAddresses are some that nobody listens at.
func freeAddresses(n int) []string {
	GinkgoHelper()
	var addresses []string
	for range n {
		address, err := env.FreeAddress()
		Expect(err).NotTo(HaveOccurred())
		addresses = append(addresses, address)
	}
	return addresses
}

// port is that of an address.
func port(address string) string {
	GinkgoHelper()
	_, port, err := net.SplitHostPort(address)
	Expect(err).NotTo(HaveOccurred())
	return port
}

// command is a manager whose end the caller waits for himself.
func (l *lab) command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, managerBinary, append(l.managerArgs("0"), args...)...)
}

// kill ends the manager as an out-of-memory kill does.
func (m *manager) kill() { m.signal(syscall.SIGKILL) }

// signal sends the manager a signal, unless it has ended.
func (m *manager) signal(what syscall.Signal) {
	select {
	case <-m.Exited():
	default:
		_ = syscall.Kill(m.pid, what)
	}
}

// stop asks the manager to end and waits until it has.
func (m *manager) stop() {
	GinkgoHelper()
	Expect(m.Stop()).To(Succeed())
}

func (m *manager) log() string {
	GinkgoHelper()
	log, err := os.ReadFile(m.Log())
	Expect(err).NotTo(HaveOccurred())
	return string(log)
}

// restartShared starts the shared manager again after a spec has stopped it.
func restartShared() {
	GinkgoHelper()
	shared = hub.launchManager("manager", sharedArgs()...)
}

// kubectl runs the real one and returns what it prints.
func (l *lab) kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	output, err := exec.CommandContext(ctx, l.Kubectl(), append([]string{"--kubeconfig=" + l.Kubeconfig()}, args...)...).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), fmt.Sprintf("kubectl %s: %s", strings.Join(args, " "), output))
	return string(output)
}
