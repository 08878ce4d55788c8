package experiment

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/argoworkflows"
)

// What a tenant's Experiments may deploy is bounded by whoever may annotate his namespace.
func TestProjectOfTheNamespace(t *testing.T) {
	l := tutorial(t)
	bind := func(project string) { l.annotateNamespace(v1alpha1.AnnotationProject, project) }
	expect := func(want string) {
		t.Helper()
		apps := l.list(argocd.ApplicationGVK)
		if len(apps) == 0 {
			t.Fatal("there is no Application")
		}
		for _, app := range apps {
			if project, _, _ := unstructured.NestedString(app.Object, "spec", "project"); project != want {
				t.Errorf("the project of %s is %q, want %q", app.GetName(), project, want)
			}
		}
	}
	bind("tenants")
	l.reconciler.Client = without{l.client, "Namespace"} // the annotation counts before the cache has the namespace
	l.until(v1alpha1.PhaseReady)
	expect("tenants")
	l.reconciler.Client = l.client
	bind("others")
	l.settle(l.deploy)
	expect("others")
	bind("")
	l.settle(l.deploy)
	expect("default")
}

// without is a client whose cache has nothing of a kind yet.
type without struct {
	client.Client
	kind string
}

func (w without) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if kindOf(o) == w.kind {
		return apierrors.NewNotFound(schema.GroupResource{Resource: w.kind}, key.Name)
	}
	return w.Client.Get(ctx, key, o, opts...)
}

// Argo CD prefers the labels of a namespace that a source brings, and so an author could have what he likes run on the hub: what is
// deployed there counts as nothing before the namespace is bound as it is to be.
func TestNamespaceOnTheHubThatIsNotBound(t *testing.T) {
	for name, test := range map[string]struct {
		cluster         v1alpha1.ClusterType
		ofHub, enforces string
		waits           bool
	}{
		"bound":                         {v1alpha1.ClusterHub, "baseline", "baseline", false},
		"more than it must":             {v1alpha1.ClusterHub, "baseline", "restricted", false},
		"privileged":                    {v1alpha1.ClusterHub, "baseline", "privileged", true},
		"nothing":                       {v1alpha1.ClusterHub, "baseline", "", true},
		"what the hub does":             {v1alpha1.ClusterHub, "", "privileged", false},
		"one of that name, not the hub": {v1alpha1.ClusterGKE, "baseline", "privileged", false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, experimentOf(targetOf("app", test.cluster)), nginx(), template())
			l.reconciler.Options.HubPodSecurity = test.ofHub
			e := l.get()
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
				Name: names{e, l.reconciler.Options}.ownNamespace(e.Spec.Targets[0]), Labels: map[string]string{enforceLabel: test.enforces},
			}}
			for range 3 { // until there is the Application whose source brings it
				l.mustReconcile()
			}
			l.create(namespace)
			l.settle(l.play)
			if !test.waits {
				l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
				return
			}
			l.expect(v1alpha1.ConditionApplicationsHealthy, metav1.ConditionFalse, v1alpha1.ReasonApplicationProgressing)
			want := "Namespace " + namespace.Name + " enforces " + orDefault(test.enforces, "nothing") + " of the Pod Security Standards, and must enforce baseline"
			if m := l.message(v1alpha1.ConditionApplicationsHealthy); !strings.Contains(m, want) || len(l.list(argoworkflows.WorkflowGVK)) > 0 {
				t.Errorf("it says %q", m)
			}
			namespace.Labels[enforceLabel] = "baseline"
			l.update(namespace)
			l.settle(l.play)
			l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
		})
	}
}

func TestNote06PodSecurity(t *testing.T) {
	for name, test := range map[string]struct {
		cluster           v1alpha1.ClusterType
		ofHub, said, want string
	}{
		"what is said":             {v1alpha1.ClusterGKE, "baseline", "restricted", "restricted"},
		"what is said, on the hub": {v1alpha1.ClusterHub, "privileged", "restricted", "restricted"},
		"nothing":                  {v1alpha1.ClusterGKE, "baseline", "", ""},
		"nothing, on the hub":      {v1alpha1.ClusterHub, "baseline", "", "baseline"},
		"what the hub does":        {v1alpha1.ClusterHub, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			target := targetOf("app", test.cluster)
			target.PodSecurity = v1alpha1.PodSecurity(test.said)
			l := newLab(t, experimentOf(target), nginx(), template())
			l.reconciler.Options.HubPodSecurity = test.ofHub
			l.until(v1alpha1.PhaseReady)
			labels, _, _ := unstructured.NestedStringMap(l.list(argocd.ApplicationGVK)[0].Object, "spec", "syncPolicy", "managedNamespaceMetadata", "labels")
			if labels["pod-security.kubernetes.io/enforce"] != test.want || (labels[v1alpha1.LabelExperimentUID] != "") != (test.cluster == v1alpha1.ClusterHub) {
				t.Errorf("the namespace has the labels %v", labels)
			}
		})
	}
}
