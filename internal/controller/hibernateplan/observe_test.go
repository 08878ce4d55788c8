package hibernateplan

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/lru"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/internal/runner"
	"github.com/labkeeper/labkeeper/test/fakes"
)

// A Job does not end as long as its pod is there, and the pod of a node that does not answer stays: the attempt has failed
// when its runner must have given up, and not before.
func TestLostNode(t *testing.T) {
	const deadline = 10 * time.Minute
	told := noon.Add(-deadline - lostAfter)
	for name, test := range map[string]struct {
		at        time.Time
		deleted   bool
		suspended bool
		want      string
		stops     time.Duration
	}{
		"told to end":           {at: told, want: "pod p does not end on node n1"},
		"deleted":               {at: told, deleted: true, want: "pod p does not end on node n1"},
		"it may still run":      {at: told.Add(time.Second), stops: time.Second},
		"so may one of deleted": {at: told.Add(time.Minute), deleted: true, stops: time.Minute},
		"not told":              {},
		"suspended":             {at: told, suspended: true, want: whySuspended},
		"it may go on":          {at: told.Add(time.Second), suspended: true, stops: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			plan, n := attempting(v1alpha1.OperationShutdown, "a")
			attempt := only(plan)
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: attempt, Finalizers: []string{"foregroundDeletion"}}}
			marks.Set(plan, job)
			job.Spec.ActiveDeadlineSeconds, job.Status.Ready = ptr.To(int64(deadline/time.Second)), ptr.To(int32(1))
			if test.deleted {
				job.DeletionTimestamp = ptr.To(metav1.NewTime(test.at))
			} else if test.suspended {
				job.Status.Ready = nil
				job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(test.at)}}
			} else if !test.at.IsZero() {
				job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(test.at)}}
			}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "p", Labels: map[string]string{batchv1.JobNameLabel: attempt}}, Spec: corev1.PodSpec{NodeName: "n1"}}
			if test.suspended {
				pod.Labels = nil // it is another's: there is none
			}
			c := fakes.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(pointOf(n, "a", attempt), job, pod).Build()
			s := &scope{Reconciler: &Reconciler{Client: c, Live: c, Options: Options{Namespace: "system"}}, owner: plan, now: noon}
			if err := s.observeAttempts(t.Context()); err != nil {
				t.Fatal(err)
			}
			got, ended := s.seen.Outcomes[attempt]
			if ended != (test.want != "") || got.completed || !strings.Contains(got.message, test.want) || s.seen.Stops != test.stops {
				t.Errorf("ended %v, %+v; looked at again in %s", ended, got, s.seen.Stops)
			}
			p := facts{plan: plan, seen: s.seen, registry: registry, namespace: "system", now: noon}.decide()
			if test.stops > 0 && p.Wait > test.stops {
				t.Errorf("it is looked at in %s", p.Wait)
			}
		})
	}
}

// A Job that was told to end just now has a runner that may act for years by its deadline: it is not lost. A plan that was stored
// with such a deadline does not get it any more.
func TestDeadlineOfYears(t *testing.T) {
	const years = math.MaxInt64 / int64(time.Second) // more do not fit into a Duration
	plan := newPlan(v1alpha1.StrategyParallel, 1)
	for _, seconds := range []int64{years, math.MaxInt64} {
		job := kube.Empty(jobGVK)
		_ = unstructured.SetNestedField(job.Object, seconds, pathDeadline...)
		job.SetDeletionTimestamp(ptr.To(metav1.NewTime(noon)))
		s := &scope{owner: plan, now: noon.Add(time.Second)}
		if s.lost(job) {
			t.Errorf("a runner with %d s to go is taken for lost a second after it was told to end", seconds)
		}
	}
	for arg, want := range map[string]time.Duration{
		"--deadline=9m30s": 10 * time.Minute, "--deadline=2562047h47m16.8s": math.MaxInt64, "--deadline=long": 0, "--deadlines=1h": 0,
	} {
		pod := corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Args: []string{"runner", arg}}}}}
		if got := podDeadline(pod); got != want {
			t.Errorf("%s is %s", arg, got)
		}
	}
	plan.Spec.Runner = &v1alpha1.RunnerTemplate{ActiveDeadline: &metav1.Duration{Duration: math.MaxInt64}}
	if s := (&scope{owner: plan}); s.longest() != maxActiveDeadline || (attempt{runner: plan.Spec.Runner}).deadline() != maxActiveDeadline {
		t.Errorf("it may run for %s", s.longest())
	}
}

