package experimentdeployment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"github.com/labkeeper/labkeeper/api/experimentcontroller/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/internal/twin"
)

var deployments = twin.Kinds["Deployment"]

// named is somebody else's object that has a name.
func named(o *unstructured.Unstructured, at types.NamespacedName) *unstructured.Unstructured {
	o.SetNamespace(at.Namespace)
	o.SetName(at.Name)
	o.SetUID("9-9-9")
	return o
}

// m16: an object that has the name of a twin and is nobody's we know of is told of, and is neither changed nor deleted,
// whether the cache has it or not.
func TestForeign(t *testing.T) {
	for name, change := range map[string]func(u *unstructured.Unstructured){
		"m16 a foreign object": func(*unstructured.Unstructured) {},
		"m16 of another owner": func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{v1alpha1.LabelUID: "7-8-9"}) },
		"m16 of nobody":        func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{v1alpha1.LabelUID: ""}) },
		"m16 by its annotation only": func(u *unstructured.Unstructured) {
			u.SetAnnotations(map[string]string{v1alpha1.AnnotationOwner: "shop/faster"})
		},
		"m16 by its name only": func(u *unstructured.Unstructured) {
			u.SetLabels(map[string]string{v1alpha1.LabelName: "faster", twin.LabelRole: "experiment"})
		},
		"m16 by its owner reference only": func(u *unstructured.Unstructured) {
			u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ExperimentDeployment", Name: "faster", UID: "1-2-3"}})
		},
	} {
		for _, unseen := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, unseen %v", name, unseen), func(t *testing.T) {
				owner := faster(t, `{"minReadySeconds": 5}`)
				foreign := named(object(t, web), key(owner))
				change(foreign)
				l := newLab(t, owner, object(t, web), foreign)
				if unseen {
					l.cached[key(owner)] = nil
				}
				before := l.twin()
				result, writes, err := l.pass()
				if (err != nil) != unseen || !unseen && result.RequeueAfter != takenAgain {
					t.Errorf("nobody looks again: %v, %v", result, err)
				}
				if !strings.Contains(l.says(v1alpha1.ConditionReady, "False", v1alpha1.ReasonNameTaken), kube.Describe(foreign)) {
					t.Errorf("it is not named: %+v", l.owner().Status.Conditions)
				}
				if got := l.heard(v1alpha1.ReasonNameTaken); len(got) != 1 {
					t.Errorf("the Events are %v", got)
				}
				if ref := l.owner().Status.ExperimentResourceRef; ref != nil {
					t.Errorf("it is told of as the twin: %+v", ref)
				}
				l.later(takenAgain)
				_, again, _ := l.pass()
				l.drop(l.owner())
				_, torn := l.passed()
				if all := children(slices.Concat(writes, again, torn)); len(all) > 0 || len(again) > 0 {
					t.Errorf("it writes %v, then %v", all, again)
				}
				if l.owner() != nil {
					t.Error("it waits for what is not its own")
				}
				if diff := cmp.Diff(before, l.there(deployments, key(owner))); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// m16: a twin that somebody takes the mark off is known by the UID that was recorded of it: it is marked again, and goes with its owner.
func TestUnmarked(t *testing.T) {
	for name, change := range map[string]func(l *lab){"m16 it lives": func(*lab) {}, "m16 it goes": func(l *lab) { l.drop(l.owner()) }} {
		t.Run(name, func(t *testing.T) {
			l, owner := unmarked(t)
			change(l)
			l.passed()
			if left := l.there(deployments, key(owner)); name == "m16 it lives" && !marks.Owns(owner, left) {
				t.Errorf("it is not marked again: %v", left.GetLabels())
			}
			if left := l.there(deployments, key(owner)); name == "m16 it goes" && left != nil && left.GetDeletionTimestamp() == nil {
				t.Errorf("it stays")
			}
		})
		t.Run(name+", of another UID", func(t *testing.T) {
			l, owner := unmarked(t)
			now := l.owner()
			now.Status.ExperimentResourceRef.UID = "another"
			if err := l.server.Status().Update(t.Context(), now); err != nil {
				t.Fatal(err)
			}
			before := l.twin()
			change(l)
			l.passed()
			if diff := cmp.Diff(before, l.there(deployments, key(owner))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// m16: so is one that somebody has marked as another's.
func TestMarkedAsAnothers(t *testing.T) {
	for name, change := range map[string]func(l *lab){"m16 it lives": func(*lab) {}, "m16 it goes": func(l *lab) { l.drop(l.owner()) }} {
		t.Run(name, func(t *testing.T) {
			owner := elsewhere(t)
			l := newLab(t, owner, object(t, web), shop("lab"))
			l.passed()
			u := l.twin()
			l.edit(u, func() {
				labels := u.GetLabels()
				labels[v1alpha1.LabelUID] = "another"
				u.SetLabels(labels)
			})
			change(l)
			l.passed()
			switch left := l.there(deployments, key(owner)); {
			case name == "m16 it lives" && !marks.Owns(owner, left):
				t.Errorf("it is not marked again: %v", left.GetLabels())
			case name == "m16 it goes" && left != nil && left.GetDeletionTimestamp() == nil:
				t.Error("it stays")
			}
		})
	}
}

// d13: who takes the mark off again and again is told of, and answered once a minute.
func TestUnmarkedAgain(t *testing.T) {
	l, owner := unmarked(t)
	for range 2 * kube.ContendAtOnce {
		l.passed()
		l.unmark()
	}
	_, writes := l.passed()
	if all := children(writes); len(all) > 0 || marks.Owns(owner, l.twin()) {
		t.Errorf("it goes on: %v", all)
	}
	l.says(v1alpha1.ConditionTwinReady, "False", v1alpha1.ReasonContended)
}

// d13: who deletes the twin again and again is told of, and while it waits to be put right nothing is written.
func TestDeletedAgain(t *testing.T) {
	l := newLab(t, faster(t, `{}`), object(t, web))
	for range kube.ContendAtOnce + 1 {
		l.passed()
		l.drop(l.twin())
	}
	l.passed()
	l.says(v1alpha1.ConditionTwinReady, "False", v1alpha1.ReasonContended)
	if since := l.owner().Status.UnreadySince; since != nil {
		t.Errorf("there is none, and it is told not to have been ready since %v", since)
	}
	l.later(kube.ContendAgain / 2)
	if _, writes := l.passed(); len(writes) > 0 {
		t.Errorf("it writes %v", writes)
	}
	l.later(kube.ContendAgain / 2)
	if l.passed(); l.twin() == nil || l.owner().Status.UnreadySince == nil {
		t.Errorf("it is not put right: %+v", l.owner().Status)
	}
}

// unmarked is a lab whose twin has lost its mark.
func unmarked(t *testing.T) (*lab, *v1alpha1.ExperimentDeployment) {
	t.Helper()
	owner := faster(t, `{}`)
	l := newLab(t, owner, object(t, web))
	l.passed()
	l.unmark()
	return l, owner
}

// unmark takes the mark off the twin.
func (l *lab) unmark() {
	l.t.Helper()
	twin := l.twin()
	labels := twin.GetLabels()
	delete(labels, v1alpha1.LabelUID)
	twin.SetLabels(labels)
	if err := l.server.Update(l.t.Context(), twin); err != nil {
		l.t.Fatal(err)
	}
}

// m16: the name is taken once it is free.
func TestForeignGoes(t *testing.T) {
	owner := faster(t, `{}`)
	l := newLab(t, owner, object(t, web), named(object(t, web), key(owner)))
	l.passed()
	l.says(v1alpha1.ConditionTwinReady, "False", v1alpha1.ReasonNameTaken)
	l.drop(l.twin())
	if _, writes := l.passed(); !slices.Contains(writes, "create Deployment "+key(owner).String()) {
		t.Errorf("it writes %v", writes)
	}
	l.says(v1alpha1.ConditionTwinReady, "False", v1alpha1.ReasonCreated)
}

// A source that is gone has no twin again because a cache that is behind still has it.
func TestSourceOfTheCache(t *testing.T) {
	owner := faster(t, `{}`)
	owner.Spec.OnSourceDeleted = v1alpha1.SourceDeletedDelete
	source := object(t, web)
	l := newLab(t, owner, source)
	l.passed()
	before := l.there(deployments, client.ObjectKeyFromObject(source))
	l.drop(before)
	l.passed()
	l.freed(l.twin())
	l.passed()
	l.cached[client.ObjectKeyFromObject(source)] = before
	if _, writes, err := l.pass(); err == nil || !kube.Conflict(err) || len(writes) > 0 {
		t.Errorf("it writes %v: %v", writes, err)
	}
	delete(l.cached, client.ObjectKeyFromObject(source))
	if _, writes := l.passed(); len(writes) > 0 || l.says(v1alpha1.ConditionTwinReady, "False", v1alpha1.ReasonSourceDeleted) == "" {
		t.Errorf("it writes %v: %+v", writes, l.owner().Status.Conditions)
	}
}

// m16: what has taken the place of a twin since the cache has seen that is not deleted or changed for it.
func TestForeignInItsPlace(t *testing.T) {
	for name, change := range map[string]func(l *lab){
		"m16 changed": func(l *lab) { l.ask(func(s *v1alpha1.ExperimentDeploymentSpec) { s.Replicas = ptr.To[int32](2) }) },
		"m16 deleted": func(l *lab) { l.drop(l.owner()) },
	} {
		t.Run(name, func(t *testing.T) {
			owner := faster(t, `{}`)
			l := newLab(t, owner, object(t, web))
			l.passed()
			l.cached[key(owner)] = l.twin()
			l.drop(l.twin())
			if err := l.server.Create(t.Context(), named(object(t, web), key(owner))); err != nil {
				t.Fatal(err)
			}
			before := l.twin()
			change(l)
			if _, writes, err := l.pass(); !kube.Conflict(err) || err == nil || len(writes) > 0 {
				t.Errorf("it writes %v: %v", writes, err)
			}
			delete(l.cached, key(owner))
			if _, writes := l.passed(); len(children(writes)) > 0 {
				t.Errorf("it writes %v", writes)
			}
			if diff := cmp.Diff(before, l.there(deployments, key(owner))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// m16: neither is what is kept of a source anything of somebody else's; without it there is no twin.
func TestForeignPin(t *testing.T) {
	owner := faster(t, `{}`)
	owner.Spec.SourcePolicy = v1alpha1.SourcePinned
	foreign := named(object(t, `{apiVersion: apps/v1, kind: ControllerRevision, revision: 3, data: {spec: {}}}`), key(owner))
	l := newLab(t, owner, object(t, web), foreign)
	before := l.there(revisionGVK, key(owner))
	_, writes, err := l.pass()
	if err == nil || len(children(writes)) > 0 {
		t.Errorf("it writes %v: %v", writes, err)
	}
	if !strings.Contains(l.says(v1alpha1.ConditionReady, "False", v1alpha1.ReasonNameTaken), "ControllerRevision shop/") {
		t.Errorf("it is not named: %+v", l.owner().Status.Conditions)
	}
	l.drop(l.owner())
	if _, writes := l.passed(); len(children(writes)) > 0 || l.owner() != nil {
		t.Errorf("it writes %v", writes)
	}
	if diff := cmp.Diff(before, l.there(revisionGVK, key(owner))); diff != "" {
		t.Error(diff)
	}
}

// a1: a twin that was ready for long, and is brought to something else, has its time for that from then on.
func TestUnreadyAfterAnEdit(t *testing.T) {
	for name, change := range map[string]func(l *lab){
		"replicas": func(l *lab) { l.ask(func(s *v1alpha1.ExperimentDeploymentSpec) { s.Replicas = ptr.To[int32](2) }) },
		"minReadySeconds": func(l *lab) {
			l.ask(func(s *v1alpha1.ExperimentDeploymentSpec) { s.OverrideSpec.Raw = []byte(`{"minReadySeconds": 5}`) })
		},
		"drift": func(l *lab) {
			u := l.twin()
			l.edit(u, func() {
				_ = unstructured.SetNestedField(u.Object, int64(1), "spec", "minReadySeconds")
				u.SetGeneration(2)
			})
			l.report(u, func() { u.Object["status"].(map[string]any)["observedGeneration"] = int64(2) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, faster(t, `{}`), object(t, web))
			l.passed()
			l.ready(1)
			l.passed()
			l.later(time.Hour)
			l.passed()
			change(l)
			if _, writes := l.passed(); !slices.ContainsFunc(writes, func(w string) bool { return strings.HasPrefix(w, "update Deployment") }) {
				t.Fatalf("it writes %v", writes)
			}
			stays := func(when string) {
				t.Helper()
				l.passed()
				if n, _, _ := unstructured.NestedInt64(l.twin().Object, "spec", "replicas"); n == 0 || l.owner().Status.ScaledToZero != nil {
					t.Fatalf("%s it has %d replicas", when, n)
				}
			}
			stays("before its controller has seen it")
			l.ready(0)
			stays("at once")
			l.later(defaultUnready - time.Second)
			stays("before the time is over")
			l.later(time.Second)
			l.passed()
			if l.owner().Status.ScaledToZero == nil {
				t.Error("it stays for ever")
			}
		})
	}
}

// a1: an edit that is first looked at when the time of what was before is over has its own, whatever of the twin it changes, and once: what the
// server refuses does not stay for ever.
func TestUnreadyAfterALateEdit(t *testing.T) {
	for name, edit := range map[string]func(s *v1alpha1.ExperimentDeploymentSpec){
		"replicas":        func(s *v1alpha1.ExperimentDeploymentSpec) { s.Replicas = ptr.To[int32](2) },
		"minReadySeconds": func(s *v1alpha1.ExperimentDeploymentSpec) { s.OverrideSpec.Raw = []byte(`{"minReadySeconds": 5}`) },
		"strategy": func(s *v1alpha1.ExperimentDeploymentSpec) {
			s.OverrideSpec.Raw, s.OnUnready = []byte(`{"strategy": {"type": "Recreate", "rollingUpdate": null}}`), nil
		},
		"template": func(s *v1alpha1.ExperimentDeploymentSpec) {
			s.OverrideSpec.Raw = []byte(`{"template": {"metadata": {"labels": {"new": "x"}}}}`)
		},
	} {
		for _, fails := range []string{"", "get", "update"} {
			t.Run(strings.TrimSpace(name+" "+fails), func(t *testing.T) {
				owner := faster(t, `{}`)
				if name == "strategy" { // until then it was to be kept
					owner.Spec.OnUnready = &v1alpha1.OnUnready{Action: v1alpha1.UnreadyKeep}
				}
				l := newLab(t, owner, object(t, web))
				l.passed()
				l.ready(0)
				l.passed()
				l.later(2 * defaultUnready)
				l.ask(edit)
				live := l.Live
				l.Live = interceptor.NewClient(live.(client.WithWatch), interceptor.Funcs{
					Get: func(ctx context.Context, c client.WithWatch, at client.ObjectKey, o client.Object, opts ...client.GetOption) error {
						if fails == "get" {
							return errors.New("the server is not there")
						}
						return c.Get(ctx, at, o, opts...)
					},
					Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
						if fails == "update" {
							return apierrors.NewInvalid(schema.GroupKind{}, "x", nil)
						}
						return c.Update(ctx, o, opts...)
					},
				})
				if fails != "" {
					_, _, _ = l.pass()
					l.Live = live
				}
				l.passed()
				stays := func(when string) {
					t.Helper()
					l.passed()
					if n, _, _ := unstructured.NestedInt64(l.twin().Object, "spec", "replicas"); n == 0 || l.owner().Status.ScaledToZero != nil {
						t.Fatalf("%s it has %d replicas", when, n)
					}
				}
				l.ready(0)
				stays("at once")
				l.later(defaultUnready - time.Second)
				stays("before its time is over")
				l.later(time.Second)
				if l.passed(); l.owner().Status.ScaledToZero == nil {
					t.Error("it stays for ever")
				}
			})
		}
	}
	t.Run("what is no part of the twin", func(t *testing.T) {
		l := newLab(t, faster(t, `{}`), object(t, web))
		l.passed()
		l.ready(0)
		l.passed()
		l.later(defaultUnready)
		l.ask(func(s *v1alpha1.ExperimentDeploymentSpec) { s.TTL = &metav1.Duration{Duration: 24 * time.Hour} })
		if l.passed(); l.owner().Status.ScaledToZero == nil {
			t.Error("it has its time once more")
		}
	})
}

// o6: what was made where the manager does not act any more is taken down all the same.
func TestTeardownWhereNotWatched(t *testing.T) {
	owner := elsewhere(t)
	l := newLab(t, owner, object(t, web), shop("lab"))
	l.passed()
	l.Options.WatchNamespaces = []string{"lab"}
	l.unwatched = "shop"
	l.drop(l.owner())
	l.passed()
	l.freed(l.there(deployments, key(owner))) // what it has made is gone
	if l.passed(); l.owner() != nil || l.there(deployments, key(owner)) != nil {
		t.Errorf("it stays: %+v", l.owner())
	}
}

// What no source can be called is not there, and keeps nobody from taking the ExperimentDeployment away; a claim without a name
// keeps nothing from going on.
func TestNameThatNoneHas(t *testing.T) {
	owner := elsewhere(t)
	owner.Spec.SourceRef.Name = "deployment/web"
	l := newLab(t, owner, object(t, web), shop("lab"))
	l.passed()
	if found := meta.FindStatusCondition(l.owner().Status.Conditions, v1alpha1.ConditionSourceFound); found == nil || found.Status != metav1.ConditionFalse {
		t.Errorf("of the source it says %+v", found)
	}
	l.drop(l.owner())
	if l.passed(); l.owner() != nil {
		t.Errorf("it stays: %+v", l.owner())
	}

	owner = elsewhere(t)
	owner.Spec.OverrideSpec.Raw = []byte(`{"template": {"spec": {"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": ""}}]}}}`)
	l = newLab(t, owner, object(t, web), shop("lab"))
	l.passed()
}

// p6: of the volumes that an override names, which may be thousands, none is read, nor looked for again.
func TestClaimsOfAnOverride(t *testing.T) {
	owner := elsewhere(t)
	owner.Spec.OverrideSpec.Raw = []byte(`{"template": {"spec": {"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "a"}}, {"name": "b", "persistentVolumeClaim": {"claimName": "b"}}]}}}`)
	l := newLab(t, owner, object(t, web), shop("lab"))
	read := 0
	l.Live = interceptor.NewClient(l.Live.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, at client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if o.GetObjectKind().GroupVersionKind() == claimGVK {
				read++
			}
			return c.Get(ctx, at, o, opts...)
		},
	})
	result, _ := l.passed()
	if l.says(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonInvalidOverride); read != 0 || result.RequeueAfter != 0 {
		t.Errorf("%d are read, and looked at again in %s", read, result.RequeueAfter)
	}
}

// s1: what is to take the place of a twin is tried; what only the trial cannot do is no reason against it.
func TestTriedInVain(t *testing.T) {
	if err := apierrors.NewBadRequest(`admission webhook "w" does not support dry run`); !untried(err) {
		t.Errorf("%v is taken for a refusal", err)
	}
	if err := apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("exceeded quota: q, requested: count/x=1, used: count/x=1, limited: count/x=1")); !usedUp(err) {
		t.Errorf("%v is taken for a refusal", err)
	}
	for _, err := range []error{
		apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("denied by policy")), apierrors.NewBadRequest("strict decoding error: unknown field"),
		apierrors.NewInvalid(schema.GroupKind{}, "x", nil),
	} {
		if untried(err) || usedUp(err) {
			t.Errorf("%v is taken for nothing", err)
		}
	}
}

// s1: an object of somebody else that has the name by which what is to take the place of a twin is tried keeps nothing from going on.
func TestTriedBesideAnother(t *testing.T) {
	owner := faster(t, `{}`)
	owner.Spec.SourceRef.Kind = "StatefulSet"
	at := key(owner)
	at.Name += "-next"
	l := newLab(t, owner, object(t, db), named(object(t, db), at))
	l.Live = interceptor.NewClient(l.Live.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if l.there(o.GetObjectKind().GroupVersionKind(), client.ObjectKeyFromObject(o)) != nil { // which the server in memory does not look for in a trial
				return apierrors.NewAlreadyExists(schema.GroupResource{}, o.GetName())
			}
			return c.Create(ctx, o, opts...)
		},
	})
	before := l.there(twin.Kinds["StatefulSet"], at)
	l.passed()
	l.ask(func(s *v1alpha1.ExperimentDeploymentSpec) { s.OverrideSpec.Raw = []byte(`{"serviceName":"other"}`) })
	l.passed()
	if l.twin().GetDeletionTimestamp() == nil {
		t.Error("it stays")
	}
	if diff := cmp.Diff(before, l.there(twin.Kinds["StatefulSet"], at)); diff != "" {
		t.Error(diff)
	}
}

// s1: a webhook of others that hangs takes its time of the trial and of the deletion, for both of which a pass may have none.
func TestRecreatedBesideWhatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owner := faster(t, `{}`)
		owner.Spec.SourceRef.Kind = "StatefulSet"
		l := newLab(t, owner, object(t, db))
		l.passed()
		l.ask(func(s *v1alpha1.ExperimentDeploymentSpec) { s.OverrideSpec.Raw = []byte(`{"serviceName":"other"}`) })
		slowly := func(ctx context.Context, write func() error) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(40 * time.Second):
				return write()
			}
		}
		l.Live = interceptor.NewClient(l.Live.(client.WithWatch), interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				return slowly(ctx, func() error { return c.Create(ctx, o, opts...) })
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				return slowly(ctx, func() error { return c.Delete(ctx, o, opts...) })
			},
		})
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			_, _ = l.Reconcile(ctx, l.owner()) // which may come to the end of its time
			cancel()
		}
		if l.twin().GetDeletionTimestamp() == nil {
			t.Errorf("it is tried again and again: %v", l.writes)
		}
	})
}

