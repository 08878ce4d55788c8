package hibernateplan

import (
	"cmp"
	"time"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// counted is what metrics tell of a plan at a moment. The time of a deletion that no manager has acted on counts from when it was
// asked for.
func counted(plan *v1alpha1.HibernatePlan, now time.Time) kube.State {
	s := kube.State{Phase: string(plan.Status.Phase), Conditions: plan.Status.Conditions}
	if plan.DeletionTimestamp != nil {
		since := cmp.Or(plan.Status.DeletingSince, plan.DeletionTimestamp)
		s.Overdue = now.Sub(since.Time) > deadlineOf(plan)
	}
	return s
}
