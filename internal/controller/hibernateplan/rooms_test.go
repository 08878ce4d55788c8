package hibernateplan

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// crowd is plans of one namespace that ask for room as their attempts end.
type crowd struct {
	*testing.T
	rooms *rooms
	// runs and left are the attempts of each plan that are under way, and that are yet to begin.
	runs, left map[string]int
}

func (c *crowd) name(plan string) types.NamespacedName {
	return types.NamespacedName{Namespace: "team", Name: plan}
}

// asks is a pass of a plan, before which some attempts of it have ended.
func (c *crowd) asks(plan string, ended int) int {
	c.Helper()
	c.runs[plan] -= ended
	n := c.rooms.take(c.name(plan), c.runs[plan], c.left[plan])
	c.runs[plan], c.left[plan] = c.runs[plan]+n, c.left[plan]-n
	c.rooms.now(c.name(plan), c.runs[plan], c.left[plan])
	all := 0
	for _, n := range c.runs {
		all += n
	}
	if all > c.rooms.most {
		c.Errorf("%d are under way", all)
	}
	return c.runs[plan]
}

// A plan has as many attempts under way as it asks for, or as many as any other of its namespace, as soon as enough of those that have
// more have ended, and nothing lies idle; what other namespaces do is nothing to it.
func TestRooms(t *testing.T) {
	c := &crowd{t, newRooms(10), map[string]int{}, map[string]int{"large": 2000, "small": 3, "other": 2000}}
	expect := func(plan string, ended, want int) {
		t.Helper()
		if got := c.asks(plan, ended); got != want {
			t.Errorf("%s has %d under way when %d have ended, want %d", plan, got, ended, want)
		}
	}
	expect("large", 0, 10)
	expect("large", 1, 10)
	if got := c.rooms.take(types.NamespacedName{Namespace: "others", Name: "small"}, 0, 3); got != 3 {
		t.Errorf("%d of 3 begin beside those of another namespace", got)
	}
	expect("small", 0, 0)
	expect("large", 1, 9)
	expect("small", 0, 1)
	expect("large", 2, 7)
	expect("small", 0, 3)
	expect("large", 0, 7)
	expect("large", 1, 7)
	expect("other", 0, 0)
	expect("large", 3, 4)
	expect("other", 0, 3)
	expect("small", 3, 0)
	expect("other", 0, 5)
	expect("large", 1, 5)
	expect("large", 0, 5)
	expect("other", 1, 5)
	expect("large", 0, 5)
	c.left["other"] = 0
	expect("other", 5, 0)
	expect("large", 0, 10)
	c.left["large"] = 0
	expect("large", 10, 0)
	c.rooms.now(types.NamespacedName{Namespace: "others", Name: "small"}, 0, 0)
	if len(c.rooms.plans) > 0 {
		t.Errorf("it knows %v", c.rooms.plans)
	}
}

// However many plans of a namespace ask, none is left without: where there are more plans than there is room, the first have it.
func TestRoomsOfMany(t *testing.T) {
	c := &crowd{t, newRooms(7), map[string]int{}, map[string]int{}}
	for i := range 20 {
		c.left[fmt.Sprint(i)] = 5
	}
	began := map[string]bool{}
	for range 200 {
		for i := range 20 {
			plan := fmt.Sprint(i)
			if c.asks(plan, min(1, c.runs[plan])) > 0 {
				began[plan] = true
			}
		}
	}
	for plan, left := range c.left {
		if left > 0 || !began[plan] || c.runs[plan] > 0 {
			t.Errorf("plan %s has %d left", plan, left)
		}
	}
}

// neighbours are plans whose Jobs are made in one namespace.
type neighbours struct {
	*testing.T
	of     *Reconciler
	client client.WithWatch
	plans  []*v1alpha1.HibernatePlan
}

func (n *neighbours) add(namespace, name string, targets int) {
	plan := newPlan(v1alpha1.StrategyParallel, targets)
	plan.Namespace, plan.Name, plan.UID = namespace, name, types.UID("uid-"+namespace+"-"+name)
	plan.Finalizers, plan.Spec.Execution.Strategy.MaxConcurrency = []string{v1alpha1.Finalizer}, nil
	plan.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideHibernated}
	n.plans = append(n.plans, plan)
}

// begin has a manager that lets so many attempts of a namespace be under way.
func (n *neighbours) begin(most int) {
	n.Helper()
	var objects []client.Object
	for _, plan := range n.plans {
		objects = append(objects, plan)
	}
	n.of, n.client = newReconciler(n.T, objects...)
	n.of.Options.Runners = most
	n.of = fresh(n.client, n.client, n.of.Options)
}

