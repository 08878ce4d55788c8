package experiment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/argoworkflows"
	"github.com/labkeeper/labkeeper/internal/external/capi"
	"github.com/labkeeper/labkeeper/internal/external/crossplane"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/test/faults"
)

// A moment is when a step is taken; an action is what is done then.
type (
	moment = func(faults.State) bool
	action = func(context.Context, *faults.Stage) error
)

func steps(all ...faults.Step) []faults.Step { return all }

// step is several actions at one moment.
func step(when moment, do ...action) faults.Step { return faults.At(when, do...) }

func objects(all ...*unstructured.Unstructured) []*unstructured.Unstructured { return all }

// Moments.

func all(moments ...moment) moment {
	return func(s faults.State) bool {
		return !slices.ContainsFunc(moments, func(m moment) bool { return !m(s) })
	}
}

func not(m moment) moment { return func(s faults.State) bool { return !m(s) } }

// one is a moment of the Experiment that a workload is about, whatever becomes of its neighbour, and other one of that.
func one(m moment) moment   { return among("", m) }
func other(m moment) moment { return among(ofNeighbour, m) }

func among(owner string, m moment) moment {
	return func(s faults.State) bool {
		return m(s.Only(func(u *unstructured.Unstructured) bool { return whose(u) == owner }))
	}
}

// of is a moment of the Experiment.
func of(is func(*unstructured.Unstructured) bool) moment {
	return func(s faults.State) bool {
		experiments := s.Of("Experiment")
		return len(experiments) == 1 && is(experiments[0])
	}
}

// reached says whether the Experiment is in a phase.
func reached(phase v1alpha1.Phase) moment {
	return of(func(e *unstructured.Unstructured) bool { return phaseOf(e) == phase })
}

// observed says whether the Experiment speaks of a generation of its spec.
func observed(generation int64) moment {
	return of(func(e *unstructured.Unstructured) bool {
		have, _, _ := unstructured.NestedInt64(e.Object, "status", "observedGeneration")
		return have == generation
	})
}

// reason says whether a condition other than Ready has a reason.
func reason(reason string) moment {
	return of(func(e *unstructured.Unstructured) bool {
		return slices.ContainsFunc(conditions(e), func(c map[string]any) bool {
			return c["type"] != v1alpha1.ConditionReady && c["reason"] == reason
		})
	})
}

// telling says whether the Experiment says words in the message of a condition.
func telling(words string) moment {
	return of(func(e *unstructured.Unstructured) bool { return says(e, words) })
}

// cleanedUp says whether what spec.terminate takes down is gone.
var cleanedUp = of(func(e *unstructured.Unstructured) bool {
	return condition(e, v1alpha1.ConditionCleanedUp)["status"] == "True"
})

// awaitsItsEnd says whether the Experiment tells that its superseded Workflow has been deleted.
var awaitsItsEnd = telling("another is submitted when it is gone")

// losing says whether the Experiment tells that somebody deletes one of its objects.
var losing = telling(deletedBySomebody)

// waitsFor says whether the Experiment tells that it waits for an object of a kind to go.
func waitsFor(kind string) moment {
	return of(func(e *unstructured.Unstructured) bool {
		ready := condition(e, v1alpha1.ConditionReady)
		message, _ := ready["message"].(string)
		return ready["reason"] == v1alpha1.ReasonDeleting && strings.Contains(message, kind+" ")
	})
}

// clusterLeft says whether the Experiment tells that it waits for nothing but its cluster to go.
var clusterLeft = all(waitsFor("GKECluster"), not(waitsFor("Secret")), not(waitsFor("Namespace")))

// inState says whether the Experiment tells that every target is in a state.
func inState(state v1alpha1.TargetState) moment {
	return of(func(e *unstructured.Unstructured) bool {
		targets, _, _ := unstructured.NestedSlice(e.Object, "spec", "targets")
		return !slices.ContainsFunc(targets, func(t any) bool {
			name, _ := t.(map[string]any)["name"].(string)
			return targetState(e, name) != string(state)
		})
	})
}

