package argocd

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/labkeeper/labkeeper/test/crds"
)

// full has every optional field set, and every one that can be set to nothing.
var full = Application{
	Namespace: "argocd", Name: strings.Repeat("x", MaxApplicationName), Project: "labs",
	Cluster: "tutorial-app", DestinationNamespace: "tutorial",
	NamespaceLabels: map[string]string{"a": "b"}, NamespaceAnnotations: map[string]string{"c": "d"},
	Sources: []Source{
		{
			RepoURL: "https://charts.example.com", Chart: "nginx", TargetRevision: "1.2.3",
			Helm: &Helm{
				ReleaseName: "web",
				ValueFiles:  []string{"values.yaml", "$values/nginx.yaml"},
				Values:      map[string]any{"faults": map[string]any{"rate": 0.05}},
				Parameters: []Parameter{
					{Name: "empty"},
					{Name: "service.port", Value: "80", ForceString: true},
					{Name: "service.type", Value: "ClusterIP"},
				},
			},
		},
		{RepoURL: "https://git.example.com/lab.git", Path: "deploy", TargetRevision: "main", Helm: &Helm{}},
		{RepoURL: "https://git.example.com/values.git", Ref: "values"},
	},
}

func TestApplicationObject(t *testing.T) {
	tests := map[string]struct {
		app         Application
		destination map[string]any
		sources     []any
		namespace   map[string]any
	}{
		"full": {
			full,
			map[string]any{"name": "tutorial-app", "namespace": "tutorial"},
			[]any{
				map[string]any{
					"repoURL": "https://charts.example.com", "chart": "nginx", "targetRevision": "1.2.3",
					"helm": map[string]any{
						"releaseName":  "web",
						"valueFiles":   []any{"values.yaml", "$values/nginx.yaml"},
						"valuesObject": map[string]any{"faults": map[string]any{"rate": 0.05}},
						"parameters": []any{
							map[string]any{"name": "empty"},
							map[string]any{"name": "service.port", "value": "80", "forceString": true},
							map[string]any{"name": "service.type", "value": "ClusterIP"},
						},
					},
				},
				map[string]any{"repoURL": "https://git.example.com/lab.git", "path": "deploy", "targetRevision": "main"},
				map[string]any{"repoURL": "https://git.example.com/values.git", "ref": "values"},
			},
			map[string]any{"labels": map[string]any{"a": "b"}, "annotations": map[string]any{"c": "d"}},
		},
		"smallest, on the hub": {
			Application{Namespace: "argocd", Name: "x", Project: "default", DestinationNamespace: "x", Sources: []Source{{RepoURL: "r"}}},
			map[string]any{"server": InClusterServer, "namespace": "x"},
			[]any{map[string]any{"repoURL": "r"}},
			nil,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			app := test.app.Object()
			if err := crds.Require(t).Validate(app); err != nil {
				t.Error(err)
			}
			policy := map[string]any{
				"automated":   map[string]any{"prune": true, "selfHeal": true},
				"syncOptions": []any{"CreateNamespace=true", "ServerSideApply=true"},
				"retry": map[string]any{
					"limit":   int64(5),
					"backoff": map[string]any{"duration": "5s", "factor": int64(2), "maxDuration": "3m"},
				},
			}
			if test.namespace != nil {
				policy["managedNamespaceMetadata"] = test.namespace
			}
			want := map[string]any{
				"project": test.app.Project, "destination": test.destination, "sources": test.sources, "syncPolicy": policy,
			}
			t.Run("note 07, 17 and 18: charts, refs and server-side apply", func(t *testing.T) {
				if diff := cmp.Diff(want, app.Object["spec"]); diff != "" {
					t.Errorf("spec (-want +got):\n%s", diff)
				}
			})
			t.Run("note 47: what it deployed goes with it", func(t *testing.T) {
				if diff := cmp.Diff([]string{"resources-finalizer.argocd.argoproj.io"}, app.GetFinalizers()); diff != "" {
					t.Errorf("finalizers (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// Argo CD's own types leave empty fields out, and status.sync.comparedTo.sources is written
// from them: one empty field in spec.sources, and the two are never equal.
func TestSourcesHaveNothingThatArgoCDLeavesOut(t *testing.T) {
	var check func(path string, v any)
	check = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, e := range v {
				check(path+"."+k, e)
			}
			if len(v) == 0 {
				t.Errorf("%s is an empty map", path)
			}
		case []any:
			for i, e := range v {
				check(fmt.Sprintf("%s[%d]", path, i), e)
			}
			if len(v) == 0 {
				t.Errorf("%s is an empty list", path)
			}
		case string:
			if v == "" {
				t.Errorf("%s is an empty string", path)
			}
		case bool:
			if !v {
				t.Errorf("%s is false", path)
			}
		}
	}
	sources, _, _ := unstructured.NestedSlice(full.Object().Object, "spec", "sources")
	check("sources", sources)
}

func TestPathsThatAreReadOrDropped(t *testing.T) {
	crds.ExpectFields(t, ApplicationGVK, map[string]string{
		"spec.sources":                     "array",
		"status.health.status":             "string",
		"status.sync.status":               "string",
		"status.sync.comparedTo.sources":   "array",
		"status.conditions.[].type":        "string",
		"status.conditions.[].message":     "string",
		"status.operationState.phase":      "string",
		"status.operationState.message":    "string",
		"status.operationState.syncResult": "object",

		"status.operationState.syncResult.resources.[].hookType":  "string",
		"status.operationState.syncResult.resources.[].hookPhase": "string",
		"status.operationState.operation":                         "object",
		"status.resources.[].kind":                                "string",
		"status.resources.[].name":                                "string",
		"status.resources.[].health.status":                       "string",
		"status.resources.[].health.message":                      "string",
		"status.resources.[].requiresDeletionConfirmation":        "boolean",
		"operation": "object",
		"status.operationState.syncResult.sources":                   "array",
		"status.operationState.syncResult.revisions":                 "array",
		"status.operationState.finishedAt":                           "string",
		"status.operationState.operation.sync.sources":               "array",
		"status.operationState.operation.sync.dryRun":                "boolean",
		"status.operationState.operation.sync.autoHealAttemptsCount": "integer",
		"status.sync.revisions":                                      "array",
		"status.reconciledAt":                                        "string",
		"status.history":                                             "array",
		"status.summary":                                             "object",
	})
	// What is compared whole must be of one type.
	for _, path := range []string{"spec.sources.[].helm.parameters.[].value", "status.sync.comparedTo.sources.[].helm.parameters.[].value"} {
		if err := crds.Require(t).HasField(ApplicationGVK, strings.Split(path, ".")...); err != nil {
			t.Error(err)
		}
	}
}

const (
	syncOf = `
  sync:
    status: %s
    comparedTo:
      destination: {namespace: tutorial, server: "https://kubernetes.default.svc"}
      sources: [{repoURL: "https://charts.example.com", chart: nginx, targetRevision: 1.2.3, helm: {parameters: [{name: a, value: b}]}}]
`
	operationOf = `
  operationState:
    phase: %s
    message: one or more objects failed to apply
    startedAt: "2026-03-01T12:00:00Z"
    operation: {sync: {revision: abc}}
    syncResult: {revision: abc}
`
	failedHook    = `[{group: batch, version: v1, kind: Job, namespace: x, name: check, hookType: PostSync, hookPhase: Failed, message: "backoff limit"}]`
	someResources = `
  history: [{deployedAt: "2026-03-01T12:00:00Z", id: 1, revision: abc}]
  summary: {images: ["nginx:1"]}
  resources:
  - {version: v1, kind: Service, namespace: tutorial, name: fine, status: Synced, health: {status: Healthy}}
  - {group: apps, version: v1, kind: Deployment, namespace: tutorial, name: web, status: Synced, health: {status: Degraded, message: exceeded its progress deadline}}
  - {group: apps, version: v1, kind: Deployment, namespace: tutorial, name: api, status: Synced, health: {status: Degraded}}
  - {group: apps, version: v1, kind: StatefulSet, namespace: tutorial, name: db, status: OutOfSync, health: {status: Missing}}
  - {version: v1, kind: Pod, namespace: tutorial, name: slow, status: Synced, health: {status: Progressing, message: pulling}}
  - {version: v1, kind: ConfigMap, namespace: tutorial, name: settings, status: Synced}
`
)

func sample(t *testing.T, status string) *unstructured.Unstructured {
	t.Helper()
	return crds.RequireObject(t, `
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata:
  namespace: argocd
  name: tutorial-app
  managedFields: [{manager: labkeeper, operation: Update, apiVersion: argoproj.io/v1alpha1, fieldsType: FieldsV1, fieldsV1: {}}]
spec:
  project: default
  destination: {namespace: tutorial, server: "https://kubernetes.default.svc"}
  sources: [{repoURL: "https://charts.example.com", chart: nginx, targetRevision: 1.2.3, helm: {parameters: [{name: a, value: b}]}}]
`+status)
}

// What is on its way: a hook that may never end, and a sync with what the sources say now.
const (
	hookRuns = `
  operationState:
    phase: Running
    message: waiting for completion of hook batch/Job/check
    startedAt: "2026-03-01T12:00:00Z"
    operation: {sync: {revision: abc}}
`
	syncedWithThese = `
  operationState:
    phase: Succeeded
    message: successfully synced (all tasks run)
    startedAt: "2026-03-01T12:00:00Z"
    operation: {sync: {revision: abc}}
    syncResult: {revision: abc, sources: [{repoURL: "https://charts.example.com", chart: nginx, targetRevision: 1.2.3, helm: {parameters: [{name: a, value: b}]}}]}
`
	notBegun = "Argo CD has not begun to sync it, which a sync window of its project may forbid"
)

func TestReadApplication(t *testing.T) {
	is := func(health, sync string, more ...string) string {
		return "status:\n  health: {status: " + health + "}\n" + fmt.Sprintf(syncOf, sync) + strings.Join(more, "")
	}
	const condition = "  conditions:\n  - {type: %s, message: %s}\n"
	tests := map[string]struct {
		status string
		want   ApplicationState
	}{
		"new":                      {"", ApplicationState{Outdated: true}},
		"note 64: deploys nothing": {is("Healthy", "Synced"), ApplicationState{Health: Failed, Message: "its sources render no manifests, so it deploys nothing"}},
		"healthy":                  {is("Healthy", "Synced", someResources), ApplicationState{Health: Healthy}},
		"compared with others": {
			strings.Replace(is("Healthy", "Synced"), "1.2.3", "1.2.2", 1),
			ApplicationState{Outdated: true},
		},
		"compared with the old parameters": {
			strings.Replace(is("Healthy", "Synced"), "value: b", "value: c", 1),
			ApplicationState{Outdated: true},
		},
		"compared with nothing": {
			"status:\n  health: {status: Healthy}\n  sync: {status: Synced}\n",
			ApplicationState{Outdated: true},
		},
		"note 20: renders nothing": {
			is("Healthy", "Unknown"),
			ApplicationState{Health: Failed, Message: "health Healthy, sync Unknown: Argo CD cannot render or compare its manifests"},
		},
		"note 19: error condition before healthy": {
			is("Healthy", "Synced", fmt.Sprintf(condition, "ComparisonError", "rpc error")),
			ApplicationState{Health: Failed, Message: "ComparisonError: rpc error"},
		},
		"error condition before anything else": {
			"status:\n" + fmt.Sprintf(condition, "InvalidSpecError", "no such project"),
			ApplicationState{Health: Failed, Message: "InvalidSpecError: no such project", Outdated: true},
		},
		"the first of the error conditions": {
			is("Healthy", "Synced", fmt.Sprintf(condition, "SyncError", "second")+"  - {type: DeletionError, message: first}\n"),
			ApplicationState{Health: Failed, Message: "DeletionError: first"},
		},
		"note 30: objects of two": {
			is("Healthy", "OutOfSync", fmt.Sprintf(condition, "SharedResourceWarning", "Deployment/web is part of applications argocd/a and b")),
			ApplicationState{
				Health: Progressing, Message: "health Healthy, sync OutOfSync; " + notBegun,
				Warning: "SharedResourceWarning: Deployment/web is part of applications argocd/a and b",
			},
		},
		"objects of two sources": {
			is("Healthy", "Synced", someResources, fmt.Sprintf(condition, "SharedResourceWarning", "x")+
				"  - {type: RepeatedResourceWarning, message: Resource /ServiceAccount/web appeared 2 times among application resources.}\n"),
			ApplicationState{Health: Healthy, Warning: "RepeatedResourceWarning: Resource /ServiceAccount/web appeared 2 times among application resources.; SharedResourceWarning: x"},
		},
		"an object that is left out": {
			is("Healthy", "Synced", someResources, fmt.Sprintf(condition, "ExcludedResourceWarning", "Resource /Endpoints web is excluded in the settings")),
			ApplicationState{Health: Healthy, Warning: "ExcludedResourceWarning: Resource /Endpoints web is excluded in the settings"},
		},
		"a warning is no error": {is("Healthy", "Synced", someResources, fmt.Sprintf(condition, "OrphanedResourceWarning", "x")), ApplicationState{Health: Healthy}},
		"sync failed": {
			is("Healthy", "OutOfSync", fmt.Sprintf(operationOf, "Failed")),
			ApplicationState{Health: Failed, Message: "sync Failed: one or more objects failed to apply"},
		},
		"sync error": {
			is("Missing", "OutOfSync", fmt.Sprintf(operationOf, "Error")),
			ApplicationState{Health: Failed, Message: "sync Error: one or more objects failed to apply"},
		},
		"sync is tried again":   {is("Healthy", "OutOfSync", fmt.Sprintf(operationOf, "Running")), ApplicationState{Message: "sync Running: one or more objects failed to apply"}},
		"note 21: a hook waits": {is("Healthy", "Synced", someResources, hookRuns), ApplicationState{Message: "sync Running: waiting for completion of hook batch/Job/check"}},
		"a hook comes first": {
			is("Missing", "OutOfSync", hookRuns),
			ApplicationState{Health: Missing, Message: "health Missing, sync OutOfSync; sync Running: waiting for completion of hook batch/Job/check"},
		},
		"a hook, and it progresses": {is("Progressing", "OutOfSync", hookRuns), ApplicationState{Message: "sync Running: waiting for completion of hook batch/Job/check"}},
		"a hook of what Argo CD has begun with before": {
			is("Healthy", "OutOfSync", hookRuns) + "operation: {initiatedBy: {automated: true}, sync: {sources: [{repoURL: x}]}}\n",
			ApplicationState{Message: "sync Running: waiting for completion of hook batch/Job/check"},
		},
		"a hook of what somebody has asked for": {
			is("Healthy", "OutOfSync", hookRuns) + "operation: {sync: {sources: [{repoURL: x}]}}\n",
			ApplicationState{Message: "sync Running with what somebody has asked for, which Argo CD ends first: waiting for completion of hook batch/Job/check; argocd app terminate-op tutorial-app ends it"},
		},
		"a hook of what there is": {
			is("Healthy", "OutOfSync", hookRuns) +
				"operation: {sync: {sources: [{repoURL: \"https://charts.example.com\", chart: nginx, targetRevision: 1.2.3, helm: {parameters: [{name: a, value: b}]}}]}}\n",
			ApplicationState{Message: "sync Running: waiting for completion of hook batch/Job/check"},
		},
		"a sync is being ended": {is("Progressing", "OutOfSync", strings.Replace(hookRuns, "Running", "Terminating", 1)), ApplicationState{Message: "sync Running: waiting for completion of hook batch/Job/check"}},
		"one is asked for after another": {
			is("Missing", "OutOfSync", fmt.Sprintf(operationOf, "Succeeded")) + "operation: {sync: {prune: true}}\n",
			ApplicationState{Health: Missing, Message: "health Missing, sync OutOfSync"},
		},
		"synced with what was before": {
			is("Healthy", "OutOfSync", strings.Replace(fmt.Sprintf(operationOf, "Succeeded"), "syncResult: {revision: abc}", "syncResult: {revision: abc, sources: [{repoURL: x}]}", 1)),
			ApplicationState{Message: "health Healthy, sync OutOfSync; " + notBegun},
		},
		"synced, and something differs": {is("Healthy", "OutOfSync", syncedWithThese), ApplicationState{Message: "health Healthy, sync OutOfSync"}},
		"degraded while it syncs":       {is("Degraded", "OutOfSync", fmt.Sprintf(operationOf, "Running")), ApplicationState{Health: Degraded, Message: "health Degraded, sync OutOfSync"}},
		"sync succeeded":                {is("Healthy", "Synced", someResources, fmt.Sprintf(operationOf, "Succeeded")), ApplicationState{Health: Healthy}},
		"a hook failed": {
			is("Healthy", "Synced", someResources, strings.Replace(fmt.Sprintf(operationOf, "Failed"), "{revision: abc}\n", "{revision: abc, resources: "+failedHook+"}\n", 1)),
			ApplicationState{Health: Failed, Message: "sync Failed: one or more objects failed to apply"},
		},
		"a sync failed and all is well without it": {
			is("Healthy", "Synced", someResources, fmt.Sprintf(operationOf, "Failed")),
			ApplicationState{Health: Healthy},
		},
		"degraded": {
			is("Degraded", "Synced", someResources),
			ApplicationState{Health: Degraded, Message: "health Degraded, sync Synced: Deployment api; Deployment web: exceeded its progress deadline"},
		},
		"note 42: degraded and out of sync": {is("Degraded", "OutOfSync"), ApplicationState{Health: Degraded, Message: "health Degraded, sync OutOfSync"}},
		"missing":                           {is("Missing", "OutOfSync", someResources), ApplicationState{Health: Missing, Message: "health Missing, sync OutOfSync: StatefulSet db; " + notBegun}},
		"progressing":                       {is("Progressing", "Synced", someResources), ApplicationState{}},
		"suspended":                         {is("Suspended", "Synced"), ApplicationState{Health: Progressing, Message: "health Suspended, sync Synced"}},
		"progressing, not synced":           {is("Progressing", "OutOfSync"), ApplicationState{}},
		"not synced":                        {is("Healthy", "OutOfSync"), ApplicationState{Health: Progressing, Message: "health Healthy, sync OutOfSync; " + notBegun}},
		"unknown":                           {is("Unknown", "Unknown"), ApplicationState{Health: Progressing, Message: "health Unknown, sync Unknown"}},
		"health only": {
			"status:\n  health: {status: Healthy}\n",
			ApplicationState{Outdated: true},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			app := sample(t, test.status)
			got := ReadApplication(app, Tolerated{})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
			stripped, err := StripApplication(app.DeepCopy())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got, ReadApplication(stripped.(*unstructured.Unstructured), Tolerated{})); diff != "" {
				t.Errorf("state once stripped (-before +after):\n%s", diff)
			}
		})
	}
}

// What is tolerated is Healthy only once it is what the sources say, and never an error.
func TestNote20WhatIsTolerated(t *testing.T) {
	const sick = `
  resources:
  - {group: apps, version: v1, kind: Deployment, namespace: tutorial, name: web, status: Synced, health: {status: Degraded, message: quota}}
`
	is := func(health, sync string, more ...string) string {
		return "status:\n  reconciledAt: \"2026-03-01T12:00:20Z\"\n  health: {status: " + health + "}\n" + fmt.Sprintf(syncOf, sync) + strings.Join(more, "")
	}
	const sources = `[{repoURL: "https://charts.example.com", chart: nginx, targetRevision: 1.2.3, helm: {parameters: [{name: a, value: b}]}}]`
	operation := func(phase string) string {
		return `
  operationState:
    phase: ` + phase + `
    message: told
    startedAt: "2026-03-01T12:00:00Z"
    finishedAt: "2026-03-01T12:00:10Z"
    operation: {sync: {revision: abc, sources: ` + sources + `}}
    syncResult: {revision: abc, revisions: [abc], sources: ` + sources + `}
`
	}
	compared := func(revision string) string {
		return strings.Replace(is("Healthy", "OutOfSync"), "status: OutOfSync", "status: OutOfSync\n    revisions: ["+revision+"]", 1)
	}
	synced := compared("abc") + sick + operation("Succeeded")
	outOfSync, degraded := Tolerated{OutOfSync: true}, Tolerated{Degraded: true}
	both := Tolerated{OutOfSync: true, Degraded: true}
	but := func(old, replacement string) string {
		if !strings.Contains(synced, old) {
			t.Fatalf("there is no %q", old)
		}
		return strings.ReplaceAll(synced, old, replacement)
	}
	tests := map[string]struct {
		status    string
		tolerated Tolerated
		want      Health
	}{
		"out of sync after its sync":           {synced, outOfSync, Healthy},
		"out of sync, not asked for":           {synced, degraded, Progressing},
		"out of sync before its first sync":    {compared("abc") + sick, outOfSync, Progressing},
		"out of sync, synced with others":      {strings.Replace(synced, "syncResult: {revision: abc, revisions: [abc], sources: "+sources, "syncResult: {revision: abc, revisions: [abc], sources: []", 1), outOfSync, Progressing},
		"out of sync with another revision":    {but("    revisions: [abc]\n", "    revisions: [abd]\n"), outOfSync, Progressing},
		"out of sync, compared before its end": {but("12:00:20Z", "12:00:09Z"), outOfSync, Progressing},
		"out of sync, tried dry":               {but("sync: {revision: abc", "sync: {dryRun: true, revision: abc"), outOfSync, Progressing},
		"out of sync, being synced":            {but("phase: Succeeded", "phase: Running"), outOfSync, Progressing},
		"out of sync, being healed":            {strings.Replace(but("phase: Succeeded", "phase: Running"), "sync: {revision", "sync: {autoHealAttemptsCount: 2, revision", 1), outOfSync, Healthy},
		"out of sync, healed, not asked for":   {strings.Replace(but("phase: Succeeded", "phase: Running"), "sync: {revision", "sync: {autoHealAttemptsCount: 2, revision", 1), Tolerated{}, Progressing},
		"out of sync, its sync failed":         {but("phase: Succeeded", "phase: Failed"), both, Failed},
		"out of sync and progressing":          {but("status: Healthy", "status: Progressing"), both, Progressing},
		"out of sync and missing":              {but("status: Healthy", "status: Missing"), both, Missing},
		"out of sync, and nothing is deployed": {but(sick, "\n"), outOfSync, Failed},
		"degraded":                             {is("Degraded", "Synced", sick), degraded, Healthy},
		"degraded, and more is wrong":          {is("Degraded", "Synced", someResources), degraded, Degraded},
		"degraded, not asked for":              {is("Degraded", "Synced", sick), outOfSync, Degraded},
		"degraded, being synced":               {is("Degraded", "Synced", sick, operation("Running")), degraded, Degraded},
		"degraded and out of sync":             {but("status: Healthy", "status: Degraded"), both, Healthy},
		"degraded and out of sync, half":       {but("status: Healthy", "status: Degraded"), degraded, Degraded},
		"unknown":                              {is("Healthy", "Unknown", sick), both, Failed},
		"an error":                             {is("Degraded", "Synced", sick, "  conditions:\n  - {type: ComparisonError, message: x}\n"), both, Failed},
		"degraded, compared with others":       {strings.ReplaceAll(is("Degraded", "Synced", sick), "1.2.3", "1.2.2"), both, Progressing},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			app := sample(t, test.status)
			stripped, err := StripApplication(app.DeepCopy())
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range []*unstructured.Unstructured{app, stripped.(*unstructured.Unstructured)} {
				got := ReadApplication(a, test.tolerated)
				if got.Health != test.want {
					t.Errorf("it is %+v, want health %d", got, test.want)
				}
				if tells := strings.Contains(got.Message, "tolerated"); tells != (test.want == Healthy) {
					t.Errorf("its message is %q", got.Message)
				}
			}
		})
	}
}

// What has just been built is compared with itself.
func TestReadApplicationOfOurOwn(t *testing.T) {
	app := full.Object()
	sources, _, _ := unstructured.NestedSlice(app.Object, "spec", "sources")
	app.Object["status"] = map[string]any{
		"health":    map[string]any{"status": "Healthy"},
		"sync":      map[string]any{"status": "Synced", "comparedTo": map[string]any{"destination": app.Object["spec"].(map[string]any)["destination"], "sources": sources}},
		"resources": []any{map[string]any{"kind": "Service", "name": "x"}},
	}
	if err := crds.Require(t).Validate(app); err != nil {
		t.Fatal(err)
	}
	if state := ReadApplication(app, Tolerated{}); state.Health != Healthy {
		t.Errorf("it is %+v", state)
	}
}

func TestStripApplication(t *testing.T) {
	app := sample(t, "status:\n  health: {status: Degraded}\n"+fmt.Sprintf(syncOf, "Synced")+fmt.Sprintf(operationOf, "Failed")+someResources)
	spec := app.DeepCopy().Object["spec"]
	if _, err := StripApplication(app); err != nil {
		t.Fatal(err)
	}
	if app.GetManagedFields() != nil {
		t.Error("managedFields are left")
	}
	if diff := cmp.Diff(spec, app.Object["spec"]); diff != "" {
		t.Errorf("spec (-before +after):\n%s", diff)
	}
	for _, path := range []string{"history", "summary", "operationState.operation", "operationState.syncResult"} {
		if _, left, _ := unstructured.NestedFieldNoCopy(app.Object, append([]string{"status"}, strings.Split(path, ".")...)...); left {
			t.Errorf("%s is left", path)
		}
	}
	var left []string
	for _, r := range app.Object["status"].(map[string]any)["resources"].([]any) {
		left = append(left, r.(map[string]any)["name"].(string))
	}
	if diff := cmp.Diff([]string{"fine", "web", "api", "db", "slow"}, left); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
	if other, err := StripApplication("tombstone"); err != nil || other != "tombstone" {
		t.Errorf("another thing comes back as %v, %v", other, err)
	}
	if _, err := StripApplication(sample(t, "")); err != nil {
		t.Errorf("without a status: %v", err)
	}
}

func TestDisconnected(t *testing.T) {
	for name, test := range map[string]struct {
		types       []any
		going, want bool
	}{
		"nothing said":        {nil, false, false},
		"an unknown cluster":  {[]any{"InvalidSpecError"}, false, true},
		"a refusal":           {[]any{"ComparisonError"}, false, true},
		"among others":        {[]any{"SharedResourceWarning", "DeletionError", "ComparisonError"}, false, true},
		"of its own doing":    {[]any{"SyncError"}, true, false},
		"a warning, no error": {[]any{"OrphanedResourceWarning"}, true, false},
		"what is not to go":   {[]any{"DeletionError"}, false, false},
		"what cannot go":      {[]any{"DeletionError"}, true, true},
		"it goes, no error":   {nil, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			var conditions []any
			for _, conditionType := range test.types {
				conditions = append(conditions, map[string]any{"type": conditionType, "message": "x"})
			}
			app := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": conditions}}}
			if test.going {
				app.SetDeletionTimestamp(&metav1.Time{Time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)})
			}
			if got := Disconnected(app); got != test.want {
				t.Errorf("it is %v", got)
			}
		})
	}
}

