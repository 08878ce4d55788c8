package experiment

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/argoworkflows"
	"github.com/labkeeper/labkeeper/internal/external/crossplane"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// What is only labelled like a child stays: a copy that somebody has made, labels included, and a
// namespace that Argo CD has labelled because somebody has pointed an Application at it.
func TestNote40OnlyChildrenOfTheRightNameAreDeleted(t *testing.T) {
	l := tutorial(t)
	l.until(v1alpha1.PhaseRunning)
	var copies []client.Object
	for _, gvk := range foreignKinds {
		for _, child := range l.list(gvk) {
			if child.GetLabels()[v1alpha1.LabelExperimentUID] == "" {
				continue
			}
			c := child.DeepCopy()
			c.SetName("a-copy-of-" + c.GetName())
			c.SetResourceVersion("")
			copies = append(copies, c)
		}
	}
	if len(copies) < 4 {
		t.Fatalf("there are %d kinds of children", len(copies))
	}
	team := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team", Labels: l.list(argocd.ApplicationGVK)[0].GetLabels()}}
	copies = append(copies, team)
	for _, c := range copies {
		l.create(c)
	}
	l.remove()
	l.settle(l.play)
	if l.get() != nil {
		t.Error("the teardown waits for what is not the Experiment's")
	}
	for _, c := range copies {
		if err := l.client.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil || c.GetDeletionTimestamp() != nil {
			t.Errorf("%s %s: deleted (%v)", c.GetObjectKind().GroupVersionKind().Kind, c.GetName(), err)
		}
	}
}

// A hash of eight characters can be searched for the name of a namespace that is there. Argo CD would label that, and the teardown take it
// down; a cache that has not seen it is no excuse.
func TestNamespaceOfOthersOnTheHub(t *testing.T) {
	for name, policy := range map[string]v1alpha1.ApplicationPolicy{"one Application": "", "of each component": v1alpha1.ApplicationPerComponent} {
		for seen, unseen := range map[string]bool{"seen": false, "unseen": true} {
			t.Run(name+", "+seen, func(t *testing.T) {
				target := targetOf("app", v1alpha1.ClusterHub)
				target.ApplicationPolicy = policy
				l := newLab(t, experimentOf(target), nginx(), template())
				if unseen {
					l.reconciler.Client = without{l.client, "Namespace"}
				}
				theirs := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
					Name: names{l.get(), l.reconciler.Options}.onHub(target), Labels: map[string]string{enforceLabel: "baseline"},
				}}
				l.create(theirs)
				l.tick(l.play)
				l.expect(v1alpha1.ConditionApplicationsHealthy, metav1.ConditionFalse, v1alpha1.ReasonNameTaken)
				if m := l.message(v1alpha1.ConditionReady); !strings.Contains(m, "Namespace "+theirs.Name+" exists") || strings.Contains(m, "delete or rename it") {
					t.Errorf("it says %q", m)
				}
				if apps := l.list(argocd.ApplicationGVK); len(apps) > 0 {
					t.Errorf("there is %s", kube.Describe(&apps[0]))
				}
				l.remove()
				l.settle(l.play)
				err := l.client.Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs)
				if l.get() != nil || err != nil || theirs.DeletionTimestamp != nil || len(theirs.Labels) != 1 {
					t.Errorf("the Experiment is %v, the namespace %v: %v", l.get(), theirs, err)
				}
			})
		}
	}
}

// What Argo CD has made for the Experiment is its own, also where its Application has gone, and one that cannot be read is not known to be.
func TestNamespaceOfItsOwnOnTheHub(t *testing.T) {
	target := targetOf("app", v1alpha1.ClusterHub)
	l := newLab(t, experimentOf(target), nginx(), template())
	own := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:   names{l.get(), l.reconciler.Options}.onHub(target),
		Labels: map[string]string{enforceLabel: "baseline", v1alpha1.LabelExperimentUID: string(l.get().UID)},
	}}
	l.create(own)
	l.reconciler.Live = unreadable{l.client, "Namespace"}
	l.tick(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonReconcileError)
	if apps := l.list(argocd.ApplicationGVK); len(apps) > 0 {
		t.Errorf("there is %s", kube.Describe(&apps[0]))
	}
	l.reconciler.Live = l.client
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
}

