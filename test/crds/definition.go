package crds

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// ErrNoSchema is the cause of an error about a kind or version that no loaded definition serves.
var ErrNoSchema = errors.New("no definition serves it")

// definition is one CustomResourceDefinition, parsed when it is first needed.
type definition struct {
	source   string // file
	kind     schema.GroupKind
	parse    func() (*apiextensionsv1.CustomResourceDefinition, error)
	versions func() (map[string]*version, error) // served ones by name
}

// version is one served version of a definition, compiled when it is first needed.
type version struct {
	namespaced bool
	compile    func() (*compiled, error)
}

// compiled is everything that it takes to check an object.
type compiled struct {
	structural *structuralschema.Structural
	validator  validation.SchemaValidator
	rules      *cel.Validator // nil without x-kubernetes-validations
}

func newDefinition(source string, kind schema.GroupKind, document []byte) *definition {
	d := &definition{source: source, kind: kind}
	d.parse = sync.OnceValues(func() (*apiextensionsv1.CustomResourceDefinition, error) {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(document, crd); err != nil {
			return nil, fmt.Errorf("parsing definition of %s: %w", kind, err)
		}
		return crd, nil
	})
	d.versions = sync.OnceValues(func() (map[string]*version, error) {
		crd, err := d.parse()
		if err != nil {
			return nil, err
		}
		served := map[string]*version{}
		for _, v := range crd.Spec.Versions {
			if !v.Served {
				continue
			}
			served[v.Name] = &version{
				namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
				compile:    sync.OnceValues(func() (*compiled, error) { return compile(v.Schema) }),
			}
		}
		return served, nil
	})
	return d
}

// compile refuses what an API server would refuse to serve.
func compile(s *apiextensionsv1.CustomResourceValidation) (*compiled, error) {
	if s == nil || s.OpenAPIV3Schema == nil {
		return nil, errors.New("compiling schema: there is none")
	}
	props := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(s.OpenAPIV3Schema, props, nil); err != nil {
		return nil, fmt.Errorf("converting schema: %w", err)
	}
	structural, err := structuralschema.NewStructural(props)
	if err != nil {
		return nil, fmt.Errorf("converting schema to a structural one: %w", err)
	}
	if errs := structuralschema.ValidateStructural(nil, structural); len(errs) > 0 {
		return nil, fmt.Errorf("converting schema to a structural one: %w", errs.ToAggregate())
	}
	validator, _, err := validation.NewSchemaValidator(props)
	if err != nil {
		return nil, fmt.Errorf("compiling schema: %w", err)
	}
	return &compiled{
		structural: structural,
		validator:  validator,
		rules:      cel.NewValidator(structural, true, celconfig.PerCallLimit),
	}, nil
}

// lookup returns the version of a kind.
func (s *Schemas) lookup(gvk schema.GroupVersionKind) (*version, *compiled, error) {
	d, ok := s.kinds[gvk.GroupKind()]
	if !ok {
		return nil, nil, fmt.Errorf("finding schema of %s: %w", gvk, ErrNoSchema)
	}
	versions, err := d.versions()
	if err != nil {
		return nil, nil, fmt.Errorf("finding schema of %s in %s: %w", gvk, d.source, err)
	}
	v, ok := versions[gvk.Version]
	if !ok {
		served := strings.Join(slices.Sorted(maps.Keys(versions)), ", ")
		return nil, nil, fmt.Errorf("finding schema of %s in %s, which serves %s: %w", gvk, d.source, served, ErrNoSchema)
	}
	c, err := v.compile()
	if err != nil {
		return nil, nil, fmt.Errorf("finding schema of %s in %s: %w", gvk, d.source, err)
	}
	return v, c, nil
}
