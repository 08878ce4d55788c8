package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NameTakenError says that an object which is not the owner's has the name its child needs.
type NameTakenError struct {
	// Object is what has the name, as "Kind namespace/name".
	Object string
	// Remedy is the way out where that is another than to delete or rename it.
	Remedy string
}

// Error names the object and the way out.
func (e *NameTakenError) Error() string {
	return e.Object + " exists and is not managed by this object; " + cmp.Or(e.Remedy, "delete or rename it")
}

// Writer writes the children of one owner, and nothing else: what does not carry the
// owner's mark is neither changed nor deleted.
type Writer struct {
	// Client writes, and reads past the cache, which is filtered by our label and may be
	// behind.
	Client client.Client
	// Marks of the owner's kind.
	Marks Marks
	// Owner of what is written.
	Owner client.Object
	// Strange are the paths of what a child has and must not have beside what is desired; nil is nothing. Server-side apply takes
	// nothing away that others have written.
	Strange func(live, desired *unstructured.Unstructured) [][]string
	// Asks are annotations that every change of a child carries, and no create: somebody else takes them off when he has seen it.
	Asks map[string]string
	// Wrote is told when anything was written to make a child, or to bring it to the desired state; nil tells nobody.
	Wrote func()
	// Exact has Delete be a conflict where the object is not in the version that was seen any more.
	Exact bool
}

// Ensure writes a child that is not known to exist and returns what the server has then.
// The first write is a create; a child that is there already (a create whose answer was
// lost, or one the cache has not seen) is brought to the desired state. It returns a
// *NameTakenError if another's object has the name.
func (w Writer) Ensure(ctx context.Context, desired *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	child, created, err := w.Create(ctx, desired)
	if err != nil || created {
		return child, err
	}
	return w.Apply(ctx, desired)
}

// Create is Ensure for a child that must never change: one that is there already is returned
// as it is.
func (w Writer) Create(ctx context.Context, desired *unstructured.Unstructured) (child *unstructured.Unstructured, created bool, err error) {
	child = desired.DeepCopy()
	err = w.Client.Create(ctx, child, client.FieldOwner(FieldOwner), client.FieldValidation("Strict"))
	if err == nil {
		w.wrote()
		return child, true, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, false, fmt.Errorf("creating %s: %w", Describe(desired), err)
	}
	child, err = w.live(ctx, desired)
	return child, false, err
}

// Once creates a child that nobody changes, and returns it: one that is there already stays as it is. It returns a
// conflict while that is being deleted.
func (w Writer) Once(ctx context.Context, desired *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	child, _, err := w.Create(ctx, desired)
	if err == nil && child.GetDeletionTimestamp() != nil {
		err = fmt.Errorf("creating %s: %w", Describe(desired), Stale(desired, "it is being deleted"))
	}
	return child, err
}

// Apply brings a child that exists to the desired state by server-side apply, with the UID
// as a precondition. The fields of its create are first moved to the applier, so that what
// is no longer desired goes with the next change. It writes nothing where the child has all
// that is desired (UpToDate), and nothing strange.
func (w Writer) Apply(ctx context.Context, desired *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	seen, err := w.live(ctx, desired)
	if err != nil {
		return nil, err
	}
	live, err := w.rid(ctx, seen, desired)
	if err == nil && live != seen {
		w.wrote()
	}
	if err != nil || UpToDate(live, desired) {
		return live, err
	}
	upgrade, err := csaupgrade.UpgradeManagedFieldsPatch(live, sets.New(FieldOwner), FieldOwner)
	if err != nil {
		return nil, fmt.Errorf("moving the fields of %s: %w", Describe(desired), err)
	}
	if upgrade != nil {
		if err := w.Client.Patch(ctx, live, client.RawPatch(types.JSONPatchType, upgrade)); err != nil {
			return nil, fmt.Errorf("moving the fields of %s: %w", Describe(desired), err)
		}
	}
	apply := desired.DeepCopy()
	apply.SetUID(live.GetUID())
	w.ask(apply)
	if err := w.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(apply), client.FieldOwner(FieldOwner), client.ForceOwnership); err != nil {
		return nil, fmt.Errorf("applying %s: %w", Describe(desired), err)
	}
	if live == seen {
		w.wrote()
	}
	return apply, nil
}

// wrote tells of a child that was brought to the desired state.
func (w Writer) wrote() {
	if w.Wrote != nil {
		w.Wrote()
	}
}

