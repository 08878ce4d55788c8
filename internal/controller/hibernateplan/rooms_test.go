package hibernateplan

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
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

// Of the plans of one namespace no more Jobs run than may, those of another do not wait for them, and a plan that somebody has forced away
// has no room any more.
func TestRunnersOfANamespace(t *testing.T) {
	const most = 4
	var objects []client.Object
	var plans []*v1alpha1.HibernatePlan
	add := func(namespace, name string, targets int) {
		plan := newPlan(v1alpha1.StrategyParallel, targets)
		plan.Namespace, plan.Name, plan.UID = namespace, name, types.UID("uid-"+namespace+"-"+name)
		plan.Finalizers, plan.Spec.Execution.Strategy.MaxConcurrency = []string{v1alpha1.Finalizer}, nil
		plan.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideHibernated}
		plans, objects = append(plans, plan), append(objects, plan)
	}
	add("team", "large", 12)
	add("team", "small", 2)
	add("others", "small", 3)
	r, c := newReconciler(t, objects...)
	r.Options.Runners, r.Options.LedgerPace = most, 0
	r = fresh(c, c, r.Options)
	run := func() (jobs map[string]int) {
		jobs = map[string]int{}
		for i := range plans {
			_, plans[i] = pass(t, r, plans[i])
		}
		for _, job := range jobsOf(t, c) {
			jobs[job.Annotations[v1alpha1.AnnotationOwner]]++
		}
		if n := jobs["team/large"] + jobs["team/small"]; n > most {
			t.Errorf("%d Jobs of a namespace", n)
		}
		return jobs
	}
	for range 2 {
		run()
	}
	if jobs := run(); jobs["team/large"] != most || jobs["others/small"] != 3 || plans[1].Status.Phase != v1alpha1.PhaseHibernating {
		t.Fatalf("at first there are Jobs of %v", jobs)
	}
	ended, waited := 0, -1
	for range 60 {
		if jobs := run(); jobs["team/small"] == 2 && waited < 0 {
			waited = ended
		}
		for _, job := range jobsOf(t, c) {
			if of := job.Annotations[v1alpha1.AnnotationOwner]; of == "team/large" && len(job.Status.Conditions) == 0 {
				complete(t, c, plans[0], job.Labels[v1alpha1.LabelTarget], &job)
				ended++
				break
			}
		}
	}
	if waited < 0 || waited > 3 || ended != 12 {
		t.Errorf("the small plan has waited for %d of %d attempts of the large one", waited, ended)
	}
	small := plans[1]
	if !r.rooms.has(client.ObjectKeyFromObject(small)) {
		t.Error("nothing is known of the small plan, whose Jobs run")
	}
	small.Finalizers = nil
	if err := c.Update(t.Context(), small); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), small); err != nil {
		t.Fatal(err)
	}
	if _, err := r.sweeping(reconcile.AsReconciler(c, r)).Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(small)}); err != nil {
		t.Fatal(err)
	}
	if r.rooms.has(client.ObjectKeyFromObject(small)) {
		t.Error("one that was forced away has room for good")
	}
}
