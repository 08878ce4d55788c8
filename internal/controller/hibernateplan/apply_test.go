package hibernateplan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/lru"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/internal/restore"
	"github.com/labkeeper/labkeeper/internal/runner"
	"github.com/labkeeper/labkeeper/test/fakes"
)

// attempting is a plan of targets that all have their first attempt recorded, and the names of what it makes.
func attempting(operation v1alpha1.Operation, targets ...string) (*v1alpha1.HibernatePlan, names) {
	plan := newPlan(v1alpha1.StrategyParallel, 0)
	plan.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideAwake}
	if operation == v1alpha1.OperationShutdown {
		plan.Spec.Override.State = v1alpha1.OverrideHibernated
	}
	plan.Status.Cycles = 1
	plan.Status.CurrentCycle = &v1alpha1.Cycle{ID: 1, Turn: 1, Operation: operation, PlanRevision: "revision"}
	n := names{namespace: "system", plan: plan, cycle: plan.Status.CurrentCycle}
	for _, target := range targets {
		plan.Spec.Targets = append(plan.Spec.Targets, v1alpha1.Target{Name: target, Type: "noop"})
		e := execution{Target: target, Executor: "noop", Operation: operation, Asleep: operation == v1alpha1.OperationWakeUp}
		begin(&e, n, noon)
		plan.Status.Executions = append(plan.Status.Executions, e)
	}
	return plan, n
}

// pointOf is the restore point of a target, which an attempt may write to.
func pointOf(n names, target, attempt string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: n.point(target).Name, Annotations: map[string]string{
		v1alpha1.AnnotationOwner: "team/night", runner.AnnotationExecution: attempt,
	}}, BinaryData: captured()}
}

// captured is what a runner has written to a restore point, in its own words.
func captured() map[string][]byte {
	return map[string][]byte{runner.KeyPoint: []byte("three replicas")}
}

// capture has the runners of all attempts come as far as to write how their targets are.
func capture(t *testing.T, c client.Client) {
	t.Helper()
	var points corev1.ConfigMapList
	if err := c.List(t.Context(), &points, client.HasLabels{labelRestorePoint}); err != nil || len(points.Items) == 0 {
		t.Fatalf("%d restore points, %v", len(points.Items), err)
	}
	for i := range points.Items {
		points.Items[i].BinaryData = captured()
		if err := c.Update(t.Context(), &points.Items[i]); err != nil {
			t.Fatal(err)
		}
	}
}

// launch is a pass over the first attempts at two targets, of which the Job of the second is refused, an age after
// they were recorded.
func launch(t *testing.T, refusal error, age time.Duration) (*scope, error) {
	t.Helper()
	plan, _ := attempting(v1alpha1.OperationShutdown, targetNames(2)...)
	plan.ResourceVersion = "1"
	refused := name(plan.Status.Executions[1].JobRef)
	c := fakes.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(plan).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if o.GetObjectKind().GroupVersionKind().Kind == "Job" && o.GetName() == refused {
				return refusal
			}
			return c.Create(ctx, o, opts...)
		},
	}).Build()
	s := &scope{
		Reconciler: &Reconciler{Client: c, Live: c, Options: Options{Namespace: "system", Image: "runner", Executors: registry, MaxConcurrentReconciles: 4}, revisions: lru.New(1), made: lru.New(9), permitted: lru.New(9), recorded: lru.New(9), tried: lru.New(9)},
		owner:      plan, now: noon.Add(age), points: map[string]*corev1.ConfigMap{},
	}
	cycle := resolve(plan.Spec)
	s.seen.Cycle = &cycle
	s.seen.Looked = map[string]bool{name(plan.Status.Executions[0].JobRef): true, refused: true}
	s.plan = facts{plan: plan, seen: s.seen, registry: registry, namespace: "system", now: s.now}.decide()
	if len(s.plan.Launch) != 2 {
		t.Fatalf("to be launched: %v", s.plan.Launch)
	}
	err := s.apply(t.Context())
	var jobs batchv1.JobList
	if listErr := c.List(t.Context(), &jobs); listErr != nil || len(jobs.Items) != 1 || !s.recordable {
		t.Errorf("%d Jobs, %v, recordable: %v", len(jobs.Items), listErr, s.recordable)
	}
	return s, err
}

// An attempt whose Job cannot be made has failed if that lasts, and is made by a later pass if it may pass; the others
// go on in any case.
func TestJobThatCannotBeMade(t *testing.T) {
	jobs := schema.GroupResource{Group: "batch", Resource: "jobs"}
	for name, c := range map[string]struct {
		refusal error
		age     time.Duration
		fails   bool
	}{
		"server error":     {refusal: apierrors.NewInternalError(context.DeadlineExceeded)},
		"quota":            {refusal: apierrors.NewForbidden(jobs, "x", nil)},
		"quota that stays": {refusal: apierrors.NewForbidden(jobs, "x", nil), age: patience, fails: true},
		"invalid":          {refusal: apierrors.NewInvalid(schema.GroupKind{Group: "batch", Kind: "Job"}, "x", nil), fails: true},
		"bad request":      {refusal: apierrors.NewBadRequest("no"), fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := launch(t, c.refusal, c.age)
			e := s.plan.Status.Executions[1]
			if got := !running(&e); got != c.fails || (err == nil) != c.fails || len(s.plan.Failed) > 0 != c.fails {
				t.Errorf("%s, %v, %d failed", e.State, err, len(s.plan.Failed))
			}
			if c.fails && (e.State != v1alpha1.ExecutionPending || e.Message == "") {
				t.Errorf("%s: %q", e.State, e.Message)
			}
		})
	}
}

// An attempt that was recorded with many others, and has its turn when those have had theirs, has as much time as the first of them: one
// error that may pass is no reason to count it.
func TestJobThatIsMadeLate(t *testing.T) {
	plan := newPlan(v1alpha1.StrategyParallel, perPass+5)
	plan.Finalizers, plan.Spec.Behavior.Retries = []string{v1alpha1.Finalizer}, ptr.To[int32](0)
	plan.Spec.Execution.Strategy.MaxConcurrency = nil
	plan.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideHibernated}
	r, c := newReconciler(t, plan)
	r = fresh(c, c, r.Options)
	clock, last := r.Options.Clock.(*clocktesting.FakePassiveClock), plan.Spec.Targets[perPass+4].Name
	busy := apierrors.NewTooManyRequests("it has too much to do", 1)
	r.Live = interceptor.NewClient(c, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if o.GetObjectKind().GroupVersionKind() == jobGVK && o.GetLabels()[v1alpha1.LabelTarget] == last {
			return busy
		}
		return c.Create(ctx, o, opts...)
	}})
	look := func() (*execution, error) {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(plan), plan); err != nil {
			t.Fatal(err)
		}
		_, err := r.Reconcile(t.Context(), plan)
		return &plan.Status.Executions[perPass+4], errors.Join(err, c.Get(t.Context(), client.ObjectKeyFromObject(plan), plan))
	}
	refused := 0
	for range 6 {
		e, err := look()
		if !running(e) {
			t.Fatalf("it has failed at once: %+v, %v", e, err)
		}
		if errors.Is(err, busy) {
			refused++
			break
		}
		clock.SetTime(clock.Now().Add(patience))
	}
	clock.SetTime(clock.Now().Add(patience - time.Second))
	if e, err := look(); !running(e) || refused == 0 {
		t.Fatalf("it has failed before its time, or was never tried: %+v, %v", e, err)
	}
	clock.SetTime(clock.Now().Add(time.Second))
	if e, err := look(); !failed(e) {
		t.Errorf("it has not failed: %+v, %v", e, err)
	}
}

