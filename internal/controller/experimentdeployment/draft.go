package experimentdeployment

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/lru"
	"k8s.io/utils/ptr"

	"github.com/labkeeper/labkeeper/api/experimentcontroller/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/twin"
)

// recipe is everything that a twin is made of, and all that make looks at. It is kept, so that nothing of it may be changed.
type recipe struct {
	// Owner has its name, namespace and UID alone.
	Owner metav1.ObjectMeta
	// Source in whole, with the template that it refers to, or as it was pinned.
	Source map[string]any
	// SourceName is its name as the owner says it, and Pinned its generation when it was pinned; empty where it is not.
	SourceName, Pinned string
	Wanted             twin.Wanted
}

// draft is a twin as it is wanted, with its marks. Passes share it: nothing of it may be changed.
type draft struct {
	*twin.Twin
	// template and spec are hashes of those of the twin.
	template, spec string
	// err is why there is none.
	err error
}

// make makes the twin.
func (r recipe) make() draft {
	built, err := twin.Build(&unstructured.Unstructured{Object: r.Source}, r.Wanted)
	if err != nil {
		return draft{err: err}
	}
	mark(&v1alpha1.ExperimentDeployment{ObjectMeta: r.Owner}, built.Object)
	annotations := built.Object.GetAnnotations()
	annotations[v1alpha1.AnnotationSource] = built.Object.GetNamespace() + "/" + r.SourceName
	if r.Pinned != "" {
		annotations[v1alpha1.AnnotationPinned] = r.Pinned
	}
	built.Object.SetAnnotations(annotations)
	spec, _ := built.Object.Object["spec"].(map[string]any)
	template, _ := spec["template"].(map[string]any)
	stamp(built.Object)
	return draft{Twin: built, template: twin.Hash(template), spec: twin.Hash(map[string]any{"spec": spec})}
}

// drafts are the last ones of owners that were looked at lately, by their UIDs: most passes are because of how a twin is, and what it
// is made of is as it was.
type drafts struct{ known *lru.Cache }

// lately is how many owners drafts are kept of.
const lately = 1024

func newDrafts() *drafts { return &drafts{lru.New(lately)} }

type keptDraft struct {
	of    recipe
	draft draft
}

// of is what the recipe makes. Mostly the source is the very object of the cache that it was, which takes no look at what is in it.
func (d *drafts) of(r recipe) draft {
	if d == nil {
		return r.make()
	}
	if known, ok := d.known.Get(r.Owner.UID); ok && reflect.DeepEqual(known.(keptDraft).of, r) {
		return known.(keptDraft).draft
	}
	made := r.make()
	d.known.Add(r.Owner.UID, keptDraft{r, made})
	return made
}

// mark makes the twin the owner's: by what marks children everywhere, and where that works by an owner reference.
func mark(owner *v1alpha1.ExperimentDeployment, built *unstructured.Unstructured) {
	marks.Set(owner, built)
	if built.GetNamespace() == owner.Namespace {
		built.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "ExperimentDeployment", Name: owner.Name, UID: owner.UID,
			Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
		}})
	}
}
