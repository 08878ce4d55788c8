package experiment

import "github.com/labkeeper/labkeeper/test/faults"

// The files that have bugs planted.
const (
	controller  = "internal/controller/experiment/controller.go"
	observe     = "internal/controller/experiment/observe.go"
	plan        = "internal/controller/experiment/plan.go"
	applying    = "internal/controller/experiment/apply.go"
	targets     = "internal/controller/experiment/target.go"
	apps        = "internal/controller/experiment/applications.go"
	teardown    = "internal/controller/experiment/teardown.go"
	lasting     = "internal/controller/experiment/lifetime.go"
	reporting   = "internal/controller/experiment/report.go"
	naming      = "internal/controller/experiment/names.go"
	finishing   = "internal/kube/finish.go"
	reading     = "internal/kube/read.go"
	writing     = "internal/kube/write.go"
	marking     = "internal/kube/marks.go"
	conflicts   = "internal/kube/conflict.go"
	kubeconfigs = "internal/external/argocd/cluster.go"
	syncs       = "internal/external/argocd/application.go"
	claiming    = "internal/external/crossplane/claim.go"
	submitting  = "internal/external/argoworkflows/workflow.go"
	google      = "internal/controller/experiment/provider_gke.go"
	startup     = "cmd/run.go"
	leading     = "cmd/lease.go"
)

// merged is the first line of what merges changes into a child.
const merged = "func (w Writer) Merge(ctx context.Context, seen *unstructured.Unstructured, change map[string]any) (*unstructured.Unstructured, error) {\n"

func edit1(file, before, after string) []faults.Edit {
	return []faults.Edit{{File: file, Old: before, New: after}}
}

// What makes other bugs harmless, and is planted with them: a verdict does not prove what it rests on, or not in that version;
// what was begun is not known by what there is of it.
var (
	unproven    = edit1(plan, "	p.Confirm = append(p.Confirm, f.deployed(p, targets)...)\n", "")
	unversioned = edit1(plan, "		p.Confirm = f.asSeen(p.Confirm, targets)\n", "")
	unrestored  = edit1(observe, "	if s.known = true; found {\n", "	if s.known = true; found && s.experiment.Name == \"\" {\n")
)

