package hibernateplan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/test/faults"
)

type (
	moment = func(faults.State) bool
	action = func(context.Context, *faults.Stage) error
)

// night is a plan whose schedule never wants anything.
const night = `
apiVersion: hibernator.ardikabs.com/v1alpha1
kind: HibernatePlan
metadata: {name: night}
spec:
  schedule: {timezone: UTC, offHours: [{startCron: "0 0 29 2 *", endCron: "1 0 29 2 *"}]}
  override: OVERRIDE
  execution: {strategy: STRATEGY}
  targets: [TARGETS]
`

const thingText = `
apiVersion: v1
kind: ConfigMap
metadata: {name: thing-NAME, labels: {thing: "yes", hibernator.ardikabs.com/target: NAME}}
data: {state: awake, value: that of NAME, stops: "0", wakes: "0"}
`

// Strategies of targets a and b.
const (
	sequential = `{type: Sequential}`
	parallel   = `{type: Parallel, maxConcurrency: 2}`
	dag        = `{type: DAG, dependencies: [{from: a, to: b}]}`
	staged     = `{type: Staged, stages: [{name: first, targets: [a]}, {name: second, targets: [b]}]}`
)

// Targets with parameters.
const (
	plain   = `{name: NAME, type: noop}`
	scaler  = `{name: NAME, type: workloadscaler, parameters: {namespace: {literals: ["` + faults.RunNamespace + `"]}}}`
	failing = `{name: NAME, type: noop, parameters: {failureMode: MODE, failures: N, failureMessage: HOW}}`
)

// fails is a target of which n attempts at an operation fail; 0 are all.
func fails(name, mode string, n int, how ...string) string {
	return strings.NewReplacer("NAME", name, "MODE", mode, "N}", fmt.Sprint(n)+"}", "N,", fmt.Sprint(n)+",", "HOW", `"`+strings.Join(how, "")+`"`).Replace(failing)
}

func sleeper(name string) string { return strings.Replace(plain, "NAME", name, 1) }

// granted is a target whose runner is granted something in the namespace of the plan.
func granted(name string) string { return strings.Replace(scaler, "NAME", name, 1) }

// objects are a plan and the things of its targets.
func objects(strategy string, targets []string, more ...string) []*unstructured.Unstructured {
	texts := []string{}
	for _, name := range []string{"a", "b", "c"} {
		if slices.ContainsFunc(targets, func(t string) bool { return strings.Contains(t, "name: "+name) }) {
			texts = append(texts, strings.ReplaceAll(thingText, "NAME", name))
		}
	}
	plan := strings.Replace(night, "OVERRIDE", "{state: Hibernated}", 1)
	return read(append(texts, strings.NewReplacer("STRATEGY", strategy, "TARGETS", strings.Join(targets, ", ")).Replace(plan)+strings.Join(more, ""))...)
}

// waiting are objects whose plan nobody wants anything of yet.
func waiting(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	unstructured.RemoveNestedField(objects[len(objects)-1].Object, "spec", "override")
	return objects
}

func read(texts ...string) (all []*unstructured.Unstructured) {
	for _, text := range texts {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), u); err != nil {
			panic(err) // it is a constant
		}
		all = append(all, u)
	}
	return all
}

var two = []string{sleeper("a"), sleeper("b")}

// Moments.

// settled is when a plan of a generation is in a phase, and nothing of it is under way.
func settled(generation int64, phase v1alpha1.Phase) moment {
	return func(s faults.State) bool {
		plan := thePlan(s)
		if plan == nil || plan.Status.ObservedGeneration != generation || plan.Status.Phase != phase || len(s.Of("Job")) > 0 {
			return false
		}
		for i := range plan.Status.Executions {
			if busy(&plan.Status.Executions[i], s) {
				return false
			}
		}
		return true
	}
}

