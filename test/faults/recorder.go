package faults

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// Entry is something that happened to an object.
type Entry struct {
	Verb     watch.EventType
	Resource schema.GroupVersionResource
	// Version is the resource version, which orders entries of all kinds.
	Version int64
	// Time is when the recorder saw it.
	Time   time.Time
	Object *unstructured.Unstructured
	// Own says that the object goes, or is gone, because the manager has asked for that, and nobody had before.
	Own bool

	// state is what there was after it; nil of a history of which that is not known.
	state State
}

// recorder watches all kinds of a world with a client of its own and forgets nothing. It is
// what the oracles believe, not the manager.
type recorder struct {
	world    World
	recorded []*recorded

	mu   sync.Mutex
	runs map[string]*record // by namespace
}

// record is what happened in one run.
type record struct {
	mu      sync.Mutex
	entries []Entry
	live    map[types.UID]*unstructured.Unstructured
	changed chan struct{} // holds one value when there is something new
}

// recorded is one kind that is watched.
type recorded struct {
	*recorder
	resource schema.GroupVersionResource
	client   dynamic.NamespaceableResourceInterface

	mu      sync.Mutex
	live    map[types.UID]*unstructured.Unstructured
	version string
}

// startRecorder watches until ctx is done.
func startRecorder(ctx context.Context, client dynamic.Interface, world World) (*recorder, error) {
	r := &recorder{world: world, runs: map[string]*record{}}
	var lists errgroup.Group
	for _, resource := range world.Kinds {
		k := &recorded{recorder: r, resource: resource, client: client.Resource(resource), live: map[types.UID]*unstructured.Unstructured{}}
		r.recorded = append(r.recorded, k)
		// The first list of a kind of a new CRD takes the API server a second.
		lists.Go(func() error { return k.list(ctx) })
	}
	if err := lists.Wait(); err != nil {
		return nil, err
	}
	for _, k := range r.recorded {
		go k.follow(ctx)
	}
	return r, nil
}

// follow goes on where it was whenever a watch ends, so that nothing is missed or seen twice.
func (k *recorded) follow(ctx context.Context) {
	for ctx.Err() == nil {
		err := k.watch(ctx)
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			// The API server was restarted and knows no older moment than its start.
			err = k.list(ctx)
		}
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(poll):
			}
		}
	}
}

// watch tells what happens until the stream ends.
func (k *recorded) watch(ctx context.Context) error {
	watcher, err := k.client.Watch(ctx, metav1.ListOptions{ResourceVersion: k.version, AllowWatchBookmarks: true})
	if err != nil {
		return err
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		u, ok := event.Object.(*unstructured.Unstructured)
		if event.Type == watch.Error || !ok {
			return apierrors.FromObject(event.Object)
		}
		k.version = u.GetResourceVersion()
		if event.Type != watch.Bookmark {
			k.saw(event.Type, u)
		}
	}
	return nil
}

// list tells what has happened since the last event: what is there now, what it was on the way, and when what is gone went.
func (k *recorded) list(ctx context.Context) error {
	list, err := k.client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing %s: %w", k.resource.Resource, err)
	}
	there := map[types.UID]bool{}
	for i := range list.Items {
		there[list.Items[i].GetUID()] = true
	}
	for uid, u := range k.live {
		if there[uid] {
			continue
		}
		version, err := k.went(ctx, u, list)
		if err != nil {
			return err
		}
		if err := k.tell(ctx, u, version); err != nil {
			return err
		}
		last := k.live[uid].DeepCopy()
		last.SetResourceVersion(strconv.FormatInt(version, 10))
		k.saw(watch.Deleted, last)
	}
	slices.SortFunc(list.Items, func(a, b unstructured.Unstructured) int { return cmp.Compare(versionOf(&a), versionOf(&b)) })
	for i := range list.Items {
		if err := k.tell(ctx, &list.Items[i], versionOf(&list.Items[i])+1); err != nil {
			return err
		}
	}
	k.version = list.GetResourceVersion()
	return nil
}

