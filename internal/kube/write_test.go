package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/labkeeper/labkeeper/test/fakes"
)

var widgetGVK = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}

// widget is one of our owner's unless it is changed.
func widget(change ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	u := Empty(widgetGVK)
	u.SetNamespace("lab")
	u.SetName("w")
	u.Object["spec"] = map[string]any{"size": int64(1), "parts": []any{"a", "b"}, "box": map[string]any{"color": "red"}}
	marks.Set(ownerOf("tutorial", uid), u)
	for _, c := range change {
		c(u)
	}
	return u
}

// set sets the field at a path, or removes it.
func set(value any, path ...string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		if value == nil {
			unstructured.RemoveNestedField(u.Object, path...)
		} else if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
			panic(err)
		}
	}
}

func foreign(u *unstructured.Unstructured) {
	u.SetLabels(map[string]string{marks.UID: "another", marks.Name: "tutorial"})
}

func TestUpToDate(t *testing.T) {
	label := func(key, value string) func(*unstructured.Unstructured) {
		return set(value, "metadata", "labels", key)
	}
	finalizers := func(f ...string) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) { u.SetFinalizers(f) }
	}
	type changes = []func(*unstructured.Unstructured)
	tests := map[string]struct {
		live, desired changes
		want          bool
	}{
		"same":                         {nil, nil, true},
		"more fields":                  {changes{set("x", "spec", "given"), set("y", "spec", "box", "given"), set("z", "status", "phase")}, nil, true},
		"more labels and annotations":  {changes{label("a", "b"), set("d", "metadata", "annotations", "c")}, nil, true},
		"finalizers of others":         {changes{finalizers("ours", "theirs")}, changes{finalizers("ours")}, true},
		"finalizer missing":            {changes{finalizers("theirs")}, changes{finalizers("ours")}, false},
		"value":                        {changes{set(int64(2), "spec", "size")}, nil, false},
		"value further down":           {changes{set("blue", "spec", "box", "color")}, nil, false},
		"type of a value":              {changes{set("1", "spec", "size")}, nil, false},
		"field missing":                {changes{set(nil, "spec", "box", "color")}, nil, false},
		"map missing":                  {changes{set(nil, "spec", "box")}, nil, false},
		"everything missing":           {changes{set(nil, "spec")}, nil, false},
		"empty map for none":           {changes{set(nil, "spec", "box")}, changes{set(map[string]any{}, "spec", "box")}, true},
		"empty map for a value":        {changes{set("x", "spec", "box")}, changes{set(map[string]any{}, "spec", "box")}, false},
		"list longer":                  {changes{set([]any{"a", "b", "c"}, "spec", "parts")}, nil, false},
		"list shorter":                 {changes{set([]any{"a"}, "spec", "parts")}, nil, false},
		"list in another order":        {changes{set([]any{"b", "a"}, "spec", "parts")}, nil, false},
		"label missing":                {changes{set(nil, "metadata", "labels", marks.Name)}, nil, false},
		"label changed":                {changes{label(marks.Name, "x")}, nil, false},
		"annotation missing":           {changes{set(nil, "metadata", "annotations")}, nil, false},
		"version and UID do not count": {changes{set("9", "metadata", "resourceVersion"), set("x", "metadata", "uid")}, nil, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := UpToDate(widget(test.live...), widget(test.desired...)); got != test.want {
				t.Errorf("UpToDate is %t", got)
			}
		})
	}
}

// server is an API server in memory that knows Widgets, counts writes, and fails those that
// it is told to fail.
type server struct {
	client.WithWatch
	writes []string
	fail   map[string]error
	// deleted are the UID preconditions of deletions.
	deleted []types.UID
	// applied is what was applied.
	applied []string
}

