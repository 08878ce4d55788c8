package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/labkeeper/labkeeper/test/fakes"
)

const (
	finalizer = "example.com/ours"
	others    = "example.com/theirs"
)

var podResource = schema.GroupResource{Resource: "pods"}

// podOf stands for a kind with a status.
func podOf(finalizers ...string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "p", UID: uid, Finalizers: finalizers}}
}

// desk is where Finish writes: it records writes and events in their order.
type desk struct {
	client.Client
	story   []string
	patches []string
	fail    map[string]error
	// written is called with what a patch came to, before its answer is there.
	written  func(client.Object)
	recorder recorder
}

type recorder struct{ d *desk }

func (r recorder) Eventf(_, _ runtime.Object, eventType, reason, action, note string, args ...any) {
	r.d.story = append(r.d.story, "event "+eventType+" "+reason+" "+action+" "+fmt.Sprintf(note, args...))
}

var _ events.EventRecorder = recorder{}

func newDesk(objects ...client.Object) *desk {
	d := &desk{fail: map[string]error{}}
	d.recorder = recorder{d}
	write := func(what string, o client.Object, p client.Patch, do func() error) error {
		data, err := p.Data(o)
		if err != nil {
			return err
		}
		d.story, d.patches = append(d.story, what), append(d.patches, string(data))
		if err := d.fail[what]; err != nil {
			return err
		}
		err = do()
		if d.written != nil {
			d.written(o)
		}
		return err
	}
	d.Client = fakes.NewClientBuilder().WithObjects(objects...).WithStatusSubresource(&corev1.Pod{}, &corev1.Service{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				return write("patch", o, p, func() error { return c.Patch(ctx, o, p, opts...) })
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				return write("patch "+sub, o, p, func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
			},
		}).Build()
	return d
}

// pod is the Pod as it is stored; nil when it is gone.
func (d *desk) pod(t *testing.T) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	err := d.Get(t.Context(), client.ObjectKeyFromObject(podOf()), pod)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// The API server refuses an Event whose note has more than 1,024 bytes, and nobody hears of what happened.
func TestLongEvent(t *testing.T) {
	d, long := newDesk(podOf()), strings.Repeat("name, ", 400)
	out := Outcome{Events: []Event{{Type: "Warning", Reason: "Lost", Message: "Lost are " + long}}}
	if _, err := Finish(t.Context(), d, d.recorder, podOf(), podOf(), finalizer, out); err != nil || len(d.story) != 1 {
		t.Fatalf("%v: %q", err, d.story)
	}
	note := strings.TrimPrefix(d.story[0], "event Warning Lost Reconcile ")
	if len(note) > 1024 || !strings.HasPrefix(note, "Lost are name, name, ") || !strings.HasSuffix(note, "...") {
		t.Errorf("%d bytes: %q", len(note), note)
	}
}

