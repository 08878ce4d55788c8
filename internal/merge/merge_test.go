package merge

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/labkeeper/labkeeper/test/random"
)

// object reads YAML as Decode would read it.
func object(t testing.TB, text string) map[string]any {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if string(raw) == "null" {
		return nil
	}
	o, err := Decode(raw)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return o
}

func TestDecode(t *testing.T) {
	for name, test := range map[string]struct{ raw, want string }{
		"nothing":         {`{}`, ""},
		"all there is":    {`{"a": {"b": [1, 1.5, null]}}`, ""},
		"c11 null":        {`null`, "must be an object"},
		"c11 a list":      {`[]`, "must be an object"},
		"c11 a string":    {`"x"`, "must be an object"},
		"c11 a number":    {`3`, "must be an object"},
		"c11 no JSON":     {``, "decoding"},
		"c11 half of it":  {`{`, "decoding"},
		"c5 a name twice": {`{"a": 1, "a": 2}`, "duplicate field"},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := Decode([]byte(test.raw))
			if test.want == "" && (err != nil || o == nil) || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("it is %v, %v; want %q", o, err, test.want)
			}
		})
	}
	t.Run("c3 whole numbers stay whole", func(t *testing.T) {
		o, err := Decode([]byte(`{"whole": 9007199254740993, "part": 0.5}`))
		if err != nil || o["whole"] != int64(9007199254740993) || o["part"] != 0.5 {
			t.Errorf("numbers are %v, %v", o, err)
		}
	})
}

// The table of the design, and null.
func TestReplace(t *testing.T) {
	for name, test := range map[string]struct{ base, override, want string }{
		"nothing":                        {`{a: 1}`, `{}`, `{a: 1}`},
		"zero":                           {`{replicas: 3, x: 1}`, `{replicas: 0}`, `{replicas: 0, x: 1}`},
		"false":                          {`{paused: true, x: 1}`, `{paused: false}`, `{paused: false, x: 1}`},
		"an empty string":                {`{a: x, b: 1}`, `{a: ""}`, `{a: "", b: 1}`},
		"null":                           {`{a: 1, b: 2}`, `{a: null}`, `{b: 2}`},
		"null over an object":            {`{a: {b: 1}, c: 2}`, `{a: null}`, `{c: 2}`},
		"null below":                     {`{a: {b: 1, c: 2}}`, `{a: {b: null}}`, `{a: {c: 2}}`},
		"null of nothing":                {`{a: 1}`, `{b: null, c: {d: null, e: 1}}`, `{a: 1, c: {e: 1}}`},
		"null in a list":                 {`{a: [1]}`, `{a: [null, {b: null}]}`, `{a: [null, {b: null}]}`},
		"an empty list":                  {`{a: [1, 2], b: 1}`, `{a: []}`, `{a: [], b: 1}`},
		"a list":                         {`{a: [1, 2, 3]}`, `{a: [4]}`, `{a: [4]}`},
		"a longer list of objects":       {`{a: [{b: 1}]}`, `{a: [{c: 1}, {d: 2}]}`, `{a: [{c: 1}, {d: 2}]}`},
		"an empty object":                {`{a: {b: 1}}`, `{a: {}}`, `{a: {b: 1}}`},
		"an empty object over a scalar":  {`{a: 1}`, `{a: {}}`, `{a: {}}`},
		"an empty object where none was": {`{}`, `{a: {}}`, `{a: {}}`},
		"objects":                        {`{a: {b: {c: 1, d: 2}}}`, `{a: {b: {d: 3, e: 4}}}`, `{a: {b: {c: 1, d: 3, e: 4}}}`},
		"an object over a list":          {`{a: [1]}`, `{a: {b: 1, c: null}}`, `{a: {b: 1}}`},
		"a list over an object":          {`{a: {b: 1}}`, `{a: [1]}`, `{a: [1]}`},
		"a scalar over an object":        {`{a: {b: 1}}`, `{a: x}`, `{a: x}`},
		"another type":                   {`{a: 80}`, `{a: "80"}`, `{a: "80"}`},
		"a null that was there":          {`{a: null, b: {c: null}}`, `{b: {d: 1}}`, `{a: null, b: {c: null, d: 1}}`},
		"an object over a null":          {`{a: null}`, `{a: {b: 1}}`, `{a: {b: 1}}`},
		"over nothing":                   {``, `{a: {b: null}}`, `{a: {}}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Replace(object(t, test.base), object(t, test.override))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(object(t, test.want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

const twoContainers = `
replicas: 3
selector: {matchLabels: {app: web}}
strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 25%}}
template:
  metadata:
    labels: {app: web, tier: front}
    annotations: {prometheus.io/scrape: "true"}
  spec:
    serviceAccountName: web
    tolerations: [{key: spot, operator: Exists}]
    containers:
    - name: web
      image: registry.example.com/web:1.4.2
      args: [--listen, ":8080"]
      env:
      - {name: MODE, value: production}
      - {name: TOKEN, valueFrom: {secretKeyRef: {name: web, key: token}}}
      ports: [{name: http, containerPort: 8080, protocol: TCP}, {name: metrics, containerPort: 9090}]
      resources: {requests: {cpu: 100m, memory: 128Mi}, limits: {memory: 256Mi}}
      readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 5, failureThreshold: 3}
      volumeMounts: [{name: config, mountPath: /etc/web}]
    - name: proxy
      image: registry.example.com/proxy:2.0.0
      env: [{name: UPSTREAM, value: "127.0.0.1:8080"}]
      ports: [{name: proxy, containerPort: 8443}]
      resources: {requests: {cpu: 50m, memory: 64Mi}}
    volumes:
    - {name: config, configMap: {name: web}}
