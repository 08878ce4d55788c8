package twin

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/labkeeper/labkeeper/internal/merge"
	"github.com/labkeeper/labkeeper/test/random"
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

// given is an object where nothing is said.
func given(text string) string {
	if text == "" {
		return "{}"
	}
	return text
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

// Nothing gets in that is not listed, from a workload that everybody has left a mark on, and what pods are made of does.
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

// plain is a Deployment that nobody has left a mark on.
const plain = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "web:1"}]}
`

// Each mark, and each setting that is the source's own, leaves its twin as that of a source without: those of other
// tools and controllers even where every annotation and every label is listed.
func TestDropped(t *testing.T) {
	const applied = `kubectl.kubernetes.io/last-applied-configuration: "{}"`
	annotations := func(all string) string { return `{metadata: {annotations: {` + all + `}}}` }
	labels := func(all string) string { return `{metadata: {labels: {` + all + `}}}` }
	ofPods := func(metadata string) string { return `{spec: {template: {metadata: {` + metadata + `}}}}` }
	everything, nothing := []string{""}, []string(nil)
	for name, test := range map[string]struct {
		source, marks string
		listed        []string
	}{
		"m1 what the server sets":     {plain, `{metadata: {uid: 1-2-3, resourceVersion: "42", generation: 7, creationTimestamp: "2026-01-01T00:00:00Z", managedFields: [{manager: kubectl}], selfLink: /x}, status: {replicas: 3}}`, everything},
		"m1 one that is going":        {plain, `{metadata: {deletionTimestamp: "2026-01-01T00:00:00Z", deletionGracePeriodSeconds: 0, generateName: web-}}`, everything},
		"m2 finalizers":               {plain, `{metadata: {finalizers: [foregroundDeletion, example.com/keep]}}`, everything},
		"m3 owners":                   {plain, `{metadata: {ownerReferences: [{apiVersion: example.com/v1, kind: Shop, name: shop, uid: 4-5-6, controller: true}]}}`, everything},
		"m4 last applied":             {plain, annotations(applied), everything},
		"m4 labels that are pruned":   {plain, labels(`app: web, team: shop`), nothing},
		"m5 of Deployments":           {plain, annotations(`deployment.kubernetes.io/revision: "7", deployment.kubernetes.io/desired-replicas: "3", deployment.kubernetes.io/max-replicas: "4", deprecated.deployment.rollback.to: "6"`), everything},
		"m5 of Rollouts":              {shifting, annotations(`rollout.argoproj.io/revision: "3", rollout.argoproj.io/workload-generation: "3"`), everything},
		"m5 who is notified":          {plain, annotations(`notifications.argoproj.io/subscribe.on-sync-failed.slack: prod, notified.notifications.argoproj.io: "{}"`), everything},
		"m6 labels of Argo CD":        {plain, labels(`app.kubernetes.io/instance: shop, argocd.argoproj.io/instance: shop`), everything},
		"m7 tracking ids of Argo CD":  {plain, annotations(`argocd.argoproj.io/tracking-id: "shop:apps/Deployment:shop/web", argocd.argoproj.io/installation-id: x`), everything},
		"m8 others of Argo CD":        {plain, annotations(`argocd.argoproj.io/sync-wave: "1", argocd.argoproj.io/hook: PreSync, argocd.argoproj.io/hook-delete-policy: x, argocd.argoproj.io/sync-options: x, argocd.argoproj.io/compare-options: x, argocd.argoproj.io/managed-by: x`), everything},
		"m9 annotations of Helm":      {plain, annotations(`meta.helm.sh/release-name: web, meta.helm.sh/release-namespace: shop, helm.sh/resource-policy: keep`), everything},
		"m9 labels of Helm":           {plain, labels(`helm.sh/chart: web-1.0.0, app.kubernetes.io/managed-by: Helm`), everything},
		"m10 Flux":                    {plain, annotations(`kustomize.toolkit.fluxcd.io/checksum: x, helm.toolkit.fluxcd.io/driftDetection: disabled`), everything},
		"m10 labels of Flux":          {plain, labels(`kustomize.toolkit.fluxcd.io/name: shop, helm.toolkit.fluxcd.io/name: web`), everything},
		"m11 kapp":                    {plain, annotations(`kapp.k14s.io/association: x, kapp.k14s.io/identity: x`), everything},
		"m11 Rancher":                 {plain, annotations(`objectset.rio.cattle.io/applied: x, objectset.rio.cattle.io/id: x`), everything},
		"m11 inventories":             {plain, annotations(`config.k8s.io/owning-inventory: x, configsync.gke.io/resource-id: x, applyset.kubernetes.io/tooling: x`), everything},
		"m11 labels":                  {plain, labels(`kapp.k14s.io/app: x, objectset.rio.cattle.io/hash: x, applyset.kubernetes.io/part-of: x, olm.owner: x, skaffold.dev/run-id: x`), everything},
		"m12 what acts on workloads":  {plain, annotations(`reloader.stakater.com/auto: "true", keel.sh/policy: force, downscaler/uptime: x, chaos.alpha.kubernetes.io/enabled: "true", team.example.com/owner: payments`), nothing},
		"m12 labels":                  {plain, labels(`keel.sh/policy: force, goldilocks.fairwinds.com/enabled: "true"`), nothing},
		"d1 the selector":             {plain, `{spec: {selector: {matchLabels: {app: web, more: labels}}}}`, nothing},
		"d4 paused":                   {plain, `{spec: {paused: true}}`, nothing},
		"d5 replicas":                 {plain, `{spec: {replicas: 0}}`, nothing},
		"d5 many replicas":            {plain, `{spec: {replicas: 30}}`, nothing},
		"d9 the history":              {plain, `{spec: {revisionHistoryLimit: 50}}`, nothing},
		"d10 a rollback":              {plain, `{spec: {rollbackTo: {revision: 3}}}`, nothing},
		"s2 volumes that stay":        {database, `{spec: {persistentVolumeClaimRetentionPolicy: {whenDeleted: Retain, whenScaled: Retain}}}`, nothing},
		"s5 a partition":              {database, `{spec: {updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 3}}}}`, nothing},
		"s6 numbers":                  {database, `{spec: {ordinals: {start: 7}}}`, nothing},
		"s8 one pod after the other":  {database, `{spec: {podManagementPolicy: Parallel}}`, nothing},
		"s10 labels of pods of a set": {database, ofPods(`labels: {statefulset.kubernetes.io/pod-name: db-1, controller-revision-hash: abc, apps.kubernetes.io/pod-index: "1"}`), nothing},
		"r1 a workload":               {shifting, `{spec: {workloadRef: {kind: Deployment, name: web, scaleDown: onsuccess}}}`, nothing},
		"r2 Services":                 {shifting, `{spec: {strategy: {canary: {canaryService: a, stableService: b, pingPong: {pingService: c, pongService: d}}}}}`, nothing},
		"r2 Services of blueGreen":    {shifting, `{spec: {strategy: {canary: null, blueGreen: {activeService: a, previewService: b}}}}`, nothing},
		"r3 traffic":                  {shifting, `{spec: {strategy: {canary: {trafficRouting: {istio: {virtualService: {name: web}}}}}}}`, nothing},
		"r4 what needs traffic":       {shifting, `{spec: {strategy: {canary: {scaleDownDelaySeconds: 5, dynamicStableScale: true, steps: [{setCanaryScale: {weight: 1}}, {setHeaderRoute: {name: x}}, {setMirrorRoute: {name: x}}, {experiment: {templates: []}}]}}}}`, nothing},
		"r5 steps":                    {shifting, `{spec: {strategy: {canary: {steps: [{pause: {}}, {analysis: {}}]}}}}`, nothing},
		"r6 analyses":                 {shifting, `{spec: {analysis: {unsuccessfulRunHistoryLimit: 1}, strategy: {canary: {analysis: {templates: []}, antiAffinity: {}, stableMetadata: {labels: {role: stable}}}}}}`, nothing},
		"r6 ends of a rollout":        {shifting, `{spec: {rollbackWindow: {revisions: 9}, progressDeadlineAbort: false, strategy: {blueGreen: {prePromotionAnalysis: {}, postPromotionAnalysis: {}, activeMetadata: {}, previewMetadata: {}}}}}`, nothing},
		"r7 paused":                   {shifting, `{spec: {paused: false, restartAt: "2026-02-02T00:00:00Z"}}`, nothing},
		"r9 hashes of pods":           {plain, ofPods(`labels: {rollouts-pod-template-hash: abc, pod-template-hash: def}`), nothing},
		"s10 groups of pods":          {database, ofPods(`labels: {kueue.x-k8s.io/pod-group-name: statefulset-db-abc, scheduling.x-k8s.io/pod-group: db, pod-group.scheduling.sigs.k8s.io: db, pod-group.scheduling.sigs.k8s.io/name: db}`), nothing},
		"r10 the selector":            {shifting, `{spec: {selector: {matchLabels: {app: web, more: labels}}}}`, nothing},
		"p1 what is no pod's":         {plain, ofPods(`name: x, namespace: y, creationTimestamp: null, generateName: x-, ownerReferences: [{kind: X}], finalizers: [x]`), everything},
		"p2 what was done to pods":    {plain, ofPods(`annotations: {` + applied + `, kubectl.kubernetes.io/restartedAt: x, flagger-id: x, sidecar.istio.io/status: "{}"}`), everything},
		"p2 addresses":                {plain, ofPods(`annotations: {cni.projectcalico.org/ipAddrs: "[]", cni.projectcalico.org/hwAddr: x, ovn.kubernetes.io/ip_address: x, ovn.kubernetes.io/mac_address: x, k8s.v1.cni.cncf.io/networks: x}`), nothing},
		"c1 its status":               {plain, `{metadata: {resourceVersion: "43"}, status: {observedGeneration: 3, replicas: 2, conditions: [{type: Progressing, status: "False"}]}}`, nothing},
		"c1 its replicas":             {shifting, `{metadata: {generation: 8}, spec: {replicas: 17}}`, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			w := wanted(t, `{}`)
			w.Annotations, w.Labels = test.listed, test.listed
			marked := source(t, test.source)
			overlay(marked.Object, object(t, test.marks))
			raw, err := yaml.Marshal(marked.Object)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(build(t, test.source, w).Object, build(t, string(raw), w).Object); diff != "" {
				t.Errorf("(-without +with):\n%s", diff)
			}
		})
	}
}

// What pods are to be is theirs as it is the source's.
func TestKept(t *testing.T) {
	from := source(t, plain)
	template := from.Object["spec"].(map[string]any)["template"].(map[string]any)
	overlay(template, object(t, `
