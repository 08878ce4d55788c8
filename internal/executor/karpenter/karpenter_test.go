package karpenter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/labkeeper/labkeeper/internal/dispatch"
	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/executor/cluster"
	"github.com/labkeeper/labkeeper/internal/executor/executortest"
	"github.com/labkeeper/labkeeper/test/env"
)

var controlPlane *env.ControlPlane

func TestMain(m *testing.M) { os.Exit(run(m)) }

const rights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: runner}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: labkeeper-runner-karpenter}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: runner}]
`

func run(m *testing.M) int {
	ctx := context.Background()
	var err error
	if controlPlane, err = env.Start(ctx, env.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = controlPlane.Stop() }()
	err = errors.Join(controlPlane.InstallSchemas(ctx, filepath.Join(env.Root(), "bin", "crds", "karpenter")),
		controlPlane.Apply(ctx, filepath.Join(env.Root(), "config", "rbac", "runner")))
	bindings, decodeErr := env.DecodeObjects([]byte(rights))
	if err = errors.Join(err, decodeErr, controlPlane.ApplyObjects(ctx, bindings...)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// world is a cluster without NodePools, and a runner that may do in it what ClusterRole says. Tests come one after the
// other: their objects have no namespaces.
type world struct {
	*testing.T
	admin  dynamic.Interface
	runner *rest.Config
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, runner: controlPlane.Config(), admin: dynamic.NewForConfigOrDie(controlPlane.Config())}
	w.runner.Impersonate = rest.ImpersonationConfig{UserName: "runner"}
	for _, gvr := range []schema.GroupVersionResource{nodePools, nodeClaims, nodes} {
		w.must(w.admin.Resource(gvr).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
		executortest.Until(t, "no "+gvr.Resource, func(ctx context.Context) (bool, error) {
			list, err := w.admin.Resource(gvr).List(ctx, metav1.ListOptions{})
			return err == nil && len(list.Items) == 0, err
		})
	}
	return w
}

func (w *world) apply(text string) {
	w.Helper()
	w.must(controlPlane.ApplyObjects(w.Context(), executortest.Objects(w, text)...))
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) patch(gvr schema.GroupVersionResource, name, patch string) {
	w.Helper()
	_, err := w.admin.Resource(gvr).Patch(w.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	w.must(err)
}

func (w *world) remove(gvr schema.GroupVersionResource, name string) {
	w.Helper()
	w.must(w.admin.Resource(gvr).Delete(w.Context(), name, metav1.DeleteOptions{}))
}

// bytes are all NodePools as they must be again.
func (w *world) bytes() map[string]string {
	w.Helper()
	all := map[string]string{}
	for _, pool := range w.list(nodePools) {
		all[pool.GetName()] = executortest.Bytes(w, &pool)
	}
	return all
}

func (w *world) list(gvr schema.GroupVersionResource) []unstructured.Unstructured {
	w.Helper()
	list, err := w.admin.Resource(gvr).List(w.Context(), metav1.ListOptions{})
	w.must(err)
	return list.Items
}

// limits of all NodePools by their names.
func (w *world) limits() map[string]string {
	w.Helper()
	all := map[string]string{}
	for _, pool := range w.list(nodePools) {
		limits, _, _ := unstructured.NestedMap(pool.Object, "spec", "limits")
		all[pool.GetName()] = string(encode(limits))
	}
	return all
}

// names of objects, in one line.
func (w *world) names(gvr schema.GroupVersionResource) string {
	w.Helper()
	var names []string
	for _, o := range w.list(gvr) {
		names = append(names, o.GetName())
	}
	return strings.Join(names, " ")
}

func (w *world) expect(want map[string]string) {
	w.Helper()
	if diff := cmp.Diff(want, w.limits()); diff != "" {
		w.Errorf("limits (-want +got):\n%s", diff)
	}
}

func pool(name, spec string) string {
	return fmt.Sprintf("---\n{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: %s, labels: {team: '%s'}, annotations: {a: b}}, spec: {%s template: {spec: {nodeClassRef: {group: example.com, kind: NodeClass, name: c}, requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]}}}}\n", name, name[:1], spec)
}

func claim(name, of string) string {
	return fmt.Sprintf("---\n{apiVersion: karpenter.sh/v1, kind: NodeClaim, metadata: {name: %s, labels: {karpenter.sh/nodepool: %s}}, spec: {nodeClassRef: {group: example.com, kind: NodeClass, name: c}, requirements: []}}\n", name, of)
}

func node(name, of string) string {
	return fmt.Sprintf("---\n{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {karpenter.sh/nodepool: %s}}}\n", name, of)
}

// pools are NodePools with limits of every kind.
var (
	few   = pool("none", "") + pool("text", "limits: {cpu: '1000', memory: 1000Gi},") + claims
	pools = few + pool("empty", "limits: {},") + pool("number", "limits: {cpu: 16, nodes: 3},") +
		pool("memory", "limits: {memory: 1Ti},") + pool("zero", "limits: {cpu: '0'},") + node("text-1", "text")
	claims = claim("none-1", "none") + claim("text-1", "text") + claim("text-2", "text")
)

var poolsAsleep = map[string]string{
	"none": `{"cpu":"0"}`, "empty": `{"cpu":"0"}`, "text": `{"cpu":"0","memory":"1000Gi"}`, "number": `{"cpu":"0","nodes":3}`,
	"memory": `{"cpu":"0","memory":"1Ti"}`, "zero": `{"cpu":"0"}`,
}

func TestRoundTrip(t *testing.T) {
	w := newWorld(t)
	w.apply(pools)
	before := w.bytes()
	r := executortest.New(t, Executor{}, `{}`, w.runner)
	for range 2 {
		w.must(r.Shutdown(t.Context()))
		w.expect(poolsAsleep)
		if left := w.names(nodeClaims); left != "" {
			t.Errorf("NodeClaims %s are left", left)
		}
		w.must(r.Shutdown(t.Context()))
		w.must(r.WakeUp(t.Context()))
		if missing := r.Missing(t, dispatch.WakeUp); missing != "" || r.Left() != "" {
			t.Errorf("missing: %s, left: %s", missing, r.Left())
		}
		if diff := cmp.Diff(before, w.bytes()); diff != "" {
			t.Fatalf("not as it was (-before +after):\n%s", diff)
		}
	}
}

// TestFrozen is of a NodePool that may have no more nodes, and keeps those that it has: its owner wants it so.
func TestFrozen(t *testing.T) {
	w := newWorld(t)
	w.apply(pool("zero", "limits: {cpu: '0'},") + claim("zero-1", "zero") + node("zero-1", "zero") + pool("p", "limits: {cpu: 8},") + claim("p-1", "p"))
	r := executortest.New(t, Executor{}, `{}`, w.runner)
	w.must(r.Shutdown(t.Context()))
	w.expect(map[string]string{"zero": `{"cpu":"0"}`, "p": `{"cpu":"0"}`})
	if left := w.names(nodeClaims); left != "zero-1" {
		t.Errorf("there are NodeClaims %q", left)
	}
	if missing := r.Missing(t, dispatch.Shutdown); missing != "" {
		t.Errorf("missing: %s", missing)
	}
	w.must(r.WakeUp(t.Context()))
	w.expect(map[string]string{"zero": `{"cpu":"0"}`, "p": `{"cpu":8}`})
	if left := r.Left(); left != "" {
		t.Errorf("left: %s", left)
	}
}

// TestKill kills the runner at every request, before the server has seen it and after, and lets another take over.
func TestKill(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("answer lost %t", lost), func(t *testing.T) {
			w := newWorld(t)
			w.apply(few)
			before := w.bytes()
			for n := 1; ; n++ {
				w.apply(claims)
				r := executortest.New(t, Executor{}, `{}`, w.runner)
				r.Once = true
				slept := w.killed(r, n, lost, r.Shutdown)
				w.must(r.Shutdown(t.Context()))
				w.expect(map[string]string{"none": poolsAsleep["none"], "text": poolsAsleep["text"]})
				if left := w.names(nodeClaims); left != "" {
					t.Errorf("killed at request %d: NodeClaims %s are left", n, left)
				}
				woke := w.killed(r, n, lost, r.WakeUp)
				w.must(r.WakeUp(t.Context()))
				if diff := cmp.Diff(before, w.bytes()); diff != "" || r.Left() != "" {
					t.Fatalf("killed at request %d: left %q, not as it was (-before +after):\n%s", n, r.Left(), diff)
				}
				if slept && woke {
					if n < 8 {
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

// TestSettled follows what is left of a NodePool.
func TestSettled(t *testing.T) {
	w := newWorld(t)
	w.apply(pool("gpu", "") + claim("gpu-1", "gpu") + claim("gpu-2", "gpu") + claim("spot-1", "spot") + node("n1", "gpu") + node("n2", "spot"))
	w.patch(nodeClaims, "gpu-2", `{"metadata": {"finalizers": ["karpenter.sh/termination"]}}`)
	r := executortest.New(t, Executor{}, `{}`, w.runner)
	w.must(r.Shutdown(t.Context()))
	missing := func(want string) {
		t.Helper()
		if want != "" {
			want = "NodePool.karpenter.sh/gpu: " + want
		}
		if got := r.Missing(t, dispatch.Shutdown); got != want {
			t.Errorf("missing %q, want %q", got, want)
		}
	}
	missing("1 NodeClaims, the first gpu-2, and 1 Nodes, the first n1, are left")
	w.apply(claim("gpu-3", "gpu")) // which Karpenter was making
	missing("2 NodeClaims, the first gpu-2, and 1 Nodes, the first n1, are left")
	w.must(r.Shutdown(t.Context()))
	w.patch(nodeClaims, "gpu-2", `{"metadata": {"finalizers": null}}`)
	missing("1 Nodes, the first n1, are left")
	w.remove(nodes, "n1")
	missing("")
	w.patch(nodePools, "gpu", `{"spec": {"limits": {"cpu": "4"}}}`)
	missing(`spec.limits.cpu is "4" again, by karpenter.test`)
	if got := w.names(nodeClaims) + " " + w.names(nodes); got != "spot-1 n2" {
		t.Errorf("there are %s", got)
	}
}

// TestChangedMeanwhile is what becomes of NodePools that somebody changes while they are asleep.
func TestChangedMeanwhile(t *testing.T) {
	for name, test := range map[string]struct {
		before string
		change func(*world)
		limits map[string]string
		left   string
	}{
		"limit": {"limits: {cpu: 8},", func(w *world) { w.patch(nodePools, "p", `{"spec": {"limits": {"cpu": 4}}}`) },
			map[string]string{"p": `{"cpu":4}`}, "Left: somebody has changed it while it was asleep: spec.limits.cpu is 4, by karpenter.test"},
		"no limit": {"limits: {cpu: 8},", func(w *world) { w.patch(nodePools, "p", `{"spec": {"limits": null}}`) },
			map[string]string{"p": "null"}, "Left: somebody has changed it while it was asleep: spec.limits.cpu is null"},
		"the same limit": {"limits: {cpu: 8},", func(w *world) { w.patch(nodePools, "p", `{"spec": {"limits": {"cpu": 8}}}`) },
			map[string]string{"p": `{"cpu":8}`}, "Restored: it was awake already: spec.limits.cpu is 8, by karpenter.test"},
		"healed by Argo CD": {"limits: {cpu: 8},", func(w *world) {
			w.heal(`{"metadata": {"annotations": ` + tracked + `}, "spec": {"limits": {"cpu": 8}}}`)
		},
			map[string]string{"p": `{"cpu":8}`}, "Restored: it was awake already: spec.limits.cpu is 8, by argocd-controller of Application infra; let that ignore " +
				"managedFieldsManagers: [labkeeper-sleep], with RespectIgnoreDifferences=true"},
		"another limit": {"limits: {cpu: 8},", func(w *world) { w.patch(nodePools, "p", `{"spec": {"limits": {"memory": "1Gi"}}}`) },
			map[string]string{"p": `{"cpu":8,"memory":"1Gi"}`}, ""},
		"another limit of none": {"", func(w *world) { w.patch(nodePools, "p", `{"spec": {"limits": {"memory": "1Gi"}}}`) },
			map[string]string{"p": `{"memory":"1Gi"}`}, ""},
		"zero as a number": {"limits: {cpu: 8},", func(w *world) { w.patch(nodePools, "p", `{"spec": {"limits": {"cpu": 0}}}`) },
			map[string]string{"p": `{"cpu":8}`}, ""},
		"gone": {"limits: {cpu: 8},", func(w *world) { w.remove(nodePools, "p") }, map[string]string{}, "Left: it is gone"},
		"created again": {"limits: {cpu: 8},", func(w *world) {
			w.remove(nodePools, "p")
			w.apply(pool("p", "limits: {cpu: '0'},"))
		}, map[string]string{"p": `{"cpu":"0"}`}, "Left: it was deleted and created again while it was asleep: spec.limits.cpu was 8"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.apply(pool("p", test.before))
			r := executortest.New(t, Executor{}, `{"nodePools": ["p"]}`, w.runner)
			w.must(r.Shutdown(t.Context()))
			test.change(w)
			w.must(r.WakeUp(t.Context()))
			w.expect(test.limits)
			if left := strings.TrimPrefix(r.Left(), "NodePool.karpenter.sh/p "); left != test.left {
				t.Errorf("left: %q, want %q", left, test.left)
			}
		})
	}
}

// TestPutToSleepByOthers leaves a NodePool that was captured, and never put to sleep, where somebody else has done that since.
func TestPutToSleepByOthers(t *testing.T) {
	w := newWorld(t)
	w.apply(pool("p", "limits: {cpu: 8},"))
	r := executortest.New(t, Executor{}, `{"nodePools": ["p"]}`, w.runner)
	target, err := r.Open(t.Context(), dispatch.Shutdown)
	w.must(err)
	resources, err := target.Snapshot(t.Context())
	w.must(err)
	r.Point.Capture(resources[0].Key, resources[0].State)
	w.patch(nodePools, "p", `{"spec": {"limits": {"cpu": "0"}}}`)
	w.must(r.WakeUp(t.Context()))
	w.expect(map[string]string{"p": `{"cpu":"0"}`})
	if left := r.Left(); !strings.Contains(left, `spec.limits.cpu is "0", by karpenter.test`) {
		t.Errorf("left: %q", left)
	}
}

const tracked = `{"argocd.argoproj.io/tracking-id": "infra:karpenter.sh/NodePool:/p"}`

// heal changes NodePool p as Argo CD does.
func (w *world) heal(patch string) {
	w.Helper()
	_, err := w.admin.Resource(nodePools).Patch(w.Context(), "p", types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "argocd-controller"})
	w.must(err)
}

// TestHealed is of a NodePool that Argo CD may wake: it counts as asleep when it has been so for a while, what wakes it is named, and
// its nodes are drained once, not by every attempt.
func TestHealed(t *testing.T) {
	w := newWorld(t)
	w.apply(pool("p", "limits: {cpu: 8},") + claim("p-1", "p") + pool("alone", "limits: {cpu: 8},"))
	w.heal(`{"metadata": {"annotations": ` + tracked + `}}`)
	r := executortest.New(t, Executor{}, `{}`, w.runner)
	r.Once = true
	r.Adjust = func(of executor.Target) { of.(*target).pause = time.Millisecond }
	w.must(r.Shutdown(t.Context()))
	target, err := r.Open(t.Context(), dispatch.Shutdown)
	w.must(err)
	for key, want := range map[string]int{"NodePool.karpenter.sh/p": cluster.Watched, "NodePool.karpenter.sh/alone": 1} {
		looks := 1
		for ; looks < 20; looks++ {
			missing, err := target.Settled(t.Context(), *r.Point.Resource(key), false)
			w.must(err)
			if missing == "" {
				break
			}
		}
		if looks != want {
			t.Errorf("%s is looked at %d times, want %d", key, looks, want)
		}
	}
	if late := r.MissingLate(t, dispatch.Shutdown); late != "" {
		t.Errorf("when the time is over: %s", late)
	}
	const healed = `spec.limits.cpu is 8 again, woken by argocd-controller of Application infra; let it ignore managedFieldsManagers: [labkeeper-sleep], with RespectIgnoreDifferences=true`
	heal := func() { w.heal(`{"spec": {"limits": {"cpu": 8}}}`) }
	heal()
	w.apply(claim("p-2", "p"))
	if missing := r.Missing(t, dispatch.Shutdown); !strings.Contains(missing, "NodePool.karpenter.sh/p: "+healed) {
		t.Errorf("missing: %s", missing)
	}
	gets := 0
	r.Config = executortest.Race(w.runner, func(request *http.Request) {
		if path.Base(request.URL.Path) == "p" && request.Method == http.MethodGet {
			if gets++; gets == 3 { // some time after it was put to sleep again
				heal()
			}
		}
	})
	if err := r.Shutdown(t.Context()); err == nil || !strings.Contains(err.Error(), healed) {
		t.Errorf("it says %v", err)
	}
	if got := w.names(nodeClaims); got != "p-2" {
		t.Errorf("there are NodeClaims %q", got)
	}
	w.must(r.Shutdown(t.Context())) // Argo CD was told to leave it alone
	if got := w.names(nodeClaims); got != "" {
		t.Errorf("there are NodeClaims %q", got)
	}
	r.Config = w.runner
	w.must(r.WakeUp(t.Context()))
	w.expect(map[string]string{"p": `{"cpu":8}`, "alone": `{"cpu":8}`})
	if left := r.Left(); left != "" {
		t.Errorf("left: %s", left)
	}
}

// TestBackFromABackup is of NodePools that have come back as they were put to sleep: they wake where it is known how they were, and are
// told of where nothing is.
func TestBackFromABackup(t *testing.T) {
	w := newWorld(t)
	w.apply(pool("p", "limits: {cpu: 8},"))
	r := executortest.New(t, Executor{}, `{"nodePools": ["p"]}`, w.runner)
	w.must(r.Shutdown(t.Context()))
	executortest.Restore(t, w.admin.Resource(nodePools), "p")
	if err := executortest.New(t, Executor{}, `{"nodePools": ["p"]}`, w.runner).Shutdown(t.Context()); err == nil || !strings.Contains(err.Error(), "has come back from a backup") {
		t.Errorf("it says %v", err)
	}
	w.must(r.Shutdown(t.Context()))
	w.must(r.WakeUp(t.Context()))
	w.expect(map[string]string{"p": `{"cpu":8}`})
	if left := r.Left(); left != "" {
		t.Errorf("left: %q", left)
	}
}

// TestCreatedAgainBetweenAttempts is of a NodePool that was put to sleep, deleted and created again: it does not count as asleep, the next
// attempt puts it to sleep, and it wakes as it was created.
func TestCreatedAgainBetweenAttempts(t *testing.T) {
	w := newWorld(t)
	w.apply(pool("p", "limits: {cpu: 8},") + pool("still", "limits: {cpu: 8},"))
	r := executortest.New(t, Executor{}, `{}`, w.runner)
	w.must(r.Shutdown(t.Context()))
	w.remove(nodePools, "p")
	w.remove(nodePools, "still")
	w.apply(pool("p", "limits: {cpu: 4},") + claim("p-1", "p") + pool("still", "limits: {cpu: '0'},"))
	if got, want := r.Missing(t, dispatch.Shutdown), "NodePool.karpenter.sh/p: it was deleted and created again: spec.limits.cpu is 4"; got != want {
		t.Errorf("missing: %q, want %q", got, want)
	}
	w.must(r.Shutdown(t.Context()))
	w.expect(map[string]string{"p": `{"cpu":"0"}`, "still": `{"cpu":"0"}`})
	if got := w.names(nodeClaims); got != "" {
		t.Errorf("there are NodeClaims %q", got)
	}
	w.must(r.WakeUp(t.Context()))
	w.expect(map[string]string{"p": `{"cpu":4}`, "still": `{"cpu":"0"}`})
	if left, want := r.Left(), "NodePool.karpenter.sh/still Left: it was deleted and created again while it was asleep: spec.limits.cpu was 8"; left != want {
		t.Errorf("left: %q, want %q", left, want)
	}
}

// TestFoundAsleep is what becomes of a NodePool that an attempt has found without nodes to make, and somebody gives some before the next
// one, or while that is at it. It wakes as he has made it.
func TestFoundAsleep(t *testing.T) {
	const gives = `{"spec": {"limits": {"cpu": 8, "memory": "1Gi"}}}`
	for name, test := range map[string]struct {
		before string
		change func(*world)
		late   bool
		slept  string
		woken  string
	}{
		"nobody does":         {"limits: {cpu: '0'},", func(*world) {}, false, `{"cpu":"0"}`, `{"cpu":"0"}`},
		"somebody does":       {"limits: {cpu: '0'},", func(w *world) { w.patch(nodePools, "p", gives) }, false, `{"cpu":"0","memory":"1Gi"}`, `{"cpu":8,"memory":"1Gi"}`},
		"during the next one": {"limits: {cpu: '0'},", func(w *world) { w.patch(nodePools, "p", gives) }, true, `{"cpu":"0","memory":"1Gi"}`, `{"cpu":8,"memory":"1Gi"}`},
		"of another resource": {"limits: {memory: '0', cpu: 8},", func(w *world) { w.patch(nodePools, "p", gives) }, false, `{"cpu":"0","memory":"1Gi"}`, `{"cpu":8,"memory":"1Gi"}`},
		"another of its name": {"limits: {cpu: '0'},", func(w *world) { w.remove(nodePools, "p"); w.apply(pool("p", "limits: {cpu: 2},")) }, false, `{"cpu":"0"}`, `{"cpu":2}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.apply(pool("p", test.before))
			r := executortest.New(t, Executor{}, `{"nodePools": ["p"]}`, w.runner)
			w.must(r.Shutdown(t.Context()))
			if late := test.late; late {
				r.Config = executortest.Race(w.runner, func(request *http.Request) {
					if late && path.Base(request.URL.Path) == "p" {
						late = false
						test.change(w)
					}
				})
			} else {
				test.change(w)
			}
			r.Once = true
			w.must(r.Shutdown(t.Context()))
			w.must(r.Shutdown(t.Context()))
			w.expect(map[string]string{"p": test.slept})
			w.must(r.WakeUp(t.Context()))
			w.expect(map[string]string{"p": test.woken})
			if left := r.Left(); left != "" {
				t.Errorf("left: %s", left)
			}
		})
	}
}

