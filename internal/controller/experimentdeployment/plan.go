package experimentdeployment

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/labkeeper/labkeeper/api/experimentcontroller/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/conditions"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/internal/merge"
	"github.com/labkeeper/labkeeper/internal/twin"
)

// marks are how twins are known.
var marks = kube.Marks{UID: v1alpha1.LabelUID, Name: v1alpha1.LabelName, Owner: v1alpha1.AnnotationOwner}

// stillThere is when to look again at a twin that is being deleted: its end may come to nobody's ears, where another
// manager's namespaces are watched now.
const stillThere = time.Minute

// steady is how long a twin must have been ready to have been: pods that crash after a moment are not.
const steady = time.Minute

// takenAgain is when to look again whether somebody else's object still has the name.
const takenAgain = time.Minute

// defaultUnready is how long a twin may be unready where the spec does not say.
const defaultUnready = 10 * time.Minute

// Observed is what a pass has seen.
type Observed struct {
	// Served: the kind of the source can be read. Unsynced: it cannot yet, and is there.
	Served, Unsynced bool
	// Source as it is; nil when the server has none.
	Source *unstructured.Unstructured
	// Workload is the spec of the one that the source refers to; nil where it has a template of its own. Missing
	// says which workload there is not.
	Workload map[string]any
	Missing  string
	// Unwatched: the manager does not act in the namespace of the source.
	Unwatched bool
	// Granted: the namespace of the source lets the ExperimentDeployment have a twin there. Privileged: one with
	// more privileges than its source.
	Granted, Privileged bool
	// Services, by name, Autoscalers and Budgets beside the source. Scaled are the other workloads that autoscalers are for.
	Services                     []twin.Service
	Autoscalers, Scaled, Budgets []*unstructured.Unstructured
	// Unlisted are the kinds of autoscalers, and of what these are for, that are installed and cannot be read.
	Unlisted []schema.GroupVersionKind
	// Claims are the access modes of the PersistentVolumeClaims that the source's pods use, by name. Unsure says that one is
	// not there, or for one pod alone: nobody tells when that changes.
	Claims map[string][]string
	Unsure bool
	// Referrer is a Rollout that runs the template of the source; mostly empty.
	Referrer string
	// Pin is the ControllerRevision that keeps the spec of the source; nil if there is none.
	Pin *unstructured.Unstructured
	// Twin is the ExperimentDeployment's, under its name; nil if there is none. Taken is an object of somebody else
	// that has the name.
	Twin  *unstructured.Unstructured
	Taken string
	// Unmarked: the mark of the twin is taken off, or changed, and is here as if it were there.
	Unmarked bool
}

// Action is what is done about the twin.
type Action int

// Actions.
const (
	// Nothing is done.
	Nothing Action = iota
	// Create the twin.
	Create
	// Update it.
	Update
	// Delete it, in the foreground.
	Delete
)

// Plan is what a pass does, and what the status says if that succeeds.
type Plan struct {
	// Action about Twin: what is wanted, or what is deleted.
	Action Action
	Twin   *unstructured.Unstructured
	// Pin is the ControllerRevision that is made before anything else is written, Displaced one that has its name, is not what was kept
	// and is deleted before that, and Unpin one that is deleted after the twin is written; nil if there is nothing to do.
	Pin, Displaced, Unpin *unstructured.Unstructured
	// Drifted: somebody has changed the twin.
	Drifted bool
	// Next is what takes the place of a twin that is deleted; nil if nothing does.
	Next *unstructured.Unstructured
	// Unchanged is what the status says of the twin if nothing about it is changed after all.
	Unchanged conditions.Step
	// Steps are the conditions that Ready sums up, and Others those that it does not.
	Steps, Others []conditions.Step
	// Services are those of the source.
	Services []twin.Sharing
	// Built says that the twin was built, from a source of SourceGeneration: TemplateHash is that of its template,
	// and Diff, with dryRun, what it would have that its source does not have.
	Built            bool
	SourceGeneration int64
	TemplateHash     string
	Diff             string
	// PinnedHash is that of what is kept of the source; empty if nothing is.
	PinnedHash string
	// Kept: the twin is left as it is, because there is none to be built.
	Kept bool
	// WantedHash is that of the spec that was asked for. Edited: by an edit that no pass has looked at yet.
	WantedHash string
	Edited     bool
	// UnreadySince is since when the twin has not been ready; zero if it is.
	UnreadySince time.Time
	// Anew: what is written to the twin has its own time to become ready, from then on.
	Anew bool
	// ScaleToZero: the twin's pods are taken away; with Record, that is recorded before it is done.
	ScaleToZero, Record bool
	// Expire deletes the ExperimentDeployment: its time is over.
	Expire bool
	// Done says that nothing is left of a deletion.
	Done bool
	// Wait is when to look again although nothing changed.
	Wait time.Duration
	// Due is when a time is over, which comes to the second whatever fails until then.
	Due time.Duration
}

// facts are everything that plan decides on.
type facts struct {
	owner *v1alpha1.ExperimentDeployment
	seen  Observed
	// annotations are prefixes of those that are copied beside the ones that always are, and labels of those of the source.
	annotations, labels []string
	now                 time.Time
	// drafts spare making a twin again that is made of the same; nil makes each.
	drafts *drafts
}

