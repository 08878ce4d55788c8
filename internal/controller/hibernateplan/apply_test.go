package hibernateplan

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
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
		e := execution{Target: target, Operation: operation, Asleep: operation == v1alpha1.OperationWakeUp}
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
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(plan).WithInterceptorFuncs(interceptor.Funcs{
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
