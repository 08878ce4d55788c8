package hibernateplan

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/connector"
	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/internal/restore"
	"github.com/labkeeper/labkeeper/internal/runner"
)

// writer writes past the cache, and jobs by it, which then has what was written.
func (s *scope) writer() kube.Writer {
	return kube.Writer{Client: s.Live, Marks: marks, Owner: s.owner}
}

func (s *scope) names() names {
	cycle := s.owner.Status.CurrentCycle
	return names{namespace: s.Options.Namespace, plan: s.owner, cycle: cycle, secret: s.seen.Credentials}
}

// apply carries the plan out. What fails for one target does not keep the others.
func (s *scope) apply(ctx context.Context) error {
	p := &s.plan
	if p.Turns || len(p.Stop) > 0 {
		if err := s.timely(ctx); err != nil {
			return err
		}
	}
	if p.Begin == nil && len(p.Launch)+len(p.Clear)+len(p.Release)+len(p.Stop) == 0 && p.Forget == 0 && !p.Done {
		s.recordable = true
		return nil
	}
	// Nothing is done by a record of before: a Job that was made and has ended would be made again.
	if err := kube.Current(ctx, s.Live, planGVK, s.owner); err != nil {
		return err
	}
	if p.Begin != nil {
		if err := s.keep(ctx, *p.Begin); err != nil {
			return err
		}
	}
	s.recordable = true
	err := errors.Join(s.clears(ctx), s.each(ctx, p.Release, s.release), s.stops(ctx), s.attempts(ctx))
	if s.overdue(ctx, err) {
		s.plan.Done, s.plan.GivenUp, err = true, anyOf(s.plan.Status.Executions, asleep), nil
	}
	if err != nil {
		return err
	}
	if err = s.forget(ctx); s.overdue(ctx, err) {
		err = nil
	}
	s.recordable = err == nil // what is left of a cycle must not be forgotten
	return err
}

// overdue says whether a plan goes in spite of an error: its deadline is over, and it was tried for a while by this manager, which may have
// been away until then. What is left may be cleared away later.
func (s *scope) overdue(ctx context.Context, err error) bool {
	if !s.plan.Overdue { // or not any more: spec.deletion.deadline may have been extended
		s.tried.Remove(s.owner.UID)
	}
	if err == nil || !s.plan.Overdue || errors.Is(ctx.Err(), context.Canceled) {
		return false
	}
	if !s.failsForLong(s.owner.UID) {
		return false
	}
	log.FromContext(ctx).Info("The plan goes, and not all that it has made is cleared away", "cause", err.Error())
	return true
}

// failsForLong says whether what a key is of has failed for as long as what may pass is tried; that counts from the first time it is asked.
func (s *scope) failsForLong(key any) bool {
	since, known := s.tried.Get(key)
	if !known || since.(time.Time).After(s.now) { // or the clock was set back
		s.tried.Add(key, s.now)
		return false
	}
	return s.now.Sub(since.(time.Time)) >= patience
}

// timely is a conflict unless the server has the exceptions that the schedule was read with: by a cache that is behind,
// what an exception keeps awake would be put to sleep. What is to be awake is woken by the cache, too, where the manager may not
// list them, or their kind is not served, as when the CRDs were deleted: that may last. A plan that goes asks no exception.
func (s *scope) timely(ctx context.Context) error {
	if s.owner.DeletionTimestamp != nil {
		return nil
	}
	own := false
	list := func() (any, error) {
		own = true
		var list v1alpha1.ScheduleExceptionList
		err := s.Live.List(ctx, &list, client.InNamespace(s.owner.Namespace))
		return list.Items, err
	}
	all, err, _ := s.asked.Do(s.owner.Namespace, list)
	if !own { // it may have begun before what this pass must know of; the next one has not, whoever begins it
		all, err, _ = s.asked.Do(s.owner.Namespace, list)
	}
	if awake := s.plan.Known && !s.plan.Desired.asleep; err != nil && awake && (apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || meta.IsNoMatchError(err)) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listing ScheduleExceptions: %w", err)
	}
	now := exceptionsOf(s.owner.Name, all.([]v1alpha1.ScheduleException))
	same := func(a, b v1alpha1.ScheduleException) bool { return a.UID == b.UID && a.Generation == b.Generation }
	if slices.EqualFunc(now, s.seen.Exceptions, same) {
		return nil
	}
	was := kube.Metadata(planGVK)
	was.SetName(s.owner.Name)
	return kube.Stale(was, "a ScheduleException of it was created, changed or deleted, which the cache has not seen yet")
}

