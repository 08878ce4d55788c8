package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Experiment brings clusters up, deploys Components on them in dependency order, runs a
// validation Workflow, records its verdict and takes everything down again.
//
// The targets and the types of their clusters cannot change once clusters may exist: a
// removed target would leave a paid cluster without an owner. Their components may.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=lexp,categories=labkeeper
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Workflow",type=string,JSONPath=`.status.workflow.phase`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Expires",type=string,priority=1,JSONPath=`.status.expiresAt`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.startedAt) || (self.spec.targets.size() == oldSelf.spec.targets.size() && self.spec.targets.all(t, oldSelf.spec.targets.exists(o, o.name == t.name && o.cluster.type == t.cluster.type && has(o.cluster.kubeconfigSecret) == has(t.cluster.kubeconfigSecret) && (!has(o.cluster.kubeconfigSecret) || o.cluster.kubeconfigSecret == t.cluster.kubeconfigSecret) && has(o.cluster.clusterRef) == has(t.cluster.clusterRef) && (!has(o.cluster.clusterRef) || o.cluster.clusterRef == t.cluster.clusterRef) && (has(o.cluster.zone) ? o.cluster.zone : 'us-central1-a') == (has(t.cluster.zone) ? t.cluster.zone : 'us-central1-a') && (has(o.cluster.preemptible) && o.cluster.preemptible) == (has(t.cluster.preemptible) && t.cluster.preemptible) && has(o.cluster.talos) == has(t.cluster.talos) && (!has(o.cluster.talos) || o.cluster.talos.infrastructure == t.cluster.talos.infrastructure && has(o.cluster.talos.talosVersion) == has(t.cluster.talos.talosVersion) && (!has(o.cluster.talos.talosVersion) || o.cluster.talos.talosVersion == t.cluster.talos.talosVersion)))))",message="spec.targets: targets, and of their clusters type, zone, preemptible, kubeconfigSecret, clusterRef, talos.infrastructure and talos.talosVersion cannot change once the Experiment has started, because what is there would stay where it is; delete the Experiment and create another one"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.startedAt) || self.spec.targets.all(t, oldSelf.spec.targets.exists(o, o.name == t.name && has(o.__namespace__) == has(t.__namespace__) && (!has(o.__namespace__) || o.__namespace__ == t.__namespace__) && (has(o.applicationPolicy) && o.applicationPolicy == 'PerComponent') == (has(t.applicationPolicy) && t.applicationPolicy == 'PerComponent') && (!has(o.podSecurity) || has(t.podSecurity))))",message="spec.targets[]: namespace and applicationPolicy cannot change once the Experiment has started, and podSecurity can be changed and not be removed, because what is deployed would stay in the namespace of before, be taken down and deployed again, or keep its label; delete the Experiment and create another one"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.startedAt) || has(self.spec.workflow.__namespace__) == has(oldSelf.spec.workflow.__namespace__) && (!has(self.spec.workflow.__namespace__) || self.spec.workflow.__namespace__ == oldSelf.spec.workflow.__namespace__)",message="spec.workflow.namespace: it cannot change once the Experiment has started; delete it and create another one"
type Experiment struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the Experiment brings up and validates.
	// +required
	Spec ExperimentSpec `json:"spec"`
	// status is what was seen last.
	// +optional
	// +structType=atomic
	Status ExperimentStatus `json:"status,omitempty"`
}

// ExperimentList is a list of Experiments.
// +kubebuilder:object:root=true
type ExperimentList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Experiment `json:"items"`
}

