package workloadscaler

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/labkeeper/labkeeper/internal/dispatch"
	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/executor/cluster"
	"github.com/labkeeper/labkeeper/internal/executor/executortest"
)

const template = `{metadata: {labels: {app: %[1]s}}, spec: {containers: [{name: c, image: example.com/c}]}}`

func deployment(name string, replicas int) string {
	return fmt.Sprintf("---\n{apiVersion: apps/v1, kind: Deployment, metadata: {name: %[1]s, labels: {tier: front}}, spec: {replicas: %[2]d, selector: {matchLabels: {app: %[1]s}}, template: "+template+"}}\n", name, replicas)
}

func rollout(name, replicas string) string {
	return fmt.Sprintf("---\n{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: %[1]s}, spec: {%[2]s selector: {matchLabels: {app: %[1]s}}, template: "+template+"}}\n", name, replicas)
}

func scaledObject(name, of, annotations string) string {
	return fmt.Sprintf("---\n{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {name: %s%s}, spec: {scaleTargetRef: %s, minReplicaCount: 1, maxReplicaCount: 9, triggers: [{type: cpu, metadata: {value: '50'}}]}}\n", name, annotations, of)
}

func cronJob(name string, suspended bool) string {
	return fmt.Sprintf("---\n{apiVersion: batch/v1, kind: CronJob, metadata: {name: %s}, spec: {suspend: %t, schedule: '0 0 1 1 *', jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: example.com/c}]}}}}}}\n", name, suspended)
}

func oven(name string, loaves int) string {
	return fmt.Sprintf("---\n{apiVersion: example.com/v1, kind: Oven, metadata: {name: %s}, spec: {loaves: %d}}\n", name, loaves)
}

// everything is at least one of each kind, and of each way that one may be written.
var everything = deployment("web", 3) + deployment("idle", 0) + deployment("queue", 2) + deployment("held", 4) +
	strings.ReplaceAll(deployment("db", 2), "kind: Deployment", "kind: StatefulSet") +
	strings.ReplaceAll(deployment("bare", 1), "kind: Deployment", "kind: ReplicaSet") +
	rollout("canary", "replicas: 2,") + rollout("plain", "") +
	cronJob("report", false) + cronJob("silent", true) + oven("bakery", 5) + oven("cold", 0) +
	scaledObject("by-queue", "{name: queue}", "") +
	scaledObject("by-hand", "{apiVersion: apps/v1, kind: Deployment, name: held}", ", annotations: {autoscaling.keda.sh/paused-replicas: '4', note: mine}") +
	scaledObject("by-rollout", "{apiVersion: argoproj.io/v1alpha1, kind: Rollout, name: plain}", "") +
	scaledObject("by-other", "{name: elsewhere}", "") + `---
{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web}, spec: {minReplicas: 2, maxReplicas: 5, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}}
`

const allGroups = `{"includedGroups": ["CronJob", "Deployment", "StatefulSet", "ReplicaSet", "Rollout", "Oven.example.com"]}`

// expectAsleep checks what is asleep of everything.
func (w *world) expectAsleep() {
	w.Helper()
	for kind, names := range map[string][]string{
		"Deployment": {"web", "idle", "queue", "held"}, "StatefulSet": {"db"}, "ReplicaSet": {"bare"}, "Rollout": {"canary", "plain"},
	} {
		for _, name := range names {
			w.expect("0", kind, name, specReplicas...)
		}
	}
	for _, name := range []string{"bakery", "cold"} {
		w.expect("0", "Oven", name, "spec", "loaves")
	}
	for _, name := range []string{"report", "silent"} {
		w.expect("true", "CronJob", name, suspend.path...)
	}
	for _, name := range []string{"by-queue", "by-hand", "by-rollout"} {
		w.expect("0", "ScaledObject", name, annotation...)
	}
	w.expect("<nil>", "ScaledObject", "by-other", annotation...)
	w.expect("2", "HorizontalPodAutoscaler", "web", "spec", "minReplicas")
}

