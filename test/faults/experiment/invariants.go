package experiment

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/test/env"
	"github.com/labkeeper/labkeeper/test/faults"
)

// The order in which an Experiment's objects come and go.
const (
	clustersLast    = "a cluster goes after its Application"
	housesLast      = "a namespace goes after the cluster that is made in it"
	dependentsFirst = "an Application goes after those that depend on it"
	dependedOnFirst = "a target is begun when those that it depends on have been healthy"
	inLayers        = "an Application of a component comes after those before it, and goes before them"
	healthyFirst    = "a Workflow comes when every Application has been healthy"
	registeredFirst = "an Application goes while Argo CD knows its cluster"
	presentGoesOn   = "a sync of what an Application has goes on, while that stays"
	cloudsFirst     = "a claim goes after the cluster that was made of it"
	readyFirst      = "an Application comes when its cluster has been ready"
	asSaid          = "what is there at a good end is what the spec says"
	asNamed         = "a Workflow is of the template that its Experiment names, or waits for somebody in its place"
)

var invariants = map[string]func([]faults.Entry) string{
	// Whatever others delete, the manager does not while what was deployed there stands.
	clustersLast: func(history []faults.Entry) string {
		u, before := going(history)
		if u == nil || !history[len(history)-1].Own || u.GetKind() != "GKECluster" && u.GetKind() != "Cluster" && (u.GetKind() != "Secret" || u.GetNamespace() != argoCDNamespace) {
			return ""
		}
		if target := targetOf(u); application(before, u, target) != nil {
			return fmt.Sprintf("the %s of target %s is deleted while there is one", u.GetKind(), target)
		}
		return ""
	},
	cloudsFirst: func(history []faults.Entry) string {
		last := history[len(history)-1]
		if last.Verb != watch.Deleted || last.Object.GetKind() != "GKECluster" || !last.Own {
			return ""
		}
		for _, secret := range faults.StateOf(history).Of("Secret") {
			if targetOf(secret) == connectionOf(last.Object) && secret.GetAnnotations()[v1alpha1.AnnotationOwner] == last.Object.GetAnnotations()[v1alpha1.AnnotationOwner] {
				return "that of target " + targetOf(last.Object) + " is there"
			}
		}
		return ""
	},
	readyFirst: func(history []faults.Entry) string {
		last := history[len(history)-1]
		if last.Verb != watch.Added || last.Object.GetKind() != "Application" {
			return ""
		}
		made, ready := false, false
		for _, h := range history {
			if u := h.Object; slices.Contains([]string{"GKECluster", "Cluster"}, u.GetKind()) && sameTarget(u, last.Object) {
				made, ready = true, ready || up(u)
			}
		}
		if made && !ready {
			return "that of target " + targetOf(last.Object) + " has not"
		}
		return ""
	},
	asSaid: said,
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
		if e == nil || u.GetKind() != "Application" || e.GetDeletionTimestamp() == nil && !decided(e) {
			return "" // outside of a teardown it comes again
		}
		for name, depends := range targetsOf(e) {
			if slices.Contains(depends, targetOf(u)) && application(before, u, name) != nil {
				return fmt.Sprintf("that of target %s is deleted while there is that of %s", targetOf(u), name)
			}
		}
		return ""
	},
	// One Application of a target is enough, as its components may be others by now.
	dependedOnFirst: func(history []faults.Entry) string {
		last := history[len(history)-1]
		e := ownerOf(faults.StateOf(history), last.Object)
		if e == nil || last.Verb != watch.Added || !slices.Contains([]string{"Application", "GKECluster", "Cluster"}, last.Object.GetKind()) {
			return ""
		}
		for _, dependency := range targetsOf(e)[targetOf(last.Object)] {
			if !slices.ContainsFunc(history, func(h faults.Entry) bool {
				return ownedBy(e, h.Object) && targetOf(h.Object) == dependency && isHealthy(h.Object)
			}) {
				return fmt.Sprintf("the %s of target %s comes, and that of %s has not been", last.Object.GetKind(), targetOf(last.Object), dependency)
			}
		}
		return ""
	},
	// Argo CD lets an Application of a cluster that it does not know go, and leaves what that deployed.
	registeredFirst: func(history []faults.Entry) string {
		u, before := going(history)
		e := ownerOf(before, u)
		if e == nil || u.GetKind() != "Application" || registered(before, u) || !standing(before, e, u) {
			return ""
		}
		if e.GetDeletionTimestamp() == nil && !decided(e) && slices.Contains(layersOf(e)[targetOf(u)], componentIn(u)) {
			return "" // it comes again
		}
		return "that of target " + targetOf(u) + " is deleted while it does not"
	},
	presentGoesOn: func(history []faults.Entry) string {
		n := len(history) - 1
		last, before := history[n].Object, faults.StateOf(history[:n])
		was := slices.IndexFunc(before, func(u *unstructured.Unstructured) bool { return u.GetUID() == last.GetUID() })
		if last.GetKind() != "Application" || was < 0 || !terminating(last) || terminating(before[was]) || last.GetDeletionTimestamp() != nil {
			return ""
		}
		with, _, _ := unstructured.NestedSlice(last.Object, "operation", "sync", "sources")
		has, _, _ := unstructured.NestedSlice(last.Object, "spec", "sources")
		if reflect.DeepEqual(with, has) {
			return "that of target " + targetOf(last) + " is to end"
		}
		return ""
	},
	inLayers: func(history []faults.Entry) string {
		last := history[len(history)-1]
		e := ownerOf(faults.StateOf(history), last.Object)
		if e == nil || last.Object.GetKind() != "Application" {
			return ""
		}
		target, component := targetOf(last.Object), componentIn(last.Object)
		layers := layersOf(e)[target]
		at := slices.Index(layers, component)
		if at < 0 {
			return "" // the spec does not name it any more
		}
		if last.Verb == watch.Added {
			for _, before := range layers[:at] {
				if !hasBeenHealthy(history, e, target, before) {
					return fmt.Sprintf("that of %s comes before that of %s is healthy", component, before)
				}
			}
		}
		if u, before := going(history); u != nil && e.GetDeletionTimestamp() != nil {
			for _, after := range layers[at+1:] {
				if slices.ContainsFunc(before.Of("Application"), func(app *unstructured.Unstructured) bool {
					return ownedBy(e, app) && targetOf(app) == target && componentIn(app) == after
				}) {
					return fmt.Sprintf("that of %s is deleted while there is that of %s", component, after)
				}
			}
		}
		return ""
	},
	asNamed: func(history []faults.Entry) string {
		last := history[len(history)-1]
		e := ownerOf(faults.StateOf(history), last.Object)
		if e == nil || last.Verb != watch.Added || last.Object.GetKind() != "Workflow" {
			return ""
		}
		// Who has not heard of an edit yet goes by what was before.
		if slices.ContainsFunc(history, func(h faults.Entry) bool {
			return h.Object.GetUID() == e.GetUID() && names(typed(h.Object), last.Object)
		}) {
			return ""
		}
		of, _, _ := unstructured.NestedMap(last.Object.Object, "spec", "workflowTemplateRef")
		return fmt.Sprintf("its template is %v", of)
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
		for name, layers := range layersOf(e) {
			for _, component := range layers {
				if !hasBeenHealthy(history, e, name, component) {
					return strings.TrimSpace("that of target " + name + " " + component + " has not")
				}
			}
		}
		return ""
	},
}

