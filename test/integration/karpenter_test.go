//go:build karpenter

// NodePools of Karpenter itself, whose nodes kwok plays: make test-karpenter.
package integration_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hibernator "github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/test/env"
)

const (
	fleet = `
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: batch, labels: {team: ml}}
spec:
  template:
    metadata: {labels: {labkeeper.dev/kwok: "true", pool: batch}}
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]
  limits: {cpu: "64", memory: 512Gi}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: Never}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: serving}
spec:
  template:
    metadata: {labels: {labkeeper.dev/kwok: "true", pool: serving}}
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: Never}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: batch, namespace: default}
spec:
  replicas: 3
  selector: {matchLabels: {app: batch}}
  template:
    metadata: {labels: {app: batch}}
    spec:
      nodeSelector: {pool: batch}
      terminationGracePeriodSeconds: 0
      containers: [{name: c, image: "app:1", resources: {requests: {cpu: "3"}}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: serving, namespace: default}
spec:
  replicas: 1
  selector: {matchLabels: {app: serving}}
  template:
    metadata: {labels: {app: serving}}
    spec:
      nodeSelector: {pool: serving}
      terminationGracePeriodSeconds: 0
      containers: [{name: c, image: "app:1", resources: {requests: {cpu: "1"}}}]
`
	pools = `
metadata: {name: pools}
spec:
  schedule: {timezone: UTC, offHours: [{start: "03:00", end: "03:01", daysOfWeek: [SUN]}]}
  execution: {strategy: {type: Sequential}}
  targets:
  - name: batch
    type: karpenter
    connectorRef: {kind: K8SCluster, name: elsewhere}
    parameters: {nodeSelector: {matchLabels: {team: ml}}}
`
)

// ready is how many pods of a Deployment are.
func (l *lab) ready(ctx context.Context, name string) string {
	GinkgoHelper()
	return l.kubectl(ctx, "get", "deployment", name, "-o", "jsonpath={.status.readyReplicas}")
}

// nodesOf are the nodes of a NodePool.
func (l *lab) nodesOf(ctx context.Context, pool string) []string {
	GinkgoHelper()
	return strings.Fields(l.kubectl(ctx, "get", "nodes,nodeclaims", "-l", "karpenter.sh/nodepool="+pool, "-o", "name"))
}

// pool is a NodePool but for what Karpenter and the API server count.
func (l *lab) pool(ctx context.Context, name string) map[string]any {
	GinkgoHelper()
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("karpenter.sh/v1")
	u.SetKind("NodePool")
	u.SetName(name)
	Expect(l.client.Get(ctx, client.ObjectKey{Name: name}, u)).To(Succeed())
	delete(u.Object, "status")
	for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
		unstructured.RemoveNestedField(u.Object, "metadata", field)
	}
	return u.Object
}

var _ = Describe("A HibernatePlan of NodePools", Label("karpenter"), Ordered, func() {
	It("takes their nodes, and lets Karpenter make others", func(ctx SpecContext) {
		startRunners(ctx, nil)
		target := startTarget(ctx, true)
		Expect(target.InstallSchemas(ctx, fromRoot([]string{"bin/crds/karpenter", "bin/crds/karpenter-kwok"})...)).To(Succeed())
		target.kubectl(ctx, "apply", "-f", filepath.Join(env.Root(), "config", "target-cluster", "karpenter.yaml"))
		addresses := freeAddresses(2)
		_, err := target.StartProcess("karpenter", "/usr/bin/env", "KUBECONFIG="+target.Kubeconfig(), "SYSTEM_NAMESPACE=kube-system", "DISABLE_LEADER_ELECTION=true",
			"METRICS_PORT="+port(addresses[0]), "HEALTH_PROBE_PORT="+port(addresses[1]), filepath.Join(env.Root(), "bin", "karpenter"))
		Expect(err).NotTo(HaveOccurred())
		objects, err := env.DecodeObjects([]byte(fleet))
		Expect(err).NotTo(HaveOccurred())
		Expect(target.ApplyObjects(ctx, objects...)).To(Succeed())
		awake := func(g Gomega) {
			g.Expect(target.ready(ctx, "batch")).To(Equal("3"))
			g.Expect(target.ready(ctx, "serving")).To(Equal("1"))
		}
		Eventually(awake).WithTimeout(2 * time.Minute).WithPolling(time.Second).Should(Succeed())
		before := map[string]any{"batch": target.pool(ctx, "batch"), "serving": target.pool(ctx, "serving")}
		serving, batch := target.nodesOf(ctx, "serving"), target.nodesOf(ctx, "batch")
		Expect(batch).NotTo(BeEmpty())

		d := newDormitory(ctx)
		y := &yard{lab: hub, namespace: d.namespace}
		y.grant(ctx)
		y.put(ctx, "elsewhere", target.printed(ctx))
		y.connect(ctx, "elsewhere", &hibernator.SecretRef{Name: "elsewhere"})
		y.says(ctx, "elsewhere", metav1.ConditionTrue, hibernator.ReasonValidated)
		p := d.plan(ctx, pools)
		d.wants(ctx, p, hibernator.OverrideHibernated)
		d.comesTo(ctx, p, hibernator.PhaseHibernated, 2*time.Minute)
		Expect(target.nodesOf(ctx, "batch")).To(BeEmpty())
		Consistently(func(g Gomega) {
			g.Expect(target.nodesOf(ctx, "batch")).To(BeEmpty(), "its pods are waiting, and get no node")
			g.Expect(target.ready(ctx, "batch")).To(BeEmpty())
		}).WithTimeout(5 * time.Second).WithPolling(time.Second).Should(Succeed())
		Expect(target.nodesOf(ctx, "serving")).To(Equal(serving))

		d.wants(ctx, p, hibernator.OverrideAwake)
		d.comesTo(ctx, p, hibernator.PhaseActive, time.Minute)
		Eventually(awake).WithTimeout(2 * time.Minute).WithPolling(time.Second).Should(Succeed())
		Expect(map[string]any{"batch": target.pool(ctx, "batch"), "serving": target.pool(ctx, "serving")}).To(Equal(before))
		Expect(target.nodesOf(ctx, "serving")).To(Equal(serving))
		Expect(fmt.Sprint(target.nodesOf(ctx, "batch"))).NotTo(Equal(fmt.Sprint(batch)), "they are others")
		d.nothingLeft(ctx, p)
	})
})
