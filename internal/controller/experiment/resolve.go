package experiment

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

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

// resolve turns a target's references into their sources, in the order of the references. fallbacks describes the references that the convention path stands in
// for; problems name the references that cannot be deployed.
func resolve(t v1alpha1.Target, components map[string]*v1alpha1.Component, fallback Fallback) (sources [][]argocd.Source, fallbacks []string, problems []*resolveError) {
	for _, ref := range t.Components {
		component, found := components[ref.Name()]
		if !found {
			if fallback.RepoURL == "" {
				problems = append(problems, &resolveError{v1alpha1.ReasonComponentNotFound,
					fmt.Sprintf("Target %s: no Component %s exists; check the name, or create it", t.Name, ref.Name())})
				continue
			}
			component = conventional(ref, fallback)
			fallbacks = append(fallbacks, fmt.Sprintf("target %s: no Component %s exists, using %s of %s",
				t.Name, ref.Name(), component.Spec.Sources[0].Path, fallback.RepoURL))
		}
		s, err := resolveRef(ref, component)
		if err != nil {
			err.message = fmt.Sprintf("Target %s, %s: %s", t.Name, ref, err.message)
			problems = append(problems, err)
			continue
		}
		sources = append(sources, s)
	}
	return sources, fallbacks, problems
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

func resolveRef(ref v1alpha1.ComponentRef, c *v1alpha1.Component) ([]argocd.Source, *resolveError) {
	if c.Spec.Type != ref.Type() {
		return nil, &resolveError{v1alpha1.ReasonComponentTypeMismatch,
			fmt.Sprintf("the Component %s is of type %s; refer to it as %s", ref.Name(), c.Spec.Type, c.Spec.Type)}
	}
	parameters, err := parametersOf(ref, c.Spec.Parameters)
	if err != nil {
		return nil, err
	}
	// Sources of several Components may share one Application, so each names its values apart.
	valuesRef := "values-" + string(ref.Type()) + "-" + strings.ReplaceAll(ref.Name(), ".", "_")
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

// parametersOf are the parameters of a reference: its own over the Component's defaults,
// checked against what the Component declares, sorted by name.
func parametersOf(ref v1alpha1.ComponentRef, declared []v1alpha1.ComponentParameter) ([]argocd.Parameter, *resolveError) {
	values := maps.Clone(ref.Params)
	if values == nil {
		values = map[string]string{}
	}
	types := map[string]v1alpha1.ParameterType{}
	var missing []string
	for _, d := range declared {
		types[d.Name] = d.Type
		if _, set := values[d.Name]; set {
			continue
		}
		switch {
		case d.Default != nil:
			values[d.Name] = *d.Default
		case d.Required:
			missing = append(missing, d.Name)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return nil, &resolveError{v1alpha1.ReasonInvalidParameters, "params: required and not set: " + strings.Join(missing, ", ")}
	}
	parameters := make([]argocd.Parameter, 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !hasType(values[name], types[name]) {
			return nil, &resolveError{v1alpha1.ReasonInvalidParameters, fmt.Sprintf("params: %s must be of type %s", name, types[name])}
		}
		parameters = append(parameters, argocd.Parameter{
			Name: name, Value: values[name], ForceString: types[name] == v1alpha1.ParameterString,
		})
	}
	return parameters, nil
}

func hasType(value string, t v1alpha1.ParameterType) bool {
	switch t {
	case v1alpha1.ParameterInteger:
		return integer.MatchString(value)
	case v1alpha1.ParameterNumber:
		return number.MatchString(value)
	case v1alpha1.ParameterBoolean:
		return value == "true" || value == "false"
	}
	return true
}

// integer and number are what Helm reads as such; 007 is a string to it.
var (
	integer = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	number  = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
)

// place puts each parameter where it belongs: into every Helm source that sets it already,
// else into the only Helm source there is.
func place(parameters []argocd.Parameter, specs []v1alpha1.ComponentSource, sources []argocd.Source) *resolveError {
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
				fmt.Sprintf("params: %s has no Helm source to go to", p.Name)}
		}
		for _, i := range targets {
			if sources[i].Helm == nil {
				sources[i].Helm = &argocd.Helm{}
			}
			setParameter(sources[i].Helm, p)
		}
	}
	return nil
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
