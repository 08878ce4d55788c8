package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/capi"
	"github.com/labkeeper/labkeeper/internal/external/crossplane"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// forceAway takes the Experiment's finalizer off, and deletes it.
func (l *lab) forceAway() {
	l.t.Helper()
	e := l.get()
	e.Finalizers = nil
	l.update(e)
	if err := l.client.Delete(l.t.Context(), e); err != nil {
		l.t.Fatal(err)
	}
	l.writes = nil
	l.drain()
}

// Of what an Experiment costs that was forced away somebody is told, and of what goes on to be deployed on a cluster that stays.
func TestExperimentThatIsForcedAway(t *testing.T) {
	for name, test := range map[string]struct {
		lab   func(*testing.T) *lab
		kinds []string
	}{
		"gke":         {roads()["gke"].lab, []string{"GKECluster"}},
		"gke and hub": {tutorial, []string{"GKECluster", "Application"}},
		"hub":         {roads()["hub"].lab, []string{"Application"}},
		"existing":    {roads()["existing"].lab, []string{"Application"}},
		"referred":    {roads()["referred"].lab, []string{"Application"}},
		"layers":      {func(t *testing.T) *lab { return layered(t, v1alpha1.ClusterHub) }, []string{"Application", "Application", "Application", "Application"}},
		"vcluster":    {onVCluster, []string{"Cluster", "VCluster"}},
		"talos":       {onTalos, []string{"Cluster", "TalosControlPlane", "TalosConfigTemplate", "MachineDeployment"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := test.lab(t)
			l.settle(l.play)
			uid := string(l.get().UID)
			l.forceAway()
			for range 2 { // starts
				for range 2 {
					if err := l.reconcile(); err != nil {
						t.Fatal(err)
					}
				}
				l.reconciler.forced = lru.New(remembered)
			}
			l.toldOnce(uid, test.kinds)
			if slices.ContainsFunc(l.writes, func(w string) bool { return w != "create ConfigMap" }) {
				t.Errorf("it does more than tell: %v", l.writes)
			}
		})
	}
}

// Nothing is remembered of what was refused to one that is gone.
func TestForcedAwayIsForgotten(t *testing.T) {
	l := onGKE(t)
	l.remove()
	l.forbid("delete", "Workflow")
	l.tick()
	if len(l.reconciler.refusals.known) != 1 {
		t.Fatalf("it remembers %v", l.reconciler.refusals.known)
	}
	e := l.get()
	e.Finalizers = nil
	l.update(e)
	if err := l.reconcile(); err != nil || len(l.reconciler.refusals.known) > 0 {
		t.Errorf("it remembers %v, %v", l.reconciler.refusals.known, err)
	}
}

// toldOnce checks what is told of the clusters of an Experiment.
func (l *lab) toldOnce(uid string, kinds []string) {
	l.t.Helper()
	records := l.list(configMapGVK)
	if len(records) != 1 || records[0].GetNamespace() != "labkeeper-system" || records[0].GetLabels()[v1alpha1.LabelExperimentUID] != uid {
		l.t.Fatalf("it is told in %v", records)
	}
	data := records[0].Object["data"].(map[string]any)
	if data["selector"] != v1alpha1.LabelExperimentUID+"="+uid || data["deadline"] != nil {
		l.t.Errorf("the record says %v", data)
	}
	for _, kind := range kinds {
		if list := data[orphansKey].(string); !strings.Contains(list, "kind: "+kind+"\n") {
			l.t.Errorf("it is not told of the %s:\n%s", kind, list)
		}
	}
	events := l.drain()
	if len(events) != len(kinds) || !strings.Contains(events[0], "Warning "+v1alpha1.ReasonOrphansLeft) || !strings.Contains(events[0], "delete it") {
		l.t.Errorf("the events are %q", events)
	}
}

// Of a kind that can be read later it is told then, in the same place, and of nothing twice.
func TestForcedAwayOfAKindThatComesLate(t *testing.T) {
	l := onVCluster(t)
	l.settle(l.play)
	uid, key := string(l.get().UID), l.experiment
	l.forceAway()
	late := capi.VClusterGVK
	l.kinds[late] = kube.KindSyncing
	if err := l.reconcile(); err != nil {
		t.Fatal(err)
	}
	if list := l.list(configMapGVK)[0].Object["data"].(map[string]any)[orphansKey].(string); strings.Contains(list, "kind: VCluster\n") {
		t.Fatalf("it is told of what cannot be read: %s", list)
	}
	l.kinds[late] = kube.KindServed
	if woken := forsaken(t.Context(), l.client, l.kinds, marks.Owners(nil)); !slices.Contains(woken, reconcile.Request{NamespacedName: key}) {
		t.Errorf("it wakes %v", woken)
	}
	for range 2 {
		if err := l.reconcile(); err != nil {
			t.Fatal(err)
		}
		l.reconciler.forced = lru.New(remembered) // a start
	}
	l.toldOnce(uid, []string{"Cluster", "VCluster"})
	if list := l.list(configMapGVK)[0].Object["data"].(map[string]any)[orphansKey].(string); strings.Count(list, "kind: ") != 2 {
		t.Errorf("it is told twice: %s", list)
	}
}

