package experiment

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/conditions"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// usersDelay is how late the number of users of a Component may be: a thousand Experiments that come at
// once are one write a second.
const usersDelay = time.Second

// pageSize is how many Experiments are read from the server at a time.
const pageSize = 500

// shownUsers is how many of them a message names.
const shownUsers = 5

// components says of each Component whether it can be deployed and how many Experiments name it, and
// keeps one that is named from going: its Experiments would deploy something else, or nothing. Nothing
// of what Experiments do rests on it.
type components struct {
	client.Client
	// live reads Experiments from the server.
	live  client.Reader
	clock clock.PassiveClock
	// named are the Components that an Experiment names.
	named func(client.Object) []string
	// told are the statuses that were written last.
	told *kube.Told
}

// Reconcile brings the status of a Component up to date.
func (r *components) Reconcile(ctx context.Context, c *v1alpha1.Component) (ctrl.Result, error) {
	if err := kube.EnsureFinalizer(ctx, r.Client, c, v1alpha1.ComponentFinalizer, componentConditions, r.clock.Now(), r.told); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	users, err := r.users(ctx, c)
	if err != nil {
		return ctrl.Result{}, err
	}
	done := c.DeletionTimestamp != nil && len(users) == 0
	if done {
		if err := r.unnamed(ctx, c); err != nil {
			return ctrl.Result{}, err
		}
	}
	before := c.DeepCopy()
	c.Status.ObservedGeneration, c.Status.UsedBy = c.Generation, int32(len(users))
	conditions.Set(&c.Status.Conditions, readiness(c, users), c.Generation, r.clock.Now())
	return kube.Finish(ctx, r.Client, kube.Silence, before, c, v1alpha1.ComponentFinalizer, kube.Outcome{Done: done, Told: r.told})
}

// unnamed is a conflict if the server has an Experiment that names a Component. What the cache has is not enough to let
// that go: it may be behind, above all that of a manager that has just started.
func (r *components) unnamed(ctx context.Context, c *v1alpha1.Component) error {
	for next := ""; ; {
		page := &v1alpha1.ExperimentList{} // the last one says nothing of a next, so that one that is read again would go on for ever
		err := r.live.List(ctx, page, client.Limit(pageSize), client.Continue(next))
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return nil // of a kind that is not served any more there are none
		}
		if err != nil {
			return fmt.Errorf("listing Experiments that name it: %w", err)
		}
		for i := range page.Items {
			if slices.Contains(r.named(&page.Items[i]), c.Name) {
				return kube.Stale(c, listed(page.Items[i:i+1])+" names it, which the cache has not seen yet")
			}
		}
		if next = page.Continue; next == "" {
			return nil
		}
	}
}

// users are the Experiments that name a Component, as the cache has them: they must not be changed.
func (r *components) users(ctx context.Context, c *v1alpha1.Component) ([]v1alpha1.Experiment, error) {
	list := &v1alpha1.ExperimentList{}
	if err := r.List(ctx, list, client.MatchingFields{indexComponents: c.Name}, client.UnsafeDisableDeepCopy, kube.WithOwnWrites); err != nil {
		return nil, fmt.Errorf("listing Experiments that name it: %w", err)
	}
	return list.Items, nil
}

// readiness is the condition Ready of a Component.
func readiness(c *v1alpha1.Component, users []v1alpha1.Experiment) conditions.Step {
	if c.DeletionTimestamp != nil && len(users) > 0 {
		return conditions.False(v1alpha1.ConditionReady, v1alpha1.ReasonInUse, "It goes when no Experiment names it any more: "+listed(users))
	}
	ref, known := exampleOf(c, true)
	_, err := resolveRef(ref, c, known, c.Name)
	if err == nil {
		ref, known = exampleOf(c, false)
		_, err = resolveRef(ref, c, known, c.Name)
	}
	if err == nil {
		if err = unmonitored(c.Spec.Observability); err != nil {
			err.message = "On targets whose observability is enabled it cannot be deployed: " + err.message
		}
	}
	if err != nil {
		return conditions.False(v1alpha1.ConditionReady, err.reason, err.message)
	}
	return conditions.True(v1alpha1.ConditionReady, v1alpha1.ReasonWellFormed, "It can be deployed, if its sources have what it says")
}

// listed are the first of some Experiments, and how many more there are.
func listed(users []v1alpha1.Experiment) string {
	all := make([]string, 0, len(users))
	for i := range users {
		all = append(all, users[i].Namespace+"/"+users[i].Name)
	}
	slices.Sort(all)
	named := strings.Join(all[:min(len(all), shownUsers)], ", ")
	if more := len(all) - shownUsers; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return named
}

