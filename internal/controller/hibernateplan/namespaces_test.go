package hibernateplan

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/executor"
)

// longNames are so many names of namespaces, each as long as can be.
func longNames(kind string, n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("%s-%0*d", kind, 62-len(kind), i))
	}
	return out
}

// newCrowdedNight is one of a plan of a target in so many namespaces, which are chosen by their labels, and another.
func newCrowdedNight(t *testing.T, namespaces []string, mode v1alpha1.BehaviorMode) *broadNight {
	t.Helper()
	plan := asleepNow()
	plan.Spec.Targets = []v1alpha1.Target{{Name: "a", Type: "chosen"}, {Name: "b", Type: "noop"}}
	plan.Spec.Behavior.Mode = mode
	objects := []client.Object{plan}
	for _, name := range namespaces {
		namespace := granting(name)
		namespace.Labels = map[string]string{"sleeps": "yes"}
		objects = append(objects, namespace)
	}
	r, c := newReconciler(t, objects...)
	r.Options.Executors = executor.Registry{"noop": anything{}, "chosen": chosen{}}
	return &broadNight{t, plan, r, c}
}

// A target in more namespaces than the ledger can tell of is refused before anything of it is put to sleep: Strict waits, and says so, until
// there are fewer.
func TestTooManyNamespaces(t *testing.T) {
	in := longNames("shop", 4200)
	n := newCrowdedNight(t, in, v1alpha1.BehaviorStrict)
	n.passes(4)
	said := find(n.plan.Status.Conditions, v1alpha1.ConditionScheduled)
	if said.Reason != v1alpha1.ReasonTooManyNamespaces || !strings.HasPrefix(said.Message, "Target a: it is in 4200 namespaces") || !strings.Contains(said.Message, "several targets") {
		t.Errorf("it says %s: %s", said.Reason, said.Message)
	}
	if jobs := jobsOf(t, n.client); len(jobs) > 0 || n.plan.Status.CurrentCycle != nil {
		t.Errorf("%d Jobs: %+v", len(jobs), n.plan.Status.CurrentCycle)
	}
	for _, name := range in[10:] {
		if err := n.client.Delete(t.Context(), granting(name)); err != nil {
			t.Fatal(err)
		}
	}
	if woken := n.of.ofNamespace(t.Context(), nil); len(woken) != 1 {
		t.Errorf("of namespaces that go learn %v", woken)
	}
	if n.passes(3); len(jobsOf(t, n.client)) != 2 {
		t.Errorf("it does not begin: %+v", n.plan.Status)
	}
}

// With BestEffort the others sleep, and wake.
func TestTooManyNamespacesBesideOthers(t *testing.T) {
	n := newCrowdedNight(t, longNames("shop", 4200), v1alpha1.BehaviorBestEffort)
	for range 5 {
		n.passes(4)
		for _, job := range jobsOf(t, n.client) {
			if len(job.Status.Conditions) == 0 {
				complete(t, n.client, n.plan, job.Labels[v1alpha1.LabelTarget], &job)
			}
		}
		n.later()
	}
	at := names{namespace: "system", plan: n.plan}.point("a")
	if err := n.client.Get(t.Context(), at, &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
		t.Errorf("something of a is put to sleep: %v", err)
	}
	degraded, e := find(n.plan.Status.Conditions, v1alpha1.ConditionDegraded), n.plan.Status.Executions
	if n.plan.Status.Phase != v1alpha1.PhaseHibernated || degraded.Reason != v1alpha1.ReasonPartly || !strings.Contains(degraded.Message, "a") {
		t.Fatalf("it is %s, %s: %s", n.plan.Status.Phase, degraded.Reason, degraded.Message)
	}
	if e[1].State != v1alpha1.ExecutionCompleted || e[0].State != v1alpha1.ExecutionFailed || !strings.Contains(e[0].Message, "4200 namespaces") || len(e[0].Namespaces) > 0 {
		t.Errorf("%+v", e)
	}
	n.morning()
	n.play("")
	if n.plan.Status.CurrentCycle != nil || n.plan.Status.Asleep > 0 {
		t.Errorf("it does not wake: %+v", n.plan.Status)
	}
}

// Those that a target may sleep in by an attempt before are told of by its entry, too: where they are other ones by the next attempt, all
// of them must fit, and what sleeps in them wakes.
func TestTooManyNamespacesByTheNextAttempt(t *testing.T) {
	n := newCrowdedNight(t, longNames("shop", 10), v1alpha1.BehaviorBestEffort)
	n.plan.Spec.Targets = n.plan.Spec.Targets[:1]
	if err := n.client.Update(t.Context(), n.plan); err != nil {
		t.Fatal(err)
	}
	n.fail()
	capture(t, n.client)
	n.later()
	n.plan.Status.Executions[0].Namespaces = longNames("former", 3700)
	if err := n.client.Status().Update(t.Context(), n.plan); err != nil || !n.plan.Status.Executions[0].Asleep {
		t.Fatal(err, n.plan.Status.Executions[0].Asleep)
	}
	for _, name := range longNames("stall", 300) {
		namespace := granting(name)
		namespace.Labels = map[string]string{"sleeps": "yes"}
		if err := n.client.Create(t.Context(), namespace); err != nil {
			t.Fatal(err)
		}
	}
	n.passes(4)
	s := &scope{Reconciler: n.of, owner: n.plan.DeepCopy()}
	if err := s.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e := s.owner.Status.Executions[0]; e.State != v1alpha1.ExecutionPending || !strings.Contains(e.Message, "4010 namespaces") || len(e.Namespaces) != 3700 || !e.Asleep {
		t.Errorf("%d namespaces, %s: %s", len(e.Namespaces), e.State, e.Message)
	}
	n.morning()
	if job, _ := n.job(); job.Labels[v1alpha1.LabelOperation] != "wakeup" {
		t.Errorf("there is a Job to %s", job.Labels[v1alpha1.LabelOperation])
	}
}