// a1: a twin that is not ready when the server refuses what is wanted of it loses its pods all the same, and in its time.
func TestUnreadyWhileTheServerRefuses(t *testing.T) {
	for name, override := range map[string]string{
		"the template": `{"template":{"metadata":{"labels":{"bad":"x"}}}}`, "what is beside it": `{"minReadySeconds":700}`,
	} {
		for ready, long := range map[int64]string{0: "new", 1: "long ready"} {
			t.Run(name+", "+long, func(t *testing.T) {
				l := newLab(t, faster(t, `{}`), object(t, web))
				l.passed()
				l.ready(ready)
				l.passed()
				if ready > 0 {
					l.later(time.Hour)
					l.passed()
				}
				l.Live = interceptor.NewClient(l.Live.(client.WithWatch), interceptor.Funcs{Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
					spec := o.(*unstructured.Unstructured).Object["spec"].(map[string]any)
					if _, bad, _ := unstructured.NestedString(spec, "template", "metadata", "labels", "bad"); bad || spec["minReadySeconds"] == int64(700) {
						return apierrors.NewInvalid(schema.GroupKind{}, "x", nil)
					}
					return c.Update(ctx, o, opts...)
				}})
				l.ask(func(s *v1alpha1.ExperimentDeploymentSpec) { s.OverrideSpec.Raw = []byte(override) })
				has := func() int64 {
					n, _, _ := unstructured.NestedInt64(l.twin().Object, "spec", "replicas")
					return n
				}
				l.passed()
				if l.says(v1alpha1.ConditionReady, "False", kube.ReasonRejected); has() == 0 {
					t.Fatal("its pods go with what is refused")
				}
				if _, writes := l.passed(); len(writes) > 0 {
					t.Errorf("refused again it writes %v", writes)
				}
				l.ready(0)
				for range 9 {
					l.passed()
					l.later(time.Minute)
				}
				if has() == 0 {
					t.Fatal("its pods go at once")
				}
				for range 3 {
					l.passed()
					l.later(time.Minute)
				}
				if has() != 0 {
					t.Fatalf("it has %d pods", has())
				}
				l.ready(0)
				l.passed()
				l.says(v1alpha1.ConditionTwinReady, "False", v1alpha1.ReasonUnready)
				if _, writes := l.passed(); len(writes) > 0 {
					t.Errorf("settled it writes %v", writes)
				}
			})
		}
	}
}

