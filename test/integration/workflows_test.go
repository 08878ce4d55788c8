//go:build workflows

// Experiments that Argo Workflows itself validates: make test-workflows.
package integration_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/test/env"
)

// workflowTemplates are what Experiments are validated by. Steps that wait need no pod; the pods of others are on a node that nobody
// has, and a spec says how they end (finish).
const workflowTemplates = `
apiVersion: v1
kind: ConfigMap
metadata: {name: workflow-controller-configmap, namespace: argo}
data:
  config: |
    metricsConfig: {enabled: false}
    workflowRestrictions: {templateReferencing: ""}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: argo-workflow, namespace: argo}
---
apiVersion: argoproj.io/v1alpha1
kind: WorkflowTemplate
metadata: {name: real-named, namespace: argo}
spec:
  entrypoint: main
  arguments: {parameters: [{name: seconds, value: 10m}, {name: experiment-name}, {name: app-name}, {name: app-endpoint}, {name: app-namespace}]}
  templates:
  - name: main
    dag:
      tasks:
      - {name: reached, template: pause, when: "'{{workflow.parameters.app-endpoint}} {{workflow.parameters.app-name}}' =~ '^https?://[^ ]+ [^ ]+$' && '{{workflow.parameters.experiment-name}}' == 'named'"}
  - name: pause
    suspend: {duration: "{{workflow.parameters.seconds}}"}
---
apiVersion: argoproj.io/v1alpha1
kind: WorkflowTemplate
metadata: {name: real-forever, namespace: argo}
spec:
  entrypoint: main
  templates: [{name: main, suspend: {}}]
---
apiVersion: argoproj.io/v1alpha1
kind: ClusterWorkflowTemplate
metadata: {name: real-forever}
spec:
  entrypoint: main
  templates: [{name: main, suspend: {}}]
---
apiVersion: argoproj.io/v1alpha1
kind: WorkflowTemplate
metadata: {name: real-locked, namespace: argo}
spec:
  entrypoint: main
  synchronization: {mutexes: [{name: license}]}
  templates: [{name: main, suspend: {}}]
---
apiVersion: argoproj.io/v1alpha1
kind: WorkflowTemplate
metadata: {name: real-nowhere, namespace: argo}
spec:
  entrypoint: elsewhere
  templates: [{name: main, suspend: {}}]
---
apiVersion: argoproj.io/v1alpha1
kind: WorkflowTemplate
metadata: {name: real-needy, namespace: argo}
spec:
  entrypoint: main
  arguments: {parameters: [{name: region}]}
  templates: [{name: main, suspend: {}}]
---
apiVersion: argoproj.io/v1alpha1
kind: WorkflowTemplate
metadata: {name: real-pods, namespace: argo}
spec:
  entrypoint: main
  arguments: {parameters: [{name: pauses, value: "1"}]}
  podSpecPatch: '{"nodeName": "nobodys"}'
  templates:
  - name: main
    steps:
    - - {name: pause, template: pause, withSequence: {count: "{{workflow.parameters.pauses}}"}}
    - - {name: probe, template: probe}
      - {name: other, template: probe}
  - name: pause
    suspend: {duration: "0"}
  - name: probe
    container: {image: "example/probe:1", command: [probe]}
---
apiVersion: argoproj.io/v1alpha1
kind: WorkflowTemplate
metadata: {name: real-report, namespace: argo}
spec:
  entrypoint: main
  artifactGC: {strategy: OnWorkflowDeletion, podSpecPatch: '{"nodeName": "nobodys"}'}
  podSpecPatch: '{"nodeName": "nobodys"}'
  templates:
  - name: main
    steps: [[{name: probe, template: probe}]]
  - name: probe
    container: {image: "example/probe:1", command: [probe]}
    outputs:
      artifacts: [{name: report, path: /report, s3: {endpoint: s3.example.com, bucket: lab, key: report}}]
`

// startArgoWorkflows starts it on the hub.
func startArgoWorkflows(ctx context.Context) {
	GinkgoHelper()
	hub.install(ctx, "bin/crds-whole/argo-workflows")
	objects, err := env.DecodeObjects([]byte(workflowTemplates))
	Expect(err).NotTo(HaveOccurred())
	Expect(hub.ApplyObjects(ctx, objects...)).To(Succeed())
	controller, err := hub.StartProcess("workflow-controller", "/usr/bin/env", "LEADER_ELECTION_DISABLE=true", "ARGO_NAMESPACE="+workflowNamespace,
		"MAX_WORKFLOW_SIZE=30000", "DEFAULT_REQUEUE_TIME=1s", filepath.Join(env.Root(), "bin", "workflow-controller"), "--kubeconfig="+hub.Kubeconfig(), "--namespace="+workflowNamespace,
		"--managed-namespace="+workflowNamespace, "--namespaced", "--executor-image=example/argoexec:1", "--qps=200", "--burst=400")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(controller.Exited()).NotTo(BeClosed(), controller.Tail(15)) })
}

