package hibernateplan

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/connector"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/internal/runner"
)

// marks are how what a plan makes is known.
var marks = kube.Marks{UID: v1alpha1.LabelUID, Name: v1alpha1.LabelName, Owner: v1alpha1.AnnotationOwner}

const (
	// defaultActiveDeadline is how long a Job may run.
	defaultActiveDeadline = 30 * time.Minute
	// maxActiveDeadline is what the CRD lets be asked for. A plan may have been stored with more.
	maxActiveDeadline = 24 * time.Hour
	// grace is how long before that a runner ends by itself, and says why.
	grace = 30 * time.Second
	// credentialsPath is where a pod finds the credentials of a connector.
	credentialsPath = "/var/run/labkeeper/connector"
	keyKubeconfig   = "kubeconfig"
	containerName   = "runner"
)

// attempt is what the Job of one attempt is made of.
type attempt struct {
	names
	execution *execution
	target    v1alpha1.Target
	runner    *v1alpha1.RunnerTemplate
	image     string
	pull      []string
	// node that the manager is on, and own namespace that it runs in.
	node, own string
	reached   reached
	// access is how its connector reaches its cluster, and refused why it does not; both are empty without credentials.
	access  connector.Access
	refused *connector.Error
	// hub is the UID of Namespace kube-system in the manager's own cluster, where credentials may lead back to it.
	hub string
}

// name is that of everything that the attempt needs, as it was recorded: its cycle may have turned since, or the
// record be a former plan's, which has come with a backup.
func (a attempt) name() types.NamespacedName { return a.in(name(a.execution.JobRef)) }

// labels by which what an attempt needs is found again.
func (a attempt) labels() map[string]string {
	return map[string]string{
		labelExecution:          a.name().Name,
		v1alpha1.LabelTarget:    a.target.Name,
		v1alpha1.LabelOperation: strings.ToLower(string(a.execution.Operation)),
		v1alpha1.LabelCycle:     fmt.Sprint(a.cycle.ID),
	}
}

func (a attempt) meta(at types.NamespacedName) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name, Labels: a.labels()}
}

// helpers are what the Job needs before it is made: an identity, and what that may do.
func (a attempt) helpers() []client.Object {
	at := a.name()
	out := []client.Object{
		&corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: a.meta(at)},
		a.binding(at, "Role", a.role(a.target.Name).Name),
	}
	if a.reached.credentials || a.reached.needs.ClusterRole == "" {
		return out
	}
	for _, namespace := range a.reached.namespaces {
		out = append(out, a.binding(bindingOf(namespace, at.Name), "ClusterRole", a.reached.needs.ClusterRole))
	}
	if a.reached.needs.Cluster {
		out = append(out, &rbacv1.ClusterRoleBinding{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
			ObjectMeta: a.meta(types.NamespacedName{Name: at.Name}),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: a.reached.needs.ClusterRole},
			Subjects:   a.subjects(),
		})
	}
	return out
}

// bindingOf is the RoleBinding in a namespace of a target; the manager's own has one of the Job's name.
func bindingOf(namespace, job string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: job + "-t"}
}

func (a attempt) subjects() []rbacv1.Subject {
	at := a.name()
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: at.Namespace, Name: at.Name}}
}

func (a attempt) binding(at types.NamespacedName, kind, role string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"}, ObjectMeta: a.meta(at),
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role}, Subjects: a.subjects(),
	}
}

// secret is the Secret that reaches the cluster of the target.
func (a attempt) secret(kubeconfig []byte) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: a.meta(a.name()),
		Data: map[string][]byte{keyKubeconfig: kubeconfig},
	}
}

// task is what the runner is told.
func (a attempt) task() runner.Task {
	t := runner.Task{
		Operation: a.execution.Operation, Plan: client.ObjectKeyFromObject(a.plan).String(), Target: a.target.Name, Type: a.target.Type,
		Cycle: fmt.Sprintf("%s.%d", a.cycle.PlanRevision, a.cycle.Turn), Execution: a.name().Name, Attempt: int(a.execution.Attempts), Namespaces: a.reached.namespaces,
		RestorePoint: a.point(a.target.Name).String(), Deadline: a.deadline() - grace, Parameters: raw(a.target),
		ManagerNode: a.node, ManagerNamespace: a.own,
	}
	if a.reached.credentials {
		t.Kubeconfig, t.Hub = credentialsPath+"/"+keyKubeconfig, a.hub
	}
	return t
}

func (a attempt) deadline() time.Duration { return activeDeadline(a.runner) }

// activeDeadline is how long a Job may run.
func activeDeadline(of *v1alpha1.RunnerTemplate) time.Duration {
	if of != nil && of.ActiveDeadline != nil {
		return min(of.ActiveDeadline.Duration, maxActiveDeadline)
	}
	return defaultActiveDeadline
}

