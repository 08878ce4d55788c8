package experiment

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/conditions"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// part is what one Application of a target deploys: all of its components, or a single one.
type part struct {
	// component is the reference to a single one; empty for all that the target names.
	component string
	tolerated argocd.Tolerated
	// app is the Application; nil if it is not there.
	app *unstructured.Unstructured
	// desired is the Application as it is to be; nil while it is not its turn.
	desired *unstructured.Unstructured
	state   argocd.ApplicationState
	// reason of the condition while it is not healthy, and why.
	reason, message string
}

// String is the part as messages name it.
func (p *part) String() string {
	if p.component == "" {
		return "the target's own components"
	}
	return "component " + p.component
}

// sourcesOf are the sources of each part of a target; none where its components could not be resolved.
func sourcesOf(t v1alpha1.Target, deployments []deployment) (parts [][]argocd.Source) {
	for i, d := range deployments {
		if own := i < len(t.Components); own && i > 0 && !perComponent(t) {
			parts[0] = append(parts[0], d.all()...)
		} else {
			parts = append(parts, d.all())
		}
	}
	return parts
}

func (p *part) healthy() bool { return p.app != nil && p.state.Health == argocd.Healthy }

// perComponent says whether each component of a target has an Application of its own.
func perComponent(t v1alpha1.Target) bool {
	return t.ApplicationPolicy == v1alpha1.ApplicationPerComponent
}

// partsOf are what the Applications of a target deploy, in their order.
func (n names) partsOf(t v1alpha1.Target) (parts []part) {
	refs := n.options.Observability.components(t)
	if !perComponent(t) {
		p := part{}
		if len(t.Components) == 1 { // several cannot be told apart
			p.tolerated = toleratedBy(t.Components[0])
		}
		parts, refs = []part{p}, refs[len(t.Components):]
	}
	for _, ref := range refs {
		// One that is named twice is not accepted.
		if !slices.ContainsFunc(parts, func(p part) bool { return p.component == ref.String() }) {
			parts = append(parts, part{component: ref.String(), tolerated: toleratedBy(ref)})
		}
	}
	return parts
}

func toleratedBy(ref v1alpha1.ComponentRef) argocd.Tolerated {
	return argocd.Tolerated{
		OutOfSync: slices.Contains(ref.Tolerations, v1alpha1.TolerateOutOfSync),
		Degraded:  slices.Contains(ref.Tolerations, v1alpha1.TolerateDegraded),
	}
}

// observedParts are the parts of a target with their Applications, and the Applications of
// components that the spec does not name any more.
func (n names) observedParts(t v1alpha1.Target, apps []*unstructured.Unstructured) (parts []part, removed []*unstructured.Unstructured) {
	parts = n.partsOf(t)
	for _, app := range apps {
		i := slices.IndexFunc(parts, func(p part) bool { return n.application(t, p.component) == keyOf(app) })
		if i < 0 {
			removed = append(removed, app)
			continue
		}
		parts[i].app, parts[i].state = app, argocd.ReadApplication(app, parts[i].tolerated)
	}
	return parts, removed
}

// deployedWell says whether every Application of a target is healthy, and no other is left.
func deployedWell(parts []part, removed []*unstructured.Unstructured) bool {
	return len(removed) == 0 && !slices.ContainsFunc(parts, func(p part) bool { return !p.healthy() })
}

// advanceApplications brings the Applications of a target whose cluster is up to what the spec says:
// each when those before it are healthy, unless it is there already.
func (f facts) advanceApplications(p *Plan, t *target, deployments []deployment) {
	sources := sourcesOf(t.spec, deployments)
	waitsFor := ""
	if f.unenforced(t) != "" {
		p.lookIn(lastLook) // one that a source has brought may carry our label no more, and wakes nobody
	}
	for i := range t.parts {
		part := &t.parts[i]
		if f.strayed(t, part.app) {
			// Argo CD takes the sync with the cluster of before for one with this, and would run no hooks.
			part.state = argocd.ApplicationState{Outdated: true}
			part.reason = v1alpha1.ReasonApplicationProgressing
			part.message = kube.Describe(part.app) + " is deleted, and created again, because its cluster is another now"
			waitsFor = orDefault(waitsFor, part.String())
			continue
		}
		if part.app == nil && waitsFor != "" {
			part.reason, part.message = v1alpha1.ReasonDependencyNotHealthy, "waits for "+waitsFor
			continue
		}
		var from []argocd.Source // none, and nothing is written, where they cannot be resolved
		if i < len(sources) {
			from = sources[i]
		}
		part.desired = f.desiredApplication(t, part.component, from)
		if f.ensure(p, t, part.app, part.desired, v1alpha1.ConditionApplicationsHealthy) {
			part.state = argocd.ApplicationState{Outdated: true}
		}
		f.judgePart(t, part)
		f.unseenPart(p, part)
		f.syncAgain(p, t, part)
		// One that degrades when the Workflow is there does not undo what it was before.
		if w := f.experiment.Status.Workflow; !part.healthy() && (w == nil || w.Superseded || part.state.Health != argocd.Degraded) {
			waitsFor = orDefault(waitsFor, part.String())
		}
	}
	f.retire(p, t)
	f.sumUp(t)
}

