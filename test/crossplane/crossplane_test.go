package crossplane

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/crossplane"
	"github.com/labkeeper/labkeeper/test/crds"
)

const (
	root         = "../.."
	externalName = "crossplane.io/external-name"
)

// variant is one of the two ways to install.
type variant struct {
	dir        string // below config/crossplane
	api        string // group of the provider's resources
	namespaced bool
	version    func(declared string) string // of the provider's resources
}

var variants = []variant{
	{dir: "claim", api: "gcp.upbound.io", version: func(declared string) string { return declared }},
	{dir: "composite", api: "gcp.m.upbound.io", namespaced: true, version: func(string) string { return "v1beta1" }},
}

// each runs a test for both variants.
func each(t *testing.T, test func(t *testing.T, v variant)) {
	for _, v := range variants {
		t.Run(v.dir, func(t *testing.T) { test(t, v) })
	}
}

// objects are what `kubectl apply -k config/crossplane/DIR` applies, by kind and name.
func (v variant) objects(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	return kustomized(t, filepath.Join(root, "config/crossplane", v.dir))
}

func kustomized(t *testing.T, dir string) map[string]*unstructured.Unstructured {
	t.Helper()
	var k struct {
		Resources []string `json:"resources"`
	}
	// Strictly: whatever else a kustomization can do is not done here.
	if err := yaml.UnmarshalStrict(read(t, filepath.Join(dir, "kustomization.yaml")), &k); err != nil {
		t.Fatal(err)
	}
	all := map[string]*unstructured.Unstructured{}
	for _, name := range k.Resources {
		for _, u := range documents(t, filepath.Join(dir, name)) {
			all[u.GetKind()+"/"+u.GetName()] = u
		}
	}
	return all
}

func documents(t *testing.T, path string) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(read(t, path)), 4096)
	for {
		u := &unstructured.Unstructured{}
		err := decoder.Decode(u)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, u)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (make k8s copies what is missing in bin)", err)
	}
	return content
}

// only is the one object of a kind.
func (v variant) only(t *testing.T, kind string) *unstructured.Unstructured {
	t.Helper()
	var found []*unstructured.Unstructured
	for _, u := range v.objects(t) {
		if u.GetKind() == kind {
			found = append(found, u)
		}
	}
	if len(found) != 1 {
		t.Fatalf("there are %d of %s", len(found), kind)
	}
	return found[0]
}

// input is that of the first step of the pipeline.
func (v variant) input(t *testing.T) map[string]any {
	t.Helper()
	pipeline, _, err := unstructured.NestedSlice(v.only(t, "Composition").Object, "spec", "pipeline")
	if err != nil || len(pipeline) == 0 {
		t.Fatalf("no pipeline (%v)", err)
	}
	input, found, err := unstructured.NestedMap(pipeline[0].(map[string]any), "input")
	if err != nil || !found {
		t.Fatalf("no input (%v)", err)
	}
	return input
}

// schema is what the XRD says of our own fields.
func (v variant) schema(t *testing.T) apiextensionsv1.JSONSchemaProps {
	t.Helper()
	versions, _, err := unstructured.NestedSlice(v.only(t, "CompositeResourceDefinition").Object, "spec", "versions")
	if err != nil || len(versions) != 1 {
		t.Fatalf("%d versions (%v)", len(versions), err)
	}
	s, _, err := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema")
	if err != nil {
		t.Fatal(err)
	}
	props := apiextensionsv1.JSONSchemaProps{}
	convert(t, s, &props)
	return props
}

func convert(t *testing.T, from, to any) {
	t.Helper()
	text, err := yaml.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, to); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsInstalled(t *testing.T) {
	want := map[string][]string{
		"claim":     {"CompositeResourceDefinition/xgkeclusters.illm.io", "Composition/xgkeclusters.illm.io"},
		"composite": {"CompositeResourceDefinition/gkeclusters.illm.io", "Composition/gkeclusters.illm.io"},
	}
	each(t, func(t *testing.T, v variant) {
		if diff := cmp.Diff(want[v.dir], slices.Sorted(maps.Keys(v.objects(t)))); diff != "" {
			t.Errorf("installed (-want +got):\n%s", diff)
		}
	})
}

