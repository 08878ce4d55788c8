package experiment

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/argoworkflows"
	"github.com/labkeeper/labkeeper/internal/external/capi"
	"github.com/labkeeper/labkeeper/internal/external/crossplane"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// A tenant's junk registration for an address, and then a paid cluster comes up at that address. Versions before this one did not
// label what they registered with its server.
func TestTrustedClusterClashes(t *testing.T) {
	for name, r := range roads() {
		if r.cluster.Empty() {
			continue
		}
		t.Run(name, func(t *testing.T) { clashesWithATenants(t, r.lab(t), true) })
		t.Run(name+", of an old version", func(t *testing.T) { clashesWithATenants(t, r.lab(t), false) })
	}
}

func clashesWithATenants(t *testing.T, l *lab, labelled bool) {
	t.Helper()
	tenants := registrationOf(t, "cluster-of-a-tenant", strings.Replace(kubeconfig, "canary-token", "junk", 1))
	server, _ := secretValue(tenants, "server")
	labels := tenants.GetLabels()
	labels[v1alpha1.LabelExperimentUID] = "99999999-2222-3333-4444-555555555555"
	if labelled {
		labels[labelServer] = serverLabel(string(server))
	}
	tenants.SetLabels(labels)
	l.create(tenants)
	for range 12 {
		_ = l.reconcile()
		l.play()
	}
	if once, secrets := l.registeredOnce(); !once {
		t.Errorf("Argo CD has registrations with different credentials of one server: %v (phase %s)", secrets, l.get().Status.Phase)
	}
	if said := l.message(v1alpha1.ConditionClustersReady); !strings.Contains(said, "cluster-of-a-tenant") {
		t.Errorf("it does not say what the cluster cannot be registered beside: %s", said)
	}
}

// sharedSecret is two targets on one existing cluster, by one Secret.
func sharedSecret(t *testing.T) *lab {
	t.Helper()
	a, b := targetOf("a", v1alpha1.ClusterExisting), targetOf("b", v1alpha1.ClusterExisting)
	a.Cluster.KubeconfigSecret = &v1alpha1.SecretKey{Name: "staging", Key: "config"}
	b.Cluster.KubeconfigSecret = a.Cluster.KubeconfigSecret
	l := newLab(t, experimentOf(a, b), nginx(), template(), staging(kubeconfig))
	l.settle(l.validating)
	if n := len(l.list(argocd.SecretGVK)); n != 2 {
		t.Fatalf("%d registrations", n)
	}
	return l
}

// refused has Argo CD be refused with the credentials that it has, as it compares, or as it deletes what is to go.
func (l *lab) refused() {
	l.t.Helper()
	for _, app := range l.list(argocd.ApplicationGVK) {
		at := "ComparisonError"
		if going(&app) {
			at = "DeletionError"
		}
		app.Object["status"] = map[string]any{"conditions": []any{map[string]any{
			"type": at, "message": "the server has asked for the client to provide credentials",
		}}}
		l.update(&app)
	}
}

// Each of those who use a Secret is told of its new token, also if what is deployed by it is to go.
func TestRotationOfASharedSecret(t *testing.T) {
	for name, deleted := range map[string]bool{"running": false, "deleted": true} {
		t.Run(name, func(t *testing.T) {
			l := sharedSecret(t)
			if deleted {
				l.remove()
				l.tick(l.without(argocd.ApplicationGVK))
			}
			l.rotate()
			l.refused()
			for range 5 {
				_ = l.reconcile()
			}
			for _, s := range l.list(argocd.SecretGVK) {
				config, _ := secretValue(&s, "config")
				if !strings.Contains(string(config), "rotated-token") {
					t.Errorf("%s still has the old token: %s", s.GetName(), l.message(v1alpha1.ConditionReady))
				}
			}
			if left := len(l.list(argocd.SecretGVK)); left != 2 {
				t.Errorf("%d are registered", left)
			}
		})
	}
}

// copyOf is a kubeconfig in a Secret of a name.
func copyOf(kubeconfig, name string) *corev1.Secret {
	secret := staging(kubeconfig)
	secret.Name = name
	return secret
}

