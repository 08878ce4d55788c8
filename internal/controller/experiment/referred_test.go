package experiment

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/argoworkflows"
	"github.com/labkeeper/labkeeper/internal/external/arlon"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// referring is a target on a Cluster.
func referring(name string, depends ...string) v1alpha1.Target {
	t := targetOf(name, v1alpha1.ClusterReferred, depends...)
	t.Cluster.ClusterRef = &v1alpha1.ClusterReference{Name: "k3"}
	return t
}

// k3 is a Cluster that is Ready.
func k3(uid types.UID) *unstructured.Unstructured {
	u := object(arlon.ClusterGVK, "lab", "k3")
	u.SetUID(uid)
	u.SetGeneration(1)
	u.Object["spec"] = map[string]any{"clusterTemplate": map[string]any{"url": "https://git.example.com/fleet.git", "path": "x", "revision": "main"}}
	saysOfReady(u, "True", "Up", "all is well", 1)
	return u
}

func saysOfReady(cluster *unstructured.Unstructured, status, reason, message string, generation int64) {
	cluster.Object["status"] = map[string]any{"conditions": []any{map[string]any{
		"type": "Ready", "status": status, "reason": reason, "message": message, "observedGeneration": generation, "lastTransitionTime": "2026-03-01T12:00:00Z",
	}}}
}

// registrationFor is what a Cluster registers itself by, at an address of its own where there is one.
func registrationFor(cluster *unstructured.Unstructured, server string) *unstructured.Unstructured {
	u := object(argocd.SecretGVK, "argocd", "arlon-"+string(cluster.GetUID()))
	u.SetLabels(map[string]string{"argocd.argoproj.io/secret-type": "cluster", arlon.LabelUID: string(cluster.GetUID())})
	u.Object["data"] = map[string]any{
		"name": encode("k3"), "server": encode(orDefault(server, "https://203.0.113.33:6443")), "config": encode(`{"bearerToken": "canary-token"}`),
	}
	return u
}

// onReferred is an Experiment on a Cluster, with more objects.
func onReferred(t *testing.T, more ...*unstructured.Unstructured) *lab {
	l := newLab(t, experimentOf(referring("app")), nginx(), template())
	for _, o := range more {
		l.create(o.DeepCopy())
	}
	return l
}

// reread is an object as the server has it; nil if it is gone.
func (l *lab) reread(o *unstructured.Unstructured) *unstructured.Unstructured {
	l.t.Helper()
	now, err := kube.Get(l.t.Context(), l.client, o.GroupVersionKind(), keyOf(o))
	if err != nil {
		l.t.Fatal(err)
	}
	return now
}

// clusterSays has the only Cluster say something.
func (l *lab) clusterSays(status, reason, message string, generation int64) {
	l.t.Helper()
	cluster := l.reread(k3(""))
	saysOfReady(cluster, status, reason, message, generation)
	l.update(cluster)
}