// state says whether the Experiment tells that a target is in a state.
func state(target string, state v1alpha1.TargetState) moment {
	return of(func(e *unstructured.Unstructured) bool { return targetState(e, target) == string(state) })
}

// clusterLeftOf says whether the Experiment tells that a target of it waits for nothing but its cluster to go.
func clusterLeftOf(target string) moment {
	return of(func(e *unstructured.Unstructured) bool {
		message, _ := targetStatus(e, target)["message"].(string)
		return strings.HasPrefix(message, "Waits for the deletion of GKECluster ") && !strings.Contains(message, ", ")
	})
}

// extensionTold says whether the Experiment tells that somebody has moved its end.
var extensionTold = of(func(e *unstructured.Unstructured) bool {
	extension, _, _ := unstructured.NestedString(e.Object, "status", "extension")
	return extension != ""
})

var (
	// deploying: and the create of the Application has not failed.
	deploying = all(inState(v1alpha1.TargetDeploying), not(none("Application")))
	healthy   = inState(v1alpha1.TargetHealthy)
)

// provisioning says whether the cluster is being made, for Crossplane too.
func provisioning(s faults.State) bool {
	return reached(v1alpha1.PhaseProvisioning)(s) && child("GKECluster", func(claim *unstructured.Unstructured) bool {
		composite, _, _ := unstructured.NestedString(claim.Object, "spec", "resourceRef", "name")
		return composite != ""
	})(s)
}

// endpointTold says whether the Experiment tells where the API server of its first cluster is.
var endpointTold = of(func(e *unstructured.Unstructured) bool {
	targets, _, _ := unstructured.NestedSlice(e.Object, "status", "targets")
	if len(targets) == 0 {
		return false
	}
	first, _ := targets[0].(map[string]any)
	return first["endpoint"] != nil
})

// running says whether the Experiment has told that its Workflow runs.
var running = of(func(e *unstructured.Unstructured) bool {
	phase, _, _ := unstructured.NestedString(e.Object, "status", "workflow", "phase")
	return phaseOf(e) == v1alpha1.PhaseRunning && phase == "Running"
})

// superseded says whether the Experiment has told that its Workflow validates what the spec does not say any more.
var superseded = of(func(e *unstructured.Unstructured) bool {
	superseded, _, _ := unstructured.NestedBool(e.Object, "status", "workflow", "superseded")
	return superseded
})

// clusterUp and succeeded are what the outsides tell.
var (
	clusterUp = child("GKECluster", func(claim *unstructured.Unstructured) bool {
		endpoint, _, _ := unstructured.NestedString(claim.Object, "status", "endpoint")
		return endpoint != ""
	})
	claimGoing = child("GKECluster", func(claim *unstructured.Unstructured) bool { return claim.GetDeletionTimestamp() != nil })
	succeeded  = child("Workflow", func(workflow *unstructured.Unstructured) bool {
		phase, _, _ := unstructured.NestedString(workflow.Object, "status", "phase")
		return phase == "Succeeded"
	})
	// unregistered is when Argo CD does not know the cluster.
	unregistered = func(s faults.State) bool {
		return !slices.ContainsFunc(s.Of("Secret"), func(secret *unstructured.Unstructured) bool { return secret.GetNamespace() == argoCDNamespace })
	}
	// registeredBy is when Argo CD has a token.
	registeredBy = func(token string) moment {
		return func(s faults.State) bool {
			return slices.ContainsFunc(s.Of("Secret"), func(secret *unstructured.Unstructured) bool {
				return secret.GetNamespace() == argoCDNamespace && strings.Contains(read(secret, "config"), canary+"-"+token)
			})
		}
	}
	// claimChangedBack is when a claim has been changed twice since Crossplane took it on.
	claimChangedBack = child("GKECluster", func(claim *unstructured.Unstructured) bool {
		nodes, _, _ := unstructured.NestedInt64(claim.Object, "spec", "nodeCount")
		return claim.GetGeneration() >= 4 && nodes == 1
	})
	// changedBack is when an Application has been changed twice since it was created.
	changedBack = child("Application", func(app *unstructured.Unstructured) bool { return app.GetGeneration() >= 3 })
)

