package experimentdeployment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experimentcontroller/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/internal/twin"
)

// observe reads what the plan decides on. What is the cache's must not be changed.
func (s *scope) observe(ctx context.Context) error {
	gvk, known := twin.Kinds[s.owner.Spec.SourceRef.Kind]
	if !known {
		return nil // which the API server does not let through: the kind cannot be served
	}
	if s.owner.DeletionTimestamp != nil {
		return s.observeTeardown(ctx, gvk)
	}
	if s.seen.Unwatched = !s.Options.watched(sourceNamespace(s.owner)); s.seen.Unwatched {
		return nil
	}
	if err := s.observeGrants(ctx); err != nil {
		return err
	}
	if s.seen.Served = slices.Contains(s.served(), gvk); !s.seen.Served {
		s.seen.Unsynced = s.Kinds.State(gvk) == kube.KindSyncing
		return nil
	}
	if err := s.observeTwin(ctx, gvk); err != nil || (facts{owner: s.owner, seen: s.seen}).withheld() {
		return err
	}
	for _, read := range []func(context.Context, schema.GroupVersionKind) error{s.observeSource, s.observeTemplate, s.observePin} {
		if err := read(ctx, gvk); err != nil {
			return err
		}
	}
	if s.seen.Source == nil && s.seen.Twin == nil {
		return nil
	}
	if err := s.observeNeighbours(ctx); err != nil || s.seen.Source == nil {
		return err
	}
	return errors.Join(s.observeReferrer(ctx), s.observeClaims(ctx))
}

// observeTwin reads the twin. What has its name and not its marks is somebody else's. That one which was there is not
// any more the server must say.
func (s *scope) observeTwin(ctx context.Context, gvk schema.GroupVersionKind) error {
	found, err := kube.Get(ctx, s.reader(gvk), gvk, key(s.owner), client.UnsafeDisableDeepCopy)
	if err == nil && found == nil && s.owner.Status.ExperimentResourceRef != nil {
		found, err = s.certain(ctx, gvk, key(s.owner).Name)
	}
	return errors.Join(err, s.take(ctx, found))
}

// take is what has the name of the twin: the twin, or another's. The twin without its mark, which somebody has taken off or changed, is
// known by the UID that was recorded; it is read from the server, because the cache has the status of marked ones alone.
func (s *scope) take(ctx context.Context, found *unstructured.Unstructured) error {
	ref := s.owner.Status.ExperimentResourceRef
	switch {
	case found == nil:
	case marks.Owns(s.owner, found):
		s.seen.Twin = found
	case ref != nil && ref.UID == found.GetUID():
		whole, err := kube.Get(ctx, s.Live, found.GroupVersionKind(), client.ObjectKeyFromObject(found))
		switch {
		case err != nil:
			return err
		case whole == nil || whole.GetUID() != ref.UID || whole.GetLabels()[v1alpha1.LabelUID] != found.GetLabels()[v1alpha1.LabelUID]:
			return kube.Stale(found, "it is not what the cache has")
		}
		marks.Set(s.owner, whole)
		s.seen.Twin, s.seen.Unmarked = whole, true
	default:
		s.seen.Taken = kube.Describe(found)
	}
	return nil
}

// observeTeardown looks for what is left: that there is nothing the server must say. What is in a namespace that is not
// watched any more, the cache does not know.
func (s *scope) observeTeardown(ctx context.Context, gvk schema.GroupVersionKind) error {
	if slices.Contains(s.served(), gvk) && s.Options.watched(sourceNamespace(s.owner)) {
		cached, err := kube.Get(ctx, s.reader(gvk), gvk, key(s.owner), client.UnsafeDisableDeepCopy)
		if err = errors.Join(err, s.take(ctx, cached)); err != nil || s.seen.Twin != nil {
			return err
		}
	}
	found, err := kube.Get(ctx, s.Live, gvk, key(s.owner))
	if meta.IsNoMatchError(err) {
		found, err = nil, s.otherVersion(gvk) // its objects have gone with their kind
	}
	if err != nil {
		return err
	}
	if err := s.take(ctx, found); err != nil || s.seen.Twin != nil {
		return err // what was kept goes when the twin has gone
	}
	return s.observePin(ctx, gvk)
}