// key is where the twin is.
func key(owner *v1alpha1.ExperimentDeployment) types.NamespacedName {
	return types.NamespacedName{Namespace: sourceNamespace(owner), Name: kube.ChildName(twin.MaxName, owner.UID, owner.Spec.SourceRef.Name, "exp")}
}

// sourceNamespace is where the source is.
func sourceNamespace(owner *v1alpha1.ExperimentDeployment) string {
	if owner.Spec.SourceRef.Namespace != "" {
		return owner.Spec.SourceRef.Namespace
	}
	return owner.Namespace
}

// plan decides. It is pure.
func (f facts) plan() Plan {
	switch {
	case f.owner.DeletionTimestamp != nil:
		return f.teardown()
	case f.expired():
		return Plan{Expire: true}
	default:
		p := f.follow()
		f.ends(&p)
		return p
	}
}

// expired says whether its time is over. That does not depend on what can be read.
func (f facts) expired() bool {
	left := f.left()
	return f.owner.DeletionTimestamp == nil && left != nil && *left <= 0
}

// ends has a pass come when its time is over.
func (f facts) ends(p *Plan) {
	if left := f.left(); left != nil {
		p.dueIn(*left)
	}
}

// left is how long it still lives; nil where it stays.
func (f facts) left() *time.Duration {
	if f.owner.Spec.TTL == nil {
		return nil
	}
	left := f.owner.CreationTimestamp.Add(f.owner.Spec.TTL.Duration).Sub(f.now)
	return &left
}

// lookIn makes sure that there is a pass when so much time has passed; 0 asks for none.
func (p *Plan) lookIn(wait time.Duration) {
	p.Wait = kube.Sooner(p.Wait, max(0, wait))
}

// dueIn is lookIn for the end of a time.
func (p *Plan) dueIn(wait time.Duration) {
	p.lookIn(wait)
	p.Due = kube.Sooner(p.Due, max(0, wait))
}

// teardown deletes the twin, and waits until it is gone.
func (f facts) teardown() Plan {
	if f.seen.Twin == nil {
		return Plan{Done: true, Unpin: f.seen.Pin}
	}
	p := Plan{Wait: stillThere, Steps: []conditions.Step{conditions.False(v1alpha1.ConditionTwinReady, v1alpha1.ReasonDeleting, "Waits for the deletion of "+kube.Describe(f.seen.Twin))}}
	if f.seen.Twin.GetDeletionTimestamp() == nil {
		p.Action, p.Twin = Delete, f.seen.Twin
	}
	return p
}

// follow brings the twin to what is asked for.
func (f facts) follow() Plan {
	found := f.found()
	var source *unstructured.Unstructured
	if holds(found) {
		source = f.source()
	}
	built, accepted := f.build(source)
	p := Plan{Steps: []conditions.Step{accepted, found}}
	if f.seen.Unsure || found.Reason == v1alpha1.ReasonPinLost {
		p.lookIn(refusedAgain) // nobody tells when that changes
	}
	if built != nil {
		p.describe(f, built)
	}
	switch {
	case f.orphaned(found):
		p.Steps = append(p.Steps, f.bereave(&p))
		return p
	case f.owner.Spec.DryRun:
		if built != nil {
			p.Diff = twin.Diff(source, built.Object)
		}
		p.Steps = append(p.Steps, f.dryRun())
	case built == nil:
		p.Steps = append(p.Steps, f.keep(&p))
	default:
		said := f.bring(&p, built)
		f.fasten(&p, source)
		p.Steps = append(p.Steps, said)
	}
	f.surround(&p, built)
	return p
}

// fasten keeps what a twin that is pinned is made of, where there is one or it is created now, and lets go of what one that is not was.
func (f facts) fasten(p *Plan, source *unstructured.Unstructured) {
	switch {
	case !f.pins():
		p.Unpin = f.seen.Pin
	case f.kept() == nil && f.seen.Taken == "" && (f.seen.Twin != nil || p.Action == Create):
		p.Pin, p.Displaced = f.pin(source), f.seen.Pin
		p.PinnedHash = keptHash(p.Pin)
	}
}

// dryRun says that nothing is written, also of a twin that there is.
func (f facts) dryRun() conditions.Step {
	message := "Nothing is written with spec.dryRun; status.diff says what the twin would be"
	if seen := f.seen.Twin; seen != nil {
		message += fmt.Sprintf("; %s stays as it is, and keeps the pods that it has behind their Services, also while they are not ready: %s", kube.Describe(seen), twin.Read(seen).Message)
	}
	return conditions.False(v1alpha1.ConditionTwinReady, v1alpha1.ReasonDryRun, message)
}

// orphaned says whether the source is gone and the twin is to go with it.
func (f facts) orphaned(found conditions.Step) bool {
	return found.Reason == v1alpha1.ReasonSourceNotFound && f.seen.Source == nil &&
		f.owner.Spec.OnSourceDeleted == v1alpha1.SourceDeletedDelete && !f.owner.Spec.DryRun
}

// bereave takes the twin down until there is a source again.
func (f facts) bereave(p *Plan) conditions.Step {
	switch twin := f.seen.Twin; {
	case twin == nil:
		p.Unpin = f.seen.Pin // the next twin is one of another source
		return conditions.False(v1alpha1.ConditionTwinReady, v1alpha1.ReasonSourceDeleted, "There is no twin without its source (spec.onSourceDeleted: Delete)")
	case twin.GetDeletionTimestamp() == nil:
		p.Action, p.Twin = Delete, twin
	}
	return conditions.False(v1alpha1.ConditionTwinReady, v1alpha1.ReasonSourceDeleted, kube.Describe(f.seen.Twin)+" goes with its source (spec.onSourceDeleted: Delete)")
}