`

func TestStrategic(t *testing.T) {
	const imageOfOne = `template: {spec: {containers: [{name: web, image: web:2}]}}`
	for name, lists := range map[string]Lists{"Deployment": DeploymentLists, "StatefulSet": StatefulSetLists, "Rollout": RolloutLists} {
		t.Run(name, func(t *testing.T) {
			want := object(t, twoContainers)
			want["template"].(map[string]any)["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)["image"] = "web:2"
			got, err := Strategic(object(t, twoContainers), object(t, imageOfOne), lists)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
	for name, test := range map[string]struct {
		override string
		lists    Lists
		path     []string
		want     any
	}{
		"a variable is added":       {`template: {spec: {containers: [{name: proxy, env: [{name: LOG, value: debug}]}]}}`, DeploymentLists, []string{"template", "spec", "containers", "1", "env"}, []any{map[string]any{"name": "LOG", "value": "debug"}, map[string]any{"name": "UPSTREAM", "value": "127.0.0.1:8080"}}},
		"a variable of another":     {`template: {spec: {containers: [{name: proxy, env: [{name: URL, value: "http://$(UPSTREAM)"}], $setElementOrder/env: [{name: UPSTREAM}, {name: URL}]}]}}`, DeploymentLists, []string{"template", "spec", "containers", "1", "env"}, []any{map[string]any{"name": "UPSTREAM", "value": "127.0.0.1:8080"}, map[string]any{"name": "URL", "value": "http://$(UPSTREAM)"}}},
		"a container goes":          {`template: {spec: {containers: [{name: proxy, $patch: delete}]}}`, StatefulSetLists, []string{"template", "spec", "containers", "1"}, nil},
		"null deletes":              {`template: {spec: {serviceAccountName: null}}`, DeploymentLists, []string{"template", "spec", "serviceAccountName"}, nil},
		"a list without keys":       {`template: {spec: {tolerations: []}}`, DeploymentLists, []string{"template", "spec", "tolerations"}, []any{}},
		"a Rollout beside template": {`{strategy: {canary: {steps: [{setWeight: 5}]}}, template: {metadata: {labels: {a: b}}}}`, RolloutLists, []string{"strategy", "canary", "steps"}, []any{map[string]any{"setWeight": int64(5)}}},
		"null for a template":       {`{template: null}`, RolloutLists, []string{"template"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Strategic(object(t, twoContainers), object(t, test.override), test.lists)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, at(got, test.path...)); diff != "" {
				t.Errorf("%v (-want +got):\n%s", test.path, diff)
			}
		})
	}
}

// at is what is found below; nil for nothing.
func at(value any, path ...string) any {
	for _, name := range path {
		switch v := value.(type) {
		case map[string]any:
			value = v[name]
		case []any:
			i := int(name[0] - '0')
			if i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}

// What becomes one with another element than it may be meant for, and what not: left is what Strategic makes of the list.
func TestAmbiguous(t *testing.T) {
	const several, ofOverride, ofProtocol = "the first alone", "the override before it", "whose protocol is"
	for name, test := range map[string]struct{ base, override, left, at, what string }{
		"several of the base":     {`env: [{name: A, value: "1"}, {name: A, value: "2"}]`, `env: [{name: A, value: "3"}]`, `[{name: A, value: "3"}, {name: A, value: "2"}]`, "env[0]", several},
		"two of the override":     {`env: [{name: B}]`, `env: [{name: A, value: "1"}, {name: A, value: "2"}]`, `[{name: A, value: "2"}, {name: B}]`, "env[1]", ofOverride},
		"two, of one of the base": {`env: [{name: A}]`, `env: [{name: A, value: "1"}, {name: A, value: "2"}]`, `[{name: A, value: "2"}]`, "env[1]", ofOverride},
		"two, of no list":         {`image: x`, `env: [{name: A, value: "1"}, {name: A, value: "2"}]`, `[{name: A, value: "1"}, {name: A, value: "2"}]`, "", ""},
		"two that replace":        {`env: [{name: B}]`, `env: [{name: A, value: "1"}, {name: A, value: "2"}, {$patch: replace}]`, `[{name: A, value: "1"}, {name: A, value: "2"}]`, "", ""},
		"taken out and put back":  {`env: [{name: A, value: "1"}, {name: B}]`, `env: [{name: A, $patch: delete}, {name: A, value: "2"}]`, `[{name: A, value: "2"}, {name: B}]`, "", ""},
		"several, taken out":      {`env: [{name: A, value: "1"}, {name: A, value: "2"}]`, `env: [{name: A, value: "3"}, {name: A, $patch: delete}]`, `[{name: A, value: "3"}]`, "", ""},
		"a port, taken out":       {`ports: [{containerPort: 80, name: http}]`, `ports: [{containerPort: 80, $patch: delete}, {containerPort: 80, protocol: UDP}]`, `[{containerPort: 80, protocol: UDP}]`, "", ""},
		"two others":              {`env: [{name: B}]`, `env: [{name: A}, {name: C}]`, `[{name: A}, {name: C}, {name: B}]`, "", ""},
		"two protocols":           {`ports: [{containerPort: 80}]`, `ports: [{containerPort: 53, protocol: UDP}, {containerPort: 53, protocol: TCP}]`, `[{containerPort: 53, protocol: TCP}, {containerPort: 80}]`, "ports[1]", ofOverride},
		"another protocol":        {`ports: [{containerPort: 80, name: http, protocol: TCP}]`, `ports: [{containerPort: 80, name: quic, protocol: UDP}]`, `[{containerPort: 80, name: quic, protocol: UDP}]`, "ports[0]", ofProtocol + " TCP and not UDP"},
		"another than by default": {`ports: [{containerPort: 80}]`, `ports: [{containerPort: 80, protocol: UDP}]`, `[{containerPort: 80, protocol: UDP}]`, "ports[0]", ofProtocol + " TCP and not UDP"},
		"the default":             {`ports: [{containerPort: 53, protocol: UDP}]`, `ports: [{containerPort: 53, name: dns}]`, `[{containerPort: 53, name: dns, protocol: UDP}]`, "ports[0]", ofProtocol + " UDP and not TCP"},
		"the same protocol":       {`ports: [{containerPort: 53, protocol: UDP}]`, `ports: [{containerPort: 53, name: dns, protocol: UDP}]`, `[{containerPort: 53, name: dns, protocol: UDP}]`, "", ""},
		"the same by default":     {`ports: [{containerPort: 80, protocol: TCP}]`, `ports: [{containerPort: 80, name: http}]`, `[{containerPort: 80, name: http, protocol: TCP}]`, "", ""},
		"another number":          {`ports: [{containerPort: 80}]`, `ports: [{containerPort: 81, protocol: UDP}]`, `[{containerPort: 81, protocol: UDP}, {containerPort: 80}]`, "", ""},
		"a port that goes":        {`ports: [{containerPort: 80}, {containerPort: 81}]`, `ports: [{containerPort: 80, protocol: UDP, $patch: delete}]`, `[{containerPort: 81}]`, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			of := func(container string) map[string]any {
				return object(t, `{template: {spec: {containers: [{name: web, `+container+`}]}}}`)
			}
			base, override := of(test.base), of(test.override)
			const web = "template.spec.containers[0]."
			for _, lists := range []Lists{DeploymentLists, StatefulSetLists, RolloutLists} {
				at, what := Ambiguous(base, override, lists)
				if at != strings.TrimSuffix(web+test.at, web) || !strings.Contains(what, test.what) || (at == "") != (what == "") {
					t.Errorf("it is %q, which %q", at, what)
				}
			}
			merged, err := Strategic(base, override, DeploymentLists)
			if err != nil {
				t.Fatal(err)
			}
			field, _, _ := strings.Cut(test.override, ":")
			list := []string{"template", "spec", "containers", "0", field}
			if diff := cmp.Diff(at(of(field+": "+test.left), list...), at(merged, list...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// An error names where, and never what: the value of a variable may be a secret.
func TestStrategicErrors(t *testing.T) {
	for override, want := range map[string]string{
		`template: {spec: {containers: [{name: web}, {image: canary}]}}`:                                      "template.spec.containers[1] needs its name",
		`template: {spec: {containers: [{name: web, env: [{value: canary}]}]}}`:                               "template.spec.containers[0].env[0] needs its name",
		`template: {spec: {containers: [canary]}}`:                                                            "template.spec.containers[0] must be an object",
		`template: {spec: {containers: [{name: web, env: [{name: MODE, $patch: canary}]}]}}`:                  "no strategic merge patch",
		`template: {spec: {containers: [{name: {canary: x}}]}}`:                                               "template.spec.containers[0].name, by which the list is merged, must be no object",
		`template: {spec: {containers: [{name: [canary]}]}}`:                                                  "template.spec.containers[0].name, by which the list is merged, must be no object",
		`template: {spec: {containers: [{name: web, $retainKeys: [{canary: x}]}]}}`:                           "no strategic merge patch",
		`template: {spec: {containers: [{name: web, args: [a, b], "$setElementOrder/args": [{canary: x}]}]}}`: "no strategic merge patch",
		`template: {spec: {containers: [{name: web, args: [canary], "$deleteFromPrimitiveList/args": [a]}]}}`: "template.spec.containers[0].args and its $deleteFromPrimitiveList exclude each other",
		`{template: {$patch: canary}}`:                                                                        "no strategic merge patch",
	} {
		for name, lists := range map[string]Lists{"Deployment": DeploymentLists, "Rollout": RolloutLists} {
			_, err := Strategic(object(t, twoContainers), object(t, override), lists)
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
				t.Errorf("%s: %s: %v, want %q", name, override, err, want)
			}
		}
	}
}

// maker makes JSON of few names and values, so that what is merged meets.
type maker struct{ *rand.Rand }

func (r maker) object(depth int) map[string]any {
	o := map[string]any{}
	for range r.IntN(4) {
		o[string(rune('a'+r.IntN(4)))] = r.value(depth - 1)
	}
	return o
}

func (r maker) value(depth int) any {
	kinds := 6
	if depth > 0 {
		kinds = 10
	}
	switch r.IntN(kinds) {
	case 0:
		return nil
	case 1:
		return r.IntN(2) == 0
	case 2:
		return int64(r.IntN(3))
	case 3:
		return 0.5
	case 4:
		return ""
	case 5:
		return "x"
	case 6, 7:
		list := make([]any, r.IntN(3))
		for i := range list {
			list[i] = r.value(depth - 1)
		}
		return list
	default:
		return r.object(depth)
	}
}

func (r maker) pick(values ...any) any { return values[r.IntN(len(values))] }

// one says yes once in n times.
func (r maker) one(n int) bool { return r.IntN(n) == 0 }

// workload makes the spec of a Deployment or StatefulSet, or an override of one.
func (r maker) workload(set, override bool) map[string]any {
	spec := map[string]any{"replicas": int64(r.IntN(3))}
	fields := map[string]any{"strategy": r.pick(
		map[string]any{"type": "Recreate"}, map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxSurge": r.pick(int64(1), "25%")}})}
	if set {
		fields = map[string]any{
			"serviceName":          r.pick("db", "peers"),
			"updateStrategy":       map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"partition": int64(r.IntN(3))}},
			"volumeClaimTemplates": []any{map[string]any{"metadata": map[string]any{"name": r.pick("data", "log")}, "spec": map[string]any{"accessModes": []any{r.pick("ReadWriteOnce", "ReadWriteMany")}}}},
			"ordinals":             map[string]any{"start": int64(r.IntN(3))},
		}
	}
	r.some(spec, fields, override)
	labels := map[string]any{"app": r.pick("web", "api")}
	spec["template"] = map[string]any{"metadata": map[string]any{"labels": labels}, "spec": r.pod(override)}
	return spec
}

// some puts some of the fields into an object, and of an override nulls.
func (r maker) some(into, fields map[string]any, override bool) {
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if r.one(3) {
			into[field] = fields[field]
		}
		if override && r.one(10) {
			into[field] = nil
		}
	}
}

func (r maker) pod(override bool) map[string]any {
	all := []any{}
	for _, name := range []string{"web", "proxy", "init"}[:1+r.IntN(3)] {
		switch {
		case r.one(3):
		case override && r.one(6):
			all = append(all, map[string]any{"name": name, "$patch": "delete"})
		default:
			all = append(all, r.container(name, override))
		}
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	pod := map[string]any{"containers": all}
	r.some(pod, map[string]any{
		"tolerations":               r.pick([]any{}, []any{map[string]any{"key": "spot"}}),
		"volumes":                   []any{map[string]any{"name": r.pick("v", "w"), "emptyDir": map[string]any{}}},
		"nodeSelector":              map[string]any{"zone": r.pick("a", "b")},
		"hostNetwork":               r.pick(true, false),
		"imagePullSecrets":          []any{map[string]any{"name": r.pick("p", "q")}},
		"hostAliases":               []any{map[string]any{"ip": r.pick("10.0.0.1", "10.0.0.2"), "hostnames": r.pick([]any{"a"}, []any{"b", "c"})}},
		"topologySpreadConstraints": []any{map[string]any{"topologyKey": r.pick("zone", "host"), "maxSkew": int64(1 + r.IntN(2))}},
		"initContainers":            []any{r.container("first", override)},
	}, override)
	return pod
}

// container makes one, of a source also with variables and ports that are there twice.
func (r maker) container(name string, override bool) map[string]any {
	one := func(value any) []any { return []any{map[string]any{"name": "A", "value": value}} }
	env := r.pick(one("1"), one("2"), []any{map[string]any{"name": "B", "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "metadata.name"}}}})
	ports := []any{map[string]any{"containerPort": r.pick(int64(53), int64(80)), "protocol": r.pick("TCP", "UDP")}}
	if !override && r.one(4) {
		env = append(one("1"), one("2")...)
		ports = []any{map[string]any{"containerPort": int64(53), "protocol": "TCP"}, map[string]any{"containerPort": int64(53), "protocol": "UDP"}}
	}
	c := map[string]any{"name": name, "image": r.pick("a:1", "a:2")}
	r.some(c, map[string]any{
		"env":          env,
		"ports":        ports,
		"args":         r.pick([]any{}, []any{"--a"}, []any{"--a", "--b"}),
		"resources":    map[string]any{"limits": map[string]any{"cpu": r.pick("1", "2")}},
		"volumeMounts": []any{map[string]any{"mountPath": r.pick("/a", "/b"), "name": "v"}},
		"envFrom":      []any{map[string]any{"configMapRef": map[string]any{"name": r.pick("c", "d")}}},
	}, override)
	return c
}

// directed is an override that says how some of it is merged: in which order, which fields stay, and what is replaced
// or taken out of a list.
func (r maker) directed(set bool) map[string]any {
	o := r.workload(set, true)
	pod := o["template"].(map[string]any)["spec"].(map[string]any)
	all := pod["containers"].([]any)
	if r.one(3) {
		pod["$setElementOrder/containers"] = r.order(all)
	}
	if r.one(8) {
		pod["containers"] = append(all, map[string]any{"$patch": "replace"})
	}
	if r.one(4) {
		pod["volumes"] = []any{map[string]any{"name": r.pick("v", "w"), "$retainKeys": []any{"name", "configMap"}, "configMap": map[string]any{"name": "c"}}}
	}
	if r.one(4) {
		pod["nodeSelector"] = map[string]any{"$patch": r.pick("replace", "delete"), "disk": "fast"}
	}
	if r.one(4) && !set {
		o["strategy"] = map[string]any{"$retainKeys": []any{"type"}, "type": "Recreate"}
	}
	for _, c := range all {
		r.direct(c.(map[string]any))
	}
	return o
}

func (r maker) direct(container map[string]any) {
	if _, said := container["args"]; !said && r.one(4) { // beside args it depends on chance what comes out
		container["$deleteFromPrimitiveList/args"] = []any{r.pick("--a", "--b")}
	}
	if env, ok := container["env"].([]any); ok && r.one(3) {
		container["$setElementOrder/env"] = append([]any{map[string]any{"name": "B"}}, r.pick([]any{}, env).([]any)...)
	}
	if ports, ok := container["ports"].([]any); ok && r.one(6) {
		container["ports"] = append(ports, map[string]any{"$patch": "replace"})
	}
	if r.one(8) {
		container["resources"] = map[string]any{"$patch": "replace", "requests": map[string]any{"cpu": "1"}}
	}
}

// order is one of all names that containers have, with those of a list as they are there.
func (r maker) order(list []any) []any {
	var names []any
	for _, c := range list {
		names = append(names, map[string]any{"name": c.(map[string]any)["name"]})
	}
	for _, name := range []string{"web", "proxy", "init"} {
		named := map[string]any{"name": name}
		if !slices.ContainsFunc(names, func(have any) bool { return cmp.Equal(have, any(named)) }) {
			names = slices.Insert(names, r.IntN(len(names)+1), any(named))
		}
	}
	return names
}

// spoil makes an override that is mostly refused.
func (r maker) spoil(o map[string]any) {
	pod := o["template"].(map[string]any)["spec"].(map[string]any)
	switch r.IntN(7) {
	case 0:
		pod["containers"] = []any{map[string]any{"image": "a:3"}}
	case 1:
		pod["containers"] = []any{"web"}
	case 2:
		pod["nodeSelector"] = map[string]any{"$patch": "mend"}
	case 3:
		pod["containers"], pod["$setElementOrder/containers"] = []any{map[string]any{"name": "web"}, map[string]any{"name": "proxy"}}, []any{map[string]any{"name": "proxy"}, map[string]any{"name": "web"}}
	case 4:
		pod["volumes"] = []any{map[string]any{"name": r.pick("v", "w"), "$retainKeys": []any{"name"}, "configMap": map[string]any{"name": "c"}}}
	case 5:
		pod["containers"] = []any{map[string]any{"name": r.pick("web", "proxy"), "$patch": "merge"}}
	case 6:
		pod["$setElementOrder/volumes"] = "v"
	}
}

func encode(t testing.TB, value any) []byte {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// withoutNulls drops the nulls of objects, and no elements of lists.
func withoutNulls(value any) any {
	switch v := value.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(_ string, below any) bool { return below == nil })
		for _, below := range v {
			withoutNulls(below)
		}
	case []any:
		for _, below := range v {
			withoutNulls(below)
		}
	}
	return value
}

// withoutNullsInLists drops those of objects in lists.
func withoutNullsInLists(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for _, below := range v {
			withoutNullsInLists(below)
		}
	case []any:
		withoutNulls(v)
	}
	return value
}

func TestReplaceIsRFC7386(t *testing.T) {
	r, known := maker{random.New(t, 0)}, 0
	for range *random.Cases {
		base, override := r.object(4), r.object(4)
		got, err := Replace(base, override)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := jsonpatch.MergePatch(encode(t, base), encode(t, override))
		if err != nil {
			t.Fatal(err)
		}
		want, err := Decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		if reflect.DeepEqual(want, got) { // cmp takes ten times as long
			continue
		}
		if cmp.Equal(withoutNullsInLists(runtime.DeepCopyJSON(want)), withoutNullsInLists(runtime.DeepCopyJSON(got))) {
			known++
			continue
		}
		t.Fatalf("%s with %s (-evanphx +ours):\n%s", encode(t, base), encode(t, override), cmp.Diff(want, got))
	}
	t.Logf("%d cases; in %d of them evanphx drops nulls of objects in lists", *random.Cases, known)
}

// kubectl merges as it does, and the API server, by the types of a spec. What it is given it changes.
func kubectl(base, override map[string]any, spec any) (map[string]any, error) {
	return strategicpatch.StrategicMergeMapPatch(runtime.DeepCopyJSON(base), runtime.DeepCopyJSON(override), spec)
}

// hasNulls says whether an object anywhere in a value has one.
func hasNulls(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		for _, below := range v {
			if below == nil || hasNulls(below) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, hasNulls)
	}
	return false
}

// The differences that are known, each as it is: nulls, which an API server drops anyway.
func TestKnownDifferences(t *testing.T) {
	evanphx := func(t *testing.T, base, override map[string]any) (ours, theirs map[string]any, err error) {
		raw, err := jsonpatch.MergePatch(encode(t, base), encode(t, override))
		if err != nil {
			t.Fatal(err)
		}
		if theirs, err = Decode(raw); err != nil {
			t.Fatal(err)
		}
		ours, err = Replace(base, override)
		return ours, theirs, err
	}
	strategic := func(t *testing.T, base, override map[string]any) (ours, theirs map[string]any, err error) {
		if theirs, err = kubectl(base, override, appsv1.DeploymentSpec{}); err != nil {
			t.Fatal(err)
		}
		ours, err = Strategic(base, override, DeploymentLists)
		return ours, theirs, err
	}
	const one, pods = `template: {spec: {containers: [{name: web}]}}`, `template: {spec: {containers: [`
	for name, test := range map[string]struct {
		merge                        func(t *testing.T, base, override map[string]any) (ours, theirs map[string]any, err error)
		base, override, ours, theirs string
	}{
		"evanphx: a null of an object in a list":  {evanphx, `{}`, `{a: [{b: null, c: 1}, null]}`, `{a: [{b: null, c: 1}, null]}`, `{a: [{c: 1}, null]}`},
		"kubectl: a null in a new container":      {strategic, one, pods + `{name: new, image: null}, {name: web}]}}`, pods + `{name: new}, {name: web}]}}`, pods + `{name: new, image: null}, {name: web}]}}`},
		"kubectl: a null in a list without a key": {strategic, `template: {spec: {tolerations: [{key: a}]}}`, `template: {spec: {tolerations: [{key: b, value: null}]}}`, `template: {spec: {tolerations: [{key: b}]}}`, `template: {spec: {tolerations: [{key: b, value: null}]}}`},
		"kubectl: a null that was there":          {strategic, `{a: null, replicas: 1}`, `{replicas: 2}`, `{replicas: 2}`, `{a: null, replicas: 2}`},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs, err := test.merge(t, object(t, test.base), object(t, test.override))
			if diff := cmp.Diff(object(t, test.ours), ours) + cmp.Diff(object(t, test.theirs), theirs); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// comparison is of what Strategic and kubectl make of the same.
type comparison struct {
	known, refused int
}

// with sees that Strategic makes what kubectl has made, or refused; of a Rollout that is the template.
func (c *comparison) with(t *testing.T, base, override map[string]any, lists Lists, want map[string]any, err error) {
	t.Helper()
	got, ours := Strategic(base, override, lists)
	if lists.field != "" {
		got, _ = got[lists.field].(map[string]any)
	}
	switch {
	case err != nil && ours != nil:
		c.refused++
		return
	case reflect.DeepEqual(want, got):
	case hasNulls(want) && !hasNulls(got):
		c.known++
		withoutNulls(want)
	}
	if !reflect.DeepEqual(want, got) || err != nil || ours != nil {
		t.Fatalf("by the lists of %v %s with %s (-kubectl +ours): %v, %v\n%s", lists.meta, encode(t, base), encode(t, override), err, ours, cmp.Diff(want, got))
	}
}

// What kubectl refuses is refused, and what it does is done, but for nulls (TestKnownDifferences).
func TestStrategicIsThatOfKubectl(t *testing.T) {
	var c comparison
	r := maker{random.New(t, 1)}
	for range *random.Cases {
		set := r.one(2)
		base, override := r.workload(set, false), r.directed(set)
		if r.one(10) {
			r.spoil(override)
		}
		k := kinds["Deployment"]
		if set {
			k = kinds["StatefulSet"]
		}
		want, err := kubectl(base, override, k.spec())
		c.with(t, base, override, k.Lists, want, err)
		if r.one(4) { // the template of a Rollout is that of any other
			want, err := kubectl(base["template"].(map[string]any), override["template"].(map[string]any), corev1.PodTemplateSpec{})
			c.with(t, base, override, RolloutLists, want, err)
		}
	}
	t.Logf("%d cases; in %d of them kubectl leaves nulls in lists, and %d are refused by both", *random.Cases, c.known, c.refused)
	if c.refused < *random.Cases/100 || c.refused > *random.Cases/4 {
		t.Errorf("%d of %d cases were refused: the generator makes too few of them, or too many", c.refused, *random.Cases)
	}
}

// laws are what holds for any merge; what came of it is returned, nil for nothing. repeats says of that whether merging
// again must change nothing.
func laws(t *testing.T, base, override map[string]any, merge func(base, override map[string]any) (map[string]any, error), repeats func(merged map[string]any) bool) map[string]any {
	t.Helper()
	baseBefore, overrideBefore := runtime.DeepCopyJSON(base), runtime.DeepCopyJSON(override)
	must := func(name string, want, got any, err error) {
		t.Helper()
		if err != nil || !reflect.DeepEqual(want, got) {
			t.Fatalf("%s: %s with %s: %v (-want +got):\n%s", name, encode(t, baseBefore), encode(t, overrideBefore), err, cmp.Diff(want, got))
		}
	}
	once, err := merge(base, override)
	must("c4 the base is not changed", baseBefore, base, nil)
	must("c4 the override is not changed", overrideBefore, override, nil)
	if base != nil {
		same, err := merge(base, map[string]any{})
		must("identity", base, same, err)
	}
	if err != nil {
		return nil // and there is nothing that another law could speak of
	}
	again, err := merge(base, override)
	must("c2 another time it is the same", once, again, err)
	if repeats(once) {
		twice, err := merge(once, override)
		must("idempotence", once, twice, err)
	}
	read, err := Decode(encode(t, once))
	must("c3 what JSON can say", once, read, err)
	kept := runtime.DeepCopyJSON(once)
	scribble(base)
	scribble(override)
	must("c4 nothing is shared", kept, once, nil)
	return once
}

// always is for merges of which every one can be repeated.
func always(map[string]any) bool { return true }

// of is a kind whose lists are merged by keys.
type of struct {
	Lists
	spec func() any
}

var kinds = map[string]of{
	"Deployment":  {DeploymentLists, func() any { return &appsv1.DeploymentSpec{} }},
	"StatefulSet": {StatefulSetLists, func() any { return &appsv1.StatefulSetSpec{} }},
	"Rollout": {RolloutLists, func() any {
		return &struct {
			Template corev1.PodTemplateSpec `json:"template"`
		}{}
	}},
}

// laws are those of Strategic. Not every merge can be repeated, nor is there all that the override says: what is no
// spec of the kind is merged as far as it goes (and refused by who looks at it strictly), and of elements of one key the
// last counts.
func (k of) laws(t *testing.T, base, override map[string]any) (all bool) {
	t.Helper()
	before := runtime.DeepCopyJSON(override)
	at := func(o map[string]any) map[string]any {
		below, _ := o[k.field].(map[string]any)
		if k.field == "" {
			return o
		}
		return below
	}
	fits := func(o map[string]any) bool {
		strict, err := kjson.UnmarshalStrict(encode(t, o), k.spec())
		return err == nil && !slices.ContainsFunc(strict, func(e error) bool { return k.field == "" || strings.Contains(e.Error(), `"`+k.field) })
	}
	whole := k.field == "" || at(base) != nil && at(override) != nil
	merged := laws(t, base, override, func(base, override map[string]any) (map[string]any, error) { return Strategic(base, override, k.Lists) }, func(once map[string]any) bool {
		all = whole && fits(once) && keyed(at(override), k.meta)
		return all
	})
	if whole && hasNulls(at(merged)) {
		t.Fatalf("%s is left with nulls: %s", encode(t, before), encode(t, merged))
	}
	if all {
		k.rightBias(t, at(before), at(merged), k.meta)
	}
	return all
}

