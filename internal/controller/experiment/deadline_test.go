package experiment

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/argoworkflows"
	"github.com/labkeeper/labkeeper/internal/external/crossplane"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// later moves the clock to so long after the beginning.
func (l *lab) later(d time.Duration) { l.clock.SetTime(epoch.Add(d)) }

// tick runs passes, of which any may fail, while the world lets go what it lets go.
func (l *lab) tick(world ...func() bool) {
	l.t.Helper()
	for range 12 {
		_ = l.reconcile()
		for _, play := range world {
			play()
		}
	}
}

// orphans are what the ConfigMap tells of; none without one.
func (l *lab) orphans() (left []orphan) {
	l.t.Helper()
	all := &corev1.ConfigMapList{}
	if err := l.client.List(l.t.Context(), all, client.InNamespace("labkeeper-system"), client.HasLabels{v1alpha1.LabelExperimentUID}); err != nil {
		l.t.Fatal(err)
	}
	for _, cm := range all.Items {
		if err := yaml.Unmarshal([]byte(cm.Data["orphans.yaml"]), &left); err != nil {
			l.t.Fatal(err)
		}
	}
	return left
}

// orphanKinds are those of what a ConfigMap tells of.
func orphanKinds(left []orphan) (kinds []string) {
	for _, o := range left {
		kinds = append(kinds, o.Kind)
	}
	return kinds
}

// tellsOfOrphans says whether any event tells of what was left behind.
func (l *lab) tellsOfOrphans() bool {
	return slices.ContainsFunc(l.drain(), func(e string) bool { return strings.Contains(e, v1alpha1.ReasonOrphansLeft) })
}

// without plays the world but for the deletion of kinds.
func (l *lab) without(kinds ...schema.GroupVersionKind) func() bool {
	return func() bool {
		return l.letGo(func(o *unstructured.Unstructured) bool { return !slices.Contains(kinds, o.GroupVersionKind()) })
	}
}

// A cluster that Crossplane cannot delete is waited for, and then left behind with a trace.
func TestNote29ReleasedAfterTheDeadline(t *testing.T) {
	l := tutorial(t)
	l.settle(l.play)
	l.drain()
	l.remove()
	l.settle(l.without(crossplane.GKEClusterGVK))
	l.spoil(crossplane.GKEClusterGVK, func(claim *unstructured.Unstructured) {
		claimIs(claim, "False", "False", "ReconcileError", "cannot delete the network: it is in use")
	})
	if wait := l.pass(); wait != 15*time.Minute {
		t.Errorf("it is looked at after %s, when the cluster has had half of the time", wait)
	}
	l.later(29 * time.Minute)
	l.tick()
	if l.get() == nil || len(l.orphans()) > 0 {
		t.Fatal("it is released before the deadline")
	}
	l.later(31 * time.Minute)
	l.tick()
	if l.get() != nil {
		t.Fatalf("it is still there: %s", l.message(v1alpha1.ConditionReady))
	}
	left := l.orphans()
	if len(left) != 1 || left[0].Kind != "GKECluster" || left[0].Name == "" || left[0].UID == "" || left[0].DeletedAt == "" ||
		left[0].Error != "ReconcileError: cannot delete the network: it is in use" {
		t.Errorf("the ConfigMap tells of %+v", left)
	}
	if !l.tellsOfOrphans() {
		t.Error("no Event tells of it")
	}
}

func TestBlockedAfterTheDeadline(t *testing.T) {
	l := tutorial(t)
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Deletion = &v1alpha1.Deletion{Policy: v1alpha1.DeletionBlock} })
	l.settle(l.play)
	l.remove()
	l.settle(l.without(crossplane.GKEClusterGVK))
	l.later(3 * time.Hour)
	l.tick()
	if l.get() == nil || len(l.orphans()) > 0 {
		t.Fatal("it is released")
	}
	if m := l.message(v1alpha1.ConditionReady); !strings.Contains(m, "spec.deletion.policy Block") {
		t.Errorf("it does not say what keeps it: %s", m)
	}
	l.settle(l.play)
	if l.get() != nil {
		t.Error("it stays when everything is gone")
	}
}