// pins says whether the twin is made of what is kept of the source.
func (f facts) pins() bool { return f.owner.Spec.SourcePolicy == v1alpha1.SourcePinned }

// pin is the ControllerRevision that keeps the spec of a source.
func (f facts) pin(source *unstructured.Unstructured) *unstructured.Unstructured {
	spec, _ := source.Object["spec"].(map[string]any)
	u := &unstructured.Unstructured{Object: map[string]any{
		"data": map[string]any{"spec": runtime.DeepCopyJSON(spec)}, "revision": source.GetGeneration(),
	}}
	u.SetGroupVersionKind(revisionGVK)
	u.SetNamespace(key(f.owner).Namespace)
	u.SetName(key(f.owner).Name)
	mark(f.owner, u)
	return u
}

// revisionGVK is what the specs of sources are kept in.
var revisionGVK = appsv1.SchemeGroupVersion.WithKind("ControllerRevision")

func holds(s conditions.Step) bool { return s.Status == metav1.ConditionTrue }

// found says whether there is a source to follow.
func (f facts) found() conditions.Step {
	ref := f.owner.Spec.SourceRef
	what := fmt.Sprintf("%s %s/%s", ref.Kind, sourceNamespace(f.owner), ref.Name)
	kept := func(reason, message string) conditions.Step {
		switch {
		case f.seen.Twin != nil:
			message += "; the twin stays as it is" + f.alone()
		case f.stays():
			message += "; the twin cannot be seen, and is left as it is"
		}
		return conditions.False(v1alpha1.ConditionSourceFound, reason, message)
	}
	missing := kept
	if f.owner.Spec.OnSourceDeleted == v1alpha1.SourceDeletedDelete {
		missing = func(reason, message string) conditions.Step {
			return conditions.False(v1alpha1.ConditionSourceFound, reason, message)
		}
	}
	switch {
	case f.withheld():
		return kept(v1alpha1.ReasonPending, "It is not looked for")
	case !f.seen.Served:
		return kept(v1alpha1.ReasonKindUnavailable, unavailable(twin.Kinds[ref.Kind], f.seen.Unsynced))
	case f.seen.Source == nil:
		return missing(v1alpha1.ReasonSourceNotFound, what+" does not exist")
	case f.seen.Source.GetDeletionTimestamp() != nil:
		return missing(v1alpha1.ReasonSourceGoing, what+" is being deleted")
	case f.unpinned():
		is := "is gone"
		if f.seen.Pin != nil {
			is = "is not what was kept"
		}
		return conditions.False(v1alpha1.ConditionSourceFound, v1alpha1.ReasonPinLost, "ControllerRevision "+key(f.owner).String()+
			", the spec that the twin is made of, "+is+", and the twin stays as it is; put it back, or set spec.sourcePolicy to Follow and then to Pinned again, to pin the source as it is now")
	case f.seen.Missing != "":
		return missing(v1alpha1.ReasonSourceNotFound, what+" refers to "+f.seen.Missing)
	}
	message := what + " is there"
	if n, said, _ := unstructured.NestedInt64(f.seen.Source.Object, "spec", "replicas"); said && n == 0 && f.seen.Referrer == "" {
		message += ", and has no replicas, as one that sleeps"
	}
	return conditions.True(v1alpha1.ConditionSourceFound, v1alpha1.ReasonSourceFound, message)
}

// alone says which Services a twin that has pods is behind without its source; empty if it is behind none, or there is one.
func (f facts) alone() string {
	if f.seen.Source != nil || f.seen.Twin == nil || !hasPods(f.seen.Twin) {
		return ""
	}
	services, _ := f.wanted(nil).Kept(nil, f.seen.Twin)
	if len(services) == 0 {
		return ""
	}
	names := make([]string, len(services))
	for i := range services {
		names[i] = services[i].Name
	}
	return ", behind Service " + strings.Join(names, ", ")
}

// unavailable says why a kind cannot be read, and what to do.
func unavailable(gvk schema.GroupVersionKind, unsynced bool) string {
	what := fmt.Sprintf("%s.%s/%s", gvk.Kind, gvk.Group, gvk.Version)
	if unsynced {
		return "The watch on " + what + " has not synced; check that the manager may list and watch it"
	}
	return "The cluster does not serve " + what + "; install its CustomResourceDefinition"
}

// source is the source with the template that it refers to, or as it was pinned; nil if there is none.
func (f facts) source() *unstructured.Unstructured {
	pinned := f.pinned()
	if pinned == nil || f.seen.Source == nil {
		return f.current()
	}
	source := f.seen.Source.DeepCopy()
	source.Object["spec"] = runtime.DeepCopyJSON(pinned)
	return source
}

// current is the source as it is now, with the template that it refers to; nil if there is none.
func (f facts) current() *unstructured.Unstructured {
	if f.seen.Workload == nil {
		return f.seen.Source
	}
	return completed(f.seen.Source, f.seen.Workload)
}

