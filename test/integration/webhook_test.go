package integration_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/test/env"
)

var _ = Describe("The webhook", func() {
	It("tells at once what the conditions would tell, and holds nobody up", func(ctx SpecContext) {
		shared.stop()
		DeferCleanup(restartShared)
		m := hub.startManager("reviewer", hub.serveWebhook()...)
		s := hub.newStage()
		circular := func() *v1alpha1.Experiment {
			e := experiment("circular", onHub("a", "nginx"), onHub("b", "nginx"))
			e.Namespace = s.namespace
			e.Spec.Targets[0].Depends, e.Spec.Targets[1].Depends = []string{"b"}, []string{"a"}
			return e
		}

		By("refusing what can never be acted on")
		var err error
		Eventually(func() error {
			err = hub.client.Create(ctx, circular(), client.DryRunAll)
			return err
		}).Should(HaveOccurred()) // the API server needs a moment to know the webhook
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring("DependencyCycle: spec.targets[].depends")))

		By("warning of what is missing so far, in the words of kubectl")
		missing := experiment("missing", onHub("a", "not-there"))
		missing.Namespace = s.namespace
		missing.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Experiment"))
		text, err := yaml.Marshal(missing)
		Expect(err).NotTo(HaveOccurred())
		command := exec.CommandContext(ctx, hub.Kubectl(), "--kubeconfig="+hub.Kubeconfig(), "create", "-f", "-")
		command.Stdin = strings.NewReader(string(text))
		output, err := command.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(output))
		Expect(string(output)).To(ContainSubstring("Warning: ComponentNotFound: "))

		By("doing the same for HibernatePlans and their exceptions")
		Expect(hub.applies(ctx, s.namespace, plan)).To(ContainSubstring("Warning: ConnectorMissing: Target back: "))
		Expect(hub.applies(ctx, s.namespace, strings.ReplaceAll(plan, "from: front, to: back", "from: front, to: front"))).To(
			ContainSubstring("denied the request: InvalidSpec: spec.execution.strategy.dependencies[0]: front cannot"))
		Expect(hub.applies(ctx, s.namespace, strings.ReplaceAll(plan, "type: noop", "type: noop, parameters: {randomDelaySecond: 1}"))).To(
			ContainSubstring("spec.targets[0](front).parameters.randomDelaySecond"))
		Expect(hub.applies(ctx, s.namespace, strings.ReplaceAll(plan, "Europe/Berlin", "Europe/Bonn"))).To(ContainSubstring("spec.schedule.timezone: "))
		Expect(hub.applies(ctx, s.namespace, exception)).To(ContainSubstring("Warning: Detached: "))

		By("letting the manager's own writes through")
		good := s.create(experiment("good", onHub("a", "nginx")))
		s.reaches(good, v1alpha1.PhaseComplete)
		s.delete(good)
		s.gone(good)

		By("letting everything through while no manager runs; the next one says the same")
		m.stop()
		let := circular()
		Expect(hub.client.Create(ctx, let)).To(Succeed())
		second := hub.startManager("without")
		defer second.stop()
		s.says(let, v1alpha1.ConditionAccepted, v1alpha1.ReasonDependencyCycle, "spec.targets[].depends")
		s.delete(let)
		s.gone(let)
	})
})

const plan = `
apiVersion: hibernator.ardikabs.com/v1alpha1
kind: HibernatePlan
metadata: {name: reviewed}
spec:
  schedule: {timezone: Europe/Berlin, offHours: [{start: "20:00", end: "06:00", daysOfWeek: [MON]}]}
  execution: {strategy: {type: DAG, dependencies: [{from: front, to: back}]}}
  targets:
  - {name: front, type: noop}
  - {name: back, type: noop, connectorRef: {kind: K8SCluster, name: nowhere}}
`

const exception = `
apiVersion: hibernator.ardikabs.com/v1alpha1
kind: ScheduleException
metadata: {name: reviewed}
spec: {planRef: {name: nobody}, type: suspend, validFrom: "2099-01-01T00:00:00Z", validUntil: "2099-01-02T00:00:00Z"}
`

