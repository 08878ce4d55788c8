package twin

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	"github.com/labkeeper/labkeeper/internal/merge"
)

// kind is what the twins of a kind have of their own.
type kind struct {
	// lists that merge by keys.
	lists merge.Lists
	// keeps are the fields of the source's spec, beside the template, that the twin gets.
	keeps []string
	// sets are fields as they are before the merge.
	sets map[string]any
	// fixed are fields of the override that are refused, by what to say.
	fixed map[string]string
	// immutable are the fields that an update is refused of.
	immutable []string
	// plain sees that what the override says of the strategy needs nothing of the source's; nil is of any strategy.
	plain func(spec map[string]any) error
	// typed is a new value of the spec's type, for a strict look at it; where it has the template alone, fields are those of
	// the spec beside it.
	typed  func() any
	fields []string
}

var (
	notPaused = "a twin is never paused; set replicas to 0 instead"

	deployment = kind{
		lists: merge.DeploymentLists,
		keeps: []string{"strategy", "minReadySeconds", "progressDeadlineSeconds"},
		sets:  map[string]any{"revisionHistoryLimit": int64(2)}, // d9
		fixed: map[string]string{"paused": notPaused},           // d4
		typed: func() any { return &appsv1.DeploymentSpec{} },
	}

	statefulSet = kind{
		lists: merge.StatefulSetLists,
		keeps: []string{"serviceName", "minReadySeconds", "volumeClaimTemplates"},
		sets: map[string]any{
			"revisionHistoryLimit": int64(2),
			"podManagementPolicy":  "Parallel",                                                                                      // s8: a broken pod must not hold up the template that mends it
			"updateStrategy":       map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"partition": int64(0)}}, // s5
			// s2: its volumes are new, and go with it.
			"persistentVolumeClaimRetentionPolicy": map[string]any{"whenDeleted": "Delete", "whenScaled": "Delete"},
		},
		fixed:     map[string]string{"persistentVolumeClaimRetentionPolicy": "the volumes of a twin go with it"},
		immutable: []string{"serviceName", "podManagementPolicy", "selector", "volumeClaimTemplates"}, // s1
		typed:     func() any { return &appsv1.StatefulSetSpec{} },
	}

	rollout = kind{
		lists: merge.RolloutLists,
		keeps: []string{"minReadySeconds", "progressDeadlineSeconds"},
		// r2 to r6: a plain strategy in whole, because parts of the source's need others.
		sets: map[string]any{"revisionHistoryLimit": int64(2), "strategy": map[string]any{"canary": map[string]any{}}},
		fixed: map[string]string{
			"paused": notPaused, "restartAt": "change the template instead", // r7
			"strategy.blueGreen":             "it needs a Service of its own; a twin shares those of its source", // r2
			"strategy.canary.canaryService":  servicesOfRollouts,
			"strategy.canary.stableService":  servicesOfRollouts,
			"strategy.canary.pingPong":       servicesOfRollouts,
			"strategy.canary.trafficRouting": "two controllers would write the same routes", // r3
			"analysis":                       "it belongs to the source",
		},
		plain: plainCanary,
		typed: func() any {
			return &struct {
				Template corev1.PodTemplateSpec `json:"template"`
			}{}
		},
		fields: []string{
			"analysis", "minReadySeconds", "paused", "progressDeadlineAbort", "progressDeadlineSeconds", "replicas", "restartAt", "revisionHistoryLimit",
			"rollbackWindow", "selector", "strategy", "workloadRef",
		},
	}
)

const servicesOfRollouts = "a Rollout takes the Services that it names for its own; a twin shares those of its source"

// fixed are the fields of any override that are refused, by what to say.
var fixed = map[string]string{
	"selector":    "it is made from the identity of the twin, and cannot change",
	"status":      "an override is of the spec",
	"workloadRef": "a twin has a template of its own", // r1
}

// refuse says which field of an override nobody may set (c7): of several, always the same.
func (k kind) refuse(override map[string]any) error {
	for _, all := range []map[string]string{fixed, k.fixed} {
		for _, path := range slices.Sorted(maps.Keys(all)) {
			if err := refuseAt(override, path, all[path]); err != nil {
				return err
			}
		}
	}
	for _, field := range slices.Sorted(maps.Keys(override)) {
		if strings.HasPrefix(field, "$") { // it would take away what is set before the merge
			return invalid("overrideSpec."+field, "the spec as a whole cannot be replaced; remove it")
		}
	}
	template, ok := override["template"].(map[string]any)
	if !ok {
		return nil
	}
	metadata, _ := template["metadata"].(map[string]any)
	for _, field := range slices.Sorted(maps.Keys(metadata)) {
		if field != "labels" && field != "annotations" {
			return invalid("overrideSpec.template.metadata."+field, "only labels and annotations of pods can be set")
		}
		values, _ := metadata[field].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if strings.HasPrefix(name, Group+"/") {
				return invalid("overrideSpec.template.metadata."+field+"."+name, "names that begin with %s/ are set by the manager", Group)
			}
			if field == "labels" && slices.Contains(ofPods, name) { // r8, r9, s9
				return invalid("overrideSpec.template.metadata.labels."+name, "controllers give it to the pods that they make; remove it")
			}
		}
	}
	return nil
}

