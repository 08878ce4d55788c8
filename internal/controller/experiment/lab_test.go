package experiment

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/argoworkflows"
	"github.com/labkeeper/labkeeper/internal/external/arlon"
	"github.com/labkeeper/labkeeper/internal/external/capi"
	"github.com/labkeeper/labkeeper/internal/external/crossplane"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/test/fakes"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

var foreignKinds = []schema.GroupVersionKind{
	crossplane.GKEClusterGVK, capi.ClusterGVK, capi.VClusterGVK, argocd.ApplicationGVK, argocd.SecretGVK, argoworkflows.WorkflowGVK, argoworkflows.WorkflowTemplateGVK,
	argoworkflows.ClusterWorkflowTemplateGVK, kube.RoleBindingGVK, capi.TalosControlPlaneGVK, capi.TalosConfigTemplateGVK, capi.MachineDeploymentGVK, arlon.ClusterGVK,
}

// Kinds that nobody knows before a user names them.
var (
	dockerClusterGVK         = schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1", Kind: "DockerCluster"}
	dockerClusterTemplateGVK = dockerClusterGVK.GroupVersion().WithKind("DockerClusterTemplate")
	dockerMachineTemplateGVK = dockerClusterGVK.GroupVersion().WithKind("DockerMachineTemplate")
)

const kubeconfig = `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://203.0.113.10", certificate-authority-data: Y2E=}}]
users: [{name: u, user: {token: canary-token}}]
`

// lab is an API server in memory, a reconciler and a world that plays the outside systems.
type lab struct {
	t          *testing.T
	client     client.Client
	reconciler *Reconciler
	clock      *clocktesting.FakePassiveClock
	recorder   *events.FakeRecorder
	kinds      kindStates
	experiment types.NamespacedName

	// writes are what the reconciler has written, as "verb Kind".
	writes []string
	// failAt is the number of the write that fails, from 1; failWith is how. committed
	// says whether the write takes place before its answer is lost.
	failAt    int
	failWith  error
	committed bool
	// composites: Crossplane takes GKEClusters for namespaced composites.
	composites bool
	// stuck is a kind of which nothing is let go.
	stuck string
	// foreground are the kinds of what was deleted in the foreground.
	foreground []string
	// refuse says why a write does not take place; it may be nil.
	refuse func(verb, kind string) error
	// getErrors and listErrors by kind.
	getErrors, listErrors map[string]error
	armed                 bool
}

type kindStates map[schema.GroupVersionKind]kube.KindState

func (k kindStates) State(gvk schema.GroupVersionKind) kube.KindState { return k[gvk] }

// indexed has the indexes of the caches.
func indexed(b *fake.ClientBuilder) *fake.ClientBuilder {
	for _, gvk := range leavable() {
		b = b.WithIndex(object(gvk, "", ""), indexNamed, namedOwner)
	}
	return b.WithIndex(object(argocd.ApplicationGVK, "", ""), indexOwner, componentOwner).
		WithIndex(object(argoworkflows.WorkflowGVK, "", ""), indexOwner, runOwner)
}

