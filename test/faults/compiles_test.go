package faults

import (
	"strings"
	"testing"
)

// What a compiler would refuse is told of, and of which file.
func TestCompiles(t *testing.T) {
	const (
		file = "test/faults/seats.go"
		old  = "import \"sync\"\n"
	)
	tests := map[string]struct {
		new  string
		says string // nothing where it compiles
	}{
		"as it is":                      {old, ""},
		"another import":                {"import (\n\t\"net/mail\"\n\t\"sync\"\n)\n\nvar _ mail.Address\n", ""},
		"an import that nothing needs":  {"import (\n\t\"net/mail\"\n\t\"sync\"\n)\n", `seats.go:4:2: "net/mail" imported and not used`},
		"an import that is there":       {"import (\n\t\"sync\"\n\t\"sync\"\n)\n", "sync redeclared"},
		"of another type":               {old + "\nvar _ int = \"text\"\n", "cannot use"},
		"what is not there":             {old + "\nvar _ = nowhere\n", "undefined: nowhere"},
		"what another file has already": {old + "\ntype World int\n", "World redeclared"},
		"no Go":                         {"import", "missing import path"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := Mutant{Edits: []Edit{{file, old, test.new}}}
			c, err := newCompiler(t.Context(), []Mutant{m})
			if err == nil {
				err = c.check(m)
			}
			if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("the error is %v, want %q", err, test.says)
			}
		})
	}
}
