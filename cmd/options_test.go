package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/labkeeper/labkeeper/internal/controller"
	"github.com/labkeeper/labkeeper/internal/controller/experiment"
	"github.com/labkeeper/labkeeper/internal/controller/experimentdeployment"
	"github.com/labkeeper/labkeeper/internal/controller/hibernateplan"
	"github.com/labkeeper/labkeeper/test/fakes"
)

// defaults are what the usage promises.
func defaults() options {
	return options{
		Options: controller.Options{Experiment: experiment.Options{
			ArgoCDNamespace: "argocd", ArgoCDProject: "default", WorkflowNamespace: "argo", WorkflowServiceAccount: "argo-workflow",
			CrossplaneNamespace: "crossplane-system", OrphansNamespace: "default", HubPodSecurity: "baseline", Fallback: experiment.Fallback{Revision: "HEAD"}, Events: true, MaxConcurrentReconciles: 4,
			Observability: experiment.Observability{
				Host: "labkeeper-metrics", Service: "metrics-hub",
				Agent: "metrics-agent", Egress: "metrics-egress", Operator: "tailscale-operator", Monitors: "metrics-monitors",
			},
		}, Twins: experimentdeployment.Options{Events: true, MaxConcurrentReconciles: 4},
			Hibernation: hibernateplan.Options{Namespace: "default", Events: true, MaxConcurrentReconciles: 4, LedgerPace: ledgerPace, LedgerInStatus: 128 << 10, Runners: 5000}},
		metricsAddress: ":8443", metricsSecure: true, probeAddress: ":8081", pprofAddress: "0",
	}
}

func TestParse(t *testing.T) {
	everything := defaults()
	everything.Experiment = experiment.Options{
		ArgoCDNamespace: "cd", ArgoCDProject: "labs", WorkflowNamespace: "wf", WorkflowServiceAccount: "runner", ClaimNamespace: "claims",
		CrossplaneNamespace: "xp", OrphansNamespace: "orphans", HubPodSecurity: "restricted", KeylessGKE: true, VClusterValues: true, WorkflowsAnywhere: true, WorkflowInstanceID: "labs", Webhook: true, Fallback: experiment.Fallback{RepoURL: "https://git.example.com/c.git", Revision: "v1"},
		StrictComponents: true, MaxConcurrentReconciles: 9, // and no Events
		Observability: experiment.Observability{
			URL: "https://metrics.example.com/push", HubURL: "http://mimir:8080/push", Tailnet: "tail1.ts.net", Host: "lab", Service: "hub",
			Agent: "agent", Egress: "egress", Operator: "operator", Monitors: "monitors",
		},
	}
	everything.metricsAddress, everything.metricsSecure, everything.probeAddress = ":1", false, ":2"
	everything.pprofAddress = "127.0.0.1:3"
	everything.webhookPort, everything.webhookCertDir, everything.webhookClientCAName = 9443, "/certs", "client-ca.crt"
	everything.Controllers = []string{"hibernateplans", "experiments", "experimentdeployments"}
	everything.leaderElect, everything.leaderElectionNamespace = true, "lease"
	everything.Experiment.WatchNamespaces = []string{"a", "b"}
	everything.Twins = experimentdeployment.Options{
		Annotations: []string{"policy.example.com/", "team"}, Labels: []string{"cost.example.com/", "team"}, WatchNamespaces: []string{"a", "b"}, Webhook: true, MaxConcurrentReconciles: 9,
	}
	everything.Hibernation = hibernateplan.Options{
		Namespace: "night", Image: "labkeeper:v1", ClusterNamespaces: []string{"ops", "sre"}, WatchNamespaces: []string{"a", "b"}, MaxConcurrentReconciles: 9,
		LedgerPace: ledgerPace, LedgerInStatus: 4096, Runners: 7, Webhook: true, PullSecrets: []string{"mirror", "other"},
	}
	tests := map[string]struct {
		args []string
		want options
	}{
		"nothing": {nil, defaults()},
		"everything": {[]string{
			"--argocd-namespace=cd", "--argocd-project=labs", "--workflow-namespace=wf", "--workflow-service-account=runner", "--workflow-instance-id=labs", "--claim-namespace=claims",
			"--crossplane-namespace=xp", "--component-repo-url=https://git.example.com/c.git", "--component-revision=v1", "--strict-components",
			"--max-concurrent-reconciles=9", "--metrics-bind-address=:1", "--metrics-secure=false", "--health-probe-bind-address=:2",
			"--leader-elect", "--leader-election-namespace", "lease", "--watch-namespaces=a,b", "--events=false", "--pprof-bind-address=127.0.0.1:3",
			"--hibernation-namespace=night", "--runner-image=labkeeper:v1", "--hibernation-ledger-in-status=4096", "--hibernation-runners=7", "--runner-image-pull-secrets=mirror,other", "--hibernate-cluster-from=ops,sre",
			"--orphans-namespace=orphans", "--hub-pod-security=restricted", "--keyless-gke", "--vcluster-values", "--workflows-anywhere", "--webhook-port=9443", "--webhook-cert-dir=/certs", "--webhook-client-ca-name=client-ca.crt",
			"--observability-url=https://metrics.example.com/push", "--observability-hub-url=http://mimir:8080/push", "--observability-tailnet=tail1.ts.net",
			"--observability-host=lab", "--observability-service=hub", "--observability-agent=agent", "--observability-egress=egress",
			"--observability-operator=operator", "--observability-monitors=monitors", "--controllers=hibernateplans,experiments,experimentdeployments", "--twin-annotations=policy.example.com/,team", "--twin-labels=cost.example.com/,team",
		}, everything},
		"one namespace": {[]string{"--watch-namespaces=a"}, func() options {
			o := defaults()
			o.Experiment.WatchNamespaces, o.Twins.WatchNamespaces, o.Hibernation.WatchNamespaces = []string{"a"}, []string{"a"}, []string{"a"}
			return o
		}()},
		"every namespace": {[]string{"--watch-namespaces="}, defaults()},
		"the accounts of templates": {[]string{"--workflow-service-account="}, func() options {
			o := defaults()
			o.Experiment.WorkflowServiceAccount = ""
			return o
		}()},
		"of a log":          {[]string{"--zap-log-level=debug", "--zap-devel"}, defaults()},
		"the most of a log": {[]string{"--zap-log-level=7"}, defaults()},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parse(test.args)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(options{}), cmpopts.IgnoreFields(options{}, "zap")); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
		})
	}
}