// What keeps a runner from starting is told when that takes longer than an image that is pulled, and not only when its
// deadline is over.
func TestRunnerThatDoesNotStart(t *testing.T) {
	waiting := func(reason, message string) corev1.PodStatus {
		return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message},
		}}}}
	}
	for name, test := range map[string]struct {
		age    time.Duration
		ahead  time.Duration // is the manager's clock of the API server's
		status batchv1.JobStatus
		pod    *corev1.PodStatus
		want   string
		looks  time.Duration
	}{
		"no pod yet":    {age: startsWithin - time.Second, looks: time.Second},
		"no pod":        {age: startsWithin, want: "a: it has no pod; see kubectl -n system describe job JOB", looks: startsWithin},
		"of two clocks": {age: time.Second, ahead: time.Hour, looks: startsWithin - time.Second},
		"no image":      {age: time.Hour, pod: ptr.To(waiting("ImagePullBackOff", "Back-off\npulling image")), want: "a: ImagePullBackOff: Back-off pulling image", looks: startsWithin},
		"no Secret":     {age: time.Hour, pod: ptr.To(waiting("CreateContainerConfigError", "")), want: "a: CreateContainerConfigError", looks: startsWithin},
		"no volume":     {age: time.Hour, pod: ptr.To(waiting("ContainerCreating", "")), want: "a: its container is not made; see kubectl -n system describe pod p", looks: startsWithin},
		"it has ended": {age: time.Hour, pod: &corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
			{Name: containerName, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}, {Name: "proxy", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		}}, want: "a: its runner has ended, and container proxy beside it has not, which somebody has put into its pod; have namespace system left out by who does", looks: startsWithin},
		"no node":            {age: time.Hour, pod: &corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available"}}}, want: "a: Unschedulable: 0/3 nodes are available", looks: startsWithin},
		"suspended":          {age: time.Minute, status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon)}}}, want: "a: " + whySuspended, looks: startsWithin},
		"it runs":            {age: time.Hour, status: batchv1.JobStatus{Ready: ptr.To(int32(1))}},
		"it is being taken":  {age: time.Hour, status: batchv1.JobStatus{Terminating: ptr.To(int32(1))}},
		"it was told to end": {age: time.Hour, status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon)}}}, looks: defaultActiveDeadline + lostAfter},
	} {
		t.Run(name, func(t *testing.T) {
			plan, n := attempting(v1alpha1.OperationShutdown, "a")
			attempt := only(plan)
			plan.Status.Executions[0].StartedAt = ptr.To(metav1.NewTime(noon.Add(-test.age)))
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: attempt, CreationTimestamp: metav1.NewTime(noon.Add(-test.age - test.ahead))}, Status: test.status}
			marks.Set(plan, job)
			objects := []client.Object{pointOf(n, "a", attempt), job, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "other", Labels: map[string]string{batchv1.JobNameLabel: "other"}}, Status: waiting("ErrImagePull", "of another"),
			}}
			if test.pod != nil {
				objects = append(objects, &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "p", Labels: map[string]string{batchv1.JobNameLabel: attempt}}, Status: *test.pod,
				})
			}
			c := fakes.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).Build()
			s := &scope{Reconciler: &Reconciler{Client: c, Live: c, Options: Options{Namespace: "system"}}, owner: plan, now: noon}
			if err := s.observeAttempts(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.plan, s.decided = facts{plan: plan, seen: s.seen, registry: registry, namespace: "system", now: noon}.decide(), true
			report(s, nil)
			degraded := find(plan.Status.Conditions, v1alpha1.ConditionDegraded)
			want := strings.ReplaceAll(test.want, "JOB", attempt)
			if want == "" && degraded.Reason != v1alpha1.ReasonAsExpected ||
				want != "" && (degraded.Reason != v1alpha1.ReasonRunnerNotStarted || degraded.Message != "Runners have not started: "+want) {
				t.Errorf("it says %s: %s", degraded.Reason, degraded.Message)
			}
			if s.seen.Stops != test.looks || test.looks > 0 && s.plan.Wait > test.looks {
				t.Errorf("it is looked at in %s, and the plan in %s", s.seen.Stops, s.plan.Wait)
			}
		})
	}
}

