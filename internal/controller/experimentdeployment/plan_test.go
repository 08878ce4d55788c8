package experimentdeployment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/labkeeper/labkeeper/api/experimentcontroller/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/conditions"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/internal/merge"
	"github.com/labkeeper/labkeeper/internal/twin"
	"github.com/labkeeper/labkeeper/test/fakes"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const web = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, generation: 7}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "web:1"}]}
`

const db = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web, namespace: shop, generation: 1}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: "db:1"}]}
`

func object(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	o, err := merge.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: o}
}

// newFacts are of an ExperimentDeployment that was just created, beside its source.
func newFacts(t testing.TB, override string) facts {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(override))
	if err != nil {
		t.Fatal(err)
	}
	return facts{
		owner: &v1alpha1.ExperimentDeployment{
			ObjectMeta: metav1.ObjectMeta{Name: "faster", Namespace: "shop", UID: "1-2-3", Generation: 1, CreationTimestamp: metav1.NewTime(epoch)},
			Spec: v1alpha1.ExperimentDeploymentSpec{
				SourceRef: v1alpha1.SourceRef{Kind: "Deployment", Name: "web"}, OverrideSpec: apiextensionsv1.JSON{Raw: raw},
			},
		},
		seen: Observed{Served: true, Source: object(t, web), Services: []twin.Service{{Name: "web", Selector: map[string]string{"app": "web"}}}},
		now:  epoch,
	}
}

// written is what there is after a plan was carried out, as the API server and a report would leave it.
func (f facts) written(t testing.TB, p Plan) facts {
	t.Helper()
	owner := f.owner.DeepCopy()
	switch p.Action {
	case Create, Update:
		after := p.Twin.DeepCopy()
		after.SetGeneration(1)
		if p.Action == Update {
			after.SetGeneration(f.seen.Twin.GetGeneration() + 1)
		}
		f.seen.Twin, owner.Status.TwinGeneration = after, after.GetGeneration()
	case Delete:
		f.seen.Twin = nil
	}
	if p.Pin != nil {
		f.seen.Pin = p.Pin
	}
	if p.Built {
		owner.Status.TemplateHash, owner.Status.PinnedHash, owner.Status.UnreadySince = p.TemplateHash, p.PinnedHash, nil
		if !p.UnreadySince.IsZero() {
			owner.Status.UnreadySince = ptr.To(metav1.NewTime(p.UnreadySince))
		}
	}
	if p.Record {
		owner.Status.ScaledToZero = &v1alpha1.ScaledToZero{WantedHash: p.WantedHash, At: metav1.NewTime(f.now)}
	}
	f.owner = owner
	return f
}

// settled are facts of a twin that is there, ready.
func settled(t testing.TB, f facts) facts {
	t.Helper()
	p := f.plan()
	if p.Action != Create {
		t.Fatalf("it is not created: %+v", p)
	}
	f = f.written(t, p)
	f.ready(1)
	return f
}

// ready makes so many pods of the twin ready, of as many as it is to have.
func (f facts) ready(n int64) {
	all, _, _ := unstructured.NestedInt64(f.seen.Twin.Object, "spec", "replicas")
	f.seen.Twin.Object["status"] = map[string]any{
		"observedGeneration": f.seen.Twin.GetGeneration(), "replicas": all, "updatedReplicas": all, "readyReplicas": n, "availableReplicas": n,
	}
}

func expect(t *testing.T, p Plan, conditionType string, status metav1.ConditionStatus, reason string) {
	t.Helper()
	all := append(slices.Clone(p.Steps), p.Others...)
	i := slices.IndexFunc(all, func(s conditions.Step) bool { return s.Type == conditionType })
	if i < 0 || all[i].Status != status || all[i].Reason != reason || all[i].Message == "" {
		t.Errorf("%s is not %s %s: %+v", conditionType, status, reason, all)
	}
}

// A source that sleeps is no failure, and is told of; not where a Rollout runs its template instead.
func TestSourceSleeps(t *testing.T) {
	for name, test := range map[string]struct {
		replicas int64
		referrer string
		says     string
	}{
		"awake":                {3, "", "Deployment shop/web is there"},
		"asleep":               {0, "", "Deployment shop/web is there, and has no replicas, as one that sleeps"},
		"a Rollout's template": {0, "front", "Deployment shop/web is there"},
	} {
		t.Run(name, func(t *testing.T) {
			f := settled(t, newFacts(t, `{}`))
			if err := unstructured.SetNestedField(f.seen.Source.Object, test.replicas, "spec", "replicas"); err != nil {
				t.Fatal(err)
			}
			f.seen.Referrer = test.referrer
			p := f.plan()
			if p.Action != Nothing {
				t.Errorf("it is %+v", p)
			}
			expect(t, p, v1alpha1.ConditionTwinReady, "True", twin.ReasonReady)
			i := slices.IndexFunc(p.Steps, func(s conditions.Step) bool { return s.Type == v1alpha1.ConditionSourceFound })
			if found := p.Steps[i]; found.Status != metav1.ConditionTrue || found.Message != test.says {
				t.Errorf("it says %s: %s", found.Status, found.Message)
			}
		})
	}
}

func TestCreated(t *testing.T) {
	f := newFacts(t, `{replicas: 2}`)
	p := f.plan()
	if p.Action != Create || p.Twin.GetNamespace() != "shop" || p.Twin.GetName() != key(f.owner).Name || !strings.HasPrefix(p.Twin.GetName(), "web-exp-") {
		t.Fatalf("it is %+v", p)
	}
	if owners := p.Twin.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != f.owner.UID || !marks.Owns(f.owner, p.Twin) {
		t.Errorf("its owners are %v, its labels %v", owners, p.Twin.GetLabels())
	}
	expect(t, p, v1alpha1.ConditionAccepted, "True", v1alpha1.ReasonAccepted)
	expect(t, p, v1alpha1.ConditionSourceFound, "True", v1alpha1.ReasonSourceFound)
	expect(t, p, v1alpha1.ConditionTwinReady, "False", v1alpha1.ReasonCreated)
	expect(t, p, v1alpha1.ConditionServiceShared, "True", v1alpha1.ReasonShared)
	if p.SourceGeneration != 7 || p.TemplateHash == "" {
		t.Errorf("it is of %d, %s", p.SourceGeneration, p.TemplateHash)
	}
	if p.Wait != defaultUnready {
		t.Errorf("that it has no pods in time is looked at in %s", p.Wait)
	}
}

// That a new twin has no pods yet is nothing to tell of beside that it was created; all else is.
func TestCreatedWithoutPods(t *testing.T) {
	for name, test := range map[string]struct{ was, status, reason string }{
		"not seen":                 {v1alpha1.ReasonCreated, `{}`, v1alpha1.ReasonCreated},
		"none yet":                 {v1alpha1.ReasonCreated, `{observedGeneration: 1, unavailableReplicas: 2}`, v1alpha1.ReasonCreated},
		"none any more":            {twin.ReasonProgressing, `{observedGeneration: 1}`, twin.ReasonProgressing},
		"when nothing is told yet": {"", `{observedGeneration: 1}`, twin.ReasonProgressing},
		"one":                      {v1alpha1.ReasonCreated, `{observedGeneration: 1, replicas: 1, updatedReplicas: 1}`, twin.ReasonProgressing},
		"refused":                  {v1alpha1.ReasonCreated, `{observedGeneration: 1, conditions: [{type: ReplicaFailure, status: "True"}]}`, twin.ReasonPodsRefused},
		"stuck":                    {v1alpha1.ReasonCreated, `{observedGeneration: 1, conditions: [{type: Progressing, status: "False"}]}`, twin.ReasonStuck},
	} {
		t.Run(name, func(t *testing.T) {
			f := settled(t, newFacts(t, `{replicas: 2}`))
			f.seen.Twin.Object["status"] = object(t, test.status).Object
			if test.was != "" {
				conditions.Set(&f.owner.Status.Conditions, conditions.False(v1alpha1.ConditionTwinReady, test.was, "as it was"), 1, epoch)
			}
			p := f.plan()
			expect(t, p, v1alpha1.ConditionTwinReady, "False", test.reason)
			if same := p.Steps[len(p.Steps)-1].Message == "as it was"; same != (test.reason == v1alpha1.ReasonCreated) {
				t.Errorf("it says %q", p.Steps[len(p.Steps)-1].Message)
			}
		})
	}
}

