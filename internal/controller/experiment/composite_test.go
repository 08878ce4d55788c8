package experiment

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/crossplane"
)

// A namespaced composite of Crossplane v2 has its kubeconfig beside it, and goes in the foreground, or it
// would be gone before the cluster is.
func TestNote29NamespacedComposite(t *testing.T) {
	for name, composites := range map[string]bool{"claim": false, "composite": true} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
			l.composites = composites
			l.settle(l.play)
			l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
			l.remove()
			l.settle(l.play)
			if l.get() != nil {
				t.Fatal("the Experiment is still there")
			}
			if got := slices.Equal(l.foreground, []string{"GKECluster"}); got != composites {
				t.Errorf("deleted in the foreground are %v", l.foreground)
			}
		})
	}
}

// What Argo CD's own identity is shown to must not be the choice of whoever writes a kubeconfig.
func TestTrustInTheKubeconfigOfAComposite(t *testing.T) {
	claim := object(crossplane.GKEClusterGVK, "lab", "app")
	_ = unstructured.SetNestedField(claim.Object, "app-x", "spec", "resourceRef", "name")
	silent := claim.DeepCopy()
	_ = unstructured.SetNestedField(claim.Object, "203.0.113.10", "status", "endpoint")
	composite := object(crossplane.GKEClusterGVK, "lab", "app")
	_ = unstructured.SetNestedMap(composite.Object, map[string]any{}, "spec", "crossplane")
	apart := composite.DeepCopy()
	apart.SetNamespace("clusters")
	saying := func(u *unstructured.Unstructured, secret map[string]any) *unstructured.Unstructured {
		u = u.DeepCopy()
		_ = unstructured.SetNestedMap(u.Object, secret, "status", "kubeconfigSecret")
		return u
	}
	named := map[string]any{"name": "lab-admin", "key": "value"}
	for name, test := range map[string]struct {
		cluster        *unstructured.Unstructured
		claimNamespace string
		keyless        bool
		secret         string
		trust          argocd.Trust
		authors        bool
		missing        string
	}{
		"note 08: a claim":                                       {claim, "", false, "crossplane-system/app-x-cluster-conn/kubeconfig", argocd.Trusted, false, ""},
		"a claim, keyless":                                       {claim, "", true, "crossplane-system/app-x-cluster-conn/kubeconfig", argocd.KeylessGCP, false, ""},
		"a claim without an endpoint":                            {silent, "", false, "", 0, false, "status.endpoint"},
		"a composite":                                            {composite, "", false, "lab/app-cluster-conn/kubeconfig", argocd.Untrusted, true, ""},
		"a composite, keyless":                                   {composite, "", true, "", 0, false, "--claim-namespace"},
		"a composite in the manager's namespace":                 {apart, "clusters", false, "clusters/app-cluster-conn/kubeconfig", argocd.Trusted, false, ""},
		"a composite in the manager's namespace, keyless":        {apart, "clusters", true, "clusters/app-cluster-conn/kubeconfig", argocd.KeylessGCP, false, ""},
		"a composite where the manager looks, and the author is": {composite, "lab", true, "", 0, false, "--claim-namespace"},
		"a composite that names its Secret":                      {saying(composite, named), "", false, "lab/lab-admin/value", argocd.Untrusted, true, ""},
		"one in the manager's namespace":                         {saying(apart, named), "clusters", false, "clusters/lab-admin/value", argocd.Trusted, false, ""},
		"a composite that names a key alone":                     {saying(composite, map[string]any{"key": "value"}), "", false, "lab/app-cluster-conn/value", argocd.Untrusted, true, ""},
		"a composite that names none":                            {saying(composite, map[string]any{"name": "../x"}), "", false, "", 0, false, "status.kubeconfigSecret.name"},
		"a claim that names another's":                           {saying(claim, named), "", false, "crossplane-system/app-x-cluster-conn/kubeconfig", argocd.Trusted, false, ""},
		"no claim":                                               {nil, "", false, "", 0, false, "is not there"},
	} {
		t.Run(name, func(t *testing.T) {
			n := names{experimentOf(), Options{CrossplaneNamespace: "crossplane-system", ClaimNamespace: test.claimNamespace, KeylessGKE: test.keyless}}
			got := gke{}.kubeconfig(n, v1alpha1.Target{}, test.cluster)
			if test.missing != "" {
				if !strings.Contains(got.Missing, test.missing) || got.Secret.Name != "" {
					t.Errorf("it is %+v", got)
				}
				return
			}
			if got.source() != test.secret || got.Trust != test.trust || got.Authors != test.authors || got.Missing != "" {
				t.Errorf("it is %+v", got)
			}
		})
	}
}