// Whose finalizer holds what goes is said: the object itself tells nothing of it.
func TestSaysWhoHoldsWhatGoes(t *testing.T) {
	l := onGKE(t)
	for _, gvk := range []schema.GroupVersionKind{argocd.SecretGVK, crossplane.GKEClusterGVK} {
		l.spoil(gvk, func(o *unstructured.Unstructured) {
			o.SetFinalizers(append(o.GetFinalizers(), "example.com/"+strings.ToLower(o.GetKind())))
		})
	}
	l.remove()
	l.settle(l.without(argocd.ApplicationGVK))
	if m := l.message(v1alpha1.ConditionReady); strings.Contains(m, "finalizer") {
		t.Errorf("of one of Argo CD it says %q", m)
	}
	l.settle(l.without(argocd.SecretGVK, crossplane.GKEClusterGVK))
	m := l.message(v1alpha1.ConditionReady)
	for _, want := range []string{"Secret argocd/cluster-", " (held by finalizer example.com/secret)", "GKECluster lab/", " (held by finalizer example.com/gkecluster)"} {
		if !strings.Contains(m, want) {
			t.Errorf("it says %q", m)
		}
	}
}

// Neither a Workflow nor an Application that does not go keeps a cluster that costs,
// and when the cluster is gone the Applications go without.
func TestNote31StuckChildrenDoNotKeepTheCluster(t *testing.T) {
	for _, stuck := range []schema.GroupVersionKind{argoworkflows.WorkflowGVK, argocd.ApplicationGVK} {
		t.Run(stuck.Kind, func(t *testing.T) {
			l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
			l.settle(l.play)
			l.spoil(argoworkflows.WorkflowGVK, func(w *unstructured.Unstructured) { w.SetFinalizers([]string{"workflows.argoproj.io/artifact-gc"}) })
			l.remove()
			l.settle(l.without(stuck))
			l.later(7 * time.Minute)
			l.tick()
			if going(&l.list(crossplane.GKEClusterGVK)[0]) {
				t.Fatal("the cluster goes before what is on it had its time")
			}
			l.later(8 * time.Minute)
			l.settle(l.without(stuck))
			if clusters := l.list(crossplane.GKEClusterGVK); len(clusters) > 0 {
				t.Fatalf("the cluster is kept: %s", l.message(v1alpha1.ConditionReady))
			}
			if apps := l.list(argocd.ApplicationGVK); len(apps) > 0 {
				t.Error("the Application of a cluster that is gone is kept")
			}
			if stuck == argocd.ApplicationGVK {
				if left := l.orphans(); l.get() != nil || len(left) != 1 || left[0].Kind != "Application" || !strings.Contains(left[0].Error, "gone before Argo CD") {
					t.Errorf("the ConfigMap tells of %+v", left)
				}
				return
			}
			l.later(31 * time.Minute)
			l.tick()
			if left := l.orphans(); l.get() != nil || len(left) != 1 || left[0].Kind != "Workflow" || !slices.Equal(left[0].Finalizers, []string{"workflows.argoproj.io/artifact-gc"}) {
				t.Errorf("the ConfigMap tells of %+v", left)
			}
		})
	}
}

// onGKE is an Experiment on a cluster of its own that is up.
func onGKE(t *testing.T) *lab {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
	l.settle(l.play)
	return l
}

// overtake takes the Experiment down as far as to the deletion of a cluster whose Application has not gone.
func (l *lab) overtake() {
	l.t.Helper()
	l.remove()
	l.settle(l.without(argocd.ApplicationGVK, crossplane.GKEClusterGVK))
	l.later(8 * time.Minute)
	l.tick(l.without(argocd.ApplicationGVK, crossplane.GKEClusterGVK))
	if !going(&l.list(crossplane.GKEClusterGVK)[0]) || len(l.list(argocd.SecretGVK)) != 1 {
		l.t.Fatalf("the cluster is to go, and its registration to stay: %s", l.message(v1alpha1.ConditionReady))
	}
}

// Argo CD knows a cluster for as long as it has an Application to take down there, also while the cluster goes: it may give back load
// balancers until then, and of a cluster that it does not know it would leave all.
func TestApplicationThatGoesWithItsCluster(t *testing.T) {
	l := onGKE(t)
	l.overtake()
	l.settle(l.without(crossplane.GKEClusterGVK))
	if len(l.list(argocd.SecretGVK)) > 0 {
		t.Errorf("the registration stays: %s", l.message(v1alpha1.ConditionReady))
	}
	l.settle(l.play)
	if left := l.orphans(); l.get() != nil || len(left) > 0 {
		t.Errorf("it goes, and tells of %+v", left)
	}
}

