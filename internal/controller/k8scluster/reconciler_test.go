package k8scluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/connector"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/test/fakes"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const (
	canary = "canary-7be1"
	good   = `{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":"https://staging.example.com"}}],` +
		`"contexts":[{"name":"c","context":{"cluster":"c","user":"c"}}],"users":[{"name":"c","user":{"token":"canary-7be1"}}]}`
)

// bench has one K8SCluster, lab/staging, whose Secret is lab/kc.
type bench struct {
	*testing.T
	client.Client
	r        *Reconciler
	clock    *clocktesting.FakePassiveClock
	recorder *events.FakeRecorder
	// answer is what its server says, and asked whom it was.
	answer error
	asked  []string
	// writes of statuses; fail is an error of the next one, and of the next read of a Secret.
	writes             int
	fail, failSecretly error
}

func newBench(t *testing.T, spec v1alpha1.K8SClusterSpec, objects ...client.Object) *bench {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(s), v1alpha1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	b := &bench{T: t, clock: clocktesting.NewFakePassiveClock(epoch), recorder: events.NewFakeRecorder(100)}
	objects = append(objects, &v1alpha1.K8SCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "staging", UID: "1", Generation: 1}, Spec: spec})
	b.Client = fakes.NewClientBuilder().WithScheme(s).WithStatusSubresource(&v1alpha1.K8SCluster{}).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if err := b.fail; err != nil {
				b.fail = nil
				return err
			}
			b.writes++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, ok := o.(*corev1.Secret); ok && b.failSecretly != nil {
				err := b.failSecretly
				b.failSecretly = nil
				return err
			}
			return c.Get(ctx, key, o, opts...)
		},
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return errors.New("nothing but statuses is patched")
		},
	}).Build()
	b.r = &Reconciler{
		Client: b.Client, Live: b.Client, Own: &rest.Config{Host: "https://own"}, Recorder: b.recorder, Clock: b.clock, told: kube.NewTold(),
		Ask: func(_ context.Context, config *rest.Config) (string, error) {
			b.asked = append(b.asked, config.Host)
			if b.answer != nil {
				return "", b.answer
			}
			return "v1.36.2", nil
		},
	}
	return b
}

func (b *bench) get() *v1alpha1.K8SCluster {
	b.Helper()
	c := &v1alpha1.K8SCluster{}
	if err := b.Get(b.Context(), types.NamespacedName{Namespace: "lab", Name: "staging"}, c); err != nil {
		b.Fatal(err)
	}
	return c
}

// look is a pass.
func (b *bench) look() (ctrl.Result, error) {
	b.Helper()
	return b.r.Reconcile(b.Context(), b.get())
}

// pass is one without an error, and when the next one is.
func (b *bench) pass() time.Duration {
	b.Helper()
	result, err := b.look()
	if err != nil {
		b.Fatal(err)
	}
	return result.RequeueAfter
}

// says checks the status, and that it holds no secret.
func (b *bench) says(status metav1.ConditionStatus, reason, words string) *v1alpha1.K8SCluster {
	b.Helper()
	c := b.get()
	ready := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status != status || ready.Reason != reason || !strings.Contains(ready.Message, words) {
		b.Fatalf("Ready is %+v, want %s %s %q", ready, status, reason, words)
	}
	if ready.ObservedGeneration != c.Generation || c.Status.ObservedGeneration != c.Generation || c.Status.Message != ready.Message || c.Status.Ready != (status == metav1.ConditionTrue) {
		b.Errorf("the status is at odds with itself: %+v", c.Status)
	}
	if strings.Contains(fmt.Sprint(c.Status), canary) {
		b.Errorf("it tells of a secret: %+v", c.Status)
	}
	return c
}

// happened are the events since the last time.
func (b *bench) happened() (all []string) {
	for {
		select {
		case e := <-b.recorder.Events:
			all = append(all, strings.Join(strings.Fields(e)[:2], " "))
		default:
			return all
		}
	}
}

func byKubeconfig() v1alpha1.K8SClusterSpec {
	return v1alpha1.K8SClusterSpec{K8S: &v1alpha1.K8SAccess{KubeconfigRef: &v1alpha1.SecretRef{Name: "kc"}}}
}

func kubeconfigSecret(content string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "kc"}, Data: map[string][]byte{"kubeconfig": []byte(content)}}
}

