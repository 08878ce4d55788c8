package executor

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
)

// Decode reads parameters into a struct, strictly: a key that it does not have, or that stands twice, is an error; of
// several, always the same. No parameters are an empty object. Errors: *InvalidError.
func Decode(parameters json.RawMessage, into any) error {
	raw := bytes.TrimSpace(parameters)
	if len(raw) == 0 || string(raw) == "null" {
		raw = []byte("{}")
	}
	if raw[0] != '{' {
		return &InvalidError{Problem: "must be an object"}
	}
	strict, err := kjson.UnmarshalStrict(raw, into)
	if err != nil {
		return misfit(err)
	}
	var found []*InvalidError
	for _, e := range strict {
		invalid := &InvalidError{Problem: e.Error()}
		if field, ok := errors.AsType[kjson.FieldError](e); ok {
			problem, _, _ := strings.Cut(e.Error(), ` "`)
			invalid = &InvalidError{Path: field.FieldPath(), Problem: problem + "; correct or remove it"}
		}
		found = append(found, invalid)
	}
	if len(found) == 0 {
		return nil
	}
	return slices.MinFunc(found, func(a, b *InvalidError) int { return strings.Compare(a.Error(), b.Error()) })
}

// misfit is what does not fit its type. It does not say the value.
func misfit(err error) *InvalidError {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return &InvalidError{Path: wrong.Field, Problem: "must be " + word(wrong.Type.Kind())}
	}
	return &InvalidError{Problem: err.Error()}
}

// word is what JSON has for a type.
func word(kind reflect.Kind) string {
	switch kind {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "a whole number"
}

// AwaitCompletion is the parameter by which a target waits until its resources have settled.
type AwaitCompletion struct {
	// Enabled is true unless it is said.
	Enabled *bool `json:"enabled"`
	// Timeout is a duration as Go writes them, for instance 5m.
	Timeout *string `json:"timeout"`
}

// For is how long to wait, by default as long as is said here; 0 is not at all. Errors: *InvalidError.
func (a *AwaitCompletion) For(usual time.Duration) (time.Duration, error) {
	if a == nil {
		return usual, nil
	}
	if a.Timeout != nil {
		d, err := time.ParseDuration(*a.Timeout)
		if err != nil || d <= 0 {
			return 0, &InvalidError{Path: "awaitCompletion.timeout", Problem: "must be a duration of more than nothing, for instance 5m"}
		}
		usual = d
	}
	if a.Enabled != nil && !*a.Enabled {
		return 0, nil
	}
	return usual, nil
}

// Selector is a selector by labels as lists take it; empty, for nil too, is everything. Errors: *InvalidError.
func Selector(path string, selector *metav1.LabelSelector) (string, error) {
	if selector == nil {
		return "", nil
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return "", &InvalidError{Path: path, Problem: err.Error()}
	}
	return parsed.String(), nil
}
