package hibernateplan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/runner"
)

// hanging has every create take so long, of what is there already, too: the API server asks admission webhooks first.
func hanging(c client.WithWatch, long time.Duration) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(long):
			return c.Create(ctx, o, opts...)
		}
	}})
}

// A webhook of others that hangs, and is to be ignored, takes more time for what an attempt needs than a pass has. The next pass goes on
// where that one has ended.
func TestAttemptOfManyPasses(t *testing.T) {
	for name, test := range map[string]struct {
		long       time.Duration
		namespaces int
		away       bool
	}{
		"many namespaces":    {long: 10 * time.Second, namespaces: 8},
		"several webhooks":   {long: 35 * time.Second, namespaces: 1},
		"in another cluster": {long: 35 * time.Second, away: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				plan, needs := asleepNow(), listed{}
				objects := []client.Object{plan}
				for i := range test.namespaces {
					needs.names = append(needs.names, fmt.Sprintf("shop-%d", i))
					objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
						Name: needs.names[i], Annotations: map[string]string{v1alpha1.AnnotationAllowedNamespaces: "team"},
					}})
				}
				if test.away {
					objects = append(objects, away(plan)...)
				}
				r, c := newReconciler(t, objects...)
				r.Live, r.Options.Executors, r.Options.Clock = hanging(c, test.long), executor.Registry{"noop": needs}, clock.RealClock{}
				const passes = 12
				var err error
				for range passes {
					now := &v1alpha1.HibernatePlan{}
					if err := c.Get(t.Context(), client.ObjectKeyFromObject(plan), now); err != nil {
						t.Fatal(err)
					}
					ctx, cancel := context.WithTimeout(t.Context(), timeout)
					_, err = r.Reconcile(ctx, now)
					cancel()
				}
				if jobs := jobsOf(t, c); len(jobs) != 1 || err != nil {
					t.Errorf("%d Jobs after %d passes: %v", len(jobs), passes, err)
				}
			})
		})
	}
}

// What is known to have been made is made again with a Job that somebody has deleted: he may have deleted that, too.
func TestJobThatIsDeletedWithItsRights(t *testing.T) {
	plan := asleepNow()
	r, c := newReconciler(t, plan)
	job := theJob(t, r, c, plan)
	role := roleOf(plan)
	if err := errors.Join(c.Delete(t.Context(), job), c.Delete(t.Context(), role)); err != nil {
		t.Fatal(err)
	}
	theJob(t, r, c, plan)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(role), role); err != nil {
		t.Errorf("its runner may not write: %v", err)
	}
}

// A runner that hangs while its plan is to wake is stopped, and what it has put to sleep is woken when its pod has ended, and no sooner.
func TestStopsARunner(t *testing.T) {
	for name, plan := range map[string]*v1alpha1.HibernatePlan{"one target": asleepNow(), "many": large(300)} {
		t.Run(name, func(t *testing.T) { stopsARunner(t, plan) })
	}
}

func stopsARunner(t *testing.T, plan *v1alpha1.HibernatePlan) {
	t.Helper()
	r, c := newReconciler(t, plan)
	r.Logs = podLogs{func(_, _ string, o *corev1.PodLogOptions) stream {
		return kubelet{lines: []string{"it hangs\n"}, asked: *o}
	}}
	job := theJob(t, r, c, plan)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: job.Namespace, Name: "p", Finalizers: []string{"test/acts"}, Labels: map[string]string{batchv1.JobNameLabel: job.Name},
	}, Spec: job.Spec.Template.Spec, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	capture(t, c)
	_, plan = pass(t, r, plan)
	plan.Spec.Override.State = v1alpha1.OverrideAwake
	if err := errors.Join(c.Create(t.Context(), pod), c.Update(t.Context(), plan)); err != nil {
		t.Fatal(err)
	}
	passes := func(d time.Duration) []batchv1.Job {
		clock := r.Options.Clock.(*clocktesting.FakePassiveClock)
		clock.SetTime(clock.Now().Add(d))
		for range 6 {
			_, plan = pass(t, r, plan)
		}
		return jobsOf(t, c)
	}
	if jobs := passes(50 * time.Second); len(jobs) != 1 || jobs[0].UID != job.UID {
		t.Fatalf("before long its Job is %+v", jobs)
	}
	if jobs := passes(20 * time.Second); len(jobs) != 0 {
		t.Fatalf("it is not stopped, or something acts beside it: %+v", jobs)
	}
	pod.Finalizers = nil
	if err := errors.Join(c.Update(t.Context(), pod), c.Delete(t.Context(), pod)); err != nil {
		t.Fatal(err)
	}
	if jobs := passes(10 * time.Second); len(jobs) != 1 || jobs[0].Labels[v1alpha1.LabelOperation] != "wakeup" {
		t.Errorf("nothing wakes: %+v\n%+v", jobs, plan.Status)
	}
	kept := &corev1.ConfigMap{}
	if err := c.Get(t.Context(), (names{namespace: "system", plan: plan}).log(plan.Spec.Targets[0].Name), kept); err != nil || kept.Data[job.Name+".log"] != "it hangs\n" {
		t.Errorf("why it has hung is not to be found: %v, %v", kept.Data, err)
	}
}

