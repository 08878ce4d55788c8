//go:build argocd

// Experiments that Argo CD itself deploys: make test-argocd.
package integration_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/test/env"
)

// argoCDSettings are those of Argo CD that an installation brings, and a project that allows one repository alone.
const argoCDSettings = `
apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-cm, namespace: argocd, labels: {app.kubernetes.io/part-of: argocd}}
data: {timeout.reconciliation: 10s, timeout.reconciliation.jitter: 0s}
---
apiVersion: v1
kind: Secret
metadata: {name: argocd-secret, namespace: argocd, labels: {app.kubernetes.io/part-of: argocd}}
stringData: {server.secretkey: none}
---
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: default, namespace: argocd}
spec:
  sourceRepos: ["*"]
  destinations: [{server: "*", namespace: "*"}]
  clusterResourceWhitelist: [{group: "*", kind: "*"}]
---
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: narrow, namespace: argocd}
spec:
  sourceRepos: ["https://git.example.com/ours.git"]
  destinations: [{server: "*", namespace: "*"}]
`

// deployment is one that a repository has.
func deployment(name, replicas string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %s}
spec:
  replicas: %s
  progressDeadlineSeconds: 5
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      nodeName: twins
      terminationGracePeriodSeconds: 0
      containers: [{name: c, image: "example/%[1]s:1"}]
