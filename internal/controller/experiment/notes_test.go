package experiment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/argoworkflows"
	"github.com/labkeeper/labkeeper/internal/external/crossplane"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/test/crds"
)

// Tests and cases that are called after a number, as TestNote34... and "note 34: ..." are, here and in the packages
// that this one uses, show that a mistake of the field notes, which systems of this kind have made, is not made again.
// Here are those that no other file is about.

const repository = "../../.."

// A hub has its entry in Argo CD: no other is made, and one that somebody has made is his.
func TestNote01And40HubIsNotRegistered(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("web", v1alpha1.ClusterHub)), nginx(), template())
	theirs := object(argocd.SecretGVK, "argocd", "cluster-hub")
	theirs.SetLabels(argocd.ClusterLabels())
	theirs.Object["data"] = map[string]any{"server": encode(argocd.InClusterServer), "config": encode("{}")}
	l.create(theirs)
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
	l.remove()
	l.settle(l.play)
	for _, w := range l.writes {
		if strings.HasSuffix(w, " Secret") {
			t.Errorf("there is the write %s", w)
		}
	}
	if diff := cmp.Diff(theirs.Object, l.read(argocd.SecretGVK, "argocd", "cluster-hub").Object); diff != "" || l.get() != nil {
		t.Errorf("the Secret of somebody (-before +after):\n%s", diff)
	}
}

// definitions are the CustomResourceDefinitions of the project.
func definitions(t *testing.T) (all []apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	files, err := filepath.Glob(repository + "/config/crd/bases/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(content, &crd); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, crd)
	}
	return all
}

var namedType = regexp.MustCompile(`@\.type=="(\w+)"`)

// A column of which the path finds a list, several values or one of another type is blank.
func TestNote13Columns(t *testing.T) {
	columns := 0
	for _, crd := range definitions(t) {
		for _, version := range crd.Spec.Versions {
			types := []string{"Another"}
			for _, column := range version.AdditionalPrinterColumns {
				for _, named := range namedType.FindAllStringSubmatch(column.JSONPath, -1) {
					types = append(types, named[1])
				}
			}
			slices.Sort(types)
			o := filled(*version.Schema.OpenAPIV3Schema, slices.Compact(types)).(map[string]any)
			o["metadata"] = map[string]any{"name": "x", "creationTimestamp": epoch.Format(time.RFC3339)}
			for _, column := range version.AdditionalPrinterColumns {
				columns++
				t.Run(crd.Spec.Names.Kind+" "+column.Name, func(t *testing.T) { expectCell(t, column, o) })
			}
		}
	}
	if columns < 30 {
		t.Errorf("there are %d columns", columns)
	}
}

// filled is an object of a schema with everything in it. A list has two elements at least; one that has no type
// twice has one of each of some types.
func filled(p apiextensionsv1.JSONSchemaProps, types []string) any {
	switch {
	case p.XIntOrString, p.Type == "integer":
		return int64(7)
	case p.Type == "number":
		return 1.5
	case p.Type == "boolean":
		return true
	case p.Type == "array":
		one, other := filled(*p.Items.Schema, types), filled(*p.Items.Schema, types)
		if !slices.Equal(p.XListMapKeys, []string{"type"}) {
			return []any{one, other}
		}
		var all []any
		for _, name := range types {
			element := filled(*p.Items.Schema, types).(map[string]any)
			element["type"] = name
			all = append(all, element)
		}
		return all
	case p.Type == "object":
		o := map[string]any{}
		for name, property := range p.Properties {
			o[name] = filled(property, types)
		}
		if p.AdditionalProperties != nil && p.AdditionalProperties.Schema != nil {
			o["any"] = filled(*p.AdditionalProperties.Schema, types)
		}
		return o
	case p.Format == "date-time":
		return epoch.Format(time.RFC3339)
	}
	return "text"
}

