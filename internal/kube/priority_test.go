package kube_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/labkeeper/labkeeper/internal/kube"
)

func TestEnqueueSaysWhatGoesFirst(t *testing.T) {
	t.Parallel()
	owner := func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: o.GetName()}}}
	}
	object := func(name, version string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
	}
	ctx := t.Context()
	q := priorityqueue.New[reconcile.Request]("test")
	defer q.ShutDown()
	early, late := kube.Enqueue(owner, 10), kube.Enqueue(owner, 20)
	early.Create(ctx, event.CreateEvent{Object: object("restarted", "1"), IsInInitialList: true}, q)
	early.Update(ctx, event.UpdateEvent{ObjectOld: object("resynced", "1"), ObjectNew: object("resynced", "1")}, q)
	early.Create(ctx, event.CreateEvent{Object: object("created", "1")}, q)
	early.Create(ctx, event.CreateEvent{Object: object("updated", "1")}, q)
	q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: "new"}})
	early.Update(ctx, event.UpdateEvent{ObjectOld: object("updated", "1"), ObjectNew: object("updated", "2")}, q)
	late.Delete(ctx, event.DeleteEvent{Object: object("deleted", "3")}, q)

	type item struct {
		Name     string
		Priority int
	}
	var got []item
	for q.Len() > 0 {
		request, priority, _ := q.GetWithPriority()
		q.Done(request)
		got = append(got, item{request.Name, priority})
	}
	want := []item{{"deleted", 20}, {"updated", 10}, {"new", 0}, {"created", -10}, {"restarted", -100}, {"resynced", -100}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// What was created while no manager ran is looked at before what an earlier one has settled, in whatever order they are listed.
func TestNewFirst(t *testing.T) {
	t.Parallel()
	const finalizer = "example.com/protection"
	object := func(name string, finalizers ...string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n", Finalizers: finalizers}}
	}
	deleted := object("deleted", "example.com/other")
	deleted.DeletionTimestamp = &metav1.Time{}
	ctx := t.Context()
	q := priorityqueue.New[reconcile.Request]("test")
	defer q.ShutDown()
	all, first := handler.Funcs{}, kube.NewFirst(finalizer)
	all.CreateFunc = (&handler.EnqueueRequestForObject{}).Create
	for _, o := range []client.Object{object("settled", finalizer), deleted, object("new"), object("another")} {
		all.Create(ctx, event.CreateEvent{Object: o, IsInInitialList: true}, q)
		first.Create(ctx, event.CreateEvent{Object: o, IsInInitialList: true}, q)
	}
	first.Create(ctx, event.CreateEvent{Object: object("later")}, q)

	got := map[string]int{}
	var order []string
	for q.Len() > 0 {
		request, priority, _ := q.GetWithPriority()
		q.Done(request)
		got[request.String()] = priority
		order = append(order, request.Name)
	}
	want := map[string]int{"n/new": 0, "n/another": 0, "n/settled": handler.LowPriority, "n/deleted": handler.LowPriority}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("priorities (-want +got):\n%s", diff)
	}
	if len(order) < 2 || order[0] == "settled" || order[1] == "settled" {
		t.Errorf("they are looked at in the order %v: those that are new are not first", order)
	}
}