// pass looks at each plan, and returns how many Jobs there are of each.
func (n *neighbours) pass() map[string]int {
	n.Helper()
	jobs := map[string]int{}
	for i := range n.plans {
		_, n.plans[i] = pass(n.T, n.of, n.plans[i])
	}
	for _, job := range jobsOf(n.T, n.client) {
		jobs[job.Annotations[v1alpha1.AnnotationOwner]]++
	}
	return jobs
}

// end has one Job of a plan come to its end, if there is one.
func (n *neighbours) end(plan *v1alpha1.HibernatePlan) (ended bool) {
	n.Helper()
	for _, job := range jobsOf(n.T, n.client) {
		if job.Annotations[v1alpha1.AnnotationOwner] == client.ObjectKeyFromObject(plan).String() && len(job.Status.Conditions) == 0 {
			complete(n.T, n.client, plan, job.Labels[v1alpha1.LabelTarget], &job)
			return true
		}
	}
	return false
}

// Of the plans of one namespace no more Jobs run than may, the small one waits for no more of the large one than it needs, and those of
// another namespace wait for none.
func TestRunnersOfANamespace(t *testing.T) {
	const most = 4
	n := &neighbours{T: t}
	n.add("team", "large", 12)
	n.add("team", "small", 2)
	n.add("others", "small", 3)
	n.begin(most)
	n.pass()
	n.pass()
	if jobs := n.pass(); jobs["team/large"] != most || jobs["others/small"] != 3 || n.plans[1].Status.Phase != v1alpha1.PhaseHibernating {
		t.Fatalf("at first there are Jobs of %v", jobs)
	}
	ended, waited := 0, -1
	for range 60 {
		jobs := n.pass()
		if of := jobs["team/large"] + jobs["team/small"]; of > most {
			t.Errorf("%d Jobs of a namespace", of)
		}
		if jobs["team/small"] == 2 && waited < 0 {
			waited = ended
		}
		if n.end(n.plans[0]) {
			ended++
		}
	}
	if waited < 0 || waited > 3 || ended != 12 {
		t.Errorf("the small plan has waited for %d of %d attempts of the large one", waited, ended)
	}
}

// A plan that somebody has forced away takes no room any more.
func TestRoomOfOneThatIsGone(t *testing.T) {
	n := &neighbours{T: t}
	n.add("team", "night", 2)
	n.begin(4)
	n.pass()
	plan := n.plans[0]
	at := client.ObjectKeyFromObject(plan)
	if !n.of.rooms.has(at) {
		t.Error("nothing is known of the plan, two attempts of which are under way")
	}
	plan.Finalizers = nil
	if err := errors.Join(n.client.Update(t.Context(), plan), n.client.Delete(t.Context(), plan)); err != nil {
		t.Fatal(err)
	}
	if _, err := kube.Sweeping(reconcile.AsReconciler(n.client, n.of), n.of.sweepAll).Reconcile(t.Context(), ctrl.Request{NamespacedName: at}); err != nil {
		t.Fatal(err)
	}
	if n.of.rooms.has(at) {
		t.Error("it has room for good")
	}
}

// What wakes waits for nothing that falls asleep.
func TestWhatWakesNeedsNoRoom(t *testing.T) {
	n := &neighbours{T: t}
	n.add("team", "night", 3)
	n.begin(3)
	for range 3 {
		n.pass()
	}
	for n.end(n.plans[0]) {
	}
	n.pass()
	n.of.rooms.now(types.NamespacedName{Namespace: "team", Name: "large"}, 3, 9)
	plan := n.plans[0]
	plan.Spec.Override.State = v1alpha1.OverrideAwake
	if err := n.client.Update(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	n.pass()
	n.pass()
	if jobs := n.pass(); jobs["team/night"] != 3 || plan.Status.CurrentCycle == nil {
		t.Errorf("there are Jobs of %v: %+v", jobs, n.plans[0].Status)
	}
}

// fails has a plan be looked at by a manager that cannot read or write something, and fail.
func (n *neighbours) fails(plan *v1alpha1.HibernatePlan) {
	n.Helper()
	now := &v1alpha1.HibernatePlan{}
	if err := n.client.Get(n.Context(), client.ObjectKeyFromObject(plan), now); err != nil {
		n.Fatal(err)
	}
	if _, err := n.of.Reconcile(n.Context(), now); !errors.Is(err, errGone) {
		n.Fatalf("got %v", err)
	}
}

var errGone = errors.New("the API server is gone")

// What a plan has recorded keeps its room, whatever a cache that is behind has of it.
func TestRoomOfOneThatIsSeenLate(t *testing.T) {
	n := &neighbours{T: t}
	n.add("team", "large", 12)
	n.begin(4)
	before := &v1alpha1.HibernatePlan{}
	if err := n.client.Get(t.Context(), client.ObjectKeyFromObject(n.plans[0]), before); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		n.pass()
	}
	if _, err := n.of.Reconcile(t.Context(), before); !kube.Conflict(err) {
		t.Fatalf("got %v", err)
	}
	if got := n.of.rooms.plans["team"]["large"].runs; got != 4 {
		t.Errorf("it has room for %d of 4", got)
	}
}

