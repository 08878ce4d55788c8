package experiment

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/argoworkflows"
	"github.com/labkeeper/labkeeper/internal/external/crossplane"
)

// onExisting is an Experiment on a cluster that is there already.
func onExisting(objects ...client.Object) []client.Object {
	target := targetOf("app", v1alpha1.ClusterExisting)
	target.Cluster.KubeconfigSecret = &v1alpha1.SecretKey{Name: "staging", Key: "config"}
	return append(objects, experimentOf(target), nginx(), template())
}

func staging(kubeconfig string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "staging"}, Data: map[string][]byte{"config": []byte(kubeconfig)},
	}
}

// A cluster that is there already is registered, and costs no claim.
func TestExistingCluster(t *testing.T) {
	l := newLab(t, onExisting(staging(kubeconfig))...)
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
	want := []string{
		"patch Experiment", "patch Experiment/status",
		"create Secret", "create Application", "patch Experiment/status",
		"create Workflow", "patch Experiment/status",
		"patch Experiment/status",
	}
	if diff := cmp.Diff(want, l.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	status := l.get().Status.Targets[0]
	if status.Endpoint != "https://203.0.113.10" || status.Cluster != "lab/staging" || !strings.HasPrefix(status.Namespace, "tutorial-app-") {
		t.Errorf("its status is %+v", status)
	}
	workflow := l.list(argoworkflows.WorkflowGVK)[0]
	parameters := map[string]string{}
	for _, p := range workflow.Object["spec"].(map[string]any)["arguments"].(map[string]any)["parameters"].([]any) {
		parameters[p.(map[string]any)["name"].(string)] = p.(map[string]any)["value"].(string)
	}
	t.Run("note 25 and 57: the Workflow is told where the components are", func(t *testing.T) {
		for name, want := range map[string]string{"app-name": "staging", "app-endpoint": "https://203.0.113.10", "app-namespace": status.Namespace} {
			if parameters[name] != want {
				t.Errorf("parameter %s is %q, want %q", name, parameters[name], want)
			}
		}
	})

	l.remove()
	l.settle(l.play)
	if l.get() != nil {
		t.Fatalf("it is still there: %+v", l.get().Status)
	}
	for _, gvk := range []schema.GroupVersionKind{argocd.ApplicationGVK, argocd.SecretGVK, argoworkflows.WorkflowGVK} {
		if left := l.list(gvk); len(left) > 0 {
			t.Errorf("%d %s left", len(left), gvk.Kind)
		}
	}
	if err := l.client.Get(t.Context(), types.NamespacedName{Namespace: "lab", Name: "staging"}, &corev1.Secret{}); err != nil {
		t.Errorf("the user's kubeconfig: %v", err)
	}
}

// What is wrong with the user's kubeconfig is said, waited for, and never quoted.
func TestNote55ExistingClusterWithoutKubeconfig(t *testing.T) {
	for name, test := range map[string]struct {
		secret *corev1.Secret
		reason string
		says   string
	}{
		"no Secret":   {nil, v1alpha1.ReasonKubeconfigMissing, "Secret lab/staging with key config does not exist; create it"},
		"another key": {&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "staging"}}, v1alpha1.ReasonKubeconfigMissing, "key config"},
		"a plugin": {staging(strings.Replace(kubeconfig, "token: canary-token", "exec: {command: gcloud, apiVersion: client.authentication.k8s.io/v1}", 1)),
			v1alpha1.ReasonKubeconfigInvalid, `exec plugin "gcloud"`},
		"a password in the address": {staging(strings.Replace(kubeconfig, "https://", "https://u:canary@", 1)), v1alpha1.ReasonKubeconfigInvalid, "is not a URL such as"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, onExisting()...)
			if test.secret != nil {
				l.create(test.secret)
			}
			l.settle(l.play)
			l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, test.reason)
			c := meta.FindStatusCondition(l.get().Status.Conditions, v1alpha1.ConditionClustersReady)
			if !strings.Contains(c.Message, test.says) || strings.Contains(c.Message, "canary") {
				t.Errorf("message %q does not say %q", c.Message, test.says)
			}
			if len(l.list(argocd.ApplicationGVK)) > 0 {
				t.Error("it has an Application")
			}
			if test.secret != nil {
				if err := l.client.Delete(t.Context(), test.secret); err != nil {
					t.Fatal(err)
				}
			}
			l.create(staging(kubeconfig))
			l.settle(l.play)
			l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
		})
	}
}

