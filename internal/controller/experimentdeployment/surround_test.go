package experimentdeployment

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/labkeeper/labkeeper/api/experimentcontroller/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/twin"
)

// beside are a Service of the source, an autoscaler of it and a budget of its pods.
func beside(t *testing.T) (service, scaler, budget *unstructured.Unstructured) {
	t.Helper()
	return object(t, "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {selector: {app: web}}}"),
		object(t, "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web, namespace: shop}, spec: {scaleTargetRef: {kind: Deployment, name: web}}}"),
		object(t, "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web, namespace: shop}, spec: {selector: {matchLabels: {app: web}}}}")
}

// add has somebody create objects.
func (l *lab) add(all ...*unstructured.Unstructured) {
	l.t.Helper()
	for _, o := range all {
		if err := l.server.Create(l.t.Context(), o); err != nil {
			l.t.Fatal(err)
		}
	}
}

// interferes checks what is said of autoscalers and of budgets.
func (l *lab) interferes(autoscalers, budgets metav1.ConditionStatus) {
	l.t.Helper()
	reasons := map[metav1.ConditionStatus]string{"True": v1alpha1.ReasonInterference, "False": v1alpha1.ReasonNone}
	l.says(v1alpha1.ConditionAutoscalerInterference, autoscalers, reasons[autoscalers])
	l.says(v1alpha1.ConditionDisruptionInterference, budgets, reasons[budgets])
}

// behind are the names of the Services that the status says the twin is behind.
func (l *lab) behind() string {
	var names []string
	for _, s := range l.owner().Status.Services {
		if s.Shared {
			names = append(names, s.Name)
		}
	}
	return strings.Join(names, ", ")
}

// a1, a6: what comes while the override is refused gets in the way of the twin that stays, too.
func TestBesideATwinThatIsKept(t *testing.T) {
	service, scaler, budget := beside(t)
	l := newLab(t, faster(t, `{template: {metadata: {labels: {track: canary}}}}`), object(t, web))
	l.passed()
	l.interferes("False", "False")
	l.ask(func(spec *v1alpha1.ExperimentDeploymentSpec) { spec.OverrideSpec.Raw = []byte(`{"replcas": 1}`) })
	l.add(service, scaler, budget)
	l.passed()
	l.says(v1alpha1.ConditionAccepted, "False", v1alpha1.ReasonInvalidOverride)
	l.interferes("True", "True")
	l.says(v1alpha1.ConditionSourceSelectorOverlap, "True", v1alpha1.ReasonSelectorOverlap)
	l.says(v1alpha1.ConditionServiceShared, "True", v1alpha1.ReasonShared)
	if got := l.behind(); got != "web" {
		t.Errorf("it is behind %s", got)
	}
	for _, o := range []*unstructured.Unstructured{service, scaler, budget} {
		l.drop(o)
	}
	l.passed()
	l.interferes("False", "False")
	l.says(v1alpha1.ConditionServiceShared, "False", v1alpha1.ReasonNoServices)
}

// p4: a Service of others that comes to select a label of the override is told of as one that does, and the twin stays.
func TestBehindAServiceOfOthers(t *testing.T) {
	l := newLab(t, faster(t, `{template: {metadata: {labels: {team: lab}}}}`), object(t, web))
	l.passed()
	l.add(object(t, "{apiVersion: v1, kind: Service, metadata: {name: lab, namespace: shop}, spec: {selector: {team: lab}}}"))
	l.passed()
	if said := l.says(v1alpha1.ConditionAccepted, "False", v1alpha1.ReasonInvalidOverride); strings.Contains(said, "would") {
		t.Errorf("it says %q", said)
	}
	if said := l.says(v1alpha1.ConditionWarnings, "True", twin.WarnOtherService); !strings.HasPrefix(said, "Service lab, which does not select the source's pods, selects the twin's") {
		t.Errorf("it warns of %q", said)
	}
}

// o8: without its source the twin is alone behind its Services, and autoscalers of that count nothing.
func TestAloneWithoutSource(t *testing.T) {
	service, scaler, budget := beside(t)
	source := object(t, web)
	l := newLab(t, faster(t, `{"minReadySeconds": 5}`), source, service, scaler)
	l.passed()
	l.interferes("True", "False")
	l.drop(source)
	l.add(budget)
	l.passed()
	if said := l.says(v1alpha1.ConditionSourceFound, "False", v1alpha1.ReasonSourceNotFound); !strings.HasSuffix(said, "the twin stays as it is, behind Service web") {
		t.Errorf("it says %q", said)
	}
	l.says(v1alpha1.ConditionWarnings, "True", twin.WarnAlone)
	l.says(v1alpha1.ConditionSourceSelectorOverlap, "False", v1alpha1.ReasonNone)
	l.interferes("False", "True")
	if got := l.behind(); got != "web" {
		t.Errorf("it is behind %s", got)
	}
	u := l.twin()
	l.edit(u, func() { _ = unstructured.SetNestedField(u.Object, int64(0), "spec", "replicas") })
	l.passed()
	l.says(v1alpha1.ConditionWarnings, "False", v1alpha1.ReasonNone)
	if said := l.says(v1alpha1.ConditionSourceFound, "False", v1alpha1.ReasonSourceNotFound); strings.Contains(said, "behind") {
		t.Errorf("without pods it says %q", said)
	}
	l.add(object(t, web))
	l.passed()
	l.interferes("True", "True")
}