// a1: of the time in which a twin was not looked at nothing is known.
func TestUnreadyAfterItWasNotSeen(t *testing.T) {
	l := newLab(t, faster(t, `{}`), object(t, web))
	l.passed()
	l.ready(1)
	l.passed()
	l.later(24 * time.Hour)
	l.passed()
	l.Options.WatchNamespaces = []string{"other"}
	l.passed()
	l.Options.WatchNamespaces = nil
	l.ready(0)
	if l.passed(); l.owner().Status.ScaledToZero != nil {
		t.Errorf("its pods go at once: %+v", l.owner().Status)
	}
	l.later(defaultUnready)
	if l.passed(); l.owner().Status.ScaledToZero == nil {
		t.Error("its pods stay for ever")
	}
}

// a1: since when a twin was not ready whose pods were taken away for that is told as long as they are, whether it is looked at or not.
func TestUnreadyStaysToldOf(t *testing.T) {
	l := newLab(t, faster(t, `{}`), object(t, web))
	l.passed()
	l.ready(0)
	l.passed()
	l.later(defaultUnready)
	l.passed()
	l.passed()
	told := l.owner().Status
	if told.ScaledToZero == nil || told.UnreadySince == nil {
		t.Fatalf("it has its pods: %+v", told)
	}
	l.Options.WatchNamespaces = []string{"other"}
	l.passed()
	l.Options.WatchNamespaces = nil
	if l.passed(); !l.owner().Status.UnreadySince.Equal(told.UnreadySince) {
		t.Errorf("it was not ready since %v, and is told to have been since %v", told.UnreadySince, l.owner().Status.UnreadySince)
	}
}

// a6: that the pods are taken away is told of once, with why, whatever fails on the way.
func TestUnreadyIsToldOfOnce(t *testing.T) {
	for name, fails := range map[string]string{
		"nothing fails": "", "the status": "patch status of ExperimentDeployment", "the twin": "update Deployment",
	} {
		for _, kept := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, kept %v", name, kept), func(t *testing.T) {
				l := newLab(t, faster(t, `{}`), object(t, web))
				l.passed()
				l.ready(0)
				if kept {
					l.ask(func(s *v1alpha1.ExperimentDeploymentSpec) { s.OverrideSpec.Raw = []byte(`{"replcas": 1}`) })
				}
				if result, _ := l.passed(); result.RequeueAfter != defaultUnready {
					t.Fatalf("it looks again in %s", result.RequeueAfter)
				}
				l.later(defaultUnready)
				why := ": " + twin.Read(l.twin()).Message
				failed := l.failOnce(fails)
				for range 6 {
					_, _, _ = l.pass()
				}
				if !*failed {
					t.Fatal("nothing fails")
				}
				if n, _, _ := unstructured.NestedInt64(l.twin().Object, "spec", "replicas"); n != 0 {
					t.Fatalf("it has %d replicas", n)
				}
				l.ready(0)
				l.later(time.Hour)
				l.passed()
				if _, writes := l.passed(); len(writes) > 0 {
					t.Errorf("settled it writes %v", writes)
				}
				got := l.heard(v1alpha1.ReasonUnready)
				if len(got) != 1 {
					t.Fatalf("the Events are %q", got)
				}
				const says = "Warning " + v1alpha1.ReasonUnready + " Its pods have not been ready for 10m0s, and are taken away"
				if !strings.HasPrefix(got[0], says) || !strings.HasSuffix(got[0], why) {
					t.Errorf("it says %q", got[0])
				}
				l.says(v1alpha1.ConditionReady, "False", map[bool]string{false: v1alpha1.ReasonUnready, true: v1alpha1.ReasonInvalidOverride}[kept])
				l.says(v1alpha1.ConditionTwinReady, "False", v1alpha1.ReasonUnready)
			})
		}
	}
}

const twice = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, generation: 7}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: "web:1"
        env: [{name: MODE, value: a}, {name: OTHER, value: x}, {name: MODE, value: b}]
        ports: [{containerPort: 80, name: http}, {containerPort: 80, name: also}, {containerPort: 80}]
