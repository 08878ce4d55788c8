package experimentdeployment

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/labkeeper/labkeeper/api/experimentcontroller/v1alpha1"
	twins "github.com/labkeeper/labkeeper/internal/twin"
	"github.com/labkeeper/labkeeper/test/faults"
)

type (
	moment = func(faults.State) bool
	action = func(context.Context, *faults.Stage) error
)

const source = `
apiVersion: apps/v1
kind: KIND
metadata: {name: web}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: "example/web:1"}]
`

const faster = `
apiVersion: experimentcontroller.example.com/v1alpha1
kind: ExperimentDeployment
metadata: {name: faster}
spec:
  sourceRef: {kind: KIND, name: web}
  replicas: REPLICAS
  mergeStrategy: Strategic
  overrideSpec: {template: {spec: {containers: [{name: web, image: "example/web:2"}]}}}
`

// objects are a source of a kind and an ExperimentDeployment, with more of a spec. There is no Service: whether the
// manager sees that before or after it has told of the rest is different in every run.
func objects(kind string, more ...string) (all []*unstructured.Unstructured) {
	of, replicas := strings.Replace(source, "KIND", kind, 1), "0"
	if kind == "Rollout" {
		replicas = "1"
		of = strings.NewReplacer("apps/v1", "argoproj.io/v1alpha1", "spec:\n  replicas", "spec:\n  strategy: {canary: {}}\n  replicas").Replace(of)
	}
	for _, text := range []string{of, strings.NewReplacer("KIND", kind, "REPLICAS", replicas).Replace(faster) + strings.Join(more, "")} {
		all = append(all, parsed(text))
	}
	return all
}

// parsed is an object of a constant.
func parsed(text string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), u); err != nil {
		panic(err) // it is a constant
	}
	return u
}

// scaled has the twin of some objects have a pod, which nobody starts.
func scaled(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	_ = unstructured.SetNestedField(objects[len(objects)-1].Object, int64(1), "spec", "replicas")
	return objects
}

// Moments.

// tells is when a condition of a spec's generation has a reason.
func tells(generation int64, conditionType, reason string) moment {
	return func(s faults.State) bool {
		for _, e := range s.Of("ExperimentDeployment") {
			all, _, _ := unstructured.NestedSlice(e.Object, "status", "conditions")
			for _, c := range all {
				condition, _ := c.(map[string]any)
				if condition["type"] == conditionType && condition["reason"] == reason && condition["observedGeneration"] == generation {
					return true
				}
			}
		}
		return false
	}
}

// says is when the message of a condition ends with words.
func says(conditionType, words string) moment {
	return func(s faults.State) bool {
		for _, e := range s.Of("ExperimentDeployment") {
			all, _, _ := unstructured.NestedSlice(e.Object, "status", "conditions")
			for _, c := range all {
				condition, _ := c.(map[string]any)
				message, _ := condition["message"].(string)
				if condition["type"] == conditionType && strings.HasSuffix(message, words) {
					return true
				}
			}
		}
		return false
	}
}

// up is when the twin is told to be as it is wanted.
func up(generation int64, reason string, is func(*unstructured.Unstructured) bool) moment {
	ready := tells(generation, v1alpha1.ConditionReady, reason)
	return func(s faults.State) bool {
		t := theTwin(s)
		return ready(s) && t != nil && t.GetDeletionTimestamp() == nil && told(s, t) && is(t)
	}
}

// written is when the twin is told of as it is.
func written(s faults.State) bool {
	t := theTwin(s)
	return t != nil && told(s, t)
}

// pods is when the twin is told to have so many.
func pods(n int64) moment {
	return func(s faults.State) bool {
		return slices.ContainsFunc(s.Of("ExperimentDeployment"), func(e *unstructured.Unstructured) bool {
			has, _, _ := unstructured.NestedInt64(e.Object, "status", "replicas")
			return has == n
		})
	}
}

