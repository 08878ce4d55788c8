package hibernateplan

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/conditions"
	"github.com/labkeeper/labkeeper/internal/connector"
	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/internal/restore"
	"github.com/labkeeper/labkeeper/internal/runner"
)

// The kinds beside our own.
var (
	planGVK           = v1alpha1.GroupVersion.WithKind("HibernatePlan")
	jobGVK            = batchv1.SchemeGroupVersion.WithKind("Job")
	namespaceGVK      = corev1.SchemeGroupVersion.WithKind("Namespace")
	revisionGVK       = appsv1.SchemeGroupVersion.WithKind("ControllerRevision")
	configMapGVK      = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	secretGVK         = corev1.SchemeGroupVersion.WithKind("Secret")
	accountGVK        = corev1.SchemeGroupVersion.WithKind("ServiceAccount")
	roleGVK           = rbacv1.SchemeGroupVersion.WithKind("Role")
	bindingGVK        = rbacv1.SchemeGroupVersion.WithKind("RoleBinding")
	clusterBindingGVK = rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding")
)

// What the objects of a plan are known by, beside what the API says.
const (
	labelRestorePoint = "hibernator.ardikabs.com/restore-point"
	labelExecution    = "hibernator.ardikabs.com/execution"
	// annotationNamespaces of a restore point are those that its target was in when it was put to sleep.
	annotationNamespaces = "hibernator.ardikabs.com/namespaces"
	// annotationPlanUID of a restore point is the plan of the attempt that may write to it.
	annotationPlanUID = "hibernator.ardikabs.com/plan-uid"
	// annotationConnector of a restore point is the version of the connector that the attempt reaches its cluster by; empty where that
	// could not be had.
	annotationConnector = "hibernator.ardikabs.com/connector"
	// keyTarget in the data of a restore point is the target as it was put to sleep.
	keyTarget = "target"
)

// observe reads what the plan decides on.
func (s *scope) observe(ctx context.Context, reads ...func(context.Context) error) error {
	for _, read := range reads {
		if err := read(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *scope) observeExceptions(ctx context.Context) error {
	var list v1alpha1.ScheduleExceptionList
	if err := s.Client.List(ctx, &list, client.InNamespace(s.owner.Namespace), client.MatchingFields{indexPlan: s.owner.Name}); err != nil {
		return fmt.Errorf("listing ScheduleExceptions: %w", err)
	}
	s.seen.Exceptions = exceptionsOf(s.owner.Name, list.Items)
	return nil
}

// exceptionsOf are those of some exceptions that a plan goes by, in their order.
func exceptionsOf(plan string, all []v1alpha1.ScheduleException) []v1alpha1.ScheduleException {
	own := slices.DeleteFunc(slices.Clone(all), func(e v1alpha1.ScheduleException) bool {
		return e.DeletionTimestamp != nil || e.Spec.PlanRef.Name != plan
	})
	slices.SortFunc(own, func(a, b v1alpha1.ScheduleException) int { return cmp.Compare(a.Name, b.Name) })
	return own
}

// revisionOf is a ControllerRevision of a plan: another plan, which was created with a status that names it, does not have it.
type revisionOf struct {
	plan types.UID
	at   types.NamespacedName
}

func (s *scope) own(at types.NamespacedName) revisionOf { return revisionOf{s.owner.UID, at} }

// observeCycle reads the plan as the current cycle began with it.
func (s *scope) observeCycle(ctx context.Context) error {
	cycle := s.owner.Status.CurrentCycle
	if cycle == nil {
		return nil
	}
	at := s.names().in(cycle.PlanRevision)
	if known, ok := s.revisions.Get(s.own(at)); ok {
		s.seen.Cycle = known.(*resolved)
		return nil
	}
	var r resolved
	if found, err := s.revision(ctx, at, &r); err != nil || !found {
		return err
	}
	s.seen.Cycle = &r
	s.revisions.Add(s.own(at), &r) // a ControllerRevision never changes
	return nil
}

// observeAttempts reads what came of the attempts that were recorded.
func (s *scope) observeAttempts(ctx context.Context) error {
	s.seen.Jobs, s.seen.Ending, s.seen.Outcomes = map[string]bool{}, map[string]bool{}, map[string]outcome{}
	s.seen.Held, s.seen.Looked = map[string]bool{}, map[string]bool{}
	s.points = map[string]*corev1.ConfigMap{}
	if !anyOf(s.owner.Status.Executions, running) {
		return nil
	}
	jobs, err := kube.List(ctx, s.Client, jobGVK, client.InNamespace(s.Options.Namespace), marks.Selector(s.owner))
	if err != nil {
		return err
	}
	byName := map[string]*unstructured.Unstructured{}
	for i := range jobs {
		byName[jobs[i].GetName()] = &jobs[i]
		s.seen.Jobs[jobs[i].GetName()], s.seen.Ending[jobs[i].GetName()] = true, toldToEnd(&jobs[i]) != nil
	}
	// Those whose Jobs have ended go first: they make room, and those without a Job may have to wait for pods.
	for _, ended := range []bool{true, false} {
		if ended && s.unended {
			continue
		}
		if err := s.lookAt(ctx, byName, ended); err != nil {
			return err
		}
	}
	s.observeStarts(ctx, byName)
	return nil
}

// startsWithin is how long a runner may take to start before it is looked what keeps it: an image is pulled, a node is added.
const startsWithin = time.Minute

// shownLate is of how many it is looked, and told.
const shownLate = 10

// observeStarts looks what keeps runners that are late from starting, every minute at least: their Jobs do not say. One list
// tells it of the first of them, and keeps nothing from going on where it fails.
func (s *scope) observeStarts(ctx context.Context, jobs map[string]*unstructured.Unstructured) {
	s.seen.Late = nil
	var names []string
	for i := range s.owner.Status.Executions {
		e := &s.owner.Status.Executions[i]
		job := jobs[name(e.JobRef)]
		_, over := s.seen.Outcomes[name(e.JobRef)]
		if over || !running(e) || !yetToStart(job) {
			continue
		}
		// Of the two the later one: the clock of the API server may be behind ours, and we may have been down before we made the Job.
		since := job.GetCreationTimestamp().Time
		if e.StartedAt != nil && e.StartedAt.After(since) {
			since = e.StartedAt.Time
		}
		if left := since.Add(startsWithin).Sub(s.now); left > 0 {
			s.seen.Stops = kube.Sooner(s.seen.Stops, left)
			continue
		}
		if s.seen.Late = append(s.seen.Late, late{target: e.Target}); len(names) < shownLate {
			names = append(names, job.GetName())
		}
	}
	if len(names) == 0 {
		return
	}
	s.seen.Stops = kube.Sooner(s.seen.Stops, startsWithin)
	pods, err := s.podsOf(ctx, names, fromServersCache())
	for i, job := range names {
		s.seen.Late[i].why = unstarted(types.NamespacedName{Namespace: s.Options.Namespace, Name: job}, pods[job])
		switch {
		case trueSince(jobs[job], batchv1.JobSuspended) != nil:
			s.seen.Late[i].why = whySuspended
		case err != nil:
			s.seen.Late[i].why = "its pod cannot be looked at: " + kube.Message(err)
		}
	}
}

// whySuspended is why a Job does not go on that somebody else has stopped.
const whySuspended = "its Job is suspended, and not by the plan; see who does that"

// late is a target whose runner should have started, and what keeps it; empty where that was not looked for.
type late struct{ target, why string }

// yetToStart says whether the runner of a Job, nil for none, has neither started nor been told to end.
func yetToStart(job *unstructured.Unstructured) bool {
	return job != nil && !finished(job) && toldToEnd(job) == nil && !started(job)
}

// started says whether the runner of a Job runs, or has run.
func started(job *unstructured.Unstructured) bool {
	ready, _, _ := unstructured.NestedInt64(job.Object, "status", "ready")
	terminating, _, _ := unstructured.NestedInt64(job.Object, "status", "terminating")
	return ready+terminating > 0
}

// unstarted is what keeps the runner of a Job from starting.
func unstarted(job types.NamespacedName, pods []corev1.Pod) string {
	for _, p := range pods {
		if beside := outlives(p); beside != "" {
			return fmt.Sprintf("its runner has ended, and container %s beside it has not, which somebody has put into its pod; have namespace %s left out by who does", beside, job.Namespace)
		}
		for _, c := range p.Status.ContainerStatuses {
			if w := c.State.Waiting; w != nil && w.Reason != "" && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
				return strings.TrimSuffix(w.Reason+": "+conditions.Line(w.Message), ": ")
			}
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				return strings.TrimSuffix(c.Reason+": "+conditions.Line(c.Message), ": ")
			}
		}
	}
	if len(pods) == 0 {
		return fmt.Sprintf("it has no pod; see kubectl -n %s describe job %s", job.Namespace, job.Name)
	}
	return fmt.Sprintf("its container is not made; see kubectl -n %s describe pod %s", job.Namespace, pods[0].Name)
}

