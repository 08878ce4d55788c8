package experimentdeployment

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/labkeeper/labkeeper/api/experimentcontroller/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
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

// What was kept of the source goes when the twin is made of it no more, also where a pass on the way there has failed, whose writes were
// stored; and the status tells of the source that the twin is made of.
func TestPinWhereAnAnswerIsLost(t *testing.T) {
	for _, at := range []string{"update", "delete", "delete refused"} {
		t.Run(at, func(t *testing.T) {
			owner, source := faster(t, `{}`), object(t, web)
			owner.Spec.SourcePolicy = v1alpha1.SourcePinned
			l := newLab(t, owner, source)
			l.passed()
			l.ready(1)
			l.passed()
			lost := false
			lose := func(verb string, err error) error {
				if lost || verb != at || err != nil {
					return err
				}
				lost = true
				return errors.New("the answer is lost")
			}
			l.Live = interceptor.NewClient(l.Live.(client.WithWatch), interceptor.Funcs{
				Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
					return lose("update", c.Update(ctx, o, opts...))
				},
				Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
					if at == "delete refused" && !lost {
						lost = true
						return apierrors.NewForbidden(schema.GroupResource{}, o.GetName(), nil)
					}
					return lose("delete", c.Delete(ctx, o, opts...))
				},
			})
			changed := l.there(deployments, client.ObjectKeyFromObject(source))
			l.edit(changed, func() {
				changed.SetGeneration(changed.GetGeneration() + 1)
				_ = unstructured.SetNestedField(changed.Object, int64(7), "spec", "minReadySeconds")
			})
			l.ask(func(s *v1alpha1.ExperimentDeploymentSpec) { s.SourcePolicy = v1alpha1.SourceFollow })
			_, _, _ = l.pass()
			l.passed()
			l.passed()
			if pin := l.there(revisionGVK, key(owner)); !lost || pin != nil || l.twin().GetAnnotations()[v1alpha1.AnnotationPinned] != "" {
				t.Errorf("it is still pinned by %v", pin)
			}
			if st := l.owner().Status; st.SourceGeneration != l.there(deployments, client.ObjectKeyFromObject(source)).GetGeneration() {
				t.Errorf("its source is said to be of generation %d", st.SourceGeneration)
			}
		})
	}
}

// Nobody finds what is kept of a source in another namespace when its owner is forced away and there is no twin: it is not made for one
// that the API server refuses, or that cannot have its name.
func TestPinOfNoTwin(t *testing.T) {
	denied := func(why string) error {
		return apierrors.NewForbidden(schema.GroupResource{}, "web", errors.New(why))
	}
	at := key(elsewhere(t))
	twin, pin, trial := "create Deployment "+at.String(), "create ControllerRevision "+at.String(), "create Deployment "+at.String()+"-next"
	for name, test := range map[string]struct {
		owner  *v1alpha1.ExperimentDeployment
		policy v1alpha1.SourcePolicy
		others []client.Object
		err    error
		want   []string
	}{
		"a policy":         {elsewhere(t), v1alpha1.SourcePinned, nil, denied("denied by policy"), nil},
		"a quota":          {elsewhere(t), v1alpha1.SourcePinned, nil, denied("exceeded quota: q"), nil},
		"its name":         {elsewhere(t), v1alpha1.SourcePinned, []client.Object{named(object(t, web), at)}, nil, nil},
		"nothing":          {elsewhere(t), v1alpha1.SourcePinned, nil, nil, []string{trial, pin, twin}},
		"nothing, beside":  {faster(t, `{}`), v1alpha1.SourcePinned, nil, nil, []string{pin, twin}},
		"nothing, follows": {elsewhere(t), v1alpha1.SourceFollow, nil, nil, []string{twin}},
	} {
		t.Run(name, func(t *testing.T) {
			test.owner.Spec.SourcePolicy = test.policy
			l := newLab(t, test.owner, append(test.others, object(t, web), shop("lab"))...)
			l.fail = func(write string) error {
				if strings.HasPrefix(write, "create Deployment") {
					return test.err
				}
				return nil
			}
			_, writes, err := l.pass()
			if !slices.Equal(test.want, children(writes)) || (err != nil) != (test.err != nil) {
				t.Errorf("%v, and it writes %v", err, writes)
			}
			if test.err != nil {
				l.says(v1alpha1.ConditionReady, "False", kube.ReasonForbidden)
			}
		})
	}
}

// A twin that was to be pinned may not say so yet when its owner is forced away: what is kept of the source goes with it all the same.
func TestPinOfATwinThatIsSwept(t *testing.T) {
	owner := elsewhere(t)
	l := newLab(t, owner, object(t, web), shop("lab"))
	l.passed()
	l.failOnce("update Deployment")
	l.ask(func(s *v1alpha1.ExperimentDeploymentSpec) { s.SourcePolicy = v1alpha1.SourcePinned })
	if _, _, err := l.pass(); err == nil || l.there(revisionGVK, key(owner)) == nil {
		t.Fatalf("nothing is kept: %v", err)
	}
	last := l.owner()
	l.freed(last)
	l.drop(last)
	if _, err := l.sweepAll(t.Context(), l.at); err != nil {
		t.Fatal(err)
	}
	if left := l.there(revisionGVK, key(owner)); left != nil {
		t.Errorf("it stays: %v", left.Object["metadata"])
	}
}
