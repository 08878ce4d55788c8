package experiment

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/argoworkflows"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// validatedBy is an Experiment on the hub with a changed workflow.
func validatedBy(change func(*v1alpha1.WorkflowSpec)) *v1alpha1.Experiment {
	e := experimentOf(targetOf("app", v1alpha1.ClusterHub))
	change(&e.Spec.Workflow)
	return e
}

func clusterTemplate() *unstructured.Unstructured {
	u := object(argoworkflows.ClusterWorkflowTemplateGVK, "", "validation")
	u.Object["spec"] = map[string]any{}
	return u
}

// A template can be one of the whole cluster; one of the namespace is not taken for it.
func TestClusterWorkflowTemplate(t *testing.T) {
	l := newLab(t, validatedBy(func(w *v1alpha1.WorkflowSpec) { w.ClusterScope = true }), nginx(), template())
	l.settle(l.play)
	l.expect(v1alpha1.ConditionWorkflowSucceeded, metav1.ConditionFalse, v1alpha1.ReasonWorkflowTemplateNotFound)
	if got := recordedStep(l.get().Status.Conditions, v1alpha1.ConditionWorkflowSucceeded).Message; got != "ClusterWorkflowTemplate validation does not exist; create it" {
		t.Errorf("message is %q", got)
	}
	l.create(clusterTemplate())
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
	ref, _, _ := unstructured.NestedMap(l.list(argoworkflows.WorkflowGVK)[0].Object, "spec", "workflowTemplateRef")
	if diff := cmp.Diff(map[string]any{"name": "validation", "clusterScope": true}, ref); diff != "" {
		t.Errorf("workflowTemplateRef (-want +got):\n%s", diff)
	}
}

// Of a template that was created just now Argo Workflows may not know, and a Workflow of such a one ends with an error for good.
func TestTemplatesThatWereCreatedJustNow(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterHub)), nginx())
	l.settle(l.play)
	l.expect(v1alpha1.ConditionWorkflowSucceeded, metav1.ConditionFalse, v1alpha1.ReasonWorkflowTemplateNotFound)
	late := template()
	late.SetCreationTimestamp(metav1.NewTime(l.clock.Now().Add(2 * time.Second))) // by a clock that is a little ahead
	l.create(late)
	if wait := l.pass(); len(l.list(argoworkflows.WorkflowGVK)) > 0 || wait <= 0 || wait > 5*time.Second {
		t.Fatalf("it is looked again in %s, and there are %d Workflows", wait, len(l.list(argoworkflows.WorkflowGVK)))
	}
	l.clock.SetTime(epoch.Add(5 * time.Second))
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
}

// Where the clock of the API server is ahead nobody waits for it.
func TestTemplatesThatAreYetToBeCreated(t *testing.T) {
	late := template()
	late.SetCreationTimestamp(metav1.NewTime(epoch.Add(time.Hour)))
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterHub)), nginx(), late)
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
}

// An installation of Argo Workflows for one namespace has no such templates; only who names one is told.
func TestWithoutClusterWorkflowTemplates(t *testing.T) {
	for _, named := range []bool{false, true} {
		l := newLab(t, validatedBy(func(w *v1alpha1.WorkflowSpec) { w.ClusterScope = named }), nginx(), template())
		l.kinds[argoworkflows.ClusterWorkflowTemplateGVK] = kube.KindMissing
		l.settle(l.play)
		if named {
			l.expect(v1alpha1.ConditionWorkflowSucceeded, metav1.ConditionFalse, v1alpha1.ReasonCRDMissing)
		} else {
			l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
		}
	}
}

