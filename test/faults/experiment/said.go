package experiment

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/test/env"
	"github.com/labkeeper/labkeeper/test/faults"
)

// said says of an Experiment that has just come to a good end what there is that is not what its spec says: a manager that is only
// compared with itself may have it wrong in every run. An edit that it has not heard of is none.
func said(history []faults.Entry) string {
	n := len(history) - 1
	last, state := history[n].Object, faults.StateOf(history)
	told, _, _ := unstructured.NestedInt64(last.Object, "status", "observedGeneration")
	if last.GetKind() != "Experiment" || phaseOf(last) != v1alpha1.PhaseComplete || told != last.GetGeneration() {
		return ""
	}
	for _, before := range faults.StateOf(history[:n]) {
		if before.GetUID() == last.GetUID() && phaseOf(before) == v1alpha1.PhaseComplete {
			return ""
		}
	}
	e := typed(last)
	own := state.Only(func(u *unstructured.Unstructured) bool { return ownedBy(last, u) })
	for _, t := range e.Spec.Targets {
		of := own.Only(func(u *unstructured.Unstructured) bool { return targetOf(u) == t.Name })
		if why := cmp.Or(sized(of, t.Cluster), deployed(of, state, t)); why != "" {
			return "target " + t.Name + ": " + why
		}
	}
	return validated(own, e)
}

// sized says what there is of a cluster that is not as large as it is to be.
func sized(of faults.State, c v1alpha1.ClusterSpec) string {
	nodes := int64(ptr.Deref(c.NodeCount, 1))
	want := map[string]map[string]any{
		"GKECluster": {
			"nodeCount": nodes, "zone": cmp.Or(c.Zone, "us-central1-a"), "machineType": cmp.Or(c.MachineType, "e2-medium"),
			"diskSizeGb": int64(ptr.Deref(c.DiskSizeGb, 50)), "preemptible": ptr.Deref(c.Preemptible, false),
		},
		"MachineDeployment": {"replicas": nodes},
	}
	for _, u := range of {
		for _, field := range slices.Sorted(maps.Keys(want[u.GetKind()])) {
			if has, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", field); has != want[u.GetKind()][field] {
				return fmt.Sprintf("its %s has %s %v, not %v", u.GetKind(), field, has, want[u.GetKind()][field])
			}
		}
	}
	return ""
}

// deployed says what is missing of the sources and parameters of a target's components.
func deployed(of, state faults.State, t v1alpha1.Target) string {
	var sources []source
	parameters := map[string]bool{}
	for _, app := range of.Of("Application") {
		sources = append(sources, sourcesIn(app)...)
		list, _, _ := unstructured.NestedSlice(app.Object, "spec", "sources")
		for _, s := range list {
			set, _, _ := unstructured.NestedSlice(s.(map[string]any), "helm", "parameters")
			for _, p := range set {
				parameters[fmt.Sprintf("%v=%v", p.(map[string]any)["name"], p.(map[string]any)["value"])] = true
			}
		}
	}
	for _, ref := range t.Components {
		for _, s := range componentsOf(state)[ref.Name()] {
			if !slices.Contains(sources, s) {
				return fmt.Sprintf("nothing deploys %s, %+v", ref, s)
			}
		}
		for name, value := range ref.Params {
			if !parameters[name+"="+value] {
				return fmt.Sprintf("nothing of %s has %s=%s", ref, name, value)
			}
		}
	}
	return ""
}

// source is where something is deployed from.
type source struct{ repoURL, revision, path, chart string }

// sourcesIn are those of a Component, or of an Application.
func sourcesIn(u *unstructured.Unstructured) (all []source) {
	list, _, _ := unstructured.NestedSlice(u.Object, "spec", "sources")
	for _, s := range list {
		text := func(field string) string {
			text, _ := s.(map[string]any)[field].(string)
			return text
		}
		all = append(all, source{text("repoURL"), text("targetRevision"), text("path"), text("chart")})
	}
	return all
}

// validated says what the Workflow is that it is not to be; one that is gone was what asNamed has seen.
func validated(own faults.State, e *v1alpha1.Experiment) string {
	for _, w := range own.Of("Workflow") {
		if !names(e, w) {
			return "the Workflow is of another template"
		}
		list, _, _ := unstructured.NestedSlice(w.Object, "spec", "arguments", "parameters")
		for name, value := range e.Spec.Workflow.Params {
			if !slices.ContainsFunc(list, func(p any) bool { return p.(map[string]any)["name"] == name && p.(map[string]any)["value"] == value }) {
				return fmt.Sprintf("the Workflow does not have %s=%s", name, value)
			}
		}
	}
	return ""
}

// componentsOf are the sources of Components by their names: those of a run, and those that all runs have.
func componentsOf(state faults.State) map[string][]source {
	out := maps.Clone(samples())
	for _, u := range state.Of("Component") {
		out[u.GetName()] = sourcesIn(u)
	}
	return out
}

// samples are the sources of the Components that are installed with the manager.
var samples = sync.OnceValue(func() map[string][]source {
	text, err := os.ReadFile(filepath.Join(env.Root(), "config/samples/components.yaml"))
	if err != nil {
		panic(err) // which is installed
	}
	out := map[string][]source{}
	for part := range bytes.SplitSeq(text, []byte("\n---\n")) {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(part, &u.Object); err != nil {
			panic(err)
		}
		out[u.GetName()] = sourcesIn(u)
	}
	return out
})
