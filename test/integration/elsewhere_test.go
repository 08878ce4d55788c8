package integration_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hibernator "github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/test/env"
)

// startTarget is another cluster, with a node, and with what config/target-cluster has.
func startTarget(ctx context.Context, scheduler bool) *lab {
	GinkgoHelper()
	cp, err := env.Start(ctx, env.Options{AuditLog: true, KeepSignals: true, Scheduler: scheduler})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(cp.Stop)
	c, err := client.New(cp.Config(), client.Options{})
	Expect(err).NotTo(HaveOccurred())
	l := &lab{ControlPlane: cp, client: c}
	l.kubectl(ctx, "apply", "-k", filepath.Join(env.Root(), "config", "target-cluster"))
	l.startNode(ctx)
	return l
}

// printed is what hack/target-kubeconfig.sh prints.
func (l *lab) printed(ctx context.Context) string {
	GinkgoHelper()
	script := exec.CommandContext(ctx, filepath.Join(env.Root(), "hack", "target-kubeconfig.sh"))
	script.Env = append(script.Environ(), "KUBECTL="+l.Kubectl(), "KUBECONFIG="+l.Kubeconfig())
	kubeconfig, err := script.Output()
	Expect(err).NotTo(HaveOccurred())
	return string(kubeconfig)
}

const elsewhere = `
metadata: {name: night}
spec:
  schedule: {timezone: UTC, offHours: [{start: "03:00", end: "03:01", daysOfWeek: [SUN]}]}
  execution: {strategy: {type: Sequential}}
  behavior: {retries: 5}
  targets:
  - name: front
    type: workloadscaler
    connectorRef: {kind: K8SCluster, name: elsewhere}
    parameters: {includedGroups: [Deployment, StatefulSet, CronJob], namespace: {literals: [NAMESPACE]}, workloadSelector: {matchLabels: {tier: front}}}
  - name: back
    type: workloadscaler
    connectorRef: {kind: K8SCluster, name: elsewhere}
    parameters: {includedGroups: [Deployment, StatefulSet, CronJob], namespace: {selector: {team: NAMESPACE}}, workloadSelector: {matchLabels: {tier: back}}}
`

