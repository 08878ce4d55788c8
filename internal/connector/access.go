package connector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// Error says why a connector cannot be used as it is now.
type Error struct {
	// Reason in CamelCase, as conditions have it.
	Reason string
	// Message for people: what is missing and where. It holds nothing of a Secret.
	Message string
}

// Error is the message.
func (e *Error) Error() string { return e.Message }

// Access is how the cluster of a connector is reached.
type Access struct {
	// InCluster: as the manager reaches its own cluster. Kubeconfig is empty then.
	InCluster bool
	// Kubeconfig has one context, and neither plugins nor files.
	Kubeconfig []byte
	// Namespaces are those of the connector, and of the Secret with the kubeconfig.
	Namespaces [2]string
	// Version is another one where the kubeconfig is. It tells nothing of what that is.
	Version string
}

// Resolve is how a plan in some namespace reaches the cluster of its connector; without one that is the manager's own.
// An *Error has reason ConnectorMissing, NotGranted or ConnectorNotReady; any other error may pass. live must read from
// the server: Secrets are not cached.
//
// That it was reached the condition Ready of the connector must say, of the spec of now. Its Secret is read again, and
// checked, so that credentials that were rotated since then are the new ones.
func Resolve(ctx context.Context, live client.Reader, namespace string, ref *v1alpha1.ConnectorRef) (Access, error) {
	if ref == nil {
		return Access{InCluster: true}, nil
	}
	cluster, err := Ready(ctx, live, namespace, *ref)
	if err != nil {
		return Access{}, err
	}
	if cluster.Spec.K8S.KubeconfigRef == nil {
		return Access{InCluster: true}, nil
	}
	k, err := Read(ctx, live, cluster.Namespace, *cluster.Spec.K8S.KubeconfigRef)
	if refused := (*Error)(nil); errors.As(err, &refused) {
		return Access{}, notReady("K8SCluster "+client.ObjectKeyFromObject(cluster).String(), refused.Reason)
	}
	if err != nil {
		return Access{}, err
	}
	return Access{
		Kubeconfig: k.Content, Namespaces: [2]string{cluster.Namespace, cmp.Or(cluster.Spec.K8S.KubeconfigRef.Namespace, cluster.Namespace)},
		Version: fmt.Sprintf("%d.%s", cluster.Generation, k.Version),
	}, nil
}

// Ready is the connector that a plan in some namespace names, if it may use it and its condition Ready says that it can:
// what [Resolve] says without reading the Secret, for readers that are caches, too.
func Ready(ctx context.Context, c client.Reader, namespace string, ref v1alpha1.ConnectorRef) (*v1alpha1.K8SCluster, error) {
	found, conditions, err := find(ctx, c, namespace, ref)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("%s %s", ref.Kind, client.ObjectKeyFromObject(found))
	ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	switch {
	case ready == nil || ready.ObservedGeneration != found.GetGeneration():
		return nil, &Error{v1alpha1.ReasonConnectorNotReady, what + " has not been checked yet"}
	case ready.Status != metav1.ConditionTrue:
		return nil, notReady(what, ready.Reason)
	}
	cluster, ok := found.(*v1alpha1.K8SCluster)
	if !ok || cluster.Spec.K8S == nil {
		return nil, notReady(what, v1alpha1.ReasonNoChecker)
	}
	return cluster, nil
}

// notReady says no more than the reason: the plan may be in a namespace whose people cannot see the connector.
func notReady(what, reason string) error {
	return &Error{v1alpha1.ReasonConnectorNotReady, fmt.Sprintf("%s is not ready (%s), as its condition Ready tells", what, reason)}
}

