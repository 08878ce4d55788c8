package kube

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"
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

func noConditions(crd *apiextensionsv1.CustomResourceDefinition) { crd.Status.Conditions = nil }

func TestServes(t *testing.T) {
	other := func(group, version, kind string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
	}
	tests := map[string]struct {
		crd  client.Object
		gvk  schema.GroupVersionKind
		want bool
	}{
		"it":                    {widgetCRD(t), widgetGVK, true},
		"a version not served":  {widgetCRD(t), other("example.com", "v1beta1", "Widget"), false},
		"a version not there":   {widgetCRD(t), other("example.com", "v2", "Widget"), false},
		"another group":         {widgetCRD(t), other("example.org", "v1", "Widget"), false},
		"another kind":          {widgetCRD(t), other("example.com", "v1", "WidgetList"), false},
		"not established":       {widgetCRD(t, notEstablished), widgetGVK, false},
		"without conditions":    {widgetCRD(t, noConditions), widgetGVK, false},
		"without anything":      {CRD(), widgetGVK, false},
		"of another type of Go": {&metav1.PartialObjectMetadata{}, widgetGVK, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			served := func(crd client.Object) bool {
				return defines(crd, test.gvk.GroupKind()) && serves(crd, test.gvk.Version)
			}
			if got := served(test.crd); got != test.want {
				t.Errorf("served is %t", got)
			}
			stripped, err := StripCRD(test.crd.DeepCopyObject())
			if err != nil {
				t.Fatal(err)
			}
			if got := served(stripped.(client.Object)); got != test.want {
				t.Errorf("once stripped served is %t", got)
			}
		})
	}
}

func TestStripCRD(t *testing.T) {
	want := widgetCRD(t, func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Annotations, crd.ManagedFields = nil, nil
		crd.Spec.Conversion = nil
		for i := range crd.Spec.Versions {
			crd.Spec.Versions[i].Schema, crd.Spec.Versions[i].AdditionalPrinterColumns = nil, nil
		}
	})
	got, err := StripCRD(widgetCRD(t))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stripped (-want +got):\n%s", diff)
	}
	if other, err := StripCRD("tombstone"); err != nil || other != "tombstone" {
		t.Errorf("another thing comes back as %v, %v", other, err)
	}
	scheme := runtime.NewScheme()
	if err := AddCRDs(scheme); err != nil || len(scheme.KnownTypes(apiextensionsv1.SchemeGroupVersion)) == 0 {
		t.Errorf("the scheme does not know them: %v", err)
	}
}

func TestForeignKindObject(t *testing.T) {
	for _, metadataOnly := range []bool{false, true} {
		o := ForeignKind{GroupVersionKind: widgetGVK, MetadataOnly: metadataOnly}.Object()
		if _, is := o.(*metav1.PartialObjectMetadata); is != metadataOnly || o.GetObjectKind().GroupVersionKind() != widgetGVK {
			t.Errorf("MetadataOnly %t is a %T of %s", metadataOnly, o, o.GetObjectKind().GroupVersionKind())
		}
	}
}

// watcher is a running ForeignKinds of Widgets over informers that tests move by hand.
type watcher struct {
	*ForeignKinds
	t         *testing.T
	informers *informertest.FakeInformers
	queue     workqueue.TypedRateLimitingInterface[reconcile.Request]
}

var (
	woken   = reconcile.Request{NamespacedName: types.NamespacedName{Name: "woken"}}
	touched = reconcile.Request{NamespacedName: types.NamespacedName{Name: "touched"}}
)

func watch(t *testing.T, mapper meta.RESTMapper, installed ...*apiextensionsv1.CustomResourceDefinition) *watcher {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := AddCRDs(scheme); err != nil {
		t.Fatal(err)
	}
	w := &watcher{
		t: t, informers: &informertest.FakeInformers{Scheme: scheme},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]()),
	}
	t.Cleanup(w.queue.ShutDown)
	w.ForeignKinds = &ForeignKinds{
		CRDs: w.informers, Cache: w.informers, Mapper: mapper,
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

func (w *watcher) add(crd *apiextensionsv1.CustomResourceDefinition) {
	w.t.Helper()
	informer, err := w.informers.FakeInformerFor(w.t.Context(), CRD())
	if err != nil {
		w.t.Fatal(err)
	}
	informer.Add(crd)
}

func (w *watcher) remove(crd *apiextensionsv1.CustomResourceDefinition) {
	w.t.Helper()
	informer, err := w.informers.FakeInformerFor(w.t.Context(), CRD())
	if err != nil {
		w.t.Fatal(err)
	}
	informer.Delete(crd)
}

func (w *watcher) update(crd *apiextensionsv1.CustomResourceDefinition) {
	w.t.Helper()
	informer, err := w.informers.FakeInformerFor(w.t.Context(), CRD())
	if err != nil {
		w.t.Fatal(err)
	}
	informer.Update(crd, crd)
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
		"refused names": func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			other := widgetCRD(t, func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Name = "others.example.com" }, change)
			w.add(other)
			w.becomes(KindServed)
			w.remove(other)
			w.becomes(KindServed)
		})
	}
	if got := w.State(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"}); got != KindMissing {
		t.Errorf("a kind that nobody asked for is %d", got)
	}
}

func TestForeignMapper(t *testing.T) {
	guessed := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"}
	served := meta.NewDefaultRESTMapper(nil)
	served.Add(widgetGVK, meta.RESTScopeRoot) // not what would be guessed
	root := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "ClusterGadget"}
	mapper := Foreign(served, map[schema.GroupVersionKind]meta.RESTScope{
		widgetGVK: meta.RESTScopeNamespace, guessed: meta.RESTScopeNamespace, root: meta.RESTScopeRoot,
	})
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
