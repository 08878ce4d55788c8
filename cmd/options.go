package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/labkeeper/labkeeper/internal/controller"
	"github.com/labkeeper/labkeeper/internal/controller/experiment"
	"github.com/labkeeper/labkeeper/internal/controller/hibernateplan"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
)

// options are the manager's flags.
type options struct {
	controller.Options

	metricsAddress          string
	metricsSecure           bool
	probeAddress            string
	pprofAddress            string
	webhookPort             int
	webhookCertDir          string
	webhookClientCAName     string
	leaderElect             bool
	leaderElectionNamespace string
	zap                     zap.Options
}

// parse reads the flags. Its error names the flag and what is wrong with its value.
func parse(args []string) (options, error) {
	var o options
	var watch, annotations, labels, clusterFrom, pullSecrets, controllers string
	e := &o.Experiment
	fs := flag.NewFlagSet("manager", flag.ContinueOnError)
	config.RegisterFlags(fs)
	o.zap.BindFlags(fs)
	fs.StringVar(&o.metricsAddress, "metrics-bind-address", ":8443", "Address of the metrics endpoint; 0 turns it off.")
	fs.BoolVar(&o.metricsSecure, "metrics-secure", true, "Serve metrics by HTTPS to those who may read them (TokenReview, SubjectAccessReview).")
	fs.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "Address of /healthz and /readyz; 0 turns them off.")
	fs.StringVar(&o.pprofAddress, "pprof-bind-address", "0", "Address of net/http/pprof, which asks nobody who they are; 0 turns it off.")
	fs.IntVar(&o.webhookPort, "webhook-port", 0, "Port of the validating webhook, on all addresses; 0 turns it off.")
	fs.StringVar(&o.webhookCertDir, "webhook-cert-dir", "", "Directory with tls.crt and tls.key of the webhook. They are read again when they change.")
	fs.StringVar(&o.webhookClientCAName, "webhook-client-ca-name", "", "File in that directory with the CA of the certificate by which the API server is known; nobody else is answered then. It is read at the start. Default: everybody is.")
	fs.BoolVar(&o.leaderElect, "leader-elect", false, "Let one of several managers lead.")
	fs.StringVar(&o.leaderElectionNamespace, "leader-election-namespace", "", "Namespace of the Lease. Default: the manager's own.")
	fs.StringVar(&controllers, "controllers", "", "Comma-separated kinds to act on: "+strings.Join(controller.Controllers, ", ")+". Nothing of the others is watched, asked for or reviewed by the webhook. Default: all.")
	fs.StringVar(&watch, "watch-namespaces", "", "Comma-separated namespaces of the objects to act on; one that does not exist is told of in the log, and acted in once it does. Default: all.")
	fs.IntVar(&e.MaxConcurrentReconciles, "max-concurrent-reconciles", 4, "How many objects of a kind are acted on at the same time (plans: sixteen times as many). Up to 28 more may have waited for an answer for longer than a second (plans: five), but for 1, where only plans may.")
	fs.BoolVar(&e.Events, "events", true, "Record Events of what happens to objects; each is a write.")
	fs.StringVar(&e.ArgoCDNamespace, "argocd-namespace", "argocd", "Namespace of Argo CD.")
	fs.StringVar(&e.ArgoCDProject, "argocd-project", "default", "Argo CD project of the Applications.")
	fs.StringVar(&e.WorkflowNamespace, "workflow-namespace", "argo", "Namespace of Argo Workflows.")
	fs.StringVar(&e.WorkflowServiceAccount, "workflow-service-account", "argo-workflow", "ServiceAccount that Workflows run as. Empty: what their templates say, as Argo Workflows wants it with templateReferencing Strict or Secure.")
	fs.StringVar(&e.WorkflowInstanceID, "workflow-instance-id", "", "instanceID of the Argo Workflows that runs Workflows, where its configuration has one: it looks at no others. Default: none.")
	fs.BoolVar(&e.WorkflowsAnywhere, "workflows-anywhere", false, "Let Experiments have their Workflows in their own namespaces (spec.workflow.namespace).")
	fs.StringVar(&e.ClaimNamespace, "claim-namespace", "", "Namespace of Crossplane claims. Default: the Experiment's own.")
	fs.StringVar(&e.CrossplaneNamespace, "crossplane-namespace", "crossplane-system", "Namespace where compositions leave connection Secrets.")
	fs.BoolVar(&e.KeylessGKE, "keyless-gke", false, "Let Argo CD log in to gke clusters with its own Google identity (argocd-k8s-auth gcp) instead of what the kubeconfig has.")
	fs.BoolVar(&e.VClusterValues, "vcluster-values", false, "Let Experiments set Helm values of virtual clusters. They can grant any right on the hub.")
	fs.StringVar(&e.HubPodSecurity, "hub-pod-security", "baseline", "Level of the Pod Security Standards of what Experiments deploy on the hub: privileged, baseline or restricted. Empty: what the cluster does.")
	fs.StringVar(&e.OrphansNamespace, "orphans-namespace", "", "Namespace of the ConfigMaps that list what could not be deleted. Default: the manager's own; outside of a cluster that of --leader-election-namespace, or default.")
	fs.BoolVar(&e.StrictComponents, "strict-components", false, "Refuse Experiments that name Components which do not exist.")
	fs.StringVar(&e.Fallback.RepoURL, "component-repo-url", "", "Git repository with components/<type>/<name> for Components that do not exist. Default: no fallback.")
	fs.StringVar(&e.Fallback.Revision, "component-revision", "HEAD", "Revision of the repository of --component-repo-url.")
	fs.StringVar(&annotations, "twin-annotations", "", "Comma-separated prefixes of annotations that twins of ExperimentDeployments get from their sources, beside those that are known to make pods what they are.")
	fs.StringVar(&labels, "twin-labels", "", "Comma-separated prefixes of labels that twins of ExperimentDeployments get from their sources, for policies that ask for them. Those of Argo CD, Helm and Flux are never among them, and Argo CD leaves twins that get any alone, whichever label it knows its own by.")
	h := &o.Hibernation
	fs.StringVar(&h.Namespace, "hibernation-namespace", "", "Namespace where the Jobs of HibernatePlans run and restore points are kept. Default: the manager's own; outside of a cluster that of --leader-election-namespace, or default.")
	fs.IntVar(&h.LedgerInStatus, "hibernation-ledger-in-status", hibernateplan.DefaultLedgerInStatus, "How many bytes of the ledger of a HibernatePlan its status holds; a longer one is kept in ControllerRevisions beside its Jobs.")
	fs.IntVar(&h.Runners, "hibernation-runners", hibernateplan.DefaultRunners, "How many targets of the HibernatePlans of one namespace are put to sleep at the same time, by a Job each; they share that evenly, and what wakes does not wait for it. 0 is any number.")
	fs.StringVar(&h.Image, "runner-image", "", "Image of the Jobs of HibernatePlans: that of the manager, which it finds out by itself in a cluster.")
	fs.StringVar(&pullSecrets, "runner-image-pull-secrets", "", "Comma-separated Secrets beside the Jobs of HibernatePlans to pull their image with. Default: those of the manager's own pod, where the Jobs are beside that.")
	fs.StringVar(&clusterFrom, "hibernate-cluster-from", "", "Comma-separated namespaces whose HibernatePlans may act on what has no namespace, such as NodePools, in the manager's own cluster. Default: none.")
	m := &e.Observability
	fs.StringVar(&m.URL, "observability-url", "", "Where targets send metrics by Prometheus remote write (transport direct), as they reach it. Default: nowhere, and transport direct is refused.")
	fs.StringVar(&m.HubURL, "observability-hub-url", "", "The same endpoint as the hub reaches it, for instance http://mimir-gateway.mimir.svc:8080/api/v1/push. Default: none, and metrics of the hub and transport tailscale are refused.")
	fs.StringVar(&m.Tailnet, "observability-tailnet", "", "Domain of the tailnet that the hub is in, for instance tail1234.ts.net. Default: none, and transport tailscale is refused.")
	fs.StringVar(&m.Host, "observability-host", "labkeeper-metrics", "Name of the hub's endpoint in the tailnet.")
	fs.StringVar(&m.Service, "observability-service", "metrics-hub", "Name of the Service by which targets reach that.")
	fs.StringVar(&m.Agent, "observability-agent", "metrics-agent", "Component of type app that collects metrics on targets.")
	fs.StringVar(&m.Egress, "observability-egress", "metrics-egress", "Component of type config that brings the hub's endpoint to targets of transport tailscale.")
	fs.StringVar(&m.Operator, "observability-operator", "tailscale-operator", "Component of type app that connects targets to the tailnet.")
	fs.StringVar(&m.Monitors, "observability-monitors", "metrics-monitors", "Component of type config that makes the monitors of Components.")
	fs.SetOutput(io.Discard) // the error says it, once
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		fs.SetOutput(os.Stdout)
		fs.Usage()
		os.Exit(0)
	} else if err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unknown argument %q: the manager takes only flags", fs.Arg(0))
	}
	if controllers != "" {
		o.Controllers = strings.Split(controllers, ",")
	}
	if watch != "" {
		o.Experiment.WatchNamespaces = strings.Split(watch, ",")
	}
	if e.OrphansNamespace == "" {
		e.OrphansNamespace = cmp.Or(ownNamespace(), o.leaderElectionNamespace, metav1.NamespaceDefault)
	}
	if fs.Lookup("kubeconfig").Value.String() == "" && os.Getenv("KUBECONFIG") == "" { // which may reach another cluster
		h.Own = ownNamespace()
	}
	h.Namespace = cmp.Or(h.Namespace, ownNamespace(), o.leaderElectionNamespace, metav1.NamespaceDefault)
	if pullSecrets != "" {
		h.PullSecrets = strings.Split(pullSecrets, ",")
	}
	if clusterFrom != "" {
		h.ClusterNamespaces = strings.Split(clusterFrom, ",")
	}
	h.WatchNamespaces, h.Events, h.MaxConcurrentReconciles, h.LedgerPace = e.WatchNamespaces, e.Events, e.MaxConcurrentReconciles, ledgerPace
	o.Experiment.Webhook, h.Webhook = o.webhookPort != 0, o.webhookPort != 0
	if annotations != "" {
		o.Twins.Annotations = strings.Split(annotations, ",")
	}
	if labels != "" {
		o.Twins.Labels = strings.Split(labels, ",")
	}
	o.Twins.WatchNamespaces, o.Twins.Webhook, o.Twins.Events, o.Twins.MaxConcurrentReconciles = e.WatchNamespaces, e.Webhook, e.Events, e.MaxConcurrentReconciles
	return o, o.check()
}

