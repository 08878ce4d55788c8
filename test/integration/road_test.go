package integration_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// allConditions are those of every Experiment, in their order.
var allConditions = []string{
	v1alpha1.ConditionReady, v1alpha1.ConditionAccepted, v1alpha1.ConditionComponentsResolved,
	v1alpha1.ConditionClustersReady, v1alpha1.ConditionApplicationsHealthy, v1alpha1.ConditionWorkflowSucceeded,
}

var _ = Describe("The straight road", Ordered, ContinueOnFailure, func() {
	var s *stage
	var e *v1alpha1.Experiment
	BeforeAll(func() {
		s = hub.newStage()
		e = s.create(tutorial())
		s.reaches(e, v1alpha1.PhaseComplete)
	})

	It("goes through every phase once, in order", func() {
		s.wentThrough(e, v1alpha1.PhasePending, v1alpha1.PhaseProvisioning, v1alpha1.PhaseReady, v1alpha1.PhaseRunning, v1alpha1.PhaseComplete)
	})

	It("has every condition, all of them True for the current generation", func() {
		now := s.get(e)
		var types []string
		for _, c := range now.Status.Conditions {
			types = append(types, c.Type)
			Expect(c.Status).To(Equal(metav1.ConditionTrue), c.Type)
			Expect(c.ObservedGeneration).To(Equal(now.Generation), c.Type)
		}
		Expect(types).To(Equal(allConditions))
		Expect(meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionReady).Reason).To(Equal(v1alpha1.ReasonComplete))
		Expect(now.Status.ObservedGeneration).To(Equal(now.Generation))
		Expect(now.Status.StartedAt).NotTo(BeNil())
		Expect(now.Status.CompletedAt).NotTo(BeNil())
		Expect(now.Status.ExpiresAt.Time).To(Equal(now.CreationTimestamp.AddDate(0, 0, 1)))
	})

	It("has all conditions from its first status on", func() {
		for _, entry := range s.history() {
			conditions, found, _ := unstructured.NestedSlice(entry.object.Object, "status", "conditions")
			if entry.object.GetUID() == e.UID && found {
				Expect(conditions).To(HaveLen(len(allConditions)))
			}
		}
	})

	It("begins a dependent only when what it depends on is healthy", func() {
		var healthy int64
		for _, entry := range s.history() {
			health, _, _ := unstructured.NestedString(entry.object.Object, "status", "health", "status")
			if isChild(e, "Application app")(entry.object) && health == "Healthy" && healthy == 0 {
				healthy = entry.version
			}
		}
		created, _, _ := s.life(isChild(e, "Application loadgen"))
		Expect(healthy).NotTo(BeZero())
		Expect(created).To(BeNumerically(">", healthy))
	})

	It("records its intent to start before it brings anything up", func() {
		var started int64
		for _, entry := range s.history() {
			if _, found, _ := unstructured.NestedString(entry.object.Object, "status", "startedAt"); found && entry.object.GetUID() == e.UID && started == 0 {
				started = entry.version
			}
		}
		for _, child := range []string{"GKECluster app", "Secret app", "Application app", "Application loadgen", "Workflow"} {
			created, _, _ := s.life(isChild(e, child))
			Expect(created).To(BeNumerically(">", started), child)
		}
	})

	It("asks Crossplane for the cluster", func() {
		claim := s.object(claims, s.claim(e, "app"))
		spec, _, _ := unstructured.NestedMap(claim.Object, "spec")
		delete(spec, "resourceRef")
		Expect(spec).To(Equal(map[string]any{
			"zone": "us-central1-a", "nodeCount": int64(1), "machineType": "e2-medium", "diskSizeGb": int64(50),
			"preemptible": false, "compositeDeletePolicy": "Foreground",
		}))
		expectMarks(e, claim, "app")
	})

	It("registers the cluster with Argo CD, without the kubeconfig itself", func() {
		secret := s.object(secrets, s.clusterSecret(e, "app"))
		Expect(secret.GetLabels()).To(HaveKeyWithValue("argocd.argoproj.io/secret-type", "cluster"))
		expectMarks(e, secret, "app")
		data, _, _ := unstructured.NestedStringMap(secret.Object, "data")
		for key, encoded := range data {
			value, err := base64.StdEncoding.DecodeString(encoded)
			Expect(err).NotTo(HaveOccurred())
			Expect(string(value)).NotTo(ContainSubstring("current-context"), key)
			data[key] = string(value)
		}
		Expect(data).To(HaveLen(3))
		Expect(data).To(HaveKeyWithValue("name", s.registration(e, "app")))
		Expect(data).To(HaveKeyWithValue("server", "https://"+clusterEndpoint))
		var config map[string]any
		Expect(json.Unmarshal([]byte(data["config"]), &config)).To(Succeed())
		Expect(config).To(Equal(map[string]any{
			"bearerToken":     canary + "-token",
			"tlsClientConfig": map[string]any{"insecure": false, "caData": base64.StdEncoding.EncodeToString([]byte(canary))},
		}))
	})

	It("gives Argo CD one Application per target", func() {
		app := s.object(applications, s.application(e, "app"))
		destination, _, _ := unstructured.NestedStringMap(app.Object, "spec", "destination")
		Expect(destination).To(Equal(map[string]string{"name": s.registration(e, "app"), "namespace": e.Name}))
		Expect(sourcesOf(app)).To(Equal([]any{
			map[string]any{
				"repoURL": "https://charts.example.com/stable", "chart": "nginx", "targetRevision": "18.2.4",
				"helm": map[string]any{
					"releaseName": "nginx", "valueFiles": []any{"$values-app-nginx/nginx/values.yaml"},
					"parameters": []any{
						map[string]any{"name": "replicaCount", "value": "2"},
						map[string]any{"name": "service.type", "value": "ClusterIP", "forceString": true},
					},
				},
			},
			map[string]any{"repoURL": "https://git.example.com/lab/values.git", "targetRevision": "main", "ref": "values-app-nginx"},
		}))
		loadgen := s.object(applications, s.application(e, "loadgen"))
		destination, _, _ = unstructured.NestedStringMap(loadgen.Object, "spec", "destination")
		Expect(destination).To(Equal(map[string]string{"server": "https://kubernetes.default.svc", "namespace": s.hubNamespace(e, "loadgen")}))
		Expect(sourcesOf(loadgen)).To(HaveLen(1))
		for target, application := range map[string]*unstructured.Unstructured{"app": app, "loadgen": loadgen} {
			Expect(application.GetFinalizers()).To(ContainElement(argoCDFinalizer))
			project, _, _ := unstructured.NestedString(application.Object, "spec", "project")
			Expect(project).To(Equal("default"))
			expectMarks(e, application, target)
		}
		Expect(s.children(e)).To(HaveLen(6), "claim, Secret, two Applications, Workflow, Namespace on the hub")
	})

	It("submits the Workflow with what it needs to know", func() {
		workflow := s.object(workflows, s.workflow(e))
		reference, _, _ := unstructured.NestedString(workflow.Object, "spec", "workflowTemplateRef", "name")
		Expect(reference).To(Equal(template))
		parameters, _, _ := unstructured.NestedSlice(workflow.Object, "spec", "arguments", "parameters")
		Expect(parameters).To(Equal([]any{
			map[string]any{"name": "app-endpoint", "value": "https://" + clusterEndpoint},
			map[string]any{"name": "app-name", "value": s.claim(e, "app").Name},
			map[string]any{"name": "app-namespace", "value": e.Name},
			map[string]any{"name": "experiment-name", "value": e.Name},
			map[string]any{"name": "loadgen-endpoint", "value": "https://kubernetes.default.svc"},
			map[string]any{"name": "loadgen-name", "value": "in-cluster"},
			map[string]any{"name": "loadgen-namespace", "value": s.hubNamespace(e, "loadgen")},
		}))
		expectMarks(e, workflow, "")
	})

	It("tells its story in events, one per change", func() {
		var story []string
		Eventually(func(g Gomega) {
			story = nil
			for _, event := range s.eventsOf(e) {
				g.Expect(event.Series).To(BeNil(), "repeated: %s", event.Note)
				g.Expect(event.Type).To(Equal("Normal"), event.Note)
				story = append(story, event.Reason+": "+event.Note)
			}
			g.Expect(story).NotTo(BeEmpty())
			g.Expect(story[len(story)-1]).To(HavePrefix(v1alpha1.ReasonWorkflowSucceeded))
		}).Should(Succeed())
		var reasons []string
		for _, line := range story {
			reason, _, _ := strings.Cut(line, ":")
			reasons = append(reasons, reason)
		}
		Expect(reasons).To(Equal([]string{
			v1alpha1.ReasonAccepted,
			"TargetProvisioning", "TargetBlocked", "TargetDeploying",
			"TargetHealthy", "TargetDeploying", "TargetHealthy",
			v1alpha1.ReasonWorkflowRunning, v1alpha1.ReasonWorkflowSucceeded,
		}), strings.Join(story, "\n"))
	})

	It("is what kubectl shows", func(ctx SpecContext) {
		table := hub.kubectl(ctx, "get", "experiments.experiments.illm.io", "-n", s.namespace)
		lines := strings.Split(strings.TrimSpace(table), "\n")
		Expect(lines).To(HaveLen(2))
		Expect(strings.Fields(lines[0])).To(Equal([]string{"NAME", "PHASE", "WORKFLOW", "AGE"}))
		Expect(lines[1]).To(MatchRegexp(`^gateway-tutorial\s+Complete\s+Succeeded\s+\d+[smh]\S*$`))
	})

	It("does not repeat the Workflow when its components change later", func() {
		workflow := s.object(workflows, s.workflow(e)).GetUID()
		Expect(s.edit(e, func(e *v1alpha1.Experiment) { e.Spec.Targets[1].Components[0].App = "nginx" })).To(Succeed())
		Eventually(func(g Gomega) {
			now := s.get(e)
			g.Expect(now.Status.ObservedGeneration).To(Equal(now.Generation))
		}).Should(Succeed())
		Expect(s.object(workflows, s.workflow(e)).GetUID()).To(Equal(workflow))
		Expect(s.get(e).Status.Phase).To(Equal(v1alpha1.PhaseComplete))
	})
})