// Nor is a cluster registered by the name of another, which an author can search for, too: of two of one name Argo CD uses neither.
func TestClusterByTheNameOfAnother(t *testing.T) {
	l := newLab(t, onExisting(staging(kubeconfig))...)
	e := l.get()
	called := names{e, l.reconciler.Options}.registration(e.Spec.Targets[0], nil)
	theirs := registrationOf(t, called, strings.Replace(kubeconfig, "203.0.113.10", "203.0.113.99", 1))
	l.create(theirs)
	l.tick(l.play)
	l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonNameTaken)
	if m := l.message(v1alpha1.ConditionClustersReady); !strings.Contains(m, "Argo CD calls another cluster "+called+", by Secret argocd/"+called) {
		t.Errorf("it says %q", m)
	}
	if n := len(l.list(argocd.SecretGVK)) + len(l.list(argocd.ApplicationGVK)); n > 0 {
		t.Errorf("%d objects were made", n)
	}
	l.create(registrationOf(t, "another", strings.Replace(kubeconfig, "203.0.113.10", "203.0.113.98", 1)))
	if err := l.client.Delete(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
}

// Replacing a manifest takes the finalizer off and changes no generation.
func TestALostFinalizerIsSeen(t *testing.T) {
	with := &v1alpha1.Experiment{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{v1alpha1.Finalizer}}}
	going := &v1alpha1.Experiment{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: epoch}}}
	for name, test := range map[string]struct {
		after *v1alpha1.Experiment
		want  bool
	}{"lost": {&v1alpha1.Experiment{}, true}, "kept": {with, false}, "taken off at the end": {going, false}} {
		if got := kube.Unprotected(v1alpha1.Finalizer).Update(event.UpdateEvent{ObjectOld: with, ObjectNew: test.after}); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	l := tutorial(t)
	l.until(v1alpha1.PhaseRunning)
	e := l.get()
	e.Finalizers = nil
	l.update(e)
	if err := l.reconcile(); err != nil {
		t.Fatal(err)
	}
	if got := l.get().Finalizers; len(got) != 1 {
		t.Errorf("finalizers are %v", got)
	}
}

// A success whose cluster or Application is on its way out waits, says so, and is not forgotten
// when the Workflow is collected; then the new cluster gets what was validated.
func TestSuccessWhileAChildGoes(t *testing.T) {
	for kind, gvk := range map[string]struct{ going, gone func(*lab) }{
		"claim": {
			func(l *lab) { l.delete(crossplane.GKEClusterGVK) },
			func(l *lab) {
				claim := l.list(crossplane.GKEClusterGVK)[0]
				l.finalize(&claim)
			},
		},
		"Application": {
			func(l *lab) { l.delete(argocd.ApplicationGVK) },
			func(l *lab) {
				for _, app := range l.list(argocd.ApplicationGVK) {
					l.finalize(&app)
				}
			},
		},
	} {
		t.Run(kind, func(t *testing.T) {
			l := tutorial(t)
			l.until(v1alpha1.PhaseRunning)
			gvk.going(l)
			workflow := l.list(argoworkflows.WorkflowGVK)[0]
			l.succeed(&workflow)
			for range 2 {
				if err := l.reconcile(); err != nil {
					t.Fatal(err)
				}
				l.expect(v1alpha1.ConditionWorkflowSucceeded, metav1.ConditionFalse, v1alpha1.ReasonTargetsNotSettled)
			}
			l.delete(argoworkflows.WorkflowGVK)
			for _, w := range l.list(argoworkflows.WorkflowGVK) {
				l.finalize(&w)
			}
			gvk.gone(l)
			for range 3 { // the child is asked for again, and is not up yet
				if err := l.reconcile(); err != nil {
					t.Fatal(err)
				}
				if at := l.get().Status.CompletedAt; at != nil {
					t.Fatalf("the verdict is given while %s is not there", kind)
				}
			}
			l.settle(l.play)
			l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
			l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionTrue, v1alpha1.ReasonClustersReady)
			l.expect(v1alpha1.ConditionApplicationsHealthy, metav1.ConditionTrue, v1alpha1.ReasonApplicationsHealthy)
		})
	}
}

