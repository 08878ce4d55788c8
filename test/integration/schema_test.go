package integration_test

import (
	"encoding/json"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
)

// ask has the API server validate an object, and store nothing.
func ask(kind, spec string) error {
	GinkgoHelper()
	u := &unstructured.Unstructured{}
	Expect(yaml.Unmarshal([]byte("metadata: {name: asked}\nspec: "+spec), &u.Object)).To(Succeed())
	u.SetAPIVersion(v1alpha1.GroupVersion.String())
	u.SetKind(kind)
	if kind == "Experiment" {
		u.SetNamespace("default")
	}
	return hub.client.Create(background(), u, client.DryRunAll, client.FieldValidation("Strict"))
}

// The specs of the tables: one target, given whole or by its cluster or components.

func targets(list string) string {
	return "{targets: [" + list + "], workflow: {template: x}}"
}

func withCluster(cluster string) string {
	return targets("{name: a, cluster: " + cluster + ", components: [{app: x}]}")
}

// talos is what a Talos cluster is made of: templates of two kinds.
func talos(cluster, machines string) string {
	template := func(of string) string {
		return "{apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: Docker" + of + "Template, name: x}"
	}
	return "{kubernetesVersion: v1.34.1, talosVersion: v1.11, controlPlanes: 3, infrastructure: {cluster: " + template(cluster) + ", machines: " + template(machines) + "}}"
}

func withComponents(components string) string {
	return targets("{name: a, cluster: {type: hub}, components: " + components + "}")
}

func withWorkflow(workflow string) string {
	return "{targets: [{name: a, cluster: {type: hub}, components: [{app: x}]}], workflow: " + workflow + "}"
}

func named(names ...string) string {
	list := make([]string, 0, len(names))
	for _, name := range names {
		list = append(list, fmt.Sprintf("{name: %q, cluster: {type: hub}, components: [{app: x}]}", name))
	}
	return targets(strings.Join(list, ", "))
}

func depending(depends string) string {
	return targets("{name: a, cluster: {type: hub}, components: [{app: x}], depends: " + depends + "}, " +
		"{name: b, cluster: {type: hub}, components: [{app: x}]}")
}

func numbered(n int) []string {
	names := make([]string, 0, n)
	for i := range n {
		names = append(names, fmt.Sprintf("t%d", i))
	}
	return names
}

func params(n int) string {
	list := make([]string, 0, n)
	for i := range n {
		list = append(list, fmt.Sprintf("p%d: v", i))
	}
	return "{" + strings.Join(list, ", ") + "}"
}

