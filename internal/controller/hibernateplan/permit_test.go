package hibernateplan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/lru"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// rolesOf are the targets that have a Role.
func rolesOf(t *testing.T, c client.Client) (targets []string) {
	t.Helper()
	var list rbacv1.RoleList
	if err := c.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		targets = append(targets, list.Items[i].Labels[v1alpha1.LabelTarget])
	}
	return targets
}

// roleOf is how the Role of target a is made.
func roleOf(plan *v1alpha1.HibernatePlan) *rbacv1.Role {
	return names{namespace: "system", plan: plan}.permission("a")
}

// The Role of a target stays for its next attempt, which does not even look at it. Another manager looks, and makes no other.
func TestRoleStays(t *testing.T) {
	n := newBroadNight(t, false, granting("shop"))
	asked := map[string]int{}
	n.of.Live = interceptor.NewClient(n.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, at client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, is := o.(*rbacv1.Role); is {
				asked["get"]++
			}
			return c.Get(ctx, at, o, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if o.GetObjectKind().GroupVersionKind() == roleGVK {
				asked["create"]++
			}
			return c.Create(ctx, o, opts...)
		},
	})
	n.complete()
	n.morning()
	n.complete()
	if got := rolesOf(t, n.client); !slices.Equal(got, []string{"a"}) || asked["get"] != 1 || asked["create"] != 1 {
		t.Errorf("there are Roles of %v, and it was asked %v", got, asked)
	}
	n.of.permitted, n.plan.Spec.Override.State = lru.New(9), v1alpha1.OverrideHibernated
	if err := n.client.Update(t.Context(), n.plan); err != nil {
		t.Fatal(err)
	}
	n.complete()
	if got := rolesOf(t, n.client); !slices.Equal(got, []string{"a"}) || asked["get"] != 2 || asked["create"] != 1 {
		t.Errorf("after a restart there are Roles of %v, and it was asked %v", got, asked)
	}
}

// A Role that somebody has deleted, or changed, is made anew: an attempt that finds it gone begins all the same, and one that fails is
// followed by one that looks.
func TestRoleThatIsNotAsItWasMade(t *testing.T) {
	for name, spoil := range map[string]func(c client.Client, role *rbacv1.Role) error{
		"deleted": func(c client.Client, role *rbacv1.Role) error { return c.Delete(t.Context(), role) },
		"narrower": func(c client.Client, role *rbacv1.Role) error {
			role.Rules = nil
			return c.Update(t.Context(), role)
		},
		"wider": func(c client.Client, role *rbacv1.Role) error {
			role.Rules[0].ResourceNames = nil
			return c.Update(t.Context(), role)
		},
	} {
		t.Run(name, func(t *testing.T) {
			plan := asleepNow()
			plan.Spec.Behavior.Retries = ptr.To(int32(3))
			r, c := newReconciler(t, plan)
			now, want := roleOf(plan), roleOf(plan).Rules
			r.Live = interceptor.NewClient(c, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if o.GetObjectKind().GroupVersionKind() == bindingGVK { // the API server looks for the Role
					if err := c.Get(ctx, client.ObjectKeyFromObject(now), &rbacv1.Role{}); err != nil {
						return err
					}
				}
				return c.Create(ctx, o, opts...)
			}})
			job := theJob(t, r, c, plan)
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(now), now); err != nil {
				t.Fatal(err)
			}
			if err := spoil(c, now); err != nil {
				t.Fatal(err)
			}
			job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}
			if err := c.Status().Update(t.Context(), job); err != nil {
				t.Fatal(err)
			}
			for range 8 {
				_, plan = pass(t, r, plan)
				clock := r.Options.Clock.(*clocktesting.FakePassiveClock)
				clock.SetTime(clock.Now().Add(10 * time.Second))
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(now), now); err != nil || !equality.Semantic.DeepEqual(now.Rules, want) {
				t.Errorf("it lets do %v: %v", now.Rules, err)
			}
			if e := plan.Status.Executions[0]; e.Attempts != 2 || len(jobsOf(t, c)) != 1 {
				t.Errorf("%d Jobs of %+v", len(jobsOf(t, c)), e)
			}
		})
	}
}

// A Role that is deleted between two attempts is found gone by the second, and costs it nothing.
func TestRoleThatIsGone(t *testing.T) {
	plan := asleepNow()
	r, c := newReconciler(t, plan)
	r.permitted.Add(client.ObjectKeyFromObject(roleOf(plan)), nil) // as this manager has made it
	r.Live = interceptor.NewClient(c, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if o.GetObjectKind().GroupVersionKind() == bindingGVK {
			if err := c.Get(ctx, client.ObjectKeyFromObject(roleOf(plan)), &rbacv1.Role{}); err != nil {
				return err
			}
		}
		return c.Create(ctx, o, opts...)
	}})
	for range 5 {
		now := &v1alpha1.HibernatePlan{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(plan), now); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Reconcile(t.Context(), now); err != nil && !kube.Conflict(err) {
			t.Fatal(err)
		}
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(plan), plan); err != nil || plan.Status.Executions[0].Attempts != 1 || len(jobsOf(t, c)) != 1 {
		t.Errorf("%d Jobs of %+v: %v", len(jobsOf(t, c)), plan.Status.Executions, err)
	}
}

