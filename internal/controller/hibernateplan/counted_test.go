package hibernateplan

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
)

// A plan is overdue when the time that its spec gives its targets to wake is over, from when a manager has seen that it is to go, or
// that was asked for.
func TestOverdueIsCounted(t *testing.T) {
	for name, test := range map[string]struct {
		deleted, seen, deadline time.Duration
		want                    bool
	}{
		"stays":                   {0, 0, 0, false},
		"within the default":      {59 * time.Minute, 59 * time.Minute, 0, false},
		"after the default":       {61 * time.Minute, 61 * time.Minute, 0, true},
		"seen late":               {2 * time.Hour, time.Minute, 0, false},
		"never seen":              {61 * time.Minute, 0, 0, true},
		"after its own deadline":  {11 * time.Minute, 11 * time.Minute, 10 * time.Minute, true},
		"within its own deadline": {119 * time.Minute, 119 * time.Minute, 2 * time.Hour, false},
	} {
		plan := &v1alpha1.HibernatePlan{Status: v1alpha1.HibernatePlanStatus{Phase: v1alpha1.PhaseWakingUp}}
		if test.deleted > 0 {
			plan.DeletionTimestamp = ptr.To(metav1.NewTime(noon.Add(-test.deleted)))
		}
		if test.seen > 0 {
			plan.Status.DeletingSince = ptr.To(metav1.NewTime(noon.Add(-test.seen)))
		}
		if test.deadline > 0 {
			plan.Spec.Deletion = &v1alpha1.Deletion{Deadline: &metav1.Duration{Duration: test.deadline}}
		}
		if s := counted(plan, noon); s.Overdue != test.want || s.Phase != "WakingUp" {
			t.Errorf("%s: %+v", name, s)
		}
	}
}