// What an Application deployed that goes after its cluster may be left in the cloud, which is told of before that goes; of one that has
// deployed nothing there is nothing to tell.
func TestAbandonedApplication(t *testing.T) {
	l := onGKE(t)
	l.overtake()
	app := l.list(argocd.ApplicationGVK)[0]
	l.settle(l.without(argocd.ApplicationGVK))
	if !slices.ContainsFunc(l.drain(), func(e string) bool { return strings.Contains(e, "what Application "+keyOf(&app).String()+" deployed") }) {
		t.Error("no Event tells of it")
	}
	if left := l.orphans(); l.get() != nil || len(left) != 1 || left[0].UID != string(app.GetUID()) {
		t.Errorf("it goes, and tells of %+v", left)
	}

	l = onGKE(t)
	l.spoil(argocd.ApplicationGVK, func(app *unstructured.Unstructured) { delete(app.Object, "status") })
	l.overtake()
	l.settle(l.without(argocd.ApplicationGVK))
	if left := l.orphans(); l.get() != nil || len(left) > 0 {
		t.Errorf("of what was never deployed it tells %+v", left)
	}
}

// Where the server keeps no such record, as one whose CustomResourceDefinitions are older does, or refuses it, it is remembered, and nothing
// waits for it.
func TestAbandonedWithoutARecord(t *testing.T) {
	for name, refused := range map[string]error{
		"pruned": nil, "forbidden": apierrors.NewForbidden(schema.GroupResource{Resource: "experiments/status"}, "x", errors.New("a policy")),
	} {
		t.Run(name, func(t *testing.T) {
			l := onGKE(t)
			l.overtake()
			l.reconciler.Client = pruning{l.client, refused}
			for range 20 {
				_ = l.reconcile() // the status is said not to be kept
				l.without(argocd.ApplicationGVK)()
			}
			if left := l.orphans(); l.get() != nil || len(left) != 1 || left[0].Kind != "Application" {
				t.Errorf("it goes, and tells of %+v", left)
			}
		})
	}
}

// pruning is a client of a server that does not know of abandoned Applications, or refuses a status that tells of one.
type pruning struct {
	client.Client
	refused error
}

func (p pruning) Status() client.SubResourceWriter {
	return pruningStatus{p.Client.Status(), p.refused}
}

type pruningStatus struct {
	client.SubResourceWriter
	refused error
}

func (p pruningStatus) Patch(ctx context.Context, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	if t := o.(*v1alpha1.Experiment).Status.Teardown; t != nil && len(t.Abandoned) > 0 {
		if p.refused != nil {
			return p.refused
		}
		t.Abandoned = nil
	}
	return p.SubResourceWriter.Patch(ctx, o, patch, opts...)
}

// A cluster whose kind is not there any more is gone, and its Application and registration do not wait for each other.
func TestApplicationOfAKindThatIsGone(t *testing.T) {
	l := onGKE(t)
	l.spoil(crossplane.GKEClusterGVK, func(claim *unstructured.Unstructured) { claim.SetFinalizers(nil) })
	l.delete(crossplane.GKEClusterGVK)
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Terminate = true })
	none := &meta.NoKindMatchError{}
	l.getErrors["GKECluster"], l.listErrors["GKECluster"] = none, none
	kinds := maps.Clone(l.reconciler.Kinds.(kindStates))
	kinds[crossplane.GKEClusterGVK] = kube.KindMissing
	l.reconciler.Kinds = kinds
	l.settle(l.without(argocd.ApplicationGVK))
	l.expect(v1alpha1.ConditionCleanedUp, metav1.ConditionTrue, v1alpha1.ReasonCleanedUp)
}

