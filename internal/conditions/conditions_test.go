package conditions

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestSet(t *testing.T) {
	old := metav1.Condition{Type: "Done", Status: "False", Reason: "Waiting", Message: "for x", ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(epoch)}
	later := epoch.Add(time.Hour)
	tests := map[string]struct {
		before []metav1.Condition
		step   Step
		want   metav1.Condition
	}{
		"new": {
			nil, True("Done", "AllDone", "All of\nit"),
			metav1.Condition{Type: "Done", Status: "True", Reason: "AllDone", Message: "All of it", ObservedGeneration: 2, LastTransitionTime: metav1.NewTime(later)},
		},
		"same status, another reason": {
			[]metav1.Condition{old}, False("Done", "Failing", "y"),
			metav1.Condition{Type: "Done", Status: "False", Reason: "Failing", Message: "y", ObservedGeneration: 2, LastTransitionTime: metav1.NewTime(epoch)},
		},
		"another status": {
			[]metav1.Condition{old}, True("Done", "AllDone", ""),
			metav1.Condition{Type: "Done", Status: "True", Reason: "AllDone", ObservedGeneration: 2, LastTransitionTime: metav1.NewTime(later)},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			other := metav1.Condition{Type: "Other", Status: "True", Reason: "R"}
			got := append([]metav1.Condition{other}, test.before...)
			Set(&got, test.step, 2, later)
			if diff := cmp.Diff([]metav1.Condition{other, test.want}, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSummary(t *testing.T) {
	good, broken := True("A", "Fine", "a"), False("B", "Broken", "b")
	waits, waitsToo := False("C", "Pending", "c"), False("D", "Pending", "d")
	unknown := Step{"E", metav1.ConditionUnknown, "NotSeen", "e"}
	all := True("Ready", "Complete", "done")
	tests := map[string]struct {
		steps []Step
		want  Step
	}{
		"none":                          {nil, all},
		"all true":                      {[]Step{good, good}, all},
		"the first that is not":         {[]Step{good, broken, unknown}, False("Ready", "Broken", "b")},
		"not known is not true":         {[]Step{good, unknown}, False("Ready", "NotSeen", "e")},
		"one that says what for":        {[]Step{good, waits, broken}, False("Ready", "Broken", "b")},
		"only waiting":                  {[]Step{good, waits, waitsToo}, False("Ready", "Pending", "c")},
		"a true one that waits is true": {[]Step{True("A", "Pending", "a")}, all},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Summary("Ready", "Complete", "done", "Pending", test.steps)); diff != "" {
				t.Errorf("summary (-want +got):\n%s", diff)
			}
		})
	}
}

func TestChanged(t *testing.T) {
	condition := func(name, status, reason, message string) metav1.Condition {
		return metav1.Condition{Type: name, Status: metav1.ConditionStatus(status), Reason: reason, Message: message}
	}
	before := []metav1.Condition{
		condition("Same", "True", "R", "m"), condition("Message", "True", "R", "old"),
		condition("Reason", "False", "Old", "m"), condition("Status", "False", "R", "m"), condition("Gone", "True", "R", "m"),
	}
	after := []metav1.Condition{
		condition("New", "False", "R", "m"), condition("Status", "True", "R", "m"), condition("Same", "True", "R", "m"),
		condition("Reason", "False", "New", "m"), condition("Message", "True", "R", "new"),
	}
	var got []string
	for _, c := range Changed(before, after) {
		got = append(got, c.Type)
	}
	if diff := cmp.Diff([]string{"New", "Status", "Reason"}, got); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
}

func TestLine(t *testing.T) {
	long := strings.Repeat("x", MaxMessage)
	tests := map[string]struct{ text, want string }{
		"empty":              {"", ""},
		"plain":              {"as it is: 100 %", "as it is: 100 %"},
		"lines":              {"one\n\n two\r\n\tthree\u2028four\n", "one two three four"},
		"control characters": {"a\x00b\x1b[31mred\x07\u0085c", "a b [31mred c"},
		"longest":            {long, long},
		"too long":           {long + "x", long[:MaxMessage-3] + "..."},
		"long by spaces":     {"a" + strings.Repeat(" ", 2*MaxMessage) + "b", "a b"},
		// Of the first rune two of three bytes are among the first 1,021.
		"cut inside of a rune": {strings.Repeat("x", MaxMessage-5) + "€€", strings.Repeat("x", MaxMessage-5) + "..."},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := Line(test.text)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("line (-want +got):\n%s", diff)
			}
			if Line(got) != got {
				t.Errorf("once more it is %q", Line(got))
			}
		})
	}
}

func FuzzLine(f *testing.F) {
	f.Add("one\ntwo")
	f.Add(strings.Repeat("€", MaxMessage))
	f.Add("\xff" + strings.Repeat("\xe2\x82", MaxMessage))
	f.Fuzz(func(t *testing.T, text string) {
		got := Line(text)
		if len(got) > MaxMessage || strings.ContainsAny(got, "\n\r\t\x00") {
			t.Errorf("it is %d bytes: %q", len(got), got)
		}
		if utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Errorf("it is not UTF-8: %q", got)
		}
	})
}
