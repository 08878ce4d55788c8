package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/test/fakes"
)

// shelf has a Component and the Experiments that may name it.
type shelf struct {
	*testing.T
	client.Client
	r *components
}

func newShelf(t *testing.T, objects ...client.Object) *shelf {
	t.Helper()
	s := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	c := fakes.NewClientBuilder().WithScheme(s).WithStatusSubresource(&v1alpha1.Component{}).
		WithIndex(&v1alpha1.Experiment{}, indexComponents, Observability{}.componentNames).WithObjects(objects...).Build()
	return &shelf{t, c, &components{c, c, clocktesting.NewFakePassiveClock(epoch), Observability{}.componentNames, kube.NewTold()}}
}

// look runs a pass over nginx and returns it; nil when it is gone.
func (s *shelf) look() *v1alpha1.Component {
	s.Helper()
	c := &v1alpha1.Component{}
	if err := s.Get(s.Context(), client.ObjectKey{Name: "nginx"}, c); err != nil {
		s.Fatal(err)
	}
	if _, err := s.r.Reconcile(s.Context(), c); err != nil {
		s.Fatal(err)
	}
	now := &v1alpha1.Component{}
	if err := s.Get(s.Context(), client.ObjectKey{Name: "nginx"}, now); err != nil {
		return nil
	}
	return now
}

func (s *shelf) expect(c *v1alpha1.Component, usedBy int32, reason, words string) {
	s.Helper()
	ready := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReady)
	if c.Status.UsedBy != usedBy || ready == nil || ready.Reason != reason || !strings.Contains(ready.Message, words) {
		s.Errorf("it is used by %d, and %+v", c.Status.UsedBy, ready)
	}
}