// keyed says whether every element of lists that merge by a key has one of its own.
func keyed(override map[string]any, meta strategicpatch.LookupPatchMeta) bool {
	for name, value := range override {
		switch v := value.(type) {
		case map[string]any:
			if below, _, err := meta.LookupPatchMetadataForStruct(name); err == nil && !keyed(v, below) {
				return false
			}
		case []any:
			key, below := keyOf(meta, name)
			if key != "" && !keyedAll(v, key, below) {
				return false
			}
		}
	}
	return true
}

func keyedAll(list []any, key string, meta strategicpatch.LookupPatchMeta) bool {
	seen := map[any]bool{}
	for _, e := range list {
		o, _ := e.(map[string]any)
		switch id := o[key].(type) {
		case string, int64:
			if seen[id] {
				return false
			}
			seen[id] = true
		default:
			if o["$patch"] != "replace" {
				return false
			}
		}
		if !keyed(o, meta) {
			return false
		}
	}
	return true
}

// keyOf is the key that a list merges by, and what is known of its elements; empty if it does not.
func keyOf(meta strategicpatch.LookupPatchMeta, name string) (string, strategicpatch.LookupPatchMeta) {
	below, list, err := meta.LookupPatchMetadataForSlice(name)
	if err != nil || !slices.Contains(list.GetPatchStrategies(), "merge") {
		return "", nil
	}
	return list.GetPatchMergeKey(), below
}

