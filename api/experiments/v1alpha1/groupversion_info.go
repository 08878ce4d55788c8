// Package v1alpha1 holds the Experiment and Component kinds of experiments.illm.io.
// +kubebuilder:object:generate=true
// +groupName=experiments.illm.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the group and version of every kind in this package.
	GroupVersion = schema.GroupVersion{Group: "experiments.illm.io", Version: "v1alpha1"}

	schemeBuilder = runtime.NewSchemeBuilder(func(s *runtime.Scheme) error {
		s.AddKnownTypes(GroupVersion, &Experiment{}, &ExperimentList{}, &Component{}, &ComponentList{})
		metav1.AddToGroupVersion(s, GroupVersion)
		return nil
	})

	// AddToScheme registers the kinds of this package.
	AddToScheme = schemeBuilder.AddToScheme
)
