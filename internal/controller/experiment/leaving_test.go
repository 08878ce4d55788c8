package experiment

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/argoworkflows"
	"github.com/labkeeper/labkeeper/internal/external/crossplane"
)

// goingAfter gives a target a time to live of its own.
func goingAfter(after time.Duration, t v1alpha1.Target) v1alpha1.Target {
	t.TTLAfterFinished = &metav1.Duration{Duration: after}
	return t
}

// loadTest is an application that stays and what loads it, which does not.
func loadTest(t *testing.T) *lab {
	return newLab(t, experimentOf(
		targetOf("app", v1alpha1.ClusterGKE),
		goingAfter(30*time.Minute, targetOf("loadgen", v1alpha1.ClusterGKE, "app")),
	), nginx(), template())
}

// ofTargets counts the objects of each target by their kinds.
func (l *lab) ofTargets() map[string]int {
	counts := map[string]int{}
	for _, gvk := range []schema.GroupVersionKind{crossplane.GKEClusterGVK, argocd.ApplicationGVK, argocd.SecretGVK, argoworkflows.WorkflowGVK} {
		for _, o := range l.list(gvk) {
			if o.GetLabels()[v1alpha1.LabelExperimentUID] != "" {
				counts[strings.TrimSpace(gvk.Kind+" "+o.GetLabels()[v1alpha1.LabelTarget])]++
			}
		}
	}
	return counts
}

func (l *lab) states() string {
	var all []string
	for _, t := range l.get().Status.Targets {
		all = append(all, fmt.Sprintf("%s %s", t.Name, t.State))
	}
	return strings.Join(all, ", ")
}

func TestTargetEnds(t *testing.T) {
	finished := metav1.NewTime(epoch)
	for name, test := range map[string]struct {
		targets []v1alpha1.Target
		want    map[string]time.Duration
	}{
		"none": {targets: []v1alpha1.Target{targetOf("a", v1alpha1.ClusterHub)}},
		"one of two": {
			targets: []v1alpha1.Target{targetOf("a", v1alpha1.ClusterHub), goingAfter(time.Hour, targetOf("b", v1alpha1.ClusterHub, "a"))},
			want:    map[string]time.Duration{"b": time.Hour},
		},
		"at once": {
			targets: []v1alpha1.Target{goingAfter(0, targetOf("a", v1alpha1.ClusterHub))},
			want:    map[string]time.Duration{"a": 0},
		},
		"another depends on it": {
			targets: []v1alpha1.Target{goingAfter(time.Minute, targetOf("a", v1alpha1.ClusterHub)), goingAfter(time.Hour, targetOf("b", v1alpha1.ClusterHub, "a"))},
			want:    map[string]time.Duration{"a": time.Hour, "b": time.Hour},
		},
		"another that stays": {
			targets: []v1alpha1.Target{goingAfter(time.Minute, targetOf("a", v1alpha1.ClusterHub)), targetOf("b", v1alpha1.ClusterHub, "a")},
		},
		"a chain against its order": {
			targets: []v1alpha1.Target{
				goingAfter(time.Minute, targetOf("a", v1alpha1.ClusterHub)), goingAfter(time.Minute, targetOf("b", v1alpha1.ClusterHub, "a")),
				goingAfter(time.Minute, targetOf("c", v1alpha1.ClusterHub, "b")), goingAfter(time.Hour, targetOf("d", v1alpha1.ClusterHub, "c")),
			},
			want: map[string]time.Duration{"a": time.Hour, "b": time.Hour, "c": time.Hour, "d": time.Hour},
		},
		"a chain to one that stays": {
			targets: []v1alpha1.Target{
				goingAfter(time.Minute, targetOf("a", v1alpha1.ClusterHub)), goingAfter(time.Minute, targetOf("b", v1alpha1.ClusterHub, "a")),
				targetOf("c", v1alpha1.ClusterHub, "b"),
			},
		},
		"a cycle": {
			targets: []v1alpha1.Target{goingAfter(time.Minute, targetOf("a", v1alpha1.ClusterHub, "b")), goingAfter(time.Hour, targetOf("b", v1alpha1.ClusterHub, "a"))},
			want:    map[string]time.Duration{"a": time.Hour, "b": time.Hour},
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := experimentOf(test.targets...)
			if before := targetEnds(e); len(before) > 0 {
				t.Errorf("before the verdict: %v", before)
			}
			e.Status.CompletedAt = &finished
			got := map[string]time.Duration{}
			for name, end := range targetEnds(e) {
				got[name] = end.Sub(epoch)
			}
			if !maps.Equal(got, test.want) {
				t.Errorf("they end after %v, want %v", got, test.want)
			}
		})
	}
}