// expectCell finds the value of a column as the API server does.
func expectCell(t *testing.T, column apiextensionsv1.CustomResourceColumnDefinition, o map[string]any) {
	t.Helper()
	path := jsonpath.New(column.Name)
	if err := path.Parse("{" + column.JSONPath + "}"); err != nil {
		t.Fatal(err)
	}
	found, err := path.FindResults(o)
	if err != nil || len(found) != 1 || len(found[0]) != 1 {
		t.Fatalf("%s finds %v (%v), not one value", column.JSONPath, found, err)
	}
	value := found[0][0].Interface()
	text, isText := value.(string)
	switch column.Type {
	case "integer":
		_, ok := value.(int64)
		expectColumn(t, column, value, ok)
	case "boolean":
		_, ok := value.(bool)
		expectColumn(t, column, value, ok)
	case "date":
		_, err := time.Parse(time.RFC3339, text)
		expectColumn(t, column, value, err == nil)
	default:
		expectColumn(t, column, value, isText && column.Type == "string")
	}
}

func expectColumn(t *testing.T, column apiextensionsv1.CustomResourceColumnDefinition, value any, ok bool) {
	t.Helper()
	if !ok {
		t.Errorf("the column is of type %s, and %s finds the %T %v", column.Type, column.JSONPath, value, value)
	}
}

// An owner in another namespace is none to the garbage collector, which deletes what has no owner.
func TestNote24NothingIsOwnedAcrossNamespaces(t *testing.T) {
	for name, r := range roads() {
		l := r.lab(t)
		l.settle(l.play)
		for _, o := range l.ours() {
			if owners := o.GetOwnerReferences(); len(owners) > 0 && o.GetNamespace() != l.experiment.Namespace {
				t.Errorf("%s: %s %s/%s is owned by %v", name, o.GetKind(), o.GetNamespace(), o.GetName(), owners)
			}
		}
	}
}

// Two Experiments that deploy the same on the hub have no namespace and no object in common, also when they have one
// name, and the end of one is none of the other's business.
func TestNote30TwoOnTheHub(t *testing.T) {
	one, two := experimentOf(targetOf("web", v1alpha1.ClusterHub)), experimentOf(targetOf("web", v1alpha1.ClusterHub))
	two.Namespace, two.UID = "lab2", "22222222-2222-3333-4444-555555555555"
	l := newLab(t, one, two, nginx(), template(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "lab2"}})
	l.reconciler.Gate = kube.NewGate(2)
	destinations, objects := map[string]string{}, map[string][]unstructured.Unstructured{}
	for _, e := range []*v1alpha1.Experiment{one, two} {
		l.experiment = client.ObjectKeyFromObject(e)
		l.settle(l.play)
		l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
		for _, app := range l.list(argocd.ApplicationGVK) {
			if !marks.Owns(e, &app) {
				continue
			}
			namespace, _, _ := unstructured.NestedString(app.Object, "spec", "destination", "namespace")
			if other, taken := destinations[namespace]; taken {
				t.Errorf("%s deploys into the namespace %s, as %s", app.GetName(), namespace, other)
			}
			destinations[namespace] = app.GetName()
			labels, _, _ := unstructured.NestedStringMap(app.Object, "spec", "syncPolicy", "managedNamespaceMetadata", "labels")
			l.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: labels}}) // which Argo CD does
		}
	}
	for _, o := range l.ours() {
		owner := o.GetLabels()[v1alpha1.LabelExperimentUID]
		objects[owner] = append(objects[owner], o)
	}
	want := []string{"Application", "Namespace", "Workflow"}
	for _, e := range []*v1alpha1.Experiment{one, two} {
		if diff := cmp.Diff(want, kindsLeft(objects[string(e.UID)])); diff != "" {
			t.Errorf("what %s has (-want +got):\n%s", e.Namespace, diff)
		}
	}
	l.remove() // the second
	l.settle(l.play)
	if diff := cmp.Diff(objects[string(one.UID)], l.ours()); diff != "" || l.get() != nil {
		t.Errorf("what the first has (-before +after the end of the second):\n%s", diff)
	}
}

// What brings a namespace of its own along can still meet its like there: Argo CD sees it, and so does who waits.
func TestNote30ObjectsOfTwo(t *testing.T) {
	for name, sync := range map[string]string{"healthy": "Synced", "not": "OutOfSync"} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, experimentOf(targetOf("web", v1alpha1.ClusterHub)), nginx(), template())
			l.until(v1alpha1.PhaseReady)
			l.spoil(argocd.ApplicationGVK, func(u *unstructured.Unstructured) {
				_ = unstructured.SetNestedField(u.Object, sync, "status", "sync", "status")
				_ = unstructured.SetNestedSlice(u.Object, []any{map[string]any{"type": "SharedResourceWarning", "message": "Deployment/web is part of two"}}, "status", "conditions")
			})
			l.mustReconcile()
			for _, said := range []string{l.get().Status.Targets[0].Message, l.message(v1alpha1.ConditionApplicationsHealthy)} {
				if !strings.HasSuffix(said, "SharedResourceWarning: Deployment/web is part of two") {
					t.Errorf("it says %q", said)
				}
			}
		})
	}
}

