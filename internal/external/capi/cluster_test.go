package capi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/labkeeper/labkeeper/test/crds"
)

func TestVCluster(t *testing.T) {
	for name, test := range map[string]struct {
		cluster VCluster
		release map[string]any
	}{
		"full": {
			VCluster{Namespace: "lab", Name: strings.Repeat("x", 40), ChartVersion: "0.29.0", Values: "sync: {}\n"},
			map[string]any{"chart": map[string]any{"version": "0.29.0"}, "values": "sync: {}\n"},
		},
		"smallest": {VCluster{Namespace: "lab", Name: "x"}, map[string]any{}}, // the provider drops an empty text, for ever
	} {
		t.Run(name, func(t *testing.T) {
			objects := test.cluster.Objects()
			for _, o := range objects {
				if err := crds.Require(t).Validate(o); err != nil {
					t.Error(err)
				}
				if o.GetNamespace() != test.cluster.Namespace || o.GetName() != test.cluster.Name {
					t.Errorf("it is %s/%s", o.GetNamespace(), o.GetName())
				}
			}
			if objects[1].GetAnnotations()["vcluster.loft.sh/skip-infrastructure-cluster-patch"] != "true" {
				t.Error("the provider looks for an infrastructure that is not there, and is never ready")
			}
			ref := map[string]any{"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "VCluster", "name": test.cluster.Name}
			want := []any{map[string]any{"controlPlaneRef": ref, "infrastructureRef": ref}, map[string]any{"helmRelease": test.release}}
			if diff := cmp.Diff(want, []any{objects[0].Object["spec"], objects[1].Object["spec"]}); diff != "" {
				t.Errorf("specs (-want +got):\n%s", diff)
			}
		})
	}
}

// What a VCluster is not given any more is strange, and nothing else: what others say of its chart, and what is empty, stays.
func TestStrange(t *testing.T) {
	both := VCluster{Namespace: "lab", Name: "x", ChartVersion: "0.29.0", Values: "sync: {}\n"}.Objects()
	none := VCluster{Namespace: "lab", Name: "x"}.Objects()
	version, values := []string{"spec", "helmRelease", "chart", "version"}, []string{"spec", "helmRelease", "values"}
	for name, test := range map[string]struct {
		live, desired *unstructured.Unstructured
		want          [][]string
	}{
		"neither":                       {both[1], none[1], [][]string{version, values}},
		"another version":               {both[1], VCluster{Namespace: "lab", Name: "x", ChartVersion: "0.30.0"}.Objects()[1], [][]string{values}},
		"the same":                      {both[1], both[1], nil},
		"more":                          {none[1], both[1], nil},
		"an object of yet another kind": {both[1], both[0], nil},
		"what is others'": {crds.RequireObject(t, `{apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1, kind: VCluster, metadata: {namespace: lab, name: x},
			spec: {helmRelease: {chart: {repo: "https://charts.example.com", version: ""}, values: ""}}}`), none[1], nil},
	} {
		if diff := cmp.Diff(test.want, Strange(test.live, test.desired)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// read reads a Cluster of a version as the API server returns it, with the given end of its text.
func read(t *testing.T, version, rest string) ClusterState {
	t.Helper()
	if !strings.Contains(rest, "spec: ") {
		rest = "spec: {paused: false}\n" + rest
	}
	return ReadCluster(crds.RequireObject(t, "apiVersion: cluster.x-k8s.io/"+version+"\nkind: Cluster\nmetadata: {namespace: lab, name: x}\n"+rest))
}

func TestReadVCluster(t *testing.T) {
	for status, want := range map[string]string{
		"{}":            "false ",
		"{ready: true}": "true ",
		"{ready: false, reason: HelmError, message: no chart}": "false HelmError: no chart",
		"{ready: true, reason: HelmError, message: no chart}":  "true HelmError: no chart", // with what was there before
	} {
		u := crds.RequireObject(t, "apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1\nkind: VCluster\nmetadata: {namespace: lab, name: x}\nspec: {}\nstatus: "+status)
		if ready, message := ReadVCluster(u); fmt.Sprint(ready, " ", message) != want {
			t.Errorf("%s is %v, %q", status, ready, message)
		}
	}
	if ready, _ := ReadVCluster(nil); ready {
		t.Error("none is ready")
	}
}

func TestReadTalosControlPlane(t *testing.T) {
	const at = `lastTransitionTime: "2026-03-01T12:00:00Z"`
	for status, want := range map[string]string{
		"{}":                                "",
		"{initialized: true}":               "initialized",
		"{initialized: false, ready: true}": "",
		"{conditions: [{type: Available, status: \"False\", reason: WaitingForTalosBoot, message: no node, " + at + "}]}":                    "WaitingForTalosBoot: no node",
		"{initialized: true, conditions: [{type: Available, status: \"False\", reason: WaitingForTalosBoot, message: no node, " + at + "}]}": "initialized",
	} {
		u := crds.RequireObject(t, `
apiVersion: controlplane.cluster.x-k8s.io/v1alpha3
kind: TalosControlPlane
metadata: {namespace: lab, name: x}
spec: {version: v1.34.1, infrastructureTemplate: {kind: X, name: x}, controlPlaneConfig: {controlplane: {generateType: controlplane}}}
status: `+status)
		initialized, message := ReadTalosControlPlane(u)
		if initialized != (want == "initialized") || !initialized && message != want {
			t.Errorf("%s is %v, %q", status, initialized, message)
		}
	}
	if initialized, _ := ReadTalosControlPlane(nil); initialized {
		t.Error("none is")
	}
	later := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"initialization": map[string]any{"controlPlaneInitialized": true}}}}
	if initialized, _ := ReadTalosControlPlane(later); !initialized { // of a provider that has gone over to the other contract
		t.Error("one that says so by v1beta2 is not")
	}
}

func TestReadCluster(t *testing.T) {
	const at, endpoint = `lastTransitionTime: "2026-03-01T12:00:00Z"`, "spec: {controlPlaneEndpoint: {host: 203.0.113.10, port: 6443}}\n"
	tests := map[string]struct {
		version, rest string
		want          ClusterState
	}{
		"new": {"v1beta2", "", ClusterState{}},
		"without its infrastructure": {"v1beta2", `
status:
  initialization: {infrastructureProvisioned: false}
  conditions:
  - {type: ControlPlaneInitialized, status: "False", reason: NotInitialized, message: Control plane not yet initialized, ` + at + `}
  - {type: InfrastructureReady, status: "False", reason: NotReady, message: "VCluster status.ready is false", ` + at + `}
`, ClusterState{Message: "NotReady: VCluster status.ready is false"}},
		"ready": {"v1beta2", endpoint + `
status:
  initialization: {infrastructureProvisioned: true, controlPlaneInitialized: true}
  conditions:
  - {type: Available, status: "False", reason: NotAvailable, message: "* WorkersAvailable: no machines", ` + at + `}
`, ClusterState{Ready: true, Endpoint: "https://203.0.113.10:6443"}},
		"ready, and going": {"v1beta2", endpoint + `
status:
  initialization: {infrastructureProvisioned: true, controlPlaneInitialized: true}
  conditions:
  - {type: Deleting, status: "True", reason: WaitingForWorkersDeletion, message: "* MachineDeployments: x", ` + at + `}
`, ClusterState{Ready: true, Endpoint: "https://203.0.113.10:6443", Message: "WaitingForWorkersDeletion: * MachineDeployments: x"}},
		"not ready, and going": {"v1beta2", `
status:
  conditions:
  - {type: InfrastructureReady, status: "False", reason: NotReady, message: "", ` + at + `}
  - {type: Deleting, status: "True", reason: WaitingForInfrastructureDeletion, message: "", ` + at + `}
`, ClusterState{Message: "WaitingForInfrastructureDeletion"}},
		"paused, and going": {"v1beta2", endpoint + `
status:
  initialization: {infrastructureProvisioned: true, controlPlaneInitialized: true}
  conditions:
  - {type: Deleting, status: "True", reason: WaitingForWorkersDeletion, message: "", ` + at + `}
  - {type: Paused, status: "True", reason: Paused, message: "Cluster spec.paused is set to true", ` + at + `}
`, ClusterState{Ready: true, Endpoint: "https://203.0.113.10:6443", Message: "Paused: Cluster spec.paused is set to true"}},
		"paused before it is ready": {"v1beta2", `
status:
  conditions:
  - {type: InfrastructureReady, status: "False", reason: NotReady, message: "", ` + at + `}
  - {type: Paused, status: "True", reason: Paused, message: "Cluster has the cluster.x-k8s.io/paused annotation", ` + at + `}
`, ClusterState{Message: "Paused: Cluster has the cluster.x-k8s.io/paused annotation"}},
		"not paused": {"v1beta2", `
status:
  conditions:
  - {type: InfrastructureReady, status: "False", reason: NotReady, message: "", ` + at + `}
  - {type: Paused, status: "False", reason: NotPaused, message: "", ` + at + `}
`, ClusterState{Message: "NotReady"}},
		"failed": {"v1beta2", "status: {phase: Failed, deprecated: {v1beta1: {failureReason: CreateError, failureMessage: quota}}}\n",
			ClusterState{Failed: true, Message: "CreateError: quota"}},
		"ready, v1beta1": {"v1beta1", endpoint + "status: {infrastructureReady: true, controlPlaneReady: true}\n",
			ClusterState{Ready: true, Endpoint: "https://203.0.113.10:6443"}},
		"half, v1beta1": {"v1beta1", "status: {infrastructureReady: true, conditions: [{type: ControlPlaneReady, status: \"False\", severity: Info, reason: Waiting, " + at + "}]}\n",
			ClusterState{Message: "Waiting"}},
		"failed, v1beta1": {"v1beta1", "status: {failureMessage: quota}\n", ClusterState{Failed: true, Message: "quota"}},
		"IPv6":            {"v1beta2", "spec: {controlPlaneEndpoint: {host: \"2001:db8::1\", port: 443}}\n", ClusterState{Endpoint: "https://[2001:db8::1]:443"}},
		"a name":          {"v1beta2", "spec: {controlPlaneEndpoint: {host: Lab.example.com, port: 6443}}\n", ClusterState{Endpoint: "https://Lab.example.com:6443"}},
		"a script":        {"v1beta2", "spec: {controlPlaneEndpoint: {host: \"x/$(id)\", port: 6443}}\n", ClusterState{}},
		"a user":          {"v1beta2", "spec: {controlPlaneEndpoint: {host: \"a:b@x\", port: 6443}}\n", ClusterState{}},
		"several lines":   {"v1beta1", "spec: {controlPlaneEndpoint: {host: \"x\\nid\", port: 6443}}\n", ClusterState{}},
		"a host, no port": {"v1beta1", "spec: {controlPlaneEndpoint: {host: x, port: 0}}\n", ClusterState{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, read(t, test.version, test.rest)); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPathsThatReadClusterReads(t *testing.T) {
	crds.ExpectFields(t, ClusterGVK, map[string]string{
		"status.initialization.infrastructureProvisioned": "boolean",
		"status.initialization.controlPlaneInitialized":   "boolean",
		"status.deprecated.v1beta1.failureReason":         "string",
		"status.deprecated.v1beta1.failureMessage":        "string",
		"status.conditions.[].type":                       "string",
		"spec.controlPlaneEndpoint.host":                  "string",
		"spec.controlPlaneEndpoint.port":                  "integer",
	})
	crds.ExpectFields(t, schema.GroupVersionKind{Group: ClusterGVK.Group, Version: "v1beta1", Kind: ClusterGVK.Kind}, map[string]string{
		"status.infrastructureReady":  "boolean",
		"status.controlPlaneReady":    "boolean",
		"status.failureReason":        "string",
		"status.failureMessage":       "string",
		"status.conditions.[].reason": "string",
	})
	crds.ExpectFields(t, VClusterGVK, map[string]string{
		"status.ready": "boolean", "status.reason": "string", "status.message": "string",
	})
	crds.ExpectFields(t, TalosControlPlaneGVK, map[string]string{"status.initialized": "boolean", "status.conditions.[].reason": "string"})
}

func TestTalos(t *testing.T) {
	gvk := schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1", Kind: "DockerMachineTemplate"}
	objects := Talos{
		Namespace: "lab", Name: "x", KubernetesVersion: "v1.34.1", TalosVersion: "v1.11", ControlPlanes: 3, Workers: 2,
		Infrastructure: schema.GroupKind{Group: gvk.Group, Kind: "DockerCluster"},
		ControlPlane:   Template{gvk, "x-control-plane"}, Worker: Template{gvk, "x-worker"},
	}.Objects()
	for _, o := range objects {
		if err := crds.Require(t).Validate(o); err != nil {
			t.Error(err)
		}
	}
	for path, want := range map[string]any{
		"0 spec.infrastructureRef.kind":                               "DockerCluster",
		"0 spec.controlPlaneRef.kind":                                 "TalosControlPlane",
		"1 spec.replicas":                                             int64(3),
		"1 spec.version":                                              "v1.34.1",
		"1 spec.infrastructureTemplate.name":                          "x-control-plane",
		"1 spec.controlPlaneConfig.controlplane.generateType":         "controlplane",
		"2 spec.template.spec.generateType":                           "worker",
		"2 spec.template.spec.talosVersion":                           "v1.11",
		"3 spec.replicas":                                             int64(2),
		"3 spec.template.spec.bootstrap.configRef.kind":               "TalosConfigTemplate",
		"3 spec.template.spec.bootstrap.configRef.name":               "x",
		"3 spec.template.spec.infrastructureRef.name":                 "x-worker",
		"3 spec.selector.matchLabels.[cluster.x-k8s.io/cluster-name]": "x",
	} {
		i, field, _ := strings.Cut(path, " ")
		segments := strings.Split(field, ".")
		if key, ok := strings.CutPrefix(field, "spec.selector.matchLabels.["); ok {
			segments = []string{"spec", "selector", "matchLabels", strings.TrimSuffix(key, "]")}
		}
		got, _, _ := unstructured.NestedFieldNoCopy(objects[int(i[0]-'0')].Object, segments...)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

// What is made of a template has what the template is for, and nothing of the template itself.
func TestTemplates(t *testing.T) {
	template := crds.RequireObject(t, `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: DockerClusterTemplate
metadata: {namespace: lab, name: lab, uid: u, resourceVersion: "1", labels: {a: b}, ownerReferences: [{apiVersion: v1, kind: Secret, name: x, uid: z}]}
spec: {template: {metadata: {labels: {site: north}, annotations: {by: us}}, spec: {loadBalancer: {imageTag: v1}}}}
`)
	made, copied := FromTemplate(template, "clusters", "x"), CopyOf(template, "clusters", "y")
	for u, want := range map[*unstructured.Unstructured]map[string]any{
		made: {
			"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "DockerCluster",
			"metadata": map[string]any{"namespace": "clusters", "name": "x", "labels": map[string]any{"site": "north"}, "annotations": map[string]any{"by": "us"}},
			"spec":     map[string]any{"loadBalancer": map[string]any{"imageTag": "v1"}},
		},
		copied: {
			"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "DockerClusterTemplate",
			"metadata": map[string]any{"namespace": "clusters", "name": "y"},
			"spec":     template.Object["spec"],
		},
	} {
		if diff := cmp.Diff(want, u.Object); diff != "" {
			t.Errorf("%s (-want +got):\n%s", u.GetKind(), diff)
		}
		if err := crds.Require(t).Validate(u); err != nil {
			t.Error(err)
		}
	}
}
