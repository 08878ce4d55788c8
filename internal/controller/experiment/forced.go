package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/conditions"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// reconciler acts on the Experiments that there are, and looks what those have left that there are not.
func (r *Reconciler) reconciler() reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		e := &v1alpha1.Experiment{}
		switch err := r.Client.Get(ctx, request.NamespacedName, e); {
		case apierrors.IsNotFound(err):
			r.refusals.forget(request.NamespacedName)
			return reconcile.Result{}, r.forcedAway(ctx, request.NamespacedName)
		case err != nil:
			return reconcile.Result{}, err
		}
		return r.Reconcile(ctx, e)
	})
}

// errForced is why nobody takes down what an Experiment has left.
var errForced = errors.New("the Experiment that it was made for is gone, and nobody takes it down: delete it, or take our labels off it to keep it")

// leavable are the kinds of what is told of when an Experiment was forced away: it costs, or goes on deploying, and nobody takes it down.
func leavable() []schema.GroupVersionKind { return append(clusterKinds(), argocd.ApplicationGVK) }

// forsakes says whether an object of such a kind is one that the Experiment has made: what a cluster is made by, and an Application on
// one that is there for others, too, and stays. Of those on a cluster of its own that tells.
func (n names) forsakes(o *unstructured.Unstructured) bool {
	if o.GroupVersionKind() != argocd.ApplicationGVK {
		return n.ofCluster(o)
	}
	server, _, _ := unstructured.NestedString(o.Object, "spec", "destination", "server")
	stays := server == argocd.InClusterServer || o.GetAnnotations()[v1alpha1.AnnotationEndpoint] != ""
	return stays && n.application(v1alpha1.Target{Name: o.GetLabels()[v1alpha1.LabelTarget]}, componentOf(o)) == keyOf(o)
}

// forcedAway tells of what an Experiment has left whose finalizer somebody has taken off: what the server says of it.
func (r *Reconciler) forcedAway(ctx context.Context, key types.NamespacedName) error {
	left, err := r.untold(ctx, key)
	if err != nil || len(left) == 0 {
		return err
	}
	err = r.Live.Get(ctx, key, kube.Metadata(v1alpha1.GroupVersion.WithKind("Experiment")))
	if !apierrors.IsNotFound(err) {
		return err // another of that name tells of them itself
	}
	for _, objects := range left {
		if err := r.tellForced(ctx, r.namesOf(key, &objects[0]), objects); err != nil {
			return err
		}
	}
	return nil
}

// untold is what the cache has that Experiments of a name have left, by their UIDs, that nobody has asked to go, and of which
// this manager has not told.
func (r *Reconciler) untold(ctx context.Context, key types.NamespacedName) (map[types.UID][]unstructured.Unstructured, error) {
	left := map[types.UID][]unstructured.Unstructured{}
	for _, gvk := range leavable() {
		if r.Kinds.State(gvk) != kube.KindServed {
			continue // the owners of its objects are woken when it is (forsaken)
		}
		found, err := kube.List(ctx, r.Foreign, gvk, client.MatchingFields{indexNamed: key.String()})
		if err != nil {
			return nil, err
		}
		for _, o := range found {
			n := r.namesOf(key, &o)
			if _, told := r.forced.Get(o.GetUID()); !told && !going(&o) && n.forsakes(&o) {
				left[n.experiment.UID] = append(left[n.experiment.UID], o)
			}
		}
	}
	return left, nil
}

// namesOf are those of the Experiment that an object says it was made for.
func (r *Reconciler) namesOf(key types.NamespacedName, o *unstructured.Unstructured) names {
	e := &v1alpha1.Experiment{}
	e.Namespace, e.Name, e.UID = key.Namespace, key.Name, types.UID(o.GetLabels()[marks.UID])
	return names{e, r.Options}
}