// completed is a copy of a workload with the template, and where it has none of its own the selector, of what it refers to.
func completed(workload *unstructured.Unstructured, referred map[string]any) *unstructured.Unstructured {
	u := workload.DeepCopy()
	if spec, ok := u.Object["spec"].(map[string]any); ok {
		for _, field := range []string{"template", "selector"} {
			if of, ok := referred[field].(map[string]any); ok && (field == "template" || spec[field] == nil) {
				spec[field] = runtime.DeepCopyJSON(of)
			}
		}
	}
	return u
}

// unpinned says whether what was kept of the source has been lost: it is made before the twin that says so.
func (f facts) unpinned() bool {
	return f.pins() && f.kept() == nil && saysPinned(f.seen.Twin)
}

// saysPinned says whether a twin is made of what was kept of its source.
func saysPinned(twin *unstructured.Unstructured) bool {
	return twin != nil && twin.GetAnnotations()[v1alpha1.AnnotationPinned] != ""
}

// kept is what was kept of the source: nil of a ControllerRevision that is another than was recorded, or that was found before any was,
// which anybody may have made, unless it is of the source as it is now. Where none was recorded, as by a manager that did not do
// so, or that has not come to it, the twin says that there was one.
func (f facts) kept() *unstructured.Unstructured {
	pin, recorded := f.seen.Pin, f.owner.Status.PinnedHash
	if pin == nil {
		return nil
	}
	hash := keptHash(pin)
	if hash == recorded || recorded == "" && saysPinned(f.seen.Twin) || f.seen.Source != nil && hash == keptHash(f.pin(f.current())) {
		return pin
	}
	return nil
}

// keptHash is that of the spec in a ControllerRevision.
func keptHash(pin *unstructured.Unstructured) string {
	spec, _, _ := unstructured.NestedMap(pin.Object, "data", "spec")
	return twin.Hash(spec)
}

// pinned is the spec that the twin is made from; nil for the source's own.
func (f facts) pinned() map[string]any {
	if !f.pins() {
		return nil
	}
	pin := f.kept()
	if pin == nil {
		return nil
	}
	spec, _, _ := unstructured.NestedMap(pin.Object, "data", "spec")
	return spec
}

// generation is that of the source which the twin is made of.
func (f facts) generation() int64 {
	if f.pinned() == nil {
		return f.seen.Source.GetGeneration()
	}
	revision, _, _ := unstructured.NestedInt64(f.seen.Pin.Object, "revision")
	return revision
}

// build makes the twin of a source as it is wanted; nil where that cannot be done, or there is no source.
func (f facts) build(source *unstructured.Unstructured) (*draft, conditions.Step) {
	refused := func(reason, message string) (*draft, conditions.Step) {
		return nil, conditions.False(v1alpha1.ConditionAccepted, reason, message)
	}
	namespace := sourceNamespace(f.owner)
	if f.seen.Unwatched {
		return refused(v1alpha1.ReasonNotWatched, fmt.Sprintf("spec.sourceRef.namespace: the manager does not act in Namespace %s (--watch-namespaces)", namespace))
	}
	if f.withheld() {
		return refused(v1alpha1.ReasonNotGranted, fmt.Sprintf("spec.sourceRef.namespace: Namespace %s does not list %s in its annotation %s",
			namespace, f.owner.Namespace, v1alpha1.AnnotationAllowedNamespaces))
	}
	override, err := merge.Decode(f.owner.Spec.OverrideSpec.Raw)
	if err != nil {
		return refused(v1alpha1.ReasonInvalidOverride, "spec.overrideSpec: "+err.Error())
	}
	accepted := conditions.True(v1alpha1.ConditionAccepted, v1alpha1.ReasonAccepted, "The spec can be acted on")
	if source == nil {
		return nil, accepted
	}
	r := recipe{
		Owner:  metav1.ObjectMeta{Namespace: f.owner.Namespace, Name: f.owner.Name, UID: f.owner.UID},
		Source: source.Object, SourceName: f.owner.Spec.SourceRef.Name, Wanted: f.wanted(override),
	}
	if f.pins() {
		r.Pinned = strconv.FormatInt(f.generation(), 10)
	}
	made := f.drafts.of(r)
	if made.err != nil {
		return refused(v1alpha1.ReasonInvalidOverride, "spec."+made.err.Error())
	}
	return &made, accepted
}

// wanted is what is asked for, with an override.
func (f facts) wanted(override map[string]any) twin.Wanted {
	w := twin.Wanted{
		Name: key(f.owner).Name, For: kube.LabelValue(f.owner.Name), Replicas: f.owner.Spec.Replicas,
		Override: override, Strategy: twin.Strategy(f.owner.Spec.MergeStrategy),
		AllowPrivileges: f.seen.Privileged, AllowLabelOverride: f.owner.Spec.AllowLabelOverride,
		Annotations: f.annotations, Labels: f.labels, Services: f.seen.Services, Claims: f.seen.Claims, Rollout: f.seen.Referrer,
	}
	if f.pinned() != nil {
		w.Now = f.current()
	}
	return w
}

// withheld says whether the source is none of the author's business.
func (f facts) withheld() bool {
	return f.seen.Unwatched || sourceNamespace(f.owner) != f.owner.Namespace && !f.seen.Granted
}

// describe says what the twin that was built is made of.
func (p *Plan) describe(f facts, built *draft) {
	p.Built, p.SourceGeneration, p.TemplateHash = true, f.generation(), built.template
	if f.pinned() != nil {
		p.PinnedHash = keptHash(f.seen.Pin)
	}
}

