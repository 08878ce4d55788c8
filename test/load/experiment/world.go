package experiment

import (
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/test/env"
	"github.com/labkeeper/labkeeper/test/load/harness"
)

// argoCDFinalizer is what the manager puts on Applications, for Argo CD to take off.
const argoCDFinalizer = "resources-finalizer.argocd.argoproj.io"

// kubeconfig is what is left of a cluster that nobody has.
func kubeconfig(address string) string {
	return `apiVersion: v1
kind: Config
current-context: gke
clusters:
- name: gke
  cluster: {server: "https://` + address + `", certificate-authority-data: bm90IGEgY2VydGlmaWNhdGU=}
contexts:
- name: gke
  context: {cluster: gke, user: client}
users:
- name: client
  user: {token: not-a-token}
`
}

// address is that of the cluster of an object. Each has one of its own: of clusters at one address each that is registered is compared
// with all before it.
func address(o *harness.Object) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(o.Path()))
	of := sum.Sum(nil)
	return net.IPv4(10, of[1], of[2], of[3]).String()
}

// world is Crossplane, Cluster API, Argo CD and Argo Workflows.
func world() harness.World {
	argo := &argoCD{secrets: map[string]string{}, known: map[string]int{}, waiting: map[string]*harness.Object{}}
	return harness.World{
		Watched: []harness.Watched{
			{Resource: claims},
			{Resource: clusters},
			{Resource: vclusters},
			{Resource: controlPlanes},
			{Resource: arlonClusters},
			{Resource: secrets, Namespace: argoCDNamespace},
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
				return up(ctx, c, o, gone, "ready")
			case controlPlanes:
				return up(ctx, c, o, gone, "initialized")
			case arlonClusters:
				return arlon(ctx, c, o, gone)
			case secrets:
				return argo.cluster(ctx, c, o, gone)
			case applications:
				return argo.application(ctx, c, o, gone)
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
		"stringData": map[string]any{"kubeconfig": kubeconfig(address(o))},
	})
	if harness.Ignore(err, http.StatusConflict) != nil {
		return err
	}
	condition := func(t, reason string) map[string]any {
		return map[string]any{"type": t, "status": "True", "reason": reason, "lastTransitionTime": now()}
	}
	return c.Patch(ctx, o.Path()+"/status", map[string]any{"status": map[string]any{
		"endpoint":   address(o),
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
		return c.Patch(ctx, o.Path(), map[string]any{"spec": map[string]any{"controlPlaneEndpoint": map[string]any{"host": address(o), "port": 443}}})
	}
	err := c.Create(ctx, secrets, o.Metadata.Namespace, map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": connection},
		"stringData": map[string]any{"value": kubeconfig(address(o))},
	})
	if harness.Ignore(err, http.StatusConflict) != nil {
		return err
	}
	return c.Patch(ctx, o.Path()+"/status", map[string]any{"status": map[string]any{
		"initialization": map[string]any{"infrastructureProvisioned": true, "controlPlaneInitialized": true},
	}})
}

// arlon registers a Cluster with Argo CD, under its address as Argo CD does by default, and then says that it is Ready.
func arlon(ctx context.Context, c *harness.Client, o *harness.Object, gone bool) error {
	name := "arlon-" + o.Metadata.UID
	switch {
	case gone:
		return harness.Ignore(c.Delete(ctx, harness.Path(secrets, argoCDNamespace, name)), http.StatusNotFound)
	case o.Metadata.DeletionTimestamp != "" || ready(o):
		return nil
	}
	server := "https://" + address(o)
	err := c.Create(ctx, secrets, argoCDNamespace, map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name, "labels": map[string]string{
			"argocd.argoproj.io/secret-type": "cluster", "core.arlon.io/cluster-uid": o.Metadata.UID,
		}},
		"stringData": map[string]any{"name": server, "server": server, "config": `{"bearerToken":"not-a-token"}`},
	})
	if harness.Ignore(err, http.StatusConflict) != nil {
		return err
	}
	return c.Patch(ctx, o.Path()+"/status", map[string]any{"status": map[string]any{"conditions": []any{map[string]any{
		"type": "Ready", "status": "True", "reason": "Up", "message": "", "observedGeneration": o.Metadata.Generation, "lastTransitionTime": now(),
	}}}})
}