// The registration of a cluster that is gone goes, whatever of another is left.
func TestRegistrationOfAClusterThatWentFirst(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("a", v1alpha1.ClusterGKE), targetOf("b", v1alpha1.ClusterGKE)), nginx(), template())
	l.settle(l.play)
	of := func(o *unstructured.Unstructured, target string) bool {
		return o.GetLabels()[v1alpha1.LabelTarget] == target
	}
	l.remove()
	l.settle(l.without(argocd.ApplicationGVK, crossplane.GKEClusterGVK))
	l.later(8 * time.Minute)
	l.settle(func() bool {
		return l.letGo(func(o *unstructured.Unstructured) bool { return o.GetKind() != "Application" && of(o, "a") })
	})
	if secrets := l.list(argocd.SecretGVK); len(secrets) != 1 || !of(&secrets[0], "b") {
		t.Errorf("there are %v: %s", secrets, l.message(v1alpha1.ConditionReady))
	}
}

// The record of an Experiment that stays tells of it, and so does its end.
func TestAbandonedByOneThatIsTerminated(t *testing.T) {
	l := onGKE(t)
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Terminate = true })
	l.settle(l.without(argocd.ApplicationGVK))
	l.later(8 * time.Minute)
	l.settle(l.without(argocd.ApplicationGVK))
	l.expect(v1alpha1.ConditionCleanedUp, metav1.ConditionTrue, v1alpha1.ReasonCleanedUp)
	if m := l.message(v1alpha1.ConditionCleanedUp); !strings.Contains(m, "gone but what Application argocd/") {
		t.Errorf("it says %q", m)
	}
	if told := l.get().Status.Teardown; told == nil || len(told.Abandoned) != 1 || told.Abandoned[0].Target != "app" || len(told.WaitsFor) > 0 {
		t.Errorf("the status tells of %+v", told)
	}
	l.remove()
	l.settle(l.play)
	if left := l.orphans(); l.get() != nil || len(left) != 1 {
		t.Errorf("it goes, and tells of %+v", left)
	}
}

// An Application whose cluster is gone, whoever has deleted it, has nothing to wait for. That the
// cache does not have the cluster is no proof, and finalizers of others stay.
func TestNote31ApplicationOfAGoneCluster(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
	l.settle(l.play)
	l.remove()
	l.spoil(argocd.ApplicationGVK, func(app *unstructured.Unstructured) {
		app.SetFinalizers([]string{
			"resources-finalizer.argocd.argoproj.io/background", "pre-delete-finalizer.argocd.argoproj.io", "pre-delete-finalizer.argocd.argoproj.io/cleanup",
			"post-delete-finalizer.argocd.argoproj.io/cleanup", "example.com/theirs",
		})
	})
	l.settle(l.without(argocd.ApplicationGVK, crossplane.GKEClusterGVK))
	l.reconciler.Foreign = before{never{l.client}, l.list(argocd.ApplicationGVK)}
	l.tick()
	if app := l.list(argocd.ApplicationGVK)[0]; len(app.GetFinalizers()) != 5 {
		t.Fatalf("the Application of a cluster that is there is let go: %v", app.GetFinalizers())
	}
	l.reconciler.Foreign = l.client
	claim := l.list(crossplane.GKEClusterGVK)[0]
	claim.SetFinalizers(nil)
	l.update(&claim)
	if err := client.IgnoreNotFound(l.client.Delete(t.Context(), &claim)); err != nil {
		t.Fatal(err)
	}
	l.tick()
	if app := l.list(argocd.ApplicationGVK)[0]; !slices.Equal(app.GetFinalizers(), []string{"example.com/theirs"}) {
		t.Errorf("its finalizers are %v", app.GetFinalizers())
	}
}