func newServer(t *testing.T, objects ...client.Object) *server {
	t.Helper()
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(widgetGVK, meta.RESTScopeNamespace)
	s := &server{fail: map[string]error{}}
	write := func(verb string, do func() error) error {
		s.writes = append(s.writes, verb)
		if err := s.fail[verb]; err != nil {
			return err
		}
		return do()
	}
	s.WithWatch = fakes.NewClientBuilder().WithRESTMapper(mapper).WithReturnManagedFields().WithObjects(objects...).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				return write("create", func() error { return c.Create(ctx, o, opts...) })
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				return write("patch", func() error { return c.Patch(ctx, o, p, opts...) })
			},
			Apply: func(ctx context.Context, c client.WithWatch, a runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
				applied, err := json.Marshal(a)
				if err != nil {
					return err
				}
				s.applied = append(s.applied, string(applied))
				return write("apply", func() error { return c.Apply(ctx, a, opts...) })
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				options := (&client.DeleteOptions{}).ApplyOptions(opts)
				if options.Preconditions != nil && options.Preconditions.UID != nil {
					s.deleted = append(s.deleted, *options.Preconditions.UID)
				}
				return write("delete", func() error { return c.Delete(ctx, o, opts...) })
			},
		}).Build()
	return s
}

func (s *server) writer() Writer {
	return Writer{Client: s, Marks: marks, Owner: ownerOf("tutorial", uid)}
}

// widget is the Widget as it is stored, without what the server adds.
func (s *server) widget(t *testing.T) map[string]any {
	t.Helper()
	u, err := Get(t.Context(), s, widgetGVK, types.NamespacedName{Namespace: "lab", Name: "w"})
	if err != nil || u == nil {
		t.Fatalf("reading it: %v, %v", u, err)
	}
	u.SetManagedFields(nil)
	u.SetResourceVersion("")
	u.SetUID("")
	u.SetCreationTimestamp(widget().GetCreationTimestamp())
	return u.Object
}

func withUID(u *unstructured.Unstructured) { u.SetUID("its-uid") }

func going(u *unstructured.Unstructured) {
	u.SetFinalizers([]string{"example.com/outside"})
	u.SetDeletionTimestamp(ptr.To(metav1.Now()))
}

func TestEnsure(t *testing.T) {
	tests := map[string]struct {
		there  []client.Object
		writes []string
		want   *unstructured.Unstructured
		taken  bool
	}{
		"nothing there":             {nil, []string{"create"}, widget(), false},
		"note 34: ours, as desired": {[]client.Object{widget(withUID)}, []string{"create"}, widget(), false},
		"ours, of before":           {[]client.Object{widget(withUID, set(int64(7), "spec", "size"))}, []string{"create", "apply"}, widget(), false},
		"note 39 and 40: another's": {[]client.Object{widget(withUID, foreign)}, []string{"create"}, widget(foreign), true},
		"nobody's":                  {[]client.Object{widget(withUID, set(nil, "metadata", "labels"))}, []string{"create"}, widget(set(nil, "metadata", "labels")), true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, test.there...)
			desired := widget()
			got, err := s.writer().Ensure(t.Context(), desired)
			var taken *NameTakenError
			if errors.As(err, &taken) != test.taken || (err != nil) != test.taken {
				t.Fatalf("the error is %v", err)
			}
			if test.taken && taken.Object != "Widget lab/w" {
				t.Errorf("it names %q", taken.Object)
			}
			if !test.taken && (!UpToDate(got, desired) || len(test.there) > 0 && got.GetUID() != "its-uid") {
				t.Errorf("it returns %v", got)
			}
			if diff := cmp.Diff(test.writes, s.writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if len(s.applied) > 0 && !strings.Contains(s.applied[0], `"uid":"its-uid"`) {
				t.Errorf("without the UID as a precondition: %s", s.applied[0])
			}
			if diff := cmp.Diff(test.want.Object, s.widget(t)); diff != "" {
				t.Errorf("Widget (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(widget().Object, desired.Object); diff != "" {
				t.Errorf("the argument (-before +after):\n%s", diff)
			}
		})
	}
}

