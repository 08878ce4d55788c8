package experiment

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/argoworkflows"
	"github.com/labkeeper/labkeeper/internal/external/arlon"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// +kubebuilder:rbac:groups=experiments.illm.io,resources=experiments,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=experiments.illm.io,resources=experiments/status,verbs=patch
// +kubebuilder:rbac:groups=experiments.illm.io,resources=components,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=experiments.illm.io,resources=components/status,verbs=patch
// +kubebuilder:rbac:groups=illm.io,resources=gkeclusters,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machinedeployments,verbs=get;list;watch
// +kubebuilder:rbac:groups=core.arlon.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=taloscontrolplanes,verbs=get;list;watch
// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=talosconfigtemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=vclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=*,verbs=get;list
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups="",namespace=labkeeper-system,resources=configmaps,verbs=get;list;create;patch
// +kubebuilder:rbac:groups=argoproj.io,namespace=argocd,resources=applications,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",namespace=argocd,resources=secrets,verbs=get;list;create;patch;delete
// +kubebuilder:rbac:groups=argoproj.io,namespace=argo,resources=workflows,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=argoproj.io,namespace=argo,resources=workflowtemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=argoproj.io,resources=clusterworkflowtemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups="",namespace=crossplane-system,resources=secrets,verbs=get

// timeout ends a pass that a call does not come back to.
const timeout = time.Minute

// Options say where the outside systems are.
type Options struct {
	// ArgoCDNamespace is where Applications and cluster Secrets live.
	ArgoCDNamespace string
	// ArgoCDProject bounds the Applications.
	ArgoCDProject string
	// WorkflowNamespace is where Workflows and WorkflowTemplates live.
	WorkflowNamespace string
	// WorkflowServiceAccount is what the pods of Workflows run as.
	WorkflowServiceAccount string
	// WorkflowInstanceID is the instanceID of the Argo Workflows that is to run Workflows; empty is one without.
	WorkflowInstanceID string
	// WorkflowsAnywhere lets Experiments have their Workflows in their own namespaces.
	WorkflowsAnywhere bool
	// ClaimNamespace is where claims live; empty is the Experiment's own namespace.
	ClaimNamespace string
	// CrossplaneNamespace is where compositions leave connection Secrets.
	CrossplaneNamespace string
	// KeylessGKE has Argo CD log in to GKE clusters with its own identity.
	KeylessGKE bool
	// VClusterValues lets Experiments choose the values of the chart of virtual clusters, which can
	// grant rights on the hub.
	VClusterValues bool
	// HubPodSecurity is the level of the Pod Security Standards of what Experiments deploy on the hub, where they do not
	// say restricted; empty is what the cluster does.
	HubPodSecurity string
	// OrphansNamespace is where ConfigMaps tell of what could not be taken down: the manager's own,
	// so that they outlive the Experiment's.
	OrphansNamespace string
	// Observability says where the metrics of targets go.
	Observability Observability
	// Fallback is the convention path of Components that do not exist.
	Fallback Fallback
	// StrictComponents turns the fallback off.
	StrictComponents bool
	// WatchNamespaces are those of the Experiments to act on; empty is all.
	WatchNamespaces []string
	// Webhook says whether Experiments are reviewed when they are created or changed.
	Webhook bool
	// Events says whether Events are recorded of what happens.
	Events bool
	// MaxConcurrentReconciles is how many Experiments are looked at at the same time.
	MaxConcurrentReconciles int
	// Clock tells the time.
	Clock clock.PassiveClock
}

// Reconciler brings Experiments up, has them validated and takes them down.
type Reconciler struct {
	// Client reads from the cache.
	Client client.Client
	// Foreign reads the foreign kinds from their cache.
	Foreign client.Reader
	// Live reads from the server, and writes what must not be cached.
	Live client.Client
	// Kinds are the foreign kinds that can be read.
	Kinds kindsState
	// Gate is where Experiments wait that have not begun.
	Gate *kube.Gate
	// Recorder of events.
	Recorder events.EventRecorder
	// Clock tells the time.
	Clock clock.PassiveClock
	// Options of the manager.
	Options Options

	refusals      refusals
	registrations registrations
	fights        kube.Fights
	// labelled: no cluster Secret of an Experiment is left that a version made which did not label them with their servers.
	labelled atomic.Bool
	told     *kube.Told
	memory
}