// ExperimentSpec is what an Experiment brings up and validates.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.terminate) || !oldSelf.terminate || has(self.terminate) && self.terminate",message="terminate: it cannot be taken back; delete the Experiment and create it again"
type ExperimentSpec struct {
	// description says what the Experiment is for.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Description string `json:"description,omitempty"`

	// targets are the clusters of the Experiment and what is deployed on each.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(t, !has(t.depends) || t.depends.all(d, d != t.name))",message="depends: a target cannot depend on itself"
	// +kubebuilder:validation:XValidation:rule="self.all(t, !has(t.depends) || t.depends.all(d, self.exists(o, o.name == d)))",message="depends: names a target that is not in spec.targets"
	// +kubebuilder:validation:XValidation:rule="self.all(t, has(t.ttlAfterFinished) || !has(t.depends) || !self.exists(o, has(o.ttlAfterFinished) && o.name in t.depends))",message="ttlAfterFinished: a target stays while others that depend on it do; set it for those, too"
	Targets []Target `json:"targets"`

	// workflow is the Argo Workflow that validates the Experiment once every target is
	// healthy, and whose verdict is the Experiment's.
	// +required
	Workflow WorkflowSpec `json:"workflow"`

	// ttlDays is how many days (24 hours each) after its creation the Experiment is deleted
	// with everything it brought up, whatever its phase; 1 by default.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=365
	TTLDays int32 `json:"ttlDays,omitempty"`

	// ttlAfterFinished is how long after its verdict the Experiment is deleted with everything
	// it brought up, if that is sooner than ttlDays says, as a duration such as 30m; 0s is at once.
	// Default: only ttlDays counts.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(h|m|s)){1,3}$`
	TTLAfterFinished *metav1.Duration `json:"ttlAfterFinished,omitempty"`

	// progressDeadline is how long each stage may take before the Experiment fails.
	// +optional
	ProgressDeadline *ProgressDeadline `json:"progressDeadline,omitempty"`

	// terminate ends the Experiment: everything that it brought up is taken down, and its record
	// stays until its time is over. Without a verdict it has failed. It cannot be taken back.
	// +optional
	Terminate bool `json:"terminate,omitempty"`

	// deletion says what happens when what the Experiment brought up does not go.
	// +optional
	Deletion *Deletion `json:"deletion,omitempty"`

	// suspend stops everything that the manager does for the Experiment but its end: nothing is
	// begun or changed and no Workflow submitted. Clusters that are up stay up, and cost; a
	// Workflow that runs goes on; the time to live does, too, and that of a target. What was on its way
	// has all of its progressDeadline again when it goes on.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// ProgressDeadline is how long the stages of an Experiment may take, as durations such as 45m, at
// least 1m. What is on its way while the spec cannot be acted on, or suspended, has all of its time again when it can.
type ProgressDeadline struct {
	// clusters is how long the cluster of a target may take until it is up and registered; 1h by
	// default.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(h|m|s)){1,3}$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m')",message="clusters: at least 1m"
	Clusters *metav1.Duration `json:"clusters,omitempty"`
	// applications is how long the Application of a target may take until it is healthy. Default:
	// as long as the Experiment lives.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(h|m|s)){1,3}$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m')",message="applications: at least 1m"
	Applications *metav1.Duration `json:"applications,omitempty"`
	// workflow is how long the Workflow may take: Argo Workflows ends it then
	// (activeDeadlineSeconds). One that it has not started in that time, or does not end in the minute
	// after it, fails the Experiment, too. It counts for Workflows that are submitted later. Default: what
	// the template says.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(h|m|s)){1,3}$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m')",message="workflow: at least 1m"
	Workflow *metav1.Duration `json:"workflow,omitempty"`
}

// DeletionPolicy says what becomes of an Experiment whose teardown does not come to its end.
// +kubebuilder:validation:Enum=Release;Block
type DeletionPolicy string

const (
	// DeletionRelease lets the Experiment go, and leaves a ConfigMap with what is left behind.
	DeletionRelease DeletionPolicy = "Release"
	// DeletionBlock keeps the Experiment until everything is gone.
	DeletionBlock DeletionPolicy = "Block"
)

// Deletion says what happens when what an Experiment brought up does not go.
type Deletion struct {
	// deadline is how long the deletion of what the Experiment brought up is tried and waited for,
	// as a duration such as 45m, at least 1m, at most 24h; 30m by default. A Workflow or an Application that
	// does not go holds up what comes after it for a quarter of it at most, and a cluster has at
	// least half of it.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(h|m|s)){1,3}$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('24h')",message="deadline: at least 1m, at most 24h"
	Deadline *metav1.Duration `json:"deadline,omitempty"`
	// policy says what happens then: Release, which is the default, lets the Experiment go, after
	// an Event and a ConfigMap in the manager's namespace that lists what is left behind; Block
	// keeps the Experiment, and goes on.
	// +optional
	Policy DeletionPolicy `json:"policy,omitempty"`
}

// PodSecurity is a level of the Pod Security Standards.
// +kubebuilder:validation:Enum=privileged;baseline;restricted
type PodSecurity string

// ApplicationPolicy says how the components of a target are divided among Applications.
// +kubebuilder:validation:Enum=PerTarget;PerComponent
type ApplicationPolicy string

const (
	// ApplicationPerTarget is one Application with all components of a target.
	ApplicationPerTarget ApplicationPolicy = "PerTarget"
	// ApplicationPerComponent is an Application for each component.
	ApplicationPerComponent ApplicationPolicy = "PerComponent"
)

// Toleration is what an Application may be and be healthy to the Experiment.
// +kubebuilder:validation:Enum=OutOfSync;Degraded
type Toleration string

const (
	// TolerateOutOfSync takes an Application that differs from its sources after it was synced
	// with them, for instance because a webhook changes what is deployed.
	TolerateOutOfSync Toleration = "OutOfSync"
	// TolerateDegraded takes an Application of which something does not work.
	TolerateDegraded Toleration = "Degraded"
)

// Target is one cluster and what is deployed on it.
// +kubebuilder:validation:XValidation:rule="!has(self.__namespace__) || !(self.cluster.type in ['hub', 'existing', 'clusterRef'])",message="namespace: on the hub and on a cluster of type existing or clusterRef, which others share, it cannot be chosen; remove it, or use another type of cluster"
// +kubebuilder:validation:XValidation:rule="!has(self.podSecurity) || self.podSecurity == 'restricted' || self.cluster.type != 'hub'",message="podSecurity: what runs on the hub, which others share, is what --hub-pod-security says, or restricted; use another type of cluster"
// +kubebuilder:validation:XValidation:rule="(has(self.applicationPolicy) && self.applicationPolicy == 'PerComponent') || self.components.size() == 1 || self.components.all(c, !has(c.tolerations))",message="components[].tolerations: several components of one Application cannot be told apart; set applicationPolicy to PerComponent"
type Target struct {
	// name of the target, unique in the Experiment.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self != 'experiment'",message="name: experiment is taken: <name>-name would be the Workflow's parameter experiment-name"
	Name string `json:"name"`

	// cluster is where the components run.
	// +required
	Cluster ClusterSpec `json:"cluster"`

	// components are what is deployed on it.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Components []ComponentRef `json:"components"`

	// applicationPolicy is PerTarget, which is the default: the components are the sources of one
	// Argo CD Application, and deployed together; or PerComponent: each has an Application of its
	// own, which is created when those of the components before it in the list are healthy. It
	// cannot change once the Experiment has started.
	// +optional
	ApplicationPolicy ApplicationPolicy `json:"applicationPolicy,omitempty"`

	// namespace on the target's cluster that the components are deployed into, and that is made for them.
	// Default: the Experiment's name. On the hub or a cluster of type existing or clusterRef, which others share,
	// it is one that is the Experiment's alone, and cannot be chosen. It cannot change once the Experiment has
	// started.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('kube-')",message="namespace: those that begin with kube- are the cluster's own; choose another"
	Namespace string `json:"namespace,omitempty"`

	// podSecurity is the level of the Pod Security Standards that the namespace of the components
	// enforces, for instance privileged for agents that run on every node; on the hub, which others
	// share, restricted alone. Default: what the cluster does, and on the hub what the manager's --hub-pod-security says (baseline).
	// +optional
	PodSecurity PodSecurity `json:"podSecurity,omitempty"`

	// observability ships the target's metrics to the hub.
	// +optional
	Observability *TargetObservability `json:"observability,omitempty"`

	// ttlAfterFinished is how long after the Experiment's verdict this target is taken down, with its
	// cluster, while the others and the record stay, as a duration such as 30m; 0s is at once. It goes after
	// those that depend on it. Neither the annotation experiments.illm.io/extend nor spec.suspend moves it.
	// Default: the target stays as long as the Experiment.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(h|m|s)){1,3}$`
	TTLAfterFinished *metav1.Duration `json:"ttlAfterFinished,omitempty"`

	// depends names the targets that must be healthy before this one is begun.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=31
	// +kubebuilder:validation:items:MaxLength=63
	Depends []string `json:"depends,omitempty"`
}

// ClusterType is where a target's cluster comes from.
// +kubebuilder:validation:Enum=gke;talos;vcluster;hub;existing;clusterRef
type ClusterType string

const (
	// ClusterGKE is a Google Kubernetes Engine cluster, provisioned by a Crossplane claim.
	ClusterGKE ClusterType = "gke"
	// ClusterTalos is a Talos Linux cluster, provisioned by Cluster API.
	ClusterTalos ClusterType = "talos"
	// ClusterVCluster is a virtual cluster, provisioned by Cluster API.
	ClusterVCluster ClusterType = "vcluster"
	// ClusterHub is the cluster that the manager runs on. Nothing is provisioned,
	// registered or deleted.
	ClusterHub ClusterType = "hub"
	// ClusterExisting is a cluster that is there already, by a kubeconfig. It is registered, and
	// neither provisioned nor deleted.
	ClusterExisting ClusterType = "existing"
	// ClusterReferred is a cluster that a Cluster of core.arlon.io stands for, which makes it and registers it
	// with Argo CD. Nothing of it is provisioned, registered or deleted.
	ClusterReferred ClusterType = "clusterRef"
)

// ClusterSpec is a target's cluster. What the type does not need is refused.
// +kubebuilder:validation:XValidation:rule="self.type == 'gke' || !(has(self.zone) || has(self.machineType) || has(self.preemptible) || has(self.diskSizeGb)) && (self.type == 'talos' || !has(self.nodeCount))",message="cluster: zone, machineType, preemptible and diskSizeGb are for type gke alone, and nodeCount for gke and talos, because hub, existing and clusterRef are clusters that others make, vcluster has no machines of its own, and what those of talos are say the templates of talos.infrastructure; remove them, or use another type"
// +kubebuilder:validation:XValidation:rule="self.type == 'vcluster' || !has(self.vcluster)",message="cluster: vcluster is for type vcluster"
// +kubebuilder:validation:XValidation:rule="self.type == 'talos' || !has(self.talos)",message="cluster: talos is for type talos"
// +kubebuilder:validation:XValidation:rule="(self.type == 'existing') == has(self.kubeconfigSecret)",message="cluster: type existing needs kubeconfigSecret, and no other type takes it"
// +kubebuilder:validation:XValidation:rule="(self.type == 'clusterRef') == has(self.clusterRef)",message="cluster: type clusterRef needs clusterRef, and no other type takes it"
type ClusterSpec struct {
	// type says where the cluster comes from.
	// +required
	Type ClusterType `json:"type"`
	// zone of a gke cluster, not its region. Default us-central1-a. It cannot change once the Experiment has started.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]+(-[a-z]+)*[0-9]+-[a-z0-9]+$`
	Zone string `json:"zone,omitempty"`
	// nodeCount is the number of nodes. Default 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	NodeCount *int32 `json:"nodeCount,omitempty"`
	// machineType of a gke cluster's nodes. Default e2-medium.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	MachineType string `json:"machineType,omitempty"`
	// preemptible nodes are cheaper and may be taken away at any time. Default false. It cannot change once the Experiment has
	// started.
	// +optional
	Preemptible *bool `json:"preemptible,omitempty"`
	// diskSizeGb is the size of each node's boot disk in GB. Default 50.
	// +optional
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=65536
	DiskSizeGb *int32 `json:"diskSizeGb,omitempty"`
	// kubeconfigSecret holds the kubeconfig of an existing cluster, in the namespace of the
	// Experiment. The manager must be allowed to read Secrets there.
	// +optional
	KubeconfigSecret *SecretKey `json:"kubeconfigSecret,omitempty"`
	// clusterRef names a Cluster of core.arlon.io/v1 in the namespace of the Experiment. Its condition Ready is
	// waited for. It cannot change once the Experiment has started.
	// +optional
	ClusterRef *ClusterReference `json:"clusterRef,omitempty"`
	// vcluster says how a virtual cluster is made.
	// +optional
	VCluster *VCluster `json:"vcluster,omitempty"`
	// talos says how a Talos Linux cluster is made; nodeCount is the number of its workers.
	// +optional
	Talos *Talos `json:"talos,omitempty"`
}

// ClusterReference names a Cluster of core.arlon.io/v1 in the namespace of the object that names it.
type ClusterReference struct {
	// name of the Cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
}

// Talos says how a Talos Linux cluster is made, by Cluster API.
type Talos struct {
	// kubernetesVersion of the cluster, such as v1.34.1.
	// +required
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^v[0-9]+\.[0-9]+\.[0-9]+([-+][-+.0-9A-Za-z]+)?$`
	KubernetesVersion string `json:"kubernetesVersion"`
	// talosVersion that the configuration of the machines is made for, such as v1.11. Default: that of
	// the providers. It cannot change once the Experiment has started.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^v[0-9]+\.[0-9]+(\.[0-9]+([-+][-+.0-9A-Za-z]+)?)?$`
	TalosVersion string `json:"talosVersion,omitempty"`
	// controlPlanes is the number of machines of the control plane: 1, which is the default, 3 or 5.
	// +optional
	// +kubebuilder:validation:Enum=1;3;5
	ControlPlanes *int32 `json:"controlPlanes,omitempty"`
	// infrastructure is what the cluster is made of. It cannot change once the Experiment has started.
	// +required
	Infrastructure Infrastructure `json:"infrastructure"`
}

// Infrastructure names templates of a Cluster API infrastructure provider, in the namespace of the
// cluster's objects: that of the Experiment, or the manager's --claim-namespace. Each cluster gets copies of
// its own.
type Infrastructure struct {
	// cluster is the template of the provider's cluster, for instance a DockerClusterTemplate.
	// +required
	// +kubebuilder:validation:XValidation:rule="self.kind.endsWith('ClusterTemplate')",message="cluster: its kind must end with ClusterTemplate"
	Cluster TemplateRef `json:"cluster"`
	// machines is the template of the machines, for instance a DockerMachineTemplate.
	// +required
	// +kubebuilder:validation:XValidation:rule="self.kind.endsWith('MachineTemplate')",message="machines: its kind must end with MachineTemplate"
	Machines TemplateRef `json:"machines"`
	// controlPlane is the template of the machines of the control plane. Default: machines.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.kind.endsWith('MachineTemplate')",message="controlPlane: its kind must end with MachineTemplate"
	ControlPlane *TemplateRef `json:"controlPlane,omitempty"`
}

// TemplateRef names a template of a Cluster API infrastructure provider.
type TemplateRef struct {
	// apiVersion of the template: infrastructure.cluster.x-k8s.io/ and its version.
	// +required
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^infrastructure\.cluster\.x-k8s\.io/v[0-9]+((alpha|beta)[0-9]+)?$`
	APIVersion string `json:"apiVersion"`
	// kind of the template.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Z][A-Za-z0-9]*Template$`
	Kind string `json:"kind"`
	// name of the template.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
}

// VCluster says how a virtual cluster is made: by the Helm chart vcluster, on the hub.
type VCluster struct {
	// chartVersion is the version of the chart. Default: that of the Cluster API provider.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^v?[0-9]+\.[0-9]+\.[0-9]+([-+][-+.0-9A-Za-z]+)?$`
	ChartVersion string `json:"chartVersion,omitempty"`
	// values of the chart, as YAML text. They can grant rights on the hub: the manager refuses them
	// unless it runs with --vcluster-values.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	Values string `json:"values,omitempty"`
}

// SecretKey is a key of a Secret in the namespace of the object that names it.
type SecretKey struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
	// key of its data.
	// +optional
	// +kubebuilder:default=kubeconfig
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key string `json:"key,omitempty"`
}