// The composition's type is the one that the XRD defines, and that offers what the manager asks for.
func TestReferences(t *testing.T) {
	each(t, func(t *testing.T, v variant) {
		xrd, composition := v.only(t, "CompositeResourceDefinition"), v.only(t, "Composition")
		get := func(u *unstructured.Unstructured, path ...string) string {
			s, _, _ := unstructured.NestedString(u.Object, path...)
			return s
		}
		if got, want := get(composition, "spec", "compositeTypeRef", "kind"), get(xrd, "spec", "names", "kind"); got != want {
			t.Errorf("the composition is of %s, the XRD of %s", got, want)
		}
		offered := get(xrd, "spec", "names", "kind")
		if !v.namespaced {
			offered = get(xrd, "spec", "claimNames", "kind")
			if got := get(xrd, "spec", "defaultCompositeDeletePolicy"); got != "Foreground" {
				t.Errorf("defaultCompositeDeletePolicy is %q", got)
			}
		}
		if want := crossplane.GKEClusterGVK; offered != want.Kind || get(xrd, "spec", "group") != want.Group {
			t.Errorf("it offers %s, the manager wants %s", offered, want)
		}
	})
}

// TestOwnFields: the definition that all other tests believe in says of our own fields what the XRDs say.
func TestOwnFields(t *testing.T) {
	crd := apiextensionsv1.CustomResourceDefinition{}
	convert(t, documents(t, filepath.Join(root, "test/crds/gkecluster.yaml"))[0].Object, &crd)
	each(t, func(t *testing.T, v variant) {
		own := map[string][]string{
			"spec":   {"diskSizeGb", "machineType", "nodeCount", "preemptible", "zone"},
			"status": {"clusterName", "endpoint"},
		}
		if v.namespaced {
			own["status"] = append(own["status"], "kubeconfigSecret")
		}
		for part, names := range own {
			got, want := v.schema(t).Properties[part], crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties[part]
			if diff := cmp.Diff(want.Required, got.Required); diff != "" {
				t.Errorf("required in %s (-want +got):\n%s", part, diff)
			}
			for _, name := range names {
				field := got.Properties[name]
				field.Description = ""
				if diff := cmp.Diff(want.Properties[name], field); diff != "" {
					t.Errorf("%s.%s (-want +got):\n%s", part, name, diff)
				}
			}
			for name := range got.Properties {
				if !slices.Contains(names, name) && name != "compositeDeletePolicy" {
					t.Errorf("%s.%s is not known to %s", part, name, crd.Name)
				}
			}
		}
	})
}

// TestComposite: the claim that the manager writes is a valid composite where there are no claims.
func TestComposite(t *testing.T) {
	v := variants[1]
	kind := crossplane.GKEClusterGVK
	s := v.schema(t)
	delete(s.Properties, "metadata") // Crossplane takes the maximal length of the name from there
	schemas := load(t, definition(kind.Group, kind.Version, kind.Kind, true, s))
	cluster := crossplane.GKECluster{Namespace: "lab", Name: "x", Zone: "us-central1-a", NodeCount: 1, MachineType: "e2-medium", DiskSizeGb: 50}
	if err := schemas.Validate(cluster.Claim()); err != nil {
		t.Error(err)
	}
}

// load loads schemas that are made here.
func load(t *testing.T, all ...apiextensionsv1.CustomResourceDefinition) *crds.Schemas {
	t.Helper()
	dir := t.TempDir()
	for _, crd := range all {
		text, err := yaml.Marshal(crd)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, crd.Name+".yaml"), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	schemas, err := crds.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return schemas
}

