package integration_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/capi"
	"github.com/labkeeper/labkeeper/test/env"
)

var (
	experiments  = v1alpha1.GroupVersion.WithResource("experiments")
	clusters     = schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "clusters"}
	claims       = schema.GroupVersionResource{Group: "illm.io", Version: "v1alpha1", Resource: "gkeclusters"}
	applications = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}
	workflows    = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "workflows"}
	namespaces   = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	secrets      = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
)

// The finalizers that the outsides put on what they work on.
const (
	crossplaneFinalizer = "finalizer.apiextensions.crossplane.io"
	argoCDFinalizer     = "resources-finalizer.argocd.argoproj.io"
	workflowFinalizer   = "workflows.argoproj.io/artifact-gc"
)

// clusterEndpoint is that of every cluster of the world.
const clusterEndpoint = "203.0.113.7"

// hold is a step that an outside does not take until it is released.
type hold string

const (
	clusterReady       hold = "cluster-ready"
	connection         hold = "connection"
	applicationHealthy hold = "application-healthy"
	workflowStarts     hold = "workflow-starts"
	workflowEnds       hold = "workflow-ends"
	claimGone          hold = "claim-gone"
	applicationGone    hold = "application-gone"
	workflowGone       hold = "workflow-gone"
)

// world plays Crossplane, Argo CD and Argo Workflows for the Experiments of its stages and
// keeps a journal of everything that happened to their objects.
type world struct {
	lab       *lab
	ctx       context.Context
	end       context.CancelFunc
	informers []cache.SharedIndexInformer

	mu     sync.Mutex
	stages map[string]*stage // by namespace
}

func newWorld(l *lab) *world {
	ctx, end := context.WithCancel(background())
	return &world{lab: l, ctx: ctx, end: end, stages: map[string]*stage{}}
}

// watch begins to play the kinds, which must be installed.
func (w *world) watch(resources ...schema.GroupVersionResource) {
	for _, resource := range resources {
		informer := dynamicinformer.NewFilteredDynamicInformer(w.lab.dynamic, resource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
		handle := func(verb watch.EventType) func(any) {
			return func(o any) { w.happened(verb, o) }
		}
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    handle(watch.Added),
			UpdateFunc: func(_, o any) { w.happened(watch.Modified, o) },
			DeleteFunc: handle(watch.Deleted),
		})
		if err != nil {
			Fail(err.Error())
		}
		go informer.RunWithContext(w.ctx)
		w.informers = append(w.informers, informer)
	}
}

func (w *world) happened(verb watch.EventType, o any) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return // a deletion that was missed
	}
	if s := w.stageOf(u); s != nil {
		s.record(verb, u)
		if verb != watch.Deleted {
			s.play(u)
		}
	}
}

// stageOf is the stage of the Experiment that an object belongs to.
func (w *world) stageOf(u *unstructured.Unstructured) *stage {
	namespace, _, owned := strings.Cut(u.GetAnnotations()[v1alpha1.AnnotationOwner], "/")
	if u.GetKind() == "Experiment" {
		namespace, owned = u.GetNamespace(), true
	}
	if !owned {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stages[namespace]
}

// entry is something that happened to an object. Resource versions order entries of all
// kinds.
type entry struct {
	verb    watch.EventType
	version int64
	object  *unstructured.Unstructured
}

// stage is a namespace with Experiments and what the outsides do about them.
type stage struct {
	*lab
	namespace string
	// kubeconfig is what Crossplane leaves of a cluster.
	kubeconfig string
	// endpoint is where clusters are, if not at clusterEndpoint.
	endpoint string
	// real are the kinds whose own controllers run, so that nobody plays them.
	real []string
	// onWrite is told the number of the manager's writes that have been seen.
	onWrite func(n int)

	mu      sync.Mutex
	held    map[hold]bool
	journal []entry
	writes  int
	playing sync.Mutex
}

func (s *stage) record(verb watch.EventType, u *unstructured.Unstructured) {
	version, _ := strconv.ParseInt(u.GetResourceVersion(), 10, 64)
	s.mu.Lock()
	s.journal = append(s.journal, entry{verb, version, u})
	ours := verb == watch.Modified && u.GetKind() == "Experiment" || verb == watch.Added && !slices.Contains([]string{"Experiment", "Namespace"}, u.GetKind())
	if ours {
		s.writes++
	}
	n, tell := s.writes, s.onWrite
	s.mu.Unlock()
	if ours && tell != nil {
		tell(n)
	}
}

// hold keeps the outsides from steps.
func (s *stage) hold(holds ...hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range holds {
		s.held[h] = true
	}
}

// release lets the outsides go on; without arguments with everything.
func (s *stage) release(holds ...hold) {
	s.mu.Lock()
	for _, h := range slices.Collect(maps.Keys(s.held)) {
		if len(holds) == 0 || slices.Contains(holds, h) {
			delete(s.held, h)
		}
	}
	s.mu.Unlock()
	for _, u := range s.objects() {
		s.play(u)
	}
}

// objects are those of the stage as they were seen last.
func (s *stage) objects() (all []*unstructured.Unstructured) {
	for _, informer := range s.world.informers {
		for _, o := range informer.GetStore().List() {
			if u := o.(*unstructured.Unstructured); s.world.stageOf(u) == s {
				all = append(all, u)
			}
		}
	}
	return all
}

func (s *stage) holds(h hold) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[h]
}

