package experimentdeployment

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/labkeeper/labkeeper/api/experimentcontroller/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/test/fakes"
)

// woken counts what is handed on.
func woken(n *int) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(context.Context, event.CreateEvent, queue) { *n++ },
		UpdateFunc: func(context.Context, event.UpdateEvent, queue) { *n++ },
		DeleteFunc: func(context.Context, event.DeleteEvent, queue) { *n++ },
	}
}

// That a twin is there wakes unless this process has made it, just so, for an owner that is there still.
func TestNewsOfNewTwins(t *testing.T) {
	for name, test := range map[string]struct {
		change func(l *lab, u *unstructured.Unstructured)
		wakes  bool
	}{
		"its own": {func(*lab, *unstructured.Unstructured) {}, false},
		"its own, of an owner that is being written": {func(l *lab, _ *unstructured.Unstructured) {
			l.Client = fakes.BeingWritten[*v1alpha1.ExperimentDeployment](l.server)
		}, false},
		"of another version": {func(_ *lab, u *unstructured.Unstructured) { u.SetResourceVersion("another") }, true},
		"of another process": {func(l *lab, _ *unstructured.Unstructured) { l.made = kube.NewTold() }, true},
		"of an owner that is gone": {func(l *lab, _ *unstructured.Unstructured) {
			l.freed(l.owner())
			l.drop(l.owner())
		}, true},
		"of an owner that is another": {func(l *lab, _ *unstructured.Unstructured) {
			l.freed(l.owner())
			l.drop(l.owner())
			another := faster(t, `{}`)
			another.UID = "4-5-6"
			if err := l.server.Create(t.Context(), another); err != nil {
				t.Fatal(err)
			}
		}, true},
		"of another's name":           {func(_ *lab, u *unstructured.Unstructured) { u.SetLabels(map[string]string{v1alpha1.LabelUID: "7-8-9"}) }, true},
		"of nobody that can be found": {func(_ *lab, u *unstructured.Unstructured) { u.SetAnnotations(nil) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, faster(t, `{}`), object(t, web))
			l.passed()
			n, u := 0, l.twin()
			test.change(l, u)
			l.news(woken(&n)).Create(t.Context(), event.CreateEvent{Object: u}, nil)
			if (n == 1) != test.wakes {
				t.Errorf("it wakes %d times", n)
			}
		})
	}
}

// Of what changes of a twin all wakes that a pass would see.
func TestNewsOfTwins(t *testing.T) {
	status := func(u *unstructured.Unstructured, ready int64) {
		u.Object["status"] = map[string]any{"observedGeneration": u.GetGeneration(), "replicas": int64(2), "updatedReplicas": int64(2), "readyReplicas": ready, "availableReplicas": ready}
	}
	annotate := func(name string) func(u *unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			annotations := u.GetAnnotations()
			annotations[name] = "7"
			u.SetAnnotations(annotations)
		}
	}
	label := func(name, value string) func(u *unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			labels := u.GetLabels()
			labels[name] = value
			u.SetLabels(labels)
		}
	}
	for name, test := range map[string]struct {
		change func(u *unstructured.Unstructured)
		wakes  bool
	}{
		"nothing":                   {func(*unstructured.Unstructured) {}, false},
		"the count of its template": {annotate("deployment.kubernetes.io/revision"), false},
		"what is not counted":       {func(u *unstructured.Unstructured) { u.Object["status"].(map[string]any)["collisionCount"] = int64(1) }, false},
		"a pod is ready":            {func(u *unstructured.Unstructured) { status(u, 2) }, true},
		"it is refused": {func(u *unstructured.Unstructured) {
			u.Object["status"].(map[string]any)["conditions"] = []any{map[string]any{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}}
		}, true},
		"its controller has not seen it": {func(u *unstructured.Unstructured) { delete(u.Object["status"].(map[string]any), "observedGeneration") }, true},
		"its spec":                       {func(u *unstructured.Unstructured) { u.SetGeneration(u.GetGeneration() + 1) }, true},
		"another of the name":            {func(u *unstructured.Unstructured) { u.SetUID("another") }, true},
		"its deletion":                   {func(u *unstructured.Unstructured) { u.SetDeletionTimestamp(&metav1.Time{Time: epoch}) }, true},
		"its owners":                     {func(u *unstructured.Unstructured) { u.SetOwnerReferences(nil) }, true},
		"its mark":                       {label(v1alpha1.LabelUID, ""), true},
		"what was wanted":                {annotate(v1alpha1.AnnotationWanted), true},
		"no owner is named any more":     {func(u *unstructured.Unstructured) { u.SetAnnotations(nil) }, true},
		"an annotation of somebody's":    {annotate("team.example.com/pager"), true},
		"a label of somebody's":          {label("team", "web"), true},
	} {
		t.Run(name, func(t *testing.T) {
			before := settled(t, newFacts(t, `{}`)).seen.Twin
			status(before, 1)
			before.SetResourceVersion("1")
			after := before.DeepCopy()
			after.SetResourceVersion("2")
			test.change(after)
			n := 0
			to := (&Reconciler{}).news(woken(&n))
			to.Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: after}, nil)
			if (n == 1) != test.wakes {
				t.Errorf("it wakes %d times", n)
			}
			to.Update(t.Context(), event.UpdateEvent{ObjectOld: after, ObjectNew: before}, nil)
			if (n == 2) != test.wakes {
				t.Errorf("the other way round it wakes %d times", n)
			}
		})
	}
}