// What an author may choose of where a Workflow runs, and as what: no more than a Workflow of his own
// could do, or what the Namespace grants.
func TestWhereWorkflowsRun(t *testing.T) {
	type workflow struct{ namespace, account string }
	for name, test := range map[string]struct {
		spec     v1alpha1.WorkflowSpec
		anywhere bool
		granted  string
		want     workflow
		refusal  string
	}{
		"note 04: by default":   {want: workflow{"argo", "argo-workflow"}},
		"own namespace":         {spec: v1alpha1.WorkflowSpec{Namespace: "lab"}, anywhere: true, want: workflow{"lab", "argo-workflow"}},
		"own account":           {spec: v1alpha1.WorkflowSpec{Namespace: "lab", ServiceAccountName: "builder"}, anywhere: true, want: workflow{"lab", "builder"}},
		"own namespace, off":    {spec: v1alpha1.WorkflowSpec{Namespace: "lab"}, refusal: "--workflows-anywhere"},
		"another namespace":     {spec: v1alpha1.WorkflowSpec{Namespace: "kube-system"}, anywhere: true, refusal: "write lab"},
		"an account of argo's":  {spec: v1alpha1.WorkflowSpec{ServiceAccountName: "admin"}, anywhere: true, refusal: v1alpha1.AnnotationServiceAccounts},
		"another account of it": {spec: v1alpha1.WorkflowSpec{ServiceAccountName: "admin"}, granted: "tests", refusal: v1alpha1.AnnotationServiceAccounts},
		"a granted account":     {spec: v1alpha1.WorkflowSpec{ServiceAccountName: "tests"}, granted: "load, tests", want: workflow{"argo", "tests"}},
	} {
		t.Run(name, func(t *testing.T) {
			own := template()
			own.SetNamespace("lab")
			l := newLab(t, validatedBy(func(w *v1alpha1.WorkflowSpec) {
				w.Namespace, w.ServiceAccountName = test.spec.Namespace, test.spec.ServiceAccountName
			}), nginx(), template(), own)
			l.reconciler.Options.WorkflowsAnywhere = test.anywhere
			l.annotateNamespace(v1alpha1.AnnotationServiceAccounts, test.granted)
			l.settle(l.play)
			if test.refusal != "" {
				l.expect(v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonInvalidSpec)
				if got := recordedStep(l.get().Status.Conditions, v1alpha1.ConditionAccepted).Message; !strings.Contains(got, test.refusal) || l.get().Status.StartedAt != nil {
					t.Errorf("message is %q; begun: %v", got, l.get().Status.StartedAt)
				}
				return
			}
			l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
			w := l.list(argoworkflows.WorkflowGVK)[0]
			account, _, _ := unstructured.NestedString(w.Object, "spec", "serviceAccountName")
			if got := (workflow{w.GetNamespace(), account}); got != test.want {
				t.Errorf("it runs as %+v, want %+v", got, test.want)
			}
			l.remove()
			l.settle(l.play)
			if l.get() != nil || len(l.list(argoworkflows.WorkflowGVK)) > 0 {
				t.Error("something is left")
			}
		})
	}
}

// A manager that is told no account leaves it to the templates: with templateReferencing Strict, Argo Workflows takes none from anybody
// else (and only such fields).
func TestWorkflowsThatTakeNoAccount(t *testing.T) {
	l := newLab(t, validatedBy(func(*v1alpha1.WorkflowSpec) {}), nginx(), template())
	l.edit(func(e *v1alpha1.Experiment) {
		e.Spec.ProgressDeadline = &v1alpha1.ProgressDeadline{Workflow: &metav1.Duration{Duration: time.Hour}}
	})
	l.reconciler.Options.WorkflowServiceAccount = ""
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
	allowed := []string{
		"arguments", "entrypoint", "shutdown", "suspend", "activeDeadlineSeconds", "priority", "ttlStrategy", "podGC", "volumeClaimGC", "archiveLogs",
		"workflowMetadata", "workflowTemplateRef", "metrics", "artifactGC",
	}
	for field := range l.list(argoworkflows.WorkflowGVK)[0].Object["spec"].(map[string]any) {
		if !slices.Contains(allowed, field) {
			t.Errorf("it has the field %s", field)
		}
	}
}

