package hibernateplan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/conditions"
	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// +kubebuilder:rbac:groups=hibernator.ardikabs.com,resources=hibernateplans,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=hibernator.ardikabs.com,resources=hibernateplans/status,verbs=patch
// +kubebuilder:rbac:groups=hibernator.ardikabs.com,resources=scheduleexceptions;k8sclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=batch,namespace=labkeeper-system,resources=jobs,verbs=get;list;watch
// +kubebuilder:rbac:groups="",namespace=labkeeper-system,resources=pods,verbs=get;list
// +kubebuilder:rbac:groups="",namespace=labkeeper-system,resources=configmaps,verbs=get;list;create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// timeout ends a pass that a call does not come back to.
const timeout = time.Minute

// Options of the reconciler.
type Options struct {
	// Namespace of the manager, where Jobs run and restore points are kept.
	Namespace string
	// Own is the namespace that the manager itself runs in, which may be another; empty is none that is known.
	Own string
	// Image of the runner's container, which is that of the manager.
	Image string
	// PullSecrets are names of Secrets beside the Jobs that the image is pulled with.
	PullSecrets []string
	// Node that the manager is on, which is not put to sleep; empty is none that is known.
	Node string
	// ClusterNamespaces are those whose plans may act on what has no namespace in the manager's own cluster.
	ClusterNamespaces []string
	// WatchNamespaces are those to act in; empty is all.
	WatchNamespaces []string
	// Executors that there are.
	Executors executor.Registry
	// Webhook says whether plans and exceptions are reviewed at admission, too.
	Webhook bool
	// Events says whether Events are recorded of what happens.
	Events bool
	// MaxConcurrentReconciles is how many objects of a kind are looked at at the same time; of plans sixteen times as many.
	MaxConcurrentReconciles int
	// LedgerPace is how far apart the writes of a plan's ledger are; 0 has them follow each other at once.
	LedgerPace time.Duration
	// LedgerInStatus is how many bytes of a plan's ledger its status holds, as JSON: a longer one is kept in ControllerRevisions.
	LedgerInStatus int
	// Runners is how many attempts of the plans of one namespace are under way while more are begun to put targets to sleep; 0 is any number.
	Runners int
	// Clock tells the time.
	Clock clock.PassiveClock
}

// maxMade is how many objects that attempts need are known by their UIDs: those of 5,000 that run.
const maxMade = 16 << 10

// Reconciler keeps HibernatePlans.
type Reconciler struct {
	// Client reads from the cache, and writes plans.
	Client client.Client
	// Live reads from the server, and writes.
	Live client.Client
	// Logs of pods; nil keeps none.
	Logs Logs
	// LogStore is where they are kept; nil is ConfigMaps in the manager's namespace.
	LogStore LogStore
	// Recorder of events.
	Recorder events.EventRecorder
	// Options of the manager.
	Options Options

	revisions *lru.Cache // *resolved by revisionOf
	strayed   *lru.Cache // time.Time by UID: when it was said that the restore points of a plan are elsewhere
	lonely    *lru.Cache // UIDs of plans that none of their names has left anything to
	told      *kube.Told
	shards    *lru.Cache  // *shard by the name of a ControllerRevision
	permitted *lru.Cache  // names of the Roles of targets that this manager has made or seen
	prepared  *lru.Cache  // prepared by the UID of a plan
	renewed   *lru.Cache  // renewal by the UID of a plan and a target
	doubted   *lru.Cache  // time.Time when it was looked last whether a plan has failed by other credentials than there are, by its UID
	made      *lru.Cache  // types.UID of what attempts need, by made, errors by refusal and letGo, and true by looked
	paced     *lru.Cache  // time.Time when the ledger of a plan was written last, by its UID
	rounds    *lru.Cache  // round by the UID of a plan
	slots     *kube.Slots // of attempts, of all plans
	// tried are time.Time when this manager has first tried what may fail for a while: to make the Job of an attempt that it has recorded, by
	// its name; to take away a helper, by letGo; to let a plan go after its deadline, by its UID.
	tried    *lru.Cache
	rooms    *rooms
	tight    *lru.Cache // time.Time when a plan has had no room for its status, by its UID
	recorded *lru.Cache // names of Jobs that this manager has recorded and begun to make nothing of
	// asked are lists of exceptions that are under way, by namespace: a thousand plans may begin at one minute, and each
	// would have all of them listed. A plan goes by none that began before it looked.
	asked singleflight.Group
}