// A create is an Update in managedFields. Without moving its fields an apply would take
// nothing away.
func TestApplyTakesAway(t *testing.T) {
	s := newServer(t)
	if _, err := s.writer().Ensure(t.Context(), widget(set("x", "spec", "old"), set("y", "spec", "box", "old"))); err != nil {
		t.Fatal(err)
	}
	live, err := Get(t.Context(), s, widgetGVK, types.NamespacedName{Namespace: "lab", Name: "w"})
	if err != nil {
		t.Fatal(err)
	}
	if len(live.GetManagedFields()) == 0 {
		t.Fatal("the fake client tracks no managed fields: this test proves nothing")
	}
	// Somebody else's field stays.
	other := Empty(widgetGVK)
	other.SetNamespace("lab")
	other.SetName("w")
	other.Object["spec"] = map[string]any{"theirs": "z"}
	if err := s.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(other), client.FieldOwner("somebody")); err != nil {
		t.Fatal(err)
	}
	s.writes = nil
	desired := widget(set(int64(2), "spec", "size"))
	if _, err := s.writer().Apply(t.Context(), desired); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"patch", "apply"}, s.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	want := widget(set(int64(2), "spec", "size"), set("z", "spec", "theirs"))
	if diff := cmp.Diff(want.Object, s.widget(t)); diff != "" {
		t.Errorf("Widget (-want +got):\n%s", diff)
	}

	s.writes = nil
	if _, err := s.writer().Apply(t.Context(), desired); err != nil || s.writes != nil {
		t.Errorf("the second time it writes %v: %v", s.writes, err)
	}
	if _, err := s.writer().Apply(t.Context(), widget(set(int64(3), "spec", "size"))); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"apply"}, s.writes); diff != "" {
		t.Errorf("writes once the fields are moved (-want +got):\n%s", diff)
	}
}

func TestApplyRefuses(t *testing.T) {
	s := newServer(t, widget(withUID, foreign))
	var taken *NameTakenError
	if _, err := s.writer().Apply(t.Context(), widget(set(int64(2), "spec", "size"))); !errors.As(err, &taken) {
		t.Errorf("another's: %v", err)
	}
	if _, err := newServer(t).writer().Apply(t.Context(), widget()); !apierrors.IsConflict(err) {
		t.Errorf("one that is gone: %v", err)
	}
	if diff := cmp.Diff(widget(foreign).Object, s.widget(t)); diff != "" || s.writes != nil {
		t.Errorf("it writes %v:\n%s", s.writes, diff)
	}
}

func TestConfirm(t *testing.T) {
	other := set(int64(7), "spec", "size")
	for name, c := range map[string]struct {
		there []client.Object
		fails func(error) bool
	}{
		"as desired":    {[]client.Object{widget(withUID)}, func(err error) bool { return err != nil }},
		"another state": {[]client.Object{widget(withUID, other)}, func(err error) bool { return !apierrors.IsConflict(err) }},
		"another one":   {[]client.Object{widget(set("another-uid", "metadata", "uid"))}, func(err error) bool { return !apierrors.IsConflict(err) }},
		"going":         {[]client.Object{widget(withUID, going)}, func(err error) bool { return !apierrors.IsConflict(err) }},
		"gone":          {nil, func(err error) bool { return !apierrors.IsConflict(err) }},
		"another's": {[]client.Object{widget(withUID, foreign)}, func(err error) bool {
			var taken *NameTakenError
			return !errors.As(err, &taken)
		}},
	} {
		s := newServer(t, c.there...)
		if err := s.writer().Confirm(t.Context(), widget(withUID)); c.fails(err) {
			t.Errorf("%s: the error is %v", name, err)
		}
		if s.writes != nil {
			t.Errorf("%s: it writes %v", name, s.writes)
		}
	}
}