// patience is how long the Job of an attempt is tried to be made against what may pass: quotas, rights that come late, an
// API server that is busy.
const patience = 2 * time.Minute

// each does something for some entries of the ledger, and returns what has failed.
func (s *scope) each(ctx context.Context, positions []int, do func(context.Context, *execution) error) error {
	return errors.Join(inParallel(ctx, s, positions, func(i int) error { return do(ctx, &s.plan.Status.Executions[i]) })...)
}

// inParallel does something with some things of a plan, so many at a time, and no more than the slots of all plans
// together, and returns the errors in their order.
func inParallel[T any](ctx context.Context, s *scope, things []T, do func(T) error) []error {
	errs := make([]error, len(things))
	var group errgroup.Group
	group.SetLimit(max(1, s.Options.MaxConcurrentReconciles))
	for i, thing := range things {
		group.Go(func() error {
			errs[i] = s.slots.Do(ctx, func() error { return do(thing) })
			return nil
		})
	}
	_ = group.Wait() // it has none of its own
	return errs
}

// attempts makes the Jobs of attempts. What lasts and keeps one from being made is what the attempt came to: it is tried
// again as one that has failed is, and keeps nothing else from going on.
func (s *scope) attempts(ctx context.Context) error {
	launch := s.plan.Launch
	made := make([]*launched, len(launch))
	for i, position := range launch {
		e := &s.plan.Status.Executions[position]
		made[i] = &launched{execution: e, point: s.points[e.Target]}
	}
	errs := inParallel(ctx, s, made, func(l *launched) error { return s.launch(ctx, l) })
	for i, l := range made {
		e, err := l.execution, errs[i]
		switch {
		case l.needless:
			end(e, neverAsleep, s.plan.program.retries(), s.now)
		case err != nil && s.final(ctx, s.triedSince(e), err):
			end(e, outcome{message: kube.Message(err), unmade: l.point == nil, checksum: left(e, l.point)}, s.plan.program.retries(), s.now)
			s.plan.Failed = append(s.plan.Failed, failure(e))
			errs[i] = nil
		default:
			continue
		}
		s.plan.lookIn(atOnce)
	}
	return errors.Join(errs...)
}

// launched is an attempt that is being made.
type launched struct {
	*execution
	// point is the restore point of its target; nil if there is none yet.
	point *corev1.ConfigMap
	// needless: nothing was put to sleep that it would wake, and it has no Job.
	needless bool
}

// untouched says whether an attempt is to wake what was never put to sleep: whoever has begun with that has not come as far as to write how
// anything was, which comes before the first change.
func (l *launched) untouched() bool {
	if l.Operation != v1alpha1.OperationWakeUp || l.Resources > 0 || l.point == nil {
		return false
	}
	content, written := l.point.BinaryData[runner.KeyPoint]
	if !written {
		return true
	}
	kept, err := restore.Decode(content)
	return err == nil && len(kept.Resources) == 0 // those that are awake may have to be waited for
}

// lasts says whether an error says itself that trying again at once is of no use.
func lasts(err error) bool {
	var unreached *problem
	var refused *connector.Error
	var taken *kube.NameTakenError
	return errors.As(err, &unreached) || errors.As(err, &refused) || errors.As(err, &taken) ||
		apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsNotFound(err)
}

// keep makes the revision that a cycle goes by.
func (s *scope) keep(ctx context.Context, r resolved) error {
	content, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("writing the plan of a cycle: %w", err)
	}
	at := s.names().in(s.plan.Status.CurrentCycle.PlanRevision)
	revision := &appsv1.ControllerRevision{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "ControllerRevision"},
		ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name}, Revision: s.plan.Status.CurrentCycle.ID,
		Data: runtime.RawExtension{Raw: content},
	}
	desired, err := bare(revision)
	if err != nil {
		return err
	}
	marks.Set(s.owner, desired)
	found, created, err := s.writer().Create(ctx, desired)
	if err != nil {
		return err
	}
	if created || equality.Semantic.DeepEqual(found.Object["data"], desired.Object["data"]) {
		s.revisions.Add(s.own(at), &r)
		return nil
	}
	// It is of a cycle that was never recorded, from before an edit.
	if err := s.writer().Delete(ctx, found); err != nil {
		return err
	}
	return kube.Stale(desired, "it was of another spec")
}

