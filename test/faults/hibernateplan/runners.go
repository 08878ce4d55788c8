package hibernateplan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/dispatch"
	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/restore"
	"github.com/labkeeper/labkeeper/internal/runner"
	"github.com/labkeeper/labkeeper/test/faults"
	"github.com/labkeeper/labkeeper/test/runners"
)

// What a thing says of itself.
const (
	keyState, stateAwake, stateAsleep = "state", "awake", "asleep"
	// keyValue is what is lost while it sleeps.
	keyValue = "value"
	// keyStops and keyWakes are how often somebody has acted on it.
	keyStops, keyWakes = "stops", "wakes"
	// annotationLost is the task of a runner that nobody hears of any more.
	annotationLost = "lost"
)

// play is the Job controller and the pods: the first Job in the ledger that has not ended comes to its end, when the
// plan has told of all that happened before, and one whose plan is gone at once.
func play(ctx context.Context, stage *faults.Stage, state faults.State) error {
	plans := state.Of("HibernatePlan")
	for _, u := range plans {
		if err := playFor(ctx, stage, u, ownedAs(u, state)); err != nil {
			return err
		}
	}
	for _, job := range state.Of("Job") {
		of := func(u *unstructured.Unstructured) bool {
			return string(u.GetUID()) == job.GetLabels()[v1alpha1.LabelUID]
		}
		if slices.ContainsFunc(plans, of) || stage.Held(runs) {
			continue
		}
		if err := playJob(ctx, stage, job.GetName()); err != nil {
			return err
		}
	}
	return nil
}

// playFor is that for one plan.
func playFor(ctx context.Context, stage *faults.Stage, u *unstructured.Unstructured, state faults.State) error {
	plan := thePlan(state)
	if plan == nil || stage.Held(runs+whose(u)) {
		return nil
	}
	name := next(plan, state)
	if name == "" {
		return nil
	}
	return playJob(ctx, stage, name)
}

// playJob has a Job come to its end.
func playJob(ctx context.Context, stage *faults.Stage, name string) error {
	job := &batchv1.Job{}
	if err := stage.Client.Get(ctx, types.NamespacedName{Namespace: managerNamespace, Name: name}, job); err != nil {
		return err
	}
	if ended(job) || job.DeletionTimestamp != nil || job.Labels[v1alpha1.LabelOperation] == wakes && stage.Held(runsThatWake) {
		return nil // which is on its way, or held
	}
	return carryOut(log.IntoContext(ctx, logr.Discard()), stage.Client, job)
}

// next is the Job that comes to its end next; empty if none may: the plan has something to do, or to tell.
func next(plan *v1alpha1.HibernatePlan, state faults.State) string {
	running := ""
	for i := range plan.Status.Executions {
		e := &plan.Status.Executions[i]
		if busy(e, state) {
			return ""
		}
		if e.State == v1alpha1.ExecutionRunning && running == "" {
			running = nameIn(e.JobRef)
		}
	}
	return running
}

// busy says whether the manager is about to write something of a target.
func busy(e *v1alpha1.ExecutionStatus, state faults.State) bool {
	if e.State != v1alpha1.ExecutionRunning {
		return e.ServiceAccountRef != "" || !e.Asleep && e.RestoreConfigMapRef != ""
	}
	for _, u := range state.Of("Job") {
		if u.GetName() == nameIn(e.JobRef) {
			return u.GetDeletionTimestamp() != nil || ended(jobOf(u))
		}
	}
	return true // its Job is about to be made
}

func jobOf(u *unstructured.Unstructured) *batchv1.Job {
	job := &batchv1.Job{}
	convert(u, job)
	return job
}

func ended(job *batchv1.Job) bool {
	for _, c := range job.Status.Conditions {
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			return true
		}
	}
	return false
}

// carryOut runs the pod of a Job, and tells how that has ended.
func carryOut(ctx context.Context, c client.Client, job *batchv1.Job) error {
	task, err := runners.TaskOf(job.Spec.Template.Spec.Containers[0])
	if err != nil {
		return fmt.Errorf("running Job %s: %w", job.Name, err)
	}
	t, err := thingOf(c, task)
	if err != nil {
		return err
	}
	completed := false
	if t.fails(task) && t.FailureMessage == "lost" {
		err = t.lose(ctx, task)
	} else if err = t.find(ctx); err == nil {
		completed = run(ctx, t, task).Completed
	}
	if err != nil {
		return err
	}
	return end(ctx, c, job, completed)
}

// run is a pod.
func run(ctx context.Context, t *thing, task runner.Task) runner.Result {
	return runBy(ctx, t, task, t.store(task))
}

