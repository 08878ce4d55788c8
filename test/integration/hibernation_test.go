package integration_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	hibernator "github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/test/runners"
)

// dormitory is a namespace with plans, and one of the same name with workloads that sleep.
type dormitory struct {
	*lab
	namespace string
	// cluster that the workloads are in.
	cluster *lab
	// before are the workloads as they were, by their kinds and names.
	before map[string]any
}

// startRunners plays the pods of Jobs; each that begins is shown.
func startRunners(ctx context.Context, started func(*corev1.Pod, *os.Process)) {
	GinkgoHelper()
	startRunnersBehind(ctx, nil, started)
}

// startRunnersBehind has the runners reach the API server by a proxy; nil is none.
func startRunnersBehind(ctx context.Context, proxy *clientcmdapi.Cluster, started func(*corev1.Pod, *os.Process)) {
	GinkgoHelper()
	kubelet, err := runners.Start(ctx, runners.Options{Config: hub.Config(), Namespace: managerNamespace, Binary: managerBinary, Dir: hub.Dir(), Cluster: proxy, Started: started})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(kubelet.Stop)
}

func newDormitory(ctx context.Context) *dormitory {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "night-"}}
	Expect(hub.client.Create(ctx, namespace)).To(Succeed())
	d := &dormitory{lab: hub, namespace: namespace.Name, cluster: hub, before: map[string]any{}}
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(hub.client.Delete(ctx, namespace))).To(Succeed())
	})
	return d
}

// groups are how many targets *rounds of workloads are of that are killed.
const groups = 10

// rounds of four workloads each are put to sleep and woken while things are killed: make hibernate-crash has 250.
var rounds = flag.Int("hibernation.rounds", 3, "how many `rounds` of four workloads sleep and wake while runners and managers are killed")

// sleepers are the kinds of what sleeps here.
var sleepers = []client.ObjectList{&appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, &batchv1.CronJobList{}, &autoscalingv2.HorizontalPodAutoscalerList{}}

// fill makes workloads of several kinds: 4 for each round.
func (d *dormitory) fill(ctx context.Context, rounds int) {
	GinkgoHelper()
	for i := range rounds {
		labels := map[string]string{"app": fmt.Sprintf("w%d", i), "tier": []string{"front", "back"}[i%2], "group": fmt.Sprintf("g%d", i%groups)}
		template := corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{NodeName: "twins", Containers: []corev1.Container{{Name: "c", Image: "app:1"}}}, // there is no scheduler
		}
		at := func(kind string) metav1.ObjectMeta {
			return metav1.ObjectMeta{Namespace: d.namespace, Name: fmt.Sprintf("%s-%d", kind, i), Labels: labels, Annotations: map[string]string{"team": "night"}}
		}
		selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": labels["app"]}}
		own := labels["app"] + "-s"
		stateful := *template.DeepCopy()
		stateful.Labels = map[string]string{"app": own}
		for _, o := range []client.Object{
			&appsv1.Deployment{ObjectMeta: at("web"), Spec: appsv1.DeploymentSpec{Replicas: ptr.To(int32(1 + i%3)), Selector: selector, Template: template}},
			&appsv1.StatefulSet{ObjectMeta: at("db"), Spec: appsv1.StatefulSetSpec{Replicas: ptr.To(int32(i % 3)), ServiceName: "db", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": own}}, Template: stateful}},
			&batchv1.CronJob{ObjectMeta: at("tick"), Spec: batchv1.CronJobSpec{Schedule: "0 0 1 1 *", Suspend: ptr.To(i%2 == 0), JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: template.Spec.Containers}}}}}},
			&autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: at("scale"), Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				MinReplicas: ptr.To(int32(1 + i%3)), MaxReplicas: 5, ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: fmt.Sprintf("web-%d", i)},
			}},
		} {
			Expect(d.cluster.client.Create(ctx, o)).To(Succeed())
		}
	}
	Eventually(func(g Gomega) {
		var all appsv1.DeploymentList
		g.Expect(d.cluster.client.List(ctx, &all, client.InNamespace(d.namespace))).To(Succeed())
		for _, w := range all.Items {
			g.Expect(w.Status.ReadyReplicas).To(Equal(*w.Spec.Replicas), w.Name)
		}
	}).WithTimeout(20*time.Second + time.Duration(rounds)*time.Second).Should(Succeed())
	d.before = d.snapshot(ctx)
}

// slow makes a StatefulSet whose pod stays until it is let go.
func (d *dormitory) slow(ctx context.Context) (letGo func(context.Context)) {
	GinkgoHelper()
	labels := map[string]string{"app": "slow"}
	Expect(d.client.Create(ctx, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: "slow"},
		Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](1), ServiceName: "slow", Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{NodeName: "twins", Containers: []corev1.Container{{Name: "c", Image: "app:1"}}},
		}},
	})).To(Succeed())
	keep := func(ctx context.Context, by string) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: "slow-0"}}
		return d.client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": `+by+`}}`)))
	}
	Eventually(func() error { return keep(ctx, `["example.com/slow"]`) }).Should(Succeed())
	letGo = func(ctx context.Context) {
		GinkgoHelper()
		Expect(client.IgnoreNotFound(keep(ctx, "null"))).To(Succeed())
	}
	DeferCleanup(letGo)
	return letGo
}

// snapshot is every workload but for what the API server counts, and how it is doing.
func (d *dormitory) snapshot(ctx context.Context) map[string]any {
	GinkgoHelper()
	out := map[string]any{}
	for _, kind := range sleepers {
		list := kind.DeepCopyObject().(client.ObjectList)
		Expect(d.cluster.client.List(ctx, list, client.InNamespace(d.namespace))).To(Succeed())
		Expect(meta.EachListItem(list, func(o runtime.Object) error {
			raw, err := json.Marshal(o)
			if err != nil {
				return err
			}
			u := map[string]any{}
			if err := json.Unmarshal(raw, &u); err != nil {
				return err
			}
			delete(u, "status")
			for _, f := range []string{"generation", "resourceVersion", "managedFields"} {
				unstructured.RemoveNestedField(u, "metadata", f)
			}
			name, _, _ := unstructured.NestedString(u, "metadata", "name")
			out[fmt.Sprintf("%T %s", o, name)] = u
			return nil
		})).To(Succeed())
	}
	return out
}