// scope is what a pass over one plan knows.
type scope struct {
	*Reconciler
	owner *v1alpha1.HibernatePlan
	seen  Observed
	now   time.Time
	plan  Plan
	// decided says that there is one.
	decided bool
	// recordable: what was decided may be recorded, as nothing that it rests on has failed.
	recordable bool
	// loaded says that the owner has its whole ledger, wherever that is kept.
	loaded bool
	// points are the restore points that were read, by their targets.
	points map[string]*corev1.ConfigMap
	// reachable are the connectors that were looked at, while the targets of the spec are: many have the same.
	reachable map[v1alpha1.ConnectorRef]reached
	// going says whether the namespace of the plan is gone, or going; nil where nobody has looked.
	going atomic.Pointer[bool]
	// ran are how many attempts were under way by what is recorded, and runs how many are by what was decided.
	ran, runs int
	// more: there is more to see than one pass looks at. unended: those attempts are not looked at whose Jobs have ended.
	more, unended bool
	// round is where the pass is among the attempts without a Job, and advanced that it has looked at some.
	round    round
	advanced bool
}

// Reconcile takes a plan one step on.
func (r *Reconciler) Reconcile(ctx context.Context, owner *v1alpha1.HibernatePlan) (result ctrl.Result, err error) {
	if wait := r.told.LetGo(owner); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if err := kube.EnsureFinalizer(ctx, r.Client, owner, v1alpha1.Finalizer, conditionsOf, r.Options.Clock.Now(), r.told); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if at := r.elsewhere(owner); at != "" {
		return r.leaveAlone(ctx, owner, at)
	}
	s, written := &scope{Reconciler: r, owner: owner, now: r.Options.Clock.Now()}, false
	if last, known := r.rounds.Get(owner.UID); known {
		s.round = last.(round)
	}
	defer func() { s.leaveRoom(written, err) }()
	if wait := r.rest(owner); wait > 0 {
		err := s.early(ctx)
		s.goesOn(err)
		return ctrl.Result{RequeueAfter: wait, Priority: ptr.To(0)}, err
	}
	before := owner.DeepCopy()
	err = s.step(ctx)
	if err != nil && kube.Conflict(err) {
		return ctrl.Result{}, err // nothing of it counts
	}
	result, written, err = s.finish(ctx, before, err)
	return result, err
}

// finish says what has come of a pass, and records it; written says that it did.
func (s *scope) finish(ctx context.Context, before *v1alpha1.HibernatePlan, err error) (result ctrl.Result, written bool, _ error) {
	owner := s.owner
	report(s, err)
	events := happened(before, owner, s, err)
	if stored := s.store(ctx, before.Status.Cycles, s.plan.Done && err == nil); stored != nil {
		owner.Status, s.recordable = *before.Status.DeepCopy(), false
		err, events = errors.Join(err, stored), nil
		conditions.Set(&owner.Status.Conditions, view{}.ready(err), owner.Generation, s.now)
	}
	ledger := !equality.Semantic.DeepEqual(before.Status.Executions, owner.Status.Executions) || !equality.Semantic.DeepEqual(before.Status.Ledger, owner.Status.Ledger)
	result, err = kube.Finish(ctx, s.Client, s.Recorder, before, owner, v1alpha1.Finalizer, kube.Outcome{
		Wait: s.plan.Wait, Done: s.plan.Done && err == nil, Events: events, Err: err, Told: s.told,
		Strict: before.Status.Ledger == nil && owner.Status.Ledger != nil, // what leaves the status must not be lost
		Written: func(ctx context.Context) {
			if written = true; ledger {
				s.remember()
			}
			s.prune(ctx, owner.Status.Ledger)
		},
		TooLarge: func(ctx context.Context) { s.tighten(ctx, before) },
	})
	switch goesOn := s.goesOn(err); {
	case err != nil:
		result.RequeueAfter = s.due(written, goesOn)
	case written && stuck(owner) && !stuck(before):
		result.RequeueAfter = atOnce // what has changed before that was recorded woke nobody
	}
	if result.RequeueAfter > atOnce {
		result.Priority = ptr.To(0) // what is to begin then does not wait for what has ended
	}
	return result, written, err
}

