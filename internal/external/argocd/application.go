// Package argocd builds and reads what Argo CD works on: Applications and cluster Secrets.
// It is pure: no client, no clock.
package argocd

import (
	"cmp"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ApplicationGVK is an Argo CD Application.
var ApplicationGVK = schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "Application"}

const (
	// MaxApplicationName is the longest name of an Application: it is the default name of
	// Helm releases, which take 53 characters.
	MaxApplicationName = 53
	// InClusterServer is the API server of the cluster that Argo CD runs on.
	InClusterServer = "https://kubernetes.default.svc"

	// resourcesFinalizer makes Argo CD delete what an Application deployed before the
	// Application goes.
	resourcesFinalizer = "resources-finalizer.argocd.argoproj.io"
	// preDeleteFinalizer and postDeleteFinalizer are what Argo CD adds, the first from 3.3 on, for hooks of a deletion,
	// those of Helm charts among them.
	preDeleteFinalizer  = "pre-delete-finalizer.argocd.argoproj.io"
	postDeleteFinalizer = "post-delete-finalizer.argocd.argoproj.io"
)

// Finalizer says whether a finalizer is one by which Argo CD takes down what an Application deployed,
// in the foreground or in the background, and runs its hooks.
func Finalizer(name string) bool {
	base, _, _ := strings.Cut(name, "/")
	return base == resourcesFinalizer || base == preDeleteFinalizer || base == postDeleteFinalizer
}

// Cascade is what has Argo CD delete, with an Application that it does not have it on, what that deployed; nil where it has. Somebody
// replaces an Application by a manifest without finalizers, and nothing but its deletion shows it.
func Cascade(app *unstructured.Unstructured) map[string]any {
	finalizers := app.GetFinalizers()
	for _, name := range finalizers {
		if base, _, _ := strings.Cut(name, "/"); base == resourcesFinalizer {
			return nil
		}
	}
	all := []any{resourcesFinalizer}
	for _, name := range finalizers {
		all = append(all, name)
	}
	return map[string]any{"metadata": map[string]any{"finalizers": all}}
}

// Parameter is a Helm parameter.
type Parameter struct {
	// Name is the path of the value.
	Name string
	// Value of the parameter.
	Value string
	// ForceString keeps numbers and booleans strings.
	ForceString bool
}

// Source is one source of an Application.
type Source struct {
	// RepoURL of the Git or Helm repository.
	RepoURL string
	// TargetRevision is a branch, tag, commit or chart version.
	TargetRevision string
	// Path in a Git repository.
	Path string
	// Chart in a Helm repository.
	Chart string
	// Ref is the name by which other sources' values files call this one.
	Ref string
	// Helm is nil for sources that Helm does not render or that set nothing.
	Helm *Helm
}

// Helm says how a chart is rendered.
type Helm struct {
	// ReleaseName; empty is the Application's name.
	ReleaseName string
	// ValueFiles in order.
	ValueFiles []string
	// Values over those of ValueFiles, and below Parameters, as JSON has them.
	Values map[string]any
	// Parameters, sorted by name.
	Parameters []Parameter
}

// Application is what is deployed on one cluster.
type Application struct {
	// Namespace and Name of the Application.
	Namespace, Name string
	// Project is the Argo CD project that bounds it.
	Project string
	// Sources of its manifests.
	Sources []Source
	// Cluster is the name of a registered cluster, or Server the URL of its API server; without either it is the one Argo CD
	// runs on.
	Cluster, Server string
	// DestinationNamespace is where manifests without a namespace go; it is created.
	DestinationNamespace string
	// NamespaceLabels and NamespaceAnnotations mark the namespace, whether Argo CD creates it
	// or finds it: the name must be one that nobody else can have.
	NamespaceLabels, NamespaceAnnotations map[string]string
	// Ignored are fields of what is deployed that others write.
	Ignored []Ignored
}

// Ignored are fields of an object that somebody else writes: they are neither compared nor synced.
type Ignored struct {
	// Kind of the object, of the core group.
	Kind string
	// Name of the object.
	Name string
	// JSONPointers of the fields.
	JSONPointers []string
}

