package harness

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// With is a subject beside which another kind lives: all that the guest needs is there, too, and the watcher sees it.
// What is counted, and the floor, are those of the subject.
func With(subject, guest *Subject) *Subject {
	s := *subject
	s.Guest = guest
	s.CRDs = union(subject.CRDs, guest.CRDs)
	s.Manifests = union(subject.Manifests, guest.Manifests)
	s.Namespaces = union(subject.Namespaces, guest.Namespaces)
	s.Beside = slices.Concat(subject.Beside, guest.Beside)
	s.Args = slices.Concat(subject.Args, guest.Args)
	s.Watched = slices.Concat(subject.Watched, guest.Watched)
	s.World.Watched = slices.Concat(subject.World.Watched, guest.World.Watched)
	seen, played := resources(guest.Watched), resources(guest.World.Watched)
	s.Story = func(e Event) Beat {
		if seen[e.Object.Resource] {
			return guest.Story(e)
		}
		return subject.Story(e)
	}
	s.World.Play = func(ctx context.Context, c *Client, o *Object, gone bool) error {
		if played[o.Resource] {
			return guest.World.Play(ctx, c, o, gone)
		}
		return subject.World.Play(ctx, c, o, gone)
	}
	return &s
}

// union is all of two lists, each once, in their order.
func union(a, b []string) []string {
	return append(slices.Clone(a), slices.DeleteFunc(slices.Clone(b), func(s string) bool { return slices.Contains(a, s) })...)
}

func resources(all []Watched) map[schema.GroupVersionResource]bool {
	found := map[schema.GroupVersionResource]bool{}
	for _, w := range all {
		found[w.Resource] = true
	}
	return found
}
