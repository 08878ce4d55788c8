package hibernateplan

import (
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// permission is the Role to get and update the restore point of a target.
func (n names) permission(target string) *rbacv1.Role {
	at := n.role(target)
	return &rbacv1.Role{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"},
		ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name, Labels: map[string]string{v1alpha1.LabelTarget: target}},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{n.point(target).Name}, Verbs: []string{"get", "update"},
		}},
	}
}

// permit sees to it that there is the Role of a target, and says whether it has looked: it is believed to be as this manager has made or
// seen it, until an attempt fails, or finds it gone.
func (s *scope) permit(ctx context.Context, target string, again bool) (looked bool, err error) {
	role, now := s.names().permission(target), &rbacv1.Role{}
	at := client.ObjectKeyFromObject(role)
	if _, known := s.permitted.Get(at); known && !again {
		return false, nil
	}
	err = s.Live.Get(ctx, at, now)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return true, fmt.Errorf("reading Role %s: %w", at, err)
	case err == nil && marks.Owns(s.owner, now) && equality.Semantic.DeepEqual(now.Rules, role.Rules):
		s.permitted.Add(at, nil)
		return true, nil
	case err == nil: // somebody has changed it, or has the name
		if err := s.remove(ctx, roleGVK, at); err != nil {
			return true, err
		}
	}
	if _, err := s.create(ctx, role); err != nil {
		return true, err
	}
	s.permitted.Add(at, nil)
	return true, nil
}

// prepared is how many targets of a plan have their Roles.
type prepared struct {
	generation int64
	targets    int
}

// prepare makes the Roles of a plan that has not slept yet, which takes longer where many begin at one minute. What cannot be made yet
// is the first attempt's to tell of.
func (s *scope) prepare(ctx context.Context) error {
	st := &s.plan.Status
	if st.CurrentCycle != nil || st.Cycles > 0 || s.plan.Problem != nil || s.owner.DeletionTimestamp != nil || s.owner.Spec.DryRun {
		return nil
	}
	so := prepared{generation: s.owner.Generation}
	if known, ok := s.prepared.Get(s.owner.UID); ok && known.(prepared).generation == so.generation {
		so = known.(prepared)
	}
	targets := s.owner.Spec.Targets[so.targets:]
	if len(targets) == 0 {
		return nil
	}
	if err := kube.Current(ctx, s.Live, planGVK, s.owner); err != nil {
		return err // what is made for one that is gone stays
	}
	now := targets[:min(perPass, len(targets))]
	for i, err := range inParallel(ctx, s, now, func(t v1alpha1.Target) error {
		_, err := s.permit(ctx, t.Name, false)
		return err
	}) {
		if err != nil {
			log.FromContext(ctx).Info("The Role of a target is left to its first attempt", "target", now[i].Name, "cause", err.Error())
		}
	}
	so.targets += len(now)
	s.prepared.Add(s.owner.UID, so)
	if len(targets) > perPass {
		s.plan.lookIn(atOnce)
	}
	return nil
}

// permittedAny says whether there is the Role of a target, as far as the manager may see that: who may not look has made none.
func (s *scope) permittedAny(ctx context.Context) bool {
	return slices.ContainsFunc(s.owner.Spec.Targets, func(t v1alpha1.Target) bool {
		found, err := kube.Get(ctx, s.Live, roleGVK, s.names().role(t.Name))
		return err != nil && !apierrors.IsForbidden(err) || found != nil && marks.Owns(s.owner, found)
	})
}