// A target goes when its own time is over, to the second, with everything of it; the others, the Workflow
// and the verdict stay.
func TestTargetGoesBeforeItsExperiment(t *testing.T) {
	l := loadTest(t)
	l.until(v1alpha1.PhaseComplete)
	if wait := l.pass(); wait != 30*time.Minute {
		t.Errorf("it looks again after %s", wait)
	}
	before := l.ofTargets()
	l.drain()
	l.later(30*time.Minute - time.Second)
	if wait := l.pass(); wait != time.Second || !maps.Equal(before, l.ofTargets()) {
		t.Errorf("it looks again after %s, and there is %v", wait, l.ofTargets())
	}

	l.later(30 * time.Minute)
	l.writes = nil
	l.pass()
	if got := l.states(); got != "app Healthy, loadgen Deleting" || !slices.Equal(l.writes, []string{"patch Experiment/status"}) {
		t.Errorf("that it goes is not recorded first: %s, %v", got, l.writes)
	}
	l.settle(l.without(crossplane.GKEClusterGVK))
	if got := l.get().Status; !strings.Contains(got.Targets[1].Message, "Waits for the deletion of GKECluster") || len(got.Teardown.WaitsFor) != 1 {
		t.Errorf("it waits: %s, %+v", got.Targets[1].Message, got.Teardown)
	}
}

func TestTargetIsGone(t *testing.T) {
	l := loadTest(t)
	l.until(v1alpha1.PhaseComplete)
	l.drain()
	l.later(30 * time.Minute)
	l.settle(l.play)
	want := map[string]int{"GKECluster app": 1, "Application app": 1, "Secret app": 1, "Workflow": 1}
	if diff := cmp.Diff(want, l.ofTargets()); diff != "" {
		t.Errorf("there is (-want +got):\n%s", diff)
	}
	if got := l.states(); got != "app Healthy, loadgen Deleted" || l.get().Status.Teardown != nil {
		t.Errorf("%s, %+v", got, l.get().Status.Teardown)
	}
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
	l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionTrue, v1alpha1.ReasonClustersReady)
	if story := strings.Join(l.drain(), "\n"); strings.Count(story, "TargetDeleting") != 1 || strings.Count(story, "TargetDeleted") != 1 {
		t.Errorf("the events are:\n%s", story)
	}
	l.writes = nil
	if wait := l.pass(); wait != 22*time.Hour+30*time.Minute || len(l.writes) > 0 {
		t.Errorf("it looks again after %s, and has written %v", wait, l.writes)
	}
	l.later(day)
	l.settle(l.play)
	if l.get() != nil || len(l.ofTargets()) > 0 {
		t.Errorf("it leaves %v", l.ofTargets())
	}
}

// A target whose cluster somebody keeps says so when it has gone, and an Event does; one that has gone with it has nothing to tell.
func TestTargetIsGoneButForItsCluster(t *testing.T) {
	for name, end := range map[string]func(*lab){
		"its own time is over": func(*lab) {},
		"the Experiment is terminated meanwhile": func(l *lab) {
			l.pass()
			l.edit(func(e *v1alpha1.Experiment) { e.Spec.Terminate = true })
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, experimentOf(
				goingAfter(30*time.Minute, targetOf("app", v1alpha1.ClusterGKE)),
				goingAfter(30*time.Minute, targetOf("loadgen", v1alpha1.ClusterHub, "app")),
			), nginx(), template())
			l.until(v1alpha1.PhaseComplete)
			l.unlabel(crossplane.GKEClusterGVK, v1alpha1.LabelExperimentUID)
			l.reconciler.Foreign = unlabelledUnseen{l.client}
			l.drain()
			l.later(30 * time.Minute)
			end(l)
			l.settle(l.play)
			if got := l.states(); got != "app Deleted, loadgen Deleted" {
				t.Fatal(got)
			}
			left := l.get().Status.Targets[0].Message
			if !strings.Contains(left, "gone but GKECluster lab/tutorial-app-") || !strings.Contains(left, "taken the label") {
				t.Errorf("of what is left it says %q", left)
			}
			if got := l.get().Status.Targets[1].Message; got != ownTimeOver+", and everything of it is gone" {
				t.Errorf("one without a cluster says %q", got)
			}
			if !l.tellsOfOrphans() {
				t.Error("no Event tells of it")
			}
		})
	}
}