func refuseAt(override map[string]any, path, why string) error {
	value, found, err := unstructured.NestedFieldNoCopy(override, strings.Split(path, ".")...)
	if harmless := path == "paused" && value == false; found && err == nil && !harmless {
		return invalid("overrideSpec."+path, "%s; remove it", why)
	}
	return nil
}

// canaryFields and stepFields are those of a strategy that act on nothing but how many pods of the twin there are.
// Others give pods labels and annotations that are in no template, ask for traffic, or run what templates of
// analyses and experiments say (r2 to r6).
var (
	canaryFields = []string{"antiAffinity", "maxSurge", "maxUnavailable", "replicaProgressThreshold", "steps"}
	stepFields   = []string{"pause", "setWeight"}
)

// plainCanary looks at the strategy of a Rollout's twin, all of which is the override's.
func plainCanary(spec map[string]any) error {
	const path = "overrideSpec.strategy"
	strategy, ok := spec["strategy"].(map[string]any)
	if !ok {
		return invalid(path, "it must be an object")
	}
	canary, ok := strategy["canary"].(map[string]any)
	if !ok {
		return invalid(path+".canary", "it must be an object")
	}
	if err := only(path, strategy, []string{"canary"}); err != nil {
		return err
	}
	if err := only(path+".canary", canary, canaryFields); err != nil {
		return err
	}
	steps, ok := canary["steps"].([]any)
	if !ok && canary["steps"] != nil {
		return invalid(path+".canary.steps", "it must be a list")
	}
	for i, step := range steps {
		at := fmt.Sprintf("%s.canary.steps[%d]", path, i)
		of, ok := step.(map[string]any)
		if !ok {
			return invalid(at, "it must be an object")
		}
		if err := only(at, of, stepFields); err != nil {
			return err
		}
	}
	return nil
}

// only refuses the first field that is not among some.
func only(path string, object map[string]any, fields []string) error {
	for _, field := range slices.Sorted(maps.Keys(object)) {
		if !slices.Contains(fields, field) {
			return invalid(path+"."+field, "of a twin only %s can be set here; remove it", strings.Join(fields, ", "))
		}
	}
	return nil
}

// sanitise is what a twin gets of a spec, beside the template.
func (k kind) sanitise(from map[string]any) map[string]any {
	out := runtime.DeepCopyJSON(k.sets)
	for _, field := range k.keeps {
		if value, ok := from[field]; ok {
			out[field] = runtime.DeepCopyJSONValue(value)
		}
	}
	if claims, ok := out["volumeClaimTemplates"].([]any); ok {
		for i := range claims {
			claims[i] = sanitiseClaim(claims[i])
		}
	}
	return out
}

// sanitiseClaim is what a twin gets of a template of volumes: no volume that is there already (s3).
func sanitiseClaim(claim any) any {
	from, ok := claim.(map[string]any)
	if !ok {
		return claim
	}
	metadata := map[string]any{}
	if name, ok, _ := unstructured.NestedString(from, "metadata", "name"); ok {
		metadata["name"] = name
	}
	spec, _ := from["spec"].(map[string]any)
	for _, field := range []string{"volumeName", "selector"} {
		delete(spec, field)
	}
	return map[string]any{"metadata": metadata, "spec": spec}
}

// normalise takes out what the merge has left over.
func (k kind) normalise(spec map[string]any) {
	if strategy, ok := spec["strategy"].(map[string]any); ok && strategy["type"] == "Recreate" { // d7
		delete(strategy, "rollingUpdate")
	}
	if strategy, ok := spec["updateStrategy"].(map[string]any); ok && strategy["type"] == "OnDelete" {
		delete(strategy, "rollingUpdate")
	}
}

// check looks strictly at the spec: a field that nobody knows is a typo (c5), unless it is one of those that the source has, from
// an API server that is newer than this. Of a Rollout the template and the names beside it are looked at; the API server knows
// the rest.
func (k kind) check(spec map[string]any, ofSource []string) error {
	unknown, err := k.strictly(spec)
	if err != nil {
		return invalid("overrideSpec", "%v", err)
	}
	unknown = slices.DeleteFunc(unknown, func(problem string) bool { return slices.Contains(ofSource, problem) })
	if len(unknown) > 0 {
		return invalid("overrideSpec", "%s", strings.Join(unknown, "; "))
	}
	return nil
}

