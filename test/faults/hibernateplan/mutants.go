package hibernateplan

import (
	"slices"

	"github.com/labkeeper/labkeeper/test/faults"
)

// The files that have bugs planted.
const (
	observe  = "internal/controller/hibernateplan/observe.go"
	plan     = "internal/controller/hibernateplan/plan.go"
	applying = "internal/controller/hibernateplan/apply.go"
	ledger   = "internal/controller/hibernateplan/ledger.go"
	naming   = "internal/controller/hibernateplan/names.go"
	jobs     = "internal/controller/hibernateplan/jobs.go"
	desiring = "internal/controller/hibernateplan/desire.go"
	sweeping = "internal/controller/hibernateplan/sweep.go"
)

func edit1(file, before, after string) []faults.Edit {
	return []faults.Edit{{File: file, Old: before, New: after}}
}

// mutants are bugs that a reconciler of plans may have, and that of Experiments does not.
var mutants = []faults.Mutant{
	{
		Name: "job-before-record", RootCause: "the Job is made in the pass that intends it, before the attempt is recorded",
		Edits: []faults.Edit{
			{File: plan, Old: "	f.advance(&p, plan, current)\n", New: `	f.advance(&p, plan, current)
	for i := range st.Executions {
		e := &st.Executions[i]
		if intended := i >= len(f.plan.Status.Executions) || !running(&f.plan.Status.Executions[i]); intended && running(e) && e.Operation == v1alpha1.OperationShutdown && e.Attempts == 1 {
			p.Launch = append(p.Launch, i)
		}
	}
`},
			{File: applying, Old: "	cycle := s.owner.Status.CurrentCycle\n", New: "	cycle := s.owner.Status.CurrentCycle\n	if s.decided {\n		cycle = s.plan.Status.CurrentCycle\n	}\n"},
		},
		Workloads: []string{"sequential"},
	},
	{
		Name: "cleared-early", RootCause: "a Job and its helpers are cleared away before its outcome is recorded",
		Edits: edit1(plan, "	f.effects(&p, plan, current)\n", `	f.effects(&p, plan, current)
	for i := range st.Executions {
		if running(&f.plan.Status.Executions[i]) && !running(&st.Executions[i]) {
			p.Clear = append(p.Clear, i)
		}
	}
`),
		Workloads: []string{"sequential"},
	},
	{
		Name: "unread-point", RootCause: "a restore point that cannot be read for a moment is taken for lost",
		Edits:     edit1(observe, "	case apierrors.IsNotFound(err):\n		return false, nil\n	case err != nil:\n", "	case err != nil:\n		return false, nil\n	case apierrors.IsNotFound(err):\n"),
		Workloads: []string{"sequential"}, Modes: []faults.Mode{faults.Unread},
	},
	{
		Name: "released-early", RootCause: "a restore point is released before it is recorded that its target is awake",
		Edits: edit1(plan, "	f.effects(&p, plan, current)\n", `	f.effects(&p, plan, current)
	for i := range st.Executions {
		if running(&f.plan.Status.Executions[i]) && spent(&st.Executions[i]) {
			p.Release = append(p.Release, i)
		}
	}
`),
		Workloads: []string{"sequential"},
	},
	{
		Name: "no-fence", RootCause: "the restore point is not made that of the attempt that may write to it",
		Edits:     edit1(applying, "	if point.Annotations[runner.AnnotationExecution] == a.name().Name {\n", "	if point.Annotations[runner.AnnotationExecution] != \"\" {\n"),
		Workloads: []string{"parallel"},
	},
	{
		Name: "edit-acted-on", RootCause: "what sleeps is woken by the spec of now, not by that it was put to sleep by",
		Edits: edit1(applying, "	t := program.Targets[program.positions[e.Target]]\n", `	t := program.Targets[program.positions[e.Target]]
	for _, edited := range s.owner.Spec.Targets {
		if edited.Name == e.Target {
			t = edited
		}
	}
`),
		Workloads: []string{"edited"},
	},
	{
		Name: "stale-record", RootCause: "a record of before is acted upon: a Job that has ended is made again",
		Edits: edit1(applying, "	if err := kube.Current(ctx, s.Live, planGVK, s.owner); err != nil {",
			"	if err := kube.Current(ctx, s.Live, planGVK, s.owner); err != nil && s.owner.UID == \"\" {"),
		Workloads: []string{"sequential"}, Modes: []faults.Mode{faults.Travel, faults.Behind},
	},
	{
		Name: "another-name", RootCause: "a manager that comes after another gives a Job that was recorded another name",
		Edits: []faults.Edit{
			{File: naming, Old: "	\"fmt\"\n	\"strings\"\n", New: "	\"fmt\"\n	\"os\"\n	\"strings\"\n"},
			{File: naming, Old: "fmt.Sprint(e.Attempts)))\n", New: "fmt.Sprint(e.Attempts), fmt.Sprint(os.Getpid())))\n"},
			{File: jobs, Old: "return a.in(name(a.execution.JobRef)) }\n", New: "return a.job(a.execution) }\n"},
		},
		Workloads: []string{"deleted"},
	},
	{
		Name: "failure-is-success", RootCause: "a runner that has written a result is taken for one that has completed",
		Edits:     edit1(observe, "		o.completed, o.message, o.resources, o.done = said.Completed,", "		o.completed, o.message, o.resources, o.done = true,"),
		Workloads: []string{"dag"},
	},
	{
		Name: "result-of-any", RootCause: "the result of another attempt is taken for that of this one",
		Edits:     edit1(observe, " || r.Execution != attempt {", " || r.Execution == \"\" {"),
		Workloads: []string{"sequential"},
	},
	{
		Name: "all-woken", RootCause: "a target that was never put to sleep is woken",
		Edits: []faults.Edit{
			{File: ledger, Old: "		if operation == v1alpha1.OperationWakeUp && !e.Asleep {\n", New: "		if operation == v1alpha1.OperationWakeUp && e.Target == \"\" {\n"},
			{File: ledger, Old: "	case e.Operation != operation, operation == v1alpha1.OperationWakeUp && !e.Asleep, e.State == v1alpha1.ExecutionCompleted:\n", New: "	case e.Operation != operation, e.State == v1alpha1.ExecutionCompleted:\n"},
		},
		Workloads: []string{"turned"},
	},
	{
		Name: "half-asleep-forgotten", RootCause: "a target of which a shutdown has failed is taken for awake, as if it had done nothing",
		Edits:     edit1(ledger, "	case e.Attempts-e.Forgiven > retries:\n		e.State = v1alpha1.ExecutionFailed\n", "	case e.Attempts-e.Forgiven > retries:\n		e.State = v1alpha1.ExecutionFailed\n		e.Asleep = e.Asleep && e.Operation == v1alpha1.OperationWakeUp\n"),
		Workloads: []string{"strict"},
	},
	{
		Name: "left-unseen", RootCause: "a plan does not look for what one of its name has left asleep",
		Edits:     edit1(observe, " < lonelyFor || s.owner.Status.CurrentCycle != nil {\n", " < lonelyFor || s.owner.Status.Cycles >= 0 {\n"),
		Workloads: []string{"left"},
	},
	{
		Name: "helper-left", RootCause: "a kind of helper is forgotten",
		Edits:     edit1(applying, "helper{bindingGVK, at}, helper{accountGVK, at}", "helper{accountGVK, at}"),
		Workloads: []string{"deleted"},
	},
	{
		Name: "job-of-the-cache", RootCause: "a Job that the cache does not have yet is taken for gone, and nobody looks again",
		Edits:     slices.Concat(edit1(applying, "	uid, ok := s.made.Get(made{s.owner.UID, h})\n", "	uid, ok := s.made.Get(made{s.owner.UID, h})\n	ok = ok && h.gvk != jobGVK\n"), edit1(applying, "	found, err := kube.Get(ctx, s.Live, gvk, key)\n", "	from := s.Live\n	if gvk == jobGVK {\n		from = s.Client\n	}\n	found, err := kube.Get(ctx, from, gvk, key)\n")),
		Workloads: []string{"deleted"}, Modes: []faults.Mode{faults.Held, faults.Behind},
	},
	{
		Name: "finalizer-early", RootCause: "a deleted plan goes when its wake-up begins, not when all are awake",
		Edits:     edit1(plan, "	if plan.DeletionTimestamp != nil && st.CurrentCycle == nil && p.Forget == 0 && !p.GivenUp && !f.seen.leftAny() {\n", "	if plan.DeletionTimestamp != nil && p.Forget == 0 && !p.GivenUp && !f.seen.leftAny() {\n"),
		Workloads: []string{"deleted"},
	},
	{
		Name: "asked-for-ever", RootCause: "that an annotation was acted on is not recorded",
		Edits:     edit1(desiring, "	st.Acknowledged = kept\n", "	st.Acknowledged = kept[:0]\n"),
		Workloads: []string{"by-annotation"},
	},
	{
		Name: "job-longer", RootCause: "a Job may run longer than its runner is told",
		Edits:     edit1(jobs, "ptr.To(int64(a.deadline() / time.Second))", "ptr.To(int64(a.deadline()/time.Second) + 60)"),
		Workloads: []string{"dag"},
	},
	{
		Name: "retried-late", RootCause: "what is due happens a moment later",
		Edits:     edit1(ledger, "	return e.FinishedAt.Add(wait)\n", "	return e.FinishedAt.Add(wait + time.Second)\n"),
		Workloads: []string{"sequential"},
	},
	{
		Name: "retried-early", RootCause: "what is due happens a moment before",
		Edits:     edit1(ledger, "	return e.FinishedAt.Add(wait)\n", "	return e.FinishedAt.Add(wait - time.Second)\n"),
		Workloads: []string{"sequential"},
	},
	{
		Name: "given-up-from-now", RootCause: "how long a deleted plan has waited counts from when somebody looks",
		Edits:     edit1(plan, "	if plan.Status.DeletingSince == nil {\n", "	if plan.Status.DeletingSince == nil || f.now.After(plan.Status.DeletingSince.Time) {\n"),
		Workloads: []string{"given-up"},
	},
	{
		Name: "turns-late", RootCause: "when a schedule turns next is told, and moved by a constant",
		Edits:     edit1(desiring, "	t := v1alpha1.Transition{Time: metav1.NewTime(at), To", "	t := v1alpha1.Transition{Time: metav1.NewTime(at.Add(time.Second)), To"),
		Workloads: []string{"by-schedule"},
	},
	{
		Name: "list-untold", RootCause: "what is written last and gone when its kind is listed anew is waited for",
		Edits:     []faults.Edit{{File: "internal/kube/ownwrites.go", Old: "{ w.tell() }", New: "{}"}},
		Workloads: []string{"detached"}, Modes: []faults.Mode{faults.Expired},
	},
	{
		Name: "seen-ended", RootCause: "a Job whose end is the first that is seen of it wakes nobody, and nobody looks again for one that is not seen",
		Edits: []faults.Edit{
			{
				File: "internal/controller/hibernateplan/controller.go",
				Old:  "CreateFunc: func(e event.CreateEvent) bool { return ending(e.Object) > 0 }", New: "CreateFunc: func(event.CreateEvent) bool { return false }",
			},
			{File: observe, Old: "		seen.stops = unseenAgain\n", New: ""},
		},
		Workloads: []string{"sequential"}, Modes: []faults.Mode{faults.Coalesced},
	},
	{
		Name: "tidied-late", RootCause: "the revision of a cycle goes before what there is of targets that were taken out, while which is tried the cycle may turn",
		Edits: []faults.Edit{
			{File: applying, Old: `		if err := s.tidy(ctx); err != nil { // while it is tried, the cycle may turn, which goes by its revision
			return err
		}
`, New: ""},
			{File: applying, Old: `		if err := s.remove(ctx, revisionGVK, revision); err != nil {
			return err
		}
`, New: `		if err := s.remove(ctx, revisionGVK, revision); err != nil {
			return err
		}
		if err := s.tidy(ctx); err != nil {
			return err
		}
`},
		},
		Workloads: []string{"taken-out"},
	},
	{
		Name: "tidied-once", RootCause: "what there is of targets that were taken out is looked for once, whatever is edited since",
		Edits:     edit1(sweeping, "	if s.plan.Status.Tidied == s.owner.Generation || ", "	if s.plan.Status.Tidied > 0 || "),
		Workloads: []string{"taken-out"},
	},
	{
		Name: "room-to-wake", RootCause: "what is to wake waits for the room that others have which are being put to sleep",
		Edits:     edit1(plan, "	if operation == v1alpha1.OperationShutdown { // what wakes waits for no room\n", "	if operation != \"\" {\n"),
		Workloads: []string{"neighbour-has-the-room"},
	},
	{
		Name: "same-turn", RootCause: "a night after a day on which a target was not woken is taken for the one before",
		Edits:     edit1(jobs, `fmt.Sprintf("%s.%d", a.cycle.PlanRevision, a.cycle.Turn)`, "a.cycle.PlanRevision"),
		Workloads: []string{"woken-by-hand"},
	},
	{
		Name: "never-stopped", RootCause: "what is to be awake waits for a runner that puts it to sleep, however long that takes",
		Edits:     edit1(plan, "		p.Stop = append(p.Stop, position)\n", ""),
		Workloads: []string{"stopped"},
	},
	{
		Name: "stopped-awake", RootCause: "a target the runner of which was stopped is taken for awake, as if that had done nothing",
		Edits:     edit1(ledger, "	e.RestoreChecksum = \"\"\n}\n\n// maxMessage", "	e.RestoreChecksum, e.Asleep = \"\", false\n}\n\n// maxMessage"),
		Workloads: []string{"stopped"},
	},
	{
		Name: "not-turned-back", RootCause: "what is to sleep while it wakes is put to sleep beside the runner that wakes it",
		Edits: edit1(plan, "		against := func(e *execution) bool { return running(e) && e.Operation == c.Operation }\n",
			"		against := func(e *execution) bool { return running(e) && e.Operation == c.Operation && c.Operation == v1alpha1.OperationShutdown }\n"),
		Workloads: []string{"turned-back"},
	},
	{
		Name: "beside-its-pod", RootCause: "a Job that somebody has deleted is made again while a pod of it may act",
		Edits:     edit1(observe, "	seen.held = s.anyActs(seen, pods)\n", "	_ = s.anyActs(seen, pods)\n"),
		Workloads: []string{"job-deleted"},
	},
	{
		Name: "unguarded-point", RootCause: "a restore point has no finalizer, so that whoever deletes it takes away what is woken by it",
		Edits:     edit1(jobs, " Finalizers: []string{v1alpha1.FinalizerRestorePoint},", ""),
		Workloads: []string{"deleted"},
	},
	{
		Name: "beside-a-former", RootCause: "a plan begins while a runner acts that one of its name has begun which was forced away",
		Edits:     edit1(observe, "		return true, nil // a pod of it may be about to begin\n", "		return false, nil\n"),
		Workloads: []string{"forced-away"},
	},
	{
		Name: "revision-lost", RootCause: "a cycle the revision of which somebody has deleted never ends, and wakes nothing",
		Edits:     edit1(plan, "	if current != nil && current.covers(plan.Status.Executions) {\n", "	if current != nil && plan.Status.CurrentCycle.Turn == 0 && current.covers(plan.Status.Executions) {\n"),
		Workloads: []string{"kept-deleted"},
	},
	{
		Name: "patient-for-ever", RootCause: "what may pass is tried for as long as it lasts, and all that is behind it waits",
		Edits:     edit1(applying, " && (lasts(err) || s.now.Sub(since) >= patience)\n", " && (lasts(err) || since.After(s.now))\n"),
		Workloads: []string{"refused-for-long"},
	},
	{
		Name: "credentials-left", RootCause: "the copied credentials of a target are not deleted when it is awake",
		Edits: edit1(applying, "		if err := s.dropCredentials(ctx, e.Target); err != nil {\n			return err\n		}\n	}\n	if point != nil {\n		if err := s.drop(",
			"	}\n	if point != nil {\n		if err := s.drop("),
		Workloads: []string{"by-kubeconfig"},
	},
	{
		Name: "credentials-told", RootCause: "the credentials of a connector get into a restore point",
		Edits:     edit1(jobs, "		point.Annotations[annotationConnector] = a.access.Version\n", "		point.Annotations[annotationConnector] = a.access.Version + string(a.access.Kubeconfig)\n"),
		Workloads: []string{"by-kubeconfig"},
	},
	{
		Name: "error-tells", RootCause: "an error tells what it was about, of which the kubeconfig is a part",
		Edits:     edit1("internal/controller/hibernateplan/credentials.go", `fmt.Errorf("creating Secret %s: %w", client.ObjectKeyFromObject(desired), err)`, `fmt.Errorf("creating Secret %s: %w: %s", client.ObjectKeyFromObject(desired), err, kubeconfig)`),
		Workloads: []string{"by-kubeconfig"}, Modes: []faults.Mode{faults.Quota},
	},
}

// Lists are what is played, and the bugs that are planted.
func Lists() ([]faults.Workload, []faults.Mutant) { return workloads, mutants }