// Somebody who keeps changing a claim keeps the verdict away, and is told of.
func TestSuccessWhileAClaimIsChanged(t *testing.T) {
	l := tutorial(t)
	l.until(v1alpha1.PhaseRunning)
	workflow := l.list(argoworkflows.WorkflowGVK)[0]
	l.succeed(&workflow)
	claim := l.list(crossplane.GKEClusterGVK)[0]
	if err := unstructured.SetNestedField(claim.Object, int64(9), "spec", "nodeCount"); err != nil {
		t.Fatal(err)
	}
	l.update(&claim)
	if err := l.reconcile(); err != nil {
		t.Fatal(err)
	}
	l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonTargetsNotSettled)
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
}

// A Workflow does not validate a cluster that is being changed in the same pass.
func TestClaimChangedInTheMomentOfHealth(t *testing.T) {
	l := tutorial(t)
	l.until(v1alpha1.PhaseReady)
	for l.get().Status.Workflow == nil {
		l.edit(func(e *v1alpha1.Experiment) {
			count := int32(2)
			if e.Spec.Targets[0].Cluster.NodeCount != nil {
				count = *e.Spec.Targets[0].Cluster.NodeCount + 1
			}
			e.Spec.Targets[0].Cluster.NodeCount = &count
		})
		before := len(l.writes)
		if err := l.reconcile(); err != nil {
			t.Fatal(err)
		}
		for _, w := range l.writes[before:] {
			if w == "create Workflow" {
				t.Fatalf("it is submitted in the pass that changes the cluster: %v", l.writes[before:])
			}
		}
		if !l.play() {
			break
		}
	}
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
}

// What protects an object answers with the code of a conflict and lasts.
func TestProtectedClaimIsToldOf(t *testing.T) {
	l := tutorial(t)
	l.until(v1alpha1.PhaseReady)
	l.remove()
	refusal := &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusConflict, Reason: "This resource is in-use by 1 usage(s)",
		Message: "admission webhook denied the request: This resource is in-use by 1 usage(s)",
	}}
	if !apierrors.IsConflict(refusal) {
		t.Fatal("apimachinery does not take it for a conflict any more")
	}
	l.refuse = func(verb, kind string) error {
		if verb == "delete" && kind == "GKECluster" {
			return refusal
		}
		return nil
	}
	for range 20 {
		if err := l.reconcile(); errors.Is(err, refusal) {
			if c := l.message(v1alpha1.ConditionReady); c == "" {
				t.Error("Ready says nothing")
			}
			l.refuse = nil
			l.settle(l.play)
			if l.get() != nil {
				t.Error("it is still there")
			}
			return
		}
		l.play()
	}
	t.Error("the refusal is taken for a cache that is behind")
}

// unreadable is a live client that cannot read a kind.
type unreadable struct {
	client.Client
	kind string
}

func (u unreadable) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if kindOf(o) == u.kind {
		return apierrors.NewInternalError(errors.New("down"))
	}
	return u.Client.Get(ctx, key, o, opts...)
}

// What cannot be begun, because the Experiment itself cannot be read, is not told as done.
func TestReadOfTheExperimentThatFails(t *testing.T) {
	for _, phase := range []v1alpha1.Phase{v1alpha1.PhaseProvisioning, v1alpha1.PhaseReady} {
		l := tutorial(t)
		l.until(phase)
		for l.play() { // the outsides have done all they can
		}
		before := l.get().Status
		live := l.reconciler.Live
		l.reconciler.Live = unreadable{l.client, "Experiment"}
		if err := l.reconcile(); !apierrors.IsInternalError(err) {
			t.Fatalf("%s: the error is %v", phase, err)
		}
		l.reconciler.Live = live
		after := l.get().Status
		if after.Phase != before.Phase {
			t.Errorf("%s: the phase is %s", phase, after.Phase)
		}
		for i, target := range after.Targets {
			if target.State != before.Targets[i].State {
				t.Errorf("%s: target %s is %s, it was %s", phase, target.Name, target.State, before.Targets[i].State)
			}
		}
		l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonReconcileError)
		l.settle(l.play)
		l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
	}
}

