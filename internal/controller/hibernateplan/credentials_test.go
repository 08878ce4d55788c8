package hibernateplan

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
)

// What reaches another cluster is kept beside the restore point, and what sleeps is woken by it where the connector is gone with the plan,
// by its namespace or by a file that has both, and nowhere else: whoever takes a connector from a plan that stays lets nobody use it.
func TestBereft(t *testing.T) {
	going := func() *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: noon}, Finalizers: []string{"kubernetes"}}}
	}
	for name, test := range map[string]struct {
		namespace *corev1.Namespace
		deleted   bool
		wakes     bool
	}{
		"its namespace goes":               {going(), true, true},
		"its namespace is gone":            {nil, true, true},
		"its connector goes with the plan": {&corev1.Namespace{}, true, true},
		"and the plan stays":               {&corev1.Namespace{}, false, false},
		"its namespace goes, not the plan": {going(), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			var beside []client.Object
			if test.namespace != nil {
				test.namespace.Name = asleepNow().Namespace
				beside = append(beside, test.namespace)
			}
			r, c, plan := asleepAway(t, "", beside...)
			secret := &corev1.Secret{}
			if err := c.Get(t.Context(), names{namespace: "system", plan: plan}.point("a"), secret); err != nil || !strings.Contains(string(secret.Data[keyKubeconfig]), "token: secret") {
				t.Fatalf("it keeps %v: %v", secret.Data, err)
			}
			gone := metav1.ObjectMeta{Namespace: plan.Namespace, Name: "away"}
			plan.Spec.Override.State = v1alpha1.OverrideAwake
			err := errors.Join(c.Delete(t.Context(), &v1alpha1.K8SCluster{ObjectMeta: gone}), c.Delete(t.Context(), &corev1.Secret{ObjectMeta: gone}), c.Update(t.Context(), plan))
			if test.deleted {
				err = errors.Join(err, c.Delete(t.Context(), plan))
			}
			if err != nil {
				t.Fatal(err)
			}
			if !test.wakes {
				for range 4 {
					_, plan = pass(t, r, plan)
				}
				if jobs := jobsOf(t, c); len(jobs) > 0 {
					t.Errorf("%d Jobs\n%+v", len(jobs), plan.Status)
				}
				return
			}
			job, used := theJob(t, r, c, plan), &corev1.Secret{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(job), used); err != nil || string(used.Data[keyKubeconfig]) != string(secret.Data[keyKubeconfig]) {
				t.Errorf("the runner has %v: %v", used.Data, err)
			}
			complete(t, c, plan, "a", job)
			goes(t, r, c, plan)
			var secrets corev1.SecretList
			if err := c.List(t.Context(), &secrets, client.InNamespace("system")); err != nil || len(secrets.Items) > 0 {
				t.Errorf("%d Secrets are left: %v", len(secrets.Items), err)
			}
		})
	}
}

// asleepAway is a plan of which a target in another cluster is asleep.
func asleepAway(t *testing.T, policy v1alpha1.DeletionPolicy, beside ...client.Object) (*Reconciler, client.Client, *v1alpha1.HibernatePlan) {
	t.Helper()
	plan := asleepNow()
	plan.Spec.DeletionPolicy = policy
	r, c := newReconciler(t, append(append(away(plan), plan), beside...)...)
	complete(t, c, plan, "a", theJob(t, r, c, plan))
	for range 4 {
		_, plan = pass(t, r, plan)
	}
	return r, c, plan
}

// goes passes over a plan until it is gone.
func goes(t *testing.T, r *Reconciler, c client.Client, plan *v1alpha1.HibernatePlan) {
	t.Helper()
	for range 6 {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(plan), plan); apierrors.IsNotFound(err) {
			return
		}
		if _, err := r.Reconcile(t.Context(), plan); err != nil {
			t.Fatal(err)
		}
	}
	t.Errorf("it stays: %+v", plan.Status)
}

