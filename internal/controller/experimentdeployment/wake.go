package experimentdeployment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/labkeeper/labkeeper/api/experimentcontroller/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/internal/twin"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// find lists the ExperimentDeployments of the cache; it cannot fail there, but for the end of the manager.
func (r *Reconciler) find(ctx context.Context, opts ...client.ListOption) []reconcile.Request {
	list := &v1alpha1.ExperimentDeploymentList{}
	if err := r.Client.List(ctx, list, append(opts, client.UnsafeDisableDeepCopy)...); err != nil {
		if ctx.Err() != nil {
			return nil // the manager is being stopped
		}
		log.FromContext(ctx).Error(err, "Listing ExperimentDeployments to wake")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// ofWorkload wakes the owner of a twin, and those whose source a workload is, or is made of, if what it asks
// for has changed.
func (r *Reconciler) ofWorkload() handler.EventHandler {
	return both(r.news(kube.Enqueue(marks.Owners(r.Options.WatchNamespaces), priorityTwin)),
		both(respecified(handler.EnqueueRequestsFromMapFunc(r.followers)), cameOrWent(handler.EnqueueRequestsFromMapFunc(r.besideScaled))))
}

// news hands on what of a twin its owner has to look at: not that it is there, which the pass has taken in that made it, nor what
// no pass would see.
func (r *Reconciler) news(to handler.EventHandler) handler.EventHandler {
	return handler.Funcs{
		DeleteFunc: to.Delete,
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			if !r.mine(ctx, e.Object) {
				to.Create(ctx, e, q)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			ours := ownerOf(e.ObjectOld) != nil || ownerOf(e.ObjectNew) != nil
			if ours && (e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion() || !alike(e.ObjectOld, e.ObjectNew)) {
				to.Update(ctx, e, q)
			}
		},
	}
}

// mine says whether a twin is as this process has made it, for an owner that is there: when that goes, the twin is found.
func (r *Reconciler) mine(ctx context.Context, o client.Object) bool {
	uid := types.UID(o.GetLabels()[v1alpha1.LabelUID])
	for _, request := range marks.Request(o) {
		owner := &v1alpha1.ExperimentDeployment{}
		if err := kube.Find(ctx, r.Client, request.NamespacedName, owner, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err == nil && owner.UID == uid {
			return !r.made.Wakes(uid, o.GetResourceVersion())
		}
	}
	return false
}

// revisions are annotations in which controllers count the templates of a workload.
var revisions = []string{"deployment.kubernetes.io/revision", "rollout.argoproj.io/revision"}

// alike says whether a pass would see the same of two versions of a twin: its generation stands for its spec, and of its status only
// how it is counts.
func alike(before, now client.Object) bool {
	was, ok := before.(*unstructured.Unstructured)
	is, both := now.(*unstructured.Unstructured)
	return ok && both && toldOf(was) == toldOf(is) && equality.Semantic.DeepEqual(visible(was), visible(is))
}

// toldOf is how a twin is to a pass over its owner: of a new one it is nothing to tell of that its controller has seen it, and made no pods yet.
func toldOf(u *unstructured.Unstructured) twin.State {
	s := twin.Read(u)
	if u.GetGeneration() == 1 && s.Replicas == 0 && (s.Empty || s.Reason == twin.ReasonNotObserved) {
		return twin.State{Empty: true}
	}
	return s
}

// visible are the metadata of a twin without what changes with everything.
func visible(u *unstructured.Unstructured) map[string]any {
	of, _ := u.Object["metadata"].(map[string]any)
	metadata := maps.Clone(of)
	delete(metadata, "resourceVersion")
	if annotations, ok := of["annotations"].(map[string]any); ok {
		kept := maps.Clone(annotations)
		for _, name := range revisions {
			delete(kept, name)
		}
		metadata["annotations"] = kept
	}
	return metadata
}

// besideScaled are those with a source in the namespace of a workload that an autoscaler is for, which most have none of.
func (r *Reconciler) besideScaled(ctx context.Context, o client.Object) []reconcile.Request {
	autoscalers, err := r.autoscalers(ctx, client.InNamespace(o.GetNamespace()), client.UnsafeDisableDeepCopy)
	if err != nil {
		log.FromContext(ctx).Error(err, "Listing autoscalers of a workload")
	}
	for _, a := range autoscalers {
		if kind, name := twin.Target(a); kind == o.GetObjectKind().GroupVersionKind().Kind && name == o.GetName() {
			return r.find(ctx, client.MatchingFields{indexNamespace: o.GetNamespace()})
		}
	}
	return nil
}

// cameOrWent hands on that an object is new, or gone: the selector of a workload does not change. What is there when the manager
// starts is looked at anyway.
func cameOrWent(to handler.EventHandler) handler.EventHandler {
	return handler.Funcs{
		DeleteFunc: to.Delete,
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			if !e.IsInInitialList {
				to.Create(ctx, e, q)
			}
		},
	}
}

// followers are those whose source a workload is, or is made of, or says something of by what it is made of itself.
func (r *Reconciler) followers(ctx context.Context, o client.Object) []reconcile.Request {
	kind := o.GetObjectKind().GroupVersionKind().Kind
	requests := r.find(ctx, client.MatchingFields{indexSource: sourceKey(kind, o.GetNamespace(), o.GetName())})
	rollouts, err := r.rolloutsOf(ctx, o)
	if err != nil {
		log.FromContext(ctx).Error(err, "Listing Rollouts of a Deployment")
	}
	for i := range rollouts {
		requests = append(requests, r.find(ctx, client.MatchingFields{indexSource: sourceKey("Rollout", o.GetNamespace(), rollouts[i].GetName())})...)
	}
	for _, deployment := range workloadOf(o) {
		requests = append(requests, r.find(ctx, client.MatchingFields{indexSource: sourceKey("Deployment", o.GetNamespace(), deployment)})...)
	}
	return requests
}

// rolloutsOf are those that run the template of a Deployment.
func (r *Reconciler) rolloutsOf(ctx context.Context, o client.Object) ([]unstructured.Unstructured, error) {
	if o.GetObjectKind().GroupVersionKind().Kind != "Deployment" || r.Kinds.State(twin.RolloutGVK) != kube.KindServed {
		return nil, nil
	}
	return kube.List(ctx, r.Foreign, twin.RolloutGVK, client.InNamespace(o.GetNamespace()), client.MatchingFields{indexWorkload: o.GetName()}, client.UnsafeDisableDeepCopy)
}

// ofNeighbour wakes those with a source in the namespace, if what the object asks for has changed.
func (r *Reconciler) ofNeighbour() handler.EventHandler {
	return respecified(handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		return r.find(ctx, client.MatchingFields{indexNamespace: o.GetNamespace()})
	}))
}