// memory is what a manager remembers from one pass to another, and finds out again when it has forgotten it: the first of a new manager, or
// when there is too much.
type memory struct {
	// absences are Components that the server does not have, and unrecorded what is to go, and no status has, both by the UID of the
	// Experiment. forced is what Experiments that were forced away have left, by its UIDs, and of which is told. inTheWay is what keeps
	// clusters from being registered, by what they would be.
	absences, unrecorded, forced, inTheWay *lru.Cache
}

func newMemory() memory {
	return memory{absences: lru.New(remembered), unrecorded: lru.New(remembered), forced: lru.New(remembered), inTheWay: lru.New(remembered)}
}

// kindsState tells which foreign kinds can be read.
type kindsState interface {
	State(gvk schema.GroupVersionKind) kube.KindState
}

// remembered is of how many Experiments something is remembered that no status has.
const remembered = 4096

// scope is what a pass over one Experiment knows.
type scope struct {
	*Reconciler
	experiment *v1alpha1.Experiment
	names      names
	seen       Observed
	now        time.Time
	plan       Plan
	// failed are the errors of this pass's writes by target.
	failed map[string]error
	// part: this is about some targets of an Experiment that stays.
	part bool
	// known: it is known whether the Experiment was begun, also if no status says so.
	known bool
	// review: this is no pass, and the Experiment not one that the server has.
	review bool
}

// Reconcile takes an Experiment one step on.
func (r *Reconciler) Reconcile(ctx context.Context, e *v1alpha1.Experiment) (ctrl.Result, error) {
	if wait := r.told.LetGo(e); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if beginning(e) && !r.Gate.Enter(e) {
		return ctrl.Result{}, nil
	}
	protected := controllerutil.ContainsFinalizer(e, v1alpha1.Finalizer)
	if err := kube.EnsureFinalizer(ctx, r.Client, e, v1alpha1.Finalizer, conditionsOf, r.Clock.Now(), r.told); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	before := e.DeepCopy()
	if u, known := r.unrecorded.Get(e.UID); known {
		u.(*unrecorded).recall(e)
	}
	s := &scope{Reconciler: r, experiment: e, names: names{e, r.Options}, failed: map[string]error{}, known: !protected}
	err := s.step(ctx)
	over := err == nil && (s.plan.Done || s.plan.Verdict)
	report(s, err, r.Clock.Now())
	result, err := kube.Finish(ctx, r.Client, r.Recorder, before, e, v1alpha1.Finalizer, kube.Outcome{
		Wait: s.plan.Wait, Due: s.plan.Due, Done: s.plan.Done && e.DeletionTimestamp != nil, Events: happened(before, e, s.plan, err), Err: err, Told: r.told,
		Conditions: conditionsOf, Now: r.Clock.Now(),
	})
	switch {
	case kube.Unkept(err): // what was asked to go, and when, must not be forgotten with it
		r.unrecorded.Add(e.UID, unrecordedOf(e))
	case err == nil:
		r.unrecorded.Remove(e.UID)
	}
	if over && err == nil { // what is not recorded is found again by what has been refused, and since when
		r.refusals.forget(client.ObjectKeyFromObject(e))
		r.absences.Remove(e.UID)
	}
	r.registrations.end(e.UID)
	return result, err
}

// beginning says whether the Experiment's next write is its first, or the first that costs
// something.
func beginning(e *v1alpha1.Experiment) bool {
	return e.DeletionTimestamp == nil &&
		(!controllerutil.ContainsFinalizer(e, v1alpha1.Finalizer) || e.Status.StartedAt != nil && e.Status.Targets == nil)
}

// step observes, decides and writes.
func (s *scope) step(ctx context.Context) error {
	s.now = s.Clock.Now()
	noteEdit(s.experiment)
	// Neither a verdict nor the end of its time depends on what can be read.
	life := lifetimeOf(s.experiment)
	if s.experiment.DeletionTimestamp != nil || !life.over(s.now) && (goingDown(s.experiment) || s.experiment.Status.CompletedAt == nil) {
		if err := s.observe(ctx); err != nil {
			s.plan.dueIn(life.wait(s.now))
			return err
		}
	}
	s.plan = s.facts().plan()
	if slices.ContainsFunc(s.plan.Leaving, func(l Leaving) bool { return l.Begun }) {
		return s.takeTargets(ctx)
	}
	return errors.Join(s.apply(ctx), s.seen.readErrors())
}

