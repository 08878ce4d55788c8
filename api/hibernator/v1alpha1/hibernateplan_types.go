package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HibernatePlan puts targets to sleep in off-hours, and wakes them exactly as they were.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=hplan,categories=labkeeper
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Next",type=string,JSONPath=`.status.nextTransition.time`
// +kubebuilder:printcolumn:name="Targets",type=integer,JSONPath=`.status.targets`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.failed`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="To",type=string,priority=1,JSONPath=`.status.nextTransition.to`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type HibernatePlan struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is asked for.
	// +required
	Spec HibernatePlanSpec `json:"spec"`
	// status is what was seen and done last.
	// +optional
	// +structType=atomic
	Status HibernatePlanStatus `json:"status,omitempty"`
}

// HibernatePlanList is a list of HibernatePlans.
// +kubebuilder:object:root=true
type HibernatePlanList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []HibernatePlan `json:"items"`
}

// HibernatePlanSpec is what is asked for.
type HibernatePlanSpec struct {
	// schedule says when the targets sleep.
	// +required
	Schedule Schedule `json:"schedule"`

	// execution says in what order, and how many at a time.
	// +required
	Execution Execution `json:"execution"`

	// behavior says what a failure does.
	// +optional
	Behavior Behavior `json:"behavior,omitempty"`

	// targets that are put to sleep. What a cycle began with is what its wake-up uses: a target that is edited while it
	// sleeps wakes as it was put to sleep, one that is removed is woken first, and one that is added sleeps from the
	// next time on.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10000
	Targets []Target `json:"targets"`

	// suspend starts nothing any more: what runs comes to its end, and everything stays as it is until suspend is taken
	// back. Then the schedule counts again, at once.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// override says how the targets are to be, whatever the schedule says.
	// +optional
	Override *Override `json:"override,omitempty"`

	// deletionPolicy says what becomes of targets that sleep when the plan is deleted: WakeUp wakes them first, Leave
	// leaves them asleep. Their restore points stay, and a plan of the same name wakes by them.
	// +optional
	// +kubebuilder:default=WakeUp
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// deletion says how long a deleted plan waits for its targets to wake.
	// +optional
	Deletion *Deletion `json:"deletion,omitempty"`

	// dryRun begins no cycle, and says in condition Hibernated what would stop. A cycle that has begun comes to its end.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`

	// runner says how the pods of the Jobs are made.
	// +optional
	Runner *RunnerTemplate `json:"runner,omitempty"`
}

// Schedule says when targets sleep.
type Schedule struct {
	// timezone is the IANA name of the zone of all times here, for instance Europe/Berlin.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Timezone string `json:"timezone"`
	// offHours in which they sleep. Those that overlap or touch are one. All together they may begin and end 2880 times a
	// day.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	OffHours []OffHours `json:"offHours"`
}

// OffHours are a time that repeats: start, end and daysOfWeek, or startCron and endCron.
//
// +kubebuilder:validation:XValidation:rule="has(self.startCron) == has(self.endCron)",message="startCron and endCron belong together; write both, or start, end and daysOfWeek"
// +kubebuilder:validation:XValidation:rule="has(self.startCron) ? !has(self.start) && !has(self.end) && !has(self.daysOfWeek) : has(self.start) && has(self.end) && has(self.daysOfWeek)",message="needs start, end and daysOfWeek, or startCron and endCron instead of them"
// +kubebuilder:validation:XValidation:rule="!has(self.start) || !has(self.end) || self.start != self.end",message="start and end are the same; write 00:00 and 24:00 for a whole day"
type OffHours struct {
	// start is the time of day that they start at, 00:00 to 23:59.
	// +optional
	// +kubebuilder:validation:Pattern=`^([0-1]?[0-9]|2[0-3]):[0-5][0-9]$`
	// +kubebuilder:validation:MaxLength=5
	Start string `json:"start,omitempty"`
	// end is the time of day that they end at, 00:00 to 24:00; on the day after where it is not after start.
	// +optional
	// +kubebuilder:validation:Pattern=`^(([0-1]?[0-9]|2[0-3]):[0-5][0-9]|24:00)$`
	// +kubebuilder:validation:MaxLength=5
	End string `json:"end,omitempty"`
	// daysOfWeek are the days that they START on: MON to FRI, 20:00 to 06:00, end on Saturday at 06:00.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=7
	DaysOfWeek []DayOfWeek `json:"daysOfWeek,omitempty"`
	// startCron is a cron expression of five fields at which they start, in the timezone of the schedule.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	StartCron string `json:"startCron,omitempty"`
	// endCron is a cron expression of five fields at which they end.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	EndCron string `json:"endCron,omitempty"`
}