func definition(group, version, kind string, namespaced bool, s apiextensionsv1.JSONSchemaProps) apiextensionsv1.CustomResourceDefinition {
	crd := apiextensionsv1.CustomResourceDefinition{}
	crd.APIVersion, crd.Kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
	crd.Name = strings.ToLower(kind) + "s." + group
	crd.Spec.Group = group
	crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, Plural: strings.ToLower(kind) + "s"}
	crd.Spec.Scope = apiextensionsv1.ClusterScoped
	if namespaced {
		crd.Spec.Scope = apiextensionsv1.NamespaceScoped
	}
	properties := maps.Clone(s.Properties)
	properties["apiVersion"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	properties["kind"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	properties["metadata"] = apiextensionsv1.JSONSchemaProps{Type: "object"}
	s.Type, s.Properties = "object", properties
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{
		Name: version, Served: true, Storage: true,
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &s},
	}}
	return crd
}

// TestCrossplaneAcceptsThem holds everything against Crossplane's own definitions.
func TestCrossplaneAcceptsThem(t *testing.T) {
	v1, err := crds.Load(filepath.Join(root, "bin/crds-v1"))
	if err != nil {
		t.Fatalf("%v (make k8s copies it)", err)
	}
	each(t, func(t *testing.T, v variant) {
		versions := map[string]*crds.Schemas{"v2": crds.Require(t)}
		if !v.namespaced {
			versions["v1"] = v1
		}
		for version, schemas := range versions {
			for _, u := range v.objects(t) {
				if err := schemas.Validate(u); err != nil {
					t.Errorf("Crossplane %s: %v", version, err)
				}
			}
		}
	})
}

// The composite is ready when all that it is made of is: the Functions run in this order.
func TestFunctions(t *testing.T) {
	each(t, func(t *testing.T, v variant) {
		pipeline, _, err := unstructured.NestedSlice(v.only(t, "Composition").Object, "spec", "pipeline")
		if err != nil {
			t.Fatal(err)
		}
		var functions []string
		for _, step := range pipeline {
			name, _, _ := unstructured.NestedString(step.(map[string]any), "functionRef", "name")
			functions = append(functions, name)
		}
		if want := []string{"function-patch-and-transform", "function-auto-ready"}; !slices.Equal(functions, want) {
			t.Errorf("the Functions are %v, want %v", functions, want)
		}
	})
}

// TestInputOfPatchAndTransform holds the Function's input against spec.resources and spec.patchSets of
// Crossplane v1.20, which had patch and transform built in.
func TestInputOfPatchAndTransform(t *testing.T) {
	crd := apiextensionsv1.CustomResourceDefinition{}
	path := filepath.Join(root, "bin/crds-v1/crossplane/apiextensions.crossplane.io_compositions.yaml")
	convert(t, documents(t, path)[0].Object, &crd)
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	schemas := load(t, definition("pt.fn.crossplane.io", "v1beta1", "Resources", false, apiextensionsv1.JSONSchemaProps{
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"patchSets": spec.Properties["patchSets"],
			"resources": spec.Properties["resources"],
		},
	}))
	each(t, func(t *testing.T, v variant) {
		u := &unstructured.Unstructured{Object: v.input(t)}
		u.SetName("input")
		if err := schemas.Validate(u); err != nil {
			t.Error(err)
		}
	})
}