// A pass that finds nothing to do does nothing, whatever of the source changes that is no part of the twin.
func TestSettled(t *testing.T) {
	f := settled(t, newFacts(t, `{}`))
	for name, change := range map[string]func(){
		"nothing":              func() {},
		"status of the source": func() { f.seen.Source.Object["status"] = map[string]any{"replicas": int64(3)} },
		"its replicas":         func() { _ = unstructured.SetNestedField(f.seen.Source.Object, int64(9), "spec", "replicas") },
		"its annotations":      func() { f.seen.Source.SetAnnotations(map[string]string{"deployment.kubernetes.io/revision": "9"}) },
	} {
		change()
		p := f.plan()
		if p.Action != Nothing || p.Wait != 0 || p.Record || p.Pin != nil || !p.UnreadySince.Equal(epoch) {
			t.Errorf("%s: %+v", name, p)
		}
		expect(t, p, v1alpha1.ConditionTwinReady, "True", twin.ReasonReady)
	}
}

func TestBroughtBack(t *testing.T) {
	for name, change := range map[string]func(f *facts){
		"another override": func(f *facts) { f.owner.Spec.OverrideSpec.Raw = []byte(`{"minReadySeconds": 5}`) },
		"more replicas":    func(f *facts) { f.owner.Spec.Replicas = ptr.To[int32](2) },
		"another template": func(f *facts) {
			_ = unstructured.SetNestedField(f.seen.Source.Object, "x", "spec", "template", "metadata", "labels", "new")
		},
		"somebody scales it":  func(f *facts) { f.seen.Twin.SetGeneration(9) },
		"a label is taken":    func(f *facts) { f.seen.Twin.SetLabels(map[string]string{v1alpha1.LabelUID: "1-2-3"}) },
		"its owner is taken":  func(f *facts) { f.seen.Twin.SetOwnerReferences(nil) },
		"a lost record":       func(f *facts) { f.owner.Status.TwinGeneration = 0 },
		"an annotation taken": func(f *facts) { f.seen.Twin.SetAnnotations(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			f := settled(t, newFacts(t, `{}`))
			change(&f)
			p := f.plan()
			if p.Action != Update {
				t.Fatalf("it is %+v", p)
			}
			if i := slices.IndexFunc(p.Steps, func(s conditions.Step) bool { return s.Type == v1alpha1.ConditionTwinReady }); p.Steps[i].Status != "False" {
				t.Errorf("it is said to be ready: %+v", p.Steps[i])
			}
			f = f.written(t, p)
			f.ready(int64(ptr.Deref(f.owner.Spec.Replicas, 1)))
			if p := f.plan(); p.Action != Nothing {
				t.Errorf("and again: %+v", p)
			}
		})
	}
}

// s1: deleted, waited for, and created again.
func TestRecreated(t *testing.T) {
	f := newFacts(t, `{}`)
	f.owner.Spec.SourceRef.Kind, f.seen.Source = "StatefulSet", object(t, db)
	f = settled(t, f)
	f.owner.Spec.OverrideSpec.Raw = []byte(`{"serviceName": "other"}`)
	p := f.plan()
	if p.Action != Delete || p.Twin != f.seen.Twin {
		t.Fatalf("it is %+v", p)
	}
	expect(t, p, v1alpha1.ConditionTwinReady, "False", v1alpha1.ReasonRecreating)
	f.seen.Twin.SetDeletionTimestamp(&metav1.Time{Time: epoch})
	p = f.plan()
	if p.Action != Nothing {
		t.Errorf("while it goes: %+v", p)
	}
	expect(t, p, v1alpha1.ConditionTwinReady, "False", v1alpha1.ReasonRecreating)
	f.seen.Twin = nil
	if p := f.plan(); p.Action != Create {
		t.Errorf("when it is gone: %+v", p)
	}
}

// Whatever becomes of the source, its twin stays.
func TestWithoutSource(t *testing.T) {
	for name, test := range map[string]struct {
		change func(f *facts)
		reason string
	}{
		"o8 gone":           {func(f *facts) { f.seen.Source = nil }, v1alpha1.ReasonSourceNotFound},
		"o8 going":          {func(f *facts) { f.seen.Source.SetDeletionTimestamp(&metav1.Time{Time: epoch}) }, v1alpha1.ReasonSourceGoing},
		"r12 not served":    {func(f *facts) { f.seen.Served, f.seen.Source = false, nil }, v1alpha1.ReasonKindUnavailable},
		"r1 refers nowhere": {func(f *facts) { f.seen.Missing = "Deployment web" }, v1alpha1.ReasonSourceNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFacts(t, `{}`)
			test.change(&f)
			p := f.plan()
			expect(t, p, v1alpha1.ConditionSourceFound, "False", test.reason)
			expect(t, p, v1alpha1.ConditionTwinReady, "False", v1alpha1.ReasonPending)
			if p.Action != Nothing {
				t.Errorf("before there is a twin: %+v", p)
			}
			f = settled(t, newFacts(t, `{}`))
			test.change(&f)
			p = f.plan()
			expect(t, p, v1alpha1.ConditionSourceFound, "False", test.reason)
			expect(t, p, v1alpha1.ConditionTwinReady, "True", twin.ReasonReady)
			if p.Action != Nothing || p.Built {
				t.Errorf("it is %+v", p)
			}
		})
	}
}

// What is refused leaves the last good twin as it is.
func TestRefused(t *testing.T) {
	for override, says := range map[string]string{
		`null`: "spec.overrideSpec: it must be an object", `[]`: "must be an object", `{"selector": {}}`: "spec.overrideSpec.selector",
		`{"replcas": 1}`: "replcas", `{"template": {"spec": {"hostPID": true}}}`: "hostPID",
	} {
		f := settled(t, newFacts(t, `{}`))
		f.owner.Spec.OverrideSpec.Raw = []byte(override)
		p := f.plan()
		expect(t, p, v1alpha1.ConditionAccepted, "False", v1alpha1.ReasonInvalidOverride)
		expect(t, p, v1alpha1.ConditionTwinReady, "True", twin.ReasonReady)
		if p.Action != Nothing || p.Wait != 0 || !strings.Contains(p.Steps[0].Message, says) {
			t.Errorf("%s: %+v", override, p)
		}
	}
	f := newFacts(t, `{template: {spec: {hostPID: true}}}`)
	f.seen.Privileged = true
	if p := f.plan(); p.Action != Create {
		t.Errorf("where that is allowed: %+v", p)
	}
}