// TestChangedInTheEveningAfter is of a NodePool whose wake-up has failed after it had its limit again: the one that somebody gives it in
// the next evening, right before it sleeps again, is how it was.
func TestChangedInTheEveningAfter(t *testing.T) {
	w := newWorld(t)
	w.apply(pool("p", "limits: {cpu: 8},"))
	r := executortest.New(t, Executor{}, `{"nodePools": ["p"]}`, w.runner)
	w.must(r.Shutdown(t.Context()))
	w.patch(nodePools, "p", `{"spec": {"limits": {"cpu": 8}}}`)
	r.Former, r.Once = true, true
	changes := 1
	r.Config = executortest.Race(w.runner, func(request *http.Request) {
		if path.Base(request.URL.Path) == "p" && changes > 0 {
			changes--
			w.patch(nodePools, "p", `{"spec": {"limits": {"cpu": 16}}}`)
		}
	})
	w.must(r.Shutdown(t.Context()))
	w.expect(map[string]string{"p": `{"cpu":"0"}`})
	w.must(r.WakeUp(t.Context()))
	w.expect(map[string]string{"p": `{"cpu":16}`})
	if left := r.Left(); left != "" {
		t.Errorf("left:\n%s", left)
	}
}

// TestGone is of NodePools that go, and come again, before they are put to sleep.
func TestGone(t *testing.T) {
	w := newWorld(t)
	w.apply(pool("a", "") + pool("b", ""))
	r := executortest.New(t, Executor{}, `{}`, w.runner)
	once := true
	r.Config = executortest.Race(w.runner, func(request *http.Request) {
		if once && strings.HasSuffix(request.URL.Path, "/nodepools/a") {
			once = false
			w.remove(nodePools, "a")
			w.remove(nodePools, "b")
			w.apply(pool("b", "") + claim("b-1", "b"))
		}
	})
	w.must(r.Shutdown(t.Context()))
	w.expect(map[string]string{"b": "null"})
	if got := w.names(nodeClaims); got != "b-1" {
		t.Errorf("there are NodeClaims %q", got)
	}
	if missing := r.Missing(t, dispatch.Shutdown); missing != "" {
		t.Errorf("missing: %s", missing)
	}
	w.must(r.WakeUp(t.Context()))
	w.expect(map[string]string{"b": "null"})
	if left := r.Left(); !strings.Contains(left, "a Left: it is gone") || !strings.Contains(left, "b Left: it was deleted and created again") {
		t.Errorf("left:\n%s", left)
	}
}