func newLab(t *testing.T, objects ...client.Object) *lab {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(s), v1alpha1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Group: dockerClusterGVK.Group, Version: "v1beta2"}})
	for _, gvk := range foreignKinds {
		if gvk != argoworkflows.ClusterWorkflowTemplateGVK {
			mapper.Add(gvk, meta.RESTScopeNamespace)
		}
	}
	for _, gvk := range []schema.GroupVersionKind{dockerClusterGVK, dockerClusterTemplateGVK, dockerMachineTemplateGVK} {
		mapper.Add(gvk, meta.RESTScopeNamespace)
	}
	mapper.Add(dockerClusterGVK.GroupKind().WithVersion("v1beta2"), meta.RESTScopeNamespace)
	mapper.Add(argoworkflows.ClusterWorkflowTemplateGVK, meta.RESTScopeRoot)
	mapper.Add(namespaceGVK, meta.RESTScopeRoot)
	mapper.Add(v1alpha1.GroupVersion.WithKind("Experiment"), meta.RESTScopeNamespace)
	mapper.Add(v1alpha1.GroupVersion.WithKind("Component"), meta.RESTScopeRoot)

	l := &lab{t: t, clock: clocktesting.NewFakePassiveClock(epoch), recorder: events.NewFakeRecorder(1000), kinds: kindStates{},
		getErrors: map[string]error{}, listErrors: map[string]error{}}
	for _, gvk := range foreignKinds {
		l.kinds[gvk] = kube.KindServed
	}
	for _, o := range objects {
		if e, ok := o.(*v1alpha1.Experiment); ok {
			l.experiment = client.ObjectKeyFromObject(e)
		}
	}
	objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "lab"}})
	l.client = indexed(fakes.NewClientBuilder()).WithScheme(s).WithRESTMapper(mapper).
		WithStatusSubresource(&v1alpha1.Experiment{}).WithObjects(objects...).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if err := l.getErrors[kindOf(o)]; err != nil && l.armed {
					return err
				}
				return c.Get(ctx, key, o, opts...)
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				kind := strings.TrimSuffix(list.GetObjectKind().GroupVersionKind().Kind, "List")
				if err := l.listErrors[kind]; err != nil && l.armed {
					return err
				}
				return c.List(ctx, list, opts...)
			},
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if review, ok := o.(*authenticationv1.SelfSubjectReview); ok {
					review.Status.UserInfo.Username = "system:serviceaccount:labkeeper-system:labkeeper-controller-manager"
					return nil
				}
				return l.write("create", kindOf(o), func() error {
					o.SetUID(cmp.Or(o.GetUID(), types.UID(fmt.Sprintf("uid-%s-%d", o.GetName(), len(l.writes)))))
					return c.Create(ctx, o, opts...)
				})
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				if p := (&client.DeleteOptions{}).ApplyOptions(opts).PropagationPolicy; p != nil && *p == metav1.DeletePropagationForeground {
					l.foreground = append(l.foreground, kindOf(o))
				}
				return l.write("delete", kindOf(o), func() error { return c.Delete(ctx, o, opts...) })
			},
			Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
				return l.write("update", kindOf(o), func() error { return c.Update(ctx, o, opts...) })
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				return l.write("patch", kindOf(o), func() error { return c.Patch(ctx, o, p, opts...) })
			},
			Apply: func(ctx context.Context, c client.WithWatch, a runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
				return l.write("apply", "object", func() error { return c.Apply(ctx, a, opts...) })
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				return l.write("patch", kindOf(o)+"/"+sub, func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
			},
			SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
				return l.write("update", kindOf(o)+"/"+sub, func() error { return c.SubResource(sub).Update(ctx, o, opts...) })
			},
		}).Build()
	l.reconciler = &Reconciler{
		Client: l.client, Foreign: l.client, Live: l.client, Kinds: l.kinds, Recorder: l.recorder, Clock: l.clock,
		Gate: kube.NewGate(1), memory: newMemory(),
		Options: Options{
			ArgoCDNamespace: "argocd", ArgoCDProject: "default", WorkflowNamespace: "argo",
			WorkflowServiceAccount: "argo-workflow", CrossplaneNamespace: "crossplane-system", OrphansNamespace: "labkeeper-system", VClusterValues: true,
			HubPodSecurity: "baseline",
		},
	}
	return l
}

func kindOf(o client.Object) string {
	switch o := o.(type) {
	case *v1alpha1.Experiment:
		return "Experiment"
	case *v1alpha1.Component:
		return "Component"
	default:
		return o.GetObjectKind().GroupVersionKind().Kind
	}
}

// write counts a write of the reconciler and makes it fail if it is its turn.
func (l *lab) write(verb, kind string, do func() error) error {
	if !l.armed {
		return do()
	}
	if l.refuse != nil {
		if err := l.refuse(verb, kind); err != nil {
			return err
		}
	}
	l.writes = append(l.writes, verb+" "+kind)
	if len(l.writes) != l.failAt {
		return do()
	}
	if l.committed {
		if err := do(); err != nil {
			return err
		}
	}
	return l.failWith
}

// forbid refuses the writes of a verb, empty for all, on a kind.
func (l *lab) forbid(verb, kind string) {
	l.refuse = func(v, k string) error {
		if k == kind && (verb == "" || v == verb) {
			return apierrors.NewForbidden(schema.GroupResource{Resource: kind}, "x", errors.New("no rights"))
		}
		return nil
	}
}

// experimentOf is an Experiment that has just been created.
func experimentOf(targets ...v1alpha1.Target) *v1alpha1.Experiment {
	return &v1alpha1.Experiment{
		ObjectMeta: metav1.ObjectMeta{
			Name: "tutorial", Namespace: "lab", UID: "11111111-2222-3333-4444-555555555555",
			Generation: 1, CreationTimestamp: metav1.NewTime(epoch),
		},
		Spec: v1alpha1.ExperimentSpec{
			Targets:  targets,
			Workflow: v1alpha1.WorkflowSpec{Template: "validation", Completion: v1alpha1.Completion{Mode: v1alpha1.CompletionWorkflow}},
			TTLDays:  1,
		},
	}
}

