package kube

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// RoleBindingGVK is a RoleBinding.
var RoleBindingGVK = schema.GroupVersionKind{Group: rbacv1.GroupName, Version: "v1", Kind: "RoleBinding"}

// secretReader is the ClusterRole of config/rbac that may read Secrets and is bound to nobody.
const secretReader = "labkeeper-kubeconfig-reader"

// ReadsSecretsOf is the RoleBinding by which whoever it is granted to reads the Secrets of a
// namespace. Writer.Grant gives it its subject, and the end of its name.
func ReadsSecretsOf(namespace string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"roleRef": map[string]any{"apiGroup": rbacv1.GroupName, "kind": "ClusterRole", "name": secretReader},
	}}
	u.SetGroupVersionKind(RoleBindingGVK)
	u.SetNamespace(namespace)
	u.SetName(secretReader)
	return u
}

// Grant creates a RoleBinding to whoever the client is, which the API server says. Another account has
// one of another name.
func (w Writer) Grant(ctx context.Context, binding *unstructured.Unstructured) error {
	review := &authenticationv1.SelfSubjectReview{}
	if err := w.Client.Create(ctx, review); err != nil {
		return fmt.Errorf("asking the API server who the manager is: %w", err)
	}
	granted, user := binding.DeepCopy(), review.Status.UserInfo.Username
	granted.SetName(ChildName(maxLabel, types.UID(user), binding.GetName()))
	if err := unstructured.SetNestedSlice(granted.Object, []any{subject(user)}, "subjects"); err != nil {
		return fmt.Errorf("building %s: %w", Describe(binding), err)
	}
	_, _, err := w.Create(ctx, granted)
	return err
}

// subject is a user of the given name.
func subject(user string) map[string]any {
	if account, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		namespace, name, _ := strings.Cut(account, ":")
		return map[string]any{"kind": rbacv1.ServiceAccountKind, "namespace": namespace, "name": name}
	}
	return map[string]any{"kind": rbacv1.UserKind, "apiGroup": rbacv1.GroupName, "name": user}
}

// refusedUser is the account that an API server names that it refuses something to.
var refusedUser = regexp.MustCompile(`User "([^"]+)"`)

// SecretsCommand is the command that lets the account read the Secrets of a namespace that the API server has refused
// that to.
func SecretsCommand(namespace string, refused error) string {
	account := "--serviceaccount=labkeeper-system:labkeeper-controller-manager"
	if found := refusedUser.FindStringSubmatch(refused.Error()); found != nil {
		account = "--user=" + found[1]
		if name, ok := strings.CutPrefix(found[1], "system:serviceaccount:"); ok {
			account = "--serviceaccount=" + name
		}
	}
	return fmt.Sprintf("kubectl -n %s create rolebinding labkeeper-kubeconfigs --clusterrole=%s %s", namespace, secretReader, account)
}