// plan creates one from YAML.
func (d *dormitory) plan(ctx context.Context, text string) *hibernator.HibernatePlan {
	GinkgoHelper()
	p := &hibernator.HibernatePlan{}
	Expect(yaml.UnmarshalStrict([]byte(strings.ReplaceAll(text, "NAMESPACE", d.namespace)), p)).To(Succeed())
	p.Namespace = d.namespace
	Expect(d.client.Create(ctx, p)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(d.client.Delete(ctx, p.DeepCopy()))).To(Succeed())
		Eventually(func() error { return d.client.Get(ctx, client.ObjectKeyFromObject(p), &hibernator.HibernatePlan{}) }).WithTimeout(time.Minute).WithPolling(glances(p)).ShouldNot(Succeed())
	})
	return p
}

func (d *dormitory) get(ctx context.Context, p *hibernator.HibernatePlan) *hibernator.HibernatePlan {
	GinkgoHelper()
	now := &hibernator.HibernatePlan{}
	Expect(d.client.Get(ctx, client.ObjectKeyFromObject(p), now)).To(Succeed())
	return now
}

// wants overrides the schedule.
func (d *dormitory) wants(ctx context.Context, p *hibernator.HibernatePlan, state hibernator.OverrideState) {
	GinkgoHelper()
	patch := fmt.Sprintf(`{"spec": {"override": {"state": %q}}}`, state)
	Expect(d.client.Patch(ctx, p.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

// retried is the plan of a single target that waits for so long that pods are gone, and is tried again three times, with other
// replacements.
func retried(timeout string, replacements ...string) string {
	return strings.NewReplacer(append(replacements, "retries: 1", "retries: 3", "[NAMESPACE]}", "[NAMESPACE]}, awaitCompletion: {enabled: true, timeout: "+timeout+"}")...).Replace(single)
}

// glances is how often one looks at what takes seconds: to read a plan costs the API server and the test more than
// anything that happens in it, the more the larger it is.
func glances(p *hibernator.HibernatePlan) time.Duration {
	if len(p.Spec.Targets) > 100 {
		return time.Second
	}
	return 200 * time.Millisecond
}

func (d *dormitory) comesTo(ctx context.Context, p *hibernator.HibernatePlan, phase hibernator.Phase, within time.Duration) *hibernator.HibernatePlan {
	GinkgoHelper()
	var now *hibernator.HibernatePlan
	Eventually(func(g Gomega) {
		now = d.get(ctx, p)
		g.Expect(now.Status.Phase).To(Equal(phase), func() string { return fmt.Sprintf("%+v", now.Status) })
		g.Expect(now.Status.ObservedGeneration).To(Equal(now.Generation))
	}).WithTimeout(within).WithPolling(glances(p)).Should(Succeed())
	return now
}

// hurry waits for a phase, and lets what has failed be tried again at once: the waits between attempts are of minutes. For
// make hibernate-crash it only waits: all comes back within the retries of the plan.
func (d *dormitory) hurry(ctx context.Context, p *hibernator.HibernatePlan, phase hibernator.Phase) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		now := d.get(ctx, p)
		if !*whole && now.Status.Phase != phase && slices.ContainsFunc(now.Status.Executions, func(e hibernator.ExecutionStatus) bool {
			return e.State == hibernator.ExecutionFailed || e.State == hibernator.ExecutionPending && e.Attempts > e.Forgiven
		}) {
			now.Annotations = map[string]string{hibernator.AnnotationRetryNow: time.Now().String()}
			_ = d.client.Update(ctx, now) // or the next time
		}
		g.Expect(now.Status.Phase).To(Equal(phase), fmt.Sprintf("%+v", now.Status.Executions))
	}).WithTimeout(2*time.Minute + time.Duration(*rounds)*5*time.Second).WithPolling(500 * time.Millisecond).Should(Succeed())
}

// nothingLeft checks that of a plan nothing is left in the manager's namespace, nor of what its runners were granted, but while it is
// there for the Roles of its targets, which nobody is bound to.
func (d *dormitory) nothingLeft(ctx context.Context, p *hibernator.HibernatePlan) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		of := client.MatchingLabels{hibernator.LabelUID: string(p.UID)}
		for _, list := range []client.ObjectList{&batchv1.JobList{}, &corev1.ServiceAccountList{}, &corev1.SecretList{}, &rbacv1.RoleBindingList{}, &rbacv1.ClusterRoleBindingList{}, &appsv1.ControllerRevisionList{}} {
			g.Expect(d.client.List(ctx, list, of)).To(Succeed())
			g.Expect(meta.LenList(list)).To(BeZero(), "%T", list)
		}
		d.unbound(ctx, g, p)
		for _, kind := range []string{"ConfigMapList", "SecretList"} { // restore points, and the credentials beside them
			points := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: kind}}
			g.Expect(d.client.List(ctx, points, client.HasLabels{"hibernator.ardikabs.com/restore-point"}, client.InNamespace(managerNamespace))).To(Succeed())
			for _, point := range points.Items {
				g.Expect(point.Annotations[hibernator.AnnotationOwner]).NotTo(Equal(client.ObjectKeyFromObject(p).String()), kind)
			}
		}
	}).WithPolling(glances(p)).Should(Succeed())
}

// unbound checks the Roles of a plan: of its own targets, while it is there, and nobody's.
func (d *dormitory) unbound(ctx context.Context, g Gomega, p *hibernator.HibernatePlan) {
	now, roles, bindings := &hibernator.HibernatePlan{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}
	g.Expect(client.IgnoreNotFound(d.client.Get(ctx, client.ObjectKeyFromObject(p), now))).To(Succeed())
	if now.UID != p.UID {
		now.Spec.Targets = nil
	}
	g.Expect(d.client.List(ctx, roles, client.MatchingLabels{hibernator.LabelUID: string(p.UID)})).To(Succeed())
	g.Expect(d.client.List(ctx, bindings, client.InNamespace(managerNamespace))).To(Succeed())
	for _, role := range roles.Items {
		g.Expect(now.Spec.Targets).To(ContainElement(HaveField("Name", role.Labels[hibernator.LabelTarget])), role.Name)
		g.Expect(bindings.Items).NotTo(ContainElement(HaveField("RoleRef.Name", role.Name)))
	}
}

const dag = `
metadata: {name: night}
spec:
  schedule: {timezone: Europe/Berlin, offHours: [{start: "03:00", end: "03:01", daysOfWeek: [SUN]}]}
  execution:
    strategy:
      type: DAG
      dependencies: [{from: front, to: back}]
  behavior: {retries: 5}
  targets:
  - name: front
    type: workloadscaler
    parameters: {includedGroups: [Deployment, StatefulSet, CronJob], namespace: {literals: [NAMESPACE]}, workloadSelector: {matchLabels: {tier: front}}}
  - name: back
    type: workloadscaler
    parameters: {includedGroups: [Deployment, StatefulSet, CronJob], namespace: {literals: [NAMESPACE]}, workloadSelector: {matchLabels: {tier: back}}}
`