var _ = Describe("The schema", func() {
	DescribeTable("refuses an Experiment and names the field",
		func(spec string, words ...string) {
			err := ask("Experiment", spec)
			Expect(err).To(HaveOccurred(), "it was accepted")
			Expect(apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)).To(BeTrue(), err.Error())
			for _, word := range words {
				Expect(err.Error()).To(ContainSubstring(word))
			}
		},
		Entry("no targets", "{targets: [], workflow: {template: x}}", "spec.targets"),
		Entry("targets left out", "{workflow: {template: x}}", "spec.targets"),
		Entry("33 targets", named(numbered(33)...), "spec.targets"),
		Entry("two targets of one name", named("a", "a"), "spec.targets[1]", "Duplicate"),
		Entry("a target without a name", targets("{cluster: {type: hub}, components: [{app: x}]}"), "spec.targets[0].name"),
		Entry("an empty target name", named(""), "spec.targets[0].name"),
		Entry("a target name that a parameter has", named("experiment"), "spec.targets[0].name", "experiment-name"),
		Entry("a target name with capitals", named("App"), "spec.targets[0].name"),
		Entry("a target name with a dot", named("a.b"), "spec.targets[0].name"),
		Entry("a target name with a leading digit", named("1a"), "spec.targets[0].name"),
		Entry("a target name with a trailing dash", named("a-"), "spec.targets[0].name"),
		Entry("a target name of 64 characters", named(strings.Repeat("a", 64)), "spec.targets[0].name"),
		Entry("no cluster", targets("{name: a, components: [{app: x}]}"), "spec.targets[0].cluster"),
		Entry("no cluster type", withCluster("{}"), "spec.targets[0].cluster.type"),
		Entry("an unknown cluster type", withCluster("{type: eks}"), "spec.targets[0].cluster.type", "eks"),
		Entry("a region for a zone", withCluster("{type: gke, zone: us-central1}"), "spec.targets[0].cluster.zone", "us-central1"),
		Entry("a hub with a zone", withCluster("{type: hub, zone: us-central1-a}"), "spec.targets[0].cluster", "hub", "zone"),
		Entry("a hub with nodes", withCluster("{type: hub, nodeCount: 1}"), "spec.targets[0].cluster", "nodeCount"),
		Entry("a hub with a machine type", withCluster("{type: hub, machineType: x}"), "spec.targets[0].cluster", "machineType"),
		Entry("a hub that is preemptible", withCluster("{type: hub, preemptible: false}"), "spec.targets[0].cluster", "preemptible"),
		Entry("a hub with a disk", withCluster("{type: hub, diskSizeGb: 50}"), "spec.targets[0].cluster", "diskSizeGb"),
		Entry("an existing cluster without a kubeconfig", withCluster("{type: existing}"), "spec.targets[0].cluster", "existing", "kubeconfigSecret"),
		Entry("an existing cluster with nodes", withCluster("{type: existing, kubeconfigSecret: {name: x}, nodeCount: 1}"), "spec.targets[0].cluster", "existing", "nodeCount"),
		Entry("a Cluster that is not named", withCluster("{type: clusterRef}"), "spec.targets[0].cluster", "clusterRef"),
		Entry("a Cluster without a name", withCluster("{type: clusterRef, clusterRef: {}}"), "spec.targets[0].cluster.clusterRef.name"),
		Entry("a Cluster with an empty name", withCluster(`{type: clusterRef, clusterRef: {name: ""}}`), "spec.targets[0].cluster.clusterRef.name"),
		Entry("a Cluster of another namespace", withCluster("{type: clusterRef, clusterRef: {name: x, namespace: y}}"), "spec.targets[0].cluster.clusterRef.namespace"),
		Entry("a Cluster by a path", withCluster("{type: clusterRef, clusterRef: {name: y/x}}"), "spec.targets[0].cluster.clusterRef.name"),
		Entry("a Cluster with a zone", withCluster("{type: clusterRef, clusterRef: {name: x}, zone: us-central1-a}"), "spec.targets[0].cluster", "clusterRef", "zone"),
		Entry("a Cluster with nodes", withCluster("{type: clusterRef, clusterRef: {name: x}, nodeCount: 1}"), "spec.targets[0].cluster", "clusterRef", "nodeCount"),
		Entry("a Cluster with a machine type", withCluster("{type: clusterRef, clusterRef: {name: x}, machineType: m1}"), "spec.targets[0].cluster", "machineType"),
		Entry("a Cluster that is preemptible", withCluster("{type: clusterRef, clusterRef: {name: x}, preemptible: false}"), "spec.targets[0].cluster", "preemptible"),
		Entry("a Cluster with a disk", withCluster("{type: clusterRef, clusterRef: {name: x}, diskSizeGb: 50}"), "spec.targets[0].cluster", "diskSizeGb"),
		Entry("a Cluster with a kubeconfig", withCluster("{type: clusterRef, clusterRef: {name: x}, kubeconfigSecret: {name: x}}"), "spec.targets[0].cluster", "kubeconfigSecret"),
		Entry("another cluster that names a Cluster", withCluster("{type: gke, clusterRef: {name: x}}"), "spec.targets[0].cluster", "clusterRef"),
		Entry("a virtual cluster with machines", withCluster("{type: vcluster, machineType: x}"), "spec.targets[0].cluster", "vcluster", "machineType"),
		Entry("a virtual cluster of no version", withCluster("{type: vcluster, vcluster: {chartVersion: ../x}}"), "spec.targets[0].cluster.vcluster.chartVersion"),
		Entry("another cluster with values of a virtual one", withCluster("{type: hub, vcluster: {values: x}}"), "spec.targets[0].cluster", "vcluster"),
		Entry("another cluster with a kubeconfig", withCluster("{type: gke, kubeconfigSecret: {name: x}}"), "spec.targets[0].cluster", "existing", "kubeconfigSecret"),
		Entry("a privileged namespace on the hub", targets("{name: a, cluster: {type: hub}, components: [{app: x}], podSecurity: privileged}"), "podSecurity", "hub"),
		Entry("a namespace on the hub", targets("{name: a, cluster: {type: hub}, components: [{app: x}], namespace: web}"), "spec.targets[0]", "namespace", "hub"),
		Entry("a namespace on an existing cluster", targets("{name: a, cluster: {type: existing, kubeconfigSecret: {name: x}}, components: [{app: x}], namespace: web}"), "spec.targets[0]", "namespace", "existing"),
		Entry("a namespace on a Cluster", targets("{name: a, cluster: {type: clusterRef, clusterRef: {name: x}}, components: [{app: x}], namespace: web}"), "spec.targets[0]", "namespace", "clusterRef"),
		Entry("a namespace that is the cluster's own", targets("{name: a, cluster: {type: gke}, components: [{app: x}], namespace: kube-system}"), "spec.targets[0].namespace", "kube-"),
		Entry("a namespace that is no name", targets("{name: a, cluster: {type: gke}, components: [{app: x}], namespace: a.b}"), "spec.targets[0].namespace"),
		Entry("an unknown level of pod security", targets("{name: a, cluster: {type: gke}, components: [{app: x}], podSecurity: high}"), "podSecurity"),
		Entry("another cluster with what Talos is made of", withCluster("{type: gke, talos: "+talos("Cluster", "Machine")+"}"), "spec.targets[0].cluster", "talos"),
		Entry("a Talos cluster with a zone", withCluster("{type: talos, zone: us-central1-a, talos: "+talos("Cluster", "Machine")+"}"), "spec.targets[0].cluster", "talos.infrastructure", "zone"),
		Entry("a Talos cluster of machines", withCluster("{type: talos, talos: "+talos("Machine", "Machine")+"}"), "cluster.talos.infrastructure.cluster", "ClusterTemplate"),
		Entry("Talos machines of clusters", withCluster("{type: talos, talos: "+talos("Cluster", "Cluster")+"}"), "cluster.talos.infrastructure.machines", "MachineTemplate"),
		Entry("a Talos cluster of something else", withCluster("{type: talos, talos: {kubernetesVersion: v1.34.1, infrastructure: {"+
			"cluster: {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleClusterTemplate, name: x}, machines: {apiVersion: v1, kind: MachineTemplate, name: x}}}}"),
			"cluster.talos.infrastructure.cluster.apiVersion", "cluster.talos.infrastructure.machines.apiVersion"),
		Entry("Talos of no version", withCluster("{type: talos, talos: {kubernetesVersion: latest}}"), "cluster.talos.kubernetesVersion"),
		Entry("an unknown policy of Applications", targets("{name: a, cluster: {type: hub}, components: [{app: x}], applicationPolicy: PerSource}"), "applicationPolicy"),
		Entry("an unknown toleration", withComponents("[{app: x, tolerations: [Missing]}]"), "tolerations[0]"),
		Entry("tolerations of one of several in an Application", withComponents("[{app: x}, {app: z, tolerations: [Degraded]}]"), "tolerations", "PerComponent"),
		Entry("a kubeconfig without a name", withCluster("{type: existing, kubeconfigSecret: {key: x}}"), "spec.targets[0].cluster.kubeconfigSecret.name"),
		Entry("a kubeconfig whose key is none", withCluster("{type: existing, kubeconfigSecret: {name: x, key: a/b}}"), "spec.targets[0].cluster.kubeconfigSecret.key"),
		Entry("no nodes", withCluster("{type: gke, nodeCount: 0}"), "spec.targets[0].cluster.nodeCount"),
		Entry("too many nodes", withCluster("{type: gke, nodeCount: 1001}"), "spec.targets[0].cluster.nodeCount"),
		Entry("a disk that is too small", withCluster("{type: gke, diskSizeGb: 9}"), "spec.targets[0].cluster.diskSizeGb"),
		Entry("an unknown cluster field", withCluster("{type: gke, region: x}"), "spec.targets[0].cluster.region"),
		Entry("no components", withComponents("[]"), "spec.targets[0].components"),
		Entry("components left out", targets("{name: a, cluster: {type: hub}}"), "spec.targets[0].components"),
		Entry("33 components", withComponents("["+strings.Repeat("{app: x}, ", 32)+"{app: x}]"), "spec.targets[0].components"),
		Entry("an unknown kind of component", withComponents("[{foo: nginx}]"), "spec.targets[0].components[0].foo"),
		Entry("an empty reference", withComponents("[{}]"), "spec.targets[0].components[0]", "app, workflow and config"),
		Entry("app and workflow", withComponents("[{app: x, workflow: x}]"), "spec.targets[0].components[0]", "app, workflow and config"),
		Entry("app and config", withComponents("[{app: x, config: x}]"), "spec.targets[0].components[0]", "app, workflow and config"),
		Entry("workflow and config", withComponents("[{workflow: x, config: x}]"), "spec.targets[0].components[0]", "app, workflow and config"),
		Entry("an empty component name", withComponents(`[{app: ""}]`), "spec.targets[0].components[0].app"),
		Entry("a component name with a slash", withComponents("[{app: a/b}]"), "spec.targets[0].components[0].app"),
		Entry("a param that is no string", withComponents("[{app: x, params: {number: 1}}]"), "spec.targets[0].components[0].params.number"),
		Entry("65 params", withComponents("[{app: x, params: "+params(65)+"}]"), "spec.targets[0].components[0].params"),
		Entry("a param that is too long", withComponents("[{app: x, params: {long: "+strings.Repeat("v", 4097)+"}}]"), "spec.targets[0].components[0].params"),
		Entry("depending on itself", depending("[a]"), "spec.targets", "depends", "itself"),
		Entry("depending on an unknown target", depending("[z]"), "spec.targets", "depends"),
		Entry("depending twice on one target", depending("[b, b]"), "spec.targets[0].depends[1]", "Duplicate"),
		Entry("an unknown transport", targets("{name: a, cluster: {type: hub}, components: [{app: x}], observability: {transport: carrier-pigeon}}"),
			"spec.targets[0].observability.transport"),
		Entry("credentials that are no Secret", targets("{name: a, cluster: {type: hub}, components: [{app: x}], observability: {credentialsSecret: A_B}}"), "spec.targets[0].observability.credentialsSecret"),
		Entry("no workflow", "{targets: [{name: a, cluster: {type: hub}, components: [{app: x}]}]}", "spec.workflow"),
		Entry("no template", withWorkflow("{}"), "spec.workflow.template"),
		Entry("an empty template", withWorkflow(`{template: ""}`), "spec.workflow.template"),
		Entry("a template that is no name", withWorkflow("{template: Not_A_Name}"), "spec.workflow.template"),
		Entry("an unknown completion", withWorkflow("{template: x, completion: {mode: never}}"), "spec.workflow.completion.mode"),
		Entry("no days to live", withWorkflow("{template: x}, ttlDays: 0"), "spec.ttlDays"),
		Entry("366 days to live", withWorkflow("{template: x}, ttlDays: 366"), "spec.ttlDays"),
		Entry("a time to live after the verdict in days", withWorkflow("{template: x}, ttlAfterFinished: 1d"), "spec.ttlAfterFinished"),
		Entry("a time to live after the verdict that no program can read", withWorkflow("{template: x}, ttlAfterFinished: 9999999h"), "spec.ttlAfterFinished"),
		Entry("a deadline of deletion in seconds without a unit", withWorkflow("{template: x}, deletion: {deadline: \"90\"}"), "spec.deletion.deadline"),
		Entry("a deadline of deletion that lets nothing go", withWorkflow("{template: x}, deletion: {deadline: 59s}"), "at least 1m"),
		Entry("a deadline of deletion that keeps a cluster for days", withWorkflow("{template: x}, deletion: {deadline: 25h}"), "at most 24h"),
		Entry("an unknown policy of deletion", withWorkflow("{template: x}, deletion: {policy: Orphan}"), "spec.deletion.policy"),
		Entry("a deadline of progress in days", withWorkflow("{template: x}, progressDeadline: {clusters: 1d}"), "spec.progressDeadline.clusters"),
		Entry("a negative time to live after the verdict", withWorkflow("{template: x}, ttlAfterFinished: -1h"), "spec.ttlAfterFinished"),
		Entry("a time to live of a target in days", targets("{name: a, cluster: {type: hub}, components: [{app: x}], ttlAfterFinished: 1d}"), "spec.targets[0].ttlAfterFinished"),
		Entry("a target that is to go before one that depends on it and stays", targets("{name: a, cluster: {type: hub}, components: [{app: x}], ttlAfterFinished: 1h}, "+
			"{name: b, cluster: {type: hub}, components: [{app: x}], depends: [a]}"), "spec.targets", "ttlAfterFinished", "depend on it"),
		Entry("an unknown field", withWorkflow("{template: x}, series: y"), "spec.series"),
		Entry("a long description", withWorkflow("{template: x}, description: "+strings.Repeat("d", 1025)), "spec.description"),
	)

	DescribeTable("accepts an Experiment",
		func(spec string) { Expect(ask("Experiment", spec)).To(Succeed()) },
		Entry("of one target", named("a")),
		Entry("of 32 targets", named(numbered(32)...)),
		Entry("with the longest target name", named(strings.Repeat("a", 63))),
		Entry("with every field of a cluster", withCluster("{type: gke, zone: us-east1-b, nodeCount: 3, machineType: m, preemptible: true, diskSizeGb: 10}")),
		Entry("with a privileged namespace", targets("{name: a, cluster: {type: gke}, components: [{app: x}], podSecurity: privileged}")),
		Entry("with a namespace of its choice", targets("{name: a, cluster: {type: gke}, components: [{app: x}], namespace: web}")),
		Entry("with a virtual cluster", withCluster("{type: vcluster, vcluster: {chartVersion: 0.29.0, values: \"sync: {}\"}}")),
		Entry("with an existing cluster", withCluster("{type: existing, kubeconfigSecret: {name: x}}")),
		Entry("with a Cluster", withCluster("{type: clusterRef, clusterRef: {name: x.y}}")),
		Entry("with a Talos cluster", withCluster("{type: talos, nodeCount: 3, talos: "+talos("Cluster", "Machine")+"}")),
		Entry("with a Talos cluster that the design has, which a condition asks more of", withCluster("{type: talos, nodeCount: 3}")),
		Entry("with every kind of component", withComponents("[{app: x}, {workflow: x}, {config: x.y, params: {a.b: c}}]")),
		Entry("with dependencies", depending("[b]")),
		Entry("with a tolerant component alone", withComponents("[{app: x, tolerations: [OutOfSync, Degraded]}]")),
		Entry("with a tolerant component among others",
			targets("{name: a, cluster: {type: hub}, applicationPolicy: PerComponent, components: [{app: x}, {app: z, tolerations: [OutOfSync]}]}")),
		Entry("with a cycle, which a condition names", targets("{name: a, cluster: {type: hub}, components: [{app: x}], depends: [b]}, "+
			"{name: b, cluster: {type: hub}, components: [{app: x}], depends: [a]}")),
		Entry("with every deadline", withWorkflow("{template: x}, deletion: {deadline: 1h, policy: Block}, progressDeadline: {clusters: 30m, applications: 1h30m, workflow: 2h}")),
		Entry("terminated", withWorkflow("{template: x}, terminate: true")),
		Entry("with a time to live after the verdict", withWorkflow("{template: x}, ttlAfterFinished: 1h30m")),
		Entry("with a target that goes at once", targets("{name: a, cluster: {type: hub}, components: [{app: x}], ttlAfterFinished: 0s}")),
		Entry("with targets that go one after the other", targets("{name: a, cluster: {type: hub}, components: [{app: x}], ttlAfterFinished: 1h}, "+
			"{name: b, cluster: {type: hub}, components: [{app: x}], depends: [a], ttlAfterFinished: 30m}")),
		Entry("with 365 days to live", withWorkflow("{template: x}, ttlDays: 365")),
		Entry("with observability", targets("{name: a, cluster: {type: hub}, components: [{app: x}], observability: {enabled: true, transport: tailscale, tenant: lab}}")),
	)

	It("fills in the defaults", func() {
		e := experiment("defaults", onHub("a", "x"))
		e.Namespace = "default"
		Expect(hub.client.Create(background(), e, client.DryRunAll)).To(Succeed())
		Expect(e.Spec.TTLDays).To(Equal(int32(1)))
		Expect(e.Spec.Workflow.Completion.Mode).To(Equal(v1alpha1.CompletionWorkflow))
	})

	DescribeTable("refuses a Component and names the field",
		func(spec string, words ...string) {
			err := ask("Component", spec)
			Expect(err).To(HaveOccurred(), "it was accepted")
			for _, word := range words {
				Expect(err.Error()).To(ContainSubstring(word))
			}
		},
		Entry("no type", "{sources: [{repoURL: r, path: p}]}", "spec.type"),
		Entry("an unknown type", "{type: foo, sources: [{repoURL: r, path: p}]}", "spec.type", "foo"),
		Entry("no sources", "{type: app, sources: []}", "spec.sources"),
		Entry("17 sources", "{type: app, sources: ["+strings.Repeat("{repoURL: r, path: p}, ", 16)+"{repoURL: r, path: p}]}", "spec.sources"),
		Entry("a source without a repository", "{type: app, sources: [{path: p}]}", "spec.sources[0].repoURL"),
		Entry("a password in a repository's URL", "{type: app, sources: [{repoURL: 'https://bot:x@git.example.com/c.git', path: p}]}", "spec.sources[0].repoURL", "password"),
		Entry("a chart without a version", "{type: app, sources: [{repoURL: r, chart: c}]}", "spec.sources[0]", "targetRevision", "1.2.3"),
		Entry("path and chart", "{type: app, sources: [{repoURL: r, path: p, chart: c}]}", "spec.sources[0]", "path", "chart"),
		Entry("helm without a chart", "{type: app, sources: [{repoURL: r, helm: {releaseName: x}}]}", "spec.sources[0]", "helm"),
		Entry("a release name that is too long", "{type: app, sources: [{repoURL: r, chart: c, targetRevision: 1.2.3, helm: {releaseName: "+strings.Repeat("r", 54)+"}}]}",
			"spec.sources[0].helm.releaseName"),
		Entry("two parameters of one name", "{type: app, sources: [{repoURL: r, chart: c, targetRevision: 1.2.3}], parameters: [{name: a}, {name: a}]}", "spec.parameters[1]"),
		Entry("an unknown parameter type", "{type: app, sources: [{repoURL: r, chart: c, targetRevision: 1.2.3}], parameters: [{name: a, type: list}]}", "spec.parameters[0].type"),
		Entry("a port that is none", "{type: app, sources: [{repoURL: r, path: p}], observability: {metricsPort: 65536}}", "spec.observability.metricsPort"),
		Entry("a parameter from nowhere", "{type: app, sources: [{repoURL: r, chart: c, targetRevision: 1.2.3}], parameters: [{name: a, from: Password}]}", "spec.parameters[0].from"),
		Entry("an unknown field", "{type: app, sources: [{repoURL: r, path: p, branch: b}]}", "spec.sources[0].branch"),
	)

	DescribeTable("accepts a Component",
		func(spec string) { Expect(ask("Component", spec)).To(Succeed()) },
		Entry("with a path", "{type: app, sources: [{repoURL: r, path: p}]}"),
		Entry("with a chart and values beside it", "{type: config, sources: [{repoURL: r, chart: c, targetRevision: 1.2.3, helm: {valuesFiles: [$values/v.yaml], "+
			"parameters: [{name: a, value: b, forceString: true}]}}, {repoURL: v}]}"),
		Entry("with parameters", "{type: workflow, sources: [{repoURL: r, chart: c, targetRevision: 1.2.3}], parameters: [{name: a.b, type: boolean, default: \"true\", required: true}]}"),
		Entry("with observability", "{type: app, sources: [{repoURL: r, path: p}], observability: {serviceMonitor: true, podLabels: {a: b}, metricsPort: 9090}}"),
	)
})

