package experiment

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/test/env"
	"github.com/labkeeper/labkeeper/test/faults"
)

const (
	argoCDNamespace     = "argocd"
	workflowNamespace   = "argo"
	crossplaneNamespace = "crossplane-system"
	managerNamespace    = "labkeeper-system"
	managerAccount      = "labkeeper-controller-manager"
)

// The finalizers that the outsides put on what they work on.
const (
	crossplaneFinalizer = "finalizer.apiextensions.crossplane.io"
	cloudFinalizer      = "managed.crossplane.io/cloud"
	clusterAPIFinalizer = "cluster.cluster.x-k8s.io"
	arlonFinalizer      = "cluster.core.arlon.io"
	argoCDFinalizer     = "resources-finalizer.argocd.argoproj.io"
	workflowFinalizer   = "workflows.argoproj.io/artifact-gc"
)

// The steps that a workload can hold, and release.
const (
	// Crossplane or Cluster API makes a cluster, leaves its kubeconfig, and lets it go.
	clusterReady   = "cluster-ready"
	connectionLeft = "connection-left"
	// Crossplane takes GKEClusters for claims; while that is held, for namespaced composites.
	claims      = "claims"
	clusterGone = "cluster-gone"
	// Crossplane brings a cluster to its end; while that is held, something is wrong with what there is of it.
	clusterRight = "cluster-right"
	// A cluster takes the token that it was made with, and when that is released another.
	tokenTaken = "token-taken"
	// Argo CD deploys, what it has begun to sync waits for no hook any more, and it lets an Application go.
	applicationHealthy = "application-healthy"
	syncEnds           = "sync-ends"
	// What it has synced stays as it was; while that is held, something changes a part of it as soon as that is synced.
	syncLasts       = "sync-lasts"
	applicationGone = "application-gone"
	// What is deployed works; while that is held, it does not. And what works does so no more.
	applicationWorks = "application-works"
	applicationFails = "application-fails"
	// Argo Workflows ends a Workflow, well (it fails while that is held), and lets it go.
	workflowEnds     = "workflow-ends"
	workflowSucceeds = "workflow-succeeds"
	workflowGone     = "workflow-gone"
	// The time is over that a Workflow was given; one that was given none goes on.
	workflowLate = "workflow-late"
	// The namespace controller lets a namespace go.
	namespaceGone = "namespace-gone"
)

// neighbour is the name of an Experiment beside the one that a workload is about, and ofNeighbour ends the role of what belongs to it, and
// the names of the steps that outsides do not take for it.
const neighbour, ofNeighbour = "neighbour", " of the neighbour"

// canary stands for what must never be seen outside of Secrets.
const canary = "canary-5be1c0"

// namesake is the UID of an Experiment of the same name that has always been there.
const namesake = "5be1c0de-0000-4000-8000-000000000000"

// kubeconfig is what Crossplane leaves of a cluster, and address where that is.
const address, kubeconfig = "203.0.113.7", `apiVersion: v1
kind: Config
current-context: gke
clusters:
- name: gke
  cluster: {server: "https://203.0.113.7", certificate-authority-data: Y2FuYXJ5LTViZTFjMA==}
contexts:
- name: gke
  context: {cluster: gke, user: client}
users:
- name: client
  user: {token: ` + canary + `-token}
`

// rotated is it with another token.
var rotated = strings.ReplaceAll(kubeconfig, canary+"-token", canary+"-rotated")

// ownAddress is that of a cluster whose token changes: of two credentials at one address Argo CD would use one, so no other run has it.
const ownAddress = faults.RunNamespace + ".example.com"

// at is a kubeconfig of a cluster of the run, which is somewhere else if its token changes.
func at(s *faults.Stage, kubeconfig string) string {
	if !s.Holds(tokenTaken) {
		return kubeconfig
	}
	return strings.ReplaceAll(kubeconfig, address, strings.ReplaceAll(ownAddress, faults.RunNamespace, s.Namespace))
}

// installation is what the manager expects of its cluster.
var installation = faults.Installation{
	CRDs: []string{
		"config/crd/bases", "bin/crds/argo-cd/application-crd.yaml", "test/crds",
		"bin/crds/cluster-api/cluster.x-k8s.io_clusters.yaml", "bin/crds/cluster-api/cluster.x-k8s.io_machinedeployments.yaml",
	},
	Namespaces:       []string{argoCDNamespace, workflowNamespace, crossplaneNamespace, managerNamespace},
	Manifests:        []string{"config/rbac", "config/grants", "test/faults/experiment/testdata", "config/samples/components.yaml", "config/samples/workflowtemplate.yaml", "config/observability/components.yaml"},
	AccountNamespace: managerNamespace,
	Account:          managerAccount,
}

