package v1alpha1

// Condition types of a HibernatePlan.
const (
	// ConditionReady is True when the plan is accepted, and nothing of it has failed.
	ConditionReady = "Ready"
	// ConditionScheduled is True when the plan can be acted on and the schedule says when.
	ConditionScheduled = "Scheduled"
	// ConditionHibernated is True when every target is asleep that should be.
	ConditionHibernated = "Hibernated"
	// ConditionRestorePointSaved is True when what every target that sleeps was like is kept.
	ConditionRestorePointSaved = "RestorePointSaved"
	// ConditionDegraded is True when targets are not as they should be, which the message names.
	ConditionDegraded = "Degraded"
)

// Reasons of the conditions of a HibernatePlan.
const (
	// ReasonPending: an earlier step comes first.
	ReasonPending = "Pending"
	// ReasonAccepted: the plan can be acted on.
	ReasonAccepted = "Accepted"
	// ReasonInvalid: the spec is refused; the message names the field.
	ReasonInvalid = "InvalidSpec"
	// ReasonTooManyExceptions: the plan has more ScheduleExceptions than count.
	ReasonTooManyExceptions = "TooManyExceptions"
	// ReasonTooManyNamespaces: a target is in more namespaces than the ledger can tell of.
	ReasonTooManyNamespaces = "TooManyNamespaces"
	// ReasonNotGranted: a connector or a namespace of another namespace does not name that of the plan.
	ReasonNotGranted = "NotGranted"
	// ReasonConnectorNotReady: a connector cannot be used.
	ReasonConnectorNotReady = "ConnectorNotReady"
	// ReasonNoRunnerImage: the manager was not told which image Jobs run.
	ReasonNoRunnerImage = "NoRunnerImage"
	// ReasonAwake: everything is awake.
	ReasonAwake = "Awake"
	// ReasonHibernating: targets are being put to sleep.
	ReasonHibernating = "Hibernating"
	// ReasonHibernated: everything is asleep.
	ReasonHibernated = "Hibernated"
	// ReasonPartly: some targets could not be put to sleep.
	ReasonPartly = "PartlyHibernated"
	// ReasonWakingUp: targets are being woken.
	ReasonWakingUp = "WakingUp"
	// ReasonSuspended: nothing starts.
	ReasonSuspended = "Suspended"
	// ReasonShutdownFailed: a target could not be put to sleep.
	ReasonShutdownFailed = "ShutdownFailed"
	// ReasonWakeUpFailed: a target could not be woken.
	ReasonWakeUpFailed = "WakeUpFailed"
	// ReasonAsExpected: every target is as it should be.
	ReasonAsExpected = "AsExpected"
	// ReasonRetrying: a target has failed and is tried again.
	ReasonRetrying = "Retrying"
	// ReasonSaved: restore points are kept.
	ReasonSaved = "Saved"
	// ReasonNothingAsleep: there is nothing to keep.
	ReasonNothingAsleep = "NothingAsleep"
	// ReasonCycleLost: what the current cycle began with is not there any more.
	ReasonCycleLost = "CycleLost"
	// ReasonLedgerLost: a part of the ledger that has left the status is not there any more.
	ReasonLedgerLost = "LedgerLost"
	// ReasonNamespacesChanged: the cycle was begun by a manager that keeps its restore points in another namespace.
	ReasonNamespacesChanged = "NamespacesChanged"
	// ReasonDryRun: nothing is started.
	ReasonDryRun = "DryRun"
	// ReasonDeleting: what sleeps is woken before the plan goes.
	ReasonDeleting = "Deleting"
	// ReasonLeftAsleep: the plan has gone, and targets of it sleep.
	ReasonLeftAsleep = "LeftAsleep"
	// ReasonRunnerStopped: a runner was stopped that put to sleep what is to be awake, a minute after it had begun.
	ReasonRunnerStopped = "RunnerStopped"
	// ReasonRightsLeft: a namespace does not let go what a runner was granted there, which nobody can use any more.
	ReasonRightsLeft = "RightsLeft"
	// ReasonTargetFailed: an attempt at a target has failed.
	ReasonTargetFailed = "TargetFailed"
	// ReasonLeftAsFound: resources of a target were not as they had been put to sleep, and stay as they are.
	ReasonLeftAsFound = "LeftAsFound"
	// ReasonRunnerNotStarted: the runner of a target does not run a minute after its Job was made; the message says what keeps it.
	ReasonRunnerNotStarted = "RunnerNotStarted"
	// ReasonNothingFound: a target was put to sleep in which there was nothing to be put to sleep.
	ReasonNothingFound = "NothingFound"
	// ReasonAcknowledged: an annotation was acted on.
	ReasonAcknowledged = "Acknowledged"
	// ReasonNotActedOn: an annotation does not count.
	ReasonNotActedOn = "NotActedOn"
)

// What the plan is known by outside of its own object.
const (
	// Finalizer keeps a HibernatePlan until its targets are awake.
	Finalizer = "hibernator.ardikabs.com/wake-up"
	// FinalizerRestorePoint keeps a restore point that is still needed from being deleted.
	FinalizerRestorePoint = "hibernator.ardikabs.com/restore-point"
	// LabelUID, LabelName and AnnotationOwner mark what is a plan's.
	LabelUID        = "hibernator.ardikabs.com/plan-uid"
	LabelName       = "hibernator.ardikabs.com/plan"
	AnnotationOwner = "hibernator.ardikabs.com/owner"
	// LabelTarget, LabelOperation and LabelCycle are on Jobs and pods, to be found by; of a restore point the last is the cycle that it
	// is of.
	LabelTarget    = "hibernator.ardikabs.com/target"
	LabelOperation = "hibernator.ardikabs.com/operation"
	LabelCycle     = "hibernator.ardikabs.com/cycle"
	// AnnotationPlan and AnnotationTarget are on every Job.
	AnnotationPlan   = "hibernator/plan"
	AnnotationTarget = "hibernator/target"
	// AnnotationAllowedNamespaces of a connector, or of a Namespace with workloads, names the namespaces whose plans
	// may use it, comma-separated; * is all.
	AnnotationAllowedNamespaces = "hibernator.ardikabs.com/allowed-namespaces"
	// AnnotationHibernateNow, AnnotationWakeNow, AnnotationSkipNext and AnnotationRetryNow of a plan ask for something
	// once: each new value of one is acted on, but for the hibernate-now that a plan is created with.
	AnnotationHibernateNow = "hibernator.ardikabs.com/hibernate-now"
	AnnotationWakeNow      = "hibernator.ardikabs.com/wake-now"
	AnnotationSkipNext     = "hibernator.ardikabs.com/skip-next"
	AnnotationRetryNow     = "hibernator.ardikabs.com/retry-now"
)