`

// p8: a source may have an element twice, which server-side apply refuses: its twin is created and updated, with both.
func TestTwice(t *testing.T) {
	for name, test := range map[string]struct {
		strategy      v1alpha1.MergeStrategy
		before, after string
		image         string
	}{
		"p8 replaced":  {v1alpha1.MergeReplace, `{"minReadySeconds": 5}`, `{"minReadySeconds": 6}`, "web:1"},
		"p8 strategic": {v1alpha1.MergeStrategic, `{"minReadySeconds": 5}`, `{"template":{"spec":{"containers":[{"name":"web","image":"web:2"}]}}}`, "web:2"},
		"p8 kept":      {v1alpha1.MergeReplace, `{}`, `{"replcas": 1}`, "web:1"},
	} {
		t.Run(name, func(t *testing.T) {
			owner := faster(t, test.before)
			owner.Spec.MergeStrategy = test.strategy
			l := newLab(t, owner, object(t, twice))
			whole := func(runs string) {
				t.Helper()
				at := []string{"spec", "template", "spec", "containers"}
				want, _, _ := unstructured.NestedSlice(object(t, twice).Object, at...)
				have, _, _ := unstructured.NestedSlice(l.twin().Object, at...)
				if len(have) != 1 {
					t.Fatalf("its containers are %v", have)
				}
				for _, field := range []string{"env", "ports"} {
					if diff := cmp.Diff(want[0].(map[string]any)[field], have[0].(map[string]any)[field]); diff != "" {
						t.Errorf("%s: %s", field, diff)
					}
				}
				if got := image(l.twin()); got != runs {
					t.Errorf("its image is %s", got)
				}
			}
			_, writes := l.passed()
			if diff := cmp.Diff([]string{"create Deployment " + key(owner).String()}, children(writes)); diff != "" {
				t.Error(diff)
			}
			whole("web:1")
			l.ready(0)
			l.passed()
			l.ask(func(s *v1alpha1.ExperimentDeploymentSpec) { s.OverrideSpec.Raw = []byte(test.after) })
			if test.after == `{"replcas": 1}` { // then it is written when its pods are taken away
				l.later(defaultUnready)
				l.passed()
			}
			_, writes = l.passed()
			if diff := cmp.Diff([]string{"update Deployment " + key(owner).String()}, children(writes)); diff != "" {
				t.Error(diff)
			}
			whole(test.image)
		})
	}
}

// image is that of the only container of a workload.
func image(u *unstructured.Unstructured) string {
	containers, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
	return containers[0].(map[string]any)["image"].(string)
}

// runs gives the only container of a workload another image.
func runs(u *unstructured.Unstructured, image string) {
	containers, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
	containers[0].(map[string]any)["image"] = image
	_ = unstructured.SetNestedSlice(u.Object, containers, "spec", "template", "spec", "containers")
}

// c10: while its source is being rolled out the twin has what is asked for, however far that has come, and nothing is
// written when that alone changes.
func TestSourceInRollout(t *testing.T) {
	statuses := []map[string]any{
		{"observedGeneration": int64(6), "replicas": int64(3), "updatedReplicas": int64(3), "readyReplicas": int64(3)},
		{"observedGeneration": int64(7), "replicas": int64(4), "updatedReplicas": int64(1), "readyReplicas": int64(3), "unavailableReplicas": int64(1)},
		{"observedGeneration": int64(7), "replicas": int64(3), "updatedReplicas": int64(2), "readyReplicas": int64(1), "conditions": []any{
			map[string]any{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"},
		}},
		{"observedGeneration": int64(7), "replicas": int64(3), "updatedReplicas": int64(3), "readyReplicas": int64(3)},
	}
	for i, status := range statuses {
		t.Run(fmt.Sprintf("c10 begun at %d", i), func(t *testing.T) {
			source := object(t, web)
			runs(source, "web:2")
			source.Object["status"] = status
			l := newLab(t, faster(t, `{}`), source)
			_, writes := l.passed()
			if diff := cmp.Diff([]string{"create Deployment " + key(l.owner()).String()}, children(writes)); diff != "" {
				t.Error(diff)
			}
			l.ready(1)
			l.passed()
			l.says(v1alpha1.ConditionReady, "True", twin.ReasonReady)
			for j, next := range statuses {
				source = l.there(deployments, client.ObjectKeyFromObject(source))
				before := source.DeepCopy()
				l.report(source, func() { source.Object["status"] = next })
				if asksFor(before, source) {
					t.Errorf("status %d wakes", j)
				}
				if _, writes := l.passed(); len(writes) > 0 {
					t.Errorf("status %d: it writes %v", j, writes)
				}
			}
			if got := image(l.twin()); got != "web:2" || l.owner().Status.SourceGeneration != 7 {
				t.Errorf("it is of %q, of generation %d", got, l.owner().Status.SourceGeneration)
			}
			source = l.there(deployments, client.ObjectKeyFromObject(source))
			before := source.DeepCopy()
			l.edit(source, func() { // and another before that has come to its end
				runs(source, "web:3")
				source.SetGeneration(8)
			})
			if !asksFor(before, source) {
				t.Error("another template does not wake")
			}
			_, writes = l.passed()
			if diff := cmp.Diff([]string{"update Deployment " + key(l.owner()).String()}, children(writes)); diff != "" {
				t.Error(diff)
			}
			if got := image(l.twin()); got != "web:3" || l.owner().Status.SourceGeneration != 8 {
				t.Errorf("it is of %q, of generation %d", got, l.owner().Status.SourceGeneration)
			}
		})
	}
}

// A source that was deleted and created again while a watch was broken off comes as an update, maybe of the same generation.
func TestAnotherSourceOfTheName(t *testing.T) {
	before := object(t, web)
	before.SetUID("one")
	before.SetGeneration(1)
	after := before.DeepCopy()
	runs(after, "web:2")
	if asksFor(before, after) {
		t.Error("it has the generation of before")
	}
	after.SetUID("two")
	if !asksFor(before, after) {
		t.Error("another one does not wake")
	}
}

// o1, o5: beside its owner the twin has an owner reference, as the backstop of the finalizer; the garbage collector
// would delete one with it elsewhere. So it is with what is kept of a source.
func TestOwnerReference(t *testing.T) {
	for name, test := range map[string]struct {
		owner *v1alpha1.ExperimentDeployment
		want  []metav1.OwnerReference
	}{
		"o5 beside it": {faster(t, `{}`), []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "ExperimentDeployment", Name: "faster", UID: "1-2-3",
			Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
		}}},
		"o1 elsewhere": {elsewhere(t), nil},
	} {
		t.Run(name, func(t *testing.T) {
			test.owner.Spec.SourcePolicy = v1alpha1.SourcePinned
			source := object(t, web)
			source.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "App", Name: "web", UID: "a", Controller: ptr.To(true)}})
			l := newLab(t, test.owner, source, shop("lab"))
			l.passed()
			if diff := cmp.Diff([]string{v1alpha1.Finalizer}, l.owner().Finalizers); diff != "" {
				t.Error(diff)
			}
			for pass := range 2 {
				for _, child := range []*unstructured.Unstructured{l.twin(), l.there(revisionGVK, key(test.owner))} {
					if diff := cmp.Diff(test.want, child.GetOwnerReferences()); diff != "" {
						t.Errorf("%s, pass %d: %s", child.GetKind(), pass, diff)
					}
					if child.GetNamespace() != "shop" || child.GetLabels()[v1alpha1.LabelUID] != "1-2-3" || child.GetAnnotations()[v1alpha1.AnnotationOwner] != l.at.String() || len(child.GetFinalizers()) > 0 {
						t.Errorf("%s, pass %d: it is %v", child.GetKind(), pass, child.Object["metadata"])
					}
				}
				l.ask(func(s *v1alpha1.ExperimentDeploymentSpec) { s.Replicas = ptr.To[int32](2) })
				l.passed()
			}
		})
	}
}

// o5: the twin is deleted by its name and UID, in the foreground, and waited for, whether it has an owner reference
// (which --cascade=orphan takes off) or not; the finalizers of others stay.
func TestTornDown(t *testing.T) {
	for name, test := range map[string]struct {
		owner  *v1alpha1.ExperimentDeployment
		change func(l *lab)
	}{
		"o5 beside it": {faster(t, `{}`), func(*lab) {}},
		"o5 orphaned": {faster(t, `{}`), func(l *lab) {
			u := l.twin()
			l.edit(u, func() { u.SetOwnerReferences(nil) })
		}},
		"o1 elsewhere": {elsewhere(t), func(*lab) {}},
		"o1 when the grant is taken back": {elsewhere(t), func(l *lab) {
			l.edit(shop(""), func() {})
		}},
		"o6 without a source, and with a bad override": {faster(t, `{}`), func(l *lab) {
			l.drop(l.there(deployments, types.NamespacedName{Namespace: "shop", Name: "web"}))
			l.ask(func(s *v1alpha1.ExperimentDeploymentSpec) { s.OverrideSpec.Raw = []byte(`[]`) })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			test.owner.Finalizers = []string{metav1.FinalizerOrphanDependents}
			l := newLab(t, test.owner, object(t, web), shop("lab"))
			l.passed()
			test.change(l)
			l.drop(l.owner())
			_, writes := l.passed()
			if diff := cmp.Diff([]string{"delete in the foreground Deployment " + key(test.owner).String()}, children(writes)); diff != "" {
				t.Error(diff)
			}
			for range 2 {
				result, writes := l.passed()
				if len(writes) > 0 || result.RequeueAfter != stillThere || !slices.Contains(l.owner().Finalizers, v1alpha1.Finalizer) {
					t.Errorf("while it goes: %v, %v, %v", result, writes, l.owner().Finalizers)
				}
			}
			l.says(v1alpha1.ConditionTwinReady, "False", v1alpha1.ReasonDeleting)
			l.freed(l.twin())
			if result, _ := l.passed(); result.RequeueAfter != 0 {
				t.Errorf("when it is gone: %v", result)
			}
			if diff := cmp.Diff([]string{metav1.FinalizerOrphanDependents}, l.owner().Finalizers); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// o7: an owner that was put back has another UID, and so another twin; the one of before is taken down, and a copy that
// somebody has made of that is not.
func TestPutBack(t *testing.T) {
	for name, owner := range map[string]*v1alpha1.ExperimentDeployment{"o7 beside it": faster(t, `{}`), "o7 elsewhere": elsewhere(t)} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, owner, object(t, web), shop("lab"))
			l.passed()
			old := key(owner)
			for _, at := range []client.ObjectKey{{Namespace: old.Namespace, Name: "copied"}, {Namespace: "staging", Name: old.Name}} {
				copied := l.twin()
				copied.SetNamespace(at.Namespace)
				copied.SetName(at.Name)
				copied.SetUID(types.UID(at.Namespace + at.Name))
				copied.SetResourceVersion("")
				if err := l.server.Create(t.Context(), copied); err != nil {
					t.Fatal(err)
				}
			}
			last := l.owner()
			l.freed(last)
			l.drop(last)
			back := owner.DeepCopy()
			back.UID, back.Finalizers, back.Status = "4-5-6", nil, last.Status
			if err := l.server.Create(t.Context(), back); err != nil {
				t.Fatal(err)
			}
			if key(back) == old {
				t.Fatal("it has the name of the one before")
			}
			l.writes = nil
			all := kube.Sweeping(reconcile.Func(func(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
				return l.Reconcile(ctx, l.owner())
			}), l.sweepAll)
			if _, err := all.Reconcile(t.Context(), ctrl.Request{NamespacedName: l.at}); err != nil {
				t.Fatal(err)
			}
			want := []string{"create Deployment " + key(back).String(), "delete in the foreground Deployment " + old.String()}
			if diff := cmp.Diff(want, children(l.writes)); diff != "" {
				t.Error(diff)
			}
			if refs := l.twin().GetOwnerReferences(); len(refs) > 0 && refs[0].UID != back.UID {
				t.Errorf("it is of %v", refs)
			}
		})
	}
}

// What of an owner that was forced away cannot be taken down, as by a policy of others, keeps no other twin from that, nor the one that
// has the name now from its own.
func TestSweepThatFails(t *testing.T) {
	l := newLab(t, faster(t, `{}`), object(t, web))
	var left []types.NamespacedName
	for _, uid := range []types.UID{"4-5-6", "7-8-9"} {
		l.passed()
		last := l.owner()
		left = append(left, key(last))
		l.freed(last)
		l.drop(last)
		back := faster(t, `{}`)
		back.UID = uid
		if err := l.server.Create(t.Context(), back); err != nil {
			t.Fatal(err)
		}
	}
	denied := errors.New("a policy denies it")
	l.fail = func(write string) error {
		if write == "delete in the foreground Deployment "+left[0].String() {
			return denied
		}
		return nil
	}
	all := kube.Sweeping(reconcile.AsReconciler(l.Client, l.Reconciler), l.sweepAll)
	if _, err := all.Reconcile(t.Context(), ctrl.Request{NamespacedName: l.at}); !errors.Is(err, denied) {
		t.Errorf("it is not tried again: %v", err)
	}
	if l.twin() == nil {
		t.Error("the one that has the name has no twin")
	}
	going := func(i int) bool {
		u := l.there(deployments, left[i])
		return u == nil || u.GetDeletionTimestamp() != nil
	}
	if going(0) || !going(1) {
		t.Errorf("the first goes: %v, the second: %v", going(0), going(1))
	}
	l.fail = func(string) error { return nil }
	if _, err := all.Reconcile(t.Context(), ctrl.Request{NamespacedName: l.at}); err != nil || !going(0) {
		t.Errorf("it stays: %v", err)
	}
}

// That a copy which somebody has made of a twin is nobody's is seen without asking the server in each pass.
func TestCopyIsNotAskedFor(t *testing.T) {
	l := newLab(t, faster(t, `{}`), object(t, web))
	l.passed()
	copied := l.twin()
	copied.SetName("copied")
	copied.SetResourceVersion("")
	if err := l.server.Create(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	last := l.owner()
	l.freed(last)
	l.drop(last)
	asked := 0
	l.Live = interceptor.NewClient(l.server, interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		asked++
		return errors.New("the server does not answer")
	}})
	if _, err := l.sweepAll(t.Context(), l.at); asked != 1 || err == nil {
		t.Errorf("of a twin that is left it asks %d times: %v", asked, err)
	}
	l.drop(l.there(deployments, key(last)))
	if _, err := l.sweepAll(t.Context(), l.at); asked != 1 || err != nil {
		t.Errorf("of a copy it asks, too: %v", err)
	}
}

// A workload that names an owner which no object can be is nobody's: it is left alone, and there is nothing to try again.
func TestImpossibleOwner(t *testing.T) {
	l := newLab(t, faster(t, `{}`), object(t, web))
	l.passed()
	for _, owner := range []string{"lab/faster/x", "lab/"} {
		copied := l.twin()
		copied.SetName("copied")
		copied.SetResourceVersion("")
		copied.SetAnnotations(map[string]string{v1alpha1.AnnotationOwner: owner})
		if err := l.server.Create(t.Context(), copied); err != nil {
			t.Fatal(err)
		}
		l.writes = nil
		for _, request := range marks.Request(copied) {
			if _, err := l.sweepAll(t.Context(), request.NamespacedName); err != nil || len(l.writes) > 0 {
				t.Errorf("%s: %v, and it writes %q", owner, err, l.writes)
			}
		}
		if err := l.server.Delete(t.Context(), copied); err != nil {
			t.Fatal(err)
		}
	}
}

// r12, o3: a source in another namespace whose kind is not installed waits for that, if its namespace grants it, and
// for the grant if not.
func TestGrantedAndNotServed(t *testing.T) {
	for name, test := range map[string]struct {
		grants       string
		status       metav1.ConditionStatus
		accepted     string
		found, ready string
	}{
		"r12 granted":    {"lab", "True", v1alpha1.ReasonAccepted, v1alpha1.ReasonKindUnavailable, v1alpha1.ReasonKindUnavailable},
		"o3 not granted": {"other", "False", v1alpha1.ReasonNotGranted, v1alpha1.ReasonPending, v1alpha1.ReasonNotGranted},
	} {
		t.Run(name, func(t *testing.T) {
			owner := elsewhere(t)
			owner.Spec.SourceRef.Kind = "Rollout"
			l := newLab(t, owner, shop(test.grants))
			if _, writes := l.passed(); len(children(writes)) > 0 {
				t.Errorf("it writes %v", writes)
			}
			l.says(v1alpha1.ConditionAccepted, test.status, test.accepted)
			l.says(v1alpha1.ConditionSourceFound, "False", test.found)
			l.says(v1alpha1.ConditionReady, "False", test.ready)
		})
	}
}

// r12: a kind that is there and cannot be listed is not to be installed.
func TestUnavailable(t *testing.T) {
	for says, state := range map[string]interface {
		State(gvk schema.GroupVersionKind) kube.KindState
	}{
		"The cluster does not serve Rollout.argoproj.io/v1alpha1; install":                                       kinds{},
		"The watch on Rollout.argoproj.io/v1alpha1 has not synced; check that the manager may list and watch it": syncing{twin.RolloutGVK},
	} {
		t.Run("r12 "+says, func(t *testing.T) {
			owner := faster(t, `{}`)
			owner.Spec.SourceRef.Kind = "Rollout"
			l := newLab(t, owner)
			l.Kinds = state
			l.passed()
			if said := l.says(v1alpha1.ConditionSourceFound, "False", v1alpha1.ReasonKindUnavailable); !strings.HasPrefix(said, says) {
				t.Errorf("it says %q", said)
			}
		})
	}
}

// Kinds of others beside the source are read where they are installed, and nowhere else.
func TestNeighboursOfOthers(t *testing.T) {
	for name, test := range map[string]struct {
		gvk       schema.GroupVersionKind
		reference string
	}{
		"a4 ScaledObjects":          {scaledObjectGVK, "scaleTargetRef"},
		"a5 VerticalPodAutoscalers": {verticalGVK, "targetRef"},
	} {
		for _, served := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, served %v", name, served), func(t *testing.T) {
				scaler := object(t, "metadata: {name: scaler, namespace: shop}\nspec: {"+test.reference+": {apiVersion: apps/v1, kind: Deployment, name: web}}")
				scaler.SetGroupVersionKind(test.gvk)
				l := newLab(t, faster(t, `{"minReadySeconds": 5}`), object(t, web), scaler)
				if served {
					l.Kinds = kinds{test.gvk}
				}
				l.passed()
				if !served {
					l.says(v1alpha1.ConditionAutoscalerInterference, "False", v1alpha1.ReasonNone)
				} else if said := l.says(v1alpha1.ConditionAutoscalerInterference, "True", v1alpha1.ReasonInterference); !strings.HasPrefix(said, test.gvk.Kind+" scaler") {
					t.Errorf("it says %q", said)
				}
			})
		}
	}
}

// unserved are those of which the cluster serves other versions.
type unserved []schema.GroupVersionKind

func (k unserved) State(gvk schema.GroupVersionKind) kube.KindState {
	if slices.Contains(k, gvk) {
		return kube.KindUnserved
	}
	return kube.KindMissing
}

// a1: of autoscalers that are there and cannot be read nobody says that they count nothing, nor of those of workloads
// that cannot be.
func TestAutoscalersThatCannotBeRead(t *testing.T) {
	scaler := object(t, "kind: HorizontalPodAutoscaler\napiVersion: autoscaling/v2\nmetadata: {name: web, namespace: shop}\nspec: {scaleTargetRef: {kind: Deployment, name: web}}")
	ofRollout := object(t, "kind: HorizontalPodAutoscaler\napiVersion: autoscaling/v2\nmetadata: {name: wide, namespace: shop}\nspec: {scaleTargetRef: {kind: Rollout, name: wide}}")
	for name, test := range map[string]struct {
		kinds interface {
			State(gvk schema.GroupVersionKind) kube.KindState
		}
		beside []client.Object
		status metav1.ConditionStatus
		reason string
		says   []string
	}{
		"a4 ScaledObjects":                  {syncing{scaledObjectGVK}, nil, "Unknown", v1alpha1.ReasonNotListed, []string{"ScaledObject.keda.sh/v1alpha1"}},
		"a5 VerticalPodAutoscalers":         {syncing{verticalGVK}, nil, "Unknown", v1alpha1.ReasonNotListed, []string{"VerticalPodAutoscaler.autoscaling.k8s.io/v1"}},
		"a5 of another version":             {unserved{verticalGVK}, nil, "Unknown", v1alpha1.ReasonNotListed, []string{"VerticalPodAutoscaler.autoscaling.k8s.io/v1"}},
		"a1 beside one that is read":        {syncing{scaledObjectGVK}, []client.Object{scaler}, "True", v1alpha1.ReasonInterference, []string{"HorizontalPodAutoscaler web scales the source", "ScaledObject.keda.sh/v1alpha1"}},
		"a1 of a Rollout":                   {syncing{twin.RolloutGVK}, []client.Object{ofRollout}, "Unknown", v1alpha1.ReasonNotListed, []string{"Rollout.argoproj.io/v1alpha1"}},
		"a1 of no Rollout":                  {syncing{twin.RolloutGVK}, nil, "False", v1alpha1.ReasonNone, nil},
		"a1 of a Rollout, which is no kind": {kinds{}, []client.Object{ofRollout}, "False", v1alpha1.ReasonNone, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, faster(t, `{"minReadySeconds": 5}`), append(test.beside, object(t, web))...)
			l.Kinds = test.kinds
			l.passed()
			said := l.says(v1alpha1.ConditionAutoscalerInterference, test.status, test.reason)
			for _, says := range test.says {
				if !strings.Contains(said, says) {
					t.Errorf("it says %q", said)
				}
			}
			l.says(v1alpha1.ConditionDisruptionInterference, "False", v1alpha1.ReasonNone)
			if heard := l.heard(v1alpha1.ReasonNotListed); len(heard) > 0 {
				t.Errorf("that is no event: %v", heard)
			}
		})
	}
}

// m12: labels that are listed come to the twin and go with their source's, also where they are listed no more. What
// somebody else has put on the twin is his, of whatever prefix.
func TestLabelsThatAreListed(t *testing.T) {
	for name, gone := range map[string]func(l *lab, source *unstructured.Unstructured){
		"of the source": func(l *lab, source *unstructured.Unstructured) { l.edit(source, func() { source.SetLabels(nil) }) },
		"of the list":   func(l *lab, _ *unstructured.Unstructured) { l.Options.Labels = nil },
	} {
		t.Run(name, func(t *testing.T) {
			source := object(t, web)
			source.SetLabels(map[string]string{"team": "payments", "tier": "front"})
			l := newLab(t, faster(t, `{}`), source)
			l.Options.Labels = []string{"team"}
			l.passed()
			if labels := l.twin().GetLabels(); labels["team"] != "payments" || labels["tier"] != "" {
				t.Errorf("they are %v", labels)
			}
			u := l.twin()
			labels, annotations := u.GetLabels(), u.GetAnnotations()
			labels["mine"], labels["team-of-mine"], annotations["team-of-mine"] = "yes", "yes", "yes"
			u.SetLabels(labels)
			u.SetAnnotations(annotations)
			l.edit(u, func() {})
			gone(l, l.there(deployments, client.ObjectKeyFromObject(source)))
			l.passed()
			labels = l.twin().GetLabels()
			if _, still := labels["team"]; still || labels["mine"] != "yes" || labels["team-of-mine"] != "yes" || l.twin().GetAnnotations()["team-of-mine"] != "yes" {
				t.Errorf("without the source's they are %v, and the annotations %v", labels, l.twin().GetAnnotations())
			}
		})
	}
}

// Annotations that are listed come to the twin and its pods, and go where they are listed no more; others of the source do not come.
func TestAnnotationsThatAreListed(t *testing.T) {
	source := object(t, web)
	all := map[string]string{"pager.example.com/team": "payments", "other.example.com/team": "payments"}
	source.SetAnnotations(all)
	_ = unstructured.SetNestedStringMap(source.Object, all, "spec", "template", "metadata", "annotations")
	l := newLab(t, faster(t, `{}`), source)
	for _, want := range []struct {
		list  []string
		value string
	}{{[]string{"pager.example.com"}, "payments"}, {nil, ""}} {
		l.Options.Annotations = want.list
		l.passed()
		ofPods, _, _ := unstructured.NestedStringMap(l.twin().Object, "spec", "template", "metadata", "annotations")
		for of, annotations := range map[string]map[string]string{"the twin": l.twin().GetAnnotations(), "its pods": ofPods} {
			if annotations["pager.example.com/team"] != want.value || annotations["other.example.com/team"] != "" {
				t.Errorf("with %v those of %s are %v", want.list, of, annotations)
			}
		}
	}
}

// o3: privileges that its source does not have a twin may have where the Namespace says so, and in no other words.
func TestPrivilegesByTheNamespace(t *testing.T) {
	for name, test := range map[string]struct {
		annotations map[string]string
		reason      string
	}{
		"true":    {map[string]string{v1alpha1.AnnotationAllowPrivileges: "true"}, v1alpha1.ReasonAccepted},
		"false":   {map[string]string{v1alpha1.AnnotationAllowPrivileges: "false"}, v1alpha1.ReasonInvalidOverride},
		"yes":     {map[string]string{v1alpha1.AnnotationAllowPrivileges: "yes"}, v1alpha1.ReasonInvalidOverride},
		"nothing": {nil, v1alpha1.ReasonInvalidOverride},
		"another": {map[string]string{v1alpha1.AnnotationAllowedNamespaces: "true"}, v1alpha1.ReasonInvalidOverride},
	} {
		t.Run("o3 "+name, func(t *testing.T) {
			namespace := shop("")
			namespace.Annotations = test.annotations
			l := newLab(t, faster(t, `{template: {spec: {hostPID: true}}}`), object(t, web), namespace)
			l.passed()
			l.says(v1alpha1.ConditionAccepted, map[bool]metav1.ConditionStatus{true: "True", false: "False"}[test.reason == v1alpha1.ReasonAccepted], test.reason)
			if made := l.twin() != nil; made != (test.reason == v1alpha1.ReasonAccepted) {
				t.Errorf("there is one: %t", made)
			}
		})
	}
}

// p6: a volume of the source's that one pod alone may use is refused, and asked for again: nobody tells when it is another, as when one
// that is not there yet comes.
func TestClaimsOfTheSource(t *testing.T) {
	for name, test := range map[string]struct {
		claim          string
		reason, says   string
		warning, warns string
		wait           time.Duration
	}{
		"p6 of one pod":   {`[ReadWriteOncePod]`, v1alpha1.ReasonInvalidOverride, "PersistentVolumeClaim data is for one pod alone", "", "", refusedAgain},
		"p6 of one node":  {`[ReadWriteOnce]`, v1alpha1.ReasonAccepted, "", twin.WarnSharedVolume, "PersistentVolumeClaim data (ReadWriteOnce)", defaultUnready},
		"p6 of either":    {`[ReadWriteOnce, ReadWriteOncePod]`, v1alpha1.ReasonInvalidOverride, "PersistentVolumeClaim data is for one pod alone", "", "", refusedAgain},
		"p6 not there":    {"", v1alpha1.ReasonAccepted, "", twin.WarnSharedVolume, "PersistentVolumeClaim data, ", refusedAgain},
		"p6 of elsewhere": {"elsewhere", v1alpha1.ReasonAccepted, "", twin.WarnSharedVolume, "PersistentVolumeClaim data, ", refusedAgain},
	} {
		t.Run(name, func(t *testing.T) {
			others := []client.Object{object(t, strings.Replace(web, `containers:`, `volumes: [{name: data, persistentVolumeClaim: {claimName: data}}], containers:`, 1))}
			if test.claim != "" {
				claim := object(t, "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, namespace: shop}, spec: {accessModes: "+strings.Replace(test.claim, "elsewhere", "[ReadWriteOncePod]", 1)+"}}")
				if test.claim == "elsewhere" {
					claim.SetNamespace("lab")
				}
				others = append(others, claim)
			}
			l := newLab(t, faster(t, `{}`), others...)
			result, _ := l.passed()
			accepted := test.reason == v1alpha1.ReasonAccepted
			if said := l.says(v1alpha1.ConditionAccepted, map[bool]metav1.ConditionStatus{true: "True", false: "False"}[accepted], test.reason); !strings.Contains(said, test.says) {
				t.Errorf("it says %q", said)
			}
			if accepted {
				if said := l.says(v1alpha1.ConditionWarnings, "True", test.warning); !strings.Contains(said, test.warns) {
					t.Errorf("it warns of %q", said)
				}
			}
			there := test.wait != refusedAgain
			if result.RequeueAfter != test.wait || (l.twin() != nil) != there {
				t.Errorf("it is looked at again in %s, and there is %v", result.RequeueAfter, l.twin())
			}
		})
	}
}

// p6: who may use a claim that is not there yet nobody knows: the twin waits for it, with no pin, or has no pods.
func TestClaimThatIsNotThereYet(t *testing.T) {
	claim := func(mode string) *unstructured.Unstructured {
		return object(t, "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, namespace: shop}, spec: {accessModes: ["+mode+"]}}")
	}
	owner, source := faster(t, `{}`), object(t, strings.Replace(web, `containers:`, `volumes: [{name: data, persistentVolumeClaim: {claimName: data}}], containers:`, 1))
	owner.Spec.SourcePolicy = v1alpha1.SourcePinned
	l := newLab(t, owner, source)
	for i := range 2 {
		if _, writes := l.passed(); len(children(writes)) > 0 || i > 0 && len(writes) > 0 {
			t.Errorf("it writes %v", writes)
		}
		if said := l.says(v1alpha1.ConditionTwinReady, "False", v1alpha1.ReasonPending); !strings.Contains(said, "PersistentVolumeClaim data") {
			t.Errorf("it says %q", said)
		}
	}
	l.ask(func(spec *v1alpha1.ExperimentDeploymentSpec) { spec.Replicas = ptr.To[int32](0) })
	if l.passed(); l.twin() == nil {
		t.Error("without pods it is not there")
	}
	l.drop(l.twin())
	l.ask(func(spec *v1alpha1.ExperimentDeploymentSpec) { spec.Replicas = nil })
	l.passed()
	l.add(claim("ReadWriteOnce"))
	if l.passed(); l.twin() == nil {
		t.Error("it is not created when the claim is there")
	}
}

// p6: the pods of a twin that there is do not keep a claim for one pod alone from those of its source, until the twin has another volume.
func TestClaimOfOnePodThatTheTwinMayHold(t *testing.T) {
	claim := object(t, "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, namespace: shop}, spec: {accessModes: [ReadWriteMany]}}")
	source := object(t, strings.Replace(web, `containers:`, `volumes: [{name: data, persistentVolumeClaim: {claimName: data}}], containers:`, 1))
	l := newLab(t, faster(t, `{}`), source, claim)
	l.passed()
	l.drop(claim)
	l.passed()
	pods := func(want int64) {
		t.Helper()
		if n, _, _ := unstructured.NestedInt64(l.twin().Object, "spec", "replicas"); n != want {
			t.Errorf("it has %d pods, want %d", n, want)
		}
	}
	pods(1)
	l.add(object(t, "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, namespace: shop}, spec: {accessModes: [ReadWriteOncePod]}}"))
	l.passed()
	l.says(v1alpha1.ConditionAccepted, "False", v1alpha1.ReasonInvalidOverride)
	if said := l.says(v1alpha1.ConditionTwinReady, "False", v1alpha1.ReasonVolumeOfOnePod); !strings.Contains(said, "PersistentVolumeClaim data") {
		t.Errorf("it says %q", said)
	}
	pods(0)
	l.passed()
	if _, writes := l.passed(); len(writes) > 0 {
		t.Errorf("and again it writes %v", writes)
	}
	l.ask(func(spec *v1alpha1.ExperimentDeploymentSpec) {
		spec.OverrideSpec.Raw = []byte(`{"template": {"spec": {"volumes": [{"name": "data", "emptyDir": {}}]}}}`)
	})
	l.passed()
	pods(1)
}

// p6: a twin that has no pods gets none back while nobody knows who may use the claim that they would have, whatever had taken them.
func TestClaimThatIsNotThereForATwinWithoutPods(t *testing.T) {
	claim := func(mode string) *unstructured.Unstructured {
		return object(t, "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, namespace: shop}, spec: {accessModes: ["+mode+"]}}")
	}
	for name, take := range map[string]func(l *lab){
		"by its claim": func(l *lab) {
			l.drop(claim("ReadWriteMany"))
			l.add(claim("ReadWriteOncePod"))
			l.passed()
			l.drop(claim("ReadWriteOncePod"))
		},
		"by its owner": func(l *lab) {
			l.ask(func(spec *v1alpha1.ExperimentDeploymentSpec) { spec.Replicas = ptr.To[int32](0) })
			l.passed()
			l.drop(claim("ReadWriteMany"))
			l.ask(func(spec *v1alpha1.ExperimentDeploymentSpec) { spec.Replicas = nil })
		},
		"by somebody": func(l *lab) {
			l.drop(claim("ReadWriteMany"))
			u := l.twin()
			l.edit(u, func() { _ = unstructured.SetNestedField(u.Object, int64(0), "spec", "replicas"); u.SetGeneration(2) })
		},
	} {
		t.Run("p6 "+name, func(t *testing.T) {
			source := object(t, strings.Replace(web, `containers:`, `volumes: [{name: data, persistentVolumeClaim: {claimName: data}}], containers:`, 1))
			l := newLab(t, faster(t, `{}`), source, claim("ReadWriteMany"))
			l.passed()
			take(l)
			for i := range 2 {
				l.later(2 * defaultUnready)
				if _, writes := l.passed(); twin.HasPods(l.twin()) || i > 0 && len(writes) > 0 {
					t.Errorf("it writes %v", writes)
				}
			}
			if said := l.says(v1alpha1.ConditionTwinReady, "False", v1alpha1.ReasonPending); !strings.Contains(said, "gets them when PersistentVolumeClaim data is there") {
				t.Errorf("it says %q", said)
			}
			l.add(claim("ReadWriteOnce"))
			if l.passed(); !twin.HasPods(l.twin()) {
				t.Error("it has no pods when the claim is there")
			}
			if since := l.owner().Status.UnreadySince; since != nil && since.Time.Before(l.clock.Now()) {
				t.Errorf("they have not been ready since before they came: %s", since)
			}
		})
	}
}

// r1: of a Rollout that is made of anything but a Deployment there is no twin, and it is told why; one that there is stays.
func TestRolloutOfOthers(t *testing.T) {
	for _, kind := range []string{"ReplicaSet", "PodTemplate"} {
		t.Run("r1 "+kind, func(t *testing.T) {
			owner := faster(t, `{}`)
			owner.Spec.SourceRef.Kind = "Rollout"
			source := object(t, strings.Replace(web, "apps/v1\nkind: Deployment", "argoproj.io/v1alpha1\nkind: Rollout", 1))
			l := newLab(t, owner, source)
			l.Kinds = kinds{twin.RolloutGVK}
			l.passed()
			before := l.twin()
			l.edit(source, func() {
				spec := source.Object["spec"].(map[string]any)
				delete(spec, "template")
				spec["workloadRef"] = map[string]any{"apiVersion": "v1", "kind": kind, "name": "web"}
			})
			_, writes := l.passed()
			said := l.says(v1alpha1.ConditionSourceFound, "False", v1alpha1.ReasonSourceNotFound)
			if !strings.Contains(said, "refers to a "+kind+" by spec.workloadRef: of those, only Deployments are followed; the twin stays") {
				t.Errorf("it says %q", said)
			}
			if diff := cmp.Diff(before, l.twin()); before == nil || diff != "" || len(children(writes)) > 0 {
				t.Errorf("it writes %v: %s", writes, diff)
			}
		})
	}
}

// p4: a Service that somebody has made another name of something selects nothing, whatever selector it still has.
func TestServiceOfAnotherName(t *testing.T) {
	for kind, shared := range map[string]bool{"ClusterIP": true, "ExternalName": false} {
		service := object(t, "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\nspec: {externalName: elsewhere.example.com, selector: {app: web}, type: "+kind+"}")
		l := newLab(t, faster(t, `{"minReadySeconds": 5}`), object(t, web), service)
		l.passed()
		if got := l.owner().Status.Services; (len(got) == 1) != shared {
			t.Errorf("%s: it is behind %+v", kind, got)
		}
	}
}

// A Service that sends traffic to pods which are not ready is warned of as the cluster has it.
func TestServiceOfUnreadyPods(t *testing.T) {
	for unready, status := range map[string]metav1.ConditionStatus{"true": "True", "false": "False"} {
		service := object(t, "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\nspec: {selector: {app: web}, publishNotReadyAddresses: "+unready+"}")
		l := newLab(t, faster(t, `{"minReadySeconds": 5}`), object(t, web), service)
		l.passed()
		if c := meta.FindStatusCondition(l.owner().Status.Conditions, v1alpha1.ConditionWarnings); c == nil || c.Status != status || (c.Reason == twin.WarnServedUnready) != (unready == "true") {
			t.Errorf("%s: it says %+v", unready, c)
		}
	}
}

// What is dangerous anew is told by an Event, also where something worse is told of already, and what is dangerous no more is not.
func TestWarnedAnew(t *testing.T) {
	service := func(name, fields string) *unstructured.Unstructured {
		return object(t, "apiVersion: v1\nkind: Service\nmetadata: {name: "+name+", namespace: shop}\nspec: {selector: {app: web}, "+fields+"}")
	}
	l := newLab(t, faster(t, `{"minReadySeconds": 5}`), object(t, web), service("eager", "publishNotReadyAddresses: true"))
	l.passed()
	l.passed()
	told := func(want int, about string) {
		t.Helper()
		if all := l.heard(twin.WarnServedUnready); len(all) != want || !strings.Contains(strings.Join(all, ""), about) {
			t.Errorf("it tells of %q, want %d, of %q", all, want, about)
		}
	}
	told(1, "Service eager")
	near := service("near", "internalTrafficPolicy: Local")
	if err := l.server.Create(t.Context(), near); err != nil {
		t.Fatal(err)
	}
	l.passed()
	told(1, "Service near")
	l.drop(near)
	l.passed()
	told(0, "")
}

// A Service that does not send all pods the same share is warned of as the cluster has it.
func TestServiceThatPrefersPods(t *testing.T) {
	for policy, warned := range map[string]bool{
		"externalTrafficPolicy: Local": true, "internalTrafficPolicy: Local": true, "trafficDistribution: PreferSameZone": true,
		"externalTrafficPolicy: Cluster": false, "internalTrafficPolicy: Cluster": false,
	} {
		service := object(t, "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\nspec: {selector: {app: web}, "+policy+"}")
		l := newLab(t, faster(t, `{"minReadySeconds": 5}`), object(t, web), service)
		l.passed()
		c := meta.FindStatusCondition(l.owner().Status.Conditions, v1alpha1.ConditionWarnings)
		if c == nil || (c.Reason == twin.WarnUneven) != warned || warned && !strings.Contains(c.Message, policy) {
			t.Errorf("%s: it says %+v", policy, c)
		}
	}
}

// d5: a source that has no pods, because it was scaled to zero, or has none yet, or none that are ready, has a twin
// all the same, with pods. Who alone serves then is warned of, until the source is scaled up again.
func TestSourceThatHasNoPods(t *testing.T) {
	service := object(t, "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {selector: {app: web}}}")
	for name, test := range map[string]struct {
		replicas int64
		status   string
		warns    metav1.ConditionStatus
		reason   string
	}{
		"scaled to zero": {0, `{observedGeneration: 7}`, "True", twin.WarnAlone},
		"never seen":     {3, `{}`, "False", v1alpha1.ReasonNone},
		"none yet":       {3, `{observedGeneration: 7, unavailableReplicas: 3}`, "False", v1alpha1.ReasonNone},
		"refused":        {3, `{observedGeneration: 7, conditions: [{type: ReplicaFailure, status: "True"}]}`, "False", v1alpha1.ReasonNone},
	} {
		t.Run(name, func(t *testing.T) {
			source := object(t, web)
			source.Object["status"] = object(t, test.status).Object
			_ = unstructured.SetNestedField(source.Object, test.replicas, "spec", "replicas")
			l := newLab(t, faster(t, `{"minReadySeconds": 5}`), source, service.DeepCopy())
			l.passed()
			if n, _, _ := unstructured.NestedInt64(l.twin().Object, "spec", "replicas"); n != 1 {
				t.Errorf("it has %d pods", n)
			}
			l.says(v1alpha1.ConditionAccepted, "True", v1alpha1.ReasonAccepted)
			l.says(v1alpha1.ConditionSourceFound, "True", v1alpha1.ReasonSourceFound)
			l.says(v1alpha1.ConditionTwinReady, "False", v1alpha1.ReasonCreated)
			l.says(v1alpha1.ConditionWarnings, test.warns, test.reason)
			before := l.twin()
			now := l.there(deployments, client.ObjectKeyFromObject(source))
			l.edit(now, func() { _ = unstructured.SetNestedField(now.Object, int64(5), "spec", "replicas") })
			l.passed()
			l.says(v1alpha1.ConditionWarnings, "False", v1alpha1.ReasonNone)
			if l.twin().GetResourceVersion() != before.GetResourceVersion() {
				t.Error("the twin is written anew")
			}
		})
	}
}

// a1: the autoscaler of another workload counts the twin's pods where the selector of that selects them.
func TestScaledBeside(t *testing.T) {
	scaler := object(t, "kind: HorizontalPodAutoscaler\napiVersion: autoscaling/v2\nmetadata: {name: wide, namespace: shop}\nspec: {scaleTargetRef: {kind: StatefulSet, name: wide}}")
	another := scaler.DeepCopy()
	another.SetName("another")
	wide := object(t, "kind: StatefulSet\napiVersion: apps/v1\nmetadata: {name: wide, namespace: shop}\nspec: {selector: {matchExpressions: [{key: app, operator: Exists}]}}")
	for name, test := range map[string]struct {
		beside []client.Object
		says   string
	}{
		"nothing that it is for": {[]client.Object{scaler}, ""},
		"nothing that scales it": {[]client.Object{wide}, ""},
		"both":                   {[]client.Object{scaler, wide}, "HorizontalPodAutoscaler wide is for StatefulSet wide"},
		"two that scale it":      {[]client.Object{scaler, another, wide}, "HorizontalPodAutoscaler another is for StatefulSet wide"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, faster(t, `{"minReadySeconds": 5}`), append(test.beside, object(t, web))...)
			l.passed()
			if test.says == "" {
				l.says(v1alpha1.ConditionAutoscalerInterference, "False", v1alpha1.ReasonNone)
			} else if said := l.says(v1alpha1.ConditionAutoscalerInterference, "True", v1alpha1.ReasonInterference); !strings.HasPrefix(said, test.says) || strings.Count(said, test.says) > 1 {
				t.Errorf("it says %q", said)
			}
		})
	}
}

// a1: the autoscaler of a Rollout counts by the selector of the Deployment that it is made of, also where that is the source.
func TestScaledByReference(t *testing.T) {
	scaler := object(t, "kind: HorizontalPodAutoscaler\napiVersion: autoscaling/v2\nmetadata: {name: wide, namespace: shop}\nspec: {scaleTargetRef: {kind: Rollout, name: wide}}")
	for workload, counts := range map[string]bool{"web": true, "narrow": false, "none": false} {
		t.Run("r1 "+workload, func(t *testing.T) {
			rollout := object(t, "kind: Rollout\napiVersion: argoproj.io/v1alpha1\nmetadata: {name: wide, namespace: shop}\nspec: {workloadRef: {kind: Deployment, name: "+workload+"}}")
			narrow := object(t, strings.NewReplacer("name: web, namespace", "name: narrow, namespace", "app: web", "app: narrow").Replace(web))
			l := newLab(t, faster(t, `{"minReadySeconds": 5}`), object(t, web), narrow, rollout, scaler.DeepCopy())
			l.Kinds = kinds{twin.RolloutGVK}
			l.passed()
			if !counts {
				l.says(v1alpha1.ConditionAutoscalerInterference, "False", v1alpha1.ReasonNone)
			} else if said := l.says(v1alpha1.ConditionAutoscalerInterference, "True", v1alpha1.ReasonInterference); !strings.HasPrefix(said, "HorizontalPodAutoscaler wide is for Rollout wide, whose selector selects the twin's pods") {
				t.Errorf("it says %q", said)
			}
		})
	}
}

// The order in which the cache has Services changes nothing of what is said, nor of which twin is wanted.
func TestServicesInAnyOrder(t *testing.T) {
	l := newLab(t, faster(t, `{template: {metadata: {labels: {team: lab}}}}`), object(t, web))
	l.passed()
	for _, name := range []string{"a", "b"} {
		l.add(object(t, "{apiVersion: v1, kind: Service, metadata: {name: "+name+", namespace: shop}, spec: {selector: {team: lab}}}"))
	}
	l.passed()
	if _, writes := l.passed(); len(writes) > 0 {
		t.Errorf("refused, it writes %v", writes)
	}
	l.ask(func(spec *v1alpha1.ExperimentDeploymentSpec) { spec.AllowLabelOverride = true })
	l.passed()
	made := func() draft {
		known, _ := l.drafts.known.Get(l.owner().UID)
		return known.(keptDraft).draft
	}
	before := made()
	if l.passed(); made().Twin != before.Twin {
		t.Error("it is made again of the same")
	}
}

// p4: of the ports of a Service those are told of that do not reach the twin, by name, number and protocol.
func TestPortsOfServices(t *testing.T) {
	const declared = `[{name: http, containerPort: 80}, {name: dns, containerPort: 53, protocol: UDP}]`
	for name, test := range map[string]struct {
		ports, has     string
		status         metav1.ConditionStatus
		reason, shared string
		warned         string
	}{
		"all":              {`[{port: 80, targetPort: http}, {port: 53, targetPort: dns, protocol: UDP}]`, declared, "True", v1alpha1.ReasonShared, "", ""},
		"one of two":       {`[{port: 80, targetPort: http}, {port: 53, targetPort: dns, protocol: UDP}]`, `[{name: http, containerPort: 80}]`, "True", v1alpha1.ReasonShared, "Service web: The twin gets none of what it sends to port dns (UDP)", "Service web finds port dns (UDP)"},
		"another protocol": {`[{port: 53, targetPort: dns, protocol: UDP}]`, `[{name: dns, containerPort: 53}]`, "False", twin.ReasonPortLost, "Service web: It sends traffic to port dns (UDP)", ""},
		"a number":         {`[{port: 80, targetPort: 80}]`, `[{name: http, containerPort: 81}]`, "True", v1alpha1.ReasonShared, "", "Service web sends the twin requests to port 80"},
	} {
		t.Run(name, func(t *testing.T) {
			source := object(t, strings.Replace(web, `image: "web:1"`, `image: "web:1", ports: `+declared, 1))
			service := object(t, "kind: Service\napiVersion: v1\nmetadata: {name: web, namespace: shop}\nspec: {clusterIP: 10.0.0.1, selector: {app: web}, ports: "+test.ports+"}")
			l := newLab(t, faster(t, `{template: {spec: {containers: [{name: web, image: "web:2", ports: `+test.has+`}]}}}`), source, service)
			l.passed()
			if said := l.says(v1alpha1.ConditionServiceShared, test.status, test.reason); !strings.Contains(said, test.shared) || test.shared == "" && strings.Contains(said, "Service web") {
				t.Errorf("it says %q", said)
			}
			if test.warned == "" {
				l.says(v1alpha1.ConditionWarnings, "False", v1alpha1.ReasonNone)
			} else if said := l.says(v1alpha1.ConditionWarnings, "True", twin.WarnPort); !strings.Contains(said, test.warned) {
				t.Errorf("it warns of %q", said)
			}
		})
	}
}

// What the manager may do (a7, o4): a second budget would have evictions answered with an error, and an owner reference
// that blocks needs a right on the owner where clusters ask for it.
func TestRights(t *testing.T) {
	var may []rbacv1.PolicyRule
	for _, file := range []string{"role.yaml", "twins_role.yaml"} {
		text, err := os.ReadFile("../../../config/rbac/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for part := range strings.SplitSeq(string(text), "\n---\n") {
			role := &rbacv1.ClusterRole{}
			if err := yaml.Unmarshal([]byte(part), role); err != nil {
				t.Fatal(err)
			}
			may = append(may, role.Rules...)
		}
	}
	verbs := func(group, resource string) (all []string) {
		for _, rule := range may {
			if slices.Contains(rule.APIGroups, group) && slices.Contains(rule.Resources, resource) {
				all = append(all, rule.Verbs...)
			}
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	for name, test := range map[string]struct {
		group, resource string
		verbs           []string
	}{
		"a7 no budget":              {"policy", "poddisruptionbudgets", []string{"get", "list", "watch"}},
		"a7 no autoscaler":          {"autoscaling", "horizontalpodautoscalers", []string{"get", "list", "watch"}},
		"o4 the owner's finalizers": {v1alpha1.GroupVersion.Group, "experimentdeployments/finalizers", []string{"update"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := verbs(test.group, test.resource); !slices.Equal(got, test.verbs) {
				t.Errorf("it may %v", got)
			}
		})
	}
}

// A StatefulSet takes pods whose names say that they are its own: none of a twin may, nor the twin be called like one.
func TestNamesOfPods(t *testing.T) {
	pod := regexp.MustCompile(`^(.*)-([0-9]+)$`)
	for _, source := range []string{"db", "db-0", "db-exp", "db-exp-1", strings.Repeat("d", 50)} {
		t.Run("s7 "+source, func(t *testing.T) {
			for i := range 100 {
				owner := faster(t, `{}`)
				owner.UID, owner.Spec.SourceRef.Name = types.UID(fmt.Sprint(i)), source
				name := key(owner).Name
				if of := pod.FindStringSubmatch(name); of != nil && of[1] == source {
					t.Errorf("%s is called like a pod of it", name)
				}
				if of := pod.FindStringSubmatch(name + "-0"); of == nil || of[1] == source {
					t.Errorf("%s has a pod of it", name)
				}
			}
		})
	}
}

// What fails, and is tried again after a minute, does not put off the end of a time.
func TestDueWhateverFails(t *testing.T) {
	const left = 30 * time.Second
	denied := errors.New("denied by a policy of others")
	owner := faster(t, `{}`)
	owner.CreationTimestamp = metav1.NewTime(epoch)
	l := newLab(t, owner, object(t, web))
	l.passed()
	l.ready(0)
	l.passed()
	failing := func(why string) {
		t.Helper()
		if result, _, err := l.pass(); err == nil || result.RequeueAfter != left {
			t.Errorf("%s: it is looked at again after %s, with error %v", why, result.RequeueAfter, err)
		}
	}
	l.fail = func(string) error { return denied }
	l.later(defaultUnready - left)
	l.ask(func(s *v1alpha1.ExperimentDeploymentSpec) { s.TTL = &metav1.Duration{Duration: 2 * defaultUnready} })
	failing("its pods are not ready, and that is not recorded")
	l.later(defaultUnready)
	l.ask(func(s *v1alpha1.ExperimentDeploymentSpec) { s.OverrideSpec.Raw = []byte(`{"minReadySeconds": 7}`) })
	failing("its time is nearly over, and its twin cannot be written")
	l.unwatched = "shop"
	failing("its source cannot be read")
	l.later(left)
	l.fail = func(string) error { return nil }
	if l.passed(); l.owner().DeletionTimestamp == nil {
		t.Error("its time is over, and it stays for what cannot be read")
	}
}