// o1, o3: in another namespace only where that grants it, and without an owner reference.
func TestElsewhere(t *testing.T) {
	f := newFacts(t, `{}`)
	f.owner.Namespace, f.owner.Spec.SourceRef.Namespace = "lab", "shop"
	p := f.plan()
	expect(t, p, v1alpha1.ConditionAccepted, "False", v1alpha1.ReasonNotGranted)
	if p.Action != Nothing {
		t.Errorf("it is %+v", p)
	}
	f.seen.Granted = true
	f = settled(t, f)
	if f.seen.Twin.GetNamespace() != "shop" || len(f.seen.Twin.GetOwnerReferences()) > 0 || f.seen.Twin.GetAnnotations()[v1alpha1.AnnotationOwner] != "lab/faster" {
		t.Errorf("it is %v", f.seen.Twin.Object["metadata"])
	}
	if p := f.plan(); p.Action != Nothing {
		t.Errorf("and again: %+v", p)
	}
	f.seen.Granted = false // what is there stays, and nothing of it is changed
	if p := f.plan(); p.Action != Nothing {
		t.Errorf("when the grant is taken back: %+v", p)
	}
}

func TestDryRun(t *testing.T) {
	f := newFacts(t, `{template: {spec: {containers: [{name: web, image: "web:2"}]}}}`)
	f.owner.Spec.DryRun = true
	p := f.plan()
	if p.Action != Nothing || p.Pin != nil || !strings.Contains(p.Diff, `"web:1" -> "web:2"`) {
		t.Errorf("it is %+v", p)
	}
	expect(t, p, v1alpha1.ConditionTwinReady, "False", v1alpha1.ReasonDryRun)
	f.owner.Spec.SourcePolicy = v1alpha1.SourcePinned
	if p := f.plan(); p.Action != Nothing || p.Pin != nil {
		t.Errorf("pinned it is %+v", p)
	}
}

// What there is already stays as it is, too, whatever has become of it.
func TestDryRunBesideATwin(t *testing.T) {
	for name, change := range map[string]func(f *facts){
		"another override":  func(f *facts) { f.owner.Spec.OverrideSpec.Raw = []byte(`{"minReadySeconds": 5}`) },
		"one that is wrong": func(f *facts) { f.owner.Spec.OverrideSpec.Raw = []byte(`{"replcas": 5}`) },
		"no source":         func(f *facts) { f.seen.Source = nil },
		"no source to be with": func(f *facts) {
			f.seen.Source, f.owner.Spec.OnSourceDeleted = nil, v1alpha1.SourceDeletedDelete
		},
		"it is to be pinned": func(f *facts) { f.owner.Spec.SourcePolicy = v1alpha1.SourcePinned },
		"it was pinned":      func(f *facts) { f.seen.Pin = f.pin(f.seen.Source) },
	} {
		f := settled(t, newFacts(t, `{}`))
		f.ready(0)
		f = f.written(t, f.plan())
		f.owner.Spec.DryRun = true
		f.now = epoch.Add(2 * defaultUnready)
		change(&f)
		p := f.plan()
		if p.Action != Nothing || p.ScaleToZero || p.Record || p.Pin != nil || p.Unpin != nil {
			t.Errorf("%s: it is %+v", name, p)
		}
		expect(t, p, v1alpha1.ConditionTwinReady, "False", v1alpha1.ReasonDryRun)
		if said := p.Steps[2].Message; !strings.Contains(said, kube.Describe(f.seen.Twin)+" stays as it is, and keeps the pods") || !strings.HasSuffix(said, "and 0 are available") {
			t.Errorf("%s: it says %q", name, said)
		}
	}
}

// a1, a6: a twin that is not ready for long loses its pods; that is recorded first, and another template is
// tried again.
func TestUnready(t *testing.T) {
	f := settled(t, newFacts(t, `{}`))
	f.ready(0)
	p := f.plan()
	if p.Wait != defaultUnready || p.Action != Nothing || !p.UnreadySince.Equal(epoch) {
		t.Fatalf("it is %+v", p)
	}
	f = f.written(t, p)
	f.now = epoch.Add(defaultUnready - time.Second)
	if p := f.plan(); p.Wait != time.Second || p.ScaleToZero {
		t.Errorf("a second before: %+v", p)
	}
	f.now = epoch.Add(defaultUnready)
	p = f.plan()
	if !p.Record || p.Action != Nothing {
		t.Fatalf("it is not recorded first: %+v", p)
	}
	expect(t, p, v1alpha1.ConditionTwinReady, "False", v1alpha1.ReasonUnready)
	f = f.written(t, p)
	p = f.plan()
	if n, _, _ := unstructured.NestedInt64(p.Twin.Object, "spec", "replicas"); p.Action != Update || n != 0 {
		t.Fatalf("its pods stay: %+v", p)
	}
	f = f.written(t, p)
	f.ready(0)
	if p := f.plan(); p.Action != Nothing || p.Wait != 0 {
		t.Errorf("and then: %+v", p)
	}
	expect(t, f.plan(), v1alpha1.ConditionTwinReady, "False", v1alpha1.ReasonUnready)
	_ = unstructured.SetNestedField(f.seen.Source.Object, "x", "spec", "template", "metadata", "labels", "new")
	p = f.plan()
	if n, _, _ := unstructured.NestedInt64(p.Twin.Object, "spec", "replicas"); p.Action != Update || n != 1 || p.ScaleToZero {
		t.Errorf("with another template: %+v", p)
	}
}

// a1, a6: so it is with a twin of every kind, as its controller tells of it: recorded, scaled to zero in one update that leaves all else as it
// was, and no more than that.
func TestUnreadyOfEveryKind(t *testing.T) {
	for kind, text := range map[string]string{"Deployment": web, "StatefulSet": db, "Rollout": strings.Replace(web, "apps/v1\nkind: Deployment", "argoproj.io/v1alpha1\nkind: Rollout", 1)} {
		t.Run("a1 "+kind, func(t *testing.T) {
			f := newFacts(t, `{}`)
			f.owner.Spec.SourceRef.Kind, f.seen.Source = kind, object(t, text)
			tells := func(ready int64) {
				f.ready(ready)
				if status := f.seen.Twin.Object["status"].(map[string]any); kind == "Rollout" {
					status["observedGeneration"], status["phase"] = fmt.Sprint(f.seen.Twin.GetGeneration()), "Progressing"
					if replicas, _ := status["replicas"].(int64); replicas == ready {
						status["phase"] = "Healthy"
					}
				}
			}
			f = f.written(t, f.plan())
			had := f.seen.Twin
			tells(0)
			f = f.written(t, f.plan())
			f.now = epoch.Add(defaultUnready)
			for _, want := range []struct {
				action Action
				record bool
			}{{Nothing, true}, {Update, false}, {Nothing, false}} {
				p := f.plan()
				if !p.ScaleToZero || p.Action != want.action || p.Record != want.record {
					t.Fatalf("it is %+v, not %+v", p, want)
				}
				expect(t, p, v1alpha1.ConditionTwinReady, "False", v1alpha1.ReasonUnready)
				if f = f.written(t, p); p.Action == Update {
					tells(0)
				}
			}
			all, _ := f.seen.Twin.DeepCopy().Object["spec"].(map[string]any)
			if all["replicas"] != int64(0) {
				t.Fatalf("it has %v pods", all["replicas"])
			}
			all["replicas"] = int64(1)
			if diff := cmp.Diff(had.Object["spec"], any(all)); diff != "" {
				t.Errorf("beside its pods (-before +after):\n%s", diff)
			}
		})
	}
}

