package experiment

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/conditions"
	"github.com/labkeeper/labkeeper/internal/dag"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/argoworkflows"
	"github.com/labkeeper/labkeeper/internal/external/capi"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// target is what a pass knows and decides of one target.
type target struct {
	spec     v1alpha1.Target
	provider provider
	// objects are those that the cluster is made by, as Observed.Clusters has them, and cluster is
	// the one that stands for it.
	objects []*unstructured.Unstructured
	cluster *unstructured.Unstructured
	// reference is the Cluster that it names and does not make.
	reference *unstructured.Unstructured
	// apps are its Applications: those of its parts, and those of components that the spec does not
	// name any more.
	apps, removed []*unstructured.Unstructured
	parts         []part
	clusterState  clusterState
	blockedBy     []string
	// clusterUp: the cluster is up and Argo CD knows it, or will by this pass's writes.
	clusterUp bool
	// unregistrable is why Argo CD cannot be given other credentials of a cluster that it was told of.
	unregistrable string
	// clusterReason and appReason are reasons of the conditions while the step is not done.
	clusterReason, appReason string
	message                  string
}

func (t *target) hub() bool { return t.spec.Cluster.Type == v1alpha1.ClusterHub }
func (t *target) healthy() bool {
	return t.clusterUp && deployedWell(t.parts, t.removed)
}
func (t *target) begun() bool { return t.cluster != nil || len(t.apps) > 0 }

// object is the i-th of those that the cluster is made by; nil if it is not there.
func (t *target) object(i int) *unstructured.Unstructured {
	if i < len(t.objects) {
		return t.objects[i]
	}
	return nil
}

// settling: what the target asks for is not, or not provably, what is deployed to stay.
func (t *target) settling() bool {
	return !t.clusterUp || len(t.removed) > 0 || slices.ContainsFunc(t.objects, going) || slices.ContainsFunc(t.objects, outrun) ||
		slices.ContainsFunc(t.parts, func(p part) bool { return p.desired == nil || p.state.Outdated || going(p.app) })
}

// outrun says whether what an object says is, by its own account, of a spec before. One that gives no account is
// taken at its word.
func outrun(o *unstructured.Unstructured) bool {
	if o == nil {
		return false
	}
	if observed, found, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration"); found && observed < o.GetGeneration() {
		return true
	}
	observed, found, _ := unstructured.NestedInt64(conditions.Of(o, "Ready"), "observedGeneration")
	return found && observed < o.GetGeneration()
}

// changing says of what clusters are made by, in the order of the targets' names, what is not known to be as the spec asks for: it still
// tells of before, or somebody has deleted it; empty where everything is.
func changing(targets map[string]*target) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(targets)) {
		t := targets[name]
		for _, o := range t.objects {
			switch {
			case going(o) && t.clusterUp: // of one that is not the condition of its own tells
				all = append(all, kube.Describe(o)+" of target "+name+" is being deleted")
			case outrun(o):
				all = append(all, strings.TrimSuffix(kube.Describe(o)+" of target "+name+" still tells of before: "+cmp.Or(t.clusterState.Message, t.clusterState.Warning), ": "))
			}
		}
	}
	return strings.Join(all, "; ")
}

// going says whether a child is there and being deleted.
func going(child *unstructured.Unstructured) bool {
	return child != nil && child.GetDeletionTimestamp() != nil
}

// targets reads the state of every target.
func (f facts) targets() map[string]*target {
	targets := make(map[string]*target, len(f.experiment.Spec.Targets))
	for _, spec := range f.experiment.Spec.Targets {
		t := &target{
			spec: spec, provider: providerOf(spec),
			objects: f.seen.Clusters[spec.Name], cluster: f.seen.cluster(spec.Name), apps: f.seen.Applications[spec.Name],
			reference: f.seen.References[spec.Name],
		}
		t.clusterState = t.provider.read(f.seen.telling(spec))
		t.parts, t.removed = f.names.observedParts(spec, t.apps)
		targets[spec.Name] = t
	}
	return targets
}