// outlives is the container of a pod that goes on when its runner has ended; empty for none.
func outlives(p corev1.Pod) (beside string) {
	ended := false
	for _, c := range p.Status.ContainerStatuses {
		switch {
		case c.Name == containerName:
			ended = c.State.Terminated != nil
		case c.State.Running != nil:
			beside = c.Name
		}
	}
	if !ended {
		return ""
	}
	return beside
}

// round is where passes over a plan are among its attempts without a Job, of which each looks at some: with the first of them it may fail
// for long.
type round struct {
	// next is the position of the target that comes next.
	next int
	// looked is at how many passes that have failed have looked, of so many that there were when the first of them did.
	looked, of int
}

// goOn has a pass go on behind the attempts that the ones before have looked at.
func (s *scope) goOn(all []*sight) []*sight {
	if s.round.looked == 0 {
		s.round.of = len(all)
	}
	at := max(0, slices.IndexFunc(all, func(seen *sight) bool { return seen.position >= s.round.next }))
	return slices.Concat(all[at:], all[:at])
}

// goesOn keeps in mind where a pass was that has looked at attempts without a Job, and says whether others of them have not had their turn.
// Where it has not failed, or has recorded more of them, a round begins anew.
func (s *scope) goesOn(err error) bool {
	if !s.advanced {
		return false
	}
	more := s.round.looked < s.round.of
	if err == nil || len(s.plan.Began) > 0 {
		s.round.looked = 0
	}
	s.rounds.Add(s.owner.UID, s.round)
	return more
}