// p12: a twin that has no pods, because there is no room for them or nobody who makes them, has none to lose; those that come have their time.
func TestWithoutPodsIsNotUnready(t *testing.T) {
	for reason, status := range map[string]map[string]any{
		twin.ReasonPodsRefused: {"observedGeneration": int64(1), "conditions": []any{map[string]any{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}}},
		twin.ReasonNotObserved: {},
		twin.ReasonProgressing: {"observedGeneration": int64(1)},
	} {
		t.Run("p12 "+reason, func(t *testing.T) {
			f := newFacts(t, `{}`)
			f = f.written(t, f.plan())
			f.says("False", epoch)
			f.seen.Twin.Object["status"] = status
			if p := f.plan(); p.Wait != defaultUnready || !p.UnreadySince.Equal(epoch) {
				t.Fatalf("nobody looks again: %+v", p)
			}
			for range 2 {
				f.now = f.now.Add(defaultUnready)
				p := f.plan()
				if p.ScaleToZero || p.Action != Nothing || p.Wait != 0 || !p.UnreadySince.IsZero() {
					t.Fatalf("after its time: %+v", p)
				}
				expect(t, p, v1alpha1.ConditionTwinReady, "False", reason)
				f = f.written(t, p)
			}
			f.ready(0)
			f.hasItsTime(t)
		})
	}
}

// hasItsTime expects that pods which are not ready have all of their time from now on, and go then.
func (f facts) hasItsTime(t *testing.T) {
	t.Helper()
	p := f.plan()
	if p.ScaleToZero || p.Wait != defaultUnready || !p.UnreadySince.Equal(f.now) {
		t.Fatalf("when there is one that is not ready: %+v", p)
	}
	f = f.written(t, p)
	f.now = f.now.Add(defaultUnready)
	if p := f.plan(); !p.ScaleToZero {
		t.Errorf("after the time of that: %+v", p)
	}
}

// a1: a twin that has fewer pods than it wants, all of which are ready, because there is no room for more, has none to lose; one that comes has
// its time.
func TestFewerPodsAreNotUnready(t *testing.T) {
	for kind, text := range map[string]string{"Deployment": web, "StatefulSet": db} {
		t.Run("a1 "+kind, func(t *testing.T) {
			f := newFacts(t, `{replicas: 2}`)
			f.owner.Spec.SourceRef.Kind, f.seen.Source = kind, object(t, text)
			f = f.written(t, f.plan())
			f.says("False", epoch)
			tells := func(replicas, ready int64) {
				f.seen.Twin.Object["status"] = map[string]any{
					"observedGeneration": int64(1), "replicas": replicas, "updatedReplicas": replicas, "readyReplicas": ready, "availableReplicas": ready,
					"conditions": []any{map[string]any{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}},
				}
			}
			tells(1, 1)
			f = f.written(t, f.plan())
			for range 2 {
				f.now = f.now.Add(defaultUnready)
				p := f.plan()
				if p.ScaleToZero || p.Action != Nothing || p.Wait != 0 {
					t.Fatalf("after its time: %+v", p)
				}
				expect(t, p, v1alpha1.ConditionTwinReady, "False", twin.ReasonPodsRefused)
				f = f.written(t, p)
			}
			tells(2, 1)
			f.hasItsTime(t)
		})
	}
}

// a1: of a twin that was changed while its controller is not there nobody tells whether its pods are ready: they stay, and have their time
// when somebody does.
func TestUnseenIsNotUnready(t *testing.T) {
	for name, ready := range map[string]int64{"a1 that was ready": 1, "a1 that was not": 0} {
		t.Run(name, func(t *testing.T) {
			f := settled(t, newFacts(t, `{}`))
			f.ready(ready)
			f.owner.Spec.OverrideSpec.Raw = []byte(`{"minReadySeconds": 5}`)
			p := f.plan()
			status := f.seen.Twin.Object["status"]
			f = f.written(t, p)
			f.seen.Twin.Object["status"] = status // of the generation before
			f.says("False", epoch)
			for range 2 {
				f.now = f.now.Add(defaultUnready)
				p := f.plan()
				if p.ScaleToZero || p.Action != Nothing || p.Wait != 0 {
					t.Fatalf("while its controller is not there: %+v", p)
				}
				f = f.written(t, p)
			}
			f.ready(0)
			if p = f.plan(); p.ScaleToZero || p.Wait != defaultUnready || !p.UnreadySince.Equal(f.now) {
				t.Fatalf("when it is back: %+v", p)
			}
			f = f.written(t, p)
			f.now = f.now.Add(defaultUnready)
			if p := f.plan(); !p.ScaleToZero {
				t.Errorf("after the time of that: %+v", p)
			}
		})
	}
}

// a1: pods that are ready, and must be so for longer than onUnready says to be available, weaken nobody; one that is ready no more has its time.
func TestReadyIsNotUnready(t *testing.T) {
	f := settled(t, newFacts(t, `{minReadySeconds: 3600}`))
	f.seen.Twin.Object["status"].(map[string]any)["availableReplicas"] = int64(0)
	f = f.written(t, f.plan())
	f.now = epoch.Add(defaultUnready)
	p := f.plan()
	if p.ScaleToZero {
		t.Errorf("it loses them: %+v", p)
	}
	expect(t, p, v1alpha1.ConditionTwinReady, "False", twin.ReasonProgressing)
	f = f.written(t, p)
	f.now = f.now.Add(time.Minute)
	f.ready(0)
	if p = f.plan(); p.ScaleToZero || p.Wait != defaultUnready || !p.UnreadySince.Equal(f.now) {
		t.Errorf("when one is ready no more: %+v", p)
	}
	f = f.written(t, p)
	f.now = f.now.Add(defaultUnready)
	if p := f.plan(); !p.ScaleToZero {
		t.Errorf("when it has not been for long: %+v", p)
	}
}

// p12: whose pods never come is told where to look, as long as nothing else is told.
func TestCreatedAndNoPodsCome(t *testing.T) {
	for kind, says := range map[string]string{"StatefulSet": "kubectl describe statefulset -n shop ", "Rollout": "whether Argo Rollouts runs"} {
		f := newFacts(t, `{}`)
		f.owner.Spec.SourceRef.Kind, f.owner.Spec.OnUnready = kind, &v1alpha1.OnUnready{Action: v1alpha1.UnreadyKeep}
		f.seen.Source.SetGroupVersionKind(twin.Kinds[kind])
		p := f.plan()
		expect(t, p, v1alpha1.ConditionTwinReady, "False", v1alpha1.ReasonCreated)
		if said := p.Steps[2].Message; !strings.Contains(said, says) {
			t.Errorf("%s: it says %q", kind, said)
		}
	}
}