// child is a moment of the only object of a kind.
func child(kind string, is func(*unstructured.Unstructured) bool) moment {
	return func(s faults.State) bool {
		children := s.Of(kind)
		return len(children) == 1 && is(children[0])
	}
}

func anything(*unstructured.Unstructured) bool { return true }

// edited says whether the only Application has what moreReplicas asks for. That a spec has been
// observed says nothing of it: the write may have failed.
var edited = child("Application", func(app *unstructured.Unstructured) bool {
	sources, _, _ := unstructured.NestedSlice(app.Object, "spec", "sources")
	return slices.ContainsFunc(sources, func(source any) bool {
		parameters, _, _ := unstructured.NestedSlice(source.(map[string]any), "helm", "parameters")
		return slices.ContainsFunc(parameters, func(p any) bool {
			parameter := p.(map[string]any)
			return parameter["name"] == "replicaCount" && parameter["value"] == "3"
		})
	})
})

// deploys says whether the only Application is of a revision.
func deploys(revision string) moment {
	return child("Application", func(app *unstructured.Unstructured) bool {
		sources, _, _ := unstructured.NestedSlice(app.Object, "spec", "sources")
		return len(sources) == 1 && sources[0].(map[string]any)["targetRevision"] == revision
	})
}

func none(kind string) moment { return func(s faults.State) bool { return len(s.Of(kind)) == 0 } }

var gone = none("Experiment")

var experimentGoing = of(func(e *unstructured.Unstructured) bool { return e.GetDeletionTimestamp() != nil })

// Actions on the Experiment.

func apply(ctx context.Context, s *faults.Stage) error { return s.Apply(ctx) }

func theExperiment(s *faults.Stage) *unstructured.Unstructured {
	e := newExperiment()
	e.SetNamespace(s.Namespace)
	return e
}

// put creates an object of the workload, and drop deletes it.
func put(o *unstructured.Unstructured) action {
	return func(ctx context.Context, s *faults.Stage) error { return s.Create(ctx, o) }
}

func drop(o *unstructured.Unstructured) action {
	return func(ctx context.Context, s *faults.Stage) error { return s.Delete(ctx, o) }
}

func remove(ctx context.Context, s *faults.Stage) error {
	if err := s.Client.Delete(ctx, theExperiment(s)); err != nil {
		return fmt.Errorf("deleting Experiment: %w", err)
	}
	return nil
}

