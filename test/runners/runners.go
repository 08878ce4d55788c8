package runners

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"github.com/labkeeper/labkeeper/internal/runner"
)

// Label of the pods that are played.
const Label = "hibernator.ardikabs.com/execution"

// Options of a Kubelet.
type Options struct {
	// Config reaches the API server as an administrator.
	Config *rest.Config
	// Namespace of the pods.
	Namespace string
	// Binary that is every image.
	Binary string
	// Dir for what pods write.
	Dir string
	// Cluster is how the processes reach the API server, where that is not as Config says: by a proxy. Mostly nil.
	Cluster *clientcmdapi.Cluster
	// Started sees a process that has begun; it may be nil.
	Started func(pod *corev1.Pod, process *os.Process)
}

// Kubelet plays pods.
type Kubelet struct {
	options Options
	client  kubernetes.Interface
	cancel  context.CancelFunc
	server  *httptest.Server
	all     sync.WaitGroup

	mu   sync.Mutex
	pods map[types.UID]*process
}

// process is the container of a pod.
type process struct {
	command *exec.Cmd
	dir     string
}

// node is the one that pods are bound to.
const node = "runners"

// Start registers the node and plays pods until the Kubelet is stopped.
func Start(ctx context.Context, o Options) (*Kubelet, error) {
	client, err := kubernetes.NewForConfig(o.Config)
	if err != nil {
		return nil, fmt.Errorf("building the client: %w", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	k := &Kubelet{options: o, client: client, cancel: cancel, pods: map[types.UID]*process{}}
	k.server = httptest.NewTLSServer(http.HandlerFunc(k.logs))
	if err := k.register(ctx); err != nil {
		k.Stop()
		return nil, err
	}
	k.all.Go(func() { k.watch(ctx) })
	return k, nil
}

// Stop ends the processes and what plays them.
func (k *Kubelet) Stop() {
	k.cancel()
	k.all.Wait()
	k.server.Close()
}

// register makes the node, whose kubelet is asked for logs.
func (k *Kubelet) register(ctx context.Context) error {
	_, err := k.client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("registering Node %s: %w", node, err)
	}
	if err := k.beat(ctx); err != nil {
		return fmt.Errorf("registering Node %s: %w", node, err)
	}
	k.all.Go(func() { // a node that is silent for long loses its pods
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(10 * time.Second):
				_ = k.beat(ctx) // or the next time
			}
		}
	})
	return nil
}

// beat says that the node is alive, and where its kubelet is.
func (k *Kubelet) beat(ctx context.Context) error {
	var port int32
	if _, err := fmt.Sscanf(k.server.Listener.Addr().String(), "127.0.0.1:%d", &port); err != nil {
		return fmt.Errorf("reading the address of the kubelet: %w", err)
	}
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		n, err := k.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
		n.Status.DaemonEndpoints.KubeletEndpoint.Port = port
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now(), LastTransitionTime: n.CreationTimestamp}}
		_, err = k.client.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{})
		return err
	})
}

// watch plays the pods that there are, and those that come, whatever becomes of the API server meanwhile.
func (k *Kubelet) watch(ctx context.Context) {
	for ctx.Err() == nil {
		list, err := k.client.CoreV1().Pods(k.options.Namespace).List(ctx, metav1.ListOptions{LabelSelector: Label})
		if err != nil {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		for i := range list.Items {
			k.see(ctx, &list.Items[i])
		}
		w, err := k.client.CoreV1().Pods(k.options.Namespace).Watch(ctx, metav1.ListOptions{LabelSelector: Label, ResourceVersion: list.ResourceVersion})
		if err != nil {
			continue
		}
		for e := range w.ResultChan() {
			if pod, ok := e.Object.(*corev1.Pod); ok && e.Type != watch.Deleted {
				k.see(ctx, pod)
			}
		}
	}
}

// see does what a pod needs.
func (k *Kubelet) see(ctx context.Context, pod *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, known := k.pods[pod.UID]
	switch {
	case pod.DeletionTimestamp != nil && known:
		if p.command != nil && p.command.Process != nil {
			_ = p.command.Process.Signal(syscall.SIGTERM) // one that has ended needs none
		}
	case pod.DeletionTimestamp != nil:
		k.remove(ctx, pod)
	case pod.Status.Phase == corev1.PodPending && !known:
		p = &process{}
		k.pods[pod.UID] = p
		k.all.Go(func() { k.play(ctx, pod.DeepCopy(), p) })
	}
}

func (k *Kubelet) remove(ctx context.Context, pod *corev1.Pod) {
	_ = k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To[int64](0), Preconditions: &metav1.Preconditions{UID: &pod.UID},
	}) // it may be gone
}

// play runs a pod from its binding to its end.
func (k *Kubelet) play(ctx context.Context, pod *corev1.Pod, p *process) {
	status := corev1.ContainerStateTerminated{ExitCode: 128, Reason: "StartError", StartedAt: metav1.Now()}
	if err := k.run(ctx, pod, p); err != nil {
		status.Message = err.Error()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			status.ExitCode, status.Reason = int32(exit.ExitCode()), "Error"
			if exit.ExitCode() < 0 {
				status.ExitCode, status.Reason = 137, "OOMKilled"
			}
		}
	} else {
		status.ExitCode, status.Reason = 0, "Completed"
	}
	if message, err := os.ReadFile(filepath.Join(p.dir, "termination-log")); err == nil {
		status.Message = string(message)
	}
	status.FinishedAt = metav1.Now()
	phase := corev1.PodSucceeded
	if status.ExitCode != 0 {
		phase = corev1.PodFailed
	}
	k.tell(ctx, pod, func(s *corev1.PodStatus) {
		s.Phase = phase
		s.ContainerStatuses = []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name, Image: pod.Spec.Containers[0].Image, State: corev1.ContainerState{Terminated: &status}}}
	})
	k.mu.Lock()
	p.command = nil
	k.mu.Unlock()
	if now, err := k.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{}); err == nil && now.UID == pod.UID && now.DeletionTimestamp != nil {
		k.remove(ctx, now)
	}
}