// p12: that the pods of a StatefulSet have not come in time is told as of a Deployment, which says so itself, whatever is to become of them,
// until more come.
func TestPodsThatNeverCome(t *testing.T) {
	for _, action := range []v1alpha1.UnreadyAction{v1alpha1.UnreadyKeep, v1alpha1.UnreadyScaleToZero} {
		t.Run("p12 "+string(action), func(t *testing.T) {
			f := newFacts(t, `{replicas: 2}`)
			f.owner.Spec.SourceRef.Kind, f.seen.Source = "StatefulSet", object(t, db)
			f.owner.Spec.OnUnready = &v1alpha1.OnUnready{Action: action}
			tells := func(p Plan, reason string) {
				t.Helper()
				expect(t, p, v1alpha1.ConditionTwinReady, "False", reason)
				f = f.written(t, p)
				f.says("False", f.now)
				f.owner.Status.Conditions[0].Reason = reason
			}
			p := f.plan()
			tells(p, v1alpha1.ReasonCreated)
			f.seen.Twin.Object["status"] = map[string]any{"observedGeneration": int64(1)}
			tells(f.plan(), v1alpha1.ReasonCreated)
			f.now = f.now.Add(p.Wait)
			for range 2 {
				p := f.plan()
				if said := p.Steps[2].Message; p.ScaleToZero || p.Wait != 0 || !strings.Contains(said, "kubectl describe statefulset -n shop ") {
					t.Errorf("it says %q: %+v", said, p)
				}
				tells(p, twin.ReasonStuck)
				f.now = f.now.Add(time.Minute)
			}
			f.seen.Twin.Object["status"].(map[string]any)["replicas"] = int64(1)
			if p := f.plan(); p.Wait != defaultUnready {
				t.Errorf("one that comes is looked at in %s", p.Wait)
			}
			tells(f.plan(), twin.ReasonProgressing)
		})
	}
}

// Nothing is told of a time in which a StatefulSet was not looked at.
func TestPodsThatHaveTheirTime(t *testing.T) {
	f := newFacts(t, `{replicas: 2}`)
	f.owner.Spec.SourceRef.Kind, f.seen.Source = "StatefulSet", object(t, db)
	f = f.written(t, f.plan())
	f.seen.Twin.Object["status"] = map[string]any{"observedGeneration": int64(1)}
	f.owner.Status.UnreadySince = nil
	f.now = epoch.Add(time.Hour)
	expect(t, f.plan(), v1alpha1.ConditionTwinReady, "False", twin.ReasonProgressing)
}

func TestUnreadyIsKept(t *testing.T) {
	f := settled(t, newFacts(t, `{}`))
	f.owner.Spec.OnUnready = &v1alpha1.OnUnready{Action: v1alpha1.UnreadyKeep}
	f.ready(0)
	f = f.written(t, f.plan())
	f.now = epoch.Add(time.Hour)
	if p := f.plan(); p.ScaleToZero || p.Wait != 0 {
		t.Errorf("where it is to be kept: %+v", p)
	}
}

// c10: pinned, it stays with what the source had; its override still counts.
func TestPinned(t *testing.T) {
	f := newFacts(t, `{}`)
	f.owner.Spec.SourcePolicy = v1alpha1.SourcePinned
	p := f.plan()
	if p.Pin == nil || p.Action != Create {
		t.Fatalf("it is %+v", p)
	}
	f = settled(t, f)
	_ = unstructured.SetNestedField(f.seen.Source.Object, "x", "spec", "template", "metadata", "labels", "new")
	f.seen.Source.SetGeneration(8)
	if p := f.plan(); p.Action != Nothing || p.Pin != nil || p.SourceGeneration != 7 {
		t.Errorf("it follows: %+v", p)
	}
	lost := f
	lost.seen.Pin = nil
	lost.owner = f.owner.DeepCopy()
	lost.owner.Spec.Replicas = ptr.To[int32](2)
	p = lost.plan()
	if p.Action != Nothing || p.Pin != nil || p.Wait != refusedAgain {
		t.Errorf("when what was kept is gone: %+v", p)
	}
	expect(t, p, v1alpha1.ConditionSourceFound, "False", v1alpha1.ReasonPinLost)
	f.owner.Spec.Replicas = ptr.To[int32](2)
	p = f.plan()
	if _, new, _ := unstructured.NestedString(p.Twin.Object, "spec", "template", "metadata", "labels", "new"); p.Action != Update || new {
		t.Errorf("with another override: %+v", p)
	}
	f.owner.Spec.SourcePolicy = v1alpha1.SourceFollow
	p = f.plan()
	if _, new, _ := unstructured.NestedString(p.Twin.Object, "spec", "template", "metadata", "labels", "new"); p.Action != Update || !new {
		t.Errorf("when it follows again: %+v", p)
	}
}

func TestEnds(t *testing.T) {
	f := settled(t, newFacts(t, `{}`))
	f.owner.Spec.TTL = &metav1.Duration{Duration: time.Hour}
	f.now = epoch.Add(time.Hour - time.Second)
	if p := f.plan(); p.Expire || p.Wait != time.Second {
		t.Errorf("a second before its end: %+v", p)
	}
	f.now = epoch.Add(time.Hour)
	p := f.plan()
	if !p.Expire || p.Action != Nothing {
		t.Errorf("at its end: %+v", p)
	}
	for _, err := range []error{nil, errors.New("a policy denies it")} { // and it is tried again
		told := slices.ContainsFunc(happened(f.owner, f.owner, &scope{plan: p}, err), func(e kube.Event) bool { return e.Reason == v1alpha1.ReasonExpired })
		if told != (err == nil) {
			t.Errorf("error %v, and its end is told: %t", err, told)
		}
	}
	f.owner.DeletionTimestamp = &metav1.Time{Time: epoch}
	f.owner.Spec.OverrideSpec.Raw = []byte(`nonsense`) // which keeps no teardown
	f.seen.Source = nil
	if p = f.plan(); p.Action != Delete || p.Done || p.Expire {
		t.Errorf("deleted: %+v", p)
	}
	f.seen.Twin.SetDeletionTimestamp(&metav1.Time{Time: epoch})
	if p := f.plan(); p.Action != Nothing || p.Done {
		t.Errorf("while it goes: %+v", p)
	}
	f.seen.Twin = nil
	if p := f.plan(); !p.Done {
		t.Errorf("when it is gone: %+v", p)
	}
}

// o7: the name is of the identity alone, whatever the spec says.
func TestName(t *testing.T) {
	f, long := newFacts(t, `{}`), newFacts(t, `{}`)
	long.owner.Spec.SourceRef.Name = strings.Repeat("a-very-long-name.", 14)
	for _, f := range []facts{f, long} {
		if name := key(f.owner).Name; len(name) > twin.MaxName || strings.Contains(name, ".") {
			t.Errorf("it is %s", name)
		}
	}
	again := newFacts(t, `{}`)
	again.owner.UID = "4-5-6"
	if diff := cmp.Diff(key(f.owner), key(again.owner)); diff == "" {
		t.Error("one that is created again has the name of the one before")
	}
}

// says puts a condition of the twin into the status, as of a time.
func (f facts) says(status metav1.ConditionStatus, since time.Time) {
	f.owner.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionTwinReady, Status: status, Reason: "R", Message: "m", LastTransitionTime: metav1.NewTime(since)}}
}

// a1: pods that crash are ready for a moment whenever they start.
func TestUnreadyWhileItCrashes(t *testing.T) {
	f := settled(t, newFacts(t, `{}`))
	f.ready(0)
	f = f.written(t, f.plan())
	f.says("False", epoch)
	f.ready(1)
	f.now = epoch.Add(5 * time.Minute)
	f = f.written(t, f.plan())
	f.says("True", f.now)
	f.ready(0)
	f.now = f.now.Add(steady - time.Second)
	if p := f.plan(); !p.UnreadySince.Equal(epoch) {
		t.Errorf("after a moment it counts from %v", p.UnreadySince)
	}
	f.now = f.now.Add(time.Second)
	if p := f.plan(); !p.UnreadySince.Equal(f.now) {
		t.Errorf("after it was ready for long it counts from %v", p.UnreadySince)
	}
}

