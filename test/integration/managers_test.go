package integration_test

import (
	"crypto/tls"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	twins "github.com/labkeeper/labkeeper/api/experimentcontroller/v1alpha1"
	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	hibernator "github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/twin"
	"github.com/labkeeper/labkeeper/test/env"
)

var _ = Describe("A manager of some namespaces", func() {
	It("leaves the others alone, and what belongs to them", func() {
		theirs := hub.newStage()
		foreign := theirs.create(experiment("theirs", onHub("web", "nginx")))
		theirs.reaches(foreign, v1alpha1.PhaseComplete)
		shared.stop()
		DeferCleanup(restartShared)

		ours := hub.newStage()
		m := hub.startManager("narrow", "--watch-namespaces="+ours.namespace)
		ignored := theirs.create(experiment("ignored", onHub("web", "nginx")))
		e := ours.create(experiment("ours", onHub("web", "nginx")))
		ours.reaches(e, v1alpha1.PhaseComplete)
		Expect(theirs.get(ignored).Finalizers).To(BeEmpty())

		By("looking for complaints about the Applications of others, which are beside ours")
		log, err := os.ReadFile(m.Log())
		Expect(err).NotTo(HaveOccurred())
		Expect(string(log)).NotTo(ContainSubstring("unknown namespace"))
		Expect(string(log)).NotTo(ContainSubstring(`"level":"error"`))
	})
})

var _ = Describe("A manager of several namespaces", func() {
	It("acts in each, on every kind", long, func(ctx SpecContext) {
		shared.stop()
		DeferCleanup(restartShared)
		startRunners(ctx, nil)
		stages := []*stage{hub.newStage(), hub.newStage()}
		m := hub.startManager("several", "--watch-namespaces="+stages[0].namespace+","+stages[1].namespace)

		for _, s := range stages {
			e := s.create(experiment("ours", onGKE("app", "nginx"), onHub("web", "nginx", "app")))
			there := &shop{lab: hub, namespace: s.namespace}
			there.create(ctx, severalKinds)
			s.reaches(e, v1alpha1.PhaseComplete)
			there.says(ctx, "beside", twins.ConditionReady, metav1.ConditionTrue, twin.ReasonScaledToZero)
			plan := &hibernator.HibernatePlan{}
			phase := func(want hibernator.Phase) {
				GinkgoHelper()
				Eventually(func(g Gomega) {
					g.Expect(hub.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "asleep"}, plan)).To(Succeed())
					g.Expect(plan.Status.Phase).To(Equal(want), "%+v", plan.Status.Conditions)
				}).Should(Succeed())
			}
			phase(hibernator.PhaseHibernated)
			plan.Spec.Override.State = hibernator.OverrideAwake
			Expect(hub.client.Update(ctx, plan)).To(Succeed())
			phase(hibernator.PhaseActive)

			for _, o := range []client.Object{e, there.get(ctx, "beside"), plan} {
				Expect(hub.client.Delete(ctx, o)).To(Succeed())
				Eventually(func(g Gomega) {
					g.Expect(apierrors.IsNotFound(hub.client.Get(ctx, client.ObjectKeyFromObject(o), o))).To(BeTrue())
				}).Should(Succeed())
			}
		}
		Expect(m.log()).NotTo(ContainSubstring(`"level":"error"`))
	})
})

var _ = Describe("A manager of a namespace that is not there", func() {
	It("says so, and acts in it once it is created", func(ctx SpecContext) {
		shared.stop()
		DeferCleanup(restartShared)
		stages := []*stage{hub.newStage(), {lab: hub, namespace: "lab-later"}}
		m := hub.startManager("early", "--watch-namespaces="+stages[0].namespace+","+stages[1].namespace)
		Expect(m.log()).To(ContainSubstring(`"msg":"A namespace does not exist; nothing is done there until it is created","flag":"--watch-namespaces","namespace":"lab-later"`))

		Expect(hub.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: stages[1].namespace}})).To(Succeed())
		for _, s := range stages {
			there := &shop{lab: hub, namespace: s.namespace}
			there.create(ctx, severalKinds)
			there.says(ctx, "beside", twins.ConditionReady, metav1.ConditionTrue, twin.ReasonScaledToZero)
		}
		Expect(m.log()).NotTo(ContainSubstring(`"level":"error"`))
	})
})

