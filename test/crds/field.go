package crds

import (
	"errors"
	"fmt"
	"strings"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// ErrNoField is the cause of an error about a path that the schema does not have.
	ErrNoField = errors.New("no such field")

	// ErrNotProven is the cause of an error about a path into something that the schema
	// leaves open. The field may exist, but this check cannot tell.
	ErrNotProven = errors.New("the schema leaves it open")
)

// Element is the segment of a path that steps into the elements of an array.
const Element = "[]"

// HasField returns nil if an object of the kind can have the field at path, given as one
// segment per step: a property by its name, any key of a map by any name ("*" by convention),
// the elements of an array by "[]" ([Element]). For example
//
//	HasField(application, "status", "resources", "[]", "health", "status")
//
// The error wraps [ErrNoField], [ErrNotProven] or [ErrNoSchema]. Paths into metadata are
// refused with ErrNotProven: a definition does not describe it; read it with the accessors.
func (s *Schemas) HasField(gvk schema.GroupVersionKind, path ...string) error {
	_, err := s.FieldType(gvk, path...)
	return err
}

// FieldType returns the type of the field at path: "object", "array", "string", "integer",
// "number", "boolean", or "int-or-string"; "" if the schema leaves it open. Path and errors are
// those of [Schemas.HasField].
func (s *Schemas) FieldType(gvk schema.GroupVersionKind, path ...string) (string, error) {
	_, c, err := s.lookup(gvk)
	if err != nil {
		return "", err
	}
	node, isResource := c.structural, true
	for i, segment := range path {
		next, err := step(node, isResource, segment)
		if err != nil {
			return "", fmt.Errorf("finding field %s of %s: %w", strings.Join(path[:i+1], "."), gvk.Kind, err)
		}
		if segment == "metadata" && isResource && i+1 < len(path) {
			return "", fmt.Errorf("finding field %s of %s: %w", strings.Join(path, "."), gvk.Kind, ErrNotProven)
		}
		node, isResource = next, next.XEmbeddedResource
	}
	if node.XIntOrString {
		return "int-or-string", nil
	}
	return node.Type, nil
}

// step returns the schema one segment further down.
func step(node *structuralschema.Structural, isResource bool, segment string) (*structuralschema.Structural, error) {
	if segment == Element {
		switch {
		case node.Items != nil:
			return node.Items, nil
		case node.XPreserveUnknownFields:
			return nil, ErrNotProven
		}
		return nil, ErrNoField
	}
	if next, ok := node.Properties[segment]; ok {
		return &next, nil
	}
	switch {
	case isResource && (segment == "apiVersion" || segment == "kind"):
		return &structuralschema.Structural{Generic: structuralschema.Generic{Type: "string"}}, nil
	case isResource && segment == "metadata":
		return &structuralschema.Structural{Generic: structuralschema.Generic{Type: "object"}}, nil
	case node.AdditionalProperties != nil && node.AdditionalProperties.Structural != nil:
		return node.AdditionalProperties.Structural, nil
	case node.XPreserveUnknownFields, node.AdditionalProperties != nil && node.AdditionalProperties.Bool:
		return nil, ErrNotProven
	}
	return nil, ErrNoField
}