// Of those who have copies of a kubeconfig each is told of its new token, when the others have it, too: none waits for another that
// waits for it. Where one copy has it alone, Argo CD would use it for the other, or what that has for this.
func TestRotationOfCopies(t *testing.T) {
	fresh := strings.Replace(kubeconfig, "canary-token", "rotated-token", 1)
	for name, test := range map[string]struct {
		renewed []string
		told    int
	}{
		"both":          {[]string{"staging", "copy"}, 2},
		"one of them":   {[]string{"copy"}, 0},
		"the other one": {[]string{"staging"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, experimentOf(existingTarget("a", "staging"), existingTarget("b", "copy")), nginx(), template(), staging(kubeconfig), copyOf(kubeconfig, "copy"))
			l.settle(l.validating)
			for _, secret := range test.renewed {
				l.update(copyOf(fresh, secret))
			}
			l.refused()
			for range 5 {
				_ = l.reconcile()
			}
			told := 0
			for _, s := range l.list(argocd.SecretGVK) {
				if config, _ := secretValue(&s, "config"); strings.Contains(string(config), "rotated-token") {
					told++
				}
			}
			if told != test.told {
				t.Errorf("%d registrations have the new token: %s", told, l.message(v1alpha1.ConditionApplicationsHealthy))
			}
		})
	}
}

// What another Experiment has registered by the same kubeconfig, or a copy, gets its new token with one that is told of it: that is over,
// or suspended, and looks at nothing, and Argo CD would go on to use the old one for both.
func TestRotationBesideOneThatLooksAtNothing(t *testing.T) {
	over := func(l *lab) { l.until(v1alpha1.PhaseComplete) }
	suspended := func(l *lab) {
		l.settle(l.validating)
		l.edit(func(e *v1alpha1.Experiment) { e.Spec.Suspend = true })
		l.mustReconcile()
	}
	for name, test := range map[string]struct {
		first   func(l *lab)
		secret  string
		running bool
	}{
		"over, before another begins":      {over, "staging", false},
		"over, while another runs":         {over, "staging", true},
		"over, while one with a copy runs": {over, "copy", true},
		"suspended, while another runs":    {suspended, "staging", true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, experimentOf(existingTarget("app", "staging")), nginx(), template(), staging(kubeconfig), copyOf(kubeconfig, "copy"))
			test.first(l)
			second := experimentOf(existingTarget("app", test.secret))
			second.Name, second.UID = "second", "22222222-2222-3333-4444-555555555555"
			l.create(second)
			l.experiment.Name, l.reconciler.Gate = second.Name, kube.NewGate(2) // nobody leaves it here
			if test.running {
				l.settle(l.validating)
			}
			l.rotate()
			l.refused()
			for range 5 {
				l.mustReconcile()
			}
			once, secrets := l.registeredOnce()
			if !once || len(secrets) != 2 {
				t.Errorf("Argo CD may use the old token: registered are %v", secrets)
			}
			for _, s := range l.list(argocd.SecretGVK) {
				if config, _ := secretValue(&s, "config"); !strings.Contains(string(config), "rotated-token") {
					t.Errorf("%s has the old token", kube.Describe(&s))
				}
			}
		})
	}
}

// A copy of such a registration that somebody has made is nobody's, and stays as it is.
func TestRotationBesideACopyOfARegistration(t *testing.T) {
	l := newLab(t, experimentOf(existingTarget("app", "staging")), nginx(), template(), staging(kubeconfig))
	l.settle(l.validating)
	kept := l.list(argocd.SecretGVK)[0].DeepCopy()
	kept.SetName("backup")
	kept.SetResourceVersion("")
	l.create(kept)
	l.rotate()
	l.refused()
	l.mustReconcile()
	for _, s := range l.list(argocd.SecretGVK) {
		config, _ := secretValue(&s, "config")
		if rotated := strings.Contains(string(config), "rotated-token"); rotated == (s.GetName() == "backup") {
			t.Errorf("%s has the new token: %v", kube.Describe(&s), rotated)
		}
	}
}

