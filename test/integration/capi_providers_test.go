//go:build capi

package integration_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/internal/external/capi"
)

// The kinds of Cluster API as the providers for Talos Linux know them, which are of its contract v1beta1.
var (
	machineGVK     = schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta1", Kind: "Machine"}
	talosConfigGVK = schema.GroupVersionKind{Group: "bootstrap.cluster.x-k8s.io", Version: "v1alpha3", Kind: "TalosConfig"}
)

const (
	clusterNameLabel  = "cluster.x-k8s.io/cluster-name"
	controlPlaneLabel = "cluster.x-k8s.io/control-plane"
	pausedAnnotation  = "cluster.x-k8s.io/paused"
	providerFinalizer = "lab.example.com/provider"
)

// talosConfigCRD is what the provider of configurations makes of a TalosConfigTemplate.
const talosConfigCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: talosconfigs.bootstrap.cluster.x-k8s.io}
spec:
  group: bootstrap.cluster.x-k8s.io
  names: {kind: TalosConfig, listKind: TalosConfigList, plural: talosconfigs, singular: talosconfig}
  scope: Namespaced
  versions:
  - name: v1alpha3
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {generateType: {type: string}, talosVersion: {type: string}}}
          status: {type: object, properties: {ready: {type: boolean}, dataSecretName: {type: string}}}