// Whoever mistypes is told what.
func TestParseRefuses(t *testing.T) {
	long := strings.Repeat("x", 64)
	for arg, names := range map[string]string{
		"--no-such-flag":                         "no-such-flag",
		"--max-concurrent-reconciles=many":       "max-concurrent-reconciles",
		"--max-concurrent-reconciles=0":          "--max-concurrent-reconciles",
		"--max-concurrent-reconciles=-1":         "--max-concurrent-reconciles",
		"--leader-elect=perhaps":                 "leader-elect",
		"--metrics-secure=perhaps":               "metrics-secure",
		"--strict-components=perhaps":            "strict-components",
		"--zap-log-level=loud":                   "zap-log-level",
		"--zap-log-level=8":                      "--zap-log-level: from 8 on",
		"--zap-log-level=10":                     "use 7 or less",
		"--zap-log-level=264":                    "--zap-log-level", // which is 8 again
		"--argocd-namespace=":                    "--argocd-namespace",
		"--argocd-namespace=Argo":                "--argocd-namespace",
		"--workflow-namespace=":                  "--workflow-namespace",
		"--workflow-namespace=a.b":               "--workflow-namespace",
		"--crossplane-namespace=":                "--crossplane-namespace",
		"--crossplane-namespace=" + long:         "--crossplane-namespace",
		"--claim-namespace=a_b":                  "--claim-namespace",
		"--leader-election-namespace=-":          "--leader-election-namespace",
		"--hub-pod-security=Baseline":            "--hub-pod-security",
		"--webhook-port=-1":                      "--webhook-port",
		"--webhook-port=70000":                   "--webhook-port",
		"--webhook-port=9443":                    "--webhook-cert-dir",
		"--webhook-cert-dir=/certs":              "--webhook-cert-dir",
		"--webhook-client-ca-name=ca.crt":        "--webhook-client-ca-name: it goes with --webhook-port",
		"--watch-namespaces=a,b.c":               "--watch-namespaces",
		"--watch-namespaces=a, b":                "--watch-namespaces",
		"--watch-namespaces=a,,b":                "--watch-namespaces",
		"--twin-annotations=a/,":                 "--twin-annotations",
		"--twin-labels=a/,":                      "--twin-labels",
		"--controllers=experiment":               "none of experiments, experimentdeployments, hibernateplans",
		"--controllers=experiments,":             "--controllers",
		"--controllers=*":                        "--controllers",
		"--watch-namespaces=a,":                  "--watch-namespaces",
		"--watch-namespaces=,":                   "--watch-namespaces",
		"--observability-url=metrics":            "--observability-url",
		"--observability-url=ftp://a/b":          "--observability-url",
		"--observability-url=https://a?b":        "--observability-url",
		"--observability-hub-url=://":            "--observability-hub-url",
		"--observability-tailnet=tail1":          "--observability-tailnet",
		"--observability-tailnet=a.b":            "--observability-tailnet",
		"--observability-host=a.b":               "--observability-host",
		"--observability-service=1":              "--observability-service",
		"--observability-agent=":                 "--observability-agent",
		"--observability-egress=A":               "--observability-egress",
		"--observability-operator=-":             "--observability-operator",
		"--observability-monitors=a b":           "--observability-monitors",
		"--metrics-bind-address=":                "--metrics-bind-address",
		"--metrics-bind-address=8443":            "--metrics-bind-address",
		"--metrics-bind-address=:99999":          "--metrics-bind-address",
		"--health-probe-bind-address=all":        "--health-probe-bind-address",
		"--health-probe-bind-address=:x":         "--health-probe-bind-address",
		"--pprof-bind-address=127.0.0.1":         "--pprof-bind-address",
		"--argocd-project=a_b":                   "--argocd-project",
		"--workflow-service-account=a b":         "--workflow-service-account",
		"--workflow-instance-id=a b":             "--workflow-instance-id",
		"--runner-image=a:b ":                    "--runner-image",
		"--runner-image-pull-secrets=a,,b":       "--runner-image-pull-secrets",
		"--runner-image-pull-secrets=a, b":       "--runner-image-pull-secrets",
		"--hibernate-cluster-from=a, b":          "--hibernate-cluster-from",
		"--hibernate-cluster-from=a,":            "--hibernate-cluster-from",
		"--hibernation-ledger-in-status=-1":      "--hibernation-ledger-in-status",
		"--hibernation-ledger-in-status=2000000": "--hibernation-ledger-in-status",
		"--hibernation-runners=-1":               "--hibernation-runners",
		"--twin-annotations=a/, b/":              "--twin-annotations",
		"--twin-labels=a/, b/":                   "--twin-labels",
		// one Component cannot be two
		"--observability-egress=metrics-agent": "each must be another",
		"run":                                  `"run"`,
	} {
		t.Run(arg, func(t *testing.T) {
			_, err := parse([]string{"--argocd-project=labs", arg})
			if err == nil {
				t.Fatal("it is accepted")
			}
			if !strings.Contains(err.Error(), names) {
				t.Errorf("%q does not name %s", err, names)
			}
		})
	}
}

