package workloadscaler

import (
	"fmt"
	"slices"
	"strings"

	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/executor/cluster"
)

// by is who has given the field of a part its value.
func by(p part, now live) cluster.Writer {
	f := p.of().field
	w := cluster.By(now.object, slices.Concat(f.path, f.within)...)
	if p.of().foreign { // nobody tells who has written its replicas by its scale
		w.Ignore = "jsonPointers: [/spec/replicas]"
	}
	return w
}

// ours says whether a runner was the last to write the field of a part, and yet it is not asleep: an admission webhook has made that of
// it, and the runner did not come to take it back. Of a kind of which nobody tells who writes its scale it is asked before (write).
func ours(p part, now live) bool {
	return !p.of().field.isAsleep(now.value) && slices.Contains(by(p, now).Names, cluster.Sleeps)
}

// byOthers says whether somebody else has put to sleep what a runner has captured and, as far as is known, not touched. Where one was
// killed before it has told, it was the last to write, or nobody tells who was. What its autoscalers have made of it, by what a runner has
// told them, is no decision of theirs.
func byOthers(before *state, now live) bool {
	k := before.of()
	return now.there() && !k.foreign && len(before.Autoscalers) == 0 && k.field.isAsleep(now.value) && !k.field.isAsleep(decode(before.Value)) && by(before.part, now).Others()
}

// again says that what was put to sleep is not asleep any more.
func (t *target) again(p part, now live) (string, error) {
	f := p.of().field
	if !now.there() || f.isAsleep(now.value) {
		return "", nil
	}
	problem, w := fmt.Sprintf("%s is %s again", strings.Join(f.path, "."), said(now.value)), by(p, now)
	if w.Application != "" {
		cause := w.Cause()
		if t.unpatched && p.of().applied() {
			cause += ", and apply " + t.roles() + " again: who may not patch subresource scale has not written it, as far as anybody tells"
		}
		return "", &executor.WokenError{Problem: problem, Cause: cause}
	}
	return problem + w.Note(), nil
}

// roles are where what runners may do in the cluster comes from.
func (t *target) roles() string {
	if t.session.Remote {
		return "config/target-cluster"
	}
	return "config/rbac/runner"
}

// awake says that what was put to sleep was found as it was before: somebody else has woken it, as far as anybody tells. It is not this
// that a wake-up before has done, nor what others do as soon as one begins.
func awake(p part, slept *part, found live) string {
	f := p.of().field
	if slept == nil || !f.isAsleep(decode(slept.Value)) || !found.there() || f.isAsleep(found.value) || !equal(encode(found.value), p.Value) {
		return ""
	}
	w := by(p, found)
	if !w.Others() {
		return ""
	}
	return fmt.Sprintf("it was awake already: %s is %s%s", strings.Join(f.path, "."), said(found.value), w.Note())
}
