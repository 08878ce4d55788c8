package experiment

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/arlon"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// observeReferences reads the Clusters that targets name, from the cache.
func (s *scope) observeReferences(ctx context.Context) error {
	s.seen.References = map[string]*unstructured.Unstructured{}
	for _, t := range s.experiment.Spec.Targets {
		if !refers(t) || s.seen.Kinds[arlon.ClusterGVK] != kube.KindServed {
			continue
		}
		cluster, err := kube.Get(ctx, s.Foreign, arlon.ClusterGVK, keyOf(s.names.reference(t)))
		if err != nil {
			return err
		}
		if cluster != nil {
			s.seen.References[t.Name] = cluster
		}
	}
	return nil
}

// observeReferred looks how Argo CD knows a Cluster that is Ready, where no Application tells, or Argo CD cannot use what it does, or
// one is to go that it would leave something of on a cluster that it does not know.
func (s *scope) observeReferred(ctx context.Context, t v1alpha1.Target) {
	cluster, apps := s.seen.References[t.Name], s.seen.Applications[t.Name]
	if !providerOf(t).read(s.seen.telling(t)).Ready || len(apps) == 0 && s.blocked(t) {
		return
	}
	if referredEndpoint(apps, cluster.GetUID()) == "" || slices.ContainsFunc(apps, argocd.Disconnected) || s.retires(t, apps) {
		s.seen.Connections[t.Name] = s.referredConnection(ctx, cluster.GetUID())
	}
}

// referredConnection is how Argo CD knows a Cluster, by its UID. Of the Secret nothing is read but where the cluster is;
// there is no kubeconfig (Found), so that nothing is ever registered by it.
func (s *scope) referredConnection(ctx context.Context, cluster types.UID) (c Connection) {
	if cluster == "" {
		return c
	}
	secrets, err := s.clusterSecrets(ctx, client.MatchingLabels{arlon.LabelUID: string(cluster)})
	if err != nil || len(secrets) == 0 {
		c.ReadErr = err
		return c
	}
	c.Known = true
	if len(secrets) > 1 {
		described := []string{kube.Describe(&secrets[0]), kube.Describe(&secrets[1])}
		slices.Sort(described)
		c.Err = fmt.Errorf("%s and %s both register it with Argo CD; delete one of the two", described[0], described[1])
		return c
	}
	server, err := secretValue(&secrets[0], "server")
	if err == nil {
		err = argocd.Remote(string(server))
	}
	if err != nil {
		c.Err = fmt.Errorf("the server of %s, by which Argo CD knows it, %w", kube.Describe(&secrets[0]), err)
		return c
	}
	c.Credentials.Server = string(server)
	return c
}

// referenceGone says whether the server has the Cluster of such a target no more, or another in its place than its Applications were created
// for.
func (s *scope) referenceGone(ctx context.Context, t v1alpha1.Target) (bool, error) {
	of := func(cluster *unstructured.Unstructured) bool {
		return slices.ContainsFunc(s.seen.Applications[t.Name], func(app *unstructured.Unstructured) bool { return going(app) && deployedTo(app) == uidOf(cluster) })
	}
	if s.seen.Kinds[arlon.ClusterGVK] != kube.KindServed || of(s.seen.References[t.Name]) {
		return false, nil
	}
	live, err := kube.Get(ctx, s.Live, arlon.ClusterGVK, keyOf(s.names.reference(t)))
	return err == nil && (live == nil || !of(live)), err
}