// A Job that the cache does not have yet may be deleted before it has it, which nobody is told of, as little as that it does not
// start: it is looked at again until the cache has it.
func TestJobThatTheCacheDoesNotHave(t *testing.T) {
	plan, n := attempting(v1alpha1.OperationShutdown, "a")
	attempt := only(plan)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: attempt, CreationTimestamp: metav1.NewTime(noon)}}
	marks.Set(plan, job)
	live := fakes.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(pointOf(n, "a", attempt), job).Build()
	late := fakes.NewClientBuilder().WithScheme(scheme.Scheme).Build()
	look := func(cache client.Client) (*scope, Plan) {
		s := &scope{Reconciler: &Reconciler{Client: cache, Live: live, Options: Options{Namespace: "system"}}, owner: plan, now: noon}
		if err := s.observeAttempts(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s, facts{plan: plan, seen: s.seen, registry: registry, namespace: "system", now: noon}.decide()
	}
	if s, p := look(late); !s.seen.Jobs[attempt] || len(p.Launch) > 0 || p.Wait > unseenAgain {
		t.Errorf("it is there: %t, and is looked at again in %s", s.seen.Jobs[attempt], p.Wait)
	}
	if s, p := look(live); !s.seen.Jobs[attempt] || p.Wait <= unseenAgain || p.Wait > startsWithin {
		t.Errorf("the cache has it: %t, and it is looked at again in %s", s.seen.Jobs[attempt], p.Wait)
	}
	if err := live.Delete(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	if s, _ := look(late); s.seen.Jobs[attempt] || !s.seen.Looked[attempt] {
		t.Error("it is gone, and nobody has seen that")
	}
}

// A Job that the cache does not have may end while it is looked for, by which its runner has said how.
func TestJobThatEndsUnseen(t *testing.T) {
	plan, n := attempting(v1alpha1.OperationShutdown, "a")
	attempt := only(plan)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: attempt}}
	marks.Set(plan, job)
	for name, ends := range map[string]func(client.Client) error{
		"it has ended": func(c client.Client) error {
			ended := job.DeepCopy()
			ended.ResourceVersion, ended.Status.Conditions = "", []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
			return c.Status().Update(t.Context(), ended)
		},
		"it is gone": func(c client.Client) error { return c.Delete(t.Context(), job.DeepCopy()) },
	} {
		t.Run(name, func(t *testing.T) {
			live := interceptor.NewClient(fakes.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(pointOf(n, "a", attempt), job.DeepCopy()).Build(), interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					if o.GetObjectKind().GroupVersionKind() == jobGVK {
						point := pointOf(n, "a", attempt)
						point.Data = map[string]string{runner.KeyResult: fmt.Sprintf(`{"execution":%q,"completed":true,"resources":1,"done":1}`, attempt)}
						if err := errors.Join(c.Update(ctx, point), ends(c)); err != nil {
							return err
						}
					}
					return c.Get(ctx, key, o, opts...)
				},
			})
			late := fakes.NewClientBuilder().WithScheme(scheme.Scheme).Build()
			s := &scope{Reconciler: &Reconciler{Client: late, Live: live, Options: Options{Namespace: "system"}}, owner: plan, now: noon}
			if err := s.observeAttempts(t.Context()); err != nil {
				t.Fatal(err)
			}
			if o, ended := s.seen.Outcomes[attempt]; !ended || !o.completed || o.resources != 1 {
				t.Errorf("its outcome is %+v, and there is one: %t", o, ended)
			}
		})
	}
}