// What takes half an hour is not asked for every ten seconds: what is watched wakes the manager, and it looks by
// itself when a deadline is over.
func TestNote32NothingIsPolled(t *testing.T) {
	for _, phase := range []v1alpha1.Phase{v1alpha1.PhaseProvisioning, v1alpha1.PhaseReady, v1alpha1.PhaseRunning, v1alpha1.PhaseComplete} {
		for name, begin := range map[string]func(*testing.T) *lab{"gke": tutorial, "vcluster": onVCluster} {
			l := begin(t)
			l.until(phase)
			before := len(l.writes)
			if wait := l.pass(); wait < time.Hour || len(l.writes) > before {
				t.Errorf("%s, %s: it is looked at after %s, and has written %v", name, phase, wait, l.writes[before:])
			}
		}
	}
}

// Targets are known by their names: in another order they are the same, and one that is added is begun. That none
// goes, or becomes another, once clusters may be there, is a rule of the schema.
func TestNote36Targets(t *testing.T) {
	zone := func(name, zone string) v1alpha1.Target {
		target := targetOf(name, v1alpha1.ClusterGKE)
		target.Cluster.Zone = zone
		return target
	}
	a, b, c := zone("a", "europe-west4-a"), zone("b", "europe-west4-b"), zone("c", "europe-west4-c")

	t.Run("by name", func(t *testing.T) {
		l := newLab(t, experimentOf(a, b), nginx(), template())
		l.until(v1alpha1.PhaseReady)
		clusters := func() map[string]string {
			all := map[string]string{}
			for _, claim := range l.list(crossplane.GKEClusterGVK) {
				zone, _, _ := unstructured.NestedString(claim.Object, "spec", "zone")
				all[claim.GetLabels()[v1alpha1.LabelTarget]] = string(claim.GetUID()) + " in " + zone
			}
			return all
		}
		before := clusters()
		for _, targets := range [][]v1alpha1.Target{{b, a}, {c, b, a}} {
			l.edit(func(e *v1alpha1.Experiment) { e.Spec.Targets = targets })
			l.mustReconcile()
			now := clusters()
			for i, target := range targets {
				if s := l.get().Status.Targets[i]; s.Name != target.Name || !strings.HasSuffix(now[target.Name], target.Cluster.Zone) {
					t.Errorf("target %d is %s, whose cluster is %s", i, s.Name, now[target.Name])
				}
			}
			delete(now, "c")
			if diff := cmp.Diff(before, now); diff != "" {
				t.Errorf("clusters (-before +after):\n%s", diff)
			}
		}
	})

	hub := targetOf("b", v1alpha1.ClusterHub)
	for name, test := range map[string]struct {
		after   []v1alpha1.Target
		refused bool
	}{
		"another order": {[]v1alpha1.Target{b, a}, false},
		"one more":      {[]v1alpha1.Target{a, b, c}, true},
		"one less":      {[]v1alpha1.Target{a}, true},
		"another name":  {[]v1alpha1.Target{a, c}, true},
		"another type":  {[]v1alpha1.Target{a, hub}, true},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := experimentOf(a, b), experimentOf(test.after...)
			before.Status.StartedAt, after.Status.StartedAt = timestamp(epoch), timestamp(epoch)
			broken := brokenRules(t, before, after)
			if refused := strings.Contains(broken, "spec.targets: targets, and of their clusters type"); refused != test.refused || !refused && broken != "" {
				t.Errorf("it is refused with %q", broken)
			}
		})
	}
}

