package hibernateplan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// takes lets a plan begin, and has somebody else take the name of its restore point: after the first attempt was recorded
// and before that was looked at, or later, between a look and the write.
func takes(t *testing.T, r *Reconciler, c client.WithWatch, plan *v1alpha1.HibernatePlan, later bool) *corev1.ConfigMap {
	t.Helper()
	taken := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: names{namespace: "system", plan: plan}.point("a").Name}, Data: map[string]string{"theirs": "yes"}}
	_, plan = pass(t, r, plan)
	if e := plan.Status.Executions[0]; !running(&e) || e.Attempts != 1 {
		t.Fatalf("nothing is recorded: %+v", e)
	}
	if !later {
		if err := c.Create(t.Context(), taken); err != nil {
			t.Fatal(err)
		}
		return taken
	}
	r.Live = interceptor.NewClient(c, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if _, ok := o.(*corev1.ConfigMap); ok {
			if err := c.Create(ctx, taken); err != nil {
				return err
			}
		}
		return c.Create(ctx, o, opts...)
	}})
	if _, err := r.Reconcile(t.Context(), plan); err == nil {
		t.Fatal("there was no error")
	}
	r.Live = c
	return taken
}

// A ConfigMap of somebody else that has the name of a restore point is left alone, and keeps the target from being
// stopped; nothing of it was kept, so that the next attempt is as the first was to be.
func TestPointTaken(t *testing.T) {
	for name, later := range map[string]bool{"before the attempt": false, "in the middle of it": true} {
		t.Run(name, func(t *testing.T) {
			plan := asleepNow()
			r, c := newReconciler(t, plan)
			taken := takes(t, r, c, plan, later)
			for range 4 {
				_, plan = pass(t, r, plan)
			}
			e := plan.Status.Executions[0]
			got := execution{State: e.State, Attempts: e.Attempts, Kept: e.Kept}
			if diff := cmp.Diff(execution{State: v1alpha1.ExecutionPending, Attempts: 1}, got); diff != "" || !strings.Contains(e.Message, "ConfigMap system/"+taken.Name) {
				t.Errorf("%q\n%s", e.Message, diff)
			}
			is := &corev1.ConfigMap{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(taken), is); err != nil || is.ResourceVersion != taken.ResourceVersion || len(jobsOf(t, c)) > 0 {
				t.Errorf("%+v, %v, %d Jobs", is, err, len(jobsOf(t, c)))
			}
			if err := c.Delete(t.Context(), taken); err != nil {
				t.Fatal(err)
			}
			r.Options.Clock.(*clocktesting.FakePassiveClock).SetTime(noon.Add(firstRetry))
			complete(t, c, plan, "a", theJob(t, r, c, plan))
			for range 2 {
				_, plan = pass(t, r, plan)
			}
			e = plan.Status.Executions[0]
			got = execution{State: e.State, Attempts: e.Attempts, Kept: e.Kept}
			if diff := cmp.Diff(execution{State: v1alpha1.ExecutionCompleted, Attempts: 2, Kept: true}, got); diff != "" {
				t.Errorf("afterwards (-want +got):\n%s", diff)
			}
		})
	}
}

// preconditions has a fake client do what it does not by itself: it gives objects UIDs, and deletes none by that of
// another.
func preconditions(c client.WithWatch) client.WithWatch {
	born := 0
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			born++
			o.SetUID(types.UID(fmt.Sprint("born-", born)))
			return c.Create(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			options := (&client.DeleteOptions{}).ApplyOptions(opts)
			if p := options.Preconditions; p != nil && p.UID != nil {
				gvk, err := c.GroupVersionKindFor(o)
				if err != nil {
					return err
				}
				is := kube.Empty(gvk)
				if err := c.Get(ctx, client.ObjectKeyFromObject(o), is); err != nil {
					return err
				}
				if is.GetUID() != *p.UID {
					return kube.Stale(is, "its UID is "+string(is.GetUID())+", and not "+string(*p.UID))
				}
			}
			return c.Delete(ctx, o, opts...)
		},
	})
}

// remains are the Jobs, and what they need, that there are, by their UIDs.
func remains(t *testing.T, c client.Client) (out []string) {
	t.Helper()
	for _, gvk := range []schema.GroupVersionKind{jobGVK, accountGVK, bindingGVK} {
		all, err := kube.List(t.Context(), c, gvk)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range all {
			out = append(out, gvk.Kind+" "+o.GetNamespace()+" "+string(o.GetUID()))
		}
	}
	slices.Sort(out)
	return out
}