// The Cluster and what it registers itself by are read, and nothing of them is written.
func TestReferredCluster(t *testing.T) {
	cluster := k3("u-1")
	l := onReferred(t, cluster, registrationFor(cluster, ""))
	before := []*unstructured.Unstructured{l.reread(cluster), l.reread(registrationFor(cluster, ""))}
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
	want := []string{
		"patch Experiment", "patch Experiment/status",
		"create Application", "patch Experiment/status",
		"create Workflow", "patch Experiment/status",
		"patch Experiment/status",
	}
	if diff := cmp.Diff(want, l.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	status := l.get().Status.Targets[0]
	if status.Endpoint != "https://203.0.113.33:6443" || status.Cluster != "lab/k3" || !strings.HasPrefix(status.Namespace, "tutorial-app-") {
		t.Errorf("its status is %+v", status)
	}
	app := l.list(argocd.ApplicationGVK)[0]
	destination, _, _ := unstructured.NestedStringMap(app.Object, "spec", "destination")
	if diff := cmp.Diff(map[string]string{"server": status.Endpoint, "namespace": status.Namespace}, destination); diff != "" {
		t.Errorf("destination (-want +got):\n%s", diff)
	}
	if err := valid(&app); err != nil {
		t.Error(err)
	}
	parameters := map[string]string{}
	for _, p := range l.list(argoworkflows.WorkflowGVK)[0].Object["spec"].(map[string]any)["arguments"].(map[string]any)["parameters"].([]any) {
		parameters[p.(map[string]any)["name"].(string)] = p.(map[string]any)["value"].(string)
	}
	for name, want := range map[string]string{"app-name": "k3", "app-endpoint": status.Endpoint, "app-namespace": status.Namespace} {
		if parameters[name] != want {
			t.Errorf("parameter %s is %q, want %q", name, parameters[name], want)
		}
	}
	l.credentialsAreInSecretsAlone()

	l.remove()
	l.settle(l.play)
	if left := l.ours(); l.get() != nil || len(left) > 0 {
		t.Errorf("%v are left", kindsLeft(left))
	}
	if diff := cmp.Diff(before, []*unstructured.Unstructured{l.reread(cluster), l.reread(registrationFor(cluster, ""))}); diff != "" {
		t.Errorf("the Cluster and its Secret (-want +got):\n%s", diff)
	}
}

// What it waits for it says, in the words of the Cluster where that has any, and goes on when that is over.
func TestReferredClusterThatIsWaitedFor(t *testing.T) {
	ready := k3("u-1")
	anothers := registrationFor(k3("u-0"), "")
	anothers.SetName("k3")
	unmarked := registrationFor(ready, "")
	unmarked.SetLabels(map[string]string{"argocd.argoproj.io/secret-type": "cluster"})
	unknown := registrationFor(ready, "")
	unknown.SetLabels(map[string]string{arlon.LabelUID: "u-1"})
	second := registrationFor(ready, "https://203.0.113.34")
	second.SetName("another")
	saying := func(status, reason, message string, generation int64) *unstructured.Unstructured {
		u := k3("u-1")
		u.SetGeneration(2)
		saysOfReady(u, status, reason, message, generation)
		return u
	}
	silent, going := k3("u-1"), k3("u-1")
	delete(silent.Object, "status")
	going.SetFinalizers([]string{"cluster.core.arlon.io"})
	const missing = "Cluster lab/k3 is Ready, and not registered with Argo CD: there is no cluster Secret in namespace argocd with the label core.arlon.io/cluster-uid=u-1"
	for name, test := range map[string]struct {
		objects []*unstructured.Unstructured
		reason  string
		says    string
	}{
		"not there":           {nil, v1alpha1.ReasonClusterNotFound, "Target app: Cluster lab/k3 does not exist; create it"},
		"saying nothing":      {objects(silent), v1alpha1.ReasonClusterProvisioning, "Target app: Cluster lab/k3 is not Ready"},
		"not ready":           {objects(saying("False", "TemplateInvalid", "multiple\nmanifests", 2)), v1alpha1.ReasonClusterProvisioning, "Cluster lab/k3 is not Ready: TemplateInvalid: multiple manifests"},
		"not ready before":    {objects(saying("False", "A", "no quota", 1)), v1alpha1.ReasonClusterProvisioning, "Cluster lab/k3 is not Ready: A: no quota"},
		"ready before":        {objects(saying("True", "Up", "all is well", 1), registrationFor(ready, "")), v1alpha1.ReasonClusterProvisioning, "it was Ready at generation 1"},
		"without end":         {objects(saying("False", "A", strings.Repeat("x", 1<<20), 2)), v1alpha1.ReasonClusterProvisioning, "Cluster lab/k3 is not Ready: A: xxx"},
		"being deleted":       {objects(going, registrationFor(ready, "")), v1alpha1.ReasonClusterProvisioning, "Cluster lab/k3 is being deleted by somebody"},
		"not registered":      {objects(ready), v1alpha1.ReasonClusterNotRegistered, missing},
		"another's Secret":    {objects(ready, anothers), v1alpha1.ReasonClusterNotRegistered, missing},
		"a Secret of nobody":  {objects(ready, unmarked), v1alpha1.ReasonClusterNotRegistered, missing},
		"a Secret for nobody": {objects(ready, unknown), v1alpha1.ReasonClusterNotRegistered, missing},
		"registered twice":    {objects(ready, registrationFor(ready, ""), second), v1alpha1.ReasonClusterNotRegistered, "Secret argocd/another and Secret argocd/arlon-u-1 both register it"},
		"the hub": {objects(ready, registrationFor(ready, "https://kubernetes.default.svc/")), v1alpha1.ReasonClusterNotRegistered,
			"the server of Secret argocd/arlon-u-1, by which Argo CD knows it, is the one that Argo CD runs on"},
		"a script":   {objects(ready, registrationFor(ready, "https://203.0.113.10/$(canary)")), v1alpha1.ReasonClusterNotRegistered, "is not a URL such as"},
		"a password": {objects(ready, registrationFor(ready, "https://u:canary@203.0.113.10")), v1alpha1.ReasonClusterNotRegistered, "is not a URL such as"},
	} {
		t.Run(name, func(t *testing.T) {
			l := onReferred(t, test.objects...)
			if name == "being deleted" {
				l.deleteObject(k3(""))
			}
			l.settle(l.play)
			l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, test.reason)
			if m := l.message(v1alpha1.ConditionClustersReady); !strings.Contains(m, test.says) || strings.Contains(m, "canary") || len(m) > 1024 {
				t.Errorf("message %q does not say %q", m, test.says)
			}
			if n := len(l.list(argocd.ApplicationGVK)) + len(l.list(argocd.SecretGVK)); n > 0 {
				t.Errorf("%d objects were made", n)
			}
			if state := l.get().Status.Targets[0].State; state != v1alpha1.TargetProvisioning {
				t.Errorf("the target is %s", state)
			}
			for _, o := range slices.Concat(test.objects, objects(registrationFor(ready, ""), second)) {
				if now := l.reread(o); now != nil {
					now.SetFinalizers(nil)
					l.update(now)
					if now = l.reread(o); now != nil {
						l.deleteObject(now)
					}
				}
			}
			l.create(k3("u-1"))
			l.create(registrationFor(ready, ""))
			l.settle(l.play)
			l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
		})
	}
}

