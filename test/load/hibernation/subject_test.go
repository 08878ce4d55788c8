package hibernation

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/test/load/harness"
)

func TestStory(t *testing.T) {
	const ours = `"metadata": {"uid": "other", "labels": {"` + v1alpha1.LabelUID + `": "uid"}}`
	for name, test := range map[string]struct {
		verb, object string
		want         harness.Beat
	}{
		"created": {"ADDED", `{"kind": "HibernatePlan", "metadata": {"uid": "uid"}}`, harness.Beat{Owner: "uid", Marks: []string{"created"}, Where: "spec"}},
		"on its way": {"MODIFIED", `{"kind": "HibernatePlan", "metadata": {"uid": "uid"}, "status": {"phase": "Hibernating"}}`,
			harness.Beat{Owner: "uid", Marks: []string{"acted", "Hibernating"}, Where: "spec"}},
		"refused": {"MODIFIED", `{"kind": "HibernatePlan", "metadata": {"uid": "uid"}, "status": {"conditions": [{"type": "Scheduled", "reason": "InvalidSpec"}]}}`,
			harness.Beat{Owner: "uid", Marks: []string{"acted", "refused"}, Where: "spec"}},
		"gone":  {"DELETED", `{"kind": "HibernatePlan", "metadata": {"uid": "uid"}}`, harness.Beat{Owner: "uid", Marks: []string{"gone"}, Where: "spec"}},
		"a Job": {"ADDED", `{"kind": "Job", ` + ours + `}`, harness.Beat{Owner: "uid", Marks: []string{"Job"}}},
		"a complete Job": {"MODIFIED", `{"kind": "Job", ` + ours + `, "status": {"completionTime":"2026-01-01T00:00:00Z"}}`,
			harness.Beat{Owner: "uid", Marks: []string{"Job complete"}}},
	} {
		t.Run(name, func(t *testing.T) {
			e := harness.Event{Type: test.verb}
			if err := json.Unmarshal([]byte(test.object), &e.Object); err != nil {
				t.Fatal(err)
			}
			if e.Object.Resource = plans; e.Object.Kind == "Job" {
				e.Object.Resource = jobs
			}
			if diff := cmp.Diff(test.want, story(e)); diff != "" {
				t.Errorf("beat (-want +got):\n%s", diff)
			}
		})
	}
}

// A plan at 23:30 sleeps into the next day, and what is created now sleeps by its override alone.
func TestPlanAt(t *testing.T) {
	at := planAt("load", "p", time.Date(2026, 3, 1, 23, 30, 0, 0, time.UTC), 2)
	plan := &v1alpha1.HibernatePlan{}
	content, err := json.Marshal(at)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, plan); err != nil {
		t.Fatal(err)
	}
	window := plan.Spec.Schedule.OffHours[0]
	if window.Start != "23:30" || window.End != "00:30" || plan.Spec.Override != nil || len(plan.Spec.Targets) != 2 {
		t.Errorf("%+v", plan.Spec)
	}
}