// ofGrant wakes those with a source in a Namespace.
func (r *Reconciler) ofGrant() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		return r.find(ctx, client.MatchingFields{indexNamespace: o.GetName()})
	})
}

// granted lets a Namespace through of which the grants have changed.
var granted = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return len(grants(e.Object)) > 0 && !e.IsInInitialList },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return !equality.Semantic.DeepEqual(grants(e.ObjectOld), grants(e.ObjectNew))
	},
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}

func grants(namespace client.Object) map[string]string {
	out := map[string]string{}
	for _, a := range []string{v1alpha1.AnnotationAllowedNamespaces, v1alpha1.AnnotationAllowPrivileges} {
		if value, ok := namespace.GetAnnotations()[a]; ok {
			out[a] = value
		}
	}
	return out
}

// both hands events to two handlers.
func both(a, b handler.EventHandler) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { a.Create(ctx, e, q); b.Create(ctx, e, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { a.Update(ctx, e, q); b.Update(ctx, e, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { a.Delete(ctx, e, q); b.Delete(ctx, e, q) },
	}
}

// respecified hands on the updates by which an object asks for something else.
func respecified(to handler.EventHandler) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: to.Create, DeleteFunc: to.Delete,
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if asksFor(e.ObjectOld, e.ObjectNew) {
				to.Update(ctx, e, q)
			}
		},
	}
}

