package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/labkeeper/labkeeper/internal/conditions"
)

// Silence records no Events.
var Silence events.EventRecorder = silence{}

type silence struct{}

// Eventf does nothing.
func (silence) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}

// Event is something that happened to an object.
type Event struct {
	// Type is Normal or Warning (corev1.EventTypeNormal, corev1.EventTypeWarning).
	Type string
	// Reason in CamelCase.
	Reason string
	// Subject is the part of the object that it happened to; empty is the object itself.
	// Events of one reason and one subject are taken for repetitions.
	Subject string
	// Message names the thing; it is cut and put on one line, as that of a condition: the API server takes no longer one.
	Message string
}

// action is what the events API calls the action; it tells events of one reason apart.
func (e Event) action() string {
	if e.Subject == "" {
		return "Reconcile"
	}
	return "Reconcile/" + e.Subject
}

// finishTimeout is for what must not be lost to a pass that took all the time there was, such as the writes of
// Finish: as long as the API server takes for a request at most, of which it waits 10 to 30 s for each
// webhook that hangs, and goes on if that one is to be ignored.
const finishTimeout = time.Minute

// stoppedTimeout is how much of that is left in a manager that is being stopped, which does not wait for much longer.
const stoppedTimeout = 10 * time.Second

// afresh is the context of a pass with that time, whatever the pass has left of its own.
func afresh(pass context.Context) (ctx context.Context, cancel context.CancelFunc) {
	ctx, end := context.WithTimeout(context.WithoutCancel(pass), finishTimeout)
	forget := context.AfterFunc(pass, func() {
		if stopping(pass) {
			time.AfterFunc(stoppedTimeout, end)
		}
	})
	return ctx, func() {
		forget()
		end()
	}
}

// Outcome is what a pass over an object came to.
type Outcome struct {
	// Wait is when to look again, from now; 0 is when something changes.
	Wait time.Duration
	// Due is when to look again whatever fails; 0 is when that is tried again. It is for a reconciler that Due wraps.
	Due time.Duration
	// Done says that everything the finalizer stands for is gone.
	Done bool
	// Events that happened.
	Events []Event
	// Err is tried again with growing delays.
	Err error
	// Strict has a status refused of which the server would not keep all, rather than told of afterwards.
	Strict bool
	// Told learns which status was written; it may be nil.
	Told *Told
	// Conditions are those of the object, whose Ready says what keeps the finalizer from being taken off, at the time Now; nil has
	// only an Event say so.
	Conditions Conditions
	// Now is the time of the pass.
	Now time.Time
	// Written is called when the status has been written, and before the finalizer goes; it may be nil.
	Written func(context.Context)
	// TooLarge is called when the status was refused because the object would be larger than the server keeps; it may be nil.
	TooLarge func(context.Context)
}

// Conditions are those in the status of an object of some kind.
type Conditions func(client.Object) *[]metav1.Condition

// EnsureFinalizer adds the finalizer to an object that is not being deleted. The patch
// carries the resourceVersion, because a list of finalizers is replaced whole. Without it there is no pass that could say what is wrong:
// that it is refused, by somebody's admission policy for instance, the condition Ready says.
func EnsureFinalizer(ctx context.Context, c client.Client, o client.Object, finalizer string, of Conditions, now time.Time, told *Told) error {
	if o.GetDeletionTimestamp() != nil || controllerutil.ContainsFinalizer(o, finalizer) {
		return nil
	}
	err := patchFinalizers(ctx, c, o, append(slices.Clone(o.GetFinalizers()), finalizer))
	if err == nil {
		return nil
	}
	err = fmt.Errorf("adding the finalizer %s: %w", finalizer, err)
	if !concerns(ctx, err) {
		return err
	}
	return unready(ctx, c, o, conditions.False(conditionReady, Reason(err), Message(err)), err, of, now, told)
}

// concerns says whether an error is one to tell of: not that the object is another by now, or gone, or the manager about to be.
func concerns(pass context.Context, err error) bool {
	return client.IgnoreNotFound(err) != nil && !Conflict(err) && !stopping(pass)
}

// unready has an object say so, once, and is the error that it is about.
func unready(ctx context.Context, c client.Client, o client.Object, ready conditions.Step, why error, of Conditions, now time.Time, told *Told) error {
	ctx, cancel := afresh(ctx)
	defer cancel()
	before := o.DeepCopyObject().(client.Object)
	if conditions.Set(of(o), ready, o.GetGeneration(), now); equality.Semantic.DeepEqual(before, o) {
		return why
	}
	if _, err := patchStatus(ctx, c, before, o, Outcome{Told: told}); concerns(ctx, err) {
		return errors.Join(why, fmt.Errorf("patching status: %w", err))
	}
	return why
}