// TestNotServed is of NodePools that the cluster serves in another version by the time that they wake, or in none: only then are they gone.
func TestNotServed(t *testing.T) {
	w := newWorld(t)
	w.apply(pool("p", "limits: {cpu: 8},"))
	r := executortest.New(t, Executor{}, `{}`, w.runner)
	w.must(r.Shutdown(t.Context()))
	rename := func(from, to string) *rest.Config {
		return executortest.Race(w.runner, func(r *http.Request) { r.URL.Path = strings.Replace(r.URL.Path, from, to, 1) })
	}
	r.Config = rename("/karpenter.sh/v1/nodepools", "/karpenter.sh/v0/nodepools")
	if err := r.WakeUp(t.Context()); err == nil || !strings.Contains(err.Error(), "the cluster serves karpenter.sh/v1, and not the version") {
		t.Errorf("got %v", err)
	}
	if left := r.Left(); strings.Contains(left, "Left") {
		t.Errorf("left:\n%s", left)
	}
	r.Config = w.runner
	w.must(r.WakeUp(t.Context()))
	w.expect(map[string]string{"p": `{"cpu":8}`})

	w.must(r.Shutdown(t.Context()))
	r.Config = executortest.Lost(w.runner, func(*http.Request) bool { return true })
	if err := r.WakeUp(t.Context()); err == nil {
		t.Errorf("what stands before the API server has answered, and left are:\n%s", r.Left())
	}
	r.Config = executortest.Unserved(controlPlane.Config(), "karpenter.sh")
	w.must(r.WakeUp(t.Context()))
	if left := r.Left(); !strings.Contains(left, "p Left: "+isGone) {
		t.Errorf("left:\n%s", left)
	}
}