// sameTarget says whether two objects belong to the same target of an Experiment.
func sameTarget(a, b *unstructured.Unstructured) bool {
	uid := a.GetLabels()[v1alpha1.LabelExperimentUID]
	return uid != "" && uid == b.GetLabels()[v1alpha1.LabelExperimentUID] && targetOf(a) == targetOf(b)
}

// up says whether who makes a cluster says that it can be used.
func up(cluster *unstructured.Unstructured) bool {
	initialized, _, _ := unstructured.NestedBool(cluster.Object, "status", "initialization", "controlPlaneInitialized")
	return initialized || condition(cluster, "Ready")["status"] == "True"
}

// terminating says whether Argo CD is asked to end a sync of an Application.
func terminating(app *unstructured.Unstructured) bool {
	phase, _, _ := unstructured.NestedString(app.Object, "status", "operationState", "phase")
	return phase == "Terminating"
}

// names says whether an Experiment is to have such a Workflow.
func names(e *v1alpha1.Experiment, workflow *unstructured.Unstructured) bool {
	named := e.Spec.Workflow
	of, found, _ := unstructured.NestedMap(workflow.Object, "spec", "workflowTemplateRef")
	if !found {
		return named.OnMissingTemplate == v1alpha1.MissingTemplateSuspend || named.Completion.Mode == v1alpha1.CompletionManual
	}
	global, _ := of["clusterScope"].(bool)
	return of["name"] == named.Template && global == named.ClusterScope
}

