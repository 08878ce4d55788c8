package workloadscaler

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/executor/cluster"
	"github.com/labkeeper/labkeeper/internal/restore"
)

// live is an object of a part as it is now.
type live struct {
	// object is nil if it is not there.
	object *unstructured.Unstructured
	// at is what carries the resourceVersion that a write is made at: the object, or its Scale.
	at *unstructured.Unstructured
	// value of the field.
	value any
	// other says that the object is another by now, which has not come back from a backup as it was asleep.
	other bool
}

func (l live) there() bool { return l.object != nil && !l.other }

// read is the object of a part, with a scale of its own where the two are read one after the other.
func (t *target) read(ctx context.Context, p part) (l live, err error) {
	err = cluster.Retry(ctx, func() error {
		l, err = t.look(ctx, p)
		return err
	})
	return l, err
}

// look is read, or a conflict where the scale is that of another object.
func (t *target) look(ctx context.Context, p part) (live, error) {
	k := p.of()
	in := t.client.Resource(k.gvr).Namespace(p.Namespace)
	object, err := cluster.Get(ctx, in, p.Name, schema.GroupKind{Group: k.gvr.Group, Kind: p.Kind}, t.discovery)
	if err != nil {
		return live{}, fmt.Errorf("reading %s: %w", p, err)
	}
	if object == nil {
		return live{}, nil
	}
	l := live{object: object, at: object, value: k.field.read(object), other: object.GetUID() != p.UID && !cameBack(p, object)}
	if k.foreign {
		scale, err := t.scale(ctx, k, object)
		if err != nil || scale == nil {
			return live{}, err
		}
		if uid := scale.GetUID(); uid != "" && uid != object.GetUID() {
			return live{}, apierrors.NewConflict(k.gvr.GroupResource(), p.Name, errors.New("it was deleted and created again as it was read"))
		}
		n, _, _ := unstructured.NestedInt64(scale.Object, "spec", "replicas")
		l.at, l.value = scale, n
	}
	if l.other && equal(encode(l.value), p.Value) { // what came back, and has been woken
		l.other = !slices.Contains(by(p, l).Names, cluster.Wakes)
	}
	return l, nil
}

// cameBack says whether an object was put to sleep by the field of a part, and has come back so from a backup.
func cameBack(p part, object *unstructured.Unstructured) bool {
	f := p.of().field
	return cluster.CameBack(object, slices.Concat(f.path, f.within)...)
}

// write gives the field of a part a value, which is what the server then says that it is.
func (t *target) write(ctx context.Context, p part, l live, value any, changes map[string]any) (any, error) {
	k, manager := p.of(), cluster.Wakes
	if value == k.field.asleep {
		manager = cluster.Sleeps
	}
	in := t.client.Resource(k.gvr).Namespace(p.Namespace)
	switch n, is := value.(int64); {
	case !is || !k.scaled || k.patched:
	case n == 0 && k.applied():
		scaled, err := cluster.ScaleToZero(ctx, in, l.at, manager)
		if !apierrors.IsForbidden(err) {
			return scaled, err
		}
		t.unpatched = true
		fallthrough
	case n == 0: // nobody will tell who has written it
		if made, err := cluster.WouldScale(ctx, in, l.at, n, manager); made != n || err != nil {
			return made, err
		}
		fallthrough
	default:
		return cluster.Scale(ctx, in, l.at, n, manager)
	}
	patched, err := cluster.Patch(ctx, in, l.object, changes, manager)
	if err != nil {
		return nil, err
	}
	return k.field.read(patched), nil
}

// Renew takes a workload as it is now, unless it sleeps or was put to sleep in this cycle, and the autoscalers that it had as they were:
// an attempt before may have changed those. One that it has got since nobody has changed.
func (t *target) Renew(known restore.Resource, found json.RawMessage, former bool) (renewed json.RawMessage, woken bool, err error) {
	before, err := decodeState(known.Key, known.Before)
	if err != nil {
		return nil, false, err
	}
	now, err := decodeState(known.Key, found)
	if err != nil {
		return nil, false, err
	}
	isAsleep, other := now.of().field.isAsleep(decode(now.Value)), now.UID != before.UID
	woken = (former || other) && !isAsleep // what was deleted and created again nobody has put to sleep
	all := merged(before, now, woken)
	switch {
	case other && !known.Untouched() && isAsleep:
		return known.Before, false, nil // it was deleted and created again while it was asleep
	case other:
	case !known.Untouched() && !woken, known.Untouched() && now.Ours, isAsleep, equal(now.Value, before.Value):
		now = before
	}
	now.Autoscalers = all
	return encode(now), woken, nil
}