// otherVersion is an error if the cluster serves the kind in another version than that, in which the twin may be.
func (s *scope) otherVersion(gvk schema.GroupVersionKind) error {
	mappings, err := s.Live.RESTMapper().RESTMappings(gvk.GroupKind())
	if err == nil && len(mappings) > 0 {
		return fmt.Errorf("reading %s %s: the cluster does not serve %s, but another version of it, in which the twin may be", gvk.Kind, key(s.owner), gvk.GroupVersion())
	}
	return nil
}

// observeSource reads the source. That there is none the server must say.
func (s *scope) observeSource(ctx context.Context, gvk schema.GroupVersionKind) error {
	source, err := s.certain(ctx, gvk, s.owner.Spec.SourceRef.Name)
	s.seen.Source = source
	return err
}

// certain is an object beside the source as the cache has it; nil if the server says that there is none. One that
// the cache does not have yet is a conflict.
func (s *scope) certain(ctx context.Context, gvk schema.GroupVersionKind, name string) (*unstructured.Unstructured, error) {
	at := types.NamespacedName{Namespace: sourceNamespace(s.owner), Name: name}
	found, err := kube.Get(ctx, s.reader(gvk), gvk, at, client.UnsafeDisableDeepCopy)
	if err != nil || found != nil {
		return found, err
	}
	found, err = kube.Get(ctx, s.Live, gvk, at)
	if err != nil || found == nil {
		return nil, err
	}
	return nil, kube.Stale(found, "the cache does not have it yet")
}

// observeTemplate reads the workload that the source refers to (r1).
func (s *scope) observeTemplate(ctx context.Context, _ schema.GroupVersionKind) error {
	if s.seen.Source == nil {
		return nil
	}
	ref := referred(s.seen.Source)
	if ref == (reference{}) {
		return nil
	}
	if ref.kind != "Deployment" {
		s.seen.Missing = fmt.Sprintf("a %s by spec.workloadRef: of those, only Deployments are followed", ref.kind)
		return nil
	}
	workload, err := s.certain(ctx, twin.Kinds[ref.kind], ref.name)
	if err != nil {
		return err
	}
	if workload == nil {
		s.seen.Missing = fmt.Sprintf("Deployment %s/%s, which does not exist", sourceNamespace(s.owner), ref.name)
		return nil
	}
	s.seen.Workload, _ = workload.Object["spec"].(map[string]any)
	return nil
}

// observePin reads what was kept of the source, where something may have been: it may have been pinned before it was
// edited, or the pass that was to take it away has failed.
func (s *scope) observePin(ctx context.Context, gvk schema.GroupVersionKind) error {
	pinned := s.owner.Spec.SourcePolicy == v1alpha1.SourcePinned || s.owner.DeletionTimestamp != nil ||
		saysPinned(s.seen.Twin) ||
		s.owner.Status.ObservedGeneration != 0 && s.owner.Status.ObservedGeneration != s.owner.Generation || hasFailed(s.owner)
	if !pinned {
		return nil
	}
	pin, err := kube.Get(ctx, s.Live, revisionGVK, key(s.owner))
	if err != nil || pin == nil || !marks.Owns(s.owner, pin) {
		return err
	}
	s.seen.Pin = pin
	if s.owner.DeletionTimestamp == nil && s.owner.Spec.SourcePolicy == v1alpha1.SourcePinned && keptHash(pin) != s.owner.Status.PinnedHash {
		return s.confirmPinned(ctx, gvk)
	}
	return nil
}

// confirmPinned is a conflict unless the server says the same as the cache of whether the twin is made of what was kept of its source: of what
// is not what was recorded that alone tells.
func (s *scope) confirmPinned(ctx context.Context, gvk schema.GroupVersionKind) error {
	if s.seen.Taken != "" || s.seen.Unmarked { // nothing is written then, or it has said so
		return nil
	}
	found, err := kube.Get(ctx, s.Live, gvk, key(s.owner))
	if err == nil && saysPinned(found) != saysPinned(s.seen.Twin) {
		err = kube.Stale(s.seen.Pin, "its twin is not what the cache has")
	}
	return err
}

