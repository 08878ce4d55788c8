package v1alpha1

// Condition types of an Experiment. Every one is present from the first pass on.
const (
	// ConditionReady sums the others up: True when the Experiment is Complete, else the
	// reason and message of the first of them that is not True.
	ConditionReady = "Ready"
	// ConditionAccepted is True when the spec can be acted on.
	ConditionAccepted = "Accepted"
	// ConditionComponentsResolved is True when every reference names a Component, or falls
	// back to the convention path.
	ConditionComponentsResolved = "ComponentsResolved"
	// ConditionClustersReady is True when the cluster of every target is up and registered
	// with Argo CD.
	ConditionClustersReady = "ClustersReady"
	// ConditionApplicationsHealthy is True when the Application of every target is Healthy
	// and Synced at its current sources.
	ConditionApplicationsHealthy = "ApplicationsHealthy"
	// ConditionWorkflowSucceeded is True when the validation Workflow succeeded.
	ConditionWorkflowSucceeded = "WorkflowSucceeded"
	// ConditionCleanedUp is there when spec.terminate has ended the Experiment, and True when
	// everything that it brought up is gone. Ready does not sum it up.
	ConditionCleanedUp = "CleanedUp"
)

// Reasons shared by the conditions of an Experiment.
const (
	// ReasonPending: an earlier step comes first.
	ReasonPending = "Pending"
	// ReasonDeleting: the Experiment is being taken down.
	ReasonDeleting = "Deleting"
	// ReasonCRDMissing: a kind that the step needs is not installed on the cluster.
	ReasonCRDMissing = "CRDMissing"
	// ReasonWatchNotSynced: a kind that the step needs is installed and its watch has brought
	// nothing yet, most often because the manager may not list it.
	ReasonWatchNotSynced = "WatchNotSynced"
	// ReasonForbidden: the manager may not do what the step needs.
	ReasonForbidden = "Forbidden"
	// ReasonRejected: the API server refuses an object as invalid.
	ReasonRejected = "Rejected"
	// ReasonNameTaken: an object that is not this Experiment's has the name its own needs.
	ReasonNameTaken = "NameTaken"
	// ReasonContended: somebody changes or deletes an object of the Experiment again and again, and it is put right once a minute.
	ReasonContended = "Contended"
	// ReasonReconcileError: a call failed and is tried again with growing delays.
	ReasonReconcileError = "ReconcileError"
)

// Reasons of ConditionAccepted.
const (
	// ReasonAccepted: the spec can be acted on.
	ReasonAccepted = "Accepted"
	// ReasonInvalidSpec: the spec contradicts itself; the message names the field.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonDependencyCycle: targets depend on each other in a circle.
	ReasonDependencyCycle = "DependencyCycle"
	// ReasonNamespacesChanged: the manager was told other namespaces after the Experiment was
	// begun.
	ReasonNamespacesChanged = "NamespacesChanged"
	// ReasonSuspended: spec.suspend stops everything.
	ReasonSuspended = "Suspended"
	// ReasonNotConfigured: the spec asks for what the manager has not been told enough for; the message
	// names its flag.
	ReasonNotConfigured = "NotConfigured"
	// ReasonNotSupportedYet: the spec asks for what this version does not do.
	ReasonNotSupportedYet = "NotSupportedYet"
)

// Reasons of ConditionComponentsResolved.
const (
	// ReasonResolved: every reference names a Component.
	ReasonResolved = "Resolved"
	// ReasonComponentFallback: no Component of that name exists; the convention path of the
	// components repository is used.
	ReasonComponentFallback = "ComponentFallback"
	// ReasonComponentNotFound: no Component of that name exists and there is no fallback.
	ReasonComponentNotFound = "ComponentNotFound"
	// ReasonComponentTypeMismatch: the Component has another type than the reference says.
	ReasonComponentTypeMismatch = "ComponentTypeMismatch"
	// ReasonInvalidParameters: parameters are missing, of the wrong type, or have no Helm
	// source to go to.
	ReasonInvalidParameters = "InvalidParameters"
	// ReasonInvalidComponent: the Component's own sources cannot be deployed as they are.
	ReasonInvalidComponent = "InvalidComponent"
)