// Nor is what an Application deployed whose cluster was gone before it: the target tells, and so does the Experiment when it goes.
func TestAbandonedByATarget(t *testing.T) {
	l := newLab(t, experimentOf(
		goingAfter(30*time.Minute, targetOf("app", v1alpha1.ClusterGKE)),
		goingAfter(30*time.Minute, targetOf("loadgen", v1alpha1.ClusterHub, "app")),
	), nginx(), template())
	l.until(v1alpha1.PhaseComplete)
	l.drain()
	l.later(30 * time.Minute)
	l.tick(l.without(argocd.ApplicationGVK))
	for _, app := range l.list(argocd.ApplicationGVK) {
		if app.GetLabels()[v1alpha1.LabelTarget] == "loadgen" {
			l.finalize(&app)
		}
	}
	l.settle(l.without(argocd.ApplicationGVK))
	l.spoil(crossplane.GKEClusterGVK, func(claim *unstructured.Unstructured) { claim.SetFinalizers(nil) })
	l.delete(crossplane.GKEClusterGVK)
	l.settle(l.without(argocd.ApplicationGVK))
	if got := l.states(); got != "app Deleted, loadgen Deleted" {
		t.Fatal(got)
	}
	if left := l.get().Status.Targets[0].Message; !strings.Contains(left, "gone but what Application argocd/") || !strings.Contains(left, "load balancers") {
		t.Errorf("of what is left it says %q", left)
	}
	if got := l.get().Status.Targets[1].Message; strings.Contains(got, "gone but") {
		t.Errorf("another target says %q", got)
	}
	if !l.tellsOfOrphans() {
		t.Error("no Event tells of it")
	}
	l.remove()
	l.settle(l.play)
	if left := l.orphans(); l.get() != nil || len(left) != 1 || left[0].Kind != "Application" {
		t.Errorf("it goes, and tells of %+v", left)
	}
}

// That another target cannot be taken down keeps no Event of what one has left from being told.
func TestLeftBehindIsToldBesideAnError(t *testing.T) {
	e := experimentOf()
	e.Status.ExpiresAt = timestamp(epoch)
	told := happened(e, e, Plan{Orphans: []string{"GKECluster lab/app"}, Leaving: []Leaving{{Target: "app"}}}, errors.New("of another target"))
	if len(told) != 1 || told[0].Reason != v1alpha1.ReasonOrphansLeft {
		t.Errorf("told is %v", told)
	}
}

// Targets go after those that depend on them, whatever their own times are.
func TestTargetsGoInOrder(t *testing.T) {
	l := newLab(t, experimentOf(
		goingAfter(0, targetOf("app", v1alpha1.ClusterGKE)),
		goingAfter(time.Hour, targetOf("loadgen", v1alpha1.ClusterHub, "app")),
		targetOf("dashboard", v1alpha1.ClusterHub),
	), nginx(), template())
	l.settle(l.play)
	if got := l.states(); got != "app Healthy, loadgen Healthy, dashboard Healthy" {
		t.Fatal(got)
	}
	l.later(time.Hour)
	l.settle(l.without(argocd.ApplicationGVK))
	for _, app := range l.list(argocd.ApplicationGVK) {
		if goes := app.GetDeletionTimestamp() != nil; goes != (app.GetLabels()[v1alpha1.LabelTarget] == "loadgen") {
			t.Errorf("Application %s goes: %t", app.GetName(), goes)
		}
	}
	l.settle(l.play)
	if got := l.states(); got != "app Deleted, loadgen Deleted, dashboard Healthy" {
		t.Error(got)
	}
	if diff := cmp.Diff(map[string]int{"Application dashboard": 1, "Workflow": 1}, l.ofTargets()); diff != "" {
		t.Errorf("there is (-want +got):\n%s", diff)
	}
}