// TestRoundTrip puts everything to sleep and wakes it: everything is byte for byte as it was.
func TestRoundTrip(t *testing.T) {
	for _, backwards := range []bool{false, true} {
		t.Run(fmt.Sprintf("backwards %t", backwards), func(t *testing.T) {
			w := newWorld(t)
			w.apply(everything)
			w.calm()
			before := w.bytes()
			if len(before) != 17 {
				t.Fatalf("there are %d objects", len(before))
			}
			r := w.night(allGroups)
			r.Backwards = backwards
			for night := range 2 {
				w.must(r.Shutdown(t.Context()))
				w.must(r.Shutdown(t.Context())) // a second attempt
				w.expectAsleep()
				w.must(r.WakeUp(t.Context()))
				w.must(r.WakeUp(t.Context()))
				if left := r.Left(); left != "" {
					t.Errorf("night %d: left:\n%s", night, left)
				}
				if diff := cmp.Diff(before, w.bytes()); diff != "" {
					t.Fatalf("night %d: not as it was (-before +after):\n%s", night, diff)
				}
			}
		})
	}
}

// TestOrder looks at a ScaledObject and its workload before every request: where KEDA would act, it does what is
// wanted at that time.
func TestOrder(t *testing.T) {
	w := newWorld(t)
	w.apply(deployment("queue", 2) + scaledObject("by-queue", "{name: queue}", ""))
	w.calm()
	var steps []string
	look := func(*http.Request) {
		step := fmt.Sprintf("%s replicas, paused at %s", w.at("Deployment", "queue", specReplicas...), w.at("ScaledObject", "by-queue", annotation...))
		if len(steps) == 0 || steps[len(steps)-1] != step {
			steps = append(steps, step)
		}
	}
	r := w.night("{}")
	r.Config = executortest.Race(w.runner, look)
	w.must(r.Shutdown(t.Context()))
	w.must(r.WakeUp(t.Context()))
	look(nil)
	want := []string{
		"2 replicas, paused at <nil>", "2 replicas, paused at 0", "0 replicas, paused at 0",
		"0 replicas, paused at 2", "2 replicas, paused at 2", "2 replicas, paused at <nil>",
	}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

// TestLengthyKill kills the runner at every request that it makes, before the server has seen it and after, and lets another
// take over: nothing is lost, and nothing is left.
func TestLengthyKill(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("answer lost %t", lost), func(t *testing.T) {
			w := newWorld(t)
			w.apply(deployment("queue", 2) + scaledObject("by-queue", "{name: queue}", "") +
				rollout("plain", "") + cronJob("report", false) + oven("bakery", 5))
			w.calm()
			before := w.bytes()
			for n := 1; ; n++ {
				r := w.night(`{"includedGroups": ["CronJob", "Deployment", "Rollout", "example.com/v1/ovens"]}`)
				r.Once = true
				slept := w.killed(r, n, lost, r.Shutdown)
				w.must(r.Shutdown(t.Context()))
				w.expect("0", "Deployment", "queue", specReplicas...)
				w.expect("0", "Rollout", "plain", specReplicas...)
				w.expect("0", "Oven", "bakery", "spec", "loaves")
				woke := w.killed(r, n, lost, r.WakeUp)
				w.must(r.WakeUp(t.Context()))
				if left := r.Left(); left != "" {
					t.Errorf("killed at request %d: left:\n%s", n, left)
				}
				if diff := cmp.Diff(before, w.bytes()); diff != "" {
					t.Fatalf("killed at request %d: not as it was (-before +after):\n%s", n, diff)
				}
				if slept && woke {
					if n < 20 {
						t.Errorf("an operation makes less than %d requests: it was not killed at all of them", n)
					}
					return
				}
			}
		})
	}
}

// killed lets an operation come as far as the n-th request, and says whether it came to its end.
func (w *world) killed(r *executortest.Runner, n int, lost bool, operation func(context.Context) error) bool {
	w.Helper()
	config, ctx, survived := executortest.Kill(w.Context(), w.runner, n, lost)
	r.Config = config
	err := operation(ctx)
	r.Config = w.runner
	if survived() != (err == nil) {
		w.Errorf("killed at request %d: %t, with error %v", n, !survived(), err)
	}
	return survived()
}

