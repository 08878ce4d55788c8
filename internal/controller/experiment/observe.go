package experiment

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/argoworkflows"
	"github.com/labkeeper/labkeeper/internal/external/arlon"
	"github.com/labkeeper/labkeeper/internal/external/capi"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// Observed is what a pass has seen. Objects that are not provably the Experiment's are not
// in it.
type Observed struct {
	// Kinds is the state of every foreign kind that the Experiment needs.
	Kinds map[schema.GroupVersionKind]kube.KindState
	// Components that the targets name and that exist, by name.
	Components map[string]*v1alpha1.Component
	// Clusters are the objects that the targets' clusters are made by, in the order of their
	// providers, nil for one that is not there.
	Clusters map[string][]*unstructured.Unstructured
	// References are the Clusters that targets name and do not make, by target. They are not the Experiment's.
	References map[string]*unstructured.Unstructured
	// Homes are the metadata of the namespaces that targets have on the hub for the objects of their
	// clusters, by target.
	Homes map[string]*unstructured.Unstructured
	// Enforced is the level of the Pod Security Standards that the namespaces of targets on the hub enforce, by target, of those that
	// are there.
	Enforced map[string]string
	// Copies are what clusters get of the templates that users name, by target, until the cluster is up.
	Copies map[string]Copies
	// Applications by target, those of components that it does not name any more among them.
	Applications map[string][]*unstructured.Unstructured
	// Connections are the kubeconfigs of clusters that are up and that Argo CD does not have
	// the credentials of, or cannot use them, by target.
	Connections map[string]Connection
	// Workflow is the validation Workflow.
	Workflow *unstructured.Unstructured
	// Project is the Argo CD project that the Experiment's namespace is bound to; empty for none.
	Project string
	// ServiceAccounts are those that it may use in the namespace of Argo Workflows, separated by commas.
	ServiceAccounts string
	// Tenants are those that it may write metrics as, separated by commas; nil is any.
	Tenants *string
	// TemplateFound says whether the template of the Workflow exists, TemplateCreated since when, and Parameters which it declares.
	TemplateFound   bool
	TemplateCreated time.Time
	Parameters      []argoworkflows.Parameter
	// Leftovers is what a live look finds of the Experiment's children, by kind. Only a
	// teardown looks.
	Leftovers map[schema.GroupVersionKind][]unstructured.Unstructured
	// Unseen says that the server has children of which the cache has nothing, which may change or go before it has seen them, or that
	// something could not be read by which one would be helped to go: nobody would tell.
	Unseen bool
	// Hidden are kinds that a teardown cannot see.
	Hidden []schema.GroupVersionKind
	// Unreadable are the errors of kinds that it has not been able to list for as long as it may
	// take.
	Unreadable map[schema.GroupVersionKind]error
	// Clusterless are the targets whose Applications are being deleted and whose clusters are gone,
	// which the server says.
	Clusterless map[string]bool
	// Kept are, by target, the objects that stand for clusters and that somebody has taken our label off.
	Kept map[string]*unstructured.Unstructured
	// Former are objects of clusters that were made for another Experiment of the same name, and that nobody has asked to go.
	Former []unstructured.Unstructured
}

// Connection is a kubeconfig as it was found.
type Connection struct {
	// kubeconfigRef is where it was looked for.
	kubeconfigRef
	// Name is what Argo CD is to call the cluster.
	Name string
	// Found says whether the Secret and its key exist.
	Found bool
	// Keyless says that the Secret exists, and has no such key.
	Keyless bool
	// Registered is the cluster Secret, of a cluster that Argo CD was told of.
	Registered *unstructured.Unstructured
	// Known says that there is one by which Argo CD knows the cluster, the Experiment's or not.
	Known bool
	// Clash names somebody else's cluster Secret for the same cluster; empty if there is none.
	Clash string
	// Namesake names somebody else's cluster Secret of another cluster by the name that this one would have; empty if there is none.
	Namesake string
	// Stray is a cluster Secret of the target's own beside that, by which nothing is deployed: a manager was stopped before it
	// could take it back (registeredTwice).
	Stray *unstructured.Unstructured
	// Stale are the cluster Secrets of other Experiments for the same cluster that have the credentials of before, as they are to be.
	Stale []*unstructured.Unstructured
	// ReadErr says why that is not known.
	ReadErr error
	// Credentials are valid if Err is nil.
	Credentials argocd.Credentials
	// Err says why Argo CD cannot be given the kubeconfig.
	Err error
}

// stepError is an error with the condition it belongs to.
type stepError struct {
	condition string
	err       error
}

func (e *stepError) Error() string { return e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

// at tells which condition an error belongs to.
func at(condition string, err error) error {
	if err == nil {
		return nil
	}
	return &stepError{condition, err}
}

// observe reads what plan needs. What cannot be read is an error, never an absence.
func (s *scope) observe(ctx context.Context) error {
	s.seen = Observed{
		Clusters:     map[string][]*unstructured.Unstructured{},
		Homes:        map[string]*unstructured.Unstructured{},
		Applications: map[string][]*unstructured.Unstructured{},
		Connections:  map[string]Connection{},
		Copies:       map[string]Copies{},
	}
	s.observeKinds()
	if moved(s.experiment, s.names) {
		return nil // what is seen there is not the Experiment's
	}
	if s.experiment.Spec.Terminate && !goingDown(s.experiment) {
		err := errors.Join(s.observeChildren(ctx), s.observeEnd(ctx), s.observeNamespace(ctx), s.observeComponents(ctx))
		if s.triesAgain(ctx, "what the verdict is on", err) {
			return err
		}
		return s.restoreStart(ctx) // a verdict that cannot be read is none
	}
	if err := s.observeChildren(ctx); err != nil {
		return err
	}
	if goingDown(s.experiment) {
		return s.observeTeardown(ctx)
	}
	if err := s.restoreStart(ctx); err != nil {
		return err
	}
	if s.experiment.Status.StartedAt == nil {
		s.observeFormer(ctx)
	}
	if err := s.observeNamespace(ctx); err != nil {
		return at(v1alpha1.ConditionAccepted, err)
	}
	if err := s.observeComponents(ctx); err != nil {
		return at(v1alpha1.ConditionComponentsResolved, err)
	}
	if err := s.observeEnforced(ctx); err != nil {
		return at(v1alpha1.ConditionApplicationsHealthy, err)
	}
	s.observeCopies(ctx)
	s.observeConnections(ctx)
	return at(v1alpha1.ConditionWorkflowSucceeded, s.observeTemplate(ctx))
}

// observeEnforced reads what the namespaces of targets on the hub enforce, from the cache.
func (s *scope) observeEnforced(ctx context.Context) error {
	s.seen.Enforced = map[string]string{}
	for _, t := range s.experiment.Spec.Targets {
		if t.Cluster.Type != v1alpha1.ClusterHub {
			continue
		}
		namespace := kube.Metadata(namespaceGVK)
		err := s.Client.Get(ctx, types.NamespacedName{Name: s.names.onHub(t)}, namespace)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading Namespace %s: %w", s.names.onHub(t), err)
		}
		if err == nil {
			s.seen.Enforced[t.Name] = namespace.Labels[enforceLabel]
		}
	}
	return nil
}

// Copies are what a cluster gets of templates.
type Copies struct {
	// Objects that are not there, as they are to be.
	Objects []*unstructured.Unstructured
	// Missing is what has to be done before they can be made; empty for nothing.
	Missing string
	// ReadErr is why that cannot be told.
	ReadErr error
}

// observeCopies looks, until a cluster is up, which of its copies are there, and reads the templates of
// those that are not.
func (s *scope) observeCopies(ctx context.Context) {
	if s.experiment.Status.StartedAt == nil || s.experiment.Spec.Suspend {
		return
	}
	for _, t := range s.experiment.Spec.Targets {
		objects, begun := s.seen.Clusters[t.Name], s.seen.cluster(t.Name) != nil || len(s.seen.Applications[t.Name]) > 0
		if copies := copiesOf(s.names, t); len(copies) > 0 && !providerOf(t).read(objects).Ready && (begun || !s.blocked(t)) {
			s.seen.Copies[t.Name] = s.copies(ctx, copies, standing(objects))
		}
	}
}

