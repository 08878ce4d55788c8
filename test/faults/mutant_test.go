//go:build mutants

package faults

import (
	"os"
	"strings"
	"testing"
)

// A bug that does not fit the source exactly once is not planted.
func TestOverlay(t *testing.T) {
	const file = "test/faults/mutant_test.go"
	tests := map[string]struct {
		edits []Edit
		fits  bool
	}{
		"once":          {[]Edit{{file, "package faults\n", "package bugs\n"}}, true},
		"two of a file": {[]Edit{{file, "package faults\n", "package bugs\n"}, {file, "package bugs\n", "package other\n"}}, true},
		"not there":     {[]Edit{{file, "package " + "nowhere", ""}}, false},
		"twice":         {[]Edit{{file, "t.Err" + "or", ""}}, false},
		"no such file":  {[]Edit{{"nowhere.go", "a", ""}}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path, err := Mutant{Name: "bug", Edits: test.edits}.overlay(t.TempDir())
			if (err == nil) != test.fits {
				t.Fatalf("the error is %v", err)
			}
			if overlay, err := os.ReadFile(path); test.fits && (err != nil || !strings.Contains(string(overlay), file)) {
				t.Errorf("the overlay is %s, %v", overlay, err)
			}
			if test.fits {
				return
			}
			if err.Error() == "" {
				t.Error("it does not say why")
			}
		})
	}
}
