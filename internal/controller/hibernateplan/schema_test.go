package hibernateplan

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/test/crds"
)

const definitions = "../../../config/crd/bases"

// specs are the specs of valid objects, by their kinds.
var specs = map[string]string{
	"HibernatePlan": `
schedule: {timezone: UTC, offHours: [{start: "20:00", end: "06:00", daysOfWeek: [MON]}]}
execution: {strategy: {type: Parallel}}
targets: [{name: a, type: noop}]
`,
	"ScheduleException": `
planRef: {name: night}
validFrom: "2026-03-02T00:00:00Z"
validUntil: "2026-03-03T00:00:00Z"
type: suspend
`,
	"K8SCluster":    `k8s: {inCluster: true}`,
	"CloudProvider": `{type: aws, aws: {accountId: "123456789012", region: eu-central-1, auth: {serviceAccount: {}}}}`,
}

// ruling is a rule of a schema: what it says of the values of a field that it refuses, and none of those that it takes.
// Values are YAML; that of spec goes over the valid one, and null takes a field out.
type ruling struct {
	kind, field, says string
	takes, refuses    []string
}

var rulings = slices.Concat(
	offHours("HibernatePlan", "schedule.offHours"),
	offHours("ScheduleException", "windows"),
	[]ruling{
		{
			"HibernatePlan", "execution.strategy", "dependencies are for type DAG; take them out, or write type: DAG",
			[]string{`{type: DAG, dependencies: [{from: a, to: b}]}`, `{type: DAG}`, `{type: Parallel, dependencies: []}`, `{type: Sequential}`},
			[]string{
				`{type: Parallel, dependencies: [{from: a, to: b}]}`, `{type: Sequential, dependencies: [{from: a, to: b}]}`,
				`{type: Staged, stages: [{name: one, targets: [a]}], dependencies: [{from: a, to: b}]}`,
			},
		},
		{
			"HibernatePlan", "execution.strategy", "stages belong to type Staged, and that needs them",
			[]string{`{type: Staged, stages: [{name: one, targets: [a]}]}`, `{type: DAG, stages: []}`},
			[]string{`{type: Staged}`, `{type: Staged, stages: []}`, `{type: Parallel, stages: [{name: one, targets: [a]}]}`, `{type: DAG, stages: [{name: one, targets: [a]}]}`},
		},
		{
			"HibernatePlan", "targets", `should match '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'`,
			[]string{`[{name: a, type: noop}]`, `[{name: 0-a--b, type: noop}]`, `[{name: ` + strings.Repeat("a", 63) + `, type: noop}]`},
			[]string{`[{name: A, type: noop}]`, `[{name: -a, type: noop}]`, `[{name: a-, type: noop}]`, `[{name: a.b, type: noop}]`, `[{name: a_b, type: noop}]`, `[{name: "", type: noop}]`},
		},
		{
			"HibernatePlan", "deletion.deadline", "deadline must be longer than 0s",
			[]string{"1ms", "1h30m", "720h", "null"}, []string{"0s", `"0"`, "-1h"},
		},
		{
			"HibernatePlan", "runner.activeDeadline", "activeDeadline must be at least 1m",
			[]string{"1m", "60s", "24h"}, []string{"59s", "59999ms", "0s", "-5m"},
		},
		{
			"HibernatePlan", "runner.priorityClassName", "priorityClassName must not be one of the system's",
			[]string{"batch", "systemic", `""`}, []string{"system-node-critical", "system-cluster-critical"},
		},
		quantities("limits"),
		quantities("requests"),
		{
			"ScheduleException", "", "validUntil must be after validFrom",
			[]string{`{validFrom: "2026-03-02T00:00:00Z", validUntil: "2026-03-02T00:00:01Z"}`, `{validFrom: "2026-03-02T00:30:00+02:00", validUntil: "2026-03-01T23:00:00Z"}`},
			[]string{
				`{validFrom: "2026-03-02T00:00:00Z", validUntil: "2026-03-02T00:00:00Z"}`, `{validUntil: "2026-03-01T23:59:59Z"}`,
				`{validFrom: "2026-03-01T23:00:00Z", validUntil: "2026-03-02T00:30:00+02:00"}`,
			},
		},
		{
			"ScheduleException", "", "types extend and replace need windows",
			[]string{`{type: suspend}`, `{type: suspend, windows: []}`, `{type: extend, windows: [{start: "8:00", end: "9:00", daysOfWeek: [SUN]}]}`, `{type: replace, windows: [{startCron: "0 8 * * *", endCron: "0 9 * * *"}]}`},
			[]string{`{type: extend}`, `{type: replace}`, `{type: extend, windows: []}`, `{type: replace, windows: []}`},
		},
		{
			"ScheduleException", "", "leadTime is for type suspend",
			[]string{`{type: suspend, leadTime: 1h}`},
			[]string{
				`{type: extend, leadTime: 1h, windows: [{start: "8:00", end: "9:00", daysOfWeek: [SUN]}]}`,
				`{type: replace, leadTime: 0s, windows: [{start: "8:00", end: "9:00", daysOfWeek: [SUN]}]}`,
			},
		},
		{"ScheduleException", "leadTime", "leadTime must be from 0s to 9600h", []string{"0s", "90m", "9600h"}, []string{"-1s", "9600h1s"}},
		{"ScheduleException", "planRef", "planRef cannot be changed; create another ScheduleException", []string{`{name: night}`}, []string{`{name: nights}`}},
		{
			"K8SCluster", "", "needs exactly one of k8s, eks and gke",
			[]string{`{}`, `{k8s: null, providerRef: {name: aws}, eks: {name: a, region: b}}`, `{k8s: null, providerRef: {name: gcp}, gke: {name: a, project: b, location: c}}`},
			[]string{
				`{k8s: null, providerRef: {name: aws}}`, `{providerRef: {name: aws}, eks: {name: a, region: b}}`, `{gke: {name: a, project: b, location: c}}`,
				`{k8s: null, providerRef: {name: aws}, eks: {name: a, region: b}, gke: {name: a, project: b, location: c}}`,
			},
		},
		{
			"K8SCluster", "", "eks and gke need providerRef, whose credentials reach them",
			[]string{`{providerRef: {name: aws}}`},
			[]string{`{k8s: null, eks: {name: a, region: b}}`, `{k8s: null, gke: {name: a, project: b, location: c}}`},
		},
		{
			"K8SCluster", "k8s", "needs kubeconfigRef or inCluster: true, and not both",
			[]string{`{kubeconfigRef: {name: away}}`, `{inCluster: true}`, `{inCluster: false, kubeconfigRef: {name: away}}`},
			[]string{`{}`, `{inCluster: false}`, `{inCluster: true, kubeconfigRef: {name: away}}`},
		},
		{"CloudProvider", "", "type aws needs aws", []string{`{}`}, []string{`{aws: null}`}},
		{
			"CloudProvider", "aws.accountId", `should match '^[0-9]{12}$'`,
			[]string{`"000000000000"`}, []string{`"12345678901"`, `"1234567890123"`, `"12345678901a"`, `""`},
		},
		{
			"CloudProvider", "aws.auth", "needs serviceAccount or static, and not both",
			[]string{`{serviceAccount: {annotations: {a: b}}}`, `{static: {secretRef: {name: keys}}}`},
			[]string{`{}`, `{serviceAccount: {}, static: {secretRef: {name: keys}}}`},
		},
	},
)