// lookAt looks at the attempts whose Jobs have ended, or at those that have none.
func (s *scope) lookAt(ctx context.Context, jobs map[string]*unstructured.Unstructured, ended bool) error {
	var all []*sight
	for i := range s.owner.Status.Executions {
		e := &s.owner.Status.Executions[i]
		job := jobs[name(e.JobRef)]
		if running(e) && (job != nil) == ended && (job == nil || finished(job) || s.lost(job)) {
			all = append(all, &sight{execution: e, position: i, attempt: name(e.JobRef), job: job})
		}
	}
	if !ended {
		all = s.goOn(all)
	}
	for len(all) > 0 {
		room := perPass - (len(s.seen.Looked) - len(s.seen.Held)) // those that wait for pods keep nobody from going on
		if room <= 0 {
			s.more = true
			return nil
		}
		now := all[:min(room, len(all))]
		if all = all[len(now):]; !ended {
			s.round.next, s.round.looked, s.advanced = now[len(now)-1].position+1, s.round.looked+len(now), true
		}
		errs := inParallel(ctx, s, now, func(seen *sight) error { return s.observeAttempt(ctx, seen) })
		for i, seen := range now {
			var taken *kube.NameTakenError
			if errors.As(errs[i], &taken) {
				seen.outcome, errs[i] = &outcome{message: errs[i].Error(), unmade: seen.point == nil, checksum: left(seen.execution, seen.point)}, nil // and the others go on
			}
			s.sees(seen)
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}

// sight is what is seen of an attempt.
type sight struct {
	*execution
	// position of its target in the ledger.
	position int
	// attempt is its name, job what the cache has of its Job; nil if that has none.
	attempt string
	job     *unstructured.Unstructured
	// point is the restore point; nil if there is none.
	point *corev1.ConfigMap
	// made: its Job is there, and held: it is not, and a pod of it is.
	made, held bool
	// stops is when what is there has had its time; 0 is never.
	stops time.Duration
	// outcome of it; nil if it has none yet.
	outcome *outcome
}

func (s *scope) sees(seen *sight) {
	s.seen.Looked[seen.attempt], s.points[seen.Target] = true, seen.point
	if seen.made {
		s.seen.Jobs[seen.attempt] = true
	}
	if seen.held {
		s.seen.Held[seen.attempt] = true
	}
	s.seen.Stops = kube.Sooner(s.seen.Stops, seen.stops)
	if seen.outcome != nil {
		s.seen.Outcomes[seen.attempt] = *seen.outcome
	}
}

// finished says whether a Job has come to its end.
func finished(job *unstructured.Unstructured) bool { return jobCondition(job) != nil }

// jobCondition is the one that ended a Job; nil before.
func jobCondition(job *unstructured.Unstructured) map[string]any {
	return condition(job, "Complete", "Failed")
}

// condition is the first of a Job that is true, of some types; nil for none.
func condition(job *unstructured.Unstructured, types ...any) map[string]any {
	all, _, _ := unstructured.NestedSlice(job.Object, "status", "conditions")
	for _, c := range all {
		if c, ok := c.(map[string]any); ok && c["status"] == "True" && slices.Contains(types, c["type"]) {
			return c
		}
	}
	return nil
}

// lostAfter is how long beside its deadline a runner that was told to stop is waited for, where nothing says that it has.
const lostAfter = time.Minute

// lost says whether a Job was told to end so long ago that its runner has given up by its own deadline, wherever it is.
// Its pod is on a node that does not answer: the Job does not end as long as the pod is there, and the pod stays until
// somebody takes the node away. Nor does one that somebody else has suspended, whose pods are deleted, and whose own deadline does not
// run. What the runner was granted goes with the attempt.
func (s *scope) lost(job *unstructured.Unstructured) bool {
	return s.given(stoppedSince(job), cmp.Or(jobDeadline(job), s.longest()), &s.seen.Stops)
}

// jobDeadline is how long a Job may run; 0 where it does not say.
func jobDeadline(job *unstructured.Unstructured) time.Duration {
	own, _, _ := unstructured.NestedInt64(job.Object, pathDeadline...)
	return time.Duration(min(max(own, 0), math.MaxInt64/int64(time.Second))) * time.Second
}

// podDeadline is how long the Job of a pod may run, by what its runner was told; 0 where that does not say.
func podDeadline(p corev1.Pod) time.Duration {
	for _, c := range p.Spec.Containers {
		for _, arg := range c.Args {
			told, is := strings.CutPrefix(arg, "--deadline=")
			if own, err := time.ParseDuration(told); is && err == nil {
				return min(own, math.MaxInt64-grace) + grace
			}
		}
	}
	return 0
}

// pathDeadline is where a Job says how long it may run.
var pathDeadline = []string{"spec", "activeDeadlineSeconds"}

// longest is how long a Job of the plan may run of which that is not known any more. One that was made before the plan
// was edited, or created again, may run longer, and says so.
func (s *scope) longest() time.Duration {
	return max(activeDeadline(s.owner.Spec.Runner), defaultActiveDeadline)
}

// stoppedSince is since when a Job has its pods end, for good or until somebody lets it go on; nil if it does not.
func stoppedSince(job *unstructured.Unstructured) *metav1.Time {
	if since := toldToEnd(job); since != nil {
		return since
	}
	return trueSince(job, batchv1.JobSuspended)
}

// toldToEnd is since when a Job is to end; nil if it is not.
func toldToEnd(job *unstructured.Unstructured) *metav1.Time {
	deleted, told := job.GetDeletionTimestamp(), trueSince(job, batchv1.JobFailureTarget)
	if deleted == nil || told != nil && told.Before(deleted) {
		return told
	}
	return deleted
}

// trueSince is since when a condition of a Job is true; nil if it is not.
func trueSince(job *unstructured.Unstructured, of batchv1.JobConditionType) *metav1.Time {
	at, _ := condition(job, string(of))["lastTransitionTime"].(string)
	parsed, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return nil
	}
	return &metav1.Time{Time: parsed}
}

// given says whether a runner that was told to stop at some time has had all the time that it may take, and else has
// the plan looked at when it has.
func (s *scope) given(since *metav1.Time, deadline time.Duration, stops *time.Duration) bool {
	if since == nil {
		return false
	}
	left := since.Add(deadline).Add(lostAfter).Sub(s.now) // one by one: they may not fit into a Duration
	if left > 0 {
		*stops = kube.Sooner(*stops, left)
	}
	return left <= 0
}

// unseenAgain is when to look again at a Job that is there, and that the cache does not have yet. It may never have it: one
// that somebody deletes while a watch is late, or begins anew, wakes nobody, as if it had never been.
const unseenAgain = time.Second

// observeAttempt reads what came of one attempt, whose Job has finished or is not there: it was not made yet, or
// somebody has deleted it. What its runner has said counts in any case.
func (s *scope) observeAttempt(ctx context.Context, seen *sight) error {
	point, err := s.point(ctx, seen.Target)
	if err != nil {
		return err
	}
	seen.point = point
	if point == nil && seen.job == nil {
		made, err := s.mayHaveMade(ctx, seen)
		seen.outcome = pointless(seen.execution, made)
		return err
	}
	said := result(point, seen.attempt)
	if seen.job == nil && said == nil {
		if point.Annotations[runner.AnnotationExecution] != seen.attempt { // its Job was not made yet
			seen.held, err = s.formerActs(ctx, seen)
			return err
		}
		if said, err = s.unseen(ctx, seen); err != nil || seen.made {
			return err
		}
	}
	if seen.job == nil && said == nil {
		return s.deserted(ctx, seen)
	}
	return s.conclude(ctx, seen, said)
}

// deserted sees whether the Job of an attempt that somebody has deleted is to be made again, when its pods have ended. It is not while one
// is there that may yet start: that could act beside another of the same attempt, as the restore point tells attempts apart. By the end
// of this one it has nothing left to act by.
func (s *scope) deserted(ctx context.Context, seen *sight) error {
	pods, err := s.pods(ctx, seen.attempt)
	seen.held = s.anyActs(seen, pods)
	if i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return neverStarted(p) != nil }); i >= 0 && !seen.held {
		seen.outcome = &outcome{checksum: left(seen.execution, seen.point), message: fmt.Sprintf(
			"Its Job is gone, and pod %s/%s of it, which has stayed, has not started: %s; delete it", pods[i].Namespace, pods[i].Name, unstarted(s.names().in(seen.attempt), pods[i:i+1]))}
	}
	return err
}

