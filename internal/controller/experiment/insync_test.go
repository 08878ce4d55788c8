package experiment

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/argoworkflows"
	"github.com/labkeeper/labkeeper/internal/external/crossplane"
)

// waitsForHook has Argo CD in the middle of a sync, which waits for a hook that never ends.
func (l *lab) waitsForHook(app *unstructured.Unstructured) {
	l.t.Helper()
	l.appIs(app, "Progressing")
	app.Object["operation"] = map[string]any{"sync": map[string]any{"prune": true}}
	app.Object["status"].(map[string]any)["operationState"] = map[string]any{
		"phase": "Running", "message": "waiting for completion of hook batch/Job/check", "startedAt": epoch.Format(time.RFC3339), "operation": map[string]any{},
	}
	l.update(app)
}

// syncs has Argo CD in the middle of a sync of an Application, with the sources that it was seen with.
func (l *lab) syncs(app, with *unstructured.Unstructured, automated bool) {
	l.t.Helper()
	app.Object["operation"] = map[string]any{
		"initiatedBy": map[string]any{"automated": automated}, "sync": map[string]any{"sources": with.Object["spec"].(map[string]any)["sources"]},
	}
	l.update(app)
}

// former is an Application with the sources that it had before.
func former(app *unstructured.Unstructured) *unstructured.Unstructured {
	before := app.DeepCopy()
	before.Object["spec"].(map[string]any)["sources"].([]any)[0].(map[string]any)["path"] = "former"
	return before
}

// syncsFirst plays how Argo CD lets an Application go: when it is in no operation, which it ends when it is asked to.
func (l *lab) syncsFirst() bool {
	moved := false
	for _, app := range l.list(argocd.ApplicationGVK) {
		switch phase, _, _ := unstructured.NestedString(app.Object, "status", "operationState", "phase"); {
		case app.Object["operation"] == nil:
			moved = l.finalize(&app) || moved
		case phase == "Terminating":
			delete(app.Object, "operation")
			_ = unstructured.SetNestedField(app.Object, "Failed", "status", "operationState", "phase")
			l.update(&app)
			moved = true
		}
	}
	for _, gvk := range foreignKinds {
		for _, o := range l.list(gvk) {
			moved = gvk != argocd.ApplicationGVK && l.finalize(&o) || moved
		}
	}
	return moved
}

// Argo CD lets no Application go that it is in the middle of syncing: whoever deletes an Experiment because a hook never ends must not
// wait for that, nor leave behind what was deployed on a cluster that stays.
func TestTeardownEndsASync(t *testing.T) {
	for name, road := range map[string]func(*testing.T) *lab{
		"hub":            roads()["hub"].lab,
		"gke":            roads()["gke"].lab,
		"existing":       roads()["existing"].lab,
		"referred":       roads()["referred"].lab,
		"several layers": roads()["layers"].lab,
	} {
		t.Run(name, func(t *testing.T) {
			l := road(t)
			for range 6 {
				l.mustReconcile()
				for _, claim := range l.list(crossplane.GKEClusterGVK) {
					l.readyClaim(&claim)
				}
			}
			apps := l.list(argocd.ApplicationGVK)
			if len(apps) == 0 {
				t.Fatal("nothing is deployed")
			}
			l.waitsForHook(&apps[0])
			l.mustReconcile()
			if m := l.message(v1alpha1.ConditionApplicationsHealthy); !strings.Contains(m, "waiting for completion of hook batch/Job/check") {
				t.Errorf("what it waits for is not said: %q", m)
			}
			l.remove()
			l.settle(l.syncsFirst)
			if left := l.ours(); l.get() != nil || len(left) > 0 {
				t.Errorf("it stays, and %v: %s", kindsLeft(left), l.message(v1alpha1.ConditionReady))
			}
		})
	}
}

