package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ExperimentDeployment is a smaller twin of a workload, with overrides, behind the Services of its source.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=expdep,categories=labkeeper
// +kubebuilder:printcolumn:name="Source",type=string,JSONPath=`.spec.sourceRef.name`
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.sourceRef.kind`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="Shared",type=string,JSONPath=`.status.conditions[?(@.type=="ServiceShared")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
type ExperimentDeployment struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is asked for.
	// +required
	Spec ExperimentDeploymentSpec `json:"spec"`
	// status is what was seen last.
	// +optional
	// +structType=atomic
	Status ExperimentDeploymentStatus `json:"status,omitempty"`
}

// ExperimentDeploymentList is a list of ExperimentDeployments.
// +kubebuilder:object:root=true
type ExperimentDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ExperimentDeployment `json:"items"`
}

// ExperimentDeploymentSpec is what is asked for.
type ExperimentDeploymentSpec struct {
	// sourceRef is the workload that the twin is one of.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="sourceRef cannot be changed: the twin is one of that workload; create another ExperimentDeployment"
	SourceRef SourceRef `json:"sourceRef"`

	// replicas of the twin. Without it those of overrideSpec, or 1; 0 is a twin without pods.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	Replicas *int32 `json:"replicas,omitempty"`

	// overrideSpec is a part of the spec of the source's kind, which is merged into the source's: objects merge,
	// anything else replaces what the source has, lists as a whole, and null deletes. With a list of containers,
	// what the source changes of them later is not followed; mergeStrategy Strategic merges them by their names.
	// +required
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	OverrideSpec apiextensionsv1.JSON `json:"overrideSpec"`

	// mergeStrategy says how. Replace is RFC 7386; Strategic merges lists that have keys (containers, env, ports,
	// volumes) by them, as kubectl patch does; of a Rollout only in its template.
	// +optional
	// +kubebuilder:default=Replace
	MergeStrategy MergeStrategy `json:"mergeStrategy,omitempty"`

	// sourcePolicy says what becomes of the twin when the template of the source changes: Follow brings it to that,
	// Pinned leaves it with what the source had when the twin was made.
	// +optional
	// +kubebuilder:default=Follow
	SourcePolicy SourcePolicy `json:"sourcePolicy,omitempty"`

	// onSourceDeleted says what becomes of the twin when its source is deleted: Keep leaves it as it is, Delete takes
	// it down until there is such a source again.
	// +optional
	// +kubebuilder:default=Keep
	OnSourceDeleted SourceDeletedAction `json:"onSourceDeleted,omitempty"`

	// onUnready says what becomes of a twin whose pods are not ready for long: they count for autoscalers and
	// disruption budgets of the source. Without it they are scaled to zero after ten minutes.
	// +optional
	OnUnready *OnUnready `json:"onUnready,omitempty"`

	// ttl is how long the ExperimentDeployment lives from its creation. Without it, it stays.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="ttl must be longer than 0s"
	TTL *metav1.Duration `json:"ttl,omitempty"`

	// allowLabelOverride lets overrideSpec change labels that Services of the source select: the twin is not behind
	// those then.
	// +optional
	AllowLabelOverride bool `json:"allowLabelOverride,omitempty"`

	// dryRun makes no twin, and puts into status.diff what it would have that the source does not have. A twin that there is
	// stays as it is, and keeps its pods, whatever onUnready says.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`
}

// SourceRef is a workload.
type SourceRef struct {
	// kind of the workload.
	// +required
	// +kubebuilder:validation:Enum=Deployment;StatefulSet;Rollout
	Kind string `json:"kind"`
	// name of the workload.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
	// namespace of the workload, where the twin is, too. Another than that of the ExperimentDeployment must name
	// that in its annotation experiment-controller.example.com/allowed-namespaces.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`
	Namespace string `json:"namespace,omitempty"`
}

// MergeStrategy says how an override is merged.
// +kubebuilder:validation:Enum=Replace;Strategic
type MergeStrategy string

const (
	// MergeReplace replaces lists.
	MergeReplace MergeStrategy = "Replace"
	// MergeStrategic merges lists by their keys.
	MergeStrategic MergeStrategy = "Strategic"
)

// SourcePolicy says what a twin makes of changes of its source.
// +kubebuilder:validation:Enum=Follow;Pinned
type SourcePolicy string

const (
	// SourceFollow brings the twin to the source's template.
	SourceFollow SourcePolicy = "Follow"
	// SourcePinned leaves the twin with the template that it was made with.
	SourcePinned SourcePolicy = "Pinned"
)