func TestWriterPassesErrorsOn(t *testing.T) {
	cause := apierrors.NewForbidden(schema.GroupResource{Resource: "widgets"}, "w", errors.New("no"))
	changed := widget(set(int64(2), "spec", "size"))
	tests := map[string]struct {
		fail string
		do   func(context.Context, Writer) error
	}{
		"create": {"create", func(ctx context.Context, w Writer) error { _, err := w.Ensure(ctx, changed); return err }},
		"apply":  {"apply", func(ctx context.Context, w Writer) error { _, err := w.Apply(ctx, changed); return err }},
		"delete": {"delete", func(ctx context.Context, w Writer) error { return w.Delete(ctx, widget(withUID)) }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, widget(withUID))
			s.fail[test.fail] = cause
			if err := test.do(t.Context(), s.writer()); !apierrors.IsForbidden(err) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func TestDelete(t *testing.T) {
	beingDeleted := func(u *unstructured.Unstructured) {
		u.SetFinalizers([]string{"theirs"})
		_ = unstructured.SetNestedField(u.Object, "2026-03-01T12:00:00Z", "metadata", "deletionTimestamp")
	}
	tests := map[string]struct {
		there   []client.Object
		child   *unstructured.Unstructured
		deleted []types.UID
		taken   bool
	}{
		"ours":               {[]client.Object{widget(withUID)}, widget(withUID), []types.UID{"its-uid"}, false},
		"note 02: gone":      {nil, widget(withUID), []types.UID{"its-uid"}, false},
		"being deleted":      {[]client.Object{widget(withUID, beingDeleted)}, widget(withUID, beingDeleted), nil, false},
		"note 40: another's": {[]client.Object{widget(withUID, foreign)}, widget(withUID, foreign), nil, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, test.there...)
			err := s.writer().Delete(t.Context(), test.child)
			var taken *NameTakenError
			if errors.As(err, &taken) != test.taken || err != nil && !test.taken {
				t.Errorf("the error is %v", err)
			}
			if diff := cmp.Diff(test.deleted, s.deleted); diff != "" {
				t.Errorf("deletions with their precondition (-want +got):\n%s", diff)
			}
			if len(s.writes) != len(test.deleted) {
				t.Errorf("it writes %v", s.writes)
			}
		})
	}
}

func TestDescribe(t *testing.T) {
	for want, u := range map[string]*unstructured.Unstructured{
		"Widget lab/w": widget(),
		"Widget w":     widget(set(nil, "metadata", "namespace")),
	} {
		if got := Describe(u); got != want {
			t.Errorf("it is %q, want %q", got, want)
		}
	}
	if got := fmt.Sprint(&NameTakenError{Object: "Widget lab/w"}); got != "Widget lab/w exists and is not managed by this object; delete or rename it" {
		t.Errorf("the error is %q", got)
	}
}

func TestGetAndList(t *testing.T) {
	s := newServer(t, widget())
	key := types.NamespacedName{Namespace: "lab", Name: "w"}
	if u, err := Get(t.Context(), s, widgetGVK, key); err != nil || u == nil || u.GetName() != "w" {
		t.Errorf("getting it: %v, %v", u, err)
	}
	if u, err := Get(t.Context(), s, widgetGVK, types.NamespacedName{Namespace: "lab", Name: "x"}); err != nil || u != nil {
		t.Errorf("getting one that is not there: %v, %v", u, err)
	}
	if all, err := List(t.Context(), s, widgetGVK, client.InNamespace("lab"), marks.Selector(ownerOf("tutorial", uid))); err != nil || len(all) != 1 {
		t.Errorf("listing: %v, %v", all, err)
	}
	if all, err := List(t.Context(), s, widgetGVK, marks.Selector(ownerOf("tutorial", "x"))); err != nil || len(all) != 0 {
		t.Errorf("listing another's: %v, %v", all, err)
	}
}

