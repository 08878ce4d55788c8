package workloadscaler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/labkeeper/labkeeper/internal/dispatch"
	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/executor/cluster"
	"github.com/labkeeper/labkeeper/internal/executor/executortest"
	"github.com/labkeeper/labkeeper/internal/restore"
)

const (
	tracked = `"metadata": {"annotations": {"argocd.argoproj.io/tracking-id": "storefront:apps/Deployment:shop/web"}}`
	byHelm  = `"metadata": {"labels": {"app.kubernetes.io/instance": "storefront"}}`
	argoCD  = ", by argocd-controller of Application storefront; let that ignore managedFieldsManagers: [labkeeper-sleep], with RespectIgnoreDifferences=true"
	scaled5 = "Deployment.apps/NS/web Left: somebody has changed it while it was asleep: spec.replicas is 5"
	awoken3 = "Deployment.apps/NS/web Restored: it was awake already: spec.replicas is 3"
	someone = ", by workloadscaler.test"
)

// TestChangedMeanwhile is what becomes of a Deployment of 3 and its ScaledObject that somebody changes while they are
// asleep.
func TestChangedMeanwhile(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*world)
		left   string
		// replicas and pause in the end; nothing where the object is gone.
		replicas, pause string
	}{
		"nothing":          {func(*world) {}, "", "3", "<nil>"},
		"another field":    {func(w *world) { w.patch("Deployment", "web", `{"spec": {"minReadySeconds": 7}}`) }, "", "3", "<nil>"},
		"scaled":           {func(w *world) { w.patch("Deployment", "web", `{"spec": {"replicas": 5}}`) }, scaled5 + someone, "5", "<nil>"},
		"scaled as it was": {func(w *world) { w.patch("Deployment", "web", `{"spec": {"replicas": 3}}`) }, awoken3 + someone, "3", "<nil>"},
		"scaled by Argo CD": {func(w *world) {
			w.heal("Deployment", "web", `{`+tracked+`, "spec": {"replicas": 5}}`)
		}, scaled5 + argoCD, "5", "<nil>"},
		"healed by Argo CD": {func(w *world) {
			w.heal("Deployment", "web", `{`+tracked+`, "spec": {"replicas": 3}}`)
		}, awoken3 + argoCD, "3", "<nil>"},
		"scaled by another": {func(w *world) { w.patch("Deployment", "web", `{`+tracked+`, "spec": {"replicas": 5}}`) }, scaled5 + someone, "5", "<nil>"},
		"scaled by Helm":    {func(w *world) { w.patch("Deployment", "web", `{`+byHelm+`, "spec": {"replicas": 5}}`) }, scaled5 + someone, "5", "<nil>"},
		"nobody says by whom": {func(w *world) {
			w.patch("Deployment", "web", `{"metadata": {"annotations": {"argocd.argoproj.io/tracking-id": "storefront:apps/Deployment:shop/web"}, "managedFields": [{}]}}`)
			w.patch("Deployment", "web", `{"metadata": {"managedFields": [{}]}, "spec": {"replicas": 5}}`)
			w.patch("Deployment", "web", `{"metadata": {"managedFields": [{}]}}`)
		}, scaled5, "5", "<nil>"},
		"scaled by Argo CD by its label": {func(w *world) {
			w.heal("Deployment", "web", `{`+byHelm+`, "spec": {"replicas": 5}}`)
		}, scaled5 + argoCD, "5", "<nil>"},
		"gone": {func(w *world) { w.remove("Deployment", "web") }, "Deployment.apps/NS/web Left: it is gone", "", "<nil>"},
		"created again": {func(w *world) {
			w.remove("Deployment", "web")
			w.apply(deployment("web", 0))
		}, "Deployment.apps/NS/web Left: it was deleted and created again while it was asleep: spec.replicas was 3", "0", "<nil>"},
		"paused elsewhere":    {func(w *world) { w.pause(`"7"`) }, "Deployment.apps/NS/web Left: ScaledObject NS/by-web: somebody has changed it while it was asleep: metadata.annotations.autoscaling.keda.sh/paused-replicas is \"7\"" + someone, "3", "7"},
		"not paused any more": {func(w *world) { w.pause(`null`) }, "", "3", "<nil>"},
		"woken by KEDA, as a runner that was killed has had it do": {func(w *world) {
			w.pause(`"3"`)
			w.patch("Deployment", "web", `{"spec": {"replicas": 3}}`)
		}, "", "3", "<nil>"},
		"by hand, both": {func(w *world) {
			w.pause(`null`)
			w.patch("Deployment", "web", `{"spec": {"replicas": 5}}`)
		}, scaled5 + someone, "5", "<nil>"},
		"ScaledObject gone": {func(w *world) { w.remove("ScaledObject", "by-web") }, "Deployment.apps/NS/web Left: ScaledObject NS/by-web: it is gone", "3", ""},
		"ScaledObject created again": {func(w *world) {
			w.remove("ScaledObject", "by-web")
			w.apply(scaledObject("by-web", "{name: web}", ", annotations: {autoscaling.keda.sh/paused-replicas: '0'}"))
		}, "Deployment.apps/NS/web Left: ScaledObject NS/by-web: it was deleted and created again while it was asleep: metadata.annotations.autoscaling.keda.sh/paused-replicas was not set", "3", "0"},
		"both gone": {func(w *world) {
			w.remove("Deployment", "web")
			w.remove("ScaledObject", "by-web")
		}, "Deployment.apps/NS/web Left: it is gone; ScaledObject NS/by-web: it is gone", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.apply(deployment("web", 3) + scaledObject("by-web", "{name: web}", ""))
			r := w.night("{}")
			w.must(r.Shutdown(t.Context()))
			test.change(w)
			w.must(r.WakeUp(t.Context()))
			if left := strings.ReplaceAll(r.Left(), w.namespace, "NS"); left != test.left {
				t.Errorf("left:\n%s\nwant:\n%s", left, test.left)
			}
			w.expectOrGone(test.replicas, "Deployment", "web", specReplicas...)
			w.expectOrGone(test.pause, "ScaledObject", "by-web", annotation...)
		})
	}
}

func (w *world) pause(value string) {
	w.Helper()
	w.patch("ScaledObject", "by-web", `{"metadata": {"annotations": {"autoscaling.keda.sh/paused-replicas": `+value+`}}}`)
}

