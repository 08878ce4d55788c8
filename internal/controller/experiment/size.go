package experiment

import (
	"encoding/json"
	"fmt"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
)

// maxStored is how many bytes etcd keeps of an object, unless it is told otherwise: 1.5 MiB.
const maxStored = 3 << 19

// tracked is the least that the API server keeps of who has written the fields of one element of a list, beside its name.
const tracked = 64

// tooLarge says that there is no room for how far the targets have come: the Experiment would not fit into etcd with the least that
// its status tells of them when all are deployed. What it may tell beside that is not counted, so that nothing is refused that
// would fit.
func (f facts) tooLarge() string {
	if f.experiment.Status.StartedAt != nil {
		return "" // what fitted so far fits where etcd keeps more
	}
	size := f.leastStored()
	if size <= maxStored {
		return ""
	}
	spec := f.experiment.Spec
	field, remedy, most := "metadata.annotations", "make them shorter", stored(f.experiment.Annotations)
	larger := func(name, what string, part any) {
		if n := stored(part); n > most {
			field, remedy, most = name, what, n
		}
	}
	larger("spec.workflow", "give it fewer or shorter params", spec.Workflow)
	for _, t := range spec.Targets {
		larger("spec.targets: target "+t.Name, "give it fewer or shorter params, or divide the targets among several Experiments", t)
	}
	return fmt.Sprintf("%s: the Experiment would have %d bytes with what its status tells of its %d targets, of which this is the most (%d), and etcd keeps %d of an object; %s",
		field, size, len(spec.Targets), most, maxStored, remedy)
}

// leastStored is how many bytes the Experiment has at least when all targets are deployed.
func (f facts) leastStored() int {
	least, size := v1alpha1.Experiment{TypeMeta: f.experiment.TypeMeta, ObjectMeta: f.experiment.ObjectMeta, Spec: f.experiment.Spec}, 0
	least.ManagedFields = nil
	for _, t := range f.experiment.Spec.Targets {
		s := f.status(&target{spec: t, provider: providerOf(t), clusterUp: true, parts: f.names.partsOf(t)})
		s.State = v1alpha1.TargetHealthy
		size += tracked + len(s.Name)
		for i := range s.Components {
			s.Components[i].State, s.Components[i].Reason = v1alpha1.ComponentHealthy, ""
			size += tracked + len(s.Components[i].Name)
		}
		least.Status.Targets = append(least.Status.Targets, s)
	}
	return size + stored(least)
}

// stored is how many bytes something has in etcd. Nothing of an Experiment can fail to be encoded.
func stored(o any) int {
	encoded, _ := json.Marshal(o)
	return len(encoded)
}