// What others have put on a child stays with an update, but what is old; and a child that has changed meanwhile, is
// gone or another's is not written.
func TestUpdate(t *testing.T) {
	live := widget(
		set("theirs", "metadata", "labels", "their-label"), set("old", "metadata", "annotations", "ours/old"),
		set("theirs", "metadata", "annotations", "their-annotation"), set("told", "status", "phase"),
		func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"theirs"}) },
	)
	s := newServer(t, live)
	seen, err := Get(t.Context(), s, widgetGVK, client.ObjectKeyFromObject(live))
	if err != nil || seen == nil {
		t.Fatal(seen, err)
	}
	desired := widget(set(int64(2), "spec", "size"), set(nil, "spec", "box"))
	w := Writer{Client: s, Marks: marks, Owner: ownerOf("tutorial", uid)}
	old := func(key string) bool { return strings.HasPrefix(key, "ours/") }
	written, err := w.Update(t.Context(), seen, desired, old)
	if err != nil {
		t.Fatal(err)
	}
	want := desired.DeepCopy()
	want.SetResourceVersion(written.GetResourceVersion())
	want.SetFinalizers([]string{"theirs"})
	set("theirs", "metadata", "labels", "their-label")(want)
	set("theirs", "metadata", "annotations", "their-annotation")(want)
	set("told", "status", "phase")(want)
	written.SetManagedFields(nil)
	if diff := cmp.Diff(want.Object, written.Object); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	if _, err := w.Update(t.Context(), seen, desired, old); !Conflict(err) {
		t.Errorf("one that has changed meanwhile: %v", err)
	}
	foreign(seen)
	var taken *NameTakenError
	if _, err := w.Update(t.Context(), seen, desired, old); !errors.As(err, &taken) {
		t.Errorf("another's: %v", err)
	}
	if _, err := w.Update(t.Context(), widget(func(u *unstructured.Unstructured) { u.SetName("gone") }), widget(func(u *unstructured.Unstructured) { u.SetName("gone") }), old); !Conflict(err) {
		t.Errorf("one that is gone: %v", err)
	}
}

// What a child must not have goes with the next Apply, before or without an apply, and is no success before.
func TestApplyTakesStrangeFieldsAway(t *testing.T) {
	strange := func(live, _ *unstructured.Unstructured) [][]string {
		if _, found, _ := unstructured.NestedFieldNoCopy(live.Object, "spec", "box", "lock"); found {
			return [][]string{{"spec", "box", "lock"}}
		}
		return nil
	}
	locked, other := set("shut", "spec", "box", "lock"), set(int64(7), "spec", "size")
	for name, c := range map[string]struct {
		there  *unstructured.Unstructured
		writes int
	}{
		"as desired otherwise": {widget(withUID, locked), 1},
		"another state":        {widget(withUID, locked, other), 2},
		"not there":            {widget(withUID, other), 1},
	} {
		s := newServer(t, c.there)
		w, told := s.writer(), 0
		w.Strange, w.Wrote = strange, func() { told++ }
		if err := w.Confirm(t.Context(), widget(withUID)); !apierrors.IsConflict(err) {
			t.Errorf("%s: confirming it: %v", name, err)
		}
		if _, err := w.Apply(t.Context(), widget(withUID)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := w.Confirm(t.Context(), widget(withUID)); err != nil || len(s.writes) != c.writes || told != 1 {
			t.Errorf("%s: confirming it: %v, after %v, of which it is told %d times", name, err, s.writes, told)
		}
		if _, err := w.Apply(t.Context(), widget(withUID)); err != nil || told != 1 {
			t.Errorf("%s: %v, and of what is not written it is told", name, err)
		}
	}
}

// A merge changes what was seen, if it is the owner's.
func TestMerge(t *testing.T) {
	change := map[string]any{"spec": map[string]any{"size": nil}}
	s := newServer(t, widget(withUID))
	seen, err := s.writer().live(t.Context(), widget())
	if err != nil {
		t.Fatal(err)
	}
	merged, err := s.writer().Merge(t.Context(), seen, change)
	if _, left, _ := unstructured.NestedFieldNoCopy(merged.Object, "spec", "size"); err != nil || left {
		t.Errorf("it is %v, %v", merged, err)
	}
	if _, err := s.writer().Merge(t.Context(), seen, change); !apierrors.IsConflict(err) {
		t.Errorf("as it was before: %v", err)
	}
	var taken *NameTakenError
	if _, err := s.writer().Merge(t.Context(), widget(withUID, foreign), change); !errors.As(err, &taken) {
		t.Errorf("another's: %v", err)
	}
	s = newServer(t)
	if _, err := s.writer().Merge(t.Context(), seen, change); !apierrors.IsConflict(err) {
		t.Errorf("one that is gone: %v", err)
	}
}
