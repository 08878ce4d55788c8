package experiment

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/argoworkflows"
	"github.com/labkeeper/labkeeper/internal/external/crossplane"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// marks are how the children of Experiments are known.
var marks = kube.Marks{
	UID:   v1alpha1.LabelExperimentUID,
	Name:  v1alpha1.LabelExperiment,
	Owner: v1alpha1.AnnotationOwner,
}

// names are where an Experiment's children live and what they are called.
type names struct {
	experiment *v1alpha1.Experiment
	options    Options
}

// cluster is the name of the objects that a target's cluster is made by.
func (n names) cluster(t v1alpha1.Target) types.NamespacedName {
	name := types.NamespacedName{
		Namespace: n.claimNamespace(),
		Name:      kube.ChildName(crossplane.MaxClaimName, n.experiment.UID, n.experiment.Name, t.Name),
	}
	if providerOf(t).housed() {
		// What is made of it is a Service, too, whose name must begin with a letter.
		name.Namespace, name.Name = n.onHub(t), housedPrefix+kube.ChildName(crossplane.MaxClaimName-len(housedPrefix), n.experiment.UID, n.experiment.Name, t.Name)
	}
	return name
}

const housedPrefix = "vc-"

// onHub is the namespace that a target has on the hub: that of its components, or that of the objects
// which its cluster is made by. It is empty for a target that has none for itself alone.
func (n names) onHub(t v1alpha1.Target) string {
	if t.Cluster.Type != v1alpha1.ClusterHub && !providerOf(t).housed() {
		return ""
	}
	return n.ownNamespace(t)
}

// ownNamespace is the name of a namespace that nobody else has by chance, and no system has. Who searches for one finds it (scope.vacant).
func (n names) ownNamespace(t v1alpha1.Target) string {
	return kube.ChildName(maxNamespace, n.experiment.UID, n.experiment.Name, t.Name)
}

func (n names) claimNamespace() string {
	if n.options.ClaimNamespace != "" {
		return n.options.ClaimNamespace
	}
	return n.experiment.Namespace
}

func (n names) clusterSecret(t v1alpha1.Target) types.NamespacedName {
	return types.NamespacedName{Namespace: n.options.ArgoCDNamespace, Name: "cluster-" + n.cluster(t).Name}
}

// application is the name of a target's Application: that of a single component, by the reference to
// it, or of all of them.
func (n names) application(t v1alpha1.Target, component string) types.NamespacedName {
	return types.NamespacedName{Namespace: n.options.ArgoCDNamespace, Name: n.deploying(argocd.MaxApplicationName, t, component)}
}

func (n names) deploying(maxLength int, t v1alpha1.Target, component string) string {
	return kube.ChildName(maxLength, n.experiment.UID, append([]string{n.experiment.Name, t.Name}, strings.Fields(component)...)...)
}

// release is the name of the releases of an Application whose own begins with a digit, and empty for others: charts call Services by
// it, whose names must begin with a letter before Kubernetes 1.36.
func (n names) release(t v1alpha1.Target, component string) string {
	if !unicode.IsDigit(rune(n.application(t, component).Name[0])) {
		return ""
	}
	return releasePrefix + n.deploying(argocd.MaxApplicationName-len(releasePrefix), t, component)
}

const releasePrefix = "r-"

// targetOf is the target that an Application is of, by the name that it gives it: the label, which somebody may have taken off, says
// so of one whose name no target gives it any more.
func (n names) targetOf(app *unstructured.Unstructured) string {
	for _, t := range n.experiment.Spec.Targets {
		if keyOf(app) == n.application(t, componentOf(app)) || keyOf(app) == n.application(t, "") {
			return t.Name
		}
	}
	return app.GetLabels()[v1alpha1.LabelTarget]
}

// ofComponent says whether an object is the Application of a single component that a target has, or has
// had, by the name that this one would have.
func (n names) ofComponent(o *unstructured.Unstructured) bool {
	component := componentOf(o)
	return component != "" && o.GroupVersionKind() == argocd.ApplicationGVK &&
		slices.ContainsFunc(n.experiment.Spec.Targets, func(t v1alpha1.Target) bool { return n.application(t, component) == keyOf(o) })
}

// workflow is the name of the Workflow of a run.
func (n names) workflow(run int32) types.NamespacedName {
	parts := []string{n.experiment.Name, "validation"}
	if run > 1 {
		parts = append(parts, strconv.Itoa(int(run)))
	}
	return types.NamespacedName{
		Namespace: n.workflowNamespace(),
		Name:      kube.ChildName(argoworkflows.MaxWorkflowName, n.experiment.UID, parts...),
	}
}

// run is the number of the Workflow that the status records, or of the first: that of which it has the name,
// because an older version that has written it does not know the number.
func (n names) run() int32 {
	recorded := n.experiment.Status.Workflow
	if recorded == nil || recorded.Name == n.workflow(1).Name {
		return 1
	}
	return max(1, recorded.Run)
}

