package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/labkeeper/labkeeper/test/env"
	"github.com/labkeeper/labkeeper/test/load/machine"
	"github.com/labkeeper/labkeeper/test/load/measure"
)

const (
	floorNamespace = "default"
	// Each operation of the floor is measured with few and with many clients.
	fewClients, manyClients = 4, 16
	// floorObjects is how many objects' minimal writes a round makes with each number of clients.
	floorObjects = 10
)

func floorCreate(clients int) string { return fmt.Sprintf("create @%d", clients) }
func floorStatus(clients int) string { return fmt.Sprintf("status @%d", clients) }

// floorResource is a copy of the subject's kind that no manager knows.
func (l *Lab) floorResource() schema.GroupVersionResource {
	r := l.Subject.Resource
	r.Group = "floor." + r.Group
	return r
}

// installCRDs installs the kinds and the copy for the floor.
func (l *Lab) installCRDs(ctx context.Context) error {
	content, err := os.ReadFile(filepath.Join(env.Root(), l.Subject.CRD))
	if err != nil {
		return err
	}
	crd := apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(content, &crd); err != nil {
		return fmt.Errorf("reading %s: %w", l.Subject.CRD, err)
	}
	crd.Spec.Group = l.floorResource().Group
	crd.Name = crd.Spec.Names.Plural + "." + crd.Spec.Group
	crd.Spec.Names.ShortNames, crd.Spec.Names.Categories = nil, nil
	if content, err = yaml.Marshal(crd); err != nil {
		return err
	}
	path := filepath.Join(l.Dir(), "floor.yaml")
	if err := os.WriteFile(path, content, 0o644); err != nil {
		return err
	}
	crds := l.Subject.CRDs
	if l.options.Peer != nil {
		crds = slices.Concat(crds, l.options.Peer.Subject.CRDs)
	}
	return l.InstallCRDs(ctx, append(fromRoot(crds), path)...)
}

// Floor measures what bare writes of objects of the subject's size cost, with nobody who
// acts on them.
//
// The operations take turns in short rounds, so that all of them have the same machine. A round
// makes them in the proportion of the minimal writes of an object: a collection of the server's
// garbage costs as much as some tens of writes and makes the one operation dear or the other,
// by chance, but not their sum.
func (l *Lab) Floor(ctx context.Context, run string) (measure.Floor, error) {
	f := &floor{lab: l, resource: l.floorResource(), run: run}
	if err := f.begin(ctx); err != nil {
		return measure.Floor{}, err
	}
	before, err := machine.Look()
	if err != nil {
		return measure.Floor{}, err
	}
	sums := map[string]sum{}
	for end := before.Time.Add(l.options.Floor); time.Now().Before(end); {
		for _, clients := range []int{fewClients, manyClients} {
			if err := f.round(ctx, clients, sums); err != nil {
				return measure.Floor{}, fmt.Errorf("measuring floor: %w", err)
			}
		}
	}
	after, err := machine.Look()
	if err != nil {
		return measure.Floor{}, err
	}
	l.foreign = max(l.foreign, after.Since(before).ForeignShare(l.cores()))
	floor := measure.Floor{Costs: map[string]measure.Cost{}, Pace: l.pace.Between(before.Time, after.Time)}
	for operation, s := range sums {
		floor.Costs[operation] = s.cost()
	}
	return floor, l.Client.Delete(ctx, Path(f.resource, floorNamespace, ""))
}

// FloorAgain measures the floor before once more, for a scenario that fills the store before it
// measures: on an empty one everything is cheaper.
func (l *Lab) FloorAgain(ctx context.Context) error {
	l.Tell("measuring the floor of the filled store")
	var err error
	l.Before, err = l.Floor(ctx, "filled")
	l.filled = true
	return err
}

// floor is one measurement of the floor.
type floor struct {
	lab      *Lab
	resource schema.GroupVersionResource
	run      string
	created  atomic.Int64
	patched  atomic.Int64
}

