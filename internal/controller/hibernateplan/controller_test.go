package hibernateplan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// first are the plans of a queue in the order that they are looked at, of one that is to begin and then of one a Job of
// which has ended.
func first(t *testing.T, r *Reconciler) (out []string) {
	t.Helper()
	q := priorityqueue.New[reconcile.Request]("test")
	defer q.ShutDown()
	q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "team", Name: "begins"}})
	job := func(version string, conditions ...batchv1.JobCondition) *batchv1.Job {
		return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version, Annotations: map[string]string{v1alpha1.AnnotationOwner: "team/ended"}}, Status: batchv1.JobStatus{Conditions: conditions}}
	}
	kube.EnqueueBy(marks.Owners(nil), r.priorityEnded).Update(t.Context(), event.UpdateEvent{
		ObjectOld: job("1"), ObjectNew: job("2", batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}),
	}, q)
	for q.Len() > 0 {
		request, _, _ := q.GetWithPriority()
		q.Done(request)
		out = append(out, request.Name)
	}
	return out
}

// However many plans are looked at at the same time, no more attempts of all of them are made than may be.
func TestAttemptsOfAllPlans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const plans = 3 * waiting
		var objects []client.Object
		for i := range plans {
			plan := asleepNow()
			plan.Name, plan.UID = fmt.Sprint("night-", i), types.UID(fmt.Sprint("uid-", i))
			objects = append(objects, plan)
		}
		r, c := newReconciler(t, objects...)
		r.Options.MaxConcurrentReconciles = 1
		r = fresh(c, c, r.Options)
		for _, plan := range objects {
			pass(t, r, plan.(*v1alpha1.HibernatePlan)) // which records an attempt
		}
		var now, most atomic.Int32
		r.Live = interceptor.NewClient(c, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			n := now.Add(1)
			defer now.Add(-1)
			for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); {
				seen = most.Load()
			}
			time.Sleep(long / 10)
			return c.Create(ctx, o, opts...)
		}})
		var all sync.WaitGroup
		for _, plan := range objects {
			all.Go(func() {
				at := &v1alpha1.HibernatePlan{}
				err := c.Get(t.Context(), client.ObjectKeyFromObject(plan), at)
				if err == nil {
					_, err = r.Reconcile(t.Context(), at)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if jobs := len(jobsOf(t, c)); jobs != plans || most.Load() != waiting {
			t.Errorf("%d Jobs, %d at the same time", jobs, most.Load())
		}
	})
}

// What is to begin goes before what has ended, until what some 500 attempts need is there: by the attempts that this
// manager has made, and not for longer than they are.
func TestPriorityOfEnded(t *testing.T) {
	plan := asleepNow()
	r, c := newReconciler(t, plan)
	r.made = lru.New(maxMade)
	before, after := []string{"begins", "ended"}, []string{"ended", "begins"}
	if got := first(t, r); !slices.Equal(got, before) {
		t.Errorf("at first %v", got)
	}
	for i := range 499 {
		for object := range 3 {
			r.made.Add(made{"another", helper{jobGVK, types.NamespacedName{Name: fmt.Sprint(i, "-", object)}}}, types.UID("uid"))
		}
	}
	job := theJob(t, r, c, plan)
	if got := first(t, r); !slices.Equal(got, before) || r.made.Len() != 1500 {
		t.Errorf("with 500 attempts, of which %d objects are known, %v", r.made.Len(), got)
	}
	r.made.Add(made{"another", helper{jobGVK, types.NamespacedName{Name: "one more"}}}, types.UID("uid"))
	if got := first(t, r); !slices.Equal(got, after) {
		t.Errorf("with one more %v", got)
	}
	complete(t, c, plan, "a", job)
	for range 3 {
		_, plan = pass(t, r, plan)
	}
	if got := first(t, r); !slices.Equal(got, before) || r.made.Len() != 1498 {
		t.Errorf("when one is cleared away, and %d objects are known, %v", r.made.Len(), got)
	}
}

// What fails, and is tried again after a minute, does not put off what the clock brings, nor what begins with it.
func TestDueWhateverFails(t *testing.T) {
	plan := newPlan(v1alpha1.StrategyParallel, 2)
	plan.Finalizers = []string{v1alpha1.Finalizer}
	plan.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideHibernated, Until: &metav1.Time{Time: noon.Add(time.Hour)}}
	r, c := newReconciler(t, plan)
	clock := clocktesting.NewFakePassiveClock(noon)
	r.Options.Clock = clock
	for range 4 {
		pass(t, r, plan)
	}
	for _, job := range jobsOf(t, c) {
		complete(t, c, plan, job.Annotations[v1alpha1.AnnotationTarget], &job)
	}
	pass(t, r, plan) // which takes in that they have ended
	denied := errors.New("denied by a policy of others")
	r.Live = interceptor.NewClient(c, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if strings.Contains(o.GetName(), "-a-") {
				return denied
			}
			return c.Delete(ctx, o, opts...)
		},
	})
	unreadable := interceptor.NewClient(c, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return denied },
	})
	failing := func(why string, want time.Duration) {
		t.Helper()
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(plan), plan); err != nil {
			t.Fatal(err)
		}
		if result, err := r.Reconcile(t.Context(), plan); err == nil || result.RequeueAfter != want {
			t.Errorf("%s: it is looked at again after %s, with error %v", why, result.RequeueAfter, err)
		}
	}
	failing("what has ended cannot be cleared away", time.Hour)
	clock.SetTime(noon.Add(time.Hour - 20*time.Second))
	r.Client = unreadable
	failing("nothing can be read", 20*time.Second)
	r.Client = c
	clock.SetTime(noon.Add(time.Hour))
	failing("the clock turns, and an attempt is recorded", atOnce)
	failing("it is made", 7*time.Hour)
	if !slices.ContainsFunc(jobsOf(t, c), func(job batchv1.Job) bool { return strings.Contains(job.Name, "-b-") }) {
		t.Error("the wake-up waits for what cannot be cleared away")
	}
}

// A plan that waits for others is looked at once more when that is recorded: a connector that came before wakes only those of which
// it is known that they wait.
func TestWhatComesBeforeItIsKnownWhoWaits(t *testing.T) {
	plan := newPlan(v1alpha1.StrategyParallel, 1)
	plan.Finalizers = []string{v1alpha1.Finalizer}
	plan.Spec.Targets[0].ConnectorRef = &v1alpha1.ConnectorRef{Kind: "K8SCluster", Name: "far"}
	r, c := newReconciler(t, plan)
	far := &v1alpha1.K8SCluster{ObjectMeta: metav1.ObjectMeta{Namespace: plan.Namespace, Name: "far"}}
	for pass, want := range []time.Duration{atOnce, time.Hour} {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(plan), plan); err != nil {
			t.Fatal(err)
		}
		if woken := len(r.ofConnector(t.Context(), far)); woken != pass {
			t.Errorf("before pass %d a connector wakes %d plans", pass+1, woken)
		}
		result, err := r.Reconcile(t.Context(), plan)
		if err != nil || result.RequeueAfter != want {
			t.Errorf("after pass %d it is looked at again after %s, with error %v, want %s", pass+1, result.RequeueAfter, err, want)
		}
	}
	if got := find(plan.Status.Conditions, v1alpha1.ConditionScheduled); got == nil || got.Reason != v1alpha1.ReasonConnectorMissing {
		t.Errorf("it is scheduled as %+v", got)
	}
}