// blocked names the targets that keep another one from being begun. They have been advanced
// before it, so one whose Application is about to change is not healthy any more.
func blocked(name string, graph *dag.Graph[string], targets map[string]*target) []string {
	var by []string
	for _, dependency := range graph.Dependencies(name) {
		if !targets[dependency].healthy() {
			by = append(by, dependency)
		}
	}
	slices.Sort(by)
	return by
}

// advance takes a target one step on: cluster, registration, Applications.
func (f facts) advance(p *Plan, t *target, deployments []deployment) {
	if len(t.blockedBy) > 0 && !t.begun() {
		t.clusterUp = t.hub()
		t.clusterReason, t.appReason = v1alpha1.ReasonDependencyNotHealthy, v1alpha1.ReasonDependencyNotHealthy
		t.message = "Waits for target " + strings.Join(t.blockedBy, ", ")
		return
	}
	t.blockedBy = nil
	if t.clusterUp = t.hub(); f.frozen && !t.begun() {
		t.clusterReason, t.appReason = v1alpha1.ReasonPending, v1alpha1.ReasonPending
		t.message = "Is not begun while the spec cannot be acted on"
		return
	}
	switch {
	case t.hub():
	case refers(t.spec):
		f.advanceReferred(p, t)
	default:
		f.advanceCluster(p, t)
	}
	if !t.clusterUp {
		t.appReason = v1alpha1.ReasonPending
		return
	}
	f.advanceApplications(p, t, deployments)
}

func (f facts) advanceCluster(p *Plan, t *target) {
	desired, home, planned := f.desiredCluster(t.spec), f.seen.Homes[t.spec.Name], len(p.Writes)
	what := t.describe(desired)
	if !f.copy(p, t, what) {
		return
	}
	if !going(t.cluster) && !going(home) { // or what else it is made by would be made again while it is taken down
		f.house(p, t, home)
		for i, o := range desired {
			f.ensure(p, t, t.object(i), o, v1alpha1.ConditionClustersReady)
		}
	}
	t.clusterReason = v1alpha1.ReasonClusterProvisioning
	switch {
	case going(home):
		t.message = kube.Describe(home) + " is being deleted by somebody; it and the cluster in it are requested again when it is gone"
	case going(t.cluster):
		t.message = what + " is being deleted by somebody; it is requested again when it is gone"
	case t.clusterState.Failed:
		t.clusterReason = v1alpha1.ReasonClusterFailed
		t.message = what + " cannot be provisioned: " + orNothing(t.clusterState.Message) +
			"; " + t.provider.system() + " goes on trying, see kubectl -n " + t.cluster.GetNamespace() + " describe " +
			strings.ToLower(t.cluster.GetKind()) + "s." + t.cluster.GroupVersionKind().Group + " " + t.cluster.GetName()
	case t.cluster == nil && len(desired) > 0, !t.clusterState.Ready:
		t.message = what + " is being provisioned"
		if t.clusterState.Message != "" {
			t.message += ": " + t.clusterState.Message
		}
		t.message += f.unseenCluster(p, t)
	case f.names.registered(t.spec, t.objects, t.apps):
		t.clusterUp = true
		f.registerAgain(p, t)
	case planned < len(p.Writes) || slices.ContainsFunc(t.objects, going):
		// Its registration confirms what it is to be, which these writes come after.
		t.message = what + " is being brought to what the spec says"
	default:
		f.register(p, t, what)
	}
}

// unseenCluster says that nobody has looked at what stands for a cluster, which says nothing then; empty where somebody has, or may yet.
func (f facts) unseenCluster(p *Plan, t *target) string {
	if t.cluster == nil {
		return ""
	}
	if status, _ := t.cluster.Object["status"].(map[string]any); len(status) > 0 || !f.old(p, t.cluster) {
		return ""
	}
	said := "; " + t.provider.system() + " has not looked at it: see whether it runs"
	if namespace := t.cluster.GetNamespace(); namespace != "" {
		said += ", and looks at namespace " + namespace
	}
	return said
}

