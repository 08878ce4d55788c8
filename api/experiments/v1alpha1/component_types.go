package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Component is a reusable piece of what Experiments deploy: where its sources are, how Helm
// renders them and which parameters it takes.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=lcomp,categories=labkeeper
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Used By",type=integer,JSONPath=`.status.usedBy`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Description",type=string,priority=1,JSONPath=`.spec.description`
type Component struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the Component deploys.
	// +required
	Spec ComponentSpec `json:"spec"`
	// status is what was seen last.
	// +optional
	// +structType=atomic
	Status ComponentStatus `json:"status,omitempty"`
}

// ComponentStatus is what was seen last of a Component.
type ComponentStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// usedBy is how many Experiments name the Component. It is up to a second late.
	// +optional
	UsedBy int32 `json:"usedBy"`
	// conditions is Ready: the Component can be deployed on every target, whatever its sources have.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ComponentList is a list of Components.
// +kubebuilder:object:root=true
type ComponentList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Component `json:"items"`
}

// ComponentType is the kind of thing a Component deploys.
// +kubebuilder:validation:Enum=app;workflow;config
type ComponentType string

const (
	// ComponentApp is a workload.
	ComponentApp ComponentType = "app"
	// ComponentWorkflow is what a workflow needs on the target, such as templates.
	ComponentWorkflow ComponentType = "workflow"
	// ComponentConfig is configuration.
	ComponentConfig ComponentType = "config"
)

// ComponentSpec is what a Component deploys.
type ComponentSpec struct {
	// type must be that of the reference: app, workflow or config.
	// +required
	Type ComponentType `json:"type"`
	// description says what the Component is.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Description string `json:"description,omitempty"`
	// sources are where the manifests come from, as in an Argo CD Application.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Sources []ComponentSource `json:"sources"`
	// parameters that references may set.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Parameters []ComponentParameter `json:"parameters,omitempty"`
	// observability says how the Component's metrics are collected on targets whose
	// observability is enabled.
	// +optional
	Observability *ComponentObservability `json:"observability,omitempty"`
}

// ComponentSource is a Git folder, a Helm chart in a Git folder, a chart in a Helm
// repository, or (with neither path nor chart) a Git repository that only holds values
// files of the other sources, which name it $values.
// +kubebuilder:validation:XValidation:rule="!(has(self.path) && has(self.chart))",message="sources: path is for Git repositories and chart for Helm repositories; set one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.chart) || (self.targetRevision != 'HEAD' && self.targetRevision.size() > 0)",message="sources: a chart has no HEAD; set targetRevision to its version, such as 1.2.3 or ^1.2"
// +kubebuilder:validation:XValidation:rule="!has(self.helm) || has(self.path) || has(self.chart)",message="sources: helm needs a chart: set path or chart"
type ComponentSource struct {
	// repoURL of the Git or Helm repository, without a password or token: Argo CD has the credentials.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="!self.matches('://[^/?#@]*:[^/?#]*@|^(?i:https?)://(gh[opsru]_|github_pat_|glpat-)[^/?#]*@')",message="repoURL: everybody could read a password or token in it; remove it, and give the repository's credentials to Argo CD",reason=FieldValueForbidden
	RepoURL string `json:"repoURL"`
	// targetRevision is a branch, tag or commit, or the version of a chart.
	// +optional
	// +kubebuilder:default=HEAD
	// +kubebuilder:validation:MaxLength=253
	TargetRevision string `json:"targetRevision,omitempty"`
	// path of the folder in a Git repository.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Path string `json:"path,omitempty"`
	// chart in a Helm repository.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Chart string `json:"chart,omitempty"`
	// helm says how the chart is rendered.
	// +optional
	Helm *HelmSource `json:"helm,omitempty"`
}

// HelmSource says how a chart is rendered.
type HelmSource struct {
	// releaseName of the chart. Default: the Application's name, with r- before it where that begins with a digit, because
	// charts call Services by it.
	// +optional
	// +kubebuilder:validation:MaxLength=53
	ReleaseName string `json:"releaseName,omitempty"`
	// valuesFiles in order; one that begins with $values/ is in the Component's source
	// that has neither path nor chart.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=1024
	ValuesFiles []string `json:"valuesFiles,omitempty"`
	// parameters override values.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Parameters []HelmParameter `json:"parameters,omitempty"`
}

// HelmParameter overrides one value of a chart.
type HelmParameter struct {
	// name is the path of the value, such as service.type.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// value of the parameter, as Argo CD and Helm read it: $ begins a variable, \ escapes, and {a,b} is a list.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Value string `json:"value,omitempty"`
	// forceString keeps numbers and booleans strings.
	// +optional
	ForceString bool `json:"forceString,omitempty"`
}

// ParameterType is the type of a parameter's value.
// +kubebuilder:validation:Enum=string;integer;number;boolean
type ParameterType string

const (
	// ParameterString is any text; Helm is told not to read it as anything else.
	ParameterString ParameterType = "string"
	// ParameterInteger is a whole number of 64 bits.
	ParameterInteger ParameterType = "integer"
	// ParameterNumber is a number. One that is not whole is text for Helm at a position in a list (a[0]).
	ParameterNumber ParameterType = "number"
	// ParameterBoolean is true or false.
	ParameterBoolean ParameterType = "boolean"
)