// tell tells what an object has become since it was seen last, or since it came, until a resource version. An oracle that
// saw its last state alone would take what rests on the others for done too early.
func (k *recorded) tell(ctx context.Context, u *unstructured.Unstructured, until int64) error {
	known, found := int64(0), k.live[u.GetUID()]
	if found != nil {
		known = versionOf(found)
	}
	var states []*unstructured.Unstructured
	if v := versionOf(u); v > known {
		states, until = append(states, u), v
	}
	for known < until-1 {
		then, err := k.then(ctx, u, until-1)
		if err != nil {
			return err
		}
		if then == nil || versionOf(then) <= known {
			break
		}
		states, until = append(states, then), versionOf(then)
	}
	for _, then := range slices.Backward(states) {
		verb := watch.Modified
		if found == nil {
			verb, found = watch.Added, then
		}
		k.saw(verb, then)
	}
	return nil
}

// then is an object as it was at a resource version; nil if it was not there.
func (k *recorded) then(ctx context.Context, u *unstructured.Unstructured, version int64) (*unstructured.Unstructured, error) {
	list, err := k.client.Namespace(u.GetNamespace()).List(ctx, metav1.ListOptions{
		FieldSelector:        "metadata.name=" + u.GetName(),
		ResourceVersion:      strconv.FormatInt(version, 10),
		ResourceVersionMatch: metav1.ResourceVersionMatchExact,
	})
	if err != nil {
		return nil, fmt.Errorf("listing %s as of then: %w", k.resource.Resource, err)
	}
	for i := range list.Items {
		if list.Items[i].GetUID() == u.GetUID() {
			return &list.Items[i], nil
		}
	}
	return nil, nil
}

// went is the resource version at which an object went that is not in a list any more: the first one
// of which the API server says that the object was not there. Objects of other kinds went before and
// after it, and the oracles ask in which order.
func (k *recorded) went(ctx context.Context, u *unstructured.Unstructured, now *unstructured.UnstructuredList) (int64, error) {
	until, err := strconv.ParseInt(now.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading resource version of list: %w", err)
	}
	last := versionOf(u)
	n, err := search(int(until-last), func(i int) (bool, error) {
		then, err := k.then(ctx, u, last+int64(i))
		return then == nil, err
	})
	return last + int64(n), err
}

// search is sort.Search for what can fail.
func search(n int, f func(int) (bool, error)) (int, error) {
	var failed error
	i := sort.Search(n, func(i int) bool {
		if failed != nil {
			return true
		}
		is, err := f(i)
		failed = err
		return is
	})
	return i, failed
}

// saw keeps an event and passes it on to its run.
func (k *recorded) saw(verb watch.EventType, u *unstructured.Unstructured) {
	k.mu.Lock()
	if verb == watch.Deleted {
		delete(k.live, u.GetUID())
	} else {
		k.live[u.GetUID()] = u
	}
	k.mu.Unlock()
	k.happened(verb, k.resource, u)
}

