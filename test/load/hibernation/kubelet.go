package hibernation

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/executor/noop"
	"github.com/labkeeper/labkeeper/internal/runner"
	"github.com/labkeeper/labkeeper/test/load/harness"
	"github.com/labkeeper/labkeeper/test/runners"
)

// kubelet runs the pods of Jobs to their end.
func kubelet(ctx context.Context, c *harness.Client, o *harness.Object, gone bool) error {
	if gone || o.Metadata.DeletionTimestamp != "" || strings.Contains(string(o.Status), `"Succeeded"`) || strings.Contains(string(o.Status), `"Failed"`) {
		return nil
	}
	var spec corev1.PodSpec
	if err := json.Unmarshal(o.Spec, &spec); err != nil {
		return err
	}
	container := spec.Containers[0]
	task, err := runners.TaskOf(container)
	if err != nil {
		return fmt.Errorf("running pod %s: %w", o.Metadata.Name, err)
	}
	namespace, point, _ := strings.Cut(task.RestorePoint, "/")
	result := runner.Run(log.IntoContext(ctx, logr.Discard()), task, runner.Deps{
		Store:     runner.NewConfigMapStore(store{c, namespace}, point, task.Execution),
		Executors: executor.Registry{noop.Type: noop.Executor{}}, Clock: clock.RealClock{},
	})
	if !result.Completed {
		return fmt.Errorf("the runner of pod %s: %s", o.Metadata.Name, result.Message)
	}
	said, err := result.Encode()
	if err != nil {
		return err
	}
	now := metav1.Now()
	return harness.Ignore(c.Patch(ctx, o.Path()+"/status", map[string]any{"status": corev1.PodStatus{
		Phase: corev1.PodSucceeded, StartTime: &now,
		ContainerStatuses: []corev1.ContainerStatus{{Name: container.Name, Image: container.Image, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Message: string(said), StartedAt: now, FinishedAt: now},
		}}},
	}}), http.StatusNotFound)
}

// store is where the runners of a namespace keep restore points.
type store struct {
	client    *harness.Client
	namespace string
}

// Get reads one.
func (s store) Get(ctx context.Context, name string, _ metav1.GetOptions) (*corev1.ConfigMap, error) {
	return s.do(ctx, http.MethodGet, name, nil)
}

// Update replaces one.
func (s store) Update(ctx context.Context, o *corev1.ConfigMap, _ metav1.UpdateOptions) (*corev1.ConfigMap, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	return s.do(ctx, http.MethodPut, o.Name, body)
}

func (s store) do(ctx context.Context, method, name string, body []byte) (*corev1.ConfigMap, error) {
	contentType := ""
	if body != nil {
		contentType = "application/json"
	}
	answer, err := s.client.Do(ctx, method, harness.Path(configMaps, s.namespace, name), contentType, body)
	if code := harness.Code(err); code != 0 { // which the runner knows by client-go's errors
		return nil, apierrors.NewGenericServerResponse(code, method, schema.GroupResource{Resource: "configmaps"}, name, err.Error(), 0, true)
	}
	if err != nil {
		return nil, err
	}
	out := &corev1.ConfigMap{}
	return out, json.Unmarshal(answer, out)
}