// ComponentRef names a Component by its type: exactly one of app, workflow and config.
// +kubebuilder:validation:XValidation:rule="[has(self.app), has(self.workflow), has(self.config)].filter(x, x).size() == 1",message="components: set exactly one of app, workflow and config"
type ComponentRef struct {
	// app names a Component of type app.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	App string `json:"app,omitempty"`
	// workflow names a Component of type workflow.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Workflow string `json:"workflow,omitempty"`
	// config names a Component of type config.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Config string `json:"config,omitempty"`
	// params are Helm parameters by name; they override the Component's defaults.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() > 0 && k.size() <= 253 && self[k].size() <= 4096)",message="params: a name has 1 to 253 characters and a value at most 4096"
	Params map[string]string `json:"params,omitempty"`
	// tolerations are what the component's Application may be and be healthy all the same:
	// OutOfSync, once it was synced, and Degraded, if Argo CD tells of nothing that is missing or on
	// its way (it tells of single objects only with controller.resource.health.persist). An error of
	// Argo CD's is never tolerated. In a target with several components they need applicationPolicy
	// PerComponent.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	Tolerations []Toleration `json:"tolerations,omitempty"`
}

// Type is the type of the Component that the reference names.
func (r ComponentRef) Type() ComponentType {
	switch {
	case r.App != "":
		return ComponentApp
	case r.Workflow != "":
		return ComponentWorkflow
	default:
		return ComponentConfig
	}
}

