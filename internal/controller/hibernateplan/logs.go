package hibernateplan

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
)

const (
	// maxLog is how much of a log is kept, from its end, in bytes, and maxLogs how many of a target.
	maxLog  = 64 << 10
	maxLogs = 6
	// minLog is how much of one is kept in any case, and planLogs how much of all of a plan, where that is more: what keeps them keeps
	// everything else, too, and no quota of those who write plans.
	minLog   = 1 << 10
	planLogs = 32 << 20
	// logTimeout is how long a log is waited for: the node of a pod may be gone.
	logTimeout = 3 * time.Second
)

// Logs reads the log of a pod.
type Logs interface {
	// Stream returns its last lines.
	Stream(ctx context.Context, pod *corev1.Pod) (io.ReadCloser, error)
}

// collect keeps the log of an attempt, and says where. A log that cannot be had is told of in the manager's own: nothing
// waits for it.
func (s *scope) collect(ctx context.Context, e *execution, pods []corev1.Pod) string {
	if len(pods) == 0 || alive(pods[0]) {
		return ""
	}
	return s.logOf(ctx, e, &pods[0])
}

// logOf keeps the log of a pod as it is by now.
func (s *scope) logOf(ctx context.Context, e *execution, pod *corev1.Pod) string {
	if s.Logs == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	ref, err := s.keepLog(ctx, e, pod)
	if err != nil {
		log.FromContext(ctx).Info("Log of a runner was not kept", "job", e.JobRef, "cause", err.Error())
		return ""
	}
	return ref
}

// logKey is the key of the log of an attempt.
func logKey(e *execution) string { return name(e.JobRef) + ".log" }

func (s *scope) keepLog(ctx context.Context, e *execution, pod *corev1.Pod) (string, error) {
	stream, err := s.Logs.Stream(ctx, pod)
	if err != nil {
		return "", err
	}
	defer stream.Close()
	text := &tail{most: mostOf(len(s.owner.Spec.Targets))}
	if _, err := io.Copy(text, stream); err != nil {
		return "", err
	}
	var store LogStore = configMapLogs{s.Live, s.Options.Namespace}
	if s.LogStore != nil {
		store = s.LogStore
	}
	return store.Keep(ctx, s.owner, e.Target, logKey(e), text.String())
}

// LogStore is where the logs of runners are kept.
type LogStore interface {
	// Keep keeps the log of an attempt at a target of a plan, under a name of its own, and returns where that is, as logsRef has it. What
	// there is of that name already is an earlier part of the same log.
	Keep(ctx context.Context, plan *v1alpha1.HibernatePlan, target, name, text string) (ref string, err error)
}

// configMapLogs keeps the last logs of each target in a ConfigMap of the plan.
type configMapLogs struct {
	live      client.Client
	namespace string
}

// Keep is that of LogStore.
func (l configMapLogs) Keep(ctx context.Context, plan *v1alpha1.HibernatePlan, target, name, text string) (string, error) {
	at := names{namespace: l.namespace, plan: plan}.log(target)
	kept := &corev1.ConfigMap{}
	err := l.live.Get(ctx, at, kept)
	if client.IgnoreNotFound(err) != nil {
		return "", err
	}
	if apierrors.IsNotFound(err) {
		kept = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name}}
		marks.Set(plan, kept)
	} else if !marks.Owns(plan, kept) {
		return "", &kube.NameTakenError{Object: "ConfigMap " + at.String()}
	}
	keepLast(kept, name, text)
	if kept.ResourceVersion == "" {
		err = l.live.Create(ctx, kept, client.FieldOwner(kube.FieldOwner))
	} else {
		err = l.live.Update(ctx, kept, client.FieldOwner(kube.FieldOwner))
	}
	return fmt.Sprintf("%s%s#%s", configMapScheme, at, name), err
}

// tail is the end of what is written to it: a kubelet that is asked for so many bytes of the last lines leaves the very
// last ones out.
type tail struct {
	most int
	kept []byte
	cut  bool
}

// mostOf is how much of a log is kept of a plan of so many targets.
func mostOf(targets int) int { return max(minLog, min(maxLog, planLogs/maxLogs/max(1, targets))) }

// Write takes everything.
func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if more := len(t.kept) - t.most; more > 0 {
		t.kept, t.cut = t.kept[more:], true
	}
	return len(p), nil
}

// String begins with a whole line, if there is one.
func (t *tail) String() string {
	text := string(t.kept)
	if _, rest, found := strings.Cut(text, "\n"); t.cut && found && rest != "" {
		text = rest
	}
	return strings.ToValidUTF8(text, "")
}

// orderOf is the annotation that lists the logs of a ConfigMap, the oldest first.
const orderOf = "hibernator.ardikabs.com/logs"

// keepLast takes a log in, and lets the oldest go.
func keepLast(kept *corev1.ConfigMap, key, text string) {
	if kept.Data == nil {
		kept.Data = map[string]string{}
	}
	order := slices.DeleteFunc(split(kept.Annotations[orderOf]), func(k string) bool { return k == key })
	kept.Data[key] = text
	for order = append(order, key); len(order) > maxLogs; order = order[1:] {
		delete(kept.Data, order[0])
	}
	if kept.Annotations == nil {
		kept.Annotations = map[string]string{}
	}
	kept.Annotations[orderOf] = join(order)
}

// podLogs reads logs from the API server.
type podLogs struct{ read reader }

type reader func(namespace, pod string, o *corev1.PodLogOptions) stream

type stream interface {
	Stream(ctx context.Context) (io.ReadCloser, error)
}

// Stream is that of Logs.
func (l podLogs) Stream(ctx context.Context, pod *corev1.Pod) (io.ReadCloser, error) {
	return l.read(pod.Namespace, pod.Name, &corev1.PodLogOptions{Container: containerName, TailLines: ptr.To[int64](500)}).Stream(ctx)
}
