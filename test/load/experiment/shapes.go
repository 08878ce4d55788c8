package experiment

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/labkeeper/labkeeper/test/load/harness"
)

// size is what the writes of an Experiment depend on: clusters, Applications, and namespaces
// on the hub.
type size struct {
	clusters, applications, namespaces int
}

// up are the writes that bring an Experiment up, beside the statuses.
func (s size) up() map[string]int {
	return some(map[string]int{
		"patch experiments":   1, // the finalizer
		"create gkeclusters":  s.clusters,
		"create secrets":      s.clusters,
		"create applications": s.applications,
		"create workflows":    1,
	})
}

// down are the writes that take it down.
func (s size) down() map[string]int {
	return some(map[string]int{
		"delete workflows":    1,
		"delete applications": s.applications,
		"delete secrets":      s.clusters,
		"delete gkeclusters":  s.clusters,
		"delete namespaces":   s.namespaces,
		"patch experiments":   1,
	})
}

// reads are the live ones that the package of the reconciler lists: of each cluster the
// connection Secret and the claim before its cluster is registered, the Experiment's metadata before
// a pass that creates, and every claim and Application before the verdict.
func (s size) reads(creatingPasses int) map[string]int {
	return some(map[string]int{
		"get secrets":      s.clusters,
		"get experiments":  creatingPasses,
		"get gkeclusters":  2 * s.clusters,
		"get applications": s.applications,
	})
}

func some(counts map[string]int) map[string]int {
	for what, n := range counts {
		if n == 0 {
			delete(counts, what)
		}
	}
	return counts
}

// downReads are those of the way down: lists of what must be gone before the clusters go, and one
// of every kind, which proves that nothing is left. How often the Workflow and the cluster Secrets
// are looked for depends on how many events of Applications and claims come together.
func (s size) downReads() map[string]int {
	return some(map[string]int{
		"list gkeclusters":  min(s.clusters, 1),
		"list applications": 2,
		"list workflows":    2,
		"list secrets":      1,
		"list namespaces":   1,
	})
}

// shapes are Experiments whose targets depend on each other in a line, so that what a pass
// does is the same every time.
func shapes() []harness.Shape {
	shape := func(name string, s size, creatingPasses int, targets ...any) harness.Shape {
		return harness.Shape{
			Name: name, Done: "Complete", Up: s.up(), Down: s.down(), Reads: s.reads(creatingPasses), DownReads: s.downReads(), DownMay: []string{"get secrets", "get workflows"},
			New: func(namespace, name string) *unstructured.Unstructured { return object(namespace, name, targets...) },
		}
	}
	return []harness.Shape{
		shape("gke", size{1, 1, 0}, 3, gke("app", "0")),
		shape("gke-hub", size{1, 2, 1}, 4, gke("app", "0"), hub("load", "app")),
		shape("hub", size{0, 1, 1}, 2, hub("app")),
		shape("three-gke", size{3, 3, 0}, 7, gke("app", "0"), gke("db", "0", "app"), gke("web", "0", "db")),
	}
}