func objects(all ...*unstructured.Unstructured) []*unstructured.Unstructured { return all }

// Nobody tells when a Secret comes: it is looked for every ten seconds. That of a Cluster which is not there, or not Ready, is not.
func TestReferredClusterIsLookedForInTime(t *testing.T) {
	l := onReferred(t)
	l.mustReconcile()
	if wait := l.pass(); wait != time.Hour {
		t.Errorf("without a Cluster it looks again after %s, want at the deadline", wait)
	}
	l.create(k3("u-1"))
	if wait := l.pass(); wait != secretDelay {
		t.Errorf("without a Secret it looks again after %s", wait)
	}
	l.later(time.Hour)
	l.mustReconcile()
	l.expect(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonProgressDeadlineExceeded)
}

// A list of Secrets that fails is said, and tried again.
func TestReferredClusterForbidden(t *testing.T) {
	l := onReferred(t, k3("u-1"), registrationFor(k3("u-1"), ""))
	l.listErrors["Secret"] = apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", errors.New("no rights"))
	for range 3 {
		_ = l.reconcile()
	}
	l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonForbidden)
	l.listErrors = nil
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
}

// A kind that is not installed is named, before anything is begun.
func TestReferredClusterWithoutItsKind(t *testing.T) {
	l := onReferred(t, k3("u-1"), registrationFor(k3("u-1"), ""))
	l.kinds[arlon.ClusterGVK] = kube.KindMissing
	l.settle(l.play)
	l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonCRDMissing)
	if m := l.message(v1alpha1.ConditionClustersReady); !strings.Contains(m, "Cluster.core.arlon.io/v1") || l.get().Status.StartedAt != nil {
		t.Errorf("it was begun, or says %q", m)
	}
	if wait := l.pass(); wait != 24*time.Hour-time.Hour {
		t.Errorf("it looks again after %s", wait)
	}
	l.kinds[arlon.ClusterGVK] = kube.KindServed
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)

	t.Run("any more", func(t *testing.T) {
		l.kinds[arlon.ClusterGVK] = kube.KindMissing
		l.remove()
		l.settle(l.play)
		if left := l.ours(); l.get() != nil || len(left) > 0 {
			t.Errorf("%v are left", kindsLeft(left))
		}
	})
}

