package experiment

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/argoworkflows"
	"github.com/labkeeper/labkeeper/internal/external/capi"
	"github.com/labkeeper/labkeeper/internal/external/crossplane"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// road is one way to a cluster and onto it.
type road struct {
	lab func(*testing.T) *lab
	// cluster is the kind of what stands for the cluster; empty where it is not ours.
	cluster schema.GroupVersionKind
	// unregistered: the Experiment does not register it.
	unregistered bool
}

// roads are all types of clusters and policies.
func roads() map[string]road {
	on := func(target v1alpha1.Target, more ...*unstructured.Unstructured) func(*testing.T) *lab {
		return func(t *testing.T) *lab {
			l := newLab(t, experimentOf(target), nginx(), template(), staging(kubeconfig))
			for _, o := range more {
				l.create(o.DeepCopy())
			}
			return l
		}
	}
	existing := targetOf("app", v1alpha1.ClusterExisting)
	existing.Cluster.KubeconfigSecret = &v1alpha1.SecretKey{Name: "staging", Key: "config"}
	return map[string]road{
		"hub": {lab: on(targetOf("app", v1alpha1.ClusterHub)), unregistered: true},
		"gke": {lab: on(targetOf("app", v1alpha1.ClusterGKE)), cluster: crossplane.GKEClusterGVK},
		"composite": {lab: func(t *testing.T) *lab {
			l := on(targetOf("app", v1alpha1.ClusterGKE))(t)
			l.composites = true
			return l
		}, cluster: crossplane.GKEClusterGVK},
		"existing": {lab: on(existing)},
		"referred": {lab: on(referring("app"), k3("u-1"), registrationFor(k3("u-1"), "")), unregistered: true},
		"vcluster": {lab: onVCluster, cluster: capi.ClusterGVK},
		"talos":    {lab: onTalos, cluster: capi.ClusterGVK},
		"layers":   {lab: func(t *testing.T) *lab { return layered(t, v1alpha1.ClusterGKE) }, cluster: crossplane.GKEClusterGVK},
		"observed": {lab: func(t *testing.T) *lab {
			l := on(observedTarget(v1alpha1.ClusterGKE, v1alpha1.TargetObservability{Transport: "tailscale", Tenant: "lab"}))(t)
			l.reconciler.Options.Observability = observability
			for _, c := range observing() {
				if c.Name != "nginx" {
					l.create(c)
				}
			}
			return l
		}, cluster: crossplane.GKEClusterGVK},
	}
}

// ends are the ways in which an Experiment comes to its end.
var ends = map[string]func(*lab){
	"deleted": (*lab).remove,
	"expired": func(l *lab) { l.later(day) },
	"terminated": func(l *lab) {
		l.edit(func(e *v1alpha1.Experiment) { e.Spec.Terminate = true })
		l.settle(l.play)
		l.remove()
	},
	"suspended": func(l *lab) {
		l.edit(func(e *v1alpha1.Experiment) { e.Spec.Suspend = true })
		l.settle(l.play)
		l.remove()
	},
}

// ours are all objects of the Experiment's, but for what went with its namespace.
func (l *lab) ours() (all []unstructured.Unstructured) {
	namespaces := l.list(namespaceGVK)
	for _, gvk := range append(foreignKinds, dockerClusterGVK, dockerMachineTemplateGVK) {
		all = append(all, l.list(gvk)...)
	}
	return append(namespaces, slices.DeleteFunc(all, func(o unstructured.Unstructured) bool {
		return o.GetKind() == kube.RoleBindingGVK.Kind && !slices.ContainsFunc(namespaces, func(n unstructured.Unstructured) bool {
			return n.GetName() == o.GetNamespace() && !going(&n)
		})
	})...)
}

// kindsLeft names objects by their kinds.
func kindsLeft(all []unstructured.Unstructured) (kinds []string) {
	for _, o := range all {
		kinds = append(kinds, o.GetKind())
	}
	slices.Sort(kinds)
	return kinds
}

// step is half a round: the manager's, or the world's.
func (l *lab) step(i int) {
	l.t.Helper()
	if i%2 == 1 {
		l.play()
	} else if err := l.reconcile(); err != nil {
		l.t.Fatal(err)
	}
}

// stepsUp is how many steps a road has until nothing happens any more.
func stepsUp(t *testing.T, r road) (steps int) {
	l := r.lab(t)
	for quiet := 0; quiet < 4; steps++ {
		before := len(l.writes)
		if l.step(steps); len(l.writes) > before {
			quiet = 0
		} else {
			quiet++
		}
	}
	if l.get().Status.Phase != v1alpha1.PhaseComplete {
		t.Fatalf("it is %s: %s", l.get().Status.Phase, l.message(v1alpha1.ConditionReady))
	}
	return steps - 3
}

// allMoments plays every moment of every road, which takes minutes: make moments.
var allMoments = flag.Bool("moments.all", false, "play every moment of a road; by default every third")

