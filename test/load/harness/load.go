package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// loaders is how many clients create objects at the same time.
const loaders = 16

// Parallel runs a function several times at the same time and joins the errors.
func Parallel(n int, do func(i int) error) error {
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { errs[i] = do(i) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// Create creates one object.
func (l *Lab) Create(ctx context.Context, namespace, name string, variant Variant) error {
	return l.Client.Create(ctx, l.Subject.Resource, namespace, l.Subject.New(namespace, name, variant))
}

// CreateAll creates n objects as fast as they can be created, named with a prefix.
func (l *Lab) CreateAll(ctx context.Context, namespace, prefix string, n int, variant Variant) error {
	if variant == Held {
		prefix = HeldPrefix + prefix
	}
	return l.createAll(ctx, n, func(i int) *unstructured.Unstructured {
		return l.Subject.New(namespace, fmt.Sprintf("%s-%d", prefix, i), variant)
	})
}

// CreateAllAt creates n objects that begin at a full minute, as CreateAll does.
func (l *Lab) CreateAllAt(ctx context.Context, namespace, prefix string, n int, at time.Time) error {
	return l.createAll(ctx, n, func(i int) *unstructured.Unstructured {
		return l.Subject.At(namespace, fmt.Sprintf("%s-%d", prefix, i), at)
	})
}

func (l *Lab) createAll(ctx context.Context, n int, object func(i int) *unstructured.Unstructured) error {
	var next atomic.Int64
	return Parallel(min(loaders, n), func(int) error {
		for {
			i := int(next.Add(1)) - 1
			if i >= n || ctx.Err() != nil {
				return ctx.Err()
			}
			o := object(i)
			if err := l.Client.Create(ctx, l.Subject.Resource, o.GetNamespace(), o); err != nil {
				return err
			}
		}
	})
}

// warmUp is how many objects go all the way before anything is measured.
const warmUp = 20

// Begin is the usual beginning: the world, a manager that has brought some objects to their
// end, and a namespace to measure in.
func (l *Lab) Begin(ctx context.Context, namespaces ...string) (*Manager, error) {
	if err := l.StartWorld(); err != nil {
		return nil, err
	}
	m, err := l.StartManager()
	if err != nil {
		return nil, err
	}
	const warm = "warm-up"
	for _, namespace := range append(namespaces, warm) {
		if err := l.Namespace(ctx, namespace); err != nil {
			return nil, err
		}
	}
	if err := l.CreateAll(ctx, warm, "warm", warmUp, Plain); err != nil {
		return nil, err
	}
	if err := l.Watcher.Await(ctx, warm, l.Subject.Done, warmUp, time.Minute); err != nil {
		return nil, fmt.Errorf("%w; the manager's log ends with:\n%s", err, m.Tail(10))
	}
	return m, l.Watcher.Quiet(ctx, time.Second, time.Minute)
}

// Counted are the stories of the objects of a namespace that count, and an error of those
// that do not.
func (l *Lab) Counted(namespace string, n int) []*Story {
	return l.CountedOf(l.Subject, namespace, n)
}

// CountedOf are those of a kind that lives beside the subject.
func (l *Lab) CountedOf(kind *Subject, namespace string, n int) []*Story {
	return l.counted(l.Watcher, kind, namespace, n)
}

func (l *Lab) counted(watcher *Watcher, kind *Subject, namespace string, n int) []*Story {
	stories := watcher.Stories(namespace)
	var counted []*Story
	for _, s := range stories {
		if missing := s.lacks(kind.needs()); missing != "" {
			l.Fail(fmt.Errorf("%s/%s does not count: the watcher has not seen %q", s.Namespace, s.Name, missing))
			continue
		}
		counted = append(counted, s)
	}
	if len(counted) != n {
		l.Fail(fmt.Errorf("%d of %d objects count", len(counted), n))
	}
	return counted
}

// needs are the marks without which an object does not count: a reaction that nobody sees would not be a slow one.
func (s *Subject) needs() []string {
	needs := slices.Clone(s.Needs)
	for _, r := range s.Reactions {
		needs = append(needs, r.Cause, r.Effect)
	}
	return needs
}

func (s *Story) lacks(needs []string) string {
	for _, mark := range needs {
		if _, seen := s.Marks[mark]; !seen {
			return mark
		}
	}
	return ""
}

// Reactions are how long the manager took for each of the subject's reactions, by name.
func (l *Lab) Reactions(stories []*Story) map[string][]time.Duration {
	all, _ := timed(l.Subject.Reactions, stories)
	return all
}

// timed are the reactions by name, and how many effects the server had before their causes: whoever acts early is not fast. One that
// was seen before its cause, but came after it, was as fast as the two watches are apart.
func timed(reactions []Reaction, stories []*Story) (all map[string][]time.Duration, early int) {
	all = map[string][]time.Duration{}
	for _, r := range reactions {
		for _, s := range stories {
			cause, effect := s.Marks[r.Cause], s.Marks[r.Effect]
			switch {
			case cause.IsZero() || effect.IsZero():
			case s.Revisions[r.Effect] < s.Revisions[r.Cause]:
				early++
			default:
				all[r.Name] = append(all[r.Name], max(0, effect.Sub(cause)))
			}
		}
	}
	return all, early
}