// launch makes the Job of an attempt that was recorded, and before it what that needs.
func (s *scope) launch(ctx context.Context, l *launched) error {
	s.tries(s.names().in(name(l.JobRef)))
	if l.untouched() { // whatever a runner would need may not be had, which is mostly why
		_, err := s.claim(ctx, attempt{names: s.names(), execution: l.execution}, l)
		l.needless = err == nil
		return err
	}
	a, err := s.attempt(ctx, l)
	if err != nil {
		return err
	}
	begun, err := s.claim(ctx, a, l)
	if err != nil {
		return err
	}
	helpers := a.helpers()
	if a.reached.credentials {
		kubeconfig, err := s.kubeconfig(ctx, a, l.point, begun)
		if err != nil {
			return err
		}
		helpers = append(helpers, a.secret(kubeconfig))
	}
	job := a.jobObject()
	again := s.hasMade(job)
	looked, err := s.permit(ctx, l.Target, again)
	if err != nil {
		return err
	}
	if err := s.provideAll(ctx, a, helpers, again); err != nil {
		if apierrors.IsNotFound(err) && !looked {
			s.permitted.Remove(a.role(l.Target))
			return kube.Stale(kube.Metadata(roleGVK), "it may be gone")
		}
		return err
	}
	if a.reached.credentials && !l.Kept {
		l.Kept = true // and its runner waits for that to be recorded: nothing that it is granted is where it would be found by another manager
		return nil
	}
	log.FromContext(ctx).Info("Starting runner", "target", l.Target, "operation", l.Operation, "attempt", l.Attempts, "job", l.JobRef)
	return s.provide(ctx, job)
}

// claim makes the restore point of a target that of an attempt, unless it is another than the one before has left, and says whether it was
// that before.
func (s *scope) claim(ctx context.Context, a attempt, l *launched) (begun bool, err error) {
	s.recorded.Remove(a.name())
	begun = l.point != nil && l.point.Annotations[runner.AnnotationExecution] == a.name().Name
	if other := a.other(l.point); other != "" && !begun {
		return false, &problem{message: "Its restore point is " + other}
	}
	l.point, err = s.fence(ctx, a, l.point)
	return begun, err
}

// provideAll makes what an attempt needs beside its Job; again is all of it, as somebody has deleted that Job, and maybe more. Where a
// namespace takes no RoleBinding, what sleeps in the others is woken, and the runner says what it may not wake.
func (s *scope) provideAll(ctx context.Context, a attempt, helpers []client.Object, again bool) error {
	var refused []error
	for _, o := range helpers { // in their order: a binding to a Role that there is not yet is refused
		if s.hasMade(o) && !again {
			continue // by a pass before, which has had no time for more
		}
		err := s.refusal(o)
		if err == nil || again {
			err = s.provide(ctx, o)
		}
		if err == nil {
			s.made.Remove(refusal(s.asMade(o)))
			continue
		}
		granted := o.GetNamespace() != a.namespace && o.GetNamespace() != ""
		if !granted || a.execution.Operation != v1alpha1.OperationWakeUp || !s.final(ctx, a.execution.StartedAt.Time, err) {
			return err
		}
		s.made.Add(refusal(s.asMade(o)), err)
		if refused = append(refused, err); len(refused) == len(a.reached.namespaces) {
			return errors.Join(refused...)
		}
		log.FromContext(ctx).Info("Waking a target without one of its namespaces", "target", a.target.Name, "namespace", o.GetNamespace(), "cause", err.Error())
	}
	return nil
}

// refusal is why a pass before has gone on without what an attempt needs; nil if none has. Each may have taken as long as a webhook that
// hangs, and a pass has no time for many.
func (s *scope) refusal(o client.Object) error {
	why, known := s.made.Get(refusal(s.asMade(o)))
	if !known {
		return nil
	}
	return why.(error)
}

// refused is why some namespaces have taken no RoleBinding of an attempt, which is why its runner may not act there; empty where none is
// known of. Another manager than the one that has made the attempt does not know it, until the next one is made.
func (s *scope) refused(namespaces []string, attempt string) string {
	var all []string
	for _, namespace := range namespaces {
		if why, known := s.made.Get(refusal{s.owner.UID, helper{bindingGVK, bindingOf(namespace, attempt)}}); known {
			all = append(all, kube.Message(why.(error)))
		}
	}
	return strings.Join(all, "; ")
}

