package merge

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"
)

var cases = flag.Int("cases", 5_000, "how many random cases are compared with other implementations")

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
	for raw, want := range map[string]string{
		`{}`:                           "",
		`{"a": {"b": [1, 1.5, null]}}`: "",
		`null`:                         "must be an object",
		`[]`:                           "must be an object",
		`"x"`:                          "must be an object",
		`3`:                            "must be an object",
		``:                             "decoding",
		`{`:                            "decoding",
		`{"a": 1, "a": 2}`:             "duplicate field",
	} {
		o, err := Decode([]byte(raw))
		if want == "" && (err != nil || o == nil) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s is %v, %v; want %q", raw, o, err, want)
		}
	}
	o, err := Decode([]byte(`{"whole": 9007199254740993, "part": 0.5}`))
	if err != nil || o["whole"] != int64(9007199254740993) || o["part"] != 0.5 {
		t.Errorf("numbers are %v, %v", o, err)
	}
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

// An error names where, and never what: the value of a variable may be a secret.
func TestStrategicErrors(t *testing.T) {
	for override, want := range map[string]string{
		`template: {spec: {containers: [{name: web}, {image: canary}]}}`:                     "template.spec.containers[1] needs its name",
		`template: {spec: {containers: [{name: web, env: [{value: canary}]}]}}`:              "template.spec.containers[0].env[0] needs its name",
		`template: {spec: {containers: [canary]}}`:                                           "template.spec.containers[0] must be an object",
		`template: {spec: {containers: [{name: web, env: [{name: MODE, $patch: canary}]}]}}`: "no strategic merge patch",
		`{template: {$patch: canary}}`:                                                       "no strategic merge patch",
	} {
		for name, lists := range map[string]Lists{"Deployment": DeploymentLists, "Rollout": RolloutLists} {
			_, err := Strategic(object(t, twoContainers), object(t, override), lists)
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
				t.Errorf("%s: %s: %v, want %q", name, override, err, want)
			}
		}
	}
}

// random makes JSON of few names and values, so that what is merged meets.
type random struct{ *rand.Rand }

func (r random) object(depth int) map[string]any {
	o := map[string]any{}
	for range r.IntN(4) {
		o[string(rune('a'+r.IntN(4)))] = r.value(depth - 1)
	}
	return o
}