// minSyncDelay and maxSyncDelay bound how long after a sync that failed Argo CD is asked for another.
const minSyncDelay, maxSyncDelay = time.Minute, 10 * time.Minute

// syncAgain has Argo CD sync an Application once more that it has given up on, because what was missing, such as a CRD, may have
// come: as long after the failure as it has been tried until then, so twice as long each time, within bounds.
func (f facts) syncAgain(p *Plan, t *target, part *part) {
	if f.frozen || part.app == nil || part.healthy() || part.state.Outdated || going(part.app) {
		return
	}
	failed, gaveUp := argocd.GaveUp(part.app)
	if !gaveUp {
		return
	}
	part.message += "; it is synced again after a while"
	since := f.now // it was healthy before
	if before := recordedTarget(f.experiment.Status.Targets, t.spec.Name); before != nil && before.State == v1alpha1.TargetDeploying && before.Since != nil {
		since = slices.MaxFunc([]time.Time{before.Since.Time, part.app.GetCreationTimestamp().Time}, time.Time.Compare)
	}
	delay := min(max(failed.Sub(since), minSyncDelay), maxSyncDelay)
	if left := failed.Add(delay).Sub(f.now); left > 0 {
		p.lookIn(left)
		return
	}
	p.Writes = append(p.Writes, Write{Action: Sync, Object: part.app, Known: true, Target: t.spec.Name, Condition: v1alpha1.ConditionApplicationsHealthy})
}

// strayed says whether an Application is for a cluster that another has taken the place of.
func (f facts) strayed(t *target, app *unstructured.Unstructured) bool {
	if app != nil && t.reference != nil {
		of := deployedTo(app)
		return of != "" && of != t.reference.GetUID() // what somebody has taken off is put back
	}
	return app != nil && t.cluster != nil && !f.names.registered(t.spec, t.objects, []*unstructured.Unstructured{app})
}

// retire deletes the Applications of components that the spec does not name any more, the youngest first,
// because it may need the others to go; and those of a cluster that another has taken the place of, which
// it frees: Argo CD does not know it any more, and what they deployed has gone with it.
func (f facts) retire(p *Plan, t *target) {
	for _, app := range t.apps {
		if going(app) || slices.Contains(t.removed, app) {
			p.lookIn(f.nextLook(*app))
		}
	}
	if f.frozen {
		return
	}
	f.endSyncs(p, t)
	// What the cluster is made by is confirmed as it is to be, so not before it is.
	settled := !slices.ContainsFunc(t.objects, going) && !slices.ContainsFunc(p.Writes, func(w Write) bool {
		return w.Target == t.spec.Name && slices.Contains(t.provider.kinds(), w.Object.GroupVersionKind())
	})
	strays := slices.DeleteFunc(slices.Clone(t.apps), func(app *unstructured.Unstructured) bool { return !settled || !f.strayed(t, app) })
	for _, app := range strays {
		action := Delete
		if going(app) {
			action = Free
		}
		p.Writes = append(p.Writes, retirement(action, t, app))
	}
	if len(strays) > 0 && len(strays) < len(t.apps) { // or its registration has confirmed it
		p.Confirm = append(p.Confirm, f.confirmed(t)...)
	}
	f.retireRemoved(p, t)
}