// DayOfWeek is MON to SUN.
// +kubebuilder:validation:Enum=MON;TUE;WED;THU;FRI;SAT;SUN
type DayOfWeek string

// Execution says how an operation is carried out.
type Execution struct {
	// strategy is the order.
	// +required
	Strategy Strategy `json:"strategy"`
}

// Strategy is an order of targets. Waking up is the reverse of it.
//
// +kubebuilder:validation:XValidation:rule="self.type == 'DAG' || !has(self.dependencies) || size(self.dependencies) == 0",message="dependencies are for type DAG; take them out, or write type: DAG"
// +kubebuilder:validation:XValidation:rule="(self.type == 'Staged') == (has(self.stages) && size(self.stages) > 0)",message="stages belong to type Staged, and that needs them"
type Strategy struct {
	// type: Sequential stops one target after the other, as they are listed; Parallel all at once; DAG each when those
	// that it comes after have stopped; Staged one stage after the other.
	// +required
	Type StrategyType `json:"type"`
	// maxConcurrency is how many targets run at the same time; without it, any number. Sequential has always one.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	MaxConcurrency *int32 `json:"maxConcurrency,omitempty"`
	// dependencies of a DAG.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20000
	Dependencies []Dependency `json:"dependencies,omitempty"`
	// stages of Staged, which every target is in one of.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Stages []Stage `json:"stages,omitempty"`
}

// StrategyType is how targets are ordered.
// +kubebuilder:validation:Enum=Sequential;Parallel;DAG;Staged
type StrategyType string

// Strategies.
const (
	StrategySequential StrategyType = "Sequential"
	StrategyParallel   StrategyType = "Parallel"
	StrategyDAG        StrategyType = "DAG"
	StrategyStaged     StrategyType = "Staged"
)

// Dependency is an edge between two targets: from stops FIRST and wakes LAST. An app that uses a database stops before
// it, so it is written from: app, to: database.
type Dependency struct {
	// from is the target that stops first, and wakes last: the one that uses the other.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	From string `json:"from"`
	// to is the target that stops when from has stopped, and wakes before it: the one that is used.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	To string `json:"to"`
}

// Stage is a part of the targets.
type Stage struct {
	// name of the stage.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// parallel stops the targets of the stage at once; without it, one after the other as they are listed.
	// +optional
	Parallel bool `json:"parallel,omitempty"`
	// maxConcurrency is how many targets of a parallel stage run at the same time.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	MaxConcurrency *int32 `json:"maxConcurrency,omitempty"`
	// targets of the stage by their names.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10000
	Targets []string `json:"targets"`
}

// Behavior says what a failure does.
type Behavior struct {
	// mode: Strict ends in phase Error when a target has failed; BestEffort does what can be done, and says in
	// condition Degraded what could not.
	// +optional
	// +kubebuilder:default=Strict
	Mode BehaviorMode `json:"mode,omitempty"`
	// failFast stops nothing more after a failure, with mode Strict. What can be woken is woken, always.
	// +optional
	// +kubebuilder:default=true
	FailFast *bool `json:"failFast,omitempty"`
	// retries is how often a target that has failed is tried again, after waits that grow.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	Retries *int32 `json:"retries,omitempty"`
}

// BehaviorMode is what a failure does.
// +kubebuilder:validation:Enum=Strict;BestEffort
type BehaviorMode string

// Modes.
const (
	BehaviorStrict     BehaviorMode = "Strict"
	BehaviorBestEffort BehaviorMode = "BestEffort"
)

// Target is something that is put to sleep.
type Target struct {
	// name of the target, within the plan.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// type is the executor: workloadscaler, karpenter, noop.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Type string `json:"type"`
	// connectorRef is how the target is reached; without it, it is in the manager's own cluster.
	// +optional
	ConnectorRef *ConnectorRef `json:"connectorRef,omitempty"`
	// parameters of the executor.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Parameters *apiextensionsv1.JSON `json:"parameters,omitempty"`
}

// ConnectorRef is a CloudProvider or a K8SCluster.
type ConnectorRef struct {
	// kind of the connector.
	// +required
	// +kubebuilder:validation:Enum=CloudProvider;K8SCluster
	Kind string `json:"kind"`
	// name of the connector.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
	// namespace of the connector; without it that of the plan. Another one must be named in the annotation
	// hibernator.ardikabs.com/allowed-namespaces of the connector.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`
	Namespace string `json:"namespace,omitempty"`
}