func (w *world) expectOrGone(want, kind, name string, path ...string) {
	w.Helper()
	if want != "" {
		w.expect(want, kind, name, path...)
		return
	}
	if _, err := w.in(kind).Get(w.Context(), name, metav1.GetOptions{}); err == nil {
		w.Errorf("%s %s is there", kind, name)
	}
}

// TestAbsentStaysAbsent is that a Rollout without replicas which somebody has scaled is left so.
func TestAbsentStaysAbsent(t *testing.T) {
	w := newWorld(t)
	w.apply(rollout("plain", "") + cronJob("report", false))
	r := w.night(`{"includedGroups": ["Rollout", "CronJob"]}`)
	w.must(r.Shutdown(t.Context()))
	w.patch("Rollout", "plain", `{"spec": {"replicas": 2}}`)
	w.patch("CronJob", "report", `{"spec": {"suspend": null}}`)
	w.must(r.WakeUp(t.Context()))
	w.expect("2", "Rollout", "plain", specReplicas...)
	w.expect("false", "CronJob", "report", suspend.path...)
	if left := r.Left(); !strings.Contains(left, "plain Left: somebody has changed it") || !strings.Contains(left, "report Restored: it was awake already") {
		t.Errorf("left:\n%s", left)
	}
}

// TestGone is of what goes, and comes again, between Snapshot and Shutdown.
func TestGone(t *testing.T) {
	w := newWorld(t)
	w.apply(deployment("a", 3) + deployment("b", 3) + scaledObject("by-b", "{name: b}", ""))
	r := w.night("{}")
	r.Config = executortest.Race(w.runner, func(request *http.Request) {
		if request.Method != http.MethodGet || !strings.HasSuffix(request.URL.Path, "/horizontalpodautoscalers") {
			return
		}
		w.remove("Deployment", "a") // everything is listed but these
		w.remove("Deployment", "b")
		w.apply(deployment("b", 2))
	})
	w.must(r.Shutdown(t.Context()))
	for _, resource := range r.Point.Resources {
		if string(resource.Slept) != `"gone"` {
			t.Errorf("%s is %s", resource.Key, resource.Slept)
		}
	}
	if len(r.Point.Resources) != 2 {
		t.Errorf("there are %d resources", len(r.Point.Resources))
	}
	w.expect("2", "Deployment", "b", specReplicas...)
	w.expect("<nil>", "ScaledObject", "by-b", annotation...)
	if missing := r.Missing(t, dispatch.Shutdown); missing != "" {
		t.Errorf("missing: %s", missing)
	}
	r.Config = w.runner
	w.must(r.WakeUp(t.Context()))
	w.expect("2", "Deployment", "b", specReplicas...)
	if left := r.Left(); !strings.Contains(left, "a Left: it is gone") || !strings.Contains(left, "b Left: it was deleted and created again") {
		t.Errorf("left:\n%s", left)
	}
}

// TestOutside is of what slept in a namespace that takes no part any more: the runner may not look there, and goes on with the rest.
func TestOutside(t *testing.T) {
	w := newWorld(t)
	w.apply(deployment("web", 3))
	r := w.night("{}")
	w.must(r.Shutdown(t.Context()))
	r.Namespaces = nil
	nobody := rest.CopyConfig(w.runner)
	nobody.Impersonate.UserName = "nobody"
	r.Config = nobody
	if missing := r.Missing(t, dispatch.Shutdown) + r.Missing(t, dispatch.WakeUp); missing != "" {
		t.Errorf("missing: %s", missing)
	}
	target, err := r.Open(t.Context(), dispatch.Shutdown)
	w.must(err)
	slept, err := target.Shutdown(t.Context(), executor.Captured{Resource: r.Point.Resources[0]})
	if err != nil || string(slept) != string(executor.Gone) {
		t.Errorf("it is put to sleep as %s, error %v", slept, err)
	}
	w.must(r.WakeUp(t.Context()))
	if left := r.Left(); !strings.Contains(left, "web Left: its namespace is gone, or going") {
		t.Errorf("left:\n%s", left)
	}
}

// TestChangedOnAdmission is of a webhook that was installed overnight, and gives a workload other replicas than it is woken with: it is not
// as it was.
func TestChangedOnAdmission(t *testing.T) {
	w := newWorld(t)
	w.apply(deployment("web", 3) + "---\n" + oven("bakery", 3))
	r := w.night(`{"includedGroups": ["Deployment", "Oven.example.com"]}`)
	w.must(r.Shutdown(t.Context()))
	r.Config = executortest.Admission(w.runner, `"replicas":3`, `"replicas":1`)
	w.must(r.WakeUp(t.Context()))
	w.expect("1", "Deployment", "web", specReplicas...)
	w.expect("1", "Oven", "bakery", "spec", "loaves")
	left := r.Left()
	for _, name := range []string{"web", "bakery"} {
		if !strings.Contains(left, name+" Left: it was 3, and the server has made 1 of that: spec.replicas") {
			t.Errorf("left:\n%s", left)
		}
	}
}

// TestKeptAwakeOnAdmission is of a webhook that lets nothing have 0 replicas: what it makes of that is not how a workload was.
func TestKeptAwakeOnAdmission(t *testing.T) {
	w := newWorld(t)
	w.apply(deployment("web", 3) + "---\n" + oven("bakery", 3))
	r := w.night(`{"includedGroups": ["Deployment", "Oven.example.com"]}`)
	r.Config = executortest.Admission(w.runner, `"replicas":0`, `"replicas":1`)
	for range 2 {
		if err := r.Shutdown(t.Context()); err == nil || !strings.Contains(err.Error(), "spec.replicas was set to 0, and the server has made 1 of that") {
			t.Errorf("got %v", err)
		}
		w.expect("3", "Deployment", "web", specReplicas...)
		w.expect("3", "Oven", "bakery", "spec", "loaves")
	}
	r.Config = w.runner
	w.must(r.Shutdown(t.Context()))
	w.must(r.WakeUp(t.Context()))
	w.expect("3", "Deployment", "web", specReplicas...)
	w.expect("3", "Oven", "bakery", "spec", "loaves")
}