// tries notes since when an attempt is tried to be made, where nothing of it has been before.
func (s *scope) tries(attempt types.NamespacedName) {
	_, untouched := s.recorded.Get(attempt)
	if _, known := s.tried.Get(attempt); untouched && !known {
		s.tried.Add(attempt, s.now)
	}
}

// triedSince is since when the Job of an attempt is tried to be made, which is late where many were recorded together; where that is not
// known, since it was recorded.
func (s *scope) triedSince(e *execution) time.Time {
	if at, known := s.tried.Get(s.names().in(name(e.JobRef))); known {
		return at.(time.Time)
	}
	return e.StartedAt.Time
}

// final says whether what keeps an attempt from being made lasts, or has lasted long enough.
func (s *scope) final(ctx context.Context, since time.Time, err error) bool {
	return !kube.Conflict(err) && ctx.Err() == nil && (lasts(err) || s.now.Sub(since) >= patience)
}

// provide makes what an attempt needs, which is known by its UID until it is taken away.
func (s *scope) provide(ctx context.Context, o client.Object) error {
	child, err := s.create(ctx, o)
	if err == nil {
		s.made.Add(s.asMade(child), child.GetUID())
	}
	return err
}

// hasMade says whether this manager has made what an attempt needs, and has not taken it away.
func (s *scope) hasMade(o client.Object) bool {
	_, made := s.made.Get(s.asMade(o))
	return made
}

func (s *scope) asMade(o client.Object) made {
	return made{s.owner.UID, helper{o.GetObjectKind().GroupVersionKind(), client.ObjectKeyFromObject(o)}}
}

// create makes what must not change; what is there already and is ours is what a pass before has made.
func (s *scope) create(ctx context.Context, o client.Object) (*unstructured.Unstructured, error) {
	desired, err := bare(o)
	if err != nil {
		return nil, err
	}
	marks.Set(s.owner, desired)
	return s.writer().Once(ctx, desired)
}

// attempt collects what the Job of an attempt is made of.
func (s *scope) attempt(ctx context.Context, l *launched) (attempt, error) {
	program, e := s.plan.program, l.execution
	t := program.Targets[program.positions[e.Target]]
	found, err := s.reach(ctx, t, e.Namespaces)
	if err != nil {
		return attempt{}, err
	}
	if found.problem == nil && found.credentials != (e.ConnectorSecretRef != "") { // what is made goes by what was recorded
		return attempt{}, &problem{reason: v1alpha1.ReasonConnectorNotReady, message: "the connector of target " + e.Target + " has changed since the attempt was recorded"}
	}
	a := attempt{names: s.names(), execution: e, target: t, runner: podsOf(s.owner.Spec.Runner), image: s.Options.Image, pull: s.Options.PullSecrets, node: s.Options.Node, own: s.Options.Own, reached: found}
	if found.credentials {
		if a.hub, err = s.hub(ctx); err != nil {
			return attempt{}, err
		}
		if err = s.access(ctx, &a); err != nil {
			return attempt{}, err
		}
	}
	why := found.problem
	switch {
	case found.credentials: // which say what the runner may do there
	case e.Operation == v1alpha1.OperationShutdown:
		if why = cmp.Or(why, found.withheld); why == nil && len(e.Namespaces) == 0 && len(found.namespaces) > 0 { // it would find nothing there
			why = &problem{reason: v1alpha1.ReasonTooManyNamespaces, message: "none of its namespaces are recorded, as there were none, or too many; the next attempt is in those that there are"}
		}
		a.reached.namespaces = stillIn(e.Namespaces, found.namespaces)
	default:
		if found.needs.Cluster && !s.sleptHere(l.point) {
			why = cmp.Or(why, found.withheld)
		}
		// Where it was put to sleep, and not where it would be by now. Whoever has let it sleep there lets it wake.
		a.reached.namespaces, err = s.wakes(ctx, l)
	}
	if why != nil {
		err = fmt.Errorf("reaching target %s: %w", e.Target, why)
	}
	return a, err
}

// slept says whether the target of a restore point was let be acted on by an attempt of this plan, and not only found asleep.
func (s *scope) slept(point *corev1.ConfigMap) bool {
	return point != nil && point.Annotations[annotationPlanUID] == string(s.owner.UID)
}

