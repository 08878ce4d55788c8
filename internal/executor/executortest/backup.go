package executortest

import (
	"encoding/json"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// Restore deletes an object, and has it come back as Velero brings it back: without what belongs to the former one, and with its
// managedFields by a second write, because a create makes all fields those of who creates.
func Restore(t *testing.T, in dynamic.ResourceInterface, name string) {
	t.Helper()
	was, err := in.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(1100 * time.Millisecond) // times of objects are of whole seconds
	if err := in.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	again := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": was.GetAPIVersion(), "kind": was.GetKind(), "spec": was.Object["spec"],
		"metadata": map[string]any{"name": name},
	}}
	again.SetLabels(was.GetLabels())
	again.SetAnnotations(was.GetAnnotations())
	if _, err := in.Create(t.Context(), again, metav1.CreateOptions{FieldManager: "velero-server"}); err != nil {
		t.Fatal(err)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"managedFields": was.GetManagedFields()}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "velero-server"}); err != nil {
		t.Fatal(err)
	}
}
