package experiment

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/conditions"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/argoworkflows"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// leftoverDelay is how soon is looked for again what may go without anybody telling: a cluster
// Secret that somebody's finalizer holds, because Secrets are not watched, and an object that the
// server has and the cache does not, because it may go before the cache has seen it.
const leftoverDelay = 2 * time.Second

// secretDone is how soon a cluster Secret is gone that was deleted, or known to Argo CD that was created, which nobody tells.
// By then the cache has seen what else was deleted, too.
const secretDone = 100 * time.Millisecond

// lastLook is how soon an object is looked at that nobody will report the end of.
const lastLook = time.Minute

// defaultDeadline is how long a teardown is tried and waited for where the spec does not say.
const defaultDeadline = 30 * time.Minute

// maxDeadline is how long that is at most: clusters cost.
const maxDeadline = 24 * time.Hour

// demolition is a teardown as it is planned.
type demolition struct {
	facts
	Plan
	// left is what is not gone yet, or not provably.
	left []remnant
	// abandoned are the Applications that go without what they deployed, and of which the status does not tell yet.
	abandoned []v1alpha1.AbandonedApplication
}

// remnant is what a teardown has not seen go.
type remnant struct {
	gvk schema.GroupVersionKind
	// object is nil for what there may be of a kind that cannot be seen.
	object *unstructured.Unstructured
	// asked says that it is asked to go, by this pass or one before.
	asked bool
	// abandoned says that it is an Application, and left is what that has deployed.
	abandoned bool
	// err says why it cannot, or is left; nil where its version is not served.
	err error
}

func (r remnant) String() string {
	switch {
	case r.abandoned:
		return fmt.Sprintf("what %s deployed (%v)", kube.Describe(r.object), r.err)
	case r.object != nil:
		return kube.Describe(r.object)
	case r.err != nil:
		return "what there may be of kind " + r.gvk.Kind + ", which cannot be listed"
	}
	return hidden(r.gvk)
}

// key is what refusals know it by.
func (r remnant) key() string {
	if r.object != nil {
		return kube.Describe(r.object)
	}
	return r.gvk.GroupKind().String()
}

// teardown takes everything down, in this order: the Workflow; the Applications, while
// their clusters work; the namespaces they had on the hub, the cluster Secrets and the
// clusters. It does not depend on a valid spec, and what it waits for it names. What does not go
// holds the next up for its share of the deadline, and no longer: clusters cost. How long that is
// counts from when it was asked to go, so that a manager that was away asks first.
func (f facts) teardown() Plan {
	d := &demolition{facts: f, Plan: Plan{Targets: f.experiment.Status.Targets}}
	switch {
	case f.experiment.Status.StartedAt == nil:
		d.Done = true
	case moved(f.experiment, f.names):
		d.Down = []string{"nothing yet: " + f.whereTo()}
	case f.unknown() != "":
		d.Down = []string{"nothing yet: " + f.unknown()}
	default:
		d.Workflow = f.workflow()
		held := d.takeFirst()
		if !held {
			d.takeClusters()
		}
		d.end()
		d.Teardown = d.record()
		if held { // by what comes first; what comes later may have been asked to go before, and was not looked at
			d.Teardown.WaitsFor = append(d.Teardown.WaitsFor, d.names.waitedFor()...)
		}
	}
	return d.Plan
}

// unknown says which type of cluster this version knows nothing of: one that it was begun with by
// another, which may have made some.
func (f facts) unknown() string {
	for _, t := range f.experiment.Spec.Targets {
		if providers[t.Cluster.Type] == nil {
			return fmt.Sprintf("target %s has a cluster of type %s, which this version does not know; start the version that it was begun with", t.Name, t.Cluster.Type)
		}
	}
	return ""
}

// record is what the status says of what is left.
func (d *demolition) record() *v1alpha1.TeardownStatus {
	t := &v1alpha1.TeardownStatus{Abandoned: d.abandoned}
	for _, r := range d.left {
		if r.asked {
			t.WaitsFor = append(t.WaitsFor, v1alpha1.Waiting{Object: r.key(), Since: *timestamp(d.askedAt(r))})
		}
	}
	return t
}

// askedAt is when something was asked to go: now, if nothing else is recorded.
func (d *demolition) askedAt(r remnant) time.Time {
	if at := d.recorded(r); !at.IsZero() {
		return at
	}
	return d.now
}

