package experiment

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/test/faults"
)

// The order in which an Experiment's objects come and go.
const (
	clustersLast    = "a cluster goes after its Application"
	housesLast      = "a namespace goes after the cluster that is made in it"
	dependentsFirst = "an Application goes after those that depend on it"
	healthyFirst    = "a Workflow comes when every Application has been healthy"
)

var invariants = map[string]func([]faults.Entry) string{
	clustersLast: func(history []faults.Entry) string {
		u, before := going(history)
		if u == nil || u.GetKind() != "GKECluster" && u.GetKind() != "Cluster" && (u.GetKind() != "Secret" || u.GetNamespace() != argoCDNamespace) {
			return ""
		}
		if target := targetOf(u); application(before, u, target) != nil {
			return fmt.Sprintf("the %s of target %s is deleted while there is one", u.GetKind(), target)
		}
		return ""
	},
	housesLast: func(history []faults.Entry) string {
		u, before := going(history)
		if u == nil || u.GetKind() != "Namespace" {
			return ""
		}
		for _, o := range slices.Concat(before.Of("Cluster"), before.Of("VCluster")) {
			if o.GetNamespace() == u.GetName() {
				return "there is " + o.GetKind() + " of target " + targetOf(o)
			}
		}
		return ""
	},
	dependentsFirst: func(history []faults.Entry) string {
		u, before := going(history)
		e := ownerOf(before, u)
		if e == nil || u.GetKind() != "Application" || e.GetDeletionTimestamp() == nil {
			return "" // outside of a teardown it comes again
		}
		for name, depends := range targetsOf(e) {
			if slices.Contains(depends, targetOf(u)) && application(before, u, name) != nil {
				return fmt.Sprintf("that of target %s is deleted while there is that of %s", targetOf(u), name)
			}
		}
		return ""
	},
	healthyFirst: func(history []faults.Entry) string {
		last := history[len(history)-1]
		if last.Verb != watch.Added || last.Object.GetKind() != "Workflow" {
			return ""
		}
		e := ownerOf(faults.StateOf(history), last.Object)
		if e == nil {
			return "" // somebody else's
		}
		for name := range targetsOf(e) {
			if !slices.ContainsFunc(history, func(h faults.Entry) bool {
				health, _, _ := unstructured.NestedString(h.Object.Object, "status", "health", "status")
				return h.Object.GetKind() == "Application" && targetOf(h.Object) == name && ownedBy(e, h.Object) && health == "Healthy"
			}) {
				return "that of target " + name + " has not"
			}
		}
		return ""
	},
}

// going is the object whose deletion was asked for or done by the last change, and what there was
// before; nil if it was not, or before.
func going(history []faults.Entry) (*unstructured.Unstructured, faults.State) {
	n := len(history) - 1
	last := history[n]
	if last.Verb != watch.Deleted && last.Object.GetDeletionTimestamp() == nil {
		return nil, nil
	}
	before := faults.StateOf(history[:n])
	for _, u := range before {
		if u.GetUID() == last.Object.GetUID() && u.GetDeletionTimestamp() != nil {
			return nil, nil
		}
	}
	return last.Object, before
}

func targetOf(u *unstructured.Unstructured) string { return u.GetLabels()[v1alpha1.LabelTarget] }

func ownedBy(e, u *unstructured.Unstructured) bool {
	return string(e.GetUID()) == u.GetLabels()[v1alpha1.LabelExperimentUID]
}

// ownerOf is the Experiment of an object; nil if it is not there.
func ownerOf(state faults.State, u *unstructured.Unstructured) *unstructured.Unstructured {
	for _, e := range state.Of("Experiment") {
		if u != nil && ownedBy(e, u) {
			return e
		}
	}
	return nil
}

// application is that of a target of the Experiment that an object belongs to.
func application(state faults.State, of *unstructured.Unstructured, target string) *unstructured.Unstructured {
	for _, app := range state.Of("Application") {
		if targetOf(app) == target && app.GetLabels()[v1alpha1.LabelExperimentUID] == of.GetLabels()[v1alpha1.LabelExperimentUID] {
			return app
		}
	}
	return nil
}

// targetsOf are the targets of an Experiment, with those that each depends on.
func targetsOf(e *unstructured.Unstructured) map[string][]string {
	out := map[string][]string{}
	targets, _, _ := unstructured.NestedSlice(e.Object, "spec", "targets")
	for _, t := range targets {
		target, _ := t.(map[string]any)
		name, _ := target["name"].(string)
		out[name], _, _ = unstructured.NestedStringSlice(target, "depends")
	}
	return out
}