// ParameterSource is something that the manager knows of the target that a Component is deployed on.
// +kubebuilder:validation:Enum=Experiment;ExperimentNamespace;Target;Namespace;SharedCluster;MetricsURL;MetricsTenant;MetricsSecret;MetricsService;MetricsHost;MetricsPort;MetricsProxy;TailnetSecret;MonitorName;MonitorService;MonitorPods;MonitorPodLabels;MonitorPath;MonitorPort
type ParameterSource string

// What there is on every target.
const (
	// FromExperiment is the name of the Experiment.
	FromExperiment ParameterSource = "Experiment"
	// FromExperimentNamespace is its namespace.
	FromExperimentNamespace ParameterSource = "ExperimentNamespace"
	// FromTarget is the name of the target.
	FromTarget ParameterSource = "Target"
	// FromNamespace is the namespace on the cluster that the components are deployed into.
	FromNamespace ParameterSource = "Namespace"
	// FromSharedCluster is true where the cluster is there for others, too: the hub, or one of type existing or clusterRef.
	FromSharedCluster ParameterSource = "SharedCluster"
)

// What there is on targets whose observability is enabled.
const (
	// FromMetricsURL is where metrics are sent by Prometheus remote write.
	FromMetricsURL ParameterSource = "MetricsURL"
	// FromMetricsTenant is whose they are, for the header X-Scope-OrgID.
	FromMetricsTenant ParameterSource = "MetricsTenant"
	// FromMetricsSecret is, for transport direct, the name of a Secret with credentials for MetricsURL, in the
	// namespace of the components.
	FromMetricsSecret ParameterSource = "MetricsSecret"
	// FromMetricsService is, for transport tailscale, the name of the Service that MetricsURL names.
	FromMetricsService ParameterSource = "MetricsService"
	// FromMetricsHost is the full name of the hub's endpoint in the tailnet.
	FromMetricsHost ParameterSource = "MetricsHost"
	// FromMetricsPort is its port.
	FromMetricsPort ParameterSource = "MetricsPort"
	// FromMetricsProxy is a name for the machine in the tailnet by which the cluster reaches it.
	FromMetricsProxy ParameterSource = "MetricsProxy"
	// FromTailnetSecret is the name of a Secret with an OAuth client of the tailnet.
	FromTailnetSecret ParameterSource = "TailnetSecret"
)

// What there is for the Component that makes the monitors of another one (see ComponentObservability).
const (
	// FromMonitorName is the name for its objects.
	FromMonitorName ParameterSource = "MonitorName"
	// FromMonitorService is true if a ServiceMonitor is asked for.
	FromMonitorService ParameterSource = "MonitorService"
	// FromMonitorPods is true if a PodMonitor is asked for.
	FromMonitorPods ParameterSource = "MonitorPods"
	// FromMonitorPodLabels are the labels of the pods, as a=b,c=d.
	FromMonitorPodLabels ParameterSource = "MonitorPodLabels"
	// FromMonitorPath is the path of the metrics.
	FromMonitorPath ParameterSource = "MonitorPath"
	// FromMonitorPort is the port of the metrics.
	FromMonitorPort ParameterSource = "MonitorPort"
)

// ComponentParameter is a Helm parameter that references may set.
type ComponentParameter struct {
	// name is the path of the value, such as service.type.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// type of the value; values of another type are refused, a string stays a string whatever it looks like, and a
	// number is one to the chart, but for a fraction at a position in a list (a[0]), which is text. Without a type
	// Helm decides, and {a,b} is a list, in which \ escapes; any other text arrives as it is.
	// +optional
	Type ParameterType `json:"type,omitempty"`
	// from is what the value is taken from: references cannot set it. What is not there, as MetricsURL on a
	// target without observability, leaves the default.
	// +optional
	From ParameterSource `json:"from,omitempty"`
	// default is used where the reference sets none, or there is nothing to take.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Default *string `json:"default,omitempty"`
	// description says what the parameter does.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Description string `json:"description,omitempty"`
	// required parameters without a default must be set by every reference.
	// +optional
	Required bool `json:"required,omitempty"`
}

// ComponentObservability says how a Component's metrics are collected on targets whose observability is
// enabled: from a port of its pods. A headless Service for them is deployed with it, and what is asked for,
// where the cluster has its kind. All needs podLabels and metricsPort.
type ComponentObservability struct {
	// serviceMonitor generates a ServiceMonitor.
	// +optional
	ServiceMonitor bool `json:"serviceMonitor,omitempty"`
	// podMonitor generates a PodMonitor.
	// +optional
	PodMonitor bool `json:"podMonitor,omitempty"`
	// podLabels select the pods, in the namespace of the components.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	PodLabels map[string]string `json:"podLabels,omitempty"`
	// metricsPath is the path of the metrics. Default /metrics.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	MetricsPath string `json:"metricsPath,omitempty"`
	// metricsPort is the port of the metrics.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	MetricsPort *int32 `json:"metricsPort,omitempty"`
}
