package workloadscaler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/executor/cluster"
	"github.com/labkeeper/labkeeper/internal/twin"
)

// target is what a plan names.
type target struct {
	*parameters
	session   executor.Session
	client    dynamic.Interface
	discovery discovery.DiscoveryInterface
	// withoutKEDA is known of the cluster.
	withoutKEDA bool
	// watch is of workloads that Argo CD may wake, by key.
	watch cluster.Watch
	// unpatched: the rights of the runner are those of before it could patch subresource scale.
	unpatched bool
	// page is how many objects are listed at a time; 0 is as many as usual.
	page int64
}

// found is an object of the target.
type found struct {
	kind   kind
	object *unstructured.Unstructured
}

// Snapshot lists the workloads.
func (t *target) Snapshot(ctx context.Context) ([]executor.Resource, error) {
	all, err := t.list(ctx)
	if err != nil {
		return nil, err
	}
	scalers := map[string]map[string][]part{} // by namespace and the key of what they scale
	var resources []executor.Resource
	for _, f := range owned(all) {
		if t.exclude.has(f.object) {
			continue
		}
		s, err := t.capture(ctx, f)
		if err != nil {
			return nil, err
		}
		if s == nil {
			continue
		}
		if f.kind.scaled {
			if scalers[s.Namespace] == nil {
				if scalers[s.Namespace], err = t.listAutoscalers(ctx, s.Namespace); err != nil {
					return nil, err
				}
			}
			s.Autoscalers = scalers[s.Namespace][s.key()]
		}
		resources = append(resources, executor.Resource{Key: s.key(), State: encode(s)})
	}
	return resources, nil
}

// list is all objects of the kinds in the namespaces, in the order that they sleep in.
func (t *target) list(ctx context.Context) ([]found, error) {
	namespaces, err := t.where(ctx)
	if err != nil {
		return nil, err
	}
	for _, withheld := range t.session.Withheld {
		if slices.Contains(namespaces, withheld) {
			return nil, &executor.InvalidError{Path: "namespace", Problem: fmt.Sprintf(
				"namespace %s is the manager's own in the manager's own cluster, which this is, or may be where credentials may not get Namespace kube-system to tell: "+
					"what wakes the targets must not sleep; leave it out", withheld)}
		}
	}
	var all []found
	seen := sets.New[schema.GroupResource]()
	for _, g := range t.groups {
		var k kind
		err := cluster.Again(ctx, func() (err error) {
			k, err = resolve(g, t.discovery)
			return err
		})
		if err != nil {
			return nil, err
		}
		if seen.Has(k.gvr.GroupResource()) {
			continue
		}
		seen.Insert(k.gvr.GroupResource())
		for _, namespace := range namespaces {
			objects, err := t.listOf(ctx, k, namespace, t.selector)
			if cluster.Unserved(err, k.gvr, t.discovery) {
				return nil, fmt.Errorf("listing %s: the cluster does not serve them; install the kind, or remove it from includedGroups", resourceText(k.gvr))
			}
			if err != nil {
				return nil, err
			}
			for i := range objects {
				all = append(all, found{kind: k, object: &objects[i]})
			}
		}
	}
	return all, nil
}

// where are the namespaces of the target, sorted. The manager has found those of its own cluster.
func (t *target) where(ctx context.Context) ([]string, error) {
	if !t.session.Remote || len(t.namespaces.Selector) == 0 {
		return t.session.Namespaces, nil
	}
	all, err := cluster.List(ctx, t.client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")), metav1.ListOptions{
		LabelSelector: labels.SelectorFromSet(t.namespaces.Selector).String(), Limit: t.page,
	})
	if err != nil {
		return nil, fmt.Errorf("listing namespaces: %w", err)
	}
	var names []string
	for _, namespace := range all {
		names = append(names, namespace.GetName())
	}
	slices.Sort(names)
	return names, nil
}

func (t *target) listOf(ctx context.Context, k kind, namespace, selector string) ([]unstructured.Unstructured, error) {
	objects, err := cluster.List(ctx, t.client.Resource(k.gvr).Namespace(namespace), metav1.ListOptions{LabelSelector: selector, Limit: t.page})
	if err != nil {
		return nil, fmt.Errorf("listing %s in %s: %w", resourceText(k.gvr), namespace, err)
	}
	return objects, nil
}

// owned are those that nothing else in the target controls, no ReplicaSet that anything controls, and no twin.
func owned(all []found) []found {
	uids := sets.New[types.UID]()
	for _, f := range all {
		uids.Insert(f.object.GetUID())
	}
	return slices.DeleteFunc(all, func(f found) bool {
		controller := metav1.GetControllerOfNoCopy(f.object)
		return controller != nil && (f.kind.gvr == replicaSets.gvr || uids.Has(controller.UID)) || f.object.GetLabels()[twin.LabelRole] == twin.RoleExperiment
	})
}