// A Component that Experiments name does not go; it says which, and goes with the last.
func TestComponentInUse(t *testing.T) {
	s := newShelf(t, nginx())
	s.expect(s.look(), 0, v1alpha1.ReasonWellFormed, "")
	all := []*v1alpha1.Experiment{}
	for i := range 7 {
		e := experimentOf(targetOf("app", v1alpha1.ClusterHub), targetOf("second", v1alpha1.ClusterHub))
		e.Name, e.UID = fmt.Sprintf("e%d", i), ""
		all = append(all, e)
		if err := s.Create(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	s.expect(s.look(), 7, v1alpha1.ReasonWellFormed, "")
	if err := s.Delete(t.Context(), nginx()); err != nil {
		t.Fatal(err)
	}
	s.expect(s.look(), 7, v1alpha1.ReasonInUse, "lab/e0, lab/e1, lab/e2, lab/e3, lab/e4 and 2 more")
	for _, e := range all[1:] {
		if err := s.Delete(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	s.expect(s.look(), 1, v1alpha1.ReasonInUse, "any more: lab/e0")
	all[0].Spec.Targets[0].Components, all[0].Spec.Targets[1].Components = []v1alpha1.ComponentRef{{App: "k6"}}, []v1alpha1.ComponentRef{{App: "k6"}}
	if err := s.Update(t.Context(), all[0]); err != nil {
		t.Fatal(err)
	}
	if c := s.look(); c != nil {
		t.Errorf("it is still there: %+v", c.Status)
	}
}

// A Component the status of which is being written, for as long as that may hang, is deployed as before.
func TestComponentThatIsBeingWritten(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterHub)), nginx(), template())
	l.reconciler.Client = fakes.BeingWritten[*v1alpha1.Component](l.client)
	l.until(v1alpha1.PhaseRunning)
}

// A manager that has just started may not have seen yet who names it.
func TestComponentInUseByWhatTheCacheHasNot(t *testing.T) {
	e := experimentOf(targetOf("app", v1alpha1.ClusterHub))
	e.UID = ""
	server, s := newShelf(t, nginx(), e), newShelf(t, nginx())
	s.r.live = server
	s.look() // for the finalizer
	if err := s.Delete(t.Context(), nginx()); err != nil {
		t.Fatal(err)
	}
	c := &v1alpha1.Component{}
	if err := s.Get(t.Context(), client.ObjectKey{Name: "nginx"}, c); err != nil {
		t.Fatal(err)
	}
	if _, err := s.r.Reconcile(t.Context(), c); !kube.Conflict(err) || err == nil {
		t.Errorf("Reconcile() = %v, want a conflict", err)
	}
	if err := s.Get(t.Context(), client.ObjectKey{Name: "nginx"}, c); err != nil {
		t.Fatalf("it is gone: %v", err)
	}
	if err := server.Delete(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if c := s.look(); c != nil {
		t.Errorf("it is still there: %+v", c.Status)
	}
}

// pages are lists of Experiments as they are decoded: what the server does not say stays as it was.
type pages struct {
	client.Reader
	left []v1alpha1.ExperimentList
}

func (p *pages) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if len(p.left) == 0 {
		return errors.New("there is no other page")
	}
	page, into := p.left[0], list.(*v1alpha1.ExperimentList)
	p.left = p.left[1:]
	into.Items = page.Items
	if page.Continue != "" {
		into.Continue = page.Continue
	}
	return nil
}

func TestComponentsUsersOnSeveralPages(t *testing.T) {
	e := experimentOf(targetOf("app", v1alpha1.ClusterHub))
	first := v1alpha1.ExperimentList{ListMeta: metav1.ListMeta{Continue: "next"}}
	for name, last := range map[string][]v1alpha1.Experiment{"named": {*e}, "not named": nil} {
		t.Run(name, func(t *testing.T) {
			r := &components{live: &pages{left: []v1alpha1.ExperimentList{first, {Items: last}}}, named: Observability{}.componentNames}
			if err := r.unnamed(t.Context(), nginx()); (err != nil) != (len(last) > 0) || err != nil && !kube.Conflict(err) {
				t.Errorf("unnamed() = %v", err)
			}
		})
	}
}

// unserved is an API server that has no Experiments any more, as when their CRD was deleted with that of Components.
type unserved struct {
	client.Reader
	err error
}

func (u unserved) List(context.Context, client.ObjectList, ...client.ListOption) error { return u.err }

func TestComponentWithoutExperiments(t *testing.T) {
	gone := schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "experiments"}
	for name, test := range map[string]struct {
		err  error
		goes bool
	}{
		"not found": {apierrors.NewNotFound(gone, ""), true}, "no such kind": {&meta.NoKindMatchError{}, true},
		"down": {apierrors.NewServiceUnavailable("down"), false}, "refused": {apierrors.NewForbidden(gone, "", nil), false},
	} {
		if err := (&components{live: unserved{err: test.err}}).unnamed(t.Context(), nginx()); (err == nil) != test.goes {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// One that went before it had a finalizer is nobody's concern, whatever the cache has.
func TestComponentThatIsGone(t *testing.T) {
	s := newShelf(t)
	if _, err := s.r.Reconcile(t.Context(), nginx()); err != nil {
		t.Error(err)
	}
}

// What no reference could deploy is said of the Component itself.
func TestComponentReady(t *testing.T) {
	chart := v1alpha1.ComponentSource{RepoURL: "https://charts.example.com", Chart: "nginx", TargetRevision: "1.2.3"}
	folder := v1alpha1.ComponentSource{RepoURL: "https://git.example.com/x.git", Path: "manifests"}
	for name, test := range map[string]struct {
		spec   v1alpha1.ComponentSpec
		reason string
		words  string
	}{
		"a chart": {v1alpha1.ComponentSpec{Sources: []v1alpha1.ComponentSource{chart}}, v1alpha1.ReasonWellFormed, ""},
		"every type of parameter": {v1alpha1.ComponentSpec{Sources: []v1alpha1.ComponentSource{chart}, Parameters: []v1alpha1.ComponentParameter{
			{Name: "s", Type: v1alpha1.ParameterString, Required: true}, {Name: "i", Type: v1alpha1.ParameterInteger, Required: true},
			{Name: "n", Type: v1alpha1.ParameterNumber}, {Name: "b", Type: v1alpha1.ParameterBoolean, Required: true}, {Name: "u", Required: true},
		}}, v1alpha1.ReasonWellFormed, ""},
		"a default of another type": {v1alpha1.ComponentSpec{Sources: []v1alpha1.ComponentSource{chart}, Parameters: []v1alpha1.ComponentParameter{
			{Name: "replicas", Type: v1alpha1.ParameterInteger, Default: ptr.To("many")},
		}}, v1alpha1.ReasonInvalidParameters, "replicas must be of type integer"},
		"a parameter without a chart": {v1alpha1.ComponentSpec{Sources: []v1alpha1.ComponentSource{folder}, Parameters: []v1alpha1.ComponentParameter{
			{Name: "replicas"},
		}}, v1alpha1.ReasonInvalidParameters, "replicas has no Helm source"},
		"texts and others of one source": {v1alpha1.ComponentSpec{Sources: []v1alpha1.ComponentSource{chart}, Parameters: []v1alpha1.ComponentParameter{
			{Name: "shared", Type: v1alpha1.ParameterBoolean, From: v1alpha1.FromSharedCluster}, {Name: "labels.shared", Type: v1alpha1.ParameterString, From: v1alpha1.FromSharedCluster},
			{Name: "port", Type: v1alpha1.ParameterInteger, From: v1alpha1.FromMetricsPort}, {Name: "labels.port", Type: v1alpha1.ParameterString, From: v1alpha1.FromMetricsPort},
			{Name: "labels.name", From: v1alpha1.FromExperiment},
		}}, v1alpha1.ReasonWellFormed, ""},
		"a name for an integer": {v1alpha1.ComponentSpec{Sources: []v1alpha1.ComponentSource{chart}, Parameters: []v1alpha1.ComponentParameter{
			{Name: "replicas", Type: v1alpha1.ParameterInteger, From: v1alpha1.FromExperiment},
		}}, v1alpha1.ReasonInvalidParameters, "replicas must be of type integer"},
		"a port for a boolean": {v1alpha1.ComponentSpec{Sources: []v1alpha1.ComponentSource{chart}, Parameters: []v1alpha1.ComponentParameter{
			{Name: "on", Type: v1alpha1.ParameterBoolean, From: v1alpha1.FromMonitorPort, Default: ptr.To("true")},
		}}, v1alpha1.ReasonInvalidParameters, "on must be of type boolean"},
		"a default of another type where there is nothing to take": {v1alpha1.ComponentSpec{Sources: []v1alpha1.ComponentSource{chart}, Parameters: []v1alpha1.ComponentParameter{
			{Name: "port", Type: v1alpha1.ParameterInteger, From: v1alpha1.FromMetricsPort, Default: ptr.To("many")},
		}}, v1alpha1.ReasonInvalidParameters, "port must be of type integer"},
		"one or the other": {v1alpha1.ComponentSpec{Sources: []v1alpha1.ComponentSource{chart}, Parameters: []v1alpha1.ComponentParameter{
			{Name: "a"}, {Name: "a.b"},
		}}, v1alpha1.ReasonWellFormed, ""},
		"one and the other": {v1alpha1.ComponentSpec{Sources: []v1alpha1.ComponentSource{chart}, Parameters: []v1alpha1.ComponentParameter{
			{Name: "a", Default: ptr.To("x")}, {Name: "a.b", Required: true},
		}}, v1alpha1.ReasonInvalidParameters, "a and a.b set the same"},
		"monitors of nowhere": {v1alpha1.ComponentSpec{Sources: []v1alpha1.ComponentSource{chart}, Observability: &v1alpha1.ComponentObservability{ServiceMonitor: true}},
			v1alpha1.ReasonInvalidComponent, "On targets whose observability is enabled it cannot be deployed: observability.podLabels and metricsPort go together"},
		"values of nowhere": {v1alpha1.ComponentSpec{Sources: []v1alpha1.ComponentSource{{
			RepoURL: chart.RepoURL, Chart: chart.Chart, TargetRevision: "1.2.3", Helm: &v1alpha1.HelmSource{ValuesFiles: []string{"$values/x.yaml"}},
		}}}, v1alpha1.ReasonInvalidComponent, "$values"},
	} {
		t.Run(name, func(t *testing.T) {
			c := nginx()
			test.spec.Type = v1alpha1.ComponentApp
			c.Spec = test.spec
			s := newShelf(t, c)
			s.expect(s.look(), 0, test.reason, test.words)
		})
	}
}

// slowQueue is what is asked for later.
type slowQueue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	later []string
}

func (q *slowQueue) AddAfter(r reconcile.Request, after time.Duration) {
	q.later = append(q.later, fmt.Sprint(r.Name, " ", after))
}

// What an Experiment names is counted when that changes, and not at once: a thousand that come at once
// are one write.
func TestWhoWakesComponents(t *testing.T) {
	before, after := experimentOf(targetOf("app", v1alpha1.ClusterHub)), experimentOf(targetOf("app", v1alpha1.ClusterHub))
	after.Generation++
	after.Spec.Targets[0].Components = []v1alpha1.ComponentRef{{App: "k6"}}
	status := before.DeepCopy()
	status.Status.Phase = v1alpha1.PhaseRunning
	created := after.DeepCopy()
	created.UID, created.Generation = "another", before.Generation
	described := before.DeepCopy()
	described.Generation++
	described.Spec.Description = "x"
	for name, test := range map[string]struct {
		happens func(q requests)
		want    []string
	}{
		"a new one": {func(q requests) { whatTheyName{}.Create(t.Context(), event.CreateEvent{Object: before}, q) }, []string{"nginx 1s"}},
		"one less":  {func(q requests) { whatTheyName{}.Delete(t.Context(), event.DeleteEvent{Object: before}, q) }, []string{"nginx 1s"}},
		"another name": {func(q requests) {
			whatTheyName{}.Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: after}, q)
		}, []string{"nginx 1s", "k6 1s"}},
		"a status": {func(q requests) {
			whatTheyName{}.Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: status}, q)
		}, nil},
		"another of its name": {func(q requests) { // it was deleted and created again while a watch was broken off
			whatTheyName{}.Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: created}, q)
		}, []string{"nginx 1s", "k6 1s"}},
		"a description": {func(q requests) {
			whatTheyName{}.Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: described}, q)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			q := &slowQueue{}
			test.happens(q)
			if !slices.Equal(q.later, test.want) {
				t.Errorf("woken are %v, want %v", q.later, test.want)
			}
		})
	}
	unprotected := kube.Unprotected(v1alpha1.ComponentFinalizer)
	if !unprotected.Create(event.CreateEvent{Object: nginx()}) || unprotected.Create(event.CreateEvent{Object: &v1alpha1.Component{
		ObjectMeta: metav1.ObjectMeta{Finalizers: []string{v1alpha1.ComponentFinalizer}}}}) {
		t.Error("one without the finalizer, and no other, is looked at")
	}
}

