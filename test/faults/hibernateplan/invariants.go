package hibernateplan

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/restore"
	"github.com/labkeeper/labkeeper/internal/runner"
	"github.com/labkeeper/labkeeper/test/faults"
	"github.com/labkeeper/labkeeper/test/runners"
)

// What must hold whatever happens.
const (
	// kept: what sleeps can be woken.
	kept = "what sleeps has a restore point with its value"
	// once: its value is not captured again.
	once = "one Job at a time acts on a target, by the fence"
	// guarded: nobody can take away what it is woken by.
	guarded = "the restore point of what sleeps has its finalizer"
	// alone: of a Job that somebody has deleted a runner may still act.
	alone = "no Job comes while a pod of its target is there"
	// recorded: the ledger comes first.
	recorded  = "a Job comes when it is recorded, and goes when its outcome is"
	released  = "a restore point goes when it is recorded that its target is awake"
	withPoint = "what has reached a cluster goes before the restore point that it is kept beside"
	usedLast  = "what is used by others sleeps after them, and wakes before them"
	onward    = "a ledger does not go back"
	// inTime: no plan of a workload asks for another time.
	inTime = "a Job has half an hour, of which its runner leaves the end"
	// tidied: while what is left is tried to be cleared away, the cycle may turn, which goes by its revision.
	tidied = "the revision of a cycle goes after what there is of targets that were taken out"
	// nothingLeft: of a cycle that is over nothing stays.
	nothingLeft = "an attempt that is over and recorded as cleared has left nothing"
)

