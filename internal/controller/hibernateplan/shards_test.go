package hibernateplan

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/lru"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/internal/runner"
)

// large is a plan whose ledger has no room in the status, that is to sleep.
func large(targets int) *v1alpha1.HibernatePlan {
	plan := newPlan(v1alpha1.StrategyParallel, 0)
	plan.Spec.Execution.Strategy.MaxConcurrency = ptr.To[int32](1)
	plan.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideHibernated}
	for i := range targets {
		plan.Spec.Targets = append(plan.Spec.Targets, v1alpha1.Target{Name: fmt.Sprintf("target-%05d", i), Type: "noop"})
	}
	plan.Finalizers = []string{v1alpha1.Finalizer}
	return plan
}

// shardsOf are the names of those that there are.
func shardsOf(t *testing.T, c client.Client) (out []string) {
	t.Helper()
	var all appsv1.ControllerRevisionList
	if err := c.List(t.Context(), &all, client.HasLabels{labelLedger}); err != nil {
		t.Fatal(err)
	}
	for i := range all.Items {
		out = append(out, all.Items[i].Name)
	}
	return out
}

// end1 ends the Job that there is, in failure.
func end1(t *testing.T, c client.Client) {
	t.Helper()
	var jobs batchv1.JobList
	if err := c.List(t.Context(), &jobs); err != nil || len(jobs.Items) != 1 {
		t.Fatalf("%d Jobs, %v", len(jobs.Items), err)
	}
	jobs.Items[0].Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}
	if err := c.Status().Update(t.Context(), &jobs.Items[0]); err != nil {
		t.Fatal(err)
	}
}

// A ledger that is too long for the status is kept in shards, of which only those are written anew that have changed, and
// those go that the status names no more.
func TestShards(t *testing.T) {
	plan := large(2000)
	r, c := newReconciler(t, plan)
	_, now := pass(t, r, plan)
	first := now.Status.Ledger
	if got := summary(first); got != "20 shards, 1 writes, 1999 pending, 1 running" || len(now.Status.Executions) > 0 {
		t.Fatalf("%s, and %d executions beside them", got, len(now.Status.Executions))
	}
	named(t, c, first)
	pass(t, r, plan)
	end1(t, c)
	r.shards.Clear() // as of a manager that has just started
	_, now = pass(t, r, plan)
	second := now.Status.Ledger
	if got := summary(second); got != "20 shards, 2 writes, 1999 pending, 1 running" || !slices.Equal(second.Shards[1:], first.Shards[1:]) || second.Shards[0] == first.Shards[0] {
		t.Fatalf("%s: %v, and they were %v", got, second.Shards, first.Shards)
	}
	named(t, c, second)
	if now.Status.Targets != 2000 || now.Status.Asleep != 2 { // as another one may begin
		t.Errorf("%d targets, %d asleep", now.Status.Targets, now.Status.Asleep)
	}
	for range 3 {
		_, now = pass(t, r, plan)
	}
	third := now.ResourceVersion
	if _, now = pass(t, r, plan); now.ResourceVersion != third {
		t.Errorf("the plan is written again:\n%+v", now.Status)
	}
}

// A status holds a ledger of so many bytes, which are 128 KiB, and not one more.
func TestLedgerInStatus(t *testing.T) {
	plan := large(200)
	r, _ := newReconciler(t, plan.DeepCopy())
	if r.Options.LedgerInStatus != 128<<10 {
		t.Errorf("it holds %d bytes", r.Options.LedgerInStatus)
	}
	_, now := pass(t, r, plan)
	_, size, err := linesOf(now.Status.Executions)
	if err != nil || now.Status.Ledger != nil {
		t.Fatalf("%d bytes, %v: %s", size, err, summary(now.Status.Ledger))
	}
	for less, leaves := range []bool{false, true} {
		r, _ := newReconciler(t, plan.DeepCopy())
		r.Options.LedgerInStatus = size - less
		if _, now := pass(t, r, plan); (now.Status.Ledger != nil) != leaves || (len(now.Status.Executions) == 0) != leaves {
			t.Errorf("of %d bytes where %d fit: %s, and %d executions beside them", size, size-less, summary(now.Status.Ledger), len(now.Status.Executions))
		}
	}
}

