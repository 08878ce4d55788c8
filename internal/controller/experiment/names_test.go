package experiment

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/argoworkflows"
	"github.com/labkeeper/labkeeper/internal/external/crossplane"
)

// The longest names there can be, and two that differ in their last character only.
func TestNote27And41LongNames(t *testing.T) {
	longTarget := strings.Repeat("t", 62)
	e := everything()
	e.Name = strings.Repeat(strings.Repeat("e", 62)+".", 4) + "x"
	e.Namespace = strings.Repeat("n", 63)
	e.Spec.Targets = []v1alpha1.Target{targetOf(longTarget+"1", v1alpha1.ClusterGKE), targetOf(longTarget+"2", v1alpha1.ClusterGKE)}
	if len(e.Name) != 253 {
		t.Fatalf("the name has %d characters", len(e.Name))
	}
	limits := map[schema.GroupVersionKind]int{
		crossplane.GKEClusterGVK: 29, argocd.ApplicationGVK: 53, argoworkflows.WorkflowGVK: 63, argocd.SecretGVK: 63,
	}
	seen := map[string]bool{}
	for what, child := range children(t, e, labOptions) {
		if err := valid(child); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		name := child.GetName()
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 || len(name) > limits[child.GroupVersionKind()] {
			t.Errorf("%s is called %q of %d characters: %v", what, name, len(name), problems)
		}
		for key, value := range child.GetLabels() {
			if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
				t.Errorf("%s: label %s: %v", what, key, problems)
			}
		}
		if seen[child.GetKind()+name] {
			t.Errorf("%s has the name of another: %s", what, name)
		}
		seen[child.GetKind()+name] = true
		if namespace, _, ok := unstructured.NestedString(child.Object, "spec", "destination", "namespace"); ok == nil && child.GetKind() == "Application" {
			if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
				t.Errorf("%s goes into the namespace %q: %v", what, namespace, problems)
			}
		}
	}
}

// Nothing of one Experiment has the name of anything of another, though both are in the
// same namespaces of Argo CD and Argo Workflows.
func TestNote39And65NamesOfTwoExperiments(t *testing.T) {
	one, two, three := everything(), everything(), everything()
	two.Namespace, two.UID = "lab2", "22222222-2222-3333-4444-555555555555"
	three.UID = "33333333-2222-3333-4444-555555555555" // deleted, and created again
	seen := map[string]string{}
	for owner, e := range map[string]*v1alpha1.Experiment{"one": one, "two": two, "three": three} {
		for what, child := range children(t, e, labOptions) {
			key := child.GetKind() + " " + child.GetName()
			if other, taken := seen[key]; taken {
				t.Errorf("%s of %s and %s are both %s", what, owner, other, key)
			}
			seen[key] = what + " of " + owner
		}
	}
}

func TestNote65Namespaces(t *testing.T) {
	elsewhere := labOptions
	elsewhere.ClaimNamespace = "claims"
	for name, test := range map[string]struct {
		options Options
		claims  string
	}{
		"claims beside the Experiment": {labOptions, "lab"},
		"claims elsewhere":             {elsewhere, "claims"},
	} {
		t.Run(name, func(t *testing.T) {
			n := names{everything(), test.options}
			want := v1alpha1.Namespaces{Claims: test.claims, ArgoCD: "argocd", Workflows: "argo"}
			if diff := cmp.Diff(want, n.namespaces()); diff != "" {
				t.Errorf("namespaces (-want +got):\n%s", diff)
			}
			live := map[string]string{"Application": want.ArgoCD, "Secret": want.ArgoCD, "Workflow": want.Workflows}
			for _, gvk := range append((talos{}).kinds(), crossplane.GKEClusterGVK) {
				live[gvk.Kind] = want.Claims
			}
			for what, child := range children(t, everything(), test.options) {
				if child.GetNamespace() != live[child.GetKind()] {
					t.Errorf("%s is in %s", what, child.GetNamespace())
				}
				looked, ours := n.namespaceOf(child.GroupVersionKind())
				if !ours || looked != "" && looked != child.GetNamespace() {
					t.Errorf("%s is looked for in %q (%t)", what, looked, ours)
				}
			}
			if _, ours := n.namespaceOf(argoworkflows.WorkflowTemplateGVK); ours {
				t.Error("WorkflowTemplates are nobody's children")
			}
		})
	}
}

// The cluster Secret's name for the cluster is the one that the Application uses.
func TestApplicationAndSecretAgree(t *testing.T) {
	all := children(t, everything(), labOptions)
	secret, err := secretValue(all["secret of app"], "name")
	if err != nil {
		t.Fatal(err)
	}
	for what, want := range map[string]map[string]any{
		"application of app":     {"name": string(secret), "namespace": "tutorial"},
		"application of loadgen": {"server": "https://kubernetes.default.svc", "namespace": "tutorial-loadgen-lxmaombt"},
	} {
		got, _, _ := unstructured.NestedMap(all[what].Object, "spec", "destination")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("destination of the %s (-want +got):\n%s", what, diff)
		}
	}
}

func TestNote08SecretValue(t *testing.T) {
	tests := map[string]struct {
		data any
		want string
		err  bool
		none bool
	}{
		"there":      {map[string]any{"kubeconfig": encode("canary")}, "canary", false, false},
		"no key":     {map[string]any{"other": encode("canary")}, "", true, true},
		"empty":      {map[string]any{"kubeconfig": ""}, "", true, true},
		"no data":    {nil, "", true, true},
		"not base64": {map[string]any{"kubeconfig": "canary!"}, "", true, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := secretValue(&unstructured.Unstructured{Object: map[string]any{"data": test.data}}, "kubeconfig")
			if string(got) != test.want || (err != nil) != test.err || errors.Is(err, errNoKey) != test.none {
				t.Errorf("it is %q, %v", got, err)
			}
			if err != nil && strings.Contains(err.Error(), "canary") {
				t.Errorf("the error quotes it: %v", err)
			}
		})
	}
}

// A target's components are deployed where it says, on a cluster that is its own.
func TestNamespaceOfATarget(t *testing.T) {
	chosen := targetOf("app", v1alpha1.ClusterGKE)
	chosen.Namespace = "web"
	l := newLab(t, experimentOf(chosen), nginx(), template())
	l.settle(l.play)
	app := l.list(argocd.ApplicationGVK)[0]
	if got, _, _ := unstructured.NestedString(app.Object, "spec", "destination", "namespace"); got != "web" {
		t.Errorf("it is deployed into %q", got)
	}
	if got := l.get().Status.Targets[0].Namespace; got != "web" {
		t.Errorf("its status says %q", got)
	}
	named := experimentOf(targetOf("app", v1alpha1.ClusterGKE))
	named.Name = "kube-system"
	l = newLab(t, named, nginx(), template())
	l.tick(l.play)
	l.expect(v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonInvalidSpec)
	n := names{experimentOf(), labOptions}
	for _, cluster := range []v1alpha1.ClusterType{v1alpha1.ClusterHub, v1alpha1.ClusterExisting, v1alpha1.ClusterReferred} {
		chosen.Cluster.Type = cluster // which the schema refuses
		if got := n.deployed(chosen); got != n.ownNamespace(chosen) {
			t.Errorf("on a cluster of type %s, which others share, it is %s", cluster, got)
		}
	}
}