// What keeps an Application from going is told, where Argo CD tells no error of it.
func TestTeardownTellsWhatHoldsAnApplication(t *testing.T) {
	for name, test := range map[string]struct {
		hold func(*lab, *unstructured.Unstructured)
		says string
	}{
		"a sync that does not end": {func(l *lab, app *unstructured.Unstructured) { l.waitsForHook(app) }, "Argo CD ends its sync first: waiting for completion of hook batch/Job/check"},
		"an error": {func(l *lab, app *unstructured.Unstructured) {
			_ = unstructured.SetNestedSlice(app.Object, []any{map[string]any{"type": "DeletionError", "message": "cannot load project labs"}}, "status", "conditions")
			l.update(app)
		}, "cannot load project labs"},
		"a confirmation": {func(l *lab, app *unstructured.Unstructured) {
			_ = unstructured.SetNestedSlice(app.Object, []any{map[string]any{"kind": "Namespace", "name": "data", "requiresDeletionConfirmation": true}}, "status", "resources")
			l.update(app)
		}, "confirms that Namespace data may be deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			l := roads()["hub"].lab(t)
			l.settle(l.validating)
			app := l.list(argocd.ApplicationGVK)[0]
			test.hold(l, &app)
			l.remove()
			l.settle(l.without(argocd.ApplicationGVK))
			if m := l.message(v1alpha1.ConditionReady); !strings.Contains(m, "Application argocd/"+app.GetName()+" (") || !strings.Contains(m, test.says) {
				t.Errorf("it says %q", m)
			}
			l.later(31 * time.Minute)
			l.settle(l.without(argocd.ApplicationGVK))
			if left := l.orphans(); len(left) == 0 || !strings.Contains(left[0].Error, test.says) {
				t.Errorf("it leaves %+v", left)
			}
		})
	}
}

// What makes a cluster, and Argo Workflows, tell why something does not go.
func TestTeardownTellsWhatHoldsAnOutside(t *testing.T) {
	for name, test := range map[string]struct {
		road string
		hold func(*unstructured.Unstructured) bool
		says string
	}{
		"a claim": {"gke", func(o *unstructured.Unstructured) bool {
			claimIs(o, "True", "False", "ReconcilePaused", "it is paused")
			return o.GetKind() == "GKECluster"
		}, "(ReconcilePaused: it is paused)"},
		"a Cluster": {"talos", func(o *unstructured.Unstructured) bool {
			_ = unstructured.SetNestedSlice(o.Object, []any{map[string]any{"type": "Paused", "status": "True", "reason": "Paused", "message": "Cluster spec.paused is set to true"}}, "status", "conditions")
			return o.GetKind() == "Cluster"
		}, "(Paused: Cluster spec.paused is set to true)"},
		"a Workflow": {"hub", func(o *unstructured.Unstructured) bool {
			_ = unstructured.SetNestedSlice(o.Object, []any{map[string]any{"type": "ArtifactGCError", "status": "True", "message": "pod x failed"}}, "status", "conditions")
			return o.GetKind() == "Workflow"
		}, "(pod x failed)"},
	} {
		t.Run(name, func(t *testing.T) {
			l := roads()[test.road].lab(t)
			l.settle(l.play)
			l.holdAll()
			l.remove()
			kind := schema.GroupVersionKind{}
			for _, o := range l.ours() {
				if test.hold(&o) {
					kind = o.GroupVersionKind()
					l.update(&o)
				}
			}
			l.settle(func() bool {
				return l.letGo(func(o *unstructured.Unstructured) bool { return o.GroupVersionKind() != kind })
			})
			if m := l.message(v1alpha1.ConditionReady); !strings.Contains(m, test.says) {
				t.Errorf("it says %q", m)
			}
		})
	}
}

