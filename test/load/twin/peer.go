package twin

import (
	"encoding/json"
	"net"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/labkeeper/labkeeper/test/load/harness"
)

var (
	theirs      = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "experiments"}
	replicaSets = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}
)

// Rollouts is the controller of Argo Rollouts, which makes a ReplicaSet for each Experiment. It is told the template
// in whole, where ours is told what differs.
func Rollouts() *harness.Peer {
	return &harness.Peer{
		Program: "bin/rollouts-controller", Build: "make rollouts",
		Args: func(kubeconfig, probes, metrics string) []string {
			return []string{"--kubeconfig=" + kubeconfig, "--leader-elect=false", "--healthzPort=" + port(probes), "--metricsPort=" + port(metrics)}
		},
		Probe: "/healthz",
		Calls: func(m harness.Metrics) float64 { return m.Sum("controller_clientset_k8s_request_total") },
		Subject: &harness.Subject{
			Name:         "rollouts",
			Resource:     theirs,
			CRDs:         []string{"bin/crds/argo-rollouts"},
			FieldManager: "rollouts-controller",
			New:          newTheirs,
			Watched:      []harness.Watched{{Resource: theirs}, {Resource: replicaSets, Labels: "load=theirs"}},
			Story:        storyOfTheirs,
			Needs:        []string{"ReplicaSet", "ReplicaSet ready", "Running"},
			Done:         "Running",
			Reactions: []harness.Reaction{
				{Name: "twin", Cause: "created", Effect: "ReplicaSet"},
				{Name: "ready", Cause: "ReplicaSet ready", Effect: "Running"},
			},
		},
	}
}

func port(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

func newTheirs(namespace, name string, _ harness.Variant) *unstructured.Unstructured {
	labels := map[string]any{"app": "web", "load": "theirs", "of": name}
	pods := template()
	pods["metadata"] = map[string]any{"labels": labels}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"templates": []any{map[string]any{
		"name": "twin", "replicas": 1, "selector": map[string]any{"matchLabels": labels}, "template": pods,
	}}}}}
	u.SetAPIVersion(theirs.GroupVersion().String())
	u.SetKind("Experiment")
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// storyOfTheirs tells a ReplicaSet's owner by its reference: the UID is in no label.
func storyOfTheirs(e harness.Event) harness.Beat {
	o := &e.Object
	if o.Resource == replicaSets {
		beat := harness.Beat{Owner: o.Metadata.Owner()}
		if e.Type == "ADDED" {
			beat.Marks = append(beat.Marks, "ReplicaSet")
		}
		var s struct{ AvailableReplicas int }
		if len(o.Status) > 0 && json.Unmarshal(o.Status, &s) == nil && s.AvailableReplicas > 0 {
			beat.Marks = append(beat.Marks, "ReplicaSet ready")
		}
		return beat
	}
	beat := harness.Beat{Owner: o.Metadata.UID}
	if e.Type == "ADDED" {
		beat.Marks = append(beat.Marks, "created")
	}
	var s struct{ Phase string }
	if len(o.Status) > 0 && json.Unmarshal(o.Status, &s) == nil && s.Phase != "" {
		beat.Marks = append(beat.Marks, s.Phase)
	}
	return beat
}
