package env

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// portAttempts is how often a component is started anew when another program took its port between
// choosing and listening.
const portAttempts = 5

// rootCAConfigMap is what a controller puts into every namespace.
const rootCAConfigMap = "kube-root-ca.crt"

// endpoint is a loopback port of a component.
type endpoint int

func (e endpoint) String() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(e))) }

// FreeAddress returns a loopback address on which nothing listens at the moment.
func FreeAddress() (string, error) {
	e, err := freePort()
	return e.String(), err
}

// freePort asks the kernel for a port, which it does not hand out again soon.
func freePort() (endpoint, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("choosing a free port: %w", err)
	}
	defer l.Close()
	return endpoint(l.Addr().(*net.TCPAddr).Port), nil
}

// retryPorts repeats a start that lost the race for a port.
func retryPorts(start func() error) error {
	var err error
	for range portAttempts {
		err = start()
		if err == nil || !strings.Contains(err.Error(), "address already in use") {
			return err
		}
	}
	return err
}

// startEtcd starts etcd without fsync: the data never outlives the test.
func (cp *ControlPlane) startEtcd(ctx context.Context) error {
	return retryPorts(func() error {
		client, err := freePort()
		if err != nil {
			return err
		}
		peer, err := freePort()
		if err != nil {
			return err
		}
		name := filepath.Base(cp.dir)
		p, err := cp.startComponent(etcdName,
			"--name="+name,
			"--data-dir="+filepath.Join(cp.dir, "etcd"),
			"--listen-client-urls=http://"+client.String(),
			"--advertise-client-urls=http://"+client.String(),
			"--listen-peer-urls=http://"+peer.String(),
			"--initial-advertise-peer-urls=http://"+peer.String(),
			"--initial-cluster="+name+"=http://"+peer.String(),
			"--unsafe-no-fsync="+strconv.FormatBool(!cp.options.Durable),
			"--log-level=warn",
		)
		if err != nil {
			return err
		}
		cp.etcd = client
		return cp.await(ctx, p, func(ctx context.Context) (bool, error) { return etcdServes(ctx, client, name) })
	})
}

// etcdServes asks for the member's name, because on a port that was lost to another etcd a mere
// health check would be answered by that one.
func etcdServes(ctx context.Context, e endpoint, name string) (bool, error) {
	url := "http://" + e.String() + "/v3/cluster/member/list"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewBufferString("{}"))
	if err != nil {
		return false, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, nil // not listening yet
	}
	defer response.Body.Close()
	var list struct {
		Members []struct {
			Name string `json:"name"`
		} `json:"members"`
	}
	if err := json.NewDecoder(response.Body).Decode(&list); err != nil {
		return false, nil // still electing itself
	}
	return len(list.Members) == 1 && list.Members[0].Name == name, nil
}

// startAPIServer starts the API server on a new port and writes the kubeconfigs that name it.
func (cp *ControlPlane) startAPIServer(ctx context.Context) error {
	return retryPorts(func() error {
		port, err := freePort()
		if err != nil {
			return err
		}
		cp.api = port
		cp.config = cp.credentials.restConfig("https://"+port.String(), adminUser)
		if err := cp.writeKubeconfigs(); err != nil {
			return err
		}
		return cp.runAPIServer(ctx)
	})
}

// runAPIServer starts the API server on the port that was chosen and waits until it is ready.
func (cp *ControlPlane) runAPIServer(ctx context.Context) error {
	c := cp.credentials
	args := []string{
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		// Nothing routes to the kubernetes Service, and its reconciler refuses a loopback address.
		"--endpoint-reconciler-type=none",
		"--secure-port=" + strconv.Itoa(int(cp.api)),
		"--cert-dir=" + filepath.Join(cp.dir, "apiserver"),
		"--tls-cert-file=" + c.servingCert,
		"--tls-private-key-file=" + c.servingKey,
		"--etcd-servers=http://" + cp.etcd.String(),
		"--token-auth-file=" + c.tokenFile,
		"--authorization-mode=Node,RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.serviceAccountKey,
		"--service-account-signing-key-file=" + c.serviceAccountKey,
		"--service-cluster-ip-range=10.0.0.0/24",
		"--allow-privileged=true",
		// A client that has as many streams as it may, and begins one as soon as another has ended, is refused it now and then.
		"--http2-max-streams-per-connection=1000",
	}
	if cp.options.AuditLog {
		policy, err := cp.writeAuditPolicy()
		if err != nil {
			return err
		}
		args = append(args,
			"--audit-policy-file="+policy,
			"--audit-log-path="+cp.auditLog(),
			"--audit-log-maxsize=4096", // never rotated: Requests reads one file
		)
	}
	p, err := cp.startComponent(apiServerName, args...)
	if err != nil {
		return err
	}
	// The default namespace is made after the first readiness; who creates objects at once needs it.
	return cp.await(ctx, p, cp.ready("/readyz", "/api/v1/namespaces/default"))
}