// find is a connector that a plan in some namespace may use, and its conditions.
func find(ctx context.Context, live client.Reader, namespace string, ref v1alpha1.ConnectorRef) (client.Object, []metav1.Condition, error) {
	key := types.NamespacedName{Namespace: cmp.Or(ref.Namespace, namespace), Name: ref.Name}
	var found client.Object
	var status *v1alpha1.ConnectorStatus
	switch ref.Kind {
	case "K8SCluster":
		cluster := &v1alpha1.K8SCluster{}
		found, status = cluster, &cluster.Status
	case "CloudProvider":
		provider := &v1alpha1.CloudProvider{}
		found, status = provider, &provider.Status
	default:
		return nil, nil, &Error{v1alpha1.ReasonConnectorMissing, fmt.Sprintf("There is no kind of connector %q", ref.Kind)}
	}
	err := kube.Find(ctx, live, key, found, client.DisableReadYourWritesConsistency)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return nil, nil, fmt.Errorf("reading %s %s: %w", ref.Kind, key, err)
	case key.Namespace != namespace && (err != nil || !Allows(found, namespace)):
		return nil, nil, notGranted(ref.Kind, key, namespace)
	case err != nil:
		return nil, nil, &Error{v1alpha1.ReasonConnectorMissing, fmt.Sprintf("%s %s does not exist", ref.Kind, key)}
	}
	return found, status.Conditions, nil
}

// Read reads the kubeconfig that a connector in some namespace names. An *Error has reason NotGranted, Forbidden,
// KubeconfigMissing or KubeconfigInvalid; any other error may pass.
func Read(ctx context.Context, live client.Reader, namespace string, ref v1alpha1.SecretRef) (*Kubeconfig, error) {
	key, secret := types.NamespacedName{Namespace: cmp.Or(ref.Namespace, namespace), Name: ref.Name}, &corev1.Secret{}
	err := kube.Find(ctx, live, key, secret)
	switch {
	case apierrors.IsForbidden(err): // which the server says whether there is one or not
		return nil, &Error{kube.ReasonForbidden, fmt.Sprintf("The manager may not read Secret %s; let it read those of that namespace: %s",
			key, kube.SecretsCommand(key.Namespace, err))}
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("reading Secret %s: %w", key, err)
	case key.Namespace != namespace && (err != nil || !Allows(secret, namespace)):
		return nil, notGranted("Secret", key, namespace)
	case err != nil:
		return nil, &Error{v1alpha1.ReasonKubeconfigMissing, fmt.Sprintf("Secret %s does not exist; create it, with the kubeconfig of the cluster", key)}
	}
	keys := defaultKeys
	if ref.Key != "" {
		keys = []string{ref.Key}
	}
	for _, name := range keys {
		content, ok := secret.Data[name]
		if !ok {
			continue
		}
		k, err := Parse(content)
		if err != nil {
			return nil, &Error{v1alpha1.ReasonKubeconfigInvalid, fmt.Sprintf("Secret %s, key %s: %v", key, name, err)}
		}
		k.Version = secret.ResourceVersion
		return k, nil
	}
	return nil, &Error{v1alpha1.ReasonKubeconfigMissing, fmt.Sprintf("Secret %s has no key %s", key, strings.Join(keys, " or "))}
}

// defaultKeys are those under which kubeconfigs are: that of most tools, and that of Cluster API.
var defaultKeys = []string{"kubeconfig", "value"}

// notGranted says nothing of whether there is such an object.
func notGranted(kind string, key types.NamespacedName, namespace string) error {
	return &Error{v1alpha1.ReasonNotGranted, fmt.Sprintf("%s %s is not for namespace %s, or does not exist: its annotation %s must name that namespace",
		kind, key, namespace, v1alpha1.AnnotationAllowedNamespaces)}
}

// Allows says whether an object may be used from another namespace: its annotation names that, or *.
func Allows(o metav1.Object, namespace string) bool {
	for allowed := range strings.SplitSeq(o.GetAnnotations()[v1alpha1.AnnotationAllowedNamespaces], ",") {
		if allowed = strings.TrimSpace(allowed); allowed == namespace || allowed == "*" {
			return namespace != ""
		}
	}
	return false
}