// That the Cluster is there is no sign that the Experiment was begun, nor its target.
func TestReferredClusterBeginsNothing(t *testing.T) {
	for name, test := range map[string]*v1alpha1.Experiment{
		"of an Experiment that is not accepted": experimentOf(targetOf("app", v1alpha1.ClusterReferred)),
		"of one without a Component": func() *v1alpha1.Experiment {
			e := experimentOf(referring("app"))
			e.Spec.Targets[0].Components[0].App = "missing"
			return e
		}(),
	} {
		l := newLab(t, test, nginx(), template(), k3("u-1"), registrationFor(k3("u-1"), ""))
		l.settle(l.play)
		if l.get().Status.StartedAt != nil {
			t.Errorf("%s: it was begun", name)
		}
	}
	l := newLab(t, experimentOf(targetOf("first", v1alpha1.ClusterHub), referring("app", "first")), nginx(), template(), k3("u-1"))
	l.listErrors["Secret"] = errors.New("nobody should ask")
	l.mustReconcile()
	if s := l.get().Status.Targets[1]; s.State != v1alpha1.TargetBlocked {
		t.Errorf("the target is %s: %s", s.State, s.Message)
	}
}

// A Cluster that is not Ready any more keeps the verdict, until it is.
func TestReferredClusterNotReadyAgain(t *testing.T) {
	l := onReferred(t, k3("u-1"), registrationFor(k3("u-1"), ""))
	l.until(v1alpha1.PhaseRunning)
	l.clusterSays("False", "Upgrading", "the control plane is replaced", 1)
	l.settle(l.play)
	l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonClusterProvisioning)
	l.expect(v1alpha1.ConditionWorkflowSucceeded, metav1.ConditionFalse, v1alpha1.ReasonTargetsNotSettled)
	if m := l.message(v1alpha1.ConditionClustersReady); !strings.Contains(m, "Upgrading: the control plane is replaced") {
		t.Errorf("it says %q", m)
	}
	l.clusterSays("True", "Up", "", 1)
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
}

// A Cluster that takes the place of another is another cluster, also where Argo CD knows it by the same address: what was deployed on
// the first has gone with it.
func TestReferredClusterThatIsAnother(t *testing.T) {
	for name, server := range map[string]string{"elsewhere": "https://203.0.113.99", "at the same address": ""} {
		t.Run(name, func(t *testing.T) {
			l := onReferred(t, k3("u-1"), registrationFor(k3("u-1"), ""))
			l.until(v1alpha1.PhaseRunning)
			first := l.list(argocd.ApplicationGVK)[0]
			l.deleteObject(k3(""))
			l.deleteObject(registrationFor(k3("u-1"), ""))
			l.settle(l.play)
			l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonClusterNotFound)
			l.expect(v1alpha1.ConditionWorkflowSucceeded, metav1.ConditionFalse, v1alpha1.ReasonTargetsNotSettled)
			if l.reread(&first) == nil {
				t.Fatal("its Application is gone before there is another cluster")
			}
			l.create(k3("u-2"))
			l.create(registrationFor(k3("u-2"), server))
			l.stuck = argocd.ApplicationGVK.Kind // Argo CD does not know the first any more
			l.settle(l.play)
			l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
			app := l.list(argocd.ApplicationGVK)[0]
			want := orDefault(server, "https://203.0.113.33:6443")
			if got, _, _ := unstructured.NestedString(app.Object, "spec", "destination", "server"); got != want || app.GetUID() == first.GetUID() || deployedTo(&app) != "u-2" {
				t.Errorf("it is deployed to %s, of %s, by the same Application: %v", got, deployedTo(&app), app.GetUID() == first.GetUID())
			}
			if got := l.get().Status.Targets[0].Endpoint; got != want {
				t.Errorf("the endpoint is %q", got)
			}
		})
	}
}