// What answers at an address that the author of a kubeconfig has chosen is nobody's to read in the status of an Experiment.
func TestWhatAClusterAnswersIsNotRepeated(t *testing.T) {
	const answer = `error synchronizing cache state : failed to get server version: an error on the server ("canary") has prevented the request from succeeding`
	for name, said := range map[string]string{
		"live":   `Failed to load live state: failed to get cluster info for "https://10.0.0.7": ` + answer,
		"target": `Failed to load target state: failed to get cluster version for cluster "https://10.0.0.7": failed to get cluster info for "https://10.0.0.7": ` + answer,
		"bare":   answer,
	} {
		for _, where := range []map[string]any{
			{"conditions": []any{map[string]any{"type": "ComparisonError", "message": said}}},
			{"conditions": []any{map[string]any{"type": "UnknownError", "message": said}}},
			{"conditions": []any{map[string]any{"type": "DeletionError", "message": said}}},
			{"conditions": []any{map[string]any{"type": "SharedResourceWarning", "message": said}}},
			{"operationState": map[string]any{"phase": "Failed", "message": said}},
			{"operationState": map[string]any{"phase": "Running", "message": said}},
		} {
			app := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"sources": []any{}}, "status": where}}
			where["sync"] = map[string]any{"status": "OutOfSync", "comparedTo": map[string]any{"sources": []any{}}}
			state := ReadApplication(app, Tolerated{})
			told := strings.Join([]string{state.Message, state.Warning, DeletionError(app), Held(app)}, " ")
			app.SetDeletionTimestamp(&metav1.Time{Time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)})
			told += DeletionError(app) + Held(app)
			if strings.Contains(told, "canary") || strings.Contains(told, "10.0.0.7") || !strings.Contains(told, noCluster) {
				t.Errorf("%s, %v: it says %q", name, where, told)
			}
		}
	}
}

