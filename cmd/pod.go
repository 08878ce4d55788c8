package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

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
	err := retry.OnError(retry.DefaultBackoff, func(err error) bool {
		return !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) && ctx.Err() == nil
	}, func() error {
		return c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, pod)
	})
	if err != nil { // plans say what is missing, but for the node
		log.FromContext(ctx).Info("The manager's own pod is not known, nor its node, which a plan may put to sleep", "pod", namespace+"/"+name, "problem", err.Error())
		return
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