// TestKeptAwakeOnAdmissionAndKilled is of such a webhook, and a runner that is killed at any request, or cannot give back what the server
// has made of one: neither another attempt nor a wake-up takes that for how a workload was, of whatever kind it is, and with the rights
// of before, too.
func TestKeptAwakeOnAdmissionAndKilled(t *testing.T) {
	for name, object := range map[string]string{
		"Deployment": deployment("web", 3), "Rollout": rollout("web", "replicas: 3,"), "Oven.example.com": oven("web", 3), "": deployment("web", 3),
	} {
		for _, test := range []struct{ lost, wakes bool }{{false, false}, {true, false}, {true, true}} {
			t.Run(fmt.Sprintf("%s %+v", name, test), func(t *testing.T) {
				w := newWorld(t)
				w.apply(object)
				w.calm()
				before := w.bytes()
				allowed := w.runner
				if name == "" {
					allowed = w.refused(func(request *http.Request) bool {
						return request.Method == http.MethodPatch && strings.HasSuffix(request.URL.Path, "/scale")
					})
				}
				awake := executortest.Admission(allowed, `"replicas":0`, `"replicas":1`)
				for n, survived := 1, false; !survived; n++ {
					r := w.night(fmt.Sprintf(`{"includedGroups": [%q]}`, cmp.Or(name, "Deployment")))
					var ctx context.Context
					var end func() bool
					r.Config, ctx, end = executortest.Kill(t.Context(), awake, n, test.lost)
					w.staysAwake(ctx, r)
					survived = end()
					if !test.wakes {
						r.Config = awake
						w.staysAwake(t.Context(), r)
						r.Config = allowed
						w.must(r.Shutdown(t.Context()))
					}
					r.Config = allowed
					w.must(r.WakeUp(t.Context()))
					if diff := gocmp.Diff(before, w.bytes()); diff != "" || r.Left() != "" {
						t.Fatalf("killed at request %d: left %q, not as it was (-before +after):\n%s", n, r.Left(), diff)
					}
				}
			})
		}
	}
}

// TestWithoutDryRun is of an API server that does not tell what it would have.
func TestWithoutDryRun(t *testing.T) {
	w := newWorld(t)
	w.apply(oven("bakery", 5))
	r := w.night(`{"includedGroups": ["Oven.example.com"]}`)
	asked := 0
	r.Config = w.answered(http.StatusBadRequest, func(request *http.Request) bool {
		is := request.URL.Query().Has("dryRun")
		if is {
			asked++
		}
		return is
	})
	w.must(r.Shutdown(t.Context()))
	w.expect("0", "Oven", "bakery", "spec", "loaves")
	if asked != 1 {
		t.Errorf("it was asked %d times", asked)
	}
}

func (w *world) staysAwake(ctx context.Context, r *executortest.Runner) {
	w.Helper()
	if err := r.Shutdown(ctx); err == nil {
		w.Fatal("it slept")
	}
}

// TestNotServed is of a kind that is not served any more in the version that it was put to sleep in: it is not gone.
func TestNotServed(t *testing.T) {
	w := newWorld(t)
	w.apply(oven("bakery", 5))
	r := w.night(`{"includedGroups": ["Oven.example.com"]}`)
	w.must(r.Shutdown(t.Context()))
	r.Config = executortest.Race(w.runner, rename("/example.com/v1/", "/example.com/v0/"))
	if err := r.WakeUp(t.Context()); err == nil || !strings.Contains(err.Error(), "the cluster serves example.com/v1, and not the version") {
		t.Errorf("got %v", err)
	}
	if left := r.Left(); strings.Contains(left, string(restore.Left)) {
		t.Errorf("left:\n%s", left)
	}
	r.Config = w.runner
	w.must(r.WakeUp(t.Context()))
	w.expect("5", "Oven", "bakery", "spec", "loaves")
}

// TestScaleIsNotAnswered is of what stands before an API server, loses it between two requests, and answers 404 in words of its own: a
// workload of a kind that is known by its scale is not gone.
func TestScaleIsNotAnswered(t *testing.T) {
	w := newWorld(t)
	w.apply(oven("bakery", 5))
	r := w.night(`{"includedGroups": ["example.com/v1/ovens"]}`)
	w.must(r.Shutdown(t.Context()))
	asked := 0
	r.Config = executortest.Lost(w.runner, func(request *http.Request) bool {
		if strings.HasSuffix(request.URL.Path, "/ovens/bakery/scale") && request.Method == http.MethodGet {
			asked++
		}
		return asked > 1 // the first is before KEDA is looked at
	})
	if err := r.WakeUp(t.Context()); err == nil {
		t.Errorf("the wake-up is completed; left: %s", r.Left())
	}
	r.Config = w.runner
	w.must(r.WakeUp(t.Context()))
	w.expect("5", "Oven", "bakery", "spec", "loaves")
}

// TestScaleOfAnother is of a workload that is deleted and created again between the reads of it and of its scale: the new one is not put to
// sleep, nor woken, for the former.
func TestScaleOfAnother(t *testing.T) {
	for _, operation := range []dispatch.Operation{dispatch.Shutdown, dispatch.WakeUp} {
		t.Run(fmt.Sprint(operation), func(t *testing.T) {
			w := newWorld(t)
			w.apply(oven("bakery", 5))
			r := w.night(`{"includedGroups": ["Oven.example.com"]}`)
			loaves, scales, at := 5, 0, 3 // after those of the snapshot, and before its autoscalers
			if operation == dispatch.WakeUp {
				w.must(r.Shutdown(t.Context()))
				loaves, at = 0, 2
			}
			r.Config = executortest.Race(w.runner, func(request *http.Request) {
				if request.Method != http.MethodGet || !strings.HasSuffix(request.URL.Path, "/bakery/scale") {
					return
				}
				if scales++; scales == at {
					w.remove("Oven", "bakery")
					w.apply(oven("bakery", loaves))
				}
			})
			if operation == dispatch.Shutdown {
				w.must(r.Shutdown(t.Context()))
			}
			w.must(r.WakeUp(t.Context()))
			w.expect(fmt.Sprint(loaves), "Oven", "bakery", "spec", "loaves")
			if left := r.Left(); !strings.Contains(left, "it was deleted and created again while it was asleep") || scales < at {
				t.Errorf("its scale was read %d times; left:\n%s", scales, left)
			}
		})
	}
}

