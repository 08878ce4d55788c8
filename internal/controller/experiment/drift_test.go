package experiment

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/argoworkflows"
	"github.com/labkeeper/labkeeper/internal/external/crossplane"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/test/crds"
)

// changeApplication changes the only Application as somebody else would.
func (l *lab) changeApplication(value any, path ...string) {
	l.t.Helper()
	l.spoil(argocd.ApplicationGVK, func(u *unstructured.Unstructured) {
		if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
			l.t.Fatal(err)
		}
	})
}

// strangers are fields that somebody may add to an Application, and that decide what it deploys, or how that is judged.
var strangers = map[string]struct {
	path  []string
	value any
}{
	"automatic syncs are off (Argo CD 3.2)":   {[]string{"spec", "syncPolicy", "automated", "enabled"}, false},
	"differences are ignored":                 {[]string{"spec", "ignoreDifferences"}, []any{map[string]any{"group": "*", "kind": "*", "jsonPointers": []any{"/spec"}}}},
	"a server beside the name of the cluster": {[]string{"spec", "destination", "server"}, "https://kubernetes.default.svc"},
	"another source":                          {[]string{"spec", "source"}, map[string]any{"repoURL": "x", "path": "y"}},
	"another source of manifests": {[]string{"spec", "sourceHydrator"}, map[string]any{
		"drySource": map[string]any{"repoURL": "x", "targetRevision": "HEAD", "path": "y"}, "syncSource": map[string]any{"targetBranch": "b", "path": "p"},
	}},
	"labels of the namespace": {[]string{"spec", "syncPolicy", "managedNamespaceMetadata", "labels", enforceLabel}, "privileged"},
}

// Somebody's edit of an Application does not stay, also where it adds a field beside those that the manager writes.
func TestDriftByFieldsThatAreAdded(t *testing.T) {
	for name, edit := range strangers {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
			l.until(v1alpha1.PhaseReady)
			l.changeApplication(edit.value, edit.path...)
			before := len(l.writes)
			if err := l.reconcile(); err != nil {
				t.Fatal(err)
			}
			app := l.list(argocd.ApplicationGVK)[0]
			if value, found, _ := unstructured.NestedFieldNoCopy(app.Object, edit.path...); found {
				t.Errorf("%s is still %v; the writes are %v", strings.Join(edit.path, "."), value, l.writes[before:])
			}
			l.settle(l.play)
			l.expect(v1alpha1.ConditionReady, "True", v1alpha1.ReasonComplete)
		})
	}
}

// What decides nothing may stay, and costs no writes.
func TestFieldsThatMayBeAdded(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
	l.until(v1alpha1.PhaseRunning)
	l.changeApplication([]any{map[string]any{"name": "url", "value": "https://wiki.example.com"}}, "spec", "info")
	l.changeApplication(int64(3), "spec", "revisionHistoryLimit")
	l.changeApplication([]any{}, "spec", "ignoreDifferences")
	before := len(l.writes)
	if err := l.reconcile(); err != nil {
		t.Fatal(err)
	}
	if written := l.writes[before:]; slices.ContainsFunc(written, func(w string) bool { return strings.Contains(w, "object") || strings.HasSuffix(w, "Application") }) {
		t.Errorf("it writes %v", written)
	}
	if app := l.list(argocd.ApplicationGVK)[0]; fmt.Sprint(app.Object["spec"].(map[string]any)["revisionHistoryLimit"]) != "3" {
		t.Errorf("it has %v", app.Object["spec"])
	}
}

// No good verdict rests on an Application that has such a field, when the cache has not seen it yet.
func TestNoVerdictOnFieldsThatAreAdded(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
	l.until(v1alpha1.PhaseRunning)
	validated, workflow := l.list(argocd.ApplicationGVK), l.list(argoworkflows.WorkflowGVK)[0]
	l.succeed(&workflow)
	l.changeApplication(false, "spec", "syncPolicy", "automated", "enabled")
	l.hasNoVerdictWhileTheCacheHas(validated)
	l.expect(v1alpha1.ConditionReady, "True", v1alpha1.ReasonComplete)
}

