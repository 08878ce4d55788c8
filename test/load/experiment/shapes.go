package experiment

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/test/load/harness"
)

// size is what the requests for an Experiment depend on: how many targets it has of each type, and how many
// Applications.
type size struct {
	gke, hub, existing, referred, vcluster, talos int
	// composites are gke targets whose claims are namespaced composites of Crossplane v2.
	composites   int
	applications int
	// creating is how many passes create something.
	creating int
}

// made are the objects that the cluster of a talos target is made by, and copied those that it gets of the
// user's templates.
var (
	made   = []string{"clusters", "taloscontrolplanes", "talosconfigtemplates", "machinedeployments"}
	copied = map[string]int{"dockerclusters": 1, "dockermachinetemplates": 2}
)

// registered are the clusters that Argo CD is told of.
func (s size) registered() int { return s.claims() + s.existing + s.vcluster + s.talos }

// claims are what Crossplane makes clusters of.
func (s size) claims() int { return s.gke + s.composites }

// children are the objects that are created, and deleted but for those that go with a namespace.
func (s size) children(verb string) map[string]int {
	counts := map[string]int{
		verb + " gkeclusters":  s.claims(),
		verb + " clusters":     s.vcluster + s.talos,
		verb + " vclusters":    s.vcluster,
		verb + " secrets":      s.registered(),
		verb + " applications": s.applications,
		verb + " workflows":    1,
	}
	for _, resource := range made[1:] {
		counts[verb+" "+resource] = s.talos
	}
	for resource, n := range copied {
		counts[verb+" "+resource] = n * s.talos
	}
	return counts
}

// up are the writes that bring an Experiment up, beside the statuses; with a vcluster the manager asks, by a
// create that stores nothing, who it is, to let that read the Secrets beside the cluster.
func (s size) up() map[string]int {
	counts := s.children("create")
	counts["patch experiments"] = 1 // the finalizer
	for _, resource := range []string{"namespaces", "selfsubjectreviews", "rolebindings"} {
		counts["create "+resource] = s.vcluster
	}
	return some(counts)
}

// down are the writes that take it down.
func (s size) down() map[string]int {
	counts := s.children("delete")
	counts["patch experiments"] = 1
	counts["delete namespaces"] = s.hub + s.vcluster
	return some(counts)
}

// reads are the live ones that the package of the reconciler lists: of each cluster the
// connection Secret, or for a Cluster that others make what that is registered by, and what it is made by before it is registered, the Experiment's metadata before
// a pass that creates, and all of that and every Application before the verdict; and the namespace of a target on the hub before that is
// deployed to.
func (s size) reads() map[string]int {
	counts := map[string]int{
		"get secrets":      s.registered(),
		"list secrets":     s.registered() + s.referred, // at the same address, or of a Cluster
		"get experiments":  s.creating,
		"get gkeclusters":  2 * s.claims(),
		"get clusters":     2 * (s.vcluster + s.talos + s.referred),
		"get vclusters":    2 * s.vcluster,
		"get applications": s.applications,
		"get namespaces":   s.hub, // whether another has one of the name
	}
	for _, resource := range made[1:] {
		counts["get "+resource] = 2 * s.talos
	}
	return some(counts)
}

// passes are how many at most look, while a cluster comes up, at the templates and what is made of them.
const passes = 6

// may are the live reads of templates and what is made of them, which are looked for in every pass until the
// cluster is up.
func (s size) may() map[string]int {
	return some(map[string]int{
		"get dockerclusters": passes * s.talos, "get dockermachinetemplates": 2 * passes * s.talos, "get dockerclustertemplates": passes * s.talos,
	})
}

// uses are how often a Component is told of an Experiment more, or of one less: of the Components of its own and of those
// of observability.
func (s size) uses() int { return 1 + s.applications }

func some(counts map[string]int) map[string]int {
	maps.DeleteFunc(counts, func(_ string, n int) bool { return n == 0 })
	return counts
}

// downReads are those of the way down: lists of what must be gone before anything of the clusters goes, and one
// of every kind when the cache has nothing left, which finds what is not in the cache, and proves, then or once
// more, that nothing is left.
func (s size) downReads() map[string]int {
	others := s.vcluster + s.talos // made by more than one object: the others go when the first is gone
	uncached := s.existing + s.talos
	counts := map[string]int{
		"list gkeclusters": min(s.claims(), 1),
		"get clusters":     2 * others, // whether somebody has it, before the others, or what they are in
		"list clusters":    2 * others,
		"list vclusters":   2 * s.vcluster, // with those before the namespace
		// Of a Cluster nothing is left when they are gone. Those that the others need are asked to go when none of the others is left.
		"list applications": 2 + 2*others - s.referred + s.applications - 1,
		"list workflows":    2 + 2*others - s.referred,
		"list secrets":      1 + uncached + s.referred, // what it is registered by, before the Applications go
		"list namespaces":   1 + uncached,
	}
	for _, resource := range made[1:] {
		counts["list "+resource] = 2 * s.talos
	}
	for resource := range copied {
		counts["list "+resource] = 2 * s.talos
	}
	return some(counts)
}

