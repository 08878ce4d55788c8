package runner

import (
	"context"
	"fmt"
	"slices"

	"github.com/labkeeper/labkeeper/internal/restore"
)

// wakeUp brings back what is still to be restored, in the reverse of the order that it was captured in.
func (r *run) wakeUp() error {
	open := r.point.Open()
	slices.Reverse(open)
	if err := r.each("waking up", "Woken", open, r.bringBack); err != nil {
		return err
	}
	// Those of an attempt before, too: it may have ended before they were there.
	return r.settle(slices.DeleteFunc(slices.Clone(r.point.Resources), func(resource restore.Resource) bool { return resource.State != restore.Restored }))
}

// bringBack is the return of one resource, or why it is left.
func (r *run) bringBack(ctx context.Context, resource restore.Resource) (left string, err error) {
	ending, err := r.target.WakeUp(ctx, resource)
	if err != nil {
		return "", err
	}
	if ending.State != restore.Restored && ending.State != restore.Left {
		return "", fmt.Errorf("its executor says %q of it, which is neither restored nor left", ending.State)
	}
	r.point.End(resource.Key, ending.State, cut(ending.Note, maxNote))
	return ending.Note, nil
}