// check refuses values that could only fail later.
func (o options) check() error {
	e := o.Experiment
	for _, f := range []struct{ flag, value string }{
		{"argocd-namespace", e.ArgoCDNamespace},
		{"argocd-project", e.ArgoCDProject},
		{"workflow-namespace", e.WorkflowNamespace},
		{"workflow-service-account", cmp.Or(e.WorkflowServiceAccount, "template")}, // which says it then
		{"crossplane-namespace", e.CrossplaneNamespace},
	} {
		if f.value == "" {
			return fmt.Errorf("--%s: it must not be empty", f.flag)
		}
		if err := checkName(f.flag, f.value, validation.IsDNS1123Subdomain); err != nil {
			return err
		}
	}
	if err := checkName("workflow-instance-id", e.WorkflowInstanceID, validation.IsValidLabelValue); err != nil {
		return err
	}
	for _, f := range append([]namespaceFlag{{flag: "leader-election-namespace", namespace: o.leaderElectionNamespace}}, o.namespaces()...) {
		if problems := validation.IsDNS1123Label(f.namespace); f.namespace != "" && len(problems) > 0 {
			return fmt.Errorf("--%s: %q is not a namespace's name: %s", f.flag, f.namespace, strings.Join(problems, "; "))
		}
	}
	if argocd.HasPassword(e.Fallback.RepoURL) {
		return errors.New("--component-repo-url: credentials do not go into a URL that everybody reads; remove them, and give them to Argo CD")
	}
	if !slices.Contains([]string{"", "privileged", "baseline", "restricted"}, e.HubPodSecurity) {
		return fmt.Errorf("--hub-pod-security: %q is none of privileged, baseline, restricted", e.HubPodSecurity)
	}
	if err := cmp.Or(o.checkLists(), o.checkAddresses(), o.checkLog(), o.checkWebhook(), checkHibernation(o.Hibernation)); err != nil {
		return err
	}
	if e.MaxConcurrentReconciles < 1 {
		return fmt.Errorf("--max-concurrent-reconciles: %d is less than 1", e.MaxConcurrentReconciles)
	}
	return checkObservability(e.Observability)
}