// world is everything around an Experiment.
var world = faults.World{
	Kinds: []schema.GroupVersionResource{
		v1alpha1.GroupVersion.WithResource("experiments"),
		v1alpha1.GroupVersion.WithResource("components"),
		{Group: "illm.io", Version: "v1alpha1", Resource: "gkeclusters"},
		{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "clusters"},
		arlonClusters,
		{Group: "infrastructure.cluster.x-k8s.io", Version: "v1alpha1", Resource: "vclusters"},
		{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "machinedeployments"},
		{Group: "controlplane.cluster.x-k8s.io", Version: "v1alpha3", Resource: "taloscontrolplanes"},
		{Group: "bootstrap.cluster.x-k8s.io", Version: "v1alpha3", Resource: "talosconfigtemplates"},
		{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1", Resource: "dockerclusters"},
		{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1", Resource: "dockermachinetemplates"},
		{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"},
		{Group: "argoproj.io", Version: "v1alpha1", Resource: "workflows"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
		{Version: "v1", Resource: "configmaps"},
		{Version: "v1", Resource: "secrets"},
		{Version: "v1", Resource: "namespaces"},
	},
	Run:  runOf,
	Role: role,
	Owner: func(u *unstructured.Unstructured) types.UID {
		if uid := u.GetLabels()[v1alpha1.LabelExperimentUID]; uid != namesake && u.GetKind() != "ConfigMap" {
			return types.UID(uid)
		}
		return ""
	},
	Others: func(u *unstructured.Unstructured) bool {
		uid := u.GetLabels()[v1alpha1.LabelExperimentUID]
		return u.GetKind() != "Experiment" && (uid == "" || uid == namesake)
	},
	Rank:       rank,
	Forbids:    forbids,
	Invariants: invariants,
	Play:       play,
	// Conflicts are another look, and no error: kube.QuietConflicts.
	QuietWhenLate: true,
	Secrets:       faults.Disguises(canary),
	Manager: func(namespace string) []string {
		return []string{
			"--controllers=experiments", "--watch-namespaces=" + namespace, "--orphans-namespace=" + managerNamespace, "--workflows-anywhere",
			"--observability-hub-url=http://mimir-gateway.mimir.svc:8080/api/v1/push", "--observability-tailnet=tail1234.ts.net",
		}
	},
}

// arlonClusters are those that somebody else makes.
var arlonClusters = schema.GroupVersionResource{Group: "core.arlon.io", Version: "v1", Resource: "clusters"}

// arlons says whether an object is one of them.
func arlons(u *unstructured.Unstructured) bool {
	return u.GroupVersionKind().Group == arlonClusters.Group
}

// ownPrefix is what the name of a Component begins with that one run has.
const ownPrefix = "own-"

// runOf is the namespace of the Experiment that an object belongs to.
func runOf(u *unstructured.Unstructured) string {
	if run, own := strings.CutPrefix(u.GetName(), ownPrefix); own && u.GetKind() == "Component" {
		return run
	}
	if u.GetKind() == "Experiment" || arlons(u) {
		return u.GetNamespace()
	}
	namespace, _, _ := strings.Cut(u.GetAnnotations()[v1alpha1.AnnotationOwner], "/")
	return namespace
}

// role says what a child is to its Experiment.
func role(u *unstructured.Unstructured) string {
	which := componentIn(u)
	if u.GetKind() == "DockerMachineTemplate" && strings.HasSuffix(u.GetName(), "-worker") {
		which = "worker"
	}
	return strings.Join(slices.DeleteFunc([]string{u.GetKind(), targetOf(u), which}, func(s string) bool { return s == "" }), " ") + whose(u)
}

// whose is how the roles end of what belongs to the neighbour, which has another name or is in another namespace.
func whose(u *unstructured.Unstructured) string {
	owner := u.GetAnnotations()[v1alpha1.AnnotationOwner]
	if u.GetKind() == "Experiment" {
		owner = u.GetNamespace() + "/" + u.GetName()
	}
	if namespace, name, _ := strings.Cut(owner, "/"); name == neighbour || strings.HasSuffix(namespace, faults.Beside) {
		return ofNeighbour
	}
	return ""
}

var phases = []v1alpha1.Phase{
	v1alpha1.PhasePending, v1alpha1.PhaseProvisioning, v1alpha1.PhaseReady, v1alpha1.PhaseRunning, v1alpha1.PhaseComplete, v1alpha1.PhaseFailed, v1alpha1.PhaseDeleting,
}

func rank(u *unstructured.Unstructured) (int, bool) {
	if u.GetKind() != "Experiment" {
		return 0, false
	}
	at := slices.Index(phases, phaseOf(u))
	return at, at >= 0
}

// forbids another verdict than the one that was given.
func forbids(before, after *unstructured.Unstructured) string {
	verdicts := []v1alpha1.Phase{v1alpha1.PhaseComplete, v1alpha1.PhaseFailed}
	if before.GetKind() == "Experiment" && slices.Contains(verdicts, phaseOf(before)) && slices.Contains(verdicts, phaseOf(after)) && phaseOf(before) != phaseOf(after) {
		return fmt.Sprintf("the verdict %s has become %s", phaseOf(before), phaseOf(after))
	}
	return ""
}

// targetState is what an Experiment says of one of its targets.
func targetState(e *unstructured.Unstructured, name string) string {
	state, _ := targetStatus(e, name)["state"].(string)
	return state
}

// componentState is what it says of a component that has an Application of its own.
func componentState(e *unstructured.Unstructured, target, name string) string {
	components, _, _ := unstructured.NestedSlice(targetStatus(e, target), "components")
	for _, c := range components {
		if component, _ := c.(map[string]any); component["name"] == name {
			state, _ := component["state"].(string)
			return state
		}
	}
	return ""
}

func targetStatus(e *unstructured.Unstructured, name string) map[string]any {
	targets, _, _ := unstructured.NestedSlice(e.Object, "status", "targets")
	for _, t := range targets {
		if target, _ := t.(map[string]any); target["name"] == name {
			return target
		}
	}
	return nil
}

func phaseOf(u *unstructured.Unstructured) v1alpha1.Phase {
	phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
	return v1alpha1.Phase(phase)
}

// play is what Crossplane, Cluster API, Argo CD, Argo Workflows and the namespace controller do when they
// see the state, at once. A step that the manager could see together with the one before
// waits until the Experiment has told of that.
func play(ctx context.Context, stage *faults.Stage, state faults.State) error {
	var first error
	for _, u := range state {
		p := player{stage: stage, state: state, object: u}
		var err error
		switch u.GetKind() {
		case "GKECluster":
			err = p.crossplane(ctx)
		case "Cluster":
			if arlons(u) {
				err = p.arlon(ctx)
			} else {
				err = p.clusterAPI(ctx)
			}
		case "Application":
			err = p.argoCD(ctx)
		case "Workflow":
			err = p.argoWorkflows(ctx)
		case "Namespace":
			err = p.namespaces(ctx)
		}
		if err != nil && first == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			first = fmt.Errorf("playing %s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	return first
}

// player takes the steps of one object.
type player struct {
	stage  *faults.Stage
	state  faults.State
	object *unstructured.Unstructured
}

func (p player) text(path ...string) string {
	s, _, _ := unstructured.NestedString(p.object.Object, path...)
	return s
}

func (p player) going() bool { return p.object.GetDeletionTimestamp() != nil }

// owner is the Experiment, nil when it is gone.
func (p player) owner() *unstructured.Unstructured {
	for _, e := range p.state.Of("Experiment") {
		if string(e.GetUID()) == p.object.GetLabels()[v1alpha1.LabelExperimentUID] {
			return e
		}
	}
	return nil
}

// held says whether the workload still keeps the outside from a step.
func (p player) held(step string) bool { return p.stage.Held(step + whose(p.object)) }

// self is the object as messages name it. The name alone would not do: an Application has
// that of its claim.
func (p player) self() string {
	return p.object.GetKind() + " " + strings.TrimPrefix(p.object.GetNamespace()+"/", "/") + p.object.GetName()
}

// awaited says whether the Experiment tells that it waits for the object to go, and for
// none of the kinds that go before. One that is not being deleted itself tells that somebody
// deletes its claim or Application; of its Workflow it tells nothing.
func (p player) awaited(before ...string) bool {
	e := p.owner()
	if e == nil {
		return true
	}
	told := condition(e, v1alpha1.ConditionReady)
	ended, target := condition(e, v1alpha1.ConditionCleanedUp), targetOf(p.object)
	switch {
	case ended != nil:
		told = ended
	case e.GetDeletionTimestamp() != nil:
	case targetState(e, target) == string(v1alpha1.TargetDeleting):
		told = map[string]any{"reason": v1alpha1.ReasonDeleting, "message": targetStatus(e, target)["message"]}
	default:
		// A Workflow that another takes the place of goes when that may come, not in the same moment.
		own := faults.State{e}
		return p.object.GetKind() == "Workflow" && (!superseded(own) || healthy(own) && awaitsItsEnd(own)) || says(e, p.self()+isDeleted)
	}
	message, _ := told["message"].(string)
	return told["reason"] == v1alpha1.ReasonDeleting && strings.Contains(message, p.self()) &&
		!slices.ContainsFunc(before, func(kind string) bool { return strings.Contains(message, kind+" ") })
}

// What the Experiment says of a claim or Application that is being deleted while it is not: by the manager,
// or by somebody.
const (
	isDeleted         = " is being deleted"
	deletedBySomebody = isDeleted + " by somebody"
)

// condition is a condition of the Experiment; nil while it has none of the type.
func condition(e *unstructured.Unstructured, conditionType string) map[string]any {
	for _, c := range conditions(e) {
		if c["type"] == conditionType {
			return c
		}
	}
	return nil
}

func conditions(e *unstructured.Unstructured) []map[string]any {
	list, _, _ := unstructured.NestedSlice(e.Object, "status", "conditions")
	var out []map[string]any
	for _, c := range list {
		if condition, ok := c.(map[string]any); ok {
			out = append(out, condition)
		}
	}
	return out
}

// says looks for words in the messages of all conditions.
func says(e *unstructured.Unstructured, words string) bool {
	return slices.ContainsFunc(conditions(e), func(c map[string]any) bool {
		message, _ := c["message"].(string)
		return strings.Contains(message, words)
	})
}

func (p player) crossplane(ctx context.Context) error {
	connection := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "stringData": map[string]any{"kubeconfig": at(p.stage, kubeconfig)},
	}}
	bound := map[string]any{"resourceRef": map[string]any{"apiVersion": "illm.io/v1alpha1", "kind": "XGKECluster", "name": p.object.GetName() + "-xr"}}
	connection.SetNamespace(crossplaneNamespace)
	connection.SetName(p.object.GetName() + "-xr-cluster-conn")
	if p.held(claims) {
		bound = map[string]any{"crossplane": map[string]any{"compositionRef": map[string]any{"name": "gkeclusters.illm.io"}}}
		connection.SetNamespace(p.object.GetNamespace())
		connection.SetName(p.object.GetName() + "-cluster-conn")
	}
	connection.SetAnnotations(map[string]string{v1alpha1.AnnotationOwner: p.object.GetAnnotations()[v1alpha1.AnnotationOwner]})
	connection.SetLabels(map[string]string{v1alpha1.LabelTarget: connectionOf(p.object)})
	switch {
	case p.going():
		return p.takenDown(ctx, connection)
	case !slices.Contains(p.object.GetFinalizers(), crossplaneFinalizer):
		return p.patch(ctx, map[string]any{
			"metadata": map[string]any{"finalizers": append(p.object.GetFinalizers(), crossplaneFinalizer)},
			"spec":     bound,
		})
	case p.held(clusterReady), p.text("status", "connectionDetails", "lastPublishedTime") != "",
		p.held(connectionLeft) && p.text("status", "endpoint") != "", p.held(clusterRight) && p.text("status", "endpoint") != "":
		return nil
	}
	condition := func(t, status, reason, message string) map[string]any {
		return map[string]any{"type": t, "status": status, "reason": reason, "message": message, "lastTransitionTime": now()}
	}
	status := map[string]any{
		"endpoint":   at(p.stage, address),
		"conditions": []any{condition("Ready", "True", "Available", ""), condition("Synced", "True", "ReconcileSuccess", "")},
	}
	switch {
	case p.held(connectionLeft):
		connection.Object["stringData"] = map[string]any{"kubeconfig": "{" + canary}
	case p.held(clusterRight):
		status["conditions"] = []any{condition("Ready", "False", "Creating", ""), condition("Synced", "False", "ReconcileError", noNodes)}
	default:
		status["connectionDetails"] = map[string]any{"lastPublishedTime": now()}
	}
	if p.held(claims) {
		// It is made of others, which keep it as long as they are there, if it is deleted in the foreground.
		connection.SetFinalizers([]string{cloudFinalizer})
		connection.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: p.object.GetAPIVersion(), Kind: p.object.GetKind(), Name: p.object.GetName(), UID: p.object.GetUID(), BlockOwnerDeletion: ptr.To(true),
		}})
	}
	err := p.stage.Client.Create(ctx, connection.DeepCopy())
	if apierrors.IsAlreadyExists(err) {
		err = p.stage.Client.Patch(ctx, connection, client.Merge)
	}
	if err != nil {
		return err
	}
	return p.patchStatus(ctx, map[string]any{"status": status})
}

// noNodes is what Crossplane says of a cluster with which something is wrong.
const noNodes = "cannot compose resources: the quota of nodes is used up"

// connectionOf is what marks what there is of the cluster of a claim in the cloud, which its kubeconfig stands for.
func connectionOf(claim *unstructured.Unstructured) string { return "connection-" + targetOf(claim) }

// takenDown takes a cluster down, and lets its claim go after that, or at once, as the claim says. A namespaced composite does not say:
// Crossplane lets it go at once, and Kubernetes keeps it as long as what it is made of is there, if that was asked for.
func (p player) takenDown(ctx context.Context, connection *unstructured.Unstructured) error {
	down := !p.held(clusterGone) && p.awaited(p.unlessHeld(clusterGone, p.unlessNeeded("Secret", "Namespace")...)...)
	switch {
	case p.held(claims):
		for _, u := range p.state.Of("Secret") {
			if u.GetDeletionTimestamp() == nil || !down || client.ObjectKeyFromObject(u) != client.ObjectKeyFromObject(connection) {
				continue
			}
			if err := (player{stage: p.stage, state: p.state, object: u}).dropFinalizer(ctx, cloudFinalizer); err != nil {
				return err
			}
		}
	case p.text("spec", "compositeDeletePolicy") != "Foreground": // what it leaves goes later
	case !down:
		return nil
	default:
		if err := client.IgnoreNotFound(p.stage.Client.Delete(ctx, connection)); err != nil {
			return err
		}
	}
	return p.dropFinalizer(ctx, crossplaneFinalizer)
}

// clusterAPI makes a cluster when it has seen the object of the provider, too, and takes that down
// before the Cluster goes.
func (p player) clusterAPI(ctx context.Context) error {
	connection := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "stringData": map[string]any{"value": kubeconfig},
	}}
	connection.SetNamespace(p.object.GetNamespace())
	connection.SetName(p.object.GetName() + "-kubeconfig")
	connection.SetAnnotations(map[string]string{v1alpha1.AnnotationOwner: p.object.GetAnnotations()[v1alpha1.AnnotationOwner]})
	connection.SetLabels(map[string]string{v1alpha1.LabelTarget: "connection-" + targetOf(p.object)})
	provided, complete := p.provided()
	switch {
	case p.going():
		// The namespace that it is in goes later.
		if p.held(clusterGone) || !p.awaited(p.unlessHeld(clusterGone, p.unlessNeeded("Secret")...)...) {
			return nil
		}
		if len(provided) > 0 {
			return p.remove(ctx, provided)
		}
		if err := client.IgnoreNotFound(p.stage.Client.Delete(ctx, connection)); err != nil {
			return err
		}
		return p.dropFinalizer(ctx, clusterAPIFinalizer)
	case !complete:
		return nil
	case p.text("spec", "controlPlaneEndpoint", "host") == "":
		return p.patch(ctx, map[string]any{
			"metadata": map[string]any{"finalizers": append(p.object.GetFinalizers(), clusterAPIFinalizer)},
			"spec":     map[string]any{"controlPlaneEndpoint": map[string]any{"host": "203.0.113.7", "port": 443}},
		})
	case p.held(clusterReady), !p.endpointTold(), p.initialized():
		return nil
	}
	if err := p.stage.Client.Create(ctx, connection); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	ready := map[string]string{"VCluster": `{"status":{"ready":true}}`, "TalosControlPlane": `{"status":{"initialized":true}}`}
	for _, o := range provided {
		if ready[o.GetKind()] == "" {
			continue
		}
		if err := p.stage.Client.Status().Patch(ctx, o.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(ready[o.GetKind()]))); err != nil {
			return err
		}
	}
	return p.patchStatus(ctx, map[string]any{"status": map[string]any{
		"initialization": map[string]any{"infrastructureProvisioned": true, "controlPlaneInitialized": true},
	}})
}