// Who gives a target more time is heard until it has begun to go, and then it goes to its end.
func TestTargetIsGivenMoreTime(t *testing.T) {
	l := loadTest(t)
	l.until(v1alpha1.PhaseComplete)
	l.later(30*time.Minute - time.Second)
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Targets[1] = goingAfter(time.Hour, e.Spec.Targets[1]) })
	l.later(59 * time.Minute)
	l.settle(l.play)
	if got := l.states(); got != "app Healthy, loadgen Healthy" {
		t.Error(got)
	}
	l.later(time.Hour)
	l.settle(l.without(argocd.ApplicationGVK))
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Targets[1].TTLAfterFinished = nil })
	l.settle(l.play)
	if got := l.states(); got != "app Healthy, loadgen Deleted" || l.ofTargets()["GKECluster loadgen"] > 0 {
		t.Error(got, l.ofTargets())
	}
}

// Neither a pause nor more time for the Experiment moves the end of a target.
func TestTargetIsNotGivenTheTimeOfItsExperiment(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.Experiment){
		"suspended": func(e *v1alpha1.Experiment) { e.Spec.Suspend = true },
		"extended":  func(e *v1alpha1.Experiment) { e.Annotations = map[string]string{v1alpha1.AnnotationExtend: "24h"} },
	} {
		t.Run(name, func(t *testing.T) {
			l := loadTest(t)
			l.until(v1alpha1.PhaseComplete)
			l.edit(change)
			if wait := l.pass(); wait != 30*time.Minute {
				t.Errorf("it looks again after %s", wait)
			}
			l.later(30*time.Minute - time.Second)
			l.settle(l.play)
			if got := l.states(); got != "app Healthy, loadgen Healthy" {
				t.Errorf("a second before, it is %s", got)
			}
			l.later(30 * time.Minute)
			l.settle(l.play)
			if got := l.states(); got != "app Healthy, loadgen Deleted" {
				t.Errorf("it is %s", got)
			}
		})
	}
}

// What keeps a target from going is told of the target, and the verdict stands: neither hides the other.
func TestNote26TargetThatMayNotGo(t *testing.T) {
	l := loadTest(t)
	l.settle(l.play)
	l.forbid("delete", "Application")
	l.later(30 * time.Minute)
	l.tick(l.without())
	target := l.get().Status.Targets[1]
	if target.State != v1alpha1.TargetDeleting || !strings.Contains(target.Message, "forbidden") {
		t.Errorf("it is %+v", target)
	}
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
	l.refuse = nil
	l.settle(l.play)
	if got := l.states(); got != "app Healthy, loadgen Deleted" {
		t.Error(got)
	}
}

// A teardown of everything takes over from that of a target.
func TestTeardownWhileATargetGoes(t *testing.T) {
	for name, end := range map[string]func(l *lab){
		"deleted":    func(l *lab) { l.remove() },
		"terminated": func(l *lab) { l.edit(func(e *v1alpha1.Experiment) { e.Spec.Terminate = true }) },
		"expired":    func(l *lab) { l.later(day) },
	} {
		t.Run(name, func(t *testing.T) {
			l := loadTest(t)
			l.settle(l.play)
			l.later(30 * time.Minute)
			l.settle(l.without(crossplane.GKEClusterGVK))
			end(l)
			l.settle(l.play)
			if left := l.ofTargets(); len(left) > 0 {
				t.Errorf("it leaves %v", left)
			}
			if l.get() != nil && l.states() != "app Healthy, loadgen Deleted" {
				t.Errorf("its record is %s", l.states())
			}
		})
	}
}