// checkName says why nothing can have a name.
func checkName(flag, name string, valid func(string) []string) error {
	if problems := valid(name); len(problems) > 0 {
		return fmt.Errorf("--%s: %q: %s", flag, name, strings.Join(problems, "; "))
	}
	return nil
}

// checkLists refuses lists with names that cannot be meant.
func (o options) checkLists() error {
	for _, name := range o.Controllers {
		if !slices.Contains(controller.Controllers, name) {
			return fmt.Errorf("--controllers: %q is none of %s", name, strings.Join(controller.Controllers, ", "))
		}
	}
	if slices.Contains(o.Experiment.WatchNamespaces, "") {
		return errors.New("--watch-namespaces: an empty name in the list; write a,b")
	}
	return errors.Join(checkPrefixes("annotation", o.Twins.Annotations), checkPrefixes("label", o.Twins.Labels))
}

// checkPrefixes refuses prefixes of what twins get that can be none.
func checkPrefixes(what string, prefixes []string) error {
	if prefix := slices.IndexFunc(prefixes, spaced); prefix >= 0 {
		return fmt.Errorf("--twin-%ss: %q has a space, which no %s has; write example.com/,prometheus.io/", what, prefixes[prefix], what)
	}
	if slices.Contains(prefixes, "") {
		return fmt.Errorf("--twin-%ss: an empty prefix in the list, which is that of every %s; write example.com/,prometheus.io/", what, what)
	}
	return nil
}

