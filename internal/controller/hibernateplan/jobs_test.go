package hibernateplan

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
)

// asleepNow is a plan of one target that is to sleep, whatever its schedule.
func asleepNow() *v1alpha1.HibernatePlan {
	plan := newPlan(v1alpha1.StrategyParallel, 1)
	plan.Finalizers = []string{v1alpha1.Finalizer}
	plan.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideHibernated}
	return plan
}

// away has the target of a plan in a cluster that a kubeconfig reaches, and returns what that needs.
func away(plan *v1alpha1.HibernatePlan) []client.Object {
	plan.Spec.Targets[0].ConnectorRef = &v1alpha1.ConnectorRef{Kind: "K8SCluster", Name: "away"}
	cluster := &v1alpha1.K8SCluster{ObjectMeta: metav1.ObjectMeta{Namespace: plan.Namespace, Name: "away"}}
	cluster.Spec.K8S = &v1alpha1.K8SAccess{KubeconfigRef: &v1alpha1.SecretRef{Name: "away"}}
	cluster.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	return []client.Object{
		cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "hub"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: plan.Namespace, Name: "away"}, Data: map[string][]byte{"kubeconfig": []byte(kubeconfig)}},
	}
}

// jobsOf are those that there are.
func jobsOf(t *testing.T, c client.Client) []batchv1.Job {
	t.Helper()
	var jobs batchv1.JobList
	if err := c.List(t.Context(), &jobs); err != nil {
		t.Fatal(err)
	}
	return jobs.Items
}

// theJob is the only one, after some passes over a plan.
func theJob(t *testing.T, r *Reconciler, c client.Client, plan *v1alpha1.HibernatePlan) *batchv1.Job {
	t.Helper()
	for range 4 {
		_, plan = pass(t, r, plan)
	}
	jobs := jobsOf(t, c)
	if len(jobs) != 1 {
		t.Fatalf("%d Jobs\n%+v", len(jobs), plan.Status)
	}
	return &jobs[0]
}

// placed is what spec.runner comes to.
type placed struct {
	Deadline  int64
	Resources corev1.ResourceRequirements
	v1alpha1.RunnerTemplate
	Told string
}

func placementOf(t *testing.T, job *batchv1.Job) placed {
	t.Helper()
	pod := job.Spec.Template.Spec
	p := placed{Deadline: ptr.Deref(job.Spec.ActiveDeadlineSeconds, 0), Resources: pod.Containers[0].Resources}
	p.NodeSelector, p.Tolerations, p.PriorityClassName = pod.NodeSelector, pod.Tolerations, pod.PriorityClassName
	for _, told := range []string{"--deadline=29m30s", "--deadline=9m30s"} {
		if slices.Contains(pod.Containers[0].Args, told) {
			p.Told = told
		}
	}
	return p
}

var template = v1alpha1.RunnerTemplate{
	ActiveDeadline: &metav1.Duration{Duration: 10 * time.Minute},
	Resources: &corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
	},
	NodeSelector:      map[string]string{"pool": "system"},
	Tolerations:       []corev1.Toleration{{Key: "system", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}},
	PriorityClassName: "night",
}

// What is said of pods reaches all Jobs: where it is put right while targets sleep, that which wakes them. A runner ends
// by itself before its Job does, and says why.
func TestRunnerTemplate(t *testing.T) {
	plan := asleepNow()
	r, c := newReconciler(t, plan)
	job := theJob(t, r, c, plan)
	want := placed{Deadline: 1800, Told: "--deadline=29m30s"}
	want.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	if diff := cmp.Diff(want, placementOf(t, job)); diff != "" {
		t.Errorf("without a template (-want +got):\n%s", diff)
	}
	complete(t, c, plan, "a", job)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(plan), plan); err != nil {
		t.Fatal(err)
	}
	plan.Spec.Runner, plan.Spec.Override.State = template.DeepCopy(), v1alpha1.OverrideAwake
	if err := c.Update(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	want = placed{Deadline: 600, Told: "--deadline=9m30s", Resources: *template.Resources, RunnerTemplate: template}
	want.ActiveDeadline, want.RunnerTemplate.Resources = nil, nil
	if diff := cmp.Diff(want, placementOf(t, theJob(t, r, c, plan))); diff != "" {
		t.Errorf("with one (-want +got):\n%s", diff)
	}
}

// Runners may run where Pod Security is "restricted", with credentials of a connector, too.
func TestPodSecurity(t *testing.T) {
	judge, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, credentials := range map[string]bool{"by its ServiceAccount": false, "by credentials": true} {
		t.Run(name, func(t *testing.T) {
			plan := asleepNow()
			plan.Spec.Runner = template.DeepCopy()
			var objects []client.Object
			if credentials {
				objects = away(plan)
			}
			r, c := newReconciler(t, append(objects, plan)...)
			pod := theJob(t, r, c, plan).Spec.Template
			if got := len(pod.Spec.Volumes) > 0 && len(pod.Spec.Containers[0].VolumeMounts) > 0; got != credentials {
				t.Errorf("it has credentials: %v", got)
			}
			restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
			if got := policy.AggregateCheckResults(judge.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec)); !got.Allowed {
				t.Error(got.ForbiddenDetail())
			}
		})
	}
}