// arlon registers a Cluster with Argo CD, and then says that it is Ready; one that is being deleted is no more known to Argo CD when
// it goes.
func (p player) arlon(ctx context.Context) error {
	secret := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"stringData": map[string]any{"name": "k3", "server": "https://203.0.113.33", "config": `{"bearerToken": "` + canary + `-token"}`},
	}}
	secret.SetNamespace(argoCDNamespace)
	secret.SetName("arlon-" + p.stage.Namespace)
	secret.SetAnnotations(map[string]string{v1alpha1.AnnotationOwner: p.stage.Namespace + "/"})
	secret.SetLabels(map[string]string{
		v1alpha1.LabelTarget: "arlon", "argocd.argoproj.io/secret-type": "cluster", "core.arlon.io/cluster-uid": string(p.object.GetUID()),
	})
	conditions, _, _ := unstructured.NestedSlice(p.object.Object, "status", "conditions")
	switch {
	case p.going():
		if p.held(clusterGone) || !p.goingTold() {
			return nil
		}
		if err := client.IgnoreNotFound(p.stage.Client.Delete(ctx, secret)); err != nil {
			return err
		}
		return p.dropFinalizer(ctx, arlonFinalizer)
	case p.held(clusterReady) || len(conditions) > 0:
		return nil
	}
	if err := p.stage.Client.Create(ctx, secret); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return p.patchStatus(ctx, map[string]any{"status": map[string]any{"conditions": []any{map[string]any{
		"type": "Ready", "status": "True", "reason": "Up", "message": "", "observedGeneration": p.object.GetGeneration(), "lastTransitionTime": now(),
	}}}})
}