// checkHibernation refuses values of the flags of HibernatePlans that could only fail in the evening.
func checkHibernation(h hibernateplan.Options) error {
	for _, f := range []struct {
		flag  string
		names []string
		valid func(string) []string
	}{
		{"hibernate-cluster-from", h.ClusterNamespaces, validation.IsDNS1123Label},
		{"runner-image-pull-secrets", h.PullSecrets, validation.IsDNS1123Subdomain},
	} {
		for _, name := range f.names {
			if name == "" {
				return fmt.Errorf("--%s: an empty name in the list; write a,b", f.flag)
			}
			if err := checkName(f.flag, name, f.valid); err != nil {
				return err
			}
		}
	}
	if spaced(h.Image) {
		return fmt.Errorf("--runner-image: %q has a space, which no image has", h.Image)
	}
	if h.LedgerInStatus < 0 || h.LedgerInStatus > maxLedgerInStatus {
		return fmt.Errorf("--hibernation-ledger-in-status: %d is not from 0 to %d: an object has room for no more", h.LedgerInStatus, maxLedgerInStatus)
	}
	if h.Runners < 0 {
		return fmt.Errorf("--hibernation-runners: %d is less than 0", h.Runners)
	}
	return nil
}

// maxLedgerInStatus leaves a plan some of the 1.5 MiB of an object.
const maxLedgerInStatus = 1 << 20

func spaced(text string) bool { return strings.ContainsFunc(text, unicode.IsSpace) }

// bodies is the level of a log from which on client-go writes to it what is sent and received.
const bodies = 8

// checkLog refuses a log that would hold kubeconfigs and tokens.
func (o options) checkLog() error {
	if zap.New(zap.UseFlagOptions(&o.zap)).V(bodies).Enabled() {
		return fmt.Errorf("--zap-log-level: from %d on the log would have whole requests and answers, Secrets with kubeconfigs and tokens among them; "+
			"use %d or less", bodies, bodies-1)
	}
	return nil
}

// checkWebhook refuses what the webhook could not be served with.
func (o options) checkWebhook() error {
	switch {
	case o.webhookPort < 0 || o.webhookPort > 65535:
		return fmt.Errorf("--webhook-port: %d is not a port", o.webhookPort)
	case (o.webhookPort != 0) != (o.webhookCertDir != ""):
		return errors.New("--webhook-cert-dir: it goes with --webhook-port; set both or none")
	case o.webhookClientCAName == "":
	case o.webhookPort == 0:
		return errors.New("--webhook-client-ca-name: it goes with --webhook-port; set both or none")
	case filepath.Base(o.webhookClientCAName) != o.webhookClientCAName:
		return fmt.Errorf("--webhook-client-ca-name: %q is not the name of a file in --webhook-cert-dir, such as client-ca.crt", o.webhookClientCAName)
	}
	return nil
}

// checkAddresses refuses what nothing can listen at.
func (o options) checkAddresses() error {
	for _, f := range []struct{ flag, value string }{
		{"metrics", o.metricsAddress}, {"health-probe", o.probeAddress}, {"pprof", o.pprofAddress},
	} {
		if f.value == "0" {
			continue
		}
		_, port, err := net.SplitHostPort(f.value)
		if err == nil {
			_, err = net.LookupPort("tcp", port)
		}
		if err != nil {
			return fmt.Errorf("--%s-bind-address: %q is no address, such as :8443 or 127.0.0.1:8443, and not 0, which is none: %w", f.flag, f.value, err)
		}
	}
	return nil
}

