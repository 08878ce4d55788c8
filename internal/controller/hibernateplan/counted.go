package hibernateplan

import (
	"time"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// counted is what metrics tell of a plan at a moment.
func counted(plan *v1alpha1.HibernatePlan, now time.Time) kube.State {
	return kube.State{
		Phase: string(plan.Status.Phase), Conditions: plan.Status.Conditions,
		Overdue: kube.Overdue(plan.DeletionTimestamp, plan.Status.DeletingSince, deadlineOf(plan), now),
	}
}
