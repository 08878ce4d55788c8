package experiment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/test/crds"
)

func chart(helm *v1alpha1.HelmSource) v1alpha1.ComponentSource {
	return v1alpha1.ComponentSource{RepoURL: "https://charts.example.com", Chart: "web", TargetRevision: "1", Helm: helm}
}

var (
	folder     = v1alpha1.ComponentSource{RepoURL: "https://git.example.com/lab.git", Path: "deploy", TargetRevision: "main"}
	valuesRepo = v1alpha1.ComponentSource{RepoURL: "https://git.example.com/values.git", TargetRevision: "main"}
)

func withParameters(parameters ...v1alpha1.HelmParameter) *v1alpha1.HelmSource {
	return &v1alpha1.HelmSource{Parameters: parameters}
}

func app(name string, params map[string]string) v1alpha1.ComponentRef {
	return v1alpha1.ComponentRef{App: name, Params: params}
}

// parametersIn are the parameters of every source, as name=value and a ! for forceString.
func parametersIn(sources []argocd.Source) [][]string {
	out := make([][]string, 0, len(sources))
	for _, s := range sources {
		var parameters []string
		if s.Helm != nil {
			for _, p := range s.Helm.Parameters {
				parameters = append(parameters, p.Name+"="+p.Value+map[bool]string{true: "!"}[p.ForceString])
			}
		}
		out = append(out, parameters)
	}
	return out
}

// resolve looks the references of a target up, in a catalogue of these.
func resolve(t v1alpha1.Target, components map[string]*v1alpha1.Component, fallback Fallback) ([]argocd.Source, []string, []*resolveError) {
	deployments, fallbacks, problems := catalogue{names{experimentOf(t), labOptions}, components, fallback}.resolve(t)
	return flat(deployments), fallbacks, problems
}

// flat are all sources of deployments.
func flat(deployments []deployment) (sources []argocd.Source) {
	for _, d := range deployments {
		sources = append(sources, d.all()...)
	}
	return sources
}

