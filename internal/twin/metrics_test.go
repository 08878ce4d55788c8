package twin

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// a1: a HorizontalPodAutoscaler that computes a metric from the requests of all the pods that it counts scales by it
// no more while one pod lacks them, which is told of before anything milder.
func TestStoppedAutoscalers(t *testing.T) {
	const (
		web       = `{name: web, image: "web:1", resources: {requests: {cpu: 100m}}}`
		bare      = `{name: web, image: "web:2"}`
		byCPU     = `{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}`
		ofWeb     = `{type: ContainerResource, containerResource: {name: cpu, container: web, target: {type: Utilization, averageUtilization: 50}}}`
		byMemory  = `{type: Resource, resource: {name: memory, target: {type: Utilization, averageUtilization: 50}}}`
		byValue   = `{type: Resource, resource: {name: cpu, target: {type: AverageValue, averageValue: 50m}}}`
		valueOf   = `{type: ContainerResource, containerResource: {name: cpu, container: web, target: {type: AverageValue, averageValue: 50m}}}`
		byTraffic = `{type: Pods, pods: {metric: {name: cpu}, target: {type: AverageValue, averageValue: "50"}}}`
		none      = `no request for cpu in container `
		remedy    = `give it resources.requests.cpu in the override`
		renamed   = `{name: app, image: "web:2", resources: {requests: {cpu: 100m}}}`
		proxy     = `initContainers: [{name: proxy, image: p, restartPolicy: Always}], `
		migration = `initContainers: [{name: migrate, image: m}], `
	)
	of := func(containers string) string { return `containers: [` + containers + `]` }
	for name, test := range map[string]struct {
		source, override string
		strategy         Strategy
		metrics          string
		says             []string
	}{
		"as the source":                {of(web), ``, Replace, byCPU + "," + ofWeb, nil},
		"dropped":                      {of(web), of(bare), Replace, byCPU, []string{"HorizontalPodAutoscaler x cannot scale the source by cpu ", none + "web;", remedy}},
		"dropped, of one container":    {of(web), of(bare), Replace, ofWeb, []string{none + "web;", remedy}},
		"dropped, of both":             {of(web), of(bare), Replace, byCPU + "," + ofWeb, []string{none + "web;"}},
		"merged by keys":               {of(web), of(bare), Strategic, byCPU, nil},
		"taken out":                    {of(web), of(`{name: web, resources: null}`), Strategic, byCPU, []string{none + "web;"}},
		"a limit":                      {of(web), of(`{name: web, image: "web:2", resources: {limits: {cpu: 1}}}`), Replace, byCPU, nil},
		"another resource":             {of(web), of(`{name: web, image: "web:2", resources: {requests: {memory: 1Gi}}}`), Replace, byCPU, []string{none + "web;"}},
		"nothing":                      {of(web), of(`{name: web, image: "web:2", resources: {requests: {cpu: 0}}}`), Replace, byCPU, nil},
		"one more":                     {of(web), of(`{name: debug, image: d}`), Strategic, byCPU, []string{none + "debug;"}},
		"one more, of another":         {of(web), of(`{name: debug, image: d}`), Strategic, ofWeb, nil},
		"one more, that stays":         {of(web), proxy + of(web), Replace, byCPU, []string{none + "proxy;"}},
		"one more, that ends":          {of(web), migration + of(web), Replace, byCPU, nil},
		"many":                         {of(web), of(`{name: a}, {name: b}, {name: c}, {name: d}, {name: e}, {name: f}, {name: g}`), Replace, byCPU, []string{none + "a, b, c, d, e, and 2 more;"}},
		"for the whole pod":            {of(web), `resources: {requests: {cpu: 1}}, ` + of(bare), Replace, byCPU, nil},
		"for the pod, of a container":  {of(web), `resources: {requests: {cpu: 1}}, ` + of(bare), Replace, ofWeb, []string{none + "web;"}},
		"by its value":                 {of(web), of(bare), Replace, byValue, nil},
		"by a container's value":       {of(web), of(bare), Replace, valueOf, nil},
		"renamed":                      {of(web), of(renamed), Replace, ofWeb, []string{"by cpu ", "they have no container web;", "keep one of that name"}},
		"renamed, by its value":        {of(web), of(renamed), Replace, valueOf, []string{"they have no container web;"}},
		"renamed, of all":              {of(web), of(renamed), Replace, byCPU, nil},
		"none of the source's":         {of(bare), of(bare), Replace, byCPU, nil},
		"none, for another":            {of(web), of(bare), Replace, byMemory, nil},
		"by what is no resource":       {of(web), of(bare), Replace, byTraffic, nil},
		"by no metric":                 {of(web), of(bare), Replace, ``, nil},
		"one that stays, of both":      {proxy + of(web), of(bare), Replace, byCPU, nil},
		"by cpu, which only one lacks": {of(web), of(bare), Replace, byMemory + "," + byCPU, []string{none + "web;"}},
	} {
		t.Run(name, func(t *testing.T) {
			from := source(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {replicas: 3, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {`+test.source+`}}}}`)
			w := wanted(t, `{template: {spec: {`+test.override+`}}}`)
			w.Strategy = test.strategy
			twin, err := Build(from, w)
			if err != nil {
				t.Fatal(err)
			}
			scaler := source(t, `{kind: HorizontalPodAutoscaler, metadata: {name: x}, spec: {scaleTargetRef: {kind: Deployment, name: web}, metrics: [`+test.metrics+`]}}`)
			got := Autoscalers(from, twin.Object, []*unstructured.Unstructured{scaler}, nil)
			if mild := got[len(got)-1]; len(got) == 1 != (test.says == nil) || !strings.Contains(mild, "counts the twin's pods") {
				t.Fatalf("it says %q", got)
			}
			for _, says := range test.says {
				if !strings.Contains(got[0], says) {
					t.Errorf("it says %q", got)
				}
			}
		})
	}
}

// A HorizontalPodAutoscaler that does not count the twin's pods is not stopped by them, and that of another workload
// is which does.
func TestStoppedAutoscalersOfOthers(t *testing.T) {
	const bare = `spec: {containers: [{name: web, image: "web:2", securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]}`
	wide := func(pods string) *unstructured.Unstructured {
		return source(t, `{kind: StatefulSet, metadata: {name: wide}, spec: {selector: {matchExpressions: [{key: app, operator: Exists}]}`+pods+`}}`)
	}
	const requests = `, template: {spec: {containers: [{name: db, resources: {requests: {cpu: 1}}}]}}`
	for name, test := range map[string]struct {
		source, override, target string
		others                   []*unstructured.Unstructured
		says                     string
	}{
		"of the source":              {tracked, bare, "kind: Deployment, name: web", nil, "cannot scale the source by cpu"},
		"of other pods":              {tracked, `metadata: {labels: {app: another}}, ` + bare, "kind: Deployment, name: web", nil, ""},
		"of the twin":                {tracked, bare, "kind: Deployment, name: web-exp-abc", nil, ""},
		"of another":                 {tracked, bare, "kind: StatefulSet, name: wide", []*unstructured.Unstructured{wide(requests)}, "cannot scale StatefulSet wide by cpu"},
		"of another that lacks them": {tracked, bare, "kind: StatefulSet, name: wide", []*unstructured.Unstructured{wide(", template: {spec: {containers: [{name: db}]}}")}, ""},
		"of another without pods":    {tracked, bare, "kind: StatefulSet, name: wide", []*unstructured.Unstructured{wide("")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			scaler := source(t, `{kind: HorizontalPodAutoscaler, metadata: {name: x}, spec: {scaleTargetRef: {`+test.target+`}, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization}}}]}}`)
			twin := build(t, test.source, wanted(t, `{template: {`+test.override+`}}`)).Object
			said := strings.Join(Autoscalers(source(t, test.source), twin, []*unstructured.Unstructured{scaler}, test.others), "; ")
			if !strings.Contains(said, test.says) || strings.Contains(said, "cannot scale") != (test.says != "") {
				t.Errorf("it says %q", said)
			}
		})
	}
}
