package kube

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/test/fakes"
)

// asOf is when the census of these tests is taken.
var asOf = time.Date(2026, 3, 2, 6, 0, 0, 0, time.UTC)

// condition is one that has been so for some minutes.
func condition(of string, status metav1.ConditionStatus, reason string, minutes time.Duration) metav1.Condition {
	return metav1.Condition{Type: of, Status: status, Reason: reason, LastTransitionTime: metav1.NewTime(asOf.Add(-minutes * time.Minute))}
}

// podState takes Pods for objects of ours, of which each is in the state of its name.
func podState(states map[string]State) func(*corev1.Pod, time.Time) State {
	return func(p *corev1.Pod, _ time.Time) State { return states[p.Name] }
}

// A census has every object in one state, and of those that are not Ready for how long.
func TestCensus(t *testing.T) {
	states := map[string]State{
		"ready":    {Phase: "Complete", Conditions: []metav1.Condition{condition("Ready", "True", "Complete", 5)}},
		"early":    {Phase: "Pending", Conditions: []metav1.Condition{condition("Ready", "False", "Waiting", 7)}},
		"late":     {Phase: "Pending", Conditions: []metav1.Condition{condition("Ready", "False", "Waiting", 90), condition("Degraded", "False", "AsExpected", 1)}},
		"refused":  {Phase: "Pending", Conditions: []metav1.Condition{condition("Ready", "False", "InvalidSpec", 3)}},
		"degraded": {Conditions: []metav1.Condition{condition("Ready", "Unknown", "Asked", 2), condition("Degraded", "True", "Partly", 1)}},
		"overdue":  {Phase: "Deleting", Overdue: true, Conditions: []metav1.Condition{condition("Ready", "False", "Deleting", 60)}},
		"unseen":   {},
		"unjudged": {Phase: "Active", Unjudged: true},
		"ahead":    {Phase: "Ahead", Conditions: []metav1.Condition{condition("Ready", "False", "Waiting", -1)}},
	}
	var all []client.Object
	for name := range states {
		all = append(all, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "lab", Name: name, CreationTimestamp: metav1.NewTime(asOf.Add(-2 * time.Hour)),
		}})
	}
	reader := fakes.NewClientBuilder().WithObjects(all...).Build()
	c := NewCensus("Thing", reader, clocktesting.NewFakePassiveClock(asOf), &corev1.PodList{}, podState(states))
	if err := testutil.CollectAndCompare(c, strings.NewReader(`
# HELP labkeeper_degraded_objects Objects of a kind with condition Degraded, by its reason.
# TYPE labkeeper_degraded_objects gauge
labkeeper_degraded_objects{kind="Thing",reason="Partly"} 1
# HELP labkeeper_longest_not_ready_seconds For how long the object has not been Ready, of a kind and phase, and for a reason, that has not been for the longest; one that was never looked at since it was created, without a reason.
# TYPE labkeeper_longest_not_ready_seconds gauge
labkeeper_longest_not_ready_seconds{kind="Thing",phase="",reason=""} 7200
labkeeper_longest_not_ready_seconds{kind="Thing",phase="",reason="Asked"} 120
labkeeper_longest_not_ready_seconds{kind="Thing",phase="Ahead",reason="Waiting"} 0
labkeeper_longest_not_ready_seconds{kind="Thing",phase="Deleting",reason="Deleting"} 3600
labkeeper_longest_not_ready_seconds{kind="Thing",phase="Pending",reason="InvalidSpec"} 180
labkeeper_longest_not_ready_seconds{kind="Thing",phase="Pending",reason="Waiting"} 5400
# HELP labkeeper_objects Objects of a kind by their phase, which is empty for kinds without one, and by their condition Ready: True, False or Unknown.
# TYPE labkeeper_objects gauge
labkeeper_objects{kind="Thing",phase="",ready="Unknown"} 2
labkeeper_objects{kind="Thing",phase="Active",ready="Unknown"} 1
labkeeper_objects{kind="Thing",phase="Ahead",ready="False"} 1
labkeeper_objects{kind="Thing",phase="Complete",ready="True"} 1
labkeeper_objects{kind="Thing",phase="Deleting",ready="False"} 1
labkeeper_objects{kind="Thing",phase="Pending",ready="False"} 3
# HELP labkeeper_overdue_teardowns Objects of a kind that are being deleted for longer than spec.deletion.deadline; 0 for kinds that have none.
# TYPE labkeeper_overdue_teardowns gauge
labkeeper_overdue_teardowns{kind="Thing"} 1
`)); err != nil {
		t.Error(err)
	}
	problems, err := testutil.CollectAndLint(c)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// Kinds have their metrics side by side, and an object has no series of its own.