// over is when nothing is asleep, and nothing is left.
func over(generation int64) moment {
	is := settled(generation, v1alpha1.PhaseActive)
	return func(s faults.State) bool {
		return is(s) && thePlan(s).Status.CurrentCycle == nil && thePlan(s).Status.Ledger == nil && awake(s) && without("ControllerRevision")(s) && without(forRunners...)(s)
	}
}

// awake is when all things are, and no restore point is left.
func awake(s faults.State) bool {
	return !slices.ContainsFunc(s.Of("ConfigMap"), func(u *unstructured.Unstructured) bool { return isPoint(u) || isThing(u) && asleep(u) })
}

func without(kinds ...string) moment {
	return func(s faults.State) bool {
		return !slices.ContainsFunc(kinds, func(kind string) bool { return len(s.Of(kind)) > 0 })
	}
}

// working is when a Job is under way, all that was recorded.
func working(generation int64) moment {
	return func(s faults.State) bool {
		plan := thePlan(s)
		if plan == nil || plan.Status.ObservedGeneration != generation || len(s.Of("Job")) != 1 {
			return false
		}
		for i := range plan.Status.Executions {
			if busy(&plan.Status.Executions[i], s) {
				return false
			}
		}
		return true
	}
}

// in is when a cycle is in an operation.
func in(operation v1alpha1.Operation) moment {
	return func(s faults.State) bool {
		plan := thePlan(s)
		return plan != nil && plan.Status.CurrentCycle != nil && plan.Status.CurrentCycle.Operation == operation
	}
}

// retrying is when a target has failed and waits to be tried again, and nothing else happens.
func retrying(name string) moment {
	return func(s faults.State) bool {
		plan := thePlan(s)
		if plan == nil || len(s.Of("Job")) > 0 {
			return false
		}
		waits := false
		for i := range plan.Status.Executions {
			e := &plan.Status.Executions[i]
			if busy(e, s) {
				return false
			}
			waits = waits || e.Target == name && e.State == v1alpha1.ExecutionPending && e.Attempts > 0
		}
		return waits
	}
}

// sleeps is when targets sleep, and no others.
func sleeps(names ...string) moment {
	return func(s faults.State) bool {
		for _, u := range s.Of("ConfigMap") {
			if isThing(u) && asleep(u) != slices.Contains(names, target(u)) {
				return false
			}
		}
		return true
	}
}

// roles is when targets have Roles, and no others.
func roles(names ...string) moment {
	return func(s faults.State) bool {
		for _, u := range s.Of("Role") {
			if !slices.Contains(names, target(u)) {
				return false
			}
		}
		return len(s.Of("Role")) == len(names)
	}
}

// begun is when the ledger of a plan has an attempt that runs.
func begun(s faults.State) bool {
	plan := thePlan(s)
	return plan != nil && slices.ContainsFunc(plan.Status.Executions, func(e v1alpha1.ExecutionStatus) bool { return e.State == v1alpha1.ExecutionRunning })
}

// ownOnly is when nothing of another plan is left.
func ownOnly(s faults.State) bool {
	plan := thePlan(s)
	return plan != nil && !slices.ContainsFunc(s, func(u *unstructured.Unstructured) bool {
		of := u.GetLabels()[v1alpha1.LabelUID]
		return of != "" && of != string(plan.UID)
	})
}

func all(moments ...moment) moment {
	return func(s faults.State) bool {
		return !slices.ContainsFunc(moments, func(m moment) bool { return !m(s) })
	}
}

// told is when a condition has a reason.
func told(condition, reason string) moment {
	return func(s faults.State) bool {
		plan := thePlan(s)
		return plan != nil && slices.ContainsFunc(plan.Status.Conditions, func(c metav1.Condition) bool { return c.Type == condition && c.Reason == reason })
	}
}

func asleepNow(generation int64) moment { return settled(generation, v1alpha1.PhaseHibernated) }

