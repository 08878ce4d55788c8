package crds

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Schemas are the schemas of a set of CustomResourceDefinitions. It may be shared between
// goroutines.
type Schemas struct {
	kinds map[schema.GroupKind]*definition
}

// Default returns the schemas of test/crds/*.yaml and of everything below bin/crds in the
// repository that holds the working directory, which for a test is that of its package. They
// are loaded once per process.
func Default() (*Schemas, error) { return loadDefault() }

var loadDefault = sync.OnceValues(func() (*Schemas, error) {
	root, err := findRoot()
	if err != nil {
		return nil, fmt.Errorf("finding the repository: %w", err)
	}
	return loadRepository(root)
})

// loadRepository is Default for the repository at root.
func loadRepository(root string) (*Schemas, error) {
	paths, err := filepath.Glob(filepath.Join(root, "test", "crds", "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("listing test/crds: %w", err)
	}
	copied, err := files(filepath.Join(root, "bin", "crds"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing bin/crds: %w", err)
	}
	if len(copied) == 0 {
		return nil, errors.New("loading bin/crds: no definitions there, run `make k8s` to copy them from their modules")
	}
	return Load(append(paths, copied...)...)
}

// findRoot returns the nearest directory, from the working directory up, with a go.mod.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		_, err := os.Stat(filepath.Join(dir, "go.mod"))
		if err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if !errors.Is(err, fs.ErrNotExist) || parent == dir {
			return "", err
		}
		dir = parent
	}
}

// Load returns the schemas of all CustomResourceDefinitions (apiextensions.k8s.io/v1) in paths.
// A path is a YAML file, of one document or several, or a directory, which stands for every
// .yaml and .yml file below it. Other documents are ignored.
//
// It is an error if a path cannot be read, if there is no definition in any of them, if a
// definition is not of v1, or if two definitions of a kind differ. Schemas are compiled when
// they are first used, and only then is one that an API server would refuse reported.
func Load(paths ...string) (*Schemas, error) {
	s := &Schemas{kinds: map[schema.GroupKind]*definition{}}
	for _, path := range paths {
		names, err := files(path)
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", path, err)
		}
		for _, name := range names {
			if err := s.loadFile(name); err != nil {
				return nil, fmt.Errorf("loading %s: %w", name, err)
			}
		}
	}
	if len(s.kinds) == 0 {
		return nil, fmt.Errorf("loading %s: no CustomResourceDefinition found", strings.Join(paths, ", "))
	}
	return s, nil
}

// Kinds returns the group, version and kind of every served version, sorted.
func (s *Schemas) Kinds() ([]schema.GroupVersionKind, error) {
	var gvks []schema.GroupVersionKind
	for gk, d := range s.kinds {
		versions, err := d.versions()
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", d.source, err)
		}
		for name := range versions {
			gvks = append(gvks, gk.WithVersion(name))
		}
	}
	slices.SortFunc(gvks, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	return gvks, nil
}

// files returns path if it is a file, else the YAML files below it, sorted.
func files(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var names []string
	err = filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ext := filepath.Ext(name); !entry.IsDir() && (ext == ".yaml" || ext == ".yml") {
			names = append(names, name)
		}
		return nil
	})
	return names, err
}

func (s *Schemas) loadFile(name string) error {
	content, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.add(name, document); err != nil {
			return err
		}
	}
}

// add takes a document in if it is a definition.
func (s *Schemas) add(source string, document []byte) error {
	if !bytes.Contains(document, []byte("CustomResourceDefinition")) {
		return nil // not worth parsing
	}
	head, err := readHead(document)
	if err != nil {
		return err
	}
	gvk := head.GroupVersionKind()
	if gvk.Kind != "CustomResourceDefinition" || gvk.Group != apiextensionsv1.GroupName {
		return nil
	}
	if gvk.Version != apiextensionsv1.SchemeGroupVersion.Version {
		return fmt.Errorf("reading definition %s: %s is not supported, only v1 is", head.Name, gvk.GroupVersion())
	}
	gk := schema.GroupKind{Group: head.Spec.Group, Kind: head.Spec.Names.Kind}
	if gk.Group == "" || gk.Kind == "" {
		return fmt.Errorf("reading definition %s: group or kind is empty", head.Name)
	}
	d := newDefinition(source, gk, document)
	if known, ok := s.kinds[gk]; ok {
		return sameDefinition(known, d)
	}
	s.kinds[gk] = d
	return nil
}

// head is what identifies a definition.
type head struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Group string                                        `json:"group"`
		Names apiextensionsv1.CustomResourceDefinitionNames `json:"names"`
	} `json:"spec"`
}

// readHead parses as little of a document as it can. Definitions reach a megabyte, and of the
// many in a repository one test uses two or three. Generated ones have all that matters before
// spec.versions; if it is not there, the whole is parsed.
func readHead(document []byte) (head, error) {
	if i := bytes.Index(document, []byte("\n  versions:")); i >= 0 {
		var h head
		err := yaml.Unmarshal(document[:i+1], &h)
		if err == nil && h.APIVersion != "" && h.Kind != "" && h.Spec.Group != "" && h.Spec.Names.Kind != "" {
			return h, nil
		}
	}
	var h head
	if err := yaml.Unmarshal(document, &h); err != nil {
		return head{}, fmt.Errorf("parsing YAML: %w", err)
	}
	return h, nil
}

// sameDefinition returns an error unless both definitions say the same.
func sameDefinition(a, b *definition) error {
	left, err := a.parse()
	if err != nil {
		return err
	}
	right, err := b.parse()
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(left.Spec, right.Spec) {
		return fmt.Errorf("adding definition of %s: %s defines it differently", a.kind, a.source)
	}
	return nil
}
