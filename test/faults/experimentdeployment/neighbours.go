package experimentdeployment

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experimentcontroller/v1alpha1"
	"github.com/labkeeper/labkeeper/test/faults"
)

// beside are some objects whose ExperimentDeployment, the last, is the neighbour of the one that a workload is about.
func beside(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	objects[len(objects)-1].SetName(neighbour)
	return objects
}

func last(objects []*unstructured.Unstructured) *unstructured.Unstructured {
	return objects[len(objects)-1]
}

// one is a moment of the ExperimentDeployment that a workload is about, whatever becomes of its neighbour, and other one of that.
func one(m moment) moment   { return among("", m) }
func other(m moment) moment { return among(ofNeighbour, m) }

func among(owner string, m moment) moment {
	return func(s faults.State) bool {
		return m(s.Only(func(u *unstructured.Unstructured) bool { return whose(u) == owner }))
	}
}

// apart are some objects whose ExperimentDeployment, the last, is in the other namespace.
func apart(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	faults.InOther(objects[len(objects)-1:])
	_ = unstructured.SetNestedField(last(objects).Object, faults.RunNamespace, "spec", "sourceRef", "namespace")
	return objects
}

// grant has the namespace of the source name the other one, and withdraw has it name none.
func grant(ctx context.Context, s *faults.Stage) error {
	return allow(ctx, s, s.Namespace+faults.Beside)
}

func withdraw(ctx context.Context, s *faults.Stage) error { return allow(ctx, s, "") }

func allow(ctx context.Context, s *faults.Stage, namespaces string) error {
	namespace := of(s, "v1", "Namespace", s.Namespace)
	namespace.SetNamespace("")
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationAllowedNamespaces, namespaces)
	return s.Client.Patch(ctx, namespace, client.RawPatch(types.MergePatchType, []byte(patch)))
}

// both watches the two namespaces.
var both = []string{"--watch-namespaces=" + faults.RunNamespace + "," + faults.RunNamespace + faults.Beside}

// put creates an object of the workload, and drop deletes it.
func put(o *unstructured.Unstructured) action {
	return func(ctx context.Context, s *faults.Stage) error { return s.Create(ctx, o) }
}

func drop(o *unstructured.Unstructured) action {
	return func(ctx context.Context, s *faults.Stage) error { return s.Delete(ctx, o) }
}

// change changes one.
func change(o *unstructured.Unstructured, patch string) action {
	return func(ctx context.Context, s *faults.Stage) error {
		return s.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(patch)))
	}
}

// neighbours are two twins of one source, or of a name. One of the two owners has nothing to write while the other has, so that the
// writes come in one order; who comes after a manager that was killed looks at both.
var neighbours = []faults.Workload{
	{
		// One comes, goes, and comes again while the other is there, which goes then.
		Name:    "neighbour-of-the-source",
		Objects: beside(objects("Deployment")),
		Steps: []faults.Step{
			faults.At(other(up(1, zero, anyhow)), put(last(objects("Deployment")))),
			faults.At(one(up(1, zero, anyhow)), edit(newImage)),
			faults.At(one(up(2, zero, imaged("example/web:3"))), remove),
			faults.At(one(gone), put(last(objects("Deployment")))),
			faults.At(one(up(1, zero, imaged("example/web:2"))), drop(last(beside(objects("Deployment"))))),
		},
		Done: all(one(up(1, zero, imaged("example/web:2"))), other(gone)),
	},
	{
		// The source is edited, which one takes and the other does not.
		Name:    "neighbour-pinned",
		Objects: beside(objects("StatefulSet", "  sourcePolicy: Pinned\n")),
		Steps: []faults.Step{
			faults.At(other(up(1, zero, anyhow)), put(last(objects("StatefulSet")))),
			faults.At(one(up(1, zero, anyhow)), labelSource("StatefulSet")),
			faults.At(one(up(1, zero, labelled)), remove),
			faults.At(one(gone), change(last(beside(objects("StatefulSet"))), newImage)),
		},
		Done: other(up(2, zero, func(u *unstructured.Unstructured) bool { return imaged("example/web:3")(u) && !labelled(u) })),
	},
	{
		Name:    "neighbour-of-the-name",
		Objects: faults.InOther(objects("StatefulSet")),
		Beside:  true,
		Args:    both,
		Steps: []faults.Step{
			faults.At(other(up(1, zero, anyhow)), put(objects("StatefulSet")[0]), put(last(objects("StatefulSet")))),
			faults.At(one(up(1, zero, anyhow)), edit(`{"spec":{"overrideSpec":{"serviceName":"elsewhere"}}}`)),
			faults.At(one(up(2, zero, elsewhere)), remove),
			faults.At(one(gone), drop(last(faults.InOther(objects("StatefulSet"))))),
		},
		Done: gone,
	},
	{
		// The source, with the twin, is in another namespace than their owner, which says who may; the twin stays while nobody may.
		Name:    "apart",
		Objects: apart(objects("Deployment")),
		Beside:  true,
		Args:    both,
		Steps: []faults.Step{
			faults.At(tells(1, v1alpha1.ConditionAccepted, v1alpha1.ReasonNotGranted), grant),
			faults.At(up(1, zero, imaged("example/web:2")), withdraw),
			faults.At(tells(1, v1alpha1.ConditionAccepted, v1alpha1.ReasonNotGranted), change(last(apart(objects("Deployment"))), newImage)),
			faults.At(all(tells(2, v1alpha1.ConditionAccepted, v1alpha1.ReasonNotGranted), up(2, v1alpha1.ReasonNotGranted, imaged("example/web:2"))), grant),
			faults.At(up(2, zero, imaged("example/web:3")), drop(last(apart(objects("Deployment"))))),
		},
		Done: gone,
	},
	{
		// So is what is kept of it.
		Name:    "apart-pinned",
		Objects: apart(objects("StatefulSet", "  sourcePolicy: Pinned\n")),
		Beside:  true,
		Args:    both,
		Steps: []faults.Step{
			faults.At(tells(1, v1alpha1.ConditionAccepted, v1alpha1.ReasonNotGranted), grant),
			faults.At(up(1, zero, anyhow), labelSource("StatefulSet"), change(last(apart(objects("StatefulSet"))), newImage)),
			faults.At(up(2, zero, func(u *unstructured.Unstructured) bool { return imaged("example/web:3")(u) && !labelled(u) }),
				drop(last(apart(objects("StatefulSet"))))),
		},
		Done: gone,
	},
}
