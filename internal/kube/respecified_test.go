package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// One that was deleted and created again while a watch was broken off comes as an update.
func TestRespecified(t *testing.T) {
	object := func(uid types.UID, generation int64) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: uid, Generation: generation}}
	}
	for name, test := range map[string]struct {
		after   *corev1.ConfigMap
		through bool
	}{
		"something else":      {object("one", 1), false},
		"another spec":        {object("one", 2), true},
		"another of its name": {object("two", 1), true},
	} {
		if got := Respecified.Update(event.UpdateEvent{ObjectOld: object("one", 1), ObjectNew: test.after}); got != test.through {
			t.Errorf("%s: let through: %v", name, got)
		}
	}
	if !Respecified.Create(event.CreateEvent{}) || !Respecified.Delete(event.DeleteEvent{}) {
		t.Error("what comes or goes is not let through")
	}
}
