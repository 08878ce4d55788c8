package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

func TestToldByOthers(t *testing.T) {
	pod := func(version string, phase corev1.PodPhase) client.Object {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1-2-3", ResourceVersion: version}, Status: corev1.PodStatus{Phase: phase}}
	}
	told := NewTold()
	others := told.ByOthers(func(before, after client.Object) bool {
		return before.(*corev1.Pod).Status.Phase == after.(*corev1.Pod).Status.Phase
	})
	told.Wrote(pod("2", corev1.PodPending))
	told.Wrote(pod("4", corev1.PodRunning))
	for name, test := range map[string]struct {
		before, after client.Object
		through       bool
	}{
		"what it wrote":            {pod("3", corev1.PodPending), pod("4", corev1.PodRunning), false},
		"what it did not":          {pod("4", corev1.PodRunning), pod("5", corev1.PodFailed), true},
		"what it wrote before":     {pod("1", corev1.PodFailed), pod("2", corev1.PodPending), true},
		"something of no status":   {pod("4", corev1.PodRunning), pod("5", corev1.PodRunning), false},
		"what nobody has told yet": {&corev1.Pod{}, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "other", ResourceVersion: "4"}, Status: corev1.PodStatus{Phase: corev1.PodFailed}}, true},
	} {
		if got := others.Update(event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}); got != test.through {
			t.Errorf("%s: let through: %v", name, got)
		}
	}
	if others.Create(event.CreateEvent{}) || others.Delete(event.DeleteEvent{}) {
		t.Error("what comes and goes is for others")
	}
}