// Whoever has credentials that another has put in the place of its own is not registered beside those: Argo CD may go on to use the old
// ones, which are the other's alone, for both.
func TestRenewedByAnotherIsNotRegistered(t *testing.T) {
	fresh := strings.Replace(kubeconfig, "canary-token", "rotated-token", 1)
	b := existingTarget("b", "copy")
	b.Depends = []string{"a"}
	l := newLab(t, experimentOf(existingTarget("a", "staging"), b), nginx(), template(), staging(kubeconfig), copyOf(fresh, "copy"))
	l.mustReconcile()
	l.update(staging(fresh))
	l.settle(l.play)
	l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonNameTaken)
}

// The user takes the label off (to keep the cluster) and deletes the Experiment; the cache of claims is behind.
func TestUnlabelledThatTheCacheHasLabelled(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
	l.until(v1alpha1.PhaseProvisioning)
	were := l.list(crossplane.GKEClusterGVK)
	if len(were) != 1 {
		t.Fatal(len(were))
	}
	claim := were[0].DeepCopy()
	labels := claim.GetLabels()
	delete(labels, v1alpha1.LabelExperimentUID)
	claim.SetLabels(labels)
	claim.SetFinalizers([]string{"x/y"})
	l.update(claim)
	l.remove()
	l.reconciler.Foreign = before{l.client, were}
	_ = l.reconcile()
	got := l.read(crossplane.GKEClusterGVK, claim.GetNamespace(), claim.GetName())
	if got == nil || got.GetDeletionTimestamp() != nil {
		t.Error("a claim is deleted that is not the Experiment's any more")
	}
}

// Record taken away while the kind of clusters is not in the cache.
func TestRecordTakenAwayAndKindNotSynced(t *testing.T) {
	for _, state := range []kube.KindState{kube.KindSyncing, kube.KindUnserved, kube.KindMissing} {
		l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
		l.until(v1alpha1.PhaseProvisioning)
		l.unrecorded()
		l.kinds[crossplane.GKEClusterGVK] = state
		l.remove()
		l.settle(l.play)
		if n := len(l.list(crossplane.GKEClusterGVK)); n > 0 && l.get() == nil {
			t.Errorf("%v: the Experiment is gone and %d claims are there", state, n)
		}
	}
}

// What takes the place of a Component is not deployed because the cache does not have that yet.
func TestFallbackByAStaleCache(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("web", v1alpha1.ClusterHub)), nginx(), template())
	l.reconciler.Options.Fallback = Fallback{RepoURL: "https://git.example.com/components", Revision: "main"}
	l.reconciler.Client = without{l.client, "Component"}
	for range 3 {
		_ = l.reconcile()
	}
	for _, app := range l.list(argocd.ApplicationGVK) {
		if sources, _, _ := unstructured.NestedSlice(app.Object, "spec", "sources"); strings.Contains(fmt.Sprint(sources), "git.example.com") {
			t.Errorf("deployed is %v", sources)
		}
	}
}

// Nor is what runs taken back for it.
func TestFallbackTakesTheWorkflowBack(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("web", v1alpha1.ClusterHub)), nginx(), template())
	l.reconciler.Options.Fallback = Fallback{RepoURL: "https://git.example.com/components", Revision: "main"}
	l.settle(l.validating)
	first := l.get().Status.Workflow
	c := l.reconciler.Client
	l.reconciler.Client = without{l.client, "Component"}
	_ = l.reconcile()
	l.reconciler.Client = c
	l.settle(l.validating)
	if w := l.get().Status.Workflow; w.UID != first.UID {
		t.Errorf("the Workflow was taken back: %+v", w)
	}
}

// Terminate when a success would have had to wait and nobody has looked yet.
func TestTerminateBeforeASuccessWaits(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
	l.settle(l.validating)
	workflow := l.list(argoworkflows.WorkflowGVK)[0]
	l.deleteObject(&l.list(crossplane.GKEClusterGVK)[0]) // somebody deletes the cluster, which is held by its finalizer
	l.succeed(&workflow)
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Terminate = true })
	_ = l.reconcile()
	for _, c := range l.get().Status.Conditions {
		if c.Type == v1alpha1.ConditionReady && c.Status == metav1.ConditionTrue {
			t.Errorf("it is complete: %s", c.Message)
		}
	}
}