// recorded is when something was asked to go as the status says it; zero if it does not.
func (d *demolition) recorded(r remnant) time.Time {
	if t := d.experiment.Status.Teardown; t != nil {
		key := r.key()
		for _, w := range t.WaitsFor {
			if w.Object == key {
				return past(w.Since.Time, d.now)
			}
		}
	}
	return time.Time{}
}

// past is a time that was recorded, or now, if a manager with a wrong clock has recorded one that is yet to come: nothing waits for
// that.
func past(recorded, now time.Time) time.Time {
	if recorded.After(now) {
		return now
	}
	return recorded
}

// takeFirst takes down what comes before the clusters, and says whether they wait for it.
func (d *demolition) takeFirst() (held bool) {
	switch w := d.seen.Workflow; {
	case d.part: // it stays
	case w != nil:
		d.remove(*w)
		d.lookIn(d.nextLook(*w))
	default:
		d.later(argoworkflows.WorkflowGVK)
	}
	if d.held() {
		return true
	}
	if len(d.seen.Applications) > 0 {
		d.takeApplications()
	} else {
		d.later(argocd.ApplicationGVK)
	}
	return d.held()
}

// held says whether what comes next waits for anything that is left, until when at most.
func (d *demolition) held() (held bool) {
	for _, r := range d.left {
		held = !d.given(r, 4) || held
	}
	return held
}

// takeApplications deletes the Applications that no other still depends on, and frees those of clusters
// that are gone: Argo CD could never delete what they deployed.
func (d *demolition) takeApplications() {
	targets := d.targets()
	graph, _ := d.accept()
	ordered := graph != nil // the dependencies may have been changed to a cycle since
	for _, spec := range d.experiment.Spec.Targets {
		t := targets[spec.Name]
		needed := ordered && d.needed(spec.Name)
		// One that has had its time holds up the others of its target no more, nor do those that were
		// to go after it.
		layered := !slices.ContainsFunc(t.apps, func(app *unstructured.Unstructured) bool {
			return going(app) && d.given(remnant{object: app}, 4)
		})
		for _, app := range d.leaving(t) {
			d.takeApplication(t, app, needed)
			needed = needed || layered && d.awaits(app)
		}
	}
	for name, apps := range d.seen.Applications {
		for _, app := range apps {
			d.lookIn(d.nextLook(*app))
			if targets[name] == nil { // nothing says what needs it
				d.remove(*app)
				d.endSync(name, app, v1alpha1.ConditionReady)
			}
		}
	}
}

// leaving are the Applications of a target in the order in which they go: what comes later in the list of
// components is deployed on what came before. Of those that the list does not have only their age says so.
func (f facts) leaving(t *target) (apps []*unstructured.Unstructured) {
	if len(t.removed) > 0 {
		return f.lastFirst(t.apps)
	}
	for _, p := range slices.Backward(t.parts) {
		if p.app != nil {
			apps = append(apps, p.app)
		}
	}
	return apps
}

// takeApplication deletes an Application, or waits for it where another needs it.
func (d *demolition) takeApplication(t *target, app *unstructured.Unstructured, needed bool) {
	if d.saved(t, app) {
		d.Saved = append(d.Saved, app.GetUID())
	}
	switch {
	case needed:
		d.leave(*app)
		return
	case d.registersFirst(t, app):
		d.leave(*app)
		d.Down[len(d.Down)-1] += " (its cluster is registered with Argo CD first)"
		return
	case (!going(app) || d.freed(t, app)) && d.abandon(t, app): // which the status must say before that is done
		d.leave(*app)
		d.left[len(d.left)-1].asked = going(app)
		d.Wait = kube.AtOnce
		return
	}
	d.remove(*app)
	if d.freed(t, app) {
		d.Writes = append(d.Writes, Write{Action: Free, Object: app, Known: true, Target: t.spec.Name, Condition: v1alpha1.ConditionReady})
		return
	}
	switch d.endSync(t.spec.Name, app, v1alpha1.ConditionReady); {
	case !going(app):
		return
	case t.spec.Cluster.Type == v1alpha1.ClusterExisting, !d.given(remnant{object: app}, 4):
		d.registerAgain(&d.Plan, t) // or Argo CD could never delete what it deployed
	}
	d.abandon(t, app)
}