func expectMarks(e *v1alpha1.Experiment, child *unstructured.Unstructured, target string) {
	GinkgoHelper()
	Expect(child.GetLabels()).To(HaveKeyWithValue(v1alpha1.LabelExperimentUID, string(e.UID)))
	Expect(child.GetAnnotations()).To(HaveKeyWithValue(v1alpha1.AnnotationOwner, e.Namespace+"/"+e.Name))
	Expect(child.GetLabels()[v1alpha1.LabelTarget]).To(Equal(target))
	Expect(child.GetOwnerReferences()).To(BeEmpty())
}

var _ = Describe("A spec that is changed before the verdict", func() {
	It("is validated by another Workflow", func() {
		s := hub.newStage(workflowEnds)
		e := s.create(experiment("edited", onHub("web", "nginx")))
		s.reaches(e, v1alpha1.PhaseRunning)
		first := s.object(workflows, s.workflow(e)).GetUID()
		Expect(s.edit(e, func(e *v1alpha1.Experiment) { e.Spec.Workflow.Params = map[string]string{"duration": "5m"} })).To(Succeed())
		Eventually(func(g Gomega) {
			w := s.get(e).Status.Workflow
			g.Expect(w.UID).NotTo(Equal(string(first)))
			g.Expect(w.Superseded).To(BeFalse())
		}).Should(Succeed())
		s.release(workflowEnds)
		s.reaches(e, v1alpha1.PhaseComplete)
	})
})