// a1, a6: pods that a twin does not have are not counted, and get no traffic.
func TestBesideATwinWithoutPods(t *testing.T) {
	service, scaler, budget := beside(t)
	asleep := object(t, web)
	_ = unstructured.SetNestedField(asleep.Object, int64(0), "spec", "replicas")
	l := newLab(t, faster(t, `{"minReadySeconds": 5}`), asleep, service, scaler, budget)
	l.passed()
	l.ready(0)
	l.passed()
	l.interferes("True", "True")
	l.says(v1alpha1.ConditionWarnings, "True", twin.WarnAlone)
	l.later(2 * defaultUnready)
	l.passed()
	l.passed()
	l.says(v1alpha1.ConditionTwinReady, "False", v1alpha1.ReasonUnready)
	l.interferes("True", "True") // until they are gone, which may be refused
	l.passed()
	l.interferes("False", "False")
	l.says(v1alpha1.ConditionWarnings, "False", v1alpha1.ReasonNone)
	l.ask(func(spec *v1alpha1.ExperimentDeploymentSpec) { spec.Replicas = ptr.To[int32](0) })
	l.passed()
	l.interferes("False", "False")
	l.ask(func(spec *v1alpha1.ExperimentDeploymentSpec) { spec.Replicas = nil })
	l.passed()
	l.interferes("True", "True")
	l.says(v1alpha1.ConditionServiceShared, "True", v1alpha1.ReasonShared)
}

// What cannot be read is not known, whatever was said of it before.
func TestSurroundingsThatAreNotRead(t *testing.T) {
	for name, change := range map[string]func(l *lab, namespace *corev1.Namespace, source *unstructured.Unstructured){
		"o3 not granted": func(l *lab, namespace *corev1.Namespace, _ *unstructured.Unstructured) {
			l.edit(namespace, func() { namespace.Annotations = nil })
		},
		"not watched": func(l *lab, _ *corev1.Namespace, _ *unstructured.Unstructured) {
			l.Options.WatchNamespaces = []string{"lab"}
		},
		"r1 refers nowhere": func(l *lab, _ *corev1.Namespace, source *unstructured.Unstructured) {
			l.edit(source, func() {
				source.Object["spec"] = map[string]any{"workloadRef": map[string]any{"kind": "Deployment", "name": "none"}}
			})
		},
		"r12 not served": func(l *lab, _ *corev1.Namespace, _ *unstructured.Unstructured) { l.Kinds = kinds{} },
	} {
		t.Run(name, func(t *testing.T) {
			owner, namespace := elsewhere(t), shop("lab")
			owner.Spec.SourceRef.Kind = "Rollout"
			service, _, _ := beside(t)
			source := object(t, strings.Replace(web, "apps/v1\nkind: Deployment", "argoproj.io/v1alpha1\nkind: Rollout", 1))
			l := newLab(t, owner, namespace, source, service)
			l.Kinds = kinds{twin.RolloutGVK}
			l.passed()
			l.says(v1alpha1.ConditionServiceShared, "True", v1alpha1.ReasonShared)
			change(l, namespace, source)
			l.passed()
			for _, of := range []string{
				v1alpha1.ConditionServiceShared, v1alpha1.ConditionAutoscalerInterference, v1alpha1.ConditionDisruptionInterference,
				v1alpha1.ConditionSourceSelectorOverlap, v1alpha1.ConditionWarnings,
			} {
				l.says(of, "Unknown", v1alpha1.ReasonPending)
			}
			if got := l.behind(); got != "" {
				t.Errorf("it is behind %s", got)
			}
		})
	}
}

// r12: of a twin that cannot be seen nothing new is told, and that it is left as it is.
func TestTwinThatIsNotSeen(t *testing.T) {
	for name, test := range map[string]struct {
		change   func(l *lab)
		accepted metav1.ConditionStatus
		reasons  [2]string
		says     string
	}{
		"not watched":        {func(l *lab) { l.Options.WatchNamespaces = []string{"lab"} }, "False", [2]string{v1alpha1.ReasonNotWatched, v1alpha1.ReasonPending}, "It is not looked for"},
		"r12 cannot be read": {func(l *lab) { l.Kinds = syncing{twin.RolloutGVK} }, "True", [2]string{v1alpha1.ReasonAccepted, v1alpha1.ReasonKindUnavailable}, "The watch on"},
	} {
		t.Run(name, func(t *testing.T) {
			owner := elsewhere(t)
			owner.Spec.SourceRef.Kind, owner.Spec.OnSourceDeleted = "Rollout", v1alpha1.SourceDeletedDelete
			l := newLab(t, owner, shop("lab"), object(t, strings.Replace(web, "apps/v1\nkind: Deployment", "argoproj.io/v1alpha1\nkind: Rollout", 1)))
			l.Kinds = kinds{twin.RolloutGVK}
			l.passed()
			u := l.twin()
			l.edit(u, func() { u.Object["status"] = map[string]any{"replicas": int64(1), "readyReplicas": int64(1)} })
			l.passed()
			test.change(l)
			l.passed()
			l.says(v1alpha1.ConditionAccepted, test.accepted, test.reasons[0])
			said := l.says(v1alpha1.ConditionSourceFound, "False", test.reasons[1])
			if !strings.HasPrefix(said, test.says) || !strings.HasSuffix(said, "; the twin cannot be seen, and is left as it is") {
				t.Errorf("it says %q", said)
			}
			l.says(v1alpha1.ConditionTwinReady, "Unknown", v1alpha1.ReasonPending)
			if st := l.owner().Status; st.Replicas != 1 || st.ReadyReplicas != 1 || st.ExperimentResourceRef == nil {
				t.Errorf("the status is %+v", st)
			}
			if _, writes := l.passed(); len(writes) > 0 {
				t.Errorf("it writes %v", writes)
			}
		})
	}
}