// goingTold says whether an Experiment has told that somebody deletes the Cluster, or looks at it no more.
func (p player) goingTold() bool {
	return !slices.ContainsFunc(p.state.Of("Experiment"), func(e *unstructured.Unstructured) bool {
		return e.GetDeletionTimestamp() == nil && !decided(e) && !says(e, p.self()+deletedBySomebody)
	})
}

func (p player) remove(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, o := range objects {
		if err := client.IgnoreNotFound(p.stage.Client.Delete(ctx, o.DeepCopy())); err != nil {
			return err
		}
	}
	return nil
}

// provided are the objects that Cluster API takes down with a Cluster, and whether all are there that it
// makes one of.
func (p player) provided() (objects []*unstructured.Unstructured, complete bool) {
	kinds := []string{"VCluster"}
	if p.text("spec", "controlPlaneRef", "kind") == "TalosControlPlane" {
		kinds = []string{"MachineDeployment", "TalosControlPlane", "DockerCluster"}
	}
	for _, kind := range kinds {
		for _, o := range p.state.Of(kind) {
			if o.GetNamespace() == p.object.GetNamespace() && o.GetName() == p.object.GetName() {
				objects = append(objects, o)
			}
		}
	}
	return objects, len(objects) == len(kinds)
}

func (p player) initialized() bool {
	initialized, _, _ := unstructured.NestedBool(p.object.Object, "status", "initialization", "controlPlaneInitialized")
	return initialized
}