// copy makes what the cluster gets of the user's templates, before the cluster, and says whether that can be
// made.
func (f facts) copy(p *Plan, t *target, what string) bool {
	if f.frozen || t.clusterState.Ready || going(t.cluster) || len(copiesOf(f.names, t.spec)) == 0 {
		return true
	}
	copies, looked := f.seen.Copies[t.spec.Name]
	switch {
	case !looked:
		t.clusterReason, t.message = v1alpha1.ReasonClusterProvisioning, what+" is requested when its templates have been looked for"
		p.lookIn(kube.AtOnce)
	case copies.ReadErr != nil:
		t.clusterReason, t.message = kube.Reason(copies.ReadErr), kube.Message(copies.ReadErr)
	case copies.Missing != "":
		t.clusterReason, t.message = v1alpha1.ReasonClusterTemplateNotFound, what+" waits for "+copies.Missing
		p.lookIn(secretDelay) // nobody tells when it is there
	default:
		for _, o := range copies.Objects {
			p.Writes = append(p.Writes, Write{Action: Once, Object: f.mark(t.spec, o), Target: t.spec.Name, Condition: v1alpha1.ConditionClustersReady})
		}
		p.lookIn(lastLook) // nobody tells when one goes
		return true
	}
	return t.cluster != nil
}

// house makes the namespace for a cluster that needs one, and lets the manager read the kubeconfig
// that will be in it.
func (f facts) house(p *Plan, t *target, home *unstructured.Unstructured) {
	if f.frozen || !t.provider.housed() || t.cluster != nil {
		return
	}
	namespace := &unstructured.Unstructured{Object: map[string]any{}}
	namespace.SetGroupVersionKind(namespaceGVK)
	namespace.SetName(f.names.onHub(t.spec))
	// What runs in a virtual cluster runs on the hub.
	namespace.SetLabels(map[string]string{enforceLabel: "baseline"})
	if home == nil {
		p.Writes = append(p.Writes, Write{Action: Once, Object: f.mark(t.spec, namespace), Target: t.spec.Name, Condition: v1alpha1.ConditionClustersReady})
	}
	p.Writes = append(p.Writes, f.grant(t))
}

// grant lets the manager read the Secrets beside a target's cluster.
func (f facts) grant(t *target) Write {
	binding := f.mark(t.spec, kube.ReadsSecretsOf(f.names.onHub(t.spec)))
	return Write{Object: binding, Target: t.spec.Name, Condition: v1alpha1.ConditionClustersReady}
}

// describe is the cluster as messages name it, by the objects that it is made by.
func (t *target) describe(desired []*unstructured.Unstructured) string {
	if len(desired) == 0 {
		return "The cluster of Secret " + ptr.Deref(t.spec.Cluster.KubeconfigSecret, v1alpha1.SecretKey{}).Name
	}
	return kube.Describe(desired[0])
}

// register gives Argo CD the credentials of a cluster that is up.
func (f facts) register(p *Plan, t *target, what string) {
	c := f.seen.Connections[t.spec.Name]
	secret, err := f.desiredClusterSecret(t, c)
	reason, why := f.unregistrable(c, err, what)
	switch {
	case f.frozen:
		t.message = what + " is up and is not registered while the spec cannot be acted on"
	case why == "":
		p.Confirm = append(p.Confirm, f.confirmed(t)...)
		p.Writes = append(p.Writes, renewals(t, c)...)
		p.Writes = append(p.Writes, Write{Object: secret, Target: t.spec.Name, Condition: v1alpha1.ConditionClustersReady})
		t.clusterUp = true
	default:
		t.clusterReason, t.message = reason, why
		f.lookForCredentials(p, t, c, reason)
	}
}