// play is what an outside does when it sees its object.
func (s *stage) play(u *unstructured.Unstructured) {
	s.playing.Lock()
	defer s.playing.Unlock()
	var err error
	switch kind := u.GetKind(); {
	case slices.Contains(s.real, kind):
	case kind == "GKECluster":
		err = s.playCrossplane(u)
	case kind == "Cluster": // those of Arlon are not watched: a test plays their reconciler
		err = s.playClusterAPI(u)
	case kind == "Application":
		err = s.playArgoCD(u)
	case kind == "Workflow":
		err = s.playArgoWorkflows(u)
	case kind == "Secret":
		err = s.playRegistered(u)
	}
	// An object that has changed meanwhile is played again.
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && s.world.ctx.Err() == nil {
		fmt.Fprintf(GinkgoWriter, "world: %s %s: %v\n", u.GetKind(), u.GetName(), err)
	}
}

func (s *stage) playCrossplane(u *unstructured.Unstructured) error {
	composite, bound, _ := unstructured.NestedString(u.Object, "spec", "resourceRef", "name")
	switch {
	case u.GetDeletionTimestamp() != nil:
		if s.holds(claimGone) {
			return nil
		}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: crossplaneNamespace, Name: connectionSecret(u.GetName())}}
		if err := client.IgnoreNotFound(s.client.Delete(s.world.ctx, secret)); err != nil {
			return err
		}
		return s.dropFinalizer(claims, u, crossplaneFinalizer)
	case !bound:
		return s.patch(claims, u, map[string]any{
			"metadata": map[string]any{"finalizers": append(u.GetFinalizers(), crossplaneFinalizer)},
			"spec":     map[string]any{"resourceRef": map[string]any{"apiVersion": "illm.io/v1alpha1", "kind": "XGKECluster", "name": u.GetName() + "-xr"}},
		})
	case s.holds(clusterReady):
		return nil
	}
	if !s.holds(connection) {
		if err := s.connect(composite); err != nil {
			return err
		}
	}
	if conditionOf(u, "Ready") == "True" {
		return nil
	}
	status := claimStatus("True", "Available", "", "True", "ReconcileSuccess", "")
	status["endpoint"] = cmp.Or(s.endpoint, clusterEndpoint)
	return s.patch(claims, u, map[string]any{"status": status}, "status")
}

// playClusterAPI makes a virtual cluster.
func (s *stage) playClusterAPI(u *unstructured.Unstructured) error {
	initialized, _, _ := unstructured.NestedBool(u.Object, "status", "initialization", "controlPlaneInitialized")
	if u.GetDeletionTimestamp() != nil || s.holds(clusterReady) || initialized {
		return nil
	}
	err := s.client.Create(s.world.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: u.GetNamespace(), Name: u.GetName() + "-kubeconfig"},
		StringData: map[string]string{"value": s.kubeconfig},
	})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if endpoint, _, _ := unstructured.NestedString(u.Object, "spec", "controlPlaneEndpoint", "host"); endpoint == "" {
		return s.patch(clusters, u, map[string]any{"spec": map[string]any{"controlPlaneEndpoint": map[string]any{"host": clusterEndpoint, "port": 443}}})
	}
	if err := s.readyControlPlane(u); err != nil {
		return err
	}
	return s.patch(clusters, u, map[string]any{"status": map[string]any{
		"initialization": map[string]any{"infrastructureProvisioned": true, "controlPlaneInitialized": true},
	}}, "status")
}

