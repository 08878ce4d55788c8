package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/labkeeper/labkeeper/internal/executor/executors"
	"github.com/labkeeper/labkeeper/internal/runner"
)

// runRunner is "manager runner": it carries out one operation on one target. It returns the exit code: 0 completed, 1
// not completed, 2 mistaken flags.
func runRunner(ctx context.Context, args []string, getenv func(string) string, out, errs io.Writer) int {
	task, err := runner.ParseTask(args, getenv)
	if errors.Is(err, flag.ErrHelp) {
		runner.Usage(out)
		return 0
	}
	if err != nil {
		fmt.Fprintf(errs, "manager runner: %v; manager runner --help lists the flags\n", err)
		return 2
	}
	logger := zap.New(zap.WriteTo(errs))
	ctrl.SetLogger(logger)
	result := carryOut(log.IntoContext(ctx, logger), task)
	path := cmp.Or(getenv(runner.EnvTerminationMessage), runner.TerminationMessage)
	if err := result.WriteTerminationMessage(path); err != nil {
		logger.Error(err, "The result is only in the ConfigMap") // whoever reads that one knows the same
	}
	if !result.Completed {
		return 1
	}
	return 0
}

// carryOut runs the task with what reaches the clusters.
func carryOut(ctx context.Context, task runner.Task) runner.Result {
	hub, err := ctrl.GetConfig()
	if err != nil {
		return runner.Refused(task, clock.RealClock{}, fmt.Errorf("finding the cluster: %w (outside of a cluster set KUBECONFIG)", err))
	}
	core, err := corev1client.NewForConfig(hub)
	if err != nil {
		return runner.Refused(task, clock.RealClock{}, fmt.Errorf("building the client: %w", err))
	}
	namespace, name, _ := strings.Cut(task.RestorePoint, "/")
	identify := runner.OwnCluster
	if task.Kubeconfig != "" {
		identify = runner.ClusterID
	}
	return runner.Run(ctx, task, runner.Deps{
		Identify:  identify,
		Store:     runner.NewConfigMapStore(core.ConfigMaps(namespace), name, task.Execution),
		Executors: executors.All(),
		Config: func() (*rest.Config, error) {
			target := rest.CopyConfig(hub)
			if task.Kubeconfig != "" {
				var err error
				if target, err = runner.TargetConfig(task.Kubeconfig); err != nil {
					return nil, err
				}
			}
			target.QPS = -1 // API Priority and Fairness bounds us better than a client can
			return target, nil
		},
		Clock: clock.RealClock{},
	})
}