// However many attempts cannot be made, as where a webhook of others sleeps, the rest has its turn: at once, where it has had none, and
// also when the others have failed and are tried again.
func TestRefusedKeepNobody(t *testing.T) {
	const refusals = 2*perPass + 3
	plan := newPlan(v1alpha1.StrategyParallel, refusals+2)
	plan.Finalizers = []string{v1alpha1.Finalizer}
	plan.Spec.Execution.Strategy.MaxConcurrency = nil
	plan.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideHibernated}
	r, c := newReconciler(t, plan)
	r = fresh(c, c, r.Options)
	clock := r.Options.Clock.(*clocktesting.FakePassiveClock)
	asleep := apierrors.NewInternalError(errors.New("failed calling webhook: no endpoints available"))
	open := plan.Spec.Targets[refusals].Name // and at first not the one behind it
	r.Live = interceptor.NewClient(c, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if o.GetObjectKind().GroupVersionKind() == jobGVK && o.GetLabels()[v1alpha1.LabelTarget] != open {
			return asleep
		}
		return c.Create(ctx, o, opts...)
	}})
	has := func(target string) bool {
		return slices.ContainsFunc(jobsOf(t, c), func(job batchv1.Job) bool { return job.Labels[v1alpha1.LabelTarget] == target })
	}
	look := func() time.Duration {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(plan), plan); err != nil {
			t.Fatal(err)
		}
		result, err := r.Reconcile(t.Context(), plan)
		wait := result.RequeueAfter
		if err != nil && wait == 0 { // it is tried again after a minute
			wait = time.Minute
		}
		clock.SetTime(clock.Now().Add(wait))
		return wait
	}
	for range 6 {
		if wait := look(); wait != atOnce && !has(open) {
			t.Fatalf("%s waits for %s", open, wait)
		}
	}
	if !has(open) {
		t.Fatalf("%s has no Job", open)
	}
	clock.SetTime(clock.Now().Add(patience)) // those of before have failed by then, and are tried again
	open = plan.Spec.Targets[refusals+1].Name
	for opened := clock.Now(); !has(open); {
		if look(); clock.Since(opened) > 5*time.Minute {
			t.Fatalf("%s has no Job after five minutes", open)
		}
	}
}

// Attempts that wait for the pods of Jobs that somebody has deleted keep nobody from being looked at.
func TestHeldKeepNobody(t *testing.T) {
	plan, n := attempting(v1alpha1.OperationShutdown, targetNames(perPass+1)...)
	var objects []client.Object
	for i := range perPass {
		e := &plan.Status.Executions[i]
		job := name(e.JobRef)
		objects = append(objects, pointOf(n, e.Target, job),
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: job, Labels: map[string]string{batchv1.JobNameLabel: job}}})
	}
	c := fakes.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).Build()
	s := &scope{Reconciler: &Reconciler{Client: c, Live: c, made: lru.New(9), permitted: lru.New(9), recorded: lru.New(9), tried: lru.New(9), Options: Options{Namespace: "system"}}, owner: plan, now: noon}
	if err := s.observeAttempts(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.more || len(s.seen.Held) != perPass {
		t.Errorf("%d held, more: %v", len(s.seen.Held), s.more)
	}
	p := facts{plan: plan, seen: s.seen, registry: registry, namespace: "system", now: noon}.decide()
	if !slices.Equal(p.Launch, []int{perPass}) {
		t.Errorf("to be launched: %v", p.Launch)
	}
}

// Attempts that cannot be cleared away, as by a policy of others in the namespaces of their targets, keep none from that: what is left
// of an attempt keeps its target from waking.
func TestClearedBesideOthers(t *testing.T) {
	for name, kept := range map[string]func(*execution) bool{
		"what was needed": helped,
		"restore points": func(e *execution) bool {
			e.ServiceAccountRef, e.Asleep = "", false
			return spent(e)
		},
	} {
		t.Run(name, func(t *testing.T) {
			plan, _ := attempting(v1alpha1.OperationShutdown, targetNames(perPass+2)...)
			for i := range plan.Status.Executions {
				e := &plan.Status.Executions[i]
				if e.State = v1alpha1.ExecutionCompleted; !kept(e) {
					t.Fatalf("nothing is left of %+v", e)
				}
			}
			cycle := resolve(plan.Spec)
			had := map[int]bool{}
			for i := range 2 * perPass {
				p := facts{plan: plan, seen: Observed{Cycle: &cycle}, registry: registry, namespace: "system", now: noon.Add(time.Duration(i) * time.Minute)}.decide()
				turn := slices.Concat(p.Clear, p.Release)
				if len(turn) != perPass {
					t.Errorf("a pass is about %v", turn)
				}
				for _, position := range turn {
					had[position] = true
				}
			}
			if len(had) != perPass+2 {
				t.Errorf("only %d have had their turn", len(had))
			}
		})
	}
}

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(appsv1.AddToScheme(scheme), batchv1.AddToScheme(scheme), corev1.AddToScheme(scheme), rbacv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return scheme
}

// newReconciler is one of a world that has some objects in it, at noon.
func newReconciler(t *testing.T, objects ...client.Object) (*Reconciler, client.WithWatch) {
	t.Helper()
	c := fakes.NewClientBuilder().WithScheme(newScheme(t)).WithStatusSubresource(&v1alpha1.HibernatePlan{}, &v1alpha1.ScheduleException{}).WithObjects(objects...).
		WithIndex(&v1alpha1.ScheduleException{}, indexPlan, func(e client.Object) []string { return []string{e.(*v1alpha1.ScheduleException).Spec.PlanRef.Name} }).
		WithIndex(kube.Empty(jobGVK), indexOwner, func(job client.Object) []string { return []string{job.GetAnnotations()[v1alpha1.AnnotationOwner]} }).Build()
	return &Reconciler{
		Client: c, Live: c, Recorder: kube.Silence, revisions: lru.New(9), strayed: lru.New(9), lonely: lru.New(9), shards: lru.New(99), made: lru.New(99), permitted: lru.New(99), prepared: lru.New(9), doubted: lru.New(9), renewed: lru.New(9), paced: lru.New(9), rounds: lru.New(9), recorded: lru.New(9), tried: lru.New(9), tight: lru.New(9), rooms: newRooms(0),
		Options: Options{Namespace: "system", Image: "runner", PullSecrets: []string{"mirror"}, Executors: registry, MaxConcurrentReconciles: 4, LedgerInStatus: DefaultLedgerInStatus, Clock: clocktesting.NewFakePassiveClock(noon)},
	}, c
}

