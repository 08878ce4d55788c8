// Package conditions sets and compares status conditions. It is pure: nothing here reads a
// clock or talks to a server.
package conditions

import (
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// MaxMessage is the length in bytes at which messages are cut: long enough for what a
// foreign system has to say, short enough for a table.
const MaxMessage = 1024

// Step is one condition's new value.
type Step struct {
	// Type of the condition.
	Type string
	// Status is True, False or Unknown.
	Status metav1.ConditionStatus
	// Reason in CamelCase.
	Reason string
	// Message for people; it is cut and put on one line.
	Message string
}

// True is a Step whose condition holds.
func True(conditionType, reason, message string) Step {
	return Step{conditionType, metav1.ConditionTrue, reason, message}
}

// False is a Step whose condition does not hold.
func False(conditionType, reason, message string) Step {
	return Step{conditionType, metav1.ConditionFalse, reason, message}
}

// Set writes the step into the conditions. The transition time moves only with the status, and is in whole seconds,
// as the API server keeps it.
func Set(conditions *[]metav1.Condition, s Step, generation int64, now time.Time) {
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type:               s.Type,
		Status:             s.Status,
		Reason:             s.Reason,
		Message:            Line(s.Message),
		ObservedGeneration: generation,
		LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
	})
}

// Summary is the step of the summarising type: True with the given reason and message when
// every step is True, else what the first step says that is not. A step whose reason is
// waiting only waits for others, so it is passed over for one that says what for.
func Summary(conditionType, reason, message, waiting string, steps []Step) Step {
	first := -1
	for i, s := range steps {
		if s.Status == metav1.ConditionTrue {
			continue
		}
		if s.Reason != waiting {
			first = i
			break
		}
		if first < 0 {
			first = i
		}
	}
	if first < 0 {
		return True(conditionType, reason, message)
	}
	return Step{conditionType, metav1.ConditionFalse, steps[first].Reason, steps[first].Message}
}

// Changed lists the conditions of after whose status or reason is not that of before, in
// the order of after.
func Changed(before, after []metav1.Condition) []metav1.Condition {
	var changed []metav1.Condition
	for _, c := range after {
		old := meta.FindStatusCondition(before, c.Type)
		if old == nil || old.Status != c.Status || old.Reason != c.Reason {
			changed = append(changed, c)
		}
	}
	return changed
}

// Line is text of a foreign system as it may stand in a message: on one line, without
// control characters, at most 1,024 bytes.
func Line(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	if len(s) <= MaxMessage {
		return s
	}
	const ellipsis = "..."
	return strings.ToValidUTF8(s[:MaxMessage-len(ellipsis)], "") + ellipsis
}

// Of is the condition of a type that an object of another system has; nil if it has none. It is the object's own, and not to be
// changed.
func Of(o *unstructured.Unstructured, conditionType string) map[string]any {
	all, _, _ := unstructured.NestedFieldNoCopy(o.Object, "status", "conditions")
	list, _ := all.([]any)
	for _, c := range list {
		if condition, _ := c.(map[string]any); condition["type"] == conditionType {
			return condition
		}
	}
	return nil
}

// Said is what such a condition says; it may be empty.
func Said(condition map[string]any) string {
	reason, _ := condition["reason"].(string)
	message, _ := condition["message"].(string)
	return Join(reason, message)
}

// Join is a reason and a message in one, as "Reason: message"; either may be empty.
func Join(reason, message string) string {
	if reason != "" && message != "" {
		reason += ": "
	}
	return reason + message
}
