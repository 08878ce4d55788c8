package experimentdeployment

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/labkeeper/labkeeper/api/experimentcontroller/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/internal/twin"
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
			l.repaint(source)
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

// repaint is what somebody does to the source.
func (l *lab) repaint(source client.Object) {
	l.t.Helper()
	u := l.there(deployments, client.ObjectKeyFromObject(source))
	l.edit(u, func() {
		u.SetGeneration(u.GetGeneration() + 1)
		u.Object["spec"] = object(l.t, strings.ReplaceAll(web, "web:1", "web:2")).Object["spec"]
	})
}

// forge puts a ControllerRevision of another image, which has the marks of one of ours, in the place of what was kept of a source.
func (l *lab) forge(source client.Object) {
	l.t.Helper()
	owner := l.owner()
	if pin := l.there(revisionGVK, key(owner)); pin != nil {
		l.drop(pin)
	}
	another := object(l.t, strings.ReplaceAll(web, "web:1", "other:9"))
	another.SetGeneration(l.there(deployments, client.ObjectKeyFromObject(source)).GetGeneration())
	if err := l.server.Create(l.t.Context(), facts{owner: owner}.pin(another)); err != nil {
		l.t.Fatal(err)
	}
}

// A twin is made of what was kept of its source, and not of what somebody has put in the place of that.
func TestPinOfSomebodyElse(t *testing.T) {
	source := object(t, web)
	t.Run("before it is pinned", func(t *testing.T) {
		l := newLab(t, faster(t, `{}`), object(t, web))
		l.passed()
		l.forge(source)
		l.ask(func(s *v1alpha1.ExperimentDeploymentSpec) { s.SourcePolicy = v1alpha1.SourcePinned })
		l.passed()
		l.says(v1alpha1.ConditionSourceFound, "True", v1alpha1.ReasonSourceFound)
		pin := l.there(revisionGVK, key(l.owner()))
		if got := image(l.twin()); got != "web:1" || pin == nil || keptHash(pin) != l.owner().Status.PinnedHash || !saysPinned(l.twin()) {
			t.Errorf("the twin has the image %s, and is pinned by %v", got, pin)
		}
	})
	t.Run("before there is a twin", func(t *testing.T) {
		owner := faster(t, `{}`)
		owner.Spec.SourcePolicy = v1alpha1.SourcePinned
		l := newLab(t, owner, object(t, web))
		l.forge(source)
		l.passed()
		if got := image(l.twin()); got != "web:1" || l.owner().Status.PinnedHash == "" {
			t.Errorf("the twin has the image %s", got)
		}
	})
	t.Run("in the place of what was kept", func(t *testing.T) {
		owner := faster(t, `{}`)
		owner.Spec.SourcePolicy = v1alpha1.SourcePinned
		l := newLab(t, owner, object(t, web))
		l.passed()
		l.forge(source)
		l.ask(func(s *v1alpha1.ExperimentDeploymentSpec) { s.Replicas = ptr.To[int32](2) })
		_, writes := l.passed()
		if said := l.says(v1alpha1.ConditionSourceFound, "False", v1alpha1.ReasonPinLost); !strings.Contains(said, "is not what was kept") {
			t.Errorf("it says %q", said)
		}
		if got := image(l.twin()); got != "web:1" || len(children(writes)) != 0 {
			t.Errorf("the twin has the image %s, and %v is written", got, writes)
		}
	})
}

// What was kept is what it was where none has recorded it, as a manager of before, and where there is no twin any more.
func TestPinThatStays(t *testing.T) {
	for name, happens := range map[string]func(l *lab){
		"not recorded": func(l *lab) {
			owner := l.owner()
			owner.Status.PinnedHash = ""
			if err := l.server.Status().Update(l.t.Context(), owner); err != nil {
				l.t.Fatal(err)
			}
		},
		"without a twin": func(l *lab) { l.drop(l.twin()) },
	} {
		t.Run(name, func(t *testing.T) {
			owner, source := faster(t, `{}`), object(t, web)
			owner.Spec.SourcePolicy = v1alpha1.SourcePinned
			l := newLab(t, owner, source)
			l.passed()
			was := l.owner().Status.PinnedHash
			l.repaint(source)
			happens(l)
			l.ask(func(s *v1alpha1.ExperimentDeploymentSpec) { s.Replicas = ptr.To[int32](2) })
			l.passed()
			is := l.owner().Status.PinnedHash
			if n, _, _ := unstructured.NestedInt64(l.twin().Object, "spec", "replicas"); n != 2 || image(l.twin()) != "web:1" || was == "" || is != was {
				t.Errorf("it has %d replicas, the image %s, and is pinned by %s, before %s", n, image(l.twin()), is, was)
			}
		})
	}
}