// Helm says nothing of a value that no template reads: whoever mistypes a parameter is told by the manager.
func TestParametersThatNobodyDeclares(t *testing.T) {
	mistyped := func() *v1alpha1.Experiment {
		target := targetOf("app", v1alpha1.ClusterHub)
		target.Components = []v1alpha1.ComponentRef{{App: "nginx", Params: map[string]string{"replicaCount": "2", "replicacount": "3"}}}
		return experimentOf(target)
	}
	declaring := nginx()
	declaring.Spec.Parameters = []v1alpha1.ComponentParameter{{Name: "replicaCount"}}
	const extra = "replicacount of target app, app nginx"
	for name, test := range map[string]struct {
		component *v1alpha1.Component
		told      bool
	}{"of some that are": {declaring, true}, "of none that is": {nginx(), false}} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, mistyped(), test.component, template())
			fresh := mistyped()
			fresh.UID = ""
			warnings, err := reviewer{l.reconciler}.ValidateCreate(t.Context(), fresh)
			if err != nil || strings.HasSuffix(strings.Join(warnings, "; "), extra) != test.told {
				t.Errorf("the warnings are %q, %v", warnings, err)
			}
			l.until(v1alpha1.PhaseReady)
			l.expect(v1alpha1.ConditionComponentsResolved, metav1.ConditionTrue, v1alpha1.ReasonResolved)
			said := meta.FindStatusCondition(l.get().Status.Conditions, v1alpha1.ConditionComponentsResolved).Message
			if strings.HasSuffix(said, extra) != test.told {
				t.Errorf("it says %q", said)
			}
		})
	}
}