// endpointTold says whether the Experiment has told where the cluster's API server is: of this cluster,
// not of one of the same name that it says is being deleted.
func (p player) endpointTold() bool {
	e := p.owner()
	if e == nil {
		return true
	}
	if says(e, p.self()+isDeleted) {
		return false
	}
	targets, _, _ := unstructured.NestedSlice(e.Object, "status", "targets")
	return slices.ContainsFunc(targets, func(t any) bool {
		m, _ := t.(map[string]any)
		return m["name"] == p.object.GetLabels()[v1alpha1.LabelTarget] && m["endpoint"] != nil
	})
}

// unlessHeld are the kinds that go before an object; those of a workload that holds its end
// say themselves when that comes.
func (p player) unlessHeld(step string, before ...string) []string {
	if p.stage.Holds(step + whose(p.object)) {
		return nil
	}
	return before
}

// unlessNeeded are the kinds that go before a cluster but for its registration, where Applications on it go still: that stays for them.
func (p player) unlessNeeded(before ...string) []string {
	for _, app := range p.state.Of("Application") {
		if app.GetDeletionTimestamp() != nil && targetOf(app) == targetOf(p.object) && whose(app) == whose(p.object) {
			return slices.DeleteFunc(before, func(kind string) bool { return kind == "Secret" })
		}
	}
	return before
}

