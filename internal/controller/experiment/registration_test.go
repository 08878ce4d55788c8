package experiment

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/crossplane"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// withoutSecret is a live client that cannot read a Secret, for some times.
type withoutSecret struct {
	client.Client
	name  string
	times *int
}

func (w withoutSecret) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if kindOf(o) == "Secret" && key.Name == w.name && *w.times > 0 {
		*w.times--
		return apierrors.NewInternalError(errors.New("down"))
	}
	return w.Client.Get(ctx, key, o, opts...)
}

// withoutKeeping is a live client to which Secrets are gone as soon as they are created.
type withoutKeeping struct{ client.Client }

func (w withoutKeeping) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	err := w.Client.Create(ctx, o, opts...)
	if err == nil && kindOf(o) == "Secret" {
		err = w.Delete(ctx, o)
	}
	return err
}

// registersFirst says whether a write came before the deletion of an Application; not, where there is not each.
func (l *lab) registersFirst(write string) bool {
	at, deleted := slices.Index(l.writes, write), slices.Index(l.writes, "delete Application")
	return at >= 0 && at < deleted
}

// An Application whose cluster somebody has unregistered is deleted when that is registered again: Argo CD would let it go, and
// leave what it deployed.
func TestUnregisteredBeforeATeardown(t *testing.T) {
	for name, told := range map[string]bool{"Argo CD says so": true, "Argo CD has not looked yet": false} {
		l := newLab(t, onExisting(staging(kubeconfig))...)
		l.settle(l.play)
		l.delete(argocd.SecretGVK)
		if told {
			l.disconnect("InvalidSpecError", "there are no clusters with this name")
		}
		l.remove()
		l.writes = nil
		l.tick(l.without(argocd.ApplicationGVK))
		registered, deleted := slices.Index(l.writes, "create Secret"), slices.Index(l.writes, "delete Application")
		if registered < 0 || deleted < registered {
			t.Errorf("%s: it writes %v", name, l.writes)
		}
		l.tick(l.without())
		if l.get() != nil || len(l.ours()) > 0 {
			t.Errorf("%s: it stays, and %v", name, kindsLeft(l.ours()))
		}
	}

	for name, end := range map[string]func(l *lab){
		"deleted":    func(l *lab) { l.remove() },
		"terminated": func(l *lab) { l.edit(func(e *v1alpha1.Experiment) { e.Spec.Terminate = true }) },
	} {
		l := newLab(t, onExisting(staging(kubeconfig))...)
		l.settle(l.play)
		l.delete(argocd.SecretGVK)
		l.disconnect("InvalidSpecError", "there are no clusters with this name")
		l.forbid("create", "Secret")
		end(l)
		l.tick(l.without())
		if len(l.list(argocd.ApplicationGVK)) == 0 {
			t.Errorf("%s: it does not try to register the cluster", name)
		}
		l.later(8 * time.Minute)
		if l.tick(l.without()); len(l.ours()) > 0 {
			t.Errorf("%s: what cannot be registered holds it for ever: %v", name, kindsLeft(l.ours()))
		}
		if !l.tellsOfOrphans() {
			t.Errorf("%s: nobody is told of what it leaves there", name)
		}
	}
}

// A cluster Secret that somebody has made his own is not registered again: Argo CD knows the cluster.
func TestRegistrationOfSomebodyElse(t *testing.T) {
	l := newLab(t, onExisting(staging(kubeconfig))...)
	l.settle(l.play)
	secret := l.list(argocd.SecretGVK)[0]
	secret.SetLabels(argocd.ClusterLabels())
	l.update(&secret)
	l.remove()
	l.tick(l.without())
	if l.get() != nil || len(l.ours()) > 0 {
		t.Errorf("it stays, and %v", kindsLeft(l.ours()))
	}
	if err := l.client.Get(t.Context(), client.ObjectKeyFromObject(&secret), &secret); err != nil {
		t.Errorf("somebody else's cluster Secret: %v", err)
	}
}

