package workloadscaler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/labkeeper/labkeeper/internal/dispatch"
	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/restore"
)

// Await is how long pods may take.
func (t *target) Await() time.Duration { return t.await }

// Settled says whether the pods of a workload are gone, or ready: all of them, or when their time is over as many as were.
func (t *target) Settled(ctx context.Context, resource restore.Resource, late bool) (string, error) {
	before, err := decodeState(resource.Key, resource.Before)
	if err != nil || resource.State == restore.Left || t.outside(before.part) {
		return "", err
	}
	now, err := t.read(ctx, before.part)
	if err != nil || !now.there() {
		return t.another(before.part, resource.Slept, now), err
	}
	switch {
	case t.session.Operation == dispatch.Shutdown:
		return t.sleeps(ctx, before, now, late)
	case !before.of().scaled:
		return "", nil
	}
	had := wanted(before.part)
	if late && before.Ready != nil {
		had = min(had, *before.Ready)
	}
	return ready(now, had), nil
}

// sleeps says what of a workload is awake, or may yet be woken, and which pods it has.
func (t *target) sleeps(ctx context.Context, before *state, now live, late bool) (string, error) {
	if woken, err := t.woken(ctx, before, now); err != nil || woken != "" {
		return woken, err
	}
	if watched := t.watch.Look(before.key(), now.object); watched != "" && !late {
		return watched, nil
	}
	if !before.of().scaled {
		return "", nil
	}
	if left := gone(now); left != "" || before.of().gvr != rollouts.gvr {
		return left, nil
	}
	return t.ending(ctx, now.object)
}

// another says that a workload that was put to sleep was deleted and created again, and is awake. (One that was so before that the
// next attempt puts to sleep.)
func (t *target) another(p part, slept json.RawMessage, now live) string {
	f := p.of().field
	if t.session.Operation != dispatch.Shutdown || !now.other || f.isAsleep(now.value) || bytes.Equal(slept, executor.Gone) {
		return ""
	}
	return fmt.Sprintf("it was deleted and created again: %s is %s", strings.Join(f.path, "."), said(now.value))
}

// woken says what of a workload is not asleep any more: itself, or an autoscaler, which would wake it. It is an error,
// *executor.WokenError, where Argo CD has woken it.
func (t *target) woken(ctx context.Context, before *state, now live) (string, error) {
	if woken, err := t.again(before.part, now); err != nil || woken != "" {
		return woken, err
	}
	for _, scaler := range before.Autoscalers {
		now, err := t.read(ctx, scaler)
		if err != nil {
			return "", err
		}
		woken, err := t.again(scaler, now)
		if told, is := errors.AsType[*executor.WokenError](err); is {
			told.Problem = fmt.Sprintf("%s: %s", scaler, told.Problem)
		}
		if err != nil || woken != "" {
			return fmt.Sprintf("%s: %s", scaler, woken), err
		}
	}
	return "", nil
}

// gone says which pods a workload of 0 replicas still has.
func gone(now live) string {
	if now.at == now.object && !observed(now.object) {
		return "its controller has not seen it yet"
	}
	left := pods(count(now.at, "replicas") + count(now.object, "terminatingReplicas"))
	if left == "" {
		return ""
	}
	return left + stepped(now.object)
}

