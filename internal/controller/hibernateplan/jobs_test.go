package hibernateplan

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/dispatch"
	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/internal/runner"
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
	Resources: &v1alpha1.RunnerResources{
		Requests: v1alpha1.Quantities{corev1.ResourceCPU: resource.MustParse("50m")},
		Limits:   v1alpha1.Quantities{corev1.ResourceMemory: resource.MustParse("256Mi")},
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
	want = placed{Deadline: 600, Told: "--deadline=9m30s", RunnerTemplate: template}
	want.Resources.Requests, want.Resources.Limits = corev1.ResourceList(template.Resources.Requests), corev1.ResourceList(template.Resources.Limits)
	want.ActiveDeadline, want.RunnerTemplate.Resources = nil, nil
	if diff := cmp.Diff(want, placementOf(t, theJob(t, r, c, plan))); diff != "" {
		t.Errorf("with one (-want +got):\n%s", diff)
	}
}

// A template that no pod can be made by is told of by day, and at admission, by the paths of what is wrong; one that can
// is not.
func TestTemplateOfNoPod(t *testing.T) {
	quantity := resource.MustParse
	for name, test := range map[string]struct {
		runner v1alpha1.RunnerTemplate
		wrong  []string
	}{
		"none":    {},
		"a pod's": {runner: *template.DeepCopy()},
		"all that there may be": {runner: v1alpha1.RunnerTemplate{
			NodeSelector: map[string]string{"example.com/pool": ""}, PriorityClassName: "batch.low",
			Tolerations: []corev1.Toleration{
				{Operator: corev1.TolerationOpExists}, {Key: "a", Value: "b"}, {Key: "a", Operator: corev1.TolerationOpEqual},
				{Key: "a", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](5)}, {Key: "a", Operator: "Gt", Value: "3"},
			},
			Resources: &v1alpha1.RunnerResources{
				Limits:   v1alpha1.Quantities{"cpu": quantity("1"), "ephemeral-storage": quantity("1Gi"), "hugepages-2Mi": quantity("2Mi"), "example.com/gpu": quantity("1")},
				Requests: v1alpha1.Quantities{"cpu": quantity("1000m"), "memory": quantity("0")},
			},
		}},
		"labels": {v1alpha1.RunnerTemplate{NodeSelector: map[string]string{"a b": "c"}, PriorityClassName: "A"}, []string{"spec.runner.nodeSelector", "spec.runner.priorityClassName"}},
		"tolerations": {v1alpha1.RunnerTemplate{Tolerations: []corev1.Toleration{
			{Key: "a", Operator: corev1.TolerationOpExists, Value: "b"}, {Value: "b"}, {Key: "a", TolerationSeconds: ptr.To[int64](5)}, {Key: "a/b/c"}, {Key: "a", Value: "b c"},
		}}, []string{
			"spec.runner.tolerations[0].value", "spec.runner.tolerations[1].operator", "spec.runner.tolerations[2].effect", "spec.runner.tolerations[3].key", "spec.runner.tolerations[4].value",
		}},
		"resources": {v1alpha1.RunnerTemplate{Resources: &v1alpha1.RunnerResources{
			Limits: v1alpha1.Quantities{"cpu": quantity("1"), "memory": quantity("-1")}, Requests: v1alpha1.Quantities{"cpu": quantity("1001m"), "cpus": quantity("1")},
		}}, []string{"spec.runner.resources.limits[memory]", "spec.runner.resources.requests[cpu]", "spec.runner.resources.requests[cpus]"}},
		"resources of others": {v1alpha1.RunnerTemplate{Resources: &v1alpha1.RunnerResources{
			Limits: v1alpha1.Quantities{"cpu": quantity("1"), "example.com/a": quantity("2"), "example.com/b": quantity("1500m"), "a/b/c": quantity("1")},
			Requests: v1alpha1.Quantities{
				"example.com/a": quantity("1"), "example.com/d": quantity("1"), "hugepages-2Mi": quantity("2Mi"), "kubernetes.io/e": quantity("500m"),
			},
		}}, []string{
			"spec.runner.resources.limits[a/b/c]", "spec.runner.resources.limits[example.com/b]", "spec.runner.resources.requests[example.com/a]",
			"spec.runner.resources.requests[example.com/d]", "spec.runner.resources.requests[hugepages-2Mi]",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			plan := asleepNow()
			plan.Spec.Runner = &test.runner
			var wrong []string
			for _, e := range kube.Errors(podsOfRunners(plan.Spec.Runner)) {
				var invalid *dispatch.InvalidError
				if errors.As(e, &invalid) {
					wrong = append(wrong, invalid.Path)
				}
			}
			if diff := cmp.Diff(test.wrong, wrong); diff != "" {
				t.Errorf("wrong is (-want +got):\n%s", diff)
			}
			p := facts{plan: plan, registry: registry, namespace: "system", now: noon}.decide()
			if refused := p.Problem != nil && p.Problem.reason == v1alpha1.ReasonInvalid && p.Status.CurrentCycle == nil; refused != (test.wrong != nil) {
				t.Errorf("it is refused: %t, %v", refused, p.Problem)
			}
			if err := invalid(plan.Spec, registry); (err != nil) != (test.wrong != nil) {
				t.Errorf("at admission: %v", err)
			}
		})
	}
}