// sleptHere is slept of the manager's own cluster, by nobody's credentials: what those of a connector have written to a restore point, which
// cluster that is of included, a server has said that its author may have chosen. By that nobody is let act on this one.
func (s *scope) sleptHere(point *corev1.ConfigMap) bool {
	if !s.slept(point) {
		return false
	}
	_, remote := point.Annotations[annotationConnector]
	return !remote
}

// living are those of some namespaces that there are: what is in one that is gone, or going, is not put to sleep any more,
// nor woken. What takes many passes to be made asks the server once: from then on the cache tells which have gone since, of which the server
// has the last word.
func (s *scope) living(ctx context.Context, names []string, known bool) (out []*metav1.PartialObjectMetadata, err error) {
	for _, name := range names {
		var namespace *metav1.PartialObjectMetadata
		if known {
			namespace, err = s.namespace(ctx, s.Client, name)
		}
		if err == nil && !lives(namespace) {
			namespace, err = s.namespace(ctx, s.Live, name)
		}
		if err != nil {
			return nil, err
		}
		if lives(namespace) {
			out = append(out, namespace)
		}
	}
	return out, nil
}

// lives says whether there is a namespace, and it is not going.
func lives(namespace *metav1.PartialObjectMetadata) bool {
	return namespace != nil && namespace.DeletionTimestamp == nil
}

// stillIn are the namespaces in which a target is put to sleep: those that are recorded, as what may sleep there is woken, and that it is in
// now, which are sorted. Of those that attempts before were in some may not allow it any more, or not have the labels, which keeps the
// others from nothing.
func stillIn(recorded, now []string) (out []string) {
	for _, name := range recorded {
		if _, is := slices.BinarySearch(now, name); is {
			out = append(out, name)
		}
	}
	return out
}

// namesOf some objects.
func namesOf(objects []*metav1.PartialObjectMetadata) (out []string) {
	for _, o := range objects {
		out = append(out, o.Name)
	}
	return out
}

// wakes are the namespaces that a target is woken in: those of the ledger that there still are. One that was
// written before adopted targets were recorded with theirs has none, and the restore point, which runners write, is
// believed in what this plan may do anyway.
func (s *scope) wakes(ctx context.Context, l *launched) ([]string, error) {
	names, at := l.Namespaces, looked{s.owner.UID, helper{jobGVK, s.names().in(name(l.JobRef))}}
	_, known := s.made.Get(at)
	if len(names) == 0 && l.point != nil {
		names, known = split(l.point.Annotations[annotationNamespaces]), false
	}
	living, err := s.living(ctx, names, known)
	if err == nil {
		s.made.Add(at, true)
	}
	for _, namespace := range living {
		if why := s.withheld(namespace.Name, namespace.Annotations); why != "" && len(l.Namespaces) == 0 {
			return nil, &problem{reason: v1alpha1.ReasonNotGranted, message: why}
		}
	}
	return namesOf(living), err
}

// hub tells the manager's own cluster from others.
func (s *scope) hub(ctx context.Context) (string, error) {
	system := kube.Metadata(namespaceGVK)
	if err := s.Client.Get(ctx, types.NamespacedName{Name: metav1.NamespaceSystem}, system); err != nil {
		return "", fmt.Errorf("reading Namespace %s: %w", metav1.NamespaceSystem, err)
	}
	return string(system.UID), nil
}

// fence makes the restore point of a target that of an attempt: the runner of another one writes nothing any more.
func (s *scope) fence(ctx context.Context, a attempt, point *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	if point == nil {
		desired, err := a.restorePoint()
		if err != nil {
			return nil, err
		}
		if err := s.Live.Create(ctx, desired, client.FieldOwner(kube.FieldOwner)); err != nil {
			return nil, fmt.Errorf("creating ConfigMap %s: %w", client.ObjectKeyFromObject(desired), err)
		}
		return desired, nil
	}
	if point.Annotations[runner.AnnotationExecution] == a.name().Name {
		return point, nil
	}
	changed := point.DeepCopy()
	changed.Annotations[runner.AnnotationExecution], changed.Annotations[annotationPlanUID] = a.name().Name, string(s.owner.UID)
	if a.reached.credentials {
		changed.Annotations[annotationConnector] = a.access.Version
	}
	metav1.SetMetaDataLabel(&changed.ObjectMeta, v1alpha1.LabelCycle, fmt.Sprint(a.cycle.ID))
	if a.execution.Operation == v1alpha1.OperationShutdown {
		names := a.reached.namespaces
		if !a.reached.credentials { // what an attempt before has put to sleep may still sleep in those that take no part any more
			names = merged(names, split(point.Annotations[annotationNamespaces]))
		}
		changed.Annotations[annotationNamespaces] = join(names)
	}
	patch := client.MergeFromWithOptions(point, client.MergeFromWithOptimisticLock{})
	if err := s.Live.Patch(ctx, changed, patch, client.FieldOwner(kube.FieldOwner)); err != nil {
		return point, fmt.Errorf("patching ConfigMap %s: %w", client.ObjectKeyFromObject(point), err)
	}
	return changed, nil
}