func targetOf(name string, cluster v1alpha1.ClusterType, depends ...string) v1alpha1.Target {
	return v1alpha1.Target{
		Name: name, Cluster: v1alpha1.ClusterSpec{Type: cluster}, Depends: depends,
		Components: []v1alpha1.ComponentRef{{App: "nginx"}},
	}
}

func nginx() *v1alpha1.Component {
	return &v1alpha1.Component{
		ObjectMeta: metav1.ObjectMeta{Name: "nginx"},
		Spec: v1alpha1.ComponentSpec{
			Type:    v1alpha1.ComponentApp,
			Sources: []v1alpha1.ComponentSource{{RepoURL: "https://charts.example.com", Chart: "nginx", TargetRevision: "1.2.3"}},
		},
	}
}

func template() *unstructured.Unstructured {
	u := object(argoworkflows.WorkflowTemplateGVK, "argo", "validation")
	u.Object["spec"] = map[string]any{}
	return u
}

func object(gvk schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// reconcile runs passes until none asks for another at once.
func (l *lab) reconcile() error {
	l.t.Helper()
	l.armed = true
	defer func() { l.armed = false }()
	r := kube.QuietConflicts(l.reconciler.reconciler())
	for range 20 {
		result, err := r.Reconcile(l.t.Context(), reconcile.Request{NamespacedName: l.experiment})
		if err != nil {
			return err
		}
		if result.RequeueAfter == 0 || result.RequeueAfter >= time.Second {
			return nil
		}
	}
	l.t.Fatal("the reconciler asks for another pass again and again")
	return nil
}

// pass runs one pass, and returns when it wants to look again.
func (l *lab) pass() time.Duration {
	l.t.Helper()
	l.armed = true
	defer func() { l.armed = false }()
	result, err := l.reconciler.Reconcile(l.t.Context(), l.get())
	if err != nil {
		l.t.Fatal(err)
	}
	return result.RequeueAfter
}

// settle lets the reconciler and the world take turns until neither has anything to do.
func (l *lab) settle(world func() bool) {
	l.t.Helper()
	for range 60 {
		before := len(l.writes)
		err := l.reconcile()
		if moved := world(); !moved && err == nil && len(l.writes) == before {
			return
		}
	}
	l.t.Fatalf("it does not settle; writes: %v", l.writes)
}

// get is the Experiment as it is stored; nil when it is gone.
func (l *lab) get() *v1alpha1.Experiment {
	l.t.Helper()
	e := &v1alpha1.Experiment{}
	if err := l.client.Get(l.t.Context(), l.experiment, e); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		l.t.Fatal(err)
	}
	return e
}

func (l *lab) list(gvk schema.GroupVersionKind) []unstructured.Unstructured {
	l.t.Helper()
	items, err := kube.List(l.t.Context(), l.client, gvk, client.HasLabels{v1alpha1.LabelExperimentUID})
	if err != nil {
		l.t.Fatal(err)
	}
	return items
}

func (l *lab) create(o client.Object) {
	l.t.Helper()
	if err := l.client.Create(l.t.Context(), o); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) update(o client.Object) {
	l.t.Helper()
	if err := l.client.Update(l.t.Context(), o); err != nil {
		l.t.Fatal(err)
	}
}

// annotateNamespace changes the Namespace of the Experiment as whoever bounds it would.
func (l *lab) annotateNamespace(key, value string) {
	l.t.Helper()
	namespace := &corev1.Namespace{}
	if err := l.client.Get(l.t.Context(), types.NamespacedName{Name: l.experiment.Namespace}, namespace); err != nil {
		l.t.Fatal(err)
	}
	namespace.Annotations = map[string]string{key: value}
	l.update(namespace)
}

// edit changes the Experiment as its user would.
func (l *lab) edit(change func(*v1alpha1.Experiment)) {
	l.t.Helper()
	e := l.get()
	change(e)
	e.Generation++
	l.update(e)
}

// play moves every outside object one step towards the good end, and says whether anything
// moved.
func (l *lab) play() bool {
	moved := false
	for _, claim := range l.list(crossplane.GKEClusterGVK) {
		moved = l.finalize(&claim) || l.readyClaim(&claim) || moved
	}
	for _, cluster := range l.list(capi.ClusterGVK) {
		moved = l.deleteCluster(&cluster) || l.readyCluster(&cluster) || moved
	}
	moved = l.deploy() || moved
	for _, workflow := range l.list(argoworkflows.WorkflowGVK) {
		moved = l.succeed(&workflow) || moved
	}
	return moved
}