// A manager that was away for longer than the deadline gives everything its time all the same.
func TestDeadlineOfAManagerThatWasAway(t *testing.T) {
	e := experimentOf(targetOf("app", v1alpha1.ClusterGKE))
	e.Status.StartedAt = timestamp(epoch)
	e.DeletionTimestamp = &metav1.Time{Time: epoch}
	e.Status.Teardown = &v1alpha1.TeardownStatus{StartedAt: timestamp(epoch)}
	claim := func(deleted bool) unstructured.Unstructured {
		o := object(crossplane.GKEClusterGVK, "lab", names{e, labOptions}.cluster(e.Spec.Targets[0]).Name)
		marks.Set(e, o)
		if deleted {
			o.SetDeletionTimestamp(&metav1.Time{Time: epoch.Add(-100 * time.Hour)}) // by another clock
		}
		return *o
	}
	for name, test := range map[string]struct {
		now, asked, refused time.Duration // -1 is never
		done                bool
		wait                time.Duration
	}{
		"not asked for yet":             {31 * time.Minute, -1, -1, false, 0},
		"asked for just now":            {31 * time.Minute, 30 * time.Minute, -1, false, 14 * time.Minute},
		"asked for half a deadline ago": {45 * time.Minute, 30 * time.Minute, -1, true, 0},
		"refused all the time":          {29 * time.Minute, -1, 0, false, time.Minute},
		"refused until the deadline":    {31 * time.Minute, -1, 0, true, 0},
		"refused just now":              {31 * time.Minute, -1, 30 * time.Minute, false, 14 * time.Minute},
		"asked for before the deadline": {29 * time.Minute, 0, -1, false, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			f := facts{experiment: e, options: labOptions, names: names{e, labOptions}, now: epoch.Add(test.now), refused: map[string]refusal{}}
			f.seen.Kinds = map[schema.GroupVersionKind]kube.KindState{crossplane.GKEClusterGVK: kube.KindServed}
			f.seen.Leftovers = map[schema.GroupVersionKind][]unstructured.Unstructured{crossplane.GKEClusterGVK: {claim(test.asked >= 0)}}
			what := kube.Describe(&f.seen.Leftovers[crossplane.GKEClusterGVK][0])
			e.Status.Teardown.WaitsFor = nil
			if test.asked >= 0 {
				e.Status.Teardown.WaitsFor = []v1alpha1.Waiting{{Object: what, Since: *timestamp(epoch.Add(test.asked))}}
			}
			if test.refused >= 0 {
				f.refused[what] = refusal{errors.New("refused"), epoch.Add(test.refused)}
			}
			p := f.plan()
			if p.Done != test.done || p.Wait != test.wait || test.done != (len(p.Orphans) == 1) {
				t.Errorf("done %t, wait %s, orphans %v", p.Done, p.Wait, p.Orphans)
			}
			if asked := slices.ContainsFunc(p.Writes, func(w Write) bool { return w.Action == Delete }); asked != (!test.done && test.asked < 0) {
				t.Errorf("its deletion is asked for: %t", asked)
			}
		})
	}
}

// What may not be deleted is tried until the deadline, keeps nothing else, and is told of with its error.
func TestNote14RefusedDeletions(t *testing.T) {
	for _, kind := range []string{"Workflow", "Application", "Secret", "GKECluster"} {
		t.Run(kind, func(t *testing.T) {
			l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
			l.settle(l.play)
			l.remove()
			l.forbid("delete", kind)
			l.tick(l.without())
			l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonForbidden)
			if kind == "Secret" && len(l.list(crossplane.GKEClusterGVK)) > 0 {
				t.Error("it keeps the cluster")
			}
			l.reconciler.refusals = refusals{} // another manager takes over
			for _, at := range []time.Duration{31 * time.Minute, 40 * time.Minute} {
				l.later(at)
				l.tick(l.without())
				if l.get() == nil {
					t.Fatal("it is released before this manager has tried for as long")
				}
			}
			l.later(56 * time.Minute)
			l.tick(l.without())
			if l.get() != nil {
				t.Fatalf("it is still there: %s", l.message(v1alpha1.ConditionReady))
			}
			if kind != "GKECluster" && len(l.list(crossplane.GKEClusterGVK)) > 0 {
				t.Error("the cluster is left behind")
			}
			left := l.orphans()
			want := []string{kind}
			if kind == "Application" {
				want = append(want, "Secret") // which it needs
			}
			if !slices.Equal(orphanKinds(left), want) || left[0].DeletedAt != "" || !strings.Contains(left[0].Error, "no rights") {
				t.Errorf("the ConfigMap tells of %+v", left)
			}
		})
	}
}

