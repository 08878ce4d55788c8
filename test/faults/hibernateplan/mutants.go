//go:build mutants

package hibernateplan

import "github.com/labkeeper/labkeeper/test/faults"

var mutants = []faults.Mutant{}