// cleared is a reconciler in whose world the attempt at a plan has failed, and what that has needed is to be cleared away.
func cleared(t *testing.T) (r *Reconciler, c client.WithWatch, plan *v1alpha1.HibernatePlan, attempt string) {
	t.Helper()
	plan = asleepNow()
	shop := granting("shop")
	r, c = newReconciler(t, plan, shop)
	c = preconditions(c)
	r.Live, r.Options.Executors = c, executor.Registry{"noop": spaced{}}
	job := theJob(t, r, c, plan)
	want := []string{"Job system born-7", "RoleBinding shop born-6", "RoleBinding system born-5", "ServiceAccount system born-4"}
	if diff := cmp.Diff(want, remains(t, c)); diff != "" {
		t.Fatalf("made (-want +got):\n%s", diff)
	}
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}
	if err := c.Status().Update(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	if _, plan = pass(t, r, plan); plan.Status.Executions[0].State != v1alpha1.ExecutionPending || !helped(&plan.Status.Executions[0]) {
		t.Fatalf("%+v", plan.Status.Executions[0])
	}
	return r, c, plan, job.Name
}

// What an attempt has needed goes. What somebody else has made of the same names in between stays, and what another
// manager has made for the plan goes, whether this one remembers what it has made or not.
func TestTakenInBetween(t *testing.T) {
	for name, test := range map[string]struct {
		forgotten bool
		take      []schema.GroupVersionKind
		ours      bool
		want      []string
	}{
		"nothing":                {},
		"nothing, forgotten":     {forgotten: true},
		"all":                    {take: []schema.GroupVersionKind{jobGVK, accountGVK, bindingGVK}, want: []string{"Job system", "RoleBinding shop", "RoleBinding system", "ServiceAccount system"}},
		"all, forgotten":         {forgotten: true, take: []schema.GroupVersionKind{jobGVK, accountGVK, bindingGVK}, want: []string{"Job system", "RoleBinding shop", "RoleBinding system", "ServiceAccount system"}},
		"the ServiceAccount":     {take: []schema.GroupVersionKind{accountGVK}, want: []string{"ServiceAccount system"}},
		"bindings":               {take: []schema.GroupVersionKind{bindingGVK}, want: []string{"RoleBinding shop", "RoleBinding system"}},
		"all, for the same plan": {take: []schema.GroupVersionKind{jobGVK, accountGVK, bindingGVK}, ours: true},
	} {
		t.Run(name, func(t *testing.T) {
			r, c, plan, attempt := cleared(t)
			for _, gvk := range test.take {
				for _, at := range []types.NamespacedName{{Namespace: "system", Name: attempt}, bindingOf("shop", attempt)} {
					replace(t, c, gvk, at, plan, test.ours)
				}
			}
			if test.forgotten {
				r.made = lru.New(99)
			}
			for range 2 {
				_, plan = pass(t, r, plan)
			}
			if e := plan.Status.Executions[0]; helped(&e) {
				t.Errorf("it is not cleared away: %+v", e)
			}
			var got []string
			for _, o := range remains(t, c) {
				got = append(got, o[:strings.LastIndex(o, " ")])
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
			if r.made.Len() > 0 {
				t.Errorf("%d that are gone are remembered", r.made.Len())
			}
		})
	}
}

// replace puts another object in the place of one that there is: somebody else's, or one that is a plan's, too.
func replace(t *testing.T, c client.Client, gvk schema.GroupVersionKind, at types.NamespacedName, plan *v1alpha1.HibernatePlan, ours bool) {
	t.Helper()
	was, err := kube.Get(t.Context(), c, gvk, at)
	if err != nil {
		t.Fatal(err)
	}
	if was == nil {
		return
	}
	meta := metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name}
	o := map[schema.GroupVersionKind]client.Object{
		jobGVK: &batchv1.Job{ObjectMeta: meta}, accountGVK: &corev1.ServiceAccount{ObjectMeta: meta}, bindingGVK: &rbacv1.RoleBinding{ObjectMeta: meta},
	}[gvk]
	if ours {
		marks.Set(plan, o)
	}
	if err := errors.Join(c.Delete(t.Context(), was), c.Create(t.Context(), o)); err != nil {
		t.Fatal(err)
	}
}

// What cannot be deleted for another reason is not taken for gone.
func TestNotTakenAway(t *testing.T) {
	r, c, plan, _ := cleared(t)
	lost := errors.New("the API server is gone")
	r.Live = interceptor.NewClient(c, interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
		if o.GetObjectKind().GroupVersionKind() == bindingGVK {
			return lost
		}
		return c.Delete(ctx, o, opts...)
	}})
	if _, err := r.Reconcile(t.Context(), plan.DeepCopy()); !errors.Is(err, lost) {
		t.Fatalf("got %v", err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(plan), plan); err != nil || !helped(&plan.Status.Executions[0]) {
		t.Errorf("%+v, %v", plan.Status.Executions[0], err)
	}
	r.Live = c
	r.Options.Clock.(*clocktesting.FakePassiveClock).SetTime(noon.Add(time.Second))
	for range 2 {
		_, plan = pass(t, r, plan)
	}
	if got := remains(t, c); len(got) > 0 || helped(&plan.Status.Executions[0]) {
		t.Errorf("left are %v: %+v", got, plan.Status.Executions[0])
	}
}

// listed needs namespaces by their names.
type listed struct {
	anything
	names []string
}

