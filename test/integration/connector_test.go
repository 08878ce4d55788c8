package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hibernator "github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/connector"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/test/env"
)

// yard is a namespace with connectors.
type yard struct {
	*lab
	namespace string
}

// newYard is one whose Secrets the manager may read, or may not.
func newYard(ctx context.Context, readable bool) *yard {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "yard-"}}
	Expect(hub.client.Create(ctx, namespace)).To(Succeed())
	y := &yard{lab: hub, namespace: namespace.Name}
	DeferCleanup(func(ctx SpecContext) {
		for _, kind := range []client.Object{&hibernator.K8SCluster{}, &hibernator.CloudProvider{}} {
			Expect(hub.client.DeleteAllOf(ctx, kind, client.InNamespace(y.namespace))).To(Succeed())
		}
		Expect(hub.client.Delete(ctx, namespace)).To(Succeed())
	})
	if readable {
		y.grant(ctx)
	}
	return y
}

// grant lets the manager read the Secrets.
func (y *yard) grant(ctx context.Context) {
	GinkgoHelper()
	Expect(y.client.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: y.namespace, Name: "labkeeper-kubeconfigs"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "labkeeper-kubeconfig-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: managerNamespace, Name: managerAccount}},
	})).To(Succeed())
}

// token is one of an account that has no rights.
func (y *yard) token(ctx context.Context) string {
	GinkgoHelper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: y.namespace, GenerateName: "sleeper-"}}
	Expect(y.client.Create(ctx, account)).To(Succeed())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(3600))}}
	Expect(y.client.SubResource("token").Create(ctx, account, request)).To(Succeed())
	return request.Status.Token
}

// reaching is a kubeconfig that reaches the hub, unless it is changed.
func (y *yard) reaching(token string, change func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)) string {
	GinkgoHelper()
	config := clientcmdapi.NewConfig()
	config.CurrentContext = "c"
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "c"}
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: y.Config().Host, CertificateAuthorityData: y.Config().CAData}
	config.AuthInfos["c"] = &clientcmdapi.AuthInfo{Token: token}
	if change != nil {
		change(config.Clusters["c"], config.AuthInfos["c"])
	}
	content, err := clientcmd.Write(*config)
	Expect(err).NotTo(HaveOccurred())
	return string(content)
}

// put creates a Secret, or changes it.
func (y *yard) put(ctx context.Context, name, kubeconfig string) {
	GinkgoHelper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: y.namespace, Name: name}, StringData: map[string]string{"kubeconfig": kubeconfig}}
	if err := y.client.Create(ctx, secret); err != nil {
		Expect(y.client.Update(ctx, secret)).To(Succeed())
	}
}

// connect creates a K8SCluster by a Secret; without one the manager's own.
func (y *yard) connect(ctx context.Context, name string, ref *hibernator.SecretRef) {
	GinkgoHelper()
	c := &hibernator.K8SCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: y.namespace, Name: name},
		Spec:       hibernator.K8SClusterSpec{K8S: &hibernator.K8SAccess{KubeconfigRef: ref, InCluster: ref == nil}},
	}
	Expect(y.client.Create(ctx, c)).To(Succeed())
}

func (y *yard) get(ctx context.Context, name string) *hibernator.K8SCluster {
	GinkgoHelper()
	c := &hibernator.K8SCluster{}
	Expect(y.client.Get(ctx, types.NamespacedName{Namespace: y.namespace, Name: name}, c)).To(Succeed())
	return c
}

// says waits for what Ready is.
func (y *yard) says(ctx context.Context, name string, status metav1.ConditionStatus, reason string, words ...string) *hibernator.K8SCluster {
	GinkgoHelper()
	var c *hibernator.K8SCluster
	Eventually(func(g Gomega) {
		c = y.get(ctx, name)
		ready := meta.FindStatusCondition(c.Status.Conditions, hibernator.ConditionReady)
		g.Expect(ready).NotTo(BeNil())
		g.Expect(fmt.Sprint(ready.Status, ready.Reason, ready.ObservedGeneration)).To(Equal(fmt.Sprint(status, reason, c.Generation)), ready.Message)
		for _, word := range words {
			g.Expect(ready.Message).To(ContainSubstring(word))
		}
	}).Should(Succeed())
	return c
}