// pass lets a reconciler look at a plan, and returns what there is of it then.
func pass(t *testing.T, r *Reconciler, plan *v1alpha1.HibernatePlan) (ctrl.Result, *v1alpha1.HibernatePlan) {
	t.Helper()
	now := &v1alpha1.HibernatePlan{}
	if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(plan), now); err != nil {
		t.Fatal(err)
	}
	result, err := r.Reconcile(t.Context(), now)
	if err := errors.Join(err, r.Client.Get(t.Context(), client.ObjectKeyFromObject(plan), now)); err != nil {
		t.Fatal(err)
	}
	return result, now
}

// complete ends a Job at a target, whose runner has said that it is done.
func complete(t *testing.T, c client.Client, plan *v1alpha1.HibernatePlan, target string, job *batchv1.Job) {
	t.Helper()
	point := &corev1.ConfigMap{}
	if err := c.Get(t.Context(), names{namespace: "system", plan: plan}.point(target), point); err != nil {
		t.Fatal(err)
	}
	if point.BinaryData == nil {
		point.BinaryData = captured()
	}
	point.Data[runner.KeyResult] = fmt.Sprintf(`{"execution":%q,"completed":true,"resources":1,"message":"1 of 1 resources are asleep"}`, job.Name)
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	if err := errors.Join(c.Update(t.Context(), point), c.Status().Update(t.Context(), job)); err != nil {
		t.Fatal(err)
	}
}

// Where the ledger was written just now, the Jobs that it speaks of are made, and it is not written again before its time.
func TestLedgerPace(t *testing.T) {
	plan, n := attempting(v1alpha1.OperationShutdown, targetNames(2)...)
	plan.ResourceVersion, plan.Finalizers = "1", []string{v1alpha1.Finalizer}
	ended := name(plan.Status.Executions[0].JobRef)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: ended}}
	marks.Set(plan, job)
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}
	revision := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: plan.Status.CurrentCycle.PlanRevision}}
	marks.Set(plan, revision)
	var err error
	if revision.Data.Raw, err = json.Marshal(resolve(plan.Spec)); err != nil {
		t.Fatal(err)
	}
	r, c := newReconciler(t, plan, job, revision, pointOf(n, "a", ended))
	r.Options.LedgerPace = time.Hour
	r.paced.Add(plan.UID, noon)
	result, now := pass(t, r, plan)
	var jobs batchv1.JobList
	if err := c.List(t.Context(), &jobs); err != nil || len(jobs.Items) != 2 {
		t.Fatalf("%d Jobs, %v", len(jobs.Items), err)
	}
	if made := slices.IndexFunc(jobs.Items, func(j batchv1.Job) bool { return j.Name != ended }); !slices.Equal(
		jobs.Items[made].Spec.Template.Spec.ImagePullSecrets, []corev1.LocalObjectReference{{Name: "mirror"}}) {
		t.Error("its pod does not have the Secrets to pull its image with")
	}
	if result.RequeueAfter < 59*time.Minute || !equality.Semantic.DeepEqual(now.Status, plan.Status) {
		t.Errorf("looks again in %s; the status is\n%+v", result.RequeueAfter, now.Status)
	}
	r.paced.Clear()
	if _, now = pass(t, r, plan); now.Status.Executions[0].State != v1alpha1.ExecutionPending {
		t.Errorf("an attempt that has failed is %s", now.Status.Executions[0].State)
	}
	if r.rest(plan) <= 0 {
		t.Error("the ledger was written, and may be again at once")
	}
}

// spaced is an executor that acts in namespace shop.
type spaced struct{ anything }

func (spaced) Parse(json.RawMessage) (executor.Parameters, error) { return spaced{}, nil }
func (spaced) Needs() executor.Needs {
	return executor.Needs{Namespaces: []string{"shop"}, ClusterRole: "labkeeper-runner-spaced"}
}

// broad needs two namespaces.
type broad struct{ anything }

func (broad) Parse(json.RawMessage) (executor.Parameters, error) { return broad{}, nil }
func (broad) Needs() executor.Needs {
	return executor.Needs{Namespaces: []string{"shop", "team"}, ClusterRole: "labkeeper-runner-broad"}
}

// A namespace that is deleted, or taken back, between two attempts or over night keeps nothing else asleep, nor awake.
func TestNamespacesChange(t *testing.T) {
	const finalizer = "example.com/held"
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Finalizers: []string{finalizer}, Annotations: map[string]string{v1alpha1.AnnotationAllowedNamespaces: "team"}}}
	drop := func(t *testing.T, c client.Client) {
		t.Helper()
		if err := c.Delete(t.Context(), shop.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	gone := func(t *testing.T, c client.Client) {
		t.Helper()
		drop(t, c)
		if err := c.Patch(t.Context(), shop.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`))); err != nil {
			t.Fatal(err)
		}
	}
	withdrawn := func(t *testing.T, c client.Client) {
		t.Helper()
		if err := c.Patch(t.Context(), shop.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"annotations": null}}`))); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		before, between, overNight func(*testing.T, client.Client)
		connector                  bool
		down, up                   string
	}{
		"nothing":                       {down: "shop,team", up: "shop,team"},
		"it goes before":                {before: drop, down: "team", up: "team"},
		"gone between two attempts":     {between: gone, down: "team", up: "team"},
		"going between two attempts":    {between: drop, down: "team", up: "team"},
		"gone over night":               {overNight: gone, down: "shop,team", up: "team"},
		"taken back over night":         {overNight: withdrawn, down: "shop,team", up: "shop,team"},
		"gone over night, connected":    {overNight: gone, connector: true, down: "shop,team", up: "team"},
		"taken back, connected":         {overNight: withdrawn, connector: true, down: "shop,team", up: "shop,team"},
		"gone between two, connected":   {between: gone, connector: true, down: "team", up: "team"},
		"it goes before, connected too": {before: drop, connector: true, down: "team", up: "team"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newBroadNight(t, test.connector, shop.DeepCopy())
			if test.before != nil {
				test.before(t, n.client)
			}
			if test.between != nil {
				n.fail()
				test.between(t, n.client)
				n.later()
			}
			if in := n.complete(); in != test.down {
				t.Fatalf("it is put to sleep in %q, want %q", in, test.down)
			}
			if test.overNight != nil {
				test.overNight(t, n.client)
			}
			n.morning()
			if in := n.complete(); in != test.up {
				t.Errorf("it is woken in %q, want %q", in, test.up)
			}
			if n.passes(6); n.plan.Status.CurrentCycle != nil {
				t.Errorf("it goes on: %+v", n.plan.Status)
			}
		})
	}
}

