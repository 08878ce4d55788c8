package component

import "github.com/labkeeper/labkeeper/test/faults"

// reconciler is the file that has bugs planted.
const reconciler = "internal/controller/experiment/component.go"

func edit1(before, after string) []faults.Edit {
	return []faults.Edit{{File: reconciler, Old: before, New: after}}
}

// mutants are bugs that the reconciler of Components may have.
var mutants = []faults.Mutant{
	{
		Name: "gone-by-cache", RootCause: "the finalizer is dropped by what the cache has",
		Edits:     edit1("	if done {\n		if err := r.unnamed", "	if done && c.Name == \"\" {\n		if err := r.unnamed"),
		Workloads: []string{"named-late"}, Modes: []faults.Mode{faults.Behind},
	},
	{
		Name: "not-counted-again", RootCause: "Experiments that leave wake nobody",
		Edits:     edit1("	wake(q, w.componentNames(e.Object))\n}\n\n// Generic", "}\n\n// Generic"),
		Workloads: []string{"named"},
	},
	{
		Name: "polled", RootCause: "what is settled is looked at every second",
		Edits: append(edit1("	if done {\n		if err := r.unnamed(ctx, c); err != nil {", "	{\n		if err := r.unnamed(ctx, c); done && err != nil {"),
			edit1("kube.Outcome{Done: done, Told: r.told})", "kube.Outcome{Done: done, Told: r.told, Wait: time.Second})")...),
		Workloads: []string{"renamed"},
	},
	{
		Name: "unobserved", RootCause: "a condition does not say which spec it speaks of",
		Edits:     edit1("readiness(c, users), c.Generation, r.clock.Now())", "readiness(c, users), 0, r.clock.Now())"),
		Workloads: []string{"named"},
	},
	{
		Name: "finalizer-lost", RootCause: "a finalizer that somebody has taken off is not put back",
		Edits:     edit1("kube.Respecified, kube.Unprotected(v1alpha1.ComponentFinalizer), r.told", "kube.Respecified, r.told"),
		Workloads: []string{"unprotected"},
	},
}

// Lists are what is played, and the bugs that are planted.
func Lists() ([]faults.Workload, []faults.Mutant) { return workloads, mutants }