// mutants are one bug for every root cause that reconcilers of its kind have been found with.
// Each is played with the workloads and modes that should bring it up.
var mutants = []faults.Mutant{
	// Intermediate states: the manager dies, or its write fails, between two writes.
	{
		Name: "phase-before-child", RootCause: "phase persisted before the child, and taken as proof of it",
		Edits: edit1(controller, "	return errors.Join(s.apply(ctx), s.seen.readErrors())\n}\n", `	if s.plan.Down == nil && !s.plan.Done && !s.told() {
		s.plan.Writes, s.plan.Wait = nil, kube.AtOnce
		return s.seen.readErrors()
	}
	return errors.Join(s.apply(ctx), s.seen.readErrors())
}

var toCreate = map[types.UID]bool{}

// told says whether the status already says what is about to be done.
func (s *scope) told() bool {
	uid, told := s.experiment.UID, s.plan.Targets == nil
	for i, t := range s.plan.Targets {
		told = i < len(s.experiment.Status.Targets) && s.experiment.Status.Targets[i].State == t.State
		if !told {
			toCreate[uid] = true
			return false
		}
	}
	if !toCreate[uid] {
		s.plan.Writes = slices.DeleteFunc(s.plan.Writes, func(w Write) bool { return w.Target != "" && !w.Known })
	}
	delete(toCreate, uid)
	return true
}
`),
		Workloads: []string{"complete"},
	},
	{
		Name: "finalizer-late", RootCause: "finalizer added after what it guards",
		Edits: edit1(controller, "	if err := kube.EnsureFinalizer(ctx, r.Client, e, v1alpha1.Finalizer, conditionsOf, r.Clock.Now(), r.told); err != nil {",
			"	if e.Status.Workflow == nil {\n	} else if err := kube.EnsureFinalizer(ctx, r.Client, e, v1alpha1.Finalizer, conditionsOf, r.Clock.Now(), r.told); err != nil {"),
		Workloads: []string{"delete-provisioning"},
	},
	{
		Name: "finalizer-early", RootCause: "finalizer dropped when the deletion of children was asked for",
		Edits:     edit1(teardown, "	case len(d.left) == 0:\n		d.Done = true", "	case len(d.Writes) == 0:\n		d.Done = true"),
		Workloads: []string{"delete-complete-held"},
	},
	{
		Name: "start-late", RootCause: "the record that there may be children written after them",
		Edits: append(edit1(plan, "	case started && !blind && graph != nil:\n", "	case (started || !f.frozen) && !blind && graph != nil:\n		p.Start = !started && len(f.seen.Applications) > 0\n"),
			unrestored...), // which would make the record anew
		Workloads: []string{"delete-provisioning"},
	},
	{
		Name: "lost-answer", RootCause: "a create whose answer is lost makes a second object (random name)",
		Edits: []faults.Edit{
			{File: applying, Old: "	child, err := writer.Ensure(ctx, w.Object)\n", New: `	if w.Object.GetKind() == "Secret" {
		readable := "cluster-" + s.experiment.Name + "-" + w.Target
		w.Object.SetName(kube.ChildName(len(readable)+9, s.experiment.UID, readable, fmt.Sprintf("%p", w.Object))) // as good as random
	}
	child, err := writer.Ensure(ctx, w.Object)
`},
		},
		Workloads: []string{"complete"}, Modes: []faults.Mode{faults.Crash, faults.Lost},
	},
	{
		Name: "already-exists", RootCause: "a create whose answer is lost is an error for ever (AlreadyExists)",
		Edits:     edit1(writing, "	if !apierrors.IsAlreadyExists(err) {", "	if apierrors.IsAlreadyExists(err) || err != nil {"),
		Workloads: []string{"complete"}, Modes: []faults.Mode{faults.Crash, faults.Lost},
	},
	{
		Name: "edge-triggered", RootCause: "deletion is acted on when it is seen to happen, not when it is there",
		Edits: []faults.Edit{
			{File: controller, Old: "// step observes, decides and writes.\n", New: "var seenAlive = map[types.UID]bool{}\n\n"},
			{File: controller, Old: "	before := e.DeepCopy()\n", New: `	if e.DeletionTimestamp == nil {
		seenAlive[e.UID] = true
	} else if !seenAlive[e.UID] {
		return ctrl.Result{}, nil
	}
	before := e.DeepCopy()
`},
		},
		Workloads: []string{"delete-pending", "complete-delete"},
	},
	{
		Name: "verdict-of-any", RootCause: "the verdict is read before the Workflow's UID is compared",
		Edits:     edit1(plan, "	case recorded == nil:\n		return read", "	case recorded == nil || !recorded.Superseded:\n		return read"),
		Workloads: []string{"away-workflow-replaced"},
	},
	{
		Name: "transient-is-final", RootCause: "an error that passes is recorded as the verdict",
		Edits:     edit1(applying, "			s.failed[w.Target] = err\n", "			s.failed[w.Target] = err\n			s.plan.Verdict = w.Target == \"\"\n"),
		Workloads: []string{"complete"}, Modes: []faults.Mode{faults.Internal, faults.Reset},
	},
	{
		Name: "error-swallowed", RootCause: "the error of a status patch is swallowed",
		Edits: edit1(finishing, "			return failed, fmt.Errorf(\"patching status: %w\", err)\n",
			"			return reconcile.Result{RequeueAfter: out.Wait}, nil\n"),
		Workloads: []string{"complete"}, Modes: []faults.Mode{faults.Internal},
	},
	{
		Name: "conflict-is-final", RootCause: "a conflict is not tried again",
		Edits:     edit1(conflicts, "reconcile.Result{Requeue: true}, nil", "reconcile.Result{}, nil"),
		Workloads: []string{"complete"}, Modes: []faults.Mode{faults.Conflict},
	},

	// Stale states: the manager acts on what was.
	{
		Name: "cached-teardown", RootCause: "a cached list proves that nothing is left",
		Edits: edit1(observe, "		found, err := kube.List(ctx, s.Live, gvk,", `		reader := client.Reader(s.Live)
		if foreign {
			reader = s.Foreign
		}
		found, err := kube.List(ctx, reader, gvk,`),
		Workloads: []string{"delete-provisioning"}, Modes: []faults.Mode{faults.Held},
	},
	{
		Name: "created-for-the-dead", RootCause: "children are created for an owner that only the cache still has",
		Edits:     edit1(reading, "	if err == nil && now.UID == o.GetUID() && now.ResourceVersion == o.GetResourceVersion() {", "	if true {"),
		Workloads: []string{"delete-provisioned"}, Modes: []faults.Mode{faults.Held, faults.Coalesced, faults.Forgetful, faults.Edited},
	},
	{
		Name: "created-for-the-past", RootCause: "children are created as an old spec in the cache asks for",
		Edits:     edit1(reading, "now.ResourceVersion == o.GetResourceVersion() {", "now.UID == o.GetUID() && now.DeletionTimestamp == nil {"),
		Workloads: []string{"edit-provisioning"}, Modes: []faults.Mode{faults.Travel, faults.Edited},
	},
	{
		Name: "submitted-twice", RootCause: "what the cached status does not record yet is taken for not done",
		Edits: edit1(reading, "now.ResourceVersion == o.GetResourceVersion() {",
			"now.UID == o.GetUID() && now.DeletionTimestamp == nil && now.Generation == o.GetGeneration() {"),
		Workloads: []string{"workflow-deleted"}, Modes: []faults.Mode{faults.Forgetful},
	},
	{
		Name: "component-of-the-past", RootCause: "what is named is taken for what it was: what was deployed goes back to that, and is validated once more",
		Edits: append(edit1(plan, "		p.Confirm = append(f.components(), f.standing(p.Workflow)...)\n", ""),
			edit1(plan, "	if slices.ContainsFunc(p.Writes, f.repeats) {\n", "	if slices.ContainsFunc(p.Writes, f.repeats) && false {\n")...),
		Workloads: []string{"component-edited"}, Modes: []faults.Mode{faults.Outdated},
	},
	{
		Name: "changed-for-the-past", RootCause: "a child is put back to an old spec in the cache",
		Edits:     edit1(applying, "func(w Write) bool { return w.creates() || !goingDown(s.experiment) })", "func(w Write) bool { return w.Action == Ensure && !w.Known })"),
		Workloads: []string{"edit-ready"}, Modes: []faults.Mode{faults.Behind, faults.Edited},
	},
	{
		Name: "verdict-of-the-cache", RootCause: "a verdict that stands for ever rests on a cached child",
		Edits:     append(unproven, unversioned...), // which would not find it in that version
		Workloads: []string{"edit-running-undone"}, Modes: []faults.Mode{faults.Behind},
	},
	{
		Name: "told-by-the-cache", RootCause: "what is said for good is what a cache has of before",
		Edits:     unversioned,
		Workloads: []string{"workflow-fails", "delete-failed", "edit-failed", "late-running", "workflow-deleted", "away-workflow-replaced"},
		Modes:     []faults.Mode{faults.Travel, faults.Behind, faults.Forgetful, faults.Edited},
	},
	{
		Name: "verdict-of-another-cluster", RootCause: "a verdict rests on a cluster by name: another has taken its place",
		Edits:     append(edit1(plan, "			o.SetUID(seen.GetUID())\n", ""), unversioned...), // which tells the two apart, too
		Workloads: []string{"away-claim-lost"}, Modes: []faults.Mode{faults.Behind},
	},
	{
		Name: "verdict-before-repair", RootCause: "a verdict drops the writes of its pass",
		Edits:     append(edit1(plan, "		if settling {\n", "		if settling && f.frozen {\n"), unproven...), // which would find it
		Workloads: []string{"application-edited"},
	},

	{
		Name: "unfenced", RootCause: "who has stood still goes on in the middle of a pass, though another has taken its place",
		Edits:     edit1(startup, "		config.Wrap(kube.Fence(lock.wielded))\n", "		_ = kube.Fence(lock.wielded)\n"),
		Workloads: []string{"complete-delete"}, Modes: []faults.Mode{faults.Halted},
	},
	{
		Name: "leads-again", RootCause: "who has stood still leads once more when another has, and goes on in the middle of a pass",
		Edits:     edit1(leading, "	if ours && !l.acquired.IsZero() && !acquired.Equal(l.acquired) {", "	if ours && !l.acquired.IsZero() && !acquired.Equal(acquired) {"),
		Workloads: []string{"late-provisioning", "away-edited"}, Modes: []faults.Mode{faults.Halted},
	},

	// Identity: names where there should be UIDs.
	{
		Name: "owned-by-name", RootCause: "ownership is read off the owner's name instead of its UID",
		Edits: edit1(marking, "	uid := child.GetLabels()[m.UID]\n	return uid != \"\" && types.UID(uid) == owner.GetUID()\n",
			"	return child.GetLabels()[m.Name] == LabelValue(owner.GetName())\n"),
		Workloads: []string{"name-taken"},
	},
	{
		Name: "selected-by-name", RootCause: "what is taken down is found by the owner's name instead of its UID",
		Edits: edit1(marking, "	return client.MatchingLabels{m.UID: string(owner.GetUID())}\n",
			"	return client.MatchingLabels{m.Name: LabelValue(owner.GetName())}\n"),
		Workloads: []string{"name-taken"},
	},
	{
		Name: "names-change", RootCause: "the name of a child depends on what changes",
		Edits: edit1(naming, "		Name:      kube.ChildName(crossplane.MaxClaimName, n.experiment.UID, n.experiment.Name, t.Name),\n",
			"		Name:      kube.ChildName(crossplane.MaxClaimName, n.experiment.UID, n.experiment.Name, t.Name)[n.experiment.Generation-1:],\n"),
		Workloads: []string{"edit-provisioning"},
	},
	{
		Name: "adopted", RootCause: "an object of somebody else that has the name is taken over",
		Edits: append(edit1(writing, "	if !w.Marks.Owns(w.Owner, live) {", "	if live.GetName() == \"\" {"),
			edit1(writing, merged+"	if !w.Marks.Owns(w.Owner, seen) {\n", merged+"	if false {\n")...), // which is asked when it has what ours must not have
		Workloads: []string{"name-taken"},
	},
	{
		Name: "taken-for-ours", RootCause: "AlreadyExists is taken for a create of ours",
		Edits:     edit1(writing, "	child, err = w.live(ctx, desired)\n", "	err = w.Client.Get(ctx, client.ObjectKeyFromObject(desired), child)\n"),
		Workloads: []string{"workflow-taken"},
	},
	{
		Name: "namespace-adopted", RootCause: "what is deployed goes into a namespace of somebody else that has the name, and takes it along when it goes",
		Edits:     edit1(applying, "	case !marks.Owns(s.experiment, namespace):\n", "	case namespace.GetName() == \"\":\n"),
		Workloads: []string{"namespace-taken"},
	},
	{
		Name: "unmarked", RootCause: "a child does not carry its owner's marks",
		Edits:     edit1(apps, "		f.mark(t.spec, namespace)\n", ""),
		Workloads: []string{"complete-delete"},
	},

	// Levels: what is there counts, not what was said or seen before.
	{
		Name: "status-is-proof", RootCause: "the status is taken as proof that a child exists",
		Edits:     edit1(targets, "	if f.frozen || seen != nil &&", "	if f.frozen || seen == nil && ptr.Deref(recordedTarget(f.experiment.Status.Targets, t.spec.Name), v1alpha1.TargetStatus{}).State == v1alpha1.TargetDeploying || seen != nil &&"),
		Workloads: []string{"application-deleted"},
	},
	{
		Name: "resubmitted", RootCause: "a Workflow that has vanished is submitted again",
		Edits:     edit1(plan, "	case w == nil:\n	case w.Superseded:", "	case w == nil, f.seen.Workflow == nil:\n	case w.Superseded:"),
		Workloads: []string{"workflow-deleted"},
	},
	{
		Name: "written-once", RootCause: "a child that has been changed is not changed back",
		Edits:     edit1(targets, "(seen.GetDeletionTimestamp() != nil || upToDate(seen, desired))", "(seen.GetDeletionTimestamp() != nil || upToDate(seen, desired) || true)"),
		Workloads: []string{"application-edited"},
	},
	{
		Name: "layers-at-once", RootCause: "what another component brings is needed before it is there",
		Edits:     edit1(apps, "part.app == nil && waitsFor != \"\"", "part.app == nil && waitsFor == \"never\""),
		Workloads: []string{"per-component"},
	},
	{
		Name: "removed-stays", RootCause: "what the spec does not name any more stays",
		Edits:     edit1(apps, "case len(removed) == 0, going", "case len(removed) < 99, going"),
		Workloads: []string{"edit-running-component-removed"},
	},
	{
		Name: "removed-unregistered", RootCause: "what is not wanted any more goes from a cluster that nobody knows, and leaves what it deployed",
		Edits:     edit1(observe, "|| s.retires(t, apps)):", "|| false && s.retires(t, apps)):"),
		Workloads: []string{"secret-deleted-component-removed"},
	},
	{
		Name: "registered-once", RootCause: "a cluster that takes the place of another is not registered again",
		Edits:     edit1(observe, "		return name == registration\n", "		return name != \"\" || name == registration\n"),
		Workloads: []string{"claim-deleted-running"},
	},
	{
		Name: "registered-unconfirmed", RootCause: "a step rests on a write that comes after it, and is never taken",
		Edits:     edit1(targets, "	case planned < len(p.Writes) || slices", "	case planned < 0 || slices"),
		Workloads: []string{"suspend-edit-provisioning"},
	},
	{
		Name: "depends-ignored", RootCause: "a target is begun before those that it depends on are healthy",
		Edits:     edit1(targets, "		if !targets[dependency].healthy() {\n", "		if !targets[dependency].healthy() && false {\n"),
		Workloads: []string{"complete"},
	},
	{
		Name: "clusters-ignored", RootCause: "success is taken for that of a cluster that is not there any more (false Complete)",
		Edits:     edit1(plan, `now != "" && w.Clusters != now`, `now != "" && w.Clusters == "none"`),
		Workloads: []string{"claim-deleted-running"},
	},
	{
		Name: "inputs-ignored", RootCause: "success is taken for that of another spec (false Complete)",
		Edits:     edit1(plan, "&& w.Inputs != f.inputs(deployments)", "&& w.Inputs == f.inputs(nil)"),
		Workloads: []string{"edit-running"},
	},
	{
		Name: "degraded-is-healthy", RootCause: "what may be tolerated always is",
		Edits:     edit1(syncs, "health == \"Degraded\" && tolerated.Degraded &&", "health == \"Degraded\" &&"),
		Workloads: []string{"sync-late"},
	},
	{
		Name: "address-is-ready", RootCause: "a part of what is told is taken for all of it",
		Edits: edit1(claiming, "	s.Ready = conditions.Of(claim, \"Ready\")[\"status\"] == \"True\"\n",
			"	_, s.Ready, _ = unstructured.NestedString(claim.Object, \"status\", \"endpoint\")\n"),
		Workloads: []string{"rotated-deploying"},
	},
	{
		Name: "always-one-node", RootCause: "a field of the spec is ignored, in every run alike",
		Edits:     edit1(google, "int64(ptr.Deref(c.NodeCount, 1))", "1"),
		Workloads: []string{"edit-provisioning"},
	},
	{
		Name: "phase-goes-back", RootCause: "the phase is read off the moment",
		Edits:     edit1(reporting, "	case st.Phase == v1alpha1.PhaseReady || meta", "	case meta"),
		Workloads: []string{"away-lost"},
	},

	// Waking: what nobody tells must be looked for, and what is settled must rest.
	{
		Name: "dropped-watch", RootCause: "one kind is not watched",
		Edits:     edit1(controller, "WatchesMetadata(&corev1.Namespace{}, kube.Enqueue(toOwner, priorityNamespace))", "WatchesMetadata(&corev1.Namespace{}, handler.Funcs{})"),
		Workloads: []string{"complete-delete"},
	},
	{
		Name: "no-second-look", RootCause: "what is not watched is not looked for again",
		Edits:     edit1(teardown, "		d.lookIn(secretDone)\n", ""),
		Workloads: []string{"delete-namespace"},
	},
	{
		Name: "hot-loop", RootCause: "a message that changes with every write wakes its own reconciler",
		Edits: []faults.Edit{
			{
				File: controller, Old: "			kube.Respecified, kube.Unprotected(v1alpha1.Finalizer), annotated, r.told.ByOthers(statusOf),\n",
				New: "			kube.Respecified, kube.Unprotected(v1alpha1.Finalizer), annotated, predicate.NewPredicateFuncs(func(client.Object) bool { return true }),\n",
			},
			{File: plan, Old: " does not exist; create it\")", New: " does not exist; create it \"+f.experiment.ResourceVersion)"},
		},
		Workloads: []string{"template-missing"},
	},

	{
		Name: "told-anyway", RootCause: "a status is written whether it has changed or not",
		Edits:     edit1(finishing, "	if !equality.Semantic.DeepEqual(before, after) {\n", "	if true {\n"),
		Workloads: []string{"complete"},
	},
	{
		Name: "spec-written", RootCause: "the spec, which is the user's, is written by the manager",
		Edits: edit1(controller, "	before := e.DeepCopy()\n	if u, known", `	if e.Spec.ProgressDeadline == nil {
		if err := r.Client.Patch(ctx, e, client.RawPatch(types.MergePatchType, []byte("{\"spec\":{\"progressDeadline\":{\"workflow\":\"1h\"}}}"))); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
	}
	before := e.DeepCopy()
	if u, known`),
		Workloads: []string{"complete"},
	},

	// Time: what is due is due at its time, whoever looks, and however often.
	{
		Name: "due-from-now", RootCause: "a deadline counts from when somebody looks, not from when it began",
		Edits:     edit1(targets, "	return timestamp(past(before.Since.Time, f.now))\n", "	return timestamp(f.now)\n"),
		Workloads: []string{"late-provisioning"},
	},
	{
		Name: "due-late", RootCause: "what is due happens a moment later",
		Edits:     edit1(plan, "	left := since.Add(limit).Sub(f.now)\n", "	left := since.Add(limit + time.Second).Sub(f.now)\n"),
		Workloads: []string{"late-deploying"},
	},
	{
		Name: "due-early", RootCause: "what is due happens a moment before",
		Edits:     edit1(teardown, "	until := since.Add(deadlineOf(d.experiment) / time.Duration(share))\n", "	until := since.Add(deadlineOf(d.experiment)/time.Duration(share) - time.Second)\n"),
		Workloads: []string{"stuck-application"},
	},
	{
		Name: "released-from-now", RootCause: "when a teardown began is recorded anew in every pass",
		Edits:     edit1(teardown, "		return timestamp(past(t.StartedAt.Time, now))\n", "		return timestamp(now)\n"),
		Workloads: []string{"release-cluster"},
	},
	{
		Name: "lives-longer", RootCause: "an end is told of that is moved by a constant",
		Edits:     edit1(lasting, "max(e.Spec.TTLDays, 1)) * day)}", "max(e.Spec.TTLDays, 1))*day + time.Second)}"),
		Workloads: []string{"complete"},
	},

	{
		Name: "no-deadline", RootCause: "who keeps a deadline is not told of it",
		Edits:     edit1(submitting, "seconds := int64(w.Deadline / time.Second); seconds > 0", "seconds := int64(w.Deadline / time.Second); seconds < 0"),
		Workloads: []string{"late-running"},
	},

	// Teardown.
	{
		Name: "teardown-order", RootCause: "the cluster goes with, not after what is deployed on it",
		Edits:     edit1(teardown, "	return d.held()\n}\n", "	return false\n}\n"),
		Workloads: []string{"complete-delete"},
	},
	{
		Name: "unregistered", RootCause: "what is deployed on a cluster that nobody knows any more is left there",
		Edits:     edit1(teardown, "	if !d.cutOff(t.spec.Name) || going(app)", "	if true || !d.cutOff(t.spec.Name) || going(app)"),
		Workloads: []string{"secret-deleted-complete-existing"},
	},
	{
		Name: "cluster-before-registration", RootCause: "what waits for a step before it is not waited for: the cluster goes, and what is deployed there stands",
		Edits: edit1(teardown, "		d.leave(*app)\n		d.Down[len(d.Down)-1] += \" (its cluster is registered with Argo CD first)\"\n",
			"		d.Down = append(d.Down, kube.Describe(app)+\" (its cluster is registered with Argo CD first)\")\n"),
		Workloads: []string{"secret-deleted-complete"},
	},
	{
		Name: "claim-in-background", RootCause: "who makes a cluster is not asked to wait until it is gone, and it costs on",
		Edits:     edit1(claiming, "			\"compositeDeletePolicy\": \"Foreground\",\n", ""),
		Workloads: []string{"complete-delete"},
	},
	{
		Name: "composite-in-background", RootCause: "a namespaced composite is deleted as a claim is, which says itself how it goes",
		Edits:     edit1(claiming, "claim.GroupVersionKind() == GKEClusterGVK && !bound", "claim.GroupVersionKind() == GKEClusterGVK && !bound && claim.GetName() == \"\""),
		Workloads: []string{"namespaced-composite"},
	},
	{
		Name: "abandoned-late", RootCause: "what may cost for ever is recorded after what it is known by is gone",
		Edits:     edit1(teardown, "d.freed(t, app)) && d.abandon(t, app):", "d.freed(t, app)) && d.abandon(t, app) && d == nil:"),
		Workloads: []string{"stuck-application"},
	},
	{
		Name: "freed-late", RootCause: "what can never go is waited for as what may",
		Edits:     edit1(teardown, "	if d.freed(t, app) {\n", "	if d.freed(t, app) && d.given(remnant{object: app}, 4) {\n"),
		Workloads: []string{"per-component-tolerated"},
	},
	{
		Name: "unread-is-gone", RootCause: "what a teardown cannot read for a moment is taken for gone",
		Edits: append(edit1(observe, "	if err == nil || !d.over(d.refused[what].since, 4) {\n", "	if err == nil || d == nil {\n"),
			faults.Edit{File: teardown, New: "", // which would wait for it
				Old: "	for gvk, err := range d.seen.Unreadable {\n		unseen = append(unseen, remnant{gvk: gvk, err: err})\n	}\n"}),
		Workloads: []string{"complete-delete"}, Modes: []faults.Mode{faults.Unreadable},
	},
	{
		Name: "unlisted-is-none", RootCause: "a kind of which a manager that starts has no cache yet has no objects",
		Edits:     edit1(plan, "		if state != kube.KindServed {\n			return true\n", "		if state < kube.KindSyncing {\n			return true\n"),
		Workloads: []string{"edit-running-undone", "claim-deleted-running"}, Modes: []faults.Mode{faults.Blind},
	},
	{
		Name: "needed-by-the-cache", RootCause: "the cache alone says that nothing needs an Application any more",
		Edits:     edit1(observe, "	if err := s.leftovers(ctx, kinds...); err != nil {\n		return err\n	}\n	s.seen.Unseen", "	if err := s.leftovers(ctx, kinds[:0]...); err != nil {\n		return err\n	}\n	s.seen.Unseen"),
		Workloads: []string{"delete-running-held"}, Modes: []faults.Mode{faults.Behind},
	},
	{
		Name: "order-of-the-cache", RootCause: "the cache alone says that a cluster is not needed any more",
		Edits:     edit1(observe, "		return true, s.leftovers(ctx, prior...)\n", "		return true, s.leftovers(ctx, prior[:0]...)\n"),
		Workloads: []string{"delete-deploying"}, Modes: []faults.Mode{faults.Behind},
	},
	{
		Name: "namespace-left", RootCause: "a kind of child is forgotten in the teardown",
		Edits:     edit1(teardown, "	for _, namespace := range namespaces {\n", "	for _, namespace := range namespaces[:0] {\n"),
		Workloads: []string{"complete-delete"},
	},
	{
		Name: "namespace-with-cluster", RootCause: "the namespace that a cluster is made in goes with, not after the cluster",
		Edits:     edit1(teardown, "		case d.houses(namespace, clusters):\n", "		case false && d.houses(namespace, clusters):\n"),
		Workloads: []string{"vcluster"},
	},

	{
		Name: "sync-outlives", RootCause: "what is in the midst of something is asked to go, and not to end that first",
		Edits:     edit1(apps, "	if going(app) && argocd.Syncing(app) {\n", "	if going(app) && argocd.Syncing(app) && app.GetName() == \"\" {\n"),
		Workloads: []string{"delete-syncing"},
	},
	{
		Name: "former-sync", RootCause: "what was begun with a former spec is waited for, and may never end",
		Edits:     edit1(apps, "		case stays && argocd.SyncsFormer(app) && ", "		case stays && argocd.SyncsFormer(app) && app.GetName() == \"\" && "),
		Workloads: []string{"component-edited-syncing"},
	},
	{
		Name: "any-sync-ended", RootCause: "what was begun with the present spec is taken for that of a former one, and ended",
		Edits:     edit1(syncs, "	return Syncing(app) && byItself(app) && compared(app) && ofBefore(app)\n", "	return Syncing(app) && byItself(app) && (compared(app) || ofBefore(app))\n"),
		Workloads: []string{"sync-late"},
	},

	{
		Name: "refused-from-now", RootCause: "how long a deletion has been refused counts from when somebody looks, so that nothing is ever given up",
		Edits:     edit1(teardown, "	since := d.refused[r.key()].since\n", "	since := time.Time{}\n"),
		Workloads: []string{"release-refused"},
	},
	{
		Name: "refusals-forgotten", RootCause: "what was refused, and since when, is forgotten before it is recorded that it is given up",
		Edits:     edit1(controller, "	if over && err == nil { // what", "	if over { // what"),
		Workloads: []string{"release-refused"}, Modes: []faults.Mode{faults.Conflict},
	},

	// Secrets.
	{
		Name: "secret-in-log", RootCause: "a kubeconfig is logged",
		Edits: edit1(observe, "	kubeconfig, err := secretValue(secret, c.Key)\n",
			"	kubeconfig, err := secretValue(secret, c.Key)\n	println(string(kubeconfig))\n"),
		Workloads: []string{"complete"},
	},
	{
		Name: "secret-in-condition", RootCause: "a condition quotes a kubeconfig",
		Edits: edit1(kubeconfigs, "		return Credentials{}, errors.New(\"it is not a kubeconfig\")\n",
			"		return Credentials{}, fmt.Errorf(\"it is not a kubeconfig: %q\", kubeconfig)\n"),
		Workloads: []string{"connection-late"},
	},
}

// Lists are what is played, and the bugs that are planted.
func Lists() ([]faults.Workload, []faults.Mutant) { return workloads, mutants }