// abandon tells of an Application that goes now, and of which Argo CD does not delete what that deployed, where the status does not tell
// yet: nobody could find that out afterwards. It says whether it did.
func (d *demolition) abandon(t *target, app *unstructured.Unstructured) bool {
	why := ""
	switch stays := t.spec.Cluster.Type == v1alpha1.ClusterExisting || refers(t.spec) && t.reference != nil; {
	case d.freed(t, app):
		why = "its cluster was gone before Argo CD had deleted that: what it had outside of the cluster, as load balancers and disks, may be left, and cost"
	case !d.cutOff(t.spec.Name), d.seen.Connections[t.spec.Name].ReadErr != nil, d.registers(&d.Plan, t):
	case stays:
		why = "Argo CD does not know its cluster, and leaves all of it there"
	default:
		why = "Argo CD does not know its cluster: what it had outside of that, as load balancers and disks, may be left, and cost"
	}
	if why == "" || !argocd.Deployed(app) || d.tellsOf(app) {
		return false
	}
	d.abandoned = append(d.abandoned, v1alpha1.AbandonedApplication{Application: keyOf(app).String(), UID: app.GetUID(), Target: t.spec.Name, Message: why})
	return true
}

// saved says whether Argo CD deletes after all what an Application deployed that the status tells of: it is there still, and its cluster,
// too, and Argo CD was found to know that again.
func (d *demolition) saved(t *target, app *unstructured.Unstructured) bool {
	return d.tellsOf(app) && !d.freed(t, app) && d.seen.Connections[t.spec.Name].Known
}

// tellsOf says whether the status tells of an Application that it goes without what it deployed.
func (f facts) tellsOf(app *unstructured.Unstructured) bool {
	return slices.ContainsFunc(f.recordedAbandoned(), func(a v1alpha1.AbandonedApplication) bool { return a.UID == app.GetUID() })
}

// freed says whether an Application has its finalizers taken off: Argo CD could never delete what that deployed.
func (d *demolition) freed(t *target, app *unstructured.Unstructured) bool {
	return going(app) && d.seen.Clusterless[t.spec.Name]
}

// recordedAbandoned are the Applications that have gone without what they deployed, as the status tells of them.
func (f facts) recordedAbandoned() []v1alpha1.AbandonedApplication {
	if t := f.experiment.Status.Teardown; t != nil {
		return t.Abandoned
	}
	return nil
}

// registersFirst has the cluster of an Application registered, if Argo CD does not know it, and says whether it does: of such a
// cluster Argo CD would let go what it deployed there, at once. It is tried for as long as an Application may hold others up; where
// there is no kubeconfig that would do, there is nothing to wait for.
func (d *demolition) registersFirst(t *target, app *unstructured.Unstructured) bool {
	if !d.cutOff(t.spec.Name) || going(app) || d.triedToRegister(t.spec.Name) || d.given(remnant{object: app}, 4) {
		return false
	}
	if refers(t.spec) {
		return d.awaitsRegistration(t)
	}
	d.registerAgain(&d.Plan, t)
	if d.seen.Connections[t.spec.Name].ReadErr != nil {
		return true // which is tried again
	}
	if !d.registers(&d.Plan, t) {
		return false
	}
	wait := secretDone
	if d.now.Sub(d.refused[unregistered(t.spec.Name)].since) > leftoverDelay { // somebody takes it away
		wait = leftoverDelay
	}
	d.lookIn(wait)
	return true
}

// cutOff says whether Argo CD was found not to know a target's cluster, or it could not be found out.
func (f facts) cutOff(target string) bool {
	c, looked := f.seen.Connections[target]
	return looked && !c.Known
}

// triedToRegister says whether it has been tried for a quarter of the deadline to have a target's cluster registered.
func (d *demolition) triedToRegister(target string) bool {
	return d.over(d.refused[unregistered(target)].since, 4)
}

// unregistered is by what refusals know that Argo CD does not know the cluster of a target that goes.
func unregistered(target string) string { return "registration of target " + target }

// reading is what begins that by what refusals know the reads of single objects of a kind.
func reading(gvk schema.GroupVersionKind) string { return "reading " + gvk.GroupKind().String() + " " }

// needed says whether a target's Applications wait for those of others that depend on it.
func (d *demolition) needed(name string) bool {
	return slices.ContainsFunc(d.experiment.Spec.Targets, func(o v1alpha1.Target) bool {
		return slices.Contains(o.Depends, name) && o.Name != name && d.awaits(d.seen.Applications[o.Name]...)
	})
}

