package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/conditions"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/argoworkflows"
	"github.com/labkeeper/labkeeper/internal/external/crossplane"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// apply carries the plan out, in its order, but for what has not come to its end before, which comes after the others of
// its like. A write that fails ends those of its target, and what is for the whole Experiment, and leaves the other
// targets alone. Deletions of a teardown rest on nothing but that: one that is refused must not keep a cluster.
func (s *scope) apply(ctx context.Context) error {
	if s.plan.Expire {
		log.FromContext(ctx).Info("Deleting expired Experiment")
		return kube.Expire(ctx, s.Client, s.experiment)
	}
	stale, unconfirmed := s.prove(ctx)
	switch {
	case stale != nil:
		s.plan.Steps, s.plan.Targets, s.plan.Workflow = nil, nil, nil // they tell of what has not been done
		return stale
	case unconfirmed != nil && s.experiment.Spec.Terminate && !s.triesAgain(ctx, "what the verdict rests on", unconfirmed): // nothing is waited for
		s.plan.Steps = []conditions.Step{withoutVerdict()}
	case unconfirmed != nil:
		s.plan.doubt()
		return unconfirmed
	}
	s.takeTurns()
	var errs []error
	for _, w := range s.plan.Writes {
		ends := w.Action == Delete && goingDown(s.experiment)
		if !ends && (s.failed[w.Target] != nil || w.Target == "" && len(errs) > 0) {
			continue
		}
		err := s.act(ctx, w)
		if ends {
			s.asked(ctx, kube.Describe(w.Object), err)
		}
		if err != nil {
			s.failed[w.Target] = err
			errs = append(errs, at(w.Condition, err))
		}
	}
	s.notePlanned(ctx)
	return errors.Join(errs...)
}

// doubt takes out of a plan what rests on what the server could not be asked: not what a Workflow says, but that it is superseded.
func (p *Plan) doubt() {
	p.Verdict, p.Steps, p.Targets = false, nil, nil
	if p.Workflow != nil && p.Workflow.Superseded {
		p.Workflow = nil
	}
}

// triesAgain says whether a read that has failed, by what it is, is tried in another pass before spec.terminate ends the Experiment
// without a verdict: once, because nothing is waited for. That the server has something else is an answer. A manager that is being
// stopped has none.
func (s *scope) triesAgain(ctx context.Context, what string, err error) bool {
	if err == nil || kube.Conflict(err) {
		return false
	}
	_, tried := s.refusals.of(s.experiment)[what]
	s.refusals.note(context.WithoutCancel(ctx), s.experiment, what, err, s.now) // one that had no time left counts, too
	return !tried || errors.Is(ctx.Err(), context.Canceled)
}

// notePlanned notes what came of the writes of the targets that the pass was about, and of the submission or deletion of the Workflow, of
// which there is no other beside that is of no target: where neither is to be any more, nothing is refused.
func (s *scope) notePlanned(ctx context.Context) {
	for _, t := range s.experiment.Spec.Targets {
		if recordedTarget(s.plan.Targets, t.Name) != nil {
			s.refusals.note(ctx, s.experiment, refusedTarget(t.Name), s.failed[t.Name], s.now)
		}
	}
	var refused error
	if slices.ContainsFunc(s.plan.Writes, func(w Write) bool { return w.Object.GroupVersionKind() == argoworkflows.WorkflowGVK }) {
		refused = s.failed[""]
	}
	s.refusals.note(ctx, s.experiment, workflowWrite, refused, s.now)
}

// asked notes what came of asking an object to go: one that was refused does not wait to go.
func (s *scope) asked(ctx context.Context, object string, err error) {
	s.refusals.note(ctx, s.experiment, object, err, s.now)
	if t := s.plan.Teardown; t != nil && err != nil {
		t.WaitsFor = slices.DeleteFunc(t.WaitsFor, func(w v1alpha1.Waiting) bool { return w.Object == object })
	}
}

// current makes sure, before anything is created or changed, or deleted because the spec does not ask for
// it any more, that the Experiment is the one that was planned for: the cache may be behind. What is
// created for one that is gone, nobody would ever take down; a Workflow that the status records is not submitted a second time when somebody has
// deleted it; and an Application that is put back to what the spec was for a moment is a rollback.
func (s *scope) current(ctx context.Context) error {
	return kube.Current(ctx, s.Live, v1alpha1.GroupVersion.WithKind("Experiment"), s.experiment)
}

// proofs is how many objects are read at the same time.
const proofs = 8

