package kube

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// EventsTold is the metric labkeeper_events_total, of all recorders of NewRecorder: how many Events they were told. Kinds, types and
// reasons are constants, so that it has some hundred series at most.
var EventsTold = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "labkeeper_events_total",
	Help: "Events that were told of objects of a kind, by their type and reason, also where none are recorded.",
}, []string{"kind", "type", "reason"})

// NewRecorder is the recorder of a controller by its name, for instance experiment. It counts what it is told, and records that if it is
// to.
func NewRecorder(mgr ctrl.Manager, controller string, record bool) events.EventRecorder {
	next := Silence
	if record {
		next = mgr.GetEventRecorder(controller + "-controller")
	}
	return counting{next, mgr.GetScheme()}
}

// counting counts Events before they are recorded.
type counting struct {
	events.EventRecorder
	scheme *runtime.Scheme
}

// Eventf is that of events.EventRecorder.
func (c counting) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	kind := "" // of what is in no scheme, and does not say: there is none
	if gvk, err := apiutil.GVKForObject(regarding, c.scheme); err == nil {
		kind = gvk.Kind
	}
	EventsTold.WithLabelValues(kind, eventType, reason).Inc()
	c.EventRecorder.Eventf(regarding, related, eventType, reason, action, note, args...)
}