// unseen looks for the Job of an attempt that the cache may not have, because it has just been made, and returns what its runner
// has said by now; nil if nothing. It was asked before, and may have said it meanwhile, and ended its Job: what it says, it says
// before that.
func (s *scope) unseen(ctx context.Context, seen *sight) (*runner.Result, error) {
	var err error
	if seen.job, err = kube.Get(ctx, s.Live, jobGVK, s.names().in(seen.attempt)); err != nil {
		return nil, err
	}
	if seen.job != nil && !marks.Owns(s.owner, seen.job) {
		return nil, &kube.NameTakenError{Object: kube.Describe(seen.job)}
	}
	if seen.made = seen.job != nil && !finished(seen.job); seen.made {
		seen.stops = unseenAgain
		return nil, nil //nolint:nilnil // it has said nothing yet
	}
	seen.point, err = s.point(ctx, seen.Target)
	return result(seen.point, seen.attempt), err
}

// acts says whether a pod of a Job may still act.
func (s *scope) acts(ctx context.Context, seen *sight, job string) (bool, error) {
	pods, err := s.pods(ctx, job)
	return s.anyActs(seen, pods), err
}

// anyActs says whether one of some pods may still act. One that waits to start, and that nobody has told to end, is waited for as a Job
// would.
func (s *scope) anyActs(seen *sight, pods []corev1.Pod) bool {
	return slices.ContainsFunc(pods, func(p corev1.Pod) bool {
		return alive(p) && !s.given(cmp.Or(p.DeletionTimestamp, neverStarted(p)), max(s.longest(), podDeadline(p)), &seen.stops)
	})
}

// neverStarted is since when a pod that nobody has told to end waits to start, as one that was left when its Job was deleted; nil of others.
func neverStarted(p corev1.Pod) *metav1.Time {
	if p.Status.Phase != corev1.PodPending || p.DeletionTimestamp != nil {
		return nil
	}
	return &p.CreationTimestamp
}

// formerActs says whether a runner may still act that a plan of the same name has left: it was given up, or somebody has taken
// its finalizer off. What a runner has sent when it loses its restore point may come after another has looked. Of its own
// attempts a plan knows that they have ended.
func (s *scope) formerActs(ctx context.Context, seen *sight) (bool, error) {
	former := seen.point.Annotations[runner.AnnotationExecution]
	if former == "" || s.slept(seen.point) {
		return false, nil
	}
	job, err := kube.Get(ctx, s.Live, jobGVK, s.names().in(former))
	if err != nil {
		return false, err
	}
	if job != nil && !finished(job) && !s.given(stoppedSince(job), max(s.longest(), jobDeadline(job)), &seen.stops) {
		return true, nil // a pod of it may be about to begin
	}
	return s.acts(ctx, seen, former)
}

// conclude takes in how an attempt has ended, of which its runner has said so, or has not.
func (s *scope) conclude(ctx context.Context, seen *sight, said *runner.Result) error {
	// The server's cache answers at once. Only where it may be behind it is asked to wait until it is not.
	pods, err := s.pods(ctx, seen.attempt, fromServersCache())
	if err == nil && (len(pods) == 0 || alive(pods[0]) || said == nil && lastWords(pods, seen.attempt) == nil) {
		pods, err = s.pods(ctx, seen.attempt)
	}
	if err != nil {
		return err
	}
	o := outcome{logsRef: s.collect(ctx, seen.execution, pods)}
	if said != nil { // in one write with its last one of the point
		o.checksum = checksum(seen.point)
	} else {
		said = lastWords(pods, seen.attempt)
	}
	if said != nil {
		o.completed, o.message, o.resources, o.done = said.Completed, said.Message, said.Resources, said.Done
		o.interrupted = said.Reason == runner.ReasonInterrupted
		o.left, o.leftCount = said.Left, max(said.LeftCount, len(said.Left))
	} else {
		o.message = "Its runner has ended without a result: " + why(seen.job, pods)
	}
	if refused := s.refused(seen.Namespaces, seen.attempt); refused != "" && !o.completed {
		o.message = both(refused, o.message)
	}
	seen.outcome = &o
	return nil
}

