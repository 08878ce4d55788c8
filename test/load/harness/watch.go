package harness

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
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
	// Changes is how often it changed.
	Changes int
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
		s = &Story{Marks: map[string]time.Time{}, Statuses: map[uint64]bool{}, Versions: map[string]Version{}}
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
			s.Marks[mark] = now
			if s.Name != "" {
				w.counts[[2]string{s.Namespace, mark}]++
			}
		}
	}
	if beat.Where != "" && s.Versions[beat.Where].Value != beat.Version {
		s.Versions[beat.Where] = Version{beat.Version, now, s.Versions[beat.Where].Changes + 1}
	}
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
	out := &Story{Namespace: s.Namespace, Name: s.Name, Marks: make(map[string]time.Time, len(s.Marks)), Statuses: map[uint64]bool{}, Versions: map[string]Version{}}
	for k, v := range s.Marks {
		out.Marks[k] = v
	}
	for k := range s.Statuses {
		out.Statuses[k] = true
	}
	for k, v := range s.Versions {
		out.Versions[k] = v
	}
	out.Paths = slices.Clone(s.Paths)
	return out
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