// Unprotected lets objects through that somebody has taken the finalizer off, or replaced by a manifest without it:
// deleted now, they would leave behind what it stands for.
func Unprotected(finalizer string) predicate.Predicate {
	return predicate.NewPredicateFuncs(func(o client.Object) bool {
		return o.GetDeletionTimestamp() == nil && !controllerutil.ContainsFinalizer(o, finalizer)
	})
}

// Expire deletes an object as it was looked at, and no other version of it: one whose time has been extended
// meanwhile stays.
func Expire(ctx context.Context, c client.Client, o client.Object) error {
	err := c.Delete(ctx, o.DeepCopyObject().(client.Object), client.Preconditions{
		UID: ptr.To(o.GetUID()), ResourceVersion: ptr.To(o.GetResourceVersion()),
	})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting what has expired: %w", err)
	}
	return nil
}

// errNotKept says that something of a status was pruned.
var errNotKept = errors.New("the server does not keep all of it; apply the CustomResourceDefinitions of this version")

// pruned says whether the server's answer lacks anything of the status that was wanted. What differs but for
// what a write changes itself is compared as JSON, where times are whole seconds.
func pruned(wanted, written client.Object) bool {
	same := wanted.DeepCopyObject().(client.Object)
	same.GetObjectKind().SetGroupVersionKind(written.GetObjectKind().GroupVersionKind())
	same.SetResourceVersion(written.GetResourceVersion())
	same.SetManagedFields(written.GetManagedFields())
	if equality.Semantic.DeepEqual(same, written) {
		return false
	}
	status := func(o client.Object) any {
		var content struct {
			Status any `json:"status"`
		}
		raw, err := json.Marshal(o)
		if err == nil {
			err = json.Unmarshal(raw, &content)
		}
		if err != nil {
			return err
		}
		return content.Status
	}
	return !equality.Semantic.DeepEqual(status(wanted), status(written))
}

// Finish is the one exit of a reconciler: it patches the status once if it differs, emits
// the events, and with no error drops the finalizer last. If the status patch fails, only
// that error is returned: joined with a terminal one it would never be tried again. What is
// nobody's concern, conflicts and the errors of a manager that is being stopped, is returned
// before anything is written or said.
func Finish(ctx context.Context, c client.Client, recorder events.EventRecorder, before, after client.Object, finalizer string, out Outcome) (reconcile.Result, error) {
	failed := reconcile.Result{RequeueAfter: out.Due}
	if out.Err != nil && (Conflict(out.Err) || stopping(ctx)) {
		return failed, out.Err
	}
	pass := ctx
	ctx, cancel := afresh(pass)
	defer cancel()
	out.keep(before, after, finalizer)
	written, others := after.DeepCopyObject().(client.Object), false // a patch overwrites its argument with the server's answer
	if !equality.Semantic.DeepEqual(before, after) {
		var err error
		if others, err = record(ctx, c, before, after, written, out); apierrors.IsNotFound(err) { // gone meanwhile: nobody is left to tell
			return reconcile.Result{}, nil
		} else if err != nil {
			if TooLarge(err) { // its status cannot say so
				tell(recorder, after, tooLarge)
				if out.TooLarge != nil {
					out.TooLarge(ctx)
				}
			}
			return failed, fmt.Errorf("patching status: %w", err)
		}
	}
	for _, e := range out.Events {
		tell(recorder, after, e)
	}
	if out.Err != nil {
		return failed, out.Err
	}
	if out.Done && controllerutil.ContainsFinalizer(written, finalizer) {
		err := letGo(ctx, c, written, finalizer, out.Told)
		if concerns(pass, err) {
			err = out.held(ctx, c, recorder, written, err)
		}
		return reconcile.Result{}, err
	}
	if others {
		return reconcile.Result{RequeueAfter: time.Millisecond}, nil
	}
	return reconcile.Result{RequeueAfter: out.Wait}, nil
}

// tooLarge is what happens to an object that others have made so large that the server keeps no status of it that says more.
var tooLarge = Event{Type: corev1.EventTypeWarning, Reason: ReasonStatusTooLarge, Message: "The status is refused, as the object would be larger than the server keeps; " +
	"until annotations are taken off it, or its spec is made smaller, what would have to be recorded there waits"}

