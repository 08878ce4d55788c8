package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/dispatch"
	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/internal/restore"
)

const (
	// grace is for the call in hand when a run is told to stop, and flushTime for what is then written. Both fit into
	// the 30 s that a pod has to end.
	grace, flushTime = 10 * time.Second, 12 * time.Second
	// requestTime is how long a request may take: an API server ends it after a minute, of which it waits 10 to 30 s for each webhook
	// that hangs. What takes longer has been lost on the way.
	requestTime = 65 * time.Second
	// saveEvery and saveAfter are how many resources, and how long, what was done may wait to be written.
	saveEvery, saveAfter = 50, time.Second
	// maxSpare is before its deadline, and what a look at all resources takes, when a run looks at them for the last time. One that is short
	// has a tenth of it for that.
	maxSpare = 10 * time.Second
	// tries at reading and writing the restore point, after 1, 2 and 4 s.
	tries = 4
	// maxNote is how much is kept of why a resource was left, in bytes.
	maxNote = 200
)

// Deps are what a run acts with.
type Deps struct {
	// Store of the restore point.
	Store Store
	// Executors by the types of targets.
	Executors executor.Registry
	// Config reaches the cluster of the target; nil is of no cluster.
	Config func() (*rest.Config, error)
	// Identify tells clusters apart, which are never confused then: ClusterID, or OwnCluster; nil does not.
	Identify func(context.Context, *rest.Config) (string, error)
	// Reporter is told how it goes on; nil is the log.
	Reporter Reporter
	Clock    clock.WithDelayedExecution
}

// run is one run of a task.
type run struct {
	task  Task
	deps  Deps
	log   logr.Logger
	point *restore.Point
	// target is what the executor acts on, in a cluster; empty is unknown.
	target  executor.Target
	cluster string
	// began is when the run did.
	began time.Time
	// stop is done when the run is to end, by its cause; work some time later, for the call in hand; all never is.
	stop, work, all context.Context
	// captured are the keys of what this run has captured and not touched.
	captured map[string]bool
	// resources and done are counts of the Result.
	resources, done int
	// unsaved are how many resources were dealt with since saved.
	unsaved int
	saved   time.Time
}

// Run carries out a task until ctx is done. The Result has been written to the store if it is Completed.
func Run(ctx context.Context, task Task, deps Deps) Result {
	r := &run{task: task, deps: deps, all: context.WithoutCancel(ctx), captured: map[string]bool{},
		log: log.FromContext(ctx).WithValues("plan", task.Plan, "target", task.Target, "operation", task.Operation, "execution", task.Execution)}
	if r.deps.Reporter == nil {
		r.deps.Reporter = logReporter{r.log}
	}
	defer r.limit(ctx)()
	if err := r.load(); err != nil {
		return r.logged(r.result(err)) // what could not be read, or is another's, is not written to
	}
	return r.logged(r.flush(r.result(r.operate())))
}

// Refused is the result of a task that could not be run.
func Refused(task Task, now clock.PassiveClock, err error) Result {
	return Result{Execution: task.Execution, Operation: task.Operation, Reason: reasonOf(err), Message: err.Error(), FinishedAt: metav1.NewTime(now.Now())}
}

// limit sets the contexts of the run, and returns what frees them.
func (r *run) limit(ctx context.Context) func() {
	stop, cancelStop := context.WithCancelCause(ctx)
	work, cancelWork := context.WithCancel(r.all)
	r.stop, r.work, r.began = stop, work, r.deps.Clock.Now()
	deadline := r.deps.Clock.AfterFunc(r.task.Deadline, func() { cancelStop(errDeadline) })
	forget := context.AfterFunc(stop, func() { r.deps.Clock.AfterFunc(grace, cancelWork) })
	return func() {
		deadline.Stop()
		forget()
		cancelStop(nil)
		cancelWork()
	}
}

// over is an error when the run has had its time, and what it is given to end, however long it stood still in between: who waits
// for its end does not know of that, and another may act on the target.
func (r *run) over() error {
	if kube.Elapsed(r.began, r.deps.Clock.Now()) >= r.task.Deadline+grace {
		return errDeadline
	}
	return nil
}

// again tries something several times, with growing waits, until it is done, refused for a reason, or ctx is done.
func (r *run) again(ctx context.Context, try func(context.Context) error) error {
	for i := 1; ; i++ {
		err := bounded(ctx, try)
		if err == nil || i == tries || ctx.Err() != nil || reasonOf(err) != ReasonFailed {
			return err
		}
		r.log.Info("Trying again", "problem", err.Error())
		if r.wait(ctx, time.Second<<(i-1)) != nil {
			return err
		}
	}
}

// bounded tries something as long as a request may take.
func bounded(ctx context.Context, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	return try(ctx)
}