// forgotten is when there is no twin to tell of.
func forgotten(s faults.State) bool {
	for _, e := range s.Of("ExperimentDeployment") {
		if _, found, _ := unstructured.NestedMap(e.Object, "status", "experimentResourceRef"); found {
			return false
		}
	}
	return true
}

func anyhow(*unstructured.Unstructured) bool { return true }

// labelled is when the template of a twin has a label.
func labelled(u *unstructured.Unstructured) bool {
	_, found, _ := unstructured.NestedString(u.Object, "spec", "template", "metadata", "labels", "new")
	return found
}

func imaged(image string) func(*unstructured.Unstructured) bool {
	return func(u *unstructured.Unstructured) bool {
		all, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
		return len(all) == 1 && all[0].(map[string]any)["image"] == image
	}
}

// unscaled is when a twin has the replicas that were asked for.
func unscaled(u *unstructured.Unstructured) bool {
	n, _, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
	return n == 0
}

// pinned is when the twin is made of what is kept.
func pinned(s faults.State) bool {
	t := theTwin(s)
	return t != nil && t.GetAnnotations()[v1alpha1.AnnotationPinned] != ""
}

// elsewhere is when it has another Service for its pods' names.
func elsewhere(u *unstructured.Unstructured) bool {
	name, _, _ := unstructured.NestedString(u.Object, "spec", "serviceName")
	return name == "elsewhere"
}

func theTwin(s faults.State) *unstructured.Unstructured {
	for _, kind := range []string{"Deployment", "StatefulSet", "Rollout"} {
		for _, u := range s.Of(kind) {
			if twin(u) {
				return u
			}
		}
	}
	return nil
}

func all(moments ...moment) moment {
	return func(s faults.State) bool {
		for _, m := range moments {
			if !m(s) {
				return false
			}
		}
		return true
	}
}

func without(kinds ...string) moment {
	return func(s faults.State) bool {
		for _, kind := range kinds {
			for _, u := range s.Of(kind) {
				if kind == "ExperimentDeployment" || twin(u) {
					return false
				}
			}
		}
		return true
	}
}

// going is when somebody has asked it to go.
func going(s faults.State) bool {
	return slices.ContainsFunc(s.Of("ExperimentDeployment"), func(e *unstructured.Unstructured) bool { return e.GetDeletionTimestamp() != nil })
}

var gone = without("ExperimentDeployment", "Deployment", "StatefulSet", "Rollout", "ControllerRevision")

// Actions.

func sleep(d time.Duration) action {
	return func(ctx context.Context, s *faults.Stage) error { return s.Advance(ctx, d) }
}

// settle waits until a manager that finds no pods any more, for a moment, does: those that it finds next have their own time.
func settle(ctx context.Context, s *faults.Stage) error { return s.Settle(ctx) }

// of is an object of the run by its kind and name.
func of(s *faults.Stage, version, kind, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(version)
	u.SetKind(kind)
	u.SetNamespace(s.Namespace)
	u.SetName(name)
	return u
}

func theOwner(s *faults.Stage) *unstructured.Unstructured {
	return of(s, v1alpha1.GroupVersion.String(), "ExperimentDeployment", "faster")
}

func remove(ctx context.Context, s *faults.Stage) error { return s.Client.Delete(ctx, theOwner(s)) }

func edit(patch string) action {
	return func(ctx context.Context, s *faults.Stage) error {
		return s.Client.Patch(ctx, theOwner(s), client.RawPatch(types.MergePatchType, []byte(patch)))
	}
}

func kill(ctx context.Context, s *faults.Stage) error { return s.StopManager(ctx, true) }

func start(ctx context.Context, s *faults.Stage) error { return s.StartManager(ctx) }

// at is when something is due.
func at(d time.Duration) action {
	return func(ctx context.Context, s *faults.Stage) error { return s.Due(ctx, d) }
}

// removeNamespace deletes it with everything around it.
func removeNamespace(ctx context.Context, s *faults.Stage) error {
	namespace := of(s, "v1", "Namespace", s.Namespace)
	namespace.SetNamespace("")
	return s.Client.Delete(ctx, namespace)
}