// unseenNeeds are the kinds of which the server is asked before the Applications go that are asked to: what needs those goes first, and
// none of it was seen. A Workflow that is recorded has been looked for, but for the one after it.
func (d *demolition) unseenNeeds() (kinds []schema.GroupVersionKind) {
	for _, w := range d.Writes {
		if w.Action != Delete || w.Object.GroupVersionKind() != argocd.ApplicationGVK {
			continue
		}
		if recorded := d.experiment.Status.Workflow; !d.part && (recorded == nil || recorded.Superseded) {
			kinds = union(kinds, []schema.GroupVersionKind{argoworkflows.WorkflowGVK})
		}
		if d.mayBeNeeded(w.Object) {
			kinds = union(kinds, []schema.GroupVersionKind{argocd.ApplicationGVK})
		}
	}
	return kinds
}

// mayBeNeeded says whether by the spec something needs an Application of which nothing was seen: another target, or a component after it.
func (d *demolition) mayBeNeeded(app *unstructured.Unstructured) bool {
	target := d.names.targetOf(app)
	return slices.ContainsFunc(d.experiment.Spec.Targets, func(t v1alpha1.Target) bool {
		if t.Name != target {
			return slices.Contains(t.Depends, target) && len(d.seen.Applications[t.Name]) == 0
		}
		parts, _ := d.names.observedParts(t, d.seen.Applications[target])
		at := slices.IndexFunc(parts, func(p part) bool { return p.app != nil && keyOf(p.app) == keyOf(app) })
		return slices.ContainsFunc(parts[at+1:], func(p part) bool { return p.app == nil })
	})
}

// awaits says whether any of some Applications has not had its time to go.
func (d *demolition) awaits(apps ...*unstructured.Unstructured) bool {
	return slices.ContainsFunc(apps, func(app *unstructured.Unstructured) bool { return !d.given(remnant{object: app}, 4) })
}

// takeClusters takes down what is left when everything on the clusters is gone, or has had its time.
func (d *demolition) takeClusters() {
	clusters := d.clustersLeft()
	namespaces := d.seen.Leftovers[namespaceGVK]
	for _, namespace := range namespaces {
		switch {
		case d.keptIn(namespace):
		case d.houses(namespace, clusters):
			d.leave(namespace)
		default:
			d.remove(namespace)
		}
	}
	var secrets []unstructured.Unstructured
	for _, secret := range d.seen.Leftovers[argocd.SecretGVK] {
		if t := d.connects(secret); t != nil {
			d.leave(secret)
			d.left[len(d.left)-1].err = fmt.Errorf("the Application of target %s needs it until it is gone", t.Name)
		} else {
			secrets = append(secrets, secret)
		}
	}
	asked := len(d.Writes)
	d.remove(secrets...)
	gone := len(d.Writes) > asked
	d.remove(clusters...)
	d.cannotSee(func(schema.GroupVersionKind) bool { return true })
	switch {
	case gone:
		d.lookIn(secretDone)
	case len(secrets) > 0:
		d.lookIn(leftoverDelay)
	default:
		d.lookIn(d.nextLook(append(clusters, namespaces...)...))
	}
}

// connects is the target for which a cluster Secret stays as long as its Applications do: of a cluster that it does not know, Argo CD
// lets go what it deployed, and with that what it has in the cloud.
func (d *demolition) connects(secret unstructured.Unstructured) *v1alpha1.Target {
	for i, t := range d.experiment.Spec.Targets {
		if len(d.seen.Applications[t.Name]) > 0 && keyOf(&secret) == d.names.clusterSecret(t) {
			return &d.experiment.Spec.Targets[i]
		}
	}
	return nil
}

// keptIn says whether a cluster is in a namespace that somebody has taken our label off.
func (d *demolition) keptIn(namespace unstructured.Unstructured) bool {
	return slices.ContainsFunc(d.experiment.Spec.Targets, func(t v1alpha1.Target) bool {
		return d.seen.Kept[t.Name] != nil && d.names.onHub(t) == namespace.GetName()
	})
}