// TestChangedOnAdmission is of a webhook that gives a NodePool another limit than it is woken with: it is not as it was.
func TestChangedOnAdmission(t *testing.T) {
	w := newWorld(t)
	w.apply(pool("p", "limits: {cpu: 8},"))
	r := executortest.New(t, Executor{}, `{}`, w.runner)
	w.must(r.Shutdown(t.Context()))
	r.Config = executortest.Admission(w.runner, `"cpu":8`, `"cpu":4`)
	w.must(r.WakeUp(t.Context()))
	w.expect(map[string]string{"p": `{"cpu":4}`})
	if left := r.Left(); !strings.Contains(left, "p Left: spec.limits.cpu was 8, and the server has made 4 of that") {
		t.Errorf("left:\n%s", left)
	}
}

// TestKeptAwakeOnAdmission is of a webhook that lets no NodePool have a limit of 0: its nodes stay, what the server makes of that is not how
// it was, and it has its limit again, also where the runner is killed at any request before it has given that back.
func TestKeptAwakeOnAdmission(t *testing.T) {
	for name, limits := range map[string]string{"a limit": "limits: {cpu: '8', memory: 1Gi},", "none": ""} {
		for _, test := range []struct{ lost, wakes bool }{{false, false}, {true, false}, {true, true}} {
			t.Run(fmt.Sprintf("%s %+v", name, test), func(t *testing.T) {
				w := newWorld(t)
				w.apply(pool("p", limits) + claim("p-1", "p"))
				before := w.bytes()
				awake := executortest.Admission(w.runner, `"cpu":"0"`, `"cpu":"10"`)
				for n, survived := 1, false; !survived; n++ {
					w.apply(claim("p-1", "p"))
					r := executortest.New(t, Executor{}, `{}`, w.runner)
					var ctx context.Context
					var end func() bool
					r.Config, ctx, end = executortest.Kill(t.Context(), awake, n, test.lost)
					if err := r.Shutdown(ctx); err == nil {
						t.Fatal("it slept")
					}
					survived = end()
					if !test.wakes {
						r.Config = awake
						if err := r.Shutdown(t.Context()); err == nil || !strings.Contains(err.Error(), `spec.limits.cpu was set to "0", and the server has made "10" of that`) {
							t.Fatalf("it says %v", err)
						}
					}
					if got := w.names(nodeClaims); got != "p-1" {
						t.Errorf("killed at request %d: there are NodeClaims %q", n, got)
					}
					r.Config = w.runner
					if !test.wakes {
						w.must(r.Shutdown(t.Context()))
					}
					w.must(r.WakeUp(t.Context()))
					if diff := cmp.Diff(before, w.bytes()); diff != "" || r.Left() != "" {
						t.Fatalf("killed at request %d: left %q, not as it was (-before +after):\n%s", n, r.Left(), diff)
					}
				}
			})
		}
	}
}

