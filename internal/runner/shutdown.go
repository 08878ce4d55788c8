package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/restore"
)

// shutdown puts the target to sleep: all is captured, and that is written, before anything is changed.
func (r *run) shutdown() error {
	if err := r.capture(); err != nil {
		return r.orStopped(err)
	}
	asleep := r.ours()
	r.resources = len(asleep)
	if err := r.each("shutting down", "Put to sleep", asleep, r.putToSleep); err != nil {
		return err
	}
	return r.settle(slices.DeleteFunc(r.ours(), func(resource restore.Resource) bool { return gone(resource.Slept) }))
}

// ours are those of the point that are put to sleep. What was put to sleep before, and the target has no more, stays as it is, awake or
// not: somebody may have taken it out of the target, and woken it, since the attempt before.
func (r *run) ours() []restore.Resource {
	return slices.DeleteFunc(r.point.Open(), func(resource restore.Resource) bool { return resource.Former })
}

// capture takes in how the resources are, and writes that.
func (r *run) capture() error {
	found, err := r.target.Snapshot(r.stop)
	if err != nil {
		return fmt.Errorf("listing resources: %w", err)
	}
	if r.point == nil || len(r.point.Open()) == 0 {
		r.point = &restore.Point{Plan: r.task.Plan, Target: r.task.Target, Executor: r.task.Type, Cycle: r.task.Cycle, Cluster: r.cluster}
	}
	former := r.former()
	r.point.Cycle = r.task.Cycle
	for i := range r.point.Resources {
		resource := &r.point.Resources[i]
		// Unless it is listed. Of what no attempt has said that it sleeps, one that was killed may have put it to sleep.
		resource.Former = resource.Former || former || resource.Slept != nil
	}
	for _, resource := range found {
		first, err := executor.Capture(r.target, r.point, resource, former)
		if err != nil {
			return err
		}
		if first {
			r.captured[resource.Key] = true
		}
		r.point.Resource(resource.Key).Former = false
	}
	r.point.Forget(func(resource restore.Resource) bool { return resource.Over() })
	if err := r.room(); err != nil {
		return err
	}
	// It is written even where nothing is new: who cannot write must not change anything.
	return r.save(r.stop, nil)
}

// former says whether the point is that of a cycle, or a turn to sleep, before. A number, or a cycle without its turn, as runners of before
// have written, says nothing of that.
func (r *run) former() bool {
	_, err := strconv.Atoi(r.point.Cycle)
	turn := strings.LastIndexByte(r.task.Cycle, '.')
	return r.point.Cycle != r.task.Cycle && r.point.Cycle != r.task.Cycle[:max(0, turn)] && err != nil
}

// room refuses a point that would be too large once it says what was made of the resources, which is taken to be as
// long as what they were.
func (r *run) room() error {
	grown := *r.point
	grown.Resources = slices.Clone(grown.Resources)
	for i := range grown.Resources {
		if resource := &grown.Resources[i]; resource.Slept == nil {
			resource.Slept = resource.Before
		}
	}
	if _, err := grown.Encode(); err != nil {
		return fmt.Errorf("saving restore point: %w", err)
	}
	return nil
}

// putToSleep is the change of one resource, or why there is none.
func (r *run) putToSleep(ctx context.Context, resource restore.Resource) (left string, err error) {
	fresh := r.captured[resource.Key]
	delete(r.captured, resource.Key)
	var unsaved error
	slept, err := executor.PutToSleep(ctx, r.target, r.point, resource.Key, fresh, func() error {
		unsaved = r.save(ctx, nil)
		return unsaved
	})
	if unsaved != nil {
		return "", &endError{unsaved}
	}
	if err != nil {
		return "", err
	}
	is := gone(slept)
	if is && resource.Slept != nil {
		slept = resource.Slept // it was there when it was put to sleep: who wakes it looks for that
	}
	r.point.Slept(resource.Key, slept)
	switch {
	case is:
		return "it is gone", nil
	case r.point.Resource(resource.Key).AsFound():
		return "it was asleep", nil
	}
	return "", nil
}

func gone(slept json.RawMessage) bool { return bytes.Equal(slept, executor.Gone) }