// A plan that leaves its target asleep leaves the restore point, and no credentials.
func TestNoCredentialsAreLeft(t *testing.T) {
	r, c, plan := asleepAway(t, v1alpha1.DeletionLeave)
	if err := c.Delete(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	goes(t, r, c, plan)
	at := names{namespace: "system", plan: plan}.point("a")
	if err := c.Get(t.Context(), at, &corev1.ConfigMap{}); err != nil {
		t.Errorf("the restore point: %v", err)
	}
	if err := c.Get(t.Context(), at, &corev1.Secret{}); !apierrors.IsNotFound(err) {
		t.Errorf("the credentials: %v", err)
	}
}

// What another namespace lends can be taken back: it is not kept.
func TestLentCredentialsAreNotKept(t *testing.T) {
	plan := asleepNow()
	objects := append(away(plan), plan)
	for _, o := range objects {
		switch of := o.(type) {
		case *v1alpha1.K8SCluster:
			of.Spec.K8S.KubeconfigRef.Namespace = "platform"
		case *corev1.Secret:
			of.Namespace, of.Annotations = "platform", map[string]string{v1alpha1.AnnotationAllowedNamespaces: plan.Namespace}
		}
	}
	r, c := newReconciler(t, objects...)
	job := theJob(t, r, c, plan)
	var secrets corev1.SecretList
	if err := c.List(t.Context(), &secrets, client.InNamespace("system")); err != nil || len(secrets.Items) != 1 || secrets.Items[0].Name != job.Name {
		t.Errorf("there are %v: %v", secrets.Items, err)
	}
}

// Credentials that were renewed take the place of those that were kept, and what is another's is not touched.
func TestKeepCredentials(t *testing.T) {
	plan := asleepNow()
	r, c := newReconciler(t, append(away(plan), plan)...)
	theJob(t, r, c, plan)
	s := &scope{Reconciler: r, owner: plan}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(plan), plan); err != nil {
		t.Fatal(err)
	}
	point, err := s.point(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	a := attempt{names: s.names(), target: plan.Spec.Targets[0]}
	for i, kubeconfig := range []string{"new", "new", "newer", "newer", "newest"} {
		begun := i > 1
		if err := s.keepCredentials(t.Context(), a, []byte(kubeconfig), point, begun); err != nil {
			t.Fatal(err)
		}
		if kept, err := s.credentials(t.Context(), "a"); err != nil || string(kept.Data[keyKubeconfig]) != kubeconfig || !goesWith(kept, point) {
			t.Errorf("%s: %+v, %v", kubeconfig, kept, err)
		}
	}
	kept, err := s.credentials(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	kept.Annotations = nil
	if err := c.Update(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	if err := s.keepCredentials(t.Context(), a, []byte("mine"), point, false); err == nil || !strings.Contains(err.Error(), "Secret system/") {
		t.Errorf("another's is taken: %v", err)
	}
	if err := errors.Join(s.dropCredentials(t.Context(), "a"), c.Get(t.Context(), client.ObjectKeyFromObject(kept), kept)); err != nil {
		t.Errorf("another's is dropped: %v", err)
	}
}

// failsAway is a plan with a target in another cluster, which the attempts at it do not reach.
type failsAway struct{ *broadNight }

func newFailsAway(t *testing.T, retries int32) *failsAway {
	t.Helper()
	plan := asleepNow()
	plan.Spec.Behavior.Retries = &retries
	r, c := newReconciler(t, append(away(plan), plan)...)
	return &failsAway{&broadNight{t, plan, r, c}}
}

// goOn lets some time pass, in which all attempts fail, and returns how many there were.
func (f *failsAway) goOn(d time.Duration) (attempts int) {
	f.Helper()
	clock := f.of.Options.Clock.(*clocktesting.FakePassiveClock)
	for end := clock.Now().Add(d); ; {
		f.passes(1)
		for _, job := range jobsOf(f.T, f.client) {
			if len(job.Status.Conditions) == 0 {
				attempts++
				f.fail()
			}
		}
		result, plan := pass(f.T, f.of, f.plan)
		f.plan = plan
		wait := max(result.RequeueAfter, time.Second)
		if clock.Now().Add(wait).After(end) {
			clock.SetTime(end)
			return attempts
		}
		clock.SetTime(clock.Now().Add(wait))
	}
}

// changed changes the connector, or its Secret.
func (f *failsAway) changed(o client.Object, change func()) {
	f.Helper()
	if err := f.client.Get(f.Context(), client.ObjectKey{Namespace: f.plan.Namespace, Name: "away"}, o); err != nil {
		f.Fatal(err)
	}
	change()
	if err := f.client.Update(f.Context(), o); err != nil {
		f.Fatal(err)
	}
}

// renew puts other credentials into the Secret.
func (f *failsAway) renew(content string) {
	f.Helper()
	secret := &corev1.Secret{}
	f.changed(secret, func() { secret.Data[keyKubeconfig] = []byte(content) })
}

// A Secret that somebody writes all the time, or a connector that is ready since a time to come, as by a clock that was set back, has nothing
// tried again and again: what has failed has in between, for those who wait for it.
func TestRenewedAgainAndAgain(t *testing.T) {
	f := newFailsAway(t, 1)
	attempts, failures := f.goOn(2*time.Minute), 0
	if attempts != 2 {
		t.Fatalf("there were %d attempts", attempts)
	}
	attempts = 0
	for i := range 60 {
		f.changed(&corev1.Secret{}, func() {})
		f.renew(fmt.Sprint(kubeconfig, "# ", i))
		attempts += f.goOn(time.Minute)
		if failed(&f.plan.Status.Executions[0]) {
			failures++
		}
	}
	if attempts < 10 || attempts > 14 || failures < 40 {
		t.Errorf("in an hour there were %d attempts, and it had failed in %d minutes of it", attempts, failures)
	}
	f = newFailsAway(t, 1)
	cluster := &v1alpha1.K8SCluster{}
	f.changed(cluster, func() {
		cluster.Status.Conditions[0].LastTransitionTime = metav1.NewTime(f.of.Options.Clock.Now().Add(time.Hour))
	})
	if got := f.goOn(10 * time.Minute); got != 2 {
		t.Errorf("behind a connector that is ready since a time to come there were %d attempts", got)
	}
}

// What was not put to sleep because another had failed is when that is tried again: nobody looks any more when nothing has failed.
func TestRenewedWithWhatWasAborted(t *testing.T) {
	plan := asleepNow()
	plan.Spec.Behavior.Retries = ptr.To[int32](0)
	plan.Spec.Execution.Strategy.Type = v1alpha1.StrategySequential
	plan.Spec.Targets = append(plan.Spec.Targets, v1alpha1.Target{Name: "b", Type: "noop"})
	r, c := newReconciler(t, append(away(plan), plan)...)
	f := &failsAway{&broadNight{t, plan, r, c}}
	if f.goOn(2 * time.Minute); f.plan.Status.Executions[1].State != v1alpha1.ExecutionAborted || f.plan.Status.Phase != v1alpha1.PhaseError {
		t.Fatalf("it is %s: %+v", f.plan.Status.Phase, f.plan.Status.Executions)
	}
	f.renew(strings.Replace(kubeconfig, "secret", "renewed", 1))
	clock := r.Options.Clock.(*clocktesting.FakePassiveClock)
	clock.SetTime(clock.Now().Add(time.Minute))
	f.play("")
	if got := f.sleeping(); got != "ab" {
		t.Errorf("asleep are %q: %+v", got, f.plan.Status.Executions)
	}
}

// An attempt that is made late, because many were recorded with it, does not fail at the first error of reading what it is made with.
func TestReadLate(t *testing.T) {
	plan := asleepNow()
	r, c := newReconciler(t, append(away(plan), plan)...)
	_, plan = pass(t, r, plan)
	clock := r.Options.Clock.(*clocktesting.FakePassiveClock)
	clock.SetTime(clock.Now().Add(patience + time.Second))
	busy := errors.New("etcdserver: request timed out")
	r.Live = interceptor.NewClient(c, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, at client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if _, is := o.(*corev1.Secret); is && at.Name == "away" {
			return busy
		}
		return c.Get(ctx, at, o, opts...)
	}})
	look := func() *execution {
		t.Helper()
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(plan), plan); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Reconcile(t.Context(), plan); err != nil && !errors.Is(err, busy) {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(plan), plan); err != nil {
			t.Fatal(err)
		}
		return &plan.Status.Executions[0]
	}
	if e := look(); !running(e) {
		t.Errorf("it has failed at once: %+v", e)
	}
	clock.SetTime(clock.Now().Add(patience))
	if e := look(); running(e) {
		t.Errorf("it is tried for ever: %+v", e)
	}
}