// What keeps a runner from starting is only told: where that cannot be looked at, the plan goes on.
func TestRunnerThatCannotBeLookedAt(t *testing.T) {
	plan, n := attempting(v1alpha1.OperationShutdown, "a")
	attempt := only(plan)
	plan.Status.Executions[0].StartedAt = ptr.To(metav1.NewTime(noon.Add(-time.Hour)))
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: attempt, CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour))}}
	marks.Set(plan, job)
	c := interceptor.NewClient(fakes.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(pointOf(n, "a", attempt), job).Build(), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*corev1.PodList); ok {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no right"))
			}
			return c.List(ctx, list, opts...)
		},
	})
	s := &scope{Reconciler: &Reconciler{Client: c, Live: c, Options: Options{Namespace: "system"}}, owner: plan, now: noon}
	if err := s.observeAttempts(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(s.seen.Late) != 1 || !strings.Contains(s.seen.Late[0].why, "no right") {
		t.Errorf("it says %+v", s.seen.Late)
	}
}

// Of many runners that do not start the first are told of, and how many there are more.
func TestRunnersThatDoNotStart(t *testing.T) {
	v := view{status: &v1alpha1.HibernatePlanStatus{}}
	for i := range shownLate + 3 {
		l := late{target: fmt.Sprint("t", i)}
		if i < 2 {
			l.why = "ErrImagePull"
		}
		v.late = append(v.late, l)
	}
	if got := v.degraded(); got.Message != "Runners have not started: t0: ErrImagePull; t1: ErrImagePull; and 11 more" {
		t.Errorf("it says %s", got.Message)
	}
}

// The plan is looked at when a Job was told to end, and the cache has what is needed to judge it.
func TestToldToEnd(t *testing.T) {
	job := kube.Empty(jobGVK)
	_ = unstructured.SetNestedField(job.Object, int64(600), pathDeadline...)
	_ = unstructured.SetNestedField(job.Object, int64(1), "spec", "parallelism")
	for _, by := range CacheByObject(Options{Namespace: "system"}) {
		if _, err := by.Transform(job); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(map[string]any{"activeDeadlineSeconds": int64(600)}, job.Object["spec"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	ending := job.DeepCopy()
	_ = unstructured.SetNestedSlice(ending.Object, []any{map[string]any{"type": "FailureTarget", "status": "True", "lastTransitionTime": noon.Format(time.RFC3339)}}, "status", "conditions")
	over := ending.DeepCopy()
	_ = unstructured.SetNestedSlice(over.Object, []any{map[string]any{"type": "Failed", "status": "True"}}, "status", "conditions")
	held := job.DeepCopy()
	_ = unstructured.SetNestedSlice(held.Object, []any{map[string]any{"type": "Suspended", "status": "True", "lastTransitionTime": noon.Format(time.RFC3339)}}, "status", "conditions")
	goesOn := job.DeepCopy()
	_ = unstructured.SetNestedSlice(goesOn.Object, []any{map[string]any{"type": "Suspended", "status": "False", "lastTransitionTime": noon.Format(time.RFC3339)}}, "status", "conditions")
	gone := job.DeepCopy()
	gone.SetDeletionTimestamp(ptr.To(metav1.NewTime(noon)))
	for name, test := range map[string]struct {
		before, after *unstructured.Unstructured
		passes        bool
	}{
		"it runs": {job, job, false}, "told": {job, ending, true}, "still": {ending, ending, false}, "over": {ending, over, true}, "done": {over, over, false}, "deleted": {job, gone, true},
		"suspended": {job, held, true}, "it goes on": {held, goesOn, false},
	} {
		if got := ended.Update(event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}); got != test.passes {
			t.Errorf("%s: it passes: %v", name, got)
		}
	}
}

// Where a connector goes behind which something may sleep, its plan says so, and not only when it is to wake: the spec
// need not name it any more.
func TestConnectorOfWhatSleeps(t *testing.T) {
	for asleep, woken := range []int{0, 1} {
		plan := newPlan(v1alpha1.StrategyParallel, 1)
		plan.Status.Asleep = int32(asleep)
		r, _ := newReconciler(t, plan)
		if got := r.ofConnector(t.Context(), &v1alpha1.K8SCluster{}); len(got) != woken {
			t.Errorf("%d asleep: %v", asleep, got)
		}
	}
	looked := &v1alpha1.K8SCluster{Status: v1alpha1.ConnectorStatus{Ready: true, LastValidated: ptr.To(metav1.NewTime(noon))}}
	for name, change := range map[string]func(*v1alpha1.K8SCluster){
		"":           func(c *v1alpha1.K8SCluster) { c.Status.LastValidated = ptr.To(metav1.NewTime(noon.Add(time.Hour))) },
		"ready":      func(c *v1alpha1.K8SCluster) { c.Status.Ready = false },
		"message":    func(c *v1alpha1.K8SCluster) { c.Status.Message = "Forbidden" },
		"generation": func(c *v1alpha1.K8SCluster) { c.Generation++ },
		"another":    func(c *v1alpha1.K8SCluster) { c.UID = "another" },
		"annotation": func(c *v1alpha1.K8SCluster) { c.Annotations = map[string]string{"a": "b"} },
	} {
		changed := looked.DeepCopy()
		change(changed)
		if got := connectorChanged.Update(event.UpdateEvent{ObjectOld: looked, ObjectNew: changed}); got != (name != "") {
			t.Errorf("%q: it passes: %v", name, got)
		}
	}
}

// Nobody else's Job is taken for that of an attempt which was not made yet: it might never end.
func TestForeignJob(t *testing.T) {
	for _, done := range []bool{false, true} {
		plan, n := attempting(v1alpha1.OperationShutdown, "a")
		attempt := only(plan)
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: attempt}}
		if done {
			job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		}
		c := fakes.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(pointOf(n, "a", attempt), job).Build()
		s := &scope{Reconciler: &Reconciler{Client: c, Live: c, Options: Options{Namespace: "system"}}, owner: plan, now: noon}
		if err := s.observeAttempts(t.Context()); err != nil {
			t.Fatal(err)
		}
		if o, ended := s.seen.Outcomes[attempt]; !ended || o.completed || o.unmade || !strings.Contains(o.message, "Job system/"+attempt) {
			t.Errorf("finished %v: %v, %+v", done, ended, o)
		}
	}
}