// brokenRules are the rules of the schema that a change of an Experiment breaks.
func brokenRules(t *testing.T, before, after *v1alpha1.Experiment) string {
	t.Helper()
	all := definitions(t)
	i := slices.IndexFunc(all, func(crd apiextensionsv1.CustomResourceDefinition) bool { return crd.Spec.Names.Kind == "Experiment" })
	props := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(all[i].Spec.Versions[0].Schema.OpenAPIV3Schema, props, nil); err != nil {
		t.Fatal(err)
	}
	structural, err := structuralschema.NewStructural(props)
	if err != nil {
		t.Fatal(err)
	}
	errs, _ := cel.NewValidator(structural, true, celconfig.PerCallLimit).
		Validate(t.Context(), nil, structural, untyped(t, after).Object, untyped(t, before).Object, celconfig.RuntimeCELCostBudget)
	var broken []string
	for _, err := range errs {
		broken = append(broken, err.Error())
	}
	return strings.Join(broken, "; ")
}

// untyped is an Experiment as it is stored.
func untyped(t *testing.T, e *v1alpha1.Experiment) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(e)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Experiment"))
	return u
}

// What could only be waited for for ever, or run against nothing, is not let in.
func TestNote38And63SpecsThatAreNotLetIn(t *testing.T) {
	own, err := crds.Load(repository + "/config/crd/bases")
	if err != nil {
		t.Fatal(err)
	}
	web, bare := targetOf("web", v1alpha1.ClusterHub), targetOf("bare", v1alpha1.ClusterHub)
	bare.Components = []v1alpha1.ComponentRef{}
	for name, test := range map[string]struct {
		targets []v1alpha1.Target
		field   string
	}{
		"good":                                {[]v1alpha1.Target{web, targetOf("load", v1alpha1.ClusterHub, "web")}, ""},
		"note 38: a dependency of no target":  {[]v1alpha1.Target{web, targetOf("load", v1alpha1.ClusterHub, "wep")}, "spec.targets"},
		"note 38: a dependency of itself":     {[]v1alpha1.Target{targetOf("load", v1alpha1.ClusterHub, "load")}, "spec.targets"},
		"note 38: a target with no component": {[]v1alpha1.Target{bare, targetOf("load", v1alpha1.ClusterHub, "bare")}, "spec.targets[0].components"},
		"note 63: no targets":                 {[]v1alpha1.Target{}, "spec.targets"},
		"note 63: a target twice":             {[]v1alpha1.Target{web, web}, "spec.targets[1]"},
	} {
		t.Run(name, func(t *testing.T) {
			err := own.Validate(untyped(t, experimentOf(test.targets...)))
			var invalid *crds.InvalidError
			switch {
			case test.field == "" && err == nil:
			case !errors.As(err, &invalid) || len(invalid.Errors) != 1 || invalid.Errors[0].Field != test.field:
				t.Errorf("it says %v, want something of %q", err, test.field)
			}
		})
	}
}

// sleeps are the functions by which a pass could wait.
var sleeps = []string{"time.Sleep", "time.After", "time.Tick", "time.NewTimer", "time.NewTicker"}

// Who waits within a pass holds up all other Experiments, and a manager that is to stop.
func TestNote49NothingSleeps(t *testing.T) {
	files := 0
	for _, dir := range []string{".", "../../external", "../../kube"} {
		if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files++
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains(sleeps, fmt.Sprint(s.X, ".", s.Sel)) {
					t.Errorf("%s uses %s.%s", path, s.X, s.Sel)
				}
				return true
			})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if files < 30 {
		t.Errorf("there are %d files", files)
	}
}

// Fields that this version does not know survive: objects of ours are patched. An update would write what it has
// read into Go types, which is all but them.
func TestNote50FieldsOfOtherVersionsStay(t *testing.T) {
	for name, r := range roads() {
		for end, ends := range ends {
			l := r.lab(t)
			l.settle(l.play)
			ends(l)
			l.settle(l.play)
			for _, w := range l.writes {
				if strings.HasPrefix(w, "update ") {
					t.Errorf("%s, %s: there is the write %s", name, end, w)
				}
			}
		}
	}
	s := newShelf(t, nginx())
	refused := func(o client.Object) error {
		t.Errorf("there is an update of a %T", o)
		return errors.New("refused")
	}
	patched := interceptor.NewClient(s.Client.(client.WithWatch), interceptor.Funcs{
		Update: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.UpdateOption) error {
			return refused(o)
		},
		SubResourceUpdate: func(_ context.Context, _ client.Client, _ string, o client.Object, _ ...client.SubResourceUpdateOption) error {
			return refused(o)
		},
	})
	s.r.Client = patched
	s.expect(s.look(), 0, v1alpha1.ReasonWellFormed, "")
	if err := s.Delete(t.Context(), nginx()); err != nil {
		t.Fatal(err)
	}
	if c := s.look(); c != nil {
		t.Errorf("it is still there: %+v", c)
	}
}