// copies are those that a cluster does not have, unless there is one that cannot be made.
func (s *scope) copies(ctx context.Context, wanted []templateCopy, cluster *unstructured.Unstructured) (made Copies) {
	for _, c := range wanted {
		live, err := kube.Get(ctx, s.Live, c.gvk, c.key)
		switch {
		case err != nil && !meta.IsNoMatchError(err):
			return Copies{ReadErr: err}
		case live == nil:
		case going(live), cluster == nil && len(live.GetOwnerReferences()) > 0:
			// That of a cluster which somebody has deleted goes with it, and that of one whose label somebody took off does not.
			return Copies{Missing: "that " + kube.Describe(live) + " is gone, which is of the cluster before", ReadErr: s.kept(ctx, wanted[0].key, cluster)}
		case marks.Owns(s.experiment, live):
			continue
		}
		gvk, key := c.from()
		template, err := kube.Get(ctx, s.Live, gvk, key)
		switch {
		case meta.IsNoMatchError(err):
			return Copies{Missing: fmt.Sprintf("the kind %s.%s, which the cluster does not serve; install its CustomResourceDefinition", gvk.Kind, gvk.GroupVersion())}
		case err != nil:
			return Copies{ReadErr: err}
		case template == nil:
			return Copies{Missing: gvk.Kind + " " + key.String() + ", create it"}
		}
		made.Objects = append(made.Objects, c.of(template))
	}
	return made
}

// kept is an error where the cluster that is not seen is there, and is not the Experiment's: it would be waited for for ever.
func (s *scope) kept(ctx context.Context, key types.NamespacedName, cluster *unstructured.Unstructured) error {
	if cluster != nil {
		return nil
	}
	live, err := kube.Get(ctx, s.Live, capi.ClusterGVK, key)
	if err == nil && live != nil && !marks.Owns(s.experiment, live) {
		return &kube.NameTakenError{Object: kube.Describe(live)}
	}
	return err
}

// observeKinds looks which of the kinds that it needs can be read.
func (s *scope) observeKinds() {
	s.seen.Kinds = map[schema.GroupVersionKind]kube.KindState{}
	for _, gvk := range s.neededKinds() {
		s.seen.Kinds[gvk] = s.Kinds.State(gvk)
	}
}

// neededKinds are the foreign kinds without which the Experiment, or a part of it, cannot complete.
func (s *scope) neededKinds() []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	for _, t := range s.experiment.Spec.Targets {
		kinds = union(kinds, providerOf(t).kinds())
		if refers(t) {
			kinds = union(kinds, []schema.GroupVersionKind{arlon.ClusterGVK})
		}
	}
	kinds = append(kinds, argocd.ApplicationGVK)
	if s.part {
		return kinds
	}
	template, _ := s.names.template()
	return append(kinds, argoworkflows.WorkflowGVK, template)
}

func (s *scope) observeChildren(ctx context.Context) error {
	for _, t := range s.experiment.Spec.Targets {
		for _, o := range providerOf(t).objects(s.names, t) {
			seen, err := s.child(ctx, o.GroupVersionKind(), keyOf(o))
			if err != nil {
				return at(v1alpha1.ConditionClustersReady, err)
			}
			s.seen.Clusters[t.Name] = append(s.seen.Clusters[t.Name], seen)
		}
		if providerOf(t).housed() && !goingDown(s.experiment) {
			home, err := s.namespaceOnHub(ctx, t)
			if err != nil {
				return at(v1alpha1.ConditionClustersReady, err)
			}
			if home != nil {
				s.seen.Homes[t.Name] = home
			}
		}
	}
	if err := s.observeReferences(ctx); err != nil {
		return at(v1alpha1.ConditionClustersReady, err)
	}
	if err := s.observeApplications(ctx); err != nil {
		return at(v1alpha1.ConditionApplicationsHealthy, err)
	}
	return at(v1alpha1.ConditionWorkflowSucceeded, s.observeWorkflow(ctx))
}