// TestNotServedAtAll is of a kind that is not served in any version any more: it is gone, and what it scaled wakes without it.
func TestNotServedAtAll(t *testing.T) {
	w := newWorld(t)
	w.apply(deployment("web", 3) + scaledObject("by-web", "{name: web}", ""))
	r := w.night("{}")
	w.must(r.Shutdown(t.Context()))
	r.Config = executortest.Unserved(controlPlane.Config(), "keda.sh")
	w.must(r.WakeUp(t.Context()))
	w.expect("3", "Deployment", "web", specReplicas...)
	if left := r.Left(); !strings.Contains(left, "web Left: ScaledObject") || !strings.Contains(left, isGone) {
		t.Errorf("left:\n%s", left)
	}
}

// TestChangedBetweenAttempts is what becomes of a Deployment of 3 that an attempt has captured, and not put to sleep as far as it told.
func TestChangedBetweenAttempts(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*world)
		want   string
	}{
		"nobody changed it":                 {func(*world) {}, "3"},
		"somebody scaled it":                {func(w *world) { w.patch("Deployment", "web", `{"spec": {"replicas": 6}}`) }, "6"},
		"the attempt had put it to sleep":   {func(w *world) { w.patch("Deployment", "web", `{"spec": {"replicas": 0}}`) }, "3"},
		"it was deleted and created again":  {func(w *world) { w.remove("Deployment", "web"); w.apply(deployment("web", 2)) }, "2"},
		"the attempt had paused its scaler": {func(w *world) { w.pause(`"0"`) }, "3"},
		"it had, and it was created again": {func(w *world) {
			w.pause(`"0"`)
			w.remove("Deployment", "web")
			w.apply(deployment("web", 2))
		}, "2"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.apply(deployment("web", 3) + scaledObject("by-web", "{name: web}", ""))
			r := w.night("{}")
			target, err := r.Open(t.Context(), dispatch.Shutdown)
			w.must(err)
			found, err := target.Snapshot(t.Context())
			w.must(err)
			for _, resource := range found {
				_, err := executor.Capture(target, r.Point, resource, false)
				w.must(err)
			}
			test.change(w)
			w.must(r.Shutdown(t.Context()))
			w.expect("0", "Deployment", "web", specReplicas...)
			w.must(r.WakeUp(t.Context()))
			w.expect(test.want, "Deployment", "web", specReplicas...)
			w.expect("<nil>", "ScaledObject", "by-web", annotation...)
			if left := r.Left(); left != "" {
				t.Errorf("left:\n%s", left)
			}
		})
	}
}

// TestCreatedAgainBetweenAttempts is of what was put to sleep, deleted and created again, and is awake: it does not count as asleep, and the
// next attempt puts it to sleep, as that it wakes.
func TestCreatedAgainBetweenAttempts(t *testing.T) {
	w := newWorld(t)
	w.apply(deployment("web", 3) + deployment("idle", 3) + cronJob("report", false) + rollout("plain", "") + oven("bakery", 5) + scaledObject("by-web", "{name: web}", ""))
	w.calm()
	r := w.night(`{"includedGroups": ["CronJob", "Deployment", "Rollout", "Oven.example.com"]}`)
	w.must(r.Shutdown(t.Context()))
	for kind, name := range map[string]string{"Deployment": "web", "CronJob": "report", "Rollout": "plain", "Oven": "bakery"} {
		w.remove(kind, name)
	}
	w.remove("Deployment", "idle")
	w.apply(deployment("web", 2) + deployment("idle", 0) + cronJob("report", false) + rollout("plain", "") + oven("bakery", 4))
	missing := r.Missing(t, dispatch.Shutdown)
	for _, want := range []string{"web: it was deleted and created again: spec.replicas is 2", "report: it was deleted and created again: spec.suspend is false", "plain: it was deleted and created again: spec.replicas is not set", "bakery: it was deleted and created again: spec.replicas is 4"} {
		if !strings.Contains(missing, want) {
			t.Errorf("nobody is told that %q: %s", want, missing)
		}
	}
	if strings.Contains(missing, "idle") {
		t.Errorf("what is asleep is waited for: %s", missing)
	}
	before := w.bytes()
	w.must(r.Shutdown(t.Context()))
	w.expect("0", "Deployment", "web", specReplicas...)
	w.expect("true", "CronJob", "report", "spec", "suspend")
	w.expect("0", "Rollout", "plain", specReplicas...)
	w.expect("0", "Oven", "bakery", "spec", "loaves")
	w.must(r.WakeUp(t.Context()))
	w.expect("2", "Deployment", "web", specReplicas...)
	w.expect("4", "Oven", "bakery", "spec", "loaves")
	w.expect("<nil>", "ScaledObject", "by-web", annotation...)
	for _, of := range []string{"Deployment web", "CronJob report", "Rollout plain", "Oven bakery"} {
		if after := w.bytes()[of]; after != before[of] {
			t.Errorf("it is\n%s\nand was\n%s", after, before[of])
		}
	}
	if left := r.Left(); strings.Count(left, "created again") != 1 || !strings.Contains(left, "idle Left: it was deleted and created again while it was asleep") {
		t.Errorf("left:\n%s", left)
	}
}

