package experiment

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/arlon"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// circular has targets that depend on each other.
func circular() *v1alpha1.Experiment {
	a, b := targetOf("a", v1alpha1.ClusterHub), targetOf("b", v1alpha1.ClusterHub)
	a.Depends, b.Depends = []string{"b"}, []string{"a"}
	return experimentOf(a, b)
}

// What can never be acted on is refused, with the words that the condition would have; what is only
// missing is let through with a warning.
func TestReview(t *testing.T) {
	for name, test := range map[string]struct {
		experiment *v1alpha1.Experiment
		change     func(*lab)
		refusal    string
		warning    string
	}{
		"good":             {experiment: experimentOf(targetOf("app", v1alpha1.ClusterHub))},
		"note 38: a cycle": {experiment: circular(), refusal: "DependencyCycle: spec.targets[].depends: "},
		"an account":       {experiment: validatedBy(func(w *v1alpha1.WorkflowSpec) { w.ServiceAccountName = "admin" }), refusal: "InvalidSpec: spec.workflow.serviceAccountName"},
		"too large":        {experiment: stuffed(experimentOf(targetOf("app", v1alpha1.ClusterHub)), maxStored), refusal: "InvalidSpec: spec.workflow: the Experiment would have "},
		"no such type yet": {experiment: experimentOf(targetOf("app", "later")), warning: "NotSupportedYet: "},
		"made of nothing":  {experiment: experimentOf(targetOf("app", v1alpha1.ClusterTalos)), refusal: "InvalidSpec: spec.targets: target app"},
		"no name":          {experiment: experimentOf(targetOf("app", v1alpha1.ClusterReferred)), refusal: "InvalidSpec: spec.targets: target app does not name its cluster"},
		"no kubeconfig":    {experiment: experimentOf(targetOf("app", v1alpha1.ClusterExisting)), refusal: "InvalidSpec: spec.targets: target app does not name the kubeconfig of its cluster"},
		"no Cluster":       {experiment: experimentOf(referring("app")), warning: "ClusterNotFound: Cluster lab/k3 does not exist"},
		"no kind of it": {
			experiment: experimentOf(referring("app")),
			change:     func(l *lab) { l.kinds[arlon.ClusterGVK] = kube.KindMissing }, warning: "CRDMissing: The cluster does not serve Cluster.core.arlon.io/v1",
		},
		"a Cluster":   {experiment: experimentOf(referring("app")), change: func(l *lab) { l.create(k3("u-1")) }},
		"no template": {experiment: validatedBy(func(w *v1alpha1.WorkflowSpec) { w.Template = "x" }), warning: "WorkflowTemplateNotFound: WorkflowTemplate argo/x"},
		"a person's word": {experiment: validatedBy(func(w *v1alpha1.WorkflowSpec) {
			w.Template, w.Completion.Mode = "x", v1alpha1.CompletionManual
		}), warning: "WorkflowTemplate argo/x does not exist: a Workflow that only waits to be resumed takes its place"},
		"no Component": {experiment: func() *v1alpha1.Experiment {
			e := experimentOf(targetOf("app", v1alpha1.ClusterHub))
			e.Spec.Targets[0].Components = []v1alpha1.ComponentRef{{App: "y"}}
			return e
		}(), warning: "ComponentNotFound: "},
		"no Argo CD": {
			experiment: experimentOf(targetOf("app", v1alpha1.ClusterHub)),
			change:     func(l *lab) { l.kinds[argocd.ApplicationGVK] = kube.KindMissing }, warning: "CRDMissing: ",
		},
		"unreadable": {
			experiment: circular(),
			change:     func(l *lab) { l.getErrors["Namespace"] = errors.New("timeout") }, warning: "the Experiment was not reviewed: ",
		},
		"suspended": {experiment: func() *v1alpha1.Experiment {
			e := experimentOf(targetOf("app", v1alpha1.ClusterHub))
			e.Spec.Suspend = true
			return e
		}()},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, test.experiment, nginx(), template())
			if test.change != nil {
				test.change(l)
			}
			l.armed = true
			fresh := test.experiment.DeepCopy()
			fresh.UID, fresh.ResourceVersion, fresh.Status = "", "", v1alpha1.ExperimentStatus{}
			warnings, err := reviewer{l.reconciler}.ValidateCreate(t.Context(), fresh)
			if test.refusal == "" && err != nil || test.refusal != "" && (err == nil || !strings.HasPrefix(err.Error(), test.refusal)) {
				t.Errorf("the refusal is %v, want %q", err, test.refusal)
			}
			if got := strings.Join(warnings, "; "); test.warning == "" && got != "" || !strings.Contains(got, test.warning) {
				t.Errorf("the warnings are %q, want %q", got, test.warning)
			}
		})
	}
}