// due is when there is a pass after one that has failed, whenever that is tried again: at once where what it has recorded is to be
// begun, or the next attempts without a Job have their turn (goesOn), and when the clock brings what it knew of. 0 is when it is tried again.
func (s *scope) due(written, goesOn bool) time.Duration {
	if s.recordable && (goesOn || written && (s.plan.Turns || len(s.plan.Began) > 0)) {
		return atOnce
	}
	until := s.plan.Desired.until
	if next := s.owner.Status.NextTransition; !s.plan.Known && next != nil { // as where not everything could be read
		until = next.Time.Time
	}
	return max(0, until.Sub(s.now))
}

// waiting is how many times as many plans as objects of other kinds are looked at at the same time: nine tenths of a pass
// that makes a Job it waits, most of that for the API server, which checks the binding of a Role against the manager's
// own rights by lists that must be up to date. So many attempts of all of them are made or cleared away at the same time.
const waiting = 16

// long is how long a pass keeps that of another plan from beginning: one makes ten attempts, of four objects each.
const long = 5 * kube.Patience

// priorityEnded is that of plans a Job of which has ended: where many begin at one minute, those that have begun wait. But
// the API server looks at every RoleBinding in the namespace of the Jobs for each request, and with many attempts it does
// little else: then those that have ended go first. Attempts that this manager has made are counted, whether they have
// ended or not, by the least that one needs.
func (r *Reconciler) priorityEnded() int {
	const each, many = 3, 500 // objects that an attempt needs, and attempts
	if r.made.Len() > each*many {
		return 1
	}
	return -1
}

// remember keeps in mind what the ledger says that was written just now: when that was, and which attempts nobody else can have made
// anything of.
func (s *scope) remember() {
	s.paced.Add(s.owner.UID, s.now)
	if !s.recordable {
		return
	}
	for _, job := range s.plan.Began {
		s.recorded.Add(s.names().in(job), nil)
	}
}

// step observes, decides and writes.
func (s *scope) step(ctx context.Context) error {
	if err := s.observe(ctx, s.load, s.observeExceptions, s.observeCycle, s.observeAttempts, s.observeLeft, s.observeReach); err != nil {
		return err
	}
	s.decide()
	s.decided = true
	if s.more {
		s.plan.lookIn(atOnce)
	}
	if s.seen.Lost != nil && s.plan.Done {
		if err := s.leaveLost(ctx); err != nil && !s.overdue(ctx, err) {
			return err
		}
	}
	if err := s.apply(ctx); err != nil {
		return err
	}
	return s.prepare(ctx)
}

// decide decides, and says to the plans beside it what is under way by then.
func (s *scope) decide() {
	at := client.ObjectKeyFromObject(s.owner)
	s.decideBy(func(runs, would int) int { return s.rooms.take(at, runs, would) })
	s.ran, s.runs = under(s.owner.Status.Executions), under(s.plan.Status.Executions)
	s.rooms.now(at, s.runs, s.plan.Waits)
}

// leaveRoom has a plan whose pass has failed wait for no room, and have none for what is not recorded: the next ones may fail, too.
func (s *scope) leaveRoom(written bool, err error) {
	at := client.ObjectKeyFromObject(s.owner)
	switch {
	case err == nil:
	case !s.decided || kube.Conflict(err): // what was looked at may be older than what the last pass has recorded
		s.rooms.failed(at)
	case written && s.recordable:
		s.rooms.now(at, s.runs, 0)
	default:
		s.rooms.now(at, s.ran, 0)
	}
}

func (s *scope) decideBy(room func(runs, would int) int) {
	s.plan = facts{plan: s.owner, seen: s.seen, registry: s.Options.Executors, namespace: s.Options.Namespace, now: s.now, room: room}.decide()
}

// rest is how long the ledger of a plan is not written yet, because it was just now.
func (r *Reconciler) rest(plan *v1alpha1.HibernatePlan) time.Duration {
	last, written := r.paced.Get(plan.UID)
	if !written {
		return 0
	}
	since := r.Options.Clock.Since(last.(time.Time))
	if since < 0 { // the clock was set back
		return 0
	}
	return r.Options.LedgerPace - since
}