var _ = Describe("A manager whose outsides have no namespace", func() {
	It("acts on the other kinds, and says what Experiments lack", long, func(ctx SpecContext) {
		shared.stop()
		DeferCleanup(restartShared)
		m := hub.startManager("bare", "--workflow-namespace=nope")
		Expect(m.log()).To(ContainSubstring(`"flag":"--workflow-namespace","namespace":"nope"`))

		s := hub.newStage()
		there := &shop{lab: hub, namespace: s.namespace}
		there.create(ctx, severalKinds)
		there.says(ctx, "beside", twins.ConditionReady, metav1.ConditionTrue, twin.ReasonScaledToZero)
		e := s.create(experiment("lacking", onHub("web", "nginx")))
		s.says(e, v1alpha1.ConditionReady, v1alpha1.ReasonWatchNotSynced, "Workflow")
		s.delete(e)
		s.gone(e)
	})
})

// severalKinds are a workload without pods, its twin, and a plan that has nothing sleep.
const severalKinds = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: base}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "example/web:1"}]}
---
apiVersion: experimentcontroller.example.com/v1alpha1
kind: ExperimentDeployment
metadata: {name: beside}
spec:
  sourceRef: {kind: Deployment, name: base}
  replicas: 0
  overrideSpec: {}
---
apiVersion: hibernator.ardikabs.com/v1alpha1
kind: HibernatePlan
metadata: {name: asleep}
spec:
  schedule: {timezone: UTC, offHours: [{start: "20:00", end: "06:00", daysOfWeek: [MON]}]}
  execution: {strategy: {type: Parallel}}
  targets: [{name: a, type: noop}]
  override: {state: Hibernated}