// houses says whether a namespace waits for what is, or may be, in it: what makes the cluster takes it
// down in an order that the deletion of a namespace does not know, and with what it has elsewhere.
func (d *demolition) houses(namespace unstructured.Unstructured, clusters []unstructured.Unstructured) (waits bool) {
	for _, c := range clusters {
		waits = c.GetNamespace() == namespace.GetName() && !d.given(remnant{object: &c}, 4) || waits
	}
	for _, t := range d.experiment.Spec.Targets {
		for _, gvk := range providerOf(t).kinds() {
			_, unreadable := d.seen.Unreadable[gvk]
			hidden := unreadable || slices.Contains(d.seen.Hidden, gvk)
			waits = hidden && d.names.cluster(t).Namespace == namespace.GetName() && !d.given(remnant{gvk: gvk}, 4) || waits
		}
	}
	return waits
}

// end says how the teardown goes on: it is done, something is left to wait for, or it is given up.
func (d *demolition) end() {
	over := true
	for _, r := range d.left {
		if r.object != nil && d.connects(*r.object) != nil {
			continue // that goes by its Applications
		}
		over = d.given(r, 2) && over
		if r.object == nil {
			d.lookIn(lastLook) // nobody tells when it can be seen
		}
	}
	switch {
	case len(d.left) == 0 && len(d.seen.Kept)+len(d.seen.Former)+len(d.recordedAbandoned()) > 0:
		d.release()
	case len(d.left) == 0:
		d.Done = true
	case !d.overdue():
		if e := d.experiment; e.DeletionTimestamp != nil {
			d.lookIn(teardownStart(e, d.now).Add(deadlineOf(e)).Sub(d.now))
		}
	case !over:
	case d.experiment.Spec.Deletion != nil && d.experiment.Spec.Deletion.Policy == v1alpha1.DeletionBlock:
		d.Late = "; that is over spec.deletion.deadline, and spec.deletion.policy Block keeps the Experiment until it is gone"
	default:
		d.release()
	}
}

// given says whether something that is left has had a share of the deadline: since it was asked to go,
// by the manager's clock, because that of the API server may be another, or since this was refused for
// the first time, or its kind could not be seen. Where it has not, it is looked at again when it will
// have.
func (d *demolition) given(r remnant, share int) bool {
	since := d.refused[r.key()].since
	switch asked := d.recorded(r); {
	case going(r.object):
		since = d.askedAt(r)
	case !asked.IsZero() && (since.IsZero() || asked.Before(since)): // somebody creates it again, each time that it is gone
		since = asked
	case r.object == nil:
		for what, refused := range d.refused {
			if strings.HasPrefix(what, reading(r.gvk)) && (since.IsZero() || refused.since.Before(since)) {
				since = refused.since
			}
		}
	}
	return d.over(since, share) // or it is asked for now
}

// over says whether a share of the deadline has passed since then; where it has not, it is looked again when it will have.
func (d *demolition) over(since time.Time, share int) bool {
	if since.IsZero() {
		return false
	}
	until := since.Add(deadlineOf(d.experiment) / time.Duration(share))
	d.lookIn(until.Sub(d.now))
	return !d.now.Before(until)
}

// deadlineOf is how long the teardown of an Experiment is tried and waited for.
func deadlineOf(e *v1alpha1.Experiment) time.Duration {
	if d := e.Spec.Deletion; d != nil && d.Deadline != nil {
		return min(d.Deadline.Duration, maxDeadline) // of an object that was there before the schema said so
	}
	return defaultDeadline
}

// overdue says whether that is over. It never is for an Experiment that stays: who terminates it can
// still delete it.
func (f facts) overdue() bool {
	e := f.experiment
	return e.DeletionTimestamp != nil && !f.now.Before(teardownStart(e, f.now).Add(deadlineOf(e)))
}

// teardownStart is when a deletion was first acted on: now, if nothing else is recorded.
func teardownStart(e *v1alpha1.Experiment, now time.Time) *metav1.Time {
	if t := e.Status.Teardown; t != nil && t.StartedAt != nil {
		return timestamp(past(t.StartedAt.Time, now))
	}
	return timestamp(now)
}

// release lets the Experiment go without what is left, of which a ConfigMap tells; of what one that stays has left, its condition does.
func (d *demolition) release() {
	d.Writes, d.Down, d.Wait, d.Done = nil, nil, 0, true
	left := append(d.left, d.unasked()...)
	orphans := make([]orphan, 0, len(left))
	for _, r := range left {
		what := r.String()
		if r.object != nil {
			what += d.because(r.object)
		}
		d.Orphans = append(d.Orphans, what)
		orphans = append(orphans, d.orphansOf(r)...)
	}
	if d.experiment.DeletionTimestamp != nil {
		d.Writes = []Write{{Object: d.orphansObject(orphans), Condition: v1alpha1.ConditionReady}}
	}
}