func (f *floor) name(i int) string { return fmt.Sprintf("floor-%s-%d", f.run, i) }

func (f *floor) create(ctx context.Context) error {
	i := int(f.created.Add(1))
	o := f.lab.Subject.New(floorNamespace, f.name(i), Plain)
	o.SetAPIVersion(f.resource.GroupVersion().String())
	return f.lab.Client.Create(ctx, f.resource, floorNamespace, o)
}

func (f *floor) status(ctx context.Context) error {
	i := int(f.patched.Add(1)) // never one that the object has already: such a patch is cheaper
	patch, err := json.Marshal(map[string]any{"status": f.lab.Subject.Status(i)})
	if err != nil {
		return err
	}
	object := 1 + i%int(f.created.Load())
	return f.lab.Client.Patch(ctx, Path(f.resource, floorNamespace, f.name(object))+"/status", patch)
}

// begin has the server do first what is not to be paid for by the floor: what it does once for a
// new kind, what it still has to do for others, and the collection of their garbage.
func (f *floor) begin(ctx context.Context) error {
	if err := f.phase(ctx, fewClients, floorObjects, f.create, &sum{}); err != nil {
		return err
	}
	if err := f.lab.Settle(ctx); err != nil {
		return err
	}
	if _, err := f.lab.Client.Do(ctx, http.MethodGet, "/debug/pprof/heap?gc=1", "", nil); err != nil {
		return fmt.Errorf("asking API server for a collection: %w", err)
	}
	return nil
}

// round makes the minimal writes of some objects.
func (f *floor) round(ctx context.Context, clients int, sums map[string]sum) error {
	minimal := f.lab.Subject.Minimal
	for _, operation := range []struct {
		name  string
		times int
		do    func(context.Context) error
	}{{floorCreate(clients), minimal.Creates, f.create}, {floorStatus(clients), minimal.Patches, f.status}} {
		s := sums[operation.name]
		if err := f.phase(ctx, clients, floorObjects*operation.times, operation.do, &s); err != nil {
			return fmt.Errorf("%s: %w", operation.name, err)
		}
		sums[operation.name] = s
	}
	return nil
}

// phase does one operation n times with some clients.
func (f *floor) phase(ctx context.Context, clients, n int, do func(context.Context) error, s *sum) error {
	before, err := machine.Look()
	if err != nil {
		return err
	}
	var next atomic.Int64
	err = Parallel(clients, func(int) error {
		for {
			if int(next.Add(1)) > n {
				return nil
			}
			if err := do(ctx); err != nil {
				return err
			}
		}
	})
	if err != nil {
		return err
	}
	after, err := machine.Look()
	if err != nil {
		return err
	}
	usage := after.Since(before)
	s.n, s.cpu, s.wall = s.n+n, s.cpu+usage.Ours, s.wall+usage.Wall
	return nil
}

// sum is what the phases of an operation came to.
type sum struct {
	n         int
	cpu, wall time.Duration
}

func (s sum) cost() measure.Cost {
	return measure.Cost{CPU: measure.Milliseconds(s.cpu) / float64(s.n), Rate: float64(s.n) / s.wall.Seconds()}
}

// cost is what the writes cost on a floor with a number of clients, in CPU-milliseconds.
func (w Writes) cost(floor measure.Floor, clients int) float64 {
	return float64(w.Creates)*floor.Costs[floorCreate(clients)].CPU + float64(w.Patches)*floor.Costs[floorStatus(clients)].CPU
}

// FloorDrift is how far two floors are apart, in what the minimal writes of an object cost with
// few clients and with many.
func FloorDrift(minimal Writes, before, after measure.Floor) float64 {
	return measure.Drift(minimal.cost(before, fewClients)+minimal.cost(before, manyClients), minimal.cost(after, fewClients)+minimal.cost(after, manyClients))
}
