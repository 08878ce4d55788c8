package hibernateplan

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/test/faults"
)

// named are some objects whose plan, the last, is the neighbour of the one that a workload is about, and acts on what that does.
func named(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	objects[len(objects)-1].SetName(neighbour)
	return objects
}

// beside are some objects whose plan is the neighbour, and has things of its own.
func beside(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	for _, o := range named(objects) {
		if isThing(o) {
			_ = unstructured.SetNestedField(o.Object, neighbour, "metadata", "labels", labelThing) // of one that has labels
		}
	}
	return objects
}

// with are objects and the things of the plan that a workload is about, which comes later.
func with(objects []*unstructured.Unstructured, things ...string) []*unstructured.Unstructured {
	return append(read(things...), objects...)
}

// one is a moment of the plan that a workload is about, whatever becomes of its neighbour, and other one of that.
func one(m moment) moment   { return among("", m) }
func other(m moment) moment { return among(ofNeighbour, m) }

func among(owner string, m moment) moment {
	return func(s faults.State) bool {
		return m(s.Only(func(u *unstructured.Unstructured) bool { return whose(u) == owner }))
	}
}

// removeOf deletes the plan of some objects, of which it is the last, and wakeOf wakes it.
func removeOf(objects []*unstructured.Unstructured) action {
	return func(ctx context.Context, s *faults.Stage) error { return s.Delete(ctx, objects[len(objects)-1]) }
}

func wakeOf(objects []*unstructured.Unstructured) action {
	patch := client.RawPatch(types.MergePatchType, []byte(awakened))
	return func(ctx context.Context, s *faults.Stage) error { return s.Patch(ctx, objects[len(objects)-1], patch) }
}

// The plan that workloads are about, and its neighbours: with a target of its own, one that does not wake at first, in the other
// namespace, and with the target of that.
func aPlan() []*unstructured.Unstructured { return objects(sequential, two[:1]) }
func withC() []*unstructured.Unstructured { return beside(objects(sequential, []string{sleeper("c")})) }
func withLateC() []*unstructured.Unstructured {
	return beside(objects(sequential, []string{fails("c", "wakeup", 1)}))
}
func ofTheName() []*unstructured.Unstructured   { return faults.InOther(aPlan()) }
func overlapping() []*unstructured.Unstructured { return named(aPlan()) }

var thingA = strings.ReplaceAll(thingText, "NAME", "a")

// neighbours are two plans beside each other. One of the two has nothing to write while the other has, so that the writes come in one
// order; who comes after a manager that was killed looks at both.
var neighbours = []faults.Workload{
	{
		// One comes, goes, and comes again while the other sleeps.
		Name:    "neighbour-sleeps",
		Objects: with(withC(), thingA),
		Steps: []faults.Step{
			faults.At(other(asleepNow(1)), create(aPlan())),
			faults.At(one(asleepNow(1)), wake),
			faults.At(one(over(2)), remove),
			faults.At(one(gone), create(aPlan())),
			faults.At(one(asleepNow(1)), wakeOf(withC())),
		},
		Done: all(one(asleepNow(1)), other(over(2))),
	},
	{
		// One sleeps and wakes while the other, which is deleted, waits to be woken.
		Name:    "neighbour-goes",
		Objects: with(withLateC(), thingA),
		Steps: []faults.Step{
			faults.At(other(asleepNow(1)), removeOf(withLateC())),
			faults.At(other(retrying("c")), create(aPlan())),
			faults.At(one(asleepNow(1)), wake),
			faults.At(one(over(2)), sleep(late)),
		},
		Done: all(one(over(2)), other(gone), awake),
	},
	{
		Name:    "neighbour-of-the-name",
		Objects: with(ofTheName(), thingA),
		Beside:  true,
		Args:    []string{"--watch-namespaces=" + faults.RunNamespace + "," + faults.RunNamespace + faults.Beside},
		Steps: []faults.Step{
			faults.At(other(asleepNow(1)), create(aPlan())),
			faults.At(one(asleepNow(1)), remove),
			faults.At(all(one(gone), one(awake)), removeOf(ofTheName())),
		},
		Done: all(gone, awake),
	},
	{
		// What one has found asleep it leaves so, and the other wakes it as it was.
		Name:    "neighbour-overlaps",
		Objects: overlapping(),
		Steps: []faults.Step{
			faults.At(other(asleepNow(1)), create(aPlan())),
			faults.At(one(asleepNow(1)), wake),
			faults.At(all(one(settled(2, v1alpha1.PhaseActive)), sleeps("a")), wakeOf(overlapping())),
		},
		Done: all(one(settled(2, v1alpha1.PhaseActive)), other(over(2)), awake),
	},
	{
		// What the other has woken meanwhile stays awake, as it was.
		Name:    "neighbour-overlaps-woken",
		Objects: overlapping(),
		Steps: []faults.Step{
			faults.At(other(asleepNow(1)), create(aPlan())),
			faults.At(one(asleepNow(1)), wakeOf(overlapping())),
			faults.At(all(other(over(2)), sleeps()), wake),
		},
		Done: all(one(over(2)), other(over(2)), awake),
	},
	{
		// One wakes while another of its namespace, which is put to sleep, has all the room that there is for that.
		Name: "neighbour-has-the-room", Holds: []string{runs + ofNeighbour},
		Objects: append(withC()[:1:1], aPlan()...),
		Args:    []string{"--hibernation-runners=1"},
		Steps: []faults.Step{
			faults.At(one(asleepNow(1)), create(withC())),
			faults.At(other(working(1)), wake),
			faults.At(one(over(2)), releaseOther),
		},
		Done: all(one(over(2)), other(asleepNow(1))),
	},
}

func releaseOther(_ context.Context, s *faults.Stage) error {
	s.Release(runs + ofNeighbour)
	return nil
}