// hasFailed says whether the last pass has failed, so that it is not known what of it was done.
func hasFailed(owner *v1alpha1.ExperimentDeployment) bool {
	ready := meta.FindStatusCondition(owner.Status.Conditions, v1alpha1.ConditionReady)
	return ready != nil && kube.OfError(ready.Reason)
}

// observeGrants reads what the namespace of the source allows.
func (s *scope) observeGrants(ctx context.Context) error {
	namespace, name := kube.Metadata(namespaceGVK), sourceNamespace(s.owner)
	if err := s.Client.Get(ctx, types.NamespacedName{Name: name}, namespace); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading Namespace %s: %w", name, err)
	}
	s.seen.Privileged = namespace.GetAnnotations()[v1alpha1.AnnotationAllowPrivileges] == "true"
	for allowed := range strings.SplitSeq(namespace.GetAnnotations()[v1alpha1.AnnotationAllowedNamespaces], ",") {
		s.seen.Granted = s.seen.Granted || strings.TrimSpace(allowed) == s.owner.Namespace
	}
	return nil
}

// observeNeighbours reads what selects the pods of the source, or of a twin that has none any more.
func (s *scope) observeNeighbours(ctx context.Context) error {
	beside := []client.ListOption{client.InNamespace(sourceNamespace(s.owner)), client.UnsafeDisableDeepCopy}
	services, err := kube.List(ctx, s.Client, serviceGVK, beside...)
	if err != nil {
		return err
	}
	for i := range services {
		s.seen.Services = append(s.seen.Services, serviceOf(&services[i]))
	}
	slices.SortFunc(s.seen.Services, func(a, b twin.Service) int { return strings.Compare(a.Name, b.Name) }) // the cache lists in any order
	s.unlisted(scaledObjectGVK)
	s.unlisted(verticalGVK)
	if s.seen.Autoscalers, err = s.autoscalers(ctx, beside...); err != nil {
		return err
	}
	if err := s.observeScaled(ctx); err != nil {
		return err
	}
	s.seen.Budgets, err = s.list(ctx, budgetGVK, beside...)
	return err
}

// serviceOf is what is known of a Service. One that is another name of something selects nothing, whatever it says.
func serviceOf(service *unstructured.Unstructured) twin.Service {
	address, _, _ := unstructured.NestedString(service.Object, "spec", "clusterIP")
	unready, _, _ := unstructured.NestedBool(service.Object, "spec", "publishNotReadyAddresses")
	of := twin.Service{Name: service.GetName(), Headless: address == corev1.ClusterIPNone, Unready: unready}
	if kind, _, _ := unstructured.NestedString(service.Object, "spec", "type"); kind != string(corev1.ServiceTypeExternalName) {
		of.Selector, _, _ = unstructured.NestedStringMap(service.Object, "spec", "selector")
	}
	of.Near = near(service)
	ports, _, _ := unstructured.NestedFieldNoCopy(service.Object, "spec", "ports")
	all, _ := ports.([]any)
	for _, port := range all {
		fields, _ := port.(map[string]any)
		name, _ := fields["targetPort"].(string)
		number, _ := fields["targetPort"].(int64)
		protocol, _ := fields["protocol"].(string)
		of.Ports = append(of.Ports, twin.Port{Name: name, Number: number, Protocol: protocol})
	}
	return of
}

// near is by which field a Service prefers pods that are near; empty for none.
func near(service *unstructured.Unstructured) string {
	for _, policy := range []string{"externalTrafficPolicy", "internalTrafficPolicy", "trafficDistribution"} {
		value, _, _ := unstructured.NestedString(service.Object, "spec", policy)
		if value == string(corev1.ServiceExternalTrafficPolicyLocal) || policy == "trafficDistribution" && value != "" {
			return policy + ": " + value
		}
	}
	return ""
}