// However many Applications do not go, what is told of them fits into a ConfigMap.
func TestOrphansThatDoNotFit(t *testing.T) {
	var targets []v1alpha1.Target
	for i := range 32 {
		target := targetOf(fmt.Sprintf("target-%02d", i), v1alpha1.ClusterHub)
		target.ApplicationPolicy, target.Components = v1alpha1.ApplicationPerComponent, nil
		for j := range 32 {
			target.Components = append(target.Components, v1alpha1.ComponentRef{App: fmt.Sprintf("component-%02d", j)})
		}
		targets = append(targets, target)
	}
	e := experimentOf(targets...)
	e.Finalizers, e.DeletionTimestamp = []string{v1alpha1.Finalizer}, timestamp(epoch)
	o := Options{ArgoCDNamespace: "argocd", ArgoCDProject: "default", WorkflowNamespace: "argo", OrphansNamespace: "labkeeper-system"}
	n := names{e, o}
	where := n.namespaces()
	e.Status.StartedAt, e.Status.Namespaces = timestamp(epoch), &where
	e.Status.Teardown = &v1alpha1.TeardownStatus{StartedAt: timestamp(epoch)}
	f := facts{experiment: e, options: o, names: n, now: epoch.Add(2 * time.Hour)}
	f.seen.Applications = map[string][]*unstructured.Unstructured{}
	for _, spec := range targets {
		for _, ref := range spec.Components {
			app := f.desiredApplication(&target{spec: spec}, ref.String(), nil)
			app.SetDeletionTimestamp(timestamp(epoch))
			app.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "DeletionError",
				"message": strings.Repeat("admission webhook denied the request: the object is in use; ", 20)}}}
			f.seen.Applications[spec.Name] = append(f.seen.Applications[spec.Name], app)
			e.Status.Teardown.WaitsFor = append(e.Status.Teardown.WaitsFor, v1alpha1.Waiting{Object: "Application " + keyOf(app).String(), Since: *timestamp(epoch)})
		}
	}
	p := f.teardown()
	if !p.Done || len(p.Writes) != 1 || p.Writes[0].Object.GetKind() != "ConfigMap" {
		t.Fatalf("it is not released: %d writes, %d down", len(p.Writes), len(p.Down))
	}
	total := 0
	data, _, _ := unstructured.NestedStringMap(p.Writes[0].Object.Object, "data")
	for _, v := range data {
		total += len(v)
	}
	if total > 1<<20 {
		t.Errorf("a ConfigMap with %d bytes, of which the API server takes 1048576: it is refused in every pass, and the finalizer never goes", total)
	}
}

// bounded is a client of a server that takes Experiments of so many bytes, as etcd does (1.5 MiB).
type bounded struct {
	client.Client
	limit int
}

func (b bounded) Status() client.SubResourceWriter { return boundedStatus{b.Client.Status(), b.limit} }

type boundedStatus struct {
	client.SubResourceWriter
	limit int
}

func (b boundedStatus) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
	if raw, _ := json.Marshal(o); len(raw) > b.limit {
		return apierrors.NewRequestEntityTooLargeError("etcdserver: request is too large")
	}
	return b.SubResourceWriter.Patch(ctx, o, p, opts...)
}

// crowded is an Experiment that is deleted, whose spec fits, and so does the record of the start, but not what the status says then:
// 500 bytes are left for that.
func crowded(t *testing.T) *lab {
	t.Helper()
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
	for l.get().Status.StartedAt == nil {
		l.pass()
	}
	raw, _ := json.Marshal(l.get())
	l.reconciler.Client = bounded{l.client, len(raw) + 500}
	for range 6 {
		_ = l.reconcile()
		l.play()
	}
	l.remove()
	return l
}