// exampleOf is a reference to a Component that sets what it can, where the manager knows the rest: all of it, or nothing that has a
// default.
func exampleOf(c *v1alpha1.Component, all bool) (ref v1alpha1.ComponentRef, known values) {
	ref, known = v1alpha1.ComponentRef{Params: map[string]string{}}, values{}
	switch c.Spec.Type {
	case v1alpha1.ComponentApp:
		ref.App = c.Name
	case v1alpha1.ComponentWorkflow:
		ref.Workflow = c.Name
	default:
		ref.Config = c.Name
	}
	for _, p := range c.Spec.Parameters {
		switch {
		case p.From != "" && (all || p.Default == nil):
			known[p.From] = orDefault(examples[p.From], "word")
		case p.From != "", p.Default != nil, !p.Required && inAnother(p, c.Spec.Parameters):
		default:
			ref.Params[p.Name] = map[v1alpha1.ParameterType]string{
				v1alpha1.ParameterInteger: "1", v1alpha1.ParameterNumber: "1", v1alpha1.ParameterBoolean: "true",
			}[p.Type]
		}
	}
	return ref, known
}

// inAnother says whether a parameter is one that a reference sets, or another.
func inAnother(p v1alpha1.ComponentParameter, declared []v1alpha1.ComponentParameter) bool {
	return slices.ContainsFunc(declared, func(other v1alpha1.ComponentParameter) bool {
		return other.Name != p.Name && within(p.Name, other.Name)
	})
}

// examples are what the manager may know, where that is no word.
var examples = values{
	v1alpha1.FromSharedCluster: "true", v1alpha1.FromMonitorService: "true", v1alpha1.FromMonitorPods: "true",
	v1alpha1.FromMetricsPort: "1", v1alpha1.FromMonitorPort: "1",
}

// release lets Components go that a manager of all namespaces has kept, and that the server has no Experiment of that names them:
// that manager may be gone.
type release struct{ *components }

// Reconcile takes the finalizer off a Component that is being deleted.
func (r release) Reconcile(ctx context.Context, c *v1alpha1.Component) (ctrl.Result, error) {
	if c.DeletionTimestamp == nil || !controllerutil.ContainsFinalizer(c, v1alpha1.ComponentFinalizer) {
		return ctrl.Result{}, nil
	}
	if err := r.unnamed(ctx, c); err != nil {
		return ctrl.Result{}, err
	}
	return kube.Finish(ctx, r.Client, kube.Silence, c.DeepCopy(), c, v1alpha1.ComponentFinalizer, kube.Outcome{Done: true})
}

// setupComponents registers the reconciler, in a manager of all namespaces: another does not know who
// names a Component, and keeps none.
func setupComponents(mgr ctrl.Manager, live client.Reader, o Options) error {
	r := &components{Client: mgr.GetClient(), live: live, clock: o.Clock, named: o.Observability.componentNames, told: kube.NewTold()}
	c := ctrl.NewControllerManagedBy(mgr).
		Named("component").
		For(&v1alpha1.Component{}, builder.WithPredicates(predicate.Or(
			kube.Respecified, kube.Unprotected(v1alpha1.ComponentFinalizer), r.told.ByOthers(componentStatus),
		))).
		WithOptions(kube.Workers(o.MaxConcurrentReconciles, kube.Patience, timeout))
	if len(o.WatchNamespaces) > 0 {
		return c.Complete(kube.QuietConflicts(reconcile.AsReconciler(mgr.GetClient(), release{r})))
	}
	if err := kube.Count(mgr, "Component", o.Clock, &v1alpha1.ComponentList{}, func(c *v1alpha1.Component, _ time.Time) kube.State {
		return kube.State{Conditions: c.Status.Conditions}
	}); err != nil {
		return err
	}
	return c.Watches(&v1alpha1.Experiment{}, whatTheyName{o.Observability}).
		Complete(kube.QuietConflicts(reconcile.AsReconciler(mgr.GetClient(), r)))
}

func componentStatus(o client.Object) any { return o.(*v1alpha1.Component).Status }

func componentConditions(o client.Object) *[]metav1.Condition {
	return &o.(*v1alpha1.Component).Status.Conditions
}

// whatTheyName wakes the Components that an Experiment names, or has named, a while later.
type whatTheyName struct{ Observability }

type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]

var _ handler.EventHandler = whatTheyName{}

// Create wakes what a new Experiment names.
func (w whatTheyName) Create(_ context.Context, e event.CreateEvent, q requests) {
	wake(q, w.componentNames(e.Object))
}

// Delete wakes what a former one named.
func (w whatTheyName) Delete(_ context.Context, e event.DeleteEvent, q requests) {
	wake(q, w.componentNames(e.Object))
}

// Generic is for sources that are none of ours.
func (whatTheyName) Generic(context.Context, event.GenericEvent, requests) {}

// Update wakes what the spec names now and before, if that is not the same.
func (w whatTheyName) Update(_ context.Context, e event.UpdateEvent, q requests) {
	if kube.SameSpec(e.ObjectOld, e.ObjectNew) {
		return
	}
	if before, after := w.componentNames(e.ObjectOld), w.componentNames(e.ObjectNew); !slices.Equal(before, after) {
		wake(q, append(before, after...))
	}
}

func wake(q requests, components []string) {
	for _, name := range components {
		q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}, usersDelay)
	}
}