// endSyncs has Argo CD end what it is in the middle of with Applications that are being deleted, and with those that stay and have other
// sources by now, because it takes these no sooner. What is written in this pass is looked at in the next.
func (f facts) endSyncs(p *Plan, t *target) {
	for _, app := range t.apps {
		written := func(w Write) bool { return kube.Describe(w.Object) == kube.Describe(app) }
		switch stays := !going(app) && !slices.Contains(t.removed, app); {
		case f.strayed(t, app): // it is freed
		case stays && argocd.SyncsFormer(app) && !slices.ContainsFunc(p.Writes, written):
			p.Writes = append(p.Writes, retirement(EndSync, t, app))
		default:
			p.endSync(t.spec.Name, app, v1alpha1.ConditionApplicationsHealthy)
		}
	}
}

// endSync has Argo CD end what it is in the middle of with an Application that is being deleted: it lets that go no sooner.
func (p *Plan) endSync(target string, app *unstructured.Unstructured, condition string) {
	if going(app) && argocd.Syncing(app) {
		p.Writes = append(p.Writes, Write{Action: EndSync, Object: app, Known: true, Target: target, Condition: condition})
	}
}

// retireRemoved deletes the first Application that the spec does not name any more, when Argo CD knows its cluster: it would leave there
// what that deployed.
func (f facts) retireRemoved(p *Plan, t *target) {
	removed := f.lastFirst(t.removed)
	switch {
	case len(removed) == 0, going(removed[0]), f.strayed(t, removed[0]):
	case f.registers(p, t):
		p.lookIn(leftoverDelay) // somebody may take it away every time
	case f.cutOff(t.spec.Name):
		p.lookIn(lastLook)
	default:
		p.Writes = append(p.Writes, retirement(Delete, t, removed[0]))
	}
}

// retirement deletes, or frees, an Application that has no place any more.
func retirement(action Action, t *target, app *unstructured.Unstructured) Write {
	return Write{Action: action, Object: app, Known: true, Target: t.spec.Name, Condition: v1alpha1.ConditionApplicationsHealthy}
}

// lastFirst are Applications in the order in which they can go, also those that the spec says nothing of any
// more: what ships metrics before what that needs, and of others the youngest first, because what was created
// later may need what was there; that of all components of a target last.
func (f facts) lastFirst(apps []*unstructured.Unstructured) []*unstructured.Unstructured {
	o := f.options.Observability
	roles := []string{o.operator().String(), o.egress().String(), o.agent().String()}
	rank := func(app *unstructured.Unstructured) int {
		component := componentOf(app)
		if component == "" {
			return -2
		}
		return slices.Index(roles, component) // -1 for all others
	}
	return slices.SortedStableFunc(slices.Values(apps), func(a, b *unstructured.Unstructured) int {
		return cmp.Or(rank(b)-rank(a), b.GetCreationTimestamp().Compare(a.GetCreationTimestamp().Time))
	})
}

// sumUp says of a target what is the matter with its Applications: the reason is that of the worst.
func (f facts) sumUp(t *target) {
	var messages []string
	worst := len(severity)
	for _, p := range t.parts {
		if !p.healthy() {
			worst = min(worst, slices.Index(severity, p.reason))
		}
		switch {
		case p.message == "":
		case p.component == "":
			messages = append(messages, p.message)
		case p.reason != v1alpha1.ReasonDependencyNotHealthy: // which the status of the component says
			messages = append(messages, "component "+p.component+": "+p.message)
		}
	}
	for _, app := range t.removed {
		worst = min(worst, slices.Index(severity, v1alpha1.ReasonApplicationProgressing))
		what := "is being deleted" + f.because(app)
		if f.cutOff(t.spec.Name) && !going(app) {
			what = "is deleted when Argo CD knows its cluster again, or what it deployed would stay there"
		}
		messages = append(messages, fmt.Sprintf("component %s: it is not wanted any more, and %s %s", componentOf(app), kube.Describe(app), what))
	}
	if t.unregistrable != "" && !t.healthy() {
		messages = append(messages, "no other credentials can be given to Argo CD: "+t.unregistrable)
	}
	if said := t.clusterState.Message; said != "" && !t.healthy() {
		messages = append(messages, "its cluster says "+said)
	}
	t.message = strings.Join(messages, "; ")
	if worst < len(severity) {
		t.appReason = severity[worst]
	}
}

// componentOf is the reference to the component that an Application of its own deploys.
func componentOf(app *unstructured.Unstructured) string {
	return app.GetAnnotations()[v1alpha1.AnnotationComponent]
}

