package experimentdeployment

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/labkeeper/labkeeper/api/experimentcontroller/v1alpha1"
	"github.com/labkeeper/labkeeper/test/faults"
)

// That a source is gone may be told while it is, and stay said until somebody looks again.
func TestMissed(t *testing.T) {
	all := objects("Deployment")
	source, owner := all[0], all[1]
	source.SetUID("source")
	owner.SetUID("owner")
	tells := func(reason string) faults.Entry {
		u := owner.DeepCopy()
		u.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": v1alpha1.ConditionSourceFound, "reason": reason}}}
		return faults.Entry{Verb: watch.Modified, Object: u}
	}
	found, gone := tells(v1alpha1.ReasonSourceFound), tells(v1alpha1.ReasonSourceNotFound)
	there, deleted := faults.Entry{Verb: watch.Added, Object: source}, faults.Entry{Verb: watch.Deleted, Object: source}
	another := faults.Entry{Verb: watch.Added, Object: renamed(source, "another")}
	for name, c := range map[string]struct {
		history []faults.Entry
		broken  bool
	}{
		"it is there, and told of":          {history: []faults.Entry{there, found}},
		"it is there, and told to be gone":  {history: []faults.Entry{there, found, gone}, broken: true},
		"it is there, and was never found":  {history: []faults.Entry{there, gone}, broken: true},
		"it is gone":                        {history: []faults.Entry{there, found, deleted, gone}},
		"it is there again, and still told": {history: []faults.Entry{there, found, deleted, gone, there, gone}},
		"another one is there":              {history: []faults.Entry{another, gone}},
	} {
		t.Run(name, func(t *testing.T) {
			if why := missed(c.history); (why != "") != c.broken {
				t.Errorf("broken: %q", why)
			}
		})
	}
}

// Which ReplicaSet a Deployment speaks of is its controller's affair; what it says of it is not.
func TestReadable(t *testing.T) {
	u := objects("Deployment")[0].DeepCopy()
	u.Object["status"] = map[string]any{"conditions": []any{
		map[string]any{"type": "Progressing", "message": `ReplicaSet "web-exp-6884f4448" has successfully progressed.`},
		map[string]any{"type": "Available"},
	}}
	readable(u)
	said, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	want := []any{map[string]any{"type": "Progressing", "message": "ReplicaSet has successfully progressed."}, map[string]any{"type": "Available"}}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("what it says (-want +got):\n%s", diff)
	}
}

func renamed(u *unstructured.Unstructured, name string) *unstructured.Unstructured {
	out := u.DeepCopy()
	out.SetName(name)
	out.SetUID(types.UID(name))
	return out
}
