package main

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/test/env"
)

// samples are the Experiments of config/samples, which the demo runs all of.
func samples(t *testing.T) (all []v1alpha1.Experiment) {
	t.Helper()
	for _, dir := range []string{"config/samples", "config/samples/more"} {
		files, err := filepath.Glob(filepath.Join(env.Root(), dir, "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			all = append(all, experimentsIn(t, file)...)
		}
	}
	return all
}

func experimentsIn(t *testing.T, file string) (all []v1alpha1.Experiment) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := env.DecodeObjects(content)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	for _, o := range objects {
		if o.GetKind() != "Experiment" {
			continue
		}
		e := v1alpha1.Experiment{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &e, true); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, e)
	}
	return all
}

// shows is what an Experiment is an example of.
func shows(e v1alpha1.Experiment) map[string]bool {
	w := e.Spec.Workflow
	all := map[string]bool{
		"completion " + string(w.Completion.Mode): true, "missing template " + string(w.OnMissingTemplate): true, "cluster template": w.ClusterScope, "deadlines": e.Spec.ProgressDeadline != nil,
		"time to live after the verdict": e.Spec.TTLAfterFinished != nil, "deletion": e.Spec.Deletion != nil,
	}
	for _, t := range e.Spec.Targets {
		all["cluster "+string(t.Cluster.Type)], all["policy "+string(t.ApplicationPolicy)] = true, true
		all["dependency"] = all["dependency"] || len(t.Depends) > 0
		all["time to live of a target"] = all["time to live of a target"] || t.TTLAfterFinished != nil
		all["namespace"] = all["namespace"] || t.Namespace != ""
		all["Pod Security"] = all["Pod Security"] || t.PodSecurity != ""
		if o := t.Observability; o != nil && o.Enabled {
			all["transport "+string(o.Transport)] = true
		}
		for _, ref := range t.Components {
			all["parameters"] = all["parameters"] || len(ref.Params) > 0
			for _, what := range ref.Tolerations {
				all["toleration "+string(what)] = true
			}
		}
	}
	return all
}

// The samples show every type of cluster and every policy there is.
func TestSamplesSpan(t *testing.T) {
	all, have := samples(t), map[string]bool{}
	if len(all) < 10 {
		t.Errorf("there are %d", len(all))
	}
	for _, e := range all {
		for what, shown := range shows(e) {
			have[what] = have[what] || shown
		}
	}
	for _, what := range []string{
		"cluster gke", "cluster talos", "cluster vcluster", "cluster hub", "cluster existing", "cluster clusterRef", "policy ", "policy PerComponent", "toleration OutOfSync", "toleration Degraded", "parameters",
		"dependency", "namespace", "Pod Security", "transport ", "transport tailscale", "completion ", "completion manual", "missing template Suspend", "cluster template", "deadlines", "time to live after the verdict", "time to live of a target", "deletion",
	} {
		if !have[what] {
			t.Errorf("no sample has %q", what)
		}
	}
}
