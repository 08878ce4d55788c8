package k8scluster

import (
	"context"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/connector"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// Secrets: config/rbac/kubeconfig_reader_role.yaml, which is bound in the namespaces that an admin chooses.
//
// +kubebuilder:rbac:groups=hibernator.ardikabs.com,resources=k8sclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=hibernator.ardikabs.com,resources=k8sclusters/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

const (
	// timeout ends a pass that a call does not come back to.
	timeout = time.Minute
	// concurrency is how many are looked at at the same time. They wait for servers, and take hardly anything else.
	concurrency = 16
)

// Options of the reconciler.
type Options struct {
	// Events says whether Events are recorded of what happens.
	Events bool
	// Clock tells the time.
	Clock clock.PassiveClock
}

// Reconciler says whether clusters can be used.
type Reconciler struct {
	// Client writes statuses.
	Client client.Client
	// Live reads Secrets from the server.
	Live client.Reader
	// Own is how the manager reaches its own cluster.
	Own *rest.Config
	// Ask asks the server of a config: connector.Ask.
	Ask func(ctx context.Context, config *rest.Config) (version string, err error)
	// Recorder of events.
	Recorder events.EventRecorder
	// Clock tells the time.
	Clock clock.PassiveClock

	told *kube.Told
}

// scope is what a pass over one K8SCluster knows.
type scope struct {
	*Reconciler
	owner *v1alpha1.K8SCluster
	seen  Observed
	now   time.Time
}

// Reconcile asks a cluster whether it can be used, if it is time to.
func (r *Reconciler) Reconcile(ctx context.Context, owner *v1alpha1.K8SCluster) (ctrl.Result, error) {
	s := &scope{Reconciler: r, owner: owner, now: r.Clock.Now()}
	if wait := fresh(owner, s.now); wait > 0 || owner.DeletionTimestamp != nil {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	before := owner.DeepCopy()
	err := s.observe(ctx)
	s.now = r.Clock.Now() // it may have taken seconds
	report(s, err)
	return kube.Finish(ctx, r.Client, r.Recorder, before, owner, "", kube.Outcome{
		Wait: again(owner, s.now), Events: happened(before, owner), Err: err, Told: r.told,
	})
}

// SetupWithManager registers the reconciler.
func SetupWithManager(mgr ctrl.Manager, live client.Reader, o Options) error {
	r := &Reconciler{
		Client: mgr.GetClient(), Live: live, Own: mgr.GetConfig(), Ask: connector.Ask, Recorder: kube.NewRecorder(mgr, "k8scluster", o.Events), Clock: o.Clock, told: kube.NewTold(),
	}
	if err := kube.Count(mgr, "K8SCluster", o.Clock, &v1alpha1.K8SClusterList{}, func(c *v1alpha1.K8SCluster, _ time.Time) kube.State {
		return kube.State{Conditions: c.Status.Conditions}
	}); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("k8scluster").
		For(&v1alpha1.K8SCluster{}, builder.WithPredicates(predicate.Or(kube.Respecified, r.told.ByOthers(statusOf)))).
		WithOptions(kube.Workers(concurrency, kube.Patience, timeout)).
		Complete(kube.QuietConflicts(reconcile.AsReconciler(r.Client, r)))
}

func statusOf(o client.Object) any { return o.(*v1alpha1.K8SCluster).Status }