// rightBias: whatever the override says that is no null and no directive is so, in lists that have keys in the element
// of the key.
func (k of) rightBias(t *testing.T, override, merged map[string]any, meta strategicpatch.LookupPatchMeta) {
	t.Helper()
	if override["$patch"] != nil {
		return
	}
	for name, value := range override {
		_, reduced := override["$deleteFromPrimitiveList/"+name]
		_, ordered := override["$setElementOrder/"+name]
		if strings.HasPrefix(name, "$") || reduced {
			continue
		}
		got, there := merged[name]
		switch v := value.(type) {
		case nil:
			if there {
				t.Fatalf("%s is null and there: %v", name, got)
			}
		case map[string]any:
			object, ok := got.(map[string]any)
			if !ok && v["$patch"] == nil {
				t.Fatalf("%s is no object: %v", name, got)
			}
			below, _, err := meta.LookupPatchMetadataForStruct(name)
			switch {
			case err == nil:
				k.rightBias(t, v, object, below)
			case v["$patch"] == nil || there: // a directive alone leaves nothing of a field that the kind does not have
				t.Fatal(err)
			}
		case []any:
			k.rightBiasOfList(t, name, v, got, meta, ordered)
		default:
			if !reflect.DeepEqual(v, got) {
				t.Fatalf("%s is %v, not %v", name, got, v)
			}
		}
	}
}