var _ = Describe("A HibernatePlan of another cluster", Ordered, early, long, func() {
	BeforeAll(startNode)

	It("puts workloads there to sleep and wakes them as they were", Label("crash"), func(ctx SpecContext) {
		executioner := &executioner{}
		startRunnersBehind(ctx, executioner.before(hub), executioner.meets)
		target := startTarget(ctx, false)
		here := newDormitory(ctx)
		d := &dormitory{lab: hub, namespace: here.namespace, cluster: target}
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: d.namespace, Labels: map[string]string{"team": d.namespace}}}
		Expect(target.client.Create(ctx, namespace)).To(Succeed())
		here.fill(ctx, 2)
		d.fill(ctx, 2)

		y := &yard{lab: hub, namespace: d.namespace}
		y.grant(ctx)
		y.put(ctx, "elsewhere", target.printed(ctx))
		y.connect(ctx, "elsewhere", &hibernator.SecretRef{Name: "elsewhere"})
		y.says(ctx, "elsewhere", metav1.ConditionTrue, hibernator.ReasonValidated)
		p := d.plan(ctx, elsewhere)
		d.comesTo(ctx, p, hibernator.PhaseActive, 10*time.Second)

		d.wants(ctx, p, hibernator.OverrideHibernated)
		d.comesTo(ctx, p, hibernator.PhaseHibernated, 40*time.Second)
		Eventually(func(g Gomega) {
			var pods corev1.PodList
			g.Expect(target.client.List(ctx, &pods, client.InNamespace(d.namespace))).To(Succeed())
			g.Expect(pods.Items).To(BeEmpty())
		}).Should(Succeed())
		Expect(here.snapshot(ctx)).To(Equal(here.before), "in the manager's own cluster nothing is touched")

		By("not taking another cluster for it")
		token := y.token(ctx)
		var accounts corev1.ServiceAccountList
		Expect(hub.client.List(ctx, &accounts, client.InNamespace(d.namespace))).To(Succeed())
		for _, a := range accounts.Items {
			if !strings.HasPrefix(a.Name, "sleeper-") {
				continue
			}
			all := &rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: a.Name},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
				Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: a.Namespace, Name: a.Name}},
			}
			Expect(hub.client.Create(ctx, all)).To(Succeed())
			DeferCleanup(func(ctx SpecContext) { Expect(hub.client.Delete(ctx, all)).To(Succeed()) })
		}
		y.put(ctx, "elsewhere", y.reaching(token, nil))
		d.wants(ctx, p, hibernator.OverrideAwake)
		Eventually(func(g Gomega) {
			for _, e := range d.get(ctx, p).Status.Executions {
				g.Expect(fmt.Sprint(e.Target, e.State, e.Message)).To(Or(ContainSubstring("kube-system has UID"), HavePrefix("front"))) // which waits for it
			}
		}).WithTimeout(40 * time.Second).Should(Succeed())
		Expect(here.snapshot(ctx)).To(Equal(here.before))
		Expect(d.snapshot(ctx)).NotTo(Equal(d.before))

		By("waking it when the connector reaches it again, whatever its namespace is labelled now")
		y.put(ctx, "elsewhere", target.printed(ctx))
		target.kubectl(ctx, "label", "namespace", d.namespace, "team-")
		d.hurry(ctx, p, hibernator.PhaseActive)
		Expect(d.snapshot(ctx)).To(Equal(d.before))
		Expect(meta.IsStatusConditionTrue(d.get(ctx, p).Status.Conditions, hibernator.ConditionDegraded)).To(BeFalse())
		d.nothingLeft(ctx, p)
		requests, err := target.Requests()
		Expect(err).NotTo(HaveOccurred())
		var written int
		for _, r := range requests {
			if r.User == "system:serviceaccount:labkeeper-system:labkeeper-runner" {
				Expect(r.Code).NotTo(Equal(403), "%+v", r)
				if r.Verb == "update" || r.Verb == "patch" {
					written++
				}
			}
		}
		Expect(written).To(BeNumerically(">", 0))
		_, lasting, found := strings.Cut(target.printed(ctx), `token: "`)
		Expect(found).To(BeTrue())
		lasting, _, _ = strings.Cut(lasting, `"`)
		y.hushed(ctx, token, lasting)
		for _, kind := range []string{"hibernateplans", "configmaps"} {
			told := d.kubectl(ctx, "get", kind, "--all-namespaces", "--output=json")
			Expect(strings.Contains(told, token) || strings.Contains(told, lasting)).To(BeFalse(), "%s tell of a secret", kind)
		}

		By("waking it whichever write a runner is killed after, here or there")
		watched, err := clientcmd.Load([]byte(target.printed(ctx)))
		Expect(err).NotTo(HaveOccurred())
		for name := range watched.Clusters {
			watched.Clusters[name] = executioner.before(target)
		}
		content, err := clientcmd.Write(*watched)
		Expect(err).NotTo(HaveOccurred())
		y.put(ctx, "watched", string(content))
		y.connect(ctx, "watched", &hibernator.SecretRef{Name: "watched"})
		y.says(ctx, "watched", metav1.ConditionTrue, hibernator.ReasonValidated)
		text := strings.Replace(single, "type: workloadscaler\n", "type: workloadscaler\n    connectorRef: {kind: K8SCluster, name: watched}\n", 1)
		q := d.plan(ctx, text)
		d.comesTo(ctx, q, hibernator.PhaseActive, 10*time.Second)
		kills := d.survives(ctx, q, executioner)
		GinkgoWriter.Printf("%d workloads of another cluster, %d runners killed, each after another write: all as before\n", len(d.before), kills)
		Expect(here.snapshot(ctx)).To(Equal(here.before))

		By("waking it though the connector and its Secret go with the namespace of the plan")
		d.wants(ctx, p, hibernator.OverrideHibernated)
		d.hurry(ctx, p, hibernator.PhaseHibernated)
		Expect(d.snapshot(ctx)).NotTo(Equal(d.before))
		Expect(hub.client.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: d.namespace}})).To(Succeed())
		Eventually(func() error { return hub.client.Get(ctx, client.ObjectKeyFromObject(p), &hibernator.HibernatePlan{}) }).WithTimeout(40 * time.Second).ShouldNot(Succeed())
		Expect(hub.client.Get(ctx, types.NamespacedName{Namespace: d.namespace, Name: "elsewhere"}, &corev1.Secret{})).NotTo(Succeed())
		Expect(d.snapshot(ctx)).To(Equal(d.before))
		d.nothingLeft(ctx, p)
	})
})