// A kubeconfig that somebody must mend is told of before anything is begun, and paid for, also where its target waits for another. One
// that is not there may be made by what comes before it.
func TestWrongKubeconfigIsToldFirst(t *testing.T) {
	for name, test := range map[string]struct {
		secret *corev1.Secret
		reason string // empty: the others are begun
	}{
		"no Secret":    {nil, ""},
		"another key":  {&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "staging"}}, v1alpha1.ReasonKubeconfigMissing},
		"no YAML":      {staging("canary: ["), v1alpha1.ReasonKubeconfigInvalid},
		"a plugin":     {staging(strings.Replace(kubeconfig, "token: canary-token", "exec: {command: gcloud, apiVersion: client.authentication.k8s.io/v1}", 1)), v1alpha1.ReasonKubeconfigInvalid},
		"a file of it": {staging(strings.Replace(kubeconfig, "token: canary-token", "tokenFile: /canary", 1)), v1alpha1.ReasonKubeconfigInvalid},
		"a good one":   {staging(kubeconfig), ""},
	} {
		for _, depends := range [][]string{nil, {"a"}} {
			first, last := targetOf("a", v1alpha1.ClusterGKE), existingTarget("b", "staging")
			last.Depends = depends
			l := newLab(t, experimentOf(first, targetOf("c", v1alpha1.ClusterHub), last), nginx(), template())
			if test.secret != nil {
				l.create(test.secret.DeepCopy())
			}
			l.settle(func() bool { return false })
			begun := len(l.list(crossplane.GKEClusterGVK)) > 0 && len(l.list(argocd.ApplicationGVK)) > 0
			if begun != (test.reason == "") {
				t.Errorf("%s, after %v: the others are begun: %t", name, depends, begun)
			}
			if test.reason == "" {
				continue
			}
			l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, test.reason)
			if m := l.message(v1alpha1.ConditionClustersReady); !strings.Contains(m, "arget b: Secret lab/staging") || !strings.Contains(m, "arget a: Waits for target b") || strings.Contains(m, "canary") {
				t.Errorf("%s, after %v: it says %q", name, depends, m)
			}
			if by := l.get().Status.Targets[0].BlockedBy; !slices.Equal(by, []string{"b"}) || l.pass() != secretDelay {
				t.Errorf("%s, after %v: it waits for %v, and looks after %s", name, depends, by, l.pass())
			}
			l.update(staging(kubeconfig))
			l.settle(l.play)
			l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
		}
	}
}

// One that becomes wrong when others are begun holds up none of them.
func TestWrongKubeconfigLater(t *testing.T) {
	last, dependent := existingTarget("b", "staging"), targetOf("c", v1alpha1.ClusterHub)
	last.Depends, dependent.Depends = []string{"a"}, []string{"a"}
	l := newLab(t, experimentOf(targetOf("a", v1alpha1.ClusterGKE), last, dependent), nginx(), template(), staging(kubeconfig))
	for len(l.list(crossplane.GKEClusterGVK)) == 0 {
		l.mustReconcile()
	}
	l.update(staging("canary: ["))
	l.settle(l.play)
	if got := l.states(); got != "a Healthy, b Provisioning, c Healthy" {
		t.Errorf("it is %s", got)
	}
}

// A kubeconfig that nobody writes is looked for ever less often, until the deadline of clusters: many may wait for theirs.
func TestExistingClusterIsWaitedForWithPatience(t *testing.T) {
	l := newLab(t, onExisting()...)
	l.mustReconcile()
	now, looks := time.Duration(0), 0
	for l.get().Status.CompletedAt == nil {
		wait := l.pass()
		if looks++; now < secretDelay && wait != secretDelay || wait > time.Minute {
			t.Fatalf("after %s it is looked at after %s", now, wait)
		}
		now += max(wait, time.Second)
		l.later(now)
	}
	if looks > 100 {
		t.Errorf("it is looked for %d times in %s", looks, now)
	}
}