// surround says what there is beside the twin: the one that was built, or else the one that stays as it is.
func (f facts) surround(p *Plan, built *draft) {
	of, source := f.seen.Twin, f.current()
	var warnings []twin.Warning
	switch {
	case built != nil:
		of, p.Services, warnings = built.Object, built.Services, built.Warnings
		if p.ScaleToZero && (f.seen.Twin == nil || !hasPods(f.seen.Twin)) {
			of, warnings = scaledToZero(of), slices.DeleteFunc(slices.Clone(warnings), twin.Warning.OfPods)
		}
	case !f.readable():
		p.Others = f.unread()
		return
	case of == nil:
		return
	default:
		override, _ := merge.Decode(f.owner.Spec.OverrideSpec.Raw)
		p.Services, warnings = f.wanted(override).Kept(f.source(), of)
	}
	p.Others = []conditions.Step{
		shared(p.Services),
		interference(v1alpha1.ConditionAutoscalerInterference, twin.Autoscalers(source, of, f.seen.Autoscalers, f.seen.Scaled), f.seen.Unlisted),
		interference(v1alpha1.ConditionDisruptionInterference, twin.Budgets(source, of, f.seen.Budgets), nil),
		overlaps(source, of),
		warned(warnings),
	}
}

// readable says whether what there is beside the twin, and the template of the source, if there is one, can be read.
func (f facts) readable() bool { return f.seen.Served && !f.withheld() && f.seen.Missing == "" }

// unread is what is said of what there is beside a twin where that is not read.
func (f facts) unread() (all []conditions.Step) {
	if !f.stays() {
		return nil
	}
	for _, of := range []string{
		v1alpha1.ConditionServiceShared, v1alpha1.ConditionAutoscalerInterference, v1alpha1.ConditionDisruptionInterference, v1alpha1.ConditionSourceSelectorOverlap,
		v1alpha1.ConditionWarnings,
	} {
		all = append(all, conditions.Step{Type: of, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonPending, Message: "It is not known while the source is not looked for, or cannot be read"})
	}
	return all
}

// stays says whether there is a twin, as far as is known.
func (f facts) stays() bool {
	return f.seen.Twin != nil || !f.seen.Served && f.owner.Status.ExperimentResourceRef != nil
}

func shared(services []twin.Sharing) conditions.Step {
	var not []string
	reason, message := "", "Every Service that selects the pods of the source selects the twin's"
	for _, s := range services {
		switch {
		case !s.Shared:
			not = append(not, "Service "+s.Name+": "+s.Message)
			reason = s.Reason
		case s.Message != "":
			message += "; Service " + s.Name + ": " + s.Message
		}
	}
	switch {
	case len(services) == 0:
		return conditions.False(v1alpha1.ConditionServiceShared, v1alpha1.ReasonNoServices, "No Service selects the pods of the source")
	case len(not) > 1:
		reason = v1alpha1.ReasonNotShared
		fallthrough
	case len(not) == 1:
		return conditions.False(v1alpha1.ConditionServiceShared, reason, strings.Join(not, "; "))
	}
	return conditions.True(v1alpha1.ConditionServiceShared, v1alpha1.ReasonShared, message)
}

func interference(conditionType string, messages []string, unlisted []schema.GroupVersionKind) conditions.Step {
	said := conditions.True(conditionType, v1alpha1.ReasonInterference, "")
	if len(messages) == 0 && len(unlisted) > 0 {
		said = conditions.Step{Type: conditionType, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonNotListed}
	}
	for _, gvk := range unlisted {
		messages = append(messages, fmt.Sprintf("What %ss count is not known: the manager cannot read %s.%s/%s, which is installed; check that it may list and watch it, and that the cluster serves that version",
			gvk.Kind, gvk.Kind, gvk.Group, gvk.Version))
	}
	if said.Message = strings.Join(messages, "; "); said.Message != "" {
		return said
	}
	return conditions.False(conditionType, v1alpha1.ReasonNone, "Nothing counts the twin's pods for the source's")
}

func overlaps(source, of *unstructured.Unstructured) conditions.Step {
	const message = "The source's selector selects the twin's pods, too"
	switch {
	case source == nil:
		return conditions.False(v1alpha1.ConditionSourceSelectorOverlap, v1alpha1.ReasonNone, "There is no source whose selector could select the twin's pods")
	case !twin.Overlaps(source, of):
		return conditions.False(v1alpha1.ConditionSourceSelectorOverlap, v1alpha1.ReasonNone, "The source's selector does not select the twin's pods")
	case source.GetKind() == "StatefulSet": // which takes pods of its own names alone (s7)
		return conditions.True(v1alpha1.ConditionSourceSelectorOverlap, v1alpha1.ReasonSelectorOverlap, message+": what finds pods by it finds both")
	}
	return conditions.True(v1alpha1.ConditionSourceSelectorOverlap, v1alpha1.ReasonSelectorOverlap,
		message+": those that lose their owner the source takes for its own; do not delete a twin with --cascade=orphan")
}

