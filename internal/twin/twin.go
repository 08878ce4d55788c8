// Package twin builds the twin of a workload: a smaller one of the same kind, with an override, behind the
// Services of its source. It is pure.
//
// A twin is constructed, not copied: of the source only what is listed here gets into a new object
// (sanitise), the override is merged into that (internal/merge), and what the twin rests on is put on top
// (enforce), so that no override can take it away. What comes out is checked as strictly as the types of its kind
// allow. What is not listed, trackers of GitOps tools, owners and finalizers among it, has no way in.
//
// The ids in comments and tests (d1, s2, …) are those of the traps that each answers.
package twin

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/labkeeper/labkeeper/internal/merge"
)

// Group is the prefix of the labels and annotations of twins, which nobody else may set on one.
const Group = "experiment-controller.example.com"

// Labels of twins and their pods.
const (
	// LabelName is the name of the ExperimentDeployment, cut where it is longer than a label's value may be.
	LabelName = Group + "/cr-name"
	// LabelRole is always RoleExperiment.
	LabelRole      = Group + "/role"
	RoleExperiment = "experiment"
	// LabelIsExperiment is always "true".
	LabelIsExperiment = Group + "/is-experiment"
	// LabelID is what the selector of a twin selects, and no other pod has.
	LabelID = Group + "/experiment-id"
)

// MaxName is the longest name of a twin: that of a StatefulSet gets into a label with a hash of ten characters
// and a dash (m15).
const MaxName = 52

// Strategy says how the override is merged.
type Strategy string

const (
	// Replace is RFC 7386: lists replace.
	Replace Strategy = "Replace"
	// Strategic merges lists by their keys.
	Strategic Strategy = "Strategic"
)

// Wanted is what is asked for.
type Wanted struct {
	// Name of the twin, at most MaxName characters, from the identity of what asks for it alone: its selector
	// is made of it and can never change (d1).
	Name string
	// For is the value of LabelName.
	For string
	// Replicas over those of the override over 1; nil where nothing is said.
	Replicas *int32
	// Now is the source as it is now, where the twin is made of what it was; nil otherwise.
	Now *unstructured.Unstructured
	// Override of the source's spec.
	Override map[string]any
	// Strategy of the merge; Replace by default.
	Strategy Strategy
	// AllowPrivileges lets it have privileges that the source does not have.
	AllowPrivileges bool
	// AllowLabelOverride lets the override change labels that Services select.
	AllowLabelOverride bool
	// Annotations are prefixes of those that are copied beside the ones that always are.
	Annotations []string
	// Labels are prefixes of those of the source itself that are copied: none always is.
	Labels []string
	// Services of the source's namespace, by name.
	Services []Service
	// Claims are the access modes of PersistentVolumeClaims, by name: at least of those that Claims lists of the source's template, as it is now.
	Claims map[string][]string
	// Rollout is the name of the one that runs the template of the source, by its workloadRef; mostly empty.
	Rollout string
}

// Twin is what came of it.
type Twin struct {
	// Object has apiVersion, kind, name, namespace, labels, annotations and spec.
	Object *unstructured.Unstructured
	// Services that select the source's pods, by name.
	Services []Sharing
	// Warnings are what is dangerous and goes on, the worst first.
	Warnings []Warning
}

// Warning is something that may hurt the source.
type Warning struct {
	// Reason in CamelCase.
	Reason string
	// Message names what it is about.
	Message string
}

// OfPods says whether it is of a twin that has pods.
func (w Warning) OfPods() bool { return w.Reason == WarnAlone || w.Reason == WarnNotSmaller }

// InvalidError is a refusal of what was asked for: it will not go away by itself.
type InvalidError struct {
	// Path of the field, from the spec on.
	Path string
	// Problem and what to do.
	Problem string
}

// Error is the path and the problem.
func (e *InvalidError) Error() string { return e.Path + ": " + e.Problem }

func invalid(path, format string, args ...any) error {
	return &InvalidError{Path: path, Problem: fmt.Sprintf(format, args...)}
}