// a1: a Rollout does not lose pods that are all ready because its steps tell it to wait.
func TestPausedIsNotUnready(t *testing.T) {
	f := newFacts(t, `{strategy: {canary: {steps: [{setWeight: 50}, {pause: {}}]}}}`)
	f.owner.Spec.SourceRef.Kind = "Rollout"
	f.seen.Source = object(t, strings.Replace(web, "apps/v1\nkind: Deployment", "argoproj.io/v1alpha1\nkind: Rollout", 1))
	f = f.written(t, f.plan())
	passes := func(phase string, available int64) Plan {
		f.seen.Twin.Object["status"] = map[string]any{
			"observedGeneration": "1", "phase": phase, "replicas": int64(1), "readyReplicas": available, "availableReplicas": available,
		}
		p := f.plan()
		f = f.written(t, p)
		f.says("False", epoch)
		return p
	}
	passes("Progressing", 0)
	passes("Paused", 1)
	f.now = epoch.Add(2 * defaultUnready)
	if p := passes("Paused", 1); p.ScaleToZero || p.Wait != 0 {
		t.Errorf("while it waits: %+v", p)
	}
	if p := passes("Progressing", 0); p.ScaleToZero || p.Wait != defaultUnready {
		t.Errorf("when a pod is not ready: %+v", p)
	}
	f.now = f.now.Add(defaultUnready)
	if p := passes("Progressing", 0); !p.ScaleToZero {
		t.Errorf("when it has not been for long: %+v", p)
	}
}

// A twin that is left as it is, because its override is refused or its source gone, counts all the same.
func TestUnreadyWhileItIsKept(t *testing.T) {
	f := settled(t, newFacts(t, `{}`))
	good := f.owner.Spec.OverrideSpec.Raw
	f.ready(0)
	f.owner.Spec.OverrideSpec.Raw = []byte(`{"replcas": 1}`)
	f.now = epoch.Add(defaultUnready)
	p := f.plan()
	if !p.Record || p.Action != Nothing {
		t.Fatalf("it is not recorded first: %+v", p)
	}
	f.owner.Status.ScaledToZero = &v1alpha1.ScaledToZero{WantedHash: p.WantedHash}
	p = f.plan()
	if n, _, _ := unstructured.NestedInt64(p.Twin.Object, "spec", "replicas"); p.Action != Update || n != 0 {
		t.Fatalf("its pods stay: %+v", p)
	}
	expect(t, p, v1alpha1.ConditionTwinReady, "False", v1alpha1.ReasonUnready)
	f = f.written(t, p)
	f.ready(0)
	p = f.plan()
	if p.Action != Nothing || p.Record {
		t.Errorf("and then: %+v", p)
	}
	expect(t, p, v1alpha1.ConditionTwinReady, "False", v1alpha1.ReasonUnready)
	f.owner.Spec.OverrideSpec.Raw = good
	p = f.plan()
	if n, _, _ := unstructured.NestedInt64(p.Twin.Object, "spec", "replicas"); p.Action != Update || n != 1 || p.ScaleToZero {
		t.Errorf("when it is mended: %+v", p)
	}
}

// A twin that goes is not ready, which says nothing of its pods.
func TestGoingIsNotUnready(t *testing.T) {
	f := settled(t, newFacts(t, `{}`))
	f.ready(0)
	f = f.written(t, f.plan())
	f.seen.Twin.SetDeletionTimestamp(&metav1.Time{Time: epoch})
	f.now = epoch.Add(time.Hour)
	if p := f.plan(); p.Record || p.ScaleToZero {
		t.Errorf("it is %+v", p)
	}
}

// Whatever of the override changes is another try, and so is to keep it.
func TestUnreadyIsTriedAgain(t *testing.T) {
	for name, change := range map[string]func(f *facts){
		"replicas": func(f *facts) { f.owner.Spec.Replicas = ptr.To[int32](2) },
		"strategy": func(f *facts) { f.owner.Spec.OverrideSpec.Raw = []byte(`{"minReadySeconds": 5}`) },
		"kept":     func(f *facts) { f.owner.Spec.OnUnready = &v1alpha1.OnUnready{Action: v1alpha1.UnreadyKeep} },
	} {
		f := settled(t, newFacts(t, `{}`))
		f.ready(0)
		f = f.written(t, f.plan())
		f.now = epoch.Add(defaultUnready)
		f = f.written(t, f.plan())
		if p := f.plan(); !p.ScaleToZero {
			t.Fatalf("%s: it is not scaled to zero: %+v", name, p)
		}
		change(&f)
		if p := f.plan(); p.ScaleToZero {
			t.Errorf("%s: its pods stay away: %+v", name, p)
		}
	}
}

// What the cache has is older than what was written: that is not what was asked for.
func TestBehind(t *testing.T) {
	f := settled(t, newFacts(t, `{}`))
	f.owner.Status.ExperimentResourceRef = &v1alpha1.ResourceRef{UID: f.seen.Twin.GetUID()}
	f.owner.Status.TwinGeneration = 2
	p := f.plan()
	if p.Action != Nothing {
		t.Errorf("it is written again: %+v", p)
	}
	expect(t, p, v1alpha1.ConditionTwinReady, "False", twin.ReasonProgressing)
}

// Of a twin that somebody has deleted and created again, as he wants it, the generation says nothing.
func TestDriftOfAnother(t *testing.T) {
	f := settled(t, newFacts(t, `{}`))
	f.seen.Twin.SetUID("1")
	f.owner.Status.ExperimentResourceRef = &v1alpha1.ResourceRef{UID: "1"}
	if p := f.plan(); p.Action != Nothing {
		t.Fatalf("it has changed: %+v", p)
	}
	f.seen.Twin.SetUID("2")
	if p := f.plan(); p.Action != Update || !p.Drifted {
		t.Errorf("it stays as it was created: %+v", p)
	}
}

// An admission may give what is not ours another value, each time.
func TestAdmittedOtherwise(t *testing.T) {
	f := settled(t, newFacts(t, `{}`))
	labels := f.seen.Twin.GetLabels()
	labels["app.kubernetes.io/managed-by"] = "platform"
	f.seen.Twin.SetLabels(labels)
	if p := f.plan(); p.Action != Nothing {
		t.Errorf("it is %+v", p)
	}
}

// Of a source that its namespace grants to nobody here, nothing is told.
func TestWithheld(t *testing.T) {
	f := newFacts(t, `{}`)
	f.owner.Namespace, f.owner.Spec.SourceRef.Namespace = "lab", "shop"
	f.seen.Source = nil
	expect(t, f.plan(), v1alpha1.ConditionSourceFound, "False", v1alpha1.ReasonPending)
}

// r1: the selector of what a Rollout refers to is its own, too.
func TestReferred(t *testing.T) {
	f := newFacts(t, `{}`)
	spec, _ := object(t, web).Object["spec"].(map[string]any)
	f.seen.Workload = spec
	f.seen.Source = object(t, `
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: web, namespace: shop, generation: 7}
spec: {strategy: {canary: {}}, workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
`)
	f.owner.Spec.SourceRef.Kind = "Rollout"
	f.seen.Autoscalers = []*unstructured.Unstructured{object(t, `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop}
spec: {scaleTargetRef: {apiVersion: argoproj.io/v1alpha1, kind: Rollout, name: web}}
`)}
	p := f.plan()
	if _, found := p.Twin.Object["spec"].(map[string]any)["workloadRef"]; p.Action != Create || found {
		t.Errorf("it is %+v", p)
	}
	expect(t, p, v1alpha1.ConditionAutoscalerInterference, "True", v1alpha1.ReasonInterference)
}