// What has failed as often as it may with credentials that have expired is tried again a minute after there are others at most, and as often
// as at first, whether it is to sleep or to wake. That they are the same again, or no good, is no reason, and in between it is not asked for
// more than once a minute.
func TestCredentialsAreRenewed(t *testing.T) {
	f := newFailsAway(t, 3)
	expect := func(when string, d time.Duration, want int) {
		t.Helper()
		if got := f.goOn(d); got != want {
			t.Errorf("%s there were %d attempts in %s, want %d: %+v", when, got, d, want, f.plan.Status.Executions)
		}
	}
	expect("in the evening", 2*time.Minute, 4)
	if f.plan.Status.Phase != v1alpha1.PhaseError {
		t.Errorf("it is %s", f.plan.Status.Phase)
	}
	asked := map[string]int{}
	f.of.Live = interceptor.NewClient(f.client, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, at client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		asked[fmt.Sprintf("%T", o)]++
		return c.Get(ctx, at, o, opts...)
	}})
	expect("with the same", time.Hour, 0)
	if n := asked["*v1.Secret"]; n < 59 || n > 61 || asked["*v1.ConfigMap"] > 61 {
		t.Errorf("in an hour was asked: %v", asked)
	}
	f.of.Live = f.client
	f.renew("none")
	expect("with what is no kubeconfig", time.Hour, 0)
	f.renew(strings.Replace(kubeconfig, "secret", "renewed", 1))
	expect("with others", 3*time.Minute, 4)
	expect("with the same again", time.Hour, 0)
	point, secret := f.point(), &corev1.Secret{}
	if err := f.client.Get(t.Context(), client.ObjectKey{Namespace: f.plan.Namespace, Name: "away"}, secret); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(point.Annotations, f.plan.Status); strings.Contains(got, "renewed") || !strings.HasSuffix(point.Annotations[annotationConnector], "."+secret.ResourceVersion) {
		t.Errorf("its last attempt had %q: %s", point.Annotations[annotationConnector], got)
	}

	capture(t, f.client)
	f.morning()
	expect("in the morning", 3*time.Minute, 4)
	expect("in the hour after", time.Hour, 6)
	f.renew(strings.Replace(kubeconfig, "secret", "renewed again", 1))
	clock := f.of.Options.Clock.(*clocktesting.FakePassiveClock)
	clock.SetTime(clock.Now().Add(renewedAgain))
	f.complete()
	if f.passes(4); f.plan.Status.CurrentCycle != nil {
		t.Errorf("it is not awake: %+v", f.plan.Status)
	}
}

// A connector that was not ready keeps nothing from being tried again at once when it is, as often as at first, and not more often than
// it comes to that.
func TestConnectorIsReadyAgain(t *testing.T) {
	f := newFailsAway(t, 1)
	says := func(status metav1.ConditionStatus) {
		t.Helper()
		cluster := &v1alpha1.K8SCluster{}
		f.changed(cluster, func() {
			cluster.Status.Conditions[0].Status = status
			cluster.Status.Conditions[0].LastTransitionTime = metav1.NewTime(f.of.Options.Clock.Now())
		})
	}
	if got := f.goOn(5 * time.Second); got != 1 {
		t.Fatalf("%d attempts", got)
	}
	says(metav1.ConditionFalse)
	if got := f.goOn(time.Hour); got != 0 || f.plan.Status.Phase != v1alpha1.PhaseError || f.plan.Status.Executions[0].Attempts != 2 {
		t.Fatalf("%d attempts, %+v", got, f.plan.Status)
	}
	says(metav1.ConditionTrue)
	if got := f.goOn(time.Hour); got != 2 || f.plan.Status.Phase != v1alpha1.PhaseError {
		t.Errorf("%d attempts, %+v", got, f.plan.Status)
	}
}