// What is asked to go, what the server does not have, and what has an Experiment is not forsaken.
func TestClustersThatAreNotForsaken(t *testing.T) {
	for name, prepare := range map[string]func(l *lab){
		"one that goes": func(l *lab) {
			l.forceAway()
			claim := l.list(crossplane.GKEClusterGVK)[0]
			l.deleteObject(&claim)
		},
		"one that has gone, and the cache has": func(l *lab) {
			l.forceAway()
			claim := l.list(crossplane.GKEClusterGVK)[0]
			l.reconciler.Foreign = has{l.client, claim.DeepCopy()}
			l.update(withoutFinalizers(&claim))
			l.deleteObject(&claim)
		},
		"one whose Experiment the cache does not have": func(l *lab) {
			l.reconciler.Client = without{l.client, "Experiment"}
			l.reconciler.Live = l.client
		},
		"a copy that somebody has made, with its labels": func(l *lab) {
			l.forceAway()
			claim := l.list(crossplane.GKEClusterGVK)[0]
			copied := claim.DeepCopy()
			l.update(withoutFinalizers(&claim))
			l.deleteObject(&claim)
			copied.SetName("mine")
			copied.SetResourceVersion("")
			copied.SetUID("mine")
			l.create(copied)
		},
		"an Application that somebody has copied, with its labels": func(l *lab) {
			l.forceAway()
			l.delete(crossplane.GKEClusterGVK)
			app := l.list(argocd.ApplicationGVK)[0]
			app.SetName("mine")
			app.SetResourceVersion("")
			app.SetUID("mine")
			_ = unstructured.SetNestedField(app.Object, argocd.InClusterServer, "spec", "destination", "server")
			l.create(&app)
		},
		"one of a kind that is not watched yet": func(l *lab) {
			l.forceAway()
			l.kinds[crossplane.GKEClusterGVK] = kube.KindSyncing
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := roads()["gke"].lab(t)
			l.settle(l.play)
			prepare(l)
			l.writes = nil
			if err := l.reconcile(); err != nil {
				t.Fatal(err)
			}
			if records := l.list(configMapGVK); len(records)+len(l.writes) > 0 {
				t.Errorf("it is told: %v %v", records, l.writes)
			}
		})
	}
}

// What cannot be read is not told of, and looked for again.
func TestForcedAwayThatCannotBeRead(t *testing.T) {
	for _, kind := range []string{"GKECluster", "Experiment", "ConfigMap"} {
		l := tutorial(t)
		l.settle(l.play)
		l.forceAway()
		failure := errors.New("the API server is away")
		cached := l.client
		switch kind {
		case "ConfigMap":
			l.refuse = func(_, k string) error { return map[bool]error{true: failure}[k == kind] }
		default:
			l.reconciler.Client = without{cached, "Experiment"}
			l.getErrors[kind] = failure
		}
		if err := l.reconcile(); !errors.Is(err, failure) {
			t.Errorf("%s: %v", kind, err)
		}
		if records := l.list(configMapGVK); len(records) > 0 || len(l.drain()) > 0 {
			t.Errorf("%s: it is told: %v", kind, records)
		}
		delete(l.getErrors, kind)
		l.refuse = nil
		if err := l.reconcile(); err != nil || len(l.list(configMapGVK)) != 1 {
			t.Errorf("%s: then %v, and it is told %v", kind, err, l.list(configMapGVK))
		}
	}
}

func withoutFinalizers(o *unstructured.Unstructured) *unstructured.Unstructured {
	o.SetFinalizers(nil)
	return o
}

// has is a cache that has an object, too.
type has struct {
	client.Reader
	object *unstructured.Unstructured
}

func (h has) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := h.Reader.List(ctx, list, opts...); err != nil {
		return err
	}
	if all := list.(*unstructured.UnstructuredList); all.GetKind() == h.object.GetKind()+"List" {
		all.Items = append(all.Items, *h.object)
	}
	return nil
}