// unregistrable says why Argo CD cannot be given the credentials of a cluster, err among it, and what to do about it; empty where it can.
func (f facts) unregistrable(c Connection, err error, what string) (reason, why string) {
	switch {
	case c.ReadErr != nil:
		return kube.Reason(c.ReadErr), kube.Message(c.ReadErr)
	case c.Missing != "":
		return v1alpha1.ReasonKubeconfigMissing, what + " is Ready and " + c.Missing
	case !c.Found:
		return v1alpha1.ReasonKubeconfigMissing, fmt.Sprintf("Secret %s with key %s does not exist; %s", c.Secret, c.Key, c.Remedy)
	case c.Err != nil || err != nil:
		return v1alpha1.ReasonKubeconfigInvalid, fmt.Sprintf("Secret %s, key %s: %v", c.Secret, c.Key, firstError(c.Err, err))
	case c.Clash != "":
		return v1alpha1.ReasonNameTaken, fmt.Sprintf("Argo CD knows the cluster of Secret %s already, with other credentials, by %s, and would use one of the two for both; "+
			"use the same credentials, or wait until that is gone", c.Secret, c.Clash)
	case c.Namesake != "":
		return v1alpha1.ReasonNameTaken, fmt.Sprintf("Argo CD calls another cluster %s, by %s, as it would call that of Secret %s; "+
			"delete this Experiment and create it again, which gives its clusters other names", c.Name, c.Namesake, c.Secret)
	}
	return "", ""
}

// lookForCredentials does what there is to do while a cluster cannot be registered.
func (f facts) lookForCredentials(p *Plan, t *target, c Connection, reason string) {
	switch {
	case c.ReadErr != nil:
		f.grantAgain(p, t, c)
	case c.Missing != "":
	case reason == v1alpha1.ReasonNameTaken:
		p.lookIn(lastLook)
		if c.Stray != nil {
			p.Writes = append(p.Writes, Write{Action: Delete, Object: c.Stray, Known: true, Target: t.spec.Name, Condition: v1alpha1.ConditionClustersReady})
		}
	case len(t.provider.kinds()) == 0: // somebody has yet to write it, and thousands may wait for that
		before := ptr.Deref(recordedTarget(f.experiment.Status.Targets, t.spec.Name), v1alpha1.TargetStatus{})
		p.lookIn(kube.Again(f.now.Sub(ptr.Deref(before.Since, metav1.NewTime(f.now)).Time), secretDelay))
	default:
		p.lookIn(secretDelay)
	}
}

// registerAgain gives Argo CD the credentials of a cluster once more that it cannot use, if they are
// others than it has: the kubeconfig was rotated, or somebody has deleted or changed the cluster Secret.
func (f facts) registerAgain(p *Plan, t *target) {
	c, looked := f.seen.Connections[t.spec.Name]
	if !looked {
		return
	}
	p.lookIn(lastLook) // it may be rotated later, which nobody tells
	f.grantAgain(p, t, c)
	secret, err := f.desiredClusterSecret(t, c)
	_, t.unregistrable = f.unregistrable(c, err, t.describe(f.desiredCluster(t.spec)))
	if f.frozen || t.unregistrable != "" {
		return
	}
	if at := deployedEndpoint(t.apps); t.cluster == nil && argocd.Address(at) != argocd.Address(c.Credentials.Server) {
		// What is deployed would stay where it is, and what is said of it be taken for the other.
		t.clusterUp, t.clusterReason = false, v1alpha1.ReasonKubeconfigInvalid
		t.message = fmt.Sprintf("Secret %s has the kubeconfig of another cluster now, %s; put that of %s back", c.Secret, c.Credentials.Server, at)
		return
	}
	p.Writes = append(p.Writes, renewals(t, c)...)
	if c.Registered == nil || !going(c.Registered) && !kube.UpToDate(c.Registered, secret) {
		p.Writes = append(p.Writes, Write{Object: secret, Known: c.Registered != nil, Target: t.spec.Name, Condition: v1alpha1.ConditionClustersReady})
	}
}

// renewals give what other Experiments have registered at the address of a cluster the credentials that it has by now. They come first:
// nothing is registered beside what Argo CD might use in its place.
func renewals(t *target, c Connection) (writes []Write) {
	for _, secret := range c.Stale {
		writes = append(writes, Write{Action: Renew, Object: secret, Known: true, Target: t.spec.Name, Condition: v1alpha1.ConditionClustersReady})
	}
	return writes
}

