package hibernateplan

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
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
	"k8s.io/utils/lru"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
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
	all := kube.Sweeping(reconcile.AsReconciler(c, r), r.sweepAll)
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

// What of such a Job hangs while it is cleared away, as by a webhook of others, takes a quarter of the time of who has the name now.
func TestSweepThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		former := asleepNow()
		former.UID = "uid-0"
		job := &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "attempt", Labels: map[string]string{v1alpha1.LabelTarget: "a"}},
			Status:     batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}},
		}
		role := names{namespace: "system", plan: former}.permission("a")
		marks.Set(former, job)
		marks.Set(former, role)
		r, c := newReconciler(t, job, role)
		hung := 0
		r.Live = interceptor.NewClient(c, interceptor.Funcs{Delete: func(ctx context.Context, _ client.WithWatch, _ client.Object, _ ...client.DeleteOption) error {
			hung++
			<-ctx.Done()
			return ctx.Err()
		}})
		all := kube.Sweeping(reconcile.AsReconciler(c, r), r.sweepAll)
		for range 9 {
			_, _ = all.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(former)})
		}
		if hung != 1 {
			t.Errorf("it hangs %d times in a row", hung)
		}
	})
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
			result, err := kube.Sweeping(reconcile.AsReconciler(c, r), r.sweepAll).Reconcile(t.Context(), request)
			if jobs, granted := left(); err != nil || jobs != 1 || !granted || result.RequeueAfter != 50*time.Minute+lostAfter {
				t.Fatalf("%d Jobs, granted: %v, looks again in %s, %v", jobs, granted, result.RequeueAfter, err)
			}
			r.Options.Clock.(*clocktesting.FakePassiveClock).SetTime(noon.Add(result.RequeueAfter))
			if _, err = kube.Sweeping(reconcile.AsReconciler(c, r), r.sweepAll).Reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			if jobs, granted := left(); jobs != 0 || granted {
				t.Errorf("%d Jobs, granted: %v", jobs, granted)
			}
		})
	}
}

// needs is what an attempt of a plan has that was to have a Job, in another cluster and in this one.
func needs(plan *v1alpha1.HibernatePlan, attempt string) (all []client.Object) {
	at := metav1.ObjectMeta{Namespace: "system", Name: attempt}
	shop := bindingOf("shop", attempt)
	for _, o := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: at}, &corev1.Secret{ObjectMeta: at}, &rbacv1.RoleBinding{ObjectMeta: at},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: shop.Namespace, Name: shop.Name}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: attempt}},
	} {
		o.SetLabels(map[string]string{labelExecution: attempt})
		marks.Set(plan, o)
		all = append(all, o)
	}
	return all
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
		objects = append(append(objects, revision), needs(plan, "attempt-"+string(plan.UID))...)
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
	for kind, list := range map[string]client.ObjectList{"Roles": &rbacv1.RoleList{}, "ConfigMaps": &corev1.ConfigMapList{}, "ControllerRevisions": &appsv1.ControllerRevisionList{},
		"ServiceAccounts": &corev1.ServiceAccountList{}, "Secrets": &corev1.SecretList{}, "RoleBindings": &rbacv1.RoleBindingList{}, "ClusterRoleBindings": &rbacv1.ClusterRoleBindingList{}} {
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
		want["ServiceAccounts of "+uid], want["Secrets of "+uid], want["RoleBindings of "+uid], want["ClusterRoleBindings of "+uid] = 1, 1, 2, 1
	}
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

// What cannot be cleared away of an attempt is looked for again an hour later, while it has what tells of it.
func TestSweepOfAnAttemptLater(t *testing.T) {
	r, c := newReconciler(t, needs(asleepNow(), "attempt")...)
	hangs := true
	r.Live = interceptor.NewClient(c, interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
		if o.GetObjectKind().GroupVersionKind() == secretGVK && hangs {
			return apierrors.NewServiceUnavailable("etcd is starting")
		}
		return c.Delete(ctx, o, opts...)
	}})
	if err := r.sweepOnce(t.Context()); err == nil {
		t.Error("it does not say so")
	}
	hangs = false
	if err := r.sweepOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, list := range []client.ObjectList{&corev1.ServiceAccountList{}, &corev1.SecretList{}, &rbacv1.RoleBindingList{}, &rbacv1.ClusterRoleBindingList{}} {
		if err := c.List(t.Context(), list); err != nil || meta.LenList(list) > 0 {
			t.Errorf("%d of %T are left, %v", meta.LenList(list), list, err)
		}
	}
}

