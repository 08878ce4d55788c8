package experiment

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/capi"
	"github.com/labkeeper/labkeeper/internal/external/crossplane"
)

// hangs is a live client of which what creates or deletes objects of a kind, and of the target a, takes all the time of a pass, as by
// somebody's webhooks.
type hangs struct {
	client.Client
	kind string
}

func (h hangs) hang(ctx context.Context, o client.Object) error {
	if kindOf(o) == h.kind && o.GetLabels()[v1alpha1.LabelTarget] == "a" {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (h hangs) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if err := h.hang(ctx, o); err != nil {
		return err
	}
	return h.Client.Create(ctx, o, opts...)
}

func (h hangs) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	if err := h.hang(ctx, o); err != nil {
		return err
	}
	return h.Client.Delete(ctx, o, opts...)
}

// hurry runs a pass, and lets a minute pass. It is for a bubble of synctest, where what hangs costs no time.
func (l *lab) hurry() {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), timeout)
	defer cancel()
	_, _ = l.reconciler.Reconcile(ctx, l.get())
	l.clock.SetTime(l.clock.Now().Add(time.Minute))
}

// A cluster whose creation hangs keeps no other one from being made that does not depend on it.
func TestNote52CreationThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, experimentOf(targetOf("a", v1alpha1.ClusterVCluster), targetOf("b", v1alpha1.ClusterGKE)), nginx(), template())
		l.reconciler.Live = hangs{l.client, capi.ClusterGVK.Kind}
		for range 8 {
			l.hurry()
			l.play()
		}
		if got := l.states(); got != "a Provisioning, b Healthy" {
			t.Errorf("the targets are %s", got)
		}
	})
}

// A cluster whose deletion hangs keeps no other one of its Experiment from being asked to go.
func TestDeletionThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, experimentOf(targetOf("a", v1alpha1.ClusterVCluster), targetOf("b", v1alpha1.ClusterGKE)), nginx(), template())
		l.until(v1alpha1.PhaseRunning)
		l.remove()
		l.reconciler.Live = hangs{l.client, capi.ClusterGVK.Kind}
		for range 12 {
			l.hurry()
			l.letGo(func(o *unstructured.Unstructured) bool { return o.GetKind() != "GKECluster" })
		}
		if claims := l.list(crossplane.GKEClusterGVK); len(claims) != 1 || !going(&claims[0]) {
			t.Errorf("the claim is not asked to go: %s", l.message(v1alpha1.ConditionReady))
		}
		if clusters := l.list(capi.ClusterGVK); len(clusters) != 1 || going(&clusters[0]) {
			t.Error("nothing hangs")
		}
	})
}

// A target whose deletion hangs when its own time is over keeps no other one from going that does not depend on it.
func TestTargetThatHangsWhenItsTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, experimentOf(
			goingAfter(time.Hour, targetOf("a", v1alpha1.ClusterGKE)), goingAfter(time.Hour, targetOf("b", v1alpha1.ClusterGKE)), targetOf("c", v1alpha1.ClusterGKE),
		), nginx(), template())
		l.until(v1alpha1.PhaseComplete)
		l.later(time.Hour)
		l.reconciler.Live = hangs{l.client, argocd.ApplicationGVK.Kind}
		for range 12 {
			l.hurry()
			l.play()
		}
		if got := l.states(); got != "a Deleting, b Deleted, c Healthy" {
			t.Errorf("the targets are %s", got)
		}
	})
}

// What is for the whole Experiment rests on what comes before it in the plan, and has its place there.
func TestTurns(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("a", v1alpha1.ClusterGKE), targetOf("b", v1alpha1.ClusterGKE)))
	s := &scope{Reconciler: l.reconciler, experiment: l.get()}
	s.plan.Writes = []Write{{Action: Delete}, {Target: "a"}, {Target: "a"}, {Target: "b"}, {Action: Once}}
	s.refusals.begin(s.experiment, refusedTarget("a"), l.clock.Now())
	s.takeTurns()
	want := []Write{{Action: Delete}, {Target: "b"}, {Target: "a"}, {Target: "a"}, {Action: Once}}
	if diff := cmp.Diff(want, s.plan.Writes); diff != "" {
		t.Error(diff)
	}
}