// hasBeenHealthy says whether the Application of a target of an Experiment, or of a component of one, has
// been healthy.
func hasBeenHealthy(history []faults.Entry, e *unstructured.Unstructured, target, component string) bool {
	return slices.ContainsFunc(history, func(h faults.Entry) bool {
		return isHealthy(h.Object) && targetOf(h.Object) == target && componentIn(h.Object) == component && ownedBy(e, h.Object)
	})
}

// isHealthy says whether something is an Application that Argo CD calls healthy.
func isHealthy(u *unstructured.Unstructured) bool {
	health, _, _ := unstructured.NestedString(u.Object, "status", "health", "status")
	return u.GetKind() == "Application" && health == "Healthy"
}

// componentIn is the component that an Application of its own deploys; empty for all of a target.
func componentIn(app *unstructured.Unstructured) string {
	return app.GetAnnotations()[v1alpha1.AnnotationComponent]
}

// layersOf are, of each target of an Experiment, the components that have Applications of their own, in
// their order, or an empty one for all of them.
func layersOf(e *unstructured.Unstructured) map[string][]string {
	out := map[string][]string{}
	for _, t := range typed(e).Spec.Targets {
		if t.ApplicationPolicy != v1alpha1.ApplicationPerComponent {
			out[t.Name] = []string{""}
		} else {
			for _, ref := range t.Components {
				out[t.Name] = append(out[t.Name], ref.String())
			}
		}
		switch {
		case t.Observability == nil || !t.Observability.Enabled:
		case t.Observability.Transport == v1alpha1.TransportTailscale:
			out[t.Name] = append(out[t.Name], "app tailscale-operator", "config metrics-egress", "app metrics-agent")
		default:
			out[t.Name] = append(out[t.Name], "app metrics-agent")
		}
	}
	return out
}

// registered says whether Argo CD has the credentials of an Application's cluster.
func registered(state faults.State, app *unstructured.Unstructured) bool {
	cluster := env.ArgoCDDestination(app)
	return cluster == "" || slices.ContainsFunc(state.Of("Secret"), func(secret *unstructured.Unstructured) bool {
		return secret.GetNamespace() == argoCDNamespace && env.ArgoCDKnows(secret, cluster)
	})
}

// standing says whether there is the cluster of an Application: one that was there before the Experiment is always.
func standing(state faults.State, e, app *unstructured.Unstructured) bool {
	for _, t := range typed(e).Spec.Targets {
		if t.Name == targetOf(app) && t.Cluster.Type == v1alpha1.ClusterExisting {
			return true
		}
	}
	return slices.ContainsFunc(slices.Concat(state.Of("GKECluster"), state.Of("Cluster")), func(cluster *unstructured.Unstructured) bool {
		if arlons(cluster) {
			return string(cluster.GetUID()) == app.GetAnnotations()[v1alpha1.AnnotationClusterUID]
		}
		return ownedBy(e, cluster) && targetOf(cluster) == targetOf(app)
	})
}

func typed(e *unstructured.Unstructured) *v1alpha1.Experiment {
	out := &v1alpha1.Experiment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(e.Object, out); err != nil {
		panic(err) // the API server has taken it
	}
	return out
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

// decided says whether there is a verdict: what goes after it goes for good.
func decided(e *unstructured.Unstructured) bool {
	completed, _, _ := unstructured.NestedString(e.Object, "status", "completedAt")
	return completed != ""
}