// wait waits until ctx is done.
func (r *run) wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-r.deps.Clock.After(d):
		return ctx.Err()
	}
}

// load reads the restore point, and refuses another target's.
func (r *run) load() error {
	err := r.again(r.stop, func(ctx context.Context) (err error) {
		r.point, err = r.deps.Store.Load(ctx)
		return err
	})
	p := r.point
	switch {
	case err != nil && reasonOf(err) == ReasonFailed && stopped(r.stop) != nil:
		return stopped(r.stop)
	case err != nil:
		return err
	case p != nil && (p.Plan != r.task.Plan || p.Target != r.task.Target):
		return failure(ReasonRestorePointLost, "restore point %s is that of target %s of %s, and not of %s of %s; bring back the right one from a backup",
			r.task.RestorePoint, p.Target, p.Plan, r.task.Target, r.task.Plan)
	}
	return nil
}

// operate does what the task says.
func (r *run) operate() error {
	if r.task.Operation == v1alpha1.OperationWakeUp {
		if r.point == nil {
			return nil // nothing was ever changed, and no parameters are needed to say so
		}
		r.resources = len(r.point.Resources)
		r.done = r.resources - len(r.point.Open())
	}
	if p := r.point; p != nil && p.Executor != r.task.Type {
		switch {
		case len(p.Open()) > 0:
			return failure(ReasonInvalidParameters, "the target was put to sleep as one of type %q and is of type %q now; set the type back until it is awake", p.Executor, r.task.Type)
		case r.task.Operation == v1alpha1.OperationWakeUp:
			return nil // it is awake, and its executor knows nothing of what it was
		}
	}
	if r.task.Operation == v1alpha1.OperationWakeUp && r.resources == 0 {
		return nil
	}
	if err := r.open(); err != nil {
		return r.orStopped(err)
	}
	if r.task.Operation == v1alpha1.OperationWakeUp {
		return r.wakeUp()
	}
	return r.shutdown()
}

// open readies the target.
func (r *run) open() error {
	parameters, err := r.deps.Executors.Parse(r.task.Type, r.task.Parameters)
	if err != nil {
		return fmt.Errorf("reading parameters: %w", err)
	}
	session := executor.Session{Namespaces: slices.Sorted(slices.Values(r.task.Namespaces)), Operation: dispatch.Shutdown, Attempt: r.task.Attempt, Remote: r.task.Kubeconfig != ""}
	if r.task.Operation == v1alpha1.OperationWakeUp {
		session.Operation = dispatch.WakeUp
	}
	if r.deps.Config != nil {
		if session.Config, err = r.deps.Config(); err != nil {
			return fmt.Errorf("opening target: %w", err)
		}
	}
	if session.Config != nil {
		session.Config.Timeout = requestTime
		session.Config.Wrap(kube.Fence(r.over))
	}
	if err := r.identify(session.Config); err != nil {
		return err
	}
	if r.home(r.cluster) || r.cluster == "" { // whatever it is reached by; one that cannot be told may be
		session.Withheld = r.withheld()
		session.ManagerNode, session.RunnerNode = r.task.ManagerNode, r.task.Node
	}
	if r.target, err = parameters.Open(r.stop, session); err != nil {
		return fmt.Errorf("opening target: %w", err)
	}
	return nil
}

// withheld are the namespaces of what wakes the target: that of the restore point, where runners are, too, and that of the manager.
func (r *run) withheld() []string {
	kept, _, _ := strings.Cut(r.task.RestorePoint, "/")
	if own := r.task.ManagerNamespace; own != "" && own != kept {
		return []string{kept, own}
	}
	return []string{kept}
}

// identify sees that the cluster is the one that the target sleeps in: in another everything would be gone, and the
// restore point be let go.
func (r *run) identify(config *rest.Config) error {
	if r.deps.Identify == nil {
		return nil
	}
	err := r.again(r.stop, func(ctx context.Context) (err error) {
		r.cluster, err = r.deps.Identify(ctx, config)
		return err
	})
	p := r.point
	elsewhere := p != nil && len(p.Open()) > 0 && !r.reached(p.Cluster)
	switch {
	case err != nil:
		return fmt.Errorf("telling which cluster it is: %w", err)
	case elsewhere && r.cluster == "":
		return failure(ReasonOtherCluster, "the target sleeps in %s, and the credentials of its connector may not get Namespace kube-system to tell whether it is this one; let them", called(p.Cluster))
	case elsewhere:
		return failure(ReasonOtherCluster, "the target sleeps in %s, which its connector must reach until it is awake; it reaches %s", called(p.Cluster), called(r.cluster))
	case r.cluster == "":
		r.log.Info("The cluster cannot be told from others: its credentials may not get Namespace kube-system")
	}
	return nil
}