// broadNight is one of a plan with a target in two namespaces.
type broadNight struct {
	*testing.T
	plan   *v1alpha1.HibernatePlan
	of     *Reconciler
	client client.WithWatch
}

// granting is a namespace that lets plans of team act in it.
func granting(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{v1alpha1.AnnotationAllowedNamespaces: "team"}}}
}

// newBroadNight may reach its target by a connector to the manager's own cluster.
func newBroadNight(t *testing.T, connected bool, shop *corev1.Namespace) *broadNight {
	plan := newPlan(v1alpha1.StrategyParallel, 1)
	plan.Finalizers = []string{v1alpha1.Finalizer}
	plan.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideHibernated}
	cluster := &v1alpha1.K8SCluster{ObjectMeta: metav1.ObjectMeta{Namespace: plan.Namespace, Name: "here"}}
	cluster.Spec.K8S = &v1alpha1.K8SAccess{InCluster: true}
	cluster.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	if connected {
		plan.Spec.Targets[0].ConnectorRef = &v1alpha1.ConnectorRef{Kind: "K8SCluster", Name: "here"}
	}
	r, c := newReconciler(t, plan, cluster, shop, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}})
	r.Options.Executors = executor.Registry{"noop": broad{}}
	return &broadNight{t, plan, r, c}
}

// leave is kubectl delete namespace team: the connector has no finalizer and goes, the plan has one and stays.
func (n *broadNight) leave() {
	n.Helper()
	team := &corev1.Namespace{}
	if err := n.client.Get(n.Context(), client.ObjectKey{Name: "team"}, team); err != nil {
		n.Fatal(err)
	}
	team.Finalizers = []string{"example.com/held"}
	cluster := &v1alpha1.K8SCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "here"}}
	if err := errors.Join(n.client.Update(n.Context(), team), n.client.Delete(n.Context(), team), n.client.Delete(n.Context(), cluster), n.client.Delete(n.Context(), n.plan)); err != nil {
		n.Fatal(err)
	}
}

func (n *broadNight) passes(times int) {
	n.Helper()
	for range times {
		_, n.plan = pass(n.T, n.of, n.plan)
	}
}

// job is the only one, and the namespaces that its runner is told.
func (n *broadNight) job() (*batchv1.Job, string) {
	n.Helper()
	n.passes(6)
	var jobs batchv1.JobList
	if err := n.client.List(n.Context(), &jobs); err != nil || len(jobs.Items) != 1 {
		n.Fatalf("%d Jobs, %v\n%+v", len(jobs.Items), err, n.plan.Status)
	}
	for _, arg := range jobs.Items[0].Spec.Template.Spec.Containers[0].Args {
		if in, found := strings.CutPrefix(arg, "--namespaces="); found {
			return &jobs.Items[0], in
		}
	}
	return &jobs.Items[0], ""
}

// fail has the attempt fail, and later is when the next one is due.
func (n *broadNight) fail() {
	n.Helper()
	job, _ := n.job()
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}
	if err := n.client.Status().Update(n.Context(), job); err != nil {
		n.Fatal(err)
	}
}

func (n *broadNight) later() {
	n.Helper()
	n.passes(4)
	clock := n.of.Options.Clock.(*clocktesting.FakePassiveClock)
	clock.SetTime(clock.Now().Add(lastRetry))
}

// complete has the attempt succeed, and returns the namespaces that its runner was told.
func (n *broadNight) complete() string {
	n.Helper()
	job, in := n.job()
	complete(n.T, n.client, n.plan, "a", job)
	n.passes(4)
	return in
}

func (n *broadNight) morning() {
	n.Helper()
	n.wants(v1alpha1.OverrideAwake)
}

// wants has it be so.
func (n *broadNight) wants(state v1alpha1.OverrideState) {
	n.Helper()
	n.plan.Spec.Override.State = state
	if err := n.client.Update(n.Context(), n.plan); err != nil {
		n.Fatal(err)
	}
}

// point is the restore point.
func (n *broadNight) point() *corev1.ConfigMap {
	n.Helper()
	point := &corev1.ConfigMap{}
	if err := n.client.Get(n.Context(), names{namespace: "system", plan: n.plan}.point("a"), point); err != nil {
		n.Fatal(err)
	}
	return point
}

// chosen needs the namespaces with a label.
type chosen struct{ anything }

func (chosen) Parse(json.RawMessage) (executor.Parameters, error) { return chosen{}, nil }
func (chosen) Needs() executor.Needs {
	return executor.Needs{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"sleeps": "yes"}}, ClusterRole: "labkeeper-runner-chosen"}
}

// A target of which nothing was captured in the evening needs no waking, and keeps nothing from ending in the morning, whatever its runner
// would need: what has kept it awake mostly keeps one from waking it.
func TestNeverAsleep(t *testing.T) {
	empty, err := (&restore.Point{Plan: "team/night", Target: "a", Executor: "noop"}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	refused := func(n *broadNight) {
		n.of.Live = interceptor.NewClient(n.client, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if o.GetObjectKind().GroupVersionKind() == bindingGVK && o.GetNamespace() != "system" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "rolebindings"}, o.GetName(), errors.New("denied by a policy"))
			}
			return c.Create(ctx, o, opts...)
		}})
	}
	unready := func(n *broadNight) {
		cluster := &v1alpha1.K8SCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "here"}}
		if err := n.client.Delete(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		evening, morning func(*broadNight)
		connected, wakes bool
	}{
		"its namespaces refuse a runner": {evening: func(n *broadNight) {
			refused(n)
			_ = n.looks(4)
			n.of.Options.Clock.(*clocktesting.FakePassiveClock).SetTime(noon.Add(patience))
		}},
		"its runner has failed, and they refuse one":    {evening: (*broadNight).fail, morning: refused},
		"its runner has failed, and its connector goes": {evening: (*broadNight).fail, morning: unready, connected: true},
		"its runner has touched nothing":                {evening: func(n *broadNight) { n.job(); n.write(string(empty)); n.fail() }, morning: unready, connected: true},
		"its runner has captured something":             {evening: func(n *broadNight) { n.job(); n.write("three replicas"); n.fail() }, wakes: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newBroadNight(t, test.connected, granting("shop"))
			n.plan.Spec.Behavior.Retries = ptr.To[int32](0)
			n.wants(v1alpha1.OverrideHibernated)
			test.evening(n)
			if n.passes(4); n.plan.Status.Phase != v1alpha1.PhaseError {
				t.Fatalf("it has not failed: %+v", n.plan.Status)
			}
			if test.morning != nil {
				test.morning(n)
			}
			n.morning()
			n.passes(8)
			if jobs := len(jobsOf(t, n.client)) > 0; jobs != test.wakes {
				t.Errorf("a Job is made: %t", jobs)
			}
			points := &corev1.ConfigMapList{}
			if err := n.client.List(t.Context(), points, client.HasLabels{labelRestorePoint}); err != nil || (len(points.Items) > 0) != test.wakes {
				t.Errorf("%d restore points, %v", len(points.Items), err)
			}
			if over := n.plan.Status.CurrentCycle == nil; over == test.wakes || over && n.plan.Status.History[0].Message != "Failed to be put to sleep: a" {
				t.Errorf("it ends: %t, %+v", over, n.plan.Status)
			}
		})
	}
}

