package experimentdeployment

import (
	"context"
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/labkeeper/labkeeper/api/experimentcontroller/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/internal/twin"
)

// +kubebuilder:rbac:groups=experimentcontroller.example.com,resources=experimentdeployments,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=experimentcontroller.example.com,resources=experimentdeployments/status,verbs=patch
// +kubebuilder:rbac:groups=experimentcontroller.example.com,resources=experimentdeployments/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets,verbs=get;list;watch
// +kubebuilder:rbac:groups=argoproj.io,resources=rollouts,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=get;list;watch
// +kubebuilder:rbac:groups=keda.sh,resources=scaledobjects,verbs=get;list;watch
// +kubebuilder:rbac:groups=autoscaling.k8s.io,resources=verticalpodautoscalers,verbs=get;list;watch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// timeout ends a pass that a call does not come back to.
const timeout = time.Minute

// The kinds beside those of twins that are read.
var (
	serviceGVK      = corev1.SchemeGroupVersion.WithKind("Service")
	autoscalerGVK   = autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler")
	budgetGVK       = policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget")
	claimGVK        = corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim")
	namespaceGVK    = corev1.SchemeGroupVersion.WithKind("Namespace")
	scaledObjectGVK = schema.GroupVersionKind{Group: "keda.sh", Version: "v1alpha1", Kind: "ScaledObject"}
	verticalGVK     = schema.GroupVersionKind{Group: "autoscaling.k8s.io", Version: "v1", Kind: "VerticalPodAutoscaler"}
)

// Options of the reconciler.
type Options struct {
	// Annotations are prefixes of those that twins get from their sources beside the ones that are known.
	Annotations []string
	// Labels are prefixes of those of the sources themselves that twins get.
	Labels []string
	// WatchNamespaces are those to act in; empty is all.
	WatchNamespaces []string
	// Webhook says whether ExperimentDeployments are reviewed when they are created or changed.
	Webhook bool
	// Events says whether Events are recorded of what happens.
	Events bool
	// MaxConcurrentReconciles is how many ExperimentDeployments are looked at at the same time.
	MaxConcurrentReconciles int
	// Clock tells the time.
	Clock clock.PassiveClock
}

// Reconciler keeps twins of workloads.
type Reconciler struct {
	// Client reads from the cache.
	Client client.Client
	// Foreign reads the kinds of other systems from their cache.
	Foreign client.Reader
	// Live reads from the server, and writes.
	Live client.Client
	// Kinds of other systems that can be read.
	Kinds interface {
		State(gvk schema.GroupVersionKind) kube.KindState
	}
	// Recorder of events.
	Recorder events.EventRecorder
	// Clock tells the time.
	Clock clock.PassiveClock
	// Options of the manager.
	Options Options

	fights kube.Fights
	// told are the statuses that were written last, and made the twins that were created last, by the UIDs of their owners.
	told, made *kube.Told
	drafts     *drafts
	// tried is the last trial of what is to take the place of a twin, by the UID of the owner.
	tried *lru.Cache
}

// scope is what a pass over one ExperimentDeployment knows.
type scope struct {
	*Reconciler
	owner *v1alpha1.ExperimentDeployment
	seen  Observed
	now   time.Time
	plan  Plan
	// proven: the server has just said that the owner is the one of now.
	proven bool
	// written is the twin as it was written; nil if it was not. Unchanged says that the server had it so already,
	// and contended that somebody changes it too often to be put right now.
	written              client.Object
	unchanged, contended bool
}

// Reconcile takes an ExperimentDeployment one step on.
func (r *Reconciler) Reconcile(ctx context.Context, owner *v1alpha1.ExperimentDeployment) (ctrl.Result, error) {
	if wait := r.told.LetGo(owner); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	seen := owner.ResourceVersion
	if err := kube.EnsureFinalizer(ctx, r.Client, owner, v1alpha1.Finalizer, conditionsOf, r.Clock.Now(), r.told); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	before := owner.DeepCopy()
	s := &scope{Reconciler: r, owner: owner, now: r.Clock.Now(), proven: owner.ResourceVersion != seen}
	err := s.step(ctx)
	report(s, err)
	retried := s.passing(err)
	return kube.Finish(ctx, r.Client, r.Recorder, before, owner, v1alpha1.Finalizer, kube.Outcome{
		Wait: s.plan.Wait, Due: s.plan.Due, Done: s.plan.Done && err == nil, Events: happened(before, owner, s, err), Err: retried, Told: r.told,
	})
}

// refusedAgain is when to try again what the API server refuses as invalid: a policy may have been mended.
const refusedAgain = 5 * time.Minute

// passing are the errors that are tried again with growing delays: what the API server refuses as invalid mostly
// stays so until something changes, which wakes.
func (s *scope) passing(err error) error {
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		s.plan.lookIn(refusedAgain)
		return nil
	}
	return err
}

// step observes, decides and writes.
func (s *scope) step(ctx context.Context) error {
	if f := s.facts(nil); !f.expired() {
		if err := s.observe(ctx); err != nil {
			f.ends(&s.plan)
			return err
		}
	}
	s.plan = s.facts(s.drafts).plan()
	return s.apply(ctx)
}