// clears takes away what attempts needed that have ended, and keeps in mind what was left of them.
func (s *scope) clears(ctx context.Context) error {
	left := make([][]string, len(s.plan.Status.Executions))
	errs := inParallel(ctx, s, s.plan.Clear, func(i int) (err error) {
		left[i], err = s.clear(ctx, &s.plan.Status.Executions[i])
		return err
	})
	for _, i := range s.plan.Clear {
		s.plan.Littered = append(s.plan.Littered, left[i]...)
	}
	return errors.Join(errs...)
}

// clear takes away what an attempt needed that has ended, its rights first. Left is what a namespace does not let go.
func (s *scope) clear(ctx context.Context, e *execution) (left []string, err error) {
	if e.State != v1alpha1.ExecutionCompleted {
		s.permitted.Remove(s.names().role(e.Target)) // the next one looks at it
	}
	needed, err := s.needed(ctx, e)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, h := range needed {
		why, err := s.leaves(ctx, h)
		if why != nil {
			left = append(left, kube.Message(why))
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	// The Job goes when all else has: what is known of an attempt whose plan is gone, or has lost its ledger, is its Job. It goes from
	// the server: the cache may not have it yet, and nobody would look for it again.
	if err := s.takeAway(ctx, helper{jobGVK, s.names().in(name(e.JobRef))}); err != nil {
		return nil, err
	}
	e.ServiceAccountRef, e.ConnectorSecretRef = "", ""
	return left, nil
}

// needed is what an attempt needs beside its Job, its rights first.
func (s *scope) needed(ctx context.Context, e *execution) (out []helper, err error) {
	job := name(e.JobRef)
	at := s.names().in(job)
	needs, known := s.needs(e)
	if !known || needs.ClusterRole != "" && e.ConnectorSecretRef == "" {
		bindings, err := s.bindings(ctx, e)
		if err != nil {
			return nil, err
		}
		for _, key := range bindings {
			out = append(out, helper{bindingGVK, key})
		}
	}
	if !known || needs.Cluster {
		out = append(out, helper{clusterBindingGVK, types.NamespacedName{Name: job}})
	}
	if e.ConnectorSecretRef != "" {
		out = append(out, helper{secretGVK, at})
	}
	return append(out, helper{bindingGVK, at}, helper{accountGVK, at}), nil
}

// leaves takes away what an attempt needed, or says why that is left: what another namespace than the manager's does not let go for as long
// as its webhook sleeps, for instance, must not keep from waking what may be that webhook. It grants nothing once the ServiceAccount is
// gone. What was refused for so long is not asked for again: a pass has no time for many that hang.
func (s *scope) leaves(ctx context.Context, h helper) (why, err error) {
	at := letGo{s.owner.UID, h}
	if why, left := s.made.Get(at); left {
		return why.(error), nil
	}
	if err = s.takeAway(ctx, h); err == nil {
		s.tried.Remove(at)
	}
	if err == nil || h.key.Namespace == s.Options.Namespace || h.key.Namespace == "" {
		return nil, err
	}
	if long := s.failsForLong(at); !long || kube.Conflict(err) || ctx.Err() != nil {
		return nil, err
	}
	s.made.Add(at, err)
	return err, nil
}

// stops stops runners, and keeps in mind which were.
func (s *scope) stops(ctx context.Context) error {
	stopped := make([]bool, len(s.plan.Status.Executions))
	errs := inParallel(ctx, s, s.plan.Stop, func(i int) (err error) {
		stopped[i], err = s.stop(ctx, &s.plan.Status.Executions[i])
		return err
	})
	for _, i := range s.plan.Stop {
		if stopped[i] {
			s.plan.Stopped = append(s.plan.Stopped, i)
		}
	}
	return errors.Join(errs...)
}

// stop has the runner of an attempt end, unless it has, or somebody else has told it to: it says what it has done by then. The rest of what
// it needs goes when it has. Its log is kept first, as of now: its pod goes with its Job.
func (s *scope) stop(ctx context.Context, e *execution) (bool, error) {
	job, err := kube.Get(ctx, s.Live, jobGVK, s.names().in(name(e.JobRef)))
	if err != nil || job == nil || !marks.Owns(s.owner, job) || finished(job) || toldToEnd(job) != nil {
		return false, err
	}
	log.FromContext(ctx).Info("Stopping runner", "target", e.Target, "operation", e.Operation, "attempt", e.Attempts, "job", e.JobRef)
	if pods, err := s.pods(ctx, job.GetName(), fromServersCache()); err == nil && len(pods) > 0 {
		e.LogsRef = s.logOf(ctx, e, &pods[0])
	}
	err = s.writer().Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground))
	return err == nil, err
}

