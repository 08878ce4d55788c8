// Package merge lays an override over the spec of a workload. It is pure: what it is given is neither changed
// nor shared with what it returns, so objects of a cache can be merged as they are.
//
// Values are what JSON decodes to with whole numbers kept (Decode): map[string]any, []any, string, int64,
// float64, bool and nil. Anything else panics, as runtime.DeepCopyJSON does.
package merge

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"dario.cat/mergo"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/json"
)

// ErrNotObject says that an override is JSON, but no object.
var ErrNotObject = errors.New("it must be an object")

// Decode reads an override. Errors: ErrNotObject for any other JSON value, null among them; else what is wrong
// with the JSON, fields that are there twice included, by their paths.
func Decode(raw []byte) (map[string]any, error) {
	var value any
	strict, err := json.UnmarshalStrict(raw, &value)
	if err := errors.Join(append(strict, err)...); err != nil {
		return nil, fmt.Errorf("decoding: %w", err)
	}
	object, ok := value.(map[string]any)
	if !ok || object == nil {
		return nil, ErrNotObject
	}
	return object, nil
}

// Replace merges as RFC 7386 does: objects merge, anything else replaces what was there, lists as a whole; null
// deletes. A null in a list is an element like others.
func Replace(base, override map[string]any) (map[string]any, error) {
	merged, over := runtime.DeepCopyJSON(base), runtime.DeepCopyJSON(override)
	if merged == nil {
		merged = map[string]any{}
	}
	makeWay(merged, over)
	if err := mergo.Merge(&merged, over, mergo.WithOverride); err != nil {
		return nil, fmt.Errorf("merging: %w", err)
	}
	return merged, nil
}

// makeWay takes out of merged what over deletes or replaces, and the nulls out of over: mergo would keep them, and
// merges no types but objects as they are wanted.
func makeWay(merged, over map[string]any) {
	for key, value := range over {
		object, _ := value.(map[string]any)
		below, _ := merged[key].(map[string]any)
		switch {
		case value == nil:
			delete(over, key)
			delete(merged, key)
		case object != nil && below != nil:
			makeWay(below, object)
		default:
			delete(merged, key)
			makeWay(nil, object)
		}
	}
}

// Lists says by which keys the lists of a spec are merged.
type Lists struct {
	meta strategicpatch.LookupPatchMeta
	// field is the only one that meta is of; empty if it is of the whole.
	field string
}

// The lists of the specs of workloads. A Rollout's are those of its template, which is all that is known of it.
var (
	DeploymentLists  = Lists{meta: metaOf(appsv1.DeploymentSpec{})}
	StatefulSetLists = Lists{meta: metaOf(appsv1.StatefulSetSpec{})}
	RolloutLists     = Lists{meta: metaOf(corev1.PodTemplateSpec{}), field: "template"}
)

// metaOf reads the patch strategies off the tags of a type.
func metaOf(spec any) strategicpatch.LookupPatchMeta {
	meta, err := strategicpatch.NewPatchMetaFromStruct(spec)
	if err != nil {
		panic(err) // no struct, which only a programmer can do
	}
	return meta
}

// Strategic merges as kubectl patch does by default: lists that have keys (containers, env, ports, volumes) merge
// by them, so that one container's image can be changed without naming the others; other lists replace; null
// deletes, and so does {"$patch": "delete"} an element. No object of the result has a null, but for what a Rollout has
// beside its template, which merges as Replace does. Errors name the path, and no value: it may be a secret.
func Strategic(base, override map[string]any, lists Lists) (map[string]any, error) {
	if lists.field == "" {
		return strategic(base, override, lists)
	}
	template, _ := base[lists.field].(map[string]any)
	patch, ok := override[lists.field].(map[string]any)
	if !ok || template == nil {
		return Replace(base, override)
	}
	merged, err := strategic(template, patch, lists)
	if err != nil {
		return nil, err
	}
	rest := maps.Clone(override)
	delete(rest, lists.field)
	all, err := Replace(base, rest)
	if err != nil {
		return nil, err
	}
	all[lists.field] = merged
	return all, nil
}

