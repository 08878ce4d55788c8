//go:build argocd

// Plans and twins of workloads that Argo CD itself deploys, and heals: make test-argocd.
package integration_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	twins "github.com/labkeeper/labkeeper/api/experimentcontroller/v1alpha1"
	hibernator "github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/test/env"
)

// healed are workloads of every kind that Argo CD brings back to what Git says of them.
func healed(name, version string) string {
	return deployment("web-"+name, "2") + fmt.Sprintf(`
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db-%[1]s}
spec:
  replicas: 1
  serviceName: db-%[1]s
  selector: {matchLabels: {app: db-%[1]s}}
  template:
    metadata: {labels: {app: db-%[1]s}}
    spec:
      nodeName: twins
      terminationGracePeriodSeconds: 0
      containers: [{name: c, image: "example/db:1"}]
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: tick-%[1]s}
spec:
  schedule: "0 0 1 1 *"
  suspend: false
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: "example/tick:1"}]}}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: version-%[1]s}
data: {version: %[2]q}
`, name, version)
}

const (
	// respecting is a syncOption, and ignoring and pointing are ways to leave alone what sleeps.
	respecting = "RespectIgnoreDifferences=true"
	ignoring   = `[{group: "*", kind: "*", managedFieldsManagers: [labkeeper-sleep]}]`
	pointing   = `[{group: apps, kind: Deployment, jsonPointers: [/spec/replicas]}, {group: apps, kind: StatefulSet, jsonPointers: [/spec/replicas]}, ` +
		`{group: batch, kind: CronJob, jsonPointers: [/spec/suspend]}]`

	healedAsleep = `
metadata: {name: night}
spec:
  schedule: {timezone: UTC, offHours: [{start: "03:00", end: "03:01", daysOfWeek: [SUN]}]}
  execution: {strategy: {type: Sequential}}
  behavior: {retries: 1}
  targets:
  - {name: all, type: workloadscaler, parameters: {includedGroups: [Deployment, StatefulSet, CronJob], namespace: {literals: [NAMESPACE]}}}
`
)

// application is one of Argo CD that deploys a folder of a repository, and heals and prunes what it has deployed.
type application struct{ name, namespace string }

// deploy creates an Application, which goes with what it has deployed at the end of a spec.
func (r *repository) deploy(ctx context.Context, folder, namespace, ignore string, options ...string) application {
	GinkgoHelper()
	a := application{name: namespace + "-" + folder, namespace: namespace}
	if ignore == "" {
		ignore = "[]"
	}
	objects, err := env.DecodeObjects(fmt.Appendf(nil, `
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: %s, namespace: argocd, finalizers: [resources-finalizer.argocd.argoproj.io]}
spec:
  project: default
  source: {repoURL: %q, path: %s, targetRevision: main}
  destination: {server: "https://kubernetes.default.svc", namespace: %s}
  ignoreDifferences: %s
  syncPolicy: {automated: {prune: true, selfHeal: true}, syncOptions: [%s]}
`, a.name, r.git, folder, namespace, ignore, strings.Join(options, ", ")))
	Expect(err).NotTo(HaveOccurred())
	Expect(hub.client.Create(ctx, objects[0])).To(Succeed())
	DeferCleanup(a.remove)
	return a
}

// remove deletes it, and waits until what it has deployed is gone, too.
func (a application) remove(ctx SpecContext) {
	GinkgoHelper()
	hub.kubectl(ctx, "-n", argoCDNamespace, "delete", "application", a.name, "--ignore-not-found", "--wait=false")
	Eventually(func() bool {
		_, err := hub.dynamic.Resource(applications).Namespace(argoCDNamespace).Get(ctx, a.name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}).Should(BeTrue())
}

func (a application) get(ctx context.Context) *unstructured.Unstructured {
	GinkgoHelper()
	u, err := hub.dynamic.Resource(applications).Namespace(argoCDNamespace).Get(ctx, a.name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return u
}

// refresh has Argo CD look at Git and compare everything anew, and waits until it has: what a branch is at it remembers for minutes.
func (a application) refresh(ctx context.Context) {
	GinkgoHelper()
	hub.kubectl(ctx, "-n", argoCDNamespace, "annotate", "application", a.name, "--overwrite", env.ArgoCDRefresh+"=hard")
	Eventually(func() map[string]string { return a.get(ctx).GetAnnotations() }).ShouldNot(HaveKey(env.ArgoCDRefresh))
}

// synced waits until Argo CD says so of what Git has now.
func (a application) synced(ctx context.Context, r *repository) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		u := a.get(ctx)
		status, _, _ := unstructured.NestedString(u.Object, "status", "sync", "status")
		revision, _, _ := unstructured.NestedString(u.Object, "status", "sync", "revision")
		health, _, _ := unstructured.NestedString(u.Object, "status", "health", "status")
		phase, _, _ := unstructured.NestedString(u.Object, "status", "operationState", "phase")
		g.Expect([]string{status, revision, health, phase}).To(Equal([]string{"Synced", r.run(ctx, "rev-parse", "HEAD"), "Healthy", "Succeeded"}), func() string { return fmt.Sprint(u.Object["status"]) })
	}).Should(Succeed())
}