func summary(l *v1alpha1.Ledger) string {
	if l == nil {
		return "none"
	}
	return fmt.Sprintf("%d shards, %d writes, %d pending, %d running", len(l.Shards), l.Writes, l.Pending, l.Running)
}

// named fails if there are other shards than a ledger names.
func named(t *testing.T, c client.Client, ledger *v1alpha1.Ledger) {
	t.Helper()
	if got := shardsOf(t, c); !equal(got, ledger.Shards) {
		t.Errorf("there are %v, and named are %v", got, ledger.Shards)
	}
}

func equal(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// Of shards nothing is remembered as of what attempts need: nobody takes them away one by one, and by how much that is, those that
// have ended would go first for ever.
func TestShardsAreNoAttempts(t *testing.T) {
	plan := large(2000)
	r, c := newReconciler(t, plan)
	r.made = lru.New(maxMade)
	for range 3 {
		pass(t, r, plan)
	}
	if got := len(shardsOf(t, c)); got != 20 {
		t.Fatalf("%d shards", got)
	}
	if r.made.Len() != 3 { // a ServiceAccount, its RoleBinding and a Job
		t.Errorf("of one attempt %d objects are known", r.made.Len())
	}
}

// What was written and not recorded counts for nothing, and is in nobody's way.
func TestShardsNotRecorded(t *testing.T) {
	plan := large(2000)
	r, c := newReconciler(t, plan)
	real, lost := r.Client, errors.New("the API server is gone")
	r.Client = interceptor.NewClient(c, interceptor.Funcs{
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return lost
		},
	})
	stale := &v1alpha1.HibernatePlan{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(plan), stale); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reconcile(t.Context(), stale); !errors.Is(err, lost) {
		t.Fatalf("got %v", err)
	}
	if len(shardsOf(t, c)) != 20 {
		t.Fatal("no shards were written")
	}
	r.Client, r.shards, r.paced = real, lru.New(9), lru.New(9)
	_, now := pass(t, r, plan)
	if now.Status.Ledger == nil || now.Status.Ledger.Running != 1 || !equal(now.Status.Ledger.Shards, shardsOf(t, c)) {
		t.Errorf("the ledger is %+v", now.Status.Ledger)
	}
}

// By a status of before a manager that has just started writes no shards, which nobody would name or delete while the cycle
// goes on.
func TestShardsOfThePast(t *testing.T) {
	plan := large(2000)
	r, c := newReconciler(t, plan)
	pass(t, r, plan)
	_, stale := pass(t, r, plan)
	end1(t, c)
	_, now := pass(t, r, plan)
	if now.Status.Ledger.Writes != 2 {
		t.Fatalf("the ledger is %s", summary(now.Status.Ledger))
	}
	r.paced.Clear()
	r.Options.Clock = clocktesting.NewFakePassiveClock(noon.Add(time.Second))
	if _, err := r.Reconcile(t.Context(), stale); err == nil || !kube.Conflict(err) {
		t.Errorf("got %v", err)
	}
	named(t, c, now.Status.Ledger)
}

// losing is a plan that sleeps, a part of whose ledger is gone, and its name.
func losing(t *testing.T) (r *Reconciler, c client.WithWatch, now *v1alpha1.HibernatePlan, lost string) {
	t.Helper()
	plan := large(2000)
	r, c = newReconciler(t, plan)
	_, now = pass(t, r, plan)
	gone := &appsv1.ControllerRevision{}
	gone.Namespace, gone.Name = "system", now.Status.Ledger.Shards[3]
	if err := c.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	r.shards.Clear()
	return r, c, now, gone.Name
}

