package experimentdeployment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
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
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/labkeeper/labkeeper/api/experimentcontroller/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/internal/twin"
	"github.com/labkeeper/labkeeper/test/fakes"
)

// kinds are those of other systems that are served.
type kinds []schema.GroupVersionKind

// syncing are those that are there, and not in the cache.
type syncing []schema.GroupVersionKind

func (k syncing) State(gvk schema.GroupVersionKind) kube.KindState {
	if slices.Contains(k, gvk) {
		return kube.KindSyncing
	}
	return kube.KindMissing
}

func (k kinds) State(gvk schema.GroupVersionKind) kube.KindState {
	if slices.Contains(k, gvk) {
		return kube.KindServed
	}
	return kube.KindMissing
}

// lab is a reconciler before an API server in memory, which gives UIDs and generations, deletes in the foreground, and
// refuses what is applied.
type lab struct {
	*Reconciler
	t      testing.TB
	clock  *clocktesting.FakePassiveClock
	events *events.FakeRecorder
	at     types.NamespacedName
	// server is for everybody else.
	server client.WithWatch
	// writes of the reconciler that were done.
	writes []string
	// cached are objects as the cache has them, where that is not as they are; nil is none.
	cached map[types.NamespacedName]*unstructured.Unstructured
	// handed are objects of the cache that were read without a copy, and as they were.
	handed [][2]*unstructured.Unstructured
	// backwards is how lists are.
	backwards bool
	// unwatched is a namespace that the cache does not know; mostly empty.
	unwatched string
	// review answers a SubjectAccessReview.
	review func(*authorizationv1.SubjectAccessReview) error
	// seen is what the watch says of what is created, before the answer to that comes; mostly nil.
	seen func(o client.Object)
	// fail is the error of a write; nil if it is done.
	fail func(write string) error
}

// newLab has an ExperimentDeployment and what else is there.
func newLab(t testing.TB, owner *v1alpha1.ExperimentDeployment, others ...client.Object) *lab {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(appsv1.AddToScheme(scheme), corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	builder := fakes.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(owner).WithObjects(owner.DeepCopy()).WithObjects(others...)
	for _, gvk := range builtIn {
		if isWorkload(gvk) {
			builder = builder.WithIndex(kube.Empty(gvk), indexOwner, ownerOf)
		}
	}
	builder = builder.WithIndex(kube.Empty(twin.RolloutGVK), indexWorkload, workloadOf)
	l := &lab{
		t: t, at: client.ObjectKeyFromObject(owner), server: builder.Build(),
		clock: clocktesting.NewFakePassiveClock(epoch), events: events.NewFakeRecorder(100),
		cached: map[types.NamespacedName]*unstructured.Unstructured{},
		fail:   func(string) error { return nil },
	}
	live := interceptor.NewClient(l.server, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, at client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if at.Name == "" || strings.Contains(at.Name, "/") {
				return errors.New("invalid resource name") // as a client says itself, for ever
			}
			return c.Get(ctx, at, o, opts...)
		},
		Create: l.create, Update: l.update, Patch: l.patch, Delete: l.delete, SubResourcePatch: l.patchSubResource,
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			return l.refuseApply("an apply")
		},
	})
	l.Reconciler = &Reconciler{
		Live: live, Client: interceptor.NewClient(live, interceptor.Funcs{Get: l.get, List: l.list}), Kinds: kinds{},
		Recorder: l.events, Clock: l.clock, told: kube.NewTold(), made: kube.NewTold(), drafts: newDrafts(), tried: lru.New(lately),
	}
	l.Foreign = l.Client
	return l
}

func (l *lab) refuseApply(what string) error {
	l.t.Errorf("%s is sent", what)
	return apierrors.NewInternalError(errors.New("duplicate entries for key"))
}

// do does a write and notes it.
func (l *lab) do(verb string, o client.Object, write func() error) error {
	gvk, err := l.server.GroupVersionKindFor(o)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s %s %s", verb, gvk.Kind, client.ObjectKeyFromObject(o))
	if err := l.fail(name); err != nil {
		return err
	}
	if err := write(); err != nil {
		return err
	}
	l.writes = append(l.writes, name)
	return nil
}

func (l *lab) create(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
	if asked, ok := o.(*authorizationv1.SubjectAccessReview); ok {
		return l.review(asked)
	}
	return l.do("create", o, func() error {
		o.SetUID(types.UID("uid of " + o.GetName()))
		o.SetGeneration(1)
		err := c.Create(ctx, o, opts...)
		if err == nil && l.seen != nil {
			l.seen(o)
		}
		return err
	})
}