// TestKilledBeforeItWasTold wakes what no one has told to be asleep, and what is not.
func TestKilledBeforeItWasTold(t *testing.T) {
	w := newWorld(t)
	w.apply(deployment("a", 3) + deployment("b", 3) + deployment("c", 3) + scaledObject("by-c", "{name: c}", ""))
	w.calm()
	before := w.bytes()
	r := w.night("{}")
	target, err := r.Open(t.Context(), dispatch.Shutdown)
	w.must(err)
	resources, err := target.Snapshot(t.Context())
	w.must(err)
	for i, resource := range resources {
		r.Point.Capture(resource.Key, resource.State)
		if i > 0 {
			_, err := target.Shutdown(t.Context(), executor.Captured{Resource: *r.Point.Resource(resource.Key)}) // and its outcome is not kept
			w.must(err)
		}
	}
	w.expect("3", "Deployment", "a", specReplicas...)
	w.expect("0", "Deployment", "c", specReplicas...)
	w.must(r.WakeUp(t.Context()))
	if diff := cmp.Diff(before, w.bytes()); diff != "" || r.Left() != "" {
		t.Errorf("left %q, not as it was (-before +after):\n%s", r.Left(), diff)
	}
}

// TestPutToSleepByOthers leaves what was captured, and never put to sleep, where somebody else has done that since: he has made it so.
func TestPutToSleepByOthers(t *testing.T) {
	w := newWorld(t)
	w.apply(deployment("a", 3) + deployment("b", 3) + cronJob("report", false) + scaledObject("by-b", "{name: b}", ""))
	w.calm()
	r := w.night(`{"includedGroups": ["CronJob", "Deployment"]}`)
	target, err := r.Open(t.Context(), dispatch.Shutdown)
	w.must(err)
	resources, err := target.Snapshot(t.Context())
	w.must(err)
	for _, resource := range resources {
		r.Point.Capture(resource.Key, resource.State)
	}
	w.patch("Deployment", "a", `{"spec": {"replicas": 0}}`)
	w.patch("Deployment", "b", `{"spec": {"replicas": 0}}`) // as KEDA does, when a runner has told it to
	w.patch("CronJob", "report", `{"spec": {"suspend": true}}`)
	w.must(r.WakeUp(t.Context()))
	w.expect("0", "Deployment", "a", specReplicas...)
	w.expect("3", "Deployment", "b", specReplicas...)
	w.expect("true", "CronJob", "report", "spec", "suspend")
	if left := r.Left(); !strings.Contains(left, "spec.replicas is 0, by ") || !strings.Contains(left, "spec.suspend is true, by ") {
		t.Errorf("left %q", left)
	}
}

// TestConflict changes every object right before it is written: the write is made again, and the change stays.
func TestConflict(t *testing.T) {
	w := newWorld(t)
	w.apply(deployment("web", 3) + cronJob("report", false) + rollout("plain", "") + oven("bakery", 5) + scaledObject("by-web", "{name: web}", ""))
	w.calm()
	var lasting bool
	tries, raced := map[string]int{}, map[string]int{} // and the last that somebody else was faster at
	race := func(request *http.Request) {
		if request.Method != http.MethodPut && request.Method != http.MethodPatch || request.URL.Query().Has("dryRun") {
			return
		}
		path := strings.Split(strings.TrimSuffix(request.URL.Path, "/scale"), "/")
		name, resource := path[len(path)-1], path[len(path)-2]
		tries[name]++
		if tries[name]%3 != 0 || lasting {
			raced[name] = tries[name]
			for kind, gvr := range kinds {
				if gvr.Resource == resource {
					w.patch(kind, name, fmt.Sprintf(`{"metadata": {"annotations": {"example.com/try": "%d"}}}`, tries[name]))
				}
			}
		}
	}
	r := w.night(`{"includedGroups": ["CronJob", "Deployment", "Rollout", "Oven.example.com"]}`)
	r.Config = executortest.Race(w.runner, race)
	w.must(r.Shutdown(t.Context()))
	w.expect("0", "Deployment", "web", specReplicas...)
	w.must(r.WakeUp(t.Context()))
	w.expect("3", "Deployment", "web", specReplicas...)
	w.expect("<nil>", "Rollout", "plain", specReplicas...)
	w.expect("5", "Oven", "bakery", "spec", "loaves")
	w.expect(fmt.Sprint(raced["web"]), "Deployment", "web", "metadata", "annotations", "example.com/try")
	w.expect(fmt.Sprint(raced["by-web"]), "ScaledObject", "by-web", "metadata", "annotations", "example.com/try")
	if raced["web"] < 5 || raced["by-web"] < 8 {
		t.Errorf("somebody else was faster %v times", raced)
	}

	lasting = true
	before := tries["by-web"]
	r = w.night("{}")
	r.Config = executortest.Race(w.runner, race)
	if err := r.Shutdown(t.Context()); err == nil || !strings.Contains(err.Error(), "putting ScaledObject "+w.namespace+"/by-web to sleep") {
		t.Errorf("got %v, want an error of the ScaledObject", err)
	}
	if n := tries["by-web"] - before; n < cluster.Conflicts.Steps {
		t.Errorf("it was tried %d times", n)
	}
}