metadata:
  labels: {app: web, version: v1, tags.datadoghq.com/version: v1, service.istio.io/canonical-name: web, part: monitored}
  annotations: {checksum/config: abc, prometheus.io/scrape: "true", vault.hashicorp.com/agent-inject: "true", sidecar.istio.io/inject: "true", linkerd.io/inject: enabled, kubectl.kubernetes.io/default-container: web}
`))
	of := func(t *testing.T, override string) map[string]any {
		twin, err := Build(from, wanted(t, override))
		if err != nil {
			t.Fatal(err)
		}
		return templateOf(twin.Object.Object["spec"].(map[string]any))
	}
	t.Run("p3 annotations", func(t *testing.T) {
		annotations, _, _ := unstructured.NestedMap(of(t, `{}`), "metadata", "annotations")
		if diff := cmp.Diff(template["metadata"].(map[string]any)["annotations"], any(annotations)); diff != "" {
			t.Errorf("(-source +twin):\n%s", diff)
		}
	})
	for _, id := range []string{"p4 labels that Services select", "p11 labels that meshes select", "a8 labels that policies and monitors select"} {
		t.Run(id, func(t *testing.T) {
			if have := labelsOf(of(t, `{}`)); !selects(labelsOf(template), have) {
				t.Errorf("labels are %v", have)
			}
		})
	}
	t.Run("p10 telemetry", func(t *testing.T) {
		changed := of(t, `{template: {metadata: {labels: {version: faster, tags.datadoghq.com/version: faster}}}}`)
		if have := labelsOf(changed); have["version"] != "faster" || have["tags.datadoghq.com/version"] != "faster" {
			t.Errorf("labels are %v", have)
		}
		if diff := cmp.Diff(template["spec"], changed["spec"]); diff != "" {
			t.Errorf("something is put into the pods (-source +twin):\n%s", diff)
		}
	})
}

// An override of one of the two meets the other as the source has it: the API server sees whether they fit.
func TestDeadlines(t *testing.T) {
	for kind, text := range map[string]string{"Deployment": plain, "Rollout": shifting} {
		t.Run("d6 "+kind, func(t *testing.T) {
			from := source(t, text)
			overlay(from.Object, object(t, `{spec: {progressDeadlineSeconds: 20, minReadySeconds: 10}}`))
			for override, want := range map[string]string{
				`{}`:                              `{progressDeadlineSeconds: 20, minReadySeconds: 10}`,
				`{minReadySeconds: 30}`:           `{progressDeadlineSeconds: 20, minReadySeconds: 30}`,
				`{progressDeadlineSeconds: 40}`:   `{progressDeadlineSeconds: 40, minReadySeconds: 10}`,
				`{progressDeadlineSeconds: null}`: `{minReadySeconds: 10}`,
			} {
				twin, err := Build(from, wanted(t, override))
				if err != nil {
					t.Fatal(err)
				}
				spec := maps.Clone(twin.Object.Object["spec"].(map[string]any))
				maps.DeleteFunc(spec, func(name string, _ any) bool { return name != "progressDeadlineSeconds" && name != "minReadySeconds" })
				expect(t, want, spec)
			}
		})
	}
}

// The twin's identity is in its selector, and in no label that another's may be cut to as well.
func TestIdentity(t *testing.T) {
	for name, text := range map[string]string{"d2 Deployment": plain, "d2 StatefulSet": database, "d2 Rollout": shifting} {
		t.Run(name, func(t *testing.T) {
			spec := build(t, text, wanted(t, `{template: {metadata: {labels: null}}}`)).Object.Object["spec"].(map[string]any)
			selector, _, _ := unstructured.NestedStringMap(spec, "selector", "matchLabels")
			if !selects(selector, labelsOf(templateOf(spec))) {
				t.Errorf("%v does not select %v", selector, labelsOf(templateOf(spec)))
			}
		})
	}
	t.Run("m14 two names that are cut the same", func(t *testing.T) {
		w, other := wanted(t, `{}`), wanted(t, `{}`)
		other.Name = "web-exp-def"
		one, another := build(t, plain, w).Object, build(t, plain, other).Object
		if diff := cmp.Diff(one.GetLabels()[LabelName], another.GetLabels()[LabelName]); diff != "" {
			t.Error(diff)
		}
		selector, _, _ := unstructured.NestedStringMap(one.Object, "spec", "selector", "matchLabels")
		if selects(selector, labelsOfPods(another)) || !selects(selector, labelsOfPods(one)) {
			t.Errorf("%v is the selector of one of them", selector)
		}
	})
	t.Run("m15 the longest name", func(t *testing.T) {
		w := wanted(t, `{}`)
		w.Name = strings.Repeat("x", MaxName)
		for label, value := range labelsOfPods(build(t, database, w).Object) {
			if wrong := validation.IsValidLabelValue(value); len(wrong) > 0 {
				t.Errorf("%s: %v", label, wrong)
			}
		}
		if wrong := validation.IsValidLabelValue(w.Name + "-5f79b78d7f"); len(wrong) > 0 { // controller-revision-hash
			t.Error(wrong)
		}
	})
	t.Run("o2 beside its source", func(t *testing.T) {
		for _, text := range []string{plain, database, shifting} {
			if at := build(t, text, wanted(t, `{}`)).Object.GetNamespace(); at != "shop" {
				t.Errorf("it is in %q", at)
			}
		}
	})
}

// What a hash is of is what was wanted, however it came about.
func TestHash(t *testing.T) {
	of := func(t *testing.T, text string) string {
		twin := build(t, text, wanted(t, `{}`))
		return Hash(twin.Object.Object["spec"].(map[string]any))
	}
	was := of(t, tracked)
	for name, test := range map[string]struct {
		old, new string
		changed  bool
	}{
		"c2 the same again":        {"", "", false},
		"c2 another order":         {"{app: web, tier: front,", "{tier: front, app: web,", false},
		"c2 what does not get in":  {"revisionHistoryLimit: 50", "revisionHistoryLimit: 51", false},
		"c2 a field is removed":    {"serviceAccountName: web", "", true},
		"c2 a value is changed":    {"web:1", "web:2", true},
		"c2 an element is removed": {"{name: MODE, value: production}, ", "", true},
		"c2 another type":          {"containerPort: 8080", `containerPort: 8081`, true},
	} {
		t.Run(name, func(t *testing.T) {
			if changed := of(t, strings.Replace(tracked, test.old, test.new, 1)) != was; changed != test.changed {
				t.Errorf("it is another: %v", changed)
			}
		})
	}
	t.Run("c3 only what JSON has", func(t *testing.T) {
		for _, text := range []string{tracked, database, shifting} {
			w := wanted(t, `{minReadySeconds: 3}`)
			w.Replicas = ptr.To[int32](2)
			twin := build(t, text, w)
			raw, err := twin.Object.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			read, err := merge.Decode(raw)
			if diff := cmp.Diff(read, runtime.DeepCopyJSON(twin.Object.Object)); err != nil || diff != "" { // which panics of others
				t.Errorf("%v (-read +twin):\n%s", err, diff)
			}
		}
	})
}

// What a source has twice, which is legal, its twin has, too, if the override says nothing of that list.
func TestTwice(t *testing.T) {
	const env, ports = `[{name: A, value: "1"}, {name: A, value: "2"}]`, `[{containerPort: 53, protocol: TCP}, {containerPort: 53, protocol: UDP}, {containerPort: 53, protocol: TCP}]`
	from := strings.Replace(plain, `image: "web:1"`, `image: "web:1", env: `+env+`, ports: `+ports, 1)
	for name, test := range map[string]struct {
		strategy                  Strategy
		override, env, ports, img string
	}{
		"p8 Replace":               {Replace, `{minReadySeconds: 3}`, env, ports, "web:1"},
		"p8 Strategic":             {Strategic, `{template: {spec: {containers: [{name: web, image: "web:2"}]}}}`, env, ports, "web:2"},
		"p8 Strategic, one more":   {Strategic, `{template: {spec: {containers: [{name: web, env: [{name: B}], ports: [{containerPort: 80}]}]}}}`, `[{name: B}, ` + env[1:], `[{containerPort: 80}, ` + ports[1:], "web:1"},
		"p8 Strategic, the first":  {Strategic, `{template: {spec: {containers: [{name: web, env: [{name: A, value: "3"}]}]}}}`, `[{name: A, value: "3"}, {name: A, value: "2"}]`, ports, "web:1"},
		"p8 Strategic, none":       {Strategic, `{template: {spec: {containers: [{name: web, env: [{name: A, $patch: delete}], ports: [{containerPort: 53, $patch: delete}]}]}}}`, `[]`, `[]`, "web:1"},
		"p8 Replace, by the lists": {Replace, `{template: {spec: {containers: [{name: web, image: "web:2", env: ` + env + `, ports: ` + ports + `}]}}}`, env, ports, "web:2"},
	} {
		t.Run(name, func(t *testing.T) {
			w := wanted(t, test.override)
			w.Strategy = test.strategy
			spec := build(t, from, w).Object.Object["spec"].(map[string]any)
			all, _, _ := unstructured.NestedSlice(spec, "template", "spec", "containers")
			expect(t, `{name: web, image: "`+test.img+`", env: `+test.env+`, ports: `+test.ports+`}`, all[0].(map[string]any))
		})
	}
}

// Of elements that a source has twice a merge by keys changes the first alone, as kubectl does, which is told of: of
// variables that has no effect. So it is told of where an element of the override is lost in another of its key.
func TestRepeatedKeys(t *testing.T) {
	from := strings.Replace(plain, `image: "web:1"`, `image: "web:1", env: [{name: A, value: "1"}, {name: A, value: "2"}, {name: B}], ports: [{containerPort: 53, protocol: TCP}, {containerPort: 53, protocol: UDP}, {name: http, containerPort: 8080, protocol: TCP}]`, 1)
	for name, test := range map[string]struct {
		strategy         Strategy
		container, about string
	}{
		"another protocol":       {Strategic, `ports: [{name: quic, containerPort: 8080, protocol: UDP}]`, "overrideSpec.template.spec.containers[0].ports[0]"},
		"the same protocol":      {Strategic, `ports: [{name: web, containerPort: 8080}]`, ""},
		"two protocols":          {Strategic, `ports: [{containerPort: 54, protocol: UDP}, {containerPort: 54, protocol: TCP}]`, "overrideSpec.template.spec.containers[0].ports[1]"},
		"a variable twice":       {Strategic, `env: [{name: C, value: "3"}, {name: C, value: "4"}]`, "overrideSpec.template.spec.containers[0].env[1]"},
		"two, replaced":          {Strategic, `ports: [{$patch: replace}, {containerPort: 54, protocol: UDP}, {containerPort: 54, protocol: TCP}]`, ""},
		"a variable":             {Strategic, `env: [{name: B, value: "3"}, {name: A, value: "3"}]`, "overrideSpec.template.spec.containers[0].env[1]"},
		"a port of two":          {Strategic, `ports: [{containerPort: 53, protocol: UDP, name: dns}]`, "overrideSpec.template.spec.containers[0].ports[0]"},
		"one that is there once": {Strategic, `env: [{name: B, value: "3"}]`, ""},
		"a new one":              {Strategic, `env: [{name: C, value: "3"}]`, ""},
		"all are taken out":      {Strategic, `env: [{name: A, $patch: delete}]`, ""},
		"all are replaced":       {Strategic, `env: [{name: A, value: "3"}, {$patch: replace}]`, ""},
		"the list":               {Replace, `image: "web:1", env: [{name: A, value: "3"}]`, ""},
	} {
		w := wanted(t, `{template: {spec: {containers: [{name: web, `+test.container+`}]}}}`)
		w.Strategy = test.strategy
		told := ""
		for _, warning := range build(t, from, w).Warnings {
			if warning.Reason == WarnRepeated {
				told += warning.Message
			}
		}
		if (told == "") != (test.about == "") || !strings.Contains(told, test.about+",") && test.about != "" {
			t.Errorf("%s: it tells %q", name, told)
		}
	}
}

// What somebody lists is copied, but for what names another object (TestDropped).
func TestListedAnnotations(t *testing.T) {
	w := wanted(t, `{}`)
	w.Annotations = []string{"team.example.com/", "argocd.argoproj.io/", "helm.toolkit.fluxcd.io/"}
	twin := build(t, tracked, w)
	t.Run("m12 of the workload", func(t *testing.T) {
		want := map[string]string{"team.example.com/owner": "payments", AnnotationCopied: "team.example.com/owner"}
		if diff := cmp.Diff(want, twin.Object.GetAnnotations()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("m12 of the pods", func(t *testing.T) {
		annotations, _, _ := unstructured.NestedStringMap(twin.Object.Object, "spec", "template", "metadata", "annotations")
		if annotations["team.example.com/pager"] != "payments" {
			t.Errorf("they are %v", annotations)
		}
	})
}

// So are labels, of the workload alone, by which policies may ask whose it is; those that tell a twin from others are its own.
func TestListedLabels(t *testing.T) {
	from := strings.Replace(tracked, "helm.sh/chart: web-1.0.0", `helm.sh/chart: web-1.0.0, team: payments, cost.example.com/center: "7", `+LabelRole+`: production`, 1)
	w := wanted(t, `{}`)
	w.Labels = []string{"cost.example.com/", "app.kubernetes.io/", "helm.sh/", Group, "te"}
	t.Run("m12 of the workload", func(t *testing.T) {
		twin := build(t, from, w).Object
		want := w.labels()
		if diff := cmp.Diff(want, labelsOfPods(build(t, plain, w).Object), cmpopts.IgnoreMapEntries(func(name, _ string) bool { return name == "app" })); diff != "" {
			t.Errorf("of the pods (-want +got):\n%s", diff)
		}
		want["team"], want["cost.example.com/center"] = "payments", "7"
		if diff := cmp.Diff(want, twin.GetLabels()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("m6 one of them may be that of Argo CD", func(t *testing.T) {
		want := map[string]string{
			"argocd.argoproj.io/sync-options": "Prune=false,Delete=false", "argocd.argoproj.io/compare-options": "IgnoreExtraneous", "argocd.argoproj.io/ignore-healthcheck": "true",
			AnnotationCopied: "cost.example.com/center,team,argocd.argoproj.io/compare-options,argocd.argoproj.io/ignore-healthcheck,argocd.argoproj.io/sync-options",
		}
		if diff := cmp.Diff(want, build(t, from, w).Object.GetAnnotations()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if none := build(t, plain, w).Object.GetAnnotations(); none != nil {
			t.Errorf("where none is copied there are %v", none)
		}
	})
	t.Run("m13 beside an id", func(t *testing.T) {
		if twin := build(t, shifting, w).Object; twin.GetLabels()[InstanceID] != "blue" {
			t.Errorf("they are %v", twin.GetLabels())
		}
	})
}

// A set of its own: new volumes that go with it, and pods that come and change at once. Of what else its source has
// nothing gets in.
func TestStatefulSet(t *testing.T) {
	spec := build(t, database, wanted(t, `{}`)).Object.Object["spec"].(map[string]any)
	delete(spec["template"].(map[string]any), "spec")
	tests := map[string]struct{ field, want string }{
		"d1 the selector":                    {"selector", `{matchLabels: {experiment-controller.example.com/experiment-id: web-exp-abc}}`},
		"d5 one pod":                         {"replicas", `1`},
		"d9 a short history":                 {"revisionHistoryLimit", `2`},
		"s2 volumes go with it":              {"persistentVolumeClaimRetentionPolicy", `{whenDeleted: Delete, whenScaled: Delete}`},
		"s3 volumes are new":                 {"volumeClaimTemplates", `[{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 10Gi}}}}]`},
		"s4 its Service":                     {"serviceName", `db`},
		"s5 every pod changes":               {"updateStrategy", `{type: RollingUpdate, rollingUpdate: {partition: 0}}`},
		"s6 numbers are its own":             {"ordinals", `null`},
		"s8 no pod waits for a broken one":   {"podManagementPolicy", `Parallel`},
		"s10 labels of pods are none of its": {"template", `{metadata: {labels: {app: db, ` + LabelName + `: faster, ` + LabelRole + `: experiment, ` + LabelIsExperiment + `: "true", ` + LabelID + `: web-exp-abc}}}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			want := object(t, `{value: `+test.want+`}`)["value"]
			if diff := cmp.Diff(want, spec[test.field]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for field := range spec {
		if !slices.ContainsFunc(slices.Collect(maps.Values(tests)), func(test struct{ field, want string }) bool { return test.field == field }) {
			t.Errorf("it has %s", field)
		}
	}
}