// A write that is refused, of whatever a road needs, is said, and nothing goes on as if it had taken place.
func TestNote54RefusedWritesAreTold(t *testing.T) {
	for name, r := range roads() {
		reference := r.lab(t)
		reference.settle(reference.play)
		seen := map[string]bool{"patch Experiment": true, "patch Experiment/status": true}
		for _, w := range reference.writes {
			if seen[w] {
				continue
			}
			seen[w] = true
			t.Run(name+", "+w, func(t *testing.T) {
				l := r.lab(t)
				verb, kind, _ := strings.Cut(w, " ")
				l.forbid(verb, kind)
				for range 20 {
					_ = l.reconcile()
					l.play()
				}
				l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonForbidden)
				if m := l.message(v1alpha1.ConditionReady); !strings.Contains(m, kind+" ") || !strings.Contains(m, "no rights") {
					t.Errorf("it does not say what is refused: %s", m)
				}
				if got := l.get().Status; got.Phase == v1alpha1.PhaseComplete || len(l.list(argoworkflows.WorkflowGVK)) > 0 {
					t.Errorf("it goes on, to %s", got.Phase)
				}
				l.refuse = nil
				l.settle(l.play)
				l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
			})
		}
	}
}

// Nor is that the finalizer cannot be set, or taken off, by somebody's admission policy for instance; it is told once.
func TestNote54RefusedFinalizersAreTold(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("app", v1alpha1.ClusterHub)), nginx(), template())
	refusedAgain := func(said string) {
		t.Helper()
		for range 3 {
			if err := l.reconcile(); !apierrors.IsForbidden(err) {
				t.Errorf("the error is %v", err)
			}
		}
		if m := l.message(v1alpha1.ConditionReady); !strings.HasPrefix(m, said+v1alpha1.Finalizer) || !strings.Contains(m, "no rights") {
			t.Errorf("it says %q", m)
		}
		version := l.get().ResourceVersion
		if _ = l.reconcile(); l.get().ResourceVersion != version {
			t.Error("it is told again and again")
		}
	}
	l.forbid("patch", "Experiment")
	refusedAgain("Adding the finalizer ")
	l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonForbidden)
	if l.get().Status.StartedAt != nil || len(l.list(argocd.ApplicationGVK)) > 0 {
		t.Error("it is begun")
	}
	l.refuse = nil
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)

	e := l.get() // somebody takes it off
	e.Finalizers = nil
	l.update(e)
	l.forbid("patch", "Experiment")
	refusedAgain("Adding the finalizer ")
	l.refuse = nil
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)

	l.remove()
	l.forbid("patch", "Experiment")
	for range 10 {
		_ = l.reconcile()
		l.play()
	}
	l.drain()
	refusedAgain("Taking the finalizer ")
	l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDeleting)
	told := l.drain()
	if len(told) == 0 || slices.ContainsFunc(told, func(e string) bool { return !strings.HasPrefix(e, "Warning Forbidden Taking the finalizer ") }) {
		t.Errorf("the events are %q", told)
	}
	l.refuse = nil
	if l.settle(l.play); l.get() != nil {
		t.Error("it stays")
	}
}

// Credentials are in the Secret that Argo CD reads and nowhere else, at no time: everybody may read an Application.
func TestNote56CredentialsAreInSecretsAlone(t *testing.T) {
	for name, r := range roads() {
		t.Run(name, func(t *testing.T) {
			l := r.lab(t)
			registered := false
			l.settle(func() bool {
				registered = l.credentialsAreInSecretsAlone() || registered
				return l.play()
			})
			l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
			if registered == r.unregistered {
				t.Errorf("a Secret has the credentials: %t", registered)
			}
		})
	}
}

