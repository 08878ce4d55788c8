package twin

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/labkeeper/labkeeper/internal/merge"
)

// object reads YAML as an informer would have it.
func object(t testing.TB, text string) map[string]any {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	o, err := merge.Decode(raw)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return o
}

// tracked is a Deployment that everybody has left a mark on.
const tracked = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
  uid: 1-2-3
  resourceVersion: "42"
  generation: 7
  creationTimestamp: "2026-01-01T00:00:00Z"
  finalizers: [foregroundDeletion]
  ownerReferences: [{apiVersion: example.com/v1, kind: Shop, name: shop, uid: 4-5-6, controller: true}]
  managedFields: [{manager: kubectl, operation: Apply}]
  labels: {app.kubernetes.io/instance: shop, app.kubernetes.io/managed-by: Helm, helm.sh/chart: web-1.0.0, kustomize.toolkit.fluxcd.io/name: shop}
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: "{}"
    deployment.kubernetes.io/revision: "7"
    argocd.argoproj.io/tracking-id: shop:apps/Deployment:shop/web
    argocd.argoproj.io/sync-wave: "1"
    meta.helm.sh/release-name: web
    helm.toolkit.fluxcd.io/name: web
    notifications.argoproj.io/subscribe.on-sync-failed.slack: prod
    reloader.stakater.com/auto: "true"
    team.example.com/owner: payments
spec:
  replicas: 3
  paused: true
  revisionHistoryLimit: 50
  progressDeadlineSeconds: 600
  selector: {matchLabels: {app: web}}
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 25%, maxUnavailable: 25%}}
  template:
    metadata:
      creationTimestamp: null
      name: forgotten
      labels: {app: web, tier: front, pod-template-hash: abc, rollouts-pod-template-hash: def}
      annotations:
        kubectl.kubernetes.io/restartedAt: "2026-01-01T00:00:00Z"
        sidecar.istio.io/status: "{}"
        sidecar.istio.io/inject: "true"
        checksum/config: abc
        prometheus.io/scrape: "true"
        team.example.com/pager: payments
    spec:
      serviceAccountName: web
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      containers:
      - name: web
        image: web:1
        env: [{name: MODE, value: production}, {name: TOKEN, valueFrom: {secretKeyRef: {name: web, key: token}}}]
        ports: [{containerPort: 8080, protocol: TCP}]
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
        resources: {requests: {cpu: 100m}}
status: {replicas: 3}
`

const database = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: shop}
spec:
  replicas: 3
  serviceName: db
  podManagementPolicy: OrderedReady
  ordinals: {start: 5}
  selector: {matchLabels: {app: db}}
  updateStrategy: {type: OnDelete}
  template:
    metadata: {labels: {app: db, statefulset.kubernetes.io/pod-name: db-0, controller-revision-hash: x, apps.kubernetes.io/pod-index: "0"}}
    spec: {containers: [{name: db, image: "db:1", volumeMounts: [{name: data, mountPath: /data}]}]}
  volumeClaimTemplates:
  - metadata: {name: data, creationTimestamp: null, annotations: {a: b}}
    spec: {accessModes: [ReadWriteOnce], volumeName: pv-7, selector: {matchLabels: {a: b}}, resources: {requests: {storage: 10Gi}}}
    status: {phase: Bound}
`

const shifting = `
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: web, namespace: shop, labels: {argo-rollouts.argoproj.io/controller-instance-id: blue}, annotations: {rollout.argoproj.io/revision: "3"}}
spec:
  replicas: 5
  paused: true
  restartAt: "2026-01-01T00:00:00Z"
  rollbackWindow: {revisions: 3}
  progressDeadlineAbort: true
  minReadySeconds: 10
  analysis: {successfulRunHistoryLimit: 1}
  selector: {matchLabels: {app: web}}
  strategy:
    canary:
      canaryService: web-canary
      stableService: web
      scaleDownDelaySeconds: 30
      trafficRouting: {nginx: {stableIngress: web}}
      steps: [{setCanaryScale: {weight: 10}}, {setWeight: 10}, {pause: {}}]
      canaryMetadata: {labels: {role: canary}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "web:1"}]}
`

const colored = `
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  strategy: {blueGreen: {activeService: web, previewService: web-preview}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "web:1"}]}
`

func source(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	return &unstructured.Unstructured{Object: object(t, text)}
}

// wanted is a twin with an override.
func wanted(t testing.TB, override string) Wanted {
	t.Helper()
	return Wanted{Name: "web-exp-abc", For: "faster", Override: object(t, override)}
}

func build(t *testing.T, text string, w Wanted) *Twin {
	t.Helper()
	from := source(t, text)
	before := from.DeepCopy()
	override := runtime.DeepCopyJSON(w.Override)
	twin, err := Build(from, w)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, from) + cmp.Diff(override, w.Override); diff != "" { // c4
		t.Errorf("what was given is changed:\n%s", diff)
	}
	again, err := Build(from, w)
	if err != nil || Hash(again.Object.Object) != Hash(twin.Object.Object) {
		t.Errorf("built again it is another: %v", err)
	}
	return twin
}

