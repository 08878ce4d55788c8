package experimentdeployment

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experimentcontroller/v1alpha1"
	"github.com/labkeeper/labkeeper/test/faults"
)

const managerNamespace = "labkeeper-system"

// neighbour is the name of an ExperimentDeployment beside the one that a workload is about, and ofNeighbour ends the role of what belongs
// to it.
const neighbour, ofNeighbour = "neighbour", " of the neighbour"

// healthy is when Argo Rollouts has brought a twin up; a workload can hold it.
const healthy = "healthy"

// installation is what the manager expects of its cluster.
var installation = faults.Installation{
	CRDs:             []string{"config/crd/bases", "bin/crds/argo-rollouts/rollout-crd.yaml"},
	Namespaces:       []string{"argocd", "argo", "crossplane-system", managerNamespace},
	Manifests:        []string{"config/rbac"},
	AccountNamespace: managerNamespace,
	Account:          "labkeeper-controller-manager",
}

// steps are the conditions that are told of an ExperimentDeployment without a twin, too.
var steps = []string{v1alpha1.ConditionReady, v1alpha1.ConditionAccepted, v1alpha1.ConditionSourceFound, v1alpha1.ConditionTwinReady}

// world is everything around an ExperimentDeployment.
var world = faults.World{
	Kinds: []schema.GroupVersionResource{
		v1alpha1.GroupVersion.WithResource("experimentdeployments"),
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "apps", Version: "v1", Resource: "statefulsets"},
		{Group: "apps", Version: "v1", Resource: "controllerrevisions"},
		{Group: "argoproj.io", Version: "v1alpha1", Resource: "rollouts"},
		{Version: "v1", Resource: "services"},
	},
	Run: func(u *unstructured.Unstructured) string {
		if u.GetKind() == "ControllerRevision" && !twin(u) {
			return "" // a StatefulSet's
		}
		return u.GetNamespace()
	},
	Role: func(u *unstructured.Unstructured) string {
		switch {
		case u.GetKind() == "ExperimentDeployment":
			return u.GetKind() + whose(u)
		case twin(u):
			return "Twin " + u.GetKind() + whose(u)
		case stranger(u):
			return "Stranger " + u.GetKind()
		}
		return "Source " + u.GetKind() + whose(u)
	},
	Readable: readable,
	Owner:    func(u *unstructured.Unstructured) types.UID { return types.UID(u.GetLabels()[v1alpha1.LabelUID]) },
	Others:   func(u *unstructured.Unstructured) bool { return u.GetKind() != "ExperimentDeployment" && !twin(u) },
	Rank: func(u *unstructured.Unstructured) (int, bool) {
		return 0, u.GetKind() == "ExperimentDeployment" // it is Ready again and again
	},
	TakesBack: func(u *unstructured.Unstructured, condition string) bool {
		_, twin, _ := unstructured.NestedMap(u.Object, "status", "experimentResourceRef")
		return u.GetKind() == "ExperimentDeployment" && !twin && !slices.Contains(steps, condition)
	},
	Invariants: map[string]func([]faults.Entry) string{
		"source": untouched,
		"gone":   missed,
	},
	Play:          play,
	QuietWhenLate: true,
	Manager: func(namespace string) []string {
		return []string{"--controllers=experimentdeployments", "--watch-namespaces=" + namespace}
	},
}

// whose is how the roles end of what belongs to the neighbour, which has another name or is in another namespace.
func whose(u *unstructured.Unstructured) string {
	namespace, owner, _ := strings.Cut(u.GetAnnotations()[v1alpha1.AnnotationOwner], "/")
	if u.GetName() == neighbour || owner == neighbour || strings.HasSuffix(cmp.Or(namespace, u.GetNamespace()), faults.Beside) {
		return ofNeighbour
	}
	return ""
}

func twin(u *unstructured.Unstructured) bool { return u.GetLabels()[v1alpha1.LabelUID] != "" }

// stranger says whether something has the name of a twin, and is none: no workload has it taken away again.
func stranger(u *unstructured.Unstructured) bool {
	return strings.HasPrefix(u.GetName(), "web-exp-") && !twin(u)
}