// Argo CD lets no Application go that it is in the middle of syncing, nor one with something that somebody must confirm the deletion of,
// and tells no error of either.
func TestHeld(t *testing.T) {
	const (
		syncing = "  operationState: {phase: Running, message: waiting for completion of hook batch/Job/check, startedAt: \"2026-03-01T12:00:00Z\", operation: {}}\noperation: {sync: {prune: true}}\n"
		kept    = "  resources:\n  - {version: v1, kind: Service, name: web, health: {status: Healthy}}\n  - {version: v1, kind: Namespace, name: data, health: {status: Healthy}, requiresDeletionConfirmation: true}\n"
	)
	at := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	for name, test := range map[string]struct {
		status, approved string
		stays            bool
		says             string
	}{
		"nothing":                 {status: "  sync: {status: Synced}\n"},
		"a sync":                  {status: syncing, says: "Argo CD ends its sync first: waiting for completion of hook batch/Job/check"},
		"a sync, and it stays":    {status: syncing, stays: true},
		"a sync that has ended":   {status: strings.Replace(syncing, "operation: {sync: {prune: true}}\n", "", 1)},
		"one that is asked for":   {status: "  operationState: {phase: Succeeded, message: all is well, startedAt: \"2026-03-01T12:00:00Z\", operation: {}}\noperation: {}\n", says: "Argo CD ends its sync first"},
		"to be confirmed":         {status: kept, says: "until somebody confirms that Namespace data may be deleted; annotate it with argocd.argoproj.io/deletion-approved"},
		"confirmed":               {status: kept, approved: "2026-03-01T12:00:00Z"},
		"confirmed for another":   {status: kept, approved: "2026-03-01T11:59:59Z", says: "until somebody confirms"},
		"confirmed in no time":    {status: kept, approved: "true", says: "until somebody confirms"},
		"a sync, to be confirmed": {status: kept + syncing, says: "ends its sync first"},
		"to be confirmed, stays":  {status: kept, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			app := sample(t, "status:\n"+test.status)
			if !test.stays {
				app.SetDeletionTimestamp(&at)
			}
			if test.approved != "" {
				app.SetAnnotations(map[string]string{"argocd.argoproj.io/deletion-approved": test.approved})
			}
			if _, err := StripApplication(app); err != nil {
				t.Fatal(err)
			}
			got := Held(app)
			if !strings.Contains(got, test.says) || (got == "") != (test.says == "") {
				t.Errorf("it says %q", got)
			}
			if DeletionError(app) != got {
				t.Errorf("as an error it says %q", DeletionError(app))
			}
		})
	}
}