// single is a plan of which one runner does everything.
const single = `
metadata: {name: whole}
spec:
  schedule: {timezone: Europe/Berlin, offHours: [{start: "03:00", end: "03:01", daysOfWeek: [SUN]}]}
  execution: {strategy: {type: Sequential}}
  behavior: {retries: 1}
  targets:
  - name: all
    type: workloadscaler
    parameters: {includedGroups: [Deployment, StatefulSet, CronJob], namespace: {literals: [NAMESPACE]}}
`

// whole is for make hibernate-crash: each kill takes a retry, which begins after ten seconds.
var whole = flag.Bool("hibernation.whole", false, "kill a runner after each of its writes, and not only after one in the middle, and let nobody but the plan try again")

// executioner kills a runner after one of its writes has been done, before the runner knows. It stands in front of the API
// servers that runners write to.
type executioner struct {
	mu     sync.Mutex
	victim *os.Process
	// left are the writes until it is killed; 0 is never again.
	left int
	// last is what it was killed after.
	last string
	// instead of being killed a runner suffers this; nil is that it is.
	instead func() error
}

// before is how runners are to reach a cluster.
func (e *executioner) before(l *lab) *clientcmdapi.Cluster {
	GinkgoHelper()
	target, err := url.Parse(l.Config().Host)
	Expect(err).NotTo(HaveOccurred())
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(l.Config())) // whom requests are from their tokens say
	Expect(err).NotTo(HaveOccurred())
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: transport, ErrorLog: log.New(io.Discard, "", 0), // who is killed does not wait for answers
		ModifyResponse: func(r *http.Response) error {
			// Reviews change nothing, and the manager asks another cluster for some.
			if r.Request.Method != http.MethodGet && r.StatusCode < 300 && !strings.HasPrefix(r.Request.URL.Path, "/apis/authentication.k8s.io/") {
				e.done(r.Request)
			}
			return nil
		},
	}
	server := httptest.NewTLSServer(proxy) // no client shows a token to anything else
	DeferCleanup(server.Close)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return &clientcmdapi.Cluster{Server: server.URL, CertificateAuthorityData: certificate}
}

// meets takes in that a runner has begun.
func (e *executioner) meets(_ *corev1.Pod, process *os.Process) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.victim = process
}

// aims has the next runner be killed after so many writes.
func (e *executioner) aims(writes int) { e.strikes(writes, nil) }

// strikes has the next runner suffer something after so many writes; nil is to be killed.
func (e *executioner) strikes(writes int, instead func() error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.victim, e.left, e.last, e.instead = nil, writes, "", instead
}

// done takes in a write. It kills at once, so that nothing of it is answered.
func (e *executioner) done(write *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.left--; e.left != 0 {
		return
	}
	strike := e.victim.Kill
	if e.instead != nil {
		strike = e.instead
	}
	if strike() == nil { // or it has ended before
		e.last = write.Method + " " + write.URL.Path
	}
	if e.instead == nil {
		time.Sleep(20 * time.Millisecond)
	}
}

// hit is what one was killed after, empty if none was, and has none be killed any more.
func (e *executioner) hit() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.left = -1
	return e.last
}

// survives has a plan with one target sleep and wake while its runner is killed after one of its writes: for make hibernate-crash
// after each. It returns how many were killed.
func (d *dormitory) survives(ctx context.Context, p *hibernator.HibernatePlan, executioner *executioner) (kills int) {
	GinkgoHelper()
	for _, way := range []struct {
		state, back     hibernator.OverrideState
		towards, undone hibernator.Phase
	}{
		{hibernator.OverrideHibernated, hibernator.OverrideAwake, hibernator.PhaseHibernated, hibernator.PhaseActive},
		{hibernator.OverrideAwake, hibernator.OverrideHibernated, hibernator.PhaseActive, hibernator.PhaseHibernated},
	} {
		if way.state == hibernator.OverrideAwake {
			d.wants(ctx, p, way.back)
			d.comesTo(ctx, p, way.undone, 40*time.Second)
		}
		for k := 1; *whole || kills == 0 || way.state == hibernator.OverrideAwake && kills == 1; k++ {
			if !*whole {
				k = 5
			}
			executioner.aims(k)
			d.wants(ctx, p, way.state)
			now := d.comesTo(ctx, p, way.towards, time.Minute)
			after := executioner.hit()
			By(fmt.Sprintf("%s: write %d, %s", way.state, k, after))
			if after == "" {
				break // it makes fewer
			}
			kills++
			if way.state == hibernator.OverrideHibernated {
				attempts := Equal(int32(2))
				if strings.Contains(after, "/configmaps/restore-") { // it may have said that it has come to its end
					attempts = Or(attempts, Equal(int32(1)))
				}
				Expect(now.Status.Executions[0].Attempts).To(attempts, "write %d of %s, %s", k, way.state, after)
			} else {
				Expect(d.snapshot(ctx)).To(Equal(d.before), "killed after write %d", k)
			}
			d.wants(ctx, p, way.back)
			d.comesTo(ctx, p, way.undone, 40*time.Second)
			if way.back == hibernator.OverrideAwake {
				Expect(d.snapshot(ctx)).To(Equal(d.before), "killed after write %d", k)
			}
		}
	}
	Expect(kills).To(BeNumerically(">=", 2))
	d.wants(ctx, p, hibernator.OverrideAwake)
	d.comesTo(ctx, p, hibernator.PhaseActive, 40*time.Second)
	Expect(d.snapshot(ctx)).To(Equal(d.before))
	d.nothingLeft(ctx, p)
	return kills
}

// takesAway deletes what gives the runner of the only target of a plan a right, and waits until the server knows that.
func (d *dormitory) takesAway(ctx context.Context, p *hibernator.HibernatePlan, what client.Object, right authorizationv1.ResourceAttributes) error {
	now := &hibernator.HibernatePlan{}
	if err := d.client.Get(ctx, client.ObjectKeyFromObject(p), now); err != nil {
		return err
	}
	if right.Resource == "configmaps" {
		_, right.Name, _ = strings.Cut(now.Status.Executions[0].RestoreConfigMapRef, "/")
	}
	user := "system:serviceaccount:" + strings.Replace(now.Status.Executions[0].JobRef, "/", ":", 1)
	may := func() (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &right}}
		err := d.client.Create(ctx, review)
		return review.Status.Allowed, err
	}
	if allowed, err := may(); err != nil {
		return err
	} else if !allowed {
		return fmt.Errorf("%s may not %s %s from the beginning", user, right.Verb, right.Resource)
	}
	if err := d.client.DeleteAllOf(ctx, what, client.InNamespace(right.Namespace), client.MatchingLabels{hibernator.LabelUID: string(p.UID)}); err != nil {
		return err
	}
	for {
		if allowed, err := may(); err != nil || !allowed {
			return err
		}
	}
}