// TestConflict changes a NodePool right before each first write: the write is made again, and the change stays.
func TestConflict(t *testing.T) {
	w := newWorld(t)
	w.apply(pool("p", "limits: {cpu: 8},"))
	tries := 0
	r := executortest.New(t, Executor{}, `{}`, executortest.Race(w.runner, func(request *http.Request) {
		if request.Method == http.MethodPatch {
			if tries++; tries%2 == 1 {
				w.patch(nodePools, "p", fmt.Sprintf(`{"spec": {"limits": {"memory": "%dGi"}}}`, tries))
			}
		}
	}))
	w.must(r.Shutdown(t.Context()))
	w.expect(map[string]string{"p": `{"cpu":"0","memory":"1Gi"}`})
	w.must(r.WakeUp(t.Context()))
	w.expect(map[string]string{"p": `{"cpu":8,"memory":"3Gi"}`})
	if tries != 4 {
		t.Errorf("it took %d writes, want 4", tries)
	}
}

// TestChangedBeforeItSleeps is of limits that somebody changes after they were captured, right before the NodePool is put to sleep.
func TestChangedBeforeItSleeps(t *testing.T) {
	w := newWorld(t)
	w.apply(pool("frozen", "limits: {cpu: 8},") + pool("raised", "limits: {cpu: 8},") + claim("frozen-1", "frozen") + claim("raised-1", "raised"))
	changes := map[string]string{"frozen": "0", "raised": "16"}
	r := executortest.New(t, Executor{}, `{}`, executortest.Race(w.runner, func(request *http.Request) {
		name := path.Base(request.URL.Path)
		if cpu := changes[name]; cpu != "" && (request.Method == http.MethodPatch || cpu == "0") { // what is asleep before it is looked at again
			delete(changes, name)
			w.patch(nodePools, name, `{"spec": {"limits": {"cpu": "`+cpu+`"}}}`)
		}
	}))
	w.must(r.Shutdown(t.Context()))
	w.expect(map[string]string{"frozen": `{"cpu":"0"}`, "raised": `{"cpu":"0"}`})
	if got := w.names(nodeClaims); got != "frozen-1" {
		t.Errorf("there are NodeClaims %q", got)
	}
	w.must(r.WakeUp(t.Context()))
	w.expect(map[string]string{"frozen": `{"cpu":"0"}`, "raised": `{"cpu":"16"}`})
	if left := r.Left(); left != "" {
		t.Errorf("left:\n%s", left)
	}
}