// Build makes the twin of a source, whose template is that of the workload that it refers to if it refers to
// one (r1). Errors: InvalidError.
func Build(source *unstructured.Unstructured, w Wanted) (*Twin, error) {
	kind, err := kindOf(source.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	from, _ := source.Object["spec"].(map[string]any)
	if err := w.refuse(kind, source, from); err != nil {
		return nil, err
	}
	replicas, err := replicasOf(w)
	if err != nil {
		return nil, err
	}
	template := templateOf(from)
	if template == nil {
		return nil, invalid("sourceRef", "%s %s has no pod template", source.GetKind(), source.GetName())
	}
	base := kind.sanitise(from)
	base["template"] = sanitiseTemplate(template, w.Annotations)
	spec, err := w.merge(kind, base)
	if err != nil {
		return nil, err
	}
	kind.normalise(spec)
	if kind.plain != nil {
		if err := kind.plain(spec); err != nil {
			return nil, err
		}
	}
	t := &Twin{Object: w.object(source)}
	t.Object.Object["spec"] = spec
	if err := w.enforce(spec, replicas); err != nil {
		return nil, err
	}
	var kept []Warning
	if t.Services, kept, err = w.share(podsOf(source, template), spec); err != nil {
		return nil, err
	}
	unknown, _ := kind.strictly(base) // what else is wrong with it, the API server has taken
	if err := kind.check(spec, unknown); err != nil {
		return nil, err
	}
	more := slices.Concat(Exceeding(template, templateOf(spec)), without(claimed(spec), claimed(base)), without(described(spec), described(from)), unlike(base, spec, unknown))
	if len(more) > 0 && !w.AllowPrivileges {
		return nil, invalid("overrideSpec", "it gives the pods what the source's do not have: %s", strings.Join(more, ", "))
	}
	if err := w.mounts(templateOf(w.now(from)), spec); err != nil {
		return nil, err
	}
	kind.fix(t.Object)
	t.Warnings = w.warnings(source, from, spec, kind.lists, append(kept, w.stoppedWarnings(source)...)...)
	return t, nil
}

// refuse says what no twin can be made of.
func (w Wanted) refuse(kind kind, source *unstructured.Unstructured, from map[string]any) error {
	if source.GetLabels()[LabelRole] == RoleExperiment { // o10
		return invalid("sourceRef", "%s %s is itself a twin; name the workload that it is one of", source.GetKind(), source.GetName())
	}
	if path, is := tooLong(w.Override); is {
		return invalid("overrideSpec"+path, "a list of a twin has %d elements at most", mostElements)
	}
	if path, is := tooLong(from); is {
		return invalid("sourceRef", "%s %s has more than %d elements in spec%s, which is more than a twin may have", source.GetKind(), source.GetName(), mostElements, path)
	}
	return kind.refuse(w.Override)
}

// mostElements is how many a list may have. Each of one list is compared with each of another, by what merges them and by what looks
// at what pods may do: without a bound one override would keep the manager busy for minutes.
const mostElements = 1000

// tooLong is the path, within a value, of a list with more elements, if there is one: of several always the same.
func tooLong(value any) (path string, is bool) {
	switch of := value.(type) {
	case map[string]any:
		for name := range of {
			if below, found := tooLong(of[name]); found {
				path, is = max(path, "."+name+below), true
			}
		}
	case []any:
		if len(of) > mostElements {
			return "", true
		}
		for i := range of {
			if below, found := tooLong(of[i]); found {
				return fmt.Sprintf("[%d]%s", i, below), true
			}
		}
	}
	return path, is
}

// mounts is an error if the pods use a volume of the source's that one pod alone may use: the twin's would wait for it
// for ever, or the source's next would wait for the twin's (p6).
func (w Wanted) mounts(template, spec map[string]any) error {
	for _, claim := range both(claimsOf(podOf(templateOf(spec))), claimsOf(podOf(template))) {
		if slices.Contains(w.Claims[claim], string(corev1.ReadWriteOncePod)) {
			return invalid("overrideSpec.template.spec.volumes", "PersistentVolumeClaim %s is for one pod alone (ReadWriteOncePod), which is the source's; "+
				"put another volume in its place (with mergeStrategy Strategic beside persistentVolumeClaim: null)", claim)
		}
	}
	return nil
}

// merge lays the override over the base.
func (w Wanted) merge(kind kind, base map[string]any) (map[string]any, error) {
	var spec map[string]any
	var err error
	if w.Strategy == Strategic {
		spec, err = merge.Strategic(base, w.Override, kind.lists)
	} else {
		spec, err = merge.Replace(base, w.Override)
	}
	if err != nil {
		return nil, invalid("overrideSpec", "%v", err)
	}
	if err := rolls(w.Override, spec); err != nil {
		return nil, err
	}
	return spec, accountOf(spec)
}

// rolls is an error where an override says how pods are rolled out of a source that has them made anew, which would be dropped (d7).
func rolls(override, spec map[string]any) error {
	asked, _ := override["strategy"].(map[string]any)
	strategy, _ := spec["strategy"].(map[string]any)
	if asked["rollingUpdate"] != nil && asked["type"] == nil && strategy["type"] == "Recreate" {
		return invalid("overrideSpec.strategy.rollingUpdate", "the source's type is Recreate; set type: RollingUpdate beside it")
	}
	return nil
}

// replicasOf is how many there are to be (c6, d5): the source's are nobody's business here.
func replicasOf(w Wanted) (int64, error) {
	override, set := w.Override["replicas"]
	n, whole := override.(int64)
	switch {
	case set && override != nil && (!whole || n < 0 || n > math.MaxInt32): // of a Rollout the API server would take more
		return 0, invalid("overrideSpec.replicas", "it must be a whole number, 0 or more, and %d at most", math.MaxInt32)
	case set && whole && w.Replicas != nil && int64(*w.Replicas) != n:
		return 0, invalid("overrideSpec.replicas", "it is %d, and spec.replicas is %d; remove one of the two", n, *w.Replicas)
	case w.Replicas != nil:
		return int64(*w.Replicas), nil
	case set && whole:
		return n, nil
	}
	return 1, nil
}

// object is the twin without its spec.
func (w Wanted) object(source *unstructured.Unstructured) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(source.GroupVersionKind())
	u.SetNamespace(source.GetNamespace())
	u.SetName(w.Name)
	labels, annotations := copied(source.GetLabels(), w.Labels), copied(source.GetAnnotations(), w.Annotations)
	if len(labels) > 0 {
		maps.Copy(annotations, notOfArgo)
	}
	if names := slices.Concat(slices.Sorted(maps.Keys(labels)), slices.Sorted(maps.Keys(annotations))); len(names) > 0 {
		annotations[AnnotationCopied] = strings.Join(names, ",")
	}
	maps.Copy(labels, w.labels())
	if id, ok := source.GetLabels()[InstanceID]; ok { // m13: a controller with an instance id sees no others
		labels[InstanceID] = id
	}
	u.SetLabels(labels)
	if len(annotations) > 0 {
		u.SetAnnotations(annotations)
	}
	return u
}