func TestFinish(t *testing.T) {
	say := func(p *corev1.Pod) { p.Status.Message = "new" }
	event := Event{Type: "Normal", Reason: "Happened", Message: "100% of x"}
	const told = "event Normal Happened Reconcile 100% of x"
	failure, denied := errors.New("failure"), apierrors.NewForbidden(podResource, "p", errors.New("no"))
	gone := apierrors.NewNotFound(podResource, "p")
	conflict := apierrors.NewConflict(podResource, "p", errors.New("modified"))
	tests := map[string]struct {
		change func(*corev1.Pod)
		out    Outcome
		fail   map[string]error
		story  []string
		wait   time.Duration
		err    error
		// left are the finalizers in the end.
		left []string
	}{
		"nothing changed": {nil, Outcome{Wait: time.Minute}, nil, nil, time.Minute, nil, []string{others, finalizer}},
		"status changed":  {say, Outcome{Wait: time.Minute, Events: []Event{event}}, nil, []string{"patch status", told}, time.Minute, nil, []string{others, finalizer}},
		"events without a change, of two subjects": {
			nil, Outcome{Events: []Event{event, {Type: "Warning", Reason: "Lost", Subject: "a", Message: "b"}}}, nil,
			[]string{told, "event Warning Lost Reconcile/a b"}, 0, nil, []string{others, finalizer},
		},
		"an error is told and returned, and ends the wait": {
			say, Outcome{Wait: time.Minute, Events: []Event{event}, Err: failure}, nil, []string{"patch status", told}, 0, failure, []string{others, finalizer},
		},
		"an error does not end what is due": {
			say, Outcome{Wait: time.Second, Due: time.Minute, Err: failure}, nil, []string{"patch status"}, time.Minute, failure, []string{others, finalizer},
		},
		"nor does a status that cannot be written": {
			say, Outcome{Wait: time.Second, Due: time.Minute}, map[string]error{"patch status": denied}, []string{"patch status"}, time.Minute, denied, []string{others, finalizer},
		},
		"nor a conflict": {
			say, Outcome{Wait: time.Second, Due: time.Minute, Err: conflict}, nil, nil, time.Minute, conflict, []string{others, finalizer},
		},
		"without an error it waits": {nil, Outcome{Wait: time.Second, Due: time.Minute}, nil, nil, time.Second, nil, []string{others, finalizer}},
		"a status that cannot be written is all there is": {
			say, Outcome{Done: true, Events: []Event{event}, Err: reconcile.TerminalError(failure)}, map[string]error{"patch status": denied},
			[]string{"patch status"}, 0, denied, []string{others, finalizer},
		},
		"a conflict stays one": {
			say, Outcome{Events: []Event{event}}, map[string]error{"patch status": conflict}, []string{"patch status"}, 0, conflict, []string{others, finalizer},
		},
		"a conflict of before is all there is": {
			say, Outcome{Done: true, Events: []Event{event}, Err: fmt.Errorf("applying: %w", conflict)}, nil, nil, 0, conflict, []string{others, finalizer},
		},
		"gone meanwhile": {
			say, Outcome{Wait: time.Minute, Events: []Event{event}, Err: failure}, map[string]error{"patch status": gone},
			[]string{"patch status"}, 0, nil, []string{others, finalizer},
		},
		"done":            {say, Outcome{Done: true, Events: []Event{event}}, nil, []string{"patch status", told, "patch"}, 0, nil, []string{others}},
		"done, no change": {nil, Outcome{Done: true}, nil, []string{"patch"}, 0, nil, []string{others}},
		"done with an error": {
			say, Outcome{Done: true, Err: failure}, nil, []string{"patch status"}, 0, failure, []string{others, finalizer},
		},
		"done, the finalizer cannot be dropped": {
			nil, Outcome{Done: true}, map[string]error{"patch": denied},
			[]string{"patch", `event Warning Forbidden Reconcile Taking the finalizer example.com/ours off: ` + denied.Error()}, 0, denied, []string{others, finalizer},
		},
		"done, and gone meanwhile": {nil, Outcome{Done: true}, map[string]error{"patch": gone}, []string{"patch"}, 0, nil, []string{others, finalizer}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDesk(podOf(others, finalizer))
			for what, err := range test.fail {
				d.fail[what] = err
			}
			before := d.pod(t)
			after := before.DeepCopy()
			if test.change != nil {
				test.change(after)
			}
			untouched := after.DeepCopy()
			result, err := Finish(t.Context(), d, d.recorder, before, after, finalizer, test.out)
			if !errors.Is(err, test.err) || (err != nil) != (test.err != nil) {
				t.Errorf("the error is %v, want %v", err, test.err)
			}
			if errors.Is(err, reconcile.TerminalError(nil)) {
				t.Errorf("it would never be tried again: %v", err)
			}
			if result.RequeueAfter != test.wait {
				t.Errorf("it waits %s, want %s", result.RequeueAfter, test.wait)
			}
			if diff := cmp.Diff(test.story, d.story); diff != "" {
				t.Errorf("writes and events (-want +got):\n%s", diff)
			}
			for _, patch := range d.patches {
				if !strings.Contains(patch, `"resourceVersion":`) {
					t.Errorf("a patch of no particular version: %s", patch)
				}
			}
			if diff := cmp.Diff(test.left, d.pod(t).Finalizers); diff != "" {
				t.Errorf("finalizers (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(untouched, after); diff != "" {
				t.Errorf("the object (-before +after):\n%s", diff)
			}
		})
	}
}