// nextRun is that of the Workflow that would be submitted now.
func (n names) nextRun() int32 {
	if n.experiment.Status.Workflow == nil {
		return 1
	}
	return n.run() + 1
}

// ofRun says whether an object is a Workflow of the Experiment's, by the name that its number gives it.
func (n names) ofRun(o *unstructured.Unstructured) bool {
	return o.GroupVersionKind() == argoworkflows.WorkflowGVK && n.workflow(runOf(o)) == keyOf(o)
}

// runOf is the number of a Workflow, which the first does not carry.
func runOf(workflow *unstructured.Unstructured) int32 {
	run, err := strconv.ParseInt(workflow.GetAnnotations()[v1alpha1.AnnotationRun], 10, 32)
	if err != nil {
		return 1
	}
	return int32(run)
}

// workflowNamespace is where the Workflow is.
func (n names) workflowNamespace() string {
	return orDefault(n.experiment.Spec.Workflow.Namespace, n.options.WorkflowNamespace)
}

// unwatched says that the Workflow is where this manager does not look.
func (n names) unwatched() bool {
	return n.experiment.Spec.Workflow.Namespace != "" && !n.options.WorkflowsAnywhere
}

// template is the template that the Workflow runs.
func (n names) template() (schema.GroupVersionKind, types.NamespacedName) {
	w := n.experiment.Spec.Workflow
	if w.ClusterScope {
		return argoworkflows.ClusterWorkflowTemplateGVK, types.NamespacedName{Name: w.Template}
	}
	return argoworkflows.WorkflowTemplateGVK, types.NamespacedName{Namespace: n.workflowNamespace(), Name: w.Template}
}

// orphans is the ConfigMap that tells of what is left behind.
func (n names) orphans() types.NamespacedName {
	return types.NamespacedName{
		Namespace: n.options.OrphansNamespace,
		Name:      kube.ChildName(maxNamespace, n.experiment.UID, "orphans", n.experiment.Name),
	}
}

// namespaceGVK is a core Namespace.
var namespaceGVK = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}

// namespaceOf is where the Experiment's children of a kind are looked for, empty for those that
// are in none or in several; ours is false for a kind that it has no children of.
func (n names) namespaceOf(gvk schema.GroupVersionKind) (namespace string, ours bool) {
	switch gvk {
	case namespaceGVK:
		return "", true
	case argocd.ApplicationGVK, argocd.SecretGVK:
		return n.options.ArgoCDNamespace, true
	case argoworkflows.WorkflowGVK:
		return n.workflowNamespace(), true
	}
	if slices.Contains(housedKinds(), gvk) {
		return "", true
	}
	return n.claimNamespace(), slices.Contains(clusterKinds(), gvk) || slices.Contains(n.copyKinds(), gvk)
}

// copyKinds are the kinds of what clusters get of the templates that the user names.
func (n names) copyKinds() (kinds []schema.GroupVersionKind) {
	for _, t := range n.experiment.Spec.Targets {
		for _, c := range copiesOf(n, t) {
			kinds = union(kinds, []schema.GroupVersionKind{c.gvk})
		}
	}
	return kinds
}

// children are the names that the Experiment's children of a kind have. One of another name is not
// provably the Experiment's, whatever its labels say: people copy objects with their labels, and
// Argo CD labels whatever namespace an Application names.
func (n names) children(gvk schema.GroupVersionKind) []types.NamespacedName {
	if gvk == argoworkflows.WorkflowGVK {
		workflows := []types.NamespacedName{n.workflow(n.run())}
		if w := n.experiment.Status.Workflow; w != nil && w.Superseded { // and another may be submitted by now
			workflows = append(workflows, n.workflow(n.nextRun()))
		}
		return workflows
	}
	var out []types.NamespacedName
	for _, t := range n.experiment.Spec.Targets {
		switch gvk {
		case argocd.SecretGVK:
			out = append(out, n.clusterSecret(t))
		case argocd.ApplicationGVK:
			for _, p := range n.partsOf(t) {
				out = append(out, n.application(t, p.component))
			}
			if recorded := recordedTarget(n.experiment.Status.Targets, t.Name); recorded != nil {
				for _, c := range recorded.Components { // which the spec may not name any more
					out = append(out, n.application(t, c.Name))
				}
			}
		case namespaceGVK:
			if namespace := n.onHub(t); namespace != "" {
				out = append(out, types.NamespacedName{Name: namespace})
			}
		default:
			for _, o := range n.clusterObjects(t) {
				if o.GroupVersionKind() == gvk {
					out = append(out, keyOf(o))
				}
			}
		}
	}
	return out
}