// tell changes the status of a pod, as often as it takes.
func (k *Kubelet) tell(ctx context.Context, pod *corev1.Pod, change func(*corev1.PodStatus)) {
	for ctx.Err() == nil {
		now, err := k.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && now.UID != pod.UID {
			return
		}
		if err == nil {
			change(&now.Status)
			_, err = k.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, now, metav1.UpdateOptions{})
		}
		if err == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// run runs the container of a pod.
func (k *Kubelet) run(ctx context.Context, pod *corev1.Pod, p *process) error {
	if pod.Spec.NodeName == "" {
		err := k.client.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
		}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("binding: %w", err)
		}
	}
	dir := filepath.Join(k.options.Dir, "pods", string(pod.UID))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	p.dir = dir
	command, err := k.command(ctx, pod, dir)
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	command.Stdout, command.Stderr = log, log
	k.tell(ctx, pod, func(s *corev1.PodStatus) {
		now := metav1.Now()
		s.Phase, s.StartTime = corev1.PodRunning, &now
		s.ContainerStatuses = []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}}}
	})
	k.mu.Lock()
	err = command.Start()
	if err == nil {
		p.command = command
	}
	k.mu.Unlock()
	if err != nil {
		return err
	}
	if k.options.Started != nil {
		k.options.Started(pod, command.Process)
	}
	return command.Wait()
}

// command is the container of a pod, with its identity and what is mounted.
func (k *Kubelet) command(ctx context.Context, pod *corev1.Pod, dir string) (*exec.Cmd, error) {
	c := pod.Spec.Containers[0]
	kubeconfig, err := k.identity(ctx, pod, dir)
	if err != nil {
		return nil, err
	}
	args := slices.Clone(c.Args)
	for _, m := range c.VolumeMounts {
		i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name && v.Secret != nil })
		if i < 0 {
			continue // the token of the ServiceAccount, which is in the kubeconfig
		}
		at := filepath.Join(dir, m.Name)
		if err := k.mount(ctx, pod.Namespace, pod.Spec.Volumes[i].Secret.SecretName, at); err != nil {
			return nil, err
		}
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], m.MountPath, at)
		}
	}
	command := exec.CommandContext(ctx, k.options.Binary, args...)
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = 5 * time.Second
	command.Env = []string{"KUBECONFIG=" + kubeconfig, runner.EnvTerminationMessage + "=" + filepath.Join(dir, "termination-log"), "HOME=" + dir}
	for _, e := range c.Env {
		command.Env = append(command.Env, e.Name+"="+e.Value)
	}
	return command, nil
}

// identity is a kubeconfig with a token of the pod's ServiceAccount, bound to the pod.
func (k *Kubelet) identity(ctx context.Context, pod *corev1.Pod, dir string) (string, error) {
	request, err := k.client.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, pod.Spec.ServiceAccountName, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: ptr.To[int64](3600),
			BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("requesting a token: %w", err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["here"] = &clientcmdapi.Cluster{Server: k.options.Config.Host, CertificateAuthority: k.options.Config.CAFile, CertificateAuthorityData: k.options.Config.CAData}
	if k.options.Cluster != nil {
		config.Clusters["here"] = k.options.Cluster
	}
	config.AuthInfos["runner"] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	config.Contexts["here"] = &clientcmdapi.Context{Cluster: "here", AuthInfo: "runner", Namespace: pod.Namespace}
	config.CurrentContext = "here"
	path := filepath.Join(dir, "kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}

// mount writes a Secret into a directory.
func (k *Kubelet) mount(ctx context.Context, namespace, name, at string) error {
	secret, err := k.client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("mounting: %w", err)
	}
	if err := os.MkdirAll(at, 0o700); err != nil {
		return err
	}
	for key, value := range secret.Data {
		if err := os.WriteFile(filepath.Join(at, key), value, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// logs answers the API server as a kubelet does: /containerLogs/<namespace>/<pod>/<container>.
func (k *Kubelet) logs(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(parts) != 4 || parts[0] != "containerLogs" {
		http.NotFound(w, r)
		return
	}
	pod, err := k.client.CoreV1().Pods(parts[1]).Get(r.Context(), parts[2], metav1.GetOptions{})
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	file, err := os.Open(filepath.Join(k.options.Dir, "pods", string(pod.UID), "log"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	defer file.Close()
	_, _ = io.Copy(w, file) // whoever has asked is gone
}

// TaskOf is what the container of a pod is told to do.
func TaskOf(c corev1.Container) (runner.Task, error) {
	if len(c.Args) == 0 || c.Args[0] != "runner" {
		return runner.Task{}, fmt.Errorf("container %s has the arguments %q, which are no runner's", c.Name, c.Args)
	}
	return runner.ParseTask(c.Args[1:], func(name string) string {
		for _, e := range c.Env {
			if e.Name == name {
				return e.Value
			}
		}
		return ""
	})
}