func strategic(base, patch map[string]any, lists Lists) (map[string]any, error) {
	if path := undecided(patch, lists.field); path != "" {
		return nil, fmt.Errorf("merging by keys: %s and its $deleteFromPrimitiveList exclude each other; remove one of the two", path)
	}
	merged, err := recovered(func() (strategicpatch.JSONMap, error) {
		return strategicpatch.StrategicMergeMapPatchUsingLookupPatchMeta(runtime.DeepCopyJSON(base), runtime.DeepCopyJSON(patch), lists.meta)
	})
	if err != nil {
		// The error may quote values, which may be secrets.
		return nil, fmt.Errorf("merging by keys: %s", cmp.Or(misfit(patch, lists.meta, lists.field), "it is no strategic merge patch of this kind"))
	}
	dropNulls(map[string]any(merged))
	return merged, nil
}

// Ambiguous is the path of the first element of an override that Strategic merges, as kubectl does, with what it may
// not be meant for, and what comes of that: of several elements that the base has of its key the first alone is
// changed (of variables that one has no effect), two of the override become one, and so do ports of one number and two
// protocols. Both are empty if there is none.
func Ambiguous(base, override map[string]any, lists Lists) (path, what string) {
	if lists.field != "" {
		base, _ = base[lists.field].(map[string]any)
		override, _ = override[lists.field].(map[string]any)
	}
	return ambiguous(base, override, lists.meta, lists.field)
}

func ambiguous(base, patch map[string]any, meta strategicpatch.LookupPatchMeta, path string) (at, what string) {
	for _, name := range slices.Sorted(maps.Keys(patch)) {
		below := strings.TrimPrefix(path+"."+name, ".")
		switch value := patch[name].(type) {
		case map[string]any:
			of, _ := base[name].(map[string]any)
			if meta, _, err := meta.LookupPatchMetadataForStruct(name); err == nil && value["$patch"] == nil {
				at, what = ambiguous(of, value, meta, below)
			}
		case []any:
			of, merges := base[name].([]any) // what the base does not have at all is taken as it is
			meta, list, err := meta.LookupPatchMetadataForSlice(name)
			if merges && err == nil && slices.Contains(list.GetPatchStrategies(), "merge") && list.GetPatchMergeKey() != "" {
				at, what = ambiguousIn(of, value, meta, below, list.GetPatchMergeKey())
			}
		}
		if at != "" {
			return at, what
		}
	}
	return "", ""
}

// ambiguousIn does so for the elements of a list. One that is deleted goes with all of its key.
func ambiguousIn(base, list []any, meta strategicpatch.LookupPatchMeta, path, key string) (at, what string) {
	replaces := func(element any) bool {
		object, _ := element.(map[string]any)
		return object["$patch"] == "replace"
	}
	if slices.ContainsFunc(list, replaces) {
		return "", "" // nothing of the base stays
	}
	theirs, seen := byKey(base, key), map[string]bool{}
	for _, element := range list {
		if object, _ := element.(map[string]any); object["$patch"] == "delete" {
			delete(theirs, fmt.Sprint(object[key])) // before anything is merged
		}
	}
	for i, element := range list {
		object, _ := element.(map[string]any)
		if object["$patch"] != nil || object[key] == nil {
			continue
		}
		at, value := fmt.Sprintf("%s[%d]", path, i), fmt.Sprint(object[key])
		same := theirs[value]
		switch {
		case seen[value]:
			return at, "becomes one with the element of the override before it that has its " + key
		case len(same) > 1:
			return at, "changes the first alone of several elements that the source has of its " + key + ": of variables the last counts"
		case len(same) == 1 && key == "containerPort" && protocolOf(same[0]) != protocolOf(object):
			return at, fmt.Sprintf("becomes one with the source's port %s, whose protocol is %s and not %s (name that if the port is meant)",
				value, protocolOf(same[0]), protocolOf(object))
		case len(same) == 1:
			if found, what := ambiguous(same[0], object, meta, at); found != "" {
				return found, what
			}
		}
		seen[value] = true
	}
	return "", ""
}