// A cluster Secret by which Argo CD does not know the cluster any more is mended before the Application goes.
func TestRegistrationThatIsNoneAnyMore(t *testing.T) {
	for name, spoil := range map[string]func(*unstructured.Unstructured){
		"another name": func(secret *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(secret.Object, encode("renamed"), "data", "name")
		},
		"no cluster Secret": func(secret *unstructured.Unstructured) {
			labels := secret.GetLabels()
			for label := range argocd.ClusterLabels() {
				delete(labels, label)
			}
			secret.SetLabels(labels)
		},
	} {
		for _, told := range []bool{true, false} {
			l := newLab(t, onExisting(staging(kubeconfig))...)
			l.settle(l.play)
			secret := l.list(argocd.SecretGVK)[0]
			spoil(&secret)
			l.update(&secret)
			if told {
				l.disconnect("InvalidSpecError", "there are no clusters with this name")
			}
			l.remove()
			l.writes = nil
			l.tick(l.without(argocd.ApplicationGVK))
			if !l.registersFirst("apply object") {
				t.Errorf("%s, told %t: it writes %v", name, told, l.writes)
			}
			if l.tick(l.without()); l.get() != nil || len(l.ours()) > 0 {
				t.Errorf("%s, told %t: it stays, and %v", name, told, kindsLeft(l.ours()))
			}
		}
	}
}

// A read that fails does not let an Application go.
func TestRegistrationThatCannotBeReadOnce(t *testing.T) {
	for _, name := range []string{"staging", ""} { // the kubeconfig, and the cluster Secret
		l := newLab(t, onExisting(staging(kubeconfig))...)
		l.settle(l.play)
		times := 2
		if name == "" {
			name = l.list(argocd.SecretGVK)[0].GetName()
		}
		l.delete(argocd.SecretGVK)
		l.reconciler.Live = withoutSecret{l.client, name, &times}
		l.remove()
		l.writes = nil
		l.tick(l.without(argocd.ApplicationGVK))
		if !l.registersFirst("create Secret") || times > 0 {
			t.Errorf("%s: it writes %v, and reads %d times", name, l.writes, times)
		}
		if l.tick(l.without()); l.get() != nil || len(l.ours()) > 0 {
			t.Errorf("%s: it stays, and %v", name, kindsLeft(l.ours()))
		}
	}
}

// One that can never be read, or that somebody takes away every time, holds the Application for a quarter of the deadline.
func TestRegistrationThatNeverStays(t *testing.T) {
	forever := 1 << 20
	for name, never := range map[string]func(client.Client) client.Client{
		"read":       func(c client.Client) client.Client { return withoutSecret{c, "staging", &forever} },
		"taken away": func(c client.Client) client.Client { return withoutKeeping{c} },
	} {
		l := newLab(t, onExisting(staging(kubeconfig))...)
		l.settle(l.play)
		l.delete(argocd.SecretGVK)
		l.reconciler.Live = never(l.client)
		l.remove()
		passes := func(at time.Duration) {
			l.later(at)
			for range 12 {
				if e := l.get(); e != nil {
					_, _ = l.reconciler.Reconcile(t.Context(), e)
				}
				l.without()()
			}
		}
		passes(0)
		passes(7 * time.Minute)
		if len(l.list(argocd.ApplicationGVK)) == 0 {
			t.Fatalf("%s: the Application went at once", name)
		}
		if name == "taken away" {
			if looks := l.pass(); looks < leftoverDelay {
				t.Errorf("it looks again in %s", looks)
			}
		}
		if passes(8 * time.Minute); l.get() != nil || len(l.ours()) > 0 {
			t.Errorf("%s: it stays, and %v", name, kindsLeft(l.ours()))
		}
		if !l.tellsOfOrphans() {
			t.Errorf("%s: nobody is told of what it leaves there", name)
		}
	}
}

// What of an Application that goes is registered again in time is not told of.
func TestRegisteredWhileItGoes(t *testing.T) {
	l := newLab(t, onExisting(staging(kubeconfig))...)
	l.settle(l.play)
	l.remove()
	l.settle(l.without(argocd.ApplicationGVK))
	l.delete(argocd.SecretGVK)
	l.disconnect("InvalidSpecError", "there are no clusters with this name")
	l.writes = nil
	l.settle(l.without(argocd.ApplicationGVK))
	if len(l.writes) == 0 || l.writes[0] != "create Secret" {
		t.Errorf("it writes %v", l.writes)
	}
	l.settle(l.play)
	if left := l.orphans(); l.get() != nil || len(left) > 0 {
		t.Errorf("it goes, and tells of %+v", left)
	}
}

// What was refused on the way up says nothing of a teardown.
func TestRegistrationThatWasRefusedBefore(t *testing.T) {
	l := newLab(t, onExisting(staging(kubeconfig))...)
	l.until(v1alpha1.PhaseReady)
	l.delete(argocd.SecretGVK)
	l.disconnect("InvalidSpecError", "there are no clusters with this name")
	l.forbid("create", "Secret")
	l.tick()
	l.later(time.Hour)
	l.tick()
	l.refuse = nil
	l.remove()
	l.writes = nil
	l.tick(l.without(argocd.ApplicationGVK))
	if !l.registersFirst("create Secret") {
		t.Errorf("it writes %v", l.writes)
	}
}