// hushed checks that what was seen of a namespace, and what the manager says, has none of some secrets.
func (y *yard) hushed(ctx context.Context, secrets ...string) {
	GinkgoHelper()
	all, events := &hibernator.K8SClusterList{}, &eventsv1.EventList{}
	Expect(y.client.List(ctx, all, client.InNamespace(y.namespace))).To(Succeed())
	Eventually(func(g Gomega) { // each connector has one at least
		g.Expect(y.client.List(ctx, events, client.InNamespace(y.namespace))).To(Succeed())
		g.Expect(len(events.Items)).To(BeNumerically(">=", len(all.Items)))
	}).Should(Succeed())
	told, err := json.Marshal([]any{all, events})
	Expect(err).NotTo(HaveOccurred())
	for _, secret := range secrets {
		Expect(strings.Contains(string(told), secret)).To(BeFalse(), "a status or an Event tells of a secret")
		Expect(strings.Contains(shared.log(), secret)).To(BeFalse(), "the log tells of a secret")
	}
}

var _ = Describe("A connector", func() {
	It("is ready when its server takes the credentials", func(ctx SpecContext) {
		y := newYard(ctx, true)
		y.connect(ctx, "own", nil)
		token := y.token(ctx)
		y.put(ctx, "good", y.reaching(token, nil))
		y.connect(ctx, "good", &hibernator.SecretRef{Name: "good"})
		for _, name := range []string{"own", "good"} {
			c := y.says(ctx, name, metav1.ConditionTrue, hibernator.ReasonValidated)
			Expect(c.Status.Ready).To(BeTrue())
			Expect(c.Status.Version).To(HavePrefix("v1."))
			Expect(c.Status.ClusterType).To(Equal("k8s"))
			Expect(c.Status.LastValidated.Time).To(BeTemporally("~", time.Now(), time.Minute))
		}
		access, err := connector.Resolve(ctx, y.client, y.namespace, &hibernator.ConnectorRef{Kind: "K8SCluster", Name: "good"})
		Expect(err).NotTo(HaveOccurred())
		config, err := clientcmd.RESTConfigFromKubeConfig(access.Kubeconfig)
		Expect(err).NotTo(HaveOccurred())
		Expect(config.BearerToken).To(Equal(token))
		y.hushed(ctx, token)

		By("costing nothing until it is validated again")
		from, version := time.Now(), y.get(ctx, "good").ResourceVersion
		Consistently(func() string { return y.get(ctx, "good").ResourceVersion }).WithTimeout(2 * time.Second).Should(Equal(version))
		for _, r := range y.requests(from, time.Now()) {
			Expect(r.Namespace).NotTo(Equal(y.namespace), "%s %s %s", r.Verb, r.Resource, r.Name)
		}
	})

	It("says what is wrong, and when it was put right", func(ctx SpecContext) {
		y := newYard(ctx, true)
		token := y.token(ctx)
		address, err := env.FreeAddress() // where nobody listens
		Expect(err).NotTo(HaveOccurred())
		y.put(ctx, "closed", y.reaching(token, func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.Server = "https://" + address }))
		y.put(ctx, "wrong", y.reaching(canary, nil))
		y.put(ctx, "password", y.reaching("", func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.Username, u.Password = "me", canary }))
		y.put(ctx, "stranger", y.reaching(token, func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.CertificateAuthorityData = nil }))
		y.put(ctx, "exec", y.reaching(token, func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.Exec = &clientcmdapi.ExecConfig{APIVersion: "client.authentication.k8s.io/v1", Command: "touch", Args: []string{filepath.Join(y.Dir(), "ran"), canary}, InteractiveMode: clientcmdapi.NeverExecInteractiveMode}
		}))
		y.put(ctx, "file", y.reaching("", func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.TokenFile = "/" + canary }))
		y.put(ctx, "none", canary)
		for name, want := range map[string]struct{ reason, words string }{
			"closed":   {hibernator.ReasonUnreachable, "refuses connections"},
			"wrong":    {hibernator.ReasonUnauthorized, "401"},
			"password": {hibernator.ReasonUnauthorized, "credentials"},
			"stranger": {hibernator.ReasonUnreachable, "certificate"},
			"exec":     {hibernator.ReasonKubeconfigInvalid, "exec plugin"},
			"file":     {hibernator.ReasonKubeconfigInvalid, "files"},
			"none":     {hibernator.ReasonKubeconfigInvalid, "not a kubeconfig"},
			"late":     {hibernator.ReasonKubeconfigMissing, "Secret " + y.namespace + "/late does not exist"},
		} {
			y.connect(ctx, name, &hibernator.SecretRef{Name: name})
			c := y.says(ctx, name, metav1.ConditionFalse, want.reason, want.words)
			Expect(c.Status.Ready).To(BeFalse())
			Expect(c.Status.LastValidated).To(BeNil())
		}
		Expect(filepath.Join(y.Dir(), "ran")).NotTo(BeAnExistingFile())
		_, err = connector.Resolve(ctx, y.client, y.namespace, &hibernator.ConnectorRef{Kind: "K8SCluster", Name: "wrong"})
		Expect(err).To(BeAssignableToTypeOf(&connector.Error{}))

		By("waiting for a Secret that comes later")
		y.put(ctx, "late", y.reaching(token, nil))
		y.put(ctx, "closed", y.reaching(token, nil))
		Eventually(func(g Gomega) {
			for _, name := range []string{"late", "closed"} {
				g.Expect(y.get(ctx, name).Status.Ready).To(BeTrue(), name)
			}
		}).WithTimeout(time.Minute).WithPolling(time.Second).Should(Succeed())
		y.hushed(ctx, token, canary)
	})

	It("uses Secrets of other namespaces that allow it, and learns nothing of others", func(ctx SpecContext) {
		vault, y := newYard(ctx, true), newYard(ctx, false)
		vault.put(ctx, "shared", vault.reaching(vault.token(ctx), nil))
		for _, name := range []string{"shared", "nothing"} {
			y.connect(ctx, name, &hibernator.SecretRef{Namespace: vault.namespace, Name: name})
		}
		shown := y.says(ctx, "shared", metav1.ConditionFalse, hibernator.ReasonNotGranted, hibernator.AnnotationAllowedNamespaces).Status.Message
		hidden := y.says(ctx, "nothing", metav1.ConditionFalse, hibernator.ReasonNotGranted).Status.Message
		Expect(strings.ReplaceAll(hidden, "nothing", "shared")).To(Equal(shown))
		y.kubectl(ctx, "-n", vault.namespace, "annotate", "secret", "shared", hibernator.AnnotationAllowedNamespaces+"=other, "+y.namespace)
		Eventually(func() bool { return y.get(ctx, "shared").Status.Ready }).WithTimeout(time.Minute).WithPolling(time.Second).Should(BeTrue())

		By("naming the RoleBinding that is missing")
		y.connect(ctx, "unread", &hibernator.SecretRef{Name: "unread"})
		message := y.says(ctx, "unread", metav1.ConditionFalse, kube.ReasonForbidden, "kubectl -n "+y.namespace+" create rolebinding").Status.Message
		_, command, _ := strings.Cut(message, "kubectl ")
		y.kubectl(ctx, strings.Fields(command)...)
		Eventually(func() string {
			return meta.FindStatusCondition(y.get(ctx, "unread").Status.Conditions, hibernator.ConditionReady).Reason
		}).WithTimeout(time.Minute).WithPolling(time.Second).Should(Equal(hibernator.ReasonKubeconfigMissing))
	})

	It("comes up as the samples say", func(ctx SpecContext) {
		y := newYard(ctx, false)
		sample, err := os.ReadFile(filepath.Join(env.Root(), "config", "samples", "hibernation", "connectors.yaml"))
		Expect(err).NotTo(HaveOccurred())
		(&shop{lab: y.lab, namespace: y.namespace}).create(ctx, strings.ReplaceAll(string(sample), "namespace: default", "namespace: "+y.namespace))
		y.says(ctx, "own", metav1.ConditionTrue, hibernator.ReasonValidated)
		y.says(ctx, "staging", metav1.ConditionFalse, hibernator.ReasonUnreachable)
		c := y.says(ctx, "production", metav1.ConditionUnknown, hibernator.ReasonNoChecker, "eks")
		Expect(c.Status.ClusterType).To(Equal("eks"))
		Eventually(func(g Gomega) {
			provider := &hibernator.CloudProvider{}
			g.Expect(y.client.Get(ctx, types.NamespacedName{Namespace: y.namespace, Name: "aws"}, provider)).To(Succeed())
			ready := meta.FindStatusCondition(provider.Status.Conditions, hibernator.ConditionReady)
			g.Expect(ready).NotTo(BeNil())
			g.Expect(fmt.Sprint(ready.Status, ready.Reason)).To(Equal(fmt.Sprint(metav1.ConditionUnknown, hibernator.ReasonNoChecker)))
		}).Should(Succeed())
	})
})