// neverAsleep is what comes of waking a target of which nothing was put to sleep.
var neverAsleep = outcome{completed: true, message: "Nothing of it was put to sleep"}

// pointless is what came of an attempt at a target without a restore point: it is lost, or was never made, and neither
// was the Job; nil if it is yet to be made. made says that it may have been, which the ledger does not know in the first minute: what
// sleeps by then would be captured.
func pointless(e *execution, made bool) *outcome {
	switch {
	case e.Kept || made:
		return &outcome{checksum: e.RestoreChecksum, message: "Its restore point, ConfigMap " + e.RestoreConfigMapRef + ", is gone; put it back from a backup, and annotate the plan with " + v1alpha1.AnnotationRetryNow}
	case e.Operation == v1alpha1.OperationWakeUp:
		return new(neverAsleep)
	}
	return nil
}

// mayHaveMade says whether the Job of an attempt may have been made, of which the ledger does not know it: by this manager, or by one
// before it. A Job comes after all that its runner is granted, some of which stays whatever becomes of the manager's namespace.
func (s *scope) mayHaveMade(ctx context.Context, seen *sight) (bool, error) {
	at := s.names().in(seen.attempt)
	if _, made := s.made.Get(made{s.owner.UID, helper{jobGVK, at}}); made || seen.Kept {
		return true, nil
	}
	if _, untouched := s.recorded.Get(at); untouched {
		return false, nil
	}
	granted := []helper{{bindingGVK, at}}
	for _, namespace := range seen.Namespaces {
		granted = append(granted, helper{bindingGVK, bindingOf(namespace, seen.attempt)})
	}
	if len(seen.Namespaces) == 0 && seen.ConnectorSecretRef == "" {
		granted = append(granted, helper{clusterBindingGVK, types.NamespacedName{Name: seen.attempt}})
	}
	for _, h := range granted {
		if found, err := kube.Get(ctx, s.Live, h.gvk, h.key); err != nil || found != nil && marks.Owns(s.owner, found) {
			return err == nil, err
		}
	}
	return false, nil
}

// point reads the restore point of a target; nil if there is none.
func (s *scope) point(ctx context.Context, target string) (*corev1.ConfigMap, error) {
	point := &corev1.ConfigMap{}
	if there, err := s.kept(ctx, "ConfigMap", target, point); !there {
		return nil, err
	}
	return point, nil
}

// kept reads what is kept of a target that sleeps, of some kind: all of it has one name, and says whose it is.
func (s *scope) kept(ctx context.Context, kind, target string, into client.Object) (there bool, err error) {
	at := s.names().point(target)
	switch err := s.Live.Get(ctx, at, into); {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading %s %s: %w", kind, at, err)
	case into.GetAnnotations()[v1alpha1.AnnotationOwner] != client.ObjectKeyFromObject(s.owner).String():
		return false, &kube.NameTakenError{Object: kind + " " + at.String()}
	}
	return true, nil
}

// checksum of what a restore point says; empty if it says nothing.
func checksum(point *corev1.ConfigMap) string {
	if point == nil || len(point.BinaryData[runner.KeyPoint]) == 0 {
		return ""
	}
	sum := sha256.Sum256(point.BinaryData[runner.KeyPoint])
	return hex.EncodeToString(sum[:8])
}

// left is the checksum of what the attempt before has left; empty where the runner of this one may have written since.
func left(e *execution, point *corev1.ConfigMap) string {
	if point != nil && point.Annotations[runner.AnnotationExecution] == name(e.JobRef) {
		return ""
	}
	return e.RestoreChecksum
}

// result is what a runner has written of an attempt; nil if it has not.
func result(point *corev1.ConfigMap, attempt string) *runner.Result {
	if point == nil {
		return nil
	}
	return parse(point.Data[runner.KeyResult], attempt)
}

// maxResult is more than a runner writes, in bytes.
const maxResult = 16 << 10

func parse(text, attempt string) *runner.Result {
	var r runner.Result
	if text == "" || len(text) > maxResult || json.Unmarshal([]byte(text), &r) != nil || r.Execution != attempt {
		return nil
	}
	return &r
}

// fromServersCache lists what the API server has in its cache, which may be behind by a moment.
func fromServersCache() client.ListOption { // a new one each time: the client writes into it
	return &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}
}

// pods are those of a Job, the newest first, when an attempt has ended.
func (s *scope) pods(ctx context.Context, job string, opts ...client.ListOption) ([]corev1.Pod, error) {
	all, err := s.podsOf(ctx, []string{job}, opts...)
	return all[job], err
}