func runBy(ctx context.Context, t *thing, task runner.Task, store runner.Store) runner.Result {
	return runner.Run(ctx, task, runner.Deps{Store: store, Executors: executor.Registry{"noop": t, "workloadscaler": t}, Clock: clock.RealClock{}})
}

// store is where a pod keeps the restore point.
func (t *thing) store(task runner.Task) runner.Store {
	return runner.NewConfigMapStore(configMaps{t.client}, nameIn(task.RestorePoint), task.Execution)
}

// runUnheard is a pod that is killed before it has said what it has done.
func runUnheard(ctx context.Context, c client.Client, job *batchv1.Job) error {
	task, err := runners.TaskOf(job.Spec.Template.Spec.Containers[0])
	if err != nil {
		return fmt.Errorf("running Job %s: %w", job.Name, err)
	}
	t, err := thingOf(c, task)
	if err == nil {
		runBy(log.IntoContext(ctx, logr.Discard()), t, task, unheard{t.store(task)})
	}
	return err
}

// unheard is a store that takes no results.
type unheard struct{ runner.Store }

// Save is that of runner.Store.
func (u unheard) Save(ctx context.Context, point *restore.Point, result *runner.Result) error {
	if result != nil {
		return &runner.Failure{Reason: runner.ReasonSuperseded, Err: errors.New("it is killed")}
	}
	return u.Store.Save(ctx, point, nil)
}

// configMaps are those that a runner may read and write.
type configMaps struct{ client client.Client }

func (c configMaps) Get(ctx context.Context, name string, _ metav1.GetOptions) (*corev1.ConfigMap, error) {
	out := &corev1.ConfigMap{}
	return out, c.client.Get(ctx, types.NamespacedName{Namespace: managerNamespace, Name: name}, out)
}

func (c configMaps) Update(ctx context.Context, o *corev1.ConfigMap, options metav1.UpdateOptions) (*corev1.ConfigMap, error) {
	out := o.DeepCopy()
	return out, c.client.Update(ctx, out, client.FieldOwner(options.FieldManager))
}

// end tells of a Job what kube-controller-manager does.
func end(ctx context.Context, c client.Client, job *batchv1.Job, completed bool) error {
	now := metav1.Now()
	after := job.DeepCopy()
	after.Status.StartTime = &now
	kinds, reason := []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed}, batchv1.JobReasonBackoffLimitExceeded
	if completed {
		kinds, reason = []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete}, batchv1.JobReasonCompletionsReached
		after.Status.CompletionTime, after.Status.Succeeded = &now, 1
	} else {
		after.Status.Failed = 1
	}
	for _, kind := range kinds {
		after.Status.Conditions = append(after.Status.Conditions, batchv1.JobCondition{
			Type: kind, Status: corev1.ConditionTrue, Reason: reason, LastProbeTime: now, LastTransitionTime: now,
		})
	}
	if err := c.Status().Update(ctx, after); err != nil {
		return fmt.Errorf("ending Job %s: %w", job.Name, err)
	}
	return nil
}

// thing is what sleeps, as a runner acts on it.
type thing struct {
	client client.Client
	at     types.NamespacedName
	// FailureMode is none, shutdown, wakeup or both, Failures are the attempts that fail, 0 is all, and FailureMessage
	// is how.
	FailureMode    string `json:"failureMode"`
	Failures       int    `json:"failures"`
	FailureMessage string `json:"failureMessage"`

	session executor.Session
}

// thingOf is that of a task.
func thingOf(c client.Client, task runner.Task) (*thing, error) {
	namespace, _, _ := strings.Cut(task.Plan, "/")
	t := &thing{client: c, at: types.NamespacedName{Namespace: namespace, Name: "thing-" + task.Target}}
	if err := json.Unmarshal(task.Parameters, t); err != nil {
		return nil, fmt.Errorf("reading the parameters of target %s: %w", task.Target, err)
	}
	return t, nil
}

// fails says whether an attempt does.
func (t *thing) fails(task runner.Task) bool {
	of := map[string][]v1alpha1.Operation{
		"shutdown": {v1alpha1.OperationShutdown}, "wakeup": {v1alpha1.OperationWakeUp}, "both": {v1alpha1.OperationShutdown, v1alpha1.OperationWakeUp},
	}
	for _, operation := range of[t.FailureMode] {
		if operation == task.Operation && (t.Failures == 0 || task.Attempt <= t.Failures) {
			return true
		}
	}
	return false
}

// change changes the ConfigMap.
func (t *thing) change(ctx context.Context, do func(*corev1.ConfigMap)) error {
	before := &corev1.ConfigMap{}
	if err := t.client.Get(ctx, t.at, before); err != nil {
		return err
	}
	after := before.DeepCopy()
	do(after)
	return t.client.Patch(ctx, after, client.MergeFrom(before))
}

