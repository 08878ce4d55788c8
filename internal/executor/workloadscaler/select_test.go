package workloadscaler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"

	"github.com/labkeeper/labkeeper/internal/dispatch"
	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/executor/executortest"
)

func TestParse(t *testing.T) {
	t.Parallel()
	const shop = `"namespace": {"literals": ["shop"]}`
	for parameters, path := range map[string]string{
		`{` + shop + `}`: "",
		`{"namespace": {"selector": {"team": "shop"}}}`:                                    "",
		`{"includedGroups": ["Deployment", "apps/v1/deployments", "X.y.z"], ` + shop + `}`: "",
		`{"includedGroups": ["core/v1/replicationcontrollers"], ` + shop + `}`:             "",
		`{"includedGroups": ["ReplicationController"], ` + shop + `}`:                      "",
		`{"workloadSelector": {"matchLabels": {"a": "b"}}, ` + shop + `}`:                  "",
		`{"exclude": {"names": ["a"], "labels": {"a": "b"}}, ` + shop + `}`:                "",
		``:                                "namespace",
		`{}`:                              "namespace",
		`{"namespace": {}}`:               "namespace",
		`{"namespace": {"literals": []}}`: "namespace",
		`{"namespace": {"selector": {}}}`: "namespace",
		`{"namespace": {"literals": ["shop"], "selector": {"a": "b"}}}`:                              "namespace",
		`{"namespace": {"literals": ["shop", "Shop"]}}`:                                              "namespace.literals[1]",
		`{"namespace": {"selector": {"a b": "c"}}}`:                                                  "namespace.selector",
		`{"namespace": {"literal": ["shop"]}}`:                                                       "namespace.literal",
		`{"includedGroups": ["Deployment", "DaemonSet"], ` + shop + `}`:                              "includedGroups[1]",
		`{"includedGroups": ["ScaledObject"], ` + shop + `}`:                                         "includedGroups[0]",
		`{"includedGroups": ["HorizontalPodAutoscaler.autoscaling"], ` + shop + `}`:                  "includedGroups[0]",
		`{"includedGroups": ["autoscaling/v1/horizontalpodautoscalers"], ` + shop + `}`:              "includedGroups[0]",
		`{"includedGroups": ["apps/deployments"], ` + shop + `}`:                                     "includedGroups[0]",
		`{"includedGroups": ["apps/v1/"], ` + shop + `}`:                                             "includedGroups[0]",
		`{"includedGroups": ".", ` + shop + `}`:                                                      "includedGroups",
		`{"workloadSelector": {"matchLabel": {}}, ` + shop + `}`:                                     "workloadSelector.matchLabel",
		`{"workloadSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}, ` + shop + `}`: "workloadSelector",
		`{"exclude": {"name": ["a"]}, ` + shop + `}`:                                                 "exclude.name",
		`{"awaitCompletion": {"timeout": "-1s"}, ` + shop + `}`:                                      "awaitCompletion.timeout",
	} {
		_, err := Executor{}.Parse(json.RawMessage(parameters))
		invalid, is := errors.AsType[*executor.InvalidError](err)
		if path == "" && err != nil || path != "" && (!is || invalid.Path != path) {
			t.Errorf("%s: got %v, want an error of %s", parameters, err, path)
		}
	}
}

func TestNeeds(t *testing.T) {
	t.Parallel()
	for parameters, want := range map[string]executor.Needs{
		`{"namespace": {"literals": ["shop", "lab", "shop"]}}`: {ClusterRole: "labkeeper-runner-workloadscaler", Namespaces: []string{"lab", "shop"}},
		`{"namespace": {"selector": {"team": "shop"}}}`: {ClusterRole: "labkeeper-runner-workloadscaler",
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop"}}},
	} {
		p, err := Executor{}.Parse(json.RawMessage(parameters))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, p.Needs()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", parameters, diff)
		}
	}
}

// names are what a snapshot finds, without the namespace.
func (w *world) names(parameters string) []string {
	w.Helper()
	opened, err := w.night(parameters).Open(w.Context(), dispatch.Shutdown)
	w.must(err)
	resources, err := opened.Snapshot(w.Context())
	w.must(err)
	names := []string{}
	for _, resource := range resources {
		names = append(names, strings.Replace(resource.Key, w.namespace+"/", "", 1))
	}
	return names
}