// deploy plays Argo CD, and what Argo Workflows lets go: no Workflow ends.
func (l *lab) deploy() bool {
	moved := false
	for _, app := range l.list(argocd.ApplicationGVK) {
		moved = l.finalize(&app) || l.appIs(&app, "Healthy") || moved
	}
	for _, workflow := range l.list(argoworkflows.WorkflowGVK) {
		moved = l.finalize(&workflow) || moved
	}
	return moved
}

// finalize ends a deletion that waits for a foreign finalizer.
func (l *lab) finalize(o *unstructured.Unstructured) bool {
	if o.GetDeletionTimestamp() == nil || o.GetKind() == l.stuck {
		return false
	}
	o.SetFinalizers(nil)
	l.update(o)
	return true
}

// letGo ends the deletions of the outside objects that are allowed to go, and plays nothing else.
func (l *lab) letGo(allowed func(*unstructured.Unstructured) bool) bool {
	moved := false
	for _, gvk := range []schema.GroupVersionKind{crossplane.GKEClusterGVK, argocd.ApplicationGVK, argoworkflows.WorkflowGVK} {
		for _, o := range l.list(gvk) {
			moved = allowed(&o) && l.finalize(&o) || moved
		}
	}
	return moved
}

func (l *lab) readyClaim(claim *unstructured.Unstructured) bool {
	if claim.GetDeletionTimestamp() != nil || crossplane.ReadClaim(claim).Ready {
		return false
	}
	composite, namespace := claim.GetName()+"-x", "crossplane-system"
	if l.composites {
		composite, namespace = claim.GetName(), claim.GetNamespace()
		_ = unstructured.SetNestedMap(claim.Object, map[string]any{"compositionRef": map[string]any{"name": "gkeclusters.illm.io"}}, "spec", "crossplane")
	} else {
		_ = unstructured.SetNestedField(claim.Object, composite, "spec", "resourceRef", "name")
	}
	claimIs(claim, "True", "True", "Available", "")
	_ = unstructured.SetNestedField(claim.Object, "203.0.113.10", "status", "endpoint")
	claim.SetFinalizers([]string{"finalizer.apiextensions.crossplane.io"})
	l.update(claim)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: composite + "-cluster-conn"},
		Data:       map[string][]byte{"kubeconfig": []byte(kubeconfig)},
	}
	if err := l.client.Create(l.t.Context(), secret); err != nil && !apierrors.IsAlreadyExists(err) {
		l.t.Fatal(err)
	}
	return true
}

// readyCluster plays Cluster API and the provider of virtual clusters.
func (l *lab) readyCluster(cluster *unstructured.Unstructured) bool {
	if cluster.GetDeletionTimestamp() != nil || capi.ReadCluster(cluster).Ready || len(l.list(capi.VClusterGVK))+len(l.list(capi.MachineDeploymentGVK)) == 0 {
		return false
	}
	_ = unstructured.SetNestedMap(cluster.Object, map[string]any{"host": "203.0.113.10", "port": int64(443)}, "spec", "controlPlaneEndpoint")
	_ = unstructured.SetNestedMap(cluster.Object, map[string]any{"infrastructureProvisioned": true, "controlPlaneInitialized": true}, "status", "initialization")
	cluster.SetFinalizers([]string{"cluster.cluster.x-k8s.io"})
	for gvk, says := range map[schema.GroupVersionKind]string{capi.VClusterGVK: "ready", capi.TalosControlPlaneGVK: "initialized"} {
		for _, o := range l.list(gvk) {
			_ = unstructured.SetNestedField(o.Object, true, "status", says)
			l.update(&o)
		}
	}
	l.update(cluster)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.GetNamespace(), Name: cluster.GetName() + "-kubeconfig"}, Data: map[string][]byte{"value": []byte(kubeconfig)}}
	if err := l.client.Create(l.t.Context(), secret); err != nil && !apierrors.IsAlreadyExists(err) {
		l.t.Fatal(err)
	}
	return true
}