// facts are what the plan is made of, with twins that were made before.
func (s *scope) facts(drafts *drafts) facts {
	return facts{owner: s.owner, seen: s.seen, annotations: s.Options.Annotations, labels: s.Options.Labels, now: s.now, drafts: drafts}
}

// The priority of what wakes: a twin is nearer to its end than what is new.
const priorityTwin = 10

// The indexes by which ExperimentDeployments are found, and workloads that are made of others.
const (
	// indexSource is Kind/namespace/name of the source.
	indexSource = "source"
	// indexNamespace is the namespace of the source.
	indexNamespace = "sourceNamespace"
	// indexOwner is the annotation of a twin that names its owner.
	indexOwner = "owner"
	// indexWorkload is the name of the Deployment that a Rollout refers to.
	indexWorkload = "workload"
)

func sourceKey(kind, namespace, name string) string { return kind + "/" + namespace + "/" + name }

// SetupWithManager registers the reconciler.
//
// foreign is the cache of the kinds of other systems; the manager must start it.
func SetupWithManager(ctx context.Context, mgr ctrl.Manager, foreign cache.Cache, live client.Client, o Options) error {
	r := &Reconciler{
		Client: mgr.GetClient(), Foreign: foreign, Live: live, Recorder: kube.NewRecorder(mgr, "experimentdeployment", o.Events), Clock: o.Clock, Options: o,
		told: kube.NewTold(), made: kube.NewTold(), drafts: newDrafts(), tried: lru.New(lately),
	}
	if err := r.index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if err := kube.Count(mgr, "ExperimentDeployment", o.Clock, &v1alpha1.ExperimentDeploymentList{}, func(d *v1alpha1.ExperimentDeployment, _ time.Time) kube.State {
		return kube.State{Conditions: d.Status.Conditions}
	}); err != nil {
		return err
	}
	if o.Webhook {
		if err := setupWebhook(mgr, r); err != nil {
			return err
		}
	}
	kinds := &kube.ForeignKinds{
		CRDs: mgr.GetCache(), Live: live, Cache: foreign, Mapper: mgr.GetRESTMapper(),
		Kinds: []kube.ForeignKind{
			{
				GroupVersionKind: twin.RolloutGVK, Handler: r.ofWorkload(),
				Indexes: map[string]client.IndexerFunc{indexOwner: ownerOf, indexWorkload: workloadOf},
			},
			{GroupVersionKind: scaledObjectGVK, Handler: r.ofNeighbour()}, {GroupVersionKind: verticalGVK, Handler: r.ofNeighbour()},
		},
		Wake: func(ctx context.Context) []reconcile.Request { return r.find(ctx) },
	}
	if err := kinds.Ahead(ctx); err != nil {
		return err
	}
	r.Kinds = kinds
	due := &kube.Due{}
	b := ctrl.NewControllerManagedBy(mgr).
		Named("experimentdeployment").
		For(&v1alpha1.ExperimentDeployment{}, builder.WithPredicates(predicate.Or(
			kube.Respecified, kube.Unprotected(v1alpha1.Finalizer), r.told.ByOthers(statusOf),
		))).
		Watches(&v1alpha1.ExperimentDeployment{}, kube.NewFirst(v1alpha1.Finalizer)).
		WatchesMetadata(&corev1.Namespace{}, r.ofGrant(), builder.WithPredicates(granted)).
		WatchesRawSource(kinds).
		WatchesRawSource(due)
	for _, gvk := range builtIn {
		handler := r.ofNeighbour()
		if isWorkload(gvk) {
			handler = r.ofWorkload()
		}
		b = b.Watches(kube.Empty(gvk), handler)
	}
	return b.WithOptions(kube.Workers(o.MaxConcurrentReconciles, kube.Patience, timeout)).
		Complete(kube.QuietConflicts(due.Wrap(kube.Sweeping(reconcile.AsReconciler(r.Client, r), r.sweepAll))))
}

// index makes the indexes of what every cluster has.
func (r *Reconciler) index(ctx context.Context, indexer client.FieldIndexer) error {
	owner := &v1alpha1.ExperimentDeployment{}
	for name, value := range map[string]func(*v1alpha1.ExperimentDeployment) string{
		indexSource: func(e *v1alpha1.ExperimentDeployment) string {
			return sourceKey(e.Spec.SourceRef.Kind, sourceNamespace(e), e.Spec.SourceRef.Name)
		},
		indexNamespace: sourceNamespace,
	} {
		if err := indexer.IndexField(ctx, owner, name, func(o client.Object) []string {
			return []string{value(o.(*v1alpha1.ExperimentDeployment))}
		}); err != nil {
			return err
		}
	}
	for _, gvk := range builtIn {
		if isWorkload(gvk) {
			if err := indexer.IndexField(ctx, kube.Empty(gvk), indexOwner, ownerOf); err != nil {
				return err
			}
		}
	}
	return nil
}

// watched says whether the manager acts in a namespace.
func (o Options) watched(namespace string) bool {
	return len(o.WatchNamespaces) == 0 || slices.Contains(o.WatchNamespaces, namespace)
}

func statusOf(o client.Object) any { return o.(*v1alpha1.ExperimentDeployment).Status }

func conditionsOf(o client.Object) *[]metav1.Condition {
	return &o.(*v1alpha1.ExperimentDeployment).Status.Conditions
}