// editTargets has a plan of some targets, in off-hours or not.
func (n *broadNight) editTargets(state v1alpha1.OverrideState, targets ...string) {
	n.Helper()
	n.plan.Generation++
	n.plan.Spec.Targets = nil
	for _, name := range targets {
		n.plan.Spec.Targets = append(n.plan.Spec.Targets, v1alpha1.Target{Name: name, Type: "noop"})
	}
	n.wants(state)
}

// having are the targets of which there is something of a kind that is the plan's.
func (n *broadNight) having(list client.ObjectList, at func(target string) types.NamespacedName) (targets string) {
	n.Helper()
	if err := n.client.List(n.Context(), list, marks.Selector(n.plan)); err != nil {
		n.Fatal(err)
	}
	for _, target := range targetNames(4) {
		if err := meta.EachListItem(list, func(item runtime.Object) error {
			if client.ObjectKeyFromObject(item.(client.Object)) == at(target) {
				targets += target
			}
			return nil
		}); err != nil {
			n.Fatal(err)
		}
	}
	return targets
}

// What there is of a target that was taken out of its plan goes when a cycle is over, whether it was asleep by then or not: its Role with
// the first, and its log with the first that tells nothing of it. It is looked for where the plan was edited, and what is not the plan's
// stays.
func TestTakenOutIsTidied(t *testing.T) {
	plan := newPlan(v1alpha1.StrategyParallel, 4)
	plan.Finalizers, plan.Spec.Override = []string{v1alpha1.Finalizer}, &v1alpha1.Override{}
	other := plan.DeepCopy()
	other.Namespace, other.UID = "others", "uid-2"
	names := names{namespace: "system", plan: plan}
	stranger := names.permission("e") // which has neither our marks nor any of another plan
	objects := []client.Object{plan, stranger}
	for _, target := range targetNames(4) {
		log, others := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: names.log(target).Name}}, names.permission(target)
		others.Name += "-of-others"
		marks.Set(plan, log)
		marks.Set(other, others)
		objects = append(objects, log, others)
	}
	r, c := newReconciler(t, objects...)
	lists := 0
	r.Live = interceptor.NewClient(c, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if list.GetObjectKind().GroupVersionKind().Kind == "RoleList" {
			lists++
		}
		return c.List(ctx, list, opts...)
	}})
	n := &broadNight{t, plan, r, c}
	has := func(when, roles, logs string, looks int) {
		t.Helper()
		n.play("")
		if got := n.having(&rbacv1.RoleList{}, names.role); got != roles {
			t.Errorf("%s: there are Roles of %s, want %s", when, got, roles)
		}
		if got := n.having(&corev1.ConfigMapList{}, names.log); got != logs || lists != looks {
			t.Errorf("%s: there are logs of %s, want %s; it was looked %d times, want %d", when, got, logs, lists, looks)
		}
	}
	const asleep, awake = v1alpha1.OverrideHibernated, v1alpha1.OverrideAwake
	n.wants(asleep)
	has("in the first night", "abcd", "abcd", 0)
	n.editTargets(asleep, "a", "c", "d")
	if has("b is taken out", "abcd", "abcd", 0); n.sleeping() != "acd" {
		t.Errorf("asleep are %s", n.sleeping())
	}
	n.wants(awake)
	has("in the first morning", "acd", "abcd", 1)
	n.editTargets(awake, "a", "d")
	has("c is taken out by day", "acd", "abcd", 1)
	n.wants(asleep)
	has("in the second night", "acd", "abcd", 1)
	n.wants(awake)
	has("in the second morning", "ad", "ad", 2)
	for range 2 {
		n.wants(asleep)
		has("in a night like any other", "ad", "ad", 2)
		n.of = fresh(c, r.Live, r.Options)
		n.wants(awake)
		has("in a morning like any other, and of a manager that has just started", "ad", "ad", 2)
	}
	n.editTargets(awake, "a")
	n.of = fresh(c, r.Live, r.Options)
	n.wants(asleep)
	has("d is taken out, and a manager starts", "ad", "ad", 2)
	n.wants(awake)
	if has("in the last morning", "a", "a", 3); n.plan.Status.Tidied != n.plan.Generation {
		t.Errorf("it was tidy at %d, and is %d", n.plan.Status.Tidied, n.plan.Generation)
	}
	var all rbacv1.RoleList
	if err := c.List(t.Context(), &all); err != nil || len(all.Items) != 1+4+1 {
		t.Errorf("%d Roles are left, also of others: %v", len(all.Items), err)
	}
}

