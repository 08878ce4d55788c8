package harness

import (
	"context"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Watcher sees everything that happens to the objects of a subject, with a connection of its
// own. It is what the figures believe, not the manager.
type Watcher struct {
	subject *Subject
	failed  func(error)
	seed    maphash.Seed

	mu      sync.Mutex
	stories map[string]*Story // by UID of the owner
	named   map[string]*Story // by namespace/name
	counts  map[[2]string]int // by namespace of the owner and mark
	last    time.Time
}

// Story is the life of one object.
type Story struct {
	Namespace, Name string
	// Marks are when each moment was seen first.
	Marks map[string]time.Time
	// Revisions are the server's, of what each moment was seen in first: one comes before another whichever watch is behind.
	Revisions map[string]int64
	// Statuses are the distinct ones that were published.
	Statuses map[uint64]bool
	// Versions are those of the spec that were seen last, by where, with the time.
	Versions map[string]Version
	// Paths are where it and those of its children that are still there are on the server.
	Paths []string
}

// Version is a version of a spec.
type Version struct {
	Value string
	Time  time.Time
	// Changes is how often it changed, and Back how often to a version that is older than the one before.
	Changes, Back int
}

func startWatcher(ctx context.Context, c *Client, subject *Subject, failed func(error)) (*Watcher, error) {
	w := newWatcher(subject, failed)
	return w, c.followAll(ctx, subject.Watched, w.happened, failed)
}

func newWatcher(subject *Subject, failed func(error)) *Watcher {
	return &Watcher{subject: subject, failed: failed, seed: maphash.MakeSeed(), stories: map[string]*Story{}, named: map[string]*Story{}, counts: map[[2]string]int{}}
}

func (w *Watcher) happened(e Event) {
	now := time.Now()
	beat := w.subject.Story(e)
	if beat.Owner == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = now
	s := w.stories[beat.Owner]
	if s == nil {
		s = &Story{Marks: map[string]time.Time{}, Revisions: map[string]int64{}, Statuses: map[uint64]bool{}, Versions: map[string]Version{}}
		w.stories[beat.Owner] = s
	}
	if guest := w.subject.Guest; e.Object.Resource == w.subject.Resource || guest != nil && e.Object.Resource == guest.Resource {
		w.own(s, e)
	} else if e.Type == "ADDED" {
		s.Paths = append(s.Paths, e.Object.Path())
		if m := e.Object.Metadata; !beat.ByOthers && !m.managedBy(w.subject.FieldManager) {
			w.failed(fmt.Errorf("%s %s/%s was not created by the manager", e.Object.Kind, m.Namespace, m.Name))
		}
	}
	if e.Type == "DELETED" {
		path := e.Object.Path()
		s.Paths = slices.DeleteFunc(s.Paths, func(p string) bool { return p == path })
	}
	for _, mark := range beat.Marks {
		if _, seen := s.Marks[mark]; !seen {
			s.Marks[mark], s.Revisions[mark] = now, w.revision(e)
			if s.Name != "" {
				w.counts[[2]string{s.Namespace, mark}]++
			}
		}
	}
	if beat.Where != "" && s.Versions[beat.Where].Value != beat.Version {
		s.Versions[beat.Where] = s.Versions[beat.Where].then(beat.Version, now)
	}
}

// revision is the server's of an event: all kinds have one order.
func (w *Watcher) revision(e Event) int64 {
	revision, err := strconv.ParseInt(e.Object.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		w.failed(fmt.Errorf("%s %s/%s has a resource version that has no order: %w", e.Object.Kind, e.Object.Metadata.Namespace, e.Object.Metadata.Name, err))
	}
	return revision
}

// then is the version after another was seen. Those that are edited are numbers, one after the other.
func (v Version) then(value string, at time.Time) Version {
	next := Version{Value: value, Time: at, Changes: v.Changes + 1, Back: v.Back}
	was, _ := strconv.Atoi(v.Value)
	if is, _ := strconv.Atoi(value); is < was {
		next.Back++
	}
	return next
}

// own takes in what happened to the object itself.
func (w *Watcher) own(s *Story, e Event) {
	if s.Name == "" { // a child may have been seen before its owner
		s.Namespace, s.Name = e.Object.Metadata.Namespace, e.Object.Metadata.Name
		s.Paths = append(s.Paths, e.Object.Path())
		w.named[s.Namespace+"/"+s.Name] = s
		for mark := range s.Marks {
			w.counts[[2]string{s.Namespace, mark}]++
		}
	}
	if len(e.Object.Status) > 0 && e.Type == "MODIFIED" {
		s.Statuses[maphash.Bytes(w.seed, e.Object.Status)] = true
	}
}

// Stories are copies of the stories of a namespace.
func (w *Watcher) Stories(namespace string) []*Story {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*Story
	for _, s := range w.stories {
		if s.Namespace == namespace {
			out = append(out, s.clone())
		}
	}
	return out
}

// Story is a copy of the story of one object, nil when nothing was seen of it.
func (w *Watcher) Story(namespace, name string) *Story {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.named[namespace+"/"+name]; s != nil {
		return s.clone()
	}
	return nil
}

func (s *Story) clone() *Story {
	return &Story{Namespace: s.Namespace, Name: s.Name, Marks: maps.Clone(s.Marks), Revisions: maps.Clone(s.Revisions),
		Statuses: maps.Clone(s.Statuses), Versions: maps.Clone(s.Versions), Paths: slices.Clone(s.Paths)}
}

// Paths are the paths of the objects of a namespace and of all their children.
func (w *Watcher) Paths(namespace string) []string {
	var out []string
	for _, s := range w.Stories(namespace) {
		out = append(out, s.Paths...)
	}
	return out
}

// Count is how many objects of a namespace have a mark.
func (w *Watcher) Count(namespace, mark string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts[[2]string{namespace, mark}]
}

// Await waits until n objects of a namespace have a mark.
func (w *Watcher) Await(ctx context.Context, namespace, mark string, n int, timeout time.Duration) error {
	return wait(ctx, timeout, func() bool { return w.Count(namespace, mark) >= n }, func() string {
		return fmt.Sprintf("waiting for %d objects in %s to be %q: %d are", n, namespace, mark, w.Count(namespace, mark))
	})
}

// Quiet waits until nothing has happened for a while.
func (w *Watcher) Quiet(ctx context.Context, calm, timeout time.Duration) error {
	return wait(ctx, timeout, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return time.Since(w.last) >= calm
	}, func() string { return "waiting for nothing to happen: something does" })
}

// wait polls, often enough for times that the watcher takes itself.
func wait(ctx context.Context, timeout time.Duration, done func() bool, what func() string) error {
	deadline := time.Now().Add(timeout)
	for !done() {
		if time.Now().After(deadline) {
			return fmt.Errorf("%s after %s", what(), timeout)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what(), context.Cause(ctx))
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

func (m Metadata) managedBy(manager string) bool {
	for _, f := range m.ManagedFields {
		if f.Manager == manager {
			return true
		}
	}
	return false
}