// podsOf are the pods of some Jobs, by their names, the newest first. They are read from the server.
func (s *scope) podsOf(ctx context.Context, jobs []string, opts ...client.ListOption) (map[string][]corev1.Pod, error) {
	those, err := labels.NewRequirement(batchv1.JobNameLabel, selection.In, jobs)
	if err != nil {
		return nil, fmt.Errorf("selecting pods of Jobs: %w", err)
	}
	var list corev1.PodList
	opts = append(opts, client.InNamespace(s.Options.Namespace), client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*those)})
	if err := s.Live.List(ctx, &list, opts...); err != nil {
		return nil, fmt.Errorf("listing pods of Jobs %s: %w", strings.Join(jobs, ", "), err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	pods := map[string][]corev1.Pod{}
	for _, p := range list.Items {
		job := p.Labels[batchv1.JobNameLabel]
		pods[job] = append(pods[job], p)
	}
	return pods, nil
}

func alive(p corev1.Pod) bool {
	return p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

// lastWords is what the termination message of a pod says, where a report was lost.
func lastWords(pods []corev1.Pod, attempt string) *runner.Result {
	for _, p := range pods {
		for _, c := range p.Status.ContainerStatuses {
			if t := c.State.Terminated; t != nil {
				if r := parse(t.Message, attempt); r != nil {
					return r
				}
			}
		}
	}
	return nil
}

// why a Job has ended that says nothing itself.
func why(job *unstructured.Unstructured, pods []corev1.Pod) string {
	for _, p := range pods {
		for _, c := range p.Status.ContainerStatuses {
			if t := c.State.Terminated; t != nil {
				return fmt.Sprintf("container %s, exit code %d", cmp.Or(t.Reason, "Error"), t.ExitCode)
			}
		}
		if p.Status.Reason != "" {
			return "pod " + p.Status.Reason
		}
	}
	if job == nil {
		return "its Job is gone"
	}
	c := jobCondition(job)
	if c == nil && trueSince(job, batchv1.JobSuspended) != nil {
		return whySuspended
	}
	if c == nil && len(pods) > 0 {
		return fmt.Sprintf("pod %s does not end on node %s, which must be lost", pods[0].Name, pods[0].Spec.NodeName)
	}
	reason, _ := c["reason"].(string)
	return "Job " + cmp.Or(reason, "Failed")
}

// lonelyFor is how long it is believed that nothing was left.
const lonelyFor = 6 * time.Hour

// observeLeft looks for what a plan of this name has left asleep, between cycles: the first one of this plan has taken in what says of
// which target it is, and nothing else.
func (s *scope) observeLeft(ctx context.Context) error {
	if at, known := s.lonely.Get(s.owner.UID); known && s.now.Sub(at.(time.Time)) < lonelyFor || s.owner.Status.CurrentCycle != nil {
		return nil
	}
	points, err := s.restorePoints(ctx)
	if err != nil {
		return err
	}
	s.seen.Left, s.seen.LeftIn = map[string]v1alpha1.Target{}, map[string][]string{}
	for _, point := range points {
		if s.slept(&point) && cycled(s.owner) {
			continue // it was released, and a backup has brought it back
		}
		var t v1alpha1.Target
		if err := json.Unmarshal([]byte(point.Data[keyTarget]), &t); err != nil || t.Name == "" {
			s.seen.Unread = append(s.seen.Unread, point.Namespace+"/"+point.Name)
			continue
		}
		s.seen.Left[t.Name] = t
		if err := s.observeLeftIn(ctx, t, &point); err != nil {
			return err
		}
	}
	if !s.seen.leftAny() {
		s.lonely.Add(s.owner.UID, s.now) // somebody may still put them back from a backup
	}
	return nil
}

// cycled says whether a plan that is between cycles has had one. One that had its last one before it was created has its status from a
// backup, and that is another plan's.
func cycled(plan *v1alpha1.HibernatePlan) bool {
	st := &plan.Status
	const slack = 5 * time.Minute // between the clock of the manager and that of the API server
	former := len(st.History) > 0 && st.History[0].StartedAt.Add(slack).Before(plan.CreationTimestamp.Time)
	return st.Cycles > 0 && !former
}

// restorePoints are those of the plan, or of another of its name.
func (s *scope) restorePoints(ctx context.Context) ([]corev1.ConfigMap, error) {
	var list corev1.ConfigMapList
	key := client.ObjectKeyFromObject(s.owner)
	if err := s.Live.List(ctx, &list, client.InNamespace(s.Options.Namespace), client.MatchingLabels{labelRestorePoint: keyLabel(key)}); err != nil {
		return nil, fmt.Errorf("listing restore points: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(c corev1.ConfigMap) bool { return c.Annotations[v1alpha1.AnnotationOwner] != key.String() }), nil
}

// observeLeftIn sees whether a target that was left asleep in the manager's own cluster may be woken where its restore point says that
// it was. Runners write restore points, so that they are believed in what this plan may do anyway.
func (s *scope) observeLeftIn(ctx context.Context, t v1alpha1.Target, point *corev1.ConfigMap) error {
	if t.ConnectorRef != nil && !sleepsInOwn(point) {
		return nil // they are another cluster's
	}
	namespaces := split(point.Annotations[annotationNamespaces])
	s.seen.LeftIn[t.Name] = namespaces
	for _, name := range namespaces {
		namespace, err := s.namespace(ctx, s.Live, name)
		if err != nil {
			return err
		}
		if namespace == nil {
			continue // it is told of when it is woken
		}
		if why := s.withheld(name, namespace.Annotations); why != "" && s.seen.Problem == nil {
			s.seen.Problem = &problem{reason: v1alpha1.ReasonNotGranted, message: "Target " + t.Name + ", which was left asleep: " + why}
		}
	}
	return nil
}

// sleepsInOwn says whether a target sleeps in the manager's own cluster, whatever its connector reaches by now, and whether that can be
// told.
func sleepsInOwn(point *corev1.ConfigMap) bool {
	kept, err := restore.Decode(point.BinaryData[runner.KeyPoint])
	return err == nil && kept.Cluster == restore.OwnCluster
}

// observeReach sees whether the targets of the spec can be reached: connectors, and namespaces of others.
func (s *scope) observeReach(ctx context.Context) error {
	s.seen.Credentials, s.seen.Namespaces, s.seen.Unreached, s.seen.Renewed = map[string]bool{}, map[string][]string{}, map[string]bool{}, map[string]bool{}
	if s.Options.Image == "" {
		s.seen.Problem = &problem{reason: v1alpha1.ReasonNoRunnerImage, message: "The manager does not know the image of its Jobs; start it with --runner-image"}
	}
	targets := s.owner.Spec.Targets
	switch {
	case s.seen.Cycle != nil:
		targets = s.seen.Cycle.Targets
	case len(s.seen.Left) > 0:
		targets = adopt(current(s.owner, s.seen.Left), s.seen.Left).Targets
	}
	s.reachable = map[v1alpha1.ConnectorRef]reached{}
	defer func() { s.reachable = nil }()
	over, entries, doubted := s.takenOutAndAwake(), s.entries(), []doubt(nil)
	for _, t := range targets {
		found, err := s.reach(ctx, t, s.sleepsIn(t.Name, entries))
		if err != nil { // which keeps anything else from beginning, and nothing from going on that has begun
			found.problem = &problem{reason: kube.ReasonReconcileError, message: err.Error()}
			s.seen.Unreached[t.Name] = true
		}
		s.seen.Credentials[t.Name], s.seen.Namespaces[t.Name] = found.credentials, found.namespaces
		doubted = append(doubted, s.observeFailed(entries[t.Name], t, found)...)
		why := found.problem
		if over[t.Name] {
			continue // whatever has become of where it was
		}
		s.seen.Unwatched = s.seen.Unwatched || why != nil && s.unwatched(t)
		if _, left := s.seen.Left[t.Name]; why == nil && (!left || found.needs.Cluster) { // one in namespaces wakes where it sleeps (observeLeftIn)
			why = cmp.Or(found.withheld, found.missing)
		}
		if why != nil && s.seen.Problem == nil {
			s.seen.Problem = &problem{reason: why.reason, message: "Target " + t.Name + ": " + why.message, ofTarget: true}
		}
	}
	s.observeRenewed(ctx, doubted)
	return nil
}

// unwatched says whether the connector of a target is in a namespace that is not watched.
func (s *scope) unwatched(t v1alpha1.Target) bool {
	watched := s.Options.WatchNamespaces
	return t.ConnectorRef != nil && len(watched) > 0 && !slices.Contains(watched, cmp.Or(t.ConnectorRef.Namespace, s.owner.Namespace))
}

// takenOutAndAwake are the targets of the cycle that are not in the plan any more, and with which it is done.
func (s *scope) takenOutAndAwake() map[string]bool {
	over := map[string]bool{}
	for i := range s.owner.Status.Executions {
		if e := &s.owner.Status.Executions[i]; s.seen.Cycle != nil && !e.Asleep && !busy(e) {
			over[e.Target] = true
		}
	}
	for i := range s.owner.Spec.Targets {
		delete(over, s.owner.Spec.Targets[i].Name)
	}
	return over
}

// sleepsIn are the namespaces that a target may sleep in already: those of this cycle, or that it was left asleep in.
func (s *scope) sleepsIn(target string, entries map[string]*execution) []string {
	e := entries[target]
	switch {
	case s.owner.Status.CurrentCycle == nil:
		return s.seen.LeftIn[target]
	case e == nil:
		return nil
	}
	return e.Namespaces
}

// entries are those of the ledger by their targets.
func (s *scope) entries() map[string]*execution {
	out := make(map[string]*execution, len(s.owner.Status.Executions))
	for i := range s.owner.Status.Executions {
		e := &s.owner.Status.Executions[i]
		out[e.Target] = e
	}
	return out
}

// reached is how a target is reached.
type reached struct {
	// problem is why it cannot be, and withheld why nothing of it may be put to sleep; missing is a namespace that there is
	// not. Nil is none.
	problem, withheld, missing *problem
	// credentials of a connector reach it, and not the ServiceAccount of the runner.
	credentials bool
	// ready is since when the connector is.
	ready time.Time
	// needs of the runner, and the namespaces that they come to.
	needs      executor.Needs
	namespaces []string
}

// reach sees how a target is reached that may sleep in some namespaces already.
func (s *scope) reach(ctx context.Context, t v1alpha1.Target, asleep []string) (reached, error) {
	parameters, err := s.Options.Executors.Parse(t.Type, raw(t))
	if err != nil {
		return reached{}, nil //nolint:nilerr // the plan refuses it
	}
	out, bereft := reached{needs: parameters.Needs()}, false
	if t.ConnectorRef != nil {
		found, err := s.reachConnector(ctx, t)
		out.problem, out.credentials, out.ready = found.problem, found.credentials, found.ready
		if out.problem != nil {
			var lookErr error
			bereft, lookErr = s.bereft(ctx, t, out.problem.reason)
			if bereft { // its attempts say what there is not
				out.problem = nil
				var own bool
				own, lookErr = s.sleepsHere(ctx, t, out.needs)
				out.credentials = !own
			}
			err = errors.Join(err, lookErr)
		}
		if err != nil || out.problem != nil || out.credentials {
			out.namespaces = out.needs.Namespaces // the runner finds those that are selected by their labels
			return out, err
		}
	}
	if out.needs.Cluster && !slices.Contains(s.Options.ClusterNamespaces, s.owner.Namespace) {
		out.withheld = &problem{reason: v1alpha1.ReasonNotGranted, message: fmt.Sprintf("type %s acts on the whole cluster, which plans of namespace %s may not; --hibernate-cluster-from lists those that may", t.Type, s.owner.Namespace)}
		if bereft { // of which it is not certain that this is the cluster that it sleeps in
			out.problem = out.withheld
		}
	}
	err = s.reachNamespaces(ctx, &out)
	out.bound(asleep)
	return out, err
}

// maxNamespaces is how long the names of the namespaces of a target may be together, as JSON: its entry of the ledger has them, and must fit
// into a shard with all else that it may ever say, and its restore point has them in an annotation, which may be as long.
const maxNamespaces = maxShard - 16<<10

// bound refuses a target in more namespaces than its entry of the ledger can tell of, beside those that it may sleep in already.
func (r *reached) bound(asleep []string) {
	all := r.namespaces
	if len(asleep) > 0 {
		all = merged(asleep, all)
	}
	length := 0
	for _, name := range all {
		length += len(name) + len(`"",`)
	}
	if length <= maxNamespaces {
		return
	}
	r.namespaces = nil
	r.withheld = cmp.Or(r.withheld, &problem{reason: v1alpha1.ReasonTooManyNamespaces, message: fmt.Sprintf(
		"it is in %d namespaces, and the ledger has no room for their names (%d bytes, of at most %d); make several targets, each in some of them", len(all), length, maxNamespaces)})
}

// sleepsHere says whether a target whose connector is gone was put to sleep in the manager's own cluster, by the rights of its
// runner alone: the ledger has namespaces of that cluster only, and credentials are kept of others.
func (s *scope) sleepsHere(ctx context.Context, t v1alpha1.Target, needs executor.Needs) (bool, error) {
	for i := range s.owner.Status.Executions {
		if e := &s.owner.Status.Executions[i]; e.Target == t.Name && len(e.Namespaces) > 0 {
			return true, nil
		}
	}
	if !needs.Cluster {
		return false, nil
	}
	kept, err := s.credentials(ctx, t.Name)
	return kept == nil && err == nil, err
}

// reachNamespaces finds the namespaces of a target in the manager's own cluster: those that it names, which must all agree, and of those
// that it chooses those that do. What is in one that is being deleted goes with it.
func (s *scope) reachNamespaces(ctx context.Context, out *reached) error {
	named, err := s.named(ctx, out)
	if err != nil {
		return err
	}
	chosen, err := s.chosen(ctx, out.needs.Selector)
	if err != nil {
		return err
	}
	out.namespaces = merged(named, chosen)
	return nil
}

// named finds the namespaces that a target names. The first that refuses is told, whether there is one of that name or not: who wrote
// it may not know.
func (s *scope) named(ctx context.Context, out *reached) (found []string, err error) {
	var missing, withheld []string
	for _, name := range out.needs.Namespaces {
		switch namespace, err := s.namespace(ctx, s.Client, name); {
		case err != nil:
			return nil, err
		case namespace == nil:
			missing = append(missing, name)
		case s.withheld(name, namespace.Annotations) != "": // who has never let anything sleep lets no runner act to wake it either
			withheld = append(withheld, name)
		case namespace.DeletionTimestamp == nil:
			found = append(found, name)
		}
	}
	if len(missing)+len(withheld) == 0 {
		return found, nil
	}
	name := slices.Min(slices.Concat(missing, withheld))
	why := &problem{reason: v1alpha1.ReasonNotGranted, message: cmp.Or(s.withheld(name, nil), "namespace "+name+" does not exist")}
	if len(missing) > 0 {
		out.missing = why
	}
	if len(withheld) > 0 {
		out.withheld = why
	}
	return found, nil
}

// chosen finds, of the namespaces that have the labels which a target asks for, those that let it. That there are others is neither told nor
// seen by what comes of it: who wrote the labels, a name among them, may not see what namespaces there are.
func (s *scope) chosen(ctx context.Context, labels *metav1.LabelSelector) (found []string, err error) {
	if labels == nil {
		return nil, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(labels)
	if err != nil {
		return nil, fmt.Errorf("reading the selector of namespaces: %w", err)
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(namespaceGVK.GroupVersion().WithKind("NamespaceList"))
	if err := s.Client.List(ctx, list, client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, fmt.Errorf("listing namespaces: %w", err)
	}
	for _, n := range list.Items {
		if n.DeletionTimestamp == nil && s.withheld(n.Name, n.Annotations) == "" {
			found = append(found, n.Name)
		}
	}
	return found, nil
}

// namespace is what is known of one; nil if there is none.
func (s *scope) namespace(ctx context.Context, from client.Reader, name string) (*metav1.PartialObjectMetadata, error) {
	namespace := kube.Metadata(namespaceGVK)
	if err := from.Get(ctx, types.NamespacedName{Name: name}, namespace); apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // which is no error
	} else if err != nil {
		return nil, fmt.Errorf("reading Namespace %s: %w", name, err)
	}
	return namespace, nil
}

// withheld is why the plan may not act in a namespace; empty if it may.
func (s *scope) withheld(name string, annotations map[string]string) string {
	switch {
	case name == cmp.Or(s.Options.Own, s.Options.Namespace):
		return fmt.Sprintf("namespace %s is the manager's own: what wakes the targets must not sleep", name)
	case name == s.Options.Namespace:
		return fmt.Sprintf("namespace %s is that of the runners and restore points of plans: what wakes the targets must not sleep", name)
	case name != s.owner.Namespace && !connector.Allows(&metav1.ObjectMeta{Annotations: annotations}, s.owner.Namespace):
		return fmt.Sprintf("namespace %s does not let plans of namespace %s act in it, or does not exist; annotate it with %s=%s", name, s.owner.Namespace, v1alpha1.AnnotationAllowedNamespaces, s.owner.Namespace)
	}
	return ""
}

// reachConnector sees whether a connector can be used.
func (s *scope) reachConnector(ctx context.Context, t v1alpha1.Target) (reached, error) {
	if known, ok := s.reachable[*t.ConnectorRef]; ok {
		return known, nil
	}
	cluster, err := connector.Ready(ctx, s.connectors(), s.owner.Namespace, *t.ConnectorRef)
	var found reached
	var refused *connector.Error
	switch {
	case errors.As(err, &refused):
		found = reached{problem: &problem{reason: refused.Reason, message: refused.Message}, credentials: true}
	case err != nil:
		return reached{}, err
	default:
		found = reached{credentials: cluster.Spec.K8S.KubeconfigRef != nil}
		if ready := find(cluster.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
			found.ready = ready.LastTransitionTime.Time
		}
	}
	if s.reachable != nil {
		s.reachable[*t.ConnectorRef] = found
	}
	return found, nil
}

// connectors are read from the cache, which does not have those of namespaces that are not watched.
func (s *scope) connectors() client.Reader {
	if len(s.Options.WatchNamespaces) > 0 {
		return s.Live
	}
	return s.Client
}
