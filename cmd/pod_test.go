package main

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/labkeeper/labkeeper/internal/controller/hibernateplan"
	"github.com/labkeeper/labkeeper/test/fakes"
)

// Jobs have the image of the manager, and are let pull it, where nobody says anything else; its node is known.
func TestFindPod(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "labs", Name: "manager-1"},
		Spec: corev1.PodSpec{
			NodeName:         "node-1",
			ImagePullSecrets: []corev1.LocalObjectReference{{Name: "mirror"}},
			Containers:       []corev1.Container{{Name: "proxy", Image: "proxy:1"}, {Name: "manager", Image: "labkeeper:2"}},
		},
	}
	c := fakes.NewClientBuilder().WithObjects(pod).Build()
	for name, test := range map[string]struct {
		host     string
		in, want hibernateplan.Options
	}{
		"nothing is said":   {"manager-1", hibernateplan.Options{Namespace: "labs"}, hibernateplan.Options{Namespace: "labs", Image: "labkeeper:2", PullSecrets: []string{"mirror"}, Node: "node-1"}},
		"the image is":      {"manager-1", hibernateplan.Options{Namespace: "labs", Image: "other:1"}, hibernateplan.Options{Namespace: "labs", Image: "other:1", PullSecrets: []string{"mirror"}, Node: "node-1"}},
		"the Secret is":     {"manager-1", hibernateplan.Options{Namespace: "labs", PullSecrets: []string{"mine"}}, hibernateplan.Options{Namespace: "labs", Image: "labkeeper:2", PullSecrets: []string{"mine"}, Node: "node-1"}},
		"Jobs elsewhere":    {"manager-1", hibernateplan.Options{Namespace: "night"}, hibernateplan.Options{Namespace: "night", Image: "labkeeper:2", Node: "node-1"}},
		"another pod":       {"host", hibernateplan.Options{Namespace: "labs"}, hibernateplan.Options{Namespace: "labs"}},
		"no name of a host": {"", hibernateplan.Options{Namespace: "labs"}, hibernateplan.Options{Namespace: "labs"}},
	} {
		if findPod(t.Context(), c, "labs", test.host, &test.in); !reflect.DeepEqual(test.in, test.want) {
			t.Errorf("%s: %+v", name, test.in)
		}
	}
}
