package experiment

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
)

// Fallback is where a Component's manifests are expected when no Component of that name
// exists.
type Fallback struct {
	// RepoURL of the components repository; empty for no fallback.
	RepoURL string
	// Revision of the components repository.
	Revision string
}

// resolveError says why a reference cannot be deployed.
type resolveError struct{ reason, message string }

// catalogue is where the references of a target are looked up, and what parameters can be taken from.
type catalogue struct {
	names      names
	components map[string]*v1alpha1.Component
	fallback   Fallback
}

// deployment is what a component deploys.
type deployment struct {
	ref v1alpha1.ComponentRef
	// sources of the component, and those of the monitors that it asks for.
	sources, monitors []argocd.Source
	// aside: it looks on, and is no part of what is validated.
	aside bool
}

func (d deployment) all() []argocd.Source { return slices.Concat(d.sources, d.monitors) }

// resolve turns a target's references into what they deploy, in the order of the references. fallbacks
// describes the references that the convention path stands in for; problems name the references that cannot
// be deployed.
func (c catalogue) resolve(t v1alpha1.Target) (deployments []deployment, fallbacks []string, problems []*resolveError) {
	o, v := c.names.options.Observability, c.names.values(t)
	roles := o.roles(t)
	for _, ref := range o.components(t) {
		component, serves := c.components[ref.Name()], serving(roles, ref)
		if component == nil && serves == nil && c.fallback.RepoURL != "" {
			component = conventional(ref, c.fallback)
			fallbacks = append(fallbacks, fmt.Sprintf("target %s: no Component %s exists, using %s of %s",
				t.Name, ref.Name(), component.Spec.Sources[0].Path, argocd.WithoutUser(c.fallback.RepoURL)))
		}
		var monitors []argocd.Source
		sources, err := serves.resolve(ref, component, v, ref.Name())
		if err == nil && observed(t) {
			monitors, err = c.monitors(ref, component, v)
		}
		if err != nil {
			err.message = fmt.Sprintf("Target %s, %s: %s", t.Name, ref, err.message)
			problems = append(problems, err)
			continue
		}
		deployments = append(deployments, deployment{ref, sources, monitors, serves != nil})
	}
	if len(problems) == 0 {
		problems = sameReleases(t, deployments)
	}
	return deployments, fallbacks, problems
}

// sameReleases are the components of one Application that install one chart by the same name: both make the same objects, of which Argo
// CD deploys those that come last, and says Healthy. What makes monitors is told their names.
func sameReleases(t v1alpha1.Target, deployments []deployment) (problems []*resolveError) {
	installed := map[string]v1alpha1.ComponentRef{}
	for i, d := range deployments {
		if perComponent(t) || i >= len(t.Components) {
			clear(installed) // it has an Application of its own
		}
		for _, s := range d.sources {
			if s.Chart == "" && s.Helm == nil {
				continue
			}
			name := releaseOf(s)
			if by, twice := installed[name]; twice && by.String() != d.ref.String() { // one that is named twice is not accepted
				problems = append(problems, &resolveError{v1alpha1.ReasonInvalidComponent, fmt.Sprintf("Target %s, %s: it installs %s%s of %s by the same name as %s, "+
					"so that one of the two would not be deployed; set another helm.releaseName in one of their Components",
					t.Name, d.ref, s.Chart, s.Path, argocd.WithoutUser(s.RepoURL), by)})
			}
			installed[name] = d.ref
		}
	}
	return problems
}

// releaseOf is what tells the releases of one Application apart: charts of different names may make objects of the same ones, which only
// Argo CD can tell. Beside the name of the release most charts take those of their objects from a parameter.
func releaseOf(s argocd.Source) string {
	h := argocd.Helm{}
	if s.Helm != nil {
		h = *s.Helm
	}
	parts := []string{strings.TrimRight(s.RepoURL, "/"), s.Chart, s.Path, h.ReleaseName}
	for _, p := range h.Parameters {
		if p.Name == "nameOverride" || p.Name == "fullnameOverride" {
			parts = append(parts, p.Name, p.Value)
		}
	}
	return strings.Join(parts, "\n")
}