// autoscalers are those of every kind that is served.
func (r *Reconciler) autoscalers(ctx context.Context, opts ...client.ListOption) (all []*unstructured.Unstructured, err error) {
	for _, gvk := range []schema.GroupVersionKind{autoscalerGVK, scaledObjectGVK, verticalGVK} {
		if gvk != autoscalerGVK && r.Kinds.State(gvk) != kube.KindServed {
			continue
		}
		found, err := r.list(ctx, gvk, opts...)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// unlisted takes in that there may be objects of a kind which cannot be read.
func (s *scope) unlisted(gvk schema.GroupVersionKind) {
	if state := s.Kinds.State(gvk); (state == kube.KindSyncing || state == kube.KindUnserved) && !slices.Contains(s.seen.Unlisted, gvk) {
		s.seen.Unlisted = append(s.seen.Unlisted, gvk)
	}
}

func (r *Reconciler) list(ctx context.Context, gvk schema.GroupVersionKind, opts ...client.ListOption) (all []*unstructured.Unstructured, err error) {
	found, err := kube.List(ctx, r.reader(gvk), gvk, opts...)
	for i := range found {
		all = append(all, &found[i])
	}
	return all, err
}

// observeScaled reads what the autoscalers are for, beside the source and the twin.
func (s *scope) observeScaled(ctx context.Context) error {
	served := s.served()
	for _, autoscaler := range s.seen.Autoscalers {
		kind, name := twin.Target(autoscaler)
		ours := kind == s.owner.Spec.SourceRef.Kind && (name == s.owner.Spec.SourceRef.Name || name == key(s.owner).Name)
		gvk, known := twin.Kinds[kind]
		if ours || !known {
			continue
		}
		if !slices.Contains(served, gvk) {
			s.unlisted(gvk)
			continue
		}
		at := types.NamespacedName{Namespace: sourceNamespace(s.owner), Name: name}
		workload, err := kube.Get(ctx, s.reader(gvk), gvk, at, client.UnsafeDisableDeepCopy)
		if err != nil {
			return err
		}
		if workload != nil {
			if workload, err = s.whole(ctx, workload); err != nil {
				return err
			}
			s.seen.Scaled = append(s.seen.Scaled, workload)
		}
	}
	return nil
}

// whole is a workload that autoscalers are for, with the template and selector of the Deployment that it refers to, if it does (r1).
func (s *scope) whole(ctx context.Context, workload *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	ref := referred(workload)
	if ref.kind != "Deployment" {
		return workload, nil
	}
	gvk := twin.Kinds[ref.kind]
	of, err := kube.Get(ctx, s.reader(gvk), gvk, types.NamespacedName{Namespace: workload.GetNamespace(), Name: ref.name}, client.UnsafeDisableDeepCopy)
	if err != nil || of == nil {
		return workload, err
	}
	spec, _ := of.Object["spec"].(map[string]any)
	return completed(workload, spec), nil
}

// observeReferrer looks for a Rollout that runs the template of the source (r13).
func (s *scope) observeReferrer(ctx context.Context) error {
	rollouts, err := s.rolloutsOf(ctx, s.seen.Source)
	for i := range rollouts {
		s.seen.Referrer = max(s.seen.Referrer, rollouts[i].GetName())
	}
	return err
}

// observeClaims reads how the volumes may be used that the source's pods use (p6), from the server: hardly any source has one,
// and nothing of another is cached. Of what an override names nothing is read: that may be thousands.
func (s *scope) observeClaims(ctx context.Context) error {
	source := facts{owner: s.owner, seen: s.seen}.current()
	of, _, _ := unstructured.NestedFieldNoCopy(source.Object, "spec", "template")
	template, _ := of.(map[string]any)
	for _, name := range twin.Claims(template) {
		claim, err := kube.Get(ctx, s.Live, claimGVK, types.NamespacedName{Namespace: sourceNamespace(s.owner), Name: name})
		if err != nil {
			return err
		}
		if claim == nil {
			s.seen.Unsure = true
			continue
		}
		if s.seen.Claims == nil {
			s.seen.Claims = map[string][]string{}
		}
		modes, _, _ := unstructured.NestedStringSlice(claim.Object, "spec", "accessModes")
		s.seen.Claims[name] = modes
		s.seen.Unsure = s.seen.Unsure || slices.Contains(modes, string(corev1.ReadWriteOncePod))
	}
	return nil
}