// offHours are the rulings of a list of off-hours.
func offHours(kind, at string) []ruling {
	starts := func(text string) string { return fmt.Sprintf(`[{start: %q, end: "06:30", daysOfWeek: [MON]}]`, text) }
	ends := func(text string) string { return fmt.Sprintf(`[{start: "20:30", end: %q, daysOfWeek: [MON]}]`, text) }
	each := func(write func(string) string, texts ...string) (out []string) {
		for _, text := range texts {
			out = append(out, write(text))
		}
		return out
	}
	return []ruling{
		{
			kind, at, "startCron and endCron belong together; write both, or start, end and daysOfWeek",
			[]string{`[{startCron: "0 20 * * *", endCron: "0 6 * * *"}]`},
			[]string{`[{startCron: "0 20 * * *"}]`, `[{start: "20:00", end: "06:00", daysOfWeek: [MON], endCron: "0 6 * * *"}]`},
		},
		{
			kind, at, "needs start, end and daysOfWeek, or startCron and endCron instead of them",
			[]string{`[{start: "20:00", end: "06:00", daysOfWeek: [MON, SUN]}]`},
			[]string{
				`[{}]`, `[{end: "06:00", daysOfWeek: [MON]}]`, `[{start: "20:00", daysOfWeek: [MON]}]`, `[{start: "20:00", end: "06:00"}]`,
				`[{startCron: "0 20 * * *", endCron: "0 6 * * *", start: "20:00"}]`, `[{startCron: "0 20 * * *", endCron: "0 6 * * *", end: "06:00"}]`,
				`[{startCron: "0 20 * * *", endCron: "0 6 * * *", daysOfWeek: [MON]}]`,
			},
		},
		{
			kind, at, "start and end are the same; write 00:00 and 24:00 for a whole day",
			[]string{`[{start: "00:00", end: "24:00", daysOfWeek: [MON]}]`, `[{start: "00:00", end: "00:01", daysOfWeek: [MON]}]`},
			[]string{`[{start: "00:00", end: "00:00", daysOfWeek: [MON]}]`, `[{start: "8:00", end: "8:00", daysOfWeek: [MON]}]`},
		},
		{
			kind, at, `should match '^([0-1]?[0-9]|2[0-3]):[0-5][0-9]$'`,
			each(starts, "8:00", "08:00", "00:00", "19:59", "23:59"), each(starts, "24:00", "25:00", "8:60", "8:0", ":30", "8", "-8:00", "8.00"),
		},
		{
			kind, at, `should match '^(([0-1]?[0-9]|2[0-3]):[0-5][0-9]|24:00)$'`,
			each(ends, "6:00", "06:00", "23:59", "24:00"), each(ends, "24:01", "25:00", "6:60", "6:0", ":30", "6", "-6:00", "6.00"),
		},
	}
}

