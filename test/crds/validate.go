package crds

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// InvalidError lists what is wrong with an object.
type InvalidError struct {
	GVK       schema.GroupVersionKind
	Namespace string
	Name      string
	// Errors has at least one entry and is sorted by path. An unknown field is of type
	// field.ErrorTypeForbidden with the detail UnknownField; a Go value that JSON does not
	// know is of type field.ErrorTypeTypeInvalid.
	Errors field.ErrorList
}

// UnknownField is the detail of an error about a field that the schema does not have.
const UnknownField = "unknown field"

// Error returns "validating Application argocd/x: spec.foo: Forbidden: unknown field".
func (e *InvalidError) Error() string {
	name := e.Name
	if e.Namespace != "" {
		name = e.Namespace + "/" + name
	}
	return fmt.Sprintf("validating %s %s: %v", e.GVK.Kind, name, e.Errors.ToAggregate())
}

// Validate checks an object, which it does not change, as an API server does on create with
// strict field validation:
//
//   - no field is unknown, at any depth; what a schema preserves (as
//     x-kubernetes-preserve-unknown-fields) is exempt, metadata is not, be it that of the object
//     or of an embedded one;
//   - metadata is valid: name, namespace as the scope demands, labels, annotations, owners;
//   - with defaults filled in, the content satisfies the schema, its list types and its CEL
//     rules; transition rules have no old object to look at and pass.
//
// It differs in three ways. Content must survive a deep copy: a Go int, a []string or a
// map[string]string panics there, and is reported by its path before anything else is looked
// at. A null that the schema does not allow is an error: a server drops it silently. Status is
// checked like the rest: a server ignores it on create.
//
// The error is an *InvalidError, wraps [ErrNoSchema], or says why a schema cannot be used.
func (s *Schemas) Validate(u *unstructured.Unstructured) error {
	invalid := &InvalidError{}
	if invalid.Errors = foreignValues(nil, u.Object); len(invalid.Errors) == 0 {
		gvk := u.GroupVersionKind()
		v, c, err := s.lookup(gvk)
		if err != nil {
			return err
		}
		invalid.Errors = v.validate(c, u)
	}
	if len(invalid.Errors) == 0 {
		return nil
	}
	invalid.GVK, invalid.Namespace, invalid.Name = u.GroupVersionKind(), u.GetNamespace(), u.GetName()
	slices.SortStableFunc(invalid.Errors, func(a, b *field.Error) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Error(), b.Error()))
	})
	// Both checks of metadata find a malformed one.
	invalid.Errors = slices.CompactFunc(invalid.Errors, func(a, b *field.Error) bool { return a.Error() == b.Error() })
	return invalid
}

func (v *version) validate(c *compiled, u *unstructured.Unstructured) field.ErrorList {
	ctx := context.Background()
	errs := unknownFields(c.structural, u)

	defaulted := u.DeepCopy().Object
	defaulting.Default(defaulted, c.structural)
	errs = append(errs, v.validateMetadata(u)...)
	errs = append(errs, validation.ValidateCustomResource(nil, defaulted, c.validator)...)
	errs = append(errs, objectmeta.Validate(ctx, nil, defaulted, c.structural, false)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, c.structural, defaulted)...)
	// Rules assume a content of the right types.
	if len(errs) == 0 && c.rules != nil {
		broken, _ := c.rules.Validate(ctx, nil, c.structural, defaulted, nil, celconfig.RuntimeCELCostBudget)
		errs = append(errs, broken...)
	}
	return errs
}

// unknownFields returns one error per field that is in no schema.
func unknownFields(s *structuralschema.Structural, u *unstructured.Unstructured) field.ErrorList {
	var errs field.ErrorList
	// Both functions change their argument.
	malformed, paths := objectmeta.CoerceWithOptions(nil, u.DeepCopy().Object, s, true,
		objectmeta.CoerceOptions{ReturnUnknownFieldPaths: true})
	if malformed != nil {
		errs = append(errs, malformed)
	}
	paths = append(paths, pruning.PruneWithOptions(u.DeepCopy().Object, s, true,
		structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})...)
	for _, path := range paths {
		errs = append(errs, field.Forbidden(field.NewPath(path), UnknownField))
	}
	return errs
}

// validateMetadata checks the metadata of the object itself.
func (v *version) validateMetadata(u *unstructured.Unstructured) field.ErrorList {
	meta, found, err := objectmeta.GetObjectMeta(u.Object, false)
	path := field.NewPath("metadata")
	switch {
	case err != nil:
		return nil // reported with the unknown fields
	case !found || meta == nil:
		return field.ErrorList{field.Required(path, "")}
	}
	return metavalidation.ValidateObjectMetaAccessor(meta, v.namespaced, metavalidation.NameIsDNSSubdomain, path)
}

// foreignValues returns one error per value that is none of JSON as unstructured content holds
// it: map[string]any, []any, string, int64, float64, bool, nil.
func foreignValues(path *field.Path, value any) field.ErrorList {
	var errs field.ErrorList
	switch value := value.(type) {
	case map[string]any:
		for key, v := range value {
			errs = append(errs, foreignValues(path.Child(key), v)...)
		}
	case []any:
		for i, v := range value {
			errs = append(errs, foreignValues(path.Index(i), v)...)
		}
	case float64:
		if math.IsNaN(value) || math.IsInf(value, 0) {
			errs = append(errs, field.TypeInvalid(path, fmt.Sprint(value), "is not a JSON number"))
		}
	case string, int64, bool, nil, json.Number:
	default:
		errs = append(errs, field.TypeInvalid(path, fmt.Sprint(value),
			fmt.Sprintf("is a Go %T, which unstructured content cannot hold", value)))
	}
	return errs
}