// observeApplications reads them by their names, and those of single components by the Experiment that
// they belong to, because it may not name all of the components any more.
func (s *scope) observeApplications(ctx context.Context) error {
	for _, t := range s.experiment.Spec.Targets {
		if perComponent(t) {
			continue
		}
		app, err := s.child(ctx, argocd.ApplicationGVK, s.names.application(t, ""))
		if err != nil {
			return err
		}
		if app != nil {
			s.seen.Applications[t.Name] = []*unstructured.Unstructured{app}
		}
	}
	if s.seen.Kinds[argocd.ApplicationGVK] != kube.KindServed {
		return nil
	}
	apps, err := kube.List(ctx, s.Foreign, argocd.ApplicationGVK,
		client.InNamespace(s.Options.ArgoCDNamespace), client.MatchingFields{indexOwner: string(s.experiment.UID)})
	slices.SortFunc(apps, func(a, b unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
	for i := range apps {
		if marks.Owns(s.experiment, &apps[i]) && s.names.ofComponent(&apps[i]) {
			target := s.names.targetOf(&apps[i])
			s.seen.Applications[target] = append(s.seen.Applications[target], &apps[i])
		}
	}
	return err
}

// observeWorkflow reads the Workflow, or the one that has taken the place of it.
func (s *scope) observeWorkflow(ctx context.Context) error {
	if s.part || s.names.unwatched() {
		return nil // it stays, or there is none: it is not accepted
	}
	recorded := s.experiment.Status.Workflow
	key := s.names.workflow(s.names.run())
	if recorded != nil {
		key.Name = orDefault(recorded.Name, key.Name)
	}
	workflow, err := s.child(ctx, argoworkflows.WorkflowGVK, key)
	switch {
	case err != nil:
	case recorded != nil && (workflow == nil || string(workflow.GetUID()) != recorded.UID):
		if workflow, err = s.recordedWorkflow(ctx, key, workflow); err == nil && workflow == nil && recorded.Superseded {
			workflow, err = s.child(ctx, argoworkflows.WorkflowGVK, s.names.workflow(s.names.nextRun()))
		}
	case recorded == nil && workflow == nil && s.experiment.Status.StartedAt != nil:
		workflow, err = s.latestWorkflow(ctx)
	}
	s.seen.Workflow = workflow
	return err
}

// observeEnd looks live for the Workflow of an Experiment that is ended, where that has not ended by what is known: the cache may have
// something of before, or nothing yet, and that there was no verdict is said for good.
func (s *scope) observeEnd(ctx context.Context) error {
	w := s.facts().workflow()
	if w == nil || over(w) || s.names.unwatched() {
		return nil
	}
	gvk := argoworkflows.WorkflowGVK
	live, err := s.owned(kube.Get(ctx, s.Live, gvk, types.NamespacedName{Namespace: w.Namespace, Name: w.Name}))
	if err != nil {
		return at(v1alpha1.ConditionWorkflowSucceeded, err)
	}
	template, _ := s.names.template()
	delete(s.seen.Kinds, template) // which it has been made of
	s.seen.Kinds[gvk] = kube.KindServed
	if live != nil && string(live.GetUID()) != w.UID {
		live = nil
	}
	s.seen.Workflow = live
	return nil
}

// latestWorkflow is the last of those that have taken the place of another, where somebody has taken the record of it away.
func (s *scope) latestWorkflow(ctx context.Context) (latest *unstructured.Unstructured, err error) {
	if s.seen.Kinds[argoworkflows.WorkflowGVK] != kube.KindServed {
		return nil, nil
	}
	workflows, err := kube.List(ctx, s.Foreign, argoworkflows.WorkflowGVK,
		client.InNamespace(s.names.workflowNamespace()), client.MatchingFields{indexOwner: string(s.experiment.UID)})
	for i := range workflows {
		w := &workflows[i]
		if marks.Owns(s.experiment, w) && s.names.ofRun(w) && (latest == nil || runOf(latest) < runOf(w)) {
			latest = w
		}
	}
	return latest, err
}

// recordedWorkflow looks for a recorded Workflow that the cache does not have: it is only gone if the server
// says so. (When a teardown has come past the Applications, lists say it.)
func (s *scope) recordedWorkflow(ctx context.Context, key types.NamespacedName, cached *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	ends := goingDown(s.experiment)
	if ends && len(s.seen.Applications) == 0 || s.seen.Kinds[argoworkflows.WorkflowGVK] != kube.KindServed {
		return cached, nil
	}
	workflow, err := kube.Get(ctx, s.Live, argoworkflows.WorkflowGVK, key)
	if ends && s.tolerated(ctx, argoworkflows.WorkflowGVK, reading(argoworkflows.WorkflowGVK)+key.String(), err) {
		err = nil
	}
	if workflow != nil && (ends || string(workflow.GetUID()) != s.experiment.Status.Workflow.UID) {
		workflow, err = s.owned(workflow, err)
	}
	s.seen.Unseen = workflow != nil
	return workflow, err
}

// child reads a child from the cache. The children of a kind that is not served are not
// there to be seen; plan does not act before every kind is served.
func (s *scope) child(ctx context.Context, gvk schema.GroupVersionKind, key types.NamespacedName) (*unstructured.Unstructured, error) {
	if s.seen.Kinds[gvk] != kube.KindServed {
		return nil, nil
	}
	return s.owned(kube.Get(ctx, s.Foreign, gvk, key))
}

// owned drops an object that is not the Experiment's.
func (s *scope) owned(o *unstructured.Unstructured, err error) (*unstructured.Unstructured, error) {
	if err != nil || o == nil || !marks.Owns(s.experiment, o) {
		return nil, err
	}
	return o, nil
}

// observeNamespace reads the bounds of the Experiments in the namespace. One that the cache does not
// have yet may have some, too.
func (s *scope) observeNamespace(ctx context.Context) error {
	namespace, key := kube.Metadata(namespaceGVK), types.NamespacedName{Name: s.experiment.Namespace}
	err := s.Client.Get(ctx, key, namespace)
	if apierrors.IsNotFound(err) {
		err = s.Live.Get(ctx, key, namespace)
	}
	if err != nil {
		return fmt.Errorf("reading Namespace %s: %w", key.Name, err)
	}
	s.seen.Project = namespace.GetAnnotations()[v1alpha1.AnnotationProject]
	s.seen.ServiceAccounts = namespace.GetAnnotations()[v1alpha1.AnnotationServiceAccounts]
	if tenants, bound := namespace.GetAnnotations()[v1alpha1.AnnotationTenants]; bound {
		s.seen.Tenants = &tenants
	}
	return nil
}

// observeComponents looks Components up. Only NotFound means that there is none: a lookup
// that is forbidden or fails is an error.
func (s *scope) observeComponents(ctx context.Context) error {
	s.seen.Components = map[string]*v1alpha1.Component{}
	for _, t := range s.experiment.Spec.Targets {
		for _, name := range s.Options.Observability.named(t) {
			component := &v1alpha1.Component{}
			err := s.Client.Get(ctx, types.NamespacedName{Name: name}, component, client.DisableReadYourWritesConsistency)
			if apierrors.IsNotFound(err) && s.Options.Fallback.RepoURL != "" {
				err = s.absent(ctx, name, component)
			}
			switch {
			case err == nil:
				s.seen.Components[name] = component
			case !apierrors.IsNotFound(err):
				return fmt.Errorf("looking up Component %s: %w", name, err)
			}
		}
	}
	return nil
}

// absent asks the server for a Component that the cache does not have, where something takes its place: what was applied a moment
// before the Experiment the cache may not have yet. It is asked once for each generation: what comes later wakes. A review is of a
// generation that may never be, or not yet, so it asks every time.
func (s *scope) absent(ctx context.Context, name string, component *v1alpha1.Component) error {
	if s.review {
		return s.Live.Get(ctx, types.NamespacedName{Name: name}, component)
	}
	known := absent{s.experiment.Generation, map[string]bool{}}
	if before, found := s.absences.Get(s.experiment.UID); found && before.(absent).generation == known.generation {
		known = before.(absent)
	}
	if known.names[name] {
		return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("components").GroupResource(), name)
	}
	err := s.Live.Get(ctx, types.NamespacedName{Name: name}, component)
	if apierrors.IsNotFound(err) {
		known.names[name] = true
		s.absences.Add(s.experiment.UID, known)
	}
	return err
}

// absent are the Components that a generation of an Experiment names and that there are none of. No two passes over an
// Experiment run at the same time.
type absent struct {
	generation int64
	names      map[string]bool
}

// observeConnections reads the kubeconfig of every cluster that is up and that Argo CD has not been
// told of: of a new one, or of one that took the place of another. Of one that it was told of and
// cannot use it reads what it was told, too: the kubeconfig may be another now, and neither Secret is
// watched.
func (s *scope) observeConnections(ctx context.Context) {
	if s.experiment.Status.StartedAt == nil {
		return
	}
	for _, t := range s.experiment.Spec.Targets {
		provider, cluster, apps := providerOf(t), s.seen.cluster(t.Name), s.seen.Applications[t.Name]
		known := s.names.registered(t, s.seen.Clusters[t.Name], apps)
		switch {
		case refers(t):
			s.observeReferred(ctx, t)
		case t.Cluster.Type == v1alpha1.ClusterHub, !provider.read(s.seen.Clusters[t.Name]).Ready:
		case known && (slices.ContainsFunc(apps, argocd.Disconnected) || s.retires(t, apps)):
			if c := s.registration(ctx, t); !c.Known || slices.ContainsFunc(apps, argocd.Disconnected) {
				s.seen.Connections[t.Name] = s.connectionAgain(ctx, t, c)
			}
		case !known && (cluster != nil || len(apps) > 0 || !s.blocked(t)):
			s.seen.Connections[t.Name] = s.connection(ctx, t, provider.kubeconfig(s.names, t, cluster))
		}
	}
	if !s.seen.begun() {
		s.observeWrong(ctx)
	}
}

// observeWrong looks for kubeconfigs that somebody must mend of clusters that are there already and wait for others, which may cost by
// the time that it is their turn.
func (s *scope) observeWrong(ctx context.Context) {
	for _, t := range s.experiment.Spec.Targets {
		if _, looked := s.seen.Connections[t.Name]; looked || t.Cluster.Type != v1alpha1.ClusterExisting {
			continue
		}
		if c := s.kubeconfig(ctx, t, providerOf(t).kubeconfig(s.names, t, nil)); c.wrong() {
			s.seen.Connections[t.Name] = c
		}
	}
}

// begun says whether there is anything of the Experiment's targets.
func (o Observed) begun() bool {
	for _, objects := range o.Clusters {
		if slices.ContainsFunc(objects, func(u *unstructured.Unstructured) bool { return u != nil }) {
			return true
		}
	}
	return len(o.Applications) > 0
}

// retires says whether a target has an Application that is to go, and has not been asked to.
func (s *scope) retires(t v1alpha1.Target, apps []*unstructured.Unstructured) bool {
	_, removed := s.names.observedParts(t, apps)
	return slices.ContainsFunc(removed, func(app *unstructured.Unstructured) bool { return !going(app) })
}

// registration is what Argo CD was told of a target's cluster: that it knows one of two by the same name, it takes for an error.
func (s *scope) registration(ctx context.Context, t v1alpha1.Target) Connection {
	if refers(t) {
		return s.referredConnection(ctx, referredBy(s.seen.Applications[t.Name]))
	}
	objects := s.seen.Clusters[t.Name]
	secret, err := kube.Get(ctx, s.Live, argocd.SecretGVK, s.names.clusterSecret(t))
	switch {
	case err != nil:
		return Connection{ReadErr: err}
	case secret != nil && !marks.Owns(s.experiment, secret): // somebody has made it his own
		return Connection{Known: true}
	case secret != nil && s.names.tells(secret, t, objects):
		return Connection{Registered: secret, Known: true}
	}
	all, err := s.clusterSecrets(ctx)
	if err != nil {
		return Connection{ReadErr: err}
	}
	for i := range all {
		if keyOf(&all[i]) != s.names.clusterSecret(t) && s.names.tells(&all[i], t, objects) {
			return Connection{Registered: secret, Known: true, Clash: kube.Describe(&all[i])}
		}
	}
	return Connection{Registered: secret}
}

// observeDisconnected does so in a teardown, for the Applications that cannot go without, or would leave what they deployed, whether
// Argo CD has told so yet or not: what cannot be read holds those up, for a share of the deadline, and nothing else.
func (s *scope) observeDisconnected(ctx context.Context) {
	next := &demolition{facts: s.facts()}
	next.takeFirst()
	for _, t := range s.experiment.Spec.Targets {
		apps := s.seen.Applications[t.Name]
		asks := slices.ContainsFunc(next.Writes, func(w Write) bool {
			return w.Action == Delete && slices.ContainsFunc(apps, func(app *unstructured.Unstructured) bool { return app.GetUID() == w.Object.GetUID() })
		})
		registered, err := s.names.registered(t, s.seen.Clusters[t.Name], apps), error(nil)
		switch {
		case refers(t):
			registered = referredEndpoint(apps, "") != ""
		case asks && !registered:
			err = s.observeClusterLive(ctx, t)
			registered = err != nil || s.names.registered(t, s.seen.Clusters[t.Name], apps)
		}
		if (asks || slices.ContainsFunc(apps, argocd.Disconnected) || slices.ContainsFunc(apps, next.tellsOf)) && registered {
			c := Connection{ReadErr: err}
			if err == nil {
				c = s.registration(ctx, t)
			}
			s.observeRegistration(ctx, t, asks, c)
		}
	}
}

// observeClusterLive reads what a target's cluster is made by from the server: the cache may not have it yet, or that of before.
func (s *scope) observeClusterLive(ctx context.Context, t v1alpha1.Target) error {
	for i, o := range providerOf(t).objects(s.names, t) {
		if s.seen.Kinds[o.GroupVersionKind()] != kube.KindServed {
			continue
		}
		live, err := s.owned(kube.Get(ctx, s.Live, o.GroupVersionKind(), keyOf(o)))
		if err != nil {
			return err
		}
		s.seen.Clusters[t.Name][i] = live
	}
	return nil
}

// observeRegistration takes in whether Argo CD knows the cluster of a target of which Applications are asked to go now, or have been, and
// by what it could.
func (s *scope) observeRegistration(ctx context.Context, t v1alpha1.Target, asks bool, c Connection) {
	apps := s.seen.Applications[t.Name]
	unknown := c.ReadErr == nil && !c.Known
	if !c.Known || slices.ContainsFunc(apps, argocd.Disconnected) {
		c = s.connectionAgain(ctx, t, c)
	}
	switch {
	case c.Known:
		s.refusals.note(ctx, s.experiment, unregistered(t.Name), nil, s.now)
	case c.ReadErr == nil && c.Registered == nil && !s.left(ctx, apps):
		return // the registration has gone after them, and the cache is behind
	case asks:
		s.refusals.note(ctx, s.experiment, unregistered(t.Name), firstError(c.ReadErr, errUnregistered), s.now)
	}
	switch tried := (&demolition{facts: s.facts()}).triedToRegister(t.Name); {
	case unknown && tried:
		c.ReadErr, c.Found = nil, false // what it could be registered with cannot be read, and is not waited for any longer
	case c.ReadErr != nil && (c.Known || !asks || tried):
		s.seen.Unseen = true
		return
	}
	s.seen.Connections[t.Name] = c
}

// errUnregistered is why an Application waits.
var errUnregistered = errors.New("its cluster is not known to Argo CD, which would leave there what it deployed")

// left says whether the server has any of some Applications.
func (s *scope) left(ctx context.Context, apps []*unstructured.Unstructured) bool {
	return slices.ContainsFunc(apps, func(app *unstructured.Unstructured) bool {
		live := kube.Metadata(argocd.ApplicationGVK)
		err := s.Live.Get(ctx, keyOf(app), live)
		return client.IgnoreNotFound(err) != nil || err == nil && live.GetUID() == app.GetUID()
	})
}

// observeClusterless looks for the clusters of Applications that are being deleted, where the cache
// has none.
func (s *scope) observeClusterless(ctx context.Context) {
	s.seen.Clusterless = map[string]bool{}
	for _, t := range s.experiment.Spec.Targets {
		if !slices.ContainsFunc(s.seen.Applications[t.Name], going) {
			continue
		}
		gone, err := s.clusterGone(ctx, t)
		s.seen.Clusterless[t.Name] = gone
		s.seen.Unseen = s.seen.Unseen || err != nil // and until then it is there
	}
}

// clusterGone says whether the server has the cluster of a target no more, where the cache does not have it.
func (s *scope) clusterGone(ctx context.Context, t v1alpha1.Target) (bool, error) {
	if refers(t) {
		return s.referenceGone(ctx, t)
	}
	objects := providerOf(t).objects(s.names, t)
	if len(objects) == 0 || s.seen.cluster(t.Name) != nil {
		return false, nil
	}
	gvk := objects[0].GroupVersionKind()
	state := s.seen.Kinds[gvk]
	if state == kube.KindUnserved { // in our version
		return false, nil
	}
	live, err := kube.Get(ctx, s.Live, gvk, keyOf(objects[0]))
	if state == kube.KindMissing && meta.IsNoMatchError(err) {
		return true, nil
	}
	return err == nil && live == nil, err
}

// blocked says whether a target waits for others before it is begun.
func (s *scope) blocked(t v1alpha1.Target) bool {
	return slices.ContainsFunc(s.experiment.Spec.Targets, func(o v1alpha1.Target) bool {
		return slices.Contains(t.Depends, o.Name) && !deployedWell(s.names.observedParts(o, s.seen.Applications[o.Name]))
	})
}

// telling are the objects that tell of a target's cluster: those that it is made by, or the one that it refers to.
func (o Observed) telling(t v1alpha1.Target) []*unstructured.Unstructured {
	if refers(t) {
		return []*unstructured.Unstructured{o.References[t.Name]}
	}
	return o.Clusters[t.Name]
}

// cluster is the object that stands for a target's cluster; nil if it is not there.
func (o Observed) cluster(target string) *unstructured.Unstructured {
	return standing(o.Clusters[target])
}

// readErrors are the errors of reads that only one target needs.
func (o Observed) readErrors() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(o.Connections)) {
		errs = append(errs, at(v1alpha1.ConditionClustersReady, o.Connections[name].ReadErr))
	}
	for _, name := range slices.Sorted(maps.Keys(o.Copies)) {
		errs = append(errs, at(v1alpha1.ConditionClustersReady, o.Copies[name].ReadErr))
	}
	return errors.Join(errs...)
}

