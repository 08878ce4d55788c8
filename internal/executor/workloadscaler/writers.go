package workloadscaler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/executor/cluster"
)

const (
	trackingID     = "argocd.argoproj.io/tracking-id"
	trackingLabel  = "app.kubernetes.io/instance"
	argoCDInstance = "argocd.argoproj.io/instance"
	// argoCDWriter is how the names begin that Argo CD writes under.
	argoCDWriter = "argocd"

	// watched is how often a workload of Argo CD must have been seen asleep: with the waits of a runner between two looks that is 13 s.
	// Argo CD acts on what it sees, and so within seconds, or, as at a sync, any time.
	watched = 6
)

// application is the one of Argo CD that an object is of; empty if it is of none. Label app.kubernetes.io/instance is that of Helm,
// too: it counts where Argo CD has written the object.
func application(object *unstructured.Unstructured) string {
	app, _, _ := strings.Cut(object.GetAnnotations()[trackingID], ":")
	app = cmp.Or(app, object.GetAnnotations()[argoCDInstance], object.GetLabels()[argoCDInstance])
	if app != "" {
		return app
	}
	for _, entry := range object.GetManagedFields() {
		if strings.HasPrefix(entry.Manager, argoCDWriter) {
			return object.GetLabels()[trackingLabel]
		}
	}
	return ""
}

// writers are who has written a field by its managers, sorted; none where nobody tells.
func writers(object *unstructured.Unstructured, path []string) (names []string) {
	for _, entry := range cluster.Writers(object, path...) {
		names = append(names, entry.Manager)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// writer is who has given a field its value.
type writer struct {
	// names of managers; none is not known.
	names []string
	// application of Argo CD that has; empty is none.
	application string
	// ignore is what lets that leave alone what sleeps.
	ignore string
}

// by is who has given the field of a part its value.
func by(p part, now live) writer {
	f := p.of().field
	w := writer{names: writers(now.object, slices.Concat(f.path, f.within)), ignore: "managedFieldsManagers: [" + cluster.Sleeps + "]"}
	if p.of().foreign { // nobody tells who has written its replicas by its scale
		w.ignore = "jsonPointers: [/spec/replicas]"
	}
	if slices.ContainsFunc(w.names, func(name string) bool { return strings.HasPrefix(name, argoCDWriter) }) {
		w.application = application(now.object)
	}
	return w
}

// ours says whether a runner was the last to write the field of a part, and yet it is not asleep: an admission webhook has made that of
// it, and the runner did not come to take it back. Of a kind of which nobody tells who writes its scale it is asked before (write).
func ours(p part, now live) bool {
	return !p.of().field.isAsleep(now.value) && slices.Contains(by(p, now).names, cluster.Sleeps)
}

// String is the writer as people read it, "" if it is not known.
func (w writer) String() string {
	name := strings.Join(w.names, " and ")
	if w.application != "" {
		name += " of Application " + w.application
	}
	return name
}

// note is the writer and what to do, as the end of a sentence.
func (w writer) note() string {
	switch {
	case w.application != "":
		return fmt.Sprintf(", by %s; let that ignore %s, with RespectIgnoreDifferences=true", w, w.ignore)
	case len(w.names) > 0 && !slices.Contains(w.names, cluster.Sleeps): // it may be another part of the field that was changed
		return ", by " + w.String()
	}
	return ""
}

// again says that what was put to sleep is not asleep any more.
func (t *target) again(p part, now live) (string, error) {
	f := p.of().field
	if !now.there() || f.isAsleep(now.value) {
		return "", nil
	}
	problem, w := fmt.Sprintf("%s is %s again", strings.Join(f.path, "."), said(now.value)), by(p, now)
	if w.application != "" {
		cause := fmt.Sprintf("woken by %s; let it ignore %s, with RespectIgnoreDifferences=true", w, w.ignore)
		if t.unpatched && p.of().applied() {
			cause += ", and apply " + t.roles() + " again: who may not patch subresource scale has not written it, as far as anybody tells"
		}
		return "", &executor.WokenError{Problem: problem, Cause: cause}
	}
	return problem + w.note(), nil
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
	if len(w.names) == 0 || slices.Contains(w.names, cluster.Wakes) || slices.Contains(w.names, cluster.Sleeps) {
		return ""
	}
	return fmt.Sprintf("it was awake already: %s is %s%s", strings.Join(f.path, "."), said(found.value), w.note())
}

// watch says that a workload that sleeps is to be looked at again, because Argo CD may wake it.
func (t *target) watch(before *state, now live) string {
	if application(now.object) == "" {
		return ""
	}
	if t.looks == nil {
		t.looks = map[string]int{}
	}
	if t.looks[before.key()]++; t.looks[before.key()] >= watched {
		return ""
	}
	return "it sleeps, and Argo CD may yet wake it"
}