// rid takes off a child what it must not have.
func (w Writer) rid(ctx context.Context, live, desired *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	strange := w.strange(live, desired)
	if len(strange) == 0 {
		return live, nil
	}
	change := &unstructured.Unstructured{Object: map[string]any{}}
	w.ask(change)
	for _, path := range strange {
		if err := unstructured.SetNestedField(change.Object, nil, path...); err != nil {
			return nil, fmt.Errorf("patching %s: %w", Describe(live), err)
		}
	}
	return w.Merge(ctx, live, change.Object)
}

// ask puts what a change asks for on what is written.
func (w Writer) ask(written *unstructured.Unstructured) {
	if len(w.Asks) > 0 {
		written.SetAnnotations(over(written.GetAnnotations(), w.Asks, func(string) bool { return false }))
	}
}

func (w Writer) strange(live, desired *unstructured.Unstructured) [][]string {
	if w.Strange == nil {
		return nil
	}
	return w.Strange(live, desired)
}

// merger is the field manager of what Merge writes, which the next Apply must leave alone.
const merger = FieldOwner + "-merge"

// Merge changes fields of a child, as it was seen, by a JSON merge patch with its UID and resourceVersion, and returns what the
// server has then: null takes a field away.
func (w Writer) Merge(ctx context.Context, seen *unstructured.Unstructured, change map[string]any) (*unstructured.Unstructured, error) {
	if !w.Marks.Owns(w.Owner, seen) {
		return nil, &NameTakenError{Object: Describe(seen)}
	}
	patch := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(change)}
	patch.SetUID(seen.GetUID())
	patch.SetResourceVersion(seen.GetResourceVersion())
	data, err := json.Marshal(patch.Object)
	if err != nil {
		return nil, fmt.Errorf("patching %s: %w", Describe(seen), err)
	}
	patched := seen.DeepCopy()
	err = w.Client.Patch(ctx, patched, client.RawPatch(types.MergePatchType, data), client.FieldOwner(merger), client.FieldValidation("Strict"))
	if apierrors.IsNotFound(err) {
		err = Stale(seen, "it is gone")
	}
	if err != nil {
		return nil, fmt.Errorf("patching %s: %w", Describe(seen), err)
	}
	return patched, nil
}

// Update brings a child, as it was seen, to the desired state by an update that carries its resourceVersion and
// returns what the server has then: for kinds whose objects server-side apply may refuse, because their lists
// have an element twice. The fields of desired beside the metadata replace those of the child. Labels and
// annotations that others have put there stay, but those that old tells of, and so do finalizers.
func (w Writer) Update(ctx context.Context, seen, desired *unstructured.Unstructured, old func(key string) bool) (*unstructured.Unstructured, error) {
	if !w.Marks.Owns(w.Owner, seen) {
		return nil, &NameTakenError{Object: Describe(seen)}
	}
	written := desired.DeepCopy()
	written.SetUID(seen.GetUID())
	written.SetResourceVersion(seen.GetResourceVersion())
	written.SetLabels(over(seen.GetLabels(), desired.GetLabels(), old))
	written.SetAnnotations(over(seen.GetAnnotations(), desired.GetAnnotations(), old))
	written.SetFinalizers(seen.GetFinalizers())
	if status, ok := seen.Object["status"]; ok { // which counts where the kind has no subresource for it
		written.Object["status"] = runtime.DeepCopyJSONValue(status)
	}
	if err := w.Client.Update(ctx, written, client.FieldOwner(FieldOwner), client.FieldValidation("Strict")); err != nil {
		if apierrors.IsNotFound(err) {
			err = Stale(desired, "it is gone")
		}
		return nil, fmt.Errorf("updating %s: %w", Describe(desired), err)
	}
	return written, nil
}

// over are the desired values over those that there are and that are not old.
func over(have, desired map[string]string, old func(key string) bool) map[string]string {
	out := maps.Clone(have)
	if out == nil {
		out = map[string]string{}
	}
	maps.DeleteFunc(out, func(key, _ string) bool { return old(key) })
	maps.Copy(out, desired)
	return out
}