// early makes the Jobs that the ledger speaks of, while it is not to be written. All else is the next pass's, and so is
// what comes of those that cannot be made.
func (s *scope) early(ctx context.Context) error {
	s.unended = true
	if err := s.observe(ctx, s.load, s.observeCycle, s.observeAttempts); err != nil {
		return err
	}
	s.decideBy(func(int, int) int { return 0 })
	s.plan = Plan{Status: s.plan.Status, Launch: s.plan.Launch, program: s.plan.program}
	return s.apply(ctx)
}

const (
	// indexPlan is the name of the plan that a ScheduleException is one of.
	indexPlan = "plan"
	// indexOwner is the plan, as namespace/name, that a Job is one of.
	indexOwner = "owner"
)

// CacheByObject is how Jobs are cached: those of plans, without what is never read.
func CacheByObject(o Options) map[client.Object]cache.ByObject {
	ours, err := labels.NewRequirement(v1alpha1.LabelUID, selection.Exists, nil)
	if err != nil {
		panic(err) // the label is a constant
	}
	return map[client.Object]cache.ByObject{kube.Empty(jobGVK): {
		Namespaces: map[string]cache.Config{o.Namespace: {LabelSelector: labels.NewSelector().Add(*ours)}},
		Transform: func(o any) (any, error) {
			if u, ok := o.(*unstructured.Unstructured); ok {
				u.SetManagedFields(nil)
				deadline, _, _ := unstructured.NestedFieldNoCopy(u.Object, pathDeadline...)
				u.Object["spec"] = map[string]any{"activeDeadlineSeconds": deadline}
			}
			return o, nil
		},
	}}
}

// fresh is a reconciler that has nothing in mind yet. It keeps no logs and records no Events.
func fresh(c, live client.Client, o Options) *Reconciler {
	return &Reconciler{
		Client: c, Live: live, Recorder: kube.Silence, Options: o, told: kube.NewTold(), slots: kube.NewSlots(waiting*o.MaxConcurrentReconciles, long),
		revisions: lru.New(1024), strayed: lru.New(8192), lonely: lru.New(8192), shards: lru.New(512), made: lru.New(maxMade), permitted: lru.New(maxMade), prepared: lru.New(8192), doubted: lru.New(8192), renewed: lru.New(maxMade),
		paced: lru.New(8192), rounds: lru.New(8192), recorded: lru.New(maxMade), tried: lru.New(maxMade), rooms: newRooms(o.Runners), tight: lru.New(8192),
	}
}

// SetupWithManager registers the reconciler.
func SetupWithManager(ctx context.Context, mgr ctrl.Manager, live client.Client, o Options) error {
	clients, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("building the client of pods: %w", err)
	}
	r := fresh(mgr.GetClient(), live, o)
	r.Logs = podLogs{func(namespace, pod string, o *corev1.PodLogOptions) stream {
		return clients.CoreV1().Pods(namespace).GetLogs(pod, o)
	}}
	r.Recorder = kube.NewRecorder(mgr, "hibernateplan", o.Events)
	if err := kube.Count(mgr, "HibernatePlan", o.Clock, &v1alpha1.HibernatePlanList{}, counted); err != nil {
		return err
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.ScheduleException{}, indexPlan, func(e client.Object) []string {
		return []string{e.(*v1alpha1.ScheduleException).Spec.PlanRef.Name}
	}); err != nil {
		return fmt.Errorf("indexing ScheduleExceptions: %w", err)
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, kube.Empty(jobGVK), indexOwner, func(job client.Object) []string {
		return []string{job.GetAnnotations()[v1alpha1.AnnotationOwner]}
	}); err != nil {
		return fmt.Errorf("indexing Jobs: %w", err)
	}
	if err := setupExceptions(mgr, o); err != nil {
		return err
	}
	if o.Webhook {
		if err := setupWebhook(mgr, r); err != nil {
			return fmt.Errorf("setting up the webhook: %w", err)
		}
	}
	if err := mgr.Add(manager.RunnableFunc(r.sweepLeft)); err != nil {
		return fmt.Errorf("adding what sweeps: %w", err)
	}
	due := &kube.Due{}
	return ctrl.NewControllerManagedBy(mgr).
		Named("hibernateplan").
		For(&v1alpha1.HibernatePlan{}, builder.WithPredicates(predicate.Or(
			kube.Respecified, predicate.AnnotationChangedPredicate{}, kube.Unprotected(v1alpha1.Finalizer), r.told.ByOthers(statusOf),
		))).
		Watches(&v1alpha1.HibernatePlan{}, kube.NewFirst(v1alpha1.Finalizer)).
		Watches(&v1alpha1.ScheduleException{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, e client.Object) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: e.GetNamespace(), Name: e.(*v1alpha1.ScheduleException).Spec.PlanRef.Name}}}
		}), builder.WithPredicates(kube.Respecified)).
		Watches(kube.Empty(jobGVK), kube.EnqueueBy(marks.Owners(o.WatchNamespaces), r.priorityEnded), builder.WithPredicates(ended)).
		Watches(&v1alpha1.K8SCluster{}, handler.EnqueueRequestsFromMapFunc(r.ofConnector), builder.WithPredicates(connectorChanged)).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.ofNamespace), builder.WithPredicates(predicate.Or(
			predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{},
		))).
		WatchesRawSource(due).
		WithOptions(kube.Workers(waiting*o.MaxConcurrentReconciles, long, timeout)).
		Complete(kube.QuietConflicts(due.Wrap(kube.Sweeping(reconcile.AsReconciler(r.Client, r), r.sweepAll))))
}

