package hibernateplan

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// errTooLarge is what the API server says of an object that etcd does not take.
var errTooLarge = errors.New("rpc error: code = InvalidArgument desc = etcdserver: request is too large")

// bulky is a plan of 20 targets that sleeps, and that the server keeps no larger one than limit of.
type bulky struct {
	*broadNight
	told  *told
	limit int
	// jobs are how many were made, by operation and target.
	jobs map[string]int
}

func newBulky(t *testing.T) *bulky {
	t.Helper()
	plan := newPlan(v1alpha1.StrategyParallel, 20)
	plan.Finalizers, plan.Spec.Override = []string{v1alpha1.Finalizer}, &v1alpha1.Override{}
	plan.Spec.Execution.Strategy.MaxConcurrency = nil
	r, c := newReconciler(t, plan)
	r = fresh(c, c, r.Options)
	b := &bulky{&broadNight{t, plan, r, c}, &told{}, 1 << 20, map[string]int{}}
	r.Recorder = b.told
	r.Live = interceptor.NewClient(c, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if of := o.GetLabels(); o.GetObjectKind().GroupVersionKind() == jobGVK {
			b.jobs[of[v1alpha1.LabelOperation]+" "+of[v1alpha1.LabelTarget]]++
		}
		return c.Create(ctx, o, opts...)
	}})
	r.Options.MaxConcurrentReconciles = 1 // which keeps b.jobs to one at a time
	r.Client = interceptor.NewClient(c, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			if b.size(o) > b.limit {
				return errTooLarge
			}
			return c.SubResource(sub).Patch(ctx, o, patch, opts...)
		},
	})
	b.wants(v1alpha1.OverrideHibernated)
	if b.play(""); b.plan.Status.Asleep != 20 || b.plan.Status.Ledger != nil {
		t.Fatalf("%d are asleep: %s", b.plan.Status.Asleep, summary(b.plan.Status.Ledger))
	}
	b.wants(v1alpha1.OverrideAwake)
	return b
}

func (b *bulky) size(o client.Object) int {
	content, err := json.Marshal(o)
	if err != nil {
		b.Fatal(err)
	}
	return len(content)
}

// refused looks at the plan, whose status is refused.
func (b *bulky) refused() {
	b.Helper()
	now := &v1alpha1.HibernatePlan{}
	if err := b.client.Get(b.Context(), client.ObjectKeyFromObject(b.plan), now); err != nil {
		b.Fatal(err)
	}
	if _, err := b.of.Reconcile(b.Context(), now); !kube.TooLarge(err) {
		b.Errorf("got %v", err)
	}
}

// once fails unless each target has had one Job of each operation.
func (b *bulky) once() {
	b.Helper()
	for job, n := range b.jobs {
		if n != 1 {
			b.Errorf("of %s there were %d Jobs", job, n)
		}
	}
	if len(b.jobs) != 2*20 {
		b.Errorf("there were Jobs of %v", b.jobs)
	}
}

// wakesWithRoom fails unless the plan wakes when there is room again.
func (b *bulky) wakesWithRoom() {
	b.Helper()
	b.limit = 1 << 20
	if b.play(""); b.plan.Status.Asleep > 0 || b.plan.Status.CurrentCycle != nil {
		b.Errorf("it does not wake: %+v", b.plan.Status)
	}
	b.once()
}

// A plan that others have made so large that no more can be recorded of it says so in an Event, and what sleeps wakes all the same: its
// ledger leaves the status, which has more room then than before.
func TestStatusWithoutRoom(t *testing.T) {
	b := newBulky(t)
	b.limit = b.size(b.plan) - 3000 // of 12,000 that its ledger has
	b.refused()
	if got := b.told.of(kube.ReasonStatusTooLarge); len(got) != 1 || !strings.HasPrefix(got[0], "Warning ") || !strings.Contains(got[0], "annotations") {
		t.Errorf("it says %q", b.told.all)
	}
	if b.play(""); b.plan.Status.Asleep > 0 || b.plan.Status.CurrentCycle != nil || b.plan.Status.Ledger != nil {
		t.Errorf("it does not wake: %+v", b.plan.Status)
	}
	if left := shardsOf(t, b.client); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	b.once()

	b.limit = 1 << 20
	for _, after := range []time.Duration{0, crampedFor} {
		leaves := after == 0
		b.of.Options.Clock.(*clocktesting.FakePassiveClock).SetTime(noon.Add(after))
		b.of.tight.Add(b.plan.UID, noon)
		b.wants(v1alpha1.OverrideHibernated)
		if b.play(""); b.plan.Status.Asleep != 20 || (b.plan.Status.Ledger != nil) != leaves {
			t.Errorf("after %v, with room again, %d are asleep, and the ledger is %s", after, b.plan.Status.Asleep, summary(b.plan.Status.Ledger))
		}
		b.wants(v1alpha1.OverrideAwake)
		b.play("")
	}
}

