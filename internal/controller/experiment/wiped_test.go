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

// The record of the start is made anew as soon as anything is seen, whether the spec can be acted on or not: without it the schema lets
// a target go, or be another.
func TestRecordTakenAwayWhileSuspended(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.Experiment){
		"a target is removed": func(e *v1alpha1.Experiment) { e.Spec.Targets = e.Spec.Targets[:1] },
		"a type is changed": func(e *v1alpha1.Experiment) {
			e.Spec.Targets[1].Cluster = v1alpha1.ClusterSpec{Type: v1alpha1.ClusterHub}
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, experimentOf(targetOf("a", v1alpha1.ClusterGKE), targetOf("b", v1alpha1.ClusterGKE)), nginx(), template())
			l.settle(l.validating)
			l.edit(func(e *v1alpha1.Experiment) { e.Spec.Suspend = true })
			l.mustReconcile()
			l.unrecorded()
			l.mustReconcile()
			after := l.get()
			change(after)
			if broken := brokenRules(t, l.get(), after); !strings.Contains(broken, "once the Experiment has started") {
				t.Errorf("two clusters are there, and the schema says %q", broken)
			}
		})
	}
}

// What whoever wipes a status wakes must not write by which it looks as if nothing had been begun.
func TestRecordTakenAwayAndLookedAt(t *testing.T) {
	for _, state := range []kube.KindState{kube.KindSyncing, kube.KindMissing} {
		for end, ends := range map[string]func(*lab){
			"deleted":    func(l *lab) { _ = l.reconcile(); l.remove() },
			"terminated": func(l *lab) { l.edit(func(e *v1alpha1.Experiment) { e.Spec.Terminate = true }) },
			"deleted while nothing can be listed": func(l *lab) {
				l.listErrors["GKECluster"] = errors.New("conversion webhook failed")
				_ = l.reconcile()
				l.remove()
				_ = l.reconcile()
				delete(l.listErrors, "GKECluster")
			},
		} {
			t.Run(fmt.Sprintf("%s, the kind is %v", end, state), func(t *testing.T) {
				l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
				l.until(v1alpha1.PhaseProvisioning)
				l.kinds[crossplane.GKEClusterGVK] = state
				l.unrecorded()
				ends(l)
				l.settle(l.play)
				n, e := len(l.list(crossplane.GKEClusterGVK)), l.get()
				if n > 0 && (e == nil || recordedStep(e.Status.Conditions, v1alpha1.ConditionCleanedUp).Status == metav1.ConditionTrue) {
					t.Errorf("%d claims are there, and nothing is said of them", n)
				}
			})
		}
	}
}

// Somebody has taken the label by which an Application says its target, and the cache of Applications is not filled.
func TestApplicationWithoutItsTarget(t *testing.T) {
	for _, cluster := range []v1alpha1.ClusterType{v1alpha1.ClusterHub, v1alpha1.ClusterGKE} {
		t.Run(string(cluster), func(t *testing.T) {
			l := newLab(t, experimentOf(targetOf("app", cluster)), nginx(), template())
			l.settle(l.play)
			l.unlabel(argocd.ApplicationGVK, v1alpha1.LabelTarget)
			l.kinds[argocd.ApplicationGVK] = kube.KindSyncing
			l.remove()
			l.settle(l.play)
			if left := l.ours(); len(left) > 0 {
				t.Errorf("%v are left", kindsLeft(left))
			}
		})
	}
}

// unlabel takes a label off all objects of a kind.
func (l *lab) unlabel(gvk schema.GroupVersionKind, label string) {
	l.t.Helper()
	for _, o := range l.list(gvk) {
		labels := o.GetLabels()
		delete(labels, label)
		o.SetLabels(labels)
		l.update(&o)
	}
}

// A manager whose clock was ahead has begun a teardown; the next one has the right time.
func TestTeardownBegunInTheFuture(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
	l.settle(l.play)
	l.remove()
	l.later(365 * day)
	l.tick(l.without(argocd.ApplicationGVK))
	l.reconciler.refusals = refusals{}
	for minute := range 20 {
		l.later(time.Duration(minute) * time.Minute)
		_ = l.reconcile()
		l.without(argocd.ApplicationGVK)()
	}
	for _, claim := range l.list(crossplane.GKEClusterGVK) {
		if !going(&claim) {
			t.Errorf("20 minutes later the cluster has not been asked to go: %+v", l.get().Status.Teardown)
		}
	}
}