// ending says which pods of a Rollout of 0 replicas are about to end: its status does not tell, and that of its ReplicaSets does. Who may not
// list those is not told, nor where it names none, as with a workloadRef: they would be all of the namespace.
func (t *target) ending(ctx context.Context, rollout *unstructured.Unstructured) (string, error) {
	var selector metav1.LabelSelector
	of, named, _ := unstructured.NestedMap(rollout.Object, "spec", "selector")
	if !named {
		return "", nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(of, &selector); err != nil {
		return "", fmt.Errorf("reading spec.selector of %s: %w", rollout.GetName(), err)
	}
	text, err := executor.Selector("spec.selector", &selector)
	if err != nil {
		return "", err
	}
	sets, err := t.listOf(ctx, replicaSets, rollout.GetNamespace(), text)
	if apierrors.IsForbidden(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var left int64
	for i := range sets {
		if metav1.IsControlledBy(&sets[i], rollout) {
			left += count(&sets[i], "terminatingReplicas")
		}
	}
	return pods(left), nil
}

// pods says how many are left, empty for none.
func pods(left int64) string {
	if left == 0 {
		return ""
	}
	return fmt.Sprintf("%d pods are left", left)
}

// stepped says that a Rollout is at a step whose pods stay whatever replicas are; empty if it is not. It is the last
// setCanaryScale up to now, which counts with trafficRouting alone, and not after setCanaryScale has matched the traffic.
func stepped(object *unstructured.Unstructured) string {
	_, routed, _ := unstructured.NestedMap(object.Object, "spec", "strategy", "canary", "trafficRouting")
	steps, _ := begun(object)
	if !routed {
		return ""
	}
	for _, step := range slices.Backward(steps) {
		scale, found, _ := unstructured.NestedMap(map[string]any{"step": step}, "step", "setCanaryScale")
		if replicas, _, _ := unstructured.NestedInt64(scale, "replicas"); found && replicas > 0 {
			return ", which its step setCanaryScale keeps; promote the Rollout or abort it, or exclude it"
		}
		if found {
			break
		}
	}
	return ""
}

// begun are the steps of the canary of a Rollout up to the one that it is at; none if it is at none. told is false where it does not say
// at which.
func begun(object *unstructured.Unstructured) (steps []any, told bool) {
	steps, _, _ = unstructured.NestedSlice(object.Object, "spec", "strategy", "canary", "steps")
	aborted, _, _ := unstructured.NestedBool(object.Object, "status", "abort")
	at, told, _ := unstructured.NestedInt64(object.Object, "status", "currentStepIndex")
	if aborted || at < 0 || at >= int64(len(steps)) { // others write the status
		return nil, told
	}
	return steps[:at+1], told
}

// ready says how many pods are not ready of those that a workload had. Those that an autoscaler has taken since are not
// missing.
func ready(now live, had int64) string {
	n := had
	if spec, ok := now.value.(int64); ok {
		n = min(n, spec)
	}
	if n == 0 {
		return ""
	}
	if !observed(now.object) {
		return "its controller has not seen it yet"
	}
	are, said := readyOf(now.object, now.at)
	if are >= n {
		return ""
	}
	return fmt.Sprintf("%d of %d pods are %s", are, n, said)
}

// readyOf is how many pods of an object are ready, by its status, or by its scale where that does not say.
func readyOf(object, at *unstructured.Unstructured) (n int64, said string) {
	if _, has, _ := unstructured.NestedFieldNoCopy(object.Object, "status", "readyReplicas"); !has && at != object {
		return count(at, "replicas"), "there"
	}
	return count(object, "readyReplicas"), "ready"
}

// count is a number of the status; 0 where there is none.
func count(object *unstructured.Unstructured, name string) int64 {
	n, _, _ := unstructured.NestedInt64(object.Object, "status", name)
	return n
}

// observed says whether the status speaks of the spec as it is. A kind that does not say is believed; a Rollout says
// it as a string.
func observed(object *unstructured.Unstructured) bool {
	value, has, _ := unstructured.NestedFieldNoCopy(object.Object, "status", "observedGeneration")
	if !has {
		return object.GroupVersionKind().Group != deployments.gvr.Group && object.GroupVersionKind().Group != rollouts.gvr.Group
	}
	n, err := strconv.ParseInt(fmt.Sprint(value), 10, 64)
	return err == nil && n >= object.GetGeneration()
}

var (
	_ executor.Target  = (*target)(nil)
	_ executor.Renewer = (*target)(nil)
)
