// Package cluster reads and writes the objects of a target's cluster: other people's. Only fields that change are
// written, with the resourceVersion that they were read at, by plain updates and patches: what is applied and not
// applied again later would be taken away. Who else has written a field is told by managedFields, and of Argo CD also
// what it needs to leave alone what sleeps.
package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"
)

const (
	// Sleeps is who puts to sleep, as managedFields tell it. What ignores the fields of that, as Argo CD can be told to, leaves alone what
	// sleeps; of what is awake it ignores nothing.
	Sleeps = "labkeeper-sleep"
	// Wakes is who brings back.
	Wakes = "labkeeper-runner"
	// PageSize is how many objects are listed at a time.
	PageSize = 500
)

// Writers are who has written a field, as managedFields tell it: none where nobody does.
func Writers(object metav1.Object, path ...string) (all []metav1.ManagedFieldsEntry) {
	within := make([]string, 0, len(path))
	for _, name := range path {
		within = append(within, "f:"+name)
	}
	for _, entry := range object.GetManagedFields() {
		var fields map[string]any
		if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		if _, has, err := unstructured.NestedFieldNoCopy(fields, within...); has && err == nil {
			all = append(all, entry)
		}
	}
	return all
}

// CameBack says whether an object was put to sleep by a field, and has come back so from a backup: that was written before the object
// was created, or, where there is no time of it, as of what is written by subresource scale, nobody has written any field of it since.
// Who applies a manifest, or copies one, has written it himself.
func CameBack(object metav1.Object, path ...string) bool {
	created := object.GetCreationTimestamp()
	return slices.ContainsFunc(Writers(object, path...), func(w metav1.ManagedFieldsEntry) bool {
		return w.Manager == Sleeps && (w.Time == nil && object.GetGeneration() == 1 || w.Time != nil && w.Time.Before(&created))
	})
}

// Outages is how often, and after which time, is read again what a server has not answered: three times, for 7 s. What many lists are read
// for is lost with any of them.
var Outages = wait.Backoff{Steps: 4, Duration: time.Second, Factor: 2}

// Again reads something again, a few times, if the server, or what stands before it, cannot answer at the moment.
func Again(ctx context.Context, read func() error) (err error) {
	ended := wait.ExponentialBackoffWithContext(ctx, Outages, func(context.Context) (done bool, _ error) {
		err = read()
		return err == nil || !passing(err), nil
	})
	if err == nil {
		err = ended // it was never read
	}
	return err
}

// passing says whether an error may be another, or none, in a moment: no answer, or half of one, one of a proxy (502 to 504), or of a server
// that is busy or has lost its storage for a while (429, 500).
func passing(err error) bool {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		code := status.Status().Code
		return code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
	}
	_, is := errors.AsType[net.Error](err)
	return is || errors.Is(err, io.ErrUnexpectedEOF)
}

// List returns all objects that options let through, page by page, each of which is read again (Again). A list that grows too old between
// two pages starts anew.
func List(ctx context.Context, of dynamic.ResourceInterface, options metav1.ListOptions) ([]unstructured.Unstructured, error) {
	if options.Limit == 0 {
		options.Limit = PageSize
	}
	var found []unstructured.Unstructured
	for {
		var page *unstructured.UnstructuredList
		err := Again(ctx, func() (err error) {
			page, err = of.List(ctx, options)
			return err
		})
		if apierrors.IsResourceExpired(err) && options.Continue != "" {
			found, options.Continue, options.Limit = nil, "", 0 // at once: what is old once may be so again
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, page.Items...)
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return found, nil
		}
	}
}

// Patch sends changes, a merge patch, if the object is still as it was read. It returns what the server has then.
func Patch(ctx context.Context, in dynamic.ResourceInterface, read *unstructured.Unstructured, changes map[string]any, manager string) (*unstructured.Unstructured, error) {
	metadata, _ := changes["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["resourceVersion"] = read.GetResourceVersion()
	changes["metadata"] = metadata
	raw, err := json.Marshal(changes)
	if err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	return in.Patch(ctx, read.GetName(), types.MergePatchType, raw, metav1.PatchOptions{FieldManager: manager})
}

// Scale sets spec.replicas by subresource scale, if the object is still as it was read: itself, or its Scale. It returns what the
// server has then.
func Scale(ctx context.Context, in dynamic.ResourceInterface, read *unstructured.Unstructured, replicas int64, manager string) (int64, error) {
	return replicasOf(in.Update(ctx, scaleOf(read, replicas), metav1.UpdateOptions{FieldManager: manager}, "scale"))
}

// WouldScale is what the server would have after Scale, as its admission has it. One that cannot tell is taken to have what it is sent.
func WouldScale(ctx context.Context, in dynamic.ResourceInterface, read *unstructured.Unstructured, replicas int64, manager string) (int64, error) {
	options := metav1.UpdateOptions{FieldManager: manager, DryRun: []string{metav1.DryRunAll}}
	would, err := replicasOf(in.Update(ctx, scaleOf(read, replicas), options, "scale"))
	if apierrors.IsBadRequest(err) {
		return replicas, nil
	}
	return would, err
}

// replicasOf are those that a Scale says; 0 is left out.
func replicasOf(scaled *unstructured.Unstructured, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	replicas, _, _ := unstructured.NestedInt64(scaled.Object, "spec", "replicas")
	return replicas, nil
}

func scaleOf(read *unstructured.Unstructured, replicas int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "autoscaling/v1",
		"kind":       "Scale",
		"metadata": map[string]any{
			"name": read.GetName(), "namespace": read.GetNamespace(), "resourceVersion": read.GetResourceVersion(),
		},
		"spec": map[string]any{"replicas": replicas},
	}}
}