// prove makes sure, all at once, that the Experiment is the one that was planned for, where that matters, and that the server has
// what the plan rests on.
func (s *scope) prove(ctx context.Context) (stale, unconfirmed error) {
	var group errgroup.Group
	group.SetLimit(proofs)
	if slices.ContainsFunc(s.plan.Writes, func(w Write) bool { return w.creates() || !goingDown(s.experiment) }) {
		group.Go(func() error {
			stale = s.current(ctx)
			return nil
		})
	}
	errs := make([]error, len(s.plan.Confirm))
	for i, child := range s.plan.Confirm {
		group.Go(func() error {
			errs[i] = at(child.Condition, s.confirm(ctx, child))
			return nil
		})
	}
	_ = group.Wait() // each has its own error
	return stale, firstError(errs...)
}

// confirm makes sure that the server has a child as it is to be, or another's object that was seen, or either just as it was seen.
func (s *scope) confirm(ctx context.Context, w Write) error {
	gvk := w.Object.GroupVersionKind()
	switch {
	case w.AsSeen && w.Object.GetResourceVersion() == "":
		if child, err := s.owned(kube.Get(ctx, s.Live, gvk, keyOf(w.Object))); child == nil {
			return err
		}
		return kube.Stale(w.Object, "the cache does not have it yet")
	case w.AsSeen:
		return kube.Current(ctx, s.Live, gvk, w.Object)
	case marks.Owns(s.experiment, w.Object):
		return s.writer().Confirm(ctx, w.Object)
	}
	return kube.Still(ctx, s.Live, w.Object)
}

func (s *scope) writer() kube.Writer {
	return kube.Writer{Client: s.Live, Marks: marks, Owner: s.experiment, Strange: strange}
}

// turn is by what a write takes its turn: in a teardown the deletions rest on nothing, and otherwise those of a target on each other.
// What is for the whole Experiment has its place.
func (s *scope) turn(w Write) string {
	switch {
	case goingDown(s.experiment):
		return kube.Describe(w.Object)
	case w.Target == "":
		return ""
	}
	return refusedTarget(w.Target)
}

// takeTurns has the writes that take turns follow each other by what was begun longest ago. The others keep their places: what comes after
// those of targets rests on them.
func (s *scope) takeTurns() {
	var places []int
	var turns []Write
	for i, w := range s.plan.Writes {
		if s.turn(w) != "" {
			places, turns = append(places, i), append(turns, w)
		}
	}
	order := s.refusals.longestAgo(s.experiment)
	slices.SortStableFunc(turns, func(a, b Write) int { return order(s.turn(a), s.turn(b)) })
	for i, place := range places {
		s.plan.Writes[place] = turns[i]
	}
}

// act writes one child when it is its turn.
func (s *scope) act(ctx context.Context, w Write) error {
	return s.inTurn(ctx, s.turn(w), func() error { return s.contend(ctx, w) })
}

// inTurn does something that takes turns, and notes whether it has come to its end.
func (s *scope) inTurn(ctx context.Context, turn string, do func() error) error {
	if ctx.Err() == nil {
		s.refusals.begin(s.experiment, turn, s.now)
	}
	err := do()
	if err == nil {
		s.refusals.end(s.experiment, turn)
	}
	return err
}

// contend writes one child. One that somebody changes, or deletes, by a program is not brought to the state that the spec asks for again
// and again: every time Argo CD would compare it, or a cluster be paid for, anew. A teardown waits for nobody.
func (s *scope) contend(ctx context.Context, w Write) error {
	if w.Action != Ensure || goingDown(s.experiment) {
		return s.write(ctx, w, nil)
	}
	child, wanted := string(s.experiment.UID)+" "+kube.Describe(w.Object), kube.Content(w.Object)
	if s.fights.Wait(child, wanted, s.now) > 0 {
		return &kube.ContendedError{Object: kube.Describe(w.Object)}
	}
	if err := s.vacant(ctx, w); err != nil {
		return err
	}
	return s.write(ctx, w, func() { s.fights.Wrote(child, wanted, s.now) })
}

// operations are what asks Argo CD for something, by the actions.
var operations = map[Action]func(*unstructured.Unstructured) map[string]any{
	Sync:    argocd.SyncAgain,
	EndSync: func(*unstructured.Unstructured) map[string]any { return argocd.EndSync() },
}

