package experiment

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/argoworkflows"
)

func TestLifetime(t *testing.T) {
	finished := metav1.NewTime(epoch.Add(2 * time.Hour))
	soon, hour, late := &metav1.Duration{}, &metav1.Duration{Duration: time.Hour}, &metav1.Duration{Duration: 30 * time.Hour}
	for name, test := range map[string]struct {
		days      int32
		after     *metav1.Duration
		completed bool
		extend    string
		want      time.Duration
		extension string
	}{
		"by default":                            {want: day},
		"days":                                  {days: 3, want: 3 * day},
		"not finished":                          {days: 3, after: hour, want: 3 * day},
		"finished":                              {days: 3, after: hour, completed: true, want: 3 * time.Hour},
		"finished, and to go at once":           {days: 3, after: soon, completed: true, want: 2 * time.Hour},
		"to go at once, and not finished":       {days: 3, after: soon, want: 3 * day},
		"finished, without that":                {days: 3, completed: true, want: 3 * day},
		"finished, and days are sooner":         {days: 1, after: late, completed: true, want: day},
		"extended":                              {extend: "36h", want: day + 36*time.Hour, extension: "36h0m0s"},
		"extended, finished":                    {after: hour, completed: true, extend: " 90m ", want: 3*time.Hour + 90*time.Minute, extension: "1h30m0s"},
		"not a duration":                        {extend: "tomorrow", want: day, extension: "ignored: the annotation experiments.illm.io/extend is not a duration such as 24h or 90m"},
		"empty":                                 {extend: "-", want: day, extension: "ignored: the annotation experiments.illm.io/extend is not a duration such as 24h or 90m"},
		"shorter, which would delete by a slip": {extend: "-24h", want: day, extension: "ignored: the annotation experiments.illm.io/extend must be more than 0 and at most 8760h0m0s"},
		"for ever":                              {extend: "100000h", want: day, extension: "ignored: the annotation experiments.illm.io/extend must be more than 0 and at most 8760h0m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			e := experimentOf(targetOf("app", v1alpha1.ClusterHub))
			e.Spec.TTLDays, e.Spec.TTLAfterFinished = test.days, test.after
			if test.completed {
				e.Status.CompletedAt = &finished
			}
			if test.extend != "" {
				e.Annotations = map[string]string{v1alpha1.AnnotationExtend: test.extend}
			}
			l := lifetimeOf(e)
			if got := l.end.Sub(epoch); got != test.want || l.extension != test.extension {
				t.Errorf("it ends after %s (%q), want %s (%q)", got, l.extension, test.want, test.extension)
			}
		})
	}
}

// An hour before its end an Experiment says so, once, and an annotation moves the end to the second.
func TestExtendedBeforeItsEnd(t *testing.T) {
	for name, phase := range map[string]v1alpha1.Phase{"on its way": v1alpha1.PhaseReady, "complete": v1alpha1.PhaseComplete} {
		t.Run(name, func(t *testing.T) {
			l := tutorial(t)
			l.until(phase)
			if wait := l.pass(); wait != 23*time.Hour {
				t.Errorf("it looks again after %s", wait)
			}
			l.drain()
			l.clock.SetTime(epoch.Add(23 * time.Hour))
			for range 3 {
				if wait := l.pass(); wait != time.Hour {
					t.Errorf("it looks again after %s", wait)
				}
			}
			story := strings.Join(l.drain(), "\n")
			if strings.Count(story, v1alpha1.ReasonExpiresSoon) != 1 || !strings.Contains(story, "2026-03-02T12:00:00Z") {
				t.Errorf("the events are:\n%s", story)
			}

			e := l.get()
			e.Annotations = map[string]string{v1alpha1.AnnotationExtend: "24h"}
			l.update(e)
			l.pass()
			if status := l.get().Status; !status.ExpiresAt.Time.Equal(epoch.Add(2*day)) || status.ExpiresSoon || status.Extension != "24h0m0s" {
				t.Errorf("its status is %+v", status)
			}
			if story := strings.Join(l.drain(), "\n"); strings.Count(story, v1alpha1.ReasonExtended) != 1 {
				t.Errorf("the events are:\n%s", story)
			}
			l.clock.SetTime(epoch.Add(2*day - time.Second))
			if wait := l.pass(); wait != time.Second || l.get().DeletionTimestamp != nil {
				t.Errorf("deleted too early, or to be looked at after %s", wait)
			}
			l.clock.SetTime(epoch.Add(2 * day))
			l.settle(l.play)
			if l.get() != nil {
				t.Error("it is still there")
			}
		})
	}
}

// A slip in the annotation is told, and neither shortens nor lengthens anything.
func TestExtensionThatIsNone(t *testing.T) {
	l := tutorial(t)
	l.until(v1alpha1.PhaseComplete)
	l.drain()
	e := l.get()
	e.Annotations = map[string]string{v1alpha1.AnnotationExtend: "tomorrow"}
	l.update(e)
	for range 3 {
		l.pass()
	}
	if story := strings.Join(l.drain(), "\n"); strings.Count(story, v1alpha1.ReasonExtensionInvalid) != 1 || !strings.Contains(story, "24h") {
		t.Errorf("the events are:\n%s", story)
	}
	if got := l.get().Status.ExpiresAt; !got.Time.Equal(epoch.Add(day)) {
		t.Errorf("it expires at %s", got)
	}
}