// replicaSet is how Deployments name one in what they say.
var replicaSet = regexp.MustCompile(`ReplicaSet "[^"]*"`)

// readable takes the name of the ReplicaSet out of what a Deployment says of its progress. It has a hash of Kubernetes' own, and is that
// of one before where the Deployment's controller has seen two templates at once; which it is, the annotation with the revision says.
func readable(u *unstructured.Unstructured) {
	said, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range said {
		condition, _ := c.(map[string]any)
		if message, ok := condition["message"].(string); ok && u.GetKind() == "Deployment" {
			condition["message"] = replicaSet.ReplaceAllString(message, "ReplicaSet")
		}
	}
	if len(said) > 0 {
		_ = unstructured.SetNestedSlice(u.Object, said, "status", "conditions")
	}
}

// untouched says what the manager has done to something that is not its own.
func untouched(history []faults.Entry) string {
	last := history[len(history)-1].Object
	if last.GetKind() == "ExperimentDeployment" || twin(last) {
		return ""
	}
	if stranger(last) && (last.GetDeletionTimestamp() != nil || history[len(history)-1].Verb == watch.Deleted) {
		return last.GetKind() + " " + last.GetName() + ", which has the name of a twin, was taken down"
	}
	for _, f := range last.GetManagedFields() {
		if f.Manager == "labkeeper" {
			return last.GetKind() + " " + last.GetName() + " was written by the manager"
		}
	}
	return ""
}

// missed says which source is told of as gone that is there.
func missed(history []faults.Entry) string {
	n := len(history) - 1
	last, before := history[n].Object, faults.StateOf(history[:n])
	if last.GetKind() != "ExperimentDeployment" || history[n].Verb == watch.Deleted || !sourceless(last) ||
		slices.ContainsFunc(before.Of(last.GetKind()), func(e *unstructured.Unstructured) bool {
			return e.GetUID() == last.GetUID() && sourceless(e)
		}) {
		return ""
	}
	kind, _, _ := unstructured.NestedString(last.Object, "spec", "sourceRef", "kind")
	name, _, _ := unstructured.NestedString(last.Object, "spec", "sourceRef", "name")
	for _, source := range before.Of(kind) {
		if source.GetName() == name {
			return kind + " " + name + " is told to be gone, and is there"
		}
	}
	return ""
}

// sourceless says whether it is told that there is no source.
func sourceless(e *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(e.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		condition, _ := c.(map[string]any)
		return condition["type"] == v1alpha1.ConditionSourceFound && condition["reason"] == v1alpha1.ReasonSourceNotFound
	})
}

// play is Argo Rollouts: it tells of a Rollout that it is Healthy, or once of a twin that is held that no pod is ready, when the manager has
// told that it made it.
func play(ctx context.Context, stage *faults.Stage, state faults.State) error {
	for _, r := range state.Of("Rollout") {
		observed, _, _ := unstructured.NestedString(r.Object, "status", "observedGeneration")
		generation := strconv.FormatInt(r.GetGeneration(), 10)
		held := twin(r) && stage.Held(healthy)
		if observed == generation || twin(r) && !told(state, r) || held && observed != "" {
			continue
		}
		replicas, _, _ := unstructured.NestedInt64(r.Object, "spec", "replicas")
		phase, ready := "Healthy", replicas
		if held {
			phase, ready = "Progressing", 0
		}
		after := r.DeepCopy()
		after.Object["status"] = map[string]any{
			"observedGeneration": generation, "phase": phase, "replicas": replicas, "readyReplicas": ready, "updatedReplicas": replicas, "availableReplicas": ready,
		}
		if err := stage.Client.Status().Patch(ctx, after, client.MergeFromWithOptions(r, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("telling of Rollout %s: %w", r.GetName(), err)
		}
	}
	return nil
}

// told says whether the status speaks of a twin as it is now.
func told(state faults.State, u *unstructured.Unstructured) bool {
	for _, e := range state.Of("ExperimentDeployment") {
		if generation, _, _ := unstructured.NestedInt64(e.Object, "status", "twinGeneration"); generation == u.GetGeneration() && whose(e) == whose(u) {
			return true
		}
	}
	return false
}