// credentialsAreInSecretsAlone looks for what the kubeconfigs of the lab have, and says whether a cluster Secret has it.
func (l *lab) credentialsAreInSecretsAlone() (registered bool) {
	l.t.Helper()
	texts := l.drain()
	for _, o := range append(l.ours(), *untyped(l.t, l.get())) {
		if o.GetKind() == "Secret" {
			config, _, _ := unstructured.NestedString(o.Object, "data", "config")
			registered = registered || strings.Contains(decode(config), "canary-token")
			continue
		}
		content, err := json.Marshal(o.Object)
		if err != nil {
			l.t.Fatal(err)
		}
		texts = append(texts, string(content))
	}
	for _, text := range texts {
		if strings.Contains(text, "canary-token") || strings.Contains(text, encode("canary-token")) || strings.Contains(text, encode(kubeconfig)) {
			l.t.Errorf("the credentials are in %s", text)
		}
	}
	return registered
}

// What is to be applied has a name of its own.
func TestNote62SamplesCanBeApplied(t *testing.T) {
	samples := 0
	if err := filepath.WalkDir(repository+"/config/samples", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		decoder := utilyaml.NewYAMLOrJSONDecoder(file, 4096)
		for {
			o := &unstructured.Unstructured{}
			if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return fmt.Errorf("reading %s: %w", path, err)
			}
			if o.Object == nil { // a comment
				continue
			}
			samples++
			if o.GetName() == "" || o.GetGenerateName() != "" {
				t.Errorf("%s: a %s has the name %q and the generateName %q", path, o.GetKind(), o.GetName(), o.GetGenerateName())
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	if samples < 20 {
		t.Errorf("there are %d samples", samples)
	}
}

// What the hub needs stands in the README for each type of cluster that there is.
func TestReadmeTellsOfEveryCluster(t *testing.T) {
	readme, err := os.ReadFile(repository + "/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(readme), "What the hub needs for each cluster type:\n\n")
	table, _, _ = strings.Cut(table, "\n\n")
	all := definitions(t)
	i := slices.IndexFunc(all, func(crd apiextensionsv1.CustomResourceDefinition) bool { return crd.Spec.Names.Kind == "Experiment" })
	targets := all[i].Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["targets"]
	types := targets.Items.Schema.Properties["cluster"].Properties["type"].Enum
	if len(types) < 6 {
		t.Fatalf("there are %d types: this test proves nothing", len(types))
	}
	for _, one := range types {
		if name := strings.Trim(string(one.Raw), `"`); !strings.Contains(table, "\n| `"+name+"` | ") {
			t.Errorf("it does not tell what the hub needs for clusters of type %s", name)
		}
	}
}

var selectors = regexp.MustCompile("(?:\\s-l[ =]?|--selector[ =])['\"]?([^\\s'\"`]+)")

// A command that users are told finds something: what it selects by is on what the manager makes.
func TestNote62SelectorsThatUsersAreTold(t *testing.T) {
	l := tutorial(t)
	l.settle(l.play)
	made := l.ours()
	l.remove()
	l.settle(l.without(crossplane.GKEClusterGVK))
	l.later(31 * time.Minute)
	l.tick()
	left := &corev1.ConfigMapList{}
	if err := l.client.List(t.Context(), left, client.InNamespace("labkeeper-system")); err != nil || len(left.Items) != 1 {
		t.Fatalf("there are %d ConfigMaps of what is left (%v)", len(left.Items), err)
	}
	set := left.Items[0].Labels
	for _, o := range made {
		maps.Copy(set, o.GetLabels())
	}
	var told [][][]byte
	for _, page := range []string{"/README.md", "/docs/experiments.md"} {
		text, err := os.ReadFile(repository + page)
		if err != nil {
			t.Fatal(err)
		}
		have := selectors.FindAllSubmatch(text, -1)
		if len(have) == 0 {
			t.Fatalf("%s has no selectors: this test proves nothing of it", page)
		}
		told = append(told, have...)
	}
	for _, match := range told {
		selector, err := labels.Parse(string(match[1]))
		if err != nil {
			t.Errorf("%s: %v", match[1], err)
			continue
		}
		requirements, _ := selector.Requirements()
		for _, r := range requirements {
			if _, ok := set[r.Key()]; !ok {
				t.Errorf("-l %s: nothing has the label %s", match[1], r.Key())
			}
		}
	}
}
