package experiment

import (
	"time"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// counted is what metrics tell of an Experiment at a moment. The time of a deletion that no manager has acted on counts from when
// it was asked for.
func counted(e *v1alpha1.Experiment, now time.Time) kube.State {
	s := kube.State{Phase: string(e.Status.Phase), Conditions: e.Status.Conditions}
	if since := e.DeletionTimestamp; since != nil {
		if t := e.Status.Teardown; t != nil && t.StartedAt != nil {
			since = t.StartedAt
		}
		s.Overdue = now.Sub(since.Time) > deadlineOf(e)
	}
	return s
}