// unseenPart adds that Argo CD has not looked at an Application, which it does at once, in a minute.
func (f facts) unseenPart(p *Plan, part *part) {
	if part.app == nil || going(part.app) || part.state.Message != "" || argocd.Seen(part.app) || !f.old(p, part.app) {
		return
	}
	part.message += "; Argo CD has not looked at it: see whether its application controller runs, and looks at namespace " + part.app.GetNamespace()
}

func (f facts) judgePart(t *target, p *part) {
	name := f.names.application(t.spec, p.component)
	what := "Application " + name.String()
	if going(p.app) {
		what += f.because(p.app)
	}
	describe := "; see kubectl -n " + f.options.ArgoCDNamespace + " describe application " + name.Name
	p.reason = v1alpha1.ReasonApplicationProgressing
	switch {
	case going(p.app) && p.component != "": // by somebody, or because the spec has not named it for a while
		p.message = what + " is being deleted; it is created again when it is gone"
		p.state.Health = argocd.Progressing
	case going(p.app):
		p.message = what + " is being deleted by somebody; it is created again when it is gone"
		p.state.Health = argocd.Progressing
	case p.app == nil && f.frozen:
		p.message = what + " is not created while the spec cannot be acted on"
	case p.healthy() && f.unenforced(t) != "":
		p.message = f.unenforced(t)
		p.state.Health = argocd.Progressing
	case p.healthy():
		p.reason, p.message = "", ""
		if p.state.Message != "" {
			p.message = what + ": " + p.state.Message
		}
	case p.state.Health == argocd.Degraded:
		p.reason = v1alpha1.ReasonApplicationDegraded
		p.message = what + " is degraded: " + p.state.Message + "; see argocd app get " + name.String() // of Argo CD 3 the object does not say what is
	case p.state.Health == argocd.Missing:
		p.reason = v1alpha1.ReasonApplicationMissing
		p.message = what + " has nothing on its cluster yet: " + p.state.Message
	case p.state.Health == argocd.Failed:
		p.reason = v1alpha1.ReasonApplicationError
		p.message = what + " cannot be synced: " + p.state.Message + describe
	default:
		p.message = strings.TrimSuffix(what+" is progressing: "+p.state.Message, ": ")
	}
	if w := p.state.Warning; w != "" {
		p.message = strings.TrimPrefix(p.message+"; "+what+": "+w, "; ")
	}
}

// enforceLabel is by which a namespace says the level of the Pod Security Standards that it enforces.
const enforceLabel = "pod-security.kubernetes.io/enforce"

// podSecurity is that level for a target's namespace; empty is what the cluster does.
func (f facts) podSecurity(t *target) string {
	level := string(t.spec.PodSecurity)
	if t.hub() {
		level = orDefault(level, f.options.HubPodSecurity) // what runs there is the author's, and the cluster everybody's
	}
	return level
}

// unenforced says that a target's namespace on the hub is not bound as it is to be, though its Application is synced: Argo CD prefers
// the labels of a namespace that a source brings to those that it is told of, and a chart may take whole objects as parameters.
func (f facts) unenforced(t *target) string {
	level := f.podSecurity(t)
	enforced, there := f.seen.Enforced[t.spec.Name]
	strictness := func(level string) int { return slices.Index([]string{"baseline", "restricted"}, level) }
	if !there || strictness(enforced) >= strictness(level) {
		return ""
	}
	return fmt.Sprintf("Namespace %s enforces %s of the Pod Security Standards, and must enforce %s; where a source of the target brings that namespace itself, take it out",
		f.names.onHub(t.spec), orDefault(enforced, "nothing"), level)
}

