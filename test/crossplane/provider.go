package crossplane

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// Provider is provider-gcp, as far as config/crossplane uses it: its cluster-scoped resources, which claims come to, or the namespaced
// ones of its version 2.
type Provider struct{ Namespaced bool }

// used are the resources in use, with the versions of the cluster-scoped ones.
var used = []schema.GroupVersionKind{
	{Group: "compute.gcp.upbound.io", Version: "v1beta1", Kind: "Network"},
	{Group: "compute.gcp.upbound.io", Version: "v1beta2", Kind: "Subnetwork"},
	{Group: "container.gcp.upbound.io", Version: "v1beta2", Kind: "Cluster"},
	{Group: "container.gcp.upbound.io", Version: "v1beta2", Kind: "NodePool"},
}

// config is what they are made with.
var config = schema.GroupVersionKind{Group: "gcp.upbound.io", Version: "v1beta1", Kind: "ProviderConfig"}

// Kinds are those of what the composition makes.
func (p Provider) Kinds() []schema.GroupVersionKind {
	all := make([]schema.GroupVersionKind, 0, len(used))
	for _, gvk := range used {
		if p.Namespaced {
			gvk.Group, gvk.Version = namespacedGroup(gvk.Group), "v1beta1"
		}
		all = append(all, gvk)
	}
	return all
}

// Config is the kind of what says the project.
func (p Provider) Config() schema.GroupVersionKind {
	gvk := config
	if p.Namespaced {
		gvk.Group, gvk.Kind = namespacedGroup(gvk.Group), "Cluster"+gvk.Kind
	}
	return gvk
}

// Definitions are the CRDs of all of these, below the root of the repository, each with the one version that is in use: the provider
// serves the conversion of one to another, and there is no provider. Those of version 2 are made of the others', see [namespaced].
func (p Provider) Definitions(root string) ([]*unstructured.Unstructured, error) {
	all := make([]*unstructured.Unstructured, 0, len(used)+1)
	for _, gvk := range append([]schema.GroupVersionKind{config}, used...) {
		crd, err := definitionOf(root, gvk)
		if err != nil {
			return nil, err
		}
		if p.Namespaced && gvk == config {
			clusterConfig(crd)
		} else if p.Namespaced {
			namespaced(crd)
		}
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
		if err != nil {
			return nil, err
		}
		delete(object, "status")
		all = append(all, &unstructured.Unstructured{Object: object})
	}
	return all, nil
}

// definitionOf reads a CRD of the provider's module.
func definitionOf(root string, gvk schema.GroupVersionKind) (*apiextensionsv1.CustomResourceDefinition, error) {
	folder := "provider-gcp"
	if service := strings.TrimSuffix(gvk.Group, config.Group); service != "" {
		folder += "-" + strings.TrimSuffix(service, ".")
	}
	path := filepath.Join(root, "bin/crds-whole", folder, gvk.Group+"_"+strings.ToLower(gvk.Kind)+"s.yaml")
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w (make k8s copies it)", err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(content, crd); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	for _, version := range crd.Spec.Versions {
		if version.Name == gvk.Version {
			version.Storage = true
			crd.Spec.Versions, crd.Spec.Conversion = []apiextensionsv1.CustomResourceDefinitionVersion{version}, nil
			return crd, nil
		}
	}
	return nil, fmt.Errorf("%s has no version %s", path, gvk.Version)
}

func namespacedGroup(group string) string {
	return strings.Replace(group, "gcp.", "gcp.m.", 1)
}

// clusterConfig makes a ClusterProviderConfig of version 2 of a ProviderConfig.
func clusterConfig(crd *apiextensionsv1.CustomResourceDefinition) {
	gvk := Provider{Namespaced: true}.Config()
	crd.Spec.Group = gvk.Group
	crd.Spec.Names.Kind, crd.Spec.Names.ListKind = gvk.Kind, gvk.Kind+"List"
	crd.Spec.Names.Singular = strings.ToLower(gvk.Kind)
	crd.Spec.Names.Plural = crd.Spec.Names.Singular + "s"
	crd.Name = crd.Spec.Names.Plural + "." + crd.Spec.Group
}

// namespaced makes the definition of a namespaced resource of version 2 of that of a cluster-scoped one. Version 2 of the provider cannot
// be had as a Go module. The provider generates both of one and the same schema; what of a namespaced resource is not as of the other is
// what version 2 of crossplane-runtime has of every namespaced resource, in every CRD alike: it is in a namespace, and so are its
// connection Secret and what it refers to, unless a reference says another; it says the kind of its provider's configuration; and it
// has neither a deletionPolicy nor publishConnectionDetailsTo.
func namespaced(crd *apiextensionsv1.CustomResourceDefinition) {
	crd.Spec.Group, crd.Spec.Scope = namespacedGroup(crd.Spec.Group), apiextensionsv1.NamespaceScoped
	crd.Name = crd.Spec.Names.Plural + "." + crd.Spec.Group
	crd.Spec.Versions[0].Name = "v1beta1"

	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	object := func(names ...string) apiextensionsv1.JSONSchemaProps {
		o := apiextensionsv1.JSONSchemaProps{Type: "object", Required: names, Properties: map[string]apiextensionsv1.JSONSchemaProps{}}
		for _, name := range names {
			o.Properties[name] = text
		}
		return o
	}
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	delete(spec.Properties, "deletionPolicy")
	delete(spec.Properties, "publishConnectionDetailsTo")
	configRef := object("kind", "name")
	configRef.Default = &apiextensionsv1.JSON{Raw: []byte(`{"kind":"ClusterProviderConfig","name":"default"}`)}
	spec.Properties["providerConfigRef"] = configRef
	spec.Properties["writeConnectionSecretToRef"] = object("name")
	for _, name := range []string{"forProvider", "initProvider"} {
		referring(spec.Properties[name], text)
	}
}

// referring lets references and selectors, however deep they are, name a namespace.
func referring(s apiextensionsv1.JSONSchemaProps, namespace apiextensionsv1.JSONSchemaProps) {
	for name, property := range s.Properties {
		if strings.HasSuffix(name, "Ref") || strings.HasSuffix(name, "Selector") {
			if _, found := property.Properties["policy"]; found {
				property.Properties["namespace"] = namespace
			}
			continue
		}
		referring(property, namespace)
	}
	if s.Items != nil && s.Items.Schema != nil {
		referring(*s.Items.Schema, namespace)
	}
}
