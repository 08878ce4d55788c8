package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	trackingID     = "argocd.argoproj.io/tracking-id"
	trackingLabel  = "app.kubernetes.io/instance"
	argoCDInstance = "argocd.argoproj.io/instance"
	// argoCDWriter is how the names begin that Argo CD writes under.
	argoCDWriter = "argocd"

	// Watched is how often what Argo CD has must have been seen asleep: with the waits of a runner between two looks that is 13 s.
	// Argo CD acts on what it sees, and so within seconds, or, as at a sync, any time.
	Watched = 6
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

// Writer is who has given a field its value.
type Writer struct {
	// Names of managers, sorted; none is not known.
	Names []string
	// Application of Argo CD that has; empty is none.
	Application string
	// Ignore is what lets that leave alone what sleeps.
	Ignore string
}

// By is who has given a field its value, as managedFields tell it.
func By(object *unstructured.Unstructured, path ...string) Writer {
	w := Writer{Ignore: "managedFieldsManagers: [" + Sleeps + "]"}
	for _, entry := range Writers(object, path...) {
		w.Names = append(w.Names, entry.Manager)
	}
	slices.Sort(w.Names)
	w.Names = slices.Compact(w.Names)
	if slices.ContainsFunc(w.Names, func(name string) bool { return strings.HasPrefix(name, argoCDWriter) }) {
		w.Application = application(object)
	}
	return w
}

// Others says whether somebody else has, as far as anybody tells.
func (w Writer) Others() bool {
	return len(w.Names) > 0 && !slices.Contains(w.Names, Wakes) && !slices.Contains(w.Names, Sleeps)
}

// String is the writer as people read it, "" if it is not known.
func (w Writer) String() string {
	name := strings.Join(w.Names, " and ")
	if w.Application != "" {
		name += " of Application " + w.Application
	}
	return name
}

// Note is the writer and what to do, as the end of a sentence.
func (w Writer) Note() string {
	switch {
	case w.Application != "":
		return fmt.Sprintf(", by %s; let that ignore %s, with RespectIgnoreDifferences=true", w, w.Ignore)
	case len(w.Names) > 0 && !slices.Contains(w.Names, Sleeps): // it may be another part of the field that was changed
		return ", by " + w.String()
	}
	return ""
}

// Cause is the Application that has woken what sleeps, and what to do.
func (w Writer) Cause() string {
	return fmt.Sprintf("woken by %s; let it ignore %s, with RespectIgnoreDifferences=true", w, w.Ignore)
}

// Watch is how often what Argo CD may wake was seen asleep, by key.
type Watch map[string]int

// Look says that what sleeps is to be looked at again, because Argo CD may wake it.
func (w Watch) Look(key string, object *unstructured.Unstructured) string {
	if application(object) == "" {
		return ""
	}
	if w[key]++; w[key] >= Watched {
		return ""
	}
	return "it sleeps, and Argo CD may yet wake it"
}
