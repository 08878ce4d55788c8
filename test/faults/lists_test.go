package faults_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/labkeeper/labkeeper/test/env"
	"github.com/labkeeper/labkeeper/test/faults"
	"github.com/labkeeper/labkeeper/test/faults/component"
	"github.com/labkeeper/labkeeper/test/faults/experiment"
	"github.com/labkeeper/labkeeper/test/faults/experimentdeployment"
	"github.com/labkeeper/labkeeper/test/faults/hibernateplan"
)

var lists = map[string]func() ([]faults.Workload, []faults.Mutant){
	"component": component.Lists, "experiment": experiment.Lists, "experimentdeployment": experimentdeployment.Lists, "hibernateplan": hibernateplan.Lists,
}

// Of two of a name a flag finds the first, and of one that is not there a mutant says so when it is played, which takes an hour.
func TestLists(t *testing.T) {
	halves := map[faults.Half]int{}
	for kind, list := range lists {
		workloads, mutants := list()
		var names, planted []string
		for _, w := range workloads {
			if slices.Contains(names, w.Name) {
				t.Errorf("%s: there are two workloads %s", kind, w.Name)
			}
			names = append(names, w.Name)
		}
		for _, m := range mutants {
			if slices.Contains(planted, m.Name) {
				t.Errorf("%s: there are two mutants %s", kind, m.Name)
			}
			planted = append(planted, m.Name)
			if len(m.Workloads) == 0 || slices.ContainsFunc(m.Workloads, func(name string) bool { return !slices.Contains(names, name) }) {
				t.Errorf("%s: mutant %s is played with %v", kind, m.Name, m.Workloads)
			}
		}
		sampled := slices.DeleteFunc(slices.Clone(workloads), func(w faults.Workload) bool { return w.Sampled == faults.NoHalf })
		if len(sampled) != 1 {
			t.Errorf("%s: make test plays %d of its workloads", kind, len(sampled))
			continue
		}
		halves[sampled[0].Sampled]++
	}
	if halves[faults.FirstHalf] != 2 || halves[faults.SecondHalf] != 2 {
		t.Errorf("make test plays the modes so often: %v", halves)
	}
}

// The README says how many there are.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(env.Root(), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	played, planted := 0, 0
	for _, list := range lists {
		workloads, mutants := list()
		played, planted = played+len(workloads), planted+len(mutants)
	}
	text := strings.Join(strings.Fields(string(readme)), " ")
	for _, said := range []string{fmt.Sprintf("Each of %d things that users do", played), fmt.Sprintf("%d planted bugs", planted)} {
		if !strings.Contains(text, said) {
			t.Errorf("it does not say: %s", said)
		}
	}
}