// grantAgain lets the manager read the Secrets beside a target's cluster once more, where it may not: somebody has taken that away, or
// the manager is another account now.
func (f facts) grantAgain(p *Plan, t *target, c Connection) {
	if t.provider.housed() && !f.frozen && kube.Reason(c.ReadErr) == v1alpha1.ReasonForbidden {
		p.Writes = append(p.Writes, f.grant(t))
	}
}

// registers says whether a plan gives Argo CD the credentials of a target's cluster.
func (f facts) registers(p *Plan, t *target) bool {
	return slices.ContainsFunc(p.Writes, func(w Write) bool { return keyOf(w.Object) == f.names.clusterSecret(t.spec) })
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// ensure plans the write that brings a child to its desired state, and says whether one is
// needed. What is being deleted is left until it is gone.
func (f facts) ensure(p *Plan, t *target, seen, desired *unstructured.Unstructured, condition string) bool {
	if f.frozen || seen != nil && (seen.GetDeletionTimestamp() != nil || upToDate(seen, desired)) {
		return false
	}
	p.Writes = append(p.Writes, Write{Object: desired, Known: seen != nil, Target: t.spec.Name, Condition: condition})
	return true
}

// upToDate says whether a child is as desired, also of what others add to it. The plan asks that of what the cache has, or it would
// write nothing; the writer asks it of what the server has, or it would take nothing away. Neither sees what the other does, so
// what is strange is said in one place (strange), and asked in two.
func upToDate(seen, desired *unstructured.Unstructured) bool {
	return kube.UpToDate(seen, desired) && len(strange(seen, desired)) == 0
}

// strange are the paths of what a child has and must not have: what others have added that decides what is deployed, and what the spec
// does not say any more, which a comparison with what it says does not see.
func strange(live, desired *unstructured.Unstructured) [][]string {
	return append(argocd.Strange(live, desired), capi.Strange(live, desired)...)
}

// desiredCluster are the objects that a target's cluster is made by.
func (f facts) desiredCluster(t v1alpha1.Target) []*unstructured.Unstructured {
	objects := providerOf(t).objects(f.names, t)
	for _, o := range objects {
		f.mark(t, o)
	}
	return objects
}

func (f facts) desiredClusterSecret(t *target, c Connection) (*unstructured.Unstructured, error) {
	name := f.names.clusterSecret(t.spec)
	secret, err := argocd.Cluster{
		Namespace:   name.Namespace,
		Name:        name.Name,
		DisplayName: f.names.registration(t.spec, t.objects),
		Credentials: c.Credentials,
	}.Object()
	if err != nil {
		return nil, err
	}
	f.mark(t.spec, secret)
	annotations, labels := secret.GetAnnotations(), secret.GetLabels()
	annotations[annotationKubeconfig], labels[labelServer] = c.source(), serverLabel(c.Credentials.Server)
	secret.SetAnnotations(annotations)
	secret.SetLabels(labels)
	return secret, nil
}

// endpoint is the URL of the API server of a target's cluster; empty while it is not known.
func (f facts) endpoint(t *target) string {
	switch {
	case t.hub():
		return argocd.InClusterServer
	case refers(t.spec):
		return orDefault(f.seen.Connections[t.spec.Name].Credentials.Server, referredEndpoint(t.apps, uidOf(t.reference)))
	case len(t.provider.kinds()) > 0:
		return t.clusterState.Endpoint
	}
	return orDefault(deployedEndpoint(t.apps), f.seen.Connections[t.spec.Name].Credentials.Server)
}

func (f facts) desiredWorkflow(targets []v1alpha1.TargetStatus, inputs string) *unstructured.Unstructured {
	run := f.names.nextRun()
	name := f.names.workflow(run)
	parameters := givenParameters(f.experiment, targets)
	for k, v := range f.experiment.Spec.Workflow.Params {
		parameters[k] = v
	}
	template := f.experiment.Spec.Workflow.Template
	if !f.seen.TemplateFound {
		template = "" // a person ends the one that only waits
	}
	deadline := ptr.Deref(f.experiment.Spec.ProgressDeadline, v1alpha1.ProgressDeadline{}).Workflow
	w := argoworkflows.Workflow{
		Namespace:      name.Namespace,
		Name:           name.Name,
		Template:       template,
		ClusterScope:   f.experiment.Spec.Workflow.ClusterScope,
		ServiceAccount: orDefault(f.experiment.Spec.Workflow.ServiceAccountName, f.options.WorkflowServiceAccount),
		Parameters:     parameters,
		Deadline:       ptr.Deref(deadline, metav1.Duration{}).Duration,
		InstanceID:     f.options.WorkflowInstanceID,
	}.Object()
	annotations := map[string]string{v1alpha1.AnnotationInputs: inputs}
	if clusters := f.clusters(); clusters != "" {
		annotations[v1alpha1.AnnotationClusters] = clusters
	}
	if run > 1 {
		annotations[v1alpha1.AnnotationRun] = strconv.Itoa(int(run))
	}
	w.SetAnnotations(annotations)
	marks.Set(f.experiment, w)
	return w
}

// mark makes a child the Experiment's.
func (f facts) mark(t v1alpha1.Target, child *unstructured.Unstructured) *unstructured.Unstructured {
	marks.Set(f.experiment, child)
	labels := child.GetLabels()
	labels[v1alpha1.LabelTarget] = t.Name
	child.SetLabels(labels)
	return child
}

func orDefault(s, d string) string {
	if s == "" {
		return d
	}
	return s
}

// statuses are the targets as status shows them, in the order of the spec.
func (f facts) statuses(targets map[string]*target) []v1alpha1.TargetStatus {
	out := make([]v1alpha1.TargetStatus, 0, len(targets))
	for _, spec := range f.experiment.Spec.Targets {
		out = append(out, f.status(targets[spec.Name]))
	}
	return out
}

// status is a target as status shows it. The names of its objects stand there as soon as
// they are asked for, so that seeing them costs no further write.
func (f facts) status(t *target) v1alpha1.TargetStatus {
	s := v1alpha1.TargetStatus{Name: t.spec.Name, BlockedBy: t.blockedBy, Namespace: f.names.deployed(t.spec), Message: conditions.Line(t.message)}
	switch {
	case len(t.blockedBy) > 0, f.frozen && !t.begun():
		s.State = v1alpha1.TargetBlocked
	case !t.clusterUp:
		s.State = v1alpha1.TargetProvisioning
	case t.healthy():
		s.State = v1alpha1.TargetHealthy
	default:
		s.State = v1alpha1.TargetDeploying
	}
	s.Since = f.since(s)
	s.Endpoint = f.endpoint(t)
	switch {
	case s.State == v1alpha1.TargetBlocked, t.hub():
	case refers(t.spec):
		s.Cluster = keyOf(f.names.reference(t.spec)).String()
	case t.spec.Cluster.KubeconfigSecret != nil:
		s.Cluster = f.experiment.Namespace + "/" + t.spec.Cluster.KubeconfigSecret.Name
	default:
		s.Cluster = f.names.cluster(t.spec).String()
	}
	if len(t.apps) == 0 && s.State != v1alpha1.TargetDeploying {
		return s
	}
	if s.Components = f.componentStatuses(t); !t.clusterUp {
		s.Components = ptr.Deref(recordedTarget(f.experiment.Status.Targets, s.Name), v1alpha1.TargetStatus{}).Components
	}
	if !perComponent(t.spec) {
		s.Application = f.names.application(t.spec, "").String()
	}
	return s
}

// since is when a target came to its state.
func (f facts) since(s v1alpha1.TargetStatus) *metav1.Time {
	before := recordedTarget(f.experiment.Status.Targets, s.Name)
	if before == nil || before.State != s.State || before.Since == nil || f.resumes(s.State) {
		return timestamp(f.now)
	}
	return timestamp(past(before.Since.Time, f.now))
}

// resumes says whether what has not come to its end goes on in this pass: while the spec could not be acted on, nobody could have ended it,
// and its time begins anew.
func (f facts) resumes(state v1alpha1.TargetState) bool {
	recorded := f.experiment.Status.Conditions
	stood := meta.IsStatusConditionFalse(recorded, v1alpha1.ConditionAccepted) || meta.IsStatusConditionFalse(recorded, v1alpha1.ConditionComponentsResolved)
	return stood && !f.frozen && (state == v1alpha1.TargetProvisioning || state == v1alpha1.TargetDeploying)
}

// clustersStep and applicationsStep speak of the worst target and name every one that is
// not done.
func clustersStep(all []v1alpha1.TargetStatus, targets map[string]*target) conditions.Step {
	done := "Every cluster is up and registered with Argo CD"
	for _, s := range all {
		if t := targets[s.Name]; t.clusterState.Warning != "" {
			done += "; target " + s.Name + ": " + t.provider.system() + " does not bring " + kube.Describe(t.cluster) + " to what it asks for: " + conditions.Line(t.clusterState.Warning)
		}
	}
	return targetsStep(v1alpha1.ConditionClustersReady, v1alpha1.ReasonClustersReady, done,
		all, targets, func(t *target) string {
			if t.clusterUp {
				return ""
			}
			return t.clusterReason
		})
}

func applicationsStep(all []v1alpha1.TargetStatus, targets map[string]*target) conditions.Step {
	done := "Every Application is Healthy and Synced"
	for _, t := range targets {
		if slices.ContainsFunc(t.parts, func(p part) bool { return p.healthy() && p.state.Message != "" }) {
			done = "Every Application is Healthy and Synced, or what is tolerated"
		}
	}
	for _, s := range all {
		if slices.ContainsFunc(targets[s.Name].parts, func(p part) bool { return p.state.Warning != "" }) {
			done += "; target " + s.Name + ": " + s.Message
		}
	}
	return targetsStep(v1alpha1.ConditionApplicationsHealthy, v1alpha1.ReasonApplicationsHealthy, done,
		all, targets, func(t *target) string {
			if t.healthy() {
				return ""
			}
			return t.appReason
		})
}

// severity orders the reasons of targets: the condition has that of the worst.
var severity = []string{
	v1alpha1.ReasonForbidden, v1alpha1.ReasonRejected, v1alpha1.ReasonReconcileError, v1alpha1.ReasonNameTaken,
	v1alpha1.ReasonApplicationError, v1alpha1.ReasonApplicationDegraded, v1alpha1.ReasonClusterFailed,
	v1alpha1.ReasonClusterNotFound, v1alpha1.ReasonClusterNotRegistered,
	v1alpha1.ReasonKubeconfigInvalid, v1alpha1.ReasonKubeconfigMissing, v1alpha1.ReasonClusterTemplateNotFound, v1alpha1.ReasonApplicationMissing,
	v1alpha1.ReasonClusterProvisioning, v1alpha1.ReasonApplicationProgressing, v1alpha1.ReasonPending,
	v1alpha1.ReasonDependencyNotHealthy,
}

func targetsStep(condition, doneReason, doneMessage string, all []v1alpha1.TargetStatus, targets map[string]*target, reasonOf func(*target) string) conditions.Step {
	worst, messages := len(severity), []string{}
	for rank, reason := range severity {
		for _, s := range all {
			if reasonOf(targets[s.Name]) != reason {
				continue
			}
			worst = min(worst, rank)
			message := s.Message
			if reason == v1alpha1.ReasonPending {
				message = "waits for its cluster"
			}
			messages = append(messages, "target "+s.Name+": "+message)
		}
	}
	if worst == len(severity) {
		return conditions.True(condition, doneReason, doneMessage)
	}
	message := strings.Join(messages, "; ")
	return conditions.False(condition, severity[worst], strings.ToUpper(message[:1])+message[1:])
}