// A list of nothing, and what is excluded and cannot be there, is a mistake, by which what sleeps already wakes all the same.
func TestMistakes(t *testing.T) {
	t.Parallel()
	const name = "is no name of a workload; "
	for parameters, want := range map[string]string{
		`"exclude": {"names": ["a", "lab/a", "a.b", "lab/a.b"], "labels": {"a": "b", "example.com/a": ""}}`: "",
		`"exclude": {"names": ["a", "elsewhere/a"]}`:                                                        `exclude.names[1]: "elsewhere/a" is in none of namespace.literals; write a, or lab/a`,
		`"includedGroups": ["Deployment", "Deployment.apps", "apps/v1/deployments", "batch/v1/cronjobs", "core/v1/replicationcontrollers", "Oven.example.com", "example.com/v1/ovens"]`: "",
		`"includedGroups": ["ReplicationController", "ReplicationController.core"]`:                                                                                                     "",
		`"includedGroups": ["Service.core"]`:                     `includedGroups[0]: "Service.core" cannot be scaled; remove it`,
		`"includedGroups": ["Deployment", "apps/v1/Deployment"]`: `includedGroups[1]: "apps/v1/Deployment" names no resource`,
		`"includedGroups": ["deployment.apps"]`:                  `includedGroups[0]: "deployment.apps" names no kind`,
		`"includedGroups": ["DaemonSet.apps"]`:                   `includedGroups[0]: "DaemonSet.apps" cannot be scaled; remove it`,
		`"includedGroups": ["batch/v1/jobs"]`:                    `includedGroups[0]: "batch/v1/jobs" cannot be scaled; remove it`,
		`"includedGroups": ["core/v1/pods"]`:                     `includedGroups[0]: "core/v1/pods" cannot be scaled; remove it`,
		`"includedGroups": null`:                                 "",
		`"includedGroups": []`:                                   "includedGroups: it is empty; name some, or leave it out for Deployments alone",
		`"exclude": {"names": null, "labels": null}`:             "",
		`"exclude": {"names": [], "labels": {}}`:                 "",
		`"exclude": {"names": ["a", "Deployment/payments"]}`:     `exclude.names[1]: "Deployment/payments" ` + name + `write payments, or lab/payments (there are no patterns)`,
		`"exclude": {"names": ["lab/deployments/payments"]}`:     `exclude.names[0]: "lab/deployments/payments" ` + name + `write payments, or lab/payments (there are no patterns)`,
		`"exclude": {"names": ["web-*"]}`:                        `exclude.names[0]: "web-*" ` + name + `write it as web, or shop/web (there are no patterns)`,
		`"exclude": {"names": ["lab/"]}`:                         `exclude.names[0]: "lab/" ` + name + `write it as web, or shop/web (there are no patterns)`,
		`"exclude": {"names": [""]}`:                             `exclude.names[0]: "" ` + name + `write it as web, or shop/web (there are no patterns)`,
		`"exclude": {"names": ["a.b/c"]}`:                        `exclude.names[0]: "a.b/c" ` + name + `write c, or lab/c (there are no patterns)`,
		`"exclude": {"labels": {"app": "web-*"}}`:                "exclude.labels: ",
		`"exclude": {"labels": {"keep=true": "", "a": "b"}}`:     "exclude.labels: ",
		`"exclude": {"names": ["A"], "labels": {"a b": "c"}}`:    `exclude.names[0]: "A" ` + name + `write it as web, or shop/web (there are no patterns)`,
	} {
		raw := json.RawMessage(`{"namespace": {"literals": ["lab"]}, ` + parameters + `}`)
		if _, err := (Executor{}).Parse(raw); err != nil {
			t.Errorf("%s: what sleeps by it does not wake: %v", parameters, err)
		}
		_, err := executor.Registry{Type: Executor{}}.Accept(Type, raw)
		invalid, is := errors.AsType[*executor.InvalidError](err)
		if got := fmt.Sprint(err); want == "" && err != nil || want != "" && (!is || !strings.HasPrefix(got, want) || invalid.Path == "") {
			t.Errorf("%s: got %s, want %s", parameters, got, want)
		}
	}
}