// Clusters of several Experiments of one name are told apart.
func TestSeveralForcedAway(t *testing.T) {
	l := tutorial(t)
	l.settle(l.play)
	e := l.get().DeepCopy()
	e.UID = "66666666-7777-8888-9999-000000000000"
	at := names{e, l.reconciler.Options}.cluster(e.Spec.Targets[0])
	other := object(crossplane.GKEClusterGVK, at.Namespace, at.Name)
	marks.Set(e, other)
	labels := other.GetLabels()
	labels[v1alpha1.LabelTarget] = e.Spec.Targets[0].Name
	other.SetLabels(labels)
	l.create(other)
	l.forceAway()
	if err := l.reconcile(); err != nil {
		t.Fatal(err)
	}
	uids := map[types.UID]bool{}
	for _, record := range l.list(configMapGVK) {
		uids[types.UID(record.GetLabels()[v1alpha1.LabelExperimentUID])] = true
	}
	if len(uids) != 2 {
		t.Errorf("it is told of %v", uids)
	}
}

// forge creates a claim as one that an Experiment of that UID, and of the lab's name, would have, as anybody can who may create claims.
func (l *lab) forge(e *v1alpha1.Experiment, uid types.UID, target string) {
	l.t.Helper()
	forged := e.DeepCopy()
	forged.UID = uid
	at := names{forged, l.reconciler.Options}.cluster(v1alpha1.Target{Name: target, Cluster: v1alpha1.ClusterSpec{Type: v1alpha1.ClusterGKE}})
	claim := object(crossplane.GKEClusterGVK, at.Namespace, at.Name)
	marks.Set(forged, claim)
	labels := claim.GetLabels()
	labels[v1alpha1.LabelTarget] = target
	claim.SetLabels(labels)
	claim.SetUID(types.UID(string(uid) + "-" + target))
	l.create(claim)
}

// Labels that anybody can put on an object cause no more ConfigMaps than there may be for a namespace, nor any for that of others.
func TestForgedLabelsAreBounded(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)))
	e := l.get()
	l.forceAway()
	const more = 3
	for i := range maxForsaken + more {
		l.forge(e, types.UID(fmt.Sprintf("forged-%d", i)), "app")
	}
	for range 2 { // the second time nothing is left to tell
		if err := l.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	if records := l.list(configMapGVK); len(records) != maxForsaken {
		t.Errorf("there are %d ConfigMaps", len(records))
	}
	events := l.drain()
	unrecorded := slices.DeleteFunc(slices.Clone(events), func(event string) bool { return !strings.Contains(event, "delete those") })
	if len(events) != maxForsaken+more || len(unrecorded) != more {
		t.Errorf("there are %d events, %d of them of what is in no ConfigMap", len(events), len(unrecorded))
	}
	record := l.list(configMapGVK)[0]
	l.forge(e, types.UID(record.GetLabels()[v1alpha1.LabelExperimentUID]), "more") // of which there is one
	others := e.DeepCopy()
	others.Namespace = "others"
	l.forge(others, "of-others", "app")
	for _, namespace := range []string{e.Namespace, others.Namespace} {
		l.experiment.Namespace = namespace
		if err := l.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	if events := l.drain(); len(events) != 2 || strings.Contains(strings.Join(events, ""), "delete those") {
		t.Errorf("then it tells %q", events)
	}
	if records := l.list(configMapGVK); len(records) != maxForsaken+1 {
		t.Errorf("then there are %d ConfigMaps", len(records))
	}
}

// A ConfigMap that is full takes no more: it could not be written.
func TestForgedLabelsFillNoConfigMap(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)))
	e := l.get()
	l.forceAway()
	l.forge(e, "forged", "app")
	if err := l.reconcile(); err != nil {
		t.Fatal(err)
	}
	record := l.list(configMapGVK)[0]
	full := strings.Repeat("#", maxOrphans-100)
	_ = unstructured.SetNestedField(record.Object, full, "data", orphansKey)
	l.update(&record)
	l.drain()
	l.forge(e, "forged", "more")
	if err := l.reconcile(); err != nil {
		t.Fatal(err)
	}
	if list, _, _ := unstructured.NestedString(l.list(configMapGVK)[0].Object, "data", orphansKey); list != full {
		t.Errorf("it has %d bytes", len(list))
	}
	if events := l.drain(); len(events) != 1 || !strings.Contains(events[0], "delete those") {
		t.Errorf("it tells %q", events)
	}
}