func (l *lab) update(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
	return l.do("update", o, func() error {
		is, now := kube.Empty(o.GetObjectKind().GroupVersionKind()), o.(*unstructured.Unstructured)
		if err := c.Get(ctx, client.ObjectKeyFromObject(o), is); err != nil {
			return err
		}
		if uid := now.GetUID(); uid != "" && uid != is.GetUID() {
			return kube.Stale(is, "its UID is another")
		}
		now.SetGeneration(is.GetGeneration())
		if !cmp.Equal(is.Object["spec"], now.Object["spec"]) {
			now.SetGeneration(is.GetGeneration() + 1)
		}
		return c.Update(ctx, o, opts...)
	})
}

func (l *lab) patch(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	if p.Type() == types.ApplyPatchType {
		return l.refuseApply("an apply of " + o.GetName())
	}
	return l.do("patch", o, func() error { return c.Patch(ctx, o, p, opts...) })
}

func (l *lab) patchSubResource(ctx context.Context, c client.Client, name string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
	return l.do("patch "+name+" of", o, func() error { return c.SubResource(name).Patch(ctx, o, p, opts...) })
}

func (l *lab) delete(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
	options := (&client.DeleteOptions{}).ApplyOptions(opts)
	if options.PropagationPolicy == nil || *options.PropagationPolicy != metav1.DeletePropagationForeground {
		return l.do("delete", o, func() error { return c.Delete(ctx, o, opts...) })
	}
	return l.do("delete in the foreground", o, func() error {
		is := kube.Empty(o.GetObjectKind().GroupVersionKind())
		if err := c.Get(ctx, client.ObjectKeyFromObject(o), is); err != nil {
			return err
		}
		if p := options.Preconditions; p == nil || p.UID == nil || *p.UID != is.GetUID() {
			return kube.Stale(is, "its UID is another")
		}
		is.SetFinalizers(append(is.GetFinalizers(), metav1.FinalizerDeleteDependents))
		if err := c.Update(ctx, is); err != nil {
			return err
		}
		return c.Delete(ctx, is)
	})
}

// list has them in any order, as the cache does: the other way round in each pass.
func (l *lab) list(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
	err := c.List(ctx, list, opts...)
	if all, ok := list.(*unstructured.UnstructuredList); ok && l.backwards {
		slices.Reverse(all.Items)
	}
	return err
}

func (l *lab) get(ctx context.Context, c client.WithWatch, at client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := l.read(ctx, c, at, o, opts...)
	u, ok := o.(*unstructured.Unstructured)
	if of := (&client.GetOptions{}).ApplyOptions(opts).UnsafeDisableDeepCopy; ok && err == nil && of != nil && *of {
		l.handed = append(l.handed, [2]*unstructured.Unstructured{u, u.DeepCopy()})
	}
	return err
}

func (l *lab) read(ctx context.Context, c client.WithWatch, at client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	cached, known := l.cached[at]
	u, ok := o.(*unstructured.Unstructured)
	if ok && isWorkload(u.GroupVersionKind()) && l.unwatched != "" && at.Namespace == l.unwatched {
		return fmt.Errorf("unable to get: %v because of unknown namespace for the cache", at)
	}
	if !ok || !known || !isWorkload(u.GroupVersionKind()) {
		return c.Get(ctx, at, o, opts...)
	}
	if cached == nil {
		return apierrors.NewNotFound(schema.GroupResource{}, at.Name)
	}
	cached.DeepCopyInto(u)
	return nil
}

// owner as it is now; nil if it is gone.
func (l *lab) owner() *v1alpha1.ExperimentDeployment {
	l.t.Helper()
	owner := &v1alpha1.ExperimentDeployment{}
	err := l.server.Get(l.t.Context(), l.at, owner)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return owner
}

// pass is one over the owner, and what it wrote.
func (l *lab) pass() (ctrl.Result, []string, error) {
	l.t.Helper()
	l.writes, l.handed, l.backwards = nil, nil, !l.backwards
	result, err := l.Reconcile(l.t.Context(), l.owner())
	for _, of := range l.handed {
		if diff := cmp.Diff(of[1], of[0]); diff != "" {
			l.t.Errorf("an object of the cache is changed (-before +after): %s", diff)
		}
	}
	return result, l.writes, err
}