// TestSelect is which objects a target has, in which order.
func TestSelect(t *testing.T) {
	w := newWorld(t)
	w.apply(deployment("a", 1) + deployment("b", 1) + deployment("c", 0) + deployment("proxy", 1) + oven("bakery", 1) +
		strings.ReplaceAll(deployment("bare", 1), "kind: Deployment", "kind: ReplicaSet") + cronJob("report", true))
	w.patch("Deployment", "a", `{"metadata": {"labels": {"keep": "true", "team": "shop"}}}`)
	w.patch("Deployment", "b", fmt.Sprintf(`{"metadata": {"labels": {"keep": "true"}, "ownerReferences": [{"apiVersion": "example.com/v1", "kind": "Oven", "name": "bakery", "uid": %q, "controller": true}]}}`, w.get("Oven", "bakery").GetUID()))
	w.calm()
	executortest.Until(t, "ReplicaSets of Deployments", func(ctx context.Context) (bool, error) {
		list, err := w.in("ReplicaSet").List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 5, err
	})
	for parameters, want := range map[string][]string{
		`{}`: {"Deployment.apps/a", "Deployment.apps/b", "Deployment.apps/c", "Deployment.apps/proxy"},
		`{"includedGroups": ["ReplicaSet", "CronJob", "Deployment", "apps/v1/replicasets"]}`:        {"ReplicaSet.apps/bare", "CronJob.batch/report", "Deployment.apps/a", "Deployment.apps/b", "Deployment.apps/c", "Deployment.apps/proxy"},
		`{"includedGroups": ["ReplicaSet"]}`:                                                        {"ReplicaSet.apps/bare"},
		`{"includedGroups": ["Deployment", "Oven.example.com"]}`:                                    {"Deployment.apps/a", "Deployment.apps/c", "Deployment.apps/proxy", "Oven.example.com/bakery"},
		`{"exclude": {"names": ["proxy", "elsewhere/a", "NS/c"]}}`:                                  {"Deployment.apps/a", "Deployment.apps/b"},
		`{"exclude": {"labels": {"keep": "true"}}}`:                                                 {"Deployment.apps/c", "Deployment.apps/proxy"},
		`{"exclude": {"labels": {"keep": "true", "team": "shop"}}}`:                                 {"Deployment.apps/b", "Deployment.apps/c", "Deployment.apps/proxy"},
		`{"exclude": {"labels": {}}, "workloadSelector": {}}`:                                       {"Deployment.apps/a", "Deployment.apps/b", "Deployment.apps/c", "Deployment.apps/proxy"},
		`{"workloadSelector": {"matchLabels": {"keep": "true"}}}`:                                   {"Deployment.apps/a", "Deployment.apps/b"},
		`{"workloadSelector": {"matchExpressions": [{"key": "keep", "operator": "DoesNotExist"}]}}`: {"Deployment.apps/c", "Deployment.apps/proxy"},
	} {
		if diff := cmp.Diff(want, w.names(strings.ReplaceAll(parameters, "NS", w.namespace))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", parameters, diff)
		}
	}
}

