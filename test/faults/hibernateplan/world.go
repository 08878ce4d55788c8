package hibernateplan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/restore"
	"github.com/labkeeper/labkeeper/internal/runner"
	"github.com/labkeeper/labkeeper/test/faults"
)

const managerNamespace = "labkeeper-system"

// neighbour is the name of a plan beside the one that a workload is about, and ofNeighbour ends the role of what belongs to it, and the
// names of the steps that outsides do not take for it.
const neighbour, ofNeighbour = "neighbour", " of the neighbour"

// runs is when the Jobs of a workload that holds it run, and runsThatWake when those do that wake.
const runs, runsThatWake = "runs", "runs that wake"

// wakes is how the label of their operation says so.
const wakes = "wakeup"

// What is known of ConfigMaps.
const (
	labelThing        = "thing"
	labelRestorePoint = "hibernator.ardikabs.com/restore-point"
	labelLedger       = "hibernator.ardikabs.com/ledger"
)

// installation is what the manager expects of its cluster.
var installation = faults.Installation{
	CRDs:             []string{"config/crd/bases"},
	Namespaces:       []string{"argocd", "argo", "crossplane-system", managerNamespace},
	Manifests:        []string{"config/rbac"},
	AccountNamespace: managerNamespace,
	Account:          "labkeeper-controller-manager",
	Without:          []string{"job-controller"},
	Tokens:           map[string]string{"canary": canary},
}