// quantities is the ruling of resources.
func quantities(of string) ruling {
	return ruling{
		"HibernatePlan", "runner.resources." + of,
		`should match '^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$'`,
		[]string{`{cpu: 100m, memory: 1Gi}`, `{cpu: 1}`}, []string{`{cpu: many}`, `{memory: 1GiB}`},
	}
}

// over is the valid object of a kind with a value in a field of its spec.
func over(t *testing.T, kind, at, value string) *unstructured.Unstructured {
	t.Helper()
	spec, with := map[string]any{}, any(nil)
	if err := errors.Join(yaml.Unmarshal([]byte(specs[kind]), &spec), yaml.Unmarshal([]byte(value), &with)); err != nil {
		t.Fatal(err)
	}
	into, path := spec, strings.Split(at, ".")
	for _, key := range path[:len(path)-1] {
		if into[key] == nil {
			into[key] = map[string]any{}
		}
		into = into[key].(map[string]any)
	}
	fields, _ := with.(map[string]any)
	if at != "" {
		fields = map[string]any{path[len(path)-1]: with}
	}
	for key, value := range fields {
		into[key] = value
		if value == nil {
			delete(into, key)
		}
	}
	content, err := yaml.Marshal(map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": kind, "metadata": map[string]any{"namespace": "team", "name": "night"}, "spec": spec,
	})
	out := &unstructured.Unstructured{}
	if err := errors.Join(err, yaml.Unmarshal(content, out)); err != nil {
		t.Fatal(err)
	}
	return out
}

// definition is that of a kind.
func definition(t *testing.T, kind string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(definitions, "hibernator.ardikabs.com_"+strings.ToLower(kind)+"s.yaml"))
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := errors.Join(err, yaml.Unmarshal(content, crd)); err != nil {
		t.Fatal(err)
	}
	return crd
}

// judges say what an API server would, without one.
type judges struct {
	schemas *crds.Schemas
	// rules of the kinds, those of changes, too.
	rules map[string]func(is, was any) field.ErrorList
}

func newJudges(t *testing.T) judges {
	t.Helper()
	schemas, err := crds.Load(definitions)
	if err != nil {
		t.Fatal(err)
	}
	j := judges{schemas, map[string]func(is, was any) field.ErrorList{}}
	for kind := range specs {
		props := &apiextensions.JSONSchemaProps{}
		err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(definition(t, kind).Spec.Versions[0].Schema.OpenAPIV3Schema, props, nil)
		structural, invalid := structuralschema.NewStructural(props)
		if err := errors.Join(err, invalid); err != nil {
			t.Fatal(err)
		}
		j.rules[kind] = func(is, was any) field.ErrorList {
			errs, _ := cel.NewValidator(structural, true, celconfig.PerCallLimit).Validate(t.Context(), nil, structural, is, was, celconfig.RuntimeCELCostBudget)
			return errs
		}
	}
	return j
}