// emptied is when the plan is all that is left of its namespace.
func emptied(s faults.State) bool {
	plan := thePlan(s)
	return plan != nil && plan.DeletionTimestamp != nil && without(besidePlans...)(s) && !slices.ContainsFunc(s, isThing)
}

var gone = all(without("HibernatePlan", "Job", "ControllerRevision", "Role"), without(forRunners...))

// forRunners is what a runner has for itself. The Role of its target stays.
var forRunners = []string{"ServiceAccount", "Secret", "RoleBinding", "ClusterRoleBinding"}

// Actions.

func sleep(d time.Duration) action {
	return func(ctx context.Context, s *faults.Stage) error { return s.Advance(ctx, d) }
}

// due lets time pass until something is due.
func due(d time.Duration) action {
	return func(ctx context.Context, s *faults.Stage) error { return s.Due(ctx, d) }
}

func kill(ctx context.Context, s *faults.Stage) error { return s.StopManager(ctx, true) }

func start(ctx context.Context, s *faults.Stage) error { return s.StartManager(ctx) }

// removeNamespace deletes the plan with everything around it.
func removeNamespace(ctx context.Context, s *faults.Stage) error {
	namespace := read("{apiVersion: v1, kind: Namespace}")[0]
	namespace.SetName(s.Namespace)
	return s.Client.Delete(ctx, namespace)
}

func release(ctx context.Context, s *faults.Stage) error {
	s.Release(runs)
	return nil
}

// actUnheard has the runner of each Job act, of which nobody hears any more.
func actUnheard(ctx context.Context, s *faults.Stage) error {
	jobs, err := inManagers(ctx, s, "batch/v1", "Job")
	for _, job := range jobs {
		err = errors.Join(err, runUnheard(ctx, s.Client, jobOf(job)))
	}
	return err
}

func releaseWakes(_ context.Context, s *faults.Stage) error {
	s.Release(runsThatWake)
	return nil
}

// refuseJobs has the manager make no Jobs of a target, as by a policy of others, until allow.
func refuseJobs(name string) action {
	return func(_ context.Context, s *faults.Stage) error {
		s.Refuse("create", schema.GroupResource{Group: "batch", Resource: "jobs"}, labels.Set{v1alpha1.LabelTarget: name})
		return nil
	}
}

func allow(_ context.Context, s *faults.Stage) error {
	s.Allow()
	return nil
}

// tick lets time pass for the manager that there is.
func tick(d time.Duration) action {
	return func(ctx context.Context, s *faults.Stage) error { return s.Tick(ctx, d) }
}

// settle waits until the manager has done what it does.
func settle(ctx context.Context, s *faults.Stage) error { return s.Settle(ctx) }

// change patches an object of some text.
func change(text, patch string) action {
	return func(ctx context.Context, s *faults.Stage) error {
		u := read(text)[0]
		u.SetNamespace(s.Namespace)
		return s.Client.Patch(ctx, u, client.RawPatch(types.MergePatchType, []byte(patch)))
	}
}

// put creates an object of some text.
func put(text string) action {
	return func(ctx context.Context, s *faults.Stage) error { return create(read(text))(ctx, s) }
}

// drop deletes an object of some text.
func drop(text string) action {
	return func(ctx context.Context, s *faults.Stage) error {
		u := read(text)[0]
		u.SetNamespace(s.Namespace)
		return s.Client.Delete(ctx, u)
	}
}

func edit(patch string) action { return change(night, patch) }

// editTargets replaces the targets and their order.
func editTargets(strategy string, targets ...string) action {
	patch, err := yaml.YAMLToJSON([]byte("spec: {execution: {strategy: " + strategy + "}, targets: [" + strings.Join(targets, ", ") + "]}"))
	if err != nil {
		panic(err) // it is a constant
	}
	return edit(string(patch))
}

var remove = drop(night)