// A manager that may not read Secrets in the namespace says so, when it is the target's turn; the
// others' clusters do not wait for it.
func TestExistingClusterForbidden(t *testing.T) {
	app, loadgen := targetOf("app", v1alpha1.ClusterGKE), targetOf("loadgen", v1alpha1.ClusterExisting, "app")
	loadgen.Cluster.KubeconfigSecret = &v1alpha1.SecretKey{Name: "staging", Key: "config"}
	l := newLab(t, experimentOf(app, loadgen), nginx(), template(), staging(kubeconfig))
	l.getErrors["Secret"] = apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "staging", nil)
	if err := l.reconcile(); err != nil {
		t.Errorf("before it is the target's turn: %v", err)
	}
	if n := len(l.list(crossplane.GKEClusterGVK)); n != 1 {
		t.Fatalf("%d claims", n)
	}

	l = newLab(t, onExisting(staging(kubeconfig))...)
	l.getErrors["Secret"] = apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "staging", nil)
	for range 3 {
		_ = l.reconcile()
	}
	l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonForbidden)
	if m := l.message(v1alpha1.ConditionClustersReady); !strings.Contains(m, "kubectl -n lab create rolebinding labkeeper-kubeconfigs") {
		t.Errorf("it does not say what to do: %q", m)
	}
	if l.get().Status.StartedAt == nil {
		t.Error("it is not begun")
	}
	l.getErrors = nil
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
}

// registrationOf is what Argo CD is told of a cluster by hand.
func registrationOf(t *testing.T, name, kubeconfig string) *unstructured.Unstructured {
	t.Helper()
	credentials, err := argocd.ParseKubeconfig([]byte(kubeconfig), argocd.Untrusted)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := argocd.Cluster{Namespace: "argocd", Name: name, DisplayName: name, Credentials: credentials}.Object()
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// Argo CD finds clusters by their addresses. One that it knows with other credentials, an
// administrator's for instance, is not registered a second time: Argo CD would use one of the two for
// both.
func TestNote31ExistingClusterThatArgoCDKnows(t *testing.T) {
	admins := registrationOf(t, "production", strings.Replace(kubeconfig, "canary-token", "canary-admin", 1))
	l := newLab(t, onExisting(staging(kubeconfig), admins, registrationOf(t, "same", kubeconfig))...)
	l.settle(l.play)
	l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonNameTaken)
	message := recordedStep(l.get().Status.Conditions, v1alpha1.ConditionClustersReady).Message
	if !strings.Contains(message, "Secret argocd/production") || strings.Contains(message, "canary") {
		t.Errorf("message is %q", message)
	}
	if n := len(l.list(argocd.SecretGVK)) + len(l.list(argocd.ApplicationGVK)); n > 0 {
		t.Errorf("%d objects were made", n)
	}
	if err := l.client.Delete(t.Context(), admins); err != nil {
		t.Fatal(err)
	}
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
}

// While what keeps a cluster from being registered is as it was, those of all clusters are not listed again, for none of the targets that
// wait for it. When it is another, or gone, they are.
func TestWhatIsInTheWayIsListedOnce(t *testing.T) {
	rotated := strings.Replace(kubeconfig, "canary-token", "canary-admin", 1)
	for name, moves := range map[string]func(l *lab, admins *unstructured.Unstructured){
		"it is gone":               func(l *lab, admins *unstructured.Unstructured) { l.deleteObject(admins) },
		"it has the credentials":   func(l *lab, _ *unstructured.Unstructured) { l.update(registrationOf(t, "production", kubeconfig)) },
		"the kubeconfig has those": func(l *lab, _ *unstructured.Unstructured) { l.update(staging(rotated)) },
		"the kubeconfig is of another": func(l *lab, _ *unstructured.Unstructured) {
			l.update(staging(strings.ReplaceAll(kubeconfig, "203.0.113.10", "203.0.113.99")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, experimentOf(existingTarget("a", "staging"), existingTarget("b", "staging")), staging(kubeconfig), registrationOf(t, "production", rotated), nginx(), template())
			var all []string
			l.reconciler.Live = selected{l.client, &all, false}
			for range 5 {
				l.settle(l.play)
				l.later(time.Minute)
			}
			l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonNameTaken)
			if len(all) != 2 { // once for each target
				t.Errorf("they are listed %d times", len(all))
			}
			moves(l, l.read(argocd.SecretGVK, "argocd", "production"))
			l.later(time.Minute)
			l.settle(l.play)
			l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
		})
	}
}