// Nothing is deployed on, and no good verdict rests on, a Cluster that the cache alone has.
func TestReferredClusterThatTheCacheAloneHas(t *testing.T) {
	for name, happens := range map[string]func(*lab){
		"is gone":    func(l *lab) { l.deleteObject(k3("")) },
		"is another": func(l *lab) { l.deleteObject(k3("")); l.create(k3("u-2")) },
		"is being deleted": func(l *lab) {
			cluster := l.reread(k3(""))
			cluster.SetFinalizers([]string{"cluster.core.arlon.io"})
			l.update(cluster)
			l.deleteObject(cluster)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := onReferred(t, k3("u-1"), registrationFor(k3("u-1"), ""))
			was := *l.reread(k3(""))
			happens(l)
			l.reconciler.Foreign = before{l.client, []unstructured.Unstructured{was}}
			for range 3 {
				_ = l.reconcile()
			}
			if n := len(l.list(argocd.ApplicationGVK)); n > 0 {
				t.Error("something is deployed there")
			}
		})
		t.Run(name+" when its Workflow has succeeded", func(t *testing.T) {
			l := onReferred(t, k3("u-1"), registrationFor(k3("u-1"), ""))
			l.until(v1alpha1.PhaseRunning)
			was := *l.reread(k3(""))
			happens(l)
			workflow := l.list(argoworkflows.WorkflowGVK)[0]
			l.succeed(&workflow)
			l.hasNoVerdictWhileTheCacheHas([]unstructured.Unstructured{was})
		})
	}
}

// Where the Application says that the cluster is is no one's choice: what somebody changes of it is put back.
func TestReferredClusterDoesNotMove(t *testing.T) {
	const elsewhere = "https://198.51.100.1"
	annotate := func(key, value string) func(*unstructured.Unstructured) {
		return func(app *unstructured.Unstructured) {
			annotations := app.GetAnnotations()
			if annotations[key] = value; value == "" {
				delete(annotations, key)
			}
			app.SetAnnotations(annotations)
		}
	}
	for name, change := range map[string]func(*unstructured.Unstructured){
		"the destination": func(app *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(app.Object, elsewhere, "spec", "destination", "server")
		},
		"the endpoint": annotate(v1alpha1.AnnotationEndpoint, elsewhere),
		"no endpoint":  annotate(v1alpha1.AnnotationEndpoint, ""),
		"no Cluster":   annotate(v1alpha1.AnnotationClusterUID, ""),
	} {
		t.Run(name, func(t *testing.T) {
			l := onReferred(t, k3("u-1"), registrationFor(k3("u-1"), ""))
			l.until(v1alpha1.PhaseRunning)
			was := l.list(argocd.ApplicationGVK)[0]
			app := *was.DeepCopy()
			change(&app)
			l.update(&app)
			l.mustReconcile()
			now := l.list(argocd.ApplicationGVK)[0]
			if diff := cmp.Diff(was.Object["spec"], now.Object["spec"]); diff != "" || now.GetUID() != was.GetUID() {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			for _, key := range []string{v1alpha1.AnnotationEndpoint, v1alpha1.AnnotationClusterUID} {
				if got, want := now.GetAnnotations()[key], was.GetAnnotations()[key]; got != want {
					t.Errorf("annotation %s is %q, want %q", key, got, want)
				}
			}
			l.settle(l.play)
			l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
		})
	}
}

// What Argo CD cannot use is looked at again: a registration that is gone is waited for, and one at another address followed, because
// the Cluster is the same. None is ever written.
func TestReferredClusterThatIsRegisteredAnew(t *testing.T) {
	l := onReferred(t, k3("u-1"), registrationFor(k3("u-1"), ""))
	l.until(v1alpha1.PhaseReady)
	l.disconnect("ComparisonError", "no route to host")
	l.writes = nil
	if wait := l.pass(); wait != time.Minute {
		t.Errorf("it looks again after %s", wait)
	}
	l.deleteObject(registrationFor(k3("u-1"), ""))
	if wait := l.pass(); wait != secretDelay {
		t.Errorf("without a Secret it looks again after %s", wait)
	}
	l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonClusterNotRegistered)
	if got := slices.DeleteFunc(l.writes, func(w string) bool { return w == "patch Experiment/status" }); len(got) > 0 {
		t.Errorf("there are the writes %v", got)
	}
	l.create(registrationFor(k3("u-1"), "https://203.0.113.77"))
	l.mustReconcile()
	app := l.list(argocd.ApplicationGVK)[0]
	if got, _, _ := unstructured.NestedString(app.Object, "spec", "destination", "server"); got != "https://203.0.113.77" {
		t.Errorf("it is deployed to %s", got)
	}
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
	if got := l.get().Status.Targets[0].Endpoint; got != "https://203.0.113.77" {
		t.Errorf("the endpoint is %q", got)
	}
}