func tell(recorder events.EventRecorder, o client.Object, e Event) {
	recorder.Eventf(o, nil, e.Type, e.Reason, e.action(), "%s", conditions.Line(e.Message))
}

// record writes a status, and says whether it has heard of those of others meanwhile.
func record(ctx context.Context, c client.Client, before, after, written client.Object, out Outcome) (others bool, err error) {
	others, err = patchStatus(ctx, c, before, written, out)
	switch {
	case out.Done && out.Err == nil && Unkept(err): // which must not keep what has nothing left to wait for
		return others, nil
	case err != nil:
		return others, err
	case !out.Done && pruned(after, written): // another pass would want the same, and maybe at once
		return others, errNotKept
	case out.Written != nil:
		out.Written(ctx)
	}
	return others, nil
}

// Unkept says whether the server does not keep a status, whatever is tried: it is too large, pruned, or somebody's policy, or a right that
// is gone, refuses it.
func Unkept(err error) bool {
	return TooLarge(err) || errors.Is(err, errNotKept) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err)
}

// TooLarge says whether an object was refused because it would have been larger than the server keeps.
func TooLarge(err error) bool {
	if err == nil {
		return false
	}
	// The server's own client of etcd has a limit, too, and says so in its own words.
	return apierrors.IsRequestEntityTooLargeError(err) || strings.Contains(err.Error(), "etcdserver: request is too large") ||
		strings.Contains(err.Error(), "trying to send message larger than max")
}

// letGo drops the finalizer.
func letGo(ctx context.Context, c client.Client, o client.Object, finalizer string, told *Told) error {
	keep := slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool { return f == finalizer })
	if err := client.IgnoreNotFound(patchFinalizers(ctx, c, o, keep)); err != nil {
		return fmt.Errorf("%s: %w", takingOff(finalizer), err)
	}
	told.letGo(o.GetUID())
	return nil
}

func takingOff(finalizer string) string { return "taking the finalizer " + finalizer + " off" }

// held tells that an object stays which has nothing left to wait for. Ready keeps its reason: there is no other step.
func (o Outcome) held(ctx context.Context, c client.Client, recorder events.EventRecorder, written client.Object, err error) error {
	tell(recorder, written, Event{Type: corev1.EventTypeWarning, Reason: Reason(err), Message: Message(err)})
	if o.Conditions == nil {
		return err
	}
	reason := Reason(err)
	if was := meta.FindStatusCondition(*o.Conditions(written), conditionReady); was != nil && was.Status == metav1.ConditionFalse {
		reason = was.Reason
	}
	return unready(ctx, c, written, conditions.False(conditionReady, reason, Message(err)), err, o.Conditions, o.Now, o.Told)
}

// keep leaves what Ready says of that as it is until the finalizer has been tried again, rather than having it say by turns that all is gone.
func (o Outcome) keep(before, after client.Object, finalizer string) {
	if o.Conditions == nil || !o.Done || o.Err != nil {
		return
	}
	was := meta.FindStatusCondition(*o.Conditions(before), conditionReady)
	if was != nil && strings.HasPrefix(was.Message, Message(errors.New(takingOff(finalizer)))) {
		meta.SetStatusCondition(o.Conditions(after), *was)
	}
}

// patchStatus writes a status, and says whether it has heard of those of others meanwhile.
func patchStatus(ctx context.Context, c client.Client, before, written client.Object, out Outcome) (others bool, err error) {
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	opts := []client.SubResourcePatchOption{client.FieldOwner(FieldOwner)}
	if out.Strict && !out.Done {
		opts = append(opts, client.FieldValidation("Strict"))
	}
	others = out.Told.Write(written.GetUID(), func() string {
		if err = c.Status().Patch(ctx, written, patch, opts...); err != nil {
			return ""
		}
		return written.GetResourceVersion()
	})
	if (apierrors.IsBadRequest(err) || apierrors.IsInvalid(err)) && strings.Contains(err.Error(), "unknown field") {
		err = errNotKept
	}
	return others, err
}

func patchFinalizers(ctx context.Context, c client.Client, o client.Object, finalizers []string) error {
	before := o.DeepCopyObject().(client.Object)
	patched := o.DeepCopyObject().(client.Object)
	patched.SetFinalizers(finalizers)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, patched, patch, client.FieldOwner(FieldOwner)); err != nil {
		return err
	}
	o.SetFinalizers(patched.GetFinalizers())
	o.SetResourceVersion(patched.GetResourceVersion())
	return nil
}
