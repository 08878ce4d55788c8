package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/labkeeper/labkeeper/internal/controller"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// stopTimeout is for passes that are under way when the manager is told to stop.
const stopTimeout = 20 * time.Second

// run runs the manager until ctx is done.
func run(ctx context.Context, o options) error {
	scheme, err := controller.Scheme()
	if err != nil {
		return err
	}
	config, clocks, err := connect()
	if err != nil {
		return err
	}
	lock, err := o.lease(config)
	if err != nil {
		return fmt.Errorf("preparing to lead: %w", err)
	}
	if lock != nil {
		config.Wrap(kube.Fence(lock.wielded))
	}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("building the client: %w", err)
	}
	mapper, err := apiutil.NewDynamicRESTMapper(config, httpClient)
	if err != nil {
		return fmt.Errorf("building the client: %w", err)
	}
	mgr, err := newManager(config, scheme, mapper, lock, clocks, o)
	if err != nil {
		return fmt.Errorf("building the manager: %w", err)
	}
	live, err := client.New(config, client.Options{HTTPClient: httpClient, Scheme: scheme, Mapper: mapper})
	if err != nil {
		return fmt.Errorf("building the live client: %w", err)
	}
	if err := exist(ctx, live, o.namespaces()); err != nil {
		return err
	}
	if o.Experiment.Clock, err = systemClock(); err != nil {
		return fmt.Errorf("reading the clock: %w", err)
	}
	o.Twins.Clock, o.Hibernation.Clock = o.Experiment.Clock, o.Experiment.Clock
	if err := findOwnPod(ctx, live, &o); err != nil {
		return err
	}
	if err := controller.Setup(ctx, mgr, live, o.Options); err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("healthz", healthz.Ping); err != nil {
		return fmt.Errorf("adding /healthz: %w", err)
	}
	if err := mgr.AddReadyzCheck("controllers", mgr.ready); err != nil {
		return fmt.Errorf("adding /readyz: %w", err)
	}
	return mgr.Start(ctx)
}

// connect says how the API server is reached, by clients that compare its clock with this machine's. The Lease is not renewed where
// they are apart, so that another leads, on a machine of which the clock is right.
func connect() (*rest.Config, *kube.ServerTime, error) {
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, nil, fmt.Errorf("finding the cluster: %w (outside of a cluster set --kubeconfig or KUBECONFIG)", err)
	}
	// Clients that share their transport, as those of caches do, would ask without a name, and audit logs not tell who does.
	config.UserAgent = rest.DefaultKubernetesUserAgent()
	config.QPS = -1 // API Priority and Fairness bounds us better than a client can
	config.WarningHandlerWithContext = log.NewKubeAPIWarningLogger(log.KubeAPIWarningLoggerOptions{Deduplicate: true})
	clocks := kube.NewServerTime(clock.RealClock{})
	config.Wrap(clocks.Wrap)
	if err := ctrlmetrics.Registry.Register(clocks.Gauge()); err != nil {
		return nil, nil, fmt.Errorf("registering metrics: %w", err)
	}
	return config, clocks, nil
}

// lease is what the manager leads by; nil if there is only one.
func (o options) lease(config *rest.Config) (*lease, error) {
	if !o.leaderElect {
		return nil, nil
	}
	l, err := newLease(config, o.leaderElectionNamespace)
	if err != nil && o.leaderElectionNamespace == "" {
		err = fmt.Errorf("%w (outside of a cluster set --leader-election-namespace)", err)
	}
	return l, err
}

// webhookServer serves the webhook, which acts on what the API server says of who asks it: anybody could say that.
func (o options) webhookServer() webhook.Server {
	return webhook.NewServer(webhook.Options{Port: o.webhookPort, CertDir: o.webhookCertDir, ClientCAName: o.webhookClientCAName})
}