// knows says whether the recorder has seen all that is stored of the kind.
func (k *recorded) knows(ctx context.Context) (bool, error) {
	list, err := k.client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, fmt.Errorf("listing %s: %w", k.resource.Resource, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range list.Items {
		u := k.live[list.Items[i].GetUID()]
		if u == nil || u.GetResourceVersion() != list.Items[i].GetResourceVersion() {
			return false, nil
		}
	}
	return len(list.Items) == len(k.live), nil
}

// settle waits until the recorder has seen all that is stored.
func (r *recorder) settle(ctx context.Context) error {
	for _, k := range r.recorded {
		for {
			known, err := k.knows(ctx)
			if err != nil {
				return err
			}
			if known {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("waiting for recorder to see all of %s: %w", k.resource.Resource, ctx.Err())
			case <-time.After(poll):
			}
		}
	}
	return nil
}

func (r *recorder) happened(verb watch.EventType, resource schema.GroupVersionResource, u *unstructured.Unstructured) {
	run := r.of(u)
	if run == nil {
		return
	}
	run.mu.Lock()
	run.entries = append(run.entries, Entry{Verb: verb, Resource: resource, Version: versionOf(u), Time: time.Now(), Object: u})
	if verb == watch.Deleted {
		delete(run.live, u.GetUID())
	} else {
		run.live[u.GetUID()] = u
	}
	run.mu.Unlock()
	select {
	case run.changed <- struct{}{}:
	default:
	}
}

// of is the record of the run that an object belongs to, or did when it was seen before: who takes off what says so does not
// take it away from who looks for it.
func (r *recorder) of(u *unstructured.Unstructured) *record {
	r.mu.Lock()
	defer r.mu.Unlock()
	if run := r.runs[r.world.run(u)]; run != nil {
		return run
	}
	for _, run := range r.runs {
		if run.has(u.GetUID()) {
			return run
		}
	}
	return nil
}

// has says whether there is an object in a run.
func (r *record) has(uid types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.live[uid] != nil
}

func versionOf(u *unstructured.Unstructured) int64 {
	version, _ := strconv.ParseInt(u.GetResourceVersion(), 10, 64)
	return version
}

// begin records what happens in a namespace.
func (r *recorder) begin(namespace string) *record {
	run := &record{live: map[types.UID]*unstructured.Unstructured{}, changed: make(chan struct{}, 1)}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs[namespace] = run
	return run
}

func (r *recorder) end(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.runs, namespace)
}

// state is what there is now: others look at the same objects, so nobody changes them.
func (r *record) state() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := State(slices.Collect(maps.Values(r.live)))
	slices.SortFunc(s, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(created(a).Compare(created(b)), cmp.Compare(a.GetUID(), b.GetUID()))
	})
	return s
}

// seen is every state of the objects of a name, in any order.
func (r *record) seen(resource schema.GroupVersionResource, name types.NamespacedName) (out []*unstructured.Unstructured) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.entries {
		if e.Resource == resource && e.Object.GetNamespace() == name.Namespace && e.Object.GetName() == name.Name {
			out = append(out, e.Object)
		}
	}
	return out
}

// history is everything that happened, in its order.
func (r *record) history() []Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.SortedStableFunc(slices.Values(r.entries), func(a, b Entry) int { return cmp.Compare(a.Version, b.Version) })
}

// StateOf is what there was after all that has happened.
func StateOf(history []Entry) State {
	if n := len(history); n > 0 && history[n-1].state != nil {
		return slices.Clone(history[n-1].state)
	}
	var s State
	for _, e := range history {
		s = s.after(e)
	}
	return s
}

// after is another state, after something has happened.
func (s State) after(e Entry) State {
	s = slices.Clone(s)
	i := slices.IndexFunc(s, func(u *unstructured.Unstructured) bool { return u.GetUID() == e.Object.GetUID() })
	switch {
	case e.Verb == watch.Deleted && i >= 0:
		return slices.Delete(s, i, i+1)
	case e.Verb == watch.Deleted:
		return s
	case i >= 0:
		s[i] = e.Object
		return s
	}
	return append(s, e.Object)
}

// State is the objects of a run as they were seen last. They are not to be changed.
type State []*unstructured.Unstructured

// Of are the objects of a kind.
func (s State) Of(kind string) []*unstructured.Unstructured {
	return s.Only(func(u *unstructured.Unstructured) bool { return u.GetKind() == kind })
}

// Only are the objects that something is true of.
func (s State) Only(is func(*unstructured.Unstructured) bool) State {
	return slices.DeleteFunc(slices.Clone(s), func(u *unstructured.Unstructured) bool { return !is(u) })
}

func created(u *unstructured.Unstructured) time.Time { return u.GetCreationTimestamp().Time }