// unasked are the objects of clusters that were not asked to go, because those that are left need them, or one that somebody
// has, what was never the Experiment's, and what Applications deployed that have gone without it.
func (d *demolition) unasked() (unasked []remnant) {
	for _, t := range d.experiment.Spec.Targets {
		objects, why := d.names.clusterObjects(t), fmt.Errorf("the cluster of target %s needs it until it is gone", t.Name)
		if kept := d.seen.Kept[t.Name]; kept != nil {
			why = fmt.Errorf("somebody has taken the label %s off %s, which needs it", marks.UID, kube.Describe(kept))
			objects = append(objects, named(namespaceGVK, types.NamespacedName{Name: d.names.onHub(t)}))
		}
		for i, o := range objects {
			found := d.seen.leftOf(o)
			if i > 0 && found != nil && !slices.ContainsFunc(d.left, func(l remnant) bool { return l.object != nil && l.key() == kube.Describe(found) }) {
				unasked = append(unasked, remnant{gvk: o.GroupVersionKind(), object: found, err: why})
			}
		}
		if kept := d.seen.Kept[t.Name]; kept != nil {
			unasked = append(unasked, remnant{gvk: kept.GroupVersionKind(), object: kept, err: errKept})
		}
	}
	for i, o := range d.seen.Former {
		unasked = append(unasked, remnant{gvk: o.GroupVersionKind(), object: &d.seen.Former[i], err: errFormer})
	}
	for _, a := range d.recordedAbandoned() {
		if !slices.ContainsFunc(d.left, func(l remnant) bool { return l.object != nil && l.object.GetUID() == a.UID }) {
			unasked = append(unasked, whatDeployed(a))
		}
	}
	return unasked
}

// whatDeployed is what an Application deployed that has gone without it. No more is known of that than which it was.
func whatDeployed(a v1alpha1.AbandonedApplication) remnant {
	namespace, name, _ := strings.Cut(a.Application, "/")
	app := named(argocd.ApplicationGVK, types.NamespacedName{Namespace: namespace, Name: name})
	app.SetUID(a.UID)
	return remnant{gvk: argocd.ApplicationGVK, object: app, abandoned: true, err: errors.New(a.Message)}
}

// errKept is why nothing is done with what stands for a cluster.
var errKept = fmt.Errorf("somebody has taken the label %s off it; delete it, or nobody will", marks.UID)

// errFormer is why nothing is done with what another Experiment of the same name has left.
var errFormer = errors.New("it was made for another Experiment of the same name, which is gone; delete it, or nobody will")

// orphan is what a ConfigMap tells of something that is left behind.
type orphan struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"`
	UID        string `json:"uid,omitempty"`
	// DeletedAt is when its deletion was asked for; empty where that was refused.
	DeletedAt string `json:"deletedAt,omitempty"`
	// Finalizers hold it.
	Finalizers []string `json:"finalizers,omitempty"`
	// Error is what is known of why it is left.
	Error string `json:"error"`
}

// orphansOf are what may be left of a remnant: of a kind that cannot be seen, everything that there
// could be of it.
func (d *demolition) orphansOf(r remnant) []orphan {
	if r.object != nil {
		return []orphan{d.orphan(r)}
	}
	var all []orphan
	for _, key := range d.names.children(r.gvk) {
		o := d.orphan(r)
		o.Namespace, o.Name = key.Namespace, key.Name
		all = append(all, o)
	}
	return all
}

func (d *demolition) orphan(r remnant) orphan {
	apiVersion, kind := r.gvk.ToAPIVersionAndKind()
	o := orphan{APIVersion: apiVersion, Kind: kind}
	switch {
	case r.object != nil:
		o.APIVersion, o.Kind = r.object.GetAPIVersion(), r.object.GetKind()
		o.Namespace, o.Name, o.UID, o.Finalizers = r.object.GetNamespace(), r.object.GetName(), string(r.object.GetUID()), finalizersOf(r.object)
		if o.Error = d.says(r.object); r.err != nil {
			o.Error = r.err.Error()
		}
		if going(r.object) {
			o.DeletedAt = r.object.GetDeletionTimestamp().UTC().Format(time.RFC3339)
		}
	case r.err != nil:
		o.Error = r.err.Error()
	default:
		o.Error = r.String()
	}
	if err := d.refused[r.key()].err; err != nil && !going(r.object) && !r.abandoned {
		o.Error = err.Error()
	}
	o.Error = conditions.Line(orDefault(o.Error, "it is held by its finalizers and says nothing"))
	return o
}