// registered says whether an Application was created for the cluster, which Argo CD was given the
// credentials of before.
func (n names) registered(t v1alpha1.Target, objects, apps []*unstructured.Unstructured) bool {
	if standing(objects) == nil && deployedEndpoint(apps) == "" {
		return false
	}
	registration := n.registration(t, objects)
	return slices.ContainsFunc(apps, func(app *unstructured.Unstructured) bool {
		name, _, _ := unstructured.NestedString(app.Object, "spec", "destination", "name")
		return name == registration
	})
}

// connectionAgain adds the kubeconfig of a cluster to what Argo CD was told of it.
func (s *scope) connectionAgain(ctx context.Context, t v1alpha1.Target, told Connection) Connection {
	if told.ReadErr != nil || refers(t) { // which others register
		return told
	}
	c := s.connection(ctx, t, providerOf(t).kubeconfig(s.names, t, s.seen.cluster(t.Name)))
	c.Registered, c.Known, c.Clash = told.Registered, told.Known, orDefault(told.Clash, c.Clash)
	return c
}

func (s *scope) connection(ctx context.Context, t v1alpha1.Target, ref kubeconfigRef) Connection {
	c := s.kubeconfig(ctx, t, ref)
	if c.usable() {
		var there neighbours
		there, c.Stray, c.ReadErr = s.clash(ctx, t, c)
		c.Clash, c.Namesake, c.Stale = there.clash, there.namesake, there.stale
	}
	return c
}