// bindings are those of an attempt in the namespaces of its target, as the ledger has them; where it does not have them any
// more, since another operation was begun, or of a Job without a plan, those that there are.
func (s *scope) bindings(ctx context.Context, e *execution) (out []types.NamespacedName, err error) {
	job := name(e.JobRef)
	if len(e.Namespaces) > 0 || e.Operation == v1alpha1.OperationShutdown && e.Attempts > 0 {
		for _, namespace := range e.Namespaces {
			out = append(out, bindingOf(namespace, job))
		}
		return out, nil
	}
	var all rbacv1.RoleBindingList
	if err := s.Live.List(ctx, &all, client.MatchingLabels{v1alpha1.LabelUID: string(s.owner.UID), labelExecution: job}); err != nil {
		return nil, fmt.Errorf("listing RoleBindings of %s: %w", job, err)
	}
	for i := range all.Items {
		out = append(out, client.ObjectKeyFromObject(&all.Items[i]))
	}
	return out, nil
}

// needs are those of the runner of a target; not known where that is in no program.
func (s *scope) needs(e *execution) (executor.Needs, bool) {
	if s.plan.program == nil {
		return executor.Needs{}, false
	}
	position, known := s.plan.program.positions[e.Target]
	if !known {
		return executor.Needs{}, false
	}
	return s.plan.program.parameters[position].Needs(), true
}

// helper is an object that an attempt needs.
type helper struct {
	gvk schema.GroupVersionKind
	key types.NamespacedName
}

// refusal is of a helper that is not made.
type refusal made

// looked is of a Job of which it is known in which namespaces it wakes.
type looked made

// letGo is of a helper that nobody needs any more, and that is not let go.
type letGo made

// made is a helper of a plan, by its UID.
type made struct {
	plan types.UID
	helper
}

