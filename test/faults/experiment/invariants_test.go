package experiment

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/test/faults"
)

// The last change of each history is judged.
func TestInvariants(t *testing.T) {
	experiment := straightRoad.DeepCopy()
	experiment.SetUID("e")
	child := func(verb watch.EventType, kind, target, health string, deleted bool) faults.Entry {
		u := &unstructured.Unstructured{Object: map[string]any{"kind": kind, "status": map[string]any{"health": map[string]any{"status": health}}}}
		u.SetUID(types.UID(kind + target))
		u.SetLabels(map[string]string{v1alpha1.LabelExperimentUID: "e", v1alpha1.LabelTarget: target})
		if deleted {
			u.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
		}
		return faults.Entry{Verb: verb, Object: u}
	}
	own := func(entry faults.Entry) faults.Entry {
		entry.Own = true
		return entry
	}
	layered := newExperiment(inComponents("hub"))
	layered.SetUID("e")
	layeredElsewhere := newExperiment(inComponents("gke"))
	layeredElsewhere.SetUID("e")
	component := func(verb watch.EventType, name, health string, deleted bool) faults.Entry {
		entry := child(verb, "Application", "app", health, deleted)
		entry.Object.SetUID(types.UID(name))
		entry.Object.SetAnnotations(map[string]string{v1alpha1.AnnotationComponent: name})
		return entry
	}
	layeredLeaving := layered.DeepCopy()
	layeredLeaving.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
	leaving := experiment.DeepCopy()
	leaving.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
	named := func(entry faults.Entry) faults.Entry {
		entry.Object.Object["spec"] = map[string]any{"destination": map[string]any{"name": "lab"}}
		return entry
	}
	registration := func(verb watch.EventType) faults.Entry {
		entry := child(verb, "Secret", "app", "", false)
		entry.Object.SetNamespace(argoCDNamespace)
		entry.Object.SetLabels(map[string]string{"argocd.argoproj.io/secret-type": "cluster"})
		entry.Object.Object["data"] = map[string]any{"name": "bGFi", "server": "aHR0cHM6Ly8yMDMuMC4xMTMuNw==", "config": "eyJiZWFyZXJUb2tlbiI6IngifQ=="}
		return entry
	}
	of := func(ref map[string]any) faults.Entry {
		entry := child(watch.Added, "Workflow", "", "", false)
		entry.Object.Object["spec"] = map[string]any{"workflowTemplateRef": ref}
		return entry
	}
	owned := func(u *unstructured.Unstructured) faults.Entry {
		u = u.DeepCopy()
		u.SetUID("e")
		return faults.Entry{Verb: watch.Added, Object: u}
	}
	onK3 := onReferred.DeepCopy()
	onK3.SetUID("e")
	onK3.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
	cluster3 := func(uid types.UID) faults.Entry {
		u := k3.DeepCopy()
		u.SetUID(uid)
		return faults.Entry{Verb: watch.Added, Object: u}
	}
	at3 := func(entry faults.Entry) faults.Entry {
		entry.Object.Object["spec"] = map[string]any{"destination": map[string]any{"server": "https://203.0.113.7"}}
		entry.Object.SetAnnotations(map[string]string{v1alpha1.AnnotationClusterUID: "k3"})
		return entry
	}
	elsewhere := onExisting.DeepCopy()
	elsewhere.SetUID("e")
	elsewhere.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
	var (
		there    = faults.Entry{Verb: watch.Added, Object: experiment}
		removed  = faults.Entry{Verb: watch.Modified, Object: leaving}
		claim    = child(watch.Added, "GKECluster", "app", "", false)
		app      = child(watch.Added, "Application", "app", "Healthy", false)
		loadgen  = child(watch.Added, "Application", "loadgen", "Healthy", false)
		sick     = child(watch.Added, "Application", "loadgen", "Progressing", false)
		gone     = child(watch.Deleted, "Application", "app", "", false)
		last     = child(watch.Deleted, "Application", "loadgen", "", false)
		lost     = child(watch.Modified, "GKECluster", "app", "", true)
		going    = own(lost)
		cluster  = child(watch.Added, "Cluster", "app", "", false)
		down     = child(watch.Deleted, "Cluster", "app", "", false)
		home     = child(watch.Modified, "Namespace", "app", "", true)
		workflow = child(watch.Added, "Workflow", "", "", false)

		inLayersThere   = faults.Entry{Verb: watch.Added, Object: layered}
		inLayersRemoved = faults.Entry{Verb: watch.Modified, Object: layeredLeaving}
		first           = component(watch.Added, "app nginx", "Healthy", false)
		firstSick       = component(watch.Added, "app nginx", "Degraded", false)
		firstGoing      = component(watch.Modified, "app nginx", "Healthy", true)
		second          = component(watch.Added, "app k6", "Healthy", false)
		secondGone      = component(watch.Deleted, "app k6", "Healthy", false)
		dropped         = component(watch.Added, "app dropped", "", false)

		secondNamed   = named(component(watch.Added, "app dropped", "", false))
		secondGoing   = named(component(watch.Modified, "app dropped", "", true))
		onNamed       = named(child(watch.Added, "Application", "app", "", false))
		onNamedGone   = named(child(watch.Deleted, "Application", "app", "", false))
		layersOnClaim = faults.Entry{Verb: watch.Added, Object: layeredElsewhere}
		removedThere  = faults.Entry{Verb: watch.Modified, Object: elsewhere}
		removedAt3    = faults.Entry{Verb: watch.Modified, Object: onK3}
		onAt3         = at3(child(watch.Added, "Application", "app", "", false))
		onAt3Gone     = at3(child(watch.Deleted, "Application", "app", "", false))
	)
	claimGone := func(own bool) faults.Entry {
		entry := child(watch.Deleted, "GKECluster", "app", "", true)
		entry.Own = own
		return entry
	}
	connection := func(verb watch.EventType) faults.Entry {
		entry := child(verb, "Secret", "app", "", false)
		entry.Object.SetLabels(map[string]string{v1alpha1.LabelTarget: "connection-app"})
		return entry
	}
	endpointOnly, ready := child(watch.Modified, "GKECluster", "app", "", false), child(watch.Modified, "GKECluster", "app", "", false)
	endpointOnly.Object.Object["status"] = map[string]any{"endpoint": address}
	ready.Object.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}
	complete := func(e *unstructured.Unstructured, observed int64) faults.Entry {
		e = e.DeepCopy()
		e.SetUID("e")
		e.SetGeneration(2)
		e.Object["status"] = map[string]any{"phase": "Complete", "observedGeneration": observed}
		return faults.Entry{Verb: watch.Modified, Object: e}
	}
	larger := onCluster.DeepCopy()
	_ = unstructured.SetNestedField(larger.Object["spec"].(map[string]any)["targets"].([]any)[0].(map[string]any), int64(3), "cluster", "nodeCount")
	more := onHub.DeepCopy()
	_ = unstructured.SetNestedField(more.Object["spec"].(map[string]any)["targets"].([]any)[0].(map[string]any)["components"].([]any)[0].(map[string]any),
		"3", "params", "replicaCount")
	longest := onHub.DeepCopy()
	_ = unstructured.SetNestedField(longest.Object, "5m", "spec", "workflow", "params", "duration")
	nodes := func(count int64) faults.Entry {
		entry := child(watch.Added, "GKECluster", "app", "", false)
		entry.Object.Object["spec"] = map[string]any{
			"zone": "us-central1-a", "nodeCount": count, "machineType": "e2-medium", "diskSizeGb": int64(50), "preemptible": false,
		}
		return entry
	}
	nginx := func(revision, replicas string) faults.Entry {
		entry := child(watch.Added, "Application", "app", "Healthy", false)
		entry.Object.Object["spec"] = map[string]any{"sources": []any{
			map[string]any{"repoURL": "https://charts.example.com/stable", "chart": "nginx", "targetRevision": revision, "helm": map[string]any{
				"parameters": []any{map[string]any{"name": "replicaCount", "value": replicas}},
			}},
			map[string]any{"repoURL": "https://git.example.com/lab/values.git", "targetRevision": "main"},
		}}
		return entry
	}
	tests := map[string]struct {
		name    string
		history []faults.Entry
		broken  bool
	}{
		"cluster first":             {clustersLast, []faults.Entry{there, claim, app, going}, true},
		"cluster of somebody else":  {clustersLast, []faults.Entry{there, claim, app, lost}, false},
		"cluster last":              {clustersLast, []faults.Entry{there, claim, app, gone, going}, false},
		"cluster of another target": {clustersLast, []faults.Entry{there, claim, loadgen, going}, false},
		"cluster that was going":    {clustersLast, []faults.Entry{there, claim, going, app, going}, false},
		"claim before its cluster":  {cloudsFirst, []faults.Entry{there, claim, connection(watch.Added), claimGone(true)}, true},
		"cluster before its claim":  {cloudsFirst, []faults.Entry{there, claim, connection(watch.Added), connection(watch.Deleted), claimGone(true)}, false},
		"claim by somebody else":    {cloudsFirst, []faults.Entry{there, claim, connection(watch.Added), claimGone(false)}, false},
		"on an address":             {readyFirst, []faults.Entry{there, claim, endpointOnly, app}, true},
		"on a cluster":              {readyFirst, []faults.Entry{there, claim, ready, app}, false},
		"on one that was ready":     {readyFirst, []faults.Entry{there, claim, ready, endpointOnly, app}, false},
		"on no cluster of its own":  {readyFirst, []faults.Entry{there, claim, loadgen}, false},
		"as said":                   {asSaid, []faults.Entry{nodes(1), nginx("18.2.4", "2"), complete(onCluster, 2)}, false},
		"too few nodes":             {asSaid, []faults.Entry{nodes(1), nginx("18.2.4", "2"), complete(larger, 2)}, true},
		"another revision":          {asSaid, []faults.Entry{nodes(1), nginx("18.2.3", "2"), complete(onCluster, 2)}, true},
		"other parameters":          {asSaid, []faults.Entry{nginx("18.2.4", "2"), complete(more, 2)}, true},
		"its parameters":            {asSaid, []faults.Entry{nginx("18.2.4", "3"), complete(more, 2)}, false},
		"another Workflow":          {asSaid, []faults.Entry{nginx("18.2.4", "2"), of(map[string]any{"name": "gateway-validation"}), complete(longest, 2)}, true},
		"an edit that is unheard":   {asSaid, []faults.Entry{nodes(1), nginx("18.2.4", "2"), complete(larger, 1)}, false},
		"an edit after the end":     {asSaid, []faults.Entry{nodes(1), nginx("18.2.4", "2"), complete(onCluster, 2), complete(larger, 2)}, false},
		"namespace first":           {housesLast, []faults.Entry{there, cluster, home}, true},
		"namespace last":            {housesLast, []faults.Entry{there, cluster, down, home}, false},
		"needed first":              {dependentsFirst, []faults.Entry{removed, app, loadgen, gone}, true},
		"dependent first":           {dependentsFirst, []faults.Entry{removed, app, loadgen, last}, false},
		"nobody needs it":           {dependentsFirst, []faults.Entry{removed, app, loadgen, last, gone}, false},
		"no teardown":               {dependentsFirst, []faults.Entry{there, app, loadgen, gone}, false},
		"a dependent too early":     {dependedOnFirst, []faults.Entry{there, loadgen}, true},
		"a dependent in its turn":   {dependedOnFirst, []faults.Entry{there, app, loadgen}, false},
		"a dependent after a fall":  {dependedOnFirst, []faults.Entry{there, app, sick, loadgen}, false},
		"all healthy":               {healthyFirst, []faults.Entry{there, app, loadgen, workflow}, false},
		"healthy once":              {healthyFirst, []faults.Entry{there, app, loadgen, sick, workflow}, false},
		"one is not":                {healthyFirst, []faults.Entry{there, app, sick, workflow}, true},
		"one is missing":            {healthyFirst, []faults.Entry{there, app, workflow}, true},
		"a component is missing":    {healthyFirst, []faults.Entry{inLayersThere, first, workflow}, true},
		"every component":           {healthyFirst, []faults.Entry{inLayersThere, first, second, workflow}, false},
		"the second first":          {inLayers, []faults.Entry{inLayersThere, second}, true},
		"the second too early":      {inLayers, []faults.Entry{inLayersThere, firstSick, second}, true},
		"the second in time":        {inLayers, []faults.Entry{inLayersThere, first, second}, false},
		"one that was named before": {inLayers, []faults.Entry{inLayersThere, dropped}, false},
		"the first goes first":      {inLayers, []faults.Entry{inLayersRemoved, first, second, firstGoing}, true},
		"the second goes first":     {inLayers, []faults.Entry{inLayersRemoved, first, second, secondGone, firstGoing}, false},
		"never registered":          {registeredFirst, []faults.Entry{removed, claim, onNamed, onNamedGone}, true},
		"registered":                {registeredFirst, []faults.Entry{removed, claim, registration(watch.Added), onNamed, onNamedGone}, false},
		"not registered any more":   {registeredFirst, []faults.Entry{removed, claim, registration(watch.Added), onNamed, registration(watch.Deleted), onNamedGone}, true},
		"its cluster is gone":       {registeredFirst, []faults.Entry{removed, onNamed, onNamedGone}, false},
		"an existing cluster":       {registeredFirst, []faults.Entry{removedThere, onNamed, onNamedGone}, true},
		"a Cluster":                 {registeredFirst, []faults.Entry{removedAt3, cluster3("k3"), onAt3, onAt3Gone}, true},
		"a Cluster that is known":   {registeredFirst, []faults.Entry{removedAt3, cluster3("k3"), registration(watch.Added), onAt3, onAt3Gone}, false},
		"another Cluster":           {registeredFirst, []faults.Entry{removedAt3, cluster3("other"), onAt3, onAt3Gone}, false},
		"on the hub":                {registeredFirst, []faults.Entry{removed, app, gone}, false},
		"somebody takes it away":    {registeredFirst, []faults.Entry{there, claim, onNamed, onNamedGone}, false},
		"not named any more":        {registeredFirst, []faults.Entry{layersOnClaim, claim, secondNamed, secondGoing}, true},
		"not named, and registered": {registeredFirst, []faults.Entry{layersOnClaim, claim, registration(watch.Added), secondNamed, secondGoing}, false},
		"of its template":           {asNamed, []faults.Entry{there, of(map[string]any{"name": "gateway-validation"})}, false},
		"of another template":       {asNamed, []faults.Entry{there, of(map[string]any{"name": "gateway"})}, true},
		"of one of all namespaces":  {asNamed, []faults.Entry{there, of(map[string]any{"name": "gateway-validation", "clusterScope": true})}, true},
		"of what was named before":  {asNamed, []faults.Entry{there, owned(untemplated), of(map[string]any{"name": "gateway-validation"})}, false},
		"of none":                   {asNamed, []faults.Entry{there, workflow}, true},
		"of none that may be":       {asNamed, []faults.Entry{owned(waiting), workflow}, false},
		"of none, by hand":          {asNamed, []faults.Entry{owned(byHand), workflow}, false},
		"of all namespaces":         {asNamed, []faults.Entry{owned(inOwnNamespace), of(map[string]any{"name": "everywhere", "clusterScope": true})}, false},
		"the first is taken away":   {inLayers, []faults.Entry{inLayersThere, first, second, firstGoing}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if why := invariants[test.name](test.history); (why != "") != test.broken {
				t.Errorf("%s: %q", test.name, why)
			}
		})
	}
}
