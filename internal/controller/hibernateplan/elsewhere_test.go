package hibernateplan

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
)

// A manager that keeps restore points elsewhere than the one that has begun the cycle does nothing, whatever is wanted, says where they
// are, once a minute at most, and lets a plan go at the deadline of its deletion only.
func TestRestorePointsElsewhere(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.HibernatePlan){
		"awake": func(p *v1alpha1.HibernatePlan) { p.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideAwake} },
		"asleep": func(p *v1alpha1.HibernatePlan) {
			p.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideHibernated}
		},
		"left": func(p *v1alpha1.HibernatePlan) {
			at := metav1.NewTime(noon)
			p.DeletionTimestamp, p.Spec.DeletionPolicy = &at, v1alpha1.DeletionLeave
		},
	} {
		t.Run(name, func(t *testing.T) {
			plan, n := attempting(v1alpha1.OperationShutdown, targetNames(20)...)
			plan.ResourceVersion, plan.Finalizers = "1", []string{v1alpha1.Finalizer}
			for i := range plan.Status.Executions {
				plan.Status.Executions[i].RestoreConfigMapRef = n.point(plan.Status.Executions[i].Target).String()
			}
			change(plan)
			r, c := newReconciler(t, plan)
			told := events.NewFakeRecorder(9)
			r.Options.Namespace, r.Recorder = "moved", told
			clock := clocktesting.NewFakePassiveClock(noon)
			r.Options.Clock = clock
			result, now := pass(t, r, plan)
			scheduled := find(now.Status.Conditions, v1alpha1.ConditionScheduled)
			if scheduled.Reason != v1alpha1.ReasonNamespacesChanged || !strings.Contains(scheduled.Message, "namespace system") ||
				!equality.Semantic.DeepEqual(now.Status.Executions, plan.Status.Executions) || result.RequeueAfter != time.Minute || len(told.Events) != 1 {
				t.Errorf("%+v\n%+v, in %s, %d Events", scheduled, now.Status.Executions, result.RequeueAfter, len(told.Events))
			}
			now.Status.Conditions = nil // as the manager whose plan it is says otherwise
			if err := c.Status().Update(t.Context(), now); err != nil {
				t.Fatal(err)
			}
			clock.SetTime(noon.Add(20 * time.Second))
			version := now.ResourceVersion
			if result, now = pass(t, r, plan); result.RequeueAfter != 40*time.Second || now.ResourceVersion != version {
				t.Errorf("it is told again, and looked at in %s", result.RequeueAfter)
			}
			if jobs := jobsOf(t, c); len(jobs) > 0 {
				t.Errorf("it has made %v", jobs)
			}
			clock.SetTime(noon.Add(2 * time.Hour))
			if _, err := r.Reconcile(t.Context(), now); err != nil {
				t.Fatal(err)
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(plan), now); apierrors.IsNotFound(err) != (name == "left") {
				t.Errorf("two hours later: %v", err)
			}
		})
	}
}