// up says that a control plane is, in a field of its status.
func up(ctx context.Context, c *harness.Client, o *harness.Object, gone bool, field string) error {
	if gone || o.Metadata.DeletionTimestamp != "" || strings.Contains(string(o.Status), `"`+field+`":true`) {
		return nil
	}
	return c.Patch(ctx, o.Path()+"/status", map[string]any{"status": map[string]any{field: true}})
}

// argoCD deploys on the clusters that it knows. It hears of Secrets and Applications in any order.
type argoCD struct {
	mu sync.Mutex
	// secrets are the names of clusters, by the paths of the Secrets that it knows them by, and known how many of those each has.
	secrets map[string]string
	known   map[string]int
	// waiting are the Applications, by their paths, that were seen last when it did not know their clusters.
	waiting map[string]*harness.Object
}

// cluster deploys what has waited for a cluster when it knows that.
func (a *argoCD) cluster(ctx context.Context, c *harness.Client, o *harness.Object, gone bool) error {
	name := ""
	if !gone {
		secret := &unstructured.Unstructured{Object: map[string]any{}}
		secret.SetLabels(o.Metadata.Labels)
		var data map[string]any
		if err := json.Unmarshal(o.Data, &data); len(o.Data) > 0 && err != nil {
			return err
		}
		secret.Object["data"] = data
		name = env.ArgoCDCluster(secret)
	}
	var errs []error
	for _, app := range a.learn(o.Path(), name) {
		errs = append(errs, harness.Ignore(deploy(ctx, c, app), http.StatusNotFound, http.StatusConflict))
	}
	return errors.Join(errs...)
}

// learn are the Applications that wait for a cluster, until they are seen deployed.
func (a *argoCD) learn(secret, cluster string) (apps []*harness.Object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known[a.secrets[secret]]--
	a.known[cluster]++
	a.secrets[secret] = cluster
	for _, app := range a.waiting {
		if cluster != "" && destination(app) == cluster {
			apps = append(apps, app)
		}
	}
	return apps
}

// waits says whether an Application that stays waits for its cluster, and keeps it until that is known.
func (a *argoCD) waits(o *harness.Object, stays bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.waiting, o.Path())
	name := destination(o)
	if !stays || name == "" || a.known[name] > 0 {
		return false
	}
	a.waiting[o.Path()] = o
	return true
}

// application deploys one where it knows the cluster, and lets it go.
func (a *argoCD) application(ctx context.Context, c *harness.Client, o *harness.Object, gone bool) error {
	going := o.Metadata.DeletionTimestamp != ""
	waits := a.waits(o, !gone && !going)
	if gone || waits {
		return nil
	}
	if !going {
		return deploy(ctx, c, o)
	}
	keep := slices.DeleteFunc(slices.Clone(o.Metadata.Finalizers), func(f string) bool { return f == argoCDFinalizer })
	return c.Patch(ctx, o.Path(), map[string]any{"metadata": map[string]any{
		"finalizers": keep, "resourceVersion": o.Metadata.ResourceVersion,
	}})
}

// destination is the cluster that an Application is deployed on, by its name or its address; empty for the one that Argo CD runs on.
func destination(o *harness.Object) string {
	var spec map[string]any
	_ = json.Unmarshal(o.Spec, &spec) // whoever deploys it says so
	return env.ArgoCDDestination(&unstructured.Unstructured{Object: map[string]any{"spec": spec}})
}

// deploy says Healthy and Synced at the sources that there are.
func deploy(ctx context.Context, c *harness.Client, o *harness.Object) error {
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
		Destination struct{ Namespace string }
		SyncPolicy  struct {
			ManagedNamespaceMetadata struct {
				Labels      map[string]string `json:"labels"`
				Annotations map[string]string `json:"annotations"`
			}
		}
	}
	if err := json.Unmarshal(o.Spec, &spec); err != nil || destination(o) != "" {
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
