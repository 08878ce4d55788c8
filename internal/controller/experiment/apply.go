package experiment

import (
	"context"
	"fmt"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/argoworkflows"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// apply carries the plan out, in its order, up to the first write that fails.
func (s *scope) apply(ctx context.Context) error {
	if s.plan.Expire {
		return s.expire(ctx)
	}
	for _, w := range s.plan.Writes {
		if err := s.write(ctx, w); err != nil {
			return at(w.Condition, err)
		}
	}
	return nil
}

func (s *scope) write(ctx context.Context, w Write) error {
	writer := kube.Writer{Client: s.Client, Live: s.Live, Marks: marks, Owner: s.experiment}
	if w.Object.GroupVersionKind() == argocd.SecretGVK {
		writer.Client = s.Live // one write through the cached client would watch every Secret
	}
	log := log.FromContext(ctx).WithValues("child", kube.Describe(w.Object))
	if w.Action == Delete {
		log.Info("Deleting child")
		return writer.Delete(ctx, w.Object)
	}
	if w.Known {
		log.Info("Applying child")
		_, err := writer.Apply(ctx, w.Object)
		return err
	}
	log.Info("Creating child")
	written, err := writer.Ensure(ctx, w.Object)
	if err != nil {
		return err
	}
	if written.GroupVersionKind() == argoworkflows.WorkflowGVK {
		s.plan.Workflow.UID = string(written.GetUID())
	}
	return nil
}

// expire deletes the Experiment that was looked at, and no other version of it: one whose
// time to live has been extended meanwhile stays.
func (s *scope) expire(ctx context.Context) error {
	log.FromContext(ctx).Info("Deleting expired Experiment")
	err := s.Client.Delete(ctx, s.experiment.DeepCopy(), client.Preconditions{
		UID:             ptr.To(s.experiment.GetUID()),
		ResourceVersion: ptr.To(s.experiment.GetResourceVersion()),
	})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting expired Experiment: %w", err)
	}
	return nil
}