// What could not be recorded is remembered until it is, and no longer: what is recorded by then would be put back.
func TestRememberedUntilItIsRecorded(t *testing.T) {
	l := crowded(t)
	for _, room := range []bool{false, true} {
		if room {
			l.reconciler.Client = l.client
		}
		_ = l.reconcile()
		_, remembered := l.reconciler.unrecorded.Get(l.get().UID)
		if recorded := l.get().Status.Teardown != nil; recorded != room || remembered == room {
			t.Errorf("with room %t it is recorded: %t, and remembered: %t", room, recorded, remembered)
		}
	}
}

func TestStatusThatDoesNotFit(t *testing.T) {
	l := crowded(t)
	for hour := range 40 { // an Application that does not go
		l.later(time.Duration(hour) * time.Hour)
		_ = l.reconcile()
		l.without(argocd.ApplicationGVK)()
	}
	for _, claim := range l.list(crossplane.GKEClusterGVK) {
		if claim.GetDeletionTimestamp() == nil {
			t.Error("40 hours later the cluster has not been asked to go")
		}
	}
	for range 10 { // and all goes
		_ = l.reconcile()
		l.play()
	}
	if left := l.ours(); l.get() != nil {
		t.Errorf("it is still there, although there is nothing left but %v", kindsLeft(left))
	}
}

// The podSecurity of a target is edited while the Workflow runs.
func TestPodSecurityEditedWhileRunning(t *testing.T) {
	target := targetOf("app", v1alpha1.ClusterGKE)
	target.PodSecurity = "privileged"
	l := newLab(t, experimentOf(target), nginx(), template())
	l.settle(l.validating)
	first := l.get().Status.Workflow
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Targets[0].PodSecurity = "restricted" })
	l.settle(l.play)
	e := l.get()
	if e.Status.Phase == v1alpha1.PhaseComplete && e.Status.Workflow.UID == first.UID {
		t.Errorf("complete for generation %d by the Workflow that ran with privileged", e.Status.ObservedGeneration)
	}
}

// What ran on a cluster of which another has taken the place says nothing of that one.
func TestClusterReplacedWhileItIsValidated(t *testing.T) {
	gone := func(gvk schema.GroupVersionKind, up ...string) func(*lab) {
		return func(l *lab) {
			l.gone(gvk)
			if len(up) > 0 {
				l.settle(l.deploy)
				l.spoil(gvk, func(o *unstructured.Unstructured) { _ = unstructured.SetNestedField(o.Object, true, up...) })
			}
		}
	}
	withGKE := func(t *testing.T) *lab {
		return newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
	}
	for name, test := range map[string]struct {
		lab     func(*testing.T) *lab
		replace func(*lab)
		stays   bool
	}{
		"claim":           {lab: withGKE, replace: gone(crossplane.GKEClusterGVK)},
		"control plane":   {lab: onTalos, replace: gone(capi.TalosControlPlaneGVK, "status", "initialized")},
		"virtual cluster": {lab: onVCluster, replace: gone(capi.VClusterGVK, "status", "ready")},
		"Cluster": {lab: func(t *testing.T) *lab { return onReferred(t, k3("u-1"), registrationFor(k3("u-1"), "")) }, replace: func(l *lab) {
			l.deleteObject(l.reread(k3("")))
			l.create(k3("u-2"))
			l.create(registrationFor(k3("u-2"), ""))
		}},
		"machines":    {lab: onTalos, replace: gone(capi.MachineDeploymentGVK), stays: true},
		"credentials": {lab: withGKE, replace: (*lab).rotate, stays: true},
		"record of an older version": {lab: withGKE, stays: true, replace: func(l *lab) {
			l.spoil(argoworkflows.WorkflowGVK, func(w *unstructured.Unstructured) {
				w.SetAnnotations(map[string]string{v1alpha1.AnnotationInputs: w.GetAnnotations()[v1alpha1.AnnotationInputs]})
			})
			e := l.get()
			e.Status.Workflow.Clusters = ""
			if err := l.client.Status().Update(l.t.Context(), e); err != nil {
				l.t.Fatal(err)
			}
			l.gone(crossplane.GKEClusterGVK)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l := test.lab(t)
			l.settle(l.validating)
			first := l.get().Status.Workflow
			test.replace(l)
			l.settle(l.play)
			l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
			if w := l.get().Status.Workflow; (w.UID == first.UID) != test.stays || w.Superseded {
				t.Errorf("the verdict is by %+v, and what ran before was %+v", w, first)
			}
		})
	}
}