var _ = Describe("A program that changes what an Experiment deploys", func() {
	It("has the manager put it right a few times, and then once a minute, which says so", func(ctx SpecContext) {
		s := hub.newStage(workflowEnds)
		e := s.create(experiment("contended", onHub("web", "nginx")))
		s.reaches(e, v1alpha1.PhaseRunning)
		app := s.application(e, "web")
		ended, end := context.WithCancel(ctx)
		var program sync.WaitGroup
		program.Go(func() {
			theirs := []byte(`{"spec": {"project": "theirs"}}`)
			for ended.Err() == nil {
				_, _ = s.dynamic.Resource(applications).Namespace(app.Namespace).Patch(ended, app.Name, types.MergePatchType, theirs, metav1.PatchOptions{})
				time.Sleep(10 * time.Millisecond)
			}
		})
		DeferCleanup(program.Wait)
		DeferCleanup(end)
		s.says(e, v1alpha1.ConditionApplicationsHealthy, v1alpha1.ReasonContended, "Application "+app.String(), "again and again")
		righted := func() (n int) {
			theirs := false
			for _, h := range s.history() {
				if h.object.GetKind() != "Application" || h.object.GetName() != app.Name {
					continue
				}
				project, _, _ := unstructured.NestedString(h.object.Object, "spec", "project")
				if theirs && project != "theirs" {
					n++
				}
				theirs = project == "theirs"
			}
			return n
		}
		Consistently(righted).WithTimeout(3 * time.Second).Should(And(BeNumerically(">", 1), BeNumerically("<", 10)))
	})
})