// ScaleToZero is Scale to 0, by server-side apply: after an update nobody has written a 0, because subresource scale leaves it out of
// what is compared. What is written next is an update, which takes the field from who has applied it, so that nothing is taken back.
func ScaleToZero(ctx context.Context, in dynamic.ResourceInterface, read *unstructured.Unstructured, manager string) (int64, error) {
	return replicasOf(in.Apply(ctx, read.GetName(), scaleOf(read, 0), metav1.ApplyOptions{FieldManager: manager, Force: true}, "scale"))
}

// Conflicts is how often, and how soon, is written again what somebody else was faster with, for a second and a half at most: controllers
// write to what is rolled out several times in a row.
var Conflicts = wait.Backoff{Steps: 8, Duration: 10 * time.Millisecond, Factor: 2, Jitter: 0.1}

// Retry reads and writes again, a few times, if somebody else was faster.
func Retry(ctx context.Context, write func() error) error {
	return retry.OnError(Conflicts, func(err error) bool { return ctx.Err() == nil && apierrors.IsConflict(err) }, write)
}

// IsGone says whether an error means that an object is not there: not that its kind is not served in that version, or that
// something before the server answers.
func IsGone(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// Find is the resource of a kind, in the version that the server prefers of those that have it, and whether any has.
func Find(kind schema.GroupKind, server discovery.DiscoveryInterface) (gvr schema.GroupVersionResource, served bool, err error) {
	return find(kind.Group, server, func(_ schema.GroupVersionResource, of string) bool { return of == kind.Kind })
}

// Unserved says whether an error means that the server has no such resource: it says so itself. It answers what it does not have as
// whatever stands before it may answer anything.
func Unserved(err error, gvr schema.GroupVersionResource, server discovery.DiscoveryInterface) bool {
	if !apierrors.IsNotFound(err) {
		return false
	}
	_, served, err := find(gvr.Group, server, func(r schema.GroupVersionResource, _ string) bool { return r == gvr })
	return err == nil && !served
}

// find is the first resource of a group that is the one that is looked for. That there is none is believed of a server that names
// others: the client takes a 404 for the answer of one that has none at all.
func find(name string, server discovery.DiscoveryInterface, is func(r schema.GroupVersionResource, kind string) bool) (gvr schema.GroupVersionResource, served bool, err error) {
	groups, err := server.ServerGroups()
	if err != nil {
		return gvr, false, err
	}
	answered := false
	for _, group := range groups.Groups {
		answered = answered || (group.Name == "") == (name == "") // the core group is asked for by itself
		if group.Name != name {
			continue
		}
		for _, version := range append([]metav1.GroupVersionForDiscovery{group.PreferredVersion}, group.Versions...) {
			list, err := server.ServerResourcesForGroupVersion(version.GroupVersion)
			if IsGone(err) {
				continue // it has just gone
			}
			if err != nil {
				return gvr, false, err
			}
			answered = answered && (name != "" || len(list.APIResources) > 0)
			gv, _ := schema.ParseGroupVersion(version.GroupVersion)
			for _, resource := range list.APIResources {
				if at := gv.WithResource(resource.Name); !strings.Contains(resource.Name, "/") && is(at, resource.Kind) {
					return at, true, nil
				}
			}
		}
	}
	if !answered {
		return gvr, false, errors.New("discovering what the cluster serves: its API server has not answered, or what stands before it has; see that it can be reached")
	}
	return gvr, false, nil
}

// Get reads an object of a kind; nil if it is gone, or no version of its kind is served. That another version is, is an error: it
// is there.
func Get(ctx context.Context, in dynamic.ResourceInterface, name string, kind schema.GroupKind, server discovery.DiscoveryInterface) (*unstructured.Unstructured, error) {
	object, err := in.Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		return object, nil
	case IsGone(err):
		return nil, nil
	case !apierrors.IsNotFound(err):
		return nil, err
	}
	gvr, served, err := Find(kind, server)
	if err == nil && served {
		err = fmt.Errorf("the cluster serves %s, and not the version that it was put to sleep with; have it serve that too until it is awake", gvr.GroupVersion())
	}
	return nil, err
}
