// Package v1alpha1 holds the ExperimentDeployment kind of experimentcontroller.example.com.
// +kubebuilder:object:generate=true
// +groupName=experimentcontroller.example.com
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the group and version of every kind in this package.
	GroupVersion = schema.GroupVersion{Group: "experimentcontroller.example.com", Version: "v1alpha1"}

	schemeBuilder = runtime.NewSchemeBuilder(func(s *runtime.Scheme) error {
		s.AddKnownTypes(GroupVersion, &ExperimentDeployment{}, &ExperimentDeploymentList{})
		metav1.AddToGroupVersion(s, GroupVersion)
		return nil
	})

	// AddToScheme registers the kinds of this package.
	AddToScheme = schemeBuilder.AddToScheme
)