// takeAway deletes what an attempt has needed: what this manager has seen to be ours by its UID, without a look.
func (s *scope) takeAway(ctx context.Context, h helper) error {
	s.made.Remove(looked{s.owner.UID, h})
	uid, ok := s.made.Get(made{s.owner.UID, h})
	if !ok {
		s.made.Remove(refusal{s.owner.UID, h})
		return s.remove(ctx, h.gvk, h.key)
	}
	s.made.Remove(made{s.owner.UID, h})
	o := kube.Metadata(h.gvk)
	o.Namespace, o.Name = h.key.Namespace, h.key.Name
	err := s.Live.Delete(ctx, o, client.Preconditions{UID: ptr.To(uid.(types.UID))}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if apierrors.IsConflict(err) { // another has the name by now
		return s.remove(ctx, h.gvk, h.key)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s %s: %w", h.gvk.Kind, h.key, err)
	}
	return nil
}

// remove deletes an object of a name if it is the plan's; another's was never needed.
func (s *scope) remove(ctx context.Context, gvk schema.GroupVersionKind, key types.NamespacedName) error {
	found, err := kube.Get(ctx, s.Live, gvk, key)
	if err != nil || found == nil || !marks.Owns(s.owner, found) {
		return err
	}
	return s.writer().Delete(ctx, found, client.PropagationPolicy(metav1.DeletePropagationBackground))
}

// release lets the restore point of a target go that is awake.
func (s *scope) release(ctx context.Context, e *execution) error {
	point, err := s.point(ctx, e.Target)
	if err != nil {
		return err
	}
	if point != nil && point.Annotations[runner.AnnotationExecution] != name(e.JobRef) && point.DeletionTimestamp == nil {
		err = kube.Current(ctx, s.Live, planGVK, s.owner) // an attempt may have been recorded since, and have taken it
		if err == nil && !s.plan.Leaves {
			err = &problem{message: fmt.Sprintf("target %s is awake, and its restore point ConfigMap %s is not the one that it was woken by, as where a backup has "+
				"brought one back: delete it, or, to wake the target by it once more, delete the plan with deletionPolicy Leave and create it again",
				e.Target, client.ObjectKeyFromObject(point))}
		}
		if err != nil {
			return err
		}
		point = nil // which stays, as all do that a plan leaves
	}
	if s.remote(e.Target) {
		if err := s.dropCredentials(ctx, e.Target); err != nil {
			return err
		}
	}
	if point != nil {
		if err := s.drop(ctx, point); err != nil {
			return err
		}
	}
	e.RestoreConfigMapRef, e.RestoreRef, e.RestoreChecksum = "", "", ""
	return nil
}

// remote says whether credentials of a target may be kept.
func (s *scope) remote(target string) bool {
	if s.plan.program == nil {
		return true
	}
	position, known := s.plan.program.positions[target]
	return !known || s.plan.program.Targets[position].ConnectorRef != nil
}

// drop deletes a restore point as it was looked at, and no other version of it.
func (s *scope) drop(ctx context.Context, point *corev1.ConfigMap) error {
	if slices.Contains(point.Finalizers, v1alpha1.FinalizerRestorePoint) {
		free := point.DeepCopy()
		free.Finalizers = slices.DeleteFunc(free.Finalizers, func(f string) bool { return f == v1alpha1.FinalizerRestorePoint })
		patch := client.MergeFromWithOptions(point, client.MergeFromWithOptimisticLock{})
		if err := s.Live.Patch(ctx, free, patch, client.FieldOwner(kube.FieldOwner)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("releasing ConfigMap %s: %w", client.ObjectKeyFromObject(point), err)
		} else if err != nil || point.DeletionTimestamp != nil {
			return nil
		}
		point = free
	}
	err := s.Live.Delete(ctx, point, client.Preconditions{UID: ptr.To(point.UID), ResourceVersion: ptr.To(point.ResourceVersion)})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting ConfigMap %s: %w", client.ObjectKeyFromObject(point), err)
	}
	return nil
}

// forget takes away what is left of a cycle that is over, and of a plan that goes.
func (s *scope) forget(ctx context.Context) error {
	if s.plan.Forget != 0 {
		if err := s.tidy(ctx); err != nil { // while it is tried, the cycle may turn, which goes by its revision
			return err
		}
		revision := s.names().revision(s.plan.Forget)
		s.revisions.Remove(s.own(revision)) // that the cycle is over may not be recorded after all: nothing goes by what is gone
		if err := s.remove(ctx, revisionGVK, revision); err != nil {
			return err
		}
	}
	if s.plan.Done && (s.plan.GivenUp || s.plan.Leaves) { // whoever wakes what it leaves asleep has his own
		if err := s.dropAllCredentials(ctx); err != nil {
			return err
		}
	}
	if !s.plan.Done {
		return nil
	}
	err := s.deleteAll(ctx, &rbacv1.Role{})
	if err != nil && (s.plan.Status.Cycles > 0 || !apierrors.IsForbidden(err) || s.permittedAny(ctx)) {
		return err
	}
	if s.plan.Status.Cycles == 0 {
		return nil
	}
	if err := s.deleteAll(ctx, &corev1.ConfigMap{}); err != nil { // logs
		return err
	}
	return s.deleteAll(ctx, &appsv1.ControllerRevision{}) // of a cycle that was never recorded
}

// deleteAll deletes what there is of a kind of a plan that goes.
func (s *scope) deleteAll(ctx context.Context, kind client.Object) error {
	if err := s.Live.DeleteAllOf(ctx, kind, client.InNamespace(s.Options.Namespace), marks.Selector(s.owner)); err != nil {
		return fmt.Errorf("deleting the %T of a plan that goes: %w", kind, err)
	}
	return nil
}