// downMay are those whose number depends on how many events come together: of the Workflow and the cluster Secrets, and
// of a claim that has gone before the last, or before a namespace on the hub.
//
// The Workflow is looked for in two passes beside those in which an Application has gone, and the Secrets in one for each of what a
// cluster is made of, and for each Application.
func (s size) downMay() map[string]int {
	may := map[string]int{
		"get workflows": 2 * (1 + s.applications),
		"get secrets":   3*s.registered() + 2*s.applications + 2*s.vcluster,
	}
	if s.claims()+s.hub > 1 {
		may["get gkeclusters"] = 2 * s.claims()
	}
	return some(may)
}

// shapes are Experiments whose targets depend on each other in a line, so that what a pass
// does is the same every time.
func shapes() []harness.Shape {
	shape := func(name string, s size, targets ...any) harness.Shape {
		return harness.Shape{
			Name: name, Done: "Complete", Up: s.up(), Down: s.down(), Reads: s.reads(), DownReads: s.downReads(), May: s.may(), DownMay: s.downMay(), Uses: s.uses(),
			New: func(namespace, name string) *unstructured.Unstructured { return object(namespace, name, targets...) },
		}
	}
	existing := shape("existing", size{existing: 1, applications: 1, creating: 2}, on(map[string]any{
		"type": "existing", "kubeconfigSecret": map[string]any{"name": "staging"},
	}))
	existing.Beside = []harness.Beside{{Resource: secrets, Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "staging"}, "stringData": map[string]any{"kubeconfig": kubeconfig("203.0.113.7")},
	}}}
	referred := shape("referred", size{referred: 1, applications: 1, creating: 2}, on(map[string]any{
		"type": "clusterRef", "clusterRef": map[string]any{"name": "k3"},
	}))
	referred.Beside = []harness.Beside{{Resource: arlonClusters, Object: map[string]any{
		"apiVersion": "core.arlon.io/v1", "kind": "Cluster", "metadata": map[string]any{"name": "k3"},
		"spec": map[string]any{"clusterTemplate": map[string]any{"url": "https://git.example.com/fleet.git", "path": "base", "revision": "main"}},
	}}}
	talos := shape("talos", size{talos: 1, applications: 1, creating: 3}, on(map[string]any{
		"type": "talos", "talos": map[string]any{
			"kubernetesVersion": "v1.34.1",
			"infrastructure":    map[string]any{"cluster": dockerTemplate("Cluster"), "machines": dockerTemplate("Machine")},
		},
	}))
	for _, kind := range []string{"Cluster", "Machine"} {
		template := dockerTemplate(kind)
		template["metadata"] = map[string]any{"name": template["name"]}
		template["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{}}}
		delete(template, "name")
		talos.Beside = append(talos.Beside, harness.Beside{Resource: dockerTemplates[kind], Object: template})
	}
	layers := gke("app", "0")
	layers["applicationPolicy"] = string(v1alpha1.ApplicationPerComponent)
	layers["components"] = []any{map[string]any{"app": "nginx"}, map[string]any{"app": "k6"}}
	observed := gke("app", "0")
	observed["observability"] = map[string]any{"enabled": true}
	return []harness.Shape{
		shape("gke", size{gke: 1, applications: 1, creating: 3}, gke("app", "0")),
		shape(compositeShape, size{composites: 1, applications: 1, creating: 3}, gke("app", "0")),
		shape("observed", size{gke: 1, applications: 2, creating: 4}, observed),
		shape("gke-hub", size{gke: 1, hub: 1, applications: 2, creating: 4}, gke("app", "0"), hub("load", "app")),
		shape("hub", size{hub: 1, applications: 1, creating: 2}, hub("app")),
		shape("three-gke", size{gke: 3, applications: 3, creating: 7}, gke("app", "0"), gke("db", "0", "app"), gke("web", "0", "db")),
		shape("layers", size{gke: 1, applications: 2, creating: 4}, layers),
		existing,
		referred,
		shape("vcluster", size{vcluster: 1, applications: 1, creating: 3}, on(map[string]any{"type": "vcluster"})),
		talos,
	}
}

// compositeShape begins the names of those whose claims Crossplane takes for namespaced composites.
const compositeShape = "composite"

// on is a target on a cluster.
func on(cluster map[string]any) map[string]any {
	t := gke("app", "0")
	t["cluster"] = cluster
	return t
}

// dockerTemplate is a template that a user names.
func dockerTemplate(kind string) map[string]any {
	return map[string]any{"apiVersion": dockerTemplates[kind].GroupVersion().String(), "kind": "Docker" + kind + "Template", "name": "lab"}
}