func TestNote43ResolveParameters(t *testing.T) {
	declared := func(p ...v1alpha1.ComponentParameter) []v1alpha1.ComponentParameter { return p }
	typed := func(name string, t v1alpha1.ParameterType) v1alpha1.ComponentParameter {
		return v1alpha1.ComponentParameter{Name: name, Type: t}
	}
	one := []v1alpha1.ComponentSource{chart(nil)}
	two := []v1alpha1.ComponentSource{
		chart(withParameters(v1alpha1.HelmParameter{Name: "b", Value: "1"}, v1alpha1.HelmParameter{Name: "a", Value: "1", ForceString: true})),
		chart(withParameters(v1alpha1.HelmParameter{Name: "b", Value: "2"}, v1alpha1.HelmParameter{Name: "c", Value: "2"})),
	}
	two[1].Chart = "other"
	tests := map[string]struct {
		sources  []v1alpha1.ComponentSource
		declared []v1alpha1.ComponentParameter
		params   map[string]string
		want     [][]string
		names    string // in the error
	}{
		"none":                    {one, nil, nil, [][]string{nil}, ""},
		"not declared":            {one, nil, map[string]string{"b": "2", "a": "1", "c.b": ""}, [][]string{{"a=1", "b=2", "c.b="}}, ""},
		"one in another":          {one, nil, map[string]string{"a": "1", "a.b": ""}, nil, "a and a.b set the same"},
		"in a list and the whole": {one, nil, map[string]string{"a[0].b": "1", "a[0]": ""}, nil, "a[0] and a[0].b set the same"},
		"a list and an object":    {one, nil, map[string]string{"a[0]": "1", "a.b": ""}, nil, "a.b and a[0] set the same"},
		"beside each other":       {one, nil, map[string]string{"a[0].b": "1", "a[0].c": "1", "a[1]": "1", "ab": "1"}, [][]string{{"a[0].b=1", "a[0].c=1", "a[1]=1", "ab=1"}}, ""},
		"in a default":            {one, declared(v1alpha1.ComponentParameter{Name: "a", Default: ptr.To("d")}), map[string]string{"a.b": "r"}, nil, "a and a.b set the same"},
		"a default in what is known": {one, declared(v1alpha1.ComponentParameter{Name: "a.b", Default: ptr.To("d")}, v1alpha1.ComponentParameter{Name: "a", From: v1alpha1.FromTarget}),
			nil, nil, "a and a.b set the same"},
		"in one of the source":         {two[:1], nil, map[string]string{"a.b": "r"}, nil, "a and a.b set the same"},
		"both of the source":           {[]v1alpha1.ComponentSource{chart(withParameters(v1alpha1.HelmParameter{Name: "a"}, v1alpha1.HelmParameter{Name: "a.b"}))}, nil, nil, nil, "a and a.b"},
		"default":                      {one, declared(v1alpha1.ComponentParameter{Name: "a", Default: ptr.To("d")}), nil, [][]string{{"a=d"}}, ""},
		"empty default":                {one, declared(v1alpha1.ComponentParameter{Name: "a", Default: ptr.To("")}), nil, [][]string{{"a="}}, ""},
		"over the default":             {one, declared(v1alpha1.ComponentParameter{Name: "a", Default: ptr.To("d")}), map[string]string{"a": "r"}, [][]string{{"a=r"}}, ""},
		"empty over the default":       {one, declared(v1alpha1.ComponentParameter{Name: "a", Default: ptr.To("d")}), map[string]string{"a": ""}, [][]string{{"a="}}, ""},
		"declared and not set":         {one, declared(typed("a", v1alpha1.ParameterInteger)), nil, [][]string{nil}, ""},
		"required":                     {one, declared(v1alpha1.ComponentParameter{Name: "a", Required: true}), map[string]string{"a": "r"}, [][]string{{"a=r"}}, ""},
		"required, with a default":     {one, declared(v1alpha1.ComponentParameter{Name: "a", Required: true, Default: ptr.To("d")}), nil, [][]string{{"a=d"}}, ""},
		"required and missing":         {one, declared(v1alpha1.ComponentParameter{Name: "z", Required: true}, v1alpha1.ComponentParameter{Name: "a", Required: true}), nil, nil, "a, z"},
		"string":                       {one, declared(typed("a", v1alpha1.ParameterString)), map[string]string{"a": "007"}, [][]string{{"a=007!"}}, ""},
		"integer":                      {one, declared(typed("a", v1alpha1.ParameterInteger)), map[string]string{"a": "-7"}, [][]string{{"a=-7"}}, ""},
		"no integer":                   {one, declared(typed("a", v1alpha1.ParameterInteger)), map[string]string{"a": "7.5"}, nil, "integer"},
		"number":                       {one, declared(typed("a", v1alpha1.ParameterNumber)), map[string]string{"a": "7.5e3"}, [][]string{{"a=7500"}}, ""},
		"too long for a number":        {one, declared(typed("a", v1alpha1.ParameterNumber)), map[string]string{"a": "1e400"}, nil, "number"},
		"too long for an integer":      {one, declared(typed("a", v1alpha1.ParameterInteger)), map[string]string{"a": "9223372036854775808"}, nil, "integer"},
		"no number":                    {one, declared(typed("a", v1alpha1.ParameterNumber)), map[string]string{"a": "seven"}, nil, "number"},
		"boolean":                      {one, declared(typed("a", v1alpha1.ParameterBoolean)), map[string]string{"a": "false"}, [][]string{{"a=false"}}, ""},
		"no boolean":                   {one, declared(typed("a", v1alpha1.ParameterBoolean)), map[string]string{"a": "True"}, nil, "boolean"},
		"a default of another type":    {one, declared(v1alpha1.ComponentParameter{Name: "a", Type: v1alpha1.ParameterInteger, Default: ptr.To("x")}), nil, nil, "integer"},
		"set in the source":            {two[:1], nil, map[string]string{"b": "r"}, [][]string{{"a=1!", "b=r"}}, ""},
		"stays a string":               {two[:1], nil, map[string]string{"a": "7"}, [][]string{{"a=7!", "b=1"}}, ""},
		"into every one that sets it":  {two, nil, map[string]string{"b": "r"}, [][]string{{"a=1!", "b=r"}, {"b=r", "c=2"}}, ""},
		"into the one that sets it":    {two, nil, map[string]string{"c": "r"}, [][]string{{"a=1!", "b=1"}, {"b=2", "c=r"}}, ""},
		"into one of several":          {two, nil, map[string]string{"d": "r"}, nil, "d could go to any of 2"},
		"into the only chart":          {[]v1alpha1.ComponentSource{folder, chart(nil)}, nil, map[string]string{"a": "r"}, [][]string{nil, {"a=r"}}, ""},
		"into a folder with a chart":   {[]v1alpha1.ComponentSource{{RepoURL: "r", Path: "p", Helm: &v1alpha1.HelmSource{}}}, nil, map[string]string{"a": "r"}, [][]string{{"a=r"}}, ""},
		"nowhere to go":                {[]v1alpha1.ComponentSource{folder}, nil, map[string]string{"a": "r"}, nil, "a has no Helm source to go to; set helm: {} on the Component's source whose path has the chart"},
		"a default with nowhere to go": {[]v1alpha1.ComponentSource{folder}, declared(v1alpha1.ComponentParameter{Name: "a", Default: ptr.To("d")}), nil, nil, "a has no Helm source to go to; set helm: {} on the Component's source whose path has the chart"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			component := &v1alpha1.Component{Spec: v1alpha1.ComponentSpec{Type: v1alpha1.ComponentApp, Sources: test.sources, Parameters: test.declared}}
			untouched := component.DeepCopy()
			target := v1alpha1.Target{Name: "main", Components: []v1alpha1.ComponentRef{app("web", test.params)}}
			sources, _, problems := resolve(target, map[string]*v1alpha1.Component{"web": component}, Fallback{})
			if test.want == nil {
				expectProblem(t, problems, v1alpha1.ReasonInvalidParameters, "Target main, app web: ", test.names)
				return
			}
			if problems != nil {
				t.Fatal(problems)
			}
			if diff := cmp.Diff(test.want, parametersIn(sources)); diff != "" {
				t.Errorf("parameters (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(untouched, component); diff != "" {
				t.Errorf("the Component of the cache (-before +after):\n%s", diff)
			}
		})
	}
}

