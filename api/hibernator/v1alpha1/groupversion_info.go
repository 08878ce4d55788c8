// Package v1alpha1 holds the kinds of hibernator.ardikabs.com: HibernatePlan, ScheduleException, CloudProvider and
// K8SCluster.
// +kubebuilder:object:generate=true
// +groupName=hibernator.ardikabs.com
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the group and version of every kind in this package.
	GroupVersion = schema.GroupVersion{Group: "hibernator.ardikabs.com", Version: "v1alpha1"}

	schemeBuilder = runtime.NewSchemeBuilder(func(s *runtime.Scheme) error {
		s.AddKnownTypes(GroupVersion,
			&HibernatePlan{}, &HibernatePlanList{}, &ScheduleException{}, &ScheduleExceptionList{},
			&CloudProvider{}, &CloudProviderList{}, &K8SCluster{}, &K8SClusterList{},
		)
		metav1.AddToGroupVersion(s, GroupVersion)
		return nil
	})

	// AddToScheme registers the kinds of this package.
	AddToScheme = schemeBuilder.AddToScheme
)
