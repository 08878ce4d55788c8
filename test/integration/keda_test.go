//go:build keda

// Workloads that KEDA itself scales: make test-keda.
package integration_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hibernator "github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/test/env"
)

// queued is a workload that has something to do, by the clock, so that KEDA scales it from 0 whenever it may; and one that
// somebody has paused, at 2.
const queued = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec:
  replicas: 2
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      nodeName: twins
      terminationGracePeriodSeconds: 0
      containers: [{name: c, image: "example/web:1"}]
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: NAME
  annotations: {team: queue PAUSED}
spec:
  scaleTargetRef: {name: NAME}
  pollingInterval: 1
  cooldownPeriod: 1
  minReplicaCount: 1
  maxReplicaCount: 5
  triggers:
  - type: cron
    metadata: {timezone: UTC, start: "0 0 1 1 *", end: "59 23 31 12 *", desiredReplicas: "2"}
`

// scaledObject is one but for what KEDA and the API server count, and whether KEDA says that it is paused at 0.
func (s *shop) scaledObject(ctx context.Context, name string) (object map[string]any, paused bool) {
	GinkgoHelper()
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("keda.sh/v1alpha1")
	u.SetKind("ScaledObject")
	Expect(s.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, u)).To(Succeed())
	count, found, _ := unstructured.NestedInt64(u.Object, "status", "pausedReplicaCount")
	delete(u.Object, "status")
	for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
		unstructured.RemoveNestedField(u.Object, "metadata", field)
	}
	return u.Object, found && count == 0
}

func (s *shop) replicas(ctx context.Context, name string) (spec, ready int32) {
	GinkgoHelper()
	d := &appsv1.Deployment{}
	Expect(s.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, d)).To(Succeed())
	return *d.Spec.Replicas, d.Status.ReadyReplicas
}

var _ = Describe("A workload that KEDA scales", Label("keda"), Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		startNode(ctx)
		hub.install(ctx, "bin/crds/keda")
		certs := filepath.Join(hub.Dir(), "keda")
		Expect(os.Mkdir(certs, 0o700)).To(Succeed())
		certificate, key, err := cert.GenerateSelfSignedCertKey("keda-operator", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		for name, content := range map[string][]byte{"ca.crt": certificate, "tls.crt": certificate, "tls.key": key} {
			Expect(os.WriteFile(filepath.Join(certs, name), content, 0o600)).To(Succeed())
		}
		addresses := freeAddresses(3)
		operator, err := hub.StartProcess("keda", "/usr/bin/env", "KUBECONFIG="+hub.Kubeconfig(), "POD_NAMESPACE=kube-system", "KEDA_CLUSTER_OBJECT_NAMESPACE=kube-system", "WATCH_NAMESPACE=",
			filepath.Join(env.Root(), "bin", "keda"), "--metrics-bind-address="+addresses[0], "--health-probe-bind-address="+addresses[1], "--metrics-service-bind-address="+addresses[2],
			"--cert-dir="+certs, "--enable-webhook-patching=false", "--enable-apiservice-patching=false")
		Expect(err).NotTo(HaveOccurred())
		Eventually(func(g Gomega) {
			Expect(operator.Exited()).NotTo(BeClosed(), operator.Tail(15))
			g.Expect(env.Answers(background(), "http://"+addresses[1]+"/readyz")).To(BeTrue())
		}).WithTimeout(time.Minute).Should(Succeed())
	})

	It("sleeps as long as it is to, and wakes as it was", func(ctx SpecContext) {
		startRunners(ctx, nil)
		s := newShop(ctx, strings.NewReplacer("NAME", "queue", " PAUSED", "").Replace(queued),
			strings.NewReplacer("NAME", "held", " PAUSED", `, autoscaling.keda.sh/paused-replicas: "2"`).Replace(queued))
		Eventually(func(g Gomega) {
			g.Expect(s.list(ctx, "autoscaling/v2", "HorizontalPodAutoscaler")).To(HaveLen(1), "KEDA works")
			for _, name := range []string{"queue", "held"} {
				spec, ready := s.replicas(ctx, name)
				g.Expect([]int32{spec, ready}).To(Equal([]int32{2, 2}), name)
			}
		}).Should(Succeed())
		queue, _ := s.scaledObject(ctx, "queue")
		held, _ := s.scaledObject(ctx, "held")

		By("scaling from 0 what does not sleep")
		s.kubectl(ctx, "-n", s.namespace, "scale", "deployment", "queue", "--replicas=0")
		Eventually(func() int32 { spec, _ := s.replicas(ctx, "queue"); return spec }).Should(BeEquivalentTo(1))
		s.kubectl(ctx, "-n", s.namespace, "scale", "deployment", "queue", "--replicas=2")

		By("letting it sleep")
		d := &dormitory{lab: hub, namespace: s.namespace, cluster: hub}
		p := d.plan(ctx, `
metadata: {name: night}
spec:
  schedule: {timezone: UTC, offHours: [{start: "03:00", end: "03:01", daysOfWeek: [SUN]}]}
  execution: {strategy: {type: Sequential}}
  targets:
  - {name: all, type: workloadscaler, parameters: {namespace: {literals: [NAMESPACE]}}}
`)
		d.wants(ctx, p, hibernator.OverrideHibernated)
		d.comesTo(ctx, p, hibernator.PhaseHibernated, time.Minute)
		Consistently(func(g Gomega) {
			for _, name := range []string{"queue", "held"} {
				spec, ready := s.replicas(ctx, name)
				g.Expect([]int32{spec, ready}).To(Equal([]int32{0, 0}), name)
			}
		}).WithTimeout(8 * time.Second).WithPolling(200 * time.Millisecond).Should(Succeed())
		_, paused := s.scaledObject(ctx, "queue")
		Expect(paused).To(BeTrue(), "KEDA says so")

		By("waking it")
		d.wants(ctx, p, hibernator.OverrideAwake)
		d.comesTo(ctx, p, hibernator.PhaseActive, time.Minute)
		Consistently(func(g Gomega) {
			for _, name := range []string{"queue", "held"} {
				spec, ready := s.replicas(ctx, name)
				g.Expect([]int32{spec, ready}).To(Equal([]int32{2, 2}), name)
			}
		}).WithTimeout(8 * time.Second).WithPolling(200 * time.Millisecond).Should(Succeed())
		now, _ := s.scaledObject(ctx, "queue")
		Expect(now).To(Equal(queue))
		now, _ = s.scaledObject(ctx, "held")
		Expect(now).To(Equal(held))
		Eventually(func(g Gomega) {
			g.Expect(s.list(ctx, "autoscaling/v2", "HorizontalPodAutoscaler")).To(HaveLen(1), "KEDA works again")
		}).Should(Succeed())
		d.nothingLeft(ctx, p)
	})
})
