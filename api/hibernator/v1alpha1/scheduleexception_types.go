package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ScheduleException changes the off-hours of a HibernatePlan for a while. Those of type replace apply first, then
// extend, then suspend.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=schedex,categories=labkeeper
// +kubebuilder:printcolumn:name="Plan",type=string,JSONPath=`.spec.planRef.name`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="ValidFrom",type=string,JSONPath=`.spec.validFrom`
// +kubebuilder:printcolumn:name="ValidUntil",type=string,JSONPath=`.spec.validUntil`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.message`
type ScheduleException struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is asked for.
	// +required
	Spec ScheduleExceptionSpec `json:"spec"`
	// status is what was seen last.
	// +optional
	// +structType=atomic
	Status ScheduleExceptionStatus `json:"status,omitempty"`
}

// ScheduleExceptionList is a list of ScheduleExceptions.
// +kubebuilder:object:root=true
type ScheduleExceptionList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ScheduleException `json:"items"`
}

// ScheduleExceptionSpec is what is asked for.
//
// +kubebuilder:validation:XValidation:rule="self.validFrom < self.validUntil",message="validUntil must be after validFrom"
// +kubebuilder:validation:XValidation:rule="self.type == 'suspend' || has(self.windows) && size(self.windows) > 0",message="types extend and replace need windows"
// +kubebuilder:validation:XValidation:rule="self.type == 'suspend' || !has(self.leadTime)",message="leadTime is for type suspend"
type ScheduleExceptionSpec struct {
	// planRef is the HibernatePlan, of the same namespace.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="planRef cannot be changed; create another ScheduleException"
	PlanRef PlanRef `json:"planRef"`
	// validFrom is when it begins.
	// +required
	ValidFrom metav1.Time `json:"validFrom"`
	// validUntil is when it ends.
	// +required
	ValidUntil metav1.Time `json:"validUntil"`
	// type: replace takes windows instead of the off-hours of the plan, extend takes them beside, and suspend lets nothing
	// sleep, in windows or all the time.
	// +required
	Type ExceptionType `json:"type"`
	// leadTime before a suspension in which nothing goes to sleep that would be woken right away: 720h, which is 30 days, at
	// most.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('720h')",message="leadTime must be from 0s to 720h"
	LeadTime *metav1.Duration `json:"leadTime,omitempty"`
	// windows, in the timezone of the plan. All together they may begin and end 2880 times a day. Of those of an exception that
	// extends or suspends at least one must be between validFrom and validUntil.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Windows []OffHours `json:"windows,omitempty"`
}

// PlanRef is a HibernatePlan of the same namespace.
type PlanRef struct {
	// name of the plan.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
}

// ExceptionType is what an exception does.
// +kubebuilder:validation:Enum=extend;suspend;replace
type ExceptionType string

// Types of exceptions.
const (
	ExceptionExtend  ExceptionType = "extend"
	ExceptionSuspend ExceptionType = "suspend"
	ExceptionReplace ExceptionType = "replace"
)

// ScheduleExceptionStatus is what was seen last.
type ScheduleExceptionStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// state: Pending before validFrom, Active, Expired from validUntil on, Detached without its plan, Invalid where the plan
	// cannot use it (but what suspends counts for all of its time then), and Uncounted where it has too many.
	// +optional
	State ExceptionState `json:"state,omitempty"`
	// message says why.
	// +optional
	Message string `json:"message,omitempty"`
}

// ExceptionState is how an exception is.
// +kubebuilder:validation:Enum=Pending;Active;Expired;Detached;Invalid;Uncounted
type ExceptionState string

// States of an exception.
const (
	ExceptionPending   ExceptionState = "Pending"
	ExceptionActive    ExceptionState = "Active"
	ExceptionExpired   ExceptionState = "Expired"
	ExceptionDetached  ExceptionState = "Detached"
	ExceptionInvalid   ExceptionState = "Invalid"
	ExceptionUncounted ExceptionState = "Uncounted"
)