// create makes the plan of some objects, of which it is the last.
func create(objects []*unstructured.Unstructured) action {
	return func(ctx context.Context, s *faults.Stage) error { return s.Create(ctx, objects[len(objects)-1]) }
}

// inManagers are the objects of a kind that are of the run, and in the manager's namespace.
func inManagers(ctx context.Context, s *faults.Stage, version, kind string) ([]*unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(version)
	list.SetKind(kind + "List")
	if err := s.Client.List(ctx, list, client.InNamespace(managerNamespace)); err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for i := range list.Items {
		if world.Run(&list.Items[i]) == s.Namespace {
			out = append(out, &list.Items[i])
		}
	}
	return out, nil
}

// removeAll deletes all objects of a kind that are of the run, as somebody does who wants to end them.
func removeAll(version, kind string) action {
	return func(ctx context.Context, s *faults.Stage) error {
		found, err := inManagers(ctx, s, version, kind)
		for _, u := range found {
			err = errors.Join(err, s.Client.Delete(ctx, u, client.PropagationPolicy(metav1.DeletePropagationBackground)))
		}
		return err
	}
}

var (
	removeJobs, removePods        = removeAll("batch/v1", "Job"), removeAll("v1", "Pod")
	removePoints, removeRevisions = removeAll("v1", "ConfigMap"), removeAll("apps/v1", "ControllerRevision")
)

// lingering is a pod of each Job, which is there longer than that: its node does not answer.
func lingering(ctx context.Context, s *faults.Stage) error {
	jobs, err := inManagers(ctx, s, "batch/v1", "Job")
	for _, job := range jobs {
		pod := read(podText)[0]
		pod.SetName(job.GetName() + "-pod")
		pod.SetLabels(map[string]string{batchv1.JobNameLabel: job.GetName(), v1alpha1.LabelTarget: target(job)})
		pod.SetAnnotations(map[string]string{v1alpha1.AnnotationOwner: job.GetAnnotations()[v1alpha1.AnnotationOwner]})
		err = errors.Join(err, s.Client.Create(ctx, pod))
	}
	return err
}

const podText = `
apiVersion: v1
kind: Pod
metadata: {namespace: ` + managerNamespace + `}
spec: {containers: [{name: runner, image: example/labkeeper:1}]}
`

// force takes the finalizer off the plan, and deletes it.
func force(ctx context.Context, s *faults.Stage) error {
	if err := edit(`{"metadata":{"finalizers":null}}`)(ctx, s); err != nil {
		return err
	}
	return remove(ctx, s)
}

// clockOf is what time it is for the manager, whose clock stands still, once the plan has a condition.
func clockOf(ctx context.Context, s *faults.Stage) (time.Time, error) {
	u := read(night)[0]
	u.SetNamespace(s.Namespace)
	if err := s.Client.Get(ctx, client.ObjectKeyFromObject(u), u); err != nil {
		return time.Time{}, err
	}
	return planOf(u).Status.Conditions[0].LastTransitionTime.UTC(), nil
}

// window is from one time after another to a third.
func window(now time.Time, from, until time.Duration) map[string]any {
	cron := func(d time.Duration) string {
		at := now.Add(d)
		return fmt.Sprintf("%d %d %d %d *", at.Minute(), at.Hour(), at.Day(), at.Month())
	}
	return map[string]any{"startCron": cron(from), "endCron": cron(until)}
}

// schedule has the plan sleep from one time after the manager's now to another.
func schedule(from, until time.Duration) action { return schedules([2]time.Duration{from, until}) }

func schedules(windows ...[2]time.Duration) action {
	return func(ctx context.Context, s *faults.Stage) error {
		now, err := clockOf(ctx, s)
		if err != nil {
			return err
		}
		var offHours []any
		for _, w := range windows {
			offHours = append(offHours, window(now, w[0], w[1]))
		}
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"override": nil, "schedule": map[string]any{"offHours": offHours}}})
		if err != nil {
			return err
		}
		return edit(string(patch))(ctx, s)
	}
}