// Those of a cycle that is over count no more, where all is awake.
func TestNamespacesOfACycleThatIsOver(t *testing.T) {
	n := newCrowdedNight(t, longNames("shop", 10), v1alpha1.BehaviorStrict)
	n.plan.Status.Executions = []v1alpha1.ExecutionStatus{{
		Target: "a", Executor: "chosen", State: v1alpha1.ExecutionCompleted, Operation: v1alpha1.OperationWakeUp, Left: 1, Namespaces: longNames("former", 3800),
	}}
	if err := n.client.Status().Update(t.Context(), n.plan); err != nil {
		t.Fatal(err)
	}
	if n.passes(3); len(jobsOf(t, n.client)) != 2 {
		t.Errorf("it does not begin: %+v", n.plan.Status.Conditions)
	}
}

// Nor does it begin with an attempt that none are recorded of: it would find nothing, and call that done.
func TestNamespacesThatComeWhenNoneAreRecorded(t *testing.T) {
	n := newCrowdedNight(t, nil, v1alpha1.BehaviorStrict)
	made := false
	n.of.Client = interceptor.NewClient(n.client, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			err := c.SubResource(sub).Patch(ctx, o, patch, opts...)
			plan, ok := o.(*v1alpha1.HibernatePlan)
			if err == nil && ok && !made && len(plan.Status.Executions) > 0 && plan.Status.Executions[0].State == v1alpha1.ExecutionRunning {
				namespace := granting("shop")
				namespace.Labels, made = map[string]string{"sleeps": "yes"}, true
				return n.client.Create(ctx, namespace)
			}
			return err
		},
	})
	for range 4 { // which is refused, and tried again later
		now := &v1alpha1.HibernatePlan{}
		if err := n.client.Get(t.Context(), client.ObjectKeyFromObject(n.plan), now); err != nil {
			t.Fatal(err)
		}
		_, _ = n.of.Reconcile(t.Context(), now)
	}
	jobs := jobsOf(t, n.client)
	if of := func(j batchv1.Job) bool { return j.Labels[v1alpha1.LabelTarget] == "a" }; !made || len(jobs) != 1 || slices.ContainsFunc(jobs, of) {
		t.Errorf("%t, %d Jobs: %+v", made, len(jobs), n.plan.Status.Executions)
	}
}

// A target that another plan has left asleep sleeps where it was left; what the ledger has of a cycle that is over says nothing.
func TestSleepsIn(t *testing.T) {
	s := &scope{owner: newPlan(v1alpha1.StrategyParallel, 1)}
	s.seen.LeftIn = map[string][]string{"a": {"left"}}
	entries := map[string]*execution{"a": {Namespaces: []string{"recorded"}}}
	if got := s.sleepsIn("a", entries); !slices.Equal(got, []string{"left"}) {
		t.Errorf("before a cycle it is %v", got)
	}
	s.owner.Status.CurrentCycle = &v1alpha1.Cycle{ID: 1}
	if got := s.sleepsIn("a", entries); !slices.Equal(got, []string{"recorded"}) {
		t.Errorf("in a cycle it is %v", got)
	}
	if got := s.sleepsIn("b", entries); got != nil {
		t.Errorf("without an entry it is %v", got)
	}
}

// The namespaces that a target wakes in are read from the server once, however many passes its attempt takes to be made; one that has gone
// since is left out, and one that the cache does not have the server is asked for.
func TestNamespacesAreReadOnce(t *testing.T) {
	plan, n := attempting(v1alpha1.OperationWakeUp, "a")
	plan.Status.Executions[0].Namespaces = []string{"gone", "new", "shop"}
	cache, c := newReconciler(t, granting("gone"), granting("shop"))
	_, server := newReconciler(t, granting("gone"), granting("shop"), granting("new"))
	read := 0
	cache.Live = interceptor.NewClient(server, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, at client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		read++
		return c.Get(ctx, at, o, opts...)
	}})
	l := &launched{execution: &plan.Status.Executions[0], point: pointOf(n, "a", "")}
	look := func(reads int, want ...string) {
		t.Helper()
		s := &scope{Reconciler: cache, owner: plan, now: noon}
		if got, err := s.wakes(t.Context(), l); err != nil || !slices.Equal(got, want) || read != reads {
			t.Errorf("it wakes in %q by %d reads, want %q by %d: %v", got, read, want, reads, err)
		}
		read = 0
	}
	look(3, "gone", "new", "shop")
	look(1, "gone", "new", "shop") // the one that the cache does not have yet
	for _, of := range []client.Client{c, server} {
		if err := of.Delete(t.Context(), granting("gone")); err != nil {
			t.Fatal(err)
		}
	}
	look(2, "new", "shop")
	l.JobRef += "-2"
	look(3, "new", "shop")
}
