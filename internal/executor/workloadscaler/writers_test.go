package workloadscaler

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/labkeeper/labkeeper/internal/dispatch"
	"github.com/labkeeper/labkeeper/internal/executor/cluster"
	"github.com/labkeeper/labkeeper/internal/executor/executortest"
	"github.com/labkeeper/labkeeper/test/env"
)

// TestWriters reads who has written a field.
func TestWriters(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fields string
		path   []string
		want   string
	}{
		"nobody says":          {`[]`, replicas.path, "[]"},
		"another field":        {`[{manager: a, fieldsV1: {"f:spec": {"f:template": {}}}}]`, replicas.path, "[]"},
		"one":                  {`[{manager: a, fieldsV1: {"f:spec": {"f:replicas": {}}}}]`, replicas.path, "[a]"},
		"all who apply it":     {`[{manager: b, fieldsV1: {"f:spec": {"f:replicas": {}}}}, {manager: a, fieldsV1: {"f:spec": {"f:replicas": {}}}}]`, replicas.path, "[a b]"},
		"one, twice":           {`[{manager: a, fieldsV1: {"f:spec": {"f:replicas": {}}}}, {manager: a, subresource: scale, fieldsV1: {"f:spec": {"f:replicas": {}}}}]`, replicas.path, "[a]"},
		"something in it":      {`[{manager: a, fieldsV1: {"f:spec": {"f:behavior": {"f:scaleUp": {}}}}}]`, scaleUp.path, "[a]"},
		"an annotation":        {`[{manager: a, fieldsV1: {"f:metadata": {"f:annotations": {"f:autoscaling.keda.sh/paused-replicas": {}}}}}]`, paused.path, "[a]"},
		"fields of odd shapes": {`[{manager: a, fieldsV1: {"f:spec": 1}}, {manager: b}, {manager: c, fieldsV1: {"f:spec": {"f:replicas": {}}}}]`, replicas.path, "[c]"},
	} {
		o := executortest.Objects(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, managedFields: "+test.fields+"}}")[0]
		if got := fmt.Sprint(cluster.By(o, test.path...).Names); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// TestBy is that who has written something else of what a field is in has not given it its value.
func TestBy(t *testing.T) {
	t.Parallel()
	const fields = `[{manager: argocd-controller, fieldsV1: {"f:spec": {"f:behavior": {"f:scaleDown": {}}}}}, {manager: %s, fieldsV1: {"f:spec": {"f:behavior": {"f:scaleUp": {"f:selectPolicy": {}}}}}}]`
	for manager, want := range map[string]string{"kubectl-edit": "kubectl-edit", "argocd-controller": "argocd-controller of Application shop"} {
		o := executortest.Objects(t, "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: a, annotations: {argocd.argoproj.io/tracking-id: 'shop:x'}, managedFields: "+fmt.Sprintf(fields, manager)+"}}")[0]
		if got := by(newPart(autoscalers, o, nil), live{object: o, at: o}).String(); got != want {
			t.Errorf("it is by %q, want %q", got, want)
		}
	}
}

// TestIgnore is what lets Argo CD leave alone what sleeps: of a CRD nobody tells who has written its replicas by its scale.
func TestIgnore(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{"Deployment": "managedFieldsManagers: [labkeeper-sleep]", "Rollout": "managedFieldsManagers: [labkeeper-sleep]", "Oven": "jsonPointers: [/spec/replicas]"} {
		o := executortest.Objects(t, "{apiVersion: v1, kind: "+kind+", metadata: {name: a, annotations: {argocd.argoproj.io/tracking-id: 'shop:x'}, managedFields: "+
			`[{manager: argocd-controller, fieldsV1: {"f:spec": {"f:replicas": {}}}}]}}`)[0]
		if got := by(newPart(known(kinds[kind]), o, nil), live{object: o, at: o}).Note(); !strings.Contains(got, want) {
			t.Errorf("of a %s it says %q", kind, got)
		}
	}
}

// TestAwake is when a workload of 3 is said to have been awake before it was woken.
func TestAwake(t *testing.T) {
	t.Parallel()
	const mine, keda = `[{manager: labkeeper-runner, fieldsV1: {"f:spec": {"f:replicas": {}}}}]`, `[{manager: keda, fieldsV1: {"f:spec": {"f:replicas": {}}}}]`
	for name, test := range map[string]struct {
		replicas, slept int64
		uid, managers   string
		want            string
	}{
		"woken by another":        {3, 0, "u", keda, "it was awake already: spec.replicas is 3, by keda"},
		"woken before":            {3, 0, "u", mine, ""},
		"nobody says by whom":     {3, 0, "u", "[]", ""},
		"asleep, as it was found": {0, 0, "u", keda, ""},
		"scaled":                  {5, 0, "u", keda, ""}, // which is told of otherwise
		"never put to sleep":      {3, 3, "u", keda, ""},
		"another object":          {3, 0, "v", keda, ""},
	} {
		o := executortest.Objects(t, fmt.Sprintf("{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, uid: %s, managedFields: %s}, spec: {replicas: %d}}", test.uid, test.managers, test.replicas))[0]
		before := newPart(deployments, o, int64(3))
		before.UID = "u"
		slept := before
		slept.Value = encode(test.slept)
		found := live{object: o, at: o, value: test.replicas, other: o.GetUID() != before.UID}
		if got := awake(before, &slept, found); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
		if got := awake(before, nil, found); got != "" {
			t.Errorf("%s, and nobody says that it was put to sleep: %q", name, got)
		}
	}
}

