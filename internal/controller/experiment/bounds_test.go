package experiment

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
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
