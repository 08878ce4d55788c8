package crossplane

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// resources is the input of function-patch-and-transform, as far as it is in use.
type resources struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	PatchSets  []patchSet `json:"patchSets"`
	Resources  []template `json:"resources"`
}

type patchSet struct {
	Name    string  `json:"name"`
	Patches []patch `json:"patches"`
}

type template struct {
	Name              string         `json:"name"`
	Base              map[string]any `json:"base"`
	Patches           []patch        `json:"patches"`
	ConnectionDetails []struct {
		Name                    string `json:"name"`
		Type                    string `json:"type"`
		FromConnectionSecretKey string `json:"fromConnectionSecretKey"`
	} `json:"connectionDetails"`
}

type patch struct {
	Type          string `json:"type"`
	PatchSetName  string `json:"patchSetName"`
	FromFieldPath string `json:"fromFieldPath"`
	ToFieldPath   string `json:"toFieldPath"`
	Policy        struct {
		FromFieldPath string `json:"fromFieldPath"`
	} `json:"policy"`
	Combine struct {
		Strategy  string `json:"strategy"`
		Variables []struct {
			FromFieldPath string `json:"fromFieldPath"`
		} `json:"variables"`
		String struct {
			Fmt string `json:"fmt"`
		} `json:"string"`
	} `json:"combine"`
	Transforms []struct {
		Type   string `json:"type"`
		String struct {
			Type   string `json:"type"`
			Fmt    string `json:"fmt"`
			Regexp struct {
				Match string `json:"match"`
				Group int    `json:"group"`
			} `json:"regexp"`
		} `json:"string"`
	} `json:"transforms"`
}

// rendered is what one run of the Function desires.
type rendered struct {
	composed map[string]*unstructured.Unstructured
	status   map[string]any // of the composite
}

// render runs the first step of a composition's pipeline, with what was observed of the composed
// resources by the names of their templates. An error is a field that is not supported here, or a
// template that was not rendered because of a Required patch.
func render(input map[string]any, composite *unstructured.Unstructured, observed map[string]*unstructured.Unstructured) (rendered, error) {
	text, err := yaml.Marshal(input)
	if err != nil {
		return rendered{}, err
	}
	in := resources{}
	if err := yaml.UnmarshalStrict(text, &in); err != nil {
		return rendered{}, err
	}
	sets := map[string][]patch{}
	for _, set := range in.PatchSets {
		sets[set.Name] = set.Patches
	}
	out := rendered{composed: map[string]*unstructured.Unstructured{}}
	xr := &unstructured.Unstructured{Object: map[string]any{}}
	var errs []error
	for _, t := range in.Resources {
		base := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(t.Base)}
		missing := error(nil)
		for _, p := range expand(t.Patches, sets) {
			from, to := composite, base
			if p.Type == "ToCompositeFieldPath" {
				from, to = observed[t.Name], xr
			}
			if from == nil {
				continue
			}
			if err := p.apply(from, to); err != nil {
				missing = errors.Join(missing, fmt.Errorf("%s: %w", t.Name, err))
			}
		}
		if missing != nil {
			errs = append(errs, missing)
			continue
		}
		out.composed[t.Name] = base
	}
	out.status, _, _ = unstructured.NestedMap(xr.Object, "status")
	return out, errors.Join(errs...)
}

func expand(patches []patch, sets map[string][]patch) []patch {
	var all []patch
	for _, p := range patches {
		if p.Type == "PatchSet" {
			all = append(all, sets[p.PatchSetName]...)
			continue
		}
		all = append(all, p)
	}
	return all
}

func (p patch) apply(from, to *unstructured.Unstructured) error {
	value, found, err := p.value(from)
	switch {
	case err != nil:
		return err
	case !found && p.Policy.FromFieldPath == "Required":
		return fmt.Errorf("%s is required", p.FromFieldPath)
	case !found:
		return nil
	}
	for _, t := range p.Transforms {
		switch {
		case t.Type == "string" && t.String.Type == "Format":
			value = fmt.Sprintf(t.String.Fmt, value)
		case t.Type == "string" && t.String.Type == "Regexp":
			groups := regexp.MustCompile(t.String.Regexp.Match).FindStringSubmatch(fmt.Sprint(value))
			if len(groups) <= t.String.Regexp.Group {
				return fmt.Errorf("%v does not match %s", value, t.String.Regexp.Match)
			}
			value = groups[t.String.Regexp.Group]
		default:
			return fmt.Errorf("transform %q %q is not supported here", t.Type, t.String.Type)
		}
	}
	return unstructured.SetNestedField(to.Object, value, segments(p.ToFieldPath)...)
}

// value is what the patch takes; not found if any of it is missing.
func (p patch) value(from *unstructured.Unstructured) (any, bool, error) {
	switch p.Type {
	case "FromCompositeFieldPath", "ToCompositeFieldPath":
		return unstructured.NestedFieldCopy(from.Object, segments(p.FromFieldPath)...)
	case "CombineFromComposite":
		if p.Combine.Strategy != "string" {
			return nil, false, fmt.Errorf("strategy %q is not supported here", p.Combine.Strategy)
		}
		var all []any
		for _, variable := range p.Combine.Variables {
			value, found, err := unstructured.NestedFieldCopy(from.Object, segments(variable.FromFieldPath)...)
			if err != nil || !found {
				return nil, false, err
			}
			all = append(all, value)
		}
		return fmt.Sprintf(p.Combine.String.Fmt, all...), true, nil
	}
	return nil, false, fmt.Errorf("patch type %q is not supported here", p.Type)
}

var segment = regexp.MustCompile(`\[[^\]]*\]|[^.\[]+`)

// segments splits a field path such as metadata.annotations[crossplane.io/external-name].
func segments(path string) []string {
	found := segment.FindAllString(path, -1)
	for i := range found {
		found[i] = strings.Trim(found[i], "[]")
	}
	return found
}