// What is created again each time that it is gone has its share of the deadline once.
func TestCreatedAgainAndAgain(t *testing.T) {
	for name, gvk := range map[string]schema.GroupVersionKind{
		"Workflow": argoworkflows.WorkflowGVK, "Application": argocd.ApplicationGVK, "claim": crossplane.GKEClusterGVK,
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
			l.settle(l.play)
			again := l.list(gvk)[0]
			l.remove()
			for minute := range 40 {
				l.later(time.Duration(minute) * time.Minute)
				for range 3 {
					if l.get() != nil {
						_ = l.reconcile()
					}
					l.letGo(func(*unstructured.Unstructured) bool { return true })
					l.createAgain(again)
				}
			}
			if l.get() != nil {
				t.Errorf("40 minutes later, with a deadline of 30, it is there: %s", l.message(v1alpha1.ConditionReady))
			}
			if gvk != crossplane.GKEClusterGVK && len(l.list(crossplane.GKEClusterGVK)) > 0 {
				t.Error("its cluster is there")
			}
		})
	}
}

// createAgain creates what was there before, as long as the Experiment is.
func (l *lab) createAgain(o unstructured.Unstructured) {
	l.t.Helper()
	there, err := kube.Get(l.t.Context(), l.client, o.GroupVersionKind(), keyOf(&o))
	if err != nil {
		l.t.Fatal(err)
	}
	if there != nil || l.get() == nil {
		return
	}
	u := o.DeepCopy()
	u.SetResourceVersion("")
	u.SetFinalizers(nil)
	u.SetUID("")
	l.create(u)
}

// What machines are made by is not deleted under a cluster that is somebody else's now, nor the namespace that it is in.
func TestClusterOfSeveralObjectsThatSomebodyKeeps(t *testing.T) {
	for name, lab := range map[string]func(*testing.T) *lab{"vcluster": onVCluster, "talos": onTalos} {
		for _, all := range []bool{false, true} {
			if all && name == "talos" {
				continue // what is not ours is not looked at
			}
			t.Run(fmt.Sprintf("%s, all of it %t", name, all), func(t *testing.T) {
				l := lab(t)
				l.settle(l.play)
				l.unlabel(capi.ClusterGVK, v1alpha1.LabelExperimentUID)
				if all {
					l.unlabel(capi.VClusterGVK, v1alpha1.LabelExperimentUID)
				}
				l.remove()
				l.settle(l.play)
				if e := l.get(); e != nil {
					t.Fatalf("it is not let go: %s", l.message(v1alpha1.ConditionReady))
				}
				for _, w := range l.writes {
					if verb, kind, _ := strings.Cut(w, " "); verb == "delete" && !slices.Contains([]string{"Workflow", "Application", "Secret"}, kind) {
						t.Errorf("%s is deleted under the Cluster, which stays", kind)
					}
				}
				if left := l.orphans(); len(left) == 0 || !strings.Contains(left[0].Error, "taken the label") {
					t.Errorf("told is of %v", left)
				}
				if !l.tellsOfOrphans() {
					t.Error("no Event tells of it")
				}
			})
		}
	}
}

// What somebody keeps wakes nobody when another cluster shows that the cache did not have: it is looked for before the Experiment goes.
func TestClusterThatSomebodyKeepsBesideOneThatIsNotSeen(t *testing.T) {
	kept := targetOf("app", v1alpha1.ClusterVCluster)
	kept.Cluster.VCluster = &v1alpha1.VCluster{Values: "sync: {}\n"}
	l := newLab(t, experimentOf(kept, targetOf("web", v1alpha1.ClusterGKE)), nginx(), template())
	l.settle(l.play)
	l.unlabel(capi.ClusterGVK, v1alpha1.LabelExperimentUID)
	l.reconciler.Foreign = claimsUnseen{l.client}
	l.remove()
	l.tick(l.without(crossplane.GKEClusterGVK))
	if l.get() == nil {
		t.Fatal("it is gone before the claim")
	}
	if claims := l.list(crossplane.GKEClusterGVK); len(claims) != 1 || !going(&claims[0]) {
		t.Errorf("nobody has asked the claim to go: %s", l.message(v1alpha1.ConditionReady))
	}
	l.tick(l.without())
	if left := l.orphans(); l.get() != nil || len(left) == 0 || !strings.Contains(left[0].Error, "taken the label") {
		t.Errorf("when that is gone, told is of %v, and the Experiment is %v", left, l.get())
	}
}

// claimsUnseen is a cache that has no claims yet.
type claimsUnseen struct{ client.Reader }