// kubeconfig reads that of a cluster.
func (s *scope) kubeconfig(ctx context.Context, t v1alpha1.Target, ref kubeconfigRef) Connection {
	c := Connection{kubeconfigRef: ref, Name: s.names.registration(t, s.seen.Clusters[t.Name])}
	if ref.Missing != "" {
		return c
	}
	secret, err := kube.Get(ctx, s.Live, argocd.SecretGVK, c.Secret)
	if apierrors.IsForbidden(err) && c.Authors { // where the manager has no rights of its own
		err = fmt.Errorf("%w; let it: %s", err, kube.SecretsCommand(c.Secret.Namespace, err))
	}
	if err != nil || secret == nil {
		c.ReadErr = err
		return c
	}
	kubeconfig, err := secretValue(secret, c.Key)
	if c.Keyless = errors.Is(err, errNoKey); c.Keyless {
		return c
	}
	c.Found, c.Err = true, err
	if err == nil {
		c.Credentials, c.Err = argocd.ParseKubeconfig(kubeconfig, c.Trust)
	}
	if c.Err == nil && c.Server != "" && !sameServer(c.Server, c.Credentials.Server) {
		c.Err = fmt.Errorf("it is for %s, and the status of the cluster says %s", c.Credentials.Server, c.Server)
	}
	return c
}

// usable says whether there is a kubeconfig that Argo CD can be given, and wrong whether there is one that it cannot be given, which
// somebody must mend. One that is not there may be yet to come.
func (c Connection) usable() bool { return c.Found && c.Err == nil }
func (c Connection) wrong() bool  { return c.Err != nil || c.Keyless }

// annotationKubeconfig is on a cluster Secret: where its kubeconfig is from.
const annotationKubeconfig = "experiments.illm.io/kubeconfig"

// labelServer is on a cluster Secret, too: a hash of the address of its API server, by which those of one cluster are found.
const labelServer = "experiments.illm.io/server"

func (r kubeconfigRef) source() string { return r.Secret.String() + "/" + r.Key }

// serverLabel is that label of a server.
func serverLabel(server string) string {
	sum := sha256.Sum256([]byte(argocd.Address(server)))
	return hex.EncodeToString(sum[:16])
}

// sameServer says whether two URLs are of one API server.
func sameServer(a, b string) bool {
	x, errX := url.Parse(a)
	y, errY := url.Parse(b)
	return errX == nil && errY == nil && host(x) == host(y) && cmp.Or(x.Port(), "443") == cmp.Or(y.Port(), "443")
}

// host is that of a URL in one of its spellings, of which an IPv6 address has several.
func host(u *url.URL) string {
	if ip := net.ParseIP(u.Hostname()); ip != nil {
		return ip.String()
	}
	return strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
}

// clash looks for a cluster Secret of somebody else's for the same cluster, with other credentials. Argo
// CD finds clusters by their addresses: it would use one of the two for both, and an Experiment must
// neither run with credentials that its author does not have nor have others run with its own. Nor may it
// have the name of another cluster, which an author can search for: of two of one name Argo CD uses neither.
//
// Authors may put any address into a kubeconfig, so all clusters are looked at, also those that somebody else has told Argo CD of. At
// the address of a cluster that they have no say in, an author can only have been by an Experiment.
//
// One that a pass over another target is about to register cannot be seen yet, and counts, too; one that another manager registers at
// the same moment is looked for afterwards (registeredTwice). Who was stopped before that finds its own beside the other's.
func (s *scope) clash(ctx context.Context, t v1alpha1.Target, c Connection) (there neighbours, stray *unstructured.Unstructured, err error) {
	own := s.names.clusterSecret(t)
	mine := registering{secret: own, owner: s.experiment.UID, source: c.source(), credentials: c.Credentials, until: s.now.Add(timeout)}
	if other, clashes := s.registrations.begin(mine, s.now); clashes {
		return neighbours{clash: kube.Describe(named(argocd.SecretGVK, other))}, nil, nil
	}
	there, err = s.clashing(ctx, own, c)
	if there.free() && err == nil {
		return there, nil, nil
	}
	there.stale = nil
	if s.registrations.giveUp(own); err == nil {
		stray, err = s.stray(ctx, t, there.mine)
	}
	return there, stray, err
}

// stray is a target's cluster Secret if nothing is deployed by it, which the server must say.
func (s *scope) stray(ctx context.Context, t v1alpha1.Target, secret *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if secret == nil || !marks.Owns(s.experiment, secret) || len(s.seen.Applications[t.Name]) > 0 {
		return nil, nil
	}
	apps, err := kube.List(ctx, s.Live, argocd.ApplicationGVK, client.InNamespace(s.Options.ArgoCDNamespace), marks.Selector(s.experiment))
	if err != nil || slices.ContainsFunc(apps, func(app unstructured.Unstructured) bool { return s.names.targetOf(&app) == t.Name }) {
		return nil, err
	}
	return secret, nil
}

// neighbours are the cluster Secrets that there are for one cluster.
type neighbours struct {
	// mine is the target's own; nil if there is none.
	mine *unstructured.Unstructured
	// clash names one of somebody else's, with other credentials; empty if there is none.
	clash string
	// namesake names one of another cluster by the name that the target's would have; empty if there is none.
	namesake string
	// stale are those of other Experiments that have the credentials of before, as they are to be.
	stale []*unstructured.Unstructured
}

// free says whether nothing of others keeps the cluster from being registered.
func (n neighbours) free() bool { return n.clash == "" && n.namesake == "" }

// clashing looks for such a Secret, first for the one that was in the way before, and where that is not as it was among those that there
// are, but for the target's own.
func (s *scope) clashing(ctx context.Context, own types.NamespacedName, c Connection) (there neighbours, err error) {
	if before, known := s.inTheWay.Get(own); known {
		if there, err = s.still(ctx, own, before.(obstacle), c); err != nil || !there.free() {
			return there, err
		}
		s.inTheWay.Remove(own)
	}
	secrets, err := s.sharing(ctx, c)
	if err != nil {
		return neighbours{}, err
	}
	there = neighbours{}
	if at := slices.IndexFunc(secrets, func(o unstructured.Unstructured) bool { return keyOf(&o) == own }); at >= 0 {
		there.mine = &secrets[at]
	}
	for i := range secrets {
		other := &secrets[i]
		if other == there.mine {
			continue
		}
		if s.compare(ctx, &there, other, c); !there.free() {
			s.inTheWay.Add(own, obstacle{keyOf(other), other.GetResourceVersion()})
			break
		}
	}
	return there, nil
}

// obstacle is a cluster Secret that kept a cluster from being registered, in the version that did. As long as it is there as it was, none
// of the others matters, and those of all clusters need not be listed every minute for each that waits.
type obstacle struct {
	secret  types.NamespacedName
	version string
}

// still is what such a Secret is to a cluster now: nothing where it is not as it was.
func (s *scope) still(ctx context.Context, own types.NamespacedName, before obstacle, c Connection) (there neighbours, err error) {
	other, err := kube.Get(ctx, s.Live, argocd.SecretGVK, before.secret)
	if err != nil || other == nil || other.GetResourceVersion() != before.version {
		return there, err
	}
	if there.mine, err = kube.Get(ctx, s.Live, argocd.SecretGVK, own); err == nil {
		s.compare(ctx, &there, other, c)
	}
	return there, err
}

