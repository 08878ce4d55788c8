package hibernateplan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/dispatch"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// A target that has failed is tried again after firstRetry, and twice as long each time, at most lastRetry.
const (
	firstRetry = 10 * time.Second
	lastRetry  = 10 * time.Minute
)

// history is how many cycles that are over are kept.
const history = 5

// outcome is what came of an attempt.
type outcome struct {
	completed bool
	message   string
	logsRef   string
	// unmade: it did not come as far as to make the restore point.
	unmade bool
	// checksum of the restore point by then; empty where that is not known.
	checksum string
	// resources of the target, how many of them it has come to the end with, and how many were left as they are, of which
	// some are told.
	resources, done, leftCount int
	// interrupted: its runner was told to stop.
	interrupted bool
	left        []string
}

// execution is one entry of the ledger.
type execution = v1alpha1.ExecutionStatus

// merged are the names of two lists, sorted.
func merged(a, b []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

// begin records that an attempt begins. What it will write goes by the names in here.
func begin(e *execution, n names, now time.Time) {
	// Where it sleeps already, and where it will. With credentials of a connector these are names in a cluster of others, which
	// say nothing of what is granted in this one.
	if e.Operation == v1alpha1.OperationShutdown && !n.credentials(e.Target) {
		e.Namespaces = merged(e.Namespaces, n.namespaces[e.Target])
	}
	e.State, e.Attempts = v1alpha1.ExecutionRunning, e.Attempts+1
	at := seconds(now)
	e.StartedAt, e.FinishedAt, e.Message = &at, nil, ""
	job := n.job(e).String()
	e.JobRef, e.ServiceAccountRef, e.RestoreConfigMapRef = job, job, n.point(e.Target).String()
	e.RestoreRef = configMapScheme + e.RestoreConfigMapRef
	e.ConnectorSecretRef = ""
	if n.credentials(e.Target) {
		e.ConnectorSecretRef = job
	}
	if e.Operation == v1alpha1.OperationShutdown {
		e.Asleep = true // it may be, from the first call of its runner on
	}
}

// configMapScheme begins the reference of something that is kept in a ConfigMap.
const configMapScheme = "configmap://"

func seconds(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }

// end records what came of an attempt.
func end(e *execution, o outcome, retries int32, now time.Time) {
	at := seconds(now)
	e.Kept = e.Kept || !o.unmade // it is made before the Job
	e.FinishedAt, e.Message, e.RestoreChecksum = &at, o.message, o.checksum
	if o.logsRef != "" || !strings.HasSuffix(e.LogsRef, logKey(e)) { // that of one that was stopped was kept before
		e.LogsRef = o.logsRef
	}
	if o.completed && e.Operation == v1alpha1.OperationWakeUp {
		e.Left = int32(min(o.leftCount, o.resources))
		if o.resources < int(e.Resources) && e.Kept {
			o.completed, e.RestoreChecksum = false, "" // that is not the one to be put back
			e.Message = fmt.Sprintf("Its restore point has %d of the %d resources that were put to sleep; put ConfigMap %s back as it was", o.resources, e.Resources, e.RestoreConfigMapRef)
		} else if e.Left > 0 {
			e.Message = strings.Join(o.left, "; ")
		}
	}
	e.Message = cut(e.Message)
	if !o.completed && e.Operation == v1alpha1.OperationShutdown { // what sleeps is to be found in the restore point
		e.Resources = max(e.Resources, int32(o.done))
	}
	switch {
	case o.completed:
		e.Resources = int32(o.resources)
		e.State = v1alpha1.ExecutionCompleted
		e.Asleep = e.Operation == v1alpha1.OperationShutdown
		e.Kept = e.Asleep
	case e.Attempts-e.Forgiven > retries:
		e.State = v1alpha1.ExecutionFailed
	default:
		e.State = v1alpha1.ExecutionPending
	}
}

// takeBack has an attempt not made that was recorded, or not again. What it was to put to sleep may sleep: its Job may have
// been there, and was stopped, or deleted by somebody.
func takeBack(e *execution, now time.Time) {
	at := seconds(now)
	e.State, e.FinishedAt, e.Message, e.Forgiven = v1alpha1.ExecutionPending, &at, "It was stopped, or not begun: it was not wanted any more", e.Attempts
	e.RestoreChecksum = ""
}

// maxMessage is how much is kept of what an attempt has to say: there is one for each target.
const maxMessage = 256

func cut(message string) string { return cutAt(message, maxMessage) }

func cutAt(message string, length int) string {
	if len(message) <= length {
		return message
	}
	return strings.ToValidUTF8(message[:length], "") + "…"
}

// both are two messages, each of which has half of the room, and what the other one leaves of that.
func both(first, second string) string {
	const room = maxMessage - len("…; ")
	return cutAt(first, max(room/2, room-len(second))) + "; " + second
}

// forgive lets a target that has failed be tried again at once, as often as at first, by the restore point that there is; one that runs,
// should it fail.
func forgive(e *execution) {
	e.RestoreChecksum = ""
	if failed(e) || failing(e) {
		e.State = v1alpha1.ExecutionPending
	}
	if e.State == v1alpha1.ExecutionPending || running(e) {
		e.Forgiven = e.Attempts
	}
}

// failing says whether a target has failed and waits to be tried again.
func failing(e *execution) bool {
	return e.State == v1alpha1.ExecutionPending && e.Attempts > e.Forgiven
}

// due is when a target is tried again that has failed.
func due(e *execution) time.Time {
	wait := lastRetry
	if n := e.Attempts - e.Forgiven - 1; n < 10 && !failed(e) {
		wait = min(firstRetry<<n, lastRetry)
	}
	return e.FinishedAt.Add(wait)
}

// rests is how long a target that has failed is not tried again. Where it has failed long after now, a clock was set back: that is
// waited for by nobody.
func rests(e *execution, now time.Time) time.Duration {
	if e.FinishedAt.Sub(now) > lastRetry {
		return 0
	}
	return max(0, due(e).Sub(now))
}

// never says whether a target that has failed is not tried again by itself. What is to be awake is, as long as it takes.
func never(e *execution) bool { return failed(e) && e.Operation == v1alpha1.OperationShutdown }

// start makes the ledger of an operation: what there is to be done for each target.
func start(entries []execution, operation v1alpha1.Operation) {
	for i := range entries {
		e := &entries[i]
		if running(e) { // at that already
			continue
		}
		if operation == v1alpha1.OperationWakeUp && !e.Asleep {
			if e.State == v1alpha1.ExecutionPending || e.State == v1alpha1.ExecutionFailed {
				e.State = v1alpha1.ExecutionAborted // it was never stopped, and needs no waking
			}
			continue
		}
		e.ShutdownFailed = operation == v1alpha1.OperationWakeUp && (e.ShutdownFailed || unslept(e))
		again(e, operation)
	}
}

// unslept says whether a target was begun to be put to sleep, and has not come to that.
func unslept(e *execution) bool {
	return e.Operation == v1alpha1.OperationShutdown && e.Attempts > 0 && e.State != v1alpha1.ExecutionCompleted
}

// again has a target begin an operation anew.
func again(e *execution, operation v1alpha1.Operation) {
	e.Operation, e.State, e.Attempts, e.Forgiven = operation, v1alpha1.ExecutionPending, 0, 0
	e.StartedAt, e.FinishedAt, e.Message, e.Left = nil, nil, "", 0
	if !e.Asleep {
		e.Namespaces = nil
	}
	if !e.Asleep || operation == v1alpha1.OperationShutdown { // which tells anew how many there are
		e.Resources = 0
	}
}

// state is how far a target is in an operation.
func state(e *execution, operation v1alpha1.Operation, now time.Time) dispatch.State {
	switch {
	case e.State == v1alpha1.ExecutionRunning:
		return dispatch.Running
	case e.Operation != operation, operation == v1alpha1.OperationWakeUp && !e.Asleep, e.State == v1alpha1.ExecutionCompleted:
		return dispatch.Completed // or nothing to be done
	case never(e) || failed(e) && rests(e, now) > 0:
		return dispatch.Failed // and what does not rest on it goes on
	case failing(e) && rests(e, now) > 0:
		return dispatch.Waiting
	case failing(e):
		return dispatch.Again
	}
	return dispatch.Pending
}

// ofDispatch is the operation as package dispatch knows it.
func ofDispatch(operation v1alpha1.Operation) dispatch.Operation {
	if operation == v1alpha1.OperationWakeUp {
		return dispatch.WakeUp
	}
	return dispatch.Shutdown
}

// ask is what is asked of an order: which operation, of the targets that count. Those that are spared keep no others
// waiting once they have failed, nor while they are tried again.
type ask struct {
	operation              v1alpha1.Operation
	policy                 dispatch.Policy
	counts, spared, failed func(*execution) bool
	// held says that an attempt could not begin now.
	held func(*execution) bool
}

// look asks what is to be started of some targets, and when to ask again; 0 is when something has happened. What has failed as often as
// it may is tried again when nothing else is to be started: by then it is due, each time that another such one has had its time. That
// which has waited for the longest goes first.
func look(order *dispatch.Order, entries []execution, a ask, now time.Time) (dispatch.Step, time.Duration) {
	states, wait := make([]dispatch.State, len(entries)), time.Duration(0)
	var again []int
	for i := range entries {
		states[i] = dispatch.Completed
		e := &entries[i]
		if !a.counts(e) {
			continue
		}
		states[i] = state(e, a.operation, now)
		if states[i] == dispatch.Waiting || states[i] == dispatch.Failed && !never(e) {
			wait = kube.Sooner(wait, rests(e, now))
		}
		if states[i] == dispatch.Pending && failed(e) {
			if states[i] = dispatch.Failed; !a.held(e) {
				again = append(again, i)
			}
		}
		if tried := states[i] == dispatch.Running && a.failed(e); (tried || states[i] == dispatch.Failed) && a.spared(e) {
			states[i] = dispatch.Completed
		}
	}
	step := order.Next(ofDispatch(a.operation), states, a.policy)
	if len(step.Start) > 0 || len(again) == 0 {
		return step, wait
	}
	return longestFirst(order, entries, states, again, a), wait
}

// longestFirst is what is to be started of targets that have failed and are due again: those that have waited for the longest.
func longestFirst(order *dispatch.Order, entries []execution, states []dispatch.State, again []int, a ask) dispatch.Step {
	next := func(some []int) dispatch.Step {
		of := slices.Clone(states)
		for _, i := range some {
			of[i] = dispatch.Pending
		}
		return order.Next(ofDispatch(a.operation), of, a.policy)
	}
	all := next(again)
	slices.SortStableFunc(again, func(x, y int) int { return endOf(&entries[x]).Compare(endOf(&entries[y])) })
	if len(all.Start) == 0 {
		return all
	}
	for n := len(all.Start); n < min(len(again), len(all.Start)+maxOffers); n++ { // those behind others that sleep cannot begin
		if some := next(again[:n]); len(some.Start) == len(all.Start) {
			return some
		}
	}
	return all
}

// maxOffers is how many that cannot begin are looked past for those that have waited for the longest.
const maxOffers = 100

// endOf is when an attempt has ended; zero where none has.
func endOf(e *execution) time.Time {
	if e.FinishedAt == nil {
		return time.Time{}
	}
	return e.FinishedAt.Time
}

func anyOf(entries []execution, is func(*execution) bool) bool {
	return slices.ContainsFunc(entries, func(e execution) bool { return is(&e) })
}

func running(e *execution) bool { return e.State == v1alpha1.ExecutionRunning }
func asleep(e *execution) bool  { return e.Asleep }
func failed(e *execution) bool  { return e.State == v1alpha1.ExecutionFailed }
func every(*execution) bool     { return true }

// toldAsleep says whether a target counts as asleep: one that has failed before it had a restore point is awake.
func toldAsleep(e *execution) bool { return asleep(e) && (e.Kept || !failed(e)) }

// lastEnd is when an attempt has ended last; zero where none has.
func lastEnd(entries []execution) (last time.Time) {
	for i := range entries {
		if at := entries[i].FinishedAt; at != nil && at.After(last) {
			last = at.Time
		}
	}
	return last
}

// under is how many attempts are under way.
func under(entries []execution) (n int) {
	for i := range entries {
		if running(&entries[i]) {
			n++
		}
	}
	return n
}

// empty says whether a target sleeps in which there was nothing.
func empty(e *execution) bool {
	return e.Asleep && e.Operation == v1alpha1.OperationShutdown && e.State == v1alpha1.ExecutionCompleted && e.Resources == 0
}

// helped says whether what a Job of the target needed may still be there.
func helped(e *execution) bool { return e.ServiceAccountRef != "" || e.ConnectorSecretRef != "" }

// busy says whether an attempt at the target runs, or is to be cleared away.
func busy(e *execution) bool { return running(e) || helped(e) }

// spent says whether there is a restore point that is not needed any more.
func spent(e *execution) bool { return !e.Asleep && e.RestoreConfigMapRef != "" }