// started is an Experiment that nothing is done for, and that says it was begun.
func started(s *stage, spec string) *unstructured.Unstructured {
	GinkgoHelper()
	u := &unstructured.Unstructured{}
	Expect(yaml.Unmarshal([]byte("metadata: {name: started}\nspec: "+spec), &u.Object)).To(Succeed())
	u.SetAPIVersion(v1alpha1.GroupVersion.String())
	u.SetKind("Experiment")
	u.SetNamespace(s.namespace)
	Expect(unstructured.SetNestedField(u.Object, true, "spec", "suspend")).To(Succeed())
	Expect(s.client.Create(background(), u)).To(Succeed())
	DeferCleanup(func() { // the manager could not tell that there are no objects of kinds that it may not list
		Expect(s.client.Delete(background(), u)).To(Succeed())
		freed := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`))
		Expect(client.IgnoreNotFound(s.client.Patch(background(), u, freed))).To(Succeed())
	})
	status := client.RawPatch(types.MergePatchType, []byte(`{"status": {"startedAt": "2026-01-01T00:00:00Z"}}`))
	Expect(s.client.Status().Patch(background(), u, status)).To(Succeed())
	return u
}

// What the schema says of changes that come too late.
const (
	clustersStay = "spec.targets: targets, and of their clusters type, zone, preemptible, kubeconfigSecret, clusterRef, " +
		"talos.infrastructure and talos.talosVersion cannot change once the Experiment has started"
	placesStay = "spec.targets[]: namespace and applicationPolicy cannot change once the Experiment has started, " +
		"and podSecurity can be changed and not be removed"
)

var _ = Describe("What was begun", func() {
	const (
		hubTarget = "{name: a, cluster: {type: hub}, components: [{app: x}]}"
		another   = "{name: b, cluster: {type: hub}, components: [{app: x}]}"
	)
	secured := func(level string) string {
		return targets("{name: a, cluster: {type: gke}, components: [{app: x}]" + level + "}")
	}
	existing := func(secret string) string {
		return withCluster("{type: existing, kubeconfigSecret: {name: " + secret + "}}")
	}
	onCluster := func(cluster string) string {
		return withCluster("{type: clusterRef, clusterRef: {name: " + cluster + "}}")
	}
	onTalos := func(talos string) string { return withCluster("{type: talos, talos: " + talos + "}") }
	DescribeTable("stays what it is",
		func(before, after, message string) {
			s := hub.newStage()
			u := started(s, before)
			var spec map[string]any
			Expect(yaml.Unmarshal([]byte(after), &spec)).To(Succeed())
			spec["suspend"] = true
			patch, err := json.Marshal([]any{map[string]any{"op": "replace", "path": "/spec", "value": spec}})
			Expect(err).NotTo(HaveOccurred())
			err = s.client.Patch(background(), u, client.RawPatch(types.JSONPatchType, patch), client.DryRunAll)
			if message == "" {
				Expect(err).NotTo(HaveOccurred())
				return
			}
			Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
			Expect(err.Error()).To(ContainSubstring(message))
		},
		Entry("another existing cluster", existing("a"), existing("b"), clustersStay),
		Entry("another Cluster", onCluster("a"), onCluster("b"), clustersStay),
		Entry("the same Cluster", onCluster("a"), onCluster("a"), ""),
		Entry("other Talos machines", onTalos(talos("Cluster", "Machine")), onTalos(talos("Cluster", "OtherMachine")), clustersStay),
		Entry("another Talos", onTalos(talos("Cluster", "Machine")), onTalos(strings.Replace(talos("Cluster", "Machine"), "v1.11", "v1.12", 1)), clustersStay),
		Entry("another Kubernetes", onTalos(talos("Cluster", "Machine")), onTalos(strings.Replace(talos("Cluster", "Machine"), "v1.34.1", "v1.34.2", 1)), ""),
		Entry("no level of Pod Security", secured(", podSecurity: baseline"), secured(""), placesStay),
		Entry("another level of Pod Security", secured(", podSecurity: baseline"), secured(", podSecurity: privileged"), ""),
		Entry("another namespace", secured(", namespace: a"), secured(", namespace: b"), placesStay),
		Entry("a namespace that was not chosen", secured(""), secured(", namespace: b"), placesStay),
		Entry("another time to live of a target", secured(", ttlAfterFinished: 1h"), secured(", ttlAfterFinished: 2h"), ""),
		Entry("targets in another order", targets(hubTarget+", "+another), targets(another+", "+hubTarget), ""), // field notes 36
		Entry("no end", withWorkflow("{template: x}, terminate: true"), withWorkflow("{template: x}"), "terminate: it cannot be taken back"),
		Entry("observability", targets(hubTarget), targets("{name: a, cluster: {type: hub}, components: [{app: x}], observability: {enabled: true}}"), ""),
	)
})

var _ = Describe("Targets", func() {
	It("may change before the start, and after it only in their components", func() {
		s := hub.newStage(clusterReady, workflowEnds)
		e := s.create(experiment("edited", onGKE("app", "not-there-yet")))
		s.says(e, v1alpha1.ConditionComponentsResolved, v1alpha1.ReasonComponentNotFound, "not-there-yet")
		By("adding one and changing a type before the start")
		Expect(s.edit(e, func(e *v1alpha1.Experiment) {
			e.Spec.Targets = append(e.Spec.Targets, onGKE("second", "k6"), onGKE("third", "k6"))
		})).To(Succeed())
		Expect(s.edit(e, func(e *v1alpha1.Experiment) {
			e.Spec.Targets = e.Spec.Targets[:2]
			e.Spec.Targets[1].Cluster.Type = v1alpha1.ClusterHub
			e.Spec.Targets[0].Components[0].App = "nginx"
		})).To(Succeed())
		Eventually(func() any { return s.get(e).Status.StartedAt }).ShouldNot(BeNil())

		for what, change := range map[string]func(*v1alpha1.Experiment){
			"adding":                 func(e *v1alpha1.Experiment) { e.Spec.Targets = append(e.Spec.Targets, onHub("more", "k6")) },
			"removing":               func(e *v1alpha1.Experiment) { e.Spec.Targets = e.Spec.Targets[:1] },
			"renaming":               func(e *v1alpha1.Experiment) { e.Spec.Targets[1].Name = "renamed" },
			"changing a cluster":     func(e *v1alpha1.Experiment) { e.Spec.Targets[0].Cluster.Type = v1alpha1.ClusterHub },
			"swapping two clusters'": func(e *v1alpha1.Experiment) { swapTypes(e.Spec.Targets) },
		} {
			By(what + " after the start")
			err := s.edit(e, change)
			Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%s: %v", what, err)
			Expect(err.Error()).To(ContainSubstring(clustersStay))
		}

		By("giving the Workflow another namespace after the start")
		err := s.edit(e, func(e *v1alpha1.Experiment) { e.Spec.Workflow.Namespace = s.namespace })
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		Expect(err.Error()).To(ContainSubstring("spec.workflow.namespace: it cannot change once"))

		By("dividing Applications otherwise after the start")
		err = s.edit(e, func(e *v1alpha1.Experiment) {
			e.Spec.Targets[0].ApplicationPolicy = v1alpha1.ApplicationPerComponent
		})
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		Expect(err.Error()).To(ContainSubstring(placesStay))
		Expect(s.edit(e, func(e *v1alpha1.Experiment) { e.Spec.Targets[0].ApplicationPolicy = v1alpha1.ApplicationPerTarget })).To(Succeed())

		By("changing components after the start")
		s.exists(applications, s.application(e, "second"))
		Expect(s.edit(e, func(e *v1alpha1.Experiment) {
			e.Spec.Targets[1].Components = append(e.Spec.Targets[1].Components,
				v1alpha1.ComponentRef{App: "nginx", Params: map[string]string{"replicaCount": "7"}})
		})).To(Succeed())
		Eventually(func(g Gomega) {
			sources := sourcesOf(s.object(applications, s.application(e, "second")))
			g.Expect(sources).To(HaveLen(3))
			parameters, _, _ := unstructured.NestedSlice(sources[1].(map[string]any), "helm", "parameters")
			g.Expect(parameters).To(ContainElement(map[string]any{"name": "replicaCount", "value": "7"}))
		}).Should(Succeed())
		s.release()
		s.reaches(e, v1alpha1.PhaseComplete)
	})
})

func swapTypes(targets []v1alpha1.Target) {
	targets[0].Cluster.Type, targets[1].Cluster.Type = targets[1].Cluster.Type, targets[0].Cluster.Type
}
