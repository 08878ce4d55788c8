package main

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/labkeeper/labkeeper/internal/controller/hibernateplan"
	"github.com/labkeeper/labkeeper/test/fakes"
)

// Jobs have the image of the manager, and are let pull it, where nobody says anything else; where it is itself is known.
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
		"nothing is said":   {"manager-1", hibernateplan.Options{Namespace: "labs"}, hibernateplan.Options{Namespace: "labs", Image: "labkeeper:2", PullSecrets: []string{"mirror"}, Node: "node-1", Own: "labs"}},
		"the image is":      {"manager-1", hibernateplan.Options{Namespace: "labs", Image: "other:1"}, hibernateplan.Options{Namespace: "labs", Image: "other:1", PullSecrets: []string{"mirror"}, Node: "node-1", Own: "labs"}},
		"the Secret is":     {"manager-1", hibernateplan.Options{Namespace: "labs", PullSecrets: []string{"mine"}}, hibernateplan.Options{Namespace: "labs", Image: "labkeeper:2", PullSecrets: []string{"mine"}, Node: "node-1", Own: "labs"}},
		"Jobs elsewhere":    {"manager-1", hibernateplan.Options{Namespace: "night"}, hibernateplan.Options{Namespace: "night", Image: "labkeeper:2", Node: "node-1", Own: "labs"}},
		"another pod":       {"host", hibernateplan.Options{Namespace: "labs"}, hibernateplan.Options{Namespace: "labs"}},
		"no name of a host": {"", hibernateplan.Options{Namespace: "labs"}, hibernateplan.Options{Namespace: "labs"}},
	} {
		if err := findPod(t.Context(), c, "labs", test.host, &test.in); err != nil || !reflect.DeepEqual(test.in, test.want) {
			t.Errorf("%s: %+v (%v)", name, test.in, err)
		}
	}
}

// What a server does not tell for a moment, or not yet, is asked for again. One that never tells ends the start; who may never ask
// goes without.
func TestFindPodLater(t *testing.T) {
	defer func(before wait.Backoff) { unsteady = before }(unsteady)
	unsteady.Duration = time.Microsecond
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "labs", Name: "manager-1"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "labkeeper:2"}}}}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "manager-1", errors.New("no"))
	unavailable := apierrors.NewServiceUnavailable("etcd is starting")
	for name, test := range map[string]struct {
		failure  error
		failures int
		image    string
		ends     bool
	}{
		"it starts":         {unavailable, unsteady.Steps - 1, "labkeeper:2", false},
		"it is away":        {unavailable, unsteady.Steps, "", true},
		"no roles yet":      {forbidden, unsteady.Steps - 1, "labkeeper:2", false},
		"there are no such": {forbidden, unsteady.Steps, "", false},
	} {
		asked, o := 0, hibernateplan.Options{}
		c := interceptor.NewClient(fakes.NewClientBuilder().WithObjects(pod).Build(), interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if asked++; asked <= test.failures {
					return test.failure
				}
				return c.Get(ctx, key, o, opts...)
			},
		})
		if err := findPod(t.Context(), c, "labs", "manager-1", &o); (err != nil) != test.ends || o.Image != test.image {
			t.Errorf("%s: image %q (%v)", name, o.Image, err)
		}
	}
}
