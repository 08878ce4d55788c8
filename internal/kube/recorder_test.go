package kube

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	provided "sigs.k8s.io/controller-runtime/pkg/recorder"
)

// recording is a manager that records Events.
type recording struct {
	ctrl.Manager
	d     *desk
	names []string
}

func (r *recording) GetScheme() *runtime.Scheme { return scheme.Scheme }

func (r *recording) GetEventRecorder(name string) provided.EventRecorder {
	r.names = append(r.names, name)
	return struct {
		events.EventRecorder
		events.AnnotatedEventRecorder
	}{EventRecorder: r.d.recorder}
}

// Events are counted by the kind of what they are of, also of a kind that has no Go type, and where none are recorded.
func TestEventsAreCounted(t *testing.T) {
	claim := Empty(schema.GroupVersionKind{Group: "illm.io", Version: "v1alpha1", Kind: "GKECluster"})
	for _, test := range []struct {
		record bool
		story  []string
		names  []string
	}{
		{true, []string{"event Warning Late Reconcile it is 5 s late", "event Normal Done Reconcile it is", "event Normal Done Reconcile it is"}, []string{"lab-controller"}},
		{false, nil, nil},
	} {
		EventsTold.Reset()
		mgr := &recording{d: newDesk()}
		r := NewRecorder(mgr, "lab", test.record)
		r.Eventf(podOf(), nil, corev1.EventTypeWarning, "Late", "Reconcile", "it is %d s late", 5)
		r.Eventf(claim, nil, corev1.EventTypeNormal, "Done", "Reconcile", "it is")
		r.Eventf(claim, nil, corev1.EventTypeNormal, "Done", "Reconcile", "it is")
		if diff := cmp.Diff(test.story, mgr.d.story) + cmp.Diff(test.names, mgr.names); diff != "" {
			t.Errorf("record %t (-want +got):\n%s", test.record, diff)
		}
		if err := testutil.CollectAndCompare(EventsTold, strings.NewReader(`
# HELP labkeeper_events_total Events that were told of objects of a kind, by their type and reason, also where none are recorded.
# TYPE labkeeper_events_total counter
labkeeper_events_total{kind="GKECluster",reason="Done",type="Normal"} 2
labkeeper_events_total{kind="Pod",reason="Late",type="Warning"} 1
`)); err != nil {
			t.Errorf("record %t: %v", test.record, err)
		}
	}
}