const awakened = `{"spec":{"override":{"state":"Awake"}}}`

var wake = edit(awakened)

// annotate asks for something once.
func annotate(annotation, value string) action {
	return edit(fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, annotation, value))
}

// patience is how long the manager tries what may pass.
const patience = 2 * time.Minute

// late is longer than the first wait of a target that has failed.
const late = time.Minute

var workloads = slices.Concat(inStatus, inShards("dag", "turned", "left"), ofStrategies, ofOthers, withNamespaces, neighbours)

// withNamespaces go with their namespace: what sleeps is gone, and what it needed is to go, which is elsewhere. The namespace
// controller takes the kinds in any order: while it does the manager is away, to find the same every time.
var withNamespaces = []faults.Workload{
	{
		Name:    "namespace-deleted",
		Objects: objects(parallel, two[:1]),
		Steps:   []faults.Step{faults.At(asleepNow(1), kill, removeNamespace), faults.At(emptied, start)},
		Done:    all(gone, awake),
		Logs:    []string{terminating},
	},
	{
		Name: "namespace-deleted-working", Holds: []string{runs},
		Objects: objects(sequential, two[:1]),
		Steps: []faults.Step{
			faults.At(working(1), kill, removeNamespace), faults.At(emptied, start),
			faults.At(told(v1alpha1.ConditionScheduled, v1alpha1.ReasonDeleting), release),
		},
		Done: all(gone, awake),
		Logs: []string{terminating},
	},
	{
		// What reaches its cluster has gone, too, and nothing can be granted there any more.
		Name:    "namespace-deleted-connector",
		Objects: read(ownCluster, strings.ReplaceAll(thingText, "NAME", "a")),
		Steps: []faults.Step{
			faults.At(says("K8SCluster", 1, v1alpha1.ReasonValidated), create(objects(sequential, []string{connected}))),
			faults.At(asleepNow(1), kill, removeNamespace), faults.At(emptied, start),
		},
		Done: all(gone, awake),
		Logs: []string{terminating},
	},
}

// terminating is what is said of an Event in a namespace that goes.
const terminating = "because it is being terminated"

// ofStrategies are what the others do with one strategy only: a target that fails for good, an edit while all sleep, which
// takes a target out and changes the strategy, and a deletion. One of each has its ledger in shards.
var ofStrategies = []faults.Workload{
	failed("parallel", parallel, "a", "a", "b"),
	sharded(failed("dag", dag, "b", "a", "b")),
	failed("staged", staged, "a", "a", "b"),
	edited("sequential", sequential, strings.ReplaceAll(dag, "to: b", "to: c")),
	sharded(edited("parallel", parallel, strings.ReplaceAll(staged, "[b]", "[c]"))),
	edited("staged", staged, `{type: Sequential, stages: null}`),
	deleted("sequential", sequential),
	deleted("dag", dag),
	sharded(deleted("staged", staged)),
}

func failed(name, strategy, failing string, asleep ...string) faults.Workload {
	targets := slices.Clone(two)
	targets[slices.Index([]string{"a", "b"}, failing)] = fails(failing, "shutdown", 0)
	return faults.Workload{
		Name:    "failed-" + name,
		Objects: objects(strategy, targets, "  behavior: {mode: BestEffort, retries: 0}\n"),
		Steps:   []faults.Step{faults.At(all(asleepNow(1), sleeps(asleep...)), wake)},
		Done:    over(2),
	}
}

func edited(name, before, after string) faults.Workload {
	return faults.Workload{
		Name:    "edited-" + name,
		Objects: append(read(strings.ReplaceAll(thingText, "NAME", "c")), objects(before, two)...),
		Steps: []faults.Step{
			faults.At(asleepNow(1), editTargets(after, sleeper("a"), sleeper("c"))), faults.At(all(asleepNow(2), sleeps("a")), wake),
		},
		Done: all(over(3), roles("a")),
	}
}

