package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/labkeeper/labkeeper/test/runners"
)

// plans are the HibernatePlans, and dozers the kinds that those of the samples put to sleep.
const (
	plans  = "hibernateplans"
	dozers = "deployments,statefulsets,cronjobs"
	office = "hours=office"
)

// startRunners lets the pods of HibernatePlans' Jobs run for real, as the manager's binary.
func (d *demo) startRunners(ctx context.Context) (stop func(), err error) {
	kubelet, err := runners.Start(ctx, runners.Options{Config: d.cp.Config(), Namespace: managerNamespace, Binary: d.options.manager, Dir: d.cp.Dir()})
	if err != nil {
		return nil, err
	}
	return kubelet.Stop, nil
}

// night puts what the HibernatePlans of the samples are of to sleep and wakes it, and is an error unless it is as it was.
func (d *demo) night(ctx context.Context) error {
	list, err := d.output(ctx, "get", plans, "--namespace=default", "--output=name")
	if err != nil || strings.TrimSpace(list) == "" {
		return err
	}
	names := strings.Fields(list)
	if err := d.override(ctx, names, "Awake", "Active"); err != nil { // it may be night where the samples are
		return err
	}
	before, err := d.specs(ctx)
	if err != nil {
		return err
	}
	for _, step := range []struct{ state, phase string }{{"Hibernated", "Hibernated"}, {"Awake", "Active"}} {
		if err := d.override(ctx, names, step.state, step.phase); err != nil {
			return err
		}
		for _, args := range [][]string{{"get", plans, "--namespace=default"}, {"get", dozers, "--namespace=default", "--selector=" + office}} {
			fmt.Printf("\n$ kubectl %s\n", strings.Join(args, " "))
			if err := d.kubectl(ctx, args...).Run(); err != nil {
				return fmt.Errorf("running kubectl get: %w", err)
			}
		}
	}
	after, err := d.specs(ctx)
	if err != nil {
		return err
	}
	if before != after {
		return fmt.Errorf("waking up: it is not as it was: before %s, after %s", before, after)
	}
	say("everything is as it was")
	return nil
}

// override tells the HibernatePlans what to be, whatever the time, and waits until they are.
func (d *demo) override(ctx context.Context, names []string, state, phase string) error {
	patch := fmt.Sprintf(`{"spec": {"override": {"state": %q}}}`, state)
	fmt.Printf("\n$ kubectl patch hplan --namespace default night --type merge --patch '%s'\n", patch)
	for _, name := range names {
		if _, err := d.output(ctx, "patch", name, "--namespace=default", "--type=merge", "--patch="+patch); err != nil {
			return err
		}
	}
	if err := d.awaitPhase(ctx, phase); err != nil {
		return err
	}
	say("HibernatePlans are %s", phase)
	return nil
}

// specs are those of what sleeps.
func (d *demo) specs(ctx context.Context) (string, error) {
	return d.output(ctx, "get", dozers, "--namespace=default", "--selector="+office, `--output=jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.annotations} {.spec}{"\n"}{end}`)
}

// awaitPhase waits until every HibernatePlan says so, which takes a moment after it was told.
func (d *demo) awaitPhase(ctx context.Context, phase string) error {
	timeout := time.After(d.timeout)
	for {
		phases, err := d.output(ctx, "get", plans, "--namespace=default", "--output=jsonpath={range .items[*]}{.status.phase}={.metadata.generation}={.status.observedGeneration} {end}")
		if err != nil {
			return err
		}
		all := true
		for is := range strings.FieldsSeq(phases) {
			parts := strings.Split(is, "=")
			all = all && parts[0] == phase && parts[1] == parts[2]
		}
		if all {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-d.manager.Exited():
			return d.manager.death()
		case <-timeout:
			_ = d.kubectl(context.WithoutCancel(ctx), "describe", plans, "--namespace=default").Run() // it says why, if it can
			return fmt.Errorf("waiting %s for the HibernatePlans to be %s: they are not", d.timeout, phase)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// output is what a kubectl command prints.
func (d *demo) output(ctx context.Context, args ...string) (string, error) {
	command := d.kubectl(ctx, args...)
	command.Stdout = nil
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("running kubectl %s: %w", args[0], err)
	}
	return string(out), nil
}