// A review keeps nobody from ending an Experiment, nor from changing one that was bad before.
func TestReviewOfChanges(t *testing.T) {
	good, bad := experimentOf(targetOf("a", v1alpha1.ClusterHub), targetOf("b", v1alpha1.ClusterHub)), circular()
	worse := circular()
	worse.Spec.Workflow.ServiceAccountName = "admin"
	l := newLab(t, good, nginx(), template())
	for name, test := range map[string]struct {
		before, after *v1alpha1.Experiment
		change        func(*v1alpha1.Experiment)
		refused       bool
	}{
		"to a cycle":                {good, bad, func(*v1alpha1.Experiment) {}, true},
		"from a cycle":              {bad, good, func(*v1alpha1.Experiment) {}, false},
		"beside a cycle":            {bad, bad, func(e *v1alpha1.Experiment) { e.Spec.Description = "x" }, false},
		"beside a cycle, anew":      {bad, bad, func(e *v1alpha1.Experiment) { e.Spec.Workflow.ServiceAccountName = "x" }, false},
		"from one fault of two":     {worse, bad, func(*v1alpha1.Experiment) {}, false},
		"of nothing in a cycle":     {bad, bad, func(e *v1alpha1.Experiment) { e.Finalizers = nil }, false},
		"to its end":                {good, bad, func(e *v1alpha1.Experiment) { e.Spec.Terminate = true }, false},
		"while it is being deleted": {good, bad, func(e *v1alpha1.Experiment) { e.DeletionTimestamp = &metav1.Time{Time: epoch} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			after := test.after.DeepCopy()
			test.change(after)
			if _, err := (reviewer{l.reconciler}).ValidateUpdate(t.Context(), test.before.DeepCopy(), after); (err != nil) != test.refused {
				t.Errorf("it is refused: %v", err)
			}
		})
	}
	if warnings, err := (reviewer{l.reconciler}).ValidateDelete(t.Context(), bad); err != nil || warnings != nil {
		t.Errorf("a deletion: %v, %v", warnings, err)
	}
}

// Who changes what runs is not warned of a template that is there.
func TestReviewOfWhatRuns(t *testing.T) {
	l := running(t, nil)
	after := l.get()
	longer(after)
	if warnings, err := (reviewer{l.reconciler}).ValidateUpdate(t.Context(), l.get(), after); err != nil || len(warnings) > 0 {
		t.Errorf("%v, %v", warnings, err)
	}
}

// kubectl diff, or apply --dry-run=server, of an edit that names a Component which does not exist yet, and then apply of the
// file that has both: what takes the Component's place must not be deployed because the cache is a moment behind.
func TestReviewIsNoAbsence(t *testing.T) {
	for _, dryRun := range []bool{false, true} {
		t.Run(fmt.Sprintf("dry run first: %t", dryRun), func(t *testing.T) {
			l := newLab(t, experimentOf(targetOf("web", v1alpha1.ClusterHub)), nginx(), template())
			l.reconciler.Options.Fallback = Fallback{RepoURL: "https://git.example.com/components", Revision: "main"}
			l.settle(l.validating)

			// The reviewed object has the generation that it would have.
			edited := func(e *v1alpha1.Experiment) {
				e.Spec.Targets[0].Components = []v1alpha1.ComponentRef{{App: "k6"}}
			}
			if dryRun {
				would := l.get()
				edited(would)
				would.Generation++
				if _, err := (reviewer{l.reconciler}).ValidateUpdate(t.Context(), l.get(), would); err != nil {
					t.Fatal(err)
				}
			}
			// kubectl apply -f: first the Component, then the Experiment. The cache does not have the Component yet.
			k6 := nginx()
			k6.Name = "k6"
			l.create(k6)
			l.edit(edited)
			cached := l.reconciler.Client
			l.reconciler.Client = without{l.client, "Component"}
			for range 4 {
				_ = l.reconcile()
				l.validating()
			}
			l.reconciler.Client = cached
			for _, app := range l.list(argocd.ApplicationGVK) {
				if sources, _, _ := unstructured.NestedSlice(app.Object, "spec", "sources"); strings.Contains(fmt.Sprint(sources), "git.example.com") {
					t.Errorf("Component k6 was there before the edit, and deployed is %v", sources)
				}
			}
		})
	}
}
