package experimentdeployment

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/labkeeper/labkeeper/api/experimentcontroller/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/twin"
)

// What a draft is kept for has all that it is made of: a plan is the same with it and without it, whatever has changed since the plan
// before, and of what has not changed no other twin is made.
func TestDraftsAreOfNow(t *testing.T) {
	f := settled(t, newFacts(t, `{minReadySeconds: 5}`))
	f.drafts = newDrafts()
	for _, step := range []struct {
		name   string
		change func()
	}{
		{"nothing yet", func() {}},
		{"the override", func() { f.owner.Spec.OverrideSpec.Raw = []byte(`{"minReadySeconds": 6}`) }},
		{"how a number of it is written", func() { f.owner.Spec.OverrideSpec.Raw = []byte(`{"replicas": 2.0}`) }},
		{"and again", func() { f.owner.Spec.OverrideSpec.Raw = []byte(`{"replicas": 2}`) }},
		{"the strategy", func() {
			f.owner.Spec.OverrideSpec.Raw = []byte(`{"template": {"spec": {"containers": [{"name": "web", "image": "web:2"}]}}}`)
		}},
		{"the strategy alone", func() { f.owner.Spec.MergeStrategy = v1alpha1.MergeStrategic }},
		{"replicas", func() { f.owner.Spec.Replicas = ptr.To[int32](2) }},
		{"the image of the source", func() { runs(f.seen.Source, "web:3") }},
		{"an annotation of the source", func() { f.seen.Source.SetAnnotations(map[string]string{"team": "web"}) }},
		{"annotations that are copied", func() { f.annotations = []string{"team"} }},
		{"a label of the source", func() { f.seen.Source.SetLabels(map[string]string{"team": "web"}) }},
		{"labels that are copied", func() { f.labels = []string{"team"} }},
		{"a Service", func() {
			f.seen.Services = append(f.seen.Services, twin.Service{Name: "other", Selector: map[string]string{"app": "web"}})
		}},
		{"what a Service selects", func() { f.seen.Services[1].Selector = map[string]string{"app": "other"} }},
		{"a label that a Service selects", func() {
			f.owner.Spec.OverrideSpec.Raw = []byte(`{"template": {"metadata": {"labels": {"app": "other"}}}}`)
		}},
		{"which is allowed", func() { f.owner.Spec.AllowLabelOverride = true }},
		{"a privilege", func() {
			f.owner.Spec.OverrideSpec.Raw = []byte(`{"template": {"spec": {"hostNetwork": true}}}`)
		}},
		{"which is allowed, too", func() { f.seen.Privileged = true }},
		{"a volume for one pod", func() {
			f.seen.Claims = map[string][]string{"data": {"ReadWriteOnce"}}
			_ = unstructured.SetNestedSlice(f.seen.Source.Object, []any{map[string]any{"name": "data", "persistentVolumeClaim": map[string]any{"claimName": "data"}}}, "spec", "template", "spec", "volumes")
		}},
		{"and for one alone", func() { f.seen.Claims = map[string][]string{"data": {"ReadWriteOncePod"}} }},
		{"and for several", func() { f.seen.Claims = nil }},
		{"a Rollout", func() { f.seen.Referrer = "web" }},
		{"it is pinned", func() { f.owner.Spec.SourcePolicy, f.seen.Pin = v1alpha1.SourcePinned, f.pin(f.seen.Source.DeepCopy()) }},
		{"the source, which is pinned", func() { runs(f.seen.Source, "web:4") }},
		{"the generation that is pinned", func() { f.seen.Pin.Object["revision"] = int64(9) }},
		{"it is not pinned any more", func() { f.owner.Spec.SourcePolicy = v1alpha1.SourceFollow }},
		{"the name of the owner", func() { f.owner.Name = "slower" }},
	} {
		// As each pass has them: what is kept is nobody's to change.
		f.seen.Source, f.seen.Services = f.seen.Source.DeepCopy(), slices.Clone(f.seen.Services)
		if f.seen.Pin != nil {
			f.seen.Pin = f.seen.Pin.DeepCopy()
		}
		step.change()
		without := f
		without.drafts = nil
		want := without.plan()
		for range 2 {
			if diff := cmp.Diff(want, f.plan()); diff != "" {
				t.Errorf("%s (-made again +kept): %s", step.name, diff)
			}
		}
	}
	before, _ := f.build(f.source())
	if again, _ := f.build(f.source().DeepCopy()); again.Object != before.Object {
		t.Error("the same is made again")
	}
	other := f
	other.owner = f.owner.DeepCopy()
	other.owner.UID = "4-5-6"
	if of, _ := other.build(f.source()); of.Object.GetLabels()[v1alpha1.LabelUID] != "4-5-6" {
		t.Errorf("it is of another: %v", of.Object.GetLabels())
	}
}

// Whatever a plan does with a twin, the draft stays as it is.
func TestDraftsStay(t *testing.T) {
	for name, change := range map[string]func(f *facts){
		"created":      func(f *facts) { f.seen.Twin = nil },
		"changed":      func(f *facts) { f.seen.Twin.SetGeneration(9) },
		"without pods": func(f *facts) { f.owner.Status.ScaledToZero = &v1alpha1.ScaledToZero{WantedHash: f.plan().WantedHash} },
		"told of":      func(f *facts) { f.owner.Spec.DryRun = true },
		"created elsewhere": func(f *facts) {
			f.seen.Twin, f.owner.Namespace, f.owner.Spec.SourceRef.Namespace, f.seen.Granted = nil, "lab", "shop", true
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := settled(t, newFacts(t, `{}`))
			f.drafts = newDrafts()
			change(&f)
			before, _ := f.build(f.source())
			copied := before.Object.DeepCopy()
			f.plan()
			after, _ := f.build(f.source())
			if diff := cmp.Diff(copied, after.Object); diff != "" || after.Object != before.Object {
				t.Errorf("it has changed: %s", diff)
			}
		})
	}
}