// applies is what kubectl says of a manifest that is applied, and not kept.
func (l *lab) applies(ctx context.Context, namespace, text string) string {
	GinkgoHelper()
	args := []string{"--kubeconfig=" + l.Kubeconfig(), "apply", "--dry-run=server", "-f", "-"}
	if namespace != metav1.NamespaceNone {
		args = append(args, "--namespace="+namespace)
	}
	command := exec.CommandContext(ctx, l.Kubectl(), args...)
	command.Stdin = strings.NewReader(text)
	output, err := command.CombinedOutput()
	if err != nil {
		Expect(err).To(BeAssignableToTypeOf(&exec.ExitError{}))
	}
	return string(output)
}

// serveWebhook registers the webhook of config/webhook at an address of this machine until the spec
// ends, and returns the flags of the manager that serves it.
func (l *lab) serveWebhook() []string {
	GinkgoHelper()
	address, err := env.FreeAddress()
	Expect(err).NotTo(HaveOccurred())
	_, port, err := net.SplitHostPort(address)
	Expect(err).NotTo(HaveOccurred())
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	Expect(err).NotTo(HaveOccurred())
	dir := filepath.Join(l.Dir(), "webhook-certs")
	Expect(os.MkdirAll(dir, 0o700)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(dir, "tls.crt"), certificate, 0o600)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600)).To(Succeed())

	text, err := os.ReadFile(filepath.Join(env.Root(), "config", "webhook", "webhook.yaml"))
	Expect(err).NotTo(HaveOccurred())
	webhook := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	Expect(yaml.UnmarshalStrict(text, webhook)).To(Succeed())
	for i := range webhook.Webhooks {
		config := &webhook.Webhooks[i].ClientConfig
		config.URL, config.CABundle = ptr.To("https://"+net.JoinHostPort("127.0.0.1", port)+*config.Service.Path), certificate
		config.Service = nil
	}
	Expect(l.client.Create(background(), webhook)).To(Succeed())
	DeferCleanup(func() { Expect(l.client.Delete(background(), webhook)).To(Succeed()) })
	return []string{"--webhook-port=" + port, "--webhook-cert-dir=" + dir}
}

// hang has every create of a claim in the namespaces wait for an admission webhook that takes its requests and answers none.
func (l *lab) hang(timeout int32, namespaces ...string) {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(listener.Close)
	webhook := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "hangs"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:         "hangs.example.com",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://" + listener.Addr().String())},
			NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: namespaces},
			}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{claims.Group}, APIVersions: []string{"*"}, Resources: []string{claims.Resource}},
			}},
			SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			TimeoutSeconds: ptr.To(timeout), FailurePolicy: ptr.To(admissionregistrationv1.Fail),
		}},
	}
	Expect(l.client.Create(background(), webhook)).To(Succeed())
	DeferCleanup(func() { Expect(client.IgnoreNotFound(l.client.Delete(background(), webhook))).To(Succeed()) })
}

var _ = Describe("A webhook of others that hangs", early, long, func() {
	It("holds up those alone who ask it", func() {
		asking, free := hub.newStage(), hub.newStage()
		hub.hang(10, asking.namespace)
		stuck := make([]*v1alpha1.Experiment, 24)
		for i := range stuck {
			stuck[i] = asking.create(experiment(fmt.Sprintf("stuck-%d", i), onGKE("app", "nginx")))
		}
		for _, e := range stuck[:8] { // more than may be looked at at the same time
			asking.says(e, v1alpha1.ConditionReady, v1alpha1.ReasonReconcileError, "hangs.example.com")
		}

		for _, s := range []*stage{free, asking} {
			begun := time.Now()
			e := s.create(experiment("asks-nobody", onHub("web", "nginx")))
			s.reaches(e, v1alpha1.PhaseComplete)
			if s == free { // in the other it is the last in the line of those that begin
				Expect(time.Since(begun)).To(BeNumerically("<", 10*time.Second), "so long is one request of the others")
			}
			s.delete(e)
			s.gone(e)
		}
	})
})
