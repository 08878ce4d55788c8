package experiment

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/argoworkflows"
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
