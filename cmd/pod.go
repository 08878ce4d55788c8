package main

import (
	"cmp"
	"context"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/labkeeper/labkeeper/internal/controller"
	"github.com/labkeeper/labkeeper/internal/controller/hibernateplan"
)

// findOwnPod is findPod, where plans need it, of the pod that config/manager names, or else that is called as its host is.
func findOwnPod(ctx context.Context, c client.Reader, o *options) error {
	if !o.Runs(controller.HibernatePlans) {
		return nil
	}
	return findPod(ctx, c, ownNamespace(), cmp.Or(os.Getenv("POD_NAME"), os.Getenv("HOSTNAME")), &o.Hibernation)
}

// findPod fills in what the manager's own pod, of that namespace and name, says: that it is in this cluster, and on which node, and where
// flags do not say it the image of Jobs and what it is pulled with. That cannot be told outside of a cluster, or where the name is not
// that of a pod.
// A server that cannot tell is an error: without an image, nothing that sleeps would wake as long as this manager leads.
func findPod(ctx context.Context, c client.Reader, namespace, name string, o *hibernateplan.Options) error {
	if namespace == "" || name == "" {
		return nil
	}
	pod := &corev1.Pod{}
	err := insist(ctx, c, types.NamespacedName{Namespace: namespace, Name: name}, pod)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err): // plans say what is missing, but for the node
		log.FromContext(ctx).Info("The manager's own pod is not known, nor its node, which a plan may put to sleep", "pod", namespace+"/"+name, "problem", err.Error())
		return nil
	case err != nil:
		return fmt.Errorf("looking for the manager's own pod %s/%s: %w", namespace, name, err)
	}
	o.Node, o.Own = pod.Spec.NodeName, namespace
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
	return nil
}