// Reasons of ConditionClustersReady.
const (
	// ReasonClustersReady: every cluster is up and registered.
	ReasonClustersReady = "ClustersReady"
	// ReasonClusterProvisioning: a cluster is being brought up.
	ReasonClusterProvisioning = "ClusterProvisioning"
	// ReasonClusterFailed: the provider reports an error; it may still recover.
	ReasonClusterFailed = "ClusterFailed"
	// ReasonClusterTemplateNotFound: a template that the cluster is to be made of does not exist.
	ReasonClusterTemplateNotFound = "ClusterTemplateNotFound"
	// ReasonClusterNotFound: the Cluster that the target names does not exist.
	ReasonClusterNotFound = "ClusterNotFound"
	// ReasonClusterNotRegistered: the Cluster that the target names is Ready, and Argo CD knows it by no Secret, or
	// by what cannot be used.
	ReasonClusterNotRegistered = "ClusterNotRegistered"
	// ReasonKubeconfigMissing: the cluster is up and its kubeconfig Secret is not there.
	ReasonKubeconfigMissing = "KubeconfigMissing"
	// ReasonKubeconfigInvalid: Argo CD cannot be given what the kubeconfig says.
	ReasonKubeconfigInvalid = "KubeconfigInvalid"
	// ReasonDependencyNotHealthy: a target waits for those it depends on.
	ReasonDependencyNotHealthy = "DependencyNotHealthy"
)

// Reasons of ConditionApplicationsHealthy.
const (
	// ReasonApplicationsHealthy: every Application is Healthy and Synced.
	ReasonApplicationsHealthy = "ApplicationsHealthy"
	// ReasonApplicationProgressing: an Application is on its way.
	ReasonApplicationProgressing = "ApplicationProgressing"
	// ReasonApplicationDegraded: an Application's health is Degraded.
	ReasonApplicationDegraded = "ApplicationDegraded"
	// ReasonApplicationMissing: what an Application deploys is not on its cluster.
	ReasonApplicationMissing = "ApplicationMissing"
	// ReasonApplicationError: Argo CD cannot render or sync an Application.
	ReasonApplicationError = "ApplicationError"
)

// Reasons of the condition Ready of a Component, beside those of ConditionComponentsResolved.
const (
	// ReasonWellFormed: the Component can be deployed, whatever its sources have.
	ReasonWellFormed = "WellFormed"
	// ReasonInUse: the Component is to be deleted, and Experiments name it.
	ReasonInUse = "InUse"
)

// Reasons of ConditionWorkflowSucceeded.
const (
	// ReasonWorkflowSucceeded: the Workflow succeeded.
	ReasonWorkflowSucceeded = "WorkflowSucceeded"
	// ReasonWorkflowRunning: the Workflow is submitted and has no verdict yet.
	ReasonWorkflowRunning = "WorkflowRunning"
	// ReasonWorkflowFailed: the Workflow's phase is Failed.
	ReasonWorkflowFailed = "WorkflowFailed"
	// ReasonWorkflowError: the Workflow's phase is Error: Argo Workflows could not run it.
	ReasonWorkflowError = "WorkflowError"
	// ReasonWorkflowDeleted: the Workflow was deleted before its verdict.
	ReasonWorkflowDeleted = "WorkflowDeleted"
	// ReasonWorkflowOutdated: what the Workflow validates is not what the spec and its Components say now;
	// it is deleted, and another submitted in its place.
	ReasonWorkflowOutdated = "WorkflowOutdated"
	// ReasonVerdictTooEarly: a verdict by hand was given before there was a Workflow.
	ReasonVerdictTooEarly = "VerdictTooEarly"
	// ReasonTargetsNotSettled: the Workflow succeeded, and a cluster or Application that it
	// validated is not up, is being deleted or is being brought back to the spec.
	ReasonTargetsNotSettled = "TargetsNotSettled"
	// ReasonProgressDeadlineExceeded: a cluster, an Application or the Workflow has taken longer than
	// spec.progressDeadline says.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
	// ReasonTerminated: spec.terminate has ended the Experiment before a verdict.
	ReasonTerminated = "Terminated"
	// ReasonWorkflowTemplateNotFound: the WorkflowTemplate does not exist.
	ReasonWorkflowTemplateNotFound = "WorkflowTemplateNotFound"
)