// A password in a URL is refused, and not repeated. (A user alone is none.)
func TestNote56ParseKeepsPasswords(t *testing.T) {
	for _, url := range []string{"https://user:hunter2@metrics.example.com", "https://user:hunter2@metrics.example.com?x", "https://user:hunter2@metrics.example.com:port"} {
		_, err := parse([]string{"--observability-url=" + url})
		if err == nil || !strings.Contains(err.Error(), "--observability-url") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, user := range []string{"bot:hunter2", "github_pat_hunter2"} {
		_, err := parse([]string{"--component-repo-url=https://" + user + "@git.example.com/c.git"})
		if err == nil || !strings.Contains(err.Error(), "--component-repo-url") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("--component-repo-url with %s: %v", user, err)
		}
	}
	if _, err := parse([]string{"--component-repo-url=ssh://git@git.example.com/c.git"}); err != nil {
		t.Error(err)
	}
}

// Jobs may be in another namespace than the manager, which must not sleep either. What a kubeconfig reaches may be another cluster.
func TestOwnNamespace(t *testing.T) {
	defer func(before string) { mounted = before }(mounted)
	defer func() { _, _ = parse(nil) }() // --kubeconfig is one of all that is in this process
	mounted = filepath.Join(t.TempDir(), "namespace")
	if err := os.WriteFile(mounted, []byte("labs\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		args           []string
		kubeconfig     string
		namespace, own string
	}{
		"nothing is said": {nil, "", "labs", "labs"},
		"Jobs elsewhere":  {[]string{"--hibernation-namespace=night"}, "", "night", "labs"},
		"a remote hub":    {[]string{"--hibernation-namespace=night", "--kubeconfig=/hub/kubeconfig"}, "", "night", ""},
		"by its variable": {nil, "/hub/kubeconfig", "labs", ""},
	} {
		t.Setenv("KUBECONFIG", test.kubeconfig)
		o, err := parse(test.args)
		if h := o.Hibernation; err != nil || h.Namespace != test.namespace || h.Own != test.own {
			t.Errorf("%s: Jobs are in %q, and the manager is in %q (%v)", name, h.Namespace, h.Own, err)
		}
	}
}

// The certificate of the hub's endpoint would be for another name.
func TestParseTailnet(t *testing.T) {
	for url, ok := range map[string]bool{"http://mimir.mimir.svc:8080/push": true, "https://mimir.mimir.svc/push": false} {
		if _, err := parse([]string{"--observability-tailnet=tail1.ts.net", "--observability-hub-url=" + url}); (err == nil) != ok {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestNamespacesThatMustExist(t *testing.T) {
	o, err := parse([]string{"--watch-namespaces=a,b", "--leader-election-namespace=lease"})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("note 03: that of Argo Workflows among them", func(t *testing.T) {
		want := []namespaceFlag{
			{"argocd-namespace", "argocd", true}, {"workflow-namespace", "argo", true}, {"crossplane-namespace", "crossplane-system", true}, {"orphans-namespace", "lease", true}, {"hibernation-namespace", "lease", true},
			{"watch-namespaces", "a", true}, {"watch-namespaces", "b", true},
		}
		if diff := cmp.Diff(want, o.namespaces(), cmp.AllowUnexported(namespaceFlag{})); diff != "" {
			t.Errorf("namespaces (-want +got):\n%s", diff)
		}
	})
	t.Run("that of the Lease, by the flag that names it", func(t *testing.T) {
		o, err := parse([]string{"--leader-elect", "--leader-election-namespace=lease", "--controllers=hibernateplans"})
		if err != nil {
			t.Fatal(err)
		}
		want := []namespaceFlag{{"leader-election-namespace", "lease", false}, {"hibernation-namespace", "lease", false}}
		if diff := cmp.Diff(want, o.namespaces(), cmp.AllowUnexported(namespaceFlag{})); diff != "" {
			t.Errorf("namespaces (-want +got):\n%s", diff)
		}
	})
	for controllers, want := range map[string][]namespaceFlag{
		"experiments": {
			{"argocd-namespace", "argocd", false}, {"workflow-namespace", "argo", false}, {"crossplane-namespace", "crossplane-system", false},
			{"orphans-namespace", "lease", false}, {"watch-namespaces", "a", true},
		},
		"experimentdeployments":                {{"watch-namespaces", "a", true}},
		"hibernateplans,experimentdeployments": {{"hibernation-namespace", "lease", true}, {"watch-namespaces", "a", true}},
	} {
		t.Run("of "+controllers, func(t *testing.T) {
			o, err := parse([]string{"--watch-namespaces=a", "--leader-election-namespace=lease", "--controllers=" + controllers})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, o.namespaces(), cmp.AllowUnexported(namespaceFlag{})); diff != "" {
				t.Errorf("namespaces (-want +got):\n%s", diff)
			}
		})
	}
	if watched := controller.CacheOptions(o.Options).DefaultNamespaces; len(watched) != 2 {
		t.Errorf("watched are %v", watched)
	}
	if watched := controller.CacheOptions(defaults().Options).DefaultNamespaces; watched != nil {
		t.Errorf("by default watched are %v", watched)
	}
}

// A namespace that is only guessed is told of by the flag that names it, before anything waits for it; one that may come ends no start.
func TestNote03NamespaceThatDoesNotExist(t *testing.T) {
	there := fakes.NewClientBuilder().WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "argo-workflows"}}).Build()
	for namespace, says := range map[string]string{"argo-workflows": "", "argo": `--workflow-namespace: the namespace "argo" does not exist`} {
		err := exist(t.Context(), there, []namespaceFlag{{"workflow-namespace", namespace, false}})
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("of %s it says %v", namespace, err)
		}
	}
}