// A status of others that comes while one is written is looked at, whatever there was to wait for.
func TestFinishWhileOthersWrite(t *testing.T) {
	for name, meanwhile := range map[string]func(told *Told, before, written client.Object){
		"others": func(told *Told, before, _ client.Object) { told.Wakes(before.GetUID(), "another") },
		"itself": func(told *Told, before, written client.Object) {
			told.Wakes(before.GetUID(), written.GetResourceVersion())
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, told := newDesk(podOf(others)), NewTold()
			before := d.pod(t)
			after := before.DeepCopy()
			after.Status.Message = "new"
			d.written = func(written client.Object) { meanwhile(told, before, written) }
			result, err := Finish(t.Context(), d, d.recorder, before, after, finalizer, Outcome{Wait: time.Minute, Told: told})
			want := time.Minute
			if name == "others" {
				want = time.Millisecond
			}
			if err != nil || result.RequeueAfter != want {
				t.Errorf("it waits %s, %v", result.RequeueAfter, err)
			}
		})
	}
}

// The last finalizer takes the object along; the status is written before.
func TestFinishOfTheLastFinalizer(t *testing.T) {
	pod := podOf(finalizer)
	pod.DeletionTimestamp = &metav1.Time{Time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	d := newDesk(pod)
	before := d.pod(t)
	after := before.DeepCopy()
	after.Status.Message = "new"
	if _, err := Finish(t.Context(), d, d.recorder, before, after, finalizer, Outcome{Done: true}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"patch status", "patch"}, d.story); diff != "" || d.pod(t) != nil {
		t.Errorf("it is still there; writes (-want +got):\n%s", diff)
	}
	if _, err := Finish(t.Context(), d, d.recorder, before, after, finalizer, Outcome{Done: true}); err != nil {
		t.Errorf("once more: %v", err)
	}
}

// A pass that took all the time there was still says what it came to, and longer than the API server waits for a webhook that
// hangs, or what nobody refuses would never be written while it does.
func TestFinishOfAPassThatIsOutOfTime(t *testing.T) {
	d := newDesk(podOf(finalizer))
	before := d.pod(t)
	after := before.DeepCopy()
	after.Status.Message = "new"
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	live := interceptor.NewClient(d.Client.(client.WithWatch), interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if deadline, _ := ctx.Deadline(); time.Until(deadline) < 35*time.Second {
				t.Errorf("the write has until %s, and a webhook up to 30 s", deadline)
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
	if _, err := Finish(ctx, live, d.recorder, before, after, finalizer, Outcome{}); err != nil || d.pod(t).Status.Message != "new" {
		t.Errorf("it is not written: %v", err)
	}
}

// A manager that is being stopped does not wait for a write that hangs for as long as one that runs.
func TestFinishOfAManagerThatIsStopped(t *testing.T) {
	d := newDesk(podOf(finalizer))
	before := d.pod(t)
	after := before.DeepCopy()
	after.Status.Message = "new"
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		const stop = 5 * time.Second
		time.AfterFunc(stop, cancel)
		hanging := interceptor.NewClient(d.Client.(client.WithWatch), interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, _ client.Client, _ string, _ client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
				<-ctx.Done()
				return ctx.Err()
			},
		})
		began := time.Now()
		if _, err := Finish(ctx, hanging, d.recorder, before, after, finalizer, Outcome{}); err == nil || time.Since(began) != stop+stoppedTimeout {
			t.Errorf("it takes %s: %v", time.Since(began), err)
		}
	})
}

