package experiment

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// An Experiment is overdue when the time that its spec gives its teardown is over, from when that was first acted on, or was asked for.
func TestOverdueIsCounted(t *testing.T) {
	for name, test := range map[string]struct {
		deleted, acted, deadline time.Duration
		want                     bool
	}{
		"stays":                     {0, 0, 0, false},
		"within the default":        {29 * time.Minute, 29 * time.Minute, 0, false},
		"after the default":         {31 * time.Minute, 31 * time.Minute, 0, true},
		"acted on late":             {2 * time.Hour, time.Minute, 0, false},
		"never acted on":            {31 * time.Minute, 0, 0, true},
		"after its own deadline":    {11 * time.Minute, 11 * time.Minute, 10 * time.Minute, true},
		"within its own deadline":   {59 * time.Minute, 59 * time.Minute, time.Hour, false},
		"acted on, and not deleted": {0, 2 * time.Hour, 0, false},
	} {
		e := &v1alpha1.Experiment{Status: v1alpha1.ExperimentStatus{Phase: v1alpha1.PhaseDeleting}}
		if test.deleted > 0 {
			e.DeletionTimestamp = ptr.To(metav1.NewTime(epoch.Add(-test.deleted)))
		}
		if test.acted > 0 {
			e.Status.Teardown = &v1alpha1.TeardownStatus{StartedAt: ptr.To(metav1.NewTime(epoch.Add(-test.acted)))}
		}
		if test.deadline > 0 {
			e.Spec.Deletion = &v1alpha1.Deletion{Deadline: &metav1.Duration{Duration: test.deadline}}
		}
		if s := counted(e, epoch); s.Overdue != test.want || s.Phase != "Deleting" {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// fullCache is a cache that has Experiments: it lists them as that of controller-runtime does.
type fullCache struct {
	client.Reader
	indexer toolscache.Indexer
}

func (c fullCache) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	var all []runtime.Object
	for _, o := range c.indexer.List() {
		all = append(all, o.(runtime.Object))
	}
	return meta.SetList(list, all)
}

// A scrape of a manager with 10,000 Experiments.
func BenchmarkCensus(b *testing.B) {
	indexer := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{})
	phases := []v1alpha1.Phase{v1alpha1.PhaseProvisioning, v1alpha1.PhaseRunning, v1alpha1.PhaseComplete, v1alpha1.PhaseFailed}
	for i := range 10_000 {
		e := &v1alpha1.Experiment{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: fmt.Sprint("e", i)}}
		e.Status.Phase = phases[i%len(phases)]
		for _, t := range append([]string{v1alpha1.ConditionReady}, steps...) {
			e.Status.Conditions = append(e.Status.Conditions, metav1.Condition{Type: t, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonPending})
		}
		if err := indexer.Add(e); err != nil {
			b.Fatal(err)
		}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(kube.NewCensus("Experiment", fullCache{indexer: indexer}, clocktesting.NewFakePassiveClock(epoch), &v1alpha1.ExperimentList{}, counted))
	b.ReportAllocs()
	for b.Loop() {
		if families, err := registry.Gather(); err != nil || len(families) != 3 {
			b.Fatalf("%d families: %v", len(families), err)
		}
	}
}