// texts are values that Helm, or Argo CD, would read as something else.
var texts = []string{
	`^\d{1,3}(,\w+)*$`, `C:\logs`, `C:\`, `\\server\share`, `a\,b`, `a\\,b`, `a\\\,b`, "{app}", "{app", "{a},b={c}", `{a\}`, "{}", "}", "{{ .Release.Name }}",
	"a,b", "a,b=c", ",a", "a,,b", ",", ",,,", "a,", `\,`, `\`, "pa$word", "$x{a},b=c", "${HOME}$", "$$", `\$`, "$", `{"a": "b,c"}`, "line\nline, and another",
	"", " ", "=", "a=b,c=d", "[0]", "ä,ö", `"`, "'", "#", "007", "1e3", "-", "null", "true", "12", "0.5",
}

// What a Component declares as a string reaches the chart as it is, whoever has set it, and what it does not declare too, but for
// a list and what Helm has another type for.
func TestParametersArriveAsTheyAre(t *testing.T) {
	ref, want := v1alpha1.ComponentRef{Params: map[string]string{}}, map[string]any{}
	var declared []v1alpha1.ComponentParameter
	known := values{}
	for i, text := range texts {
		add := func(name string, kind v1alpha1.ParameterType, from v1alpha1.ParameterSource, fallback *string) {
			name += strconv.Itoa(i)
			declared, want[name] = append(declared, v1alpha1.ComponentParameter{Name: name, Type: kind, From: from, Default: fallback}), text
		}
		given := fmt.Sprintf("given%d", i)
		ref.Params[given] = text
		add("given", v1alpha1.ParameterString, "", nil)
		add("default", v1alpha1.ParameterString, "", &text)
		known[v1alpha1.ParameterSource(given)] = text
		add("known", v1alpha1.ParameterString, v1alpha1.ParameterSource(given), new(string))
		if !strings.HasPrefix(text, "{") {
			add("untyped", "", "", &text)
			ref.Params[fmt.Sprintf("undeclared%d", i)], want[fmt.Sprintf("undeclared%d", i)] = text, text
		}
	}
	want["list"], ref.Params["list"] = []any{"a,b", "c"}, `{a\,b,c}`
	helm := helmOf(t, ref, declared, known)
	// Each version of Argo CD 3 escapes commas by the first, and ones before by the second.
	before := regexp.MustCompile(`([^\\]),`)
	for name, escaped := range map[string]func(string) string{"now": escapedCommas, "before": func(v string) string { return before.ReplaceAllString(v, `$1\,`) }} {
		t.Run(name, func(t *testing.T) {
			got := rendered(t, helm, escaped)
			for name, value := range got {
				if typed, is := map[string]any{"null": nil, "true": true, "12": float64(12)}[fmt.Sprint(want[name])]; is && strings.HasPrefix(name, "un") {
					want[name] = typed
				}
				if diff := cmp.Diff(want[name], value); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
			}
			if missing := len(want) - len(got); missing != 0 {
				t.Errorf("%d more are wanted than there are", missing)
			}
		})
	}
}

// helmOf is what a chart is given of a reference.
func helmOf(t *testing.T, ref v1alpha1.ComponentRef, declared []v1alpha1.ComponentParameter, known values, set ...v1alpha1.HelmParameter) *argocd.Helm {
	t.Helper()
	ref.App = "web"
	component := &v1alpha1.Component{Spec: v1alpha1.ComponentSpec{
		Type: v1alpha1.ComponentApp, Sources: []v1alpha1.ComponentSource{chart(withParameters(set...))}, Parameters: declared,
	}}
	sources, err := resolveRef(ref, component, known, "web")
	if err != nil {
		t.Fatal(err.message)
	}
	return sources[0].Helm
}

// A number is one to the chart, also where Helm would read the text of a parameter as a string.
func TestNumbersArriveAsNumbers(t *testing.T) {
	ref, want := v1alpha1.ComponentRef{Params: map[string]string{}}, map[string]any{"beside": map[string]any{"c": "x"}, "list": []any{map[string]any{"rate": "0.5"}}}
	ref.Params["beside.c"], ref.Params["list[0].rate"] = "x", "0.5"
	declared := []v1alpha1.ComponentParameter{{Name: "list[0].rate", Type: v1alpha1.ParameterNumber}}
	for i, text := range []string{"0.5", "-0.05", "1e3", "7.50e3", "1e-7", "1e30", "10000000000000000000", "12", "-0.0", "9223372036854775807", "1.0"} {
		number, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		for name, into := range map[string]map[string]any{fmt.Sprintf("n%d", i): want, fmt.Sprintf("beside.n%d", i): want["beside"].(map[string]any)} {
			ref.Params[name], into[name[strings.Index(name, "n"):]] = text, number
			declared = append(declared, v1alpha1.ComponentParameter{Name: name, Type: v1alpha1.ParameterNumber})
		}
	}
	want["forced"], ref.Params["forced"] = "0.5", "0.5"
	declared = append(declared, v1alpha1.ComponentParameter{Name: "forced", Type: v1alpha1.ParameterNumber})
	helm := helmOf(t, ref, declared, values{}, v1alpha1.HelmParameter{Name: "forced", ForceString: true})
	if diff := cmp.Diff(want, rendered(t, helm, escapedCommas)); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	// What the server has of them is what is written, or it would be written again in every pass.
	written := argocd.Source{Helm: helm}.Object()
	encoded, err := json.Marshal(written)
	if err != nil {
		t.Fatal(err)
	}
	var stored map[string]any
	if err := utiljson.Unmarshal(encoded, &stored); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(written, stored); diff != "" {
		t.Errorf("the source (-written +stored):\n%s", diff)
	}
}