// reached says whether a cluster is the one that the target is reached in.
func (r *run) reached(cluster string) bool {
	if cluster == "" { // one that could not be told, which the manager's own can
		return r.cluster != own
	}
	return cluster == r.cluster || r.home(cluster) && r.home(r.cluster)
}

// home says whether a cluster is the manager's own, which has two names.
func (r *run) home(cluster string) bool {
	return cluster == own || cluster != "" && cluster == r.task.Hub
}

// orStopped is why the run was to stop, where that is why it failed.
func (r *run) orStopped(err error) error {
	if why := stopped(r.stop); err != nil && why != nil && reasonOf(err) == ReasonFailed {
		return fmt.Errorf("%w: %w", why, err)
	}
	return err
}

// save writes the point.
func (r *run) save(ctx context.Context, result *Result) error {
	err := r.again(ctx, func(ctx context.Context) error { return r.deps.Store.Save(ctx, r.point, result) })
	if err != nil {
		return fmt.Errorf("saving restore point: %w", err)
	}
	r.unsaved, r.saved = 0, r.deps.Clock.Now()
	return nil
}

// dealt writes what was done with a resource, if there is enough of it.
func (r *run) dealt() error {
	r.unsaved++
	if r.unsaved < saveEvery && r.deps.Clock.Since(r.saved) < saveAfter {
		return nil
	}
	return r.save(r.work, nil)
}

// result is what came of it.
func (r *run) result(err error) Result {
	result := Result{Execution: r.task.Execution, Operation: r.task.Operation, Completed: err == nil,
		Resources: r.resources, Done: r.done, FinishedAt: metav1.NewTime(r.deps.Clock.Now())}
	if r.task.Operation == v1alpha1.OperationWakeUp && r.point != nil {
		for _, resource := range r.point.Resources {
			if resource.Note != "" {
				result.Left = append(result.Left, resource.Key+": "+resource.Note)
			}
		}
	}
	switch {
	case err != nil:
		result.Reason, result.Message = reasonOf(err), err.Error()
	case r.task.Operation == v1alpha1.OperationShutdown:
		result.Message = fmt.Sprintf("%d of %d resources are asleep", r.done, r.resources)
	default:
		result.Message = fmt.Sprintf("%d of %d resources are as they were, and %d as others have made them", r.done-len(result.Left), r.resources, len(result.Left))
	}
	return result
}

// flush writes the point and the result, and says so if it cannot: what is not written is not completed.
func (r *run) flush(result Result) Result {
	if result.Reason == ReasonSuperseded || result.Reason == ReasonRestorePointLost {
		return result // there is nowhere to write it
	}
	if r.point != nil {
		r.point.Forget(func(resource restore.Resource) bool { return r.captured[resource.Key] })
	}
	hurried, cancel := r.hurried()
	defer cancel()
	err := r.last(hurried, &result)
	if err == nil {
		return result
	}
	result = unsaved(result, err)
	if result.Reason == ReasonRestorePointTooLarge {
		r.lean()
		if err := r.last(hurried, &result); err != nil {
			result = unsaved(result, err)
		}
	}
	return result
}

// last writes the point and the result, for as long as that takes; where the run was told to stop it hurries.
func (r *run) last(hurried context.Context, result *Result) error {
	if r.work.Err() == nil {
		if err := r.save(r.work, result); err == nil || r.work.Err() == nil {
			return err
		}
	}
	return r.save(hurried, result)
}

// hurried ends flushTime after the work does that is over when the run was told to stop.
func (r *run) hurried() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.all)
	stop := context.AfterFunc(r.work, func() { time.AfterFunc(flushTime, cancel) })
	return ctx, func() {
		stop()
		cancel()
	}
}

// unsaved is a result that was not written.
func unsaved(result Result, err error) Result {
	message := err.Error()
	if !result.Completed {
		message += "; before that: " + result.Message
	}
	result.Completed, result.Reason, result.Message = false, reasonOf(err), message
	return result
}

// lean lets go of what a wake-up can do without, where there is no room for it: it is better than to know nothing of
// what was changed. A wake-up leaves what was noted for those that are open, because there is room for that.
func (r *run) lean() {
	for i := range r.point.Resources {
		resource := &r.point.Resources[i]
		if resource.Over() {
			resource.Note = ""
		}
		if resource.Over() || r.task.Operation == v1alpha1.OperationShutdown {
			resource.Slept = nil
		}
	}
}

// logged logs the result.
func (r *run) logged(result Result) Result {
	if result.Completed {
		r.log.Info("Completed", "resources", result.Resources, "done", result.Done, "left", len(result.Left))
		return result
	}
	r.log.Error(errors.New(result.Message), "Not completed", "reason", result.Reason, "resources", result.Resources, "done", result.Done)
	return result
}