var invariants = map[string]func([]faults.Entry) string{
	kept: func(history []faults.Entry) string {
		last := history[len(history)-1]
		if !isThing(last.Object) && !isPoint(last.Object) {
			return ""
		}
		state := faults.StateOf(history)
		for _, u := range state.Of("ConfigMap") {
			if isThing(u) && target(u) == target(last.Object) && asleep(u) && value(state, u) == "" {
				return "that of target " + target(u) + " is gone"
			}
		}
		return ""
	},
	once: func(history []faults.Entry) string {
		last := history[len(history)-1]
		if last.Verb != watch.Added || last.Object.GetKind() != "Job" {
			return ""
		}
		state, of := ownedAs(last.Object, faults.StateOf(history)), target(last.Object)
		for _, u := range state.Of("Job") {
			if target(u) == of && u.GetUID() != last.Object.GetUID() && !ended(jobOf(u)) {
				return "there are two of target " + of
			}
		}
		if points := pointsOf(state, last.Object); len(points) != 1 || points[0].Annotations[runner.AnnotationExecution] != last.Object.GetName() {
			return "the restore point of target " + of + " is not that of its Job"
		}
		return ""
	},
	guarded: func(history []faults.Entry) string {
		last := history[len(history)-1]
		if !isThing(last.Object) && !isPoint(last.Object) {
			return ""
		}
		state := faults.StateOf(history)
		for _, u := range state.Of("ConfigMap") {
			if !isThing(u) || target(u) != target(last.Object) || !asleep(u) {
				continue
			}
			for _, c := range pointsOf(state, u) {
				if valueIn(c) != "" && !slices.Contains(c.Finalizers, v1alpha1.FinalizerRestorePoint) {
					return "that of target " + target(u) + " has none"
				}
			}
		}
		return ""
	},
	alone: func(history []faults.Entry) string {
		last := history[len(history)-1]
		if last.Verb != watch.Added || last.Object.GetKind() != "Job" {
			return ""
		}
		for _, u := range ownedAs(last.Object, faults.StateOf(history)).Of("Pod") {
			if target(u) == target(last.Object) {
				return "there is one of target " + target(u)
			}
		}
		return ""
	},
	recorded: func(history []faults.Entry) string {
		last := history[len(history)-1]
		execution := last.Object.GetLabels()["hibernator.ardikabs.com/execution"]
		if execution == "" || last.Verb == watch.Modified {
			return ""
		}
		plan := thePlan(ownedAs(last.Object, faults.StateOf(history)))
		running := plan != nil && slices.ContainsFunc(plan.Status.Executions, func(e v1alpha1.ExecutionStatus) bool {
			return nameIn(e.JobRef) == execution && e.State == v1alpha1.ExecutionRunning
		})
		switch {
		case last.Verb == watch.Added && !running:
			return role(last.Object) + " comes, and is not recorded"
		case last.Own && running:
			return role(last.Object) + " goes, and what came of it is not recorded"
		}
		return ""
	},
	released: func(history []faults.Entry) string {
		last := history[len(history)-1]
		if last.Verb != watch.Deleted || !isPoint(last.Object) {
			return ""
		}
		plan := thePlan(ownedAs(last.Object, faults.StateOf(history)))
		if plan != nil && slices.ContainsFunc(plan.Status.Executions, func(e v1alpha1.ExecutionStatus) bool {
			return e.Target == target(last.Object) && (e.Asleep || e.State == v1alpha1.ExecutionRunning)
		}) {
			return "that of target " + target(last.Object) + " goes, which is recorded as asleep"
		}
		return ""
	},
	withPoint: func(history []faults.Entry) string {
		last := history[len(history)-1]
		if last.Verb != watch.Deleted || !isPoint(last.Object) {
			return ""
		}
		for _, u := range ownedAs(last.Object, faults.StateOf(history)).Of("Secret") {
			if u.GetName() == last.Object.GetName() {
				return "that of target " + target(u) + " is there"
			}
		}
		return ""
	},
	usedLast: func(history []faults.Entry) string {
		last := history[len(history)-1]
		if !isThing(last.Object) || last.Verb == watch.Deleted {
			return ""
		}
		state := faults.StateOf(history)
		plan := thePlan(ownedAs(last.Object, state))
		if plan == nil {
			return ""
		}
		for _, d := range plan.Spec.Execution.Strategy.Dependencies {
			if from, to := thingIn(state, d.From), thingIn(state, d.To); from != nil && to != nil && !asleep(from) && asleep(to) {
				return fmt.Sprintf("%s is awake, and %s sleeps, which it uses", d.From, d.To)
			}
		}
		return ""
	},
	onward: func(history []faults.Entry) string {
		last := history[len(history)-1]
		if last.Verb != watch.Modified || planOf(last.Object) == nil {
			return ""
		}
		var ever []*unstructured.Unstructured // the shards of before may be gone
		var before *v1alpha1.HibernatePlan
		for _, e := range history[:len(history)-1] {
			ever = append(ever, e.Object)
			if p := planOf(e.Object); p != nil && p.UID == last.Object.GetUID() {
				before = p
			}
		}
		if before == nil {
			return ""
		}
		return goesBack(withLedger(before, ever), withLedger(planOf(last.Object), ever))
	},
	inTime: func(history []faults.Entry) string {
		last := history[len(history)-1]
		if last.Verb != watch.Added || last.Object.GetKind() != "Job" {
			return ""
		}
		spec := jobOf(last.Object).Spec
		may := time.Duration(ptr.Deref(spec.ActiveDeadlineSeconds, 0)) * time.Second
		task, err := runners.TaskOf(spec.Template.Spec.Containers[0])
		if err != nil || may != 30*time.Minute || task.Deadline < may-time.Minute || task.Deadline >= may {
			return fmt.Sprintf("that of target %s has %s, and its runner %s (%v)", target(last.Object), may, task.Deadline, err)
		}
		return ""
	},
	tidied: func(history []faults.Entry) string {
		last := history[len(history)-1]
		if last.Verb != watch.Deleted || last.Object.GetKind() != "ControllerRevision" || last.Object.GetLabels()[labelLedger] != "" {
			return ""
		}
		state := ownedAs(last.Object, faults.StateOf(history))
		plan := thePlan(state)
		if plan == nil || plan.DeletionTimestamp != nil {
			return ""
		}
		for _, u := range state.Of("Role") {
			in := func(t v1alpha1.Target) bool { return t.Name == target(u) }
			if u.GetLabels()[v1alpha1.LabelUID] == string(plan.UID) && !slices.ContainsFunc(plan.Spec.Targets, in) {
				return "there is a Role of target " + target(u)
			}
		}
		return ""
	},
	nothingLeft: func(history []faults.Entry) string {
		last, state := history[len(history)-1], faults.StateOf(history)
		plan := withLedger(planOf(last.Object), state)
		if plan == nil || last.Verb == watch.Deleted {
			return ""
		}
		for _, u := range state {
			execution := u.GetLabels()["hibernator.ardikabs.com/execution"]
			if execution != "" && u.GetLabels()[v1alpha1.LabelUID] == string(plan.UID) && !slices.ContainsFunc(plan.Status.Executions, func(e v1alpha1.ExecutionStatus) bool {
				return nameIn(e.ServiceAccountRef) == execution
			}) {
				return role(u) + " is there, and the ledger does not know of it"
			}
		}
		return ""
	},
}

// asleep says whether a thing is.
func asleep(u *unstructured.Unstructured) bool { return configMapOf(u).Data[keyState] != stateAwake }

// thingIn is the thing of a target; nil if there is none.
func thingIn(state faults.State, name string) *unstructured.Unstructured {
	for _, u := range state.Of("ConfigMap") {
		if isThing(u) && target(u) == name {
			return u
		}
	}
	return nil
}

// pointsOf are the restore points of the target of an object, of each plan beside it that has that.
func pointsOf(state faults.State, of *unstructured.Unstructured) (all []*corev1.ConfigMap) {
	for _, u := range state.Of("ConfigMap") {
		if isPoint(u) && target(u) == target(of) && namespaceOf(u) == namespaceOf(of) {
			all = append(all, configMapOf(u))
		}
	}
	return all
}

// value is what the restore points of a thing have kept, as JSON; empty if nothing.
func value(state faults.State, thing *unstructured.Unstructured) string {
	for _, c := range pointsOf(state, thing) {
		if kept := valueIn(c); kept != "" {
			return kept
		}
	}
	return ""
}

// valueIn is what one of them has.
func valueIn(point *corev1.ConfigMap) string {
	p, err := restore.Decode(point.BinaryData[runner.KeyPoint])
	if err != nil {
		return ""
	}
	if resource := p.Resource(key); resource != nil && !resource.Over() && string(resource.Before) != `""` {
		return string(resource.Before)
	}
	return ""
}