var _ = Describe("A target with a time to live of its own", func() {
	It("goes after the verdict with its cluster, and the rest stays", func() {
		s := hub.newStage()
		app, loadgen := onGKE("app", "nginx"), onGKE("loadgen", "k6", "app")
		loadgen.TTLAfterFinished = &metav1.Duration{}
		e := s.create(experiment("load-test", app, loadgen))
		Eventually(func() v1alpha1.TargetState {
			targets := s.get(e).Status.Targets
			if len(targets) < 2 {
				return ""
			}
			return targets[1].State
		}).Should(Equal(v1alpha1.TargetDeleted))
		now := s.get(e)
		Expect(now.Status.Phase).To(Equal(v1alpha1.PhaseComplete), "conditions: %s", said(now))
		Expect(now.Status.Targets[0].State).To(Equal(v1alpha1.TargetHealthy))
		var left []string
		for _, child := range s.children(e) {
			left = append(left, strings.TrimSpace(child.GetKind()+" "+child.GetLabels()[v1alpha1.LabelTarget]))
		}
		Expect(left).To(ConsistOf("GKECluster app", "Secret app", "Application app", "Workflow"))
		s.delete(e)
		s.gone(e)
	})
})

var _ = Describe("The two samples", func() {
	It("complete beside each other", func() {
		s := hub.newStage()
		first := s.create(tutorial())
		second := s.create(experiment("hub-smoke", onHub("web", "nginx")))
		s.reaches(first, v1alpha1.PhaseComplete)
		s.reaches(second, v1alpha1.PhaseComplete)
		// A hub Experiment has nothing to provision.
		s.wentThrough(second, v1alpha1.PhasePending, v1alpha1.PhaseReady, v1alpha1.PhaseRunning, v1alpha1.PhaseComplete)
	})
})

// asked is the Experiment as a person first writes it, observability and all.
const asked = `
apiVersion: experiments.illm.io/v1alpha1
kind: Experiment
metadata: {name: gateway-tutorial}
spec:
  targets:
  - {name: app, cluster: {type: gke}, components: [{app: nginx}], observability: {enabled: true, transport: tailscale, tenant: lab}}
  - {name: loadgen, cluster: {type: hub}, components: [{app: k6}], depends: [app]}
  workflow: {template: gateway-validation, completion: {mode: workflow}}
`