func warned(warnings []twin.Warning) conditions.Step {
	if len(warnings) == 0 {
		return conditions.False(v1alpha1.ConditionWarnings, v1alpha1.ReasonNone, "Nothing is known that may hurt the source")
	}
	said := warnings[0].Message
	for i, w := range warnings[1:] {
		rest := len(warnings) - 1 - i
		if len(said)+len(warningsApart)+len(w.Message) > conditions.MaxMessage-len(warningsEnd) {
			said += fmt.Sprintf(warningsEnd, rest)
			break
		}
		said += warningsApart + w.Message
	}
	return conditions.True(v1alpha1.ConditionWarnings, warnings[0].Reason, said)
}

const (
	warningsApart = "; "
	// warningsEnd is what warnings end with that are too long for a message.
	warningsEnd = warningsApart + "and %d more"
)

// asItIs stands for the hash of a spec that cannot be built.
const asItIs = "as it is"

// keep leaves a twin as it is, and says how. Its pods count for the source's autoscaler all the same, and are taken
// away where they are not ready.
func (f facts) keep(p *Plan) conditions.Step {
	seen := f.seen.Twin
	switch {
	case seen == nil && f.stays():
		return conditions.Step{Type: v1alpha1.ConditionTwinReady, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonPending, Message: "It cannot be seen, and is left as it is"}
	case seen == nil:
		return conditions.False(v1alpha1.ConditionTwinReady, v1alpha1.ReasonPending, "Waits for the steps before it")
	}
	state, st := twin.Read(seen), f.owner.Status
	p.Kept, p.TemplateHash, p.WantedHash = true, st.TemplateHash, asItIs
	if claim := f.held(); claim != "" {
		return f.withhold(p, claim)
	}
	if st.ScaledToZero != nil {
		p.WantedHash = st.ScaledToZero.WantedHash
	}
	said := f.unready(p, state)
	if p.Unchanged = f.step(state); said == nil {
		return p.Unchanged
	}
	p.Unchanged = *said
	if p.ScaleToZero && !p.Record && hasPods(seen) {
		p.Action, p.Twin = Update, scaledToZero(seen)
	}
	return *said
}

// awaited is a PersistentVolumeClaim that the pods would use of a twin which has none, as the source's do, and that is not there either;
// empty if there is none. If it comes as one for one pod alone the twin's might get it first (p6).
func (f facts) awaited(wanted *unstructured.Unstructured) string {
	if seen := f.seen.Twin; !hasPods(wanted) || seen != nil && (twin.HasPods(seen) || seen.GetDeletionTimestamp() != nil || f.behind()) {
		return ""
	}
	for _, claim := range twin.SharedClaims(f.current(), wanted) {
		if _, there := f.seen.Claims[claim]; !there {
			return claim
		}
	}
	return ""
}

// held is a PersistentVolumeClaim for one pod alone that the pods of the twin use, as the source's do; empty if there is none (p6).
func (f facts) held() string {
	if f.seen.Source == nil {
		return ""
	}
	for _, claim := range twin.SharedClaims(f.current(), f.seen.Twin) {
		if slices.Contains(f.seen.Claims[claim], string(corev1.ReadWriteOncePod)) {
			return claim
		}
	}
	return ""
}

// withhold takes the pods away from a twin that may hold a claim of its source's.
func (f facts) withhold(p *Plan, claim string) conditions.Step {
	said := conditions.False(v1alpha1.ConditionTwinReady, v1alpha1.ReasonVolumeOfOnePod, fmt.Sprintf(
		"It has no pods as long as they would use PersistentVolumeClaim %s, which is for one pod alone (ReadWriteOncePod), and the source's; put another volume in its place", claim))
	p.Unchanged = said
	if seen := f.seen.Twin; hasPods(seen) {
		p.Action, p.Twin, p.Unchanged = Update, scaledToZero(seen), f.step(twin.Read(seen))
	}
	return said
}

// hasPods says whether a twin that is to stay is to have pods.
func hasPods(seen *unstructured.Unstructured) bool {
	return twin.HasPods(seen) && seen.GetDeletionTimestamp() == nil
}

// scaledToZero is a twin without pods, which is another than was wanted: so it is brought back when it can be.
func scaledToZero(seen *unstructured.Unstructured) *unstructured.Unstructured {
	u := seen.DeepCopy()
	annotations := u.GetAnnotations()
	delete(annotations, v1alpha1.AnnotationWanted)
	u.SetAnnotations(annotations)
	_ = unstructured.SetNestedField(u.Object, int64(0), "spec", "replicas")
	return u
}

// step is how a twin is. That its controller has not seen yet what was written is nothing to tell of, nor that there are no pods yet of
// one that was created.
func (f facts) step(s twin.State) conditions.Step {
	was := meta.FindStatusCondition(f.owner.Status.Conditions, v1alpha1.ConditionTwinReady)
	if was != nil && was.Status == metav1.ConditionFalse && (s.Reason == twin.ReasonNotObserved || s.Empty && was.Reason == v1alpha1.ReasonCreated) {
		return conditions.False(was.Type, was.Reason, was.Message)
	}
	if s.Health == twin.Ready {
		return conditions.True(v1alpha1.ConditionTwinReady, s.Reason, s.Message)
	}
	return conditions.False(v1alpha1.ConditionTwinReady, s.Reason, s.Message)
}