// TestFoundAsleep is what becomes of what an attempt has found asleep, and somebody wakes before the next one: another plan, for
// instance. It wakes as he has made it.
func TestFoundAsleep(t *testing.T) {
	const isPaused = ", annotations: {autoscaling.keda.sh/paused-replicas: '0'}"
	wake := func(w *world) {
		w.patch("Deployment", "web", `{"spec": {"replicas": 3}}`)
		w.pause("null")
		w.patch("CronJob", "report", `{"spec": {"suspend": false}}`)
	}
	for name, test := range map[string]struct {
		change func(*world)
		// when it is: before the attempt, or before a request of it for this object.
		when string
		// replicas, pause and suspend in the end.
		replicas, pause, suspend string
	}{
		"nobody wakes it":                          {func(*world) {}, "", "0", "0", "true"},
		"somebody does":                            {wake, "", "3", "<nil>", "false"},
		"while the attempt is at the autoscaler":   {wake, "by-web", "3", "<nil>", "false"},
		"while the attempt is at the workload":     {wake, "web", "3", "<nil>", "false"},
		"the autoscaler alone":                     {func(w *world) { w.pause("null") }, "", "0", "<nil>", "true"},
		"the workload alone":                       {func(w *world) { w.patch("Deployment", "web", `{"spec": {"replicas": 3}}`) }, "", "3", "0", "true"},
		"another of its name":                      {func(w *world) { w.remove("Deployment", "web"); w.apply(deployment("web", 2)) }, "", "2", "0", "true"},
		"another of its name, which sleeps, too":   {func(w *world) { w.remove("Deployment", "web"); w.apply(deployment("web", 0)) }, "", "0", "0", "true"},
		"somebody does, and it has another scaler": {func(w *world) { wake(w); w.apply(scaledObject("new", "{name: web}", "")) }, "", "3", "<nil>", "false"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.apply(deployment("web", 0) + scaledObject("by-web", "{name: web}", isPaused) + cronJob("report", true))
			r := w.night(`{"includedGroups": ["CronJob", "Deployment"]}`)
			w.must(r.Shutdown(t.Context()))
			if test.when == "" {
				test.change(w)
			} else {
				woken := sync.OnceFunc(func() { test.change(w) })
				r.Config = executortest.Race(w.runner, func(request *http.Request) {
					if request.Method == http.MethodGet && path.Base(request.URL.Path) == test.when {
						woken()
					}
				})
			}
			r.Once = true
			w.must(r.Shutdown(t.Context()))
			w.must(r.Shutdown(t.Context()))
			w.expect("0", "Deployment", "web", specReplicas...)
			w.expect("0", "ScaledObject", "by-web", annotation...)
			w.expect("true", "CronJob", "report", suspend.path...)
			w.must(r.WakeUp(t.Context()))
			w.expect(test.replicas, "Deployment", "web", specReplicas...)
			w.expect(test.pause, "ScaledObject", "by-web", annotation...)
			w.expect(test.suspend, "CronJob", "report", suspend.path...)
		})
	}
}

// TestFormerCycle is what becomes of a Deployment of 3 that a former cycle has left asleep, and another one puts to sleep: what somebody
// has woken since is as he has made it.
func TestFormerCycle(t *testing.T) {
	again := func(w *world, replicas int) {
		w.remove("Deployment", "web")
		w.apply(deployment("web", replicas))
	}
	scaled := func(w *world) { w.patch("Deployment", "web", `{"spec": {"replicas": 6}}`) }
	for name, test := range map[string]struct {
		change               func(*world)
		want, scaler, noting string
	}{
		"nobody changed it":                       {func(*world) {}, "3", "<nil>", ""},
		"somebody scaled it":                      {scaled, "6", "<nil>", ""},
		"and its scaler goes on":                  {func(w *world) { w.pause("null"); scaled(w) }, "6", "<nil>", ""},
		"and its scaler is paused at that":        {func(w *world) { w.pause(`"6"`); scaled(w) }, "6", "6", ""},
		"a wake-up came as far as to its scaler":  {func(w *world) { w.pause(`"3"`); w.patch("Deployment", "web", `{"spec": {"replicas": 3}}`) }, "3", "<nil>", ""},
		"it was deleted and created again":        {func(w *world) { again(w, 2) }, "2", "<nil>", ""},
		"it was deleted and created again asleep": {func(w *world) { again(w, 0) }, "0", "<nil>", "it was deleted and created again"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.apply(deployment("web", 3) + scaledObject("by-web", "{name: web}", ""))
			r := w.night("{}")
			w.must(r.Shutdown(t.Context()))
			test.change(w)
			r.Former = true
			w.must(r.Shutdown(t.Context()))
			w.expect("0", "Deployment", "web", specReplicas...)
			w.expect("0", "ScaledObject", "by-web", annotation...)
			w.must(r.WakeUp(t.Context()))
			w.expect(test.want, "Deployment", "web", specReplicas...)
			w.expect(test.scaler, "ScaledObject", "by-web", annotation...)
			if left := r.Left(); (left == "") != (test.noting == "") || !strings.Contains(left, test.noting) {
				t.Errorf("left:\n%s", left)
			}
		})
	}
}

// TestChangedInTheEveningAfter is of a Deployment of 3 whose wake-up has failed after it was awake: what somebody changes in the next
// evening, right before it sleeps again, is how it was.
func TestChangedInTheEveningAfter(t *testing.T) {
	w := newWorld(t)
	w.apply(deployment("web", 3))
	r := w.night("{}")
	w.must(r.Shutdown(t.Context()))
	w.patch("Deployment", "web", `{"spec": {"replicas": 3}}`)
	r.Former, r.Once = true, true
	changes := 1
	r.Config = executortest.Race(w.runner, func(request *http.Request) {
		if path.Base(request.URL.Path) == "web" && changes > 0 {
			changes--
			w.patch("Deployment", "web", `{"spec": {"replicas": 6}}`)
		}
	})
	w.must(r.Shutdown(t.Context()))
	w.expect("0", "Deployment", "web", specReplicas...)
	w.must(r.WakeUp(t.Context()))
	w.expect("6", "Deployment", "web", specReplicas...)
	if left := r.Left(); left != "" {
		t.Errorf("left:\n%s", left)
	}
}

// TestScalerBetweenAttempts is of a ScaledObject that somebody creates for a Deployment of 3 after an attempt has captured it, and maybe
// put it to sleep: KEDA would wake what it is not told to leave.
func TestScalerBetweenAttempts(t *testing.T) {
	create := func(w *world) { w.apply(scaledObject("new", "{name: web}", "")) }
	again := func(w *world) {
		w.remove("ScaledObject", "by-web")
		w.apply(scaledObject("by-web", "{name: web}", ", annotations: {autoscaling.keda.sh/paused-replicas: '2'}"))
	}
	for name, test := range map[string]struct {
		asleep, killed bool
		change         func(*world)
		want           map[string]string
	}{
		"it was captured":                        {change: create, want: map[string]string{"new": "<nil>", "by-web": "<nil>"}},
		"it was put to sleep":                    {asleep: true, change: create, want: map[string]string{"new": "<nil>", "by-web": "<nil>"}},
		"it was put to sleep, and nobody noted":  {asleep: true, killed: true, change: create, want: map[string]string{"new": "<nil>", "by-web": "<nil>"}},
		"captured, and its own is another":       {change: again, want: map[string]string{"by-web": "2"}},
		"put to sleep, and its own is another":   {asleep: true, change: again, want: map[string]string{"by-web": "2"}},
		"without a note, and its own is another": {asleep: true, killed: true, change: again, want: map[string]string{"by-web": "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.apply(deployment("web", 3) + scaledObject("by-web", "{name: web}", ""))
			r := w.night("{}")
			target, err := r.Open(t.Context(), dispatch.Shutdown)
			w.must(err)
			found, err := target.Snapshot(t.Context())
			w.must(err)
			for _, resource := range found {
				_, err := executor.Capture(target, r.Point, resource, false)
				w.must(err)
			}
			if test.asleep {
				w.must(r.Shutdown(t.Context()))
			}
			if resource := &r.Point.Resources[0]; test.killed {
				resource.State, resource.Slept = restore.Captured, nil
			}
			test.change(w)
			w.must(r.Shutdown(t.Context()))
			for scaler := range test.want {
				w.expect("0", "ScaledObject", scaler, annotation...)
			}
			w.must(r.WakeUp(t.Context()))
			w.expect("3", "Deployment", "web", specReplicas...)
			for scaler, want := range test.want {
				w.expect(want, "ScaledObject", scaler, annotation...)
			}
			if left := r.Left(); left != "" {
				t.Errorf("left:\n%s", left)
			}
		})
	}
}