func (k of) rightBiasOfList(t *testing.T, name string, list []any, got any, meta strategicpatch.LookupPatchMeta, ordered bool) {
	t.Helper()
	merged, ok := got.([]any)
	if !ok {
		t.Fatalf("%s is no list: %v", name, got)
	}
	key, below := keyOf(meta, name)
	if key == "" {
		_, patched, err := meta.LookupPatchMetadataForSlice(name)
		added := err == nil && slices.Contains(patched.GetPatchStrategies(), "merge")
		want := withoutNulls(runtime.DeepCopyJSONValue(list))
		if !added && !ordered && !reflect.DeepEqual(want, withoutNulls(runtime.DeepCopyJSONValue(merged))) {
			t.Fatalf("%s is %v, not %v", name, merged, want)
		}
		return
	}
	for _, e := range list {
		o := e.(map[string]any)
		i := slices.IndexFunc(merged, func(e any) bool { return e.(map[string]any)[key] == o[key] })
		switch {
		case o["$patch"] != nil && o[key] != nil && i >= 0:
			t.Fatalf("%s of %v is still there", name, o[key])
		case o["$patch"] != nil:
		case i < 0:
			t.Fatalf("%s has no %v", name, o[key])
		default:
			k.rightBias(t, o, merged[i].(map[string]any), below)
		}
	}
}

