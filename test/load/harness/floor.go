package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/labkeeper/labkeeper/test/env"
	"github.com/labkeeper/labkeeper/test/load/machine"
	"github.com/labkeeper/labkeeper/test/load/measure"
)

// The operations of the floor, each with few and with many clients.
const (
	floorNamespace = "default"
	// FloorCreate and FloorStatus are those that a ceiling is made of.
	FloorCreate = "create @16"
	FloorStatus = "status @16"
)

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
	return l.InstallCRDs(ctx, append(fromRoot(l.Subject.CRDs), path)...)
}

// Floor measures what bare writes of objects of the subject's size cost, with nobody who
// acts on them.
func (l *Lab) Floor(ctx context.Context, run string) (map[string]measure.Cost, error) {
	if err := l.Settle(ctx); err != nil {
		return nil, err
	}
	f := &floor{lab: l, resource: l.floorResource(), run: run}
	before, err := machine.Look()
	if err != nil {
		return nil, err
	}
	costs := map[string]measure.Cost{}
	// What the server does once for a new kind is not what an operation costs.
	if _, err := f.phase(ctx, 4, l.options.Floor/8, f.create); err != nil {
		return nil, err
	}
	for _, clients := range []int{4, 16} {
		for _, operation := range []struct {
			name string
			do   func(context.Context, int) error
		}{{"create", f.create}, {"status", f.status}} {
			cost, err := f.phase(ctx, clients, l.options.Floor/4, operation.do)
			if err != nil {
				return nil, fmt.Errorf("measuring floor: %s: %w", operation.name, err)
			}
			costs[fmt.Sprintf("%s @%d", operation.name, clients)] = cost
		}
	}
	after, err := machine.Look()
	if err != nil {
		return nil, err
	}
	l.foreign = max(l.foreign, after.Since(before).ForeignShare(l.cores()))
	return costs, l.Client.Delete(ctx, Path(f.resource, floorNamespace, ""))
}

// floor is one measurement of the floor.
type floor struct {
	lab      *Lab
	resource schema.GroupVersionResource
	run      string
	created  atomic.Int64
}

func (f *floor) name(i int) string { return fmt.Sprintf("floor-%s-%d", f.run, i) }

func (f *floor) create(ctx context.Context, _ int) error {
	i := int(f.created.Add(1))
	o := f.lab.Subject.New(floorNamespace, f.name(i), Plain)
	o.SetAPIVersion(f.resource.GroupVersion().String())
	return f.lab.Client.Create(ctx, f.resource, floorNamespace, o)
}

func (f *floor) status(ctx context.Context, i int) error {
	patch, err := json.Marshal(map[string]any{"status": f.lab.Subject.Status(i)})
	if err != nil {
		return err
	}
	object := 1 + i%int(f.created.Load())
	return f.lab.Client.Patch(ctx, Path(f.resource, floorNamespace, f.name(object))+"/status", patch)
}

// phase does one operation with some clients for a while.
func (f *floor) phase(ctx context.Context, clients int, d time.Duration, do func(context.Context, int) error) (measure.Cost, error) {
	before, err := machine.Look()
	if err != nil {
		return measure.Cost{}, err
	}
	var done atomic.Int64
	end := time.Now().Add(d)
	err = Parallel(clients, func(int) error {
		for {
			if err := do(ctx, int(done.Add(1))); err != nil || time.Now().After(end) {
				return err
			}
		}
	})
	if err != nil {
		return measure.Cost{}, err
	}
	after, err := machine.Look()
	if err != nil {
		return measure.Cost{}, err
	}
	n := float64(done.Load())
	usage := after.Since(before)
	return measure.Cost{CPU: measure.Milliseconds(usage.Ours) / n, Rate: n / usage.Wall.Seconds()}, nil
}

// FloorDrift is how far two floors are apart: by the cost of each operation, over all clients.
func FloorDrift(before, after map[string]measure.Cost) float64 {
	var worst float64
	for _, operation := range []string{"create", "status"} {
		var a, b float64
		for _, clients := range []int{4, 16} {
			key := fmt.Sprintf("%s @%d", operation, clients)
			a, b = a+before[key].CPU, b+after[key].CPU
		}
		worst = max(worst, measure.Drift(a, b))
	}
	return worst
}