// What the manager may not read any more beside a cluster in its house it lets itself read again, and then registers.
func TestRegistrationOfAHousedCluster(t *testing.T) {
	target := targetOf("app", v1alpha1.ClusterVCluster)
	l := newLab(t, experimentOf(target), nginx(), template())
	l.settle(l.play)
	l.delete(argocd.SecretGVK)
	l.delete(kube.RoleBindingGVK)
	l.reconciler.Live = withoutGrant{l.client, l}
	l.remove()
	l.writes = nil
	l.tick(l.without(argocd.ApplicationGVK))
	if !l.registersFirst("create RoleBinding") || !l.registersFirst("create Secret") {
		t.Errorf("it writes %v", l.writes)
	}
}

// withoutGrant is a live client that may not read kubeconfigs while there is no RoleBinding for it.
type withoutGrant struct {
	client.Client
	l *lab
}

func (w withoutGrant) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if kindOf(o) == "Secret" && strings.HasSuffix(key.Name, "-kubeconfig") && len(w.l.list(kube.RoleBindingGVK)) == 0 {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, key.Name, errors.New("no rights"))
	}
	return w.Client.Get(ctx, key, o, opts...)
}

// One that others depend on has its time when it is its turn.
func TestRegistrationOfWhatOthersNeed(t *testing.T) {
	needed, needs := targetOf("a", v1alpha1.ClusterExisting), targetOf("b", v1alpha1.ClusterHub, "a")
	needed.Cluster.KubeconfigSecret = &v1alpha1.SecretKey{Name: "staging", Key: "config"}
	needs.ApplicationPolicy, needs.Components = v1alpha1.ApplicationPerComponent, layers[:2]
	l := newLab(t, experimentOf(needed, needs), staging(kubeconfig), nginx(), template())
	l.reconciler.Options.Fallback = Fallback{RepoURL: "https://git.example.com/components.git", Revision: "v1"}
	l.settle(l.play)
	l.delete(argocd.SecretGVK)
	l.remove()
	hold := l.without(argocd.ApplicationGVK)
	l.tick(hold)
	for _, layer := range []int{1, 0} { // each takes five minutes
		l.later(time.Duration(2-layer) * 5 * time.Minute)
		l.tick(hold)
		l.finalize(l.appOf(layers[layer].String()))
		l.tick(hold)
	}
	if !l.registersFirst("create Secret") || len(l.list(argocd.SecretGVK)) != 1 {
		t.Errorf("it writes %v", l.writes)
	}
	if l.tick(l.without()); l.get() != nil || len(l.ours()) > 0 {
		t.Errorf("it stays, and %v", kindsLeft(l.ours()))
	}
}

// A cluster that Argo CD knows by a Secret of another name is not registered twice: of two it would know none.
func TestRegistrationByAnotherName(t *testing.T) {
	l := newLab(t, onExisting(staging(kubeconfig))...)
	l.settle(l.play)
	secret := l.list(argocd.SecretGVK)[0]
	moved := secret.DeepCopy()
	moved.SetName("sealed")
	moved.SetResourceVersion("")
	moved.SetLabels(argocd.ClusterLabels())
	l.create(moved)
	l.deleteObject(&secret)
	l.remove()
	l.writes = nil
	if l.tick(l.without()); l.get() != nil || len(l.ours()) > 0 || slices.Contains(l.writes, "create Secret") {
		t.Errorf("it writes %v; left are %v", l.writes, kindsLeft(l.ours()))
	}
}

// One of which somebody has broken the credentials is mended first.
func TestRegistrationThatIsBroken(t *testing.T) {
	for _, field := range []string{"config", "server"} {
		l := newLab(t, onExisting(staging(kubeconfig))...)
		l.settle(l.play)
		secret := l.list(argocd.SecretGVK)[0]
		_ = unstructured.SetNestedField(secret.Object, "", "data", field)
		l.update(&secret)
		l.remove()
		l.writes = nil
		l.tick(l.without(argocd.ApplicationGVK))
		if !l.registersFirst("apply object") {
			t.Errorf("%s: it writes %v", field, l.writes)
		}
	}
}

