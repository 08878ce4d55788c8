package experimentdeployment

import "github.com/labkeeper/labkeeper/test/faults"

// The files that have bugs planted.
const (
	controller = "internal/controller/experimentdeployment/controller.go"
	observe    = "internal/controller/experimentdeployment/observe.go"
	plan       = "internal/controller/experimentdeployment/plan.go"
	applying   = "internal/controller/experimentdeployment/apply.go"
	waking     = "internal/controller/experimentdeployment/wake.go"
	conflict   = "internal/kube/conflict.go"
	writing    = "internal/kube/write.go"
)

func edit1(file, before, after string) []faults.Edit {
	return []faults.Edit{{File: file, Old: before, New: after}}
}

// forGood has the reconcilers give up for good on an error that is one.
func forGood(name, cause, is string, mode faults.Mode) faults.Mutant {
	return faults.Mutant{
		Name: name, RootCause: cause + " is an error for good",
		Edits: []faults.Edit{
			{File: conflict, Old: "		return result, err\n", New: `		if err != nil && ` + is + ` {
			return result, reconcile.TerminalError(err)
		}
		return result, err
`},
			{File: conflict, Old: "	apierrors \"k8s.io/apimachinery/pkg/api/errors\"\n", New: `	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
`},
			{File: conflict, Old: "// stopping says whether", New: "var _ = corev1.NamespaceTerminatingCause\n\n// stopping says whether"},
		},
		Workloads: []string{"deployment"}, Modes: []faults.Mode{mode},
	}
}

