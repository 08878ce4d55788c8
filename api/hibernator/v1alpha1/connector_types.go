package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// K8SCluster is a cluster that targets are in.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=labkeeper
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.status.clusterType`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
type K8SCluster struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is how the cluster is reached.
	// +required
	Spec K8SClusterSpec `json:"spec"`
	// status is what was seen last.
	// +optional
	// +structType=atomic
	Status ConnectorStatus `json:"status,omitempty"`
}

// K8SClusterList is a list of K8SClusters.
// +kubebuilder:object:root=true
type K8SClusterList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []K8SCluster `json:"items"`
}

// K8SClusterSpec is how a cluster is reached: one of k8s, eks and gke.
//
// +kubebuilder:validation:XValidation:rule="[has(self.k8s), has(self.eks), has(self.gke)].filter(x, x).size() == 1",message="needs exactly one of k8s, eks and gke"
// +kubebuilder:validation:XValidation:rule="has(self.k8s) || has(self.providerRef)",message="eks and gke need providerRef, whose credentials reach them"
type K8SClusterSpec struct {
	// providerRef is the CloudProvider whose credentials reach an eks or gke cluster.
	// +optional
	ProviderRef *ProviderRef `json:"providerRef,omitempty"`
	// k8s is any cluster, by a kubeconfig, or the manager's own.
	// +optional
	K8S *K8SAccess `json:"k8s,omitempty"`
	// eks is a cluster of Amazon EKS.
	// +optional
	EKS *EKSAccess `json:"eks,omitempty"`
	// gke is a cluster of Google Kubernetes Engine.
	// +optional
	GKE *GKEAccess `json:"gke,omitempty"`
}

// ProviderRef is a CloudProvider.
type ProviderRef struct {
	// name of the CloudProvider.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// namespace of it; without it that of the K8SCluster.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// K8SAccess is a kubeconfig, or the manager's own cluster.
//
// +kubebuilder:validation:XValidation:rule="(has(self.inCluster) && self.inCluster) != has(self.kubeconfigRef)",message="needs kubeconfigRef or inCluster: true, and not both"
type K8SAccess struct {
	// kubeconfigRef is the Secret with the kubeconfig.
	// +optional
	KubeconfigRef *SecretRef `json:"kubeconfigRef,omitempty"`
	// inCluster is the cluster that the manager runs in.
	// +optional
	InCluster bool `json:"inCluster,omitempty"`
}

// SecretRef is a Secret.
type SecretRef struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
	// namespace of the Secret: that of the connector, or another that names it in annotation
	// hibernator.ardikabs.com/allowed-namespaces of the Secret.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`
	Namespace string `json:"namespace,omitempty"`
	// key in the Secret. Default: kubeconfig, or value, whichever there is.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// EKSAccess is a cluster of Amazon EKS.
type EKSAccess struct {
	// name of the cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	Name string `json:"name"`
	// region of the cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Region string `json:"region"`
}

// GKEAccess is a cluster of Google Kubernetes Engine.
type GKEAccess struct {
	// name of the cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name"`
	// project of the cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Project string `json:"project"`
	// location of the cluster: a zone or a region.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Location string `json:"location"`
}

// ConnectorStatus is what was seen last of a connector.
type ConnectorStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// ready says that the connector was used with success.
	// +optional
	Ready bool `json:"ready"`
	// message of condition Ready.
	// +optional
	Message string `json:"message,omitempty"`
	// lastValidated is when it was.
	// +optional
	LastValidated *metav1.Time `json:"lastValidated,omitempty"`
	// clusterType: k8s, eks, gke; empty for a CloudProvider.
	// +optional
	ClusterType string `json:"clusterType,omitempty"`
	// version of the cluster, as it says itself.
	// +optional
	Version string `json:"version,omitempty"`
	// conditions: Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// CloudProvider is an account of a cloud.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=labkeeper
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
type CloudProvider struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is how the account is reached.
	// +required
	Spec CloudProviderSpec `json:"spec"`
	// status is what was seen last.
	// +optional
	// +structType=atomic
	Status ConnectorStatus `json:"status,omitempty"`
}

// CloudProviderList is a list of CloudProviders.
// +kubebuilder:object:root=true
type CloudProviderList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CloudProvider `json:"items"`
}

// CloudProviderSpec is how an account is reached.
//
// +kubebuilder:validation:XValidation:rule="self.type != 'aws' || has(self.aws)",message="type aws needs aws"
type CloudProviderSpec struct {
	// type of the cloud.
	// +required
	// +kubebuilder:validation:Enum=aws
	Type string `json:"type"`
	// aws is an account of Amazon Web Services.
	// +optional
	AWS *AWSAccess `json:"aws,omitempty"`
}

// AWSAccess is an account of Amazon Web Services.
type AWSAccess struct {
	// accountId of twelve digits.
	// +required
	// +kubebuilder:validation:Pattern=`^[0-9]{12}$`
	AccountID string `json:"accountId"`
	// region of the resources.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Region string `json:"region"`
	// assumeRoleArn is a role that is taken on.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	AssumeRoleARN string `json:"assumeRoleArn,omitempty"`
	// auth is by whom.
	// +required
	Auth AWSAuth `json:"auth"`
}

// AWSAuth is one of two ways to log in.
//
// +kubebuilder:validation:XValidation:rule="has(self.serviceAccount) != has(self.static)",message="needs serviceAccount or static, and not both"
type AWSAuth struct {
	// serviceAccount logs in by the ServiceAccount of the runner (IRSA).
	// +optional
	ServiceAccount *AWSServiceAccount `json:"serviceAccount,omitempty"`
	// static logs in by keys.
	// +optional
	Static *AWSStatic `json:"static,omitempty"`
}

// AWSServiceAccount logs in by the ServiceAccount of the runner.
type AWSServiceAccount struct {
	// annotations that the ServiceAccount is to get, for instance eks.amazonaws.com/role-arn. No executor uses a
	// CloudProvider yet.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// AWSStatic logs in by keys.
type AWSStatic struct {
	// secretRef is the Secret with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, where there is one, AWS_SESSION_TOKEN.
	// +required
	SecretRef SecretRef `json:"secretRef"`
}

// Reasons of condition Ready of a connector.
const (
	// ReasonValidated: it was used with success.
	ReasonValidated = "Validated"
	// ReasonNoChecker: nothing here can use it yet.
	ReasonNoChecker = "NoChecker"
	// ReasonUnreachable: it does not answer.
	ReasonUnreachable = "Unreachable"
	// ReasonUnauthorized: it does not take the credentials.
	ReasonUnauthorized = "Unauthorized"
	// ReasonKubeconfigMissing: the Secret, or its key, is not there.
	ReasonKubeconfigMissing = "KubeconfigMissing"
	// ReasonKubeconfigInvalid: it is no kubeconfig, or one that runs programs or reads files.
	ReasonKubeconfigInvalid = "KubeconfigInvalid"
)

// ReasonConnectorMissing is why a plan cannot use a connector that is not there.
const ReasonConnectorMissing = "ConnectorMissing"