// Whoever may change which composite a claim means gets the cluster of nobody else by that.
func TestClaimOfAnother(t *testing.T) {
	theirs := object(argocd.SecretGVK, "crossplane-system", "theirs-cluster-conn")
	theirs.Object["data"] = map[string]any{"kubeconfig": encode(strings.NewReplacer("203.0.113.10", "203.0.113.66", "canary-token", "their-token").Replace(kubeconfig))}
	for name, late := range map[string]bool{"from the start": false, "when it is registered": true, "without an endpoint": false} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
			l.create(theirs.DeepCopy())
			if late {
				l.settle(l.validating)
			} else {
				l.mustReconcile()
				l.mustReconcile()
				l.play()
			}
			claim := l.list(crossplane.GKEClusterGVK)[0]
			_ = unstructured.SetNestedField(claim.Object, "theirs", "spec", "resourceRef", "name")
			reason := v1alpha1.ReasonKubeconfigInvalid
			if !late { // by its name alone it is another's
				reason = v1alpha1.ReasonKubeconfigMissing
			}
			if name == "without an endpoint" {
				unstructured.RemoveNestedField(claim.Object, "status", "endpoint")
				reason = v1alpha1.ReasonKubeconfigMissing
			}
			l.update(&claim)
			for _, app := range l.list(argocd.ApplicationGVK) {
				app.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "ComparisonError", "message": "the server has asked for the client to provide credentials"}}}
				l.update(&app)
			}
			l.mustReconcile()
			for _, secret := range l.list(argocd.SecretGVK) {
				if config, _ := secret.Object["data"].(map[string]any)["config"].(string); strings.Contains(decode(config), "their-token") {
					t.Errorf("Secret %s has the credentials of somebody else's cluster", secret.GetName())
				}
			}
			if !late {
				l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, reason)
			}
		})
	}
}

// Who writes the kubeconfig himself may not take the place of a cluster that Argo CD knows already.
func TestKubeconfigOfACompositeThatClashes(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
	l.composites = true
	other := object(argocd.SecretGVK, "argocd", "theirs")
	other.SetLabels(argocd.ClusterLabels())
	other.Object["data"] = map[string]any{"server": encode("https://203.0.113.10"), "config": encode(`{"bearerToken":"another"}`)}
	l.create(other)
	for range 4 {
		_ = l.reconcile()
		l.play()
	}
	l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonNameTaken)
}

// Somebody has made an Application say that it is of a cluster without a claim, and taken that away: no kubeconfig is asked of what is
// not there, and the teardown goes on.
func TestTeardownOfAnApplicationThatNeedsNoClaim(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterGKE)), nginx(), template())
	l.until(v1alpha1.PhaseReady)
	e := l.get()
	app := l.list(argocd.ApplicationGVK)[0]
	_ = unstructured.SetNestedField(app.Object, names{e, l.reconciler.Options}.registration(e.Spec.Targets[0], nil), "spec", "destination", "name")
	annotations := app.GetAnnotations()
	annotations[v1alpha1.AnnotationEndpoint] = "https://203.0.113.10"
	app.SetAnnotations(annotations)
	l.update(&app)
	l.remove()
	l.gone(crossplane.GKEClusterGVK)
	l.disconnect("InvalidSpecError", "there are no clusters with this name")
	l.settle(l.play)
	if left := l.ours(); l.get() != nil || len(left) > 0 {
		t.Errorf("it stays, and %v", kindsLeft(left))
	}
}
