package hibernateplan

import (
	"fmt"
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
