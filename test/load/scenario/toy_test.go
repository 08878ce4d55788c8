package scenario

import (
	"context"
	"flag"
	"net/http"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/labkeeper/labkeeper/test/load/harness"
)

const (
	toySystem = "toy-system"
	lampLabel = "toy.illm.io/lamp-uid"
)

var (
	lamps = schema.GroupVersionResource{Group: "toy.illm.io", Version: "v1", Resource: "lamps"}
	bulbs = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

// The test binary is the toy's manager and its world too.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "world" {
		if err := harness.RunWorld(ctrl.SetupSignalHandler(), os.Args[2], lamp().World, os.Stderr); err != nil {
			panic(err)
		}
		return
	}
	for _, arg := range os.Args {
		if arg == "--leader-elect" {
			toyManager()
			return
		}
	}
	os.Exit(m.Run())
}

// lamp is all that the harness has to be told of another kind: a Lamp gets a bulb, its world
// lights it, and the Lamp is Lit.
func lamp() *harness.Subject {
	newLamp := func(namespace, name string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "toy.illm.io/v1", "kind": "Lamp", "spec": map[string]any{"colour": "red"}}}
		u.SetNamespace(namespace)
		u.SetName(name)
		return u
	}
	return &harness.Subject{
		Name: "lamp", Resource: lamps,
		CRD: "test/load/scenario/testdata/crd.yaml", CRDs: []string{"test/load/scenario/testdata/crd.yaml"},
		Manifests: []string{"test/load/scenario/testdata/manager.yaml"}, Namespaces: []string{toySystem},
		AccountNamespace: toySystem, Account: "toy", Lease: "toy", FieldManager: "toy",
		New: func(namespace, name string, _ harness.Variant) *unstructured.Unstructured {
			return newLamp(namespace, name)
		},
		Status:  func(i int) map[string]any { return map[string]any{"lit": i} },
		Watched: []harness.Watched{{Resource: lamps}, {Resource: bulbs, Labels: lampLabel}},
		Story: func(e harness.Event) harness.Beat {
			if e.Object.Resource == bulbs {
				return harness.Beat{Owner: e.Object.Metadata.Labels[lampLabel], Marks: []string{e.Type + " bulb"}}
			}
			marks := []string{map[string]string{"ADDED": "created", "MODIFIED": "acted", "DELETED": "gone"}[e.Type]}
			if len(e.Object.Status) > 0 {
				marks = append(marks, "lit")
			}
			return harness.Beat{Owner: e.Object.Metadata.UID, Marks: marks}
		},
		Needs: []string{"ADDED bulb", "lit"}, Created: "created", Gone: "gone", Acted: "acted", Done: "lit", Held: "lit", Refused: "lit",
		Reactions: []harness.Reaction{{Name: "light", Cause: "MODIFIED bulb", Effect: "lit"}},
		Minimal:   harness.Writes{Creates: 2, Patches: 2},
		Cached:    1,
		World: harness.World{
			Watched: []harness.Watched{{Resource: bulbs, Labels: lampLabel}},
			Play: func(ctx context.Context, c *harness.Client, o *harness.Object, gone bool) error {
				if gone || o.Metadata.DeletionTimestamp != "" || o.Metadata.Annotations["lit"] != "" {
					return nil
				}
				return c.Patch(ctx, o.Path(), map[string]any{"metadata": map[string]any{"annotations": map[string]any{"lit": "yes"}}})
			},
		},
		Shapes: []harness.Shape{{
			Name: "lamp", New: newLamp, Done: "lit",
			Up: map[string]int{"create configmaps": 1}, Down: map[string]int{},
		}},
	}
}

