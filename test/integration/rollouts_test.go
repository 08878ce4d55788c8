//go:build rollouts

// Twins of Rollouts beside the controller of Argo Rollouts itself: make test-rollouts.
package integration_test

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	twins "github.com/labkeeper/labkeeper/api/experimentcontroller/v1alpha1"
	hibernator "github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/twin"
	"github.com/labkeeper/labkeeper/test/env"
)

const (
	shifting = `
apiVersion: v1
kind: Service
metadata: {name: web-stable}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: web-canary}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec: {ingressClassName: nginx, rules: [{host: web.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web-stable, port: {number: 80}}}}]}}]}
---
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  strategy:
    canary:
      stableService: web-stable
      canaryService: web-canary
      trafficRouting: {nginx: {stableIngress: web}}
      scaleDownDelaySeconds: 30
      steps: [{setCanaryScale: {replicas: 1}}, {setWeight: 25}, {pause: {}}]
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeName: twins
      terminationGracePeriodSeconds: 0
      containers: [{name: web, image: "example/web:1"}]
`
	colored = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: web-preview}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  strategy: {blueGreen: {activeService: web, previewService: web-preview, autoPromotionEnabled: false}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeName: twins
      terminationGracePeriodSeconds: 0
      containers: [{name: web, image: "example/web:1"}]
`
	referring = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeName: twins
      terminationGracePeriodSeconds: 0
      containers: [{name: web, image: "example/web:1"}]
---
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: web}
spec:
  replicas: 2
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web, scaleDown: onsuccess}
  strategy: {canary: {}}
`
	asleep = `
metadata: {name: night}
spec:
  schedule: {timezone: UTC, offHours: [{start: "03:00", end: "03:01", daysOfWeek: [SUN]}]}
  execution: {strategy: {type: Sequential}}
  behavior: {retries: 0}
  targets:
  - name: rollouts
    type: workloadscaler
    parameters: {includedGroups: [Rollout], namespace: {literals: [NAMESPACE]}, awaitCompletion: {enabled: true, timeout: 20s}}
`
	ofRollout = `
apiVersion: experimentcontroller.example.com/v1alpha1
kind: ExperimentDeployment
metadata: {name: faster}
spec:
  sourceRef: {kind: Rollout, name: web}
  mergeStrategy: Strategic
  overrideSpec: {template: {spec: {containers: [{name: web, image: "example/web:2"}]}}}
`
)

// production is what there is of the source, by what it is: versions of everything that says how it is served.
func (s *shop) production(ctx context.Context) map[string]string {
	GinkgoHelper()
	all := map[string]string{}
	for _, of := range []struct{ kind, version string }{
		{"Rollout", "argoproj.io/v1alpha1"}, {"Deployment", "apps/v1"}, {"ReplicaSet", "apps/v1"}, {"Service", "v1"}, {"Ingress", "networking.k8s.io/v1"},
	} {
		for _, o := range s.list(ctx, of.version, of.kind) {
			pods, _, _ := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels")
			if o.GetLabels()[twins.LabelUID] == "" && pods[twin.LabelRole] == "" {
				all[of.kind+" "+o.GetName()] = o.GetResourceVersion()
			}
		}
	}
	return all
}

// healthy waits until the Rollout of the source is, or is in another phase, and nothing of it changes any more.
func (s *shop) healthy(ctx context.Context, phase string) map[string]string {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		source := s.rollout(ctx, "web")
		g.Expect(source.Object["status"]).To(HaveKeyWithValue("phase", phase))
		g.Expect(source.Object["status"]).To(HaveKeyWithValue("observedGeneration", fmt.Sprint(source.GetGeneration())))
	}).WithTimeout(time.Minute).Should(Succeed())
	var last map[string]string
	Eventually(func() bool {
		before := last
		last = s.production(ctx)
		return before != nil && maps.Equal(before, last)
	}).WithPolling(2 * time.Second).WithTimeout(time.Minute).Should(BeTrue())
	return last
}

func (s *shop) rollout(ctx context.Context, name string) *unstructured.Unstructured {
	GinkgoHelper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(twin.RolloutGVK)
	Expect(s.client.Get(ctx, types.NamespacedName{Namespace: s.namespace, Name: name}, u)).To(Succeed())
	return u
}