// passed is a pass that works.
func (l *lab) passed() (ctrl.Result, []string) {
	l.t.Helper()
	result, writes, err := l.pass()
	if err != nil {
		l.t.Fatal(err)
	}
	return result, writes
}

// there is an object of a kind as it is now; nil if there is none.
func (l *lab) there(gvk schema.GroupVersionKind, at types.NamespacedName) *unstructured.Unstructured {
	l.t.Helper()
	u, err := kube.Get(l.t.Context(), l.server, gvk, at)
	if err != nil {
		l.t.Fatal(err)
	}
	return u
}

// twin is what has its name.
func (l *lab) twin() *unstructured.Unstructured {
	l.t.Helper()
	owner := l.owner()
	return l.there(twin.Kinds[owner.Spec.SourceRef.Kind], key(owner))
}

// edit has somebody else change an object.
func (l *lab) edit(o client.Object, change func()) {
	l.t.Helper()
	change()
	if err := l.server.Update(l.t.Context(), o); err != nil {
		l.t.Fatal(err)
	}
}

// report has the controller of a workload change its status.
func (l *lab) report(u *unstructured.Unstructured, change func()) {
	l.t.Helper()
	change()
	if err := l.server.Status().Update(l.t.Context(), u); err != nil {
		l.t.Fatal(err)
	}
}

// ask changes the spec of the owner.
func (l *lab) ask(change func(spec *v1alpha1.ExperimentDeploymentSpec)) {
	l.t.Helper()
	owner := l.owner()
	l.edit(owner, func() { change(&owner.Spec); owner.Generation++ })
}

// ready makes so many pods of the twin ready.
func (l *lab) ready(n int64) {
	l.t.Helper()
	u := l.twin()
	l.report(u, func() { facts{seen: Observed{Twin: u}}.ready(n) })
}

// drop has somebody else delete an object at once.
func (l *lab) drop(o client.Object) {
	l.t.Helper()
	if err := l.server.Delete(l.t.Context(), o); err != nil {
		l.t.Fatal(err)
	}
}

// freed takes the finalizers off an object that is being deleted.
func (l *lab) freed(o client.Object) {
	l.t.Helper()
	l.edit(o, func() { o.SetFinalizers(nil) })
}

// says checks a condition of the owner and returns its message.
func (l *lab) says(conditionType string, status metav1.ConditionStatus, reason string) string {
	l.t.Helper()
	owner := l.owner()
	c := meta.FindStatusCondition(owner.Status.Conditions, conditionType)
	if c == nil || c.Status != status || c.Reason != reason {
		l.t.Errorf("%s is not %s %s: %+v", conditionType, status, reason, owner.Status.Conditions)
		return ""
	}
	return c.Message
}

// heard are the Events of a reason since the last look.
func (l *lab) heard(reason string) (all []string) {
	for {
		select {
		case e := <-l.events.Events:
			if strings.Contains(e, " "+reason+" ") {
				all = append(all, e)
			}
		default:
			return all
		}
	}
}

// failOnce makes the next write fail that begins so, and tells when it has; without any nothing fails.
func (l *lab) failOnce(prefix string) *bool {
	failed := prefix == ""
	l.fail = func(write string) error {
		if failed || !strings.HasPrefix(write, prefix) {
			return nil
		}
		failed = true
		return errors.New("the answer is lost")
	}
	return &failed
}

// later lets time pass.
func (l *lab) later(d time.Duration) { l.clock.SetTime(l.clock.Now().Add(d)) }

// children are the writes to anything but the owner.
func children(writes []string) []string {
	return slices.DeleteFunc(slices.Clone(writes), func(w string) bool { return strings.Contains(w, " ExperimentDeployment ") })
}

// shop is the namespace of the source, which lets those of a namespace have twins there.
func shop(grants string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: map[string]string{v1alpha1.AnnotationAllowedNamespaces: grants}}}
}

// faster is an ExperimentDeployment beside its source.
func faster(t testing.TB, override string) *v1alpha1.ExperimentDeployment {
	t.Helper()
	return newFacts(t, override).owner
}

// elsewhere is one of another namespace than its source's.
func elsewhere(t *testing.T) *v1alpha1.ExperimentDeployment {
	t.Helper()
	owner := faster(t, `{}`)
	owner.Namespace, owner.Spec.SourceRef.Namespace = "lab", "shop"
	return owner
}