// A runner knows which nodes it must not put to sleep, the manager's and its own, and the namespace that the manager runs in.
func TestNodes(t *testing.T) {
	plan := asleepNow()
	r, c := newReconciler(t, plan)
	r.Options.Node, r.Options.Own = "node-1", "labs"
	container := theJob(t, r, c, plan).Spec.Template.Spec.Containers[0]
	nodes := map[string]string{}
	for _, e := range container.Env {
		if e.Name == runner.EnvManagerNode || e.Name == runner.EnvManagerNamespace {
			nodes[e.Name] = e.Value
		}
		if e.Name == runner.EnvNode {
			nodes[e.Name] = e.ValueFrom.FieldRef.FieldPath
		}
	}
	if diff := cmp.Diff(map[string]string{runner.EnvManagerNode: "node-1", runner.EnvManagerNamespace: "labs", runner.EnvNode: "spec.nodeName"}, nodes); diff != "" {
		t.Errorf("it is told of others (-want +got):\n%s", diff)
	}
}

// What meshes put beside a runner would keep its Job from ending until its deadline.
func TestAlone(t *testing.T) {
	plan := asleepNow()
	r, c := newReconciler(t, plan)
	pod := theJob(t, r, c, plan).Spec.Template
	for key, want := range map[string]string{"sidecar.istio.io/inject": "false", "kuma.io/sidecar-injection": "disabled"} {
		if got := pod.Labels[key]; got != want {
			t.Errorf("label %s is %q", key, got)
		}
	}
	for key, want := range map[string]string{"linkerd.io/inject": "disabled", "consul.hashicorp.com/connect-inject": "false"} {
		if got := pod.Annotations[key]; got != want {
			t.Errorf("annotation %s is %q", key, got)
		}
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

// Between two turns to sleep of a cycle there was a day, which runners tell by their cycles.
func TestCycleOfATurn(t *testing.T) {
	plan, n := attempting(v1alpha1.OperationShutdown, "a")
	a := attempt{names: n, execution: &plan.Status.Executions[0], target: plan.Spec.Targets[0]}
	was := a.task().Cycle
	if again := a.task().Cycle; again != was {
		t.Errorf("the same turn is %s and %s", was, again)
	}
	n.cycle.Turn += 2
	a.names = n
	if now := a.task().Cycle; now == was || !strings.HasPrefix(now, n.cycle.PlanRevision) {
		t.Errorf("two turns are %s and %s", was, now)
	}
}

// What a Job acts for is told by it and by its pods, as everything that it needs does by its labels.
func TestTraceable(t *testing.T) {
	plan, n := attempting(v1alpha1.OperationShutdown, "a")
	a := attempt{names: n, execution: &plan.Status.Executions[0], target: plan.Spec.Targets[0]}
	job := a.jobObject()
	labels := map[string]string{v1alpha1.LabelTarget: "a", v1alpha1.LabelOperation: "shutdown", v1alpha1.LabelCycle: "1", labelExecution: job.Name}
	for _, o := range append(a.helpers(), job, &corev1.Pod{ObjectMeta: job.Spec.Template.ObjectMeta}) {
		for key, want := range labels {
			if got := o.GetLabels()[key]; got != want {
				t.Errorf("%T: label %s is %q", o, key, got)
			}
		}
	}
	for what, got := range map[string]map[string]string{"the Job": job.Annotations, "its pods": job.Spec.Template.Annotations} {
		if got["hibernator/plan"] != "team/night" || got["hibernator/target"] != "a" {
			t.Errorf("%s have %v", what, got)
		}
	}
}

// A pod is tried once, and not moved while it acts: how often a target is tried, and when again, is the plan's to
// say. Its Job stays until the plan takes it away, which has recorded by then what came of it.
func TestTriedOnce(t *testing.T) {
	plan, n := attempting(v1alpha1.OperationShutdown, "a")
	job := attempt{names: n, execution: &plan.Status.Executions[0], target: plan.Spec.Targets[0]}.jobObject()
	pods := job.Spec.Template
	job.Spec.Template = corev1.PodTemplateSpec{}
	if diff := cmp.Diff(batchv1.JobSpec{BackoffLimit: ptr.To[int32](0), ActiveDeadlineSeconds: ptr.To[int64](1800)}, job.Spec); diff != "" {
		t.Errorf("beside its pod the Job says (-want +got):\n%s", diff)
	}
	if pods.Spec.RestartPolicy != corev1.RestartPolicyNever || len(pods.Spec.Containers) != 1 || len(pods.Spec.InitContainers) > 0 {
		t.Errorf("of its containers %+v is started again: %s", pods.Spec.Containers, pods.Spec.RestartPolicy)
	}
	if c := pods.Spec.Containers[0]; c.RestartPolicy != nil || len(c.RestartPolicyRules) > 0 || c.LivenessProbe != nil {
		t.Errorf("it is started again: %+v", c)
	}
	for key, want := range map[string]string{"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "karpenter.sh/do-not-disrupt": "true"} {
		if got := pods.Annotations[key]; got != want {
			t.Errorf("annotation %s is %q", key, got)
		}
	}
}

// The ledger says where everything of an attempt is: while there is one what its runner is and has, and when it has ended why, and where
// its log is.
func TestEveryFieldOfTheLedger(t *testing.T) {
	plan := asleepNow()
	r, c := newReconciler(t, append(away(plan), plan)...)
	r.Logs = podLogs{func(_, _ string, o *corev1.PodLogOptions) stream {
		return kubelet{lines: []string{"a line\n"}, asked: *o}
	}}
	job := theJob(t, r, c, plan)
	n := names{namespace: "system", plan: plan}
	at, ref, now := n.point("a").String(), "system/"+job.Name, metav1.NewTime(noon)
	want := execution{
		Target: "a", Executor: "noop", Operation: v1alpha1.OperationShutdown, State: v1alpha1.ExecutionRunning, Asleep: true, Kept: true, Attempts: 1, StartedAt: &now,
		JobRef: ref, ServiceAccountRef: ref, ConnectorSecretRef: ref, RestoreConfigMapRef: at, RestoreRef: "configmap://" + at,
	}
	says := func(when string) {
		t.Helper()
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(plan), plan); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, plan.Status.Executions[0], cmp.Comparer(func(a, b metav1.Time) bool { return a.Equal(&b) })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	says("while it runs")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "p", Labels: map[string]string{batchv1.JobNameLabel: job.Name}}, Status: corev1.PodStatus{Phase: corev1.PodSucceeded},
	}
	if err := c.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	point := &corev1.ConfigMap{}
	if err := c.Get(t.Context(), n.point("a"), point); err != nil {
		t.Fatal(err)
	}
	point.BinaryData = map[string][]byte{runner.KeyPoint: []byte("a point")}
	if err := c.Update(t.Context(), point); err != nil {
		t.Fatal(err)
	}
	complete(t, c, plan, "a", job)
	for range 3 {
		pass(t, r, plan)
	}
	want.RestoreChecksum = checksum(point)
	want.State, want.FinishedAt, want.Message, want.Resources = v1alpha1.ExecutionCompleted, &now, "1 of 1 resources are asleep", 1
	want.ServiceAccountRef, want.ConnectorSecretRef, want.LogsRef = "", "", "configmap://"+n.log("a").String()+"#"+job.Name+".log"
	says("when it has ended")
}