// deleteCluster plays the deletion of a Cluster, which leaves the object of its provider.
func (l *lab) deleteCluster(cluster *unstructured.Unstructured) bool {
	if cluster.GetDeletionTimestamp() == nil || cluster.GetKind() == l.stuck {
		return false
	}
	if len(l.list(argocd.ApplicationGVK)) > 0 && l.stuck != argocd.ApplicationGVK.Kind {
		l.t.Error("a Cluster is deleted before its Application")
	}
	if len(l.list(capi.TalosControlPlaneGVK)) > 0 {
		// What Cluster API takes down itself.
		for _, gvk := range []schema.GroupVersionKind{capi.MachineDeploymentGVK, capi.TalosControlPlaneGVK, dockerClusterGVK} {
			l.delete(gvk)
		}
		return l.finalize(cluster)
	}
	vclusters := l.list(capi.VClusterGVK)
	if !slices.ContainsFunc(vclusters, func(v unstructured.Unstructured) bool {
		return v.GetNamespace() == cluster.GetNamespace() && !going(&v)
	}) {
		l.t.Errorf("the object of its provider is deleted before its Cluster: %v", vclusters)
	}
	return l.finalize(cluster)
}

func claimIs(claim *unstructured.Unstructured, ready, synced, reason, message string) {
	_ = unstructured.SetNestedSlice(claim.Object, []any{
		map[string]any{"type": "Ready", "status": ready, "reason": reason, "message": message},
		map[string]any{"type": "Synced", "status": synced, "reason": reason, "message": message},
	}, "status", "conditions")
}

func (l *lab) appIs(app *unstructured.Unstructured, health string) bool {
	state := argocd.ReadApplication(app, argocd.Tolerated{})
	if app.GetDeletionTimestamp() != nil || health == "Healthy" && state.Health == argocd.Healthy {
		return false
	}
	sources, _, _ := unstructured.NestedSlice(app.Object, "spec", "sources")
	destination, _, _ := unstructured.NestedMap(app.Object, "spec", "destination")
	unstructured.RemoveNestedField(app.Object, "metadata", "annotations", "argocd.argoproj.io/refresh")
	app.Object["status"] = map[string]any{
		"health":    map[string]any{"status": health},
		"sync":      map[string]any{"status": "Synced", "comparedTo": map[string]any{"sources": sources, "destination": destination}},
		"resources": []any{map[string]any{"kind": "Deployment", "name": "web"}},
	}
	l.update(app)
	return true
}

func (l *lab) succeed(workflow *unstructured.Unstructured) bool {
	if workflow.GetDeletionTimestamp() != nil || argoworkflows.Read(workflow).Phase == argoworkflows.PhaseSucceeded {
		return false
	}
	workflow.Object["status"] = map[string]any{
		"phase": argoworkflows.PhaseSucceeded, "message": "as told",
		"startedAt": epoch.Format(time.RFC3339), "finishedAt": epoch.Add(time.Minute).Format(time.RFC3339),
	}
	l.update(workflow)
	return true
}

// until plays the world until the Experiment has the phase.
func (l *lab) until(phase v1alpha1.Phase) {
	l.t.Helper()
	for range 30 {
		if err := l.reconcile(); err != nil {
			l.t.Fatal(err)
		}
		if l.get().Status.Phase == phase {
			return
		}
		l.play()
	}
	l.t.Fatalf("phase is %s, not %s: %+v", l.get().Status.Phase, phase, l.get().Status)
}

// expect checks a condition's status and reason.
func (l *lab) expect(conditionType string, status metav1.ConditionStatus, reason string) {
	l.t.Helper()
	c := meta.FindStatusCondition(l.get().Status.Conditions, conditionType)
	if c == nil || c.Status != status || c.Reason != reason {
		l.t.Errorf("condition %s is %+v, want %s with reason %s", conditionType, c, status, reason)
	}
}

// drain returns the events so far.
func (l *lab) drain() []string {
	var out []string
	for {
		select {
		case e := <-l.recorder.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

// end is what an Experiment has come to, without names, times and versions.
func (l *lab) end() map[string]any {
	l.t.Helper()
	e := l.get()
	children := map[string]int{}
	for _, gvk := range []schema.GroupVersionKind{crossplane.GKEClusterGVK, argocd.ApplicationGVK, argocd.SecretGVK, argoworkflows.WorkflowGVK} {
		for _, o := range l.list(gvk) {
			children[gvk.Kind+" "+o.GetLabels()[v1alpha1.LabelTarget]]++
		}
	}
	states := map[string]string{"phase": string(e.Status.Phase)}
	for _, t := range e.Status.Targets {
		states[t.Name] = string(t.State)
	}
	for _, c := range e.Status.Conditions {
		states[c.Type] = string(c.Status) + " " + c.Reason
	}
	return map[string]any{"children": children, "states": states, "finalizers": e.Finalizers}
}

func encode(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