// scribble changes everything in a value.
func scribble(value any) {
	switch v := value.(type) {
	case map[string]any:
		for _, below := range v {
			scribble(below)
		}
		v["scribbled"] = true
	case []any:
		for i := range v {
			scribble(v[i])
			v[i] = "scribbled"
		}
	}
}

// rightBias: whatever the override says that is no null is so.
func rightBias(t *testing.T, override map[string]any, merged any) {
	t.Helper()
	below, _ := merged.(map[string]any)
	for name, value := range override {
		got, there := below[name]
		switch v := value.(type) {
		case nil:
			if there {
				t.Fatalf("%s is null and there: %v", name, got)
			}
		case map[string]any:
			if _, ok := got.(map[string]any); !ok {
				t.Fatalf("%s is no object: %v", name, got)
			}
			rightBias(t, v, got)
		default:
			if !cmp.Equal(v, got) {
				t.Fatalf("%s is %v, not %v", name, got, v)
			}
		}
	}
}

func TestLaws(t *testing.T) {
	t.Run("Replace", func(t *testing.T) {
		r := maker{random.New(t, 2)}
		for range *random.Cases / 4 {
			base, override := r.object(4), r.object(4)
			before := runtime.DeepCopyJSON(override)
			rightBias(t, before, laws(t, base, override, Replace, always))
		}
	})
	for name, k := range kinds {
		t.Run(name, func(t *testing.T) {
			r, all := maker{random.New(t, 3)}, 0
			for range *random.Cases / 4 {
				set := name == "StatefulSet"
				if k.laws(t, r.workload(set, false), r.directed(set)) {
					all++
				}
			}
			if all < *random.Cases/4/3 {
				t.Errorf("of %d cases %d say all laws", *random.Cases/4, all)
			}
		})
	}
}