// TestSelfHeal is of replicas that come back while the target is put to sleep: it says so, and another attempt takes
// them again.
func TestSelfHeal(t *testing.T) {
	w := newWorld(t)
	w.apply(deployment("web", 3) + cronJob("report", false) + deployment("queue", 0) + scaledObject("by-web", "{name: queue}", ""))
	r := w.night(`{"includedGroups": ["Deployment", "CronJob"]}`)
	w.must(r.Shutdown(t.Context()))
	w.pause("null")
	w.heal("Deployment", "web", `{`+tracked+`, "spec": {"replicas": 3}}`)
	w.patch("CronJob", "report", `{"spec": {"suspend": false}}`)
	missing := strings.ReplaceAll(r.Missing(t, dispatch.Shutdown), w.namespace, "NS")
	if want := "CronJob.batch/NS/report: spec.suspend is false again" + someone + "\n" +
		"Deployment.apps/NS/queue: ScaledObject NS/by-web: metadata.annotations.autoscaling.keda.sh/paused-replicas is not set again\n" +
		"Deployment.apps/NS/web: spec.replicas is 3 again, woken by argocd-controller of Application storefront; let it ignore " +
		"managedFieldsManagers: [labkeeper-sleep], with RespectIgnoreDifferences=true"; missing != want {
		t.Errorf("missing:\n%s\nwant:\n%s", missing, want)
	}
	w.must(r.Shutdown(t.Context()))
	w.expect("0", "Deployment", "web", specReplicas...)
	w.expect("0", "ScaledObject", "by-web", annotation...)
	w.must(r.WakeUp(t.Context()))
	w.expect("3", "Deployment", "web", specReplicas...)
	if left := r.Left(); left != "" {
		t.Errorf("left:\n%s", left)
	}
}

// TestScaleUp puts the field of a HorizontalPodAutoscaler to sleep by which one with minReplicas 0 is held (which an API
// server lets through by a feature gate alone), and wakes it.
func TestScaleUp(t *testing.T) {
	for name, test := range map[string]struct{ behavior, policy string }{
		"no behavior":   {"", "Max"},
		"some behavior": {"behavior: {scaleUp: {policies: [{type: Pods, value: 2, periodSeconds: 30}], stabilizationWindowSeconds: 5}},", "Max"},
		"the least":     {"behavior: {scaleUp: {selectPolicy: Min}},", "Min"},
		"disabled":      {"behavior: {scaleUp: {selectPolicy: Disabled}},", "Disabled"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.apply("{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web}, spec: {" + test.behavior + " minReplicas: 1, maxReplicas: 5, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: none}}}")
			before := w.bytes()["HorizontalPodAutoscaler web"]
			object := w.get("HorizontalPodAutoscaler", "web")
			p := newPart(autoscalers, object, scaleUp.read(object))
			opened, err := w.night("{}").Open(t.Context(), dispatch.Shutdown)
			w.must(err)
			hibernation := opened.(*target)
			value, there, err := hibernation.sleep(t.Context(), &sleeper{before: &state{part: p}}, &p)
			w.must(err)
			w.expect("Disabled", "HorizontalPodAutoscaler", "web", "spec", "behavior", "scaleUp", "selectPolicy")
			slept := p
			slept.Value = encode(value)
			if note, err := hibernation.wake(t.Context(), p, &slept); err != nil || note != "" || !there {
				t.Errorf("left: %s (%v)", note, err)
			}
			if after := w.bytes()["HorizontalPodAutoscaler web"]; after != before {
				t.Errorf("it is\n%s\nand was\n%s", after, before)
			}

			// What others change beside it stays, and does not keep it from scaling up again.
			_, _, err = hibernation.sleep(t.Context(), &sleeper{before: &state{part: p}}, &p)
			w.must(err)
			w.patch("HorizontalPodAutoscaler", "web", `{"spec": {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 7}}}}`)
			if note, err := hibernation.wake(t.Context(), p, &slept); err != nil || !strings.Contains(note, "somebody has changed it") || strings.Contains(note, "labkeeper-sleep") {
				t.Errorf("a policy was changed, and nobody is told: %q (%v)", note, err)
			}
			w.expect("7", "HorizontalPodAutoscaler", "web", "spec", "behavior", "scaleDown", "stabilizationWindowSeconds")
			w.expect(test.policy, "HorizontalPodAutoscaler", "web", "spec", "behavior", "scaleUp", "selectPolicy")
		})
	}
}

// heal changes an object as Argo CD does.
func (w *world) heal(kind, name, patch string) {
	w.Helper()
	if _, err := w.in(kind).Patch(w.Context(), name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{FieldManager: "argocd-controller"}); err != nil {
		w.Fatal(err)
	}
}