// Whoever opts out between two attempts is not put to sleep by the next, but is woken: by what he lets plans do, or by the labels alone.
func TestOptsOut(t *testing.T) {
	const both, labels = `{"metadata": {"labels": null, "annotations": null}}`, `{"metadata": {"labels": null}}`
	for name, test := range map[string]struct{ team, out, before, after string }{
		"of two":                     {team: `{"metadata": {"labels": {"sleeps": "yes"}}}`, out: both, before: "shop,team", after: "team"},
		"the only one":               {team: `{}`, out: both, before: "shop", after: ""},
		"of two, by its label":       {team: `{"metadata": {"labels": {"sleeps": "yes"}}}`, out: labels, before: "shop,team", after: "team"},
		"the only one, by its label": {team: `{}`, out: labels, before: "shop", after: ""},
		"of two, by what it lets":    {team: `{"metadata": {"labels": {"sleeps": "yes"}}}`, out: `{"metadata": {"annotations": null}}`, before: "shop,team", after: "team"},
	} {
		t.Run(name, func(t *testing.T) {
			shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
				Name: "shop", Labels: map[string]string{"sleeps": "yes"}, Annotations: map[string]string{v1alpha1.AnnotationAllowedNamespaces: "team"},
			}}
			n := newBroadNight(t, false, shop)
			n.of.Options.Executors = executor.Registry{"noop": chosen{}}
			patch := func(name, change string) {
				t.Helper()
				namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
				if err := n.client.Patch(t.Context(), namespace, client.RawPatch(types.MergePatchType, []byte(change))); err != nil {
					t.Fatal(err)
				}
			}
			patch("team", test.team)
			if _, in := n.job(); in != test.before {
				t.Fatalf("it is put to sleep in %q", in)
			}
			n.fail()
			patch("shop", test.out)
			n.later()
			if in := n.complete(); in != test.after {
				t.Errorf("after it has opted out, it is put to sleep in %q", in)
			}
			point := &corev1.ConfigMap{}
			if err := n.client.Get(t.Context(), names{namespace: "system", plan: n.plan}.point("a"), point); err != nil || point.Annotations[annotationNamespaces] != test.before {
				t.Errorf("another plan would find that it sleeps in %q, error %v", point.Annotations[annotationNamespaces], err)
			}
			n.morning()
			if in := n.complete(); in != test.before {
				t.Errorf("it is woken in %q", in)
			}
		})
	}
}

// A namespace that comes to have the labels between two attempts, and has never let anything sleep, is neither put to sleep nor woken, and
// keeps nothing from either: no runner is granted anything there.
func TestNeverLet(t *testing.T) {
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "shop", Labels: map[string]string{"sleeps": "yes"}, Annotations: map[string]string{v1alpha1.AnnotationAllowedNamespaces: "team"},
	}}
	n := newBroadNight(t, false, shop)
	n.of.Options.Executors = executor.Registry{"noop": chosen{}}
	n.fail()
	if err := n.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other", Labels: shop.Labels}}); err != nil {
		t.Fatal(err)
	}
	n.later()
	if in := n.complete(); in != "shop" {
		t.Fatalf("the second attempt is in %q: %+v", in, n.plan.Status.Executions[0])
	}
	n.morning()
	if _, in := n.job(); in != "shop" {
		t.Errorf("it is woken in %q", in)
	}
	bindings := &rbacv1.RoleBindingList{}
	if err := n.client.List(t.Context(), bindings, client.InNamespace("other")); err != nil || len(bindings.Items) > 0 {
		t.Errorf("its runner may act in a namespace that has never let it: %+v, %v", bindings.Items, err)
	}
	if n.complete(); n.plan.Status.CurrentCycle != nil {
		t.Errorf("it goes on: %+v", n.plan.Status)
	}
}

// However many resources a wake-up has left as they were found, that many are told of.
func TestManyAreLeft(t *testing.T) {
	n := newBroadNight(t, false, granting("shop"))
	n.complete()
	n.morning()
	job, _ := n.job()
	result, err := runner.Result{Execution: job.Name, Operation: v1alpha1.OperationWakeUp, Completed: true, Resources: 600, Left: make([]string, 500)}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	point := &corev1.ConfigMap{}
	if err := n.client.Get(t.Context(), names{namespace: "system", plan: n.plan}.point("a"), point); err != nil {
		t.Fatal(err)
	}
	point.Data[runner.KeyResult] = string(result)
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	if err := errors.Join(n.client.Update(t.Context(), point), n.client.Status().Update(t.Context(), job)); err != nil {
		t.Fatal(err)
	}
	n.passes(4)
	if h := n.plan.Status.History; len(h) != 1 || !strings.Contains(h[0].Message, "(500 of 600)") {
		t.Errorf("%+v", h)
	}
}

// What was left asleep wakes although a namespace of it is gone.
func TestLeftWhereOneIsGone(t *testing.T) {
	plan := newPlan(v1alpha1.StrategyParallel, 1)
	plan.Finalizers = []string{v1alpha1.Finalizer}
	plan.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideAwake}
	point := pointOf(names{namespace: "system", plan: plan}, "a", "")
	point.Labels = map[string]string{labelRestorePoint: keyLabel(client.ObjectKeyFromObject(plan))}
	point.Annotations[annotationNamespaces] = "shop,team"
	point.Data = map[string]string{keyTarget: `{"name": "a", "type": "noop"}`}
	r, c := newReconciler(t, plan, point, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}})
	r.Options.Executors = executor.Registry{"noop": broad{}}
	for range 6 {
		_, plan = pass(t, r, plan)
	}
	var jobs batchv1.JobList
	if err := c.List(t.Context(), &jobs); err != nil || len(jobs.Items) != 1 || !slices.Contains(jobs.Items[0].Spec.Template.Spec.Containers[0].Args, "--namespaces=team") {
		t.Fatalf("%d Jobs, %v\n%+v", len(jobs.Items), err, plan.Status)
	}
}

// What was left asleep where this plan may do nothing is not woken, whatever else there is to tell of.
func TestUnreadPointBesideOneOfOthers(t *testing.T) {
	for _, unread := range []string{"0", "z"} { // before the other, and after it
		plan := newPlan(v1alpha1.StrategyParallel, 1)
		var points []client.Object
		for name, content := range map[string]string{unread: `{`, "a": `{"name": "a", "type": "noop"}`} {
			point := pointOf(names{namespace: "system", plan: plan}, name, "")
			point.Name = name
			point.Labels = map[string]string{labelRestorePoint: keyLabel(client.ObjectKeyFromObject(plan))}
			point.Annotations[annotationNamespaces] = "other"
			point.Data = map[string]string{keyTarget: content}
			points = append(points, point)
		}
		r, _ := newReconciler(t, append(points, plan, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}})...)
		s := &scope{Reconciler: r, owner: plan, now: noon}
		if err := s.observeLeft(t.Context()); err != nil {
			t.Fatal(err)
		}
		if p := s.seen.Problem; p == nil || p.ofTarget || p.reason != v1alpha1.ReasonNotGranted {
			t.Errorf("beside %q: %+v", unread, p)
		}
	}
}