// A server that cannot tell for a moment, or does not let it look yet, does not end a start; one that never does is told of.
func TestNamespaceThatCannotBeLookedForYet(t *testing.T) {
	defer func(before wait.Backoff) { unsteady = before }(unsteady)
	unsteady.Duration = time.Microsecond
	for failures, ends := range map[int]bool{unsteady.Steps - 1: false, unsteady.Steps: true} {
		asked := 0
		there := interceptor.NewClient(
			fakes.NewClientBuilder().WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "argo"}}).Build(),
			interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if asked++; asked <= failures {
					return apierrors.NewInternalError(errors.New("etcdserver: leader changed"))
				}
				return c.Get(ctx, key, o, opts...)
			}},
		)
		err := exist(t.Context(), there, []namespaceFlag{{"workflow-namespace", "argo", false}})
		if (err != nil) != ends || ends && (!strings.Contains(err.Error(), `--workflow-namespace: looking for the namespace "argo"`) || !strings.Contains(err.Error(), "leader changed")) {
			t.Errorf("after %d failures it says %v", failures, err)
		}
	}
}

// Stack traces of warnings, and logs that no program can read, are for who asks for them.
func TestNote61LogsOfProduction(t *testing.T) {
	for devel, args := range map[bool][]string{false: nil, true: {"--zap-devel"}} {
		if o, err := parse(args); err != nil || o.zap.Development != devel {
			t.Errorf("with %v, logs are for development: %t (%v)", args, o.zap.Development, err)
		}
	}
}

func TestMetrics(t *testing.T) {
	secure, plain := defaults(), defaults()
	plain.metricsSecure = false
	if m := metrics(secure); !m.SecureServing || m.FilterProvider == nil || m.BindAddress != ":8443" {
		t.Errorf("by default the metrics are %+v", m)
	}
	if m := metrics(plain); m.SecureServing || m.FilterProvider != nil {
		t.Errorf("not secure the metrics are %+v", m)
	}
}