// Override says how the targets are to be.
type Override struct {
	// state: Hibernated or Awake.
	// +required
	State OverrideState `json:"state"`
	// until is when the schedule counts again; without it, when override is taken out.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= timestamp('0001-01-01T00:00:00Z') && self <= timestamp('9999-12-31T23:59:59.999999999Z')",message="until must be a time, such as 2026-03-02T06:00:00Z"
	Until *metav1.Time `json:"until,omitempty"`
}

// OverrideState is how targets are to be.
// +kubebuilder:validation:Enum=Hibernated;Awake
type OverrideState string

// States of an override.
const (
	OverrideHibernated OverrideState = "Hibernated"
	OverrideAwake      OverrideState = "Awake"
)

// DeletionPolicy is what becomes of targets that sleep when their plan is deleted.
// +kubebuilder:validation:Enum=WakeUp;Leave
type DeletionPolicy string

// Deletion policies.
const (
	DeletionWakeUp DeletionPolicy = "WakeUp"
	DeletionLeave  DeletionPolicy = "Leave"
)

// Deletion says how a plan is deleted.
type Deletion struct {
	// deadline is how long it waits for its targets to wake, from when the manager has seen that it is to go. What sleeps
	// then keeps its restore point, by which a plan of the same name wakes it.
	// +optional
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="deadline must be longer than 0s"
	Deadline *metav1.Duration `json:"deadline,omitempty"`
}

// RunnerTemplate says how the pods of the Jobs are made.
type RunnerTemplate struct {
	// activeDeadline is how long a Job may run, of which the last 30 s are for saying why it could not end: 24h at most.
	// Default: 30m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('24h')",message="activeDeadline must be from 1m to 24h"
	ActiveDeadline *metav1.Duration `json:"activeDeadline,omitempty"`
	// resources of the container.
	// +optional
	Resources *RunnerResources `json:"resources,omitempty"`
	// nodeSelector of the pods. They must not run on nodes that they take away.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// tolerations of the pods.
	// +optional
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// priorityClassName of the pods; none of those of the system.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('system-')",message="priorityClassName must not be one of the system's"
	PriorityClassName string `json:"priorityClassName,omitempty"`
}

// RunnerResources are those of the container of a runner.
type RunnerResources struct {
	// limits are the most that it may use of each resource, of 8 resources at most.
	// +optional
	Limits Quantities `json:"limits,omitempty"`
	// requests are what is kept for it of each resource; without them what limits says.
	// +optional
	Requests Quantities `json:"requests,omitempty"`
}

// Quantities of resources. The pattern of one lets through what is none, such as 1e1.5: a plan that cannot be read keeps all
// others from a manager, and one that starts from acting on anything.
//
// +kubebuilder:validation:MaxProperties=8
// +kubebuilder:validation:XValidation:rule="self.all(r, isQuantity(string(self[r])))",message="each must be a quantity, such as 100m, 2 or 1Gi"
type Quantities map[corev1.ResourceName]resource.Quantity

// Phase of a HibernatePlan.
// +kubebuilder:validation:Enum=Pending;Active;Hibernating;Hibernated;WakingUp;Suspended;Error
type Phase string

// Phases.
const (
	// PhasePending: nothing is known yet, the spec is refused, or what a plan of the name has left asleep stays so for now.
	PhasePending Phase = "Pending"
	// PhaseActive: everything is awake.
	PhaseActive Phase = "Active"
	// PhaseHibernating: targets are being put to sleep.
	PhaseHibernating Phase = "Hibernating"
	// PhaseHibernated: everything that could be is asleep; condition Degraded says what could not.
	PhaseHibernated Phase = "Hibernated"
	// PhaseWakingUp: targets are being woken.
	PhaseWakingUp Phase = "WakingUp"
	// PhaseSuspended: nothing starts.
	PhaseSuspended Phase = "Suspended"
	// PhaseError: a target has failed, and is not tried again by itself until the schedule wants something else, or its connector has
	// other credentials.
	PhaseError Phase = "Error"
)

// Operation is a direction.
// +kubebuilder:validation:Enum=Shutdown;WakeUp
type Operation string

// Operations.
const (
	OperationShutdown Operation = "Shutdown"
	OperationWakeUp   Operation = "WakeUp"
)

// ExecutionState is how far a target is in an operation.
// +kubebuilder:validation:Enum=Pending;Running;Completed;Failed;Aborted
type ExecutionState string