// ofCluster says whether an object of a watched kind has the name of one that the cluster of a target is made by, of whatever type
// that is: its spec need not be known.
func (n names) ofCluster(o *unstructured.Unstructured) bool {
	for _, kind := range []v1alpha1.ClusterType{v1alpha1.ClusterGKE, v1alpha1.ClusterTalos, v1alpha1.ClusterVCluster} {
		t := v1alpha1.Target{Name: o.GetLabels()[v1alpha1.LabelTarget], Cluster: v1alpha1.ClusterSpec{Type: kind}}
		if n.cluster(t) == keyOf(o) {
			return true
		}
	}
	return false
}

// waitedFor is what the status says was asked to go of the targets' clusters, and what goes with them, and
// of the objects of more kinds.
func (n names) waitedFor(more ...schema.GroupVersionKind) (waiting []v1alpha1.Waiting) {
	if n.experiment.Status.Teardown == nil {
		return nil
	}
	asked := map[string]bool{}
	add := func(gvk schema.GroupVersionKind, keys ...types.NamespacedName) {
		for _, key := range keys {
			asked[kube.Describe(named(gvk, key))] = true
		}
	}
	for _, gvk := range append(more, argocd.SecretGVK, namespaceGVK) {
		add(gvk, n.children(gvk)...)
	}
	for _, t := range n.experiment.Spec.Targets {
		for _, o := range n.clusterObjects(t) {
			add(o.GroupVersionKind(), keyOf(o))
		}
	}
	for _, w := range n.experiment.Status.Teardown.WaitsFor {
		if asked[w.Object] {
			waiting = append(waiting, w)
		}
	}
	return waiting
}

// clusterObjects are those that a target's cluster is made by, and with no more than their names what it
// gets of templates.
func (n names) clusterObjects(t v1alpha1.Target) []*unstructured.Unstructured {
	objects := providerOf(t).objects(n, t)
	for _, c := range copiesOf(n, t) {
		objects = append(objects, named(c.gvk, c.key))
	}
	return objects
}

// named is an object with no more than its name.
func named(gvk schema.GroupVersionKind, key types.NamespacedName) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(key.Namespace)
	u.SetName(key.Name)
	return u
}

// keyOf is where an object is.
func keyOf(o *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// namespaces are where the Experiment's children live.
func (n names) namespaces() v1alpha1.Namespaces {
	return v1alpha1.Namespaces{Claims: n.claimNamespace(), ArgoCD: n.options.ArgoCDNamespace, Workflows: n.workflowNamespace()}
}

// tells says whether a cluster Secret makes Argo CD know a target's cluster.
func (n names) tells(secret *unstructured.Unstructured, t v1alpha1.Target, objects []*unstructured.Unstructured) bool {
	name, _ := secretValue(secret, "name")
	server, _ := secretValue(secret, "server")
	config, _ := secretValue(secret, "config")
	return string(name) == n.registration(t, objects) && len(server) > 0 && json.Valid(config) && labels.SelectorFromSet(argocd.ClusterLabels()).Matches(labels.Set(secret.GetLabels()))
}

// registration is what Argo CD calls a target's cluster. One of which an object takes the place of
// another has another name, so that nothing which is said of the old one is taken for the new one;
// without an object it is the same cluster always.
func (n names) registration(t v1alpha1.Target, objects []*unstructured.Unstructured) string {
	cluster := standing(objects)
	if cluster == nil {
		return kube.ChildName(argocd.MaxApplicationName, n.experiment.UID, n.experiment.Name, t.Name)
	}
	uid := cluster.GetUID()
	for i, o := range objects {
		if i == 0 || i >= providerOf(t).identity() {
			continue
		}
		uid += "/"
		if o != nil {
			uid += o.GetUID()
		}
	}
	return kube.ChildName(argocd.MaxApplicationName, uid, cluster.GetName())
}

// shared says whether a target's cluster is there for others, too.
func shared(t v1alpha1.Target) bool {
	return slices.Contains([]v1alpha1.ClusterType{v1alpha1.ClusterHub, v1alpha1.ClusterExisting, v1alpha1.ClusterReferred}, t.Cluster.Type)
}

// deployed is the namespace that a target's components are deployed into. On a cluster that is
// everybody's it is the Experiment's own.
func (n names) deployed(t v1alpha1.Target) string {
	if shared(t) {
		return n.ownNamespace(t)
	}
	return orDefault(t.Namespace, kube.NamespaceName(n.experiment.UID, n.experiment.Name))
}

// maxNamespace is the longest name of a namespace.
const maxNamespace = 63

var errNoKey = errors.New("the key is not there")

// secretValue is one value of an unstructured Secret. Its errors never quote it.
func secretValue(secret *unstructured.Unstructured, key string) ([]byte, error) {
	encoded, _, _ := unstructured.NestedString(secret.Object, "data", key)
	if encoded == "" {
		return nil, errNoKey
	}
	value, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, errors.New("it is not base64")
	}
	return value, nil
}
