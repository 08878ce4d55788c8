package hibernateplan

import (
	"context"
	"errors"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// What of a Job whose plan was forced away cannot be cleared away, as by a policy of others, keeps no other Job from that, nor a plan of
// the name from sleeping and waking.
func TestSweepThatFails(t *testing.T) {
	plan := asleepNow()
	former := plan.DeepCopy()
	former.UID = "uid-0"
	objects := []client.Object{plan}
	for _, name := range []string{"first", "second"} {
		job := &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: name},
			Status:     batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}},
		}
		job.Labels = map[string]string{v1alpha1.LabelTarget: name}
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: name}}
		role := names{namespace: "system", plan: former}.permission(name)
		for _, o := range []client.Object{job, account, role} {
			marks.Set(former, o)
			objects = append(objects, o)
		}
	}
	r, c := newReconciler(t, objects...)
	denied := errors.New("a policy denies it")
	r.Live = interceptor.NewClient(c, interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
		if o.GetObjectKind().GroupVersionKind() == accountGVK && o.GetName() == "first" {
			return denied
		}
		return c.Delete(ctx, o, opts...)
	}})
	all := kube.Sweeping(reconcile.AsReconciler(c, r), r.sweepAll)
	for range 4 {
		if _, err := all.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(plan)}); err != nil && !errors.Is(err, denied) {
			t.Fatal(err)
		}
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(plan), plan); err != nil || plan.Status.CurrentCycle == nil || plan.Status.Phase != v1alpha1.PhaseHibernating {
		t.Errorf("it does not begin: %+v, %v", plan.Status, err)
	}
	gone := func(target string) {
		t.Helper()
		account, role := c.Get(t.Context(), client.ObjectKey{Namespace: "system", Name: target}, &corev1.ServiceAccount{}), c.Get(t.Context(), names{namespace: "system", plan: former}.role(target), &rbacv1.Role{})
		if !apierrors.IsNotFound(account) || !apierrors.IsNotFound(role) {
			t.Errorf("what the runner of %s was granted is there, and nobody looks for it any more: %v, %v", target, account, role)
		}
	}
	gone("second")
	r.Live = c
	if _, err := all.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(plan)}); err != nil {
		t.Fatal(err)
	}
	gone("first")
}