// It is known although somebody has taken the annotation off the Workflow; and what a cache has of before is no other cluster.
func TestClustersAreRemembered(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
	l.settle(l.validating)
	first, old := l.get().Status.Workflow, l.list(crossplane.GKEClusterGVK)
	l.spoil(argoworkflows.WorkflowGVK, func(w *unstructured.Unstructured) {
		w.SetAnnotations(map[string]string{v1alpha1.AnnotationInputs: w.GetAnnotations()[v1alpha1.AnnotationInputs]})
	})
	l.mustReconcile()
	l.gone(crossplane.GKEClusterGVK)
	l.settle(l.validating)
	second := l.get().Status.Workflow
	if second.UID == first.UID || second.Clusters == first.Clusters || second.Clusters == "" {
		t.Errorf("it has %+v, after %+v", second, first)
	}
	l.reconciler.Foreign = before{l.client, old}
	for range 3 {
		_ = l.reconcile()
	}
	if w := l.get().Status.Workflow; w.UID != second.UID || w.Superseded {
		t.Errorf("by a cache that has the first claim it has %+v", w)
	}
}

// A Workflow stays that may be outdated by what the server could not be asked.
func TestOutdatedByWhatCannotBeRead(t *testing.T) {
	for kind, outdate := range map[string]func(*lab){
		"Component": func(l *lab) {
			web := nginx()
			if err := l.client.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil {
				t.Fatal(err)
			}
			web.Spec.Sources[0].TargetRevision = "1.2.4"
			l.update(web)
		},
		"GKECluster": func(l *lab) {
			l.gone(crossplane.GKEClusterGVK)
			l.mustReconcile() // which makes another
		},
	} {
		l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
		l.settle(l.validating)
		outdate(l)
		times := 1
		l.reconciler.Live = flaky{l.client, kind, &times}
		if err := l.reconcile(); err == nil || times > 0 {
			t.Fatalf("%s was read: %v", kind, err)
		}
		if w := l.get().Status.Workflow; w.Superseded {
			t.Errorf("it is superseded, and %s could not be read", kind)
		}
		l.settle(l.validating)
		if w := l.get().Status.Workflow; w.Run != 2 {
			t.Errorf("after %s could be read: %+v", kind, w)
		}
	}
}

// unrecorded takes the whole status away.
func (l *lab) unrecorded() {
	l.t.Helper()
	e := l.get()
	e.Status = v1alpha1.ExperimentStatus{}
	if err := l.client.Status().Update(l.t.Context(), e); err != nil {
		l.t.Fatal(err)
	}
}

// Whatever of the record is taken away at whatever moment.
func TestRecordTakenAwayAtAnyMoment(t *testing.T) {
	for name, r := range roads() {
		t.Run(name, func(t *testing.T) {
			up := stepsUp(t, r)
			for _, moment := range momentsOf(up, 0) {
				l := r.lab(t)
				for i := range moment {
					l.step(i)
				}
				l.unrecorded()
				l.remove()
				l.settle(l.play)
				if left := l.ours(); l.get() != nil || len(left) > 0 {
					t.Errorf("after %d steps of %d: %v are left, and it is there: %t", moment, up, kindsLeft(left), l.get() != nil)
				}
			}
		})
	}
}

// The same in one write: the manager dies after the first child.
func TestRecordTakenAwayAfterAnyWrite(t *testing.T) {
	for name, r := range roads() {
		t.Run(name, func(t *testing.T) {
			reference := r.lab(t)
			reference.settle(reference.play)
			for k := 1; k <= len(reference.writes); k++ {
				l := r.lab(t)
				l.diesAt(k)
				l.unrecorded()
				l.remove()
				l.settle(l.play)
				if left := l.ours(); l.get() != nil || len(left) > 0 {
					t.Errorf("after write %d (%s): %v are left, and it is there: %t", k, l.writes[k-1], kindsLeft(left), l.get() != nil)
				}
			}
		})
	}
}