// oneWaits are a plan that has all the room, and another of so many targets that waits for some.
func oneWaits(t *testing.T, name string, targets int) (n *neighbours, waits *v1alpha1.HibernatePlan) {
	t.Helper()
	n = &neighbours{T: t}
	n.add("team", "large", 12)
	n.add("team", name, targets)
	n.begin(4)
	for range 3 {
		n.pass()
	}
	return n, n.plans[1]
}

// A plan that cannot be looked at waits for no room: the others have what there is, and do not wait for it to be as it should.
func TestNoRoomForOneThatCannotBeRead(t *testing.T) {
	n, lost := oneWaits(t, "lost", 4)
	if at := client.ObjectKeyFromObject(lost); n.of.rooms.plans["team"]["lost"] != (asked{0, 4}) {
		t.Fatalf("%s has %+v", at, n.of.rooms.plans["team"]["lost"])
	}
	n.of.revisions.Clear()
	n.of.Client = interceptor.NewClient(n.client, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if _, of := list.(*v1alpha1.ScheduleExceptionList); of {
			return errGone
		}
		return c.List(ctx, list, opts...)
	}})
	n.fails(lost)
	n.of.Client, n.plans = n.client, n.plans[:1]
	for range 8 {
		n.end(n.plans[0])
		for range 2 {
			n.pass()
		}
		if running := under(n.plans[0].Status.Executions); running != 4 {
			t.Fatalf("%d of the other plan run", running)
		}
	}
}

// What cannot be recorded takes no room from what can.
func TestNoRoomForWhatIsNotRecorded(t *testing.T) {
	for name, beyond := range map[string]func(*neighbours){
		"the status is not written": func(n *neighbours) {
			n.of.Client = interceptor.NewClient(n.client, interceptor.Funcs{SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
				return errGone
			}})
		},
		"the ledger is not kept, and the status says so": func(n *neighbours) {
			n.of.Options.LedgerInStatus = 0
			n.of.Live = interceptor.NewClient(n.client, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if o.GetLabels()[labelLedger] != "" {
					return errGone
				}
				return c.Create(ctx, o, opts...)
			}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := &neighbours{T: t}
			n.add("team", "first", 4)
			n.add("team", "second", 4)
			n.begin(4)
			limit := n.of.Options.LedgerInStatus
			beyond(n)
			n.fails(n.plans[0])
			n.of.Client, n.of.Live, n.of.Options.LedgerInStatus = n.client, n.client, limit
			first := n.plans[0]
			n.plans = n.plans[1:]
			for range 3 {
				n.pass()
			}
			if running := under(n.plans[0].Status.Executions); running != 4 {
				t.Errorf("beside a plan of which nothing is recorded %d run", running)
			}
			n.plans[0], n.plans = first, n.plans[:1]
			if n.pass(); under(n.plans[0].Status.Executions) != 0 {
				t.Errorf("more run than may: %d", under(n.plans[0].Status.Executions))
			}
		})
	}
}

// Nor does a plan wait that is suspended, or is to wake by now.
func TestNoRoomForOneThatWaitsNoMore(t *testing.T) {
	for name, edit := range map[string]func(*v1alpha1.HibernatePlan){
		"suspended": func(p *v1alpha1.HibernatePlan) { p.Spec.Suspend = true },
		"to wake":   func(p *v1alpha1.HibernatePlan) { p.Spec.Override.State = v1alpha1.OverrideAwake },
		"to go":     func(p *v1alpha1.HibernatePlan) { p.Spec.DeletionPolicy = v1alpha1.DeletionLeave },
	} {
		t.Run(name, func(t *testing.T) {
			n, small := oneWaits(t, "small", 2)
			at := client.ObjectKeyFromObject(small)
			if !n.of.rooms.has(at) {
				t.Fatal("it does not wait")
			}
			edit(small)
			if err := n.client.Update(t.Context(), small); err != nil {
				t.Fatal(err)
			}
			if name == "to go" {
				if err := n.client.Delete(t.Context(), small); err != nil {
					t.Fatal(err)
				}
				goes(t, n.of, n.client, small)
			} else {
				pass(t, n.of, small)
			}
			if n.of.rooms.has(at) {
				t.Errorf("it waits: %+v", n.of.rooms.plans)
			}
		})
	}
}