// readyControlPlane is the provider of control planes.
func (s *stage) readyControlPlane(u *unstructured.Unstructured) error {
	controlPlane, ready := &unstructured.Unstructured{}, `{"status":{"initialized":true}}`
	switch kind, _, _ := unstructured.NestedString(u.Object, "spec", "controlPlaneRef", "kind"); kind {
	case "VCluster":
		controlPlane.SetGroupVersionKind(capi.VClusterGVK)
		ready = `{"status":{"ready":true}}`
	case "TalosControlPlane":
		controlPlane.SetGroupVersionKind(capi.TalosControlPlaneGVK)
	default:
		return nil
	}
	controlPlane.SetNamespace(u.GetNamespace())
	controlPlane.SetName(u.GetName())
	return s.client.Status().Patch(s.world.ctx, controlPlane, client.RawPatch(types.MergePatchType, []byte(ready)))
}

// connect leaves the kubeconfig where a composition leaves it.
func (s *stage) connect(composite string) error {
	s.mu.Lock()
	kubeconfig := s.kubeconfig
	s.mu.Unlock()
	err := s.client.Create(s.world.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: crossplaneNamespace, Name: composite + "-cluster-conn"},
		StringData: map[string]string{"kubeconfig": kubeconfig},
	})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// connectionSecret is the name of the connection Secret of a claim.
func connectionSecret(claim string) string { return claim + "-xr-cluster-conn" }

// claimStatus is the status of a claim as Crossplane writes it.
func claimStatus(ready, readyReason, readyMessage, synced, syncedReason, syncedMessage string) map[string]any {
	condition := func(t, status, reason, message string) map[string]any {
		c := map[string]any{"type": t, "status": status, "reason": reason, "lastTransitionTime": now()}
		if message != "" {
			c["message"] = message
		}
		return c
	}
	status := map[string]any{"conditions": []any{
		condition("Ready", ready, readyReason, readyMessage), condition("Synced", synced, syncedReason, syncedMessage),
	}}
	if ready == "True" {
		status["endpoint"] = clusterEndpoint
	}
	return status
}

func (s *stage) playArgoCD(u *unstructured.Unstructured) error {
	if u.GetDeletionTimestamp() != nil {
		if s.holds(applicationGone) {
			return nil
		}
		return s.dropFinalizer(applications, u, argoCDFinalizer)
	}
	health, _, _ := unstructured.NestedString(u.Object, "status", "health", "status")
	sync, _, _ := unstructured.NestedString(u.Object, "status", "sync", "status")
	compared, _, _ := unstructured.NestedSlice(u.Object, "status", "sync", "comparedTo", "sources")
	if s.holds(applicationHealthy) || health == "Healthy" && sync == "Synced" && u.GetAnnotations()[env.ArgoCDRefresh] == "" && equality.Semantic.DeepEqual(compared, sourcesOf(u)) {
		return nil
	}
	if known, err := s.known(u); err != nil {
		return err
	} else if !known {
		return s.refuseCluster(u)
	}
	if err := s.createNamespace(u); err != nil {
		return err
	}
	return s.patch(applications, u, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{env.ArgoCDRefresh: nil}}, "status": applicationStatus(u, "Healthy", "Synced", nil),
	})
}

// playRegistered has Argo CD look at what it deploys on a cluster that it knows now.
func (s *stage) playRegistered(secret *unstructured.Unstructured) (err error) {
	for _, u := range s.objects() {
		if u.GetKind() == "Application" && env.ArgoCDKnows(secret, env.ArgoCDDestination(u)) {
			err = errors.Join(err, s.playArgoCD(u))
		}
	}
	return err
}

// known says whether Argo CD has the credentials of an Application's cluster.
func (s *stage) known(u *unstructured.Unstructured) (bool, error) {
	cluster := env.ArgoCDDestination(u)
	if cluster == "" {
		return true, nil // its own
	}
	list, err := s.dynamic.Resource(secrets).Namespace(u.GetNamespace()).List(s.world.ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(list.Items, func(secret unstructured.Unstructured) bool { return env.ArgoCDKnows(&secret, cluster) }), nil
}

// refuseCluster is what Argo CD says of a cluster that it does not know.
func (s *stage) refuseCluster(u *unstructured.Unstructured) error {
	if said, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions"); len(said) > 0 && u.GetAnnotations()[env.ArgoCDRefresh] == "" {
		return nil
	}
	return s.patch(applications, u, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{env.ArgoCDRefresh: nil}},
		"status": map[string]any{"conditions": []any{map[string]any{
			"type": "InvalidSpecError", "message": "there are no clusters with this name", "lastTransitionTime": now(),
		}}},
	})
}