// merged are the autoscalers that a workload has, those that it had before as they were, and those that it had and that scale it no more.
// Those of one that somebody has woken are as he has made them, where they are not as its sleep, or a wake-up on its way, has left them.
func merged(before, now *state, woken bool) []part {
	all := slices.Clone(now.Autoscalers)
	for _, was := range before.Autoscalers {
		i := slices.IndexFunc(all, func(p part) bool { return p.key() == was.key() })
		switch {
		case i < 0:
			all = append(all, was)
		case all[i].UID != was.UID && (!was.of().field.isAsleep(decode(all[i].Value)) || was.of().field.isAsleep(decode(was.Value))):
		case !woken || was.of().field.isAsleep(decode(all[i].Value)) || slices.Contains(held(before), decode(all[i].Value)):
			all[i] = was
		}
	}
	slices.SortFunc(all, func(a, b part) int { return strings.Compare(a.key(), b.key()) })
	return all
}

// outside says whether a part is where the runner may not even look: its namespace is gone, or takes no part any more.
func (t *target) outside(p part) bool {
	return !t.session.Remote && !slices.Contains(t.session.Namespaces, p.Namespace)
}

// Shutdown puts a workload to sleep, its autoscalers before it.
func (t *target) Shutdown(ctx context.Context, captured executor.Captured) (json.RawMessage, error) {
	before, err := decodeState(captured.Key, captured.Before)
	if err != nil {
		return nil, err
	}
	if t.outside(before.part) {
		return executor.Gone, nil
	}
	now, err := t.read(ctx, before.part)
	if err != nil {
		return nil, err
	}
	if !now.there() {
		return executor.Gone, nil
	}
	if err := errors.Join(mustStay(before.of(), now.object, now.value), unknown(before.part, now)); err != nil { // before its autoscalers are touched
		return nil, fmt.Errorf("putting %s to sleep: %w", before, err)
	}
	c := &sleeper{captured, before, captured.Fresh}
	slept := &state{part: before.part}
	for i := range before.Autoscalers {
		scaler := &before.Autoscalers[i]
		value, there, err := t.sleep(ctx, c, scaler)
		if err != nil {
			return nil, err
		}
		if there {
			asleep := *scaler
			asleep.Value = encode(value)
			slept.Autoscalers = append(slept.Autoscalers, asleep)
		}
	}
	value, there, err := t.sleep(ctx, c, &before.part)
	if err != nil {
		return nil, err
	}
	if !there {
		return executor.Gone, nil
	}
	slept.Value = encode(value)
	return encode(slept), nil
}

// unknown is an error where a part was captured as it has come back from a backup, asleep: nobody knows how it was, and it would stay so.
func unknown(p part, now live) error {
	f := p.of().field
	if !f.isAsleep(now.value) || !f.isAsleep(decode(p.Value)) || !cameBack(p, now.object) {
		return nil
	}
	return fmt.Errorf("it has come back from a backup as a plan had put it to sleep, and how it was is not known: give %s the value that it is to have by day, or, "+
		"where that is %s, another one first", strings.Join(f.path, "."), said(now.value))
}

// sleeper is a workload that is put to sleep, and how it was.
type sleeper struct {
	executor.Captured
	before *state
	// first: no attempt before this one has captured it.
	first bool
}

// changed is an error where somebody else has given a part another value since it was captured; then that is how it was. An
// autoscaler may have the value that an attempt before has given it on the way (hold), and what nothing was told of one that a runner
// has left.
func (s *sleeper) changed(p *part, now live) error {
	f, scaler := p.of().field, p != &s.before.part
	found := f.isAsleep(decode(p.Value))
	if !s.Changed(equal(encode(now.value), p.Value), found, f.isAsleep(now.value)) || scaler && !s.first && !found || s.Untouched() && ours(*p, now) {
		return nil
	}
	p.Value = encode(now.value)
	return &executor.ChangedError{State: encode(s.before), Fresh: s.Fresh}
}

