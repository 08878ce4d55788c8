package workloadscaler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/labkeeper/labkeeper/internal/executor/executortest"
)

// images are those of the pods that there are, sorted.
func (w *world) images() (all []string) {
	w.Helper()
	pods, err := w.in("Pod").List(w.Context(), metav1.ListOptions{})
	w.must(err)
	for i := range pods.Items {
		containers, _, _ := unstructured.NestedSlice(pods.Items[i].Object, "spec", "containers")
		if pods.Items[i].GetDeletionTimestamp() == nil {
			all = append(all, fmt.Sprint(containers[0].(map[string]any)["image"]))
		}
	}
	slices.Sort(all)
	return all
}

// An update that somebody holds back is not through in the morning.
func TestUpdatesThatAreHeldBack(t *testing.T) {
	const newer = `{"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "example.com/newer"}]}}}}`
	for name, test := range map[string]struct {
		kind, spec string
		// updated pods are waited for, before a second change.
		updated, then string
	}{
		"by a partition": {"StatefulSet", "podManagementPolicy: Parallel, updateStrategy: {rollingUpdate: {partition: 2}}", "1", "{}"},
		"until later":    {"StatefulSet", "podManagementPolicy: Parallel, updateStrategy: {rollingUpdate: {partition: 9}}", "<nil>", "{}"},
		"by OnDelete":    {"StatefulSet", "podManagementPolicy: Parallel, updateStrategy: {type: OnDelete}", "<nil>", "{}"},
		"by a pause":     {"Deployment", "strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}", "1", `{"spec": {"paused": true}}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.apply(strings.NewReplacer("kind: Deployment", "kind: "+test.kind, "spec: {replicas", "spec: {"+test.spec+", replicas").Replace(deployment("web", 3)))
			w.calm()
			executortest.Until(t, "three pods", func(context.Context) (bool, error) { return w.at(test.kind, "web", "status", "replicas") == "3", nil })
			w.patch(test.kind, "web", newer)
			w.calm()
			executortest.Until(t, "what is updated", func(context.Context) (bool, error) {
				return w.at(test.kind, "web", "status", "updatedReplicas") == test.updated && len(w.images()) >= 3, nil
			})
			w.patch(test.kind, "web", test.then)
			w.calm()
			before := w.images()
			r := w.night(`{"includedGroups": ["` + test.kind + `"]}`)
			err := r.Shutdown(t.Context())
			if err == nil {
				executortest.Until(t, "no pods", func(context.Context) (bool, error) { return len(w.images()) == 0, nil })
				w.calm()
				w.must(r.WakeUp(t.Context()))
				executortest.Until(t, "three pods", func(context.Context) (bool, error) { return len(w.images()) == 3, nil })
			}
			if after := w.images(); err == nil || !slices.Equal(after, before) {
				t.Errorf("the pods were %s, and are %s; error %v", before, after, err)
			}
		})
	}
}

// An update that is only under way keeps nothing awake.
func TestUpdatesUnderWay(t *testing.T) {
	const held = "updateStrategy: {rollingUpdate: {partition: 2}}, "
	for name, test := range map[string]struct {
		kind         kind
		spec, status string
	}{
		"a Deployment":                       {deployments, "", ""},
		"a StatefulSet":                      {statefulSets, "", "currentRevision: a, updateRevision: b, "},
		"pods that end, and it is of no two": {statefulSets, held, "currentRevision: a, updateRevision: a, "},
	} {
		object := executortest.Objects(t, "{apiVersion: apps/v1, kind: "+test.kind.name+", metadata: {name: a}, spec: {"+test.spec+"replicas: 3}, "+
			"status: {"+test.status+"replicas: 3, updatedReplicas: 1}}")[0]
		if err := mustStay(test.kind, object, int64(3)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An analysis that goes on would fail without pods, and have the update aborted, also while that waits for somebody.
func TestUpdateThatIsAnalyzed(t *testing.T) {
	const waits = "strategy: {canary: {analysis: {templates: [{templateName: errors}]}, steps: [{setWeight: 20}, {pause: {}}]}}"
	for name, test := range map[string]struct {
		spec, status string
		refused      bool
	}{
		"in the background, at a pause": {waits, "currentPodHash: b, currentStepIndex: 1, canary: {currentBackgroundAnalysisRunStatus: {name: r, status: Running}}", true},
		"about to begin":                {waits, "currentPodHash: b, currentStepIndex: 1, canary: {currentBackgroundAnalysisRunStatus: {name: r, status: Pending}}", true},
		"just made":                     {waits, "currentPodHash: b, currentStepIndex: 1, canary: {currentBackgroundAnalysisRunStatus: {name: r, status: ''}}", true},
		"over":                          {waits, "currentPodHash: b, currentStepIndex: 1, canary: {currentBackgroundAnalysisRunStatus: {name: r, status: Successful}}", false},
		"none":                          {waits, "currentPodHash: b, currentStepIndex: 1", false},
		"aborted":                       {waits, "currentPodHash: b, abort: true, canary: {currentBackgroundAnalysisRunStatus: {name: r, status: Running}}", false},
		"promoted":                      {waits, "currentPodHash: a, canary: {currentBackgroundAnalysisRunStatus: {name: r, status: Running}}", false},
		"at a step, and paused": {"paused: true, strategy: {canary: {steps: [{analysis: {templates: [{templateName: errors}]}}]}}",
			"currentPodHash: b, currentStepIndex: 0, canary: {currentStepAnalysisRunStatus: {name: r, status: Running}}", true},
		"green, before":               {"strategy: {blueGreen: {autoPromotionEnabled: false}}", "currentPodHash: b, blueGreen: {prePromotionAnalysisRunStatus: {name: r, status: Running}}", true},
		"green, after":                {"strategy: {blueGreen: {}}", "currentPodHash: b, blueGreen: {postPromotionAnalysisRunStatus: {name: r, status: Running}}", true},
		"green, waiting for somebody": {"strategy: {blueGreen: {autoPromotionEnabled: false}}", "currentPodHash: b, blueGreen: {prePromotionAnalysisRunStatus: {name: r, status: Successful}}", false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, updated := range []int{1, 4} { // with all pods, too, it can be aborted
				object := executortest.Objects(t, fmt.Sprintf("{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: a}, spec: {%s, replicas: 3}, "+
					"status: {replicas: 4, readyReplicas: 4, updatedReplicas: %d, stableRS: a, %s}}", test.spec, updated, test.status))[0]
				if err := mustStay(rollouts, object, int64(3)); (err != nil) != test.refused {
					t.Errorf("got %v", err)
				}
			}
		})
	}
}

// Of an update that has failed the pods of before serve, and would be gone when it wakes. Where none serves, or a Rollout was aborted, so
// that it stays with those of before, nothing is lost.
func TestUpdateThatIsStuck(t *testing.T) {
	for name, test := range map[string]struct {
		kind    kind
		ready   int
		reason  string
		spec    string
		refused bool
	}{
		"a Deployment":                 {deployments, 3, "ProgressDeadlineExceeded", "", true},
		"a Deployment without quota":   {deployments, 3, "ReplicaSetCreateError", "", true},
		"a Deployment that never was":  {deployments, 0, "ProgressDeadlineExceeded", "", false},
		"blue and green":               {rollouts, 3, "ProgressDeadlineExceeded", "strategy: {blueGreen: {activeService: web}}, ", true},
		"a canary without steps":       {rollouts, 3, "ProgressDeadlineExceeded", "strategy: {canary: {}}, ", true},
		"a Rollout that never was":     {rollouts, 0, "ProgressDeadlineExceeded", "strategy: {canary: {}}, ", false},
		"a Rollout that was aborted":   {rollouts, 3, "RolloutAborted", "strategy: {blueGreen: {activeService: web}}, ", false},
		"a canary that was aborted":    {rollouts, 3, "RolloutAborted", "strategy: {canary: {}}, ", false},
		"a canary past its last steps": {rollouts, 3, "ProgressDeadlineExceeded", "strategy: {canary: {steps: [{setWeight: 50}]}}, ", true},
	} {
		t.Run(name, func(t *testing.T) {
			object := executortest.Objects(t, fmt.Sprintf(`{apiVersion: %s, kind: %s, metadata: {name: a}, spec: {%sreplicas: 3}, status: {replicas: 4, updatedReplicas: 1,
				currentStepIndex: 1, readyReplicas: %d, conditions: [{type: Available, status: "False"}, {type: Progressing, status: "False", reason: %s}]}}`,
				test.kind.gvr.GroupVersion(), test.kind.name, test.spec, test.ready, test.reason))[0]
			if err := mustStay(test.kind, object, int64(3)); (err != nil) != test.refused {
				t.Errorf("got %v", err)
			}
		})
	}
}
