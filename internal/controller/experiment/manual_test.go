package experiment

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argoworkflows"
	"github.com/labkeeper/labkeeper/test/crds"
)

// byHand is an Experiment that a person completes.
func byHand(t *testing.T, objects ...client.Object) *lab {
	e := experimentOf(targetOf("web", v1alpha1.ClusterHub))
	e.Spec.Workflow.Completion.Mode = v1alpha1.CompletionManual
	return newLab(t, append(objects, e, nginx())...)
}

func (l *lab) annotate(value string) {
	l.t.Helper()
	e := l.get()
	e.Annotations = map[string]string{v1alpha1.AnnotationComplete: value}
	l.update(e)
}

// Without its template a Workflow that only waits is submitted, and who resumes it completes the
// Experiment.
func TestManualWithoutTemplate(t *testing.T) {
	l := byHand(t)
	l.settle(l.deploy)
	l.expect(v1alpha1.ConditionWorkflowSucceeded, metav1.ConditionFalse, v1alpha1.ReasonWorkflowRunning)
	workflow := l.list(argoworkflows.WorkflowGVK)[0]
	if err := crds.Require(t).Validate(&workflow); err != nil {
		t.Error(err)
	}
	spec := workflow.Object["spec"].(map[string]any)
	if spec["entrypoint"] == nil || spec["workflowTemplateRef"] != nil {
		t.Errorf("its spec is %v", spec)
	}
	if says := recordedStep(l.get().Status.Conditions, v1alpha1.ConditionWorkflowSucceeded).Message; !strings.Contains(says, "resumes") || !strings.Contains(says, v1alpha1.AnnotationComplete) {
		t.Errorf("it does not say what to do: %q", says)
	}
	const instead = "it only waits to be resumed, in the place of WorkflowTemplate argo/validation, which did not exist"
	l.says(instead)
	l.succeed(&workflow) // which is what resuming it comes to
	l.settle(l.deploy)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
	l.says(instead)
}

// What takes the place of a template that does not exist is told before anything costs.
func TestTemplateThatIsReplaced(t *testing.T) {
	l := byHand(t)
	l.pass()
	l.pass()
	l.says("WorkflowTemplate argo/validation does not exist: a Workflow that only waits to be resumed takes its place")
	l.create(template())
	l.settle(l.deploy)
	if m := l.message(v1alpha1.ConditionWorkflowSucceeded); strings.Contains(m, "exist") || strings.Contains(m, "only waits") {
		t.Errorf("with it, too, it says %q", m)
	}
}

// An annotation that gives no verdict, because the Workflow does, is told of while there is none, also where that only waits.
func TestVerdictByHandThatIsIgnored(t *testing.T) {
	const ignored = "the annotation experiments.illm.io/complete is ignored, because spec.workflow.completion.mode is not manual"
	e := experimentOf(targetOf("web", v1alpha1.ClusterHub))
	e.Spec.Workflow.OnMissingTemplate = v1alpha1.MissingTemplateSuspend
	for name, l := range map[string]*lab{"a Workflow": newLab(t, experimentOf(targetOf("web", v1alpha1.ClusterHub)), nginx(), template()), "one that only waits": newLab(t, e, nginx())} {
		l.annotate(argoworkflows.PhaseSucceeded)
		for range 3 {
			l.pass()
		}
		l.says(ignored)
		l.settle(l.deploy)
		if l.get().Status.Workflow == nil {
			t.Fatalf("%s is not submitted", name)
		}
		l.expect(v1alpha1.ConditionWorkflowSucceeded, metav1.ConditionFalse, v1alpha1.ReasonWorkflowRunning)
		l.says(ignored)
		l.annotate("")
		l.pass()
		if m := l.message(v1alpha1.ConditionWorkflowSucceeded); strings.Contains(m, "ignored") {
			t.Errorf("%s: without it, too, it says %q", name, m)
		}
		workflow := l.list(argoworkflows.WorkflowGVK)[0]
		l.succeed(&workflow)
		l.settle(l.deploy)
		l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
	}
}

// Where no template was looked for, because the manager may not, none is said to be missing.
func TestTemplateThatIsNotLookedFor(t *testing.T) {
	l := byHand(t)
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Workflow.Namespace = e.Namespace })
	l.pass()
	l.pass()
	l.says("steps before it")
	if m := l.message(v1alpha1.ConditionWorkflowSucceeded); strings.Contains(m, "exist") {
		t.Errorf("it says %q", m)
	}
}

// A verdict by hand counts that comes with the end of the Experiment.
func TestManualWithTheEnd(t *testing.T) {
	for verdict, want := range map[string]string{
		"Succeeded": v1alpha1.ReasonWorkflowSucceeded, "Failed": v1alpha1.ReasonWorkflowFailed, "Perhaps": v1alpha1.ReasonTerminated,
	} {
		t.Run(verdict, func(t *testing.T) {
			l := byHand(t, template())
			l.settle(l.deploy)
			l.edit(func(e *v1alpha1.Experiment) {
				e.Spec.Terminate, e.Annotations = true, map[string]string{v1alpha1.AnnotationComplete: verdict}
			})
			l.tick()
			if c := recordedStep(l.get().Status.Conditions, v1alpha1.ConditionWorkflowSucceeded); c.Reason != want || l.get().Status.CompletedAt == nil {
				t.Errorf("it has ended at %v, and %s: %s", l.get().Status.CompletedAt, c.Reason, c.Message)
			}
		})
	}
}