// One that the spec does not name any more, or that somebody has deleted, is let go of as well; and one that stays is left to its sync,
// but of what it had before.
func TestSyncOfAnApplicationThatGoes(t *testing.T) {
	for name, test := range map[string]struct {
		goes func(*lab, *unstructured.Unstructured)
		ends bool
	}{
		"not named any more": {func(l *lab, _ *unstructured.Unstructured) {
			l.edit(func(e *v1alpha1.Experiment) { e.Spec.Targets[0].Components = layers[1:] })
		}, true},
		"deleted by somebody": {func(l *lab, app *unstructured.Unstructured) { l.deleteObject(app) }, true},
		"suspended, and deleted": {func(l *lab, app *unstructured.Unstructured) {
			l.edit(func(e *v1alpha1.Experiment) { e.Spec.Suspend = true })
			l.deleteObject(app)
		}, false},
		"it stays":                          {func(*lab, *unstructured.Unstructured) {}, false},
		"it stays, with what it has":        {func(l *lab, app *unstructured.Unstructured) { l.syncs(app, app, true) }, false},
		"it stays, with what it had before": {func(l *lab, app *unstructured.Unstructured) { l.syncs(app, former(app), true) }, true},
		"it stays, with what it had before, and it is not known yet with what it is to be compared": {func(l *lab, app *unstructured.Unstructured) {
			unstructured.RemoveNestedField(app.Object, "status", "sync", "comparedTo")
			l.syncs(app, former(app), true)
		}, false},
		"it stays, with what somebody has asked for": {func(l *lab, app *unstructured.Unstructured) { l.syncs(app, former(app), false) }, false},
		"it stays, with what it had before, as it was asked to once more": {func(l *lab, app *unstructured.Unstructured) {
			app.Object["operation"] = argocd.SyncAgain(former(app))["operation"]
			l.update(app)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := layered(t, v1alpha1.ClusterHub)
			l.settle(l.validating)
			l.waitsForHook(l.appOf(layers[0].String()))
			test.goes(l, l.appOf(layers[0].String()))
			for range 4 {
				l.mustReconcile()
			}
			app := l.appOf(layers[0].String())
			phase, _, _ := unstructured.NestedString(app.Object, "status", "operationState", "phase")
			if ended := phase == "Terminating"; ended != test.ends {
				t.Errorf("its sync is %s", phase)
			}
			if n := len(slices.DeleteFunc(slices.Clone(l.writes), func(w string) bool { return w != "patch Application" })); test.ends && n != 1 {
				t.Errorf("it is asked for %d times: %v", n, l.writes)
			}
		})
	}
}

// A failed Experiment that is deleted while an outside is stuck is released as any other, and what is left is told.
func TestFailedIsDeletedWhileAnOutsideIsStuck(t *testing.T) {
	for name, fail := range map[string]func(*lab){
		"its Workflow failed": func(l *lab) {
			l.settle(l.validating)
			w := l.list(argoworkflows.WorkflowGVK)[0]
			w.Object["status"] = map[string]any{"phase": "Failed", "message": "no answer"}
			l.update(&w)
			l.mustReconcile()
		},
		"its cluster was late": func(l *lab) {
			l.until(v1alpha1.PhaseProvisioning)
			l.later(time.Hour)
			l.mustReconcile()
		},
		"it was terminated": func(l *lab) {
			l.settle(l.validating)
			l.edit(func(e *v1alpha1.Experiment) { e.Spec.Terminate = true })
			l.pass()
		},
	} {
		for _, stuck := range []string{"Workflow", "Application", "GKECluster"} {
			t.Run(name+", "+stuck+" is stuck", func(t *testing.T) {
				l := tutorial(t)
				fail(l)
				if phase := l.get().Status.Phase; phase != v1alpha1.PhaseFailed {
					t.Fatalf("it is %s: %s", phase, l.message(v1alpha1.ConditionReady))
				}
				began := l.clock.Now().Sub(epoch)
				l.holdAll()
				world := func() bool {
					return l.letGo(func(o *unstructured.Unstructured) bool { return o.GetKind() != stuck })
				}
				l.remove()
				for minute := range 32 {
					l.later(began + time.Duration(minute)*time.Minute)
					l.tick(world)
				}
				if l.get() != nil {
					t.Fatalf("it is still there: %s", l.message(v1alpha1.ConditionReady))
				}
				for _, o := range l.ours() {
					told := slices.ContainsFunc(l.orphans(), func(left orphan) bool { return left.UID == string(o.GetUID()) })
					if o.GetKind() != stuck && o.GetKind() != configMapGVK.Kind || !told && o.GetKind() == stuck {
						t.Errorf("%s %s is left, and told of: %t", o.GetKind(), o.GetName(), told)
					}
				}
			})
		}
	}
}

// holdAll has every outside object wait for the system that it is of.
func (l *lab) holdAll() {
	l.t.Helper()
	for _, gvk := range foreignKinds {
		for _, o := range l.list(gvk) {
			if len(o.GetFinalizers()) == 0 && gvk != argocd.SecretGVK {
				o.SetFinalizers([]string{"example.com/held"})
				l.update(&o)
			}
		}
	}
}