// What a runner is granted is its target's restore point, and what its executor needs where the target is: by bindings in
// namespaces, and of the whole cluster for what has none. Of another cluster nothing is granted here.
func TestGranted(t *testing.T) {
	plan, n := attempting(v1alpha1.OperationShutdown, "a")
	for name, test := range map[string]struct {
		reached reached
		want    []string
	}{
		"nothing":         {reached{}, nil},
		"namespaces":      {reached{needs: executor.Needs{ClusterRole: "r"}, namespaces: []string{"shop", "team"}}, []string{"RoleBinding shop ClusterRole r", "RoleBinding team ClusterRole r"}},
		"the cluster":     {reached{needs: executor.Needs{ClusterRole: "r", Cluster: true}}, []string{"ClusterRoleBinding  ClusterRole r"}},
		"another cluster": {reached{needs: executor.Needs{ClusterRole: "r", Cluster: true}, namespaces: []string{"shop"}, credentials: true}, nil},
	} {
		a := attempt{names: n, execution: &plan.Status.Executions[0], target: plan.Spec.Targets[0], reached: test.reached}
		job := a.name().Name
		want := append([]string{"Role system configmaps " + n.point("a").Name + " get,update", "ServiceAccount system", "RoleBinding system Role " + n.role("a").Name}, test.want...)
		var got []string
		for _, o := range append([]client.Object{n.permission("a")}, a.helpers()...) {
			got = append(got, grantOf(t, o, job))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// grantOf is what an object gives to the ServiceAccount of a Job.
func grantOf(t *testing.T, o client.Object, job string) string {
	t.Helper()
	bound := func(ref rbacv1.RoleRef, subjects []rbacv1.Subject) string {
		if diff := cmp.Diff([]rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "system", Name: job}}, subjects); diff != "" {
			t.Errorf("somebody else is bound: %s", diff)
		}
		return " " + ref.Kind + " " + ref.Name
	}
	is := o.GetObjectKind().GroupVersionKind().Kind + " " + o.GetNamespace()
	switch o := o.(type) {
	case *rbacv1.Role:
		for _, r := range o.Rules {
			is += " " + strings.Join(r.Resources, ",") + " " + strings.Join(r.ResourceNames, ",") + " " + strings.Join(r.Verbs, ",")
		}
	case *rbacv1.RoleBinding:
		is += bound(o.RoleRef, o.Subjects)
	case *rbacv1.ClusterRoleBinding:
		is += bound(o.RoleRef, o.Subjects)
	}
	return is
}

// A report that was lost is found in what the container has said at its end; without one, how it has ended is told.
func TestLastWords(t *testing.T) {
	for name, test := range map[string]struct {
		message string
		state   v1alpha1.ExecutionState
		says    string
	}{
		"of this attempt": {`{"execution": "JOB", "completed": true, "resources": 2}`, v1alpha1.ExecutionCompleted, ""},
		"of another":      {`{"execution": "another", "completed": true, "resources": 2}`, v1alpha1.ExecutionPending, "container OOMKilled, exit code 137"},
		"none":            {"", v1alpha1.ExecutionPending, "container OOMKilled, exit code 137"},
	} {
		plan, n := attempting(v1alpha1.OperationShutdown, "a")
		plan.ResourceVersion, plan.Finalizers = "1", []string{v1alpha1.Finalizer}
		ended := only(plan)
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: ended}}
		job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "p", Labels: map[string]string{batchv1.JobNameLabel: ended}}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Reason: "OOMKilled", ExitCode: 137, Message: strings.ReplaceAll(test.message, "JOB", ended),
		}}}}
		pod.Status.Phase = corev1.PodFailed
		revision := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: plan.Status.CurrentCycle.PlanRevision}}
		content, err := json.Marshal(resolve(plan.Spec))
		if err != nil {
			t.Fatal(err)
		}
		revision.Data.Raw = content
		marks.Set(plan, job)
		marks.Set(plan, revision)
		r, _ := newReconciler(t, plan, job, pod, revision, pointOf(n, "a", ended))
		_, now := pass(t, r, plan)
		if e := now.Status.Executions[0]; e.State != test.state || !strings.Contains(e.Message, test.says) {
			t.Errorf("%s: %s, %q", name, e.State, e.Message)
		}
	}
}