// sleep puts the object of a part to sleep, and returns the value that its field has then. It is not there if it has
// gone, or is another by now.
func (t *target) sleep(ctx context.Context, s *sleeper, p *part) (value any, there bool, err error) {
	f := p.of().field
	err = cluster.Retry(ctx, func() error {
		now, err := t.read(ctx, *p)
		if there, value = now.there(), now.value; err != nil || !there {
			return err
		}
		if err := s.changed(p, now); err != nil || f.isAsleep(value) {
			return cmp.Or(err, unknown(*p, now))
		}
		if err := mustStay(p.of(), now.object, value); err != nil {
			return err
		}
		s.Fresh = false
		value, err = t.write(ctx, *p, now, f.asleep, f.sleep())
		switch {
		case cluster.IsGone(err):
			there, err = false, nil
		case err == nil && !f.isAsleep(value):
			err = t.takeBack(ctx, *p, value)
		}
		return err
	})
	if err != nil {
		return nil, false, fmt.Errorf("putting %s to sleep: %w", *p, err)
	}
	return value, there, nil
}

// takeBack gives a part the value again that it had, because an admission webhook has made something else of the one that it was to be
// put to sleep with: another attempt would take that for how it was. It returns what was wrong.
func (t *target) takeBack(ctx context.Context, p part, made any) error {
	f := p.of().field
	err := t.change(ctx, p, decode(p.Value), func(now any) bool { return equal(encode(now), encode(made)) })
	return errors.Join(fmt.Errorf("%s was set to %s, and the server has made %s of that; see what changes it on admission",
		strings.Join(f.path, "."), said(f.asleep), said(made)), err)
}

// WakeUp brings a workload back, and its autoscalers after it.
func (t *target) WakeUp(ctx context.Context, resource restore.Resource) (executor.Ending, error) {
	before, err := decodeState(resource.Key, resource.Before)
	if err != nil {
		return executor.Ending{}, err
	}
	slept, err := decodeSlept(resource.Key, resource.Slept)
	if err != nil {
		return executor.Ending{}, err
	}
	if t.outside(before.part) {
		return executor.Ending{State: restore.Left, Note: "its namespace is gone, or going"}, nil
	}
	found, err := t.hold(ctx, before, slept)
	if err != nil {
		return executor.Ending{}, err
	}
	var asleep *part
	if slept != nil {
		asleep = &slept.part
	} else if byOthers(before, found) {
		return executor.Ending{State: restore.Left, Note: changed(before.part, found)}, nil
	}
	var notes []string
	var already string
	note, err := t.wake(ctx, before.part, asleep)
	if err != nil {
		return executor.Ending{}, err
	}
	if note != "" {
		notes = append(notes, note)
	} else if already, err = t.already(ctx, before, asleep, found); err != nil {
		return executor.Ending{}, err
	}
	for _, scaler := range slices.Backward(before.Autoscalers) {
		note, err := t.wake(ctx, scaler, slept.autoscaler(scaler.key()), held(before)...)
		if err != nil {
			return executor.Ending{}, err
		}
		if note != "" {
			notes = append(notes, fmt.Sprintf("%s: %s", scaler, note))
		}
	}
	if len(notes) > 0 {
		return executor.Ending{State: restore.Left, Note: strings.Join(notes, "; ")}, nil
	}
	return executor.Ending{State: restore.Restored, Note: already}, nil
}

// already says that somebody else has woken a workload, to where it was, as far as anybody tells. It is not KEDA, which an attempt
// before has told to (hold).
func (t *target) already(ctx context.Context, before *state, slept *part, found live) (string, error) {
	said := awake(before.part, slept, found)
	if said == "" {
		return "", nil
	}
	for _, scaler := range before.Autoscalers {
		now, err := t.read(ctx, scaler)
		if err != nil || now.there() && slices.Contains(held(before), now.value) {
			return "", err
		}
	}
	return said, nil
}

// held is the value by which KEDA keeps the replicas that a workload is about to have again.
func held(before *state) []any {
	if n := wanted(before.part); before.of().scaled && n > 0 {
		return []any{strconv.FormatInt(n, 10)}
	}
	return nil
}