// running is what the Rollout is to be, how far it is, and what its pods are.
func (s *shop) running(ctx context.Context) map[string]any {
	GinkgoHelper()
	source, images := s.rollout(ctx, "web"), map[string]int{}
	for _, pod := range s.list(ctx, "v1", "Pod") {
		images[fmt.Sprint(image(&unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": pod.Object["spec"]}}}}))]++
	}
	status, _, _ := unstructured.NestedMap(source.Object, "status")
	return map[string]any{"spec": source.Object["spec"], "annotations": source.GetAnnotations(), "step": status["currentStepIndex"], "stable": status["stableRS"], "pods": images}
}

// rolled waits until the twin runs an image, and Argo Rollouts says that it is healthy.
func (s *shop) rolled(ctx context.Context, image string) *twins.ExperimentDeployment {
	GinkgoHelper()
	e := s.ready(ctx, "faster")
	u := s.twin(ctx, e)
	Expect(u.Object["status"]).To(HaveKeyWithValue("phase", "Healthy"))
	Eventually(func(g Gomega) {
		var running []any
		for _, pod := range s.list(ctx, "v1", "Pod") {
			if pod.GetLabels()[twin.LabelID] == u.GetName() {
				containers, _, _ := unstructured.NestedSlice(pod.Object, "spec", "containers")
				running = append(running, containers[0].(map[string]any)["image"])
			}
		}
		g.Expect(running).To(Equal([]any{image}))
	}).WithTimeout(time.Minute).Should(Succeed())
	return e
}

var _ = Describe("A twin of a Rollout", Label("rollouts"), Ordered, ContinueOnFailure, func() {
	BeforeAll(func(ctx SpecContext) {
		startNode(ctx)
		hub.install(ctx, "bin/crds/argo-rollouts") // after the manager has started
		addresses := freeAddresses(2)
		argo, err := hub.StartProcess("rollouts", filepath.Join(env.Root(), "bin", "rollouts-controller"),
			"--kubeconfig="+hub.Kubeconfig(), "--leader-elect=false", "--healthzPort="+port(addresses[0]), "--metricsPort="+port(addresses[1]))
		Expect(err).NotTo(HaveOccurred())
		Eventually(func(g Gomega) {
			Expect(argo.Exited()).NotTo(BeClosed(), argo.Tail(15))
			g.Expect(env.Answers(background(), "http://"+addresses[0]+"/healthz")).To(BeTrue())
		}).WithTimeout(time.Minute).Should(Succeed())
	})

	// life is that of a twin, from its creation to its end, of which production does not notice.
	life := func(ctx SpecContext, s *shop, phase string) *twins.ExperimentDeployment {
		GinkgoHelper()
		before := s.healthy(ctx, phase)
		s.create(ctx, ofRollout)
		s.rolled(ctx, "example/web:2")
		s.edit(ctx, "faster", func(e *twins.ExperimentDeployment) {
			e.Spec.OverrideSpec.Raw = []byte(`{"template":{"spec":{"containers":[{"name":"web","image":"example/web:3"}]}}}`)
		})
		e := s.rolled(ctx, "example/web:3")
		Expect(s.production(ctx)).To(Equal(before))
		Expect(s.client.Delete(ctx, e.DeepCopy())).To(Succeed())
		s.gone(ctx, e)
		Consistently(func() map[string]string { return s.production(ctx) }).WithTimeout(3 * time.Second).Should(Equal(before))
		return e
	}

	// next is another version for the Rollout.
	next := func(ctx SpecContext, s *shop) {
		GinkgoHelper()
		s.healthy(ctx, "Healthy")
		Expect(s.client.Patch(ctx, s.rollout(ctx, "web"), client.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"example/web:1.1"}]`)))).To(Succeed())
		s.healthy(ctx, "Paused")
	}

	It("is healthy, rolls and goes, while its source shifts traffic", func(ctx SpecContext) {
		s := newShop(ctx, shifting)
		next(ctx, s)
		e := life(ctx, s, "Paused") // with a quarter of the traffic on the next version
		canary := s.list(ctx, "networking.k8s.io/v1", "Ingress")
		Expect(fmt.Sprint(canary)).To(ContainSubstring("canary-weight:25"))
		Expect(e.Status.Services).To(HaveLen(3))
		shared := map[string]string{}
		for _, service := range e.Status.Services {
			shared[service.Name] = fmt.Sprint(service.Shared, service.Reason)
		}
		Expect(shared).To(Equal(map[string]string{"web": "true", "web-stable": "false" + twin.ReasonPinned, "web-canary": "false" + twin.ReasonPinned}))
	})

	It("is told to be behind no Service of one that is blue or green", func(ctx SpecContext) {
		s := newShop(ctx, colored)
		before := s.healthy(ctx, "Healthy")
		s.create(ctx, ofRollout)
		s.rolled(ctx, "example/web:2")
		s.says(ctx, "faster", twins.ConditionServiceShared, metav1.ConditionFalse, twins.ReasonNotShared, "web-preview", "rollouts-pod-template-hash")
		Expect(s.production(ctx)).To(Equal(before))
	})

	It("has the template of the Deployment that its source refers to, which stays without pods", func(ctx SpecContext) {
		s := newShop(ctx, referring)
		life(ctx, s, "Healthy")
		source := s.list(ctx, "apps/v1", "Deployment")
		Expect(source).To(HaveLen(1))
		replicas, _, _ := unstructured.NestedInt64(source[0].Object, "spec", "replicas")
		Expect(replicas).To(Equal(int64(0)), "Argo Rollouts has taken its pods over")

		By("saying of a twin of that Deployment whose template it is")
		s.create(ctx, faster)
		s.says(ctx, "faster", twins.ConditionWarnings, metav1.ConditionTrue, twin.WarnPlacement, "Rollout web runs the template")
	})

	It("has a source that sleeps and wakes where it was", func(ctx SpecContext) {
		startRunners(ctx, nil)
		for name, source := range map[string]string{
			"in the middle of a canary": strings.Replace(shifting, "{setCanaryScale: {replicas: 1}}, ", "", 1), "between blue and green": colored, "of a Deployment": referring,
		} {
			By(name)
			s := newShop(ctx, source)
			phase := "Healthy"
			if source != referring {
				next(ctx, s)
				phase = "Paused"
			}
			s.healthy(ctx, phase)
			before := s.running(ctx)
			d := &dormitory{lab: hub, namespace: s.namespace, cluster: hub}
			p := d.plan(ctx, asleep)
			d.wants(ctx, p, hibernator.OverrideHibernated)
			d.comesTo(ctx, p, hibernator.PhaseHibernated, time.Minute)
			Expect(s.list(ctx, "v1", "Pod")).To(BeEmpty())
			d.wants(ctx, p, hibernator.OverrideAwake)
			now := d.comesTo(ctx, p, hibernator.PhaseActive, time.Minute)
			Expect(meta.IsStatusConditionTrue(now.Status.Conditions, hibernator.ConditionDegraded)).To(BeFalse())
			s.healthy(ctx, phase)
			Expect(s.running(ctx)).To(Equal(before))
			d.nothingLeft(ctx, p)
		}
	})

	It("has a source that a step keeps from sleeping, which is said, and wakes where it was", func(ctx SpecContext) {
		startRunners(ctx, nil)
		s := newShop(ctx, shifting)
		next(ctx, s)
		before := s.running(ctx)
		d := &dormitory{lab: hub, namespace: s.namespace, cluster: hub}
		p := d.plan(ctx, asleep)
		d.wants(ctx, p, hibernator.OverrideHibernated)
		now := d.comesTo(ctx, p, hibernator.PhaseError, time.Minute)
		Expect(now.Status.Executions[0].Message).To(ContainSubstring("1 pods are left, which its step setCanaryScale keeps"))
		Expect(s.list(ctx, "v1", "Pod")).To(HaveLen(1))
		d.wants(ctx, p, hibernator.OverrideAwake)
		d.comesTo(ctx, p, hibernator.PhaseActive, time.Minute)
		s.healthy(ctx, "Paused")
		Expect(s.running(ctx)).To(Equal(before))
		d.nothingLeft(ctx, p)
	})

	It("tells what Argo Rollouts refuses", func(ctx SpecContext) {
		s := newShop(ctx, shifting)
		s.healthy(ctx, "Healthy")
		s.create(ctx, ofRollout)
		s.rolled(ctx, "example/web:2")
		s.edit(ctx, "faster", func(e *twins.ExperimentDeployment) {
			e.Spec.OverrideSpec.Raw = []byte(`{"strategy":{"canary":{"maxSurge":0,"maxUnavailable":0}}}`)
		})
		s.says(ctx, "faster", twins.ConditionTwinReady, metav1.ConditionFalse, twin.ReasonInvalidSpec)
	})
})