// bindable are the ClusterRoles that may be bound by whoever does not have their rights: of runners, and of who reads the
// kubeconfig of a virtual cluster.
var bindable = []string{"labkeeper-runner-workloadscaler labkeeper-runner-karpenter", "labkeeper-kubeconfig-reader"}

// Nobody may bind more than that by what is installed, nor give rights that he does not have.
func TestMayBind(t *testing.T) {
	files, err := filepath.Glob("../../../config/rbac/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v: %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for part := range strings.SplitSeq(string(text), "\n---\n") {
			role := &rbacv1.ClusterRole{}
			if err := yaml.Unmarshal([]byte(part), role); err != nil {
				t.Fatal(err)
			}
			for _, rule := range role.Rules {
				if slices.Contains(rule.Verbs, "*") || slices.Contains(rule.Verbs, "escalate") || slices.Contains(rule.Verbs, "bind") && !slices.Contains(bindable, strings.Join(rule.ResourceNames, " ")) {
					t.Errorf("%s: %s: %+v", file, role.Name, rule)
				}
			}
		}
	}
}

// A template that no pod can have keeps nothing from waking that sleeps by the time that it is written.
func TestTemplateThatIsSpoiledAsleep(t *testing.T) {
	n := newBroadNight(t, false, granting("shop"))
	n.complete()
	n.plan.Spec.Runner = template.DeepCopy()
	n.plan.Spec.Runner.Tolerations = []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists, Value: "b"}}
	n.morning()
	job, _ := n.job()
	if got := placementOf(t, job); len(got.Tolerations)+len(got.NodeSelector) > 0 || got.PriorityClassName != "" || got.Deadline != 600 {
		t.Errorf("it is made by %+v", got)
	}
	complete(t, n.client, n.plan, "a", job)
	if n.passes(6); n.plan.Status.CurrentCycle != nil {
		t.Errorf("it goes on: %+v", n.plan.Status)
	}
}