// Execution states.
const (
	// ExecutionPending has not started, or waits to be tried again.
	ExecutionPending ExecutionState = "Pending"
	// ExecutionRunning has a Job.
	ExecutionRunning ExecutionState = "Running"
	// ExecutionCompleted is done.
	ExecutionCompleted ExecutionState = "Completed"
	// ExecutionFailed has failed as often as it may.
	ExecutionFailed ExecutionState = "Failed"
	// ExecutionAborted did not start, because of what has failed before it or because the other operation was wanted.
	ExecutionAborted ExecutionState = "Aborted"
)

// HibernatePlanStatus is what was seen and done last.
type HibernatePlanStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase in a word.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// nextTransition is when something else is wanted.
	// +optional
	NextTransition *Transition `json:"nextTransition,omitempty"`
	// upcoming changes of the next seven days, the first 32 of them.
	// +optional
	// +listType=atomic
	Upcoming []Transition `json:"upcoming,omitempty"`
	// targets are how many there are.
	// +optional
	Targets int32 `json:"targets"`
	// asleep are how many of them are asleep, wholly or in part.
	// +optional
	Asleep int32 `json:"asleep"`
	// failed are how many of them have failed in the operation that ran last.
	// +optional
	Failed int32 `json:"failed"`
	// currentCycle is the one that is not over: from the first shutdown until everything is awake again.
	// +optional
	CurrentCycle *Cycle `json:"currentCycle,omitempty"`
	// cycles are how many have begun.
	// +optional
	Cycles int64 `json:"cycles,omitempty"`
	// executions are the ledger of the current cycle, or of the last one: one entry for each target. Where they are more
	// than 128 KiB, ledger says where they are.
	// +optional
	// +listType=atomic
	Executions []ExecutionStatus `json:"executions,omitempty"`
	// ledger is where the executions of the current cycle are, and how many are in which state, where they have left the
	// status.
	// +optional
	Ledger *Ledger `json:"ledger,omitempty"`
	// history are the last cycles that are over, the newest first.
	// +optional
	// +listType=atomic
	History []CycleSummary `json:"history,omitempty"`
	// tidied is the generation of the spec when it was last seen, at the end of a cycle, that nothing is left of targets
	// that were taken out.
	// +optional
	Tidied int64 `json:"tidied,omitempty"`
	// manual is what an annotation has asked for, until the schedule wants it or its end.
	// +optional
	Manual *Manual `json:"manual,omitempty"`
	// deletingSince is when the manager has seen that the plan is to go.
	// +optional
	DeletingSince *metav1.Time `json:"deletingSince,omitempty"`
	// skips are off-hours that annotation skip-next has taken out, and that are not over: each new value takes out the
	// next. Where the schedule is edited since, those that begin sooner or end later by then are taken out as a whole. They
	// are at most 16: another value waits until the first of them is over.
	// +optional
	// +listType=atomic
	Skips []Span `json:"skips,omitempty"`
	// acknowledged are the annotations that were acted on: each counts once for each of its values.
	// +optional
	// +listType=map
	// +listMapKey=annotation
	Acknowledged []Acknowledgement `json:"acknowledged,omitempty"`
	// conditions: Ready, Scheduled, Hibernated, RestorePointSaved, Degraded.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Transition is a change of what is wanted.
type Transition struct {
	// time of it.
	Time metav1.Time `json:"time"`
	// to is what is wanted from then on.
	To OverrideState `json:"to"`
}

// Span is a half-open interval of time.
type Span struct {
	// from belongs to it.
	From metav1.Time `json:"from"`
	// until does not.
	Until metav1.Time `json:"until"`
}

// Manual is what somebody wants now.
type Manual struct {
	// state that is wanted.
	State OverrideState `json:"state"`
	// until is when the schedule counts again.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
}

// Acknowledgement is an annotation that was acted on.
type Acknowledgement struct {
	// annotation by its name, without the group.
	Annotation string `json:"annotation"`
	// value that it had.
	Value string `json:"value"`
	// at is when.
	At metav1.Time `json:"at"`
}

// Cycle is a shutdown and the wake-up that belongs to it.
type Cycle struct {
	// id counts the cycles of the plan.
	ID int64 `json:"id"`
	// operation that runs, or ran last.
	Operation Operation `json:"operation"`
	// turn counts the operations of the cycle.
	Turn int64 `json:"turn"`
	// startedAt is when the cycle began.
	StartedAt metav1.Time `json:"startedAt"`
	// operationStartedAt is when the operation began.
	OperationStartedAt metav1.Time `json:"operationStartedAt"`
	// planRevision is the ControllerRevision, in the manager's namespace, of the plan as the cycle began with it.
	PlanRevision string `json:"planRevision"`
}