// TestChangedBeforeItSleeps is of what somebody changes after it was captured, right before it is put to sleep: as that it wakes.
func TestChangedBeforeItSleeps(t *testing.T) {
	w := newWorld(t)
	w.apply(deployment("web", 3) + deployment("idle", 3) + cronJob("report", false) + rollout("plain", "") + oven("bakery", 5) + scaledObject("by-web", "{name: web}", ""))
	w.calm()
	changes := map[string]func(){
		"web":    func() { w.patch("Deployment", "web", `{"spec": {"replicas": 6}}`) },
		"idle":   func() { w.patch("Deployment", "idle", `{"spec": {"replicas": 0}}`) },
		"report": func() { w.patch("CronJob", "report", `{"spec": {"suspend": true}}`) },
		"plain":  func() { w.patch("Rollout", "plain", `{"spec": {"replicas": 4}}`) },
		"bakery": func() { w.patch("Oven", "bakery", `{"spec": {"loaves": 7}}`) },
		"by-web": func() { w.pause(`"2"`) },
	}
	r := w.night(`{"includedGroups": ["CronJob", "Deployment", "Rollout", "Oven.example.com"]}`)
	r.Config = executortest.Race(w.runner, func(request *http.Request) {
		name := path.Base(strings.TrimSuffix(request.URL.Path, "/scale"))
		early := name == "idle" || name == "report" // what somebody puts to sleep himself, before it is looked at again
		if change := changes[name]; change != nil && (early || request.Method == http.MethodPut || request.Method == http.MethodPatch) {
			delete(changes, name)
			change()
		}
	})
	w.must(r.Shutdown(t.Context()))
	w.expect("0", "Deployment", "web", specReplicas...)
	r.Config = w.runner
	if len(changes) > 0 {
		t.Errorf("not changed: %v", changes)
	}
	w.must(r.WakeUp(t.Context()))
	w.expect("6", "Deployment", "web", specReplicas...)
	w.expect("0", "Deployment", "idle", specReplicas...)
	w.expect("true", "CronJob", "report", suspend.path...)
	w.expect("4", "Rollout", "plain", specReplicas...)
	w.expect("7", "Oven", "bakery", "spec", "loaves")
	w.expect("2", "ScaledObject", "by-web", annotation...)
	if left := r.Left(); left != "" {
		t.Errorf("left:\n%s", left)
	}
}

// TestOwnWritesAreNoChanges is of writes that are carried out, and answered otherwise, so that the client repeats them, and of KEDA,
// which scales as soon as it is told to: neither is how it was.
func TestOwnWritesAreNoChanges(t *testing.T) {
	w := newWorld(t)
	w.apply(deployment("web", 3) + deployment("api", 3) + scaledObject("by-api", "{name: api}", "") + cronJob("report", false))
	w.calm()
	before := w.bytes()
	r := w.night(`{"includedGroups": ["CronJob", "Deployment"]}`)
	lost := map[string]int{}
	r.Config = executortest.Race(w.runner, func(request *http.Request) {
		if request.Method != http.MethodGet && strings.HasSuffix(request.URL.Path, "/api/scale") {
			w.patch("Deployment", "api", `{"spec": {"replicas": 0}}`) // as KEDA does
		}
	})
	r.Config.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		return executortest.RoundTripper(func(request *http.Request) (*http.Response, error) {
			response, err := inner.RoundTrip(request)
			name := path.Base(strings.TrimSuffix(request.URL.Path, "/scale"))
			if err != nil || request.Method == http.MethodGet || name == "api" || name == "by-api" || lost[name] > 0 {
				return response, err
			}
			lost[name]++
			response.Body.Close()
			return &http.Response{StatusCode: http.StatusBadGateway, Header: http.Header{"Retry-After": {"0"}}, Body: http.NoBody, Request: request}, nil
		})
	})
	w.must(r.Shutdown(t.Context()))
	w.expect("0", "Deployment", "web", specReplicas...)
	if diff := gocmp.Diff(map[string]int{"web": 1, "report": 1}, lost); diff != "" {
		t.Errorf("answers were lost (-want +got):\n%s", diff)
	}
	r.Config = w.runner
	w.must(r.WakeUp(t.Context()))
	if diff := gocmp.Diff(before, w.bytes()); diff != "" || r.Left() != "" {
		t.Errorf("left %q, not as it was (-before +after):\n%s", r.Left(), diff)
	}
}

// TestOldRights is of a cluster whose runners may not patch subresource scale: what sleeps wakes all the same, and where Argo CD heals
// it is said what is missing.
func TestOldRights(t *testing.T) {
	for remote, roles := range map[bool]string{false: "config/rbac/runner", true: "config/target-cluster"} {
		t.Run(roles, func(t *testing.T) {
			w := newWorld(t)
			w.apply(deployment("web", 3) + cronJob("report", false))
			r := w.night(`{"includedGroups": ["CronJob", "Deployment"]}`)
			r.Remote = remote
			r.Config = w.refused(func(request *http.Request) bool {
				return request.Method == http.MethodPatch && strings.HasSuffix(request.URL.Path, "/scale")
			})
			target, err := r.Open(t.Context(), dispatch.Shutdown)
			w.must(err)
			found, err := target.Snapshot(t.Context())
			w.must(err)
			for _, resource := range found {
				_, err = executor.Capture(target, r.Point, resource, false)
				w.must(err)
				slept, err := executor.PutToSleep(t.Context(), target, r.Point, resource.Key, true, func() error { return nil })
				w.must(err)
				r.Point.Slept(resource.Key, slept)
			}
			w.expect("0", "Deployment", "web", specReplicas...)
			w.heal("Deployment", "web", `{`+tracked+`, "spec": {"replicas": 3}}`)
			w.heal("CronJob", "report", `{`+tracked+`, "spec": {"suspend": false}}`)
			for _, resource := range r.Point.Resources {
				want := "with RespectIgnoreDifferences=true"
				if strings.HasPrefix(resource.Key, "Deployment") {
					want += ", and apply " + roles + " again: who may not patch subresource scale has not written it, as far as anybody tells"
				}
				_, err = target.Settled(t.Context(), resource, false)
				if woken, is := errors.AsType[*executor.WokenError](err); !is || !strings.HasSuffix(woken.Cause, want) {
					t.Errorf("%s: it says %v", resource.Key, err)
				}
			}
			w.must(r.Shutdown(t.Context()))
			w.must(r.WakeUp(t.Context()))
			w.expect("3", "Deployment", "web", specReplicas...)
			w.expect("false", "CronJob", "report", "spec", "suspend")
			if left := r.Left(); left != "" {
				t.Errorf("left:\n%s", left)
			}
		})
	}
}

// refused is how a runner reaches the cluster that may not do something.
func (w *world) refused(which func(*http.Request) bool) *rest.Config {
	return w.answered(http.StatusForbidden, which)
}