// TestRights is that a runner can do nothing that it is not for.
func TestRights(t *testing.T) {
	w := newWorld(t)
	w.apply(deployment("web", 3))
	r := w.night("{}")
	r.Namespaces = append(r.Namespaces, "kube-system")
	if err := r.Shutdown(t.Context()); err == nil || !strings.Contains(err.Error(), "listing apps/v1/deployments in kube-system") {
		t.Errorf("got %v, want an error of kube-system", err)
	}
	w.expect("3", "Deployment", "web", specReplicas...)
}

// TestReplicationController puts one to sleep and wakes it with no more rights than a runner has.
func TestReplicationController(t *testing.T) {
	w := newWorld(t)
	w.apply("---\n{apiVersion: v1, kind: ReplicationController, metadata: {name: old}, spec: {replicas: 3, selector: {app: old}, template: " + fmt.Sprintf(template, "old") + "}}\n")
	w.calm()
	r := w.night(`{"includedGroups": ["ReplicationController"]}`)
	w.must(r.Shutdown(t.Context()))
	w.expect("0", "ReplicationController", "old", specReplicas...)
	w.must(r.WakeUp(t.Context()))
	w.expect("3", "ReplicationController", "old", specReplicas...)
}

// TestPages lists more than a page has.
func TestPages(t *testing.T) {
	w := newWorld(t)
	var text strings.Builder
	for i := range 5 {
		text.WriteString(deployment(fmt.Sprintf("web-%d", i), i) + scaledObject(fmt.Sprintf("by-%d", i), fmt.Sprintf("{name: web-%d}", i), ""))
	}
	w.apply(text.String())
	w.calm()
	before := w.bytes()
	lists := map[string]int{}
	r := w.night("{}")
	r.Adjust = func(of executor.Target) { of.(*target).page = 2 }
	r.Config = executortest.Race(w.runner, func(request *http.Request) {
		if request.URL.Query().Has("limit") {
			lists[request.URL.Path[strings.LastIndex(request.URL.Path, "/")+1:]]++
		}
	})
	w.must(r.Shutdown(t.Context()))
	if diff := cmp.Diff(map[string]int{"deployments": 3, "scaledobjects": 3, "horizontalpodautoscalers": 1}, lists); diff != "" {
		t.Errorf("lists (-want +got):\n%s", diff)
	}
	for i := range 5 {
		w.expect("0", "Deployment", fmt.Sprintf("web-%d", i), specReplicas...)
		w.expect("0", "ScaledObject", fmt.Sprintf("by-%d", i), annotation...)
	}
	w.must(r.WakeUp(t.Context()))
	if diff := cmp.Diff(before, w.bytes()); diff != "" {
		t.Errorf("not as it was (-before +after):\n%s", diff)
	}
}

// TestListsAreReadAgain is of what stands before an API server, and answers nothing for a moment, for a list and for a scale: the attempt goes
// on.
func TestListsAreReadAgain(t *testing.T) {
	w := newWorld(t)
	w.apply(deployment("web", 3) + "---\n" + oven("bakery", 5))
	r := w.night(`{"includedGroups": ["Deployment", "Oven.example.com"]}`)
	failed := map[string]int{}
	r.Config = w.answered(http.StatusBadGateway, func(request *http.Request) bool {
		name := path.Base(request.URL.Path)
		failed[name]++
		return request.Method == http.MethodGet && failed[name] == 1 && slices.Contains([]string{"deployments", "ovens", "scale", "horizontalpodautoscalers", "apis"}, name)
	})
	w.must(r.Shutdown(t.Context()))
	w.expect("0", "Deployment", "web", specReplicas...)
	w.expect("0", "Oven", "bakery", "spec", "loaves")
}