// world is everything around a HibernatePlan.
var world = faults.World{
	Kinds: []schema.GroupVersionResource{
		v1alpha1.GroupVersion.WithResource("hibernateplans"),
		v1alpha1.GroupVersion.WithResource("scheduleexceptions"),
		v1alpha1.GroupVersion.WithResource("k8sclusters"),
		v1alpha1.GroupVersion.WithResource("cloudproviders"),
		{Group: "batch", Version: "v1", Resource: "jobs"},
		{Group: "apps", Version: "v1", Resource: "controllerrevisions"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
		{Version: "v1", Resource: "serviceaccounts"},
		{Version: "v1", Resource: "secrets"},
		{Version: "v1", Resource: "configmaps"},
		{Version: "v1", Resource: "pods"},
	},
	Run:      namespaceOf,
	Role:     role,
	Readable: readable,
	// A restore point outlives its plan.
	Owner: func(u *unstructured.Unstructured) types.UID { return types.UID(u.GetLabels()[v1alpha1.LabelUID]) },
	// Runners alone act on what sleeps, and whoever has them run on their pods.
	Others: func(u *unstructured.Unstructured) bool { return isThing(u) || u.GetKind() == "Pod" },
	Rank: func(u *unstructured.Unstructured) (int, bool) {
		return 0, u.GetKind() == "HibernatePlan" || slices.Contains(besidePlans, u.GetKind()) // phases come again; what may follow what is for the invariants
	},
	Invariants:    invariants,
	Play:          play,
	QuietWhenLate: true,
	Secrets:       faults.Disguises(canary),
	Manager: func(namespace string) []string {
		return []string{
			"--controllers=hibernateplans", "--watch-namespaces=" + namespace,
			"--hibernation-namespace=" + managerNamespace, "--runner-image=example/labkeeper:1",
		}
	},
}

// namespaceOf is where the plan is that an object belongs to.
func namespaceOf(u *unstructured.Unstructured) string {
	if u.GetKind() == "HibernatePlan" || slices.Contains(besidePlans, u.GetKind()) || isThing(u) {
		return u.GetNamespace()
	}
	namespace, _, _ := strings.Cut(u.GetAnnotations()[v1alpha1.AnnotationOwner], "/")
	return namespace
}

// role says what an object is to its plan.
func role(u *unstructured.Unstructured) string {
	kind, l := u.GetKind(), u.GetLabels()
	switch {
	case isThing(u):
		return "Thing " + l[v1alpha1.LabelTarget] + whose(u)
	case isPoint(u):
		kind = "RestorePoint"
	case u.GetKind() == "RoleBinding" && u.GetNamespace() != managerNamespace:
		kind = "Grant"
	case u.GetKind() == "ControllerRevision" && l[labelLedger] != "":
		written, _, _ := unstructured.NestedInt64(u.Object, "revision")
		kind = fmt.Sprintf("Shard %d", written) // of another write there may be another one at the same time
	}
	return strings.TrimSpace(kind+" "+l[v1alpha1.LabelTarget]+" "+l[v1alpha1.LabelOperation]) + whose(u)
}

// whose is how the roles end of what belongs to the neighbour, which has another name or is in another namespace. What both act on is
// not its own.
func whose(u *unstructured.Unstructured) string {
	owner := u.GetAnnotations()[v1alpha1.AnnotationOwner]
	if u.GetKind() == "HibernatePlan" || isThing(u) {
		owner = u.GetNamespace() + "/" + u.GetName()
	}
	namespace, name, _ := strings.Cut(owner, "/")
	if name == neighbour || u.GetLabels()[labelThing] == neighbour || strings.HasSuffix(namespace, faults.Beside) {
		return ofNeighbour
	}
	return ""
}

// ownedAs is what belongs to who an object does.
func ownedAs(u *unstructured.Unstructured, s faults.State) faults.State {
	return s.Only(func(other *unstructured.Unstructured) bool { return whose(other) == whose(u) })
}

// readable writes the point out that a restore point holds. One that cannot be read stays as it is, which is a difference.
func readable(u *unstructured.Unstructured) {
	if !isPoint(u) {
		return
	}
	c := configMapOf(u)
	if point, err := restore.Decode(c.BinaryData[runner.KeyPoint]); err == nil {
		if text, err := json.Marshal(point); err == nil {
			unstructured.RemoveNestedField(u.Object, "binaryData")
			_ = unstructured.SetNestedField(u.Object, string(text), "data", runner.KeyPoint) // of a ConfigMap that was read as one
		}
	}
}

func isThing(u *unstructured.Unstructured) bool { return u.GetLabels()[labelThing] != "" }
func isPoint(u *unstructured.Unstructured) bool {
	return u.GetKind() == "ConfigMap" && u.GetLabels()[labelRestorePoint] != ""
}

func target(u *unstructured.Unstructured) string { return u.GetLabels()[v1alpha1.LabelTarget] }

// goesBack says how a ledger has gone back.
func goesBack(was, is *v1alpha1.HibernatePlan) string {
	if is.DeletionTimestamp != nil && was.Status.Ledger != nil && is.Status.Ledger == nil {
		return "" // it is left to its restore points
	}
	if was.Status.CurrentCycle == nil || is.Status.CurrentCycle == nil || was.Status.CurrentCycle.ID != is.Status.CurrentCycle.ID {
		return ""
	}
	if was.Status.CurrentCycle.Turn > is.Status.CurrentCycle.Turn {
		return "a turn of the cycle is taken back"
	}
	if len(was.Status.Executions) != len(is.Status.Executions) {
		return "the ledger has other entries than its cycle began with"
	}
	for i := range is.Status.Executions {
		if why := forgets(&was.Status.Executions[i], &is.Status.Executions[i]); why != "" {
			return "target " + was.Status.Executions[i].Target + " " + why
		}
	}
	return ""
}

// forgets says what an entry of a ledger has forgotten of what it was.
func forgets(was, is *v1alpha1.ExecutionStatus) string {
	same := was.Operation == is.Operation
	woken := is.Operation == v1alpha1.OperationWakeUp && is.State == v1alpha1.ExecutionCompleted
	// Its cycle may turn when a wake-up has ended, in the write that tells of that.
	turned := was.Operation == v1alpha1.OperationWakeUp && was.State == v1alpha1.ExecutionRunning && !same
	switch {
	case was.Target != is.Target:
		return "has become " + is.Target
	case was.Asleep && !is.Asleep && !woken && !turned:
		return "is taken for awake, and was not woken"
	case same && was.State == v1alpha1.ExecutionRunning && is.State != v1alpha1.ExecutionRunning && is.FinishedAt == nil:
		return "has lost an attempt that ran"
	}
	return ""
}

// planOf is a plan as it is written; nil for what is none.
func planOf(u *unstructured.Unstructured) *v1alpha1.HibernatePlan {
	p := &v1alpha1.HibernatePlan{}
	if u.GetKind() != "HibernatePlan" {
		return nil
	}
	convert(u, p)
	return p
}

// configMapOf is a ConfigMap as it is written.
func configMapOf(u *unstructured.Unstructured) *corev1.ConfigMap {
	c := &corev1.ConfigMap{}
	convert(u, c)
	return c
}

func convert(u *unstructured.Unstructured, into any) {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into); err != nil {
		panic(err) // the API server has taken it
	}
}

// thePlan is the one of a run, with its ledger; nil if there is none.
func thePlan(s faults.State) *v1alpha1.HibernatePlan {
	for _, u := range s.Of("HibernatePlan") {
		return withLedger(planOf(u), s)
	}
	return nil
}

// withLedger reads the ledger of a plan that has left its status.
func withLedger(p *v1alpha1.HibernatePlan, objects []*unstructured.Unstructured) *v1alpha1.HibernatePlan {
	if p == nil || p.Status.Ledger == nil {
		return p
	}
	for _, name := range p.Status.Ledger.Shards {
		for _, u := range objects {
			if u.GetKind() != "ControllerRevision" || u.GetName() != name {
				continue
			}
			var shard struct {
				Data struct {
					Executions []v1alpha1.ExecutionStatus `json:"executions"`
				} `json:"data"`
			}
			convert(u, &shard)
			p.Status.Executions = append(p.Status.Executions, shard.Data.Executions...)
			break
		}
	}
	return p
}

// nameIn is that of a namespace/name.
func nameIn(ref string) string {
	_, name, _ := strings.Cut(ref, "/")
	return name
}
