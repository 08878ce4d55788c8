package experiment

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// counted is what metrics tell of an Experiment at a moment.
func counted(e *v1alpha1.Experiment, now time.Time) kube.State {
	var acted *metav1.Time
	if t := e.Status.Teardown; t != nil {
		acted = t.StartedAt
	}
	return kube.State{
		Phase: string(e.Status.Phase), Conditions: e.Status.Conditions,
		Overdue: kube.Overdue(e.DeletionTimestamp, acted, deadlineOf(e), now),
	}
}