// toyManager has the flags that the harness gives to every manager.
func toyManager() {
	flags := flag.NewFlagSet("toy", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "")
	_ = flags.Bool("leader-elect", false, "")
	namespace := flags.String("leader-election-namespace", "", "")
	probes := flags.String("health-probe-bind-address", "", "")
	metrics := flags.String("metrics-bind-address", "", "")
	_ = flags.Bool("metrics-secure", true, "")
	_ = flags.Parse(os.Args[1:]) // ExitOnError
	ctrl.SetLogger(zap.New())
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	must(os.Setenv("KUBECONFIG", *kubeconfig))
	config, err := ctrl.GetConfig()
	must(err)
	config.QPS = -1
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		LeaderElection: true, LeaderElectionID: "toy", LeaderElectionNamespace: *namespace, LeaderElectionReleaseOnCancel: true,
		HealthProbeBindAddress: *probes, Metrics: metricsserver.Options{BindAddress: *metrics},
		Client: client.Options{Cache: &client.CacheOptions{Unstructured: true}},
	})
	must(err)
	must(mgr.AddReadyzCheck("readyz", func(*http.Request) error { return nil }))
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(lamps.GroupVersion().WithKind("Lamp"))
	must(ctrl.NewControllerManagedBy(mgr).For(object, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&corev1.ConfigMap{}).Complete(&toyReconciler{mgr.GetClient(), map[types.UID]bool{}}))
	must(mgr.Start(ctrl.SetupSignalHandler()))
}

type toyReconciler struct {
	client.Client

	// lit has those that it has lit: what it reads may be older than what it has written. One worker needs no lock.
	lit map[types.UID]bool
}

func (r *toyReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	lamp := &unstructured.Unstructured{}
	lamp.SetGroupVersionKind(lamps.GroupVersion().WithKind("Lamp"))
	if err := r.Get(ctx, request.NamespacedName, lamp); err != nil || lamp.GetDeletionTimestamp() != nil || lamp.Object["status"] != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	bulb := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: lamp.GetNamespace(), Name: lamp.GetName(), Labels: map[string]string{lampLabel: string(lamp.GetUID())},
	}}
	if err := r.Get(ctx, client.ObjectKeyFromObject(bulb), bulb); apierrors.IsNotFound(err) {
		if err := controllerutil.SetControllerReference(lamp, bulb, r.Scheme()); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{}, r.Create(ctx, bulb, client.FieldOwner("toy"))
	} else if err != nil || bulb.Annotations["lit"] == "" || r.lit[lamp.GetUID()] {
		return ctrl.Result{}, err
	}
	before := lamp.DeepCopy()
	lamp.Object["status"] = map[string]any{"lit": true}
	r.lit[lamp.GetUID()] = true // an error fails the run
	return ctrl.Result{}, r.Status().Patch(ctx, lamp, client.MergeFrom(before), client.FieldOwner("toy"))
}

// Another kind is measured by describing it: nothing of the harness knows the Experiment.
func TestLengthyToyKind(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	options := harness.Options{Manager: self, World: []string{self, "world"}, Floor: 400 * time.Millisecond, Tell: t.Logf}
	for name, n := range map[string]int{"experiment-burst": 20, "calls": 2} {
		t.Run(name, func(t *testing.T) {
			for _, s := range All() {
				if s.Name != name {
					continue
				}
				rep, err := harness.Repeat(t.Context(), lamp(), s, n, options)
				if err != nil {
					t.Fatal(err)
				}
				if len(rep.Errors) > 0 {
					t.Fatalf("errors: %q", rep.Errors)
				}
				check(t, name, rep.Figures)
			}
		})
	}
}

func check(t *testing.T, scenario string, figures map[string]float64) {
	t.Helper()
	want := map[string]map[string]*float64{
		"experiment-burst": {"calls_create": ptr.To(1.0), "calls_patch": ptr.To(1.0), "statuses": ptr.To(1.0), "rate": nil, "reaction_light_p50_ms": nil, "ceiling_percent": nil, "cpu_all_paced": nil},
		"calls":            {writesBeside: ptr.To(0.0), readsBesideList: ptr.To(0.0), statusesBeyond: ptr.To(0.0), "noop writes": ptr.To(0.0)},
	}[scenario]
	for name, value := range want {
		got, taken := figures[name]
		if !taken || value != nil && got != *value {
			t.Errorf("%s is %v (taken: %v)", name, got, taken)
		}
	}
}