// What the author gives reaches the Workflow beside what every Workflow gets, sorted.
func TestParametersOfTheWorkflow(t *testing.T) {
	l := newLab(t, validatedBy(func(w *v1alpha1.WorkflowSpec) { w.Params = map[string]string{"duration": "5m", "z": "", "app": "$(x)"} }), nginx(), template())
	l.until(v1alpha1.PhaseRunning)
	got, _, _ := unstructured.NestedSlice(l.list(argoworkflows.WorkflowGVK)[0].Object, "spec", "arguments", "parameters")
	want := []any{}
	for _, p := range [][2]string{
		{"app", "$(x)"}, {"app-endpoint", argocd.InClusterServer}, {"app-name", "in-cluster"}, {"app-namespace", l.get().Status.Targets[0].Namespace},
		{"duration", "5m"}, {"experiment-name", "tutorial"}, {"z", ""},
	} {
		want = append(want, map[string]any{"name": p[0], "value": p[1]})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parameters (-want +got):\n%s", diff)
	}
}

// Why a Workflow does not run yet is told in the words of Argo Workflows.
func TestWorkflowThatIsPending(t *testing.T) {
	l := newLab(t, validatedBy(func(*v1alpha1.WorkflowSpec) {}), nginx(), template())
	l.until(v1alpha1.PhaseRunning)
	w := l.list(argoworkflows.WorkflowGVK)[0]
	w.Object["status"] = map[string]any{"phase": "Pending", "message": "Workflow processing has been postponed because too many workflows are already running"}
	l.update(&w)
	l.mustReconcile()
	if m := l.message(v1alpha1.ConditionWorkflowSucceeded); !strings.HasSuffix(m, " is pending: Workflow processing has been postponed because too many workflows are already running") {
		t.Errorf("it says %q", m)
	}
}

// An Experiment in the namespace of Argo Workflows is no exception.
func TestAccountsOfExperimentsBesideWorkflows(t *testing.T) {
	e := validatedBy(func(w *v1alpha1.WorkflowSpec) { w.ServiceAccountName = "admin" })
	e.Namespace = "argo"
	l := newLab(t, e, nginx(), template(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "argo"}})
	l.settle(l.play)
	l.expect(v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonInvalidSpec)
}

// A manager that does not look into the Experiment's namespace any more knows nothing of the Workflow
// there, and says what it needs to.
func TestWorkflowWhereNobodyLooks(t *testing.T) {
	own := template()
	own.SetNamespace("lab")
	l := newLab(t, validatedBy(func(w *v1alpha1.WorkflowSpec) { w.Namespace = "lab" }), nginx(), own)
	l.reconciler.Options.WorkflowsAnywhere = true
	l.until(v1alpha1.PhaseRunning)
	l.reconciler.Options.WorkflowsAnywhere = false
	if err := l.reconcile(); err != nil {
		t.Fatal(err)
	}
	l.expect(v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonNamespacesChanged)
	l.remove()
	l.settle(l.play)
	if e := l.get(); e == nil || len(l.list(argoworkflows.WorkflowGVK)) != 1 {
		t.Fatal("it is let go without its Workflow")
	}
	l.reconciler.Options.WorkflowsAnywhere = true
	l.settle(l.play)
	if l.get() != nil || len(l.list(argoworkflows.WorkflowGVK)) > 0 {
		t.Error("something is left")
	}
}

// collect plays how Argo Workflows deletes what is over: so long after its end as the Workflow says, or else its template.
func (l *lab) collect(template time.Duration) {
	l.t.Helper()
	for _, w := range l.list(argoworkflows.WorkflowGVK) {
		after := template
		if seconds, said, _ := unstructured.NestedInt64(w.Object, "spec", "ttlStrategy", "secondsAfterSuccess"); said {
			after = time.Duration(seconds) * time.Second
		}
		if state := argoworkflows.Read(&w); state.Over() && l.clock.Now().Sub(state.FinishedAt) > after {
			l.deleteObject(&w)
		}
	}
}