// gcp are the schemas of the provider's resources.
func (v variant) gcp(t *testing.T) *crds.Schemas {
	t.Helper()
	var kinds []struct {
		Kind, Group, Version    string
		ForProvider, AtProvider apiextensionsv1.JSONSchemaProps
	}
	if err := yaml.UnmarshalStrict(read(t, "gcp.yaml"), &kinds); err != nil {
		t.Fatal(err)
	}
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	object := func(required []string, properties map[string]apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", Required: required, Properties: properties}
	}
	config := map[string]apiextensionsv1.JSONSchemaProps{"name": text}
	secret := map[string]apiextensionsv1.JSONSchemaProps{"name": text}
	required := []string{"name", "namespace"}
	if v.namespaced {
		config["kind"], required = text, []string{"name"}
	} else {
		secret["namespace"] = text
	}
	var all []apiextensionsv1.CustomResourceDefinition
	for _, k := range kinds {
		k.ForProvider.Type, k.AtProvider.Type = "object", "object"
		all = append(all, definition(k.Group+"."+v.api, v.version(k.Version), k.Kind, v.namespaced, object([]string{"spec"}, map[string]apiextensionsv1.JSONSchemaProps{
			"spec": object([]string{"forProvider"}, map[string]apiextensionsv1.JSONSchemaProps{
				"forProvider":                k.ForProvider,
				"providerConfigRef":          object(slices.Sorted(maps.Keys(config)), config),
				"writeConnectionSecretToRef": object(required, secret),
			}),
			"status": object(nil, map[string]apiextensionsv1.JSONSchemaProps{"atProvider": k.AtProvider}),
		})))
	}
	return load(t, all...)
}

// schemas are what resources are held against: ours, and the provider's.
func (v variant) schemas(t *testing.T) map[string]*crds.Schemas {
	t.Helper()
	return map[string]*crds.Schemas{"gcp.yaml": v.gcp(t), "the provider": v.provider(t)}
}

// provider are the definitions of the provider itself, or for namespaced resources what is made of those.
func (v variant) provider(t *testing.T) *crds.Schemas {
	t.Helper()
	all, err := Provider{v.namespaced}.Definitions(root)
	if err != nil {
		t.Fatal(err)
	}
	definitions := make([]apiextensionsv1.CustomResourceDefinition, len(all))
	for i, u := range all {
		convert(t, u.Object, &definitions[i])
	}
	return load(t, definitions...)
}

// composite is what the manager's claim becomes, with the longest name.
func (v variant) composite(preemptible bool) *unstructured.Unstructured {
	cluster := crossplane.GKECluster{
		Namespace: "lab", Name: strings.Repeat("n", crossplane.MaxClaimName), Zone: "europe-west4-b",
		NodeCount: 3, MachineType: "n2-standard-4", DiskSizeGb: 100, Preemptible: preemptible,
	}
	u := cluster.Claim()
	u.SetUID("0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0")
	if !v.namespaced {
		u.SetKind("XGKECluster")
		u.SetNamespace("")
		u.SetName(cluster.Name + "-x7k2p")
	}
	return u
}

// complete is a composed resource as Crossplane applies it.
func (v variant) complete(u *unstructured.Unstructured) *unstructured.Unstructured {
	u.SetName("composed")
	if v.namespaced {
		u.SetNamespace("lab")
	}
	return u
}