// What an Application says of its namespace, or of its project, before Argo CD has looked at an edit of these, is of before.
func TestWorkflowAfterArgoCDHasLooked(t *testing.T) {
	for name, edit := range map[string]func(*lab){
		"another level of the Pod Security Standards": func(l *lab) {
			l.edit(func(e *v1alpha1.Experiment) { e.Spec.Targets[0].PodSecurity = "restricted" })
		},
		"another project, and another Workflow": func(l *lab) {
			l.annotateNamespace(v1alpha1.AnnotationProject, "forbids-it")
			l.edit(longer)
		},
	} {
		t.Run(name, func(t *testing.T) {
			target := targetOf("app", v1alpha1.ClusterGKE)
			target.PodSecurity = "privileged"
			l := newLab(t, experimentOf(target), nginx(), template())
			l.settle(l.validating)
			first := l.get().Status.Workflow.UID
			l.spoil(argocd.ApplicationGVK, func(u *unstructured.Unstructured) {
				_ = unstructured.SetNestedField(u.Object, "2026-03-01T12:00:00Z", "status", "reconciledAt")
			})
			edit(l)
			// Argo CD does nothing from here on: it has not looked at the Application yet. Only Workflows go.
			l.settle(func() (moved bool) {
				for _, w := range l.list(argoworkflows.WorkflowGVK) {
					moved = l.finalize(&w) || moved
				}
				return moved
			})
			if w := l.get().Status.Workflow; w.UID != first && !w.Superseded {
				app := l.list(argocd.ApplicationGVK)[0]
				t.Errorf("Workflow %s was submitted, and Argo CD has not compared since %v", w.Name, app.Object["status"].(map[string]any)["reconciledAt"])
			}
			l.settle(l.validating)
			if w := l.get().Status.Workflow; w.UID == first || w.Superseded {
				t.Errorf("Argo CD has looked, and the Workflow is %+v: %s", w, l.message(v1alpha1.ConditionReady))
			}
		})
	}
}

// Whoever has Argo CD look again does not have the manager write; until it has looked nothing rests on what it said.
func TestRefreshByHand(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
	l.settle(l.validating)
	l.changeApplication("hard", "metadata", "annotations", "argocd.argoproj.io/refresh")
	workflow := l.list(argoworkflows.WorkflowGVK)[0]
	l.succeed(&workflow)
	before := len(l.writes)
	l.settle(func() bool { return false })
	if slices.ContainsFunc(l.writes[before:], func(w string) bool { return !strings.HasPrefix(w, "patch Experiment") }) {
		t.Errorf("the writes are %v", l.writes[before:])
	}
	l.expect(v1alpha1.ConditionApplicationsHealthy, "False", v1alpha1.ReasonApplicationProgressing)
	if l.get().Status.CompletedAt != nil {
		t.Error("it is complete")
	}
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, "True", v1alpha1.ReasonComplete)
}

// syncFails is the end of a sync that Argo CD does not repeat.
func (l *lab) syncFails(finished time.Time) {
	l.t.Helper()
	l.spoil(argocd.ApplicationGVK, func(u *unstructured.Unstructured) {
		sources, _, _ := unstructured.NestedSlice(u.Object, "spec", "sources")
		destination, _, _ := unstructured.NestedMap(u.Object, "spec", "destination")
		delete(u.Object, "operation")
		u.Object["status"] = map[string]any{
			"health":     map[string]any{"status": "Missing"},
			"sync":       map[string]any{"status": "OutOfSync", "comparedTo": map[string]any{"sources": sources, "destination": destination}},
			"conditions": []any{map[string]any{"type": "SyncError", "message": "Failed last sync attempt to [1.2.3]: no matches for kind Gateway (retried 5 times)."}},
			"operationState": map[string]any{
				"phase": "Failed", "startedAt": epoch.Format(time.RFC3339), "finishedAt": finished.Format(time.RFC3339), "message": "no matches for kind Gateway (retried 5 times).",
				"syncResult": map[string]any{"sources": sources},
			},
		}
	})
}

