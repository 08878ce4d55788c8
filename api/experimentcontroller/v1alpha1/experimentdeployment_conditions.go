package v1alpha1

// Condition types of an ExperimentDeployment.
const (
	// ConditionReady sums up Accepted, SourceFound and TwinReady.
	ConditionReady = "Ready"
	// ConditionAccepted is True when the spec can be acted on.
	ConditionAccepted = "Accepted"
	// ConditionSourceFound is True when the source is there and its kind is served.
	ConditionSourceFound = "SourceFound"
	// ConditionTwinReady is True when every pod of the twin that is wanted is there, new and available.
	ConditionTwinReady = "TwinReady"
	// ConditionServiceShared is True when every Service that selects the source's pods sends the twin's traffic, too.
	ConditionServiceShared = "ServiceShared"
	// ConditionAutoscalerInterference is True when an autoscaler counts the twin's pods, and Unknown when none is seen,
	// and a kind of them is installed that cannot be read.
	ConditionAutoscalerInterference = "AutoscalerInterference"
	// ConditionDisruptionInterference is True when a PodDisruptionBudget counts the twin's pods.
	ConditionDisruptionInterference = "DisruptionInterference"
	// ConditionSourceSelectorOverlap is True when the source's selector selects the twin's pods, as it must where
	// Services select the same: pods that lose their owner (a deletion with --cascade=orphan, a backup that is put
	// back) the source takes for its own.
	ConditionSourceSelectorOverlap = "SourceSelectorOverlap"
	// ConditionWarnings is True when something else about the twin may hurt its source.
	ConditionWarnings = "Warnings"
)

// Reasons of the conditions of an ExperimentDeployment, beside those of internal/twin.
const (
	// ReasonPending: an earlier step comes first.
	ReasonPending = "Pending"
	// ReasonAccepted: the spec can be acted on.
	ReasonAccepted = "Accepted"
	// ReasonInvalidOverride: the override is refused; the message names the path.
	ReasonInvalidOverride = "InvalidOverride"
	// ReasonNotGranted: the namespace of the source does not list that of the ExperimentDeployment.
	ReasonNotGranted = "NotGranted"
	// ReasonNotWatched: the manager acts in other namespaces than that of the source alone.
	ReasonNotWatched = "NamespaceNotWatched"
	// ReasonDryRun: nothing is written.
	ReasonDryRun = "DryRun"
	// ReasonSourceFound: the source is there.
	ReasonSourceFound = "SourceFound"
	// ReasonSourceNotFound: there is no such workload, or what it refers to.
	ReasonSourceNotFound = "SourceNotFound"
	// ReasonPinLost: what was kept of a source, of which the twin is made, is gone, or another by now.
	ReasonPinLost = "PinLost"
	// ReasonSourceGoing: the source is being deleted.
	ReasonSourceGoing = "SourceGoing"
	// ReasonKindUnavailable: the cluster does not serve the kind, or the manager cannot list it.
	ReasonKindUnavailable = "KindUnavailable"
	// ReasonCreated: the twin was asked for, and there are no pods of it yet.
	ReasonCreated = "TwinCreated"
	// ReasonRecreating: the twin is deleted, and created again, because fields differ that cannot be changed.
	ReasonRecreating = "Recreating"
	// ReasonSourceDeleted: the twin is taken down, because its source was deleted.
	ReasonSourceDeleted = "SourceDeleted"
	// ReasonDrifted: somebody has changed the twin, and it was put right.
	ReasonDrifted = "TwinPutRight"
	// ReasonContended: somebody changes the twin again and again.
	ReasonContended = "TwinContended"
	// ReasonExpired: the time of the ExperimentDeployment is over.
	ReasonExpired = "Expired"
	// ReasonNameTaken: an object that is not this ExperimentDeployment's has the name of its twin.
	ReasonNameTaken = "NameTaken"
	// ReasonForbidden: the manager may not do what the step needs.
	ReasonForbidden = "Forbidden"
	// ReasonRejected: the API server refuses the twin as invalid.
	ReasonRejected = "Rejected"
	// ReasonReconcileError: a call failed and is tried again with growing delays.
	ReasonReconcileError = "ReconcileError"
	// ReasonUnready: the twin was scaled to zero because its pods were not ready.
	ReasonUnready = "ScaledToZeroUnready"
	// ReasonVolumeOfOnePod: the twin was scaled to zero because its pods use a volume of the source's that one pod alone may use.
	ReasonVolumeOfOnePod = "VolumeOfOnePod"
	// ReasonDeleting: the twin is being taken down.
	ReasonDeleting = "Deleting"
	// ReasonShared: every Service selects both.
	ReasonShared = "ServicesShared"
	// ReasonNotShared: a Service does not; the message names it.
	ReasonNotShared = "ServicesNotShared"
	// ReasonNoServices: no Service selects the source's pods.
	ReasonNoServices = "NoServices"
	// ReasonSelectorOverlap: the pods are told apart by their owners alone.
	ReasonSelectorOverlap = "ToldApartByOwner"
	// ReasonInterference: the message says whose.
	ReasonInterference = "Interference"
	// ReasonNotListed: a kind is installed that the manager cannot read; the message names it.
	ReasonNotListed = "NotListed"
	// ReasonNone: there is nothing to say.
	ReasonNone = "None"
)

// What marks a twin beside the labels of internal/twin, and the namespaces that sources are in.
const (
	// LabelUID is the UID of the ExperimentDeployment.
	LabelUID = "experiment-controller.example.com/uid"
	// LabelName is its name, cut where it is too long.
	LabelName = "experiment-controller.example.com/cr-name"
	// AnnotationOwner is the ExperimentDeployment as namespace/name, in full.
	AnnotationOwner = "experiment-controller.example.com/owner"
	// AnnotationWanted is a hash of the twin as it was wanted when it was written last.
	AnnotationWanted = "experiment-controller.example.com/wanted"
	// AnnotationPinned is on a twin that is made of what was kept of its source: the generation of that.
	AnnotationPinned = "experiment-controller.example.com/pinned"
	// AnnotationSource is on a twin: its source as namespace/name. A copy of the twin in another namespace is nobody's.
	AnnotationSource = "experiment-controller.example.com/source"
	// AnnotationAllowedNamespaces is on a Namespace: those, separated by commas, whose ExperimentDeployments may
	// have twins here.
	AnnotationAllowedNamespaces = "experiment-controller.example.com/allowed-namespaces"
	// AnnotationAllowPrivileges is on a Namespace: "true" lets twins here have privileges that their sources do not
	// have.
	AnnotationAllowPrivileges = "experiment-controller.example.com/allow-privileges"
	// Finalizer of an ExperimentDeployment.
	Finalizer = "experiment-controller.example.com/finalizer"
)