// TestWithheld is that a NodePool does not sleep which the manager is on, and what may.
func TestWithheld(t *testing.T) {
	w := newWorld(t)
	w.apply(pool("mine", "limits: {cpu: 8},") + pool("other", "") + node("mine-1", "mine") + node("other-1", "other"))
	for name, test := range map[string]struct {
		parameters string
		manager    string
		refused    bool
	}{
		"the manager's":     {`{}`, "mine-1", true},
		"by its name":       {`{"nodePools": ["mine"]}`, "mine-1", true},
		"another":           {`{"nodePools": ["other"]}`, "mine-1", false},
		"a node of no pool": {`{"nodePools": ["other"]}`, "static-1", false},
		"another cluster":   {`{}`, "", false},
	} {
		r := executortest.New(t, Executor{}, test.parameters, w.runner)
		r.ManagerNode, r.RunnerNode = test.manager, "other-1"
		target, err := r.Open(t.Context(), dispatch.Shutdown)
		w.must(err)
		_, err = target.Snapshot(t.Context())
		if refused := err != nil && strings.HasPrefix(err.Error(), "NodePool mine has node mine-1, which the manager is on"); refused != test.refused || (err != nil) != test.refused {
			t.Errorf("%s: got %v", name, err)
		}
	}
	w.patch(nodePools, "mine", `{"spec": {"limits": {"cpu": "0"}}}`)
	r := executortest.New(t, Executor{}, `{}`, w.runner)
	r.ManagerNode = "mine-1"
	w.must(r.Shutdown(t.Context())) // it keeps its nodes
}