// capture is how an object is; nil if it has gone.
func (t *target) capture(ctx context.Context, f found) (*state, error) {
	value, at := f.kind.field.read(f.object), f.object
	if f.kind.foreign {
		var scale *unstructured.Unstructured
		err := cluster.Again(ctx, func() (err error) {
			scale, err = t.scale(ctx, f.kind, f.object)
			return err
		})
		if err != nil || scale == nil {
			return nil, err
		}
		at = scale
		value, _, _ = unstructured.NestedInt64(scale.Object, "spec", "replicas")
	}
	s := &state{part: newPart(f.kind, f.object, value)}
	s.Ours = ours(s.part, live{object: f.object, at: at, value: value})
	if ready, _ := readyOf(f.object, at); f.kind.scaled && ready < wanted(s.part) {
		s.Ready = &ready
	}
	if err := mustStay(f.kind, f.object, value); err != nil {
		return nil, fmt.Errorf("looking at %s: %w", s, err)
	}
	return s, nil
}

// mustStay is an error where an object would lose by being put to sleep what nothing brings back.
func mustStay(k kind, object *unstructured.Unstructured, value any) error {
	if !k.scaled || k.field.isAsleep(value) {
		return nil
	}
	if err := volumesGo(k, object); err != nil {
		return err
	}
	return heldBack(k, object)
}

// volumesGo is an error where it would lose its volumes.
func volumesGo(k kind, object *unstructured.Unstructured) error {
	spec, _ := object.Object["spec"].(map[string]any)
	templates, _ := spec["volumeClaimTemplates"].([]any)
	switch {
	case deletesVolumes(spec):
		return errors.New("it deletes its volumes when it is scaled down; set persistentVolumeClaimRetentionPolicy.whenScaled in its spec to Retain, or exclude it")
	case k.gvr.GroupResource() == cloneSets && len(templates) > 0:
		return errors.New("it deletes its volumes when it is scaled down, as CloneSets do; exclude it")
	}
	return nil
}

// heldBack is an error where an update of it is held back: without pods it counts as updated, and all of them would wake so.
func heldBack(k kind, object *unstructured.Unstructured) error {
	if k.gvr == rollouts.gvr && analyzed(object) {
		return errors.New("an AnalysisRun of its update goes on, would fail while it has no pods, and have it aborted; promote it or abort it, or exclude it")
	}
	if count(object, "updatedReplicas") >= count(object, "replicas") {
		return nil
	}
	paused, _, _ := unstructured.NestedBool(object.Object, "spec", "paused")
	switch {
	case k.gvr == deployments.gvr && paused:
		return errors.New("its rollout is paused, and may be through when it wakes; resume it or undo it, or exclude it")
	case k.gvr == deployments.gvr && stuck(object):
		return errors.New("its rollout does not come to its end, and all of its pods would be those of that when it wakes; undo or complete it, or exclude it")
	case k.gvr == statefulSets.gvr && partly(object):
		return errors.New("its spec.updateStrategy holds an update back, which would be through when it wakes; complete that or undo it, or exclude it")
	case k.gvr == rollouts.gvr && passes(object):
		return errors.New("the steps of its canary would pass while it has no pods, and it would be promoted when it wakes; promote it, abort it or set its spec.paused, or exclude it")
	case k.gvr == rollouts.gvr && stuck(object, timedOut):
		return errors.New("its update does not come to its end, and would be promoted while it has no pods; abort it, undo it or complete it, or exclude it")
	}
	return nil
}

// timedOut is why a Rollout does not come to its end, other than that it was aborted: then it sleeps with the pods of before.
const timedOut = "ProgressDeadlineExceeded"

// stuck says whether a Deployment or a Rollout has pods that serve while those of its update do not become ready, for one of some reasons,
// or for any.
func stuck(object *unstructured.Unstructured, reasons ...string) bool {
	all, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	return count(object, "readyReplicas") > 0 && slices.ContainsFunc(all, func(c any) bool {
		condition, _ := c.(map[string]any)
		reason, _ := condition["reason"].(string)
		return condition["type"] == string(appsv1.DeploymentProgressing) && condition["status"] == string(corev1.ConditionFalse) &&
			(len(reasons) == 0 || slices.Contains(reasons, reason))
	})
}

// analyses are where a Rollout tells of the AnalysisRuns of its update.
var analyses = [][]string{
	{"canary", "currentBackgroundAnalysisRunStatus"}, {"canary", "currentStepAnalysisRunStatus"},
	{"blueGreen", "prePromotionAnalysisRunStatus"}, {"blueGreen", "postPromotionAnalysisRunStatus"},
}

// ended are how an AnalysisRun ends.
var ended = []string{"Successful", "Failed", "Error", "Inconclusive"}