// strictly are the unknown fields of a spec, by their paths, or what does not fit its type.
func (k kind) strictly(spec map[string]any) (unknown []string, err error) {
	strict, err := k.decode(spec)
	if err != nil {
		return nil, errors.New(k.misfit(spec, err))
	}
	for _, e := range strict {
		if !slices.ContainsFunc(k.fields, func(field string) bool { return e.Error() == fmt.Sprintf("unknown field %q", field) }) {
			unknown = append(unknown, e.Error())
		}
	}
	return unknown, nil
}

// unlike are those fields of the source's pods that are unknown here and not as it has them: nobody can tell what another value, or
// none, lets them do.
func unlike(base, spec map[string]any, unknown []string) (all []string) {
	for _, problem := range unknown {
		path, err := strconv.Unquote(strings.TrimPrefix(problem, "unknown field "))
		if err != nil || !strings.HasPrefix(path, "template.") {
			continue
		}
		was, _ := valueAt(base, path)
		if is, within := valueAt(spec, path); within && !reflect.DeepEqual(was, is) {
			all = append(all, "another "+path+", which this manager does not know")
		}
	}
	return all
}

// valueAt is what is at a path such as a.b[0].c, and whether there is an object that it could be in.
func valueAt(of any, path string) (value any, within bool) {
	for segment := range strings.SplitSeq(path, ".") {
		field, positions, _ := strings.Cut(segment, "[")
		object, is := of.(map[string]any)
		if !is {
			return nil, false
		}
		of = object[field]
		for position := range strings.SplitSeq(strings.ReplaceAll(positions, "]", ""), "[") {
			list, _ := of.([]any)
			i, err := strconv.Atoi(position)
			switch {
			case position == "":
			case err != nil || i >= len(list):
				return nil, false
			default:
				of = list[i]
			}
		}
	}
	return of, true
}

// decode reads a spec, or a part of one, as the type that it has: strict are the fields that it does not know.
func (k kind) decode(spec any) (strict []error, err error) {
	raw, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	return kjson.UnmarshalStrict(raw, k.typed())
}

// misfit is what of a spec does not fit, without the value: it may be a secret.
func (k kind) misfit(spec map[string]any, err error) string {
	path := k.misfitAt(spec, func(value any) any { return value }, "")
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return path + " must be " + typeName(wrong.Type)
	}
	if errors.Is(err, resource.ErrFormatWrong) || errors.Is(err, resource.ErrNumeric) || errors.Is(err, resource.ErrSuffix) {
		return path + " must be a quantity, such as 500m or 1Gi"
	}
	return path + " does not fit the type of its field"
}

// typeName is a type as those who write YAML call it.
func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "an integer"
	case reflect.Slice:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	}
	return "a " + t.String()
}

// misfitAt is the path of the first value, within a part of a spec, that does not fit even with nothing beside it.
func (k kind) misfitAt(part any, within func(any) any, path string) string {
	misfits := func(value any) bool {
		_, err := k.decode(value)
		return err != nil
	}
	switch part := part.(type) {
	case map[string]any:
		if misfits(within(map[string]any{})) {
			return path // it must not be an object
		}
		for _, key := range slices.Sorted(maps.Keys(part)) {
			in := func(value any) any { return within(map[string]any{key: value}) }
			if misfits(in(part[key])) {
				return k.misfitAt(part[key], in, strings.TrimPrefix(path+"."+key, "."))
			}
		}
	case []any:
		if misfits(within([]any{})) {
			return path
		}
		for i := range part {
			in := func(value any) any { return within([]any{value}) }
			if misfits(in(part[i])) {
				return k.misfitAt(part[i], in, fmt.Sprintf("%s[%d]", path, i))
			}
		}
	}
	return path
}

// AnnotationFixed is on a twin whose kind has fields that cannot be changed: a hash of them as they were wanted.
const AnnotationFixed = Group + "/fixed"

// fix records what cannot be changed.
func (k kind) fix(twin *unstructured.Unstructured) {
	spec, _ := twin.Object["spec"].(map[string]any)
	fixed := map[string]any{}
	for _, field := range k.immutable {
		fixed[field] = spec[field]
	}
	if len(fixed) == 0 {
		return
	}
	annotations := twin.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[AnnotationFixed] = Hash(fixed)
	twin.SetAnnotations(annotations)
}

// Replaced says whether a twin that is there must be deleted and created again to be the one that is wanted,
// because they differ in what cannot be changed (s1). What the API server has made of it is not looked at: it
// writes quantities its own way.
func Replaced(live, desired *unstructured.Unstructured) bool {
	was, recorded := live.GetAnnotations()[AnnotationFixed]
	return recorded && was != desired.GetAnnotations()[AnnotationFixed]
}

func hash(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])[:16]
}