// What cannot be changed makes another twin, and what can does not.
func TestReplaced(t *testing.T) {
	live := build(t, database, wanted(t, `{}`)).Object
	const claims = `{volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 20Gi}}}}]}`
	for name, test := range map[string]struct {
		override string
		want     bool
	}{
		"s1 nothing":            {`{}`, false},
		"s1 minReadySeconds":    {`{minReadySeconds: 3}`, false},
		"s1 the template":       {`{template: {spec: {containers: [{name: db, image: "db:2"}]}}}`, false},
		"s1 serviceName":        {`{serviceName: other}`, true},
		"s1 the order of pods":  {`{podManagementPolicy: OrderedReady}`, true},
		"s1 no volumes":         {`{volumeClaimTemplates: []}`, true},
		"s1 volumes of another": {claims, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Replaced(live, build(t, database, wanted(t, test.override)).Object); got != test.want {
				t.Errorf("it is %v", got)
			}
		})
	}
	t.Run("s1 what the API server makes of it", func(t *testing.T) {
		normalised := live.DeepCopy()
		_ = unstructured.SetNestedField(normalised.Object, "Filesystem", "spec", "volumeClaimTemplates", "0")
		_ = unstructured.SetNestedField(normalised.Object, nil, "spec", "volumeClaimTemplates")
		if Replaced(normalised, live) {
			t.Error("it counts")
		}
	})
	t.Run("s1 a Deployment", func(t *testing.T) {
		if d := build(t, tracked, wanted(t, `{}`)).Object; Replaced(d, build(t, tracked, wanted(t, `{strategy: {type: Recreate}}`)).Object) {
			t.Error("it is replaced")
		}
	})
}

// Nothing of the source's strategy is left, and the controller that looks after it is that of its source.
func TestRollout(t *testing.T) {
	for name, text := range map[string]string{"r4 canary": shifting, "r4 blueGreen": colored} {
		t.Run(name, func(t *testing.T) {
			spec := build(t, text, wanted(t, `{}`)).Object.Object["spec"].(map[string]any)
			delete(spec, "template")
			delete(spec, "minReadySeconds")
			expect(t, `
replicas: 1
revisionHistoryLimit: 2
strategy: {canary: {}}
selector: {matchLabels: {experiment-controller.example.com/experiment-id: web-exp-abc}}
`, spec)
		})
	}
	for name, test := range map[string]struct{ text, id string }{"m13 one with an id": {shifting, "blue"}, "m13 one without": {colored, ""}} {
		t.Run(name, func(t *testing.T) {
			twin := build(t, test.text, wanted(t, `{}`)).Object
			if id, there := twin.GetLabels()[InstanceID]; id != test.id || there != (id != "") {
				t.Errorf("labels are %v", twin.GetLabels())
			}
			if len(twin.GetAnnotations()) > 0 {
				t.Errorf("annotations are %v", twin.GetAnnotations())
			}
		})
	}
	t.Run("r5 steps that the override wants", func(t *testing.T) {
		spec := build(t, shifting, wanted(t, `{strategy: {canary: {steps: [{setWeight: 50}, {pause: {}}]}}}`)).Object.Object["spec"].(map[string]any)
		expect(t, `{canary: {steps: [{setWeight: 50}, {pause: {}}]}}`, spec["strategy"].(map[string]any))
	})
}

// The template is that of the workload that the Rollout refers to, which is not scaled by another.
func TestRolloutOfAWorkload(t *testing.T) {
	rollout := source(t, `{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: web, namespace: shop}, spec: {workloadRef: {kind: Deployment, name: web, scaleDown: onsuccess}}}`)
	t.Run("r1 without its template", func(t *testing.T) {
		_, err := Build(rollout, wanted(t, `{}`))
		refused(t, err, "no pod template")
	})
	t.Run("r1 with its template", func(t *testing.T) {
		rollout.Object["spec"].(map[string]any)["template"] = object(t, tracked)["spec"].(map[string]any)["template"]
		twin, err := Build(rollout, wanted(t, `{}`))
		if err != nil {
			t.Fatal(err)
		}
		spec := twin.Object.Object["spec"].(map[string]any)
		if _, there := spec["workloadRef"]; there || spec["template"] == nil {
			t.Errorf("it is %v", spec)
		}
	})
}