// Name is the name of the Component that the reference names.
func (r ComponentRef) Name() string { return r.App + r.Workflow + r.Config }

// String is the reference as it stands in the spec, for example "app nginx".
func (r ComponentRef) String() string { return string(r.Type()) + " " + r.Name() }

// Transport is how a target's metrics reach the hub.
// +kubebuilder:validation:Enum=direct;tailscale
type Transport string

const (
	// TransportDirect sends them to an address that the cluster can reach.
	TransportDirect Transport = "direct"
	// TransportTailscale sends them through a tailnet that the cluster and the hub are both in.
	TransportTailscale Transport = "tailscale"
)

// TargetObservability ships a target's metrics to the hub: by Components that are deployed after those of
// the target, each with an Application of its own, unless it names them itself.
type TargetObservability struct {
	// enabled turns it on.
	// +optional
	Enabled bool `json:"enabled,omitempty"`
	// transport is how the metrics reach the hub: direct, to the manager's --observability-url, or
	// tailscale, through a tailnet. A target on the hub needs none.
	// +optional
	// +kubebuilder:default=direct
	Transport Transport `json:"transport,omitempty"`
	// tenant the metrics belong to (X-Scope-OrgID): letters, digits and !-_.*'(). The annotation
	// experiments.illm.io/metrics-tenants of the Experiment's Namespace lists those that it may be, if it is
	// there.
	// +optional
	// +kubebuilder:validation:MaxLength=150
	Tenant string `json:"tenant,omitempty"`
	// credentialsSecret names a Secret on the target's cluster, in the namespace of the components,
	// which a component of the target brings there: of transport direct the token, or username and
	// password, for the hub; of tailscale client_id and client_secret of an OAuth client. Default: none
	// for direct, operator-oauth for tailscale. Nothing is copied there.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	CredentialsSecret string `json:"credentialsSecret,omitempty"`
}