// The end of an object that does not name its owner wakes nobody.
func TestUnheardEndsAreLookedFor(t *testing.T) {
	unname := func(l *lab, o *unstructured.Unstructured) {
		annotations := o.GetAnnotations()
		delete(annotations, v1alpha1.AnnotationOwner)
		o.SetAnnotations(annotations)
		l.update(o)
	}
	l := tutorial(t)
	l.until(v1alpha1.PhaseRunning)
	if err := l.reconcile(); err != nil {
		t.Fatal(err)
	}
	if got := l.pass(); got <= lastLook {
		t.Errorf("a Workflow whose end is heard is looked at after %s", got)
	}
	workflow := l.list(argoworkflows.WorkflowGVK)[0]
	unname(l, &workflow)
	if got := l.pass(); got != lastLook {
		t.Errorf("a Workflow whose end is not heard is looked at after %s", got)
	}
	l.remove()
	if got := l.pass(); got != lastLook {
		t.Errorf("in the teardown, after %s", got)
	}
	l.delete(argoworkflows.WorkflowGVK)
	for _, w := range l.list(argoworkflows.WorkflowGVK) {
		l.finalize(&w)
	}
	for _, app := range l.list(argocd.ApplicationGVK) {
		unname(l, &app)
	}
	if got := l.pass(); got != lastLook {
		t.Errorf("Applications in the teardown, after %s", got)
	}
}

// A claim that comes and goes while its watch is down is never in the cache.
func TestUnseenLeftoversAreLookedForAgain(t *testing.T) {
	l := tutorial(t)
	l.until(v1alpha1.PhaseProvisioning)
	l.reconciler.Foreign = never{l.client}
	l.remove()
	if got := l.pass(); got != leftoverDelay {
		t.Errorf("it is looked at after %s", got)
	}
}

// Neither is a recorded Workflow whose label somebody has taken off, and which is ours all the same.
func TestUnseenWorkflowIsLookedForAgain(t *testing.T) {
	l := tutorial(t)
	l.until(v1alpha1.PhaseRunning)
	if err := l.reconcile(); err != nil {
		t.Fatal(err)
	}
	l.reconciler.Foreign = behind{l.client}
	for _, apps := range l.list(argocd.ApplicationGVK) { // these it has
		l.reconciler.Foreign = before{l.reconciler.Foreign, []unstructured.Unstructured{apps}}
	}
	for _, down := range []bool{false, true} {
		if down {
			l.remove()
		}
		if got := l.pass(); got != leftoverDelay {
			t.Errorf("it is looked at after %s (teardown: %t)", got, down)
		}
	}
}

// never is a cache that has no foreign object.
type never struct{ client.Reader }

func (n never) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: kindOf(o)}, key.Name)
}

// A Workflow that somebody has taken the label off is his.
func TestUnlabelledWorkflowDoesNotHoldTheTeardown(t *testing.T) {
	l := tutorial(t)
	l.until(v1alpha1.PhaseRunning)
	workflow := l.list(argoworkflows.WorkflowGVK)[0]
	workflow.SetLabels(nil)
	l.update(&workflow)
	l.remove()
	l.settle(l.play)
	if l.get() != nil {
		t.Errorf("it is still there: %s", l.message(v1alpha1.ConditionReady))
	}
	if l.read(argoworkflows.WorkflowGVK, workflow.GetNamespace(), workflow.GetName()) == nil {
		t.Error("the Workflow is gone")
	}
}

// That a kind is missing says the cache of CRDs, which may be wrong: the server is asked.
func TestTeardownAsksForMissingKinds(t *testing.T) {
	l := tutorial(t)
	l.until(v1alpha1.PhaseReady)
	l.kinds[crossplane.GKEClusterGVK] = kube.KindMissing
	l.remove()
	l.settle(l.play)
	if len(l.list(crossplane.GKEClusterGVK)) > 0 {
		t.Error("the cluster is left")
	}
	if l.get() != nil {
		t.Errorf("it is still there: %s", l.message(v1alpha1.ConditionReady))
	}
}