// What an exception keeps awake is not put to sleep by a cache that does not have it yet, nor that of another plan looked at.
func TestExceptionsBehind(t *testing.T) {
	keeps := func(plan string) *v1alpha1.ScheduleException {
		return &v1alpha1.ScheduleException{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "party", UID: "party"}, Spec: v1alpha1.ScheduleExceptionSpec{
			PlanRef: v1alpha1.PlanRef{Name: plan}, Type: v1alpha1.ExceptionSuspend,
			ValidFrom: metav1.NewTime(noon.Add(-time.Hour)), ValidUntil: metav1.NewTime(noon.Add(time.Hour)),
		}}
	}
	for name, test := range map[string]struct {
		of     string
		behind bool
		begins bool
	}{
		"in the cache":           {"night", false, false},
		"not yet in the cache":   {"night", true, false},
		"of another plan, cache": {"other", false, true},
		"of another plan, live":  {"other", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			plan := newPlan(v1alpha1.StrategyParallel, 1)
			plan.Spec.Schedule.OffHours[0].Start, plan.Spec.Schedule.OffHours[0].End = "11:00", "13:00"
			plan.Spec.Schedule.OffHours[0].DaysOfWeek = []v1alpha1.DayOfWeek{"MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"}
			r, c := newReconciler(t, plan, keeps(test.of))
			if test.behind {
				r.Client = interceptor.NewClient(c, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					if _, ok := list.(*v1alpha1.ScheduleExceptionList); ok {
						return nil
					}
					return c.List(ctx, list, opts...)
				}})
			}
			var err error
			for range 3 {
				now := &v1alpha1.HibernatePlan{}
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(plan), now); err != nil {
					t.Fatal(err)
				}
				_, err = r.Reconcile(t.Context(), now)
			}
			now := &v1alpha1.HibernatePlan{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(plan), now); err != nil {
				t.Fatal(err)
			}
			if begun := now.Status.CurrentCycle != nil; begun != test.begins || (err != nil) != (test.behind && !test.begins) {
				t.Errorf("begun: %t, %v", begun, err)
			}
		})
	}
}

// The morning comes also where exceptions cannot be listed, as when their kind is not served any more, and so does the end of a plan; no
// evening does.
func TestExceptionsThatCannotBeListed(t *testing.T) {
	exceptions := v1alpha1.GroupVersion.WithResource("scheduleexceptions").GroupResource()
	for name, refusal := range map[string]error{
		"not served": apierrors.NewNotFound(exceptions, ""), "no such kind": &meta.NoKindMatchError{}, "may not": apierrors.NewForbidden(exceptions, "", nil), "down": apierrors.NewServiceUnavailable("down"),
	} {
		for _, wanted := range []string{"evening", "morning", "deleted"} {
			t.Run(name+" "+wanted, func(t *testing.T) {
				plan := newPlan(v1alpha1.StrategyParallel, 1)
				if wanted == "deleted" {
					plan.Finalizers, plan.DeletionTimestamp = []string{v1alpha1.Finalizer}, ptr.To(metav1.NewTime(noon))
				}
				r, c := newReconciler(t, plan)
				r.Live = interceptor.NewClient(c, interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return refusal }})
				s := &scope{Reconciler: r, owner: plan, now: noon, plan: Plan{Known: true, Desired: desire{asleep: wanted == "evening"}}}
				goes := wanted == "deleted" || wanted == "morning" && name != "down"
				if err := s.timely(t.Context()); (err == nil) != goes {
					t.Errorf("it says %v", err)
				}
			})
		}
	}
}

// Plans of a namespace that look at one moment share a list of exceptions, but not one that began before they looked: what was
// created meanwhile may not be in it.
func TestExceptionsThatOthersList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := newPlan(v1alpha1.StrategyParallel, 1)
		r, c := newReconciler(t, plan)
		lists, slow := 0, make(chan struct{})
		r.Live = interceptor.NewClient(c, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			if lists++; lists == 1 {
				<-slow
			}
			return err
		}})
		look := func(told chan<- error) { told <- (&scope{Reconciler: r, owner: plan, now: noon}).timely(t.Context()) }
		before, after := make(chan error, 1), make(chan error, 3)
		go look(before)
		synctest.Wait()
		if err := c.Create(t.Context(), &v1alpha1.ScheduleException{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "party"}, Spec: v1alpha1.ScheduleExceptionSpec{PlanRef: v1alpha1.PlanRef{Name: plan.Name}},
		}); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			go look(after)
		}
		synctest.Wait()
		close(slow)
		if err := <-before; err != nil {
			t.Errorf("before there was one: %v", err)
		}
		for range 3 {
			if err := <-after; !kube.Conflict(err) || err == nil {
				t.Errorf("after it was created: %v", err)
			}
		}
	})
}

// A restore point that does not say what it is of keeps no others asleep, nor the plan for ever.
func TestUnreadPoint(t *testing.T) {
	plan := newPlan(v1alpha1.StrategyParallel, 1)
	plan.Finalizers = []string{v1alpha1.Finalizer}
	plan.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideAwake}
	var points []client.Object
	for target, content := range map[string]string{"a": `{"name": "a", "type": "noop"}`, "b": `{"name": "b`, "c": `{}`} {
		point := pointOf(names{namespace: "system", plan: plan}, target, "")
		point.Labels = map[string]string{labelRestorePoint: keyLabel(client.ObjectKeyFromObject(plan))}
		point.Data = map[string]string{keyTarget: content}
		points = append(points, point)
	}
	r, c := newReconciler(t, append(points, plan)...)
	for range 4 {
		_, plan = pass(t, r, plan)
	}
	var jobs batchv1.JobList
	if err := c.List(t.Context(), &jobs); err != nil || len(jobs.Items) != 1 {
		t.Fatalf("%d Jobs, %v\n%+v", len(jobs.Items), err, plan.Status)
	}

	var broken []client.Object
	for _, p := range points {
		if p.(*corev1.ConfigMap).Data[keyTarget] == `{"name": "b` {
			broken = append(broken, p)
		}
	}
	again := newPlan(v1alpha1.StrategyParallel, 1)
	again.UID, again.Finalizers = "uid-2", []string{v1alpha1.Finalizer}
	again.DeletionTimestamp = ptr.To(metav1.NewTime(noon))
	r, c = newReconciler(t, append(broken, again)...)
	_, now := pass(t, r, again)
	if ready := find(now.Status.Conditions, v1alpha1.ConditionReady); ready == nil || !strings.Contains(ready.Message, broken[0].GetName()) {
		t.Errorf("it does not say why it stays: %+v", now.Status.Conditions)
	}
	r.Options.Clock.(*clocktesting.FakePassiveClock).SetTime(noon.Add(defaultDeadline))
	for range 2 {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(again), now); err == nil {
			_, err = r.Reconcile(t.Context(), now)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(again), now); !apierrors.IsNotFound(err) {
		t.Errorf("it stays beyond its deadline: %v, %+v", err, now.Status)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(broken[0]), &corev1.ConfigMap{}); err != nil {
		t.Errorf("its restore point has gone: %v", err)
	}
}