// What could not be written, or was there already, is not told of as done.
func TestToldAsItCameOut(t *testing.T) {
	f := settled(t, newFacts(t, `{}`))
	f.owner.Status.TwinGeneration = 9 // a record that was lost, or an annotation of somebody else's
	s := &scope{owner: f.owner, seen: f.seen, now: epoch, plan: f.plan()}
	if s.plan.Action != Update {
		t.Fatalf("it is %+v", s.plan)
	}
	ready := func(s *scope, err error) conditions.Step {
		all := s.told(err)
		return all[slices.IndexFunc(all, func(c conditions.Step) bool { return c.Type == v1alpha1.ConditionTwinReady })]
	}
	if got := ready(s, nil); holds(got) {
		t.Errorf("changed it is %+v", got)
	}
	if got := ready(s, errors.New("refused")); !holds(got) {
		t.Errorf("refused it is %+v", got)
	}
	if s.unchanged = true; !holds(ready(s, nil)) {
		t.Errorf("unchanged it is %+v", ready(s, nil))
	}
	f = newFacts(t, `{}`)
	s = &scope{owner: f.owner, seen: f.seen, now: epoch, plan: f.plan()}
	if got := ready(s, errors.New("refused")); got.Reason != v1alpha1.ReasonPending {
		t.Errorf("never created it is %+v", got)
	}
}

// fought is a twin that somebody has changed before each pass.
type fought struct {
	facts
	*Reconciler
	t *testing.T
	// refused: the server does not let it be changed.
	refused bool
}

func newFought(t *testing.T) *fought {
	f := &fought{facts: settled(t, newFacts(t, `{}`)), t: t}
	f.seen.Twin.SetUID("4-5-6")
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	f.owner.ResourceVersion = "42"
	f.Reconciler = &Reconciler{Live: interceptor.NewClient(fakes.NewClientBuilder().WithScheme(scheme).WithObjects(f.seen.Twin.DeepCopy(), f.owner.DeepCopy()).Build(), interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if f.refused {
				return apierrors.NewForbidden(schema.GroupResource{}, o.GetName(), errors.New("a policy"))
			}
			return c.Update(ctx, o, opts...)
		},
	})}
	return f
}

func (f *fought) pass(now time.Time) *scope {
	f.t.Helper()
	there := kube.Empty(twin.Kinds["Deployment"])
	if err := f.Live.Get(f.t.Context(), client.ObjectKeyFromObject(f.seen.Twin), there); err != nil {
		f.t.Fatal(err)
	}
	there.SetGeneration(f.owner.Status.TwinGeneration + 1)
	_ = unstructured.SetNestedField(there.Object, int64(9), "spec", "revisionHistoryLimit")
	f.seen.Twin, f.now = there, now
	s := &scope{Reconciler: f.Reconciler, owner: f.owner, seen: f.seen, now: now, plan: f.plan()}
	if err := s.apply(f.t.Context()); err != nil && !f.refused {
		f.t.Fatal(err)
	}
	if s.plan.Action != Update || s.contended != (s.written == nil && !f.refused) {
		f.t.Fatalf("contended %v, written %v: %+v", s.contended, s.written, s.plan)
	}
	return s
}

// A manager that has just started may see its owner as it was before it recorded what it has done to the twin.
func TestDriftOfAnOldRecord(t *testing.T) {
	f := newFought(t)
	f.pass(epoch)
	f.owner.ResourceVersion = "41"
	there := f.seen.Twin.DeepCopy()
	there.SetGeneration(f.owner.Status.TwinGeneration + 1)
	f.seen.Twin = there
	s := &scope{Reconciler: f.Reconciler, owner: f.owner, seen: f.seen, now: epoch, plan: f.plan()}
	if err := s.apply(t.Context()); err == nil || !kube.Conflict(err) || s.written != nil {
		t.Errorf("it is written by an old record: %v", err)
	}
}

// A twin that somebody changes again and again is put right at once, then once a minute; what the server refuses is
// nobody's doing.
func TestContended(t *testing.T) {
	f := newFought(t)
	f.refused = true
	for range 2 * kube.ContendAtOnce {
		if f.pass(epoch).contended {
			t.Fatal("what is refused is told of as somebody's doing")
		}
	}
	f.refused = false
	for i := range kube.ContendAtOnce + 1 { // the first is what the others repeat
		if f.pass(epoch).contended {
			t.Fatalf("the %d. time it is not put right", i+1)
		}
	}
	s := f.pass(epoch.Add(time.Second))
	if !s.contended || s.plan.Wait <= 0 || s.plan.Wait > kube.ContendAgain {
		t.Fatalf("it is put right again, or when is not known: %s", s.plan.Wait)
	}
	report(s, nil)
	ready := meta.FindStatusCondition(f.owner.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status != "False" || ready.Reason != v1alpha1.ReasonContended {
		t.Errorf("it says %+v", ready)
	}
	if told := happened(&v1alpha1.ExperimentDeployment{}, f.owner, s, nil); slices.ContainsFunc(told, func(e kube.Event) bool { return e.Reason == v1alpha1.ReasonDrifted }) {
		t.Errorf("it was not put right: %v", told)
	}
	if f.pass(epoch.Add(2 * kube.ContendAgain)).contended {
		t.Error("later it is not put right")
	}
	f.owner.Spec.OverrideSpec.Raw = []byte(`{"minReadySeconds":3}`)
	if f.pass(epoch.Add(2 * kube.ContendAgain)).contended {
		t.Error("something else is not written at once")
	}
}

// Pods that are ready in a fight have been ready.
func TestContendedIsNotUnready(t *testing.T) {
	f := settled(t, newFacts(t, `{}`))
	meta.SetStatusCondition(&f.owner.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionTwinReady, Status: "False", Reason: v1alpha1.ReasonContended, LastTransitionTime: metav1.NewTime(epoch)})
	f.owner.Status.UnreadySince = ptr.To(metav1.NewTime(epoch))
	f.ready(1)
	f.now = epoch.Add(time.Hour)
	if p := f.plan(); p.ScaleToZero || !p.UnreadySince.Equal(f.now) {
		t.Errorf("it is %+v", p)
	}
}

// What was said of a twin goes with it.
func TestNothingToTellOf(t *testing.T) {
	f := settled(t, newFacts(t, `{}`))
	tell := func() {
		s := &scope{Reconciler: &Reconciler{}, owner: f.owner, seen: f.seen, now: epoch, plan: f.plan()}
		report(s, nil)
	}
	tell()
	if len(f.owner.Status.Services) != 1 || meta.FindStatusCondition(f.owner.Status.Conditions, v1alpha1.ConditionServiceShared) == nil {
		t.Fatalf("it says %+v", f.owner.Status)
	}
	f.seen.Source = nil
	if tell(); len(f.owner.Status.Services) != 1 {
		t.Error("the twin that stays is still behind its Service")
	}
	f.seen.Twin, f.seen.Served = nil, false
	if tell(); len(f.owner.Status.Services) != 1 {
		t.Error("there may be a twin that cannot be seen")
	}
	f.seen.Served = true
	if tell(); len(f.owner.Status.Services) != 0 || meta.FindStatusCondition(f.owner.Status.Conditions, v1alpha1.ConditionServiceShared) != nil {
		t.Errorf("without a twin it says %+v", f.owner.Status)
	}
}