// Targets that do not depend on each other do not wait for each other, and each says what it waits for.
func TestTargetsGoByThemselves(t *testing.T) {
	l := newLab(t, experimentOf(
		goingAfter(0, targetOf("a", v1alpha1.ClusterGKE)),
		goingAfter(5*time.Minute, targetOf("b", v1alpha1.ClusterGKE)),
		goingAfter(0, targetOf("c", v1alpha1.ClusterHub)),
	), nginx(), template())
	stuck := func(o *unstructured.Unstructured) bool {
		return o.GetKind() != "Application" || o.GetLabels()[v1alpha1.LabelTarget] == "c"
	}
	l.until(v1alpha1.PhaseComplete)
	l.settle(func() bool { return l.letGo(stuck) })
	if got := l.states(); got != "a Deleting, b Healthy, c Deleted" {
		t.Errorf("it is %s", got)
	}
	l.later(5 * time.Minute)
	l.settle(func() bool { return l.letGo(stuck) })
	// The Application of a has had its quarter of the half hour by now, and that of b has not.
	l.later(8 * time.Minute)
	l.settle(func() bool { return l.letGo(stuck) })
	status := l.get().Status
	if a, b := status.Targets[0].Message, status.Targets[1].Message; strings.Contains(a, "-b-") || !strings.Contains(b, "-b-") || strings.Contains(b, "-a-") {
		t.Errorf("they wait: %s; %s", a, b)
	}
	if got := l.ofTargets(); got["GKECluster a"] != 0 || got["GKECluster b"] != 1 {
		t.Errorf("there is %v", got)
	}
	l.settle(l.play)
	if got, told := l.states(), l.get().Status.Teardown; got != "a Deleted, b Deleted, c Deleted" || len(told.WaitsFor) > 0 || len(told.Abandoned) != 1 || told.Abandoned[0].Target != "a" {
		t.Errorf("it is %s, %+v", got, told)
	}
}

// A record that somebody has taken away is made anew before anything goes.
func TestTargetGoesWithoutARecordOfTheStart(t *testing.T) {
	l := newLab(t, experimentOf(goingAfter(time.Minute, targetOf("app", v1alpha1.ClusterGKE))), nginx(), template())
	l.settle(l.play)
	e := l.get()
	e.Status.StartedAt, e.Status.Namespaces = nil, nil
	l.update(e)
	l.reconciler.Kinds = kindStates{} // the cache does not have them yet
	l.later(time.Minute)
	l.tick()
	if l.states() != "app Deleting" || len(l.list(crossplane.GKEClusterGVK)) == 0 {
		t.Errorf("it is %s, with %v", l.states(), l.ofTargets())
	}
	if l.get().Status.StartedAt == nil {
		t.Error("the record is not made anew")
	}
}

// Where Workflows are is nothing to a target that goes.
func TestTargetGoesWithoutWorkflows(t *testing.T) {
	l := loadTest(t)
	l.settle(l.play)
	l.reconciler.Options.WorkflowNamespace = "elsewhere"
	l.getErrors["Workflow"] = apierrors.NewForbidden(schema.GroupResource{Resource: "workflows"}, "x", errors.New("no rights"))
	l.forbid("list", "Workflow")
	l.later(30 * time.Minute)
	l.settle(l.play)
	if got := l.states(); got != "app Healthy, loadgen Deleted" {
		t.Errorf("it is %s: %s", got, l.get().Status.Targets[1].Message)
	}
}

// What goes already holds what it depended on up no longer than it takes.
func TestTargetIsGivenTimeTooLate(t *testing.T) {
	l := newLab(t, experimentOf(
		goingAfter(0, targetOf("app", v1alpha1.ClusterGKE)), goingAfter(30*time.Minute, targetOf("loadgen", v1alpha1.ClusterHub, "app")),
	), nginx(), template())
	l.until(v1alpha1.PhaseComplete)
	l.later(30*time.Minute - time.Second)
	l.pass()
	l.later(30 * time.Minute)
	l.pass()
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Targets[1] = goingAfter(8*time.Hour, e.Spec.Targets[1]) })
	l.settle(l.play)
	if got := l.states(); got != "app Deleted, loadgen Deleted" {
		t.Errorf("it is %s", got)
	}
}

// A manager that is told other namespaces forgets nothing of what was asked to go.
func TestTargetGoesWhileNamespacesAreOthers(t *testing.T) {
	l := loadTest(t)
	l.settle(l.play)
	l.later(30 * time.Minute)
	l.settle(l.without(argocd.ApplicationGVK))
	before := l.get().Status.Teardown
	if before == nil || len(before.WaitsFor) == 0 {
		t.Fatalf("it waits for %+v", before)
	}
	right := l.reconciler.Options
	l.reconciler.Options.ArgoCDNamespace = "argocd2"
	l.later(31 * time.Minute)
	l.settle(func() bool { return false })
	if diff := cmp.Diff(before, l.get().Status.Teardown); diff != "" {
		t.Errorf("what it waits for (-before +after):\n%s", diff)
	}
	l.reconciler.Options = right
	l.settle(l.play)
	if got := l.states(); got != "app Healthy, loadgen Deleted" {
		t.Errorf("it is %s", got)
	}
}
