// Command manager reconciles Boxes: a Box has as many balls as its spec says, each a ConfigMap,
// and is Full when somebody has painted all of them. With -careless it makes them as one should
// not: under new names, counted in a status that is written afterwards.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/labkeeper/labkeeper/internal/kube"
)

const (
	label     = "toys.example.com/box"
	finalizer = "toys.example.com/balls"
)

var boxKind = schema.GroupVersionKind{Group: "toys.example.com", Version: "v1", Kind: "Box"}

func main() {
	config.RegisterFlags(flag.CommandLine)
	namespace := flag.String("namespace", "", "Namespace of the Boxes to act on.")
	careless := flag.Bool("careless", false, "Make balls as one should not.")
	workers := flag.Int("max-concurrent-reconciles", 1, "How many Boxes are acted on at the same time.")
	probes := flag.String("health-probe-bind-address", "0", "Address of /readyz.")
	metrics := flag.String("metrics-bind-address", "0", "Address of the metrics.")
	elect := flag.Bool("leader-elect", false, "Let one of several managers lead.")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	if err := run(ctrl.SetupSignalHandler(), *namespace, *careless, *workers, ctrl.Options{
		HealthProbeBindAddress: *probes, Metrics: metricsserver.Options{BindAddress: *metrics}, LeaderElection: *elect, LeaderElectionID: "toys",
	}); err != nil {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, namespace string, careless bool, workers int, o ctrl.Options) error {
	o.Cache = cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}}
	o.Client = client.Options{Cache: &client.CacheOptions{Unstructured: true, EnableReadYourWritesConsistency: ptr.To(true)}}
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), o)
	if err != nil {
		return err
	}
	box := &unstructured.Unstructured{}
	box.SetGroupVersionKind(boxKind)
	// A manager that is asked to stop before its caches have synced logs errors: until then it is not ready.
	for name, o := range map[string]client.Object{"boxes": box, "balls": &corev1.ConfigMap{}} {
		informer, err := mgr.GetCache().GetInformer(ctx, o, cache.BlockUntilSynced(false))
		if err != nil {
			return err
		}
		err = mgr.AddReadyzCheck(name, func(*http.Request) error {
			if !informer.HasSynced() {
				return errors.New("its cache has not synced")
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	r := &reconciler{Client: mgr.GetClient(), live: mgr.GetAPIReader(), careless: careless}
	err = ctrl.NewControllerManagedBy(mgr).Named("box").For(box).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), box)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, RateLimiter: kube.Backoff()}).
		Complete(kube.QuietConflicts(reconcile.Func(r.reconcile)))
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

type reconciler struct {
	client.Client
	live     client.Reader
	careless bool
}

// reconcile takes a Box one step on.
func (r *reconciler) reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	box := &unstructured.Unstructured{}
	box.SetGroupVersionKind(boxKind)
	reader := client.Reader(r)
	if r.careless {
		reader = r.live // a late cache must not look like a crash
	}
	if err := reader.Get(ctx, req.NamespacedName, box); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if box.GetDeletionTimestamp() != nil {
		return reconcile.Result{}, r.remove(ctx, box)
	}
	if len(box.GetFinalizers()) == 0 {
		change := from(box)
		box.SetFinalizers([]string{finalizer})
		if err := r.Patch(ctx, box, change); err != nil {
			return reconcile.Result{}, err
		}
	}
	made, err := r.make(ctx, box)
	if err != nil {
		return reconcile.Result{}, err
	}
	painted := 0
	balls := &corev1.ConfigMapList{}
	if err := r.List(ctx, balls, client.InNamespace(req.Namespace), client.MatchingLabels{label: string(box.GetUID())}); err != nil {
		return reconcile.Result{}, err
	}
	for _, ball := range balls.Items {
		if ball.Data["painted"] != "" {
			painted++
		}
	}
	// The phase does not go back: the cache of balls may be behind that of Boxes.
	phase, _, _ := unstructured.NestedString(box.Object, "status", "phase")
	if want, _, _ := unstructured.NestedInt64(box.Object, "spec", "balls"); painted >= int(want) {
		phase = "Full"
	} else if phase == "" {
		phase = "Filling"
	}
	return reconcile.Result{}, r.tell(ctx, box, phase, made)
}

// make makes the balls that are missing and returns how many there are then.
func (r *reconciler) make(ctx context.Context, box *unstructured.Unstructured) (int64, error) {
	want, _, _ := unstructured.NestedInt64(box.Object, "spec", "balls")
	made, _, _ := unstructured.NestedInt64(box.Object, "status", "made")
	if r.careless {
		if made == want {
			return made, nil
		}
		return made + 1, r.create(ctx, box, metav1.ObjectMeta{GenerateName: box.GetName() + "-"})
	}
	if made == want {
		return made, nil
	}
	// What is made for a Box that is gone would stay, and the cache may be behind.
	now := &unstructured.Unstructured{}
	now.SetGroupVersionKind(boxKind)
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(box), now); err != nil {
		return 0, err
	}
	if now.GetUID() != box.GetUID() || now.GetDeletionTimestamp() != nil {
		return 0, fmt.Errorf("box %s is not what it was", box.GetName())
	}
	for i := made; i < want; i++ {
		err := r.create(ctx, box, metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", box.GetName(), i)})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return 0, err
		}
	}
	return want, nil
}

// create makes a ball.
func (r *reconciler) create(ctx context.Context, box *unstructured.Unstructured, name metav1.ObjectMeta) error {
	name.Namespace = box.GetNamespace()
	name.Labels = map[string]string{label: string(box.GetUID())}
	name.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(box, boxKind)}
	return r.Create(ctx, &corev1.ConfigMap{ObjectMeta: name})
}

// tell writes the status if it says anything new.
func (r *reconciler) tell(ctx context.Context, box *unstructured.Unstructured, phase string, made int64) error {
	if was, _, _ := unstructured.NestedMap(box.Object, "status"); was["phase"] == phase && was["made"] == made {
		return nil
	}
	change := from(box)
	box.Object["status"] = map[string]any{"phase": phase, "made": made}
	return r.Status().Patch(ctx, box, change)
}

// remove deletes the balls, then lets the Box go.
func (r *reconciler) remove(ctx context.Context, box *unstructured.Unstructured) error {
	balls := &corev1.ConfigMapList{}
	if err := r.live.List(ctx, balls, client.InNamespace(box.GetNamespace()), client.MatchingLabels{label: string(box.GetUID())}); err != nil {
		return err
	}
	for i := range balls.Items {
		if err := r.Delete(ctx, &balls.Items[i]); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	change := from(box)
	box.SetFinalizers(nil)
	return client.IgnoreNotFound(r.Patch(ctx, box, change))
}

// from is the change of a Box from what it is now, unless somebody else changes it too.
func from(box *unstructured.Unstructured) client.Patch {
	return client.MergeFromWithOptions(box.DeepCopy(), client.MergeFromWithOptimisticLock{})
}