// configure gives Argo CD settings for as long as a spec: those of its installation, with what a kustomization of the test makes of them.
func configure(ctx context.Context, kustomization string) {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	configuration, err := filepath.Rel(dir, filepath.Join(env.Root(), "config"))
	Expect(err).NotTo(HaveOccurred())
	for name, content := range map[string]string{
		"kustomization.yaml": "resources: [installation.yaml]\n" + strings.ReplaceAll(kustomization, "CONFIG", configuration), "installation.yaml": argoCDSettings,
	} {
		Expect(os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600)).To(Succeed())
	}
	rendered, err := exec.CommandContext(ctx, filepath.Join(env.Root(), "bin", "kustomize"), "build", dir).Output()
	Expect(err).NotTo(HaveOccurred())
	set := func(ctx context.Context, text string) {
		GinkgoHelper()
		objects, err := env.DecodeObjects([]byte(text))
		Expect(err).NotTo(HaveOccurred())
		objects = slices.DeleteFunc(objects, func(u *unstructured.Unstructured) bool { return u.GetName() != "argocd-cm" })
		Expect(objects).To(HaveLen(1))
		Expect(hub.ApplyObjects(ctx, objects...)).To(Succeed())
	}
	set(ctx, string(rendered))
	DeferCleanup(func(ctx SpecContext) { set(ctx, argoCDSettings) })
}

// beside is a namespace whose workloads Argo CD deploys.
func beside(ctx context.Context, r *repository, deploys ...func(namespace string) application) (*dormitory, []application) {
	GinkgoHelper()
	d := newDormitory(ctx)
	var all []application
	for _, create := range deploys {
		all = append(all, create(d.namespace))
	}
	for _, a := range all {
		a.synced(ctx, r)
	}
	d.before = d.snapshot(ctx)
	return d, all
}

// asleep is what of the workloads is, by name.
func (d *dormitory) asleep(ctx context.Context) map[string]bool {
	GinkgoHelper()
	all := map[string]bool{}
	var deployments appsv1.DeploymentList
	var sets appsv1.StatefulSetList
	var jobs batchv1.CronJobList
	for _, list := range []client.ObjectList{&deployments, &sets, &jobs} {
		Expect(d.client.List(ctx, list, client.InNamespace(d.namespace))).To(Succeed())
	}
	for _, o := range deployments.Items {
		all[o.Name] = *o.Spec.Replicas == 0
	}
	for _, o := range sets.Items {
		all[o.Name] = *o.Spec.Replicas == 0
	}
	for _, o := range jobs.Items {
		all[o.Name] = *o.Spec.Suspend
	}
	return all
}

// nights are what sleeps of some folders, by name.
func nights(sleep bool, folders ...string) map[string]bool {
	all := map[string]bool{}
	for _, folder := range folders {
		for _, kind := range []string{"web", "db", "tick"} {
			all[kind+"-"+folder] = sleep
		}
	}
	return all
}

// told is what a plan says of itself in its conditions and Events.
func (d *dormitory) told(ctx context.Context, p *hibernator.HibernatePlan, condition string) (c metav1.Condition, events string) {
	GinkgoHelper()
	now := d.get(ctx, p)
	if found := meta.FindStatusCondition(now.Status.Conditions, condition); found != nil {
		c = *found
	}
	return c, d.kubectl(ctx, "-n", d.namespace, "get", "events", "-o", "jsonpath={range .items[*]}{.reason}: {.message}{\"\\n\"}{end}")
}

// writer of spec.replicas of a Deployment, by what it is managed by.
func (d *dormitory) writer(ctx context.Context, name string) (managers []string) {
	GinkgoHelper()
	o := &appsv1.Deployment{}
	Expect(d.client.Get(ctx, types.NamespacedName{Namespace: d.namespace, Name: name}, o)).To(Succeed())
	for _, entry := range o.ManagedFields {
		if entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), `"f:replicas":{}`) && entry.Subresource != "status" {
			managers = append(managers, entry.Manager)
		}
	}
	return managers
}