// Nothing of a cluster is called by more than GKE takes, and its nodes are not made beside what the provider still removes.
func TestNote27And28Render(t *testing.T) {
	names := map[string]string{
		"claim":     "illm-" + strings.Repeat("n", crossplane.MaxClaimName) + "-x7k2p",
		"composite": "illm-" + strings.Repeat("n", crossplane.MaxClaimName) + "-0f1e2",
	}
	each(t, func(t *testing.T, v variant) {
		schemas := v.schemas(t)
		for _, preemptible := range []bool{false, true} {
			xr := v.composite(preemptible)
			got, err := render(v.input(t), xr, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"cluster", "network", "nodepool", "subnetwork"}, slices.Sorted(maps.Keys(got.composed))); diff != "" {
				t.Fatalf("composed (-want +got):\n%s", diff)
			}
			for name, u := range got.composed {
				for by, schema := range schemas {
					if err := schema.Validate(v.complete(u.DeepCopy())); err != nil {
						t.Errorf("by %s: %v", by, err)
					}
				}
				if got := u.GetAnnotations()[externalName]; got != names[v.dir] || len(got) > 40 {
					t.Errorf("%s is called %s in GCP, %d characters; want %s", name, got, len(got), names[v.dir])
				}
				if _, found, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "forProvider", "project"); found {
					t.Errorf("%s names a project", name)
				}
			}
			secret := map[string]any{"name": xr.GetName() + "-cluster-conn"}
			if !v.namespaced {
				ref := crossplane.ConnectionSecret("crossplane-system", xr.GetName())
				secret = map[string]any{"namespace": ref.Namespace, "name": ref.Name}
			}
			for path, want := range map[string]any{
				"subnetwork spec.forProvider.region":               "europe-west4",
				"cluster spec.forProvider.location":                "europe-west4-b",
				"cluster spec.forProvider.deletionProtection":      false,
				"cluster spec.forProvider.removeDefaultNodePool":   true,
				"cluster spec.forProvider.initialNodeCount":        float64(1),
				"cluster spec.forProvider.binaryAuthorization":     map[string]any{"evaluationMode": "DISABLED"},
				"cluster spec.writeConnectionSecretToRef":          secret,
				"nodepool spec.forProvider.nodeCount":              int64(3),
				"nodepool spec.forProvider.nodeConfig.spot":        preemptible,
				"nodepool spec.forProvider.nodeConfig.diskSizeGb":  int64(100),
				"nodepool spec.forProvider.nodeConfig.machineType": "n2-standard-4",
				// Resolves when the cluster has an ID, which is when the default pool is gone.
				"nodepool spec.forProvider.clusterSelector": map[string]any{"matchControllerRef": true},
			} {
				name, field, _ := strings.Cut(path, " ")
				value, _, err := unstructured.NestedFieldNoCopy(got.composed[name].Object, segments(field)...)
				if diff := cmp.Diff(want, value); err != nil || diff != "" {
					t.Errorf("%s (%v) (-want +got):\n%s", path, err, diff)
				}
			}
			if len(got.status) > 0 {
				t.Errorf("status is %v before anything was observed", got.status)
			}
		}
	})
}

// TestDefinitions: the provider refuses of each variant what belongs to the other.
func TestDefinitions(t *testing.T) {
	set := func(value any, path ...string) func(*unstructured.Unstructured) error {
		return func(u *unstructured.Unstructured) error { return unstructured.SetNestedField(u.Object, value, path...) }
	}
	tests := map[string]struct {
		change           func(*unstructured.Unstructured) error
		claim, composite bool // it is taken
	}{
		"as composed":                    {func(*unstructured.Unstructured) error { return nil }, true, true},
		"another version":                {set("container.gcp.m.upbound.io/v1beta2", "apiVersion"), false, false},
		"a deletion policy":              {set("Delete", "spec", "deletionPolicy"), true, false},
		"details for a store":            {set("x", "spec", "publishConnectionDetailsTo", "name"), true, false},
		"a Secret in another namespace":  {set("x", "spec", "writeConnectionSecretToRef", "namespace"), true, false},
		"a configuration of no kind":     {set(map[string]any{"name": "default"}, "spec", "providerConfigRef"), true, false},
		"a configuration of a kind":      {set("ProviderConfig", "spec", "providerConfigRef", "kind"), false, true},
		"what another namespace has":     {set("x", "spec", "forProvider", "networkSelector", "namespace"), false, true},
		"what another has by its name":   {set(map[string]any{"name": "x", "namespace": "x"}, "spec", "forProvider", "subnetworkRef"), false, true},
		"what another has, further down": {set(map[string]any{"namespace": "x"}, "spec", "forProvider", "nodeConfig", "serviceAccountSelector"), false, true},
		"a field that there is not":      {set("x", "spec", "forProvider", "zone"), false, false},
	}
	each(t, func(t *testing.T, v variant) {
		provider := v.provider(t)
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				got, err := render(v.input(t), v.composite(false), nil)
				if err != nil {
					t.Fatal(err)
				}
				cluster := v.complete(got.composed["cluster"])
				if err := test.change(cluster); err != nil {
					t.Fatal(err)
				}
				want := test.claim
				if v.namespaced {
					want = test.composite
				}
				if err := provider.Validate(cluster); (err == nil) != want {
					t.Errorf("it is taken: %t (%v)", err == nil, err)
				}
			})
		}
	})
}