func (u claimsUnseen) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if kindOf(o) == crossplane.GKEClusterGVK.Kind {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "gkeclusters"}, key.Name)
	}
	return u.Reader.Get(ctx, key, o, opts...)
}

// unlabelledUnseen is a cache that does not have what is not labelled as an Experiment's.
type unlabelledUnseen struct{ client.Reader }

func (u unlabelledUnseen) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := u.Reader.Get(ctx, key, o, opts...)
	if err == nil && kindOf(o) == "GKECluster" && o.GetLabels()[v1alpha1.LabelExperimentUID] == "" {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "gkeclusters"}, key.Name)
	}
	return err
}

// A claim that somebody has taken our label off stays, costs, and is told of, unless it had been asked to go before.
func TestClaimThatSomebodyKeeps(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
	l.settle(l.play)
	was := l.list(crossplane.GKEClusterGVK)[0]
	l.unlabel(crossplane.GKEClusterGVK, v1alpha1.LabelExperimentUID)
	l.reconciler.Foreign = unlabelledUnseen{l.client}
	l.remove()
	l.settle(l.play)
	if e := l.get(); e != nil {
		t.Fatalf("it is not let go: %s", l.message(v1alpha1.ConditionReady))
	}
	if claim, err := kube.Get(t.Context(), l.client, crossplane.GKEClusterGVK, keyOf(&was)); err != nil || claim == nil || going(claim) {
		t.Errorf("the claim is %v (%v)", claim, err)
	}
	if left := l.orphans(); len(left) != 1 || left[0].Name != was.GetName() || !strings.Contains(left[0].Error, "taken the label") {
		t.Errorf("told is of %v", left)
	}
}

// A terminated Experiment stays, and says what stays of its cluster.
func TestTerminatedWhereSomebodyKeepsTheCluster(t *testing.T) {
	l := onVCluster(t)
	l.settle(l.play)
	l.unlabel(capi.ClusterGVK, v1alpha1.LabelExperimentUID)
	l.edit(func(e *v1alpha1.Experiment) { e.Spec.Terminate = true })
	l.settle(l.play)
	if c := recordedStep(l.get().Status.Conditions, v1alpha1.ConditionCleanedUp); c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "gone but VCluster") {
		t.Errorf("CleanedUp is %s: %s", c.Status, c.Message)
	}
}

// comesBack has another Experiment of the name, with some finalizers, in the place of the one, which is forced away.
func (l *lab) comesBack(finalizers []string) {
	l.t.Helper()
	again := experimentOf(l.get().Spec.Targets...)
	again.UID, again.Finalizers = "99999999-2222-3333-4444-555555555555", finalizers
	l.forceAway()
	l.create(again)
	l.settle(l.play)
}

// What is deployed on a cluster of others goes on beside that of the Experiment that has the name now.
func TestApplicationsOfAnotherExperimentOfTheName(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("web", v1alpha1.ClusterHub)), nginx(), template())
	l.settle(l.play)
	app := l.list(argocd.ApplicationGVK)[0].GetName()
	l.comesBack(nil)
	if !slices.ContainsFunc(l.drain(), func(e string) bool {
		return strings.Contains(e, v1alpha1.ReasonOrphansLeft) && strings.Contains(e, app)
	}) {
		t.Error("no Event at the start tells of it")
	}
	l.remove()
	l.settle(l.play)
	if left := l.orphans(); l.get() != nil || len(left) != 1 || left[0].Name != app {
		t.Errorf("the Experiment is gone: %t, and told is of %v", l.get() == nil, left)
	}
}

// Somebody restores a hub from a backup, or takes the finalizer off: the clusters of before are nobody's, and that is told at the
// beginning and at the end.
func TestClustersOfAnotherExperimentOfTheName(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
	l.settle(l.play)
	claim := l.list(crossplane.GKEClusterGVK)[0].GetName()
	l.comesBack(l.get().Finalizers)
	told := func() bool {
		return slices.ContainsFunc(l.drain(), func(e string) bool {
			return strings.Contains(e, v1alpha1.ReasonOrphansLeft) && strings.Contains(e, claim)
		})
	}
	if !told() {
		t.Error("no Event at the start tells of it")
	}
	l.remove()
	l.settle(l.play)
	if left := l.orphans(); l.get() != nil || len(left) != 1 || left[0].Name != claim || !told() {
		t.Errorf("the Experiment is gone: %t, and told is of %v", l.get() == nil, left)
	}
}