func TestCensusOfKinds(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	reader := fakes.NewClientBuilder().WithObjects(podOf()).Build()
	for _, kind := range []string{"Thing", "Other"} {
		registry.MustRegister(NewCensus(kind, reader, clocktesting.NewFakePassiveClock(asOf), &corev1.PodList{}, podState(nil)))
	}
	if n, err := testutil.GatherAndCount(registry, "labkeeper_objects"); err != nil || n != 2 {
		t.Errorf("there are %d series: %v", n, err)
	}
}

// servePods serves a Pod in namespace lab, to lists and to watches that begin with one, when filled is closed.
func servePods(t *testing.T, filled chan struct{}) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-filled:
		case <-r.Context().Done():
			return
		}
		item := `{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"lab","name":"p","resourceVersion":"1"}}`
		if strings.Contains(r.URL.Path, "/other/") {
			item = ""
		}
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") == "" {
			fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[%s]}`, item)
			return
		}
		if r.URL.Query().Get("sendInitialEvents") == "true" {
			if item != "" {
				fmt.Fprintf(w, "{\"type\":\"ADDED\",\"object\":%s}\n", item)
			}
			fmt.Fprintln(w, `{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}`)
		}
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return server
}

// A scrape has the metrics of a kind when the cache has it, and does not wait for that: before the cache is started, while it is filled, or
// where nobody has asked it for the kind.
func TestCensusDoesNotWait(t *testing.T) {
	for name, namespaces := range map[string]map[string]cache.Config{"all": nil, "two namespaces": {"lab": {}, "other": {}}} {
		t.Run(name, func(t *testing.T) {
			filled := make(chan struct{})
			server := servePods(t, filled)
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
			mapper.Add(corev1.SchemeGroupVersion.WithKind("PodList"), meta.RESTScopeNamespace) // as by discovery
			pods, err := cache.New(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, cache.Options{
				Scheme: scheme.Scheme, Mapper: mapper, ReaderFailOnMissingInformer: true, DefaultNamespaces: namespaces,
			})
			if err != nil {
				t.Fatal(err)
			}
			c := NewCensus("Thing", pods, clocktesting.NewFakePassiveClock(asOf), &corev1.PodList{}, podState(map[string]State{"p": {Phase: "Done"}}))
			none := func(when string) {
				t.Helper()
				began := time.Now()
				if n := testutil.CollectAndCount(c); n != 0 {
					t.Errorf("%s there are %d series", when, n)
				}
				if took := time.Since(began); took > time.Second {
					t.Errorf("%s a scrape took %s", when, took)
				}
			}
			none("before anybody has asked for the kind")
			if _, err := pods.GetInformer(t.Context(), &corev1.Pod{}, cache.BlockUntilSynced(false)); err != nil {
				t.Fatal(err)
			}
			none("before the start")
			go func() { _ = pods.Start(t.Context()) }()
			none("at the start")
			time.Sleep(50 * time.Millisecond)
			none("while it is filled")
			close(filled)
			soon, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if !pods.WaitForCacheSync(soon) {
				t.Fatal("the cache is not filled")
			}
			if diff := cmp.Diff(1, testutil.CollectAndCount(c, "labkeeper_objects")); diff != "" {
				t.Errorf("when it is filled (-want +got):\n%s", diff)
			}
		})
	}
}