// asksAfter says after which time the manager asks Argo CD to sync again: it wakes for that.
func (l *lab) asksAfter(failed time.Duration) time.Duration {
	l.t.Helper()
	l.syncFails(epoch.Add(failed))
	for at := failed; at < failed+time.Hour; {
		l.later(at)
		wait := l.pass()
		if app := l.list(argocd.ApplicationGVK)[0]; app.Object["operation"] != nil {
			if state, left, _ := unstructured.NestedFieldNoCopy(app.Object, "status", "operationState"); left {
				l.t.Errorf("it is still %v", state)
			}
			return at - failed
		}
		if wait == 0 {
			l.t.Fatal("nobody looks at it again")
		}
		at += wait
	}
	l.t.Fatal("nobody asks")
	return 0
}

// Argo CD tries a sync some times, and never again for the same sources ("Skipping auto-sync: failed previous sync attempt"):
// what was only late, such as a CRD of another component, is deployed all the same.
func TestSyncIsAskedForAgain(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
	l.until(v1alpha1.PhaseReady)
	for failed, want := range map[time.Duration]time.Duration{
		20 * time.Second: time.Minute, 155 * time.Second: 155 * time.Second, 320 * time.Second: 320 * time.Second, time.Hour: 10 * time.Minute,
	} {
		if got := l.asksAfter(failed); got != want {
			t.Errorf("after one that failed after %s it asks after %s, not %s", failed, got, want)
		}
	}
	app := l.list(argocd.ApplicationGVK)[0]
	want := map[string]any{
		"initiatedBy": map[string]any{"automated": true},
		"sync": map[string]any{
			"prune": true, "syncOptions": []any{"CreateNamespace=true", "ServerSideApply=true"}, "sources": app.Object["spec"].(map[string]any)["sources"],
		},
	}
	if diff := cmp.Diff(want, app.Object["operation"]); diff != "" {
		t.Errorf("operation (-want +got):\n%s", diff)
	}
	if err := crds.Require(t).Validate(&app); err != nil {
		t.Error(err)
	}
	before := len(l.writes)
	l.later(3 * time.Hour)
	l.settle(func() bool { return false })
	if slices.ContainsFunc(l.writes[before:], func(w string) bool { return !strings.HasPrefix(w, "patch Experiment") }) {
		t.Errorf("it is asked, and has not begun, and the writes are %v", l.writes[before:])
	}
	l.spoil(argocd.ApplicationGVK, func(u *unstructured.Unstructured) { delete(u.Object, "operation") })
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, "True", v1alpha1.ReasonComplete)
}

// Nothing is synced that nobody may change now.
func TestSyncIsNotAskedForAgain(t *testing.T) {
	for name, end := range map[string]func(*v1alpha1.ExperimentSpec){
		"suspended": func(s *v1alpha1.ExperimentSpec) { s.Suspend = true },
		"ended":     func(s *v1alpha1.ExperimentSpec) { s.Terminate = true },
	} {
		l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
		l.until(v1alpha1.PhaseReady)
		l.syncFails(epoch)
		l.edit(func(e *v1alpha1.Experiment) { end(&e.Spec) })
		l.later(5 * time.Hour)
		_ = l.reconcile()
		for _, app := range l.list(argocd.ApplicationGVK) {
			if app.Object["operation"] != nil {
				t.Errorf("%s: it asks for %v", name, app.Object["operation"])
			}
		}
	}
}