func (p player) argoCD(ctx context.Context) error {
	if p.refused() {
		return p.isRefused(ctx)
	}
	if p.going() {
		return p.letGo(ctx)
	}
	sources, _, _ := unstructured.NestedSlice(p.object.Object, "spec", "sources")
	destination, _, _ := unstructured.NestedMap(p.object.Object, "spec", "destination")
	now := map[string]any{"sources": sources, "destination": destination}
	if health := p.health(); p.synced(now) && p.text("status", "health", "status") != health {
		return p.patch(ctx, map[string]any{"status": map[string]any{"health": map[string]any{"status": health}}})
	}
	if p.synced(now) || p.held(applicationHealthy) || !p.deploying() {
		return nil
	}
	if !registered(p.state, p.object) {
		return p.cannotSync(ctx)
	}
	if step := p.slowly(sources); step != nil {
		return step(ctx, now)
	}
	if env.ArgoCDDestination(p.object) == "" {
		// What CreateNamespace=true asks for; the other clusters are not there. One that is there, whosever that is, is labelled, too.
		namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
		namespace.SetName(p.text("spec", "destination", "namespace"))
		labels, _, _ := unstructured.NestedStringMap(p.object.Object, "spec", "syncPolicy", "managedNamespaceMetadata", "labels")
		annotations, _, _ := unstructured.NestedStringMap(p.object.Object, "spec", "syncPolicy", "managedNamespaceMetadata", "annotations")
		namespace.SetLabels(labels)
		namespace.SetAnnotations(annotations)
		labelled, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
		if err != nil {
			return err
		}
		err = p.stage.Client.Create(ctx, namespace)
		if apierrors.IsAlreadyExists(err) {
			err = p.stage.Client.Patch(ctx, namespace, client.RawPatch(types.MergePatchType, labelled))
		}
		if err != nil {
			return err
		}
	}
	return p.patch(ctx, map[string]any{"metadata": looked(), "operation": nil, "status": p.deployed(sources, now)})
}

// deployed is what Argo CD says of what it has synced, and what it compares that with then.
func (p player) deployed(sources []any, comparedTo map[string]any) map[string]any {
	sync, status := "Synced", map[string]any{"conditions": nil, "health": map[string]any{"status": p.health()}, "operationState": nil}
	if p.held(syncLasts) {
		sync, status["reconciledAt"] = "OutOfSync", now()
		status["operationState"] = map[string]any{
			"phase": "Succeeded", "message": "successfully synced", "startedAt": now(), "finishedAt": now(),
			"operation":  map[string]any{"sync": map[string]any{"prune": true, "sources": sources}},
			"syncResult": map[string]any{"revision": "", "sources": sources},
		}
	}
	status["resources"] = []any{map[string]any{"version": "v1", "kind": "Service", "name": "web", "status": sync}}
	status["sync"] = map[string]any{"status": sync, "comparedTo": comparedTo}
	return status
}

// health is that of what it has deployed.
func (p player) health() string {
	if p.held(applicationWorks) || p.stage.Holds(applicationFails+whose(p.object)) && !p.held(applicationFails) {
		return "Degraded"
	}
	return "Healthy"
}

// letGo lets an Application go, but not in the middle of a sync, nor one of a cluster that it knows and that is not there any more: there it
// would take down what it has deployed, and goes on trying. One of a cluster that Argo CD does not know goes without what it deployed: an
// invariant sees that.
func (p player) letGo(ctx context.Context) error {
	if p.held(applicationGone) || !p.awaited() || p.syncing() && !p.terminated() || p.unreachable() {
		return nil
	}
	return p.dropFinalizer(ctx, argoCDFinalizer)
}

// unreachable says whether Argo CD knows the cluster of an Application, and it is not there.
func (p player) unreachable() bool {
	e := p.owner()
	return e != nil && env.ArgoCDDestination(p.object) != "" && registered(p.state, p.object) && !standing(p.state, e, p.object)
}

// synced says whether it has been compared with what it has now, and there is nothing to sync.
func (p player) synced(now map[string]any) bool {
	compared, _, _ := unstructured.NestedMap(p.object.Object, "status", "sync", "comparedTo")
	return reflect.DeepEqual(now, compared) && !p.asked() && !p.disconnected() && !p.syncing() && p.syncPhase() != "Failed"
}

// syncPhase is what Argo CD tells of the last sync, of those that take their time.
func (p player) syncPhase() string { return p.text("status", "operationState", "phase") }

// hookWaits is what Argo CD says of a sync that waits for a hook, and syncEnded of one that it was asked to end.
const hookWaits, syncEnded = "waiting for completion of hook batch/Job/check", "Operation terminated"

// slowly is what Argo CD does where a sync takes its time; nil where it is through at once, or is by now.
func (p player) slowly(sources []any) func(context.Context, map[string]any) error {
	switch ended := p.syncPhase() == "Failed"; {
	case p.syncing() && (p.held(syncEnds) || !p.syncs(sources) || !p.waitTold()):
		return p.syncOn
	case ended && !says(p.owner(), syncEnded):
		return func(context.Context, map[string]any) error { return nil }
	case !ended && !p.syncing() && p.held(syncEnds):
		return p.hang
	}
	return nil
}

// hang begins a sync that waits for a hook.
func (p player) hang(ctx context.Context, comparedTo map[string]any) error {
	operation := map[string]any{"initiatedBy": map[string]any{"automated": true}, "sync": map[string]any{"prune": true, "sources": comparedTo["sources"]}}
	return p.patch(ctx, map[string]any{"metadata": looked(), "operation": operation, "status": map[string]any{
		"health":         map[string]any{"status": "Missing"},
		"operationState": map[string]any{"phase": "Running", "message": hookWaits, "startedAt": now(), "operation": operation},
		"sync":           map[string]any{"status": "OutOfSync", "comparedTo": comparedTo},
	}})
}