// TestStatus: what is observed of the cluster is what the manager reads.
func TestStatus(t *testing.T) {
	each(t, func(t *testing.T, v variant) {
		first, err := render(v.input(t), v.composite(false), nil)
		if err != nil {
			t.Fatal(err)
		}
		cluster := v.complete(first.composed["cluster"])
		if err := unstructured.SetNestedField(cluster.Object, "203.0.113.10", "status", "atProvider", "endpoint"); err != nil {
			t.Fatal(err)
		}
		if err := v.gcp(t).Validate(cluster); err != nil {
			t.Fatal(err)
		}
		got, err := render(v.input(t), v.composite(false), map[string]*unstructured.Unstructured{"cluster": cluster})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]any{"endpoint": "203.0.113.10", "clusterName": cluster.GetAnnotations()[externalName]}
		if diff := cmp.Diff(want, got.status); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
		xr := v.composite(false)
		xr.Object["status"] = got.status
		if got := crossplane.ReadClaim(xr).Endpoint; got != "https://203.0.113.10" {
			t.Errorf("the manager reads %q", got)
		}
	})
}

// A zone that has no region is refused instead of composed by halves.
func TestRenderWithoutRegion(t *testing.T) {
	each(t, func(t *testing.T, v variant) {
		xr := v.composite(false)
		if err := unstructured.SetNestedField(xr.Object, "europe-west4", "spec", "zone"); err != nil {
			t.Fatal(err)
		}
		got, err := render(v.input(t), xr, nil)
		if err == nil || got.composed["subnetwork"] != nil {
			t.Errorf("subnetwork is %v (%v)", got.composed["subnetwork"], err)
		}
	})
}

// TestProviderConfig: it is not applied with the rest, and its project is one to fill in.
func TestProviderConfig(t *testing.T) {
	each(t, func(t *testing.T, v variant) {
		all := documents(t, filepath.Join(root, "config/crossplane", v.dir, "providerconfig.yaml"))
		if len(all) != 1 {
			t.Fatalf("there are %d objects", len(all))
		}
		if got := all[0].GroupVersionKind().Group; got != v.api {
			t.Errorf("it is of %s, the resources are of %s", got, v.api)
		}
		if err := v.provider(t).Validate(all[0]); err != nil {
			t.Error(err)
		}
		if project, _, _ := unstructured.NestedString(all[0].Object, "spec", "projectID"); project != "PROJECT_ID" {
			t.Errorf("its project is %q", project)
		}
		rendered, err := render(v.input(t), v.composite(false), nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, u := range rendered.composed {
			want := map[string]any{"name": all[0].GetName()}
			if v.namespaced {
				want["kind"] = all[0].GetKind()
			}
			got, _, _ := unstructured.NestedMap(u.Object, "spec", "providerConfigRef")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("providerConfigRef of %s (-want +got):\n%s", name, diff)
			}
		}
	})
}

// TestKubeconfig: the kubeconfig that the provider makes of a cluster without a client certificate is
// taken with --keyless-gke, and without it refused by a reason that says what is missing.
func TestKubeconfig(t *testing.T) {
	const name = "illm-x"
	kubeconfig, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: "https://203.0.113.10", CertificateAuthorityData: []byte("ca")}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {ClientCertificateData: []byte{}, ClientKeyData: []byte{}}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
	if err != nil {
		t.Fatal(err)
	}
	credentials, err := argocd.ParseKubeconfig(kubeconfig, argocd.KeylessGCP)
	if err != nil || credentials.Server != "https://203.0.113.10" {
		t.Errorf("with --keyless-gke: %q (%v)", credentials.Server, err)
	}
	_, err = argocd.ParseKubeconfig(kubeconfig, argocd.Trusted)
	if want := "no token, no client certificate"; !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("without: %v, want %q", err, want)
	}
}