// escapedCommas is what Argo CD does to a value.
func escapedCommas(value string) string {
	var out strings.Builder
	var last rune
	for _, r := range value {
		if r == ',' && last != '\\' {
			out.WriteByte('\\')
		}
		out.WriteRune(r)
		last = r
	}
	return out.String()
}

// rendered are the values of a chart that Argo CD has Helm render.
func rendered(t *testing.T, helm *argocd.Helm, escaped func(string) string) (values map[string]any) {
	t.Helper()
	dir := t.TempDir()
	object, err := json.Marshal(helm.Values)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n", "values.yaml": "", "templates/values.json": "{{ toJson .Values }}",
		"object.yaml": string(object),
	} {
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "templates"), 0o755), os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"template", "web", dir, "--show-only=templates/values.json", "--values=" + filepath.Join(dir, "object.yaml")}
	for _, p := range helm.Parameters {
		value := os.Expand(p.Value, func(name string) string { return map[string]string{"$": "$"}[name] })
		if !strings.HasPrefix(value, "{") || !strings.HasSuffix(value, "}") {
			value = escaped(value)
		}
		args = append(args, map[bool]string{true: "--set-string", false: "--set"}[p.ForceString], p.Name+"="+value)
	}
	const program = "../../../bin/helm"
	if _, err := os.Stat(program); err != nil { // by which go test knows that it is another one
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), program, args...)
	command.Env = append(os.Environ(), "HOME="+dir)
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %+v", err, err)
	}
	_, document, _ := strings.Cut(string(out), "values.json\n")
	if err := json.Unmarshal([]byte(document), &values); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	return values
}

func expectProblem(t *testing.T, problems []*resolveError, reason string, parts ...string) {
	t.Helper()
	if len(problems) != 1 || problems[0].reason != reason {
		t.Fatalf("the problems are %v, want one with the reason %s", problems, reason)
	}
	for _, part := range parts {
		if !strings.Contains(problems[0].message, part) {
			t.Errorf("%q does not name %q", problems[0].message, part)
		}
	}
}

func TestResolveTellsAllProblems(t *testing.T) {
	e := experimentOf(v1alpha1.Target{Name: "main"})
	e.Spec.Targets[0].Components = []v1alpha1.ComponentRef{{App: "missing"}, {Config: "nginx"}}
	f := facts{experiment: e, names: names{experiment: e}, seen: Observed{Components: map[string]*v1alpha1.Component{"nginx": nginx()}}}
	_, step := f.resolve()
	if step.Reason != v1alpha1.ReasonComponentNotFound {
		t.Errorf("the reason is %s, want that of the first problem", step.Reason)
	}
	for _, name := range []string{"no Component missing exists", "Component nginx is of type app"} {
		if !strings.Contains(step.Message, name) {
			t.Errorf("%q does not tell: %s", step.Message, name)
		}
	}
}

