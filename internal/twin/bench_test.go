package twin

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// BenchmarkBuild is what a twin of an ordinary Deployment costs to build.
func BenchmarkBuild(b *testing.B) {
	source := &unstructured.Unstructured{Object: object(b, tracked)}
	override := object(b, `{template: {spec: {containers: [{name: web, image: "web:2", env: [{name: MODE, value: canary}]}]}}}`)
	services := []Service{{Name: "web", Selector: map[string]string{"app": "web"}}}
	for b.Loop() {
		if _, err := Build(source, Wanted{Name: "web-exp-1", For: "faster", Override: override, Strategy: Strategic, Services: services}); err != nil {
			b.Fatal(err)
		}
	}
}
