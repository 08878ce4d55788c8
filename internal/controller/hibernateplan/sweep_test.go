package hibernateplan

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
)

// What of a Job whose plan was forced away cannot be cleared away, as by a policy of others, keeps no other Job from that, nor a plan of
// the name from sleeping and waking.
func TestSweepThatFails(t *testing.T) {
	plan := asleepNow()
	former := plan.DeepCopy()
	former.UID = "uid-0"
	objects := []client.Object{plan}
	for _, name := range []string{"first", "second"} {
		job := &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: name},
			Status:     batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}},
		}
		job.Labels = map[string]string{v1alpha1.LabelTarget: name}
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: name}}
		role := names{namespace: "system", plan: former}.permission(name)
		for _, o := range []client.Object{job, account, role} {
			marks.Set(former, o)
			objects = append(objects, o)
		}
	}
	r, c := newReconciler(t, objects...)
	denied := errors.New("a policy denies it")
	r.Live = interceptor.NewClient(c, interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
		if o.GetObjectKind().GroupVersionKind() == roleGVK && o.GetLabels()[v1alpha1.LabelTarget] == "first" {
			return denied
		}
		return c.Delete(ctx, o, opts...)
	}})
	all := r.sweeping(reconcile.AsReconciler(c, r))
	for range 4 {
		if _, err := all.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(plan)}); err != nil && !errors.Is(err, denied) {
			t.Fatal(err)
		}
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(plan), plan); err != nil || plan.Status.CurrentCycle == nil || plan.Status.Phase != v1alpha1.PhaseHibernating {
		t.Errorf("it does not begin: %+v, %v", plan.Status, err)
	}
	gone := func(target string) {
		t.Helper()
		account, role := c.Get(t.Context(), client.ObjectKey{Namespace: "system", Name: target}, &corev1.ServiceAccount{}), c.Get(t.Context(), names{namespace: "system", plan: former}.role(target), &rbacv1.Role{})
		if !apierrors.IsNotFound(account) || !apierrors.IsNotFound(role) {
			t.Errorf("what the runner of %s was granted is there, and nobody looks for it any more: %v, %v", target, account, role)
		}
	}
	gone("second")
	r.Live = c
	if _, err := all.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(plan)}); err != nil {
		t.Fatal(err)
	}
	gone("first")
}

// What others have stopped of a plan that was forced away, as what manages queues of Jobs does, never says that it has ended: when its
// runner must have given up, it is cleared away with what that was granted, and not sooner.
func TestSweepOfWhatIsStopped(t *testing.T) {
	former := asleepNow()
	former.UID = "uid-0"
	stopped := metav1.NewTime(noon.Add(-10 * time.Minute))
	for name, stop := range map[string]func(*batchv1.Job){
		"suspended": func(job *batchv1.Job) {
			job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue, LastTransitionTime: stopped}}
		},
		"told to end, and its node does not answer": func(job *batchv1.Job) {
			job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue, LastTransitionTime: stopped}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "attempt"}, Spec: batchv1.JobSpec{ActiveDeadlineSeconds: ptr.To[int64](3600)}}
			stop(job)
			job.Labels = map[string]string{v1alpha1.LabelTarget: "a"}
			role := names{namespace: "system", plan: former}.permission("a")
			marks.Set(former, job)
			marks.Set(former, role)
			r, c := newReconciler(t, job, role)
			request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(former)}
			left := func() (jobs int, granted bool) {
				err := c.Get(t.Context(), client.ObjectKeyFromObject(role), role)
				if client.IgnoreNotFound(err) != nil {
					t.Fatal(err)
				}
				return len(jobsOf(t, c)), err == nil
			}
			result, err := r.sweeping(reconcile.AsReconciler(c, r)).Reconcile(t.Context(), request)
			if jobs, granted := left(); err != nil || jobs != 1 || !granted || result.RequeueAfter != 50*time.Minute+lostAfter {
				t.Fatalf("%d Jobs, granted: %v, looks again in %s, %v", jobs, granted, result.RequeueAfter, err)
			}
			r.Options.Clock.(*clocktesting.FakePassiveClock).SetTime(noon.Add(result.RequeueAfter))
			if _, err = r.sweeping(reconcile.AsReconciler(c, r)).Reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			if jobs, granted := left(); jobs != 0 || granted {
				t.Errorf("%d Jobs, granted: %v", jobs, granted)
			}
		})
	}
}

// What plans have left that were forced away, without a Job that could tell of it, is cleared away every hour, and so are the Roles of
// targets that were taken out of a plan. Restore points stay, and what is needed: by a runner that may act, by a night that goes on, by a
// target of a plan that the cache does not have yet.
func TestSweepOfWhatNobodyTells(t *testing.T) {
	of := func(name, uid string) *v1alpha1.HibernatePlan {
		plan := newPlan(v1alpha1.StrategyParallel, 1)
		plan.Name, plan.UID = name, types.UID(uid)
		return plan
	}
	var objects []client.Object
	has := func(plan *v1alpha1.HibernatePlan, targets ...string) {
		n := names{namespace: "system", plan: plan, cycle: &v1alpha1.Cycle{ID: 1}}
		for _, target := range targets {
			log, point := n.log(target), pointOf(n, target, "attempt")
			point.Name = string(plan.UID) + "-" + target // those of two plans of a name are the same
			all := []client.Object{n.permission(target), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: log.Namespace, Name: log.Name}}}
			for _, o := range all {
				marks.Set(plan, o)
			}
			objects = append(objects, append(all, point)...)
		}
		revision := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: n.revision(1).Name}}
		marks.Set(plan, revision)
		objects = append(objects, revision)
	}
	gone, again, runs, asleep, behind := of("gone", "uid-1"), of("again", "uid-2"), of("runs", "uid-3"), of("asleep", "uid-4"), of("behind", "uid-5")
	for _, plan := range []*v1alpha1.HibernatePlan{gone, again, runs, asleep, behind} {
		has(plan, "a", "b")
	}
	again = of("again", "uid-6")
	has(again, "a", "b")
	asleep.Status.CurrentCycle = &v1alpha1.Cycle{ID: 1}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "job"}}
	marks.Set(runs, job)
	r, c := newReconciler(t, append(objects, again, asleep, behind, job)...)
	r.Client = interceptor.NewClient(c, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, at client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if at.Name == behind.Name {
			return apierrors.NewNotFound(schema.GroupResource{}, at.Name)
		}
		return c.Get(ctx, at, o, opts...)
	}})
	if err := r.sweepOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	left := map[string]int{}
	for kind, list := range map[string]client.ObjectList{"Roles": &rbacv1.RoleList{}, "ConfigMaps": &corev1.ConfigMapList{}, "ControllerRevisions": &appsv1.ControllerRevisionList{}} {
		if err := c.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		if err := meta.EachListItem(list, func(item runtime.Object) error {
			if uid := item.(client.Object).GetLabels()[v1alpha1.LabelUID]; uid != "" {
				left[kind+" of "+uid]++
				return nil
			}
			left["restore points"]++
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]int{"restore points": 12}
	for _, uid := range []string{"uid-3", "uid-4", "uid-5", "uid-6"} {
		want["Roles of "+uid], want["ConfigMaps of "+uid], want["ControllerRevisions of "+uid] = 2, 2, 1
	}
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}