var _ = Describe("Beside Argo CD itself", Label("argocd"), Ordered, ContinueOnFailure, func() {
	var r *repository
	folders := []string{"bare", "managers", "server", "pointers", "all", "allserver", "wakened"}
	version := func(v string, of ...string) map[string]string {
		files := map[string]string{}
		for _, folder := range of {
			files[folder+"/all.yaml"] = strings.ReplaceAll(healed(folder, v), "example/web-"+folder+":1", "example/web-"+folder+":"+v)
		}
		return files
	}
	BeforeAll(func(ctx SpecContext) {
		startNode(ctx)
		SetDefaultEventuallyTimeout(time.Minute)
		DeferCleanup(SetDefaultEventuallyTimeout, 20*time.Second)
		startRunners(ctx, nil)
		r = newRepository(ctx, version("1", folders...))
		startArgoCD(ctx)
	})
	deploys := func(ctx context.Context, folder, ignore string, options ...string) func(string) application {
		return func(namespace string) application { return r.deploy(ctx, folder, namespace, ignore, options...) }
	}

	It("is told who wakes what is put to sleep, and what to do, and does not fight", func(ctx SpecContext) {
		d, _ := beside(ctx, r, deploys(ctx, "bare", ""))
		p := d.plan(ctx, healedAsleep)
		from := time.Now()
		d.wants(ctx, p, hibernator.OverrideHibernated)
		d.comesTo(ctx, p, hibernator.PhaseError, 3*time.Minute)
		ready, events := d.told(ctx, p, hibernator.ConditionReady)
		AddReportEntry("Ready", ready.Message)
		AddReportEntry("Events", events)
		Expect(ready.Reason).To(Equal(hibernator.ReasonShutdownFailed))
		for _, said := range []string{ready.Message, events} {
			Expect(said).To(And(
				ContainSubstring("3 resources do not stay asleep"), ContainSubstring("CronJob.batch/"+d.namespace+"/tick-bare: spec.suspend is false again"),
				ContainSubstring("by argocd-controller of Application "+d.namespace+"-bare"),
				ContainSubstring("managedFieldsManagers: [labkeeper-sleep]"), ContainSubstring(respecting),
			))
		}
		logs := d.kubectl(ctx, "-n", managerNamespace, "get", "configmaps", "-l", hibernator.LabelUID+"="+string(p.UID), "-o", "jsonpath={.items[*].data}")
		Expect(logs).To(And(ContainSubstring("web-bare: spec.replicas is 2 again"), ContainSubstring("db-bare: spec.replicas is 1 again")), "its log names all")

		By("leaving it to who wakes it")
		Eventually(func() map[string]bool { return d.asleep(ctx) }).Should(Equal(nights(false, "bare")))
		requests, err := hub.Requests()
		Expect(err).NotTo(HaveOccurred())
		scaled := 0
		for _, request := range requests {
			if request.Time.After(from) && request.Namespace == d.namespace && request.Subresource == "scale" && request.Write() && strings.Contains(request.User, managerNamespace) {
				scaled++
			}
		}
		Expect(scaled).To(BeNumerically("<=", 4), "two attempts at two workloads")
		Expect(d.snapshot(ctx)).To(Equal(d.before))
		Consistently(func() map[string]bool { return d.asleep(ctx) }).WithTimeout(5 * time.Second).Should(Equal(nights(false, "bare")))

		By("the morning")
		d.wants(ctx, p, hibernator.OverrideAwake)
		d.comesTo(ctx, p, hibernator.PhaseActive, time.Minute)
		Expect(d.snapshot(ctx)).To(Equal(d.before))
		d.nothingLeft(ctx, p)
	})

	It("sleeps and wakes exactly where its Applications ignore that", func(ctx SpecContext) {
		names := []string{"managers", "server", "pointers"}
		d, all := beside(ctx, r, deploys(ctx, "managers", ignoring, respecting), deploys(ctx, "server", ignoring, respecting, "ServerSideApply=true"),
			deploys(ctx, "pointers", pointing, respecting))
		p := d.plan(ctx, healedAsleep)
		d.wants(ctx, p, hibernator.OverrideHibernated)
		d.comesTo(ctx, p, hibernator.PhaseHibernated, time.Minute)
		for _, a := range all {
			a.refresh(ctx)
		}
		Consistently(func() map[string]bool { return d.asleep(ctx) }).WithTimeout(12 * time.Second).WithPolling(200 * time.Millisecond).Should(Equal(nights(true, names...)))
		for _, a := range all {
			a.synced(ctx, r)
		}

		d.wants(ctx, p, hibernator.OverrideAwake)
		d.comesTo(ctx, p, hibernator.PhaseActive, time.Minute)
		Expect(d.snapshot(ctx)).To(Equal(d.before))
		degraded, _ := d.told(ctx, p, hibernator.ConditionDegraded)
		Expect(degraded.Status).To(Equal(metav1.ConditionFalse), degraded.Message)
		for _, a := range all {
			a.refresh(ctx)
			a.synced(ctx, r)
		}
		Expect(d.snapshot(ctx)).To(Equal(d.before))
		d.nothingLeft(ctx, p)
	})

	It("sleeps through a sync, and by day is what Git says again, where all Applications ignore that", func(ctx SpecContext) {
		configure(ctx, "components: [CONFIG/argocd]\n")
		names := []string{"all", "allserver"}
		d, all := beside(ctx, r, deploys(ctx, "all", "", respecting), deploys(ctx, "allserver", "", respecting, "ServerSideApply=true"), deploys(ctx, "wakened", ""))
		p := d.plan(ctx, healedAsleep)
		d.wants(ctx, p, hibernator.OverrideHibernated)
		d.comesTo(ctx, p, hibernator.PhaseHibernated, time.Minute)
		everything := nights(true, "all", "allserver", "wakened")
		Expect(d.asleep(ctx)).To(Equal(everything))
		for _, a := range all {
			a.refresh(ctx)
		}
		Consistently(func() map[string]bool { return d.asleep(ctx) }).WithTimeout(12 * time.Second).WithPolling(200 * time.Millisecond).Should(Equal(everything))

		By("deploying another version at night")
		r.commit(ctx, version("2", "all", "allserver", "wakened"))
		for _, a := range all {
			a.refresh(ctx)
			a.synced(ctx, r)
		}
		Expect(hub.kubectl(ctx, "-n", d.namespace, "get", "configmaps", "version-all", "version-allserver", "-o", "jsonpath={.items[*].data.version}")).To(Equal("2 2"))
		slept := nights(true, names...)
		Eventually(func() map[string]bool { return d.asleep(ctx) }).ShouldNot(Equal(everything), "what respects nothing is woken")
		for name := range slept {
			Expect(d.asleep(ctx)).To(HaveKeyWithValue(name, true))
		}

		By("waking")
		d.wants(ctx, p, hibernator.OverrideAwake)
		d.comesTo(ctx, p, hibernator.PhaseActive, time.Minute)
		for _, name := range append(names, "wakened") {
			spec, ready := (&shop{lab: hub, namespace: d.namespace}).scale(ctx, "web-"+name)
			Expect([]int32{spec, ready}).To(Equal([]int32{2, 2}), name)
			Expect(hub.kubectl(ctx, "-n", d.namespace, "get", "deployment", "web-"+name, "-o", "jsonpath={.spec.template.spec.containers[0].image}")).To(Equal("example/web-" + name + ":2"))
		}
		Expect(d.asleep(ctx)).To(Equal(nights(false, "all", "allserver", "wakened")))
		degraded, events := d.told(ctx, p, hibernator.ConditionDegraded)
		AddReportEntry("Degraded", degraded.Message)
		Expect(degraded.Reason).To(Equal(hibernator.ReasonLeftAsFound))
		Expect(events).To(ContainSubstring("argocd-controller"))
		Expect(degraded.Message).To(And(ContainSubstring("all (3 of 9)"), ContainSubstring("it was awake already"), ContainSubstring("by argocd-controller of Application "+d.namespace+"-wakened"),
			ContainSubstring(respecting)))
		Expect(d.writer(ctx, "web-all")).To(Equal([]string{"labkeeper-runner"}))

		By("being what Git says by day")
		hub.kubectl(ctx, "-n", d.namespace, "scale", "deployment", "web-all", "--replicas=1")
		Eventually(func() int32 {
			spec, _ := (&shop{lab: hub, namespace: d.namespace}).scale(ctx, "web-all")
			return spec
		}).Should(BeEquivalentTo(2))
		more := map[string]string{}
		for _, name := range names {
			more[name+"/all.yaml"] = strings.Replace(version("2", name)[name+"/all.yaml"], "replicas: 2", "replicas: 3", 1)
		}
		r.commit(ctx, more)
		for _, a := range all {
			a.refresh(ctx)
		}
		for _, name := range names {
			Eventually(func() int32 {
				_, ready := (&shop{lab: hub, namespace: d.namespace}).scale(ctx, "web-"+name)
				return ready
			}).Should(BeEquivalentTo(3), name)
		}
		d.nothingLeft(ctx, p)
	})

	DescribeTable("a twin is left alone", func(ctx SpecContext, method string, inGit bool) {
		configure(ctx, fmt.Sprintf("patches: [{patch: '{apiVersion: v1, kind: ConfigMap, metadata: {name: argocd-cm, namespace: argocd}, data: {application.resourceTrackingMethod: %s}}'}]\n", method))
		folder := "twinned-" + method
		source := func(v string) string {
			return strings.Replace(strings.TrimSpace(deployment("web", "2")), `image: "example/web:1"`, fmt.Sprintf(`image: "example/web:1", env: [{name: VERSION, value: %q}]`, v), 1) + "\n"
		}
		files := map[string]string{folder + "/web.yaml": source("1"), folder + "/extra.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: extra}}\n"}
		if inGit {
			files[folder+"/twin.yaml"] = besideWeb
		}
		r.commit(ctx, files)
		s := newShop(ctx)
		a := r.deploy(ctx, folder, s.namespace, "")
		a.synced(ctx, r)
		if !inGit {
			s.create(ctx, besideWeb)
		}
		e := s.ready(ctx, "other")
		first := s.twin(ctx, e)
		same := func(generation int64) {
			GinkgoHelper()
			Consistently(func(g Gomega) {
				now := s.twin(ctx, s.get(ctx, "other"))
				g.Expect([]any{now.GetUID(), now.GetGeneration(), now.GetDeletionTimestamp()}).To(Equal([]any{first.GetUID(), generation, (*metav1.Time)(nil)}))
			}).WithTimeout(5 * time.Second).WithPolling(200 * time.Millisecond).Should(Succeed())
		}

		By("being compared, and healed")
		a.refresh(ctx)
		same(first.GetGeneration())
		a.synced(ctx, r)
		Expect(fmt.Sprint(a.get(ctx).Object["status"])).NotTo(ContainSubstring(first.GetName()))
		hub.kubectl(ctx, "-n", s.namespace, "scale", "deployment", "web", "--replicas=1")
		Eventually(func() int32 { spec, _ := s.scale(ctx, "web"); return spec }).Should(BeEquivalentTo(2))
		same(first.GetGeneration())

		By("another version of the source, which prunes what Git has no more")
		Expect(os.Remove(filepath.Join(r.dir, folder, "extra.yaml"))).To(Succeed())
		r.commit(ctx, map[string]string{folder + "/web.yaml": source("2")})
		a.refresh(ctx)
		Eventually(func(g Gomega) {
			containers, _, _ := unstructured.NestedSlice(s.twin(ctx, s.get(ctx, "other")).Object, "spec", "template", "spec", "containers")
			g.Expect(containers[0]).To(And(HaveKeyWithValue("image", "example/web:next"), HaveKeyWithValue("env", []any{map[string]any{"name": "VERSION", "value": "2"}})))
		}).Should(Succeed())
		a.synced(ctx, r)
		Expect(apierrors.IsNotFound(s.client.Get(ctx, types.NamespacedName{Namespace: s.namespace, Name: "extra"}, &corev1.ConfigMap{}))).To(BeTrue(), "it prunes")
		e = s.ready(ctx, "other")
		now := s.twin(ctx, e)
		Expect(now.GetUID()).To(Equal(first.GetUID()))
		a.refresh(ctx)
		same(now.GetGeneration())
		a.synced(ctx, r)

		By("the end of the Application")
		a.remove(ctx)
		if inGit {
			s.gone(ctx, e)
			return
		}
		s.says(ctx, "other", twins.ConditionSourceFound, metav1.ConditionFalse, twins.ReasonSourceNotFound)
		same(now.GetGeneration())
		Expect(s.client.Delete(ctx, e.DeepCopy())).To(Succeed())
		s.gone(ctx, e)
	},
		Entry("as Argo CD knows its own by annotations", "annotation", false),
		Entry("as Argo CD knows its own by labels, and deploys the ExperimentDeployment, too", "label", true),
	)
})

const besideWeb = `
apiVersion: experimentcontroller.example.com/v1alpha1
kind: ExperimentDeployment
metadata: {name: other}
spec:
  sourceRef: {kind: Deployment, name: web}
  mergeStrategy: Strategic
  overrideSpec: {template: {spec: {containers: [{name: c, image: "example/web:next"}]}}}
`

// scale is how many replicas a Deployment is to have, and how many are ready.
func (s *shop) scale(ctx context.Context, name string) (spec, ready int32) {
	GinkgoHelper()
	d := &appsv1.Deployment{}
	Expect(s.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, d)).To(Succeed())
	return *d.Spec.Replicas, d.Status.ReadyReplicas
}