func (l listed) Parse(json.RawMessage) (executor.Parameters, error) { return l, nil }
func (l listed) Needs() executor.Needs {
	return executor.Needs{Namespaces: l.names, ClusterRole: "labkeeper-runner-listed"}
}

// dying has a namespace be deleted.
func dying(namespace *corev1.Namespace) *corev1.Namespace {
	namespace.DeletionTimestamp, namespace.Finalizers = &metav1.Time{Time: noon}, []string{"kubernetes"}
	return namespace
}

// What a selector chooses is no more than what lets the plan: nothing that is told, or done, tells what others have the labels.
func TestChosenNamespacesThatRefuse(t *testing.T) {
	namespace := func(name, allows string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"sleeps": "yes"}, Annotations: map[string]string{v1alpha1.AnnotationAllowedNamespaces: allows},
		}}
	}
	shop := namespace("shop", "team")
	for name, test := range map[string]struct {
		others []client.Object
		there  []client.Object
	}{
		"one refuses":         {[]client.Object{namespace("payroll", "lab")}, nil},
		"the manager's":       {[]client.Object{namespace("system", "team")}, nil},
		"two beside one":      {[]client.Object{namespace("payroll", ""), namespace("merger", "lab")}, []client.Object{shop}},
		"one that is deleted": {[]client.Object{dying(namespace("payroll", "team"))}, []client.Object{shop}},
	} {
		t.Run(name, func(t *testing.T) {
			told := func(objects ...client.Object) (out []string) {
				plan := asleepNow()
				r, c := newReconciler(t, append(objects, plan)...)
				r.Options.Executors = executor.Registry{"noop": chosen{}}
				for range 3 {
					_, plan = pass(t, r, plan)
				}
				for _, c := range plan.Status.Conditions {
					out = append(out, fmt.Sprintln(c.Type, c.Status, c.Reason, c.Message))
				}
				out = append(out, fmt.Sprintln(plan.Status.Phase))
				for _, e := range plan.Status.Executions {
					out = append(out, fmt.Sprintln(e.State, e.Message, e.Namespaces))
				}
				for _, job := range jobsOf(t, c) {
					out = append(out, fmt.Sprintln(job.Spec.Template.Spec.Containers[0].Args))
				}
				return out
			}
			if diff := cmp.Diff(told(test.there...), told(slices.Concat(test.others, test.there)...)); diff != "" {
				t.Errorf("without and with what refuses (-without +with):\n%s", diff)
			}
		})
	}
}

// Who may not list Namespaces does not learn by a target which there are, nor what labels they have: of those that he names the first
// that refuses is told, whether there is one or not, and of those that he chooses none.
func TestNamespacesThatRefuse(t *testing.T) {
	namespace := func(name, allows string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"sleeps": "yes"}, Annotations: map[string]string{v1alpha1.AnnotationAllowedNamespaces: allows},
		}}
	}
	const first = "Target a: namespace merger does not let plans of namespace team act in it, or does not exist; annotate it with hibernator.ardikabs.com/allowed-namespaces=team"
	for name, test := range map[string]struct {
		executor executor.Executor
		there    []client.Object
		want     string
	}{
		"named, and not there":        {listed{names: []string{"merger"}}, nil, first},
		"named, and refuses":          {listed{names: []string{"merger"}}, []client.Object{namespace("merger", "lab")}, first},
		"the second is not there":     {listed{names: []string{"release", "merger"}}, []client.Object{namespace("merger", "")}, first},
		"the first is not there":      {listed{names: []string{"release", "merger"}}, []client.Object{namespace("release", "")}, first},
		"named, and of runners":       {listed{names: []string{"system"}}, []client.Object{namespace("system", "")}, "Target a: namespace system is that of the runners and restore points of plans: what wakes the targets must not sleep"},
		"named, and the manager's":    {listed{names: []string{"labs"}}, []client.Object{namespace("labs", "*")}, "Target a: namespace labs is the manager's own: what wakes the targets must not sleep"},
		"named, going, and refuses":   {listed{names: []string{"merger"}}, []client.Object{dying(namespace("merger", "lab"))}, first},
		"named, and lets":             {listed{names: []string{"merger"}}, []client.Object{namespace("merger", "team")}, ""},
		"chosen, and all of them let": {chosen{}, []client.Object{namespace("merger", "*")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			plan := asleepNow()
			r, c := newReconciler(t, append(test.there, plan)...)
			r.Options.Executors, r.Options.Own = executor.Registry{"noop": test.executor}, "labs"
			for range 3 {
				_, plan = pass(t, r, plan)
			}
			got := find(plan.Status.Conditions, v1alpha1.ConditionScheduled)
			if refused := got.Reason == v1alpha1.ReasonNotGranted; refused != (test.want != "") || refused && got.Message != test.want {
				t.Errorf("it says %s: %s", got.Reason, got.Message)
			}
			if jobs := jobsOf(t, c); (len(jobs) == 0) != (test.want != "") {
				t.Errorf("%d Jobs", len(jobs))
			}
		})
	}
}
