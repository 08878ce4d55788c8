package hibernateplan

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/connector"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/internal/runner"
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

// access sees how the connector of an attempt reaches the cluster of its target.
func (s *scope) access(ctx context.Context, a *attempt) (err error) {
	a.access, err = connector.Resolve(ctx, s.Live, s.owner.Namespace, a.target.ConnectorRef)
	if errors.As(err, &a.refused) { // there may be what is kept
		return nil
	}
	return reaching(a.target, err)
}

// reaching is an error of reaching a target; nil is none.
func reaching(t v1alpha1.Target, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("reaching target %s: %w", t.Name, err)
}

// kubeconfig reaches the cluster of an attempt's target: by its connector, which is then kept where it may go with the plan, and where it
// has gone with that by what is kept.
func (s *scope) kubeconfig(ctx context.Context, a attempt, point *corev1.ConfigMap, begun bool) ([]byte, error) {
	if a.refused != nil {
		kept, err := s.bequeathed(ctx, a.target, a.refused.Reason)
		if kept == nil {
			return nil, reaching(a.target, cmp.Or[error](err, a.refused))
		}
		return kept.Data[keyKubeconfig], nil
	}
	var err error
	if a.execution.Operation == v1alpha1.OperationShutdown {
		if a.access.Namespaces == [2]string{s.owner.Namespace, s.owner.Namespace} {
			err = s.keepCredentials(ctx, a, a.access.Kubeconfig, point, begun)
		} else {
			err = s.dropCredentials(ctx, a.target.Name)
		}
	}
	return a.access.Kubeconfig, reaching(a.target, err)
}

// bequeathed are the credentials that are kept of a target whose connector has gone with the plan; nil if it has not.
func (s *scope) bequeathed(ctx context.Context, t v1alpha1.Target, reason string) (*corev1.Secret, error) {
	if bereft, err := s.bereft(ctx, t, reason); !bereft {
		return nil, err
	}
	return s.credentials(ctx, t.Name)
}

// renewedAgain is how often it is looked whether a connector has other credentials than a target has failed with: nobody tells of that.
const renewedAgain = time.Minute

// doubt is a target that has failed behind a connector, and may not have with other credentials.
type doubt struct {
	of        v1alpha1.ConnectorRef
	execution *execution
}

// observeFailed sees whether a target that has failed as often as it may behind a connector that is ready is tried again, as that has not
// been in between, or is doubted.
func (s *scope) observeFailed(e *execution, t v1alpha1.Target, found reached) (doubted []doubt) {
	switch {
	case e == nil || !failed(e) || t.ConnectorRef == nil || found.problem != nil:
	case found.ready.After(e.FinishedAt.Time) && !found.ready.After(s.now):
		s.renew(e)
	case found.credentials:
		return []doubt{{*t.ConnectorRef, e}}
	}
	return nil
}

// observeRenewed sees which of some targets have failed with other credentials than there are now. Where one has, all behind its connector
// are tried again. What cannot be read is looked at the next time.
func (s *scope) observeRenewed(ctx context.Context, doubted []doubt) {
	if len(doubted) == 0 {
		return
	}
	last, _ := s.doubted.Get(s.owner.UID)
	if at, looked := last.(time.Time); looked && s.now.Sub(at) >= 0 && s.now.Sub(at) < renewedAgain {
		s.seen.Stops = kube.Sooner(s.seen.Stops, at.Add(renewedAgain).Sub(s.now))
		return
	}
	s.doubted.Add(s.owner.UID, s.now)
	s.seen.Stops = kube.Sooner(s.seen.Stops, renewedAgain)
	versions, renewed := map[v1alpha1.ConnectorRef]string{}, map[v1alpha1.ConnectorRef]bool{}
	for _, d := range some(s.now, doubted) {
		version, known := versions[d.of]
		if !known {
			version = s.version(ctx, d.of)
			versions[d.of] = version
		}
		renewed[d.of] = renewed[d.of] || version != "" && s.hadOther(ctx, d.execution, version)
	}
	for _, d := range doubted {
		if renewed[d.of] {
			s.renew(d.execution)
		}
	}
}

// renewal is how often a target had been tried when that was begun anew, and when.
type renewal struct {
	attempts int32
	at       time.Time
}

// renew has a target tried again, but not again and again: somebody may write a Secret every minute, or a connector be ready by turns.
func (s *scope) renew(e *execution) {
	key := string(s.owner.UID) + "/" + e.Target
	last, _ := s.renewed.Get(key)
	if was, known := last.(renewal); known && was.attempts != e.Attempts && s.now.Sub(was.at) >= 0 && s.now.Sub(was.at) < lastRetry {
		s.seen.Stops = kube.Sooner(s.seen.Stops, was.at.Add(lastRetry).Sub(s.now))
		return
	}
	s.renewed.Add(key, renewal{e.Attempts, s.now})
	s.seen.Renewed[e.Target] = true
}

// version of a connector; empty where it cannot be used, or read.
func (s *scope) version(ctx context.Context, of v1alpha1.ConnectorRef) string {
	access, err := connector.Resolve(ctx, s.Live, s.owner.Namespace, &of)
	if err != nil {
		log.FromContext(ctx).Info("Not seen whether a connector has other credentials", "connector", of.Name, "cause", err.Error())
	}
	return access.Version
}

// hadOther says whether the last attempt at a target had another version of its connector, or none.
func (s *scope) hadOther(ctx context.Context, e *execution, version string) bool {
	point, err := s.point(ctx, e.Target)
	return err == nil && point != nil && point.Annotations[runner.AnnotationExecution] == name(e.JobRef) && point.Annotations[annotationConnector] != version
}

// bereft says whether the connector of a target may have gone with the plan, which is deleted: with its namespace, which takes everything
// in it along, or as one of what was deleted together. Then nobody has taken it from the plan, which is the last to go. What other
// namespaces have allowed they may take back. The reason is why the connector cannot be used.
func (s *scope) bereft(ctx context.Context, t v1alpha1.Target, reason string) (bool, error) {
	if s.owner.DeletionTimestamp == nil || cmp.Or(t.ConnectorRef.Namespace, s.owner.Namespace) != s.owner.Namespace {
		return false, nil
	}
	if reason == v1alpha1.ReasonConnectorMissing {
		return true, nil
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
