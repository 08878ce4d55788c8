package env

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"
)

const (
	// fieldManager owns the fields that Apply sets.
	fieldManager = "labkeeper-env"
	crdKind      = "CustomResourceDefinition"
)

var crdResource = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// ReadObjects returns the objects of YAML files, in order; of a folder, those of all its .yaml and
// .yml files in the order of their names, or what `kubectl kustomize` makes of it if it has a
// kustomization. Documents without a kind are skipped.
func (cp *ControlPlane) ReadObjects(ctx context.Context, paths ...string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, path := range paths {
		content, err := cp.readManifests(ctx, path)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		found, err := DecodeObjects(content)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		objects = append(objects, found...)
	}
	return objects, nil
}

// readManifests returns the YAML of a file or a folder.
func (cp *ControlPlane) readManifests(ctx context.Context, path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return os.ReadFile(path)
	}
	if _, err := os.Stat(filepath.Join(path, "kustomization.yaml")); err == nil {
		return cp.kustomize(ctx, path)
	}
	entries, err := os.ReadDir(path) // sorted by name
	if err != nil {
		return nil, err
	}
	var all bytes.Buffer
	for _, entry := range entries {
		if extension := filepath.Ext(entry.Name()); entry.IsDir() || extension != ".yaml" && extension != ".yml" {
			continue
		}
		content, err := os.ReadFile(filepath.Join(path, entry.Name()))
		if err != nil {
			return nil, err
		}
		all.Write(content)
		all.WriteString("\n---\n")
	}
	return all.Bytes(), nil
}

// kustomize renders a folder as `kubectl apply -k` would.
func (cp *ControlPlane) kustomize(ctx context.Context, dir string) ([]byte, error) {
	kubectl, err := cp.optionalBinary(kubectlName)
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, kubectl, "kustomize", dir)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("rendering kustomization: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}

// DecodeObjects splits a stream of YAML documents, of which each key stands once. Documents without a kind are
// skipped.
func DecodeObjects(content []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(document, &object.Object); err != nil {
			return nil, err
		}
		if object.GetKind() != "" {
			objects = append(objects, object)
		}
	}
}

// Apply applies the objects of YAML files and folders in order, by server-side apply. An object
// without a namespace whose kind has one goes to default. Fields that the kind does not have are an
// error, so that a typo in a manifest does not pass silently.
func (cp *ControlPlane) Apply(ctx context.Context, paths ...string) error {
	objects, err := cp.ReadObjects(ctx, paths...)
	if err != nil {
		return err
	}
	return cp.ApplyObjects(ctx, objects...)
}

// ApplyObjects applies objects in order, as Apply does.
func (cp *ControlPlane) ApplyObjects(ctx context.Context, objects ...*unstructured.Unstructured) error {
	client, err := dynamic.NewForConfig(cp.config)
	if err != nil {
		return fmt.Errorf("creating client: %w", err)
	}
	mapper, err := cp.restMapper()
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := apply(ctx, client, mapper, object); err != nil {
			return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// restMapper knows what the API server serves: to ask for that anew for every object costs more than to apply it.
func (cp *ControlPlane) restMapper() (meta.ResettableRESTMapper, error) {
	cp.mutex.Lock()
	defer cp.mutex.Unlock()
	if cp.mapper == nil {
		discoverer, err := discovery.NewDiscoveryClientForConfig(cp.config)
		if err != nil {
			return nil, fmt.Errorf("creating discovery client: %w", err)
		}
		cp.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discoverer))
	}
	return cp.mapper, nil
}

// apply applies one object.
func apply(ctx context.Context, client dynamic.Interface, mapper meta.ResettableRESTMapper, object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) { // or one that came later
		mapper.Reset()
		mapping, err = mapper.RESTMapping(kind.GroupKind(), kind.Version)
	}
	if err != nil {
		return err
	}
	var resource dynamic.ResourceInterface = client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		namespace := object.GetNamespace()
		if namespace == "" {
			namespace = metav1.NamespaceDefault
		}
		resource = client.Resource(mapping.Resource).Namespace(namespace)
	}
	if object.GetName() == "" { // generateName: only a create has that
		options := metav1.CreateOptions{FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict}
		_, err := resource.Create(ctx, object, options)
		return err
	}
	data, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	force := true
	options := metav1.PatchOptions{FieldManager: fieldManager, Force: &force, FieldValidation: metav1.FieldValidationStrict}
	_, err = resource.Patch(ctx, object.GetName(), types.ApplyPatchType, data, options)
	return err
}

// InstallCRDs applies the CustomResourceDefinitions of YAML files and folders, skipping all else in
// them, and waits until each is served and described by the OpenAPI v3 documents, which come a
// moment later and which kwok and kubectl need.
func (cp *ControlPlane) InstallCRDs(ctx context.Context, paths ...string) error {
	return cp.install(ctx, paths, func(*unstructured.Unstructured) {})
}

// InstallSchemas is InstallCRDs without what the CRDs say to people, which is three quarters of them: every manager that starts
// reads them all.
func (cp *ControlPlane) InstallSchemas(ctx context.Context, paths ...string) error {
	return cp.install(ctx, paths, func(crd *unstructured.Unstructured) { undescribe(crd.Object) })
}

// undescribe removes descriptions, but no property of that name, which is an object.
func undescribe(value any) {
	switch value := value.(type) {
	case map[string]any:
		maps.DeleteFunc(value, func(key string, described any) bool {
			_, text := described.(string)
			return key == "description" && text
		})
		for _, of := range value {
			undescribe(of)
		}
	case []any:
		for _, of := range value {
			undescribe(of)
		}
	}
}

// install applies CRDs, as they are when something was done to each, and waits until they are served.
func (cp *ControlPlane) install(ctx context.Context, paths []string, change func(crd *unstructured.Unstructured)) error {
	objects, err := cp.ReadObjects(ctx, paths...)
	if err != nil {
		return err
	}
	objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() != crdKind })
	if len(objects) == 0 {
		return fmt.Errorf("installing CRDs: none in %s", strings.Join(paths, ", "))
	}
	for _, object := range objects {
		change(object)
	}
	if err := cp.ApplyObjects(ctx, objects...); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for _, object := range objects {
		if err := cp.awaitCRD(ctx, object.GetName()); err != nil {
			return fmt.Errorf("waiting for CustomResourceDefinition %s: %w", object.GetName(), err)
		}
	}
	return nil
}

// awaitCRD waits until one CRD can be used.
func (cp *ControlPlane) awaitCRD(ctx context.Context, name string) error {
	client, err := dynamic.NewForConfig(cp.config)
	if err != nil {
		return err
	}
	for {
		object, err := client.Resource(crdResource).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, crd); err != nil {
			return err
		}
		done, err := cp.served(ctx, crd)
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollInterval):
		}
	}
}

// served says whether a CRD is established and in the OpenAPI v3 documents.
func (cp *ControlPlane) served(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) (bool, error) {
	established := slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
	if !established {
		return false, nil
	}
	client, err := discovery.NewDiscoveryClientForConfig(cp.config)
	if err != nil {
		return false, err
	}
	for _, version := range crd.Spec.Versions {
		if !version.Served {
			continue
		}
		gv := schema.GroupVersion{Group: crd.Spec.Group, Version: version.Name}
		document, err := client.RESTClient().Get().AbsPath("/openapi/v3/apis/" + gv.String()).Do(ctx).Raw()
		if err != nil && ctx.Err() != nil {
			return false, ctx.Err()
		}
		if err != nil || !bytes.Contains(document, []byte("/"+crd.Spec.Names.Plural+`"`)) {
			return false, nil
		}
	}
	return true, nil
}