// withoutWorkflow deletes the Experiment, takes the Workflow down and plays nothing else.
func (l *lab) withoutWorkflow() {
	l.t.Helper()
	l.remove()
	for range 3 {
		_ = l.reconcile()
		for _, workflow := range l.list(argoworkflows.WorkflowGVK) {
			l.finalize(&workflow)
		}
	}
}

// The Application of a Cluster that is gone has nothing to wait for; that of one which is there has.
func TestReferredClusterIsGoneInATeardown(t *testing.T) {
	for name, happens := range map[string]func(*lab){
		"gone":    func(l *lab) { l.deleteObject(k3("")) },
		"another": func(l *lab) { l.deleteObject(k3("")); l.create(k3("u-2")) },
	} {
		t.Run(name, func(t *testing.T) {
			l := onReferred(t, k3("u-1"), registrationFor(k3("u-1"), ""))
			l.settle(l.play)
			l.stuck = argocd.ApplicationGVK.Kind
			l.withoutWorkflow()
			l.reconciler.Foreign = before{never{l.client}, l.list(argocd.ApplicationGVK)}
			l.tick()
			if len(l.list(argocd.ApplicationGVK)) != 1 {
				t.Fatal("the Application of a Cluster that is there is let go")
			}
			l.reconciler.Foreign = l.client
			happens(l)
			l.settle(l.play)
			if left := l.ours(); l.get() != nil || len(left) > 0 {
				t.Errorf("%v are left: %s", kindsLeft(left), l.message(v1alpha1.ConditionReady))
			}
		})
	}
}

// Of a cluster that it does not know, Argo CD would leave what it deployed, so the Applications wait for a share of the deadline until
// it knows it: what makes the Cluster registers it.
func TestReferredClusterIsNotRegisteredInATeardown(t *testing.T) {
	begin := func(t *testing.T) *lab {
		l := onReferred(t, k3("u-1"), registrationFor(k3("u-1"), ""))
		l.settle(l.play)
		l.deleteObject(registrationFor(k3("u-1"), ""))
		l.withoutWorkflow()
		if wait := l.pass(); wait != leftoverDelay {
			t.Errorf("it looks again after %s", wait)
		}
		if app := l.list(argocd.ApplicationGVK)[0]; going(&app) {
			t.Fatal("its Application is deleted")
		}
		if m := l.message(v1alpha1.ConditionReady); !strings.Contains(m, "its cluster is registered with Argo CD first") {
			t.Errorf("it says %q", m)
		}
		return l
	}
	for name, happens := range map[string]func(*lab){
		"until it is":              func(l *lab) { l.create(registrationFor(k3("u-1"), "")) },
		"until the Cluster goes":   func(l *lab) { l.deleteObject(k3("")) },
		"and not for good":         func(l *lab) { l.later(8 * time.Minute) },
		"and not without its kind": func(l *lab) { l.kinds[arlon.ClusterGVK] = kube.KindMissing },
	} {
		t.Run(name, func(t *testing.T) {
			l := begin(t)
			happens(l)
			l.settle(l.play)
			if left := l.ours(); l.get() != nil || len(left) > 0 {
				t.Errorf("%v are left: %s", kindsLeft(left), l.message(v1alpha1.ConditionReady))
			}
			if slices.Contains(l.writes, "create Secret") {
				t.Error("it has registered a cluster that is not its own")
			}
		})
	}
}

