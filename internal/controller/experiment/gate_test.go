package experiment

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/crossplane"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// TestNewOnesWaitForTheirTurn: while another begins, nothing is written for a new Experiment;
// one that is under way or being deleted does not wait.
func TestNewOnesWaitForTheirTurn(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(l *lab)
		waits   bool
	}{
		"new": {func(*lab) {}, true},
		"under way": {func(l *lab) {
			l.until(v1alpha1.PhaseProvisioning)
			l.deleteObject(l.list(crossplane.GKEClusterGVK)[0].DeepCopy())
		}, false},
		"deleted": {func(l *lab) {
			l.until(v1alpha1.PhaseProvisioning)
			if err := l.client.Delete(l.t.Context(), l.get()); err != nil {
				l.t.Fatal(err)
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, experimentOf(targetOf("web", v1alpha1.ClusterGKE)), nginx(), template())
			c.prepare(l)
			l.reconciler.Gate = kube.NewGate(1)
			l.reconciler.Gate.Enter(&v1alpha1.Experiment{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "another"}})
			before := len(l.writes)
			if err := l.reconcile(); err != nil {
				t.Fatal(err)
			}
			if waits := len(l.writes) == before; waits != c.waits {
				t.Errorf("It waits: %v; writes: %v", waits, l.writes[before:])
			}
		})
	}
}