// momentsOf are those of a road with so many steps: others for each of what is tried there, so that there is something at each.
func momentsOf(up, turn int) (out []int) {
	for moment := range up {
		if *allMoments || moment%3 == turn%3 {
			out = append(out, moment)
		}
	}
	return out
}

// Whatever brings an Experiment to its end, at any moment of its road, leaves nothing.
func TestNote33EndsAtAnyMoment(t *testing.T) {
	for name, r := range roads() {
		t.Run(name, func(t *testing.T) {
			up := stepsUp(t, r)
			for turn, end := range slices.Sorted(maps.Keys(ends)) {
				for _, moment := range momentsOf(up, turn) {
					l := r.lab(t)
					for i := range moment {
						l.step(i)
					}
					ends[end](l)
					l.settle(l.play)
					if e := l.get(); e != nil {
						t.Errorf("%s after %d steps: it is still there: %s", end, moment, l.message(v1alpha1.ConditionReady))
					}
					if left := l.ours(); len(left) > 0 {
						t.Errorf("%s after %d steps: %v are left", end, moment, kindsLeft(left))
					}
				}
			}
		})
	}
}

// diesAt lets the manager die after so many writes, of the last of which it never saw the answer.
func (l *lab) diesAt(k int) {
	l.failAt, l.failWith, l.committed = k, errors.New("connection reset"), true
	for i := 0; len(l.writes) < k; i++ {
		if i%2 == 1 {
			l.play()
		} else {
			_ = l.reconcile()
		}
	}
}

// The manager dies after a write whose answer it never saw, and then the Experiment is deleted: what
// nobody has recorded is found again.
func TestNote34NothingUnrecordedIsLeft(t *testing.T) {
	for name, r := range roads() {
		t.Run(name, func(t *testing.T) {
			reference := r.lab(t)
			reference.settle(reference.play)
			for k := 1; k <= len(reference.writes); k++ {
				l := r.lab(t)
				l.diesAt(k)
				if l.get() == nil {
					t.Fatalf("write %d is no write of the way up: %v", k, l.writes)
				}
				l.remove()
				l.settle(l.play)
				if left := l.ours(); l.get() != nil || len(left) > 0 {
					t.Errorf("after write %d (%s): %v are left", k, l.writes[k-1], kindsLeft(left))
				}
			}
		})
	}
}

// stick lets nothing of a kind go any more, nor the namespaces of vclusters that have some.
func (l *lab) stick(gvk schema.GroupVersionKind) {
	l.stuck = gvk.Kind
	objects := l.list(gvk)
	if gvk == capi.ClusterGVK {
		objects = append(objects, l.list(namespaceGVK)...)
	}
	for _, o := range objects {
		if !going(&o) && !slices.Contains(o.GetFinalizers(), stuckFinalizer) {
			o.SetFinalizers(append(o.GetFinalizers(), stuckFinalizer))
			l.update(&o)
		}
	}
}

const stuckFinalizer = "example.com/stuck"

// Whatever does not go, at whatever moment the Experiment is deleted: the rest goes, and when the deadline
// is over, so does the Experiment, and the ConfigMap tells of exactly what is left.
func TestNote31StuckAtAnyMoment(t *testing.T) {
	for name, r := range roads() {
		up, complete := stepsUp(t, r), r.lab(t)
		complete.settle(complete.play)
		for turn, stuck := range []schema.GroupVersionKind{argoworkflows.WorkflowGVK, argocd.ApplicationGVK, r.cluster, namespaceGVK, argocd.SecretGVK} {
			if !slices.Contains(kindsLeft(complete.ours()), stuck.Kind) {
				continue
			}
			t.Run(name+" "+stuck.Kind, func(t *testing.T) {
				for _, moment := range momentsOf(up, turn) {
					stuckAt(t, r.lab(t), stuck, moment)
				}
			})
		}
	}
}

func stuckAt(t *testing.T, l *lab, stuck schema.GroupVersionKind, moment int) {
	here := func(format string, args ...any) string {
		return fmt.Sprintf("after %d steps: ", moment) + fmt.Sprintf(format, args...)
	}
	for i := range moment {
		l.step(i)
		l.stick(stuck)
	}
	l.remove()
	// The quarter, the half and the whole of the deadline, of what goes first and of what comes after it.
	for _, minute := range []time.Duration{0, 8, 16, 29, 31, 40, 48, 62} {
		l.later(minute * time.Minute)
		for range 4 {
			_ = l.reconcile()
			l.play()
		}
		if minute == 29 && l.get() == nil && len(l.list(stuck)) > 0 {
			t.Error(here("it is released before the deadline"))
		}
	}
	if l.get() != nil {
		t.Error(here("it is still there: %s", l.message(v1alpha1.ConditionReady)))
	}
	left, told, needed := l.ours(), []string{}, 0
	for _, o := range l.orphans() {
		told = append(told, o.Kind)
		if o.Error == "" {
			t.Error(here("%s %s is left without a reason", o.Kind, o.Name))
		}
		if strings.HasSuffix(o.Error, "needs it until it is gone") {
			needed++
		}
	}
	slices.Sort(told)
	if !slices.Equal(kindsLeft(left), told) {
		t.Error(here("%v are left, and the ConfigMap tells of %v", kindsLeft(left), told))
	}
	held := 0
	for _, o := range left {
		if slices.Contains(o.GetFinalizers(), stuckFinalizer) {
			held++
		}
	}
	if held+needed != len(left) {
		t.Error(here("%v are left, of which %d are held and %d needed", kindsLeft(left), held, needed))
	}
}

