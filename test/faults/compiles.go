package faults

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/labkeeper/labkeeper/test/env"
)

// compiler checks the types of what is edited, as a compiler does, in a hundredth of the time of a build.
type compiler struct {
	files   *token.FileSet
	imports types.Importer
	// sources are the files of each package that is edited, by its folder.
	sources map[string][]string
}

// newCompiler has what the packages import that mutants edit, before and after.
func newCompiler(ctx context.Context, mutants []Mutant) (*compiler, error) {
	c := &compiler{files: token.NewFileSet(), sources: map[string][]string{}}
	wanted := map[string]bool{}
	for _, m := range mutants {
		edited, _ := m.edited() // of what does not fit, check tells
		for file, text := range edited {
			c.sources[path.Dir(file)] = nil
			parsed, err := parser.ParseFile(c.files, file, text, parser.ImportsOnly)
			if err != nil {
				return nil, fmt.Errorf("%s: parsing imports of what was edited: %w", m.Name, err)
			}
			for _, i := range parsed.Imports {
				wanted[strings.Trim(i.Path.Value, `"`)] = true
			}
		}
	}
	const format = `{{.Dir}}|{{.ImportPath}}|{{.Export}}|{{join .GoFiles ","}}`
	args := []string{"list", "-buildvcs=false", "-trimpath", "-tags=faults", "-export", "-deps", "-f=" + format}
	for folder := range c.sources {
		wanted["./"+folder] = true
	}
	list := exec.CommandContext(ctx, "go", append(args, slices.Sorted(maps.Keys(wanted))...)...)
	list.Dir = env.Root()
	list.Env = append(list.Environ(), "CGO_ENABLED=0")
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("listing what is imported: %w", err)
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		exports[fields[1]] = fields[2]
		folder, err := filepath.Rel(env.Root(), fields[0])
		if _, edited := c.sources[folder]; err == nil && edited {
			c.sources[folder] = strings.Split(fields[3], ",")
		}
	}
	c.imports = importer.ForCompiler(c.files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	return c, nil
}

// check is what is wrong with the packages that a mutant edits. What one of them changes for another is not seen.
func (c *compiler) check(m Mutant) error {
	edited, err := m.edited()
	if err != nil {
		return err
	}
	folders := map[string]bool{}
	for file := range edited {
		folders[path.Dir(file)] = true
	}
	var errs []error
	for folder := range folders {
		var files []*ast.File
		for _, name := range c.sources[folder] {
			var text any // nil has the file itself read
			if e, found := edited[path.Join(folder, name)]; found {
				text = e
			}
			file, err := parser.ParseFile(c.files, filepath.Join(env.Root(), folder, name), text, parser.SkipObjectResolution)
			if err != nil {
				return fmt.Errorf("parsing: %w", err)
			}
			files = append(files, file)
		}
		_, err := (&types.Config{Importer: c.imports, Error: func(err error) { errs = append(errs, err) }}).Check(folder, c.files, files, nil)
		if len(errs) == 0 && err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