// Delete asks for the child's deletion, with the UID as a precondition, with Exact the version that was seen, too, and with what
// else is wanted. A child that is gone or being deleted already is left alone.
func (w Writer) Delete(ctx context.Context, child *unstructured.Unstructured, opts ...client.DeleteOption) error {
	if !w.Marks.Owns(w.Owner, child) {
		return &NameTakenError{Object: Describe(child)}
	}
	if child.GetDeletionTimestamp() != nil {
		return nil
	}
	as := client.Preconditions{UID: ptr.To(child.GetUID())}
	if version := child.GetResourceVersion(); w.Exact && version != "" {
		as.ResourceVersion = &version
	}
	err := w.Client.Delete(ctx, child, append(opts, as)...)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s: %w", Describe(child), err)
	}
	return nil
}

// Free takes finalizers off a child that is being deleted, for whoever put them there and cannot do
// what they wait for any more. A child that has none of them is left alone.
func (w Writer) Free(ctx context.Context, child *unstructured.Unstructured, free func(finalizer string) bool) error {
	live, err := w.live(ctx, child)
	if err != nil {
		return err
	}
	keep := slices.DeleteFunc(slices.Clone(live.GetFinalizers()), free)
	if live.GetUID() != child.GetUID() || live.GetDeletionTimestamp() == nil || len(keep) == len(live.GetFinalizers()) {
		return nil
	}
	if err := patchFinalizers(ctx, w.Client, live, keep); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("freeing %s: %w", Describe(child), err)
	}
	return nil
}

// Confirm returns a conflict unless the server has the child in the desired state, with nothing strange, to stay and, if
// desired has a UID, of that one, or a resourceVersion, in that version, whatever the cache says: for what is never looked
// at again.
func (w Writer) Confirm(ctx context.Context, desired *unstructured.Unstructured) error {
	live, err := w.live(ctx, desired)
	differs := func(seen, now string) bool { return seen != "" && seen != now }
	if err == nil && (live.GetDeletionTimestamp() != nil || differs(string(desired.GetUID()), string(live.GetUID())) ||
		differs(desired.GetResourceVersion(), live.GetResourceVersion()) ||
		!UpToDate(live, desired) || len(w.strange(live, desired)) > 0) {
		return fmt.Errorf("confirming %s: %w", Describe(desired), Stale(desired, "it is not what the cache has"))
	}
	return err
}

// live is the child as the server has it now, proven to be the owner's. One that is gone by now
// is a conflict: what wrote it has seen it, and must look again.
func (w Writer) live(ctx context.Context, child *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(child.GroupVersionKind())
	err := w.Client.Get(ctx, client.ObjectKeyFromObject(child), live)
	if apierrors.IsNotFound(err) {
		err = Stale(child, "it is gone")
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", Describe(child), err)
	}
	if !w.Marks.Owns(w.Owner, live) {
		return nil, &NameTakenError{Object: Describe(live)}
	}
	return live, nil
}

// Stale is a conflict of what was planned with what there is of an object that knows its kind.
func Stale(o client.Object, why string) error {
	gvk := o.GetObjectKind().GroupVersionKind()
	return apierrors.NewConflict(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, o.GetName(), errors.New(why))
}

// Describe names an object as "Kind namespace/name".
func Describe(o *unstructured.Unstructured) string {
	if o.GetNamespace() == "" {
		return o.GetKind() + " " + o.GetName()
	}
	return o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
}

// UpToDate says whether applying desired would change nothing of what a child says and what
// marks it. Finalizers that others add do not count.
func UpToDate(live, desired *unstructured.Unstructured) bool {
	for _, f := range desired.GetFinalizers() {
		if !slices.Contains(live.GetFinalizers(), f) {
			return false
		}
	}
	for field, want := range desired.Object {
		if field != "metadata" && !covers(live.Object[field], want) {
			return false
		}
	}
	return subset(live.GetLabels(), desired.GetLabels()) && subset(live.GetAnnotations(), desired.GetAnnotations())
}

func subset(have, want map[string]string) bool {
	for k, v := range want {
		if have[k] != v {
			return false
		}
	}
	return true
}

// covers says whether live has everything that desired says. Maps may hold more; lists are
// compared whole, because most lists of foreign kinds are atomic.
func covers(live, desired any) bool {
	want, ok := desired.(map[string]any)
	if !ok {
		return reflect.DeepEqual(live, desired)
	}
	have, ok := live.(map[string]any)
	if !ok {
		return len(want) == 0 && live == nil
	}
	for k, v := range want {
		if !covers(have[k], v) {
			return false
		}
	}
	return true
}