// Single Secrets that cannot be read have their time, whatever others can be.
func TestOneSecretThatCannotBeRead(t *testing.T) {
	forever := 1 << 20
	a, b := targetOf("a", v1alpha1.ClusterExisting), targetOf("b", v1alpha1.ClusterExisting)
	for _, target := range []*v1alpha1.Target{&a, &b} {
		target.Cluster.KubeconfigSecret = &v1alpha1.SecretKey{Name: "staging", Key: "config"}
	}
	l := newLab(t, experimentOf(a, b), staging(kubeconfig), nginx(), template())
	l.settle(l.play)
	name := ""
	for _, secret := range l.list(argocd.SecretGVK) {
		if secret.GetLabels()[v1alpha1.LabelTarget] == "b" {
			name = secret.GetName()
		}
	}
	l.reconciler.Live = withoutSecret{l.client, name, &forever}
	l.remove()
	for _, minute := range []time.Duration{0, 8, 9, 16, 20, 31, 40} {
		l.later(minute * time.Minute)
		l.tick(l.without())
	}
	if e := l.get(); e != nil {
		t.Errorf("it is held for ever: %+v", e.Status.Teardown)
	}
}

// Targets that leave at the same time are each held for their time, whatever becomes of the others.
func TestUnregisteredTargetsThatLeave(t *testing.T) {
	leaving := func(t *testing.T) *lab {
		l := newLab(t, experimentOf(
			goingAfter(time.Minute, targetOf("a", v1alpha1.ClusterGKE)), goingAfter(time.Minute, targetOf("b", v1alpha1.ClusterGKE)),
			targetOf("stays", v1alpha1.ClusterHub),
		), nginx(), template())
		l.settle(l.play)
		return l
	}
	l := leaving(t)
	for _, secret := range l.list(argocd.SecretGVK) {
		l.deleteObject(&secret)
	}
	l.forbid("create", "Secret")
	l.later(2 * time.Minute)
	l.tick(l.without())
	if n := len(l.list(argocd.ApplicationGVK)); n != 3 {
		t.Errorf("%d Applications", n)
	}
	l.later(10 * time.Minute)
	l.tick(l.without())
	if claims := len(l.list(crossplane.GKEClusterGVK)); claims > 0 {
		t.Errorf("%d claims are held for ever: %s", claims, l.states())
	}

	// The registration of a cluster that waits for its Application no more goes, and does not come again.
	l = leaving(t)
	l.later(2 * time.Minute)
	l.refuse = func(verb, kind string) error {
		if verb == "delete" && kind == "Application" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "applications"}, "x", errors.New("no rights"))
		}
		return nil
	}
	hold := l.without(crossplane.GKEClusterGVK)
	l.tick(hold)
	l.later(10 * time.Minute)
	l.tick(hold)
	l.writes = nil
	if l.tick(hold); slices.Contains(l.writes, "create Secret") {
		t.Errorf("it writes %v", l.writes)
	}
}

// A list that fails is one, though single objects can be read: the Experiment is released.
func TestSecretsThatCannotBeListed(t *testing.T) {
	l := newLab(t, onExisting(staging(kubeconfig))...)
	l.settle(l.play)
	l.remove()
	l.tick(l.without(argocd.ApplicationGVK))
	l.listErrors["Secret"], l.armed = apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", errors.New("no rights")), true
	for _, minute := range []time.Duration{1, 9, 16, 31, 40} {
		l.later(minute * time.Minute)
		l.tick(l.without())
	}
	if e := l.get(); e != nil {
		t.Errorf("it is held for ever: %+v", e.Status.Conditions)
	}
}

// A component that the spec does not name any more goes from a cluster that Argo CD knows, whatever has become of the kubeconfig,
// and stays on one that it does not know and cannot be told.
func TestRemovedWithoutKubeconfig(t *testing.T) {
	for _, known := range []bool{true, false} {
		target := targetOf("app", v1alpha1.ClusterExisting)
		target.Cluster.KubeconfigSecret = &v1alpha1.SecretKey{Name: "staging", Key: "config"}
		target.ApplicationPolicy = v1alpha1.ApplicationPerComponent
		target.Components = layers
		l := newLab(t, experimentOf(target), staging(kubeconfig), template())
		l.reconciler.Options.Fallback = Fallback{RepoURL: "https://git.example.com/components.git", Revision: "v1"}
		l.until(v1alpha1.PhaseRunning)
		l.deleteObject(staging(kubeconfig))
		if known {
			app := l.appOf(layers[1].String())
			app.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "ComparisonError", "message": "the chart is broken"}}}
			l.update(app)
		} else {
			l.delete(argocd.SecretGVK)
		}
		l.edit(func(e *v1alpha1.Experiment) {
			e.Spec.Targets[0].Components = slices.Delete(slices.Clone(layers), 1, 2)
		})
		l.writes = nil
		for range 4 {
			l.mustReconcile()
		}
		if slices.Contains(l.writes, "delete Application") != known {
			t.Errorf("Argo CD knows the cluster: %t, and it writes %v", known, l.writes)
		}
		if told := l.message(v1alpha1.ConditionApplicationsHealthy); !known && !strings.Contains(told, "when Argo CD knows its cluster again") {
			t.Errorf("it says %q", told)
		}
		l.expect(v1alpha1.ConditionApplicationsHealthy, metav1.ConditionFalse, v1alpha1.ReasonApplicationProgressing)
	}
}