// A time to live after the verdict counts from it, to the second.
func TestTimeToLiveAfterFinished(t *testing.T) {
	l := tutorial(t)
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.TTLAfterFinished = &metav1.Duration{Duration: 30 * time.Minute} })
	l.until(v1alpha1.PhaseRunning)
	l.clock.SetTime(epoch.Add(5 * time.Hour))
	l.until(v1alpha1.PhaseComplete)
	if wait := l.pass(); wait != 30*time.Minute {
		t.Errorf("it looks again after %s", wait)
	}
	if got := l.get().Status.ExpiresAt; !got.Time.Equal(epoch.Add(5*time.Hour + 30*time.Minute)) {
		t.Errorf("it expires at %s", got)
	}
	l.clock.SetTime(epoch.Add(5*time.Hour + 30*time.Minute))
	l.settle(l.play)
	if l.get() != nil {
		t.Error("it is still there")
	}
}

// A suspended Experiment is left as it is, in every phase, until it is resumed or its time is over.
func TestSuspend(t *testing.T) {
	for _, phase := range []v1alpha1.Phase{v1alpha1.PhasePending, v1alpha1.PhaseProvisioning, v1alpha1.PhaseReady, v1alpha1.PhaseRunning} {
		t.Run(string(phase), func(t *testing.T) {
			l := tutorial(t)
			if phase != v1alpha1.PhasePending {
				l.until(phase)
			}
			l.edit(func(e *v1alpha1.Experiment) { e.Spec.Suspend = true })
			l.writes = nil
			l.settle(l.play)
			for _, w := range l.writes {
				if w != "patch Experiment/status" && w != "patch Experiment" { // its finalizer
					t.Errorf("suspended, it has written: %s", w)
				}
			}
			l.expect(v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonSuspended)
			l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonSuspended)
			if e := l.get(); e.Status.CompletedAt != nil {
				t.Errorf("it is %+v", e.Status)
			}
			l.edit(func(e *v1alpha1.Experiment) { e.Spec.Suspend = false })
			l.settle(l.play)
			l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
		})
	}
}

// Its time goes on, and it can be deleted.
func TestSuspendedEnds(t *testing.T) {
	for name, end := range map[string]func(l *lab){
		"deleted": func(l *lab) { l.remove() },
		"expired": func(l *lab) { l.clock.SetTime(epoch.Add(day)) },
	} {
		t.Run(name, func(t *testing.T) {
			l := tutorial(t)
			l.until(v1alpha1.PhaseReady)
			l.edit(func(e *v1alpha1.Experiment) { e.Spec.Suspend = true })
			l.settle(l.play)
			end(l)
			l.settle(l.play)
			if l.get() != nil {
				t.Errorf("it is still there: %+v", l.get().Status)
			}
		})
	}
}

// What fails, and is tried again after a minute, does not put off what a time brings that is over before.
func TestDueWhateverFails(t *testing.T) {
	unchanged := func(*v1alpha1.Experiment) {}
	unreadable := func(l *lab) { l.getErrors["Application"] = errors.New("no answer") }
	unregistered := func(l *lab) { l.forbid("create", "Secret") }
	unrecorded := func(l *lab) { l.forbid("patch", "Experiment/status") }
	undeleted := func(l *lab) { l.forbid("delete", "Application") }
	unmended := func(l *lab) {
		l.spoil(argocd.ApplicationGVK, func(app *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(app.Object, "elsewhere", "spec", "project")
		})
		l.spoil(argoworkflows.WorkflowGVK, func(workflow *unstructured.Unstructured) {
			workflow.Object["status"] = map[string]any{"phase": "Running", "startedAt": epoch.Format(time.RFC3339)}
		})
		l.forbid("apply", "object")
	}
	for name, test := range map[string]struct {
		change func(*v1alpha1.Experiment)
		phase  v1alpha1.Phase
		spoil  func(*lab)
		over   time.Duration
	}{
		"its time, and it cannot be read":   {unchanged, v1alpha1.PhaseProvisioning, unreadable, day},
		"its time, and nothing is recorded": {unchanged, v1alpha1.PhaseProvisioning, unrecorded, day},
		"its time, and it is suspended":     {func(e *v1alpha1.Experiment) { e.Spec.Suspend = true }, v1alpha1.PhasePending, unrecorded, day},
		"that of a cluster":                 {unchanged, v1alpha1.PhaseProvisioning, unregistered, time.Hour},
		"that of a Workflow": {func(e *v1alpha1.Experiment) {
			e.Spec.ProgressDeadline = &v1alpha1.ProgressDeadline{Workflow: &metav1.Duration{Duration: time.Hour}}
		}, v1alpha1.PhaseRunning, unmended, time.Hour + lastLook},
		"that of a target": {func(e *v1alpha1.Experiment) {
			e.Spec.Targets[0].TTLAfterFinished = &metav1.Duration{Duration: 2 * time.Hour}
			e.Spec.Targets[1].TTLAfterFinished = &metav1.Duration{Duration: time.Hour}
		}, v1alpha1.PhaseComplete, undeleted, 2 * time.Hour},
		"its time after a verdict": {func(e *v1alpha1.Experiment) {
			e.Spec.TTLAfterFinished = &metav1.Duration{Duration: 3 * time.Hour}
		}, v1alpha1.PhaseComplete, unrecorded, 3 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			e := experimentOf(targetOf("app", v1alpha1.ClusterGKE), targetOf("page", v1alpha1.ClusterHub))
			test.change(e)
			l := newLab(t, e, nginx(), template())
			l.until(test.phase)
			if test.spoil(l); test.phase == v1alpha1.PhaseProvisioning {
				l.play()
			}
			l.later(test.over - 30*time.Second)
			for range 3 {
				_ = l.reconcile()
			}
			l.armed = true
			if result, err := l.reconciler.Reconcile(t.Context(), l.get()); err == nil || result.RequeueAfter != 30*time.Second {
				t.Errorf("it asks to be looked at after %s, with error %v", result.RequeueAfter, err)
			}
		})
	}
}