var _ = Describe("Observability", func() {
	It("brings what ships the metrics to the hub", func(ctx SpecContext) {
		s := hub.newStage()
		u := &unstructured.Unstructured{}
		Expect(yaml.Unmarshal([]byte(asked), &u.Object)).To(Succeed())
		u.SetNamespace(s.namespace)
		Expect(hub.ApplyObjects(ctx, u)).To(Succeed())
		e := s.get(&v1alpha1.Experiment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: u.GetName()}})
		s.reaches(e, v1alpha1.PhaseComplete)

		shipped := map[string]string{}
		for _, child := range s.children(e) {
			if child.GetKind() != "Application" {
				continue
			}
			var sources []string
			for _, source := range sourcesOf(&child) {
				what, _, _ := unstructured.NestedString(source.(map[string]any), "helm", "releaseName")
				parameters, _, _ := unstructured.NestedSlice(source.(map[string]any), "helm", "parameters")
				for _, parameter := range parameters {
					what += fmt.Sprintf(" %v=%v", parameter.(map[string]any)["name"], parameter.(map[string]any)["value"])
				}
				sources = append(sources, strings.TrimSpace(what))
			}
			if ignored, _, _ := unstructured.NestedSlice(child.Object, "spec", "ignoreDifferences"); len(ignored) > 0 {
				sources = append(sources, "ignoring")
			}
			which := child.GetLabels()[v1alpha1.LabelTarget] + " " + child.GetAnnotations()[v1alpha1.AnnotationComponent]
			shipped[strings.TrimSpace(which)] = strings.Join(sources, ", ")
		}
		Expect(shipped).To(Equal(map[string]string{
			"app": "nginx replicaCount=2 service.type=ClusterIP, , metrics-monitors name=" + kube.ChildName(63, e.UID, "metrics", "nginx") +
				" path=/metrics podLabels=app.kubernetes.io/name=nginx podMonitor=false port=9113 serviceMonitor=true",
			"app app tailscale-operator": "tailscale-operator oauthSecretVolume.secret.secretName=operator-oauth",
			"app config metrics-egress": "metrics-egress host=labkeeper-metrics.tail1234.ts.net port=8080 proxy=" + kube.ChildName(63, e.UID, "metrics", e.Name, "app") +
				" service=metrics-hub, ignoring",
			"app app metrics-agent": "metrics-agent auth.type=token labels.experiment=gateway-tutorial labels.experiment_namespace=" + s.namespace +
				" labels.target=app shared=false tenant=lab url=http://metrics-hub:8080/api/v1/push",
			"loadgen": "",
		}))
		Eventually(func(g Gomega) {
			agent := &v1alpha1.Component{}
			g.Expect(hub.client.Get(ctx, types.NamespacedName{Name: "metrics-agent"}, agent)).To(Succeed())
			g.Expect(agent.Status.UsedBy).To(BeNumerically(">=", 1))
		}).Should(Succeed())
	})

	DescribeTable("that the manager cannot give is refused with the flag, and begins nothing",
		func(change func(*v1alpha1.Experiment), words ...string) {
			s := hub.newStage()
			e := tutorial()
			change(e)
			e = s.create(e)
			s.says(e, v1alpha1.ConditionAccepted, v1alpha1.ReasonNotConfigured, words...)
			s.says(e, v1alpha1.ConditionReady, v1alpha1.ReasonNotConfigured)
			Consistently(func(g Gomega) {
				now := s.get(e)
				g.Expect(now.Status.Phase).To(Equal(v1alpha1.PhasePending))
				g.Expect(now.Status.StartedAt).To(BeNil())
			}).Should(Succeed())
			Expect(s.children(e)).To(BeEmpty())

			Expect(s.edit(e, func(e *v1alpha1.Experiment) { e.Spec.Targets[0].Observability = nil })).To(Succeed())
			s.reaches(e, v1alpha1.PhaseComplete)
		},
		Entry("directly", func(e *v1alpha1.Experiment) {
			e.Spec.Targets[0].Observability = &v1alpha1.TargetObservability{Enabled: true}
		}, "target app: observability", "--observability-url"),
	)
})