// With its template that runs, and an annotation completes the Experiment before it ends.
func TestManualByAnnotation(t *testing.T) {
	for verdict, want := range map[string]v1alpha1.Phase{"Succeeded": v1alpha1.PhaseComplete, "Failed": v1alpha1.PhaseFailed} {
		t.Run(verdict, func(t *testing.T) {
			l := byHand(t, template())
			l.settle(l.deploy)
			if l.list(argoworkflows.WorkflowGVK)[0].Object["spec"].(map[string]any)["workflowTemplateRef"] == nil {
				t.Error("the Workflow has no template")
			}
			l.annotate("yes")
			l.settle(l.deploy)
			if e := l.get(); e.Status.CompletedAt != nil || !strings.Contains(recordedStep(e.Status.Conditions, v1alpha1.ConditionWorkflowSucceeded).Message, "must be Succeeded or Failed") {
				t.Errorf("of another annotation it says %+v", e.Status.Conditions)
			}
			l.annotate(verdict)
			l.settle(l.deploy)
			if got := l.get().Status.Phase; got != want {
				t.Errorf("phase is %s", got)
			}
			for range 3 {
				l.pass()
			}
			if got := l.get().Status.Phase; got != want {
				t.Errorf("later phase is %s", got)
			}
		})
	}
}

// The annotation is nobody's verdict where the Workflow gives it, or before there is one.
func TestAnnotationThatIsNoVerdict(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("web", v1alpha1.ClusterHub)), nginx(), template())
	l.annotate("Succeeded")
	l.settle(l.deploy)
	if e := l.get(); e.Status.Phase != v1alpha1.PhaseRunning {
		t.Errorf("phase is %s", e.Status.Phase)
	}
	l = byHand(t, template())
	l.annotate("Succeeded")
	l.settle(func() bool { return false }) // nothing is deployed
	if e := l.get(); e.Status.CompletedAt != nil {
		t.Errorf("nothing is deployed, and phase is %s", e.Status.Phase)
	}
}

// Where it is asked for, a missing template is replaced by a Workflow that waits; otherwise it is
// waited for, and never a success.
func TestNote23And46MissingTemplate(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("web", v1alpha1.ClusterHub)), nginx())
	l.settle(l.deploy)
	l.expect(v1alpha1.ConditionWorkflowSucceeded, metav1.ConditionFalse, v1alpha1.ReasonWorkflowTemplateNotFound)
	if n := len(l.list(argoworkflows.WorkflowGVK)); n > 0 {
		t.Fatalf("%d Workflows", n)
	}
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Workflow.OnMissingTemplate = v1alpha1.MissingTemplateSuspend })
	l.settle(l.deploy)
	l.expect(v1alpha1.ConditionWorkflowSucceeded, metav1.ConditionFalse, v1alpha1.ReasonWorkflowRunning)
	l.says("it only waits to be resumed")
	l.create(template()) // too late: this Experiment has its Workflow
	l.settle(l.deploy)
	if n := len(l.list(argoworkflows.WorkflowGVK)); n != 1 {
		t.Errorf("%d Workflows", n)
	}
}

// A cache that does not have the template yet does not make a Workflow that waits of one that is not
// to wait.
func TestTemplateThatTheCacheDoesNotHave(t *testing.T) {
	l := byHand(t, template())
	l.reconciler.Foreign = withoutTemplates{l.client}
	l.settle(l.deploy)
	if l.list(argoworkflows.WorkflowGVK)[0].Object["spec"].(map[string]any)["workflowTemplateRef"] == nil {
		t.Error("the Workflow has no template")
	}
}

// withoutTemplates is a cache that is behind.
type withoutTemplates struct{ client.Reader }

func (w withoutTemplates) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if kind := kindOf(o); kind == argoworkflows.WorkflowTemplateGVK.Kind {
		return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, key.Name)
	}
	return w.Reader.Get(ctx, key, o, opts...)
}

// What a Workflow was seen to come to does not go back when the cache does.
func TestWorkflowSeenOnce(t *testing.T) {
	e := experimentOf(targetOf("web", v1alpha1.ClusterHub))
	seen := object(argoworkflows.WorkflowGVK, "argo", "validation")
	seen.SetUID("uid")
	for recorded, want := range map[string]string{"": "", "Running": "Running", "Succeeded": "Succeeded"} {
		e.Status.Workflow = &v1alpha1.WorkflowStatus{UID: "uid", Phase: recorded}
		if got := (facts{experiment: e, names: names{experiment: e}, seen: Observed{Workflow: seen}}).workflow().Phase; got != want {
			t.Errorf("after %q it is %q", recorded, got)
		}
	}
}

// The annotation is no verdict before there is a Workflow, also when everything is deployed: an Experiment that is created from a
// manifest that somebody has exported must be validated.
func TestVerdictFromBeforeTheWorkflow(t *testing.T) {
	l := byHand(t, template())
	l.annotate("Succeeded")
	l.settle(l.deploy)
	l.expect(v1alpha1.ConditionWorkflowSucceeded, metav1.ConditionFalse, v1alpha1.ReasonVerdictTooEarly)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonVerdictTooEarly)
	if n := len(l.list(argoworkflows.WorkflowGVK)); n > 0 {
		t.Fatalf("%d Workflows", n)
	}
	e := l.get()
	e.Annotations = nil
	l.update(e)
	l.settle(l.deploy)
	l.expect(v1alpha1.ConditionWorkflowSucceeded, metav1.ConditionFalse, v1alpha1.ReasonWorkflowRunning)
	l.annotate("Succeeded")
	l.settle(l.deploy)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
}
