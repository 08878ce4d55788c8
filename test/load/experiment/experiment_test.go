package experiment

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/test/load/harness"
)

func sum(counts map[string]int) int {
	total := 0
	for _, n := range counts {
		total += n
	}
	return total
}

// The formula, with C clusters of Crossplane and A Applications: 2+2C+A writes up beside the statuses, and
// A+2C+2 down beside the namespaces on the hub. A vcluster takes a namespace, a RoleBinding, a question and another object
// more, a talos cluster three objects and three copies.
func TestFormula(t *testing.T) {
	for name, s := range map[string]size{
		"1-1-0": {gke: 1, applications: 1}, "1-2-1": {gke: 1, hub: 1, applications: 2}, "0-1-1": {hub: 1, applications: 1}, "3-3-0": {gke: 3, applications: 3},
		"existing": {existing: 1, applications: 1}, "vcluster": {vcluster: 1, applications: 1}, "talos": {talos: 1, applications: 1},
		"composite": {composites: 1, applications: 1}, "referred": {referred: 1, applications: 1},
	} {
		clusters := s.gke + s.composites + s.vcluster + s.talos
		if up, want := sum(s.up()), 2+2*clusters+s.existing+s.applications+4*s.vcluster+6*s.talos; up != want {
			t.Errorf("%s: %d writes up, want %d", name, up, want)
		}
		if down, want := sum(s.down()), s.applications+2*clusters+s.existing+2+s.hub+2*s.vcluster+6*s.talos; down != want {
			t.Errorf("%s: %d writes down, want %d", name, down, want)
		}
	}
}

func event(verb string, content string) harness.Event {
	e := harness.Event{Type: verb}
	if err := json.Unmarshal([]byte(content), &e.Object); err != nil {
		panic(err)
	}
	switch e.Object.Kind {
	case "Experiment":
		e.Object.Resource = experiments
	case "Application":
		e.Object.Resource = applications
	case "Workflow":
		e.Object.Resource = workflows
	case "Namespace":
		e.Object.Resource = namespaces
	case "Secret":
		e.Object.Resource = secrets
	}
	return e
}

func TestStory(t *testing.T) {
	const child = `"metadata": {"labels": {"` + v1alpha1.LabelExperimentUID + `": "uid", "` + v1alpha1.LabelTarget + `": "app"}}`
	for name, test := range map[string]struct {
		event harness.Event
		want  harness.Beat
	}{
		"created": {
			event("ADDED", `{"kind": "Experiment", "metadata": {"uid": "uid"}, "spec": {"targets": [{"components": [{"params": {"replicaCount": "3"}}]}]}}`),
			harness.Beat{Owner: "uid", Marks: []string{"created"}, Where: "spec", Version: "3"},
		},
		"running": {
			event("MODIFIED", `{"kind": "Experiment", "metadata": {"uid": "uid"}, "status": {"phase": "Running", "workflow": {"phase": "Running"}}}`),
			harness.Beat{Owner: "uid", Marks: []string{"acted", "Running", "told Running"}, Where: "spec"},
		},
		"refused": {
			event("MODIFIED", `{"kind": "Experiment", "metadata": {"uid": "uid"}, "status": {"phase": "Pending", "conditions": [{"type": "ComponentsResolved", "reason": "ComponentNotFound"}]}}`),
			harness.Beat{Owner: "uid", Marks: []string{"acted", "Pending", "refused"}, Where: "spec"},
		},
		"an Application": {
			event("ADDED", `{"kind": "Application", `+child+`, "spec": {"sources": [{"helm": {"parameters": [{"name": "replicaCount", "value": "3"}]}}]}}`),
			harness.Beat{Owner: "uid", Marks: []string{"Application app"}, Where: "Application", Version: "3"},
		},
		"a healthy Application": {
			event("MODIFIED", `{"kind": "Application", `+child+`, "status": {"health": {"status": "Healthy"}}}`),
			harness.Beat{Owner: "uid", Marks: []string{"Application app ready"}, Where: "Application"},
		},
		"a Workflow that is gone": {
			event("DELETED", `{"kind": "Workflow", "metadata": {"labels": {"`+v1alpha1.LabelExperimentUID+`": "uid"}}}`),
			harness.Beat{Owner: "uid", Marks: []string{"Workflow gone"}},
		},
		"Argo CD's namespace": {
			event("ADDED", `{"kind": "Namespace", `+child+`}`),
			harness.Beat{Owner: "uid", Marks: []string{"Namespace app"}, ByOthers: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, story(test.event)); diff != "" {
				t.Errorf("beat (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEditIsOfTheSpecThatNewMakes(t *testing.T) {
	var patch struct{ Spec struct{ Targets []any } }
	if err := json.Unmarshal(Subject().Edit(7), &patch); err != nil {
		t.Fatal(err)
	}
	o := harness.Object{}
	content, err := json.Marshal(object("a", "b", patch.Spec.Targets...))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &o); err != nil {
		t.Fatal(err)
	}
	if got := replicasOf(&o); got != "7" {
		t.Errorf("the version is %q", got)
	}
}

// Argo CD deploys on a cluster while there is a whole Secret for it, whichever of the two it hears of first.
func TestArgoCDLooksForTheClusterSecret(t *testing.T) {
	var deployed []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), `"Healthy"`) {
			deployed = append(deployed, r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:])
		}
	}))
	defer server.Close()
	c, err := harness.NewClient(&rest.Config{Host: server.URL}, 0)
	if err != nil {
		t.Fatal(err)
	}
	w := world()
	if !slices.ContainsFunc(w.Watched, func(w harness.Watched) bool { return w.Resource == secrets && w.Namespace == argoCDNamespace }) {
		t.Error("the world does not hear of Secrets")
	}
	app := func(name, destination string) string {
		return `{"kind": "Application", "metadata": {"namespace": "argocd", "name": "` + name + `"}, "spec": {"sources": [], "destination": {` + destination + `}}}`
	}
	secret := func(name, config string) string {
		value := func(s string) string { return `"` + base64.StdEncoding.EncodeToString([]byte(s)) + `"` }
		return `{"kind": "Secret", "metadata": {"namespace": "argocd", "name": "cluster-` + name + `", "labels": {"argocd.argoproj.io/secret-type": "cluster"}},
			"data": {"name": ` + value(name) + `, "server": ` + value("https://203.0.113.7") + `, "config": ` + value(config) + `}}`
	}
	const whole = `{"bearerToken": "not-a-token"}`
	for _, step := range []struct {
		what, object string
		gone         bool
		want         []string
	}{
		{"on the hub", app("hub", `"server": "https://kubernetes.default.svc"`), false, []string{"hub"}},
		{"without a Secret", app("early", `"name": "one"`), false, nil},
		{"the Secret of another", secret("two", whole), false, nil},
		{"half a Secret", secret("one", ""), false, nil},
		{"the Secret", secret("one", whole), false, []string{"early"}},
		{"with the Secret", app("late", `"name": "one"`), false, []string{"late"}},
		{"the Secret goes", secret("one", whole), true, nil},
		{"after that", app("after", `"name": "one"`), false, nil},
		{"it goes, too", app("after", `"name": "one"`), true, nil},
	} {
		deployed = nil
		e := event("MODIFIED", step.object)
		if err := w.Play(t.Context(), c, &e.Object, step.gone); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		if !slices.Equal(deployed, step.want) {
			t.Errorf("%s: deployed are %q, want %q", step.what, deployed, step.want)
		}
	}
}