// finalizersOf are those that hold an object: a Namespace has others in its spec.
func finalizersOf(o *unstructured.Unstructured) []string {
	if finalizers := o.GetFinalizers(); len(finalizers) > 0 || o.GroupVersionKind() != namespaceGVK {
		return finalizers
	}
	finalizers, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "finalizers")
	return finalizers
}

// because says in brackets what keeps an object from going; empty where it tells nothing.
func (f facts) because(o *unstructured.Unstructured) string {
	why := ""
	switch {
	case going(o):
		why = orDefault(f.says(o), heldBy(o))
	case o.GroupVersionKind() == argocd.ApplicationGVK:
		why = argocd.Held(o)
	}
	if why == "" {
		return ""
	}
	return " (" + why + ")"
}

// heldBy names the finalizers of an object that are neither Kubernetes', nor Crossplane's, nor of what its kind is of: somebody else
// keeps it, and it tells nothing of that itself.
func heldBy(o *unstructured.Unstructured) string {
	foreign := slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(finalizer string) bool {
		domain, _, _ := strings.Cut(finalizer, "/")
		own := func(group string) bool { return domain == group || strings.HasSuffix(domain, "."+group) }
		return finalizer == metav1.FinalizerDeleteDependents || finalizer == metav1.FinalizerOrphanDependents ||
			own("crossplane.io") || own(o.GroupVersionKind().Group)
	})
	if len(foreign) == 0 {
		return ""
	}
	return "held by finalizer " + strings.Join(foreign, ", ")
}

// says is what an object that does not go tells of the reason; empty where it tells nothing.
func (f facts) says(o *unstructured.Unstructured) string {
	switch o.GroupVersionKind() {
	case argocd.ApplicationGVK:
		return argocd.DeletionError(o)
	case argoworkflows.WorkflowGVK:
		return argoworkflows.DeletionError(o)
	case namespaceGVK:
		return remaining(o)
	}
	for _, t := range f.experiment.Spec.Targets {
		if objects := providerOf(t).objects(f.names, t); len(objects) > 0 && keyOf(objects[0]) == keyOf(o) && objects[0].GroupVersionKind() == o.GroupVersionKind() {
			return providerOf(t).read([]*unstructured.Unstructured{o}).Message
		}
	}
	return ""
}

// remaining is why a Namespace does not go, by its conditions: what is left in it, or why that is not known. The cache has none of them.
func remaining(namespace *unstructured.Unstructured) string {
	for _, t := range []corev1.NamespaceConditionType{
		corev1.NamespaceContentRemaining, corev1.NamespaceFinalizersRemaining, corev1.NamespaceDeletionContentFailure,
		corev1.NamespaceDeletionGVParsingFailure, corev1.NamespaceDeletionDiscoveryFailure,
	} {
		if c := conditions.Of(namespace, string(t)); c["status"] == "True" {
			return conditions.Said(c)
		}
	}
	return ""
}

var configMapGVK = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}

// orphansObject is the ConfigMap with what is left behind. It is the same in every pass.
func (f facts) orphansObject(orphans []orphan) *unstructured.Unstructured {
	list := orphansList(orphans)
	name := f.names.orphans()
	data := map[string]any{
		"experiment": f.experiment.Namespace + "/" + f.experiment.Name,
		"uid":        string(f.experiment.UID),
		orphansKey:   list,
	}
	if asked := f.experiment.DeletionTimestamp; asked != nil {
		data["deletedAt"], data["deadline"] = asked.UTC().Format(time.RFC3339), deadlineOf(f.experiment).String()
	} else { // it was forced away, and nobody knows what else it had
		data["selector"] = marks.UID + "=" + string(f.experiment.UID)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"data": data}}
	u.SetGroupVersionKind(configMapGVK)
	u.SetNamespace(name.Namespace)
	u.SetName(name.Name)
	marks.Set(f.experiment, u)
	return u
}

// orphansKey is where a ConfigMap lists what is left behind.
const orphansKey = "orphans.yaml"

// maxOrphans is how much a ConfigMap tells of what is left, in bytes: the API server takes 1 MiB of it.
const maxOrphans = 900 << 10