// What Argo CD is told to ignore is what is written to what sleeps, and not to what is awake.
func TestArgoCDIgnoresWhatSleeps(t *testing.T) {
	t.Parallel()
	for _, file := range []string{filepath.Join("config", "argocd", "argocd-cm.yaml"), filepath.Join("docs", "hibernation.md")} {
		text, err := os.ReadFile(filepath.Join(env.Root(), file))
		if err != nil {
			t.Fatal(err)
		}
		_, ignored, found := strings.Cut(string(text), "managedFieldsManagers:")
		ignored = strings.Trim(strings.SplitN(strings.TrimSpace(ignored), "\n", 2)[0], " -[]}")
		if !found || ignored != cluster.Sleeps {
			t.Errorf("%s: %q is ignored, want %q", file, ignored, cluster.Sleeps)
		}
	}
}

// TestManagers is that a field is the sleeping manager's as long as it sleeps, and not when it is awake: who ignores what that one writes
// ignores nothing by day. Of a kind of somebody else's nobody tells: its scale is not compared.
func TestManagers(t *testing.T) {
	w := newWorld(t)
	w.apply(deployment("web", 3) + cronJob("report", false) + rollout("plain", "") + rollout("canary", "replicas: 2,") + oven("bakery", 5) + deployment("queue", 2) + scaledObject("by-queue", "{name: queue}", ""))
	w.calm()
	r := w.night(`{"includedGroups": ["Deployment", "CronJob", "Rollout", "Oven.example.com"]}`)
	expect := func(when string, want map[string]string) {
		t.Helper()
		for what, want := range want {
			o, f := w.object(what), replicas
			switch what {
			case "CronJob":
				f = suspend
			case "ScaledObject":
				f = paused
			case "Oven":
				f.path = []string{"spec", "loaves"}
			}
			if got := fmt.Sprint(cluster.By(o, f.path...).Names); got != want {
				t.Errorf("%s: %s is written by %s, want %s", when, what, got, want)
			}
		}
	}
	w.must(r.Shutdown(t.Context()))
	const asleep, awake = "[labkeeper-sleep]", "[labkeeper-runner]"
	expect("asleep", map[string]string{"Deployment": asleep, "CronJob": asleep, "Rollout": asleep, "Rollout canary": asleep, "Oven": "[]", "ScaledObject": asleep})
	w.must(r.WakeUp(t.Context()))
	expect("awake", map[string]string{"Deployment": awake, "CronJob": awake, "Rollout": "[]", "Rollout canary": awake, "Oven": "[]", "ScaledObject": "[]"})
	if left := r.Left(); left != "" {
		t.Errorf("left:\n%s", left)
	}
}

// object is the one that a test has of a kind, of Deployments web.
func (w *world) object(what string) *unstructured.Unstructured {
	w.Helper()
	kind, name, named := strings.Cut(what, " ")
	if !named {
		name = map[string]string{"Deployment": "web", "CronJob": "report", "Rollout": "plain", "Oven": "bakery", "ScaledObject": "by-queue"}[kind]
	}
	o, err := w.in(kind).Get(w.Context(), name, metav1.GetOptions{})
	w.must(err)
	return o
}

// TestWatched is that what Argo CD may wake is looked at for a while, and nothing else is.
func TestWatched(t *testing.T) {
	w := newWorld(t)
	w.apply(deployment("web", 0) + cronJob("report", false) + cronJob("alone", false))
	w.calm()
	w.heal("CronJob", "report", `{`+tracked+`}`)
	r := w.night(`{"includedGroups": ["CronJob"]}`)
	w.must(r.Shutdown(t.Context()))
	target, err := r.Open(t.Context(), dispatch.Shutdown)
	w.must(err)
	for _, resource := range r.Point.Resources {
		looks := 1
		for ; looks < 20; looks++ {
			missing, err := target.Settled(t.Context(), resource, false)
			w.must(err)
			if missing == "" {
				break
			}
		}
		want := 1
		if resource.Key == "CronJob.batch/"+w.namespace+"/report" {
			want = cluster.Watched
		}
		if looks != want {
			t.Errorf("%s is looked at %d times, want %d", resource.Key, looks, want)
		}
	}
	if late := r.MissingLate(t, dispatch.Shutdown); late != "" {
		t.Errorf("when the time is over: %s", late)
	}
}
