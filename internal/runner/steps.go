package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/restore"
)

// each does something with one resource after another, or says why it has left it as it was found. One that fails does
// not keep the others from being tried; the run stops early if it is told to, or if what it has done cannot be written.
func (r *run) each(doing, did string, resources []restore.Resource, do func(context.Context, restore.Resource) (left string, err error)) error {
	var failed []string
	var reason string
	for i, resource := range resources {
		if why := stopped(r.stop); why != nil {
			return fmt.Errorf("%w: %s ended after %d of %d resources%s", why, doing, i, len(resources), told(failed))
		}
		left, err := do(r.work, resource)
		if end, is := errors.AsType[*endError](err); is {
			return fmt.Errorf("%w%s", end.error, told(failed))
		}
		r.deps.Reporter.Report(Progress{Key: resource.Key, N: i + 1, Of: len(resources), Did: did, Left: left, Err: err})
		if err != nil {
			failed = append(failed, resource.Key+": "+err.Error())
			if reason == "" || reasonOf(err) == ReasonForbidden {
				reason = reasonOf(err)
			}
		} else {
			r.done++
		}
		if err := r.dealt(); err != nil {
			return fmt.Errorf("%w%s", err, told(failed))
		}
	}
	if len(failed) > 0 {
		return r.orStopped(failure(reason, "%s %d of %d resources: %s", doing, len(failed), len(resources), list(failed)))
	}
	return nil
}

// endError is that what was found, or done, cannot be written: nothing more is done.
type endError struct{ error }

// told is what has failed beside something worse.
func told(failed []string) string {
	if len(failed) == 0 {
		return ""
	}
	return "; before that: " + list(failed)
}

// about is what is missing.
func about(missing []string) string {
	if len(missing) == 0 {
		return ""
	}
	return ": " + list(missing)
}

// settle waits until the resources have come to where the operation takes them, at most until there is just the time for a last look at
// all of them.
func (r *run) settle(resources []restore.Resource) error {
	await := r.target.Await()
	if await <= 0 || len(resources) == 0 {
		return nil
	}
	// The waiting may be long, and what was done is known now.
	if r.unsaved > 0 {
		if err := r.save(r.work, nil); err != nil {
			return err
		}
	}
	end, spare, took := r.deps.Clock.Now().Add(await), min(maxSpare, r.task.Deadline/10), time.Duration(0)
	for pause := time.Second; ; pause = min(pause*3/2, 15*time.Second) {
		var missing, causes []string
		now := r.deps.Clock.Now()
		left := min(end.Sub(now), r.task.Deadline-now.Sub(r.began)-took-spare) // the last look, too, is to be one at all
		if resources, missing, causes = r.unsettled(resources, left <= 0); len(resources) == 0 {
			return nil
		}
		took = r.deps.Clock.Since(now)
		why := stopped(r.stop)
		switch {
		case errors.Is(why, errInterrupted):
			return fmt.Errorf("%w: waiting for %d resources%s", why, len(resources), about(missing))
		case len(causes) == len(resources): // nothing else is waited for
			return failure(ReasonNotSettled, "%d resources do not stay asleep, %s%s", len(resources), list(slices.Compact(slices.Sorted(slices.Values(causes)))), about(missing))
		case why != nil || left <= 0:
			return failure(ReasonNotSettled, "waiting for %d resources%s", len(resources), about(missing))
		}
		r.log.Info("Waiting", "resources", len(resources), "missing", list(missing))
		_ = r.wait(r.stop, min(pause, max(0, left-took))) // what follows says why
	}
}

// unsettled are those of the resources that are not yet where they should be, or that there was no time to look at, what is missing,
// and what has woken those for which it is of no use to wait.
func (r *run) unsettled(resources []restore.Resource, late bool) (left []restore.Resource, missing, causes []string) {
	for i, resource := range resources {
		if stopped(r.stop) != nil {
			return append(left, resources[i:]...), missing, causes
		}
		problem, err := r.target.Settled(r.work, resource, late)
		if woken, is := errors.AsType[*executor.WokenError](err); is {
			problem, err, causes = woken.Problem, nil, append(causes, woken.Cause)
		}
		if err != nil {
			problem = err.Error()
		}
		if problem = strings.TrimSpace(problem); problem != "" {
			left, missing = append(left, resource), append(missing, resource.Key+": "+problem)
		}
	}
	return left, missing, causes
}