var _ = Describe("A HibernatePlan", Ordered, ContinueOnFailure, early, func() {
	BeforeAll(startNode)

	It("puts workloads to sleep and wakes them as they were", func(ctx SpecContext) {
		startRunners(ctx, nil)
		d := newDormitory(ctx)
		d.fill(ctx, 5)
		p := d.plan(ctx, dag)
		now := d.comesTo(ctx, p, hibernator.PhaseActive, 10*time.Second)
		Expect(now.Status.NextTransition).NotTo(BeNil())
		Expect(d.snapshot(ctx)).To(Equal(d.before))

		d.wants(ctx, p, hibernator.OverrideHibernated)
		now = d.comesTo(ctx, p, hibernator.PhaseHibernated, 40*time.Second)
		Expect(meta.IsStatusConditionTrue(now.Status.Conditions, hibernator.ConditionHibernated)).To(BeTrue())
		Expect(meta.IsStatusConditionTrue(now.Status.Conditions, hibernator.ConditionRestorePointSaved)).To(BeTrue())
		var pods corev1.PodList
		Eventually(func(g Gomega) {
			g.Expect(d.client.List(ctx, &pods, client.InNamespace(d.namespace))).To(Succeed())
			g.Expect(pods.Items).To(BeEmpty())
		}).Should(Succeed())
		front, back := now.Status.Executions[0], now.Status.Executions[1]
		Expect(back.StartedAt.Time).NotTo(BeTemporally("<", front.FinishedAt.Time), "what uses the other stops first")
		for _, e := range now.Status.Executions {
			Expect(e.Attempts).To(BeEquivalentTo(1))
			Expect(e.LogsRef).To(HavePrefix("configmap://"+managerNamespace+"/"), "the log is kept")
			Expect(e.RestoreRef).To(HavePrefix("configmap://" + managerNamespace + "/"))
			Expect(hub.Requests()).To(ContainElement(And(
				HaveField("User", "system:serviceaccount:"+strings.Replace(e.JobRef, "/", ":", 1)), HaveField("Namespace", d.namespace), HaveField("Verb", Not(Or(Equal("get"), Equal("list")))),
			)), "what was done to the target is told by the audit log as its Job's")
		}

		d.wants(ctx, p, hibernator.OverrideAwake)
		now = d.comesTo(ctx, p, hibernator.PhaseActive, 40*time.Second)
		Expect(d.snapshot(ctx)).To(Equal(d.before))
		Expect(now.Status.History).To(HaveLen(1))
		d.nothingLeft(ctx, p)
		for _, r := range hub.requests(p.CreationTimestamp.Time, time.Now()) {
			Expect(r.Code).NotTo(Equal(403), "%+v", r)
		}
	})

	It("brings workloads back whatever kills runners and the manager", Label("crash"), long, func(ctx SpecContext) {
		var begun, killed atomic.Int32
		random := rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), 1))
		var mu sync.Mutex
		startRunners(ctx, func(_ *corev1.Pod, process *os.Process) {
			mu.Lock()
			defer mu.Unlock()
			begun.Add(1)
			if lives := random.IntN(3); lives == 0 || lives == 1 && !*whole { // two of three end somewhere, or one where nobody helps
				time.AfterFunc(time.Duration(random.IntN(100+20**rounds))*time.Millisecond, func() {
					if process.Kill() == nil { // or it has ended before
						killed.Add(1)
					}
				})
			}
		})
		d := newDormitory(ctx)
		d.fill(ctx, *rounds)
		targets := min(*rounds, groups)
		p := &hibernator.HibernatePlan{}
		Expect(yaml.UnmarshalStrict([]byte(dag), p)).To(Succeed())
		p.Spec.Execution.Strategy = hibernator.Strategy{Type: hibernator.StrategyParallel, MaxConcurrency: ptr.To[int32](4)}
		p.Spec.Behavior.Retries, p.Spec.Targets = ptr.To[int32](10), nil
		for i := range targets {
			p.Spec.Targets = append(p.Spec.Targets, hibernator.Target{Name: fmt.Sprintf("g%d", i), Type: "workloadscaler", Parameters: &apiextensionsv1.JSON{Raw: fmt.Appendf(nil,
				`{"includedGroups": ["Deployment", "StatefulSet", "CronJob"], "namespace": {"literals": [%q]}, "workloadSelector": {"matchLabels": {"group": "g%d"}}}`, d.namespace, i)}})
		}
		text, err := yaml.Marshal(p)
		Expect(err).NotTo(HaveOccurred())
		p = d.plan(ctx, string(text))
		d.comesTo(ctx, p, hibernator.PhaseActive, 10*time.Second)

		from := time.Now()
		for _, way := range []struct {
			state           hibernator.OverrideState
			during, towards hibernator.Phase
		}{
			{hibernator.OverrideHibernated, hibernator.PhaseHibernating, hibernator.PhaseHibernated},
			{hibernator.OverrideAwake, hibernator.PhaseWakingUp, hibernator.PhaseActive},
		} {
			d.wants(ctx, p, way.state)
			d.comesTo(ctx, p, way.during, 10*time.Second)
			shared.kill()
			shared = hub.launchManager("manager", sharedArgs()...)
			d.hurry(ctx, p, way.towards)
		}
		Expect(d.snapshot(ctx)).To(Equal(d.before))
		d.nothingLeft(ctx, p)
		Expect(killed.Load()).To(BeNumerically(">", 0))
		GinkgoWriter.Printf("%d workloads, %d runners, %d of them killed, the manager twice: all as before after %s\n", len(d.before), begun.Load(), killed.Load(), time.Since(from).Round(time.Second))
	})

	It("brings workloads back whichever write a runner is killed after", Label("crash"), long, func(ctx SpecContext) {
		executioner := &executioner{}
		startRunnersBehind(ctx, executioner.before(hub), executioner.meets)
		d := newDormitory(ctx)
		d.fill(ctx, 5)
		p := d.plan(ctx, strings.Replace(single, "NAMESPACE", d.namespace, 1))
		d.comesTo(ctx, p, hibernator.PhaseActive, 10*time.Second)
		from := time.Now()
		kills := d.survives(ctx, p, executioner)
		GinkgoWriter.Printf("%d workloads, %d runners killed, each after another write, and tried again by themselves: all as before after %s\n",
			len(d.before), kills, time.Since(from).Round(time.Second))
	})

	It("tries again what has lost its rights in the middle", long, func(ctx SpecContext) {
		executioner := &executioner{}
		startRunnersBehind(ctx, executioner.before(hub), executioner.meets)
		d := newDormitory(ctx)
		d.fill(ctx, 5)
		p := d.plan(ctx, strings.Replace(single, "NAMESPACE", d.namespace, 1))
		d.comesTo(ctx, p, hibernator.PhaseActive, 10*time.Second)
		inTarget := authorizationv1.ResourceAttributes{Namespace: d.namespace, Verb: "update", Group: "apps", Resource: "deployments", Subresource: "scale"}
		ofPoint := authorizationv1.ResourceAttributes{Namespace: managerNamespace, Verb: "update", Resource: "configmaps"}
		for _, act := range []struct {
			state hibernator.OverrideState
			phase hibernator.Phase
			gone  client.Object
			right authorizationv1.ResourceAttributes
		}{
			{hibernator.OverrideHibernated, hibernator.PhaseHibernated, &rbacv1.RoleBinding{}, inTarget},
			{hibernator.OverrideAwake, hibernator.PhaseActive, &rbacv1.Role{}, ofPoint},
			{hibernator.OverrideHibernated, hibernator.PhaseHibernated, &rbacv1.RoleBinding{}, ofPoint},
			{hibernator.OverrideAwake, hibernator.PhaseActive, &rbacv1.RoleBinding{}, inTarget},
		} {
			// Some is done by then, and some is not.
			executioner.strikes(3, func() error { return d.takesAway(ctx, p, act.gone, act.right) })
			d.wants(ctx, p, act.state)
			what := fmt.Sprintf("%s without its %T in %s", act.state, act.gone, act.right.Namespace)
			d.hurry(ctx, p, act.phase)
			Expect(executioner.hit()).NotTo(BeEmpty(), what)
			Expect(d.get(ctx, p).Status.Executions).To(HaveExactElements(And(
				HaveField("Attempts", BeEquivalentTo(2)), HaveField("State", hibernator.ExecutionCompleted), HaveField("Left", BeZero()),
			)), what)
		}
		Expect(d.snapshot(ctx)).To(Equal(d.before))
		d.nothingLeft(ctx, p)
	})

	It("wakes what sleeps before it goes, and by the restore points of one that was left", long, func(ctx SpecContext) {
		startRunners(ctx, nil)
		d := newDormitory(ctx)
		d.fill(ctx, 2)
		leave := strings.Replace(dag, "spec:\n", "spec:\n  deletionPolicy: Leave\n  override: {state: Hibernated}\n", 1)
		p := d.plan(ctx, leave)
		d.comesTo(ctx, p, hibernator.PhaseHibernated, 40*time.Second)
		Expect(d.client.Delete(ctx, p.DeepCopy())).To(Succeed())
		Eventually(func() error { return d.client.Get(ctx, client.ObjectKeyFromObject(p), &hibernator.HibernatePlan{}) }).WithPolling(glances(p)).ShouldNot(Succeed())
		Expect(d.snapshot(ctx)).NotTo(Equal(d.before))

		again := d.plan(ctx, dag)
		Eventually(func(g Gomega) { g.Expect(d.snapshot(ctx)).To(Equal(d.before)) }).WithTimeout(40 * time.Second).WithPolling(glances(again)).Should(Succeed())
		d.wants(ctx, again, hibernator.OverrideHibernated)
		d.comesTo(ctx, again, hibernator.PhaseHibernated, 40*time.Second)
		Expect(d.client.Delete(ctx, again.DeepCopy())).To(Succeed())
		Eventually(func() error { return d.client.Get(ctx, client.ObjectKeyFromObject(again), &hibernator.HibernatePlan{}) }).WithTimeout(40 * time.Second).WithPolling(glances(again)).ShouldNot(Succeed())
		Expect(d.snapshot(ctx)).To(Equal(d.before))
		d.nothingLeft(ctx, again)
	})

	It("wakes as it was what somebody has woken that a former plan had left asleep", long, func(ctx SpecContext) {
		startRunners(ctx, nil)
		d := newDormitory(ctx)
		d.fill(ctx, 2)
		asleep := strings.Replace(dag, "spec:\n", "spec:\n  deletionPolicy: Leave\n  override: {state: Hibernated}\n", 1)
		p := d.plan(ctx, asleep)
		d.comesTo(ctx, p, hibernator.PhaseHibernated, 40*time.Second)
		Expect(d.client.Delete(ctx, p.DeepCopy())).To(Succeed())
		Eventually(func() error { return d.client.Get(ctx, client.ObjectKeyFromObject(p), &hibernator.HibernatePlan{}) }).WithPolling(glances(p)).ShouldNot(Succeed())
		web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: "web-0"}}
		Expect(d.client.Patch(ctx, web, client.RawPatch(types.MergePatchType, []byte(`{"spec": {"replicas": 4}}`)))).To(Succeed())
		d.before["*v1.Deployment web-0"].(map[string]any)["spec"].(map[string]any)["replicas"] = float64(4)

		again := d.plan(ctx, asleep)
		d.comesTo(ctx, again, hibernator.PhaseHibernated, 40*time.Second)
		d.wants(ctx, again, hibernator.OverrideAwake)
		now := d.comesTo(ctx, again, hibernator.PhaseActive, 40*time.Second)
		Expect(meta.FindStatusCondition(now.Status.Conditions, hibernator.ConditionDegraded).Message).To(Equal("No target has failed"))
		Expect(d.snapshot(ctx)).To(Equal(d.before))
	})

	It("wakes what there still is when a namespace goes overnight, and goes with its own", long, func(ctx SpecContext) {
		startRunners(ctx, nil)
		d, other := newDormitory(ctx), newDormitory(ctx)
		d.fill(ctx, 1)
		other.fill(ctx, 1)
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: other.namespace}}
		Expect(d.client.Patch(ctx, namespace, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata": {"annotations": {%q: %q}}}`, hibernator.AnnotationAllowedNamespaces, d.namespace)))).To(Succeed())
		p := d.plan(ctx, strings.Replace(dag, "literals: [NAMESPACE]", "literals: [NAMESPACE, "+other.namespace+"]", 1))
		d.wants(ctx, p, hibernator.OverrideHibernated)
		now := d.comesTo(ctx, p, hibernator.PhaseHibernated, 40*time.Second)
		Expect(now.Status.Executions[0].Namespaces).To(ConsistOf(d.namespace, other.namespace))
		Expect(d.client.Delete(ctx, namespace.DeepCopy())).To(Succeed())

		d.wants(ctx, p, hibernator.OverrideAwake)
		// What it names is gone then or on its way, and a plan that names what is not there waits for it.
		Eventually(func(g Gomega) {
			now = d.get(ctx, p)
			if now.Status.Phase == hibernator.PhasePending {
				scheduled := meta.FindStatusCondition(now.Status.Conditions, hibernator.ConditionScheduled)
				g.Expect(scheduled.Reason).To(Equal(hibernator.ReasonNotGranted))
				g.Expect(scheduled.Message).To(ContainSubstring(other.namespace))
			} else {
				g.Expect(now.Status.Phase).To(Equal(hibernator.PhaseActive), fmt.Sprintf("%+v", now.Status))
			}
			g.Expect(now.Status.CurrentCycle).To(BeNil())
			g.Expect(now.Status.ObservedGeneration).To(Equal(now.Generation))
		}).WithTimeout(40 * time.Second).WithPolling(glances(p)).Should(Succeed())
		Expect(d.snapshot(ctx)).To(Equal(d.before))
		c := meta.FindStatusCondition(now.Status.Conditions, hibernator.ConditionDegraded)
		Expect(c.Reason).To(Equal(hibernator.ReasonLeftAsFound))
		Expect(c.Message).To(ContainSubstring(other.namespace))
		d.nothingLeft(ctx, p)

		own := newDormitory(ctx)
		own.fill(ctx, 1)
		q := own.plan(ctx, dag)
		own.wants(ctx, q, hibernator.OverrideHibernated)
		own.comesTo(ctx, q, hibernator.PhaseHibernated, 40*time.Second)
		Expect(d.client.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: own.namespace}})).To(Succeed())
		Eventually(func() error { return d.client.Get(ctx, client.ObjectKeyFromObject(q), &hibernator.HibernatePlan{}) }).WithTimeout(40 * time.Second).WithPolling(glances(q)).ShouldNot(Succeed())
		own.nothingLeft(ctx, q)
	})

	It("wakes what another plan has found asleep, and the other what it has woken", long, func(ctx SpecContext) {
		startRunners(ctx, nil)
		d := newDormitory(ctx)
		letGo := d.slow(ctx)
		d.fill(ctx, 2)
		early := d.plan(ctx, dag)
		late := d.plan(ctx, retried("15s", "name: whole", "name: late"))
		quiet := func(p *hibernator.HibernatePlan) {
			GinkgoHelper()
			Expect(meta.FindStatusCondition(p.Status.Conditions, hibernator.ConditionDegraded).Message).To(Equal("No target has failed"))
		}

		By("waking between two attempts of the other, which have found everything asleep")
		d.wants(ctx, early, hibernator.OverrideHibernated)
		d.comesTo(ctx, early, hibernator.PhaseHibernated, 40*time.Second)
		d.wants(ctx, late, hibernator.OverrideHibernated)
		db := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: "slow"}}
		Eventually(func(g Gomega) { // it waits for the pod of that
			g.Expect(d.client.Get(ctx, client.ObjectKeyFromObject(db), db)).To(Succeed())
			g.Expect(*db.Spec.Replicas).To(BeZero())
		}).WithTimeout(40 * time.Second).Should(Succeed())
		d.wants(ctx, early, hibernator.OverrideAwake)
		quiet(d.comesTo(ctx, early, hibernator.PhaseActive, 40*time.Second))
		tried := d.get(ctx, late).Status.Executions[0].Attempts
		Eventually(func() []hibernator.ExecutionStatus { return d.get(ctx, late).Status.Executions }).WithTimeout(90 * time.Second).WithPolling(glances(late)).
			Should(ConsistOf(HaveField("Attempts", BeNumerically(">", tried))))
		letGo(ctx)
		now := d.comesTo(ctx, late, hibernator.PhaseHibernated, time.Minute)
		Expect(now.Status.Executions[0].Attempts).To(BeNumerically(">", 1))
		var webs appsv1.DeploymentList
		Expect(d.client.List(ctx, &webs, client.InNamespace(d.namespace))).To(Succeed())
		Expect(webs.Items).To(HaveEach(HaveField("Spec.Replicas", HaveValue(BeZero()))))

		By("sleeping as well, and waking first: it leaves what it has found asleep")
		d.wants(ctx, early, hibernator.OverrideHibernated)
		d.comesTo(ctx, early, hibernator.PhaseHibernated, 40*time.Second)
		asleep := d.snapshot(ctx)
		d.wants(ctx, early, hibernator.OverrideAwake)
		quiet(d.comesTo(ctx, early, hibernator.PhaseActive, 40*time.Second))
		Expect(d.snapshot(ctx)).To(Equal(asleep))

		By("waking last: it leaves what is awake by then, and tells of it")
		d.wants(ctx, early, hibernator.OverrideHibernated)
		d.comesTo(ctx, early, hibernator.PhaseHibernated, 40*time.Second)
		d.wants(ctx, late, hibernator.OverrideAwake)
		quiet(d.comesTo(ctx, late, hibernator.PhaseActive, time.Minute))
		Expect(d.snapshot(ctx)).To(Equal(d.before))
		d.wants(ctx, early, hibernator.OverrideAwake)
		now = d.comesTo(ctx, early, hibernator.PhaseActive, 40*time.Second)
		told := meta.FindStatusCondition(now.Status.Conditions, hibernator.ConditionDegraded)
		Expect(told.Reason).To(Equal(hibernator.ReasonLeftAsFound))
		Expect(told.Message).To(ContainSubstring("web-"))
		Expect(d.snapshot(ctx)).To(Equal(d.before))
		d.nothingLeft(ctx, early)
		d.nothingLeft(ctx, late)
	})

	It("turns around for an exception between two attempts, and is edited while it sleeps", long, func(ctx SpecContext) {
		startRunners(ctx, nil)
		d := newDormitory(ctx)
		letGo := d.slow(ctx)
		d.fill(ctx, 2)
		const always = `{start: "00:00", end: "24:00", daysOfWeek: [MON, TUE, WED, THU, FRI, SAT, SUN]}`
		p := d.plan(ctx, retried("2s", `{start: "03:00", end: "03:01", daysOfWeek: [SUN]}`, always))

		By("an exception while it waits to be tried again")
		Eventually(func() []hibernator.ExecutionStatus { return d.get(ctx, p).Status.Executions }).WithTimeout(40 * time.Second).WithPolling(glances(p)).
			Should(ConsistOf(And(HaveField("State", hibernator.ExecutionPending), HaveField("Attempts", BeNumerically(">", 0)))))
		party := &hibernator.ScheduleException{}
		Expect(yaml.UnmarshalStrict([]byte(`spec: {planRef: {name: whole}, type: suspend, validFrom: "2020-01-01T00:00:00Z", validUntil: "2120-01-01T00:00:00Z", windows: [`+always+`]}`), party)).To(Succeed())
		party.Namespace, party.Name = d.namespace, "party"
		Expect(d.client.Create(ctx, party)).To(Succeed())
		letGo(ctx)
		now := d.comesTo(ctx, p, hibernator.PhaseActive, time.Minute)
		Expect(meta.FindStatusCondition(now.Status.Conditions, hibernator.ConditionDegraded).Message).To(Equal("No target has failed"))
		Expect(d.snapshot(ctx)).To(Equal(d.before))

		By("sleeping without it, while targets are taken out and added")
		Expect(d.client.Delete(ctx, party)).To(Succeed())
		d.comesTo(ctx, p, hibernator.PhaseHibernated, time.Minute)
		asleep := d.snapshot(ctx)
		edit := func(targets string) {
			GinkgoHelper()
			raw, err := yaml.YAMLToJSON([]byte(strings.ReplaceAll("spec: {targets: ["+targets+"]}", "NAMESPACE", d.namespace)))
			Expect(err).NotTo(HaveOccurred())
			Expect(d.client.Patch(ctx, p.DeepCopy(), client.RawPatch(types.MergePatchType, raw))).To(Succeed())
		}
		const of = `type: workloadscaler, parameters: {includedGroups: [KIND], namespace: {literals: [NAMESPACE]}}}`
		sets := "{name: sets, " + strings.Replace(of, "KIND", "StatefulSet", 1)
		edit(`{name: all, type: workloadscaler, parameters: {includedGroups: [CronJob], namespace: {literals: [NAMESPACE]}}}, ` + sets)
		d.comesTo(ctx, p, hibernator.PhaseHibernated, 40*time.Second)
		Consistently(func() map[string]any { return d.snapshot(ctx) }).WithTimeout(3*time.Second).Should(Equal(asleep), "what sleeps sleeps as it was put to sleep, and what is new wakes nothing")
		edit(sets) // alone: what sleeps is taken out, which is woken before the new one sleeps
		Eventually(func(g Gomega) {
			now := d.get(ctx, p)
			g.Expect(now.Status.Phase).To(Equal(hibernator.PhaseHibernated))
			g.Expect(now.Status.Executions).To(ConsistOf(HaveField("Target", "sets")))
		}).WithTimeout(time.Minute).WithPolling(glances(p)).Should(Succeed())
		for what, was := range d.before {
			if !strings.Contains(what, "StatefulSet") {
				Expect(d.snapshot(ctx)).To(HaveKeyWithValue(what, was))
			}
		}
		d.wants(ctx, p, hibernator.OverrideAwake)
		d.comesTo(ctx, p, hibernator.PhaseActive, time.Minute)
		Expect(d.snapshot(ctx)).To(Equal(d.before))
		d.nothingLeft(ctx, p)
	})

	It("stops a runner that waits in the evening for what does not go, and wakes what it has put to sleep", long, func(ctx SpecContext) {
		startRunners(ctx, nil)
		d := newDormitory(ctx)
		letGo := d.slow(ctx)
		d.fill(ctx, 2)
		p := d.plan(ctx, retried("20m", "spec:\n", "spec:\n  override: {state: Hibernated}\n"))
		attempt := func() hibernator.ExecutionStatus {
			all := d.get(ctx, p).Status.Executions
			if len(all) == 0 {
				return hibernator.ExecutionStatus{}
			}
			return all[0]
		}
		web := &appsv1.Deployment{}
		Eventually(func(g Gomega) {
			g.Expect(attempt()).To(HaveField("State", hibernator.ExecutionRunning))
			g.Expect(d.client.Get(ctx, client.ObjectKey{Namespace: d.namespace, Name: "web-1"}, web)).To(Succeed())
			g.Expect(web.Spec.Replicas).To(HaveValue(BeZero()))
		}).WithTimeout(40 * time.Second).WithPolling(glances(p)).Should(Succeed())
		d.wants(ctx, p, hibernator.OverrideAwake)
		Consistently(attempt).WithTimeout(3 * time.Second).WithPolling(glances(p)).Should(HaveField("Operation", hibernator.OperationShutdown))
		Eventually(attempt).WithTimeout(90 * time.Second).WithPolling(glances(p)).Should(HaveField("Operation", hibernator.OperationWakeUp))
		letGo(ctx)
		now := d.comesTo(ctx, p, hibernator.PhaseActive, 40*time.Second)
		Expect(now.Status.History).To(ConsistOf(HaveField("Message", ContainSubstring("Failed to be put to sleep: all"))))
		Expect(d.snapshot(ctx)).To(Equal(d.before))
		Expect(d.kubectl(ctx, "-n", d.namespace, "get", "events", "-o", "jsonpath={range .items[*]}{.message}{\"\\n\"}{end}")).To(ContainSubstring("Attempt 1 at Shutdown of target all is stopped"))
		d.nothingLeft(ctx, p)
	})

	It("puts the first of 10,000 targets to sleep and wakes them", long, func(ctx SpecContext) {
		startRunners(ctx, nil)
		d := newDormitory(ctx)
		var text strings.Builder
		text.WriteString("metadata: {name: large}\nspec:\n  schedule: {timezone: UTC, offHours: [{start: \"03:00\", end: \"03:01\", daysOfWeek: [SUN]}]}\n" +
			"  override: {state: Hibernated}\n  execution: {strategy: {type: Parallel, maxConcurrency: 2}}\n  targets:\n")
		const targets = 10_000
		for i := range targets {
			fmt.Fprintf(&text, "  - {name: target-%d, type: noop}\n", i)
		}
		p := d.plan(ctx, text.String())
		var now *hibernator.HibernatePlan
		Eventually(func(g Gomega) {
			now = d.get(ctx, p)
			g.Expect(now.Status.Ledger).NotTo(BeNil())
			g.Expect(now.Status.Ledger.Completed).To(BeNumerically(">=", 3))
		}).WithTimeout(90 * time.Second).WithPolling(glances(p)).Should(Succeed())
		Expect(now.Status.Ledger.Shards).To(HaveLen(100))
		Expect(now.Status.Executions).To(BeEmpty())
		Expect(now.Status.Ledger.Pending + now.Status.Ledger.Running + now.Status.Ledger.Completed).To(BeEquivalentTo(targets))
		Expect(now.Status.Targets).To(BeEquivalentTo(targets))

		d.wants(ctx, p, hibernator.OverrideAwake)
		now = d.comesTo(ctx, p, hibernator.PhaseActive, 90*time.Second)
		Expect(now.Status.History).To(HaveLen(1))
		Expect(now.Status.Asleep).To(BeZero())
		d.nothingLeft(ctx, p)
		Eventually(func() *hibernator.Ledger { return d.get(ctx, p).Status.Ledger }).WithPolling(glances(p)).Should(BeNil())
	})

	It("clears away after one that was forced away, and keeps what it needs to wake", long, func(ctx SpecContext) {
		startRunners(ctx, nil)
		d := newDormitory(ctx)
		const text = `
metadata: {name: nap}
spec:
  schedule: {timezone: UTC, offHours: [{start: "03:00", end: "03:01", daysOfWeek: [SUN]}]}
  execution: {strategy: {type: Parallel}}
  targets: [{name: one, type: noop, parameters: {delaySeconds: 2}}]
`
		p := d.plan(ctx, text)
		d.wants(ctx, p, hibernator.OverrideHibernated)
		of := client.MatchingLabels{hibernator.LabelUID: string(p.UID)}
		Eventually(func(g Gomega) {
			var jobs batchv1.JobList
			g.Expect(d.client.List(ctx, &jobs, of)).To(Succeed())
			g.Expect(jobs.Items).To(HaveLen(1))
		}).Should(Succeed())
		Expect(d.client.Delete(ctx, p.DeepCopy())).To(Succeed())
		Eventually(func() error {
			now := &hibernator.HibernatePlan{}
			if err := d.client.Get(ctx, client.ObjectKeyFromObject(p), now); err != nil {
				return client.IgnoreNotFound(err)
			}
			now.Finalizers = nil
			return d.client.Update(ctx, now)
		}).Should(Succeed())
		Eventually(func(g Gomega) {
			for _, list := range []client.ObjectList{&batchv1.JobList{}, &corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}} {
				g.Expect(d.client.List(ctx, list, of)).To(Succeed())
				g.Expect(meta.LenList(list)).To(BeZero(), "%T", list)
			}
		}).Should(Succeed())
		points := func() int {
			var list corev1.ConfigMapList
			Expect(d.client.List(ctx, &list, client.HasLabels{"hibernator.ardikabs.com/restore-point"}, client.InNamespace(managerNamespace))).To(Succeed())
			return len(slices.DeleteFunc(list.Items, func(c corev1.ConfigMap) bool {
				return c.Annotations[hibernator.AnnotationOwner] != client.ObjectKeyFromObject(p).String()
			}))
		}
		Expect(points()).To(Equal(1))
		again := d.plan(ctx, text)
		Eventually(points).Should(BeZero())
		d.comesTo(ctx, again, hibernator.PhaseActive, 20*time.Second)
		shared.kill()
		shared = hub.launchManager("manager", sharedArgs()...) // which looks at once for what nobody tells of
		left := &appsv1.ControllerRevisionList{}
		Expect(d.client.List(ctx, left, of)).To(Succeed())
		Expect(left.Items).NotTo(BeEmpty())
		Eventually(func(g Gomega) {
			g.Expect(d.client.List(ctx, left, of)).To(Succeed())
			g.Expect(left.Items).To(BeEmpty())
		}).WithTimeout(time.Minute).Should(Succeed())
		d.unbound(ctx, Default, again)
	})

	It("says what is wrong with a spec, and whom it may not touch", func(ctx SpecContext) {
		d, other := newDormitory(ctx), newDormitory(ctx)
		for text, words := range map[string]string{
			strings.Replace(dag, "Europe/Berlin", "Europe/Nowhere", 1):                          "Nowhere",
			strings.Replace(dag, "{from: front, to: back}", "{from: front, to: front}", 1):      "front",
			strings.Replace(dag, "workloadSelector", "workloadSelektor", 1):                     "workloadSelektor",
			strings.Replace(dag, "literals: [NAMESPACE]", "literals: ["+other.namespace+"]", 1): hibernator.AnnotationAllowedNamespaces,
		} {
			p := d.plan(ctx, strings.Replace(text, "name: night", "generateName: wrong-", 1))
			Eventually(func(g Gomega) {
				c := meta.FindStatusCondition(d.get(ctx, p).Status.Conditions, hibernator.ConditionReady)
				g.Expect(c).NotTo(BeNil())
				g.Expect(c.Status).To(Equal(metav1.ConditionFalse))
				g.Expect(c.Message).To(ContainSubstring(words))
			}).Should(Succeed())
		}
	})
})