// TestPods follows the pods of a workload: gone, and ready again.
func TestPods(t *testing.T) {
	w := newWorld(t)
	w.apply(deployment("web", 2) + cronJob("report", false) + rollout("canary", "replicas: 2,") + oven("bakery", 2))
	w.calm()
	w.patch("Rollout", "canary", `{"status": {"replicas": 2, "readyReplicas": 2, "observedGeneration": "1"}}`, "status")
	w.patch("Oven", "bakery", `{"status": {"loaves": 2}}`, "status")
	executortest.Until(t, "two pods", func(context.Context) (bool, error) {
		return w.at("Deployment", "web", "status", "replicas") == "2", nil
	})
	r := w.night(`{"includedGroups": ["CronJob", "Deployment", "Rollout", "Oven.example.com"]}`)
	w.must(r.Shutdown(t.Context()))
	missing := func(operation dispatch.Operation, want ...string) {
		t.Helper()
		executortest.Until(t, strings.Join(want, " and "), func(context.Context) (bool, error) {
			got := strings.ReplaceAll(r.Missing(t, operation), w.namespace+"/", "")
			return got == strings.Join(want, "\n"), nil
		})
	}
	missing(dispatch.Shutdown, "Oven.example.com/bakery: 2 pods are left", "Rollout.argoproj.io/canary: its controller has not seen it yet")
	w.patch("Rollout", "canary", `{"status": {"replicas": 1, "observedGeneration": "2"}}`, "status")
	w.patch("Oven", "bakery", `{"status": {"loaves": 0}}`, "status")
	missing(dispatch.Shutdown, "Rollout.argoproj.io/canary: 1 pods are left")
	w.patch("Rollout", "canary", `{"status": {"replicas": 0, "readyReplicas": 0}}`, "status")
	missing(dispatch.Shutdown)

	w.must(r.WakeUp(t.Context()))
	missing(dispatch.WakeUp, "Deployment.apps/web: 0 of 2 pods are ready", "Oven.example.com/bakery: 0 of 2 pods are there", "Rollout.argoproj.io/canary: its controller has not seen it yet")
	w.patch("Oven", "bakery", `{"status": {"loaves": 2}}`, "status")
	w.patch("Rollout", "canary", `{"status": {"replicas": 2, "readyReplicas": 1, "observedGeneration": "3"}}`, "status")
	missing(dispatch.WakeUp, "Deployment.apps/web: 0 of 2 pods are ready", "Rollout.argoproj.io/canary: 1 of 2 pods are ready")
	w.patch("Rollout", "canary", `{"status": {"readyReplicas": 2}}`, "status")
	w.patch("Deployment", "web", `{"spec": {"replicas": 1}}`) // an autoscaler
	executortest.Until(t, "one pod", func(context.Context) (bool, error) {
		return w.at("Deployment", "web", "status", "replicas") == "1", nil
	})
	w.readyPods()
	missing(dispatch.WakeUp)
}

// The pods of a Rollout that are about to end are waited for, as those of a Deployment are: its ReplicaSets tell of them.
func TestPodsOfARolloutThatEnd(t *testing.T) {
	w := newWorld(t)
	w.apply(rollout("canary", "replicas: 1,"))
	w.apply(strings.ReplaceAll(fmt.Sprintf("{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: canary-1, labels: {app: canary}, ownerReferences: [{apiVersion: argoproj.io/v1alpha1, kind: Rollout, "+
		"name: canary, uid: UID, controller: true}]}, spec: {replicas: 1, selector: {matchLabels: {app: %[1]s}}, template: "+template+"}}", "canary"),
		"UID", string(w.get("Rollout", "canary").GetUID())))
	executortest.Until(t, "a pod", func(context.Context) (bool, error) { return len(w.images()) == 1, nil })
	pods, err := w.in("Pod").List(t.Context(), metav1.ListOptions{})
	w.must(err)
	pod := pods.Items[0].GetName()
	w.patch("Pod", pod, `{"metadata": {"finalizers": ["example.com/ends"]}}`)
	r := w.night(`{"includedGroups": ["Rollout"]}`)
	w.must(r.Shutdown(t.Context()))
	w.patch("ReplicaSet", "canary-1", `{"spec": {"replicas": 0}}`) // as its controller does
	w.patch("Rollout", "canary", `{"status": {"replicas": 0, "observedGeneration": "9"}}`, "status")
	missing := func(want string) {
		t.Helper()
		executortest.Until(t, "missing "+want, func(context.Context) (bool, error) {
			return w.at("ReplicaSet", "canary-1", "status", "replicas") == "0" && strings.HasSuffix(r.Missing(t, dispatch.Shutdown), want), nil
		})
	}
	missing("canary: 1 pods are left")
	r.Config = w.refused(func(request *http.Request) bool { return path.Base(request.URL.Path) == "replicasets" })
	if got := r.Missing(t, dispatch.Shutdown); got != "" {
		t.Errorf("who may not list ReplicaSets is told %q", got)
	}
	r.Config = w.runner
	w.patch("Pod", pod, `{"metadata": {"finalizers": null}}`)
	executortest.Until(t, "no pods", func(context.Context) (bool, error) { return r.Missing(t, dispatch.Shutdown) == "", nil })
}

