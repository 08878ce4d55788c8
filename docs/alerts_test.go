package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/yaml"
)

var (
	ours = regexp.MustCompile(`labkeeper_[a-z_]+`)
	// named is the name of a metric where code makes one.
	named = regexp.MustCompile(`"(labkeeper_[a-z_]+)"`)
	// word is what a state, a reason or a kind is called where code says so.
	word = regexp.MustCompile(`"([A-Z][A-Za-z0-9]+)"`)
	// theirs are the metrics of controller-runtime, as their descriptions have them.
	theirs = regexp.MustCompile(`fqName: "([^"]*)"`)
	// selects are names of metrics in an expression without its braces and functions.
	selects = regexp.MustCompile(`[a-z_]+_[a-z_]+`)
	braces  = regexp.MustCompile(`\{[^}]*\}|\bby \([^)]*\)|[a-z_]+\(`)
	// matches are the labels by which an expression selects what the states of objects, and Events, are called.
	matches  = regexp.MustCompile(`(?:kind|phase|reason)[!=]~?"([^"]*)"`)
	alert    = regexp.MustCompile("`(Labkeeper[A-Za-z]+)`")
	refersTo = regexp.MustCompile(`docs/([a-z]+\.md)#([a-z-]+)`)
)

// rule is one of a PrometheusRule.
type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// rules are those of config/prometheus.
func rules(t *testing.T) (all []rule) {
	t.Helper()
	var resource struct {
		Spec struct {
			Groups []struct {
				Rules []rule `json:"rules"`
			} `json:"groups"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "../config/prometheus/rules.yaml")), &resource); err != nil {
		t.Fatal(err)
	}
	for _, g := range resource.Spec.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) < 5 {
		t.Fatalf("there are the rules %v: this test proves nothing", all)
	}
	return all
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// stringsOf are what of our code, but for its tests, an expression matches within quotes.
func stringsOf(t *testing.T, quoted *regexp.Regexp, folders ...string) (all []string) {
	t.Helper()
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			for _, m := range quoted.FindAllStringSubmatch(read(t, path), -1) {
				all = append(all, m[1])
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(all) < 5 {
		t.Fatalf("there are %q: this test proves nothing", all)
	}
	return all
}

// metricsOfOthers are those that come with controller-runtime.
func metricsOfOthers(t *testing.T) (names []string) {
	t.Helper()
	all, ok := metrics.Registry.(prometheus.Collector)
	if !ok {
		t.Fatalf("%T does not describe its metrics", metrics.Registry)
	}
	descriptions := make(chan *prometheus.Desc)
	go func() {
		all.Describe(descriptions)
		close(descriptions)
	}()
	for d := range descriptions {
		if m := theirs.FindStringSubmatch(d.String()); m != nil {
			names = append(names, m[1])
		}
	}
	return names
}

// Every metric that alerts and pages name exists, and every one of ours is explained.
func TestMetricsExist(t *testing.T) {
	made, others := stringsOf(t, named, "../cmd", "../internal"), metricsOfOthers(t)
	for _, r := range rules(t) {
		for _, name := range selects.FindAllString(braces.ReplaceAllString(r.Expr, ""), -1) {
			if !slices.Contains(made, name) && !slices.Contains(others, name) {
				t.Errorf("%s: there is no metric %s", r.Alert, name)
			}
		}
	}
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "../README.md") {
		for _, name := range ours.FindAllString(read(t, page), -1) {
			if !slices.Contains(made, name) {
				t.Errorf("%s: there is no metric %s", page, name)
			}
		}
	}
	for _, name := range made {
		if !strings.Contains(read(t, "operations.md"), "| `"+name) {
			t.Errorf("operations.md does not say what %s is", name)
		}
	}
}

// States and reasons that alerts select by are called so.
func TestAlertsSelectWhatThereIs(t *testing.T) {
	words := stringsOf(t, word, "../api", "../internal")
	for _, r := range rules(t) {
		for _, m := range matches.FindAllStringSubmatch(r.Expr, -1) {
			for _, value := range strings.Split(m[1], "|") {
				if !slices.Contains(words, value) {
					t.Errorf("%s: nothing is called %s", r.Alert, value)
				}
			}
		}
	}
}

// Every alert says how bad it is, what it is about, how to find what it is about, and where it is told what to do; and there, it is.
func TestAlertsAreExplained(t *testing.T) {
	var names []string
	for _, r := range rules(t) {
		names = append(names, r.Alert)
		if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) || r.Annotations["summary"] == "" {
			t.Errorf("%s: labels %v, annotations %v", r.Alert, r.Labels, r.Annotations)
		}
		if !strings.Contains(r.Annotations["description"], "kubectl ") {
			t.Errorf("%s names no command", r.Alert)
		}
		sections := refersTo.FindAllStringSubmatch(r.Annotations["description"], -1)
		if len(sections) == 0 {
			t.Errorf("%s names no section of a page", r.Alert)
		}
		for _, s := range sections {
			if !anchors(read(t, s[1]))[s[2]] {
				t.Errorf("%s: %s: there is no such heading", r.Alert, s[0])
			}
		}
	}
	var told []string
	for _, m := range alert.FindAllStringSubmatch(read(t, "operations.md"), -1) {
		told = append(told, m[1])
	}
	if !slices.Equal(names, told) {
		t.Errorf("operations.md tells of the alerts %q, and there are %q", told, names)
	}
}
