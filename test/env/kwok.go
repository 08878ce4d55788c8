package env

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"time"
)

// managedByKwok is the label of the nodes that kwok plays; other nodes stay as they are.
const managedByKwok = "labkeeper.dev/kwok=true"

// StartKwok starts kwok with these files of Stage objects and returns when it plays them. The CRDs
// of all kinds in them must be installed before: kwok gives up on a kind it does not find.
func (cp *ControlPlane) StartKwok(ctx context.Context, stageFiles ...string) (stop func() error, err error) {
	if len(stageFiles) == 0 {
		return nil, errors.New("starting kwok: no stage files")
	}
	path, err := cp.optionalBinary(kwokName)
	if err != nil {
		return nil, err
	}
	var p *Process
	err = retryPorts(func() error {
		p, err = cp.runKwok(ctx, path, stageFiles)
		return err
	})
	if err != nil {
		return nil, err
	}
	return p.Stop, nil
}

// runKwok starts kwok on a free port and waits until it is healthy there.
func (cp *ControlPlane) runKwok(ctx context.Context, path string, stageFiles []string) (*Process, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	args := []string{
		"--kubeconfig=" + cp.kubeconfigPath(kwokUser),
		"--manage-nodes-with-label-selector=" + managedByKwok,
		"--node-lease-duration-seconds=40",
		"--server-address=" + port.String(),
		"--v=" + strconv.Itoa(-cp.options.Verbose), // slog levels: lower says more
	}
	for _, file := range stageFiles {
		file, err := filepath.Abs(file)
		if err != nil {
			return nil, err
		}
		args = append(args, "--config="+file)
	}
	p, err := cp.StartProcess(kwokName, path, args...)
	if err != nil {
		return nil, err
	}
	// kwok serves its health only after the controllers of all kinds have started.
	return p, cp.await(ctx, p, func(ctx context.Context) (bool, error) { return healthy(ctx, port) })
}

// healthy says whether the health endpoint there answers.
func healthy(ctx context.Context, e endpoint) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return Answers(ctx, "http://"+e.String()+"/healthz"), nil
}