// A directive at the root would take away what is set before the merge.
func TestRootDirective(t *testing.T) {
	f := newFacts(t, `{"$patch": replace, template: {spec: {containers: []}}}`)
	f.owner.Spec.MergeStrategy = v1alpha1.MergeStrategic
	expect(t, f.plan(), v1alpha1.ConditionAccepted, "False", v1alpha1.ReasonInvalidOverride)
}

// Labels that Services select are the source's, unless the override may change them; that it does not is said.
func TestLabelsOfServices(t *testing.T) {
	for name, test := range map[string]struct {
		override      string
		allowed       bool
		label, reason string
		status        metav1.ConditionStatus
		warns         string
	}{
		"another":                   {`{app: other}`, false, "web", v1alpha1.ReasonShared, "True", "The override's label app is not set: Service web selects app=web; set allowLabelOverride to have it, or remove it"},
		"none":                      {`{app: null}`, false, "web", v1alpha1.ReasonShared, "True", "The override does not take label app away: Service web selects app=web; set allowLabelOverride to have that, or leave it out"},
		"all":                       {`null`, false, "web", v1alpha1.ReasonShared, "True", "The override does not take label app away: "},
		"as it is":                  {`{app: web}`, false, "web", v1alpha1.ReasonShared, "True", ""},
		"one that nobody selects":   {`{version: "2"}`, false, "web", v1alpha1.ReasonShared, "True", ""},
		"another, which is allowed": {`{app: other}`, true, "other", twin.ReasonRelabelled, "False", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFacts(t, `{template: {metadata: {labels: `+test.override+`}}}`)
			f.owner.Spec.AllowLabelOverride = test.allowed
			p := f.plan()
			expect(t, p, v1alpha1.ConditionServiceShared, test.status, test.reason)
			if label, _, _ := unstructured.NestedString(p.Twin.Object, "spec", "template", "metadata", "labels", "app"); label != test.label {
				t.Errorf("it is %q", label)
			}
			i := slices.IndexFunc(p.Others, func(s conditions.Step) bool { return s.Type == v1alpha1.ConditionWarnings })
			if said := p.Others[i]; test.warns != "" && (said.Reason != twin.WarnLabelKept || !strings.HasPrefix(said.Message, test.warns)) || test.warns == "" && strings.Contains(said.Message, "allowLabelOverride") {
				t.Errorf("it warns: %s: %s", said.Reason, said.Message)
			}
		})
	}
}

// m14: the name of an ExperimentDeployment may be longer than a label.
func TestLabelsOfALongName(t *testing.T) {
	f := newFacts(t, `{}`)
	f.owner.Name = strings.Repeat("a-name-of-quite-some-length.", 9) + "x"
	p := f.plan()
	if len(f.owner.Name) != 253 || p.Action != Create {
		t.Fatalf("of %d: %+v", len(f.owner.Name), p)
	}
	ofPods, _, _ := unstructured.NestedStringMap(p.Twin.Object, "spec", "template", "metadata", "labels")
	for of, labels := range map[string]map[string]string{"the twin": p.Twin.GetLabels(), "its pods": ofPods} {
		if labels[v1alpha1.LabelName] == "" {
			t.Errorf("%s is not labelled by it: %v", of, labels)
		}
		for name, value := range labels {
			if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
				t.Errorf("%s: label %s=%s: %v", of, name, value, problems)
			}
		}
	}
}

// A Service that selects a pinned source as it is now, and not the twin, is told of.
func TestPinnedBesideAnotherService(t *testing.T) {
	f := newFacts(t, `{}`)
	f.owner.Spec.SourcePolicy = v1alpha1.SourcePinned
	f.seen.Services = []twin.Service{{Name: "web", Selector: map[string]string{"app": "web"}}}
	f = settled(t, f)
	_ = unstructured.SetNestedField(f.seen.Source.Object, "new", "spec", "template", "metadata", "labels", "track")
	f.seen.Services = append(f.seen.Services, twin.Service{Name: "new", Selector: map[string]string{"app": "web", "track": "new"}}, twin.Service{Name: "other", Selector: map[string]string{"app": "other"}})
	p := f.plan()
	i := slices.IndexFunc(p.Others, func(s conditions.Step) bool { return s.Type == v1alpha1.ConditionServiceShared })
	if said := p.Others[i]; holds(said) || said.Reason != twin.ReasonSourcePinned || !strings.HasPrefix(said.Message, "Service new: ") || len(p.Services) != 2 || p.Action != Nothing {
		t.Errorf("it does %v, and says %+v of %+v", p.Action, said, p.Services)
	}
}

// a1: what an autoscaler loses by the pods of a pinned source's twin is told by what the source has now.
func TestPinnedBesideAnAutoscaler(t *testing.T) {
	f := newFacts(t, `{}`)
	f.owner.Spec.SourcePolicy = v1alpha1.SourcePinned
	f = settled(t, f)
	_ = unstructured.SetNestedSlice(f.seen.Source.Object, []any{map[string]any{
		"name": "web", "image": "web:1", "resources": map[string]any{"requests": map[string]any{"cpu": "1"}},
	}}, "spec", "template", "spec", "containers")
	f.seen.Autoscalers = []*unstructured.Unstructured{object(t, `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop}
spec: {scaleTargetRef: {kind: Deployment, name: web}, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization}}}]}
`)}
	p := f.plan()
	i := slices.IndexFunc(p.Others, func(s conditions.Step) bool { return s.Type == v1alpha1.ConditionAutoscalerInterference })
	if said := p.Others[i]; !holds(said) || !strings.HasPrefix(said.Message, "HorizontalPodAutoscaler web cannot scale the source by cpu") {
		t.Errorf("it says %+v", said)
	}
}

// Warnings that are too many for a message begin with the worst, and say how many more there are.
func TestWarnedOfMany(t *testing.T) {
	var all []twin.Warning
	for i := range 30 {
		all = append(all, twin.Warning{Reason: twin.WarnSharedVolume, Message: fmt.Sprintf("%02d %s", i, strings.Repeat("x", 97))})
	}
	for n, end := range map[int]string{1: all[0].Message, 5: all[4].Message, 10: "; and 1 more", 30: "; and 21 more"} {
		said := warned(all[:n]).Message
		if !strings.HasPrefix(said, all[0].Message) || !strings.HasSuffix(said, end) || conditions.Line(said) != said {
			t.Errorf("of %d it says %q", n, said)
		}
	}
}

// What is dangerous no more is not told of, also where it was one of those that had no room in the message.
func TestWarnedAnewOfMany(t *testing.T) {
	of := func(n int, more ...twin.Warning) *v1alpha1.ExperimentDeployment {
		all := slices.Clone(more)
		for i := range n {
			all = append(all, twin.Warning{Reason: twin.WarnSharedVolume, Message: fmt.Sprintf("%02d %s", i, strings.Repeat("x", 97))})
		}
		owner := &v1alpha1.ExperimentDeployment{}
		conditions.Set(&owner.Status.Conditions, warned(all), 1, time.Unix(0, 0))
		return owner
	}
	another := twin.Warning{Reason: twin.WarnSharedVolume, Message: "another"}
	for name, test := range map[string]struct {
		before, after *v1alpha1.ExperimentDeployment
		told          bool
	}{
		"one less": {of(30), of(29), false}, "the same": {of(30), of(30), false}, "another": {of(30), of(30, another), true}, "none": {of(1), of(0), false}, "the first": {of(0), of(1), false},
	} {
		if got := warnedAnew(test.before, test.after) != nil; got != test.told {
			t.Errorf("%s: it is told of: %t", name, got)
		}
	}
}