// seeds are bases and overrides.
func seeds(f *testing.F) {
	base, err := yaml.YAMLToJSON([]byte(twoContainers))
	if err != nil {
		f.Fatal(err)
	}
	for _, override := range []string{
		`{}`, `{"replicas":0}`, `{"template":null}`, `{"template":{"spec":{"containers":[{"name":"web","image":"x"}]}}}`, `{"template":{"spec":{"containers":[{"name":"web","$patch":"delete"}]}}}`,
		`{"template":{"spec":{"containers":[{"name":"web","args":[null],"image":null},{"name":"new","env":[{"name":"A","value":null}]}],"volumes":[]}}}`, `{"template":{"spec":{"containers":[{"$patch":"replace"},{"name":"new"}]}}}`,
		`{"template":{"spec":{"nodeSelector":{"$patch":"replace"},"securityContext":{"$patch":"delete"},"volumes":[{"name":"config","$retainKeys":["name","emptyDir"],"emptyDir":{}}]}}}`,
		`{"template":{"spec":{"containers":[{"name":"web","$deleteFromPrimitiveList/args":[":8080"],"$setElementOrder/env":[{"name":"TOKEN"},{"name":"MODE"}]}]}}}`, `{"volumeClaimTemplates":[{"metadata":{"name":"data"}}],"updateStrategy":{"rollingUpdate":{"partition":1}}}`,
		`{"template":{"spec":{"containers":[{"image":"x"}]}}}`, `{"template":{"spec":{"containers":[{"name":"web","$patch":"merge"}]}}}`, `{"template":null,"strategy":null,"x":1.0}`,
		`{"template":{"spec":{"$setElementOrder/containers":[{"name":"proxy"},{"name":"web"}]}}}`, `{"template":{"spec":{"$deleteFromPrimitiveList/finalizers":["a"]}}}`, `{"strategy":{"$retainKeys":["type"],"type":"Recreate"}}`,
	} {
		f.Add(base, []byte(override))
		f.Add([]byte(override), base)
	}
}