// A restore point that does not say of which target it is keeps nothing from falling asleep, and is told of also after the first cycle: what
// it tells of sleeps. When it says so again, that wakes.
func TestUnreadPointIsNotForgotten(t *testing.T) {
	n := newBroadNight(t, false, granting("shop"))
	point := pointOf(names{namespace: "system", plan: n.plan}, "b", "")
	point.Labels, point.Annotations[annotationPlanUID] = map[string]string{labelRestorePoint: keyLabel(client.ObjectKeyFromObject(n.plan))}, "former"
	point.Data = map[string]string{keyTarget: `{"name": "b`}
	if err := n.client.Create(t.Context(), point); err != nil {
		t.Fatal(err)
	}
	n.complete()
	n.morning()
	n.complete()
	n.passes(4)
	ready := find(n.plan.Status.Conditions, v1alpha1.ConditionReady)
	if n.plan.Status.CurrentCycle != nil || ready.Status == metav1.ConditionTrue || !strings.Contains(ready.Message, point.Name) {
		t.Errorf("after a cycle it says %s: %s", ready.Reason, ready.Message)
	}
	if err := n.client.Get(t.Context(), client.ObjectKeyFromObject(point), point); err != nil {
		t.Fatal(err)
	}
	point.Data[keyTarget] = `{"name": "b", "type": "noop"}`
	if err := n.client.Update(t.Context(), point); err != nil {
		t.Fatal(err)
	}
	job, _ := n.job()
	complete(t, n.client, n.plan, "b", job)
	n.passes(6)
	if ready = find(n.plan.Status.Conditions, v1alpha1.ConditionReady); ready.Status != metav1.ConditionTrue || n.plan.Status.CurrentCycle != nil {
		t.Errorf("when it is awake it says %s: %s", ready.Reason, ready.Message)
	}
}

// What an attempt was granted goes, too, when another operation has begun before it was cleared away, and nothing else goes.
func TestClearedLate(t *testing.T) {
	plan, _ := attempting(v1alpha1.OperationWakeUp, "a")
	e := &plan.Status.Executions[0]
	job := name(e.JobRef)
	binding := func(namespace, name string, of ...string) *rbacv1.RoleBinding {
		b := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		if len(of) > 0 {
			b.Labels = map[string]string{labelExecution: of[0]}
			marks.Set(plan, b)
		}
		return b
	}
	r, c := newReconciler(t, plan, binding("shop", job+"-t", job), binding("system", job, job), binding("shop", "other", "other"), binding("mine", job+"-t"))
	r.Options.Executors = executor.Registry{"noop": spaced{}}
	program, err := compile(resolve(plan.Spec), r.Options.Executors)
	if err != nil {
		t.Fatal(err)
	}
	e.State, e.Asleep = v1alpha1.ExecutionCompleted, false
	start(plan.Status.Executions, v1alpha1.OperationShutdown)
	s := &scope{Reconciler: r, owner: plan, now: noon, plan: Plan{Status: plan.Status, program: program}}
	if _, err := s.clear(t.Context(), &s.plan.Status.Executions[0]); err != nil {
		t.Fatal(err)
	}
	var left rbacv1.RoleBindingList
	if err := c.List(t.Context(), &left); err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range left.Items {
		got = append(got, left.Items[i].Namespace+"/"+left.Items[i].Name)
	}
	if want := []string{"mine/" + job + "-t", "shop/other"}; !slices.Equal(got, want) {
		t.Errorf("left are %v, not %v", got, want)
	}
}

// A target in another cluster is put to sleep, and woken, in the namespaces of its parameters.
func TestNamespacesElsewhere(t *testing.T) {
	plan := asleepNow()
	r, c := newReconciler(t, append(away(plan), plan)...)
	r.Options.Executors = executor.Registry{"noop": spaced{}}
	for _, operation := range []v1alpha1.Operation{v1alpha1.OperationShutdown, v1alpha1.OperationWakeUp} {
		var jobs batchv1.JobList
		for range 4 {
			_, plan = pass(t, r, plan)
		}
		if err := c.List(t.Context(), &jobs); err != nil || len(jobs.Items) != 1 {
			t.Fatalf("%s: %d Jobs, %v\n%+v", operation, len(jobs.Items), err, plan.Status)
		}
		job := &jobs.Items[0]
		if args := job.Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--namespaces=shop") || !slices.Contains(args, "--operation="+string(operation)) || !slices.Contains(args, "--hub=hub") {
			t.Errorf("%s: %v", operation, args)
		}
		var bindings rbacv1.RoleBindingList
		if err := c.List(t.Context(), &bindings, client.InNamespace("shop")); err != nil || len(bindings.Items) > 0 {
			t.Errorf("%s: granted here, in the namespace of that name: %v, %v", operation, bindings.Items, err)
		}
		complete(t, c, plan, "a", job)
		plan.Spec.Override.State = v1alpha1.OverrideAwake
		if err := c.Update(t.Context(), plan); err != nil {
			t.Fatal(err)
		}
	}
	for range 4 {
		_, plan = pass(t, r, plan)
	}
	var secrets corev1.SecretList
	if err := c.List(t.Context(), &secrets, client.InNamespace("system")); err != nil || len(secrets.Items) > 0 || plan.Status.CurrentCycle != nil {
		t.Errorf("%d Secrets are left, %v, cycle %+v", len(secrets.Items), err, plan.Status.CurrentCycle)
	}
}

// What a connector reached elsewhere is not woken in namespaces of the manager's own cluster that have the same names, when
// the connector turns to that.
func TestConnectorTurnsHome(t *testing.T) {
	plan := asleepNow()
	r, c := newReconciler(t, append(away(plan), plan, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})...)
	r.Options.Executors = executor.Registry{"noop": spaced{}}
	complete(t, c, plan, "a", theJob(t, r, c, plan))
	for range 4 {
		_, plan = pass(t, r, plan)
	}
	cluster := &v1alpha1.K8SCluster{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: plan.Namespace, Name: "away"}, cluster); err != nil {
		t.Fatal(err)
	}
	cluster.Spec.K8S = &v1alpha1.K8SAccess{InCluster: true}
	plan.Spec.Override.State = v1alpha1.OverrideAwake
	if err := errors.Join(c.Update(t.Context(), cluster), c.Update(t.Context(), plan)); err != nil {
		t.Fatal(err)
	}
	for range 6 {
		_, plan = pass(t, r, plan)
	}
	var bindings rbacv1.RoleBindingList
	if err := c.List(t.Context(), &bindings, client.InNamespace("shop")); err != nil || len(bindings.Items) > 0 || len(jobsOf(t, c)) > 0 {
		t.Errorf("granted in a namespace that did not allow it: %v, %v, %d Jobs", bindings.Items, err, len(jobsOf(t, c)))
	}
	if !slices.ContainsFunc(plan.Status.Conditions, func(c metav1.Condition) bool { return c.Reason == v1alpha1.ReasonNotGranted }) {
		t.Errorf("nobody is told: %+v", plan.Status.Conditions)
	}
}