// A namespace that takes no RoleBinding in the morning, as by a policy that came over night, keeps asleep what is in it, and nothing else.
func TestWakesBesideANamespaceThatRefuses(t *testing.T) {
	bindings := schema.GroupResource{Group: rbacv1.GroupName, Resource: "rolebindings"}
	for name, test := range map[string]struct {
		refusal error
		refuses []string
		after   time.Duration
		wakes   bool
	}{
		"one":                    {apierrors.NewBadRequest("a policy denies it"), []string{"shop"}, 0, true},
		"one that may change":    {apierrors.NewForbidden(bindings, "x", errors.New("a policy denies it")), []string{"shop"}, 0, false},
		"one that does not":      {apierrors.NewForbidden(bindings, "x", errors.New("a policy denies it")), []string{"shop"}, patience, true},
		"all":                    {apierrors.NewBadRequest("a policy denies it"), []string{"shop", "team"}, 0, false},
		"the one of the manager": {apierrors.NewBadRequest("a policy denies it"), []string{"system"}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := newBroadNight(t, false, granting("shop"))
			n.complete()
			n.morning()
			n.of.Live = interceptor.NewClient(n.client, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if o.GetObjectKind().GroupVersionKind() == bindingGVK && slices.Contains(test.refuses, o.GetNamespace()) {
					return test.refusal
				}
				return c.Create(ctx, o, opts...)
			}})
			clock := n.of.Options.Clock.(*clocktesting.FakePassiveClock)
			for range 4 {
				now := &v1alpha1.HibernatePlan{}
				if err := n.client.Get(t.Context(), client.ObjectKeyFromObject(n.plan), now); err != nil {
					t.Fatal(err)
				}
				if now.Status.Executions[0].State == v1alpha1.ExecutionRunning {
					clock.SetTime(now.Status.Executions[0].StartedAt.Add(test.after))
				}
				if _, err := n.of.Reconcile(t.Context(), now); err != nil && !errors.Is(err, test.refusal) {
					t.Fatal(err)
				}
				n.plan = now
			}
			jobs := jobsOf(t, n.client)
			if wakes := len(jobs) == 1; wakes != test.wakes {
				t.Fatalf("%d Jobs: %+v", len(jobs), n.plan.Status.Executions)
			}
			if test.wakes {
				if in := grantedIn(t, n.client, jobs[0].Name); in != "system,team" {
					t.Errorf("its runner may act in %s", in)
				}
				if in := n.complete(); in != "shop,team" {
					t.Errorf("its runner is told %s", in)
				}
			}
		})
	}
}

// Why a namespace has taken no RoleBinding is told by the attempt that could not wake what is in it, beside what its runner says, however
// long either is, and not kept in mind any longer.
func TestTellsOfANamespaceThatRefuses(t *testing.T) {
	const denial, said = "a policy denies it", "waking up 1 of 2 resources: shop/web: forbidden"
	long := strings.Repeat(" and more", 100)
	for name, test := range map[string]struct {
		denial, said string
		tells        []string
	}{
		"in a few words":        {denial, said, []string{denial + "; " + said}},
		"a policy of many":      {denial + long, said, []string{denial + " and more", "…; " + said}},
		"a runner of many":      {denial, said + long, []string{denial + "; " + said + " and more"}},
		"both of more than fit": {denial + long, said + long, []string{denial + " and more", "…; " + said + " and more"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newBroadNight(t, false, granting("shop"))
			n.complete()
			n.morning()
			n.of.Live = interceptor.NewClient(n.client, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if o.GetObjectKind().GroupVersionKind() == bindingGVK && o.GetNamespace() == "shop" {
					return apierrors.NewBadRequest(test.denial)
				}
				return c.Create(ctx, o, opts...)
			}})
			job, _ := n.job()
			point := n.point()
			point.Data[runner.KeyResult] = fmt.Sprintf(`{"execution":%q,"reason":"Forbidden","message":%q,"resources":2,"done":1}`, job.Name, test.said)
			job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}
			if err := errors.Join(n.client.Update(t.Context(), point), n.client.Status().Update(t.Context(), job)); err != nil {
				t.Fatal(err)
			}
			n.passes(3)
			e := n.plan.Status.Executions[0]
			for _, said := range test.tells {
				if !strings.Contains(e.Message, said) {
					t.Errorf("it does not say %q: %q", said, e.Message)
				}
			}
			if e.State != v1alpha1.ExecutionPending || len(e.Message) > maxMessage+len("…") {
				t.Errorf("%+v", e)
			}
			if n.of.made.Len() > 0 {
				t.Errorf("%d objects of it are kept in mind", n.of.made.Len())
			}
		})
	}
}

