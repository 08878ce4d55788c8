package env

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
)

const (
	etcdName              = "etcd"
	apiServerName         = "kube-apiserver"
	controllerManagerName = "kube-controller-manager"
	schedulerName         = "kube-scheduler"
	kubectlName           = "kubectl"
	kwokName              = "kwok"

	// assetsVariable is envtest's own variable, so that one setting serves both.
	assetsVariable = "KUBEBUILDER_ASSETS"

	// startTimeout bounds each component's start; a loaded two-core machine needs a tenth of it.
	startTimeout = 60 * time.Second
	// pollInterval is short because every start waits for several such polls in a row.
	pollInterval = 50 * time.Millisecond
)

// Options says what Start starts. The zero value is a control plane without a scheduler, from the
// default folder, whose logs vanish with it.
type Options struct {
	// BinDir is the folder with the binaries. By default it is $KUBEBUILDER_ASSETS if that is set,
	// else bin/k8s of this repository.
	BinDir string
	// Scheduler adds kube-scheduler, which only tests with nodes need.
	Scheduler bool
	// Without are controllers of kube-controller-manager that do not run, by their names, because a test plays them.
	Without []string
	// Tokens are those of further users, by their names.
	Tokens map[string]string
	// Durable makes etcd sync its log to the disk at every write, as one in production does; by
	// default it does not, and tests are faster.
	Durable bool
	// AuditLog records every request, for ControlPlane.Requests.
	AuditLog bool
	// LogDir keeps the logs of all children there after Stop; by default they go with the folder.
	LogDir string
	// Verbose is the -v level of the Kubernetes components.
	Verbose int
	// KeepSignals leaves SIGINT and SIGTERM to the caller, who must then call Stop himself.
	KeepSignals bool
}

// ControlPlane is a running control plane. Its methods may be called from several goroutines.
type ControlPlane struct {
	options Options
	binDir  string
	dir     string
	lock    *os.File

	credentials *credentials
	etcd        endpoint
	api         endpoint
	config      *rest.Config

	mutex     sync.Mutex
	mapper    meta.ResettableRESTMapper
	processes []*Process // in start order: Stop goes backwards
	stopped   bool
	stopErr   error
}

// Start starts a control plane and returns when it serves requests and its controllers work, which
// takes about four seconds. The context bounds the start only, not the life of what was started.
func Start(ctx context.Context, o Options) (*ControlPlane, error) {
	binDir, err := findBinaries(o)
	if err != nil {
		return nil, err
	}
	sweep()
	dir, lock, err := makeDir()
	if err != nil {
		return nil, err
	}
	cp := &ControlPlane{options: o, binDir: binDir, dir: dir, lock: lock}
	if o.LogDir != "" {
		if err := os.MkdirAll(o.LogDir, 0o755); err != nil {
			return nil, errors.Join(fmt.Errorf("creating log folder: %w", err), cp.Stop())
		}
	}
	if !o.KeepSignals {
		stopOnSignal(cp)
	}
	if err := cp.start(ctx); err != nil {
		return nil, errors.Join(err, cp.Stop())
	}
	return cp, nil
}

// start brings the components up in the order in which they need each other.
func (cp *ControlPlane) start(ctx context.Context) error {
	var err error
	if cp.credentials, err = writeCredentials(cp.dir, cp.options.Tokens); err != nil {
		return err
	}
	if err := cp.startEtcd(ctx); err != nil {
		return err
	}
	if err := cp.startAPIServer(ctx); err != nil {
		return err
	}
	if err := cp.startControllerManager(ctx); err != nil {
		return err
	}
	if cp.options.Scheduler {
		return cp.startScheduler()
	}
	return nil
}

// Stop ends all children, the newest first, and removes the folder. It may be called repeatedly.
func (cp *ControlPlane) Stop() error {
	cp.mutex.Lock()
	defer cp.mutex.Unlock()
	if cp.stopped {
		return cp.stopErr
	}
	cp.stopped = true
	var errs []error
	for _, p := range slices.Backward(cp.processes) {
		errs = append(errs, p.Stop())
	}
	if err := os.RemoveAll(cp.dir); err != nil {
		errs = append(errs, fmt.Errorf("removing %s: %w", cp.dir, err))
	}
	cp.lock.Close()
	forget(cp)
	cp.stopErr = errors.Join(errs...)
	return cp.stopErr
}

// Config returns a copy of the administrator's client configuration, without client-side limits.
func (cp *ControlPlane) Config() *rest.Config { return rest.CopyConfig(cp.config) }

// Kubeconfig returns the path of the administrator's kubeconfig.
func (cp *ControlPlane) Kubeconfig() string { return cp.kubeconfigPath(adminUser) }

// Dir returns the folder of the control plane, which Stop removes.
func (cp *ControlPlane) Dir() string { return cp.dir }

// Kubectl returns the path of a kubectl of the server's version, or "" where there is none.
func (cp *ControlPlane) Kubectl() string {
	path, err := cp.optionalBinary(kubectlName)
	if err != nil {
		return ""
	}
	return path
}

// findBinaries returns the folder with all that Start needs, or an error that names what it lacks:
// the usual envtest download has no controller manager, and a suite that ran without one would fail
// much later and in odd ways.
func findBinaries(o Options) (string, error) {
	dir := o.BinDir
	if dir == "" {
		dir = os.Getenv(assetsVariable)
	}
	if dir == "" {
		dir = builtDir()
	}
	names := []string{etcdName, apiServerName, controllerManagerName}
	if o.Scheduler {
		names = append(names, schedulerName)
	}
	for _, name := range names {
		if _, err := executable(dir, name); err != nil {
			return "", fmt.Errorf("finding %s in %s: %w; run `make k8s` to build the local control plane, "+
				"or unset %s if it names another folder", name, dir, err, assetsVariable)
		}
	}
	return filepath.Abs(dir)
}

// optionalBinary looks for what only some callers need, first beside the control plane and then in
// this repository's own build.
func (cp *ControlPlane) optionalBinary(name string) (string, error) {
	path, err := executable(cp.binDir, name)
	if err == nil {
		return path, nil
	}
	if built, builtErr := executable(builtDir(), name); builtErr == nil {
		return built, nil
	}
	return "", fmt.Errorf("finding %s in %s and %s: %w; run `make k8s`", name, cp.binDir, builtDir(), err)
}

// executable returns the path of a program in a folder.
func executable(dir, name string) (string, error) {
	path := filepath.Join(dir, name)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", errors.New("no such file")
	case err != nil:
		return "", err
	case info.IsDir() || info.Mode()&0o111 == 0:
		return "", errors.New("not executable")
	}
	return path, nil
}

// builtDir is where `make k8s` puts the binaries.
func builtDir() string { return filepath.Join(Root(), "bin", "k8s") }

// Root returns the root folder of this repository, in which this source file was compiled; with
// -trimpath it is found from the working directory instead.
func Root() string {
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		return filepath.Dir(filepath.Dir(filepath.Dir(file)))
	}
	dir, err := os.Getwd()
	if err != nil {
		return "."
	}
	for parent := dir; ; parent = filepath.Dir(parent) {
		if _, err := os.Stat(filepath.Join(parent, "go.mod")); err == nil {
			return parent
		}
		if parent == filepath.Dir(parent) {
			return dir
		}
	}
}
