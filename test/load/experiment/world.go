package experiment

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/test/env"
	"github.com/labkeeper/labkeeper/test/load/harness"
)

// argoCDFinalizer is what the manager puts on Applications, for Argo CD to take off.
const argoCDFinalizer = "resources-finalizer.argocd.argoproj.io"

// kubeconfig is what Crossplane leaves of a cluster that nobody has.
const kubeconfig = `apiVersion: v1
kind: Config
current-context: gke
clusters:
- name: gke
  cluster: {server: "https://203.0.113.7", certificate-authority-data: bm90IGEgY2VydGlmaWNhdGU=}
contexts:
- name: gke
  context: {cluster: gke, user: client}
users:
- name: client
  user: {token: not-a-token}
`

// world is Crossplane, Cluster API, Argo CD and Argo Workflows.
func world() harness.World {
	return harness.World{
		Watched: []harness.Watched{
			{Resource: claims},
			{Resource: clusters},
			{Resource: vclusters},
			{Resource: applications, Namespace: argoCDNamespace},
			{Resource: workflows, Namespace: workflowNamespace},
		},
		Play: func(ctx context.Context, c *harness.Client, o *harness.Object, gone bool) error {
			switch o.Resource {
			case claims:
				return crossplane(ctx, c, o, gone)
			case clusters:
				return clusterAPI(ctx, c, o, gone)
			case vclusters:
				return virtual(ctx, c, o, gone)
			case applications:
				return argoCD(ctx, c, o, gone)
			default:
				return argoWorkflows(ctx, c, o, gone)
			}
		},
	}
}

// crossplane binds a claim, then leaves the kubeconfig and says Ready.
func crossplane(ctx context.Context, c *harness.Client, o *harness.Object, gone bool) error {
	composite, namespace := o.Metadata.Name+"-xr", crossplaneNamespace
	bound := map[string]any{"resourceRef": map[string]any{"apiVersion": "illm.io/v1alpha1", "kind": "XGKECluster", "name": composite}}
	if strings.HasPrefix(o.Metadata.Name, compositeShape) {
		composite, namespace = o.Metadata.Name, o.Metadata.Namespace
		bound = map[string]any{"crossplane": map[string]any{"compositionRef": map[string]any{"name": "gke"}}}
	}
	connection := composite + "-cluster-conn"
	switch {
	case gone:
		return c.Delete(ctx, harness.Path(secrets, namespace, connection))
	case o.Metadata.DeletionTimestamp != "" || ready(o):
		return nil
	case !strings.Contains(string(o.Spec), `"resourceRef"`) && !strings.Contains(string(o.Spec), `"crossplane"`):
		return c.Patch(ctx, o.Path(), map[string]any{"spec": bound})
	}
	err := c.Create(ctx, secrets, namespace, map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": connection},
		"stringData": map[string]any{"kubeconfig": kubeconfig},
	})
	if harness.Ignore(err, http.StatusConflict) != nil {
		return err
	}
	condition := func(t, reason string) map[string]any {
		return map[string]any{"type": t, "status": "True", "reason": reason, "lastTransitionTime": now()}
	}
	return c.Patch(ctx, o.Path()+"/status", map[string]any{"status": map[string]any{
		"endpoint":   "203.0.113.7",
		"conditions": []any{condition("Ready", "Available"), condition("Synced", "ReconcileSuccess")},
	}})
}

// clusterAPI tells the address of a cluster, then leaves its kubeconfig and says that it is up.
func clusterAPI(ctx context.Context, c *harness.Client, o *harness.Object, gone bool) error {
	connection := o.Metadata.Name + "-kubeconfig"
	switch {
	case gone:
		return harness.Ignore(c.Delete(ctx, harness.Path(secrets, o.Metadata.Namespace, connection)), http.StatusNotFound)
	case o.Metadata.DeletionTimestamp != "" || strings.Contains(string(o.Status), `"controlPlaneInitialized":true`):
		return nil
	case !strings.Contains(string(o.Spec), `"controlPlaneEndpoint"`):
		return c.Patch(ctx, o.Path(), map[string]any{"spec": map[string]any{"controlPlaneEndpoint": map[string]any{"host": "203.0.113.7", "port": 443}}})
	}
	err := c.Create(ctx, secrets, o.Metadata.Namespace, map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": connection},
		"stringData": map[string]any{"value": kubeconfig},
	})
	if harness.Ignore(err, http.StatusConflict) != nil {
		return err
	}
	return c.Patch(ctx, o.Path()+"/status", map[string]any{"status": map[string]any{
		"initialization": map[string]any{"infrastructureProvisioned": true, "controlPlaneInitialized": true},
	}})
}