// sharing are the cluster Secrets that a cluster may share its address, or its name, with, the target's own among them.
func (s *scope) sharing(ctx context.Context, c Connection) ([]unstructured.Unstructured, error) {
	var same []client.ListOption
	narrow := s.labelled.Load()
	switch {
	case c.Authors:
	case narrow:
		same = append(same, client.MatchingLabels{labelServer: serverLabel(c.Credentials.Server)})
	default: // those of older versions do not tell their server by a label before they are written again
		same = append(same, client.HasLabels{v1alpha1.LabelExperimentUID})
	}
	if narrow && !c.Authors && s.none(ctx, same...) {
		return nil, nil
	}
	secrets, err := s.clusterSecrets(ctx, same...)
	if err == nil && !narrow && !c.Authors && !slices.ContainsFunc(secrets, unlabelled) {
		s.labelled.Store(true)
	}
	return secrets, err
}

// compare adds what another cluster Secret is to a cluster, beside those that there are.
func (s *scope) compare(ctx context.Context, there *neighbours, other *unstructured.Unstructured, c Connection) {
	server, _ := secretValue(other, "server")
	config, _ := secretValue(other, "config")
	name, _ := secretValue(other, "name")
	switch {
	case string(name) == c.Name && argocd.Address(string(server)) != argocd.Address(c.Credentials.Server):
		there.namesake = kube.Describe(other)
	case !c.Credentials.Clash(string(server), config):
	case !s.renewed(ctx, there.mine, other, c):
		there.clash = kube.Describe(other)
	default:
		if stale := s.renewal(ctx, other, c); stale != nil {
			there.stale = append(there.stale, stale)
		}
	}
}

// renewal is the cluster Secret of another Experiment with the new credentials of its cluster; nil where it is not provably that. One
// that is over, or suspended, looks at nothing, and Argo CD would go on to use for both what that was registered with.
func (s *scope) renewal(ctx context.Context, stale *unstructured.Unstructured, c Connection) *unstructured.Unstructured {
	owner, requests := &v1alpha1.Experiment{}, marks.Request(stale)
	if marks.Owns(s.experiment, stale) || going(stale) || len(requests) == 0 || s.Client.Get(ctx, requests[0].NamespacedName, owner) != nil ||
		!marks.Owns(owner, stale) || !slices.Contains(names{owner, s.Options}.children(argocd.SecretGVK), keyOf(stale)) {
		return nil
	}
	fresh, err := argocd.Cluster{Credentials: c.Credentials}.Object()
	if err != nil {
		return nil // and so the target's own cannot be made, either
	}
	config, _, _ := unstructured.NestedString(fresh.Object, "data", "config")
	renewed := stale.DeepCopy()
	if err := unstructured.SetNestedField(renewed.Object, config, "data", "config"); err != nil {
		return nil
	}
	return renewed
}

// renewed says whether another cluster Secret is told of the new credentials of its cluster, too, when Argo CD is refused with those of
// before: it was made of the same kubeconfig, or it has the same credentials as the one of the target's own, and the kubeconfig that it
// was made of has the new ones by now. Each of those who have copies of one that was rotated would wait for the others otherwise.
func (s *scope) renewed(ctx context.Context, mine, other *unstructured.Unstructured, c Connection) bool {
	source := other.GetAnnotations()[annotationKubeconfig]
	if source != "" && source == c.source() {
		return true
	}
	parts := strings.Split(source, "/")
	if mine == nil || !marks.Owns(s.experiment, mine) || len(parts) != 3 {
		return false
	}
	before, _ := secretValue(mine, "config")
	if config, _ := secretValue(other, "config"); !bytes.Equal(before, config) {
		return false
	}
	secret, err := kube.Get(ctx, s.Live, argocd.SecretGVK, types.NamespacedName{Namespace: parts[0], Name: parts[1]})
	if err != nil || secret == nil {
		return false
	}
	kubeconfig, _ := secretValue(secret, parts[2])
	theirs, err := argocd.ParseKubeconfig(kubeconfig, c.Trust)
	return err == nil && theirs.Same(c.Credentials)
}

// unlabelled says that a cluster Secret of an Experiment's does not tell its server by a label.
func unlabelled(secret unstructured.Unstructured) bool { return secret.GetLabels()[labelServer] == "" }

// registeredTwice looks once more when a cluster has been registered, where several managers share the Experiments between them:
// another may have registered it at the same moment. Whoever sees the other's takes his own back before anything is deployed there,
// and tries again; it may be both, of which the first to come back is the one.
func (s *scope) registeredTwice(ctx context.Context, writer kube.Writer, target string, secret *unstructured.Unstructured) error {
	if len(s.Options.WatchNamespaces) == 0 {
		return nil
	}
	there, err := s.clashing(ctx, keyOf(secret), s.seen.Connections[target])
	if there.clash == "" || err != nil { // who cannot look is as who was stopped before it
		return err
	}
	if err := writer.Delete(ctx, secret); err != nil {
		return err
	}
	return fmt.Errorf("registering a cluster that %s registers, too: %w", there.clash, kube.Stale(secret, "it was taken back"))
}

// clusterSecrets are what Argo CD knows clusters by, all or some.
func (s *scope) clusterSecrets(ctx context.Context, some ...client.ListOption) ([]unstructured.Unstructured, error) {
	some = append(some, client.InNamespace(s.Options.ArgoCDNamespace), client.MatchingLabels(argocd.ClusterLabels()))
	secrets, version, err := kube.ListAt(ctx, s.Live, argocd.SecretGVK, some...)
	if err == nil {
		s.registrations.saw(version)
	}
	return secrets, err
}

// none says that Experiments have made no such cluster Secrets, by what the API server has in its cache, which is at least what this
// manager has written, and seen. A list of this moment has the server wait until its cache is as far as etcd is with all kinds, of which
// it asks every 100 ms at most (k8s.io/apiserver/pkg/storage/cacher/progress), and is for where there may be any, and where other
// managers make some.
func (s *scope) none(ctx context.Context, some ...client.ListOption) bool {
	version := s.registrations.version()
	if version == "" || len(s.Options.WatchNamespaces) > 0 {
		return false
	}
	secrets, err := s.clusterSecrets(ctx, append(some, &client.ListOptions{Raw: &metav1.ListOptions{
		ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}})...)
	if err != nil { // the server may have been put back to before that
		s.registrations.forget()
	}
	return err == nil && len(secrets) == 0
}

// observeTemplate looks for the template while no Workflow has been submitted. The cache
// is enough: a template that goes at the moment of the submission, after any look, is an error of
// the Workflow. That there is none is asked live where something takes its place.
func (s *scope) observeTemplate(ctx context.Context) error {
	kinds := s.seen.Kinds
	template, key := s.names.template()
	recorded := s.experiment.Status.Workflow
	if s.names.unwatched() || recorded != nil && !recorded.Superseded || s.seen.Workflow != nil || kinds[argoworkflows.WorkflowGVK] != kube.KindServed || kinds[template] != kube.KindServed {
		return nil
	}
	found, err := kube.Get(ctx, s.Foreign, template, key)
	if found == nil && err == nil && waitsForPerson(s.experiment) {
		// What takes its place is submitted for good, and the cache may be behind.
		found, err = kube.Get(ctx, s.Live, template, key)
	}
	if found != nil {
		s.seen.TemplateFound, s.seen.TemplateCreated, s.seen.Parameters = true, found.GetCreationTimestamp().Time, argoworkflows.Parameters(found)
	}
	return err
}