`, name, replicas)
}

// repository is a Git repository and one of charts, which Argo CD deploys from.
type repository struct{ dir, git, charts string }

// newRepository serves one with some files, and the chart of folder chart, if they have that.
func newRepository(ctx context.Context, files map[string]string) *repository {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	r := &repository{dir: filepath.Join(dir, "lab")}
	Expect(os.Mkdir(r.dir, 0o755)).To(Succeed())
	r.run(ctx, "init", "--quiet", "--initial-branch=main")
	r.commit(ctx, files)
	backend, err := exec.CommandContext(ctx, "git", "--exec-path").Output()
	Expect(err).NotTo(HaveOccurred())
	server := httptest.NewServer(&cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(backend)), "git-http-backend"), Env: []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1"},
	})
	DeferCleanup(server.Close)
	charts := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(dir, "charts"))))
	DeferCleanup(charts.Close)
	r.git, r.charts = server.URL+"/lab/.git", charts.URL
	if files["chart/Chart.yaml"] == "" {
		return r
	}
	helm := func(args ...string) {
		output, err := exec.CommandContext(ctx, filepath.Join(env.Root(), "bin", "helm"), args...).CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(output))
	}
	helm("package", filepath.Join(r.dir, "chart"), "--destination", filepath.Join(dir, "charts"))
	helm("repo", "index", filepath.Join(dir, "charts"), "--url", charts.URL)
	return r
}

func (r *repository) run(ctx context.Context, args ...string) string {
	GinkgoHelper()
	command := exec.CommandContext(ctx, "git", append([]string{"-C", r.dir, "-c", "user.name=lab", "-c", "user.email=lab@example.com"}, args...)...)
	output, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))
	return strings.TrimSpace(string(output))
}

// commit writes files and commits them.
func (r *repository) commit(ctx context.Context, files map[string]string) {
	GinkgoHelper()
	for name, content := range files {
		path := filepath.Join(r.dir, name)
		Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
		Expect(os.WriteFile(path, []byte(content), 0o644)).To(Succeed())
	}
	r.run(ctx, "add", "--all")
	r.run(ctx, "commit", "--quiet", "--message=more")
}

// inGit is a Component with a folder of the repository.
func (r *repository) inGit(ctx context.Context, name, path string) *v1alpha1.Component {
	GinkgoHelper()
	c := component(name, v1alpha1.ComponentApp)
	c.Spec.Sources = []v1alpha1.ComponentSource{{RepoURL: r.git, Path: path, TargetRevision: "main"}}
	r.add(ctx, c)
	return c
}

// add creates a Component for as long as a spec.
func (r *repository) add(ctx context.Context, c *v1alpha1.Component) {
	GinkgoHelper()
	Expect(hub.client.Create(ctx, c)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(hub.client.Delete(ctx, c)).To(Succeed()) })
}

// argoCDRuns says that it was started: it runs as long as the hub does.
var argoCDRuns bool

// startArgoCD starts it on the hub, once.
func startArgoCD(ctx context.Context) {
	GinkgoHelper()
	if argoCDRuns {
		return
	}
	argoCDRuns = true
	hub.install(ctx, "bin/crds/argo-cd/appproject-crd.yaml")
	settings, err := env.DecodeObjects([]byte(argoCDSettings))
	Expect(err).NotTo(HaveOccurred())
	Expect(hub.ApplyObjects(ctx, settings...)).To(Succeed())
	addresses := freeAddresses(4)
	redis, repos := addresses[0], addresses[1]
	of := filepath.Join(hub.Dir(), "argocd")
	Expect(os.MkdirAll(of, 0o700)).To(Succeed())
	start := func(name string, args ...string) *env.Process {
		settings := []string{
			"KUBECONFIG=" + hub.Kubeconfig(), "ARGOCD_FAKE_IN_CLUSTER=true", "ARGOCD_GPG_ENABLED=false", "TMPDIR=" + of,
			"PATH=" + filepath.Join(env.Root(), "bin") + ":" + os.Getenv("PATH"), filepath.Join(env.Root(), "bin", "argocd"), name,
		}
		process, err := hub.StartProcess("argocd-"+name, "/usr/bin/env", append(settings, args...)...)
		Expect(err).NotTo(HaveOccurred())
		return process
	}
	start("redis", redis)
	repoServer := start("argocd-repo-server", "--redis="+redis, "--address=127.0.0.1", "--port="+port(repos), "--metrics-address=127.0.0.1", "--metrics-port="+port(addresses[2]),
		"--disable-tls")
	controller := start("argocd-application-controller", "--redis="+redis, "--repo-server="+repos, "--repo-server-plaintext", "--metrics-port="+port(addresses[3]),
		"--namespace="+argoCDNamespace, "--app-resync=10", "--self-heal-backoff-cap-seconds=3") // or what has failed twice waits a minute
	Eventually(func(g Gomega) {
		Expect(repoServer.Exited()).NotTo(BeClosed(), repoServer.Tail(15))
		Expect(controller.Exited()).NotTo(BeClosed(), controller.Tail(15))
		g.Expect(env.Answers(background(), "http://"+addresses[3]+"/healthz")).To(BeTrue())
	}).WithTimeout(time.Minute).Should(Succeed())
}

// runs says how many pods of a Deployment are ready in a cluster; -1 if there is none.
func (l *lab) runs(namespace, name string) int32 {
	GinkgoHelper()
	d := &appsv1.Deployment{}
	err := l.client.Get(background(), client.ObjectKey{Namespace: namespace, Name: name}, d)
	Expect(client.IgnoreNotFound(err)).To(Succeed())
	if err != nil {
		return -1
	}
	return d.Status.ReadyReplicas
}

var _ = Describe("Argo CD itself", Label("argocd"), Ordered, ContinueOnFailure, func() {
	var target *lab
	var r *repository
	BeforeAll(func(ctx SpecContext) {
		startNode(ctx)
		target = startTarget(ctx, false)
		SetDefaultEventuallyTimeout(time.Minute)
		DeferCleanup(SetDefaultEventuallyTimeout, 20*time.Second)
		r = newRepository(ctx, map[string]string{
			"web/web.yaml":      deployment("web", "2"),
			"chart/Chart.yaml":  "apiVersion: v2\nname: load\nversion: 1.2.3\n",
			"chart/values.yaml": "replicas: 1\n",
			"chart/templates/deployment.yaml": deployment("load", "{{ .Values.replicas }}") +
				"{{ if not (kindIs \"float64\" .Values.replicas) }}{{ if not (kindIs \"int64\" .Values.replicas) }}{{ fail \"replicas is no number\" }}{{ end }}{{ end }}\n",
			"stuck/stuck.yaml":     strings.Replace(deployment("stuck", "1"), "nodeName: twins", "nodeSelector: {none: here}", 1),
			"refused/refused.yaml": strings.Replace(deployment("refused", "1"), "metadata: {labels: {app: refused}}", "metadata: {labels: {app: another}}", 1),
		})
		startArgoCD(ctx)
		r.inGit(ctx, "real-web", "web")
	})

	stageOf := func(holds ...hold) *stage {
		s := hub.newStage(holds...)
		s.real, s.endpoint = []string{"Application", "Secret"}, strings.TrimPrefix(target.Config().Host, "https://")
		kubeconfig, err := os.ReadFile(target.Kubeconfig())
		Expect(err).NotTo(HaveOccurred())
		s.kubeconfig = string(kubeconfig)
		return s
	}

	It("deploys on a cluster of its own and on the hub, and takes everything down again while the cluster is there", func(ctx SpecContext) {
		load := component("real-load", v1alpha1.ComponentApp)
		load.Spec.Sources = []v1alpha1.ComponentSource{{RepoURL: r.charts, Chart: "load", TargetRevision: "1.2.3"}}
		load.Spec.Parameters = []v1alpha1.ComponentParameter{{Name: "replicas", Type: "integer", Default: new("3")}}
		r.add(ctx, load)
		s := stageOf()
		e := s.create(experiment("road", onGKE("app", "real-web"), onHub("load", "real-load", "app")))
		s.reaches(e, v1alpha1.PhaseComplete)
		Expect(target.runs(e.Name, "web")).To(BeEquivalentTo(2))
		Expect(hub.runs(s.hubNamespace(e, "load"), "load")).To(BeEquivalentTo(3))

		s.delete(e)
		s.gone(e)
		Expect(target.runs(e.Name, "web")).To(BeEquivalentTo(-1))
		Expect(s.children(e)).To(BeEmpty())
		_, _, undeployed := s.life(isChild(e, "Application app"))
		_, asked, _ := s.life(isChild(e, "GKECluster app"))
		Expect(undeployed).To(And(BeNumerically(">", 0), BeNumerically("<", asked)))
	})

	It("is asked again when a kubeconfig is rotated", func(ctx SpecContext) {
		s := stageOf(workflowEnds)
		y := &yard{lab: hub, namespace: s.namespace}
		y.grant(ctx)
		account := func(name string) string {
			target.kubectl(ctx, "-n", "kube-system", "create", "serviceaccount", name)
			target.kubectl(ctx, "create", "clusterrolebinding", name, "--clusterrole=cluster-admin", "--serviceaccount=kube-system:"+name)
			path, err := target.ServiceAccountKubeconfig(ctx, "kube-system", name)
			Expect(err).NotTo(HaveOccurred())
			content, err := os.ReadFile(path)
			Expect(err).NotTo(HaveOccurred())
			return string(content)
		}
		y.put(ctx, "staging", account("first"))
		e := onStaging("rotated", "staging")
		e.Spec.Targets[0].Components[0].App = "real-web"
		s.create(e)
		s.reaches(e, v1alpha1.PhaseRunning)

		By("having credentials that the cluster does not take any more")
		target.kubectl(ctx, "-n", "kube-system", "delete", "serviceaccount", "first")
		target.kubectl(ctx, "-n", s.hubNamespace(e, "app"), "scale", "deployment", "web", "--replicas=1")
		y.put(ctx, "staging", account("second"))
		Eventually(func() int32 { return target.runs(s.hubNamespace(e, "app"), "web") }).Should(BeEquivalentTo(2))
		s.release()
		s.reaches(e, v1alpha1.PhaseComplete)

		By("having such when everything is to go, which nobody has looked at since")
		y.put(ctx, "staging", account("third"))
		target.kubectl(ctx, "-n", "kube-system", "delete", "serviceaccount", "second")
		s.delete(e)
		s.gone(e)
		Expect(target.runs(s.hubNamespace(e, "app"), "web")).To(BeEquivalentTo(-1))
	})

	It("says what it cannot deploy, until it can", func(ctx SpecContext) {
		c := r.inGit(ctx, "real-nowhere", "nowhere")
		move := func(path string) {
			before := c.DeepCopy()
			c.Spec.Sources[0].Path = path
			Expect(hub.client.Patch(ctx, c, client.MergeFrom(before))).To(Succeed())
		}
		s := stageOf()
		e := s.create(experiment("nowhere", onHub("app", "real-nowhere")))
		s.says(e, v1alpha1.ConditionApplicationsHealthy, v1alpha1.ReasonApplicationError, "app path does not exist")
		move("stuck")
		s.says(e, v1alpha1.ConditionApplicationsHealthy, v1alpha1.ReasonApplicationDegraded, "see argocd app get "+s.application(e, "app").String())
		move("refused")
		s.says(e, v1alpha1.ConditionApplicationsHealthy, v1alpha1.ReasonApplicationMissing, "`selector` does not match template `labels`", "Retrying")
		move("web")
		s.reaches(e, v1alpha1.PhaseComplete)
		s.delete(e)
		s.gone(e)
		Expect(s.children(e)).To(BeEmpty())
	})

	It("deploys no more than the project of a namespace allows", func(ctx SpecContext) {
		s := stageOf()
		hub.kubectl(ctx, "annotate", "namespace", s.namespace, v1alpha1.AnnotationProject+"=narrow")
		e := s.create(experiment("narrow", onHub("app", "real-web")))
		s.says(e, v1alpha1.ConditionApplicationsHealthy, v1alpha1.ReasonApplicationError, "not permitted in project 'narrow'")
		s.delete(e)
		s.gone(e)
		Expect(s.children(e)).To(BeEmpty())
	})

	It("is brought back to what was asked for", func(ctx SpecContext) {
		s := stageOf(workflowEnds)
		e := s.create(experiment("drift", onGKE("app", "real-web")))
		s.reaches(e, v1alpha1.PhaseRunning)
		runs := func() int32 { return target.runs(e.Name, "web") }

		By("repairing what it has deployed")
		target.kubectl(ctx, "-n", e.Name, "delete", "deployment", "web")
		Eventually(runs).Should(BeEquivalentTo(2))

		By("an Application that is deleted with what it has deployed")
		deployed := s.object(applications, s.application(e, "app")).GetUID()
		hub.kubectl(ctx, "-n", argoCDNamespace, "delete", "application", s.application(e, "app").Name)
		Eventually(func(g Gomega) {
			uid := hub.kubectl(ctx, "-n", argoCDNamespace, "get", "application", s.application(e, "app").Name, "--ignore-not-found", "-o", "jsonpath={.metadata.uid}")
			g.Expect(uid).NotTo(Or(BeEmpty(), BeEquivalentTo(deployed)))
			g.Expect(runs()).To(BeEquivalentTo(2))
		}).Should(Succeed())

		By("a registration that is deleted")
		hub.kubectl(ctx, "-n", argoCDNamespace, "delete", "secret", s.clusterSecret(e, "app").Name)
		target.kubectl(ctx, "-n", e.Name, "scale", "deployment", "web", "--replicas=1")
		s.exists(secrets, s.clusterSecret(e, "app"))
		Eventually(runs).Should(BeEquivalentTo(2))
		s.release()
		s.reaches(e, v1alpha1.PhaseComplete)

		By("a registration that is deleted before a teardown")
		hub.kubectl(ctx, "-n", argoCDNamespace, "delete", "secret", s.clusterSecret(e, "app").Name)
		s.delete(e)
		s.gone(e)
		Expect(runs()).To(BeEquivalentTo(-1))
		Expect(s.children(e)).To(BeEmpty())
	})

	It("is not waited for when its cluster answers no more", func(ctx SpecContext) {
		SetDefaultEventuallyTimeout(2 * time.Minute)
		s := stageOf()
		e := experiment("dead", onGKE("app", "real-web"))
		e.Spec.Deletion = &v1alpha1.Deletion{Deadline: &metav1.Duration{Duration: time.Minute}}
		s.create(e)
		s.reaches(e, v1alpha1.PhaseComplete)
		Expect(target.KillAPIServer()).To(Succeed())
		DeferCleanup(target.ResumeAPIServer)
		s.delete(e)
		s.gone(e)
		Expect(s.children(e)).To(BeEmpty())
		var left corev1.ConfigMapList
		Expect(hub.client.List(ctx, &left, client.InNamespace(managerNamespace), client.MatchingLabels{v1alpha1.LabelExperimentUID: string(e.UID)})).To(Succeed())
		Expect(left.Items).To(HaveLen(1), "with the cluster what was on it is gone, and not what that had elsewhere")
		Expect(left.Items[0].Data["orphans.yaml"]).To(And(ContainSubstring("kind: Application"), ContainSubstring("its cluster was gone before Argo CD had deleted that")))
	})
})