// tailnet is what Tailscale's operator takes for the domain of one.
var tailnet = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?\.ts\.net$`)

// checkObservability refuses values of the flags --observability-* that could only fail later.
func checkObservability(o experiment.Observability) error {
	for _, f := range []struct {
		flag, value string
		valid       func(string) []string
	}{
		{"host", o.Host, validation.IsDNS1123Label},
		{"service", o.Service, validation.IsDNS1035Label},
		{"agent", o.Agent, validation.IsDNS1123Subdomain},
		{"egress", o.Egress, validation.IsDNS1123Subdomain},
		{"operator", o.Operator, validation.IsDNS1123Subdomain},
		{"monitors", o.Monitors, validation.IsDNS1123Subdomain},
	} {
		if err := checkName("observability-"+f.flag, f.value, f.valid); err != nil {
			return err
		}
	}
	if o.Tailnet != "" && !tailnet.MatchString(o.Tailnet) {
		return fmt.Errorf("--observability-tailnet: %q is not the domain of a tailnet, such as tail1234.ts.net", o.Tailnet)
	}
	names := []string{o.Agent, o.Egress, o.Operator, o.Monitors}
	if slices.Sort(names); len(slices.Compact(names)) < 4 {
		return errors.New("--observability-agent, -egress, -operator and -monitors: they name one Component twice; each must be another")
	}
	if err := cmp.Or(checkEndpoint("url", o.URL), checkEndpoint("hub-url", o.HubURL)); err != nil {
		return err
	}
	if o.Tailnet != "" && strings.HasPrefix(o.HubURL, "https:") {
		return errors.New("--observability-hub-url: its certificate would not be for the name that targets in the tailnet know it by; write http, the tailnet encrypts")
	}
	return nil
}

// checkEndpoint refuses what metrics cannot be sent to. Its error does not repeat it: it may hold a password.
func checkEndpoint(flag, value string) error {
	u, err := url.Parse(value)
	switch {
	case value == "":
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("--observability-%s: it must be a URL as http://host:port/path", flag)
	case u.User != nil:
		return fmt.Errorf("--observability-%s: credentials do not go into a URL that everybody reads; remove them, and name a Secret in observability.credentialsSecret of the targets", flag)
	}
	return nil
}

// mounted is where a pod finds the namespace that it is in.
var mounted = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// ownNamespace is the one that the manager runs in; empty outside of a cluster.
func ownNamespace() string {
	if content, err := os.ReadFile(mounted); err == nil {
		return strings.TrimSpace(string(content))
	}
	return ""
}

type namespaceFlag struct {
	flag, namespace string
	// comes: it may be created later, or again.
	comes bool
}

// namespaces are those that the flags name: some must exist, because something runs that needs them. Those that are watched need not,
// nor where there are other kinds those that one kind alone needs: who deletes one would end the manager of all, at its next start.
func (o options) namespaces() []namespaceFlag {
	e := o.Experiment
	var named []namespaceFlag
	if o.leaderElect {
		named = append(named, namespaceFlag{flag: "leader-election-namespace", namespace: o.leaderElectionNamespace})
	}
	if o.Runs(controller.Experiments) {
		others := o.Runs(controller.Twins) || o.Runs(controller.HibernatePlans)
		named = append(named,
			namespaceFlag{"argocd-namespace", e.ArgoCDNamespace, others},
			namespaceFlag{"workflow-namespace", e.WorkflowNamespace, others},
			namespaceFlag{"crossplane-namespace", e.CrossplaneNamespace, others},
			namespaceFlag{"claim-namespace", e.ClaimNamespace, others},
			namespaceFlag{"orphans-namespace", e.OrphansNamespace, others},
		)
	}
	if o.Runs(controller.HibernatePlans) {
		named = append(named, namespaceFlag{"hibernation-namespace", o.Hibernation.Namespace, o.Runs(controller.Experiments) || o.Runs(controller.Twins)})
	}
	for _, namespace := range o.Experiment.WatchNamespaces {
		named = append(named, namespaceFlag{flag: "watch-namespaces", namespace: namespace, comes: true})
	}
	return slices.DeleteFunc(named, func(f namespaceFlag) bool { return f.namespace == "" })
}
