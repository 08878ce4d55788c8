package experiment

import (
	"encoding/json"
	"strings"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/test/load/harness"
)

// story reads the life of an Experiment. The marks of a child are its kind with its target,
// the same with "ready" when the outside is done with it, and with "gone".
func story(e harness.Event) harness.Beat {
	o := &e.Object
	if o.Resource == experiments {
		return own(e)
	}
	name := o.Kind
	if target := o.Metadata.Labels[v1alpha1.LabelTarget]; target != "" {
		name += " " + target
	}
	beat := harness.Beat{Owner: o.Metadata.Labels[v1alpha1.LabelExperimentUID], ByOthers: o.Resource == namespaces}
	switch e.Type {
	case "DELETED":
		beat.Marks = []string{name + " gone"}
		return beat
	case "ADDED":
		beat.Marks = []string{name}
	}
	if ready(o) {
		beat.Marks = append(beat.Marks, name+" ready")
	}
	if o.Resource == applications {
		beat.Where, beat.Version = "Application", replicasOfApplication(o)
	}
	return beat
}

func own(e harness.Event) harness.Beat {
	o := &e.Object
	beat := harness.Beat{Owner: o.Metadata.UID, Where: "spec", Version: replicasOf(o)}
	beat.Marks = []string{e.Moment()}
	if beat.Marks[0] == harness.Gone {
		return beat
	}
	var s struct {
		Phase    string
		Workflow struct{ Phase string }
		Ready    []struct{ Type, Reason string } `json:"conditions"`
	}
	if len(o.Status) == 0 || json.Unmarshal(o.Status, &s) != nil {
		return beat
	}
	beat.Marks = append(beat.Marks, s.Phase)
	if s.Workflow.Phase != "" {
		beat.Marks = append(beat.Marks, "told "+s.Workflow.Phase)
	}
	for _, c := range s.Ready {
		if c.Type == v1alpha1.ConditionComponentsResolved && c.Reason == v1alpha1.ReasonComponentNotFound {
			beat.Marks = append(beat.Marks, "refused")
		}
	}
	return beat
}

// ready says whether the outside is done with a child.
func ready(o *harness.Object) bool {
	s := string(o.Status)
	switch o.Resource {
	case claims:
		return strings.Contains(s, `"endpoint"`)
	case applications:
		return strings.Contains(s, `"Healthy"`)
	case workflows:
		return strings.Contains(s, `"Succeeded"`)
	}
	return false
}

// replicasOf is the parameter that edits change.
func replicasOf(o *harness.Object) string {
	var spec struct {
		Targets []struct {
			Components []struct{ Params map[string]string }
		}
	}
	if json.Unmarshal(o.Spec, &spec) != nil || len(spec.Targets) == 0 || len(spec.Targets[0].Components) == 0 {
		return ""
	}
	return spec.Targets[0].Components[0].Params["replicaCount"]
}

func replicasOfApplication(o *harness.Object) string {
	var spec struct {
		Sources []struct {
			Helm struct {
				Parameters []struct{ Name, Value string }
			}
		}
	}
	if json.Unmarshal(o.Spec, &spec) != nil {
		return ""
	}
	for _, s := range spec.Sources {
		for _, p := range s.Helm.Parameters {
			if p.Name == "replicaCount" {
				return p.Value
			}
		}
	}
	return ""
}
