package hibernateplan

import (
	"fmt"
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
)

// Of more attempts than a pass looks at, those that it has not looked at are not made: nothing is known of their
// restore points.
func TestMoreThanOnePass(t *testing.T) {
	var targets []string
	for i := range 3 * perPass {
		targets = append(targets, fmt.Sprintf("t%02d", i))
	}
	plan, n := attempting(v1alpha1.OperationWakeUp, targets...)
	var objects []client.Object
	for i, e := range plan.Status.Executions {
		objects = append(objects, pointOf(n, e.Target, ""))
		if i < perPass { // the manager was away since
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: name(e.JobRef)}}
			marks.Set(plan, job)
			job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}
			objects = append(objects, job)
		}
	}
	c := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).Build()
	s := &scope{Reconciler: &Reconciler{Client: c, Live: c, Options: Options{Namespace: "system"}}, owner: plan, now: noon}
	if err := s.observeAttempts(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := facts{plan: plan, seen: s.seen, registry: registry, namespace: "system", now: noon}.decide()
	if len(s.seen.Outcomes) != perPass || !s.more {
		t.Errorf("%d outcomes, more: %v", len(s.seen.Outcomes), s.more)
	}
	for _, i := range p.Launch {
		if target := plan.Status.Executions[i].Target; s.points[target] == nil {
			t.Errorf("the Job of %s is to be made, and its restore point was not read", target)
		}
	}
}

// What was left asleep wakes where its restore point says, if the plan may act there now; in another cluster nobody asks.
func TestLeftIn(t *testing.T) {
	plan := newPlan(v1alpha1.StrategyParallel, 1)
	plan.Finalizers = []string{v1alpha1.Finalizer}
	plan.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideAwake}
	for name, test := range map[string]struct {
		namespaces, connector, want string
	}{
		"its own":            {plan.Namespace, "", ""},
		"another":            {"other", "", v1alpha1.ReasonNotGranted},
		"one that is gone":   {"gone", "", ""},
		"of another cluster": {"other", "away", ""},
	} {
		target := `{"name": "a", "type": "noop"}`
		cluster := &v1alpha1.K8SCluster{ObjectMeta: metav1.ObjectMeta{Namespace: plan.Namespace, Name: "away"}}
		if test.connector != "" {
			target = fmt.Sprintf(`{"name": "a", "type": "noop", "connectorRef": {"kind": "K8SCluster", "name": %q}}`, test.connector)
		}
		point := pointOf(names{namespace: "system", plan: plan}, "a", "")
		point.Labels = map[string]string{labelRestorePoint: keyLabel(client.ObjectKeyFromObject(plan))}
		point.Annotations[annotationNamespaces] = test.namespaces
		point.Data = map[string]string{keyTarget: target}
		r, _ := newReconciler(t, plan.DeepCopy(), cluster, point, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: plan.Namespace}})
		s := &scope{Reconciler: r, owner: plan, now: noon}
		if err := s.observeLeft(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := ""
		if s.seen.Problem != nil {
			got = s.seen.Problem.reason
		}
		if got != test.want || !slices.Equal(s.seen.LeftIn["a"], []string{test.namespaces}) {
			t.Errorf("%s: %q, in %v", name, got, s.seen.LeftIn)
		}
	}
}