func TestResolveSources(t *testing.T) {
	values := &v1alpha1.HelmSource{ReleaseName: "web", ValuesFiles: []string{"values.yaml", "$values/web.yaml", "x/$values/y"}}
	second := values.DeepCopy()
	second.ReleaseName = "second"
	component := func(kind v1alpha1.ComponentType, sources ...v1alpha1.ComponentSource) *v1alpha1.Component {
		return &v1alpha1.Component{Spec: v1alpha1.ComponentSpec{Type: kind, Sources: sources}}
	}
	components := map[string]*v1alpha1.Component{
		"web":     component(v1alpha1.ComponentApp, chart(values), valuesRepo),
		"a.b":     component(v1alpha1.ComponentApp, chart(values), valuesRepo),
		"a-b":     component(v1alpha1.ComponentApp, valuesRepo, chart(second)),
		"folder":  component(v1alpha1.ComponentConfig, folder),
		"orphan":  component(v1alpha1.ComponentApp, chart(values)),
		"two":     component(v1alpha1.ComponentApp, chart(values), valuesRepo, valuesRepo),
		"nothing": component(v1alpha1.ComponentApp, valuesRepo),
		"unused":  component(v1alpha1.ComponentApp, folder, valuesRepo),
	}
	chartOf := func(release, ref string) argocd.Source {
		return argocd.Source{RepoURL: "https://charts.example.com", Chart: "web", TargetRevision: "1", Helm: &argocd.Helm{
			ReleaseName: release, ValueFiles: []string{"values.yaml", "$" + ref + "/web.yaml", "x/$values/y"},
		}}
	}
	chartWith := func(ref string) argocd.Source { return chartOf("web", ref) }
	valuesAs := func(ref string) argocd.Source {
		return argocd.Source{RepoURL: "https://git.example.com/values.git", TargetRevision: "main", Ref: ref}
	}
	deploy := argocd.Source{RepoURL: "https://git.example.com/lab.git", Path: "deploy", TargetRevision: "main"}
	tests := map[string]struct {
		refs   []v1alpha1.ComponentRef
		want   []argocd.Source
		reason string
		names  string
	}{
		"note 17: values": {[]v1alpha1.ComponentRef{app("web", nil)}, []argocd.Source{chartWith("values-app-web"), valuesAs("values-app-web")}, "", ""},
		"in the order of the references": {
			[]v1alpha1.ComponentRef{{Config: "folder"}, app("web", nil)},
			[]argocd.Source{deploy, chartWith("values-app-web"), valuesAs("values-app-web")}, "", "",
		},
		"two with values": {
			[]v1alpha1.ComponentRef{app("a.b", nil), app("a-b", nil)},
			[]argocd.Source{chartWith("values-app-a_b"), valuesAs("values-app-a_b"), valuesAs("values-app-a-b"), chartOf("second", "values-app-a-b")}, "", "",
		},
		"note 17: values that nobody uses are not deployed": {[]v1alpha1.ComponentRef{app("unused", nil)}, []argocd.Source{deploy, valuesAs("values-app-unused")}, "", ""},
		"note 17: values from nowhere":                      {[]v1alpha1.ComponentRef{app("orphan", nil)}, nil, v1alpha1.ReasonInvalidComponent, "$values"},
		"values from two":                                   {[]v1alpha1.ComponentRef{app("two", nil)}, nil, v1alpha1.ReasonInvalidComponent, "only one can be $values"},
		"note 64: nothing but values":                       {[]v1alpha1.ComponentRef{app("nothing", nil)}, nil, v1alpha1.ReasonInvalidComponent, "nothing to deploy"},
		"another type":                                      {[]v1alpha1.ComponentRef{{Workflow: "web"}}, nil, v1alpha1.ReasonComponentTypeMismatch, "of type app"},
		"unknown":                                           {[]v1alpha1.ComponentRef{app("web", nil), app("missing", nil)}, nil, v1alpha1.ReasonComponentNotFound, "missing"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			sources, fallbacks, problems := resolve(v1alpha1.Target{Name: "main", Components: test.refs}, components, Fallback{Revision: "main"})
			if test.want == nil {
				expectProblem(t, problems, test.reason, "Target main", test.names)
				return
			}
			if problems != nil || fallbacks != nil {
				t.Fatalf("fallbacks %v, problems %v", fallbacks, problems)
			}
			if diff := cmp.Diff(test.want, sources); diff != "" {
				t.Errorf("sources (-want +got):\n%s", diff)
			}
		})
	}
}

// Argo CD calls the release of every source as the Application, so that two of one chart would be one, and says so nowhere but in a warning.
func TestSameReleases(t *testing.T) {
	named := func(name string, set ...v1alpha1.HelmParameter) *v1alpha1.HelmSource {
		return &v1alpha1.HelmSource{ReleaseName: name, Parameters: set}
	}
	inFolder := func(s v1alpha1.ComponentSource, helm *v1alpha1.HelmSource) v1alpha1.ComponentSource {
		s.Helm = helm
		return s
	}
	otherRevision, slash := chart(nil), chart(nil)
	otherRevision.TargetRevision, slash.RepoURL = "2", slash.RepoURL+"/"
	otherChart := chart(nil)
	otherChart.Chart = "db"
	for name, test := range map[string]struct {
		a, b   []v1alpha1.ComponentSource
		policy v1alpha1.ApplicationPolicy
		same   bool
	}{
		"one chart":                      {a: []v1alpha1.ComponentSource{chart(nil)}, b: []v1alpha1.ComponentSource{chart(named(""))}, same: true},
		"of another version":             {a: []v1alpha1.ComponentSource{chart(nil)}, b: []v1alpha1.ComponentSource{otherRevision}, same: true},
		"of one repository":              {a: []v1alpha1.ComponentSource{chart(nil)}, b: []v1alpha1.ComponentSource{slash}, same: true},
		"with one name":                  {a: []v1alpha1.ComponentSource{chart(named("x"))}, b: []v1alpha1.ComponentSource{folder, chart(named("x"))}, same: true},
		"with names":                     {a: []v1alpha1.ComponentSource{chart(named("x"))}, b: []v1alpha1.ComponentSource{chart(nil)}},
		"with names of the objects":      {a: []v1alpha1.ComponentSource{chart(named("", v1alpha1.HelmParameter{Name: "fullnameOverride", Value: "x"}))}, b: []v1alpha1.ComponentSource{chart(nil)}},
		"two charts":                     {a: []v1alpha1.ComponentSource{chart(nil)}, b: []v1alpha1.ComponentSource{otherChart}},
		"a folder twice":                 {a: []v1alpha1.ComponentSource{folder}, b: []v1alpha1.ComponentSource{folder}},
		"a chart in a folder":            {a: []v1alpha1.ComponentSource{inFolder(folder, named(""))}, b: []v1alpha1.ComponentSource{inFolder(folder, named(""))}, same: true},
		"with Applications of their own": {a: []v1alpha1.ComponentSource{chart(nil)}, b: []v1alpha1.ComponentSource{chart(nil)}, policy: v1alpha1.ApplicationPerComponent},
	} {
		t.Run(name, func(t *testing.T) {
			component := func(sources []v1alpha1.ComponentSource) *v1alpha1.Component {
				return &v1alpha1.Component{Spec: v1alpha1.ComponentSpec{Type: v1alpha1.ComponentApp, Sources: sources}}
			}
			target := v1alpha1.Target{Name: "main", ApplicationPolicy: test.policy, Components: []v1alpha1.ComponentRef{app("a", nil), app("b", nil)}}
			_, _, problems := resolve(target, map[string]*v1alpha1.Component{"a": component(test.a), "b": component(test.b)}, Fallback{})
			if !test.same {
				if problems != nil {
					t.Errorf("it says %v", problems[0])
				}
				return
			}
			expectProblem(t, problems, v1alpha1.ReasonInvalidComponent, "Target main, app b: ", "the same name as app a", "helm.releaseName")
		})
	}
}