// What was not ready before it slept need not be afterwards, when the time for it is over.
func TestPodsThatNeverWere(t *testing.T) {
	w := newWorld(t)
	w.apply(deployment("web", 2) + rollout("canary", "replicas: 3,") + oven("bakery", 2))
	w.calm()
	w.patch("Rollout", "canary", `{"status": {"replicas": 3, "readyReplicas": 1, "observedGeneration": "1"}}`, "status")
	w.patch("Oven", "bakery", `{"status": {"loaves": 1}}`, "status")
	r := w.night(`{"includedGroups": ["Deployment", "Rollout", "Oven.example.com"]}`)
	w.must(r.Shutdown(t.Context()))
	w.patch("Oven", "bakery", `{"status": {"loaves": 0}}`, "status")
	w.must(r.WakeUp(t.Context()))
	w.patch("Rollout", "canary", `{"status": {"readyReplicas": 0, "observedGeneration": "3"}}`, "status")
	if got := strings.Count(r.Missing(t, dispatch.WakeUp), "pods are"); got != 3 {
		t.Errorf("in time, of three are waited for %d: %s", got, r.Missing(t, dispatch.WakeUp))
	}
	late := strings.ReplaceAll(r.MissingLate(t, dispatch.WakeUp), w.namespace+"/", "")
	if late != "Oven.example.com/bakery: 0 of 1 pods are there\nRollout.argoproj.io/canary: 0 of 1 pods are ready" {
		t.Errorf("then: %s", late)
	}
	w.patch("Rollout", "canary", `{"status": {"readyReplicas": 1}}`, "status")
	w.patch("Oven", "bakery", `{"status": {"loaves": 1}}`, "status")
	if late := r.MissingLate(t, dispatch.WakeUp); late != "" {
		t.Errorf("and then: %s", late)
	}
}

// readyPods is what a kubelet would say of the pods.
func (w *world) readyPods() {
	w.Helper()
	pods, err := w.in("Pod").List(w.Context(), metav1.ListOptions{})
	w.must(err)
	if len(pods.Items) == 0 {
		w.Fatal("there are no pods")
	}
	for i := range pods.Items {
		if pods.Items[i].GetDeletionTimestamp() == nil {
			w.patch("Pod", pods.Items[i].GetName(), `{"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}`, "status")
		}
	}
}

// TestLengthyAutoscaler is what package documentation says of HorizontalPodAutoscalers: while there are no replicas, they do
// nothing, and afterwards they have their bounds.
func TestLengthyAutoscaler(t *testing.T) {
	w := newWorld(t)
	w.apply(deployment("web", 3) + `---
{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web}, spec: {minReplicas: 2, maxReplicas: 5, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}}
`)
	w.calm()
	before := w.bytes()
	r := w.night("{}")
	w.must(r.Shutdown(t.Context()))
	executortest.Until(t, "ScalingDisabled", func(context.Context) (bool, error) {
		return strings.Contains(w.at("HorizontalPodAutoscaler", "web", "status", "conditions"), "ScalingDisabled"), nil
	})
	w.expect("0", "Deployment", "web", specReplicas...)
	w.must(r.WakeUp(t.Context()))
	executortest.Until(t, "scaling", func(context.Context) (bool, error) {
		return !strings.Contains(w.at("HorizontalPodAutoscaler", "web", "status", "conditions"), "ScalingDisabled"), nil
	})
	if diff := cmp.Diff(before, w.bytes()); diff != "" {
		t.Errorf("not as it was (-before +after):\n%s", diff)
	}
}