func (r random) value(depth int) any {
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

// workload makes the spec of a Deployment, or an override of one.
func (r random) workload(override bool) map[string]any {
	pick := func(values ...any) any { return values[r.IntN(len(values))] }
	containers := []any{}
	for _, name := range []string{"web", "proxy", "init"}[:1+r.IntN(3)] {
		c := map[string]any{"name": name, "image": pick("a:1", "a:2")}
		for _, field := range []string{"env", "ports", "args", "resources", "volumeMounts"} {
			if r.IntN(3) > 0 {
				continue
			}
			c[field] = map[string]any{
				"env":          pick([]any{map[string]any{"name": "A", "value": pick("1", "2")}}, []any{map[string]any{"name": "B", "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "metadata.name"}}}}),
				"ports":        []any{map[string]any{"containerPort": pick(int64(80), int64(443)), "protocol": pick("TCP", "UDP")}},
				"args":         pick([]any{}, []any{"--a"}, []any{"--a", "--b"}),
				"resources":    map[string]any{"limits": map[string]any{"cpu": pick("1", "2")}},
				"volumeMounts": []any{map[string]any{"mountPath": pick("/a", "/b"), "name": "v"}},
			}[field]
			if override && r.IntN(5) == 0 {
				c[field] = nil
			}
		}
		if override && r.IntN(6) == 0 {
			c = map[string]any{"name": name, "$patch": "delete"}
		}
		if r.IntN(3) > 0 {
			containers = append(containers, c)
		}
	}
	pod := map[string]any{"containers": containers}
	for _, field := range []string{"tolerations", "volumes", "nodeSelector", "hostNetwork", "imagePullSecrets"} {
		if r.IntN(3) == 0 {
			pod[field] = map[string]any{
				"tolerations":      pick([]any{}, []any{map[string]any{"key": "spot"}}),
				"volumes":          []any{map[string]any{"name": pick("v", "w"), "emptyDir": map[string]any{}}},
				"nodeSelector":     map[string]any{"zone": pick("a", "b")},
				"hostNetwork":      pick(true, false),
				"imagePullSecrets": []any{map[string]any{"name": pick("p", "q")}},
			}[field]
		}
		if override && r.IntN(8) == 0 {
			pod[field] = nil
		}
	}
	return map[string]any{"replicas": int64(r.IntN(3)), "template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": pick("web", "api")}}, "spec": pod}}
}

func encode(t testing.TB, value any) []byte {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// evanphx drops the nulls in lists that are new: the one difference that is known.
func withoutNullsInLists(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, below := range v {
			v[name] = withoutNullsInLists(below)
		}
		return v
	case []any:
		out := []any{}
		for _, below := range v {
			if below != nil {
				out = append(out, withoutNulls(below))
			}
		}
		return out
	}
	return value
}

// withoutNulls drops those of objects, too, as it does below lists.
func withoutNulls(value any) any {
	if o, ok := value.(map[string]any); ok {
		for name, below := range o {
			if below == nil {
				delete(o, name)
			} else {
				o[name] = withoutNulls(below)
			}
		}
		return o
	}
	return withoutNullsInLists(value)
}

func TestReplaceIsRFC7386(t *testing.T) {
	seed := rand.Uint64()
	r, known := random{rand.New(rand.NewPCG(seed, 0))}, 0
	for range *cases {
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
		if cmp.Equal(want, got) {
			continue
		}
		if cmp.Equal(withoutNullsInLists(runtime.DeepCopyJSON(want)), withoutNullsInLists(runtime.DeepCopyJSON(got))) {
			known++
			continue
		}
		t.Fatalf("seed %d: %s with %s (-evanphx +ours):\n%s", seed, encode(t, base), encode(t, override), cmp.Diff(want, got))
	}
	t.Logf("%d cases; in %d of them evanphx drops nulls in lists", *cases, known)
}

// kubectl leaves nulls in new elements of lists: the one difference that is known.
func TestStrategicIsThatOfKubectl(t *testing.T) {
	seed := rand.Uint64()
	r, known := random{rand.New(rand.NewPCG(seed, 1))}, 0
	for range *cases {
		base, override := r.workload(false), r.workload(true)
		got, err := Strategic(base, override, DeploymentLists)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := strategicpatch.StrategicMergePatch(encode(t, base), encode(t, override), appsv1.DeploymentSpec{})
		if err != nil {
			t.Fatal(err)
		}
		want, err := Decode(raw)
		if !cmp.Equal(want, got) {
			known++
			dropNulls(want)
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("seed %d: %s with %s (-kubectl +ours): %v\n%s", seed, encode(t, base), encode(t, override), err, diff)
		}
		rollout, err := Strategic(base, override, RolloutLists)
		if diff := cmp.Diff(want["template"], rollout["template"]); err != nil || diff != "" {
			t.Fatalf("seed %d: a Rollout's template of %s with %s (-kubectl +ours): %v\n%s", seed, encode(t, base), encode(t, override), err, diff)
		}
	}
	t.Logf("%d cases; in %d of them kubectl leaves nulls in lists", *cases, known)
}

// laws are what holds for any merge.
func laws(t *testing.T, base, override map[string]any, merge func(base, override map[string]any) (map[string]any, error)) {
	t.Helper()
	baseBefore, overrideBefore := runtime.DeepCopyJSON(base), runtime.DeepCopyJSON(override)
	once, err := merge(base, override)
	if err != nil {
		return // and nothing is returned that a law could speak of
	}
	must := func(name string, want, got any) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s: %s with %s (-want +got):\n%s", name, encode(t, baseBefore), encode(t, overrideBefore), diff)
		}
	}
	must("the base is not changed", baseBefore, base)
	must("the override is not changed", overrideBefore, override)
	if base != nil {
		same, err := merge(base, map[string]any{})
		must("identity", base, same)
		if err != nil {
			t.Fatal(err)
		}
	}
	twice, err := merge(once, override)
	if err != nil {
		t.Fatal(err)
	}
	must("idempotence", once, twice)
	read, err := Decode(encode(t, once))
	if err != nil {
		t.Fatal(err)
	}
	must("what JSON can say", once, read)
	kept := runtime.DeepCopyJSON(once)
	scribble(base)
	scribble(override)
	must("nothing is shared", kept, once)
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
	r := random{rand.New(rand.NewPCG(rand.Uint64(), 2))}
	for range *cases / 4 {
		base, override := r.object(4), r.object(4)
		merged, err := Replace(base, override)
		if err != nil {
			t.Fatal(err)
		}
		rightBias(t, override, merged)
		laws(t, base, override, Replace)
		for _, lists := range []Lists{DeploymentLists, StatefulSetLists, RolloutLists} {
			laws(t, r.workload(false), r.workload(true), func(base, override map[string]any) (map[string]any, error) { return Strategic(base, override, lists) })
		}
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
		`{"template":{"spec":{"$setElementOrder/containers":[{"name":"proxy"},{"name":"web"}]}}}`, `{"template":{"spec":{"$deleteFromPrimitiveList/finalizers":["a"]}}}`, `{"strategy":{"$retainKeys":["type"],"type":"Recreate"}}`,
	} {
		f.Add(base, []byte(override))
		f.Add([]byte(override), base)
	}
}

func FuzzReplace(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, rawBase, rawOverride []byte) {
		base, err := Decode(rawBase)
		override, err2 := Decode(rawOverride)
		if err != nil || err2 != nil {
			return
		}
		merged, err := Replace(base, override)
		if err != nil {
			t.Fatal(err)
		}
		rightBias(t, override, merged)
		laws(t, base, override, Replace)
	})
}

func FuzzStrategic(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, rawBase, rawOverride []byte) {
		base, err := Decode(rawBase)
		override, err2 := Decode(rawOverride)
		if err != nil || err2 != nil {
			return
		}
		for _, lists := range []Lists{DeploymentLists, StatefulSetLists, RolloutLists} {
			before := runtime.DeepCopyJSON(override)
			if _, err := Strategic(base, override, lists); err == nil && !cmp.Equal(before, override) {
				t.Fatal("the override is changed")
			}
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