// The monitors of two components are made by one chart, which is told their names.
func TestMonitorsAreNoSameReleases(t *testing.T) {
	target := observedTarget(v1alpha1.ClusterHub, v1alpha1.TargetObservability{})
	components := observing()
	second := components["nginx"].DeepCopy()
	second.Spec.Sources[0].Chart = "second"
	components["second"] = second
	for _, name := range []string{"nginx", "second"} {
		components[name].Spec.Observability = &v1alpha1.ComponentObservability{PodLabels: map[string]string{"a": "b"}, MetricsPort: ptr.To(int32(1))}
	}
	target.Components = append(target.Components, app("second", nil))
	if _, _, problems := observingCatalogue(target, components).resolve(target); problems != nil {
		t.Errorf("it says %v", problems[0])
	}
}

func TestResolveFallback(t *testing.T) {
	target := v1alpha1.Target{Name: "main", Components: []v1alpha1.ComponentRef{{Config: "dash"}, app("nginx", nil), {Workflow: "load"}}}
	fallback := Fallback{RepoURL: "https://git.example.com/components.git", Revision: "v1"}
	sources, fallbacks, problems := resolve(target, map[string]*v1alpha1.Component{"nginx": nginx()}, fallback)
	if problems != nil {
		t.Fatal(problems)
	}
	want := []argocd.Source{
		{RepoURL: fallback.RepoURL, TargetRevision: "v1", Path: "components/config/dash"},
		{RepoURL: "https://charts.example.com", TargetRevision: "1.2.3", Chart: "nginx"},
		{RepoURL: fallback.RepoURL, TargetRevision: "v1", Path: "components/workflow/load"},
	}
	if diff := cmp.Diff(want, sources); diff != "" {
		t.Errorf("sources (-want +got):\n%s", diff)
	}
	if len(fallbacks) != 2 || !strings.Contains(fallbacks[0], "dash") || !strings.Contains(fallbacks[1], "load") {
		t.Errorf("fallbacks are %q", fallbacks)
	}
	target.Components[0].Params = map[string]string{"a": "b"}
	_, _, problems = resolve(target, nil, fallback)
	expectProblem(t, problems, v1alpha1.ReasonInvalidParameters, "config dash", "no Helm source")
}

// Maps have no order; sources have one, or every pass would write them anew.
func TestNote44ResolveIsTheSameEveryTime(t *testing.T) {
	component := &v1alpha1.Component{Spec: v1alpha1.ComponentSpec{Type: v1alpha1.ComponentApp}}
	helm, params := &v1alpha1.HelmSource{}, map[string]string{}
	for i := range 20 {
		name := fmt.Sprintf("p%d", 19-i)
		params[name] = "r"
		helm.Parameters = append(helm.Parameters, v1alpha1.HelmParameter{Name: name, Value: "s"}, v1alpha1.HelmParameter{Name: "q" + name, Value: "s"})
		component.Spec.Parameters = append(component.Spec.Parameters, v1alpha1.ComponentParameter{Name: "d" + name, Default: ptr.To("d")})
	}
	component.Spec.Sources = []v1alpha1.ComponentSource{chart(helm)}
	target := v1alpha1.Target{Name: "main", Components: []v1alpha1.ComponentRef{app("web", params)}}
	var first []argocd.Source
	for range 20 {
		sources, _, problems := resolve(target, map[string]*v1alpha1.Component{"web": component}, Fallback{})
		if problems != nil {
			t.Fatal(problems)
		}
		parameters := sources[0].Helm.Parameters
		if len(parameters) != 60 || !slices.IsSortedFunc(parameters, func(a, b argocd.Parameter) int { return strings.Compare(a.Name, b.Name) }) {
			t.Fatalf("%d parameters: %v", len(parameters), parameters)
		}
		if first == nil {
			first = sources
		}
		if diff := cmp.Diff(first, sources); diff != "" {
			t.Fatalf("sources (-first +later):\n%s", diff)
		}
	}
}