func TestFinishDoesNotOverwriteWhatItHasNotSeen(t *testing.T) {
	d := newDesk(podOf(finalizer))
	before := d.pod(t)
	other := before.DeepCopy()
	other.Labels = map[string]string{"a": "b"}
	if err := d.Update(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	after := before.DeepCopy()
	after.Status.Message = "new"
	if _, err := Finish(t.Context(), d, d.recorder, before, after, finalizer, Outcome{}); !apierrors.IsConflict(err) {
		t.Errorf("status: %v", err)
	}
	if _, err := Finish(t.Context(), d, d.recorder, before, before.DeepCopy(), finalizer, Outcome{Done: true}); !apierrors.IsConflict(err) {
		t.Errorf("finalizer: %v", err)
	}
}

func TestEnsureFinalizer(t *testing.T) {
	deleted := podOf(others)
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	tests := map[string]struct {
		pod   *corev1.Pod
		story []string
		want  []string
	}{
		"none":                   {podOf(), []string{"patch"}, []string{finalizer}},
		"another's":              {podOf(others), []string{"patch"}, []string{others, finalizer}},
		"there already":          {podOf(finalizer, others), nil, []string{finalizer, others}},
		"note 33: being deleted": {deleted, nil, []string{others}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDesk(test.pod)
			pod := d.pod(t)
			pod.Status.Message = "of this pass"
			if err := EnsureFinalizer(t.Context(), d, pod, finalizer, nil, time.Time{}, nil); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.story, d.story); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			stored := d.pod(t)
			for what, got := range map[string]*corev1.Pod{"stored": stored, "in memory": pod} {
				if diff := cmp.Diff(test.want, got.Finalizers); diff != "" {
					t.Errorf("finalizers, %s (-want +got):\n%s", what, diff)
				}
			}
			if pod.ResourceVersion != stored.ResourceVersion || pod.Status.Message != "of this pass" {
				t.Errorf("in memory it is version %s, not %s; its message is %q", pod.ResourceVersion, stored.ResourceVersion, pod.Status.Message)
			}
			for _, patch := range d.patches {
				if !strings.Contains(patch, `"resourceVersion":`) {
					t.Errorf("a list of finalizers is replaced whole: %s", patch)
				}
			}
		})
	}
}

// refusedFinalizer sets the finalizer of a Service, which stands for a kind with conditions, or takes it off.
func refusedFinalizer(t *testing.T, d *desk, off bool) error {
	t.Helper()
	of := func(o client.Object) *[]metav1.Condition { return &o.(*corev1.Service).Status.Conditions }
	o := &corev1.Service{}
	if err := d.Get(t.Context(), client.ObjectKey{Namespace: "lab", Name: "s"}, o); err != nil {
		t.Fatal(err)
	}
	if !off {
		return EnsureFinalizer(t.Context(), d, o, finalizer, of, time.Now(), nil)
	}
	_, err := Finish(t.Context(), d, d.recorder, o, o.DeepCopy(), finalizer, Outcome{Done: true, Conditions: of, Now: time.Now()})
	return err
}

// That a finalizer is refused is told, once, and is the error still.
func TestRefusedFinalizersAreTold(t *testing.T) {
	forbidden := apierrors.NewForbidden(podResource, "p", errors.New("no rights"))
	for name, test := range map[string]struct {
		err error
		// telling is why the status is refused.
		telling error
		told    bool
	}{
		"forbidden":                {err: forbidden, told: true},
		"another":                  {err: errors.New("hangs"), told: true},
		"a conflict":               {err: apierrors.NewConflict(podResource, "p", errors.New("modified"))},
		"gone":                     {err: apierrors.NewNotFound(podResource, "p")},
		"forbidden, as all is":     {err: forbidden, telling: apierrors.NewForbidden(podResource, "p", errors.New("none at all")), told: true},
		"forbidden, and then gone": {err: forbidden, telling: apierrors.NewNotFound(podResource, "p")},
	} {
		for _, going := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, being deleted: %t", name, going), func(t *testing.T) {
				service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "s", UID: uid}}
				if going {
					service.Finalizers, service.DeletionTimestamp = []string{finalizer}, &metav1.Time{Time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
				}
				d := newDesk(service)
				d.fail["patch"], d.fail["patch status"] = test.err, test.telling
				for range 2 {
					err := refusedFinalizer(t, d, going)
					if lost := going && apierrors.IsNotFound(test.err); lost != (err == nil) || !lost && !errors.Is(err, test.err) {
						t.Errorf("the error is %v", err)
					}
					if all := apierrors.IsForbidden(test.telling); all && !strings.Contains(err.Error(), "none at all") {
						t.Errorf("the error is %v", err)
					}
				}
				want := map[bool]int{true: 1}[test.told]
				if writes := strings.Count(strings.Join(d.story, "\n"), "patch status"); test.telling == nil && writes != want {
					t.Errorf("it is written %d times: %q", writes, d.story)
				}
			})
		}
	}
}

