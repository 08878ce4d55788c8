package cloudprovider

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/test/fakes"
)

// It is said once that nothing can use it, whatever fails in between.
func TestReconcile(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	provider := &v1alpha1.CloudProvider{
		ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "account", Generation: 2},
		Spec:       v1alpha1.CloudProviderSpec{Type: "aws"},
	}
	fail, writes := true, 0
	c := fakes.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(provider).WithObjects(provider).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if fail {
				fail = false
				return errors.New("the answer is lost")
			}
			writes++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	}).Build()
	recorder := events.NewFakeRecorder(10)
	r := &Reconciler{Client: c, Recorder: recorder, Clock: clocktesting.NewFakePassiveClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), told: kube.NewTold()}
	now := &v1alpha1.CloudProvider{}
	for pass, wanted := range []bool{false, true, true} {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(provider), now); err != nil {
			t.Fatal(err)
		}
		if result, err := r.Reconcile(t.Context(), now); (err == nil) != wanted || result.RequeueAfter != 0 {
			t.Fatalf("pass %d: %v, %v", pass, result, err)
		}
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(provider), now); err != nil {
		t.Fatal(err)
	}
	if writes != 1 || len(recorder.Events) != 1 {
		t.Errorf("%d writes, %d events", writes, len(recorder.Events))
	}
	unusable(t, now)
}

// unusable checks that it is said of one that nothing can use it.
func unusable(t *testing.T, now *v1alpha1.CloudProvider) {
	t.Helper()
	ready := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionUnknown || ready.Reason != v1alpha1.ReasonNoChecker || ready.ObservedGeneration != 2 || !strings.Contains(ready.Message, "HibernatePlan") {
		t.Fatalf("Ready is %+v", ready)
	}
	if now.Status.Ready || now.Status.Message != ready.Message || now.Status.ObservedGeneration != 2 {
		t.Errorf("the status is at odds with itself: %+v", now.Status)
	}
}