// Whatever a Component says, it is refused with a reason or gives an Application that Argo
// CD's API takes, in which every ref is there once and every file of a ref has one.
func FuzzResolve(f *testing.F) {
	f.Add(uint8(3), uint8(1), "web", "$values/a.yaml", "a", "1", "b", "true")
	f.Add(uint8(0b110101), uint8(2), "a.b", "$values/", "a", "", "a", "x")
	f.Add(uint8(255), uint8(255), "a-b", "values.yaml", "p", "7", "q", "007")
	f.Fuzz(func(t *testing.T, shape, types uint8, name, file, param, value, other, otherValue string) {
		texts := []string{name, file, param, value, other, otherValue}
		if name == "" || name == "other" || param == "" || other == "" || shape&0b11111 == 0 || !utf8.ValidString(strings.Join(texts, "\n")) {
			t.Skip() // no API server lets it in
		}
		kinds := []v1alpha1.ParameterType{"", v1alpha1.ParameterString, v1alpha1.ParameterInteger, v1alpha1.ParameterNumber, v1alpha1.ParameterBoolean}
		helm := withParameters(v1alpha1.HelmParameter{Name: param, Value: otherValue})
		helm.ValuesFiles = []string{file}
		component := &v1alpha1.Component{Spec: v1alpha1.ComponentSpec{
			Type: v1alpha1.ComponentApp,
			Parameters: []v1alpha1.ComponentParameter{
				{Name: param, Type: kinds[int(types)%len(kinds)], Required: types&32 != 0},
				{Name: other + "x", Type: kinds[int(types>>3)%len(kinds)], Default: &otherValue},
			},
		}}
		for i, source := range []v1alpha1.ComponentSource{chart(helm), valuesRepo, folder, chart(nil), valuesRepo} {
			if shape&(1<<i) != 0 {
				component.Spec.Sources = append(component.Spec.Sources, source)
			}
		}
		target := targetOf("main", v1alpha1.ClusterHub)
		target.Components = []v1alpha1.ComponentRef{app(name, map[string]string{other: value}), app("other", nil)}
		components := map[string]*v1alpha1.Component{"other": {Spec: v1alpha1.ComponentSpec{
			Type: v1alpha1.ComponentApp, Sources: []v1alpha1.ComponentSource{chart(&v1alpha1.HelmSource{ValuesFiles: []string{"$values/x"}}), valuesRepo},
		}}}
		components[name] = component
		sources, _, problems := resolve(target, components, Fallback{})
		if problems != nil {
			for _, problem := range problems {
				if problem.reason == "" || problem.message == "" {
					t.Errorf("the problem is %#v", problem)
				}
			}
			return
		}
		e := experimentOf(target)
		if err := valid(facts{experiment: e, options: labOptions, names: names{e, labOptions}}.desiredApplication(claimed(target), "", sources)); err != nil {
			t.Error(err)
		}
		expectRefs(t, sources)
	})
}

// expectRefs: every ref is there once, and every file of a ref has one.
func expectRefs(t *testing.T, sources []argocd.Source) {
	t.Helper()
	refs := map[string]int{}
	for _, s := range sources {
		if s.Ref != "" {
			refs[s.Ref]++
		}
	}
	for ref, n := range refs {
		if n > 1 {
			t.Errorf("the ref %s is there %d times", ref, n)
		}
	}
	for _, s := range sources {
		if s.Helm == nil {
			continue
		}
		for _, file := range s.Helm.ValueFiles {
			ref, _, found := strings.Cut(strings.TrimPrefix(file, "$"), "/")
			if found && strings.HasPrefix(file, "$values-app-") && refs[ref] == 0 {
				t.Errorf("the file %s is of no source", file)
			}
		}
	}
}

// counting counts the Components that are asked for.
type counting struct {
	client.Client
	n *int
}

func (c counting) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if kindOf(o) == "Component" {
		*c.n++
	}
	return c.Client.Get(ctx, key, o, opts...)
}

// A Component that there is none of is asked for once for each generation, whatever others name.
func TestAbsencesOfOthers(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("web", v1alpha1.ClusterHub)), template())
	l.reconciler.Options.Fallback = Fallback{RepoURL: "https://git.example.com/c.git", Revision: "v1"}
	n := 0
	l.reconciler.Live = counting{l.client, &n}
	look := func(e *v1alpha1.Experiment) int {
		n = 0
		s := &scope{Reconciler: l.reconciler, experiment: e, names: names{e, l.reconciler.Options}}
		if err := s.observeComponents(t.Context()); err != nil {
			t.Fatal(err)
		}
		return n
	}
	victim := l.get()
	look(victim)
	if again := look(victim); again != 0 {
		t.Fatalf("it is asked %d times again", again)
	}
	for i := range 4 { // of one author
		e := experimentOf()
		e.UID = types.UID(fmt.Sprintf("author-%d", i))
		for j := range 32 {
			target := targetOf(fmt.Sprintf("t%d", j), v1alpha1.ClusterHub)
			target.Components = nil
			for k := range 32 {
				target.Components = append(target.Components, v1alpha1.ComponentRef{App: fmt.Sprintf("none-%d-%d", j, k)})
			}
			e.Spec.Targets = append(e.Spec.Targets, target)
		}
		look(e)
	}
	if again := look(victim); again != 0 {
		t.Errorf("four Experiments of somebody else make the manager ask %d times again in every pass", again)
	}
}