// The Roles of a plan are there before its first night, and go with it if it has none. Who may not make them says so by day, and keeps
// the plan from going no more than one that nobody would make any for.
func TestRolesBeforeTheFirstNight(t *testing.T) {
	var targets []string
	for i := range 2*perPass + 1 {
		targets = append(targets, fmt.Sprintf("t%02d", i))
	}
	day := func() *v1alpha1.HibernatePlan {
		plan, _ := attempting(v1alpha1.OperationShutdown, targets...)
		plan.Finalizers, plan.Status = []string{v1alpha1.Finalizer}, v1alpha1.HibernatePlanStatus{}
		plan.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideAwake}
		return plan
	}
	for name, test := range map[string]struct {
		change func(*v1alpha1.HibernatePlan)
		want   int
	}{
		"by day":                      {func(*v1alpha1.HibernatePlan) {}, len(targets)},
		"dryRun":                      {func(p *v1alpha1.HibernatePlan) { p.Spec.DryRun = true }, 0},
		"refused":                     {func(p *v1alpha1.HibernatePlan) { p.Spec.Targets[3].Type = "nothing" }, 0},
		"slept":                       {func(p *v1alpha1.HibernatePlan) { p.Status.Cycles = 3 }, 0},
		"forbidden":                   {func(*v1alpha1.HibernatePlan) {}, 0},
		"some of which are not to be": {func(*v1alpha1.HibernatePlan) {}, len(targets) - 1},
	} {
		t.Run(name, func(t *testing.T) {
			plan := day()
			test.change(plan)
			r, c := newReconciler(t, plan)
			may := apierrors.NewForbidden(schema.GroupResource{Group: rbacv1.GroupName, Resource: "roles"}, "x", errors.New("nobody has bound labkeeper-hibernation"))
			if name == "forbidden" {
				r.Live = interceptor.NewClient(c, interceptor.Funcs{
					Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return may },
					DeleteAllOf: func(context.Context, client.WithWatch, client.Object, ...client.DeleteAllOfOption) error {
						return may
					},
				})
			}
			if name == "some of which are not to be" {
				r.Live = interceptor.NewClient(c, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					if o.GetLabels()[v1alpha1.LabelTarget] == "t05" {
						return may
					}
					return c.Create(ctx, o, opts...)
				}})
			}
			for range 4 {
				pass(t, r, plan)
			}
			if got := rolesOf(t, c); len(got) != test.want || len(jobsOf(t, c)) > 0 {
				t.Errorf("there are Roles of %v", got)
			}
			if err := c.Delete(t.Context(), plan); err != nil {
				t.Fatal(err)
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(plan), plan); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Reconcile(t.Context(), plan); err != nil {
				t.Fatal(err)
			}
			if got, err := rolesOf(t, c), c.Get(t.Context(), client.ObjectKeyFromObject(plan), plan); len(got) > 0 || !apierrors.IsNotFound(err) {
				t.Errorf("left are Roles of %v, and the plan: %v", got, err)
			}
		})
	}
}

// Where nobody lets the manager delete all Roles of a plan at once, as before it needed to, that keeps a plan from going which has some.
func TestRolesThatMayNotBeDeleted(t *testing.T) {
	plan := asleepNow()
	plan.Spec.Override = nil
	r, c := newReconciler(t, plan)
	pass(t, r, plan)
	if got := rolesOf(t, c); len(got) != 1 {
		t.Fatalf("Roles of %v", got)
	}
	may := apierrors.NewForbidden(schema.GroupResource{Group: rbacv1.GroupName, Resource: "roles"}, "", errors.New("the rights are of a manager before"))
	r.Live = interceptor.NewClient(c, interceptor.Funcs{DeleteAllOf: func(context.Context, client.WithWatch, client.Object, ...client.DeleteAllOfOption) error {
		return may
	}})
	if err := errors.Join(c.Delete(t.Context(), plan), c.Get(t.Context(), client.ObjectKeyFromObject(plan), plan)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reconcile(t.Context(), plan); !errors.Is(err, may) {
		t.Errorf("got %v", err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(plan), plan); err != nil {
		t.Errorf("it went, and its Roles stay: %v", err)
	}
}