func TestSyncing(t *testing.T) {
	for name, test := range map[string]struct {
		operation bool
		phase     string
		want      bool
	}{
		"running":         {true, "Running", true},
		"ended by now":    {false, "Running", false},
		"not begun":       {true, "Succeeded", false},
		"being ended":     {true, "Terminating", false},
		"never any":       {false, "", false},
		"the first asked": {true, "", false},
	} {
		app := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"operationState": map[string]any{"phase": test.phase}}}}
		if test.operation {
			app.Object["operation"] = map[string]any{}
		}
		if got := Syncing(app); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// What decides is strange, at any depth, and the cache keeps it; what decides nothing, or has no value, is not.
func TestStrange(t *testing.T) {
	desired := Application{Namespace: "argocd", Name: "a", Cluster: "c", DestinationNamespace: "n", NamespaceLabels: map[string]string{"level": "baseline"}}.Object()
	live := desired.DeepCopy()
	for path, value := range map[string]any{
		"spec.source.repoURL": "x", "spec.syncPolicy.automated.enabled": false, "spec.syncPolicy.managedNamespaceMetadata.labels.other": "x",
		"spec.syncPolicy.retry.refresh": true, "spec.destination.server": "", "spec.ignoreDifferences": []any{}, "spec.sourceHydrator": nil,
		"spec.info": []any{"x"}, "spec.revisionHistoryLimit": int64(1), "spec.syncPolicy.managedNamespaceMetadata.annotations": map[string]any{}, "status.x": "y",
	} {
		if err := unstructured.SetNestedField(live.Object, value, strings.Split(path, ".")...); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := StripApplication(live); err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, path := range Strange(live, desired) {
		paths = append(paths, strings.Join(path, "."))
	}
	want := []string{"spec.source", "spec.syncPolicy.automated.enabled", "spec.syncPolicy.managedNamespaceMetadata.labels.other", "spec.syncPolicy.retry.refresh"}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
	if other := Strange(desired, desired); other != nil {
		t.Errorf("of itself: %v", other)
	}
	live.SetKind("Widget")
	desired.SetKind("Widget")
	if other := Strange(live, desired); other != nil {
		t.Errorf("of another kind: %v", other)
	}
}

// Argo CD has given up when its last sync with what the spec says now has failed, and it would not begin another by itself.
func TestGaveUp(t *testing.T) {
	const at = "2026-03-01T12:02:35Z"
	source := []any{map[string]any{"repoURL": "x", "targetRevision": "1"}}
	failed := func(change ...map[string]any) *unstructured.Unstructured {
		app := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"sources": source}, "status": map[string]any{
			"sync":           map[string]any{"status": "OutOfSync", "revisions": []any{"1"}, "comparedTo": map[string]any{"sources": source}},
			"operationState": map[string]any{"phase": "Failed", "finishedAt": at, "syncResult": map[string]any{"sources": source, "revisions": []any{"1"}}},
		}}}
		app = app.DeepCopy()
		for _, c := range change {
			for path, value := range c {
				if err := unstructured.SetNestedField(app.Object, value, strings.Split(path, ".")...); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := StripApplication(app); err != nil {
			t.Fatal(err)
		}
		return app
	}
	hook := map[string]any{"status.operationState.syncResult.resources": []any{map[string]any{"hookType": "PostSync", "hookPhase": "Failed"}}}
	for name, test := range map[string]struct {
		app  *unstructured.Unstructured
		want bool
	}{
		"failed":                       {failed(), true},
		"an error":                     {failed(map[string]any{"status.operationState.phase": "Error"}), true},
		"without a result":             {failed(map[string]any{"status.operationState.syncResult": nil}), true},
		"synced, but a hook":           {failed(hook, map[string]any{"status.sync.status": "Synced"}), true},
		"synced all the same":          {failed(map[string]any{"status.sync.status": "Synced"}), false},
		"not comparable":               {failed(map[string]any{"status.sync.status": "Unknown"}), false},
		"running":                      {failed(map[string]any{"status.operationState.phase": "Running"}), false},
		"succeeded":                    {failed(map[string]any{"status.operationState.phase": "Succeeded"}), false},
		"asked for already":            {failed(map[string]any{"operation": map[string]any{"sync": map[string]any{}}}), false},
		"with sources of before":       {failed(map[string]any{"status.operationState.syncResult.sources": []any{}}), false},
		"with revisions of before":     {failed(map[string]any{"status.operationState.syncResult.revisions": []any{"0"}}), false},
		"edited, and not compared yet": {failed(map[string]any{"spec.sources": []any{}}), false},
		"to be looked at again":        {failed(map[string]any{"metadata": map[string]any{"annotations": map[string]any{refresh: "hard"}}}), false},
		"not said when":                {failed(map[string]any{"status.operationState.finishedAt": ""}), false},
	} {
		finished, gaveUp := GaveUp(test.app)
		if gaveUp != test.want || gaveUp && finished.UTC().Format(time.RFC3339) != at {
			t.Errorf("%s: %t at %s", name, gaveUp, finished)
		}
	}
	// One that is asked for is not Healthy by what was there before it.
	app := failed(hook, map[string]any{"status.sync.status": "Synced", "status.health": map[string]any{"status": "Healthy"}, "status.resources": []any{map[string]any{"kind": "Service"}}})
	app.Object["operation"] = map[string]any{}
	delete(app.Object["status"].(map[string]any), "operationState")
	if state := ReadApplication(app, Tolerated{}); state.Health != Progressing {
		t.Errorf("it is %+v", state)
	}
}

func TestCascade(t *testing.T) {
	for name, test := range map[string]struct {
		has, want []string
	}{
		"it has it":           {[]string{"a", resourcesFinalizer}, nil},
		"in the background":   {[]string{resourcesFinalizer + "/background"}, nil},
		"nothing":             {nil, []string{resourcesFinalizer}},
		"others":              {[]string{"a", postDeleteFinalizer}, []string{resourcesFinalizer, "a", postDeleteFinalizer}},
		"one of a like name":  {[]string{resourcesFinalizer + "x"}, []string{resourcesFinalizer, resourcesFinalizer + "x"}},
		"hooks before, alone": {[]string{preDeleteFinalizer + "/cleanup"}, []string{resourcesFinalizer, preDeleteFinalizer + "/cleanup"}},
	} {
		t.Run(name, func(t *testing.T) {
			app := &unstructured.Unstructured{Object: map[string]any{}}
			app.SetFinalizers(test.has)
			change := Cascade(app)
			got, _, err := unstructured.NestedStringSlice(change, "metadata", "finalizers")
			if err != nil || !slices.Equal(got, test.want) {
				t.Errorf("it changes %v: %v", change, err)
			}
		})
	}
}