// So has the pod of a Job that somebody has deleted: then it is made again.
func TestLostPod(t *testing.T) {
	for late, held := range map[time.Duration]bool{-time.Second: true, 0: false} {
		plan, n := attempting(v1alpha1.OperationShutdown, "a")
		attempt := only(plan)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "system", Name: "p", Labels: map[string]string{batchv1.JobNameLabel: attempt},
			Finalizers: []string{"example.com/held"}, DeletionTimestamp: ptr.To(metav1.NewTime(noon.Add(-defaultActiveDeadline - lostAfter - late))),
		}}
		c := fakes.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(pointOf(n, "a", attempt), pod).Build()
		s := &scope{Reconciler: &Reconciler{Client: c, Live: c, Options: Options{Namespace: "system"}}, owner: plan, now: noon}
		if err := s.observeAttempts(t.Context()); err != nil {
			t.Fatal(err)
		}
		p := facts{plan: plan, seen: s.seen, registry: registry, namespace: "system", now: noon}.decide()
		if s.seen.Held[attempt] != held || (len(p.Launch) == 0) != held {
			t.Errorf("held %v, launched %v", s.seen.Held, p.Launch)
		}
	}
}

// only is the name of the only attempt.
func only(plan *v1alpha1.HibernatePlan) string { return name(plan.Status.Executions[0].JobRef) }

// Of more attempts than a pass looks at, those that it has not looked at are not made: nothing is known of their
// restore points.
func TestMoreThanOnePass(t *testing.T) {
	var targets []string
	for i := range 3 * perPass {
		targets = append(targets, fmt.Sprintf("t%02d", i))
	}
	plan, n := attempting(v1alpha1.OperationWakeUp, targets...)
	var objects []client.Object
	for i, e := range plan.Status.Executions {
		objects = append(objects, pointOf(n, e.Target, ""))
		if i < perPass { // the manager was away since
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: name(e.JobRef)}}
			marks.Set(plan, job)
			job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}
			objects = append(objects, job)
		}
	}
	c := fakes.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).Build()
	s := &scope{Reconciler: &Reconciler{Client: c, Live: c, made: lru.New(9), permitted: lru.New(9), recorded: lru.New(9), tried: lru.New(9), Options: Options{Namespace: "system"}}, owner: plan, now: noon}
	if err := s.observeAttempts(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := facts{plan: plan, seen: s.seen, registry: registry, namespace: "system", now: noon}.decide()
	if len(s.seen.Outcomes) != perPass || !s.more {
		t.Errorf("%d outcomes, more: %v", len(s.seen.Outcomes), s.more)
	}
	for _, i := range p.Launch {
		if target := plan.Status.Executions[i].Target; s.points[target] == nil {
			t.Errorf("the Job of %s is to be made, and its restore point was not read", target)
		}
	}
}