var _ = Describe("Applications of components", func() {
	It("come one after the other, and go when the spec does not name them any more", func() {
		s := hub.newStage(applicationHealthy, workflowEnds)
		e := experiment("layers", onHub("app", "nginx"))
		e.Spec.Targets[0].ApplicationPolicy = v1alpha1.ApplicationPerComponent
		e.Spec.Targets[0].Components = append(e.Spec.Targets[0].Components, v1alpha1.ComponentRef{App: "k6"})
		e = s.create(e)
		states := func() []string {
			var all []string
			for _, t := range s.get(e).Status.Targets {
				for _, c := range t.Components {
					all = append(all, c.Name+" "+string(c.State))
				}
			}
			return all
		}
		apps := func() (count int) {
			for _, child := range s.children(e) {
				if child.GetKind() == "Application" {
					count++
				}
			}
			return count
		}
		Eventually(states).Should(Equal([]string{"app nginx Deploying", "app k6 Blocked"}))
		Consistently(apps).Should(Equal(1))
		s.release(applicationHealthy)
		Eventually(states).Should(Equal([]string{"app nginx Healthy", "app k6 Healthy"}))
		Expect(apps()).To(Equal(2))

		Expect(s.edit(e, func(e *v1alpha1.Experiment) { e.Spec.Targets[0].Components = e.Spec.Targets[0].Components[:1] })).To(Succeed())
		Eventually(states).Should(Equal([]string{"app nginx Healthy"}))
		Expect(apps()).To(Equal(1))
		Expect(s.client.Delete(background(), e)).To(Succeed())
		s.release(workflowEnds)
		Eventually(func() int { return len(s.children(e)) }).Should(BeZero())
	})
})

var _ = Describe("A dependency cycle", func() {
	It("is named, begins nothing, and is mended by an edit", func() {
		s := hub.newStage()
		e := s.create(experiment("cycle", onHub("a", "k6", "b"), onGKE("b", "nginx", "c"), onHub("c", "k6", "a")))
		s.says(e, v1alpha1.ConditionAccepted, v1alpha1.ReasonDependencyCycle, "depends", "a", "b", "c", "->")
		Consistently(func() v1alpha1.Phase { return s.get(e).Status.Phase }).Should(Equal(v1alpha1.PhasePending))
		Expect(s.get(e).Status.StartedAt).To(BeNil())
		Expect(s.children(e)).To(BeEmpty())

		Expect(s.edit(e, func(e *v1alpha1.Experiment) { e.Spec.Targets[2].Depends = nil })).To(Succeed())
		s.reaches(e, v1alpha1.PhaseComplete)
	})
})

var _ = Describe("Names", func() {
	It("are distinct and within the limits of the outsides, whatever the Experiment is called", func() {
		long := strings.TrimSuffix(strings.Repeat("long.name-", 26)[:252], ".") + "z"
		Expect(long).To(HaveLen(253))
		s, other := hub.newStage(), hub.newStage()
		target := strings.Repeat("t", 63)
		all := []*v1alpha1.Experiment{
			s.create(experiment(long, onGKE(target, "nginx"), onHub("loadgen", "k6", target))),
			s.create(experiment("same", onGKE("app", "nginx"))),
			other.create(experiment("same", onGKE("app", "nginx"))),
			s.create(experiment("foo", onGKE("bar-app", "nginx"))),
			s.create(experiment("foo-bar", onGKE("app", "nginx"))),
		}
		seen := map[string]string{}
		for _, e := range all {
			s.reaches(e, v1alpha1.PhaseComplete)
			for _, child := range s.children(e) {
				key := child.GetKind() + "/" + child.GetName()
				Expect(seen).NotTo(HaveKey(key))
				seen[key] = e.Name
				limit := map[string]int{"GKECluster": 29, "Application": 53, "Workflow": 63, "Secret": 63, "Namespace": 63}[child.GetKind()]
				Expect(len(child.GetName())).To(BeNumerically("<=", limit), key)
				Expect(child.GetName()).To(MatchRegexp(`^[a-z]([-a-z0-9]*[a-z0-9])?$`))
				for label, value := range child.GetLabels() {
					Expect(len(value)).To(BeNumerically("<=", 63), label)
				}
				namespace, found, _ := unstructured.NestedString(child.Object, "spec", "destination", "namespace")
				Expect(len(namespace)).To(BeNumerically("<=", 63))
				Expect(namespace).NotTo(ContainSubstring("."))
				Expect(found).To(Equal(child.GetKind() == "Application"))
			}
			Eventually(func() int { return len((&stage{lab: hub, namespace: e.Namespace}).eventsOf(e)) }).Should(BeNumerically(">=", 6), "events of "+e.Name)
		}
		Expect(seen).To(HaveLen(6 + 4*4))
	})
})