// What was kept by a manager of before nothing tells from what somebody else has made, where there is no twin of it: the source is pinned as
// it is now.
func TestPinThatNothingTellsOf(t *testing.T) {
	owner, source := faster(t, `{}`), object(t, web)
	owner.Spec.SourcePolicy = v1alpha1.SourcePinned
	l := newLab(t, owner, source)
	l.passed()
	l.repaint(source)
	l.drop(l.twin())
	now := l.owner()
	now.Status.PinnedHash = ""
	if err := l.server.Status().Update(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	l.passed()
	if pin := l.there(revisionGVK, key(l.owner())); image(l.twin()) == "web:1" || pin == nil || keptHash(pin) != l.owner().Status.PinnedHash {
		t.Errorf("it has the image %s, and is pinned by %v", image(l.twin()), pin)
	}
}

// What is kept of a source is what the server has of it, and of what it refers to, whatever a cache has, and stays where no twin of it has
// come about yet.
func TestPinOfASourceUnseen(t *testing.T) {
	for _, kind := range []string{"Deployment", "Rollout"} {
		t.Run(kind, func(t *testing.T) {
			owner, source, served := faster(t, `{}`), object(t, web), kinds{}
			owner.Spec.SourcePolicy = v1alpha1.SourcePinned
			referring := object(t, `
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: canary, namespace: shop, generation: 7}
spec: {strategy: {canary: {}}, workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
`)
			if kind == "Rollout" {
				owner.Spec.SourceRef = v1alpha1.SourceRef{Kind: kind, Name: "canary"}
				served = kinds{twin.RolloutGVK}
			}
			l := newLab(t, owner, source, referring)
			l.Kinds = served
			at := client.ObjectKeyFromObject(source)
			was := l.there(deployments, at)
			l.cached[at] = was
			l.repaint(source)
			stands := func() {
				t.Helper()
				if _, writes, err := l.pass(); !apierrors.IsConflict(err) || len(children(writes)) != 0 {
					t.Errorf("%v, and it writes %v", err, writes)
				}
			}
			stands()
			delete(l.cached, at)
			l.failOnce("create " + kind)
			if _, _, err := l.pass(); err == nil || l.there(revisionGVK, key(owner)) == nil {
				t.Fatalf("nothing is kept: %v", err)
			}
			l.cached[at] = was
			stands()
			delete(l.cached, at)
			if _, writes := l.passed(); !slices.Equal(children(writes), []string{"create " + kind + " " + key(owner).String()}) {
				t.Errorf("it writes %v", writes)
			}
		})
	}
}

// What somebody has put in the place of what was kept is not taken for it by a cache that has the twin as it was when it was pinned.
func TestPinOfBefore(t *testing.T) {
	owner, source := faster(t, `{}`), object(t, strings.Replace(web, "Deployment", "StatefulSet", 1))
	owner.Spec.SourcePolicy, owner.Spec.SourceRef.Kind = v1alpha1.SourcePinned, "StatefulSet"
	l := newLab(t, owner, source)
	l.passed()
	was := l.twin()
	l.ask(func(s *v1alpha1.ExperimentDeploymentSpec) { s.SourcePolicy = v1alpha1.SourceFollow })
	l.passed()
	forged := source.DeepCopy()
	_ = unstructured.SetNestedField(forged.Object, "forged", "spec", "serviceName") // for which the twin is deleted
	if err := l.server.Create(t.Context(), facts{owner: owner}.pin(forged)); err != nil {
		t.Fatal(err)
	}
	l.cached[key(owner)] = was
	l.ask(func(s *v1alpha1.ExperimentDeploymentSpec) { s.SourcePolicy = v1alpha1.SourcePinned })
	if _, writes, err := l.pass(); !apierrors.IsConflict(err) || len(children(writes)) != 0 {
		t.Errorf("%v, and it writes %v", err, writes)
	}
	delete(l.cached, key(owner))
	l.passed()
	if name, _, _ := unstructured.NestedString(l.twin().Object, "spec", "serviceName"); name == "forged" || !saysPinned(l.twin()) {
		t.Errorf("it has the Service %q", name)
	}
}

// What has the name of what was kept goes with its owner, also where the kind of the twin is gone, and whoever made it.
func TestPinWithoutAKind(t *testing.T) {
	owner, source := faster(t, `{}`), object(t, strings.Replace(web, "apps/v1\nkind: Deployment", "argoproj.io/v1alpha1\nkind: Rollout", 1))
	owner.Spec.SourcePolicy, owner.Spec.SourceRef.Kind = v1alpha1.SourcePinned, "Rollout"
	l := newLab(t, owner, source)
	l.Kinds = kinds{twin.RolloutGVK}
	l.passed()
	l.drop(l.twin())
	pin := l.there(revisionGVK, key(owner))
	l.edit(pin, func() {
		_ = unstructured.SetNestedField(pin.Object, "another", "data", "spec", "template", "metadata", "labels", "app")
	})
	l.Kinds = kinds{}
	l.Live = interceptor.NewClient(l.Live.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, at client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if o.GetObjectKind().GroupVersionKind() == twin.RolloutGVK {
				return &meta.NoKindMatchError{GroupKind: twin.RolloutGVK.GroupKind(), SearchedVersions: []string{twin.RolloutGVK.Version}}
			}
			return c.Get(ctx, at, o, opts...)
		},
	})
	l.drop(l.owner())
	l.passed()
	if left := l.there(revisionGVK, key(owner)); left != nil || l.owner() != nil {
		t.Errorf("%v stays, and its owner: %t", left, l.owner() != nil)
	}
}

// What a twin is made of is not taken away by a cache that does not have that twin yet, before it is recorded.
func TestPinUnseen(t *testing.T) {
	source := object(t, web)
	l := newLab(t, faster(t, `{}`), source)
	l.passed()
	l.cached[key(l.owner())] = l.twin()
	l.ask(func(s *v1alpha1.ExperimentDeploymentSpec) { s.SourcePolicy = v1alpha1.SourcePinned })
	l.failOnce("patch status")
	if _, _, err := l.pass(); err == nil || !saysPinned(l.twin()) {
		t.Fatalf("it is not pinned: %v", err)
	}
	l.repaint(source)
	_, writes, err := l.pass()
	if !apierrors.IsConflict(err) || len(children(writes)) != 0 {
		t.Errorf("%v, and it writes %v", err, writes)
	}
	delete(l.cached, key(l.owner()))
	l.passed()
	if got := image(l.twin()); got != "web:1" || l.owner().Status.PinnedHash == "" {
		t.Errorf("it has the image %s", got)
	}
}