// Everybody reads conditions, Events and Applications, so the password of a repository gets into none of them.
func TestPasswordsOfRepositories(t *testing.T) {
	withPassword, withToken := nginx(), nginx()
	withPassword.Spec.Sources[0].RepoURL = "https://bot:hunter2@charts.example.com"
	withToken.Spec.Sources[0].RepoURL = "https://ghp_hunter2@charts.example.com"
	for name, test := range map[string]struct {
		components []client.Object
		fallback   Fallback
	}{
		"of a Component":   {components: []client.Object{withPassword}},
		"of the fallback":  {fallback: Fallback{RepoURL: "https://bot:hunter2@git.example.com/c.git", Revision: "v1"}},
		"a token":          {components: []client.Object{withToken}},
		"as a token":       {fallback: Fallback{RepoURL: "HTTPS://glpat-hunter2@git.example.com/c.git", Revision: "v1"}},
		"beside a pattern": {fallback: Fallback{RepoURL: "ssh://bot:hunter2:@git.example.com/c.git", Revision: "v1"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, append(test.components, experimentOf(targetOf("web", v1alpha1.ClusterHub)), template())...)
			l.reconciler.Options.Fallback = test.fallback
			l.settle(l.play)
			l.expect(v1alpha1.ConditionComponentsResolved, metav1.ConditionFalse, v1alpha1.ReasonInvalidComponent)
			said := append(l.drain(), fmt.Sprint(l.list(argocd.ApplicationGVK)))
			for _, c := range l.get().Status.Conditions {
				said = append(said, c.Message)
			}
			if all := strings.Join(said, "\n"); strings.Contains(all, "hunter2") {
				t.Errorf("it is said:\n%s", all)
			}
		})
	}
	for _, c := range []*v1alpha1.Component{withPassword, withToken} {
		if step := readiness(c, nil); step.Reason != v1alpha1.ReasonInvalidComponent || strings.Contains(step.Message, "hunter2") {
			t.Errorf("the Component is %s: %s", step.Reason, step.Message)
		}
	}
}

// What the API server refuses of a Component the manager refuses of what was there before, and of the fallback.
func TestRuleOfRepositories(t *testing.T) {
	schemas, err := crds.Load(repository + "/config/crd/bases")
	if err != nil {
		t.Fatal(err)
	}
	for url, refused := range map[string]bool{
		"https://git.example.com/ghp_x@y.git": false, "https://git.example.com?ghp_x@y": false, "https://org@git.example.com": false,
		"ssh://git@git.example.com/c.git": false, "git@git.example.com:lab/c.git": false, "https://git.example.com:8443/a:b@c": false,
		"https://ghp@git.example.com": false, "https://ghx_a@git.example.com": false, "https://my-ghp_a@git.example.com": false, "https://glpat@git.example.com": false,
		"https://bot:hunter2@git.example.com": true, "ssh://bot:hunter2@git.example.com": true, "https://:hunter2@git.example.com": true,
		"https://ghp_hunter2@github.com/a/b.git": true, "https://gho_hunter2@github.com/a": true, "https://ghs_hunter2@github.com/a": true, "https://ghr_hunter2@github.com/a": true,
		"https://ghu_hunter2@github.com/a": true, "https://github_pat_hunter2@github.com/a": true, "https://glpat-hunter2@gitlab.com/a": true, "http://ghp_hunter2@git.example.com": true,
		"HTTPS://ghp_hunter2@github.com": true, "https://ghp_hunter2@x@github.com/a": true,
	} {
		c := nginx()
		c.Spec.Sources[0].RepoURL = url
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c)
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{Object: content}
		u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Component"))
		err = schemas.Validate(u)
		if got := argocd.HasPassword(url); got != refused || (err != nil) != refused || err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: refused by the manager %t, and by the API server: %v", url, got, err)
		}
	}
}

// What a release before has deployed with a token stays as it is, says so, and can be deleted: its Experiment, and the Component.
func TestTokenThatWasTaken(t *testing.T) {
	component := nginx()
	l := newLab(t, experimentOf(targetOf("web", v1alpha1.ClusterHub)), component, template())
	l.until(v1alpha1.PhaseRunning)
	component.Spec.Sources[0].RepoURL = "https://ghp_hunter2@charts.example.com"
	component.Generation++
	l.update(component)
	l.settle(func() bool { return false })
	l.expect(v1alpha1.ConditionComponentsResolved, metav1.ConditionFalse, v1alpha1.ReasonInvalidComponent)
	if n := len(l.list(argocd.ApplicationGVK)); n != 1 {
		t.Errorf("there are %d Applications", n)
	}
	if err := l.client.Delete(t.Context(), l.get()); err != nil {
		t.Fatal(err)
	}
	if l.settle(l.play); l.get() != nil {
		t.Error("the Experiment does not go")
	}
	s := newShelf(t, component)
	s.expect(s.look(), 0, v1alpha1.ReasonInvalidComponent, "sources[0].repoURL has a password or token")
	if err := s.Delete(t.Context(), component); err != nil {
		t.Fatal(err)
	}
	if c := s.look(); c != nil {
		t.Errorf("the Component does not go: %+v", c.Status)
	}
}

// A user without a password is none, and where to look for what nobody has written is said without.
func TestUsersOfRepositories(t *testing.T) {
	for _, url := range []string{"ssh://git@git.example.com/c.git", "git@git.example.com:lab/c.git", "https://org@git.example.com/c.git", "https://git.example.com:8443/a:b@c"} {
		l := newLab(t, experimentOf(targetOf("web", v1alpha1.ClusterHub)), template())
		l.reconciler.Options.Fallback = Fallback{RepoURL: url, Revision: "v1"}
		l.settle(l.play)
		l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
		if m := l.message(v1alpha1.ConditionComponentsResolved); strings.Contains(m, "//git@") || strings.Contains(m, "org@") {
			t.Errorf("of %s it says %q", url, m)
		}
	}
}
