package hibernateplan

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/connector"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// credentials is the Secret with what a target was put to sleep with: beside its restore point, and gone when that is.
func (a attempt) credentials(kubeconfig []byte, point *corev1.ConfigMap) *corev1.Secret {
	key := client.ObjectKeyFromObject(a.plan)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: point.Namespace, Name: point.Name,
			Labels:          map[string]string{labelRestorePoint: keyLabel(key), v1alpha1.LabelTarget: a.target.Name},
			Annotations:     map[string]string{v1alpha1.AnnotationOwner: key.String()},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: point.Name, UID: point.UID}},
		},
		Data: map[string][]byte{keyKubeconfig: kubeconfig},
	}
}

// keepCredentials makes that Secret. One with other content is replaced: nobody need be let change Secrets. It is looked for first where
// a pass before has begun the attempt: to be told by a create that it is there takes as long as all webhooks do.
func (s *scope) keepCredentials(ctx context.Context, a attempt, kubeconfig []byte, point *corev1.ConfigMap, begun bool) error {
	for look := begun; ; look = true {
		if look {
			found, err := s.credentials(ctx, a.target.Name)
			if err != nil || found != nil && bytes.Equal(found.Data[keyKubeconfig], kubeconfig) && goesWith(found, point) {
				return err
			}
			if err := s.dropCredentials(ctx, a.target.Name); err != nil {
				return err
			}
		}
		desired := a.credentials(kubeconfig, point)
		err := s.Live.Create(ctx, desired, client.FieldOwner(kube.FieldOwner))
		switch {
		case err == nil:
			return nil
		case look || !apierrors.IsAlreadyExists(err):
			return fmt.Errorf("creating Secret %s: %w", client.ObjectKeyFromObject(desired), err)
		}
	}
}

// dropAllCredentials deletes those of all restore points of the plan, whatever the ledger has of them.
func (s *scope) dropAllCredentials(ctx context.Context) error {
	points, err := s.restorePoints(ctx)
	if err != nil {
		return err
	}
	for i := range points {
		var t v1alpha1.Target
		if json.Unmarshal([]byte(points[i].Data[keyTarget]), &t) == nil && t.ConnectorRef == nil {
			continue
		}
		if target := points[i].Labels[v1alpha1.LabelTarget]; target != "" {
			if err := s.dropCredentials(ctx, target); err != nil {
				return err
			}
		}
	}
	return nil
}

// goesWith says whether a Secret is gone when a restore point is.
func goesWith(secret *corev1.Secret, point *corev1.ConfigMap) bool {
	return slices.ContainsFunc(secret.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == point.UID })
}

// credentials is that Secret of a target; nil if there is none.
func (s *scope) credentials(ctx context.Context, target string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	if there, err := s.kept(ctx, "Secret", target, secret); !there {
		return nil, err
	}
	return secret, nil
}

// dropCredentials deletes that Secret; another's of its name was never needed.
func (s *scope) dropCredentials(ctx context.Context, target string) error {
	found, err := s.credentials(ctx, target)
	if _, taken := errors.AsType[*kube.NameTakenError](err); taken {
		return nil
	}
	if err != nil || found == nil {
		return err
	}
	if err := s.Live.Delete(ctx, found, client.Preconditions{UID: ptr.To(found.UID)}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting Secret %s: %w", client.ObjectKeyFromObject(found), err)
	}
	return nil
}

// kubeconfig reaches the cluster of an attempt's target: by its connector, which is then kept where it goes with the plan's namespace,
// and where it has gone with that by what is kept.
func (s *scope) kubeconfig(ctx context.Context, a attempt, point *corev1.ConfigMap, begun bool) ([]byte, error) {
	access, err := connector.Resolve(ctx, s.Live, s.owner.Namespace, a.target.ConnectorRef)
	if err == nil && a.execution.Operation == v1alpha1.OperationShutdown {
		if access.Namespaces == [2]string{s.owner.Namespace, s.owner.Namespace} {
			err = s.keepCredentials(ctx, a, access.Kubeconfig, point, begun)
		} else {
			err = s.dropCredentials(ctx, a.target.Name)
		}
	}
	if refused, is := errors.AsType[*connector.Error](err); is {
		bereft, lookErr := s.bereft(ctx, a.target)
		var kept *corev1.Secret
		if bereft {
			kept, lookErr = s.credentials(ctx, a.target.Name)
		}
		if kept != nil {
			return kept.Data[keyKubeconfig], nil
		}
		err = cmp.Or[error](lookErr, refused)
	}
	if err != nil {
		return nil, fmt.Errorf("reaching target %s: %w", a.target.Name, err)
	}
	return access.Kubeconfig, nil
}

// bereft says whether the connector of a target may have gone with the namespace of the plan, which is deleted and goes, with
// everything in it: then nobody has taken it from the plan. What other namespaces have allowed they may take back.
func (s *scope) bereft(ctx context.Context, t v1alpha1.Target) (bool, error) {
	if s.owner.DeletionTimestamp == nil || cmp.Or(t.ConnectorRef.Namespace, s.owner.Namespace) != s.owner.Namespace {
		return false, nil
	}
	if s.going.Load() == nil {
		namespace, err := s.namespace(ctx, s.Live, s.owner.Namespace)
		if err != nil {
			return false, err
		}
		s.going.Store(ptr.To(namespace == nil || namespace.DeletionTimestamp != nil))
	}
	return *s.going.Load(), nil
}