// TestRemote is that in another cluster the namespaces are those that have the labels in the evening, and wake whatever
// labels they have in the morning.
func TestRemote(t *testing.T) {
	w := newWorld(t)
	w.apply(deployment("a", 2))
	w.calm()
	namespaces := w.admin.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	label := func(value string) {
		patch := fmt.Sprintf(`{"metadata": {"labels": {"asleep": %s}}}`, value)
		_, err := namespaces.Patch(t.Context(), w.namespace, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		w.must(err)
	}
	label(`"remote"`)
	runner := executortest.New(t, Executor{}, `{"namespace": {"selector": {"asleep": "remote"}}}`, controlPlane.Config())
	runner.Remote = true
	w.must(runner.Shutdown(t.Context()))
	w.expect("0", "Deployment", "a", specReplicas...)
	if n := len(runner.Point.Resources); n != 1 {
		t.Errorf("%d resources sleep", n)
	}
	label("null")
	w.must(runner.WakeUp(t.Context()))
	w.expect("2", "Deployment", "a", specReplicas...)
}

// TestWithheld is that what wakes the targets does not sleep, by whatever credentials, and wakes where it does.
func TestWithheld(t *testing.T) {
	w := newWorld(t)
	w.apply(deployment("a", 2))
	w.calm()
	runner := executortest.New(t, Executor{}, strings.ReplaceAll(`{"namespace": {"literals": ["NS"]}}`, "NS", w.namespace), controlPlane.Config())
	runner.Remote, runner.Namespaces, runner.Withheld = true, []string{w.namespace}, []string{"runners", w.namespace}
	invalid := (*executor.InvalidError)(nil)
	if err := runner.Shutdown(t.Context()); !errors.As(err, &invalid) || !strings.Contains(err.Error(), "namespace "+w.namespace) {
		t.Errorf("got %v", err)
	}
	w.expect("2", "Deployment", "a", specReplicas...)
	runner.Withheld = []string{"runners", "other"}
	w.must(runner.Shutdown(t.Context()))
	runner.Withheld = []string{w.namespace}
	w.must(runner.WakeUp(t.Context()))
	w.expect("2", "Deployment", "a", specReplicas...)
}

// TestTwins is that twins of ExperimentDeployments stay as they are, because their replicas would be put back.
func TestTwins(t *testing.T) {
	w := newWorld(t)
	w.apply(deployment("a", 2) + strings.Replace(deployment("a-exp", 1), "labels: {", "labels: {experiment-controller.example.com/role: experiment, ", 1))
	w.calm()
	if diff := cmp.Diff([]string{"Deployment.apps/a"}, w.names(`{}`)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestSnapshotErrors is that what cannot be seen, or brought back, is an error that names it, and changes nothing.
func TestSnapshotErrors(t *testing.T) {
	w := newWorld(t)
	w.apply(deployment("web", 1) + "---\n{apiVersion: example.com/v1, kind: Stone, metadata: {name: pebble}}\n" +
		strings.ReplaceAll(strings.ReplaceAll(deployment("db", 1), "kind: Deployment", "kind: StatefulSet"), "spec: {replicas", "spec: {persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}, replicas"))
	for name, test := range map[string]struct {
		parameters, want string
		change           func(*http.Request)
	}{
		"kind":        {`{"includedGroups": ["Deployment", "Kettle.example.com"]}`, "finding kind Kettle.example.com", nil},
		"group":       {`{"includedGroups": ["Kettle.example.org"]}`, "finding kind Kettle.example.org", nil},
		"resource":    {`{"includedGroups": ["Deployment", "example.com/v1/kettles"]}`, "listing example.com/v1/kettles: the cluster does not serve them", nil},
		"rights":      {`{"includedGroups": ["Deployment", "example.com/v1/kettles"]}`, "listing example.com/v1/kettles in", as("runner")},
		"no scale":    {`{"includedGroups": ["Stone.example.com"]}`, "reading scale of Stone NS/pebble: example.com/v1/stones has no subresource scale", nil},
		"volumes":     {`{"includedGroups": ["StatefulSet"]}`, "looking at StatefulSet NS/db: it deletes its volumes", nil},
		"autoscalers": {`{}`, "listing autoscaling/v2/horizontalpodautoscalers in NS", rename("horizontalpodautoscalers", "nothings")},
		"KEDA":        {`{}`, "listing keda.sh/v1alpha1/scaledobjects in NS", func(r *http.Request) { as("runner")(r); rename("scaledobjects", "nothings")(r) }},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.night(test.parameters)
			r.Config = controlPlane.Config()
			if test.change != nil {
				r.Config = executortest.Race(r.Config, test.change)
			}
			err := r.Shutdown(t.Context())
			if err == nil || !strings.HasPrefix(err.Error(), strings.ReplaceAll(test.want, "NS", w.namespace)) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
	w.expect("1", "Deployment", "web", specReplicas...)
	if got := w.names(`{"includedGroups": ["StatefulSet"], "exclude": {"names": ["db"]}}`); len(got) != 0 {
		t.Errorf("found %s", got)
	}
}

// TestWithoutKEDA is a cluster that has no ScaledObjects.
func TestWithoutKEDA(t *testing.T) {
	w := newWorld(t)
	w.apply(deployment("web", 3))
	r := w.night("{}")
	r.Config = executortest.Unserved(controlPlane.Config(), "keda.sh")
	w.must(r.Shutdown(t.Context()))
	w.expect("0", "Deployment", "web", specReplicas...)
	w.must(r.WakeUp(t.Context()))
	w.expect("3", "Deployment", "web", specReplicas...)
}

// TestScaledObjectsAreNotAnswered is of a list that what stands before the API server answers with 404: that does not say that there is
// no KEDA.
func TestScaledObjectsAreNotAnswered(t *testing.T) {
	for name, path := range map[string]string{"the list alone": "/scaledobjects", "nothing": "", "all but the list of groups": "/apis/"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.apply(deployment("web", 3) + scaledObject("by-web", "{name: web}", ""))
			r := w.night("{}")
			down := false
			r.Config = executortest.Lost(w.runner, func(request *http.Request) bool {
				down = down || strings.HasSuffix(request.URL.Path, "/scaledobjects")
				return down && strings.Contains(request.URL.Path, path)
			})
			if err := r.Shutdown(t.Context()); err == nil {
				t.Error("the shutdown is completed")
			}
			r.Config = w.runner
			w.must(r.Shutdown(t.Context()))
			w.expect("0", "ScaledObject", "by-web", annotation...)
		})
	}
}

func rename(from, to string) func(*http.Request) {
	return func(r *http.Request) { r.URL.Path = strings.Replace(r.URL.Path, from, to, 1) }
}

func as(user string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Impersonate-User", user) }
}

// TestAutoscalersFromZero is which autoscalers are part of a workload. The API server does not take minReplicas 0
// without a feature gate.
func TestAutoscalersFromZero(t *testing.T) {
	t.Parallel()
	hpa := func(name, spec, owner string) string {
		return fmt.Sprintf("---\n{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: %s, namespace: shop, uid: u-%[1]s%s}, spec: {%s scaleTargetRef: {apiVersion: apps/v1beta1, kind: Deployment, name: web}}}\n", name, owner, spec)
	}
	var objects []runtime.Object
	for _, o := range executortest.Objects(t, hpa("usual", "", "")+hpa("one", "minReplicas: 1,", "")+hpa("zero", "minReplicas: 0,", "")+
		hpa("keda", "minReplicas: 0,", ", ownerReferences: [{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, name: by-web, uid: u, controller: true}]")+
		"---\n{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {name: by-web, namespace: shop, uid: u}, spec: {scaleTargetRef: {name: web}}}\n") {
		objects = append(objects, o)
	}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		autoscalers.gvr: "HorizontalPodAutoscalerList", scaledObjects.gvr: "ScaledObjectList",
	}, objects...)
	found, err := (&target{client: client}).listAutoscalers(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range found["Deployment.apps/shop/web"] {
		names = append(names, fmt.Sprintf("%s %s %s", p.Kind, p.Name, p.Value))
	}
	if want := []string{"HorizontalPodAutoscaler zero null", "ScaledObject by-web null"}; !slices.Equal(names, want) || len(found) != 1 {
		t.Errorf("found %q in %v, want %q", names, found, want)
	}
}

// TestState is that a state which is not that of its key, or not whole, is refused.
func TestState(t *testing.T) {
	t.Parallel()
	object := &unstructured.Unstructured{Object: map[string]any{"kind": "Deployment", "metadata": map[string]any{"name": "web", "namespace": "shop", "uid": "u"}}}
	whole := encode(&state{part: newPart(deployments, object, int64(3))})
	const key = "Deployment.apps/shop/web"
	if s, err := decodeState(key, whole); err != nil || wanted(s.part) != 3 {
		t.Errorf("got %v, %v", s, err)
	}
	for name, test := range map[string]struct {
		key string
		raw string
	}{
		"another":  {"Deployment.apps/shop/db", string(whole)},
		"cut":      {key, string(whole[:len(whole)-1])},
		"nothing":  {key, `{}`},
		"no UID":   {key, strings.Replace(string(whole), `"u"`, `""`, 1)},
		"no value": {key, strings.Replace(string(whole), `,"value":3`, "", 1)},
		"resource": {key, strings.Replace(string(whole), `apps/v1/deployments`, "apps", 1)},
	} {
		if _, err := decodeState(test.key, json.RawMessage(test.raw)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