`

var _ = Describe("A manager of some kinds", func() {
	It("leaves the others alone, and needs nothing for them", func() {
		shared.stop()
		DeferCleanup(restartShared)
		stage := hub.newStage()
		hub.startManager("chosen", "--controllers=experimentdeployments,hibernateplans", "--argocd-namespace=nope")
		ignored := stage.create(experiment("ignored", onHub("web", "nginx")))
		account := cloudAccount(stage.namespace)
		Expect(hub.client.Create(background(), account)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(hub.client.Get(background(), client.ObjectKeyFromObject(account), account)).To(Succeed())
			g.Expect(account.Status.Conditions).NotTo(BeEmpty())
		}).Should(Succeed())
		Expect(stage.get(ignored).Finalizers).To(BeEmpty())
	})
})

// cloudAccount is a CloudProvider, of which there is nothing to do but to say so.
func cloudAccount(namespace string) *hibernator.CloudProvider {
	return &hibernator.CloudProvider{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "aws"},
		Spec: hibernator.CloudProviderSpec{Type: "aws", AWS: &hibernator.AWSAccess{
			AccountID: "123456789012", Region: "eu-central-1", Auth: hibernator.AWSAuth{Static: &hibernator.AWSStatic{SecretRef: hibernator.SecretRef{Name: "keys"}}},
		}},
	}
}

// refusing is a kubeconfig by which the API server refuses some paths, until it is allowed to answer.
func refusing(path string, allowed *atomic.Bool) string {
	GinkgoHelper()
	return through(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.Contains(r.URL.Path, path) && !allowed.Load() {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// through is a kubeconfig by which the API server, which is next, is reached by way of somebody.
func through(somebody func(w http.ResponseWriter, r *http.Request, next http.Handler)) string {
	GinkgoHelper()
	config := hub.Config()
	target, err := url.Parse(config.Host)
	Expect(err).NotTo(HaveOccurred())
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.Transport, err = rest.TransportFor(config)
	Expect(err).NotTo(HaveOccurred())
	forward.FlushInterval = -1 // watches
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { somebody(w, r, forward) }))
	DeferCleanup(server.CloseClientConnections)
	kubeconfig := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"proxy": {Server: server.URL}},
		Contexts:       map[string]*clientcmdapi.Context{"proxy": {Cluster: "proxy"}},
		CurrentContext: "proxy",
	}, kubeconfig)).To(Succeed())
	return kubeconfig
}

var _ = Describe("The Lease", func() {
	It("does not queue behind the manager's other requests", func(ctx SpecContext) {
		Eventually(hub.kubectl).WithArguments(ctx, "get", "--raw", "/metrics").Should(ContainSubstring(
			`apiserver_flowcontrol_dispatched_requests_total{flow_schema="labkeeper-leader-election",priority_level="leader-election"}`))
	})
})

var _ = Describe("A leader that stands still within a pass", func() {
	stands := func(stops bool) {
		GinkgoHelper()
		shared.stop()
		DeferCleanup(restartShared)
		lead := []string{"--leader-elect", "--leader-election-namespace=" + managerNamespace}
		asked, answer := make(chan struct{}), make(chan struct{})
		var once sync.Once
		leader := hub.launchManager("still", append(lead, "--kubeconfig="+through(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/experiments/halted") { // whether it is what was planned for
				heard := httptest.NewRecorder()
				next.ServeHTTP(heard, r)
				once.Do(func() { close(asked) })
				<-answer
				maps.Copy(w.Header(), heard.Header())
				w.WriteHeader(heard.Code)
				_, _ = w.Write(heard.Body.Bytes())
				return
			}
			next.ServeHTTP(w, r)
		}))...)
		DeferCleanup(func() {
			leader.signal(syscall.SIGKILL)
			Eventually(leader.Exited()).Should(BeClosed())
		})
		s := hub.newStage()
		e := s.create(experiment("halted", onHub("web", "nginx")))
		Eventually(asked).Should(BeClosed())
		leader.signal(syscall.SIGSTOP)

		By("taking down, by another, what it was about to bring up")
		standby := hub.startManager("standby", lead...)
		s.reaches(e, v1alpha1.PhaseComplete)
		s.delete(e)
		s.gone(e)
		if stops {
			standby.stop()
		}
		close(answer)
		leader.signal(syscall.SIGCONT)
		Eventually(leader.Exited()).Should(BeClosed())
		Expect(leader.log()).To(ContainSubstring("leader election lost"))
		Expect(s.children(e)).To(BeEmpty())
	}

	It("writes nothing more when another has taken its place", long, func() { stands(false) })
	It("writes nothing more when another has taken its place, and let go of the Lease again", long, func() { stands(true) })
})

var _ = Describe("A manager that is not ready", func() {
	// begin starts one, and returns what it answers.
	begin := func(name string, args ...string) (m *env.Process, answers func(path string) func() bool) {
		GinkgoHelper()
		shared.stop()
		DeferCleanup(restartShared)
		probes, err := env.FreeAddress()
		Expect(err).NotTo(HaveOccurred())
		m, err = hub.StartProcess(name, managerBinary, append(hub.managerArgs(probes), args...)...)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(m.Stop)
		return m, func(path string) func() bool {
			return func() bool { return env.Answers(background(), "http://"+probes+path) }
		}
	}

	It("is alive, and acts on the kinds whose caches are filled, until all are", long, func() {
		var allowed atomic.Bool
		m, answers := begin("filling", "--kubeconfig="+refusing("/components", &allowed))
		Eventually(answers("/healthz")).Should(BeTrue(), func() string { return m.Tail(15) })
		Consistently(answers("/readyz")).WithTimeout(2 * time.Second).Should(BeFalse())
		account := cloudAccount(hub.newStage().namespace)
		Expect(hub.client.Create(background(), account)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(hub.client.Get(background(), client.ObjectKeyFromObject(account), account)).To(Succeed())
			g.Expect(account.Status.Conditions).NotTo(BeEmpty())
		}).Should(Succeed(), func() string { return m.Tail(15) })
		Expect(answers("/readyz")()).To(BeFalse())
		allowed.Store(true)
		Eventually(answers("/readyz")).Should(BeTrue(), func() string { return m.Tail(15) })
	})

	It("is alive, until it may lead", func() {
		var allowed atomic.Bool
		m, answers := begin("barred", "--kubeconfig="+refusing("/leases", &allowed), "--leader-elect", "--leader-election-namespace="+managerNamespace)
		Eventually(answers("/healthz")).Should(BeTrue(), func() string { return m.Tail(15) })
		Eventually(m.Tail).WithArguments(50).Should(ContainSubstring("Error retrieving lease lock"))
		Consistently(answers("/readyz")).WithTimeout(2 * time.Second).Should(BeFalse())
		allowed.Store(true)
		Eventually(answers("/readyz")).Should(BeTrue(), func() string { return m.Tail(15) })
	})
})

var _ = Describe("A manager whose clock is wrong", func() {
	It("does nothing until it is right, and leaves the lead when it is wrong again", func() {
		shared.stop()
		DeferCleanup(restartShared)
		var wrong atomic.Bool
		wrong.Store(true)
		probes, err := env.FreeAddress()
		Expect(err).NotTo(HaveOccurred())
		m, err := hub.StartProcess("untimely", managerBinary, append(hub.managerArgs(probes), "--leader-elect", "--leader-election-namespace="+managerNamespace,
			"--kubeconfig="+through(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if wrong.Load() {
					w = backdated{w}
				}
				next.ServeHTTP(w, r)
			}))...)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(m.Stop)
		ready := func() bool { return env.Answers(background(), "http://"+probes+"/readyz") }
		tail := func() string { return m.Tail(15) }
		s := hub.newStage()
		e := s.create(experiment("timed", onHub("web", "nginx")))
		Eventually(tail).Should(ContainSubstring("the clock of this machine is 2h0m0s ahead of that of the API server"))
		Consistently(ready).WithTimeout(2 * time.Second).Should(BeFalse())
		Expect(s.get(e).Finalizers).To(BeEmpty())

		wrong.Store(false)
		Eventually(ready).Should(BeTrue(), tail)
		s.reaches(e, v1alpha1.PhaseComplete)

		wrong.Store(true)
		Eventually(m.Exited()).Should(BeClosed(), tail)
		Expect(m.Tail(50)).To(ContainSubstring("leader election lost"))
	})
})

// backdated is what an API server answers two hours ago.
type backdated struct{ http.ResponseWriter }

func (b backdated) WriteHeader(code int) {
	b.Header().Set("Date", time.Now().Add(-2*time.Hour).UTC().Format(http.TimeFormat))
	b.ResponseWriter.WriteHeader(code)
}

// Unwrap has watches flushed.
func (b backdated) Unwrap() http.ResponseWriter { return b.ResponseWriter }

var _ = Describe("Metrics", func() {
	It("are for those who may read them, and told by who leads and who stands by", func() {
		shared.stop()
		DeferCleanup(restartShared)
		begin := func(name string, args ...string) (address string) {
			GinkgoHelper()
			address, err := env.FreeAddress()
			Expect(err).NotTo(HaveOccurred())
			hub.startManager(name, append(args, "--metrics-bind-address="+address, "--events=false", "--leader-elect", "--leader-election-namespace="+managerNamespace)...)
			return address
		}
		leader := begin("metered")

		get := func(address, token string) (int, string) {
			GinkgoHelper()
			request, err := http.NewRequestWithContext(background(), http.MethodGet, "https://"+address+"/metrics", nil)
			Expect(err).NotTo(HaveOccurred())
			if token != "" {
				request.Header.Set("Authorization", "Bearer "+token)
			}
			// The certificate is the manager's own.
			c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
			defer c.CloseIdleConnections()
			var response *http.Response
			Eventually(func() (err error) { // the manager is ready a moment before they are served
				response, err = c.Do(request)
				return err
			}).Should(Succeed())
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			Expect(err).NotTo(HaveOccurred())
			return response.StatusCode, string(body)
		}
		code, _ := get(leader, "")
		Expect(code).To(Equal(http.StatusUnauthorized))
		code, _ = get(leader, "not-a-token")
		Expect(code).NotTo(Equal(http.StatusOK))
		s := hub.newStage()
		s.reaches(s.create(experiment("counted", onHub("web", "nginx"))), v1alpha1.PhaseComplete)
		standby := begin("beside", "--controllers=experiments")
		Eventually(func(g Gomega) { // the metrics of a controller begin with its workers
			code, body := get(leader, hub.Config().BearerToken)
			g.Expect(code).To(Equal(http.StatusOK), body)
			g.Expect(body).To(ContainSubstring("controller_runtime_reconcile_total"))
			g.Expect(body).To(ContainSubstring(`labkeeper_waiting_to_begin{controller="experiment"} 0`))
			g.Expect(body).To(ContainSubstring("labkeeper_clock_ahead_seconds 0"))
			g.Expect(body).To(ContainSubstring(`leader_election_master_status{name="labkeeper"} 1`))
			g.Expect(body).To(ContainSubstring(`labkeeper_events_total{kind="Experiment",reason="TargetHealthy",type="Normal"} 1`))
			_, beside := get(standby, hub.Config().BearerToken)
			g.Expect(beside).To(ContainSubstring(`leader_election_master_status{name="labkeeper"} 0`))
			for told, kinds := range map[string][]string{
				body:   {"CloudProvider", "Component", "Experiment", "ExperimentDeployment", "HibernatePlan", "K8SCluster", "ScheduleException"},
				beside: {"Component", "Experiment"}, // of which it runs the controllers
			} {
				g.Expect(told).To(MatchRegexp(`labkeeper_objects{kind="Experiment",phase="Complete",ready="True"} [1-9]`))
				var counted []string
				for _, m := range regexp.MustCompile(`labkeeper_overdue_teardowns{kind="(\w+)"} 0`).FindAllStringSubmatch(told, -1) {
					counted = append(counted, m[1])
				}
				g.Expect(counted).To(Equal(kinds))
			}
		}).Should(Succeed())
	})
})

var _ = Describe("Events", func() {
	It("tell the targets of one pass apart", func() {
		s := hub.newStage()
		e := s.create(experiment("three", onGKE("a", "nginx"), onGKE("b", "nginx"), onGKE("c", "nginx")))
		s.reaches(e, v1alpha1.PhaseComplete)
		Eventually(func(g Gomega) {
			seen := map[string]int{}
			for _, event := range s.eventsOf(e) {
				for _, t := range []string{"a", "b", "c"} {
					if strings.HasPrefix(event.Note, "Target "+t+":") {
						seen[event.Reason+"/"+t]++
					}
				}
			}
			for _, t := range []string{"a", "b", "c"} {
				for _, reason := range []string{"TargetProvisioning", "TargetDeploying", "TargetHealthy"} {
					g.Expect(seen).To(HaveKeyWithValue(reason+"/"+t, 1))
				}
			}
		}).Should(Succeed())
	})
})

var _ = Describe("A kind that the manager may not list", func() {
	It("holds up only those that need it", func() {
		role := &rbacv1.ClusterRole{}
		key := client.ObjectKey{Name: "labkeeper-manager"}
		Expect(hub.client.Get(background(), key, role)).To(Succeed())
		before := slices.Clone(role.Rules)
		for i, rule := range role.Rules {
			if slices.Contains(rule.Resources, "gkeclusters") {
				role.Rules[i].Verbs = []string{"get", "create"}
			}
		}
		shared.stop()
		DeferCleanup(restartShared)
		Expect(hub.client.Update(background(), role)).To(Succeed())
		DeferCleanup(func() {
			Expect(hub.client.Get(background(), key, role)).To(Succeed())
			role.Rules = before
			Expect(hub.client.Update(background(), role)).To(Succeed())
		})

		m := hub.startManager("blind")
		s := hub.newStage()
		onHubOnly := s.create(experiment("hub-only", onHub("web", "nginx")))
		withGKE := s.create(experiment("with-gke", onGKE("app", "nginx")))
		s.says(withGKE, v1alpha1.ConditionClustersReady, v1alpha1.ReasonWatchNotSynced, "GKECluster")
		s.says(withGKE, v1alpha1.ConditionReady, v1alpha1.ReasonWatchNotSynced, "GKECluster")
		s.reaches(onHubOnly, v1alpha1.PhaseComplete)
		Expect(m.Exited()).NotTo(BeClosed())
	})
})
