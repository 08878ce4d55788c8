package experiment

import (
	"encoding/json"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/test/load/harness"
)

const (
	argoCDNamespace     = "argocd"
	workflowNamespace   = "argo"
	crossplaneNamespace = "crossplane-system"
	managerNamespace    = "labkeeper-system"
)

var (
	experiments  = v1alpha1.GroupVersion.WithResource("experiments")
	claims       = schema.GroupVersionResource{Group: "illm.io", Version: "v1alpha1", Resource: "gkeclusters"}
	applications = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}
	clusters     = schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "clusters"}
	// arlonClusters are those that clusterRefs name; the paths of both have the same last part.
	arlonClusters = schema.GroupVersionResource{Group: "core.arlon.io", Version: "v1", Resource: "clusters"}

	vclusters     = schema.GroupVersionResource{Group: "infrastructure.cluster.x-k8s.io", Version: "v1alpha1", Resource: "vclusters"}
	controlPlanes = schema.GroupVersionResource{Group: "controlplane.cluster.x-k8s.io", Version: "v1alpha3", Resource: "taloscontrolplanes"}
	workflows     = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "workflows"}
	secrets       = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	namespaces    = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// dockerTemplates are the templates that talos targets name, by what they are of.
var dockerTemplates = map[string]schema.GroupVersionResource{
	"Cluster": {Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1", Resource: "dockerclustertemplates"},
	"Machine": {Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1", Resource: "dockermachinetemplates"},
}

// ours selects the children.
const ours = v1alpha1.LabelExperimentUID

// Subject is the Experiment with one gke target, which has every kind of child: a claim, a
// cluster Secret, an Application and a Workflow.
func Subject() *harness.Subject {
	return &harness.Subject{
		Name:     "experiment",
		Resource: experiments,
		CRD:      "config/crd/bases/experiments.illm.io_experiments.yaml",
		CRDs: []string{
			"config/crd/bases", "bin/crds/argo-cd/application-crd.yaml", "test/crds",
			"bin/crds/cluster-api/cluster.x-k8s.io_clusters.yaml", "bin/crds/cluster-api/cluster.x-k8s.io_machinedeployments.yaml",
		},
		// The namespaces of the objects, where the kubeconfigs of some are, come and go.
		Manifests:        []string{"config/rbac", "config/grants", "test/faults/experiment/testdata/kubeconfig-reader.yaml", "config/samples/components.yaml", "config/observability/components.yaml", "config/samples/workflowtemplate.yaml"},
		Namespaces:       []string{managerNamespace, argoCDNamespace, workflowNamespace, crossplaneNamespace},
		AccountNamespace: managerNamespace,
		Account:          "labkeeper-controller-manager",
		Lease:            "labkeeper",
		FieldManager:     "labkeeper",
		// For the shape that is observed; no other notices.
		Args: []string{"--observability-url=https://metrics.example.com/api/v1/push"},

		New:    New,
		Status: status,
		Edit: func(version int) []byte {
			patch, _ := json.Marshal(map[string]any{"spec": map[string]any{"targets": []any{gke("app", strconv.Itoa(version))}}})
			return patch
		},

		Watched: []harness.Watched{
			{Resource: experiments},
			{Resource: claims, Labels: ours},
			{Resource: secrets, Namespace: argoCDNamespace, Labels: ours},
			{Resource: applications, Namespace: argoCDNamespace, Labels: ours},
			{Resource: workflows, Namespace: workflowNamespace, Labels: ours},
			{Resource: namespaces, Labels: ours},
		},
		Story:   story,
		Needs:   []string{"GKECluster app", "Secret app", "Application app", "Workflow", "Complete"},
		Created: harness.Created,
		Gone:    harness.Gone,
		Acted:   harness.Acted,
		Done:    "Complete",
		Held:    "told Running",
		Refused: "refused",
		Reactions: []harness.Reaction{
			{Name: "register", Cause: "GKECluster app ready", Effect: "Secret app"},
			{Name: "submit", Cause: "Application app ready", Effect: "Workflow"},
			{Name: "complete", Cause: "Workflow ready", Effect: "Complete"},
		},
		Minimal: harness.Writes{
			// The Experiment, its four children and the connection Secret.
			Creates: 6,
			// The finalizer and five phases; of the world the composite, Ready, Healthy,
			// Running and Succeeded.
			Patches: 6 + 5,
		},
		Cached: 3, // Secrets are not
		World:  world(),
		Shapes: shapes(),
	}
}

// New is an Experiment with one gke target.
func New(namespace, name string, variant harness.Variant) *unstructured.Unstructured {
	target := gke("app", "0")
	if variant == harness.Refused {
		target["components"] = []any{map[string]any{"app": "nowhere"}}
	}
	return object(namespace, name, target)
}

func object(namespace, name string, targets ...any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"description": "Does a web server start?",
		"targets":     targets,
		"workflow":    map[string]any{"template": "gateway-validation", "completion": map[string]any{"mode": "workflow"}},
	}}}
	u.SetAPIVersion(v1alpha1.GroupVersion.String())
	u.SetKind("Experiment")
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func gke(name, replicas string, depends ...any) map[string]any {
	t := map[string]any{
		"name":       name,
		"cluster":    map[string]any{"type": "gke"},
		"components": []any{map[string]any{"app": "nginx", "params": map[string]any{"replicaCount": replicas}}},
	}
	if len(depends) > 0 {
		t["depends"] = depends
	}
	return t
}

func hub(name string, depends ...any) map[string]any {
	t := gke(name, "1", depends...)
	t["cluster"] = map[string]any{"type": "hub"}
	return t
}

// status is what the status of an Experiment with a cluster that is up looks like.
func status(i int) map[string]any {
	const at = "2026-01-01T00:00:00Z"
	var conditions []any
	for _, t := range []string{
		v1alpha1.ConditionReady, v1alpha1.ConditionAccepted, v1alpha1.ConditionComponentsResolved,
		v1alpha1.ConditionClustersReady, v1alpha1.ConditionApplicationsHealthy, v1alpha1.ConditionWorkflowSucceeded,
	} {
		conditions = append(conditions, map[string]any{
			"type": t, "status": "False", "reason": "Progressing", "observedGeneration": 1, "lastTransitionTime": at,
			"message": fmt.Sprintf("Target app: Application argocd/floor-app-0123456789 is on its way (%d)", i),
		})
	}
	return map[string]any{
		"observedGeneration": 1, "phase": "Ready", "startedAt": at, "expiresAt": at,
		"namespaces": map[string]any{"claims": "default", "argoCD": argoCDNamespace, "workflows": workflowNamespace},
		"targets": []any{map[string]any{
			"name": "app", "state": "Deploying", "cluster": "default/floor-app-0123456789", "application": "argocd/floor-app-0123456789",
			"endpoint": "https://203.0.113.7", "namespace": "floor", "message": fmt.Sprintf("Application argocd/floor-app-0123456789 is on its way (%d)", i),
		}},
		"conditions": conditions,
	}
}