// AnnotationCopied is on a twin that has labels and annotations of its source, which it lists: those alone are ours to
// take off again, whatever else begins as they do.
const AnnotationCopied = Group + "/copied"

// notOfArgo are the annotations by which Argo CD leaves a twin alone that it takes for a part of its source's
// Application: which label tells it of those only its own settings say, and that may be one that is copied (m6).
var notOfArgo = map[string]string{
	"argocd.argoproj.io/compare-options":    "IgnoreExtraneous",
	"argocd.argoproj.io/ignore-healthcheck": "true",
	"argocd.argoproj.io/sync-options":       "Prune=false,Delete=false",
}

// InstanceID is the label of Rollouts that says which controller looks after them.
const InstanceID = "argo-rollouts.argoproj.io/controller-instance-id"

// labels are those of the twin and its pods.
func (w Wanted) labels() map[string]string {
	return map[string]string{LabelName: w.For, LabelRole: RoleExperiment, LabelIsExperiment: "true", LabelID: w.Name}
}

// enforce puts on top what the twin rests on (d1, d2, d4).
func (w Wanted) enforce(spec map[string]any, replicas int64) error {
	metadata, err := templateMetadata(spec)
	if err != nil {
		return err
	}
	labels, ok := metadata["labels"].(map[string]any)
	if !ok && metadata["labels"] != nil {
		return invalid("overrideSpec.template.metadata.labels", "it must be an object")
	}
	if labels == nil {
		labels = map[string]any{}
	}
	for name, value := range w.labels() {
		labels[name] = value
	}
	metadata["labels"] = labels
	spec["selector"] = map[string]any{"matchLabels": map[string]any{LabelID: w.Name}}
	spec["replicas"] = replicas
	return nil
}