// lose is a pod on a node that nobody hears of any more, before it has begun.
func (t *thing) lose(ctx context.Context, task runner.Task) error {
	text, err := json.Marshal(task)
	if err != nil {
		return err
	}
	return t.change(ctx, func(c *corev1.ConfigMap) { c.Annotations = map[string]string{annotationLost: string(text)} })
}

// find has such a pod begin, after all, when another has taken over.
func (t *thing) find(ctx context.Context) error {
	c := &corev1.ConfigMap{}
	if err := t.client.Get(ctx, t.at, c); err != nil {
		return client.IgnoreNotFound(err) // its namespace has gone
	}
	var lost runner.Task
	if text := c.Annotations[annotationLost]; text == "" {
		return nil
	} else if err := json.Unmarshal([]byte(text), &lost); err != nil {
		return err
	}
	run(ctx, &thing{client: t.client, at: t.at}, lost)
	return t.change(ctx, func(c *corev1.ConfigMap) { c.Annotations = nil })
}

// Parse takes what the manager has taken.
func (t *thing) Parse(json.RawMessage) (executor.Parameters, error) { return t, nil }

// Needs are none.
func (t *thing) Needs() executor.Needs { return executor.Needs{} }

// Open readies it.
func (t *thing) Open(_ context.Context, session executor.Session) (executor.Target, error) {
	t.session = session
	return t, nil
}

// key of the only resource.
const key = "thing"

// Snapshot is the value that it has.
func (t *thing) Snapshot(ctx context.Context) ([]executor.Resource, error) {
	c := &corev1.ConfigMap{}
	if err := t.client.Get(ctx, t.at, c); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	value, err := json.Marshal(c.Data[keyValue])
	return []executor.Resource{{Key: key, State: value}}, err
}

// Renew is the value that somebody has woken it with since.
func (t *thing) Renew(known restore.Resource, found json.RawMessage, former bool) (before json.RawMessage, woken bool, err error) {
	if former && string(found) != `""` {
		return found, true, nil
	}
	return known.Before, false, nil
}

// Shutdown takes the value away.
func (t *thing) Shutdown(ctx context.Context, _ executor.Captured) (json.RawMessage, error) {
	err := t.change(ctx, func(c *corev1.ConfigMap) {
		c.Data[keyState], c.Data[keyValue] = stateAsleep, ""
		count(c, keyStops)
	})
	return json.RawMessage(`""`), errors.Join(err, t.failure())
}

// WakeUp brings it back.
func (t *thing) WakeUp(ctx context.Context, resource restore.Resource) (executor.Ending, error) {
	if err := t.failure(); err != nil {
		return executor.Ending{}, err
	}
	var value string
	if err := json.Unmarshal(resource.Before, &value); err != nil {
		return executor.Ending{}, err
	}
	if value == "" {
		return t.leave(ctx)
	}
	err := t.change(ctx, func(c *corev1.ConfigMap) {
		c.Data[keyState], c.Data[keyValue] = stateAwake, value
		count(c, keyWakes)
	})
	if apierrors.IsNotFound(err) {
		return executor.Ending{State: restore.Left, Note: "it is gone"}, nil
	}
	return executor.Ending{State: restore.Restored}, err
}

// leave leaves it asleep as it was found, or awake as somebody has made it since.
func (t *thing) leave(ctx context.Context) (executor.Ending, error) {
	c := &corev1.ConfigMap{}
	err := t.client.Get(ctx, t.at, c)
	if err == nil && c.Data[keyState] == stateAwake {
		return executor.Ending{State: restore.Left, Note: "somebody has woken it"}, nil
	}
	return executor.Ending{State: restore.Restored}, client.IgnoreNotFound(err)
}

// failure is the one of this attempt.
func (t *thing) failure() error {
	task := runner.Task{Operation: v1alpha1.OperationShutdown, Attempt: t.session.Attempt}
	if t.session.Operation == dispatch.WakeUp {
		task.Operation = v1alpha1.OperationWakeUp
	}
	if t.fails(task) {
		return errors.New("it does not want to")
	}
	return nil
}

// count counts what was done.
func count(c *corev1.ConfigMap, what string) {
	n, _ := strconv.Atoi(c.Data[what])
	c.Data[what] = strconv.Itoa(n + 1)
}

// Settled is at once.
func (t *thing) Settled(context.Context, restore.Resource, bool) (string, error) { return "", nil }

// Await is not at all.
func (t *thing) Await() time.Duration { return 0 }