// syncOn is what Argo CD does in the middle of a sync: it compares, and keeps to what it has begun with until it is asked to end that. It
// begins another then.
func (p player) syncOn(ctx context.Context, comparedTo map[string]any) error {
	with, _, _ := unstructured.NestedSlice(p.object.Object, "operation", "sync", "sources")
	switch {
	case p.terminated():
		return p.patch(ctx, map[string]any{"operation": nil, "status": map[string]any{"operationState": map[string]any{
			"phase": "Failed", "message": syncEnded, "finishedAt": now(), "syncResult": map[string]any{"revision": "", "sources": with},
		}}})
	case p.asked() && !p.waitTold():
		return p.patch(ctx, map[string]any{"metadata": looked(), "status": map[string]any{
			"sync": map[string]any{"status": "OutOfSync", "comparedTo": comparedTo},
		}})
	}
	return nil
}

// syncing says whether Argo CD is in the middle of a sync, and syncs whether that is with some sources.
func (p player) syncing() bool { return p.object.Object["operation"] != nil }

func (p player) syncs(sources []any) bool {
	with, _, _ := unstructured.NestedSlice(p.object.Object, "operation", "sync", "sources")
	return reflect.DeepEqual(with, sources)
}

// terminated says whether Argo CD was asked to end it, of which the Experiment has told what it waits for, as waitTold says.
func (p player) terminated() bool {
	return p.syncPhase() == "Terminating" && p.waitTold()
}

func (p player) waitTold() bool {
	e := p.owner()
	return e == nil || says(e, hookWaits)
}

func (p player) asked() bool { return p.object.GetAnnotations()[env.ArgoCDRefresh] != "" }

// looked is what Argo CD does with that when it has.
func looked() map[string]any {
	return map[string]any{"annotations": map[string]any{env.ArgoCDRefresh: nil}}
}

// deploying says whether the Experiment has told that the Application is on its way, and what keeps it.
func (p player) deploying() bool {
	e := p.owner()
	if e == nil || targetState(e, targetOf(p.object)) != string(v1alpha1.TargetDeploying) || p.disconnected() && !says(e, credentialsRefused) {
		return false
	}
	component := componentIn(p.object)
	return component == "" || componentState(e, targetOf(p.object), component) == string(v1alpha1.ComponentDeploying)
}

// credentialsRefused is what Argo CD says of a cluster that does not take the token that it was told of.
const credentialsRefused = "the server has asked for the client to provide credentials"

// refused says whether the cluster takes the token no more that Argo CD was told of.
func (p player) refused() bool {
	cluster := env.ArgoCDDestination(p.object)
	return p.stage.Holds(tokenTaken) && !p.stage.Held(tokenTaken) && slices.ContainsFunc(p.state.Of("Secret"), func(secret *unstructured.Unstructured) bool {
		return secret.GetNamespace() == argoCDNamespace && env.ArgoCDKnows(secret, cluster) && strings.Contains(read(secret, "config"), canary+"-token")
	})
}

// read is what a Secret has of a key.
func read(secret *unstructured.Unstructured, key string) string {
	encoded, _, _ := unstructured.NestedString(secret.Object, "data", key)
	decoded, _ := base64.StdEncoding.DecodeString(encoded)
	return string(decoded)
}

// disconnected says whether Argo CD has told so.
func (p player) disconnected() bool {
	list, _, _ := unstructured.NestedSlice(p.object.Object, "status", "conditions")
	return slices.ContainsFunc(list, func(c any) bool { return c.(map[string]any)["message"] == credentialsRefused })
}

// isRefused has it tell so: what is going it only tries to delete. What has a verdict it would compare after minutes, which is too late.
func (p player) isRefused(ctx context.Context) error {
	if p.disconnected() && !p.asked() || p.judged() && !p.going() {
		return nil
	}
	refusal := map[string]any{"type": "ComparisonError", "message": credentialsRefused, "lastTransitionTime": now()}
	status := map[string]any{"sync": map[string]any{"status": "Unknown"}, "conditions": []any{refusal}}
	if p.going() {
		refusal["type"] = "DeletionError"
		delete(status, "sync")
	}
	return p.patch(ctx, map[string]any{"metadata": looked(), "status": status})
}

// judged says whether the Experiment has a verdict.
func (p player) judged() bool {
	e := p.owner()
	if e == nil {
		return false
	}
	_, judged, _ := unstructured.NestedString(e.Object, "status", "completedAt")
	return judged
}

// cannotSync is what Argo CD says of a cluster that it does not know.
func (p player) cannotSync(ctx context.Context) error {
	if list, _, _ := unstructured.NestedSlice(p.object.Object, "status", "conditions"); len(list) > 0 && !p.asked() {
		return nil
	}
	return p.patch(ctx, map[string]any{"metadata": looked(), "status": map[string]any{"conditions": []any{map[string]any{
		"type": "InvalidSpecError", "message": "there are no clusters with this name: " + env.ArgoCDDestination(p.object),
	}}}})
}