// That it is released in spite of them and cannot be recorded begins nothing anew: the next pass releases it, and tells the same.
func TestReleasedAgain(t *testing.T) {
	for _, kind := range []string{"Experiment/status", "Experiment"} {
		t.Run(kind, func(t *testing.T) {
			l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
			l.until(v1alpha1.PhaseProvisioning)
			l.remove()
			l.forbid("delete", "GKECluster")
			l.tick(l.without())
			l.later(31 * time.Minute)
			forbidden, refused := l.refuse, false
			l.refuse = func(verb, k string) error {
				if k == kind && !refused {
					refused = true
					return errors.New("etcdserver: leader changed")
				}
				return forbidden(verb, k)
			}
			if err := l.reconcile(); err == nil || l.get() == nil {
				t.Fatalf("nothing was refused: %v", err)
			}
			if l.tick(l.without()); l.get() != nil {
				t.Fatalf("it is still there: %s", l.message(v1alpha1.ConditionReady))
			}
			if left := l.orphans(); len(left) != 1 || !strings.Contains(left[0].Error, "no rights") {
				t.Errorf("the ConfigMap tells of %+v", left)
			}
		})
	}
}

// So is a kind that cannot be listed.
func TestUnlistableKind(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
	l.until(v1alpha1.PhaseProvisioning)
	l.kinds[crossplane.GKEClusterGVK] = kube.KindSyncing
	l.remove()
	l.listErrors["GKECluster"] = errors.New("conversion webhook failed")
	l.tick()
	l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonReconcileError)
	l.later(31 * time.Minute)
	l.tick()
	left := l.orphans()
	if l.get() != nil || len(left) != 1 || left[0].Kind != "GKECluster" || left[0].Name == "" || !strings.Contains(left[0].Error, "conversion webhook failed") {
		t.Errorf("the ConfigMap tells of %+v", left)
	}
}

// A manager that looks in the wrong namespaces knows nothing of what would be left behind.
func TestMovedIsNeverReleased(t *testing.T) {
	l := tutorial(t)
	l.settle(l.play)
	l.remove()
	l.reconciler.Options.ClaimNamespace = "elsewhere"
	l.later(24 * time.Hour)
	l.tick()
	if l.get() == nil || len(l.orphans()) > 0 {
		t.Error("it is released")
	}
}

// It is not released without a trace.
func TestNotReleasedWithoutATrace(t *testing.T) {
	l := tutorial(t)
	l.settle(l.play)
	l.remove()
	l.settle(l.without(crossplane.GKEClusterGVK))
	l.forbid("", "ConfigMap")
	l.later(31 * time.Minute)
	l.tick()
	l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonForbidden)
	if m := l.message(v1alpha1.ConditionReady); !strings.Contains(m, "ConfigMap labkeeper-system/orphans-tutorial-") {
		t.Errorf("it does not say what it may not: %s", m)
	}
	if l.tellsOfOrphans() {
		t.Error("an Event tells of what has not happened")
	}
	l.refuse = nil
	l.tick()
	if l.get() != nil || len(l.orphans()) != 1 {
		t.Error("it stays")
	}
}

// Nor over somebody else's ConfigMap.
func TestNote40ForeignConfigMapOfTheName(t *testing.T) {
	l := tutorial(t)
	l.settle(l.play)
	key := names{l.get(), l.reconciler.Options}.orphans()
	l.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Data: map[string]string{"theirs": "x"}})
	l.remove()
	l.settle(l.without(crossplane.GKEClusterGVK))
	l.later(31 * time.Minute)
	l.tick()
	l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNameTaken)
	theirs := &corev1.ConfigMap{}
	if err := l.client.Get(t.Context(), key, theirs); err != nil || len(theirs.Data) != 1 || theirs.Data["theirs"] != "x" || len(theirs.Labels) > 0 {
		t.Errorf("theirs is %+v: %v", theirs, err)
	}
}

// What is left in the cache hides nothing that the cache cannot see: not a cluster behind a namespace.
func TestNothingIsHiddenBehindWhatIsLeft(t *testing.T) {
	for _, state := range []kube.KindState{kube.KindSyncing, kube.KindUnserved} {
		l := tutorial(t)
		l.settle(l.play)
		e := l.get()
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: names{e, l.reconciler.Options}.deployed(e.Spec.Targets[1]), Finalizers: []string{"example.com/stuck"}}}
		marks.Set(e, namespace)
		l.create(namespace)
		l.kinds[crossplane.GKEClusterGVK] = state
		l.remove()
		l.tick(l.without())
		if state == kube.KindSyncing {
			if left := l.list(crossplane.GKEClusterGVK); len(left) > 0 {
				t.Error("the cluster is not asked to go")
			}
			continue
		}
		l.later(31 * time.Minute)
		l.tick()
		l.later(62 * time.Minute)
		l.tick()
		left := l.orphans()
		if !slices.ContainsFunc(left, func(o orphan) bool { return o.Kind == "GKECluster" && o.Name != "" }) {
			t.Errorf("the ConfigMap tells of %+v", left)
		}
	}
}