// mended gives it an image that works.
func mended(ctx context.Context, s *faults.Stage) error {
	s.Release(healthy)
	return edit(newImage)(ctx, s)
}

// labelSource and removeSource are what somebody does to the source.
func labelSource(kind string) action {
	return func(ctx context.Context, s *faults.Stage) error {
		return s.Client.Patch(ctx, of(s, versions[kind], kind, "web"), client.RawPatch(types.MergePatchType, []byte(newLabel)))
	}
}

func removeSource(kind string) action {
	return func(ctx context.Context, s *faults.Stage) error {
		return s.Client.Delete(ctx, of(s, versions[kind], kind, "web"))
	}
}

// scaleSource is what somebody does who wakes it, or has it sleep.
func scaleSource(kind string, replicas int) action {
	return change(objects(kind)[0], fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
}

// createSource is what somebody does who has deleted it.
func createSource(kind string) action { return put(objects(kind)[0]) }

// forge makes what looks like the pin of the twin: it is of another source, without the label.
func forge(ctx context.Context, c client.Client, u *unstructured.Unstructured) error {
	another := objects("StatefulSet")[0]
	pin := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"spec": another.Object["spec"]}, "revision": int64(2)}}
	pin.SetAPIVersion("apps/v1")
	pin.SetKind("ControllerRevision")
	pin.SetNamespace(u.GetNamespace())
	pin.SetName(u.GetName())
	pin.SetLabels(u.GetLabels())
	pin.SetAnnotations(u.GetAnnotations())
	return c.Create(ctx, pin)
}

// unpin has what was kept of the source be lost.
func unpin(ctx context.Context, s *faults.Stage) error {
	return s.Client.DeleteAllOf(ctx, of(s, "apps/v1", "ControllerRevision", ""), client.InNamespace(s.Namespace), client.HasLabels{v1alpha1.LabelUID})
}

var versions = map[string]string{"Deployment": "apps/v1", "StatefulSet": "apps/v1", "Rollout": "argoproj.io/v1alpha1"}

// onTwin does something to the twin.
func onTwin(kind string, do func(context.Context, client.Client, *unstructured.Unstructured) error) action {
	return func(ctx context.Context, s *faults.Stage) error {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(versions[kind])
		list.SetKind(kind + "List")
		if err := s.Client.List(ctx, list, client.InNamespace(s.Namespace), client.HasLabels{v1alpha1.LabelUID}); err != nil {
			return err
		}
		for i := range list.Items {
			if err := do(ctx, s.Client, &list.Items[i]); err != nil {
				return fmt.Errorf("meddling with the twin: %w", err)
			}
		}
		return nil
	}
}

func scale(ctx context.Context, c client.Client, u *unstructured.Unstructured) error {
	return c.Patch(ctx, u, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"revisionHistoryLimit":7}}`)))
}

// waver is what Argo Rollouts tells of a twin whose pods are not ready any more.
func waver(ctx context.Context, c client.Client, u *unstructured.Unstructured) error {
	return c.Status().Patch(ctx, u, client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Progressing","readyReplicas":0,"availableReplicas":0}}`)))
}

// replace puts another object in the place of the twin, by an edited file of it: it has all the marks of the twin, and begins with the first
// generation, as that did.
func replace(ctx context.Context, c client.Client, u *unstructured.Unstructured) error {
	return swap(ctx, c, u, u)
}

// usurp puts an object of somebody else in the place of the twin.
func usurp(ctx context.Context, c client.Client, u *unstructured.Unstructured) error {
	return swap(ctx, c, u, &unstructured.Unstructured{})
}

