package restore

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

// MaxSize is how long a point may be as it is written, in bytes: an object of the API server has at most 1 MiB, and
// the rest of it needs some.
const MaxSize = 900 << 10

// maxContent is how long one may be before it is compressed: what nobody could have written is not unpacked.
const maxContent = 16 << 20

// OwnCluster is what the manager's own cluster is called.
const OwnCluster = "manager"

// Point is the restore point of a target.
type Point struct {
	// Plan as namespace/name, and Target and Executor by their names.
	Plan     string `json:"plan"`
	Target   string `json:"target"`
	Executor string `json:"executor"`
	// Cycle, with its turn, is the one that the target was put to sleep in.
	Cycle string `json:"cycle"`
	// Cluster that the target is in: OwnCluster, or any other by the UID of its Namespace kube-system; empty is one whose
	// credentials may not read that.
	Cluster string `json:"cluster,omitempty"`
	// Captures are how many resources it has ever had: the Order of the next.
	Captures int `json:"captures"`
	// Resources by their keys, sorted.
	Resources []Resource `json:"resources"`
}

// State is how far a resource is.
type State string

// States.
const (
	// Captured: it may have been changed, or not yet.
	Captured State = "Captured"
	// Asleep: it was changed, and was seen to be as it should be.
	Asleep State = "Asleep"
	// Restored: it is as it was before.
	Restored State = "Restored"
	// Left: somebody else has changed it, or taken it away, while it was asleep, and it stays so.
	Left State = "Left"
)

// Resource is one that is put to sleep.
type Resource struct {
	// Key of the resource within its target, for instance Deployment.apps/shop/web.
	Key string `json:"key"`
	// State says how far it is.
	State State `json:"state"`
	// Before is what the executor needs to bring it back.
	Before json.RawMessage `json:"before"`
	// Slept is what the executor has made of it, by which it knows what somebody else has changed since; empty before.
	Slept json.RawMessage `json:"slept,omitempty"`
	// Note says why it was left, or of what is as it was that somebody else has made it so.
	Note string `json:"note,omitempty"`
	// Former says that it was put to sleep before, and the target does not have it any more: it may be awake.
	Former bool `json:"former,omitempty"`
	// Order is its place among the resources as they were captured, which is how they are put to sleep, and backwards
	// how they are woken.
	Order int `json:"order"`
}

// TooLargeError is a point that cannot be kept.
type TooLargeError struct {
	// Resources are how many it has, and Size and Limit how long it is and may be, in bytes.
	Resources, Size, Limit int
}

// Error says what to do.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the restore point of %d resources takes %d bytes of at most %d; split the target into several", e.Resources, e.Size, e.Limit)
}

// CorruptError is a point that is not as it was written, or not of a version that is known.
type CorruptError struct {
	// Problem with it.
	Problem string
	// Newer says that only a newer version can read it.
	Newer bool
}

// Error says what to do.
func (e *CorruptError) Error() string {
	if e.Newer {
		return e.Problem + "; have runners of a newer image wake the target (--runner-image of the manager), and do not delete it"
	}
	return "the restore point is not as it was written: " + e.Problem + "; bring it back from a backup, or wake the target by hand and delete it"
}

// find is where a resource is, or would be.
func (p *Point) find(key string) (int, bool) {
	return slices.BinarySearchFunc(p.Resources, key, func(r Resource, key string) int { return strings.Compare(r.Key, key) })
}

// Resource is one by its key; nil if there is none.
func (p *Point) Resource(key string) *Resource {
	if i, found := p.find(key); found {
		return &p.Resources[i]
	}
	return nil
}

// Capture takes in how a resource is, if nothing is known of how it was, and says whether it did. What was restored,
// or left, in an operation that has not come to its end is captured again, in the place that it had: it is awake.
func (p *Point) Capture(key string, before json.RawMessage) bool {
	i, found := p.find(key)
	r := Resource{Key: key, State: Captured, Before: slices.Clone(before)}
	switch {
	case !found:
		r.Order = p.Captures
		p.Captures++
		p.Resources = slices.Insert(p.Resources, i, r)
	case p.Resources[i].Over():
		r.Order = p.Resources[i].Order
		p.Resources[i] = r
	default:
		return false
	}
	return true
}

// Untouched says whether a resource was captured, and nothing is known of what was made of it.
func (r *Resource) Untouched() bool { return r.State == Captured && len(r.Slept) == 0 }

// AsFound says whether a resource was asleep as it was captured: nothing was made of it.
func (r *Resource) AsFound() bool { return len(r.Slept) > 0 && bytes.Equal(r.Slept, r.Before) }

// Over says that nothing is to be restored any more.
func (r *Resource) Over() bool { return r.State == Restored || r.State == Left }

// Slept notes that a captured resource is asleep, and what it was made. It returns false for one that is not captured:
// then nothing may be done to it.
func (p *Point) Slept(key string, slept json.RawMessage) bool {
	r := p.Resource(key)
	if r == nil || r.Over() {
		return false
	}
	r.State, r.Slept = Asleep, slices.Clone(slept)
	return true
}