// A Secret that names another cluster while the Experiment runs moves nothing there.
func TestExistingClusterDoesNotMove(t *testing.T) {
	l := newLab(t, onExisting(staging(kubeconfig))...)
	l.until(v1alpha1.PhaseReady)
	l.update(staging(strings.Replace(kubeconfig, "203.0.113.10", "203.0.113.99", 1)))
	l.disconnect("ComparisonError", "no route to host")
	l.writes = nil
	for range 3 {
		if err := l.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"patch Experiment/status"}, l.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonKubeconfigInvalid)
	if got := l.get().Status.Targets[0].Endpoint; got != "https://203.0.113.10" {
		t.Errorf("the endpoint is %q", got)
	}
	l.update(staging(kubeconfig))
	l.settle(l.play)
	l.expect(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonComplete)
}

// A renewed kubeconfig that writes the address of the cluster another way, as another tool does, is of the same cluster.
func TestExistingClusterByAnotherSpelling(t *testing.T) {
	l := newLab(t, onExisting(staging(kubeconfig))...)
	l.until(v1alpha1.PhaseReady)
	l.update(staging(strings.NewReplacer("https://203.0.113.10", "https://203.0.113.10/", "canary-token", "canary-renewed").Replace(kubeconfig)))
	l.disconnect("ComparisonError", "the server has asked for the client to provide credentials")
	for range 3 {
		l.mustReconcile()
	}
	if config := l.list(argocd.SecretGVK)[0].Object["data"].(map[string]any)["config"].(string); !strings.Contains(decode(config), "canary-renewed") {
		t.Errorf("Argo CD still has the old token: %s", l.message(v1alpha1.ConditionClustersReady))
	}
	l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionTrue, v1alpha1.ReasonClustersReady)
}

// A token that has run out does not hold the teardown up when the user renews it. Which of two errors Argo CD tells of depends on
// whether it has compared since, or has only tried to delete.
func TestExistingClusterTeardownWithAnotherToken(t *testing.T) {
	for _, says := range []string{"ComparisonError", "DeletionError"} {
		t.Run(says, func(t *testing.T) {
			l := newLab(t, onExisting(staging(kubeconfig))...)
			l.settle(l.play)
			l.remove()
			for range 3 {
				l.mustReconcile()
				for _, workflow := range l.list(argoworkflows.WorkflowGVK) {
					l.finalize(&workflow)
				}
			}
			l.disconnect(says, "the server has asked for the client to provide credentials")
			if wait := l.pass(); wait != time.Minute {
				t.Errorf("it looks again after %s", wait)
			}
			l.update(staging(strings.Replace(kubeconfig, "canary-token", "canary-renewed", 1)))
			l.pass()
			config := l.list(argocd.SecretGVK)[0].Object["data"].(map[string]any)["config"].(string)
			if !strings.Contains(decode(config), "canary-renewed") {
				t.Error("Argo CD still has the old token")
			}
			l.settle(l.play)
			if l.get() != nil {
				t.Errorf("it is still there: %+v", l.get().Status)
			}
		})
	}
}