// Crossplane's own role "edit" allows to write the status of a claim as well as its spec.
func TestClaimOfAnotherWithItsEndpoint(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
	theirs := object(argocd.SecretGVK, "crossplane-system", "theirs-abcde-cluster-conn")
	theirs.Object["data"] = map[string]any{"kubeconfig": encode(strings.NewReplacer("203.0.113.10", "203.0.113.66", "canary-token", "their-token").Replace(kubeconfig))}
	l.create(theirs)
	l.mustReconcile()
	l.mustReconcile()
	l.play() // the author's own cluster is up
	claim := l.list(crossplane.GKEClusterGVK)[0]
	_ = unstructured.SetNestedField(claim.Object, "theirs-abcde", "spec", "resourceRef", "name")
	_ = unstructured.SetNestedField(claim.Object, "203.0.113.66", "status", "endpoint")
	l.update(&claim)
	l.mustReconcile()
	for _, secret := range l.list(argocd.SecretGVK) {
		if config, _ := secretValue(&secret, "config"); strings.Contains(string(config), "their-token") {
			t.Errorf("Secret %s has the credentials of somebody else's cluster, and Applications: %d", secret.GetName(), len(l.list(argocd.ApplicationGVK)))
		}
	}
}

// Argo CD deletes nothing before it has the new token.
func TestRotationHoldsTheTeardown(t *testing.T) {
	l := sharedSecret(t)
	l.rotate()
	l.refused()
	l.remove()
	argo := func() bool {
		fresh := false
		for _, s := range l.list(argocd.SecretGVK) {
			config, _ := secretValue(&s, "config")
			fresh = fresh || strings.Contains(string(config), "rotated-token")
		}
		return l.letGo(func(o *unstructured.Unstructured) bool { return o.GetKind() != "Application" || fresh })
	}
	for _, minute := range []time.Duration{0, 2, 4, 8, 16, 31, 62} {
		l.later(minute * time.Minute)
		l.tick(argo)
	}
	if left := l.orphans(); len(left) > 0 {
		t.Errorf("left behind, on a cluster whose new kubeconfig is there all the time: %+v", left)
	}
}

// A second target, or Experiment, by the same Secret, after the token was renewed; the old one still works.
func TestRenewedBeforeTheSecondIsBegun(t *testing.T) {
	a, b := targetOf("a", v1alpha1.ClusterExisting), targetOf("b", v1alpha1.ClusterExisting, "a")
	a.Cluster.KubeconfigSecret = &v1alpha1.SecretKey{Name: "staging", Key: "config"}
	b.Cluster.KubeconfigSecret = &v1alpha1.SecretKey{Name: "staging", Key: "config"}
	l := newLab(t, experimentOf(a, b), nginx(), template(), staging(kubeconfig))
	l.mustReconcile()
	l.rotate()
	l.settle(l.play)
	if l.get().Status.Phase != v1alpha1.PhaseComplete {
		t.Errorf("it is %s: %s", l.get().Status.Phase, l.message(v1alpha1.ConditionReady))
	}
}

// What a tenant may write into spec.deletion keeps a paid cluster for years after its time to live.
func TestDeadlineOfYears(t *testing.T) {
	e := experimentOf(targetOf("app", v1alpha1.ClusterGKE))
	e.Spec.Deletion = &v1alpha1.Deletion{Deadline: &metav1.Duration{Duration: 3 * 99999 * time.Hour}} // 99999h99999h99999h, which the schema takes
	l := newLab(t, e, nginx(), template())
	l.settle(l.play)
	for _, days := range []time.Duration{1, 2, 30, 365, 8 * 365} {
		l.later(days * day)
		l.tick(l.without(argocd.ApplicationGVK)) // an Application that does not go: an object with a finalizer of the tenant's
	}
	for _, claim := range l.list(crossplane.GKEClusterGVK) {
		if claim.GetDeletionTimestamp() == nil {
			t.Error("eight years after its time to live was over, the cluster has not been asked to go")
		}
	}
}
