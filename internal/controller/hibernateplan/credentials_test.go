package hibernateplan

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
)

// What reaches another cluster is kept beside the restore point, and what sleeps is woken by it where the connector is gone with its
// namespace, and nowhere else: whoever takes a connector away lets nobody use it any more.
func TestBereft(t *testing.T) {
	for name, test := range map[string]struct {
		namespace *corev1.Namespace
		deleted   bool
		wakes     bool
	}{
		"its namespace goes":               {&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: noon}, Finalizers: []string{"kubernetes"}}}, true, true},
		"its namespace is gone":            {nil, true, true},
		"its connector was taken away":     {&corev1.Namespace{}, true, false},
		"and the plan stays":               {&corev1.Namespace{}, false, false},
		"its namespace goes, not the plan": {&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: noon}, Finalizers: []string{"kubernetes"}}}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			plan := asleepNow()
			objects := append(away(plan), plan)
			if test.namespace != nil {
				test.namespace.Name = plan.Namespace
				objects = append(objects, test.namespace)
			}
			r, c := newReconciler(t, objects...)
			complete(t, c, plan, "a", theJob(t, r, c, plan))
			for range 4 {
				_, plan = pass(t, r, plan)
			}
			at := names{namespace: "system", plan: plan}.point("a")
			secret := &corev1.Secret{}
			if err := c.Get(t.Context(), at, secret); err != nil || !strings.Contains(string(secret.Data[keyKubeconfig]), "token: secret") {
				t.Fatalf("it keeps %v: %v", secret.Data, err)
			}
			gone := metav1.ObjectMeta{Namespace: plan.Namespace, Name: "away"}
			err := errors.Join(c.Delete(t.Context(), &v1alpha1.K8SCluster{ObjectMeta: gone}), c.Delete(t.Context(), &corev1.Secret{ObjectMeta: gone}))
			if test.deleted {
				err = errors.Join(err, c.Delete(t.Context(), plan))
			} else {
				plan.Spec.Override.State = v1alpha1.OverrideAwake
				err = errors.Join(err, c.Update(t.Context(), plan))
			}
			if err != nil {
				t.Fatal(err)
			}
			for range 4 {
				_, plan = pass(t, r, plan)
			}
			jobs := jobsOf(t, c)
			if (len(jobs) == 1) != test.wakes {
				t.Fatalf("%d Jobs\n%+v", len(jobs), plan.Status)
			}
			if !test.wakes {
				return
			}
			used := &corev1.Secret{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(&jobs[0]), used); err != nil || string(used.Data[keyKubeconfig]) != string(secret.Data[keyKubeconfig]) {
				t.Errorf("the runner has %v: %v", used.Data, err)
			}
			complete(t, c, plan, "a", &jobs[0])
			for range 6 {
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(plan), plan); apierrors.IsNotFound(err) {
					break
				}
				if _, err := r.Reconcile(t.Context(), plan); err != nil {
					t.Fatal(err)
				}
			}
			var secrets corev1.SecretList
			if err := c.List(t.Context(), &secrets, client.InNamespace("system")); err != nil || len(secrets.Items) > 0 {
				t.Errorf("%d Secrets are left: %v", len(secrets.Items), err)
			}
		})
	}
}

// A plan that leaves its target asleep leaves the restore point, and no credentials.
func TestNoCredentialsAreLeft(t *testing.T) {
	plan := asleepNow()
	plan.Spec.DeletionPolicy = v1alpha1.DeletionLeave
	r, c := newReconciler(t, append(away(plan), plan)...)
	complete(t, c, plan, "a", theJob(t, r, c, plan))
	for range 4 {
		_, plan = pass(t, r, plan)
	}
	if err := c.Delete(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	for range 6 {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(plan), plan); apierrors.IsNotFound(err) {
			break
		}
		if _, err := r.Reconcile(t.Context(), plan); err != nil {
			t.Fatal(err)
		}
	}
	at := names{namespace: "system", plan: plan}.point("a")
	if err := c.Get(t.Context(), at, &corev1.ConfigMap{}); err != nil {
		t.Errorf("the restore point: %v", err)
	}
	if err := c.Get(t.Context(), at, &corev1.Secret{}); !apierrors.IsNotFound(err) {
		t.Errorf("the credentials: %v", err)
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
	for _, kubeconfig := range []string{"new", "new", "newer"} {
		if err := s.keepCredentials(t.Context(), a, []byte(kubeconfig), point); err != nil {
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
	for what, err := range map[string]error{"kept": s.keepCredentials(t.Context(), a, []byte("mine"), point), "dropped": s.dropCredentials(t.Context(), "a")} {
		if err == nil || !strings.Contains(err.Error(), "Secret system/") {
			t.Errorf("another's is %s: %v", what, err)
		}
	}
}