// Replicas in two places, and those of the source nowhere.
func TestReplicas(t *testing.T) {
	for name, test := range map[string]struct {
		replicas *int32
		override string
		want     int64
		wrong    string
	}{
		"d5 nowhere":          {nil, `{}`, 1, ""},
		"c6 in the spec":      {ptr.To[int32](2), `{}`, 2, ""},
		"c6 none":             {ptr.To[int32](0), `{}`, 0, ""},
		"c6 in the override":  {nil, `{replicas: 0}`, 0, ""},
		"c6 in both":          {ptr.To[int32](2), `{replicas: 2}`, 2, ""},
		"c6 null":             {ptr.To[int32](2), `{replicas: null}`, 2, ""},
		"c6 in both, another": {ptr.To[int32](2), `{replicas: 3}`, 0, "overrideSpec.replicas"},
		"c6 no number":        {nil, `{replicas: "2"}`, 0, "overrideSpec.replicas"},
		"c6 a part":           {nil, `{replicas: 1.5}`, 0, "overrideSpec.replicas"},
		"c6 too many":         {nil, `{replicas: 3000000000}`, 0, "overrideSpec.replicas"},
		"c6 negative":         {nil, `{replicas: -1}`, 0, "overrideSpec.replicas"},
	} {
		t.Run(name, func(t *testing.T) {
			w := wanted(t, test.override)
			w.Replicas = test.replicas
			twin, err := Build(source(t, tracked), w)
			if test.wrong != "" {
				refused(t, err, test.wrong)
				_, err := Build(source(t, shifting), w) // whose kind is not known as well
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

// What is refused is so by its path, and never with a value.
func TestRefused(t *testing.T) {
	type row struct{ id, source, override, says string }
	rows := []row{
		{"c7", tracked, `{selector: {matchLabels: {app: web}}}`, "overrideSpec.selector"},
		{"c7", tracked, `{status: {}}`, "overrideSpec.status"},
		{"c7", tracked, `{workloadRef: {}}`, "overrideSpec.workloadRef"},
		{"d4", tracked, `{paused: true}`, "overrideSpec.paused"},
		{"c7", tracked, `{template: {metadata: {name: x}}}`, "overrideSpec.template.metadata.name"},
		{"c7", tracked, `{template: {metadata: {finalizers: [x]}}}`, "overrideSpec.template.metadata.finalizers"},
		{"c7", tracked, `{template: {metadata: {ownerReferences: []}}}`, "overrideSpec.template.metadata.ownerReferences"},
		{"c7", tracked, `{template: {metadata: {labels: {"` + LabelRole + `": x}}}}`, LabelRole},
		{"c7", tracked, `{template: {metadata: {annotations: {"` + Group + `/x": x}}}}`, Group + "/x"},
		{"c11", tracked, `{template: {metadata: {labels: [x]}}}`, "template.metadata.labels"},
		{"c11", tracked, `{template: {metadata: x}}`, "template.metadata"},
		{"c11", tracked, `{template: x}`, "template"},
		{"c11", tracked, `{template: null}`, "template"},
		{"c5", tracked, `{replcas: 2}`, `unknown field "replcas"`},
		{"c5", tracked, `{template: {spec: {containers: [{name: web, imagee: x}]}}}`, "template.spec.containers[0].imagee"},
		{"c5", tracked, `{template: {spec: {containers: [{name: web, image: [canary-value]}]}}}`, "overrideSpec: template.spec.containers[0].image must be a string"},
		{"c5", tracked, `{template: {spec: {containers: {name: canary-value}}}}`, "overrideSpec: template.spec.containers must be a list"},
		{"c5", tracked, `{minReadySeconds: canary-value}`, "overrideSpec: minReadySeconds must be an integer"},
		{"c5", tracked, `{template: {spec: {containers: [{name: web, resources: {limits: {cpu: canary-value}}}]}}}`, "overrideSpec: template.spec.containers[0].resources.limits.cpu must be a quantity, such as 500m or 1Gi"},
		{"c5", tracked, `{template: {spec: {volumes: [{name: a, emptyDir: {}}, {name: b, emptyDir: {sizeLimit: canary-value}}]}}}`, "overrideSpec: template.spec.volumes[1].emptyDir.sizeLimit must be a quantity"},
		{"c5", tracked, `{template: {spec: {containers: [{name: web, livenessProbe: {httpGet: {port: {canary-value: 1}}}}]}}}`, "overrideSpec: template.spec.containers[0].livenessProbe.httpGet.port must be an integer"},
		{"c5", tracked, `{template: {metadata: {creationTimestamp: canary-value}}}`, "overrideSpec.template.metadata.creationTimestamp"},
		{"c5", database, `{volumeClaimTemplates: [{metadata: {name: data}, spec: {resources: {requests: {storage: canary-value}}}}]}`, "volumeClaimTemplates[0].spec.resources.requests.storage must be a quantity"},
		{"c5", shifting, `{template: {spec: {containers: [{name: web, resources: {requests: {nvidia.com/gpu: canary-value}}}]}}}`, "template.spec.containers[0].resources.requests.nvidia.com/gpu must be a quantity"},
		{"s2", database, `{persistentVolumeClaimRetentionPolicy: {whenDeleted: Retain}}`, "persistentVolumeClaimRetentionPolicy"},
		{"c5", database, `{volumeClaimTemplatez: []}`, "volumeClaimTemplatez"},
		{"r2", shifting, `{strategy: {blueGreen: {activeService: web}}}`, "strategy.blueGreen"},
		{"r2", shifting, `{strategy: {canary: {stableService: web}}}`, "strategy.canary.stableService"},
		{"r3", shifting, `{strategy: {canary: {trafficRouting: {}}}}`, "strategy.canary.trafficRouting"},
		{"r6", shifting, `{strategy: {canary: {stableMetadata: {annotations: {iam.amazonaws.com/role: admin}}}}}`, "strategy.canary.stableMetadata"},
		{"r6", shifting, `{strategy: {canary: {canaryMetadata: {labels: {app: api}}}}}`, "strategy.canary.canaryMetadata"},
		{"r6", shifting, `{strategy: {canary: {analysis: {templates: [{templateName: x}]}}}}`, "strategy.canary.analysis"},
		{"r6", shifting, `{strategy: {canary: {steps: [{setWeight: 5}, {analysis: {}}]}}}`, "strategy.canary.steps[1].analysis"},
		{"r4", shifting, `{strategy: {canary: {steps: [{experiment: {}}]}}}`, "strategy.canary.steps[0].experiment"},
		{"r4", shifting, `{strategy: {canary: {steps: [x]}}}`, "strategy.canary.steps[0]"},
		{"r4", shifting, `{strategy: {canary: {steps: x}}}`, "strategy.canary.steps"},
		{"r4", shifting, `{strategy: {canary: x}}`, "strategy.canary"},
		{"r4", shifting, `{strategy: {canary: null}}`, "strategy.canary"},
		{"r4", shifting, `{strategy: null}`, "strategy"},
		{"r4", shifting, `{strategy: {other: {}}}`, "strategy.other"},
		{"r1", shifting, `{workloadRef: {name: web}}`, "workloadRef"},
		{"r7", shifting, `{restartAt: "2026-01-01T00:00:00Z"}`, "restartAt"},
		{"r6", shifting, `{analysis: {}}`, "analysis"},
		{"c5", shifting, `{template: {spec: {containerz: []}}}`, "template.spec.containerz"},
		{"d10", tracked, `{rollbackTo: {revision: 3}}`, `unknown field "rollbackTo"`},
		{"r7", shifting, `{paused: true}`, "overrideSpec.paused"},
	}
	for _, label := range ofPods {
		id := "r9"
		if strings.Contains(label, "statefulset") || strings.Contains(label, "index") || strings.Contains(label, "revision") {
			id = "s10"
		}
		rows = append(rows, row{id, tracked, `{template: {metadata: {labels: {"` + label + `": x}}}}`, "overrideSpec.template.metadata.labels." + label})
	}
	for _, test := range rows {
		t.Run(test.id+" "+test.override, func(t *testing.T) {
			_, err := Build(source(t, test.source), wanted(t, test.override))
			refused(t, err, test.says)
		})
	}
	t.Run("o10 a twin of a twin", func(t *testing.T) {
		twin := source(t, tracked)
		twin.SetLabels(map[string]string{LabelRole: RoleExperiment})
		_, err := Build(twin, wanted(t, `{}`))
		refused(t, err, "is itself a twin")
	})
	t.Run("another kind", func(t *testing.T) {
		daemon := source(t, tracked)
		daemon.SetKind("DaemonSet")
		_, err := Build(daemon, wanted(t, `{}`))
		refused(t, err, "sourceRef.kind")
	})
}

// What a merge by keys leaves of directives that it has not followed is in no spec.
func TestRefusedDirectives(t *testing.T) {
	for name, test := range map[string]struct{ override, says string }{
		"c7 the spec as a whole":              {`{$patch: replace, replicas: 1}`, "overrideSpec.$patch"},
		"c7 which fields stay":                {`{$retainKeys: [replicas], replicas: 1}`, "overrideSpec.$retainKeys"},
		"c5 an element that is none":          {`{template: {spec: {tolerations: [{key: a, $patch: delete}]}}}`, "template.spec.tolerations[0].$patch"},
		"c5 fields of a container not there":  {`{template: {spec: {containers: [{name: new, image: x, $retainKeys: [name, image]}]}}}`, "template.spec.containers[0].$retainKeys"},
		"c5 elements of one that is not":      {`{template: {spec: {containers: [{name: new, image: x, env: [{name: A, $patch: delete}]}]}}}`, "template.spec.containers[0].env[0].$patch"},
		"c5 the order of one that is not":     {`{template: {spec: {containers: [{name: new, image: x, "$setElementOrder/env": []}]}}}`, "template.spec.containers[0].$setElementOrder/env"},
		"c5 strings of one that is not there": {`{template: {spec: {containers: [{name: new, image: x, "$deleteFromPrimitiveList/args": [a]}]}}}`, "template.spec.containers[0].$deleteFromPrimitiveList/args"},
	} {
		for kind, text := range map[string]string{"Deployment": tracked, "Rollout": shifting} {
			t.Run(name+", "+kind, func(t *testing.T) {
				from := source(t, text)
				overlay(from.Object, object(t, `{spec: {template: {spec: {tolerations: [{key: a}]}}}}`))
				w := wanted(t, test.override)
				w.Strategy = Strategic
				_, err := Build(from, w)
				refused(t, err, test.says)
			})
		}
	}
}

// A Rollout's own fields are for the API server to know, and fields that the source has, from one that is newer.
func TestUnknownFieldsOfOthers(t *testing.T) {
	newer := source(t, tracked)
	_ = unstructured.SetNestedField(newer.Object, true, "spec", "template", "spec", "fieldOfTheFuture")
	t.Run("c5 a Rollout's own", func(t *testing.T) {
		build(t, shifting, wanted(t, `{strategy: {canary: {maxSurge: 2, steps: [{setWeight: 10}]}}}`))
	})
	t.Run("c5 a Rollout's own, beside its template", func(t *testing.T) {
		_, err := Build(source(t, shifting), wanted(t, `{replcas: 2}`))
		refused(t, err, `unknown field "replcas"`)
		if _, err := Build(source(t, shifting), wanted(t, `{paused: false, replicas: 2, minReadySeconds: 3, progressDeadlineAbort: true, rollbackWindow: {revisions: 2}}`)); err != nil {
			t.Error(err)
		}
	})
	t.Run("c5 of a newer source", func(t *testing.T) {
		if _, err := Build(newer, wanted(t, `{}`)); err != nil {
			t.Error(err)
		}
	})
	t.Run("c5 beside one of a newer source", func(t *testing.T) {
		_, err := Build(newer, wanted(t, `{template: {spec: {fieldOfTheFuture: false, another: 1}}}`))
		refused(t, err, `unknown field "template.spec.another"`)
	})
	const web, other = `{name: web, image: "web:2", forContainers: 1}`, `{name: web, image: "web:2", forContainers: 2}`
	future := source(t, strings.Replace(plain, `image: "web:1"`, `image: "web:1", forContainers: 1`, 1))
	_ = unstructured.SetNestedField(future.Object, true, "spec", "template", "spec", "fieldOfTheFuture")
	for override, says := range map[string]string{
		`{template: {spec: {fieldOfTheFuture: true}}}`:                         "",
		`{template: {spec: {fieldOfTheFuture: false}}}`:                        "another template.spec.fieldOfTheFuture",
		`{template: {spec: {fieldOfTheFuture: null}}}`:                         "another template.spec.fieldOfTheFuture",
		`{template: {spec: {containers: [` + web + `]}}}`:                      "",
		`{template: {spec: {containers: [` + other + `]}}}`:                    "another template.spec.containers[0].forContainers",
		`{template: {spec: {containers: [{name: web, image: "web:2"}]}}}`:      "another template.spec.containers[0].forContainers",
		`{template: {spec: {containers: [` + web + `, {name: b, image: b}]}}}`: "",
	} {
		t.Run("o3 of a newer source "+override, func(t *testing.T) {
			w := wanted(t, override)
			if _, err := Build(future, w); says == "" && err != nil {
				t.Error(err)
			} else if says != "" {
				refused(t, err, says)
			}
			w.AllowPrivileges = true
			if _, err := Build(future, w); err != nil {
				t.Errorf("where privileges are allowed: %v", err)
			}
		})
	}
}

// A strategy without parameters takes those of the other with it, whoever says them.
func TestRecreate(t *testing.T) {
	for name, override := range map[string]string{
		"d7 the source's":   `{strategy: {type: Recreate}}`,
		"d7 with null":      `{strategy: {type: Recreate, rollingUpdate: null}}`,
		"d7 the override's": `{strategy: {type: Recreate, rollingUpdate: {maxSurge: 1}}}`,
	} {
		for _, how := range []Strategy{Replace, Strategic} {
			t.Run(name+", "+string(how), func(t *testing.T) {
				w := wanted(t, override)
				w.Strategy = how
				strategy, _, _ := unstructured.NestedMap(build(t, tracked, w).Object.Object, "spec", "strategy")
				expect(t, `{type: Recreate}`, strategy)
			})
		}
	}
}

// d7: how to roll out is not dropped where the source does not.
func TestRecreateOfTheSource(t *testing.T) {
	from := strings.Replace(plain, "spec:\n", "spec:\n  strategy: {type: Recreate}\n", 1)
	for override, says := range map[string]string{
		`{strategy: {rollingUpdate: {maxSurge: 1}}}`:                      "overrideSpec.strategy.rollingUpdate: the source's type is Recreate; set type: RollingUpdate",
		`{strategy: {rollingUpdate: null}}`:                               "",
		`{strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1}}}`: "",
		`{strategy: {type: null, rollingUpdate: {maxSurge: 1}}}`:          "",
	} {
		for _, how := range []Strategy{Replace, Strategic} {
			t.Run(override+", "+string(how), func(t *testing.T) {
				w := wanted(t, override)
				w.Strategy = how
				if _, err := Build(source(t, from), w); says != "" {
					refused(t, err, says)
				} else if err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func TestOnDelete(t *testing.T) {
	for _, how := range []Strategy{Replace, Strategic} {
		w := wanted(t, `{updateStrategy: {type: OnDelete}}`)
		w.Strategy = how
		strategy, _, _ := unstructured.NestedMap(build(t, database, w).Object.Object, "spec", "updateStrategy")
		expect(t, `{type: OnDelete}`, strategy) // d7
	}
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

// The same Services, and why not.
func TestServices(t *testing.T) {
	for name, test := range map[string]struct {
		selector              map[string]string
		reason, reasonAllowed string
		none                  bool
	}{
		"p4 one label":              {map[string]string{"app": "web"}, "", ReasonRelabelled, false},
		"p4 two labels":             {map[string]string{"tier": "front", "app": "web"}, "", ReasonRelabelled, false},
		"r8 one version":            {map[string]string{"app": "web", "rollouts-pod-template-hash": "abc"}, ReasonPinned, ReasonPinned, false},
		"s9 one pod":                {map[string]string{"app": "web", "statefulset.kubernetes.io/pod-name": "web-0"}, ReasonSinglePod, ReasonSinglePod, false},
		"s9 one pod, by its number": {map[string]string{"app": "web", "apps.kubernetes.io/pod-index": "0"}, ReasonSinglePod, ReasonSinglePod, false},
		"s9 one pod, by name alone": {map[string]string{"statefulset.kubernetes.io/pod-name": "web-12"}, ReasonSinglePod, ReasonSinglePod, false},
		"s9 a pod of another":       {map[string]string{"app": "web", "statefulset.kubernetes.io/pod-name": "other-0"}, "", "", true},
		"s9 one of a longer name":   {map[string]string{"statefulset.kubernetes.io/pod-name": "web-b-0"}, "", "", true},
		"p4 a twin":                 {map[string]string{"app": "web", LabelName: "faster"}, "", "", true},
		"p4 twins":                  {map[string]string{LabelRole: RoleExperiment}, "", "", true},
		"r8 a hash alone":           {map[string]string{"rollouts-pod-template-hash": "abc"}, "", "", true},
		"p4 another workload's":     {map[string]string{"app": "api"}, "", "", true},
		"p4 no selector":            {nil, "", "", true},
	} {
		for _, allowed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, allowLabelOverride %v", name, allowed), func(t *testing.T) {
				w := wanted(t, `{template: {metadata: {labels: {tier: back, app: null}}}}`)
				w.Services, w.AllowLabelOverride = []Service{{Name: "s", Selector: test.selector}}, allowed
				var want []Sharing
				reason := map[bool]string{false: test.reason, true: test.reasonAllowed}[allowed]
				if !test.none {
					want = []Sharing{{Name: "s", Shared: reason == "", Reason: reason}}
				}
				got := build(t, tracked, w).Services
				for i := range got {
					if got[i].Shared != (got[i].Message == "") {
						t.Errorf("it says %+v", got[i])
					}
					got[i].Message = ""
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	}
	t.Run("p4 labels are put back", func(t *testing.T) {
		w := wanted(t, `{template: {metadata: {labels: {tier: back, app: null}}}}`)
		w.Services = []Service{{Name: "web", Selector: map[string]string{"app": "web"}}, {Name: "stable", Selector: map[string]string{"tier": "front", "app": "web", "rollouts-pod-template-hash": "abc"}}}
		labels := labelsOfPods(build(t, tracked, w).Object)
		if labels["app"] != "web" || labels["tier"] != "front" || labels["rollouts-pod-template-hash"] != "" { // r8: no label is forged
			t.Errorf("labels are %v", labels)
		}
	})
}

// p4: a Service that finds a port by its name sends nothing to a twin whose override has left that out.
func TestServicesOfNamedPorts(t *testing.T) {
	lone := func(ports string) string {
		return `{template: {spec: {containers: [{name: web, image: "web:2", ports: [` + ports + `]}]}}}`
	}
	http, metrics, dns := Port{Name: "http"}, Port{Name: "metrics"}, Port{Name: "dns", Protocol: "UDP"}
	byNumber := func(n int64) Port { return Port{Number: n} }
	for name, test := range map[string]struct {
		ports    []Port
		override string
		strategy Strategy
		// lost are named in what is said of the Service, reason says that all are, and warned what a warning says.
		lost, reason, warned string
	}{
		"as the source has it":     {[]Port{http}, `{}`, Replace, "", "", ""},
		"another by its number":    {[]Port{http, byNumber(80)}, lone(""), Replace, "port http,", "", "Service web finds port http by its name"},
		"headless":                 {[]Port{http, metrics}, lone(`{name: metrics, containerPort: 90}`), Replace, "", "", ""},
		"left out":                 {[]Port{http}, lone(""), Replace, "port http,", ReasonPortLost, ""},
		"both left out":            {[]Port{http, metrics, http}, lone(""), Replace, "port http, metrics,", ReasonPortLost, ""},
		"merged":                   {[]Port{http}, lone(""), Strategic, "", "", ""},
		"by another number":        {[]Port{http}, lone(`{name: http, containerPort: 81}`), Replace, "", "", ""},
		"which nobody has at all":  {[]Port{{Name: "grpc"}}, lone(""), Replace, "", "", ""},
		"lost, and none":           {[]Port{{Name: "grpc"}, http}, lone(""), Replace, "port http,", ReasonPortLost, ""},
		"one of two":               {[]Port{http, metrics}, lone(`{name: metrics, containerPort: 90}`), Replace, "port http,", "", "Service web finds port http by its name"},
		"the other of two":         {[]Port{http, metrics}, lone(`{name: http, containerPort: 80}`), Replace, "port metrics,", "", "Service web finds port metrics by its name"},
		"two of three":             {[]Port{http, metrics, dns}, lone(`{name: dns, containerPort: 53, protocol: UDP}`), Replace, "port http, metrics,", "", "port http, metrics by its name"},
		"by another protocol":      {[]Port{dns}, lone(`{name: dns, containerPort: 53}`), Replace, "port dns (UDP),", ReasonPortLost, ""},
		"by TCP, which is UDP's":   {[]Port{http}, lone(`{name: http, containerPort: 80, protocol: UDP}`), Replace, "port http,", ReasonPortLost, ""},
		"by the same protocol":     {[]Port{dns, http}, lone(`{name: dns, containerPort: 54, protocol: UDP}, {name: http, containerPort: 80, protocol: TCP}`), Replace, "", "", ""},
		"of what ends":             {[]Port{http}, `{template: {spec: {initContainers: [{name: init, image: i, ports: [{name: http, containerPort: 80}]}], containers: [{name: web, image: "web:2"}]}}}`, Replace, "port http,", ReasonPortLost, ""},
		"of what stays":            {[]Port{http}, `{template: {spec: {initContainers: [{name: init, image: i, restartPolicy: Always, ports: [{name: http, containerPort: 80}]}], containers: [{name: web, image: "web:2"}]}}}`, Replace, "", "", ""},
		"a number":                 {[]Port{byNumber(80)}, `{}`, Replace, "", "", ""},
		"a number, none declared":  {[]Port{byNumber(80)}, lone(""), Replace, "", "", ""},
		"a number, another":        {[]Port{byNumber(80)}, lone(`{name: http, containerPort: 81}`), Replace, "", "", "requests to port 80, which the source declares"},
		"a number of UDP, of TCP":  {[]Port{{Number: 53, Protocol: "UDP"}}, lone(`{name: dns, containerPort: 53}`), Replace, "", "", "requests to port 53 (UDP), which the source declares"},
		"a number, of nobody":      {[]Port{byNumber(8080)}, lone(`{name: http, containerPort: 81}`), Replace, "", "", ""},
		"a number that both have":  {[]Port{byNumber(80)}, lone(`{name: web, containerPort: 80, protocol: TCP}`), Replace, "", "", ""},
		"a number of UDP, as such": {[]Port{{Number: 53, Protocol: "UDP"}}, lone(`{containerPort: 53, protocol: UDP}`), Replace, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			from := source(t, plain)
			overlay(from.Object, object(t, `{spec: {template: {spec: {containers: [{name: web, image: "web:1", ports: [
				{name: http, containerPort: 80}, {name: metrics, containerPort: 90, protocol: TCP}, {name: dns, containerPort: 53, protocol: UDP}]}]}}}}`))
			w := wanted(t, test.override)
			w.Strategy, w.Services = test.strategy, []Service{{Name: "web", Selector: map[string]string{"app": "web"}, Ports: test.ports, Headless: name == "headless"}}
			twin, err := Build(from, w)
			if err != nil {
				t.Fatal(err)
			}
			got := twin.Services
			if len(got) != 1 || got[0].Reason != test.reason || got[0].Shared != (test.reason == "") || !strings.Contains(got[0].Message, test.lost) || (got[0].Message == "") != (test.lost == "") {
				t.Errorf("it is %+v", got)
			}
			if warned := says(twin, WarnPort); (warned == "") != (test.warned == "") || !strings.Contains(warned, test.warned) {
				t.Errorf("it warns of %q", warned)
			}
		})
	}
}

// Services that select the source by what its twin does not have.
func TestServicesOfTheSourceAlone(t *testing.T) {
	t.Run("r6 one version, by its own labels", func(t *testing.T) {
		from := source(t, shifting)
		if err := unstructured.SetNestedField(from.Object, "stable", "spec", "strategy", "canary", "stableMetadata", "labels", "role"); err != nil {
			t.Fatal(err)
		}
		w := wanted(t, `{replicas: 1}`)
		w.Services = []Service{
			{Name: "s", Selector: map[string]string{"app": labelsOfPods(from)["app"], "role": "stable"}}, {Name: "of no version", Selector: map[string]string{"app": labelsOfPods(from)["app"], "role": "other"}},
		}
		twin, err := Build(from, w)
		if err != nil {
			t.Fatal(err)
		}
		if got := twin.Services; len(got) != 1 || got[0].Reason != ReasonPinned || !strings.Contains(got[0].Message, "role") || labelsOfPods(twin.Object)["role"] != "" {
			t.Errorf("it is %+v, with labels %v", got, labelsOfPods(twin.Object))
		}
	})
	t.Run("p4 a label of twins that the source has", func(t *testing.T) {
		from := source(t, plain)
		if err := unstructured.SetNestedField(from.Object, "production", "spec", "template", "metadata", "labels", LabelRole); err != nil {
			t.Fatal(err)
		}
		w := wanted(t, `{replicas: 1}`)
		w.Services = []Service{{Name: "s", Selector: map[string]string{"app": labelsOfPods(from)["app"], LabelRole: "production"}}}
		twin, err := Build(from, w)
		if err != nil {
			t.Fatal(err)
		}
		if got := twin.Services; len(got) != 1 || got[0].Reason != ReasonOfTwins || labelsOfPods(twin.Object)[LabelRole] != RoleExperiment {
			t.Errorf("it is %+v, with labels %v", got, labelsOfPods(twin.Object))
		}
	})
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

// What may hurt the source is told of, and goes on: each alone, with the reason and what it is about.
func TestWarnings(t *testing.T) {
	headless := []Service{{Name: "db", Headless: true, Selector: map[string]string{"app": "db"}}}
	pod := func(fields string) string { return `{spec: {template: {spec: {` + fields + `}}}}` }
	port := pod(`containers: [{name: web, image: "web:1", ports: [{containerPort: 80, hostPort: 80}]}]`)
	probed := pod(`containers: [{name: web, image: "web:1", readinessProbe: {exec: {command: [a]}}}]`)
	lone := `{template: {spec: {containers: [{name: web, image: "web:2"}]}}}`
	behind := []Service{{Name: "web", Selector: map[string]string{"app": "web"}}}
	meshed := `{spec: {template: {metadata: {annotations: {dapr.io/enabled: "true"}}}}}`
	for name, test := range map[string]struct {
		source, change, override string
		services                 []Service
		reason, about            string
	}{
		"nothing":                   {source: plain},
		"d8 made to run once":       {source: plain, change: `{spec: {strategy: {type: Recreate}}}`, reason: WarnRunsOnce, about: "Recreate"},
		"r2 aborted":                {source: shifting, change: `{spec: {paused: false}, status: {abort: true}}`, reason: WarnNotServing, about: "aborted"},
		"r2 aborted no more":        {source: shifting, change: `{spec: {paused: false}, status: {abort: false}}`},
		"d4 paused":                 {source: plain, change: `{spec: {paused: true}}`, reason: WarnNotServing, about: "paused"},
		"as many":                   {source: plain, change: `{spec: {replicas: 3}}`, override: `{replicas: 3}`, reason: WarnNotSmaller, about: "replicas"},
		"a probe is lost":           {source: plain, change: probed, override: lone, services: behind, reason: WarnUnprobed, about: "Container web of the source"},
		"a probe nobody goes by":    {source: plain, change: probed, override: lone},
		"a probe that it keeps":     {source: plain, change: probed, override: `{minReadySeconds: 1}`, services: behind},
		"another probe":             {source: plain, change: probed, override: strings.Replace(lone, "}]", ", readinessProbe: {exec: {command: [b]}}}]", 1), services: behind},
		"fewer":                     {source: plain, change: `{spec: {replicas: 3}}`, override: `{replicas: 2}`},
		"s4 peers":                  {source: database, services: headless, reason: WarnPeerDiscovery, about: "db"},
		"s4 peers of another":       {source: database, override: `{serviceName: other}`, services: headless, reason: WarnPeerDiscovery, about: "db"},
		"s4 peers no more":          {source: database, override: `{template: {metadata: {labels: {app: other}}}}`, services: []Service{{Name: "db", Headless: true, Selector: map[string]string{"app": "db", "part": "primary"}}}, reason: WarnLabels, about: "(app)"},
		"a label more and one less": {source: plain, change: `{spec: {template: {metadata: {labels: {tier: front}}}}}`, override: `{template: {metadata: {labels: {tier: null, access: db, version: "2"}}}}`, reason: WarnLabels, about: "(access, tier)"},
		"a group of pods":           {source: plain, change: `{spec: {template: {metadata: {labels: {kueue.x-k8s.io/pod-group-name: all}}}}}`},
		"another version":           {source: plain, override: `{template: {metadata: {labels: {version: "2"}}}}`},
		"s4 peers by a Deployment":  {source: plain, services: []Service{{Name: "peers", Headless: true, Selector: map[string]string{"app": "web"}}}, reason: WarnPeerDiscovery, about: "peers"},
		"served while unready":      {source: plain, services: []Service{{Name: "eager", Unready: true, Selector: map[string]string{"app": "web"}}}, reason: WarnServedUnready, about: "Service eager"},
		"served by those near":      {source: plain, services: []Service{{Name: "near", Near: "externalTrafficPolicy: Local", Selector: map[string]string{"app": "web"}}}, reason: WarnUneven, about: "Service near sends requests to pods that are near alone, or first (spec.externalTrafficPolicy: Local)"},
		"r3 subsets of a mesh":      {source: shifting, change: `{spec: {paused: false, strategy: {canary: {trafficRouting: {istio: {destinationRule: {name: subsets}}}}}}}`, reason: WarnSubsets, about: "DestinationRule subsets"},
		"another's, unready":        {source: plain, override: `{template: {metadata: {labels: {app: other}}}}`, services: []Service{{Name: "eager", Unready: true, Selector: map[string]string{"app": "api"}}}, reason: WarnLabels, about: "(app)"},
		"s4 no headless Service":    {source: database, services: []Service{{Name: "db", Selector: map[string]string{"app": "db"}}}},
		"p2 a sidecar":              {source: plain, change: meshed, reason: WarnNotCopied, about: "annotation dapr.io/enabled of the source's pods is not copied"},
		"p2 another's sidecar":      {source: plain, change: strings.Replace(meshed, "dapr.io/enabled", "consul.hashicorp.com/connect-inject", 1), reason: WarnNotCopied, about: "consul.hashicorp.com/connect-inject"},
		"p2 a sidecar that it has":  {source: plain, change: meshed, override: `{template: {metadata: {annotations: {dapr.io/enabled: "true"}}}}`},
		"p2 no sidecar, by intent":  {source: plain, change: meshed, override: `{template: {metadata: {annotations: {dapr.io/enabled: null}}}}`},
		"p2 a sidecar as listed":    {source: plain, change: strings.Replace(meshed, "dapr.io/", "cni.projectcalico.org/other-", 1)},
		"p2 an address":             {source: plain, change: `{spec: {template: {metadata: {annotations: {cni.projectcalico.org/ipAddrs: "[]"}}}}}`, reason: WarnStaticAddress, about: "cni.projectcalico.org/ipAddrs"},
		"p5 anti-affinity":          {source: plain, change: pod(`affinity: {podAntiAffinity: {}}`), reason: WarnPlacement, about: "podAntiAffinity"},
		"p5 affinity of pods":       {source: plain, change: pod(`affinity: {podAffinity: {}}`), reason: WarnPlacement, about: "podAffinity"},
		"p5 affinity to nodes":      {source: plain, change: pod(`affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: Exists}]}]}}}`)},
		"p5 taken away":             {source: plain, change: pod(`affinity: {podAntiAffinity: {}}`), override: `{template: {spec: {affinity: null}}}`},
		"p5 spread":                 {source: plain, change: pod(`topologySpreadConstraints: [{topologyKey: zone, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway}]`), reason: WarnPlacement, about: "topologySpreadConstraints"},
		"p6 a volume":               {source: plain, change: pod(`volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]`), reason: WarnSharedVolume, about: "data"},
		"p7 a port of the node":     {source: plain, change: port, reason: WarnPlacement, about: "port 80"},
		"p7 the node's network":     {source: plain, change: pod(`hostNetwork: true`), reason: WarnPlacement, about: "network"},
		"p7 a node":                 {source: plain, change: pod(`nodeName: n1`), reason: WarnPlacement, about: "n1"},
		"p7 a device":               {source: plain, change: pod(`resourceClaims: [{name: gpu, resourceClaimName: gpu-0}]`), reason: WarnSharedVolume, about: "gpu-0"},
		"p7 devices of a template":  {source: plain, change: pod(`resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu-0}]`)},
		"p7 a name":                 {source: plain, change: pod(`hostname: a, subdomain: peers`), reason: WarnPeerDiscovery, about: "a.peers"},
		"p7 another name":           {source: plain, change: pod(`hostname: a, subdomain: peers`), override: `{template: {spec: {hostname: b}}}`},
		"p7 a name without a place": {source: plain, change: pod(`hostname: a`)},
		"o9 made by an operator":    {source: plain, change: `{metadata: {ownerReferences: [{apiVersion: v1, kind: Shop, name: shop, uid: x, controller: true}]}}`, reason: WarnManaged, about: "Shop shop"},
		"o9 owned by another":       {source: plain, change: `{metadata: {ownerReferences: [{apiVersion: v1, kind: Shop, name: shop, uid: x}]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			from := source(t, test.source)
			overlay(from.Object, object(t, given(test.change)))
			w := wanted(t, given(test.override))
			w.Services, w.Annotations = test.services, []string{"cni.projectcalico.org/"}
			twin, err := Build(from, w)
			if err != nil {
				t.Fatal(err)
			}
			if said := says(twin, test.reason); len(twin.Warnings) > 1 || (len(twin.Warnings) == 0) != (test.reason == "") || !strings.Contains(said, test.about) {
				t.Errorf("it says %+v", twin.Warnings)
			}
		})
	}
	t.Run("all of them, the worst first", func(t *testing.T) {
		from := source(t, tracked)
		overlay(from.Object, object(t, `{spec: {strategy: {type: Recreate}, template: {metadata: {annotations: {cni.projectcalico.org/ipAddrs: "[]"}}, spec: {affinity: {podAntiAffinity: {}}, volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]}}}}`))
		w := wanted(t, `{template: {spec: {containers: [{name: web, image: "web:1", ports: [{containerPort: 80, hostPort: 80}]}]}}}`)
		w.Replicas, w.Annotations, w.AllowPrivileges = ptr.To[int32](3), []string{"cni.projectcalico.org/"}, true
		twin, err := Build(from, w)
		if err != nil {
			t.Fatal(err)
		}
		var reasons []string
		for _, w := range twin.Warnings {
			reasons = append(reasons, w.Reason)
		}
		want := []string{WarnSharedVolume, WarnRunsOnce, WarnStaticAddress, WarnManaged, WarnNotServing, WarnPlacement, WarnNotSmaller}
		if diff := cmp.Diff(want, slices.Compact(reasons)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
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

// Numbers that ids are made of, and volumes that begin with data.
func TestWarningsOfSets(t *testing.T) {
	for override, same := range map[string]bool{
		`{}`: false, `{ordinals: {start: 5}}`: true, `{ordinals: {start: 7}}`: true, `{ordinals: {start: 8}}`: false,
		`{ordinals: {start: 4}}`: false, `{ordinals: {start: 4}, replicas: 2}`: true, `{ordinals: {start: 6}, replicas: 0}`: false,
	} {
		t.Run("s6 "+override, func(t *testing.T) {
			if twin := build(t, database, wanted(t, override)); (says(twin, WarnOrdinals) != "") != same {
				t.Errorf("it says %v", twin.Warnings)
			}
		})
	}
	t.Run("s6 a Deployment", func(t *testing.T) {
		if twin := build(t, tracked, wanted(t, `{}`)); says(twin, WarnOrdinals) != "" {
			t.Errorf("it says %v", twin.Warnings)
		}
	})
	cloned := strings.Replace(database, "volumeName: pv-7", "dataSource: {kind: VolumeSnapshot, name: nightly}", 1)
	t.Run("s3 a clone", func(t *testing.T) {
		if said := says(build(t, cloned, wanted(t, `{}`)), WarnSourceData); !strings.Contains(said, "volumeClaimTemplate data begin with the data of VolumeSnapshot nightly") {
			t.Errorf("it says %q", said)
		}
	})
	t.Run("s3 volumes of its own", func(t *testing.T) {
		empty := wanted(t, `{volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}`)
		if said := says(build(t, cloned, empty), WarnSourceData); said != "" {
			t.Errorf("it says %q", said)
		}
	})
}

// A volume of one pod alone is refused, unless the override puts another in its place; others are warned of.
func TestClaims(t *testing.T) {
	from := strings.Replace(tracked, "      serviceAccountName: web\n", "      serviceAccountName: web\n      volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]\n", 1)
	const own = `{template: {spec: {volumes: [{name: data, persistentVolumeClaim: {claimName: own}}]}}}`
	for name, test := range map[string]struct{ mode, override, refused, warned string }{
		"p6 one for one node":       {"ReadWriteOnce", `{}`, "", "data (ReadWriteOnce)"},
		"p6 one for one pod":        {"ReadWriteOncePod", `{}`, "PersistentVolumeClaim data is for one pod alone", ""},
		"p6 with another volume":    {"ReadWriteOncePod", `{template: {spec: {volumes: [{name: data, emptyDir: {}}]}}}`, "", ""},
		"p6 with one of the twin's": {"ReadWriteOncePod", own, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := wanted(t, test.override)
			w.Claims, w.AllowPrivileges = map[string][]string{"data": {test.mode}, "own": {"ReadWriteOncePod"}}, test.override == own
			twin, err := Build(source(t, from), w)
			if test.refused != "" {
				refused(t, err, test.refused)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if said := says(twin, WarnSharedVolume); (said == "") != (test.warned == "") || !strings.Contains(said, test.warned) {
				t.Errorf("it says %q", said)
			}
		})
	}
	t.Run("p6 which are looked at", func(t *testing.T) {
		template, _, _ := unstructured.NestedMap(source(t, from).Object, "spec", "template")
		if diff := cmp.Diff([]string{"data"}, Claims(template)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// d5: a source that somebody, or an autoscaler, has scaled to zero leaves the twin alone behind their Services.
func TestSourceWithoutPods(t *testing.T) {
	with := func(replicas int64) *unstructured.Unstructured {
		from := source(t, plain)
		_ = unstructured.SetNestedField(from.Object, replicas, "spec", "replicas")
		return from
	}
	for name, test := range map[string]struct {
		from, now *unstructured.Unstructured
		override  string
		rollout   string
		alone     bool
	}{
		"scaled to zero":         {from: with(0), override: `{}`, alone: true},
		"with pods":              {from: with(3), override: `{}`},
		"a twin without pods":    {from: with(0), override: `{replicas: 0}`},
		"pinned, now without":    {from: with(3), now: with(0), override: `{}`, alone: true},
		"pinned, now with pods":  {from: with(0), now: with(3), override: `{}`},
		"of a Rollout with pods": {from: with(0), override: `{}`, rollout: "front"},
	} {
		t.Run(name, func(t *testing.T) {
			w := wanted(t, test.override)
			w.Now, w.Rollout, w.Services = test.now, test.rollout, []Service{{Name: "web", Selector: map[string]string{"app": "web"}}, {Name: "other", Selector: map[string]string{"app": "other"}}}
			twin, err := Build(test.from, w)
			if err != nil {
				t.Fatal(err)
			}
			if said := says(twin, WarnAlone); (said != "") != test.alone || test.alone && !strings.Contains(said, "Service web ") || strings.Contains(said, "other") {
				t.Errorf("it says %q", said)
			}
		})
	}
}

// What is dangerous beside a source is so beside what it is now, whatever it was when the twin was pinned.
func TestWarningsBesideTheSourceOfNow(t *testing.T) {
	const claims = `{spec: {template: {spec: {volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]}}}}`
	for reason, test := range map[string]struct{ source, is, was, override string }{
		WarnNotSmaller:   {plain, `{spec: {replicas: 2}}`, `{spec: {replicas: 3}}`, `{replicas: 2}`},
		WarnRunsOnce:     {plain, `{spec: {strategy: {type: Recreate}}}`, `{spec: {strategy: {type: RollingUpdate}}}`, `{}`},
		WarnSubsets:      {shifting, `{spec: {strategy: {canary: {trafficRouting: {istio: {destinationRule: {name: subsets}}}}}}}`, `{}`, `{}`},
		WarnOrdinals:     {database, `{spec: {ordinals: {start: 0}}}`, `{}`, `{ordinals: {start: 0}}`},
		WarnSharedVolume: {plain, claims, `{}`, `{template: {spec: {volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]}}}`},
	} {
		for _, dangerous := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s %v", reason, dangerous), func(t *testing.T) {
				from, w := source(t, test.source), wanted(t, test.override)
				w.Now, w.AllowPrivileges = from.DeepCopy(), true
				was, is := test.was, test.is
				if !dangerous {
					was, is = is, was
				}
				overlay(from.Object, object(t, was))
				overlay(w.Now.Object, object(t, is))
				twin, err := Build(from, w)
				if err != nil {
					t.Fatal(err)
				}
				if said := says(twin, reason); (said != "") != dangerous {
					t.Errorf("it says %+v", twin.Warnings)
				}
			})
		}
	}
}

// A list without end, of which each element is compared with each of another, is refused by its path.
func TestLongLists(t *testing.T) {
	env := func(n int) string {
		return "{name: web, image: x, env: [" + strings.Repeat("{name: a, value: b}, ", n-1) + "{name: a, value: b}]}"
	}
	override := func(n int) string { return "{template: {spec: {containers: [" + env(n) + "]}}}" }
	for _, strategy := range []Strategy{Replace, Strategic} {
		w := wanted(t, override(mostElements))
		w.Strategy = strategy
		if _, err := Build(source(t, plain), w); err != nil {
			t.Errorf("%s: as many as there may be: %v", strategy, err)
		}
		w = wanted(t, override(mostElements+1))
		w.Strategy = strategy
		_, err := Build(source(t, plain), w)
		refused(t, err, "overrideSpec.template.spec.containers[0].env: a list of a twin has 1000 elements at most")
	}
	from := source(t, plain)
	from.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"] = object(t, "{containers: ["+env(mostElements+1)+"]}")
	_, err := Build(from, wanted(t, "{}"))
	refused(t, err, "Deployment web has more than 1000 elements in spec.template.spec.containers[0].env")
}

// A source that is a template for a Rollout may not be what serves.
func TestSourceOfRollout(t *testing.T) {
	for name, rollout := range map[string]string{"r13 of a Rollout": "front", "r13 of none": ""} {
		t.Run(name, func(t *testing.T) {
			w := wanted(t, `{}`)
			w.Rollout = rollout
			if said := says(build(t, tracked, w), WarnReferred); (said == "") != (rollout == "") || !strings.Contains(said, rollout) {
				t.Errorf("it says %q", said)
			}
		})
	}
}

// Each of these gives the pods what the source's do not have.
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
		one(`env: [{name: P, valueFrom: {secretKeyRef: {name: db, key: p}}}]`):                                                                        "Secret db, key p",
		one(`envFrom: [{secretRef: {name: db}}]`):                                                                                                     "Secret db",
		one(`ports: [{containerPort: 80, hostPort: 80}]`):                                                                                             "port 80 of the node",
	} {
		t.Run("o3 "+says, func(t *testing.T) {
			w := wanted(t, override)
			_, err := Build(source(t, tracked), w)
			refused(t, err, says)
			w.AllowPrivileges = true
			if _, err := Build(source(t, tracked), w); err != nil {
				t.Errorf("where that is allowed: %v", err)
			}
		})
	}
}

// Beside what this source has.
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
		"another group":              {`{securityContext: {runAsUser: 1000, runAsGroup: 1000}}`, `{securityContext: {runAsGroup: 1001}}`, "primary group 1001"},
		"the group of the image":     {`{securityContext: {runAsUser: 1000, runAsGroup: 1000}}`, `{securityContext: {runAsGroup: null}}`, "primary group that the image says"},
		"groups of the image":        {`{securityContext: {supplementalGroupsPolicy: Strict}}`, `{securityContext: {supplementalGroupsPolicy: Merge}}`, "the groups that the image gives its user"},
		"no profile of AppArmor":     {`{securityContext: {appArmorProfile: {type: Localhost, localhostProfile: x}}}`, `{securityContext: {appArmorProfile: null}}`, "AppArmor RuntimeDefault"},
		"a profile instead of none":  {`{securityContext: {appArmorProfile: {type: Unconfined}}}`, `{securityContext: {appArmorProfile: {type: RuntimeDefault}}}`, ""},
		"other system calls":         {`{securityContext: {seccompProfile: {type: Localhost, localhostProfile: x}}}`, `{securityContext: {seccompProfile: {type: RuntimeDefault, localhostProfile: null}}}`, "the system calls of RuntimeDefault"},
		"fewer system calls":         {`{securityContext: {seccompProfile: {type: Unconfined}}}`, `{securityContext: {seccompProfile: {type: RuntimeDefault}}}`, ""},
		"files of another group":     {`{securityContext: {supplementalGroups: [7]}}`, `{securityContext: {fsGroup: 7}}`, "the files of volumes, which are given to group 7"},
		"files of the same group":    {`{securityContext: {fsGroup: 7, fsGroupChangePolicy: OnRootMismatch}}`, `{securityContext: {runAsGroup: 7}}`, ""},
		"files of it at each start":  {`{securityContext: {fsGroup: 7, fsGroupChangePolicy: OnRootMismatch}}`, `{securityContext: {fsGroupChangePolicy: Always}}`, "the files of volumes, which are given to group 7 at each start"},
		"files of it once":           {`{securityContext: {fsGroup: 7}}`, `{securityContext: {fsGroupChangePolicy: OnRootMismatch}}`, ""},
		"no label of SELinux":        {`{securityContext: {seLinuxOptions: {type: x}}}`, `{securityContext: {seLinuxOptions: null}}`, "the SELinux label that the node gives"},
	} {
		t.Run("o3 "+name, func(t *testing.T) {
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

// Who uses one key of a Secret may not have its others.
func TestKeysOfSecrets(t *testing.T) {
	key := func(name string) string {
		return `env: [{name: K, valueFrom: {secretKeyRef: {name: db, key: ` + name + `}}}]`
	}
	pod := func(container, volume string) string {
		volumes := ""
		if volume != "" {
			volumes = `, volumes: [{name: v, ` + volume + `}]`
		}
		return `{containers: [{name: web, image: "web:1", ` + container + `}]` + volumes + `}`
	}
	const (
		all      = `envFrom: [{secretRef: {name: db}}]`
		volume   = `secret: {secretName: db}`
		oneIn    = `secret: {secretName: db, items: [{key: user, path: elsewhere}]}`
		twoIn    = `secret: {secretName: db, items: [{key: user, path: a}, {key: password, path: b}]}`
		oneOf    = `projected: {sources: [{secret: {name: db, items: [{key: user, path: u}]}}]}`
		allOf    = `projected: {sources: [{secret: {name: db}}]}`
		password = "Secret db, key password"
	)
	for name, test := range map[string]struct{ source, twin, says string }{
		"the same key":            {pod(key("user"), ""), pod(key("user"), ""), ""},
		"the same by a volume":    {pod(key("user"), ""), pod("stdin: true", oneIn), ""},
		"the same, projected":     {pod("stdin: true", oneIn), pod("stdin: true", oneOf), ""},
		"another key":             {pod(key("user"), ""), pod(key("password"), ""), password},
		"another by a volume":     {pod("stdin: true", oneIn), pod("stdin: true", twoIn), password},
		"another, not projected":  {pod("stdin: true", oneOf), pod(key("password"), ""), password},
		"all by variables":        {pod(key("user"), ""), pod(all, ""), "Secret db"},
		"all by a volume":         {pod(key("user"), oneIn), pod("stdin: true", volume), "Secret db"},
		"all, projected":          {pod("stdin: true", oneOf), pod("stdin: true", allOf), "Secret db"},
		"one of all":              {pod(all, ""), pod(key("password"), ""), ""},
		"one of all in a volume":  {pod("stdin: true", volume), pod(key("password"), ""), ""},
		"one of all projected":    {pod("stdin: true", allOf), pod("stdin: true", twoIn), ""},
		"one of another of a key": {pod(strings.Replace(all, "db", "db2", 1), ""), pod(key("user"), ""), "Secret db, key user"},
	} {
		from := source(t, plain)
		_ = unstructured.SetNestedMap(from.Object, object(t, test.source), "spec", "template", "spec")
		_, err := Build(from, wanted(t, `{template: {spec: `+test.twin+`}}`))
		if test.says == "" && err != nil || test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)) {
			t.Errorf("%s: it says %v", name, err)
		}
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
	for _, claim := range []string{`dataSource: {kind: PersistentVolumeClaim, name: other}`, `volumeName: pv-1`, `selector: {matchLabels: {other: "yes"}}`, `storageClassName: ""`} {
		field, _, _ := strings.Cut(claim, ":")
		t.Run("s3 "+field, func(t *testing.T) {
			override := `{volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, ` + claim + `}}]}`
			_, err := Build(source(t, database), wanted(t, override))
			refused(t, err, field+" ")
		})
	}
}

// Nor by what drivers read off their labels and annotations, unless the source's have them.
func TestDescribedData(t *testing.T) {
	const claim = `{volumeClaimTemplates: [{metadata: {name: data, %s}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}`
	from := source(t, database)
	overlay(from.Object, object(t, `{spec: `+fmt.Sprintf(claim, `labels: {path: ours}, annotations: {trident.netapp.io/cloneFromPVC: ours}`)+`}`))
	for described, problem := range map[string]string{
		`annotations: {trident.netapp.io/cloneFromPVC: theirs}`:                       "annotation trident.netapp.io/cloneFromPVC ",
		`annotations: {trident.netapp.io/cloneFromPVC: ours, nfs.io/storage-path: x}`: "annotation nfs.io/storage-path ",
		`labels: {path: theirs}`: "label path ",
		`labels: {path: ours}, annotations: {trident.netapp.io/cloneFromPVC: ours}`: "",
	} {
		t.Run("s3 "+described, func(t *testing.T) {
			_, err := Build(from, wanted(t, fmt.Sprintf(claim, described)))
			if problem != "" {
				refused(t, err, problem)
			} else if err != nil {
				t.Error(err)
			}
		})
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
	r := random.New(t, 0)
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
	for range *random.Cases {
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
			t.Fatalf("%v gives %v", override, more)
		}
		selector, _, _ := unstructured.NestedStringMap(twin.Object.Object, "spec", "selector", "matchLabels")
		if len(selector) != 1 || !selects(selector, labelsOf(template)) || !selects(w.Services[0].Selector, labelsOf(template)) || !twin.Services[0].Shared {
			t.Fatalf("%v gives labels %v", override, labelsOf(template))
		}
	}
	if built < *random.Cases/10 {
		t.Errorf("only %d were built", built)
	}
}