// grantedIn are the namespaces that the runner of an attempt may act in.
func grantedIn(t *testing.T, c client.Client, attempt string) string {
	t.Helper()
	var all rbacv1.RoleBindingList
	if err := c.List(t.Context(), &all, client.MatchingLabels{labelExecution: attempt}); err != nil {
		t.Fatal(err)
	}
	var in []string
	for _, b := range all.Items {
		in = append(in, b.Namespace)
	}
	slices.Sort(in)
	return join(in)
}

// Each refusal takes as long as a webhook that hangs, and is not waited for again in every pass: there may be more than one has time for.
func TestWakesBesideNamespacesThatRefuseSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newBroadNight(t, false, granting("shop"))
		others := []string{"shop-2", "shop-3"}
		for _, name := range others {
			if err := n.client.Create(t.Context(), granting(name)); err != nil {
				t.Fatal(err)
			}
		}
		n.of.Options.Executors = executor.Registry{"noop": listed{names: []string{"shop", "shop-2", "shop-3", "team"}}}
		n.complete()
		n.morning()
		n.of.Live = interceptor.NewClient(n.client, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if o.GetObjectKind().GroupVersionKind() != bindingGVK || !slices.Contains(others, o.GetNamespace()) {
				return c.Create(ctx, o, opts...)
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(40 * time.Second):
				return apierrors.NewBadRequest("a policy denies it")
			}
		}})
		for range 6 {
			now := &v1alpha1.HibernatePlan{}
			if err := n.client.Get(t.Context(), client.ObjectKeyFromObject(n.plan), now); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			_, _ = n.of.Reconcile(ctx, now) // which may come to the end of its time
			cancel()
		}
		jobs := jobsOf(t, n.client)
		if len(jobs) != 1 {
			t.Fatalf("%d Jobs", len(jobs))
		}
		if in := grantedIn(t, n.client, jobs[0].Name); in != "shop,system,team" {
			t.Errorf("its runner may act in %s", in)
		}
	})
}

// keeping has no RoleBinding of some namespaces deleted.
func keeping(c client.WithWatch, denial error, namespaces ...string) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
		if o.GetObjectKind().GroupVersionKind() == bindingGVK && slices.Contains(namespaces, o.GetNamespace()) {
			return denial
		}
		return c.Delete(ctx, o, opts...)
	}})
}

// try is a pass that may fail by an error, and says whether there is a plan after it.
func (n *broadNight) try(may error) bool {
	n.Helper()
	now := &v1alpha1.HibernatePlan{}
	if err := n.client.Get(n.Context(), client.ObjectKeyFromObject(n.plan), now); err != nil {
		n.Fatal(err)
	}
	if _, err := n.of.Reconcile(n.Context(), now); err != nil && !errors.Is(err, may) {
		n.Fatal(err)
	}
	err := n.client.Get(n.Context(), client.ObjectKeyFromObject(n.plan), now)
	if client.IgnoreNotFound(err) != nil {
		n.Fatal(err)
	}
	n.plan = now
	return err == nil
}

// at sets the clock.
func (n *broadNight) at(now time.Time) {
	n.of.Options.Clock.(*clocktesting.FakePassiveClock).SetTime(now)
}

// rightsLeft are the Events of what was left.
func rightsLeft(told *events.FakeRecorder) (left string) {
	for len(told.Events) > 0 {
		if event := <-told.Events; strings.Contains(event, v1alpha1.ReasonRightsLeft) {
			left += event
		}
	}
	return left
}