// A part of the ledger that is gone is not made up: nothing is done, and the plan says so.
func TestShardLost(t *testing.T) {
	r, c, now, lost := losing(t)
	was := now.Status.Ledger
	_, now = pass(t, r, now)
	scheduled := find(now.Status.Conditions, v1alpha1.ConditionScheduled)
	if scheduled.Reason != v1alpha1.ReasonLedgerLost || !strings.Contains(scheduled.Message, lost) || now.Status.Targets != 2000 || !equality.Semantic.DeepEqual(now.Status.Ledger, was) {
		t.Errorf("%+v\n%+v", scheduled, now.Status.Ledger)
	}
	var jobs batchv1.JobList
	if err := c.List(t.Context(), &jobs); err != nil || len(jobs.Items) > 0 {
		t.Errorf("%d Jobs, %v", len(jobs.Items), err)
	}
}

// A plan that leaves what sleeps goes without its ledger, too, when its Jobs have ended, and so does what they were granted.
func TestShardLostAndLeft(t *testing.T) {
	r, c, plan, _ := losing(t)
	now := plan.DeepCopy()
	now.Spec.DeletionPolicy = v1alpha1.DeletionLeave
	if err := errors.Join(c.Update(t.Context(), now), c.Delete(t.Context(), now)); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(plan), now); err != nil {
		t.Fatal(err)
	}
	granted := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "job-t", Labels: map[string]string{labelExecution: "job"}}}
	marks.Set(now, granted)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "job", Labels: granted.Labels}}
	if err := errors.Join(c.Create(t.Context(), granted), c.Create(t.Context(), job)); err != nil {
		t.Fatal(err)
	}
	if _, now = pass(t, r, plan); len(now.Finalizers) == 0 {
		t.Error("the plan goes while a Job of it runs")
	}
	end1(t, c)
	if _, err := r.Reconcile(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(plan), now); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the plan is still there, %v", err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(granted), granted); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("what a runner was granted is still there, %v", err)
	}
	if left := shardsOf(t, c); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// What was kept of the kubeconfig of a target goes with a plan that leaves it asleep without its ledger, which does not know the target any
// more; its restore point stays, and so does what is another's.
func TestCredentialsOfALostLedger(t *testing.T) {
	r, c, plan, _ := losing(t)
	n := names{namespace: "system", plan: plan}
	away, err := json.Marshal(v1alpha1.Target{Name: "away", Type: "noop", ConnectorRef: &v1alpha1.ConnectorRef{Kind: "K8SCluster", Name: "away"}})
	if err != nil {
		t.Fatal(err)
	}
	point := pointOf(n, "away", "an-attempt")
	point.Labels = map[string]string{labelRestorePoint: keyLabel(client.ObjectKeyFromObject(plan)), v1alpha1.LabelTarget: "away"}
	point.Data = map[string]string{keyTarget: string(away)}
	kept := attempt{names: n, target: v1alpha1.Target{Name: "away"}}.credentials([]byte("a kubeconfig"), point)
	other := kept.DeepCopy()
	other.Name, other.Annotations = "another", map[string]string{v1alpha1.AnnotationOwner: "team/another"}
	now := plan.DeepCopy()
	now.Spec.DeletionPolicy = v1alpha1.DeletionLeave
	if err := errors.Join(c.Create(t.Context(), point), c.Create(t.Context(), kept), c.Create(t.Context(), other), c.Update(t.Context(), now), c.Delete(t.Context(), now)); err != nil {
		t.Fatal(err)
	}
	goes(t, r, c, plan)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(kept), &corev1.Secret{}); !apierrors.IsNotFound(err) {
		t.Errorf("the credentials: %v", err)
	}
	if err := errors.Join(c.Get(t.Context(), client.ObjectKeyFromObject(point), &corev1.ConfigMap{}), c.Get(t.Context(), client.ObjectKeyFromObject(other), &corev1.Secret{})); err != nil {
		t.Errorf("what stays: %v", err)
	}
}