// observeTeardown looks live for what the cache cannot tell: of kinds that it does not have
// yet, and, when it has nothing left that goes first, of all.
func (s *scope) observeTeardown(ctx context.Context) error {
	s.seen.Leftovers = map[schema.GroupVersionKind][]unstructured.Unstructured{}
	if err := s.restoreStart(ctx); err != nil || s.experiment.Status.StartedAt == nil {
		return err // nothing was ever created
	}
	if err := errors.Join(s.observeUncached(ctx), s.observeNeeding(ctx)); err != nil {
		return err
	}
	s.observeDeployed(ctx)
	if d := (&demolition{facts: s.facts()}); d.takeFirst() {
		return nil
	}
	served := !slices.ContainsFunc(s.neededKinds(), func(gvk schema.GroupVersionKind) bool { return s.seen.Kinds[gvk] != kube.KindServed })
	cached, err := s.observeLast(ctx)
	if err != nil {
		return err
	}
	if !cached || !served || s.facts().overdue() { // else what goes wakes, and everything is listed when nothing is left, or before it is given up
		if err := s.observeEverything(ctx); err != nil {
			return err
		}
		return s.observeKept(ctx)
	}
	s.observePreferred(ctx)
	if err := s.observeKept(ctx); err != nil || len(s.seen.Kept) == 0 {
		return err
	}
	return s.observeEverything(ctx) // what is kept does not go, and wakes nobody
}

// observeEverything lists everything live.
func (s *scope) observeEverything(ctx context.Context) error {
	known := s.seen.Workflow != nil || len(s.seen.Applications) > 0
	if err := s.leftovers(ctx, s.everyKind()...); err != nil {
		return err
	}
	s.seen.Unseen = s.seen.Unseen || !known
	s.observeFormer(ctx)
	s.observePreferred(ctx)
	return nil
}

// observePreferred takes in what was listed of what goes first, and in its order.
func (s *scope) observePreferred(ctx context.Context) {
	if s.preferListed() {
		s.seen.Unseen = true
		s.observeDeployed(ctx)
	}
}

// observeDeployed looks what Applications that go would leave, or could not go without.
func (s *scope) observeDeployed(ctx context.Context) {
	s.observeClusterless(ctx)
	s.observeDisconnected(ctx)
}

// observeFormer looks for what another Experiment of the same name has left, one whose finalizer somebody has taken off, or that this
// one was restored from: what clusters are made by, and Applications on those of others. Nothing is done with it, but somebody pays for
// it. The cache is enough: nothing rests on it.
func (s *scope) observeFormer(ctx context.Context) {
	if s.part {
		return
	}
	key := client.ObjectKeyFromObject(s.experiment)
	for _, gvk := range leavable() {
		if s.Kinds.State(gvk) != kube.KindServed {
			continue
		}
		found, _ := kube.List(ctx, s.Foreign, gvk, client.MatchingFields{indexNamed: key.String()})
		s.seen.Former = append(s.seen.Former, slices.DeleteFunc(found, func(o unstructured.Unstructured) bool {
			return marks.Owns(s.experiment, &o) || going(&o) || !s.namesOf(key, &o).forsakes(&o)
		})...)
	}
}

// observeKept looks whether somebody has the object that stands for a cluster, where that is not left. What machines are made by is not
// deleted under a cluster that stays; and one that is made by a single object, and was not asked to go, would stay with nobody told.
func (s *scope) observeKept(ctx context.Context) error {
	s.seen.Kept = map[string]*unstructured.Unstructured{}
	for _, t := range s.experiment.Spec.Targets {
		objects := s.names.clusterObjects(t)
		switch {
		case len(objects) == 0 || s.seen.leftOf(objects[0]) != nil:
			continue
		case len(objects) == 1 && (s.seen.leaves() && !s.facts().overdue() || s.awaits(objects[0])):
			continue
		case len(objects) > 1 && !s.asksNext(t, objects[1:]):
			continue
		}
		gvk, key := objects[0].GroupVersionKind(), keyOf(objects[0])
		standing, err := kube.Get(ctx, s.Live, gvk, key)
		switch {
		case meta.IsNoMatchError(err):
		case err != nil && !s.tolerated(ctx, gvk, reading(gvk)+key.String(), err):
			return err
		case standing != nil && !marks.Owns(s.experiment, standing):
			s.seen.Kept[t.Name] = standing
		}
	}
	return nil
}

// asksNext says whether anything is asked to go now of what the cluster of a target is made by, and not the object that stands for it,
// or when that has gone the namespace that it was in.
func (s *scope) asksNext(t v1alpha1.Target, objects []*unstructured.Unstructured) bool {
	stays := func(o *unstructured.Unstructured) bool { return o != nil && !going(o) }
	gone := true
	for _, o := range objects {
		left := s.seen.leftOf(o)
		if stays(left) {
			return true
		}
		gone = gone && left == nil
	}
	return gone && stays(s.seen.leftOf(named(namespaceGVK, types.NamespacedName{Name: s.names.onHub(t)})))
}

// awaits says whether the status says of an object that it was asked to go.
func (s *scope) awaits(o *unstructured.Unstructured) bool {
	t := s.experiment.Status.Teardown
	return t != nil && slices.ContainsFunc(t.WaitsFor, func(w v1alpha1.Waiting) bool { return w.Object == kube.Describe(o) })
}

// leaves says whether anything is left of a teardown's.
func (o Observed) leaves() bool {
	for _, left := range o.Leftovers {
		if len(left) > 0 {
			return true
		}
	}
	return false
}

// leftOf is an object of a teardown's as it was seen; nil if it was not.
func (o Observed) leftOf(object *unstructured.Unstructured) *unstructured.Unstructured {
	found := o.Leftovers[object.GroupVersionKind()]
	if at := slices.IndexFunc(found, func(l unstructured.Unstructured) bool { return keyOf(&l) == keyOf(object) }); at >= 0 {
		return &found[at]
	}
	return nil
}

// observeUncached looks live for what goes first, of kinds that the cache does not have.
func (s *scope) observeUncached(ctx context.Context) error {
	workflows, apps := argoworkflows.WorkflowGVK, argocd.ApplicationGVK
	if !s.part && s.seen.Kinds[workflows] != kube.KindServed {
		s.seen.Unseen = true
		if err := s.leftovers(ctx, workflows); err != nil {
			return err
		}
	}
	if s.seen.Kinds[apps] == kube.KindServed {
		return nil
	}
	s.seen.Unseen = true
	if err := s.leftovers(ctx, apps); err != nil {
		return err
	}
	s.preferListed()
	return nil
}

// observeNeeding looks live, before Applications are asked to go, for what goes before them and the cache does not have.
func (s *scope) observeNeeding(ctx context.Context) error {
	next := &demolition{facts: s.facts()}
	next.takeFirst()
	kinds := slices.DeleteFunc(next.unseenNeeds(), func(gvk schema.GroupVersionKind) bool { return s.seen.Kinds[gvk] != kube.KindServed }) // which has been listed
	if err := s.leftovers(ctx, kinds...); err != nil {
		return err
	}
	s.seen.Unseen = s.preferListed() || s.seen.Unseen
	return nil
}

// preferListed has what live lists have found take the place of what the cache has of what goes first, and says whether there are
// Applications that this does not have. What is gone is neither waited for nor told of as left.
func (s *scope) preferListed() (added bool) {
	if _, listed := s.seen.Leftovers[argoworkflows.WorkflowGVK]; listed && s.seen.Workflow != nil {
		s.seen.Workflow = s.seen.leftOf(s.seen.Workflow)
	}
	listed, looked := s.seen.Leftovers[argocd.ApplicationGVK]
	if !looked {
		return false
	}
	cached := s.seen.Applications
	s.seen.Applications = map[string][]*unstructured.Unstructured{}
	for _, app := range listed {
		target := s.names.targetOf(&app)
		s.seen.Applications[target] = append(s.seen.Applications[target], &app)
		added = added || !slices.ContainsFunc(cached[target], func(seen *unstructured.Unstructured) bool { return keyOf(seen) == keyOf(&app) })
	}
	return added
}