// Its time is over, whatever cannot be read.
func TestTerminatedExpires(t *testing.T) {
	l := tutorial(t)
	l.settle(l.play)
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Terminate = true })
	l.kinds[crossplane.GKEClusterGVK] = kube.KindSyncing
	l.listErrors["GKECluster"] = errors.New("conversion webhook failed")
	l.tick(l.without())
	l.expect(v1alpha1.ConditionCleanedUp, metav1.ConditionFalse, v1alpha1.ReasonReconcileError)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
	l.clock.SetTime(epoch.Add(24 * time.Hour))
	l.tick()
	if l.get().DeletionTimestamp == nil {
		t.Error("it stays when its time is over")
	}
}

// What cannot be seen is looked for again, also when nothing is given up.
func TestUnseenIsLookedForWhileBlocked(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Deletion = &v1alpha1.Deletion{Policy: v1alpha1.DeletionBlock} })
	l.until(v1alpha1.PhaseProvisioning)
	l.kinds[crossplane.GKEClusterGVK] = kube.KindSyncing
	l.listErrors["GKECluster"] = errors.New("conversion webhook failed")
	l.remove()
	l.tick()
	l.later(time.Hour)
	if wait := l.pass(); wait != lastLook {
		t.Errorf("it is looked at after %s", wait)
	}
	l.listErrors["GKECluster"] = nil
	l.settle(l.play)
	if l.get() != nil {
		t.Errorf("it is still there: %s", l.message(v1alpha1.ConditionReady))
	}
}

// A cluster that cannot be read keeps its own Application, and nothing else.
func TestUnreadableClusterKeepsNothingElse(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE), targetOf("other", v1alpha1.ClusterGKE)), nginx(), template())
	l.settle(l.play)
	l.remove()
	l.settle(l.without(argocd.ApplicationGVK, crossplane.GKEClusterGVK))
	apps := l.list(argocd.ApplicationGVK)
	l.reconciler.Foreign = before{never{l.client}, apps[:1]}
	l.getErrors["GKECluster"] = errors.New("conversion webhook failed")
	l.tick()
	l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDeleting)
	if len(l.list(argocd.ApplicationGVK)[0].GetFinalizers()) == 0 {
		t.Error("the Application is let go")
	}
}

// Dependencies that were changed to a cycle keep nothing.
func TestCycleBesideAStuckApplication(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("a", v1alpha1.ClusterGKE), targetOf("b", v1alpha1.ClusterGKE), targetOf("c", v1alpha1.ClusterGKE)), nginx(), template())
	l.settle(l.play)
	l.edit(func(e *v1alpha1.Experiment) {
		e.Spec.Targets[0].Depends, e.Spec.Targets[1].Depends = []string{"b"}, []string{"a"}
	})
	l.remove()
	l.settle(l.without(argocd.ApplicationGVK))
	apps := l.list(argocd.ApplicationGVK)
	if len(apps) != 3 {
		t.Errorf("there are %d, and none may go without Argo CD", len(apps))
	}
	for _, app := range apps {
		if !going(&app) {
			t.Errorf("%s is not asked to go", app.GetName())
		}
	}
}

// What may not be deleted holds the clusters up for its share of the time alone, and those of an
// Experiment that somebody ends, too.
func TestRefusedWorkflowDoesNotKeepTheCluster(t *testing.T) {
	for name, end := range map[string]func(*lab){
		"deleted":    (*lab).remove,
		"terminated": func(l *lab) { l.edit(func(e *v1alpha1.Experiment) { e.Spec.Terminate = true }) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
			l.settle(l.play)
			l.clock.SetTime(epoch.Add(time.Minute))
			end(l)
			l.forbid("delete", "Workflow")
			l.tick(l.without())
			l.clock.SetTime(epoch.Add(8 * time.Minute))
			l.tick(l.without())
			if len(l.list(crossplane.GKEClusterGVK)) == 0 {
				t.Fatal("the cluster goes before the Workflow had its time")
			}
			l.clock.SetTime(epoch.Add(9 * time.Minute))
			l.tick(l.without())
			if len(l.list(crossplane.GKEClusterGVK)) > 0 {
				t.Error("the cluster is kept")
			}
		})
	}
}