// What cannot be read for a moment is not taken for empty.
func TestShardNotRead(t *testing.T) {
	plan := large(2000)
	r, c := newReconciler(t, plan)
	_, now := pass(t, r, plan)
	was := now.Status.Ledger
	for _, name := range []string{was.Shards[0], was.Shards[7]} {
		r.shards.Clear()
		busy := true
		r.Live = interceptor.NewClient(c, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if key.Name == name && busy {
				busy = false
				return errors.New("the API server is busy")
			}
			return c.Get(ctx, key, o, opts...)
		}})
		if _, err := r.Reconcile(t.Context(), now.DeepCopy()); err == nil {
			t.Fatal("there was no error")
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(plan), now); err != nil || !equality.Semantic.DeepEqual(now.Status.Ledger, was) || len(now.Status.Executions) > 0 {
			t.Errorf("the ledger is %s, %v", summary(now.Status.Ledger), err)
		}
	}
	named(t, c, was)
	r.Live = c
	if _, now = pass(t, r, plan); now.Status.Ledger == nil || now.Status.Ledger.Running != 1 {
		t.Errorf("the ledger is %s", summary(now.Status.Ledger))
	}
}

// A ledger comes back into the status when its cycle is over.
func TestShardsEnd(t *testing.T) {
	plan := large(2000)
	r, c := newReconciler(t, plan)
	pass(t, r, plan)
	_, now := pass(t, r, plan)
	now.Spec.Override.State = v1alpha1.OverrideAwake
	if err := c.Update(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		_, now = pass(t, r, plan)
	}
	end1(t, c)
	for range 20 {
		var jobs batchv1.JobList
		if err := c.List(t.Context(), &jobs); err != nil {
			t.Fatal(err)
		}
		for _, job := range jobs.Items { // of the wake-up
			complete(t, c, now, "target-00000", &job)
		}
		_, now = pass(t, r, plan)
	}
	if now.Status.CurrentCycle != nil || now.Status.Ledger != nil || len(now.Status.History) != 1 || now.Status.Targets != 2000 {
		t.Errorf("%s: %+v, %+v", now.Status.Phase, now.Status.CurrentCycle, now.Status.Ledger)
	}
	if left := shardsOf(t, c); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestPartsOf(t *testing.T) {
	line := func(length int) []byte { return bytes.Repeat([]byte("x"), length) }
	for name, test := range map[string]struct {
		lines [][]byte
		want  []int
	}{
		"one":         {[][]byte{line(9)}, []int{1}},
		"many":        {slices.Repeat([][]byte{line(9)}, 250), []int{100, 100, 50}},
		"long ones":   {slices.Repeat([][]byte{line(maxShard / 3)}, 5), []int{2, 2, 1}},
		"and another": {append(slices.Repeat([][]byte{line(maxShard / 60)}, 100), line(1)), []int{59, 41, 1}},
	} {
		parts, err := partsOf(test.lines)
		var got []int
		for _, p := range parts {
			if got = append(got, len(p)); len(contentOf(p)) > maxShard {
				t.Errorf("%s: %d bytes in a shard", name, len(contentOf(p)))
			}
		}
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if _, err := partsOf([][]byte{line(maxShard)}); err == nil || !strings.Contains(err.Error(), "too many namespaces") {
		t.Errorf("got %v", err)
	}
}

// A plan that its cycles have no room for does not begin.
func TestPlanTooLarge(t *testing.T) {
	plan := large(10000)
	p := facts{plan: plan, registry: registry, namespace: "system", now: noon}.decide()
	if p.Problem != nil || len(p.Status.Executions) != 10000 {
		t.Errorf("10,000 small targets: %v", p.Problem)
	}
	for i := range plan.Spec.Targets {
		plan.Spec.Targets[i].Name = strings.Repeat("x", 50) + plan.Spec.Targets[i].Name[6:]
		plan.Spec.Targets[i].ConnectorRef = &v1alpha1.ConnectorRef{Kind: "K8SCluster", Name: strings.Repeat("y", 60)}
	}
	p = facts{plan: plan, registry: registry, namespace: "system", now: noon}.decide()
	if p.Problem == nil || p.Problem.reason != v1alpha1.ReasonInvalid || !strings.Contains(p.Problem.message, "make several plans") || p.Status.CurrentCycle != nil {
		t.Errorf("got %v", p.Problem)
	}
}

// Without a webhook a plan may be edited to be too large at any time. It says so at once, by day, too, nothing begins, and what sleeps
// wakes as it was put to sleep, also where the plan is deleted.
func TestEditedToBeTooLarge(t *testing.T) {
	for name, test := range map[string]struct {
		edited, until time.Time
		deleted       bool
	}{
		"by day":              {edited: noon, until: noon.Add(9 * time.Hour)},
		"by night":            {edited: noon.Add(9 * time.Hour), until: noon.Add(19 * time.Hour)},
		"by night, and goes":  {edited: noon.Add(9 * time.Hour), until: noon.Add(9 * time.Hour), deleted: true},
		"and the night after": {edited: noon.Add(9 * time.Hour), until: noon.Add(33 * time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 3))
			w.until(test.edited)
			before := len(w.asleep)
			for i := range 11 {
				w.plan.Spec.Targets = append(w.plan.Spec.Targets, v1alpha1.Target{
					Name: fmt.Sprint("large-", i), Type: "noop", Parameters: &apiextensionsv1.JSON{Raw: []byte(`{"x":"` + strings.Repeat("y", 100_000) + `"}`)},
				})
			}
			w.plan.Generation++
			if test.deleted {
				w.plan.DeletionTimestamp = ptr.To(metav1.NewTime(w.now))
			}
			w.settle()
			said := w.condition(v1alpha1.ConditionScheduled)
			if refused := said.Reason == v1alpha1.ReasonInvalid && strings.Contains(said.Message, "make several plans"); refused == test.deleted {
				t.Errorf("it says %s: %s", said.Reason, said.Message)
			}
			if !test.deleted && len(w.asleep) != before {
				t.Errorf("%d were asleep, and %d are", before, len(w.asleep))
			}
			w.until(test.until)
			w.awake()
		})
	}
}