// A manager that starts may find an object as it was a moment ago, want just what that says, and so write nothing.
var _ = Describe("What another manager has written last of an object", func() {
	DescribeTable("is put right",
		func(ctx SpecContext, kind, spec, field string) {
			d := newDormitory(ctx)
			u := &unstructured.Unstructured{}
			Expect(yaml.Unmarshal([]byte("spec: "+spec), &u.Object)).To(Succeed())
			u.SetGroupVersionKind(hibernator.GroupVersion.WithKind(kind))
			u.SetNamespace(d.namespace)
			u.SetName("any")
			Expect(d.client.Create(ctx, u)).To(Succeed())
			says := func(g Gomega) string {
				g.Expect(d.client.Get(ctx, client.ObjectKeyFromObject(u), u)).To(Succeed())
				said, _, err := unstructured.NestedString(u.Object, "status", field)
				g.Expect(err).NotTo(HaveOccurred())
				return said
			}
			Eventually(says).WithTimeout(time.Minute).ShouldNot(BeEmpty())
			right := says(Default)
			Expect(d.client.Status().Patch(ctx, u, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"status":{%q:"Active"}}`, field)))).To(Succeed())
			Eventually(says).WithTimeout(20 * time.Second).Should(Equal(right))
		},
		Entry("a ScheduleException", "ScheduleException", `{planRef: {name: none}, type: suspend, validFrom: "2020-01-01T00:00:00Z", validUntil: "2120-01-01T00:00:00Z", windows: [{startCron: "0 0 28 2 *", endCron: "1 0 28 2 *"}]}`, "state"),
		Entry("a CloudProvider", "CloudProvider", `{type: aws, aws: {accountId: "123456789012", region: eu-central-1, auth: {static: {secretRef: {name: keys}}}}}`, "message"),
	)
})