// TestOwnWriteIsNoChange is of a limit that is written, and answered otherwise, so that the client repeats it; nor is a node taken
// that the manager has come onto since, or the runner's waited for.
func TestOwnWriteIsNoChange(t *testing.T) {
	w := newWorld(t)
	w.apply(pool("p", "limits: {cpu: 8},") + claim("p-1", "p") + claim("p-2", "p"))
	object, err := w.admin.Resource(nodeClaims).Get(t.Context(), "p-2", metav1.GetOptions{})
	w.must(err)
	object.Object["status"] = map[string]any{"nodeName": "node-2"}
	_, err = w.admin.Resource(nodeClaims).UpdateStatus(t.Context(), object, metav1.UpdateOptions{})
	w.must(err)
	r := executortest.New(t, Executor{}, `{}`, rest.CopyConfig(w.runner))
	lost := 0
	r.Config.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		return executortest.RoundTripper(func(request *http.Request) (*http.Response, error) {
			response, err := inner.RoundTrip(request)
			if request.Method == http.MethodPatch && lost == 0 && err == nil {
				lost++
				response.Body.Close()
				return &http.Response{StatusCode: http.StatusBadGateway, Header: http.Header{"Retry-After": {"0"}}, Body: http.NoBody, Request: request}, nil
			}
			return response, err
		})
	})
	r.ManagerNode = "node-2"
	if err := r.Shutdown(t.Context()); err == nil || !strings.Contains(err.Error(), "deleting NodeClaim p-2: its node node-2 is the one that the manager is on") {
		t.Errorf("got %v", err)
	}
	if got := w.names(nodeClaims); got != "p-2" || lost != 1 {
		t.Errorf("there are NodeClaims %q; %d answers were lost", got, lost)
	}
	if missing := r.Missing(t, dispatch.Shutdown); !strings.Contains(missing, "1 NodeClaims, the first p-2, are left") {
		t.Errorf("missing: %s", missing)
	}
	if r.RunnerNode = "node-2"; r.Missing(t, dispatch.Shutdown) != "" {
		t.Errorf("it waits for its own node: %s", r.Missing(t, dispatch.Shutdown))
	}
	w.must(r.WakeUp(t.Context()))
	w.expect(map[string]string{"p": `{"cpu":8}`})
}

