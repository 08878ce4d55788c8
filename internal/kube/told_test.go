package kube

import (
	"errors"
	"testing"
	"time"

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
	others := told.ByOthers(func(o client.Object) any { return o.(*corev1.Pod).Status })
	told.wrote("1-2-3", "2")
	told.wrote("1-2-3", "4")
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

// The watch may be faster than the answer to the write.
func TestToldWhileItWrites(t *testing.T) {
	for name, test := range map[string]struct {
		heard   []string
		version string
		others  bool
	}{
		"what it writes":          {[]string{"4"}, "4", false},
		"what it wrote before":    {[]string{"2"}, "4", false},
		"what others have":        {[]string{"3", "4"}, "4", true},
		"what others have since":  {[]string{"5"}, "4", true},
		"nothing":                 {nil, "4", false},
		"others, and it has not":  {[]string{"3"}, "", true},
		"nothing, and it has not": {nil, "", false},
	} {
		told := NewTold()
		told.wrote("uid", "2")
		told.writing("uid")
		for _, version := range test.heard {
			if told.Wakes("uid", version) {
				t.Errorf("%s: woken by %s in the middle of it", name, version)
			}
		}
		if got := told.wrote("uid", test.version); got != test.others {
			t.Errorf("%s: by others: %v", name, got)
		}
		if !told.Wakes("uid", "6") || test.version != "" && told.Wakes("uid", test.version) {
			t.Errorf("%s: not woken as it should be afterwards", name)
		}
	}
}

// A cache may still have what was let go, as it was before.
func TestToldOfWhatWasLetGo(t *testing.T) {
	pod := podOf(finalizer)
	pod.DeletionTimestamp = &metav1.Time{Time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	d, told := newDesk(pod), NewTold()
	before := d.pod(t)
	finish := func(fail error, done bool) {
		t.Helper()
		d.fail["patch"] = fail
		if _, err := Finish(t.Context(), d, d.recorder, before, before.DeepCopy(), finalizer, Outcome{Done: done, Told: told}); !errors.Is(err, fail) {
			t.Fatal(err)
		}
	}
	finish(nil, false)
	finish(errors.New("not now"), true)
	if told.LetGo(before) != 0 {
		t.Error("what is still held was let go")
	}
	finish(nil, true)
	if told.LetGo(before) != lag {
		t.Error("what was let go is still held")
	}
	another := podOf(finalizer)
	another.UID, another.DeletionTimestamp = "another", pod.DeletionTimestamp
	if told.LetGo(another) != 0 || told.LetGo(podOf(finalizer)) != 0 || (*Told)(nil).LetGo(before) != 0 {
		t.Error("another one was let go, or one that is back")
	}
}
