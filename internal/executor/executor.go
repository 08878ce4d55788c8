// Package executor is how targets of one type are put to sleep and woken: the interface, and the registry of those
// that there are. An executor knows how its resources are read and written. What is kept of them, in what order that
// is written, and when it is let go is the runner's (internal/runner).
package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/labkeeper/labkeeper/internal/dispatch"
	"github.com/labkeeper/labkeeper/internal/restore"
)

// Executor puts targets of one type to sleep, and wakes them. It has no state.
type Executor interface {
	// Parse reads parameters, strictly: an unknown key is an error that names it. Errors: *InvalidError. It needs no
	// cluster; the manager calls it before anything is started. What a release has read a plan may sleep with: later ones
	// read it, too, and where it is a mistake the parameters are Mistaken.
	Parse(parameters json.RawMessage) (Parameters, error)
}

// Parameters are what a target says of itself, as its executor has read them.
type Parameters interface {
	// Needs are what a runner must be granted.
	Needs() Needs
	// Open readies a target to be acted on.
	Open(ctx context.Context, session Session) (Target, error)
}

// Mistaken are parameters that can be read, and may yet be a mistake, which releases before have not told of: nothing begins with it, and
// what sleeps with it wakes.
type Mistaken interface {
	// Mistake is what is wrong with them; nil if nothing is. Errors: *InvalidError.
	Mistake() error
}

// Needs are what a runner of a target in the manager's own cluster is granted. A target in another cluster is reached
// by the credentials of its connector.
type Needs struct {
	// ClusterRole that is bound in each namespace of the target, and where Cluster is set in the whole cluster.
	// Empty: nothing is bound.
	ClusterRole string
	// Namespaces of the target by name, and those with the labels of Selector.
	Namespaces []string
	Selector   *metav1.LabelSelector
	// Cluster: the target has resources without a namespace.
	Cluster bool
}

// Session is a run of an executor on one target.
type Session struct {
	// Config reaches the cluster of the target.
	Config *rest.Config
	// Namespaces of the target: what Needs comes to, sorted; to wake, those that it was put to sleep in and that there
	// still are. In others nothing is done.
	Namespaces []string
	// Remote: the cluster is reached by credentials of its own, which bound what is done there. The manager does not
	// know its namespaces: those with the labels of Selector are for the executor to find, and to wake, none is amiss.
	Remote bool
	// Withheld are the namespaces of the manager and of its runners, where the cluster is their own, or may be, as it cannot be told:
	// nothing in them is put to sleep.
	Withheld []string
	// ManagerNode and RunnerNode are the nodes that the manager and the runner are on, where the cluster may be their own; empty is none
	// that is known. The manager's is not put to sleep; the runner's may be, and is not waited for.
	ManagerNode, RunnerNode string
	// Operation that the run is for, and which attempt at it this is, from 1.
	Operation dispatch.Operation
	Attempt   int
}

// Target is what an executor acts on. Every method can be called again after it has failed, or was interrupted, with
// the same outcome.
type Target interface {
	// Snapshot lists the resources of the target in the order that they are put to sleep in, and how each is now. It
	// changes nothing. All that can be found is found, or it is an error.
	Snapshot(ctx context.Context) ([]Resource, error)
	// Shutdown puts a resource to sleep that was as Before says. It returns what it has made of it, by which WakeUp knows
	// what somebody else has changed since; the same for a resource that is asleep already. A resource that is gone is
	// no error: Gone. One that somebody has changed since it was captured is one, *ChangedError, and what has changed is
	// not written to: it is captured again first.
	Shutdown(ctx context.Context, captured Captured) (slept json.RawMessage, err error)
	// WakeUp brings a resource back to what it was: only what Shutdown has changed, and only where that is still as
	// Shutdown has left it. Slept is empty where the run that put it to sleep ended before it was told: then it may
	// have been changed or not.
	WakeUp(ctx context.Context, resource restore.Resource) (Ending, error)
	// Settled says whether a resource has come to where the operation takes it, by itself: pods are gone, or ready. What
	// is still missing is in words; empty is nothing. When the time for it is over (late), what was not there before
	// it was put to sleep is not missing: it may never come. Errors: *WokenError.
	Settled(ctx context.Context, resource restore.Resource, late bool) (missing string, err error)
	// Await is how long Settled may take; 0 is not at all, then it is not asked.
	Await() time.Duration
}

// Renewer is a target whose resources somebody may change between two attempts: a resource that is known is brought back to what Renew
// says, where it is now as found says. What an attempt before may have changed, which of one that is untouched nobody has told, is
// taken from what is known. What an attempt of another cycle has put to sleep, or an attempt has found asleep, and is awake by now,
// somebody has woken since (former): how he has made it is how it was, which may be what is known. Woken says that, and so does it of one
// that was created again: nothing was made of it yet.
type Renewer interface {
	Renew(known restore.Resource, found json.RawMessage, former bool) (before json.RawMessage, woken bool, err error)
}