// hold lets KEDA keep the replicas that the workload is about to have again: for as long as it was told to keep 0, it
// would take them. It returns the workload as it was before that.
func (t *target) hold(ctx context.Context, before, slept *state) (live, error) {
	now, err := t.read(ctx, before.part)
	if err != nil || !now.there() || !before.of().field.isAsleep(now.value) {
		return now, err
	}
	for _, scaler := range before.Autoscalers {
		k := scaler.of()
		for _, value := range held(before) {
			if k.gvr != scaledObjects.gvr {
				continue
			}
			was := slept.autoscaler(scaler.key())
			if err := t.change(ctx, scaler, value, func(now any) bool { return isLeft(scaler, was, now) && !equal(encode(now), scaler.Value) }); err != nil {
				return now, fmt.Errorf("readying %s to wake: %w", scaler, err)
			}
		}
	}
	return now, nil
}

// change gives the field of a part a value where it may be.
func (t *target) change(ctx context.Context, p part, value any, may func(now any) bool) error {
	return cluster.Retry(ctx, func() error {
		now, err := t.read(ctx, p)
		if err != nil || !now.there() || !may(now.value) {
			return err
		}
		_, err = t.write(ctx, p, now, value, p.of().field.set(value))
		if cluster.IsGone(err) {
			return nil
		}
		return err
	})
}

// isLeft says whether a value is the one that Shutdown has left.
func isLeft(p part, slept *part, now any) bool {
	if slept != nil {
		return equal(encode(now), slept.Value)
	}
	return p.of().field.isAsleep(now)
}

const isGone = "it is gone"

// wake brings the object of a part back where it is as Shutdown has left it, or has one of some values that are on the
// way. The note is why it was left; empty is that it is as it was.
func (t *target) wake(ctx context.Context, p part, slept *part, onTheWay ...any) (note string, err error) {
	value := decode(p.Value)
	err = cluster.Retry(ctx, func() error {
		now, err := t.read(ctx, p)
		switch {
		case err != nil:
			return err
		case now.object == nil:
			note = isGone
			return nil
		case now.other && (!slices.Contains(onTheWay, now.value) || !slices.Contains(by(p, now).Names, cluster.Wakes)): // by hold
			note = fmt.Sprintf("it was deleted and created again while it was asleep: %s was %s", strings.Join(p.of().field.path, "."), said(value))
			return nil
		case equal(encode(now.value), p.Value):
			note = ""
			return nil
		case !isLeft(p, slept, now.value) && !slices.Contains(onTheWay, now.value) && (slept != nil || !ours(p, now)):
			note = changed(p, now)
			return t.release(ctx, p, now)
		}
		note = ""
		made, err := t.write(ctx, p, now, value, p.of().field.set(value))
		if err == nil && !equal(encode(made), p.Value) {
			note = fmt.Sprintf("it was %s, and the server has made %s of that: %s; see what changes it on admission", said(value), said(made), strings.Join(p.of().field.path, "."))
		}
		return err
	})
	if cluster.IsGone(err) {
		return isGone, nil
	}
	if err != nil {
		return "", fmt.Errorf("waking %s: %w", p, err)
	}
	return note, nil
}

// changed says that somebody else has given a part another value.
func changed(p part, now live) string {
	return fmt.Sprintf("somebody has changed it while it was asleep: %s is %s%s", strings.Join(p.of().field.path, "."), said(now.value), by(p, now).Note())
}

// release brings back what an object was put to sleep by, of a field of which somebody has changed something else.
func (t *target) release(ctx context.Context, p part, now live) error {
	f, value := p.of().field, decode(p.Value)
	if len(f.within) == 0 || !f.isAsleep(now.value) || f.isAsleep(value) {
		return nil
	}
	_, err := t.write(ctx, p, now, nil, nest(f.by(value), slices.Concat(f.path, f.within)...))
	return err
}

// said is a value as a note says it.
func said(value any) string {
	if value == nil {
		return "not set"
	}
	return string(encode(value))
}

// wanted is how many replicas a workload had; without any it is one of 1.
func wanted(p part) int64 {
	if n, ok := decode(p.Value).(int64); ok {
		return n
	}
	return 1
}