// OnMissingTemplate says what happens while a WorkflowTemplate does not exist.
// +kubebuilder:validation:Enum=Wait;Suspend
type OnMissingTemplate string

const (
	// MissingTemplateWait waits for the template.
	MissingTemplateWait OnMissingTemplate = "Wait"
	// MissingTemplateSuspend submits a Workflow that waits for a person.
	MissingTemplateSuspend OnMissingTemplate = "Suspend"
)

// CompletionMode is what ends the validation.
// +kubebuilder:validation:Enum=workflow;manual
type CompletionMode string

const (
	// CompletionWorkflow ends with the Workflow.
	CompletionWorkflow CompletionMode = "workflow"
	// CompletionManual ends when a person says so: by resuming the Workflow, whose template
	// waits for that, or by the annotation experiments.illm.io/complete, which is Succeeded or
	// Failed. Without the template, a Workflow that does nothing but wait is submitted.
	CompletionManual CompletionMode = "manual"
)

// Completion is what ends the validation.
type Completion struct {
	// mode is workflow (the Workflow's end) or manual (a person's word).
	// +optional
	// +kubebuilder:default=workflow
	Mode CompletionMode `json:"mode,omitempty"`
}

// WorkflowSpec is the Argo Workflow that validates an Experiment.
type WorkflowSpec struct {
	// template is the name of a WorkflowTemplate in the namespace of the Workflow, or of a
	// ClusterWorkflowTemplate.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Template string `json:"template"`
	// clusterScope says that template is a ClusterWorkflowTemplate.
	// +optional
	ClusterScope bool `json:"clusterScope,omitempty"`
	// namespace of the Workflow: that of the Experiment, if the manager runs with
	// --workflows-anywhere. Default: the manager's --workflow-namespace. It cannot change once the
	// Experiment has started.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace,omitempty"`
	// serviceAccountName is what the Workflow's pods run as: any in the Experiment's own namespace,
	// elsewhere one that the annotation experiments.illm.io/workflow-service-accounts of the
	// Experiment's Namespace lists. Default: the manager's --workflow-service-account.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// onMissingTemplate says what happens while the template does not exist: Wait for it, which
	// is the default, or Suspend: submit a Workflow that does nothing but wait until somebody
	// resumes it.
	// +optional
	OnMissingTemplate OnMissingTemplate `json:"onMissingTemplate,omitempty"`
	// completion is what ends the validation; by default the end of the Workflow.
	// +optional
	// +kubebuilder:default={}
	Completion Completion `json:"completion,omitempty"`
	// params are arguments of the Workflow by name, beside those every Workflow gets:
	// experiment-name, and <target>-name, <target>-endpoint and <target>-namespace of each
	// target. A name that is one of those is refused, and one with anything else than letters, digits, - and _.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() > 0 && k.size() <= 253 && self[k].size() <= 4096)",message="params: a name has 1 to 253 characters and a value at most 4096"
	Params map[string]string `json:"params,omitempty"`
}

