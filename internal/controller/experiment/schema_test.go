package experiment

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/crossplane"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/test/crds"
)

// valid checks an object against the schema of its kind, a Secret against its Go type.
func valid(u *unstructured.Unstructured) error {
	if u.GroupVersionKind() == argocd.SecretGVK {
		return runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, &corev1.Secret{}, true)
	}
	s, err := crds.Default()
	if err != nil {
		return err
	}
	return s.Validate(u)
}

// children are everything that an Experiment can want, by what it is.
func children(t *testing.T, e *v1alpha1.Experiment, o Options) map[string]*unstructured.Unstructured {
	t.Helper()
	credentials, err := argocd.ParseKubeconfig([]byte(kubeconfig), argocd.Untrusted)
	if err != nil {
		t.Fatal(err)
	}
	f := facts{experiment: e, options: o, names: names{e, o}, seen: Observed{TemplateFound: true}}
	sources := []argocd.Source{
		{
			RepoURL: "https://charts.example.com", Chart: "nginx", TargetRevision: "1.2.3",
			Helm: &argocd.Helm{
				ReleaseName: "web", ValueFiles: []string{"$values/x.yaml"}, Values: map[string]any{"c": map[string]any{"d": 0.5}},
				Parameters: []argocd.Parameter{{Name: "a", Value: "b", ForceString: true}},
			},
		},
		{RepoURL: "https://git.example.com/lab.git", Path: "deploy"},
		{RepoURL: "https://git.example.com/values.git", Ref: "values"},
	}
	all := map[string]*unstructured.Unstructured{"workflow": f.desiredWorkflow(nil, "inputs")}
	for _, target := range e.Spec.Targets {
		all["application of "+target.Name] = f.desiredApplication(claimed(target), "", sources)
		all["application of a component of "+target.Name] = f.desiredApplication(claimed(target), target.Components[0].String(), sources)
		if target.Cluster.Type == v1alpha1.ClusterHub {
			continue
		}
		for _, o := range f.desiredCluster(target) {
			all[o.GetKind()+" of "+target.Name] = o
		}
		secret, err := f.desiredClusterSecret(claimed(target), Connection{Credentials: credentials})
		if err != nil {
			t.Fatal(err)
		}
		all["secret of "+target.Name] = secret
	}
	return all
}

// claimed is a target whose cluster's object is there.
func claimed(t v1alpha1.Target) *target {
	claim := object(crossplane.GKEClusterGVK, "lab", "claim")
	claim.SetUID("claim-uid")
	return &target{spec: t, provider: providerOf(t), cluster: claim}
}

var labOptions = Options{
	ArgoCDNamespace: "argocd", ArgoCDProject: "default", WorkflowNamespace: "argo",
	WorkflowServiceAccount: "argo-workflow", CrossplaneNamespace: "crossplane-system",
}

// everything is an Experiment that sets what can be set.
func everything() *v1alpha1.Experiment {
	e := experimentOf(targetOf("app", v1alpha1.ClusterGKE), targetOf("loadgen", v1alpha1.ClusterHub, "app"), targetOf("plain", v1alpha1.ClusterGKE))
	e.Spec.Targets[0].Cluster = v1alpha1.ClusterSpec{
		Type: v1alpha1.ClusterGKE, Zone: "europe-west4-b", MachineType: "n2-standard-4",
		NodeCount: ptr.To[int32](3), DiskSizeGb: ptr.To[int32](100), Preemptible: ptr.To(true),
	}
	metal := talosTarget()
	metal.Name, metal.Cluster.Talos.TalosVersion = "metal", "v1.11"
	e.Spec.Targets = append(e.Spec.Targets, metal)
	e.Spec.Workflow.Params = map[string]string{"duration": "5m", "empty": ""}
	return e
}

func TestChildrenAreValid(t *testing.T) {
	for what, child := range children(t, everything(), labOptions) {
		t.Run(what, func(t *testing.T) {
			t.Run("note 16: nothing in it but what JSON knows", func(t *testing.T) {
				child.DeepCopy() // which panics on an int or a []string
			})
			if err := valid(child); err != nil {
				t.Error(err)
			}
			if !marks.Owns(everything(), child) {
				t.Errorf("its labels are %v", child.GetLabels())
			}
			if !kube.UpToDate(child, child) {
				t.Error("it is not up to date with itself")
			}
		})
	}
}

// The check is worth something: with any one field misspelt, nothing passes.
func TestMisspeltFieldsAreRefused(t *testing.T) {
	for what, child := range children(t, everything(), labOptions) {
		t.Run(what, func(t *testing.T) {
			n := 0
			for path, misspelt := range renamed(child.Object) {
				n++
				if err := valid(&unstructured.Unstructured{Object: misspelt}); err == nil {
					t.Errorf("%s may be misspelt", path)
				}
			}
			if n < 9 {
				t.Errorf("only %d fields were tried", n)
			}
		})
	}
}

// free holds keys that are anybody's choice.
var free = []string{
	"metadata.labels.", "metadata.annotations.", "data.",
	"spec.sources.0.helm.valuesObject.", "spec.selector.matchLabels.", "spec.template.metadata.labels.",
	"spec.syncPolicy.managedNamespaceMetadata.labels.", "spec.syncPolicy.managedNamespaceMetadata.annotations.",
}

// renamed returns copies of an object in each of which one key, at any depth, is another.
func renamed(object map[string]any) map[string]map[string]any {
	object, out := runtime.DeepCopyJSON(object), map[string]map[string]any{}
	var walk func(path string, value any)
	walk = func(path string, value any) {
		switch value := value.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(value)) {
				here := path + key
				walk(here+".", value[key])
				if slices.ContainsFunc(free, func(p string) bool { return strings.HasPrefix(here, p) }) {
					continue
				}
				kept := value[key]
				delete(value, key)
				value[key+"x"] = kept
				out[here] = runtime.DeepCopyJSON(object)
				delete(value, key+"x")
				value[key] = kept
			}
		case []any:
			for i, element := range value {
				walk(fmt.Sprintf("%s%d.", path, i), element)
			}
		}
	}
	walk("", object)
	return out
}

func TestRenamed(t *testing.T) {
	object := map[string]any{"spec": map[string]any{"list": []any{map[string]any{"name": "a"}}}, "metadata": map[string]any{"labels": map[string]any{"a": "b"}}}
	got := slices.Sorted(maps.Keys(renamed(object)))
	if diff := cmp.Diff(map[string]any{"specx": object["spec"], "metadata": object["metadata"]}, renamed(object)["spec"]); diff != "" {
		t.Errorf("a copy (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"metadata", "metadata.labels", "spec", "spec.list", "spec.list.0.name"}, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}
