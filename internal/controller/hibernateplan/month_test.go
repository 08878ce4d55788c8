package hibernateplan

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
)

// sleeps is what the plan of TestMonth says, read off the wall clock: from 20:00 of weekdays to 06:00 of the days after.
// On 14 March, a Saturday, it sleeps over noon, too, and from the 18th at 18:00 to the 19th at noon not at all.
func sleeps(at time.Time) bool {
	weekday := func(t time.Time) bool { return t.Weekday() != time.Saturday && t.Weekday() != time.Sunday }
	minute := at.Hour()*60 + at.Minute()
	stamp := at.Format("01-02 15:04")
	switch {
	case stamp >= "03-18 18:00" && stamp < "03-19 12:00":
		return false
	case stamp >= "03-14 10:00" && stamp < "03-14 14:00":
		return true
	}
	return minute >= 20*60 && weekday(at) || minute < 6*60 && weekday(at.AddDate(0, 0, -1))
}

// A month, minute by minute, with a change of clocks, two exceptions, and three times without a manager: whenever there
// is one, everything is as it should be, and nothing is ever early.
func TestMonth(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	day := func(d, h, m int) time.Time { return time.Date(2026, 3, d, h, m, 0, 0, berlin) }
	plan := newPlan(v1alpha1.StrategyStaged, 4)
	plan.Spec.Schedule.Timezone = "Europe/Berlin"
	exception := func(name string, kind v1alpha1.ExceptionType, from, until time.Time, windows ...v1alpha1.OffHours) v1alpha1.ScheduleException {
		return v1alpha1.ScheduleException{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ScheduleExceptionSpec{
			PlanRef: v1alpha1.PlanRef{Name: plan.Name}, Type: kind, ValidFrom: metav1.NewTime(from), ValidUntil: metav1.NewTime(until), Windows: windows,
		}}
	}
	w := newWorld(t, plan)
	w.exceptions = []v1alpha1.ScheduleException{
		exception("noon", v1alpha1.ExceptionExtend, day(14, 0, 0), day(15, 0, 0), v1alpha1.OffHours{Start: "10:00", End: "14:00", DaysOfWeek: []v1alpha1.DayOfWeek{"SAT"}}),
		exception("release", v1alpha1.ExceptionSuspend, day(18, 18, 0), day(19, 12, 0)),
	}
	outages := [][2]time.Time{
		{day(5, 19, 30), day(6, 3, 17)},  // the evening is missed
		{day(10, 23, 0), day(12, 9, 41)}, // a morning, a night and another morning are
		{day(28, 12, 0), day(29, 4, 5)},  // clocks change
	}
	down := func(now time.Time) bool {
		for _, o := range outages {
			if !now.Before(o[0]) && now.Before(o[1]) {
				return true
			}
		}
		return false
	}
	changes, was := 0, false
	due := time.Time{}
	for w.now = day(1, 0, 0); w.now.Before(day(31, 23, 59)); w.now = w.now.Add(time.Minute) {
		if down(w.now) {
			due = time.Time{} // whoever starts looks at once
			continue
		}
		if due.IsZero() || !w.now.Before(due) {
			due = w.now.Add(w.settle().Wait)
		}
		want := sleeps(w.now)
		if asleep := len(w.asleep) == 4; asleep != want || !want && len(w.asleep) > 0 {
			t.Fatalf("at %s: asleep %v, want %t", w.now, w.asleep, want)
		}
		if want != was {
			changes, was = changes+1, want
		}
	}
	if changes < 40 {
		t.Errorf("%d changes", changes)
	}
	if n := len(w.plan.Status.History); n != history {
		t.Errorf("%d cycles are kept", n)
	}
}