// One that is being deleted is told to those that name it: it stays for them, and for nobody else.
func TestComponentThatIsGoing(t *testing.T) {
	going := nginx()
	going.Finalizers, going.DeletionTimestamp = []string{v1alpha1.ComponentFinalizer}, ptr.To(metav1.NewTime(epoch))
	e := experimentOf(targetOf("app", v1alpha1.ClusterHub))
	l := newLab(t, e, going, template())
	fresh := e.DeepCopy()
	fresh.UID = ""
	const says = "Component nginx is being deleted, and goes when no Experiment names it any more"
	if warnings, err := (reviewer{l.reconciler}).ValidateCreate(t.Context(), fresh); err != nil || !slices.Contains(warnings, says) {
		t.Errorf("the warnings are %q, %v", warnings, err)
	}
	l.until(v1alpha1.PhaseReady)
	l.expect(v1alpha1.ConditionComponentsResolved, metav1.ConditionTrue, v1alpha1.ReasonResolved)
	if said := meta.FindStatusCondition(l.get().Status.Conditions, v1alpha1.ConditionComponentsResolved).Message; !strings.HasSuffix(said, says) {
		t.Errorf("it says %q", said)
	}
}

// A manager of some namespaces keeps no Component, and lets one go that a manager before it has kept, when nobody names it.
func TestComponentThatAnotherManagerHasKept(t *testing.T) {
	e := experimentOf(targetOf("app", v1alpha1.ClusterHub))
	e.Namespace, e.UID = "elsewhere", ""
	s := newShelf(t, nginx(), e)
	look := func() (*v1alpha1.Component, error) {
		c := &v1alpha1.Component{}
		if err := s.Get(t.Context(), client.ObjectKey{Name: "nginx"}, c); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		_, err := release{s.r}.Reconcile(t.Context(), c)
		return c, err
	}
	if c, err := look(); err != nil || len(c.Finalizers) > 0 || c.Status.ObservedGeneration > 0 {
		t.Errorf("it is %+v: %v", c, err)
	}
	s.look() // as the manager before did
	if err := s.Delete(t.Context(), nginx()); err != nil {
		t.Fatal(err)
	}
	if _, err := look(); !kube.Conflict(err) || err == nil {
		t.Errorf("with an Experiment that names it: %v, want a conflict", err)
	}
	if err := s.Delete(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if _, err := look(); err != nil {
		t.Error(err)
	}
	if c, err := look(); c != nil || err != nil {
		t.Errorf("it is still there: %+v: %v", c, err)
	}
}