// force takes the finalizer off the Experiment, which goes at once if it is being deleted.
func force(ctx context.Context, s *faults.Stage) error {
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`))
	if err := s.Client.Patch(ctx, theExperiment(s), patch); err != nil {
		return fmt.Errorf("taking the finalizer off Experiment: %w", err)
	}
	return nil
}

// removeNamespace deletes the Experiment with everything around it.
func removeNamespace(ctx context.Context, s *faults.Stage) error {
	namespace := &unstructured.Unstructured{}
	namespace.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
	namespace.SetName(s.Namespace)
	if err := s.Client.Delete(ctx, namespace); err != nil {
		return fmt.Errorf("deleting namespace: %w", err)
	}
	return nil
}

// edit changes the Experiment by a JSON patch.
func edit(patch string) action {
	return func(ctx context.Context, s *faults.Stage) error {
		if err := s.Client.Patch(ctx, theExperiment(s), client.RawPatch(types.JSONPatchType, []byte(patch))); err != nil {
			return fmt.Errorf("editing Experiment: %w", err)
		}
		return nil
	}
}

// Components are of the whole cluster, so every run names its own.
func componentOf(s *faults.Stage) string { return ownPrefix + s.Namespace }

func useComponent(ctx context.Context, s *faults.Stage) error {
	return edit(`[{"op": "replace", "path": "/spec/targets/0/components/0/app", "value": "`+componentOf(s)+`"}]`)(ctx, s)
}

func createComponent(ctx context.Context, s *faults.Stage) error { return s.Create(ctx, fineComponent) }

// editComponent gives it another revision, and right parameters.
func editComponent(revision string) action {
	return func(ctx context.Context, s *faults.Stage) error {
		component := fineComponent.DeepCopy()
		component.SetName(componentOf(s))
		patch := client.RawPatch(types.JSONPatchType, []byte(`[{"op": "replace", "path": "/spec/sources/0/targetRevision", "value": "`+revision+`"},
			{"op": "add", "path": "/spec/parameters", "value": []}]`))
		return s.Client.Patch(ctx, component, patch)
	}
}

// Actions on the outsides and on the manager.

func release(steps ...string) action {
	return func(_ context.Context, s *faults.Stage) error {
		for _, step := range steps {
			s.Release(step)
		}
		return nil
	}
}

// hold keeps the outsides from a step that they have taken before.
func hold(step string) action {
	return func(_ context.Context, s *faults.Stage) error {
		s.Hold(step)
		return nil
	}
}

func kill(ctx context.Context, s *faults.Stage) error { return s.StopManager(ctx, true) }

func terminate(ctx context.Context, s *faults.Stage) error { return s.StopManager(ctx, false) }

func start(ctx context.Context, s *faults.Stage) error { return s.StartManager(ctx) }

// sleep lets time pass for the manager.
func sleep(d time.Duration) action {
	return func(ctx context.Context, s *faults.Stage) error { return s.Advance(ctx, d) }
}

// due lets time pass until something is due.
func due(d time.Duration) action {
	return func(ctx context.Context, s *faults.Stage) error { return s.Due(ctx, d) }
}

// tick lets time pass for the manager that there is.
func tick(d time.Duration) action {
	return func(ctx context.Context, s *faults.Stage) error { return s.Tick(ctx, d) }
}

// tickUntilGone lets it pass again for each manager that comes instead, until the Experiment is gone.
func tickUntilGone(d time.Duration) action {
	return func(ctx context.Context, s *faults.Stage) error {
		var ticked any
		for ctx.Err() == nil {
			if err := s.Client.Get(ctx, client.ObjectKeyFromObject(theExperiment(s)), theExperiment(s)); err != nil {
				return client.IgnoreNotFound(err)
			}
			if s.Life() == ticked {
				time.Sleep(20 * time.Millisecond)
				continue
			}
			if err := s.Tick(ctx, d); err != nil {
				return err
			}
			ticked = s.Life()
		}
		return ctx.Err()
	}
}

// refuseClaims has the manager delete no claim, as one that has lost the right to.
func refuseClaims(_ context.Context, s *faults.Stage) error {
	s.Refuse("delete", schema.GroupResource{Group: crossplane.GKEClusterGVK.Group, Resource: "gkeclusters"}, nil)
	return nil
}

func restart(ctx context.Context, s *faults.Stage) error {
	return errors.Join(kill(ctx, s), start(ctx, s))
}

// Actions on children.

// kinds are those of children.
var kinds = map[string]schema.GroupVersionKind{
	"GKECluster":  crossplane.GKEClusterGVK,
	"Cluster":     capi.ClusterGVK,
	"Secret":      argocd.SecretGVK,
	"Application": argocd.ApplicationGVK,
	"Workflow":    argoworkflows.WorkflowGVK,
	"Namespace":   {Version: "v1", Kind: "Namespace"},
}

// namespaces are those of children that have one for all.
var namespaces = map[string]string{"Secret": argoCDNamespace, "Application": argoCDNamespace, "Workflow": workflowNamespace}

// find reads the Experiment's child of a kind: that of its first target.
func find(ctx context.Context, s *faults.Stage, kind string) (*unstructured.Unstructured, error) {
	e := theExperiment(s)
	if err := s.Client.Get(ctx, client.ObjectKeyFromObject(e), e); err != nil {
		return nil, fmt.Errorf("reading Experiment: %w", err)
	}
	found, err := kube.List(ctx, s.Client, kinds[kind], client.MatchingLabels{v1alpha1.LabelExperimentUID: string(e.GetUID())})
	if err != nil {
		return nil, err
	}
	for _, u := range found {
		if target := u.GetLabels()[v1alpha1.LabelTarget]; target == "" || target == "app" {
			return &u, nil
		}
	}
	return nil, fmt.Errorf("finding %s: there is none", kind)
}

// onChild does something with a child.
func onChild(kind string, do func(context.Context, client.Client, *unstructured.Unstructured) error) action {
	return func(ctx context.Context, s *faults.Stage) error {
		u, err := find(ctx, s, kind)
		if err != nil {
			return err
		}
		if err := do(ctx, s.Client, u); err != nil {
			return fmt.Errorf("meddling with %s: %w", kube.Describe(u), err)
		}
		return nil
	}
}

func removeChild(kind string) action {
	return onChild(kind, func(ctx context.Context, c client.Client, u *unstructured.Unstructured) error {
		return c.Delete(ctx, u)
	})
}

// removeForsaken deletes what an Experiment that is gone has left: its cluster, and the registration of that.
func removeForsaken(ctx context.Context, s *faults.Stage) error {
	for _, kind := range []string{"Secret", "GKECluster"} {
		found, err := kube.List(ctx, s.Client, kinds[kind], client.HasLabels{v1alpha1.LabelExperimentUID})
		if err != nil {
			return err
		}
		for _, u := range found {
			if runOf(&u) != s.Namespace {
				continue
			}
			if err := client.IgnoreNotFound(s.Client.Delete(ctx, &u)); err != nil {
				return fmt.Errorf("deleting %s: %w", kube.Describe(&u), err)
			}
		}
	}
	return nil
}

// rewrite changes the kubeconfig of the first target's cluster in its Secret, which is the user's or the provider's.
func rewrite(kubeconfig string) action {
	return func(ctx context.Context, s *faults.Stage) error {
		own := kube.Empty(argocd.SecretGVK)
		own.SetNamespace(s.Namespace)
		own.SetName(staging.GetName())
		secrets, err := kube.List(ctx, s.Client, argocd.SecretGVK, client.MatchingLabels{v1alpha1.LabelTarget: "connection-app"})
		for i := range secrets {
			if runOf(&secrets[i]) == s.Namespace {
				own = &secrets[i]
			}
		}
		if err != nil {
			return err
		}
		patch, err := json.Marshal(map[string]any{"stringData": map[string]any{"kubeconfig": at(s, kubeconfig)}})
		if err != nil {
			return err
		}
		if err := s.Client.Patch(ctx, own, client.RawPatch(types.MergePatchType, patch)); err != nil {
			return fmt.Errorf("changing %s: %w", kube.Describe(own), err)
		}
		return nil
	}
}

// removeReferred deletes the Cluster that the Experiment names.
func removeReferred(ctx context.Context, s *faults.Stage) error {
	u := k3.DeepCopy()
	u.SetNamespace(s.Namespace)
	return s.Client.Delete(ctx, u)
}

// createReferred makes it anew.
func createReferred(ctx context.Context, s *faults.Stage) error {
	u := k3.DeepCopy()
	u.SetNamespace(s.Namespace)
	return s.Client.Create(ctx, u)
}

// editChild changes a child by a JSON patch.
func editChild(kind, patch string) action {
	return onChild(kind, func(ctx context.Context, c client.Client, u *unstructured.Unstructured) error {
		return c.Patch(ctx, u, client.RawPatch(types.JSONPatchType, []byte(patch)))
	})
}

// lookAtClaim has Crossplane begin with the cluster: of one that it never looks at it is told, when that is by the clocks of two.
var lookAtClaim = onChild("GKECluster", func(ctx context.Context, c client.Client, u *unstructured.Unstructured) error {
	patch := `{"status": {"conditions": [{"type": "Synced", "status": "True", "reason": "ReconcileSuccess", "lastTransitionTime": "2026-03-01T00:00:00Z"}]}}`
	return c.Status().Patch(ctx, u, client.RawPatch(types.MergePatchType, []byte(patch)))
})

// lose takes a child away whoever still holds it.
func lose(kind string) action {
	return onChild(kind, func(ctx context.Context, c client.Client, u *unstructured.Unstructured) error {
		err := setFinalizers(ctx, c, u)
		if err == nil {
			err = c.Delete(ctx, u)
		}
		return client.IgnoreNotFound(err)
	})
}

func setFinalizers(ctx context.Context, c client.Client, u *unstructured.Unstructured, finalizers ...string) error {
	before := u.DeepCopy()
	u.SetFinalizers(finalizers)
	return c.Patch(ctx, u, client.MergeFrom(before))
}

// holdChild lets somebody else's finalizer hold a child.
func holdChild(kind string) action {
	return onChild(kind, func(ctx context.Context, c client.Client, u *unstructured.Unstructured) error {
		return setFinalizers(ctx, c, u, "example.com/held")
	})
}

// freeChild takes all finalizers off a child.
func freeChild(kind string) action {
	return onChild(kind, func(ctx context.Context, c client.Client, u *unstructured.Unstructured) error {
		return setFinalizers(ctx, c, u)
	})
}

// anothers is an object that has the name of a child and belongs to an Experiment of the same
// name. It names the run, to be recorded.
func anothers(kind, name string, s *faults.Stage, content map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(kinds[kind])
	u.SetNamespace(namespaces[kind])
	u.SetName(name)
	u.SetAnnotations(map[string]string{v1alpha1.AnnotationOwner: s.Namespace + "/namesake"})
	u.SetLabels(map[string]string{v1alpha1.LabelExperimentUID: namesake, v1alpha1.LabelExperiment: newExperiment().GetName()})
	return u
}

// replaceWorkflow puts another Workflow, which has succeeded, in the place of the submitted one.
func replaceWorkflow(ctx context.Context, s *faults.Stage) error {
	w, err := find(ctx, s, "Workflow")
	if err != nil {
		return err
	}
	other := w.DeepCopy()
	if err := lose("Workflow")(ctx, s); err != nil {
		return err
	}
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "finalizers"} {
		unstructured.RemoveNestedField(other.Object, "metadata", field)
	}
	if err := unstructured.SetNestedField(other.Object, "Succeeded", "status", "phase"); err != nil {
		return err
	}
	return s.Client.Create(ctx, other)
}

// another is an object of somebody else that has the name of a child.
type another = func(context.Context, *faults.Stage) (*unstructured.Unstructured, error)

// take makes it, and free deletes it.
func take(a another) action {
	return on(a, func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
		return c.Create(ctx, o)
	})
}

func free(a another) action {
	return on(a, func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
		return c.Delete(ctx, o)
	})
}

func on(a another, do func(context.Context, client.Client, *unstructured.Unstructured) error) action {
	return func(ctx context.Context, s *faults.Stage) error {
		o, err := a(ctx, s)
		if err != nil {
			return err
		}
		return do(ctx, s.Client, o)
	}
}

// anothersApplication has the name of the claim.
func anothersApplication(ctx context.Context, s *faults.Stage) (*unstructured.Unstructured, error) {
	claim, err := find(ctx, s, "GKECluster")
	if err != nil {
		return nil, err
	}
	return anothers("Application", claim.GetName(), s, map[string]any{"spec": map[string]any{
		"project": "default", "destination": map[string]any{"server": "https://198.51.100.1"},
	}}), nil
}

// anothersNamespace has the name of that of the load generator on the hub.
func anothersNamespace(ctx context.Context, s *faults.Stage) (*unstructured.Unstructured, error) {
	e := theExperiment(s)
	if err := s.Client.Get(ctx, client.ObjectKeyFromObject(e), e); err != nil {
		return nil, fmt.Errorf("reading Experiment: %w", err)
	}
	return anothers("Namespace", kube.ChildName(63, e.GetUID(), e.GetName(), "loadgen"), s, map[string]any{}), nil
}

// anothersWorkflow has succeeded.
func anothersWorkflow(ctx context.Context, s *faults.Stage) (*unstructured.Unstructured, error) {
	e := theExperiment(s)
	if err := s.Client.Get(ctx, client.ObjectKeyFromObject(e), e); err != nil {
		return nil, fmt.Errorf("reading Experiment: %w", err)
	}
	name := kube.ChildName(argoworkflows.MaxWorkflowName, e.GetUID(), e.GetName(), "validation")
	return anothers("Workflow", name, s, map[string]any{
		"spec":   map[string]any{"workflowTemplateRef": map[string]any{"name": "gateway-validation"}},
		"status": map[string]any{"phase": "Succeeded"},
	}), nil
}
