package experimentdeployment

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/labkeeper/labkeeper/api/experimentcontroller/v1alpha1"
)

// A pin is not given up before the twin is made of something else.
func TestPinOfARefusedEdit(t *testing.T) {
	owner := faster(t, `{}`)
	owner.Spec.SourcePolicy = v1alpha1.SourcePinned
	l := newLab(t, owner, object(t, web))
	l.passed()
	l.ready(1)
	l.passed()
	refuse := true
	l.Live = interceptor.NewClient(l.Live.(client.WithWatch), interceptor.Funcs{Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
		if refuse {
			return apierrors.NewInvalid(schema.GroupKind{}, o.GetName(), nil)
		}
		return c.Update(ctx, o, opts...)
	}})
	l.ask(func(s *v1alpha1.ExperimentDeploymentSpec) { s.SourcePolicy = v1alpha1.SourceFollow })
	l.passed()
	l.says(v1alpha1.ConditionReady, "False", "Rejected")
	refuse = false
	l.ask(func(s *v1alpha1.ExperimentDeploymentSpec) { s.SourcePolicy = v1alpha1.SourcePinned }) // taken back
	l.passed()
	l.says(v1alpha1.ConditionSourceFound, "True", v1alpha1.ReasonSourceFound)
	if l.there(revisionGVK, key(owner)) == nil {
		t.Error("what the twin is made of is gone, and the twin is not made of anything else")
	}
	l.ask(func(s *v1alpha1.ExperimentDeploymentSpec) { s.Replicas = ptr.To[int32](2) })
	l.passed()
	if n, _, _ := unstructured.NestedInt64(l.twin().Object, "spec", "replicas"); n != 2 {
		t.Errorf("no edit comes through any more: it has %d replicas", n)
	}
}

// A twin that went with its source is, when there is a source of that name again, one of that.
func TestPinOfADeletedSource(t *testing.T) {
	owner := faster(t, `{}`)
	owner.Spec.SourcePolicy, owner.Spec.OnSourceDeleted = v1alpha1.SourcePinned, v1alpha1.SourceDeletedDelete
	source := object(t, web)
	l := newLab(t, owner, source)
	l.passed()
	l.drop(l.there(deployments, client.ObjectKeyFromObject(source)))
	l.passed()
	l.freed(l.twin())
	l.passed()
	l.says(v1alpha1.ConditionTwinReady, "False", v1alpha1.ReasonSourceDeleted)
	another := object(t, strings.ReplaceAll(web, "web:1", "other:9"))
	another.SetUID("another")
	if err := l.server.Create(t.Context(), another); err != nil {
		t.Fatal(err)
	}
	l.passed()
	if got := image(l.twin()); got != "other:9" {
		t.Errorf("the new twin is made of the source that was deleted: %s", got)
	}
}
