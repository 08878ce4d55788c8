package component

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/test/faults"
)

type (
	moment = func(faults.State) bool
	action = func(context.Context, *faults.Stage) error
)

const run = faults.RunNamespace

const (
	nginx = `
apiVersion: experiments.illm.io/v1alpha1
kind: Component
metadata: {name: nginx-` + run + `, labels: {run: ` + run + `}}
spec:
  type: app
  sources: [{repoURL: "https://charts.example.com", chart: nginx, targetRevision: 1.2.3}]
`
	// first names one that is not there, too, so that it does not tell when the other is being deleted: whether it or that would be
	// the first to tell is of chance.
	first = `
apiVersion: experiments.illm.io/v1alpha1
kind: Experiment
metadata: {name: first}
spec:
  suspend: true
  targets: [{name: app, cluster: {type: hub}, components: [{app: nginx-` + run + `}, {app: none-` + run + `}]}]
  workflow: {template: validation}
`
)

var (
	k6     = strings.ReplaceAll(nginx, "nginx", "k6")
	second = strings.Replace(first, "name: first", "name: second", 1)
)

func read(texts ...string) (all []*unstructured.Unstructured) {
	for _, text := range texts {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), u); err != nil {
			panic(err) // it is a constant
		}
		all = append(all, u)
	}
	return all
}

// Moments.

// is says whether an object is the Component of a name.
func is(u *unstructured.Unstructured, name string) bool { return world.Role(u) == "Component "+name }

// told is when all Experiments tell of their specs.
func told(s faults.State) bool {
	return !slices.ContainsFunc(s.Of("Experiment"), func(e *unstructured.Unstructured) bool {
		observed, _, _ := unstructured.NestedInt64(e.Object, "status", "observedGeneration")
		return observed != e.GetGeneration()
	})
}

// usedBy is when a Component tells, of a generation, that so many Experiments name it.
func usedBy(name string, generation, users int64) moment {
	return func(s faults.State) bool {
		return slices.ContainsFunc(s.Of("Component"), func(u *unstructured.Unstructured) bool {
			observed, _, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
			now, _, _ := unstructured.NestedInt64(u.Object, "status", "usedBy")
			return is(u, name) && observed == generation && now == users
		})
	}
}

// ready is when the condition of a Component has a reason.
func ready(name, reason string) moment {
	return func(s faults.State) bool {
		return slices.ContainsFunc(s.Of("Component"), func(u *unstructured.Unstructured) bool {
			conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
			return is(u, name) && slices.ContainsFunc(conditions, func(c any) bool { return c.(map[string]any)["reason"] == reason })
		})
	}
}

// taken is the annotation of a Component whose finalizer somebody has taken off.
const taken = "taken"

// protectedAgain is when such a Component has its finalizer back.
func protectedAgain(s faults.State) bool {
	return slices.ContainsFunc(s.Of("Component"), func(u *unstructured.Unstructured) bool {
		return u.GetAnnotations()[taken] != "" && slices.Contains(u.GetFinalizers(), v1alpha1.ComponentFinalizer)
	})
}

// left is when so many Components and Experiments are there.
func left(components, experiments int) moment {
	return func(s faults.State) bool {
		return len(s.Of("Component")) == components && len(s.Of("Experiment")) == experiments
	}
}

func all(moments ...moment) moment {
	return func(s faults.State) bool {
		return !slices.ContainsFunc(moments, func(m moment) bool { return !m(s) })
	}
}

// Actions.

func put(text string) action {
	return func(ctx context.Context, s *faults.Stage) error { return s.Create(ctx, read(text)[0]) }
}

// there is an object of some text as it is in the run.
func there(s *faults.Stage, text string) *unstructured.Unstructured {
	u := read(strings.ReplaceAll(text, run, s.Namespace))[0]
	if u.GetKind() != "Component" {
		u.SetNamespace(s.Namespace)
	}
	return u
}

func drop(text string) action {
	return func(ctx context.Context, s *faults.Stage) error { return s.Client.Delete(ctx, there(s, text)) }
}

func change(text, patch string) action {
	return func(ctx context.Context, s *faults.Stage) error {
		return s.Client.Patch(ctx, there(s, text), client.RawPatch(types.MergePatchType, []byte(strings.ReplaceAll(patch, run, s.Namespace))))
	}
}

// namesK6 has an Experiment name k6 in the place of what it did.
const namesK6 = `{"spec":{"targets":[{"name":"app","cluster":{"type":"hub"},"components":[{"app":"k6-` + run + `"},{"app":"none-` + run + `"}]}]}}`

var workloads = []faults.Workload{
	{
		// It is counted who names it, and it goes with the last.
		Name:    "named",
		Sampled: faults.FirstHalf,
		Objects: read(nginx),
		Steps: []faults.Step{
			faults.At(usedBy("nginx", 1, 0), put(first)),
			faults.At(all(usedBy("nginx", 1, 1), told), put(second)),
			faults.At(all(usedBy("nginx", 1, 2), told), drop(first)),
			faults.At(usedBy("nginx", 1, 1), drop(nginx)),
			faults.At(ready("nginx", v1alpha1.ReasonInUse), drop(second)),
		},
		Done: left(0, 0),
	},
	{
		// Whoever named it names another.
		Name:    "renamed",
		Objects: read(nginx, k6),
		Steps: []faults.Step{
			faults.At(all(usedBy("nginx", 1, 0), usedBy("k6", 1, 0)), put(first)),
			faults.At(all(usedBy("nginx", 1, 1), told), drop(nginx)),
			faults.At(ready("nginx", v1alpha1.ReasonInUse), change(first, namesK6)),
		},
		Done: all(left(1, 1), usedBy("k6", 1, 1), told),
	},
	{
		// Somebody names it just as it is deleted.
		Name:    "named-late",
		Objects: read(nginx, k6),
		Steps: []faults.Step{
			faults.At(all(usedBy("nginx", 1, 0), usedBy("k6", 1, 0)), put(first)),
			faults.At(all(usedBy("nginx", 1, 1), told), change(first, namesK6), drop(k6)),
		},
		Done: all(ready("k6", v1alpha1.ReasonInUse), usedBy("nginx", 1, 0), told),
	},
	{
		// It is made wrong and right again, and again under its name.
		Name:    "edited",
		Objects: read(nginx),
		Steps: []faults.Step{
			faults.At(usedBy("nginx", 1, 0), change(nginx, `{"spec":{"parameters":[{"name":"replicas","type":"integer","default":"many"}]}}`)),
			faults.At(ready("nginx", v1alpha1.ReasonInvalidParameters), change(nginx, `{"spec":{"parameters":null}}`)),
			faults.At(usedBy("nginx", 3, 0), drop(nginx)),
			faults.At(left(0, 0), put(nginx)),
		},
		Done: usedBy("nginx", 1, 0),
	},
	{
		// Somebody takes its finalizer off.
		Name:    "unprotected",
		Objects: read(nginx),
		Steps: []faults.Step{
			faults.At(usedBy("nginx", 1, 0), change(nginx, `{"metadata":{"finalizers":null,"annotations":{"`+taken+`":"yes"}}}`)),
			faults.At(protectedAgain, drop(nginx)),
		},
		Done: left(0, 0),
	},
}