// That the controller of a new twin has seen it wakes nobody, as nothing is told of that (TestCreatedWithoutPods); all else does.
func TestNewsOfATwinWithoutPods(t *testing.T) {
	for name, test := range map[string]struct {
		generation int64
		status     string
		wakes      bool
	}{
		"none yet":           {1, `{observedGeneration: 1, unavailableReplicas: 1}`, false},
		"one":                {1, `{observedGeneration: 1, replicas: 1, updatedReplicas: 1}`, true},
		"refused":            {1, `{observedGeneration: 1, conditions: [{type: ReplicaFailure, status: "True"}]}`, true},
		"stuck":              {1, `{observedGeneration: 1, conditions: [{type: Progressing, status: "False"}]}`, true},
		"none of a later":    {2, `{observedGeneration: 2}`, true},
		"of an old one, one": {2, `{observedGeneration: 1, replicas: 1}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			before := settled(t, newFacts(t, `{}`)).seen.Twin
			before.SetGeneration(test.generation)
			before.Object["status"] = map[string]any{}
			before.SetResourceVersion("1")
			after := before.DeepCopy()
			after.SetResourceVersion("2")
			after.Object["status"] = object(t, test.status).Object
			n := 0
			(&Reconciler{}).news(woken(&n)).Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: after}, nil)
			if (n == 1) != test.wakes {
				t.Errorf("it wakes %d times", n)
			}
		})
	}
}

// What is looked at again anyway, and what goes, wakes; what is no twin does not.
func TestNewsOfOthers(t *testing.T) {
	u, n := settled(t, newFacts(t, `{}`)).seen.Twin, 0
	to := (&Reconciler{}).news(woken(&n))
	to.Update(t.Context(), event.UpdateEvent{ObjectOld: u, ObjectNew: u}, nil)
	to.Delete(t.Context(), event.DeleteEvent{Object: u}, nil)
	if n != 2 {
		t.Errorf("it wakes %d times", n)
	}
	before, after := object(t, web), object(t, web)
	after.SetGeneration(8)
	to.Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: after}, nil)
	if n != 2 {
		t.Error("what is no twin wakes")
	}
}

// The watch may be faster than the answer to the create; what it has of another is looked at at once.
func TestNewsWhileItIsMade(t *testing.T) {
	for name, changed := range map[string]bool{"as it is made": false, "changed already": true} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, faster(t, `{}`), object(t, web))
			n := 0
			l.seen = func(o client.Object) {
				u := o.(*unstructured.Unstructured).DeepCopy()
				l.news(woken(&n)).Create(t.Context(), event.CreateEvent{Object: u}, nil)
				if changed {
					u.SetResourceVersion("another")
					l.news(woken(&n)).Create(t.Context(), event.CreateEvent{Object: u}, nil)
				}
			}
			result, _ := l.passed()
			if n != 0 || (result.RequeueAfter == kube.AtOnce) != changed {
				t.Errorf("it wakes %d times, and looks again in %s", n, result.RequeueAfter)
			}
		})
	}
}

// A Namespace wakes by what it grants, as it changes, and by nothing else.
func TestNewsOfGrants(t *testing.T) {
	with := func(name, value string) *corev1.Namespace {
		namespace := shop("lab")
		namespace.Annotations[name] = value
		return namespace
	}
	for name, test := range map[string]struct {
		before, after *corev1.Namespace
		wakes         bool
	}{
		"nothing":                  {shop("lab"), shop("lab"), false},
		"whom":                     {shop("lab"), shop("lab,other"), true},
		"privileges":               {shop("lab"), with(v1alpha1.AnnotationAllowPrivileges, "true"), true},
		"privileges, in words":     {with(v1alpha1.AnnotationAllowPrivileges, "false"), with(v1alpha1.AnnotationAllowPrivileges, "true"), true},
		"another annotation":       {shop("lab"), with("team", "payments"), false},
		"nobody, by none or empty": {&corev1.Namespace{}, shop(""), true},
	} {
		if granted.Update(event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}) != test.wakes ||
			granted.Update(event.UpdateEvent{ObjectOld: test.after, ObjectNew: test.before}) != test.wakes {
			t.Errorf("%s: it wakes: %t, want %t", name, !test.wakes, test.wakes)
		}
	}
	for name, test := range map[string]struct {
		event event.CreateEvent
		wakes bool
	}{
		"new":                     {event.CreateEvent{Object: shop("lab")}, true},
		"new, of privileges":      {event.CreateEvent{Object: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationAllowPrivileges: "true"}}}}, true},
		"new, and grants nothing": {event.CreateEvent{Object: &corev1.Namespace{}}, false},
		"when the manager starts": {event.CreateEvent{Object: shop("lab"), IsInInitialList: true}, false},
	} {
		if granted.Create(test.event) != test.wakes {
			t.Errorf("%s: it wakes: %t", name, !test.wakes)
		}
	}
	if granted.Delete(event.DeleteEvent{Object: shop("lab")}) {
		t.Error("its end wakes")
	}
}

// r2: that the rollout of a source is aborted, or is no more, is news of it, and is not taken off in the cache.
func TestNewsOfAbortedSources(t *testing.T) {
	rollout := func(status string) *unstructured.Unstructured {
		u := object(t, strings.Replace(web, "apps/v1\nkind: Deployment", "argoproj.io/v1alpha1\nkind: Rollout", 1)+"status: "+status)
		if _, err := strip(u); err != nil {
			t.Fatal(err)
		}
		return u
	}
	aborted, going, healthy := rollout(`{abort: true, phase: Degraded}`), rollout(`{abort: false, phase: Progressing}`), rollout(`{phase: Healthy}`)
	if !asksFor(healthy, aborted) || !asksFor(aborted, going) || asksFor(going, healthy) {
		t.Errorf("of %v, %v and %v", healthy.Object["status"], aborted.Object["status"], going.Object["status"])
	}
}