// bring brings the twin to what is wanted, and says how it is.
func (f facts) bring(p *Plan, built *draft) conditions.Step {
	seen, wanted := f.seen.Twin, built.Object
	p.WantedHash, p.Edited = built.spec, f.edited(wanted)
	state := twin.State{Health: twin.Progressing, Reason: v1alpha1.ReasonCreated, Message: kube.Describe(wanted) + " was created" + twin.WithoutPods(wanted)}
	if seen != nil {
		state = twin.Read(seen)
	}
	said := f.step(state)
	if scaled := f.unready(p, state); scaled != nil {
		said = *scaled
	}
	p.Unchanged = said
	podsFirst := false
	if p.ScaleToZero {
		podsFirst = f.podsFirst(wanted)
		wanted = withoutPods(wanted)
	}
	awaited := f.awaited(wanted)
	if p.Record {
		return said // nothing is changed before that stands
	}
	switch {
	case podsFirst:
		p.Action, p.Twin = Update, scaledToZero(seen)
	case f.seen.Taken != "":
		p.lookIn(takenAgain)
		return conditions.False(v1alpha1.ConditionTwinReady, v1alpha1.ReasonNameTaken, (&kube.NameTakenError{Object: f.seen.Taken}).Error())
	case awaited != "":
		p.UnreadySince = time.Time{} // its pods have their own time when they come
		return awaits(seen, awaited)
	case seen == nil:
		p.Action, p.Twin = Create, wanted
	case seen.GetDeletionTimestamp() != nil:
		return recreating(seen)
	case twin.Replaced(seen, wanted):
		p.Action, p.Twin, p.Next = Delete, seen, wanted
		return recreating(seen)
	case f.behind():
		return brought(said, wanted)
	case f.drifted(wanted):
		f.update(p, wanted, state)
		return brought(said, wanted)
	}
	return said
}

// awaits is how a twin is that has no pods as long as a claim is not there.
func awaits(seen *unstructured.Unstructured, claim string) conditions.Step {
	what := "It is created"
	if seen != nil {
		what = "It stays as it is, without pods, and gets them"
	}
	return conditions.False(v1alpha1.ConditionTwinReady, v1alpha1.ReasonPending, fmt.Sprintf(
		"%s when PersistentVolumeClaim %s is there, which the source's pods use, too: if that is for one pod alone it is the source's; it is looked for every %s", what, claim, refusedAgain))
}

// update has the twin brought to what is wanted, which has its own time to become ready.
func (f facts) update(p *Plan, wanted *unstructured.Unstructured, state twin.State) {
	p.Action, p.Twin = Update, wanted
	p.Drifted = !f.another(wanted) && f.owner.Status.TwinGeneration != 0
	if !p.ScaleToZero && (!p.Drifted || state.Health == twin.Ready && f.longReady()) {
		p.Anew = true
	}
}

// brought is how a twin is that is not what is wanted yet: that it is ready was said of what it was before.
func brought(said conditions.Step, wanted *unstructured.Unstructured) conditions.Step {
	if !holds(said) {
		return said
	}
	return conditions.False(v1alpha1.ConditionTwinReady, twin.ReasonProgressing, kube.Describe(wanted)+" is being brought to what is asked for")
}

func recreating(seen *unstructured.Unstructured) conditions.Step {
	return conditions.False(v1alpha1.ConditionTwinReady, v1alpha1.ReasonRecreating, kube.Describe(seen)+" is being deleted, and is created again when it is gone")
}

// podsFirst says whether the pods of a twin must go before what is wanted is written, because it is something else besides: that the
// server may refuse for ever.
func (f facts) podsFirst(wanted *unstructured.Unstructured) bool {
	return f.another(wanted) && hasPods(f.seen.Twin) && !f.behind()
}

// another says whether there is a twin, and something else was wanted when it was written.
func (f facts) another(wanted *unstructured.Unstructured) bool {
	seen := f.seen.Twin
	return seen != nil && seen.GetAnnotations()[v1alpha1.AnnotationWanted] != wanted.GetAnnotations()[v1alpha1.AnnotationWanted]
}

// edited says whether that is because of an edit that no pass has looked at yet, of whatever field.
func (f facts) edited(wanted *unstructured.Unstructured) bool {
	was := meta.FindStatusCondition(f.owner.Status.Conditions, v1alpha1.ConditionTwinReady)
	return was != nil && was.ObservedGeneration != f.owner.Generation && f.another(wanted)
}

// withoutPods is what is wanted of a twin whose pods are to go.
func withoutPods(wanted *unstructured.Unstructured) *unstructured.Unstructured {
	u := wanted.DeepCopy()
	_ = unstructured.SetNestedField(u.Object, int64(0), "spec", "replicas")
	stamp(u)
	return u
}

// stamp writes on the twin what is wanted of it.
func stamp(wanted *unstructured.Unstructured) {
	hash := twin.Hash(map[string]any{
		"spec": wanted.Object["spec"], "metadata": wanted.Object["metadata"],
	})
	annotations := wanted.GetAnnotations()
	annotations[v1alpha1.AnnotationWanted] = hash
	wanted.SetAnnotations(annotations)
}

// behind says whether the cache has not seen yet what was written last.
func (f facts) behind() bool {
	ref := f.owner.Status.ExperimentResourceRef
	return ref != nil && ref.UID == f.seen.Twin.GetUID() && f.seen.Twin.GetGeneration() < f.owner.Status.TwinGeneration
}

