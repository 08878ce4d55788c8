package workloadscaler

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/executor/cluster"
)

const (
	// Type of targets.
	Type = "workloadscaler"
	// ClusterRole of runners.
	ClusterRole = "labkeeper-runner-workloadscaler"

	usualTimeout = 5 * time.Minute
)

// Executor is that of workloads.
type Executor struct{}

// spec is the parameters as they are written.
type spec struct {
	IncludedGroups   []string                  `json:"includedGroups"`
	Namespace        *namespaces               `json:"namespace"`
	WorkloadSelector *metav1.LabelSelector     `json:"workloadSelector"`
	Exclude          exclude                   `json:"exclude"`
	AwaitCompletion  *executor.AwaitCompletion `json:"awaitCompletion"`
}

// namespaces by their names, or by labels that they all have.
type namespaces struct {
	Literals []string          `json:"literals"`
	Selector map[string]string `json:"selector"`
}

// exclude is what is not touched: by name, or by namespace/name, or with all of some labels.
type exclude struct {
	Names  []string          `json:"names"`
	Labels map[string]string `json:"labels"`
}

func (e exclude) has(o metav1.Object) bool {
	return slices.Contains(e.Names, o.GetName()) || slices.Contains(e.Names, o.GetNamespace()+"/"+o.GetName()) ||
		len(e.Labels) > 0 && labels.SelectorFromSet(e.Labels).Matches(labels.Set(o.GetLabels()))
}

// parameters are what was read.
type parameters struct {
	groups     []group
	namespaces namespaces
	selector   string
	exclude    exclude
	await      time.Duration
	// mistake is what nobody can have meant, and could be read all the same.
	mistake error
}

// Parse reads parameters.
func (Executor) Parse(raw json.RawMessage) (executor.Parameters, error) {
	var s spec
	if err := executor.Decode(raw, &s); err != nil {
		return nil, err
	}
	p := &parameters{exclude: s.Exclude, mistake: s.mistake()}
	for _, parse := range []func(spec) error{p.parseGroups, p.parseNamespaces, p.parseSelector, p.parseAwait} {
		if err := parse(s); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Mistake is a list of nothing, a kind that no cluster can scale, or what is excluded and cannot be there.
func (p *parameters) Mistake() error { return p.mistake }

func (s spec) mistake() error {
	if s.IncludedGroups != nil && len(s.IncludedGroups) == 0 {
		return &executor.InvalidError{Path: "includedGroups", Problem: "it is empty; name some, or leave it out for Deployments alone"}
	}
	for i, text := range s.IncludedGroups {
		if problem := unscalable(text); problem != "" {
			return &executor.InvalidError{Path: fmt.Sprintf("includedGroups[%d]", i), Problem: problem}
		}
	}
	for i, name := range s.Exclude.Names {
		if problem := s.excludes(name); problem != "" {
			return &executor.InvalidError{Path: fmt.Sprintf("exclude.names[%d]", i), Problem: problem}
		}
	}
	_, err := executor.Selector("exclude.labels", &metav1.LabelSelector{MatchLabels: s.Exclude.Labels})
	return err
}

// excludes is why a text excludes nothing, whatever there is; empty if it may.
func (s spec) excludes(text string) string {
	if !names(text) {
		return fmt.Sprintf("%q is no name of a workload; %s (there are no patterns)", text, s.named(text))
	}
	namespace, _, both := strings.Cut(text, "/")
	if both && s.Namespace != nil && len(s.Namespace.Literals) > 0 && !slices.Contains(s.Namespace.Literals, namespace) {
		return fmt.Sprintf("%q is in none of namespace.literals; %s", text, s.named(text))
	}
	return ""
}

// names says whether a text is the name of a workload, or namespace/name.
func names(text string) bool {
	namespace, name, both := strings.Cut(text, "/")
	if !both {
		return isName(text)
	}
	return len(validation.IsDNS1123Label(namespace)) == 0 && isName(name)
}

func isName(text string) bool { return len(validation.IsDNS1123Subdomain(text)) == 0 }

// named is what to write for a text that names no workload, by what stands at its end.
func (s spec) named(text string) string {
	name := text[strings.LastIndex(text, "/")+1:]
	if !isName(name) {
		return "write it as web, or shop/web"
	}
	namespace := "shop"
	if s.Namespace != nil && len(s.Namespace.Literals) > 0 {
		namespace = s.Namespace.Literals[0]
	}
	return fmt.Sprintf("write %s, or %s/%s", name, namespace, name)
}

func (p *parameters) parseGroups(s spec) error {
	written := s.IncludedGroups
	if len(written) == 0 {
		written = []string{"Deployment"}
	}
	for i, text := range written {
		parsed, problem := parseGroup(text)
		if problem != "" {
			return &executor.InvalidError{Path: fmt.Sprintf("includedGroups[%d]", i), Problem: problem}
		}
		if !slices.Contains(p.groups, parsed) {
			p.groups = append(p.groups, parsed)
		}
	}
	return nil
}

func (p *parameters) parseNamespaces(s spec) error {
	if s.Namespace == nil || (len(s.Namespace.Literals) > 0) == (len(s.Namespace.Selector) > 0) {
		return &executor.InvalidError{Path: "namespace", Problem: "write literals, names of namespaces, or selector, labels of them: one of the two"}
	}
	for i, name := range s.Namespace.Literals {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			return &executor.InvalidError{Path: fmt.Sprintf("namespace.literals[%d]", i), Problem: problems[0]}
		}
	}
	if _, err := executor.Selector("namespace.selector", &metav1.LabelSelector{MatchLabels: s.Namespace.Selector}); err != nil {
		return err
	}
	p.namespaces.Selector = s.Namespace.Selector
	p.namespaces.Literals = slices.Clone(s.Namespace.Literals)
	slices.Sort(p.namespaces.Literals)
	p.namespaces.Literals = slices.Compact(p.namespaces.Literals)
	return nil
}

func (p *parameters) parseSelector(s spec) (err error) {
	p.selector, err = executor.Selector("workloadSelector", s.WorkloadSelector)
	return err
}

func (p *parameters) parseAwait(s spec) (err error) {
	p.await, err = s.AwaitCompletion.For(usualTimeout)
	return err
}

// Needs are rights in the namespaces.
func (p *parameters) Needs() executor.Needs {
	needs := executor.Needs{ClusterRole: ClusterRole, Namespaces: p.namespaces.Literals}
	if len(p.namespaces.Selector) > 0 {
		needs.Selector = &metav1.LabelSelector{MatchLabels: p.namespaces.Selector}
	}
	return needs
}

// Open readies the target.
func (p *parameters) Open(_ context.Context, session executor.Session) (executor.Target, error) {
	client, err := dynamic.NewForConfig(session.Config)
	if err != nil {
		return nil, fmt.Errorf("creating client: %w", err)
	}
	discoverer, err := discovery.NewDiscoveryClientForConfig(session.Config)
	if err != nil {
		return nil, fmt.Errorf("creating discovery client: %w", err)
	}
	return &target{parameters: p, session: session, client: client, discovery: discoverer, watch: cluster.Watch{}}, nil
}