// asksFor says whether an object asks for something else than before, or has given that up. Services and autoscalers have
// no generation that says so, and of another object of its name none does.
func asksFor(before, now client.Object) bool {
	was, ok := before.(*unstructured.Unstructured)
	is, both := now.(*unstructured.Unstructured)
	if !ok || !both || (was.GetDeletionTimestamp() == nil) != (is.GetDeletionTimestamp() == nil) {
		return true
	}
	same := was.GetGeneration() != 0 && kube.SameSpec(was, is) || equality.Semantic.DeepEqual(was.Object["spec"], is.Object["spec"])
	return !same || twin.Aborted(was) != twin.Aborted(is) || !equality.Semantic.DeepEqual(was.GetLabels(), is.GetLabels()) || !equality.Semantic.DeepEqual(was.GetAnnotations(), is.GetAnnotations())
}

// sweepAll takes the twins down whose owners are gone without it, because somebody has taken the finalizer off: in
// another namespace nobody else does. They are found when they are first seen, and so at every start.
func (r *Reconciler) sweepAll(ctx context.Context, owner types.NamespacedName) (_ time.Duration, err error) {
	orphans, err := r.orphansOf(ctx, owner)
	problems := []error{err}
	for _, orphan := range orphans {
		problems = append(problems, r.sweep(ctx, orphan))
	}
	return 0, errors.Join(problems...)
}

// orphansOf are the twins of an owner's name that are not of the one that has it now, which the server must say.
func (r *Reconciler) orphansOf(ctx context.Context, at types.NamespacedName) (all []*unstructured.Unstructured, err error) {
	owner := &v1alpha1.ExperimentDeployment{}
	if err := kube.Find(ctx, r.Client, at, owner, client.UnsafeDisableDeepCopy); client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	for _, gvk := range r.served() {
		twins, err := kube.List(ctx, r.reader(gvk), gvk, client.MatchingFields{indexOwner: at.String()}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, err
		}
		for i := range twins {
			if !marks.Owns(owner, &twins[i]) && ownerBefore(&twins[i]) != nil {
				all = append(all, twins[i].DeepCopy())
			}
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	now := kube.Metadata(v1alpha1.GroupVersion.WithKind("ExperimentDeployment"))
	if err := kube.Find(ctx, r.Live, at, now); client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(u *unstructured.Unstructured) bool { return marks.Owns(now, u) }), nil
}

// ownerBefore is whose a twin is by its marks, if its name and namespace prove that it is one: a copy that somebody has made of a twin
// has its marks, and another name, or the same in another namespace. It has what a twin is known by, and nothing else; it is nil of what is
// no twin, or goes already.
func ownerBefore(orphan *unstructured.Unstructured) *v1alpha1.ExperimentDeployment {
	owner := &v1alpha1.ExperimentDeployment{}
	owner.UID = types.UID(orphan.GetLabels()[v1alpha1.LabelUID])
	owner.Spec.SourceRef.Namespace, owner.Spec.SourceRef.Name, _ = strings.Cut(orphan.GetAnnotations()[v1alpha1.AnnotationSource], "/")
	if orphan.GetDeletionTimestamp() != nil || owner.UID == "" || client.ObjectKeyFromObject(orphan) != key(owner) {
		return nil
	}
	return owner
}

// sweep deletes a twin without an owner.
func (r *Reconciler) sweep(ctx context.Context, orphan *unstructured.Unstructured) error {
	log.FromContext(ctx).Info("Deleting twin whose ExperimentDeployment is gone", "twin", kube.Describe(orphan))
	writer := kube.Writer{Client: r.Live, Marks: marks, Owner: ownerBefore(orphan)}
	if err := unpin(ctx, writer, client.ObjectKeyFromObject(orphan)); err != nil { // which the twin may not tell of yet
		return err
	}
	if err := writer.Delete(ctx, orphan, foreground); err != nil {
		return fmt.Errorf("taking a twin down without an owner: %w", err)
	}
	return nil
}