// Parameters that no runner can be told of are refused, in the evening as by day; what is deleted wakes all the same.
func TestParametersTooLong(t *testing.T) {
	plan := newPlan(v1alpha1.StrategyParallel, 2)
	tell := func(bytes int) Plan {
		plan.Spec.Targets[1].Parameters = &apiextensionsv1.JSON{Raw: []byte(`{"x":"` + strings.Repeat("y", bytes-len(`{"x":""}`)) + `"}`)}
		return facts{plan: plan, registry: registry, namespace: "system", now: noon}.decide()
	}
	if p := tell(runner.MaxParameters); p.Problem != nil {
		t.Errorf("got %v", p.Problem)
	}
	p := tell(runner.MaxParameters + 1)
	path := "spec.targets[1](" + plan.Spec.Targets[1].Name + ").parameters: "
	if p.Problem == nil || p.Problem.reason != v1alpha1.ReasonInvalid || !strings.HasPrefix(p.Problem.message, path) || p.Status.CurrentCycle != nil {
		t.Errorf("got %v", p.Problem)
	}
	if err := invalid(plan.Spec, registry); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("the webhook says %v", err)
	}
	plan.DeletionTimestamp = &metav1.Time{Time: noon}
	if p := tell(runner.MaxParameters + 1); p.Problem != nil {
		t.Errorf("deleted: %v", p.Problem)
	}
}

// A pass over 10,000 targets of which nothing has changed: what a ledger costs that is in shards.
func BenchmarkPass(b *testing.B) {
	for _, targets := range []int{10, 10000} {
		b.Run(fmt.Sprint(targets), func(b *testing.B) {
			plan := large(targets)
			p := facts{plan: plan, registry: registry, namespace: "system", now: noon}.decide()
			plan.Status = p.Status
			cycle := resolve(plan.Spec)
			seen := Observed{Cycle: &cycle}
			for b.Loop() {
				f := facts{plan: plan, seen: seen, registry: registry, namespace: "system", now: noon}.decide()
				if lines, _, err := linesOf(f.Status.Executions); err != nil || len(lines) != targets {
					b.Fatal(err)
				}
			}
		})
	}
}