// virtual says that a virtual cluster is up.
func virtual(ctx context.Context, c *harness.Client, o *harness.Object, gone bool) error {
	if gone || o.Metadata.DeletionTimestamp != "" || strings.Contains(string(o.Status), `"ready":true`) {
		return nil
	}
	return c.Patch(ctx, o.Path()+"/status", map[string]any{"status": map[string]any{"ready": true}})
}

// argoCD says Healthy and Synced at the sources that there are.
func argoCD(ctx context.Context, c *harness.Client, o *harness.Object, gone bool) error {
	if gone {
		return nil
	}
	if o.Metadata.DeletionTimestamp != "" {
		keep := slices.DeleteFunc(slices.Clone(o.Metadata.Finalizers), func(f string) bool { return f == argoCDFinalizer })
		return c.Patch(ctx, o.Path(), map[string]any{"metadata": map[string]any{
			"finalizers": keep, "resourceVersion": o.Metadata.ResourceVersion,
		}})
	}
	var spec struct{ Sources, Destination json.RawMessage }
	if err := json.Unmarshal(o.Spec, &spec); err != nil {
		return err
	}
	var status struct {
		Sync struct {
			ComparedTo struct{ Sources json.RawMessage }
		}
	}
	if len(o.Status) > 0 {
		if err := json.Unmarshal(o.Status, &status); err != nil {
			return err
		}
	}
	if o.Metadata.Annotations[env.ArgoCDRefresh] == "" && string(status.Sync.ComparedTo.Sources) == string(spec.Sources) { // the server sorts the keys of both
		return nil
	}
	if err := createNamespace(ctx, c, o); err != nil {
		return err
	}
	return c.Patch(ctx, o.Path(), map[string]any{"metadata": map[string]any{"annotations": map[string]any{env.ArgoCDRefresh: nil}}, "status": map[string]any{
		"health":    map[string]any{"status": "Healthy"},
		"resources": []any{map[string]any{"version": "v1", "kind": "Service", "name": "web", "status": "Synced"}},
		"sync":      map[string]any{"status": "Synced", "comparedTo": map[string]any{"sources": spec.Sources, "destination": spec.Destination}},
	}})
}

// createNamespace does on the hub what CreateNamespace=true asks for.
func createNamespace(ctx context.Context, c *harness.Client, o *harness.Object) error {
	var spec struct {
		Destination struct{ Server, Namespace string }
		SyncPolicy  struct {
			ManagedNamespaceMetadata struct {
				Labels      map[string]string `json:"labels"`
				Annotations map[string]string `json:"annotations"`
			}
		}
	}
	if err := json.Unmarshal(o.Spec, &spec); err != nil || spec.Destination.Server == "" {
		return err // on a cluster that nobody has
	}
	marks := spec.SyncPolicy.ManagedNamespaceMetadata
	err := c.Create(ctx, namespaces, "", map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": spec.Destination.Namespace, "labels": marks.Labels, "annotations": marks.Annotations},
	})
	return harness.Ignore(err, http.StatusConflict)
}

// argoWorkflows says Running, then Succeeded. A held one goes on running.
func argoWorkflows(ctx context.Context, c *harness.Client, o *harness.Object, gone bool) error {
	_, owner, _ := strings.Cut(o.Metadata.Annotations[v1alpha1.AnnotationOwner], "/")
	switch {
	case gone || o.Metadata.DeletionTimestamp != "":
		return nil
	case len(o.Status) == 0 || string(o.Status) == "{}":
		return c.Patch(ctx, o.Path(), map[string]any{"status": map[string]any{"phase": "Running", "startedAt": now()}})
	case strings.Contains(string(o.Status), `"Running"`) && !strings.HasPrefix(owner, harness.HeldPrefix):
		return c.Patch(ctx, o.Path(), map[string]any{"status": map[string]any{"phase": "Succeeded", "finishedAt": now()}})
	}
	return nil
}

func now() string { return time.Now().UTC().Format(time.RFC3339) }