// facts are what the pass knows by now.
func (s *scope) facts() facts {
	return facts{experiment: s.experiment, options: s.Options, names: s.names, seen: s.seen, now: s.now, refused: s.refusals.of(s.experiment), part: s.part}
}

// The priorities of what wakes an Experiment grow with how far it has come; a new or changed
// Experiment has 0. A hub namespace only goes in a teardown.
const (
	priorityCluster = 10 * (iota + 1)
	priorityApplication
	priorityWorkflow
	priorityNamespace
)

// indexes by which an Experiment is found from what it names.
const (
	indexComponents = "components"
	indexTemplate   = "template"
	indexClusters   = "clusters"
)

// indexOwner is the index by which the Applications of single components, and Workflows that have taken the place
// of others, are found: the UID of their Experiment.
const indexOwner = "owner"

// indexNamed is the index by which clusters and Applications are found that were made for an Experiment of a name.
const indexNamed = "named"

// namedOwner is the value of that index.
func namedOwner(o client.Object) []string {
	return []string{o.GetAnnotations()[v1alpha1.AnnotationOwner]}
}

// componentOwner is the value of that index.
func componentOwner(app client.Object) []string {
	if app.GetAnnotations()[v1alpha1.AnnotationComponent] == "" {
		return nil
	}
	return []string{app.GetLabels()[v1alpha1.LabelExperimentUID]}
}

// runOwner is the value of that index for Workflows that have taken the place of others.
func runOwner(workflow client.Object) []string {
	if workflow.GetAnnotations()[v1alpha1.AnnotationRun] == "" {
		return nil
	}
	return []string{workflow.GetLabels()[v1alpha1.LabelExperimentUID]}
}

// SetupWithManager registers the reconciler.
//
// foreign is the cache of the kinds of CacheByObject; the manager must start it.
func SetupWithManager(ctx context.Context, mgr ctrl.Manager, foreign cache.Cache, live client.Client, o Options) error {
	indexer := mgr.GetFieldIndexer()
	if err := indexer.IndexField(ctx, &v1alpha1.Experiment{}, indexComponents, o.Observability.componentNames); err != nil {
		return err
	}
	if err := indexer.IndexField(ctx, &v1alpha1.Experiment{}, indexTemplate, templateName); err != nil {
		return err
	}
	if err := indexer.IndexField(ctx, &v1alpha1.Experiment{}, indexClusters, clusterNames); err != nil {
		return err
	}
	if err := setupComponents(mgr, live, o); err != nil {
		return err
	}
	c := mgr.GetClient()
	toOwner := marks.Owners(o.WatchNamespaces)
	kinds := &kube.ForeignKinds{
		CRDs:   mgr.GetCache(),
		Live:   live,
		Cache:  foreign,
		Mapper: mgr.GetRESTMapper(),
		Kinds: []kube.ForeignKind{
			{
				GroupVersionKind: argocd.ApplicationGVK, Handler: kube.Enqueue(toOwner, priorityApplication),
				Indexes: map[string]client.IndexerFunc{indexOwner: componentOwner, indexNamed: namedOwner},
			},
			{
				GroupVersionKind: argoworkflows.WorkflowGVK, Handler: kube.Enqueue(toOwner, priorityWorkflow),
				Indexes: map[string]client.IndexerFunc{indexOwner: runOwner},
			},
			{GroupVersionKind: argoworkflows.WorkflowTemplateGVK, Handler: enqueueWhere(c, indexTemplate)},
			{GroupVersionKind: argoworkflows.ClusterWorkflowTemplateGVK, Handler: enqueueWhere(c, indexTemplate)},
			{GroupVersionKind: arlon.ClusterGVK, Handler: kube.Enqueue(func(ctx context.Context, o client.Object) []reconcile.Request {
				return find(ctx, c, client.InNamespace(o.GetNamespace()), client.MatchingFields{indexClusters: o.GetName()})
			}, priorityCluster)},
		},
	}
	kinds.Wake = func(ctx context.Context) []reconcile.Request {
		return append(find(ctx, c), forsaken(ctx, foreign, kinds, toOwner)...)
	}
	for _, gvk := range clusterKinds() {
		kinds.Kinds = append(kinds.Kinds, kube.ForeignKind{
			GroupVersionKind: gvk, Handler: kube.Enqueue(toOwner, priorityCluster),
			Indexes: map[string]client.IndexerFunc{indexNamed: namedOwner},
		})
	}
	if err := kinds.Ahead(ctx); err != nil {
		return err
	}
	r := &Reconciler{
		Client: c, Foreign: foreign, Live: live, Kinds: kinds, Gate: kube.NewGate(max(1, o.MaxConcurrentReconciles/4)),
		Clock: o.Clock, Options: o, Recorder: kube.NewRecorder(mgr, "experiment", o.Events), told: kube.NewTold(),
		memory: newMemory(),
	}
	if err := metrics.Registry.Register(r.Gate.Gauge("experiment")); err != nil {
		return err
	}
	if err := kube.Count(mgr, "Experiment", o.Clock, &v1alpha1.ExperimentList{}, counted); err != nil {
		return err
	}
	if o.Webhook {
		if err := setupWebhook(mgr, r); err != nil {
			return err
		}
	}
	due := &kube.Due{}
	return ctrl.NewControllerManagedBy(mgr).
		Named("experiment").
		For(&v1alpha1.Experiment{}, builder.WithPredicates(predicate.Or(
			kube.Respecified, kube.Unprotected(v1alpha1.Finalizer), annotated, r.told.ByOthers(statusOf),
		))).
		Watches(&v1alpha1.Experiment{}, kube.NewFirst(v1alpha1.Finalizer)).
		Watches(&v1alpha1.Component{}, enqueueWhere(c, indexComponents), builder.WithPredicates(kube.Respecified)).
		WatchesMetadata(&corev1.Namespace{}, kube.Enqueue(toOwner, priorityNamespace)).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
			return find(ctx, c, client.InNamespace(o.GetName()))
		}), builder.WithPredicates(boundElsewhere)).
		WatchesRawSource(kinds).
		WatchesRawSource(r.Gate).
		WatchesRawSource(due).
		WithOptions(kube.Workers(o.MaxConcurrentReconciles, kube.Patience, timeout)).
		Complete(r.Gate.Wrap(kube.QuietConflicts(due.Wrap(r.reconciler()))))
}