// Phase says how far an Experiment has come, for people. It never goes back while the
// Experiment lives; the conditions say what is the matter now.
type Phase string

const (
	// PhasePending: nothing has been brought up yet.
	PhasePending Phase = "Pending"
	// PhaseProvisioning: clusters are being brought up.
	PhaseProvisioning Phase = "Provisioning"
	// PhaseReady: every cluster is up, the applications are becoming healthy.
	PhaseReady Phase = "Ready"
	// PhaseRunning: the validation Workflow is running.
	PhaseRunning Phase = "Running"
	// PhaseComplete: the Workflow succeeded, or a person has said so.
	PhaseComplete Phase = "Complete"
	// PhaseFailed: the Workflow failed, or was deleted before its end; something took longer than
	// spec.progressDeadline says; or spec.terminate has ended the Experiment before a verdict.
	PhaseFailed Phase = "Failed"
	// PhaseDeleting: everything is being taken down.
	PhaseDeleting Phase = "Deleting"
)

// ExperimentStatus is what was seen last of an Experiment and what it brought up.
type ExperimentStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase is Pending, Provisioning, Ready, Running, Complete, Failed or Deleting.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// startedAt is when the spec was first accepted. It is written before anything is
	// brought up; from then on targets and cluster types cannot change.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// namespaces are where the manager keeps this Experiment's objects. They are recorded
	// with startedAt: a manager that is told other ones later would not find them.
	// +optional
	Namespaces *Namespaces `json:"namespaces,omitempty"`
	// completedAt is when the verdict was recorded.
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
	// expiresAt is when the Experiment is deleted (spec.ttlDays after its creation, or
	// spec.ttlAfterFinished after its verdict, and what the annotation
	// experiments.illm.io/extend adds).
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`
	// expiresSoon says that this is within an hour.
	// +optional
	ExpiresSoon bool `json:"expiresSoon,omitempty"`
	// extension is what that annotation adds, or why it is ignored.
	// +optional
	Extension string `json:"extension,omitempty"`
	// targets is the state of each target, in the order of the spec.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Targets []TargetStatus `json:"targets,omitempty"`
	// workflow is the validation Workflow and its verdict. The verdict outlives the
	// Workflow, which Argo Workflows may delete on its own.
	// +optional
	Workflow *WorkflowStatus `json:"workflow,omitempty"`
	// teardown says since when what is being waited for.
	// +optional
	Teardown *TeardownStatus `json:"teardown,omitempty"`
	// conditions are Ready, and what it sums up: Accepted, ComponentsResolved,
	// ClustersReady, ApplicationsHealthy and WorkflowSucceeded; and with spec.terminate CleanedUp.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Namespaces are where the objects of an Experiment are.
type Namespaces struct {
	// claims of clusters.
	Claims string `json:"claims"`
	// argoCD is where Applications and cluster Secrets are.
	ArgoCD string `json:"argoCD"`
	// workflows are in this namespace.
	Workflows string `json:"workflows"`
}

// TeardownStatus says since when a teardown waits for what. The times are those of the manager's clock.
type TeardownStatus struct {
	// startedAt is when the manager first acted on the deletion; spec.deletion.deadline counts from it.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// waitsFor is what was asked to go and is not gone.
	// +optional
	// +listType=map
	// +listMapKey=object
	WaitsFor []Waiting `json:"waitsFor,omitempty"`
	// abandoned are Applications that have gone, or will, without Argo CD having deleted what they deployed.
	// +optional
	// +listType=map
	// +listMapKey=uid
	Abandoned []AbandonedApplication `json:"abandoned,omitempty"`
}

// AbandonedApplication is one that goes, and what it has deployed is not deleted by Argo CD.
type AbandonedApplication struct {
	// application as namespace/name.
	Application string `json:"application"`
	// uid that it had.
	UID types.UID `json:"uid"`
	// target that it deployed.
	Target string `json:"target"`
	// message says why, and what may be left.
	Message string `json:"message"`
}

// Waiting is an object that was asked to go.
type Waiting struct {
	// object as kind, namespace and name, for instance GKECluster lab/app.
	Object string `json:"object"`
	// since is when it was asked.
	Since metav1.Time `json:"since"`
}

// TargetState says how far a target has come.
type TargetState string

const (
	// TargetBlocked: targets it depends on are not healthy yet, or the spec cannot be acted on.
	TargetBlocked TargetState = "Blocked"
	// TargetProvisioning: its cluster is being brought up and registered.
	TargetProvisioning TargetState = "Provisioning"
	// TargetDeploying: its Application is becoming healthy.
	TargetDeploying TargetState = "Deploying"
	// TargetHealthy: its Application is Healthy and Synced.
	TargetHealthy TargetState = "Healthy"
	// TargetDeleting: its time to live is over, and it is being taken down.
	TargetDeleting TargetState = "Deleting"
	// TargetDeleted: nothing is left of it but the record.
	TargetDeleted TargetState = "Deleted"
)

// TargetStatus is what was seen last of a target.
type TargetStatus struct {
	// name of the target.
	Name string `json:"name"`
	// state is Blocked, Provisioning, Deploying or Healthy; and Deleting or Deleted when its own time to live,
	// spec.targets[].ttlAfterFinished, is over.
	// +optional
	State TargetState `json:"state,omitempty"`
	// since is when it came to this state.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// blockedBy names the targets it waits for.
	// +optional
	// +listType=atomic
	BlockedBy []string `json:"blockedBy,omitempty"`
	// cluster is the name of the cluster's object, as namespace/name; of type existing, that of
	// the Secret with its kubeconfig; of type clusterRef, that of the Cluster; empty for hub.
	// +optional
	Cluster string `json:"cluster,omitempty"`
	// endpoint of the cluster's API server.
	// +optional
	Endpoint string `json:"endpoint,omitempty"`
	// namespace on the cluster that the components are deployed into: that of the spec, or the Experiment's
	// name, and on the hub or a cluster of type existing or clusterRef, which others share, one that is the
	// Experiment's alone.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// application is the Argo CD Application of the target's components, as namespace/name; empty where
	// each has one.
	// +optional
	Application string `json:"application,omitempty"`
	// components are the Applications of single components: those of a target with applicationPolicy
	// PerComponent, in the order of the spec, those of observability, and after them those of components
	// that are not wanted any more.
	// +optional
	// +listType=map
	// +listMapKey=name
	Components []TargetComponentStatus `json:"components,omitempty"`
	// message says what the target waits for or what is wrong with it.
	// +optional
	Message string `json:"message,omitempty"`
}

// ComponentState says how far a component has come that has an Application of its own.
type ComponentState string

const (
	// ComponentBlocked: components before it are not healthy yet.
	ComponentBlocked ComponentState = "Blocked"
	// ComponentDeploying: its Application is becoming healthy.
	ComponentDeploying ComponentState = "Deploying"
	// ComponentHealthy: its Application is Healthy and Synced, or what it tolerates.
	ComponentHealthy ComponentState = "Healthy"
	// ComponentRemoving: the spec does not name it any more, and its Application is being deleted.
	ComponentRemoving ComponentState = "Removing"
)

// TargetComponentStatus is what was seen last of a component that has an Application of its own.
type TargetComponentStatus struct {
	// name is the reference to the component, for instance "app nginx".
	Name string `json:"name"`
	// application is its Argo CD Application, as namespace/name.
	Application string `json:"application"`
	// state is Blocked, Deploying, Healthy or Removing.
	State ComponentState `json:"state"`
	// reason says what is the matter with one that is not healthy: a reason of the condition
	// ApplicationsHealthy.
	// +optional
	Reason string `json:"reason,omitempty"`
}

// WorkflowStatus is the validation Workflow and its verdict.
type WorkflowStatus struct {
	// namespace of the Workflow.
	Namespace string `json:"namespace"`
	// name of the Workflow.
	Name string `json:"name"`
	// uid of the Workflow that was submitted. A Workflow that is gone without a verdict was
	// deleted by somebody, unless it was superseded; another one under its name is not ours.
	UID string `json:"uid"`
	// inputs is a hash of the targets, their resolved components and the workflow of the
	// spec as they were when the Workflow was submitted: what it validates.
	// +optional
	Inputs string `json:"inputs,omitempty"`
	// clusters stands for the clusters that it was submitted for, with a hash of what they are made by: one that takes
	// the place of another is another cluster. Empty where all of them are there without the Experiment.
	// +optional
	Clusters string `json:"clusters,omitempty"`
	// superseded says that these are others by now: the Workflow is deleted, and another is submitted in its
	// place when every target is as the spec asks for.
	// +optional
	Superseded bool `json:"superseded,omitempty"`
	// run counts the Workflows: 2 is the one that has taken the place of the first. Each has a name of its
	// own, because Argo Workflows takes pods for a Workflow's by its name, and those of one that was deleted
	// go later than it does.
	// +optional
	Run int32 `json:"run,omitempty"`
	// phase as Argo Workflows reports it: Pending, Running, Succeeded, Failed or Error.
	// +optional
	Phase string `json:"phase,omitempty"`
	// message as Argo Workflows reports it.
	// +optional
	Message string `json:"message,omitempty"`
	// startedAt as Argo Workflows reports it.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// finishedAt as Argo Workflows reports it.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
}
