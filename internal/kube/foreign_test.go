package kube

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"github.com/labkeeper/labkeeper/test/fakes"
)

// widgetCRD serves Widgets in v1 and, no longer, in v1beta1.
func widgetCRD(t *testing.T, change ...func(*apiextensionsv1.CustomResourceDefinition)) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	err := yaml.UnmarshalStrict([]byte(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: widgets.example.com
  annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}"}
  managedFields: [{manager: kubectl, operation: Apply}]
spec:
  group: example.com
  names: {kind: Widget, listKind: WidgetList, plural: widgets, singular: widget}
  scope: Namespaced
  conversion: {strategy: None}
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns: [{name: Size, type: integer, jsonPath: .spec.size}]
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
  - name: v1beta1
    served: false
    storage: false
    schema: {openAPIV3Schema: {type: object}}
status:
  acceptedNames: {kind: Widget, plural: widgets}
  storedVersions: [v1]
  conditions:
  - {type: NamesAccepted, status: "True", reason: NoConflicts, message: no conflicts found, lastTransitionTime: "2026-03-01T12:00:00Z"}
  - {type: Established, status: "True", reason: InitialNamesAccepted, message: ok, lastTransitionTime: "2026-03-01T12:00:00Z"}
`), crd)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range change {
		c(crd)
	}
	return crd
}

func notEstablished(crd *apiextensionsv1.CustomResourceDefinition) {
	crd.Status.Conditions[1].Status = apiextensionsv1.ConditionFalse
}

// refused are the names of a CRD of which another has them.
func refused(crd *apiextensionsv1.CustomResourceDefinition) {
	crd.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
}

func noConditions(crd *apiextensionsv1.CustomResourceDefinition) { crd.Status.Conditions = nil }

func TestDefines(t *testing.T) {
	widgets := schema.GroupKind{Group: "example.com", Kind: "Widget"}
	tests := map[string]struct {
		crd  *apiextensionsv1.CustomResourceDefinition
		want definition
	}{
		"what it serves":     {widgetCRD(t), definition{widgets, []string{"v1"}}},
		"not established":    {widgetCRD(t, notEstablished), definition{kind: widgets}},
		"without conditions": {widgetCRD(t, noConditions), definition{kind: widgets}},
		"refused names":      {widgetCRD(t, refused), definition{}},
		"without anything":   {&apiextensionsv1.CustomResourceDefinition{}, definition{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, defines(test.crd), cmp.AllowUnexported(definition{})); diff != "" {
				t.Errorf("it defines (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStripCRD(t *testing.T) {
	at := func(seconds int64) *metav1.Time { return new(metav1.Unix(seconds, 0)) }
	crd := metadata(widgetCRD(t))
	crd.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl", Time: at(5)}, {Manager: "kube-apiserver", Time: at(7)}, {Manager: "timeless"}}
	want := metadata(widgetCRD(t))
	want.Annotations, want.ManagedFields = nil, []metav1.ManagedFieldsEntry{{Time: at(7)}}
	got, err := StripCRD(crd)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stripped (-want +got):\n%s", diff)
	}
	if other, err := StripCRD("tombstone"); err != nil || other != "tombstone" {
		t.Errorf("another thing comes back as %v, %v", other, err)
	}
	if got := written(&metav1.PartialObjectMetadata{}); time.Since(got.Time) > time.Minute {
		t.Errorf("what does not tell was written at %s", got)
	}
	scheme := runtime.NewScheme()
	if err := AddCRDs(scheme); err != nil || len(scheme.KnownTypes(apiextensionsv1.SchemeGroupVersion)) == 0 {
		t.Errorf("the scheme does not know them: %v", err)
	}
}

// metadata is what is watched of a CRD, written at the time of its conditions.
func metadata(crd *apiextensionsv1.CustomResourceDefinition) *metav1.PartialObjectMetadata {
	m := CRD()
	m.ObjectMeta = *crd.ObjectMeta.DeepCopy()
	m.ManagedFields = []metav1.ManagedFieldsEntry{{Time: new(metav1.Unix(1, 0))}}
	return m
}

// watcher is a running ForeignKinds of Widgets over informers and an API server that tests move by hand.
type watcher struct {
	*ForeignKinds
	t         *testing.T
	informers *informertest.FakeInformers
	server    client.WithWatch
	reads     atomic.Int32 // of CRDs
	refuses   atomic.Bool  // to read CRDs
	queue     workqueue.TypedRateLimitingInterface[reconcile.Request]
}

var (
	woken   = reconcile.Request{NamespacedName: types.NamespacedName{Name: "woken"}}
	touched = reconcile.Request{NamespacedName: types.NamespacedName{Name: "touched"}}
)

// prepared is a watcher that is about to start.
func prepared(t *testing.T, mapper meta.RESTMapper) *watcher {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := AddCRDs(scheme); err != nil {
		t.Fatal(err)
	}
	watched := runtime.NewScheme() // the fake cache looks kinds up, those of metadata too
	watched.AddKnownTypeWithName(CRD().GroupVersionKind(), CRD())
	w := &watcher{
		t: t, informers: &informertest.FakeInformers{Scheme: watched},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]()),
	}
	w.server = fakes.NewClientBuilder().WithScheme(scheme).Build()
	live := interceptor.NewClient(w.server, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			w.reads.Add(1)
			if w.refuses.Load() {
				return apierrors.NewInternalError(errors.New("etcd is away"))
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	t.Cleanup(w.queue.ShutDown)
	w.ForeignKinds = &ForeignKinds{
		CRDs: w.informers, Live: live, Cache: w.informers, Mapper: mapper,
		Kinds: []ForeignKind{{
			GroupVersionKind: widgetGVK,
			Handler:          handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{touched} }),
		}},
		Wake: func(context.Context) []reconcile.Request { return []reconcile.Request{woken} },
	}
	if got := w.State(widgetGVK); got != KindMissing {
		t.Errorf("before the start the state is %d", got)
	}
	// The informers are made first: the fake cache is no friend of goroutines.
	for _, o := range []client.Object{CRD(), Empty(widgetGVK)} {
		if _, err := w.informers.GetInformer(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Start(t.Context(), w.queue); err != nil {
		t.Fatal(err)
	}
	if err := w.crds.WaitForSync(t.Context()); err != nil { // its handler is there
		t.Fatal(err)
	}
	w.crds = synced{}
	return w
}

func watch(t *testing.T, mapper meta.RESTMapper, installed ...*apiextensionsv1.CustomResourceDefinition) *watcher {
	t.Helper()
	w := prepared(t, mapper)
	for _, crd := range installed {
		w.add(crd)
	}
	if err := w.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// synced stands for a source that has been waited for already.
type synced struct{}

func (synced) Start(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	return errors.New("it is started")
}
func (synced) WaitForSync(context.Context) error { return nil }

// informer is that of CRDs.
func (w *watcher) informer() *controllertest.FakeInformer {
	w.t.Helper()
	informer, err := w.informers.FakeInformerFor(w.t.Context(), CRD())
	if err != nil {
		w.t.Fatal(err)
	}
	return informer
}

// writes writes a CRD.
func (w *watcher) writes(write error) {
	w.t.Helper()
	if write != nil {
		w.t.Fatal(write)
	}
}

func (w *watcher) add(crd *apiextensionsv1.CustomResourceDefinition) {
	w.t.Helper()
	w.writes(w.server.Create(w.t.Context(), crd.DeepCopy()))
	w.informer().Add(metadata(crd))
}

func (w *watcher) remove(crd *apiextensionsv1.CustomResourceDefinition) {
	w.t.Helper()
	w.writes(w.server.Delete(w.t.Context(), crd.DeepCopy()))
	w.informer().Delete(metadata(crd))
}

func (w *watcher) update(crd *apiextensionsv1.CustomResourceDefinition) {
	w.t.Helper()
	crd = crd.DeepCopy()
	current := &apiextensionsv1.CustomResourceDefinition{}
	w.writes(w.server.Get(w.t.Context(), client.ObjectKeyFromObject(crd), current))
	crd.ResourceVersion = current.ResourceVersion
	status := crd.Status
	w.writes(w.server.Update(w.t.Context(), crd))
	crd.Status = status
	w.writes(w.server.Status().Update(w.t.Context(), crd))
	w.informer().Update(metadata(crd), metadata(crd))
}

// becomes waits for a state and for the request that goes with a change of it.
func (w *watcher) becomes(state KindState, queued ...reconcile.Request) {
	w.t.Helper()
	err := wait.PollUntilContextTimeout(w.t.Context(), time.Millisecond, 5*time.Second, true, func(context.Context) (bool, error) {
		return w.State(widgetGVK) == state && w.queue.Len() >= len(queued), nil
	})
	if err != nil {
		w.t.Fatalf("the state is %d with %d requests, want %d with %v", w.State(widgetGVK), w.queue.Len(), state, queued)
	}
	var got []reconcile.Request
	for w.queue.Len() > 0 {
		request, _ := w.queue.Get()
		w.queue.Done(request)
		got = append(got, request)
	}
	if diff := cmp.Diff(queued, got); diff != "" {
		w.t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func widgetMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(widgetGVK, meta.RESTScopeNamespace)
	return mapper
}

func TestForeignKindInstalledBefore(t *testing.T) {
	w := watch(t, widgetMapper(), widgetCRD(t))
	w.becomes(KindServed) // and nobody is woken: no worker has looked yet
	informer, err := w.informers.FakeInformerFor(t.Context(), Empty(widgetGVK))
	if err != nil {
		t.Fatal(err)
	}
	informer.Add(widget())
	w.becomes(KindServed, touched)
}

func TestForeignKindInstalledLater(t *testing.T) {
	w := watch(t, widgetMapper())
	w.becomes(KindMissing)
	w.add(widgetCRD(t, notEstablished))
	w.becomes(KindUnserved, woken)
	w.update(widgetCRD(t, notEstablished))
	w.becomes(KindUnserved)
	w.update(widgetCRD(t))
	w.becomes(KindServed, woken)
	w.update(widgetCRD(t))
	w.becomes(KindServed)
	w.update(widgetCRD(t, func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Versions[0].Served = false }))
	w.becomes(KindUnserved, woken)
	w.update(widgetCRD(t))
	w.becomes(KindServed, woken)
	w.remove(widgetCRD(t))
	w.becomes(KindMissing, woken)
	w.add(widgetCRD(t))
	w.becomes(KindServed, woken)
}

func TestForeignKindThatDiscoveryDoesNotKnowYet(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper(nil)
	w := watch(t, mapper)
	w.add(widgetCRD(t))
	w.becomes(KindSyncing, woken)
}

func TestForeignKindsOfOtherCRDs(t *testing.T) {
	w := watch(t, widgetMapper(), widgetCRD(t))
	w.becomes(KindServed)
	for name, change := range map[string]func(*apiextensionsv1.CustomResourceDefinition){
		"another kind": func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Names.Kind, crd.Status.AcceptedNames.Kind = "Gadget", "Gadget"
		},
		// The API server does not let a second CRD have the names of the first.
		"refused names": refused,
	} {
		t.Run(name, func(t *testing.T) {
			other := widgetCRD(t, func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Name = "others.example.com" }, change)
			w.add(other)
			w.becomes(KindServed)
			w.remove(other)
			w.becomes(KindServed)
		})
	}
	w.settle()
	if got := w.State(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"}); got != KindMissing {
		t.Errorf("a kind that nobody asked for is %d", got)
	}
}

// settle waits until each CRD has been read that has changed.
func (w *watcher) settle() {
	w.t.Helper()
	err := wait.PollUntilContextTimeout(w.t.Context(), time.Millisecond, 5*time.Second, true, func(context.Context) (bool, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.unread) == 0, nil
	})
	if err != nil {
		w.t.Fatal("a CRD is not read")
	}
}

// initially hears of a CRD by the list that a watch begins with.
func (w *watcher) initially(crd *apiextensionsv1.CustomResourceDefinition, change ...func(*metav1.PartialObjectMetadata)) {
	w.t.Helper()
	w.writes(w.server.Create(w.t.Context(), crd.DeepCopy()))
	m := metadata(crd)
	for _, c := range change {
		c(m)
	}
	w.handler(w.t.Context()).Create(w.t.Context(), event.CreateEvent{Object: m, IsInInitialList: true}, w.queue)
}

// What discovery says at the start is enough: a start in a cluster of hundreds of CRDs reads none of them.
func TestForeignKindsAreDiscovered(t *testing.T) {
	since := func(d time.Duration) []func(*metav1.PartialObjectMetadata) {
		return []func(*metav1.PartialObjectMetadata){func(m *metav1.PartialObjectMetadata) { m.ManagedFields[0].Time = new(metav1.NewTime(began.Add(d))) }}
	}
	beta := widgetGVK
	beta.Version = "v1beta1"
	mapper := func(gvks ...schema.GroupVersionKind) meta.RESTMapper {
		m := meta.NewDefaultRESTMapper(nil)
		for _, gvk := range gvks {
			m.Add(gvk, meta.RESTScopeNamespace)
		}
		return m
	}
	tests := map[string]struct {
		mapper meta.RESTMapper
		change []func(*metav1.PartialObjectMetadata)
		want   KindState
		reads  int
	}{
		"served":                      {mapper: mapper(beta, widgetGVK), want: KindServed},
		"in another version":          {mapper: mapper(beta), want: KindUnserved},
		"not by what discovery knows": {mapper: mapper(), want: KindSyncing, reads: 1}, // served, and not to be found yet
		"written a moment before":     {mapper: mapper(beta), change: since(-time.Second), want: KindSyncing, reads: 1},
		"written since":               {mapper: mapper(beta), change: since(time.Hour), want: KindSyncing, reads: 1},
		"written well before":         {mapper: mapper(beta), change: since(-time.Minute), want: KindUnserved},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := prepared(t, test.mapper)
			w.initially(widgetCRD(t), test.change...)
			w.initially(widgetCRD(t, func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Name = "widgets.example.org" }))
			w.becomes(test.want)
			w.settle()
			if got := int(w.reads.Load()); got != test.reads {
				t.Errorf("%d CRDs were read, want %d", got, test.reads)
			}
		})
	}
}

// A kind is not missing while its CRD cannot be read: what it has would count as gone.
// What is served is watched before any CRD has been listed, and nothing else is: an informer of a kind that is not there would go
// on asking for it.
func TestForeignKindsAhead(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	informers := &informertest.FakeInformers{Scheme: scheme}
	gadgetGVK := widgetGVK.GroupVersion().WithKind("Gadget")
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(widgetGVK, meta.RESTScopeNamespace)
	kinds := &ForeignKinds{Cache: informers, Mapper: mapper, Kinds: []ForeignKind{{GroupVersionKind: gadgetGVK}, {GroupVersionKind: widgetGVK}}}
	if err := kinds.Ahead(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := slices.Collect(maps.Keys(informers.InformersByGVK))
	if diff := cmp.Diff([]schema.GroupVersionKind{widgetGVK}, got); diff != "" {
		t.Errorf("watched (-want +got):\n%s", diff)
	}
	if got := kinds.State(widgetGVK); got != KindMissing {
		t.Errorf("before its CRD is known the state is %d", got)
	}
}

func TestForeignKindWhoseCRDCannotBeRead(t *testing.T) {
	w := watch(t, widgetMapper())
	w.becomes(KindMissing)
	w.refuses.Store(true)
	w.add(widgetCRD(t))
	w.becomes(KindSyncing)
	w.refuses.Store(false)
	w.becomes(KindServed, woken)

	// So it is with any new CRD of the group, and who has been told so is woken.
	w = watch(t, widgetMapper())
	w.refuses.Store(true)
	w.add(widgetCRD(t, func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Name, crd.Status.AcceptedNames.Kind = "gadgets.example.com", "Gadget"
	}))
	w.becomes(KindSyncing)
	w.refuses.Store(false)
	w.becomes(KindMissing, woken)
}

// A CRD takes the names of another that goes, and is heard of first.
func TestForeignKindThatAnotherCRDDefines(t *testing.T) {
	w := watch(t, widgetMapper(), widgetCRD(t))
	w.becomes(KindServed)
	w.add(widgetCRD(t, func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Name = "things.example.com" }))
	w.settle()
	w.remove(widgetCRD(t))
	w.settle()
	w.becomes(KindServed)
}

// A CRD that defines another kind than before has not the one of before any more.
func TestForeignKindOfACRDThatDefinesAnother(t *testing.T) {
	w := watch(t, widgetMapper(), widgetCRD(t))
	w.becomes(KindServed)
	w.update(widgetCRD(t, func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Status.AcceptedNames.Kind = "Gadget" }))
	w.becomes(KindMissing, woken)
}

func TestForeignMapper(t *testing.T) {
	guessed := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"}
	served := meta.NewDefaultRESTMapper(nil)
	served.Add(widgetGVK, meta.RESTScopeRoot) // not what would be guessed
	root := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "ClusterGadget"}
	mapper := Foreign(served, map[schema.GroupVersionKind]meta.RESTScope{
		widgetGVK: meta.RESTScopeNamespace, guessed: meta.RESTScopeNamespace, root: meta.RESTScopeRoot,
	})
	if m, err := mapper.RESTMapping(widgetGVK.GroupKind(), widgetGVK.Version); err != nil || m.Scope.Name() != meta.RESTScopeNameNamespace {
		t.Errorf("before the cache is made, what is known is %+v: %v", m, err)
	}
	mapper.Configured()
	for gvk, want := range map[schema.GroupVersionKind]meta.RESTScopeName{
		widgetGVK: meta.RESTScopeNameRoot, guessed: meta.RESTScopeNameNamespace, root: meta.RESTScopeNameRoot,
	} {
		if m, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version); err != nil || m.Scope.Name() != want {
			t.Errorf("%s is %+v: %v", gvk.Kind, m, err)
		}
	}
	if m, err := mapper.RESTMapping(schema.GroupKind{Kind: "Other"}, "v1"); err == nil {
		t.Errorf("another kind is %+v", m)
	}
}