func expect(t *testing.T, want string, got map[string]any) {
	t.Helper()
	if diff := cmp.Diff(object(t, want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Nothing gets in that is not listed: m1 to m12, d1, d2, d4, d5, d9, p1, p2, p3, r9.
func TestDeployment(t *testing.T) {
	twin := build(t, tracked, wanted(t, `{template: {spec: {priorityClassName: null}}}`))
	expect(t, `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web-exp-abc
  namespace: shop
  labels: &labels
    experiment-controller.example.com/cr-name: faster
    experiment-controller.example.com/role: experiment
    experiment-controller.example.com/is-experiment: "true"
    experiment-controller.example.com/experiment-id: web-exp-abc
spec:
  replicas: 1
  revisionHistoryLimit: 2
  progressDeadlineSeconds: 600
  selector: {matchLabels: {experiment-controller.example.com/experiment-id: web-exp-abc}}
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 25%, maxUnavailable: 25%}}
  template:
    metadata:
      labels:
        app: web
        tier: front
        experiment-controller.example.com/cr-name: faster
        experiment-controller.example.com/role: experiment
        experiment-controller.example.com/is-experiment: "true"
        experiment-controller.example.com/experiment-id: web-exp-abc
      annotations:
        sidecar.istio.io/inject: "true"
        checksum/config: abc
        prometheus.io/scrape: "true"
    spec:
      serviceAccountName: web
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      containers:
      - name: web
        image: web:1
        env: [{name: MODE, value: production}, {name: TOKEN, valueFrom: {secretKeyRef: {name: web, key: token}}}]
        ports: [{containerPort: 8080, protocol: TCP}]
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
        resources: {requests: {cpu: 100m}}
`, twin.Object.Object)
}

// m12: what somebody lists is copied, but for what names another object.
func TestListedAnnotations(t *testing.T) {
	w := wanted(t, `{}`)
	w.Annotations = []string{"team.example.com/", "argocd.argoproj.io/", "helm.toolkit.fluxcd.io/"}
	twin := build(t, tracked, w)
	if diff := cmp.Diff(map[string]string{"team.example.com/owner": "payments"}, twin.Object.GetAnnotations()); diff != "" {
		t.Errorf("of the workload (-want +got):\n%s", diff)
	}
	annotations, _, _ := unstructured.NestedStringMap(twin.Object.Object, "spec", "template", "metadata", "annotations")
	if annotations["team.example.com/pager"] != "payments" {
		t.Errorf("of the pods: %v", annotations)
	}
}

// s1 to s3, s5, s6, s8, s10.
func TestStatefulSet(t *testing.T) {
	twin := build(t, database, wanted(t, `{}`))
	delete(twin.Object.Object["spec"].(map[string]any)["template"].(map[string]any), "spec")
	expect(t, `
replicas: 1
serviceName: db
podManagementPolicy: Parallel
revisionHistoryLimit: 2
persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete, whenScaled: Delete}
updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 0}}
selector: {matchLabels: {experiment-controller.example.com/experiment-id: web-exp-abc}}
template:
  metadata:
    labels:
      app: db
      experiment-controller.example.com/cr-name: faster
      experiment-controller.example.com/role: experiment
      experiment-controller.example.com/is-experiment: "true"
      experiment-controller.example.com/experiment-id: web-exp-abc
volumeClaimTemplates:
- metadata: {name: data}
  spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 10Gi}}}
`, twin.Object.Object["spec"].(map[string]any))
}

// s1: what cannot be changed makes another twin, and what can does not.
func TestReplaced(t *testing.T) {
	live := build(t, database, wanted(t, `{}`)).Object
	for override, want := range map[string]bool{
		`{}`:                   false,
		`{minReadySeconds: 3}`: false,
		`{template: {spec: {containers: [{name: db, image: "db:2"}]}}}`: false,
		`{serviceName: other}`:                true,
		`{podManagementPolicy: OrderedReady}`: true,
		`{volumeClaimTemplates: []}`:          true,
		`{volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 20Gi}}}}]}`: true,
	} {
		desired := build(t, database, wanted(t, override)).Object
		if got := Replaced(live, desired); got != want {
			t.Errorf("%s: %v", override, got)
		}
	}
	normalised := live.DeepCopy() // by the API server
	_ = unstructured.SetNestedField(normalised.Object, "Filesystem", "spec", "volumeClaimTemplates", "0")
	_ = unstructured.SetNestedField(normalised.Object, nil, "spec", "volumeClaimTemplates")
	if Replaced(normalised, live) {
		t.Error("what the API server makes of it counts")
	}
	if d := build(t, tracked, wanted(t, `{}`)).Object; Replaced(d, build(t, tracked, wanted(t, `{strategy: {type: Recreate}}`)).Object) {
		t.Error("a Deployment is replaced")
	}
}

// r2 to r7, m13, m5: nothing of the source's strategy is left.
func TestRollout(t *testing.T) {
	for name, text := range map[string]string{"canary": shifting, "blueGreen": colored} {
		t.Run(name, func(t *testing.T) {
			twin := build(t, text, wanted(t, `{}`))
			spec := twin.Object.Object["spec"].(map[string]any)
			delete(spec, "template")
			delete(spec, "minReadySeconds")
			expect(t, `
replicas: 1
revisionHistoryLimit: 2
strategy: {canary: {}}
selector: {matchLabels: {experiment-controller.example.com/experiment-id: web-exp-abc}}
`, spec)
			if want := map[string]string{"canary": "blue"}[name]; twin.Object.GetLabels()[InstanceID] != want {
				t.Errorf("labels are %v", twin.Object.GetLabels())
			}
			if len(twin.Object.GetAnnotations()) > 0 {
				t.Errorf("annotations are %v", twin.Object.GetAnnotations())
			}
		})
	}
}

// r1: the template is that of the workload that the Rollout refers to, which is not scaled by another.
func TestRolloutOfAWorkload(t *testing.T) {
	rollout := source(t, `{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: web, namespace: shop}, spec: {workloadRef: {kind: Deployment, name: web, scaleDown: onsuccess}}}`)
	if _, err := Build(rollout, wanted(t, `{}`)); err == nil || !strings.Contains(err.Error(), "no pod template") {
		t.Errorf("without a template: %v", err)
	}
	rollout.Object["spec"].(map[string]any)["template"] = object(t, tracked)["spec"].(map[string]any)["template"]
	twin, err := Build(rollout, wanted(t, `{}`))
	if err != nil {
		t.Fatal(err)
	}
	spec := twin.Object.Object["spec"].(map[string]any)
	if _, there := spec["workloadRef"]; there || spec["template"] == nil {
		t.Errorf("it is %v", spec)
	}
}

// c6, d5: replicas in two places, and those of the source nowhere.
func TestReplicas(t *testing.T) {
	for name, test := range map[string]struct {
		replicas *int32
		override string
		want     int64
		wrong    string
	}{
		"nowhere":          {nil, `{}`, 1, ""},
		"in the spec":      {ptr.To[int32](2), `{}`, 2, ""},
		"none":             {ptr.To[int32](0), `{}`, 0, ""},
		"in the override":  {nil, `{replicas: 0}`, 0, ""},
		"in both":          {ptr.To[int32](2), `{replicas: 2}`, 2, ""},
		"null":             {ptr.To[int32](2), `{replicas: null}`, 2, ""},
		"in both, another": {ptr.To[int32](2), `{replicas: 3}`, 0, "overrideSpec.replicas"},
		"no number":        {nil, `{replicas: "2"}`, 0, "overrideSpec.replicas"},
		"a part":           {nil, `{replicas: 1.5}`, 0, "overrideSpec.replicas"},
		"negative":         {nil, `{replicas: -1}`, 0, "overrideSpec.replicas"},
	} {
		t.Run(name, func(t *testing.T) {
			w := wanted(t, test.override)
			w.Replicas = test.replicas
			twin, err := Build(source(t, tracked), w)
			if test.wrong != "" {
				refused(t, err, test.wrong)
				return
			}
			if got, _, _ := unstructured.NestedInt64(twin.Object.Object, "spec", "replicas"); err != nil || got != test.want {
				t.Errorf("%d, %v", got, err)
			}
		})
	}
}

func refused(t *testing.T, err error, says string) {
	t.Helper()
	if _, ok := errors.AsType[*InvalidError](err); !ok || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "canary-value") {
		t.Errorf("it is %v, want %q", err, says)
	}
}

// c5, c7, c11, r1, r2, r7: what is refused, by its path, and never with a value.
func TestRefused(t *testing.T) {
	deployments := map[string]string{
		`{selector: {matchLabels: {app: web}}}`:                                  "overrideSpec.selector",
		`{status: {}}`:                                                           "overrideSpec.status",
		`{workloadRef: {}}`:                                                      "overrideSpec.workloadRef",
		`{paused: true}`:                                                         "overrideSpec.paused",
		`{template: {metadata: {name: x}}}`:                                      "overrideSpec.template.metadata.name",
		`{template: {metadata: {finalizers: [x]}}}`:                              "overrideSpec.template.metadata.finalizers",
		`{template: {metadata: {ownerReferences: []}}}`:                          "overrideSpec.template.metadata.ownerReferences",
		`{template: {metadata: {labels: {"` + LabelRole + `": x}}}}`:             LabelRole,
		`{template: {metadata: {annotations: {"` + Group + `/x": x}}}}`:          Group + "/x",
		`{template: {metadata: {labels: [x]}}}`:                                  "template.metadata.labels",
		`{template: {metadata: x}}`:                                              "template.metadata",
		`{template: x}`:                                                          "template",
		`{template: null}`:                                                       "template",
		`{replcas: 2}`:                                                           `unknown field "replcas"`,
		`{template: {spec: {containers: [{name: web, imagee: x}]}}}`:             "template.spec.containers[0].imagee",
		`{template: {spec: {containers: [{name: web, image: [canary-value]}]}}}`: "image",
		`{template: {spec: {containers: {name: canary-value}}}}`:                 "containers",
		`{minReadySeconds: canary-value}`:                                        "minReadySeconds",
		`{template: {spec: {containers: [{name: web, resources: {limits: {cpu: canary-value}}}]}}}`: "overrideSpec",
	}
	for _, label := range ofPods { // r8, r9, s9
		deployments[`{template: {metadata: {labels: {"`+label+`": x}}}}`] = "overrideSpec.template.metadata.labels." + label
	}
	for override, says := range deployments {
		_, err := Build(source(t, tracked), wanted(t, override))
		refused(t, err, says)
	}
	for override, says := range map[string]string{
		`{persistentVolumeClaimRetentionPolicy: {whenDeleted: Retain}}`: "persistentVolumeClaimRetentionPolicy",
		`{volumeClaimTemplatez: []}`:                                    "volumeClaimTemplatez",
	} {
		_, err := Build(source(t, database), wanted(t, override))
		refused(t, err, says)
	}
	for override, says := range map[string]string{
		`{strategy: {blueGreen: {activeService: web}}}`: "strategy.blueGreen",
		`{strategy: {canary: {stableService: web}}}`:    "strategy.canary.stableService",
		`{strategy: {canary: {trafficRouting: {}}}}`:    "strategy.canary.trafficRouting",
		// r6: pods get these labels and annotations beside those of the template.
		`{strategy: {canary: {stableMetadata: {annotations: {iam.amazonaws.com/role: admin}}}}}`: "strategy.canary.stableMetadata",
		`{strategy: {canary: {canaryMetadata: {labels: {app: api}}}}}`:                           "strategy.canary.canaryMetadata",
		`{strategy: {canary: {analysis: {templates: [{templateName: x}]}}}}`:                     "strategy.canary.analysis",
		`{strategy: {canary: {steps: [{setWeight: 5}, {analysis: {}}]}}}`:                        "strategy.canary.steps[1].analysis",
		`{strategy: {canary: {steps: [{experiment: {}}]}}}`:                                      "strategy.canary.steps[0].experiment",
		`{strategy: {canary: {steps: [x]}}}`:                                                     "strategy.canary.steps[0]",
		`{strategy: {canary: {steps: x}}}`:                                                       "strategy.canary.steps",
		`{strategy: {canary: x}}`:                                                                "strategy.canary",
		`{strategy: {canary: null}}`:                                                             "strategy.canary",
		`{strategy: null}`:                                                                       "strategy",
		`{strategy: {other: {}}}`:                                                                "strategy.other",
		`{workloadRef: {name: web}}`:                                                             "workloadRef",
		`{restartAt: "2026-01-01T00:00:00Z"}`:                                                    "restartAt",
		`{analysis: {}}`:                                                                         "analysis",
		`{template: {spec: {containerz: []}}}`:                                                   "template.spec.containerz",
	} {
		_, err := Build(source(t, shifting), wanted(t, override))
		refused(t, err, says)
	}
	twin := source(t, tracked) // o10
	twin.SetLabels(map[string]string{LabelRole: RoleExperiment})
	_, err := Build(twin, wanted(t, `{}`))
	refused(t, err, "is itself a twin")
	daemon := source(t, tracked)
	daemon.SetKind("DaemonSet")
	_, err = Build(daemon, wanted(t, `{}`))
	refused(t, err, "sourceRef.kind")
}

// A Rollout's own fields are for the API server to know, and fields that the source has, from one that is newer.
func TestUnknownFieldsOfOthers(t *testing.T) {
	build(t, shifting, wanted(t, `{strategy: {canary: {maxSurge: 2, steps: [{setWeight: 10}]}}}`))
	newer := source(t, tracked)
	_ = unstructured.SetNestedField(newer.Object, true, "spec", "template", "spec", "fieldOfTheFuture")
	if _, err := Build(newer, wanted(t, `{}`)); err != nil {
		t.Error(err)
	}
	w := wanted(t, `{template: {spec: {fieldOfTheFuture: false, another: 1}}}`)
	_, err := Build(newer, w)
	refused(t, err, `unknown field "template.spec.another"`)
}

// d7: a strategy without parameters takes those of the other with it.
func TestRecreate(t *testing.T) {
	twin := build(t, tracked, wanted(t, `{strategy: {type: Recreate}}`))
	strategy, _, _ := unstructured.NestedMap(twin.Object.Object, "spec", "strategy")
	expect(t, `{type: Recreate}`, strategy)
}

// One container's image changes, and the others stay as they are in the source.
func TestStrategicOverride(t *testing.T) {
	w := wanted(t, `{template: {spec: {containers: [{name: web, image: "web:2"}]}}}`)
	w.Strategy = Strategic
	twin := build(t, tracked, w)
	containers, _, _ := unstructured.NestedSlice(twin.Object.Object, "spec", "template", "spec", "containers")
	c := containers[0].(map[string]any)
	if c["image"] != "web:2" || c["env"] == nil {
		t.Errorf("it is %v", c)
	}
	w.Override = object(t, `{template: {spec: {containers: [{image: canary-value}]}}}`)
	_, err := Build(source(t, tracked), w)
	refused(t, err, "template.spec.containers[0] needs its name")
}

// p4, r8, s9: the same Services, and why not.
func TestServices(t *testing.T) {
	services := []Service{
		{Name: "web", Selector: map[string]string{"app": "web"}},
		{Name: "front", Selector: map[string]string{"tier": "front", "app": "web"}},
		{Name: "stable", Selector: map[string]string{"app": "web", "rollouts-pod-template-hash": "abc"}},
		{Name: "first", Selector: map[string]string{"app": "web", "statefulset.kubernetes.io/pod-name": "web-0"}},
		{Name: "others", Selector: map[string]string{"app": "api"}},
		{Name: "external"},
	}
	w := wanted(t, `{template: {metadata: {labels: {tier: back, app: null}}}}`)
	w.Services = services
	reasons := func(twin *Twin) map[string]string {
		out := map[string]string{}
		for _, s := range twin.Services {
			if out[s.Name] = s.Reason; s.Shared != (s.Reason == "") || s.Shared != (s.Message == "") {
				t.Errorf("%+v", s)
			}
		}
		return out
	}
	twin := build(t, tracked, w)
	if diff := cmp.Diff(map[string]string{"web": "", "front": "", "stable": ReasonPinned, "first": ReasonSinglePod}, reasons(twin)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	labels, _, _ := unstructured.NestedStringMap(twin.Object.Object, "spec", "template", "metadata", "labels")
	if labels["app"] != "web" || labels["tier"] != "front" || labels["rollouts-pod-template-hash"] != "" {
		t.Errorf("labels are %v", labels)
	}
	w.AllowLabelOverride = true
	twin = build(t, tracked, w)
	if diff := cmp.Diff(map[string]string{"web": ReasonRelabelled, "front": ReasonRelabelled, "stable": ReasonPinned, "first": ReasonSinglePod}, reasons(twin)); diff != "" {
		t.Errorf("where labels may be changed (-want +got):\n%s", diff)
	}
}

// A Service of another workload does not get the twin by a label that the override brings, unless that is allowed.
func TestServicesOfOthers(t *testing.T) {
	api, ours := Service{Name: "api", Selector: map[string]string{"app": "web", "part": "api"}}, Service{Name: "twins", Selector: map[string]string{LabelRole: RoleExperiment, "part": "api"}}
	w := wanted(t, `{template: {metadata: {labels: {part: api}}}}`)
	w.Services = []Service{{Name: "none"}, ours}
	if said := says(build(t, tracked, w), WarnOtherService); said != "" {
		t.Errorf("of one for twins it says %q", said)
	}
	w.Services = append(w.Services, api)
	_, err := Build(source(t, tracked), w)
	refused(t, err, "Service api")
	refused(t, err, "overrideSpec.template.metadata.labels")
	w.AllowLabelOverride = true
	if twin := build(t, tracked, w); !strings.Contains(says(twin, WarnOtherService), "Service api") || len(twin.Services) > 0 {
		t.Errorf("it says %+v of Services %+v", twin.Warnings, twin.Services)
	}
}

// d8, s4, s6, p2, p5, p6, p7, o9.
func TestWarnings(t *testing.T) {
	reasons := func(twin *Twin) (out []string) {
		for _, w := range twin.Warnings {
			out = append(out, w.Reason)
		}
		return slices.Compact(out)
	}
	from := source(t, tracked)
	_ = unstructured.SetNestedField(from.Object, "Recreate", "spec", "strategy", "type")
	_ = unstructured.SetNestedMap(from.Object, object(t, `{podAntiAffinity: {}}`), "spec", "template", "spec", "affinity")
	_ = unstructured.SetNestedSlice(from.Object, []any{object(t, `{name: data, persistentVolumeClaim: {claimName: data}}`)}, "spec", "template", "spec", "volumes")
	_ = unstructured.SetNestedField(from.Object, `["10.0.0.7"]`, "spec", "template", "metadata", "annotations", "cni.projectcalico.org/ipAddrs")
	w := wanted(t, `{template: {spec: {containers: [{name: web, image: "web:1", ports: [{containerPort: 80, hostPort: 80}]}]}}}`)
	w.Replicas, w.Annotations, w.AllowPrivileges = ptr.To[int32](3), []string{"cni.projectcalico.org/"}, true
	twin, err := Build(from, w)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{WarnNotSmaller, WarnPlacement, WarnSharedVolume, WarnManaged, WarnRunsOnce, WarnStaticAddress}
	if diff := cmp.Diff(want, reasons(twin)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	w = wanted(t, `{}`)
	w.Services = []Service{{Name: "db", Headless: true, Selector: map[string]string{"app": "db"}}}
	if diff := cmp.Diff([]string{WarnPeerDiscovery}, reasons(build(t, database, w))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// says is the message of a twin's warning; empty if there is none of the reason.
func says(twin *Twin, reason string) string {
	for _, w := range twin.Warnings {
		if w.Reason == reason {
			return w.Message
		}
	}
	return ""
}

// s3, s6: volumes that begin with data, and numbers that ids are made of.
func TestWarningsOfSets(t *testing.T) {
	for override, same := range map[string]bool{
		`{}`: false, `{ordinals: {start: 5}}`: true, `{ordinals: {start: 7}}`: true, `{ordinals: {start: 8}}`: false,
		`{ordinals: {start: 4}}`: false, `{ordinals: {start: 4}, replicas: 2}`: true, `{ordinals: {start: 6}, replicas: 0}`: false,
	} {
		if twin := build(t, database, wanted(t, override)); (says(twin, WarnOrdinals) != "") != same {
			t.Errorf("%s: %v", override, twin.Warnings)
		}
	}
	if twin := build(t, tracked, wanted(t, `{}`)); says(twin, WarnOrdinals) != "" {
		t.Errorf("a Deployment: %v", twin.Warnings)
	}
	cloned := strings.Replace(database, "volumeName: pv-7", "dataSource: {kind: VolumeSnapshot, name: nightly}", 1)
	if said := says(build(t, cloned, wanted(t, `{}`)), WarnSourceData); !strings.Contains(said, "volumeClaimTemplate data begin with the data of VolumeSnapshot nightly") {
		t.Errorf("it says %q", said)
	}
	empty := wanted(t, `{volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}`)
	if said := says(build(t, cloned, empty), WarnSourceData); said != "" {
		t.Errorf("with volumes of its own it says %q", said)
	}
}

// p7: what a node, or the cluster, has once.
func TestWarningsOfPods(t *testing.T) {
	pod := func(fields string) string {
		return strings.Replace(tracked, "      serviceAccountName: web\n", "      serviceAccountName: web\n      "+fields+"\n", 1)
	}
	for fields, reason := range map[string]string{
		`hostNetwork: true`: WarnPlacement, `{hostname: a}`: "", `nodeName: n1`: WarnPlacement,
		`resourceClaims: [{name: gpu, resourceClaimName: gpu-0}]`:         WarnSharedVolume,
		`resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu-0}]`: "",
	} {
		twin := build(t, pod(strings.Trim(fields, "{}")), wanted(t, `{}`))
		if found := says(twin, WarnPlacement) + says(twin, WarnSharedVolume); (found == "") != (reason == "") || reason != "" && says(twin, reason) == "" {
			t.Errorf("%s: %v", fields, twin.Warnings)
		}
	}
	named := pod("hostname: a\n      subdomain: peers")
	if said := says(build(t, named, wanted(t, `{}`)), WarnPeerDiscovery); !strings.Contains(said, "a.peers") {
		t.Errorf("it says %q", said)
	}
	if said := says(build(t, named, wanted(t, `{template: {spec: {hostname: b}}}`)), WarnPeerDiscovery); said != "" {
		t.Errorf("of another name it says %q", said)
	}
}

// p6: a volume of one pod alone is refused, unless the override puts another in its place; others are warned of.
func TestClaims(t *testing.T) {
	from := strings.Replace(tracked, "      serviceAccountName: web\n", "      serviceAccountName: web\n      volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]\n", 1)
	w := wanted(t, `{}`)
	w.Claims = map[string][]string{"data": {"ReadWriteOnce"}, "own": {"ReadWriteOncePod"}}
	if said := says(build(t, from, w), WarnSharedVolume); !strings.Contains(said, "data (ReadWriteOnce)") {
		t.Errorf("it says %q", said)
	}
	w.Claims["data"] = []string{"ReadWriteOncePod"}
	_, err := Build(source(t, from), w)
	refused(t, err, "PersistentVolumeClaim data is for one pod alone")
	w.Override = object(t, `{template: {spec: {volumes: [{name: data, emptyDir: {}}]}}}`)
	if _, err := Build(source(t, from), w); err != nil {
		t.Errorf("with another volume: %v", err)
	}
	w.Override = object(t, `{template: {spec: {volumes: [{name: data, persistentVolumeClaim: {claimName: own}}]}}}`)
	w.AllowPrivileges = true
	own, err := Build(source(t, from), w)
	if err != nil || says(own, WarnSharedVolume) != "" {
		t.Errorf("with one of its own: %v, %+v", err, own)
	}
	template, _, _ := unstructured.NestedMap(source(t, from).Object, "spec", "template")
	if diff := cmp.Diff([]string{"data", "own"}, Claims(template, w.Override)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// r13: a source that is a template for a Rollout.
func TestSourceOfRollout(t *testing.T) {
	w := wanted(t, `{}`)
	w.Rollout = "front"
	if said := says(build(t, tracked, w), WarnReferred); !strings.Contains(said, "Rollout front") {
		t.Errorf("it says %q", said)
	}
}

// o3: each of these gives the pods what the source's do not have.
func TestMorePrivileged(t *testing.T) {
	one := func(container string) string {
		return `{template: {spec: {containers: [{name: web, image: "web:1", securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}, ` + container + `}]}}}`
	}
	for override, says := range map[string]string{
		`{template: {spec: {serviceAccountName: admin}}}`:                                                                                             "ServiceAccount admin",
		`{template: {spec: {serviceAccountName: null}}}`:                                                                                              "ServiceAccount default",
		`{template: {spec: {hostNetwork: true}}}`:                                                                                                     "hostNetwork",
		`{template: {spec: {hostPID: true}}}`:                                                                                                         "hostPID",
		`{template: {spec: {volumes: [{name: v, hostPath: {path: /}}]}}}`:                                                                             "hostPath /",
		`{template: {spec: {volumes: [{name: v, secret: {secretName: db}}]}}}`:                                                                        "Secret db",
		`{template: {spec: {volumes: [{name: v, projected: {sources: [{secret: {name: db}}]}}]}}}`:                                                    "Secret db",
		`{template: {spec: {volumes: [{name: v, projected: {sources: [{serviceAccountToken: {audience: vault, path: t}}]}}]}}}`:                       `audience "vault"`,
		`{template: {spec: {volumes: [{name: v, csi: {driver: secrets-store.csi.k8s.io, nodePublishSecretRef: {name: db}}}]}}}`:                       "Secret db",
		`{template: {spec: {volumes: [{name: v, persistentVolumeClaim: {claimName: db}}]}}}`:                                                          "PersistentVolumeClaim db",
		`{template: {spec: {imagePullSecrets: [{name: registry}]}}}`:                                                                                  "Secret registry",
		`{template: {spec: {securityContext: {runAsNonRoot: false}}}}`:                                                                                "user root",
		`{template: {spec: {securityContext: {runAsNonRoot: null}}}}`:                                                                                 "user root",
		`{template: {spec: {securityContext: {runAsUser: 0}}}}`:                                                                                       "user root",
		`{template: {spec: {securityContext: {seccompProfile: null}}}}`:                                                                               "every system call",
		`{template: {spec: {securityContext: {sysctls: [{name: kernel.msgmax, value: "1"}]}}}}`:                                                       "sysctl kernel.msgmax",
		`{template: {spec: {priorityClassName: system-node-critical}}}`:                                                                               "priorityClassName system-node-critical",
		`{template: {spec: {nodeName: control-plane}}}`:                                                                                               "nodeName control-plane",
		`{template: {spec: {containers: [{name: web, image: "web:1"}]}}}`:                                                                             "privilege escalation",
		`{template: {spec: {containers: [{name: web, image: "web:1", securityContext: {allowPrivilegeEscalation: false}}]}}}`:                         "capability NET_RAW",
		`{template: {spec: {initContainers: [{name: first, image: x, securityContext: {privileged: true}}]}}}`:                                        "privileged",
		`{template: {spec: {securityContext: {supplementalGroups: [0]}}}}`:                                                                            "group 0",
		`{template: {spec: {securityContext: {fsGroup: 5}}}}`:                                                                                         "group 5",
		`{template: {spec: {volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {dataSource: {kind: PersistentVolumeClaim, name: db}}}}}]}}}`: "volume ephemeral",
		`{template: {metadata: {annotations: {container.apparmor.security.beta.kubernetes.io/web: unconfined}}}}`:                                     "annotation container.apparmor.security.beta.kubernetes.io/web",
		`{template: {metadata: {annotations: {iam.amazonaws.com/role: admin}}}}`:                                                                      "annotation iam.amazonaws.com/role",
		`{template: {metadata: {annotations: {cdi.k8s.io/x: gpu=all}}}}`:                                                                              "annotation cdi.k8s.io/x",
		`{template: {metadata: {annotations: {sidecar.istio.io/userVolume: "[]"}}}}`:                                                                  "annotation sidecar.istio.io/userVolume",
		`{template: {metadata: {annotations: {config.linkerd.io/proxy-image: mine}}}}`:                                                                "annotation config.linkerd.io/proxy-image",
		`{template: {metadata: {labels: {azure.workload.identity/use: "true"}}}}`:                                                                     "label azure.workload.identity/use",
		`{template: {spec: {automountServiceAccountToken: true}}}`:                                                                                    "the token of ServiceAccount web",
		`{template: {spec: {runtimeClassName: bare}}}`:                                                                                                `the runtime of class "bare"`,
		one(`env: [{name: P, valueFrom: {secretKeyRef: {name: db, key: p}}}]`):                                                                        "Secret db",
		one(`envFrom: [{secretRef: {name: db}}]`):                                                                                                     "Secret db",
		one(`ports: [{containerPort: 80, hostPort: 80}]`):                                                                                             "port 80 of the node",
	} {
		_, err := Build(source(t, tracked), wanted(t, override))
		refused(t, err, says)
		w := wanted(t, override)
		w.AllowPrivileges = true
		if _, err := Build(source(t, tracked), w); err != nil {
			t.Errorf("%s, where that is allowed: %v", override, err)
		}
	}
}

// o3, beside what this source has.
func TestPrivilegesOfOthers(t *testing.T) {
	for name, test := range map[string]struct{ source, override, says string }{
		"the token":                     {`{automountServiceAccountToken: false}`, `{automountServiceAccountToken: null}`, "the token of ServiceAccount web, if that has it mounted"},
		"a token that is there already": {`{automountServiceAccountToken: true}`, `{automountServiceAccountToken: null}`, ""},
		"no token":                      {`{}`, `{automountServiceAccountToken: false}`, ""},
		"no sandbox":                    {`{runtimeClassName: gvisor}`, `{runtimeClassName: null}`, `the runtime of class ""`},
		"the same sandbox":              {`{runtimeClassName: gvisor}`, `{priorityClassName: null}`, ""},
		"a volume that was not to be written": {
			`{volumes: [{name: v, persistentVolumeClaim: {claimName: db, readOnly: true}}]}`,
			`{volumes: [{name: v, persistentVolumeClaim: {claimName: db, readOnly: false}}]}`, "PersistentVolumeClaim db, to write",
		},
		"root is everybody":          {`{securityContext: {runAsUser: 0}}`, `{securityContext: {runAsUser: 1000}}`, ""},
		"the same user":              {`{securityContext: {runAsUser: 1000}}`, `{securityContext: {runAsGroup: 1000}}`, ""},
		"another user":               {`{securityContext: {runAsUser: 1000}}`, `{securityContext: {runAsUser: 1001}}`, "user 1001"},
		"whom the image says":        {`{securityContext: {runAsUser: 1000, runAsNonRoot: true}}`, `{securityContext: {runAsUser: null, runAsNonRoot: true}}`, "any user but root"},
		"whom the image may say":     {`{}`, `{securityContext: {runAsUser: 1000}}`, ""},
		"root instead of the images": {`{}`, `{securityContext: {runAsUser: 0}}`, "user root"},
	} {
		t.Run(name, func(t *testing.T) {
			from := source(t, tracked)
			pod := from.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
			mount := object(t, `{volumeMounts: [{name: v, mountPath: /v}]}`)
			pod["containers"].([]any)[0].(map[string]any)["volumeMounts"] = mount["volumeMounts"]
			pod["volumes"] = object(t, `{volumes: [{name: v, emptyDir: {}}]}`)["volumes"]
			for field, value := range object(t, test.source) {
				pod[field] = value
			}
			_, err := Build(from, wanted(t, `{template: {spec: `+test.override+`}}`))
			if test.says != "" {
				refused(t, err, test.says)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// A Secret that images are pulled with is no Secret that pods may read.
func TestPullSecretIsNotRead(t *testing.T) {
	from := source(t, tracked)
	_ = unstructured.SetNestedSlice(from.Object, []any{map[string]any{"name": "registry"}}, "spec", "template", "spec", "imagePullSecrets")
	_, err := Build(from, wanted(t, `{template: {spec: {volumes: [{name: v, secret: {secretName: registry}}]}}}`))
	refused(t, err, "Secret registry")
}

// What is on a volume of somebody else is not the twin's to read.
func TestClaimedData(t *testing.T) {
	for _, claim := range []string{`dataSource: {kind: PersistentVolumeClaim, name: other}`, `volumeName: pv-1`, `selector: {matchLabels: {other: "yes"}}`} {
		override := `{volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, ` + claim + `}}]}`
		_, err := Build(source(t, database), wanted(t, override))
		field, _, _ := strings.Cut(claim, ":")
		refused(t, err, field+" ")
	}
}

// A volume that the source reads only is not written by its twin.
func TestReadOnlyVolumes(t *testing.T) {
	from := source(t, database)
	_ = unstructured.SetNestedSlice(from.Object, []any{object(t, `{name: logs, hostPath: {path: /var/log}}`)}, "spec", "template", "spec", "volumes")
	_ = unstructured.SetNestedSlice(from.Object, []any{object(t, `{name: db, image: "db:1", volumeMounts: [{name: logs, mountPath: /logs, readOnly: true}]}`)}, "spec", "template", "spec", "containers")
	_, err := Build(from, wanted(t, `{template: {spec: {containers: [{name: db, image: "db:1", volumeMounts: [{name: logs, mountPath: /logs}]}]}}}`))
	refused(t, err, "hostPath /var/log, to write")
}

// Whatever the override, the twin is no more privileged than its source, has its own selector, and what
// Services select.
func TestProperties(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	parts := []string{
		`{replicas: 2}`, `{template: {spec: {hostNetwork: true}}}`, `{template: {spec: {hostNetwork: false}}}`, `{template: {spec: {serviceAccountName: admin}}}`,
		`{template: {spec: {serviceAccountName: null, automountServiceAccountToken: false}}}`, `{template: {spec: {serviceAccountName: web}}}`,
		`{template: {spec: {containers: [{name: web, image: "web:2"}]}}}`, `{template: {spec: {containers: [{name: web, securityContext: {privileged: true}}]}}}`,
		`{template: {spec: {containers: [{name: web, image: "web:2", securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]}}}`,
		`{template: {spec: {securityContext: {runAsNonRoot: null}}}}`, `{template: {spec: {securityContext: null}}}`, `{template: {metadata: {labels: {app: other}}}}`,
		`{template: {metadata: {labels: null}}}`, `{template: {metadata: null}}`, `{template: {spec: null}}`, `{template: {spec: {volumes: [{name: v, hostPath: {path: /}}]}}}`,
		`{template: {spec: {volumes: [{name: v, emptyDir: {}}]}}}`, `{strategy: null}`, `{template: {spec: {containers: []}}}`, `{template: {spec: {initContainers: [{name: i, image: x}]}}}`,
	}
	built := 0
	for range 3000 {
		override := map[string]any{}
		for range 1 + r.IntN(3) {
			part := object(t, parts[r.IntN(len(parts))])
			var err error
			if override, err = merge.Replace(map[string]any{}, override); err != nil {
				t.Fatal(err)
			}
			for name, value := range part {
				override[name] = value
			}
		}
		from := source(t, []string{tracked, database, shifting}[r.IntN(3)])
		w := Wanted{Name: "x-exp-1", For: "x", Override: override, Strategy: []Strategy{Replace, Strategic}[r.IntN(2)], Services: []Service{{Name: "s", Selector: map[string]string{"app": labelsOf(from.Object["spec"].(map[string]any)["template"].(map[string]any))["app"]}}}}
		twin, err := Build(from, w)
		if err != nil {
			refused(t, err, "")
			continue
		}
		built++
		template := twin.Object.Object["spec"].(map[string]any)["template"].(map[string]any)
		if more := Exceeding(from.Object["spec"].(map[string]any)["template"].(map[string]any), template); len(more) > 0 {
			t.Fatalf("seed %d: %v gives %v", seed, override, more)
		}
		selector, _, _ := unstructured.NestedStringMap(twin.Object.Object, "spec", "selector", "matchLabels")
		if len(selector) != 1 || !selects(selector, labelsOf(template)) || !selects(w.Services[0].Selector, labelsOf(template)) || !twin.Services[0].Shared {
			t.Fatalf("seed %d: %v gives labels %v", seed, override, labelsOf(template))
		}
	}
	if built < 300 {
		t.Errorf("only %d were built", built)
	}
}