// newManager makes a manager without any reconciler, that leads by a lock, if there is one.
func newManager(config *rest.Config, scheme *runtime.Scheme, mapper meta.RESTMapper, lock *lease, clocks *kube.ServerTime, o options) (*warming, error) {
	own, caches := &kube.OwnWrites{}, controller.CacheOptions(o.Options)
	caches.NewInformer = own.NewInformer
	options := ctrl.Options{
		Scheme:                 scheme,
		MapperProvider:         func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil },
		Metrics:                metrics(o),
		HealthProbeBindAddress: o.probeAddress,
		WebhookServer:          o.webhookServer(),
		PprofBindAddress:       o.pprofAddress,
		// A manager that waits to lead has all that it needs to act at once.
		Controller:                    controllerconfig.Controller{EnableWarmup: ptr.To(true), CacheSyncTimeout: everSync},
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              leaseName, // in metrics: the lock knows the Lease by itself
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 ptr.To(leaseDuration),
		RenewDeadline:                 ptr.To(renewDeadline),
		RetryPeriod:                   ptr.To(retryPeriod),
		GracefulShutdownTimeout:       ptr.To(stopTimeout),
		Cache:                         caches,
		NewCache:                      newCache,
		NewClient:                     own.NewClient,

		Client: client.Options{Cache: &client.CacheOptions{
			Unstructured: true,
			// It does not work with several namespaces, and nothing correct rests on it.
			EnableReadYourWritesConsistency: ptr.To(len(o.Experiment.WatchNamespaces) < 2),
		}},
	}
	if lock != nil {
		options.LeaderElectionResourceLockInterface = lock
	}
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, err
	}
	server, err := discovery.NewDiscoveryClientForConfigAndClient(config, mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("building the discovery client: %w", err)
	}
	asks := func(ctx context.Context) error { return server.RESTClient().Get().AbsPath("/version").Do(ctx).Error() }
	if err := mgr.AddReadyzCheck("clock", clocks.Check(asks)); err != nil {
		return nil, fmt.Errorf("adding /readyz: %w", err)
	}
	if lock != nil {
		if err := mgr.AddReadyzCheck("lease", lock.ready); err != nil {
			return nil, fmt.Errorf("adding /readyz: %w", err)
		}
	}
	return &warming{Manager: mgr}, mgr.Add(own)
}

func metrics(o options) metricsserver.Options {
	m := metricsserver.Options{BindAddress: o.metricsAddress, SecureServing: o.metricsSecure}
	if o.metricsSecure {
		m.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	return m
}

// unsteady is how often, and how long apart, is asked again for what a start needs and the server cannot tell: a manager
// that ends for that is started again later and later.
var unsteady = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Steps: 6}

// insist reads what a start needs, again where the server cannot tell, or does not let it look yet.
func insist(ctx context.Context, c client.Reader, key client.ObjectKey, o client.Object) error {
	var err error
	stopped := wait.ExponentialBackoffWithContext(ctx, unsteady, func(ctx context.Context) (bool, error) {
		err = c.Get(ctx, key, o)
		return err == nil || apierrors.IsNotFound(err), nil
	})
	return cmp.Or(err, stopped)
}

// exist says which flag names a namespace that is not there: every Experiment would wait
// for it, and none would know why. Of one that may come later the log tells.
func exist(ctx context.Context, c client.Reader, namespaces []namespaceFlag) error {
	for i, f := range namespaces {
		if slices.ContainsFunc(namespaces[:i], func(before namespaceFlag) bool { return before.namespace == f.namespace }) {
			continue // several flags may name one, and some go by another's
		}
		switch err := insist(ctx, c, types.NamespacedName{Name: f.namespace}, &corev1.Namespace{}); {
		case apierrors.IsNotFound(err) && f.comes:
			ctrl.LoggerFrom(ctx).Info("A namespace does not exist; nothing is done there until it is created", "flag", "--"+f.flag, "namespace", f.namespace)
		case apierrors.IsNotFound(err):
			return fmt.Errorf("--%s: the namespace %q does not exist; create it or name another", f.flag, f.namespace)
		case err != nil:
			return fmt.Errorf("--%s: looking for the namespace %q: %w", f.flag, f.namespace, err)
		}
	}
	return nil
}