// templateMetadata is that of the template, made if there is none.
func templateMetadata(spec map[string]any) (map[string]any, error) {
	template, ok := spec["template"].(map[string]any)
	if !ok {
		return nil, invalid("overrideSpec.template", "it must be an object")
	}
	metadata, ok := template["metadata"].(map[string]any)
	if !ok && template["metadata"] != nil {
		return nil, invalid("overrideSpec.template.metadata", "it must be an object")
	}
	if metadata == nil {
		metadata = map[string]any{}
		template["metadata"] = metadata
	}
	return metadata, nil
}

// templateOf is the template of a spec.
func templateOf(spec map[string]any) map[string]any {
	template, _ := spec["template"].(map[string]any)
	return template
}

// podOf is what a template says of its pods.
func podOf(template map[string]any) map[string]any {
	pod, _ := template["spec"].(map[string]any)
	return pod
}

// labelsOf are the labels of a template.
func labelsOf(template map[string]any) map[string]string {
	values, _, _ := unstructured.NestedStringMap(template, "metadata", "labels")
	return values
}

// Hash of a spec, which says whether another was wanted when an object was written.
func Hash(spec map[string]any) string {
	raw, err := json.Marshal(spec) // keys are sorted
	if err != nil {
		panic(err) // what JSON cannot say is in no object
	}
	return hash(raw)
}

// kinds by their group and kind; the version is that of the objects.
var kinds = map[schema.GroupKind]kind{
	{Group: "apps", Kind: "Deployment"}:     deployment,
	{Group: "apps", Kind: "StatefulSet"}:    statefulSet,
	{Group: "argoproj.io", Kind: "Rollout"}: rollout,
}

// Kinds of twins and their sources by their names, in the versions that are read and written.
var Kinds = map[string]schema.GroupVersionKind{
	"Deployment":  {Group: "apps", Version: "v1", Kind: "Deployment"},
	"StatefulSet": {Group: "apps", Version: "v1", Kind: "StatefulSet"},
	"Rollout":     RolloutGVK,
}

// RolloutGVK is the Rollout of Argo Rollouts, which may not be installed.
var RolloutGVK = schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "Rollout"}

func kindOf(gvk schema.GroupVersionKind) (kind, error) {
	k, ok := kinds[gvk.GroupKind()]
	if !ok {
		return kind{}, invalid("sourceRef.kind", "%s is none of Deployment, StatefulSet and Rollout", gvk.Kind)
	}
	return k, nil
}

// sanitiseTemplate is what a twin gets of a pod template: labels, but for those that controllers give pods
// (s10, r9) and those that groups of pods are made by, annotations that are listed, or read by variables, and the spec (p1, p2, p3).
func sanitiseTemplate(template map[string]any, prefixes []string) map[string]any {
	labels := map[string]any{}
	for name, value := range labelsOf(template) {
		if !slices.Contains(ofPods, name) && !slices.Contains(ofGroups, name) && !strings.HasPrefix(name, Group+"/") {
			labels[name] = value
		}
	}
	metadata := map[string]any{"labels": labels}
	annotations, _, _ := unstructured.NestedStringMap(template, "metadata", "annotations")
	kept := copied(annotations, annotationsOfPods, isolating, prefixes)
	for _, name := range annotationsRead(template) {
		if value, there := annotations[name]; there && copies(name, []string{name}) {
			kept[name] = value
		}
	}
	if len(kept) > 0 {
		values := map[string]any{}
		for name, value := range kept {
			values[name] = value
		}
		metadata["annotations"] = values
	}
	out := map[string]any{"metadata": metadata}
	if spec, ok := template["spec"].(map[string]any); ok {
		own := runtime.DeepCopyJSON(spec)
		delete(own, "schedulingGroup") // as the labels that do so
		if own["serviceAccountName"] != nil {
			delete(own, "serviceAccount") // its old name, which the server keeps beside
		}
		out["spec"] = own
	}
	return out
}