// One that is Ready costs nothing until it is validated again, which costs one write.
func TestReady(t *testing.T) {
	b := newBench(t, byKubeconfig(), kubeconfigSecret(good))
	wait := b.pass()
	c := b.says(metav1.ConditionTrue, v1alpha1.ReasonValidated, "takes the credentials")
	if c.Status.Version != "v1.36.2" || c.Status.ClusterType != "k8s" || !c.Status.LastValidated.Time.Equal(epoch) {
		t.Errorf("got %+v", c.Status)
	}
	if got := fmt.Sprint(b.happened(), b.asked); got != "[Normal Validated] [https://staging.example.com]" {
		t.Errorf("happened: %s", got)
	}
	if wait != interval("1") {
		t.Errorf("it is looked at again in %s, want %s", wait, interval("1"))
	}

	b.clock.SetTime(epoch.Add(3 * time.Minute))
	if got := b.pass(); got != wait-3*time.Minute || b.writes != 1 || len(b.asked) != 1 {
		t.Errorf("a pass in between: the next in %s, %d writes, asked %d times", got, b.writes, len(b.asked))
	}

	b.clock.SetTime(epoch.Add(wait))
	if got := b.pass(); got != wait || b.writes != 2 || len(b.asked) != 2 || len(b.happened()) != 0 {
		t.Errorf("validated again: the next in %s, %d writes, asked %d times", got, b.writes, len(b.asked))
	}
	if c := b.says(metav1.ConditionTrue, v1alpha1.ReasonValidated, ""); !c.Status.LastValidated.Time.Equal(epoch.Add(wait)) {
		t.Errorf("validated at %s", c.Status.LastValidated)
	}
}

func TestInCluster(t *testing.T) {
	b := newBench(t, v1alpha1.K8SClusterSpec{K8S: &v1alpha1.K8SAccess{InCluster: true}})
	b.pass()
	b.says(metav1.ConditionTrue, v1alpha1.ReasonValidated, "")
	if fmt.Sprint(b.asked) != "[https://own]" {
		t.Errorf("asked %s", b.asked)
	}
}

// What nothing here can reach is said once, and not asked.
func TestNoChecker(t *testing.T) {
	for kind, spec := range map[string]v1alpha1.K8SClusterSpec{
		"eks": {ProviderRef: &v1alpha1.ProviderRef{Name: "aws"}, EKS: &v1alpha1.EKSAccess{Name: "x", Region: "y"}},
		"gke": {ProviderRef: &v1alpha1.ProviderRef{Name: "gcp"}, GKE: &v1alpha1.GKEAccess{Name: "x", Project: "y", Location: "z"}},
	} {
		b := newBench(t, spec)
		for range 2 {
			if wait := b.pass(); wait != 0 || b.writes != 1 || len(b.asked) != 0 {
				t.Errorf("%s: the next in %s, %d writes, asked %d times", kind, wait, b.writes, len(b.asked))
			}
		}
		if c := b.says(metav1.ConditionUnknown, v1alpha1.ReasonNoChecker, kind); c.Status.ClusterType != kind {
			t.Errorf("%s: it is %s", kind, c.Status.ClusterType)
		}
		if got := fmt.Sprint(b.happened()); got != "[Normal NoChecker]" {
			t.Errorf("%s: happened %s", kind, got)
		}
	}
}

// What is wrong is said once, and looked at again later and later; when it is put right, it is Ready.
func TestRefused(t *testing.T) {
	unreachable := &connector.Error{Reason: v1alpha1.ReasonUnreachable, Message: "Its server refuses connections"}
	unauthorized := &connector.Error{Reason: v1alpha1.ReasonUnauthorized, Message: "Its server does not take the credentials (401)"}
	for name, test := range map[string]struct {
		secret *corev1.Secret
		answer error
		reason string
	}{
		"no Secret":      {nil, nil, v1alpha1.ReasonKubeconfigMissing},
		"no kubeconfig":  {kubeconfigSecret(canary), nil, v1alpha1.ReasonKubeconfigInvalid},
		"no server":      {kubeconfigSecret(good), unreachable, v1alpha1.ReasonUnreachable},
		"no credentials": {kubeconfigSecret(good), unauthorized, v1alpha1.ReasonUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []client.Object
			if test.secret != nil {
				objects = append(objects, test.secret)
			}
			b := newBench(t, byKubeconfig(), objects...)
			b.answer = test.answer
			for after, want := range map[time.Duration]time.Duration{0: delay, 30 * time.Second: 30 * time.Second, time.Hour: time.Minute} {
				b.clock.SetTime(epoch)
				b.pass() // the first of them all is when it began
				b.clock.SetTime(epoch.Add(after))
				if wait := b.pass(); wait != want {
					t.Errorf("after %s the next in %s, want %s", after, wait, want)
				}
			}
			if c := b.says(metav1.ConditionFalse, test.reason, ""); b.writes != 1 || c.Status.LastValidated != nil || c.Status.Version != "" {
				t.Errorf("%d writes: %+v", b.writes, c.Status)
			}
			if got := fmt.Sprint(b.happened()); got != "[Warning "+test.reason+"]" {
				t.Errorf("happened %s", got)
			}

			b.answer = nil
			put := b.Update
			if test.secret == nil {
				put = func(ctx context.Context, o client.Object, _ ...client.UpdateOption) error { return b.Create(ctx, o) }
			}
			if err := put(t.Context(), kubeconfigSecret(good)); err != nil {
				t.Fatal(err)
			}
			b.pass()
			b.says(metav1.ConditionTrue, v1alpha1.ReasonValidated, "")
		})
	}
}

