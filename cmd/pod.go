package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/internal/controller/hibernateplan"
)

// findPod fills in what the manager's own pod, of that namespace and name, says: the node that it is on, and where flags do not say
// it the image of Jobs and what it is pulled with. That cannot be told outside of a cluster, or where the name of its pod is not that
// of its host.
func findPod(ctx context.Context, c client.Reader, namespace, name string, o *hibernateplan.Options) {
	if namespace == "" || name == "" {
		return
	}
	pod := &corev1.Pod{}
	if err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, pod); err != nil {
		return // plans say what is missing
	}
	o.Node = pod.Spec.NodeName
	if len(o.PullSecrets) == 0 && o.Namespace == namespace {
		for _, secret := range pod.Spec.ImagePullSecrets {
			o.PullSecrets = append(o.PullSecrets, secret.Name)
		}
	}
	for _, container := range pod.Spec.Containers {
		if o.Image == "" && (container.Name == "manager" || len(pod.Spec.Containers) == 1) {
			o.Image = container.Image
		}
	}
}