// swap puts another object in the place of the twin, with the marks of one.
func swap(ctx context.Context, c client.Client, u, marks *unstructured.Unstructured) error {
	another := &unstructured.Unstructured{Object: map[string]any{"spec": u.DeepCopy().Object["spec"]}}
	another.SetGroupVersionKind(u.GroupVersionKind())
	another.SetNamespace(u.GetNamespace())
	another.SetName(u.GetName())
	another.SetLabels(marks.GetLabels())
	another.SetAnnotations(marks.GetAnnotations())
	another.SetOwnerReferences(marks.GetOwnerReferences())
	if err := unstructured.SetNestedField(another.Object, int64(7), "spec", "revisionHistoryLimit"); err != nil {
		return err
	}
	if err := c.Delete(ctx, u, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		return err
	}
	return c.Create(ctx, another)
}

// limited is when that was put right: so many specs of the twin there were then.
func limited(generation int64) func(*unstructured.Unstructured) bool {
	return func(u *unstructured.Unstructured) bool {
		n, _, _ := unstructured.NestedInt64(u.Object, "spec", "revisionHistoryLimit")
		return n == 2 && u.GetGeneration() == generation
	}
}

// service selects the pods of the source, and autoscaler scales it. The Service has no address, which would be another one in every run.
const (
	service = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  clusterIP: None
  selector: {app: web}
  ports: [{port: 80}]
`
	autoscaler = `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: StatefulSet, name: web}
  maxReplicas: 1
