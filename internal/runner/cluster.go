package runner

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/labkeeper/labkeeper/internal/restore"
)

// own is what the manager's own cluster is called.
const own = restore.OwnCluster

// OwnCluster tells the manager's own cluster from all that connectors have credentials for.
func OwnCluster(context.Context, *rest.Config) (string, error) { return own, nil }

// called is a cluster in words.
func called(id string) string {
	switch id {
	case own:
		return "the manager's own cluster"
	case "":
		return "a cluster that its connector could not tell from others"
	}
	return "the cluster whose Namespace kube-system has UID " + id
}

// ClusterID tells a cluster from all others: the UID of its Namespace kube-system, which lives as long as it does. It is
// empty where the credentials may not read that. Only the API server says so: one that has no such Namespace is none, and what stands
// before it answers in words of its own.
func ClusterID(ctx context.Context, config *rest.Config) (string, error) {
	client, err := corev1client.NewForConfig(config)
	if err != nil {
		return "", err
	}
	namespace, err := client.Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if namespace.UID == own { // no API server gives one, and what says so may want to be taken for the manager's own
		return "", fmt.Errorf("UID %q of Namespace %s is none", own, namespace.Name)
	}
	return string(namespace.UID), nil
}