// One that is unregistered when its Application goes already is registered again soon, also where it cannot be seen at first.
func TestUnregisteredInATeardown(t *testing.T) {
	for times := range 4 {
		l := newLab(t, onExisting(staging(kubeconfig))...)
		l.settle(l.play)
		l.stuck = "Application"
		l.remove()
		l.tick(l.play)
		l.delete(argocd.SecretGVK)
		l.disconnect("InvalidSpecError", "there are no clusters with this name")
		l.writes = nil
		left := times
		l.reconciler.Live = flaky{l.client, "Secret", &left}
		var waits []string
		for range 3 * (times + 1) {
			result, err := l.reconciler.Reconcile(t.Context(), l.get())
			if len(l.list(argocd.SecretGVK)) > 0 {
				break
			}
			if err == nil && (result.RequeueAfter == 0 || result.RequeueAfter > leftoverDelay) {
				waits = append(waits, result.RequeueAfter.String())
			}
		}
		if len(waits) > 0 || len(l.list(argocd.SecretGVK)) == 0 {
			t.Errorf("where %d reads fail it looks again after %v, and there are %d cluster Secrets", times, waits, len(l.list(argocd.SecretGVK)))
		}
	}
}

// That an Application goes without what it deployed is not told any more when Argo CD knows its cluster again before that, whether it has
// said so yet or not.
func TestAbandonedAndRegisteredAgain(t *testing.T) {
	for name, end := range map[string]func(l *lab){
		"deleted":    (*lab).remove,
		"terminated": func(l *lab) { l.edit(func(e *v1alpha1.Experiment) { e.Spec.Terminate = true }) },
		"its own time": func(l *lab) {
			l.edit(func(e *v1alpha1.Experiment) { e.Spec.Targets[0].TTLAfterFinished = &metav1.Duration{} })
		},
	} {
		for _, says := range []bool{true, false} {
			l := newLab(t, onExisting(staging(kubeconfig))...)
			l.settle(l.play)
			l.delete(argocd.SecretGVK)
			l.disconnect("InvalidSpecError", "there are no clusters with this name")
			l.deleteObject(staging(kubeconfig))
			end(l)
			l.tick()
			uid := l.list(argocd.ApplicationGVK)[0].GetUID()
			if told := l.abandoned(); len(told) != 1 || told[0].UID != uid {
				t.Fatalf("%s: it tells of %+v", name, told)
			}
			l.create(staging(kubeconfig))
			for range 3 {
				if _ = l.reconcile(); len(l.list(argocd.SecretGVK)) > 0 {
					break
				}
			}
			if !says { // it knows it, and has not failed to use it
				l.spoil(argocd.ApplicationGVK, func(app *unstructured.Unstructured) {
					unstructured.RemoveNestedField(app.Object, "status", "conditions")
				})
			}
			l.tick()
			if told := l.abandoned(); len(l.list(argocd.SecretGVK)) != 1 || len(told) > 0 {
				t.Errorf("%s: it tells of %+v", name, told)
			}
			l.tick(l.without())
			if told := l.abandoned(); len(l.orphans())+len(told) > 0 || len(l.list(argocd.ApplicationGVK)) > 0 {
				t.Errorf("%s: at the end it tells of %+v, and %+v", name, told, l.orphans())
			}
		}
	}
}

// abandoned are the Applications that the status says have gone, or will, without what they deployed.
func (l *lab) abandoned() []v1alpha1.AbandonedApplication {
	e := l.get()
	if e == nil || e.Status.Teardown == nil {
		return nil
	}
	return e.Status.Teardown.Abandoned
}
