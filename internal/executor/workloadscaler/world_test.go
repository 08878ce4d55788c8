package workloadscaler

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/labkeeper/labkeeper/internal/executor/cluster"
	"github.com/labkeeper/labkeeper/internal/executor/executortest"
	"github.com/labkeeper/labkeeper/test/env"
)

var controlPlane *env.ControlPlane

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx := context.Background()
	cluster.Outages.Duration = 10 * time.Millisecond
	var err error
	if controlPlane, err = env.Start(ctx, env.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = controlPlane.Stop() }()
	if err := prepare(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// prepare installs the kinds, and the roles of runners.
func prepare(ctx context.Context) error {
	crds := filepath.Join(env.Root(), "bin", "crds")
	if err := controlPlane.InstallSchemas(ctx, filepath.Join("testdata", "crds.yaml"), filepath.Join(crds, "argo-rollouts", "rollout-crd.yaml"),
		filepath.Join(crds, "keda", "keda.sh_scaledobjects.yaml")); err != nil {
		return err
	}
	return controlPlane.Apply(ctx, filepath.Join(env.Root(), "config", "rbac", "runner"))
}

// world is a namespace of a test, and a runner that may in it what ClusterRole says, and nothing anywhere else.
type world struct {
	*testing.T
	namespace string
	admin     dynamic.Interface
	runner    *rest.Config
}

var worlds atomic.Int32

const rights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: runner}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: labkeeper-runner-workloadscaler}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: runner}]
`

// ovenRights is how a user lets runners scale a kind of his.
const ovenRights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: ovens, labels: {hibernator.ardikabs.com/aggregate-to-workloadscaler: "true"}}
rules:
- {apiGroups: [example.com], resources: [ovens, stones], verbs: [get, list]}
- {apiGroups: [example.com], resources: [ovens/scale, stones/scale], verbs: [get, update]}
`

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	w := &world{T: t, namespace: fmt.Sprintf("w%d", worlds.Add(1)), runner: controlPlane.Config(), admin: dynamic.NewForConfigOrDie(controlPlane.Config())}
	w.runner.Impersonate = rest.ImpersonationConfig{UserName: "runner"}
	w.apply(fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", w.namespace))
	w.apply(rights)
	w.apply(ovenRights)
	roles := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	executortest.Until(t, "the rules of the aggregated role", func(ctx context.Context) (bool, error) {
		role, err := w.admin.Resource(roles).Get(ctx, ClusterRole, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		rules, _, _ := unstructured.NestedSlice(role.Object, "rules")
		return strings.Contains(fmt.Sprint(rules), "ovens/scale") && strings.Contains(fmt.Sprint(rules), "rollouts"), nil
	})
	return w
}

// apply makes the objects of a YAML text in the namespace.
func (w *world) apply(text string) {
	w.Helper()
	objects := executortest.Objects(w, text)
	for _, object := range objects {
		if object.GetKind() != "Namespace" && object.GetKind() != "ClusterRole" {
			object.SetNamespace(w.namespace)
		}
	}
	if err := controlPlane.ApplyObjects(w.Context(), objects...); err != nil {
		w.Fatal(err)
	}
}

// night is a runner for parameters, to which the namespace is added.
func (w *world) night(parameters string) *executortest.Runner {
	w.Helper()
	parameters = strings.TrimSuffix(parameters, "}")
	if parameters != "{" {
		parameters += ", "
	}
	parameters += fmt.Sprintf(`"namespace": {"literals": [%q]}}`, w.namespace)
	return executortest.New(w, Executor{}, parameters, w.runner, w.namespace)
}

// kinds of the objects that tests look at.
var kinds = map[string]schema.GroupVersionResource{
	"Deployment": deployments.gvr, "StatefulSet": statefulSets.gvr, "ReplicaSet": replicaSets.gvr, "CronJob": cronJobs.gvr,
	"Rollout": rollouts.gvr, "ScaledObject": scaledObjects.gvr, "HorizontalPodAutoscaler": autoscalers.gvr,
	"ReplicationController": {Version: "v1", Resource: "replicationcontrollers"},
	"Oven":                  {Group: "example.com", Version: "v1", Resource: "ovens"},
	"Pod":                   {Version: "v1", Resource: "pods"},
}

func (w *world) in(kind string) dynamic.ResourceInterface {
	return w.admin.Resource(kinds[kind]).Namespace(w.namespace)
}

func (w *world) get(kind, name string) *unstructured.Unstructured {
	w.Helper()
	object, err := w.in(kind).Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return object
}

// patch changes an object as somebody else; with a subresource, that.
func (w *world) patch(kind, name, patch string, subresource ...string) {
	w.Helper()
	if _, err := w.in(kind).Patch(w.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresource...); err != nil {
		w.Fatal(err)
	}
}

func (w *world) remove(kind, name string) {
	w.Helper()
	background := metav1.DeletePropagationBackground
	if err := w.in(kind).Delete(w.Context(), name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		w.Fatal(err)
	}
}

// at is a field of an object as text.
func (w *world) at(kind, name string, path ...string) string {
	w.Helper()
	value, _, _ := unstructured.NestedFieldNoCopy(w.get(kind, name).Object, path...)
	return fmt.Sprint(value)
}

// expect fails the test unless a field is as it should be.
func (w *world) expect(want, kind, name string, path ...string) {
	w.Helper()
	if got := w.at(kind, name, path...); got != want {
		w.Errorf("%s %s: %s is %s, want %s", kind, name, strings.Join(path, "."), got, want)
	}
}

var (
	specReplicas = []string{"spec", "replicas"}
	annotation   = paused.path
)

// bytes are all objects of the kinds, as they must be again: by kind and name.
func (w *world) bytes() map[string]string {
	w.Helper()
	all := map[string]string{}
	for kind := range kinds {
		if kind == "Pod" {
			continue
		}
		list, err := w.in(kind).List(w.Context(), metav1.ListOptions{})
		if err != nil {
			w.Fatal(err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			if kind != "ReplicaSet" || !slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.Kind == "Deployment" }) {
				all[kind+" "+o.GetName()] = executortest.Bytes(w, o)
			}
		}
	}
	return all
}

// calm waits until the controllers have seen everything: they annotate, once.
func (w *world) calm() {
	w.Helper()
	for _, kind := range []string{"Deployment", "StatefulSet", "ReplicaSet"} {
		executortest.Until(w, kind+" objects to be observed", func(ctx context.Context) (bool, error) {
			list, err := w.in(kind).List(ctx, metav1.ListOptions{})
			if err != nil {
				return false, err
			}
			return !slices.ContainsFunc(list.Items, func(o unstructured.Unstructured) bool {
				return !observed(&o) || kind == "Deployment" && o.GetAnnotations()["deployment.kubernetes.io/revision"] == ""
			}), nil
		})
	}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}
