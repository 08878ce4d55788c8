package experiment

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/crossplane"
)

// stuffed is an Experiment with a parameter of so many bytes. (The API server takes 4096 in each, and 64 of them; those of components are
// not bounded in their sum.)
func stuffed(e *v1alpha1.Experiment, bytes int) *v1alpha1.Experiment {
	e.Spec.Workflow.Params = map[string]string{"fill": strings.Repeat("x", bytes)}
	return e
}

// manyComponents is a target with so many Applications.
func manyComponents(name string, cluster v1alpha1.ClusterType, n int) v1alpha1.Target {
	target := targetOf(name, cluster)
	target.ApplicationPolicy, target.Components = v1alpha1.ApplicationPerComponent, nil
	for i := range n {
		target.Components = append(target.Components, v1alpha1.ComponentRef{App: fmt.Sprintf("component-%02d", i)})
	}
	return target
}

// An Experiment whose status would not fit is refused before anything is paid for, and begins when it is made smaller.
func TestTooLargeToBeRecorded(t *testing.T) {
	for name, test := range map[string]struct {
		fill func(*v1alpha1.Experiment, int)
		says string
	}{
		"the workflow": {func(e *v1alpha1.Experiment, n int) { stuffed(e, n) }, "spec.workflow: "},
		"a target": {func(e *v1alpha1.Experiment, n int) {
			e.Spec.Targets[0].Components[0].Params = map[string]string{"fill": strings.Repeat("x", n)}
		}, "spec.targets: target app: "},
		"annotations": {func(e *v1alpha1.Experiment, n int) { e.Annotations = map[string]string{"fill": strings.Repeat("x", n)} }, "metadata.annotations: "},
	} {
		t.Run(name, func(t *testing.T) {
			e := experimentOf(targetOf("app", v1alpha1.ClusterGKE))
			room := maxStored - facts{experiment: e, names: names{e, Options{ArgoCDNamespace: "argocd"}}, now: epoch}.leastStored()
			test.fill(e, room)
			l := newLab(t, e, nginx(), template())
			l.mustReconcile()
			l.expect(v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonInvalidSpec)
			if m := l.message(v1alpha1.ConditionAccepted); !strings.HasPrefix(m, test.says) || !strings.Contains(m, "etcd keeps 1572864 of an object") {
				t.Errorf("it says %q", m)
			}
			if l.get().Status.StartedAt != nil || len(l.list(crossplane.GKEClusterGVK)) > 0 {
				t.Error("it is begun")
			}
			l.edit(func(e *v1alpha1.Experiment) { test.fill(e, 100) })
			l.settle(l.play)
			l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
		})
	}
}

// What is counted is no more than what there is when it is complete, so nothing is refused that would fit.
func TestLeastStoredIsThere(t *testing.T) {
	existing := existingTarget("existing", "staging")
	for name, targets := range map[string][]v1alpha1.Target{
		"one Application":   {targetOf("app", v1alpha1.ClusterGKE), targetOf("hub", v1alpha1.ClusterHub, "app"), existing},
		"many Applications": {manyComponents("app", v1alpha1.ClusterGKE, 3), manyComponents("hub", v1alpha1.ClusterHub, 2)},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, experimentOf(targets...), nginx(), template(), staging(kubeconfig))
			l.reconciler.Options.Fallback = Fallback{RepoURL: "https://git.example.com/components.git", Revision: "v1"}
			l.settle(l.play)
			l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
			e := l.get()
			e.ManagedFields = nil
			least, elements := facts{experiment: e, names: names{e, l.reconciler.Options}, now: epoch}.leastStored(), 0
			for _, target := range e.Status.Targets {
				elements += tracked + len(target.Name)
				for _, c := range target.Components {
					elements += tracked + len(c.Name)
				}
			}
			whole := *e
			whole.Status = v1alpha1.ExperimentStatus{Targets: e.Status.Targets}
			// All that is counted of the targets is there, but for the address of a cluster, which is not known before.
			if got, most := least-elements, stored(whole); got > most || most-got > 40*len(targets) {
				t.Errorf("at least %d bytes are counted, and there are %d", got, most)
			}
		})
	}
}