// TestSelect is which NodePools a target has, and what is no target.
func TestSelect(t *testing.T) {
	w := newWorld(t)
	w.apply(pool("gpu", "") + pool("spot", "") + pool("static", "replicas: 2,"))
	for parameters, want := range map[string]string{
		`{}`: "gpu spot static", `{"nodeSelector": {}}`: "gpu spot static",
		`{"nodePools": ["spot", "gpu", "spot"]}`:                "gpu spot",
		`{"nodeSelector": {"matchLabels": {"team": "g"}}}`:      "gpu",
		`{"nodeSelector": {"matchLabels": {"team": "nobody"}}}`: "",
	} {
		target, err := executortest.New(t, Executor{}, parameters, w.runner).Open(t.Context(), dispatch.Shutdown)
		w.must(err)
		resources, err := target.Snapshot(t.Context())
		w.must(err)
		var names []string
		for _, r := range resources {
			names = append(names, strings.TrimPrefix(r.Key, "NodePool.karpenter.sh/"))
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s has %q, want %q", parameters, got, want)
		}
	}
	for name, test := range map[string]struct {
		parameters, want string
		change           func(*http.Request)
	}{
		"missing":   {`{"nodePools": ["a", "gpu", "b"]}`, "listing NodePools: there is no a, b", func(*http.Request) {}},
		"static":    {`{"nodePools": ["static"]}`, "limiting NodePool static: ", func(*http.Request) {}},
		"no answer": {`{}`, "listing NodePools: the server could not find the requested resource", func(r *http.Request) { r.URL.Path = "/apis/karpenter.sh/v9/nodepools" }},
		"no rights": {`{}`, "listing NodePools: nodepools.karpenter.sh is forbidden", func(r *http.Request) { r.Header.Set("Impersonate-User", "nobody") }},
	} {
		r := executortest.New(t, Executor{}, test.parameters, executortest.Race(controlPlane.Config(), test.change))
		if err := r.Shutdown(t.Context()); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
	}
	r := executortest.New(t, Executor{}, `{}`, executortest.Unserved(controlPlane.Config(), "karpenter.sh"))
	if err := r.Shutdown(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "listing NodePools: the cluster does not serve karpenter.sh/v1") {
		t.Errorf("without Karpenter: got %v", err)
	}
}

func TestParse(t *testing.T) {
	for parameters, path := range map[string]string{
		``:                        "-",
		`{"nodePools": []}`:       "-", // by which something may sleep
		`{"nodePools": null}`:     "-",
		`{"awaitCompletion": {}}`: "-",
		`{"nodePool": ["a"]}`:     "nodePool",
		`{"nodePools": [""]}`:     "nodePools",
		`{"nodePools": ["a"], "nodeSelector": {}}`:                                   "nodeSelector",
		`{"nodeSelector": {"matchLabels": {"a": "b c"}}}`:                            "nodeSelector",
		`{"nodeSelector": {"team": "a"}}`:                                            "nodeSelector.team",
		`{"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}`: "nodeSelector",
		`{"awaitCompletion": {"timeout": "x"}}`:                                      "awaitCompletion.timeout",
	} {
		p, err := Executor{}.Parse(json.RawMessage(parameters))
		invalid, is := errors.AsType[*executor.InvalidError](err)
		if path == "-" && err != nil || path != "-" && (!is || invalid.Path != path) {
			t.Errorf("%s: got %v, want an error of %s", parameters, err, path)
		}
		if path == "-" && !cmp.Equal(p.Needs(), executor.Needs{ClusterRole: "labkeeper-runner-karpenter", Cluster: true}) {
			t.Errorf("%s: needs %+v", parameters, p.Needs())
		}
	}
}

// Who has written that there are no NodePools does not mean all of them; who has left it out does.
func TestMistakes(t *testing.T) {
	for parameters, want := range map[string]string{
		`{}`:                         "",
		`{"nodePools": null}`:        "",
		`{"nodePools": ["general"]}`: "",
		`{"nodeSelector": {}}`:       "",
		`{"nodePools": []}`:          "nodePools: it is empty; name some, or leave it out for all",
		`{"nodePools": [], "nodeSelector": {"matchLabels": {"team": "ml"}}}`: "nodePools: it is empty, and there is a nodeSelector; leave it out",
	} {
		_, err := executor.Registry{Type: Executor{}}.Accept(Type, json.RawMessage(parameters))
		if invalid, is := errors.AsType[*executor.InvalidError](err); want == "" && err != nil || want != "" && (!is || invalid.Error() != want) {
			t.Errorf("%s: got %v, want %s", parameters, err, want)
		}
	}
}

// A NodePool that may have no GPUs has nodes, which go and come back.
func TestWithoutGPUs(t *testing.T) {
	w := newWorld(t)
	w.apply(pool("general", "limits: {cpu: 8, nvidia.com/gpu: 0},") + claim("general-1", "general"))
	r := executortest.New(t, Executor{}, `{}`, w.runner)
	w.must(r.Shutdown(t.Context()))
	if left := w.names(nodeClaims); left != "" {
		t.Errorf("it has %s", left)
	}
	w.must(r.WakeUp(t.Context()))
	w.expect(map[string]string{"general": `{"cpu":8,"nvidia.com/gpu":0}`})
}