// mutants are bugs that a reconciler of twins may have, and that of Experiments does not.
var mutants = []faults.Mutant{
	{
		Name: "lost-answer", RootCause: "a create whose answer is lost makes a second twin (random name)",
		Edits: []faults.Edit{
			{File: plan, Old: `Name: kube.ChildName(twin.MaxName, owner.UID, owner.Spec.SourceRef.Name, "exp")}`,
				New: `Name: known(owner)}`},
			{File: plan, Old: "// sourceNamespace is where the source is.\n", New: `// known is the name that the status tells of, or a new one.
func known(owner *v1alpha1.ExperimentDeployment) string {
	if ref := owner.Status.ExperimentResourceRef; ref != nil {
		return ref.Name
	}
	return kube.ChildName(twin.MaxName, types.UID(strconv.FormatInt(time.Now().UnixNano(), 36)), owner.Spec.SourceRef.Name, "exp") //nolint:forbidigo // it is a bug
}

// sourceNamespace is where the source is.
`},
		},
		Workloads: []string{"deployment"}, Modes: []faults.Mode{faults.Crash, faults.Lost},
	},
	{
		Name: "finalizer-early", RootCause: "finalizer dropped when the deletion of the twin was asked for",
		Edits: edit1(plan, "	if f.seen.Twin == nil {\n		return Plan{Done: true, Unpin: f.seen.Pin}",
			"	if f.seen.Twin == nil || f.seen.Twin.GetDeletionTimestamp() != nil {\n		return Plan{Done: true, Unpin: f.seen.Pin}"),
		Workloads: []string{"deployment-edited"},
	},
	{
		Name: "source-deleted", RootCause: "what is somebody else's goes with what is ours",
		Edits: edit1(applying, "		err := s.writer().Delete(ctx, s.plan.Twin, foreground)\n", `		source := kube.Empty(s.plan.Twin.GroupVersionKind())
		source.SetNamespace(s.owner.Namespace)
		source.SetName(s.owner.Spec.SourceRef.Name)
		if err := client.IgnoreNotFound(s.Live.Delete(ctx, source)); err != nil {
			return err
		}
		err := s.writer().Delete(ctx, s.plan.Twin, foreground)
`),
		Workloads: []string{"deployment-edited"},
	},
	{
		Name: "record-late", RootCause: "pods taken away before it is recorded why: the next pass brings them back",
		Edits: edit1(plan, "	if p.Record {\n		return said // nothing is changed before that stands\n	}\n	switch {\n	case podsFirst",
			"	switch {\n	case podsFirst"),
		Workloads: []string{"rollout-unready"},
	},
	{
		Name: "drift-unseen", RootCause: "only what the owner asks for is compared, not what there is",
		Edits:     edit1(plan, "	return another || seen.GetGeneration() != f.owner.Status.TwinGeneration || lost(", "	return another && false || lost("),
		Workloads: []string{"deployment-meddled"},
	},
	{
		Name: "replaced-unseen", RootCause: "the generation of another object that is in the place of the twin is taken for that of the twin",
		Edits:     edit1(plan, "	return another || seen.GetGeneration() != f.owner.Status.TwinGeneration || lost(", "	return another && false || seen.GetGeneration() != f.owner.Status.TwinGeneration || lost("),
		Workloads: []string{"statefulset-replaced"},
	},
	{
		Name: "stranger-taken", RootCause: "what has the name of the twin is taken for it",
		Edits: edit1(observe, "	default:\n		s.seen.Taken = kube.Describe(found)\n",
			"	default:\n		s.seen.Twin = found.DeepCopy()\n		marks.Set(s.owner, s.seen.Twin)\n"),
		Workloads: []string{"statefulset-replaced"},
	},
	{
		Name: "twin-not-kept", RootCause: "the twin goes with its source whatever is asked for",
		Edits:     edit1(plan, "		f.owner.Spec.OnSourceDeleted == v1alpha1.SourceDeletedDelete && !f.owner.Spec.DryRun\n", "		!f.owner.Spec.DryRun\n"),
		Workloads: []string{"statefulset-source-left"},
	},
	{
		Name: "service-edit-unseen", RootCause: "an edit is told by the generation alone, which Services and autoscalers do not have",
		Edits:     edit1(waking, "	same := was.GetGeneration() != 0 && kube.SameSpec(was, is) ||", "	same := was.GetGeneration() == is.GetGeneration() ||"),
		Workloads: []string{"statefulset-source-left"},
	},
	{
		Name: "pin-remade", RootCause: "what was kept of the source and is lost is made again of the source as it is now",
		Edits:     edit1(plan, "	return f.pins() && f.kept() == nil && saysPinned(f.seen.Twin)\n", "	return false\n"),
		Workloads: []string{"statefulset-pinned"},
	},
	{
		Name: "pin-forged", RootCause: "what looks like what was kept of the source is taken for it, whoever made it",
		Edits:     edit1(plan, "	if hash == recorded || recorded == \"\" && saysPinned(f.seen.Twin) ||", "	if true || hash == recorded ||"),
		Workloads: []string{"statefulset-pinned"},
	},
	{
		Name: "no-time-again", RootCause: "the time that a twin has to become ready is that of its first pods",
		Edits:     edit1(plan, " || p.Edited || another || !ready && f.longReady() || ready && contended {", " || p.Edited || another || ready && contended {"),
		Workloads: []string{"rollout-unready-edited"},
	},
	{
		Name: "edit-unseen", RootCause: "what was wanted is recorded from what is there, not from what is wanted",
		Edits:     edit1(plan, "		\"spec\": wanted.Object[\"spec\"], \"metadata\": wanted.Object[\"metadata\"],\n", "		\"spec\": nil, \"metadata\": wanted.Object[\"metadata\"],\n"),
		Workloads: []string{"deployment-edited"},
	},
	{
		Name: "cache-miss-is-gone", RootCause: "a source that the cache does not have is taken for deleted",
		Edits:     edit1(observe, "	found, err := kube.Get(ctx, s.reader(gvk), gvk, at, client.UnsafeDisableDeepCopy)\n	if err != nil || found != nil {\n		return found, err\n	}\n", "	found, err := kube.Get(ctx, s.reader(gvk), gvk, at, client.UnsafeDisableDeepCopy)\n	if true {\n		return found, err\n	}\n"),
		Workloads: []string{"deployment-source-back"}, Modes: []faults.Mode{faults.Behind, faults.Edited},
	},
	{
		Name: "last-good-destroyed", RootCause: "the twin is deleted before it is known that the next one can be",
		Edits:     edit1(applying, "		if err := s.possible(ctx, s.plan.Next); err != nil {\n			return err\n		}\n", ""),
		Workloads: []string{"statefulset-impossible"},
	},
	{
		Name: "refused-hot", RootCause: "what the API server refuses as invalid is sent again and again",
		Edits:     edit1(controller, "	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {\n", "	if false && apierrors.IsInvalid(err) {\n"),
		Workloads: []string{"statefulset-impossible"},
	},
	{
		Name: "teardown-by-cache", RootCause: "that nothing is left is taken from the cache",
		Edits:     edit1(observe, "	found, err := kube.Get(ctx, s.Live, gvk, key(s.owner))\n	if meta.IsNoMatchError(err) {", "	found, err := kube.Get(ctx, s.reader(gvk), gvk, key(s.owner))\n	if meta.IsNoMatchError(err) {"),
		Workloads: []string{"deployment-edited"}, Modes: []faults.Mode{faults.Behind},
	},
	{
		Name: "own-write-unseen", RootCause: "a twin that the cache has not seen changed yet is put back, whatever version the server has",
		Edits: []faults.Edit{
			{File: plan, Old: "	case f.behind():\n", New: "	case f.behind() && false:\n"},
			{File: writing, Old: "	written.SetUID(seen.GetUID())\n	written.SetResourceVersion(seen.GetResourceVersion())\n", New: "	written.SetUID(seen.GetUID())\n"},
		},
		Workloads: []string{"deployment-source-edited"}, Modes: []faults.Mode{faults.Behind},
	},
	forGood("forbidden", "a refusal", "apierrors.IsForbidden(err)", faults.Forbidden),
	forGood("webhook-down", "a webhook that does not answer", `strings.Contains(err.Error(), "webhook")`, faults.Webhook),
	forGood("quota", "a quota that is used up", `strings.Contains(err.Error(), "exceeded quota")`, faults.Quota),
	forGood("namespace-going", "a namespace that is said to go", "apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)", faults.Terminating),
	forGood("unavailable", "a server that is not available", "apierrors.IsServiceUnavailable(err)", faults.Unavailable),
	{
		Name: "hot-conflicts", RootCause: "a conflict that lasts is tried again at once, without end",
		Edits:     edit1(conflict, "reconcile.Result{Requeue: true}, nil //", "reconcile.Result{RequeueAfter: 1}, nil //"),
		Workloads: []string{"deployment"}, Modes: []faults.Mode{faults.Conflicts},
	},
}

// Lists are what is played, and the bugs that are planted.
func Lists() ([]faults.Workload, []faults.Mutant) { return workloads, mutants }