// orphansList is YAML of what is left; where it is too much errors are cut, and then the last are only counted.
func orphansList(orphans []orphan) string {
	list := func(some []orphan) string {
		text, _ := yaml.Marshal(some) // strings alone, which cannot fail
		return string(text)
	}
	text := list(orphans)
	if len(text) <= maxOrphans {
		return text
	}
	short := slices.Clone(orphans)
	for i := range short {
		if e := short[i].Error; len(e) > 100 {
			short[i].Error = strings.ToValidUTF8(e[:100], "") + "…"
		}
	}
	text = list(short)
	for n := len(short); len(text) > maxOrphans; {
		n = n * 9 / 10
		text = list(short[:n]) + fmt.Sprintf("# and %d more\n", len(short)-n)
	}
	return text
}

// clustersLeft are, of every target, the object that stands for its cluster, or when that is gone, or
// has had its time, what else it was made by, too.
func (d *demolition) clustersLeft() (left []unstructured.Unstructured) {
	for _, t := range d.experiment.Spec.Targets {
		objects := d.names.clusterObjects(t)
		for i, o := range objects {
			found := d.seen.leftOf(o)
			if found == nil || d.seen.Kept[t.Name] != nil {
				continue
			}
			left = append(left, *found)
			// What machines are made on is needed until the last of them has gone, with the Cluster.
			if i == 0 && len(objects) > 1 && (len(copiesOf(d.names, t)) > 0 || !d.given(remnant{object: found}, 4)) {
				break
			}
		}
	}
	return left
}

// nextLook is how soon children are looked at again whose end would wake nobody: the cache does not
// have them, something of them could not be read, or somebody has taken off the annotation by which an object names its owner. It
// is 0 if there are none.
func (f facts) nextLook(children ...unstructured.Unstructured) time.Duration {
	for _, child := range children {
		if f.seen.Unseen {
			return leftoverDelay
		}
		if child.GetAnnotations()[v1alpha1.AnnotationOwner] != f.experiment.Namespace+"/"+f.experiment.Name {
			return lastLook
		}
	}
	return 0
}

// later takes objects of a kind down which must go first and that the cache does not have, or waits
// for what there may be of it.
func (d *demolition) later(gvk schema.GroupVersionKind) {
	if found := d.seen.Leftovers[gvk]; len(found) > 0 {
		d.remove(found...)
		d.lookIn(leftoverDelay)
	}
	d.cannotSee(func(kind schema.GroupVersionKind) bool { return kind == gvk })
}

// cannotSee waits for what there may be of kinds that cannot be seen.
func (d *demolition) cannotSee(wanted func(schema.GroupVersionKind) bool) {
	var unseen []remnant
	for _, gvk := range d.seen.Hidden {
		unseen = append(unseen, remnant{gvk: gvk})
	}
	for gvk, err := range d.seen.Unreadable {
		unseen = append(unseen, remnant{gvk: gvk, err: err})
	}
	slices.SortFunc(unseen, func(a, b remnant) int { return strings.Compare(a.gvk.String(), b.gvk.String()) })
	for _, r := range unseen {
		known := slices.ContainsFunc(d.left, func(l remnant) bool { return l.object == nil && l.gvk == r.gvk })
		if wanted(r.gvk) && !known {
			d.left = append(d.left, r)
			d.Down = append(d.Down, r.String())
		}
	}
}

func hidden(gvk schema.GroupVersionKind) string {
	return "what there may be of kind " + gvk.Kind + ", of which the cluster does not serve " + gvk.GroupVersion().String()
}

// leave waits for a child without asking for its deletion.
func (d *demolition) leave(child unstructured.Unstructured) {
	d.left = append(d.left, remnant{gvk: child.GroupVersionKind(), object: &child})
	d.Down = append(d.Down, kube.Describe(&child)+d.because(&child))
}

// remove plans the deletion of children that are not being deleted yet, and waits for all.
func (d *demolition) remove(children ...unstructured.Unstructured) {
	for i := range children {
		d.leave(children[i])
		d.left[len(d.left)-1].asked = true
		if !going(&children[i]) {
			d.Writes = append(d.Writes, deletion(&children[i]))
		}
	}
}

// deletion asks for the deletion of a child.
func deletion(child *unstructured.Unstructured) Write {
	return Write{
		Action: Delete, Object: child, Known: true,
		Target: child.GetLabels()[v1alpha1.LabelTarget], Condition: v1alpha1.ConditionReady,
	}
}
