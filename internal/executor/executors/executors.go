// Package executors is the executors that there are.
package executors

import (
	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/executor/karpenter"
	"github.com/labkeeper/labkeeper/internal/executor/noop"
	"github.com/labkeeper/labkeeper/internal/executor/workloadscaler"
)

// All is every executor by the type of its targets.
func All() executor.Registry {
	return executor.Registry{
		karpenter.Type:      karpenter.Executor{},
		noop.Type:           noop.Executor{},
		workloadscaler.Type: workloadscaler.Executor{},
	}
}