// accountOf is an error where an override names the account of the pods by an old name, which the server takes no notice of.
func accountOf(spec map[string]any) error {
	of := podOf(templateOf(spec))
	if name, old := of["serviceAccountName"], of["serviceAccount"]; name != nil && old != nil && name != old {
		return invalid("overrideSpec.template.spec.serviceAccount", "it is the old name of serviceAccountName, and has no effect beside it; set serviceAccountName")
	}
	return nil
}

// annotationsRead are those that variables of containers are made of.
func annotationsRead(template map[string]any) (all []string) {
	for _, c := range containers(podOf(template)) {
		for _, variable := range objects(c["env"]) {
			field, _, _ := unstructured.NestedString(variable, "valueFrom", "fieldRef", "fieldPath")
			if kind, name, is := metadataOf(field); is && kind == "annotations" {
				all = append(all, name)
			}
		}
	}
	return all
}

// ofPods are the labels that controllers give the pods that they make.
var ofPods = []string{
	"pod-template-hash", "rollouts-pod-template-hash", "controller-revision-hash",
	podName, podIndex,
}

// ofGroups are the labels by which schedulers and queues take pods for one group: the twin's would count for the source's, or take their
// place. Kueue gives the pods of StatefulSets one, and lets none of them in where their number is another than the group's.
var ofGroups = []string{
	"kueue.x-k8s.io/pod-group-name", "pod-group.scheduling.sigs.k8s.io", "pod-group.scheduling.sigs.k8s.io/name", "scheduling.x-k8s.io/pod-group",
}

// annotationsOfPods are prefixes of what makes pods what they are: what is injected into them, how they are
// scraped, and hashes of what they read.
var annotationsOfPods = []string{
	"ad.datadoghq.com/", "admission.datadoghq.com/", "checksum/", "cluster-autoscaler.kubernetes.io/safe-to-evict",
	"config.linkerd.io/", "container.apparmor.security.beta.kubernetes.io/", "inject.istio.io/", "instrumentation.opentelemetry.io/",
	"kubectl.kubernetes.io/default-container", "kubectl.kubernetes.io/default-logs-container", "linkerd.io/", "prometheus.io/",
	"proxy.istio.io/", "sidecar.istio.io/", "sidecar.opentelemetry.io/", "traffic.sidecar.istio.io/", "vault.hashicorp.com/",
}

// never are annotations and labels that say what a controller has found or done, or whose object it is, whatever is listed (m4 to m11).
var never = []string{
	"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "olm.", "skaffold.dev/",
	"sidecar.istio.io/status", "kubectl.kubernetes.io/last-applied-configuration", "kubectl.kubernetes.io/restartedAt",
	"argocd.argoproj.io/", "meta.helm.sh/", "helm.sh/", "deployment.kubernetes.io/", "deprecated.deployment.rollback.to",
	"rollout.argoproj.io/", "notified.notifications.argoproj.io", "notifications.argoproj.io/", "kapp.k14s.io/",
	"objectset.rio.cattle.io/", "config.k8s.io/owning-inventory", "configsync.gke.io/", "applyset.kubernetes.io/", "flagger-id", Group + "/",
}

// copied are the annotations, or labels, that begin as any of some lists.
func copied(all map[string]string, lists ...[]string) map[string]string {
	out := map[string]string{}
	for name, value := range all {
		if copies(name, lists...) {
			out[name] = value
		}
	}
	return out
}

// copies says whether an annotation, or a label, is one that is copied if it begins as any of some lists.
func copies(name string, lists ...[]string) bool {
	begins := func(prefixes []string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
	}
	family, _, _ := strings.Cut(name, "/")
	return !begins(never) && !strings.HasSuffix(family, "toolkit.fluxcd.io") && slices.ContainsFunc(lists, begins)
}