var _ = Describe("Argo Workflows itself", Label("workflows"), Ordered, ContinueOnFailure, func() {
	BeforeAll(func(ctx SpecContext) {
		startArgoWorkflows(ctx)
		SetDefaultEventuallyTimeout(time.Minute)
		DeferCleanup(SetDefaultEventuallyTimeout, 20*time.Second)
	})

	by := func(e *v1alpha1.Experiment, template string, params ...string) *v1alpha1.Experiment {
		e.Spec.Workflow.Template = template
		for i := 0; i < len(params); i += 2 {
			if e.Spec.Workflow.Params == nil {
				e.Spec.Workflow.Params = map[string]string{}
			}
			e.Spec.Workflow.Params[params[i]] = params[i+1]
		}
		return e
	}
	newStage := func() *stage {
		s := hub.newStage()
		s.real = []string{"Workflow"}
		return s
	}
	// runs waits until Argo Workflows runs an Experiment's Workflow.
	runs := func(s *stage, e *v1alpha1.Experiment) *unstructured.Unstructured {
		GinkgoHelper()
		var w *unstructured.Unstructured
		Eventually(func(g Gomega) {
			g.Expect(s.get(e).Status.Phase).To(Equal(v1alpha1.PhaseRunning), said(s.get(e)))
			w = s.object(workflows, s.workflow(e))
			phase, _, _ := unstructured.NestedString(w.Object, "status", "phase")
			g.Expect(phase).To(Equal("Running"))
		}).Should(Succeed())
		return w
	}
	// change is what argo does to a Workflow.
	change := func(w types.NamespacedName, patch string) {
		GinkgoHelper()
		hub.kubectl(background(), "-n", w.Namespace, "patch", "workflow", w.Name, "--type=merge", "--patch="+patch)
	}
	// resume is argo resume.
	resume := func(s *stage, e *v1alpha1.Experiment) {
		GinkgoHelper()
		nodes, _, _ := unstructured.NestedMap(runs(s, e).Object, "status", "nodes")
		Expect(nodes).NotTo(BeEmpty())
		for id, node := range nodes {
			if node.(map[string]any)["type"] == "Suspend" {
				change(s.workflow(e), fmt.Sprintf(`{"status":{"nodes":{%q:{"phase":"Succeeded","finishedAt":%q}}}}`, id, time.Now().UTC().Format(time.RFC3339)))
			}
		}
	}
	pods := func(s *stage, e *v1alpha1.Experiment) []corev1.Pod {
		GinkgoHelper()
		var list corev1.PodList
		Expect(s.client.List(background(), &list, client.InNamespace(workflowNamespace), client.MatchingLabels{"workflows.argoproj.io/workflow": s.workflow(e).Name})).To(Succeed())
		return list.Items
	}
	// finish plays the kubelet of a pod whose container has ended so, when there is one that is meant.
	finish := func(s *stage, e *v1alpha1.Experiment, code int32, meant func(corev1.Pod) bool) (finished corev1.Pod) {
		GinkgoHelper()
		Eventually(func(g Gomega) {
			i := slices.IndexFunc(pods(s, e), meant)
			g.Expect(i).NotTo(Equal(-1))
			finished = pods(s, e)[i]
			ended := func(name string, code int32) corev1.ContainerStatus {
				state := &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.Now()}
				if code != 0 {
					state.Reason = "Error"
				}
				return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: state}}
			}
			finished.Status.Phase = corev1.PodSucceeded
			if code != 0 {
				finished.Status.Phase = corev1.PodFailed
			}
			finished.Status.InitContainerStatuses = []corev1.ContainerStatus{ended("init", 0)}
			finished.Status.ContainerStatuses = []corev1.ContainerStatus{ended("main", code), ended("wait", 0)}
			g.Expect(s.client.Status().Update(background(), &finished)).To(Succeed())
		}).Should(Succeed())
		return finished
	}
	of := func(step string) func(corev1.Pod) bool {
		return func(p corev1.Pod) bool {
			return strings.HasSuffix(p.Annotations["workflows.argoproj.io/node-name"], "."+step)
		}
	}
	// stopped waits until no pod is left that nobody has asked to end, which is for its node to do.
	stopped := func(s *stage, e *v1alpha1.Experiment) {
		GinkgoHelper()
		Eventually(func(g Gomega) {
			for _, pod := range pods(s, e) {
				g.Expect(pod.DeletionTimestamp).NotTo(BeNil(), pod.Name)
			}
		}).Should(Succeed())
	}
	gone := func(s *stage, e *v1alpha1.Experiment) {
		GinkgoHelper()
		s.delete(e)
		s.gone(e)
		Expect(s.children(e)).To(BeEmpty())
		stopped(s, e)
	}

	It("is given what was asked for, for an Experiment with a cluster of its own, and goes before that", func() {
		s := newStage()
		e := s.create(by(experiment("named", onGKE("app", "k6")), "real-named", "seconds", "1s"))
		s.reaches(e, v1alpha1.PhaseComplete)
		nodes, _, _ := unstructured.NestedMap(s.object(workflows, s.workflow(e)).Object, "status", "nodes")
		Expect(fmt.Sprint(nodes)).To(And(ContainSubstring("displayName:reached"), Not(ContainSubstring("Skipped"))))
		gone(s, e)
		_, _, ended := s.life(isChild(e, "Workflow"))
		_, asked, _ := s.life(isChild(e, "GKECluster app"))
		Expect(ended).To(And(BeNumerically(">", 0), BeNumerically("<", asked)))
	})

	It("says which step has failed, and how, of few and of so many that they are compressed", func() {
		s := newStage()
		few := s.create(by(experiment("few", onHub("app", "k6")), "real-pods"))
		many := s.create(by(experiment("many", onHub("app", "k6")), "real-pods", "pauses", "150"))
		for _, e := range []*v1alpha1.Experiment{few, many} {
			finish(s, e, 0, of("other"))
			finish(s, e, 3, of("probe"))
			s.says(e, v1alpha1.ConditionWorkflowSucceeded, v1alpha1.ReasonWorkflowFailed, "probe", "exit code 3")
			s.reaches(e, v1alpha1.PhaseFailed)
		}
		compressed, _, _ := unstructured.NestedString(s.object(workflows, s.workflow(many)).Object, "status", "compressedNodes")
		Expect(compressed).NotTo(BeEmpty())
		gone(s, few)
		gone(s, many)
	})

	It("is no verdict until it has one: its pods have gone with it when somebody deletes it in the middle", func() {
		s := newStage()
		e := s.create(by(experiment("middle", onHub("app", "k6")), "real-pods"))
		Eventually(func() []corev1.Pod { return pods(s, e) }).Should(HaveLen(2))
		hub.kubectl(background(), "-n", workflowNamespace, "delete", "workflow", s.workflow(e).Name, "--wait=false")
		s.says(e, v1alpha1.ConditionWorkflowSucceeded, v1alpha1.ReasonWorkflowDeleted)
		stopped(s, e)
		s.reaches(e, v1alpha1.PhaseFailed)
		gone(s, e)
	})

	It("goes with an Experiment that is deleted while its pods run", func() {
		s := newStage()
		e := s.create(by(experiment("running", onHub("app", "k6")), "real-pods"))
		Eventually(func() []corev1.Pod { return pods(s, e) }).Should(HaveLen(2))
		gone(s, e)
	})

	It("does not go without its artifacts, and says so, until somebody gives them up", func(ctx SpecContext) {
		s := newStage()
		e := s.create(by(experiment("report", onHub("app", "k6")), "real-report"))
		Eventually(func() []corev1.Pod { return pods(s, e) }).Should(HaveLen(1))
		pod := pods(s, e)[0]
		// What the executor of a step tells.
		result := &unstructured.Unstructured{Object: map[string]any{"outputs": map[string]any{"artifacts": []any{map[string]any{
			"name": "report", "path": "/report", "s3": map[string]any{"endpoint": "s3.example.com", "bucket": "lab", "key": "report"},
		}}}}}
		result.SetAPIVersion("argoproj.io/v1alpha1")
		result.SetKind("WorkflowTaskResult")
		result.SetNamespace(workflowNamespace)
		result.SetName(pod.Annotations["workflows.argoproj.io/node-id"])
		result.SetLabels(map[string]string{"workflows.argoproj.io/workflow": s.workflow(e).Name, "workflows.argoproj.io/report-outputs-completed": "true"})
		Expect(s.client.Create(ctx, result)).To(Succeed())
		finish(s, e, 0, of("probe"))
		s.reaches(e, v1alpha1.PhaseComplete)

		s.delete(e)
		finish(s, e, 1, func(p corev1.Pod) bool { return p.Labels["workflows.argoproj.io/component"] == "artifact-gc" })
		s.says(e, v1alpha1.ConditionReady, v1alpha1.ReasonDeleting, "rtifact")
		Expect(s.children(e)).To(HaveLen(3))
		change(s.workflow(e), `{"metadata":{"finalizers":null}}`)
		s.gone(e)
		Expect(s.children(e)).To(BeEmpty())
	})

	It("is waited for while somebody else has its lock", func() {
		s := newStage()
		first := s.create(by(experiment("first", onHub("app", "k6")), "real-locked"))
		runs(s, first)
		second := s.create(by(experiment("second", onHub("app", "k6")), "real-locked"))
		s.says(second, v1alpha1.ConditionWorkflowSucceeded, v1alpha1.ReasonWorkflowRunning, "lock")
		resume(s, first)
		s.reaches(first, v1alpha1.PhaseComplete)
		resume(s, second)
		s.reaches(second, v1alpha1.PhaseComplete)
		gone(s, first)
		gone(s, second)
	})

	It("tells what Argo Workflows does not take", func() {
		s := newStage()
		nowhere := s.create(by(experiment("nowhere", onHub("app", "k6")), "real-nowhere"))
		needy := s.create(by(experiment("needy", onHub("app", "k6")), "real-needy"))
		s.says(nowhere, v1alpha1.ConditionWorkflowSucceeded, v1alpha1.ReasonWorkflowFailed, "elsewhere")
		s.says(needy, v1alpha1.ConditionWorkflowSucceeded, v1alpha1.ReasonWorkflowFailed, "region")
		gone(s, nowhere)
		gone(s, needy)
	})

	It("is stopped by who stops it", func() {
		s := newStage()
		e := s.create(by(experiment("stopped", onHub("app", "k6")), "real-forever"))
		runs(s, e)
		change(s.workflow(e), `{"spec":{"shutdown":"Stop"}}`)
		s.says(e, v1alpha1.ConditionWorkflowSucceeded, v1alpha1.ReasonWorkflowFailed, "Stop")
		gone(s, e)
	})

	It("is ended when it takes longer than it may", func() {
		s := newStage()
		e := by(experiment("slow", onHub("app", "k6")), "real-forever")
		e.Spec.ProgressDeadline = &v1alpha1.ProgressDeadline{Workflow: &metav1.Duration{Duration: time.Minute}}
		s.create(e)
		runs(s, e)
		SetDefaultEventuallyTimeout(100 * time.Second)
		DeferCleanup(SetDefaultEventuallyTimeout, time.Minute)
		s.reaches(e, v1alpha1.PhaseFailed)
		s.says(e, v1alpha1.ConditionWorkflowSucceeded, v1alpha1.ReasonWorkflowFailed, "deadline")
		gone(s, e)
	})

	It("is resumed: a Workflow that only waits, and that of a template for all namespaces", func() {
		s := newStage()
		byHand := by(experiment("by-hand", onHub("app", "k6")), "real-missing")
		byHand.Spec.Workflow.Completion.Mode = v1alpha1.CompletionManual
		wide := by(experiment("wide", onHub("app", "k6")), "real-forever")
		wide.Spec.Workflow.ClusterScope = true
		for _, e := range []*v1alpha1.Experiment{byHand, wide} {
			s.create(e)
			resume(s, e)
			s.reaches(e, v1alpha1.PhaseComplete)
			gone(s, e)
		}
	})

	It("is another when what it validates has changed", func() {
		s := newStage()
		e := s.create(by(experiment("edited", onHub("app", "k6")), "real-forever"))
		first := runs(s, e)
		Expect(s.edit(e, func(e *v1alpha1.Experiment) { by(e, "real-forever", "round", "2") })).To(Succeed())
		Eventually(func() string { return s.get(e).Status.Workflow.Name }).ShouldNot(Equal(first.GetName()))
		Eventually(func(g Gomega) {
			list := hub.kubectl(background(), "-n", workflowNamespace, "get", "workflow", "-l", v1alpha1.LabelExperimentUID+"="+string(e.UID), "-o", "jsonpath={.items[*].metadata.name}")
			g.Expect(list).To(Equal(s.get(e).Status.Workflow.Name))
		}).Should(Succeed())
		gone(s, e)
	})

	It("is refused where only templates may say what it runs as", func() {
		restrict := func(how string) {
			hub.kubectl(background(), "-n", workflowNamespace, "patch", "configmap", "workflow-controller-configmap", "--type=merge",
				"--patch="+`{"data":{"config":"metricsConfig: {enabled: false}\nworkflowRestrictions: {templateReferencing: `+how+`}\n"}}`)
			time.Sleep(2 * time.Second) // it says nowhere that it has taken it
		}
		restrict("Strict")
		DeferCleanup(restrict, "null")
		s := newStage()
		e := s.create(by(experiment("strict", onHub("app", "k6")), "real-forever"))
		s.says(e, v1alpha1.ConditionWorkflowSucceeded, v1alpha1.ReasonWorkflowError, "ServiceAccountName")
		gone(s, e)
	})
})
