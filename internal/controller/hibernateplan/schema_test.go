package hibernateplan

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/test/crds"
)

var schemas = &crds.Rulebook{GroupVersion: v1alpha1.GroupVersion, All: rulebook(rulings), Specs: map[string]string{
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
}}

// ruling is one of the rulebook, which can be written without the names of its fields.
type ruling struct {
	Kind, Field, Says string
	Takes, Refuses    []string
}

func rulebook(all []ruling) (out []crds.Ruling) {
	for _, r := range all {
		out = append(out, crds.Ruling(r))
	}
	return out
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
			"HibernatePlan", "runner.activeDeadline", "activeDeadline must be from 1m to 24h",
			[]string{"1m", "60s", "24h"}, []string{"59s", "59999ms", "0s", "-5m", "24h1s", "2562047h47m16s"},
		},
		{
			"HibernatePlan", "runner.priorityClassName", "priorityClassName must not be one of the system's",
			[]string{"batch", "systemic", `""`}, []string{"system-node-critical", "system-cluster-critical"},
		},
		quantities("limits"),
		quantities("requests"),
		readable("limits"),
		readable("requests"),
		{
			"HibernatePlan", "override", "until must be a time, such as 2026-03-02T06:00:00Z",
			[]string{
				`{state: Awake}`, `{state: Awake, until: "2026-03-02T00:00:00Z"}`, `{state: Awake, until: "2026-03-02T00:00:00.25+02:00"}`,
				`{state: Awake, until: "9999-12-31T23:59:59.5Z"}`, `{state: Awake, until: "9999-12-31T23:59:59+01:00"}`,
			},
			[]string{`{state: Awake, until: "0000-12-31T00:00:00Z"}`, `{state: Awake, until: "9999-12-31T23:59:59-01:00"}`},
		},
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
		{"ScheduleException", "leadTime", "leadTime must be from 0s to 720h", []string{"0s", "90m", "720h"}, []string{"-1s", "720h1s", "9600h"}},
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
		{"ScheduleException", "planRef", objectName, []string{`{name: night}`}, []string{`{name: a/b}`}},
		{"HibernatePlan", "targets", objectName, []string{to("name: a.b")}, []string{to("name: a/b"), to("name: A")}},
		{"HibernatePlan", "targets", namespaceName, []string{to("name: a, namespace: b"), to(`name: a, namespace: ""`)}, []string{to("name: a, namespace: b/c"), to("name: a, namespace: b.c")}},
		{"K8SCluster", "k8s", objectName, []string{`{kubeconfigRef: {name: a.b}}`}, []string{`{kubeconfigRef: {name: a/b}}`, `{kubeconfigRef: {name: "100%"}}`}},
		{"K8SCluster", "k8s", namespaceName, []string{`{kubeconfigRef: {name: a, namespace: b}}`}, []string{`{kubeconfigRef: {name: a, namespace: b/c}}`}},
		{"CloudProvider", "aws.auth", objectName, []string{`{static: {secretRef: {name: a.b}}}`}, []string{`{static: {secretRef: {name: a/b}}}`}},
		{
			"CloudProvider", "aws.auth", namespaceName,
			[]string{`{static: {secretRef: {name: a, namespace: b}}}`}, []string{`{static: {secretRef: {name: a, namespace: b/c}}}`},
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

const (
	objectName    = "should match '^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$'"
	namespaceName = "should match '^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$'"
)

// to is a target with a connector.
func to(connector string) string {
	return `[{name: a, type: noop, connectorRef: {kind: K8SCluster, ` + connector + `}}]`
}

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

// readable is the ruling of resources that the pattern lets through.
func readable(of string) ruling {
	return ruling{
		"HibernatePlan", "runner.resources." + of, "each must be a quantity, such as 100m, 2 or 1Gi",
		[]string{`{cpu: ".5", memory: "1.e9"}`, `{cpu: "1e-3", memory: 3000000000}`, `{}`},
		[]string{`{cpu: "1e1.5"}`, `{cpu: "1e-.5"}`, `{cpu: 1, memory: "1E5."}`, `{cpu: "1e99999999999999999999"}`},
	}
}

// Every rule of a schema refuses what it should, and lets all else through.
func TestSchemas(t *testing.T) { schemas.Try(t) }

// kubectl get shows how a plan is, and kubectl explain says which of two targets stops first: the name of the field does not.
func TestShown(t *testing.T) {
	content, err := os.ReadFile("../../../config/crd/bases/hibernator.ardikabs.com_hibernateplans.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(content, &crd); err != nil {
		t.Fatal(err)
	}
	version := crd.Spec.Versions[0]
	var columns []string
	for _, c := range version.AdditionalPrinterColumns {
		if c.Priority == 0 {
			columns = append(columns, strings.ToUpper(c.Name))
		}
	}
	if got := strings.Join(columns, " "); got != "PHASE NEXT TARGETS FAILED AGE" || !slices.Equal(crd.Spec.Names.ShortNames, []string{"hplan"}) {
		t.Errorf("kubectl get %v: %s", crd.Spec.Names.ShortNames, got)
	}
	at := version.Schema.OpenAPIV3Schema
	for _, field := range []string{"spec", "execution", "strategy", "dependencies"} {
		at = ptr.To(at.Properties[field])
	}
	for field, says := range map[string]string{"from": "stops first", "to": "stops when from has stopped"} {
		if described := at.Items.Schema.Properties[field].Description; !strings.Contains(described, says) {
			t.Errorf("%s: %s", field, described)
		}
	}
}

// What the schema lets through can be read: one object that cannot be keeps all of its kind from the manager.
func TestUnreadable(t *testing.T) {
	for kind, into := range map[string]any{"HibernatePlan": &v1alpha1.HibernatePlanSpec{}, "ScheduleException": &v1alpha1.ScheduleExceptionSpec{}} {
		for _, c := range unreadable[kind] {
			spec := map[string]any{}
			if err := yaml.Unmarshal([]byte(schemas.Specs[kind]+c), &spec); err != nil {
				t.Fatal(err)
			}
			raw, err := json.Marshal(spec)
			if err == nil {
				err = json.Unmarshal(raw, into)
			}
			if err == nil {
				t.Errorf("%s, %s: it can be read", kind, c)
			}
			if len(schemas.Wrong(t, kind, "", c)) == 0 {
				t.Errorf("%s, %s: the schema lets it through, and what reads it says %v", kind, c, err)
			}
		}
	}
}

// unreadable are values that the formats and patterns of Kubernetes let through.
var unreadable = map[string][]string{
	"HibernatePlan": {
		`override: {state: Awake, until: "2026-03-02t00:00:00Z"}`, `override: {state: Awake, until: "2026-03-02T00:00:00z"}`,
		`override: {state: Awake, until: "2026-03-02T00:00:00Zt"}`, `override: {state: Awake, until: "2026-03-02T00:00:00x5Z"}`,
		`override: {state: Awake, until: "2026-03-02T00:00:00+25:99"}`,
		`runner: {resources: {limits: {cpu: "1e1.5"}}}`, `runner: {resources: {requests: {cpu: "1E5."}}}`,
		`runner: {activeDeadline: 1w}`, `deletion: {deadline: 1w}`,
	},
	"ScheduleException": {`validFrom: "2026-03-02t00:00:00Z"`, `validUntil: "2026-03-03T00:00:00z"`, `leadTime: 1w`},
}

// A time of day that the schema lets through can be read, and one that it does not cannot.
func TestTimesOfDay(t *testing.T) {
	for _, hour := range []string{"0", "7", "9", "00", "07", "10", "19", "23", "24", "25", "", "007", "-7"} {
		for _, minute := range []string{":00", ":01", ":59", ":60", ":5", ":", "", ".00", ":00:00"} {
			text := hour + minute
			for field, hours := range map[string]v1alpha1.OffHours{"start": {Start: text, End: "06:30"}, "end": {Start: "20:30", End: text}} {
				if text == "" {
					continue // it is as if it were not there
				}
				hours.DaysOfWeek = []v1alpha1.DayOfWeek{"MON"}
				wrong := schemas.Wrong(t, "HibernatePlan", "schedule.offHours", fmt.Sprintf("[{start: %q, end: %q, daysOfWeek: [MON]}]", hours.Start, hours.End))
				_, err := timetable(v1alpha1.Schedule{Timezone: "UTC", OffHours: []v1alpha1.OffHours{hours}}, nil, nil)
				if (len(wrong) > 0) != (err != nil) {
					t.Errorf("%s %q: the schema says %q, and what reads it %v", field, text, wrong, err)
				}
			}
		}
	}
}