// serving is what a reference does for the observability of a target; nil if it has none of its roles.
func serving(roles []role, ref v1alpha1.ComponentRef) *role {
	if i := slices.IndexFunc(roles, func(r role) bool { return r.ref.String() == ref.String() }); i >= 0 {
		return &roles[i]
	}
	return nil
}

// monitors are the sources of what a component asks for its metrics.
func (c catalogue) monitors(ref v1alpha1.ComponentRef, component *v1alpha1.Component, v values) ([]argocd.Source, *resolveError) {
	if err := unmonitored(component.Spec.Observability); err != nil {
		return nil, err
	}
	asked := monitoring(c.names.experiment, ref.Name(), component.Spec.Observability)
	if asked == nil {
		return nil, nil
	}
	monitors := c.names.options.Observability.monitors()
	sources, err := monitors.resolve(monitors.ref, c.components[monitors.ref.Name()], v.with(asked), monitors.ref.Name()+"-"+ref.Name())
	if err != nil {
		err.message = fmt.Sprintf("its observability, %s: %s", monitors.ref, err.message)
	}
	return sources, err
}

// resolve are the sources of a reference, which may have a role.
func (r *role) resolve(ref v1alpha1.ComponentRef, component *v1alpha1.Component, v values, as string) ([]argocd.Source, *resolveError) {
	switch {
	case component == nil && r == nil:
		return nil, &resolveError{v1alpha1.ReasonComponentNotFound, fmt.Sprintf("no Component %s exists; check the name, or create it", ref.Name())}
	case component == nil:
		return nil, &resolveError{v1alpha1.ReasonComponentNotFound, fmt.Sprintf("no Component %s exists, which %s; kubectl apply -k config/observability installs one", ref.Name(), r.does)}
	}
	sources, err := resolveRef(ref, component, v, as)
	if err == nil && r != nil {
		err = r.misses(component, v)
	}
	return sources, err
}

// conventional is the Component that a reference means when nobody has written one.
func conventional(ref v1alpha1.ComponentRef, f Fallback) *v1alpha1.Component {
	return &v1alpha1.Component{Spec: v1alpha1.ComponentSpec{
		Type: ref.Type(),
		Sources: []v1alpha1.ComponentSource{{
			RepoURL:        f.RepoURL,
			TargetRevision: f.Revision,
			Path:           fmt.Sprintf("components/%s/%s", ref.Type(), ref.Name()),
		}},
	}}
}

// resolveRef are the sources of a reference to a Component, whose source of values files is named after it:
// those of several Components may share one Application.
func resolveRef(ref v1alpha1.ComponentRef, c *v1alpha1.Component, v values, as string) ([]argocd.Source, *resolveError) {
	if c.Spec.Type != ref.Type() {
		return nil, &resolveError{v1alpha1.ReasonComponentTypeMismatch,
			fmt.Sprintf("the Component %s is of type %s; refer to it as %s", ref.Name(), c.Spec.Type, c.Spec.Type)}
	}
	if i := slices.IndexFunc(c.Spec.Sources, func(s v1alpha1.ComponentSource) bool { return argocd.HasPassword(s.RepoURL) }); i >= 0 {
		return nil, &resolveError{v1alpha1.ReasonInvalidComponent,
			fmt.Sprintf("sources[%d].repoURL has a password or token, which everybody could read; remove it, and give the repository's credentials to Argo CD", i)}
	}
	parameters, err := parametersOf(ref, c.Spec.Parameters, v)
	if err != nil {
		return nil, err
	}
	valuesRef := "values-" + string(ref.Type()) + "-" + strings.ReplaceAll(as, ".", "_")
	sources := make([]argocd.Source, 0, len(c.Spec.Sources))
	for _, s := range c.Spec.Sources {
		sources = append(sources, source(s, valuesRef))
	}
	if err := place(parameters, c.Spec.Sources, sources); err != nil {
		return nil, err
	}
	return withValues(c.Spec.Sources, sources, valuesRef)
}