// ReasonCleanedUp is the reason of ConditionCleanedUp when it is True; before that it is
// ReasonDeleting, or that of an error.
const ReasonCleanedUp = "CleanedUp"

// ReasonComplete is the reason of ConditionReady when it is True.
const ReasonComplete = "Complete"

// Reasons of Events that are not those of a condition.
const (
	// ReasonExpired: the Experiment's time to live is over.
	ReasonExpired = "Expired"
	// ReasonExpiresSoon: an hour of the Experiment's time to live is left.
	ReasonExpiresSoon = "ExpiresSoon"
	// ReasonExtended: somebody has moved the end of the Experiment's time by annotation.
	ReasonExtended = "Extended"
	// ReasonExtensionInvalid: the annotation that should is not a duration.
	ReasonExtensionInvalid = "ExtensionInvalid"
	// ReasonOrphansLeft: something is left behind that costs: the teardown has not come to its end within spec.deletion.deadline,
	// somebody has taken our label off a cluster, or another Experiment of the same name has left one. A ConfigMap lists it.
	ReasonOrphansLeft = "OrphansLeft"
	// ReasonTarget and the target's state, such as TargetHealthy: the state of a target
	// has changed.
	ReasonTarget = "Target"
)

// What the manager puts on every object it creates for an Experiment, and how it knows
// them again.
const (
	// LabelExperimentUID is the UID of the Experiment: the proof of ownership.
	LabelExperimentUID = "experiments.illm.io/experiment-uid"
	// LabelExperiment is the Experiment's name, cut with a hash where it is over 63
	// characters.
	LabelExperiment = "experiments.illm.io/experiment"
	// LabelTarget is the name of the target the object belongs to.
	LabelTarget = "experiments.illm.io/target"
	// AnnotationInputs is on a Workflow: the hash of what it validates.
	AnnotationInputs = "experiments.illm.io/inputs"
	// AnnotationClusters is on a Workflow: what stands for the clusters that it was submitted for.
	AnnotationClusters = "experiments.illm.io/clusters"
	// AnnotationRun is on a Workflow that has taken the place of another: its number, from 2 on.
	AnnotationRun = "experiments.illm.io/run"
	// AnnotationEndpoint is on the Application of a cluster that the Experiment does not make: the URL of its API
	// server.
	AnnotationEndpoint = "experiments.illm.io/endpoint"
	// AnnotationClusterUID is on the Application of a cluster that a clusterRef names: the UID of the Cluster.
	AnnotationClusterUID = "experiments.illm.io/cluster-uid"
	// AnnotationRelease is on an Application whose name begins with a digit: the name of its Helm releases that do not
	// say another.
	AnnotationRelease = "experiments.illm.io/release"
	// AnnotationComponent is on the Application of a single component: the reference to it, for
	// instance "app nginx".
	AnnotationComponent = "experiments.illm.io/component"
	// AnnotationComplete is on an Experiment with workflow.completion.mode manual: the verdict,
	// Succeeded or Failed.
	AnnotationComplete = "experiments.illm.io/complete"
	// AnnotationExtend is on an Experiment: how much longer it stays than its spec says, as a
	// duration such as 24h.
	AnnotationExtend = "experiments.illm.io/extend"
	// AnnotationProject is on a Namespace: the Argo CD project of the Applications of the
	// Experiments in it, which bounds what they may deploy.
	AnnotationProject = "experiments.illm.io/argocd-project"
	// AnnotationServiceAccounts is on a Namespace: the ServiceAccounts in the namespace of Argo
	// Workflows, separated by commas, that the Workflows of the Experiments there may run as.
	AnnotationServiceAccounts = "experiments.illm.io/workflow-service-accounts"
	// AnnotationTenants is on a Namespace: the tenants that its Experiments may write metrics as,
	// separated by commas. Without it they may as any.
	AnnotationTenants = "experiments.illm.io/metrics-tenants"
	// AnnotationOwner is the Experiment as namespace/name, in full.
	AnnotationOwner = "experiments.illm.io/owner"
	// Finalizer keeps an Experiment until everything it brought up is gone.
	Finalizer = "experiments.illm.io/teardown"
	// ComponentFinalizer keeps a Component until no Experiment names it.
	ComponentFinalizer = "experiments.illm.io/in-use"
)