// drifted says whether the twin that is there is another than the one that is wanted: something else was wanted
// when it was written, or somebody has changed it since, which its generation or its marks tell.
func (f facts) drifted(wanted *unstructured.Unstructured) bool {
	seen := f.seen.Twin
	// What is not ours an admission may give another value, each time; without its instance no controller serves it (m13).
	lost := func(have, want map[string]string) bool {
		for name, value := range want {
			if (strings.HasPrefix(name, twin.Group+"/") || name == twin.InstanceID) && have[name] != value {
				return true
			}
		}
		return false
	}
	ref := f.owner.Status.ExperimentResourceRef
	another := ref != nil && ref.UID != seen.GetUID() // whose generation says nothing
	return another || seen.GetGeneration() != f.owner.Status.TwinGeneration || lost(seen.GetLabels(), wanted.GetLabels()) || lost(seen.GetAnnotations(), wanted.GetAnnotations()) || f.seen.Unmarked ||
		len(wanted.GetOwnerReferences()) > 0 && !slices.ContainsFunc(seen.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == f.owner.UID })
}

// longReady says whether the twin has been ready for longer than a moment.
func (f facts) longReady() bool {
	was := meta.FindStatusCondition(f.owner.Status.Conditions, v1alpha1.ConditionTwinReady)
	return was != nil && was.Status == metav1.ConditionTrue && f.now.Sub(was.LastTransitionTime.Time) >= steady
}

// since is since when the twin has not been ready for longer than a moment: a new one, and one that is to be something else, or was
// written so, from the beginning. While it is ready, that stays to be known.
func (f facts) since(p *Plan, ready bool) time.Time {
	st := f.owner.Status
	was := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionTwinReady)
	another := st.ScaledToZero != nil && st.ScaledToZero.WantedHash != p.WantedHash
	contended := was != nil && was.Reason == v1alpha1.ReasonContended // which says nothing of the pods
	if st.UnreadySince == nil || st.TemplateHash != p.TemplateHash || p.Edited || another || !ready && f.longReady() || ready && contended {
		return f.now
	}
	return st.UnreadySince.Time
}

// onUnready is after which time what happens to the pods of a twin that is not ready.
func (f facts) onUnready() (after time.Duration, action v1alpha1.UnreadyAction) {
	after, action = defaultUnready, v1alpha1.UnreadyScaleToZero
	if o := f.owner.Spec.OnUnready; o != nil {
		if o.After.Duration > 0 {
			after = o.After.Duration
		}
		if o.Action != "" {
			action = o.Action
		}
	}
	return after, action
}

// untold says whether of a twin that has had its time there are no pods to be taken away, because all that there are are ready, as where a
// quota has no room for more, or for any, or how they are is not known, because its controller has not seen what was written last and may
// not be there: those that come, are told of, or are ready no more have their own time, from then on.
func (f facts) untold(state twin.State, left time.Duration) bool {
	return (state.ReadyReplicas == state.Replicas || state.Reason == twin.ReasonNotObserved) && (left <= 0 || f.owner.Status.UnreadySince == nil)
}

// late is why a twin is not ready that has had its time, and has no pods to be taken away. Kubernetes does not say of a StatefulSet, as it
// does of a Deployment, that its pods have not come in time: as was said once stays, until more come.
func (f facts) late(state twin.State, left time.Duration) string {
	was := meta.FindStatusCondition(f.owner.Status.Conditions, v1alpha1.ConditionTwinReady)
	over := left <= 0 || was != nil && was.Reason == twin.ReasonStuck
	if over && f.seen.Twin.GetKind() == "StatefulSet" && state.Reason == twin.ReasonProgressing && !state.PodsReady {
		return twin.ReasonStuck
	}
	return state.Reason
}

// unready decides about the pods of a twin that is not ready: nil where there is nothing to say of it.
func (f facts) unready(p *Plan, state twin.State) *conditions.Step {
	after, action := f.onUnready()
	scaled := f.owner.Status.ScaledToZero
	if scaled != nil && scaled.WantedHash == p.WantedHash && action != v1alpha1.UnreadyKeep {
		p.ScaleToZero = true
		said := conditions.False(v1alpha1.ConditionTwinReady, v1alpha1.ReasonUnready,
			"Its pods were taken away because they were not ready; change the override, or the template of the source, to try again")
		return &said
	}
	if f.seen.Twin == nil {
		p.UnreadySince = f.now
		p.lookIn(after) // that it is there wakes nobody
		return nil
	}
	if state.Reason == twin.ReasonPaused && state.PodsReady {
		return nil // as long as its steps say; what comes after that has its own time
	}
	ready := state.Health == twin.Ready
	if p.UnreadySince = f.since(p, ready); ready || f.seen.Twin.GetDeletionTimestamp() != nil {
		return nil
	}
	left := p.UnreadySince.Add(after).Sub(f.now)
	switch {
	case f.untold(state, left):
		p.UnreadySince = time.Time{}
		said := conditions.False(v1alpha1.ConditionTwinReady, f.late(state, left), state.Message)
		return &said
	case left > 0:
		p.dueIn(left)
		return nil
	case action == v1alpha1.UnreadyKeep:
		return nil
	}
	p.ScaleToZero, p.Record, p.Wait = true, true, kube.AtOnce
	said := conditions.False(v1alpha1.ConditionTwinReady, v1alpha1.ReasonUnready, fmt.Sprintf("Its pods have not been ready for %s, and are taken away: %s", after, state.Message))
	return &said
}