var (
	// boundElsewhere lets a Namespace through of which the bounds of its Experiments have changed.
	boundElsewhere = changed(v1alpha1.AnnotationProject, v1alpha1.AnnotationServiceAccounts, v1alpha1.AnnotationTenants)
	// annotated lets an Experiment through of which an annotation has changed that is acted on.
	annotated = changed(v1alpha1.AnnotationExtend, v1alpha1.AnnotationComplete)
)

// changed lets an object through of which one of some annotations has changed.
func changed(annotations ...string) predicate.Funcs {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()
			return slices.ContainsFunc(annotations, func(a string) bool { return before[a] != after[a] })
		},
	}
}

// componentNames are the Components that an Experiment may deploy.
func (o Observability) componentNames(e client.Object) []string {
	var out []string
	for _, t := range e.(*v1alpha1.Experiment).Spec.Targets {
		out = append(out, o.named(t)...)
	}
	return out
}

func templateName(o client.Object) []string {
	return []string{o.(*v1alpha1.Experiment).Spec.Workflow.Template}
}

// clusterNames are the Clusters of core.arlon.io that an Experiment names.
func clusterNames(e client.Object) (all []string) {
	for _, t := range e.(*v1alpha1.Experiment).Spec.Targets {
		if t.Cluster.ClusterRef != nil {
			all = append(all, t.Cluster.ClusterRef.Name)
		}
	}
	return all
}

// enqueueWhere wakes the Experiments that name the object.
func enqueueWhere(c client.Reader, index string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		return find(ctx, c, client.MatchingFields{index: o.GetName()})
	})
}

// find lists the Experiments of the cache; it cannot fail there, but for the end of the manager.
func find(ctx context.Context, c client.Reader, opts ...client.ListOption) []reconcile.Request {
	list := &v1alpha1.ExperimentList{}
	if err := c.List(ctx, list, opts...); err != nil {
		if ctx.Err() != nil {
			return nil // the manager is being stopped
		}
		ctrl.LoggerFrom(ctx).Error(err, "Listing Experiments to wake")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{
			Namespace: list.Items[i].Namespace, Name: list.Items[i].Name}})
	}
	return requests
}

func statusOf(o client.Object) any { return o.(*v1alpha1.Experiment).Status }

func conditionsOf(o client.Object) *[]metav1.Condition {
	return &o.(*v1alpha1.Experiment).Status.Conditions
}
