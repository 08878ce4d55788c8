package main

import (
	"context"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ownImage is the image that the manager itself runs; empty where that cannot be told: outside of a cluster, or where
// the name of its pod is not that of its host.
func ownImage(ctx context.Context, c client.Reader) string {
	namespace, name := ownNamespace(), os.Getenv("HOSTNAME")
	if namespace == "" || name == "" {
		return ""
	}
	pod := &corev1.Pod{}
	if err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, pod); err != nil {
		return "" // plans say what is missing
	}
	for _, container := range pod.Spec.Containers {
		if container.Name == "manager" || len(pod.Spec.Containers) == 1 {
			return container.Image
		}
	}
	return ""
}
