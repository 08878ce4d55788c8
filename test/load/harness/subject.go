package harness

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Subject is a kind under load with everything around it.
type Subject struct {
	// Name for the command line.
	Name string
	// Resource and CRD (a file, from the root of the repository) of the kind.
	Resource schema.GroupVersionResource
	CRD      string
	// CRDs and Manifests are files and folders, from the root of the repository; among the
	// manifests is the manager's RBAC.
	CRDs, Manifests []string
	// Namespaces are created first.
	Namespaces []string
	// Beside is what the objects need in each namespace that they are created in.
	Beside []Beside
	// AccountNamespace and Account are the ServiceAccount of the manager.
	AccountNamespace, Account string
	// Lease is the name of the Lease in AccountNamespace.
	Lease string
	// Args are flags of the manager that the objects need.
	Args []string
	// FieldManager is the name by which the server knows what the manager created.
	FieldManager string

	// New is an object of the kind; variant tells objects that are made for something special.
	New func(namespace, name string, variant Variant) *unstructured.Unstructured
	// At is an object that begins at a full minute; nil for kinds that know no time. Waits and Begun are marks of it:
	// that it waits for that, and that it has begun, for which Beginning is what must have been written.
	At           func(namespace, name string, at time.Time) *unstructured.Unstructured
	Waits, Begun string
	Beginning    Writes
	// Status is a status of usual size, for the floor; it differs with i.
	Status func(i int) map[string]any
	// Touch is what of the metadata is changed where nothing is to be done for it, and wakes the manager. Default:
	// labels, as an annotation of a Deployment is a new generation of it.
	Touch string
	// Edit is a merge patch of the spec that carries a version.
	Edit func(version int) []byte

	// Watched is what the watcher watches.
	Watched []Watched
	// Story tells what an event means. It must not keep the object.
	Story func(Event) Beat
	// Needs are the marks without which an object does not count, beside those of its reactions.
	Needs []string
	// Created, Acted, Done, Held, Refused and Gone are marks: its creation, the manager's first
	// write, the end, where objects of the variants Held and Refused stay, and its deletion.
	Created, Acted, Done, Held, Refused, Gone string
	// Reactions are timed.
	Reactions []Reaction
	// Minimal are the writes, of everybody, that one object cannot do without.
	Minimal Writes
	// Cached is how many children of a done object the manager caches.
	Cached int

	// World plays the outside systems.
	World World
	// Guest is another kind that lives beside it (With).
	Guest *Subject
	// Shapes are what the exact counts are taken of.
	Shapes []Shape
}

// Variant tells objects apart.
type Variant int

const (
	// Plain objects go all the way.
	Plain Variant = iota
	// Held objects are left by the world where edits still count.
	Held
	// Refused objects settle without children.
	Refused
)

// HeldPrefix begins the names of Held objects, which the world knows them by.
const HeldPrefix = "held-"

// Writes are counts of writes.
type Writes struct {
	Creates, Patches int
}

// Watched is what somebody watches.
type Watched struct {
	Resource schema.GroupVersionResource
	// Namespace is empty for all.
	Namespace string
	// Labels is a selector.
	Labels string
}

// Beat is what an event means.
type Beat struct {
	// Owner is the UID of the object of the kind that it belongs to; empty for none.
	Owner string
	// Marks are moments in the owner's life. Only the first of each counts.
	Marks []string
	// Version is the version of the spec that the event shows in Where; Where is empty if it
	// shows none.
	Version, Where string
	// ByOthers says that the object is not one that the manager creates.
	ByOthers bool
}

// Reaction is what the manager does when the world has done something.
type Reaction struct {
	Name string
	// Cause and Effect are marks.
	Cause, Effect string
}

// World plays the outside systems: at once, and with one write a step.
type World struct {
	Watched []Watched
	// Play does what the outside does when it sees the object. It is called again after every
	// change. gone says that the object is deleted.
	Play func(ctx context.Context, c *Client, o *Object, gone bool) error
}

// Event is a watch event.
type Event struct {
	Type   string // ADDED, MODIFIED, DELETED
	Object Object
}

// The marks of a life that every kind has.
const (
	Created = "created"
	Acted   = "acted"
	Gone    = "gone"
)

// Moment is the mark of an event of an object of the kind itself.
func (e Event) Moment() string {
	switch e.Type {
	case "DELETED":
		return Gone
	case "ADDED":
		return Created
	}
	return Acted
}

// Object is what is read of an object.
type Object struct {
	Kind     string          `json:"kind"`
	Metadata Metadata        `json:"metadata"`
	Spec     json.RawMessage `json:"spec"`
	Status   json.RawMessage `json:"status"`
	// Data is that of a Secret or ConfigMap.
	Data json.RawMessage `json:"data"`

	// Resource is how it was found.
	Resource schema.GroupVersionResource `json:"-"`
}

// Metadata is what is read of an object's metadata.
type Metadata struct {
	Namespace         string            `json:"namespace"`
	Name              string            `json:"name"`
	UID               string            `json:"uid"`
	ResourceVersion   string            `json:"resourceVersion"`
	Generation        int64             `json:"generation"`
	DeletionTimestamp string            `json:"deletionTimestamp"`
	Labels            map[string]string `json:"labels"`
	OwnerReferences   []struct {
		UID string `json:"uid"`
	} `json:"ownerReferences"`
	Annotations   map[string]string `json:"annotations"`
	Finalizers    []string          `json:"finalizers"`
	ManagedFields []struct {
		Manager string `json:"manager"`
	} `json:"managedFields"`
}

// Owner is the UID of the object that owns it; empty for none.
func (m Metadata) Owner() string {
	if len(m.OwnerReferences) == 0 {
		return ""
	}
	return m.OwnerReferences[0].UID
}

// Path is the object's path on the server.
func (o *Object) Path() string { return Path(o.Resource, o.Metadata.Namespace, o.Metadata.Name) }

// Shape is an object whose requests are counted exactly.
type Shape struct {
	Name string
	New  func(namespace, name string) *unstructured.Unstructured
	// Done is the mark of its end.
	Done string
	// Up and Down are the writes by what they are of, "create applications" for instance, but
	// for status patches: those must be as many as there were statuses.
	Up, Down map[string]int
	// Reads and DownReads are the live reads on the two ways, by what they are of.
	Reads, DownReads map[string]int
	// May and DownMay are live reads on the two ways whose number depends on what comes together: at most as many as are listed.
	May, DownMay map[string]int
	// Uses is how many statuses of Components tell of an object on each way, at most: one may tell of several objects.
	Uses int
	// Shared are live reads on both ways that objects may make together: at most as many as are listed.
	Shared []string
	// Beside is what the objects need in their namespace.
	Beside []Beside
}

// Merged are counts of several kinds of requests in one; of the same kind the last.
func Merged(all ...map[string]int) map[string]int {
	out := map[string]int{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}

// Beside is an object that somebody else brings.
type Beside struct {
	Resource schema.GroupVersionResource
	Object   map[string]any
}
