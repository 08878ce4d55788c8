package observability

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/test/env"
	"github.com/labkeeper/labkeeper/test/env/testenv"
)

// nodeName is where all pods are: an EndpointSlice has those that are on a node.
const nodeName = "lab-node"

// patience is how long something may take that takes a few seconds.
const patience = time.Minute

// Metrics of what Components say of themselves, and of pods that say so, arrive with the labels of the
// target, under its tenant and with its credentials; on a cluster of others nothing else is looked at.
func TestLengthyMetricsArrive(t *testing.T) {
	for _, test := range []struct {
		shared, auth string
		secret       map[string]string
		authorized   string
		elsewhere    bool
	}{
		{"true", "token", map[string]string{"token": "s3cret"}, "Bearer s3cret", false},
		{"false", "basic", map[string]string{"username": "lab", "password": "s3cret"}, "Basic bGFiOnMzY3JldA==", true},
	} {
		t.Run("shared "+test.shared, func(t *testing.T) {
			namespace, elsewhere := newNamespace(t, "metrics-"+test.shared), newNamespace(t, "elsewhere-"+test.shared)
			hub := startHub(t)
			node := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": nodeName}}}
			deploy(t, "", []*unstructured.Unstructured{node})
			deploy(t, namespace, render(t, "metrics-monitors", namespace, about, nil))
			runPod(t, namespace, "nginx", "192.0.2.10", map[string]any{"app.kubernetes.io/name": "nginx", "tier": "1"}, nil)
			scraped := map[string]any{"prometheus.io/scrape": "true", "prometheus.io/port": "8080", "prometheus.io/path": "/own"}
			runPod(t, namespace, "telling", "192.0.2.11", nil, scraped)
			runPod(t, namespace, "silent", "192.0.2.12", nil, nil)
			runPod(t, elsewhere, "telling", "192.0.2.13", nil, scraped)

			from := maps.Clone(about)
			from[v1alpha1.FromSharedCluster], from[v1alpha1.FromMetricsSecret], from[v1alpha1.FromMetricsURL] = test.shared, "push", hub.url
			startAgent(t, namespace, test.secret, render(t, "metrics-agent", namespace, from, map[string]string{"interval": "1s", "auth.type": test.auth}))

			all := map[string]string{"experiment": "road", "experiment_namespace": "team-a", "target": "app", "__name__": "scraped"}
			series := func(job, namespace, pod, at string, more ...string) map[string]string {
				out := maps.Clone(all)
				maps.Copy(out, map[string]string{"job": job, "namespace": namespace, "pod": pod, "at": at})
				for i := 0; i < len(more); i += 2 {
					out[more[i]] = more[i+1]
				}
				return out
			}
			want := []map[string]string{
				series("components", namespace, "nginx", "192.0.2.10:9113/stats", "component", "metrics-nginx-12345678"),
				series("pods", namespace, "telling", "192.0.2.11:8080/own"),
			}
			if test.elsewhere {
				want = append(want, series("pods", elsewhere, "telling", "192.0.2.13:8080/own"))
			}
			var got []map[string]string
			deadline := time.Now().Add(patience)
			for !cmp.Equal(want, got) {
				if time.Now().After(deadline) {
					t.Fatalf("series (-want +got):\n%s", cmp.Diff(want, got))
				}
				time.Sleep(200 * time.Millisecond)
				got = hub.series(t)
			}
			hub.mu.Lock()
			defer hub.mu.Unlock()
			if !slices.Equal(hub.tenants, []string{"lab"}) || !slices.Equal(hub.authorized, []string{test.authorized}) {
				t.Errorf("tenants %v, credentials %v", hub.tenants, hub.authorized)
			}
		})
	}
}

// hub is a Prometheus that takes what is written, behind a proxy that notes by whom.
type hub struct {
	api, url string

	mu                  sync.Mutex
	tenants, authorized []string
}