// The address of the cluster is remembered by the Application alone; if somebody takes it off, it is
// read again.
func TestExistingClusterKeepsItsEndpoint(t *testing.T) {
	l := newLab(t, onExisting(staging(kubeconfig))...)
	l.until(v1alpha1.PhaseReady)
	app := l.list(argocd.ApplicationGVK)[0]
	annotations := app.GetAnnotations()
	if annotations[v1alpha1.AnnotationEndpoint] != "https://203.0.113.10" {
		t.Fatalf("annotations are %v", annotations)
	}
	delete(annotations, v1alpha1.AnnotationEndpoint)
	app.SetAnnotations(annotations)
	l.update(&app)
	l.settle(l.play)
	if got := l.list(argocd.ApplicationGVK)[0].GetAnnotations()[v1alpha1.AnnotationEndpoint]; got != "https://203.0.113.10" {
		t.Errorf("the annotation is %q", got)
	}
	if got := l.get().Status.Targets[0].Endpoint; got != "https://203.0.113.10" {
		t.Errorf("the endpoint is %q", got)
	}
}

// disconnect has Argo CD say that it cannot use the cluster.
func (l *lab) disconnect(conditionType, message string) {
	l.t.Helper()
	app := l.list(argocd.ApplicationGVK)[0]
	status, _ := app.Object["status"].(map[string]any)
	if status == nil {
		status = map[string]any{}
	}
	status["conditions"] = []any{map[string]any{"type": conditionType, "message": message}}
	app.Object["status"] = status
	l.update(&app)
}

// A kubeconfig that was rotated, or a cluster Secret that somebody has deleted or changed, is
// registered again when Argo CD says that it cannot use the cluster; and nothing is written when what
// it has is what it should have.
func TestNote53ClusterIsRegisteredAgain(t *testing.T) {
	rotated := strings.Replace(kubeconfig, "canary-token", "canary-token-2", 1)
	for name, test := range map[string]struct {
		happens func(l *lab, registered *unstructured.Unstructured)
		want    []string
	}{
		"rotated": {func(l *lab, _ *unstructured.Unstructured) { l.update(staging(rotated)) }, []string{"apply object"}},
		"deleted": {func(l *lab, registered *unstructured.Unstructured) {
			if err := l.client.Delete(l.t.Context(), registered); err != nil {
				l.t.Fatal(err)
			}
		}, []string{"create Secret"}},
		"changed": {func(l *lab, registered *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(registered.Object, encode("{}"), "data", "config")
			l.update(registered)
		}, []string{"apply object"}},
		"as it was": {func(*lab, *unstructured.Unstructured) {}, nil},
		"another's": {func(l *lab, registered *unstructured.Unstructured) {
			registered.SetLabels(nil)
			l.update(registered)
		}, nil},
		"not readable any more": {func(l *lab, _ *unstructured.Unstructured) { l.update(staging("not a kubeconfig")) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, onExisting(staging(kubeconfig))...)
			l.until(v1alpha1.PhaseReady)
			registered := l.list(argocd.SecretGVK)[0]
			test.happens(l, &registered)
			l.writes = nil
			if err := l.reconcile(); err != nil || len(l.writes) > 0 {
				t.Fatalf("nobody has told, and there are the writes %v, error %v", l.writes, err)
			}
			l.disconnect("ComparisonError", "the server has asked for the client to provide credentials")
			for range 3 {
				if err := l.reconcile(); err != nil && name != "another's" {
					t.Fatal(err)
				}
			}
			var children []string
			for _, w := range l.writes {
				if !strings.HasSuffix(w, "Experiment/status") && w != "patch Secret" { // which moves the fields of the create
					children = append(children, w)
				}
			}
			if name == "another's" {
				l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonNameTaken)
				return
			}
			if diff := cmp.Diff(test.want, children); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			l.expect(v1alpha1.ConditionApplicationsHealthy, metav1.ConditionFalse, v1alpha1.ReasonApplicationError)
			if test.want == nil {
				return
			}
			l.disconnect("", "")
			config := l.list(argocd.SecretGVK)[0].Object["data"].(map[string]any)["config"].(string)
			if want := name == "rotated"; strings.Contains(decode(config), "canary-token-2") != want {
				t.Errorf("it has the rotated token: %v", !want)
			}
		})
	}
}