// What was left asleep wakes where its restore point says, if the plan may act there now; in another cluster nobody asks.
func TestLeftIn(t *testing.T) {
	plan := newPlan(v1alpha1.StrategyParallel, 1)
	plan.Finalizers = []string{v1alpha1.Finalizer}
	plan.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideAwake}
	for name, test := range map[string]struct {
		namespaces, connector, want string
		in                          []string
	}{
		"its own":            {plan.Namespace, "", "", []string{plan.Namespace}},
		"another":            {"other", "", v1alpha1.ReasonNotGranted, []string{"other"}},
		"one that is gone":   {"gone", "", "", []string{"gone"}},
		"of another cluster": {"other", "away", "", nil},
	} {
		target := `{"name": "a", "type": "noop"}`
		cluster := &v1alpha1.K8SCluster{ObjectMeta: metav1.ObjectMeta{Namespace: plan.Namespace, Name: "away"}}
		if test.connector != "" {
			target = fmt.Sprintf(`{"name": "a", "type": "noop", "connectorRef": {"kind": "K8SCluster", "name": %q}}`, test.connector)
		}
		point := pointOf(names{namespace: "system", plan: plan}, "a", "")
		point.Labels = map[string]string{labelRestorePoint: keyLabel(client.ObjectKeyFromObject(plan))}
		point.Annotations[annotationNamespaces] = test.namespaces
		point.Data = map[string]string{keyTarget: target}
		r, _ := newReconciler(t, plan.DeepCopy(), cluster, point, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: plan.Namespace}})
		s := &scope{Reconciler: r, owner: plan, now: noon}
		if err := s.observeLeft(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := ""
		if s.seen.Problem != nil {
			got = s.seen.Problem.reason
		}
		if got != test.want || !slices.Equal(s.seen.LeftIn["a"], test.in) {
			t.Errorf("%s: %q, in %v", name, got, s.seen.LeftIn)
		}
	}
}

// What was taken out of the plan and is awake says nothing of it any more, whatever becomes of its connector.
func TestConnectorOfWhatWasTakenOut(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1alpha1.HibernatePlan)
		told   bool
	}{
		"awake": {func(p *v1alpha1.HibernatePlan) { p.Spec.Targets = p.Spec.Targets[:1] }, false},
		"asleep": {func(p *v1alpha1.HibernatePlan) {
			p.Spec.Targets, p.Status.Executions[1].Asleep = p.Spec.Targets[:1], true
		}, true},
		"awake, and put back": {func(*v1alpha1.HibernatePlan) {}, true},
	} {
		plan, n := attempting(v1alpha1.OperationShutdown, "a", "b")
		plan.Spec.Targets[1].ConnectorRef = &v1alpha1.ConnectorRef{Kind: "K8SCluster", Name: "gone"}
		cycle := resolve(*plan.Spec.DeepCopy())
		for i := range plan.Status.Executions {
			plan.Status.Executions[i] = execution{Target: n.plan.Spec.Targets[i].Name, Executor: "noop", State: v1alpha1.ExecutionCompleted}
		}
		test.change(plan)
		r, _ := newReconciler(t, plan)
		s := &scope{Reconciler: r, owner: plan, now: noon, seen: Observed{Cycle: &cycle}}
		if err := s.observeReach(t.Context()); err != nil || (s.seen.Problem != nil) != test.told {
			t.Errorf("%s: %v, %+v", name, err, s.seen.Problem)
		}
	}
}