// decoded are a base and an override as they are after another way through JSON, in which 1.0 is 1.
func decoded(t *testing.T, rawBase, rawOverride []byte) (base, override map[string]any, ok bool) {
	t.Helper()
	all := make([]map[string]any, 2)
	for i, raw := range [][]byte{rawBase, rawOverride} {
		o, err := Decode(raw)
		if err != nil {
			return nil, nil, false
		}
		if all[i], err = Decode(encode(t, o)); err != nil {
			t.Fatal(err)
		}
	}
	return all[0], all[1], true
}

func FuzzReplace(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, rawBase, rawOverride []byte) {
		base, override, ok := decoded(t, rawBase, rawOverride)
		if !ok {
			return
		}
		before := runtime.DeepCopyJSON(override)
		merged := laws(t, base, override, Replace, always)
		if merged == nil {
			t.Fatal("it is refused")
		}
		rightBias(t, before, merged)
	})
}

func FuzzStrategic(f *testing.F) {
	seeds(f)
	f.Add([]byte(`{"template": {"spec": {}}}`), []byte(`{"template": {"spec": {"nodeSelektor": {"$patch": "replace"}}}}`))
	f.Fuzz(func(t *testing.T, rawBase, rawOverride []byte) {
		for _, k := range kinds {
			base, override, ok := decoded(t, rawBase, rawOverride)
			if !ok {
				return
			}
			withoutNulls(base) // that it drops them is a known difference
			k.laws(t, base, override)
		}
	})
}

func BenchmarkReplace(b *testing.B) {
	base, override := object(b, twoContainers), object(b, `{replicas: 1, template: {metadata: {labels: {track: canary}}, spec: {containers: [{name: web, image: "web:2"}], serviceAccountName: null}}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Replace(base, override); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReplaceByEvanphx(b *testing.B) {
	base, override := object(b, twoContainers), object(b, `{replicas: 1, template: {metadata: {labels: {track: canary}}, spec: {containers: [{name: web, image: "web:2"}], serviceAccountName: null}}}`)
	b.ReportAllocs()
	for b.Loop() { // from maps to maps, as ours
		raw, err := jsonpatch.MergePatch(encode(b, base), encode(b, override))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := Decode(raw); err != nil {
			b.Fatal(err)
		}
	}
}

const oneImage = `{replicas: 1, template: {spec: {containers: [{name: web, image: "web:2", env: [{name: MODE, value: test}]}]}}}`

func BenchmarkStrategic(b *testing.B) {
	base, override := object(b, twoContainers), object(b, oneImage)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Strategic(base, override, DeploymentLists); err != nil {
			b.Fatal(err)
		}
	}
}

// What it changes it was given, so it needs copies, too.
func BenchmarkStrategicByKubectl(b *testing.B) {
	base, override := object(b, twoContainers), object(b, oneImage)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := strategicpatch.StrategicMergeMapPatch(runtime.DeepCopyJSON(base), runtime.DeepCopyJSON(override), appsv1.DeploymentSpec{}); err != nil {
			b.Fatal(err)
		}
	}
}

// What the lists merge by is what the API server merges by.
func TestLists(t *testing.T) {
	_, containers, err := RolloutLists.meta.LookupPatchMetadataForStruct("spec")
	if err != nil || slices.Contains(containers.GetPatchStrategies(), "merge") {
		t.Errorf("%v, %v", containers, err)
	}
}
