package faults

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/labkeeper/labkeeper/test/env"
)

var (
	runs     = regexp.MustCompile(`-run '?([^' ]+)`)
	packages = regexp.MustCompile(`(?:^| )(\./[^ )\n]+)`)
	calls    = regexp.MustCompile(`\$\(call swept,([^)]*)\)`)
	lengthy  = regexp.MustCompile(`(?m)^func TestLengthy`)
	tests    = regexp.MustCompile(`(?m)^func (Test\w*)\(`)
)

// go test is content when there is no test by the name that a target gives, and ginkgo when a label filter leaves nothing. What is fuzzed
// for a minute is not when go test takes that for making smaller what it has found.
func TestTargetsNameTests(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(env.Root(), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(makefile)) {
		if strings.Contains(line, "label-filter") && !strings.Contains(line, "fail-on-empty") {
			t.Errorf("that there is no such spec is no failure: %s", line)
		}
		if strings.Contains(line, "-fuzz ") && !strings.Contains(line, "-fuzzminimizetime ") {
			t.Errorf("it may fuzz nothing: %s", line)
		}
		if run := runs.FindStringSubmatch(line); run != nil && !strings.Contains(line, "-fuzz ") { // which names what it has found
			n++
			if err := named(line, run[1]); err != nil {
				t.Errorf("%v: %s", err, line)
			}
		}
	}
	if n == 0 {
		t.Error("no target names a test")
	}
}

// What make test skips for its length, make test-long plays.
func TestAllThatIsLengthyIsPlayed(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(env.Root(), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	var has, played []string
	for line := range strings.Lines(string(makefile)) {
		if strings.Contains(line, "-run '^TestLengthy'") {
			for _, dir := range packages.FindAllStringSubmatch(line, -1) {
				played = append(played, dir[1])
			}
		}
	}
	for _, dir := range []string{"cmd", "internal", "test"} {
		err := filepath.WalkDir(filepath.Join(env.Root(), dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			code, err := os.ReadFile(path)
			if lengthy.Match(code) {
				has = append(has, "./"+strings.TrimPrefix(filepath.Dir(path), env.Root()+"/"))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(has)
	if has = slices.Compact(has); !slices.Equal(has, played) {
		t.Errorf("test-long plays %v, and there are some in %v", played, has)
	}
}

// silent is what keeps a recipe that fails from failing its target: a command whose failure is ignored or left behind in the
// background, and one whose output is an argument, of which nobody asks how it ended.
var silent = regexp.MustCompile(`^\t@?-|\|\| *(true\b|:( |$)|exit 0\b)|[^&>]&( |$)|[^=]\$\$\((go|make|hack/)`)

func TestTargetsFail(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(env.Root(), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"SHELL := bash\n", ".SHELLFLAGS := -euo pipefail -c\n"} {
		if !strings.Contains(string(makefile), want) {
			t.Errorf("there is no %q", want)
		}
	}
	for line := range strings.Lines(string(makefile)) {
		if line = strings.TrimSuffix(line, "\n"); silent.MatchString(line) || strings.HasPrefix(line, ".IGNORE") {
			t.Errorf("that it fails is no failure of its target: %s", line)
		}
	}
}

func TestSilent(t *testing.T) {
	for line, is := range map[string]bool{
		"\t@go test ./...": false,
		"\t-go test ./...": true, "\t@-rm -rf bin": true,
		"\t@go test ./... || true": true, "\t@go test ./... || :": true, "\t@a || { echo b >&2; exit 1; }": false,
		"\t@a &": true, "\t@a & b": true, "\t@a && b 2>&1": false,
		"\t@go test -count=1 $$(go list ./... | grep -v x)": true, "\t@packages=$$(go list ./...); go test $$packages": false,
		"\t@git diff && [[ -z $$(git ls-files) ]] || { exit 1; }": false,
	} {
		if silent.MatchString(line) != is {
			t.Errorf("%q: %t", line, !is)
		}
	}
}

func TestNamed(t *testing.T) {
	for line, ok := range map[string]bool{
		"go test $(call swept,...) -run TestSweep":                      true,
		"go test $(call swept,experiment component) -run TestMutants":   true,
		"go test $(call swept,experiment toy/manager) -run TestMutants": false,
		"go test ./test/faults -count=1 -run TestOverlay $(SWEEPFLAGS)": true,
		"go test ./test/faults -run 'TestOverlay|TestIsNot'":            false,
		"go test ./test/faults -run TestSweep":                          false,
		"go test ./test/none -run TestSweep":                            false,
		"go test -run TestSweep":                                        false,
	} {
		if err := named(line, runs.FindStringSubmatch(line)[1]); (err == nil) != ok {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// named says which part of a pattern is the name of no test in one of the packages of a command: in all of them, each has one.
func named(command, pattern string) error {
	var dirs []string
	for _, of := range calls.FindAllStringSubmatch(command, -1) {
		for _, name := range strings.Fields(of[1]) {
			dirs = append(dirs, "./test/faults/"+name)
		}
	}
	for _, dir := range packages.FindAllStringSubmatch(calls.ReplaceAllString(command, ""), -1) {
		dirs = append(dirs, dir[1])
	}
	if len(dirs) == 0 {
		return errors.New("it names no package")
	}
	for _, dir := range dirs {
		names, err := testsOf(dir)
		if err != nil {
			return err
		}
		for _, part := range strings.Split(pattern, "|") {
			name, err := regexp.Compile("(?m)" + part)
			if err != nil {
				return err
			}
			if !name.MatchString(names) {
				return fmt.Errorf("%s has no test %s", dir, part)
			}
		}
	}
	return nil
}

// testsOf are the names of the tests of a package, whatever its build tags, or of all below it (...), one in a line.
func testsOf(dir string) (string, error) {
	root, all := strings.CutSuffix(dir, "/...")
	root = filepath.Join(env.Root(), root)
	var names strings.Builder
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && !all && path != root:
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, name := range tests.FindAllSubmatch(text, -1) {
			fmt.Fprintf(&names, "%s\n", name[1])
		}
		return err
	})
	return names.String(), err
}
