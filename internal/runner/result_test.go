package runner

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestResultIsShort(t *testing.T) {
	many := make([]string, 500)
	for i := range many {
		many[i] = fmt.Sprintf("Deployment.apps/shop/web-%03d: somebody has scaled it to %d", i, i)
	}
	for name, r := range map[string]Result{
		"short":   {Execution: "e", Completed: true, Message: "2 of 2 resources", Left: []string{"a: it is gone"}, LeftCount: 1},
		"many":    {Execution: "e", Completed: true, Left: many},
		"long":    {Execution: "e", Message: strings.Repeat("ü€𝄞", 3000), Left: []string{strings.Repeat("ü", 5000), "b"}},
		"escaped": {Execution: "e", Message: strings.Repeat("\x00\"\\", 3000), Left: slicesOf(strings.Repeat("\x01", 500), 30)},
		"broken":  {Execution: "e", Message: strings.Repeat("a\xff", 3000)},
		"html":    {Execution: "e", Message: strings.Repeat("<&>", 3000)},
	} {
		content, err := r.Encode()
		if err != nil || len(content) > 4096 || !utf8.Valid(content) {
			t.Errorf("%s: %d bytes, %v", name, len(content), err)
		}
		var got Result
		if err := json.Unmarshal(content, &got); err != nil || strings.Contains(got.Message, "\ufffd") {
			t.Errorf("%s: %v: %q", name, err, got.Message)
		}
		if name == "short" {
			if diff := cmp.Diff(r, got); diff != "" {
				t.Errorf("it was changed (-want +got):\n%s", diff)
			}
		}
		if name == "many" && (len(got.Left) != 21 || got.LeftCount != 500 || got.Left[20] != "and 480 more") {
			t.Errorf("left are %d, %q", got.LeftCount, got.Left)
		}
	}
}

func slicesOf(s string, n int) []string {
	return strings.Split(strings.Repeat(s+"|", n), "|")
}

func TestCut(t *testing.T) {
	for text, want := range map[string]string{"": "", "abcdef": "abcdef", "abcdefg": "abc…", "abüüüüü": "ab…", "aaaü€€": "aaa…"} {
		if got := cut(text, 6); got != want {
			t.Errorf("%q is cut to %q, and not %q", text, got, want)
		}
	}
	if got := cut("abc", 2); got != "" {
		t.Errorf("there is no room for a sign: %q", got)
	}
}

func TestList(t *testing.T) {
	if got := list([]string{"g", "b", "a", "f", "e", "d", "c"}); got != "a; b; c; d; e; and 2 more" {
		t.Errorf("it is %q", got)
	}
}

func TestTerminationMessage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := (Result{Execution: "e", Reason: ReasonFailed}).WriteTerminationMessage(path); err != nil {
		t.Fatal(err)
	}
	var got Result
	content, err := os.ReadFile(path)
	if err := json.Unmarshal(content, &got); err != nil || got.Reason != ReasonFailed {
		t.Errorf("it is %s: %v", content, err)
	}
	if err != nil {
		t.Error(err)
	}
	if err := (Result{}).WriteTerminationMessage(filepath.Join(path, "none")); err == nil {
		t.Error("a message that could not be written is no error")
	}
}