// jobObject is the Job. Its pod is tried once: attempts are counted in the ledger.
func (a attempt) jobObject() *batchv1.Job {
	task, at := a.task(), a.name()
	template := a.runner
	if template == nil {
		template = &v1alpha1.RunnerTemplate{}
	}
	annotations := map[string]string{v1alpha1.AnnotationPlan: task.Plan, v1alpha1.AnnotationTarget: a.target.Name}
	job := &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"}, ObjectMeta: a.meta(at),
		Spec: batchv1.JobSpec{
			BackoffLimit: ptr.To[int32](0), ActiveDeadlineSeconds: ptr.To(int64(a.deadline() / time.Second)),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: a.labels(), Annotations: map[string]string{
					v1alpha1.AnnotationPlan: task.Plan, v1alpha1.AnnotationTarget: a.target.Name,
					// It must not be moved while it acts.
					"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "karpenter.sh/do-not-disrupt": "true",
					// And be alone: its Job does not end as long as what a mesh puts beside it, which never does.
					"linkerd.io/inject": "disabled", "consul.hashicorp.com/connect-inject": "false",
				}},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, ServiceAccountName: at.Name, EnableServiceLinks: ptr.To(false),
					NodeSelector: template.NodeSelector, Tolerations: template.Tolerations, PriorityClassName: template.PriorityClassName,
					SecurityContext: &corev1.PodSecurityContext{
						RunAsNonRoot: ptr.To(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
					Containers: []corev1.Container{a.container(task, template)},
				},
			},
		},
	}
	job.Annotations = annotations
	maps.Copy(job.Spec.Template.Labels, map[string]string{"sidecar.istio.io/inject": "false", "kuma.io/sidecar-injection": "disabled"})
	for _, secret := range a.pull {
		job.Spec.Template.Spec.ImagePullSecrets = append(job.Spec.Template.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: secret})
	}
	if a.reached.credentials {
		job.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "connector", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: at.Name}}}}
	}
	return job
}

func (a attempt) container(task runner.Task, template *v1alpha1.RunnerTemplate) corev1.Container {
	c := corev1.Container{
		Name: containerName, Image: a.image, Args: append([]string{"runner"}, task.Args()...),
		Env: []corev1.EnvVar{
			{Name: runner.EnvParameters, Value: string(task.Parameters)},
			{Name: runner.EnvNode, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "spec.nodeName"}}},
			{Name: runner.EnvManagerNode, Value: task.ManagerNode},
			{Name: runner.EnvManagerNamespace, Value: task.ManagerNamespace},
		},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("64Mi")}},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
	if of := template.Resources; of != nil {
		c.Resources = corev1.ResourceRequirements{Requests: corev1.ResourceList(of.Requests), Limits: corev1.ResourceList(of.Limits)}
	}
	if a.reached.credentials {
		c.VolumeMounts = []corev1.VolumeMount{{Name: "connector", MountPath: credentialsPath, ReadOnly: true}}
	}
	return c
}

// restorePoint is the ConfigMap that a runner keeps the restore point in, before it has written anything.
func (a attempt) restorePoint() (*corev1.ConfigMap, error) {
	target, err := json.Marshal(a.target)
	if err != nil {
		return nil, fmt.Errorf("writing target %s: %w", a.target.Name, err)
	}
	key := client.ObjectKeyFromObject(a.plan)
	at := a.point(a.target.Name)
	point := &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: at.Namespace, Name: at.Name, Finalizers: []string{v1alpha1.FinalizerRestorePoint},
			Labels: map[string]string{labelRestorePoint: keyLabel(key), v1alpha1.LabelTarget: a.target.Name, v1alpha1.LabelCycle: fmt.Sprint(a.cycle.ID)},
			Annotations: map[string]string{
				v1alpha1.AnnotationOwner:   key.String(),
				runner.AnnotationExecution: a.name().Name, annotationNamespaces: strings.Join(a.reached.namespaces, ","),
				annotationPlanUID: string(a.plan.UID),
			},
		},
		Data: map[string]string{keyTarget: string(target)},
	}
	if a.reached.credentials {
		point.Annotations[annotationConnector] = a.access.Version
	}
	return point, nil
}

// putBack is what to do about a restore point that is another.
const putBack = ": put its ConfigMap back as it was, or, to wake it by this one, "

// other says in what a restore point is not the one that the attempt before has left; empty if it is: somebody has brought it back over
// the one that there was, and what that says of the target is not known any more. Where an attempt has not said how it ended, what it has
// left is not known either, but for its cycle. One that the attempt would be the first to make may have been there before: of that the
// runner sees what still sleeps.
func (a attempt) other(point *corev1.ConfigMap) string {
	if point == nil || !a.execution.Kept {
		return ""
	}
	of := point.Labels[v1alpha1.LabelCycle]
	id, err := strconv.ParseInt(of, 10, 64)
	switch left := a.execution.RestoreChecksum; {
	case err == nil && id < a.cycle.ID && point.Annotations[annotationPlanUID] == string(a.plan.UID):
		return fmt.Sprintf("of cycle %s, and it sleeps by that of cycle %d", of, a.cycle.ID) + putBack + "delete the plan with deletionPolicy Leave and create it again"
	case left != "" && left != checksum(point):
		return "not as the last attempt has left it" + putBack + "annotate the plan with " + v1alpha1.AnnotationRetryNow
	}
	return ""
}

// bare is a typed object as it is written: without a status, and without times that it does not have yet.
func bare(o client.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("building %T: %w", o, err)
	}
	u := &unstructured.Unstructured{Object: content}
	delete(u.Object, "status")
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(u.Object, "spec", "template", "metadata", "creationTimestamp")
	return u, nil
}