// restoreStart makes the record of the start anew where somebody has taken it away and there are any of the Experiment's children.
// The cache says so, and where the whole status is empty, in which a start would stand, the server: of an Experiment that has the
// finalizer, and so was looked at before. While that is not known, nothing is written by which the status would not be empty.
func (s *scope) restoreStart(ctx context.Context) error {
	if s.experiment.Status.StartedAt != nil {
		return nil
	}
	found := s.seen.Workflow != nil || s.seen.begun()
	if !found && s.experiment.Status.Phase == "" && !s.known {
		s.seen.Leftovers = map[schema.GroupVersionKind][]unstructured.Unstructured{}
		if err := s.leftovers(ctx, s.everyKind()...); err != nil {
			return err
		}
		found = len(s.seen.Hidden)+len(s.seen.Unreadable) > 0 || s.seen.leaves()
		clear(s.seen.Leftovers) // what there is is looked for in its order
	}
	if s.known = true; found {
		s.experiment.Status.StartedAt, s.experiment.Status.Namespaces = timestamp(s.now), ptr.To(s.names.namespaces())
	}
	return nil
}

// everyKind are the kinds of all that the Experiment may have.
func (s *scope) everyKind() []schema.GroupVersionKind {
	return slices.Concat(s.neededKinds(), s.names.copyKinds(), []schema.GroupVersionKind{argocd.SecretGVK, namespaceGVK})
}

// observeLast looks, where it costs little, for what goes last: clusters and namespaces in the
// cache and cluster Secrets by their names. Before any of it is deleted, live lists must prove
// that what needs it is gone. found says that a cluster or namespace is left: whoever sees it go
// looks again, and lists everything then.
func (s *scope) observeLast(ctx context.Context) (found bool, err error) {
	last, prior, err := s.lastCached(ctx)
	if err != nil || len(last) == 0 {
		return false, err
	}
	for _, t := range s.experiment.Spec.Targets {
		if t.Cluster.Type == v1alpha1.ClusterHub || refers(t) {
			continue
		}
		secret, err := s.clusterSecret(ctx, t)
		if err != nil {
			return false, err
		}
		if secret != nil {
			last = append(last, secret)
		}
	}
	d := &demolition{facts: s.facts()}
	staying := false
	for _, o := range last {
		gvk := o.GroupVersionKind()
		s.seen.Leftovers[gvk] = append(s.seen.Leftovers[gvk], *o)
		staying = staying || !going(o) && d.connects(*o) == nil
	}
	if staying {
		return true, s.leftovers(ctx, prior...)
	}
	return true, nil
}

// lastCached are the clusters and namespaces that the cache has, and the kinds of what goes before them.
func (s *scope) lastCached(ctx context.Context) (last []*unstructured.Unstructured, prior []schema.GroupVersionKind, err error) {
	prior = s.firstKinds()
	for _, t := range s.experiment.Spec.Targets {
		made := slices.DeleteFunc(slices.Clone(s.seen.Clusters[t.Name]), func(o *unstructured.Unstructured) bool { return o == nil })
		last = append(last, made...)
		namespace, err := s.namespaceOnHub(ctx, t)
		if err != nil {
			return nil, nil, err
		}
		if namespace == nil {
			continue
		}
		if last = append(last, namespace); len(made) == 0 {
			prior = union(prior, providerOf(t).kinds())
		}
	}
	return last, prior, nil
}

// firstKinds are those of what goes before the clusters.
func (s *scope) firstKinds() []schema.GroupVersionKind {
	if s.part {
		return []schema.GroupVersionKind{argocd.ApplicationGVK}
	}
	return []schema.GroupVersionKind{argoworkflows.WorkflowGVK, argocd.ApplicationGVK}
}

// clusterSecret is the registration of a target's cluster; nil, too, where a teardown has to do without
// what it cannot read.
func (s *scope) clusterSecret(ctx context.Context, t v1alpha1.Target) (*unstructured.Unstructured, error) {
	secret, err := s.owned(kube.Get(ctx, s.Live, argocd.SecretGVK, s.names.clusterSecret(t)))
	if s.tolerated(ctx, argocd.SecretGVK, reading(argocd.SecretGVK)+s.names.clusterSecret(t).String(), err) {
		return nil, nil
	}
	return secret, err
}

// namespaceOnHub is the metadata of the namespace that a target has on the hub, as the cache has it.
func (s *scope) namespaceOnHub(ctx context.Context, t v1alpha1.Target) (*unstructured.Unstructured, error) {
	name := s.names.onHub(t)
	if name == "" {
		return nil, nil
	}
	m := kube.Metadata(namespaceGVK)
	if err := s.Client.Get(ctx, types.NamespacedName{Name: name}, m); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(m)
	return s.owned(&unstructured.Unstructured{Object: content}, err)
}

// tolerated says whether a teardown has to do without what it cannot read of a kind: it has tried for a
// quarter of the deadline. Refusals know it by what it is: that one object can be read says nothing of others, or of a list.
func (s *scope) tolerated(ctx context.Context, gvk schema.GroupVersionKind, what string, err error) bool {
	s.refusals.note(ctx, s.experiment, what, err, s.now)
	d := &demolition{facts: s.facts()}
	if err == nil || !d.over(d.refused[what].since, 4) {
		return false
	}
	if s.seen.Unreadable == nil {
		s.seen.Unreadable = map[schema.GroupVersionKind]error{}
	}
	s.seen.Unreadable[gvk] = err
	return true
}

// hide notes that a kind is not served in the version that there may be some of it in, and since when.
func (s *scope) hide(ctx context.Context, gvk schema.GroupVersionKind) {
	s.refusals.note(ctx, s.experiment, gvk.GroupKind().String(), errors.New(hidden(gvk)), s.now)
	s.seen.Hidden = append(s.seen.Hidden, gvk)
}

// otherVersion says whether the cluster serves the kind of a copy in another version than that, in which
// there may be some. Of the kinds that are watched their CustomResourceDefinitions say so.
func (s *scope) otherVersion(gvk schema.GroupVersionKind) bool {
	if !slices.Contains(s.names.copyKinds(), gvk) {
		return false
	}
	mappings, err := s.Live.RESTMapper().RESTMappings(gvk.GroupKind())
	return err == nil && slices.ContainsFunc(mappings, func(m *meta.RESTMapping) bool { return m.GroupVersionKind != gvk })
}

// leftovers lists live what there is of the Experiment's children. That a kind is not served at all
// proves that there are none of it, and the server must say so.
func (s *scope) leftovers(ctx context.Context, kinds ...schema.GroupVersionKind) error {
	for _, gvk := range kinds {
		namespace, ours := s.names.namespaceOf(gvk)
		state, foreign := s.seen.Kinds[gvk] // missing, too, for a kind of copies, which are not watched
		foreign = foreign || slices.Contains(s.names.copyKinds(), gvk)
		switch {
		case !ours:
			continue
		case foreign && state == kube.KindUnserved:
			s.hide(ctx, gvk)
			continue
		}
		found, err := kube.List(ctx, s.Live, gvk, client.InNamespace(namespace), marks.Selector(s.experiment))
		switch {
		case err == nil:
			s.refusals.note(ctx, s.experiment, gvk.GroupKind().String(), nil, s.now)
		case foreign && state == kube.KindMissing && (meta.IsNoMatchError(err) || apierrors.IsNotFound(err)):
			if s.otherVersion(gvk) {
				s.hide(ctx, gvk)
			}
			continue
		case s.tolerated(ctx, gvk, gvk.GroupKind().String(), err):
			continue
		default:
			return err
		}
		children := s.names.children(gvk)
		s.seen.Leftovers[gvk] = slices.DeleteFunc(found, func(o unstructured.Unstructured) bool {
			return !slices.Contains(children, client.ObjectKeyFromObject(&o)) && !s.names.ofComponent(&o) && !s.names.ofRun(&o)
		})
	}
	return nil
}
