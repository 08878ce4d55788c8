package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
)

const (
	// table is what the user would type; the full name because Argo Rollouts has Experiments too.
	table = "experiments.experiments.illm.io"
	// twins are shown when all is done.
	twins = "experimentdeployments"
	// settled is how long nothing changes before a faulty run counts as stuck. It is more than
	// the longest single step of an outside.
	settled = 8 * time.Second
	// lastRow is the time that kubectl has to print the last change.
	lastRow  = 500 * time.Millisecond
	complete = "Complete"
)

// kind is one that samples are of.
type kind struct {
	resource schema.GroupVersionResource
	// name of it for kubectl.
	name string
	// needed: samples without one show nothing.
	needed bool
	// done says whether an object has come to where it should, and is in how far it has come in words.
	done func(unstructured.Unstructured) bool
	is   func(unstructured.Unstructured) string
}

var kinds = []kind{{
	resource: schema.GroupVersionResource{Group: "experiments.illm.io", Version: "v1alpha1", Resource: "experiments"}, name: table, needed: true,
	done: func(o unstructured.Unstructured) bool { return phase(o) == complete },
	is: func(o unstructured.Unstructured) string {
		return cmp.Or(phase(o), "without a phase") + ", not " + complete
	},
}, {
	resource: schema.GroupVersionResource{Group: "experimentcontroller.example.com", Version: "v1alpha1", Resource: twins}, name: twins,
	done: func(o unstructured.Unstructured) bool { return condition(o, "Ready")["status"] == "True" },
	is:   func(unstructured.Unstructured) string { return "not ready" },
}}

// watch shows the table until all Experiments are Complete, and returns an error if they, or the twins, do not get
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
	if err != nil {
		return err
	}
	say("every Experiment is %s, and every twin ready", complete)
	fmt.Printf("\n$ kubectl get %s --namespace default\n", twins)
	return d.kubectl(ctx, "get", twins, "--namespace=default").Run()
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

// awaitComplete waits until all Experiments are Complete, and the twins ready. It gives up at the timeout; where a
// fault was asked for, already when nothing changes any more; and at once when the operator ends.
func (d *demo) awaitComplete(ctx context.Context) error {
	timeout := time.After(d.timeout)
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	var versions map[string]string
	changed := time.Now()
	for {
		all, now, err := d.look(ctx)
		if err != nil || all {
			return err
		}
		if !maps.Equal(now, versions) {
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

// look says whether all objects are where they should be, and their versions, and gives the verdicts that are asked for.
func (d *demo) look(ctx context.Context) (all bool, versions map[string]string, err error) {
	all, versions = true, map[string]string{}
	for _, k := range kinds {
		list, err := d.list(ctx, k)
		if err != nil {
			return false, nil, err
		}
		if err := d.judge(ctx, list); err != nil {
			return false, nil, err
		}
		all = all && (len(list) > 0 || !k.needed) && !slices.ContainsFunc(list, k.lacks)
		maps.Copy(versions, resourceVersions(list))
	}
	return all, versions, nil
}

// asks says whether an Experiment waits for the verdict of a person, who is played by the demo.
func asks(o unstructured.Unstructured) bool {
	mode, _, _ := unstructured.NestedString(o.Object, "spec", "workflow", "completion", "mode")
	_, given := o.GetAnnotations()[v1alpha1.AnnotationComplete]
	return mode == "manual" && phase(o) == "Running" && !given
}

// judge gives the verdict on those that ask for it.
func (d *demo) judge(ctx context.Context, list []unstructured.Unstructured) error {
	for _, o := range list {
		if !asks(o) {
			continue
		}
		args := []string{"annotate", table, "--namespace=" + o.GetNamespace(), o.GetName(), v1alpha1.AnnotationComplete + "=Succeeded"}
		fmt.Printf("$ kubectl %s\n", strings.Join(args, " "))
		if err := d.kubectl(ctx, args...).Run(); err != nil {
			return fmt.Errorf("running kubectl annotate: %w", err)
		}
	}
	return nil
}

// list returns all objects of a kind.
func (d *demo) list(ctx context.Context, of kind) ([]unstructured.Unstructured, error) {
	client, err := dynamic.NewForConfig(d.cp.Config())
	if err != nil {
		return nil, fmt.Errorf("creating client: %w", err)
	}
	list, err := client.Resource(of.resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", of.name, err)
	}
	return list.Items, nil
}

// lacks says whether an object has not come to where it should.
func (k kind) lacks(o unstructured.Unstructured) bool { return !k.done(o) }

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

// explain shows what has not come to where it should as a user would look at it, and returns in one
// line each what the operator says of it.
func (d *demo) explain(ctx context.Context) error {
	var errs []error
	for _, k := range kinds {
		list, err := d.list(ctx, k)
		if err != nil {
			return err
		}
		switch {
		case len(list) == 0 && k.needed:
			return fmt.Errorf("there is none of %s among the samples", k.name)
		case len(list) == 0:
			continue
		}
		fmt.Printf("$ kubectl get %s --namespace default -o wide\n", k.name)
		if err := d.kubectl(ctx, "get", k.name, "--namespace=default", "-o=wide").Run(); err != nil {
			return fmt.Errorf("running kubectl get: %w", err)
		}
		for _, o := range slices.DeleteFunc(list, k.done) {
			name, namespace := o.GetName(), o.GetNamespace()
			fmt.Printf("\n$ kubectl describe %s --namespace %s %s\n", k.name, namespace, name)
			if err := d.kubectl(ctx, "describe", k.name, "--namespace="+namespace, name).Run(); err != nil {
				return fmt.Errorf("running kubectl describe: %w", err)
			}
			errs = append(errs, fmt.Errorf("%s %s/%s is %s: %s", o.GetKind(), namespace, name, k.is(o), ready(o)))
		}
	}
	fmt.Println()
	return errors.Join(errs...)
}

// ready is what the Ready condition says.
func ready(o unstructured.Unstructured) string {
	c := condition(o, "Ready")
	if c == nil {
		return "it has no Ready condition"
	}
	return strings.TrimSpace(fmt.Sprintf("Ready=%v %v: %v", c["status"], c["reason"], c["message"]))
}

// condition is one of an object's; nil if it does not have it.
func condition(o unstructured.Unstructured, conditionType string) map[string]any {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if condition, _ := c.(map[string]any); condition["type"] == conditionType {
			return condition
		}
	}
	return nil
}
