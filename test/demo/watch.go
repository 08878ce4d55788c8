package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

const (
	// table is what the user would type; the full name because Argo Rollouts has Experiments too.
	table = "experiments.experiments.illm.io"
	// settled is how long nothing changes before a faulty run counts as stuck. It is more than
	// the longest single step of an outside.
	settled = 8 * time.Second
	// lastRow is the time that kubectl has to print the last change.
	lastRow  = 500 * time.Millisecond
	complete = "Complete"
)

var experiments = schema.GroupVersionResource{Group: "experiments.illm.io", Version: "v1alpha1", Resource: "experiments"}

// watch shows the table until all Experiments are Complete, and returns an error if they do not get
// there.
func (d *demo) watch(ctx context.Context) error {
	fmt.Printf("\n$ kubectl get %s --namespace default --watch\n", table)
	stopTable, err := d.showTable(ctx)
	if err != nil {
		return err
	}
	err = d.awaitComplete(ctx)
	if ctx.Err() == nil {
		time.Sleep(lastRow)
	}
	stopTable()
	fmt.Println()
	if err != nil && ctx.Err() == nil && d.manager.running() {
		return errors.Join(err, d.explain(ctx))
	}
	if err == nil {
		say("every Experiment is %s", complete)
	}
	return err
}

// showTable lets kubectl print the table, so that it is exactly what a user sees.
func (d *demo) showTable(ctx context.Context) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	command := d.kubectl(ctx, "get", table, "--namespace=default", "--watch")
	if err := command.Start(); err != nil {
		cancel()
		return nil, fmt.Errorf("starting kubectl: %w", err)
	}
	return func() {
		cancel()
		_ = command.Wait() // it was killed
	}, nil
}

// kubectl is a kubectl command whose output is the demo's.
func (d *demo) kubectl(ctx context.Context, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, d.cp.Kubectl(), append([]string{"--kubeconfig=" + d.cp.Kubeconfig()}, args...)...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	return command
}

// awaitComplete waits until all Experiments are Complete. It gives up at the timeout; where a fault was
// asked for, already when nothing changes any more; and at once when the operator ends.
func (d *demo) awaitComplete(ctx context.Context) error {
	timeout := time.After(d.timeout)
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	var versions map[string]string
	changed := time.Now()
	for {
		list, err := d.list(ctx)
		if err != nil {
			return err
		}
		if len(list) > 0 && len(incomplete(list)) == 0 {
			return nil
		}
		if now := resourceVersions(list); !maps.Equal(now, versions) {
			versions, changed = now, time.Now()
		}
		if d.fault != "" && time.Since(changed) > settled {
			return fmt.Errorf("waiting for the samples: nothing has changed for %v, as is to be expected of the fault %q", settled, d.fault)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-d.manager.Exited():
			return d.manager.death()
		case <-timeout:
			return fmt.Errorf("waiting for the samples: not all are %s after %v", complete, d.timeout)
		case <-tick.C:
		}
	}
}

// list returns all Experiments.
func (d *demo) list(ctx context.Context) ([]unstructured.Unstructured, error) {
	client, err := dynamic.NewForConfig(d.cp.Config())
	if err != nil {
		return nil, fmt.Errorf("creating client: %w", err)
	}
	list, err := client.Resource(experiments).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing Experiments: %w", err)
	}
	return list.Items, nil
}

// incomplete returns the Experiments that are not Complete.
func incomplete(list []unstructured.Unstructured) []unstructured.Unstructured {
	var left []unstructured.Unstructured
	for _, experiment := range list {
		if phase(experiment) != complete {
			left = append(left, experiment)
		}
	}
	return left
}

func phase(experiment unstructured.Unstructured) string {
	phase, _, _ := unstructured.NestedString(experiment.Object, "status", "phase")
	return phase
}

func resourceVersions(list []unstructured.Unstructured) map[string]string {
	versions := make(map[string]string, len(list))
	for _, experiment := range list {
		versions[string(experiment.GetUID())] = experiment.GetResourceVersion()
	}
	return versions
}

// explain shows the Experiments that are not Complete as a user would look at them, and returns in one
// line each what the operator says of them.
func (d *demo) explain(ctx context.Context) error {
	list, err := d.list(ctx)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return errors.New("there is no Experiment among the samples")
	}
	fmt.Printf("$ kubectl get %s --namespace default -o wide\n", table)
	if err := d.kubectl(ctx, "get", table, "--namespace=default", "-o=wide").Run(); err != nil {
		return fmt.Errorf("running kubectl get: %w", err)
	}
	var errs []error
	for _, experiment := range incomplete(list) {
		name, namespace := experiment.GetName(), experiment.GetNamespace()
		fmt.Printf("\n$ kubectl describe %s --namespace %s %s\n", table, namespace, name)
		if err := d.kubectl(ctx, "describe", table, "--namespace="+namespace, name).Run(); err != nil {
			return fmt.Errorf("running kubectl describe: %w", err)
		}
		errs = append(errs, fmt.Errorf("%s %s/%s is %s, not %s: %s",
			experiment.GetKind(), namespace, name, or(phase(experiment), "without a phase"), complete, ready(experiment)))
	}
	fmt.Println()
	return errors.Join(errs...)
}

// ready is what the Ready condition says.
func ready(experiment unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(experiment.Object, "status", "conditions")
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		if condition["type"] == "Ready" {
			said := fmt.Sprintf("Ready=%v %v: %v", condition["status"], condition["reason"], condition["message"])
			return strings.TrimSpace(said)
		}
	}
	return "it has no Ready condition"
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