// Capture takes a resource into a restore point, which may be that of a former cycle, as it was found, and says whether nothing was known
// of it.
func Capture(target Target, point *restore.Point, found Resource, former bool) (first bool, err error) {
	if point.Capture(found.Key, found.State) {
		return true, nil
	}
	renewer, may := target.(Renewer)
	if !may {
		return false, nil
	}
	known := point.Resource(found.Key)
	former = former || known.AsFound()
	before, woken, err := renewer.Renew(*known, found.State, former)
	if err != nil {
		return false, fmt.Errorf("capturing %s again: %w", found.Key, err)
	}
	if woken || former && !bytes.Equal(before, known.Before) {
		known.State, known.Slept = restore.Captured, nil // it is to be put to sleep as if for the first time
	}
	known.Before = slices.Clone(before)
	return false, nil
}

// Resource is one of a target as it is.
type Resource struct {
	// Key of it within the target, for instance Deployment.apps/shop/web.
	Key string
	// State is what WakeUp needs to bring it back.
	State json.RawMessage
}

// Captured is a resource that is to be put to sleep.
type Captured struct {
	restore.Resource
	// Fresh says that nothing was done to it since it was captured: whatever differs, somebody else has made. It is over with the
	// first write that is sent, whatever the answer: that may be of another try, and others act on what is written.
	Fresh bool
}

// Changed says whether somebody else has changed something of the resource since it was captured: it is the same no more as it
// was, or asleep. What was put to sleep before is not asked: how it was is known, and what has woken it may have been an autoscaler.
// But for what was asleep as it was captured (found): nothing was made of that, and what is awake somebody else has woken.
func (c Captured) Changed(same, found, asleep bool) bool {
	return !same && (c.Untouched() && (c.Fresh || !asleep) || found && !asleep)
}

// ChangedError is that somebody has changed a resource since it was captured.
type ChangedError struct {
	// State is how it is now, or was before it was put to sleep.
	State json.RawMessage
	// Fresh says that nothing was done to it yet.
	Fresh bool
}

// Error says so.
func (*ChangedError) Error() string { return "somebody has changed it since it was captured" }

// recaptures are how often a resource is captured again while it is put to sleep.
const recaptures = 5

// PutToSleep puts a resource of a restore point to sleep, and returns what was made of it. What somebody changes of it after it was
// captured is captured again, and that is written by save, before it is put to sleep.
func PutToSleep(ctx context.Context, target Target, point *restore.Point, key string, fresh bool, save func() error) (json.RawMessage, error) {
	for i := 0; ; i++ {
		slept, err := target.Shutdown(ctx, Captured{Resource: *point.Resource(key), Fresh: fresh})
		changed, is := errors.AsType[*ChangedError](err)
		if !is || i == recaptures {
			return slept, err
		}
		known := point.Resource(key)
		if known.AsFound() {
			known.State, known.Slept = restore.Captured, nil // it is to be put to sleep for the first time
		}
		known.Before, fresh = changed.State, changed.Fresh
		if err := save(); err != nil {
			return nil, err
		}
	}
}

// WokenError is what Settled says of a resource that somebody wakes as soon as it is put to sleep: it is of no use to wait.
type WokenError struct {
	// Problem is what it is now.
	Problem string
	// Cause is who has woken it, and what to do about that; the same for all resources that he has.
	Cause string
}

// Error says so.
func (e *WokenError) Error() string { return e.Problem + ", " + e.Cause }

// Ending is what became of a resource that was to be woken.
type Ending struct {
	// State: restore.Restored or restore.Left.
	State restore.State
	// Note says why it was left: somebody has changed it, or it is gone. Of what is restored it says that somebody else has done that.
	Note string
}

// Gone is what Shutdown makes of a resource that is not there any more.
var Gone = json.RawMessage(`"gone"`)

// InvalidError is a mistake in parameters.
type InvalidError struct {
	// Path of the field within parameters; empty is all of them.
	Path string
	// Problem and what to do.
	Problem string
}

// Error is the path and the problem.
func (e *InvalidError) Error() string {
	return strings.TrimPrefix(e.Path+": "+e.Problem, ": ")
}

// Registry is the executors by the types of their targets.
type Registry map[string]Executor

// Accept reads the parameters of a target that is to be put to sleep. Errors: *InvalidError; those of Parse, and what is a mistake.
func (r Registry) Accept(targetType string, parameters json.RawMessage) (Parameters, error) {
	p, err := r.Parse(targetType, parameters)
	if err != nil {
		return nil, err
	}
	if may, is := p.(Mistaken); is {
		return p, may.Mistake()
	}
	return p, nil
}

// Parse reads the parameters of a target of some type, which may sleep already. Errors: *InvalidError, for a type that there is not, too.
func (r Registry) Parse(targetType string, parameters json.RawMessage) (Parameters, error) {
	executor, ok := r[targetType]
	if !ok {
		return nil, &InvalidError{Problem: fmt.Sprintf("there is no executor %q; write one of %s", targetType, strings.Join(slices.Sorted(maps.Keys(r)), ", "))}
	}
	return executor.Parse(parameters)
}