// The verdict of a Workflow that ends while no manager runs is read, however soon its template has Argo Workflows delete it; it goes
// with the Experiment.
func TestNote51WorkflowThatIsCollected(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterHub)), nginx(), template())
	l.until(v1alpha1.PhaseRunning)
	l.play()
	l.later(time.Hour)
	l.collect(5 * time.Second)
	l.settle(l.play)
	if got := l.get().Status; got.Phase != v1alpha1.PhaseComplete {
		t.Errorf("it is %s: %s", got.Phase, l.message(v1alpha1.ConditionWorkflowSucceeded))
	}
	l.remove()
	l.settle(l.play)
	if len(l.list(argoworkflows.WorkflowGVK)) > 0 {
		t.Error("the Workflow is left")
	}
}

// Whoever may create Experiments must not thereby run what he likes as the account of the Workflows: what the samples show is copied.
func TestSamplesRunNoParameters(t *testing.T) {
	script := regexp.MustCompile(`(?m)^\s*(command|args|source):.*\{\{.*$`)
	err := filepath.WalkDir(filepath.Join("..", "..", "..", "config", "samples"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		for _, line := range script.FindAllString(string(content), -1) {
			t.Errorf("%s puts a parameter into a script: %s", path, line)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// declaring is the template with parameters.
func declaring(parameters ...any) *unstructured.Unstructured {
	u := template()
	_ = unstructured.SetNestedSlice(u.Object, parameters, "spec", "arguments", "parameters")
	return u
}

// What Argo Workflows would refuse, when everything is up and paid for, is said from the first pass on, and not submitted until it is
// mended, on either side; a name that the template does not declare, or not with that value, is told of, because it may be mistyped.
func TestParametersOfTheTemplate(t *testing.T) {
	region := map[string]any{"name": "region"}
	size := map[string]any{"name": "size", "value": "small", "enum": []any{"small", "large"}}
	for name, test := range map[string]struct {
		template *unstructured.Unstructured
		params   map[string]string
		says     string
		mends    func(*lab)
	}{
		"one without a value": {
			declaring(region), nil, "spec.workflow.params: WorkflowTemplate argo/validation has no value for its parameter region",
			func(l *lab) {
				u := l.read(argoworkflows.WorkflowTemplateGVK, "argo", "validation")
				u.Object["spec"] = map[string]any{}
				l.update(u)
			},
		},
		"on the other side": {
			declaring(region), nil, "spec.workflow.params: WorkflowTemplate argo/validation has no value for its parameter region",
			func(l *lab) {
				l.edit(func(e *v1alpha1.Experiment) { e.Spec.Workflow.Params = map[string]string{"region": "x"} })
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := experimentOf(targetOf("app", v1alpha1.ClusterHub))
			e.Spec.Workflow.Params = test.params
			l := newLab(t, e, nginx(), test.template)
			l.mustReconcile()
			l.says(test.says)
			l.settle(l.deploy)
			l.expect(v1alpha1.ConditionApplicationsHealthy, metav1.ConditionTrue, v1alpha1.ReasonApplicationsHealthy)
			l.expect(v1alpha1.ConditionWorkflowSucceeded, metav1.ConditionFalse, v1alpha1.ReasonInvalidSpec)
			test.mends(l)
			l.until(v1alpha1.PhaseRunning)
		})
	}

	e := experimentOf(targetOf("app", v1alpha1.ClusterHub))
	e.Spec.Workflow.Params = map[string]string{"seize": "large", "size": "huge"}
	l := newLab(t, e, nginx(), declaring(size, map[string]any{"name": "experiment-name"}))
	l.mustReconcile()
	l.says(`; size is to have one of small, large by WorkflowTemplate argo/validation (spec.workflow.params), and has "huge"; WorkflowTemplate argo/validation does not declare seize (spec.workflow.params)`)
	l.until(v1alpha1.PhaseRunning)
}