// tellForced tells, once, of the objects that an Experiment has left, where the server has them: in a ConfigMap, as of what a
// teardown leaves, while there are not too many for its namespace, and by an Event of each.
func (r *Reconciler) tellForced(ctx context.Context, n names, objects []unstructured.Unstructured) error {
	s := &scope{Reconciler: r, experiment: n.experiment, names: n}
	d := &demolition{facts: s.facts()}
	var stay []unstructured.Unstructured
	var orphans []orphan
	for _, o := range objects {
		if err := kube.Still(ctx, r.Live, &o); err != nil {
			if kube.Conflict(err) {
				continue // it has gone, or goes
			}
			return err
		}
		stay, orphans = append(stay, o), append(orphans, d.orphan(remnant{gvk: o.GroupVersionKind(), object: &o, err: errForced}))
	}
	if len(stay) == 0 {
		return nil
	}
	record := d.orphansObject(orphans)
	labels := record.GetLabels()
	labels[labelForsaken] = n.experiment.Namespace
	record.SetLabels(labels)
	known, full, err := s.keepForced(ctx, record, orphans)
	if err != nil {
		return err
	}
	where := "ConfigMap " + keyOf(record).String() + " says how to find all that it has left"
	if full {
		where = fmt.Sprintf("no ConfigMap says so, because there is room for no more of the namespace: delete those of %s=%s that are dealt with", labelForsaken, n.experiment.Namespace)
	}
	for _, o := range stay {
		r.forced.Add(o.GetUID(), true)
		if !strings.Contains(known, string(o.GetUID())) {
			log.FromContext(ctx).Info("An Experiment that was forced away has left something", "object", kube.Describe(&o), "uid", n.experiment.UID)
			r.Recorder.Eventf(&o, nil, corev1.EventTypeWarning, v1alpha1.ReasonOrphansLeft, "Reconcile", "%s", conditions.Line(
				fmt.Sprintf("Experiment %s: %v; %s", client.ObjectKeyFromObject(n.experiment), errForced, where)))
		}
	}
	return nil
}

// labelForsaken is on the ConfigMaps of those that were forced away: the namespace that they were in.
const labelForsaken = "experiments.illm.io/forced-away-from"

// maxForsaken is how many such ConfigMaps there are for a namespace. What an object says of its owner is no proof: whoever may create
// claims, or Clusters, can give them our labels and any UID, and each of those would be a ConfigMap that nobody deletes.
const maxForsaken = 100

// keepForced has a ConfigMap tell of what an Experiment has left, and returns what it has told before, by a manager that has ended, or when
// the cache had no more; or says that there is no room for that.
func (s *scope) keepForced(ctx context.Context, record *unstructured.Unstructured, orphans []orphan) (known string, full bool, err error) {
	records := &metav1.PartialObjectMetadataList{}
	records.SetGroupVersionKind(configMapGVK)
	err = s.Live.List(ctx, records, client.InNamespace(record.GetNamespace()), client.MatchingLabels{labelForsaken: record.GetLabels()[labelForsaken]})
	if err != nil {
		return "", false, fmt.Errorf("listing what was left: %w", err)
	}
	its := func(m metav1.PartialObjectMetadata) bool { return m.Name == record.GetName() }
	if len(records.Items) >= maxForsaken && !slices.ContainsFunc(records.Items, its) {
		return "", true, nil
	}
	kept, created, err := s.writer().Create(ctx, record)
	if err != nil || created {
		return "", false, err
	}
	known, _, _ = unstructured.NestedString(kept.Object, "data", orphansKey)
	added := slices.DeleteFunc(orphans, func(o orphan) bool { return strings.Contains(known, o.UID) })
	list := known + orphansList(added)
	switch {
	case len(added) == 0:
		return known, false, nil
	case len(list) > maxOrphans:
		return known, true, nil
	}
	_, err = s.writer().Merge(ctx, kept, map[string]any{"data": map[string]any{orphansKey: list}})
	return known, false, err
}

// forsaken are the owners of all that there is of the kinds that can be read, for those that are gone: what is there of a kind wakes its
// owner before the kind can be read.
func forsaken(ctx context.Context, foreign client.Reader, kinds kindsState, owner handler.MapFunc) (requests []reconcile.Request) {
	for _, gvk := range leavable() {
		if kinds.State(gvk) != kube.KindServed {
			continue
		}
		found, err := kube.List(ctx, foreign, gvk, client.UnsafeDisableDeepCopy)
		if err != nil {
			log.FromContext(ctx).Error(err, "Listing what Experiments have made to look for those")
		}
		for _, o := range found {
			requests = append(requests, owner(ctx, &o)...)
		}
	}
	return requests
}