// A cluster that is not there in time fails the Experiment, whoever makes it, and says which field bounds it.
func TestNote28And51DeadlineOfEveryCluster(t *testing.T) {
	for name, r := range roads() {
		if r.cluster.Empty() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			l := r.lab(t)
			l.settle(func() bool { return false })
			if len(l.list(r.cluster)) != 1 {
				t.Fatalf("there is no cluster: %s", l.message(v1alpha1.ConditionReady))
			}
			l.later(defaultClustersDeadline - time.Second)
			l.mustReconcile()
			if l.get().Status.CompletedAt != nil {
				t.Error("it fails too early")
			}
			l.later(defaultClustersDeadline)
			l.mustReconcile()
			l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonProgressDeadlineExceeded)
			if m := l.message(v1alpha1.ConditionReady); l.get().Status.Phase != v1alpha1.PhaseFailed || !strings.Contains(m, "spec.progressDeadline.clusters") {
				t.Errorf("it is %s and says %q", l.get().Status.Phase, m)
			}
		})
	}
}

// Nothing is begun while a kind that the road needs is not served, and the condition names it; kinds that it
// does not need may be missing.
func TestNote09MissingKindsOfEveryRoad(t *testing.T) {
	for name, r := range roads() {
		used := map[schema.GroupVersionKind]bool{argoworkflows.WorkflowTemplateGVK: true}
		reference := r.lab(t)
		reference.settle(reference.play)
		for _, o := range reference.ours() {
			used[o.GroupVersionKind()] = true
		}
		for _, gvk := range append(clusterKinds(), argocd.ApplicationGVK, argoworkflows.WorkflowGVK, argoworkflows.WorkflowTemplateGVK, argoworkflows.ClusterWorkflowTemplateGVK) {
			t.Run(name+" "+gvk.Kind, func(t *testing.T) {
				l := r.lab(t)
				l.kinds[gvk] = kube.KindMissing
				l.settle(l.play)
				if !used[gvk] {
					l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
					return
				}
				l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonCRDMissing)
				if m := l.message(v1alpha1.ConditionReady); !strings.Contains(m, gvk.Kind+"."+gvk.Group) || l.get().Status.StartedAt != nil {
					t.Errorf("it was begun at %v and says %q", l.get().Status.StartedAt, m)
				}
				l.kinds[gvk] = kube.KindServed
				l.settle(l.play)
				l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
			})
		}
	}
}

// A kubeconfig that was rotated is registered again when Argo CD is refused with the old one, wherever it is
// from.
func TestNote53RotationOnEveryRoad(t *testing.T) {
	for name, r := range roads() {
		if r.unregistered {
			continue
		}
		t.Run(name, func(t *testing.T) {
			l := r.lab(t)
			l.settle(l.validating)
			registered := func() string {
				config := l.list(argocd.SecretGVK)[0].Object["data"].(map[string]any)["config"].(string)
				return decode(config)
			}
			if !strings.Contains(registered(), "canary-token") {
				t.Fatalf("it is registered with %s", registered())
			}
			l.rotate()
			for _, app := range l.list(argocd.ApplicationGVK) {
				app.Object["status"] = map[string]any{"conditions": []any{map[string]any{
					"type": "ComparisonError", "message": "the server has asked for the client to provide credentials",
				}}}
				l.update(&app)
			}
			l.mustReconcile()
			if !strings.Contains(registered(), "rotated-token") {
				t.Errorf("it is registered with what was there before: %s", l.message(v1alpha1.ConditionApplicationsHealthy))
			}
			l.settle(l.play)
			l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
		})
	}
}

// validating plays everything but the end of a Workflow.
func (l *lab) validating() bool {
	if len(l.list(argoworkflows.WorkflowGVK)) > 0 {
		return l.deploy()
	}
	return l.play()
}

// rotate replaces the token in every kubeconfig.
func (l *lab) rotate() {
	l.t.Helper()
	all := &corev1.SecretList{}
	if err := l.client.List(l.t.Context(), all); err != nil {
		l.t.Fatal(err)
	}
	for _, secret := range all.Items {
		for key, value := range secret.Data {
			if string(value) == kubeconfig {
				secret.Data[key] = []byte(strings.Replace(kubeconfig, "canary-token", "rotated-token", 1))
				l.update(&secret)
			}
		}
	}
}