// argo lets go, with nothing deleted, what is on a cluster that is not registered, as Argo CD does.
func (l *lab) argo() bool {
	if len(l.list(argocd.SecretGVK)) > 0 {
		return false
	}
	moved := false
	for _, app := range l.list(argocd.ApplicationGVK) {
		moved = l.finalize(&app) || moved
	}
	return moved
}

// The registration of an existing cluster stays as long as an Application on it, or Argo CD would let that go and leave what it
// deployed; and both are told of when the Experiment is released.
func TestRegistrationOfAStuckApplication(t *testing.T) {
	for _, policy := range []v1alpha1.DeletionPolicy{v1alpha1.DeletionBlock, v1alpha1.DeletionRelease} {
		l := newLab(t, onExisting(staging(kubeconfig))...)
		l.edit(func(e *v1alpha1.Experiment) { e.Spec.Deletion = &v1alpha1.Deletion{Policy: policy} })
		l.settle(l.play)
		l.disconnect("ComparisonError", "the server has asked for the client to provide credentials")
		l.remove()
		hold := l.without(argocd.ApplicationGVK)
		for _, minute := range []time.Duration{0, 8, 20, 31, 40, 70} {
			l.later(minute * time.Minute)
			l.tick(hold, l.argo)
		}
		if policy == v1alpha1.DeletionBlock {
			if looks := l.pass(); looks < lastLook {
				t.Errorf("it is looked for in %s, for ever", looks)
			}
		}
		if left, apps := len(l.list(argocd.SecretGVK)), len(l.list(argocd.ApplicationGVK)); left != 1 || apps != 1 {
			t.Errorf("%s: %d cluster Secrets, and %d Applications", policy, left, apps)
		}
		var told []string
		for _, o := range l.orphans() {
			told = append(told, o.Kind)
		}
		if e := l.get(); policy == v1alpha1.DeletionBlock {
			if e == nil || len(told) > 0 {
				t.Fatalf("%s: it is %+v, and tells of %v", policy, e, told)
			}
			l.tick(l.without()) // its cluster can be reached again
			if l.get() != nil || len(l.ours()) > 0 {
				t.Errorf("%s: it stays, and %v", policy, kindsLeft(l.ours()))
			}
		} else if slices.Sort(told); e != nil || !slices.Equal(told, []string{"Application", "Secret"}) {
			t.Errorf("%s: it is %+v, and tells of %v", policy, e, told)
		}
	}
}

// Whether the cluster of an Application that is being deleted is gone is looked for again soon, where it could not be read: nobody
// tells of it any more, and Argo CD cannot let the Application go.
func TestClusterThatIsGoneAndCannotBeRead(t *testing.T) {
	for kind, prepare := range map[string]func(*testing.T) (*lab, *unstructured.Unstructured){
		"GKECluster": func(t *testing.T) (*lab, *unstructured.Unstructured) {
			l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
			l.settle(l.play)
			return l, &l.list(crossplane.GKEClusterGVK)[0]
		},
		"Cluster": func(t *testing.T) (*lab, *unstructured.Unstructured) {
			l := onReferred(t, k3("u-1"), registrationFor(k3("u-1"), ""))
			l.settle(l.play)
			return l, l.reread(k3("u-1"))
		},
	} {
		t.Run(kind, func(t *testing.T) {
			l, cluster := prepare(t)
			l.stuck = "Application"
			l.remove()
			l.tick(l.play)
			app := l.list(argocd.ApplicationGVK)[0]
			if app.GetDeletionTimestamp() == nil || len(app.GetFinalizers()) == 0 {
				t.Fatal("the Application does not wait for Argo CD")
			}
			l.update(withoutFinalizers(cluster))
			l.deleteObject(cluster)
			times := 1
			l.reconciler.Live = flaky{l.client, kind, &times}
			if wait := l.pass(); times > 0 || wait <= 0 || wait > leftoverDelay {
				t.Errorf("it looks again after %s, when %d reads have not failed", wait, times)
			}
			l.settle(l.play)
			if l.get() != nil {
				t.Error("it does not go")
			}
		})
	}
}