func startHub(t *testing.T) *hub {
	t.Helper()
	address, err := env.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h := &hub{api: "http://" + address}
	start(t, "hub-"+filepath.Base(dir), h.api, "--web.listen-address="+address, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.enable-remote-write-receiver")
	to, err := url.Parse(h.api)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.tenants, h.authorized = note(h.tenants, r.Header.Get("X-Scope-OrgID")), note(h.authorized, r.Header.Get("Authorization"))
		h.mu.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	h.url = server.URL + "/api/v1/write"
	return h
}

func note(all []string, s string) []string {
	if slices.Contains(all, s) {
		return all
	}
	return append(all, s)
}

// series are those of the metric that every pod has, without what differs from run to run.
func (h *hub) series(t *testing.T) []map[string]string {
	t.Helper()
	response, err := http.Get(h.api + "/api/v1/query?query=scraped")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct {
		Data struct {
			Result []struct {
				Metric map[string]string `json:"metric"`
			} `json:"result"`
		} `json:"data"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	var all []map[string]string
	for _, r := range answer.Data.Result {
		delete(r.Metric, "instance")
		all = append(all, r.Metric)
	}
	slices.SortFunc(all, func(a, b map[string]string) int { return strings.Compare(a["at"], b["at"]) })
	return all
}

// start starts Prometheus and waits until it is ready.
func start(t *testing.T, name, api string, args ...string) {
	t.Helper()
	process, err := controlPlane.StartProcess(name, filepath.Join(env.Root(), "bin/prometheus"), args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Stop() })
	for deadline := time.Now().Add(patience); !env.Answers(t.Context(), api+"/-/ready"); time.Sleep(100 * time.Millisecond) {
		select {
		case <-process.Exited():
			t.Fatalf("%s ended:\n%s", name, process.Tail(15))
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is not ready:\n%s", name, process.Tail(15))
		}
	}
}

// startAgent deploys the agent, and does what a kubelet would: it runs it with its configuration, with the
// rights of its ServiceAccount, and with its credentials. Pods answer through a proxy.
func startAgent(t *testing.T, namespace string, secret map[string]string, objects []*unstructured.Unstructured) {
	t.Helper()
	deploy(t, namespace, objects)
	kubeconfig, err := controlPlane.ServiceAccountKubeconfig(t.Context(), namespace, "metrics-agent")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for key, value := range secret {
		if err := os.WriteFile(filepath.Join(dir, key), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "ConfigMap" })
	text, _, _ := unstructured.NestedString(objects[i].Object, "data", "prometheus.yml")
	var config map[string]any
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(text, "/etc/credentials", dir)), &config); err != nil {
		t.Fatal(err)
	}
	pods := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "scraped{at=%q} 1\n", r.URL.Host+r.URL.Path)
	}))
	t.Cleanup(pods.Close)
	for _, c := range config["scrape_configs"].([]any) {
		scrape := c.(map[string]any)
		scrape["proxy_url"] = pods.URL
		for _, sd := range scrape["kubernetes_sd_configs"].([]any) {
			sd.(map[string]any)["kubeconfig_file"] = kubeconfig
		}
		if scrape["scheme"] == "https" { // of kubelets, which are not there, nor what only pods have
			delete(scrape, "tls_config")
			delete(scrape, "authorization")
		}
	}
	out, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, out, 0o600); err != nil {
		t.Fatal(err)
	}
	address, err := env.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	start(t, "agent-"+namespace, "http://"+address, "--agent", "--web.listen-address="+address, "--config.file="+file, "--storage.agent.path="+filepath.Join(dir, "data"))
}

// runPod creates a pod that says that it runs at an address.
func runPod(t *testing.T, namespace, name, ip string, labels, annotations map[string]any) {
	t.Helper()
	c := testenv.Client(t, controlPlane)
	pod := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": name, "namespace": namespace, "labels": labels, "annotations": annotations},
		"spec": map[string]any{
			"nodeName":        nodeName,
			"securityContext": map[string]any{"runAsNonRoot": true, "seccompProfile": map[string]any{"type": "RuntimeDefault"}},
			"containers": []any{map[string]any{
				"name": "main", "image": "example/" + name, "ports": []any{map[string]any{"containerPort": int64(8080)}},
				"securityContext": map[string]any{"allowPrivilegeEscalation": false, "capabilities": map[string]any{"drop": []any{"ALL"}}},
			}},
		},
	}}
	if err := c.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(context.Background(), pod, client.GracePeriodSeconds(0)) })
	status := map[string]any{"status": map[string]any{
		"phase": "Running", "podIP": ip, "podIPs": []any{map[string]any{"ip": ip}},
		"conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
	}}
	data, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Status().Patch(t.Context(), pod, client.RawPatch("application/merge-patch+json", data)); err != nil {
		t.Fatal(err)
	}
}