// Argo CD says no more than that it cannot log in. That there are other credentials, and why they are not used, is said beside it.
func TestNote53WhyAClusterIsNotRegisteredAgain(t *testing.T) {
	rotated := strings.Replace(kubeconfig, "canary-token", "canary-token-2", 1)
	for name, test := range map[string]struct {
		happens func(l *lab)
		says    string
	}{
		"not readable":    {func(l *lab) { l.update(staging("not a kubeconfig")) }, "given to Argo CD: Secret lab/staging, key config: "},
		"gone":            {func(l *lab) { _ = l.client.Delete(t.Context(), staging("")) }, "given to Argo CD: Secret lab/staging with key config does not exist; create it"},
		"another has it":  {func(l *lab) { l.update(staging(rotated)); l.create(registrationOf(t, "production", kubeconfig)) }, "by Secret argocd/production, and would use"},
		"it is as it was": {func(*lab) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, onExisting(staging(kubeconfig))...)
			l.until(v1alpha1.PhaseReady)
			test.happens(l)
			l.disconnect("ComparisonError", "the server has asked for the client to provide credentials")
			l.pass()
			message := l.message(v1alpha1.ConditionApplicationsHealthy)
			if !strings.Contains(message, "asked for the client to provide credentials") || !strings.Contains(message, test.says) || strings.Contains(message, "canary") {
				t.Errorf("it says %q", message)
			}
			if told := strings.Contains(message, "given to Argo CD"); told != (test.says != "") {
				t.Errorf("it says %q", message)
			}
		})
	}
}

// What Argo CD cannot compare for good is looked at once a minute.
func TestDisconnectedIsLookedAtAgain(t *testing.T) {
	l := newLab(t, onExisting(staging(kubeconfig))...)
	l.until(v1alpha1.PhaseReady)
	l.disconnect("InvalidSpecError", "there are no clusters with this name")
	for range 2 {
		if wait := l.pass(); wait != time.Minute {
			t.Errorf("it is looked at after %s", wait)
		}
	}
}

func decode(s string) string {
	b, _ := base64.StdEncoding.DecodeString(s)
	return string(b)
}

// The address of an existing cluster is its author's choice, and a parameter of the manager's to the Workflow, which templates
// put into their scripts, and which runs as another than the author.
func TestEndpointThatIsAScript(t *testing.T) {
	for _, server := range []string{
		"https://203.0.113.10/$(id)", "https://203.0.113.10/`id`", "https://203.0.113.10/;id", "https://$(id)",
		"https://203.0.113.10/{{=sprig.env('X')}}", "https://203.0.113.10/#token=canary",
	} {
		l := newLab(t, onExisting(staging(strings.Replace(kubeconfig, "https://203.0.113.10", server, 1)))...)
		l.settle(l.play)
		l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonKubeconfigInvalid)
		if m := l.message(v1alpha1.ConditionClustersReady); !strings.Contains(m, "server") || strings.Contains(m, "canary") || strings.Contains(m, "id`") {
			t.Errorf("of %s it says %q", server, m)
		}
	}
}

// The provider and the kubeconfig of a cluster may spell its address each in their way.
func TestSameServer(t *testing.T) {
	for _, test := range []struct {
		a, b string
		same bool
	}{
		{"https://203.0.113.7", "https://203.0.113.7:443/", true},
		{"https://API.example.com", "https://api.example.com.:443", true},
		{"https://[2001:db8::1]:6443", "https://[2001:0DB8:0:0:0:0:0:1]:6443", true},
		{"https://[2001:db8::1]", "https://[2001:db8::2]", false},
		{"https://203.0.113.7", "https://203.0.113.7:6443", false},
		{"https://203.0.113.7", "https://203.0.113.8", false},
		{"https://a.example.com", "https://b.example.com", false},
	} {
		if sameServer(test.a, test.b) != test.same {
			t.Errorf("that %s and %s are the same is said to be %t", test.a, test.b, !test.same)
		}
	}
}