// A namespace that does not let go what a runner was granted in the evening, as one whose webhook sleeps by then, keeps nothing from waking,
// nor the status from telling how things are. What the manager's own namespace does not let go is waited for.
func TestWakesThoughANamespaceKeepsRights(t *testing.T) {
	denial := apierrors.NewInternalError(errors.New("failed calling webhook"))
	for name, test := range map[string]struct {
		keeps []string
		after time.Duration
		wakes bool
	}{
		"one, for a while":  {[]string{"shop"}, patience - time.Second, false},
		"one":               {[]string{"shop"}, patience, true},
		"all but our own":   {[]string{"shop", "team"}, patience, true},
		"that of a manager": {[]string{"system"}, time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			n, told := newBroadNight(t, false, granting("shop")), events.NewFakeRecorder(100)
			job, _ := n.job()
			n.of.Live, n.of.Recorder = keeping(n.client, denial, test.keeps...), told
			complete(t, n.client, n.plan, "a", job)
			for range 3 {
				n.try(denial)
			}
			if c := find(n.plan.Status.Conditions, v1alpha1.ConditionHibernated); n.plan.Status.Phase != v1alpha1.PhaseHibernated || c.Status != metav1.ConditionTrue {
				t.Errorf("in the evening it is %s: %+v", n.plan.Status.Phase, c)
			}
			began := n.of.Options.Clock.Now()
			n.at(began.Add(-time.Hour)) // which was ahead
			n.try(denial)
			n.at(began.Add(test.after - time.Hour))
			n.try(denial)
			n.morning()
			for range 4 {
				n.try(denial)
			}
			jobs := jobsOf(t, n.client)
			if wakes := len(jobs) == 1 && jobs[0].Labels[v1alpha1.LabelOperation] == "wakeup"; wakes != test.wakes || n.plan.Status.Phase != v1alpha1.PhaseWakingUp {
				t.Fatalf("in the morning it is %s, with %d Jobs: %+v", n.plan.Status.Phase, len(jobs), n.plan.Status.Executions)
			}
			left, want := rightsLeft(told), 0
			if test.wakes {
				want = len(test.keeps)
			}
			if strings.Count(left, "RoleBinding ") != want {
				t.Errorf("it is told: %q", left)
			}
			n.of.Live = n.client
			if test.wakes && n.complete() != "shop,team" {
				t.Errorf("it is woken in other namespaces")
			}
		})
	}
}

// What cannot be cleared away holds up a plan that goes until its deadline is over, and it was tried for a while, and no longer.
func TestGoesThoughItCannotBeClearedAway(t *testing.T) {
	denial := apierrors.NewForbidden(schema.GroupResource{Group: rbacv1.GroupName, Resource: "roles"}, "", errors.New("a policy denies it"))
	refuses := map[string]func(client.WithWatch) client.WithWatch{
		"its rights": func(c client.WithWatch) client.WithWatch { return keeping(c, denial, "system") },
		"its Roles": func(c client.WithWatch) client.WithWatch {
			return interceptor.NewClient(c, interceptor.Funcs{DeleteAllOf: func(context.Context, client.WithWatch, client.Object, ...client.DeleteAllOfOption) error {
				return denial
			}})
		},
	}
	for name, refusing := range refuses {
		for late, goes := range map[time.Duration]bool{patience - time.Second: false, patience: true} {
			t.Run(fmt.Sprintf("%s, %s", name, late), func(t *testing.T) {
				n := newBroadNight(t, false, granting("shop"))
				job, _ := n.job()
				n.of.Live = refusing(n.client)
				if err := n.client.Delete(t.Context(), n.plan); err != nil {
					t.Fatal(err)
				}
				n.try(denial)
				complete(t, n.client, n.plan, "a", job)
				deadline, left := n.plan.Status.DeletingSince.Add(defaultDeadline), true
				for _, now := range []time.Time{deadline.Add(-time.Second), deadline, deadline.Add(late)} {
					n.at(now)
					for i := 0; i < 4 && left; i++ {
						if left = n.try(denial); !left && now != deadline.Add(late) {
							t.Errorf("it has gone at %s", now)
						}
					}
				}
				if left == goes {
					t.Errorf("it is there: %t: %+v", left, n.plan.Status)
				}
				if n.point() == nil {
					t.Error("and its restore point with it")
				}
			})
		}
	}
}