// write writes one child. It bypasses the cached client, through which one write begins to
// watch a kind, Secrets too.
func (s *scope) write(ctx context.Context, w Write, wrote func()) error {
	writer := s.writer()
	writer.Wrote = wrote
	if w.Object.GroupVersionKind() == argocd.ApplicationGVK {
		writer.Asks = argocd.Refresh()
	}
	log := log.FromContext(ctx).WithValues("child", kube.Describe(w.Object))
	if w.Action == Delete {
		log.Info("Deleting child")
		return remove(ctx, writer, w.Object)
	}
	if w.Action == Free {
		log.Info("Freeing Application of a cluster that is gone")
		return writer.Free(ctx, w.Object, argocd.Finalizer)
	}
	if change := operations[w.Action]; change != nil {
		log.Info("Asking Argo CD to sync again, or to end a sync", "end", w.Action == EndSync)
		_, err := writer.Merge(ctx, w.Object, change(w.Object))
		return err
	}
	if w.Action == Renew {
		log.Info("Renewing what another Experiment has registered")
		writer.Owner = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: types.UID(w.Object.GetLabels()[marks.UID])}} // as it was found to be
		renewed, err := writer.Merge(ctx, w.Object, map[string]any{"data": w.Object.Object["data"]})
		s.wrote(renewed, err)
		return err
	}
	if w.Known {
		log.Info("Applying child")
		child, err := writer.Apply(ctx, w.Object)
		s.wrote(child, err)
		return err
	}
	log.Info("Creating child")
	switch {
	case w.Action == Once:
		_, err := writer.Once(ctx, w.Object)
		return err
	case w.Object.GroupVersionKind() == argoworkflows.WorkflowGVK:
		return s.submit(ctx, writer, w.Object)
	case w.Object.GroupVersionKind() == kube.RoleBindingGVK:
		return writer.Grant(ctx, w.Object)
	}
	child, err := writer.Ensure(ctx, w.Object)
	s.wrote(child, err)
	if w.Object.GroupVersionKind() != argocd.SecretGVK {
		return err
	}
	if err != nil {
		if kube.Reason(err) == kube.ReasonReconcileError && !kube.Conflict(err) { // the server has not said that it is not there
			s.registrations.doubt(keyOf(w.Object))
		}
		return err
	}
	return s.registeredTwice(ctx, writer, w.Target, child)
}

// remove deletes one child.
func remove(ctx context.Context, writer kube.Writer, child *unstructured.Unstructured) error {
	// Whoever takes the label off a cluster keeps it, also if the cache has not seen that yet.
	writer.Exact = slices.Contains(clusterKinds(), child.GroupVersionKind())
	if crossplane.Foreground(child) {
		return writer.Delete(ctx, child, client.PropagationPolicy(metav1.DeletePropagationForeground)) // it goes when the cluster is gone
	}
	if child.GroupVersionKind() == argocd.ApplicationGVK {
		if cascade := argocd.Cascade(child); cascade != nil {
			whole, err := writer.Merge(ctx, child, cascade)
			if err != nil {
				return err
			}
			child = whole
		}
	}
	return writer.Delete(ctx, child)
}

// wrote remembers how far the cluster Secrets are that this manager has written.
func (s *scope) wrote(child *unstructured.Unstructured, err error) {
	if err == nil && child.GroupVersionKind() == argocd.SecretGVK {
		s.registrations.saw(child.GetResourceVersion())
	}
}

// vacant makes sure, before a target on the hub gets its first Application, that the namespace it will be deployed into is nobody else's.
// Argo CD labels whatever namespace an Application names, the teardown would know that by the label, and an author can search for the
// names that make the hash in the namespace's, which is no longer than a word, the end of another's.
func (s *scope) vacant(ctx context.Context, w Write) error {
	at := slices.IndexFunc(s.experiment.Spec.Targets, func(t v1alpha1.Target) bool {
		return t.Name == w.Target && t.Cluster.Type == v1alpha1.ClusterHub && w.Object.GroupVersionKind() == argocd.ApplicationGVK
	})
	if at < 0 || w.Known || len(s.seen.Applications[w.Target]) > 0 {
		return nil
	}
	namespace, key := kube.Metadata(namespaceGVK), types.NamespacedName{Name: s.names.onHub(s.experiment.Spec.Targets[at])}
	err := s.Live.Get(ctx, key, namespace)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading Namespace %s: %w", key.Name, err)
	case !marks.Owns(s.experiment, namespace):
		return &kube.NameTakenError{Object: "Namespace " + key.Name, Remedy: "delete this Experiment and create it again, which gives it a namespace of another name"}
	}
	return nil
}

// submit creates the Workflow. One that was submitted before runs with what it was given.
func (s *scope) submit(ctx context.Context, writer kube.Writer, workflow *unstructured.Unstructured) error {
	submitted, _, err := writer.Create(ctx, workflow)
	if err != nil {
		return err
	}
	s.plan.Workflow.UID = string(submitted.GetUID())
	s.plan.Workflow.Inputs = submitted.GetAnnotations()[v1alpha1.AnnotationInputs]
	s.plan.Workflow.Clusters = submitted.GetAnnotations()[v1alpha1.AnnotationClusters]
	return nil
}