// One that was Ready and is not any more says so, and when it was last; another spec has never been.
func TestNoLonger(t *testing.T) {
	b := newBench(t, byKubeconfig(), kubeconfigSecret(good))
	b.clock.SetTime(epoch.Add(b.pass()))
	b.answer = &connector.Error{Reason: v1alpha1.ReasonUnreachable, Message: "Its server refuses connections"}
	if wait := b.pass(); wait != time.Second {
		t.Errorf("it is looked at again in %s", wait)
	}
	if c := b.says(metav1.ConditionFalse, v1alpha1.ReasonUnreachable, ""); !c.Status.LastValidated.Time.Equal(epoch) {
		t.Errorf("it was validated at %s", c.Status.LastValidated)
	}
	if got := fmt.Sprint(b.happened()); got != "[Normal Validated Warning Unreachable]" {
		t.Errorf("happened %s", got)
	}
	b.edit()
	b.pass()
	if c := b.says(metav1.ConditionFalse, v1alpha1.ReasonUnreachable, ""); c.Status.LastValidated != nil {
		t.Errorf("another spec was validated at %s", c.Status.LastValidated)
	}
}

// edit makes another generation.
func (b *bench) edit() {
	b.Helper()
	c := b.get()
	c.Generation++
	if err := b.Update(b.Context(), c); err != nil {
		b.Fatal(err)
	}
}

// Another spec is asked at once, and so is one whose time of validation cannot be.
func TestAskedAtOnce(t *testing.T) {
	b := newBench(t, byKubeconfig(), kubeconfigSecret(good))
	b.pass()
	b.edit()
	b.pass()
	b.says(metav1.ConditionTrue, v1alpha1.ReasonValidated, "")
	b.clock.SetTime(epoch.Add(-time.Hour))
	b.pass()
	if len(b.asked) != 3 {
		t.Errorf("asked %d times, want 3", len(b.asked))
	}
}

// Whatever fails once, it comes to the same end.
func TestErrorsPass(t *testing.T) {
	internal := apierrors.NewInternalError(errors.New("etcd is away"))
	t.Run("a status", func(t *testing.T) {
		b := newBench(t, byKubeconfig(), kubeconfigSecret(good))
		b.fail = internal
		if _, err := b.look(); err == nil || len(b.happened()) != 0 {
			t.Errorf("got %v, and events", err)
		}
		b.pass()
		b.says(metav1.ConditionTrue, v1alpha1.ReasonValidated, "")
		if got := fmt.Sprint(b.happened()); got != "[Normal Validated]" {
			t.Errorf("happened %s", got)
		}
	})
	t.Run("a read", func(t *testing.T) {
		b := newBench(t, byKubeconfig(), kubeconfigSecret(good))
		b.failSecretly = internal
		if _, err := b.look(); err == nil {
			t.Error("it is not tried again")
		}
		b.says(metav1.ConditionFalse, kube.ReasonReconcileError, "Reading Secret lab/kc")
		b.pass()
		b.says(metav1.ConditionTrue, v1alpha1.ReasonValidated, "")
	})
	t.Run("the manager is stopped", func(t *testing.T) {
		b := newBench(t, byKubeconfig(), kubeconfigSecret(good))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		b.answer = fmt.Errorf("asking the API server: %w", ctx.Err())
		if _, err := b.r.Reconcile(ctx, b.get()); err == nil || b.writes != 0 {
			t.Errorf("got %v, %d writes", err, b.writes)
		}
	})
}

// One that is on its way out is left alone.
func TestDeleted(t *testing.T) {
	b := newBench(t, byKubeconfig(), kubeconfigSecret(good))
	c := b.get()
	c.DeletionTimestamp = &metav1.Time{Time: epoch}
	if result, err := b.r.Reconcile(t.Context(), c); err != nil || result.RequeueAfter != 0 || b.writes+len(b.asked) != 0 {
		t.Errorf("got %v, %v, %d writes", result, err, b.writes)
	}
}

// Those that were made at once are asked at other times, within what doc.go says.
func TestInterval(t *testing.T) {
	all := map[time.Duration]bool{}
	for i := range 1000 {
		uid := types.UID(fmt.Sprintf("5e0cd31a-0000-4000-8000-%012d", i))
		d := interval(uid)
		if d < soonest || d > latest || d != interval(uid) {
			t.Fatalf("%s: %s", uid, d)
		}
		all[d] = true
	}
	if len(all) < 100 {
		t.Errorf("there are %d different ones of 120", len(all))
	}
}