// A good verdict rests on what there is and on what the server says, with spec.terminate, too.
func TestTerminateWithoutWhatItsWorkflowValidated(t *testing.T) {
	for name, spoil := range map[string]func(*lab){
		"the cluster is lost, and the cache behind": func(l *lab) {
			were := append(l.list(crossplane.GKEClusterGVK), l.list(argocd.ApplicationGVK)...)
			l.delete(crossplane.GKEClusterGVK)
			for _, claim := range l.list(crossplane.GKEClusterGVK) {
				l.finalize(&claim)
			}
			l.reconciler.Foreign = before{l.client, were}
		},
		"other sources are deployed": func(l *lab) {
			app := l.list(argocd.ApplicationGVK)[0]
			_ = unstructured.SetNestedSlice(app.Object, []any{map[string]any{"repoURL": "https://git.example.com/other", "path": "x"}}, "spec", "sources")
			l.update(&app)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
			l.settle(l.validating)
			workflow := l.list(argoworkflows.WorkflowGVK)[0]
			spoil(l)
			l.succeed(&workflow)
			l.edit(func(e *v1alpha1.Experiment) { e.Spec.Terminate = true })
			_ = l.reconcile()
			e := l.get()
			if c := recordedStep(e.Status.Conditions, v1alpha1.ConditionWorkflowSucceeded); e.Status.CompletedAt == nil || c.Reason != v1alpha1.ReasonTerminated {
				t.Errorf("it has ended at %v, and %s: %s", e.Status.CompletedAt, c.Reason, c.Message)
			}
		})
	}
}

// spec.terminate, and the end of a target's own time, of an Experiment whose status does not fit.
func TestEndsThatNoStatusHas(t *testing.T) {
	for _, end := range []string{"terminate", "target"} {
		t.Run(end, func(t *testing.T) {
			l := newLab(t, experimentOf(goingAfter(time.Minute, targetOf("app", v1alpha1.ClusterGKE))), nginx(), template())
			if end == "terminate" {
				l.settle(l.validating)
				l.edit(func(e *v1alpha1.Experiment) { e.Spec.Terminate = true })
			} else {
				l.settle(l.play)
			}
			l.reconciler.Client = bounded{l.client, 10}
			for minute := range 30 {
				l.later(time.Duration(minute) * time.Minute)
				_ = l.reconcile()
				l.play()
			}
			if claims := l.list(crossplane.GKEClusterGVK); len(claims) > 0 {
				t.Errorf("half an hour later the cluster is there, asked to go: %t", going(&claims[0]))
			}
		})
	}
}

// GKE moves no cluster, and the claim stays Ready.
func TestZoneOfAClusterThatIsThere(t *testing.T) {
	of := func(zone string, preemptible *bool) *v1alpha1.Experiment {
		target := targetOf("app", v1alpha1.ClusterGKE)
		target.Cluster.Zone, target.Cluster.Preemptible = zone, preemptible
		e := experimentOf(target)
		e.Status.StartedAt = timestamp(epoch)
		return e
	}
	yes, no := true, false
	for _, refused := range [][2]*v1alpha1.Experiment{
		{of("europe-west4-a", nil), of("us-east1-b", nil)}, {of("", nil), of("us-east1-b", nil)}, {of("us-east1-b", nil), of("", nil)}, {of("", &yes), of("", nil)},
	} {
		if broken := brokenRules(t, refused[0], refused[1]); !strings.Contains(broken, "zone, preemptible") {
			t.Errorf("%+v and %+v: %q", refused[0].Spec.Targets[0].Cluster, refused[1].Spec.Targets[0].Cluster, broken)
		}
	}
	if broken := brokenRules(t, of("", &no), of("us-central1-a", nil)); broken != "" {
		t.Errorf("what the defaults are is refused: %s", broken)
	}
}

// An Application takes with it what it deployed, also where somebody has taken off the finalizer by which Argo CD knows.
func TestApplicationThatLostItsFinalizer(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterHub)), nginx(), template())
	l.until(v1alpha1.PhaseRunning)
	l.spoil(argocd.ApplicationGVK, func(app *unstructured.Unstructured) { app.SetFinalizers([]string{"example.com/other"}) })
	l.remove()
	l.tick(l.without(argocd.ApplicationGVK))
	apps := l.list(argocd.ApplicationGVK)
	if len(apps) != 1 || !going(&apps[0]) || len(apps[0].GetFinalizers()) != 2 || argocd.Cascade(&apps[0]) != nil {
		t.Errorf("left are %v", apps)
	}
}