func TestQuietConflicts(t *testing.T) {
	conflict := apierrors.NewConflict(podResource, "p", errors.New("modified"))
	failure := errors.New("failure")
	again := reconcile.Result{Requeue: true} //nolint:staticcheck // backs off without an error
	tests := map[string]struct {
		result reconcile.Result
		err    error
		want   reconcile.Result
		loud   bool
	}{
		"nothing":              {reconcile.Result{RequeueAfter: time.Hour}, nil, reconcile.Result{RequeueAfter: time.Hour}, false},
		"conflict":             {reconcile.Result{}, conflict, again, false},
		"wrapped conflict":     {reconcile.Result{}, fmt.Errorf("patching status: %w", conflict), again, false},
		"two conflicts":        {reconcile.Result{}, errors.Join(conflict, conflict), again, false},
		"conflict and more":    {reconcile.Result{}, errors.Join(conflict, failure), reconcile.Result{}, true},
		"another error":        {reconcile.Result{}, failure, reconcile.Result{}, true},
		"already exists":       {reconcile.Result{}, apierrors.NewAlreadyExists(podResource, "p"), reconcile.Result{}, true},
		"an error with a wait": {reconcile.Result{RequeueAfter: time.Hour}, failure, reconcile.Result{RequeueAfter: time.Hour}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := QuietConflicts(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return test.result, test.err }))
			result, err := r.Reconcile(t.Context(), reconcile.Request{})
			if diff := cmp.Diff(test.want, result); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if test.loud && !errors.Is(err, test.err) || !test.loud && err != nil {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// What a manager that is being stopped could not finish is no error.
func TestStoppedPassesAreQuiet(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	r := QuietConflicts(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{}, ctx.Err()
	}))
	if result, err := r.Reconcile(ctx, reconcile.Request{}); err != nil || !result.IsZero() {
		t.Errorf("it comes to %v, %v", result, err)
	}
}

// A server with a CustomResourceDefinition that is older than the manager prunes what it does not know, of
// all or of a part of what is new: to want it again, at once, would never end. What ends does.
func TestNote22FinishWithAStatusThatIsNotKept(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		done   bool
		want   error
	}{"nothing": {"", false, errNotKept}, "a part": {"kept", false, errNotKept}, "at the end": {"", true, nil}} {
		t.Run(name, func(t *testing.T) {
			o := podOf(finalizer, others)
			c := interceptor.NewClient(fakes.NewClientBuilder().WithStatusSubresource(o).WithObjects(o).Build(), interceptor.Funcs{
				SubResourcePatch: func(ctx context.Context, c client.Client, _ string, o client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
					err := c.Get(ctx, client.ObjectKeyFromObject(o), o)
					o.(*corev1.Pod).Status.Reason = test.reason
					return err
				},
			})
			before := podOf()
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), before); err != nil {
				t.Fatal(err)
			}
			after := before.DeepCopy()
			after.Status.Message, after.Status.Reason = "superseded", test.reason
			result, err := Finish(t.Context(), c, Silence, before, after, finalizer, Outcome{Wait: AtOnce, Done: test.done})
			if !errors.Is(err, test.want) || result.RequeueAfter != 0 {
				t.Errorf("it is %+v, %v", result, err)
			}
		})
	}
}
