// Package cloudprovider reconciles CloudProviders: nothing here can use an account of a cloud yet, and it says so of each
// (Ready=Unknown NoChecker) instead of leaving whoever made one to wonder. It reads no Secret and asks no cloud.
//
// A CloudProvider costs one status when its spec changes, and nothing else.
package cloudprovider

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/conditions"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// +kubebuilder:rbac:groups=hibernator.ardikabs.com,resources=cloudproviders,verbs=get;list;watch
// +kubebuilder:rbac:groups=hibernator.ardikabs.com,resources=cloudproviders/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Options of the reconciler.
type Options struct {
	// Events says whether Events are recorded of what happens.
	Events bool
	// Clock tells the time.
	Clock clock.PassiveClock
}

// Reconciler says whether accounts of clouds can be used.
type Reconciler struct {
	// Client writes statuses.
	Client client.Client
	// Recorder of events.
	Recorder events.EventRecorder
	// Clock tells the time.
	Clock clock.PassiveClock

	told *kube.Told
}

// Reconcile writes that nothing can use it.
func (r *Reconciler) Reconcile(ctx context.Context, owner *v1alpha1.CloudProvider) (ctrl.Result, error) {
	before, st := owner.DeepCopy(), &owner.Status
	step := conditions.Step{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonNoChecker,
		Message: fmt.Sprintf("Nothing here can use an account of type %s yet, so that a HibernatePlan with a target in it does not start", owner.Spec.Type),
	}
	conditions.Set(&st.Conditions, step, owner.Generation, r.Clock.Now())
	st.ObservedGeneration, st.Ready, st.Message = owner.Generation, false, conditions.Line(step.Message)
	var happened []kube.Event
	if len(conditions.Changed(before.Status.Conditions, st.Conditions)) > 0 {
		happened = []kube.Event{{Type: corev1.EventTypeNormal, Reason: step.Reason, Message: step.Message}}
	}
	return kube.Finish(ctx, r.Client, r.Recorder, before, owner, "", kube.Outcome{Events: happened, Told: r.told})
}

// SetupWithManager registers the reconciler.
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	r := &Reconciler{Client: mgr.GetClient(), Recorder: kube.NewRecorder(mgr, "cloudprovider", o.Events), Clock: o.Clock, told: kube.NewTold()}
	if err := kube.Count(mgr, "CloudProvider", o.Clock, &v1alpha1.CloudProviderList{}, func(p *v1alpha1.CloudProvider, _ time.Time) kube.State {
		return kube.State{Conditions: p.Status.Conditions}
	}); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("cloudprovider").
		For(&v1alpha1.CloudProvider{}, builder.WithPredicates(predicate.Or(kube.Respecified, r.told.ByOthers(statusOf)))).
		WithOptions(controller.Options{RateLimiter: kube.Backoff()}).
		Complete(kube.QuietConflicts(reconcile.AsReconciler(r.Client, r)))
}

func statusOf(o client.Object) any { return o.(*v1alpha1.CloudProvider).Status }