const kubeconfig = `
apiVersion: v1
kind: Config
current-context: away
clusters: [{name: away, cluster: {server: "https://away.example.com"}}]
contexts: [{name: away, context: {cluster: away, user: away}}]
users: [{name: away, user: {token: secret}}]
`

// A connector that is not ready, in a namespace that is not watched, is looked at every minute: nobody tells when it is.
func TestConnectorThatIsNotWatched(t *testing.T) {
	for name, test := range map[string]struct {
		watched []string
		looks   time.Duration
	}{
		"all are":               {nil, longest},
		"that of the connector": {[]string{"team", "infra"}, longest},
		"that of the plan":      {[]string{"team"}, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			n := newBroadNight(t, true, granting("shop"))
			n.of.Options.WatchNamespaces = test.watched
			n.plan.Spec.Targets[0].ConnectorRef.Namespace = "infra"
			n.wants(v1alpha1.OverrideHibernated)
			n.passes(3)
			if result, _ := pass(t, n.of, n.plan); n.plan.Status.CurrentCycle != nil || result.RequeueAfter != test.looks {
				t.Errorf("it looks again after %s: %+v", result.RequeueAfter, n.plan.Status.Conditions)
			}
		})
	}
}

// A plan that is created again over what sleeps in the manager's own cluster, while its connector to that is not ready, wakes it where it
// sleeps: also what its selector does not choose any more, and whatever is tried before the morning.
func TestLeftByAConnectorThatIsNotReady(t *testing.T) {
	for name, test := range map[string]struct {
		cluster, allows, first, woken string
		own                           bool
	}{
		"in the manager's own cluster":        {cluster: "manager", allows: "team", first: "team", woken: "shop,team", own: true},
		"where it may not act any more":       {cluster: "manager", allows: "", own: true},
		"in another, whose names say nothing": {cluster: "uid-of-another", allows: "team", first: "team", woken: "team"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newBroadNight(t, true, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: map[string]string{v1alpha1.AnnotationAllowedNamespaces: test.allows}}})
			n.of.Options.Executors = executor.Registry{"noop": chosen{}}
			n.plan.Spec.Behavior.Mode = v1alpha1.BehaviorBestEffort
			cluster := &v1alpha1.K8SCluster{}
			if err := n.client.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "here"}, cluster); err != nil {
				t.Fatal(err)
			}
			cluster.Status.Conditions[0].Status = metav1.ConditionFalse
			kept := &restore.Point{Plan: "team/night", Target: "a", Executor: "noop", Cluster: test.cluster}
			kept.Capture("thing", json.RawMessage("3"))
			content, err := kept.Encode()
			if err != nil {
				t.Fatal(err)
			}
			point := pointOf(names{namespace: "system", plan: n.plan}, "a", "")
			point.Labels = map[string]string{labelRestorePoint: keyLabel(client.ObjectKeyFromObject(n.plan))}
			point.Annotations[annotationNamespaces] = "shop,team"
			point.Data = map[string]string{keyTarget: `{"name": "a", "type": "noop", "connectorRef": {"kind": "K8SCluster", "name": "here"}}`}
			point.BinaryData = map[string][]byte{runner.KeyPoint: content}
			team := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"labels": {"sleeps": "yes"}}}`))
			if err := errors.Join(n.client.Create(t.Context(), point), n.client.Update(t.Context(), cluster), n.client.Update(t.Context(), n.plan),
				n.client.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}, team)); err != nil {
				t.Fatal(err)
			}
			n.passes(6)
			if c := find(n.plan.Status.Conditions, v1alpha1.ConditionScheduled); test.allows == "" {
				if n.plan.Status.CurrentCycle != nil || c.Reason != v1alpha1.ReasonNotGranted {
					t.Errorf("it begins, and says %s: %s", c.Reason, c.Message)
				}
				return
			}
			if e := n.plan.Status.Executions[0]; e.Attempts == 0 || running(&e) {
				t.Fatalf("no attempt has failed: %+v", e)
			}
			cluster.Status.Conditions[0].Status = metav1.ConditionTrue
			if err := n.client.Update(t.Context(), cluster); err != nil {
				t.Fatal(err)
			}
			n.later()
			if in := n.complete(); in != test.first {
				t.Errorf("it is put to sleep in %q", in)
			}
			n.morning()
			if in := n.complete(); in != test.woken {
				t.Errorf("it is woken in %q", in)
			}
		})
	}
}

// Where the end of a cycle is not recorded, because somebody writes the plan meanwhile, and the night begins again, that goes by a revision
// that is there: another manager has no other.
func TestRevisionOfACycleThatHasNotEnded(t *testing.T) {
	n := newBroadNight(t, false, granting("shop"))
	n.complete()
	n.morning()
	job, _ := n.job()
	complete(t, n.client, n.plan, "a", job)
	forgotten, refused := false, false
	n.of.Live = interceptor.NewClient(n.client, interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
		forgotten = forgotten || o.GetObjectKind().GroupVersionKind() == revisionGVK
		return c.Delete(ctx, o, opts...)
	}})
	n.of.Client = interceptor.NewClient(n.client, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if forgotten && !refused {
				refused = true
				return apierrors.NewConflict(schema.GroupResource{Resource: "hibernateplans"}, o.GetName(), errors.New("somebody was faster"))
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
	for range 10 {
		if err := n.client.Get(t.Context(), client.ObjectKeyFromObject(n.plan), n.plan); err != nil {
			t.Fatal(err)
		}
		if _, _ = n.of.Reconcile(t.Context(), n.plan); refused {
			break
		}
	}
	if err := n.client.Get(t.Context(), client.ObjectKeyFromObject(n.plan), n.plan); err != nil || !refused {
		t.Fatalf("its end was refused: %t, %v", refused, err)
	}
	n.wants(v1alpha1.OverrideHibernated)
	n.complete()
	at := types.NamespacedName{Namespace: "system", Name: n.plan.Status.CurrentCycle.PlanRevision}
	if err := n.client.Get(t.Context(), at, &appsv1.ControllerRevision{}); err != nil {
		t.Errorf("cycle %d sleeps without its revision: %v", n.plan.Status.CurrentCycle.ID, err)
	}
}