// Who changes or deletes a child by a program does not have the manager at work for ever; who edits the spec is not held up by that,
// nor is a teardown.
func TestDriftByAProgram(t *testing.T) {
	for name, test := range map[string]struct {
		meddle    func(*lab)
		write     string
		condition string
	}{
		"a change": {func(l *lab) {
			if apps := l.list(argocd.ApplicationGVK); len(apps) > 0 {
				l.changeApplication("theirs", "spec", "project")
			}
		}, "apply object", v1alpha1.ConditionApplicationsHealthy},
		"a field that is added": {func(l *lab) {
			if apps := l.list(argocd.ApplicationGVK); len(apps) > 0 {
				l.changeApplication(map[string]any{"repoURL": "x", "path": "y"}, "spec", "source")
			}
		}, "patch Application", v1alpha1.ConditionApplicationsHealthy},
		"a deletion": {func(l *lab) {
			for _, claim := range l.list(crossplane.GKEClusterGVK) {
				l.update(withoutFinalizers(&claim))
				l.deleteObject(&claim)
			}
		}, "create GKECluster", v1alpha1.ConditionClustersReady},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
			l.until(v1alpha1.PhaseReady)
			l.writes = nil
			writes := func() (n int) {
				for _, w := range l.writes {
					if w == test.write {
						n++
					}
				}
				return n
			}
			for range 30 {
				test.meddle(l)
				_ = l.reconcile()
			}
			if n := writes(); n < kube.ContendAtOnce || n > 1+kube.ContendAtOnce {
				t.Errorf("it is put right %d times", n)
			}
			l.expect(test.condition, "False", v1alpha1.ReasonContended)
			l.later(kube.ContendAgain + time.Second)
			before := writes()
			for range 5 {
				test.meddle(l)
				_ = l.reconcile()
			}
			if n := writes() - before; n != 1 {
				t.Errorf("a minute later it is put right %d times", n)
			}
			l.later(5 * time.Minute)
			l.settle(l.play) // the program has ended
			l.expect(v1alpha1.ConditionReady, "True", v1alpha1.ReasonComplete)
		})
	}
}

// What the spec asks for is written at once, whoever meddles with what it asked for before; and what is to go goes.
func TestDriftByAProgramHoldsNothingElseUp(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterHub)), nginx(), template())
	l.until(v1alpha1.PhaseReady)
	for range 10 {
		l.changeApplication("theirs", "spec", "project")
		_ = l.reconcile()
	}
	l.expect(v1alpha1.ConditionApplicationsHealthy, "False", v1alpha1.ReasonContended)
	l.edit(func(e *v1alpha1.Experiment) {
		e.Spec.Targets[0].Components[0].Params = map[string]string{"replicas": "3"}
	})
	_ = l.reconcile()
	if project, _, _ := unstructured.NestedString(l.list(argocd.ApplicationGVK)[0].Object, "spec", "project"); project != "default" {
		t.Errorf("the spec was edited, and the Application is in project %s", project)
	}
	for range 10 {
		l.changeApplication("theirs", "spec", "project")
		_ = l.reconcile()
	}
	l.remove()
	l.settle(l.play)
	if l.get() != nil {
		t.Error("it does not go")
	}
}

// Somebody's annotation keeps Argo CD from looking at an Application, and from letting it go, and the Application tells nothing of that.
func TestSkippedApplicationSaysSo(t *testing.T) {
	const skip = "argocd.argoproj.io/skip-reconcile"
	skipped := func(l *lab, value string) {
		app := l.list(argocd.ApplicationGVK)[0]
		annotations := app.GetAnnotations()
		annotations[skip] = value
		app.SetAnnotations(annotations)
		l.update(&app)
		l.pass()
	}
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterHub)), nginx(), template())
	l.mustReconcile()
	skipped(l, "false")
	if m := l.message(v1alpha1.ConditionApplicationsHealthy); strings.Contains(m, skip) {
		t.Errorf("Argo CD looks at it, and it says %q", m)
	}
	skipped(l, "true")
	if m := l.message(v1alpha1.ConditionApplicationsHealthy); !strings.Contains(m, "annotation "+skip+"; remove that") {
		t.Errorf("while it comes up it says %q", m)
	}
	healthy := l.list(argocd.ApplicationGVK)[0]
	l.appIs(&healthy, "Healthy")
	l.mustReconcile()
	l.expect(v1alpha1.ConditionApplicationsHealthy, metav1.ConditionFalse, v1alpha1.ReasonApplicationProgressing) // what it says is of before
	if err := l.client.Delete(t.Context(), l.get()); err != nil {
		t.Fatal(err)
	}
	l.mustReconcile()
	if m := l.message(v1alpha1.ConditionReady); !strings.Contains(m, "annotation "+skip+"; remove that") {
		t.Errorf("while it goes it says %q", m)
	}
	l.later(defaultDeadline)
	l.mustReconcile()
	if left := l.orphans(); len(left) != 1 || !strings.Contains(left[0].Error, skip) {
		t.Errorf("left are %v", left)
	}
}