// End notes that a resource is restored, or left with a note.
func (p *Point) End(key string, state State, note string) {
	if r := p.Resource(key); r != nil {
		r.State, r.Note = state, note
	}
}

// Open are the resources that are still to be restored, in the order of their capture.
func (p *Point) Open() []Resource {
	open := slices.DeleteFunc(slices.Clone(p.Resources), func(r Resource) bool { return r.Over() })
	slices.SortStableFunc(open, func(a, b Resource) int { return cmp.Compare(a.Order, b.Order) })
	return open
}

// Forget lets go of resources: of those that are over, and of those that were captured and never touched.
func (p *Point) Forget(which func(Resource) bool) {
	p.Resources = slices.DeleteFunc(p.Resources, which)
}

// written is a point with what proves it.
type written struct {
	Version  int             `json:"version"`
	Checksum string          `json:"checksum"`
	Point    json.RawMessage `json:"point"`
}

// version of what is written. A program must not go by what it does not know of: points that know their cluster have 2,
// and those in which a resource is Former 3.
const version = 3

func (p *Point) version() int {
	switch {
	case slices.ContainsFunc(p.Resources, func(r Resource) bool { return r.Former }):
		return version
	case p.Cluster != "":
		return 2
	}
	return 1
}

// Encode writes a point. Errors: *TooLargeError.
func (p *Point) Encode() ([]byte, error) {
	content, err := marshal(p)
	if err != nil {
		return nil, err
	}
	plain, err := marshal(written{Version: p.version(), Checksum: checksum(content), Point: content})
	if err != nil {
		return nil, err
	}
	if len(plain) > maxContent {
		return nil, &TooLargeError{Resources: len(p.Resources), Size: len(plain), Limit: maxContent}
	}
	short, err := compressed(plain)
	if err != nil {
		return nil, fmt.Errorf("compressing restore point: %w", err)
	}
	if len(plain) <= len(short) {
		short = plain
	}
	if len(short) > MaxSize {
		return nil, &TooLargeError{Resources: len(p.Resources), Size: len(short), Limit: MaxSize}
	}
	return short, nil
}

// writers are used again: each has about a megabyte of tables, and points are written often.
var writers = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

func compressed(content []byte) ([]byte, error) {
	var out bytes.Buffer
	w := writers.Get().(*gzip.Writer)
	defer writers.Put(w)
	w.Reset(&out)
	_, err := w.Write(content)
	err = errors.Join(err, w.Close())
	return out.Bytes(), err
}

// marshal is JSON in which nothing is written otherwise than it was.
func marshal(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encoding restore point: %w", err)
	}
	return bytes.TrimSpace(out.Bytes()), nil
}

// checksum is over the content as it was marshalled; the API server keeps bytes as they are.
func checksum(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// Decode reads a point. Errors: *CorruptError.
func Decode(raw []byte) (*Point, error) {
	corrupt := func(format string, args ...any) (*Point, error) {
		return nil, &CorruptError{Problem: fmt.Sprintf(format, args...)}
	}
	if len(raw) > MaxSize {
		return corrupt("it is longer than any that is written")
	}
	if bytes.HasPrefix(raw, []byte{0x1f, 0x8b}) { // gzip
		plain, err := unpacked(raw)
		if err != nil {
			return corrupt("%v", err)
		}
		raw = plain
	}
	var w written
	if err := strictly(raw, &w); err != nil {
		return corrupt("%v", err)
	}
	switch {
	case w.Version > version:
		return nil, &CorruptError{Newer: true, Problem: fmt.Sprintf("the restore point is of a newer manager: it has version %d, and this one knows %d", w.Version, version)}
	case w.Version < 1:
		return corrupt("it has no version")
	case checksum(w.Point) != w.Checksum:
		return corrupt("its checksum differs")
	}
	p := &Point{}
	if err := strictly(w.Point, p); err != nil {
		return corrupt("%v", err)
	}
	return p, p.check()
}

// check says what no writer would have written.
func (p *Point) check() error {
	for i, r := range p.Resources {
		switch {
		case i > 0 && cmp.Compare(p.Resources[i-1].Key, r.Key) >= 0:
			return &CorruptError{Problem: fmt.Sprintf("resource %q is not in its place", r.Key)}
		case !slices.Contains([]State{Captured, Asleep, Restored, Left}, r.State):
			return &CorruptError{Problem: fmt.Sprintf("resource %q has the state %q", r.Key, r.State)}
		}
	}
	return nil
}

func unpacked(raw []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxContent+1))
	switch {
	case err != nil:
		return nil, err
	case len(plain) > maxContent:
		return nil, errors.New("it is too long")
	}
	return plain, r.Close()
}

// strictly reads one JSON value that has nothing beside what is known.
func strictly(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something comes after it")
	}
	return nil
}