// ended lets Jobs through that have come to their end, were told to, are suspended, or are gone.
var ended = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return ending(e.Object) > 0 },
	UpdateFunc: func(e event.UpdateEvent) bool { return ending(e.ObjectNew) > ending(e.ObjectOld) },
}

// ending is 2 for a Job that has ended, 1 for one that was told to, or is suspended, and 0 for others.
func ending(o client.Object) int {
	job, ok := o.(*unstructured.Unstructured)
	switch {
	case ok && finished(job):
		return 2
	case ok && stoppedSince(job) != nil:
		return 1
	}
	return 0
}

// stuck says whether a plan waits for what others do with a connector, or a namespace.
var stuck = because(v1alpha1.ReasonConnectorMissing, v1alpha1.ReasonConnectorNotReady, v1alpha1.ReasonNotGranted, v1alpha1.ReasonTooManyNamespaces)

// ofConnector are the plans that cannot begin, for the want of a connector or of a grant it may be, and those of which something
// sleeps, which may be behind it whatever the spec says now.
func (r *Reconciler) ofConnector(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.plans(ctx, func(plan *v1alpha1.HibernatePlan) bool { return stuck(plan) || plan.Status.Asleep > 0 })
}

// connectorChanged lets through what plans look at in a connector; when it was last looked at is none of it.
var connectorChanged = predicate.Or(kube.Respecified, predicate.AnnotationChangedPredicate{}, predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*v1alpha1.K8SCluster).Status, e.ObjectNew.(*v1alpha1.K8SCluster).Status
		return before.Ready != after.Ready || before.Message != after.Message
	},
})

func (r *Reconciler) ofNamespace(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.plans(ctx, because(v1alpha1.ReasonNotGranted, v1alpha1.ReasonTooManyNamespaces))
}

// because says whether one of some reasons is in the way of a plan.
func because(reasons ...string) func(*v1alpha1.HibernatePlan) bool {
	return func(plan *v1alpha1.HibernatePlan) bool {
		c := find(plan.Status.Conditions, v1alpha1.ConditionScheduled)
		return c != nil && slices.Contains(reasons, c.Reason)
	}
}

// plans are those of which something is so.
func (r *Reconciler) plans(ctx context.Context, is func(*v1alpha1.HibernatePlan) bool) []reconcile.Request {
	var list v1alpha1.HibernatePlanList
	if err := r.Client.List(ctx, &list); err != nil {
		return nil // the cache has ended, and so has the manager
	}
	var out []reconcile.Request
	for i := range list.Items {
		if is(&list.Items[i]) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return out
}

func statusOf(o client.Object) any { return o.(*v1alpha1.HibernatePlan).Status }

func conditionsOf(o client.Object) *[]metav1.Condition {
	return &o.(*v1alpha1.HibernatePlan).Status.Conditions
}