func (p player) argoWorkflows(ctx context.Context) error {
	switch phase := p.text("status", "phase"); {
	case p.going():
		if p.held(workflowGone) || !p.awaited() {
			return nil
		}
		return p.dropFinalizer(ctx, workflowFinalizer)
	case phase == "" && p.told(""):
		status := map[string]any{"phase": "Running", "startedAt": now()}
		if missing, err := p.templateMissing(ctx); err != nil {
			return err
		} else if missing != "" {
			status = map[string]any{"phase": "Error", "message": missing, "startedAt": now(), "finishedAt": now()}
		}
		return p.patch(ctx, map[string]any{
			"metadata": map[string]any{"finalizers": append(p.object.GetFinalizers(), workflowFinalizer)},
			"status":   status,
		})
	case phase == "Running" && p.told(phase):
		return p.judge(ctx)
	}
	return nil
}

// judge ends a Workflow that runs, if it is to end.
func (p player) judge(ctx context.Context) error {
	verdict := map[string]any{"phase": "Succeeded", "finishedAt": now()}
	switch {
	case p.overdue():
		verdict["phase"], verdict["message"] = "Failed", "Step exceeded its deadline"
	case p.held(workflowEnds), p.edited():
		return nil
	case p.held(workflowSucceeds):
		verdict["phase"], verdict["message"] = "Failed", "exit code 1"
	}
	return p.patch(ctx, map[string]any{"status": verdict})
}

// overdue says whether a Workflow has had the time that it was given.
func (p player) overdue() bool {
	limit, _, _ := unstructured.NestedInt64(p.object.Object, "spec", "activeDeadlineSeconds")
	return limit > 0 && p.stage.Holds(workflowLate+whose(p.object)) && !p.held(workflowLate)
}

// templateMissing is what Argo Workflows says of a Workflow whose template does not exist.
func (p player) templateMissing(ctx context.Context) (string, error) {
	of, found, _ := unstructured.NestedMap(p.object.Object, "spec", "workflowTemplateRef")
	if !found {
		return "", nil
	}
	template := &unstructured.Unstructured{}
	template.SetGroupVersionKind(p.object.GroupVersionKind().GroupVersion().WithKind("WorkflowTemplate"))
	key := client.ObjectKey{Namespace: p.object.GetNamespace()}
	if global, _ := of["clusterScope"].(bool); global {
		template.SetKind("ClusterWorkflowTemplate")
		key.Namespace = ""
	}
	key.Name, _ = of["name"].(string)
	err := p.stage.Client.Get(ctx, key, template)
	if apierrors.IsNotFound(err) {
		return err.Error(), nil
	}
	return "", err
}

// edited says whether the Workflow may not be that of the spec any more: it does not end in the moment in which the
// Experiment tells that another takes its place.
func (p player) edited() bool {
	e := p.owner()
	if e == nil {
		return false
	}
	told, _, _ := unstructured.NestedInt64(e.Object, "status", "observedGeneration")
	return told != e.GetGeneration() || superseded(faults.State{e})
}

// told says whether the Experiment has told of the Workflow in this phase.
func (p player) told(phase string) bool {
	e := p.owner()
	if e == nil {
		return true
	}
	workflow, found, _ := unstructured.NestedMap(e.Object, "status", "workflow")
	have, _ := workflow["phase"].(string)
	return found && have == phase
}

// namespaces does at once what the controller manager takes five seconds for: what is in one goes, and then itself.
func (p player) namespaces(ctx context.Context) error {
	if !p.going() || p.held(namespaceGone) || !p.awaited(p.unlessHeld(namespaceGone, "Secret")...) {
		return nil
	}
	within := slices.DeleteFunc(p.state.Of("RoleBinding"), func(u *unstructured.Unstructured) bool { return u.GetNamespace() != p.object.GetName() })
	for _, u := range within {
		if err := client.IgnoreNotFound(p.stage.Client.Delete(ctx, u.DeepCopy())); err != nil {
			return err
		}
	}
	if len(within) > 0 {
		return nil // until it is seen to be gone
	}
	namespace := p.object.DeepCopy()
	unstructured.RemoveNestedField(namespace.Object, "spec", "finalizers")
	return p.stage.Client.SubResource("finalize").Update(ctx, namespace)
}

// patch changes the object unless it has changed since it was seen.
func (p player) patch(ctx context.Context, change map[string]any) error {
	data, err := p.change(change)
	if err != nil {
		return err
	}
	return p.stage.Client.Patch(ctx, p.object.DeepCopy(), data)
}

func (p player) patchStatus(ctx context.Context, change map[string]any) error {
	data, err := p.change(change)
	if err != nil {
		return err
	}
	return p.stage.Client.Status().Patch(ctx, p.object.DeepCopy(), data)
}

func (p player) change(change map[string]any) (client.Patch, error) {
	metadata, _ := change["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		change["metadata"] = metadata
	}
	metadata["resourceVersion"] = p.object.GetResourceVersion()
	data, err := json.Marshal(change)
	return client.RawPatch(types.MergePatchType, data), err
}

func (p player) dropFinalizer(ctx context.Context, finalizer string) error {
	have := p.object.GetFinalizers()
	keep := slices.DeleteFunc(slices.Clone(have), func(f string) bool { return f == finalizer })
	if len(keep) == len(have) {
		return nil
	}
	return p.patch(ctx, map[string]any{"metadata": map[string]any{"finalizers": keep}})
}

func now() string { return time.Now().UTC().Format(time.RFC3339) }