// untidy is a night of a plan of which a target was taken out, whose Role may not be deleted.
type untidy struct {
	*broadNight
	denied error
}

func newUntidy(t *testing.T) *untidy {
	t.Helper()
	plan := newPlan(v1alpha1.StrategyParallel, 2)
	plan.Finalizers, plan.Spec.Override = []string{v1alpha1.Finalizer}, &v1alpha1.Override{}
	r, c := newReconciler(t, plan)
	n := &untidy{&broadNight{t, plan, r, c}, errors.New("a policy denies it")}
	n.wants(v1alpha1.OverrideHibernated)
	n.play("")
	n.editTargets(v1alpha1.OverrideHibernated, "a")
	n.play("")
	r.Live = interceptor.NewClient(c, interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
		if o.GetObjectKind().GroupVersionKind() == roleGVK {
			return n.denied
		}
		return c.Delete(ctx, o, opts...)
	}})
	return n
}

// look is one pass.
func (n *untidy) look() error {
	n.Helper()
	n.read()
	_, err := n.of.Reconcile(n.Context(), n.plan)
	n.read()
	return err
}

func (n *untidy) read() {
	n.Helper()
	if err := n.client.Get(n.Context(), client.ObjectKeyFromObject(n.plan), n.plan); err != nil {
		n.Fatal(err)
	}
}

// goes has the plan in off-hours or not, and its Jobs come to their end.
func (n *untidy) goes(state v1alpha1.OverrideState) {
	n.Helper()
	n.read()
	n.wants(state)
	for range 8 {
		if err := n.look(); err != nil && !errors.Is(err, n.denied) {
			n.Fatal(err)
		}
		for _, job := range jobsOf(n.T, n.client) {
			if len(job.Status.Conditions) == 0 {
				complete(n.T, n.client, n.plan, "a", &job)
			}
		}
	}
}

// What there is of a target that was taken out and cannot be cleared away, as by a policy of others, is tried again for a while, and keeps
// the plan from sleeping no longer than that.
func TestTakenOutCannotBeTidied(t *testing.T) {
	n := newUntidy(t)
	n.goes(v1alpha1.OverrideAwake)
	if err := n.look(); !errors.Is(err, n.denied) || n.plan.Status.CurrentCycle == nil {
		t.Fatalf("it is not tried again: %v, %+v", err, n.plan.Status)
	}
	n.of.Options.Clock.(*clocktesting.FakePassiveClock).SetTime(noon.Add(patience))
	if err := n.look(); err != nil || n.plan.Status.CurrentCycle != nil {
		t.Errorf("its cycle is not over: %v, %+v", err, n.plan.Status)
	}
	n.of.Live = n.client
	n.wants(v1alpha1.OverrideHibernated)
	n.play("")
	n.wants(v1alpha1.OverrideAwake)
	n.play("")
	if got := n.having(&rbacv1.RoleList{}, names{namespace: "system", plan: n.plan}.role); got != "a" {
		t.Errorf("there are Roles of %s", got)
	}
}

// While what there is of a target that was taken out is tried to be cleared away the plan may be to sleep again: what wakes it then is
// still there, also for a manager that starts.
func TestTakenOutAndAsleepAgain(t *testing.T) {
	n := newUntidy(t)
	n.goes(v1alpha1.OverrideAwake)
	n.goes(v1alpha1.OverrideHibernated)
	if n.plan.Status.Asleep != 1 {
		t.Fatalf("%d targets are asleep", n.plan.Status.Asleep)
	}
	n.of.Live, n.of.revisions = n.client, lru.New(9)
	if n.goes(v1alpha1.OverrideAwake); n.plan.Status.CurrentCycle != nil || n.plan.Status.Asleep != 0 {
		t.Errorf("it does not wake: %+v", n.plan.Status)
	}
}
