package argoworkflows

import (
	"reflect"
	"testing"

	"github.com/labkeeper/labkeeper/test/crds"
)

// What is kept of a template is what is read of it.
func TestParameters(t *testing.T) {
	template := crds.RequireObject(t, `
apiVersion: argoproj.io/v1alpha1
kind: WorkflowTemplate
metadata: {namespace: argo, name: validation, labels: {a: b}, annotations: {a: b}}
spec:
  entrypoint: all
  arguments:
    parameters:
    - {name: region}
    - {name: duration, value: 60s, enum: [60s, 10m]}
    - {name: config, valueFrom: {configMapKeyRef: {name: x, key: k}}}
  templates:
  - {name: all, suspend: {}}
`)
	want := []Parameter{{Name: "region", Required: true}, {Name: "duration", Enum: []string{"60s", "10m"}}, {Name: "config"}}
	if got := Parameters(template); !reflect.DeepEqual(got, want) {
		t.Errorf("it declares %+v", got)
	}
	if _, err := StripTemplate(template); err != nil {
		t.Fatal(err)
	}
	if got := Parameters(template); !reflect.DeepEqual(got, want) {
		t.Errorf("stripped, it declares %+v", got)
	}
	spec := template.Object["spec"].(map[string]any)
	if len(spec) != 1 || len(template.GetLabels())+len(template.GetAnnotations()) > 0 || template.GetName() != "validation" {
		t.Errorf("it is %v", template)
	}
}