// desiredApplication is the Application of a target's component, or of all of them. On the hub its
// namespace is marked, to be taken down.
func (f facts) desiredApplication(t *target, component string, sources []argocd.Source) *unstructured.Unstructured {
	name, release := f.names.application(t.spec, component), f.release(t, component)
	app := argocd.Application{
		Namespace:            name.Namespace,
		Name:                 name.Name,
		Project:              orDefault(f.seen.Project, f.options.ArgoCDProject),
		Sources:              calledBy(release, sources),
		DestinationNamespace: f.names.deployed(t.spec),
	}
	namespace := &unstructured.Unstructured{Object: map[string]any{}}
	if level := f.podSecurity(t); level != "" {
		namespace.SetLabels(map[string]string{enforceLabel: level})
	}
	switch {
	case t.hub():
		f.mark(t.spec, namespace)
	case refers(t.spec):
		app.Server = f.endpoint(t)
	default:
		app.Cluster = f.names.registration(t.spec, t.objects)
	}
	app.NamespaceLabels, app.NamespaceAnnotations = namespace.GetLabels(), namespace.GetAnnotations()
	if o := f.options.Observability; o.hasEgress(t.spec, component) {
		app.Ignored = append(app.Ignored, o.externalName())
	}
	o := f.mark(t.spec, app.Object())
	annotations := o.GetAnnotations()
	if endpoint := f.endpoint(t); !t.hub() && t.cluster == nil && endpoint != "" {
		// Nothing else that is seen says where such a cluster is.
		annotations[v1alpha1.AnnotationEndpoint] = endpoint
	}
	if t.reference != nil {
		// One that takes the place of the Cluster is another cluster, whatever its address.
		annotations[v1alpha1.AnnotationClusterUID] = string(t.reference.GetUID())
	}
	if release != "" {
		annotations[v1alpha1.AnnotationRelease] = release
	}
	if component != "" {
		// By which it is found when the spec does not name the component any more.
		annotations[v1alpha1.AnnotationComponent] = component
	}
	o.SetAnnotations(annotations)
	return o
}

// release is the name of the releases of an Application that do not say another; empty is the Application's. One that was deployed
// by that before keeps it: another would be deployed beside it.
func (f facts) release(t *target, component string) string {
	name := f.names.release(t.spec, component)
	i := slices.IndexFunc(t.apps, func(app *unstructured.Unstructured) bool { return keyOf(app) == f.names.application(t.spec, component) })
	if name == "" || i < 0 || t.apps[i].GetAnnotations()[v1alpha1.AnnotationRelease] != "" {
		return name
	}
	sources, _, _ := unstructured.NestedSlice(t.apps[i].Object, "spec", "sources")
	if slices.ContainsFunc(sources, func(source any) bool { // somebody has taken the annotation off
		m, _ := source.(map[string]any)
		called, _, _ := unstructured.NestedString(m, "helm", "releaseName")
		return called == name
	}) {
		return name
	}
	return ""
}

// calledBy are sources of which the releases that do not say another have a name. Of a folder only Argo CD knows that it has a chart,
// unless the Component says so, and one with a release has one to it.
func calledBy(release string, sources []argocd.Source) []argocd.Source {
	if release == "" {
		return sources
	}
	sources = slices.Clone(sources)
	for i, s := range sources {
		helm := argocd.Helm{ReleaseName: release}
		switch {
		case s.Helm != nil && s.Helm.ReleaseName == "":
			helm = *s.Helm
			helm.ReleaseName = release
		case s.Helm != nil, s.Chart == "":
			continue
		}
		sources[i].Helm = &helm
	}
	return sources
}

// deployedEndpoint is the address of an existing cluster as its Applications have it; empty while there
// are none.
func deployedEndpoint(apps []*unstructured.Unstructured) string {
	for _, app := range apps {
		if endpoint := app.GetAnnotations()[v1alpha1.AnnotationEndpoint]; endpoint != "" {
			return endpoint
		}
	}
	return ""
}

// componentStatuses are the components of a target as status shows them that have Applications of
// their own.
func (f facts) componentStatuses(t *target) (all []v1alpha1.TargetComponentStatus) {
	for _, p := range t.parts {
		if p.component == "" {
			continue
		}
		s := v1alpha1.TargetComponentStatus{
			Name: p.component, Application: f.names.application(t.spec, p.component).String(), State: v1alpha1.ComponentDeploying, Reason: p.reason,
		}
		switch {
		case p.healthy():
			s.State = v1alpha1.ComponentHealthy
		case p.reason == v1alpha1.ReasonDependencyNotHealthy:
			s.State = v1alpha1.ComponentBlocked
		}
		all = append(all, s)
	}
	for _, app := range t.removed {
		all = append(all, v1alpha1.TargetComponentStatus{
			Name: conditions.Line(componentOf(app)), Application: keyOf(app).String(), State: v1alpha1.ComponentRemoving, Reason: v1alpha1.ReasonApplicationProgressing,
		})
	}
	return all
}