`
	onePod      = `{"spec":{"selector":{"statefulset.kubernetes.io/pod-name":"web-0"}}}`
	anotherName = `{"spec":{"scaleTargetRef":{"name":"another"}}}`
)

const (
	newLabel = `{"spec":{"template":{"metadata":{"labels":{"new":"yes"}}}}}`
	newImage = `{"spec":{"overrideSpec":{"template":{"spec":{"containers":[{"name":"web","image":"example/web:3"}]}}}}}`
	// anotherImage comes after that.
	anotherImage = `{"spec":{"overrideSpec":{"template":{"spec":{"containers":[{"name":"web","image":"example/web:4"}]}}}}}`
	zero         = "ScaledToZero"
	isReady      = "TwinReady"
	unready      = v1alpha1.ReasonUnready
	condition    = v1alpha1.ConditionReady
)

var workloads = slices.Concat(alone, neighbours)

// alone are the others.
var alone = []faults.Workload{
	{Name: "deployment", Objects: objects("Deployment"), Done: up(1, zero, imaged("example/web:2"))},
	{
		Name:    "deployment-edited",
		Sampled: faults.SecondHalf,
		Objects: objects("Deployment"),
		Steps:   []faults.Step{faults.At(up(1, zero, anyhow), edit(newImage)), faults.At(up(2, zero, imaged("example/web:3")), remove)},
		Done:    gone,
	},
	{
		Name:    "deployment-source-edited",
		Objects: objects("Deployment"),
		Steps:   []faults.Step{faults.At(up(1, zero, anyhow), labelSource("Deployment"))},
		Done:    up(1, zero, labelled),
	},
	{
		Name:    "deployment-meddled",
		Objects: objects("Deployment"),
		Steps:   []faults.Step{faults.At(up(1, zero, anyhow), onTwin("Deployment", scale))},
		Done:    up(1, zero, limited(3)),
	},
	{
		Name:    "deployment-refused",
		Objects: objects("Deployment"),
		Steps: []faults.Step{
			faults.At(up(1, zero, anyhow), edit(`{"spec":{"overrideSpec":{"replcas":1}}}`)),
			faults.At(tells(2, condition, v1alpha1.ReasonInvalidOverride), edit(`{"spec":{"overrideSpec":{"replcas":null}}}`)),
		},
		Done: up(3, zero, anyhow),
	},
	{
		Name:    "deployment-bereaved",
		Objects: objects("Deployment", "  onSourceDeleted: Delete\n"),
		Steps:   []faults.Step{faults.At(up(1, zero, anyhow), removeSource("Deployment"))},
		Done:    all(tells(1, v1alpha1.ConditionTwinReady, v1alpha1.ReasonSourceDeleted), without("Deployment"), forgotten),
	},
	{
		// A cache that is put back in time has no source where there is one.
		Name:    "deployment-source-back",
		Objects: objects("Deployment", "  onSourceDeleted: Delete\n"),
		Steps: []faults.Step{
			faults.At(up(1, zero, anyhow), removeSource("Deployment")),
			faults.At(all(tells(1, v1alpha1.ConditionTwinReady, v1alpha1.ReasonSourceDeleted), without("Deployment"), forgotten), createSource("Deployment")),
		},
		Done: up(1, zero, anyhow),
	},
	{
		Name:    "deployment-ends",
		Objects: objects("Deployment", "  ttl: 1h\n"),
		Steps:   []faults.Step{faults.At(up(1, zero, anyhow), sleep(2*time.Hour))},
		Done:    gone,
	},
	{
		// The namespace controller takes the kinds in any order. While it does the manager is away, to find the same every time.
		Name:    "namespace-deleted",
		Objects: objects("Deployment"),
		Steps: []faults.Step{
			faults.At(up(1, zero, anyhow), kill, removeNamespace),
			faults.At(all(going, without("Deployment")), start),
		},
		Done: gone,
		Logs: []string{"because it is being terminated"}, // events
	},
	{
		Name:    "statefulset-recreated",
		Objects: objects("StatefulSet"),
		Steps:   []faults.Step{faults.At(up(1, zero, anyhow), edit(`{"spec":{"overrideSpec":{"serviceName":"elsewhere"}}}`)), faults.At(up(2, zero, elsewhere), remove)},
		Done:    gone,
	},
	{
		// It is updated where it is, by an override and by its source.
		Name:    "statefulset-edited",
		Objects: objects("StatefulSet"),
		Steps: []faults.Step{
			faults.At(up(1, zero, anyhow), edit(newImage)),
			faults.At(up(2, zero, imaged("example/web:3")), labelSource("StatefulSet")),
			faults.At(up(2, zero, labelled), remove),
		},
		Done: gone,
	},
	{
		// Another object is in the place of the twin, with its marks, and then one of somebody else, which stays when all goes.
		Name:    "statefulset-replaced",
		Objects: objects("StatefulSet"),
		Steps: []faults.Step{
			faults.At(up(1, zero, anyhow), kill, onTwin("StatefulSet", replace), start),
			faults.At(up(1, zero, limited(2)), kill, onTwin("StatefulSet", usurp), start),
			faults.At(all(tells(1, condition, v1alpha1.ReasonNameTaken), forgotten), remove),
		},
		Done: gone,
	},
	{
		// The source goes, and the twin stays; it comes back, is woken, and gets a Service and an autoscaler, which are edited. That counts
		// a pod that the twin has for as long.
		Name:    "statefulset-source-left",
		Objects: objects("StatefulSet"),
		Steps: []faults.Step{
			faults.At(up(1, zero, anyhow), removeSource("StatefulSet")),
			faults.At(tells(1, condition, v1alpha1.ReasonSourceNotFound), createSource("StatefulSet")),
			faults.At(says(v1alpha1.ConditionSourceFound, "as one that sleeps"), scaleSource("StatefulSet", 1)),
			faults.At(says(v1alpha1.ConditionSourceFound, "is there"), put(parsed(service))),
			faults.At(tells(1, v1alpha1.ConditionServiceShared, v1alpha1.ReasonShared), change(parsed(service), onePod)),
			faults.At(tells(1, v1alpha1.ConditionServiceShared, twins.ReasonSinglePod), edit(`{"spec":{"replicas":1}}`)),
			faults.At(all(tells(2, condition, twins.ReasonProgressing), written, pods(1)), put(parsed(autoscaler))),
			faults.At(tells(2, v1alpha1.ConditionAutoscalerInterference, v1alpha1.ReasonInterference), change(parsed(autoscaler), anotherName)),
			faults.At(tells(2, v1alpha1.ConditionAutoscalerInterference, v1alpha1.ReasonNone), edit(`{"spec":{"replicas":0}}`)),
		},
		Done: all(up(3, zero, unscaled), pods(0)),
	},
	{
		// The API server refuses the twin that is to take the place of the one that there is, which stays.
		Name:    "statefulset-impossible",
		Objects: objects("StatefulSet"),
		Steps: []faults.Step{
			faults.At(up(1, zero, anyhow), edit(`{"spec":{"overrideSpec":{"podManagementPolicy":"Sometimes"}}}`)),
			faults.At(all(tells(2, condition, v1alpha1.ReasonRejected), written), edit(`{"spec":{"overrideSpec":{"podManagementPolicy":null}}}`)),
		},
		Done: up(3, zero, anyhow),
	},
	{
		Name:    "statefulset-pinned",
		Objects: objects("StatefulSet", "  sourcePolicy: Pinned\n"),
		Steps: []faults.Step{
			faults.At(up(1, zero, anyhow), labelSource("StatefulSet"), edit(newImage)),
			faults.At(up(2, zero, imaged("example/web:3")), edit(`{"spec":{"sourcePolicy":"Follow"}}`)),
			// It is pinned again, where somebody has put what looks like its pin, and what was kept is lost: the twin stays as it is.
			faults.At(all(up(3, zero, labelled), without("ControllerRevision")), onTwin("StatefulSet", forge), edit(`{"spec":{"sourcePolicy":"Pinned"}}`)),
			faults.At(all(up(4, zero, labelled), pinned), unpin, edit(anotherImage)),
		},
		Done: all(up(5, v1alpha1.ReasonPinLost, imaged("example/web:3")), without("ControllerRevision")),
	},
	{
		Name:    "statefulset-pinned-deleted",
		Objects: objects("StatefulSet", "  sourcePolicy: Pinned\n"),
		Steps:   []faults.Step{faults.At(up(1, zero, anyhow), remove)},
		Done:    gone,
	},
	{
		Name:    "rollout",
		Objects: objects("Rollout"),
		Steps:   []faults.Step{faults.At(up(1, isReady, anyhow), edit(newImage)), faults.At(up(2, isReady, imaged("example/web:3")), remove)},
		Done:    gone,
	},
	{
		Name:    "rollout-source-edited",
		Objects: objects("Rollout"),
		Steps:   []faults.Step{faults.At(up(1, isReady, anyhow), labelSource("Rollout"))},
		Done:    up(1, isReady, labelled),
	},
	{
		Name:    "rollout-unready",
		Objects: objects("Rollout", "  onUnready: {after: 10m}\n"),
		Holds:   []string{healthy},
		Steps:   []faults.Step{faults.At(all(written, pods(1)), settle, sleep(time.Hour))},
		Done:    up(1, unready, unscaled),
	},
	{
		Name:    "deployment-unready",
		Objects: scaled(objects("Deployment", "  onUnready: {after: 10m}\n")),
		Steps:   []faults.Step{faults.At(all(written, pods(1)), settle, sleep(time.Hour))},
		Done:    all(up(1, unready, unscaled), pods(0)),
	},
	{
		Name:    "statefulset-unready",
		Objects: scaled(objects("StatefulSet", "  onUnready: {after: 10m}\n")),
		Steps:   []faults.Step{faults.At(all(written, pods(1)), settle, sleep(time.Hour))},
		Done:    all(up(1, unready, unscaled), pods(0)),
	},
	{
		// Another template brings its pods back. When they have been ready for long, and are not any more, they have their time again.
		Name:    "rollout-unready-edited",
		Objects: objects("Rollout", "  onUnready: {after: 10m}\n"),
		Holds:   []string{healthy},
		Steps: []faults.Step{
			faults.At(all(written, pods(1)), settle, sleep(time.Hour)),
			faults.At(up(1, unready, unscaled), mended),
			faults.At(up(2, isReady, imaged("example/web:3")), sleep(time.Hour), onTwin("Rollout", waver)),
			faults.At(tells(2, condition, twins.ReasonProgressing), at(10*time.Minute)),
		},
		Done: all(up(2, unready, unscaled), pods(0)),
	},
}