// SourceDeletedAction is what becomes of a twin without a source.
// +kubebuilder:validation:Enum=Keep;Delete
type SourceDeletedAction string

const (
	// SourceDeletedKeep leaves it.
	SourceDeletedKeep SourceDeletedAction = "Keep"
	// SourceDeletedDelete takes it down.
	SourceDeletedDelete SourceDeletedAction = "Delete"
)

// OnUnready is what happens to a twin whose pods are not ready.
type OnUnready struct {
	// after so long, 10s at least; 0s is 10m.
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:XValidation:rule="duration(self) == duration('0s') || duration(self) >= duration('10s')",message="after must be at least 10s"
	After metav1.Duration `json:"after,omitempty"`
	// action: ScaleToZero, until the override or the source changes, or Keep.
	// +optional
	// +kubebuilder:default=ScaleToZero
	Action UnreadyAction `json:"action,omitempty"`
}

// UnreadyAction is what is done about a twin that is not ready.
// +kubebuilder:validation:Enum=ScaleToZero;Keep
type UnreadyAction string

const (
	// UnreadyScaleToZero takes its pods away.
	UnreadyScaleToZero UnreadyAction = "ScaleToZero"
	// UnreadyKeep leaves it.
	UnreadyKeep UnreadyAction = "Keep"
)

// ExperimentDeploymentStatus is what was seen last.
type ExperimentDeploymentStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// experimentResourceRef is the twin.
	// +optional
	ExperimentResourceRef *ResourceRef `json:"experimentResourceRef,omitempty"`
	// replicas that the twin has.
	// +optional
	Replicas int32 `json:"replicas"`
	// readyReplicas of the twin.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// sourceGeneration is that of the source which the twin was built from; what of the source changes later
	// and is no part of the twin does not count.
	// +optional
	SourceGeneration int64 `json:"sourceGeneration,omitempty"`
	// templateHash of the twin's pod template as it was wanted.
	// +optional
	TemplateHash string `json:"templateHash,omitempty"`
	// pinnedHash is that of the spec of the source which is kept (sourcePolicy Pinned): what has another one is not what was kept.
	// +optional
	PinnedHash string `json:"pinnedHash,omitempty"`
	// twinGeneration is that of the twin after it was written last: another one is drift.
	// +optional
	TwinGeneration int64 `json:"twinGeneration,omitempty"`
	// unreadySince is since when the twin has not been ready for longer than a moment: first its creation, or when another
	// spec was written to it; where it is ready, since when it was not before.
	// +optional
	UnreadySince *metav1.Time `json:"unreadySince,omitempty"`
	// scaledToZero says of which spec the pods were taken away, because they were not ready, and since when.
	// +optional
	ScaledToZero *ScaledToZero `json:"scaledToZero,omitempty"`
	// services that select the pods of the source.
	// +optional
	// +listType=map
	// +listMapKey=name
	Services []ServiceStatus `json:"services,omitempty"`
	// diff is what the twin would have that the source does not have, with dryRun: at most 8 kB, and values that may
	// be secrets are not shown.
	// +optional
	Diff string `json:"diff,omitempty"`
	// expiresAt is when the ExperimentDeployment is deleted.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`
	// conditions: Ready, which sums up Accepted, SourceFound, TwinReady; and ServiceShared,
	// AutoscalerInterference, DisruptionInterference, SourceSelectorOverlap and Warnings, which tell of what else
	// there is.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ResourceRef is an object.
type ResourceRef struct {
	// kind of the object.
	Kind string `json:"kind"`
	// name of the object.
	Name string `json:"name"`
	// namespace of the object.
	Namespace string `json:"namespace"`
	// uid of the object.
	// +optional
	UID types.UID `json:"uid,omitempty"`
}

// ScaledToZero is a twin without pods.
type ScaledToZero struct {
	// wantedHash of the spec whose pods were not ready.
	WantedHash string `json:"wantedHash"`
	// at is when they were taken away.
	At metav1.Time `json:"at"`
}

// ServiceStatus is a Service that selects the source's pods.
type ServiceStatus struct {
	// name of the Service.
	Name string `json:"name"`
	// shared says that it sends the twin's pods traffic, too.
	Shared bool `json:"shared"`
	// reason why not.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message why not, or what of it the twin does not get.
	// +optional
	Message string `json:"message,omitempty"`
}