// createNamespace does on the hub what CreateNamespace=true asks for.
func (s *stage) createNamespace(u *unstructured.Unstructured) error {
	if env.ArgoCDDestination(u) != "" {
		return nil // on a cluster that we do not have
	}
	name, _, _ := unstructured.NestedString(u.Object, "spec", "destination", "namespace")
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	namespace.SetName(name)
	for field, set := range map[string]func(map[string]string){"labels": namespace.SetLabels, "annotations": namespace.SetAnnotations} {
		values, _, _ := unstructured.NestedStringMap(u.Object, "spec", "syncPolicy", "managedNamespaceMetadata", field)
		set(values)
	}
	_, err := s.dynamic.Resource(namespaces).Create(s.world.ctx, namespace, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// applicationStatus is the status of an Application as Argo CD writes it.
func applicationStatus(u *unstructured.Unstructured, health, sync string, more map[string]any) map[string]any {
	destination, _, _ := unstructured.NestedMap(u.Object, "spec", "destination")
	status := map[string]any{
		"health":     map[string]any{"status": health},
		"conditions": nil, "operationState": nil,
		"resources": []any{map[string]any{"version": "v1", "kind": "Service", "name": "web", "status": "Synced"}},
		"sync":      map[string]any{"status": sync, "comparedTo": map[string]any{"sources": sourcesOf(u), "destination": destination}},
	}
	maps.Copy(status, more)
	return status
}

func sourcesOf(u *unstructured.Unstructured) []any {
	sources, _, _ := unstructured.NestedSlice(u.Object, "spec", "sources")
	return sources
}

func (s *stage) playArgoWorkflows(u *unstructured.Unstructured) error {
	phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
	switch {
	case u.GetDeletionTimestamp() != nil:
		if s.holds(workflowGone) {
			return nil
		}
		return s.dropFinalizer(workflows, u, workflowFinalizer)
	case phase == "" && !s.holds(workflowStarts):
		return s.patch(workflows, u, map[string]any{
			"metadata": map[string]any{"finalizers": append(u.GetFinalizers(), workflowFinalizer)},
			"status":   map[string]any{"phase": "Running", "startedAt": now()},
		})
	case phase == "Running" && !s.holds(workflowEnds):
		return s.patch(workflows, u, map[string]any{"status": map[string]any{"phase": "Succeeded", "finishedAt": now()}})
	}
	return nil
}

// asSeen is the patch for a change of an object that has not changed since it was seen.
func asSeen(u *unstructured.Unstructured, change map[string]any) ([]byte, error) {
	metadata, _ := change["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		change["metadata"] = metadata
	}
	metadata["resourceVersion"] = u.GetResourceVersion()
	return json.Marshal(change)
}

// patch changes an object unless it has changed since it was seen.
func (s *stage) patch(resource schema.GroupVersionResource, u *unstructured.Unstructured, change map[string]any, subresource ...string) error {
	data, err := asSeen(u, change)
	if err != nil {
		return err
	}
	_, err = s.dynamic.Resource(resource).Namespace(u.GetNamespace()).
		Patch(s.world.ctx, u.GetName(), types.MergePatchType, data, metav1.PatchOptions{FieldValidation: "Strict"}, subresource...)
	return err
}

func (s *stage) dropFinalizer(resource schema.GroupVersionResource, u *unstructured.Unstructured, finalizer string) error {
	keep := slices.DeleteFunc(slices.Clone(u.GetFinalizers()), func(f string) bool { return f == finalizer })
	if len(keep) == len(u.GetFinalizers()) {
		return nil
	}
	return s.patch(resource, u, map[string]any{"metadata": map[string]any{"finalizers": keep}})
}

func conditionOf(u *unstructured.Unstructured, conditionType string) string {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if m, _ := c.(map[string]any); m["type"] == conditionType {
			status, _ := m["status"].(string)
			return status
		}
	}
	return ""
}

func now() string { return time.Now().UTC().Format(time.RFC3339) }