// source is a Component's source in Argo CD's terms, its parameters sorted.
func source(s v1alpha1.ComponentSource, valuesRef string) argocd.Source {
	out := argocd.Source{RepoURL: s.RepoURL, TargetRevision: s.TargetRevision, Path: s.Path, Chart: s.Chart}
	if s.Helm == nil {
		return out
	}
	helm := &argocd.Helm{ReleaseName: s.Helm.ReleaseName}
	for _, file := range s.Helm.ValuesFiles {
		if rest, ok := strings.CutPrefix(file, "$values/"); ok {
			file = "$" + valuesRef + "/" + rest
		}
		helm.ValueFiles = append(helm.ValueFiles, file)
	}
	for _, p := range s.Helm.Parameters {
		setParameter(helm, argocd.Parameter(p))
	}
	out.Helm = helm
	return out
}

// withValues gives the source of the values files its name. A source with a name must not
// have a path, or Argo CD would deploy the folder.
func withValues(specs []v1alpha1.ComponentSource, sources []argocd.Source, valuesRef string) ([]argocd.Source, *resolveError) {
	var used, provided bool
	for i, s := range specs {
		if s.Path == "" && s.Chart == "" {
			if provided {
				return nil, &resolveError{v1alpha1.ReasonInvalidComponent, "two sources have neither path nor chart; only one can be $values"}
			}
			provided = true
			sources[i].Ref = valuesRef
		}
		used = used || s.Helm != nil && slices.ContainsFunc(s.Helm.ValuesFiles, func(f string) bool { return strings.HasPrefix(f, "$values/") })
	}
	if used && !provided {
		return nil, &resolveError{v1alpha1.ReasonInvalidComponent, "a values file begins with $values/ and no source is $values; add a source with repoURL and neither path nor chart"}
	}
	if provided && len(specs) == 1 {
		return nil, &resolveError{v1alpha1.ReasonInvalidComponent, "its only source has neither path nor chart, so there is nothing to deploy"}
	}
	return sources, nil
}

// parametersOf are the parameters of a reference: what the manager knows, its own, and the Component's
// defaults, checked against what the Component declares, sorted by name.
func parametersOf(ref v1alpha1.ComponentRef, declared []v1alpha1.ComponentParameter, v values) ([]given, *resolveError) {
	if err := misread(ref.Params, declared); err != nil {
		return nil, err
	}
	set := map[string]string{}
	maps.Copy(set, ref.Params)
	types := map[string]v1alpha1.ParameterType{}
	var missing, unknown []string
	for _, d := range declared {
		types[d.Name] = d.Type
		_, asked := set[d.Name]
		switch {
		case asked:
		case v[d.From] != "":
			set[d.Name] = v[d.From]
		case d.Default != nil:
			set[d.Name] = *d.Default
		case d.Required && d.From != "":
			unknown = append(unknown, fmt.Sprintf("%s (from: %s)", d.Name, d.From))
		case d.Required:
			missing = append(missing, d.Name)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return nil, &resolveError{v1alpha1.ReasonInvalidParameters, "params: required, and set by the manager, which has nothing for this target: " + strings.Join(unknown, ", ") +
			"; enable the target's observability, with the transport, tenant or credentialsSecret that gives it, or set a default in the Component"}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return nil, &resolveError{v1alpha1.ReasonInvalidParameters, "params: required and not set: " + strings.Join(missing, ", ")}
	}
	parameters := make([]given, 0, len(set))
	for _, name := range slices.Sorted(maps.Keys(set)) {
		p, err := parameter(name, set[name], types[name])
		if err != nil {
			return nil, err
		}
		parameters = append(parameters, p)
	}
	return parameters, nil
}

// given is a parameter, and its number where that is one that Helm reads as a text.
type given struct {
	argocd.Parameter
	number *float64
}

// parameter is one of a value that is to arrive as it is. Without a type Helm decides what that is, a list where it begins with a brace.
func parameter(name, value string, t v1alpha1.ParameterType) (p given, err *resolveError) {
	list := t == "" && strings.HasPrefix(value, "{")
	switch {
	case !hasType(value, t):
		return p, &resolveError{v1alpha1.ReasonInvalidParameters, fmt.Sprintf("params: %s must be of type %s", name, t)}
	case list && !plainList.MatchString(value):
		return p, &resolveError{v1alpha1.ReasonInvalidParameters, fmt.Sprintf("params: %s would be several to Helm, or none: "+
			"a value that begins with { is a list, which ends with its only }; where it is none, declare the parameter in the Component, with type: string", name)}
	}
	p.Parameter = argocd.Parameter{Name: name, Value: literal(value, list), ForceString: t == v1alpha1.ParameterString}
	if t == v1alpha1.ParameterNumber && !hasType(value, v1alpha1.ParameterInteger) {
		number, _ := strconv.ParseFloat(value, 64)
		if whole := strconv.FormatFloat(number, 'f', -1, 64); hasType(whole, v1alpha1.ParameterInteger) {
			p.Value = whole // which Helm takes for a number
		} else {
			p.number = &number
		}
	}
	return p, nil
}

// misread is what is wrong with parameters that set others than they name, or what the manager sets, which may bound what
// the component can do, as SharedCluster does, or the tenant.
func misread(params map[string]string, declared []v1alpha1.ComponentParameter) *resolveError {
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if !plainName.MatchString(name) {
			return &resolveError{v1alpha1.ReasonInvalidParameters, fmt.Sprintf("params: %s would be several to Helm, or another; "+
				`leave , = { } and \ (but before a dot) out of the name, and brackets but for positions such as [0]`, name)}
		}
		for _, d := range declared {
			switch {
			case d.From == "":
			case name == d.Name:
				return &resolveError{v1alpha1.ReasonInvalidParameters, fmt.Sprintf("params: %s is set by the manager (from: %s); remove it", name, d.From)}
			case within(name, d.Name):
				return &resolveError{v1alpha1.ReasonInvalidParameters, fmt.Sprintf("params: %s sets %s, too, or a part of it, which the manager sets (from: %s); remove it", name, d.Name, d.From)}
			}
		}
	}
	return nil
}