// startControllerManager starts the controllers and waits until they visibly work.
func (cp *ControlPlane) startControllerManager(ctx context.Context) error {
	c := cp.credentials
	controllers := "--controllers=*"
	for _, name := range cp.options.Without {
		controllers += ",-" + name
	}
	p, err := cp.startComponent(controllerManagerName,
		controllers,
		"--kubeconfig="+cp.kubeconfigPath(controllerManagerUser),
		"--service-account-private-key-file="+c.serviceAccountKey,
		"--root-ca-file="+c.ca,
		"--leader-elect=false",
		"--secure-port=0",
		// The default limits are for a shared server and would only slow the tests down.
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
	)
	if err != nil {
		return err
	}
	return cp.await(ctx, p, cp.ready(
		"/api/v1/namespaces/default/serviceaccounts/default",
		"/api/v1/namespaces/default/configmaps/"+rootCAConfigMap,
	))
}

// startScheduler starts the scheduler. Nobody waits for it: pods are simply scheduled once it is up.
func (cp *ControlPlane) startScheduler() error {
	_, err := cp.startComponent(schedulerName,
		"--kubeconfig="+cp.kubeconfigPath(schedulerUser),
		"--leader-elect=false",
		"--secure-port=0",
	)
	return err
}

// startComponent starts one of the Kubernetes binaries. They get no time to end by themselves: an API
// server would take seconds over it, for the sake of clients and data that end with it.
func (cp *ControlPlane) startComponent(name string, args ...string) (*Process, error) {
	path, err := executable(cp.binDir, name)
	if err != nil {
		return nil, fmt.Errorf("finding %s in %s: %w", name, cp.binDir, err)
	}
	if name != etcdName && cp.options.Verbose > 0 {
		args = append(args, "-v="+strconv.Itoa(cp.options.Verbose))
	}
	return cp.startProcess(name, path, 0, args)
}

// ready is a check that the server answers each of these paths with success.
func (cp *ControlPlane) ready(paths ...string) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		config := rest.CopyConfig(cp.config)
		config.Timeout = 5 * time.Second
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return false, err
		}
		for _, path := range paths {
			if client.Discovery().RESTClient().Get().AbsPath(path).Do(ctx).Error() != nil {
				return false, nil
			}
		}
		return true, nil
	}
}

// await polls until the check holds, the process dies or the time is up. A process that died tells
// why in its log, so the error carries the end of that.
func (cp *ControlPlane) await(ctx context.Context, p *Process, check func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		ok, err := check(ctx)
		if err != nil {
			return errors.Join(fmt.Errorf("starting %s: %w", p.name, err), p.Stop())
		}
		select {
		case <-p.Exited():
			return p.deathError()
		default:
		}
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			err := fmt.Errorf("waiting for %s: %w; its log ends with:\n%s", p.name, ctx.Err(), p.Tail(tailLines))
			return errors.Join(err, p.Stop())
		case <-p.Exited():
			return p.deathError()
		case <-time.After(pollInterval):
		}
	}
}

// RestartAPIServer kills the API server and starts it again on the same port with the same data: for
// its clients the outage of a crashed control plane.
func (cp *ControlPlane) RestartAPIServer(ctx context.Context) error {
	if err := cp.KillAPIServer(); err != nil {
		return err
	}
	return cp.ResumeAPIServer(ctx)
}

// KillAPIServer ends the API server as a crash does and returns when it is gone.
func (cp *ControlPlane) KillAPIServer() error { return cp.stopComponent(apiServerName) }

// ResumeAPIServer starts an API server that was killed again, on the same port with the same data,
// and waits until it is ready.
func (cp *ControlPlane) ResumeAPIServer(ctx context.Context) error { return cp.runAPIServer(ctx) }

// RestartControllerManager starts the controllers anew. The garbage collector looks for new kinds
// only every 30 seconds, but always at its start: this makes it know freshly installed kinds now.
func (cp *ControlPlane) RestartControllerManager(ctx context.Context) error {
	if err := cp.stopComponent(controllerManagerName); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cp.config)
	if err != nil {
		return fmt.Errorf("creating client: %w", err)
	}
	// startControllerManager takes its presence as the sign of life, so it must be made again.
	err = client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Delete(ctx, rootCAConfigMap, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting ConfigMap %s/%s: %w", metav1.NamespaceDefault, rootCAConfigMap, err)
	}
	return cp.startControllerManager(ctx)
}

// stopComponent stops a component by name.
func (cp *ControlPlane) stopComponent(name string) error {
	cp.mutex.Lock()
	defer cp.mutex.Unlock()
	for _, p := range cp.processes {
		if p.name != name {
			continue
		}
		select {
		case <-p.Exited():
		default:
			return p.Stop()
		}
	}
	return nil
}
