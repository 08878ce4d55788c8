package faults

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/test/env"
)

// collector makes the children, who inherit it, collect garbage less often, up to a bound: most of
// what a plan costs is CPU time.
var collector = map[string]string{"GOGC": "400", "GOMEMLIMIT": "2GiB"}

// Installation is what a manager expects of its cluster. Paths are from the root of the
// repository.
type Installation struct {
	// CRDs are files and folders.
	CRDs []string
	// Namespaces are created first.
	Namespaces []string
	// Manifests are files and folders, among them the RBAC of the manager.
	Manifests []string
	// AccountNamespace and Account are the ServiceAccount of the manager.
	AccountNamespace, Account string
	// Without are Kubernetes' own controllers that do not run, by their names, because the World plays them.
	Without []string
	// Tokens are those of further users that the API server knows, by their names.
	Tokens map[string]string
	// Binary is the manager; by default it is built from Package with the tag faults.
	Binary string
	// Package is that of the manager, by default ./cmd.
	Package string
}

// Lab is the control plane that all runs share.
type Lab struct {
	*env.ControlPlane
	world    World
	client   client.Client
	recorder *recorder
	account  *rest.Config // of the manager
	binary   string
	// installed are the files and folders of the installation.
	installed []string
	end       context.CancelFunc
	// background ends with the lab.
	background context.Context
	// gate is held by who changes something outside of a manager, and taken while the API
	// server is down.
	gate *sync.RWMutex
	// epoch is what the clocks of all managers begin with: well before anything is created, so that it does not matter to any of them how
	// long a lab takes to start. What was created moments ago is waited for, and these clocks stand still.
	epoch time.Time
	// door is that of all sweeps of this checkout.
	door *door
}

// With is the same lab with another manager.
func (l *Lab) With(binary string) *Lab {
	other := *l
	other.binary = binary
	return &other
}

// Binary is the manager that is judged.
func (l *Lab) Binary() string { return l.binary }

// Start starts a control plane with an installation and a world. The context is that of the
// start; Stop ends everything.
func Start(ctx context.Context, installation Installation, world World) (*Lab, error) {
	for name, value := range collector {
		if _, set := os.LookupEnv(name); set {
			continue
		}
		if err := os.Setenv(name, value); err != nil {
			return nil, fmt.Errorf("setting %s: %w", name, err)
		}
	}
	cp, err := env.Start(ctx, env.Options{Without: installation.Without, Tokens: installation.Tokens})
	if err != nil {
		return nil, err
	}
	background, end := context.WithCancel(context.WithoutCancel(ctx))
	l := &Lab{
		ControlPlane: cp, world: world, binary: installation.Binary, end: end, background: background, gate: &sync.RWMutex{},
		installed: fromRoot(slices.Concat(installation.CRDs, installation.Manifests)), epoch: time.Now().UTC().Truncate(time.Second).Add(-time.Minute),
	}
	if l.door, err = newDoor(filepath.Join(env.Root(), "bin", "sweeps")); err != nil {
		_ = l.Stop()
		return nil, err
	}
	if err := l.install(ctx, installation); err != nil {
		_ = l.Stop()
		return nil, err
	}
	return l, nil
}

func (l *Lab) install(ctx context.Context, i Installation) error {
	if l.binary == "" {
		l.binary = filepath.Join(l.Dir(), "manager")
		if err := env.BuildOnce(ctx, cmp.Or(i.Package, "./cmd"), l.binary, "-tags=faults"); err != nil {
			return err
		}
	}
	config := l.Config()
	config.WarningHandler = rest.NoWarnings{}
	if err := l.InstallSchemas(ctx, fromRoot(i.CRDs)...); err != nil {
		return err
	}
	// The garbage collector knows kinds from its start, and looks for others every half a minute: so long a reference would wait
	// for it, and whatever is compared with that might.
	if err := l.RestartControllerManager(ctx); err != nil {
		return err
	}
	var err error
	if l.client, err = client.New(config, client.Options{}); err != nil {
		return fmt.Errorf("building client: %w", err)
	}
	for _, name := range i.Namespaces {
		if err := l.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return fmt.Errorf("creating namespace %s: %w", name, err)
		}
	}
	if err := l.Apply(ctx, fromRoot(i.Manifests)...); err != nil {
		return err
	}
	kubeconfig, err := l.ServiceAccountKubeconfig(ctx, i.AccountNamespace, i.Account)
	if err != nil {
		return err
	}
	if l.account, err = clientcmd.BuildConfigFromFlags("", kubeconfig); err != nil {
		return fmt.Errorf("reading kubeconfig of manager: %w", err)
	}
	own, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("building client of recorder: %w", err)
	}
	l.recorder, err = startRecorder(l.background, own, l.world)
	return err
}

// now is the resource version of this moment.
func (l *Lab) now() (string, error) {
	namespaces := &metav1.PartialObjectMetadataList{}
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	err := l.client.List(l.background, namespaces, client.Limit(1))
	return namespaces.ResourceVersion, err
}

// removeNamespace takes a namespace away that nobody needs any more. Every manager has to list all
// namespaces when it starts, and the namespace controller would look into one for every kind there
// is: what the controllers have made in it is known.
func (l *Lab) removeNamespace(ctx context.Context, name string) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if l.client.Delete(ctx, namespace) != nil || l.client.Get(ctx, client.ObjectKeyFromObject(namespace), namespace) != nil {
		return
	}
	_ = l.client.Delete(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "default"}})
	_ = l.client.Delete(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "kube-root-ca.crt"}})
	namespace.Spec.Finalizers = nil
	_ = l.client.SubResource("finalize").Update(ctx, namespace)
}

// Stop ends everything.
func (l *Lab) Stop() error {
	l.end()
	return l.ControlPlane.Stop()
}

func fromRoot(paths []string) []string {
	out := make([]string, 0, len(paths))
	for _, path := range paths {
		out = append(out, filepath.Join(env.Root(), path))
	}
	return out
}