// A target with a time to live of its own leaves the Cluster, too.
func TestReferredClusterOfATargetThatLeaves(t *testing.T) {
	e := experimentOf(referring("app"), targetOf("hub", v1alpha1.ClusterHub))
	e.Spec.Targets[0].TTLAfterFinished = &metav1.Duration{}
	l := newLab(t, e, nginx(), template(), k3("u-1"), registrationFor(k3("u-1"), ""))
	before := []*unstructured.Unstructured{l.reread(k3("")), l.reread(registrationFor(k3("u-1"), ""))}
	l.settle(l.play)
	if s := l.get().Status.Targets[0]; s.State != v1alpha1.TargetDeleted {
		t.Errorf("the target is %s: %s", s.State, s.Message)
	}
	if n := len(l.list(argocd.ApplicationGVK)); n != 1 {
		t.Errorf("%d Applications are left", n)
	}
	if diff := cmp.Diff(before, []*unstructured.Unstructured{l.reread(k3("")), l.reread(registrationFor(k3("u-1"), ""))}); diff != "" {
		t.Errorf("the Cluster and its Secret (-want +got):\n%s", diff)
	}
}

// What an author says of another namespace, or of nodes, moves nothing: the cluster is others', too.
func TestReferredClusterIsShared(t *testing.T) {
	target := referring("app")
	target.Namespace = "kube-system"
	l := newLab(t, experimentOf(target), nginx(), template(), k3("u-1"), registrationFor(k3("u-1"), ""))
	l.settle(l.play)
	if got := l.get().Status.Targets[0].Namespace; !strings.HasPrefix(got, "tutorial-app-") {
		t.Errorf("it is deployed into %s", got)
	}
	theirs := k3("u-9")
	theirs.SetNamespace("others")
	alone := onReferred(t, theirs, registrationFor(theirs, ""))
	alone.settle(alone.play)
	alone.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonClusterNotFound)
}

// An Experiment is found by the Clusters that it names.
func TestClusterNames(t *testing.T) {
	e := experimentOf(referring("a"), targetOf("b", v1alpha1.ClusterHub), targetOf("c", v1alpha1.ClusterReferred))
	if got := fmt.Sprint(clusterNames(e)); got != "[k3]" {
		t.Errorf("it names %s", got)
	}
}

// A Cluster that is being deleted is not ready, whatever it says, nor is one that is not there.
func TestReadReferred(t *testing.T) {
	leaving := k3("u-1")
	leaving.SetDeletionTimestamp(&metav1.Time{Time: epoch})
	for name, test := range map[string]struct {
		cluster *unstructured.Unstructured
		want    clusterState
	}{
		"there":         {k3("u-1"), clusterState{Ready: true}},
		"being deleted": {leaving, clusterState{}},
		"not there":     {nil, clusterState{}},
	} {
		if diff := cmp.Diff(test.want, referred{}.read(objects(test.cluster))); diff != "" {
			t.Errorf("%s: state (-want +got):\n%s", name, diff)
		}
	}
}

// Where a Cluster is, only Applications tell that were created for it, and that say it twice.
func TestReferredEndpoint(t *testing.T) {
	app := func(cluster, endpoint, server string) *unstructured.Unstructured {
		u := object(argocd.ApplicationGVK, "argocd", "app")
		u.SetAnnotations(map[string]string{v1alpha1.AnnotationClusterUID: cluster, v1alpha1.AnnotationEndpoint: endpoint})
		_ = unstructured.SetNestedField(u.Object, server, "spec", "destination", "server")
		return u
	}
	for name, test := range map[string]struct {
		apps    []*unstructured.Unstructured
		cluster types.UID
		want    string
	}{
		"none":                    {nil, "u-1", ""},
		"of the Cluster":          {objects(app("u-1", "https://a", "https://a")), "u-1", "https://a"},
		"of another":              {objects(app("u-0", "https://a", "https://a")), "u-1", ""},
		"of the second alone":     {objects(app("u-0", "https://a", "https://a"), app("u-1", "https://b", "https://b")), "u-1", "https://b"},
		"of any":                  {objects(app("u-0", "https://a", "https://a")), "", "https://a"},
		"of one that was changed": {objects(app("u-1", "https://a", "https://b")), "u-1", ""},
		"of one that says none":   {objects(app("u-1", "", "")), "u-1", ""},
	} {
		if got := referredEndpoint(test.apps, test.cluster); got != test.want {
			t.Errorf("%s: it is %q, want %q", name, got, test.want)
		}
	}
}