const plainKey = `([^\\.,={}\[\]]|\\\.)+(\[(0|[1-9][0-9]*)\])*`

var (
	// plainName is what is one name to Helm, and the one that it looks like: Argo CD writes name=value for a parameter, Helm drops
	// backslashes, with which a name is another, and knows more than one way to write a position.
	plainName = regexp.MustCompile(`^` + plainKey + `(\.` + plainKey + `)*$`)
	// plainList is what is one list to Helm, which ends at its first closing brace: it takes what follows for another name.
	plainList = regexp.MustCompile(`^{([^{}\\]|\\[^{}])*}$`)
	// special is what Helm would read as something else, or as several: it drops backslashes, and takes what begins with a brace for a
	// list, of strings too; and Argo CD escapes no comma after a backslash, and in some versions none at the beginning or right after
	// another.
	special = regexp.MustCompile(`^{|\\|^,|,,`)
	escapes = strings.NewReplacer(`\`, `\\`, `,`, `\,`)
)

// literal is a value as Argo CD must be given it for the chart to get it as it is, but for a list, which is Helm's. Only what needs
// it is escaped, because another text would have what runs validated anew. Argo CD puts its variables in: of names
// that begin with a dollar it makes others, or nothing.
func literal(value string, list bool) string {
	if !list && special.MatchString(value) {
		value = escapes.Replace(value)
		if strings.HasPrefix(value, "{") {
			value = `\` + value
		}
	}
	return strings.ReplaceAll(value, "$", "$$")
}

// within says whether one of two names is that of a value in the other's, or takes for a list what is an object to the
// other: Helm would take the one for the other, or lose it, whichever comes last.
func within(a, b string) bool { return overlap(pathOf(a), pathOf(b)) }

func overlap(x, y []string) bool {
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return strings.HasPrefix(x[i], "[") != strings.HasPrefix(y[i], "[")
		}
	}
	return true
}

// pathOf are the keys of a name, and the positions in lists with their opening brackets.
func pathOf(name string) (path []string) {
	const dot = "\x00"
	for key := range strings.SplitSeq(strings.ReplaceAll(name, `\.`, dot), ".") {
		key, positions, listed := strings.Cut(strings.ReplaceAll(key, dot, "."), "[")
		path = append(path, key)
		for listed {
			var position string
			position, positions, listed = strings.Cut(positions, "[")
			path = append(path, "["+position)
		}
	}
	return path
}

func hasType(value string, t v1alpha1.ParameterType) bool {
	switch t {
	case v1alpha1.ParameterInteger:
		_, err := strconv.ParseInt(value, 10, 64)
		return err == nil && integer.MatchString(value)
	case v1alpha1.ParameterNumber:
		_, err := strconv.ParseFloat(value, 64)
		return err == nil && number.MatchString(value)
	case v1alpha1.ParameterBoolean:
		return value == "true" || value == "false"
	}
	return true
}

// integer and number are how such are written; 007 is a string to Helm.
var (
	integer = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	number  = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
)

// place puts each parameter where it belongs: into every Helm source that sets it already,
// else into the only Helm source there is.
func place(parameters []given, specs []v1alpha1.ComponentSource, sources []argocd.Source) *resolveError {
	var charts []int
	for i, s := range specs {
		if s.Chart != "" || s.Helm != nil {
			charts = append(charts, i)
		}
	}
	for _, p := range parameters {
		targets := charts
		if setting := slices.DeleteFunc(slices.Clone(charts), func(i int) bool { return !sets(sources[i].Helm, p.Name) }); len(setting) > 0 {
			targets = setting
		} else if len(charts) > 1 {
			return &resolveError{v1alpha1.ReasonInvalidParameters,
				fmt.Sprintf("params: %s could go to any of %d Helm sources; set it in helm.parameters of the one it is for", p.Name, len(charts))}
		}
		if len(targets) == 0 {
			return &resolveError{v1alpha1.ReasonInvalidParameters,
				fmt.Sprintf("params: %s has no Helm source to go to; set helm: {} on the Component's source whose path has the chart, or leave it out", p.Name)}
		}
		for _, i := range targets {
			if sources[i].Helm == nil {
				sources[i].Helm = &argocd.Helm{}
			}
			setParameter(sources[i].Helm, p.Parameter)
		}
	}
	for _, i := range charts {
		if a, b := overlapping(sources[i].Helm); a != "" {
			return &resolveError{v1alpha1.ReasonInvalidParameters, fmt.Sprintf("params: %s and %s set the same, or one a part of the other, "+
				"and Argo CD gives them to Helm in any order; leave one of them out, in params, the Component's defaults or helm.parameters", a, b)}
		}
		for _, p := range parameters {
			if p.number != nil && sources[i].Helm != nil {
				setNumber(sources[i].Helm, p.Name, *p.number)
			}
		}
	}
	return nil
}

// setNumber makes a number of a parameter that is one and no integer, which Helm takes for a text: a value, which nothing else of the
// source sets. One that was to be a string stays a string, and so does one in a list, the rest of which a value would take away.
func setNumber(h *argocd.Helm, name string, number float64) {
	i := slices.IndexFunc(h.Parameters, func(p argocd.Parameter) bool { return p.Name == name && !p.ForceString })
	path := pathOf(name)
	if i < 0 || slices.ContainsFunc(path, func(key string) bool { return strings.HasPrefix(key, "[") }) {
		return
	}
	if h.Values == nil {
		h.Values = map[string]any{}
	}
	if unstructured.SetNestedField(h.Values, number, path...) == nil { // which fails only for one in another, and there is none
		h.Parameters = slices.Delete(h.Parameters, i, i+1)
	}
}

// overlapping are two parameters of a source of which the one that comes last counts; empty if there are none.
func overlapping(h *argocd.Helm) (a, b string) {
	if h == nil {
		return "", ""
	}
	paths := make([][]string, 0, len(h.Parameters))
	for i, p := range h.Parameters {
		path := pathOf(p.Name)
		if j := slices.IndexFunc(paths, func(other []string) bool { return overlap(other, path) }); j >= 0 {
			return h.Parameters[j].Name, h.Parameters[i].Name
		}
		paths = append(paths, path)
	}
	return "", ""
}

func sets(h *argocd.Helm, name string) bool {
	return h != nil && slices.ContainsFunc(h.Parameters, func(p argocd.Parameter) bool { return p.Name == name })
}

// setParameter replaces or inserts a parameter; the list stays sorted by name. One that was
// to be a string stays a string.
func setParameter(h *argocd.Helm, p argocd.Parameter) {
	i, found := slices.BinarySearchFunc(h.Parameters, p.Name, func(e argocd.Parameter, name string) int {
		return strings.Compare(e.Name, name)
	})
	if found {
		p.ForceString = p.ForceString || h.Parameters[i].ForceString
		h.Parameters[i] = p
		return
	}
	h.Parameters = slices.Insert(h.Parameters, i, p)
}
