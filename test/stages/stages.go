// Package stages has the outsides that kwok plays: Crossplane, Cluster API, Argo CD and Argo Workflows
// as Stage files, with nothing but their documented behaviour on the objects that we exchange with them.
//
// What every run shares is beside this file. The outcome of each outside is a file of its own, in
// normal and, under the same name, in faults, so that any one of them can be made to fail.
package stages

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/labkeeper/labkeeper/test/env"
)

// shared are the files of every run.
var shared = []string{"crossplane.yaml", "cluster-api.yaml", "argocd.yaml", "argo-workflows.yaml"}

// outcomes are the files in normal and in faults, and so the names of the faults.
var outcomes = []string{"cluster", "app", "workflow"}

// Faults returns the names of the faults: cluster, app and workflow.
func Faults() []string { return slices.Clone(outcomes) }

// Files returns the Stage files of a run in which the named outsides fail. An empty name stands for
// none, so that an unset variable can be passed as it is.
func Files(faults ...string) ([]string, error) {
	faults = slices.DeleteFunc(slices.Clone(faults), func(f string) bool { return f == "" })
	for _, fault := range faults {
		if !slices.Contains(outcomes, fault) {
			return nil, fmt.Errorf("choosing stages: no fault is called %q, only %s", fault, strings.Join(outcomes, ", "))
		}
	}
	dir := filepath.Join(env.Root(), "test", "stages")
	files := make([]string, 0, len(shared)+len(outcomes))
	for _, name := range shared {
		files = append(files, filepath.Join(dir, name))
	}
	for _, outcome := range outcomes {
		folder := "normal"
		if slices.Contains(faults, outcome) {
			folder = "faults"
		}
		files = append(files, filepath.Join(dir, folder, outcome+".yaml"))
	}
	return files, nil
}
