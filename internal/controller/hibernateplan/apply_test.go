package hibernateplan

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/internal/runner"
)

// attempting is a plan of targets that all have their first attempt recorded, and the names of what it makes.
func attempting(operation v1alpha1.Operation, targets ...string) (*v1alpha1.HibernatePlan, names) {
	plan := newPlan(v1alpha1.StrategyParallel, 0)
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
	}}}
}

// launch is a pass over the first attempts at two targets, of which the Job of the second is refused, an age after
// they were recorded.
func launch(t *testing.T, refusal error, age time.Duration) (*scope, error) {
	t.Helper()
	plan, _ := attempting(v1alpha1.OperationShutdown, targetNames(2)...)
	plan.ResourceVersion = "1"
	refused := name(plan.Status.Executions[1].JobRef)
	c := fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(plan).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if o.GetObjectKind().GroupVersionKind().Kind == "Job" && o.GetName() == refused {
				return refusal
			}
			return c.Create(ctx, o, opts...)
		},
	}).Build()
	s := &scope{
		Reconciler: &Reconciler{Client: c, Live: c, Options: Options{Namespace: "system", Image: "runner", Executors: registry, MaxConcurrentReconciles: 4}, revisions: lru.New(1)},
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
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).Build()
	s := &scope{Reconciler: &Reconciler{Client: c, Live: c, Options: Options{Namespace: "system"}}, owner: plan, now: noon}
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

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return scheme
}

// newReconciler is one of a world that has some objects in it, at noon.
func newReconciler(t *testing.T, objects ...client.Object) (*Reconciler, client.WithWatch) {
	t.Helper()
	c := fake.NewClientBuilder().WithScheme(newScheme(t)).WithStatusSubresource(&v1alpha1.HibernatePlan{}).WithObjects(objects...).
		WithIndex(&v1alpha1.ScheduleException{}, indexPlan, func(client.Object) []string { return nil }).Build()
	return &Reconciler{
		Client: c, Live: c, Recorder: kube.Silence, revisions: lru.New(9), lonely: lru.New(9), shards: lru.New(99), paced: lru.New(9),
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