// Where nothing at all can be recorded nothing is done, nothing is forgotten, and nothing piles up, until there is room again.
func TestStatusWithoutAnyRoom(t *testing.T) {
	b := newBulky(t)
	b.limit = 0
	for range 5 {
		b.refused()
	}
	if jobs, shards := jobsOf(t, b.client), shardsOf(t, b.client); len(jobs)+len(shards) > 0 || b.plan.Status.Asleep != 20 {
		t.Errorf("there are %d Jobs, and shards %v", len(jobs), shards)
	}
	b.wakesWithRoom()
}

// While an attempt that was recorded before ends, and that cannot be recorded, its Job stays, and what came of it is recorded when it can.
func TestOutcomeWithoutRoom(t *testing.T) {
	b := newBulky(t)
	b.passes(4)
	jobs := jobsOf(t, b.client)
	for i := range jobs {
		complete(t, b.client, b.plan, jobs[i].Labels[v1alpha1.LabelTarget], &jobs[i])
	}
	b.limit = 0
	for range 3 {
		b.refused()
	}
	if got := len(jobsOf(t, b.client)); got != len(jobs) || got == 0 {
		t.Errorf("of %d Jobs there are %d", len(jobs), got)
	}
	b.wakesWithRoom()
}

// What else is refused as too large is not taken for the status, and what that names is not taken away.
func TestJobTooLarge(t *testing.T) {
	plan := large(2000)
	plan.Spec.Execution.Strategy.MaxConcurrency = ptr.To[int32](2)
	r, c := newReconciler(t, plan)
	r.Live = interceptor.NewClient(c, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if o.GetObjectKind().GroupVersionKind() == jobGVK && o.GetLabels()[v1alpha1.LabelTarget] == "target-00001" {
			return errTooLarge
		}
		return c.Create(ctx, o, opts...)
	}})
	pass(t, r, plan)
	now := &v1alpha1.HibernatePlan{}
	unwritten := 0
	for i := range 6 { // the first makes a Job, the next has its end recorded, and in the end there is nothing to record
		if i == 1 {
			end1(t, c)
		}
		was := now.ResourceVersion
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(plan), now); err != nil {
			t.Fatal(err)
		}
		if now.ResourceVersion == was {
			unwritten++
		}
		if _, err := r.Reconcile(t.Context(), now); !kube.TooLarge(err) {
			t.Fatalf("got %v", err)
		}
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(plan), now); err != nil || now.Status.Ledger.Writes < 2 || unwritten == 0 {
		t.Fatalf("%v: %s, after %d passes that wrote nothing", err, summary(now.Status.Ledger), unwritten)
	}
	named(t, c, now.Status.Ledger)
	if _, tight := r.tight.Get(plan.UID); tight {
		t.Error("its status is taken to have no room")
	}
}

// What is told of a cycle that is over is not what keeps the plan from the next one.
func TestEndWithoutRoom(t *testing.T) {
	b := newBulky(t)
	b.of.tight.Add(b.plan.UID, noon)
	s := &scope{Reconciler: b.of, owner: b.plan.DeepCopy(), now: noon, loaded: true}
	s.owner.Status.CurrentCycle = nil
	if err := s.store(t.Context(), 1, false); err != nil || len(s.owner.Status.Executions) > 0 {
		t.Errorf("%v: %d entries are left", err, len(s.owner.Status.Executions))
	}
}
