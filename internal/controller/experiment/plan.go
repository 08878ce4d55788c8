package experiment

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/conditions"
	"github.com/labkeeper/labkeeper/internal/dag"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/argoworkflows"
	"github.com/labkeeper/labkeeper/internal/external/arlon"
	"github.com/labkeeper/labkeeper/internal/external/capi"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// secretDelay is how soon a connection Secret that is late is looked for again: Secrets are not
// watched.
const secretDelay = 10 * time.Second

// Plan is what a pass does and what the status says if it succeeds.
type Plan struct {
	// Start records status.startedAt and creates nothing yet.
	Start bool
	// Writes in their order; one that fails ends those of its target.
	Writes []Write
	// Steps are the conditions that Ready sums up, in the order of the road. A plan that
	// has none leaves them as they are.
	Steps []conditions.Step
	// Targets is the state of each target, in the order of the spec.
	Targets []v1alpha1.TargetStatus
	// Workflow is the submitted Workflow as it was seen now or last.
	Workflow *v1alpha1.WorkflowStatus
	// Verdict says that the Workflow's end is the Experiment's.
	Verdict bool
	// Confirm are the objects that the plan rests on and that the server must have, not only the
	// cache: the clusters and Applications of a verdict, after which nothing is looked at, and
	// a cluster that is registered, because the cache may have the one that it takes the place of,
	// and an Application must not go back.
	Confirm []Write
	// Expire deletes the Experiment: its time is over.
	Expire bool
	// Leaving are the targets that go before their Experiment does.
	Leaving []Leaving
	// Down says what a teardown still waits for; nil when there is no teardown.
	Down []string
	// Teardown is since when it waits for what; nil leaves what is recorded.
	Teardown *v1alpha1.TeardownStatus
	// Saved are Applications that do not go without what they deployed, as the status told, by their UIDs.
	Saved []types.UID
	// Late says that it has been waited for longer than anybody wanted; empty if not.
	Late string
	// Done says that the teardown has left nothing but the orphans.
	Done bool
	// Orphans are what is left behind.
	Orphans []string
	// Wait is when to look again although nothing changed.
	Wait time.Duration
	// Due is when a time is over, which comes to the second whatever fails until then.
	Due time.Duration
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

// Action is what a Write does.
type Action int

const (
	// Ensure creates, or brings to the desired state what is there already.
	Ensure Action = iota
	// Once creates what nobody changes, and leaves what is there already as it is.
	Once
	// Delete asks for the deletion.
	Delete
	// Free takes Argo CD's finalizers off an Application that is being deleted.
	Free
	// Sync asks Argo CD to sync an Application once more.
	Sync
	// EndSync asks Argo CD to end the sync of an Application.
	EndSync
	// Renew gives a cluster Secret of another Experiment the credentials that its cluster has by now.
	Renew
)

// Write is one write of a plan.
type Write struct {
	Action Action
	// Object is the desired state, or what is to be deleted or synced, as it was seen.
	Object *unstructured.Unstructured
	// Known says that the object was seen: it is changed, not created.
	Known bool
	// AsSeen says, of one that the plan rests on, that the server must have it in the version that was seen, or not at all.
	AsSeen bool
	// Target that the object belongs to; empty for one of the whole Experiment, which is
	// written only if all writes before it succeeded.
	Target string
	// Condition that speaks of a failure.
	Condition string
}

// creates says whether there may be an object more after it.
func (w Write) creates() bool { return w.Action == Ensure || w.Action == Once }

// facts are everything that plan decides on.
type facts struct {
	experiment *v1alpha1.Experiment
	options    Options
	names      names
	seen       Observed
	now        time.Time
	// refused is what cannot be done, by what it is.
	refused map[string]refusal
	// frozen: the spec cannot be acted on, so nothing is created or changed.
	frozen bool
	// part: these are some targets of an Experiment that stays, and its Workflow with it.
	part bool
}

// plan decides. It is pure.
func (f facts) plan() Plan {
	var p Plan
	life := lifetimeOf(f.experiment)
	switch {
	case f.experiment.DeletionTimestamp != nil:
		return f.teardown()
	case life.over(f.now):
		return Plan{Expire: true}
	case goingDown(f.experiment):
		p = f.teardown()
	case f.experiment.Status.CompletedAt != nil:
		p = f.finished()
	case f.experiment.Spec.Terminate:
		p = f.terminated()
	default:
		p = f.bringUp()
	}
	if spec := f.experiment.Spec; p.Verdict && (spec.TTLAfterFinished != nil || spec.Terminate ||
		slices.ContainsFunc(spec.Targets, func(t v1alpha1.Target) bool { return t.TTLAfterFinished != nil })) {
		p.Wait = kube.AtOnce // the verdict may bring the end nearer
	}
	p.dueIn(life.wait(f.now))
	return p
}

// terminated is the verdict on an Experiment that somebody ends before there is one. That its Workflow succeeded counts by what there
// is and what the server says, as ever; only nothing is waited for.
func (f facts) terminated() Plan {
	p := Plan{Targets: f.experiment.Status.Targets, Workflow: f.workflow()}
	step := withoutVerdict()
	deployments, resolved := f.resolve()
	targets := f.targets()
	if w := p.Workflow; w != nil && (over(w) || f.decidedByHand()) && holds(resolved) && !w.Superseded && !f.outdated(w, deployments) {
		waits := f.unsettled(targets, deployments) ||
			recordedStep(f.experiment.Status.Conditions, v1alpha1.ConditionWorkflowSucceeded).Reason == v1alpha1.ReasonTargetsNotSettled
		if judged := f.judge(&p, waits); p.Verdict {
			step = judged // which nobody has recorded yet
		}
	}
	p.Verdict, p.Steps = true, []conditions.Step{step}
	p.Confirm = f.deployed(p, targets)
	return p
}

// withoutVerdict is what is said of an Experiment that ends without one.
func withoutVerdict() conditions.Step {
	return conditions.False(v1alpha1.ConditionWorkflowSucceeded, v1alpha1.ReasonTerminated, "spec.terminate ended the Experiment before a verdict")
}

// unsettled says whether something that is validated is not as the spec asks for, or not there any more.
func (f facts) unsettled(targets map[string]*target, deployments map[string][]deployment) bool {
	graph, _ := f.accept()
	return graph == nil || f.blind() || f.advanceAll(&Plan{}, graph, targets, deployments)
}

// goingDown says whether everything that the Experiment brought up is being taken down: it is being
// deleted, or spec.terminate has ended it.
func goingDown(e *v1alpha1.Experiment) bool {
	return e.DeletionTimestamp != nil ||
		e.Spec.Terminate && e.Status.CompletedAt != nil && !meta.IsStatusConditionTrue(e.Status.Conditions, v1alpha1.ConditionCleanedUp)
}

// bringUp is the road from a spec to a verdict.
func (f facts) bringUp() Plan {
	p := Plan{Targets: f.experiment.Status.Targets, Workflow: f.workflow()}
	graph, accepted := f.accept()
	deployments, resolved := f.resolve()
	f.frozen = !holds(accepted) || !holds(resolved)
	if !f.blind() && !f.frozen && f.outdated(p.Workflow, deployments) {
		p = f.supersede(p, accepted, resolved)
		p.Confirm = append(f.components(), f.standing(p.Workflow)...)
		return p
	}
	p.Steps = []conditions.Step{accepted, resolved}
	targets := f.targets()
	f.follow(&p, graph, targets, deployments)
	f.comparable(&p, deployments)
	if p.Verdict {
		p.Writes, p.Confirm = nil, nil
	}
	if f.seen.Workflow != nil {
		p.lookIn(f.nextLook(*f.seen.Workflow))
	}
	p.Confirm = append(p.Confirm, f.deployed(p, targets)...)
	if slices.ContainsFunc(p.Writes, f.repeats) {
		p.Confirm = append(p.Confirm, f.components()...)
	}
	if p.Verdict {
		p.Confirm = f.asSeen(p.Confirm, targets)
		if p.Steps[len(p.Steps)-1].Reason == v1alpha1.ReasonProgressDeadlineExceeded { // it may have ended, or been submitted after all
			w := cmp.Or(f.seen.Workflow, named(argoworkflows.WorkflowGVK, f.names.workflow(f.names.nextRun())))
			p.Confirm = append(p.Confirm, Write{Object: w, AsSeen: true, Condition: v1alpha1.ConditionWorkflowSucceeded})
		}
	}
	return p
}

// components are those that the spec names, as they were seen: the cache of a manager that has just started may have one as it was
// before. What is deployed would go back to that for a moment, a Workflow be taken back that validates what it says, and another validate
// what it was.
func (f facts) components() (seen []Write) {
	for _, name := range slices.Sorted(maps.Keys(f.seen.Components)) {
		o := named(v1alpha1.GroupVersion.WithKind("Component"), types.NamespacedName{Name: name})
		o.SetUID(f.seen.Components[name].UID)
		o.SetResourceVersion(f.seen.Components[name].ResourceVersion)
		seen = append(seen, Write{Object: o, AsSeen: true, Condition: v1alpha1.ConditionComponentsResolved})
	}
	return seen
}

// standing is what the clusters are known by, as it was seen, where a Workflow is taken back for others: the cache may have what another has
// taken the place of.
func (f facts) standing(w *v1alpha1.WorkflowStatus) (seen []Write) {
	if !f.replaced(w) {
		return nil
	}
	for _, t := range f.experiment.Spec.Targets {
		for _, o := range f.identifying(t) {
			seen = append(seen, Write{Object: o, AsSeen: true, Condition: v1alpha1.ConditionClustersReady})
		}
	}
	return seen
}

// repeats says whether a write changes what is deployed, or has that validated once more.
func (f facts) repeats(w Write) bool {
	switch w.Object.GroupVersionKind() {
	case argocd.ApplicationGVK:
		return w.Action == Ensure && w.Known
	case argoworkflows.WorkflowGVK:
		return w.Action == Ensure && f.experiment.Status.Workflow != nil
	}
	return false
}

// asSeen lets a verdict, a bad one too, wait until everything that the status tells of is what the server has, to the version, what is
// not there among it: nothing is looked at any more, so what a cache has of before would be told for good.
func (f facts) asSeen(confirm []Write, targets map[string]*target) []Write {
	add := func(condition string, o *unstructured.Unstructured) {
		at := slices.IndexFunc(confirm, func(w Write) bool { return kube.Describe(w.Object) == kube.Describe(o) })
		switch {
		case at < 0:
			confirm = append(confirm, Write{Object: o, AsSeen: true, Condition: condition})
		case confirm[at].Object == o: // another's
			confirm[at].AsSeen = true
		default: // as it is to be, too
			confirm[at].Object = confirm[at].Object.DeepCopy()
			confirm[at].Object.SetResourceVersion(o.GetResourceVersion())
		}
	}
	for _, spec := range f.experiment.Spec.Targets {
		t := targets[spec.Name]
		for i, o := range t.provider.objects(f.names, spec) {
			add(v1alpha1.ConditionClustersReady, cmp.Or(t.object(i), named(o.GroupVersionKind(), keyOf(o))))
		}
		if t.reference != nil {
			add(v1alpha1.ConditionClustersReady, t.reference)
		}
		for _, p := range t.parts {
			add(v1alpha1.ConditionApplicationsHealthy, cmp.Or(p.app, named(argocd.ApplicationGVK, f.names.application(spec, p.component))))
		}
		for _, app := range t.removed {
			add(v1alpha1.ConditionApplicationsHealthy, app)
		}
	}
	return confirm
}

// follow takes the targets and the Workflow a step on.
func (f facts) follow(p *Plan, graph *dag.Graph[string], targets map[string]*target, deployments map[string][]deployment) {
	clusters, applications, workflow := f.missingKinds()
	started, blind, settling := f.experiment.Status.StartedAt != nil, f.blind(), false
	switch {
	case started && !blind && graph != nil:
		settling = f.advanceAll(p, graph, targets, deployments)
		p.Targets = f.statuses(targets)
		clusters, applications = clustersStep(p.Targets, targets), applicationsStep(p.Targets, targets)
	case !started && !blind && !f.frozen:
		p.Start, p.Wait = true, kube.AtOnce
		for _, o := range f.seen.Former {
			p.Orphans = append(p.Orphans, kube.Describe(&o)+" of another Experiment of this name, which is gone")
		}
	}
	p.Steps = append(p.Steps, clusters, applications, workflow)
	if !blind {
		f.validate(p, deployments, settling)
	}
	switch last, waits := &p.Steps[len(p.Steps)-1], changing(targets); {
	case waits == "":
	case last.Reason == v1alpha1.ReasonPending:
		*last = conditions.False(v1alpha1.ConditionWorkflowSucceeded, v1alpha1.ReasonTargetsNotSettled, "Waits until it is known of what has changed: "+waits)
	case last.Reason == v1alpha1.ReasonWorkflowOutdated:
		last.Message += "; " + waits
	}
	if started && (blind || graph == nil) {
		// What cannot be looked at now stays as it was said.
		p.Steps = slices.DeleteFunc(p.Steps, func(s conditions.Step) bool { return s.Reason == v1alpha1.ReasonPending })
	}
}

// advanceAll takes every target a step on, and says whether what they ask for is not, or not
// provably, what is deployed.
func (f facts) advanceAll(p *Plan, graph *dag.Graph[string], targets map[string]*target, deployments map[string][]deployment) (settling bool) {
	wrong := f.wrong()
	for _, name := range graph.Order() {
		switch t := targets[name]; {
		case len(wrong) == 0:
			t.blockedBy = blocked(name, graph, targets)
		case !slices.Contains(wrong, name):
			t.blockedBy = wrong
		}
		f.advance(p, targets[name], deployments[name])
		settling = settling || targets[name].settling()
	}
	return settling || len(p.Writes) > 0
}

// wrong are the targets whose clusters are there already, with kubeconfigs that cannot be used: while nothing is begun, nothing is before
// somebody has mended those, because other clusters would be paid for in the meantime.
func (f facts) wrong() (all []string) {
	if f.frozen || f.seen.begun() {
		return nil
	}
	for _, t := range f.experiment.Spec.Targets {
		if t.Cluster.Type == v1alpha1.ClusterExisting && f.seen.Connections[t.Name].wrong() {
			all = append(all, t.Name)
		}
	}
	slices.Sort(all)
	return all
}

// deployed are the clusters and Applications that a verdict rests on; a bad one rests on none. Another
// Workflow does, too: what the cache has may be what was there before the spec was changed.
func (f facts) deployed(p Plan, targets map[string]*target) (deployed []Write) {
	good := p.Verdict && holds(p.Steps[len(p.Steps)-1])
	again := f.experiment.Status.Workflow != nil && p.submits()
	if !good && !again {
		return nil
	}
	for _, spec := range f.experiment.Spec.Targets {
		t := targets[spec.Name]
		deployed = append(deployed, f.confirmed(t)...)
		for _, part := range t.parts {
			if part.desired != nil {
				deployed = append(deployed, Write{Object: part.desired, Condition: v1alpha1.ConditionApplicationsHealthy})
			}
		}
	}
	return deployed
}

// submits says whether the plan submits a Workflow.
func (p Plan) submits() bool {
	return slices.ContainsFunc(p.Writes, func(w Write) bool {
		return w.Action == Ensure && w.Object.GroupVersionKind() == argoworkflows.WorkflowGVK
	})
}

// confirmed are the objects that a target's cluster is made by, as they were seen and should be, or the one that it refers to.
func (f facts) confirmed(t *target) (objects []Write) {
	if t.reference != nil {
		return []Write{{Object: t.reference, Condition: v1alpha1.ConditionClustersReady}}
	}
	for i, o := range f.desiredCluster(t.spec) {
		if seen := t.object(i); seen != nil {
			o.SetUID(seen.GetUID())
			objects = append(objects, Write{Object: o, Condition: v1alpha1.ConditionClustersReady})
		}
	}
	return objects
}

func holds(s conditions.Step) bool { return s.Status == "True" }

// accept checks what the schema cannot.
func (f facts) accept() (*dag.Graph[string], conditions.Step) {
	spec := f.experiment.Spec
	depends := map[string][]string{}
	order := make([]string, 0, len(spec.Targets))
	for _, t := range spec.Targets {
		order = append(order, t.Name)
		depends[t.Name] = t.Depends
	}
	graph, err := dag.New(order, func(name string) []string { return depends[name] })
	var cycle *dag.CycleError[string]
	switch {
	case errors.As(err, &cycle):
		return nil, conditions.False(v1alpha1.ConditionAccepted, v1alpha1.ReasonDependencyCycle,
			"spec.targets[].depends: "+err.Error()+"; remove one of these dependencies")
	case err != nil:
		return nil, conditions.False(v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalidSpec, "spec.targets: "+err.Error())
	}
	if moved(f.experiment, f.names) {
		return graph, conditions.False(v1alpha1.ConditionAccepted, v1alpha1.ReasonNamespacesChanged, f.whereTo())
	}
	if problem := repeated(spec); problem != "" {
		return graph, conditions.False(v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalidSpec, problem)
	}
	if problem := cmp.Or(reservedParameter(spec), misnamedParameter(spec)); problem != "" {
		return graph, conditions.False(v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalidSpec, problem)
	}
	if problem := cmp.Or(f.valuesOnHub(), f.workflowElsewhere(), withoutTalos(spec), unnamed(spec), f.inSystemNamespace(), f.tooLarge()); problem != "" {
		return graph, conditions.False(v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalidSpec, problem)
	}
	for _, t := range spec.Targets {
		if problem, reason := f.unobservable(t); problem != "" {
			return graph, conditions.False(v1alpha1.ConditionAccepted, reason, fmt.Sprintf("spec.targets: target %s: observability: %s", t.Name, problem))
		}
	}
	if missing := notSupported(spec); len(missing) > 0 {
		return graph, conditions.False(v1alpha1.ConditionAccepted, v1alpha1.ReasonNotSupportedYet,
			"This version does not act on "+strings.Join(missing, ", ")+" yet; remove it, or wait for a version that does")
	}
	if spec.Suspend {
		return graph, conditions.False(v1alpha1.ConditionAccepted, v1alpha1.ReasonSuspended,
			"Nothing is begun or changed while spec.suspend is true; what is there stays")
	}
	return graph, conditions.True(v1alpha1.ConditionAccepted, v1alpha1.ReasonAccepted,
		fmt.Sprintf("%d target(s), validated by %s", len(spec.Targets), f.template()))
}

// moved says that the manager looks for the Experiment's objects where they are not.
func moved(e *v1alpha1.Experiment, n names) bool {
	return e.Status.Namespaces != nil && (*e.Status.Namespaces != n.namespaces() || n.unwatched())
}

// whereTo says what to do about it.
func (f facts) whereTo() string {
	if f.names.unwatched() {
		return "It was begun with its Workflow in its own namespace; start the manager with --workflows-anywhere until the Experiment is gone"
	}
	begun, now := f.experiment.Status.Namespaces, f.names.namespaces()
	return fmt.Sprintf("It was begun with claims in %s, Argo CD in %s and Workflows in %s, and the manager now uses %s, %s and %s; "+
		"give the manager its former --claim-namespace, --argocd-namespace and --workflow-namespace until the Experiment is gone",
		begun.Claims, begun.ArgoCD, begun.Workflows, now.Claims, now.ArgoCD, now.Workflows)
}

// notSupported names the fields that a later version will act on. Nothing is begun for an
// Experiment that could not be completed as it was asked for.
func notSupported(spec v1alpha1.ExperimentSpec) []string {
	var fields []string
	for _, t := range spec.Targets {
		if providers[t.Cluster.Type] == nil {
			fields = append(fields, fmt.Sprintf("cluster.type %s (target %s)", t.Cluster.Type, t.Name))
		}
	}
	return fields
}

// withoutTalos says which target does not tell what machines its Talos cluster is made of.
func withoutTalos(spec v1alpha1.ExperimentSpec) string {
	for _, t := range spec.Targets {
		if t.Cluster.Type != v1alpha1.ClusterTalos {
			continue
		}
		if t.Cluster.Talos == nil {
			return fmt.Sprintf("spec.targets: target %s does not say what its cluster is made of; set cluster.talos, with kubernetesVersion and infrastructure", t.Name)
		}
		template := t.Cluster.Talos.Infrastructure.Cluster
		kind := capi.Templated(schema.FromAPIVersionAndKind(template.APIVersion, template.Kind)).Kind
		if slices.ContainsFunc(clusterKinds(), func(k schema.GroupVersionKind) bool { return k.Kind == kind }) {
			return fmt.Sprintf("spec.targets: target %s: cluster.talos.infrastructure.cluster is for a %s, which is no infrastructure of machines", t.Name, kind)
		}
	}
	return ""
}

// inSystemNamespace says which target would have a namespace that is the cluster's own, because the Experiment has its name, or one of
// the names that clusters keep for themselves: policies make exceptions of those, which a cluster that others share must not make of what
// is its author's.
func (f facts) inSystemNamespace() string {
	for _, t := range f.experiment.Spec.Targets {
		if f.experiment.Status.StartedAt != nil {
			break // it has it
		}
		const system = "kube-"
		alone := shared(t) || providerOf(t).housed()
		switch own, namespace := f.names.ownNamespace(t), f.names.deployed(t); {
		case alone && strings.HasPrefix(own, system):
			return fmt.Sprintf("spec.targets: target %s would have the namespace %s, and those that begin with %s are the cluster's own; give the Experiment another name", t.Name, own, system)
		case strings.HasPrefix(namespace, system):
			return fmt.Sprintf("spec.targets: target %s would be deployed into %s, which is the cluster's own; set its namespace to another", t.Name, namespace)
		}
	}
	return ""
}

// valuesOnHub says which target has chart values that its author may not choose.
func (f facts) valuesOnHub() string {
	for _, t := range f.experiment.Spec.Targets {
		if v := t.Cluster.VCluster; v != nil && v.Values != "" && !f.options.VClusterValues {
			return fmt.Sprintf("spec.targets: target %s sets cluster.vcluster.values, which could grant it any right on the hub; "+
				"remove them, or start the manager with --vcluster-values", t.Name)
		}
	}
	return ""
}

// workflowElsewhere says what the author of the Experiment may not choose of where its Workflow runs,
// and as what: the Workflow could do what that may.
func (f facts) workflowElsewhere() string {
	w := f.experiment.Spec.Workflow
	own := w.Namespace == f.experiment.Namespace // and said to be, which the manager must be told to take
	switch {
	case f.names.unwatched():
		return "spec.workflow.namespace: remove it, or start the manager with --workflows-anywhere"
	case w.Namespace != "" && !own:
		return fmt.Sprintf("spec.workflow.namespace: %s is not the Experiment's own; write %s, or remove it", w.Namespace, f.experiment.Namespace)
	case w.ServiceAccountName == "", own, lists(f.seen.ServiceAccounts, w.ServiceAccountName):
		return ""
	}
	return fmt.Sprintf("spec.workflow.serviceAccountName: Namespace %s may not use %s in %s; remove it, or list it in the annotation %s of the Namespace",
		f.experiment.Namespace, w.ServiceAccountName, f.names.workflowNamespace(), v1alpha1.AnnotationServiceAccounts)
}

// lists says whether the annotation of a Namespace, names separated by commas, has one.
func lists(annotation, name string) bool {
	return slices.ContainsFunc(strings.Split(annotation, ","), func(listed string) bool { return strings.TrimSpace(listed) == name })
}

// template is the template of the Workflow as messages name it.
func (f facts) template() string {
	gvk, key := f.names.template()
	return gvk.Kind + " " + strings.TrimPrefix(key.String(), "/")
}

// repeated says which Component a target names twice: the two would deploy the same objects.
func repeated(spec v1alpha1.ExperimentSpec) string {
	for _, t := range spec.Targets {
		seen := map[string]bool{}
		for _, ref := range t.Components {
			if seen[ref.String()] {
				return fmt.Sprintf("spec.targets: target %s names the component %s twice; remove one of the two", t.Name, ref)
			}
			seen[ref.String()] = true
		}
	}
	return ""
}

// reservedParameter says which of the user's parameters every Workflow gets anyway.
func reservedParameter(spec v1alpha1.ExperimentSpec) string {
	given := givenParameters(&v1alpha1.Experiment{Spec: spec}, nil)
	for _, name := range slices.Sorted(maps.Keys(spec.Workflow.Params)) {
		if _, reserved := given[name]; reserved {
			return fmt.Sprintf("spec.workflow.params: %s is set by the manager; use another name", name)
		}
	}
	return ""
}

// parameterName is what Argo Workflows takes for the name of a parameter.
var parameterName = regexp.MustCompile(`^[-a-zA-Z0-9_]+$`)

// misnamedParameter says which of the user's parameters Argo Workflows would refuse, with the Workflow, when everything is up and paid for.
func misnamedParameter(spec v1alpha1.ExperimentSpec) string {
	for _, name := range slices.Sorted(maps.Keys(spec.Workflow.Params)) {
		if !parameterName.MatchString(name) {
			return fmt.Sprintf("spec.workflow.params: %q is no name for Argo Workflows; use letters, digits, - and _", name)
		}
	}
	return ""
}

// unfitParameter says for which parameter of its template Argo Workflows would refuse the Workflow, when everything is up and paid for.
func (f facts) unfitParameter() string {
	given := givenParameters(f.experiment, nil)
	maps.Copy(given, f.experiment.Spec.Workflow.Params)
	for _, p := range f.seen.Parameters {
		if _, is := given[p.Name]; !is && p.Required {
			return fmt.Sprintf("spec.workflow.params: %s has no value for its parameter %s; add it, or give it one there", f.template(), p.Name)
		}
	}
	return ""
}

// undeclaredParameters says which of the user's parameters a template that declares some does not, or not with that value: it may use them
// all the same, and Argo Workflows says nothing of what is mistyped.
func (f facts) undeclaredParameters() (hint string) {
	for _, p := range f.seen.Parameters {
		if value, given := f.experiment.Spec.Workflow.Params[p.Name]; given && len(p.Enum) > 0 && !slices.Contains(p.Enum, value) {
			hint += fmt.Sprintf("; %s is to have one of %s by %s (spec.workflow.params), and has %q", p.Name, strings.Join(p.Enum, ", "), f.template(), value)
		}
	}
	extra := slices.DeleteFunc(slices.Sorted(maps.Keys(f.experiment.Spec.Workflow.Params)), func(name string) bool {
		return slices.ContainsFunc(f.seen.Parameters, func(p argoworkflows.Parameter) bool { return p.Name == name })
	})
	if len(f.seen.Parameters) == 0 || len(extra) == 0 {
		return hint
	}
	return hint + fmt.Sprintf("; %s does not declare %s (spec.workflow.params)", f.template(), strings.Join(extra, ", "))
}

// givenParameters are those that every Workflow gets.
func givenParameters(e *v1alpha1.Experiment, targets []v1alpha1.TargetStatus) map[string]string {
	parameters := map[string]string{"experiment-name": e.Name}
	for _, t := range e.Spec.Targets {
		parameters[t.Name+"-name"], parameters[t.Name+"-endpoint"], parameters[t.Name+"-namespace"] = "", "", ""
	}
	for _, t := range targets {
		parameters[t.Name+"-name"] = "in-cluster"
		if _, cluster, ok := strings.Cut(t.Cluster, "/"); ok {
			parameters[t.Name+"-name"] = cluster
		}
		parameters[t.Name+"-endpoint"] = t.Endpoint
		parameters[t.Name+"-namespace"] = t.Namespace
	}
	return parameters
}

// resolve finds what every target's components deploy, in their order.
func (f facts) resolve() (map[string][]deployment, conditions.Step) {
	fallback := f.options.Fallback
	if f.options.StrictComponents {
		fallback = Fallback{}
	}
	deployments := map[string][]deployment{}
	var fallbacks, wrong []string
	var reason string
	for _, t := range f.experiment.Spec.Targets {
		if problem, _ := f.unobservable(t); problem != "" {
			t.Observability = nil // which that is said of
		}
		resolved, conventional, problems := catalogue{f.names, f.seen.Components, fallback}.resolve(t)
		deployments[t.Name] = resolved
		fallbacks = append(fallbacks, conventional...)
		for _, problem := range problems {
			reason = cmp.Or(reason, problem.reason)
			wrong = append(wrong, problem.message)
		}
	}
	if len(wrong) > 0 {
		return nil, conditions.False(v1alpha1.ConditionComponentsResolved, reason, strings.Join(wrong, "; "))
	}
	reason, message := v1alpha1.ReasonResolved, "Every reference names a Component"
	if len(fallbacks) > 0 {
		reason, message = v1alpha1.ReasonComponentFallback, "By convention, "+strings.Join(fallbacks, "; ")
	}
	if extra := f.undeclared(); len(extra) > 0 {
		message += "; params that none declares go to Helm as they are: " + strings.Join(extra, ", ")
	}
	for _, going := range f.goingComponents() {
		message += "; " + going
	}
	return deployments, conditions.True(v1alpha1.ConditionComponentsResolved, reason, message)
}

// goingComponents says which Components that the Experiment names are being deleted, for which they wait.
func (f facts) goingComponents() (all []string) {
	for _, name := range slices.Sorted(maps.Keys(f.seen.Components)) {
		if f.seen.Components[name].DeletionTimestamp != nil {
			all = append(all, fmt.Sprintf("Component %s is being deleted, and goes when no Experiment names it any more", name))
		}
	}
	return all
}

// undeclared are the parameters that Components which declare some do not: the chart may have them, and Helm says nothing
// of a name that is mistyped.
func (f facts) undeclared() (extra []string) {
	for _, t := range f.experiment.Spec.Targets {
		for _, ref := range t.Components {
			component := f.seen.Components[ref.Name()]
			if component == nil || len(component.Spec.Parameters) == 0 {
				continue
			}
			for _, name := range slices.Sorted(maps.Keys(ref.Params)) {
				if !slices.ContainsFunc(component.Spec.Parameters, func(p v1alpha1.ComponentParameter) bool { return p.Name == name }) {
					extra = append(extra, fmt.Sprintf("%s of target %s, %s", name, t.Name, ref))
				}
			}
		}
	}
	return extra
}

// blind says that the children cannot be seen: nothing is begun, and nothing is judged.
func (f facts) blind() bool {
	if moved(f.experiment, f.names) {
		return true
	}
	for _, state := range f.seen.Kinds {
		if state != kube.KindServed {
			return true
		}
	}
	return false
}

// missingKinds are the steps of the outside systems while nothing has been begun.
func (f facts) missingKinds() (clusters, applications, workflow conditions.Step) {
	step := func(condition string, kinds ...schema.GroupVersionKind) conditions.Step {
		for _, gvk := range kinds {
			state, needed := f.seen.Kinds[gvk]
			what := fmt.Sprintf("%s.%s/%s", gvk.Kind, gvk.Group, gvk.Version)
			switch {
			case needed && state < kube.KindSyncing:
				return conditions.False(condition, v1alpha1.ReasonCRDMissing,
					"The cluster does not serve "+what+"; install its CustomResourceDefinition")
			case needed && state == kube.KindSyncing:
				return conditions.False(condition, v1alpha1.ReasonWatchNotSynced,
					"The watch on "+what+" has not synced; check that the manager may list and watch it")
			}
		}
		return conditions.False(condition, v1alpha1.ReasonPending, "Waits for the steps before it")
	}
	return step(v1alpha1.ConditionClustersReady, append(clusterKinds(), arlon.ClusterGVK)...),
		step(v1alpha1.ConditionApplicationsHealthy, argocd.ApplicationGVK),
		step(v1alpha1.ConditionWorkflowSucceeded, argoworkflows.WorkflowGVK, argoworkflows.WorkflowTemplateGVK, argoworkflows.ClusterWorkflowTemplateGVK)
}

// validate submits the Workflow when everything before it holds, and reads its verdict. What
// settling means says advanceAll.
func (f facts) validate(p *Plan, deployments map[string][]deployment, settling bool) {
	last, w := &p.Steps[len(p.Steps)-1], p.Workflow
	switch {
	case w == nil:
	case w.Superseded:
		if !f.takenBack(p, last) {
			return
		}
	case f.frozen && f.outdated(w, deployments): // or it would be superseded by now
		*last = outdatedStep(w, "another is submitted when the spec can be acted on")
		return
	default:
		if *last = f.judge(p, settling); deployments == nil {
			f.holdBack(p, last)
		}
		return
	}
	switch {
	case !f.frozen && f.late(p, last):
	case f.untemplated(last):
	case f.byHand() != "":
		*last = tooEarly(w)
	case p.Start || settling || slices.ContainsFunc(p.Steps[:len(p.Steps)-1], func(s conditions.Step) bool { return !holds(s) }):
		last.Message += f.standIn("; ") + f.undeclaredParameters() + f.ignored()
	case f.templateNew(p), f.refusedTooLong(p, last, f.names.workflow(f.names.nextRun()).String(), "submitted"):
	default:
		*last = f.submit(p, f.inputs(deployments))
	}
}

// untemplated says that there is no template, or that Argo Workflows would refuse a Workflow of it: from the first pass on, while nothing has
// cost anything yet. It is not waited for until the Workflow is due, because a component of this Experiment may bring the template.
func (f facts) untemplated(last *conditions.Step) bool {
	switch unfit := f.unfitParameter(); {
	case f.templateMissing():
		*last = f.withoutTemplate()
	case unfit != "":
		*last = conditions.False(v1alpha1.ConditionWorkflowSucceeded, v1alpha1.ReasonInvalidSpec, unfit)
	default:
		return false
	}
	return true
}

// tooEarly is what is said of a verdict by hand that was given before its Workflow is submitted, by an exported manifest for instance,
// and would be on what nobody has seen: there is none yet, or the one before is outdated.
func tooEarly(w *v1alpha1.WorkflowStatus) conditions.Step {
	if w == nil {
		return conditions.False(v1alpha1.ConditionWorkflowSucceeded, v1alpha1.ReasonVerdictTooEarly,
			fmt.Sprintf("The annotation %s was given before there is a Workflow: remove it, and one is submitted, to be ended by a new one", v1alpha1.AnnotationComplete))
	}
	return outdatedStep(w, fmt.Sprintf("the annotation %s was given for it: remove it, and another is submitted, to be ended by a new one", v1alpha1.AnnotationComplete))
}

// holdBack lets a verdict wait of which it is not known whether it is on what the spec asks for; but for one that a
// person has given.
func (f facts) holdBack(p *Plan, last *conditions.Step) {
	if p.Verdict && f.byHand() != argoworkflows.PhaseFailed {
		p.Verdict = false
		*last = conditions.False(v1alpha1.ConditionWorkflowSucceeded, v1alpha1.ReasonTargetsNotSettled,
			last.Message+"; whether that is of what the spec asks for is known when its components are resolved")
	}
}

// workflowWrite is by what refusals know the submission of the Workflow, and the deletion of one that is superseded.
const workflowWrite = "write of the Workflow"

// refusedTooLong says whether what is to be done with a Workflow has been refused until its deadline.
func (f facts) refusedTooLong(p *Plan, last *conditions.Step, workflow, done string) bool {
	r, refused := f.refused[workflowWrite]
	return refused && f.notDone(p, last, r.since, fmt.Sprintf("Workflow %s could not be %s", workflow, done), kube.Message(r.err))
}

// notDone says whether a Workflow has been waited for since some time until its deadline, and in the minute after it, as one that is never
// started (overran), which is a verdict where the server does not say otherwise after all.
func (f facts) notDone(p *Plan, last *conditions.Step, since time.Time, what, why string) bool {
	deadline := ptr.Deref(ptr.Deref(f.experiment.Spec.ProgressDeadline, v1alpha1.ProgressDeadline{}).Workflow, metav1.Duration{}).Duration
	if deadline == 0 {
		return false
	}
	if left := since.Add(deadline + lastLook).Sub(f.now); left > 0 {
		p.dueIn(left)
		return false
	}
	p.Verdict = true
	*last = conditions.False(v1alpha1.ConditionWorkflowSucceeded, v1alpha1.ReasonProgressDeadlineExceeded,
		fmt.Sprintf("%s within %s (spec.progressDeadline.workflow): %s", what, deadline, why))
	return true
}

// submit plans the next Workflow.
func (f facts) submit(p *Plan, inputs string) conditions.Step {
	key := f.names.workflow(f.names.nextRun())
	p.Writes = append(p.Writes, Write{Object: f.desiredWorkflow(p.Targets, inputs), Condition: v1alpha1.ConditionWorkflowSucceeded})
	p.Workflow = &v1alpha1.WorkflowStatus{Namespace: key.Namespace, Name: key.Name, Run: recordedRun(f.names.nextRun()), Inputs: inputs, Clusters: f.clusters()}
	return conditions.False(v1alpha1.ConditionWorkflowSucceeded, v1alpha1.ReasonWorkflowRunning, "Workflow "+key.String()+" is submitted"+f.stoodIn(!f.seen.TemplateFound)+f.undeclaredParameters()+f.hint())
}

// recordedRun is the number of a run as the status has it: the first has none.
func recordedRun(run int32) int32 {
	if run == 1 {
		return 0
	}
	return run
}

// supersede takes a Workflow back that validates what the spec does not ask for any more, or a cluster that is gone. That is recorded
// before anything is changed: whatever is changed then is not what it validates, even if the spec is changed
// back, and a Workflow that goes then has not been deleted by somebody. What targets still need for what the
// spec asks for counts from now.
func (f facts) supersede(p Plan, steps ...conditions.Step) Plan {
	p.Workflow.Superseded, p.Wait = true, kube.AtOnce
	p.Steps = append(steps, outdatedStep(p.Workflow, "it is deleted, and another submitted in its place"))
	p.Targets = slices.Clone(p.Targets)
	for i, t := range p.Targets {
		if t.State == v1alpha1.TargetProvisioning || t.State == v1alpha1.TargetDeploying {
			p.Targets[i].Since = timestamp(f.now)
		}
	}
	return p
}

// takenBack takes a superseded Workflow down, and says whether it is gone and another may be submitted.
func (f facts) takenBack(p *Plan, last *conditions.Step) bool {
	w, seen := p.Workflow, f.seen.Workflow
	const stale = ", which validated what is not any more"
	name := w.Namespace + "/" + w.Name
	switch {
	case f.frozen:
		*last = outdatedStep(w, "another is submitted when the spec can be acted on")
		return false
	case seen == nil:
		*last = outdatedStep(w, "another is submitted when every target is as the spec asks for")
		return true
	case f.late(p, last):
	case going(seen):
		if !f.notDone(p, last, seen.GetDeletionTimestamp().Time, "Workflow "+name+stale+", is not gone", heldUp(seen)) {
			*last = outdatedStep(w, "another is submitted when it is gone"+f.heldBy(p, seen))
		}
	case f.refusedTooLong(p, last, name+stale+",", "deleted"):
	default:
		// It goes first: whatever of the targets cannot be written must not keep it running.
		p.Writes = slices.Insert(p.Writes, 0, Write{Action: Delete, Object: seen, Known: true, Condition: v1alpha1.ConditionWorkflowSucceeded})
		*last = outdatedStep(w, "another is submitted when it is gone")
	}
	return false
}

// heldBy says which finalizers have held an object for a while that is being deleted.
func (f facts) heldBy(p *Plan, o *unstructured.Unstructured) string {
	if left := o.GetDeletionTimestamp().Add(lastLook).Sub(f.now); left > 0 {
		p.lookIn(min(left, lastLook)) // by the clock of the API server, which may be another
		return ""
	}
	return ", which " + heldUp(o)
}

func heldUp(o *unstructured.Unstructured) string {
	return "its finalizers hold up: " + strings.Join(o.GetFinalizers(), ", ")
}

func outdatedStep(w *v1alpha1.WorkflowStatus, then string) conditions.Step {
	return conditions.False(v1alpha1.ConditionWorkflowSucceeded, v1alpha1.ReasonWorkflowOutdated,
		"Workflow "+w.Namespace+"/"+w.Name+" validated what is not any more: the spec, its Components or a cluster are others now; "+then)
}

// templateMissing says whether the template does not exist and nothing takes its place.
func (f facts) templateMissing() bool { return !f.seen.TemplateFound && !waitsForPerson(f.experiment) }

// withoutTemplate is what is said then.
func (f facts) withoutTemplate() conditions.Step {
	return conditions.False(v1alpha1.ConditionWorkflowSucceeded, v1alpha1.ReasonWorkflowTemplateNotFound, f.template()+" does not exist; create it")
}

// templateLag is how soon Argo Workflows knows a template that was created, by a cache of its own: of one that it does not know a Workflow
// ends with an error, for good.
const templateLag = 3 * time.Second

// templateNew says whether the template was created so lately that Argo Workflows may not know it yet; it is looked at again when it does.
// One that comes from farther ahead was created by a clock that is not ours, and is not waited for.
func (f facts) templateNew(p *Plan) bool {
	left := f.seen.TemplateCreated.Add(templateLag).Sub(f.now)
	if !f.seen.TemplateFound || left <= 0 || left > 2*templateLag {
		return false
	}
	p.lookIn(left)
	return true
}

// defaultClustersDeadline is how long a cluster may take where the spec does not say.
const defaultClustersDeadline = time.Hour

// late says whether a target has taken longer than it may, which is a verdict. The next that could is
// looked at in time.
func (f facts) late(p *Plan, last *conditions.Step) bool { return f.lateSince(p, last, time.Time{}) }

// lateSince counts from some time on only what a target takes: what was so before, and did not matter, is nothing to fail by.
func (f facts) lateSince(p *Plan, last *conditions.Step, from time.Time) bool {
	deadline := ptr.Deref(f.experiment.Spec.ProgressDeadline, v1alpha1.ProgressDeadline{})
	for _, t := range f.stuck(p.Targets) {
		limit, what, field := time.Duration(0), "", ""
		switch t.State {
		case v1alpha1.TargetProvisioning:
			limit, what, field = ptr.Deref(deadline.Clusters, metav1.Duration{Duration: defaultClustersDeadline}).Duration, "cluster", "clusters"
		case v1alpha1.TargetDeploying:
			limit, what, field = ptr.Deref(deadline.Applications, metav1.Duration{}).Duration, "Application", "applications"
		}
		if limit == 0 || t.Since == nil {
			continue
		}
		since := t.Since.Time
		if since.Before(from) {
			since = from
		}
		left := since.Add(limit).Sub(f.now)
		if left <= 0 {
			p.Verdict = true
			*last = conditions.False(v1alpha1.ConditionWorkflowSucceeded, v1alpha1.ReasonProgressDeadlineExceeded,
				fmt.Sprintf("Target %s: its %s has taken longer than %s (spec.progressDeadline.%s): %s", t.Name, what, limit, field, t.Message))
			return true
		}
		p.dueIn(left)
	}
	return false
}

// stuck are the targets as they will be, but for those that the next state has been refused, which
// are still where they were. One that is up, and whose cluster cannot be brought to what the spec asks for, is on its way again since that
// was refused.
func (f facts) stuck(planned []v1alpha1.TargetStatus) []v1alpha1.TargetStatus {
	out := slices.Clone(planned)
	for i, t := range out {
		r, refused := f.refused[refusedTarget(t.Name)]
		before := recordedTarget(f.experiment.Status.Targets, t.Name)
		if !refused || before == nil {
			continue
		}
		if out[i] = *before; before.State == v1alpha1.TargetHealthy {
			out[i].State, out[i].Since = v1alpha1.TargetProvisioning, timestamp(r.since)
		}
	}
	return out
}

// refusedTarget is by what refusals know the writes of a target.
func refusedTarget(name string) string { return "target " + name }

// inputs is a hash of what a Workflow validates: the clusters and the sources on each, and the workflow of the
// spec; not what ships metrics, whose address no author can change back. It begins with the version of the way
// it is made: one that was made another way cannot be compared.
func (f facts) inputs(deployments map[string][]deployment) string {
	targets := map[string]any{}
	for _, t := range f.experiment.Spec.Targets {
		rendered := []any{}
		for _, d := range deployments[t.Name] {
			for _, s := range d.sources {
				if !d.aside {
					rendered = append(rendered, s.Object())
				}
			}
		}
		targets[t.Name] = map[string]any{"cluster": t.Cluster, "sources": rendered, "podSecurity": t.PodSecurity}
	}
	// Maps are encoded in the order of their keys, and nothing in here can fail to be.
	encoded, _ := json.Marshal(map[string]any{"targets": targets, "workflow": f.experiment.Spec.Workflow})
	return inputsVersion + fmt.Sprintf("%x", sha256.Sum256(encoded))[:16]
}

const inputsVersion = "v2-"

// otherInputs are those that no spec has: of a Workflow whose own cannot be compared, and which was not seen before the spec was edited.
const otherInputs = inputsVersion + "edited"

// incomparable says whether it cannot be known by its inputs what a Workflow validates: another version recorded them, or nobody has.
func incomparable(w *v1alpha1.WorkflowStatus) bool {
	return w != nil && !w.Superseded && !strings.HasPrefix(w.Inputs, inputsVersion)
}

// noteEdit records of such a Workflow that the spec was edited, in whatever pass is the first to see that, also one that can do or read
// nothing: the next does not see it any more. It is not known whether what is validated was edited, and a success must not count on
// what was not.
func noteEdit(e *v1alpha1.Experiment) {
	if e.DeletionTimestamp == nil && e.Status.CompletedAt == nil && e.Status.ObservedGeneration != e.Generation && incomparable(e.Status.Workflow) {
		e.Status.Workflow.Inputs = otherInputs
	}
}

// comparable records of such a Workflow that it validates what the spec says now, once that is what is deployed, so that later edits
// are compared: a new version of the manager is no reason to take a Workflow back.
func (f facts) comparable(p *Plan, deployments map[string][]deployment) {
	if p.Workflow == nil || p.Workflow.UID == "" || !incomparable(p.Workflow) || f.frozen || f.blind() ||
		slices.ContainsFunc(p.Writes, func(w Write) bool { return w.Target != "" }) {
		return
	}
	p.Workflow.Inputs = f.inputs(deployments)
}

// outdated says whether a Workflow validates other inputs than the spec has, or on other clusters than there are, which is unknown where
// its components cannot be resolved, and that is not recorded yet.
func (f facts) outdated(w *v1alpha1.WorkflowStatus, deployments map[string][]deployment) bool {
	return w != nil && deployments != nil && !w.Superseded &&
		(strings.HasPrefix(w.Inputs, inputsVersion) && w.Inputs != f.inputs(deployments) || f.replaced(w))
}

// replaced says whether others have taken the place of clusters that a Workflow was submitted for.
func (f facts) replaced(w *v1alpha1.WorkflowStatus) bool {
	now := f.clusters()
	return w.Clusters != "" && now != "" && w.Clusters != now
}

// clusters is a name, with a hash, for the clusters that are made for the targets, or that they refer to, by the UIDs of what they are known
// by: empty while one of them is not there, or where there are none.
func (f facts) clusters() string {
	var known []string
	for _, t := range f.experiment.Spec.Targets {
		for _, o := range f.identifying(t) {
			if o == nil {
				return ""
			}
			known = append(known, t.Name+"/"+string(o.GetUID()))
		}
	}
	if len(known) == 0 {
		return ""
	}
	return kube.ChildName(maxNamespace, types.UID(strings.Join(known, "/")), "clusters")
}

// identifying are the objects that a target's cluster is known by, nil where one is not there. One that is there already is known by
// nothing.
func (f facts) identifying(t v1alpha1.Target) []*unstructured.Unstructured {
	objects := make([]*unstructured.Unstructured, providerOf(t).identity())
	copy(objects, f.seen.telling(t))
	return objects
}

// workflow is the submitted Workflow as it is seen now. One that is gone, or has been
// replaced, keeps what was seen of it last.
func (f facts) workflow() *v1alpha1.WorkflowStatus {
	recorded, seen := f.experiment.Status.Workflow.DeepCopy(), f.seen.Workflow
	switch {
	case seen == nil:
		return recorded
	case recorded == nil:
		return read(seen, runOf(seen), nil)
	case recorded.UID == string(seen.GetUID()):
		w := read(seen, f.names.run(), recorded)
		if over(recorded) && !over(w) || recorded.Phase != "" && w.Phase == "" {
			return recorded // a verdict stands, and what runs was not seen for the first time now
		}
		w.Superseded = recorded.Superseded
		return w
	case recorded.Superseded && !going(seen) && keyOf(seen) == f.names.workflow(f.names.nextRun()):
		return read(seen, f.names.nextRun(), nil)
	}
	return recorded
}

// over says whether a Workflow has ended.
func over(w *v1alpha1.WorkflowStatus) bool { return (argoworkflows.State{Phase: w.Phase}).Over() }

// read is a Workflow as the status records it. What it validates may have been recorded: somebody may have taken that off it.
func read(seen *unstructured.Unstructured, run int32, recorded *v1alpha1.WorkflowStatus) *v1alpha1.WorkflowStatus {
	state, known := argoworkflows.Read(seen), ptr.Deref(recorded, v1alpha1.WorkflowStatus{})
	return &v1alpha1.WorkflowStatus{
		Namespace:  seen.GetNamespace(),
		Name:       seen.GetName(),
		UID:        string(seen.GetUID()),
		Inputs:     orDefault(known.Inputs, seen.GetAnnotations()[v1alpha1.AnnotationInputs]),
		Clusters:   orDefault(known.Clusters, seen.GetAnnotations()[v1alpha1.AnnotationClusters]),
		Run:        recordedRun(run),
		Phase:      state.Phase,
		Message:    conditions.Line(state.Message),
		StartedAt:  timestamp(state.StartedAt),
		FinishedAt: timestamp(state.FinishedAt),
	}
}

// judge reads the verdict of the Workflow that validates what the spec asks for. A success counts only when
// that is what is deployed: not before Applications have been brought back to it, nor one of which a cluster
// or Application has gone, before it is there again.
func (f facts) judge(p *Plan, settling bool) conditions.Step {
	w := p.Workflow
	what := "Workflow " + w.Namespace + "/" + w.Name
	failed := func(reason, message string) conditions.Step {
		p.Verdict = true
		return conditions.False(v1alpha1.ConditionWorkflowSucceeded, reason, message)
	}
	see := "; see kubectl -n " + w.Namespace + " describe workflow " + w.Name
	phase, onlyWaits := w.Phase, argoworkflows.OnlyWaits(f.seen.Workflow)
	switch said := f.byHand(); said {
	case argoworkflows.PhaseSucceeded:
		phase, what = said, "Somebody has annotated that the validation"
	case argoworkflows.PhaseFailed:
		return failed(v1alpha1.ReasonWorkflowFailed, "Somebody has annotated that the validation failed")
	}
	switch phase {
	case argoworkflows.PhaseSucceeded:
		if settling {
			waits := conditions.False(v1alpha1.ConditionWorkflowSucceeded, v1alpha1.ReasonTargetsNotSettled,
				what+" succeeded; the verdict waits until all that it validated is up, and as the spec asks for")
			if !f.frozen && phase == w.Phase { // whoever gives the verdict by hand looks after it
				f.lateSince(p, &waits, ptr.Deref(w.FinishedAt, metav1.Time{}).Time) // it waits no longer than that may take
			}
			return waits
		}
		p.Verdict = !f.frozen
		return conditions.True(v1alpha1.ConditionWorkflowSucceeded, v1alpha1.ReasonWorkflowSucceeded, what+" succeeded"+f.stoodIn(onlyWaits))
	case argoworkflows.PhaseFailed:
		return failed(v1alpha1.ReasonWorkflowFailed, what+" failed: "+orNothing(w.Message)+see)
	case argoworkflows.PhaseError:
		return failed(v1alpha1.ReasonWorkflowError, what+" could not be run: "+orNothing(w.Message)+see)
	}
	if f.seen.Workflow == nil || string(f.seen.Workflow.GetUID()) != w.UID {
		return failed(v1alpha1.ReasonWorkflowDeleted, what+" was deleted before it ended; create the Experiment again to run it again")
	}
	if late := f.overran(p); late != "" {
		return failed(v1alpha1.ReasonProgressDeadlineExceeded, what+" "+late+" (spec.progressDeadline.workflow): "+orNothing(w.Message)+see)
	}
	running := what + " is " + strings.ToLower(orDefault(w.Phase, "submitted"))
	if w.Message != "" { // why it does not run, for instance
		running += ": " + w.Message
	}
	return conditions.False(v1alpha1.ConditionWorkflowSucceeded, v1alpha1.ReasonWorkflowRunning, running+f.unseen(p)+f.stoodIn(onlyWaits)+f.hint())
}

// overran says that a Workflow has not ended by its deadline, which is for Argo Workflows to keep, nor in the minute after it; empty
// where it may still run. Argo Workflows counts from its start, so that nobody would end one that is never started, because nobody
// looks at it or too many others run, while clusters cost.
func (f facts) overran(p *Plan) string {
	w, deadline := f.seen.Workflow, argoworkflows.DeadlineOf(f.seen.Workflow)
	since, late := w.GetCreationTimestamp().Time, "was not started within "
	if started := argoworkflows.Read(w).StartedAt; !started.IsZero() {
		since, late = started, "has not ended within "
	}
	if deadline == 0 || since.IsZero() || f.frozen {
		return ""
	}
	may := deadline
	switch { // an exit handler, of which Argo Workflows keeps no deadline, and by which nothing of what was validated changes
	case argoworkflows.Exiting(w):
		may, late = deadline+max(deadline, exitHandler), "has an exit handler that has not ended within "
	case argoworkflows.Offloaded(w):
		may, late = deadline+max(deadline, exitHandler), "has not ended, nor has an exit handler that it may have, within "
	}
	if left := since.Add(may + lastLook).Sub(f.now); left > 0 {
		p.dueIn(left)
		return ""
	}
	return late + may.String()
}

// exitHandler is for how long the exit handler of a Workflow may go on beside its deadline, at least.
const exitHandler = 5 * time.Minute

// old says whether something has been there for a minute, in which its controller looks at it; that is looked at again by then.
func (f facts) old(p *Plan, o *unstructured.Unstructured) bool {
	created := o.GetCreationTimestamp()
	if created.IsZero() {
		return false
	}
	left := created.Add(time.Minute).Sub(f.now)
	p.lookIn(left)
	return left <= 0
}

// unseen says that Argo Workflows has not looked at a Workflow, which it does at once; empty where it has, or may yet.
func (f facts) unseen(p *Plan) string {
	w := f.seen.Workflow
	if p.Workflow.Phase != "" || !f.old(p, w) {
		return ""
	}
	said := "; Argo Workflows has not looked at it: see whether its controller runs, and looks at namespace " + w.GetNamespace()
	if f.options.WorkflowInstanceID == "" {
		return said + "; one with an instanceID looks at no Workflow without it (--workflow-instance-id)"
	}
	return said + " with instanceID " + f.options.WorkflowInstanceID
}

// byHand is the verdict that a person has given where one may; empty without.
func (f facts) byHand() string {
	if !manual(f.experiment) {
		return ""
	}
	return f.experiment.Annotations[v1alpha1.AnnotationComplete]
}

// decidedByHand says whether a person has given the verdict.
func (f facts) decidedByHand() bool {
	return slices.Contains([]string{argoworkflows.PhaseSucceeded, argoworkflows.PhaseFailed}, f.byHand())
}

// standIn says, after what comes before, what takes the place of a template that does not exist; empty where there is one, and where none
// was looked for.
func (f facts) standIn(before string) string {
	if f.seen.TemplateFound || f.names.unwatched() {
		return ""
	}
	return before + f.template() + " does not exist: a Workflow that only waits to be resumed takes its place"
}

// stoodIn says of a Workflow what it is where it does nothing.
func (f facts) stoodIn(waits bool) string {
	if !waits {
		return ""
	}
	return "; it only waits to be resumed, in the place of " + f.template() + ", which did not exist"
}

// hint says how a person gives the verdict where one may.
func (f facts) hint() string {
	switch {
	case !manual(f.experiment):
		return f.ignored()
	case f.byHand() == "":
		return fmt.Sprintf("; it ends when somebody resumes it, or annotates the Experiment with %s=Succeeded or Failed", v1alpha1.AnnotationComplete)
	}
	return fmt.Sprintf("; the annotation %s must be Succeeded or Failed, and is ignored", v1alpha1.AnnotationComplete)
}

// ignored says of a verdict that a person has given where none may that it is none; empty without.
func (f facts) ignored() string {
	if manual(f.experiment) || f.experiment.Annotations[v1alpha1.AnnotationComplete] == "" {
		return ""
	}
	return fmt.Sprintf("; the annotation %s is ignored, because spec.workflow.completion.mode is not %s", v1alpha1.AnnotationComplete, v1alpha1.CompletionManual)
}

// manual says whether a person may give the verdict.
func manual(e *v1alpha1.Experiment) bool {
	return e.Spec.Workflow.Completion.Mode == v1alpha1.CompletionManual
}

// waitsForPerson says whether a Workflow that does nothing but wait takes the place of a template
// that does not exist.
func waitsForPerson(e *v1alpha1.Experiment) bool {
	return manual(e) || e.Spec.Workflow.OnMissingTemplate == v1alpha1.MissingTemplateSuspend
}

func orNothing(s string) string { return orDefault(s, "it says nothing") }