// byKey are the elements of a list that are objects, by the value of their key.
func byKey(list []any, key string) map[string][]map[string]any {
	all := map[string][]map[string]any{}
	for _, element := range list {
		if object, ok := element.(map[string]any); ok && object[key] != nil {
			value := fmt.Sprint(object[key])
			all[value] = append(all[value], object)
		}
	}
	return all
}

// protocolOf is that of a port.
func protocolOf(port map[string]any) string {
	protocol, _ := port["protocol"].(string)
	return cmp.Or(protocol, string(corev1.ProtocolTCP))
}

// recovered has a panic be an error: strategicpatch takes keys for scalars, and elements of directives for strings.
func recovered(merge func() (strategicpatch.JSONMap, error)) (merged strategicpatch.JSONMap, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = errors.New("it does not fit")
		}
	}()
	return merge()
}

// undecided is the path of a list that a patch has beside what is to be deleted from it: which of the two comes first
// is left to chance. Empty if there is none.
func undecided(value any, path string) string {
	switch of := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(of)) {
			at := strings.TrimPrefix(path+"."+name, ".")
			if _, both := of["$deleteFromPrimitiveList/"+name]; both {
				return at
			}
			if found := undecided(of[name], at); found != "" {
				return found
			}
		}
	case []any:
		for i := range of {
			if found := undecided(of[i], fmt.Sprintf("%s[%d]", path, i)); found != "" {
				return found
			}
		}
	}
	return ""
}

// dropNulls takes out those of objects that a patch leaves in new elements of lists: merged again it would not.
func dropNulls(value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, below := range v {
			if below == nil {
				delete(v, name)
			} else {
				dropNulls(below)
			}
		}
	case []any:
		for _, below := range v {
			dropNulls(below)
		}
	}
}

// misfit says where an element of a list that merges by a key has none, or a field is none of the kind; empty if
// there is no such thing.
func misfit(patch map[string]any, meta strategicpatch.LookupPatchMeta, path string) string {
	for _, name := range slices.Sorted(maps.Keys(patch)) {
		at := strings.TrimPrefix(path+"."+name, ".")
		found := ""
		switch value := patch[name].(type) {
		case map[string]any:
			below, _, err := meta.LookupPatchMetadataForStruct(name)
			if err != nil {
				return at + " is no object of this kind"
			}
			found = misfit(value, below, at)
		case []any:
			below, list, err := meta.LookupPatchMetadataForSlice(name)
			if err != nil && !strings.HasPrefix(name, "$") {
				return at + " is no list of this kind"
			}
			if err == nil && slices.Contains(list.GetPatchStrategies(), "merge") && list.GetPatchMergeKey() != "" {
				found = misfitIn(value, below, at, list.GetPatchMergeKey())
			}
		}
		if found != "" {
			return found
		}
	}
	return ""
}

// misfitIn does so for the elements of a list.
func misfitIn(list []any, meta strategicpatch.LookupPatchMeta, path, key string) string {
	for i, element := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		object, ok := element.(map[string]any)
		if !ok {
			return at + " must be an object"
		}
		if object["$patch"] == "replace" {
			continue
		}
		switch object[key].(type) {
		case nil:
			return fmt.Sprintf("%s needs its %s, by which the list is merged", at, key)
		case map[string]any, []any:
			return fmt.Sprintf("%s.%s, by which the list is merged, must be no object and no list", at, key)
		}
		if found := misfit(object, meta, at); found != "" {
			return found
		}
	}
	return ""
}