`

// providers play those of Talos Linux and of virtual clusters, which are to be had as images alone, as the contract of Cluster API asks of
// them: what makes machines of a control plane, their configuration, and the kubeconfig.
type providers struct{ *lab }

func (p providers) run(ctx context.Context) {
	for ctx.Err() == nil {
		for gvk, play := range map[schema.GroupVersionKind]func(context.Context, *unstructured.Unstructured) error{
			capi.TalosControlPlaneGVK: p.controlPlane, talosConfigGVK: p.configuration, capi.VClusterGVK: p.virtual,
		} {
			objects, err := p.objects(ctx, gvk)
			for i := range objects {
				// What has changed meanwhile is played again.
				if err := play(ctx, &objects[i]); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && ctx.Err() == nil {
					fmt.Fprintf(GinkgoWriter, "providers: %s %s: %v\n", gvk.Kind, objects[i].GetName(), err)
				}
			}
			if err != nil && ctx.Err() == nil {
				fmt.Fprintf(GinkgoWriter, "providers: %s: %v\n", gvk.Kind, err)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// objects are those of a kind.
func (p providers) objects(ctx context.Context, gvk schema.GroupVersionKind, which ...client.ListOption) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	gvk.Kind += "List"
	list.SetGroupVersionKind(gvk)
	err := p.client.List(ctx, list, which...)
	return list.Items, err
}

// controlPlane makes the machines of a control plane, and replaces those of another version.
func (p providers) controlPlane(ctx context.Context, u *unstructured.Unstructured) error {
	machines, err := p.objects(ctx, machineGVK, client.InNamespace(u.GetNamespace()), client.MatchingLabels{clusterNameLabel: u.GetName()}, client.HasLabels{controlPlaneLabel})
	if err != nil {
		return err
	}
	if u.GetDeletionTimestamp() != nil {
		return p.takeDown(ctx, u, machines)
	}
	cluster, err := p.owner(ctx, u, capi.ClusterGVK)
	if err != nil || cluster == nil || paused(cluster) || !boolean(cluster, "status", "initialization", "infrastructureProvisioned") {
		return err
	}
	if len(u.GetFinalizers()) == 0 {
		return p.merge(ctx, u, map[string]any{"metadata": map[string]any{"finalizers": []string{providerFinalizer}}})
	}
	if err := errors.Join(p.ownTemplate(ctx, u, cluster), p.credentials(ctx, u, capi.ReadCluster(cluster).Endpoint)); err != nil {
		return err
	}
	version, _, _ := unstructured.NestedString(u.Object, "spec", "version")
	replicas, _, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
	of := func(m unstructured.Unstructured) string {
		v, _, _ := unstructured.NestedString(m.Object, "spec", "version")
		return v
	}
	old := slices.DeleteFunc(slices.Clone(machines), func(m unstructured.Unstructured) bool { return of(m) == version })
	up := slices.DeleteFunc(slices.Clone(machines), func(m unstructured.Unstructured) bool { return !boolean(&m, "status", "infrastructureReady") })
	switch made := int64(len(machines) - len(old)); {
	case made < replicas:
		if err := p.machine(ctx, u, version); err != nil {
			return err
		}
	case len(old) > 0 && len(up) == len(machines):
		if err := client.IgnoreNotFound(p.client.Delete(ctx, &old[0])); err != nil {
			return err
		}
	}
	return p.tell(ctx, u, len(machines), len(up), len(old))
}

// tell says how far a control plane is, of how many machines.
func (p providers) tell(ctx context.Context, u *unstructured.Unstructured, machines, up, old int) error {
	version, _, _ := unstructured.NestedString(u.Object, "spec", "version")
	status := map[string]any{"replicas": machines, "readyReplicas": up, "unavailableReplicas": machines - up, "observedGeneration": u.GetGeneration()}
	if old == 0 {
		status["version"] = version
	}
	if up > 0 && !p.held(u.GetNamespace()) {
		status["bootstrapped"], status["initialized"], status["ready"] = true, true, true
	} else if !boolean(u, "status", "initialized") {
		status["conditions"] = []any{map[string]any{
			"type": "Available", "status": "False", "reason": "WaitingForTalosBoot", "severity": "Info", "message": "no machine has booted", "lastTransitionTime": u.GetCreationTimestamp(),
		}}
	}
	return p.merge(ctx, u, map[string]any{"status": status}, "status")
}

// held says whether the control planes of a stage do not come up.
func (p providers) held(namespace string) bool {
	p.world.mu.Lock()
	s := p.world.stages[namespace]
	p.world.mu.Unlock()
	return s != nil && s.holds(clusterReady)
}

// takeDown deletes the machines of a control plane that goes, and lets it go when they are gone.
func (p providers) takeDown(ctx context.Context, u *unstructured.Unstructured, machines []unstructured.Unstructured) error {
	for i := range machines {
		if err := client.IgnoreNotFound(p.client.Delete(ctx, &machines[i])); err != nil {
			return err
		}
	}
	if len(machines) > 0 || len(u.GetFinalizers()) == 0 {
		return nil
	}
	return p.merge(ctx, u, map[string]any{"metadata": map[string]any{"finalizers": nil}})
}

// template is that of the machines of a control plane.
func (p providers) template(ctx context.Context, u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	ref, _, _ := unstructured.NestedStringMap(u.Object, "spec", "infrastructureTemplate")
	template := &unstructured.Unstructured{}
	template.SetGroupVersionKind(schema.FromAPIVersionAndKind(ref["apiVersion"], ref["kind"]))
	return template, p.client.Get(ctx, client.ObjectKey{Namespace: u.GetNamespace(), Name: ref["name"]}, template)
}

// ownTemplate makes it the property of the Cluster.
func (p providers) ownTemplate(ctx context.Context, u, cluster *unstructured.Unstructured) error {
	template, err := p.template(ctx, u)
	if err != nil || len(template.GetOwnerReferences()) > 0 {
		return err
	}
	owner := metav1.OwnerReference{APIVersion: cluster.GetAPIVersion(), Kind: cluster.GetKind(), Name: cluster.GetName(), UID: cluster.GetUID()}
	return p.merge(ctx, template, map[string]any{"metadata": map[string]any{"ownerReferences": []metav1.OwnerReference{owner}}})
}

// machine makes one of a control plane.
func (p providers) machine(ctx context.Context, u *unstructured.Unstructured, version string) error {
	template, err := p.template(ctx, u)
	if err != nil {
		return err
	}
	name := u.GetName() + "-" + utilrand.String(5)
	infrastructure := capi.FromTemplate(template, u.GetNamespace(), name)
	config := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"generateType": "controlplane"}}}
	config.SetGroupVersionKind(talosConfigGVK)
	reference := func(to *unstructured.Unstructured) map[string]any {
		return map[string]any{"apiVersion": to.GetAPIVersion(), "kind": to.GetKind(), "namespace": u.GetNamespace(), "name": name}
	}
	machine := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"clusterName": u.GetName(), "version": version,
		"bootstrap": map[string]any{"configRef": reference(config)}, "infrastructureRef": reference(infrastructure),
	}}}
	machine.SetGroupVersionKind(machineGVK)
	machine.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(u, capi.TalosControlPlaneGVK)})
	for _, o := range []*unstructured.Unstructured{infrastructure, config, machine} {
		o.SetNamespace(u.GetNamespace())
		o.SetName(name)
		o.SetLabels(map[string]string{clusterNameLabel: u.GetName(), controlPlaneLabel: ""})
		if err := p.client.Create(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// configuration makes that of a machine.
func (p providers) configuration(ctx context.Context, u *unstructured.Unstructured) error {
	machine, err := p.owner(ctx, u, machineGVK)
	if err != nil || machine == nil || u.GetDeletionTimestamp() != nil || boolean(u, "status", "ready") {
		return err
	}
	name := u.GetName() + "-bootstrap-data"
	if err := p.secret(ctx, u, name, map[string][]byte{"value": []byte("machine: {}")}); err != nil {
		return err
	}
	return p.merge(ctx, u, map[string]any{"status": map[string]any{"ready": true, "dataSecretName": name}}, "status")
}

// virtual brings a virtual cluster up, which is control plane and infrastructure in one.
func (p providers) virtual(ctx context.Context, u *unstructured.Unstructured) error {
	switch cluster, err := p.owner(ctx, u, capi.ClusterGVK); {
	case u.GetDeletionTimestamp() != nil:
		return p.takeDown(ctx, u, nil)
	case err != nil || cluster == nil || boolean(u, "status", "ready"):
		return err
	}
	if err := p.secret(ctx, u, u.GetName()+"-kubeconfig", map[string][]byte{capi.KubeconfigKey: []byte(kubeconfig(""))}); err != nil {
		return err
	}
	err := p.merge(ctx, u, map[string]any{
		"metadata": map[string]any{"finalizers": []string{providerFinalizer}},
		"spec":     map[string]any{"controlPlaneEndpoint": map[string]any{"host": clusterEndpoint, "port": 443}},
	})
	if err != nil {
		return err
	}
	return p.merge(ctx, u, map[string]any{"status": map[string]any{"ready": true, "initialized": true}}, "status")
}

// owner is that of an object, of a kind; nil if it has none.
func (p providers) owner(ctx context.Context, u *unstructured.Unstructured, gvk schema.GroupVersionKind) (*unstructured.Unstructured, error) {
	for _, ref := range u.GetOwnerReferences() {
		if ref.Kind == gvk.Kind && strings.HasPrefix(ref.APIVersion, gvk.Group+"/") {
			owner := &unstructured.Unstructured{}
			owner.SetGroupVersionKind(gvk)
			return owner, p.client.Get(ctx, client.ObjectKey{Namespace: u.GetNamespace(), Name: ref.Name}, owner)
		}
	}
	return nil, nil
}

// merge changes an object unless it has changed since it was seen, or is so already.
func (p providers) merge(ctx context.Context, u *unstructured.Unstructured, change map[string]any, subresource ...string) error {
	data, err := asSeen(u, change)
	if err != nil {
		return err
	}
	patch := client.RawPatch(types.MergePatchType, data)
	if len(subresource) > 0 {
		return p.client.SubResource(subresource[0]).Patch(ctx, u, patch)
	}
	return p.client.Patch(ctx, u, patch)
}

// secret makes one that goes with its owner.
func (p providers) secret(ctx context.Context, owner *unstructured.Unstructured, name string, data map[string][]byte) error {
	err := p.client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: owner.GetNamespace(), Name: name, Labels: map[string]string{clusterNameLabel: owner.GetName()},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID(), Controller: ptr.To(true)}},
		},
		Type: "cluster.x-k8s.io/secret", Data: data,
	})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// credentials are the authorities of a cluster, of which the machines in memory take that of etcd, too, and its kubeconfig.
func (p providers) credentials(ctx context.Context, u *unstructured.Unstructured, server string) error {
	certificate, key := authority().certificate, authority().key
	config := clientcmdapi.NewConfig()
	config.Clusters["talos"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: certificate}
	config.AuthInfos["admin"] = &clientcmdapi.AuthInfo{ClientCertificateData: certificate, ClientKeyData: key}
	config.Contexts["admin@talos"] = &clientcmdapi.Context{Cluster: "talos", AuthInfo: "admin"}
	config.CurrentContext = "admin@talos"
	kubeconfig, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	pair := map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key}
	for name, data := range map[string]map[string][]byte{"-ca": pair, "-etcd": pair, "-kubeconfig": {capi.KubeconfigKey: kubeconfig}} {
		if err := p.secret(ctx, u, u.GetName()+name, data); err != nil {
			return err
		}
	}
	return nil
}

// authority is that of all clusters.
var authority = sync.OnceValue(func() keyPair { return newAuthority("talos") })

// paused says whether nothing is to be done for a Cluster.
func paused(cluster *unstructured.Unstructured) bool {
	_, annotated := cluster.GetAnnotations()[pausedAnnotation]
	return annotated || boolean(cluster, "spec", "paused")
}

func boolean(u *unstructured.Unstructured, path ...string) bool {
	b, _, _ := unstructured.NestedBool(u.Object, path...)
	return b
}