// analyzed says whether an analysis of an update of a Rollout goes on, also while that is paused: it measures pods that there are not when
// it sleeps.
func analyzed(object *unstructured.Unstructured) bool {
	status, _, _ := unstructured.NestedMap(object.Object, "status")
	if status["abort"] == true || status["stableRS"] == status["currentPodHash"] {
		return false
	}
	return slices.ContainsFunc(analyses, func(path []string) bool {
		run, _, _ := unstructured.NestedStringMap(status, path...)
		return run["name"] != "" && !slices.Contains(ended, run["status"]) // of one that was just made nothing is told
	})
}

// passes says whether a Rollout is at a step that does not wait for somebody, and so would be over when no pods are left.
func passes(object *unstructured.Unstructured) bool {
	steps, told := begun(object)
	paused, _, _ := unstructured.NestedBool(object.Object, "spec", "paused")
	if !told || paused || len(steps) == 0 {
		return false
	}
	pause, waits, _ := unstructured.NestedMap(map[string]any{"step": steps[len(steps)-1]}, "step", "pause")
	return !waits || pause["duration"] != nil
}

// partly says whether a StatefulSet of two revisions is not to be updated any further by itself.
func partly(object *unstructured.Unstructured) bool {
	at := func(path ...string) string {
		text, _, _ := unstructured.NestedString(object.Object, path...)
		return text
	}
	partition, _, _ := unstructured.NestedInt64(object.Object, "spec", "updateStrategy", "rollingUpdate", "partition")
	return at("status", "currentRevision") != at("status", "updateRevision") && (partition > 0 || at("spec", "updateStrategy", "type") == "OnDelete")
}

// cloneSets of OpenKruise delete the volumes of a pod with it.
var cloneSets = schema.GroupResource{Group: "apps.kruise.io", Resource: "clonesets"}

// deletesVolumes says whether a spec, or what is in there, has the policy of a StatefulSet that deletes volumes when that is scaled down:
// kinds of others hand it on to one.
func deletesVolumes(spec map[string]any) bool {
	for name, value := range spec {
		within, _ := value.(map[string]any)
		if name == "persistentVolumeClaimRetentionPolicy" && within["whenScaled"] == "Delete" || deletesVolumes(within) {
			return true
		}
	}
	return false
}

// scale is the subresource of an object; nil if the object has gone.
func (t *target) scale(ctx context.Context, k kind, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	in := t.client.Resource(k.gvr).Namespace(object.GetNamespace())
	scale, err := in.Get(ctx, object.GetName(), metav1.GetOptions{}, "scale")
	if apierrors.IsNotFound(err) {
		switch _, gone := in.Get(ctx, object.GetName(), metav1.GetOptions{}); {
		case cluster.IsGone(gone):
			return nil, nil
		case gone != nil:
			err = gone // nor does the server say anything of the object
		default:
			err = fmt.Errorf("%s has no subresource scale; remove it from includedGroups", resourceText(k.gvr))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading scale of %s %s/%s: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
	}
	return scale, nil
}

// listAutoscalers is the autoscalers of a namespace that would scale something from 0, by the keys of what they scale.
func (t *target) listAutoscalers(ctx context.Context, namespace string) (map[string][]part, error) {
	by := map[string][]part{}
	var objects []unstructured.Unstructured
	var err error
	if !t.withoutKEDA {
		objects, err = t.listOf(ctx, scaledObjects, namespace, "")
		t.withoutKEDA = cluster.Unserved(err, scaledObjects.gvr, t.discovery)
	}
	if err != nil && !t.withoutKEDA {
		return nil, err
	}
	for i := range objects {
		key := scaled(&objects[i], "apps/v1", deployments.name)
		by[key] = append(by[key], newPart(scaledObjects, &objects[i], paused.read(&objects[i])))
	}
	if objects, err = t.listOf(ctx, autoscalers, namespace, ""); err != nil {
		return nil, err
	}
	for i := range objects {
		least, said, _ := unstructured.NestedInt64(objects[i].Object, "spec", "minReplicas")
		controller := metav1.GetControllerOfNoCopy(&objects[i])
		if !said || least > 0 || controller != nil && controller.Kind == scaledObjects.name {
			continue
		}
		key := scaled(&objects[i], "", "")
		by[key] = append(by[key], newPart(autoscalers, &objects[i], scaleUp.read(&objects[i])))
	}
	for _, parts := range by {
		slices.SortFunc(parts, func(a, b part) int { return strings.Compare(a.key(), b.key()) })
	}
	return by, nil
}

// scaled is the key of what an autoscaler scales.
func scaled(scaler *unstructured.Unstructured, usualVersion, usualKind string) string {
	of := func(name string) string {
		s, _, _ := unstructured.NestedString(scaler.Object, "spec", "scaleTargetRef", name)
		return s
	}
	gv, _ := schema.ParseGroupVersion(cmp.Or(of("apiVersion"), usualVersion))
	gk := schema.GroupKind{Group: gv.Group, Kind: cmp.Or(of("kind"), usualKind)}
	return gk.String() + "/" + scaler.GetNamespace() + "/" + of("name")
}