func deleted(name, strategy string) faults.Workload {
	return faults.Workload{
		Name:    "deleted-" + name,
		Objects: objects(strategy, two),
		Steps:   []faults.Step{faults.At(asleepNow(1), remove)},
		Done:    all(gone, awake),
	}
}

// inShards are some of them whose ledgers have no room in a status.
func inShards(names ...string) (out []faults.Workload) {
	for _, w := range inStatus {
		if slices.Contains(names, w.Name) {
			w.Name += "-in-shards"
			out = append(out, sharded(w))
		}
	}
	return out
}

// sharded has a manager that keeps no ledger in a status.
func sharded(w faults.Workload) faults.Workload {
	w.Args = []string{"--hibernation-ledger-in-status=0"}
	return w
}

var inStatus = []faults.Workload{
	{
		Name:    "dag",
		Objects: objects(dag, []string{sleeper("a"), fails("b", "wakeup", 1)}),
		Steps:   []faults.Step{faults.At(asleepNow(1), wake), faults.At(retrying("b"), sleep(late))},
		Done:    over(2),
	},
	{
		Name:    "sequential",
		Objects: objects(sequential, []string{sleeper("a"), fails("b", "shutdown", 1)}),
		Steps:   []faults.Step{faults.At(retrying("b"), due(10*time.Second)), faults.At(asleepNow(1), wake)},
		Done:    over(2),
	},
	{
		// Nobody hears of the first runner any more, which begins when another has taken over.
		Name:    "parallel",
		Objects: objects(parallel, []string{fails("a", "shutdown", 1, "lost"), sleeper("b")}),
		Steps:   []faults.Step{faults.At(retrying("a"), sleep(late)), faults.At(asleepNow(1), wake)},
		Done:    over(2),
	},
	{
		Name:    "staged",
		Objects: objects(staged, []string{fails("a", "shutdown", 1), sleeper("b")}),
		Steps:   []faults.Step{faults.At(retrying("a"), sleep(late)), faults.At(asleepNow(1), wake)},
		Done:    over(2),
	},
	{
		// Its runner may do something in the namespace of the plan, and nobody else may, nor later.
		Name:    "granted",
		Objects: objects(sequential, []string{granted("a"), sleeper("b")}),
		Steps:   []faults.Step{faults.At(asleepNow(1), wake)},
		Done:    over(2),
	},
	{
		Name:    "granted-deleted",
		Sampled: faults.SecondHalf,
		Objects: objects(sequential, []string{granted("a")}),
		Steps:   []faults.Step{faults.At(asleepNow(1), remove)},
		Done:    gone,
	},
	{
		Name:    "strict",
		Objects: objects(sequential, []string{fails("a", "shutdown", 0), sleeper("b")}, "  behavior: {retries: 0}\n"),
		Steps:   []faults.Step{faults.At(settled(1, v1alpha1.PhaseError), wake)},
		Done:    over(2),
	},
	{
		Name:    "best-effort",
		Objects: objects(sequential, []string{fails("a", "shutdown", 0), sleeper("b")}, "  behavior: {mode: BestEffort, retries: 0}\n"),
		Steps:   []faults.Step{faults.At(all(asleepNow(1), sleeps("a", "b")), wake)},
		Done:    over(2),
	},
	{
		// What may pass, as long as it may, keeps the one that wakes first from it, and what is behind that no longer.
		Name:    "refused-for-long",
		Objects: objects(sequential, two, "  behavior: {mode: BestEffort, retries: 0}\n"),
		Steps: []faults.Step{
			faults.At(asleepNow(1), refuseJobs("b"), wake),
			faults.At(told(v1alpha1.ConditionReady, kube.ReasonForbidden), tick(patience)),
			faults.At(all(settled(2, v1alpha1.PhaseError), sleeps("b")), allow, sleep(10*time.Minute)),
		},
		Done: over(2),
		Logs: []string{"is forbidden: RBAC"},
	},
	{
		// A wake-up that fails is tried again when somebody asks for it.
		Name:    "by-annotation",
		Objects: waiting(objects(parallel, []string{fails("a", "wakeup", 1)}, "  behavior: {retries: 0}\n")),
		Steps: []faults.Step{
			faults.At(over(1), annotate(v1alpha1.AnnotationHibernateNow, "1")),
			faults.At(asleepNow(1), annotate(v1alpha1.AnnotationWakeNow, "1")),
			faults.At(settled(1, v1alpha1.PhaseError), annotate(v1alpha1.AnnotationRetryNow, "1")),
		},
		Done: over(1),
	},
	{
		Name:    "by-schedule",
		Objects: waiting(objects(sequential, two[:1])),
		Steps: []faults.Step{
			faults.At(over(1), schedule(time.Hour, 3*time.Hour)),
			faults.At(over(2), sleep(2*time.Hour)),
			faults.At(asleepNow(2), sleep(2*time.Hour)),
		},
		Done: over(2),
	},
	{
		// What is taken out is woken at once, what stays by the parameters that it was put to sleep with, by which it does
		// not fail, and what is new is put to sleep the next time.
		Name:    "edited",
		Objects: append(read(strings.ReplaceAll(thingText, "NAME", "c")), objects(dag, two)...),
		Steps: []faults.Step{
			faults.At(asleepNow(1), editTargets(`{type: Parallel, dependencies: null, maxConcurrency: 1}`, sleeper("c"), fails("a", "wakeup", 0))),
			faults.At(all(asleepNow(2), sleeps("a")), wake),
		},
		Done: all(over(3), roles("a")),
	},
	{
		// What there is of a target that was taken out by day goes at the end of the next night.
		Name:    "taken-out",
		Objects: objects(parallel, two),
		Steps: []faults.Step{
			faults.At(asleepNow(1), wake),
			faults.At(all(over(2), roles("a", "b")), editTargets(parallel, sleeper("a"))),
			faults.At(all(over(3), roles("a", "b")), edit(`{"spec":{"override":{"state":"Hibernated"}}}`)),
			faults.At(all(asleepNow(4), sleeps("a")), wake),
		},
		Done: all(over(5), roles("a")),
	},
	{
		Name: "turned", Holds: []string{runs},
		Objects: objects(sequential, two),
		Steps:   []faults.Step{faults.At(working(1), wake), faults.At(working(2), release)},
		Done:    over(2),
	},
	{
		// What wakes when it is to sleep again does so first.
		Name: "turned-back", Holds: []string{runsThatWake},
		Objects: objects(sequential, two[:1]),
		Steps: []faults.Step{
			faults.At(asleepNow(1), wake), faults.At(all(working(2), in(v1alpha1.OperationWakeUp)), edit(`{"spec":{"override":{"state":"Hibernated"}}}`)),
			faults.At(working(3), releaseWakes),
		},
		Done: all(asleepNow(3), sleeps("a")),
	},
	{
		// One that another keeps asleep by day is woken by hand, and changed: that is what it wakes to after the next night.
		Name:    "woken-by-hand",
		Objects: objects(dag, []string{sleeper("a"), fails("b", "wakeup", 1)}),
		Steps: []faults.Step{
			faults.At(asleepNow(1), wake),
			faults.At(retrying("b"), change(thingA, `{"data":{"state":"awake","value":"by hand"}}`), edit(`{"spec":{"override":{"state":"Hibernated"}}}`)),
			faults.At(asleepNow(3), wake), faults.At(retrying("b"), due(10*time.Second)),
		},
		Done:   all(over(4), func(s faults.State) bool { return configMapOf(thingIn(s, "a")).Data[keyValue] == "by hand" }),
		Breaks: []string{usedLast},
	},
	{
		// Its runner acts, says nothing, and is stopped, before it would be told that it has not started: when its Job was made is not of this clock.
		Name: "stopped", Holds: []string{runs},
		Objects: objects(sequential, two),
		Steps: []faults.Step{
			faults.At(working(1), actUnheard), faults.At(all(working(1), sleeps("a")), wake), faults.At(working(2), sleep(61*time.Second)),
			faults.At(all(working(2), in(v1alpha1.OperationWakeUp)), release),
		},
		Done:   over(2),
		Breaks: []string{recorded},
	},
	{
		Name: "suspended", Holds: []string{runs},
		Objects: objects(sequential, two),
		Steps: []faults.Step{
			faults.At(working(1), edit(`{"spec":{"suspend":true}}`)), faults.At(working(2), release),
			faults.At(settled(2, v1alpha1.PhaseSuspended), edit(`{"spec":{"suspend":null}}`)),
		},
		Done: asleepNow(3),
	},
	{
		Name:    "deleted",
		Objects: objects(parallel, two[:1]),
		Steps:   []faults.Step{faults.At(asleepNow(1), remove)},
		Done:    all(gone, awake),
	},
	{
		// One of the same name finds what was left, though it has another target.
		Name:    "left",
		Objects: append(read(strings.ReplaceAll(thingText, "NAME", "b")), objects(sequential, two[:1], "  deletionPolicy: Leave\n")...),
		Steps: []faults.Step{
			faults.At(asleepNow(1), remove), faults.At(gone, create(waiting(objects(sequential, two[1:])))),
		},
		Done: func(s faults.State) bool {
			return awake(s) && over(1)(s) && roles()(s) && thePlan(s).Status.Cycles == 1
		},
	},
	{
		Name: "left-working", Holds: []string{runs},
		Objects: objects(sequential, two, "  deletionPolicy: Leave\n"),
		Steps: []faults.Step{
			faults.At(working(1), remove), faults.At(told(v1alpha1.ConditionScheduled, v1alpha1.ReasonDeleting), release),
		},
		Done: all(gone, sleeps("a")),
	},
	{
		// The time in which a deleted plan waits for what does not wake, and no more of it.
		Name:    "given-up",
		Objects: objects(sequential, []string{fails("a", "wakeup", 0)}),
		Steps:   []faults.Step{faults.At(asleepNow(1), remove), faults.At(retrying("a"), sleep(time.Hour))},
		Done:    all(gone, sleeps("a")),
	},
	{
		// The pod of its Job is there longer than that, and another one comes when it is gone.
		Name: "job-deleted", Holds: []string{runs},
		Objects: objects(sequential, two[:1]),
		Steps:   []faults.Step{faults.At(working(1), lingering, removeJobs, settle, removePods, release)},
		Done:    asleepNow(1),
	},
	{
		// A restore point that is asked to go wakes its target before it does, and of a revision that is gone the spec takes the place,
		// which who has read it need not know.
		Name:    "kept-deleted",
		Objects: objects(sequential, two[:1]),
		Steps:   []faults.Step{faults.At(asleepNow(1), kill, removePoints, removeRevisions, wake, start)},
		Done:    over(2),
	},
	{
		// What a plan that was forced away has begun comes to its end before one of the same name begins, and goes.
		Name: "forced-away", Holds: []string{runs},
		Objects: objects(sequential, two[:1]),
		Steps: []faults.Step{
			faults.At(working(1), kill, force, create(objects(sequential, two[:1])), start), faults.At(all(begun, in(v1alpha1.OperationShutdown)), settle, release),
			faults.At(asleepNow(1), sleep(time.Hour)),
		},
		Done:   all(asleepNow(1), ownOnly),
		Leaves: []string{"Job a shutdown", "ServiceAccount a shutdown", "RoleBinding a shutdown", "Role a", "ControllerRevision"},
	},
}