// answered is how a runner reaches the cluster that answers some requests with a status.
func (w *world) answered(status int, which func(*http.Request) bool) *rest.Config {
	config := rest.CopyConfig(w.runner)
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		return executortest.RoundTripper(func(request *http.Request) (*http.Response, error) {
			if which(request) {
				return &http.Response{StatusCode: status, Body: http.NoBody, Request: request}, nil
			}
			return inner.RoundTrip(request)
		})
	})
	return config
}

// TestHeldIsNoChange is that what a wake-up gives KEDA on the way is not how it was, where both that and the shutdown before failed.
func TestHeldIsNoChange(t *testing.T) {
	w := newWorld(t)
	w.apply(deployment("web", 3) + scaledObject("by-web", "{name: web}", ""))
	w.calm()
	before := w.bytes()
	r := w.night("{}")
	r.Config = w.refused(func(request *http.Request) bool { return strings.HasSuffix(request.URL.Path, "/scale") })
	if err := r.Shutdown(t.Context()); err == nil {
		t.Fatal("it slept")
	}
	w.expect("0", "ScaledObject", "by-web", annotation...)
	w.patch("Deployment", "web", `{"spec": {"replicas": 0}}`) // as KEDA does
	if err := r.WakeUp(t.Context()); err == nil {
		t.Fatal("it woke")
	}
	w.expect("3", "ScaledObject", "by-web", annotation...)
	r.Config = w.runner
	w.must(r.Shutdown(t.Context()))
	w.must(r.WakeUp(t.Context()))
	if diff := gocmp.Diff(before, w.bytes()); diff != "" || r.Left() != "" {
		t.Errorf("left %q, not as it was (-before +after):\n%s", r.Left(), diff)
	}
}

// What comes back from a backup as it was put to sleep wakes as what was put to sleep, and is left where somebody has changed it since. What
// nothing is kept of is not taken for one that is asleep by day, too: it would stay so.
func TestBackFromABackup(t *testing.T) {
	for name, test := range map[string]struct {
		change         func(*world)
		left           string
		replicas, held string
	}{
		"as it was asleep": {func(*world) {}, "", "3", "<nil>"},
		"scaled since":     {func(w *world) { w.patch("Deployment", "web", `{"spec": {"replicas": 5}}`) }, "Deployment.apps/NS/web Left: it was deleted and created again while it was asleep: spec.replicas was 3", "5", "<nil>"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.apply(deployment("web", 3) + scaledObject("by-web", "{name: web}", ""))
			r := w.night("{}")
			w.must(r.Shutdown(t.Context()))
			executortest.Restore(t, w.in("Deployment"), "web")
			executortest.Restore(t, w.in("ScaledObject"), "by-web")
			w.calm()
			w.must(r.Shutdown(t.Context())) // another attempt changes nothing of what is known
			test.change(w)
			w.must(r.WakeUp(t.Context()))
			if left := strings.ReplaceAll(r.Left(), w.namespace, "NS"); left != test.left {
				t.Errorf("left:\n%s\nwant:\n%s", left, test.left)
			}
			w.expect(test.replicas, "Deployment", "web", specReplicas...)
			w.expect(test.held, "ScaledObject", "by-web", annotation...)
		})
	}
	t.Run("its ScaledObject alone", func(t *testing.T) {
		w := newWorld(t)
		w.apply(deployment("web", 3) + scaledObject("by-web", "{name: web}", ""))
		r := w.night("{}")
		w.must(r.Shutdown(t.Context()))
		executortest.Restore(t, w.in("ScaledObject"), "by-web")
		w.must(r.Shutdown(t.Context()))
		w.must(r.WakeUp(t.Context()))
		if left := r.Left(); left != "" {
			t.Errorf("left: %s", left)
		}
		w.expect("3", "Deployment", "web", specReplicas...)
		w.expect("<nil>", "ScaledObject", "by-web", annotation...)
	})
	t.Run("nothing is kept of its ScaledObject", func(t *testing.T) {
		w := newWorld(t)
		w.apply(deployment("web", 3) + scaledObject("by-web", "{name: web}", ""))
		w.must(w.night("{}").Shutdown(t.Context()))
		executortest.Restore(t, w.in("ScaledObject"), "by-web")
		w.patch("Deployment", "web", `{"spec": {"replicas": 2}}`)
		err := w.night("{}").Shutdown(t.Context())
		if err == nil || !strings.Contains(err.Error(), "ScaledObject "+w.namespace+"/by-web") || !strings.Contains(err.Error(), "has come back from a backup") {
			t.Errorf("it says %v", err)
		}
		w.expect("2", "Deployment", "web", specReplicas...)
	})
	t.Run("woken, and not recorded", func(t *testing.T) {
		w := newWorld(t)
		w.apply(deployment("web", 3))
		r := w.night("{}")
		w.must(r.Shutdown(t.Context()))
		executortest.Restore(t, w.in("Deployment"), "web")
		w.calm()
		if _, err := w.in("Deployment").Patch(t.Context(), "web", types.MergePatchType, []byte(`{"spec": {"replicas": 3}}`), metav1.PatchOptions{FieldManager: cluster.Wakes}); err != nil {
			t.Fatal(err)
		}
		w.must(r.WakeUp(t.Context()))
		if left := r.Left(); left != "" {
			t.Errorf("left: %s", left)
		}
	})
	t.Run("nothing is kept of it", func(t *testing.T) {
		w := newWorld(t)
		w.apply(deployment("web", 3) + deployment("never", 0))
		w.must(w.night("{}").Shutdown(t.Context()))
		executortest.Restore(t, w.in("Deployment"), "web")
		executortest.Restore(t, w.in("Deployment"), "never")
		r := w.night("{}")
		err := r.Shutdown(t.Context())
		if err == nil || !strings.Contains(err.Error(), "Deployment "+w.namespace+"/web") || !strings.Contains(err.Error(), "has come back from a backup") || strings.Contains(err.Error(), "never") {
			t.Errorf("it says %v", err)
		}
		w.patch("Deployment", "web", `{"spec": {"replicas": 2}}`)
		w.must(r.Shutdown(t.Context()))
		w.must(r.WakeUp(t.Context()))
		w.expect("2", "Deployment", "web", specReplicas...)
		w.expect("0", "Deployment", "never", specReplicas...)
	})
}