func (i Ignored) object() map[string]any {
	return map[string]any{"kind": i.Kind, "name": i.Name, "jsonPointers": untypedList(i.JSONPointers)}
}

// Object is the Application as Argo CD takes it: synced, pruned and healed by itself, tried
// again when a sync fails, and taken down with everything it deployed.
func (a Application) Object() *unstructured.Unstructured {
	sources := make([]any, 0, len(a.Sources))
	for _, s := range a.Sources {
		sources = append(sources, s.Object())
	}
	destination := map[string]any{"namespace": a.DestinationNamespace}
	if a.Cluster == "" {
		destination["server"] = cmp.Or(a.Server, InClusterServer)
	} else {
		destination["name"] = a.Cluster
	}
	options := []string{"CreateNamespace=true", "ServerSideApply=true"}
	if len(a.Ignored) > 0 {
		options = append(options, "RespectIgnoreDifferences=true")
	}
	policy := map[string]any{
		"automated":   map[string]any{"prune": true, "selfHeal": true},
		"syncOptions": untypedList(options),
		"retry": map[string]any{
			"limit":   int64(5),
			"backoff": map[string]any{"duration": "5s", "factor": int64(2), "maxDuration": "3m"},
		},
	}
	namespace := map[string]any{}
	if len(a.NamespaceLabels) > 0 {
		namespace["labels"] = untyped(a.NamespaceLabels)
	}
	if len(a.NamespaceAnnotations) > 0 {
		namespace["annotations"] = untyped(a.NamespaceAnnotations)
	}
	if len(namespace) > 0 {
		policy["managedNamespaceMetadata"] = namespace
	}
	spec := map[string]any{
		"project":     a.Project,
		"sources":     sources,
		"destination": destination,
		"syncPolicy":  policy,
	}
	if len(a.Ignored) > 0 {
		ignored := make([]any, 0, len(a.Ignored))
		for _, i := range a.Ignored {
			ignored = append(ignored, i.object())
		}
		spec["ignoreDifferences"] = ignored
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(ApplicationGVK)
	u.SetNamespace(a.Namespace)
	u.SetName(a.Name)
	u.SetFinalizers([]string{resourcesFinalizer})
	return u
}

// Strange are the paths of what the spec of an Application has beside what is desired: whoever adds a field decides what is
// deployed, or how that is judged, but for what Argo CD only shows or keeps. Objects of other kinds have nothing strange.
func Strange(live, desired *unstructured.Unstructured) [][]string {
	if desired.GroupVersionKind() != ApplicationGVK {
		return nil
	}
	return strange(live.Object["spec"], desired.Object["spec"], "spec")
}

// harmless are fields of a spec that decide nothing.
var harmless = []string{"info", "revisionHistoryLimit"}

func strange(live, desired any, path ...string) (found [][]string) {
	have, _ := live.(map[string]any)
	want, _ := desired.(map[string]any)
	for _, field := range slices.Sorted(maps.Keys(have)) {
		at := append(slices.Clone(path), field)
		switch _, wanted := want[field]; {
		case wanted:
			found = append(found, strange(have[field], want[field], at...)...)
		case len(path) == 1 && slices.Contains(harmless, field), empty(have[field]):
		default:
			found = append(found, at)
		}
	}
	return found
}

// empty says whether Argo CD would leave a value out when it writes the object.
func empty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// untypedList is a list as unstructured content can hold it.
func untypedList(l []string) []any {
	out := make([]any, 0, len(l))
	for _, v := range l {
		out = append(out, v)
	}
	return out
}

// untyped is a map as unstructured content can hold it.
func untyped(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// userinfo is what a URL may have before its host, and password that with a password, or a token of GitHub or GitLab for its user; the rule
// of ComponentSource.RepoURL is the same.
var (
	userinfo = regexp.MustCompile(`://[^/?#]*@`)
	password = regexp.MustCompile(`://[^/?#@]*:[^/?#]*@|^(?i:https?)://(gh[opsru]_|github_pat_|glpat-)[^/?#]*@`)
)

// HasPassword says whether a repository's URL has a password or a token, which everybody would see who sees an Application. Another user
// alone, as in ssh://git@host, is none.
func HasPassword(repoURL string) bool { return password.MatchString(repoURL) }

// WithoutUser is a repository's URL as messages show it.
func WithoutUser(repoURL string) string { return userinfo.ReplaceAllString(repoURL, "://") }

// Object is the source as an Application has it, without empty fields.
func (s Source) Object() map[string]any {
	m := map[string]any{"repoURL": s.RepoURL}
	setString(m, "targetRevision", s.TargetRevision)
	setString(m, "path", s.Path)
	setString(m, "chart", s.Chart)
	setString(m, "ref", s.Ref)
	if s.Helm != nil {
		if helm := s.Helm.object(); len(helm) > 0 { // Argo CD removes an empty one
			m["helm"] = helm
		}
	}
	return m
}

func (h Helm) object() map[string]any {
	m := map[string]any{}
	setString(m, "releaseName", h.ReleaseName)
	if len(h.ValueFiles) > 0 {
		m["valueFiles"] = untypedList(h.ValueFiles)
	}
	if len(h.Values) > 0 {
		m["valuesObject"] = h.Values
	}
	if len(h.Parameters) > 0 {
		parameters := make([]any, 0, len(h.Parameters))
		for _, p := range h.Parameters {
			parameter := map[string]any{"name": p.Name}
			setString(parameter, "value", p.Value) // as Argo CD writes it into comparedTo
			if p.ForceString {
				parameter["forceString"] = true
			}
			parameters = append(parameters, parameter)
		}
		m["parameters"] = parameters
	}
	return m
}

func setString(m map[string]any, key, value string) {
	if value != "" {
		m[key] = value
	}
}

// Health is what an Application has come to.
type Health int

const (
	// Progressing: on its way, nothing is known to be wrong.
	Progressing Health = iota
	// Healthy: Healthy and Synced, at the sources of the spec as it is now, or what is tolerated.
	Healthy
	// Degraded: what it deployed does not work.
	Degraded
	// Missing: what it deploys is not on the cluster.
	Missing
	// Failed: Argo CD cannot render, compare or sync it.
	Failed
)

// ApplicationState is what an Application says of itself.
type ApplicationState struct {
	// Health is the verdict.
	Health Health
	// Message says why it is not Healthy, in Argo CD's words where it has any; empty for one
	// that is simply on its way. Of a Healthy one it says what is tolerated.
	Message string
	// Warning says, in Argo CD's words and whatever the verdict, that something is not deployed as the sources say: another Application
	// deploys it, too, and the two put each other's right; two of the sources do, of which the last counts; or Argo CD is told to leave
	// its kind alone. Empty if nothing is known to be.
	Warning string
	// Outdated: what it says is of other sources, or of another cluster, than the spec has now.
	Outdated bool
}

// Tolerated is what an Application may be and be Healthy to whoever asks: OutOfSync, if it was synced
// with the sources and revisions that it has now and compared after that, and Degraded, if nothing of it is
// known to be missing or on its way. Nothing is by default.
type Tolerated struct{ OutOfSync, Degraded bool }

// ReadApplication reads an Application's state. Healthy alone proves nothing: Argo CD says
// Healthy when it cannot render a single manifest (sync status Unknown), and after an edit
// the status speaks of the old sources until the next comparison.
func ReadApplication(app *unstructured.Unstructured, tolerated Tolerated) ApplicationState {
	state := verdict(app, tolerated)
	var said []string
	for _, warning := range warnings {
		if message := messages(app)[warning]; message != "" {
			said = append(said, warning+": "+message)
		}
	}
	state.Warning = strings.Join(said, "; ")
	return state
}

// verdict is what is said of an Application but for warnings.
func verdict(app *unstructured.Unstructured, tolerated Tolerated) ApplicationState {
	health, _, _ := unstructured.NestedString(app.Object, "status", "health", "status")
	sync, _, _ := unstructured.NestedString(app.Object, "status", "sync", "status")
	if skipped := Skipped(app); skipped != "" { // and whatever it says is of before
		return ApplicationState{Outdated: true, Message: skipped}
	}
	if errs := errorConditions(app); len(errs) > 0 {
		first := slices.Min(slices.Collect(maps.Keys(errs)))
		return ApplicationState{Health: Failed, Message: first + ": " + errs[first], Outdated: !compared(app)}
	}
	if !compared(app) { // not looked at yet, or not since the sources changed
		return ApplicationState{Outdated: true}
	}
	operation := syncPhase(app)
	switch {
	case (operation == "Failed" || operation == "Error") && (sync != "Synced" || hookFailed(app)):
		// One that is Synced all the same has come to it without Argo CD's help.
		return ApplicationState{Health: Failed, Message: "sync " + operation + ": " + operationState(app, "message")}
	case operation != "Running" && operation != "Terminating":
	case tolerated.OutOfSync && sync == "OutOfSync" && healing(app):
		// What is tolerated would go and come again as often as Argo CD tries.
	case health == "Healthy":
		return explained(app, ApplicationState{})
	default:
		tolerated.Degraded = false
	}
	return explained(app, judge(app, health, sync, tolerated))
}

// explained is the state of an Application, and where it is on its way what its sync waits for, which may be for ever, or that there is
// none where one is needed.
func explained(app *unstructured.Unstructured, state ApplicationState) ApplicationState {
	why := ""
	switch waits := waitsFor(app); {
	case state.Health != Progressing && state.Health != Missing:
	case waits != "" && ofBefore(app) && !byItself(app):
		why = "sync Running with what somebody has asked for, which Argo CD ends first: " + waits + "; argocd app terminate-op " + app.GetName() + " ends it"
	case waits != "":
		why = "sync Running: " + waits
	case state.Message != "" && untried(app):
		why = "Argo CD has not begun to sync it, which a sync window of its project may forbid"
	}
	if why != "" {
		state.Message = strings.TrimPrefix(state.Message+"; "+why, "; ")
	}
	return state
}

// wanted are the sources that the spec has now; not to be changed.
func wanted(app *unstructured.Unstructured) any {
	sources, _, _ := unstructured.NestedFieldNoCopy(app.Object, "spec", "sources")
	return sources
}

// ofBefore says whether the operation that Argo CD is in the middle of is with other sources than the spec has now.
func ofBefore(app *unstructured.Unstructured) bool {
	with, told, _ := unstructured.NestedFieldNoCopy(app.Object, "operation", "sync", "sources")
	return told && !reflect.DeepEqual(with, wanted(app))
}

// untried says whether an Application is OutOfSync, and Argo CD has not tried to sync it with what it is compared with now.
func untried(app *unstructured.Unstructured) bool {
	operation, tried, _ := unstructured.NestedMap(app.Object, "status", "operationState")
	sync, _, _ := unstructured.NestedString(app.Object, "status", "sync", "status")
	return sync == "OutOfSync" && app.Object["operation"] == nil && (!tried || !attempted(app, operation))
}

// judge reads health and sync of an Application that has been compared; a Healthy one is not being
// synced.
func judge(app *unstructured.Unstructured, health, sync string, tolerated Tolerated) ApplicationState {
	both := "health " + orUnknown(health) + ", sync " + orUnknown(sync)
	synced := sync == "Synced" || sync == "OutOfSync" && tolerated.OutOfSync && syncedOnce(app)
	switch {
	case synced && (health == "Healthy" || health == "Degraded" && tolerated.Degraded && unhealthyResources(app, "Missing")+unhealthyResources(app, "Progressing") == ""):
		return deployed(app, health, sync, both)
	case health == "Degraded":
		return ApplicationState{Health: Degraded, Message: join(both, unhealthyResources(app, "Degraded"))}
	case health == "Missing":
		return ApplicationState{Health: Missing, Message: join(both, unhealthyResources(app, "Missing"))}
	case health == "Healthy" && sync == "Unknown":
		return ApplicationState{Health: Failed, Message: both + ": Argo CD cannot render or compare its manifests"}
	case health == "Progressing", health == "": // what is on its way needs no explanation
		return ApplicationState{}
	}
	return ApplicationState{Health: Progressing, Message: both}
}

// deployed is the state of an Application that is Healthy, or what is tolerated.
func deployed(app *unstructured.Unstructured, health, sync, both string) ApplicationState {
	switch {
	case deploysNothing(app):
		return ApplicationState{Health: Failed, Message: "its sources render no manifests, so it deploys nothing"}
	case health == "Healthy" && sync == "Synced":
		return ApplicationState{Health: Healthy}
	}
	return ApplicationState{Health: Healthy, Message: join(both, unhealthyResources(app, "Degraded")) + ", which is tolerated"}
}

// warnings are the types of the conditions by which Argo CD tells of what it does not deploy as the sources say.
var warnings = []string{"ExcludedResourceWarning", "RepeatedResourceWarning", "SharedResourceWarning"}

// messages are those of the conditions, by their types, of each the first.
func messages(app *unstructured.Unstructured) map[string]string {
	conditions, _, _ := unstructured.NestedSlice(app.Object, "status", "conditions")
	out := map[string]string{}
	for _, c := range conditions {
		m, _ := c.(map[string]any)
		t, _ := m["type"].(string)
		if _, known := out[t]; !known {
			message, _ := m["message"].(string)
			out[t] = discreet(message)
		}
	}
	return out
}

// unread are the words by which Argo CD begins to tell why it could not read a cluster.
var unread = []string{"failed to get cluster info", "error synchronizing cache state"}

// noCluster takes the place of what it tells then.
const noCluster = "Argo CD cannot read the cluster: nothing answers there, or no API server, or one that refuses the credentials"

// discreet is a message without what was answered by what a kubeconfig says is a cluster, or how it cannot be reached: who writes one could
// have Argo CD ask what he does not reach himself, and read the answer in the status of an Experiment. Whoever may read Applications reads
// it there.
func discreet(message string) string {
	if slices.ContainsFunc(unread, func(words string) bool { return strings.Contains(message, words) }) {
		return noCluster
	}
	return message
}

// errorConditions are the messages of the conditions that report an error, by their types.
func errorConditions(app *unstructured.Unstructured) map[string]string {
	errs := messages(app)
	maps.DeleteFunc(errs, func(t, _ string) bool { return !strings.HasSuffix(t, "Error") })
	return errs
}

// Disconnected says whether Argo CD tells that it does not know an Application's cluster
// (InvalidSpecError), or cannot compare, or delete what is being deleted, for which a cluster that
// refuses its credentials is one reason.
func Disconnected(app *unstructured.Unstructured) bool {
	errs := errorConditions(app)
	_, unknown := errs["InvalidSpecError"]
	_, refused := errs["ComparisonError"]
	_, undeleted := errs["DeletionError"]
	return unknown || refused || undeleted && app.GetDeletionTimestamp() != nil
}

// DeletionError is why Argo CD cannot delete what an Application deployed; empty where it does not
// say.
func DeletionError(app *unstructured.Unstructured) string {
	return cmp.Or(Held(app), errorConditions(app)["DeletionError"])
}

// Deployed says whether anything of an Application may be on its cluster: Argo CD has synced it, begun to, been asked to, or found it in
// sync.
func Deployed(app *unstructured.Unstructured) bool {
	_, operated, _ := unstructured.NestedMap(app.Object, "status", "operationState")
	sync, _, _ := unstructured.NestedString(app.Object, "status", "sync", "status")
	return operated || app.Object["operation"] != nil || sync == "Synced"
}

// Held says what keeps an Application from going of which Argo CD tells no error, and what to do about it; empty where nothing does.
func Held(app *unstructured.Unstructured) string {
	if app.GetDeletionTimestamp() == nil {
		return Skipped(app)
	}
	return cmp.Or(Skipped(app), inSync(app), unconfirmed(app))
}

// approved is the annotation by which somebody confirms that what is to be deleted with an Application may be.
const approved = "argocd.argoproj.io/deletion-approved"

// unconfirmed says that Argo CD waits for that: an object that was deployed says that it needs it, and nobody has given it since the
// Application was asked to go.
func unconfirmed(app *unstructured.Unstructured) string {
	given, err := time.Parse(time.RFC3339, app.GetAnnotations()[approved])
	var needs []string
	resources, _, _ := unstructured.NestedSlice(app.Object, "status", "resources")
	for _, r := range resources {
		if m, _ := r.(map[string]any); needsConfirmation(m) {
			needs = append(needs, named(m))
		}
	}
	if slices.Sort(needs); len(needs) == 0 || err == nil && !given.Before(app.GetDeletionTimestamp().Time) {
		return ""
	}
	return "Argo CD waits until somebody confirms that " + strings.Join(needs, ", ") + " may be deleted; annotate it with " + approved + " and the time of now, such as 2006-01-02T15:04:05Z"
}

// needsConfirmation says whether a resource of an Application is deleted only when somebody has confirmed that.
func needsConfirmation(resource map[string]any) bool {
	return resource["requiresDeletionConfirmation"] == true
}

// Syncing says whether Argo CD is in the middle of an operation on an Application, and nobody has asked it to end that: it lets none go
// before, and what a hook or a wave waits for may never come.
func Syncing(app *unstructured.Unstructured) bool {
	return app.Object["operation"] != nil && operationState(app, "phase") == "Running"
}

// SyncsFormer says whether Argo CD is in the middle of syncing, by itself, what an Application had before: it keeps to the sources that
// it began with, however often it tries them, and what a hook of theirs waits for may never come.
func SyncsFormer(app *unstructured.Unstructured) bool {
	// What has been compared is written as the sources of an operation are.
	return Syncing(app) && byItself(app) && compared(app) && ofBefore(app)
}

// byItself says whether Argo CD has begun the operation that it is in the middle of, and nobody has asked it to.
func byItself(app *unstructured.Unstructured) bool {
	automated, _, _ := unstructured.NestedBool(app.Object, "operation", "initiatedBy", "automated")
	return automated
}

// EndSync is the change of an Application by which Argo CD is asked to end its operation, as argocd app terminate-op does.
func EndSync() map[string]any {
	return map[string]any{"status": map[string]any{"operationState": map[string]any{"phase": "Terminating"}}}
}

// inSync says that an Application is in the middle of an operation, and what that waits for.
func inSync(app *unstructured.Unstructured) string {
	if app.Object["operation"] == nil {
		return ""
	}
	return join("Argo CD ends its sync first", waitsFor(app))
}

// waitsFor is what the operation waits for that Argo CD is in the middle of, or why it is tried again; empty without one.
func waitsFor(app *unstructured.Unstructured) string {
	if phase := operationState(app, "phase"); phase != "Running" && phase != "Terminating" {
		return ""
	}
	return operationState(app, "message")
}

// operationState is a field of what the last operation has come to.
func operationState(app *unstructured.Unstructured, field string) string {
	value, _, _ := unstructured.NestedString(app.Object, "status", "operationState", field)
	return discreet(value)
}

// skip is the annotation by which somebody keeps Argo CD from looking at an Application, and from letting it go.
const skip = "argocd.argoproj.io/skip-reconcile"

// Seen says whether Argo CD has ever looked at an Application.
func Seen(app *unstructured.Unstructured) bool {
	status, _ := app.Object["status"].(map[string]any)
	return len(status) > 0
}

// Skipped says that Argo CD does not look at an Application, which tells nothing of that, and what to do about it; empty where it does.
func Skipped(app *unstructured.Unstructured) string {
	if skipped, err := strconv.ParseBool(app.GetAnnotations()[skip]); err != nil || !skipped {
		return ""
	}
	return "Argo CD does not look at it because of its annotation " + skip + "; remove that"
}

// refresh is the annotation that asks Argo CD to look at an Application again. It takes it off in the same patch by which it
// stores what it has seen.
const refresh = "argocd.argoproj.io/refresh"

// Refresh are the annotations that a change of an Application carries: of what the spec says beside the sources and the
// destination, such as the project, the status does not tell with what it was compared.
func Refresh() map[string]string { return map[string]string{refresh: "normal"} }

// compared says whether the status speaks of the sources and the destination that the spec
// has now, and Argo CD is not asked to look again.
func compared(app *unstructured.Unstructured) bool {
	if _, asked := app.GetAnnotations()[refresh]; asked {
		return false
	}
	for _, field := range []string{"sources", "destination"} {
		now, _, _ := unstructured.NestedFieldNoCopy(app.Object, "spec", field)
		then, _, _ := unstructured.NestedFieldNoCopy(app.Object, "status", "sync", "comparedTo", field)
		if !reflect.DeepEqual(now, then) {
			return false
		}
	}
	return true
}

// syncedOnce says whether the last sync was with what the Application is compared with now, and succeeded,
// and was compared with what came of it: an Application is OutOfSync, too, while what it had before is
// still there and Healthy, and Argo CD writes the end of a sync before it compares.
func syncedOnce(app *unstructured.Unstructured) bool {
	if healing(app) {
		return true
	}
	operation, _, _ := unstructured.NestedMap(app.Object, "status", "operationState")
	at := func(from map[string]any, path ...string) any {
		value, _, _ := unstructured.NestedFieldNoCopy(from, path...)
		return value
	}
	finished, _ := operation["finishedAt"].(string)
	compared, _ := at(app.Object, "status", "reconciledAt").(string)
	return operation["phase"] == "Succeeded" && at(operation, "operation", "sync", "dryRun") != true &&
		reflect.DeepEqual(wanted(app), at(operation, "syncResult", "sources")) &&
		reflect.DeepEqual(at(app.Object, "status", "sync", "revisions"), at(operation, "syncResult", "revisions")) &&
		finished != "" && finished <= compared // both are in UTC, to the second
}

// healing says whether Argo CD is syncing what it has synced before, with the same sources and revisions,
// because it is not what they say.
func healing(app *unstructured.Unstructured) bool {
	phase := operationState(app, "phase")
	attempts, _, _ := unstructured.NestedInt64(app.Object, "status", "operationState", "operation", "sync", "autoHealAttemptsCount")
	with, _, _ := unstructured.NestedFieldNoCopy(app.Object, "status", "operationState", "operation", "sync", "sources")
	return phase == "Running" && attempts > 0 && reflect.DeepEqual(wanted(app), with)
}

// syncPhase is that of the last sync; one that Argo CD is asked for, and has not begun, is Running.
func syncPhase(app *unstructured.Unstructured) string {
	if app.Object["operation"] != nil {
		return "Running"
	}
	return operationState(app, "phase")
}

// GaveUp says when Argo CD has ended the last sync with what an Application is compared with now, and failed, and does not begin
// another by itself, though something is to be synced; false while none of that is so.
func GaveUp(app *unstructured.Unstructured) (finished time.Time, gaveUp bool) {
	operation, _, _ := unstructured.NestedMap(app.Object, "status", "operationState")
	sync, _, _ := unstructured.NestedString(app.Object, "status", "sync", "status")
	last, stays := syncPhase(app), sync == "OutOfSync" && attempted(app, operation) || sync == "Synced" && hookFailed(app)
	if last != "Failed" && last != "Error" || !compared(app) || !stays {
		return time.Time{}, false
	}
	at, _ := operation["finishedAt"].(string)
	finished, err := time.Parse(time.RFC3339, at)
	return finished, err == nil
}

// attempted says whether an operation was with the sources and revisions that an Application is compared with now: with others
// Argo CD begins another. Of one without a result it takes that for granted.
func attempted(app *unstructured.Unstructured, operation map[string]any) bool {
	result, found := operation["syncResult"].(map[string]any)
	if !found {
		return true
	}
	revisions, _, _ := unstructured.NestedFieldNoCopy(app.Object, "status", "sync", "revisions")
	return reflect.DeepEqual(wanted(app), result["sources"]) && reflect.DeepEqual(revisions, result["revisions"])
}

// SyncAgain is the change of an Application by which Argo CD is asked to sync it once more, as it would by itself: once, so that
// it does not keep what is edited in the meantime waiting.
func SyncAgain(app *unstructured.Unstructured) map[string]any {
	prune, _, _ := unstructured.NestedBool(app.Object, "spec", "syncPolicy", "automated", "prune")
	sync := map[string]any{"prune": prune, "sources": wanted(app)} // as Argo CD does by itself
	if options, found, _ := unstructured.NestedSlice(app.Object, "spec", "syncPolicy", "syncOptions"); found {
		sync["syncOptions"] = options
	}
	return map[string]any{
		"operation": map[string]any{"initiatedBy": map[string]any{"automated": true}, "sync": sync},
		// Or Argo CD would merge what the last one has come to into it.
		"status": map[string]any{"operationState": nil},
	}
}

// hookFailed says whether a hook of the last sync failed: a hook is not a part of what is
// compared.
func hookFailed(app *unstructured.Unstructured) bool {
	results, _, _ := unstructured.NestedSlice(app.Object, "status", "operationState", "syncResult", "resources")
	return slices.ContainsFunc(results, isFailedHook)
}

func isFailedHook(result any) bool {
	m, _ := result.(map[string]any)
	return m["hookType"] != nil && (m["hookPhase"] == "Failed" || m["hookPhase"] == "Error")
}

// deploysNothing says whether Argo CD has found nothing to deploy, which it calls Healthy
// and Synced.
func deploysNothing(app *unstructured.Unstructured) bool {
	resources, _, _ := unstructured.NestedSlice(app.Object, "status", "resources")
	return len(resources) == 0
}

// unhealthyResources names what is in the given health, with Argo CD's message.
func unhealthyResources(app *unstructured.Unstructured, health string) string {
	resources, _, _ := unstructured.NestedSlice(app.Object, "status", "resources")
	var said []string
	for _, r := range resources {
		m, _ := r.(map[string]any)
		if status, _, _ := unstructured.NestedString(m, "health", "status"); status != health {
			continue
		}
		message, _, _ := unstructured.NestedString(m, "health", "message")
		said = append(said, join(named(m), message))
	}
	slices.Sort(said)
	return strings.Join(said, "; ")
}

// named is a resource as messages name it.
func named(resource map[string]any) string {
	kind, _ := resource["kind"].(string)
	name, _ := resource["name"].(string)
	return kind + " " + name
}

func join(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}

func orUnknown(s string) string {
	if s == "" {
		return "not reported"
	}
	return s
}

// StripApplication is the cache's transform for Applications: their histories, the results
// of all but failed hooks, what one was synced with that is not OutOfSync, and all healthy resources
// but the first, and those that are only deleted when somebody confirms it, are never read.
func StripApplication(o any) (any, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return o, nil
	}
	u.SetManagedFields(nil)
	status, ok := u.Object["status"].(map[string]any)
	if !ok {
		return u, nil
	}
	delete(status, "history")
	delete(status, "summary")
	stripOperation(status)
	results, _, _ := unstructured.NestedSlice(status, "operationState", "syncResult", "resources")
	unstructured.RemoveNestedField(status, "operationState", "syncResult", "resources")
	if failed := slices.DeleteFunc(results, func(r any) bool { return !isFailedHook(r) }); len(failed) > 0 {
		_ = unstructured.SetNestedSlice(status, failed, "operationState", "syncResult", "resources")
	}
	if resources, ok := status["resources"].([]any); ok {
		first := true
		status["resources"] = slices.DeleteFunc(resources, func(r any) bool {
			m, _ := r.(map[string]any)
			health, _, _ := unstructured.NestedString(m, "health", "status")
			drop := !first && (health == "" || health == "Healthy") && !needsConfirmation(m)
			first = false
			return drop
		})
	}
	return u, nil
}

// stripOperation leaves of the last operation what tells with what an Application was synced that is
// OutOfSync.
func stripOperation(status map[string]any) {
	keep := [][]string{
		{"operation", "sync", "dryRun"}, {"operation", "sync", "autoHealAttemptsCount"}, {"operation", "sync", "sources"},
		{"syncResult", "sources"}, {"syncResult", "revisions"}, {"syncResult", "resources"},
	}
	if sync, _, _ := unstructured.NestedString(status, "sync", "status"); sync != "OutOfSync" {
		keep = keep[len(keep)-1:]
	}
	operation, _ := status["operationState"].(map[string]any)
	kept := map[string]any{}
	for _, path := range keep {
		if value, found, _ := unstructured.NestedFieldNoCopy(operation, path...); found {
			_ = unstructured.SetNestedField(kept, value, path...)
		}
	}
	for _, field := range []string{"operation", "syncResult"} {
		if delete(operation, field); kept[field] != nil {
			operation[field] = kept[field]
		}
	}
}