// wrong is what is wrong with an object, in words: as a new one, or else as what the valid one of its kind is changed to.
func (j judges) wrong(t *testing.T, o *unstructured.Unstructured) (out []string) {
	t.Helper()
	err := j.schemas.Validate(o)
	var invalid *crds.InvalidError
	switch {
	case errors.As(err, &invalid):
		for _, e := range invalid.Errors {
			out = append(out, e.Error())
		}
	case err != nil:
		t.Fatal(err)
	default:
		for _, e := range j.rules[o.GetKind()](o.Object, over(t, o.GetKind(), "", "").Object) {
			out = append(out, e.Error())
		}
	}
	return out
}

// Every rule of a schema refuses what it should, with what it says of it and nothing else, and lets all else through.
func TestSchemas(t *testing.T) {
	j := newJudges(t)
	for _, r := range rulings {
		for _, value := range r.takes {
			if got := j.wrong(t, over(t, r.kind, r.field, value)); len(got) > 0 {
				t.Errorf("%s, %s %s is refused: %q", r.kind, r.field, value, got)
			}
		}
		for _, value := range r.refuses {
			if got := j.wrong(t, over(t, r.kind, r.field, value)); len(got) != 1 || !strings.Contains(got[0], r.says) || !strings.HasPrefix(got[0], strings.TrimSuffix("spec."+r.field, ".")) {
				t.Errorf("%s, %s %s: %q does not say %q alone", r.kind, r.field, value, got, r.says)
			}
		}
	}
}

// The rulings are of all rules and patterns that the specs have.
func TestRulings(t *testing.T) {
	for kind := range specs {
		var want, got []string
		spec := definition(t, kind).Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		ruled(spec, func(says string) { want = append(want, says) })
		for _, r := range rulings {
			if r.kind == kind {
				got = append(got, r.says)
			}
			if len(r.takes) == 0 || len(r.refuses) == 0 {
				t.Errorf("%s, %s: nothing is tried", kind, r.says)
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-rules +rulings):\n%s", kind, diff)
		}
	}
}

// ruled calls a function with what each rule and pattern of a schema says.
func ruled(s apiextensionsv1.JSONSchemaProps, call func(string)) {
	for _, rule := range s.XValidations {
		call(rule.Message)
	}
	if s.Pattern != "" {
		call("should match '" + s.Pattern + "'")
	}
	for _, property := range s.Properties {
		ruled(property, call)
	}
	if s.Items != nil {
		ruled(*s.Items.Schema, call)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		ruled(*s.AdditionalProperties.Schema, call)
	}
}

// A time of day that the schema lets through can be read, and one that it does not cannot.
func TestTimesOfDay(t *testing.T) {
	j := newJudges(t)
	for _, hour := range []string{"0", "7", "9", "00", "07", "10", "19", "23", "24", "25", "", "007", "-7"} {
		for _, minute := range []string{":00", ":01", ":59", ":60", ":5", ":", "", ".00", ":00:00"} {
			text := hour + minute
			for field, hours := range map[string]v1alpha1.OffHours{"start": {Start: text, End: "06:30"}, "end": {Start: "20:30", End: text}} {
				if text == "" {
					continue // it is as if it were not there
				}
				hours.DaysOfWeek = []v1alpha1.DayOfWeek{"MON"}
				wrong := j.wrong(t, over(t, "HibernatePlan", "schedule.offHours", fmt.Sprintf("[{start: %q, end: %q, daysOfWeek: [MON]}]", hours.Start, hours.End)))
				_, err := timetable(v1alpha1.Schedule{Timezone: "UTC", OffHours: []v1alpha1.OffHours{hours}}, nil, nil)
				if (len(wrong) > 0) != (err != nil) {
					t.Errorf("%s %q: the schema says %q, and what reads it %v", field, text, wrong, err)
				}
			}
		}
	}
}
