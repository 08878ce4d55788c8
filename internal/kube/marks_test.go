package kube

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var marks = Marks{UID: "example.com/uid", Name: "example.com/name", Owner: "example.com/owner"}

func ownerOf(name string, uid types.UID) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: name, UID: uid}}
}

func TestMarksSet(t *testing.T) {
	child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Labels:      map[string]string{"a": "b", marks.UID: "old"},
		Annotations: map[string]string{"c": "d"},
	}}
	long := strings.Repeat("x", 253)
	owner := ownerOf(long, uid)
	marks.Set(owner, child)
	want := metav1.ObjectMeta{
		Labels: map[string]string{
			"a": "b", marks.UID: string(uid), marks.Name: LabelValue(long), "app.kubernetes.io/managed-by": "labkeeper",
		},
		Annotations: map[string]string{"c": "d", marks.Owner: "lab/" + long},
	}
	if diff := cmp.Diff(want, child.ObjectMeta); diff != "" {
		t.Errorf("child (-want +got):\n%s", diff)
	}
	for key, value := range child.Labels {
		if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
			t.Errorf("label %s: %v", key, problems)
		}
	}
	if !marks.Owns(owner, child) {
		t.Error("it is not the owner's")
	}
	want2 := []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(owner)}}
	if diff := cmp.Diff(want2, marks.Request(child)); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(client.MatchingLabels{marks.UID: string(uid)}, marks.Selector(owner)); diff != "" {
		t.Errorf("selector (-want +got):\n%s", diff)
	}
}

func TestMarksOwns(t *testing.T) {
	tests := map[string]struct {
		owner  types.UID
		labels map[string]string
		owns   bool
	}{
		"its UID":            {uid, map[string]string{marks.UID: string(uid)}, true},
		"another UID":        {uid, map[string]string{marks.UID: "x"}, false},
		"its name only":      {uid, map[string]string{marks.Name: "tutorial"}, false},
		"no labels":          {uid, nil, false},
		"no UID on any side": {"", nil, false},
		"empty UIDs":         {"", map[string]string{marks.UID: ""}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "tutorial", Labels: test.labels}}
			if owns := marks.Owns(ownerOf("tutorial", test.owner), child); owns != test.owns {
				t.Errorf("Owns is %t", owns)
			}
		})
	}
}

func TestMarksRequest(t *testing.T) {
	request := func(namespace, name string) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}}
	}
	tests := map[string]struct {
		annotations map[string]string
		want        []reconcile.Request
	}{
		"namespaced":     {map[string]string{marks.Owner: "lab/tutorial"}, request("lab", "tutorial")},
		"cluster-scoped": {map[string]string{marks.Owner: "/tutorial"}, request("", "tutorial")},
		"none":           {nil, nil},
		"no slash":       {map[string]string{marks.Owner: "tutorial"}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: test.annotations}}
			if diff := cmp.Diff(test.want, marks.Request(child)); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}