// Ledger is where the executions of a plan are that has many targets.
type Ledger struct {
	// shards are ControllerRevisions in the manager's namespace, each with executions in its data: together, in this order,
	// one for each target. A shard never changes; another takes its place.
	// +listType=atomic
	Shards []string `json:"shards"`
	// superseded are those that were named here before the last write, and are deleted.
	// +optional
	// +listType=atomic
	Superseded []string `json:"superseded,omitempty"`
	// writes are how often the ledger was written.
	Writes int64 `json:"writes"`
	// pending are how many executions have not started, or wait to be tried again.
	Pending int32 `json:"pending"`
	// running are how many have a Job.
	Running int32 `json:"running"`
	// completed are how many are done.
	Completed int32 `json:"completed"`
	// failed are how many have failed as often as they may.
	Failed int32 `json:"failed"`
	// aborted are how many did not start.
	Aborted int32 `json:"aborted"`
}

// ExecutionStatus is how far a target is.
type ExecutionStatus struct {
	// target by its name.
	Target string `json:"target"`
	// executor is the type of the target.
	Executor string `json:"executor"`
	// operation that the rest speaks of.
	// +optional
	Operation Operation `json:"operation,omitempty"`
	// state of the operation.
	State ExecutionState `json:"state"`
	// asleep: a shutdown of it has begun in this cycle, and no wake-up of it has been completed since. It has a restore
	// point.
	// +optional
	Asleep bool `json:"asleep,omitempty"`
	// kept says that the ConfigMap of its restore point was made: where it is not there any more, nothing is made in its
	// place.
	// +optional
	Kept bool `json:"kept,omitempty"`
	// attempts that have begun in this operation.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
	// forgiven are the attempts that do not count any more, since somebody asked to try again.
	// +optional
	Forgiven int32 `json:"forgiven,omitempty"`
	// startedAt is when the last attempt began.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// finishedAt is when it ended.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
	// jobRef is the namespace/name of its Job.
	// +optional
	JobRef string `json:"jobRef,omitempty"`
	// logsRef is where the log of the last attempt that ended is: configmap://namespace/name.
	// +optional
	LogsRef string `json:"logsRef,omitempty"`
	// restoreRef is where the restore point is: configmap://namespace/name.
	// +optional
	RestoreRef string `json:"restoreRef,omitempty"`
	// serviceAccountRef is the namespace/name of the ServiceAccount that the Job runs as, while there is one.
	// +optional
	ServiceAccountRef string `json:"serviceAccountRef,omitempty"`
	// connectorSecretRef is the namespace/name of the Secret with the credentials of the connector, while there is one.
	// +optional
	ConnectorSecretRef string `json:"connectorSecretRef,omitempty"`
	// restoreConfigMapRef is the namespace/name of the ConfigMap that the restore point is kept in.
	// +optional
	RestoreConfigMapRef string `json:"restoreConfigMapRef,omitempty"`
	// restoreChecksum is of the restore point as the last attempt has left it; empty where that has not said how it ended.
	// +optional
	RestoreChecksum string `json:"restoreChecksum,omitempty"`
	// namespaces of the manager's own cluster that the target was in when it was put to sleep; none where a kubeconfig reaches it.
	// +optional
	// +listType=atomic
	Namespaces []string `json:"namespaces,omitempty"`
	// resources that were put to sleep, or woken.
	// +optional
	Resources int32 `json:"resources,omitempty"`
	// left are how many of them a wake-up left as somebody else has made them, or could not find any more.
	// +optional
	Left int32 `json:"left,omitempty"`
	// shutdownFailed says, from its wake-up on, that it was not put to sleep wholly: its last attempt had failed.
	// +optional
	ShutdownFailed bool `json:"shutdownFailed,omitempty"`
	// message of the last attempt that ended, cut where it is long.
	// +optional
	Message string `json:"message,omitempty"`
}

// CycleSummary is a cycle that is over.
type CycleSummary struct {
	// id of the cycle.
	ID int64 `json:"id"`
	// startedAt is when its shutdown began.
	StartedAt metav1.Time `json:"startedAt"`
	// finishedAt is when everything was awake.
	FinishedAt metav1.Time `json:"finishedAt"`
	// targets that it had.
	Targets int32 `json:"targets"`
	// message says what was not as it should be.
	// +optional
	Message string `json:"message,omitempty"`
}
